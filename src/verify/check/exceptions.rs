//! P4, for values that passed the firewall: an operator signed that each of them may, in this place and until
//! then.

use std::collections::BTreeMap;

use super::case::Case;
use super::flaw::{Bad, SignatureFlaw};
use super::log::SKEW_MILLIS;
use super::orders::{OrderAction, trusted_list};
use crate::approval::order::{AllowedFinding, OrderKind, OrderStatement, check as worth};
use crate::approval::{SignedApproval, Statement as _};
use crate::approvals::{Passed, passed};
use crate::domain::guarded::GuardAction;
use crate::domain::id::{CallId, RunId};
use crate::domain::time::Timestamp;
use crate::entries::EntryLine;
use crate::firewall::{Class, class_of};
use crate::record::call::{GuardedFinding, UsedException};

/// Bytes of a path that may be the beginning of a longer one.
const CUT_FROM: usize = 252;

/// When each call of a chain was decided: its answer is searched by the orders of that time.
#[derive(Default)]
pub(super) struct Decided<'a>(BTreeMap<(RunId, &'a CallId), Timestamp>);

impl<'a> Decided<'a> {
    /// The last decision about each call.
    pub fn of(lines: impl Iterator<Item = &'a EntryLine>) -> Self {
        let decided = lines.filter_map(|line| {
            line.decision()?;
            Some((call_of(line)?, line.entry.ts))
        });
        Self(decided.collect())
    }
}

fn call_of(line: &EntryLine) -> Option<(RunId, &CallId)> {
    Some((line.entry.run.as_ref()?.run, line.entry.draft.call.as_ref()?))
}

/// Whether something passed by order, as the entry says.
pub(super) fn has_exceptions(line: &EntryLine) -> bool {
    let names_one = |finding: &GuardedFinding| finding.exception.is_some();
    passed(line).is_some_and(|Passed { exceptions, findings, .. }| {
        !exceptions.is_empty() || findings.iter().any(names_one)
    })
}

/// Whether a signed order covers everything that passed.
pub(super) fn excused(
    case: &Case<'_>,
    (line, log): (&EntryLine, &str),
    decided: &Decided<'_>,
) -> Result<OrderAction, Bad> {
    let Some(Passed { directions, exceptions, findings }) = passed(line) else {
        return Ok(OrderAction::Nothing);
    };
    let tenant = log.split('/').nth(1).unwrap_or_default();
    // A call may be decided more than once: held, and then again. Without its decision, the call was decided
    // before these entries begin.
    let at = match line.decision() {
        Some(_) => Some(line.entry.ts),
        None => call_of(line).and_then(|call| decided.0.get(&call).copied()),
    };
    let mut orders: BTreeMap<u64, AllowedFinding> = BTreeMap::new();
    for used in exceptions {
        let (statement, finding) = order(case, (used, tenant), at.unwrap_or(line.entry.ts))?;
        let is_for = |what: bool, flaw| if what { Ok(()) } else { Err(Bad::from(flaw)) };
        let tool = line.entry.draft.tool.as_ref();
        is_for(
            tool.is_some_and(|tool| tool.as_str() == statement.name),
            SignatureFlaw::ExceptionOf("tool"),
        )?;
        is_for(
            directions.contains(&finding.direction.as_str()),
            SignatureFlaw::ExceptionOf("direction"),
        )?;
        let latest = at.unwrap_or(line.entry.ts).millis().saturating_add(SKEW_MILLIS);
        is_for(statement.at.millis() <= latest, SignatureFlaw::ExceptionEarly)?;
        let end = statement.expires.map_or(i64::MIN, |end| end.millis());
        let is_over = at.is_some_and(|at| end.saturating_add(SKEW_MILLIS) <= at.millis());
        is_for(!is_over, SignatureFlaw::ExceptionOver)?;
        if orders.insert(used.order.get(), finding).is_some() {
            return Err(SignatureFlaw::Used.into());
        }
    }
    for finding in findings {
        let Some(number) = finding.exception else { continue };
        let allowed = orders.get(&number.get()).ok_or(SignatureFlaw::NoException)?;
        // Entries have no place of personal data, and long places are cut.
        let path = finding.path.as_str();
        let is_personal = class_of(&finding.kind) == Some(Class::Personal);
        let is_cut = path.len() > CUT_FROM && allowed.path.starts_with(path);
        let is_there = is_personal || path.is_empty() || is_cut || allowed.path.as_str() == path;
        let is_it = finding.kind.as_str() == allowed.kind
            && finding.mark == Some(allowed.mark)
            && finding.action == GuardAction::Warn;
        if !is_it || !is_there {
            return Err(SignatureFlaw::ExceptionOf("value").into());
        }
    }
    Ok(OrderAction::Excused)
}

/// The order that an entry names, if its signature is valid and the entry describes it correctly.
fn order(
    case: &Case<'_>,
    (used, tenant): (&UsedException, &str),
    at: Timestamp,
) -> Result<(OrderStatement, AllowedFinding), Bad> {
    let list = trusted_list(case, &used.signers.0)?;
    let (statement, signature) = (used.statement.to_string(), used.signature.to_string());
    let signed = SignedApproval { statement, signature };
    let kinds = [OrderKind::Allow];
    // A key that ended since it signed does not end what it signed before; a gate looks at it when it starts.
    let signed_at = OrderStatement::parse(signed.statement.as_bytes()).map(|said| said.at);
    let found = worth(&list, (tenant, &kinds), &signed, at)
        .or_else(|_| worth(&list, (tenant, &kinds), &signed, signed_at.unwrap_or(at)))?;
    let by = found.by();
    if used.subject.as_str() != by.subject || used.key.as_str() != by.key {
        return Err(SignatureFlaw::Differ("subject or key", "signature").into());
    }
    let statement = found.statement().clone();
    let finding = statement.finding.clone().ok_or(SignatureFlaw::NoException)?;
    Ok((statement, finding))
}
