//! F1: the fleet log of a bundle, and what it records about the bundle's chains.

use std::collections::BTreeMap;

use super::proofs::{paths, span};
use super::{AnchoredChain, Outcome, Recorded, VouchedHead};
use crate::bundle::{FLEET_CHECKPOINT, FLEET_ENTRIES, FLEET_INCLUSION, FLEET_RANGE, Files};
use crate::check::range::beginning;
use crate::crypto::consistency::verifies_consistency;
use crate::crypto::merkle::verifies_inclusion;
use crate::crypto::note::{Checkpoint, Held};
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::plural::many;
use crate::entries::EntryLine;
use crate::record::chain::ChainGenesis;
use crate::record::fleet::{ChainCheckpoint, ChainEnrolled, ChainRetired, KeyRevoked, KeyUse};
use crate::record::{Base64, Kind};
use crate::trust::{Trust, Use};

/// The file of the newest fleet head.
pub(super) const NOTE: &str = FLEET_CHECKPOINT;
const FOLDER: &str = "fleet";
/// The most entries that a line of the report names.
const TOLD_MAX: usize = 8;
const CONSISTENCY: &str = "wicketgate/consistency/1";

/// The fleet log of a bundle, as far as the bundle has it; already checked.
pub(super) struct Fleet {
    /// Its entries, ascending.
    lines: Vec<EntryLine>,
    /// First the head that covers the entries, then older and newer ones of the same log.
    pub(super) heads: Vec<VouchedHead>,
    /// `anchors/<n>.txt` without a proof of consistency with the head, and why.
    pub(super) untied: Vec<(String, String)>,
}

fn invalid(why: impl Into<String>) -> Outcome {
    Outcome::Invalid(why.into())
}

impl Fleet {
    /// Reads the fleet log: signed by a trusted fleet key, every entry in it.
    pub(super) fn read(files: &Files, trust: &Trust) -> Result<Self, Outcome> {
        if files.get(NOTE).is_none() {
            return Err(Outcome::Unverifiable("the bundle has no fleet log".into()));
        }
        let (checkpoint, note) = open(files, NOTE, trust)?;
        let lines = entries(files, &checkpoint)?;
        revoked_within(&lines, &checkpoint, &note, trust)?;
        pinned(files, (&lines, &checkpoint), trust)?;
        let mut fleet = Self {
            lines,
            heads: vec![VouchedHead { file: NOTE.into(), checkpoint, note }],
            untied: Vec::new(),
        };
        for name in files.0.keys() {
            let stem = name.strip_prefix("anchors/").and_then(|rest| rest.strip_suffix(".txt"));
            if let Some(stem) = stem {
                fleet.anchor(files, trust, name, stem)?;
            }
        }
        Ok(fleet)
    }

    /// Another head of the same log: one of the two must be a beginning of the other.
    fn anchor(
        &mut self,
        files: &Files,
        trust: &Trust,
        name: &str,
        stem: &str,
    ) -> Result<(), Outcome> {
        let (checkpoint, note) = open(files, name, trust)?;
        let Some(newest) = self.heads.first().map(|head| &head.checkpoint) else { return Ok(()) };
        if checkpoint.origin != newest.origin {
            return Err(invalid(format!("`{name}` is a head of `{}`", checkpoint.origin)));
        }
        let proofs = paths(files, &format!("anchors/{stem}.consistency.json"), CONSISTENCY, "old");
        match extends(&checkpoint, newest, &proofs.map_err(Outcome::invalid)?) {
            Some(true) => {}
            Some(false) => {
                let why = format!("two heads of the fleet log contradict each other: `{name}`");
                return Err(invalid(why));
            }
            None => {
                self.untied.push((name.to_owned(), "no consistency proof beside it".to_owned()));
                return Ok(());
            }
        }
        self.heads.push(VouchedHead { file: name.to_owned(), checkpoint, note });
        Ok(())
    }

    /// The earliest and latest time at which an external party can have seen a head of this size,
    /// in milliseconds since 1970, with clock skew.
    pub(super) fn bounds(&self, size: Seq, trust: &Trust) -> (i64, i64) {
        let inside = self.lines.iter().filter(|line| line.entry.seq < size);
        let newest = inside.map(|line| line.entry.ts.millis()).max().unwrap_or(i64::MIN);
        let latest = trust.now.map_or(i64::MAX, |now| now.millis());
        (newest.saturating_sub(trust.skew()), latest.saturating_add(trust.skew()))
    }

    /// The heads of a chain in the fleet log, each proven consistent with the bundle's checkpoint
    /// of the chain.
    pub(super) fn recorded(
        &self,
        files: &Files,
        chain: &AnchoredChain<'_>,
    ) -> Result<Recorded, Outcome> {
        let head = chain.checkpoint;
        let log = &head.origin;
        let first = chain.lines.first().ok_or_else(|| invalid("a chain without entries"))?;
        let id = first.entry.chain.to_string();
        self.enrolled(chain, &id)?;
        let name = format!("{}/consistency.json", chain.folder);
        let proofs = paths(files, &name, CONSISTENCY, "old").map_err(Outcome::invalid)?;
        let mut seen: BTreeMap<Seq, Digest> = BTreeMap::new();
        let mut recorded = Recorded::new();
        for line in self.of_chain(Kind::ChainCheckpoint, &id) {
            let Some(seen_at) = line.get::<ChainCheckpoint>() else { continue };
            let sighting = (seen_at.size.get(), seen_at.root.0);
            let seq = line.entry.seq;
            if line.log() != Some(log) {
                return Err(invalid(format!(
                    "fleet seq {seq} has a head of the chain as another log's"
                )));
            }
            let shrinks = seen.last_key_value().is_some_and(|(size, _)| *size > sighting.0);
            if shrinks
                || seen.insert(sighting.0, sighting.1).is_some_and(|before| before != sighting.1)
            {
                return Err(invalid(format!(
                    "fleet seq {seq}: `{log}` was cut or rewritten before"
                )));
            }
            let checkpoint = Checkpoint { origin: log.clone(), size: sighting.0, root: sighting.1 };
            match extends(&checkpoint, head, &proofs) {
                Some(true) => recorded.push((seq, checkpoint.size)),
                Some(false) => {
                    let why =
                        format!("fleet seq {seq} has a head of `{log}` that is not this log's");
                    return Err(invalid(why));
                }
                // Without a proof, this head vouches for nothing.
                None => {}
            }
        }
        Ok(recorded)
    }

    /// Whether the fleet log enrols this very chain, and no other chain under its name.
    fn enrolled(&self, chain: &AnchoredChain<'_>, id: &str) -> Result<(), Outcome> {
        let log = &chain.checkpoint.origin;
        let genesis = chain.lines.first().and_then(|line| line.get::<ChainGenesis>());
        let key = genesis.map(|genesis| genesis.enrolment_key);
        let mut there = false;
        for enrolled in self.lines.iter().filter_map(|line| line.get::<ChainEnrolled>()) {
            let same_id = enrolled.chain.to_string() == id;
            match (same_id, enrolled.log.as_str() == log) {
                (false, false) => {}
                (true, true) if Some(enrolled.enrolment_key) == key => there = true,
                (true, true) => {
                    return Err(invalid(format!("`{log}` is enrolled with another enrolment key")));
                }
                (true, false) | (false, true) => {
                    return Err(invalid(format!(
                        "two chains are enrolled as `{log}`, or one twice"
                    )));
                }
            }
        }
        if there {
            Ok(())
        } else {
            Err(Outcome::Unverifiable(format!("`{log}` is not enrolled in the fleet log")))
        }
    }

    fn of_chain<'a>(&'a self, kind: Kind, id: &'a str) -> impl Iterator<Item = &'a EntryLine> {
        let of_chain = move |line: &&EntryLine| {
            let enrolled = line.get::<ChainEnrolled>().map(|enrolled| enrolled.chain);
            let head = || line.get::<ChainCheckpoint>().map(|head| head.chain);
            let retired = || line.get::<ChainRetired>().map(|retired| retired.chain);
            let chain = enrolled.or_else(head).or_else(retired);
            chain.is_some_and(|chain| chain.to_string() == id)
        };
        self.lines.iter().filter(move |line| line.is(kind)).filter(of_chain)
    }

    /// Whether the first `size` entries of the fleet log enrol every chain of the bundle and have a
    /// head beyond its entries.
    pub(super) fn has(
        &self,
        size: Seq,
        chains: &[AnchoredChain<'_>],
        recorded: &[Recorded],
    ) -> bool {
        chains.iter().zip(recorded).all(|(chain, recorded)| {
            let Some((first, last)) = chain.lines.first().zip(chain.lines.last()) else {
                return false;
            };
            let id = first.entry.chain.to_string();
            let mut enrolled = self.of_chain(Kind::ChainEnrolled, &id);
            let beyond = |(place, head): &(Seq, Seq)| *place < size && *head > last.entry.seq;
            enrolled.any(|line| line.entry.seq < size) && recorded.iter().any(beyond)
        })
    }

    /// The bundle's entries of the fleet log that only its own key vouches for, described for the
    /// report.
    pub(super) fn unseen(&self, seen: Seq) -> Option<String> {
        let beyond = self.lines.iter().filter(|line| line.entry.seq >= seen);
        let lines: Vec<String> =
            beyond.map(|line| format!("{} `{}`", line.entry.seq, line.kind())).collect();
        let newest = self.heads.first().map_or(seen, |head| head.checkpoint.size);
        let which = match lines.len() {
            0 => return None,
            1..=TOLD_MAX => lines.join(", "),
            n => format!("{n} of them are here"),
        };
        Some(format!(
            "that a third party has seen entries {seen} to {} of the fleet log ({which}): the next \
             round of anchoring shows them",
            newest.saturating_sub(1)
        ))
    }

    /// F1 itself: whether the entries of every chain are below a head in the fleet log.
    pub(super) fn covers(&self, chains: &[AnchoredChain<'_>], recorded: &[Recorded]) -> Outcome {
        let Some(newest) = self.heads.first().map(|head| &head.checkpoint) else {
            return Outcome::Unverifiable("no fleet head".into());
        };
        for (chain, recorded) in chains.iter().zip(recorded) {
            let last = chain.lines.last().map(|line| line.entry.seq);
            let covered = recorded.iter().map(|(_, size)| *size).max();
            if last >= covered {
                let why = format!(
                    "no head of `{}` beyond these entries is in the fleet log yet",
                    chain.checkpoint.origin
                );
                return Outcome::Unverifiable(why);
            }
        }
        let retired = self.lines.iter().filter(|line| line.is(Kind::ChainRetired)).count();
        let mut text = format!("{} of `{}`", many(newest.size, "entry"), newest.origin);
        if retired > 0 {
            text.push_str(&format!("; {} retired in it", many(retired, "chain")));
        }
        Outcome::Valid(text)
    }
}

/// Opens a fleet head: a trusted fleet key that may sign up to there signed it under the log's
/// name.
fn open(files: &Files, name: &str, trust: &Trust) -> Result<(Checkpoint, String), Outcome> {
    let text = files.get(name).and_then(|bytes| std::str::from_utf8(bytes).ok());
    let text = text.ok_or_else(|| invalid(format!("`{name}` is not UTF-8 text")))?;
    let (checkpoint, held) = Checkpoint::open_with(text, &trust.fleet)
        .map_err(|error| invalid(format!("`{name}`: {error}")))?;
    let own: Vec<&Held<'_>> =
        held.iter().filter(|held| held.key.name == checkpoint.origin).collect();
    if own.is_empty() {
        return Err(invalid(format!("`{name}` is signed by the key of another log")));
    }
    let size_max = own.iter().any(|held| {
        let log = Some(checkpoint.origin.as_str());
        let size_max = trust.revocation(Use::Fleet, &held.key.key, log);
        size_max.is_none_or(|size_max| checkpoint.size <= size_max)
    });
    if size_max {
        Ok((checkpoint, text.to_owned()))
    } else {
        Err(invalid(format!("`{name}` is signed by a fleet key that was revoked before")))
    }
}

/// A fleet key that the fleet log itself revokes must not have signed a head beyond the revocation.
fn revoked_within(
    lines: &[EntryLine],
    checkpoint: &Checkpoint,
    note: &str,
    trust: &Trust,
) -> Result<(), Outcome> {
    let (_, held) =
        Checkpoint::open_with(note, &trust.fleet).map_err(|e| invalid(e.to_string()))?;
    let revoked = |held: &Held<'_>| {
        let raw = Base64(held.key.key.to_bytes());
        lines.iter().filter_map(|line| line.get::<KeyRevoked>()).any(|revocation| {
            revocation.r#use == KeyUse::Fleet
                && revocation.key == raw
                && revocation.good_size.is_none_or(|size_max| checkpoint.size > size_max.get())
        })
    };
    if held.iter().all(revoked) {
        return Err(invalid("the fleet log itself says that its key was revoked"));
    }
    Ok(())
}

/// Heads of the fleet log that the auditor pinned. Each must be proven to be in it.
fn pinned(
    files: &Files,
    (lines, checkpoint): (&[EntryLine], &Checkpoint),
    trust: &Trust,
) -> Result<(), Outcome> {
    let name = format!("{FOLDER}/consistency.json");
    let proofs = paths(files, &name, CONSISTENCY, "old").map_err(Outcome::invalid)?;
    for head in trust.heads.iter().filter(|head| head.origin == checkpoint.origin) {
        let size = head.size;
        let old = Checkpoint { origin: head.origin.clone(), size, root: head.root };
        if size > checkpoint.size {
            let why =
                format!("the pinned head of the fleet log has {}: it was cut", many(size, "entry"));
            return Err(invalid(why));
        }
        let shown = || beginning(lines, size).map(|root| root == head.root);
        match extends(&old, checkpoint, &proofs).or_else(shown) {
            Some(true) => {}
            Some(false) => {
                return Err(invalid(format!(
                    "the fleet log does not extend the pinned head of {size}"
                )));
            }
            None => {
                let why = format!("no consistency proof from the pinned fleet head of size {size}");
                return Err(Outcome::Unverifiable(why));
            }
        }
    }
    Ok(())
}

/// Whether two heads are of one log; `None` without a proof. `proofs` are by the smaller size of
/// the two.
fn extends(
    one: &Checkpoint,
    other: &Checkpoint,
    proofs: &BTreeMap<Seq, Vec<Digest>>,
) -> Option<bool> {
    let (old, new) = if one.size <= other.size { (one, other) } else { (other, one) };
    if old.size == new.size {
        return Some(old.root == new.root);
    }
    let path = proofs.get(&old.size)?;
    Some(verifies_consistency(old.size, new.size, &old.root, &new.root, path))
}

/// The entries: strict, of one chain with this name, in order, linked, and in the tree.
pub(super) fn entries(files: &Files, checkpoint: &Checkpoint) -> Result<Vec<EntryLine>, Outcome> {
    let text = files.get(FLEET_ENTRIES).ok_or_else(|| invalid(format!("no `{FLEET_ENTRIES}`")))?;
    let body = text.strip_suffix(b"\n").ok_or_else(|| invalid("no final newline"))?;
    let mut lines = Vec::new();
    for (at, bytes) in body.split(|b| *b == b'\n').enumerate() {
        let number = at.saturating_add(1);
        let read = EntryLine::read(bytes);
        lines.push(
            read.map_err(|d| invalid(format!("`{FLEET_ENTRIES}` line {number}: {}", d.why)))?,
        );
    }
    let first = lines.first().ok_or_else(|| invalid("no fleet entries"))?;
    let genesis = first.get::<ChainGenesis>().filter(|_| first.entry.seq == 0);
    if genesis.is_none_or(|genesis| genesis.origin.as_str() != checkpoint.origin) {
        return Err(invalid("the first fleet entry is not the genesis of this log"));
    }
    for (before, line) in lines.iter().zip(lines.iter().skip(1)) {
        let (a, b) = (&before.entry, &line.entry);
        let adjacent = a.seq.checked_add(1) == Some(b.seq);
        if b.chain != a.chain
            || b.seq <= a.seq
            || b.ts < a.ts
            || (adjacent && b.prev != before.leaf)
        {
            return Err(invalid(format!("fleet seq {} does not follow what is before it", b.seq)));
        }
    }
    let all = span(files, FLEET_RANGE, &lines, checkpoint).map_err(Outcome::invalid)?;
    let proofs = paths(files, FLEET_INCLUSION, "wicketgate/inclusion/1", "seq");
    let proofs = proofs.map_err(Outcome::invalid)?;
    let proven = |line: &&EntryLine| {
        let (seq, size, root) = (line.entry.seq, checkpoint.size, &checkpoint.root);
        let path = proofs.get(&seq);
        all.is_some_and(|(from, to)| (from..to).contains(&seq))
            || path.is_some_and(|path| verifies_inclusion(&line.leaf, seq, size, path, root))
    };
    match lines.iter().find(|line| !proven(line)) {
        None => Ok(lines),
        Some(line) => {
            Err(invalid(format!("fleet seq {} is not proven to be in it", line.entry.seq)))
        }
    }
}
