//! What one gate holds of the shared pools, and spends on its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Mutex as Turn;

use super::pool::{Hold, Lease, Per, Pool, PoolRequest, Pools, Unanswered, Unit};
use super::{BudgetShare, Spend};
use crate::clock::{Clock, Entropy, random16};
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::time::Timestamp;

/// How long one request to the store may take, including the wait for earlier requests.
const WAIT: Duration = Duration::from_secs(4);
/// How long the gate does not ask again for an empty pool: a flood of calls costs the store four
/// questions a second.
const DRY: Duration = Duration::from_millis(250);
/// How long the gate uses units of a concurrency pool without asking the store.
const FRESH: Duration = Duration::from_secs(30);
/// From the reservation until its call is at the tool, at most.
const START: Duration = Duration::from_secs(15);
/// Questions for one reservation at most; each but the last got fewer units than were needed.
const TRIES: usize = 8;
/// Pools in a policy's input, at most.
const TOLD_MAX: usize = 16;

/// One pool that covers the call, as a policy sees it (`input.pools[]`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolRemainder {
    /// The pool.
    pub name: String,
    /// `requests`, `tokens`, `cost_micro_usd` or `concurrency`.
    pub unit: &'static str,
    /// What is left of the window in thousandths, this call taken off: what the gate holds, and
    /// what no gate held when it last asked.
    pub left_permille: u64,
    /// Units of a window.
    pub size: u64,
}

/// The call that wants units.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The agent.
    pub agent: &'a str,
    /// Labels of its manifest.
    pub labels: &'a BTreeMap<String, String>,
    /// The tool.
    pub tool: &'a str,
    /// What the call may take.
    pub spend: Spend,
    /// How long this call takes at most.
    pub timeout: Duration,
    /// How long any call of this gate takes at most.
    pub longest: Duration,
}

/// Why no units were reserved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QuotaRefusal {
    /// Pools have not enough left, or the call's cost is unknown.
    Over(Vec<LayerReason>),
    /// The store did not answer: the rest is unknown, so the call must not run.
    Unanswered(String),
}

/// The gate's share of every pool.
pub struct Quota {
    holder: String,
    shares: Vec<Share>,
    store: Arc<dyn Pools>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Quota {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Quota").field("shares", &self.shares).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Share {
    pool: Pool,
    local: Mutex<Local>,
    /// Whose turn it is to ask the store.
    turn: Turn<()>,
}

#[derive(Debug, Default)]
struct Local {
    /// Beginning of the window `units` are of.
    window: Option<i64>,
    /// Leased and not spent.
    units: u64,
    /// Units that no gate held when the store last answered.
    spare: u64,
    serial: u64,
    /// The gate does not ask the store before this monotonic time.
    dry_until: Duration,
    /// Calls at the same time: how many there are, how many the store knows of.
    running: u64,
    held: u64,
    /// Until when `held` may be used without asking, monotonic, and for how long calls.
    fresh_until: Duration,
    covers: Duration,
}

/// Reserved units: dropping this gives them back, unless the call was started.
#[derive(Debug)]
#[must_use = "dropping a reservation gives its units back"]
pub struct Reserved {
    quota: Arc<Quota>,
    taken: Vec<TakenQuota>,
    started: bool,
    /// The rest of the pools that cover the call.
    pub remainders: Vec<PoolRemainder>,
}

#[derive(Clone, Copy, Debug)]
struct TakenQuota {
    share: usize,
    window: i64,
    units: u64,
}

impl Reserved {
    /// The call is at its tool, or may be: its units are spent.
    pub fn start(&mut self) {
        self.started = true;
    }

    /// It is certain that the call never started.
    pub fn never_started(&mut self) {
        self.started = false;
    }

    /// Records the call's real use, and gives the rest of its reservation back.
    pub fn took(&mut self, spent: BudgetShare) {
        for taken in &mut self.taken {
            self.quota.give_rest_back(taken, spent);
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        for taken in self.taken.drain(..) {
            self.quota.put_back(taken, self.started);
        }
    }
}

impl Quota {
    /// A quota without leases. The holder's name is random in each life of a process.
    pub fn new(
        pools: Vec<Pool>,
        store: Arc<dyn Pools>,
        clock: Arc<dyn Clock>,
        entropy: &dyn Entropy,
    ) -> Arc<Self> {
        let shares = pools.into_iter().map(|pool| {
            let (local, turn) = (Mutex::default(), Turn::default());
            Share { pool, local, turn }
        });
        let holder = hex::encode(random16(entropy));
        Arc::new(Self { holder, shares: shares.collect(), store, clock })
    }

    /// Reserves the call's cost in every pool that covers it, or nothing.
    ///
    /// # Errors
    /// [`Refused`]; nothing is taken.
    pub async fn reserve(self: &Arc<Self>, wanted: &Wanted<'_>) -> Result<Reserved, QuotaRefusal> {
        let quota = Arc::clone(self);
        let mut reserved =
            Reserved { quota, taken: Vec::new(), started: false, remainders: Vec::new() };
        let mut over = Vec::new();
        for (index, share) in self.shares.iter().enumerate() {
            let Wanted { agent, labels, tool, .. } = *wanted;
            if !share.pool.covers(agent, labels, tool) {
                continue;
            }
            let units = match (share.pool.unit, wanted.spend.cost_micro_usd) {
                (Unit::Requests | Unit::Concurrency, _) => 1,
                // Only a model uses tokens.
                (Unit::Tokens, _) if wanted.spend.tokens == 0 => continue,
                (Unit::Tokens, _) => wanted.spend.tokens,
                (Unit::CostMicroUsd, Some(cost)) => cost,
                (Unit::CostMicroUsd, None) => {
                    over.push(unpriced(&share.pool, tool));
                    continue;
                }
            };
            let window = match share.pool.unit {
                Unit::Concurrency => self.join(share, wanted).await,
                Unit::Requests | Unit::Tokens | Unit::CostMicroUsd => self.take(share, units).await,
            };
            match window {
                Ok(Some(window)) => {
                    reserved.taken.push(TakenQuota { share: index, window, units });
                    if reserved.remainders.len() < TOLD_MAX {
                        reserved.remainders.push(share.remainder());
                    }
                }
                Ok(None) => over.push(empty(&share.pool)),
                Err(Unanswered(why)) => {
                    let name = &share.pool.name;
                    return Err(QuotaRefusal::Unanswered(format!("pool `{name}`: {why}")));
                }
            }
        }
        if over.is_empty() { Ok(reserved) } else { Err(QuotaRefusal::Over(over)) }
    }

    /// Units of this window, from the lease or from a new one; `None` if the pool is empty.
    async fn take(&self, share: &Share, units: u64) -> Result<Option<i64>, Unanswered> {
        let now = || share.pool.per.starts(self.clock.now());
        let window = now();
        if let Some(found) = self.take_local(share, window, units) {
            return Ok(found.then_some(window));
        }
        let asking = async {
            let _turn = share.turn.lock().await;
            for _ in 0..TRIES {
                // The window may be over by the time it is our turn.
                let window = now();
                if let Some(found) = self.take_local(share, window, units) {
                    return Ok(found.then_some(window));
                }
                let ask = self.ask(share, window, units);
                let lease = self.store.lease(&ask).await?;
                self.leased(share, &ask, lease);
            }
            Ok(None)
        };
        in_time(asking).await
    }

    /// Takes the units from the lease. `Some(false)`: the pool is known to be empty; `None`: the
    /// store must be asked.
    fn take_local(&self, share: &Share, window: i64, units: u64) -> Option<bool> {
        let mut local = share.local.lock();
        if local.window != Some(window) {
            // Leases of another window are lost with it.
            *local = Local { window: Some(window), serial: local.serial, ..Local::default() };
        }
        if let Some(rest) = local.units.checked_sub(units) {
            local.units = rest;
            return Some(true);
        }
        (self.clock.monotonic() < local.dry_until && local.spare == 0).then_some(false)
    }

    fn ask(&self, share: &Share, window: i64, units: u64) -> PoolRequest {
        let local = share.local.lock();
        let remembered = share.pool.per.remembered_ms();
        PoolRequest {
            pool: share.pool.name.clone(),
            starts: window,
            forget: if remembered == 0 { 0 } else { window.saturating_sub(remembered) },
            size: share.pool.size,
            need: units.saturating_sub(local.units).max(1),
            holder: self.holder.clone(),
            // WHY: only an answer advances it. After a lost answer, the store repeats the same
            // grant for the same serial.
            serial: local.serial.saturating_add(1),
        }
    }

    fn leased(&self, share: &Share, ask: &PoolRequest, lease: Lease) {
        let mut local = share.local.lock();
        local.serial = local.serial.max(ask.serial);
        if local.window != Some(ask.starts) {
            return;
        }
        local.units = local.units.saturating_add(lease.granted);
        local.spare = lease.spare;
        if lease.granted == 0 {
            local.dry_until = self.clock.monotonic().saturating_add(DRY);
        }
    }

    /// One more call at the same time.
    async fn join(&self, share: &Share, wanted: &Wanted<'_>) -> Result<Option<i64>, Unanswered> {
        if self.join_local(share, wanted) {
            return Ok(Some(0));
        }
        let asking = async {
            let _turn = share.turn.lock().await;
            if self.join_local(share, wanted) {
                return Ok(Some(0));
            }
            let asked_at = self.clock.monotonic();
            let covers = wanted.longest.max(wanted.timeout);
            let units = share.local.lock().running.saturating_add(1);
            let lease = self.store.hold(&self.holding(share, units, covers)).await?;
            let mut local = share.local.lock();
            local.spare = lease.spare;
            if lease.granted == 0 {
                return Ok(None);
            }
            local.held = lease.granted;
            local.fresh_until = asked_at.saturating_add(FRESH);
            local.covers = covers;
            local.running = local.running.saturating_add(1);
            Ok(Some(0))
        };
        in_time(asking).await
    }

    /// Uses a held and free unit, if the lease covers the longest duration of the call.
    fn join_local(&self, share: &Share, wanted: &Wanted<'_>) -> bool {
        let mut local = share.local.lock();
        let free = local.running < local.held
            && self.clock.monotonic() < local.fresh_until
            && wanted.timeout <= local.covers;
        if free {
            local.running = local.running.saturating_add(1);
        }
        free
    }

    fn holding(&self, share: &Share, units: u64, covers: Duration) -> Hold {
        // WHY: the gate may crash. At the end of this term no call with these units still runs: it
        // began while they were fresh, and ended by its own deadline.
        let term = FRESH.saturating_add(START).saturating_add(covers);
        Hold {
            pool: share.pool.name.clone(),
            size: share.pool.size,
            holder: self.holder.clone(),
            want: units,
            term_ms: u64::try_from(term.as_millis()).unwrap_or(u64::MAX),
            now: self.clock.now().millis(),
        }
    }

    /// Replaces the reservation by the real use, and keeps the rest for the next call.
    fn give_rest_back(&self, taken: &mut TakenQuota, spent: BudgetShare) {
        let Some(share) = self.shares.get(taken.share) else { return };
        let used = match share.pool.unit {
            Unit::Tokens => spent.tokens,
            Unit::CostMicroUsd => spent.cost,
            Unit::Requests | Unit::Concurrency => return,
        };
        let rest = taken.units.saturating_sub(used);
        taken.units = taken.units.saturating_sub(rest);
        let mut local = share.local.lock();
        if local.window == Some(taken.window) {
            local.units = local.units.saturating_add(rest);
        }
    }

    fn put_back(self: &Arc<Self>, taken: TakenQuota, started: bool) {
        let Some(share) = self.shares.get(taken.share) else { return };
        let mut local = share.local.lock();
        match share.pool.unit {
            Unit::Concurrency => {
                local.running = local.running.saturating_sub(1);
                drop(local);
                // Without a runtime the store cannot be asked: the units run out by themselves.
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    let (quota, index) = (Arc::clone(self), taken.share);
                    runtime.spawn(async move { quota.release(index).await });
                }
            }
            Unit::Requests | Unit::Tokens | Unit::CostMicroUsd => {
                if !started && local.window == Some(taken.window) {
                    local.units = local.units.saturating_add(taken.units);
                }
            }
        }
    }

    /// Releases units that no call of this gate uses.
    async fn release(&self, index: usize) {
        let Some(share) = self.shares.get(index) else { return };
        let _turn = share.turn.lock().await;
        let (units, held, covers) = {
            let local = share.local.lock();
            (local.running, local.held, local.covers)
        };
        if units >= held {
            return;
        }
        // WHY: before the store's release, so that no call here uses a unit that another gate may
        // have already.
        share.local.lock().held = units;
        if let Ok(lease) = self.store.hold(&self.holding(share, units, covers)).await {
            share.local.lock().spare = lease.spare;
        }
    }

    /// Every pool, and the units that are left of its window as far as this gate knows: what it holds, and what no gate
    /// held when it last asked. `None`: it has not asked in this window.
    pub fn left(&self) -> impl Iterator<Item = (&Pool, Option<u64>)> {
        self.shares.iter().map(|share| (&share.pool, share.left(self.clock.now())))
    }

    /// Gives back unspent leases. The quota is not used after this.
    pub async fn close(&self) {
        for (index, share) in self.shares.iter().enumerate() {
            if share.pool.unit == Unit::Concurrency {
                self.release(index).await;
                continue;
            }
            let _turn = share.turn.lock().await;
            let (window, units) = {
                let mut local = share.local.lock();
                (local.window, std::mem::take(&mut local.units))
            };
            if let Some(window) = window.filter(|_| units > 0) {
                // A failure here loses the units for this window only.
                drop(self.store.give_back(&self.ask(share, window, 0), units).await);
            }
        }
    }
}

impl Share {
    /// Units that are left, if that is known of the window of now.
    fn left(&self, now: Timestamp) -> Option<u64> {
        let local = self.local.lock();
        let left = match self.pool.unit {
            Unit::Concurrency => (local.serial > 0 || local.held > 0).then_some(local.spare),
            Unit::Requests | Unit::Tokens | Unit::CostMicroUsd => {
                let current = local.window == Some(self.pool.per.starts(now));
                current.then(|| local.spare.saturating_add(local.units))
            }
        };
        left.map(|left| left.min(self.pool.size))
    }

    fn remainder(&self) -> PoolRemainder {
        let local = self.local.lock();
        let size = self.pool.size;
        let left = match self.pool.unit {
            Unit::Concurrency => local.spare,
            Unit::Requests | Unit::Tokens | Unit::CostMicroUsd => {
                local.spare.saturating_add(local.units)
            }
        };
        PoolRemainder {
            name: self.pool.name.clone(),
            unit: self.pool.unit.as_str(),
            left_permille: permille(left.min(size), size),
            size,
        }
    }
}

fn permille(left: u64, size: u64) -> u64 {
    let thousand = u128::from(left).saturating_mul(1000);
    u64::try_from(thousand / u128::from(size.max(1))).unwrap_or(1000)
}

async fn in_time<T>(asking: impl Future<Output = Result<T, Unanswered>>) -> Result<T, Unanswered> {
    let timed_out = |_| Err(Unanswered("the store does not answer in time".into()));
    tokio::time::timeout(WAIT, asking).await.unwrap_or_else(timed_out)
}

fn empty(pool: &Pool) -> LayerReason {
    let Pool { name, unit, per, size, .. } = pool;
    let window = match per {
        Per::None => String::new(),
        Per::Minute | Per::Day | Per::Month => format!(" per {}", per.as_str()),
    };
    let unit = unit.as_str();
    refusal(pool, format!("pool `{name}` of {size} {unit}{window} has too little left"))
}

fn unpriced(pool: &Pool, tool: &str) -> LayerReason {
    let name = &pool.name;
    refusal(pool, format!("pool `{name}` counts cost, and tool `{tool}` declares none"))
}

fn refusal(pool: &Pool, message: String) -> LayerReason {
    LayerReason {
        code: Code::LimitExceeded,
        detail: format!("limit.pool.{}", pool.name),
        message,
        rule: format!("pools.{}", pool.name),
    }
}

#[cfg(test)]
mod tests;
