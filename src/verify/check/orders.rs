//! P4, for operators' signatures: stops that ended, payloads that were erased, legal holds that
//! ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::approvals::known;
use super::case::Case;
use super::exceptions::{Decided, excused, has_exceptions};
use super::flaw::{Bad, Missing, SignatureFlaw};
use super::log::SKEW_MILLIS;
use crate::approval::approvers::Purpose;
use crate::approval::order::{Loosening, OrderKind, OrderStatement, check as worth};
use crate::approval::{Approvers, SignedApproval};
use crate::approvals::{order, order_list};
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::time::Timestamp;
use crate::entries::EntryLine;
use crate::entries::approved::LATE_MILLIS;
use crate::record::chain::ChainGenesis;
use crate::record::control::{Action, ControlApplied};
use crate::record::payload::{HoldLifted, HoldPlaced, PayloadErased, Terms};
use crate::record::{BY_CLOCK, Int, Kind, Role};

/// The findings.
#[derive(Default)]
pub(super) struct Orders {
    /// Stops that an operator ended.
    reinstated: usize,
    /// Entries that record erasures by order.
    erased: usize,
    /// Holds that ended.
    released: usize,
    /// Entries that record erasures by age.
    expired: usize,
    /// The shortest retention term applied, in seconds.
    shortest: Option<u64>,
    /// Values that an operator let pass the firewall.
    allowed: usize,
    /// Calls and answers in which one passed.
    excused: usize,
    /// What is missing to check some of it.
    pub missing: Option<Missing>,
}

impl std::fmt::Display for Orders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = [
            (self.reinstated, "stop taken back", "stops taken back"),
            (self.erased, "erasure", "erasures"),
            (self.released, "hold ended", "holds ended"),
            (self.allowed, "exception of the firewall", "exceptions of the firewall"),
            (self.excused, "value let past the firewall", "values let past the firewall"),
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

/// Checks every loosening entry against the order it names.
pub(super) fn check(case: &Case<'_>) -> Result<Orders, SignatureFlaw> {
    let mut orders = Orders::default();
    for slice in &case.slices {
        for line in slice.selected().filter(|line| line.is(Kind::ControlApplied)) {
            orders.take(line, reinstated(case, (line, slice.origin())))?;
        }
        let decided = Decided::of(slice.selected());
        for line in slice.selected().filter(|line| has_exceptions(line)) {
            let place = (line, slice.origin());
            orders.take(line, excused(case, place, &decided))?;
        }
    }
    let Some(fleet) = &case.fleet else { return Ok(orders) };
    // F1 checks this against the head of the log.
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
        if let Some(recorded) = order(line).and_then(|order| order.version) {
            if recorded < version {
                return Err(SignatureFlaw::Version(line.entry.seq, recorded, version));
            }
            version = recorded;
        }
        orders.take(line, done)?;
    }
    Ok(orders)
}

/// The action of one entry.
pub(super) enum OrderAction {
    Nothing,
    Reinstated,
    Erased,
    /// Expired after at least these seconds.
    Expired(u64),
    Released,
    Allowed,
    Excused,
}

impl Orders {
    fn take(
        &mut self,
        line: &EntryLine,
        action: Result<OrderAction, Bad>,
    ) -> Result<(), SignatureFlaw> {
        let (kind, seq) = (|| line.kind().to_owned(), line.entry.seq);
        let count = match action {
            Ok(OrderAction::Nothing) => return Ok(()),
            Ok(OrderAction::Reinstated) => &mut self.reinstated,
            Ok(OrderAction::Erased) => &mut self.erased,
            Ok(OrderAction::Expired(term)) => {
                self.shortest = Some(self.shortest.map_or(term, |shortest| shortest.min(term)));
                &mut self.expired
            }
            Ok(OrderAction::Released) => &mut self.released,
            Ok(OrderAction::Allowed) => &mut self.allowed,
            Ok(OrderAction::Excused) => &mut self.excused,
            Err(Bad::Invalid(flaw)) => {
                return Err(SignatureFlaw::Entry(kind(), seq, Box::new(flaw)));
            }
            Err(Bad::Unverifiable(missing)) => {
                self.missing = Some(Missing::Entry(kind(), seq, Box::new(missing)));
                return Ok(());
            }
        };
        *count = count.saturating_add(1);
        Ok(())
    }
}

fn invalid<T>(flaw: SignatureFlaw) -> Result<T, Bad> {
    Err(Bad::Invalid(flaw))
}

/// A list of approvers that an entry of this chain names, if the verifier trusts it.
pub(super) fn trusted_list(case: &Case<'_>, digest: &Digest) -> Result<Approvers, Bad> {
    let trust = case.trust;
    known(case, (Purpose::Order, digest), (&trust.approvers, &trust.approver_keys))
}

/// The order of an entry, if its signature is valid and the entry describes it correctly.
fn ordered(
    case: &Case<'_>,
    (line, log): (&EntryLine, &str),
    kind: OrderKind,
) -> Result<Loosening, Bad> {
    let recorded = order(line).ok_or(SignatureFlaw::Unsigned)?;
    let signature = recorded.signature.ok_or(SignatureFlaw::NoSignature)?;
    let (statement, signature) = (recorded.statement.to_owned(), signature.to_owned());
    let signed = SignedApproval { statement, signature };
    let digest = order_list(line).ok_or(SignatureFlaw::NoList)?;
    let list = trusted_list(case, &digest)?;
    let tenant = log.split('/').nth(1).unwrap_or_default();
    // The gate writes the entry a moment after it checked the order.
    let ts = line.entry.ts;
    let before = Timestamp::from_millis(ts.millis().saturating_sub(LATE_MILLIS));
    let found = worth(&list, (tenant, &[kind]), &signed, ts)
        .or_else(|_| worth(&list, (tenant, &[kind]), &signed, before))?;
    let by = found.by();
    if recorded.subject != Some(&by.subject) || recorded.key != Some(&by.key) {
        return invalid(SignatureFlaw::Differ("subject or key", "signature"));
    }
    if recorded.version.is_some_and(|version| version != found.version()) {
        return invalid(SignatureFlaw::ListVersion);
    }
    let lifted = line.get::<HoldLifted>().map(|lifted| &lifted.reason);
    let reason = lifted.or_else(|| line.get::<PayloadErased>().map(|erased| &erased.basis));
    if reason.is_some_and(|reason| reason.as_str() != found.statement().reason) {
        return invalid(SignatureFlaw::Other("reason"));
    }
    Ok(found)
}

/// Whether an operator ended a stop that a gate ended, or let a value pass that a gate lets pass.
fn reinstated(case: &Case<'_>, (line, log): (&EntryLine, &str)) -> Result<OrderAction, Bad> {
    let applied = line.get::<ControlApplied>();
    let kind_of = |applied: &&ControlApplied| match applied.action {
        Action::Reinstate => Some((OrderKind::Reinstate, OrderAction::Reinstated)),
        Action::Allow => Some((OrderKind::Allow, OrderAction::Allowed)),
        Action::Suspend
        | Action::Revoke
        | Action::Kill
        | Action::Disallow
        | Action::BreakGlass
        | Action::Note => None,
    };
    let found = applied.and_then(|applied| Some((applied, kind_of(&applied)?)));
    let Some((applied, (kind, action))) = found else {
        return match order(line) {
            None => Ok(OrderAction::Nothing),
            Some(_) => invalid(SignatureFlaw::Idle),
        };
    };
    let found = ordered(case, (line, log), kind)?;
    let statement = found.statement();
    let target = (statement.target.as_str(), statement.name.as_str());
    let same = (applied.target.as_str(), applied.name.as_str()) == target;
    if !same || applied.expires != statement.expires {
        return invalid(SignatureFlaw::Target);
    }
    if applied.after.map(Int::get) == Some(statement.previous.seq) {
        Ok(action)
    } else {
        invalid(SignatureFlaw::After)
    }
}

/// The runs, roles and times of the commitments in these entries.
type CommittedRuns = BTreeMap<Digest, Vec<(RunId, Role, Timestamp)>>;

fn carried(case: &Case<'_>) -> CommittedRuns {
    let mut carried = CommittedRuns::new();
    for line in case.slices.iter().flat_map(|slice| &slice.lines) {
        let Some(link) = &line.entry.run else { continue };
        for commitment in &line.entry.draft.commit {
            let place = (link.run, commitment.role, line.entry.ts);
            carried.entry(commitment.c.0).or_default().push(place);
        }
    }
    carried
}

/// Whether the erased payloads were named in an operator's order, or were old enough.
fn erased(
    case: &Case<'_>,
    place: (&EntryLine, &str),
    carried: &CommittedRuns,
) -> Result<OrderAction, Bad> {
    let (line, _) = place;
    let Some(entry) = line.get::<PayloadErased>() else { return Ok(OrderAction::Nothing) };
    let list: Vec<Digest> = entry.c.iter().map(|c| c.0).collect();
    if entry.order.is_none() && entry.basis == BY_CLOCK {
        let terms = entry.terms.as_ref().ok_or(SignatureFlaw::Names("term"))?;
        for (c, places) in list.iter().filter_map(|c| Some((c, carried.get(c)?))) {
            if !places.iter().any(|(_, role, ts)| due(terms, *role, *ts, line.entry.ts)) {
                return invalid(SignatureFlaw::Young(*c));
            }
        }
        let named = terms.roles.iter().map(|term| term.seconds.get());
        return Ok(OrderAction::Expired(named.fold(terms.other.get(), u64::min)));
    }
    let found = ordered(case, place, OrderKind::Erase)?;
    let statement = found.statement();
    if entry.request.as_deref() != statement.request.as_deref() {
        return invalid(SignatureFlaw::Other("request"));
    }
    match list.iter().find(|c| !meant(statement, c, carried)) {
        Some(c) => invalid(SignatureFlaw::NotOrdered(*c)),
        None => Ok(OrderAction::Erased),
    }
}

/// Whether an order covers this payload, as far as these entries show.
fn meant(statement: &OrderStatement, c: &Digest, carried: &CommittedRuns) -> bool {
    if statement.target == "payloads" {
        return statement.payloads.contains(c);
    }
    let Some(places) = carried.get(c) else { return true };
    let role = |of: Role| statement.role.as_ref().is_none_or(|role| role == of.as_str());
    places.iter().any(|(run, of, _)| run.to_string() == statement.name && role(*of))
}

/// Whether a payload of this role and time was old enough.
fn due(terms: &Terms, role: Role, ts: Timestamp, at: Timestamp) -> bool {
    let named = terms.roles.iter().find(|term| term.role == role.as_str());
    let seconds = named.map_or(terms.other, |term| term.seconds);
    let due = ts.plus(Duration::from_secs(seconds.get()));
    at.millis().saturating_add(SKEW_MILLIS) >= due.millis()
}

/// Whether a hold ended by order, and existed when the order was signed.
fn released(
    case: &Case<'_>,
    place: (&EntryLine, &str),
    all: &[EntryLine],
    used: &mut BTreeSet<Digest>,
) -> Result<OrderAction, Bad> {
    let found = ordered(case, place, OrderKind::Release)?;
    let (statement, line) = (found.statement(), place.0);
    let Some(lifted) = line.get::<HoldLifted>() else { return Ok(OrderAction::Nothing) };
    let on = match lifted.run {
        Some(run) => ("run", run.to_string()),
        None => ("log", lifted.log.to_string()),
    };
    if on != (statement.target.as_str(), statement.name.clone()) {
        return invalid(SignatureFlaw::OtherHold);
    }
    if !used.insert(Digest::of(&[found.signed().statement.as_bytes()])) {
        return invalid(SignatureFlaw::Used);
    }
    let same = |one: &&EntryLine| {
        let placed = one.get::<HoldPlaced>();
        one.entry.seq < line.entry.seq
            && placed.is_some_and(|one| (&one.log, one.run) == (&lifted.log, lifted.run))
    };
    let placed = all.iter().filter(same).map(|one| one.entry.seq).max();
    if placed.is_some_and(|placed| placed >= statement.previous.seq) {
        return invalid(SignatureFlaw::Placed);
    }
    Ok(OrderAction::Released)
}
