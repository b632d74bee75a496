//! P1: every payload matches the commitments of the entries, or is reported as absent.

use std::collections::BTreeSet;

use super::case::Case;
use super::report::{Outcome, Report};
use crate::bundle::{FLEET_CHECKPOINT, Files};
use crate::domain::commitment::{self, opens};
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::entries::EntryLine;
use crate::payloads::{Is, Payload, Payloads, WithheldReason};
use crate::record::payload::PayloadErased;
use crate::record::run::RunOpened;
use crate::record::{Commitment, Kind, Role};
use crate::scope::ChainSlice;

/// What is wrong with the payloads of a bundle, each named by its commitment in hex.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the index says nothing about payload {0}")]
    Unsaid(String),
    #[error("no entry commits to payload {0}")]
    Stray(String),
    #[error("payload {name} of seq {seq}: {flaw}")]
    Payload { name: String, seq: Seq, flaw: OpeningFlaw },
}

/// What is wrong with one of them.
#[derive(Debug, thiserror::Error)]
enum OpeningFlaw {
    #[error("listed as incognito, but the run is not incognito")]
    Incognito,
    #[error("not what it commits to")]
    Other,
    #[error("not what it commits to: {0}")]
    Members(#[from] commitment::Error),
    #[error("not what it commits to: the role differs")]
    Role,
    #[error("not the events that left: `observed.stream` has the hash of others")]
    Left,
    #[error("listed as erased, but the bundle does not include entry {1} of {0}, which records it")]
    NoErasure(String, Seq),
    #[error("listed as erased, but entry {1} of {0} records the erasure of other payloads")]
    OtherErasure(String, Seq),
}

/// The first part of P1: whether the payloads can be read at all.
pub fn read(files: &Files, report: &mut Report) -> Option<Payloads> {
    Payloads::read(files).map_err(|damage| report.invalid(damage)).ok()
}

/// P1.
pub fn check(case: &Case<'_>, report: &mut Report) {
    let Some(payloads) = &case.payloads else { return };
    report.put("P1", opened(case, payloads).unwrap_or_else(Outcome::invalid));
}

/// The lines whose commitments the bundle covers, with their log: those of the selected runs.
fn committing<'a>(case: &'a Case<'_>) -> impl Iterator<Item = (&'a str, &'a EntryLine)> {
    let of = |slice: &'a ChainSlice| slice.selected().map(move |line| (slice.origin(), line));
    let selected = case.slices.iter().flat_map(of);
    selected.filter(|(_, line)| line.entry.run.is_some())
}

fn opened(case: &Case<'_>, payloads: &Payloads) -> Result<Outcome, Error> {
    let mut committed = BTreeSet::new();
    let mut incognito = BTreeSet::new();
    for (log, line) in committing(case) {
        let run = line.entry.run.as_ref().map(|link| link.run);
        if line.get::<RunOpened>().is_some_and(|opened| opened.incognito.is_some()) {
            incognito.extend(run);
        }
        for commitment in &line.entry.draft.commit {
            committed.insert(commitment.c.0);
            let name = commitment.c.hex();
            let payload = payloads.0.get(&commitment.c.0);
            let payload = payload.ok_or_else(|| Error::Unsaid(name.clone()))?;
            let hidden = run.is_some_and(|run| incognito.contains(&run));
            let seq = line.entry.seq;
            one(case, (log, hidden), commitment, payload).map_err(|flaw| Error::Payload {
                name,
                seq,
                flaw,
            })?;
        }
        left(line, payloads)?;
    }
    if let Some(stray) = payloads.0.keys().find(|c| !committed.contains(*c)) {
        return Err(Error::Stray(stray.hex()));
    }
    let count = |wanted: fn(&Payload) -> bool| {
        payloads.0.values().filter(|payload| wanted(payload)).count()
    };
    let open = count(|p| matches!(p, Payload::Opened { .. }));
    let mut summary = format!("{open} of {} opened", committed.len());
    let states: [(&str, Is); 2] = [
        ("opened in part", |p| matches!(p, Payload::Redacted { .. })),
        ("erased", |p| matches!(p, Payload::Erased { .. })),
    ];
    for (state, wanted) in states {
        let found = count(wanted);
        if found > 0 {
            summary.push_str(&format!(", {found} {state}"));
        }
    }
    Ok(Outcome::Valid(summary))
}

/// Checks one payload against the commitment of an entry of this log.
fn one(
    case: &Case<'_>,
    (log, incognito): (&str, bool),
    commitment: &Commitment,
    payload: &Payload,
) -> Result<(), OpeningFlaw> {
    match payload {
        Payload::Withheld(WithheldReason::Incognito) if !incognito => Err(OpeningFlaw::Incognito),
        Payload::Withheld(_) => Ok(()),
        Payload::Erased { log: fleet, seq } => erased(case, log, &commitment.c, fleet, *seq),
        Payload::Redacted { role, parts } => {
            parts.open(&commitment.c)?;
            if role == commitment.role.as_str() { Ok(()) } else { Err(OpeningFlaw::Role) }
        }
        Payload::Opened { salt, role, body, .. } => {
            let len = u64::try_from(body.len()).unwrap_or(u64::MAX);
            let opens = opens(&commitment.c, salt, body).is_some();
            if opens && len == commitment.len.get() && role == commitment.role.as_str() {
                Ok(())
            } else {
                Err(OpeningFlaw::Other)
            }
        }
    }
}

/// Compares the events of a streamed answer, put together of their payloads, with the hash of what left.
fn left(line: &EntryLine, payloads: &Payloads) -> Result<(), Error> {
    let kept = line.entry.draft.commit.iter().filter(|c| c.role == Role::Stream);
    let (mut parts, mut first) = (Vec::new(), None);
    for commitment in kept {
        let Some(Payload::Opened { body, .. }) = payloads.0.get(&commitment.c.0) else {
            return Ok(());
        };
        parts.push(body.as_slice());
        first.get_or_insert(commitment.c);
    }
    let Some(first) = first else { return Ok(()) };
    let observed = line.entry.draft.body.observed();
    let stream = observed.and_then(|observed| observed.stream.as_ref());
    if stream.is_some_and(|stream| stream.sha256.0 == Digest::of(&parts)) {
        return Ok(());
    }
    let (name, seq) = (first.hex(), line.entry.seq);
    Err(Error::Payload { name, seq, flaw: OpeningFlaw::Left })
}

/// An erased payload is one whose erasure the bundle's fleet log records; F1 decides whether to
/// believe that log.
fn erased(
    case: &Case<'_>,
    log: &str,
    c: &Digest,
    fleet: &str,
    seq: Seq,
) -> Result<(), OpeningFlaw> {
    let no = || OpeningFlaw::NoErasure(fleet.to_owned(), seq);
    let slice = case.fleet.as_ref().ok_or_else(no)?;
    let note = case.files.get(FLEET_CHECKPOINT).and_then(|note| std::str::from_utf8(note).ok());
    if note.and_then(|note| note.lines().next()) != Some(fleet) {
        return Err(no());
    }
    let mut lines = slice.lines.iter();
    let line = lines.find(|line| line.is(Kind::PayloadErased) && line.entry.seq == seq);
    let line = line.ok_or_else(no)?;
    let erasure = line.get::<PayloadErased>();
    if erasure.is_some_and(|erasure| {
        erasure.log == log && erasure.c.iter().any(|commitment| commitment.0 == *c)
    }) {
        Ok(())
    } else {
        Err(OpeningFlaw::OtherErasure(fleet.to_owned(), seq))
    }
}
