//! Commitments to payloads: how an entry binds bytes that it does not hold, and what opens it.
//!
//! A JSON object is committed to member by member (`commit/2`), so that a bundle can open `amount`
//! and hide `iban`; everything else is committed to as one piece (`commit/1`). One random salt is
//! kept with the bytes and everything is derived from it: once both are erased, the commitment
//! reveals nothing that could be guessed.
//!
//! ```text
//! commit/1  c = SHA-256("wicketgate/commit/1\0" || salt || u64be(len) || bytes)
//! commit/2  c = SHA-256("wicketgate/commit/2\0" || A || B)
//!           A = SHA-256("wicketgate/whole/2\0" || HMAC-SHA-256(salt, "whole") || u64be(len) || bytes)
//!           B = SHA-256("wicketgate/members/2\0" || d_1 || … || d_n), the d ascending
//!           d = SHA-256(disclosure), disclosure = base64url(JCS([base64url(salt_d), name, value]))
//!           salt_d = HMAC-SHA-256(salt, "member:" || name)
//! ```
//!
//! A disclosure has the form of SD-JWT (RFC 9901). `A` opens the exact bytes, `B` single members; a
//! verifier that opens all of it checks both against each other.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::canonical;
use super::digest::{Digest, Salt, commitment};
use super::json::{Json, Limits};

/// Members a payload may have to be committed to member by member.
pub const MEMBERS_MAX: usize = 256;
/// The limits of such a payload: larger ones are never stored, and so never opened.
const LIMITS: Limits =
    Limits { bytes_max: 1 << 20, depth_max: 64, values_max: 131_072, key_bytes_max: 1024 };

/// How a payload was committed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// `commit/1`, as one piece.
    Whole,
    /// `commit/2`, member by member.
    Members {
        /// `B`: the digest over all members.
        members: Digest,
    },
}

impl Scheme {
    /// 1 or 2.
    pub const fn version(self) -> u64 {
        match self {
            Self::Whole => 1,
            Self::Members { .. } => 2,
        }
    }
}

/// Commits to a payload: by its members if it is a JSON object of 1 to 256 of them, else as one
/// piece.
pub fn commit(salt: &Salt, payload: &[u8]) -> Digest {
    let digests = members(salt, payload, |_name, _disclosure, digest| digest);
    let Some((_, digests)) = digests else { return commitment(salt, payload) };
    of_parts(&whole(salt, payload), &all(&digests.into_iter().collect()))
}

/// What `make` makes of name, disclosure and digest of each member of a payload, and the payload, if
/// it is a JSON object of 1 to 256 of them.
fn members<T>(
    salt: &Salt,
    payload: &[u8],
    mut make: impl FnMut(&str, &str, Digest) -> T,
) -> Option<(Json, Vec<T>)> {
    if payload.iter().find(|b| !b.is_ascii_whitespace()) != Some(&b'{') {
        return None;
    }
    let (json, written) = canonical::members(payload, &LIMITS).ok()?;
    let names = json.as_object().filter(|m| (1..=MEMBERS_MAX).contains(&m.len()))?;
    let mut discloser = Discloser::of(salt);
    let member = |(name, member): (&String, &canonical::MemberBytes<'_>)| {
        let digest = discloser.digest(name, member);
        make(name, &discloser.disclosure, digest)
    };
    let made = names.keys().zip(&written).map(member).collect();
    Some((json, made))
}

/// `A`.
fn whole(salt: &Salt, payload: &[u8]) -> Digest {
    let length = u64::try_from(payload.len()).unwrap_or(u64::MAX).to_be_bytes();
    Digest::of(&[b"wicketgate/whole/2\0", &derived(salt, &[b"whole"]), &length, payload])
}

/// How this salt and these bytes open the commitment, if they do.
pub fn opens(c: &Digest, salt: &Salt, payload: &[u8]) -> Option<Scheme> {
    open(c, salt, payload).map(|(scheme, _)| scheme)
}

/// As [`opens`], with the document if it was read for that.
pub fn open(c: &Digest, salt: &Salt, payload: &[u8]) -> Option<(Scheme, Option<Json>)> {
    let read = Parts::read(salt, payload).filter(|(parts, _)| parts.commitment() == *c);
    match read {
        Some((parts, json)) => {
            Some((Scheme::Members { members: parts.members_digest() }, Some(json)))
        }
        None => (commitment(salt, payload) == *c).then_some((Scheme::Whole, None)),
    }
}

/// One member of a payload, ready to be disclosed or hidden.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PayloadMember {
    /// Its name.
    pub name: String,
    /// What discloses it.
    pub disclosure: String,
    /// What represents it when it is hidden.
    pub digest: Digest,
}

/// The parts of a `commit/2`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parts {
    /// `A`: the exact bytes, salted.
    pub whole: Digest,
    /// The members by name.
    pub members: Vec<PayloadMember>,
}

impl Parts {
    /// The parts of a payload, if it is a JSON object of 1 to 256 members.
    pub fn of(salt: &Salt, payload: &[u8]) -> Option<Self> {
        Self::read(salt, payload).map(|(parts, _)| parts)
    }

    /// The same, with the object.
    fn read(salt: &Salt, payload: &[u8]) -> Option<(Self, Json)> {
        let member = |name: &str, disclosure: &str, digest| PayloadMember {
            name: name.to_owned(),
            disclosure: disclosure.to_owned(),
            digest,
        };
        let (json, members) = members(salt, payload, member)?;
        Some((Self { whole: whole(salt, payload), members }, json))
    }

    /// `B`.
    pub fn members_digest(&self) -> Digest {
        all(&self.members.iter().map(|member| member.digest).collect())
    }

    /// The commitment.
    pub fn commitment(&self) -> Digest {
        of_parts(&self.whole, &self.members_digest())
    }

    /// Opens the members of these names and hides all others; absent names have no effect.
    pub fn redacted(&self, open: &BTreeSet<String>) -> Redacted {
        let mut redacted =
            Redacted { whole: self.whole, disclosures: Vec::new(), hidden: BTreeSet::new() };
        for member in &self.members {
            if open.contains(&member.name) {
                redacted.disclosures.push(member.disclosure.clone());
            } else {
                redacted.hidden.insert(member.digest);
            }
        }
        redacted.disclosures.sort();
        redacted
    }
}

/// The commitment of `A` and `B`.
pub fn of_parts(whole: &Digest, members: &Digest) -> Digest {
    Digest::of(&[b"wicketgate/commit/2\0", whole.as_bytes(), members.as_bytes()])
}

/// How a partly opened payload contradicts its commitment.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// A disclosure is not base64url of salt, name and value in canonical form.
    #[error("a disclosure is malformed")]
    Disclosure,
    /// Two disclosures of one member.
    #[error("member `{0}` is there twice")]
    Twice(String),
    /// More than [`MEMBERS_MAX`], open and hidden.
    #[error("more than {MEMBERS_MAX} members")]
    Members,
    /// Members are missing, added or changed.
    #[error("the members are not those that were committed to")]
    Other,
}

/// A payload with some members opened and the others hidden, by name and by value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redacted {
    /// `A`.
    pub whole: Digest,
    /// The disclosures of the open members, ascending.
    pub disclosures: Vec<String>,
    /// The digests of the hidden members.
    pub hidden: BTreeSet<Digest>,
}

impl Redacted {
    /// The open members by name, once everything matches the commitment.
    ///
    /// # Errors
    /// A malformed disclosure, a member twice, or another commitment.
    pub fn open(&self, c: &Digest) -> Result<BTreeMap<String, Json>, Error> {
        let mut digests = self.hidden.clone();
        let mut open = BTreeMap::new();
        for disclosure in &self.disclosures {
            let (name, value) = disclosed(disclosure).ok_or(Error::Disclosure)?;
            if !digests.insert(Digest::of(&[disclosure.as_bytes()])) {
                return Err(Error::Twice(name));
            }
            if open.insert(name.clone(), value).is_some() {
                return Err(Error::Twice(name));
            }
        }
        if digests.len() > MEMBERS_MAX {
            return Err(Error::Members);
        }
        if of_parts(&self.whole, &all(&digests)) == *c { Ok(open) } else { Err(Error::Other) }
    }
}

/// Writes the disclosures of one payload, one after the other, into the same memory.
struct Discloser {
    /// Keyed with the payload's salt.
    mac: Hmac<Sha256>,
    triple: Vec<u8>,
    disclosure: String,
}

impl Discloser {
    fn of(salt: &Salt) -> Self {
        Self { mac: keyed(salt), triple: Vec::new(), disclosure: String::new() }
    }

    /// Writes the disclosure of a member, and returns its digest.
    fn digest(&mut self, name: &str, (quoted, value): &canonical::MemberBytes<'_>) -> Digest {
        let mut mac = self.mac.clone();
        mac.update(b"member:");
        mac.update(name.as_bytes());
        self.disclosure.clear();
        URL_SAFE_NO_PAD.encode_string(mac.finalize().into_bytes(), &mut self.disclosure);
        // RFC 8785 writes an array without space; base64url needs no escape.
        self.triple.clear();
        for part in [&b"[\""[..], self.disclosure.as_bytes(), b"\",", quoted, b",", value, b"]"] {
            self.triple.extend_from_slice(part);
        }
        self.disclosure.clear();
        URL_SAFE_NO_PAD.encode_string(&self.triple, &mut self.disclosure);
        Digest::of(&[self.disclosure.as_bytes()])
    }
}

/// Name and value of a disclosure in its one canonical form.
fn disclosed(disclosure: &str) -> Option<(String, Json)> {
    let bytes = URL_SAFE_NO_PAD.decode(disclosure).ok()?;
    let json = Json::parse(&bytes, &Limits { bytes_max: 1 << 21, ..LIMITS }).ok()?;
    let [salt, name, value] = json.as_array()? else { return None };
    let salt = URL_SAFE_NO_PAD.decode(salt.as_str()?).ok()?;
    let one_form = salt.len() == 32 && canonical::bytes(&json) == bytes;
    one_form.then(|| name.as_str().map(|name| (name.to_owned(), value.clone()))).flatten()
}

/// `B` of these digests.
fn all(digests: &BTreeSet<Digest>) -> Digest {
    let mut pieces: Vec<&[u8]> = vec![b"wicketgate/members/2\0"];
    pieces.extend(digests.iter().map(|digest| digest.as_bytes().as_slice()));
    Digest::of(&pieces)
}

/// A key for one purpose, from the salt of a payload.
pub fn derived(salt: &Salt, purpose: &[&[u8]]) -> [u8; 32] {
    let mut mac = keyed(salt);
    for piece in purpose {
        mac.update(piece);
    }
    mac.finalize().into_bytes().into()
}

fn keyed(salt: &Salt) -> Hmac<Sha256> {
    // As long as the hash's block, a key needs no hashing first (RFC 2104): zeros change nothing.
    let mut block = [0_u8; 64];
    for (to, from) in block.iter_mut().zip(salt) {
        *to = *from;
    }
    Hmac::<Sha256>::new((&block).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SALT: Salt = [7; 32];

    fn parts(text: &str) -> Parts {
        Parts::of(&SALT, text.as_bytes()).unwrap()
    }

    fn names(list: &[&str]) -> BTreeSet<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn objects_are_committed_to_by_member_and_everything_else_as_one_piece() {
        let many = |n: usize| {
            let members: Vec<String> = (0..n).map(|i| format!("\"k{i}\":{i}")).collect();
            format!("{{{}}}", members.join(","))
        };
        let (most, more) = (many(256), many(257));
        let by_member = [r#"{"a":1}"#, r#" {"a": 1.5e3, "b": null} "#, most.as_str()];
        let whole = ["{}", "[1]", "", "text", r#"{"a":1,"a":2}"#, r#"{"a":"#, more.as_str()];
        for text in by_member {
            let c = commit(&SALT, text.as_bytes());
            let opened = opens(&c, &SALT, text.as_bytes()).unwrap();
            assert_eq!(opened.version(), 2, "{text}");
            assert_eq!(opens(&c, &[8; 32], text.as_bytes()), None);
        }
        for text in whole {
            let c = commit(&SALT, text.as_bytes());
            assert_eq!(opens(&c, &SALT, text.as_bytes()), Some(Scheme::Whole), "{text}");
        }
    }

    #[test]
    fn an_object_that_was_committed_to_as_one_piece_is_still_opened() {
        let c = commitment(&SALT, b"{\"a\":1}");
        assert_eq!(opens(&c, &SALT, b"{\"a\":1}"), Some(Scheme::Whole));
        assert_eq!(opens(&c, &SALT, b"{\"a\":2}"), None);
    }

    #[test]
    fn what_is_opened_is_checked_and_what_is_hidden_is_a_digest_only() {
        let parts = parts(r#"{"amount":250,"iban":"DE02","to":{"name":"Ada"}}"#);
        let redacted = parts.redacted(&names(&["amount", "to", "nobody"]));
        let open = redacted.open(&parts.commitment()).unwrap();
        assert_eq!(open.keys().collect::<Vec<_>>(), ["amount", "to"]);
        assert_eq!((redacted.hidden.len(), redacted.disclosures.len()), (1, 2));
        assert!(!redacted.disclosures.concat().contains("iban"));
    }

    #[test]
    fn a_changed_added_removed_or_swapped_member_does_not_fit() {
        let parts = parts(r#"{"amount":250,"iban":"DE02"}"#);
        let other = Parts::of(&[8; 32], br#"{"amount":9,"iban":"DE02"}"#).unwrap();
        let c = parts.commitment();
        let shown = parts.redacted(&names(&["amount"]));
        let foreign = other.redacted(&names(&["amount"])).disclosures;
        let mut changed = vec![shown.clone(); 8];
        changed[0].disclosures = foreign.clone();
        changed[1].disclosures.extend(foreign);
        changed[2].disclosures.clear();
        changed[3].hidden.clear();
        changed[4].hidden.insert(Digest::of(&[b"x"]));
        changed[5].whole = Digest::of(&[b"x"]);
        changed[6].disclosures.push(shown.disclosures[0].clone());
        changed[7].disclosures[0].push('=');
        for redacted in changed {
            redacted.open(&c).unwrap_err();
        }
        assert!(shown.open(&c).is_ok() && shown.open(&other.commitment()).is_err());
        // The same member opened and hidden at once.
        let mut twice = shown.clone();
        twice.hidden.insert(Digest::of(&[shown.disclosures[0].as_bytes()]));
        twice.open(&c).unwrap_err();
    }

    proptest! {
        #[test]
        fn any_choice_of_members_opens_and_any_flipped_bit_does_not(
            values in prop::collection::btree_map("[a-z]{1,8}", 0_i64..1000, 1..12),
            picks in prop::collection::vec(any::<bool>(), 12),
            at in any::<prop::sample::Index>(), bit in 0_u8..7,
        ) {
            let json = Json::object(values.iter().map(|(k, v)| (k.clone(), Json::Int(*v))));
            let parts = Parts::of(&SALT, &canonical::bytes(&json)).unwrap();
            let open: BTreeSet<String> =
                values.keys().zip(&picks).filter(|(_, p)| **p).map(|(k, _)| k.clone()).collect();
            let redacted = parts.redacted(&open);
            let c = parts.commitment();
            prop_assert_eq!(redacted.open(&c).unwrap().len(), open.len());
            if let Some(first) = redacted.disclosures.first() {
                let mut bytes = first.clone().into_bytes();
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
                let mut broken = redacted.clone();
                broken.disclosures[0] = String::from_utf8_lossy(&bytes).into_owned();
                prop_assert!(broken.open(&c).is_err());
            }
        }
    }

    /// `tests/checker/check_ledger.py` computes the same vectors with independent code, and
    /// `tests/checker/test_check_ledger.py` checks them too.
    #[test]
    fn the_golden_vectors_hold() {
        let vectors: Vec<(&str, u64, String)> = include_str!("../../../tests/checker/commit2.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| {
                let (c, rest) = line.split_at(64);
                let (version, payload) = rest.trim_start().split_once(' ').unwrap();
                (payload, version.parse().unwrap(), c.to_owned())
            })
            .collect();
        assert!(vectors.len() >= 10);
        for (payload, version, c) in vectors {
            let made = commit(&SALT, payload.as_bytes());
            assert_eq!(made.hex(), c, "{payload}");
            assert_eq!(opens(&made, &SALT, payload.as_bytes()).unwrap().version(), version);
        }
    }
}
