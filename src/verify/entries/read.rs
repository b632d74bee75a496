//! Reads one stored line by the rules: strict, canonical, within the profile and its kind's schema.

use crate::domain::digest::Digest;
use crate::record::call::Decision;
use crate::record::{Content, Entry, Error, Kind, schema};

/// What is wrong, and the check of ledger.md §2.15 that found it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{check}: {why}")]
pub struct Damage {
    /// `E1`, `S2`, …; `D1` is a shadow column, `D2` a stored hash.
    pub check: &'static str,
    /// For a person.
    pub why: String,
}

impl Damage {
    /// Damage found by this check.
    #[expect(clippy::needless_pass_by_value, reason = "a text or an error, made where it is given")]
    pub fn new(check: &'static str, why: impl ToString) -> Self {
        Self { check, why: why.to_string() }
    }
}

/// One entry with the exact bytes it was read from.
#[derive(Clone, PartialEq, Debug)]
pub struct EntryLine {
    /// The exact bytes.
    pub bytes: Vec<u8>,
    /// The parsed entry. For a kind this build does not know, `draft.kind()` is meaningless: see
    /// `unknown`.
    pub entry: Entry,
    /// Leaf hash of the bytes.
    pub leaf: Digest,
    /// The kind, if this build does not know it. Structure, links and proofs are checked, its
    /// content is not.
    pub unknown: Option<String>,
}

impl EntryLine {
    /// Reads exact bytes.
    ///
    /// # Errors
    /// `E1`, and why the bytes are not an entry.
    pub fn read(bytes: &[u8]) -> Result<Self, Damage> {
        let read = match Entry::parse(bytes) {
            Ok(entry) => schema::header(&entry).map(|()| (entry, None)),
            Err(Error::Kind(_)) => schema::unknown(bytes).map(|(entry, kind)| (entry, Some(kind))),
            Err(error) => Err(error.into()),
        };
        let (entry, unknown) = read.map_err(|why| Damage::new("E1", why))?;
        Ok(Self { bytes: bytes.to_vec(), entry, leaf: Entry::leaf(bytes), unknown })
    }

    /// The name of the kind, known or not.
    pub fn kind(&self) -> &str {
        self.unknown.as_deref().unwrap_or_else(|| self.entry.draft.kind().as_str())
    }

    /// Whether it is of this kind.
    #[must_use]
    pub fn is(&self, kind: Kind) -> bool {
        self.unknown.is_none() && self.entry.draft.kind() == kind
    }

    /// The content, if it is of this kind.
    #[must_use]
    pub fn get<T: Content>(&self) -> Option<&T> {
        self.entry.draft.get().filter(|_| self.unknown.is_none())
    }

    /// The decision about a call, if it is one.
    #[must_use]
    pub fn decision(&self) -> Option<Decision<'_>> {
        self.entry.draft.body.decision()
    }

    /// The log that it is about, if it is an entry of a fleet log.
    #[must_use]
    pub fn log(&self) -> Option<&str> {
        self.entry.draft.body.log()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// A denial with every member that an entry may have.
    fn denial() -> String {
        format!(
            r#"{{"boot":"00c0ffee","call":"c1","chain":"{chain}","commit":[{{"c":"{HASH}","len":2,"role":"args"}}],"data":{{"after":0,"auth":{{"method":"uid","uid":0}},"binding":"claimed","enforced":true,"engine":"rego","executor":"sidecar","layers":[],"obligations":[],"reasons":[{{"code":"a.b","detail":"é\n","message":"","rule":""}}]}},"epoch":1,"kind":"call.denied","mono":"12","policy":"sha256:{HASH}","prev":"{HASH}","rule":"r","run":"00000000-0000-4000-8000-00000000000a","run_prev":"{HASH}","run_seq":1,"seq":9,"tool":"t","ts":"2026-11-21T20:05:03.123Z","v":"wicketgate/entry/1","verdict":"deny"}}"#,
            chain = HASH.split_at(32).0,
        )
    }

    #[test]
    fn every_member_has_one_spelling() {
        let valid = denial();
        let line = EntryLine::read(valid.as_bytes()).unwrap();
        assert_eq!(line.entry.bytes(), valid.as_bytes());
        let run = "00000000-0000-4000-8000-00000000000a";
        for (from, to) in [
            (r#""mono":"12""#, r#""mono":"012""#),
            (r#""mono":"12""#, r#""mono":"+12""#),
            (r#""mono":"12""#, r#""mono":"""#),
            (r#""mono":"12""#, r#""mono":12"#),
            ("policy\":\"sha256:", "policy\":\"sha256:sha256:"),
            ("policy\":\"sha256:", "policy\":\""),
            ("prev\":\"0", "prev\":\"sha256:0"),
            ("{\"c\":\"0123456789ab", "{\"c\":\"0123456789AB"),
            (r#""len":2"#, r#""len":-2"#),
            (r#""len":2"#, r#""len":2.0"#),
            (r#""len":2,"role":"args""#, r#""len":2,"role":"args","x":1"#),
            (
                "\"run\":\"00000000-0000-4000-8000-00000000000a",
                "\"run\":\"00000000-0000-4000-8000-00000000000A",
            ),
            (run, "0000000000004000800000000000000a"),
            (run, "{00000000-0000-4000-8000-00000000000a}"),
            (r#""run_seq":1,"#, ""),
            ("\"run\":\"00000000-0000-4000-8000-00000000000a\",", ""),
            ("05:03.123Z", "05:03.1230Z"),
            ("05:03.123Z", "05:03.123+00:00"),
            ("20:05:03", "20:05:60"),
            (r#""epoch":1"#, r#""epoch":1.0"#),
            (r#""epoch":1"#, r#""epoch":01"#),
            (r#""seq":9"#, r#""seq":9,"seq":9"#),
            (r#""rule":"r""#, r#""rule":"\u0072""#),
            (r#""rule":"r""#, r#""rule": "r""#),
            (r#""rule":"r""#, r#""rules":"r""#),
            (r#""boot":"00c0ffee","call":"c1""#, r#""call":"c1","boot":"00c0ffee""#),
            (r#""verdict":"deny""#, r#""verdict":"Deny""#),
            (r#""kind":"call.denied""#, r#""kind":"heartbeat""#),
            (r#""after":0,"#, ""),
        ] {
            let other = valid.replacen(from, to, 1);
            assert_ne!(other, valid, "{from}");
            assert!(EntryLine::read(other.as_bytes()).is_err(), "{to}");
        }
        let (before, list) = valid.split_once("\"commit\":[").unwrap();
        let (_, after) = list.split_once("}],").unwrap();
        let empty = format!("{before}\"commit\":[],{after}");
        assert_eq!(
            EntryLine::read(empty.as_bytes()).unwrap_err().why,
            "entry: `commit`: fewer than 1 items at line 1 column 85"
        );
    }

    #[test]
    fn an_unknown_kind_is_read_for_its_header_and_the_header_has_one_spelling_too() {
        let other = denial().replacen("call.denied", "call.dreamt", 1);
        let line = EntryLine::read(other.as_bytes()).unwrap();
        assert_eq!(line.kind(), "call.dreamt");
        let respelled = other.replacen(r#""mono":"12""#, r#""mono":"012""#, 1);
        assert!(EntryLine::read(respelled.as_bytes()).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn what_is_read_is_written_again_byte_for_byte(
            at in any::<prop::sample::Index>(),
            bytes in prop::collection::vec(prop::sample::select(b"0123456789abcfAF\"\\,:{}[]-. TZ+".to_vec()), 0..3),
            over in 0_usize..3,
        ) {
            let mut text = denial().into_bytes();
            let at = at.index(text.len());
            let end = (at + over).min(text.len());
            text.splice(at..end, bytes);
            if let Ok(line) = EntryLine::read(&text)
                && line.unknown.is_none()
            {
                prop_assert_eq!(line.entry.bytes(), text);
            }
        }
    }
}
