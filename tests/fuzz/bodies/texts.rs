//! JSON, entries, envelopes, manifests and trust files.

use std::path::Path;

use wicketgate::crypto::dsse;
use wicketgate::domain::canonical;
use wicketgate::domain::json::{Json, Limits};
use wicketgate::evidence::trust::Trust;
use wicketgate::identity;
use wicketgate::ledger::verify::EntryLine;
use wicketgate::record::Entry;
use wicketgate::yaml;

use super::{key, text};

pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// The one payload that the key of the corpus has signed.
pub const PAYLOAD: &[u8] = br#"{"_type":"https://in-toto.io/Statement/v1"}"#;

/// What our reader takes, another takes too and reads the same; its canonical form is a fixed point
/// and the one that an implementation nobody here wrote makes.
pub fn json(bytes: &[u8]) {
    for limits in [Limits::ARGUMENTS, Limits::ENTRY, Limits::FILE] {
        let Ok(ours) = Json::parse(bytes, &limits) else { continue };
        let made = canonical::bytes(&ours);
        let again = Json::parse(&made, &Limits::FILE).unwrap();
        assert_eq!(canonical::bytes(&again), made, "the canonical form is no fixed point");
        let theirs: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        assert_eq!(serde_json_canonicalizer::to_vec(&theirs).unwrap(), made);
    }
}

/// An entry that reads is in its one spelling.
pub fn entry(bytes: &[u8]) {
    let Ok(line) = EntryLine::read(bytes) else { return };
    assert_eq!(line.bytes, bytes);
    assert_eq!(line.leaf, Entry::leaf(bytes));
    if line.unknown.is_none() {
        assert_eq!(line.entry.bytes(), bytes, "two spellings of one entry");
    }
    let json = Json::parse(bytes, &Limits::ENTRY).unwrap();
    assert_eq!(canonical::bytes(&json), bytes);
}

/// An envelope that opens holds what was signed.
pub fn dsse(bytes: &[u8]) {
    if let Ok(opened) = dsse::open(bytes, PAYLOAD_TYPE, &[key(1).public()], 1) {
        assert_eq!(opened.payload, PAYLOAD, "a forged payload opens");
        assert_eq!(opened.signers, [key(1).public().id()]);
    }
    assert!(dsse::open(bytes, "text/plain", &[key(1).public()], 1).is_err());
    assert!(dsse::open(bytes, PAYLOAD_TYPE, &[key(9).public()], 1).is_err());
}

/// A manifest is read or refused, and what is refused says where.
pub fn manifest(bytes: &[u8]) {
    let typed = identity::read(bytes, "agent.yaml");
    let untyped = yaml::from_slice::<serde_json::Value>(bytes, "agent.yaml");
    assert!(typed.is_err() || untyped.is_ok());
    if let Err(error) = untyped {
        assert!(error.to_string().starts_with("agent.yaml"), "{error}");
    }
}

/// A trust file that can be read trusts only keys it spells out; it names no file that is there.
pub fn trust(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let path = Path::new("/nonexistent/trust.txt");
    match Trust::parse(text, path) {
        Ok(trust) => {
            let lines = text.lines().filter(|line| !line.trim_start().starts_with('#')).count();
            let told = trust.evidence.len() + trust.enrolment.len() + trust.manifest.len();
            assert!(told + trust.policies.len() + trust.heads.len() <= lines);
            assert!(trust.quorum.is_none_or(|quorum| quorum > 0));
            assert!(trust.heads.iter().all(|head| head.size > 0));
        }
        Err(error) => {
            assert!(error.to_string().starts_with("`/nonexistent/trust.txt` line "), "{error}");
        }
    }
}
