//! What has left of an answer: counted, recorded while the call runs, and kept for a replay.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

use super::super::drafts::STREAM_MAX;
use super::{FlowKeeper, FlowStopped};
use crate::domain::digest::Digest;
use crate::domain::outcome::StreamSeen;

/// How many bytes leave at most before their progress is recorded.
const PROGRESS_BYTES: u64 = 256 * 1024;
/// How long bytes leave at most before their progress is recorded.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// What has left of an answer, and its records in the ledger.
pub(super) struct ProgressRecorder {
    pub keeper: Arc<dyn FlowKeeper>,
    hash: Sha256,
    /// The bytes, if they are kept and can be stored.
    pub kept: Option<Vec<u8>>,
    pub bytes: u64,
    pub pieces: u64,
    first_ms: Option<u64>,
    began: Duration,
    /// Bytes that have left and that no record covers: since when, and how many.
    pending: Option<(Duration, u64)>,
    /// The record that may not be durable yet.
    recording: Option<oneshot::Receiver<()>>,
}

impl ProgressRecorder {
    pub fn new(keeper: Arc<dyn FlowKeeper>) -> Self {
        let began = keeper.now();
        let (hash, first_ms, pending, recording) = (Sha256::new(), None, None, None);
        let kept = keeper.keeps().then(Vec::new);
        Self { keeper, hash, kept, bytes: 0, pieces: 0, first_ms, began, pending, recording }
    }

    /// Counts bytes that leave next.
    pub fn count(&mut self, bytes: &Bytes) {
        self.hash.update(bytes);
        // WHY not a part: what cannot be stored whole cannot be played either.
        let fits = |kept: &Vec<u8>| kept.len().saturating_add(bytes.len()) <= STREAM_MAX;
        self.kept = self.kept.take().filter(fits);
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(bytes);
        }
        let now = self.keeper.now();
        self.first_ms.get_or_insert_with(|| {
            u64::try_from(now.saturating_sub(self.began).as_millis()).unwrap_or(u64::MAX)
        });
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(length);
        self.pieces = self.pieces.saturating_add(1);
        let (since, pending) = self.pending.unwrap_or((now, 0));
        self.pending = Some((since, pending.saturating_add(length)));
    }

    /// All that has left.
    pub fn seen(&self) -> StreamSeen {
        StreamSeen {
            bytes: self.bytes,
            sha256: Digest::from_bytes(self.hash.clone().finalize().into()),
            pieces: self.pieces,
            first_ms: self.first_ms,
        }
    }

    /// What was taken. WHY none is no reason to stop while another request waits for the answer: that
    /// one gets it whole.
    pub fn unless_awaited<T>(
        &mut self,
        taken: Result<T, FlowStopped>,
    ) -> Result<Option<T>, FlowStopped> {
        match taken {
            Ok(taken) => Ok(Some(taken)),
            Err(FlowStopped::Left) if self.keeper.is_awaited() => {
                // What did not leave whole is no stream to play.
                self.kept = None;
                Ok(None)
            }
            Err(stopped) => Err(stopped),
        }
    }

    pub fn is_due(&self) -> bool {
        let now = self.keeper.now();
        self.pending.is_some_and(|(since, bytes)| {
            bytes >= PROGRESS_BYTES || now.saturating_sub(since) >= PROGRESS_AFTER
        })
    }

    /// Completes when bytes have been without a record for too long.
    fn overdue(&self) -> impl Future<Output = ()> + Send + use<> {
        let now = self.keeper.now();
        let left =
            self.pending.map(|(since, _)| PROGRESS_AFTER.saturating_sub(now.saturating_sub(since)));
        async move {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Records what has left. One record may be under way; the next one waits for it, and the stream
    /// with it.
    pub async fn record(&mut self) -> Result<(), FlowStopped> {
        if let Some(former) = self.recording.take()
            && former.await.is_err()
        {
            return Err(FlowStopped::Unrecorded);
        }
        self.recording = Some(self.keeper.progress(self.seen()));
        self.pending = None;
        Ok(())
    }

    /// Waits for something, and records meanwhile what becomes due.
    pub async fn beside<T>(
        &mut self,
        what: impl Future<Output = T> + Send,
    ) -> Result<T, FlowStopped> {
        tokio::pin!(what);
        loop {
            let overdue = self.overdue();
            tokio::select! {
                biased;
                done = &mut what => return Ok(done),
                () = overdue => self.record().await?,
            }
        }
    }
}

/// What had left of an answer when its end was handed over, and how many bytes of that are kept.
#[derive(Debug)]
pub(super) struct BeforeEnd {
    pub seen: StreamSeen,
    pub kept: usize,
}

/// What left of an answer, and the bytes themselves if they are kept. The end is among it, which leaves
/// only if the call completes.
#[derive(Debug, Default)]
pub(in crate::ledger) struct LeftStream {
    pub(super) whole: Option<Left>,
    pub(super) before_end: Option<BeforeEnd>,
}

/// What left, and the bytes if they are kept.
pub(in crate::ledger) type Left = (StreamSeen, Option<Vec<u8>>);

impl LeftStream {
    /// Whether anything left.
    pub const fn has_left(&self) -> bool {
        self.whole.is_some()
    }

    /// What left of the answer of a call that completed or did not; `None` if nothing did.
    pub fn of(self, completed: bool) -> Option<Left> {
        let Self { whole, before_end } = self;
        let (seen, mut kept) = whole?;
        let Some(BeforeEnd { seen, kept: length }) = before_end.filter(|_| !completed) else {
            return Some((seen, kept));
        };
        if let Some(kept) = &mut kept {
            kept.truncate(length);
        }
        (seen.pieces > 0).then_some((seen, kept))
    }
}
