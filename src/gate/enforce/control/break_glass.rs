//! Break-glass at the gate: which calls need no approver now, and under which order.
//!
//! An order opens nothing before this gate has checked its signatures and recorded it. From then on
//! it has exactly one effect: a call of its agent to one of its tools that would be held runs
//! without an approver. Each nonce opens once. An order ends for good: at its expiry, by `close`,
//! by a revoked key, or when the gate's clock does not fit the order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::apply::refused;
use super::{Commands, Control, Stops};
use crate::approval::approvers::Purpose;
use crate::approval::break_glass::{BreakGlassStatement, Open, SignedBreakGlass};
use crate::approval::{ApprovalRefusal, RefusalReason};
use crate::clock::Clock;
use crate::control::{Action, BreakGlassOrder, Order, Row, Target};
use crate::domain::id::{CallId, ToolName};
use crate::domain::json::Json;
use crate::domain::time::Timestamp;
use crate::enforce::approve::Readying;
use crate::enforce::run::CallStage;
use crate::enforce::{Parts, Road};
use crate::ledger::drafts::DraftWithPayloads;
use crate::record::control::{ControlApplied, TargetKind};
use crate::record::{self, Draft};
use crate::telemetry::metrics::Metrics;

/// How far this gate's clock may be behind the clock of the operator API that listed the order.
const BEHIND: Duration = Duration::from_secs(60);
/// How long after its end an order may stay unreviewed before the gate reports it.
const REVIEW_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);
/// Unreviewed orders that one report names.
const TOLD_MAX: usize = 8;

/// Port to the break-glass signers: decides whether a statement is valid at this time. Total and
/// without effect.
pub trait Breaker: Send + Sync + std::fmt::Debug {
    /// Records the inputs of the check, such as the list of signers.
    fn ready(&self) -> Readying<'_> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Checks statement, signatures and signers.
    ///
    /// # Errors
    /// The statement opens nothing.
    fn check(&self, signed: &SignedBreakGlass, now: Timestamp) -> Result<Open, ApprovalRefusal>;
}

/// One order, as known to this gate.
#[derive(Debug)]
struct KnownOrder {
    seq: u64,
    /// The parsed statement; `None` if it cannot be read.
    statement: Option<BreakGlassStatement>,
    /// Set once the statement is checked and recorded; the order is in force until `ended`.
    open: Option<Arc<Open>>,
    /// When the row was listed, by the clock of the operator API that wrote it.
    at: Timestamp,
    /// The latest end of the order on the monotonic clock, which cannot be set back.
    until: Duration,
    /// True if the order was in force at this gate, in this process or the one before.
    opened: bool,
    ended: bool,
    reviewed: bool,
}

/// The break-glass orders of the list, and what they open at this gate.
pub(in crate::enforce) struct BreakGlassOrders {
    /// Checks statements. Without it nothing opens.
    breaker: Option<Arc<dyn Breaker>>,
    stops: Arc<Stops>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    /// Every order of the list, by nonce.
    known: Mutex<BTreeMap<String, KnownOrder>>,
    /// Rows that the previous process obeyed, to be checked once the signers are known.
    before: Mutex<Vec<Row>>,
    /// Keys stopped before this process started, with the number of the stopping order. An order
    /// that fell with such a key stays ended, even if the key was reinstated since.
    stopped_keys: Mutex<Vec<(u64, String)>>,
    /// The latest time that a gate or a row on the list shows from before this process started. The
    /// true time is later, whatever the local clock says.
    latest_time: Mutex<Option<Timestamp>>,
}

impl BreakGlassOrders {
    /// Starts without any known order.
    pub fn new(parts: &Parts) -> Self {
        let Commands { breaker, stops, .. } = parts.commands.clone();
        let (clock, metrics) = (Arc::clone(&parts.clock), Arc::clone(&parts.metrics));
        Self {
            breaker,
            stops,
            clock,
            metrics,
            known: Mutex::default(),
            before: Mutex::default(),
            stopped_keys: Mutex::default(),
            latest_time: Mutex::default(),
        }
    }

    /// Records the inputs of the statement checks.
    async fn ready(&self) -> Result<(), ApprovalRefusal> {
        match &self.breaker {
            Some(breaker) => breaker.ready().await,
            None => Ok(()),
        }
    }

    /// Takes in a timestamp that the list shows from before this process started.
    pub fn saw(&self, at: Timestamp) {
        let mut seen = self.latest_time.lock();
        *seen = (*seen).max(Some(at));
    }

    /// Whether the list shows a time at or after the end of this statement.
    fn is_past(&self, statement: &BreakGlassStatement) -> bool {
        self.latest_time.lock().is_some_and(|seen| seen >= statement.expires)
    }

    /// Keeps the number of an order that stopped a key. Ignores all other rows.
    pub fn remember_stop(&self, row: &Row) {
        let stops = [Action::Suspend, Action::Revoke];
        if let Some(Order::Switch { action, target: Target::Key(key) }) = &row.order
            && stops.contains(action)
        {
            self.stopped_keys.lock().push((row.seq, key.clone()));
        }
    }

    /// Whether enough of the order's signers were trusted ever since.
    fn stood(&self, seq: u64, open: &Open) -> bool {
        let stopped_keys = self.stopped_keys.lock();
        open.stands_without(|key| {
            stopped_keys.iter().any(|(at, stopped)| *at > seq && stopped == key)
        })
    }

    /// Keeps a row that the previous process obeyed. Ignores rows that are not break-glass orders.
    pub fn remember(&self, row: &Row) {
        if row.break_glass().is_some() {
            self.before.lock().push(row.clone());
        }
    }

    /// Adds an order, in list order; false if its nonce was used before.
    fn note(&self, row: &Row, signed: &SignedBreakGlass) -> bool {
        let statement = signed.statement();
        // An unreadable statement opens nothing; its row number takes the place of the nonce.
        let nonce = statement.as_ref().map_or_else(|| row.seq.to_string(), |s| s.nonce.clone());
        let mut known = self.known.lock();
        if known.get(&nonce).is_some_and(|known| known.seq != row.seq) {
            return false;
        }
        known.entry(nonce).or_insert(KnownOrder {
            seq: row.seq,
            statement,
            open: None,
            at: row.at,
            until: Duration::ZERO,
            opened: false,
            ended: false,
            reviewed: false,
        });
        true
    }

    fn change(&self, nonce: &str, change: impl FnOnce(&mut KnownOrder)) {
        self.known.lock().get_mut(nonce).map(change);
    }
}

impl KnownOrder {
    /// Ends the order for good if its time is over or too many of its keys are revoked.
    fn look(&mut self, now: Timestamp, monotonic: Duration, revoked: &dyn Fn(&str) -> bool) {
        let Some(open) = &self.open else { return };
        let BreakGlassStatement { not_before, expires, .. } = &open.statement;
        // WHY `monotonic` and `early`: a clock that was set back would prolong the order.
        let late = now >= *expires || monotonic >= self.until;
        let early = now < *not_before || now.plus(BEHIND) < self.at;
        if late || early || !open.stands_without(revoked) {
            self.ended = true;
        }
    }

    fn in_force(&self) -> Option<&Arc<Open>> {
        self.open.as_ref().filter(|_| !self.ended)
    }
}

impl BreakGlassOrders {
    /// The order under which a call of this agent to this tool needs no approver now, if there is
    /// one.
    pub(in crate::enforce) fn open_for(&self, agent: &str, tool: &ToolName) -> Option<Arc<Open>> {
        let mut known = self.known.lock();
        self.look_at(&mut known);
        let mut open = known.values().filter_map(KnownOrder::in_force);
        let covers = |s: &BreakGlassStatement| s.agent == agent && s.tools.contains(tool);
        open.find(|open| covers(&open.statement)).cloned()
    }

    fn look_at(&self, known: &mut BTreeMap<String, KnownOrder>) {
        let (now, monotonic) = (self.clock.now(), self.clock.monotonic());
        let revoked = |key: &str| self.stops.has_key(key, now);
        for one in known.values_mut().filter(|one| !one.ended) {
            one.look(now, monotonic, &revoked);
        }
        let open = known.values().filter(|one| one.in_force().is_some()).count();
        self.metrics.break_glass(open);
    }

    /// Reopens the orders that the previous process had open and that have not ended since. They
    /// are recorded; their signatures are checked again.
    pub fn reopen(&self) {
        for row in std::mem::take(&mut *self.before.lock()) {
            match row.break_glass() {
                Some(BreakGlassOrder::Open(signed)) => {
                    if !self.note(&row, signed) {
                        continue;
                    }
                    match self.holds(signed) {
                        // WHY: a clock that was set back meanwhile would open the order a second
                        // time.
                        Ok(open) if self.is_past(&open.statement) => {
                            self.ended_before(&open.statement.nonce);
                        }
                        Ok(open) => self.take_effect(open),
                        Err(why) => {
                            self.never_opens(signed, &why);
                            // The only objection is its expiry, so the order was in force before.
                            if why.is_expired()
                                && let Some(statement) = signed.statement()
                            {
                                self.ended_before(&statement.nonce);
                            }
                        }
                    }
                }
                Some(BreakGlassOrder::Close(nonce)) => {
                    self.change(nonce, |one| one.ended = true);
                }
                Some(BreakGlassOrder::Review(nonce)) => {
                    self.change(nonce, |one| one.reviewed = true);
                }
                None => {}
            }
        }
    }

    fn never_opens(&self, signed: &SignedBreakGlass, why: &ApprovalRefusal) {
        if !why.is_expired() {
            let (code, message) = (why.code(), &why.why);
            tracing::warn!(%code, %message, "a break-glass order from before the restart was not resumed");
        }
        if let Some(statement) = signed.statement() {
            self.change(&statement.nonce, |one| one.ended = true);
        }
    }

    /// Marks an order that was in force before the restart and has ended. A missing review is still
    /// reported.
    fn ended_before(&self, nonce: &str) {
        self.change(nonce, |one| (one.opened, one.ended) = (true, true));
    }

    fn holds(&self, signed: &SignedBreakGlass) -> Result<Open, ApprovalRefusal> {
        let none = || Purpose::BreakGlass.refusal(RefusalReason::NoBreakGlass);
        self.breaker.as_ref().ok_or_else(none)?.check(signed, self.clock.now())
    }

    fn take_effect(&self, open: Open) {
        let left = open.statement.expires.millis().saturating_sub(self.clock.now().millis());
        let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
        let until = self.clock.monotonic().saturating_add(left);
        let nonce = open.statement.nonce.clone();
        self.change(&nonce, |one| {
            one.ended |= !self.stood(one.seq, &open);
            (one.until, one.open, one.opened) = (until, Some(Arc::new(open)), true);
        });
    }

    /// `data` of `control.applied` for an order that opens nothing.
    fn noted(&self, seq: u64, nonce: &str) -> ControlApplied {
        let known = self.known.lock();
        let statement = known.get(nonce).and_then(|one| one.statement.as_ref());
        let agent = |s: &BreakGlassStatement| (TargetKind::Agent, s.agent.clone());
        let (kind, name) = statement.map_or((TargetKind::All, String::new()), agent);
        ControlApplied::idle(seq, record::control::Action::Note, (kind, &name))
    }

    /// Open orders and overdue reviews, as notes for operators.
    pub fn notes(&self) -> Vec<String> {
        let mut known = self.known.lock();
        self.look_at(&mut known);
        let now = self.clock.now();
        let open = known.values().filter_map(KnownOrder::in_force).map(|open| {
            let BreakGlassStatement { agent, tools, reason, expires, .. } = &open.statement;
            let tools: Vec<&str> = tools.iter().map(ToolName::as_str).collect();
            let tools = tools.join(", ");
            format!("break-glass: agent `{agent}` needs no approver for {tools} until {expires}: {reason}")
        });
        let late = known.values().filter(|one| !one.reviewed && one.opened).filter_map(|one| {
            let end = one.statement.as_ref()?.expires;
            (end.plus(REVIEW_WITHIN) < now).then(|| {
                format!(
                    "break-glass: order {} ended at {end} and was not reviewed within 24 hours",
                    one.seq
                )
            })
        });
        open.chain(late.take(TOLD_MAX)).collect()
    }
}

impl Control {
    /// Records and reports an order that opens nothing.
    async fn record_without_opening(&self, seq: u64, applied: ControlApplied) {
        let done = Json::of(&applied);
        let entry = DraftWithPayloads::bare(Draft::of(applied));
        // Without an entry the effect is not recorded, so there is nothing to report.
        if self.ledger.owe(entry).await.is_ok() {
            self.report(seq, done).await;
        }
    }
}

impl Road {
    /// Obeys a break-glass row in list order. An end takes effect at once; an opening takes effect
    /// once it is recorded.
    pub(super) fn break_glass_row(self: &Arc<Self>, row: &Row) {
        let (road, seq) = (Arc::clone(self), row.seq);
        match row.break_glass() {
            Some(BreakGlassOrder::Open(signed)) => {
                let (fresh, signed) = (self.control.break_glass.note(row, signed), signed.clone());
                self.tasks.spawn(async move {
                    let done = match fresh {
                        true => road.open_break_glass(seq, &signed).await,
                        false => refused(&Purpose::BreakGlass.refusal(RefusalReason::Used)),
                    };
                    road.control.report(seq, done).await;
                });
            }
            Some(BreakGlassOrder::Close(nonce)) => {
                self.control.break_glass.change(nonce, |one| one.ended = true);
                let done = self.control.break_glass.noted(seq, nonce);
                tracing::warn!(order = seq, %nonce, "break-glass closed");
                self.tasks
                    .spawn(async move { road.control.record_without_opening(seq, done).await });
            }
            Some(BreakGlassOrder::Review(nonce)) => {
                self.control.break_glass.change(nonce, |one| one.reviewed = true);
                let done = self.control.break_glass.noted(seq, nonce);
                self.tasks
                    .spawn(async move { road.control.record_without_opening(seq, done).await });
            }
            None => {}
        }
    }

    /// Checks a statement, records the opening, and only then puts it in force.
    async fn open_break_glass(self: &Arc<Self>, seq: u64, signed: &SignedBreakGlass) -> Json {
        let break_glass = &self.control.break_glass;
        let open = match break_glass.ready().await.and_then(|()| break_glass.holds(signed)) {
            Ok(open) => open,
            Err(why) => {
                let (detail, message) = (why.code(), &why.why);
                tracing::warn!(order = seq, %detail, %message, "this gate refused to open break-glass");
                break_glass.never_opens(signed, &why);
                return refused(&why);
            }
        };
        let BreakGlassStatement { agent, tools, reason, expires, .. } = &open.statement;
        let names: Vec<&str> = tools.iter().map(ToolName::as_str).collect();
        let by = open.subjects();
        tracing::warn!(order = seq, %agent, tools = ?names, %reason, %expires, ?by, "BREAK-GLASS open: calls need no approver");
        let applied = ControlApplied::idle(
            seq,
            record::control::Action::BreakGlass,
            (TargetKind::Agent, agent),
        );
        let done = Json::of(&applied);
        let entry = DraftWithPayloads::bare(Draft::of(applied));
        if let Err(why) = self.ledger.owe(entry).await {
            return Json::object([("error", Json::from(why.to_string()))]);
        }
        break_glass.take_effect(open);
        self.release_held();
        done
    }

    /// Judges again the held calls that no longer need an approver.
    pub(super) fn release_held(self: &Arc<Self>) {
        for run in self.runs.all() {
            let held: Vec<(CallId, ToolName)> = {
                let state = run.state.lock();
                let held = state.calls.iter().filter(|(_, place)| matches!(place, CallStage::Held));
                let to = |call: &CallId| Some((call.clone(), state.held_tools.get(call)?.clone()));
                held.filter_map(|(call, _)| to(call)).collect()
            };
            let covered = held.iter().filter(|(_, tool)| {
                self.control.break_glass.open_for(&run.agent.id, tool).is_some()
            });
            covered.for_each(|(call, _)| self.weigh_soon(&run, call));
        }
    }
}
