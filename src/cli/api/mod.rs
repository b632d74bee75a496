//! The client of the operator API: one request, with the operator's token or certificate.

use std::path::PathBuf;
use std::time::Duration;

use hyper::body::Incoming;
use serde_json::Value;

use super::control::print_order;
use super::{Exit, Failure, fail, fail_as, say};
use crate::approval::order::Previous;
use crate::domain::digest::Digest;
use crate::operator::credential::showing;
use crate::operator::visible;
use crate::tool::net::Identity;
use crate::witness::Remote;

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
    #[must_use]
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
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Value,
}

impl Api {
    /// Asks once. Whatever is not a success is print_order to the user.
    ///
    /// # Errors
    /// How the command ends then.
    pub async fn ask(
        &self,
        method: http::Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Exit> {
        let answered =
            self.try_ask(method, path, body).await.map_err(|why| fail(Exit::Unverifiable, why))?;
        if (200..300).contains(&answered.status) {
            return Ok(answered);
        }
        Err(answered.refuse())
    }

    /// Sends an order, and prints what each gate did.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn order(&self, path: &str, body: &Value) -> Result<Exit, Exit> {
        let body = self.ask(http::Method::POST, path, Some(body)).await?.body;
        if self.json {
            say(body.to_string());
        } else {
            print_order(&body);
        }
        let complete = body.get("complete").and_then(Value::as_bool) == Some(true);
        Ok(if complete { Exit::Ok } else { Exit::Invalid })
    }

    /// The server, and the certificate for it.
    fn remote(&self) -> Result<Remote, String> {
        let read =
            |path: &PathBuf| std::fs::read(path).map_err(|e| format!("`{}`: {e}", path.display()));
        let ca = self.ca.as_ref().map(read).transpose()?;
        let identity = match (&self.cert, &self.cert_key) {
            (Some(cert), Some(key)) => {
                Some(Identity::load(cert, key).map_err(|wrong| wrong.to_string())?)
            }
            (Some(_) | None, _) => None,
        };
        Remote::presenting(&self.url, ca.as_deref(), identity.as_ref())
            .map_err(|why| format!("`{}`: {why}", self.url))
    }

    /// The tenant and its newest order, which the next order has to name as its predecessor.
    ///
    /// # Errors
    /// There is no answer, it is a refusal, or it names no order.
    pub async fn newest(&self, route: &str) -> Result<(String, Previous), Failure> {
        let head = self.try_ask(http::Method::GET, route, None).await;
        let head = head.map_err(Failure::unverifiable)?;
        if !(200..300).contains(&head.status) {
            return Err(Failure::invalid(head.why()));
        }
        let seq = head.body.get("seq").and_then(Value::as_u64);
        let Some((seq, digest)) = seq.zip(Digest::parse(&text(&head.body, "digest"))) else {
            let why = "the answer does not name the newest order";
            return Err(Failure::unverifiable(why));
        };
        Ok((text(&head.body, "tenant"), Previous { seq, digest }))
    }

    async fn try_ask(
        &self,
        method: http::Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, String> {
        let (remote, request, bytes) = self.request(method, body)?;
        let answer = remote.send(request, path, bytes, ANSWER_MAX).await;
        let answer = answer.map_err(|why| format!("`{}`: {why}", self.url))?;
        let body = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
        Ok(Answer { status: answer.status.as_u16(), body })
    }

    /// Sends a request that takes long; the body of the answer is not read yet.
    ///
    /// # Errors
    /// There was no answer.
    pub async fn open(
        &self,
        method: http::Method,
        path: &str,
        body: Option<&Value>,
        begins_within: Duration,
    ) -> Result<http::Response<Incoming>, String> {
        let (remote, request, bytes) = self.request(method, body)?;
        let answer = remote.open(request, path, bytes, begins_within).await;
        answer.map_err(|why| format!("`{}`: {why}", self.url))
    }

    /// Makes every request: the server, and the credential for it.
    fn request(
        &self,
        method: http::Method,
        body: Option<&Value>,
    ) -> Result<(Remote, http::request::Builder, Vec<u8>), String> {
        let remote = self.remote()?;
        let mut request = http::Request::builder().method(method);
        if let Some(file) = &self.token_file {
            request = request
                .header(http::header::AUTHORIZATION, showing(file).map_err(|e| e.to_string())?);
        }
        if body.is_some() {
            request = request.header(http::header::CONTENT_TYPE, "application/json");
        }
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        Ok((remote, request, bytes))
    }
}

impl Answer {
    /// Prints a refusal, and returns how the command ends.
    #[must_use]
    pub fn refuse(&self) -> Exit {
        fail_as(&self.code(), self.why())
    }

    fn why(&self) -> String {
        format!("{} ({}, {})", text(&self.body, "detail"), self.code(), self.status)
    }

    /// The code, and the cause below it if there is one.
    fn code(&self) -> String {
        let cause = text(&self.body, "cause");
        let cause = if cause.is_empty() { cause } else { format!("/{cause}") };
        format!("{}{cause}", text(&self.body, "code"))
    }
}

/// A text of an answer, safe to print on a terminal.
#[must_use]
pub fn text(value: &Value, name: &str) -> String {
    match value.get(name) {
        Some(Value::String(text)) => visible(text),
        None | Some(Value::Null) => String::new(),
        Some(other) => visible(&other.to_string()),
    }
}

/// The items of a list in an answer.
#[must_use]
pub fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
