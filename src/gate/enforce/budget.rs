//! Limits checked before the ledger: request rates, budgets of runs and pools, and the order of
//! calls in a run. A limit either refuses the request before an intent is written, or makes the
//! intent a denial.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::answer::{Answer, Fault};
use super::callers::Callers;
use super::rejected::Rejected;
use super::run::{Run, RunState};
use super::tasks::Tasks;
use super::undecided::Undecided;
use super::{Parts, Road, Trip};
use crate::clock::Clock;
use crate::control::Action;
use crate::domain::call::ToolCall;
use crate::domain::code::Code;
use crate::domain::id::{CallId, ToolName};
use crate::domain::json::Json;
use crate::domain::outcome::{Ended, Observed, Outcome};
use crate::domain::plural::many;
use crate::ledger::drafts::DraftWithPayloads;
use crate::ledger::{self, Ledger};
use crate::limits::bucket::Rate;
use crate::limits::pool::{Pool, Pools};
use crate::limits::quota::{self, Quota, QuotaRefusal, Reserved, Wanted};
use crate::limits::shares;
use crate::limits::{BudgetOutcome, BudgetShare, Spend};
use crate::policy::input;
use crate::record::Draft;
use crate::record::control::{ControlApplied, TargetKind};
use crate::telemetry::metrics::Metrics;
use crate::tool::toolbox::Toolbox;

/// Calls of one ordered run that may wait for their turn.
const WAITING_MAX: usize = 64;

/// Pools, suspensions and stops that a gate reports to operators, of each at most.
pub(super) const TOLD_MAX: usize = 64;

/// Limits beyond those of manifests. All are off by default.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Pools that all gates share.
    pub pools: Vec<Pool>,
    /// The pools' store; without it no call covered by a pool may run.
    pub store: Option<Arc<dyn Pools>>,
    /// The request rate of one caller, over all its runs.
    pub rate: Option<Rate>,
    /// Denials of one caller within a minute after which the run of the last denial is suspended,
    /// and the caller may open no other.
    pub denials_max: Option<u64>,
    /// How long a caller is suspended after a call whose arguments contain a credential of the
    /// gate. `None`: the call is denied and the caller is not suspended.
    pub alarm_rest: Option<Duration>,
    /// Denials of one tool in one run after which the run may no longer call that tool.
    pub tool_denials_max: Option<u64>,
    /// Agents whose runs process one call at a time.
    pub ordered: BTreeSet<String>,
    /// How long a call of an ordered run waits for its turn.
    pub ordered_wait: Duration,
    /// Whether results of read-only T0 tools are released before their outcome is recorded.
    pub batch_t0: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            pools: Vec::new(),
            store: None,
            rate: None,
            denials_max: None,
            alarm_rest: None,
            tool_denials_max: None,
            ordered: BTreeSet::new(),
            ordered_wait: Duration::from_secs(30),
            batch_t0: false,
        }
    }
}

/// The gate's limits, and what callers have used of them.
pub(super) struct Budget {
    pub(super) bounds: Bounds,
    quota: Option<Arc<Quota>>,
    pub(super) callers: Callers,
    /// Counts of requests refused before admission, until the next summary entry.
    pub(super) rejected: Rejected,
    ledger: Ledger,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    tasks: Tasks,
}

impl Budget {
    /// The limits of these parts, with nothing used.
    pub fn new(parts: &Parts, tasks: &Tasks) -> Self {
        let bounds = parts.settings.bounds.clone();
        let quota = bounds.store.as_ref().filter(|_| !bounds.pools.is_empty()).map(|store| {
            let (store, clock) = (Arc::clone(store), Arc::clone(&parts.clock));
            Quota::new(bounds.pools.clone(), store, clock, &*parts.entropy)
        });
        Self {
            bounds,
            quota,
            callers: Callers::default(),
            rejected: Rejected::default(),
            ledger: parts.ledger.clone(),
            clock: Arc::clone(&parts.clock),
            metrics: Arc::clone(&parts.metrics),
            tasks: tasks.clone(),
        }
    }

    /// Counts a request that was refused before it was admitted.
    pub fn reject(&self, code: Code) {
        self.metrics.rejected(code.as_str());
        self.rejected.count(code, self.clock.now());
    }

    /// The longest timeout of any tool; only pools need it.
    fn longest(&self, toolbox: &Toolbox) -> Duration {
        let tools = self.quota.iter().flat_map(|_| toolbox.iter());
        tools.map(|tool| tool.facts.timeout).max().unwrap_or_default()
    }

    /// The pools and what is left of them, for operators.
    pub(super) fn pools_left(&self) -> Vec<Json> {
        let of = |(pool, left): (&Pool, Option<u64>)| {
            Json::object([
                ("pool", Json::from(pool.name.as_str())),
                ("unit", Json::from(pool.unit.as_str())),
                ("per", Json::from(pool.per.as_str())),
                ("size", Json::from(pool.size)),
                ("left", left.map_or(Json::Null, Json::from)),
            ])
        };
        self.quota.iter().flat_map(|quota| quota.left().map(of)).take(TOLD_MAX).collect()
    }

    /// The runs of these that are suspended, and the tools that are suspended for one, for operators.
    pub(super) fn suspensions(&self, runs: &[Arc<Run>]) -> Vec<Json> {
        let mut told = Vec::new();
        for run in runs {
            let state = run.state.lock();
            let mut tell = |tool: Option<&ToolName>| {
                told.push(Json::object([
                    ("run", Json::from(run.id.to_string())),
                    ("agent", Json::from(run.opener.name.as_str())),
                    ("tool", tool.map_or(Json::Null, |tool| Json::from(tool.as_str()))),
                ]));
            };
            if state.suspended {
                tell(None);
            }
            let most = self.bounds.tool_denials_max.unwrap_or(u64::MAX);
            let tools = state.denied_tools.iter().filter(|(_, times)| **times >= most);
            tools.for_each(|(tool, _)| tell(Some(tool)));
        }
        told.truncate(TOLD_MAX);
        told
    }

    /// Returns what was leased from pools and not spent.
    pub async fn close(&self) {
        if let Some(quota) = &self.quota {
            quota.close().await;
        }
    }
}

/// The reservation of one call. Dropping it returns the reservation, unless the call was started.
#[derive(Debug)]
pub(super) struct Spending {
    run: Arc<Run>,
    spent: BudgetShare,
    started: bool,
    reserved: Option<Reserved>,
}

impl Spending {
    /// Marks the call as handed to its tool.
    pub fn start(&mut self) {
        self.started = true;
        if let Some(reserved) = &mut self.reserved {
            reserved.start();
        }
    }

    /// Settles the reservation of a call that ended. Nothing is spent if the call certainly never
    /// started; a model call spends only what it used.
    pub fn end(mut self, ended: &Ended, observed: &Observed) {
        let never = match &ended.outcome {
            Outcome::Failed { started, .. } => !started,
            Outcome::Cancelled { .. } => ended.attempts == 0,
            Outcome::Completed { .. } | Outcome::Unknown { .. } => false,
        };
        if never {
            self.started = false;
            if let Some(reserved) = &mut self.reserved {
                reserved.never_started();
            }
        } else if let Some(usage) = &observed.usage {
            let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
            let cost = usage.cost_micro_usd.unwrap_or(self.spent.cost);
            self.took(BudgetShare { tokens, cost });
        }
    }

    fn took(&mut self, taken: BudgetShare) {
        self.run.unspend(self.spent.rest(taken));
        // A provider may report more than the maximum that was reserved; that is spent too.
        self.run.overspend(taken.rest(self.spent));
        if let Some(reserved) = &mut self.reserved {
            reserved.took(taken);
        }
    }
}

impl Drop for Spending {
    fn drop(&mut self) {
        if !self.started {
            self.run.unspend(self.spent);
        }
    }
}

/// The place of a call in the queue of an ordered run.
#[derive(Debug)]
pub(super) struct InTurn {
    /// Resolves when the call before it has left the road.
    before: Option<oneshot::Receiver<()>>,
    /// Dropped when this call has left the road.
    after: oneshot::Sender<()>,
}

impl InTurn {
    /// Leaves the queue without processing the call: the next call then waits for the one before
    /// this.
    pub(super) async fn given_up(self) {
        if let Some(before) = self.before {
            drop(before.await);
        }
        drop(self.after);
    }
}

/// Appends to the run's queue. `state` is the run's and has been locked since the call was counted.
pub(super) fn line_up(state: &mut RunState) -> InTurn {
    let (after, next) = oneshot::channel();
    InTurn { before: state.last_in_line.replace(next), after }
}

/// Refuses a request of a run that is suspended (`own`), or of a run below one that is.
pub(super) fn not_suspended(run: &Run, own: bool) -> Result<(), Fault> {
    if own || run.suspended_above() {
        // WHY the message gives no cause: a caller that probes for credentials must not learn that
        // it found one.
        let message = "the run is suspended: ask an operator to reinstate it";
        return Err(Fault::new(Code::LimitExceeded, message).detail("limit.suspended"));
    }
    Ok(())
}

/// Refuses a call of a suspended run, or of an ordered run whose queue is full.
pub(super) fn may_enter(run: &Run, state: &RunState, call: &CallId) -> Result<(), Fault> {
    not_suspended(run, state.suspended).map_err(|fault| fault.about(call))?;
    if run.ordered && state.in_flight >= WAITING_MAX {
        return Err(in_row("too many calls of the run wait for their turn").about(call));
    }
    Ok(())
}

/// The fault for a gate whose runs together have reached the limit of calls on the road.
pub(super) fn no_room(call: &CallId) -> Fault {
    overloaded("too many calls are in progress").about(call)
}

fn in_row(message: &str) -> Fault {
    overloaded(message).detail("limit.ordered")
}

fn overloaded(message: &str) -> Fault {
    Fault::new(Code::Overloaded, message).after(Duration::from_secs(1))
}

impl Budget {
    /// Reserves the cost of the call from its run and from pools. Their refusals become part of the
    /// call's decision.
    ///
    /// # Errors
    /// `Unavailable`: a pool's store did not answer, and a call must not run on a guess.
    pub(super) async fn reserve(
        &self,
        trip: &mut Trip,
        toolbox: &Toolbox,
    ) -> Result<Spending, ledger::Error> {
        let mut spending = Spending {
            run: Arc::clone(&trip.run),
            spent: BudgetShare::default(),
            started: false,
            reserved: None,
        };
        let run = &trip.run;
        let name = trip.call.tool();
        // Nothing is reserved for a call that is already refused or whose tool the agent is not
        // granted.
        let granted = trip.refusals.is_empty() && run.granted(name).is_some();
        let Some(tool) = toolbox.get(name).filter(|_| granted) else { return Ok(spending) };
        let flat = Spend { tokens: 0, cost_micro_usd: tool.facts.cost_micro_usd };
        let spend = tool.executor.most_of(&trip.call).unwrap_or(flat);
        match run.spend(spend) {
            Ok(spent) => spending.spent = spent,
            // No limit of the run refuses what the gate checks or takes back.
            Err(_) if trip.call.is_of_gate() => {}
            Err(refusal) => {
                trip.refusals.push(refusal);
                return Ok(spending);
            }
        }
        let wanted = Wanted {
            agent: &run.agent.id,
            labels: &run.manifest.labels,
            tool: tool.facts.name.as_str(),
            spend,
            timeout: tool.facts.timeout,
            longest: self.longest(toolbox),
        };
        match self.of_pools(&wanted).await {
            Ok(mut reserved) => {
                let left =
                    reserved.as_mut().map(|reserved| std::mem::take(&mut reserved.remainders));
                trip.facts.pools = left.into_iter().flatten().map(pool_input).collect();
                spending.reserved = reserved;
            }
            Err(QuotaRefusal::Over(reasons)) => trip.refusals.extend(reasons),
            Err(QuotaRefusal::Unanswered(why)) => {
                self.metrics.pool_unanswered();
                return Err(ledger::Error::Unavailable(why));
            }
        }
        Ok(spending)
    }

    async fn of_pools(&self, wanted: &Wanted<'_>) -> Result<Option<Reserved>, QuotaRefusal> {
        if let Some(quota) = &self.quota {
            return quota.reserve(wanted).await.map(Some);
        }
        let covers = |pool: &Pool| pool.covers(wanted.agent, wanted.labels, wanted.tool);
        if self.bounds.pools.iter().any(covers) {
            return Err(QuotaRefusal::Unanswered(
                "pools are configured, but no store keeps them".to_owned(),
            ));
        }
        Ok(None)
    }

    /// Refuses a call to a tool that the run may no longer call after too many denials. A call that
    /// is already known is still answered.
    pub(super) fn check_tool_denials(&self, run: &Run, call: &ToolCall) -> Result<(), Fault> {
        let most = self.bounds.tool_denials_max.filter(|_| !call.is_of_gate());
        let Some(most) = most else { return Ok(()) };
        let state = run.state.lock();
        let denied = state.denied_tools.get(call.tool()).copied().unwrap_or_default();
        if denied < most || state.calls.contains_key(call.id()) {
            return Ok(());
        }
        let tool = call.tool();
        let message = format!("`{tool}` is suspended for the run: too many calls were denied");
        let fault = Fault::new(Code::LimitExceeded, message).detail("limit.tool_suspended");
        Err(fault.about(call.id()))
    }

    /// Counts a denial. Too many denials of one tool take that tool away from the run; too many
    /// denials of the caller within a minute suspend the run. Both are recorded.
    pub(super) fn denied(&self, run: &Run, tool: &ToolName) {
        self.denied_tool(run, tool);
        let Some(most) = self.bounds.denials_max else { return };
        {
            let now = self.clock.monotonic();
            let of_all = self.callers.denied(run, most, now);
            let mut state = run.state.lock();
            // Only the run's own denials are restored after a restart.
            let of_run = state.usage.denied_at(most, now);
            if !(of_all || of_run) || state.suspended {
                return;
            }
            state.suspended = true;
        }
        self.metrics.suspended();
        tracing::warn!(run = %run.id, "suspended: {} within a minute", many(most, "denial"));
        self.record_suspension(&run.id.to_string());
    }

    /// Counts granted tools only: otherwise an agent could fill memory with invented names.
    fn denied_tool(&self, run: &Run, tool: &ToolName) {
        let most = self.bounds.tool_denials_max;
        let Some(most) = most.filter(|_| run.granted(tool).is_some()) else { return };
        let times = {
            let mut state = run.state.lock();
            let times = state.denied_tools.entry(tool.clone()).or_default();
            *times = times.saturating_add(1);
            *times
        };
        if times == most {
            self.metrics.suspended();
            let denials = many(most, "denial");
            tracing::warn!(run = %run.id, %tool, "the tool is suspended for the run: {denials}");
            self.record_suspension(&format!("{}/{tool}", run.id));
        }
    }

    pub(super) fn record_suspension(&self, name: &str) {
        let (ledger, written) = (self.ledger.clone(), suspended(name));
        self.tasks.spawn(async move { drop(ledger.owe(written).await) });
    }
}

impl Road {
    /// Processes the call when its turn in the run comes.
    pub(super) async fn walk_in_turn(
        self: &Arc<Self>,
        trip: Trip,
        (slot, turn): (shares::ShareSlot, Option<InTurn>),
        caller: &watch::Sender<Option<Answer>>,
    ) {
        // `_after` lives until the end of this call: the next call waits for its drop.
        let (before, _after) = turn.map_or((None, None), |turn| (turn.before, Some(turn.after)));
        if let Some(mut before) = before
            && !self.comes(&mut before, &trip, caller).await
        {
            // The next call still waits for the one before; free everything else of this call now.
            drop((trip, slot));
            drop(before.await);
            return;
        }
        Box::pin(self.walk(trip, caller)).await;
        drop(slot);
    }

    /// Waits for the call's turn. If the turn does not come, forgets the call and answers its
    /// caller.
    async fn comes(
        &self,
        before: &mut oneshot::Receiver<()>,
        trip: &Trip,
        caller: &watch::Sender<Option<Answer>>,
    ) -> bool {
        let (run, id) = (&trip.run, trip.call.id());
        // A held call is recorded, so it waits without a limit.
        let held = trip.resumed.is_some();
        tokio::select! {
            biased;
            // A send or a drop both mean that the call before is gone.
            _ = before => true,
            () = trip.cancel.cancelled(), if !held => {
                self.uncommitted(run, id, &Undecided::Cancelled, caller);
                false
            }
            () = tokio::time::sleep(self.budget.bounds.ordered_wait), if !held => {
                run.forget(id);
                self.budget.reject(Code::Overloaded);
                let fault = in_row("the previous call of the run takes too long");
                caller.send_replace(Some(Err(fault.about(id))));
                false
            }
        }
    }
}

fn pool_input(left: quota::PoolRemainder) -> input::PoolInput {
    let quota::PoolRemainder { name, unit, left_permille, size } = left;
    input::PoolInput { name, unit: unit.to_owned(), left_permille, size }
}

/// The suspension names the run without belonging to its entries, which are the run's calls. For a
/// single suspended tool the name is `<run>/<tool>`.
fn suspended(name: &str) -> DraftWithPayloads {
    let about = (TargetKind::Run, name);
    DraftWithPayloads::bare(Draft::of(ControlApplied::idle(0, Action::Suspend.into(), about)))
}

/// How a call counts for the budget. An MCP tool reports a failure inside a result that arrived.
pub(super) fn budget_outcome(outcome: &Outcome, mcp: bool) -> BudgetOutcome {
    match outcome {
        Outcome::Completed { status, .. } if mcp && status == "error" => BudgetOutcome::Wrong,
        Outcome::Completed { .. } => BudgetOutcome::Well,
        Outcome::Failed { .. } | Outcome::Unknown { .. } => BudgetOutcome::Wrong,
        Outcome::Cancelled { .. } => BudgetOutcome::Stopped,
    }
}
