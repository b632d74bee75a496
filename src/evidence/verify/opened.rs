//! P1: every payload is what the entries commit to, or is said not to be here.

use std::collections::BTreeSet;

use super::case::Case;
use super::report::{Outcome, Report};
use crate::domain::digest::commitment;
use crate::evidence::bundle::Files;
use crate::evidence::payloads::{Payload, Payloads};
use crate::ledger::verify::Line;

/// P1 before it is looked into: whether the payloads can be read at all.
pub fn read(files: &Files, report: &mut Report) -> Option<Payloads> {
    Payloads::read(files).map_err(|damage| report.invalid(damage)).ok()
}

/// P1.
pub fn check(case: &Case<'_>, report: &mut Report) {
    let Some(payloads) = &case.payloads else { return };
    report.put("P1", opened(case, payloads).unwrap_or_else(Outcome::Invalid));
}

/// The lines whose commitments the bundle speaks of: those of the runs that were asked for.
fn committing<'a>(case: &'a Case<'_>) -> impl Iterator<Item = &'a Line> {
    let asked = case.strands.iter().flat_map(|strand| strand.asked());
    asked.filter(|line| line.entry.run.is_some())
}

fn opened(case: &Case<'_>, payloads: &Payloads) -> Result<Outcome, String> {
    let mut committed = BTreeSet::new();
    let mut erased = false;
    for line in committing(case) {
        for said in &line.entry.draft.commit {
            committed.insert(said.c);
            let name = said.c.hex();
            match payloads.0.get(&said.c) {
                None => return Err(format!("nothing is said about payload {name}")),
                Some(Payload::Withheld) => {}
                Some(Payload::Erased) => erased = true,
                Some(Payload::Opened { salt, role, body, .. }) => {
                    let len = u64::try_from(body.len()).unwrap_or(u64::MAX);
                    if commitment(salt, body) != said.c || len != said.len || *role != said.role {
                        return Err(format!(
                            "payload {name} is not what seq {} commits to",
                            line.entry.seq
                        ));
                    }
                }
            }
        }
    }
    if let Some(stray) = payloads.0.keys().find(|c| !committed.contains(*c)) {
        return Err(format!("stray payload {}", stray.hex()));
    }
    if erased {
        return Err("a payload is called erased and no entry says so".into());
    }
    let open = payloads.0.values().filter(|p| matches!(p, Payload::Opened { .. })).count();
    Ok(Outcome::Valid(format!("{open} of {} opened", committed.len())))
}
