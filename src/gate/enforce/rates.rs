//! The obligation `rate_limit`: calls of one tool in one run, counted for each rate that a policy laid
//! on them. After a restart the entries of the run give the same counts.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::run::Run;
use crate::domain::code::Code;
use crate::domain::decision::{CallRate, LayerReason, PolicyObligation, RATE_LIMITED};
use crate::domain::id::{CallId, ToolName};
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::ledger::PastRate;

/// Rates of one run that are counted at the same time: a rule may make one of every argument.
const RATES_MAX: usize = 256;
/// The words before the time in the message of a denial.
const AGAIN: &str = "try again in ";

/// Calls and when they were decided, the oldest first.
type CountedCalls = VecDeque<(Timestamp, CallId)>;

/// The calls that count for rates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Rates(BTreeMap<(ToolName, CallRate), CountedCalls>);

impl Rates {
    /// The counts of a run that is taken up after a restart.
    pub fn recovered(past: &[PastRate]) -> Self {
        let mut rates = Self::default();
        for PastRate { tool, rate, at, call } in past {
            let calls = rates.0.entry((tool.clone(), *rate)).or_default();
            calls.push_back((*at, call.clone()));
        }
        rates
    }

    /// Counts a call for all rates of its decision, or for none, and says why it is one too many.
    pub fn take(
        &mut self,
        (tool, call): (&ToolName, &CallId),
        obligations: &[PolicyObligation],
        now: Timestamp,
    ) -> Option<LayerReason> {
        let wanted: Vec<CallRate> = obligations.iter().filter_map(PolicyObligation::rate).collect();
        if wanted.is_empty() {
            return None;
        }
        self.0.retain(|(_, rate), calls| {
            let is_over = |at: &Timestamp| at.plus(span(*rate)) <= now;
            while calls.front().is_some_and(|(at, _)| is_over(at)) {
                calls.pop_front();
            }
            !calls.is_empty()
        });
        let over = wanted.iter().filter_map(|rate| self.wait(tool, call, *rate, now));
        if let Some((rate, wait)) = over.max_by_key(|(_, wait)| *wait) {
            return Some(exceeded(tool, rate, wait));
        }
        for rate in wanted {
            let key = (tool.clone(), rate);
            if self.0.len() >= RATES_MAX && !self.0.contains_key(&key) {
                return Some(exceeded(tool, rate, span(rate)));
            }
            let calls = self.0.entry(key).or_default();
            if !calls.iter().any(|(_, known)| known == call) {
                calls.push_back((now, call.clone()));
            }
        }
        None
    }

    /// How long this rate has no room for the call; `None` if it has.
    fn wait(
        &self,
        tool: &ToolName,
        call: &CallId,
        rate: CallRate,
        now: Timestamp,
    ) -> Option<(CallRate, Duration)> {
        let calls = self.0.get(&(tool.clone(), rate))?;
        let others = calls.iter().filter(|(_, known)| known != call);
        let most = usize::try_from(rate.calls).unwrap_or(usize::MAX);
        let (at, _) = others.rev().nth(most.saturating_sub(1))?;
        let left = at.plus(span(rate)).millis().saturating_sub(now.millis());
        Some((rate, Duration::from_millis(u64::try_from(left).unwrap_or_default())))
    }

    /// A call left the road without a record.
    pub fn forget(&mut self, call: &CallId) {
        self.0.values_mut().for_each(|calls| calls.retain(|(_, known)| known != call));
    }
}

impl Run {
    /// Counts a call for the rates of its decision, or returns why it is one too many.
    pub(super) fn take_rate(
        &self,
        about: (&ToolName, &CallId),
        obligations: &[PolicyObligation],
        now: Timestamp,
    ) -> Option<LayerReason> {
        self.state.lock().rates.take(about, obligations, now)
    }
}

const fn span(rate: CallRate) -> Duration {
    Duration::from_secs(rate.seconds)
}

fn exceeded(tool: &ToolName, rate: CallRate, wait: Duration) -> LayerReason {
    let CallRate { calls, seconds } = rate;
    let (calls, within) = (many(calls, "call"), many(seconds, "second"));
    let wait = many(wait.as_millis().div_ceil(1000).max(1), "second");
    let message = format!(
        "the policy allows {calls} of `{tool}` within {within} in one run, and the run made them: {AGAIN}{wait}"
    );
    LayerReason {
        code: Code::LimitExceeded,
        detail: RATE_LIMITED.into(),
        message,
        rule: "obligation".into(),
    }
}

/// When a call that this reason denies may be made again. The message is all that the entry of a denial
/// has of it.
pub(super) fn wait_in(reason: &LayerReason) -> Option<Duration> {
    let (_, wait) = reason.message.rsplit_once(AGAIN)?;
    let (seconds, _) = wait.split_once(' ')?;
    seconds.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: CallRate = CallRate { calls: 2, seconds: 60 };

    fn take(rates: &mut Rates, call: &str, second: i64) -> Option<LayerReason> {
        let (tool, call) = (ToolName::parse("t.one").unwrap(), CallId::parse(call).unwrap());
        let at = Timestamp::from_millis(second * 1000);
        rates.take((&tool, &call), &[PolicyObligation::RateLimit(RATE)], at)
    }

    #[test]
    fn a_call_over_the_rate_is_denied_until_the_oldest_is_out_of_the_window() {
        let mut rates = Rates::default();
        assert_eq!(take(&mut rates, "a", 0), None);
        assert_eq!(take(&mut rates, "b", 20), None);
        let denied = take(&mut rates, "c", 30).unwrap();
        assert_eq!((denied.code, &*denied.detail), (Code::LimitExceeded, RATE_LIMITED));
        assert_eq!(wait_in(&denied), Some(Duration::from_secs(30)), "{}", denied.message);
        assert_eq!(
            take(&mut rates, "c", 59).as_ref().and_then(wait_in),
            Some(Duration::from_secs(1))
        );
        assert_eq!(take(&mut rates, "c", 60), None, "a denied call does not count");
        assert!(take(&mut rates, "d", 61).is_some());
    }

    #[test]
    fn a_call_counts_once_and_not_at_all_once_it_is_forgotten() {
        let mut rates = Rates::default();
        assert_eq!(take(&mut rates, "a", 0), None);
        assert_eq!(take(&mut rates, "a", 1), None, "the same call is judged twice");
        assert_eq!(take(&mut rates, "b", 1), None);
        rates.forget(&CallId::parse("a").unwrap());
        assert_eq!(take(&mut rates, "c", 2), None);
        assert!(take(&mut rates, "d", 2).is_some());
    }

    #[test]
    fn rates_that_a_rule_invents_for_every_call_are_bounded() {
        let mut rates = Rates::default();
        let tool = ToolName::parse("t.one").unwrap();
        let mut ask = |number: u64| {
            let call = CallId::parse(&format!("c{number}")).unwrap();
            let rate = CallRate { calls: 1, seconds: number + 1 };
            rates.take(
                (&tool, &call),
                &[PolicyObligation::RateLimit(rate)],
                Timestamp::from_millis(0),
            )
        };
        let most = u64::try_from(RATES_MAX).unwrap();
        assert!((0..most).all(|number| ask(number).is_none()));
        assert!(ask(most).is_some());
    }
}
