//! `hub`: the settings of the hub alone.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::form::FilePath;

/// `hub`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hub {
    /// A file of mode 0600 that holds the connection URL of the Postgres role that may only read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub reader_url_file: Option<PathBuf>,
    /// Seconds that the hub waits after the lease of a dead sidecar ended before it closes the
    /// slot. The value must be at least `ledger.postgres.lease_seconds`. Default: 60, or the lease
    /// if that is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 86_400))]
    pub reap_after_seconds: Option<u64>,
    /// The listener where sidecars enrol: the hub certifies their writers with
    /// `fleet.enrolment_key`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enrolment: Option<super::enrolment::Registry>,
}

/// Seconds from the end of a lease to the closing of its slot, unless the configuration sets
/// others.
const REAP_AFTER: u64 = 60;

impl Hub {
    /// How long the hub waits after the end of a lease before it closes the slot: the configured
    /// time, else 60 seconds, or the lease's own length if that is longer.
    pub fn grace(&self, lease: Duration) -> Duration {
        let default = Duration::from_secs(REAP_AFTER).max(lease);
        self.reap_after_seconds.map_or(default, Duration::from_secs)
    }
}

/// Checks beyond the schema.
pub(super) fn check(config: &Value) -> Vec<(String, String)> {
    let number = |pointer: &str| config.pointer(pointer).and_then(Value::as_u64);
    let (after, lease) =
        (number("/hub/reap_after_seconds"), number("/ledger/postgres/lease_seconds"));
    match (after, lease) {
        (Some(after), Some(lease)) if after < lease => {
            let why = format!("{after} is less than `ledger.postgres.lease_seconds` ({lease})");
            vec![("/hub/reap_after_seconds".to_owned(), why)]
        }
        _ => Vec::new(),
    }
}
