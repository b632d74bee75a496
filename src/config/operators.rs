//! `operator`, `operators` and `approvals`: where people come in, who may order what, and how held calls are
//! brought to them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tls::Tls;
use crate::domain::token::Family;
use crate::identity::callers::read_token_of;
use crate::operator::staff::{Member, Role};
use crate::serve::operator::Settings;

/// `operator`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    /// Health, readiness and metrics; a loopback address, unless there is `tls`.
    pub listen: SocketAddr,
    /// TLS; in the clear without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

impl Operator {
    /// Where operators come in.
    ///
    /// # Errors
    /// What is wrong with the files of TLS.
    pub fn door(&self) -> Result<Settings, String> {
        let tls = self.tls.as_ref().map(Tls::open).transpose();
        let tls = tls.map_err(|wrong| format!("operator.tls.{}: {wrong}", wrong.field))?;
        let rest = Settings::default();
        Ok(Settings { addr: self.listen, tls, ..rest })
    }
}

/// `approvals`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Approvals {
    /// Whether the owner of an agent's manifest may approve its calls.
    pub owner_may_approve: bool,
    /// Who may approve: an OpenSSH `allowed_signers` file, its envelope beside it as `<file>.sig.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signers: Option<PathBuf>,
    /// Held calls of one run; the next one is denied.
    pub pending_max: u64,
    /// Held calls in all; the next one is denied.
    pub pending_all_max: u64,
    /// Who is told of a held call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
}

/// `approvals.webhook`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Where it is told.
    pub url: String,
    /// Signs what is told: an Ed25519 PKCS#8 PEM file of mode 0600.
    pub key: PathBuf,
    /// PEM authorities for `https` instead of the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Where people look at held calls: the beginning of the link that is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// What to say of `operators` that nobody asks: on Postgres operators ask the hub, not the sidecar. Nothing
/// of a configuration that is a hub's.
#[must_use]
pub fn unheard(config: &super::Config) -> Option<String> {
    let sidecar = config.hub.reader_url_file.is_none();
    let postgres = matches!(config.ledger, super::Ledger::Postgres(_));
    (postgres && sidecar && !config.operators.is_empty()).then(|| {
        "`operators` are not asked here: on Postgres `wicketgate hub` answers them, so give them to the \
         hub's configuration"
            .to_owned()
    })
}

/// The part of the schema for `operators`.
pub(super) fn operators(path: &dyn Fn(&str) -> Value) -> Value {
    let roles: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
    json!({"type": "array", "maxItems": 256, "default": [],
    "description": "who may see runs and held calls, approve, and stop",
    "items": {"type": "object", "additionalProperties": false,
        "required": ["subject", "roles"], "properties": {
        "subject": {"type": "string", "pattern": "^[A-Za-z0-9_.@+-]{1,128}$",
            "x-error": "expected a subject: [A-Za-z0-9_.@+-]{1,128}",
            "description": "the name in entries"},
        "roles": {"type": "array", "minItems": 1, "maxItems": 6, "uniqueItems": true,
            "items": {"enum": roles, "x-error": format!("expected one of {}", roles.join(", "))},
            "description": "what the subject may do"},
        "token_file": path("file of mode 0600 with the token: at least 43 printable characters (256 bits)"),
        "certificate": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$",
            "x-error": "expected `sha256:` and 64 hex digits: `openssl x509 -in FILE -outform DER | sha256sum`",
            "description": "instead of a token: the thumbprint of the subject's client certificate, under `operator.tls.client_ca`"},
    }}})
}

/// The part of the schema for `approvals`.
pub(super) fn approvals(path: &dyn Fn(&str) -> Value) -> Value {
    let count = |default: u64, most: u64, text: &str| {
        json!({"type": "integer", "minimum": 1, "maximum": most, "default": default,
            "description": text, "x-error": format!("expected a whole number from 1 to {most}")})
    };
    let url = |text: &str| {
        json!({"type": "string", "pattern": "^https?://[^/]", "maxLength": 4096, "description": text,
            "x-error": "expected an http:// or https:// URL"})
    };
    json!({"type": "object", "additionalProperties": false, "default": {}, "properties": {
        "signers": path("allowed_signers of those who may approve, its envelope beside it as <file>.sig.json"),
        "owner_may_approve": {"type": "boolean", "default": false,
            "description": "whether the owner of an agent's manifest may approve its calls",
            "x-error": "expected `true` or `false`"},
        "pending_max": count(10, 1000, "held calls of one run; the next one is denied"),
        "pending_all_max": count(1000, 100_000, "held calls in all; the next one is denied"),
        "webhook": {"type": "object", "additionalProperties": false, "required": ["url", "key"],
            "properties": {
                "url": url("where it is told that a call is held"),
                "key": path("signs what is told: an Ed25519 PKCS#8 PEM file of mode 0600"),
                "ca": path("authorities for https (PEM) instead of the public ones"),
                "link": url("where people look at held calls: the beginning of the link that is told"),
            }},
    }})
}

/// Makes the paths absolute.
pub(super) fn resolve(value: &mut Value, one: &dyn Fn(&mut Value)) {
    for pointer in ["/approvals/signers", "/approvals/webhook/key", "/approvals/webhook/ca"] {
        if let Some(path) = value.pointer_mut(pointer) {
            one(path);
        }
    }
    let operators = value.pointer_mut("/operators").and_then(Value::as_array_mut);
    for member in operators.into_iter().flatten() {
        if let Some(path) = member.get_mut("token_file") {
            one(path);
        }
    }
}

/// What the schema cannot say, each with its place.
pub(super) fn check(value: &Value) -> Vec<(String, String)> {
    let members = value.pointer("/operators").and_then(Value::as_array);
    let (mut seen, mut certificates, mut wrong) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for (i, member) in members.into_iter().flatten().enumerate() {
        // What the schema refused is reported already.
        let Ok(member) = Member::deserialize(member) else { continue };
        if !seen.insert(member.subject.clone()) {
            let message = format!("subject `{}` is there twice", member.subject);
            wrong.push((format!("/operators/{i}/subject"), message));
        }
        let read = member.token_file.as_deref().map(|file| read_token_of(Family::Operator, file));
        if let Some(Err(message)) = read {
            wrong.push((format!("/operators/{i}/token_file"), message));
        }
        if member.token_file.is_some() == member.certificate.is_some() {
            let message = "expected exactly one of `token_file` and `certificate`";
            wrong.push((format!("/operators/{i}"), message.to_owned()));
        }
        if member.certificate.as_ref().is_some_and(|one| !certificates.insert(one.clone())) {
            let message = "the certificate is another operator's";
            wrong.push((format!("/operators/{i}/certificate"), message.to_owned()));
        }
        if member.certificate.is_some() && value.pointer("/operator/tls/client_ca").is_none() {
            let message = "no certificate can be shown without `operator.tls.client_ca`";
            wrong.push((format!("/operators/{i}/certificate"), message.to_owned()));
        }
    }
    wrong
}
