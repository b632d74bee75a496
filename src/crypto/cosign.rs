//! Cosignatures of witnesses, version 1 (c2sp.org/tlog-cosignature): "as of this time this is the newest
//! head I have seen of this log, and it extends all I saw before".

use super::keys::{PublicKey, SecretKey};
use super::note::{Checkpoint, SignatureLine, VerifierKey};

/// Bytes of a cosignature: the time, then the signature.
const BYTES: usize = 8 + 64;
/// The latest permitted time.
const TIME_MAX: u64 = i64::MAX.unsigned_abs();

/// The signed text: a header line, the time in seconds since 1970, and the text of the note.
pub fn message(time: u64, text: &str) -> String {
    format!("cosignature/v1\ntime {time}\n{text}")
}

/// The signature line of this witness over a checkpoint, at this time in seconds since 1970.
pub fn cosign(name: &str, key: &SecretKey, time: u64, checkpoint: &Checkpoint) -> SignatureLine {
    let mut signature = time.to_be_bytes().to_vec();
    signature.extend_from_slice(&key.sign(message(time, &checkpoint.body()).as_bytes()));
    let hash = VerifierKey::witness(name, key.public()).hash();
    SignatureLine { name: name.to_owned(), hash, signature }
}

/// The time at which this key vouches for the text, if the bytes are its cosignature of it.
pub fn verify(bytes: &[u8], key: &PublicKey, text: &str) -> Option<u64> {
    let (time, signature) = bytes.split_at_checked(8).filter(|_| bytes.len() == BYTES)?;
    let time = u64::from_be_bytes(<[u8; 8]>::try_from(time).ok()?);
    let signature = <[u8; 64]>::try_from(signature).ok()?;
    let holds = key.verifies(message(time, text).as_bytes(), &signature);
    (time <= TIME_MAX && holds).then_some(time)
}
