//! R2 and C2: the population matches the query, and no writer in it was silent for too long.

use super::case::Case;
use super::report::{Outcome, Report};
use crate::bundle::POPULATION;
use crate::domain::id::Seq;
use crate::domain::json::{self, Json, Limits};
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::entries::EntryLine;
use crate::population::{Cause, Pulse, population, pulse};
use crate::query::{Filter, Query};
use crate::record::Kind;
use crate::scope::{ChainSlice, Scope};
use crate::statement::{Exporter, query, query_without_requester};

/// How a population differs from its query.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the query of `{POPULATION}` is malformed")]
    Query,
    #[error("`{POPULATION}`: {0}")]
    Json(#[from] json::Error),
    #[error("`{POPULATION}` answers a different query from the statement's")]
    OtherQuery,
    #[error("the chains are not sorted by name: {0}")]
    Order(String),
    #[error("the query asks for `{0}`, but the bundle does not include it")]
    Absent(String),
    #[error("the bundle includes `{0}`, but the query does not ask for it")]
    Extra(String),
    #[error("`{POPULATION}` does not follow from the entries and the query")]
    Derived,
    #[error("{0}: the range proof is missing")]
    NoRange(String),
    #[error("{0}: entry {1} is not the first in the queried time range")]
    Begin(String, Seq),
    #[error("{0}: entry {1} is not the first after the queried time range")]
    End(String, Seq),
    #[error("`{0}` is enrolled in the fleet log, but the bundle does not include it")]
    Enrolled(String),
}

/// R2 and C2; a bundle of one run has neither.
pub fn check(case: &Case<'_>, report: &mut Report) {
    let filter = match case.scope {
        Scope::Run => return,
        Scope::Range => None,
        Scope::Population => match filter(case) {
            Ok(filter) => Some(filter),
            Err(why) => return report.put("R2", Outcome::invalid(why)),
        },
    };
    let until = filter.as_ref().and_then(|filter| filter.until);
    steady(case, until, report);
    if let Some(filter) = filter {
        let outcome = answered(case, &filter, report).unwrap_or_else(Outcome::invalid);
        report.put("R2", outcome);
    }
}

fn filter(case: &Case<'_>) -> Result<Filter, Error> {
    let text = case.files.get(POPULATION).ok_or(Error::Query)?;
    let json = Json::parse(text, &Limits::FILE)?;
    let query = query(&json).ok_or(Error::Query)?;
    if query_without_requester(&case.predicate) != query {
        return Err(Error::OtherQuery);
    }
    match Query::from_json(&query) {
        Some(Query::Population(filter)) => Ok(filter),
        Some(Query::Run(_) | Query::Range { .. }) | None => Err(Error::Query),
    }
}

/// R2: the requested chains, each in the requested time, and every count recomputed.
fn answered(case: &Case<'_>, filter: &Filter, report: &mut Report) -> Result<Outcome, Error> {
    let origins: Vec<&str> = case.slices.iter().map(ChainSlice::origin).collect();
    if let Some(pair) = origins.windows(2).find(|pair| pair.first() >= pair.last()) {
        return Err(Error::Order(pair.join(", ")));
    }
    if !filter.chains.is_empty() {
        let absent = filter.chains.iter().find(|log| !origins.contains(&log.as_str()));
        if let Some(absent) = absent {
            return Err(Error::Absent(absent.clone()));
        }
        if let Some(extra) = origins.iter().find(|o| filter.chains.iter().all(|log| log != *o)) {
            return Err(Error::Extra((*extra).to_owned()));
        }
    }
    for slice in &case.slices {
        in_time(slice, filter)?;
    }
    if case.files.get(POPULATION) != Some(population(filter, &case.slices).as_slice()) {
        return Err(Error::Derived);
    }
    let entries: usize = case.slices.iter().map(|slice| slice.selected().count()).sum();
    enumerated(case, filter, &origins, report)?;
    let (chains, entries) = (many(origins.len(), "chain"), many(entries, "entry"));
    Ok(Outcome::Valid(format!("{chains}, {entries}, recomputed")))
}

/// The span begins and ends where the requested time does.
fn in_time(slice: &ChainSlice, filter: &Filter) -> Result<(), Error> {
    let span = slice.span.ok_or_else(|| Error::NoRange(slice.folder.clone()))?;
    let size = slice.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.size);
    let at = |seq| slice.lines.iter().find(|line| line.entry.seq == seq).map(|l| l.entry.ts);
    let begins = match (filter.since, span.from.checked_sub(1)) {
        (None, before) => before.is_none(),
        (Some(_), None) => true,
        (Some(since), Some(before)) => at(before).is_some_and(|ts| ts < since),
    };
    let first = slice.selected().next().map(|line| line.entry.ts);
    if !begins || first.zip(filter.since).is_some_and(|(ts, since)| ts < since) {
        return Err(Error::Begin(slice.folder.clone(), span.from));
    }
    let ends = match filter.until {
        None => span.to == size,
        // For an empty span, `until` may precede `since`, and the end equals the beginning.
        Some(until) if span.from < span.to || filter.since.is_none_or(|since| since <= until) => {
            span.to == size || at(span.to).is_some_and(|ts| ts >= until)
        }
        Some(_) => true,
    };
    let last = slice.selected().last().map(|line| line.entry.ts);
    if !ends || last.zip(filter.until).is_some_and(|(ts, until)| ts >= until) {
        return Err(Error::End(slice.folder.clone(), span.to));
    }
    Ok(())
}

/// The chains are those that the fleet log enrolled, if the bundle has the fleet log.
fn enumerated(
    case: &Case<'_>,
    filter: &Filter,
    origins: &[&str],
    report: &mut Report,
) -> Result<(), Error> {
    let trusted = matches!(report.outcome("F1"), Some(Outcome::Valid(_)));
    let mut say = |text: String| report.not_proven.push(text);
    if !filter.chains.is_empty() {
        say("anything about other chains: the query names the ones it is about".into());
        return Ok(());
    }
    let fleet = case.fleet.as_ref();
    let enrolled: Vec<&str> = fleet.map(chains_of).unwrap_or_default();
    if enrolled.is_empty() {
        say("that these are all chains of the tenant: no fleet log in the bundle lists them".into());
        return Ok(());
    }
    if let Some(absent) = enrolled.iter().find(|log| !origins.contains(log)) {
        return Err(Error::Enrolled((*absent).to_owned()));
    }
    // An exporter may leave out entries of the fleet log, unless the log is trusted and complete.
    if !trusted || !fleet.is_some_and(whole) {
        say("that these are all chains of the tenant: that the fleet log here is the trusted one, and \
             all of it, is not shown (F1, a range from its first entry)"
            .into());
    }
    let unknown: Vec<&str> = origins.iter().filter(|o| !enrolled.contains(o)).copied().collect();
    if !unknown.is_empty() {
        say(format!("that the fleet log lists every chain: {} is not in it", unknown.join(", ")));
    }
    Ok(())
}

/// Whether the bundle has the log from its first entry to its checkpoint's last.
fn whole(log: &ChainSlice) -> bool {
    let size = log.checkpoint.as_ref().map(|checkpoint| checkpoint.size);
    log.span.is_some_and(|span| span.from == 0 && Some(span.to) == size)
}

fn chains_of(fleet: &ChainSlice) -> Vec<&str> {
    let enrolled = fleet.lines.iter().filter(|line| line.is(Kind::ChainEnrolled));
    enrolled.filter_map(|line: &EntryLine| line.log()).collect()
}

/// C2: no pause is longer than declared, except those that the log explains.
fn steady(case: &Case<'_>, until: Option<Timestamp>, report: &mut Report) {
    let pulses: Vec<(&ChainSlice, Pulse)> =
        case.slices.iter().map(|slice| (slice, pulse(slice, until))).collect();
    let gaps = || pulses.iter().flat_map(|(s, pulse)| pulse.gaps.iter().map(move |gap| (s, gap)));
    let explained = gaps().filter(|(_, gap)| gap.cause.explained()).count();
    if explained > 0 {
        report.not_proven.push(format!(
            "what happened in {} in which no writer ran: a gate without a writer refuses every call, \
             and only its own entries say that it was one",
            many(explained, "pause")
        ));
    }
    quiet_since(case, &pulses, report);
    let longest = pulses.iter().map(|(_, pulse)| pulse.longest_ms).max().unwrap_or(0);
    let unknown = pulses
        .iter()
        .find(|(slice, pulse)| pulse.declared_ms.is_none() && slice.selected().next().is_some());
    let gaps_unexplained: Vec<_> = gaps().filter(|(_, gap)| !gap.cause.explained()).collect();
    let outcome = match (gaps_unexplained.first(), unknown) {
        (Some((slice, gap)), _) => Outcome::Unverifiable(format!(
            "{} that nothing explains; the first is after seq {} of {} at {}: {} ms",
            many(gaps_unexplained.len(), "pause"),
            gap.after,
            slice.origin(),
            gap.since,
            gap.ms
        )),
        (None, Some((slice, _))) => {
            Outcome::Unverifiable(format!("a writer of {} declares no cadence", slice.origin()))
        }
        (None, None) => Outcome::Valid(format!("the longest pause is {longest} ms")),
    };
    report.put("C2", outcome);
}

/// Reports a chain that reaches its head and was quiet when the bundle was made.
fn quiet_since(case: &Case<'_>, pulses: &[(&ChainSlice, Pulse)], report: &mut Report) {
    let at = Exporter::said(&case.predicate).at;
    let Some(at) = Timestamp::parse(&at) else { return };
    for (slice, pulse) in pulses {
        let head = slice.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.size);
        let last = slice.lines.last().filter(|line| {
            line.entry.seq.checked_add(1) == Some(head) && !line.is(Kind::WriterStopped)
        });
        let tail = pulse.gaps.iter().any(|gap| gap.cause == Cause::Tail);
        let (Some(last), Some(declared)) = (last.filter(|_| !tail), pulse.declared_ms) else {
            continue;
        };
        let quiet = at.millis().saturating_sub(last.entry.ts.millis());
        let limit = i64::try_from(declared.saturating_add(declared / 2)).unwrap_or(i64::MAX);
        if quiet > limit {
            report.not_proven.push(format!(
                "what happened on {} since {}: the writer had not ended and was silent when the \
                 bundle was made",
                slice.origin(),
                last.entry.ts
            ));
        }
    }
}
