//! The requests that commands about the injector make of the API server of a cluster.

use std::path::{Path, PathBuf};

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use serde_json::Value;

use crate::operator::credential::{Unshown, showing};
use crate::operator::visible;
use crate::witness::{Remote, RemoteError};

/// Bytes of an answer: etcd holds at most 1.5 MiB of an object.
const ANSWER_MAX: usize = 4 << 20;
/// Characters of the API server's own message that are shown.
const MESSAGE_MAX: usize = 300;

/// Why the API server did not do it.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiServerError {
    /// The authorities of its certificate cannot be read.
    #[error("`{0}`: {1}")]
    Authorities(PathBuf, std::io::Error),
    /// Our own token cannot be sent.
    #[error(transparent)]
    Token(#[from] Unshown),
    /// It does not answer.
    #[error("the API server: {0}")]
    Remote(#[from] RemoteError),
    /// It refuses.
    #[error("{method} {path}: the API server answers {status}: {message}")]
    Status { method: Method, path: String, status: u16, message: String },
    /// Its answer is not JSON.
    #[error("{0}: the answer is not JSON: {1}")]
    Json(String, serde_json::Error),
}

/// An API server, and how to reach it.
pub(super) struct ApiServer {
    remote: Remote,
    token_file: PathBuf,
}

impl ApiServer {
    /// The one at this URL. It is reached over https alone, and its certificate is from these authorities alone.
    pub(super) fn new(
        url: &str,
        ca_file: &Path,
        token_file: &Path,
    ) -> Result<Self, ApiServerError> {
        let ca = std::fs::read(ca_file);
        let ca = ca.map_err(|error| ApiServerError::Authorities(ca_file.to_owned(), error))?;
        let remote = Remote::new(url, Some(&ca))?;
        Ok(Self { remote, token_file: token_file.to_owned() })
    }

    /// An object.
    pub(super) async fn get(&self, path: &str) -> Result<Value, ApiServerError> {
        self.ask(Method::GET, path, None).await
    }

    /// Replaces an object, unless it has changed since it was read: its `resourceVersion` says when.
    pub(super) async fn put(&self, path: &str, object: &Value) -> Result<Value, ApiServerError> {
        self.ask(Method::PUT, path, Some(("application/json", object))).await
    }

    /// Changes an object (RFC 6902).
    pub(super) async fn patch(
        &self,
        path: &str,
        operations: &Value,
    ) -> Result<Value, ApiServerError> {
        self.ask(Method::PATCH, path, Some(("application/json-patch+json", operations))).await
    }

    /// Sends an object.
    pub(super) async fn post(&self, path: &str, object: &Value) -> Result<Value, ApiServerError> {
        self.ask(Method::POST, path, Some(("application/json", object))).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, &Value)>,
    ) -> Result<Value, ApiServerError> {
        let mut request = http::Request::builder()
            .method(&method)
            .header(AUTHORIZATION, showing(&self.token_file)?)
            .header(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some((kind, _)) = body {
            request = request.header(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        let body = body.map(|(_, value)| value.to_string().into_bytes()).unwrap_or_default();
        let answer = self.remote.send(request, path, body, ANSWER_MAX).await?;
        let read = serde_json::from_slice::<Value>(&answer.body);
        if !matches!(answer.status, StatusCode::OK | StatusCode::CREATED) {
            let message = read.ok().and_then(|it| Some(it.get("message")?.as_str()?.to_owned()));
            let message: String = message.unwrap_or_default().chars().take(MESSAGE_MAX).collect();
            let (status, path) = (answer.status.as_u16(), path.to_owned());
            return Err(ApiServerError::Status {
                method,
                path,
                status,
                message: visible(&message),
            });
        }
        read.map_err(|error| ApiServerError::Json(path.to_owned(), error))
    }
}
