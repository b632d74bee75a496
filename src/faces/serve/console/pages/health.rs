//! Whether calls can be governed, and what every gate last said.

use maud::{Markup, html};

use super::{Failure, id, shown, time};
use crate::domain::plural::many;
use crate::operator::api::replies::{Fleet, Gate};
use crate::operator::api::route;
use crate::operator::api::status::{Expiration, Health, HealthChange};
use crate::serve::Readiness;
use crate::serve::console::visit::{Answer, Visit};

/// The page.
pub(in super::super) async fn health(visit: &mut Visit) -> Result<Answer, Failure> {
    let Health { gates: all, never_seen, changes, expiring, .. } =
        visit.ask::<route::Health>((), ()).await?;
    let now = visit.console.view.now();
    let body = html! {
        h2 { "This process" }
        (readiness(&now))
        h2 { "Gates" }
        (gates(&Fleet { gates: all, never_seen }))
        h2 { "What ends soon" }
        (ends(&expiring, &[]))
        h2 { "Changes" }
        (history(&changes))
    };
    Ok(Answer::Page("Health".to_owned(), body))
}

/// Readiness with its reasons.
pub(super) fn readiness(now: &Readiness) -> Markup {
    html! {
        @if now.ready { p .good { "● ready" } } @else { p .bad { "■ not ready" } }
        @if !now.reasons.is_empty() {
            ul { @for reason in &now.reasons { li { (shown(reason)) } } }
        }
        @if !now.notes.is_empty() {
            h3 { "To know" }
            ul { @for note in &now.notes { li { (shown(note)) } } }
        }
    }
}

/// What ends at a known time, without what ends later than the last of these times.
pub(super) fn ends(expiring: &[Expiration], until: &[&str]) -> Markup {
    let soon = |one: &&Expiration| until.iter().all(|until| *one.at <= **until);
    let expiring: Vec<&Expiration> = expiring.iter().filter(soon).collect();
    html! {
        @if expiring.is_empty() { p .empty { "Nothing, as far as this process knows." } }
        ul { @for one in expiring { li { (shown(&one.what)) ": " (time(&one.at)) } } }
    }
}

/// Changes of health, the newest first.
pub(super) fn history(changes: &[HealthChange]) -> Markup {
    if changes.is_empty() {
        return html! { p .empty { "No change is known." } };
    }
    html! {
        div .wide { table {
            caption { (many(changes.len(), "change")) ", newest first: of this process since its start, and as gates recorded them" }
            thead { tr {
                th scope="col" { "When" } th scope="col" { "Of" } th scope="col" { "From then on" } th scope="col" { "Why" }
            } }
            tbody { @for change in changes { tr data-row {
                td { (time(&change.at)) }
                th scope="row" { @match &change.origin { None => "this process", Some(origin) => (id(origin)) } }
                td { @if change.ready { span .good { "● ready" } } @else { span .bad { "■ not ready" } } }
                td { @for reason in &change.reasons { p { (shown(reason)) } } }
            } } }
        } }
    }
}

/// Every gate.
pub(super) fn gates(fleet: &Fleet) -> Markup {
    html! {
        @if fleet.gates.is_empty() { p .empty { "No gate has reported yet." } } @else {
            div .wide { table {
                caption { (many(fleet.gates.len(), "gate")) }
                thead { tr {
                    th scope="col" { "Gate" } th scope="col" { "Standing" } th scope="col" { "Last report" }
                    th scope="col" { "Runs" } th scope="col" { "Running" } th scope="col" { "Held" }
                    th scope="col" { "Newest order" }
                } }
                tbody { @for gate in &fleet.gates { tr data-row { (row(gate)) } } }
            } }
        }
        @if !fleet.never_seen.is_empty() {
            h3 { "Logs with open runs whose gate has never reported" }
            ul { @for origin in &fleet.never_seen { li { (id(origin)) } } }
        }
    }
}

fn row(gate: &Gate) -> Markup {
    let sign = match gate.standing.as_str() {
        "there" => "●",
        "stopped" => "○",
        _ => "■",
    };
    let number = |of: Option<usize>| of.map_or_else(|| "–".to_owned(), |n| n.to_string());
    html! {
        th scope="row" { (id(&gate.origin)) " " span .hint { (shown(&gate.writer)) } }
        td { (sign) " " (shown(&gate.standing)) }
        td { (time(&gate.last_seen)) }
        td { (number(gate.runs)) } td { (number(gate.in_flight)) } td { (number(gate.held)) }
        td { (gate.obeyed) }
    }
}
