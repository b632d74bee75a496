//! `telemetry`: how much is logged, and where traces go.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::catalog::address::{Cidr, is_public};
use crate::catalog::host::{Host, Origin};
use crate::tool::net::{Dial, System, Trust};

/// `telemetry`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub log: String,
    /// Traces over OTLP; off unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otlp: Option<Otlp>,
}

/// `telemetry.otlp`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Otlp {
    /// URL of the collector's gRPC port: scheme, host and port, no path.
    pub endpoint: String,
    /// Ranges beyond the public Internet that the collector may be in: `10.0.0.0/8`.
    #[serde(default)]
    pub private_addresses: Vec<String>,
    /// PEM authorities for `https` instead of the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

impl Otlp {
    /// The way to the collector, through the one outbound connector.
    ///
    /// # Errors
    /// The field that cannot be used, and why.
    pub fn open(&self) -> Result<Dial, (&'static str, String)> {
        let wrong = |field: &'static str| move |why: String| (field, why);
        let (origin, path) = Origin::parse(&self.endpoint).map_err(wrong("endpoint"))?;
        if path != "/" {
            return Err(wrong("endpoint")("gRPC has no path here: scheme, host and port".into()));
        }
        let open = self.private_addresses.iter().map(|range| Cidr::parse(range));
        let open = open.collect::<Result<Vec<_>, _>>().map_err(wrong("private_addresses"))?;
        if let Host::Ip(ip) = &origin.host
            && !is_public(*ip)
            && !open.iter().any(|range| range.contains(*ip))
        {
            let why = format!("`{ip}` is not public: open its range in `private_addresses`");
            return Err(wrong("endpoint")(why));
        }
        let ca = self.ca_file.as_ref().map(|path| {
            std::fs::read(path).map_err(|e| wrong("ca_file")(format!("`{}`: {e}", path.display())))
        });
        let trust = Trust::of_http2(ca.transpose()?.as_deref()).map_err(wrong("ca_file"))?;
        Dial::new(&origin, &open, &trust, Arc::new(System)).map_err(wrong("endpoint"))
    }
}

/// The members of `otlp` in the schema.
pub(super) fn otlp(path: &dyn Fn(&str) -> Value) -> Value {
    json!({"type": "object", "additionalProperties": false, "required": ["endpoint"],
        "properties": {
        "endpoint": {"type": "string", "pattern": "^https?://",
            "x-error": "expected an http:// or https:// URL",
            "description": "gRPC port of an OTLP collector; off unless set"},
        "private_addresses": {"type": "array", "maxItems": 64, "default": [], "items": {"type": "string"},
            "description": "ranges beyond the public Internet that the collector may be in"},
        "ca_file": path("authorities for https (PEM) instead of the public ones"),
    }})
}

/// What the schema cannot say: a collector that could never be reached.
pub(super) fn check(config: &Value) -> Vec<(String, String)> {
    // What has the wrong shape was said already.
    let read = config.pointer("/telemetry/otlp").and_then(|otlp| Otlp::deserialize(otlp).ok());
    let wrong = read.and_then(|otlp| otlp.open().err());
    let at = |field: &str| format!("/telemetry/otlp/{field}");
    wrong.map(|(field, why)| (at(field), why)).into_iter().collect()
}
