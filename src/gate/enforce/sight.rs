//! What the gate sees of the models behind calls.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::Road;
use super::answer::Answer;
use super::asking::AskSeen;
use super::awaiting::AwaitedAsks;
use super::bypassed::GovernedAsks;
use super::conversations::RunConversations;
use super::denied_asks::DeniedAsks;
use super::given::{GivenBy, GivenIds};
use super::proposals::RunProposals;
use super::run::Run;
use super::trip::{CallExtras, CallSight, Entry, Passage};
use crate::domain::call::{CallSource, ToolCall};
use crate::domain::decision::LayerReason;
use crate::domain::dialect::Dialect;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ToolName};
use crate::domain::outcome::Outcome;
use crate::identity::manifest::{Grant, Manifest};
use crate::identity::models;
use crate::judge::guarding::Direction;
use crate::ledger::flow::FlowSender;
use crate::ledger::permit::{Finished, Recalled, RecalledState};
use crate::ledger::{PastAnswer, PastModels};
use crate::tool::{self, client};

/// The detail of the reason that another model answered the request before.
pub(super) const OTHER_ANSWERED: &str = PastModels::OTHER_ANSWERED;

/// What a run and its models said to each other.
#[derive(Debug, Default)]
pub(super) struct RunModels {
    /// What the run said.
    pub conversations: Mutex<RunConversations>,
    /// What the models asked it to do.
    pub proposals: Mutex<RunProposals>,
    /// What they asked it to do at the gate, and what it did there.
    pub governed: Mutex<GovernedAsks>,
    /// What it may refer to at the providers.
    pub given: Mutex<GivenIds>,
    /// Its newest requests that were denied.
    pub denied: Mutex<DeniedAsks>,
    /// A model that answered the last request and that the manifest does not expect.
    pub other: Mutex<Option<String>>,
    /// Answers that an earlier process of the gate gave to the run, and that this one has not read.
    pub unread: tokio::sync::Mutex<VecDeque<PastAnswer>>,
    /// Its held requests whose clients are there.
    pub awaited: Mutex<AwaitedAsks>,
}

impl RunModels {
    /// What a run and its models said to each other before a restart, as far as the ledger has it.
    pub fn recovered(past: &PastModels, manifest: &Manifest) -> Self {
        let expected = |model: &&String| models::responded(manifest, model);
        let other = past.responded.iter().find(|model| !expected(model)).cloned();
        Self {
            other: Mutex::new(other),
            unread: tokio::sync::Mutex::new(past.answers.clone()),
            ..Self::default()
        }
    }

    /// A request is judged that has these reasons against it. WHY not when it was read: a request that
    /// comes to nothing, or that repeats one, must not use them up.
    pub fn refused(&self, refusals: &[LayerReason]) {
        if !refusals.is_empty() {
            self.proposals.lock().lose_sight();
        }
        if refusals.iter().any(|reason| reason.detail == OTHER_ANSWERED) {
            self.other.lock().take();
        }
    }
}

impl Run {
    /// Whether a call waits for those before it: in an ordered run each does but a tool call of an
    /// answer, because the call of its model waits for it.
    pub(super) fn is_in_line(&self, call: &ToolCall) -> bool {
        self.ordered && !call.is_of_gate() && !call.tool().as_str().starts_with(client::PREFIX)
    }

    /// A tool call of an answer takes the place of the call of its model, which waits for it.
    pub(super) fn within_an_answer(&self, call: &ToolCall, refusals: &mut Vec<LayerReason>) {
        if matches!(call.source(), CallSource::Proposal { .. }) {
            refusals.retain(|reason| reason.detail != "limit.concurrency");
        }
        // WHY: what a call did is checked and taken back whatever the run has used up.
        if call.is_of_gate() {
            refusals.clear();
        }
    }

    /// The grant of this tool, if it exists for the run: of the gate, or of the agent itself.
    pub(super) fn granted(&self, tool: &ToolName) -> Option<Cow<'_, Grant>> {
        match tool.as_str().strip_prefix(client::PREFIX) {
            Some(name) => self.grants.client(name).map(Cow::Owned),
            None => self.grants.get(tool).map(Cow::Borrowed),
        }
    }
}

impl Road {
    /// What the gate saw of a call that an agent makes: it spends the proposal of exactly this call.
    pub(super) fn sight(&self, run: &Run, likeness: &Digest) -> CallSight {
        let proposed_by = run.models.proposals.lock().spend(likeness, self.clock.monotonic());
        CallSight { proposed_by, asks: None }
    }

    /// Reads what the providers gave to a run before a restart. WHY not when the run is resumed: only a
    /// request to a model needs it. What cannot be read now is read before the next one.
    pub(super) async fn reread_given(&self, run: &Run) {
        let mut unread = run.models.unread.lock().await;
        while let Some(PastAnswer { call, tool, upstream }) = unread.front() {
            let Ok(answer) = self.ledger.recall(run.id(), call).await else { return };
            let answer = answer.map(|answer| answer.recalled);
            if let Some(RecalledState::Ended(Outcome::Completed { result, .. })) =
                answer.as_ref().map(Recalled::state)
            {
                if self.remember_denied(run, result).await.is_err() {
                    return;
                }
                let by = GivenBy { tool: tool.clone(), upstream: upstream.clone() };
                run.models.given.lock().give(result, by);
            }
            unread.pop_front();
        }
    }

    /// Takes a request to a model down the road. Dropping the answer to come leaves the call, which ends
    /// unless another request waits for the same.
    pub(super) async fn walk_request(
        self: &Arc<Self>,
        run: &Arc<Run>,
        call: ToolCall,
        (flow, seen): (FlowSender, AskSeen),
    ) -> Answer {
        let AskSeen { refusals, is_seen, facts: _ } = seen;
        let sight = CallSight { proposed_by: None, asks: Some(is_seen) };
        let id = call.id().clone();
        let extras = CallExtras { refusals, sight, flow: Some(flow), spends: false };
        let mut entry = self.set_off(run, call, extras);
        if let Ok(Entry::Wait(listening)) = &mut entry {
            let on = Arc::clone(run);
            let id = run.state.lock().known(id);
            // One that became held goes on to wait: the agent may ask for the same again.
            listening.on_leaving(move || {
                on.stop_on_road(&id, tool::LEFT);
            });
        }
        self.answered(run, entry).await
    }

    /// Takes a tool call of an answer down the road. `refused`: reasons against it, and the call of
    /// the model, if that counts as observed.
    pub(super) async fn walk_proposal(
        self: &Arc<Self>,
        run: &Arc<Run>,
        call: ToolCall,
        (refusals, proposed_by): (Vec<LayerReason>, Option<CallId>),
    ) -> Answer {
        let sight = CallSight { proposed_by, asks: None };
        let entry =
            self.set_off(run, call, CallExtras { refusals, sight, flow: None, spends: false });
        self.answered(run, entry).await
    }

    /// A request to a model is over. An answer of a model that the manifest does not expect ends what the
    /// gate knew of who asks. WHY not a request that failed: clients ask side by side, and count tokens
    /// where a provider cannot; what its own answer asked for is forgotten.
    pub(super) fn looked_through(&self, at: &Passage, finished: &Finished) {
        self.metrics.found(Direction::Results.as_str(), &finished.observed().findings);
        if at.asks.is_none() {
            return;
        }
        let (models, seen) = (&at.run.models, finished.observed());
        let first = seen.stream.as_ref().and_then(|stream| stream.first_ms);
        if let Some(first) = first {
            self.metrics.first_byte(Duration::from_millis(first));
        }
        if at.dialect.is_some_and(Dialect::refers_back)
            && let Some(usage) = &seen.usage
            && let Outcome::Completed { result, .. } = &finished.ended().outcome
        {
            let by = GivenBy { tool: at.tool.clone(), upstream: usage.upstream.clone() };
            models.given.lock().give(result, by);
        }
        let manifest = &at.run.manifest;
        let other = seen.model.as_ref().filter(|model| !models::responded(manifest, model));
        if other.is_some() {
            models.proposals.lock().lose_sight();
        } else if !matches!(finished.ended().outcome, Outcome::Completed { .. }) {
            models.proposals.lock().forget(&at.id);
        }
        if let Some(other) = other {
            *models.other.lock() = Some(other.clone());
        }
    }
}
