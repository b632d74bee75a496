//! The decision of a bundle of Rego about one document: bundles, the engine, lints, tests,
//! backtests.
//!
//! [`ask`] and [`or_denial`] are total: whatever goes wrong (an undefined rule, an error, a timeout, an
//! unknown obligation) comes out as a denial with its own code. A policy error is never a silent allow.
//!
//! Besides the engine, [`approval`] holds the statements that approvers sign and the checks of
//! their signatures, and [`firewall`] finds credentials and personal data. No network, no database
//! and no async runtime: a verifier decides again with the same code.

use wicketgate_crypto as crypto;
use wicketgate_record::{self as record, domain, yaml};

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use crate::domain::code::Code;
use crate::domain::decision::{LayerDigest, LayerReason, PolicyObligation, Verdict};
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;

pub mod activation;
mod alike;
pub mod approval;
mod ast;
mod bounds;
mod builtins;
pub mod bundle;
pub mod carried;
mod depth;
pub mod diff;
mod document;
mod effect;
pub mod enforcement;
pub mod explain;
pub mod fault;
pub mod firewall;
pub mod flow;
mod formats;
mod ground;
pub mod input;
mod justified;
mod layout;
pub mod learn;
pub mod lint;
mod modified;
pub mod mutate;
pub mod opa;
mod places;
mod portable;
mod purity;
mod recursion;
pub mod rego;
pub mod selftest;
mod source;
mod stock;
pub mod suggest;
pub mod tar;
pub mod testing;

pub use justified::{UNJUSTIFIED, justified};
pub use modified::weighed;

/// What an engine answers about one input: already checked against the closed decision document.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// The answer.
    pub verdict: Verdict,
    /// Why; never empty for `Deny` and `RequireApproval`.
    pub reasons: Vec<LayerReason>,
    /// What must also happen.
    pub obligations: Vec<PolicyObligation>,
    /// False only if layers in observe mode alone are against the call; never for an allow.
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
    /// As [`Self::decide`], with the rule that an allow follows from, by name, file and line.
    /// `None`: it is no allow, or the engine cannot name one.
    ///
    /// # Errors
    /// As [`Self::decide`].
    fn decide_naming(&self, input: &[u8]) -> Result<(Answer, Option<String>), EngineError> {
        self.decide(input).map(|answer| (answer, None))
    }
    /// Digest of the bundle, composition library included.
    fn digest(&self) -> Digest;
    /// Digests of its layers.
    fn layers(&self) -> &[LayerDigest];
    /// Engine and version, for the entry.
    fn engine(&self) -> &str;
    /// The layers in observe mode at this time, sorted, and until when: their decision is recorded
    /// and not enforced. Empty unless the bundle says so.
    fn observing(&self, now: Timestamp) -> Vec<(&'static str, Timestamp)> {
        let _ = now;
        Vec::new()
    }
    /// The time from which the bundle decides nothing, if it states one.
    fn valid_until(&self) -> Option<Timestamp> {
        None
    }
    /// The layers whose rules read `input.approvals` and count approvers for themselves.
    fn by_hand(&self) -> &[&'static str] {
        &[]
    }
}

/// The engine's answer to these canonical input bytes. `observing`: the input names layers in
/// observe mode. A backtest calls this.
///
/// # Errors
/// The engine has no answer.
pub fn ask(
    engine: &dyn PolicyEngine,
    input: &[u8],
    observing: bool,
) -> Result<Answer, EngineError> {
    answered(|| Ok((engine.decide(input)?, None)), observing).map(|(answer, _)| answer)
}

/// As [`ask`], with the rule that an allow follows from. The gate and an offline replay both call
/// this.
///
/// # Errors
/// The engine has no answer.
pub fn ask_naming(
    engine: &dyn PolicyEngine,
    input: &[u8],
    observing: bool,
) -> Result<(Answer, Option<String>), EngineError> {
    answered(|| engine.decide_naming(input), observing)
}

fn answered<F>(evaluate: F, observing: bool) -> Result<(Answer, Option<String>), EngineError>
where
    F: FnOnce() -> Result<(Answer, Option<String>), EngineError>,
{
    // An engine that panics has not answered.
    let answered = std::panic::catch_unwind(AssertUnwindSafe(evaluate));
    let (answer, rule) =
        answered.unwrap_or_else(|_| Err(EngineError::Evaluation("the engine panicked".into())))?;
    // WHY: no answer of an engine can lift enforcement where no layer observes.
    let enforced = answer.enforced || !observing;
    Ok((Answer { enforced, ..answer }, rule))
}

/// Turns a missing answer into a denial that says why it is missing.
pub fn or_denial(answered: Result<Answer, EngineError>) -> Answer {
    answered.unwrap_or_else(|failure| denial(&failure))
}

/// The denial that stands for a missing answer.
pub fn denial(failure: &EngineError) -> Answer {
    Answer {
        verdict: Verdict::Deny,
        reasons: vec![error(failure.detail(), &failure.to_string())],
        obligations: Vec::new(),
        enforced: true,
    }
}

/// The reason of a denial without an answer: `detail` is a code of the errors' reference.
pub fn error(detail: &str, message: &str) -> LayerReason {
    LayerReason {
        code: Code::PolicyError,
        detail: detail.to_owned(),
        message: message.to_owned(),
        rule: "wicketgate.decision".to_owned(),
    }
}
