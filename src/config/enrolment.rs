//! `hub.enrolment` and `enrolment`: how sidecars get the certificates of their writers from a hub.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Config;
use super::kubernetes::{self, Kubernetes};
use super::ledger::SlotPool;
use super::tls::{self, TlsError};
use crate::catalog::form::{FilePath, WebAddress};
use crate::catalog::host::{Host, Origin};
use crate::crypto::keys::{self, PublicKey};
use crate::domain::digest::Digest;
use crate::identity::callers::read_token;
use crate::ledger::fleet::POOL;
use crate::operator::enrolment::{EnrolledPools, HUBS, Pool};
use crate::operator::token_review::Reviewer;
use crate::serve::operator::OperatorSettings;
use crate::serve::tls::Section;

/// Days a certificate lasts at most, also without `days`.
const DAYS_MAX: u64 = 90;
/// Characters of a token: 256 bits in base64url.
const TOKEN_CHARS_MIN: usize = 43;

/// `hub.enrolment`: where the hub enrols sidecars.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Registry {
    /// Address for sidecars. It must be a loopback address unless `tls` is set.
    #[schemars(example = "127.0.0.1:7303")]
    pub listen: SocketAddr,
    /// TLS (1.2 and 1.3) for this listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = without_clients)]
    pub tls: Option<Section>,
    /// Pools of slots, each with the token that its sidecars show.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 256),
        extend("x-error" = "expected 1 to 256 tokens, each {pool, token_file}")
    )]
    pub tokens: Vec<Token>,
    /// Enrolment of sidecars that show the projected token of their pod's service account. The hub
    /// asks the API server to review each token (TokenReview).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Kubernetes>,
    /// Maximum lifetime of a certificate in days. Default: 90.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = DAYS_MAX))]
    pub days: Option<u64>,
}

/// Sidecars that enrol have no certificates yet.
fn without_clients(schema: &mut Schema) {
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    fields.map(|fields| fields.remove("client_ca"));
}

/// `hub.enrolment.tokens[]`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The pool of slots, as `ledger.postgres.slots` of its sidecars names it.
    #[schemars(with = "SlotPool")]
    pub pool: String,
    /// A file of mode 0600 that holds the token of the pool's sidecars: at least 43 printable characters (256 bits). The
    /// hub reads it for each request.
    #[schemars(with = "FilePath")]
    pub token_file: PathBuf,
}

impl Registry {
    /// Where sidecars come in.
    ///
    /// # Errors
    /// What is wrong with the files of TLS.
    pub fn listener(&self) -> Result<OperatorSettings, TlsError> {
        let tls = tls::open(self.tls.as_ref(), "hub.enrolment")?;
        Ok(OperatorSettings { addr: self.listen, tls, ..OperatorSettings::default() })
    }

    /// Who may be enrolled where.
    pub fn pools(&self) -> EnrolledPools {
        let pool =
            |one: &Token| Pool { pool: one.pool.clone(), token_file: one.token_file.clone() };
        let accounts = self.kubernetes.iter().flat_map(|section| section.pools.iter().cloned());
        EnrolledPools {
            shared: self.tokens.iter().map(pool).collect(),
            accounts: accounts.collect(),
        }
    }

    /// The reviewer of projected tokens, if the section configures one.
    pub fn reviewer(&self) -> Option<Reviewer> {
        self.kubernetes.as_ref().map(|section| Reviewer::new(section.cluster()))
    }

    /// How long a certificate lasts at most.
    pub fn term(&self) -> Duration {
        Duration::from_secs(self.days.unwrap_or(DAYS_MAX).saturating_mul(24 * 3600))
    }
}

/// `enrolment`: the hub that certifies this sidecar's writer.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Enrolment {
    /// URL of the hub's `hub.enrolment.listen`. http:// is allowed only for a loopback address.
    #[schemars(with = "WebAddress")]
    pub hub: String,
    /// A file that holds the token of this sidecar's pool, or its pod's projected token. Its mode is 0600, or 0440 if
    /// root owns it and the gate does not run as root. The gate reads it for each request, since kubelet replaces a
    /// projected token.
    #[schemars(with = "FilePath")]
    pub token_file: PathBuf,
    /// Public half of the enrolment key (PEM). The gate accepts only certificates that this key
    /// signed.
    #[schemars(with = "FilePath")]
    pub public_key: PathBuf,
    /// Certificate authorities (PEM) to trust for https, instead of the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub ca_file: Option<PathBuf>,
}

/// Why no enrolment key is pinned.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file.
    #[error(transparent)]
    Key(#[from] keys::Error),
    /// The file holds several keys, or none.
    #[error("`{path}` holds {keys} keys: expected the one enrolment key")]
    Count {
        /// The file.
        path: String,
        /// How many.
        keys: usize,
    },
}

impl Enrolment {
    /// The one key whose certificates this sidecar trusts.
    ///
    /// # Errors
    /// The file cannot be read, or does not hold exactly one key.
    pub fn key(&self) -> Result<PublicKey, KeyError> {
        let keys = PublicKey::load_all(&self.public_key)?;
        match keys.as_slice() {
            [one] => Ok(*one),
            many => Err(KeyError::Count {
                path: self.public_key.display().to_string(),
                keys: many.len(),
            }),
        }
    }
}

impl Config {
    /// Files with this machine's own credentials: no tool may read them.
    pub(super) fn own_secrets(&self) -> Vec<PathBuf> {
        let tls = self.listen.tls.iter().chain(&self.operator.tls);
        let token = self.enrolment.as_ref().map(|enrolment| enrolment.token_file.clone());
        tls.map(|tls| tls.key.clone()).chain(token).collect()
    }
}

/// Checks beyond the schema, each error with its place.
pub(super) fn check(config: &Value) -> Vec<(String, String)> {
    let mut problems = tls::check(config, "/hub/enrolment/tls", Section::open);
    // The schema check has reported a wrong shape already.
    let at = |pointer: &str| config.pointer(pointer);
    if let Some(Ok(enrolment)) = at("/enrolment").map(Enrolment::deserialize) {
        problems.extend(sidecar(config, &enrolment));
    }
    let listen = at("/hub/enrolment/listen").and_then(Value::as_str);
    match listen.map(|text| (text, text.parse::<SocketAddr>())) {
        Some((text, Err(_))) => {
            let why = format!("`{text}` is not an address like `127.0.0.1:7303`");
            problems.push(("/hub/enrolment/listen".to_owned(), why));
        }
        Some((text, Ok(address)))
            if !address.ip().is_loopback() && at("/hub/enrolment/tls").is_none() =>
        {
            let why = format!(
                "`{text}` is not a loopback address: set `hub.enrolment.tls`, or use a loopback address"
            );
            problems.push(("/hub/enrolment/listen".to_owned(), why));
        }
        Some((_, Ok(_))) | None => {}
    }
    let (tokens, pools) = shared(config);
    problems.extend(tokens);
    problems.extend(kubernetes::check(config, &pools));
    if at("/hub/enrolment").is_some_and(|all| all.get("kubernetes").is_none())
        && at("/hub/enrolment/tokens").is_none()
    {
        let why = "no gate can be enrolled: `tokens` and `kubernetes` are missing";
        problems.push(("/hub/enrolment".to_owned(), why.to_owned()));
    }
    problems
}

/// What is wrong with shared tokens, and the pools that have one.
fn shared(config: &Value) -> (Vec<(String, String)>, BTreeSet<String>) {
    let mut problems = Vec::new();
    let tokens = config.pointer("/hub/enrolment/tokens").and_then(Value::as_array);
    let (mut pools, mut known) = (BTreeSet::new(), BTreeSet::new());
    for (i, token) in tokens.into_iter().flatten().enumerate() {
        let Ok(Token { pool, token_file }) = Token::deserialize(token) else { continue };
        let mut add = |name: &str, why: String| {
            problems.push((format!("/hub/enrolment/tokens/{i}/{name}"), why));
        };
        if pool == HUBS {
            add(
                "pool",
                "this pool is for hubs, which certify themselves: gates cannot enrol in it"
                    .to_owned(),
            );
        }
        if pool == POOL {
            add("pool", "this name is the fleet log's: choose another pool".to_owned());
        }
        if !pools.insert(pool.clone()) {
            add("pool", format!("pool `{pool}` is configured twice"));
        }
        match read_token(&token_file) {
            Err(why) => add("token_file", why.to_string()),
            Ok(text) if text.len() < TOKEN_CHARS_MIN => {
                let why = format!("the token needs at least {TOKEN_CHARS_MIN} characters");
                add("token_file", why);
            }
            Ok(text) if !known.insert(Digest::of(&[text.as_bytes()])) => {
                add("token_file", "another pool has the same token".to_owned());
            }
            Ok(_) => {}
        }
    }
    (problems, pools)
}

fn sidecar(config: &Value, enrolment: &Enrolment) -> Vec<(String, String)> {
    let mut problems = Vec::new();
    let mut add = |name: &str, why: String| problems.push((format!("/enrolment{name}"), why));
    if config.pointer("/fleet/enrolment_key").is_some() {
        let why = "both `enrolment` and `fleet.enrolment_key` are set: a writer has only one certifier, so remove one of them";
        add("", why.to_owned());
    }
    if config.pointer("/ledger/postgres").is_none() {
        add("", "enrolment needs a ledger on Postgres (`ledger.postgres`)".to_owned());
    }
    match Origin::parse(&enrolment.hub) {
        Err(why) => add("/hub", why.to_string()),
        Ok((origin, _)) => {
            let near = matches!(&origin.host, Host::Ip(ip) if ip.is_loopback());
            if !origin.tls && !near {
                let why =
                    "http:// sends the token in the clear: use https://, or a loopback address";
                add("/hub", why.to_owned());
            }
        }
    }
    if let Err(why) = read_token(&enrolment.token_file) {
        add("/token_file", why.to_string());
    }
    if let Err(why) = enrolment.key() {
        add("/public_key", why.to_string());
    }
    if let Some(Err(error)) = enrolment.ca_file.as_ref().map(std::fs::metadata) {
        add("/ca_file", error.to_string());
    }
    problems
}
