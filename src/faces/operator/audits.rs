//! Verification of the ledger over the operator API, and the list of what was exported.
//!
//! One verification of an operator runs at a time, on a thread of its own: it hashes, and makes every decision again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::apart::apart;
use super::api::audits::{
    AuditCheck, AuditDamage, AuditReport, AuditStep, ExportRow, ExportTerm, Exports,
};
use super::api::{OperatorRequest, requests, route};
use super::evidence::EvidenceService;
use super::exports::unavailable;
use super::{OperatorApi, visible};
use crate::clock::Clock;
use crate::domain::code::Code;
use crate::domain::id::{CallId, ChainId, RunId};
use crate::domain::time::Timestamp;
use crate::evidence::audit::{self, AuditError, AuditOrder, AuditResult, ENTRIES_MAX};
use crate::evidence::query::Query;
use crate::evidence::scope::{Scope, Span};
use crate::evidence::verify::{Outcome, Report, Step};
use crate::ledger::retention::fleet_logs;
use crate::ledger::store::{ChainRow, EntryRow};
use crate::ledger::vault::Vault;
use crate::record::chain::EvidenceExported;
use crate::record::{Entry, Kind};
use crate::serve::problem::Problem;

/// Verifications at a time, of all operators together: each holds a bundle in memory.
const AT_ONCE: usize = 2;
/// When a client that was refused because of another verification may try again.
const RETRY: Duration = Duration::from_secs(5);
/// Exports in one answer, the newest first.
const SHOWN_MAX: usize = 200;

/// A place to verify, freed when it is dropped.
struct AuditPlace {
    service: Arc<EvidenceService>,
    subject: String,
}

impl Drop for AuditPlace {
    fn drop(&mut self) {
        self.service.auditing.lock().remove(&self.subject);
    }
}

/// Everything one verification needs to run independently of its request.
struct AuditJob {
    place: AuditPlace,
    query: Query,
    call: Option<CallId>,
    tenant: String,
    vault: Option<Arc<Vault>>,
    clock: Arc<dyn Clock>,
}

/// A verification that was made, and when.
struct TimedAudit {
    result: AuditResult,
    began: Timestamp,
    ended: Timestamp,
    took: Duration,
}

/// Why there is no result.
enum AuditFailure {
    /// The client disconnected.
    Left,
    /// The ledger or the keys cannot be used.
    Unusable(String),
    Audit(AuditError),
}

impl From<AuditError> for AuditFailure {
    fn from(error: AuditError) -> Self {
        Self::Audit(error)
    }
}

impl OperatorApi {
    /// Verifies a run or a range of the ledger with the checks of the offline verifier.
    ///
    /// # Errors
    /// The question is wrong or too large, its operator has one running, or the ledger cannot be read.
    pub(super) async fn audit(
        &self,
        asked: OperatorRequest<route::AuditVerification>,
    ) -> Result<AuditReport, Problem> {
        let (query, call) = self.audited(asked.request).await?;
        let scope = query.scope();
        let service = self.evidence()?;
        let place = self.audit_place(&service, &asked.who.subject)?;
        let (tenant, clock) = (self.tenant.clone(), Arc::clone(&self.clock));
        let job = AuditJob { place, query, call, tenant, vault: self.vault.clone(), clock };
        let ended = AuditFailure::Unusable("the verification ended early".to_owned());
        let made = apart(|| job.run(), (AuditFailure::Left, ended)).await;
        let made = made.map_err(|failure| self.refuse(failure.into()))?;
        Ok(answer(scope, &made))
    }

    /// The part of the ledger that a request names.
    async fn audited(
        &self,
        asked: requests::AuditSelection,
    ) -> Result<(Query, Option<CallId>), Problem> {
        let malformed =
            |why: &str| self.refused(Code::RequestMalformed, "audit.selection", why.to_owned());
        let requests::AuditSelection { run, call, chain, from, to } = asked;
        match (run, chain) {
            (Some(run), None) if from.is_none() && to.is_none() => {
                let run = RunId::parse(&run);
                let run = run.ok_or_else(|| malformed("`run` is the id of a run"))?;
                let call = match call {
                    None => None,
                    Some(text) => {
                        let call = CallId::parse(&text);
                        Some(call.ok_or_else(|| malformed("`call` is the id of a call"))?)
                    }
                };
                Ok((Query::Run(run), call))
            }
            (None, Some(chain)) if call.is_none() => {
                let log = self.log_of(chain).await?;
                let from = from.unwrap_or_default();
                let to = to.unwrap_or_else(|| from.saturating_add(ENTRIES_MAX));
                if from >= to {
                    return Err(malformed("`from` must be below `to`"));
                }
                Ok((Query::Range { log, span: Span { from, to } }, None))
            }
            (Some(_), None) => Err(malformed("`from` and `to` belong to a `chain`")),
            (None, Some(_)) => Err(malformed("`call` belongs to a `run`")),
            (Some(_), Some(_)) => Err(malformed("name a `run` or a `chain`, not both")),
            (None, None) => Err(malformed(
                "name a `run` (with a `call` if you like), or a `chain` with `from` and `to`",
            )),
        }
    }

    /// The name of a log that is named so, or by the id of its chain.
    async fn log_of(&self, chain: String) -> Result<String, Problem> {
        let Some(id) = ChainId::parse(&chain) else { return Ok(chain) };
        let rows = self.reader.chains().await?;
        let found = rows.into_iter().find(|row| row.chain == id && row.tenant == self.tenant);
        Ok(found.map_or(chain, |row| row.origin))
    }

    fn audit_place(
        &self,
        service: &Arc<EvidenceService>,
        subject: &str,
    ) -> Result<AuditPlace, Problem> {
        let busy = |message: &str| {
            let problem = Problem::new(Code::LimitExceeded, "audit.busy", message);
            Err(self.refuse(problem.after(RETRY)))
        };
        let mut running = service.auditing.lock();
        if running.contains(subject) {
            return busy("another verification of yours is running");
        }
        if running.len() >= AT_ONCE {
            return busy("other operators' verifications are running");
        }
        running.insert(subject.to_owned());
        drop(running);
        Ok(AuditPlace { service: Arc::clone(service), subject: subject.to_owned() })
    }

    /// The last exports, the newest first.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) async fn exported(
        &self,
        _: OperatorRequest<route::Exports>,
    ) -> Result<Exports, Problem> {
        let mut all: Vec<ExportRow> = Vec::new();
        for chain in fleet_logs(&*self.reader, &self.tenant).await? {
            let kinds = [Kind::EvidenceExported.as_str()];
            let rows = self.reader.entries_of(&chain.chain, &kinds).await?;
            all.extend(rows.iter().filter_map(|row| export_row(&chain, row)));
        }
        let more = all.len() > SHOWN_MAX;
        Ok(Exports { exports: all.into_iter().rev().take(SHOWN_MAX).collect(), more })
    }
}

fn export_row(chain: &ChainRow, row: &EntryRow) -> Option<ExportRow> {
    let entry = Entry::parse(&row.body).ok()?;
    let one = entry.draft.get::<EvidenceExported>()?;
    let terms = one.query.iter().filter(|term| &*term.k != "scope");
    let term = |term: &crate::record::run::Setting| ExportTerm {
        name: term.k.to_string(),
        value: term.v.to_string(),
    };
    Some(ExportRow {
        at: entry.ts.to_string(),
        fleet: chain.origin.clone(),
        entry: row.seq,
        scope: one.scope.as_str().to_owned(),
        query: terms.map(term).collect(),
        requester: one.requester.to_string(),
        entries: one.entries.get(),
        manifest: one.manifest.0.hex(),
    })
}

impl AuditJob {
    async fn run(self) -> Result<TimedAudit, AuditFailure> {
        let Self { place, query, call, tenant, vault, clock } = self;
        let evidence = &place.service.evidence;
        let (began, since) = (clock.now(), clock.monotonic());
        let unusable = |why: String| AuditFailure::Unusable(why);
        let trust = evidence.archive.trust().await.map_err(|why| unusable(why.to_string()))?;
        let reader = evidence.archive.reader().await.map_err(AuditError::from)?;
        let order = AuditOrder {
            reader: reader.as_ref(),
            tenant: &tenant,
            query: &query,
            call: call.as_ref(),
            artifacts: &evidence.artifacts,
            key: &*evidence.key,
            clock: &*clock,
            vault: vault.as_deref(),
            trust: &trust,
        };
        let result = audit::audit(&order).await?;
        let took = clock.monotonic().saturating_sub(since);
        Ok(TimedAudit { result, began, ended: clock.now(), took })
    }
}

impl From<AuditFailure> for Problem {
    fn from(failure: AuditFailure) -> Self {
        match failure {
            AuditFailure::Left => {
                Self::new(Code::CallCancelled, "audit.left", "the client disconnected")
            }
            AuditFailure::Unusable(why) => {
                tracing::error!(%why, "a verification of the ledger was not made");
                let message = "the ledger cannot be verified: the log of this process says why";
                Self::new(Code::NotReady, "audit.failed", message)
            }
            AuditFailure::Audit(AuditError::Evidence(error)) => unavailable(&error),
            AuditFailure::Audit(error @ AuditError::NoCall { .. }) => {
                Self::new(Code::CallNotFound, "audit.call", error.to_string())
            }
            AuditFailure::Audit(error @ (AuditError::TooMany(_) | AuditError::TooLarge(_))) => {
                Self::new(Code::RequestMalformed, "audit.size", error.to_string())
            }
        }
    }
}

/// What is known of one check.
fn check(
    (id, title): (&str, &str),
    (report, scope, damaged): (&Report, Scope, bool),
) -> AuditCheck {
    let (outcome, detail) = match report.outcome(id) {
        Some(Outcome::Valid(seen)) => ("pass", seen.as_str()),
        Some(Outcome::Invalid(why)) => ("fail", why.as_str()),
        Some(Outcome::Unverifiable(missing)) => ("undecided", missing.as_str()),
        None => match audit::not_applicable(id, scope) {
            Some(why) => ("not_applicable", why),
            None if damaged => ("undecided", "not made, because of what failed before"),
            None => ("not_applicable", "no entry of this part needs it"),
        },
    };
    let [id, title, detail] = [id, title, detail].map(visible);
    AuditCheck { id, title, outcome: outcome.to_owned(), detail }
}

fn answer(scope: Scope, made: &TimedAudit) -> AuditReport {
    let TimedAudit { result, began, ended, took } = made;
    let AuditResult { log, size, entries, report, damage, steps } = result;
    let damaged = !report.failed().is_empty();
    let checks: Vec<AuditCheck> =
        audit::checks().map(|one| check(one, (report, scope, damaged))).collect();
    let outcomes: BTreeSet<&str> = checks.iter().map(|check| check.outcome.as_str()).collect();
    let outcome = ["fail", "undecided"].into_iter().find(|one| outcomes.contains(one));
    let us = |took: &Duration| u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let step = |(step, took): &(Step, Duration)| AuditStep {
        step: step.numbered().1.to_owned(),
        us: us(took),
    };
    AuditReport {
        outcome: outcome.unwrap_or("pass").to_owned(),
        log: log.clone(),
        size: *size,
        entries: u64::try_from(entries.len()).unwrap_or(u64::MAX),
        first: entries.first().copied(),
        last: entries.last().copied(),
        damage: damage.as_ref().map(|found| AuditDamage {
            kind: found.kind.as_str().to_owned(),
            entry: found.seq,
            check: found.check.to_owned(),
            why: visible(&found.why),
        }),
        not_proven: report.not_proven.iter().map(|one| visible(one)).collect(),
        unenforced: u64::try_from(report.unenforced).unwrap_or(u64::MAX),
        began: began.to_string(),
        ended: ended.to_string(),
        took_ms: us(took) / 1000,
        steps: steps.iter().map(step).collect(),
        checks,
    }
}
