//! What left of the answer of one call while the call ran: its progress, and its end.

use super::read::EntryLine;
use crate::record::call::{CallProgress, CallUnknown, Stream};
use crate::record::{Kind, Role};

/// How an entry of a call does not fit the progress recorded before it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// Progress that is not beyond the progress before.
    #[error("its progress is not beyond {bytes} bytes in {pieces} pieces")]
    Progress {
        /// Bytes that had left before.
        bytes: u64,
        /// Pieces that had left before.
        pieces: u64,
    },
    /// An end whose account of the answer contradicts the newest progress.
    #[error("`observed.stream` contradicts the last progress, {bytes} bytes in {pieces} pieces")]
    Stream {
        /// Bytes of the newest progress.
        bytes: u64,
        /// Pieces of the newest progress.
        pieces: u64,
    },
    /// An end of this kind without an account of the answer.
    #[error("`{0}` after progress, but no `observed.stream`")]
    NoStream(String),
    /// A payload of role `stream` of another length than what left, or where nothing left.
    #[error("its payload `stream` is not what `observed.stream` says that left")]
    Kept,
    /// Another count than that of the newest progress.
    #[error("`covered_bytes` is not what the last progress covers")]
    Covered,
}

/// Takes a call's next entry. `cut`: entries of the call before it may not have been read.
///
/// # Errors
/// How the entry does not fit the progress.
pub fn accept(
    progress: &mut Option<CallProgress>,
    line: &EntryLine,
    cut: bool,
) -> Result<(), Error> {
    let last = progress.as_ref().map(|last| (last.bytes.get(), last.pieces.get()));
    let (bytes, pieces) = last.unwrap_or_default();
    if let Some(next) = line.get::<CallProgress>() {
        if next.bytes.get() <= bytes || next.pieces.get() <= pieces {
            return Err(Error::Progress { bytes, pieces });
        }
        *progress = Some(next.clone());
        return Ok(());
    }
    kept(line)?;
    let covered = line.get::<CallUnknown>().and_then(|unknown| unknown.covered_bytes);
    let Some(last) = progress else {
        return if covered.is_none() || cut { Ok(()) } else { Err(Error::Covered) };
    };
    if covered.is_some_and(|covered| covered != last.bytes) {
        return Err(Error::Covered);
    }
    let observed = line.entry.draft.body.observed();
    match observed.and_then(|observed| observed.stream.as_ref()) {
        Some(stream) if continues(last, stream) => Ok(()),
        Some(_) => Err(Error::Stream { bytes, pieces }),
        // The gate that knew the rest ended.
        None if line.is(Kind::CallUnknown) => Ok(()),
        None => Err(Error::NoStream(line.kind().to_owned())),
    }
}

/// Compares the length of the stored events with that of what left. P1 compares the bytes.
fn kept(line: &EntryLine) -> Result<(), Error> {
    let kept = line.entry.draft.commit.iter().filter(|c| c.role == Role::Stream);
    // A long answer is stored in several payloads.
    let stored = kept.map(|c| c.len.get()).reduce(u64::saturating_add);
    let Some(stored) = stored else { return Ok(()) };
    let left = line.entry.draft.body.observed().and_then(|observed| observed.stream.as_ref());
    if left.is_some_and(|left| left.bytes.get() == stored) { Ok(()) } else { Err(Error::Kept) }
}

/// Whether an answer that had left as far as `last` can have left like this in the end.
fn continues(last: &CallProgress, all: &Stream) -> bool {
    if all.bytes == last.bytes {
        return all.pieces >= last.pieces && all.sha256 == last.sha256;
    }
    all.bytes > last.bytes && all.pieces > last.pieces
}
