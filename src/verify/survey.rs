//! Reads a bundle's files for people: the report and the control mapping are made from this.
//!
//! Total on purpose: a missing or malformed file is skipped. Whether to believe the files is
//! decided by `verify`, which reads all of them itself.

use super::bundle::RANGE_PROOF;
use super::bundle::{CHECKPOINT, CONSISTENCY, FLEET_CHECKPOINT, Files, LINES, NOTE, POPULATION};
use super::check::{log, range};
use super::payloads::{Payload, Payloads};
use super::population::Population;
use super::projection::{BundleMaterial, decides};
use super::scope::{ChainSlice, Scope};
use crate::contents::PathsForm;
use crate::crypto::note::{Checkpoint, SignatureLine};
use crate::domain::json::{Json, Limits};
use crate::entries::EntryLine;
use crate::record::{Entry, Role};

/// An entry of a kind that is known here, and the folder it is in.
#[derive(Clone, Copy, Debug)]
pub struct Noted<'a> {
    /// `ledger`, `fleet`, `chains/0`…
    pub folder: &'a str,
    /// The entry.
    pub entry: &'a Entry,
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
#[derive(Debug)]
pub struct Survey<'a> {
    files: &'a Files,
    /// What the bundle is about.
    pub scope: Scope,
    /// The logs of sidecars.
    slices: Vec<ChainSlice>,
    /// The fleet log.
    fleet: Option<ChainSlice>,
    /// What opens the commitments.
    payloads: Payloads,
    /// Heads of the logs of sidecars.
    pub heads: Vec<Signed>,
    /// The head of the fleet log.
    pub fleet_head: Option<Signed>,
    /// Other heads of it that an external party has seen.
    pub anchored: Vec<Signed>,
    /// `population.json`; empty without one.
    pub population: Population,
}

impl<'a> Noted<'a> {
    /// `ledger/entries.jsonl`, `fleet/entries.jsonl`, `chains/0/entries.jsonl`…
    pub fn file(&self) -> String {
        format!("{}/{LINES}", self.folder)
    }

    /// The kind of the entry.
    pub fn kind(&self) -> &'static str {
        self.entry.draft.kind().as_str()
    }

    /// The content of the entry, as stored.
    pub fn data(&self) -> Json {
        Json::of(&self.entry.draft.body)
    }

    fn all(slice: &'a ChainSlice) -> impl Iterator<Item = Self> {
        let known = slice.lines.iter().filter(|line| line.unknown.is_none());
        known.map(|line| Self { folder: &slice.folder, entry: &line.entry })
    }
}

impl<'a> Survey<'a> {
    /// Reads the files except `report.html` and `controls.json`, which are made from the result, and
    /// the three files that say the same as the entries.
    pub fn of(files: &'a Files) -> Self {
        let (mut heads, mut anchored) = (Vec::new(), Vec::new());
        for (name, bytes) in &files.0 {
            if name == CHECKPOINT || name.starts_with("chains/") && name.ends_with(NOTE) {
                heads.extend(signed(name, bytes));
            } else if name.starts_with("anchors/") && name.ends_with(".txt") {
                anchored.extend(signed(name, bytes));
            }
        }
        let scope = Scope::of(files);
        let mut slices = log::read(files, scope).unwrap_or_default();
        for slice in &mut slices {
            let range = range::read(files, &format!("{}/{RANGE_PROOF}", slice.folder));
            slice.span = range.and_then(Result::ok).map(|proof| proof.span);
            let note = format!("{}/{NOTE}", slice.folder);
            let head = heads.iter().find(|head: &&Signed| head.file == note);
            slice.checkpoint = head.map(|head| head.checkpoint.clone());
        }
        Self {
            files,
            scope,
            slices,
            fleet: log::fleet(files).and_then(Result::ok),
            payloads: Payloads::read(files).unwrap_or_default(),
            heads,
            fleet_head: files.get(FLEET_CHECKPOINT).and_then(|b| signed(FLEET_CHECKPOINT, b)),
            anchored,
            population: json(files, POPULATION).read().unwrap_or_default(),
        }
    }

    /// The runs.
    pub fn runs(&self) -> Vec<BundleMaterial<'_>> {
        self.slices.iter().flat_map(|slice| slice.materials(&self.payloads)).collect()
    }

    /// How many calls all runs have.
    pub fn calls_count(&self) -> usize {
        self.runs().iter().map(BundleMaterial::calls_count).sum()
    }

    /// Entries of the logs of sidecars, file by file.
    pub fn entries(&self) -> impl Iterator<Item = Noted<'_>> {
        let mut slices: Vec<&ChainSlice> = self.slices.iter().collect();
        slices.sort_by_key(|slice| &slice.folder);
        slices.into_iter().flat_map(Noted::all)
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

    /// Entries of these kinds in the logs of sidecars.
    pub fn of_kinds<'b>(&'b self, kinds: &'b [&str]) -> impl Iterator<Item = Noted<'b>> {
        self.entries().filter(|noted| kinds.contains(&noted.kind()))
    }

    /// Entries of these kinds in the fleet log.
    pub fn fleet_of<'b>(&'b self, kinds: &'b [&str]) -> impl Iterator<Item = Noted<'b>> {
        let all = self.fleet.iter().flat_map(Noted::all);
        all.filter(|noted| kinds.contains(&noted.kind()))
    }

    /// Whether entries of the fleet log are here.
    #[must_use]
    pub const fn has_fleet(&self) -> bool {
        self.fleet.is_some()
    }

    /// All decisions of all runs.
    pub fn decisions(&self) -> impl Iterator<Item = &EntryLine> {
        let own = self.slices.iter().flat_map(ChainSlice::runs).flat_map(|(_, own)| own);
        own.filter(|line| decides(line))
    }

    /// How many payloads are in this state: `opened`, `redacted`, `erased`, `withheld`.
    pub fn payloads_in(&self, state: &str) -> usize {
        self.payloads.0.values().filter(|payload| payload.state() == state).count()
    }

    /// Sizes of older heads this bundle proves to be beginnings of its log.
    pub fn older_heads(&self) -> Vec<u64> {
        let proofs: Option<PathsForm> = json(self.files, CONSISTENCY).read().ok();
        let proofs = proofs.map(|file| file.proofs).unwrap_or_default();
        proofs.iter().filter_map(|proof| proof.old).collect()
    }

    /// The recorded input of the policy for this decision: its commitment and whether it is opened.
    #[must_use]
    pub fn policy_input(&self, line: &EntryLine) -> Option<(String, bool)> {
        let input = line.entry.draft.committed(Role::PolicyInput)?;
        let opened = matches!(self.payloads.0.get(&input.c), Some(Payload::Opened { .. }));
        (self.scope != Scope::Population).then(|| (input.c.hex(), opened))
    }
}

fn json(files: &Files, name: &str) -> Json {
    let read = files.get(name).and_then(|bytes| Json::parse(bytes, &Limits::FILE).ok());
    read.unwrap_or(Json::Null)
}

fn signed(file: &str, bytes: &[u8]) -> Option<Signed> {
    let (checkpoint, lines) = Checkpoint::parse(std::str::from_utf8(bytes).ok()?).ok()?;
    Some(Signed { file: file.to_owned(), checkpoint, lines })
}
