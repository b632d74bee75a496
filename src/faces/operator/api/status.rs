//! What routes answer with about health and limits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Reply;
use super::replies::Gate;

replies! {
    /// One change of health.
    HealthChange {
        /// When it was noted.
        at: String,
        /// The log that records it; `null`: this process, which notes it in memory.
        origin: Option<String>,
        /// Whether calls could be governed from then on.
        ready: bool,
        /// Why not.
        reasons: Vec<String>,
    }

    /// Something that ends at a known time, and stops calls or operators then.
    Expiration {
        /// What it is: `policy bundle`, `approvers list`, `certificate of operator.tls`, …
        what: String,
        /// When it ends.
        at: String,
    }

    /// Whether calls can be governed.
    Health {
        /// Whether this process is ready.
        ready: bool,
        /// Why it is not.
        reasons: Vec<String>,
        /// What an operator should know although it is.
        notes: Vec<String>,
        /// The gates, as `GET /v1/fleet` lists them.
        gates: Vec<Gate>,
        /// Logs that have open runs and whose gate has never reported.
        never_seen: Vec<String>,
        /// The newest changes of health, newest first: every one of this process since its start, and those that the
        /// gates recorded.
        changes: Vec<HealthChange>,
        /// What ends at a known time, the soonest first.
        expiring: Vec<Expiration>,
    }

    /// The calls of the last 24 hours. A number above 10,000 says that there are more.
    DayCounts {
        /// The beginning of the 24 hours.
        since: String,
        /// Calls that began.
        calls: u64,
        /// Those of them that were denied.
        denied: u64,
        /// Those that were held: the sum of the following.
        held: u64,
        /// Held calls that wait.
        waiting: u64,
        /// Held calls that were approved.
        approved: u64,
        /// Held calls that a person refused.
        refused: u64,
        /// Held calls that were not approved in time.
        expired: u64,
        /// Number of entries that were not counted yet.
        behind: u64,
    }

    /// One pool as a gate sees it.
    PoolState {
        /// The gate: the name of its log.
        origin: String,
        /// The pool.
        pool: String,
        /// `requests`, `tokens`, `cost_micro_usd` or `concurrency`.
        unit: String,
        /// `minute`, `day`, `month` or `none`.
        per: String,
        /// Number of units in one window.
        size: u64,
        /// Units that are left: those that the gate holds, and those that no gate held when it last asked. `null`: it has
        /// not asked in this window.
        left: Option<u64>,
    }

    /// A run, or a tool of a run, that a gate suspended because too many calls were denied.
    Suspension {
        /// The gate: the name of its log.
        origin: String,
        /// The run.
        run: String,
        /// The agent.
        agent: String,
        /// The tool; `null`: the whole run.
        tool: Option<String>,
    }

    /// A stop in force at a gate.
    StopState {
        /// The gate: the name of its log.
        origin: String,
        /// The number of the order.
        seq: u64,
        /// `suspend` or `revoke`.
        action: String,
        /// `all`, `agent`, `run`, `tool`, `manifest`, `key`, `face`, `kind`, `server` or `upstream`.
        target: String,
        /// The name of the target; empty for `all`.
        name: String,
        /// When it ends by itself.
        expires: Option<String>,
        /// Until when an order lifts it.
        lifted: Option<String>,
    }

    /// Pools and stops, as the gates last reported them.
    LimitsState {
        /// The pools.
        pools: Vec<PoolState>,
        /// Suspended runs and tools.
        suspended: Vec<Suspension>,
        /// Stops that operators ordered.
        stops: Vec<StopState>,
        /// Gates that have not reported for a while: what they say here may have changed.
        silent: Vec<String>,
    }
}
