//! `hub`: what only the hub needs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// `hub`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hub {
    /// A file of mode 0600 with the URL of the role that only reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader_url_file: Option<PathBuf>,
}

/// The part of the schema.
pub(super) fn schema(path: &dyn Fn(&str) -> Value) -> Value {
    json!({"type": "object", "additionalProperties": false, "default": {}, "properties": {
        "reader_url_file": path("file of mode 0600 that holds the URL of the Postgres role that only reads"),
    }})
}
