//! The tokens of an answer that leaves while its call runs.
//!
//! A model answers piece by piece. A piece leaves only while the permit of its call is held, a tool
//! call of the answer only after it was allowed and that is durable, and the end only after the
//! outcome is durable. Each is a type of its own here; a face can send nothing else.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use hyper::body::Bytes;
use tokio::sync::{Semaphore, mpsc, oneshot};

pub(super) use self::progress::LeftStream;
use self::progress::{BeforeEnd, ProgressRecorder};
use super::permit::{Permit, Receipt};
use crate::domain::code::Code;
use crate::domain::id::CallId;
use crate::domain::outcome::StreamSeen;

mod progress;

/// Bytes between the executor and the agent. When they are full, the provider is not read.
const ROOM: usize = 64 * 1024;
/// Pieces between the executor and the agent.
const PIECES: usize = 64;

/// The status and the headers with which a model began to answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowHead {
    /// The HTTP status of the provider.
    pub status: u16,
    /// Headers of the provider that the agent receives: names in lower case.
    pub headers: Vec<(String, String)>,
    /// Whether pieces follow; otherwise the answer comes whole.
    pub streams: bool,
    /// The position of the entry that allows the call.
    pub receipt: Receipt,
}

/// Bytes of an answer that the permit of its call covers: whole events, framed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece(Bytes);

impl Piece {
    /// The bytes, to be sent.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

/// The events that end an answer, and proof that the outcome of its call is durable.
#[derive(Debug)]
#[must_use]
pub struct Last {
    bytes: Bytes,
    receipt: Receipt,
}

impl Last {
    /// The end of an answer whose outcome is recorded there. Only `enforce::asking` calls this,
    /// with the receipt of a released answer.
    pub(crate) fn of(sealed: SealedEnd, receipt: Receipt) -> Self {
        Self { bytes: sealed.0, receipt }
    }

    /// The position of the entry that records the outcome.
    pub const fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// The bytes, to be sent: the stream ends after them.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

/// The end of an answer before its outcome is durable: no code can read it.
#[derive(Debug)]
pub struct SealedEnd(Bytes);

/// What the receiver of a flow gets.
#[derive(Debug)]
pub enum FlowItem {
    /// The provider's status and headers. One that is no success ends the flow.
    Head(FlowHead),
    /// Bytes to send.
    Piece(Piece),
    /// The end, to be opened once the outcome is durable.
    End(SealedEnd),
}

/// A tool call of an answer, complete and not yet shown to the agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProposedCall {
    /// Its place among the tool calls of the answer, from 0.
    pub index: u64,
    /// The id that the provider gave it.
    pub id: String,
    /// The name under which the tool was offered; `<namespace>.<name>` for one of a namespace.
    pub name: String,
    /// The arguments of the call if it leaves: as the model wrote them, but for what the policy of the
    /// model's call masks. The agent makes the call with them, so they are judged and recorded.
    pub arguments: String,
    /// Whether the tool takes free text, which stands in `{"input": …}`.
    pub custom: bool,
}

/// Proof that a tool call of an answer may leave, and that this is durable.
#[derive(Debug)]
#[must_use]
pub struct Cleared {
    arguments: Option<String>,
}

impl Cleared {
    /// A tool call whose allowance is durable. `arguments`: those that leave, if they are not those
    /// that were proposed. Only `enforce::proposals` calls this.
    pub(crate) const fn of(arguments: Option<String>) -> Self {
        Self { arguments }
    }

    /// The arguments that leave, if they are not those that were proposed.
    pub(crate) fn arguments(&self) -> Option<&str> {
        self.arguments.as_deref()
    }
}

/// A tool call of an answer that does not leave as it is; the denial is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeniedProposal {
    /// The code of the denial.
    pub code: Code,
    /// The rule that denied it.
    pub rule: String,
    /// What a model reads about it.
    pub message: String,
    /// The call that records it.
    pub call: Option<CallId>,
}

/// What became of a tool call of an answer.
#[derive(Debug)]
pub enum Clearance {
    /// It may leave.
    Allowed(Cleared),
    /// It may not.
    Denied(DeniedProposal),
    /// It could not be decided: the answer must end here, without its end.
    Undecided,
}

/// What the road does for an answer that leaves while its call runs.
#[async_trait]
pub trait FlowKeeper: Send + Sync {
    /// Judges the tool calls of an answer that became complete together, in their order.
    async fn propose(&self, calls: Vec<ProposedCall>) -> Vec<Clearance>;

    /// Begins to record what has left. The receiver gets a value once that is durable, and none if it
    /// cannot be.
    fn progress(&self, seen: StreamSeen) -> oneshot::Receiver<()>;

    /// Whether the bytes that leave are kept: the run is recorded for a replay.
    fn keeps(&self) -> bool {
        false
    }

    /// The time since an arbitrary moment.
    fn now(&self) -> Duration;

    /// Whether a request waits for the answer, be it another than the one that takes the pieces.
    fn is_awaited(&self) -> bool;
}

/// Why an answer stops before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FlowStopped {
    /// The agent takes nothing any more.
    #[error("the agent left")]
    Left,
    /// What has left cannot be recorded.
    #[error("the ledger does not record what has left")]
    Unrecorded,
}

/// The executor's end of a flow that has no permit yet.
pub struct FlowSender {
    items: mpsc::Sender<FlowItem>,
    room: Arc<Semaphore>,
    keeper: Arc<dyn FlowKeeper>,
}

crate::record::debug_by!(FlowSender: room);

impl FlowSender {
    /// Whether the agent left, so that the answer is not taken.
    pub(crate) fn is_left(&self) -> bool {
        self.items.is_closed()
    }
}

/// The agent's end of a flow.
#[derive(Debug)]
pub struct FlowReceiver {
    items: mpsc::Receiver<FlowItem>,
    room: Arc<Semaphore>,
}

/// The two ends of a flow.
pub(crate) fn channel(keeper: Arc<dyn FlowKeeper>) -> (FlowSender, FlowReceiver) {
    let (sender, items) = mpsc::channel(PIECES);
    let room = Arc::new(Semaphore::new(ROOM));
    (FlowSender { items: sender, room: Arc::clone(&room), keeper }, FlowReceiver { items, room })
}

impl FlowReceiver {
    /// The next item; `None` once the executor has ended.
    pub(crate) async fn next(&mut self) -> Option<FlowItem> {
        let item = self.items.recv().await?;
        if let FlowItem::Piece(Piece(bytes)) = &item {
            self.room.add_permits(weight(bytes));
        }
        Some(item)
    }
}

/// The room that a piece takes: never more than there is.
fn weight(bytes: &Bytes) -> usize {
    bytes.len().min(ROOM)
}

/// The way of the answer of one permitted call to its agent. It borrows the permit: it ends before
/// the permit is spent, and leaves in it what has left of the answer.
pub struct Flow<'permit> {
    permit: &'permit Permit,
    items: mpsc::Sender<FlowItem>,
    room: Arc<Semaphore>,
    progress: ProgressRecorder,
    /// What had left before the end was handed over.
    before_end: Option<BeforeEnd>,
}

impl std::fmt::Debug for Flow<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flow").field("bytes", &self.progress.bytes).finish_non_exhaustive()
    }
}

impl Permit {
    /// Begins the answer of this call.
    pub(crate) fn flow(&self, to: FlowSender) -> Flow<'_> {
        self.flows();
        let FlowSender { items, room, keeper } = to;
        let progress = ProgressRecorder::new(keeper);
        Flow { permit: self, items, room, progress, before_end: None }
    }
}

impl Flow<'_> {
    /// Passes the provider's status and headers on.
    ///
    /// # Errors
    /// The agent left.
    pub async fn head(
        &mut self,
        (status, streams): (u16, bool),
        headers: Vec<(String, String)>,
    ) -> Result<(), FlowStopped> {
        let receipt = self.permit.receipt().clone();
        let head = FlowItem::Head(FlowHead { status, headers, streams, receipt });
        let taken = self.items.send(head).await.map_err(|_| FlowStopped::Left);
        self.progress.unless_awaited(taken).map(|_| ())
    }

    /// Sends bytes of the answer that are no tool call and not its end.
    ///
    /// # Errors
    /// The agent left; or what has left before cannot be recorded.
    pub async fn piece(&mut self, bytes: Bytes) -> Result<(), FlowStopped> {
        self.send(bytes).await
    }

    /// Sends the bytes of a tool call that may leave.
    ///
    /// # Errors
    /// As [`Self::piece`].
    pub async fn cleared(&mut self, cleared: Cleared, bytes: Bytes) -> Result<(), FlowStopped> {
        drop(cleared);
        self.send(bytes).await
    }

    /// Has tool calls of the answer judged.
    ///
    /// # Errors
    /// What has left before cannot be recorded.
    pub async fn propose(
        &mut self,
        calls: Vec<ProposedCall>,
    ) -> Result<Vec<Clearance>, FlowStopped> {
        let keeper = Arc::clone(&self.progress.keeper);
        self.beside(keeper.propose(calls)).await
    }

    /// Waits for something. What has left before is recorded in time, however long it takes.
    ///
    /// # Errors
    /// What has left before cannot be recorded.
    pub(crate) async fn beside<T>(
        &mut self,
        what: impl Future<Output = T> + Send,
    ) -> Result<T, FlowStopped> {
        self.progress.beside(what).await
    }

    /// Hands the end of the answer over. It leaves once the outcome is durable.
    ///
    /// # Errors
    /// As [`Self::piece`].
    pub async fn end(mut self, bytes: Bytes) -> Result<(), FlowStopped> {
        let (seen, kept) = (self.progress.seen(), self.progress.kept.as_ref().map_or(0, Vec::len));
        self.before_end = Some(BeforeEnd { seen, kept });
        if !self.items.is_closed() {
            self.progress.count(&bytes);
        }
        let end = FlowItem::End(SealedEnd(bytes));
        let taken = self.items.send(end).await.map_err(|_| FlowStopped::Left);
        self.progress.unless_awaited(taken).map(|_| ())
    }

    async fn send(&mut self, bytes: Bytes) -> Result<(), FlowStopped> {
        if bytes.is_empty() {
            return Ok(());
        }
        let Self { items, room, progress, .. } = self;
        if progress.is_due() {
            progress.record().await?;
        }
        let weight = u32::try_from(weight(&bytes)).unwrap_or(u32::MAX);
        let (items, room) = (&*items, &*room);
        let taken = async move {
            let room = tokio::select! {
                biased;
                room = room.acquire_many(weight) => room.map_err(|_| FlowStopped::Left)?,
                () = items.closed() => return Err(FlowStopped::Left),
            };
            let place = items.reserve().await.map_err(|_| FlowStopped::Left)?;
            room.forget();
            Ok(place)
        };
        let taken = progress.beside(taken).await?;
        // A piece that is not taken has not left.
        if let Some(place) = progress.unless_awaited(taken)? {
            progress.count(&bytes);
            place.send(FlowItem::Piece(Piece(bytes)));
        }
        Ok(())
    }
}

impl Drop for Flow<'_> {
    /// WHY here: an answer may stop at any point, and what has left of it is in the last entry of its
    /// call.
    fn drop(&mut self) {
        if self.progress.pieces > 0 {
            let (seen, kept) = (self.progress.seen(), self.progress.kept.take());
            let before_end = self.before_end.take();
            self.permit.keep_stream(LeftStream { whole: Some((seen, kept)), before_end });
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::domain::digest::Digest;
    use crate::ledger::drafts::STREAM_MAX;

    /// A keeper whose records become durable when the test says so.
    struct Keeper {
        began: tokio::time::Instant,
        records: Mutex<Vec<(StreamSeen, oneshot::Sender<()>)>>,
    }

    impl Keeper {
        fn begin() -> Arc<Self> {
            Arc::new(Self { began: tokio::time::Instant::now(), records: Mutex::default() })
        }

        fn bytes(&self) -> Vec<u64> {
            self.records.lock().iter().map(|(seen, _)| seen.bytes).collect()
        }
    }

    #[async_trait]
    impl FlowKeeper for Keeper {
        async fn propose(&self, _calls: Vec<ProposedCall>) -> Vec<Clearance> {
            Vec::new()
        }

        fn progress(&self, seen: StreamSeen) -> oneshot::Receiver<()> {
            let (recorded, recording) = oneshot::channel();
            self.records.lock().push((seen, recorded));
            recording
        }

        fn now(&self) -> Duration {
            self.began.elapsed()
        }

        fn is_awaited(&self) -> bool {
            false
        }
    }

    fn of(keeper: &Arc<Keeper>) -> ProgressRecorder {
        ProgressRecorder::new(Arc::<Keeper>::clone(keeper))
    }

    #[test]
    fn the_end_of_an_answer_left_only_if_its_call_completed() {
        let seen = |text: &str, pieces| StreamSeen {
            bytes: u64::try_from(text.len()).unwrap(),
            sha256: Digest::of(&[text.as_bytes()]),
            pieces,
            first_ms: None,
        };
        let left = |before: &str, pieces| {
            let whole = format!("{before}end");
            let before_end = Some(BeforeEnd { seen: seen(before, pieces), kept: before.len() });
            let whole = Some((seen(&whole, pieces + 1), Some(whole.into_bytes())));
            LeftStream { whole, before_end }
        };
        assert_eq!(left("one", 1).of(true), Some((seen("oneend", 2), Some(b"oneend".to_vec()))));
        assert_eq!(left("one", 1).of(false), Some((seen("one", 1), Some(b"one".to_vec()))));
        assert_eq!(left("", 0).of(false), None);
        assert_eq!(LeftStream::default().of(true), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_left_is_kept_only_for_a_replay_and_only_whole() {
        let keeper = Keeper::begin();
        let mut progress = of(&keeper);
        progress.count(&Bytes::from_static(b"one"));
        assert_eq!(progress.kept, None, "this run is not recorded for a replay");
        progress.kept = Some(Vec::new());
        progress.count(&Bytes::from_static(b"one"));
        progress.count(&Bytes::from_static(b"two"));
        assert_eq!(progress.kept.as_deref(), Some(&b"onetwo"[..]));
        progress.count(&Bytes::from(vec![b'x'; STREAM_MAX - 6]));
        assert_eq!(progress.kept.as_ref().map(Vec::len), Some(STREAM_MAX));
        progress.count(&Bytes::from_static(b"x"));
        assert_eq!(progress.kept, None, "it is too long to be stored");
        progress.count(&Bytes::from_static(b"one"));
        assert_eq!(progress.kept, None, "and nothing of it is kept");
    }

    async fn silence(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_left_is_recorded_while_the_provider_is_silent() {
        let keeper = Keeper::begin();
        let mut progress = of(&keeper);
        progress.beside(silence(5)).await.unwrap();
        assert_eq!(keeper.bytes(), Vec::<u64>::new(), "nothing has left");
        progress.count(&Bytes::from_static(b"one"));
        progress.beside(silence(9)).await.unwrap();
        assert_eq!(keeper.bytes(), [3], "one record covers it");
        let (seen, durable) = keeper.records.lock().remove(0);
        assert_eq!(seen.sha256, Digest::of(&[b"one"]));
        durable.send(()).unwrap();
        progress.count(&Bytes::from_static(b"two"));
        progress.beside(silence(9)).await.unwrap();
        assert_eq!(keeper.bytes(), [6]);
        assert_eq!(progress.seen().sha256, Digest::of(&[b"onetwo"]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_that_cannot_become_durable_stops_the_answer_that_waits() {
        let keeper = Keeper::begin();
        let mut progress = of(&keeper);
        progress.count(&Bytes::from_static(b"one"));
        progress.beside(silence(2)).await.unwrap();
        progress.count(&Bytes::from_static(b"two"));
        keeper.records.lock().clear();
        let stopped = progress.beside(std::future::pending::<()>()).await;
        assert_eq!(stopped, Err(FlowStopped::Unrecorded));
    }

    #[tokio::test(start_paused = true)]
    async fn many_bytes_are_due_at_once_and_few_only_after_a_second() {
        let keeper = Keeper::begin();
        let mut progress = of(&keeper);
        silence(9).await;
        progress.count(&Bytes::from_static(b"few"));
        assert!(!progress.is_due());
        silence(1).await;
        assert!(progress.is_due());
        progress.record().await.unwrap();
        assert!(!progress.is_due());
        progress.count(&Bytes::from(vec![b'x'; 256 * 1024]));
        assert!(progress.is_due());
    }
}
