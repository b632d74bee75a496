//! How a connection begins: which version is spoken, and who the other side says it is.
//!
//! Over HTTP a stateless request comes first, as the specification of 2026-07-28 has it. Over stdio
//! `initialize` does: servers of older versions may end at, or never answer, a first message they do
//! not know, while a stateless one answers `initialize` with an error at once and is then asked anew.

use std::time::Duration;

use super::link::Wire;
use super::traffic::{Ask, Broken, Traffic, client};
use super::{Discover, Error};
use crate::domain::json::{Json, Limits};
use crate::mcp::Version;
use crate::mcp::raw::{Members, quoted};
use crate::mcp::rpc::{self, UNSUPPORTED_VERSION};

/// How long a server may take to say that it does not know `server/discover`.
const DISCOVER: Duration = Duration::from_secs(5);
/// Bytes of a handshake's answer.
const BYTES_MAX: usize = 1024 * 1024;

/// What the two sides agreed on.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Spoken {
    /// The version.
    pub version: Version,
    /// `serverInfo`, as the server gave it.
    pub server_info: Json,
    /// `capabilities`, as the server gave them.
    pub capabilities: Json,
}

impl Spoken {
    /// Whether the server says when its tools change.
    pub fn says_changes(&self) -> bool {
        let tools = self.capabilities.get("tools");
        tools.and_then(|tools| tools.get("listChanged")) == Some(&Json::Bool(true))
    }
}

/// Why two sides do not agree.
#[derive(Debug)]
enum Apart {
    /// The other era may do.
    Try(Error),
    /// Nothing will.
    Give(Error),
}

/// Agrees on a version.
///
/// # Errors
/// Why there is none, for the operator.
pub(super) async fn shake(wire: &Wire, traffic: &Traffic) -> Result<Spoken, Error> {
    let agreed = match wire {
        Wire::Pipe(_) => match initialize(wire, traffic).await {
            Err(Apart::Try(first)) => discover(wire, traffic).await.map_err(|e| both(first, e)),
            other => other.map_err(Apart::error),
        },
        Wire::Remote(_) => match discover(wire, traffic).await {
            Err(Apart::Try(first)) => initialize(wire, traffic).await.map_err(|e| both(first, e)),
            other => other.map_err(Apart::error),
        },
    };
    if let Ok(spoken) = &agreed
        && spoken.capabilities.get("logging").is_some()
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

async fn initialize(wire: &Wire, traffic: &Traffic) -> Result<Spoken, Apart> {
    traffic.speak(None);
    let method = "initialize";
    let newest = quoted(Version::NEWEST_WITH_HANDSHAKE.as_str());
    let us = client();
    let ask = Ask {
        method,
        params: vec![
            ("protocolVersion", newest.as_bytes()),
            ("capabilities", b"{}"),
            ("clientInfo", &us),
        ],
        bytes_max: BYTES_MAX,
        ..Ask::default()
    };
    let answer = wire.request(&ask).await;
    let answer = answer.map_err(|why| Apart::Give(Error::Request { method, why }))?;
    let result =
        answer.outcome.map_err(|error| Apart::Try(Error::Code { method, code: error.code }))?;
    let members =
        Members::parse(result.get().as_bytes()).map_err(|_error| Apart::Give(Error::Initialize))?;
    let named = members.text("protocolVersion").unwrap_or_default();
    let version = Version::parse(&named)
        .filter(|version| !version.is_stateless())
        .ok_or_else(|| Apart::Give(Error::Version(short(&named))))?;
    let spoken = Spoken {
        version,
        server_info: member(&members, "serverInfo"),
        capabilities: member(&members, "capabilities"),
    };
    traffic.speak(Some(version));
    let method = "notifications/initialized";
    let told = wire.notify(rpc::notification(method, None)).await;
    told.map_err(|why| Apart::Give(Error::Request { method, why }))?;
    Ok(spoken)
}

async fn discover(wire: &Wire, traffic: &Traffic) -> Result<Spoken, Apart> {
    let version = Version::V2026_07_28;
    traffic.speak(Some(version));
    let ask = Ask { method: "server/discover", bytes_max: BYTES_MAX, ..Ask::default() };
    let attempt = |why: Discover| Apart::Try(Error::Discover(why));
    let answer = tokio::time::timeout(DISCOVER, wire.request(&ask))
        .await
        .map_err(|_elapsed| attempt(Discover::Late))?
        .map_err(|broken| match broken {
            // A redirect or a wish for other credentials is the same in every version.
            Broken::NotSent(_) | Broken::Late(_) | Broken::Status(300..=399 | 401 | 403) => {
                Apart::Give(Error::Discover(broken.into()))
            }
            Broken::Lost | Broken::Status(_) | Broken::Protocol(_) | Broken::TooLarge(_) => {
                attempt(broken.into())
            }
        })?;
    let result = match answer.outcome {
        Ok(result) => result,
        Err(error) if error.code == UNSUPPORTED_VERSION && !names_handshake(&error) => {
            return Err(Apart::Give(Error::NoVersion));
        }
        Err(error) => return Err(attempt(Discover::Code(error.code))),
    };
    let members =
        Members::parse(result.get().as_bytes()).map_err(|_error| attempt(Discover::NoObject))?;
    let supported: Vec<String> = members
        .get("supportedVersions")
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .ok_or_else(|| attempt(Discover::NoVersions))?;
    if !supported.iter().any(|named| named == version.as_str()) {
        return Err(attempt(Discover::Version));
    }
    let meta = members.get("_meta").and_then(|meta| Members::parse(meta.get().as_bytes()).ok());
    let server_info = meta.as_ref().map_or(Json::object::<String>([]), |meta| {
        member(meta, "io.modelcontextprotocol/serverInfo")
    });
    Ok(Spoken { version, server_info, capabilities: member(&members, "capabilities") })
}

/// Whether the error's list of versions has one that begins with `initialize`.
fn names_handshake(error: &rpc::Error) -> bool {
    let data = error.data.as_deref().unwrap_or_default();
    let supported: Vec<String> = Members::parse(data.as_bytes())
        .ok()
        .and_then(|members| members.get("supported"))
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default();
    supported.iter().filter_map(|text| Version::parse(text)).any(|v| !v.is_stateless())
}

/// A member that is an object of strict JSON, or an empty object.
fn member(members: &Members<'_>, name: &str) -> Json {
    members
        .get(name)
        .and_then(|raw| Json::parse(raw.get().as_bytes(), &Limits::ARGUMENTS).ok())
        .filter(|value| value.as_object().is_some())
        .unwrap_or_else(|| Json::object::<String>([]))
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(32).collect()
}
