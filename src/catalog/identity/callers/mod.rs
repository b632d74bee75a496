//! The callers of each agent: socket peers, holders of certificates and of tokens, each mapped to
//! exactly one manifest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use super::certificate::{is_spiffe, thumbprint};
use super::error::{Error, IdentityError};
use super::manifest::Manifest;
use super::token::RunTokens;
use super::{Caller, Peer};
use crate::crypto::keys::PublicKey;
use crate::crypto::private;
use crate::domain::call::CallerAuth;
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;
use crate::domain::token::{self, Family};
use crate::form::FilePath;

mod accounts;
mod error;
mod managed;

use accounts::{AccountError, Accounts};
pub use accounts::{AccountTrust, AccountTrustError};
pub use error::{CallerError, TokenError};
pub use managed::{
    ANSWER_FORM, AgentModel, ManagedConfig, ManagedError, TextTools, offer, offered_name, offers,
};

/// Least characters of a token.
pub const TOKEN_CHARS_MIN: usize = 32;

/// `agents[]` of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The agent's signed manifest. Its signature envelope lies beside it as `<file>.sig.json`.
    #[schemars(with = "FilePath")]
    pub manifest: PathBuf,
    /// Whether the gate handles the calls of one run one at a time, in the order of their arrival.
    #[serde(default)]
    pub ordered: bool,
    /// What the gate does for the agent when it asks a model.
    #[serde(default)]
    pub model: AgentModel,
    /// The callers that may act as this agent. Exactly one of `uid`, `token_file`, `spiffe`, `certificate` and
    /// `k8s_service_account` identifies each.
    #[schemars(length(min = 1, max = 256), extend("x-error" = "expected 1 to 256 callers"))]
    pub callers: Vec<CallerConfig>,
}

/// `agents[].callers[]`: `{uid, socket?}`, `{spiffe}`, `{certificate}`, `{token_file}` or `{k8s_service_account}`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CallerConfig {
    /// The Unix socket that the caller connects to; needs `uid`. Default: `listen.socket`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub socket: Option<PathBuf>,
    /// The caller's uid on the socket, as the kernel reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 4_294_967_294_u64), extend("x-error" = "expected a uid"))]
    pub uid: Option<u32>,
    /// A file of mode 0600 that holds one line of at least 32 printable characters. The caller
    /// sends that line as its bearer token (`authorization: Bearer`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub token_file: Option<PathBuf>,
    /// The SPIFFE ID in the caller's client certificate, under `listen.tls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), extend("x-error" = "expected a SPIFFE id"))]
    pub spiffe: Option<String>,
    /// Thumbprint of the caller's client certificate, under `listen.tls`: `sha256:` and the SHA-256 of its DER bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), extend("x-error" = "expected `sha256:` and 64 hex digits"))]
    pub certificate: Option<String>,
    /// The Kubernetes service account of the caller, `NAMESPACE/NAME`. The caller sends its projected token, which the cluster
    /// in `trust.kubernetes` signed, as its bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 320), extend("x-error" = "expected NAMESPACE/NAME"))]
    pub k8s_service_account: Option<String>,
}

/// The trusted manifest signers, and the default address of peers.
#[derive(Clone, Debug)]
pub struct Trust<'a> {
    /// Keys that may sign manifests.
    pub keys: &'a [PublicKey],
    /// How many of them must.
    pub threshold: usize,
    /// The default agent socket, unless switched off.
    pub socket: Option<&'a Path>,
    /// The cluster whose service accounts may be callers, if there is one.
    pub kubernetes: Option<&'a AccountTrust>,
}

#[derive(Debug)]
struct Token {
    sha256: Digest,
    thumbprint: String,
    manifest: Arc<Manifest>,
}

/// The sockets of one uid, each with the agent it is there.
type Sockets = Vec<(PathBuf, Arc<Manifest>)>;

/// The map from socket peers, certificates and tokens to manifests.
#[derive(Debug)]
pub struct Callers {
    manifests: Vec<Arc<Manifest>>,
    peers: BTreeMap<u32, Sockets>,
    /// By SPIFFE id or thumbprint: no text is both.
    certified: BTreeMap<String, Arc<Manifest>>,
    tokens: Vec<Token>,
    /// By `NAMESPACE/NAME`.
    accounts: BTreeMap<String, Arc<Manifest>>,
    cluster: Option<Accounts>,
    thumbprints: Arc<RunTokens>,
    /// The loops of agents that have one, by the name of the manifest.
    managed: BTreeMap<String, Arc<ManagedConfig>>,
}

impl Callers {
    /// Loads every manifest and token. `tokens` makes the thumbprints of entries.
    ///
    /// # Errors
    /// Everything that is wrong: a manifest that does not load, two manifests of one agent, a
    /// caller mapped twice, a form this build does not support, a token that other users may read.
    pub fn load(
        agents: &[Config],
        trust: &Trust<'_>,
        tokens: &Arc<RunTokens>,
        now: Timestamp,
    ) -> Result<Self, Vec<Error>> {
        let mut callers = Self {
            manifests: Vec::new(),
            peers: BTreeMap::new(),
            certified: BTreeMap::new(),
            tokens: Vec::new(),
            accounts: BTreeMap::new(),
            cluster: None,
            thumbprints: Arc::clone(tokens),
            managed: BTreeMap::new(),
        };
        let mut problems = Vec::new();
        match trust.kubernetes.map(Accounts::load).transpose() {
            Ok(cluster) => callers.cluster = cluster,
            Err(why) => {
                let (key, message) = ("trust.kubernetes.keys".to_owned(), why.to_string());
                problems.push(Error::Callers { key, message });
            }
        }
        for (i, agent) in agents.iter().enumerate() {
            let manifest = match Manifest::load(&agent.manifest, trust.keys, trust.threshold, now) {
                Ok(manifest) => Arc::new(manifest),
                Err(error) => {
                    problems.push(error);
                    continue;
                }
            };
            if callers.manifests.iter().any(|other| other.name == manifest.name) {
                let message = format!("agent `{}` is configured twice", manifest.name);
                problems.push(Error::Callers { key: format!("agents[{i}].manifest"), message });
                continue;
            }
            callers.manifests.push(Arc::clone(&manifest));
            if let Some(managed) = &agent.model.managed {
                if let Err(why) = managed.check(&manifest) {
                    let (key, message) = (format!("agents[{i}].model.managed"), why.to_string());
                    problems.push(Error::Callers { key, message });
                }
                callers.managed.insert(manifest.name.clone(), Arc::new(managed.clone()));
            }
            for (j, caller) in agent.callers.iter().enumerate() {
                if let Err(why) = callers.add(caller, &manifest, trust) {
                    let message = why.to_string();
                    problems
                        .push(Error::Callers { key: format!("agents[{i}].callers[{j}]"), message });
                }
            }
        }
        if problems.is_empty() { Ok(callers) } else { Err(problems) }
    }

    fn add(
        &mut self,
        caller: &CallerConfig,
        manifest: &Arc<Manifest>,
        trust: &Trust<'_>,
    ) -> Result<(), CallerError> {
        match form(caller, trust.socket)? {
            CallerForm::Peer { socket, uid } => {
                let here = self.peers.entry(uid).or_default();
                if here.iter().any(|(other, _)| *other == socket) {
                    return Err(CallerError::PeerTwice(uid, socket));
                }
                here.push((socket, Arc::clone(manifest)));
            }
            CallerForm::Certified(name) => {
                if self.certified.contains_key(&name) {
                    return Err(CallerError::Twice(name));
                }
                self.certified.insert(name, Arc::clone(manifest));
            }
            CallerForm::Account(name) => {
                if trust.kubernetes.is_none() {
                    return Err(CallerError::NoCluster);
                }
                if self.accounts.contains_key(&name) {
                    return Err(CallerError::Twice(name));
                }
                self.accounts.insert(name, Arc::clone(manifest));
            }
            CallerForm::Token(path) => {
                let token = read_token_of(Family::Agent, &path)?;
                let sha256 = Digest::of(&[token.as_bytes()]);
                if self.tokens.iter().any(|other| other.sha256 == sha256) {
                    return Err(CallerError::TokenTwice(path));
                }
                let thumbprint = self.thumbprints.thumbprint(&token);
                self.tokens.push(Token { sha256, thumbprint, manifest: Arc::clone(manifest) });
            }
        }
        Ok(())
    }

    /// The one agent this peer or token is now. `bearer` is the credential itself, without a scheme.
    ///
    /// # Errors
    /// Any doubt: no agent, an unknown token (whatever the peer), or two different agents.
    pub fn identify(
        &self,
        peer: &Peer,
        bearer: Option<&str>,
        now: Timestamp,
    ) -> Result<Caller, IdentityError> {
        let mapped = self.certified(peer)?.or_else(|| self.peer(peer));
        let Some(bearer) = bearer else {
            let manifest = mapped.ok_or(IdentityError::Missing)?;
            let method = if peer.certificate.is_some() { "mtls" } else { "uds" };
            return Ok(Caller { manifest: Arc::clone(manifest), auth: peer.auth(method, None) });
        };
        let (manifest, auth) = match self.token(bearer) {
            Some(token) => (&token.manifest, peer.auth("token", Some(token.thumbprint.clone()))),
            None => {
                let (name, manifest) = self.account(bearer, now).ok_or(IdentityError::Unknown)?;
                let auth = peer.auth("service_account", None);
                (manifest, CallerAuth { account: Some(name), ..auth })
            }
        };
        if mapped.is_some_and(|mapped| mapped.digest != manifest.digest) {
            return Err(IdentityError::Ambiguous);
        }
        Ok(Caller { manifest: Arc::clone(manifest), auth })
    }

    /// The service account of a token of the cluster, and its agent. The log says why another token of the cluster does not
    /// count; who shows one that the cluster did not sign cannot fill the log.
    fn account(&self, bearer: &str, now: Timestamp) -> Option<(String, &Arc<Manifest>)> {
        let cluster = self.cluster.as_ref().filter(|_| !self.accounts.is_empty())?;
        match cluster.named(bearer, now) {
            Ok(name) => {
                let manifest = self.accounts.get(&name);
                if manifest.is_none() {
                    tracing::warn!(account = %name, "a service account is no caller of any agent");
                }
                manifest.map(|manifest| (name, manifest))
            }
            Err(AccountError::Signature(_)) => None,
            Err(why) => {
                tracing::warn!(%why, "the token of a service account does not count");
                None
            }
        }
    }

    /// The agent of the certificate, by its SPIFFE id and by its thumbprint: if the two disagree,
    /// there is none.
    fn certified(&self, peer: &Peer) -> Result<Option<&Arc<Manifest>>, IdentityError> {
        let Some(shown) = &peer.certificate else { return Ok(None) };
        let by_id = shown.spiffe.as_ref().and_then(|id| self.certified.get(id));
        let by_print = self.certified.get(&shown.thumbprint.prefixed());
        match (by_id, by_print) {
            (Some(one), Some(other)) if one.digest != other.digest => Err(IdentityError::Ambiguous),
            (one, other) => Ok(one.or(other)),
        }
    }

    /// The loop that the gate runs for the agent of this name, if it runs one.
    #[must_use]
    pub fn managed(&self, agent: &str) -> Option<&Arc<ManagedConfig>> {
        self.managed.get(agent)
    }

    /// Whether a caller with this proof would still be the agent of this name.
    #[must_use]
    pub fn still(&self, auth: &CallerAuth, agent: &str) -> bool {
        let is = |manifest: &Arc<Manifest>| manifest.name == agent;
        match auth.method.as_str() {
            "token" => {
                let shown = auth.token.as_ref();
                self.tokens.iter().any(|t| Some(&t.thumbprint) == shown && is(&t.manifest))
            }
            "mtls" => {
                let names = [&auth.spiffe, &auth.certificate].into_iter().flatten();
                names.filter_map(|name| self.certified.get(name)).any(is)
            }
            "uds" => {
                let sockets = auth.uid.and_then(|uid| self.peers.get(&uid));
                sockets.into_iter().flatten().any(|(_, manifest)| is(manifest))
            }
            "service_account" => {
                auth.account.as_ref().and_then(|name| self.accounts.get(name)).is_some_and(is)
            }
            // The gate itself, which no configuration names.
            "internal" => true,
            _ => false,
        }
    }

    fn peer(&self, peer: &Peer) -> Option<&Arc<Manifest>> {
        let (socket, uid) = (peer.socket.as_ref()?, peer.uid?);
        let here = self.peers.get(&uid)?;
        here.iter().find(|(path, _)| path == socket).map(|(_, manifest)| manifest)
    }

    /// Compares with every token, so that the time taken does not depend on the match.
    fn token(&self, bearer: &str) -> Option<&Token> {
        let shown = Digest::of(&[bearer.as_bytes()]);
        self.tokens.iter().fold(None, |found, token| {
            let same = bool::from(token.sha256.as_bytes().ct_eq(shown.as_bytes()));
            if same { Some(token) } else { found }
        })
    }

    /// Warnings about delegates that no configured agent has. They are not errors: manifests are
    /// signed elsewhere and one may be rolled out before its child; until then opening the child is
    /// refused.
    pub fn strangers(&self) -> Vec<String> {
        let known = |digest: &Digest| self.manifests.iter().any(|other| other.digest == *digest);
        let mut problems = Vec::new();
        for manifest in &self.manifests {
            let agent = &manifest.name;
            for delegate in manifest.delegates.iter().filter(|digest| !known(digest)) {
                problems.push(format!(
                    "agent `{agent}` delegates to manifest `{}`, and no configured agent has it: \
                     such a run cannot be opened",
                    delegate.prefixed()
                ));
            }
        }
        problems
    }

    /// Every manifest, in the order of the configuration.
    pub fn manifests(&self) -> &[Arc<Manifest>] {
        &self.manifests
    }
}

/// The contents of a caller entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallerForm {
    /// A peer on a Unix socket.
    Peer {
        /// The socket.
        socket: PathBuf,
        /// Its uid.
        uid: u32,
    },
    /// Who holds a certificate with this SPIFFE id, or the one with this thumbprint.
    Certified(String),
    /// The holder of the token in this file.
    Token(PathBuf),
    /// The holder of a token of this service account, `NAMESPACE/NAME`.
    Account(String),
}

/// Reads one caller entry: exactly one form.
///
/// # Errors
/// See [`CallerError`].
pub fn form(caller: &CallerConfig, default: Option<&Path>) -> Result<CallerForm, CallerError> {
    let plain = (&caller.socket, caller.uid, &caller.token_file) == (&None, None, &None);
    if let Some(name) = &caller.k8s_service_account {
        if !plain || caller.spiffe.is_some() || caller.certificate.is_some() {
            return Err(CallerError::Alone("k8s_service_account"));
        }
        let name = name.clone();
        return match accounts::is_account(&name) {
            true => Ok(CallerForm::Account(name)),
            false => Err(CallerError::Account(name)),
        };
    }
    match (&caller.spiffe, &caller.certificate) {
        (None, None) => {}
        (Some(id), None) if plain => return spiffe(id),
        (None, Some(print)) if plain => {
            return Ok(CallerForm::Certified(thumbprint(print)?.prefixed()));
        }
        (Some(_), _) => return Err(CallerError::Alone("spiffe")),
        (None, Some(_)) => return Err(CallerError::Alone("certificate")),
    }
    match (&caller.socket, caller.uid, &caller.token_file) {
        (None, None, Some(path)) => Ok(CallerForm::Token(path.clone())),
        (socket, Some(uid), None) => {
            let socket = socket.as_deref().or(default);
            let socket = socket.ok_or(CallerError::NoSocket)?;
            Ok(CallerForm::Peer { socket: socket.to_owned(), uid })
        }
        (Some(_), None, None) => Err(CallerError::NoUid),
        (None, None, None) => Err(CallerError::NoForm),
        (_, _, Some(_)) => Err(CallerError::Alone("token_file")),
    }
}

fn spiffe(id: &str) -> Result<CallerForm, CallerError> {
    if is_spiffe(id) {
        return Ok(CallerForm::Certified(id.to_owned()));
    }
    Err(CallerError::Spiffe(id.to_owned()))
}

/// Reads a token file: mode 0600, at least 32 printable characters, one line.
///
/// # Errors
/// What is wrong with it; never its content.
pub fn read_token(path: &Path) -> Result<zeroize::Zeroizing<String>, TokenError> {
    let text = private::text(path)?;
    let token = text.trim_end_matches(['\n', '\r']);
    if token.len() < TOKEN_CHARS_MIN || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(TokenError::Form(path.to_owned()));
    }
    if token::family(token).is_some() && token::parse(token).is_none() {
        return Err(TokenError::Checksum(path.to_owned()));
    }
    Ok(zeroize::Zeroizing::new(token.to_owned()))
}

/// As [`read_token`], for a token of this family: it refuses one of another.
///
/// # Errors
/// As [`read_token`].
pub fn read_token_of(
    family: Family,
    path: &Path,
) -> Result<zeroize::Zeroizing<String>, TokenError> {
    let token = read_token(path)?;
    match token::family(&token).filter(|other| *other != family) {
        None => Ok(token),
        Some(found) => Err(TokenError::Family { path: path.to_owned(), found, expected: family }),
    }
}

#[cfg(test)]
mod tests;
