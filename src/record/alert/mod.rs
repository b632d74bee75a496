//! `alert.raised`: what operators should look at, and the one place that says which entries ask for it.
//!
//! An alert follows from entries alone. [`signals`] reads one entry, [`AlertWatch`] counts over the entries of open
//! runs. No part of the road raises an alert, so no part can forget to; and an alert decides nothing.

mod signals;
#[cfg(test)]
mod tests;
mod watch;

pub use signals::{AlertSignal, DETAILS, signals};
pub use watch::{AlertRules, AlertWatch, BurstRule};

use super::text::{Int, Text};
use crate::domain::closed::{closed, members};
use crate::domain::id::{CallId, RunId, ToolName};
use crate::domain::time::Timestamp;

closed! {
    /// What an alert is about.
    pub enum AlertKind {
        /// A path or an address that leaves the place that the tool may use, or a protected name.
        PathTraversal = "path_traversal",
        /// A statement that does more than a query of the allowed tables.
        SqlInjection = "sql_injection",
        /// A secret of any vendor in arguments or in a prompt.
        SecretEgress = "secret_egress",
        /// A credential of the gate in arguments.
        OwnCredential = "own_credential",
        /// Text that is written to steer a model, in a result or in a prompt.
        PromptInjection = "prompt_injection",
        /// Many denials of one run in a short time.
        BurstDenial = "burst_denial",
        /// Many denials of one tool in one run.
        RepeatedDenial = "repeated_denial",
        /// A run that read something untrusted and something private, and would send.
        Trifecta = "trifecta",
        /// Many texts of one run in a short time that could not be searched.
        UnscannedBurst = "unscanned_burst",
        /// A tool that fails more often than before.
        TrustDrop = "trust_drop",
        /// A run that read something untrusted and something private sends words of its own.
        FlowLabel = "flow_label",
    }
}

closed! {
    /// How grave an alert is, from the mildest to the gravest.
    pub enum AlertSeverity {
        /// Worth to be known when something else is looked into.
        Low = "low",
        /// Worth a look today.
        Medium = "medium",
        /// Worth a look now.
        High = "high",
        /// Look now: an attack, or an agent that was taken over.
        Critical = "critical",
    }
}

impl AlertKind {
    /// How grave it is by itself.
    #[must_use]
    pub const fn severity(self) -> AlertSeverity {
        match self {
            Self::SqlInjection | Self::SecretEgress | Self::OwnCredential => {
                AlertSeverity::Critical
            }
            Self::PathTraversal | Self::Trifecta => AlertSeverity::High,
            Self::FlowLabel => AlertSeverity::Low,
            Self::PromptInjection
            | Self::BurstDenial
            | Self::RepeatedDenial
            | Self::UnscannedBurst
            | Self::TrustDrop => AlertSeverity::Medium,
        }
    }

    /// What happened, for a person.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::PathTraversal => "An agent tried to leave the files or addresses of a tool",
            Self::SqlInjection => "An agent sent a statement that is more than a query",
            Self::SecretEgress => "An agent tried to send a secret",
            Self::OwnCredential => "An agent tried to send a credential of the gate",
            Self::PromptInjection => "A text tries to steer the agent",
            Self::BurstDenial => "The calls of a run are denied in a burst",
            Self::RepeatedDenial => "A run asks for a denied tool again and again",
            Self::Trifecta => "A run with untrusted and private content would send it",
            Self::UnscannedBurst => "Many texts of a run cannot be searched",
            Self::TrustDrop => "A tool fails more often than before",
            Self::FlowLabel => "A run with untrusted and private content sends words of its own",
        }
    }
}

members! {
    /// `alert.raised`: an operator should look at this. It follows at once on the entry that caused it; only other
    /// alerts of the same cause stand between them.
    pub struct AlertRaised {
        /// The agent, by the name in its manifest.
        pub agent: Text,
        /// What it is about.
        pub alert: AlertKind,
        /// The call of the last of these entries, if it is about one.
        pub call: Option<CallId>,
        /// How many entries asked for it since the last such alert.
        pub count: Int<1>,
        /// Index in the chain of the first of them.
        pub first: Int,
        /// Index in the chain of the last of them: the cause.
        pub last: Int,
        /// Keyed mark of what was found, if it has one: the same mark is the same value.
        pub mark: Option<Text<64>>,
        /// The run, if it is about one.
        pub run: Option<RunId>,
        /// How grave it is.
        pub severity: AlertSeverity,
        /// When the first of them was recorded.
        pub since: Timestamp,
        /// The tool, if it is about one.
        pub tool: Option<ToolName>,
    }
}

impl AlertRaised {
    /// An alert that is about no run: it counts so many facts since this time, and no entry of its own causes it.
    #[must_use]
    pub fn apart(
        alert: AlertKind,
        (agent, tool): (&str, Option<ToolName>),
        (count, since): (u64, Timestamp),
    ) -> Self {
        Self {
            agent: agent.into(),
            alert,
            call: None,
            count: count.into(),
            first: 0_u64.into(),
            last: 0_u64.into(),
            mark: None,
            run: None,
            severity: alert.severity(),
            since,
            tool,
        }
    }
}
