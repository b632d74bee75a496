//! Orders that take back a stop or let a value pass: an operator signs them, and this gate records them
//! before it obeys.
//!
//! A row in the list proves nothing by itself: any process with write access to the list can write
//! any row.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::Control;
use super::apply::{refused, reporting};
use crate::approval::approvers::Purpose;
use crate::approval::order::{Loosening, OrderKind, Previous};
use crate::approval::{ApprovalRefusal, RefusalReason, SignedApproval};
use crate::control::{Action, Row, Target};
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;
use crate::enforce::Road;
use crate::enforce::approve::Readying;
use crate::ledger::drafts::DraftWithPayloads;
use crate::record::control::{ControlApplied, ControlRefused, TargetKind};
use crate::record::{self, Draft, TaggedDigest, Text};

/// How old a signed order may be and still end a suspension that the gate itself imposed.
const FORGIVES_WITHIN: Duration = Duration::from_secs(15 * 60);
/// Rows whose digests are remembered: a signed order must name one of them as its predecessor.
const DIGESTS_MAX: usize = 1024;

/// Port to the operators' keys: decides whether a signed order is valid at this time. Total and
/// without effect.
pub trait Releaser: Send + Sync + std::fmt::Debug {
    /// Records the inputs of the check, such as the list of operators.
    fn ready(&self) -> Readying<'_> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Checks statement, signature and signer.
    ///
    /// # Errors
    /// The order takes nothing back.
    fn loosens(
        &self,
        signed: &SignedApproval,
        now: Timestamp,
    ) -> Result<Loosening, ApprovalRefusal>;
}

/// State for checking orders that take back a stop.
#[derive(Debug, Default)]
pub(super) struct Release {
    digests: Mutex<BTreeMap<u64, Digest>>,
    /// Statements that were obeyed, with the number of their row. Each may be used once.
    used: Mutex<BTreeMap<Digest, u64>>,
}

impl Release {
    /// Marks a statement as obeyed for this row; false if it was obeyed for another row.
    pub fn uses(&self, statement: &str, seq: u64) -> bool {
        let digest = Digest::of(&[statement.as_bytes()]);
        *self.used.lock().entry(digest).or_insert(seq) == seq
    }

    /// Whether the list has exactly this row. Row 0 stands for the position before the first row.
    fn has(&self, previous: Previous) -> bool {
        if previous.seq == 0 {
            return previous == Previous::NONE;
        }
        self.digests.lock().get(&previous.seq) == Some(&previous.digest)
    }

    /// Remembers the digest of a row.
    pub fn saw(&self, row: &Row) {
        let mut digests = self.digests.lock();
        digests.insert(row.seq, row.digest);
        while digests.len() > DIGESTS_MAX {
            digests.pop_first();
        }
    }
}

impl Control {
    /// Checks a row that takes back a stop, and returns its order and target.
    async fn loosening(
        &self,
        releaser: &dyn Releaser,
        row: &Row,
        signed: &SignedApproval,
    ) -> Result<(Loosening, Target), ApprovalRefusal> {
        releaser.ready().await?;
        let order = releaser.loosens(signed, self.clock.now())?;
        let statement = order.statement();
        let target = Target::parse(&statement.target, &statement.name);
        let target = target.ok_or_else(|| Purpose::Order.refusal(RefusalReason::Target))?;
        let release = &self.release;
        if !release.has(statement.previous) || statement.previous.seq >= row.seq {
            return Err(Purpose::Order.refusal(RefusalReason::Previous));
        }
        if !release.uses(&signed.statement, row.seq) {
            return Err(Purpose::Order.refusal(RefusalReason::UsedOrder));
        }
        Ok((order, target))
    }

    /// Records and reports an invalid order. Write access to the list does not make a third party
    /// an operator.
    async fn refuse_row(&self, row: &Row, signed: &SignedApproval, why: &ApprovalRefusal) {
        let (detail, message) = (why.code(), why.why.to_string());
        self.metrics.order_refused();
        tracing::error!(order = row.seq, subject = %row.given.subject, %detail, %message, "REFUSED an order to loosen");
        let entry = DraftWithPayloads::bare(Draft::of(ControlRefused {
            auth: Text::clip(&row.given.auth, 64),
            code: detail.into(),
            message: Text::clip(&message, 1024),
            seq: row.seq.into(),
            statement: Text::clip(&signed.statement, 4096),
            subject: Text::clip(&row.given.subject, 256),
        }));
        if self.ledger.owe(entry).await.is_ok() {
            self.report(row.seq, refused(why)).await;
        }
    }
}

/// `data` of `control.applied` for a signed order.
pub(super) fn by_order(
    row: &Row,
    order: &Loosening,
    (action, about): (record::control::Action, (TargetKind, &str)),
) -> ControlApplied {
    let by = order.by();
    ControlApplied {
        subject: Some(by.subject.as_str().into()),
        auth: Some("ssh".into()),
        key: Some(by.key.as_str().into()),
        signers: Some(TaggedDigest(*order.signers())),
        statement: Some(order.signed().statement.as_str().into()),
        signature: Some(order.signed().signature.as_str().into()),
        after: Some(order.statement().previous.seq.into()),
        row: Some(TaggedDigest(row.digest)),
        ..ControlApplied::idle(row.seq, action, about)
    }
}

impl Road {
    /// Obeys an order to take back a stop, or to let a value pass, once it is recorded; otherwise records its
    /// refusal.
    pub(super) async fn loosen_row(self: &Arc<Self>, row: &Row, signed: &SignedApproval) {
        let loosening = match self.holds.releaser() {
            Ok(releaser) => self.control.loosening(&*releaser, row, signed).await,
            Err(none) => Err(none),
        };
        let allowed = loosening.and_then(|(order, target)| {
            self.may_allow(&order)?;
            Ok((order, target))
        });
        let (order, target) = match allowed {
            Ok(order) => order,
            Err(why) => return self.control.refuse_row(row, signed, &why).await,
        };
        if order.statement().order == OrderKind::Allow {
            return self.allow(row, &order, &target).await;
        }
        let unknown = self.unknown(&target);
        let statement = order.statement();
        let by = order.by();
        let name = target.name();
        let about = (target.recorded(), name.as_str());
        let applied = ControlApplied {
            expires: statement.expires,
            ..by_order(row, &order, (Action::Reinstate.into(), about))
        };
        tracing::warn!(order = row.seq, subject = %by.subject, kind = target.kind(), %name, "an operator reinstated a target");
        let entry = DraftWithPayloads::bare(Draft::of(applied.clone()));
        // Without an entry the effect is not recorded, so there is nothing to report.
        if self.ledger.owe(entry).await.is_ok() {
            self.control.commands.stops.write().lift(&order, &target);
            // The gate's own suspensions have no order number; an old signature cannot refer to
            // them.
            if statement.at.plus(FORGIVES_WITHIN) > self.clock.now() {
                self.forgive(&target);
            }
            self.control.report(row.seq, reporting(&applied, unknown)).await;
        }
    }
}
