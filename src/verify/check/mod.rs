//! Checks a bundle offline and reports, check by check, what holds (ledger.md §2.15).
//!
//! Sync functions over bytes: no database, no network, no clock. The ids are those of the design. A
//! check that lacks material names it and never counts as done.
//!
//! [`Case`] is filled while reading: files, then entries and keys, then payloads. After that every
//! file here is one function `check(case, report)` that reads the case and adds its outcomes: a new
//! check is one file and one line in `judge`.

mod alone;
pub mod anchors;
mod approvals;
mod arguments;
mod both;
mod break_glass;
pub mod case;
mod closed;
mod content;
mod contradiction;
mod exceptions;
mod files;
mod flaw;
mod input;
mod lists;
pub(crate) mod log;
mod observed;
mod opened;
mod orders;
mod population;
mod proposals;
pub(crate) mod range;
mod replay;
pub mod report;
mod rules;
mod runs;
mod same;
mod taint;
mod windows;

use std::path::Path;

use super::bundle::Files;
use super::page::NOT_PROVEN;
use super::scope::Scope;
use super::trust::Trust;
use crate::domain::json::Json;

pub use case::Case;
pub use range::VERSION as RANGE_VERSION;
pub use report::{Check, Outcome, Report, TITLES};

/// The current step of a verification, for progress reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    /// B1–B3.
    Files,
    /// E1: every line is read.
    Entries,
    /// H1, E2, H2, R1, S1, S2.
    Proofs,
    /// F1, W1, W2, C1.
    Anchors,
    /// S3–S5, P2.
    Runs,
    /// P1, P3, P6, A1.
    Payloads,
    /// P5, if it was asked for.
    Replay,
    /// R2, C2, B4, V1.
    Derived,
}

impl Step {
    /// The number of steps.
    pub const COUNT: usize = 8;

    /// Its number, counted from 1, and its description.
    pub const fn numbered(self) -> (usize, &'static str) {
        match self {
            Self::Files => (1, "the list of files"),
            Self::Entries => (2, "the entries"),
            Self::Proofs => (3, "the proofs and keys"),
            Self::Anchors => (4, "the fleet log and who saw it"),
            Self::Runs => (5, "the runs, call by call"),
            Self::Payloads => (6, "payloads, policies and manifests"),
            Self::Replay => (7, "the decisions, made again"),
            Self::Derived => (8, "the files for people, made again"),
        }
    }
}

/// Receives the progress of a verification.
pub trait Watch {
    /// The bundle was read; the checks begin.
    fn loaded(&self, _files: &Files) {}

    /// This step begins.
    fn at(&self, _step: Step) {}
}

/// Ignores the progress.
impl Watch for () {}

/// Verifies the bundle that is this directory or this zip file against these trust roots.
pub fn verify(dir: &Path, trust: &Trust) -> Report {
    verify_watched(dir, trust, &())
}

/// As [`verify`], with progress reports.
pub fn verify_watched(dir: &Path, trust: &Trust, watch: &dyn Watch) -> Report {
    match Files::load(dir) {
        Ok(files) => {
            watch.loaded(&files);
            checked(&files, trust, watch)
        }
        Err(damage) => {
            let mut report = Report::default();
            report.invalid(damage);
            finish(report)
        }
    }
}

/// Verifies a bundle that has been read.
pub fn verify_files(files: &Files, trust: &Trust) -> Report {
    checked(files, trust, &())
}

/// As [`verify_files`], with progress reports.
pub fn verify_files_watched(files: &Files, trust: &Trust, watch: &dyn Watch) -> Report {
    checked(files, trust, watch)
}

fn checked(files: &Files, trust: &Trust, watch: &dyn Watch) -> Report {
    let mut report = Report::default();
    watch.at(Step::Files);
    let predicate = files::check(files, trust, &mut report).unwrap_or(Json::Null);
    let scope = Scope::of(files);
    watch.at(Step::Entries);
    let slices = match log::read(files, scope) {
        Ok(slices) => slices,
        Err(damage) => {
            report.invalid(damage);
            return finish(report);
        }
    };
    let fleet = match log::fleet(files).transpose() {
        Ok(fleet) => fleet,
        Err(damage) => {
            report.invalid(damage);
            return finish(report);
        }
    };
    let mut case = Case { files, trust, scope, slices, fleet, payloads: None, predicate };
    // WHY first: a process searches with one set of rules from its first search on.
    rules::adopt(&case);
    watch.at(Step::Proofs);
    log::check(&mut case, &mut report);
    watch.at(Step::Anchors);
    let chains: Vec<anchors::AnchoredChain<'_>> =
        case.slices.iter().filter_map(anchors::AnchoredChain::of).collect();
    if !chains.is_empty() {
        anchors::check(files, trust, &chains, &mut report);
    }
    watch.at(Step::Runs);
    let runs_readable = runs::check(&case, &mut report);
    case.payloads = opened::read(files, &mut report);
    closed::check(&case, &mut report);
    if runs_readable && case.readable() {
        judge(&case, &mut report, watch);
    } else {
        let made = case.payloads.is_some();
        let replay = ["P5"].into_iter().filter(|_| trust.replay);
        let population = ["R2", "C2"].into_iter().filter(|_| case.scope == Scope::Population);
        let ids =
            ["P1", "P3", "P4", "P6", "A1", "B4", "V1"].into_iter().chain(population).chain(replay);
        let ids = ids.filter(|id| report.outcome(id).is_none()).collect::<Vec<_>>();
        for id in ids.into_iter().filter(|id| made || *id != "P1") {
            report.unverifiable(id, "not looked into, because of what failed before");
        }
    }
    finish(report)
}

/// Every check that needs the whole case.
fn judge(case: &Case<'_>, report: &mut Report, watch: &dyn Watch) {
    watch.at(Step::Payloads);
    opened::check(case, report);
    content::check(case, report);
    observed::check(case, report);
    if case.trust.replay {
        watch.at(Step::Replay);
        replay::check(case, report);
    }
    approvals::check(case, report);
    watch.at(Step::Derived);
    population::check(case, report);
    content::derived(case, report);
    content::unproven(case, report);
}

fn finish(mut report: Report) -> Report {
    let replayed = matches!(report.outcome("P5"), Some(Outcome::Valid(_)));
    let applies = |item: &&&str| {
        let timed = report.timed && item.starts_with("the time:");
        let made = replayed && item.starts_with(replay::NOT_MADE);
        !timed && !made
    };
    let items: Vec<String> = NOT_PROVEN.iter().filter(applies).map(|s| (*s).to_owned()).collect();
    report.not_proven.extend(items);
    report
}
