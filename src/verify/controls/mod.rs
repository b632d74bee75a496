//! `controls.json`: what in this bundle supports which requirement of which framework.
//!
//! A pure function of the other files, so that a verifier makes it again. A row exists only if the
//! bundle holds its material, and names the files and the checks behind it. It says *supports*: the
//! mapping certifies nothing, and no row claims that a requirement is met.

mod catalogue;

use std::collections::BTreeSet;

use serde::Serialize;

use super::bundle::{Files, POPULATION, RANGE};
use super::scope::Scope;
use super::survey::{Noted, Survey};
use crate::domain::canonical;
use crate::domain::json::Json;
use crate::entries::EntryLine;
use crate::record::run::RunOpened;

/// What the mapping means.
pub const MEANING: &str = "Each row names material in this bundle that supports a requirement, and the \
check that backs the material. Whether a requirement is met is for the reader to judge: it depends on \
people, processes and systems that no bundle shows.";

/// One requirement and its material in the bundle.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// `SOC 2`, `EU AI Act`…
    pub framework: &'static str,
    /// `CC6.1`, `Art. 12(1)`…
    pub requirement: &'static str,
    /// What the requirement is about, in our own phrasing.
    pub about: &'static str,
    /// What the material shows.
    pub supports: &'static str,
    /// The files that hold it; all of them are in the bundle.
    pub files: Vec<String>,
    /// The checks that back it (ids of `wicketgate evidence verify`).
    pub checks: Vec<&'static str>,
    /// How many entries, payloads or calls it is.
    pub count: usize,
}

#[derive(Serialize)]
struct Mapping {
    v: &'static str,
    meaning: &'static str,
    rows: Vec<Row>,
}

/// One line of the whole mapping, whatever a bundle holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MappedControl {
    /// As in [`Row`].
    pub framework: &'static str,
    /// As in [`Row`].
    pub requirement: &'static str,
    /// As in [`Row`].
    pub about: &'static str,
    /// As in [`Row`].
    pub supports: &'static str,
    /// What a bundle has to hold for the row.
    pub material: &'static str,
    /// The checks that back it in the bundle of a run.
    pub checks: Vec<&'static str>,
}

/// The whole mapping, framework by framework.
#[must_use]
pub fn all() -> Vec<MappedControl> {
    let mapped = |control: &catalogue::ControlRow| MappedControl {
        framework: control.framework,
        requirement: control.requirement,
        about: control.about,
        supports: control.supports,
        material: control.need.material(),
        checks: checks(Scope::Run, control.need),
    };
    catalogue::ALL.iter().map(mapped).collect()
}

/// What no bundle shows about a framework, in our own phrasing.
#[must_use]
pub const fn not_shown() -> &'static [(&'static str, &'static str)] {
    &catalogue::NOT_SHOWN
}

/// The material of a row.
struct RowMaterial {
    files: Vec<String>,
    count: usize,
}

/// The kinds of material that the catalogue asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Need {
    /// Entries of any kind.
    Entries,
    /// Decisions about calls, with the policy's bytes.
    DecidedByPolicy,
    /// Calls that were refused.
    Refused,
    /// Calls that waited for an approver.
    Held,
    /// Calls that failed, ended unknown, or were refused by a limit.
    Trouble,
    /// Obligations to redact results.
    Redaction,
    /// The signed manifest.
    Manifest,
    /// Runs that record their caller and its authentication.
    Callers,
    /// Activated policies, bound manifests, changed tools.
    Changes,
    /// Calls with their inputs and outputs.
    Calls,
    /// Definitions of tools, pinned by digest.
    Definitions,
    /// Runs that name their parent run.
    Parents,
    /// Sealed runs with their counts, or a complete span.
    Complete,
    /// The beginning of a log and its head.
    Kept,
    /// Heartbeats between the entries.
    Heartbeats,
    /// Erasures and holds.
    Retention,
    /// Heads that others have seen.
    Witnessed,
}

impl Need {
    /// The material, in words.
    const fn material(self) -> &'static str {
        match self {
            Self::Entries => "entries of any kind",
            Self::DecidedByPolicy => "decisions, with the bytes of their policy",
            Self::Refused => "`call.denied`",
            Self::Held => "`call.held`",
            Self::Trouble => "`call.failed`, `call.unknown`, and denials by a limit",
            Self::Redaction => "decisions with the obligation `redact`",
            Self::Manifest => "the manifest and its signature",
            Self::Callers => "`run.opened`",
            Self::Changes => "`policy.activated`, `manifest.bound`, `config.changed`",
            Self::Calls => "calls with inputs and outputs",
            Self::Definitions => "decisions that name the digest of a tool's definition",
            Self::Parents => "`run.opened` with a parent run",
            Self::Complete => "`run.sealed`, or a complete range",
            Self::Kept => "`chain.genesis` and a checkpoint",
            Self::Heartbeats => "`heartbeat`",
            Self::Retention => "`payload.erased`, `hold.placed`, `hold.lifted`, `retention.pruned`",
            Self::Witnessed => "heads that witnesses or time stamping authorities signed",
        }
    }
}

/// The rows of a bundle.
pub fn rows(survey: &Survey<'_>) -> Vec<Row> {
    let row = |control: &catalogue::ControlRow| {
        let material = material(survey, control.need);
        let mut files: BTreeSet<String> = material.files.into_iter().collect();
        files.retain(|file| survey.has(file));
        (material.count > 0 && !files.is_empty()).then(|| Row {
            framework: control.framework,
            requirement: control.requirement,
            about: control.about,
            supports: control.supports,
            files: files.into_iter().collect(),
            checks: checks(survey.scope, control.need),
            count: material.count,
        })
    };
    catalogue::ALL.iter().filter_map(row).collect()
}

/// `controls.json`.
pub fn controls(files: &Files) -> Vec<u8> {
    canonical::bytes(&Json::of(&Mapping {
        v: "wicketgate/controls/1",
        meaning: MEANING,
        rows: rows(&Survey::of(files)),
    }))
}

fn checks(scope: Scope, need: Need) -> Vec<&'static str> {
    let complete: &[&str] = match scope {
        Scope::Run => &["S3", "S4"],
        Scope::Range => &["R1"],
        Scope::Population => &["R1", "R2"],
    };
    let own: &[&str] = match need {
        Need::Entries | Need::Heartbeats => &["H1", "E1", "E2", "S2"],
        Need::DecidedByPolicy => &["P2", "P3", "S5"],
        Need::Refused | Need::Held | Need::Trouble | Need::Redaction => &["E2", "S5"],
        Need::Manifest => &["A1"],
        Need::Callers | Need::Parents => &["E2", "S3"],
        Need::Changes => &["A1", "E2", "P3"],
        Need::Calls => &["P1", "S5", "V1"],
        Need::Definitions => &["E2"],
        Need::Complete => complete,
        Need::Kept => &["H1", "E2", "S1"],
        Need::Retention => &["F1"],
        Need::Witnessed => &["F1", "W1"],
    };
    own.to_vec()
}

fn material(survey: &Survey<'_>, need: Need) -> RowMaterial {
    use super::bundle::{AGENT, AGENT_SIG, CHECKPOINT, DECISION, FLEET_CHECKPOINT, TOOL_TRACE};
    match need {
        Need::Entries => entries(survey.entries()),
        Need::DecidedByPolicy => {
            let count = survey.decisions().filter(|line| line.entry.draft.policy.is_some()).count();
            let policies: Vec<String> =
                survey.named("policy/").map(|(name, _)| name.to_owned()).collect();
            let count = if policies.is_empty() { 0 } else { count };
            with(count, &[DECISION], policies)
        }
        Need::Refused => also(entries(survey.of_kinds(&["call.denied"])), DECISION),
        Need::Held => also(entries(survey.of_kinds(&["call.held"])), DECISION),
        Need::Trouble => trouble(survey),
        Need::Redaction => {
            let redacts = |line: &&EntryLine| {
                let decision = line.decision();
                decision.is_some_and(|decision| {
                    decision.obligations.iter().any(|o| &*o.r#type == "redact")
                })
            };
            with(survey.decisions().filter(redacts).count(), &[DECISION], Vec::new())
        }
        Need::Manifest => {
            let count = usize::from(survey.has(AGENT) && survey.has(AGENT_SIG));
            with(count, &[AGENT, AGENT_SIG], Vec::new())
        }
        Need::Callers => entries(survey.of_kinds(&["run.opened"])),
        Need::Changes => {
            let kinds = ["policy.activated", "manifest.bound", "config.changed"];
            let policies = survey.named("policy/").map(|(name, _)| name.to_owned()).collect();
            let found = entries(survey.of_kinds(&kinds));
            let mut all = with(found.count, &[], policies);
            all.files.extend(found.files);
            all
        }
        Need::Calls => with(survey.calls_count(), &[TOOL_TRACE], Vec::new()),
        Need::Definitions => {
            let pinned = |line: &&EntryLine| {
                line.decision().is_some_and(|decision| decision.definition.is_some())
            };
            with(survey.decisions().filter(pinned).count(), &[DECISION], Vec::new())
        }
        Need::Parents => {
            let named = |noted: &Noted<'_>| {
                noted.entry.draft.get::<RunOpened>().is_some_and(|run| run.parent.is_some())
            };
            entries(survey.of_kinds(&["run.opened"]).filter(named))
        }
        Need::Complete => match survey.scope {
            Scope::Run => entries(survey.of_kinds(&["run.sealed"])),
            Scope::Range => with(survey.entries().count(), &[RANGE], Vec::new()),
            Scope::Population => with(survey.entries().count(), &[POPULATION], Vec::new()),
        },
        Need::Kept => also(entries(survey.of_kinds(&["chain.genesis"])), CHECKPOINT),
        Need::Heartbeats => entries(survey.of_kinds(&["heartbeat"])),
        Need::Retention => {
            let kinds = ["payload.erased", "hold.placed", "hold.lifted", "retention.pruned"];
            entries(survey.fleet_of(&kinds))
        }
        Need::Witnessed => {
            let tokens = survey.tokens();
            let count = survey.witnesses().len().saturating_add(tokens.len());
            let notes = survey.cosigned().map(|(head, _)| head.file.clone());
            let files = notes.chain(tokens.iter().map(|name| (*name).to_owned())).collect();
            with(count, &[FLEET_CHECKPOINT], files)
        }
    }
}

fn with(count: usize, named: &[&str], mut files: Vec<String>) -> RowMaterial {
    files.extend(named.iter().map(|name| (*name).to_owned()));
    RowMaterial { files, count }
}

fn also(mut material: RowMaterial, file: &str) -> RowMaterial {
    material.files.push(file.to_owned());
    material
}

fn entries<'a>(found: impl Iterator<Item = Noted<'a>>) -> RowMaterial {
    let (mut files, mut count) = (BTreeSet::new(), 0_usize);
    for noted in found {
        count = count.saturating_add(1);
        files.insert(noted.file());
    }
    RowMaterial { files: files.into_iter().collect(), count }
}

/// Failures, and calls that a limit stopped.
fn trouble(survey: &Survey<'_>) -> RowMaterial {
    let limit = |noted: &Noted<'_>| {
        let decision = noted.entry.draft.body.decision();
        let reasons = decision.map_or(&[][..], |decision| decision.reasons);
        reasons.iter().any(|reason| reason.code.starts_with("limit."))
    };
    let stopped = survey.of_kinds(&["call.denied"]).filter(limit);
    entries(survey.of_kinds(&["call.failed", "call.unknown"]).chain(stopped))
}
