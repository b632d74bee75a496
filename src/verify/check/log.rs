//! H1, E1–H2, R1 and S1, S2, C1: the entries, the tree they are in, and the keys that sign it.

use super::alone;
use super::case::Case;
use super::range;
use super::report::{ChainChecks, Outcome, Report};
use crate::bundle::{
    FLEET, FLEET_ENTRIES, FOLDER, Files, LINES, NOTE, OLDER, PATHS, RANGE_PROOF, chain_folder,
};
use crate::contents::{PathForm, Paths, PathsForm};
use crate::crypto::consistency::verifies_consistency;
use crate::crypto::merkle::verifies_inclusion;
use crate::crypto::note::Checkpoint;
use crate::domain::id::Seq;
use crate::domain::json::{self, Json, Limits};
use crate::domain::plural::many;
use crate::entries::epochs::Epochs;
use crate::entries::{Damage, EntryLine};
use crate::record::Kind;
use crate::scope::{ChainSlice, Scope};
pub(super) use crate::trust::SKEW_MILLIS;
use crate::trust::{PinnedHead, Trust};

/// Hashes of a proof in a tree of at most 2^64 leaves.
const PATH_MAX: usize = 64;

/// Why a file of proofs cannot be read, or proves nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProofError {
    #[error("`{0}`: {1}")]
    Json(String, #[source] json::Error),
    #[error("`{0}` is malformed")]
    Malformed(String),
    #[error("`{0}`: a proof path of {1} hashes is too long")]
    Long(String, usize),
    #[error("`{0}`: two proofs for entry {1}")]
    Twice(String, Seq),
    #[error("`{name}`: some of the entries from {from} to {to} are missing")]
    Span { name: String, from: Seq, to: Seq },
}

/// E1: reads every line of every chain.
pub fn read(files: &Files, scope: Scope) -> Result<Vec<ChainSlice>, Damage> {
    let folders: Vec<String> = match scope {
        Scope::Run | Scope::Range => vec![FOLDER.to_owned()],
        Scope::Population => {
            let folders = (0_u64..).map(chain_folder);
            folders.take_while(|f| files.get(&format!("{f}/{LINES}")).is_some()).collect()
        }
    };
    folders.into_iter().map(|folder| slice(files, folder)).collect()
}

/// The lines of the fleet log, if the bundle has any.
pub fn fleet(files: &Files) -> Option<Result<ChainSlice, Damage>> {
    files.get(FLEET_ENTRIES).map(|_| slice(files, FLEET.to_owned()))
}

fn slice(files: &Files, folder: String) -> Result<ChainSlice, Damage> {
    let name = format!("{folder}/{LINES}");
    let damage = |why: String| Damage::new("E1", format!("`{name}`: {why}"));
    let text = files.get(&name).ok_or_else(|| Damage::new("E1", format!("no `{name}`")))?;
    let body =
        text.strip_suffix(b"\n").ok_or_else(|| damage("does not end with a line feed".into()))?;
    let mut lines = Vec::new();
    for (at, bytes) in body.split(|b| *b == b'\n').enumerate() {
        let number = at.saturating_add(1);
        lines
            .push(EntryLine::read(bytes).map_err(|d| damage(format!("line {number}: {}", d.why)))?);
    }
    Ok(ChainSlice { folder, lines, epochs: Epochs::default(), checkpoint: None, span: None })
}

/// E1, S1, S2, C1, H1, E2, H2 and R1; stores the result for each chain in the case.
pub fn check(case: &mut Case<'_>, report: &mut Report) {
    let (files, trust) = (case.files, case.trust);
    let mut checks = ChainChecks::default();
    for slice in &mut case.slices {
        checks.chain(&slice.folder);
        checks.put("E1", understood(&slice.lines));
        let mut epochs = Epochs::new(&trust.enrolment).revoking(&trust.revoked_enrolments());
        let held = keys(&slice.lines, &mut epochs);
        checks.put("S1", held.map_or_else(Outcome::from, |()| enrolled(&epochs, trust)));
        let lines = &slice.lines;
        let ordered = order(lines).map(|()| format!("{} in order", many(lines.len(), "entry")));
        checks.put("S2", ordered.map_or_else(Outcome::from, Outcome::Valid));
        checks.put("C1", time(lines, trust).map_or_else(Outcome::from, Outcome::Valid));
        let name = format!("{}/{NOTE}", slice.folder);
        let note = files.get(&name).and_then(|note| std::str::from_utf8(note).ok());
        let opened = note
            .ok_or_else(|| Damage::new("H1", format!("no `{name}`")))
            .and_then(|note| epochs.checkpoint(note))
            .and_then(|(checkpoint, signer)| current(checkpoint, signer, lines, trust));
        slice.epochs = epochs;
        match opened {
            Err(damage) => {
                checks.put("H1", damage.into());
                checks.put("E2", Outcome::Unverifiable("no checkpoint holds".into()));
            }
            Ok(checkpoint) => {
                let seen = format!("{}, root {}", many(checkpoint.size, "entry"), checkpoint.root);
                checks.put("H1", Outcome::Valid(seen));
                let whole = proven(files, slice, &checkpoint, &mut checks);
                if let Some(outcome) = pinned(files, (slice, whole), &checkpoint, trust) {
                    checks.put("H2", outcome);
                } else {
                    checks.unpinned = true;
                }
                slice.checkpoint = Some(checkpoint);
            }
        }
    }
    if checks.unpinned {
        let why = "that history was not rewritten by a holder of every key: no head of this \
                   log is pinned";
        report.not_proven.push(why.into());
    }
    checks.fold(report);
    let mut logs = case.slices.iter().map(ChainSlice::origin);
    report.log = logs.next().map(str::to_owned).filter(|log| !log.is_empty());
}

/// E2 and R1: each entry is in the tree, by its own path or as part of a span proven complete.
/// Returns whether both hold.
fn proven(
    files: &Files,
    slice: &mut ChainSlice,
    checkpoint: &Checkpoint,
    checks: &mut ChainChecks,
) -> bool {
    let name = format!("{}/{RANGE_PROOF}", slice.folder);
    let mut spanned = true;
    match range::read(files, &name) {
        None => {}
        Some(Err(why)) => {
            spanned = false;
            checks.put("R1", Outcome::invalid(why));
        }
        Some(Ok(proof)) => {
            slice.span = Some(proof.span);
            let outcome = range::check(&proof, slice, checkpoint);
            spanned = matches!(outcome, Outcome::Valid(_));
            checks.put("R1", outcome);
        }
    }
    let included = match inclusion(files, slice, checkpoint) {
        Outcome::Valid(seen) => match alone::check(files, slice) {
            Ok(0) => Outcome::Valid(seen),
            Ok(n) => Outcome::Valid(format!("{seen}, {n} with a proof that stands on its own")),
            Err(why) => Outcome::invalid(why),
        },
        other @ (Outcome::Invalid(_) | Outcome::Unverifiable(_)) => other,
    };
    let whole = matches!(included, Outcome::Valid(_));
    checks.put("E2", included);
    whole && spanned
}

/// Whether every kind of entry is known here.
fn understood(lines: &[EntryLine]) -> Outcome {
    match lines.iter().find_map(|line| line.unknown.as_deref()) {
        None => Outcome::Valid(many(lines.len(), "entry")),
        Some(kind) => {
            Outcome::Unverifiable(format!("this program does not know the kind `{kind}`"))
        }
    }
}

/// The genesis comes first, every writer has a certificate, and no entry comes from an uncertified
/// writer.
fn keys(lines: &[EntryLine], epochs: &mut Epochs) -> Result<(), Damage> {
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
        } else {
            epochs.check_revocation(line.entry.epoch, line.entry.seq)?;
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

fn order(lines: &[EntryLine]) -> Result<(), Damage> {
    for (before, line) in lines.iter().zip(lines.iter().skip(1)) {
        let (a, b) = (&before.entry, &line.entry);
        let damage = |why: &str| Err(Damage::new("S2", format!("seq {}: {why}", b.seq)));
        if b.seq <= a.seq {
            return damage("not in ascending order");
        }
        if b.epoch < a.epoch {
            return damage("the epoch goes back");
        }
        if a.seq.checked_add(1) != Some(b.seq) {
            continue;
        }
        if b.prev != before.leaf {
            return damage("`prev` is not the leaf hash of the entry before");
        }
        if b.epoch > a.epoch && !line.is(Kind::WriterStarted) {
            return damage("an epoch begins without `writer.started`");
        }
    }
    Ok(())
}

fn time(lines: &[EntryLine], trust: &Trust) -> Result<String, Damage> {
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
            Err(Damage::new("C1", format!("{last} is later than the clock of this machine")))
        }
        (Some(last), _) => Ok(format!("up to {last}, as the writer says")),
        (None, _) => Ok("no entries".into()),
    }
}

/// An older epoch's key must not sign for entries of a newer one, and the log must be an accepted
/// one.
fn current(
    checkpoint: Checkpoint,
    signer: u64,
    lines: &[EntryLine],
    trust: &Trust,
) -> Result<Checkpoint, Damage> {
    if lines.last().is_some_and(|line| line.entry.epoch > signer) {
        let why = format!("signed by the writer of epoch {signer}, which was fenced out");
        return Err(Damage::new("H1", why));
    }
    if !trust.origins.is_empty() && !trust.origins.contains(&checkpoint.origin) {
        let why = format!("the log `{}` is not trusted", checkpoint.origin);
        return Err(Damage::new("H1", why));
    }
    Ok(checkpoint)
}

/// Whether every line is in the tree: by its own path, unless it lies in the slice's span.
fn inclusion(files: &Files, slice: &ChainSlice, checkpoint: &Checkpoint) -> Outcome {
    let name = format!("{}/{PATHS}", slice.folder);
    let proofs = match proofs(files, &name, "wicketgate/inclusion/1", "seq") {
        Ok(Some(proofs)) => proofs,
        Ok(None) => return Outcome::Invalid(format!("no `{name}`")),
        Err(why) => return Outcome::invalid(why),
    };
    // An entry in a complete span (R1) needs no path of its own.
    let by_path = |line: &&EntryLine| slice.span.is_none_or(|span| !span.has(line.entry.seq));
    let count = slice.lines.iter().filter(by_path).count();
    if proofs.len() != count {
        let (proofs, entries) = (many(proofs.len(), "proof"), many(count, "entry"));
        return Outcome::Invalid(format!("{proofs} for {entries}"));
    }
    let (size, root) = (checkpoint.size, &checkpoint.root);
    let outside = slice.lines.iter().filter(by_path).find(|line| {
        let seq = line.entry.seq;
        !proofs.get(&seq).is_some_and(|path| verifies_inclusion(&line.leaf, seq, size, path, root))
    });
    match outside {
        None => Outcome::Valid(format!("{} of {} entries of the log", slice.lines.len(), size)),
        Some(line) => Outcome::Invalid(format!("seq {} is not proven to be in it", line.entry.seq)),
    }
}

/// Reads a file of proofs by their number; strict, no number twice.
pub(super) fn proofs(
    files: &Files,
    name: &str,
    version: &str,
    key: &str,
) -> Result<Option<Paths>, ProofError> {
    let Some(text) = files.get(name) else { return Ok(None) };
    let json =
        Json::parse(text, &Limits::FILE).map_err(|e| ProofError::Json(name.to_owned(), e))?;
    let malformed = || ProofError::Malformed(name.to_owned());
    let file: PathsForm = json.read().map_err(|_| malformed())?;
    if file.v != version {
        return Err(malformed());
    }
    let mut proofs = Paths::new();
    for PathForm { seq, old, path } in file.proofs {
        let number = if key == "seq" { seq } else { old }.ok_or_else(malformed)?;
        if path.len() > PATH_MAX {
            return Err(ProofError::Long(name.to_owned(), path.len()));
        }
        if proofs.insert(number, path).is_some() {
            return Err(ProofError::Twice(name.to_owned(), number));
        }
    }
    Ok(Some(proofs))
}

/// H2, if a head of this log is pinned. `proven` entries that are complete from the first one show
/// by themselves which older heads the log had.
fn pinned(
    files: &Files,
    (slice, proven): (&ChainSlice, bool),
    checkpoint: &Checkpoint,
    trust: &Trust,
) -> Option<Outcome> {
    let heads: Vec<&PinnedHead> =
        trust.heads.iter().filter(|head| head.origin == checkpoint.origin).collect();
    if heads.is_empty() {
        return None;
    }
    let name = format!("{}/{OLDER}", slice.folder);
    let proofs = match proofs(files, &name, "wicketgate/consistency/1", "old") {
        Ok(proofs) => proofs.unwrap_or_default(),
        Err(why) => return Some(Outcome::invalid(why)),
    };
    let mut unproven = Vec::new();
    for head in &heads {
        if head.size > checkpoint.size {
            let why = format!(
                "the pinned head has {}, the checkpoint {}: the log was cut or restored",
                many(head.size, "entry"),
                checkpoint.size
            );
            return Some(Outcome::Invalid(why));
        }
        let empty = Vec::new();
        let path = if head.size == checkpoint.size { Some(&empty) } else { proofs.get(&head.size) };
        let (new, root) = (checkpoint.size, &checkpoint.root);
        let extends = match path {
            Some(path) => verifies_consistency(head.size, new, &head.root, root, path),
            None => match range::beginning(&slice.lines, head.size).filter(|_| proven) {
                Some(older) => older == head.root,
                None => {
                    unproven.push(head.size.to_string());
                    continue;
                }
            },
        };
        if !extends {
            let why = format!("the log does not extend the pinned head of size {}", head.size);
            return Some(Outcome::Invalid(why));
        }
    }
    Some(if unproven.is_empty() {
        Outcome::Valid(many(heads.len(), "pinned head"))
    } else {
        Outcome::Unverifiable(format!(
            "no consistency proof from size {}: ask for an export with `--since`",
            unproven.join(", ")
        ))
    })
}
