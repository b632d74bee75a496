//! Reading the list of orders, again and again, and showing that this gate is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Control;
use super::glass::is_glass;
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

/// Between two looks at the list, with the time a look takes less than 250 ms.
const LOOK: Duration = Duration::from_millis(200);
/// Between two signs of life while something changes.
const SHOW: Duration = Duration::from_secs(1);
/// Between two signs of life while nothing changes.
const SHOW_SAME: Duration = Duration::from_secs(3);
/// Stops that one entry names.
const STANDING_MAX: usize = 32;
/// Rows of one look.
const PAGE: usize = 256;

/// What else a gate tells about itself: members of [`Presence::state`].
pub type StateReporter = Arc<dyn Fn() -> Vec<(&'static str, Json)> + Send + Sync>;

/// Which list a gate follows, and as whom.
#[derive(Clone)]
pub struct Follow {
    /// The list.
    pub orders: Arc<dyn Orders>,
    /// Origin of the gate's chain.
    pub origin: String,
    /// Host and process, for people.
    pub writer: String,
    /// What else the gate tells about itself: `ready`, `reasons`.
    pub told: StateReporter,
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Follow({})", self.origin)
    }
}

/// How far this gate is with the list.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The last row that was taken up.
    seen: u64,
    /// Rows that were taken up and are not reported yet.
    open: BTreeSet<u64>,
}

/// Orders that came while this gate was away: what they stop is stopped, their calls are not yet.
#[derive(Debug, Default)]
#[must_use = "an order that is not obeyed"]
pub struct Backlog(Vec<Row>);

impl Progress {
    pub fn begin(&mut self, seq: u64) {
        self.open.insert(seq);
        self.seen = self.seen.max(seq);
    }

    pub fn end(&mut self, seq: u64) {
        self.open.remove(&seq);
    }

    /// Every row up to this one is obeyed and reported.
    fn obeyed(&self) -> u64 {
        self.obeyed_but(&[])
    }

    /// The same while these are still to be obeyed.
    fn obeyed_but(&self, owed: &[Row]) -> u64 {
        let owed = owed.first().map(|row| row.seq);
        let first = self.open.first().copied().into_iter().chain(owed).min();
        first.map_or(self.seen, |first| first.saturating_sub(1))
    }
}

/// Rows that this gate's own books speak of: what the list says of them now changes nothing.
#[derive(Debug, Default)]
struct RecordedRows {
    /// All up to this one, which is said by number and digest.
    upto: Option<(u64, Digest)>,
    /// And these.
    later: BTreeMap<u64, Digest>,
}

impl RecordedRows {
    fn has(&self, row: &Row) -> bool {
        self.upto.is_some_and(|(seq, _)| row.seq <= seq)
            || self.later.get(&row.seq) == Some(&row.digest)
    }
}

/// Whether a row takes back a stop, and has not been obeyed here.
fn loosens(row: &Row, recorded: &RecordedRows) -> bool {
    let loosens = matches!(
        row.order,
        Some(Order::Loosen(_) | Order::Switch { action: Action::Reinstate, .. })
    );
    loosens && !recorded.has(row)
}

impl Control {
    fn heard(&self, began: Duration) {
        *self.read.lock() = Some(began);
    }

    /// Reads the whole list from its first row, so that what was stopped stays stopped over a restart, and
    /// shows that this gate is there. What has to be obeyed still is for [`Road::resume`], before the gate takes any
    /// call.
    ///
    /// # Errors
    /// The list cannot be read: nothing is known, and nothing changed.
    pub async fn rebuild(&self) -> Result<Backlog, StoreError> {
        let Some(follow) = &self.commands.follow else { return Ok(Backlog::default()) };
        let (began, orders) = (self.clock.monotonic(), &follow.orders);
        let shown = orders.shown().await?;
        shown.iter().for_each(|gate| self.glass.saw(gate.at));
        let before = shown.into_iter().find(|gate| gate.origin == follow.origin);
        let (mut switches, mut recorded) = self.on_the_books().await?;
        self.compare(follow, &mut recorded).await?;
        let mut progress = Progress::default();
        let (mut obeyed, mut unseen, mut last) = (Vec::new(), Vec::new(), None);
        loop {
            let rows = orders.since(progress.seen, PAGE).await?;
            let full = rows.len() >= PAGE;
            for row in rows {
                progress.seen = row.seq;
                last = Some(row.clone());
                self.glass.saw(row.at);
                self.release.saw(&row);
                if let Some(Order::Switch { action, target }) = &row.order
                    && !recorded.has(&row)
                {
                    switches.stop(&row, *action, target);
                }
                self.glass.remember_stop(&row);
                // WHY: a gate that is new opens nothing either before that is on its own books.
                let new = (before.is_none() && is_glass(&row)) || loosens(&row, &recorded);
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
        let mut owed = Vec::new();
        for row in unseen {
            let reports = orders.reports(row.seq).await?;
            if reports.iter().any(|report| report.origin == follow.origin) {
                obeyed.push(row);
            } else {
                owed.push(row);
            }
        }
        let presence = Presence {
            origin: follow.origin.clone(),
            writer: follow.writer.clone(),
            at: self.clock.now(),
            seq: progress.obeyed_but(&owed),
            state: Json::object([("ready", Json::from(false))]),
        };
        orders.show(&presence).await?;
        self.put_standing(last.as_ref(), &switches).await?;
        *self.commands.stops.write() = switches;
        obeyed.sort_by_key(|row| row.seq);
        obeyed.iter().for_each(|row| self.glass.remember(row));
        *self.progress.lock() = progress;
        self.heard(began);
        Ok(Backlog(owed))
    }

    /// What stands by this gate's own books, and which rows they speak of.
    async fn on_the_books(&self) -> Result<(Switches, RecordedRows), StoreError> {
        let unread = |e: crate::ledger::Error| StoreError::Unavailable(e.to_string());
        let (mut switches, mut recorded) = (Switches::default(), RecordedRows::default());
        for applied in self.ledger.orders_obeyed().await.map_err(unread)? {
            let seq = applied.seq.get();
            match applied.row {
                Some(row) if applied.standing.is_some() => recorded.upto = Some((seq, row.0)),
                Some(row) => drop(recorded.later.insert(seq, row.0)),
                None => {}
            }
            let statement = applied.statement.as_deref();
            statement.map(|statement| self.release.uses(statement, seq));
            switches.take_up(&applied);
        }
        Ok((switches, recorded))
    }

    /// Whoever changed the list since loosens nothing by it: then each row counts again, beside the books.
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
                "the list of orders is not the one that this gate has read before"
            );
            recorded.upto = None;
        }
        Ok(())
    }

    /// Puts on the books what stands now, so that it stands whatever becomes of the list.
    async fn put_standing(
        &self,
        last: Option<&Row>,
        switches: &Switches,
    ) -> Result<(), StoreError> {
        let Some(last) = last else { return Ok(()) };
        let unsure = |e: crate::ledger::Error| StoreError::Unavailable(e.to_string());
        let mut standing = switches.standing(self.clock.now());
        loop {
            let rest = standing.split_off(standing.len().min(STANDING_MAX));
            let entry = DraftWithPayloads::bare(Draft::of(ControlApplied {
                row: Some(TaggedDigest(last.digest)),
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
        let seq = self.progress.lock().obeyed();
        Presence { origin, writer, at: self.clock.now(), seq, state }
    }
}

impl Road {
    /// Obeys what came while this gate was away. To be done once the runs of the last life are known, and
    /// before any call is taken.
    pub(in crate::enforce) async fn catch_up(self: &Arc<Self>, Backlog(owed): Backlog) {
        self.control.glass.reopen();
        self.release_held();
        // All at once, so that none of them counts as obeyed before it is.
        owed.iter().for_each(|row| self.control.progress.lock().begin(row.seq));
        for row in owed {
            match &row.order {
                // Before anybody is served, so that nothing is denied because of what was taken back.
                Some(Order::Loosen(signed)) => self.loosen_row(&row, signed).await,
                Some(_) | None => self.carry_out(row).await,
            }
        }
    }

    /// Follows the list and the switch file until it is told not to, then shows that it ended, if nothing
    /// is on the road any more.
    pub async fn follow_orders(self: Arc<Self>, until: CancellationToken) {
        tokio::join!(self.follow_list(&until), self.follow_file(&until));
    }

    async fn follow_list(self: &Arc<Self>, until: &CancellationToken) {
        let Some(follow) = &self.control.commands.follow else { return };
        let (mut failing, mut shown) = (false, None);
        loop {
            let looked = self.look(follow).await;
            match &looked {
                Ok(_) if failing => tracing::info!("operators' orders are read again"),
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

    /// Reads what is new and obeys it, in order; how many rows that were.
    async fn look(self: &Arc<Self>, follow: &Follow) -> Result<usize, StoreError> {
        let began = self.clock.monotonic();
        let seen = self.control.progress.lock().seen;
        let rows = follow.orders.since(seen, PAGE).await?;
        let count = rows.len();
        for row in rows {
            self.obey(row).await;
        }
        self.control.heard(began);
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
        ];
        state.extend((follow.told)());
        let presence = self.control.presence(follow, Json::object(state));
        let now = self.clock.monotonic();
        let due = match last {
            None => true,
            Some((at, before)) => {
                let same = (&before.state, before.seq) == (&presence.state, presence.seq);
                let wait = if same { SHOW_SAME } else { SHOW };
                // A row that was obeyed is told at once.
                before.seq != presence.seq || now.saturating_sub(*at) >= wait
            }
        };
        if due && follow.orders.show(&presence).await.is_ok() {
            *last = Some((now, presence));
        }
    }

    /// Stops what is on the road when the file begins to stop it. Decisions ask the file themselves.
    async fn follow_file(self: &Arc<Self>, until: &CancellationToken) {
        let Some(file) = &self.control.file else { return };
        let mut before: Vec<Target> = Vec::new();
        loop {
            let now = file.said(self.clock.monotonic()).targets();
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

    /// The file has no number: 0. Its runs stay open, for it may go away again.
    fn by_file(self: &Arc<Self>, action: Action, target: Target) {
        tracing::warn!(action = action.as_str(), kind = target.kind(), name = %target.name(), "the switch file");
        let reach = self.stop_what(action, &target, false);
        let road = Arc::clone(self);
        self.tasks.spawn(async move { drop(road.finish(None, (action, &target), reach).await) });
    }
}
