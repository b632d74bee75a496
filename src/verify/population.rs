//! `population.json`: the result of a query in every chain, as a pure function of the entries and
//! the query.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::projection::decides;
use super::query::{Filter, Query};
use super::scope::{ChainSlice, runs_of};
use crate::domain::canonical;
use crate::domain::id::{Epoch, RunId, Seq};
use crate::domain::json::Json;
use crate::domain::time::Timestamp;
use crate::entries::EntryLine;
use crate::record::Kind;
use crate::record::chain::{EnforcementTested, PostureObserved, WriterStarted};
use crate::record::run::{Count, RunOpened};

/// `v` of the file.
pub const VERSION: &str = "wicketgate/population/1";
/// The setting of `writer.started` with the writer's heartbeat interval in milliseconds.
pub const CADENCE: &str = "heartbeat_ms";

/// The cause of a pause that is longer than a writer may be silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The writer had ended in order.
    Stopped,
    /// Another writer took over from one that had not ended in order.
    NoWriter,
    /// The same writer continued: the log has no explanation.
    Silence,
    /// No entry follows until the end of the requested time.
    Tail,
}

impl Cause {
    /// Whether the log itself explains it.
    #[must_use]
    pub const fn explained(self) -> bool {
        matches!(self, Self::Stopped | Self::NoWriter)
    }
}

/// A pause longer than a writer may be silent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SilentTime {
    /// The entry before it.
    pub after: Seq,
    /// The time of that entry.
    pub since: Timestamp,
    /// Milliseconds.
    pub ms: u64,
    /// Why.
    pub cause: Cause,
}

/// How steadily a chain was written.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Pulse {
    /// Heartbeat entries.
    pub count: usize,
    /// Longest time between two entries, in milliseconds.
    #[serde(rename = "longest_gap_ms")]
    pub longest_ms: u64,
    /// The longest cadence that a writer of these entries declared; `None` if one declared none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declared_ms: Option<u64>,
    /// Pauses longer than 1.5 times the declared interval: a heartbeat takes time to write.
    #[serde(skip)]
    pub gaps: Vec<SilentTime>,
}

/// Measures the pauses in the selected part of a chain, up to `until` if no entry follows.
pub fn pulse(slice: &ChainSlice, until: Option<Timestamp>) -> Pulse {
    let cadences = cadences(slice);
    let mut pulse = Pulse {
        count: slice.selected().filter(|line| line.is(Kind::Heartbeat)).count(),
        ..Pulse::default()
    };
    let mut epochs: Vec<Epoch> = slice.selected().map(|line| line.entry.epoch).collect();
    epochs.dedup();
    let declared = epochs.iter().map(|epoch| cadences.get(epoch).copied());
    pulse.declared_ms =
        declared.collect::<Option<Vec<u64>>>().and_then(|all| all.into_iter().max());
    let pairs = slice.lines.iter().zip(slice.lines.iter().skip(1));
    let near = pairs.filter(|(a, b)| {
        a.entry.seq.checked_add(1) == Some(b.entry.seq) && (slice.selects(a) || slice.selects(b))
    });
    for (before, after) in near {
        let cause = if before.is(Kind::WriterStopped) {
            Cause::Stopped
        } else if before.entry.epoch != after.entry.epoch {
            Cause::NoWriter
        } else {
            Cause::Silence
        };
        pause(&mut pulse, &cadences, before, after.entry.ts, cause);
    }
    let last = slice.lines.last().filter(|line| slice.selects(line));
    if let (Some(last), Some(until)) = (last, until) {
        let cause = if last.is(Kind::WriterStopped) { Cause::Stopped } else { Cause::Tail };
        pause(&mut pulse, &cadences, last, until, cause);
    }
    pulse
}

fn pause(
    pulse: &mut Pulse,
    cadences: &BTreeMap<Epoch, u64>,
    before: &EntryLine,
    end: Timestamp,
    cause: Cause,
) {
    let since = before.entry.ts;
    let ms = u64::try_from(end.millis().saturating_sub(since.millis())).unwrap_or(0);
    if !cause.explained() && cause != Cause::Tail {
        pulse.longest_ms = pulse.longest_ms.max(ms);
    }
    let cadence = cadences.get(&before.entry.epoch).copied();
    if cadence.is_some_and(|cadence| ms > cadence.saturating_add(cadence / 2)) {
        pulse.gaps.push(SilentTime { after: before.entry.seq, since, ms, cause });
    }
}

/// The interval that each introduced writer declared.
fn cadences(slice: &ChainSlice) -> BTreeMap<Epoch, u64> {
    let started = slice.lines.iter().filter(|line| line.is(Kind::WriterStarted));
    let declared = started.filter_map(|line| {
        let settings = &line.get::<WriterStarted>()?.settings;
        let found = settings.iter().find(|setting| setting.k == CADENCE)?;
        Some((line.entry.epoch, found.v.parse().ok()?))
    });
    declared.collect()
}

/// `population.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Population {
    v: String,
    /// The query.
    pub query: Json,
    /// The results, log by log.
    pub chains: Vec<ChainSummary>,
    /// The totals.
    pub totals: BTreeMap<String, u64>,
}

/// What the query has in one log.
#[derive(Debug, Serialize, Deserialize)]
pub struct ChainSummary {
    /// Its name.
    pub origin: String,
    /// The first entry in the requested time.
    pub from: Seq,
    /// The one after the last.
    pub to: Seq,
    /// Entries of the log.
    pub size: Seq,
    /// Entries in the requested time.
    pub entries: usize,
    /// Runs in it.
    pub runs: usize,
    /// Entries of calls by their kind.
    pub calls: Vec<Count>,
    /// The decisions that the filter picks, or how many there are.
    pub matched: Json,
    /// Times without entries.
    pub gaps: Vec<SilentTime>,
    /// Its signs of life.
    pub heartbeats: Pulse,
    /// The gate's own calls that had to be denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforcement_tests: Option<Tests>,
    /// Agents' reports about their isolation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postures: Option<Tests>,
}

/// The file.
pub fn population(filter: &Filter, slices: &[ChainSlice]) -> Vec<u8> {
    let mut totals = BTreeMap::new();
    let chains = slices.iter().map(|slice| chain(filter, slice, &mut totals)).collect();
    let query = Query::Population(filter.clone()).to_json();
    canonical::bytes(&Json::of(&Population { v: VERSION.to_owned(), query, chains, totals }))
}

fn chain(filter: &Filter, slice: &ChainSlice, totals: &mut BTreeMap<String, u64>) -> ChainSummary {
    let mut heartbeats = pulse(slice, filter.until);
    let found = matched(filter, slice);
    let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
    for line in slice.selected().filter(|line| line.kind().starts_with("call.")) {
        let count = calls.entry(line.kind()).or_default();
        *count = count.saturating_add(1);
    }
    let (from, to) = slice.span.map_or((0, 0), |span| (span.from, span.to));
    let summary = ChainSummary {
        origin: slice.origin().to_owned(),
        from,
        to,
        size: slice.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.size),
        entries: slice.selected().count(),
        runs: slice.runs().len(),
        calls: calls.into_iter().map(|(k, v)| Count { k: k.into(), v: v.into() }).collect(),
        matched: if filter.picks() { Json::of(&found) } else { Json::of(&found.len()) },
        gaps: std::mem::take(&mut heartbeats.gaps),
        heartbeats,
        enforcement_tests: Tests::of(slice, Kind::EnforcementTested),
        postures: Tests::of(slice, Kind::PostureObserved),
    };
    let mut add = |name: &str, count: usize| {
        let total: &mut u64 = totals.entry(name.to_owned()).or_default();
        *total = total.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
    };
    add("chains", 1);
    add("entries", summary.entries);
    add("runs", summary.runs);
    add("heartbeats", summary.heartbeats.count);
    add("gaps", summary.gaps.len());
    add("matched", found.len());
    if let Some(tests) = &summary.enforcement_tests {
        add("enforcement_tests", tests.count);
        add("enforcement_tests_failed", tests.failed);
    }
    if let Some(tests) = &summary.postures {
        add("postures", tests.count);
        add("postures_failed", tests.failed);
    }
    summary
}

/// The gate's own calls that had to be denied, or agents' reports about their isolation.
#[derive(Debug, Serialize, Deserialize)]
pub struct Tests {
    /// How many.
    pub count: usize,
    /// How many failed.
    pub failed: usize,
    /// When the last one was made.
    pub last: Timestamp,
}

impl Tests {
    /// Those in the selection; `None` for a chain without one.
    fn of(slice: &ChainSlice, kind: Kind) -> Option<Self> {
        let mut tests: Option<Self> = None;
        for line in slice.selected().filter(|line| line.is(kind)) {
            let tested = line.get::<EnforcementTested>().map(|test| test.passed);
            let passed = tested.or_else(|| line.get::<PostureObserved>().map(|seen| seen.passed));
            let all = tests.get_or_insert(Self { count: 0, failed: 0, last: line.entry.ts });
            all.count = all.count.saturating_add(1);
            all.failed = all.failed.saturating_add(usize::from(passed != Some(true)));
            all.last = line.entry.ts;
        }
        tests
    }
}

/// The decisions that the filter selects; all of them without a filter.
fn matched(filter: &Filter, slice: &ChainSlice) -> Vec<Seq> {
    let agents: BTreeMap<&RunId, &str> = runs_of(slice.lines.iter())
        .into_iter()
        .filter_map(|(run, own)| {
            let opened = own.into_iter().find_map(|line| line.get::<RunOpened>())?;
            Some((run, opened.agent.as_str()))
        })
        .collect();
    let is_selected = |line: &&EntryLine| {
        let draft = &line.entry.draft;
        let agent = line.entry.run.as_ref().and_then(|link| agents.get(&link.run));
        let tool = draft.tool.as_ref().map(|tool| tool.as_str());
        decides(line)
            && filter.agent.as_deref().is_none_or(|wanted| agent == Some(&wanted))
            && filter.tool.as_deref().is_none_or(|wanted| tool == Some(wanted))
            && filter.verdict.is_none_or(|wanted| draft.verdict == Some(wanted))
    };
    slice.selected().filter(is_selected).map(|line| line.entry.seq).collect()
}
