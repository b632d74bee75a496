//! One message as an agent sent it, read by the strict reader before anything else looks at it.

use serde::de::DeserializeOwned;

use super::reply::ReplyRefusal;
use crate::domain::json::Json;
use crate::mcp::raw::{Members, ObjectWriter};
use crate::mcp::rpc::Id;
use crate::serve::guard::BODY;
use crate::serve::problem::exchange::Broken;

/// Bytes of a request id's text.
const ID_BYTES_MAX: usize = 256;

/// A message from an agent.
#[derive(Debug)]
pub(super) enum ClientMessage {
    /// Something that wants an answer.
    Request(McpRequest),
    /// A message without an answer.
    Notification(McpRequest),
    /// An answer, although the gate never sends requests.
    Response,
}

/// A method and its parameters.
#[derive(Debug)]
pub(super) struct McpRequest {
    /// Its id; a notification's is never used.
    pub id: Id,
    /// The method.
    pub method: String,
    /// The parameters: an object, empty if there are none.
    pub params: Json,
    /// The same as received bytes.
    raw: Vec<u8>,
}

impl McpRequest {
    /// This parameter.
    pub(super) fn param(&self, name: &str) -> Option<&Json> {
        self.params.get(name)
    }

    /// This parameter as a type; `None` if it is absent or is something else.
    pub(super) fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.param(name)?.read().ok()
    }

    /// The text of this parameter.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.param(name).and_then(Json::as_str)
    }

    /// The member of this name in `_meta`.
    pub(super) fn meta(&self, name: &str) -> Option<&Json> {
        self.param("_meta")?.get(name)
    }

    /// Tool arguments as the bytes that came; `{}` if there are none.
    pub(super) fn arguments(&self) -> Vec<u8> {
        object(&Members::parse(&self.raw).unwrap_or_default(), "arguments")
    }

    /// The parameters for the server, without those about the exchange, each as received bytes.
    pub(super) fn passed_on(&self) -> Vec<u8> {
        let members = Members::parse(&self.raw).unwrap_or_default();
        ObjectWriter::default().copy(members.iter().filter(|(name, _)| *name != "_meta")).end()
    }

    /// The text this parameter must be.
    pub(super) fn required(&self, name: &str) -> Result<&str, ReplyRefusal> {
        self.text(name).ok_or_else(|| ReplyRefusal::params(format!("`params.{name}` is no text")))
    }
}

/// The id of a message that is refused for something else.
#[derive(Debug)]
pub(super) struct Unread {
    /// Its id, if it could be read.
    pub id: Option<Id>,
    /// Why it is refused.
    pub refused: ReplyRefusal,
}

/// Reads one message.
pub(super) fn read(body: &[u8]) -> Result<ClientMessage, Unread> {
    let json = Json::parse(body, &BODY).map_err(|error| {
        let refused = ReplyRefusal::broken(Broken::Json, error.to_string()).detail(error.code);
        Unread { id: None, refused }
    })?;
    let id = json.get("id").and_then(as_id);
    // Both readers must accept the message; otherwise it is refused.
    let raw = Members::parse(body).map(|members| object(&members, "params"));
    let raw = raw.map_err(|error| Unread {
        id: id.clone(),
        refused: ReplyRefusal::broken(Broken::Message, error.to_string()).detail("rpc.message"),
    });
    let raw = if json.as_object().is_some() { raw? } else { Vec::new() };
    message(json, raw, id.clone()).map_err(|refused| Unread { id, refused })
}

/// A member as received bytes; `{}` if it is absent.
fn object(members: &Members<'_>, name: &str) -> Vec<u8> {
    members.get(name).map_or_else(|| b"{}".to_vec(), |raw| raw.get().as_bytes().to_vec())
}

fn message(json: Json, raw: Vec<u8>, id: Option<Id>) -> Result<ClientMessage, ReplyRefusal> {
    let broken =
        |detail: &str, message: &str| ReplyRefusal::broken(Broken::Message, message).detail(detail);
    if json.as_array().is_some() {
        return Err(broken("rpc.batch", "one message at a time: batches are refused"));
    }
    let Json::Object(mut members) = json else {
        return Err(broken("rpc.message", "a message is an object"));
    };
    if members.get("jsonrpc").and_then(Json::as_str) != Some("2.0") {
        return Err(broken("rpc.version", "`jsonrpc` is not \"2.0\""));
    }
    let known = ["jsonrpc", "id", "method", "params", "result", "error"];
    if let Some(name) = members.keys().find(|name| !known.contains(&name.as_str())) {
        let message = format!("a message has no member `{name}`");
        return Err(ReplyRefusal::broken(Broken::Message, message).detail("rpc.unknown_member"));
    }
    let outcome = members.contains_key("result") || members.contains_key("error");
    let Some(method) = members.remove("method") else {
        let message = "neither a request nor a response";
        return if outcome {
            Ok(ClientMessage::Response)
        } else {
            Err(broken("rpc.message", message))
        };
    };
    let Json::String(method) = method else {
        return Err(broken("rpc.method", "`method` is no text"));
    };
    if outcome {
        return Err(broken("rpc.message", "a request has no `result` and no `error`"));
    }
    let params = members.remove("params").unwrap_or_else(|| Json::object::<String>([]));
    if params.as_object().is_none() {
        return Err(broken("rpc.params", "`params` is no object"));
    }
    match (members.contains_key("id"), id) {
        (false, _) => {
            Ok(ClientMessage::Notification(McpRequest { id: Id::Int(0), method, params, raw }))
        }
        (true, Some(id)) => Ok(ClientMessage::Request(McpRequest { id, method, params, raw })),
        (true, None) => Err(broken("rpc.id", "`id` is neither text nor a whole number")),
    }
}

/// The id this is, if it is one.
pub(super) fn as_id(json: &Json) -> Option<Id> {
    match json {
        Json::Int(number) => Some(Id::Int(*number)),
        Json::String(text) if text.len() <= ID_BYTES_MAX => Some(Id::Text(text.clone())),
        Json::String(_)
        | Json::Null
        | Json::Bool(_)
        | Json::Float(_)
        | Json::Array(_)
        | Json::Object(_) => None,
    }
}
