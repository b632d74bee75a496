//! W2 and C1: stamps of authorities, and the time bounds of each entry.

use super::fleet::Fleet;
use super::{AnchoredChain, Recorded, Vouched, VouchedHead, cosigned};
use crate::bundle::Files;
use crate::check::report::{Outcome, Report};
use crate::crypto::tsp::{self, ExpectedResponse, Fault, Stamp};
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::entries::EntryLine;
use crate::record::chain::AnchorObserved;
use crate::trust::Trust;

/// The result of checking a bundle's stamps.
#[derive(Default)]
pub(super) struct Stamps {
    /// Stamps in the bundle.
    pub(super) files: usize,
    /// Those that are valid.
    pub(super) vouched: Vec<Vouched>,
    authorities: Vec<String>,
    problem: Option<String>,
    unknown: Option<String>,
}

/// Checks every stamp in the bundle against the head beside it.
pub(super) fn stamps(files: &Files, fleet: &Fleet, trust: &Trust) -> Stamps {
    let mut stamps = Stamps::default();
    for (name, bytes) in &files.0 {
        let stem = name.strip_prefix("anchors/").and_then(|rest| rest.strip_suffix(".tsr"));
        let Some(stem) = stem else { continue };
        stamps.files = stamps.files.saturating_add(1);
        if trust.tsa.is_empty() {
            continue;
        }
        let note_name = format!("anchors/{stem}.txt");
        let untied = fleet.untied.iter().find(|(file, _)| *file == note_name);
        if let Some((file, why)) = untied {
            stamps.unknown.get_or_insert(format!("`{file}`: {why}"));
            continue;
        }
        let Some(head) = fleet.heads.iter().find(|head| head.file == note_name) else {
            stamps.problem.get_or_insert(format!("`{name}` has no `{note_name}` beside it"));
            continue;
        };
        match stamp(bytes, head, fleet, trust) {
            Ok(stamp) => {
                let by = stamp.millis.saturating_add(stamp.accuracy_millis);
                stamps.vouched.push(Vouched { size: head.checkpoint.size, by });
                if !stamps.authorities.contains(&stamp.authority) {
                    stamps.authorities.push(stamp.authority);
                }
            }
            Err(Fault::Invalid(why)) => {
                stamps.problem.get_or_insert(format!("`{name}`: {why}"));
            }
            Err(Fault::Unknown(why)) => {
                stamps.unknown.get_or_insert(format!("`{name}`: {why}"));
            }
        }
    }
    stamps
}

/// A stamp over a head; its time is after that of the head's entries, and not in the future.
fn stamp(bytes: &[u8], head: &VouchedHead, fleet: &Fleet, trust: &Trust) -> Result<Stamp, Fault> {
    let imprint = Digest::of(&[head.checkpoint.body().as_bytes()]);
    let stamp =
        tsp::verify(bytes, ExpectedResponse { imprint: &imprint, nonce: None }, &trust.tsa)?;
    let (from, to) = fleet.bounds(head.checkpoint.size, trust);
    let (earliest, latest) = (
        stamp.millis.saturating_sub(stamp.accuracy_millis),
        stamp.millis.saturating_add(stamp.accuracy_millis),
    );
    if latest < from {
        return Err(Fault::Invalid("entries of the fleet log are dated after their stamp".into()));
    }
    if earliest > to {
        return Err(Fault::Invalid("it lies in the future of this machine".into()));
    }
    Ok(stamp)
}

impl Stamps {
    /// W2.
    pub(super) fn outcome(&self, chains: &[AnchoredChain<'_>], recorded: &[Recorded]) -> Outcome {
        if let Some(why) = &self.problem {
            return Outcome::Invalid(why.clone());
        }
        if self.vouched.is_empty() {
            let none = || "the bundle has no time stamp".to_owned();
            return Outcome::Unverifiable(self.unknown.clone().unwrap_or_else(none));
        }
        let open = chains.iter().zip(recorded).find(|(chain, recorded)| {
            let last = chain.lines.last().map(|line| line.entry.seq);
            last.is_some_and(|last| until(last, recorded, &self.vouched).is_none())
        });
        match open {
            Some((chain, _)) => {
                let log = &chain.checkpoint.origin;
                Outcome::Unverifiable(format!("no stamp is over all these entries of `{log}`"))
            }
            None => {
                let who = self.authorities.join("; ");
                Outcome::Valid(format!("{} by {who}", many(self.vouched.len(), "stamp")))
            }
        }
    }
}

/// The time by which another party had seen this entry, in milliseconds since 1970.
fn until(seq: Seq, recorded: &Recorded, vouched: &[Vouched]) -> Option<i64> {
    // The first place in the fleet log that has a head beyond the entry.
    let place = recorded.iter().filter(|(_, size)| *size > seq).map(|(place, _)| *place).min()?;
    vouched.iter().filter(|head| head.size > place).map(|head| head.by).min()
}

/// C1: every entry lies between the newest token before it and the earliest statement of another
/// party over it.
pub(super) fn between(
    files: &Files,
    fleet: &Fleet,
    trust: &Trust,
    (chains, recorded): (&[AnchoredChain<'_>], &[Recorded]),
    vouched: &[Vouched],
    report: &mut Report,
) {
    let Some(Outcome::Valid(before)) = report.outcome("C1").cloned() else { return };
    let mut seen = TimeBounds::default();
    for (chain, recorded) in chains.iter().zip(recorded) {
        let mut after = None;
        for line in chain.lines {
            let (seq, ts) = (line.entry.seq, line.entry.ts.millis());
            let by = until(seq, recorded, vouched);
            let violated = match (after, by) {
                (Some(after), _) if ts < i64::saturating_sub(after, trust.skew()) => {
                    Some(("before", after))
                }
                (_, Some(by)) if ts > by.saturating_add(trust.skew()) => Some(("after", by)),
                _ => None,
            };
            if let Some((name, other)) = violated {
                let (at, other) = (line.entry.ts, Timestamp::from_millis(other));
                let why = format!("seq {seq} is dated {at}, {name} {other} that others vouch for");
                return report.set("C1", Outcome::Invalid(why));
            }
            seen.add(after, by);
            after = after.max(token(files, fleet, trust, line));
        }
    }
    if let Some(text) = seen.text() {
        report.set("C1", Outcome::Valid(format!("{before}; {text}")));
        report.timed = true;
    }
}

/// The time bounds of entries.
#[derive(Default)]
struct TimeBounds {
    by: usize,
    both: usize,
    all: usize,
    latest: Option<i64>,
    earliest: Option<i64>,
    widest: i64,
}

impl TimeBounds {
    fn add(&mut self, after: Option<i64>, by: Option<i64>) {
        self.all = self.all.saturating_add(1);
        if let Some(by) = by {
            self.by = self.by.saturating_add(1);
            self.latest = self.latest.max(Some(by));
        }
        if let (Some(after), Some(by)) = (after, by) {
            self.both = self.both.saturating_add(1);
            self.earliest = Some(self.earliest.map_or(after, |earliest| earliest.min(after)));
            self.widest = self.widest.max(by.saturating_sub(after));
        }
    }

    fn text(&self) -> Option<String> {
        let latest = Timestamp::from_millis(self.latest?);
        let mut text = format!("others had seen {} of {} entries by {latest}", self.by, self.all);
        if let Some(earliest) = self.earliest {
            let (earliest, widest) = (Timestamp::from_millis(earliest), self.widest / 1000);
            text.push_str(&format!(
                ", {} of them lie after {earliest}, within {widest} s at most",
                self.both
            ));
        }
        Some(text)
    }
}

/// The time of the token that an `anchor.observed` names, if the bundle has it and it is valid:
/// later entries of the chain were written after it.
fn token(files: &Files, fleet: &Fleet, trust: &Trust, line: &EntryLine) -> Option<i64> {
    let observed = line.get::<AnchorObserved>()?;
    let wanted = observed.token.0;
    let (name, bytes) = files.0.iter().find(|(name, bytes)| {
        (name.starts_with("anchors/") || *name == super::fleet::NOTE)
            && Digest::of(&[bytes]) == wanted
    })?;
    let note_name = match name.strip_suffix(".tsr") {
        Some(stem) => format!("{stem}.txt"),
        None => name.clone(),
    };
    let head = fleet.heads.iter().find(|head| head.file == note_name)?;
    let same = observed.size.get() == head.checkpoint.size
        && observed.root.0 == head.checkpoint.root
        && observed.log.as_str() == head.checkpoint.origin;
    if !same {
        return None;
    }
    if name.ends_with(".tsr") {
        let stamp = stamp(bytes, head, fleet, trust).ok()?;
        return Some(stamp.millis.saturating_sub(stamp.accuracy_millis));
    }
    // The note was complete only after the last of its lines was made.
    let times = cosigned(head, fleet, trust).ok()?;
    times.seconds.last().map(|seconds| seconds.saturating_mul(1000))
}
