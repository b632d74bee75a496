//! MCP 2026-07-28: every request stands alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::call::{self, CallerTraits};
use super::exchange::Exchange;
use super::level::Level;
use super::list::{server_info, versions};
use super::message::{ClientMessage, McpRequest};
use super::mirror;
use super::render::Style;
use super::reply::{self, McpResponse, ReplyRefusal};
use super::stream::{self, Changes};
use crate::catalog::server::METHODS;
use crate::domain::json::Json;
use crate::enforce::Thread;
use crate::mcp::rpc::{self, Id};
use crate::mcp::{
    META_CAPABILITIES, META_LEVEL, META_SERVER, META_SUBSCRIPTION, META_VERSION, Version,
};
use crate::serve::problem::exchange::Broken;

/// The method whose answer is a stream of changes.
const LISTEN: &str = "subscriptions/listen";

/// Whether the client asks for a stream of changes.
pub(super) fn is_listening(ask: &ClientMessage) -> bool {
    matches!(ask, ClientMessage::Request(ask) if ask.method == LISTEN)
}

/// Answers one POST.
pub(super) async fn post(exchange: Exchange, ask: ClientMessage) -> McpResponse {
    let faces = exchange.shared.faces.clone();
    let ask = match ask {
        ClientMessage::Request(ask) => ask,
        // This version defines no notification from a client over HTTP; a client cancels by closing
        // the stream.
        ClientMessage::Notification(_) => return reply::bare(StatusCode::ACCEPTED),
        ClientMessage::Response => {
            let refused = ReplyRefusal::broken(Broken::Message, "nothing was asked");
            return refused.answer(&faces, None, true);
        }
    };
    let id = ask.id.clone();
    match requested(exchange, ask).await {
        Ok(answer) => answer,
        Err(refused) => refused.answer(&faces, Some(&id), true),
    }
}

async fn requested(exchange: Exchange, ask: McpRequest) -> Result<McpResponse, ReplyRefusal> {
    mirror::standard(&exchange.headers, &ask)?;
    let version = ask.meta(META_VERSION).and_then(Json::as_str);
    let version = version.ok_or_else(|| missing(META_VERSION))?;
    if Version::parse(version).is_none_or(|version| !version.is_stateless()) {
        return Err(unsupported(version));
    }
    let capabilities = ask.meta(META_CAPABILITIES).filter(|c| c.as_object().is_some());
    let capabilities = capabilities.ok_or_else(|| missing(META_CAPABILITIES))?;
    let thread = exchange.run_name.clone().map_or(Thread::Caller, Thread::Named);
    let complete = |result: Vec<u8>| reply::json(StatusCode::OK, rpc::result(&ask.id, &result));
    match ask.method.as_str() {
        "server/discover" => {
            let shown = exchange.shown(&thread, &ask).await?;
            Ok(shown.seeded(complete(shown.discovered())))
        }
        "tools/list" => Ok(complete(exchange.shown(&thread, &ask).await?.page(&ask, true)?)),
        LISTEN => listen(&exchange, &ask),
        method if method == "tools/call" || METHODS.contains(&method) => {
            let traits = CallerTraits {
                style: Style {
                    modern: true,
                    structured: true,
                    progress: ask.meta("progressToken").cloned(),
                    level: ask.meta(META_LEVEL).and_then(Json::as_str).and_then(Level::parse),
                },
                thread,
                session: None,
                elicits: elicits(capabilities),
                capabilities: declared(capabilities),
            };
            Ok(call::answer(exchange, traits, ask).await)
        }
        method => Err(ReplyRefusal::method(method)),
    }
}

fn missing(name: &str) -> ReplyRefusal {
    ReplyRefusal::params(format!("`params._meta` has no usable `{name}`")).detail("rpc.meta")
}

/// This version is not spoken, or not in this way.
pub(super) fn unsupported(requested: &str) -> ReplyRefusal {
    let shown: String = requested.chars().take(64).collect();
    ReplyRefusal::broken(Broken::Version, "this protocol version is not spoken here")
        .with("supported", versions().into())
        .with("requested", shown.into())
}

/// Names of the client's declared capabilities.
fn declared(capabilities: &Json) -> Vec<String> {
    let members = capabilities.as_object().into_iter().flatten();
    members.map(|(name, _)| name.clone()).collect()
}

/// The client's capabilities, as far as the gate uses them.
#[derive(Deserialize)]
struct Capabilities {
    elicitation: BTreeMap<String, IgnoredAny>,
}

/// The notifications that a client subscribes to.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notifications {
    #[serde(default)]
    tools_list_changed: Value,
}

/// Whether the client can show a form to a person.
fn elicits(capabilities: &Json) -> bool {
    let Ok(Capabilities { elicitation: modes }) = capabilities.read() else { return false };
    // An empty object is one that knows forms only.
    modes.is_empty() || modes.contains_key("form")
}

/// `subscriptions/listen`: changes of the list of tools, until the client or the gate ends the
/// stream.
fn listen(exchange: &Exchange, ask: &McpRequest) -> Result<McpResponse, ReplyRefusal> {
    if !exchange.accepts.events {
        return Err(ReplyRefusal::broken(Broken::Accept, "a stream of events must be accepted"));
    }
    let wanted = ask.read::<Notifications>("notifications");
    let wanted =
        wanted.ok_or_else(|| ReplyRefusal::params("`params.notifications` is no object"))?;
    let tools = wanted.tools_list_changed == Value::Bool(true);
    let permit = Arc::clone(&exchange.shared.streams).try_acquire_owned();
    let permit = permit.map_err(|_| call::taken("too many streams are open"))?;
    let id: Value = match &ask.id {
        Id::Int(number) => (*number).into(),
        Id::Text(text) => text.as_str().into(),
    };
    let meta = json!({META_SUBSCRIPTION: id});
    let agreed = if tools { json!({"toolsListChanged": true}) } else { json!({}) };
    let first = json!({"_meta": meta, "notifications": agreed}).to_string();
    let first =
        rpc::notification("notifications/subscriptions/acknowledged", Some(first.as_bytes()));
    let each = json!({"_meta": meta}).to_string();
    let each = rpc::notification("notifications/tools/list_changed", Some(each.as_bytes()));
    let last = json!({"resultType": "complete",
        "_meta": {META_SUBSCRIPTION: id, META_SERVER: server_info()}});
    Ok(reply::events(stream::of_changes(Changes {
        first: Some(first),
        each: tools.then_some(each),
        last: Some(rpc::result(&ask.id, last.to_string().as_bytes())),
        version: exchange.road.toolbox_version(),
        closing: exchange.closing.clone(),
        places: vec![permit],
        alive: Box::new(|| {}),
    })))
}
