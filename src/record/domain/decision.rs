//! What was decided about a call, by whom and why: one value, built in one place (`judge`).

use super::code::Code;
use super::digest::Digest;
use crate::domain::closed::closed;

closed! {
    /// The answer.
    pub enum Verdict {
        /// The call may run.
        Allow = "allow",
        /// The call may not run.
        Deny = "deny",
        /// The call waits for a person.
        RequireApproval = "require_approval",
    }
}

/// One reason of one layer. The caller is shown all of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayerReason {
    /// What kind of refusal this is on the wire.
    pub code: Code,
    /// The layer's own finer code: `schema.required`, `file.symlink`, a policy's own code.
    pub detail: String,
    /// For a person: lowercase, no full stop, input in backticks.
    pub message: String,
    /// Which rule spoke: `wicketgate.agent.deny` with file and line, or the layer's name.
    pub rule: String,
}

impl LayerReason {
    /// `effect.refused`, by this rule: what the call would touch is not to be touched.
    #[must_use]
    pub fn effect_refused(rule: &str, detail: &str, message: impl Into<String>) -> Self {
        let (code, message) = (Code::EffectRefused, message.into());
        Self { code, detail: detail.into(), message, rule: rule.into() }
    }

    /// What the composition library says where no rule allows the call: the most ordinary denial.
    #[must_use]
    pub fn no_allow() -> Self {
        Self {
            code: Code::PolicyDenied,
            detail: "no_allow".into(),
            message: "no rule allows this call".into(),
            rule: "wicketgate.decision".into(),
        }
    }
}

closed! {
    /// What the gate itself found in a call. Entries say it; whoever asked is told an ordinary denial, for any
    /// other answer would tell a guess from the thing.
    pub enum Alarm {
        /// The arguments hold a credential of this gate: they are not stored.
        Credential = "credential",
    }
}

impl Alarm {
    /// Why the call is refused, for the ledger.
    #[must_use]
    pub fn reason(self) -> LayerReason {
        match self {
            Self::Credential => {
                let why = "the arguments hold a credential of this gate";
                LayerReason::effect_refused("firewall", "firewall.credential", why)
            }
        }
    }

    /// The reasons that are recorded of a call, of those that its agent is told.
    #[must_use]
    pub fn recorded(self, told: &[LayerReason]) -> Vec<LayerReason> {
        let ordinary = LayerReason::no_allow();
        let others = told.iter().filter(|reason| **reason != ordinary).cloned();
        std::iter::once(self.reason()).chain(others).collect()
    }

    /// The reasons that its agent is told of a call, of those that are recorded.
    #[must_use]
    pub fn told(self, mut recorded: Vec<LayerReason>) -> Vec<LayerReason> {
        let own = self.reason();
        recorded.retain(|reason| *reason != own);
        if recorded.is_empty() {
            recorded.push(LayerReason::no_allow());
        }
        recorded
    }
}

/// What must also happen because the call was allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PolicyObligation {
    /// Mask these kinds of findings in the result (`email`, `card`, …).
    Redact {
        /// Kinds of findings, sorted.
        kinds: Vec<String>,
        /// Release also what cannot be looked through (`"opaque": "allow"`); else the call fails.
        opaque: bool,
    },
    /// Fail the call if the result is larger than this many bytes.
    CapBytes {
        /// Bytes.
        bytes: u64,
    },
}

impl PolicyObligation {
    /// Its name in entries: `redact`, `cap_bytes`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Redact { .. } => "redact",
            Self::CapBytes { .. } => "cap_bytes",
        }
    }
}

/// Which layer's bytes took part, for the entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayerDigest {
    /// `lib`, `org`, `team`, `agent` or `data`.
    pub layer: String,
    /// SHA-256 of that layer's deterministic tar.
    pub digest: Digest,
}

/// What follows from a decision.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Course {
    /// The call runs: it is allowed, or what speaks against it only observes.
    Run,
    /// The call is refused.
    Refuse,
    /// The call waits for a person.
    Wait,
}

/// The one decision about one call.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// The answer.
    pub verdict: Verdict,
    /// Why; never empty for `Deny` and `RequireApproval`.
    pub reasons: Vec<LayerReason>,
    /// The rule an allow follows from: `wicketgate.agent.allow agent/main.rego:7`. None where it cannot be told.
    pub ground: Option<String>,
    /// What must also happen; empty unless allowed or held.
    pub obligations: Vec<PolicyObligation>,
    /// Digest of the bundle that was asked, or of the one in force when no policy was asked.
    pub policy: Digest,
    /// The layers of that bundle.
    pub layers: Vec<LayerDigest>,
    /// False only in observe mode: the verdict is recorded and not enforced.
    pub enforced: bool,
    /// Engine and version: `regorus/0.14.1+stock.1`.
    pub engine: String,
    /// Canonical bytes the policy saw; absent when an earlier layer refused.
    pub input: Option<Vec<u8>>,
    /// What the gate itself found in the call. Never set by a policy.
    pub alarm: Option<Alarm>,
    /// How long a held call waits, when held.
    pub hold: Option<std::time::Duration>,
}

impl Decision {
    /// What follows: the one place that says which verdict is a permit.
    #[must_use]
    pub const fn course(&self) -> Course {
        match (self.verdict, self.enforced) {
            (Verdict::Allow, _) | (_, false) => Course::Run,
            (Verdict::Deny, true) => Course::Refuse,
            (Verdict::RequireApproval, true) => Course::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_comes_back_from_what_is_recorded() {
        let limit = LayerReason { code: Code::LimitExceeded, ..LayerReason::no_allow() };
        let refused = LayerReason::effect_refused("tool.file", "file.path", "no");
        for told in [vec![LayerReason::no_allow()], vec![limit.clone()], vec![limit, refused]] {
            let recorded = Alarm::Credential.recorded(&told);
            assert_eq!(recorded.first(), Some(&Alarm::Credential.reason()));
            assert_eq!(Alarm::Credential.told(recorded), told);
        }
    }
}
