//! Reads a bundle back, offline, and says check by check what holds (ledger.md §2.15).
//!
//! Sync functions over bytes: no database, no network, no clock. The ids are those of the design; a
//! check that cannot be made says what is missing and never counts as made.

mod content;
mod files;
mod log;
mod observed;
pub mod report;

use std::path::Path;

use super::bundle::Files;
use super::page::NOT_PROVEN;
use super::payloads::{Payload, Why};
use super::projection::Material;
use super::trust::Trust;
use crate::ledger::entry::Kind;

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
    let predicate = files::check(files, trust, &mut report);
    let lines = match log::lines(files) {
        Ok(lines) => lines,
        Err(damage) => {
            report.invalid(damage);
            return finish(report);
        }
    };
    let unknown = lines.iter().find_map(|line| line.unknown.as_deref());
    match unknown {
        None => report.valid("L3", format!("{} entries", lines.len())),
        Some(kind) => {
            report.unverifiable("L3", format!("the meaning of `{kind}` is not known here"));
        }
    }
    let checkpoint = log::check(files, &lines, trust, &mut report);
    report.log = checkpoint.as_ref().map(|checkpoint| checkpoint.origin.clone());
    let run = content::run(&lines, trust, &mut report);
    report.run = run.map(|run| run.to_string());
    let payloads = content::payloads(files, &mut report);
    if let (Some(run), Some(payloads), Some(checkpoint)) = (&run, &payloads, &checkpoint) {
        let material = Material { run, origin: &checkpoint.origin, lines: &lines, payloads };
        content::carried(files, &material, trust, &mut report);
        report.unenforced = material.unenforced_count();
        report.put("P6", observed::check(files, &material));
        let predicate = predicate.unwrap_or(crate::domain::json::Json::Null);
        content::derived(files, &material, checkpoint, &predicate, &mut report);
        unproven(&material, trust, &mut report);
    } else {
        let made = payloads.is_some();
        for id in ["P1", "P3", "P6", "A1", "B4", "V1"].into_iter().filter(|id| made || *id != "P1")
        {
            report.unverifiable(id, "not looked into, because of what failed before");
        }
    }
    finish(report)
}

fn unproven(material: &Material<'_>, trust: &Trust, report: &mut Report) {
    let mut say = |text: &str| report.not_proven.push(text.to_owned());
    if trust.policies.is_empty() {
        say("that the policy is one you approved: the trust file names none");
    }
    if trust.manifest.is_empty() {
        say("that the manifest is signed by somebody you trust: the trust file names nobody");
    }
    let opened = material.of_run().find(|line| line.is(Kind::RunOpened));
    if opened.and_then(|line| line.text("binding")) == Some("claimed") {
        say("model and instructions: they are the agent's own claim");
    }
    let count = |wanted: fn(&Payload) -> bool| {
        material.payloads.0.values().filter(|payload| wanted(payload)).count()
    };
    let states: [(&str, fn(&Payload) -> bool); 5] = [
        ("they are withheld", |p| matches!(p, Payload::Withheld(Why::Unsaid))),
        ("nothing of the run was stored", |p| matches!(p, Payload::Withheld(Why::Incognito))),
        ("they are encrypted, and the exporter had no key", |p| {
            matches!(p, Payload::Withheld(Why::Encrypted))
        }),
        ("they were erased", |p| matches!(p, Payload::Erased { .. })),
        ("members are hidden", |p| matches!(p, Payload::Redacted { .. })),
    ];
    for (why, wanted) in states {
        let found = count(wanted);
        if found > 0 {
            say(&format!("the content of {found} payloads: {why}"));
        }
    }
    if trust.now.is_none() {
        say("that no entry is dated in the future: no time was given to compare with");
    }
}

fn finish(mut report: Report) -> Report {
    report.not_proven.extend(NOT_PROVEN.iter().map(|item| (*item).to_owned()));
    report
}
