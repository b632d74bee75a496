//! `hub.enrolment.kubernetes`: sidecars that are known by the projected token of their pod's service account.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::identity::callers::read_token;
use crate::operator::token_review::Cluster;

/// Where the section stands.
pub(super) const AT: &str = "/hub/enrolment/kubernetes";
/// What API servers call themselves, unless they are told otherwise.
const API_SERVER: &str = "https://kubernetes.default.svc";

/// `hub.enrolment.kubernetes`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Kubernetes {
    /// URL of the API server.
    pub api: String,
    /// Its authorities (PEM); read for each review.
    pub ca_file: PathBuf,
    /// The hub's own token; read for each review.
    pub token_file: PathBuf,
    /// What the tokens of sidecars are for.
    pub audience: String,
    /// `<namespace>/<service account>`: each account is its own pool of slots.
    pub pools: Vec<String>,
}

impl Kubernetes {
    /// Whom to ask, and about whom.
    #[must_use]
    pub fn cluster(&self) -> Cluster {
        let Self { api, ca_file, token_file, audience, pools } = self.clone();
        Cluster { api, ca_file, token_file, audience, pools: pools.into_iter().collect() }
    }
}

/// The part of the schema.
pub(super) fn schema(path: &dyn Fn(&str) -> Value) -> Value {
    let pool = json!({"type": "string", "pattern": "^[a-z0-9-]{1,63}/[a-z0-9-]{1,63}$",
        "x-error": "expected <namespace>/<service account>"});
    json!({"type": "object", "additionalProperties": false,
        "required": ["api", "ca_file", "token_file", "audience", "pools"],
        "description": "sidecars known by the projected token of their pod's service account: the API server is asked about each (TokenReview)",
        "properties": {
        "api": {"type": "string", "pattern": "^https://[^/]", "maxLength": 4096,
            "x-error": "expected an https:// URL",
            "description": "URL of the API server; in a pod https://kubernetes.default.svc"},
        "ca_file": path("the only authorities (PEM) of the API server; read for each review"),
        "token_file": path("file of mode 0600 with the hub's own token, which may create tokenreviews (system:auth-delegator); read for each review"),
        "audience": {"type": "string", "pattern": "^[!-~]{1,256}$",
            "x-error": "expected 1 to 256 printable characters",
            "description": "the audience of the sidecars' tokens: those for anybody else count for nothing"},
        "pools": {"type": "array", "minItems": 1, "maxItems": 256, "items": pool,
            "x-error": "expected 1 to 256 of <namespace>/<service account>",
            "description": "the service accounts that are enrolled, each into the pool of slots of its name"},
    }})
}

/// Makes the paths absolute.
pub(super) fn resolve(value: &mut Value, one: &dyn Fn(&mut Value)) {
    for name in ["ca_file", "token_file"] {
        if let Some(path) = value.pointer_mut(&format!("{AT}/{name}")) {
            one(path);
        }
    }
}

/// What the schema cannot say. `taken` are the pools that have a shared token.
pub(super) fn check(config: &Value, taken: &BTreeSet<String>) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    // What has the wrong shape was said already.
    let Some(Ok(section)) = config.pointer(AT).map(Kubernetes::deserialize) else { return wrong };
    let mut add = |name: &str, why: String| wrong.push((format!("{AT}/{name}"), why));
    if let Err((field, why)) = section.cluster().remote() {
        add(field, why);
    }
    if let Err(why) = read_token(&section.token_file) {
        add("token_file", why);
    }
    if section.audience == section.api || section.audience.starts_with(API_SERVER) {
        let why = "this is the API server's own audience: every pod's default token is for it";
        add("audience", why.to_owned());
    }
    let mut pools = taken.clone();
    for (i, pool) in section.pools.iter().enumerate() {
        if !pools.insert(pool.clone()) {
            add(&format!("pools/{i}"), format!("pool `{pool}` is there twice"));
        }
    }
    wrong
}
