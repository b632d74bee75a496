//! Evidence: what was exported, the forms that export, and the ledger verified by the process that serves it.

use http::StatusCode;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::{Failure, facts, id, shown, time, token};
use crate::domain::plural::many;
use crate::index::query;
use crate::operator::api::audits::{AuditCheck, AuditReport, Exports};
use crate::operator::api::requests::{AuditSelection, Export};
use crate::operator::api::route;
use crate::operator::http::HttpReply as _;
use crate::serve::console::visit::{Answer, Visit};

const EVIDENCE: &str = "/console/evidence";
const EXPORT: &str = "/console/evidence/export";
const VERIFY: &str = "/console/evidence/verify";
/// The verdicts that a population can be narrowed to.
const VERDICTS: [&str; 4] = ["", "allow", "deny", "require_approval"];

/// The page.
pub(in super::super) async fn page(visit: &mut Visit) -> Result<Answer, Failure> {
    let exports = visit.ask::<route::Exports>((), ()).await?;
    let run = visit.query("run").unwrap_or_default();
    let body = html! {
        @if visit.console.api.has_evidence() {
            (verify_forms(visit, &run))
            (export_forms(visit, &run))
        } @else {
            p .failure {
                "No evidence key is configured here (" code { "evidence.key" } "): this process exports nothing and verifies \
                 nothing. The commands " code { "wicketgate evidence export" } " and " code { "wicketgate ledger verify" }
                " read the ledger themselves."
            }
        }
        h2 { "Exports" }
        (table(&exports))
    };
    Ok(Answer::Page("Evidence".to_owned(), body))
}

fn text_field(name: &str, label: &str, value: &str) -> Markup {
    field((name, name), (label, value), false)
}

/// A field; ids are of the page, names of the form.
fn field((id, name): (&str, &str), (label, value): (&str, &str), required: bool) -> Markup {
    html! {
        label for=(id) { (label) }
        input id=(id) name=(name) value=(value) required[required] autocomplete="off";
    }
}

fn verify_forms(visit: &Visit, run: &str) -> Markup {
    html! {
        h2 { "Verify the ledger" }
        p {
            "The checks of the offline verifier, by this process on its own ledger: a row that was changed is named. \
             Someone who does not trust this machine exports a bundle and verifies it elsewhere."
        }
        h3 { "A run" }
        form method="post" action=(VERIFY) {
            (token(visit, VERIFY))
            (field(("verify-run", "run"), ("Id of the run", run), true))
            (field(("verify-call", "call"), ("Id of a call of it; empty for all", ""), false))
            button { "Verify the run" }
        }
        h3 { "A range of a chain" }
        form method="post" action=(VERIFY) {
            (token(visit, VERIFY))
            (field(("verify-chain", "chain"), ("Name of the log, or the chain in hex", ""), true))
            (field(("verify-from", "from"), ("First entry", "0"), true))
            (field(("verify-to", "to"), ("Entry after the last; empty for as many as one request takes", ""), false))
            button { "Verify the range" }
        }
    }
}

fn export_forms(visit: &Visit, run: &str) -> Markup {
    let payloads = |id: &str| {
        html! {
            label for=(id) { "With the payloads" }
            input id=(id) name="payloads" type="checkbox" value="yes";
        }
    };
    html! {
        h2 { "Export" }
        p { "A bundle that anyone can verify offline. The fleet log records it, with your name." }
        h3 { "A run" }
        form method="post" action=(EXPORT) {
            (token(visit, EXPORT))
            input type="hidden" name="scope" value="run";
            (field(("export-run", "run"), ("Id of the run", run), true))
            (text_field("redact", "Members to hide, such as args:iban,note", ""))
            button { "Export the run" }
        }
        h3 { "A range of a log" }
        form method="post" action=(EXPORT) {
            (token(visit, EXPORT))
            input type="hidden" name="scope" value="range";
            (field(("export-log", "log"), ("Name of the log", ""), true))
            (field(("export-from", "from"), ("First entry", "0"), true))
            (field(("export-to", "to"), ("Entry after the last", ""), true))
            (payloads("export-range-payloads"))
            button { "Export the range" }
        }
        h3 { "All chains" }
        form method="post" action=(EXPORT) {
            (token(visit, EXPORT))
            input type="hidden" name="scope" value="population";
            (text_field("since", "Since a date, a time or a duration; empty for all", ""))
            (text_field("until", "Until; empty for now", ""))
            (text_field("agent", "Only decisions in runs of this agent", ""))
            (text_field("tool", "Only decisions about this tool", ""))
            label for="verdict" { "Only decisions with this verdict" }
            select id="verdict" name="verdict" {
                @for one in VERDICTS { option value=(one) { (if one.is_empty() { "any" } else { one }) } }
            }
            (payloads("export-all-payloads"))
            button { "Export all chains" }
        }
    }
}

/// What was exported.
pub(super) fn table(exports: &Exports) -> Markup {
    if exports.exports.is_empty() {
        return html! { p .empty { "Nothing was exported." } };
    }
    html! {
        div .wide { table {
            caption { (many(exports.exports.len(), "export")) ", newest first" }
            thead { tr {
                th scope="col" { "When" } th scope="col" { "Scope" } th scope="col" { "Query" }
                th scope="col" { "By" } th scope="col" { "Entries" } th scope="col" { "manifest.json" }
            } }
            tbody { @for one in &exports.exports { tr data-row {
                th scope="row" { (time(&one.at)) p .hint { "entry " (one.entry) " of " (shown(&one.fleet)) } }
                td { (shown(&one.scope)) }
                td { @for term in &one.query { p { (shown(&term.name)) " " code { (shown(&term.value)) } } } }
                td { (shown(&one.requester)) }
                td { (one.entries) }
                td { (id(&one.manifest)) }
            } } }
        } }
        @if exports.more { p { "There are more exports than are shown." } }
    }
}

/// Makes a bundle, which the browser keeps as a file.
pub(in super::super) async fn export(visit: &mut Visit) -> Result<Answer, Failure> {
    let asked = asked(visit).map_err(|failure| failure.leading_to(EVIDENCE))?;
    let made = visit.ask::<route::Export>((), asked).await;
    let made = made.map_err(|failure| failure.leading_to(EVIDENCE))?;
    Ok(Answer::File(made.answer(&visit.console.api)))
}

/// The export that a form describes.
fn asked(visit: &Visit) -> Result<Export, Failure> {
    let field = |name: &str| visit.form.field(name).trim().to_owned();
    let mut query = Map::new();
    let mut put = |name: &str, value: Value| drop(query.insert(name.to_owned(), value));
    put("scope", field("scope").into());
    for name in ["run", "log", "agent", "tool", "verdict"] {
        let value = field(name);
        if !value.is_empty() {
            put(name, value.into());
        }
    }
    for name in ["from", "to"] {
        if let Some(number) = number(visit, name)? {
            put(name, number.into());
        }
    }
    for name in ["since", "until"] {
        let text = field(name);
        if !text.is_empty() {
            let at = query::time(&text, visit.console.api.clock().now());
            let at = at.ok_or_else(|| {
                let why = format!("`{name}` must be a date, a time or a duration back from now");
                Failure::new(StatusCode::BAD_REQUEST, &why)
            })?;
            put(name, at.to_string().into());
        }
    }
    let redact = Some(field("redact")).filter(|text| !text.is_empty());
    Ok(Export {
        query: Some(Value::Object(query)),
        payloads: field("payloads") == "yes",
        redact: redact.into_iter().collect(),
        ..Export::default()
    })
}

/// A number of a form, if the field is not empty.
fn number(visit: &Visit, name: &str) -> Result<Option<u64>, Failure> {
    let text = visit.form.field(name).trim();
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let why = format!("`{name}` must be a number");
        Failure::new(StatusCode::BAD_REQUEST, &why)
    })
}

/// Verifies a part of the ledger.
pub(in super::super) async fn verify(visit: &mut Visit) -> Result<Answer, Failure> {
    let leading = |failure: Failure| failure.leading_to(EVIDENCE);
    let field =
        |name: &str| Some(visit.form.field(name).trim().to_owned()).filter(|text| !text.is_empty());
    let [run, call, chain] = ["run", "call", "chain"].map(field);
    let from = number(visit, "from").map_err(leading)?;
    let to = number(visit, "to").map_err(leading)?;
    let asked = AuditSelection { run, call, chain, from, to };
    let report = visit.ask::<route::AuditVerification>((), asked).await.map_err(leading)?;
    Ok(Answer::Page("Verification of the ledger".to_owned(), verified(&report)))
}

/// The result: what fails first.
pub(super) fn verified(report: &AuditReport) -> Markup {
    let number = |seq: Option<u64>| seq.map_or_else(|| "–".to_owned(), |seq| seq.to_string());
    html! {
        @match report.outcome.as_str() {
            "pass" => p .good { "● every check that applies passes" },
            "fail" => p .bad { "■ a check fails" },
            _ => p .bad { "■ no check fails, and some cannot be decided" },
        }
        @if let Some(damage) = &report.damage {
            p .failure role="alert" {
                "The store was changed: " b { (shown(&damage.kind)) } " at entry " b { (damage.entry) } " of "
                (shown(&report.log)) ". " (shown(&damage.why))
            }
        }
        (facts(&[
            ("Log", id(&report.log)),
            ("Entries", html! {
                (report.entries) ", " (number(report.first)) " to " (number(report.last)) ", of " (report.size)
            }),
            ("Began", time(&report.began)),
            ("Took", html! { (report.took_ms) " ms" }),
            ("Not enforced", html! { (many(report.unenforced, "call")) }),
        ]))
        (checks(&report.checks))
        h2 { "Not proven by this" }
        ul {
            li { "that this process tells the truth: it holds the keys that it trusts" }
            @for one in &report.not_proven { li { (shown(one)) } }
        }
        @if !report.steps.is_empty() {
            h2 { "Steps" }
            ul { @for one in &report.steps { li { (shown(&one.step)) ": " (one.us / 1000) "." (one.us / 100 % 10) " ms" } } }
        }
        p { a href=(EVIDENCE) { "Back to evidence" } }
    }
}

fn checks(all: &[AuditCheck]) -> Markup {
    let sign = |outcome: &str| match outcome {
        "pass" => "● pass",
        "fail" => "■ fail",
        "undecided" => "■ undecided",
        _ => "○ not applicable",
    };
    html! {
        div .wide tabindex="0" { table {
            caption { (many(all.len(), "check")) }
            thead { tr {
                th scope="col" { "Check" } th scope="col" { "Outcome" } th scope="col" { "What" }
                th scope="col" { "Detail" }
            } }
            tbody { @for one in all { tr data-row {
                th scope="row" { (shown(&one.id)) }
                td .good[one.outcome == "pass"] .bad[one.outcome == "fail"] { (sign(&one.outcome)) }
                td { (shown(&one.title)) }
                // The API has spelled it out.
                td { (one.detail) }
            } } }
        } }
    }
}
