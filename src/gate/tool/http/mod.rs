//! The `http` kind: one request to a fixed host, filled from validated arguments.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderName, HeaderValue, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};

use super::ToolExecutor;
use super::content;
use super::net::{self, BodyError, Client, Resolve, SendError, is_encoded, whole};
use super::probe::{self, Point};
use super::request::{
    RequestError, failed, headers_of, not_connected, of_call, push_pair, sources,
};
use crate::catalog::binding::{self, Credential, CredentialTarget};
use crate::catalog::host::Origin;
use crate::catalog::secret::Secret;
use crate::catalog::template::{self, Body, FillError, PathTemplate, Template};
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::decision::LayerReason;
use crate::domain::effect::Effect;
use crate::domain::json::Json;
use crate::domain::outcome::{FailureClass, Unmasked};
use crate::judge::prepared::{Prepared, PreparedResource};
use crate::ledger::fuse::Fuse;
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
    credentials: Vec<Credential>,
    read_only: bool,
    result_bytes_max: u64,
}

/// A filled request that waits for its permit. It holds no secrets.
struct PreparedHttp {
    target: String,
    body: Bytes,
    /// The body that a template made of arguments.
    composed: Option<Json>,
}

impl Http {
    /// Builds the client of one binding without connecting.
    ///
    /// # Errors
    /// Certificate authorities or secrets cannot be used.
    pub fn new(
        http: binding::Http,
        read_only: bool,
        result_bytes_max: u64,
        resolve: Arc<dyn Resolve>,
    ) -> Result<Self, net::Error> {
        let client =
            Client::new(&http.origin, &http.private_addresses, http.ca.as_deref(), resolve)?;
        Ok(Self {
            client,
            method: http.method,
            origin: http.origin,
            path: http.path,
            query: http.query,
            body: http.body,
            headers: http.headers,
            credentials: http.credentials,
            read_only,
            result_bytes_max,
        })
    }

    fn fill(&self, args: &Json, canonical: &[u8]) -> Result<(Effect, PreparedHttp), FillError> {
        let path = self.path.fill(args)?;
        let mut query = Vec::new();
        for (name, template) in &self.query {
            query.extend(template::query_pairs(name, template, args)?);
        }
        let composed = match &self.body {
            Body::None | Body::Args => None,
            Body::Json(template) => Some(template.fill(args)?.unwrap_or(Json::Null)),
        };
        let body = match (&self.body, &composed) {
            (_, Some(composed)) => canonical::bytes(composed).into(),
            (Body::Args, None) => Bytes::copy_from_slice(canonical),
            (Body::None | Body::Json(_), None) => Bytes::new(),
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
        Ok((effect, PreparedHttp { target, body, composed }))
    }

    fn request(
        &self,
        ready: &PreparedHttp,
        call: &ToolCall,
    ) -> Result<http::Request<Full<Bytes>>, RequestError> {
        let mut target = ready.target.clone();
        for (name, secret) in self.credentials.iter().filter_map(in_query) {
            push_pair(&mut target, name, &secret.latest());
        }
        let uri = format!("{}://{}{target}", self.origin.scheme(), self.origin.authority());
        let request = http::Request::builder().method(&self.method).uri(uri);
        let mut request = of_call(request, call);
        if self.body != Body::None {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        for (name, value) in headers_of(&self.credentials)? {
            request = request.header(name, value);
        }
        Ok(request.body(Full::new(ready.body.clone()))?)
    }

    /// Sends the request that `prepare` filled. Only `execute` calls this, with a permitted call.
    async fn send(&self, prepared: &Prepared, fuse: &Fuse) -> Unmasked {
        let Some(ready) = prepared.hold::<PreparedHttp>() else {
            return failed(FailureClass::Changed, false, "the call was prepared by another tool");
        };
        let Ok(request) = self.request(ready, prepared.call()) else {
            return failed(FailureClass::Protocol, false, "the request cannot be written");
        };
        match self.client.send(request, fuse).await {
            Ok(response) => self.answer(response).await,
            Err(SendError::Late(late)) => late.outcome(),
            Err(error) if error.is_connect() => not_connected(&error),
            Err(SendError::Framing(why)) if self.read_only => {
                failed(FailureClass::Protocol, true, why)
            }
            Err(error) => self.broken(&error),
        }
    }

    async fn answer(&self, response: http::Response<Incoming>) -> Unmasked {
        let status = response.status();
        if status.is_redirection() || status.is_informational() {
            let message = format!("the tool answered `{}`, which is not followed", status.as_u16());
            return failed(FailureClass::Protocol, true, &message);
        }
        if !self.read_only && of_gateway(status) {
            return Unmasked::Unknown { cause: "gateway".into() };
        }
        if !status.is_success() {
            let message = format!("the tool answered `{}`", status.as_u16());
            return failed(FailureClass::ToolError, true, &message);
        }
        if is_encoded(response.headers()) {
            return failed(FailureClass::Protocol, true, "the tool's answer is encoded");
        }
        let content_type = response
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        match self.body(response.into_body()).await {
            Ok(body) => {
                let kind = ("content_type", Json::from(content_type.as_str()));
                content::body(&content_type, &body).among(status, [kind])
            }
            Err(outcome) => outcome,
        }
    }

    /// The whole body, or the reason it was not read.
    async fn body(&self, body: Incoming) -> Result<Vec<u8>, Unmasked> {
        let most = self.result_bytes_max;
        whole(body, most, None).await.map_err(|unread| match unread {
            BodyError::TooLarge | BodyError::Slow => {
                let message = format!("the tool's answer has more than {most} bytes");
                failed(FailureClass::TooLarge, true, &message)
            }
            BodyError::Broken(error) => self.broken(&error),
        })
    }

    /// The connection failed after something may have been sent.
    fn broken(&self, error: &(dyn std::error::Error + 'static)) -> Unmasked {
        if !self.read_only {
            // A malformed response says as little about the effect as no response.
            return Unmasked::Unknown { cause: "connection_lost".into() };
        }
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
        failed(FailureClass::ToolError, true, "the connection to the tool was lost")
    }
}

#[async_trait]
impl ToolExecutor for Http {
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        let refuse = |detail: &str, message: String| {
            vec![LayerReason::effect_refused("tool.http", detail, message)]
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

    fn composed<'h>(&self, hold: &'h (dyn Any + Send + Sync)) -> Option<&'h Json> {
        hold.downcast_ref::<PreparedHttp>()?.composed.as_ref()
    }

    async fn execute(&self, permit: &Permit) -> Unmasked {
        self.send(permit.prepared(), permit.fuse()).await
    }
}

/// The operator's probe: whether the origin is reachable. Sends no request.
pub(super) async fn probe(http: &binding::Http, resolve: &Arc<dyn Resolve>) -> Vec<Point> {
    let (origin, open) = (&http.origin, &http.private_addresses);
    let client = Client::new(origin, open, http.ca.as_deref(), Arc::clone(resolve));
    vec![probe::connect(origin, client, None).await]
}

fn in_query(credential: &Credential) -> Option<(&str, &Secret)> {
    match &credential.place {
        CredentialTarget::Query(name) => Some((name, &credential.secret)),
        CredentialTarget::Header(_) => None,
    }
}

/// Whether an intermediary reports that the tool did not respond: 502, 504 (RFC 9110, 15.6.3 and
/// 15.6.5).
fn of_gateway(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT)
}

#[cfg(test)]
mod tests;
