//! The fold that raises alerts: it sees every entry once, in the order of the chain, and counts by run.
//!
//! It holds no clock and no settings: the same entries give the same counts, in a gate that runs and in one that starts
//! again. Alerts are entries too, and reset the count that they report.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::{AlertKind, AlertRaised, AlertSignal, signals};
use crate::domain::id::{CallId, RunId, Seq, ToolName};
use crate::domain::time::Timestamp;
use crate::run::{RunOpened, RunSealed};
use crate::{Entry, Nonce, Text};

/// Tools of one run that are counted apart; an agent chooses the names.
const TOOLS_MAX: usize = 256;
/// Entries of one run whose times are kept.
const TIMES_MAX: usize = 1024;
/// `run.opened.mode` of a run whose calls are decided and never run; the gate's own self-test is one.
const SIMULATE: &str = "simulate";

/// So many entries in such a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BurstRule {
    /// How many.
    pub count: u64,
    /// Within this time.
    pub within: Duration,
}

/// When alerts are raised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AlertRules {
    /// Denials of one run, or texts that were not searched.
    pub burst: BurstRule,
    /// Denials of one tool in one run.
    pub repeated: u64,
    /// The same alert about the same run and tool comes again after this time at the earliest.
    pub quiet: Duration,
}

impl Default for AlertRules {
    fn default() -> Self {
        Self {
            burst: BurstRule { count: 5, within: Duration::from_secs(60) },
            repeated: 3,
            quiet: Duration::from_secs(600),
        }
    }
}

/// What an alert is counted by.
type AlertKey = (AlertKind, Option<ToolName>);

/// Entries that ask for one alert since it was last raised.
#[derive(Clone, Debug, Default)]
struct AlertTally {
    /// All of them in this run.
    all: u64,
    /// Those since the alert.
    count: u64,
    first: Option<(Timestamp, Seq)>,
    /// The mark of what was found last.
    mark: Option<Nonce>,
    raised: Option<Timestamp>,
}

impl AlertTally {
    fn add(&mut self, at: (Timestamp, Seq), mark: Option<Nonce>) {
        self.all = self.all.saturating_add(1);
        self.count = self.count.saturating_add(1);
        self.first.get_or_insert(at);
        self.mark = mark.or(self.mark);
    }

    fn reset(&mut self, at: Timestamp) {
        (self.count, self.first, self.mark, self.raised) = (0, None, None, Some(at));
    }
}

/// One open run.
#[derive(Clone, Debug)]
struct RunWatch {
    agent: Text,
    tallies: BTreeMap<AlertKey, AlertTally>,
    tools: BTreeSet<ToolName>,
    denials: VecDeque<(Timestamp, Seq)>,
    unscanned: VecDeque<(Timestamp, Seq)>,
}

/// The entry that was read last, as far as an alert names it.
#[derive(Clone, Debug)]
struct AlertCause {
    run: RunId,
    call: Option<CallId>,
    at: (Timestamp, Seq),
    keys: Vec<AlertKey>,
}

/// Counts what entries ask alerts for, by open run.
#[derive(Clone, Debug, Default)]
pub struct AlertWatch {
    runs: BTreeMap<RunId, RunWatch>,
    cause: Option<AlertCause>,
}

impl RunWatch {
    fn of(agent: &Text) -> Self {
        Self {
            agent: agent.clone(),
            tallies: BTreeMap::new(),
            tools: BTreeSet::new(),
            denials: VecDeque::new(),
            unscanned: VecDeque::new(),
        }
    }

    /// The tool, if it is counted apart.
    fn known(&mut self, tool: Option<&ToolName>) -> Option<ToolName> {
        let tool = tool?;
        if !self.tools.contains(tool) {
            if self.tools.len() >= TOOLS_MAX {
                return None;
            }
            self.tools.insert(tool.clone());
        }
        Some(tool.clone())
    }

    fn add(&mut self, key: AlertKey, at: (Timestamp, Seq), mark: Option<Nonce>) -> AlertKey {
        self.tallies.entry(key.clone()).or_default().add(at, mark);
        key
    }

    fn times(&mut self, alert: AlertKind) -> &mut VecDeque<(Timestamp, Seq)> {
        match alert {
            AlertKind::UnscannedBurst => &mut self.unscanned,
            AlertKind::BurstDenial
            | AlertKind::PathTraversal
            | AlertKind::SqlInjection
            | AlertKind::SecretEgress
            | AlertKind::OwnCredential
            | AlertKind::PromptInjection
            | AlertKind::RepeatedDenial
            | AlertKind::Trifecta
            | AlertKind::TrustDrop
            | AlertKind::FlowLabel => &mut self.denials,
        }
    }

    /// Counts an entry towards a burst.
    fn burst(&mut self, alert: AlertKind, at: (Timestamp, Seq)) -> AlertKey {
        let times = self.times(alert);
        if times.len() >= TIMES_MAX {
            times.pop_front();
        }
        times.push_back(at);
        self.add((alert, None), at, None)
    }

    fn take(
        &mut self,
        signal: AlertSignal,
        tool: Option<&ToolName>,
        at: (Timestamp, Seq),
    ) -> Vec<AlertKey> {
        match signal {
            AlertSignal::Alert(alert, mark) => {
                // What a run has read is about no tool.
                let tool = tool.filter(|_| alert != AlertKind::FlowLabel);
                let tool = self.known(tool);
                vec![self.add((alert, tool), at, mark)]
            }
            AlertSignal::Denial => {
                let (tool, alert) = (self.known(tool), AlertKind::RepeatedDenial);
                vec![self.burst(AlertKind::BurstDenial, at), self.add((alert, tool), at, None)]
            }
            AlertSignal::Unscanned => vec![self.burst(AlertKind::UnscannedBurst, at)],
        }
    }

    /// How many entries a due alert counts, and the first of them.
    fn due(
        &self,
        key: &AlertKey,
        now: Timestamp,
        rules: &AlertRules,
    ) -> Option<(u64, (Timestamp, Seq))> {
        let tally = self.tallies.get(key)?;
        if tally.raised.is_some_and(|raised| raised.plus(rules.quiet) > now) {
            return None;
        }
        let counted = (tally.count, tally.first?);
        let once = key.0 == AlertKind::FlowLabel;
        if once && tally.raised.is_some() {
            return None;
        }
        let times = match key.0 {
            AlertKind::BurstDenial => &self.denials,
            AlertKind::UnscannedBurst => &self.unscanned,
            AlertKind::RepeatedDenial => {
                return (tally.all >= rules.repeated).then_some(counted);
            }
            AlertKind::PathTraversal
            | AlertKind::SqlInjection
            | AlertKind::SecretEgress
            | AlertKind::OwnCredential
            | AlertKind::PromptInjection
            | AlertKind::Trifecta
            | AlertKind::TrustDrop
            | AlertKind::FlowLabel => return Some(counted),
        };
        let recent = || times.iter().filter(|(at, _)| at.plus(rules.burst.within) > now);
        let count = u64::try_from(recent().count()).unwrap_or(u64::MAX);
        let first = *recent().next()?;
        let is_burst = count >= rules.burst.count;
        is_burst.then_some(if tally.raised.is_some() { counted } else { (count, first) })
    }
}

impl AlertWatch {
    /// Takes the next entry of the chain.
    pub fn accept(&mut self, entry: &Entry) {
        let draft = &entry.draft;
        if let Some(alert) = draft.get::<AlertRaised>() {
            let run = alert.run.and_then(|run| self.runs.get_mut(&run));
            let tally = run.map(|run| run.tallies.entry((alert.alert, alert.tool.clone())));
            if let Some(tally) = tally {
                tally.or_default().reset(entry.ts);
            }
            return;
        }
        self.cause = None;
        let Some(run) = draft.run else { return };
        if let Some(opened) = draft.get::<RunOpened>() {
            if opened.mode != SIMULATE {
                self.runs.insert(run, RunWatch::of(&opened.agent));
            }
            return;
        }
        if draft.get::<RunSealed>().is_some() {
            self.runs.remove(&run);
            return;
        }
        let Some(watch) = self.runs.get_mut(&run) else { return };
        let (at, tool) = ((entry.ts, entry.seq), draft.tool.as_ref());
        let keys: Vec<AlertKey> =
            signals(draft).into_iter().flat_map(|signal| watch.take(signal, tool, at)).collect();
        if !keys.is_empty() {
            self.cause = Some(AlertCause { run, call: draft.call.clone(), at, keys });
        }
    }

    /// The alerts that the entry taken last asks for. They are to follow it at once.
    #[must_use]
    pub fn due(&self, rules: &AlertRules) -> Vec<AlertRaised> {
        let Some(AlertCause { run, call, at: (now, seq), keys }) = &self.cause else {
            return Vec::new();
        };
        let Some(watch) = self.runs.get(run) else { return Vec::new() };
        let raised = |key: &AlertKey| {
            let (count, (since, first)) = watch.due(key, *now, rules)?;
            let (alert, tool) = key.clone();
            let mark = watch.tallies.get(key).and_then(|tally| tally.mark);
            Some(AlertRaised {
                agent: watch.agent.clone(),
                alert,
                call: call.clone(),
                count: count.into(),
                first: first.into(),
                last: (*seq).into(),
                mark: mark.map(|mark| mark.to_string().as_str().into()),
                run: Some(*run),
                severity: alert.severity(),
                since,
                tool,
            })
        };
        keys.iter().filter_map(raised).collect()
    }
}
