//! Requests to models that wait for an approver, and the clients that wait with them.
//!
//! An approved request runs only for a client that is there: an answer that no client takes would be
//! paid for and lost. A client stays for the `hold_wait` of the tool. One that asks for exactly the
//! same later, in the same run, finds its request, which runs then.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::Road;
use super::answer::{Answer, Fault};
use super::asking::{AskSeen, ModelFault, ModelReply, ModelRequest};
use super::flowing::{AnswerToCome, Flowing, LeaveGuard};
use super::listening::ClientPlace;
use super::proposals::{AnswerKeeper, is_held};
use super::run::{self, CallStage, Run};
use crate::approval::Approval;
use crate::domain::call::{DialectRequest, ToolCall};
use crate::domain::code::{Execution, Retry};
use crate::domain::decision::LayerReason;
use crate::domain::id::{CallId, ToolName};
use crate::ledger::flow::{self, FlowHead, FlowItem, FlowReceiver, FlowSender};
use crate::ledger::hold::HeldCall;
use crate::record::call::AskedIn;

/// Requests of one run whose clients went away while they waited, and that were not asked for again.
const AWAY_MAX: usize = 16;
/// How long the approvals of a request are looked for, also for a client that does not wait.
const AT_LEAST: Duration = Duration::from_secs(5);

/// What a client brings to its held request besides the recorded bytes.
#[derive(Debug)]
pub(super) struct ClientMeans {
    pub request: DialectRequest,
    /// Reasons against the request.
    pub refusals: Vec<LayerReason>,
    /// Whether the model and the instructions are those of the manifest.
    pub is_seen: bool,
    /// The way of the answer.
    pub flow: FlowSender,
    /// Where the client counts once the call is on the road again.
    pub place: ClientPlace,
}

impl ClientMeans {
    /// Whether the client is gone.
    pub fn is_left(&self) -> bool {
        self.flow.is_left()
    }
}

/// A client that waits for an approver. Who judges its request again takes its means.
#[derive(Debug)]
struct WaitingClient(Mutex<Option<ClientMeans>>);

impl WaitingClient {
    /// Takes the means back. False: the request is being judged with them, or was.
    fn withdraw(&self) -> bool {
        self.0.lock().take().is_some()
    }
}

/// Whose client waits for a hold.
pub(super) enum ClientOfHold {
    /// The call needs no client to be judged: it asks no model in a dialect, or can only be denied.
    Unneeded,
    /// The client is there.
    Waits(ClientMeans),
    /// It is not.
    Away,
}

/// The clients that wait for the held requests of one run.
#[derive(Debug, Default)]
pub(super) struct AwaitedAsks(BTreeMap<CallId, Weak<WaitingClient>>);

impl AwaitedAsks {
    /// Lets a client wait; none if another one does.
    fn enter(&mut self, call: &CallId, means: ClientMeans) -> Option<Arc<WaitingClient>> {
        self.0.retain(|_, client| client.strong_count() > 0);
        if self.0.contains_key(call) {
            return None;
        }
        let client = Arc::new(WaitingClient(Mutex::new(Some(means))));
        self.0.insert(call.clone(), Arc::downgrade(&client));
        Some(client)
    }

    /// Takes the means of the client that waits for this hold.
    pub fn of(&self, hold: &HeldCall) -> ClientOfHold {
        let Some(form) = hold.asked_in.as_ref().filter(|_| hold.refused.is_none()) else {
            return ClientOfHold::Unneeded;
        };
        let client = self.0.get(&hold.call).and_then(Weak::upgrade);
        let means = client.and_then(|client| client.0.lock().take());
        let means =
            means.filter(|means| AskedIn::from(&means.request) == *form && !means.is_left());
        means.map_or(ClientOfHold::Away, ClientOfHold::Waits)
    }
}

/// A request to a model that is under way. Dropping it stops its call, unless that waits for an
/// approver.
pub struct AskUnderway {
    request: DialectRequest,
    refusals: Vec<LayerReason>,
    keeper: Arc<AnswerKeeper>,
    /// What was sent.
    asked: ModelRequest,
    /// Whether the agent gave the call its id.
    is_named: bool,
    head: Option<FlowHead>,
    answer: AnswerToCome,
    client: Option<Arc<WaitingClient>>,
    /// Until when the client waits, once it does (monotonic).
    until: Option<Duration>,
    /// Approvals with which the request was judged for this client; none if it was not.
    weighed: Option<Vec<Approval>>,
    // INVARIANT: the receiver is dropped before the guard. Who judges the request again either finds it
    // gone, or the guard finds the call on the road.
    items: FlowReceiver,
    leaving: LeaveGuard,
}

crate::record::debug_by!(AskUnderway: asked);

impl AskUnderway {
    /// The call of the request.
    pub const fn call(&self) -> &CallId {
        &self.leaving.call
    }

    /// Waits for the beginning of the answer, or for all of it.
    ///
    /// # Errors
    /// A fault for everything that is not an answer; nothing of an answer was given then.
    pub async fn reply(mut self) -> Result<ModelReply, Box<ModelFault>> {
        loop {
            let answer = match self.comes().await {
                Ok(head) => return Ok(ModelReply::Begun(self.begun(head))),
                Err(answer) => answer,
            };
            if !answer.as_ref().is_err_and(is_held) {
                return self.ended(answer);
            }
            let LeaveGuard { road, run, call, .. } = &self.leaving;
            if self.client.take().is_some_and(|client| !client.withdraw()) {
                let (road, run, call) = (Arc::clone(road), Arc::clone(run), call.clone());
                self.answer = Box::pin(async move { road.call(&run, call.as_str()).await });
            } else if !self.waits().await {
                return self.ended(answer);
            }
        }
    }

    /// The head of an answer that comes in pieces, or what ended the call, or holds it.
    async fn comes(&mut self) -> Result<FlowHead, Answer> {
        loop {
            tokio::select! {
                biased;
                item = self.items.next() => match item {
                    Some(FlowItem::Head(head)) if (200..300).contains(&head.status) && head.streams => {
                        return Ok(head);
                    }
                    Some(FlowItem::Head(head)) => self.head = Some(head),
                    // Nothing comes before the head.
                    Some(FlowItem::Piece(_) | FlowItem::End(_)) => {}
                    None => break,
                },
                // The call ended before it began to answer.
                answer = &mut self.answer => return Err(answer),
            }
        }
        Err((&mut self.answer).await)
    }

    /// Lets the client wait for an approver; at first even if it has no time, because its request may
    /// be approved already. False: its time is over, another client waits, or there is no such hold.
    async fn waits(&mut self) -> bool {
        let LeaveGuard { road, run, call, .. } = &self.leaving;
        let (road, run, call) = (Arc::clone(road), Arc::clone(run), call.clone());
        // WHY: there is no hold to wait for under another id, which repeats the call within `dedupe_ms`, nor
        // of a call whose decision is in doubt.
        if !run.may_wait_for(&call) {
            return false;
        }
        let (now, is_first) = (road.clock.monotonic(), self.until.is_none());
        let until = *self.until.get_or_insert(now.saturating_add(self.keeper.hold_wait));
        let left = until.saturating_sub(now);
        if left.is_zero() && !is_first || road.tasks.is_stopping() {
            return false;
        }
        let (flow, items) = flow::channel(Arc::<AnswerKeeper>::clone(&self.keeper));
        let means = ClientMeans {
            request: self.request.clone(),
            refusals: self.refusals.clone(),
            is_seen: self.keeper.is_seen,
            flow,
            place: self.leaving.place.clone(),
        };
        let entered = run.models.awaited.lock().enter(&call, means);
        let Some(client) = entered else { return false };
        (self.client, self.items) = (Some(client), items);
        self.leaving.armed = true;
        // WHY only after it entered: an approver who was faster found no client.
        // WHY bounded: a ledger that does not answer must not keep a client longer than an approver may.
        let weighing = road.weigh_for_client(&run, &call, self.weighed.clone());
        if let Ok(weighed) = tokio::time::timeout(left.max(AT_LEAST), weighing).await {
            self.weighed = weighed;
        }
        self.answer = Box::pin(async move { road.call_within(&run, call.as_str(), left).await });
        true
    }

    fn begun(self, head: FlowHead) -> Flowing {
        let Self { items, answer, leaving, .. } = self;
        let (end, over, _open) = (None, false, leaving.road.metrics.streams());
        Flowing { head, items, answer, end, over, leaving, _open }
    }

    fn ended(mut self, answer: Answer) -> Result<ModelReply, Box<ModelFault>> {
        // A request that is being judged at this moment must stop: its client goes.
        if self.client.take().is_none_or(|client| client.withdraw()) {
            self.leaving.disarm();
        }
        let LeaveGuard { road, run, call, .. } = &self.leaving;
        match answer {
            Ok(released) => {
                let headers = self.head.map(|head| head.headers).unwrap_or_default();
                Ok(ModelReply::Whole(released, headers))
            }
            Err(fault) => {
                road.stands(run, &self.asked, &fault);
                if is_held(&fault) && !self.is_named {
                    run.goes_away(call, &self.keeper.tool);
                }
                Err(Box::new(ModelFault { fault, upstream: self.head }))
            }
        }
    }
}

impl Run {
    /// Whether a call with this very id is held, or being judged again.
    fn may_wait_for(&self, call: &CallId) -> bool {
        match self.state.lock().calls.get(call) {
            Some(CallStage::Held | CallStage::OnRoad(_)) => true,
            Some(CallStage::Booked | CallStage::Doubted) | None => false,
        }
    }

    /// The client of a held request goes, and may ask for the same again.
    fn goes_away(&self, call: &CallId, tool: &ToolName) {
        let mut state = self.state.lock();
        if state.taken_up.len() < AWAY_MAX && state.calls.contains_key(call) {
            state.taken_up.insert(call.clone(), tool.clone());
        }
    }
}

impl Road {
    /// Begins to ask a model: one call of the granted tool that serves this dialect and model, or the
    /// call that waits for an approver and asks for the same.
    ///
    /// # Errors
    /// The request is refused before it is a call, or its call is over and did not run.
    pub async fn begin_ask(
        self: &Arc<Self>,
        run: &Arc<Run>,
        asked: ModelRequest,
    ) -> Result<AskUnderway, Box<ModelFault>> {
        if let Some(fault) = run.models.denied.lock().again(&asked, self.clock.monotonic()) {
            return Err(fault.into());
        }
        self.reread_given(run).await;
        let read = self.read_ask(run, &asked).inspect_err(|fault| self.reject(fault.code));
        let (mut call, read) = read?;
        let is_named = !asked.call_id.is_empty();
        let held = self.held_ask(run, &call, is_named).await;
        let held = held.inspect_err(|fault| self.stands(run, &asked, fault))?;
        let waits = held.is_some();
        if let Some(id) = held {
            call = call.under(id);
        }
        let keeper = Arc::new(AnswerKeeper {
            road: Arc::clone(self),
            run: Arc::clone(run),
            call: call.id().clone(),
            tool: call.tool().clone(),
            traceparent: call.traceparent().map(str::to_owned),
            offered: read.offered,
            is_seen: read.seen.is_seen,
            hold_wait: read.hold_wait,
            is_managed: asked.managed.is_some(),
        });
        let (sender, items) = flow::channel(Arc::<AnswerKeeper>::clone(&keeper));
        let AskSeen { refusals, is_seen, .. } = read.seen;
        let (road, on, id) = (Arc::clone(self), Arc::clone(run), call.id().clone());
        let leaving = LeaveGuard {
            road: Arc::clone(self),
            run: Arc::clone(run),
            call: id.clone(),
            // WHY not yet: the answer to come of a new call ends it, and another client may wait for the
            // same held call.
            armed: false,
            place: ClientPlace::default(),
        };
        let request = call.dialect().cloned().ok_or_else(|| run::conflict(&id))?;
        let seen = AskSeen { refusals: refusals.clone(), is_seen, ..AskSeen::default() };
        let answer: AnswerToCome = match waits {
            true => Box::pin(async move { road.call(&on, id.as_str()).await }),
            false => Box::pin(async move { road.walk_request(&on, call, (sender, seen)).await }),
        };
        let (head, client, until, weighed) = (None, None, None, None);
        Ok(AskUnderway {
            request,
            refusals,
            keeper,
            asked,
            is_named,
            head,
            answer,
            client,
            until,
            weighed,
            items,
            leaving,
        })
    }

    /// Remembers a denial, which the same bytes get for a while.
    fn stands(&self, run: &Run, asked: &ModelRequest, fault: &Fault) {
        // WHY not a limit that frees itself, nor a hold that ended: the client is told to come again.
        let comes_again = fault.retry_after.is_some() || fault.code.rule().retry == Retry::NewId;
        if fault.receipt.is_some() && fault.code.denies() && !comes_again {
            run.models.denied.lock().note(asked, fault, self.clock.monotonic());
        }
    }

    /// The held call that this request asks for again.
    ///
    /// # Errors
    /// What became of the call, if it ended without running since its client went; or the ledger cannot
    /// be read, so it may have such a call.
    async fn held_ask(
        &self,
        run: &Arc<Run>,
        call: &ToolCall,
        is_named: bool,
    ) -> Result<Option<CallId>, Fault> {
        let form = call.dialect().map(AskedIn::from);
        if is_named {
            // The bytes are compared when the call is recalled.
            let held = run.is_held(call.id());
            if held && self.remembered(run, call.id()).await?.asked_in != form {
                return Err(run::conflict(call.id()));
            }
            return Ok(None);
        }
        let found = self.held_in(run, (call.tool(), call.canonical()), form.as_ref()).await?;
        let Some(id) = found else { return Ok(None) };
        run.touch(self.clock.monotonic());
        let place = run.state.lock().calls.get(&id).cloned();
        match place {
            Some(CallStage::Held) => return Ok(Some(id)),
            // It runs for another client. WHY not to wait for its end: that takes minutes, without a sign
            // of life.
            Some(CallStage::OnRoad(_)) => return Ok(None),
            Some(CallStage::Booked | CallStage::Doubted) | None => {}
        }
        match self.call(run, id.as_str()).await {
            Err(fault) if did_not_run(&fault) => Err(fault),
            // Another client had its answer.
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// Judges a held request again for its client, if it has approvals with which it was not judged for
    /// that client. Gives them.
    async fn weigh_for_client(
        self: &Arc<Self>,
        run: &Arc<Run>,
        call: &CallId,
        weighed: Option<Vec<Approval>>,
    ) -> Option<Vec<Approval>> {
        let _turn = run.statements.at(call).await;
        // WHY no error: the client waits then, and an approval that comes is counted.
        let Ok(Some(hold)) = self.holds.find(run, call).await else { return weighed };
        let granted = hold.granted.clone();
        let is_new = match &weighed {
            // WHY not their number: one may have taken the place of another.
            Some(before) => granted.iter().any(|one| !before.contains(one)),
            // An order of break-glass stands in for approvers.
            None => {
                let broken = self.control.break_glass.open_for(&run.agent.id, &hold.tool);
                !granted.is_empty() || broken.is_some()
            }
        };
        if is_new {
            drop(self.weighed(run, hold).await);
        }
        Some(granted)
    }
}

/// Whether the fault is the recorded end of a call that never ran.
fn did_not_run(fault: &Fault) -> bool {
    let execution = fault.code.rule().execution;
    fault.receipt.is_some() && matches!(execution, Execution::NotRun | Execution::Stopped)
}
