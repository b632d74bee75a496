//! Budgets: one run's use and its manifest's limits on the next call; one caller's rate (`bucket`);
//! the pools of all gates (`pool`), and one gate's units of them (`quota`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::identity::manifest::RunLimits;
use repeats::Repeats;
use window::{MINUTE, Window};

pub mod bucket;
pub mod memory;
pub mod pool;
pub mod quota;
mod repeats;
pub mod shares;
pub mod window;

/// Calls of one run in all, whatever its manifest says: the gate's memory of a run is bounded.
pub const CALLS_MAX: u64 = 100_000;

/// What a call may take of the budgets, known before it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spend {
    /// Tokens of a model, read and written together; 0 for other tools.
    pub tokens: u64,
    /// Millionths of a US dollar; `None` if the binding does not state it.
    pub cost_micro_usd: Option<u64>,
}

/// What was set aside of a run's budget, or taken of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BudgetShare {
    /// Tokens.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub cost: u64,
}

impl BudgetShare {
    /// The rest of this, after so much was really used.
    #[must_use]
    pub const fn rest(self, taken: Self) -> Self {
        let tokens = self.tokens.saturating_sub(taken.tokens);
        Self { tokens, cost: self.cost.saturating_sub(taken.cost) }
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        let tokens = self.tokens.saturating_add(other.tokens);
        Self { tokens, cost: self.cost.saturating_add(other.cost) }
    }
}

/// What one run used so far.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    calls: u64,
    /// Calls of the runs it delegated to.
    delegated: u64,
    running: u64,
    errors: u64,
    denied: u64,
    errors_in_row: u64,
    repeats: Repeats,
    /// Calls of all runs of its caller under its manifest: a new run does not reset the rate.
    recent: Arc<Mutex<Window>>,
    /// By calls that were started or are about to be.
    spent: BudgetShare,
    /// When the last denials were, monotonic; as many as are needed to suspend the run.
    denials: VecDeque<Duration>,
}

/// The outcome of a call, for the budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BudgetOutcome {
    /// The tool answered.
    Well,
    /// It failed or is unknown.
    Wrong,
    /// The call was denied, or held.
    NotRun,
    /// It was stopped before it took effect.
    Stopped,
}

/// Whose limit has something against a call.
#[derive(Clone, Copy, Debug)]
pub enum LimitOwner<'a> {
    /// The run's own manifest's.
    Own,
    /// That of a run above it.
    Delegator {
        /// The agent of that run.
        agent: &'a str,
        /// That run.
        run: &'a RunId,
    },
}

impl LimitOwner<'_> {
    fn rule(self, name: &str) -> String {
        match self {
            Self::Own => format!("manifest.limits.{name}"),
            Self::Delegator { .. } => format!("delegation.limits.{name}"),
        }
    }
}

impl Usage {
    /// The usage of a run that is taken up after a restart.
    pub fn resumed(calls: u64, errors: u64, denied: u64) -> Self {
        Self { calls, errors, denied, ..Self::default() }
    }

    /// The same, for a run whose calls count here.
    #[must_use]
    pub fn among(mut self, recent: Arc<Mutex<Window>>) -> Self {
        self.recent = recent;
        self
    }

    /// The same, after so many failed or unknown calls in a row and this much spent.
    #[must_use]
    pub fn after(mut self, errors_in_row: u64, spent: BudgetShare) -> Self {
        (self.errors_in_row, self.spent) = (errors_in_row, spent);
        self
    }

    /// The same, after so many calls of the runs it delegated to.
    #[must_use]
    pub fn having_delegated(mut self, calls: u64) -> Self {
        self.delegated = calls;
        self
    }

    /// Millionths of a US dollar spent, also by the runs it delegated to.
    pub const fn cost(&self) -> u64 {
        self.spent.cost
    }

    /// Reserves a call's maximum, or says why it cannot.
    ///
    /// # Errors
    /// `whose` `cost_usd` or `tokens` would be passed, or the rest is unknown. Nothing is reserved.
    pub fn spend(
        &mut self,
        whose: LimitOwner<'_>,
        limits: &RunLimits,
        wanted: Spend,
    ) -> Result<BudgetShare, LayerReason> {
        let cost = match (wanted.cost_micro_usd, limits.cost_micro_usd) {
            (Some(cost), _) => cost,
            (None, None) => 0,
            (None, Some(_)) => return Err(unpriced(whose)),
        };
        let wanted = BudgetShare { tokens: wanted.tokens, cost };
        let after = self.spent.plus(wanted);
        if let Some(most) = limits.cost_micro_usd.filter(|most| after.cost > *most) {
            return Err(over(whose, "cost_usd", &usd(most)));
        }
        let over_tokens = |most: &u64| wanted.tokens > 0 && after.tokens > *most;
        if let Some(most) = limits.tokens.filter(over_tokens) {
            return Err(over(whose, "tokens", &most.to_string()));
        }
        self.spent = after;
        Ok(wanted)
    }

    /// Gives back an unused part of the reservation.
    pub const fn unspend(&mut self, spent: BudgetShare) {
        self.spent = self.spent.rest(spent);
    }

    /// Adds a use beyond the reservation.
    pub const fn overspend(&mut self, spent: BudgetShare) {
        self.spent = self.spent.plus(spent);
    }

    /// The denials of another life were on another clock.
    pub fn forget_denials(&mut self) {
        self.denials.clear();
    }

    /// Notes a denial; true if it is one of at least `most` within a minute.
    pub fn denied_at(&mut self, most: u64, now: Duration) -> bool {
        let minute = now.saturating_sub(MINUTE);
        while self.denials.front().is_some_and(|at| now > MINUTE && *at <= minute) {
            self.denials.pop_front();
        }
        self.denials.push_back(now);
        let within = u64::try_from(self.denials.len()).unwrap_or(u64::MAX);
        if within > most {
            self.denials.pop_front();
        }
        within >= most
    }

    /// Calls that were asked for.
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// Calls that failed or are unknown.
    pub const fn errors(&self) -> u64 {
        self.errors
    }

    /// Calls that were denied.
    pub const fn denied(&self) -> u64 {
        self.denied
    }

    /// Counts one more call, and gives the limits it violates.
    ///
    /// `fingerprint` names tool and arguments; `now` is monotonic.
    pub fn begin(
        &mut self,
        limits: &RunLimits,
        fingerprint: Digest,
        now: Duration,
    ) -> Vec<LayerReason> {
        let repeats = self.repeats.note(fingerprint);
        let mut reasons: Vec<LayerReason> = self.enter(LimitOwner::Own, limits, now);
        let breakers = [
            ("consecutive_errors", self.errors_in_row, limits.consecutive_errors),
            ("repeated_calls", repeats, limits.repeated_calls),
        ];
        reasons.extend(reached(LimitOwner::Own, breakers));
        self.calls = self.calls.saturating_add(1);
        reasons
    }

    /// Counts one more call of a run that this one delegated to, directly or not, and gives the
    /// limits of this run that it violates. Breakers (errors in a row, repeats) are each run's own.
    pub fn begin_delegated(
        &mut self,
        whose: LimitOwner<'_>,
        limits: &RunLimits,
        now: Duration,
    ) -> Vec<LayerReason> {
        let reasons = self.enter(whose, limits, now);
        self.delegated = self.delegated.saturating_add(1);
        reasons
    }

    /// Counts for the limits that own and delegated calls share: number, rate, concurrency.
    fn enter(
        &mut self,
        whose: LimitOwner<'_>,
        limits: &RunLimits,
        now: Duration,
    ) -> Vec<LayerReason> {
        let calls = self.calls.saturating_add(self.delegated);
        // Counted and noted at once: another run of the caller may ask in the same moment.
        let rate = limits.calls_per_minute.map_or(0, |_| {
            let mut recent = self.recent.lock();
            let before = recent.count(now);
            recent.note(now);
            before
        });
        let reasons = reached(
            whose,
            [
                ("calls", calls, Some(limits.calls.unwrap_or(CALLS_MAX).min(CALLS_MAX))),
                ("calls_per_minute", rate, limits.calls_per_minute),
                ("concurrency", self.running, limits.concurrency),
            ],
        )
        .collect();
        self.running = self.running.saturating_add(1);
        reasons
    }

    /// Takes back a call that the ledger did not record, and its repetition.
    pub fn forget(&mut self, fingerprint: Option<Digest>) {
        self.calls = self.calls.saturating_sub(1);
        self.running = self.running.saturating_sub(1);
        self.recent.lock().take_back();
        self.repeats.take_back(fingerprint);
    }

    /// Takes back a delegated call that the ledger did not record.
    pub fn forget_delegated(&mut self) {
        self.delegated = self.delegated.saturating_sub(1);
        self.running = self.running.saturating_sub(1);
        self.recent.lock().take_back();
    }

    /// A held delegated call is on the road again.
    pub const fn take_up_delegated(&mut self) {
        self.running = self.running.saturating_add(1);
    }

    /// A delegated call left the road.
    pub const fn end_delegated(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// A held call is on the road again: it had counted as not run.
    pub fn take_up(&mut self) {
        self.running = self.running.saturating_add(1);
        self.denied = self.denied.saturating_sub(1);
    }

    /// Counts the outcome of a call.
    pub fn end(&mut self, outcome: BudgetOutcome) {
        self.running = self.running.saturating_sub(1);
        match outcome {
            BudgetOutcome::Well => self.errors_in_row = 0,
            BudgetOutcome::Wrong => {
                self.errors = self.errors.saturating_add(1);
                self.errors_in_row = self.errors_in_row.saturating_add(1);
            }
            BudgetOutcome::NotRun => self.denied = self.denied.saturating_add(1),
            // WHY: an operator's stop says nothing about the tool.
            BudgetOutcome::Stopped => {}
        }
    }
}

/// Every limit of these (name, use, bound) that is reached.
fn reached<const N: usize>(
    whose: LimitOwner<'_>,
    checks: [(&str, u64, Option<u64>); N],
) -> impl Iterator<Item = LayerReason> {
    checks.into_iter().filter_map(move |(name, used, most)| {
        most.filter(|most| used >= *most).map(|most| over(whose, name, &most.to_string()))
    })
}

fn over(whose: LimitOwner<'_>, name: &str, most: &str) -> LayerReason {
    let message = match whose {
        LimitOwner::Own => format!("the manifest's limit `{name}: {most}` is reached"),
        LimitOwner::Delegator { agent, run } => format!(
            "the limit `{name}: {most}` of agent `{agent}` is reached, whose run {run} delegated to this one"
        ),
    };
    let (detail, rule) = (format!("limit.{name}"), whose.rule(name));
    LayerReason { code: Code::LimitExceeded, detail, message, rule }
}

fn unpriced(whose: LimitOwner<'_>) -> LayerReason {
    let message = match whose {
        LimitOwner::Own => {
            "the manifest limits cost, and the tool's binding declares none".to_owned()
        }
        LimitOwner::Delegator { agent, run } => format!(
            "agent `{agent}`, whose run {run} delegated to this one, limits cost, and the tool's \
             binding declares none"
        ),
    };
    let rule = whose.rule("cost_usd");
    LayerReason {
        code: Code::LimitExceeded,
        detail: "limit.cost_unknown".to_owned(),
        message,
        rule,
    }
}

/// Millionths of a US dollar as a manifest writes them.
fn usd(micro: u64) -> String {
    format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn details(reasons: &[LayerReason]) -> Vec<&str> {
        reasons.iter().map(|r| r.detail.as_str()).collect()
    }

    #[test]
    fn the_third_identical_call_in_a_row_is_refused_when_two_are_allowed() {
        let limits = RunLimits { repeated_calls: Some(2), ..RunLimits::default() };
        let (same, other) = (Digest::of(&[b"a"]), Digest::of(&[b"b"]));
        let mut usage = Usage::default();
        let mut begin = |fingerprint| {
            let reasons = usage.begin(&limits, fingerprint, Duration::ZERO);
            usage.end(BudgetOutcome::Well);
            reasons
        };
        assert!(begin(same).is_empty());
        assert!(begin(same).is_empty());
        assert_eq!(details(&begin(same)), ["limit.repeated_calls"]);
        assert!(begin(other).is_empty());
        assert!(begin(same).is_empty());
    }

    #[test]
    fn a_minute_later_the_rate_is_free_again() {
        let limits = RunLimits { calls_per_minute: Some(1), ..RunLimits::default() };
        let mut usage = Usage::default();
        let fingerprint = Digest::of(&[b"a"]);
        assert!(usage.begin(&limits, fingerprint, Duration::from_secs(100)).is_empty());
        let again = usage.begin(&limits, fingerprint, Duration::from_secs(159));
        assert_eq!(details(&again), ["limit.calls_per_minute"]);
        assert!(usage.begin(&limits, fingerprint, Duration::from_secs(219)).is_empty());
    }

    #[test]
    fn cost_is_set_aside_before_a_call_and_given_back_if_it_did_not_start() {
        let limits = RunLimits { cost_micro_usd: Some(100), ..RunLimits::default() };
        let cost = |cost| Spend { tokens: 0, cost_micro_usd: cost };
        let spent = |cost| Ok(BudgetShare { tokens: 0, cost });
        let mut usage = Usage::default();
        assert_eq!(usage.spend(LimitOwner::Own, &limits, cost(Some(60))), spent(60));
        let refused = usage.spend(LimitOwner::Own, &limits, cost(Some(41))).unwrap_err();
        assert_eq!(refused.detail, "limit.cost_usd");
        assert!(refused.message.contains("0.000100"), "{}", refused.message);
        usage.unspend(BudgetShare { tokens: 0, cost: 60 });
        assert_eq!(usage.spend(LimitOwner::Own, &limits, cost(Some(100))), spent(100));
        assert_eq!(
            usage.spend(LimitOwner::Own, &limits, cost(None)).unwrap_err().detail,
            "limit.cost_unknown"
        );
        let free = Usage::default().spend(LimitOwner::Own, &RunLimits::default(), cost(None));
        assert_eq!(free, spent(0));
    }

    #[test]
    fn tokens_are_set_aside_before_a_call_and_what_was_not_used_is_given_back() {
        let limits = RunLimits { tokens: Some(1000), ..RunLimits::default() };
        let tokens = |tokens| Spend { tokens, cost_micro_usd: None };
        let mut usage = Usage::default();
        let set_aside = usage.spend(LimitOwner::Own, &limits, tokens(900)).unwrap();
        let refused = usage.spend(LimitOwner::Own, &limits, tokens(101)).unwrap_err();
        assert_eq!(refused.detail, "limit.tokens");
        usage.unspend(set_aside.rest(BudgetShare { tokens: 150, cost: 0 }));
        assert!(usage.spend(LimitOwner::Own, &limits, tokens(850)).is_ok());
        assert!(usage.spend(LimitOwner::Own, &limits, tokens(1)).is_err());
        assert!(
            usage.spend(LimitOwner::Own, &limits, tokens(0)).is_ok(),
            "a tool that is no model"
        );
        usage.unspend(BudgetShare { tokens: 850, cost: 0 });
        usage.overspend(BudgetShare { tokens: 850, cost: 0 });
        assert!(usage.spend(LimitOwner::Own, &limits, tokens(1)).is_err(), "what was used counts");
    }

    #[test]
    fn only_denials_of_the_same_minute_add_up() {
        let seconds = Duration::from_secs;
        let mut usage = Usage::default();
        assert!(!usage.denied_at(3, seconds(0)));
        assert!(!usage.denied_at(3, seconds(30)));
        assert!(!usage.denied_at(3, seconds(61)), "the first is older than a minute");
        assert!(usage.denied_at(3, seconds(62)));
        assert!(usage.denied_at(3, seconds(62)));
        assert!(!usage.denied_at(3, seconds(500)));
    }

    #[test]
    fn three_errors_in_a_row_break_the_circuit_and_a_success_closes_it() {
        let limits = RunLimits { consecutive_errors: Some(2), ..RunLimits::default() };
        let mut usage = Usage::default();
        let fingerprint = Digest::of(&[b"a"]);
        for _ in 0..2 {
            assert!(usage.begin(&limits, fingerprint, Duration::ZERO).is_empty());
            usage.end(BudgetOutcome::Wrong);
        }
        let third = usage.begin(&limits, fingerprint, Duration::ZERO);
        assert_eq!(details(&third), ["limit.consecutive_errors"]);
    }

    #[test]
    fn delegated_calls_use_up_how_many_how_fast_and_how_many_at_once_and_say_whose() {
        let limits = RunLimits { calls: Some(2), concurrency: Some(1), ..RunLimits::default() };
        let run = RunId::from_random([1; 16]);
        let whose = LimitOwner::Delegator { agent: "lead", run: &run };
        let mut usage = Usage::default();
        assert!(usage.begin(&limits, Digest::of(&[b"a"]), Duration::ZERO).is_empty());
        let second = usage.begin_delegated(whose, &limits, Duration::ZERO);
        assert_eq!(details(&second), ["limit.concurrency"]);
        assert!(second[0].message.contains("agent `lead`"), "{}", second[0].message);
        assert_eq!(second[0].rule, "delegation.limits.concurrency");
        usage.end_delegated();
        usage.end(BudgetOutcome::Well);
        let third = usage.begin_delegated(whose, &limits, Duration::ZERO);
        assert_eq!(details(&third), ["limit.calls"], "both count");
        usage.forget_delegated();
        assert_eq!((usage.calls(), usage.delegated), (1, 1));
    }
}
