//! Service accounts of a Kubernetes cluster as callers, by the tokens that kubelet projects into their pods.
//!
//! The gate verifies a token with the keys that the cluster publishes, so an agent is known while the API server does not
//! answer. That its pod is gone only the API server knows: the token ends with its own time, which kubelet sets to an hour.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crypto::jose::{self, TokenAudience, TokenKeys};
use crate::domain::time::Timestamp;
use crate::form::FilePath;

/// Before `NAMESPACE:NAME` in the subject of a token.
const SUBJECT: &str = "system:serviceaccount:";
/// Characters of a namespace (RFC 1123 label), and of an account (RFC 1123 subdomain).
const NAMESPACE_MAX: usize = 63;
const NAME_MAX: usize = 253;
/// Seconds that the clock of the cluster may be ahead.
const SKEW: i64 = 60;

/// `trust.kubernetes`: the cluster whose service accounts may be callers (`callers[].k8s_service_account`).
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccountTrust {
    /// Issuer of its tokens: `issuer` in the output of `kubectl get --raw /.well-known/openid-configuration`.
    #[schemars(length(min = 1, max = 2048), extend("x-error" = "expected the issuer of the cluster"))]
    pub issuer: String,
    /// The audience that a token must be for, and no other.
    #[serde(default = "audience")]
    #[schemars(length(min = 1, max = 2048), extend("x-error" = "expected an audience"))]
    pub audience: String,
    /// A file with the public keys of the issuer: the output of `kubectl get --raw /openid/v1/jwks`. The gate follows it.
    #[schemars(with = "FilePath")]
    pub keys: PathBuf,
}

fn audience() -> String {
    "wicketgate".to_owned()
}

/// Why a cluster cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum AccountTrustError {
    /// Its keys cannot be read.
    #[error("`{path}`: {source}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// They are no set of keys, or have none that tokens are verified with.
    #[error(
        "`{0}` has no key of an issuer: write the output of `kubectl get --raw /openid/v1/jwks` there"
    )]
    Keys(String),
}

/// Why the token of an account does not count.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum AccountError {
    /// No key of the cluster signed it.
    #[error(transparent)]
    Signature(#[from] jose::Error),
    /// A claim is missing, or is something else.
    #[error("its claims are not those of a service account: {0}")]
    Form(String),
    /// It is of another issuer.
    #[error("it is of another issuer")]
    Issuer,
    /// It is for another audience, or for more than this one.
    #[error("it is for another audience")]
    Audience,
    /// Its time is over, or has not begun.
    #[error("it is not valid now")]
    Time,
    /// Its claims name two accounts.
    #[error("its claims name different service accounts")]
    Account,
}

/// The claims, as far as they are read.
#[derive(Deserialize)]
struct AccountClaims {
    iss: String,
    sub: String,
    aud: TokenAudience,
    exp: i64,
    nbf: Option<i64>,
    #[serde(rename = "kubernetes.io")]
    bound: AccountBinding,
}

/// What Kubernetes says of the holder.
#[derive(Deserialize)]
struct AccountBinding {
    namespace: String,
    serviceaccount: AccountName,
}

#[derive(Deserialize)]
struct AccountName {
    name: String,
}

/// The cluster, with its keys.
#[derive(Debug)]
pub(super) struct Accounts {
    issuer: String,
    audience: String,
    keys: TokenKeys,
}

impl Accounts {
    /// Reads the keys of the cluster.
    ///
    /// # Errors
    /// They cannot be read, or there are none.
    pub(super) fn load(trust: &AccountTrust) -> Result<Self, AccountTrustError> {
        let path = trust.keys.display().to_string();
        let read = std::fs::read(&trust.keys);
        let bytes =
            read.map_err(|source| AccountTrustError::File { path: path.clone(), source })?;
        let keys = TokenKeys::parse(&bytes).ok().filter(|keys| !keys.is_empty());
        let keys = keys.ok_or(AccountTrustError::Keys(path))?;
        Ok(Self { issuer: trust.issuer.clone(), audience: trust.audience.clone(), keys })
    }

    /// The account of a token that counts now: `agents/reviewer`.
    pub(super) fn named(&self, token: &str, now: Timestamp) -> Result<String, AccountError> {
        let claims = self.keys.open(token)?;
        let claims: AccountClaims =
            claims.read().map_err(|error| AccountError::Form(error.to_string()))?;
        if claims.iss != self.issuer {
            return Err(AccountError::Issuer);
        }
        if !claims.aud.is(&self.audience) {
            return Err(AccountError::Audience);
        }
        let now = now.millis().div_euclid(1000);
        if now >= claims.exp || claims.nbf.is_some_and(|begins| begins > now.saturating_add(SKEW)) {
            return Err(AccountError::Time);
        }
        let AccountBinding { namespace, serviceaccount: AccountName { name } } = claims.bound;
        let account = format!("{namespace}/{name}");
        let same = claims.sub == format!("{SUBJECT}{namespace}:{name}");
        if same && is_account(&account) { Ok(account) } else { Err(AccountError::Account) }
    }
}

/// Whether this names a service account: `NAMESPACE/NAME`, in the letters of Kubernetes (RFC 1123).
pub(super) fn is_account(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let ends = |part: &str| !part.starts_with(['-', '.']) && !part.ends_with(['-', '.']);
    let Some((namespace, name)) = text.split_once('/') else { return false };
    let is_namespace =
        (1..=NAMESPACE_MAX).contains(&namespace.len()) && namespace.bytes().all(plain);
    let is_name =
        (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(|b| plain(b) || b == b'.');
    is_namespace && is_name && ends(namespace) && ends(name)
}
