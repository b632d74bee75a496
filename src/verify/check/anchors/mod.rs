//! F1, W1, W2 and the two sides of C1: what parties other than the log vouch for in its history.
//!
//! The fleet log has the heads of all chains, and only the fleet log is cosigned and stamped. So an
//! entry of a chain existed at the latest when another party saw a fleet head that includes a later
//! head of the chain, and at the earliest after the newest token that stands before it in its own
//! chain.

mod fleet;
mod proofs;
mod time;

use std::collections::BTreeMap;

use super::report::{Outcome, Report};
use crate::bundle::Files;
use crate::crypto::note::{self, Checkpoint, VerifierKey};
use crate::domain::id::Seq;
use crate::domain::plural::many;
use crate::entries::EntryLine;
use crate::scope::ChainSlice;
use crate::trust::{Trust, Use};

use fleet::Fleet;

/// One chain of a bundle, whose own checks are done.
#[derive(Clone, Copy, Debug)]
pub struct AnchoredChain<'a> {
    /// The folder of its files: `ledger`, or `chains/<k>`.
    pub folder: &'a str,
    /// Its entries in the bundle, ascending.
    pub lines: &'a [EntryLine],
    /// Its checkpoint.
    pub checkpoint: &'a Checkpoint,
}

impl<'a> AnchoredChain<'a> {
    /// The chain that was read, if its checkpoint holds.
    #[must_use]
    pub fn of(slice: &'a ChainSlice) -> Option<Self> {
        let (folder, lines) = (slice.folder.as_str(), slice.lines.as_slice());
        slice.checkpoint.as_ref().map(|checkpoint| Self { folder, lines, checkpoint })
    }
}

/// Heads of one chain in the fleet log: the place in the fleet log, and the number of entries.
type Recorded = Vec<(Seq, Seq)>;

/// A valid fleet head and its note.
#[derive(Clone, Debug)]
struct VouchedHead {
    /// `fleet/checkpoint.txt`, or `anchors/<n>.txt`.
    file: String,
    checkpoint: Checkpoint,
    /// The note, cosignatures included.
    note: String,
}

/// A trusted party's statement about a fleet head, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
struct Vouched {
    /// Entries of that head.
    size: Seq,
    /// The head existed by then.
    by: i64,
}

/// What every fleet log of a bundle needs, even if the trust file does not ask for it: a head, and
/// its entries under it.
pub(super) fn whole(files: &Files) -> Result<(), Outcome> {
    let note = files.get(fleet::NOTE).and_then(|note| std::str::from_utf8(note).ok());
    let note = note.ok_or_else(|| Outcome::invalid(format!("no `{}`", fleet::NOTE)))?;
    let unread = |e| Outcome::invalid(format!("`{}`: {e}", fleet::NOTE));
    let (head, _) = Checkpoint::parse(note).map_err(unread)?;
    fleet::entries(files, &head).map(drop)
}

/// F1, W1, W2, and the sides of C1 that others vouch for.
///
/// What the trust file does not ask for is not checked, and reported as not proven.
pub fn check(files: &Files, trust: &Trust, chains: &[AnchoredChain<'_>], report: &mut Report) {
    let requests: Vec<&'static str> = [
        ("F1", !trust.fleet.is_empty()),
        ("W1", !trust.witnesses.is_empty()),
        ("W2", !trust.tsa.is_empty()),
    ]
    .into_iter()
    .filter_map(|(id, requested)| requested.then_some(id))
    .collect();
    if trust.fleet.is_empty() {
        for id in requests {
            report.unverifiable(id, "the trust file names no fleet key");
        }
        let unseen = "that a third party saw this log: the trust file names no fleet key";
        report.not_proven.push(unseen.into());
        return;
    }
    let found = Fleet::read(files, trust).and_then(|fleet| {
        let chains: Result<Vec<_>, Outcome> =
            chains.iter().map(|chain| fleet.recorded(files, chain)).collect();
        Ok((fleet, chains?))
    });
    let (fleet, recorded) = match found {
        Ok(found) => found,
        Err(outcome) => {
            report.put("F1", outcome);
            for id in requests.into_iter().filter(|id| *id != "F1") {
                report.unverifiable(id, "not looked into: the fleet log does not hold");
            }
            return;
        }
    };
    report.put("F1", fleet.covers(chains, &recorded));
    let mut proven_heads = Vec::new();
    match witnessed(&fleet, trust, (chains, &recorded)) {
        Some((outcome, times)) => {
            report.put("W1", outcome);
            proven_heads.extend(times);
        }
        None => {
            let why = "that a third party saw this log: the trust file names no witness";
            report.not_proven.push(why.into());
        }
    }
    let stamps = time::stamps(files, &fleet, trust);
    proven_heads.extend(stamps.vouched.iter().copied());
    if trust.tsa.is_empty() {
        if stamps.files > 0 {
            let why = "the stamps in it: the trust file names no time-stamping authority";
            report.not_proven.push(why.into());
        }
    } else {
        report.put("W2", stamps.outcome(chains, &recorded));
    }
    if report.hold(&["W1"]) || report.hold(&["W2"]) {
        let seen = proven_heads.iter().map(|vouched| vouched.size).max().unwrap_or_default();
        report.not_proven.extend(fleet.unseen(seen));
    }
    time::between(files, &fleet, trust, (chains, &recorded), &proven_heads, report);
}

/// W1: enough witnesses with different keys cosigned the fleet head, or another head of the fleet
/// log that has the enrolment and a head beyond the entries of every chain of the bundle. Also
/// returns the times by which a quorum had seen each head.
///
/// WHY another head is enough: a bundle that ends with that head would prove the same about the
/// chains. Only the log's own key vouches for later entries of the fleet log, and the report lists
/// them as not proven ([`Fleet::unseen`]).
fn witnessed(
    fleet: &Fleet,
    trust: &Trust,
    (chains, recorded): (&[AnchoredChain<'_>], &[Recorded]),
) -> Option<(Outcome, Vec<Vouched>)> {
    if trust.witnesses.is_empty() {
        return None;
    }
    let all = distinct(&trust.witnesses);
    let quorum = trust.quorum.unwrap_or(all);
    let mut proven_heads = Vec::new();
    let mut newest = None;
    let mut other: Option<(Seq, Outcome)> = None;
    for head in &fleet.heads {
        let times = match cosigned(head, fleet, trust) {
            Ok(times) => times,
            Err(why) => return Some((Outcome::Invalid(format!("`{}`: {why}", head.file)), vec![])),
        };
        // WHY: fewer than a quorum may be dishonest, so a time counts once a quorum has stated it.
        let by = quorum.checked_sub(1).and_then(|at| times.seconds.get(at)).copied();
        let by = by.map(|seconds| seconds.saturating_mul(1000));
        proven_heads.extend(by.map(|by| Vouched { size: head.checkpoint.size, by }));
        let (size, outcome) = (head.checkpoint.size, times.outcome(quorum, all));
        if head.file == fleet::NOTE {
            newest = Some(outcome);
        } else if let Outcome::Valid(text) = outcome
            && other.as_ref().is_none_or(|(before, _)| *before < size)
            && fleet.has(size, chains, recorded)
        {
            let text = format!("{text}; on the head of {}, `{}`", many(size, "entry"), head.file);
            other = Some((size, Outcome::Valid(text)));
        }
    }
    let newest = newest.unwrap_or_else(|| Outcome::Unverifiable("no fleet head".into()));
    let outcome = match (newest, other) {
        (Outcome::Unverifiable(_), Some((_, other))) => other,
        (newest, _) => newest,
    };
    Some((outcome, proven_heads))
}

/// How many different keys these are: one key under two names is one witness.
fn distinct(keys: &[VerifierKey]) -> usize {
    let mut raw: Vec<[u8; 32]> = keys.iter().map(|key| key.key.to_bytes()).collect();
    raw.sort_unstable();
    raw.dedup();
    raw.len()
}

/// Times of cosignatures on one head.
struct Cosigned {
    /// One for each witness, ascending, in seconds since 1970.
    seconds: Vec<i64>,
    /// Valid cosignatures that do not count because of their time.
    out_of_time: usize,
}

impl Cosigned {
    fn outcome(&self, quorum: usize, all: usize) -> Outcome {
        let have = self.seconds.len();
        let mut text = format!("{have} of {all} witnesses, quorum {quorum}");
        if self.out_of_time > 0 {
            let n = self.out_of_time;
            text.push_str(&format!(
                "; {n} not counted: before what they vouch for or in the future"
            ));
        }
        if have >= quorum { Outcome::Valid(text) } else { Outcome::Unverifiable(text) }
    }
}

/// The cosignatures of trusted witnesses on a head.
fn cosigned(head: &VouchedHead, fleet: &Fleet, trust: &Trust) -> Result<Cosigned, note::Error> {
    let (text, lines) = note::split(&head.note)?;
    let held = match note::verify(text, &lines, &trust.witnesses) {
        Ok(held) => held,
        Err(note::Error::Unsigned(_)) => Vec::new(),
        Err(error) => return Err(error),
    };
    let size = head.checkpoint.size;
    let log = Some(head.checkpoint.origin.as_str());
    let (from, to) = fleet.bounds(size, trust);
    let mut by_key: BTreeMap<[u8; 32], i64> = BTreeMap::new();
    let mut out_of_time: usize = 0;
    for held in held {
        let key = &held.key.key;
        if trust.revocation(Use::Witness, key, log).is_some_and(|size_max| size > size_max) {
            continue;
        }
        let seconds = held.time.and_then(|time| i64::try_from(time).ok()).unwrap_or(i64::MAX);
        let millis = seconds.saturating_mul(1000);
        if millis < from || millis > to {
            out_of_time = out_of_time.saturating_add(1);
            continue;
        }
        let entry = by_key.entry(key.to_bytes()).or_insert(seconds);
        *entry = (*entry).min(seconds);
    }
    let mut seconds: Vec<i64> = by_key.into_values().collect();
    seconds.sort_unstable();
    Ok(Cosigned { seconds, out_of_time })
}
