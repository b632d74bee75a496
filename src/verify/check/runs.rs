//! S3, S4, S5 and P2: every selected run, entry by entry.

use std::collections::BTreeSet;

use super::case::Case;
use super::report::Report;
use super::taint;
use crate::domain::id::RunId;
use crate::domain::plural::many;
use crate::entries::alerted::AlertCauses;
use crate::entries::lineage::Lineage;
use crate::entries::runs::Run;
use crate::entries::{Damage, EntryLine};
use crate::record::Kind;
use crate::record::alert::AlertRaised;
use crate::scope::{CONTEXT, ChainSlice, Scope};

const IDS: [&str; 4] = ["S3", "S4", "S5", "P2"];

/// The state of a bundle's runs.
#[derive(Default)]
struct Count {
    runs: usize,
    entries: u64,
    sealed: usize,
    open: usize,
    cut: usize,
    open_calls: usize,
}

/// S3, S4, S5 and P2; returns whether the runs could be read to their ends.
pub fn check(case: &Case<'_>, report: &mut Report) -> bool {
    match walk(case, report) {
        Err(damage) => {
            let failed = damage.check;
            report.invalid(damage);
            for id in IDS.into_iter().filter(|id| *id != failed) {
                report.unverifiable(id, format!("not decided, because {failed} fails"));
            }
            false
        }
        Ok(count) => {
            if case.scope == Scope::Run {
                of_run(&count, report);
            } else {
                of_span(&count, report);
            }
            report.valid("P2", "recomputed from the commitments");
            true
        }
    }
}

fn of_run(count: &Count, report: &mut Report) {
    report.valid("S3", many(count.entries, "entry"));
    if count.sealed == 1 {
        report.valid("S4", "complete");
        report.valid("S5", "every call has ended");
    } else {
        report.unverifiable("S4", "the run is OPEN: more may have happened since");
        report.unverifiable("S5", format!("{} still open", many(count.open_calls, "call")));
    }
}

/// A span may cut runs at its ends: the report counts them, and they are not a fault of the bundle.
fn of_span(count: &Count, report: &mut Report) {
    let Count { runs, entries, sealed, open, cut, open_calls } = count;
    report.valid("S3", format!("{} with {}", many(runs, "run"), many(entries, "entry")));
    report.valid(
        "S4",
        format!("{sealed} complete; not complete: {open} open, {cut} cut by the ends"),
    );
    report.valid("S5", format!("{} without an end here", many(open_calls, "call")));
    if open + cut > 0 {
        report.not_proven.push(format!(
            "what happened outside of the span in {} still open and {} cut by its ends",
            many(open, "run"),
            many(cut, "run")
        ));
    }
}

fn walk(case: &Case<'_>, report: &mut Report) -> Result<Count, Damage> {
    let mut count = Count::default();
    for slice in &case.slices {
        stray(slice, case.scope)?;
        lineage(slice)?;
        taint::check(slice)?;
        alerts(slice)?;
        for (id, own) in slice.runs() {
            one(slice, id, &own, &mut count)?;
            if case.scope == Scope::Run {
                report.run = Some(id.to_string());
            }
        }
    }
    match (case.scope, case.trust.run) {
        (Scope::Run, _) => only(case, &count)?,
        (Scope::Range | Scope::Population, Some(wanted)) => {
            let scope = case.scope.as_str();
            let why = format!("the bundle is about a {scope}, not about run {wanted}");
            return Err(Damage::new("S3", why));
        }
        (Scope::Range | Scope::Population, None) => {}
    }
    Ok(count)
}

/// No run outlives the run that delegated to it, where the bundle has both.
fn lineage(slice: &ChainSlice) -> Result<(), Damage> {
    let (mut lineage, mut sealed) = (Lineage::default(), BTreeSet::new());
    for line in &slice.lines {
        let taken = lineage.accept(line, &|run| sealed.contains(run), false);
        taken.map_err(|d| Damage::new(d.check, format!("seq {}: {}", line.entry.seq, d.why)))?;
        if line.is(Kind::RunSealed) {
            sealed.extend(line.entry.run.as_ref().map(|link| link.run));
        }
    }
    Ok(())
}

fn one(
    slice: &ChainSlice,
    id: &RunId,
    own: &[&EntryLine],
    count: &mut Count,
) -> Result<(), Damage> {
    let cut = slice.cut(own);
    let first = own.first().and_then(|line| line.entry.run.as_ref());
    let mut run = match first {
        Some(link) if slice.span.is_some() && cut.begin => Run::cut(link),
        Some(_) | None => Run::default(),
    };
    for line in own {
        run.accept(id, line)
            .map_err(|d| Damage::new(d.check, format!("seq {}: {}", line.entry.seq, d.why)))?;
    }
    let entries = u64::try_from(own.len()).unwrap_or(u64::MAX);
    count.runs = count.runs.saturating_add(1);
    count.entries = count.entries.saturating_add(entries);
    count.open_calls = count.open_calls.saturating_add(run.open_calls());
    let counter = match (cut.any(), run.sealed()) {
        (true, _) => &mut count.cut,
        (false, true) => &mut count.sealed,
        (false, false) => &mut count.open,
    };
    *counter = counter.saturating_add(1);
    Ok(())
}

/// A bundle of one run is about one run, and the requested one.
fn only(case: &Case<'_>, count: &Count) -> Result<(), Damage> {
    let damage = |why: String| Err(Damage::new("S3", why));
    let ids: Vec<&RunId> =
        case.slices.iter().flat_map(ChainSlice::runs).map(|(id, _)| id).take(2).collect();
    match (ids.as_slice(), case.trust.run) {
        ([], _) => damage("no run".into()),
        ([_, other, ..], _) => {
            damage(format!("entries of a second run, {other}, of {}", count.runs))
        }
        ([id], Some(wanted)) if wanted != **id => {
            damage(format!("the bundle is about run {id}, not {wanted}"))
        }
        ([_], _) => Ok(()),
    }
}

/// Every alert of the bundle is about a run in it, and follows on the entry that caused it.
fn alerts(slice: &ChainSlice) -> Result<(), Damage> {
    let (mut causes, from) = (AlertCauses::default(), slice.span.map_or(0, |span| span.from));
    let runs: BTreeSet<RunId> = slice.runs().into_iter().map(|(run, _)| *run).collect();
    for line in &slice.lines {
        let place = |damage: Damage| {
            Damage::new(damage.check, format!("seq {}: {}", line.entry.seq, damage.why))
        };
        causes.accept(line, from).map_err(place)?;
        let about = line.get::<AlertRaised>().and_then(|alert| alert.run);
        if slice.span.is_none() && about.is_some_and(|run| !runs.contains(&run)) {
            return Err(place(Damage::new("S3", "an alert about another run")));
        }
    }
    Ok(())
}

/// Entries outside the selection must introduce entries in it.
fn stray(slice: &ChainSlice, scope: Scope) -> Result<(), Damage> {
    let lines = slice.lines.iter().filter(|line| match scope {
        Scope::Run => line.entry.run.is_none(),
        Scope::Range | Scope::Population => slice.span.is_none_or(|span| !span.has(line.entry.seq)),
    });
    for line in lines {
        let context = CONTEXT.iter().any(|kind| line.is(*kind));
        if !context && line.unknown.is_none() && !slice.introduces(line) {
            let why = format!("seq {}: `{}` does not belong here", line.entry.seq, line.kind());
            return Err(Damage::new("S3", why));
        }
    }
    Ok(())
}
