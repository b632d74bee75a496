//! Shared pools: so many units in each window, for all gates that share them.
//!
//! A gate does not ask the store for each call. It leases a block of units and spends them on its
//! own; blocks shrink as the pool runs out, so that few units lie unused at a gate. The store never
//! leases a unit to a second gate in its window: what a gate that crashed had leased is lost until
//! the next window, and never spent twice.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use schemars::JsonSchema;

use crate::domain::closed::texts;
use crate::domain::time::Timestamp;

/// Units of a pool at most: exact in every store and in JSON.
pub const SIZE_MAX: u64 = 9_007_199_254_740_991;

texts! {
    /// What a pool counts.
    #[derive(JsonSchema)]
    #[schemars(rename_all = "snake_case")]
    pub enum Unit {
        /// Calls that were started.
        Requests = "requests",
        /// Tokens that models read and write.
        Tokens = "tokens",
        /// Millionths of a US dollar, as the bindings declare them for each call.
        CostMicroUsd = "cost_micro_usd",
        /// Calls in progress at the same time.
        Concurrency = "concurrency",
    }
}

texts! {
    /// When a pool is full again, in UTC.
    #[derive(JsonSchema)]
    #[schemars(rename_all = "snake_case")]
    pub enum Per {
        /// A minute, from its first second.
        Minute = "minute",
        /// A day, from midnight.
        Day = "day",
        /// A month, from midnight of the first.
        Month = "month",
        /// No window: only an operator's order makes the pool full again.
        None = "none",
    }
}

impl Per {
    /// The beginning of the window this instant is in, milliseconds since 1970.
    pub fn starts(self, now: Timestamp) -> i64 {
        let floor = |length: i64| now.millis().div_euclid(length).saturating_mul(length);
        match self {
            Self::Minute => floor(60_000),
            Self::Day => floor(86_400_000),
            Self::Month => {
                let zoned = now.to_jiff().to_zoned(jiff::tz::TimeZone::UTC);
                let first = zoned.first_of_month().and_then(|first| first.start_of_day());
                // INVARIANT: every instant of ours is of a year the calendar knows.
                first.map_or_else(|_| floor(86_400_000), |at| at.timestamp().as_millisecond())
            }
            Self::None => 0,
        }
    }

    /// How long a window that is over is remembered, milliseconds: a clock that is set back by less
    /// finds its old window as it was. 0 is for ever.
    pub const fn remembered_ms(self) -> i64 {
        match self {
            Self::Minute => 2 * 86_400_000,
            Self::Day => 400 * 86_400_000,
            Self::Month | Self::None => 0,
        }
    }
}

/// One shared pool (`pools[]`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool {
    /// Its name, the same at every gate.
    pub name: String,
    /// What it counts.
    pub unit: Unit,
    /// When it is full again.
    pub per: Per,
    /// Number of units in one window.
    pub size: u64,
    /// Only calls of these agents; empty: of all.
    pub agents: BTreeSet<String>,
    /// Only calls of agents whose manifest has all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Only calls of these tools; empty: of all.
    pub tools: BTreeSet<String>,
}

impl Pool {
    /// Whether calls of this agent to this tool take from it.
    #[must_use]
    pub fn covers(&self, agent: &str, labels: &BTreeMap<String, String>, tool: &str) -> bool {
        (self.agents.is_empty() || self.agents.contains(agent))
            && self.labels.iter().all(|(name, value)| labels.get(name) == Some(value))
            && (self.tools.is_empty() || self.tools.contains(tool))
    }
}

/// A gate's request to the store for a pool with windows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolRequest {
    /// The pool.
    pub pool: String,
    /// Beginning of the window, milliseconds since 1970.
    pub starts: i64,
    /// Windows that began before this are forgotten; 0 keeps all.
    pub forget: i64,
    /// Units of the window, as this gate's configuration has it.
    pub size: u64,
    /// The least number of units; otherwise none.
    pub need: u64,
    /// The gate.
    pub holder: String,
    /// Counts the gate's leases: the same number again gets the same answer again.
    pub serial: u64,
}

/// What the store leased.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// Units that are the gate's now: 0, or at least as many as it needs.
    pub granted: u64,
    /// Units that no gate holds, after this.
    pub spare: u64,
}

/// What a gate wants of a pool of calls at the same time: all it holds, in one number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hold {
    /// The pool.
    pub pool: String,
    /// Units of the pool.
    pub size: u64,
    /// The gate.
    pub holder: String,
    /// Units it wants to hold from now on; fewer than before is always granted.
    pub want: u64,
    /// The units become free after so many milliseconds, unless the gate asks again.
    pub term_ms: u64,
    /// The gate's time, for a store that has no clock of its own; milliseconds since 1970.
    pub now: i64,
}

/// The store did not answer in time: no lease is known.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unanswered(pub String);

/// The port to the state that all gates share.
///
/// What is granted is durable when a method returns `Ok`. After `Unanswered` it may be granted all
/// the same; no other gate will ever get it in that window.
#[async_trait]
pub trait Pools: Send + Sync + std::fmt::Debug {
    /// Leases a block of at least `need` units: [`block`] of what no gate holds, or 0.
    ///
    /// # Errors
    /// [`Unanswered`].
    async fn lease(&self, ask: &PoolRequest) -> Result<Lease, Unanswered>;

    /// Gives units of a window back that the gate leased and will not spend. Never repeated.
    ///
    /// # Errors
    /// [`Unanswered`]: they may be lost for the window.
    async fn give_back(&self, ask: &PoolRequest, units: u64) -> Result<(), Unanswered>;

    /// Holds so many units; `granted` is `want`, or 0 if there are too few and nothing changed.
    ///
    /// # Errors
    /// [`Unanswered`].
    async fn hold(&self, hold: &Hold) -> Result<Lease, Unanswered>;
}

/// How many units to lease when so many are spare and so many gates draw from the pool: a quarter
/// of an even share, so that the pool lasts and little lies unused at one gate; never fewer than
/// needed.
pub fn block(spare: u64, need: u64, gates: u64) -> u64 {
    if spare < need {
        return 0;
    }
    let share = spare / gates.max(1).saturating_mul(4);
    share.max(need).min(spare)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn a_window_begins_with_its_minute_its_day_and_its_month_in_utc() {
        let starts = |per: Per, now: &str| Timestamp::from_millis(per.starts(at(now))).to_string();
        let last = "2028-02-29T23:59:59.999Z";
        assert_eq!(starts(Per::Minute, last), "2028-02-29T23:59:00.000Z");
        assert_eq!(starts(Per::Day, last), "2028-02-29T00:00:00.000Z");
        assert_eq!(starts(Per::Month, last), "2028-02-01T00:00:00.000Z");
        for per in [Per::Minute, Per::Day, Per::Month] {
            let next = "2028-03-01T00:00:00.000Z";
            assert_eq!(starts(per, next), next, "{per:?}");
        }
        assert_eq!(Per::None.starts(at(last)), Per::None.starts(at("1971-01-01T00:00:00.000Z")));
    }

    #[test]
    fn blocks_shrink_towards_the_end_and_never_exceed_what_is_spare() {
        assert_eq!(block(1000, 1, 1), 250);
        assert_eq!(block(1000, 1, 10), 25);
        assert_eq!(block(3, 1, 10), 1);
        assert_eq!(block(3, 3, 10), 3);
        assert_eq!(block(3, 4, 1), 0);
        assert_eq!(block(0, 1, 1), 0);
        let (mut spare, mut leases) = (1000, 0);
        while spare > 0 {
            spare -= block(spare, 1, 10);
            leases += 1;
        }
        assert!(leases < 250, "{leases} leases for 1000 units");
    }
}
