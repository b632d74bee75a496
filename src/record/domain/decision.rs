//! The decision about a call: one value, built in one place (`judge`).

use super::code::Code;
use super::digest::Digest;
use super::guarded::Withheld;
use crate::domain::closed::closed;

closed! {
    /// The verdict.
    pub enum Verdict {
        /// The call may run.
        Allow = "allow",
        /// The call may not run.
        Deny = "deny",
        /// The call waits for an approver.
        RequireApproval = "require_approval",
    }
}

/// One reason of one layer. The caller sees all of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayerReason {
    /// The kind of refusal on the wire.
    pub code: Code,
    /// The layer's own finer code: `schema.required`, `file.symlink`, a policy's own code.
    pub detail: String,
    /// For a person: lowercase, no full stop, input in backticks.
    pub message: String,
    /// The rule: `wicketgate.agent.deny` with file and line, or the layer's name.
    pub rule: String,
}

impl LayerReason {
    /// `effect.refused`, by this rule: the call must not touch its target.
    pub fn effect_refused(rule: &str, detail: &str, message: impl Into<String>) -> Self {
        let (code, message) = (Code::EffectRefused, message.into());
        Self { code, detail: detail.into(), message, rule: rule.into() }
    }

    /// `policy.denied`, by this rule.
    #[must_use]
    pub fn denied(rule: &str, detail: impl Into<String>, message: impl Into<String>) -> Self {
        let (detail, message) = (detail.into(), message.into());
        Self { code: Code::PolicyDenied, detail, message, rule: rule.into() }
    }

    /// The reason of the composition library if no rule allows the call: the most ordinary denial.
    pub fn no_allow() -> Self {
        Self::denied("wicketgate.decision", "no_allow", "no rule allows this call")
    }
}

closed! {
    /// What the gate itself detected in a call. Entries record it. The agent receives an ordinary
    /// denial, because any other answer would confirm a guessed credential.
    pub enum Alarm {
        /// The arguments hold a credential of this gate, so they are not stored.
        Credential = "credential",
    }
}

impl Withheld {
    /// The alarm that a call with such arguments raised, if it raised one.
    #[must_use]
    pub const fn alarm(self) -> Option<Alarm> {
        match self {
            Self::Credential => Some(Alarm::Credential),
            Self::Secret | Self::Personal | Self::Firewall => None,
        }
    }
}

impl From<Alarm> for Withheld {
    fn from(alarm: Alarm) -> Self {
        match alarm {
            Alarm::Credential => Self::Credential,
        }
    }
}

impl Alarm {
    /// Why the call is refused, for the ledger.
    pub fn reason(self) -> LayerReason {
        match self {
            Self::Credential => {
                let why = "the arguments hold a credential of this gate";
                LayerReason::effect_refused("firewall", "firewall.credential", why)
            }
        }
    }

    /// The reasons to record, from those that the agent receives.
    pub fn recorded(self, reasons: &[LayerReason]) -> Vec<LayerReason> {
        let ordinary = LayerReason::no_allow();
        let others = reasons.iter().filter(|reason| **reason != ordinary).cloned();
        std::iter::once(self.reason()).chain(others).collect()
    }

    /// The reasons that the agent receives, from the recorded ones.
    pub fn agent_reasons(self, mut recorded: Vec<LayerReason>) -> Vec<LayerReason> {
        let own = self.reason();
        recorded.retain(|reason| *reason != own);
        if recorded.is_empty() {
            recorded.push(LayerReason::no_allow());
        }
        recorded
    }
}

/// An obligation that comes with an allow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PolicyObligation {
    /// Mask these kinds of findings in the result (`email`, `card`, …).
    Redact {
        /// Kinds of findings, sorted.
        kinds: Vec<String>,
        /// Also release content that cannot be scanned (`"opaque": "allow"`); otherwise the call
        /// fails.
        opaque: bool,
    },
    /// Fail the call if the result is larger than this many bytes.
    CapBytes {
        /// Bytes.
        bytes: u64,
    },
    /// Keep the payloads of the call this long, even those of an incognito run. Bytes that hold a
    /// secret stay withheld.
    EnhancedAudit {
        /// Days.
        days: u64,
    },
    /// Deny the call if the run made this many calls of the tool under the same obligation within
    /// this time.
    RateLimit(CallRate),
    /// Mask these kinds of findings in the arguments, before the call runs or waits.
    RedactArguments {
        /// Kinds of findings, sorted.
        kinds: Vec<String>,
    },
    /// Tell people that the call was decided.
    Notify {
        /// Who is told, sorted.
        to: Vec<NotifyTarget>,
    },
    /// Deny the call unless the agent gave a reason for it.
    Justify,
}

/// The finer code of a denial by [`PolicyObligation::RateLimit`].
pub const RATE_LIMITED: &str = "limit.rate";

/// The most calls within this time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallRate {
    /// Calls.
    pub calls: u64,
    /// Seconds.
    pub seconds: u64,
}

closed! {
    /// Who is told about a call.
    pub enum NotifyTarget {
        /// The owner that the agent's manifest names.
        Owner = "owner",
        /// The receiver of the operator's webhook.
        Webhook = "webhook",
    }
}

impl PolicyObligation {
    /// The most days of `enhanced_audit`: ten years.
    pub const DAYS_MAX: u64 = 3650;
    /// The most calls of `rate_limit`.
    pub const CALLS_MAX: u64 = 1000;
    /// The longest time of `rate_limit`: a day.
    pub const SECONDS_MAX: u64 = 86_400;
    /// The most different `rate_limit` obligations of one decision.
    pub const RATES_MAX: usize = 8;

    /// Its name in entries: `redact`, `cap_bytes`, …
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Redact { .. } | Self::RedactArguments { .. } => "redact",
            Self::CapBytes { .. } => "cap_bytes",
            Self::EnhancedAudit { .. } => "enhanced_audit",
            Self::RateLimit(_) => "rate_limit",
            Self::Notify { .. } => "notify",
            Self::Justify => "justify",
        }
    }

    /// The kinds of findings that are masked in the arguments.
    pub fn redacts_arguments(&self) -> Option<&[String]> {
        match self {
            Self::RedactArguments { kinds } => Some(kinds),
            Self::Redact { .. }
            | Self::CapBytes { .. }
            | Self::EnhancedAudit { .. }
            | Self::RateLimit(_)
            | Self::Notify { .. }
            | Self::Justify => None,
        }
    }

    /// The kinds of findings that are masked in the result, and whether unscannable content is released.
    pub fn redacts(&self) -> Option<(&[String], bool)> {
        match self {
            Self::Redact { kinds, opaque } => Some((kinds, *opaque)),
            Self::RedactArguments { .. }
            | Self::CapBytes { .. }
            | Self::EnhancedAudit { .. }
            | Self::RateLimit(_)
            | Self::Notify { .. }
            | Self::Justify => None,
        }
    }

    /// The most bytes of the result.
    pub const fn cap(&self) -> Option<u64> {
        match self {
            Self::CapBytes { bytes } => Some(*bytes),
            Self::Redact { .. }
            | Self::RedactArguments { .. }
            | Self::EnhancedAudit { .. }
            | Self::RateLimit(_)
            | Self::Notify { .. }
            | Self::Justify => None,
        }
    }

    /// The most calls within some time.
    pub const fn rate(&self) -> Option<CallRate> {
        match self {
            Self::RateLimit(rate) => Some(*rate),
            Self::Redact { .. }
            | Self::RedactArguments { .. }
            | Self::CapBytes { .. }
            | Self::EnhancedAudit { .. }
            | Self::Notify { .. }
            | Self::Justify => None,
        }
    }

    /// Whether the payloads of the call are kept longer than others.
    pub const fn is_audit(&self) -> bool {
        matches!(self, Self::EnhancedAudit { .. })
    }
}

/// The digest of a layer that took part, for the entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayerDigest {
    /// `lib`, `org`, `team`, `agent` or `data`.
    pub layer: String,
    /// SHA-256 of that layer's deterministic tar.
    pub digest: Digest,
}

/// What happens after a decision.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Course {
    /// The call runs: it is allowed, or the denying layers only observe.
    Run,
    /// The call is refused.
    Refuse,
    /// The call waits for an approver.
    Wait,
}

/// The one decision about one call.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// Why; never empty for `Deny` and `RequireApproval`.
    pub reasons: Vec<LayerReason>,
    /// The rule behind an allow: `wicketgate.agent.allow agent/main.rego:7`. `None` if it is
    /// unknown.
    pub ground: Option<String>,
    /// The obligations; empty unless allowed or held.
    pub obligations: Vec<PolicyObligation>,
    /// Digest of the evaluated bundle, or of the active one if no policy was evaluated.
    pub policy: Digest,
    /// The layers of that bundle.
    pub layers: Vec<LayerDigest>,
    /// False only in observe mode: the verdict is recorded and not enforced.
    pub enforced: bool,
    /// Engine and version: `regorus/0.14.1+stock.1`.
    pub engine: String,
    /// Canonical bytes the policy saw; absent when an earlier layer refused.
    pub input: Option<Vec<u8>>,
    /// What the gate itself detected in the call. Never set by a policy.
    pub alarm: Option<Alarm>,
    /// How long a held call waits, when held.
    pub hold: Option<std::time::Duration>,
}

impl Decision {
    /// What happens next: the one place that decides which verdict is a permit.
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
    fn the_agents_reasons_are_recovered_from_the_recorded_reasons() {
        let limit = LayerReason { code: Code::LimitExceeded, ..LayerReason::no_allow() };
        let refused = LayerReason::effect_refused("tool.file", "file.path", "no");
        for reasons in [vec![LayerReason::no_allow()], vec![limit.clone()], vec![limit, refused]] {
            let recorded = Alarm::Credential.recorded(&reasons);
            assert_eq!(recorded.first(), Some(&Alarm::Credential.reason()));
            assert_eq!(Alarm::Credential.agent_reasons(recorded), reasons);
        }
    }
}
