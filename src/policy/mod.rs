//! May this call run? One bundle of Rego, one document, one decision, built in one place.
//!
//! `judge` is total: whatever goes wrong (no bundle, an undefined rule, an error, a timeout, an unknown
//! obligation) comes out as a denial with its own code. A policy error is never a silent allow.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use crate::approval::break_glass::Open;
use crate::approval::proposal::Proposer;
use crate::domain::code::Code;
use crate::domain::decision::{Course, Decision, LayerDigest, Obligation, Reason, Verdict};
use crate::domain::digest::Digest;
use crate::domain::prepared::Prepared;
use crate::domain::tier::{Binding, Tier};
use crate::domain::time::Timestamp;

#[cfg(feature = "gate")]
pub mod activation;
mod alike;
mod ast;
mod bounds;
mod builtins;
pub mod bundle;
#[cfg(feature = "gate")]
pub mod carried;
mod depth;
#[cfg(feature = "gate")]
pub mod diff;
mod document;
pub mod enforcement;
#[cfg(feature = "gate")]
pub mod explain;
pub mod fault;
mod formats;
mod ground;
pub mod input;
mod layout;
#[cfg(feature = "gate")]
pub mod lint;
mod modified;
#[cfg(feature = "gate")]
pub mod mutate;
#[cfg(feature = "gate")]
pub mod opa;
mod places;
mod portable;
mod purity;
mod recursion;
pub mod rego;
mod resumed;
#[cfg(feature = "gate")]
pub mod selftest;
mod source;
mod stock;
#[cfg(feature = "gate")]
pub mod suggest;
mod tar;
#[cfg(feature = "gate")]
pub mod testing;

use input::{AgentFacts, RunFacts, Standing};
pub use modified::weighed;
pub use resumed::{Resumed, effect_digest};

/// What an engine answers about one input: already checked against the closed decision document.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// The answer.
    pub verdict: Verdict,
    /// Why; never empty for `Deny` and `RequireApproval`.
    pub reasons: Vec<Reason>,
    /// What must also happen.
    pub obligations: Vec<Obligation>,
    /// False only if nothing but layers in observe mode is against the call; never for an allow.
    pub enforced: bool,
}

/// Why an engine has no answer. Every one of these is a denial with code `policy.error`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The document is undefined.
    #[error("the decision is undefined")]
    Undefined,
    /// A builtin or a rule failed, or two rules conflict.
    #[error("evaluation failed: {0}")]
    Evaluation(String),
    /// It took longer than the deadline.
    #[error("evaluation took longer than {0:?}")]
    Deadline(Duration),
    /// The document is not of the closed shape.
    #[error("the decision document is not valid: {0}")]
    Document(String),
}

impl EngineError {
    /// The detail code of the reason: `undefined`, `evaluation`, `deadline`, `document`.
    #[must_use]
    pub const fn detail(&self) -> &'static str {
        match self {
            Self::Undefined => "undefined",
            Self::Evaluation(_) => "evaluation",
            Self::Deadline(_) => "deadline",
            Self::Document(_) => "document",
        }
    }
}

/// The port to an engine that holds one immutable bundle. Shared without a lock.
pub trait PolicyEngine: Send + Sync + fmt::Debug + 'static {
    /// Evaluates the decision document over these canonical input bytes.
    ///
    /// Same bytes, same bundle: same answer.
    ///
    /// # Errors
    /// See [`EngineError`]; the caller denies.
    fn decide(&self, input: &[u8]) -> Result<Answer, EngineError>;
    /// The rule an allow of these input bytes follows from, with its file and line. `None`: it cannot be told.
    fn allowed_by(&self, input: &[u8]) -> Option<String> {
        let _ = input;
        None
    }
    /// Digest of the bundle, composition library included.
    fn digest(&self) -> Digest;
    /// Digests of its layers.
    fn layers(&self) -> &[LayerDigest];
    /// Engine and version, for the entry.
    fn engine(&self) -> &str;
    /// The layers in observe mode at this time, sorted, and until when: their word is recorded and
    /// not enforced. None unless the bundle says so.
    fn observing(&self, now: Timestamp) -> Vec<(&'static str, Timestamp)> {
        let _ = now;
        Vec::new()
    }
    /// From when on the bundle decides nothing any more, if it says so.
    fn valid_until(&self) -> Option<Timestamp> {
        None
    }
    /// The layers whose rules look at `input.approvals` and count approvers for themselves.
    fn by_hand(&self) -> &[&'static str] {
        &[]
    }
}

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
pub struct Bench<'a> {
    /// The bundle in force; `None` denies everything.
    pub engine: Option<&'a Arc<dyn PolicyEngine>>,
    /// The agent that asks.
    pub agent: &'a AgentFacts,
    /// The run so far.
    pub run: &'a RunFacts,
    /// What limits, breakers and switches have against it.
    pub refusals: Vec<Reason>,
    /// The time the policy is told.
    pub now: Timestamp,
    /// How long a held call waits.
    pub hold: Duration,
    /// Whether its arguments will be kept: what nobody can look at, nobody can approve.
    pub kept: bool,
    /// Whether one more call may wait for an approval.
    pub room: Room<'a>,
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
pub struct Room<'a>(pub &'a dyn Fn() -> Option<Reason>);

impl fmt::Debug for Room<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Room")
    }
}

/// Decides about one prepared call. Total: every doubt is a denial.
pub fn judge(bench: &Bench<'_>, prepared: Prepared) -> Judged {
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
fn decide(bench: &Bench<'_>, prepared: &Prepared) -> (Decision, bool) {
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
                (Ok(_), Some(_)) => Reason::no_allow(),
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
        let input = input::document(bench.agent, bench.run, tool, prepared, standing);
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
fn against(bench: &Bench<'_>, prepared: &Prepared) -> Vec<Reason> {
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
fn in_force<'a>(bench: &Bench<'a>) -> Result<&'a Arc<dyn PolicyEngine>, Reason> {
    let engine = bench.engine.ok_or_else(no_policy)?;
    match engine.valid_until().filter(|until| *until <= bench.now) {
        None => Ok(engine),
        Some(until) => {
            let why = format!("the policy bundle in force was valid until {until}");
            Err(error("policy_ended", &why))
        }
    }
}

fn no_policy() -> Reason {
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

fn unkept() -> Reason {
    let why = "nothing of this run is stored, so the call could not be undone";
    Reason::effect_refused("tier", "pre_image.not_kept", why)
}

fn unseen() -> Reason {
    Reason {
        code: Code::PolicyDenied,
        detail: "approval.unseen".into(),
        message: "the call needs an approval, and its arguments are not kept for anybody to see"
            .into(),
        rule: "approval".into(),
    }
}

/// What the engine says about these canonical input bytes. `observing`: the input names layers in
/// observe mode. The gate and an offline replay both ask here.
///
/// # Errors
/// It has no answer.
pub fn ask(
    engine: &dyn PolicyEngine,
    input: &[u8],
    observing: bool,
) -> Result<Answer, EngineError> {
    // An engine that panics has not answered.
    let answered = std::panic::catch_unwind(AssertUnwindSafe(|| engine.decide(input)));
    let answered =
        answered.unwrap_or_else(|_| Err(EngineError::Evaluation("the engine panicked".into())))?;
    // WHY: no answer of an engine can lift enforcement where no layer observes.
    let enforced = answered.enforced || !observing;
    Ok(Answer { enforced, ..answered })
}

/// The rule an allow of these input bytes follows from, as [`ask`] asks.
#[must_use]
pub fn allowed_by(engine: &dyn PolicyEngine, input: &[u8]) -> Option<String> {
    std::panic::catch_unwind(AssertUnwindSafe(|| engine.allowed_by(input))).unwrap_or_default()
}

/// No answer is a denial that says why there is none.
#[must_use]
pub fn or_denial(answered: Result<Answer, EngineError>) -> Answer {
    answered.unwrap_or_else(|failure| Answer {
        verdict: Verdict::Deny,
        reasons: vec![error(failure.detail(), &failure.to_string())],
        obligations: Vec::new(),
        enforced: true,
    })
}

fn error(detail: &str, message: &str) -> Reason {
    Reason {
        code: Code::PolicyError,
        detail: detail.to_owned(),
        message: message.to_owned(),
        rule: "wicketgate.decision".to_owned(),
    }
}
