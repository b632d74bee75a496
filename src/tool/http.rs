//! The `http` kind: one request to a literal host, filled from validated arguments.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use http::{HeaderName, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};

use super::ToolExecutor;
use super::net::{Client, Refused, Resolve};
use crate::catalog::binding::{self, Place};
use crate::catalog::host::Origin;
use crate::catalog::secret::Secret;
use crate::catalog::template::{self, Body, FillError, PathTemplate, Template, encode};
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::code::Code;
use crate::domain::decision::Reason;
use crate::domain::effect::Effect;
use crate::domain::json::{Json, Limits};
use crate::domain::outcome::{FailureClass, Outcome};
use crate::domain::prepared::{Hold, Prepared};
use crate::ledger::permit::Permit;

/// Bytes of path and query together.
const TARGET_BYTES_MAX: usize = 8 * 1024;

/// One bound HTTP request.
#[derive(Debug)]
pub struct Http {
    client: Client,
    method: http::Method,
    origin: Origin,
    path: PathTemplate,
    query: Vec<(String, Template)>,
    body: Body,
    headers: Vec<(HeaderName, HeaderValue)>,
    query_secrets: Vec<(String, Secret)>,
    read_only: bool,
    result_bytes_max: u64,
}

/// A request that is filled and waits for its permit. Secrets are not in it.
struct Ready {
    target: String,
    body: Bytes,
}

impl Http {
    /// Makes the client of one binding. Connects to nothing.
    ///
    /// # Errors
    /// Certificate authorities or secrets that cannot be used.
    pub fn new(
        http: binding::Http,
        read_only: bool,
        result_bytes_max: u64,
        resolve: Arc<dyn Resolve>,
    ) -> Result<Self, String> {
        let client =
            Client::new(&http.origin, &http.private_addresses, http.ca.as_deref(), resolve)?;
        let mut headers = http.headers;
        let mut query_secrets = Vec::new();
        for credential in http.credentials {
            match credential.place {
                Place::Header(name) => {
                    let text = format!("{}{}", credential.prefix, credential.secret.expose());
                    let mut value = HeaderValue::from_str(&text)
                        .map_err(|_| format!("the secret for `{name}` fits no header"))?;
                    value.set_sensitive(true);
                    headers.push((name, value));
                }
                Place::Query(name) => query_secrets.push((name, credential.secret)),
            }
        }
        Ok(Self {
            client,
            method: http.method,
            origin: http.origin,
            path: http.path,
            query: http.query,
            body: http.body,
            headers,
            query_secrets,
            read_only,
            result_bytes_max,
        })
    }

    fn fill(&self, args: &Json, canonical: &[u8]) -> Result<(Effect, Ready), FillError> {
        let path = self.path.fill(args)?;
        let mut query = Vec::new();
        for (name, template) in &self.query {
            query.extend(template::query_pairs(name, template, args)?);
        }
        let body = match &self.body {
            Body::None => Bytes::new(),
            Body::Args => Bytes::copy_from_slice(canonical),
            Body::Json(template) => {
                canonical::bytes(&template.fill(args)?.unwrap_or(Json::Null)).into()
            }
        };
        let mut target = path.clone();
        for (name, value) in &query {
            push_pair(&mut target, name, value);
        }
        let effect = Effect::Http {
            method: self.method.as_str().to_owned(),
            scheme: self.origin.scheme().to_owned(),
            host: self.origin.host.to_string(),
            port: self.origin.port,
            path,
            query,
            body_bytes: u64::try_from(body.len()).unwrap_or(u64::MAX),
        };
        Ok((effect, Ready { target, body }))
    }

    fn request(
        &self,
        ready: &Ready,
        call: &ToolCall,
    ) -> Result<http::Request<Full<Bytes>>, String> {
        let mut target = ready.target.clone();
        for (name, secret) in &self.query_secrets {
            push_pair(&mut target, name, secret.expose());
        }
        let uri = format!("{}://{}{target}", self.origin.scheme(), self.origin.authority());
        let id = format!("{}.{}", call.run(), call.id());
        let mut request = http::Request::builder()
            .method(&self.method)
            .uri(uri)
            .header(header::ACCEPT_ENCODING, "identity")
            .header("idempotency-key", &id)
            .header("x-wicketgate-call", &id);
        if let Some(traceparent) = call.traceparent() {
            request = request.header("traceparent", traceparent);
        }
        if self.body != Body::None {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(Full::new(ready.body.clone())).map_err(|error| error.to_string())
    }

    /// Sends the request its `prepare` filled. Only `execute` calls this, with a permitted call.
    async fn send(&self, prepared: &Prepared) -> Outcome {
        let Some(ready) = prepared.hold::<Ready>() else {
            return failed(FailureClass::Changed, false, "the call was prepared by another tool");
        };
        let request = match self.request(ready, prepared.call()) {
            Ok(request) => request,
            Err(_) => {
                return failed(FailureClass::Protocol, false, "the request cannot be written");
            }
        };
        match self.client.send(request).await {
            Ok(response) => self.answer(response).await,
            Err(error) if error.is_connect() => not_connected(&error),
            Err(error) => self.broken(&error),
        }
    }

    async fn answer(&self, response: http::Response<Incoming>) -> Outcome {
        let status = response.status();
        if status.is_redirection() || status.is_informational() {
            let message = format!("the tool answered `{}`, which is not followed", status.as_u16());
            return failed(FailureClass::Protocol, true, &message);
        }
        if !status.is_success() {
            let message = format!("the tool answered `{}`", status.as_u16());
            return failed(FailureClass::ToolError, true, &message);
        }
        let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
        if !response.headers().get_all(header::CONTENT_ENCODING).iter().all(plain) {
            return failed(FailureClass::Protocol, true, "the tool's answer is encoded");
        }
        let content_type = response
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        match self.body(response.into_body()).await {
            Ok(body) => Outcome::Completed {
                result: canonical::bytes(&result(status, &content_type, &body)),
                status: status.as_u16().to_string(),
            },
            Err(outcome) => outcome,
        }
    }

    /// The whole body, or the reason why there is none: never a part of it. Trailers are dropped.
    async fn body(&self, mut body: Incoming) -> Result<Vec<u8>, Outcome> {
        let most = usize::try_from(self.result_bytes_max).unwrap_or(usize::MAX);
        let too_large = || {
            let message = format!("the tool's answer has more than {most} bytes");
            failed(FailureClass::TooLarge, true, &message)
        };
        if hyper::body::Body::size_hint(&body).lower() > self.result_bytes_max {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.broken(&error))?;
            if let Ok(data) = frame.into_data() {
                if bytes.len().saturating_add(data.len()) > most {
                    return Err(too_large());
                }
                bytes.extend_from_slice(&data);
            }
        }
        Ok(bytes)
    }

    /// The connection failed after something may have been sent.
    fn broken(&self, error: &(dyn std::error::Error + 'static)) -> Outcome {
        let hyper = sources(error).find_map(|e| e.downcast_ref::<hyper::Error>());
        if hyper.is_some_and(hyper::Error::is_parse_too_large) {
            return failed(
                FailureClass::TooLarge,
                true,
                "the head of the tool's answer is too large",
            );
        }
        if hyper.is_some_and(hyper::Error::is_parse) {
            return failed(FailureClass::Protocol, true, "the tool's answer is not http");
        }
        if self.read_only {
            return failed(FailureClass::ToolError, true, "the connection to the tool was lost");
        }
        Outcome::Unknown { cause: "connection_lost".into() }
    }
}

#[async_trait]
impl ToolExecutor for Http {
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, Hold), Vec<Reason>> {
        let refuse = |detail: &str, message: String| {
            vec![Reason {
                code: Code::EffectRefused,
                detail: detail.into(),
                message,
                rule: "tool.http".into(),
            }]
        };
        let (effect, ready) = self.fill(call.args(), call.canonical()).map_err(|error| {
            let detail = match error {
                FillError::Segment(_) => "http.path_traversal",
                FillError::Missing(_) | FillError::NotText(_) => "http.argument",
            };
            refuse(detail, error.to_string())
        })?;
        if ready.target.len() > TARGET_BYTES_MAX {
            let message = format!("path and query have more than {TARGET_BYTES_MAX} bytes");
            return Err(refuse("http.too_large", message));
        }
        self.request(&ready, call)
            .map_err(|_| refuse("http.request", "the arguments make no valid request".into()))?;
        Ok((effect, Box::new(ready)))
    }

    async fn execute(&self, permit: &Permit) -> Outcome {
        self.send(permit.prepared()).await
    }
}

fn push_pair(target: &mut String, name: &str, value: &str) {
    target.push(if target.contains('?') { '&' } else { '?' });
    encode(name, target);
    target.push('=');
    encode(value, target);
}

fn failed(class: FailureClass, started: bool, message: &str) -> Outcome {
    Outcome::Failed { class, started, message: message.to_owned() }
}

fn sources<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

fn not_connected(error: &(dyn std::error::Error + 'static)) -> Outcome {
    let message = sources(error)
        .find_map(|e| e.downcast_ref::<Refused>())
        .map_or_else(|| "no connection to the tool".to_owned(), ToString::to_string);
    failed(FailureClass::Connect, false, &message)
}

/// What the agent is given: JSON as JSON if every reader reads it the same way, else text, else
/// base64.
fn result(status: StatusCode, content_type: &str, body: &[u8]) -> Json {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let json = essence == "application/json" || essence.ends_with("+json");
    let parsed =
        if json { Json::parse(body, &Limits { depth_max: 60, ..Limits::FILE }).ok() } else { None };
    let (name, body) = match (parsed, std::str::from_utf8(body)) {
        (Some(value), _) => ("body", value),
        (None, Ok(text)) => ("body", Json::from(text)),
        (None, Err(_)) => {
            ("body_base64", Json::from(base64::engine::general_purpose::STANDARD.encode(body)))
        }
    };
    Json::object([
        ("status", Json::from(u64::from(status.as_u16()))),
        ("content_type", Json::from(content_type)),
        (name, body),
    ])
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
