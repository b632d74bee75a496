//! P4, of what operators signed: stops that were taken back, payloads that were erased, legal holds that ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::approvals::{Bad, known};
use super::case::Case;
use super::log::SKEW_MILLIS;
use crate::approval::Signed;
use crate::approval::approvers::Purpose;
use crate::approval::order::{Loosening, Statement, Word, check as worth};
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::domain::time::Timestamp;
use crate::evidence::approvals::{order, order_list};
use crate::ledger::entry::{BY_CLOCK, Kind};
use crate::ledger::verify::Line;
use crate::ledger::verify::approved::LATE_MILLIS;

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
    pub missing: Option<String>,
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
pub(super) fn check(case: &Case<'_>) -> Result<Orders, String> {
    let mut orders = Orders::default();
    for strand in &case.strands {
        for line in strand.asked().filter(|line| line.is(Kind::ControlApplied)) {
            orders.take(line, reinstated(case, (line, strand.origin())))?;
        }
    }
    let Some(fleet) = &case.fleet else { return Ok(orders) };
    // F1 holds that against the head of the log.
    let log = fleet.lines.first().and_then(|genesis| genesis.text("origin")).unwrap_or_default();
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
        let said = line.entry.draft.data.get("order");
        if let Some(said) = said.and_then(|said| said.get("version")).and_then(Json::as_u64) {
            if said < version {
                let seq = line.entry.seq;
                return Err(format!(
                    "fleet seq {seq}: version {said} of a list follows version {version}"
                ));
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
    fn take(&mut self, line: &Line, did: Result<Did, Bad>) -> Result<(), String> {
        let at = |why: String| format!("`{}` seq {}: {why}", line.kind(), line.entry.seq);
        let count = match did {
            Ok(Did::Nothing) => return Ok(()),
            Ok(Did::Reinstated) => &mut self.reinstated,
            Ok(Did::Erased) => &mut self.erased,
            Ok(Did::Expired(term)) => {
                self.shortest = Some(self.shortest.map_or(term, |shortest| shortest.min(term)));
                &mut self.expired
            }
            Ok(Did::Released) => &mut self.released,
            Err(Bad::Invalid(why)) => return Err(at(why)),
            Err(Bad::Unverifiable(why)) => {
                self.missing = Some(at(why));
                return Ok(());
            }
        };
        *count = count.saturating_add(1);
        Ok(())
    }
}

fn invalid<T>(why: impl Into<String>) -> Result<T, Bad> {
    Err(Bad::Invalid(why.into()))
}

/// The order of an entry, if its signature holds and the entry says of it what it says.
fn ordered(case: &Case<'_>, (line, log): (&Line, &str), word: Word) -> Result<Loosening, Bad> {
    let data = &line.entry.draft.data;
    let Some(said) = order(line) else { return invalid("nobody signed it") };
    let text = |name: &str| said.get(name).and_then(Json::as_str).map(str::to_owned);
    let (statement, signature) = text("statement")
        .zip(text("signature"))
        .ok_or_else(|| "its order has no statement and signature".to_owned())?;
    let signed = Signed { statement, signature };
    let digest =
        order_list(line).ok_or_else(|| "its order names no list of approvers".to_owned())?;
    let trust = case.trust;
    let list = known(case, (Purpose::Order, &digest), (&trust.approvers, &trust.approver_keys))?;
    let tenant = log.split('/').nth(1).unwrap_or_default();
    // An entry is made a moment after its order was judged.
    let ts = line.entry.ts;
    let before = Timestamp::from_millis(ts.millis().saturating_sub(LATE_MILLIS));
    let found = worth(&list, (tenant, &[word]), &signed, ts)
        .or_else(|_| worth(&list, (tenant, &[word]), &signed, before))
        .map_err(|refused| refused.to_string())?;
    let (by, version) = (found.by(), said.get("version").and_then(Json::as_u64));
    if text("subject").as_ref() != Some(&by.subject) || text("key").as_ref() != Some(&by.key) {
        return invalid("subject or key are not those of the signature");
    }
    if version.is_some_and(|version| version != found.version()) {
        return invalid("the version of the list is another");
    }
    let reason = data.get("reason").or_else(|| data.get("basis")).and_then(Json::as_str);
    if reason.is_some_and(|reason| reason != found.statement().reason) {
        return invalid("the reason is not the one that was signed");
    }
    Ok(found)
}

/// Whether a stop that a gate took back was taken back by an operator.
fn reinstated(case: &Case<'_>, (line, log): (&Line, &str)) -> Result<Did, Bad> {
    if line.text("action") != Some("reinstate") {
        return match order(line) {
            None => Ok(Did::Nothing),
            Some(_) => invalid("it names an order and takes back nothing"),
        };
    }
    let found = ordered(case, (line, log), Word::Reinstate)?;
    let said = found.statement();
    let target = (Some(said.target.as_str()), Some(said.name.as_str()));
    let expires = line.text("expires").map(Timestamp::parse);
    if (line.text("target"), line.text("name")) != target || expires.flatten() != said.expires {
        return invalid("its target or its end are not those of the order");
    }
    let after = line.entry.draft.data.get("after").and_then(Json::as_u64);
    if after == Some(said.previous.seq) {
        Ok(Did::Reinstated)
    } else {
        invalid("`after` is not what the order speaks after")
    }
}

/// The runs, roles and times of what the entries here commit to.
type Carried<'a> = BTreeMap<Digest, Vec<(RunId, &'a str, Timestamp)>>;

fn carried<'a>(case: &'a Case<'_>) -> Carried<'a> {
    let mut carried = Carried::new();
    for line in case.strands.iter().flat_map(|strand| &strand.lines) {
        let Some(link) = &line.entry.run else { continue };
        for said in &line.entry.draft.commit {
            let place = (link.run, said.role.as_str(), line.entry.ts);
            carried.entry(said.c).or_default().push(place);
        }
    }
    carried
}

/// Whether what was erased is what somebody ordered to be erased, or was old enough.
fn erased(case: &Case<'_>, place: (&Line, &str), carried: &Carried<'_>) -> Result<Did, Bad> {
    let (line, _) = place;
    let list = line.entry.draft.data.get("c").and_then(Json::as_array).unwrap_or_default();
    let list = list.iter().map(|c| c.as_str().and_then(Digest::parse)).collect::<Option<Vec<_>>>();
    let list = list.ok_or_else(|| "it names no payloads".to_owned())?;
    if order(line).is_none() && line.text("basis") == Some(BY_CLOCK) {
        let terms = line.entry.draft.data.get("terms");
        let terms = terms.ok_or_else(|| "it names no term".to_owned())?;
        for (c, places) in list.iter().filter_map(|c| Some((c, carried.get(c)?))) {
            if !places.iter().any(|(_, role, ts)| due(terms, role, *ts, line.entry.ts)) {
                return invalid(format!("{c} was younger than it is kept"));
            }
        }
        let shortest = seconds(terms).into_iter().min();
        return shortest.map(Did::Expired).ok_or_else(|| Bad::Invalid("it names no term".into()));
    }
    let found = ordered(case, place, Word::Erase)?;
    let said = found.statement();
    if line.text("request") != said.request.as_deref() {
        return invalid("the request is not the one that was signed");
    }
    match list.iter().find(|c| !meant(said, c, carried)) {
        Some(c) => invalid(format!("{c} is not what was ordered to be erased")),
        None => Ok(Did::Erased),
    }
}

/// Whether an order is about this payload, as far as the entries here tell.
fn meant(said: &Statement, c: &Digest, carried: &Carried<'_>) -> bool {
    if said.target == "payloads" {
        return said.payloads.contains(c);
    }
    let Some(places) = carried.get(c) else { return true };
    let role = |of: &str| said.role.as_ref().is_none_or(|role| role == of);
    places.iter().any(|(run, of, _)| run.to_string() == said.name && role(of))
}

/// Every term that an entry names, in seconds.
fn seconds(terms: &Json) -> Vec<u64> {
    let roles = terms.get("roles").and_then(Json::as_array).unwrap_or_default();
    let named = roles.iter().map(|one| one.get("seconds"));
    named.chain([terms.get("other")]).filter_map(|term| term.and_then(Json::as_u64)).collect()
}

/// Whether a payload of this role and time was old enough.
fn due(terms: &Json, role: &str, ts: Timestamp, at: Timestamp) -> bool {
    let named = terms.get("roles").and_then(Json::as_array).unwrap_or_default();
    let named = named.iter().find(|one| one.get("role").and_then(Json::as_str) == Some(role));
    let seconds = named.map_or_else(|| terms.get("other"), |one| one.get("seconds"));
    let Some(seconds) = seconds.and_then(Json::as_u64) else { return false };
    let due = ts.plus(Duration::from_secs(seconds));
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
    let on = match line.text("run") {
        Some(run) => ("run", Some(run)),
        None => ("log", line.text("log")),
    };
    if on != (said.target.as_str(), Some(said.name.as_str())) {
        return invalid("it is not the hold that was ordered to end");
    }
    if !used.insert(Digest::of(&[found.signed().statement.as_bytes()])) {
        return invalid("its order was obeyed before");
    }
    let same = |one: &&Line| {
        one.is(Kind::HoldPlaced)
            && one.entry.seq < line.entry.seq
            && (one.text("log"), one.text("run")) == (line.text("log"), line.text("run"))
    };
    let placed = all.iter().filter(same).map(|one| one.entry.seq).max();
    if placed.is_some_and(|placed| placed >= said.previous.seq) {
        return invalid("the hold was placed after its order was signed");
    }
    Ok(Did::Released)
}
