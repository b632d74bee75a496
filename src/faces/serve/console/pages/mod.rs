//! The pages: one question each, in plain HTML.
//!
//! Everything that agents, approvers or other people wrote passes `shown`, which spells out what cannot be seen, and
//! then maud, which escapes it. The frame spells out what a page forgot to pass through it.

pub(super) mod alerts;
pub(super) mod approvals;
pub(super) mod backtest;
pub(super) mod bundle;
pub(super) mod calls;
pub(super) mod custody;
pub(super) mod decisions;
pub(super) mod evidence;
pub(super) mod exceptions;
pub(super) mod health;
pub(super) mod home;
pub(super) mod limits;
pub(super) mod live;
pub(super) mod login;
pub(super) mod me;
pub(super) mod oidc;
pub(super) mod orders;
pub(super) mod policy;
pub(super) mod runs;
pub(super) mod trust;

use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use http::header::RETRY_AFTER;
use maud::{DOCTYPE, Markup, html};

use super::site::Console;
use super::visit::{self, TOKEN, Visit};
use super::{ROOT, assets};
use crate::domain::code::Code;
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::operator::{spelled_out, visible};
use crate::serve::problem::Problem;

/// The pages that every other one leads to: path, name, and the second of the two keys.
const NAVIGATION: &[(&str, &str, &str)] = &[
    ("/console", "Home", "h"),
    ("/console/approvals", "Approvals", "a"),
    ("/console/runs", "Runs", "r"),
    ("/console/calls", "Calls", "c"),
    ("/console/live", "Live", "l"),
    ("/console/alerts", "Alerts", "w"),
    ("/console/health", "Health", "e"),
    ("/console/limits", "Limits", "m"),
    ("/console/trust", "Trust", "t"),
    ("/console/orders", "Orders", "o"),
    ("/console/exceptions", "Exceptions", "x"),
    ("/console/policy", "Policy", "p"),
    ("/console/evidence", "Evidence", "v"),
    ("/console/custody", "Custody", "u"),
];

/// Why there is no page.
pub(super) struct Failure {
    status: StatusCode,
    message: String,
    wait: Option<Duration>,
    /// The page that the reader can go to from here.
    next: String,
}

impl Failure {
    pub(super) fn new(status: StatusCode, message: &str) -> Self {
        Self { status, message: message.to_owned(), wait: None, next: ROOT.to_owned() }
    }

    /// The same; the reader can go to this page.
    pub(super) fn leading_to(self, path: &str) -> Self {
        Self { next: path.to_owned(), ..self }
    }

    /// As the problem that is counted.
    pub(super) fn problem(&self, code: Code) -> Problem {
        Problem::new(code, "console.request", &*self.message)
    }

    const fn title(&self) -> &'static str {
        match self.status {
            StatusCode::FORBIDDEN => "Not allowed",
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::UNAUTHORIZED => "Not logged in",
            StatusCode::TOO_MANY_REQUESTS => "Too many attempts",
            StatusCode::SERVICE_UNAVAILABLE => "Not available now",
            _ => "Not possible",
        }
    }

    /// The page about it, for a browser that is not logged in.
    pub(super) fn page(&self, console: &Console) -> Response {
        self.page_for(console, None)
    }

    /// The page about it.
    pub(super) fn page_for(&self, console: &Console, visit: Option<&Visit>) -> Response {
        let body = html! {
            p .failure role="alert" { (shown(&self.message)) }
            @if let Some(visit) = visit {
                p { "You are " b { (visit.who.subject) } ", as " (visit.who.role_names().join(", ")) "." }
            }
            p { a href=(shown(&self.next)) { "Go on to " (shown(&self.next)) } }
        };
        let page = frame(console, visit, self.title(), &body);
        self.in_time(visit::html(self.status, page))
    }

    /// The response, which says when to try again if that makes sense.
    fn in_time(&self, mut response: Response) -> Response {
        if let Some(wait) = self.wait {
            let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let wait = problem.retry_after;
        Self { wait, ..Self::new(problem.http_status(), &problem.message) }
    }
}

/// A whole page.
pub(super) fn frame(
    console: &Console,
    visit: Option<&Visit>,
    title: &str,
    body: &Markup,
) -> String {
    let ready = console.view.now().ready;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Wicketgate" }
                link rel="icon" href=(assets::path(assets::ICON));
                link rel="stylesheet" href=(assets::path(assets::STYLE));
                @for module in assets::MODULES {
                    script type="module" src=(assets::path(module)) {}
                }
            }
            body {
                a .skip href="#main" { "Skip to the content" }
                header {
                    p .brand {
                        a href=(ROOT) { "Wicketgate" } " " span .tenant { (shown(console.api.tenant())) }
                    }
                    @if ready { p .state .good data-live="ready" { "● ready" } } @else { p .state .bad data-live="ready" { "■ not ready" } }
                    @if let Some(visit) = visit {
                        (live::counters(console))
                        nav aria-label="Pages" { ul {
                            @for (path, name, key) in NAVIGATION {
                                li { a href=(path) data-key=(key) { (name) } }
                            }
                        } }
                        p .who { a href="/console/me" { (visit.who.subject) } }
                    }
                }
                main id="main" {
                    h1 { (title) }
                    (body)
                }
                @if visit.is_some() {
                    footer { p {
                        "As of " (time(&console.api.clock().now().to_string())) ". Keys: " kbd { "g" } " then"
                        @for (_, _, key) in NAVIGATION { " " kbd { (key) } }
                        "; " kbd { "j" } " and " kbd { "k" } " for rows; " kbd { "/" } " to search."
                    } }
                }
            }
        }
        "\n"
    };
    spelled_out(&page.into_string())
}

/// A text of an agent or of a person: what cannot be seen is spelled out.
fn shown(text: &str) -> String {
    visible(text)
}

/// An id, which can be copied whole.
fn id(text: &str) -> Markup {
    html! { code .id { (shown(text)) } }
}

/// The same, for the module that signs: it signs what is shown here.
fn marked(name: &str, text: &str) -> Markup {
    html! { code .id data-is=(name) { (shown(text)) } }
}

/// An instant as `2026-11-21T20:05:03.123Z`. A module shows it in the time of the reader.
fn time(text: &str) -> Markup {
    let short = text.split('.').next().unwrap_or_default().replace('T', " ");
    html! { time datetime=(shown(text)) title=(shown(text)) { (shown(&short)) " UTC" } }
}

/// How long until this instant, for a person.
fn left(now: Timestamp, until: &str) -> String {
    let Some(until) = Timestamp::parse(until) else { return "no end".to_owned() };
    let seconds = until.millis().saturating_sub(now.millis()).max(0).unsigned_abs() / 1000;
    match (seconds, seconds / 60) {
        (0, _) => "has ended".to_owned(),
        (1..=90, _) => format!("ends in {}", many(seconds, "second")),
        (_, minutes) => format!("ends in {}", many(minutes, "minute")),
    }
}

/// The beginning of a form that is sent to this path.
fn token(visit: &Visit, path: &str) -> Markup {
    html! { input type="hidden" name=(TOKEN) value=(visit.token(path)); }
}

/// A command for a terminal.
fn command(text: &str) -> Markup {
    html! { pre .command { code .id { (shown(text)) } } }
}

/// A word of a command, as a shell reads it.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:/@+=,".contains(c);
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(plain) {
        return text.to_owned();
    }
    // WHY: without a backslash, which a page writes twice.
    format!("'{}'", text.replace('\'', r#"'"'"'"#))
}

/// Facts as a list of names and values.
fn facts(all: &[(&str, Markup)]) -> Markup {
    html! { dl { @for (name, value) in all { div { dt { (name) } dd { (value) } } } } }
}

#[cfg(test)]
mod tests;
