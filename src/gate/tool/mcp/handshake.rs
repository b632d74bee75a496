//! The start of a connection: negotiates the version and reads the server's identity.
//!
//! Over HTTP a stateless request comes first, as the specification of 2026-07-28 requires. Over
//! stdio `initialize` comes first: servers of older versions may exit at an unknown first message
//! or never answer it, while a stateless server rejects `initialize` at once and is then asked
//! again.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::capabilities::Capabilities;
use super::link::McpTransport;
use super::traffic::{McpRequest, Traffic, TrafficError, client};
use super::{DiscoverError, Error};
use crate::domain::json::{Json, Limits};
use crate::mcp::raw::{self, Members, quoted};
use crate::mcp::rpc::{self, UNSUPPORTED_VERSION};
use crate::mcp::{META_SERVER, Version};
use crate::tool::shape::lenient;

/// How long a server may take to reject `server/discover`.
const DISCOVER: Duration = Duration::from_secs(5);
/// Bytes of a handshake response.
const BYTES_MAX: usize = 1024 * 1024;

/// The result of the negotiation.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Negotiated {
    /// The version.
    pub version: Version,
    /// The server's `serverInfo`.
    pub server_info: Json,
    /// The server's capabilities.
    pub capabilities: Capabilities,
}

impl Negotiated {
    /// Whether the server announces changes of its tools.
    pub fn says_changes(&self) -> bool {
        self.capabilities.tools.as_ref().and_then(|tools| tools.list_changed) == Some(true)
    }
}

/// The result of `initialize`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult<'a> {
    #[serde(default, deserialize_with = "lenient")]
    protocol_version: Option<String>,
    #[serde(borrow)]
    server_info: Option<&'a RawValue>,
    #[serde(borrow)]
    capabilities: Option<&'a RawValue>,
}

/// The result of `server/discover`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoverResult<'a> {
    #[serde(default, deserialize_with = "lenient")]
    supported_versions: Option<Vec<String>>,
    #[serde(borrow)]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// The `data` of an error about a version.
#[derive(Deserialize)]
struct VersionDetail {
    #[serde(default, deserialize_with = "lenient")]
    supported: Option<Vec<String>>,
}

/// Why a negotiation failed.
#[derive(Debug)]
enum Apart {
    /// The other way to start may succeed.
    Try(Error),
    /// No way to start will succeed.
    Give(Error),
}

/// Negotiates a version.
///
/// # Errors
/// Why there is none, for the operator.
pub(super) async fn shake(wire: &McpTransport, traffic: &Traffic) -> Result<Negotiated, Error> {
    let agreed = match wire {
        McpTransport::Pipe(_) => match initialize(wire, traffic).await {
            Err(Apart::Try(first)) => discover(wire, traffic).await.map_err(|e| both(first, e)),
            other => other.map_err(Apart::error),
        },
        McpTransport::Remote(_) => match discover(wire, traffic).await {
            Err(Apart::Try(first)) => initialize(wire, traffic).await.map_err(|e| both(first, e)),
            other => other.map_err(Apart::error),
        },
    };
    if let Ok(negotiated) = &agreed
        && negotiated.capabilities.logging
    {
        traffic.ask_for_logs();
    }
    agreed
}

impl Apart {
    fn error(self) -> Error {
        match self {
            Self::Try(why) | Self::Give(why) => why,
        }
    }
}

fn both(first: Error, second: Apart) -> Error {
    Error::Both { first: Box::new(first), second: Box::new(second.error()) }
}

async fn initialize(wire: &McpTransport, traffic: &Traffic) -> Result<Negotiated, Apart> {
    traffic.speak(None);
    let method = "initialize";
    let newest = quoted(Version::NEWEST_WITH_HANDSHAKE.as_str());
    let us = client();
    let ask = McpRequest {
        method,
        params: vec![
            ("protocolVersion", newest.as_bytes()),
            ("capabilities", b"{}"),
            ("clientInfo", &us),
        ],
        bytes_max: BYTES_MAX,
        ..McpRequest::default()
    };
    let answer = wire.request(&ask).await;
    let answer = answer.map_err(|why| Apart::Give(Error::Request { method, why }))?;
    let result =
        answer.outcome.map_err(|error| Apart::Try(Error::Code { method, code: error.code }))?;
    let result: InitializeResult<'_> =
        raw::read(result.get()).map_err(|_error| Apart::Give(Error::Initialize))?;
    let named = result.protocol_version.unwrap_or_default();
    let version = Version::parse(&named)
        .filter(|version| !version.is_stateless())
        .ok_or_else(|| Apart::Give(Error::Version(short(&named))))?;
    let negotiated = Negotiated {
        version,
        server_info: object(result.server_info),
        capabilities: Capabilities::of(&object(result.capabilities)),
    };
    traffic.speak(Some(version));
    let method = "notifications/initialized";
    let sent = wire.notify(rpc::notification(method, None)).await;
    sent.map_err(|why| Apart::Give(Error::Request { method, why }))?;
    Ok(negotiated)
}

async fn discover(wire: &McpTransport, traffic: &Traffic) -> Result<Negotiated, Apart> {
    let version = Version::V2026_07_28;
    traffic.speak(Some(version));
    let ask =
        McpRequest { method: "server/discover", bytes_max: BYTES_MAX, ..McpRequest::default() };
    let attempt = |why: DiscoverError| Apart::Try(Error::Discover(why));
    let answer = tokio::time::timeout(DISCOVER, wire.request(&ask))
        .await
        .map_err(|_elapsed| attempt(DiscoverError::Late))?
        .map_err(|broken| match broken {
            // A redirect or a demand for other credentials is the same in every version.
            TrafficError::NotSent(_)
            | TrafficError::Late(_)
            | TrafficError::Status(300..=399 | 401 | 403) => {
                Apart::Give(Error::Discover(broken.into()))
            }
            TrafficError::Lost
            | TrafficError::Status(_)
            | TrafficError::Protocol(_)
            | TrafficError::TooLarge(_) => attempt(broken.into()),
        })?;
    let result = match answer.outcome {
        Ok(result) => result,
        Err(error) if error.code == UNSUPPORTED_VERSION && !names_handshake(&error) => {
            return Err(Apart::Give(Error::NoVersion));
        }
        Err(error) => return Err(attempt(DiscoverError::Code(error.code))),
    };
    let result: DiscoverResult<'_> =
        raw::read(result.get()).map_err(|_error| attempt(DiscoverError::NoObject))?;
    let supported = result.supported_versions.ok_or_else(|| attempt(DiscoverError::NoVersions))?;
    if !supported.iter().any(|named| named == version.as_str()) {
        return Err(attempt(DiscoverError::Version));
    }
    let meta = result.meta.and_then(|meta| Members::of(meta).ok()).unwrap_or_default();
    let server_info = object(meta.get(META_SERVER));
    let capabilities = Capabilities::of(&object(result.capabilities));
    Ok(Negotiated { version, server_info, capabilities })
}

/// Whether the error's list of versions has one that starts with `initialize`.
fn names_handshake(error: &rpc::Error) -> bool {
    let data = raw::read::<VersionDetail>(error.data.as_deref().unwrap_or_default()).ok();
    let supported = data.and_then(|data| data.supported).unwrap_or_default();
    supported.iter().filter_map(|text| Version::parse(text)).any(|v| !v.is_stateless())
}

/// A member that is a strict JSON object; otherwise an empty object.
fn object(member: Option<&RawValue>) -> Json {
    member
        .and_then(|raw| Json::parse(raw.get().as_bytes(), &Limits::ARGUMENTS).ok())
        .filter(|value| value.as_object().is_some())
        .unwrap_or_else(|| Json::object::<String>([]))
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(32).collect()
}
