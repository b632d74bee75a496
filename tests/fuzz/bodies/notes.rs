//! Notes, cosignatures, keys in text, proofs in files, and time stamps.

use wicketgate::crypto::cosign;
use wicketgate::crypto::note::{self, Checkpoint, VerifierKey};
use wicketgate::crypto::tlog_proof::TlogProof;
use wicketgate::crypto::tsp::{self, ExpectedResponse};
use wicketgate::domain::digest::Digest;

use super::{key, text};

/// The one head that the log's key and the witness's key of the corpus have signed.
pub fn head() -> Checkpoint {
    Checkpoint { origin: "example.org/log".into(), size: 7, root: Digest::of(&[b"root"]) }
}

pub const WITNESS: &str = "witness.example.org";
/// Seconds since 1970 at which the witness signed.
pub const TIME: u64 = 1_795_000_000;
pub const STAMPED: &[u8] = b"example.org/log\n7\n";
const CA: &[u8] = include_bytes!("../../../fuzz/tsa/ca.pem");

fn keys() -> Vec<VerifierKey> {
    vec![
        VerifierKey::log(&head().origin, key(1).public()),
        VerifierKey::witness(WITNESS, key(2).public()),
    ]
}

/// A note that reads is one checkpoint in one spelling; one that opens is the one that was signed.
pub fn note(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let parsed = Checkpoint::parse(text);
    if let Ok((checkpoint, lines)) = &parsed {
        let block: String = lines.iter().map(|line| format!("{line}\n")).collect();
        assert_eq!(format!("{}\n{block}", checkpoint.body()), text, "two spellings of one note");
        assert_eq!(Checkpoint::read(&checkpoint.body()).as_ref(), Ok(checkpoint));
    }
    assert!(note::split(text).is_ok() || parsed.is_err());
    let known = keys();
    if let Ok((checkpoint, held)) = Checkpoint::open_with(text, &known) {
        assert_eq!(checkpoint, head(), "a forged head opens");
        assert!(held.iter().all(|held| held.time.is_none_or(|time| time == TIME)));
    }
    if let Ok(checkpoint) = Checkpoint::open(text, &key(1).public()) {
        assert_eq!(checkpoint, head(), "a forged head opens");
    }
}

/// Only the witness's own bytes are its cosignature, and only of the head it signed.
pub fn cosignature(bytes: &[u8]) {
    let (body, witness) = (head().body(), key(2).public());
    if let Some(time) = cosign::verify(bytes, &witness, &body) {
        assert_eq!(time, TIME, "a forged cosignature");
    }
    let other = Checkpoint { size: 8, ..head() };
    assert_eq!(cosign::verify(bytes, &witness, &other.body()), None);
}

/// A key in text has one spelling.
pub fn vkey(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if let Ok(key) = VerifierKey::parse(text) {
        assert_eq!(key.to_string(), text, "two spellings of one key");
        assert!(note::is_name(&key.name));
    }
}

/// A proof file has one spelling; one that is right about the leaf of the corpus has its path.
pub fn proof(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let Ok(proof) = TlogProof::parse(text) else { return };
    assert_eq!(proof.to_text(), text, "two spellings of one proof");
    // Whatever it says: no preimage of a leaf that was never hashed is found by a fuzzer.
    assert!(!proof.includes(&Digest::of(&[b"no leaf"])));
}

/// A stamp that holds is the one the authority of the corpus made.
pub fn stamp(bytes: &[u8]) {
    let authorities = tsp::authorities(CA).unwrap();
    let imprint = Digest::of(&[STAMPED]);
    if let Ok(stamp) =
        tsp::verify(bytes, ExpectedResponse { imprint: &imprint, nonce: None }, &authorities)
    {
        let kept = include_str!("../../../fuzz/tsa/time.txt").trim();
        assert_eq!(stamp.millis.to_string(), kept, "a forged stamp");
    }
    let other = Digest::of(&[b"other"]);
    assert!(
        tsp::verify(bytes, ExpectedResponse { imprint: &other, nonce: None }, &authorities)
            .is_err()
    );
}
