//! Reads a bundle back, offline, and says check by check what holds (ledger.md §2.15).
//!
//! Sync functions over bytes: no database, no network, no clock. The ids are those of the design; a
//! check that cannot be made says what is missing and never counts as made.
//!
//! [`Case`] is filled while reading: files, then entries and keys, then payloads. After that every
//! file here is one function `check(case, report)` that reads the case and adds its outcomes: a new
//! check is one file and one line in [`judge`].

pub mod case;
mod content;
mod files;
mod log;
mod observed;
mod opened;
mod range;
pub mod report;
mod runs;

use std::path::Path;

use super::bundle::Files;
use super::page::NOT_PROVEN;
use super::scope::Scope;
use super::trust::Trust;
use crate::domain::json::Json;

pub use case::Case;
pub use range::VERSION as RANGE_VERSION;
pub use report::{Check, Outcome, Report};

/// Verifies the bundle in this directory against these trust roots.
#[must_use]
pub fn verify(dir: &Path, trust: &Trust) -> Report {
    match Files::read(dir) {
        Ok(files) => verify_files(&files, trust),
        Err(damage) => {
            let mut report = Report::default();
            report.invalid(damage);
            finish(report)
        }
    }
}

/// Verifies a bundle that has been read.
#[must_use]
pub fn verify_files(files: &Files, trust: &Trust) -> Report {
    let mut report = Report::default();
    let predicate = files::check(files, trust, &mut report).unwrap_or(Json::Null);
    let scope = Scope::of(files);
    let strands = match log::read(files, scope) {
        Ok(strands) => strands,
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
    let mut case = Case { files, trust, scope, strands, fleet, payloads: None, predicate };
    log::check(&mut case, &mut report);
    let walked = runs::check(&case, &mut report);
    case.payloads = opened::read(files, &mut report);
    if walked && case.readable() {
        judge(&case, &mut report);
    } else {
        let made = case.payloads.is_some();
        let ids = ["P1", "P3", "P6", "A1", "B4", "V1"].into_iter();
        for id in ids.filter(|id| made || *id != "P1") {
            report.unverifiable(id, "not looked into, because of what failed before");
        }
    }
    finish(report)
}

/// Every check that needs the whole case.
fn judge(case: &Case<'_>, report: &mut Report) {
    opened::check(case, report);
    content::check(case, report);
    observed::check(case, report);
    content::derived(case, report);
    content::unproven(case, report);
}

fn finish(mut report: Report) -> Report {
    report.not_proven.extend(NOT_PROVEN.iter().map(|item| (*item).to_owned()));
    report
}
