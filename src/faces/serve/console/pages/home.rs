//! What waits for this operator.

use std::time::Duration;

use maud::{Markup, html};

use super::{Failure, alerts, approvals, health, shown};
use crate::index::COUNTED_MAX;
use crate::operator::api::replies::Fleet;
use crate::operator::api::requests::{AlertSearch, Page as Lines};
use crate::operator::api::route;
use crate::operator::api::status::{DayCounts, Health};
use crate::serve::console::visit::{Answer, Visit};

/// Held calls shown here; the queue has all.
const LINES: u64 = 10;
/// Alerts shown here; their page has all.
const ALERTS: u64 = 5;

/// What ends within this is shown here; the page of health has all.
const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// A number of calls with what it counts, which leads to the search for them.
fn counted(number: u64, what: &str, query: &str) -> Markup {
    let digits = number.min(COUNTED_MAX).to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    let more = if number > COUNTED_MAX { "+" } else { "" };
    let query: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
    let what = if number == 1 { what.trim_end_matches('s') } else { what };
    html! { a href={ "/console/calls?q=" (query) } { (groups.join(",")) (more) " " (what) } }
}

/// The calls of the last 24 hours.
pub(super) fn since_yesterday(day: &DayCounts) -> Markup {
    html! {
        p {
            (counted(day.calls, "calls", "since:24h")) ", " (counted(day.denied, "denied", "state:denied since:24h")) ", "
            (day.held) " held (" (day.waiting) " waiting, " (day.approved) " approved, " (day.refused) " refused, "
            (counted(day.expired, "expired", "state:expired since:24h")) ")"
            @if day.behind > 0 { span .hint { " " (day.behind) " entries are not counted yet" } }
        }
    }
}

/// The page.
pub(in super::super) async fn home(visit: &mut Visit) -> Result<Answer, Failure> {
    let held = visit.ask::<route::HeldCalls>((), Lines { limit: Some(LINES) }).await?;
    let Health { gates, never_seen, expiring, .. } = visit.ask::<route::Health>((), ()).await?;
    let (fleet, now) = (Fleet { gates, never_seen }, visit.console.api.clock().now());
    let soon = now.plus(SOON).to_string();
    let day = visit.ask::<route::Day>((), ()).await;
    let recent = AlertSearch {
        since: Some("24h".to_owned()),
        limit: Some(ALERTS),
        ..AlertSearch::default()
    };
    let recent = visit.ask::<route::Alerts>((), recent).await?;
    let readiness = visit.console.view.now();
    let body = html! {
        section aria-labelledby="waiting" {
            h2 id="waiting" { "Held calls" }
            (approvals::table(visit, &held))
            @if held.more { p { a href="/console/approvals" { "All held calls" } } }
        }
        section aria-labelledby="ready" {
            h2 id="ready" { "Readiness" }
            (health::readiness(&readiness))
        }
        @if !recent.alerts.is_empty() {
            section aria-labelledby="alerts" {
                h2 id="alerts" { "Alerts since yesterday" }
                (alerts::table(&recent))
                @if recent.more { p { a href="/console/alerts?since=24h" { "All of them" } } }
            }
        }
        section aria-labelledby="day" {
            h2 id="day" { "Since yesterday" }
            @match &day {
                Ok(day) => (since_yesterday(day)),
                Err(failure) => p .empty { (shown(&failure.message)) },
            }
        }
        @if expiring.iter().any(|one| one.at <= soon) {
            section aria-labelledby="ends" {
                h2 id="ends" { "Ends within two weeks" }
                (health::ends(&expiring, &[&soon]))
            }
        }
        section aria-labelledby="gates" {
            h2 id="gates" { "Gates" }
            (health::gates(&fleet))
        }
    };
    Ok(Answer::Page("What waits".to_owned(), body))
}
