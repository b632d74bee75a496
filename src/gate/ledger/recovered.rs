//! A run that outlived its writer, rebuilt from its entries for the next writer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::domain::decision::CallRate;
use crate::domain::guarded::Withheld;
use crate::domain::id::{CallId, RunId, ToolName};
use crate::domain::time::Timestamp;
use crate::ledger::closing::{MODIFIED, WRITER_LOST};
use crate::ledger::reading::PastReading;
use crate::record::call::{CallCancelled, CallCompleted, CallDenied, CallUnknown, Reason, Usage};
use crate::record::calls::{Calls, Phase};
use crate::record::run::TaintCleared;
use crate::record::{Entry, Int, Kind, Role};

/// A run that was open when the last writer ended, from its entries.
#[derive(Clone, Debug)]
pub struct RecoveredRun {
    /// The run.
    pub run: RunId,
    /// Its `run.opened` entry.
    pub opened: Entry,
    /// `run_seq` of its last entry.
    pub last_seq: u64,
    /// Every call and how far it is.
    pub calls: Calls,
    /// What its limits remember.
    pub past: PastUsage,
}

/// What the limits of a run need from its entries after a restart.
#[derive(Clone, Debug, Default)]
pub struct PastUsage {
    /// Failed or unknown calls since the last success.
    pub errors_in_row: u64,
    /// What its authorised calls spent.
    pub spending: PastSpending,
    /// What the runs it delegated to used of its limits, sealed ones included.
    pub delegated: Delegated,
    /// When calls were denied, ascending; only the last ones.
    pub denials: VecDeque<Timestamp>,
    /// When the gate last refused a call because of what it detected in it.
    pub alarmed: Option<Timestamp>,
    /// Denied calls, by tool.
    pub denied: BTreeMap<ToolName, u64>,
    /// The tools of calls that are or were held.
    pub held: BTreeMap<CallId, ToolName>,
    /// What models answered.
    pub models: PastModels,
    /// What the run and the runs below it had read.
    pub reading: PastReading,
    /// The number of the newest order that took its labels away; 0 if none did.
    pub cleared: u64,
    /// The tools of calls whose answer may have been released, and whose end was lost with the writer.
    pub lost: BTreeMap<CallId, ToolName>,
    /// The calls that counted for rates of policies, the oldest first; only the last ones.
    pub rates: Vec<PastRate>,
}

/// A call that counted for a rate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PastRate {
    /// Its tool.
    pub tool: ToolName,
    /// The rate.
    pub rate: CallRate,
    /// When it was decided.
    pub at: Timestamp,
    /// The call.
    pub call: CallId,
}

impl PastRate {
    /// What the decision of this entry counts for. A call that was held counted then, unless that entry has no
    /// duties of the policy.
    fn of<'a>(entry: &'a Entry, counted: &BTreeSet<CallId>) -> impl Iterator<Item = Self> + 'a {
        let draft = &entry.draft;
        let counts = matches!(draft.kind(), Kind::CallAuthorized | Kind::CallHeld);
        let about = draft.tool.clone().zip(draft.call.clone());
        let about = about.filter(|(_, call)| counts && !counted.contains(call));
        let decision = draft.body.decision().filter(|_| about.is_some());
        let rates = decision.into_iter().flat_map(|decision| decision.obligations);
        rates.filter_map(move |obligation| {
            let (calls, seconds) = (obligation.calls?.get(), obligation.seconds?.get());
            let (tool, call) = about.clone()?;
            Some(Self { tool, rate: CallRate { calls, seconds }, at: entry.ts, call })
        })
    }
}

/// What models answered to a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PastModels {
    /// The last complete answers, the oldest first.
    pub answers: VecDeque<PastAnswer>,
    /// The models that answered since a request was last denied because of one of them.
    pub responded: BTreeSet<String>,
}

/// A complete answer of a model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PastAnswer {
    /// Its call.
    pub call: CallId,
    /// The tool that was called.
    pub tool: ToolName,
    /// The upstream that answered.
    pub upstream: String,
}

impl PastModels {
    /// Answers remembered at most.
    const ANSWERS: usize = 256;
    /// The detail of the reason that another model answered than the manifest lists.
    pub(crate) const OTHER_ANSWERED: &str = "manifest.responded";

    fn add(&mut self, entry: &Entry) {
        let draft = &entry.draft;
        if let Some(denied) = draft.get::<CallDenied>() {
            let is_other = |reason: &Reason| reason.detail.as_str() == Self::OTHER_ANSWERED;
            if denied.reasons.iter().any(is_other) {
                self.responded.clear();
            }
        }
        let Some(observed) = draft.body.observed() else { return };
        self.responded.extend(observed.model.as_ref().map(ToString::to_string));
        if let (Kind::CallCompleted, Some(usage), Some(call), Some(tool)) =
            (draft.kind(), &observed.usage, &draft.call, &draft.tool)
        {
            if self.answers.len() >= Self::ANSWERS {
                self.answers.pop_front();
            }
            let (call, tool, upstream) = (call.clone(), tool.clone(), usage.upstream.to_string());
            self.answers.push_back(PastAnswer { call, tool, upstream });
        }
    }
}

impl PastUsage {
    /// Denials remembered at most.
    const DENIALS: usize = 1024;
    /// Calls remembered at most that counted for rates.
    const RATES: usize = 16 * 1024;

    fn add_lost(&mut self, entry: &Entry) {
        let draft = &entry.draft;
        let Some(call) = &draft.call else { return };
        if let (Kind::CallAuthorized, Some(tool)) = (draft.kind(), &draft.tool) {
            self.lost.insert(call.clone(), tool.clone());
        }
        let unknown = draft.get::<CallUnknown>();
        if draft.kind().ends_call() && unknown.is_none_or(|end| &*end.cause != WRITER_LOST) {
            self.lost.remove(call);
        }
    }

    /// Reads the state from the ascending entries of a run.
    pub(super) fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Self {
        let mut past = Self::default();
        let mut asked = BTreeMap::new();
        let (mut closed, mut counted) = (BTreeSet::new(), BTreeSet::new());
        for entry in entries {
            let draft = &entry.draft;
            past.models.add(entry);
            past.reading.take(entry);
            past.add_lost(entry);
            closed.extend(draft.get::<CallUnknown>().and(draft.call.clone()));
            if draft.kind() == Kind::TaintCleared {
                past.lost.retain(|call, _| !closed.contains(call));
            }
            let cleared = draft.get::<TaintCleared>().map_or(0, |cleared| cleared.order.get());
            past.cleared = past.cleared.max(cleared);
            let rates: Vec<PastRate> = PastRate::of(entry, &counted).collect();
            counted.extend(rates.iter().map(|rate| rate.call.clone()));
            past.rates.extend(rates);
            let replaced = draft
                .get::<CallCancelled>()
                .is_some_and(|ended| ended.reason.starts_with(MODIFIED));
            if replaced {
                past.rates.retain(|rate| Some(&rate.call) != draft.call.as_ref());
            }
            if let (Kind::CallHeld, Some(call), Some(tool)) =
                (draft.kind(), &draft.call, &draft.tool)
            {
                past.held.insert(call.clone(), tool.clone());
            }
            if let (Some(usage), Some(call), Some(tool)) = (usage(entry), &draft.call, &draft.tool)
            {
                let bytes = asked.remove(call).unwrap_or_default();
                past.spending.measured(tool, bytes, usage);
            }
            // An MCP tool reports a failure inside a result that arrived.
            let status = draft.get::<CallCompleted>().map(|call| call.status.as_str());
            let failed = matches!(draft.kind(), Kind::CallFailed | Kind::CallUnknown)
                || (draft.kind() == Kind::CallCompleted && status == Some("error"));
            if failed {
                past.errors_in_row = past.errors_in_row.saturating_add(1);
            } else if draft.kind() == Kind::CallCompleted {
                past.errors_in_row = 0;
            } else if draft.kind() == Kind::CallDenied {
                if let Some(tool) = &draft.tool {
                    let times = past.denied.entry(tool.clone()).or_default();
                    *times = times.saturating_add(1);
                }
                let withheld = draft.get::<CallDenied>().and_then(|call| call.args_withheld);
                if withheld.and_then(Withheld::alarm).is_some() {
                    past.alarmed = past.alarmed.max(Some(entry.ts));
                }
                past.denials.push_back(entry.ts);
                if past.denials.len() > Self::DENIALS {
                    past.denials.pop_front();
                }
            } else if let (Kind::CallAuthorized, Some(tool)) = (draft.kind(), &draft.tool) {
                let bytes = args_bytes(entry);
                past.spending.authorized(tool, bytes);
                asked.extend(draft.call.clone().map(|call| (call, bytes)));
            }
        }
        let more = past.rates.len().saturating_sub(Self::RATES);
        past.rates.drain(..more);
        past
    }
}

/// What the descendants of a run used, as far as its limits count it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Delegated {
    /// Calls that were decided.
    pub calls: u64,
    /// What authorised calls spent, without those of simulated runs.
    pub spending: PastSpending,
    /// What they read.
    pub reading: PastReading,
}

/// What authorised calls spent, as far as the entries record it. The gate, which knows the tools,
/// prices calls that were not measured.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PastSpending {
    /// Tokens of measured calls.
    pub tokens: u64,
    /// The cost of those; millionths of a US dollar.
    pub cost_micro_usd: u64,
    /// The calls without measured usage, by tool.
    pub unmeasured: BTreeMap<ToolName, Unmeasured>,
}

/// Calls of one tool without recorded usage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unmeasured {
    /// How many.
    pub calls: u64,
    /// Bytes of their arguments.
    pub args_bytes: u64,
}

impl PastSpending {
    /// Adds an authorised call with this many bytes of arguments.
    pub(super) fn authorized(&mut self, tool: &ToolName, args_bytes: u64) {
        let calls = self.unmeasured.entry(tool.clone()).or_default();
        calls.calls = calls.calls.saturating_add(1);
        calls.args_bytes = calls.args_bytes.saturating_add(args_bytes);
    }

    /// Adds the usage of one of those calls: `usage` is the member of its last entry.
    pub(super) fn measured(&mut self, tool: &ToolName, args_bytes: u64, usage: &Usage) {
        if let Some(calls) = self.unmeasured.get_mut(tool) {
            calls.calls = calls.calls.saturating_sub(1);
            calls.args_bytes = calls.args_bytes.saturating_sub(args_bytes);
        }
        let cost = usage.cost_micro_usd.map_or(0, Int::get);
        let tokens = usage.input_tokens.get().saturating_add(usage.output_tokens.get());
        self.tokens = self.tokens.saturating_add(tokens);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(cost);
    }
}

/// Bytes of the arguments a decision's entry commits to.
pub(super) fn args_bytes(entry: &Entry) -> u64 {
    let in_parts = entry.draft.body.decision().and_then(|decision| decision.args_bytes);
    in_parts.unwrap_or_else(|| entry.draft.committed(Role::Args).map_or(0, |c| c.len.get()))
}

/// The usage of a model, if this is the last entry of a call that measured it.
pub(super) fn usage(entry: &Entry) -> Option<&Usage> {
    entry.draft.body.observed()?.usage.as_ref()
}

impl RecoveredRun {
    /// Held calls with an approver's answer: they must be decided again.
    pub fn decided_holds(&self) -> impl Iterator<Item = &CallId> {
        let answered = |phase: Phase| matches!(phase, Phase::Approved(_) | Phase::Refused(_));
        self.calls.iter().filter(move |(_, phase)| answered(*phase)).map(|(call, _)| call)
    }

    /// Held calls and when they expire.
    pub fn held(&self) -> impl Iterator<Item = (&CallId, Timestamp)> {
        self.calls.held()
    }
}
