//! Backtests of one bundle: which recorded decisions it would change.

use maud::{Markup, html};
use serde_json::Value;

use super::bundle::shown_lines;
use super::policy::POLICY;
use super::{Failure, command, facts, id, shown, time, token};
use crate::domain::plural::many;
use crate::operator::api::policies::{BacktestJob, BacktestJobs};
use crate::operator::api::requests::{BacktestPath, BacktestRequest, BundlePath};
use crate::operator::api::route;
use crate::serve::console::visit::{Answer, Visit};

const TITLE: &str = "Test on recorded decisions";

fn path_of(bundle: &str) -> String {
    format!("{POLICY}/{bundle}/backtest")
}

/// The form, the backtests of this bundle, and the one that the query names.
pub(in super::super) async fn list(visit: &mut Visit) -> Result<Answer, Failure> {
    let BundlePath { bundle } = visit.path::<BundlePath>().await?;
    let jobs = visit.ask::<route::Backtests>((), ()).await?;
    let named = match visit.query("id") {
        Some(id) => Some(visit.ask::<route::BacktestDetail>(BacktestPath { id }, ()).await?),
        None => None,
    };
    // The form is sent to the path that the browser asked for.
    let path = path_of(&bundle);
    let body = html! {
        p { "Bundle " a href={ (POLICY) "/" (shown(&bundle)) } { (id(&bundle)) } }
        @if let Some(job) = &named { (result(job, &path)) }
        h2 { "Begin a backtest" }
        p { "A process of its own reads at most a million decisions, oldest first, and decides each again by this bundle. One runs at a time." }
        form method="post" action=(shown(&path)) {
            (token(visit, &path))
            label for="since" { "Since a date, a time or a duration, such as " code { "7d" } "; empty for all" }
            input id="since" name="since" autocomplete="off";
            label for="until" { "Until; empty for now" }
            input id="until" name="until" autocomplete="off";
            label for="agent" { "Only calls of this agent" }
            input id="agent" name="agent" autocomplete="off";
            label for="tool" { "Only calls of this tool" }
            input id="tool" name="tool" autocomplete="off";
            button { "Begin" }
        }
        h2 { "Backtests of this bundle" }
        (table(&jobs, &bundle))
    };
    Ok(Answer::Page(TITLE.to_owned(), body))
}

/// Begins one.
pub(in super::super) async fn begin(visit: &mut Visit) -> Result<Answer, Failure> {
    let BundlePath { bundle } = visit.path::<BundlePath>().await?;
    let path = path_of(&bundle);
    let field = |name: &str| {
        let text = visit.form.field(name);
        Some(text.to_owned()).filter(|text| !text.is_empty())
    };
    let [since, until, agent, tool] = ["since", "until", "agent", "tool"].map(field);
    let asked = BacktestRequest { bundle, since, until, agent, tool, limit: None };
    let job = visit
        .ask::<route::Backtest>((), asked)
        .await
        .map_err(|failure| failure.leading_to(&path))?;
    Ok(Answer::SeeOther(format!("{path}?id={}", job.id)))
}

/// Backtests of a bundle.
pub(super) fn table(jobs: &BacktestJobs, bundle: &str) -> Markup {
    let ours: Vec<&BacktestJob> =
        jobs.backtests.iter().filter(|job| job.bundle == bundle).collect();
    if ours.is_empty() {
        return html! { p .empty { "This process has none: a restart forgets them." } };
    }
    html! {
        div .wide { table {
            caption { (many(ours.len(), "backtest")) ", newest first" }
            thead { tr {
                th scope="col" { "Began" } th scope="col" { "By" } th scope="col" { "State" } th scope="col" { "Id" }
            } }
            tbody { @for job in ours { tr data-row {
                th scope="row" { a href={ (shown(&path_of(bundle))) "?id=" (shown(&job.id)) } { (time(&job.began)) } }
                td { (shown(&job.subject)) }
                td { (shown(&job.state)) }
                td { (id(&job.id)) }
            } } }
        } }
    }
}

/// One backtest.
pub(super) fn result(job: &BacktestJob, path: &str) -> Markup {
    html! {
        h2 { "Backtest " (id(&job.id)) }
        @match job.state.as_str() {
            "running" => p { "It runs since " (time(&job.began)) ". " a href={ (shown(path)) "?id=" (shown(&job.id)) } { "Look again" } },
            "done" => (counts(job)),
            _ => p .failure role="alert" { "It failed: " (shown(job.error.as_deref().unwrap_or("it ended without a result"))) },
        }
    }
}

fn counts(job: &BacktestJob) -> Markup {
    let found = job.result.get("result").unwrap_or(&Value::Null);
    let number = |name: &str| found.get(name).and_then(Value::as_u64).unwrap_or_default();
    let list = |name: &str| found.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let (groups, faults, left) = (list("groups"), list("faults"), list("unjudged"));
    let limited = job.result.get("limited").and_then(Value::as_bool) == Some(true);
    let envelope = serde_json::to_string_pretty(&job.statement).unwrap_or_default();
    html! {
        (facts(&[
            ("Evaluated", html! { (many(number("judged"), "decision")) }),
            ("Changed", html! { b { (number("flips")) } }),
            ("The same", html! { (number("same")) }),
            ("No policy asked", html! { (number("not_asked")) }),
            ("Compared with", html! { "the recorded decisions" }),
        ]))
        @if limited { p .bad { "■ It stopped at the limit: there may be more decisions." } }
        @if groups.is_empty() { p .empty { "No decision changes." } } @else { (changed(&groups)) }
        @for (title, some) in [("Engine faults under this bundle: each is a denial", &faults), ("Not evaluated", &left)] {
            @if !some.is_empty() {
                h3 { (title) }
                ul { @for one in some { li { (text(one, "what")) ": " (count(one)) } } }
            }
        }
        details {
            summary { "The signed statement of this result" }
            p { "Save it as " code { "backtest.dsse.json" } " to verify it later, with the public half of the evidence key:" }
            (command("wicketgate policy backtest --verify backtest.dsse.json --public-key evidence.pem.pub --bundle DIR"))
            pre .arguments tabindex="0" { (shown_lines(&envelope)) }
        }
    }
}

fn text(of: &Value, name: &str) -> String {
    shown(of.get(name).and_then(Value::as_str).unwrap_or_default())
}

fn count(of: &Value) -> u64 {
    of.get("count").and_then(Value::as_u64).unwrap_or_default()
}

fn changed(groups: &[Value]) -> Markup {
    html! {
        div .wide tabindex="0" { table {
            caption { (many(groups.len(), "difference")) }
            thead { tr {
                th scope="col" { "Change" } th scope="col" { "Calls" } th scope="col" { "Before" }
                th scope="col" { "After" }
            } }
            tbody { @for group in groups { tr data-row {
                th scope="row" { (text(group, "change")) }
                td { (count(group)) }
                td { (text(group, "old")) }
                td { (text(group, "new")) }
            } } }
        } }
    }
}
