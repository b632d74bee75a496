//! Follows one call: each state that the ledger records of it, and at last its answer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Road;
use super::answer::{self, Answer, Fault};
use super::run::{CallOnRoad, CallStage, PendingAnswer, Run};
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ToolName};
use crate::ledger::permit::{RecalledState, Receipt};
use crate::tool::Cancel;

/// Something that happened to a call. It is durable before a follower learns of it.
#[derive(Clone, Debug)]
pub enum Milestone {
    /// The call waits for an approval.
    Held(Box<Fault>),
    /// The call was allowed. The receipt is that of the decision.
    Authorized(CallId, Receipt),
    /// So much of its answer left.
    Progress(CallId, AnswerProgress),
    /// The call is over, with the answer that `Road::execute` gives.
    Over(Box<Answer>),
}

/// How much of the answer of a running call left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnswerProgress {
    /// Number of bytes.
    pub bytes: u64,
    /// Number of pieces; each holds whole events.
    pub pieces: u64,
    /// The position of the `call.progress` entry.
    pub receipt: Receipt,
}

/// The request that began the call, and waits for its answer.
type RequestAnswer = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Follows one call until it is over.
pub struct Follower {
    road: Arc<Road>,
    run: Arc<Run>,
    call: CallId,
    /// The place in the run of the newest entry that the follower has.
    after: u64,
    asked: Option<RequestAnswer>,
    waiting: Option<PendingAnswer>,
    answer: Option<Answer>,
    seen: Option<CallProgress>,
    over: bool,
}

crate::record::debug_by!(Follower: call);

/// How far a call has come, as far as another look at the ledger can show more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CallProgress {
    Undecided,
    Permitted,
    Held,
    Ended,
    Gone,
}

impl CallStage {
    /// The stage of a call that sets out.
    pub fn on_road(
        (fingerprint, pattern): (Digest, Digest),
        tool: ToolName,
        answer: PendingAnswer,
        cancel: &Cancel,
    ) -> Self {
        let cancel = cancel.clone();
        Self::OnRoad(Box::new(CallOnRoad {
            fingerprint,
            pattern,
            masked: Vec::new(),
            tool,
            answer,
            listeners: Arc::default(),
            cancel,
            permitted: false,
            progress: None,
        }))
    }

    /// The same, with these kinds masked in its arguments before it came on the road.
    pub fn after_masking(mut self, masked: Vec<String>) -> Self {
        if let Self::OnRoad(at) = &mut self {
            at.masked = masked;
        }
        self
    }
}

impl Run {
    /// Notes that the permission of a call is recorded, and wakes the followers of the run.
    pub(super) fn permitted(&self, call: &CallId) {
        // WHY: almost no call is followed. A follower that comes later reads the ledger, which has
        // the permission already, before it waits.
        if self.followers.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(CallStage::OnRoad(at)) = self.state.lock().calls.get_mut(call) {
            at.permitted = true;
        }
        self.idle.notify_waiters();
    }

    /// Notes that progress of a call's answer is recorded.
    pub(super) fn progressed(&self, call: &CallId, progress: AnswerProgress) {
        if let Some(CallStage::OnRoad(at)) = self.state.lock().calls.get_mut(call) {
            at.progress = Some(progress);
        }
        self.idle.notify_waiters();
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.run.followers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Follower {
    /// Follows this call of the run, from after this place in it; 0: from the beginning.
    #[must_use]
    pub fn new(road: &Arc<Road>, run: &Arc<Run>, call: &CallId, after: u64) -> Self {
        run.followers.fetch_add(1, Ordering::SeqCst);
        Self {
            road: Arc::clone(road),
            run: Arc::clone(run),
            call: call.clone(),
            after,
            asked: None,
            waiting: None,
            answer: None,
            seen: None,
            over: false,
        }
    }

    /// The same for the request that makes the call: its own answer ends it, since only that tells
    /// a conflict from the call itself.
    #[must_use]
    pub fn asking(mut self, asked: Pin<Box<dyn Future<Output = Answer> + Send>>) -> Self {
        self.asked = Some(asked);
        self
    }

    /// The next thing that happens to the call. `None` after its end, or if the gate stops while it
    /// is held: it stays held then.
    pub async fn next(&mut self) -> Option<Milestone> {
        while !self.over {
            let run = Arc::clone(&self.run);
            let changed = run.idle.notified();
            tokio::pin!(changed);
            // WHY first: what changes after the look below must wake this follower.
            changed.as_mut().enable();
            let (seen, progress) = self.look();
            // WHY: other calls of the run wake it too, and the ledger has nothing new then.
            if self.seen.replace(seen) != Some(seen) || self.answer.is_some() {
                match self.recorded().await {
                    Ok(Some(milestone)) => {
                        self.seen = None;
                        return Some(milestone);
                    }
                    Ok(None) => {}
                    Err(fault) => self.answer = Some(Err(fault)),
                }
            }
            if let Some((call, progress)) = progress.filter(|(_, at)| self.is_new(&at.receipt)) {
                self.take(&progress.receipt);
                return Some(Milestone::Progress(call, progress));
            }
            let unasked = self.asked.is_none() && self.waiting.is_none();
            if self.answer.is_none()
                && unasked
                && matches!(seen, CallProgress::Ended | CallProgress::Gone)
            {
                self.answer = Some(self.road.call(&run, self.call.as_str()).await);
            }
            if let Some(answer) = self.answer.take() {
                self.over = true;
                return Some(Milestone::Over(Box::new(answer)));
            }
            let held = seen == CallProgress::Held;
            let road = Arc::clone(&self.road);
            tokio::select! {
                biased;
                () = self.answered() => {}
                () = changed => {}
                () = road.tasks.stopping(), if held => self.over = true,
            }
        }
        None
    }

    /// How far the call has come, with the newest progress of its answer; keeps hold of its answer
    /// while it is on the road.
    fn look(&mut self) -> (CallProgress, Option<(CallId, AnswerProgress)>) {
        let state = self.run.state.lock();
        let call = state.known(self.call.clone());
        let seen = match state.calls.get(&call) {
            Some(CallStage::OnRoad(at)) => {
                if self.asked.is_none() {
                    self.waiting = Some(at.answer.clone());
                }
                let progress = at.progress.clone();
                // WHY both: a permission is noted only for those who follow then.
                let permitted = at.permitted || progress.is_some();
                let seen =
                    if permitted { CallProgress::Permitted } else { CallProgress::Undecided };
                return (seen, progress.map(|progress| (call, progress)));
            }
            Some(CallStage::Held) => CallProgress::Held,
            Some(CallStage::Booked | CallStage::Doubted) => CallProgress::Ended,
            None => CallProgress::Gone,
        };
        (seen, None)
    }

    /// Whether the follower does not have this entry.
    const fn is_new(&self, receipt: &Receipt) -> bool {
        receipt.run_seq > self.after
    }

    /// Takes this entry: it is released to the run.
    fn take(&mut self, receipt: &Receipt) {
        self.after = receipt.run_seq;
        self.run.release(receipt);
    }

    /// The first recorded state of the call that the follower does not have.
    async fn recorded(&mut self) -> Result<Option<Milestone>, Fault> {
        let call = self.run.state.lock().known(self.call.clone());
        let stages = self.road.ledger.stages(self.run.id(), &call).await;
        let stages = stages.map_err(|error| Fault::unread(&error).about(&self.call))?;
        let new = stages.into_iter().find(|stage| self.is_new(stage.receipt()));
        let Some(stage) = new else { return Ok(None) };
        self.take(stage.receipt());
        Ok(Some(match (stage.state(), answer::of_recalled(&stage)) {
            (RecalledState::Held(..), Err(held)) => Milestone::Held(Box::new(held)),
            (_, _) => Milestone::Authorized(stage.call().clone(), stage.receipt().clone()),
        }))
    }

    /// Waits for an answer that ends the call.
    async fn answered(&mut self) {
        let answer = match (&mut self.asked, &mut self.waiting) {
            (Some(asked), _) => asked.await,
            (None, Some(waiting)) => self.run.wait(waiting.clone()).await,
            (None, None) => std::future::pending().await,
        };
        (self.asked, self.waiting) = (None, None);
        if !matches!(&answer, Err(fault) if fault.code == Code::CallHeld) {
            self.answer = Some(answer);
        }
    }
}
