//! Erasure of payloads through the operator API, with a receipt, and the legal holds that prevent
//! it.
//!
//! Duties are separate: an operator who may erase may not place legal holds, and the reverse; an
//! operator who decided about a call of a run may not erase that run. Roles enforce the first rule,
//! the ledger the second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::OperatorApi;
use super::api::replies::{
    ErasedPayloads, ErasureDetail, ErasureFacts, ErasureReply, ErasureRow, Erasures, Head,
    LegalHoldReply, LegalHoldRow, LegalHolds,
};
use super::api::{self, route};
use super::erasure_requests::{EraseRequest, HoldRequest};
use super::evidence::{Evidence, EvidenceService, by};
use super::operators::Operator;
use crate::approval::SignedApproval;
use crate::approval::order::{self, Loosening, OrderKind};
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::evidence::erasure::{
    ErasureRequest, ErasureScope, ErasureStore, Error, HoldSet, LegalHoldChange, RecordedErasure,
    newest, set_hold,
};
use crate::evidence::receipt::{self, ReceiptNotes};
use crate::ledger::fleet::OpenFleetLog;
use crate::ledger::retention::{Grounds, Records, Warrant, fleet_logs};
use crate::ledger::store::{ChainRow, EntryRow, LedgerReader, PayloadRef};
use crate::record::payload::PayloadErased;
use crate::record::{Entry, Kind};
use crate::serve::problem::Problem;

/// Erasures in one answer, the newest first.
const SHOWN_MAX: usize = 200;

impl OperatorApi {
    /// Whether this order is an operator's own, and to do this.
    async fn ordered(
        &self,
        evidence: &Evidence,
        signed: &SignedApproval,
        kind: OrderKind,
    ) -> Result<Box<Loosening>, Problem> {
        let refused = |detail: &str, why: String| {
            tracing::error!(detail, %why, "REFUSED a signed order to erase payloads or to lift a legal hold");
            self.refused(Code::OperatorForbidden, detail, why)
        };
        let list = evidence
            .archive
            .approvers()
            .await
            .map_err(|why| refused("order.signer", why.to_string()))?;
        let revoked = self.stopped_keys(&list).await?;
        let order_for = (self.tenant.as_str(), &[kind][..]);
        let order = order::check(&list.without(revoked), order_for, signed, self.clock.now());
        order.map(Box::new).map_err(|refusal| refused(refusal.code(), refusal.why.to_string()))
    }

    /// Erases payloads: all that the order selects or, if one is held or unknown, none.
    ///
    /// # Errors
    /// Nothing was erased; or, with `erasure.unfinished`, the erasure is recorded and the same
    /// request again finishes it.
    pub(super) async fn erase(
        self: &Arc<Self>,
        sent: api::OperatorRequest<route::Erasure>,
    ) -> Result<ErasureReply, Problem> {
        let (who, request) = (sent.who, self.erasure_request(sent.request)?);
        let service = self.evidence()?;
        let permit = self.erasure_place(&service)?;
        let api = Arc::clone(self);
        // WHY: a recorded erasure must delete its payloads even if the client has disconnected.
        let working = self.tasks.spawn(async move {
            let done = Box::pin(api.erase_now(&service.evidence, &who, &request)).await;
            drop(permit);
            done
        });
        working.await.unwrap_or_else(|_panicked| Err(unfinished("the task ended early")))
    }

    async fn erase_now(
        &self,
        evidence: &Evidence,
        who: &Operator,
        request: &EraseRequest,
    ) -> Result<ErasureReply, Problem> {
        let reader = self.ledger(evidence).await?;
        let eraser = evidence.archive.eraser().await?;
        let eraser = eraser.ok_or_else(|| {
            let message =
                "no Postgres role that may erase is configured here (`evidence.eraser_url_file`)";
            self.refused(Code::RequestMalformed, "erasure.none", message)
        })?;
        let chains = chains(&*reader).await?;
        let (reader, eraser) = (reader.as_ref(), eraser.as_ref());
        let store = ErasureStore { reader, eraser, chains: &chains, tenant: &self.tenant };
        let refused = |error: Error| self.refuse(problem(&error));
        let found = store.find(&request.selection).await.map_err(refused)?;
        let records = store.records().await.map_err(refused)?;
        let before = self.erased_before(&request.selection, &found, &records)?;
        store.refuse_held(&records, &found.wanted).await.map_err(refused)?;
        let wanted = (&found.wanted, request.selection.run.as_ref());
        let order = match &request.order {
            Some(signed) => Some(self.ordered(evidence, signed, OrderKind::Erase).await?),
            None => None,
        };
        let signer = order.iter().map(|order| order.by().subject.as_str());
        let subjects: Vec<&str> = signer.chain([who.subject.as_str()]).collect();
        let part = store.refuse_part(&records, wanted, (&subjects, &by(who))).await;
        part.map_err(refused)?;
        let erased = match order {
            Some(order) => {
                let done = (who, order, request.anew);
                Some(self.erase_found(evidence, &store, done, &found).await?)
            }
            None => None,
        };
        Ok(ErasureReply {
            payloads: found.count(),
            before,
            absent: found.absent.len().saturating_sub(before),
            store: evidence.store.to_owned(),
            erased,
        })
    }

    /// The number of absent payloads that the fleet log records as erased. A named payload that is
    /// neither stored nor was ever erased is an error.
    fn erased_before(
        &self,
        request: &ErasureRequest,
        found: &ErasureScope,
        records: &Records,
    ) -> Result<usize, Problem> {
        let erased: BTreeSet<&Digest> = records.erased.keys().map(|(_, c)| c).collect();
        let mut unknown = found.absent.iter().filter(|c| !erased.contains(c));
        if let Some(unknown) = unknown.next().filter(|_| request.run.is_none()) {
            let message = format!("no payload {unknown}: nothing was erased");
            return Err(self.refused(Code::CallNotFound, "erasure.unknown", message));
        }
        Ok(found.absent.iter().filter(|c| erased.contains(c)).count())
    }

    /// Records, deletes, cleans and signs, in this order.
    async fn erase_found(
        &self,
        evidence: &Evidence,
        store: &ErasureStore<'_>,
        (who, order, anew): (&Operator, Box<Loosening>, bool),
        found: &ErasureScope,
    ) -> Result<ErasedPayloads, Problem> {
        let recorded = match found.count() {
            0 => RecordedErasure::default(),
            _ => {
                let grounds = Grounds {
                    by: by(who),
                    backups_expire_by: self.clock.now().plus(evidence.backups),
                    warrant: Warrant::Order(order),
                };
                let fleet = self.open_fleet(evidence).await?;
                let recorded = store.record(&fleet, &found.wanted, &grounds).await;
                let closed = fleet.close().await;
                let recorded = recorded.map_err(|error| self.refuse(problem(&error)))?;
                closed.map_err(|error| self.refuse(unfinished(&error.to_string())))?;
                recorded
            }
        };
        // WHY: delete rows only now, when the log has recorded every one of them.
        let unfinished_erasure = |why: String| self.refuse(unfinished(&why));
        let deleted = store.sweep().await.map_err(|e| unfinished_erasure(e.to_string()))?;
        let residue =
            store.eraser.scrub(anew).await.map_err(|e| unfinished_erasure(e.to_string()))?;
        let RecordedErasure { fleet, seqs } = &recorded;
        let notes = ReceiptNotes { deleted, residue: residue.as_str(), store: evidence.store };
        let receipt = match seqs.as_slice() {
            [] => Value::Null,
            seqs => {
                let made = receipt::make(store.reader, fleet, seqs, &notes, &*evidence.key).await;
                envelope(&made.map_err(|e| unfinished_erasure(e.to_string()))?)
            }
        };
        tracing::info!(by = by(who), deleted, ?seqs, "erased payloads");
        Ok(ErasedPayloads {
            deleted,
            residue: notes.residue.to_owned(),
            log: fleet.clone(),
            entries: seqs.clone(),
            receipt,
        })
    }

    /// Places a legal hold on payloads of a run or a log, or lifts it.
    ///
    /// # Errors
    /// There is no such run, log or hold, or it cannot be recorded.
    pub(super) async fn hold(
        self: &Arc<Self>,
        sent: api::OperatorRequest<route::LegalHold>,
    ) -> Result<LegalHoldReply, Problem> {
        let (who, request) = (sent.who, self.hold_request(sent.request)?);
        let service = self.evidence()?;
        let permit = self.erasure_place(&service)?;
        let api = Arc::clone(self);
        let working = self.tasks.spawn(async move {
            let done = Box::pin(api.hold_now(&service, &who, &request)).await;
            drop(permit);
            done
        });
        working.await.unwrap_or_else(|_panicked| Err(unfinished("the task ended early")))
    }

    async fn hold_now(
        &self,
        service: &EvidenceService,
        who: &Operator,
        request: &HoldRequest,
    ) -> Result<LegalHoldReply, Problem> {
        let reader = self.ledger(&service.evidence).await?;
        let (on, change) = match request {
            HoldRequest::Place(on, reason) => (on, LegalHoldChange::Place(reason.as_str().into())),
            HoldRequest::Lift(on, signed) => (
                on,
                LegalHoldChange::Lift(
                    self.ordered(&service.evidence, signed, OrderKind::Release).await?,
                ),
            ),
        };
        let is_placing = matches!(change, LegalHoldChange::Place(_));
        let fleet = self.open_fleet(&service.evidence).await?;
        let what = (self.tenant.as_str(), on);
        let done = set_hold(reader.as_ref(), &fleet, what, (&change, &by(who))).await;
        let log = fleet.origin().to_owned();
        // The record is durable even if closing the log fails.
        drop(fleet.close().await);
        let (entry, already) = match done.map_err(|error| self.refuse(problem(&error)))? {
            HoldSet::Already(now) => (now.seq, true),
            HoldSet::Recorded(receipt) => (receipt.seq, false),
        };
        Ok(LegalHoldReply { held: is_placing, log, entry, already })
    }

    /// The predecessor of an order to erase or to end a hold: the newest entry of the fleet log.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) async fn erasures_head(
        &self,
        _: api::OperatorRequest<route::NewestErasure>,
    ) -> Result<Head, Problem> {
        let newest = newest(&*self.reader, &self.tenant).await?;
        let (tenant, digest) = (self.tenant.clone(), newest.digest.prefixed());
        Ok(Head { tenant, seq: newest.seq, digest })
    }

    /// Holds in force.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) async fn holds(
        &self,
        _: api::OperatorRequest<route::LegalHolds>,
    ) -> Result<LegalHolds, Problem> {
        let records = Records::read(&*self.reader, &self.tenant).await;
        let records = records?;
        let shown = records.holds.into_iter().map(|hold| LegalHoldRow {
            log: hold.log,
            run: hold.run.map(|run| run.to_string()),
            reason: hold.reason,
            by: hold.by,
            entry: hold.seq,
        });
        Ok(LegalHolds { holds: shown.collect() })
    }

    /// The last erasures, the newest first.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) async fn erasures(
        &self,
        _: api::OperatorRequest<route::Erasures>,
    ) -> Result<Erasures, Problem> {
        let all = self.erasure_rows().await?;
        let shown = all.iter().rev().take(SHOWN_MAX).map(|(chain, row)| shown(chain, row));
        Ok(Erasures { erasures: shown.collect(), more: all.len() > SHOWN_MAX })
    }

    /// One erasure, with a new receipt.
    ///
    /// # Errors
    /// The newest fleet log has no erasure there.
    pub(super) async fn erasure(
        &self,
        request: api::OperatorRequest<route::ErasureDetail>,
    ) -> Result<ErasureDetail, Problem> {
        let seq = request.path.seq;
        let service = self.evidence()?;
        let mut all = self.erasure_rows().await?;
        let newest = all.last().map(|(chain, _)| chain.origin.clone());
        all.retain(|(chain, row)| row.seq == seq && Some(&chain.origin) == newest.as_ref());
        let Some((chain, row)) = all.first() else {
            let message = "no such erasure";
            return Err(self.refused(Code::CallNotFound, "erasure.seq", message));
        };
        let reader = self.ledger(&service.evidence).await?;
        let deleted = gone(&*reader, &self.tenant, row).await?;
        // A later request cannot search the files for payloads that are already deleted.
        let notes = ReceiptNotes { deleted, residue: "unknown", store: service.evidence.store };
        let key = &*service.evidence.key;
        let made = receipt::make(&*reader, &chain.origin, &[seq], &notes, key).await;
        let made = made?;
        Ok(ErasureDetail { erasure: shown(chain, row), receipt: envelope(&made) })
    }

    async fn erasure_rows(&self) -> Result<Vec<(ChainRow, EntryRow)>, Problem> {
        let logs = fleet_logs(&*self.reader, &self.tenant).await?;
        let mut all = Vec::new();
        for chain in logs {
            let kinds = [Kind::PayloadErased.as_str()];
            let rows = self.reader.entries_of(&chain.chain, &kinds).await;
            let rows = rows?;
            all.extend(rows.into_iter().map(|row| (chain.clone(), row)));
        }
        Ok(all)
    }

    async fn ledger(&self, evidence: &Evidence) -> Result<Arc<dyn LedgerReader>, Problem> {
        Ok(evidence.archive.reader().await?)
    }

    async fn open_fleet(&self, evidence: &Evidence) -> Result<OpenFleetLog, Problem> {
        let closed = |why: String| {
            self.refused(Code::LedgerUnavailable, "", format!("the fleet log: {why}"))
        };
        let parts = evidence.archive.fleet().await.map_err(|why| closed(why.to_string()))?;
        OpenFleetLog::open(parts).await.map_err(|error| closed(error.to_string()))
    }
}

type Chains = BTreeMap<crate::domain::id::ChainId, ChainRow>;

async fn chains(reader: &dyn LedgerReader) -> Result<Chains, Problem> {
    let chains = reader.chains().await?;
    Ok(chains.into_iter().map(|row| (row.chain, row)).collect())
}

/// The number of payloads of an erasure entry that are no longer stored.
async fn gone(reader: &dyn LedgerReader, tenant: &str, row: &EntryRow) -> Result<u64, Problem> {
    let chains = reader.chains().await?;
    let Ok(entry) = Entry::parse(&row.body) else { return Ok(0) };
    let Some(erased) = entry.draft.get::<PayloadErased>() else { return Ok(0) };
    let ours = |c: &&ChainRow| c.tenant == tenant && erased.log == c.origin.as_str();
    let Some(chain) = chains.iter().find(ours) else { return Ok(0) };
    let list: Vec<PayloadRef> = erased.c.iter().map(|c| PayloadRef::anywhere(c)).collect();
    let stored = reader.payloads(&chain.chain, &list).await?;
    let stored: BTreeSet<_> = stored.iter().map(|row| row.commitment).collect();
    let deleted = list.iter().filter(|at| !stored.contains(&at.commitment)).count();
    Ok(u64::try_from(deleted).unwrap_or(u64::MAX))
}

/// The contents of an erasure entry, without commitments.
fn shown(chain: &ChainRow, row: &EntryRow) -> ErasureRow {
    let entry = Entry::parse(&row.body).ok();
    let facts = entry.as_ref().and_then(|entry| {
        let erased = entry.draft.get::<PayloadErased>()?;
        Some(ErasureFacts {
            at: entry.ts.to_string(),
            log: erased.log.to_string(),
            payloads: erased.c.len(),
            basis: erased.basis.to_string(),
            by: erased.by.to_string(),
            request: erased.request.as_ref().map(ToString::to_string),
            signed_by: erased.order.as_ref().map(|order| order.subject.to_string()),
            backups_expire_by: erased.backups_expire_by.to_string(),
        })
    });
    ErasureRow { fleet: chain.origin.clone(), entry: row.seq, facts }
}

/// A signed envelope as JSON within JSON.
fn envelope(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or(Value::Null)
}

fn unfinished(why: &str) -> Problem {
    tracing::error!(why, "an erasure was recorded but is not finished");
    let message = "it is recorded but not finished: repeat the request";
    Problem::new(Code::LedgerUnavailable, "erasure.unfinished", message)
}

pub(super) fn problem(error: &Error) -> Problem {
    let (code, detail) = match error {
        Error::Order(refusal) => (Code::OperatorForbidden, refusal.code()),
        Error::Lifted | Error::Decided => (Code::OperatorForbidden, "erasure.part"),
        Error::Store(_) | Error::Unrecorded(_) => (Code::LedgerUnavailable, ""),
        Error::NoRun(_) => (Code::RunUnknown, ""),
        Error::NoLog(_) => (Code::RequestMalformed, "hold.log"),
        Error::Held { .. } => (Code::OperatorForbidden, "erasure.held"),
        Error::NotHeld(_) => (Code::CallNotFound, "hold.none"),
    };
    Problem::new(code, detail, error.to_string())
}
