//! `population.json`: the result of a query in every chain, as a pure function of the entries and
//! the query.

use std::collections::BTreeMap;

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
use crate::record::run::RunOpened;

/// `v` of the file.
pub const VERSION: &str = "wicketgate/population/1";
/// The setting of `writer.started` with the writer's heartbeat interval in milliseconds.
pub const CADENCE: &str = "heartbeat_ms";

/// The cause of a pause that is longer than a writer may be silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// Its name in the file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::NoWriter => "no_writer",
            Self::Silence => "silence",
            Self::Tail => "tail",
        }
    }

    /// Whether the log itself explains it.
    #[must_use]
    pub const fn explained(self) -> bool {
        matches!(self, Self::Stopped | Self::NoWriter)
    }
}

/// A pause longer than a writer may be silent.
#[derive(Clone, PartialEq, Eq, Debug)]
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
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pulse {
    /// Heartbeat entries.
    pub count: usize,
    /// Longest time between two entries, in milliseconds.
    pub longest_ms: u64,
    /// The longest cadence that a writer of these entries declared; `None` if one declared none.
    pub declared_ms: Option<u64>,
    /// Pauses longer than 1.5 times the declared interval: a heartbeat takes time to write.
    pub gaps: Vec<SilentTime>,
}

/// Measures the pauses in the selected part of a chain, up to `until` if no entry follows.
#[must_use]
pub fn pulse(strand: &ChainSlice, until: Option<Timestamp>) -> Pulse {
    let cadences = cadences(strand);
    let mut pulse = Pulse {
        count: strand.asked().filter(|line| line.is(Kind::Heartbeat)).count(),
        ..Pulse::default()
    };
    let mut epochs: Vec<Epoch> = strand.asked().map(|line| line.entry.epoch).collect();
    epochs.dedup();
    let declared = epochs.iter().map(|epoch| cadences.get(epoch).copied());
    pulse.declared_ms =
        declared.collect::<Option<Vec<u64>>>().and_then(|all| all.into_iter().max());
    let pairs = strand.lines.iter().zip(strand.lines.iter().skip(1));
    let near = pairs.filter(|(a, b)| {
        a.entry.seq.checked_add(1) == Some(b.entry.seq) && (strand.asks(a) || strand.asks(b))
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
    let last = strand.lines.last().filter(|line| strand.asks(line));
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
fn cadences(strand: &ChainSlice) -> BTreeMap<Epoch, u64> {
    let started = strand.lines.iter().filter(|line| line.is(Kind::WriterStarted));
    let declared = started.filter_map(|line| {
        let settings = &line.get::<WriterStarted>()?.settings;
        let found = settings.iter().find(|setting| setting.k == CADENCE)?;
        Some((line.entry.epoch, found.v.parse().ok()?))
    });
    declared.collect()
}

/// The file.
#[must_use]
pub fn population(filter: &Filter, strands: &[ChainSlice]) -> Vec<u8> {
    let mut totals: BTreeMap<&'static str, u64> = BTreeMap::new();
    let chains: Vec<Json> = strands.iter().map(|s| chain(filter, s, &mut totals)).collect();
    let totals = totals.into_iter().map(|(name, count)| (name, Json::from(count)));
    canonical::bytes(&Json::object([
        ("v", Json::from(VERSION)),
        ("query", Query::Population(filter.clone()).to_json()),
        ("chains", chains.into()),
        ("totals", Json::object(totals)),
    ]))
}

fn chain(filter: &Filter, strand: &ChainSlice, totals: &mut BTreeMap<&'static str, u64>) -> Json {
    let pulse = pulse(strand, filter.until);
    let runs = strand.runs();
    let found = matched(filter, strand);
    let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
    for line in strand.asked().filter(|line| line.kind().starts_with("call.")) {
        let count = calls.entry(line.kind()).or_default();
        *count = count.saturating_add(1);
    }
    let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let entries = number(strand.asked().count());
    let counts = [
        ("chains", 1),
        ("entries", entries),
        ("runs", number(runs.len())),
        ("heartbeats", number(pulse.count)),
        ("gaps", number(pulse.gaps.len())),
        ("matched", number(found.len())),
    ];
    let tests = Tests::of(strand, Kind::EnforcementTested);
    let tested = tests.as_ref().map(|tests| {
        [("enforcement_tests", tests.count), ("enforcement_tests_failed", tests.failed)]
    });
    let postures = Tests::of(strand, Kind::PostureObserved);
    let observed = postures
        .as_ref()
        .map(|tests| [("postures", tests.count), ("postures_failed", tests.failed)]);
    let tested = tested.into_iter().chain(observed).flatten();
    for (name, count) in counts.into_iter().chain(tested) {
        let total = totals.entry(name).or_default();
        *total = total.saturating_add(count);
    }
    let calls: Vec<Json> = calls
        .into_iter()
        .map(|(k, v)| Json::object([("k", Json::from(k)), ("v", Json::from(v))]))
        .collect();
    let (from, to) = strand.span.map_or((0, 0), |span| (span.from, span.to));
    let size = strand.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.size);
    let matched = if filter.picks() {
        found.into_iter().map(Json::from).collect::<Vec<_>>().into()
    } else {
        Json::from(number(found.len()))
    };
    let mut members = vec![
        ("origin", Json::from(strand.origin())),
        ("from", Json::from(from)),
        ("to", Json::from(to)),
        ("size", Json::from(size)),
        ("entries", Json::from(entries)),
        ("runs", Json::from(number(runs.len()))),
        ("calls", calls.into()),
        ("matched", matched),
        ("gaps", pulse.gaps.iter().map(gap).collect::<Vec<_>>().into()),
        ("heartbeats", beats(&pulse)),
    ];
    members.extend(tests.map(|tests| ("enforcement_tests", tests.to_json())));
    members.extend(postures.map(|tests| ("postures", tests.to_json())));
    Json::object(members)
}

/// The gate's own calls that had to be denied, or agents' reports about their isolation.
struct Tests {
    count: u64,
    failed: u64,
    last: Timestamp,
}

impl Tests {
    /// Those in the selection; `None` for a chain without one.
    fn of(strand: &ChainSlice, kind: Kind) -> Option<Self> {
        let mut tests: Option<Self> = None;
        for line in strand.asked().filter(|line| line.is(kind)) {
            let tested = line.get::<EnforcementTested>().map(|test| test.passed);
            let passed = tested.or_else(|| line.get::<PostureObserved>().map(|seen| seen.passed));
            let all = tests.get_or_insert(Self { count: 0, failed: 0, last: line.entry.ts });
            all.count = all.count.saturating_add(1);
            all.failed = all.failed.saturating_add(u64::from(passed != Some(true)));
            all.last = line.entry.ts;
        }
        tests
    }

    fn to_json(&self) -> Json {
        Json::object([
            ("count", Json::from(self.count)),
            ("failed", Json::from(self.failed)),
            ("last", Json::from(self.last.to_string())),
        ])
    }
}

fn gap(gap: &SilentTime) -> Json {
    Json::object([
        ("after", Json::from(gap.after)),
        ("since", Json::from(gap.since.to_string())),
        ("ms", Json::from(gap.ms)),
        ("cause", Json::from(gap.cause.as_str())),
    ])
}

fn beats(pulse: &Pulse) -> Json {
    let mut members = vec![
        ("count", Json::from(u64::try_from(pulse.count).unwrap_or(u64::MAX))),
        ("longest_gap_ms", Json::from(pulse.longest_ms)),
    ];
    members.extend(pulse.declared_ms.map(|ms| ("declared_ms", Json::from(ms))));
    Json::object(members)
}

/// The decisions that the filter selects; all of them without a filter.
fn matched(filter: &Filter, strand: &ChainSlice) -> Vec<Seq> {
    let agents: BTreeMap<&RunId, &str> = runs_of(strand.lines.iter())
        .into_iter()
        .filter_map(|(run, own)| {
            let opened = own.into_iter().find_map(|line| line.get::<RunOpened>())?;
            Some((run, opened.agent.as_str()))
        })
        .collect();
    let picked = |line: &&EntryLine| {
        let draft = &line.entry.draft;
        let agent = line.entry.run.as_ref().and_then(|link| agents.get(&link.run));
        let tool = draft.tool.as_ref().map(|tool| tool.as_str());
        decides(line)
            && filter.agent.as_deref().is_none_or(|wanted| agent == Some(&wanted))
            && filter.tool.as_deref().is_none_or(|wanted| tool == Some(wanted))
            && filter.verdict.is_none_or(|wanted| draft.verdict == Some(wanted))
    };
    strand.asked().filter(picked).map(|line| line.entry.seq).collect()
}
