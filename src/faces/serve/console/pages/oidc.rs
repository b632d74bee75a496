//! Logging in at the issuer: going there, and coming back.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use http::request::Parts;
use maud::html;

use super::login::{LOGIN, opened};
use super::{Failure, frame, shown};
use crate::identity::IdentityError;
use crate::operator::credential::ShownCredential;
use crate::operator::operators::{Login, Operator};
use crate::serve::console::ROOT;
use crate::serve::console::form::Form;
use crate::serve::console::oidc::{Oidc, OidcError, Returned, StartedLogin, error_code};
use crate::serve::console::session::SessionId;
use crate::serve::console::site::{self, Console, certificate};
use crate::serve::console::visit;

/// Sends the browser to the issuer, with a login that began in this browser. A session that it had has ended.
pub(in super::super) async fn start(
    State(console): State<Arc<Console>>,
    request: Request,
) -> Response {
    let (parts, _body) = request.into_parts();
    let Some(oidc) = &console.oidc else { return site::no_page(&console) };
    let started = StartedLogin::new(console.api.entropy());
    match address(&console, oidc, (&parts, &started)).await {
        Ok(url) => {
            let mut response = visit::see_other(&url);
            started.give(&mut response, console.secure);
            response
        }
        Err(failure) => failure.leading_to(LOGIN).page(&console),
    }
}

async fn address(
    console: &Console,
    oidc: &Oidc,
    (parts, started): (&Parts, &StartedLogin),
) -> Result<String, Failure> {
    if certificate(parts).is_some() {
        let message = "this connection has a client certificate: log in with that";
        return Err(Failure::new(StatusCode::FORBIDDEN, message));
    }
    let url = oidc.address(started, console.api.clock()).await;
    let url = url.map_err(|error| failed(console, &error))?;
    let begun = async {
        // WHY here: browsers hold the cookie of a session back on the way back, which begins elsewhere.
        if let Some(old) = SessionId::of(&parts.headers, console.secure) {
            console.sessions.end(&old).await?;
        }
        console.sessions.begin_login(&started.digest()).await
    };
    begun.await.map_err(|error| console.api.refuse(error.into()))?;
    Ok(url.into())
}

/// Opens the session of the person that the issuer sends back. The answer is a page of ours that goes on by itself: the
/// browser came from elsewhere, and would hold back the cookie of the session on a redirect.
pub(in super::super) async fn callback(
    State(console): State<Arc<Console>>,
    request: Request,
) -> Response {
    let (parts, _body) = request.into_parts();
    let Some(oidc) = &console.oidc else { return site::no_page(&console) };
    let mut response = match came_back(&console, oidc, &parts).await {
        Ok((id, who)) => {
            let body = html! {
                p { "You are " b { (who.subject) } ", as " (who.role_names().join(", ")) "." }
                p { a href=(ROOT) { "Go on to the console" } }
            };
            let page = frame(&console, None, "Logged in", &body);
            let mut response = visit::html(StatusCode::OK, page);
            let next = HeaderValue::from_static("0; url=/console");
            response.headers_mut().insert(HeaderName::from_static("refresh"), next);
            id.give(&mut response, console.secure);
            response
        }
        Err(failure) => failure.leading_to(LOGIN).page(&console),
    };
    StartedLogin::forget(&mut response, console.secure);
    response
}

async fn came_back(
    console: &Console,
    oidc: &Oidc,
    parts: &Parts,
) -> Result<(SessionId, Operator), Failure> {
    let refused = |message: &str| turned_away(console, message);
    let query = Form::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let query = query.map_err(|_| refused("the answer of the issuer has a part twice"))?;
    let started = StartedLogin::of(&parts.headers, console.secure);
    let started = started.filter(|started| started.is_state(query.field("state")));
    let Some(started) = started.filter(|_| certificate(parts).is_none()) else {
        let why = "this browser has begun no such login, or another one since: begin again";
        return Err(refused(why));
    };
    let taken = console.sessions.take_login(&started.digest()).await;
    if !taken.map_err(|error| console.api.refuse(error.into()))? {
        return Err(refused("the login took too long, or came back before: begin again"));
    }
    let error = query.field("error");
    if !error.is_empty() {
        let code = error_code(error).unwrap_or_else(|| "unknown error".to_owned());
        return Err(refused(&format!("the issuer did not log you in: `{code}`")));
    }
    let returned = Returned { code: query.field("code"), issuer: query.field("iss") };
    let subject = oidc.subject(returned, &started, console.api.clock()).await;
    let subject = subject.map_err(|error| failed(console, &error))?;
    let name = format!("{}#{subject}", oidc.issuer());
    let login = Login::oidc(&name);
    let Some(who) = console.api.known(&ShownCredential::Session(login.clone())) else {
        tracing::warn!(person = %shown(&name), "a person of the issuer is no operator");
        let message = format!(
            "no operator has the subject `{subject}` of this issuer: ask for an entry in `operators`"
        );
        return Err(refused(&message));
    };
    let id = opened(console, parts, &login, &who).await?;
    Ok((id, who))
}

/// A login that was refused, counted as every wrong credential is.
fn turned_away(console: &Console, message: &str) -> Failure {
    let credential = ShownCredential::Nothing(IdentityError::Unknown);
    match console.api.identify(&credential) {
        Err(problem) if problem.retry_after.is_some() => Failure::from(problem),
        Err(_) | Ok(_) => Failure::new(StatusCode::UNAUTHORIZED, message),
    }
}

/// A login that the issuer or its answer failed. The log has the reason; a person is not told what to try next.
fn failed(console: &Console, error: &OidcError) -> Failure {
    tracing::warn!(error = %shown(&error.to_string()), "a login at the issuer failed");
    if error.is_ours() {
        let message = "the issuer cannot be asked now: the log of this console says why";
        return Failure::new(StatusCode::SERVICE_UNAVAILABLE, message);
    }
    turned_away(console, "the answer of the issuer does not count: begin again")
}
