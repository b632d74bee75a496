//! L1, L3–L5 and S1, S2, C1: the entries, the tree they are in, and the keys that vouch for it.

use std::collections::BTreeMap;

use super::report::{Outcome, Report};
use crate::crypto::consistency::verifies_consistency;
use crate::crypto::merkle::verifies_inclusion;
use crate::crypto::note::Checkpoint;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::json::{Json, Limits};
use crate::evidence::bundle::{CHECKPOINT, CONSISTENCY, ENTRIES, Files, INCLUSION};
use crate::evidence::trust::{PinnedHead, Trust};
use crate::ledger::entry::Kind;
use crate::ledger::verify::epochs::Epochs;
use crate::ledger::verify::{Damage, Line};

/// Clocks of honest machines may differ by this much.
const SKEW_MILLIS: i64 = 5 * 60 * 1000;
/// Hashes of a proof in a tree of at most 2^64 leaves.
const PATH_MAX: usize = 64;

/// L3: reads every line.
pub fn lines(files: &Files) -> Result<Vec<Line>, Damage> {
    let bad = |why: String| Damage::new("L3", why);
    let text = files.get(ENTRIES).ok_or_else(|| bad(format!("no `{ENTRIES}`")))?;
    let body = text
        .strip_suffix(b"\n")
        .ok_or_else(|| bad(format!("`{ENTRIES}` does not end with a line feed")))?;
    let mut lines = Vec::new();
    for (at, bytes) in body.split(|b| *b == b'\n').enumerate() {
        let number = at.saturating_add(1);
        lines.push(Line::read(bytes).map_err(|d| bad(format!("line {number}: {}", d.why)))?);
    }
    Ok(lines)
}

/// S1, S2, C1, L1, L4, L5; the checkpoint, if it holds.
pub fn check(
    files: &Files,
    lines: &[Line],
    trust: &Trust,
    report: &mut Report,
) -> Option<Checkpoint> {
    let mut epochs = Epochs::new(&trust.enrolment);
    match keys(lines, &mut epochs) {
        Err(damage) => report.invalid(damage),
        Ok(()) => report.put("S1", enrolled(&epochs, trust)),
    }
    match order(lines) {
        Err(damage) => report.invalid(damage),
        Ok(()) => report.valid("S2", format!("{} entries in order", lines.len())),
    }
    match time(lines, trust) {
        Err(damage) => report.invalid(damage),
        Ok(seen) => report.valid("C1", seen),
    }
    let note = files.get(CHECKPOINT).and_then(|note| std::str::from_utf8(note).ok());
    let opened = note
        .ok_or_else(|| Damage::new("L1", format!("no `{CHECKPOINT}`")))
        .and_then(|note| epochs.checkpoint(note))
        .and_then(|(checkpoint, signer)| current(checkpoint, signer, lines, trust));
    match opened {
        Err(damage) => {
            report.invalid(damage);
            report.unverifiable("L4", "no checkpoint holds");
            None
        }
        Ok(checkpoint) => {
            report.valid("L1", format!("{} entries, root {}", checkpoint.size, checkpoint.root));
            report.put("L4", inclusion(files, lines, &checkpoint));
            pinned(files, &checkpoint, trust, report);
            Some(checkpoint)
        }
    }
}

/// The genesis first, every writer's certificate, and no entry of a writer nobody introduced.
fn keys(lines: &[Line], epochs: &mut Epochs) -> Result<(), Damage> {
    let first = lines.first().ok_or_else(|| Damage::new("S1", "no entries"))?;
    epochs.genesis(first)?;
    for line in lines.iter().skip(1) {
        if line.entry.chain != first.entry.chain {
            let why = format!("seq {} is of chain {}", line.entry.seq, line.entry.chain);
            return Err(Damage::new("S1", why));
        }
        if line.is(Kind::ChainGenesis) {
            return Err(Damage::new("S1", "a second `chain.genesis`"));
        }
        if line.is(Kind::WriterStarted) {
            epochs.started(line)?;
        } else if !epochs.knows(line.entry.epoch) {
            let why = format!(
                "seq {} is of epoch {}, whose writer is not introduced",
                line.entry.seq, line.entry.epoch
            );
            return Err(Damage::new("S1", why));
        }
    }
    Ok(())
}

fn enrolled(epochs: &Epochs, trust: &Trust) -> Outcome {
    let Some(key) = epochs.enrolment() else {
        return Outcome::Invalid("no enrolment key".into());
    };
    if trust.enrolment.is_empty() {
        return Outcome::Unverifiable("the trust file names no enrolment key".into());
    }
    if trust.enrolment.contains(key) {
        Outcome::Valid(format!("enrolled by {}", key.id()))
    } else {
        Outcome::Invalid(format!("enrolled by {}, which is not trusted", key.id()))
    }
}

fn order(lines: &[Line]) -> Result<(), Damage> {
    for (before, line) in lines.iter().zip(lines.iter().skip(1)) {
        let (a, b) = (&before.entry, &line.entry);
        let bad = |why: &str| Err(Damage::new("S2", format!("seq {}: {why}", b.seq)));
        if b.seq <= a.seq {
            return bad("not in ascending order");
        }
        if b.epoch < a.epoch {
            return bad("the epoch goes back");
        }
        if a.seq.checked_add(1) != Some(b.seq) {
            continue;
        }
        if b.prev != before.leaf {
            return bad("`prev` is not the leaf hash of the entry before");
        }
        if b.epoch > a.epoch && !line.is(Kind::WriterStarted) {
            return bad("an epoch begins without `writer.started`");
        }
    }
    Ok(())
}

fn time(lines: &[Line], trust: &Trust) -> Result<String, Damage> {
    for (before, line) in lines.iter().zip(lines.iter().skip(1)) {
        if line.entry.ts < before.entry.ts {
            let why = format!("seq {}: time goes back", line.entry.seq);
            return Err(Damage::new("C1", why));
        }
    }
    let last = lines.last().map(|line| line.entry.ts);
    let latest = trust.now.map(|now| now.millis().saturating_add(SKEW_MILLIS));
    match (last, latest) {
        (Some(last), Some(latest)) if last.millis() > latest => {
            Err(Damage::new("C1", format!("{last} lies in the future of this machine")))
        }
        (Some(last), _) => Ok(format!("up to {last}, as the writer says")),
        (None, _) => Ok("no entries".into()),
    }
}

/// An older epoch's key may not vouch for entries of a newer one, nor a log nobody asked for.
fn current(
    checkpoint: Checkpoint,
    signer: u64,
    lines: &[Line],
    trust: &Trust,
) -> Result<Checkpoint, Damage> {
    if lines.last().is_some_and(|line| line.entry.epoch > signer) {
        let why = format!("signed by the writer of epoch {signer}, which was fenced out");
        return Err(Damage::new("L1", why));
    }
    if !trust.origins.is_empty() && !trust.origins.contains(&checkpoint.origin) {
        let why = format!("the log `{}` is not one that is trusted", checkpoint.origin);
        return Err(Damage::new("L1", why));
    }
    Ok(checkpoint)
}

fn inclusion(files: &Files, lines: &[Line], checkpoint: &Checkpoint) -> Outcome {
    let proofs = match proofs(files, INCLUSION, "wicketgate/inclusion/1", "seq") {
        Ok(Some(proofs)) => proofs,
        Ok(None) => return Outcome::Invalid(format!("no `{INCLUSION}`")),
        Err(why) => return Outcome::Invalid(why),
    };
    if proofs.len() != lines.len() {
        return Outcome::Invalid(format!("{} proofs for {} entries", proofs.len(), lines.len()));
    }
    let (size, root) = (checkpoint.size, &checkpoint.root);
    let outside = lines.iter().find(|line| {
        let seq = line.entry.seq;
        !proofs.get(&seq).is_some_and(|path| verifies_inclusion(&line.leaf, seq, size, path, root))
    });
    match outside {
        None => Outcome::Valid(format!("{} of {} entries of the log", lines.len(), size)),
        Some(line) => Outcome::Invalid(format!("seq {} is not proven to be in it", line.entry.seq)),
    }
}

/// Reads a file of proofs by their number; strict, no number twice.
fn proofs(
    files: &Files,
    name: &str,
    version: &str,
    key: &str,
) -> Result<Option<BTreeMap<Seq, Vec<Digest>>>, String> {
    let Some(text) = files.get(name) else { return Ok(None) };
    let json = Json::parse(text, &Limits::FILE).map_err(|e| format!("`{name}`: {e}"))?;
    let bad = || format!("`{name}` is malformed");
    if json.get("v").and_then(Json::as_str) != Some(version) {
        return Err(bad());
    }
    let mut proofs = BTreeMap::new();
    for proof in json.get("proofs").and_then(Json::as_array).ok_or_else(bad)? {
        let number = proof.get(key).and_then(Json::as_u64).ok_or_else(bad)?;
        let path = proof.get("path").and_then(Json::as_array).ok_or_else(bad)?;
        if path.len() > PATH_MAX {
            return Err(format!("`{name}`: a path of {} hashes", path.len()));
        }
        let path: Option<Vec<Digest>> =
            path.iter().map(|hash| hash.as_str().and_then(Digest::parse)).collect();
        if proofs.insert(number, path.ok_or_else(bad)?).is_some() {
            return Err(format!("`{name}`: two proofs for {number}"));
        }
    }
    Ok(Some(proofs))
}

fn pinned(files: &Files, checkpoint: &Checkpoint, trust: &Trust, report: &mut Report) {
    let heads: Vec<&PinnedHead> =
        trust.heads.iter().filter(|head| head.origin == checkpoint.origin).collect();
    if heads.is_empty() {
        report.not_proven.push(
            "that history was not rewritten by somebody who holds every key: no head of this log is \
             pinned"
                .into(),
        );
        return;
    }
    let proofs = match proofs(files, CONSISTENCY, "wicketgate/consistency/1", "old") {
        Ok(proofs) => proofs.unwrap_or_default(),
        Err(why) => return report.put("L5", Outcome::Invalid(why)),
    };
    let mut unproven = Vec::new();
    for head in &heads {
        if head.size > checkpoint.size {
            let why = format!(
                "the pinned head has {} entries, the checkpoint {}: the log was cut or restored",
                head.size, checkpoint.size
            );
            return report.put("L5", Outcome::Invalid(why));
        }
        let empty = Vec::new();
        let path = if head.size == checkpoint.size { Some(&empty) } else { proofs.get(&head.size) };
        let Some(path) = path else {
            unproven.push(head.size.to_string());
            continue;
        };
        let (new, root) = (checkpoint.size, &checkpoint.root);
        if !verifies_consistency(head.size, new, &head.root, root, path) {
            let why = format!("the log does not extend the pinned head of size {}", head.size);
            return report.put("L5", Outcome::Invalid(why));
        }
    }
    if unproven.is_empty() {
        report.valid("L5", format!("{} pinned heads", heads.len()));
    } else {
        let why = format!(
            "no consistency proof from size {}: ask for an export with `--since`",
            unproven.join(", ")
        );
        report.unverifiable("L5", why);
    }
}
