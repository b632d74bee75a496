//! Runs: the open ones, those that match a query, and the time line of one.

use maud::{Markup, html};

use super::calls::{self, FILE_LINES, Found};
use super::{Failure, facts, id, shown, time};
use crate::domain::plural::many;
use crate::operator::api::lookups::{RunDetail, RunLine, Runs};
use crate::operator::api::requests::{RunCalls, RunPath, RunSearch};
use crate::operator::api::route;
use crate::serve::console::csv::Csv;
use crate::serve::console::visit::{Answer, Visit};

const RUNS: &str = "/console/runs";
/// Runs as a file.
const FILE: &str = "/console/runs.csv";
/// What a file shows of a run: the members of a line of the operator API.
pub(super) const COLUMNS: &[&str] = &[
    "opened",
    "agent",
    "version",
    "sealed",
    "reason",
    "calls",
    "in_flight",
    "held",
    "denied",
    "parent",
    "manifest",
    "origin",
    "run",
];
/// Which runs a search can be about.
const STATES: [&str; 3] = [OPEN, "sealed", "all"];
/// Those that are shown unless others are asked for.
const OPEN: &str = "open";
/// Lines of a list.
const LINES: u64 = 100;

/// The list.
pub(in super::super) async fn list(visit: &mut Visit) -> Result<Answer, Failure> {
    let asked = RunSearch {
        state: visit.query("state"),
        q: visit.query("q"),
        cursor: visit.query("cursor"),
        limit: Some(LINES),
        ..RunSearch::default()
    };
    let body = match visit.ask::<route::Runs>((), asked.clone()).await {
        Ok(runs) => {
            let file = [("state", state(&asked)), ("q", asked.q.as_deref().unwrap_or_default())];
            html! { (form(&asked, None)) (table(&runs)) (more(&asked, &runs)) (calls::as_file(FILE, &file)) }
        }
        Err(failure) if failure.is_of_query() => form(&asked, Some(&failure)),
        Err(failure) => return Err(failure),
    };
    Ok(Answer::Page("Runs".to_owned(), body))
}

/// The runs of a list, as a file for spreadsheets.
pub(in super::super) async fn csv(visit: &mut Visit) -> Result<Answer, Failure> {
    let (mut file, mut cursor) = (Csv::of(COLUMNS), None);
    loop {
        let (q, limit) = (visit.query("q"), Some(FILE_LINES));
        // Said also where it is what is meant without: so each answer is a search, which has all pages.
        let state = visit.query("state").or_else(|| Some(OPEN.to_owned()));
        let asked = RunSearch { state, q, cursor, limit, ..RunSearch::default() };
        let found = visit.ask::<route::Runs>((), asked).await?;
        cursor = file.add(&found.runs, (found.as_of, found.next));
        if cursor.is_none() {
            return Ok(file.file("runs"));
        }
    }
}

/// Which runs are asked for.
fn state(asked: &RunSearch) -> &str {
    asked.state.as_deref().unwrap_or(OPEN)
}

fn form(asked: &RunSearch, failure: Option<&Failure>) -> Markup {
    let state = state(asked);
    calls::search(
        RUNS,
        (asked.q.as_deref(), failure),
        &html! {
            label for="state" { "State" }
            select id="state" name="state" {
                @for one in STATES { option selected[one == state] { (one) } }
            }
        },
    )
}

fn more(asked: &RunSearch, runs: &Runs) -> Markup {
    let found = Found { as_of: &runs.as_of, behind: runs.behind, next: runs.next.as_deref() };
    calls::more(
        RUNS,
        &[("state", state(asked)), ("q", asked.q.as_deref().unwrap_or_default())],
        &found,
    )
}

/// Runs, as they are ordered in the answer.
pub(super) fn table(runs: &Runs) -> Markup {
    if runs.runs.is_empty() {
        return html! { p .empty { "No run matches." } };
    }
    html! { (lines(&runs.runs, &format!("{} in all", many(runs.open, "open run")))) }
}

fn lines(runs: &[RunLine], caption: &str) -> Markup {
    html! {
        div .wide { table {
            caption { (caption) }
            thead { tr {
                th scope="col" { "Agent" } th scope="col" { "Run" } th scope="col" { "Opened" }
                th scope="col" { "State" } th scope="col" { "Calls" } th scope="col" { "Running" }
                th scope="col" { "Held" } th scope="col" { "Denied" }
            } }
            tbody { @for run in runs { tr data-row {
                th scope="row" {
                    a href={ (RUNS) "/" (shown(&run.run)) } { (shown(&run.agent)) " " (shown(&run.version)) }
                }
                td { (id(&run.run)) }
                td { (time(&run.opened)) }
                td { @match &run.sealed { None => "open", Some(at) => { "sealed " (time(at)) } } }
                td { (run.calls) } td { (run.in_flight) } td { (run.held) } td { (run.denied) }
            } } }
        } }
    }
}

/// One run, with its calls in the order they began.
pub(in super::super) async fn one(visit: &mut Visit) -> Result<Answer, Failure> {
    let path = visit.path::<RunPath>().await?;
    let after = visit.query("after").and_then(|text| text.parse().ok());
    let asked = RunCalls { after, limit: Some(LINES) };
    let detail = visit.ask::<route::RunDetail>(path, asked).await?;
    let title = format!("Run of {}", shown(&detail.run.agent));
    Ok(Answer::Page(title, timeline(&detail, visit.may::<route::Stop>())))
}

pub(super) fn timeline(detail: &RunDetail, stops: bool) -> Markup {
    let run = &detail.run;
    let stop = |action: &str| {
        format!("/console/orders/new?action={action}&target=run&name={}", shown(&run.run))
    };
    let found = Found { as_of: &detail.as_of, behind: detail.behind, next: None };
    html! {
        (facts(&[
            ("Run", id(&run.run)),
            ("Agent", html! { (shown(&run.agent)) " " (shown(&run.version)) }),
            ("State", html! { @match &run.sealed {
                None => "open",
                Some(at) => { "sealed " (time(at)) " " (shown(run.reason.as_deref().unwrap_or("by the agent"))) },
            } }),
            ("Opened", time(&run.opened)),
            ("Parent", html! { @match &run.parent {
                None => "none",
                Some(parent) => a href={ (RUNS) "/" (shown(parent)) } { (shown(parent)) },
            } }),
            ("Manifest", id(&run.manifest)),
            ("Log", id(&run.origin)),
        ]))
        @if stops && run.sealed.is_none() {
            h2 { "Stop" }
            ul {
                li { a href=(stop("suspend")) { "Suspend this run…" } ": new calls are denied, running ones go on" }
                li { a href=(stop("kill")) { "Kill this run…" } ": its running calls are stopped, and it is sealed" }
            }
        }
        h2 { "Calls" }
        (calls::table(&detail.timeline, "in the order they began"))
        @if let Some(next) = detail.next {
            p { a href={ (RUNS) "/" (shown(&run.run)) "?after=" (next) } { "Later calls" } }
        }
        @if !detail.children.is_empty() {
            h2 { "Runs it delegated to" }
            (lines(&detail.children, "the newest first"))
        }
        (calls::more(RUNS, &[], &found))
    }
}
