//! `operator`, `operators` and `approvals`: the operators' listener, their rights, and the notices
//! of held calls.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::console::Console;
use super::tls::{self, TlsError};
use crate::approval::{PasskeyScope, PasskeyTerms};
use crate::catalog::form::{FilePath, WebAddress};
use crate::crypto::passkey::WebOrigin;
use crate::domain::token::Family;
use crate::identity::callers::read_token_of;
use crate::operator::operators::{Member, OidcSubject};
use crate::operator::webhook::WebhookFormat;
use crate::serve::operator::OperatorSettings;
use crate::serve::tls::Section;

/// `operator`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Operator {
    /// Address of health, readiness, metrics and the operator API. It must be a loopback address
    /// unless `tls` is set.
    pub listen: SocketAddr,
    /// TLS (1.2 and 1.3) for this listener, required unless its address is loopback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Section>,
}

impl Default for Operator {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 7301)), tls: None }
    }
}

impl Operator {
    /// Where operators come in, also with a browser.
    ///
    /// # Errors
    /// What is wrong with the files of TLS.
    pub fn listener(&self, console: &Console) -> Result<OperatorSettings, TlsError> {
        let (tls, console) = (tls::open(self.tls.as_ref(), "operator")?, console.settings(self));
        Ok(OperatorSettings { addr: self.listen, tls, console, ..OperatorSettings::default() })
    }
}

/// `approvals`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Approvals {
    /// Whether the owner of an agent's manifest may approve its calls.
    pub owner_may_approve: bool,
    /// The people who may approve: an OpenSSH `allowed_signers` file, with its signature envelope
    /// beside it as `<file>.sig.json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub signers: Option<PathBuf>,
    /// Maximum number of held calls of one run. The gate denies a call that would exceed it.
    #[schemars(range(min = 1, max = 1000))]
    pub pending_max: u64,
    /// Maximum number of held calls over all runs. The gate denies a call that would exceed it.
    #[schemars(range(min = 1, max = 100_000))]
    pub pending_all_max: u64,
    /// The calls that passkeys alone may approve: `off` none, `t2` calls up to T2 (a T3 call also needs
    /// an approval by an SSH key of a file, an agent or a security key), `all` every call.
    #[schemars(schema_with = "passkey_calls")]
    pub passkeys: PasskeyScope,
    /// Where passkeys may sign: the origins of the consoles that you trust to show a call as it is, such as
    /// `https://console.example.com`. Without one no passkey counts.
    #[schemars(with = "Vec<WebAddress>", length(max = 16))]
    pub passkey_origins: Vec<String>,
    /// Whether passkeys count that their owner's devices share (flag BE of WebAuthn).
    pub synced_passkeys: bool,
    /// Where the gate announces held calls. Default: nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
}

impl Default for Approvals {
    fn default() -> Self {
        Self {
            owner_may_approve: false,
            signers: None,
            pending_max: 10,
            pending_all_max: 1000,
            passkeys: PasskeyScope::T2,
            passkey_origins: Vec::new(),
            synced_passkeys: true,
            webhook: None,
        }
    }
}

impl Approvals {
    /// Which passkeys of the list count.
    #[must_use]
    pub fn passkey_terms(&self) -> PasskeyTerms {
        let origins = self.passkey_origins.iter().filter_map(|text| WebOrigin::parse(text));
        let origins: Vec<WebOrigin> = origins.collect();
        match self.passkeys {
            PasskeyScope::T2 | PasskeyScope::All if !origins.is_empty() => {
                PasskeyTerms::At { origins, synced: self.synced_passkeys }
            }
            PasskeyScope::Off | PasskeyScope::T2 | PasskeyScope::All => PasskeyTerms::Off,
        }
    }
}

/// The schema of [`PasskeyScope`].
fn passkey_calls(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": PasskeyScope::TEXTS})
}

/// `approvals.webhook`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// URL that the gate posts each held call to.
    #[schemars(with = "WebAddress")]
    pub url: String,
    /// Secret key that signs each message: an Ed25519 PKCS#8 PEM file of mode 0600.
    #[schemars(with = "FilePath")]
    pub key: PathBuf,
    /// Certificate authorities (PEM) to trust for https, instead of the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub ca: Option<PathBuf>,
    /// Base URL of the page that shows held calls to people. The link in each message begins with
    /// it. Default: the page of held calls at the first of `console.origins`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<WebAddress>")]
    pub link: Option<String>,
    /// What the receiver reads: `standard` (the body of Standard Webhooks), `slack` (an incoming webhook of Slack) or
    /// `teams` (a workflow of Teams that posts cards).
    #[serde(default = "standard")]
    #[schemars(schema_with = "webhook_formats")]
    pub format: WebhookFormat,
}

const fn standard() -> WebhookFormat {
    WebhookFormat::Standard
}

/// The schema of [`WebhookFormat`].
fn webhook_formats(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": WebhookFormat::TEXTS})
}

/// The warning about `operators` without effect: on Postgres operators ask the hub, not the
/// sidecar. `None` for the configuration of a hub.
pub fn unheard(config: &super::Config) -> Option<String> {
    let sidecar = config.hub.reader_url_file.is_none();
    let postgres = matches!(config.ledger, super::Ledger::Postgres(_));
    (postgres && sidecar && !config.operators.is_empty()).then(|| {
        "`operators` has no effect here: on Postgres `wicketgate serve hub` serves operators, so move this section to the hub's configuration"
            .to_owned()
    })
}

/// The origins that no browser would name so.
fn origins(value: &Value) -> Vec<(String, String)> {
    let origins = value.pointer("/approvals/passkey_origins").and_then(Value::as_array);
    let texts = origins.into_iter().flatten().enumerate();
    let invalid = texts.filter_map(|(i, one)| Some((i, one.as_str()?)));
    let invalid = invalid.filter(|(_, text)| WebOrigin::parse(text).is_none());
    let message = |text: &str| {
        format!(
            "`{text}` is no origin as browsers write it: `https://` and a host name in lower case, with a port only if \
             it is not 443 (or `http://localhost:PORT`); browsers make no passkeys for IP addresses"
        )
    };
    invalid.map(|(i, text)| (format!("/approvals/passkey_origins/{i}"), message(text))).collect()
}

/// Whether the console asks the issuer that names this person.
fn of_issuer(person: &OidcSubject, config: &Value) -> Result<(), String> {
    let asked = config.pointer("/console/oidc/issuer").and_then(Value::as_str);
    match (asked, person.issuer.as_deref()) {
        (None, _) => Err("operators can log in at an issuer only if `console.oidc` is set".into()),
        (Some(asked), Some(named)) if asked != named => {
            Err(format!("the issuer of `console.oidc` is `{asked}`, and no other one is asked"))
        }
        (Some(_), _) => Ok(()),
    }
}

/// Checks beyond the schema, each error with its place.
pub(super) fn check(value: &Value) -> Vec<(String, String)> {
    let members = value.pointer("/operators").and_then(Value::as_array);
    let (mut seen, mut certificates, mut people, mut problems) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), origins(value));
    for (i, member) in members.into_iter().flatten().enumerate() {
        // What the schema refused is reported already.
        let Ok(member) = Member::deserialize(member) else { continue };
        if !seen.insert(member.subject.clone()) {
            let message = format!("subject `{}` is configured twice", member.subject);
            problems.push((format!("/operators/{i}/subject"), message));
        }
        let read = member.token_file.as_deref().map(|file| read_token_of(Family::Operator, file));
        if let Some(Err(why)) = read {
            problems.push((format!("/operators/{i}/token_file"), why.to_string()));
        }
        let ways =
            [member.token_file.is_some(), member.certificate.is_some(), member.oidc.is_some()];
        if ways.into_iter().filter(|way| *way).count() != 1 {
            let message = "expected exactly one of `token_file`, `certificate` and `oidc`";
            problems.push((format!("/operators/{i}"), message.to_owned()));
        }
        if let Some(Err(message)) = member.oidc.as_ref().map(|person| of_issuer(person, value)) {
            problems.push((format!("/operators/{i}/oidc"), message));
        }
        if member.oidc.as_ref().is_some_and(|one| !people.insert(one.subject.clone())) {
            let message = "another operator has the same subject of the issuer";
            problems.push((format!("/operators/{i}/oidc/subject"), message.to_owned()));
        }
        if member.certificate.as_ref().is_some_and(|one| !certificates.insert(one.clone())) {
            let message = "another operator has the same certificate";
            problems.push((format!("/operators/{i}/certificate"), message.to_owned()));
        }
        if member.certificate.is_some() && value.pointer("/operator/tls/client_ca").is_none() {
            let message = "operators can show certificates only if `operator.tls.client_ca` is set";
            problems.push((format!("/operators/{i}/certificate"), message.to_owned()));
        }
    }
    problems
}
