//! P4, of what operators signed: stops that were taken back, payloads that were erased, legal holds that ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::approvals::known;
use super::case::Case;
use super::flaw::{Bad, Flaw, Missing};
use super::log::SKEW_MILLIS;
use crate::approval::Signed;
use crate::approval::approvers::Purpose;
use crate::approval::order::{Loosening, Statement, Word, check as worth};
use crate::approvals::{order, order_list};
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::time::Timestamp;
use crate::entries::Line;
use crate::entries::approved::LATE_MILLIS;
use crate::record::chain::ChainGenesis;
use crate::record::control::{Action, ControlApplied};
use crate::record::payload::{HoldLifted, HoldPlaced, PayloadErased, Terms};
use crate::record::{BY_CLOCK, Int, Kind, Role};

/// What of it was found.
#[derive(Default)]
pub(super) struct Orders {
    /// Stops that were taken back.
    reinstated: usize,
    /// Entries that say what was erased by order.
    erased: usize,
    /// Holds that ended.
    released: usize,
    /// Entries that say what was older than it is kept.
    expired: usize,
    /// Seconds of the shortest term by which something was.
    shortest: Option<u64>,
    /// Why some of it cannot be told.
    pub missing: Option<Missing>,
}

impl std::fmt::Display for Orders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = [
            (self.reinstated, "stop taken back", "stops taken back"),
            (self.erased, "erasure", "erasures"),
            (self.released, "hold ended", "holds ended"),
        ];
        for (count, one, many) in counts.into_iter().filter(|(count, ..)| *count > 0) {
            let what = if count == 1 { one } else { many };
            write!(f, "; {count} {what} by an operator's own order")?;
        }
        let what = if self.expired == 1 { "erasure" } else { "erasures" };
        match (self.expired, self.shortest) {
            (0, _) | (_, None) => Ok(()),
            (n, Some(term)) => write!(f, "; {n} {what} by age, the shortest term is {term} s"),
        }
    }
}

/// Holds every entry that loosens against the order it names.
pub(super) fn check(case: &Case<'_>) -> Result<Orders, Flaw> {
    let mut orders = Orders::default();
    for strand in &case.strands {
        for line in strand.asked().filter(|line| line.is(Kind::ControlApplied)) {
            orders.take(line, reinstated(case, (line, strand.origin())))?;
        }
    }
    let Some(fleet) = &case.fleet else { return Ok(orders) };
    // F1 holds that against the head of the log.
    let genesis = fleet.lines.first().and_then(|line| line.get::<ChainGenesis>());
    let log = genesis.map_or("", |genesis| &genesis.origin);
    let runs = carried(case);
    let (mut used, mut version) = (BTreeSet::new(), 0);
    for line in &fleet.lines {
        let place = (line, log);
        let done = if line.is(Kind::PayloadErased) {
            erased(case, place, &runs)
        } else if line.is(Kind::HoldLifted) {
            released(case, place, &fleet.lines, &mut used)
        } else {
            continue;
        };
        if let Some(said) = order(line).and_then(|order| order.version) {
            if said < version {
                return Err(Flaw::Version(line.entry.seq, said, version));
            }
            version = said;
        }
        orders.take(line, done)?;
    }
    Ok(orders)
}

/// What one entry did.
enum Did {
    Nothing,
    Reinstated,
    Erased,
    /// By these seconds at least.
    Expired(u64),
    Released,
}

impl Orders {
    fn take(&mut self, line: &Line, did: Result<Did, Bad>) -> Result<(), Flaw> {
        let (kind, seq) = (|| line.kind().to_owned(), line.entry.seq);
        let count = match did {
            Ok(Did::Nothing) => return Ok(()),
            Ok(Did::Reinstated) => &mut self.reinstated,
            Ok(Did::Erased) => &mut self.erased,
            Ok(Did::Expired(term)) => {
                self.shortest = Some(self.shortest.map_or(term, |shortest| shortest.min(term)));
                &mut self.expired
            }
            Ok(Did::Released) => &mut self.released,
            Err(Bad::Invalid(flaw)) => return Err(Flaw::Entry(kind(), seq, Box::new(flaw))),
            Err(Bad::Unverifiable(missing)) => {
                self.missing = Some(Missing::Entry(kind(), seq, Box::new(missing)));
                return Ok(());
            }
        };
        *count = count.saturating_add(1);
        Ok(())
    }
}

fn invalid<T>(flaw: Flaw) -> Result<T, Bad> {
    Err(Bad::Invalid(flaw))
}

/// The order of an entry, if its signature holds and the entry says of it what it says.
fn ordered(case: &Case<'_>, (line, log): (&Line, &str), word: Word) -> Result<Loosening, Bad> {
    let said = order(line).ok_or(Flaw::Unsigned)?;
    let signature = said.signature.ok_or(Flaw::NoSignature)?;
    let (statement, signature) = (said.statement.to_owned(), signature.to_owned());
    let signed = Signed { statement, signature };
    let digest = order_list(line).ok_or(Flaw::NoList)?;
    let trust = case.trust;
    let list = known(case, (Purpose::Order, &digest), (&trust.approvers, &trust.approver_keys))?;
    let tenant = log.split('/').nth(1).unwrap_or_default();
    // An entry is made a moment after its order was judged.
    let ts = line.entry.ts;
    let before = Timestamp::from_millis(ts.millis().saturating_sub(LATE_MILLIS));
    let found = worth(&list, (tenant, &[word]), &signed, ts)
        .or_else(|_| worth(&list, (tenant, &[word]), &signed, before))?;
    let by = found.by();
    if said.subject != Some(&by.subject) || said.key != Some(&by.key) {
        return invalid(Flaw::Differ("subject or key", "signature"));
    }
    if said.version.is_some_and(|version| version != found.version()) {
        return invalid(Flaw::ListVersion);
    }
    let lifted = line.get::<HoldLifted>().map(|lifted| &lifted.reason);
    let reason = lifted.or_else(|| line.get::<PayloadErased>().map(|erased| &erased.basis));
    if reason.is_some_and(|reason| reason.as_str() != found.statement().reason) {
        return invalid(Flaw::Other("reason"));
    }
    Ok(found)
}

/// Whether a stop that a gate took back was taken back by an operator.
fn reinstated(case: &Case<'_>, (line, log): (&Line, &str)) -> Result<Did, Bad> {
    let applied = line.get::<ControlApplied>();
    let Some(applied) = applied.filter(|applied| applied.action == Action::Reinstate) else {
        return match order(line) {
            None => Ok(Did::Nothing),
            Some(_) => invalid(Flaw::Idle),
        };
    };
    let found = ordered(case, (line, log), Word::Reinstate)?;
    let said = found.statement();
    let target = (said.target.as_str(), said.name.as_str());
    let same = (applied.target.as_str(), applied.name.as_str()) == target;
    if !same || applied.expires != said.expires {
        return invalid(Flaw::Target);
    }
    if applied.after.map(Int::get) == Some(said.previous.seq) {
        Ok(Did::Reinstated)
    } else {
        invalid(Flaw::After)
    }
}

/// The runs, roles and times of what the entries here commit to.
type Carried = BTreeMap<Digest, Vec<(RunId, Role, Timestamp)>>;

fn carried(case: &Case<'_>) -> Carried {
    let mut carried = Carried::new();
    for line in case.strands.iter().flat_map(|strand| &strand.lines) {
        let Some(link) = &line.entry.run else { continue };
        for said in &line.entry.draft.commit {
            let place = (link.run, said.role, line.entry.ts);
            carried.entry(said.c.0).or_default().push(place);
        }
    }
    carried
}

/// Whether what was erased is what somebody ordered to be erased, or was old enough.
fn erased(case: &Case<'_>, place: (&Line, &str), carried: &Carried) -> Result<Did, Bad> {
    let (line, _) = place;
    let Some(entry) = line.get::<PayloadErased>() else { return Ok(Did::Nothing) };
    let list: Vec<Digest> = entry.c.iter().map(|c| c.0).collect();
    if entry.order.is_none() && entry.basis == BY_CLOCK {
        let terms = entry.terms.as_ref().ok_or(Flaw::Names("term"))?;
        for (c, places) in list.iter().filter_map(|c| Some((c, carried.get(c)?))) {
            if !places.iter().any(|(_, role, ts)| due(terms, *role, *ts, line.entry.ts)) {
                return invalid(Flaw::Young(*c));
            }
        }
        let named = terms.roles.iter().map(|term| term.seconds.get());
        return Ok(Did::Expired(named.fold(terms.other.get(), u64::min)));
    }
    let found = ordered(case, place, Word::Erase)?;
    let said = found.statement();
    if entry.request.as_deref() != said.request.as_deref() {
        return invalid(Flaw::Other("request"));
    }
    match list.iter().find(|c| !meant(said, c, carried)) {
        Some(c) => invalid(Flaw::NotOrdered(*c)),
        None => Ok(Did::Erased),
    }
}

/// Whether an order is about this payload, as far as the entries here tell.
fn meant(said: &Statement, c: &Digest, carried: &Carried) -> bool {
    if said.target == "payloads" {
        return said.payloads.contains(c);
    }
    let Some(places) = carried.get(c) else { return true };
    let role = |of: Role| said.role.as_ref().is_none_or(|role| role == of.as_str());
    places.iter().any(|(run, of, _)| run.to_string() == said.name && role(*of))
}

/// Whether a payload of this role and time was old enough.
fn due(terms: &Terms, role: Role, ts: Timestamp, at: Timestamp) -> bool {
    let named = terms.roles.iter().find(|term| term.role == role.as_str());
    let seconds = named.map_or(terms.other, |term| term.seconds);
    let due = ts.plus(Duration::from_secs(seconds.get()));
    at.millis().saturating_add(SKEW_MILLIS) >= due.millis()
}

/// Whether a hold ended by order, and was there when that was signed.
fn released(
    case: &Case<'_>,
    place: (&Line, &str),
    all: &[Line],
    used: &mut BTreeSet<Digest>,
) -> Result<Did, Bad> {
    let found = ordered(case, place, Word::Release)?;
    let (said, line) = (found.statement(), place.0);
    let Some(lifted) = line.get::<HoldLifted>() else { return Ok(Did::Nothing) };
    let on = match lifted.run {
        Some(run) => ("run", run.to_string()),
        None => ("log", lifted.log.to_string()),
    };
    if on != (said.target.as_str(), said.name.clone()) {
        return invalid(Flaw::OtherHold);
    }
    if !used.insert(Digest::of(&[found.signed().statement.as_bytes()])) {
        return invalid(Flaw::Obeyed);
    }
    let same = |one: &&Line| {
        let placed = one.get::<HoldPlaced>();
        one.entry.seq < line.entry.seq
            && placed.is_some_and(|one| (&one.log, one.run) == (&lifted.log, lifted.run))
    };
    let placed = all.iter().filter(same).map(|one| one.entry.seq).max();
    if placed.is_some_and(|placed| placed >= said.previous.seq) {
        return invalid(Flaw::Placed);
    }
    Ok(Did::Released)
}
