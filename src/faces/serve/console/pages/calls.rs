//! Calls: those that match a query, one from its entries, and its payloads.

use http::StatusCode;
use maud::{Markup, html};

use super::{Failure, facts, id, shown, time};
use crate::domain::plural::many;
use crate::operator::api::lookups::{CallDetail, CallLine, CallPayloads, ReceiptProof};
use crate::operator::api::requests::{CallPath, CallSearch, ReceiptPath};
use crate::operator::api::route;
use crate::serve::console::csv::{Csv, ROWS_MAX};
use crate::serve::console::visit::{Answer, Visit};

const CALLS: &str = "/console/calls";
/// Calls as a file.
const FILE: &str = "/console/calls.csv";
/// Lines of a list.
const LINES: u64 = 100;
/// Lines that a file asks for at a time: the most that a route answers with.
pub(super) const FILE_LINES: u64 = 200;
/// What a file shows of a call: the members of a line of the operator API.
pub(super) const COLUMNS: &[&str] = &[
    "at",
    "agent",
    "version",
    "tool",
    "tier",
    "verdict",
    "enforced",
    "state",
    "code",
    "detail",
    "rule",
    "outcome",
    "us",
    "masked",
    "findings",
    "hosts",
    "approvals",
    "decided_by",
    "run",
    "call",
    "chain",
    "seq",
];

/// How far an answer reaches.
pub(super) struct Found<'a> {
    /// Everything that was recorded before this was searched.
    pub as_of: &'a str,
    /// Entries that were not searched yet.
    pub behind: u64,
    /// The cursor of the next page.
    pub next: Option<&'a str>,
}

/// Calls that match the query in the address, the newest first.
pub(in super::super) async fn list(visit: &mut Visit) -> Result<Answer, Failure> {
    let asked = CallSearch {
        q: visit.query("q"),
        cursor: visit.query("cursor"),
        limit: Some(LINES),
        ..CallSearch::default()
    };
    let q = asked.q.as_deref();
    let body = match visit.ask::<route::Calls>((), asked.clone()).await {
        Ok(calls) => {
            let found =
                Found { as_of: &calls.as_of, behind: calls.behind, next: calls.next.as_deref() };
            html! {
                (search(CALLS, (q, None), &html! {}))
                (table(&calls.calls, "newest first"))
                (more(CALLS, &[("q", q.unwrap_or_default())], &found))
                (as_file(FILE, &[("q", q.unwrap_or_default())]))
            }
        }
        Err(failure) if failure.is_of_query() => search(CALLS, (q, Some(&failure)), &html! {}),
        Err(failure) => return Err(failure),
    };
    Ok(Answer::Page("Calls".to_owned(), body))
}

/// The calls of a list, as a file for spreadsheets.
pub(in super::super) async fn csv(visit: &mut Visit) -> Result<Answer, Failure> {
    let (mut file, mut cursor) = (Csv::of(COLUMNS), None);
    loop {
        let (q, limit) = (visit.query("q"), Some(FILE_LINES));
        let asked = CallSearch { q, cursor, limit, ..CallSearch::default() };
        let found = visit.ask::<route::Calls>((), asked).await?;
        cursor = file.add(&found.calls, (found.as_of, found.next));
        if cursor.is_none() {
            return Ok(file.file("calls"));
        }
    }
}

/// The link to the same list as a file.
pub(super) fn as_file(path: &str, asked: &[(&str, &str)]) -> Markup {
    html! { p { a href=(address(path, asked)) { "Save as CSV" } ", at most " (ROWS_MAX) " rows" } }
}

/// A path with a query.
fn address(path: &str, asked: &[(&str, &str)]) -> String {
    let asked = asked.iter().filter(|(_, value)| !value.is_empty());
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(asked).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// The form of a search. It reads, so that its address can be kept and sent.
pub(super) fn search(
    path: &str,
    (q, failure): (Option<&str>, Option<&Failure>),
    more: &Markup,
) -> Markup {
    html! {
        @if let Some(failure) = failure { p .failure role="alert" { (shown(&failure.message)) } }
        form method="get" action=(path) role="search" {
            label for="q" {
                "Query, such as " code { "tool:payments.refund -verdict:allow since:2h" }
            }
            input id="q" name="q" value=(q.unwrap_or_default()) autocomplete="off";
            (more)
            button { "Search" }
        }
    }
}

/// How far a list reaches, and its next page.
pub(super) fn more(path: &str, asked: &[(&str, &str)], found: &Found<'_>) -> Markup {
    let next = found.next.map(|cursor| {
        let fields: Vec<_> = asked.iter().copied().chain([("cursor", cursor)]).collect();
        address(path, &fields)
    });
    html! {
        @if let Some(next) = next { p { a href=(next) { "More" } } }
        p .hint {
            "Searched: everything before " (time(found.as_of)) "."
            @if found.behind > 0 { " " (many(found.behind, "entry")) " not yet." }
        }
    }
}

/// Calls.
pub(super) fn table(calls: &[CallLine], order: &str) -> Markup {
    if calls.is_empty() {
        return html! { p .empty { "No call matches." } };
    }
    html! {
        div .wide { table {
            caption { (many(calls.len(), "call")) ", " (order) }
            thead { tr {
                th scope="col" { "When" } th scope="col" { "Tool" } th scope="col" { "Agent" }
                th scope="col" { "Tier" } th scope="col" { "Verdict" } th scope="col" { "State" }
                th scope="col" { "Code" } th scope="col" { "Outcome" }
            } }
            tbody { @for call in calls { tr data-row { (row(call)) } } }
        } }
    }
}

fn row(call: &CallLine) -> Markup {
    let text = |of: &Option<String>| shown(of.as_deref().unwrap_or("–"));
    html! {
        td { (time(&call.at)) }
        th scope="row" { a href={ (CALLS) "/" (shown(&call.chain)) "/" (call.seq) } { (text(&call.tool)) } }
        td { (shown(&call.agent)) " " (shown(&call.version)) }
        td { (text(&call.tier)) }
        td { (shown(&call.verdict)) @if !call.enforced { " (not enforced)" } }
        td { (shown(&call.state)) }
        td { (shown(call.detail.as_deref().or(call.code.as_deref()).unwrap_or("–"))) }
        td { (text(&call.outcome)) }
    }
}

/// One call, from its entries.
pub(in super::super) async fn one(visit: &mut Visit) -> Result<Answer, Failure> {
    let path = visit.path::<CallPath>().await?;
    let detail = visit.ask::<route::CallDetail>(path, ()).await?;
    let title =
        format!("Call of {}", shown(detail.call.tool.as_deref().unwrap_or("an unknown tool")));
    Ok(Answer::Page(title, recorded(&detail, visit.may::<route::CallPayloads>())))
}

/// The approver who chose the arguments, or the party that made the call.
fn arguments_by(detail: &CallDetail) -> &str {
    let made_by = if detail.gate_of.is_some() { "the gate" } else { "the agent" };
    detail.asked_by.as_deref().unwrap_or(made_by)
}

/// All that the entries of a call say, and where its payloads are.
pub(super) fn recorded(detail: &CallDetail, reads: bool) -> Markup {
    let call = &detail.call;
    let text = |of: &Option<String>| shown(of.as_deref().unwrap_or("–"));
    html! {
        (facts(&[
            ("Verdict", html! { (shown(&call.verdict)) @if !call.enforced { " (not enforced)" } }),
            ("State", html! { (shown(&call.state)) ", " (text(&call.outcome)) }),
            ("Tier", html! { (text(&call.tier)) }),
            ("When", time(&call.at)),
            ("Took", html! { @match call.us { None => "–", Some(us) => { (us / 1000) " ms" } } }),
            ("Agent", html! { (shown(&call.agent)) " " (shown(&call.version)) }),
            ("Run", html! { a href={ "/console/runs/" (shown(&call.run)) } { (shown(&call.run)) } }),
            ("Call", id(&call.call)),
            ("Rule", html! { (text(&call.rule)) }),
            ("Approvals", html! { (call.approvals) " " (shown(&call.decided_by.join(", "))) }),
            ("Arguments by", html! { (shown(arguments_by(detail))) }),
            ("Checks call", html! { (text(&detail.gate_of)) }),
            ("Reason of the agent", html! { (text(&detail.justification)) }),
            ("Policy", html! { (text(&detail.policy)) }),
            ("Trace", html! { (text(&detail.traceparent)) }),
            ("Findings", html! { (text(&Some(call.findings.join(", ")).filter(|all| !all.is_empty()))) }),
            ("Hosts", html! { (text(&Some(call.hosts.join(", ")).filter(|all| !all.is_empty()))) }),
            ("Log", id(&detail.origin)),
        ]))
        @match (detail.checkpoint, &detail.unproven) {
            (Some(size), _) => p .state .good { "✔ All entries are in the signed checkpoint of " (many(size, "entry")) "." },
            (None, why) => p .failure role="alert" {
                "✘ NOT PROVEN: " (shown(why.as_deref().unwrap_or("no checkpoint is signed")))
            },
        }
        @if !detail.reasons.is_empty() {
            h2 { "Reasons" }
            ul { @for reason in &detail.reasons { li {
                (shown(if reason.detail.is_empty() { &reason.code } else { &reason.detail })) ": "
                (shown(&reason.message)) " " code { (shown(&reason.rule)) }
            } } }
        }
        @if let Some(read) = &detail.read_before {
            h2 { "What the run had read before" }
            ul { @for line in read.lines(None) { li { (line) } } }
        }
        @if call.state == "held" {
            p { a href={ "/console/approvals/" (shown(&call.run)) "/" (shown(&call.call)) } { "The call is held: see what would run" } }
        }
        h2 { "Arguments and result" }
        @if reads {
            p { a href={ (CALLS) "/" (shown(&call.chain)) "/" (call.seq) "/payloads" } { "Show them" } ": an entry records that you saw them." }
        } @else { p { "To see them takes the role approver or auditor." } }
        (entries(detail))
    }
}

fn entries(detail: &CallDetail) -> Markup {
    html! {
        h2 { "Entries" }
        div .wide { table {
            caption { (many(detail.entries.len(), "entry")) " of this call" }
            thead { tr {
                th scope="col" { "Number" } th scope="col" { "When" } th scope="col" { "Kind" }
                th scope="col" { "Leaf" } th scope="col" { "Payloads" } th scope="col" { "Proof" }
            } }
            tbody { @for entry in &detail.entries { tr {
                th scope="row" { (entry.seq) }
                td { (time(&entry.at)) }
                td { (shown(&entry.kind)) }
                td { (id(&entry.leaf)) }
                td { @for one in &entry.payloads { p { (shown(&one.role)) ", " (many(one.bytes, "byte")) } } }
                td { a href={ "/console/receipts/" (shown(&detail.call.chain)) "/" (entry.seq) "/proof" } { "proof of " (entry.seq) } }
            } } }
        } }
    }
}

/// Arguments and result of one call, once an entry records who sees them.
pub(in super::super) async fn payloads(visit: &mut Visit) -> Result<Answer, Failure> {
    let path = visit.path::<CallPath>().await?;
    let back = format!("{CALLS}/{}/{}", shown(&path.chain), shown(&path.seq));
    let payloads = visit.ask::<route::CallPayloads>(path, ()).await?;
    Ok(Answer::Page("Arguments and result".to_owned(), bodies(&payloads, &back)))
}

pub(super) fn bodies(payloads: &CallPayloads, back: &str) -> Markup {
    html! {
        p { a href=(back) { "Back to the call" } }
        @if payloads.payloads.is_empty() { p .empty { "The call has none." } }
        @for one in &payloads.payloads {
            h2 { (shown(&one.role)) ", " (many(one.bytes, "byte")) }
            p .hint { "Entry " (one.entry) ", commitment " (id(&one.commitment)) }
            @if let Some(text) = &one.text { pre .arguments tabindex="0" { (shown(text)) } }
            @if let Some(why) = &one.withheld { p .failure { (shown(why)) } }
        }
    }
}

/// The proof that one entry is in the log.
pub(in super::super) async fn proof(visit: &mut Visit) -> Result<Answer, Failure> {
    let path = visit.path::<ReceiptPath>().await?;
    let proof = visit.ask::<route::ReceiptProof>(path, ()).await?;
    Ok(Answer::Page(format!("Proof of entry {}", proof.seq), proven(&proof)))
}

/// Where an entry is in the log, and the file that proves it anywhere.
pub(super) fn proven(proof: &ReceiptProof) -> Markup {
    html! {
        p .state .good { "✔ Entry " (proof.seq) " is in the signed checkpoint of " (many(proof.size, "entry")) "." }
        (facts(&[
            ("Log", id(&proof.origin)),
            ("Leaf", html! { (id(&proof.leaf)) ", computed from the entry" }),
            ("Root", id(&proof.root)),
        ]))
        h2 { "The proof as a file" }
        p .hint { "In the form c2sp.org/tlog-proof@v1: the path of hashes, then the checkpoint with its signatures." }
        pre .arguments tabindex="0" { (shown(&proof.proof)) }
    }
}

impl Failure {
    /// Whether what was typed into a search is the reason.
    pub(super) fn is_of_query(&self) -> bool {
        self.status == StatusCode::BAD_REQUEST
    }
}
