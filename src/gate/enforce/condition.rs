//! What is wrong with the gate itself just now: no fact about any call, so no call is denied for it.
//!
//! It is asked in two moments, and nowhere else: before a new call is admitted, and again before its decision
//! is queued. Either way nothing is recorded or counted, and the id is free to be asked with again. A call
//! that was held stays held.

use std::time::Duration;

use super::Road;
use super::answer::Fault;
use super::run::Run;
use crate::domain::code::Code;
use crate::domain::id::ToolName;
use crate::domain::tier::Tier;
use crate::ledger;
use crate::tool::toolbox::Toolbox;

/// What keeps the gate from deciding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    /// No new work is taken.
    Draining,
    /// No policy bundle is in force yet.
    NoPolicy,
    /// The gate failed its own test: why.
    Canary(String),
    /// Operators' orders were not read for so long.
    Stale(Duration),
    /// Nothing can be written: not ready, full, or failing.
    Ledger(ledger::Error),
}

impl Condition {
    /// What a caller is told. Every code of these asks for the same id again.
    pub fn fault(&self) -> Fault {
        let not_ready = |detail: &str, message: String| {
            let mut fault = Fault::new(Code::NotReady, message).detail(detail);
            fault.retry_after = Some(Duration::from_secs(1));
            fault
        };
        match self {
            Self::Draining => Fault::new(Code::Shutdown, "the gate is draining; nothing ran"),
            Self::NoPolicy => not_ready("no_policy", "no policy bundle is in force".to_owned()),
            Self::Canary(why) => not_ready(
                "self_test.canary",
                format!("the gate failed its own test: {why}; nothing ran"),
            ),
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
    /// What keeps the gate from deciding about any call.
    pub(super) fn condition(&self) -> Option<Condition> {
        if self.tasks.is_stopping() {
            return Some(Condition::Draining);
        }
        if self.in_force.engine().is_none() {
            return Some(Condition::NoPolicy);
        }
        self.ledger.open_for_intents().err().map(Condition::Ledger)
    }

    /// What keeps the gate from deciding about a call of this run to this tool.
    pub(super) fn condition_of(
        &self,
        run: &Run,
        tool: &ToolName,
        toolbox: &Toolbox,
    ) -> Option<Condition> {
        // In a replay the recording says what the gate was like.
        if self.replaying.is_whole() {
            return None;
        }
        let found = self.condition();
        if found.is_some() {
            return found;
        }
        // WHY: the gate's own test has to walk, or no later one would ever pass.
        if let Some(why) =
            self.control.canary.failing().filter(|_| run.auth.method != super::canary::METHOD)
        {
            return Some(Condition::Canary(why));
        }
        let grant = run.grants.get(tool);
        let bound = toolbox.get(tool).zip(grant);
        let tier = bound.map(|(tool, grant)| tool.facts_for(grant).tier);
        let risky = tier.is_some_and(|tier| matches!(tier, Tier::T2 | Tier::T3));
        let age = self.control.stale().filter(|_| risky);
        age.map(Condition::Stale)
    }
}
