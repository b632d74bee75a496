//! Diagnoses what was done to a chain from what is left of it.
//!
//! The reader stops at the first entry that does not fit. Evidence around that place shows what was
//! done and to which entry: the hashes that later entries link to, the checkpoints stored with each
//! commit, rows that are missing or misplaced, and heads that other parties noted.

use super::fleet::{ExternalHeads, Noted};
use super::read::{Damage, EntryLine};
use super::{ChainReport, Trail};
use crate::crypto::note::Checkpoint;
use crate::domain::closed::texts;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::plural::many;
use crate::ledger::proofs::{self, Prover};
use crate::ledger::store::{EntryRow, LedgerReader, StoreError};
use crate::record::Entry;

texts! {
    /// The kind of damage.
    pub enum DamageKind {
        /// The bytes of an entry differ from the signed ones.
        Edit = "edit",
        /// Entries in the middle are missing.
        Deletion = "deletion",
        /// The chain contains an entry that was never signed.
        Insertion = "insertion",
        /// Entries have swapped places.
        Reorder = "reorder",
        /// The last entries are missing; the ledger itself still records how many there were.
        Truncation = "truncation",
        /// Another history has been signed for the same log.
        Fork = "fork",
        /// The whole chain is an earlier state; another party noted a later head.
        Rollback = "rollback",
        /// A column beside the signed bytes contradicts them.
        ShadowColumn = "shadow-column",
        /// Every row of the chain is missing, or the chain itself.
        MissingPartition = "missing-partition",
        /// An invalid signature or certificate.
        Signature = "signature",
        /// The writer itself signed something that the rules forbid.
        Rule = "rule",
    }
}

/// The first bad entry, and the damage to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The kind of damage.
    pub kind: DamageKind,
    /// The first damaged entry.
    pub seq: Seq,
    /// The check that noticed it.
    pub check: &'static str,
    /// The evidence for it, for a person.
    pub why: String,
}

/// The most entries by which one checkpoint can exceed the previous one: those of a full batch, each with the alerts that
/// it causes.
const BATCH_MAX: u32 = 8 * 1024;

fn finding(kind: DamageKind, seq: Seq, check: &'static str, why: impl Into<String>) -> Finding {
    Finding { kind, seq, check, why: why.into() }
}

/// Diagnoses the damage to the chain, if any.
///
/// # Errors
/// The store cannot be read.
pub async fn diagnose(
    reader: &dyn LedgerReader,
    report: &ChainReport,
    known: &ExternalHeads,
) -> Result<Option<Finding>, StoreError> {
    let head = &report.chain.head;
    let Some((at, damage)) = &report.damage else {
        if let Some(found) = beyond(reader, report).await? {
            return Ok(Some(found));
        }
        return noted(reader, report, known).await;
    };
    let rows = reader.entries(&report.chain.chain, *at, 2).await?;
    let row = rows.first().filter(|_| *at < head.size);
    Ok(Some(match row {
        None if *at < head.size => nothing(report, *at),
        None => at_the_end(reader, report, *at, damage).await?,
        Some(row) if row.seq > *at => finding(
            DamageKind::Deletion,
            *at,
            damage.check,
            format!("entries {at} to {} are gone, later ones are there", row.seq.saturating_sub(1)),
        ),
        // `at` points past the damage: an entry below the first stored one, or a stored checkpoint.
        Some(_) if report.entries >= head.size || *at < report.from => {
            at_the_end(reader, report, *at, damage).await?
        }
        Some(row) => here(reader, report, (*at, damage), row, rows.get(1)).await?,
    }))
}

/// No row exists from here on, although the head counts more entries.
fn nothing(report: &ChainReport, at: Seq) -> Finding {
    let size = report.chain.head.size;
    if at <= report.from {
        let why =
            format!("the head says {}, and no row of the chain is there", many(size, "entry"));
        return finding(DamageKind::MissingPartition, at, "S2", why);
    }
    let why =
        format!("the head says {}, the last row is {}", many(size, "entry"), at.saturating_sub(1));
    finding(DamageKind::Truncation, at, "S2", why)
}

/// All rows exist and are valid by themselves; the head, its checkpoint or an earlier one
/// disagrees.
async fn at_the_end(
    reader: &dyn LedgerReader,
    report: &ChainReport,
    at: Seq,
    damage: &Damage,
) -> Result<Finding, StoreError> {
    if last_only(reader, report).await? {
        let last = report.entries.saturating_sub(1);
        let why = "the head links to other bytes than are there";
        return Ok(finding(DamageKind::Edit, last, damage.check, why));
    }
    Ok(of_the_head(report, at, damage))
}

/// Whether only the last entry was changed: with the hash in the head instead, the tree is the
/// signed one.
async fn last_only(reader: &dyn LedgerReader, report: &ChainReport) -> Result<bool, StoreError> {
    let (trail, row) = (&report.trail, &report.chain);
    let Ok((head, _)) = Checkpoint::parse(&row.head.checkpoint) else { return Ok(false) };
    let after = report.entries.saturating_sub(1).checked_sub(trail.base.size());
    let after = after.and_then(|count| u32::try_from(count).ok());
    let Some(count) = after.filter(|count| *count < BATCH_MAX) else { return Ok(false) };
    if trail.leaf == Some(row.head.hash) {
        return Ok(false);
    }
    let mut frontier = trail.base.clone();
    if count > 0 {
        for entry in reader.entries(&row.chain, trail.base.size(), count).await? {
            frontier.push(Entry::leaf(&entry.body));
        }
    }
    frontier.push(row.head.hash);
    Ok(frontier.size() == head.size && frontier.root() == head.root)
}

/// The head, its checkpoint or an earlier one disagrees with rows that are valid by themselves.
fn of_the_head(report: &ChainReport, at: Seq, damage: &Damage) -> Finding {
    let Trail { epochs, confirmed, diverged, .. } = &report.trail;
    let (size, root) = (report.entries, report.root);
    let head = epochs.checkpoint(&report.chain.head.checkpoint);
    let window = |to: Seq| format!("entries {confirmed} to {}", to.saturating_sub(1));
    match (&head, diverged) {
        // The head is signed and matches these entries; an older signed checkpoint does not.
        (Ok((head, _)), Some((old, note))) if (head.size, head.root) == (size, root) => {
            match epochs.checkpoint(note) {
                Ok(_) => {
                    let why = format!(
                        "the checkpoint of size {old} and the head are both signed and of different {}",
                        window(*old)
                    );
                    finding(DamageKind::Fork, *confirmed, "H2", why)
                }
                Err(error) => {
                    let why =
                        format!("the stored checkpoint of size {old} was edited: {}", error.why);
                    finding(DamageKind::Signature, *confirmed, "H1", why)
                }
            }
        }
        (Ok(_), Some((old, _))) => {
            let why = format!(
                "{} are others than those that were signed at size {old}; what follows was linked anew",
                window(*old)
            );
            finding(DamageKind::Edit, *confirmed, "H1", why)
        }
        (Ok((head, _)), None) if head.size > size => {
            let why = format!(
                "the signed head has {}, the last row is {}",
                many(head.size, "entry"),
                size.saturating_sub(1)
            );
            finding(DamageKind::Truncation, size, "H1", why)
        }
        (Ok((head, _)), None) if head.size < size && head.size == *confirmed => {
            let why = format!("entries from {} on are there and were never signed", head.size);
            finding(DamageKind::Insertion, head.size, "H1", why)
        }
        (Ok((head, _)), None) if head.size == size && head.root != root => {
            let why = format!("{} are others than those that were signed", window(size));
            finding(DamageKind::Edit, *confirmed, "H1", why)
        }
        (Err(error), _) if damage.check == "H1" => finding(
            DamageKind::Signature,
            at,
            "H1",
            format!("the head's checkpoint: {}", error.why),
        ),
        // A hash or frontier in the head row, or the origin in the chain's row.
        (Ok(_) | Err(_), _) if damage.check == "D2" || damage.check == "S1" => {
            finding(DamageKind::ShadowColumn, at, damage.check, damage.why.clone())
        }
        (Ok(_) | Err(_), _) => finding(DamageKind::Rule, at, damage.check, damage.why.clone()),
    }
}

/// The row at this place is wrong.
async fn here(
    reader: &dyn LedgerReader,
    report: &ChainReport,
    (at, damage): (Seq, &Damage),
    row: &EntryRow,
    next: Option<&EntryRow>,
) -> Result<Finding, StoreError> {
    let bytes = Entry::leaf(&row.body);
    let line = EntryLine::read(&row.body).ok();
    // What the rest of the ledger expects here: the next entry's own bytes, or the head.
    let linked = match next {
        Some(next) => EntryLine::read(&next.body).ok().map(|line| line.entry.prev),
        None => Some(report.chain.head.hash),
    };
    let genuine = linked == Some(bytes);
    if damage.check == "D1" || (damage.check == "D2" && genuine) {
        return Ok(finding(DamageKind::ShadowColumn, at, damage.check, damage.why.clone()));
    }
    let edit = |seq: Seq, why: &str| finding(DamageKind::Edit, seq, damage.check, why);
    let Some(line) = line else {
        return Ok(edit(at, &format!("the bytes are no entry: {}", damage.why)));
    };
    if line.entry.seq != at {
        return displaced(reader, report, (at, damage), line.entry.seq).await;
    }
    let links = report.trail.leaf.is_none_or(|leaf| leaf == line.entry.prev);
    if !links {
        // The link between two entries is broken. The one that the rest links to is genuine.
        let before = at.saturating_sub(1);
        return Ok(if genuine && before >= report.trail.confirmed {
            edit(before, &format!("entry {at} links to other bytes than are there"))
        } else {
            edit(at, "it links to another entry than the one before, and nothing links to it")
        });
    }
    if !genuine {
        let stored = row.leaf != bytes && linked == Some(row.leaf);
        let why = if stored {
            "the bytes are not those of the stored hash, which the next entry links to"
        } else {
            "the next entry links to other bytes than are there"
        };
        return Ok(edit(at, why));
    }
    if line.entry.chain != report.chain.chain {
        let why = "an entry of another chain is here";
        return Ok(finding(DamageKind::Insertion, at, damage.check, why));
    }
    if !signed(reader, report, at).await? {
        let confirmed = report.trail.confirmed;
        let why = format!(
            "entries from {confirmed} on are others than those that were signed: {}",
            damage.why
        );
        return Ok(finding(DamageKind::Edit, confirmed, damage.check, why));
    }
    let signature =
        ["certificate", "signature", "key"].iter().any(|part| damage.why.contains(part));
    let kind =
        if damage.check == "S1" && signature { DamageKind::Signature } else { DamageKind::Rule };
    Ok(finding(kind, at, damage.check, damage.why.clone()))
}

/// Whether the entries up to the next stored checkpoint are the signed ones. `true` without a
/// checkpoint nearby.
async fn signed(
    reader: &dyn LedgerReader,
    report: &ChainReport,
    at: Seq,
) -> Result<bool, StoreError> {
    if report.trail.diverged.is_some() {
        return Ok(false);
    }
    let chain = &report.chain.chain;
    let next = reader.checkpoint(chain, at.saturating_add(1)).await?;
    let next = next.and_then(|(_, note)| Checkpoint::parse(&note).ok());
    let Some((next, _)) = next else { return Ok(true) };
    let Some(count) = next.size.checked_sub(at).and_then(|count| u32::try_from(count).ok()) else {
        return Ok(true);
    };
    if count > BATCH_MAX {
        return Ok(true);
    }
    let mut frontier = report.trail.frontier.clone();
    for row in reader.entries(chain, at, count).await? {
        frontier.push(Entry::leaf(&row.body));
    }
    Ok(frontier.size() == next.size && frontier.root() == next.root)
}

/// The row holds the entry of another place.
async fn displaced(
    reader: &dyn LedgerReader,
    report: &ChainReport,
    (at, damage): (Seq, &Damage),
    says: Seq,
) -> Result<Finding, StoreError> {
    let there = reader.entries(&report.chain.chain, says, 1).await?;
    let there = there.first().filter(|row| row.seq == says);
    let holds = there.and_then(|row| EntryLine::read(&row.body).ok()).map(|line| line.entry.seq);
    if says > at && holds.is_some_and(|other| other < says) {
        let why = format!(
            "the row holds entry {says}, whose own row holds entry {}",
            holds.unwrap_or(at)
        );
        return Ok(finding(DamageKind::Reorder, at, damage.check, why));
    }
    if says > at {
        let last = says.saturating_sub(1);
        let why = format!("entries {at} to {last} are gone and later ones took their places");
        return Ok(finding(DamageKind::Deletion, at, damage.check, why));
    }
    // An earlier number again: the first entry that no other links to displaced it.
    let linked = |row: &EntryRow| EntryLine::read(&row.body).ok().map(|line| line.entry.prev);
    let mut seq = says;
    let rows = reader.entries(&report.chain.chain, at, 2).await?;
    if let (Some(this), Some(next)) = (rows.first(), rows.get(1))
        && linked(next) != Some(Entry::leaf(&this.body))
    {
        seq = at;
    }
    let why =
        format!("row {at} holds entry {says} again: one that does not belong here came before");
    Ok(finding(DamageKind::Insertion, seq, damage.check, why))
}

/// A stored checkpoint of more entries than the head counts.
async fn beyond(
    reader: &dyn LedgerReader,
    report: &ChainReport,
) -> Result<Option<Finding>, StoreError> {
    let size = report.chain.head.size;
    let later = reader.checkpoint(&report.chain.chain, size.saturating_add(1)).await?;
    let Some((signed, note)) = later else { return Ok(None) };
    // A live chain grows while it is read.
    let now = reader.chains().await?;
    let row = now.iter().find(|row| row.chain == report.chain.chain);
    if row.is_some_and(|row| row.head.size >= signed) {
        return Ok(None);
    }
    let by = if report.trail.epochs.checkpoint(&note).is_ok() { "signed" } else { "stored" };
    let why = format!("a checkpoint of {} is {by}, the head says {size}", many(signed, "entry"));
    Ok(Some(finding(DamageKind::Truncation, size, "H1", why)))
}

/// The heads that were noted outside the chain.
async fn noted(
    reader: &dyn LedgerReader,
    report: &ChainReport,
    known: &ExternalHeads,
) -> Result<Option<Finding>, StoreError> {
    let size = report.chain.head.size;
    let mut heads: Vec<&Noted> = known.heads.iter().collect();
    heads.sort_by_key(|noted| noted.size);
    if heads.is_empty() {
        return Ok(None);
    }
    let Ok((head, _)) = Checkpoint::parse(&report.chain.head.checkpoint) else {
        let why =
            format!("{} is of a chain that is empty here", heads.first().map_or("", |n| &n.by));
        return Ok(Some(finding(DamageKind::Rollback, 0, "H2", why)));
    };
    let prover = match Prover::for_head(reader, &report.chain.chain, &head).await {
        Ok(prover) => prover,
        Err(proofs::Error::Store(error)) => return Err(error),
        Err(error) => {
            return Ok(Some(finding(DamageKind::ShadowColumn, 0, "D2", error.to_string())));
        }
    };
    let mut agreed = 0;
    for noted in heads {
        if noted.size > size {
            let why = format!("{} says {}, {size} are there", noted.by, many(noted.size, "entry"));
            return Ok(Some(finding(DamageKind::Rollback, size, "H2", why)));
        }
        match root_at(&prover, noted.size).await? {
            Some(root) if root == noted.root => agreed = noted.size,
            // Inside the pruned range, only the archive can check it.
            None => {}
            Some(_) => {
                let why = format!(
                    "{} has another root at size {}: two histories are signed, from entry {agreed} on at the earliest",
                    noted.by, noted.size
                );
                return Ok(Some(finding(DamageKind::Fork, agreed, "H2", why)));
            }
        }
    }
    Ok(None)
}

/// The root at an older size, proven to be of the same tree; `None` if its leaf hashes are pruned.
async fn root_at(prover: &Prover<'_>, size: Seq) -> Result<Option<Digest>, StoreError> {
    let root = async {
        prover.consistency(size).await?;
        prover.root_at(size).await
    };
    match root.await {
        Ok(root) => Ok(Some(root)),
        Err(proofs::Error::Gone(_)) => Ok(None),
        Err(proofs::Error::Store(error)) => Err(error),
        Err(proofs::Error::Damaged(_) | proofs::Error::Outside { .. }) => Ok(Some(*prover.root())),
    }
}
