//! The `grpc` kind: one unary method of a fixed service, called with a message built from validated
//! arguments.
//!
//! `prepare` builds the message, so the judged bytes are the bytes that are sent. Framing and
//! status are read here instead of by a library: the one in the dependency tree aborts the process
//! on a malformed status.

mod decode;
mod encode;
pub mod reflect;
mod status;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use parking_lot::Mutex;
use prost::Message;
use prost_reflect::{DynamicMessage, MethodDescriptor};

use self::status::GrpcStatus;
use super::ToolExecutor;
use super::net::{self, Client, Resolve, SendError, TrustRoots};
use super::probe::{self, Point};
use super::request::{RequestError, failed, headers_of, not_connected, of_call};
use crate::catalog::address::Cidr;
use crate::catalog::binding::Credential;
use crate::catalog::grpc;
use crate::catalog::host::Origin;
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::decision::LayerReason;
use crate::domain::effect::{self, Effect};
use crate::domain::facts::ToolFacts;
use crate::domain::outcome::{AnswerContent, FailureClass, Opaque, Unmasked};
use crate::judge::prepared::{Prepared, PreparedResource};
use crate::ledger::fuse::Fuse;
use crate::ledger::permit::Permit;

/// The header that names the compression of messages.
const ENCODING: &str = "grpc-encoding";
/// Bytes before a message: the compression flag and the length.
const PREFIX: usize = 5;

/// One bound method.
#[derive(Debug)]
pub struct Grpc {
    connection: GrpcConnection,
    method: MethodDescriptor,
    metadata: Vec<(HeaderName, HeaderValue)>,
    credentials: Vec<Credential>,
    request_bytes_max: u64,
    result_bytes_max: u64,
    /// Repeating the call changes nothing, so an unknown outcome counts as a failure.
    repeatable: bool,
    read_only: bool,
}

/// A framed message that waits for its permit. It holds no secrets.
struct PreparedGrpc(Bytes);

impl Grpc {
    /// Builds the client of one binding without connecting.
    ///
    /// # Errors
    /// The certificate authorities cannot be used.
    pub fn new(
        grpc: grpc::Grpc,
        facts: &ToolFacts,
        resolve: Arc<dyn Resolve>,
    ) -> Result<Self, net::Error> {
        let trust = TrustRoots::of_http2(grpc.ca.as_deref())?;
        Ok(Self {
            connection: GrpcConnection::new(grpc.origin, grpc.private_addresses, trust, resolve),
            method: grpc.method,
            metadata: grpc.metadata,
            credentials: grpc.credentials,
            request_bytes_max: grpc.request_bytes_max,
            result_bytes_max: facts.result_bytes_max,
            repeatable: facts.read_only || facts.idempotent,
            read_only: facts.read_only,
        })
    }

    fn effect(&self, request_bytes: u64) -> Effect {
        let origin = &self.connection.origin;
        Effect::Grpc(effect::Grpc {
            scheme: origin.scheme().to_owned(),
            host: origin.host.to_string(),
            port: origin.port,
            service: self.method.parent_service().full_name().to_owned(),
            method: self.method.name().to_owned(),
            request_bytes,
        })
    }

    fn request(
        &self,
        ready: &PreparedGrpc,
        call: &ToolCall,
        timeout: Duration,
    ) -> Result<http::Request<Full<Bytes>>, RequestError> {
        let origin = &self.connection.origin;
        let (service, method) = (self.method.parent_service(), self.method.name());
        let (scheme, authority) = (origin.scheme(), origin.authority());
        let uri = format!("{scheme}://{authority}/{}/{method}", service.full_name());
        let request = http::Request::builder()
            .method(http::Method::POST)
            .uri(uri)
            .header(header::TE, "trailers")
            .header(header::CONTENT_TYPE, "application/grpc+proto")
            .header("grpc-accept-encoding", "identity")
            .header("grpc-timeout", format!("{}m", timeout.as_millis().min(99_999_999)));
        let mut request = of_call(request, call);
        for (name, value) in &self.metadata {
            request = request.header(name, value);
        }
        for (name, value) in headers_of(&self.credentials)? {
            request = request.header(name, value);
        }
        Ok(request.body(Full::new(ready.0.clone()))?)
    }

    /// Sends the message that `prepare` built. Only `execute` calls this, with a permitted call.
    async fn send(&self, prepared: &Prepared, fuse: &Fuse) -> Unmasked {
        let Some(ready) = prepared.hold::<PreparedGrpc>() else {
            return failed(FailureClass::Changed, false, "the call was prepared by another tool");
        };
        let timeout = prepared.tool().map_or(Duration::ZERO, |tool| tool.timeout);
        let Ok(request) = self.request(ready, prepared.call(), timeout) else {
            return failed(FailureClass::Protocol, false, "the request cannot be written");
        };
        let under_way = UnderWay::on(&self.connection);
        let outcome = match under_way.client.send(request, fuse).await {
            Ok(response) => self.answer(response).await,
            Err(SendError::Late(late)) => late.outcome(),
            Err(error) if error.is_connect() => not_connected(&error),
            Err(SendError::Framing(why)) => failed(FailureClass::Protocol, true, why),
            Err(SendError::Http(_)) => self.lost(),
        };
        under_way.ended();
        outcome
    }

    async fn answer(&self, response: http::Response<Incoming>) -> Unmasked {
        let protocol = |why: &str| failed(FailureClass::Protocol, true, why);
        let (head, body) = response.into_parts();
        if !self.repeatable && of_gateway(head.status) {
            return Unmasked::Unknown { cause: "unavailable".into() };
        }
        if head.status != StatusCode::OK {
            let message = format!("the service answered HTTP `{}`", head.status.as_u16());
            return failed(FailureClass::ToolError, true, &message);
        }
        if !is_grpc(&head.headers) {
            return protocol("the service's answer is not gRPC");
        }
        if head.headers.get(ENCODING).is_some_and(|coding| coding != "identity") {
            return protocol("the service's answer is compressed");
        }
        if let Some(status) = GrpcStatus::of(&head.headers) {
            // A response without a message. A success must follow a message.
            return self.ended(&status, None);
        }
        let most = self.result_bytes_max;
        match whole(body, most).await {
            Ok(GrpcReply { message, status: Some(status) }) => self.ended(&status, Some(&message)),
            // The stream ended without a status, so the outcome is unknown.
            Ok(GrpcReply { status: None, .. }) | Err(GrpcAnswerError::Broken) => self.lost(),
            Err(GrpcAnswerError::TooLarge) => {
                let message = format!("the service's answer has more than {most} bytes");
                failed(FailureClass::TooLarge, true, &message)
            }
        }
    }

    /// The outcome of a call that ended with this status, after this body.
    fn ended(&self, status: &GrpcStatus, body: Option<&[u8]>) -> Unmasked {
        if !status.is_ok() {
            // A service that gave up does not say what it had done until then.
            return match status.unsure() {
                Some(cause) if !self.repeatable => Unmasked::Unknown { cause: cause.to_owned() },
                Some(_) | None => failed(FailureClass::ToolError, true, &status.describe()),
            };
        }
        let protocol = |why: &str| failed(FailureClass::Protocol, true, why);
        let Some(message) = body.and_then(one_message) else {
            return protocol("the service's answer is not one plain message");
        };
        let Ok(message) = DynamicMessage::decode(self.method.output(), message) else {
            return protocol("the service's answer is not the message it was described as");
        };
        match decode::json(message) {
            Ok((json, bytes)) => {
                let opaque = bytes.then_some(Opaque::Binary);
                let result = AnswerContent::of(canonical::bytes(&json), opaque);
                Unmasked::Completed { result, status: "OK".to_owned() }
            }
            Err(unread) => protocol(&unread.to_string()),
        }
    }

    /// The connection or the stream failed after something may have been sent.
    fn lost(&self) -> Unmasked {
        if self.read_only {
            return failed(FailureClass::ToolError, true, "the connection to the service was lost");
        }
        Unmasked::Unknown { cause: "connection_lost".into() }
    }
}

#[async_trait]
impl ToolExecutor for Grpc {
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        let refuse = |detail: &str, message: String| {
            vec![LayerReason::effect_refused("tool.grpc", detail, message)]
        };
        let message = encode::message(&self.method.input(), call.args())
            .map_err(|error| refuse("grpc.argument", error.to_string()))?;
        let request_bytes = u64::try_from(message.encoded_len()).unwrap_or(u64::MAX);
        let most = self.request_bytes_max;
        let framed = if request_bytes <= most { framed(&message) } else { None };
        let Some(bytes) = framed else {
            let message = format!("the message has more than {most} bytes");
            return Err(refuse("grpc.too_large", message));
        };
        let ready = PreparedGrpc(bytes.into());
        self.request(&ready, call, Duration::ZERO)
            .map_err(|_| refuse("grpc.request", "the call makes no valid request".into()))?;
        Ok((self.effect(request_bytes), Box::new(ready)))
    }

    async fn execute(&self, permit: &Permit) -> Unmasked {
        self.send(permit.prepared(), permit.fuse()).await
    }
}

/// Whether this is an HTTP status that gRPC maps to UNAVAILABLE when an intermediary sends it
/// ("HTTP to gRPC Status Code Mapping").
fn of_gateway(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    )
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = value.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    ["application/grpc", "application/grpc+proto"].contains(&media_type)
}

/// A message with its prefix; `None` if it is longer than the format allows.
fn framed(message: &impl Message) -> Option<Vec<u8>> {
    let encoded = message.encode_to_vec();
    let length = u32::try_from(encoded.len()).ok()?;
    let mut bytes = Vec::with_capacity(encoded.len().saturating_add(PREFIX));
    bytes.push(0);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&encoded);
    Some(bytes)
}

/// The message of a body that holds exactly one, uncompressed.
fn one_message(body: &[u8]) -> Option<&[u8]> {
    let (prefix, message) = body.split_at_checked(PREFIX)?;
    let (compressed, length) = prefix.split_first()?;
    let length = u32::from_be_bytes(length.try_into().ok()?);
    let whole = u32::try_from(message.len()).ok() == Some(length);
    (*compressed == 0 && whole).then_some(message)
}

/// A body and the status after it.
struct GrpcReply {
    message: Vec<u8>,
    status: Option<GrpcStatus>,
}

enum GrpcAnswerError {
    TooLarge,
    Broken,
}

/// The whole body with one message of at most `bytes_max` bytes, never a part of it.
async fn whole(mut body: Incoming, bytes_max: u64) -> Result<GrpcReply, GrpcAnswerError> {
    let most = usize::try_from(bytes_max).unwrap_or(usize::MAX).saturating_add(PREFIX);
    let mut message = Vec::new();
    let mut status = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_error| GrpcAnswerError::Broken)?;
        match frame.into_data() {
            Ok(data) => {
                if message.len().saturating_add(data.len()) > most {
                    return Err(GrpcAnswerError::TooLarge);
                }
                message.extend_from_slice(&data);
            }
            Err(frame) => status = frame.trailers_ref().and_then(GrpcStatus::of),
        }
    }
    Ok(GrpcReply { message, status })
}

/// The one connection of a binding, shared by its calls.
#[derive(Debug)]
struct GrpcConnection {
    origin: Origin,
    open: Vec<Cidr>,
    trust: TrustRoots,
    resolve: Arc<dyn Resolve>,
    client: Mutex<(u64, Client)>,
}

impl GrpcConnection {
    fn new(origin: Origin, open: Vec<Cidr>, trust: TrustRoots, resolve: Arc<dyn Resolve>) -> Self {
        let client = Client::http2(&origin, &open, &trust, Arc::clone(&resolve));
        Self { origin, open, trust, resolve, client: Mutex::new((0, client)) }
    }

    /// Makes the next call use a new connection, unless another call has done so already.
    fn renew(&self, number: u64) {
        let mut client = self.client.lock();
        if client.0 == number {
            let resolve = Arc::clone(&self.resolve);
            let fresh = Client::http2(&self.origin, &self.open, &self.trust, resolve);
            *client = (number.wrapping_add(1), fresh);
        }
    }
}

/// The operator's probe: whether the service's host is reachable. Sends no request.
pub(super) async fn probe(grpc: &grpc::Grpc, resolve: &Arc<dyn Resolve>) -> Vec<Point> {
    let (origin, open) = (&grpc.origin, &grpc.private_addresses);
    let client = TrustRoots::of_http2(grpc.ca.as_deref())
        .map(|trust| Client::http2(origin, open, &trust, Arc::clone(resolve)));
    vec![probe::connect(origin, client, None).await]
}

/// One call on a connection. A connection on which a call got no end is not used again: a server
/// that froze would otherwise stall every later call until TCP gives up.
struct UnderWay<'a> {
    connection: &'a GrpcConnection,
    number: u64,
    client: Client,
    well: bool,
}

impl<'a> UnderWay<'a> {
    fn on(connection: &'a GrpcConnection) -> Self {
        let (number, client) = connection.client.lock().clone();
        Self { connection, number, client, well: false }
    }

    /// Marks that the call got an end, whatever it was.
    fn ended(mut self) {
        self.well = true;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.well {
            self.connection.renew(self.number);
        }
    }
}

#[cfg(test)]
mod tests;
