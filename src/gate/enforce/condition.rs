//! Conditions of the gate itself. They are not facts about a call, so no call is denied for them.
//!
//! They are checked at two moments only: before a new call is admitted, and again before its
//! decision is queued. In both cases nothing is recorded or counted, and the caller may retry with
//! the same id. A held call stays held.

use std::time::Duration;

use super::Road;
use super::answer::Fault;
use super::run::Run;
use crate::domain::code::Code;
use crate::domain::id::ToolName;
use crate::domain::tier::Tier;
use crate::ledger;
use crate::tool::toolbox::Toolbox;

/// A condition that keeps the gate from deciding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    /// The gate is draining and takes no new work.
    Draining,
    /// No policy bundle is in force yet.
    NoPolicy,
    /// The self-test failed, for this reason.
    Canary(String),
    /// The list of operators' orders has not been read for this long.
    Stale(Duration),
    /// The ledger cannot be written: it is not ready, full or failing.
    Ledger(ledger::Error),
}

impl Condition {
    /// The fault that a caller receives. Each of these codes asks the caller to retry with the same
    /// id.
    pub fn fault(&self) -> Fault {
        let not_ready = |detail: &str, message: String| {
            Fault::new(Code::NotReady, message).detail(detail).after(Duration::from_secs(1))
        };
        match self {
            Self::Draining => Fault::of(Code::Shutdown),
            Self::NoPolicy => not_ready("no_policy", "no policy bundle is in force".to_owned()),
            Self::Canary(why) => {
                not_ready("self_test.canary", format!("the gate failed its own test: {why}"))
            }
            Self::Stale(age) => not_ready(
                "control.stale",
                format!(
                    "operators' orders were not read for {} s: calls of tier T2 and T3 wait for them",
                    age.as_secs()
                ),
            ),
            Self::Ledger(error) => Fault::of_ledger(error),
        }
    }
}

impl Road {
    /// The condition that keeps the gate from deciding about any call.
    pub(super) fn condition(&self) -> Option<Condition> {
        if self.tasks.is_stopping() {
            return Some(Condition::Draining);
        }
        if self.in_force.engine().is_none() {
            return Some(Condition::NoPolicy);
        }
        self.ledger.open_for_intents().err().map(Condition::Ledger)
    }

    /// The condition that keeps the gate from deciding about this run's call to this tool.
    pub(super) fn condition_of(
        &self,
        run: &Run,
        tool: &ToolName,
        toolbox: &Toolbox,
    ) -> Option<Condition> {
        // In a replay the recording determines the gate's condition.
        if self.replaying.is_whole() {
            return None;
        }
        let found = self.condition();
        if found.is_some() {
            return found;
        }
        // WHY: if the canary were stopped too, no later one could ever pass.
        if let Some(why) =
            self.control.canary.failing().filter(|_| run.auth.method != super::canary::METHOD)
        {
            return Some(Condition::Canary(why));
        }
        let grant = run.granted(tool);
        let bound = toolbox.get(tool).zip(grant.as_deref());
        let tier = bound.map(|(tool, grant)| tool.facts_for(grant).tier);
        let risky = tier.is_some_and(|tier| matches!(tier, Tier::T2 | Tier::T3));
        let age = self.control.stale().filter(|_| risky);
        age.map(Condition::Stale)
    }
}
