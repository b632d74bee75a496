//! `hub`: what only the hub needs.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// `hub`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hub {
    /// A file of mode 0600 with the URL of the role that only reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader_url_file: Option<PathBuf>,
    /// Seconds a slot lies abandoned before the hub closes it; see [`Self::grace`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reap_after_seconds: Option<u64>,
    /// Where sidecars are enrolled; absent: nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolment: Option<super::enrolment::Registry>,
}

/// Seconds a slot lies abandoned before it is closed, unless the configuration says otherwise.
const REAP_AFTER: u64 = 60;

impl Hub {
    /// How long a slot lies abandoned after its lease ran out before the hub closes it: what is
    /// configured, else 60 seconds, or the lease's own length if that is longer.
    #[must_use]
    pub fn grace(&self, lease: Duration) -> Duration {
        let default = Duration::from_secs(REAP_AFTER).max(lease);
        self.reap_after_seconds.map_or(default, Duration::from_secs)
    }
}

/// The part of the schema.
pub(super) fn schema(path: &dyn Fn(&str) -> Value) -> Value {
    json!({"type": "object", "additionalProperties": false, "default": {}, "properties": {
        "reader_url_file": path("file of mode 0600 that holds the URL of the Postgres role that only reads"),
        "reap_after_seconds": {"type": "integer", "minimum": 2, "maximum": 86_400,
            "x-error": "expected a whole number from 2 to 86400",
            "description": "seconds after the end of its lease until the slot of a dead sidecar is closed: not less than `ledger.postgres.lease_seconds`; default 60, or the lease if that is longer"},
        "enrolment": super::enrolment::registry(path),
    }})
}

/// What the schema cannot say.
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
