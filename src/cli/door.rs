//! The operator's door, from outside: one request, with the operator's token or certificate.

use std::path::PathBuf;
use std::time::Duration;

use hyper::body::Incoming;
use serde_json::Value;

use super::control::told;
use super::{Exit, complain, say};
use crate::approval::order::Previous;
use crate::domain::digest::Digest;
use crate::operator::credential::showing;
use crate::operator::visible;
use crate::tool::net::Identity;
use crate::witness::Remote;

/// Bytes of an answer.
const ANSWER_MAX: usize = 4 * 1024 * 1024;

/// Which office is asked, and as whom.
#[derive(Debug, clap::Args)]
pub struct Desk {
    /// Where operators are answered: the sidecar's own door, or the hub
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7301")]
    url: String,
    /// Your token: a file of mode 0600
    #[arg(long, value_name = "FILE", required_unless_present = "cert", conflicts_with = "cert")]
    token_file: Option<PathBuf>,
    /// Your certificate (PEM) instead of a token, over https
    #[arg(long, value_name = "FILE", requires = "cert_key")]
    cert: Option<PathBuf>,
    /// The private key of your certificate (PEM): a file of mode 0600
    #[arg(long, value_name = "FILE", requires = "cert")]
    cert_key: Option<PathBuf>,
    /// Authorities for https (PEM) instead of the public ones
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print the answer as one JSON object
    #[arg(long)]
    pub json: bool,
}

impl Desk {
    /// A desk that other options name: asked with a token, or with a certificate and its key.
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

/// What was answered.
pub struct Answered {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Value,
}

impl Desk {
    /// Asks once. Whatever is not a success is told to the user.
    ///
    /// # Errors
    /// How the command ends then.
    pub async fn ask(
        &self,
        method: http::Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answered, Exit> {
        let answered = self.try_ask(method, path, body).await.map_err(|why| {
            complain(format!("error: {why}"));
            Exit::Unverifiable
        })?;
        if (200..300).contains(&answered.status) {
            return Ok(answered);
        }
        complain(answered.refusal());
        Err(Exit::Invalid)
    }

    /// Gives an order, and tells what became of it.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn order(&self, path: &str, body: &Value) -> Result<Exit, Exit> {
        let body = self.ask(http::Method::POST, path, Some(body)).await?.body;
        if self.json {
            say(body.to_string());
        } else {
            told(&body);
        }
        let complete = body.get("complete").and_then(Value::as_bool) == Some(true);
        Ok(if complete { Exit::Ok } else { Exit::Invalid })
    }

    /// The office, and what is shown to it before anything is asked.
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

    /// What an order speaks after, as this route of the office tells it: the tenant, and the newest entry of the list.
    ///
    /// # Errors
    /// Nobody answers, it is refused, or the answer names none.
    pub async fn speaks_after(&self, route: &str) -> Result<(String, Previous), (Exit, String)> {
        let head = self.try_ask(http::Method::GET, route, None).await;
        let head = head.map_err(|why| (Exit::Unverifiable, why))?;
        if !(200..300).contains(&head.status) {
            return Err((Exit::Invalid, head.why()));
        }
        let seq = head.body.get("seq").and_then(Value::as_u64);
        let Some((seq, digest)) = seq.zip(Digest::parse(&text(&head.body, "digest"))) else {
            let why = "the answer names no order to speak after".to_owned();
            return Err((Exit::Unverifiable, why));
        };
        Ok((text(&head.body, "tenant"), Previous { seq, digest }))
    }

    async fn try_ask(
        &self,
        method: http::Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answered, String> {
        let (remote, request, bytes) = self.request(method, body)?;
        let answer = remote.send(request, path, bytes, ANSWER_MAX).await;
        let answer = answer.map_err(|why| format!("`{}`: {why}", self.url))?;
        let body = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
        Ok(Answered { status: answer.status.as_u16(), body })
    }

    /// Asks once for something that takes long; the answer's body is not read yet.
    ///
    /// # Errors
    /// Nobody answered.
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

    /// The one place that makes a request of ours: to whom, and with which credential.
    fn request(
        &self,
        method: http::Method,
        body: Option<&Value>,
    ) -> Result<(Remote, http::request::Builder, Vec<u8>), String> {
        let remote = self.remote()?;
        let mut request = http::Request::builder().method(method);
        if let Some(file) = &self.token_file {
            request = request.header(http::header::AUTHORIZATION, showing(file)?);
        }
        if body.is_some() {
            request = request.header(http::header::CONTENT_TYPE, "application/json");
        }
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        Ok((remote, request, bytes))
    }
}

impl Answered {
    /// What a refusal says, for a person.
    #[must_use]
    pub fn refusal(&self) -> String {
        format!("error: {}", self.why())
    }

    /// The same, for a sentence that goes on.
    fn why(&self) -> String {
        let text = |name: &str| self.body.get(name).and_then(Value::as_str).unwrap_or_default();
        let (code, cause) = (visible(text("code")), visible(text("cause")));
        let cause = if cause.is_empty() { String::new() } else { format!("/{cause}") };
        format!("{} ({code}{cause}, {})", visible(text("detail")), self.status)
    }
}

/// A text out of an answer, safe to show.
#[must_use]
pub fn text(value: &Value, name: &str) -> String {
    match value.get(name) {
        Some(Value::String(text)) => visible(text),
        None | Some(Value::Null) => String::new(),
        Some(other) => visible(&other.to_string()),
    }
}

/// The items of a list out of an answer.
#[must_use]
pub fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
