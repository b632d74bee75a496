//! Whether calls can be governed, and what every gate last said.

use maud::{Markup, html};

use super::{Failure, id, shown, time};
use crate::domain::plural::many;
use crate::operator::api::replies::{Fleet, Gate};
use crate::operator::api::route;
use crate::serve::Readiness;
use crate::serve::console::visit::{Answer, Visit};

/// The page.
pub(in super::super) async fn health(visit: &mut Visit) -> Result<Answer, Failure> {
    let fleet = visit.ask::<route::Fleet>((), ()).await?;
    let now = visit.console.view.now();
    let body = html! {
        h2 { "This process" }
        (readiness(&now))
        h2 { "Gates" }
        (gates(&fleet))
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
