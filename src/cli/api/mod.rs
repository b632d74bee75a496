//! The client of the operator API: one request, with the operator's token or certificate.

use std::path::PathBuf;
use std::time::Duration;

use http::StatusCode;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::Value;

use super::control::print_order;
use super::{Cause, Exit, Failure, FileError, fail, fail_as, say};
use crate::approval::order::Previous;
use crate::domain::digest::Digest;
use crate::operator::api::replies::{Head, OrderReply};
use crate::operator::api::{Reply, Route};
use crate::operator::credential::{Unshown, showing};
use crate::operator::visible;
use crate::tool::net::Identity;
use crate::witness::{Remote, RemoteError};

pub mod remote;

/// Bytes of an answer.
const ANSWER_MAX: usize = 4 * 1024 * 1024;

/// Where the operator API is, and the credential to use there.
#[derive(Debug, clap::Args)]
pub struct Api {
    /// URL of the operator API, at a gate or a hub
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:7301",
        env = "WICKETGATE_OPERATOR_URL",
        hide_env_values = true
    )]
    url: String,
    /// Operator token: a file of mode 0600 [env: WICKETGATE_TOKEN_FILE]
    #[arg(long, value_name = "FILE", required_unless_present = "cert", conflicts_with = "cert")]
    token_file: Option<PathBuf>,
    /// Operator certificate (PEM), instead of a token, over https
    #[arg(long, value_name = "FILE", requires = "cert_key")]
    cert: Option<PathBuf>,
    /// Private key of the certificate (PEM): a file of mode 0600
    #[arg(long, value_name = "FILE", requires = "cert")]
    cert_key: Option<PathBuf>,
    /// Trust these certificate authorities (PEM) for https, instead of the public ones
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print one JSON object: the answer of the operator API
    #[arg(long)]
    pub json: bool,
}

impl Api {
    /// The client for these options: with a token, or with a certificate and its key.
    pub fn of(
        url: String,
        token_file: Option<PathBuf>,
        cert: Option<(PathBuf, PathBuf)>,
        ca: Option<PathBuf>,
    ) -> Self {
        let (cert, cert_key) = cert.unzip();
        Self { url, token_file, cert, cert_key, ca, json: false }
    }
}

/// The answer to a request.
pub struct Answer<T> {
    /// The body, unparsed.
    pub body: Value,
    /// The parsed reply.
    pub reply: T,
}

/// A problem that the operator API answered with.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiRefusal {
    #[serde(skip)]
    status: u16,
    code: String,
    cause: String,
    detail: String,
}

impl ApiRefusal {
    /// The error of an answer with this status; a body that is not a problem document adds nothing.
    fn of(status: StatusCode, body: &[u8]) -> Self {
        let refusal: Self = serde_json::from_slice(body).unwrap_or_default();
        Self { status: status.as_u16(), ..refusal }
    }

    /// The code, and the cause below it if there is one.
    fn code(&self) -> String {
        match self.cause.as_str() {
            "" => visible(&self.code),
            cause => format!("{}/{}", visible(&self.code), visible(cause)),
        }
    }
}

impl std::fmt::Display for ApiRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}, {})", visible(&self.detail), self.code(), self.status)
    }
}

/// Why the operator API gave no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificate authorities cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The token cannot be sent.
    #[error(transparent)]
    Token(#[from] Unshown),
    /// The operator's certificate or its key cannot be used.
    #[error("{0}")]
    Certificate(Cause),
    /// The server cannot be reached, or does not answer.
    #[error("`{url}`: {cause}")]
    Silent {
        /// The URL of the operator API.
        url: String,
        /// What is wrong.
        cause: RemoteError,
    },
    /// The answer has another form.
    #[error("`{url}`: the answer does not come from an operator API: {cause}")]
    Foreign {
        /// The URL of the operator API.
        url: String,
        /// Where it differs.
        cause: serde_json::Error,
    },
    /// It answered with a problem.
    #[error("{0}")]
    Refused(ApiRefusal),
}

impl Error {
    /// Prints it, and returns how the command ends.
    pub fn print(self) -> Exit {
        if let Self::Refused(refusal) = self {
            return fail_as(&refusal.code(), refusal);
        }
        fail(Exit::Unverifiable, self)
    }
}

/// A request before it is sent.
struct Prepared {
    remote: Remote,
    request: http::request::Builder,
    path: String,
    body: Vec<u8>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if matches!(error, Error::Refused(_)) {
            Self::invalid(error)
        } else {
            Self::unverifiable(error)
        }
    }
}

impl Api {
    /// Asks a route once, and prints the reason if there is no answer.
    ///
    /// # Errors
    /// The exit code of the command then.
    pub async fn ask<R: Route<Reply: Reply>>(
        &self,
        path: &R::Path,
        request: &R::Request,
    ) -> Result<Answer<R::Reply>, Exit> {
        self.try_ask::<R>(path, request).await.map_err(Error::print)
    }

    /// Sends an order, and prints each gate's answer.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn order<R: Route<Reply = OrderReply>>(
        &self,
        path: &R::Path,
        request: &R::Request,
    ) -> Result<Exit, Exit> {
        let Answer { body, reply } = self.ask::<R>(path, request).await?;
        if self.json {
            say(body.to_string());
        } else {
            print_order(&reply);
        }
        Ok(if reply.outcome.complete { Exit::Ok } else { Exit::Invalid })
    }

    /// The tenant and its newest order, which the next order has to name as its predecessor.
    ///
    /// # Errors
    /// There is no answer, it is a refusal, or it names no order.
    pub async fn newest<R>(&self) -> Result<(String, Previous), Failure>
    where
        R: Route<Path = (), Request = (), Reply = Head>,
    {
        let Head { tenant, seq, digest } = self.try_ask::<R>(&(), &()).await?.reply;
        let digest = Digest::parse(&digest);
        let digest = digest
            .ok_or_else(|| Failure::unverifiable("the answer does not name the newest order"))?;
        Ok((tenant, Previous { seq, digest }))
    }

    async fn try_ask<R: Route<Reply: Reply>>(
        &self,
        path: &R::Path,
        request: &R::Request,
    ) -> Result<Answer<R::Reply>, Error> {
        let Prepared { remote, request, path, body: bytes } = self.request::<R>(path, request)?;
        let answer = remote.send(request, &path, bytes, ANSWER_MAX).await;
        let answer = answer.map_err(|cause| self.silent(cause))?;
        self.read(answer.status, &answer.body)
    }

    /// Sends a request that takes long; the body of the answer is not read yet.
    ///
    /// # Errors
    /// There was no answer.
    pub async fn open<R: Route>(
        &self,
        path: &R::Path,
        request: &R::Request,
        begins_within: Duration,
    ) -> Result<http::Response<Incoming>, Error> {
        let Prepared { remote, request, path, body: bytes } = self.request::<R>(path, request)?;
        let answer = remote.open(request, &path, bytes, begins_within).await;
        answer.map_err(|cause| self.silent(cause))
    }

    /// Parses an answer.
    fn read<T: Reply>(&self, status: StatusCode, bytes: &[u8]) -> Result<Answer<T>, Error> {
        if !status.is_success() {
            return Err(Error::Refused(ApiRefusal::of(status, bytes)));
        }
        let foreign = |cause| Error::Foreign { url: self.url.clone(), cause };
        let body: Value = serde_json::from_slice(bytes).map_err(foreign)?;
        let reply = T::deserialize(&body).map_err(foreign)?;
        Ok(Answer { body, reply })
    }

    fn silent(&self, cause: RemoteError) -> Error {
        Error::Silent { url: self.url.clone(), cause }
    }

    /// The server, and the certificate for it.
    fn remote(&self) -> Result<Remote, Error> {
        let read = |path: &PathBuf| std::fs::read(path).map_err(FileError::at(path));
        let ca = self.ca.as_ref().map(read).transpose()?;
        let identity = match (&self.cert, &self.cert_key) {
            (Some(cert), Some(key)) => Some(
                Identity::load(cert, key).map_err(|problem| Error::Certificate(problem.into()))?,
            ),
            (Some(_) | None, _) => None,
        };
        let remote = Remote::presenting(&self.url, ca.as_deref(), identity.as_ref());
        remote.map_err(|cause| self.silent(cause))
    }

    /// Makes every request: the server, the credential for it, path and body.
    fn request<R: Route>(&self, path: &R::Path, request: &R::Request) -> Result<Prepared, Error> {
        let remote = self.remote()?;
        let mut prepared = http::Request::builder().method(R::ROW.method);
        if let Some(file) = &self.token_file {
            prepared = prepared.header(http::header::AUTHORIZATION, showing(file)?);
        }
        let (path, body) = R::target(path, request);
        if body.is_some() {
            prepared = prepared.header(http::header::CONTENT_TYPE, "application/json");
        }
        let body = body.unwrap_or_default().into_bytes();
        Ok(Prepared { remote, request: prepared, path, body })
    }
}
