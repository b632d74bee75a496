//! Alerts: what operators should look at, with the run and the call behind each.

use maud::{Markup, html};

use super::{Failure, shown, time};
use crate::domain::plural::many;
use crate::operator::api::alerts::{AlertLine, Alerts};
use crate::operator::api::requests::AlertSearch;
use crate::operator::api::route;
use crate::record::alert::{AlertKind, AlertSeverity};
use crate::serve::console::visit::{Answer, Visit};

const ALERTS: &str = "/console/alerts";
/// Lines of the list.
const LINES: u64 = 100;

/// The alerts that match the address, the newest first.
pub(in super::super) async fn list(visit: &mut Visit) -> Result<Answer, Failure> {
    let given = |name: &str| visit.query(name).filter(|text| !text.is_empty());
    let asked = AlertSearch {
        run: given("run"),
        agent: given("agent"),
        tool: given("tool"),
        alert: given("alert"),
        severity: given("severity"),
        since: given("since"),
        limit: Some(LINES),
    };
    let body = match visit.ask::<route::Alerts>((), asked.clone()).await {
        Ok(alerts) => html! {
            (form(&asked, None))
            (table(&alerts))
            @if alerts.more { p .hint { "There are more: narrow the search." } }
        },
        Err(failure) if failure.is_of_query() => form(&asked, Some(&failure)),
        Err(failure) => return Err(failure),
    };
    Ok(Answer::Page("Alerts".to_owned(), body))
}

/// The form of the search. It reads, so that its address can be kept and sent.
fn form(asked: &AlertSearch, failure: Option<&Failure>) -> Markup {
    let text = |of: &Option<String>| shown(of.as_deref().unwrap_or_default());
    let choice = |name: &str, all: &[&'static str], chosen: Option<&str>| {
        html! {
            select id=(name) name=(name) {
                option value="" { "any" }
                @for one in all { option selected[Some(*one) == chosen] { (one) } }
            }
        }
    };
    html! {
        @if let Some(failure) = failure { p .failure role="alert" { (shown(&failure.message)) } }
        form method="get" action=(ALERTS) role="search" {
            label for="severity" { "Severity" }
            (choice("severity", AlertSeverity::TEXTS, asked.severity.as_deref()))
            label for="alert" { "Alert" }
            (choice("alert", AlertKind::TEXTS, asked.alert.as_deref()))
            label for="agent" { "Agent" }
            input id="agent" name="agent" value=(text(&asked.agent)) autocomplete="off";
            label for="run" { "Run" }
            input id="run" name="run" value=(text(&asked.run)) autocomplete="off";
            label for="since" { "Since a date, a time or a duration back from now, such as " code { "2h" } }
            input id="since" name="since" value=(text(&asked.since)) autocomplete="off";
            button { "Search" }
        }
    }
}

/// Alerts, the newest first.
pub(super) fn table(alerts: &Alerts) -> Markup {
    if alerts.alerts.is_empty() {
        return html! { p .empty { "No alert was raised." } };
    }
    html! {
        div .wide { table {
            caption { (many(alerts.alerts.len(), "alert")) ", newest first" }
            thead { tr {
                th scope="col" { "When" } th scope="col" { "Severity" } th scope="col" { "What" }
                th scope="col" { "Agent" } th scope="col" { "Tool" } th scope="col" { "Run" }
                th scope="col" { "Call" } th scope="col" { "Times" }
            } }
            tbody { @for alert in &alerts.alerts { tr data-row { (row(alert)) } } }
        } }
    }
}

/// The search for the call, which an id of a call alone does not find.
fn call_of(run: &str, call: &str) -> String {
    let query = format!("run:{run} call:{call}");
    let query: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
    format!("/console/calls?q={query}")
}

/// A severity is a word and a sign: color says nothing alone.
fn grade(severity: &str) -> Markup {
    match AlertSeverity::parse(severity) {
        Some(AlertSeverity::Critical) => html! { span .bad { "■ critical" } },
        Some(AlertSeverity::High) => html! { span .bad { "▲ high" } },
        Some(AlertSeverity::Medium) => html! { "● medium" },
        Some(AlertSeverity::Low) => html! { "○ low" },
        None => html! { (shown(severity)) },
    }
}

fn row(alert: &AlertLine) -> Markup {
    let text = |of: &Option<String>| shown(of.as_deref().unwrap_or("–"));
    html! {
        td { (time(&alert.at)) }
        td { (grade(&alert.severity)) }
        th scope="row" { (shown(&alert.title)) " " span .hint { (shown(&alert.alert)) } }
        td { (shown(&alert.agent)) }
        td { (text(&alert.tool)) }
        td { @match &alert.run {
            Some(run) => a href={ "/console/runs/" (shown(run)) } { (shown(run.get(..8).unwrap_or(run))) "…" },
            None => "–",
        } }
        td { @match (&alert.run, &alert.call) {
            (Some(run), Some(call)) => a href=(call_of(run, call)) { (shown(call)) },
            (_, None) | (None, _) => "–",
        } }
        td { (alert.count) }
    }
}
