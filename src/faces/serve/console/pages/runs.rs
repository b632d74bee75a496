//! Open runs.

use http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;

use super::{Failure, approvals, command, facts, id, shown, time};
use crate::domain::id::RunId;
use crate::domain::plural::many;
use crate::operator::api::replies::{HeldCalls, OpenRun, Runs};
use crate::operator::api::requests::Page as Lines;
use crate::operator::api::route;
use crate::serve::console::visit::{Answer, Visit};

/// Lines of the list.
const LINES: u64 = 200;

/// The path of the page of one run.
#[derive(Deserialize)]
struct RunPage {
    run: String,
}

/// The list.
pub(in super::super) async fn list(visit: &mut Visit) -> Result<Answer, Failure> {
    let runs = visit.ask::<route::Runs>((), Lines { limit: Some(LINES) }).await?;
    Ok(Answer::Page("Open runs".to_owned(), table(&runs)))
}

/// Open runs, those with held calls first.
pub(super) fn table(runs: &Runs) -> Markup {
    if runs.runs.is_empty() {
        return html! { p .empty { "No run is open." } };
    }
    html! {
        div .wide { table {
            caption { (many(runs.open, "open run")) ", those with held calls first" }
            thead { tr {
                th scope="col" { "Agent" } th scope="col" { "Run" } th scope="col" { "Opened" }
                th scope="col" { "Calls" } th scope="col" { "Running" } th scope="col" { "Held" }
            } }
            tbody { @for run in &runs.runs { tr data-row {
                th scope="row" {
                    a href={ "/console/runs/" (shown(&run.run)) } { (shown(&run.agent)) " " (shown(&run.version)) }
                }
                td { (id(&run.run)) }
                td { (time(&run.opened)) }
                td { (run.calls) } td { (run.in_flight) } td { (run.held) }
            } } }
        } }
        @if runs.more { p { "There are more than are shown." } }
    }
}

/// One open run.
pub(in super::super) async fn one(visit: &mut Visit) -> Result<Answer, Failure> {
    let named = visit.path::<RunPage>().await?;
    let runs = visit.ask::<route::Runs>((), Lines { limit: Some(LINES) }).await?;
    let is = |run: &RunId| runs.runs.iter().find(|open| open.run == run.to_string());
    let Some(run) = RunId::parse(&named.run).as_ref().and_then(is) else {
        let message = if runs.more {
            "this run is sealed, or not among the 200 that are listed"
        } else {
            "no open run has this id: it is sealed, or never was"
        };
        return Err(Failure::new(StatusCode::NOT_FOUND, message));
    };
    let held = visit.ask::<route::HeldCalls>((), Lines { limit: Some(LINES) }).await?;
    let of_run = held.held.into_iter().filter(|call| call.run.as_ref() == Some(&run.run));
    let held: Vec<_> = of_run.collect();
    let calls = held.iter().map(|call| call.count).sum();
    let held = HeldCalls { asks: held.len(), held, calls, more: false };
    Ok(Answer::Page(format!("Run of {}", shown(&run.agent)), detail(visit, run, &held)))
}

fn detail(visit: &Visit, run: &OpenRun, held: &HeldCalls) -> Markup {
    let stop =
        |action: &str| format!("/console/orders/new?action={action}&target=run&name={}", run.run);
    html! {
        (facts(&[
            ("Run", id(&run.run)),
            ("Agent", html! { (shown(&run.agent)) " " (shown(&run.version)) }),
            ("Manifest", id(&run.manifest)),
            ("Opened", time(&run.opened)),
            ("Log", id(&run.origin)),
            ("Calls", html! { (run.calls) ", " (run.in_flight) " running" }),
        ]))
        h2 { "Held calls of this run" }
        (approvals::table(visit, held))
        @if visit.may::<route::Stop>() {
            h2 { "Stop" }
            ul {
                li { a href=(stop("suspend")) { "Suspend this run…" } ": new calls are denied, running ones go on" }
                li { a href=(stop("kill")) { "Kill this run…" } ": its running calls are stopped, and it is sealed" }
            }
        }
        h2 { "Entries of its log" }
        (command(&format!("wicketgate ledger tail --config FILE --chain {} -n 100", run.origin)))
    }
}
