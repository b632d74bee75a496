//! May this call run? One prepared call, one decision, built in one place.
//!
//! `judge` is total: every failure (no bundle, an expired policy, an engine without an answer)
//! becomes a denial with its own code. Only `judge` pairs a call with its decision; `ledger` makes
//! the next token from that pair.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::approval::break_glass::Open;
use crate::approval::proposal::Proposer;
use crate::approval::{HELD_MAX, PasskeyScope};
use crate::domain::code::Code;
use crate::domain::decision::{Course, Decision, LayerReason, PolicyObligation, Verdict};
use crate::domain::digest::Digest;
use crate::domain::facts::ToolFacts;
use crate::domain::id::CallId;
use crate::domain::taint::Egress;
use crate::domain::tier::{Binding, Tier};
use crate::domain::time::Timestamp;
use crate::firewall::{Class, Confidence};
use crate::policy::flow::{TaintFacts, TaintInput, floored, is_irreversible, is_released};
use crate::policy::input::{self, AgentFacts, Circumstances, RunFacts};
use crate::policy::{Answer, PolicyEngine, ask_naming, denial, error, justified, weighed};

use masks::{MASKED_MAX, masked_again, masked_proposal, unmasked};

pub mod conversation;
pub mod exceptions;
pub mod guarding;
mod masks;
pub mod prepared;
mod resumed;

pub use masks::{ArgumentMasks, Remade};
pub use prepared::Prepared;
pub use resumed::{REFUSED, Resumed, effect_digest};

/// The decision about this call of this agent. Only [`judge`] makes it.
#[derive(Debug)]
#[must_use]
pub struct Judged {
    prepared: Prepared,
    decision: Decision,
    binding: Binding,
    resumed: Option<Resumed>,
    break_glass: Option<Arc<Open>>,
    asked_by: Option<Arc<Proposer>>,
    proposed_by: Option<CallId>,
    taint: Option<Box<(TaintFacts, TaintInput)>>,
}

impl Judged {
    /// The call that was judged.
    pub const fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// The decision about the call.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// `unclaimed`, `claimed` or `observed`.
    #[must_use]
    pub const fn binding(&self) -> Binding {
        self.binding
    }

    /// The hold that the call resumes from, if it was held before.
    #[must_use]
    pub const fn resumed(&self) -> Option<&Resumed> {
        self.resumed.as_ref()
    }

    /// The break-glass order without which the call would be held.
    #[must_use]
    pub fn break_glass(&self) -> Option<&Open> {
        self.break_glass.as_deref()
    }

    /// The approver who wrote the arguments, if the agent did not.
    #[must_use]
    pub fn asked_by(&self) -> Option<&Proposer> {
        self.asked_by.as_deref()
    }

    /// The call of a model whose answer asks for exactly this call.
    #[must_use]
    pub const fn proposed_by(&self) -> Option<&CallId> {
        self.proposed_by.as_ref()
    }

    /// What the run had read, and what of that is in the call; `None`: it had read nothing.
    #[must_use]
    pub fn taint(&self) -> Option<(&TaintFacts, &TaintInput)> {
        self.taint.as_deref().map(|(facts, input)| (facts, input))
    }

    /// Call and decision, for the next token.
    pub(crate) fn into_parts(self) -> (Prepared, Decision) {
        (self.prepared, self.decision)
    }
}

/// Code and message where passkeys alone do not release a call.
pub const OTHER_KEY: (&str, &str) = (
    "approval.passkey",
    "passkeys alone do not release this call: an approver has to sign with a key of a file or an agent",
);

/// The inputs of a judgement besides the call.
#[derive(Clone, Debug)]
pub struct Criteria<'a> {
    /// The bundle in force; `None` denies every call.
    pub engine: Option<&'a Arc<dyn PolicyEngine>>,
    /// The calling agent.
    pub agent: &'a AgentFacts,
    /// The history of the run.
    pub run: &'a RunFacts,
    /// The refusals of limits, breakers and operators' stops.
    pub refusals: Vec<LayerReason>,
    /// The time that the policy receives.
    pub now: Timestamp,
    /// How long a held call waits.
    pub hold: Duration,
    /// Whether the arguments are stored. Without them no approver could see the call, so it cannot
    /// be held.
    pub kept: bool,
    /// Reserves room for one more held call.
    pub room: HoldCapacity<'a>,
    /// Counts the call for the rates that its decision limits.
    pub rates: RateCapacity<'a>,
    /// Masks what the policy wants masked in the arguments.
    pub masks: ArgumentMasks<'a>,
    /// The hold that the call resumes from, with every approval so far.
    pub resumed: Option<Resumed>,
    /// The break-glass order that covers the call now, if there is one.
    pub break_glass: Option<Arc<Open>>,
    /// The approver who wrote the arguments, if the agent did not.
    pub asked_by: Option<Arc<Proposer>>,
    /// The call of a model whose answer asks for exactly this call.
    pub proposed_by: Option<CallId>,
    /// The calls that passkeys alone may approve.
    pub passkeys: PasskeyScope,
}

/// Reserves a place among the held calls, or returns why there is none. Called only when a call is
/// about to be held.
#[derive(Clone, Copy)]
pub struct HoldCapacity<'a>(pub &'a dyn Fn() -> Option<LayerReason>);

impl fmt::Debug for HoldCapacity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Room")
    }
}

/// Counts a call for the `rate_limit` obligations of its decision, or returns why it is one too many.
/// Called only when a call is about to run or to be held.
#[derive(Clone, Copy)]
pub struct RateCapacity<'a>(pub &'a dyn Fn(&[PolicyObligation]) -> Option<LayerReason>);

impl fmt::Debug for RateCapacity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RateCapacity")
    }
}

/// Decides about one prepared call. Total: every doubt becomes a denial.
pub fn judge(criteria: &Criteria<'_>, prepared: Prepared) -> Judged {
    judge_again(criteria, prepared, MASKED_MAX)
}

fn judge_again(criteria: &Criteria<'_>, prepared: Prepared, left: usize) -> Judged {
    let binding = criteria.agent.binding;
    let (decision, used) = match (decide(criteria, &prepared), left.checked_sub(1)) {
        (Decided::Made(decision, used), _) => (*decision, used),
        // WHY again: the decision is about the call as it runs, and its input shows that.
        (Decided::Unmasked(_, kinds), Some(left)) => {
            let Remade { prepared, taint, refusal } = (criteria.masks.0)(criteria, prepared, kinds);
            let recorded = criteria.run.taint.recorded.clone();
            let taint = TaintFacts { recorded, ..taint };
            let run = &RunFacts { taint, ..criteria.run.clone() };
            let mut criteria = Criteria { run, ..criteria.clone() };
            // WHY: what runs is exactly what the approver signed.
            let is_signed = criteria.asked_by.is_some() && prepared.screening().masked;
            criteria.refusals.extend(refusal.or_else(|| is_signed.then(masked_proposal)));
            return judge_again(&criteria, prepared, left);
        }
        (Decided::Unmasked(mut decision, _), None) => {
            limit(&mut decision, masked_again());
            (*decision, false)
        }
    };
    let break_glass = criteria.break_glass.clone().filter(|_| used);
    let (resumed, asked_by) = (criteria.resumed.clone(), criteria.asked_by.clone());
    let proposed_by = criteria.proposed_by.clone();
    let read = Some(&criteria.run.taint).filter(|taint| !taint.labels.is_empty());
    let taint = read.map(|facts| Box::new((facts.clone(), seen_taint(criteria, &prepared))));
    Judged { prepared, decision, binding, resumed, break_glass, asked_by, proposed_by, taint }
}

/// The taint as the policy and the floor see it.
fn seen_taint(criteria: &Criteria<'_>, prepared: &Prepared) -> TaintInput {
    criteria.run.taint.input(prepared.tool().map_or(Egress::Outside, |tool| tool.roles.egress))
}

/// What came of asking about a call.
enum Decided {
    /// The decision, and whether it rests on the break-glass order.
    Made(Box<Decision>, bool),
    /// The policy wants these kinds masked in the arguments first.
    Unmasked(Box<Decision>, Vec<String>),
}

fn decide(criteria: &Criteria<'_>, prepared: &Prepared) -> Decided {
    let (policy, layers, engine_name) = criteria.engine.map_or_else(
        || (Digest::of(&[]), Vec::new(), "none".to_owned()),
        |engine| (engine.digest(), engine.layers().to_vec(), engine.engine().to_owned()),
    );
    let mut decision = Decision {
        verdict: Verdict::Deny,
        reasons: against(criteria, prepared),
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
    let (Some(tool), Ok(engine)) = (tool, in_force(criteria)) else {
        if decision.reasons.is_empty() {
            decision.reasons.push(match (in_force(criteria), prepared.alarm()) {
                (Err(none), _) => none,
                (Ok(_), Some(_)) => LayerReason::no_allow(),
                (Ok(_), None) => no_policy(),
            });
        }
        return Decided::Made(Box::new(decision), false);
    };
    // A call that cannot be undone is always enforced, never only observed.
    let observe: Vec<&'static str> = match tool.tier {
        Tier::T3 => Vec::new(),
        Tier::T0 | Tier::T1 | Tier::T2 => {
            engine.observing(criteria.now).into_iter().map(|(layer, _)| layer).collect()
        }
    };
    let approvals = criteria.resumed.as_ref().map_or(&[][..], |resumed| &resumed.approvals);
    let (now, by_hand) = (criteria.now, engine.by_hand());
    let context = Circumstances { now, observe: &observe, approvals, by_hand, break_glass: None };
    let evaluate =
        |context: &Circumstances<'_>| evaluated(criteria, engine, (tool, prepared), context);
    let mut duties = adopt(&mut decision, evaluate(&context));
    if let Some(kinds) = unmasked(&decision, &duties, prepared) {
        return Decided::Unmasked(Box::new(decision), kinds);
    }
    if decision.course() == Course::Wait
        && let Some(unseen) = unseen(criteria, prepared, decision.input.as_deref())
    {
        limit(&mut decision, unseen);
    }
    // WHY ask again, and accept only an allow: break-glass turns a hold into a run. It must not
    // change a denial, nor a call that no rule allows.
    let mut used = false;
    if decision.course() == Course::Wait
        && let Some(open) = criteria.break_glass.as_deref()
    {
        let answered = evaluate(&Circumstances { break_glass: Some(open), ..context });
        if answered.answer.verdict == Verdict::Allow {
            duties = adopt(&mut decision, answered);
            used = true;
            if let Some(kinds) = unmasked(&decision, &duties, prepared) {
                return Decided::Unmasked(Box::new(decision), kinds);
            }
        }
    }
    // A call that was held has its places.
    if criteria.resumed.is_none()
        && let Some(full) = full(criteria, &decision, &duties)
    {
        limit(&mut decision, full);
        used = false;
    }
    decision.hold = (decision.course() == Course::Wait).then_some(criteria.hold);
    Decided::Made(Box::new(decision), used)
}

/// Why there is no place for a call that would run or be held. `duties`: the policy's own.
fn full(
    criteria: &Criteria<'_>,
    decision: &Decision,
    duties: &[PolicyObligation],
) -> Option<LayerReason> {
    let room = match decision.course() {
        Course::Refuse => return None,
        Course::Run => None,
        Course::Wait => (criteria.room.0)(),
    };
    room.or_else(|| (criteria.rates.0)(duties))
}

/// Denies a call that a limit refuses after the policy answered. WHY without the input: the limit
/// decided this, not a policy; a replay of the policy must not see it as the policy's decision.
fn limit(decision: &mut Decision, full: LayerReason) {
    decision.verdict = Verdict::Deny;
    decision.enforced = true;
    decision.ground = None;
    decision.obligations.clear();
    decision.reasons = vec![full];
    decision.input = None;
}

/// The reasons against the call that exist before the policy is evaluated.
fn against(criteria: &Criteria<'_>, prepared: &Prepared) -> Vec<LayerReason> {
    let mut refusals = prepared.refusals().to_vec();
    refusals.extend(criteria.refusals.iter().cloned());
    if let Some(resumed) = &criteria.resumed {
        refusals.extend(resumed.void(criteria, prepared));
    }
    if !criteria.kept && prepared.pre_image().is_some() {
        refusals.push(unkept());
    }
    refusals
}

/// The engine that decides, or the reason there is none.
fn in_force<'a>(criteria: &Criteria<'a>) -> Result<&'a Arc<dyn PolicyEngine>, LayerReason> {
    let engine = criteria.engine.ok_or_else(no_policy)?;
    match engine.valid_until().filter(|until| *until <= criteria.now) {
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

/// What the policy made of one input.
struct Evaluated {
    answer: Answer,
    /// The rule an allow follows from.
    ground: Option<String>,
    input: Vec<u8>,
    /// What the policy demands of the call. WHY beside the answer: a call that waits because an approver changed
    /// it is recorded without duties, and counts for rates as any other.
    duties: Vec<PolicyObligation>,
}

/// Asks the policy about a call in these circumstances.
fn evaluated(
    criteria: &Criteria<'_>,
    engine: &Arc<dyn PolicyEngine>,
    (tool, prepared): (&ToolFacts, &Prepared),
    context: &Circumstances<'_>,
) -> Evaluated {
    let input =
        input::document(criteria.agent, criteria.run, tool, &prepared.call_input(), context);
    let asked = ask_naming(engine.as_ref(), &input, !context.observe.is_empty());
    let (answer, rule) = asked.unwrap_or_else(|failure| (denial(&failure), None));
    let duties = answer.obligations.clone();
    let proposer = criteria.asked_by.as_deref().map(|by| by.approval.subject.as_str());
    let answer = weighed(answer, proposer, context.approvals);
    let taint = criteria.run.taint.input(tool.roles.egress);
    let released = is_released(proposer, context.approvals) || context.break_glass.is_some();
    let answer = floored(answer, Some(&taint), is_irreversible(tool.tier, &tool.kind), released);
    let answer = justified(answer, prepared.call().justification().is_some());
    let answer = match criteria.passkeys.allows(tool.tier, context.approvals) {
        true => answer,
        false => keyed(answer, context),
    };
    let ground = rule.filter(|_| answer.verdict == Verdict::Allow);
    Evaluated { answer, ground, input, duties }
}

/// The answer to a call whose approvals are by passkeys where another key is needed: it waits for
/// one if it would run. An order of break-glass needs no approver. No decision is recorded until
/// then, so an audit needs no such rule.
fn keyed(answer: Answer, context: &Circumstances<'_>) -> Answer {
    let runs = answer.verdict == Verdict::Allow || !answer.enforced;
    if !runs || context.break_glass.is_some() {
        return answer;
    }
    let reason = LayerReason {
        code: Code::CallHeld,
        detail: OTHER_KEY.0.into(),
        message: OTHER_KEY.1.into(),
        rule: "approval".into(),
    };
    let (verdict, reasons) = (Verdict::RequireApproval, vec![reason]);
    Answer { verdict, reasons, obligations: Vec::new(), enforced: true }
}

/// Adopts the policy's answer about this input, and returns what the policy demands.
fn adopt(decision: &mut Decision, evaluated: Evaluated) -> Vec<PolicyObligation> {
    let Evaluated { answer, ground, input, duties } = evaluated;
    let Answer { verdict, reasons, obligations, enforced } = answer;
    decision.ground = ground;
    decision.verdict = verdict;
    decision.reasons = reasons;
    decision.obligations = obligations;
    decision.enforced = enforced;
    decision.input = Some(input);
    duties
}

fn unkept() -> LayerReason {
    let why = "nothing of this run is stored, so the call could not be undone";
    LayerReason::effect_refused("tier", "pre_image.not_kept", why)
}

/// Why no approver could see the call. `input`: what the policy saw of it, which approvers see too.
fn unseen(
    criteria: &Criteria<'_>,
    prepared: &Prepared,
    input: Option<&[u8]>,
) -> Option<LayerReason> {
    let call = prepared.call();
    if prepared.screening().withheld.is_some() {
        let found = &prepared.screening().findings;
        let is_sure = found.iter().any(|one| {
            one.class == Class::Secret.as_str() && one.confidence == Confidence::High.as_str()
        });
        let setting = if is_sure {
            format!("firewall.tools.{}.arguments.secret: redact", call.tool())
        } else {
            // What may well be none follows this setting.
            "firewall.low: redact".to_owned()
        };
        let why = format!(
            "the call needs an approval, and its arguments hold a secret: they are not stored, so no approver could \
             see them; leave the secret out, or an operator has it masked with `{setting}`"
        );
        return Some(LayerReason::denied("approval", "approval.withheld", why));
    }
    let bytes = call.canonical().len().max(call.sent().len()).max(input.map_or(0, <[u8]>::len));
    let why = if !criteria.kept {
        "the call needs an approval, and its arguments are not stored, so no approver could see them"
            .to_owned()
    } else if bytes > HELD_MAX {
        let advice = match call.dialect() {
            Some(_) => "shorten the conversation",
            None => "ask for less at a time",
        };
        format!(
            "the call needs an approval, and an approver is shown {HELD_MAX} bytes at most; with what a \
             policy sees of it, it has {bytes}: {advice}"
        )
    } else {
        return None;
    };
    Some(LayerReason::denied("approval", "approval.unseen", why))
}
