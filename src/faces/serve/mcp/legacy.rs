//! MCP 2025-03-26 to 2025-11-25: a handshake, then a session.

use std::sync::Arc;

use http::{HeaderValue, StatusCode};

use super::call::{self, CallerTraits};
use super::exchange::Exchange;
use super::level::Level;
use super::message::{ClientMessage, McpRequest, as_id};
use super::modern::unsupported;
use super::render::Style;
use super::reply::{self, McpResponse, ReplyRefusal};
use super::session::Session;
use super::stream::{self, Changes};
use crate::catalog::server::METHODS;
use crate::clock::random16;
use crate::domain::code::Code;
use crate::enforce::Thread;
use crate::mcp::http::{SESSION, VERSION};
use crate::mcp::{Version, rpc};
use crate::serve::problem::Problem;
use crate::serve::problem::exchange::Broken;

/// Answers one POST.
pub(super) async fn post(exchange: Exchange, ask: ClientMessage) -> McpResponse {
    let faces = exchange.shared.faces.clone();
    let id = match &ask {
        ClientMessage::Request(ask) => Some(ask.id.clone()),
        ClientMessage::Notification(_) | ClientMessage::Response => None,
    };
    let answer = match ask {
        ClientMessage::Request(ask) if ask.method == "initialize" => {
            initialize(&exchange, &ask).await
        }
        ClientMessage::Request(ask) => match session(&exchange) {
            Ok(session) => requested(exchange, session, ask).await,
            Err(refused) => Err(refused),
        },
        ClientMessage::Notification(ask) => session(&exchange).map(|session| {
            notification(&exchange, &session, &ask);
            reply::bare(StatusCode::ACCEPTED)
        }),
        ClientMessage::Response => session(&exchange).map(|_| reply::bare(StatusCode::ACCEPTED)),
    };
    answer.unwrap_or_else(|refused| refused.answer(&faces, id.as_ref(), false))
}

/// Answers one GET: the session's stream.
pub(super) fn get(exchange: &Exchange) -> Result<McpResponse, ReplyRefusal> {
    if !exchange.accepts.events {
        return Err(ReplyRefusal::broken(Broken::Accept, "a stream of events must be accepted"));
    }
    let session = session(exchange)?;
    let own = session.stream().ok_or_else(|| call::taken("the session has its stream already"))?;
    let permit = Arc::clone(&exchange.shared.streams).try_acquire_owned();
    let permit = permit.map_err(|_| call::taken("too many streams are open"))?;
    let clock = Arc::clone(&exchange.shared.faces.clock);
    Ok(reply::events(stream::of_changes(Changes {
        first: None,
        each: Some(rpc::notification("notifications/tools/list_changed", None)),
        last: None,
        version: exchange.road.toolbox_version(),
        closing: exchange.closing.clone(),
        places: vec![own, permit],
        alive: Box::new(move || session.touch(clock.monotonic())),
    })))
}

/// Answers one DELETE: the session is over, and its run.
pub(super) async fn delete(exchange: &Exchange) -> Result<McpResponse, ReplyRefusal> {
    let session = session(exchange)?;
    exchange.shared.sessions.end(&session);
    // A run with a name may have other sessions; the road ends it when the last of them is gone.
    if exchange.run_name.is_none() {
        let thread = thread(exchange, &session);
        Box::pin(exchange.road.end_implicit(&exchange.caller, &thread)).await;
    }
    Ok(reply::bare(StatusCode::NO_CONTENT))
}

/// The session that is named, if it is this caller's.
fn session(exchange: &Exchange) -> Result<Arc<Session>, ReplyRefusal> {
    version(exchange)?;
    let Some(id) = exchange.headers.get(SESSION) else {
        let message = format!("begin with `initialize`, then send `{SESSION}`");
        return Err(ReplyRefusal::broken(Broken::SessionMissing, message));
    };
    let owner = exchange.owner();
    let found = id
        .to_str()
        .ok()
        .and_then(|id| exchange.shared.sessions.find(id, &owner, &exchange.view, exchange.now()));
    found.ok_or_else(|| {
        let message = "no such session; begin a new one with `initialize`";
        ReplyRefusal::broken(Broken::SessionUnknown, message)
    })
}

/// The version header, if it is sent, is one with a handshake.
fn version(exchange: &Exchange) -> Result<(), ReplyRefusal> {
    let Some(value) = exchange.headers.get(VERSION) else { return Ok(()) };
    let text = value.to_str().unwrap_or_default().trim_matches([' ', '\t']);
    match Version::parse(text) {
        Some(version) if !version.is_stateless() => Ok(()),
        Some(_) | None => Err(unsupported(text)),
    }
}

fn thread(exchange: &Exchange, session: &Session) -> Thread {
    let named = exchange.run_name.clone().map(Thread::Named);
    named.unwrap_or_else(|| Thread::Session(session.id.clone()))
}

async fn initialize(exchange: &Exchange, ask: &McpRequest) -> Result<McpResponse, ReplyRefusal> {
    version(exchange)?;
    if exchange.headers.contains_key(SESSION) {
        let message = "`initialize` begins a session and is sent outside of one";
        return Err(
            ReplyRefusal::broken(Broken::SessionMissing, message).detail("mcp.session_twice")
        );
    }
    let wanted = Version::parse(ask.required("protocolVersion")?);
    let version = match wanted {
        Some(wanted) if super::list::is_supported(wanted) && !wanted.is_stateless() => wanted,
        Some(_) | None => Version::NEWEST_WITH_HANDSHAKE,
    };
    let id = hex::encode(random16(&*exchange.shared.faces.entropy));
    let named = exchange.run_name.clone().map(Thread::Named);
    let thread = named.unwrap_or_else(|| Thread::Session(id.clone()));
    let shown = exchange.shown(&thread, ask).await?;
    let (sessions, now) = (&exchange.shared.sessions, exchange.now());
    let opened = sessions.open(id, &exchange.owner(), &exchange.view, version, now);
    let Some(session) = opened else {
        let message = "too many sessions are open";
        return Err(ReplyRefusal::turned(Problem::new(Code::Overloaded, "sessions", message)));
    };
    let result = shown.initialized(version);
    let answer = reply::json(StatusCode::OK, rpc::result(&ask.id, &result));
    let mut answer = shown.seeded(answer);
    if let Ok(value) = HeaderValue::from_str(&session.id) {
        answer.headers_mut().insert(SESSION, value);
    }
    Ok(answer)
}

async fn requested(
    exchange: Exchange,
    session: Arc<Session>,
    ask: McpRequest,
) -> Result<McpResponse, ReplyRefusal> {
    let thread = thread(&exchange, &session);
    let ok = |result: &[u8]| reply::json(StatusCode::OK, rpc::result(&ask.id, result));
    match ask.method.as_str() {
        "ping" => Ok(ok(b"{}")),
        "tools/list" => Ok(ok(&exchange.shown(&thread, &ask).await?.page(&ask, false)?)),
        "logging/setLevel" => {
            let level = Level::parse(ask.required("level")?);
            session.set_level(
                level.ok_or_else(|| ReplyRefusal::params("`params.level` is no level"))?,
            );
            Ok(ok(b"{}"))
        }
        method if method == "tools/call" || METHODS.contains(&method) => {
            let traits = CallerTraits {
                style: Style {
                    modern: false,
                    structured: session.version >= Version::V2025_06_18,
                    progress: ask.meta("progressToken").cloned(),
                    level: session.level(),
                },
                thread,
                session: Some(session),
                elicits: false,
                capabilities: Vec::new(),
            };
            Ok(call::answer(exchange, traits, ask).await)
        }
        method => Err(ReplyRefusal::method(method)),
    }
}

/// Takes note of a notification.
fn notification(exchange: &Exchange, session: &Session, ask: &McpRequest) {
    if ask.method != "notifications/cancelled" {
        return;
    }
    let request = ask.param("requestId").and_then(as_id);
    if let Some(named) = request.and_then(|id| session.ids.open(&id)) {
        exchange.road.cancel(&named.run, &named.call);
    }
}

/// Whether a message asks for a version in its parameters: only this era has that member.
pub(super) fn is_initialize(ask: &ClientMessage) -> bool {
    matches!(ask, ClientMessage::Request(ask) if ask.method == "initialize"
        && ask.text("protocolVersion").is_some())
}
