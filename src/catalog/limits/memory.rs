//! Pools in memory, for simulation and tests.

use std::collections::BTreeMap;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::pool::{Hold, Lease, PoolRequest, Pools, Unanswered, block};

/// Pools that end with the process.
#[derive(Debug, Default)]
pub struct Memory {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    windows: BTreeMap<(String, i64), MemoryWindow>,
    holds: BTreeMap<(String, String), HeldTokens>,
}

#[derive(Debug, Default)]
struct MemoryWindow {
    leased: u64,
    /// For each gate, its last serial and the answer to it.
    gates: BTreeMap<String, (u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct HeldTokens {
    units: u64,
    until: i64,
}

#[async_trait]
impl Pools for Memory {
    async fn lease(&self, ask: &PoolRequest) -> Result<Lease, Unanswered> {
        let mut inner = self.inner.lock();
        inner.windows.retain(|(pool, starts), _| *pool != ask.pool || *starts >= ask.forget);
        let window = inner.windows.entry((ask.pool.clone(), ask.starts)).or_default();
        let spare = ask.size.saturating_sub(window.leased);
        if let Some((serial, granted)) = window.gates.get(&ask.holder)
            && *serial == ask.serial
        {
            return Ok(Lease { granted: *granted, spare });
        }
        window.gates.entry(ask.holder.clone()).or_default();
        let gates = u64::try_from(window.gates.len()).unwrap_or(u64::MAX);
        let granted = block(spare, ask.need, gates);
        window.leased = window.leased.saturating_add(granted);
        window.gates.insert(ask.holder.clone(), (ask.serial, granted));
        Ok(Lease { granted, spare: spare.saturating_sub(granted) })
    }

    async fn give_back(&self, ask: &PoolRequest, units: u64) -> Result<(), Unanswered> {
        let mut inner = self.inner.lock();
        if let Some(window) = inner.windows.get_mut(&(ask.pool.clone(), ask.starts)) {
            window.leased = window.leased.saturating_sub(units);
        }
        Ok(())
    }

    async fn hold(&self, hold: &Hold) -> Result<Lease, Unanswered> {
        let mut inner = self.inner.lock();
        inner.holds.retain(|(pool, _), held| *pool != hold.pool || held.until > hold.now);
        let mut others = 0_u64;
        let mut mine = 0;
        for ((pool, holder), held) in &inner.holds {
            if *pool == hold.pool && *holder == hold.holder {
                mine = held.units;
            } else if *pool == hold.pool {
                others = others.saturating_add(held.units);
            }
        }
        let spare = hold.size.saturating_sub(others);
        if hold.want > mine && hold.want > spare {
            return Ok(Lease { granted: 0, spare: spare.saturating_sub(mine) });
        }
        let key = (hold.pool.clone(), hold.holder.clone());
        if hold.want == 0 {
            inner.holds.remove(&key);
        } else {
            let term = i64::try_from(hold.term_ms).unwrap_or(i64::MAX);
            let until = hold.now.saturating_add(term);
            inner.holds.insert(key, HeldTokens { units: hold.want, until });
        }
        Ok(Lease { granted: hold.want, spare: spare.saturating_sub(hold.want) })
    }
}
