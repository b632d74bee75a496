//! The numbers of the narrow tables (`migrations/sqlite/0002_narrow.sql`).

use crate::domain::digest::Digest;
use crate::domain::id::{CallId, Seq};
use crate::ledger::store::StoreError;

/// Bits of an entry's place in its chain.
const SEQ_BITS: u32 = 40;
/// Bits of a payload's number among those of its entry.
const PAYLOAD_BITS: u32 = 4;
/// Bits of the digest of a call's id.
const CALL_BITS: u32 = 32;

/// A value of SQLite.
///
/// # Errors
/// It is larger than SQLite's largest integer.
pub(super) fn number(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(|_| StoreError::Unavailable(format!("{value} is too large")))
}

/// The id of an entry, or of the first one that may follow in a chain.
///
/// # Errors
/// The chain is full.
pub(super) fn entry_id(chain: i64, seq: Seq) -> Result<i64, StoreError> {
    let seq = number(seq).ok().filter(|seq| *seq <= 1 << SEQ_BITS);
    let id = seq.and_then(|seq| chain.checked_mul(1 << SEQ_BITS)?.checked_add(seq));
    id.ok_or_else(|| StoreError::Unavailable("the chain is full".into()))
}

/// The id of an entry's first payload; of an entry's `k`-th, if there are that many ids.
pub(super) fn payload_id(entry: i64, k: usize) -> Option<i64> {
    let k = i64::try_from(k).ok().filter(|k| *k < 1 << PAYLOAD_BITS)?;
    entry.checked_mul(1 << PAYLOAD_BITS)?.checked_add(k)
}

/// The `call` of an entry: the number of its run, and a digest of its call's id.
///
/// # Errors
/// There are too many runs.
pub(super) fn call_key(run: i64, call: Option<&CallId>) -> Result<i64, StoreError> {
    let digest = call.map_or(0, |call| call_digest(call.as_str()));
    let key = run.checked_mul(1 << CALL_BITS).and_then(|run| run.checked_add(digest));
    key.ok_or_else(|| StoreError::Unavailable("the file holds too many runs".into()))
}

/// The first 32 bits of the SHA-256 of a call's id, the lowest bit set: never 0.
pub(super) fn call_digest(call: &str) -> i64 {
    let digest = Digest::of(&[call.as_bytes()]);
    let [a, b, c, d, ..] = *digest.as_bytes();
    i64::from(u32::from_be_bytes([a, b, c, d | 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_neighbours_never_meet() {
        let last = (1 << SEQ_BITS) - 1;
        assert_eq!(entry_id(1, last).unwrap() + 1, entry_id(2, 0).unwrap());
        assert!(entry_id(0, (1 << SEQ_BITS) + 1).is_err());
        assert!(entry_id(0, u64::MAX).is_err());
        let entry = entry_id(3, 9).unwrap();
        assert_eq!(payload_id(entry, 15).map(|id| id + 1), payload_id(entry + 1, 0));
        assert_eq!(payload_id(entry, 16), None);
        let call = CallId::parse("c").unwrap();
        let (run, of_call) = (call_key(7, None).unwrap(), call_key(7, Some(&call)).unwrap());
        assert!(run < of_call && of_call < call_key(8, None).unwrap());
        assert!(call_key(1 << 31, None).is_err());
    }
}
