//! Polls the list of orders, and publishes this gate's presence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Control;
use super::exceptions::{RecordedExceptions, allows};
use super::switches::Switches;
use crate::control::answer::ENDED;
use crate::control::{Action, Order, Orders, Presence, Row, Target};
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::enforce::Road;
use crate::ledger::drafts::DraftWithPayloads;
use crate::ledger::store::StoreError;
use crate::record::control::{ControlApplied, TargetKind};
use crate::record::{self, Draft, TaggedDigest};

/// Pause between two reads of the list; with the read itself, less than 250 ms.
const LOOK: Duration = Duration::from_millis(200);
/// Interval of presence updates while the state changes.
const SHOW: Duration = Duration::from_secs(1);
/// Interval of presence updates while the state is unchanged.
const SHOW_SAME: Duration = Duration::from_secs(3);
/// Stops that one entry names.
const STANDING_MAX: usize = 32;
/// Rows per read.
const PAGE: usize = 256;

/// Further members of [`Presence::state`] that the gate reports.
pub type StateReporter = Arc<dyn Fn() -> Vec<(&'static str, Json)> + Send + Sync>;

/// The list that a gate follows, and the gate's identity in it.
#[derive(Clone)]
pub struct Follow {
    /// The list.
    pub orders: Arc<dyn Orders>,
    /// Origin of the gate's chain.
    pub origin: String,
    /// Host and process, for a human reader.
    pub writer: String,
    /// Further state that the gate reports: `ready`, `reasons`.
    pub state: StateReporter,
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Follow({})", self.origin)
    }
}

/// This gate's progress through the list.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The last row that was read.
    last_row: u64,
    /// Rows that were read and are not reported yet.
    open: BTreeSet<u64>,
}

/// Orders that arrived while this gate was down. Their stops apply already; their effect on calls
/// is still due.
#[derive(Debug, Default)]
#[must_use = "an order that is not obeyed"]
pub struct Backlog(Vec<Row>);

impl Progress {
    pub fn begin(&mut self, seq: u64) {
        self.open.insert(seq);
        self.last_row = self.last_row.max(seq);
    }

    pub fn end(&mut self, seq: u64) {
        self.open.remove(&seq);
    }

    /// The last row up to which every row is obeyed and reported.
    fn applied_up_to(&self) -> u64 {
        self.applied_up_to_except(&[])
    }

    /// The same, while these rows are still due.
    fn applied_up_to_except(&self, due: &[Row]) -> u64 {
        let due = due.first().map(|row| row.seq);
        let first = self.open.first().copied().into_iter().chain(due).min();
        first.map_or(self.last_row, |first| first.saturating_sub(1))
    }
}

/// Rows that this gate's own ledger contains. Their current content in the list changes nothing.
#[derive(Debug, Default)]
struct RecordedRows {
    /// All rows up to this one, identified by number and digest.
    upto: Option<(u64, Digest)>,
    /// Single rows after it.
    later: BTreeMap<u64, Digest>,
}

impl RecordedRows {
    fn has(&self, row: &Row) -> bool {
        self.upto.is_some_and(|(seq, _)| row.seq <= seq)
            || self.later.get(&row.seq) == Some(&row.digest)
    }
}

/// Whether a row takes back a stop and has not been obeyed here.
fn loosens(row: &Row, recorded: &RecordedRows) -> bool {
    let loosens = matches!(
        row.order,
        Some(Order::Loosen(_) | Order::Switch { action: Action::Reinstate, .. })
    );
    loosens && !recorded.has(row)
}

impl Control {
    fn mark_read(&self, began: Duration) {
        *self.read.lock() = Some(began);
    }

    /// Reads the whole list from the first row, so that stops survive a restart, and publishes this
    /// gate's presence. Returns the orders that are still due; [`Road::resume`] obeys them before
    /// the gate takes any call.
    ///
    /// # Errors
    /// The list cannot be read; the state is unchanged.
    pub async fn rebuild(&self) -> Result<Backlog, StoreError> {
        let Some(follow) = &self.commands.follow else { return Ok(Backlog::default()) };
        let (began, orders) = (self.clock.monotonic(), &follow.orders);
        let shown = orders.shown().await?;
        shown.iter().for_each(|gate| self.break_glass.saw(gate.at));
        let before = shown.into_iter().find(|gate| gate.origin == follow.origin);
        let (mut switches, mut recorded, exceptions) = self.recorded_stops().await?;
        self.compare(follow, &mut recorded).await?;
        let mut progress = Progress::default();
        let (mut obeyed, mut unseen, mut last) = (Vec::new(), Vec::new(), None);
        loop {
            let rows = orders.since(progress.last_row, PAGE).await?;
            let full = rows.len() >= PAGE;
            for row in rows {
                progress.last_row = row.seq;
                last = Some(row.clone());
                self.break_glass.saw(row.at);
                self.release.saw(&row);
                if let Some(Order::Loosen(signed)) = &row.order
                    && allows(&row).is_some()
                {
                    // Its first row, over every restart.
                    self.release.uses(&signed.statement, row.seq);
                }
                if let Some(Order::Switch { action, target }) = &row.order
                    && !recorded.has(&row)
                {
                    switches.stop(&row, *action, target);
                }
                self.break_glass.remember_stop(&row);
                self.exceptions.saw(&row, exceptions.has(&row));
                // WHY: a new gate too must record a break-glass order itself before the order opens
                // anything.
                let new =
                    (before.is_none() && row.break_glass().is_some()) || loosens(&row, &recorded);
                if new || before.as_ref().is_some_and(|before| before.seq < row.seq) {
                    unseen.push(row);
                } else {
                    obeyed.push(row);
                }
            }
            if !full {
                break;
            }
        }
        let mut due = Vec::new();
        for row in unseen {
            let reports = orders.reports(row.seq).await?;
            if reports.iter().any(|report| report.origin == follow.origin) {
                obeyed.push(row);
            } else {
                due.push(row);
            }
        }
        let presence = Presence {
            origin: follow.origin.clone(),
            writer: follow.writer.clone(),
            at: self.clock.now(),
            seq: progress.applied_up_to_except(&due),
            state: Json::object([("ready", Json::from(false))]),
        };
        orders.show(&presence).await?;
        self.record_stops(last.as_ref(), &switches).await?;
        *self.commands.stops.write() = switches;
        obeyed.sort_by_key(|row| row.seq);
        obeyed.iter().for_each(|row| self.break_glass.remember(row));
        *self.progress.lock() = progress;
        self.mark_read(began);
        Ok(Backlog(due))
    }

    /// The stops and exceptions in this gate's own ledger, and the rows they come from.
    async fn recorded_stops(
        &self,
    ) -> Result<(Switches, RecordedRows, RecordedExceptions), StoreError> {
        let unread = |e: crate::ledger::Error| StoreError::Unavailable(e.to_string());
        let (mut switches, mut recorded) = (Switches::default(), RecordedRows::default());
        let mut exceptions = RecordedExceptions::default();
        for applied in self.ledger.applied_orders().await.map_err(unread)? {
            let seq = applied.seq.get();
            match applied.row {
                Some(row) if applied.standing.is_some() => recorded.upto = Some((seq, row.0)),
                Some(row) => drop(recorded.later.insert(seq, row.0)),
                None => {}
            }
            let statement = applied.statement.as_deref();
            statement.map(|statement| self.release.uses(statement, seq));
            switches.take_up(&applied);
            exceptions.take_up(&applied);
        }
        Ok((switches, recorded, exceptions))
    }

    /// Checks that the list still has the recorded row. If the list was changed since, the change
    /// cannot loosen anything: every row is applied again, in addition to the recorded stops.
    async fn compare(
        &self,
        follow: &Follow,
        recorded: &mut RecordedRows,
    ) -> Result<(), StoreError> {
        let Some((seq, digest)) = recorded.upto else { return Ok(()) };
        let row = follow.orders.since(seq.saturating_sub(1), 1).await?.pop();
        if row.as_ref().map(|row| (row.seq, row.digest)) != Some((seq, digest)) {
            tracing::error!(
                order = seq,
                "the list of operators' orders differs from the one that this gate read before"
            );
            recorded.upto = None;
        }
        Ok(())
    }

    /// Records the current stops, so that they survive whatever happens to the list.
    async fn record_stops(
        &self,
        last: Option<&Row>,
        switches: &Switches,
    ) -> Result<(), StoreError> {
        let Some(last) = last else { return Ok(()) };
        let unsure = |e: crate::ledger::Error| StoreError::Unavailable(e.to_string());
        let mut standing = switches.standing(self.clock.now());
        let mut exceptions = Some(self.exceptions.standing(self.clock.now()));
        loop {
            let rest = standing.split_off(standing.len().min(STANDING_MAX));
            let entry = DraftWithPayloads::bare(Draft::of(ControlApplied {
                row: Some(TaggedDigest(last.digest)),
                // Once, however many entries the stops need.
                exceptions: exceptions.take().map(|all| all.into_iter().map(Into::into).collect()),
                standing: Some(standing.into_iter().collect()),
                ..ControlApplied::idle(
                    last.seq,
                    record::control::Action::Note,
                    (TargetKind::All, ""),
                )
            }));
            self.ledger.owe(entry).await.map_err(unsure)?;
            if rest.is_empty() {
                return Ok(());
            }
            standing = rest;
        }
    }

    fn presence(&self, follow: &Follow, state: Json) -> Presence {
        let (origin, writer) = (follow.origin.clone(), follow.writer.clone());
        let seq = self.progress.lock().applied_up_to();
        Presence { origin, writer, at: self.clock.now(), seq, state }
    }
}

impl Road {
    /// Obeys the orders that arrived while this gate was down. Call it once the runs of the
    /// previous process are known, and before any call is taken.
    pub(in crate::enforce) async fn catch_up(self: &Arc<Self>, Backlog(due): Backlog) {
        self.control.break_glass.reopen();
        self.reopen_exceptions().await;
        self.release_held();
        // All at once: otherwise a later row could count as obeyed before it is.
        due.iter().for_each(|row| self.control.progress.lock().begin(row.seq));
        for row in due {
            match &row.order {
                // Before the first call is served, so that no call is denied for a stop that was
                // taken back.
                Some(Order::Loosen(signed)) => self.loosen_row(&row, signed).await,
                Some(_) | None => self.carry_out(row).await,
            }
        }
    }

    /// Follows the list and the switch file until cancelled. If no call is on the road then,
    /// publishes that this gate has ended.
    pub async fn follow_orders(self: Arc<Self>, until: CancellationToken) {
        tokio::join!(self.follow_list(&until), self.follow_file(&until));
    }

    async fn follow_list(self: &Arc<Self>, until: &CancellationToken) {
        let Some(follow) = &self.control.commands.follow else { return };
        let (mut failing, mut shown) = (false, None);
        loop {
            let looked = self.look(follow).await;
            match &looked {
                Ok(_) if failing => tracing::info!("operators' orders can be read again"),
                Err(error) if !failing => {
                    tracing::warn!(%error, "operators' orders cannot be read");
                }
                Ok(_) | Err(_) => {}
            }
            failing = looked.is_err();
            if !failing {
                self.show(follow, &mut shown).await;
            }
            let full = looked.is_ok_and(|rows| rows >= PAGE);
            tokio::select! {
                biased;
                () = until.cancelled() => break,
                () = std::future::ready(()), if full => {}
                () = self.control.wake.notified() => {}
                () = follow.orders.put_here() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
        let (_, in_flight) = self.load();
        if in_flight == 0 {
            let state = Json::object([(ENDED, Json::from(true))]);
            drop(follow.orders.show(&self.control.presence(follow, state)).await);
        }
    }

    /// Reads new rows and obeys them in order; returns their number.
    async fn look(self: &Arc<Self>, follow: &Follow) -> Result<usize, StoreError> {
        let began = self.clock.monotonic();
        let seen = self.control.progress.lock().last_row;
        let rows = follow.orders.since(seen, PAGE).await?;
        let count = rows.len();
        for row in rows {
            self.apply_order(row).await;
        }
        self.control.mark_read(began);
        Ok(count)
    }

    async fn show(&self, follow: &Follow, last: &mut Option<(Duration, Presence)>) {
        let runs = self.runs.open();
        let held: usize = runs.iter().map(|run| run.state.lock().held).sum();
        let (open, in_flight) = (runs.len(), self.load().1);
        let number = |n: usize| Json::from(u64::try_from(n).unwrap_or(u64::MAX));
        let mut state = vec![
            ("open_runs", number(open)),
            ("in_flight", number(in_flight)),
            ("held", number(held)),
            ("pools", self.budget.pools_left().into()),
            ("stops", self.control.stops_in_force().into()),
            ("suspended", self.budget.suspensions(&runs).into()),
        ];
        state.extend((follow.state)());
        let presence = self.control.presence(follow, Json::object(state));
        let now = self.clock.monotonic();
        let due = match last {
            None => true,
            Some((at, before)) => {
                let same = (&before.state, before.seq) == (&presence.state, presence.seq);
                let wait = if same { SHOW_SAME } else { SHOW };
                // An obeyed row is published at once.
                before.seq != presence.seq || now.saturating_sub(*at) >= wait
            }
        };
        if due && follow.orders.show(&presence).await.is_ok() {
            *last = Some((now, presence));
        }
    }

    /// Stops calls on the road when the file begins to stop them. New decisions consult the file
    /// themselves.
    async fn follow_file(self: &Arc<Self>, until: &CancellationToken) {
        let Some(file) = &self.control.file else { return };
        let mut before: Vec<Target> = Vec::new();
        loop {
            let now = file.content(self.clock.monotonic()).targets();
            for target in now.iter().filter(|target| !before.contains(target)) {
                self.by_file(Action::Revoke, target.clone());
            }
            for target in before.iter().filter(|target| !now.contains(target)) {
                self.by_file(Action::Reinstate, target.clone());
            }
            before = now;
            tokio::select! {
                biased;
                () = until.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// An order of the file has number 0. Its runs stay open, because the file may be removed
    /// again.
    fn by_file(self: &Arc<Self>, action: Action, target: Target) {
        tracing::warn!(action = action.as_str(), kind = target.kind(), name = %target.name(), "the switch file changed");
        let reach = self.stop_what(action, &target, false);
        let road = Arc::clone(self);
        self.tasks.spawn(async move { drop(road.finish(None, (action, &target), reach).await) });
    }
}
