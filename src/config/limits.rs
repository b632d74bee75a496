//! `limits`: how much the process accepts at once, and for how long.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `limits`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Most calls that the gate works on at once.
    #[schemars(range(min = 1, max = 65_536))]
    pub in_flight_max: u64,
    /// Commands that run in sandboxes at once, over all agents. Each configured agent has an equal share of its own.
    #[schemars(range(min = 1, max = 4096))]
    pub sandboxes_max: u64,
    /// Most runs that are open at once.
    #[schemars(range(min = 1, max = 65_536))]
    pub open_runs_max: u64,
    /// Seconds without a request after which the gate seals a run that its agent opened by name.
    #[schemars(range(min = 1, max = 604_800))]
    pub run_idle_seconds: u64,
    /// Seconds a run may stay open if its manifest sets no `wall_seconds`.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub run_wall_seconds: u64,
    /// Seconds after which a held call expires.
    #[schemars(range(min = 1, max = 86_400))]
    pub hold_seconds: u64,
    /// Milliseconds a caller waits for the ledger.
    #[schemars(range(min = 100, max = 4500))]
    pub commit_wait_ms: u64,
    /// Milliseconds a call waits for its turn.
    #[schemars(range(min = 0, max = 4000))]
    pub queue_wait_ms: u64,
    /// Seconds that calls in progress get to end when the gate shuts down.
    #[schemars(range(min = 0, max = 3600))]
    pub drain_seconds: u64,
    /// Requests one caller may make each second in the long run. Opening a run is a request too.
    #[schemars(range(min = 1, max = 100_000), extend("x-null" = "the rate is not limited"))]
    pub requests_per_second: Option<u64>,
    /// Requests one caller may make at once after a rest.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub burst: u64,
    /// Denials of one caller within a minute, over all its runs. The next denial suspends its run, and the caller
    /// opens no other run while so many denials lie within the last minute.
    #[schemars(range(min = 1, max = 100_000), extend("x-null" = "denials suspend no run"))]
    pub denials_max: Option<u64>,
    /// Seconds for which a caller opens no run and starts no call after it sent a credential of the gate in the
    /// arguments of a call. The run of that call stays suspended.
    #[schemars(range(min = 1, max = 604_800), extend("x-null" = "the gate denies the call and suspends nothing"))]
    pub alarm_rest_seconds: Option<u64>,
    /// Denials of one tool in one run after which the run may not call the tool any more.
    #[schemars(range(min = 1, max = 100_000), extend("x-null" = "denials of a tool do not block it"))]
    pub tool_denials_max: Option<u64>,
    /// Milliseconds a call of an ordered run waits for the call before it.
    #[schemars(range(min = 1, max = 600_000))]
    pub ordered_wait_ms: u64,
    /// Whether the gate releases the result of a T0 tool that only reads before the outcome is recorded. The entry
    /// follows within 50 ms.
    pub batch_t0: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight_max: 512,
            sandboxes_max: crate::tool::sandbox::PLACES,
            open_runs_max: 1024,
            run_idle_seconds: 3600,
            run_wall_seconds: 86_400,
            hold_seconds: 900,
            commit_wait_ms: 4000,
            queue_wait_ms: 1000,
            drain_seconds: 20,
            requests_per_second: Some(10_000),
            burst: 20_000,
            denials_max: Some(1000),
            alarm_rest_seconds: Some(3600),
            tool_denials_max: Some(100),
            ordered_wait_ms: 30_000,
            batch_t0: false,
        }
    }
}
