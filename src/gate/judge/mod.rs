//! May this call run? One prepared call, one decision, built in one place.
//!
//! `judge` is total: whatever goes wrong (no bundle, a policy that has ended, an engine without an answer)
//! comes out as a denial with its own code. What it returns pairs the call with the decision, and nothing
//! else can: `ledger` makes the next token of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::approval::break_glass::Open;
use crate::approval::proposal::Proposer;
use crate::domain::code::Code;
use crate::domain::decision::{Course, Decision, LayerReason, Verdict};
use crate::domain::digest::Digest;
use crate::domain::tier::{Binding, Tier};
use crate::domain::time::Timestamp;
use crate::policy::input::{self, AgentFacts, RunFacts, Standing};
use crate::policy::{Answer, PolicyEngine, allowed_by, ask, error, or_denial, weighed};

pub mod prepared;
mod resumed;

pub use prepared::Prepared;
pub use resumed::{Resumed, effect_digest};

/// This call by this agent got this decision. Made only by [`judge`].
#[derive(Debug)]
#[must_use]
pub struct Judged {
    prepared: Prepared,
    decision: Decision,
    binding: Binding,
    resumed: Option<Resumed>,
    break_glass: Option<Arc<Open>>,
    asked_by: Option<Arc<Proposer>>,
}

impl Judged {
    /// The call that was judged.
    pub const fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// The decision about it.
    #[must_use]
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// `unclaimed`, `claimed` or `observed`.
    #[must_use]
    pub const fn binding(&self) -> Binding {
        self.binding
    }

    /// The hold it was under, if it was held before.
    #[must_use]
    pub const fn resumed(&self) -> Option<&Resumed> {
        self.resumed.as_ref()
    }

    /// The break-glass order without which it would wait for an approver.
    #[must_use]
    pub fn break_glass(&self) -> Option<&Open> {
        self.break_glass.as_deref()
    }

    /// The approver who wrote its arguments, if the agent did not.
    #[must_use]
    pub fn asked_by(&self) -> Option<&Proposer> {
        self.asked_by.as_deref()
    }

    /// Both, for the token that follows.
    pub(crate) fn into_parts(self) -> (Prepared, Decision) {
        (self.prepared, self.decision)
    }
}

/// What a call is judged by, besides itself.
#[derive(Debug)]
pub struct Criteria<'a> {
    /// The bundle in force; `None` denies everything.
    pub engine: Option<&'a Arc<dyn PolicyEngine>>,
    /// The agent that asks.
    pub agent: &'a AgentFacts,
    /// The run so far.
    pub run: &'a RunFacts,
    /// What limits, breakers and switches have against it.
    pub refusals: Vec<LayerReason>,
    /// The time the policy is told.
    pub now: Timestamp,
    /// How long a held call waits.
    pub hold: Duration,
    /// Whether its arguments will be kept: what nobody can look at, no approval can count.
    pub kept: bool,
    /// Whether one more call may wait for an approval.
    pub room: HoldCapacity<'a>,
    /// The hold it is under, with everybody who approved it so far.
    pub resumed: Option<Resumed>,
    /// The break-glass order that covers it now, if there is one.
    pub break_glass: Option<Arc<Open>>,
    /// The approver who wrote its arguments, if the agent did not.
    pub asked_by: Option<Arc<Proposer>>,
}

/// Takes a place among the calls that wait for an approval, or says why there is none. Asked only when
/// a call is to be held.
#[derive(Clone, Copy)]
pub struct HoldCapacity<'a>(pub &'a dyn Fn() -> Option<LayerReason>);

impl fmt::Debug for HoldCapacity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Room")
    }
}

/// Decides about one prepared call. Total: every doubt is a denial.
pub fn judge(bench: &Criteria<'_>, prepared: Prepared) -> Judged {
    let binding = bench.agent.binding;
    let (mut decision, used) = decide(bench, &prepared);
    if let (Some(engine), Some(input)) = (bench.engine, &decision.input)
        && decision.verdict == Verdict::Allow
    {
        decision.ground = allowed_by(engine.as_ref(), input);
    }
    let break_glass = bench.break_glass.clone().filter(|_| used);
    let (resumed, asked_by) = (bench.resumed.clone(), bench.asked_by.clone());
    Judged { prepared, decision, binding, resumed, break_glass, asked_by }
}

/// The decision, and whether it is that of the break-glass order.
fn decide(bench: &Criteria<'_>, prepared: &Prepared) -> (Decision, bool) {
    let (policy, layers, engine_name) = bench.engine.map_or_else(
        || (Digest::of(&[]), Vec::new(), "none".to_owned()),
        |engine| (engine.digest(), engine.layers().to_vec(), engine.engine().to_owned()),
    );
    let mut decision = Decision {
        verdict: Verdict::Deny,
        reasons: against(bench, prepared),
        ground: None,
        obligations: Vec::new(),
        policy,
        layers,
        enforced: true,
        engine: engine_name,
        input: None,
        alarm: prepared.alarm(),
        hold: None,
    };
    let tool = prepared.tool().filter(|_| prepared.is_ready() && decision.reasons.is_empty());
    let (Some(tool), Ok(engine)) = (tool, in_force(bench)) else {
        if decision.reasons.is_empty() {
            decision.reasons.push(match (in_force(bench), prepared.alarm()) {
                (Err(none), _) => none,
                (Ok(_), Some(_)) => LayerReason::no_allow(),
                (Ok(_), None) => no_policy(),
            });
        }
        return (decision, false);
    };
    // What cannot be undone is never merely observed.
    let observe: Vec<&'static str> = match tool.tier {
        Tier::T3 => Vec::new(),
        Tier::T0 | Tier::T1 | Tier::T2 => {
            engine.observing(bench.now).into_iter().map(|(layer, _)| layer).collect()
        }
    };
    let approvals = bench.resumed.as_ref().map_or(&[][..], |resumed| &resumed.approvals);
    let proposer = bench.asked_by.as_deref().map(|by| by.approval.subject.as_str());
    let by_hand = engine.by_hand();
    let standing =
        Standing { now: bench.now, observe: &observe, approvals, by_hand, break_glass: None };
    let asked = |standing: &Standing<'_>| {
        let input = input::document(bench.agent, bench.run, tool, &prepared.asked(), standing);
        let answer = or_denial(ask(engine.as_ref(), &input, !observe.is_empty()));
        (weighed(answer, proposer, approvals), input)
    };
    adopt(&mut decision, asked(&standing));
    if decision.course() == Course::Wait && !bench.kept {
        decision.verdict = Verdict::Deny;
        decision.obligations.clear();
        decision.reasons.insert(0, unseen());
    }
    // WHY: asked a second time, and only an allow counts: break-glass turns a wait into a run, and neither
    // a denial nor what no rule allows into anything else.
    if decision.course() == Course::Wait
        && let Some(open) = bench.break_glass.as_deref()
    {
        let answered = asked(&Standing { break_glass: Some(open), ..standing });
        if answered.0.verdict == Verdict::Allow {
            adopt(&mut decision, answered);
            return (decision, true);
        }
    }
    if decision.course() == Course::Wait
        && bench.resumed.is_none()
        && let Some(full) = (bench.room.0)()
    {
        decision.verdict = Verdict::Deny;
        decision.obligations.clear();
        decision.reasons = vec![full];
        // WHY: it is no policy that says so, and a replay of the policy must not be told it was.
        decision.input = None;
    }
    decision.hold = (decision.course() == Course::Wait).then_some(bench.hold);
    (decision, false)
}

/// What speaks against the call before any policy is asked.
fn against(bench: &Criteria<'_>, prepared: &Prepared) -> Vec<LayerReason> {
    let mut refusals = prepared.refusals().to_vec();
    refusals.extend(bench.refusals.iter().cloned());
    if let Some(resumed) = &bench.resumed {
        refusals.extend(resumed.void(bench, prepared));
    }
    if !bench.kept && prepared.pre_image().is_some() {
        refusals.push(unkept());
    }
    refusals
}

/// Who decides, or why nobody does.
fn in_force<'a>(bench: &Criteria<'a>) -> Result<&'a Arc<dyn PolicyEngine>, LayerReason> {
    let engine = bench.engine.ok_or_else(no_policy)?;
    match engine.valid_until().filter(|until| *until <= bench.now) {
        None => Ok(engine),
        Some(until) => {
            let why = format!("the policy bundle in force was valid until {until}");
            Err(error("policy_ended", &why))
        }
    }
}

fn no_policy() -> LayerReason {
    error("no_policy", "no policy bundle is in force")
}

/// Takes over what the policy answered about this input.
fn adopt(decision: &mut Decision, (answer, input): (Answer, Vec<u8>)) {
    let Answer { verdict, reasons, obligations, enforced } = answer;
    decision.verdict = verdict;
    decision.reasons = reasons;
    decision.obligations = obligations;
    decision.enforced = enforced;
    decision.input = Some(input);
}

fn unkept() -> LayerReason {
    let why = "nothing of this run is stored, so the call could not be undone";
    LayerReason::effect_refused("tier", "pre_image.not_kept", why)
}

fn unseen() -> LayerReason {
    LayerReason {
        code: Code::PolicyDenied,
        detail: "approval.unseen".into(),
        message: "the call needs an approval, and its arguments are not stored, so no approver could see them"
            .into(),
        rule: "approval".into(),
    }
}
