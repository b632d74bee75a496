//! Asks the API server of a Kubernetes cluster for the service account of a projected token
//! (TokenReview, `authentication.k8s.io/v1`).
//!
//! Only the API server knows whether a token's pod still exists. So the reviewer asks it each time,
//! caches no answer, and takes everything but an explicit yes as a no.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::credential::{Unshown, showing};
use super::visible;
use crate::catalog::host::Origin;
use crate::domain::json::{self, Json, Limits};
use crate::witness::{Remote, RemoteError};

const API_VERSION: &str = "authentication.k8s.io/v1";
const KIND: &str = "TokenReview";
const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// The prefix of `<namespace>:<service account>` in a user name.
const ACCOUNT: &str = "system:serviceaccount:";
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
/// Bytes of a token; those of service accounts have about a thousand.
const TOKEN_MAX: usize = 8 * 1024;
/// Characters of a pod's name (RFC 1123 subdomain), and more than a uid has.
const NAME_MAX: usize = 253;
/// Characters of the API server's own message that are logged.
const WORDS_MAX: usize = 200;
/// Reviews at the same time.
const AT_ONCE: usize = 16;

/// A cluster with its API server.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// URL of the API server; https alone.
    pub api: String,
    /// The only authorities (PEM) its certificate may be from; read for each review.
    pub ca_file: PathBuf,
    /// The registrar's own token; read for each review, since kubelet replaces it.
    pub token_file: PathBuf,
    /// The audience of the sidecars' tokens: the reviewer refuses a token for another audience.
    pub audience: String,
}

impl Cluster {
    /// Its API server, with the authorities as they are now.
    ///
    /// # Errors
    /// The field that cannot be used, and why.
    pub fn remote(&self) -> Result<Remote, (&'static str, String)> {
        let (origin, _) = Origin::parse(&self.api).map_err(|why| ("api", why.to_string()))?;
        if !origin.tls {
            return Err(("api", "tokens are sent to the API server only over https".to_owned()));
        }
        let unread = |error| ("ca_file", format!("`{}`: {error}", self.ca_file.display()));
        let ca = std::fs::read(&self.ca_file).map_err(unread)?;
        Remote::new(&self.api, Some(&ca)).map_err(|error| ("ca_file", error.to_string()))
    }
}

/// The pod that a token is bound to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Workload {
    /// `<namespace>/<service account>`.
    pub account: String,
    /// Name of the pod.
    pub pod: String,
    /// Its uid, which no other pod ever has.
    pub uid: String,
}

/// Why the API server gave no verdict about a token.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewError {
    /// A field of the configuration cannot be used.
    #[error("{0}: {1}")]
    Cluster(&'static str, String),
    /// The registrar's own token cannot be sent.
    #[error(transparent)]
    Token(#[from] Unshown),
    /// The server does not answer.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The server refuses the request.
    #[error("it answers {0}")]
    Status(u16),
    /// The answer is not JSON.
    #[error("{}: {}", .0.code, .0.message)]
    Json(json::Error),
    /// The answer is something else.
    #[error("the answer is no TokenReview of {API_VERSION}")]
    Kind,
    /// A member is missing, or holds something else.
    #[error("the answer is no TokenReview of {API_VERSION}: {0}")]
    Form(String),
    /// The server names an error beside its answer.
    #[error("it is not sure: {0}")]
    Unsure(String),
    /// The token is valid, and the answer does not name its user.
    #[error("the answer names no user")]
    NoUser,
}

/// Why a token identifies no pod.
#[derive(Debug)]
pub(super) enum Doubt {
    /// Too many reviews are running.
    Busy,
    /// The API server gave no usable answer.
    Unanswered(ReviewError),
    /// The token is unknown to the API server, belongs to no service account, or is for another
    /// audience.
    UnknownToken(String),
    /// It is this account's, and no pod's.
    Unbound(String),
}

/// Asks about tokens.
#[derive(Debug)]
pub struct Reviewer {
    cluster: Cluster,
    turns: Semaphore,
}

impl Reviewer {
    /// A reviewer for this cluster. It connects at the first review.
    pub const fn new(cluster: Cluster) -> Self {
        Self { cluster, turns: Semaphore::const_new(AT_ONCE) }
    }

    /// The pod that this token is bound to.
    pub(super) async fn review(&self, token: &str) -> Result<Workload, Doubt> {
        let Ok(_turn) = self.turns.try_acquire() else { return Err(Doubt::Busy) };
        let answer = self.ask(token).await.map_err(Doubt::Unanswered)?;
        workload(&answer, (token, &self.cluster.audience))
    }

    async fn ask(&self, token: &str) -> Result<Json, ReviewError> {
        let remote =
            self.cluster.remote().map_err(|(field, why)| ReviewError::Cluster(field, why))?;
        let json = HeaderValue::from_static("application/json");
        let request = http::Request::builder()
            .method(Method::POST)
            .header(AUTHORIZATION, showing(&self.cluster.token_file)?)
            .header(ACCEPT, &json)
            .header(CONTENT_TYPE, json);
        let body = json!({"apiVersion": API_VERSION, "kind": KIND,
            "spec": {"token": token, "audiences": [self.cluster.audience]}});
        let body = body.to_string().into_bytes();
        let answer = remote.send(request, PATH, body, Limits::ENTRY.bytes_max).await?;
        if !matches!(answer.status, StatusCode::CREATED | StatusCode::OK) {
            return Err(ReviewError::Status(answer.status.as_u16()));
        }
        Json::parse(&answer.body, &Limits::ENTRY).map_err(ReviewError::Json)
    }
}

/// Whether this may be the token of a service account: three parts in base64url (RFC 7515, section 3.1).
pub(super) fn is_jwt(token: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    token.len() <= TOKEN_MAX && token.split('.').count() == 3 && token.split('.').all(part)
}

/// A TokenReview, as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenReview {
    api_version: String,
    kind: String,
    status: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReviewStatus {
    authenticated: bool,
    audiences: Vec<String>,
    error: String,
    user: Option<User>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct User {
    username: String,
    extra: BTreeMap<String, Value>,
}

/// Reads the API server's verdict about this token for this audience.
fn workload(answer: &Json, (token, audience): (&str, &str)) -> Result<Workload, Doubt> {
    let form = |error: &dyn std::fmt::Display| words(&error.to_string(), token);
    let review: TokenReview =
        answer.read().map_err(|error| Doubt::Unanswered(ReviewError::Form(form(&error))))?;
    if review.api_version != API_VERSION || review.kind != KIND {
        return Err(Doubt::Unanswered(ReviewError::Kind));
    }
    let unknown = |why: String| {
        Doubt::UnknownToken(format!("the token does not belong to a service account: {why}"))
    };
    let status = ReviewStatus::deserialize(review.status).map_err(|error| unknown(form(&error)))?;
    if !status.authenticated {
        return Err(unknown(words(&status.error, token)));
    }
    if !status.error.is_empty() {
        return Err(Doubt::Unanswered(ReviewError::Unsure(words(&status.error, token))));
    }
    if !status.audiences.iter().any(|one| one == audience) {
        return Err(Doubt::UnknownToken("the token is for another audience".to_owned()));
    }
    let user = status.user.ok_or(Doubt::Unanswered(ReviewError::NoUser))?;
    let account = account(&user.username);
    let account = account.ok_or_else(|| {
        Doubt::UnknownToken("the token does not belong to a service account".to_owned())
    })?;
    match (user.one(POD_NAME), user.one(POD_UID)) {
        (Some(pod), Some(uid)) => Ok(Workload { account, pod, uid }),
        (Some(_) | None, None) | (None, Some(_)) => Err(Doubt::Unbound(account)),
    }
}

/// `<namespace>/<service account>` of a user name.
fn account(username: &str) -> Option<String> {
    let (namespace, name) = username.strip_prefix(ACCOUNT)?.split_once(':')?;
    (is_name(namespace) && is_name(name)).then(|| format!("{namespace}/{name}"))
}

impl User {
    /// The one value of an extra field.
    fn one(&self, field: &str) -> Option<String> {
        let [one] = <[String; 1]>::deserialize(self.extra.get(field)?).ok()?;
        Some(one).filter(|text| is_name(text))
    }
}

/// A name of Kubernetes: lower case, digits, `-` and `.`.
fn is_name(text: &str) -> bool {
    let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(known)
}

/// The API server's own message, cut, and without the token.
fn words(message: &str, token: &str) -> String {
    let cut: String = message.replace(token, "(the token)").chars().take(WORDS_MAX).collect();
    visible(&cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "head.claims.signature";

    fn answer() -> Value {
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "metadata": {"creationTimestamp": null}, "spec": {"token": TOKEN},
            "status": {"authenticated": true, "audiences": ["hub"], "user": {
                "username": "system:serviceaccount:agents:reviewer", "uid": "u", "groups": ["g"],
                "extra": {"authentication.kubernetes.io/pod-name": ["reviewer-7d9"],
                    "authentication.kubernetes.io/pod-uid": ["0b0c"]}}}})
    }

    fn read(answer: &Value) -> Result<Workload, Doubt> {
        let parsed = Json::parse(answer.to_string().as_bytes(), &Limits::ENTRY).unwrap();
        workload(&parsed, (TOKEN, "hub"))
    }

    #[test]
    fn a_plain_yes_names_account_and_pod() {
        let workload = read(&answer()).unwrap();
        assert_eq!(workload.account, "agents/reviewer");
        assert_eq!((workload.pod.as_str(), workload.uid.as_str()), ("reviewer-7d9", "0b0c"));
    }

    #[test]
    fn what_is_not_a_plain_yes_is_a_no_and_says_which() {
        type Kind = fn(&Doubt) -> bool;
        let unknown: Kind = |doubt| matches!(doubt, Doubt::UnknownToken(_));
        let unbound: Kind = |doubt| matches!(doubt, Doubt::Unbound(_));
        let unanswered: Kind = |doubt| matches!(doubt, Doubt::Unanswered(_));
        let pod = "/status/user/extra/authentication.kubernetes.io~1pod-name";
        let uid = "/status/user/extra/authentication.kubernetes.io~1pod-uid";
        for (pointer, value, expected) in [
            ("/apiVersion", json!("authentication.k8s.io/v1beta1"), unanswered),
            ("/kind", json!("Status"), unanswered),
            ("/status", Value::Null, unknown),
            ("/status/authenticated", json!(false), unknown),
            ("/status/authenticated", json!("true"), unknown),
            ("/status/audiences", json!([]), unknown),
            ("/status/audiences", json!(["hubs"]), unknown),
            ("/status/audiences", json!("hub"), unknown),
            ("/status/user/username", json!("admin"), unknown),
            ("/status/user/username", json!("system:serviceaccount:agents"), unknown),
            ("/status/user/username", json!("system:serviceaccount:agents:a:b"), unknown),
            ("/status/user/username", json!("system:serviceaccount:a/b:c"), unknown),
            ("/status/user/username", json!("system:serviceaccount::reviewer"), unknown),
            (pod, json!([]), unbound),
            (pod, json!(["a", "b"]), unbound),
            (pod, json!("reviewer-7d9"), unbound),
            (uid, json!([""]), unbound),
            (uid, json!(["a\nb"]), unbound),
            ("/status/user/extra", json!({}), unbound),
        ] {
            let mut changed = answer();
            *changed.pointer_mut(pointer).unwrap() = value.clone();
            let doubt = read(&changed).unwrap_err();
            assert!(expected(&doubt), "{pointer} {value}: {doubt:?}");
        }
        let mut unsure = answer();
        unsure["status"]["error"] = json!("webhook timed out");
        assert!(unanswered(&read(&unsure).unwrap_err()));
        let mut nothing = answer();
        nothing.as_object_mut().unwrap().remove("status");
        assert!(unanswered(&read(&nothing).unwrap_err()));
    }

    #[test]
    fn the_api_servers_error_is_reported_without_the_token() {
        let mut changed = answer();
        changed["status"] = json!({"error": format!("[{TOKEN}] expired\n{}", "x".repeat(300))});
        let Err(Doubt::UnknownToken(why)) = read(&changed) else { panic!("known") };
        assert!(why.contains("[(the token)] expired") && !why.contains(TOKEN), "{why}");
        assert!(why.len() < 300 && !why.contains('\n'), "{why}");
    }

    #[test]
    fn only_a_text_in_the_form_of_a_jwt_may_be_a_projected_token() {
        assert!(is_jwt("a.b-_9.c"));
        let long = format!("a.b.{}", "c".repeat(TOKEN_MAX));
        for other in ["", "a", "a.b", "a.b.", "a..c", "a.b.c.d", "a.b.c=", "a.b. c", &long] {
            assert!(!is_jwt(other), "{other}");
        }
    }
}
