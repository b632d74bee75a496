//! One request of an operator who is logged in: session, right and form token are checked before a page sees it.

use std::sync::Arc;

use axum::RequestPartsExt as _;
use axum::body::Body;
use axum::extract::{Path, Request};
use axum::response::Response;
use http::header::{ACCEPT, CONTENT_DISPOSITION, HeaderValue, LOCATION};
use http::request::Parts;
use http::{Method, StatusCode};
use maud::Markup;
use serde::de::DeserializeOwned;

use super::ROOT;
use super::form::Form;
use super::guard;
use super::pages::{Failure, frame};
use super::session::SessionId;
use super::site::{Console, certificate};
use crate::domain::code::Code;
use crate::operator::api::{Route, Serve, ask};
use crate::operator::live::{Standing, last_event};
use crate::operator::operators::{Operator, Right};
use crate::serve::problem::Problem;

/// The field of a form that carries its token.
pub(super) const TOKEN: &str = "form";

/// What a page answers with.
pub(super) enum Answer {
    /// A page, with its title.
    Page(String, Markup),
    /// A file, which the browser stores.
    Download {
        /// Under this name.
        name: String,
        /// As this (RFC 9110, section 8.3).
        media_type: &'static str,
        /// What it holds.
        text: String,
    },
    /// Something was changed: the browser shows this path next.
    SeeOther(String),
    /// A file to keep, as a route answers with it.
    File(Response),
    /// A stream of events.
    Events(Response),
}

/// A request of an operator.
pub(super) struct Visit {
    pub console: Arc<Console>,
    pub who: Operator,
    /// The fields, of a request that changes something.
    pub form: Form,
    id: SessionId,
    parts: Parts,
}

impl Visit {
    /// Checks a request, in this order: session, right, form token.
    ///
    /// # Errors
    /// The answer to a request that does not pass.
    pub(super) async fn enter(
        console: Arc<Console>,
        request: Request,
        right: Option<Right>,
    ) -> Result<Self, Box<Response>> {
        let (parts, body) = request.into_parts();
        let (id, who) = match console.session(&parts).await {
            Ok(Some(session)) => session,
            Ok(None) => return Err(Box::new(without_session(&parts))),
            Err(problem) => {
                let failure = Failure::from(console.api.refuse(problem));
                return Err(Box::new(failure.page(&console)));
            }
        };
        let mut visit = Self { console, who, form: Form::default(), id, parts };
        let checked = match right.map(|right| visit.console.api.permit(&visit.who, right)) {
            Some(Err(problem)) => Err(Failure::from(problem)),
            Some(Ok(())) | None => visit.read(body).await,
        };
        match checked {
            Ok(()) => Ok(visit),
            Err(failure) => Err(Box::new(visit.answer(Err(failure)))),
        }
    }

    /// Reads the form of a request that changes something, and checks its token.
    async fn read(&mut self, body: Body) -> Result<(), Failure> {
        if self.parts.method != Method::POST {
            return Ok(());
        }
        let refused = |message: &str| {
            let problem = Problem::new(Code::RequestMalformed, "console.form", message);
            self.console.api.refuse(problem);
            Failure::new(StatusCode::FORBIDDEN, message)
        };
        let form = Form::read(&self.parts.headers, body).await.map_err(refused)?;
        if !self.id.is_token(self.parts.uri.path(), form.field(TOKEN)) {
            return Err(refused("the form is not of this session: open its page again"));
        }
        self.form = form;
        Ok(())
    }

    /// The parameters of the path.
    pub(super) async fn path<T: DeserializeOwned + Send + 'static>(
        &mut self,
    ) -> Result<T, Failure> {
        let read = self.parts.extract::<Path<T>>().await;
        let missing = "the console has no page at this address";
        read.map(|Path(path)| path).map_err(|_| Failure::new(StatusCode::NOT_FOUND, missing))
    }

    /// A field of the query, if it is there and not empty.
    pub(super) fn query(&self, name: &str) -> Option<String> {
        let query = self.parts.uri.query().unwrap_or_default();
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        let value = pairs.find(|(one, _)| one == name).map(|(_, value)| value.into_owned());
        value.filter(|value| !value.is_empty())
    }

    /// What a route of the operator API answers this operator.
    pub(super) async fn ask<R: Serve>(
        &self,
        path: R::Path,
        request: R::Request,
    ) -> Result<R::Reply, Failure> {
        Ok(ask::<R>(&self.console.api, &self.who, (path, request)).await?)
    }

    /// Whether the route would answer this operator.
    pub(super) fn may<R: Route>(&self) -> bool {
        self.who.may(R::ROW.right)
    }

    /// The event that the browser names as its last one.
    pub(super) fn last_event(&self) -> Option<String> {
        last_event(&self.parts.headers).or_else(|| self.query("after"))
    }

    /// As long as the session of this request is open and its operator has the right of the route.
    pub(super) fn standing<R: Route>(&self) -> Standing {
        let (console, session) = (Arc::clone(&self.console), self.id.digest());
        let certificate = certificate(&self.parts).cloned();
        Standing::of(move |_| {
            let (console, certificate) = (Arc::clone(&console), certificate.clone());
            async move {
                let who = console.standing(&session, certificate.as_ref()).await;
                who.is_some_and(|who| who.may(R::ROW.right))
            }
        })
    }

    /// Where this operator reaches the operator API, for a command in a terminal: where the browser reaches it.
    pub(super) fn url(&self) -> Option<String> {
        let named = || guard::named(&self.console, &self.parts.headers, &self.parts.uri);
        let url = self.console.origins.first().cloned().or_else(named)?;
        // A shell reads it.
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._:/[]".contains(c);
        url.chars().all(plain).then_some(url)
    }

    /// The token of a form that is sent to this path.
    pub(super) fn token(&self, path: &str) -> String {
        self.id.token(path)
    }

    /// Ends the session.
    ///
    /// # Errors
    /// Sessions cannot be changed now: it goes on.
    pub(super) async fn end(&self) -> Result<(), Failure> {
        let ended = self.console.sessions.end(&self.id).await.map_err(Problem::from);
        ended.map_err(|problem| self.console.api.refuse(problem).into())
    }

    /// The answer as the browser gets it.
    pub(super) fn answer(&self, page: Result<Answer, Failure>) -> Response {
        match page {
            Ok(Answer::Page(title, body)) => {
                html(StatusCode::OK, frame(&self.console, Some(self), &title, &body))
            }
            Ok(Answer::Download { name, media_type, text }) => file(&name, media_type, text),
            Ok(Answer::SeeOther(path)) => see_other(&path),
            Ok(Answer::File(response)) => response,
            Ok(Answer::Events(response)) => response,
            Err(failure) => failure.page_for(&self.console, Some(self)),
        }
    }
}

/// The answer to a request without a session: the login, or nothing for a script that follows the live feed. WHY: the
/// page of a login is no stream, and a browser would tell its reader of a fault. 204 ends the following.
fn without_session(parts: &Parts) -> Response {
    let accepts = parts.headers.get(ACCEPT).and_then(|accepts| accepts.to_str().ok());
    if !accepts.is_some_and(|accepts| accepts.contains("text/event-stream")) {
        return see_other(&format!("{ROOT}/login"));
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// The browser shows this path next.
pub(super) fn see_other(path: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let to = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static(ROOT));
    response.headers_mut().insert(LOCATION, to);
    response
}

/// A file as a response: a browser stores it and shows nothing of it.
fn file(name: &str, media_type: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    let kind = HeaderValue::from_static(media_type);
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    let stored = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""));
    let stored = stored.unwrap_or(HeaderValue::from_static("attachment"));
    response.headers_mut().insert(CONTENT_DISPOSITION, stored);
    response
}

/// A page as a response.
pub(super) fn html(status: StatusCode, page: String) -> Response {
    let mut response = Response::new(Body::from(page));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}
