//! Logging in, and out.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use maud::{Markup, html};
use zeroize::Zeroizing;

use super::{Failure, facts, frame, shown, token};
use crate::domain::code::Code;
use crate::identity::IdentityError;
use crate::operator::credential::ShownCredential;
use crate::operator::operators::{Login, Operator};
use crate::serve::console::ROOT;
use crate::serve::console::cookie::SESSION;
use crate::serve::console::form::Form;
use crate::serve::console::oidc;
use crate::serve::console::session::SessionId;
use crate::serve::console::site::{Console, certificate};
use crate::serve::console::visit::{self, Answer, Visit};

pub(super) const LOGIN: &str = "/console/login";
const LOGOUT: &str = "/console/logout";

/// The form that asks for a credential.
pub(in super::super) async fn form(
    State(console): State<Arc<Console>>,
    request: Request,
) -> Response {
    let (parts, _body) = request.into_parts();
    page(&console, &parts, StatusCode::OK, None)
}

fn page(
    console: &Console,
    parts: &Parts,
    status: StatusCode,
    failure: Option<&Failure>,
) -> Response {
    let body = html! {
        @if let Some(failure) = failure {
            p .failure role="alert" { (failure.message) }
        }
        @if let Some(oidc) = console.oidc.as_ref().filter(|_| certificate(parts).is_none()) {
            p { a href=(oidc::START) { "Log in with " (shown(oidc.name())) } }
        }
        form method="post" action=(LOGIN) {
            @if certificate(parts).is_some() {
                p { "This connection has a client certificate." }
                button { "Log in with the certificate" }
            } @else {
                label for="token" { "Operator token" }
                input type="password" id="token" name="token" autocomplete="off" required autofocus;
                p .hint {
                    "The content of the operator's "
                    code { "token_file" } ". Wicketgate keeps the session, not the token."
                }
                button { "Log in" }
            }
        }
    };
    visit::html(status, frame(console, None, "Log in", &body))
}

/// Opens a session under a new id, whatever id the browser showed.
pub(in super::super) async fn log_in(
    State(console): State<Arc<Console>>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let form = match Form::read(&parts.headers, body).await {
        Ok(form) => form,
        Err(why) => {
            let failure = Failure::new(StatusCode::FORBIDDEN, why);
            console.api.refuse(failure.problem(Code::RequestMalformed));
            return failure.page(&console);
        }
    };
    let credential = credential(&parts, form.field("token").trim());
    let who = match console.api.identify(&credential) {
        Ok(who) => who,
        Err(problem) => {
            let failure = Failure::from(problem);
            let response = page(&console, &parts, failure.status, Some(&failure));
            return failure.in_time(response);
        }
    };
    let Some(login) = credential.login(console.api.clock().now()) else {
        let message = "the credential has ended";
        return Failure::new(StatusCode::UNAUTHORIZED, message).page(&console);
    };
    match opened(&console, &parts, &login, &who).await {
        Ok(id) => {
            let mut response = visit::see_other(ROOT);
            id.give(&mut response, console.secure);
            response
        }
        Err(failure) => failure.page(&console),
    }
}

/// Opens a session of this operator under a new id, and ends the one that the browser had.
pub(super) async fn opened(
    console: &Console,
    parts: &Parts,
    login: &Login,
    who: &Operator,
) -> Result<SessionId, Failure> {
    let opened = async {
        if let Some(old) = SessionId::of(&parts.headers, console.secure) {
            console.sessions.end(&old).await?;
        }
        console.sessions.begin(login, console.api.entropy()).await
    };
    let id = opened.await.map_err(|error| console.api.refuse(error.into()))?;
    tracing::info!(subject = %who.subject, auth = %who.auth, "a session of the console begins");
    Ok(id)
}

/// The credential that a login shows. As everywhere, a token and a certificate together are none.
fn credential(parts: &Parts, token: &str) -> ShownCredential {
    match (certificate(parts), token) {
        (Some(certificate), "") => ShownCredential::Certificate(Arc::clone(certificate)),
        (None, "") => ShownCredential::Nothing(IdentityError::Missing),
        (None, token) => ShownCredential::Token(Zeroizing::new(token.to_owned())),
        (Some(_), _) => ShownCredential::Nothing(IdentityError::Ambiguous),
    }
}

/// Who is logged in, and the button to leave.
pub(in super::super) async fn session(
    State(console): State<Arc<Console>>,
    request: Request,
) -> Response {
    match Visit::enter(console, request, None).await {
        Ok(visit) => visit.answer(Ok(Answer::Page("Your session".to_owned(), who(&visit)))),
        Err(response) => *response,
    }
}

fn who(visit: &Visit) -> Markup {
    html! {
        (facts(&[
            ("Operator", html! { (visit.who.subject) }),
            ("Roles", html! { (visit.who.role_names().join(", ")) }),
            ("Logged in with", html! { (shown(&visit.who.auth)) }),
        ]))
        p {
            "The session ends 15 minutes after its last request and after 8 hours in any case. It ends at once \
             when the configuration no longer has its credential."
        }
        form method="post" action=(LOGOUT) {
            (token(visit, LOGOUT))
            button { "Log out" }
        }
    }
}

/// Ends the session.
pub(in super::super) async fn log_out(
    State(console): State<Arc<Console>>,
    request: Request,
) -> Response {
    match Visit::enter(console, request, None).await {
        Ok(visit) => match visit.end().await {
            Ok(()) => {
                let mut response = visit::see_other(LOGIN);
                SESSION.set(&mut response, None, visit.console.secure);
                response
            }
            Err(failure) => visit.answer(Err(failure)),
        },
        Err(response) => *response,
    }
}
