//! The values that pass the firewall at this gate because an operator signed that they may.
//!
//! An order lets nothing pass before this gate has checked its signature and recorded it. It ends for good: at
//! its end, by an order to end it, or with the key that signed it. What this gate's own ledger does not show as
//! in force is not taken from the list after a restart, so a changed list lets nothing pass again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::Stops;
use super::apply::{error, reporting};
use crate::approval::approvers::Purpose;
use crate::approval::order::{Loosening, OrderKind, OrderStatement};
use crate::approval::{ApprovalRefusal, RefusalReason, Statement as _};
use crate::control::{Order, Row, Target};
use crate::domain::id::ToolName;
use crate::domain::time::Timestamp;
use crate::enforce::Road;
use crate::firewall;
use crate::judge::exceptions::{CallExceptions, FindingException, is_excusable};
use crate::ledger::drafts::DraftWithPayloads;
use crate::record::control::{Action, ControlApplied, TargetKind};
use crate::record::{Draft, TaggedDigest, Text};

/// Values that pass at once: an entry names the order of each.
const EXCEPTIONS_MAX: usize = 256;

/// The orders in force, by number.
#[derive(Debug, Default)]
pub(super) struct FindingExceptions {
    in_force: RwLock<BTreeMap<u64, Arc<FindingException>>>,
    /// Orders that were ended, whatever the list says of them.
    ended: Mutex<BTreeSet<u64>>,
    /// Rows that the previous process obeyed, to be checked once the signers are known.
    before: Mutex<Vec<Row>>,
}

/// The orders that this gate's own ledger shows as in force.
#[derive(Debug, Default)]
pub(super) struct RecordedExceptions(BTreeSet<u64>);

impl RecordedExceptions {
    /// Takes in what an entry records, oldest first.
    pub fn take_up(&mut self, applied: &ControlApplied) {
        if let Some(all) = &applied.exceptions {
            self.0 = all.iter().map(|number| number.get()).collect();
        }
        match (applied.action, applied.exception) {
            (Action::Allow, _) => drop(self.0.insert(applied.seq.get())),
            (Action::Disallow, Some(order)) => drop(self.0.remove(&order.get())),
            (
                Action::Suspend
                | Action::Revoke
                | Action::Reinstate
                | Action::Kill
                | Action::BreakGlass
                | Action::Note
                | Action::Disallow,
                _,
            ) => {}
        }
    }

    pub fn has(&self, row: &Row) -> bool {
        self.0.contains(&row.seq)
    }
}

/// The statement of a row that lets a value pass.
pub(super) fn allows(row: &Row) -> Option<OrderStatement> {
    let Some(Order::Loosen(signed)) = &row.order else { return None };
    let statement = OrderStatement::parse(signed.statement.as_bytes()).ok()?;
    (statement.order == OrderKind::Allow).then_some(statement)
}

impl FindingExceptions {
    /// The orders about a tool that are in force.
    fn of(&self, tool: &ToolName, (stops, now): (&Stops, Timestamp)) -> CallExceptions {
        let all = self.in_force.read();
        let is_one = |one: &&Arc<FindingException>| {
            one.tool == *tool && now < one.until && !stops.has_key(&one.signed.key, now)
        };
        all.values().filter(is_one).cloned().collect()
    }

    /// Notes a row of the list while the gate starts. `is_recorded`: this gate's own ledger shows it in force.
    pub fn saw(&self, row: &Row, is_recorded: bool) {
        if let Some(Order::EndException { order }) = &row.order {
            self.end(*order);
        } else if is_recorded && allows(row).is_some() {
            self.before.lock().push(row.clone());
        }
    }

    /// The numbers of the orders that stay in force over a restart.
    pub fn standing(&self, now: Timestamp) -> Vec<u64> {
        let ended = self.ended.lock();
        let before = self.before.lock();
        let stands = |row: &&Row| {
            let end = allows(row).and_then(|statement| statement.expires);
            !ended.contains(&row.seq) && end.is_some_and(|end| now < end)
        };
        before.iter().filter(stands).map(|row| row.seq).take(EXCEPTIONS_MAX).collect()
    }

    /// Ends an order, now and for later.
    pub fn end(&self, order: u64) -> Option<Arc<FindingException>> {
        self.ended.lock().insert(order);
        self.in_force.write().remove(&order)
    }

    fn has_room(&self, now: Timestamp) -> bool {
        let mut all = self.in_force.write();
        all.retain(|_, one| now < one.until);
        all.len() < EXCEPTIONS_MAX
    }

    fn has_ended(&self, order: u64) -> bool {
        self.ended.lock().contains(&order)
    }

    fn put(&self, exception: FindingException) {
        let ended = self.ended.lock();
        if !ended.contains(&exception.signed.order) {
            let number = exception.signed.order;
            self.in_force.write().insert(number, Arc::new(exception));
        }
    }

    /// What passes now, as notes for operators.
    pub fn notes(&self, now: Timestamp) -> Vec<String> {
        let all = self.in_force.read();
        let count = all.values().filter(|one| now < one.until).count();
        let note = || format!("firewall: {count} values pass by a signed order");
        (count > 0).then(note).into_iter().collect()
    }
}

impl Road {
    /// The orders that let values pass in calls of this tool now.
    pub(in crate::enforce) fn exceptions(&self, tool: &ToolName) -> CallExceptions {
        let control = &self.control;
        control.exceptions.of(tool, (&control.commands.stops, self.clock.now()))
    }

    /// Why a valid order lets nothing pass here.
    pub(super) fn may_allow(&self, order: &Loosening) -> Result<(), ApprovalRefusal> {
        if order.statement().order != OrderKind::Allow {
            return Ok(());
        }
        let why = if !self.in_force.toolbox().guard().marks().is_keyed() {
            RefusalReason::NoMarks
        } else if !self.control.exceptions.has_room(self.clock.now()) {
            RefusalReason::ManyExceptions(EXCEPTIONS_MAX)
        } else {
            return Ok(());
        };
        Err(Purpose::Order.refusal(why))
    }

    /// Lets a value pass once that is recorded.
    pub(super) async fn allow(&self, row: &Row, order: &Loosening, target: &Target) {
        let Some(exception) = FindingException::of(order, row.seq) else { return };
        // Its end is obeyed at once, also before it: nothing passes, and nothing says that it does.
        if self.control.exceptions.has_ended(row.seq) {
            let why = error("the order was ended before it was obeyed");
            return self.control.report(row.seq, why).await;
        }
        let name = target.name();
        let about = (target.recorded(), name.as_str());
        let applied = ControlApplied {
            expires: Some(exception.until),
            ..super::loosen::by_order(row, order, (Action::Allow, about))
        };
        let unknown = self.unknown(target).or_else(|| unknown_kind(&exception.finding.kind));
        tracing::warn!(order = row.seq, subject = %order.by().subject, %name, kind = %exception.finding.kind, "an operator lets a value pass the firewall");
        let entry = DraftWithPayloads::bare(Draft::of(applied.clone()));
        // Without an entry the effect is not recorded, so there is nothing to report.
        if self.ledger.owe(entry).await.is_ok() {
            self.control.exceptions.put(exception);
            self.control.report(row.seq, reporting(&applied, unknown)).await;
        }
    }

    /// Records and reports that a value is found again; it is from the moment that the row was read.
    pub(super) async fn disallow(
        &self,
        row: &Row,
        order: u64,
        ended: Option<Arc<FindingException>>,
    ) {
        let name = ended.as_ref().map(|one| one.tool.to_string()).unwrap_or_default();
        let kind = if ended.is_some() { TargetKind::Tool } else { TargetKind::All };
        let applied = ControlApplied {
            exception: Some(order.into()),
            row: Some(TaggedDigest(row.digest)),
            subject: Some(Text::clip(&row.given.subject, 256)),
            auth: Some(Text::clip(&row.given.auth, 64)),
            ..ControlApplied::idle(row.seq, Action::Disallow, (kind, &name))
        };
        tracing::warn!(order = row.seq, ends = order, by = %row.given.subject, "an operator ended an exception of the firewall");
        let entry = DraftWithPayloads::bare(Draft::of(applied.clone()));
        if self.ledger.owe(entry).await.is_ok() {
            let unknown = ended.is_none().then(Vec::new);
            self.control.report(row.seq, reporting(&applied, unknown)).await;
        }
    }

    /// Puts the orders of the previous process in force again: they are recorded, and their signatures are
    /// checked again.
    pub(super) async fn reopen_exceptions(&self) {
        let before = std::mem::take(&mut *self.control.exceptions.before.lock());
        if before.is_empty() {
            return;
        }
        let releaser = match self.holds.releaser() {
            Ok(releaser) => releaser,
            Err(why) => {
                tracing::warn!(%why, "no value passes the firewall by an earlier order");
                return;
            }
        };
        if let Err(why) = releaser.ready().await {
            tracing::warn!(%why, "no value passes the firewall by an earlier order");
            return;
        }
        for row in before {
            let Some(Order::Loosen(signed)) = &row.order else { continue };
            match releaser.loosens(signed, self.clock.now()) {
                // WHY: a statement counts for the first row that had it. What an operator ended is not let pass
                // by another row with the same signature, which every entry that used it shows.
                Ok(_) if !self.control.release.uses(&signed.statement, row.seq) => {
                    tracing::warn!(
                        order = row.seq,
                        "an exception of the firewall is in the list a second time and lets nothing pass"
                    );
                }
                Ok(order) => {
                    let exception = FindingException::of(&order, row.seq);
                    exception.into_iter().for_each(|one| self.control.exceptions.put(one));
                }
                Err(why) if why.is_expired() => {}
                Err(why) => {
                    tracing::warn!(order = row.seq, %why, "an exception of the firewall from before the restart was not resumed");
                }
            }
        }
    }

    /// Ends an exception of the firewall in list order.
    pub(super) fn end_exception_row(self: &Arc<Self>, row: &Row, order: u64) {
        // At once: a call that is screened from here on is refused.
        let ended = self.control.exceptions.end(order);
        let (road, row) = (Arc::clone(self), row.clone());
        self.tasks.spawn(async move { road.disallow(&row, order, ended).await });
    }
}

/// Similar names, if no finding of this kind can pass by order.
fn unknown_kind(kind: &str) -> Option<Vec<String>> {
    if firewall::class_of(kind).is_some_and(is_excusable) {
        return None;
    }
    let kinds = firewall::kinds().filter(|row| is_excusable(row.class));
    Some(crate::domain::near::names(kind, kinds.map(|row| row.name.to_owned())))
}
