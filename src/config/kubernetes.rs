//! `hub.enrolment.kubernetes`: sidecars that are known by the projected token of their pod's service account.

use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::form::FilePath;
use crate::identity::callers::read_token;
use crate::operator::enrolment::selects;
use crate::operator::token_review::Cluster;

/// The pointer to this section.
pub(super) const AT: &str = "/hub/enrolment/kubernetes";
/// The issuer of an API server that sets no other.
const API_SERVER: &str = "https://kubernetes.default.svc";

/// `hub.enrolment.kubernetes`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kubernetes {
    /// URL of the API server; inside a pod, https://kubernetes.default.svc.
    #[schemars(
        length(max = 4096),
        regex(pattern = r"^https://[^/]"),
        extend("x-error" = "expected an https:// URL")
    )]
    pub api: String,
    /// The only certificate authorities (PEM) to trust for the API server. The hub reads the file
    /// for each review.
    #[schemars(with = "FilePath")]
    pub ca_file: PathBuf,
    /// A file of mode 0600 that holds the hub's own token. Its service account must be allowed to
    /// create tokenreviews. The hub reads it for each review.
    #[schemars(with = "FilePath")]
    pub token_file: PathBuf,
    /// The audience of the sidecars' tokens. The hub refuses tokens for any other audience.
    #[schemars(
        regex(pattern = r"^[!-~]{1,256}$"),
        extend("x-error" = "expected 1 to 256 printable characters")
    )]
    pub audience: String,
    /// The service accounts that may enrol, as `<namespace>/<service account>`. Each account is its own pool of slots. One
    /// `*` in the account stands for any characters, so `agents/*` is every account of the namespace `agents`.
    #[schemars(
        with = "Vec<Account>",
        length(min = 1, max = 256),
        extend("x-error" = "expected 1 to 256 of <namespace>/<service account>")
    )]
    pub pools: Vec<String>,
}

/// The schema of a service account.
#[derive(JsonSchema)]
#[schemars(extend("x-error" = "expected <namespace>/<service account>"))]
struct Account(
    #[schemars(
        length(max = 127),
        regex(pattern = r"^[a-z0-9-]{1,63}/([a-z0-9-]+|[a-z0-9-]*\*[a-z0-9-]*)$")
    )]
    #[expect(dead_code, reason = "only its schema is used")]
    String,
);

impl Kubernetes {
    /// Whom to ask, and about whom.
    pub fn cluster(&self) -> Cluster {
        let Self { api, ca_file, token_file, audience, pools: _ } = self.clone();
        Cluster { api, ca_file, token_file, audience }
    }
}

/// Checks beyond the schema. `taken` are the pools that have a shared token.
pub(super) fn check(config: &Value, taken: &BTreeSet<String>) -> Vec<(String, String)> {
    let mut problems = Vec::new();
    // The schema check has reported a wrong shape already.
    let Some(Ok(section)) = config.pointer(AT).map(Kubernetes::deserialize) else {
        return problems;
    };
    let mut add = |name: &str, why: String| problems.push((format!("{AT}/{name}"), why));
    if let Err((field, why)) = section.cluster().remote() {
        add(field, why);
    }
    if let Err(why) = read_token(&section.token_file) {
        add("token_file", why.to_string());
    }
    if section.audience == section.api || section.audience.starts_with(API_SERVER) {
        let why = "this is the API server's own audience, which every pod's default token has: choose another";
        add("audience", why.to_owned());
    }
    let mut pools = BTreeSet::new();
    for (i, pool) in section.pools.iter().enumerate() {
        let other = taken.iter().find(|other| selects(pool, other));
        if let Some(twice) = other.or_else(|| pools.contains(&pool).then_some(pool)) {
            add(&format!("pools/{i}"), format!("pool `{twice}` is configured twice"));
        }
        pools.insert(pool);
    }
    problems
}
