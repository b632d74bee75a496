//! `hub.enrolment` and `enrolment`: how sidecars get the certificates of their writers from a hub.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Config;
use super::kubernetes::{self, Kubernetes};
use super::tls::{self, Tls};
use crate::catalog::host::{Host, Origin};
use crate::crypto::keys::PublicKey;
use crate::domain::digest::Digest;
use crate::identity::callers::read_token;
use crate::ledger::fleet::POOL;
use crate::operator::enrolment::{HUBS, Pool};
use crate::operator::token_review::Reviewer;
use crate::serve::operator::Settings;

/// Days a certificate lasts at most, also without `days`.
const DAYS_MAX: u64 = 90;
/// Characters of a token: 256 bits in base64url.
const TOKEN_CHARS_MIN: usize = 43;

/// `hub.enrolment`: where the hub enrols sidecars.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Registry {
    /// The address; a loopback one, unless there is `tls`.
    pub listen: SocketAddr,
    /// TLS; in the clear without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Who may be enrolled where by a shared token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<Token>,
    /// Who may be enrolled by the projected token of a service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Kubernetes>,
    /// Days a certificate lasts at most; 90 unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<u64>,
}

/// `hub.enrolment.tokens[]`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The pool of slots, as `ledger.postgres.slots` of its sidecars.
    pub pool: String,
    /// A file of mode 0600 with the token of its sidecars; read for each request.
    pub token_file: PathBuf,
}

impl Registry {
    /// Where sidecars come in.
    ///
    /// # Errors
    /// What is wrong with the files of TLS.
    pub fn door(&self) -> Result<Settings, String> {
        let tls = self.tls.as_ref().map(Tls::open).transpose();
        let tls = tls.map_err(|wrong| format!("hub.enrolment.tls.{}: {wrong}", wrong.field))?;
        Ok(Settings { addr: self.listen, tls, ..Settings::default() })
    }

    /// Who may be enrolled where by a shared token.
    #[must_use]
    pub fn pools(&self) -> Vec<Pool> {
        let pool =
            |one: &Token| Pool { pool: one.pool.clone(), token_file: one.token_file.clone() };
        self.tokens.iter().map(pool).collect()
    }

    /// Who is asked about projected tokens.
    #[must_use]
    pub fn reviewer(&self) -> Option<Reviewer> {
        self.kubernetes.as_ref().map(|section| Reviewer::new(section.cluster()))
    }

    /// How long a certificate lasts at most.
    #[must_use]
    pub fn term(&self) -> Duration {
        Duration::from_secs(self.days.unwrap_or(DAYS_MAX).saturating_mul(24 * 3600))
    }
}

/// `enrolment`: the hub that certifies this sidecar's writer.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Enrolment {
    /// Where the hub enrols.
    pub hub: String,
    /// A file of mode 0600 with the token of this sidecar's pool, or its pod's projected token; read for each
    /// request, since kubelet replaces that.
    pub token_file: PathBuf,
    /// The enrolment key's public half: what another key certified is not believed.
    pub public_key: PathBuf,
    /// Authorities for https (PEM) instead of the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

impl Enrolment {
    /// The one key whose certificates are believed.
    ///
    /// # Errors
    /// The file cannot be read, or does not hold exactly one key.
    pub fn key(&self) -> Result<PublicKey, String> {
        let keys = PublicKey::load_all(&self.public_key).map_err(|e| e.to_string())?;
        match keys.as_slice() {
            [one] => Ok(*one),
            many => {
                let (shown, many) = (self.public_key.display(), many.len());
                Err(format!("`{shown}` holds {many} keys: expected the one enrolment key"))
            }
        }
    }
}

impl Config {
    /// Files by which this machine proves to others who it is: no tool may read them.
    pub(super) fn own_secrets(&self) -> Vec<PathBuf> {
        let tls = self.listen.tls.iter().chain(&self.operator.tls);
        let token = self.enrolment.as_ref().map(|enrolment| enrolment.token_file.clone());
        tls.map(|tls| tls.key.clone()).chain(token).collect()
    }
}

/// The part of the schema of `hub`.
pub(super) fn registry(path: &dyn Fn(&str) -> Value) -> Value {
    let token = json!({"type": "object", "additionalProperties": false,
        "required": ["pool", "token_file"], "properties": {
        "pool": {"type": "string", "pattern": "^[a-z0-9-]{1,63}(/[a-z0-9-]{1,63})?$",
            "x-error": "expected a pool: local, or <namespace>/<service account>",
            "description": "the pool of slots, as `ledger.postgres.slots` of its sidecars"},
        "token_file": path("file of mode 0600 with the token of its sidecars: at least 43 printable characters (256 bits); read for each request"),
    }});
    json!({"type": "object", "additionalProperties": false, "required": ["listen"],
        "description": "where the hub certifies the writers of sidecars with `fleet.enrolment_key`; off unless set",
        "properties": {
        "listen": {"type": "string", "description": "address for sidecars: a loopback one, unless there is `tls`"},
        "tls": tls::schema(path, false),
        "tokens": {"type": "array", "minItems": 1, "maxItems": 256, "items": token,
            "x-error": "expected 1 to 256 tokens, each {pool, token_file}"},
        "kubernetes": kubernetes::schema(path),
        "days": {"type": "integer", "minimum": 1, "maximum": DAYS_MAX,
            "x-error": "expected a whole number from 1 to 90",
            "description": "days a certificate lasts at most; default 90"},
    }})
}

/// The part of the schema of a sidecar.
pub(super) fn schema(path: &dyn Fn(&str) -> Value) -> Value {
    json!({"type": "object", "additionalProperties": false,
        "required": ["hub", "token_file", "public_key"],
        "description": "the hub that certifies this sidecar's writer, instead of an enrolment key of its own",
        "properties": {
        "hub": {"type": "string", "pattern": "^https?://[^/]", "maxLength": 4096,
            "x-error": "expected an http:// or https:// URL",
            "description": "URL of its `hub.enrolment.listen`; http:// on loopback alone"},
        "token_file": path("file of mode 0600 with the token of this sidecar's pool, or its pod's projected token (0440 of root's for a gate that is not root); read for each request"),
        "public_key": path("public half of the enrolment key (PEM): what another key certified is not believed"),
        "ca_file": path("authorities for https (PEM) instead of the public ones"),
    }})
}

/// Makes the paths absolute.
pub(super) fn resolve(value: &mut Value, one: &dyn Fn(&mut Value)) {
    tls::resolve(value, "/hub/enrolment/tls", one);
    kubernetes::resolve(value, one);
    for name in ["token_file", "public_key", "ca_file"] {
        if let Some(path) = value.pointer_mut(&format!("/enrolment/{name}")) {
            one(path);
        }
    }
    let tokens = value.pointer_mut("/hub/enrolment/tokens").and_then(Value::as_array_mut);
    for token in tokens.into_iter().flatten() {
        token.get_mut("token_file").map(one);
    }
}

/// What the schema cannot say, each with its place.
pub(super) fn check(config: &Value) -> Vec<(String, String)> {
    let mut wrong = tls::check(config, "/hub/enrolment/tls", Tls::open);
    // What has the wrong shape was said already.
    let at = |pointer: &str| config.pointer(pointer);
    if let Some(Ok(enrolment)) = at("/enrolment").map(Enrolment::deserialize) {
        wrong.extend(sidecar(config, &enrolment));
    }
    let listen = at("/hub/enrolment/listen").and_then(Value::as_str);
    match listen.map(|text| (text, text.parse::<SocketAddr>())) {
        Some((text, Err(_))) => {
            let why = format!("`{text}` is not an address like `127.0.0.1:7303`");
            wrong.push(("/hub/enrolment/listen".to_owned(), why));
        }
        Some((text, Ok(address)))
            if !address.ip().is_loopback() && at("/hub/enrolment/tls").is_none() =>
        {
            let why =
                format!("`{text}` is not a loopback address: it needs `hub.enrolment.tls` there");
            wrong.push(("/hub/enrolment/listen".to_owned(), why));
        }
        Some((_, Ok(_))) | None => {}
    }
    let (tokens, pools) = shared(config);
    wrong.extend(tokens);
    wrong.extend(kubernetes::check(config, &pools));
    if at("/hub/enrolment").is_some_and(|all| all.get("kubernetes").is_none())
        && at("/hub/enrolment/tokens").is_none()
    {
        let why = "nobody can be enrolled: `tokens` and `kubernetes` are missing";
        wrong.push(("/hub/enrolment".to_owned(), why.to_owned()));
    }
    wrong
}

/// What is wrong with shared tokens, and the pools that have one.
fn shared(config: &Value) -> (Vec<(String, String)>, BTreeSet<String>) {
    let mut wrong = Vec::new();
    let tokens = config.pointer("/hub/enrolment/tokens").and_then(Value::as_array);
    let (mut pools, mut known) = (BTreeSet::new(), BTreeSet::new());
    for (i, token) in tokens.into_iter().flatten().enumerate() {
        let Ok(Token { pool, token_file }) = Token::deserialize(token) else { continue };
        let mut add = |name: &str, why: String| {
            wrong.push((format!("/hub/enrolment/tokens/{i}/{name}"), why));
        };
        if pool == HUBS {
            add("pool", "hubs certify themselves: nobody is enrolled into their pool".to_owned());
        }
        if pool == POOL {
            add("pool", "the fleet log is nobody's pool".to_owned());
        }
        if !pools.insert(pool.clone()) {
            add("pool", format!("pool `{pool}` is there twice"));
        }
        match read_token(&token_file) {
            Err(why) => add("token_file", why),
            Ok(text) if text.len() < TOKEN_CHARS_MIN => {
                let why = format!("the token needs at least {TOKEN_CHARS_MIN} characters");
                add("token_file", why);
            }
            Ok(text) if !known.insert(Digest::of(&[text.as_bytes()])) => {
                add("token_file", "the token is another pool's".to_owned());
            }
            Ok(_) => {}
        }
    }
    (wrong, pools)
}

fn sidecar(config: &Value, enrolment: &Enrolment) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    let mut add = |name: &str, why: String| wrong.push((format!("/enrolment{name}"), why));
    if config.pointer("/fleet/enrolment_key").is_some() {
        let why = "and `fleet.enrolment_key`: a writer is certified by one of them";
        add("", why.to_owned());
    }
    if config.pointer("/ledger/postgres").is_none() {
        add("", "a hub enrols on Postgres alone".to_owned());
    }
    match Origin::parse(&enrolment.hub) {
        Err(why) => add("/hub", why),
        Ok((origin, _)) => {
            let near = matches!(&origin.host, Host::Ip(ip) if ip.is_loopback());
            if !origin.tls && !near {
                let why = "http:// carries the token in the clear: on loopback addresses alone";
                add("/hub", why.to_owned());
            }
        }
    }
    if let Err(why) = read_token(&enrolment.token_file) {
        add("/token_file", why);
    }
    if let Err(why) = enrolment.key() {
        add("/public_key", why);
    }
    if let Some(Err(error)) = enrolment.ca_file.as_ref().map(std::fs::metadata) {
        add("/ca_file", error.to_string());
    }
    wrong
}
