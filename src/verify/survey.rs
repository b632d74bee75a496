//! Reads a bundle's files for people: the report and the control mapping are made from this.
//!
//! Total on purpose: a missing or malformed file is skipped. Whether to believe the files is
//! decided by `verify`, which reads all of them itself.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::bundle::{
    AGENT_RUN, CHECKPOINT, CONSISTENCY, DECISION, ENTRIES, FLEET_CHECKPOINT, FLEET_ENTRIES, Files,
    PAYLOADS, POPULATION, TOOL_TRACE,
};
use super::scope::Scope;
use super::views::{CallView, CallsView, DecisionView, DecisionsView, PopulationView, RunView};
use crate::contents::PathsForm;
use crate::crypto::note::{Checkpoint, SignatureLine};
use crate::domain::json::{Json, Limits};
use crate::record::{Entry, Role};

/// One run as the three files describe it.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// Its part of `agent_run.json`.
    pub run: RunView,
    /// Its decisions.
    pub decisions: Vec<DecisionView>,
    /// Its calls.
    pub calls: Vec<CallView>,
}

/// An entry, and the file it is in.
#[derive(Clone, Debug)]
pub struct Noted {
    /// `ledger/entries.jsonl`, `fleet/entries.jsonl`, `chains/0/entries.jsonl`…
    pub file: String,
    /// The entry.
    pub entry: Entry,
}

/// A signed head, and the file it is in.
#[derive(Clone, Debug)]
pub struct Signed {
    /// `ledger/checkpoint.txt`…
    pub file: String,
    /// The signed head.
    pub checkpoint: Checkpoint,
    /// The signatures, unverified.
    pub lines: Vec<SignatureLine>,
}

/// The content of all files.
#[derive(Clone, Debug)]
pub struct Survey<'a> {
    files: &'a Files,
    /// What the bundle is about.
    pub scope: Scope,
    /// Its runs.
    pub runs: Vec<RunSummary>,
    /// Entries of the logs of sidecars.
    pub entries: Vec<Noted>,
    /// Entries of the fleet log.
    pub fleet: Vec<Noted>,
    /// Heads of the logs of sidecars.
    pub heads: Vec<Signed>,
    /// The head of the fleet log.
    pub fleet_head: Option<Signed>,
    /// Other heads of it that an external party has seen.
    pub anchored: Vec<Signed>,
    /// `population.json`; empty without one.
    pub population: PopulationView,
    /// How much of each committed payload is disclosed.
    payloads: BTreeMap<String, Disclosure>,
    /// Commitments to inputs of the policy by the entry that makes them.
    inputs: BTreeMap<u64, String>,
}

impl Noted {
    /// The kind of the entry.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.entry.draft.kind().as_str()
    }

    /// The content of the entry, as stored.
    #[must_use]
    pub fn data(&self) -> Json {
        Json::of(&self.entry.draft.body)
    }
}

impl<'a> Survey<'a> {
    /// Reads the files except `report.html` and `controls.json`, which are made from the result.
    #[must_use]
    pub fn of(files: &'a Files) -> Self {
        let (mut entries, mut heads, mut anchored) = (Vec::new(), Vec::new(), Vec::new());
        for (name, bytes) in &files.0 {
            if name == ENTRIES || is_of_chain(name, "/entries.jsonl") {
                entries.extend(noted(name, bytes));
            } else if name == CHECKPOINT || is_of_chain(name, "/checkpoint.txt") {
                heads.extend(signed(name, bytes));
            } else if name.starts_with("anchors/") && name.ends_with(".txt") {
                anchored.extend(signed(name, bytes));
            }
        }
        let population = json(files, POPULATION).read().unwrap_or_default();
        let fleet = files.get(FLEET_ENTRIES).map(|bytes| noted(FLEET_ENTRIES, bytes));
        let fleet_head = files.get(FLEET_CHECKPOINT).and_then(|b| signed(FLEET_CHECKPOINT, b));
        let payloads = json(files, PAYLOADS).read().unwrap_or_default();
        let inputs = entries.iter().filter(|noted: &&Noted| noted.file == ENTRIES);
        let inputs = inputs.filter_map(|noted| input(&noted.entry)).collect();
        Self {
            files,
            inputs,
            scope: Scope::of(files),
            runs: stories(files),
            entries,
            fleet: fleet.unwrap_or_default(),
            heads,
            fleet_head,
            anchored,
            population,
            payloads,
        }
    }

    /// Heads of the fleet log, each with every signature line that is not the log's own.
    pub fn cosigned(&self) -> impl Iterator<Item = (&Signed, &SignatureLine)> {
        let heads = self.fleet_head.iter().chain(&self.anchored);
        heads.flat_map(|head| {
            let others = head.lines.iter().filter(|line| line.name != head.checkpoint.origin);
            others.map(move |line| (head, line))
        })
    }

    /// The names on those lines, each once.
    #[must_use]
    pub fn witnesses(&self) -> Vec<&str> {
        let names = self.cosigned().map(|(_, line)| line.name.as_str());
        names.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }

    /// Whether another party signed the newest head of the fleet log in the bundle, and not only an
    /// older one.
    #[must_use]
    pub fn newest_is_seen(&self) -> bool {
        let Some(newest) = &self.fleet_head else { return false };
        let stamped = |head: &&Signed| {
            let stem = head.file.strip_suffix(".txt");
            stem.is_some_and(|stem| self.has(&format!("{stem}.tsr")))
        };
        let stamped = self.anchored.iter().filter(stamped);
        let seen = self.cosigned().map(|(head, _)| head).chain(stamped);
        seen.into_iter().any(|head| head.checkpoint.size >= newest.checkpoint.size)
    }

    /// Time stamp tokens, by name.
    #[must_use]
    pub fn tokens(&self) -> Vec<&str> {
        let names = self.named("anchors/").map(|(name, _)| name);
        names.filter(|name| name.ends_with(".tsr")).collect()
    }

    /// Whether the bundle has this file.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.files.get(name).is_some()
    }

    /// Names and sizes of all files with this prefix.
    pub fn named<'b>(&'b self, prefix: &'b str) -> impl Iterator<Item = (&'b str, usize)> {
        let files = self.files.0.iter().filter(move |(name, _)| name.starts_with(prefix));
        files.map(|(name, bytes)| (name.as_str(), bytes.len()))
    }

    /// The bytes of a file.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<&'a [u8]> {
        self.files.get(name)
    }

    /// Entries of these kinds in the logs of sidecars.
    pub fn of_kinds<'b>(&'b self, kinds: &'b [&str]) -> impl Iterator<Item = &'b Noted> {
        self.entries.iter().filter(|noted| kinds.contains(&noted.kind()))
    }

    /// Entries of these kinds in the fleet log.
    pub fn fleet_of<'b>(&'b self, kinds: &'b [&str]) -> impl Iterator<Item = &'b Noted> {
        self.fleet.iter().filter(|noted| kinds.contains(&noted.kind()))
    }

    /// All decisions of all runs.
    pub fn decisions(&self) -> impl Iterator<Item = &DecisionView> {
        self.runs.iter().flat_map(|story| &story.decisions)
    }

    /// How many payloads are in this state: `opened`, `redacted`, `erased`, `withheld`.
    #[must_use]
    pub fn payloads_in(&self, state: &str) -> usize {
        self.payloads.values().filter(|told| told.state() == state).count()
    }

    /// Sizes of older heads this bundle proves to be beginnings of its log.
    #[must_use]
    pub fn older_heads(&self) -> Vec<u64> {
        let proofs: Option<PathsForm> = json(self.files, CONSISTENCY).read().ok();
        let proofs = proofs.map(|file| file.proofs).unwrap_or_default();
        proofs.iter().filter_map(|proof| proof.old).collect()
    }

    /// The recorded input of the policy for the decision of this entry: its commitment and whether it
    /// is opened.
    #[must_use]
    pub fn policy_input(&self, seq: u64) -> Option<(&str, bool)> {
        let commitment = self.inputs.get(&seq)?.as_str();
        let opened = self.payloads.get(commitment).map(Disclosure::state) == Some("opened");
        Some((commitment, opened))
    }

    /// An opened payload.
    #[must_use]
    pub fn payload(&self, commitment: &str) -> Option<&'a [u8]> {
        self.files.get(&format!("payloads/{commitment}.bin"))
    }
}

/// How much of a payload is disclosed.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Disclosure {
    erased: bool,
    withheld: bool,
    redacted: bool,
}

impl Disclosure {
    /// `opened`, `redacted`, `erased` or `withheld`.
    const fn state(&self) -> &'static str {
        match (self.erased, self.withheld, self.redacted) {
            (true, _, _) => "erased",
            (false, true, _) => "withheld",
            (false, false, true) => "redacted",
            (false, false, false) => "opened",
        }
    }
}

fn input(entry: &Entry) -> Option<(u64, String)> {
    let input = entry.draft.committed(Role::PolicyInput)?;
    Some((entry.seq, input.c.hex()))
}

fn is_of_chain(name: &str, end: &str) -> bool {
    name.starts_with("chains/") && name.ends_with(end)
}

fn json(files: &Files, name: &str) -> Json {
    let read = files.get(name).and_then(|bytes| Json::parse(bytes, &Limits::FILE).ok());
    read.unwrap_or(Json::Null)
}

fn noted(file: &str, bytes: &[u8]) -> Vec<Noted> {
    let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    let read = lines.filter_map(|line| Entry::parse(line).ok());
    read.map(|entry| Noted { file: file.to_owned(), entry }).collect()
}

fn signed(file: &str, bytes: &[u8]) -> Option<Signed> {
    let (checkpoint, lines) = Checkpoint::parse(std::str::from_utf8(bytes).ok()?).ok()?;
    Some(Signed { file: file.to_owned(), checkpoint, lines })
}

/// One run, or the runs of a range: the same objects, in a list.
fn stories(files: &Files) -> Vec<RunSummary> {
    let decisions = parts(files, DECISION).into_iter();
    let decisions = decisions.map(|part: DecisionsView| (part.run, part.decisions));
    let calls = parts(files, TOOL_TRACE).into_iter();
    let calls = calls.map(|part: CallsView| (part.run, part.calls));
    let mut decisions: BTreeMap<String, Vec<DecisionView>> = decisions.collect();
    let mut calls: BTreeMap<String, Vec<CallView>> = calls.collect();
    let story = |run: RunView| {
        let decisions = decisions.remove(&run.run).unwrap_or_default();
        RunSummary { decisions, calls: calls.remove(&run.run).unwrap_or_default(), run }
    };
    parts(files, AGENT_RUN).into_iter().map(story).collect()
}

/// The one part of a file, or all of them.
fn parts<T: DeserializeOwned>(files: &Files, name: &str) -> Vec<T> {
    #[derive(Deserialize)]
    struct Several {
        runs: Vec<Json>,
    }
    let file = json(files, name);
    match file.read() {
        Ok(Several { runs }) => runs.iter().filter_map(|run| run.read().ok()).collect(),
        Err(_) => file.read().into_iter().collect(),
    }
}
