//! `limits`: how much the process accepts at once, and for how long.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `limits`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum number of calls that the gate handles at once.
    #[schemars(range(min = 1, max = 65_536))]
    pub in_flight_max: u64,
    /// Maximum number of requests to models that the gate answers at once over the model faces. They
    /// have these places beside `in_flight_max`; 16 of them are reserved for answers in one piece.
    #[schemars(range(min = 32, max = 65_536))]
    pub model_streams_max: u64,
    /// Maximum number of commands in sandboxes at once, over all agents. Half of them are reserved
    /// for the configured agents in equal shares.
    #[schemars(range(min = 1, max = 4096))]
    pub sandboxes_max: u64,
    /// Maximum number of runs that are open at once.
    #[schemars(range(min = 1, max = 65_536))]
    pub open_runs_max: u64,
    /// Seconds without a request after which the gate seals a run that its agent opened by name.
    #[schemars(range(min = 1, max = 604_800))]
    pub run_idle_seconds: u64,
    /// Seconds that a run may stay open if its manifest sets no `wall_seconds`.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub run_wall_seconds: u64,
    /// Seconds after which a held call expires.
    #[schemars(range(min = 1, max = 86_400))]
    pub hold_seconds: u64,
    /// Milliseconds that a caller waits in total until the ledger has stored its call.
    #[schemars(range(min = 100, max = 4500))]
    pub commit_wait_ms: u64,
    /// Milliseconds that a call waits in the ledger's queue before the gate refuses it.
    #[schemars(range(min = 0, max = 4000))]
    pub queue_wait_ms: u64,
    /// Seconds that calls in progress have to finish when the gate shuts down.
    #[schemars(range(min = 0, max = 3600))]
    pub drain_seconds: u64,
    /// Average number of requests per second that one caller may make. Opening a run is a request
    /// too.
    #[schemars(range(min = 1, max = 100_000), extend("x-null" = "the rate is not limited"))]
    pub requests_per_second: Option<u64>,
    /// Requests that one caller may make at once after a pause.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub burst: u64,
    /// Denials of one caller within a minute, over all its runs. The next denial suspends its run,
    /// and the caller may open no other run until fewer denials lie within the last minute.
    #[schemars(range(min = 1, max = 100_000), extend("x-null" = "denials suspend no run"))]
    pub denials_max: Option<u64>,
    /// Seconds for which a caller may open no run and start no call after it sent one of the gate's
    /// credentials in the arguments of a call. The run of that call stays suspended.
    #[schemars(range(min = 1, max = 604_800), extend("x-null" = "the gate denies the call and suspends nothing"))]
    pub alarm_rest_seconds: Option<u64>,
    /// Denials of one tool in one run after which the run may no longer call that tool.
    #[schemars(range(min = 1, max = 100_000), extend("x-null" = "denials of a tool do not block it"))]
    pub tool_denials_max: Option<u64>,
    /// Milliseconds that a call of an ordered run waits for the previous call.
    #[schemars(range(min = 1, max = 600_000))]
    pub ordered_wait_ms: u64,
    /// Whether the gate may return the result of a read-only T0 tool before it has recorded the
    /// outcome. The entry follows within 50 ms.
    pub batch_t0: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight_max: 512,
            model_streams_max: 1024,
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
