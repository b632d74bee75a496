//! Logging in, and out.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use http::header::{HeaderValue, SET_COOKIE};
use http::request::Parts;
use maud::{Markup, html};
use zeroize::Zeroizing;

use super::{Failure, facts, frame, token};
use crate::domain::code::Code;
use crate::identity::IdentityError;
use crate::operator::credential::ShownCredential;
use crate::serve::console::ROOT;
use crate::serve::console::form::Form;
use crate::serve::console::session::SessionId;
use crate::serve::console::site::{Console, certificate};
use crate::serve::console::visit::{self, Answer, Visit};

const LOGIN: &str = "/console/login";
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
    let shown = credential(&parts, form.field("token").trim());
    let who = match console.api.identify(&shown) {
        Ok(who) => who,
        Err(problem) => {
            let failure = Failure::from(problem);
            let response = page(&console, &parts, failure.status, Some(&failure));
            return failure.in_time(response);
        }
    };
    let Some(login) = shown.login(console.api.clock().now()) else {
        let message = "the credential has ended";
        return Failure::new(StatusCode::UNAUTHORIZED, message).page(&console);
    };
    if let Some(old) = SessionId::of(&parts.headers, console.secure) {
        console.sessions.end(&old);
    }
    let now = console.api.clock().monotonic();
    tracing::info!(subject = %who.subject, "a session of the console begins");
    let id = console.sessions.begin(login, now, console.api.entropy());
    with_cookie(visit::see_other(ROOT), &id.cookie(console.secure))
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

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(mut value) = HeaderValue::from_str(cookie) {
        value.set_sensitive(true);
        response.headers_mut().insert(SET_COOKIE, value);
    }
    response
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
            ("Logged in with", html! { (visit.who.auth) }),
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
        Ok(visit) => {
            visit.end();
            let cookie = SessionId::no_cookie(visit.console.secure);
            with_cookie(visit::see_other(LOGIN), &cookie)
        }
        Err(response) => *response,
    }
}
