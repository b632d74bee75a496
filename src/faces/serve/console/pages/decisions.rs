//! What became of a decision: counted or not, and what the call does now.

use maud::{Markup, html};
use serde_json::Value;

use super::{Failure, facts, id, shown, time};
use crate::domain::id::{CallId, RunId};
use crate::domain::plural::many;
use crate::operator::api::lookups::CallLine;
use crate::operator::api::replies::{OrderDetail, OrderRow};
use crate::operator::api::requests::{CallSearch, HeldCallPath, OrderPath};
use crate::operator::api::route;
use crate::serve::console::visit::{Answer, Visit};

/// The beginning of the detail of approvals that a change made void.
const VOID: &str = "approval.void.";
/// The detail of a call that an approver refused.
const REFUSED: &str = "approval.refused";

/// One decision. Another order has a page of its own.
pub(in super::super) async fn one(visit: &mut Visit) -> Result<Answer, Failure> {
    let path = visit.path::<OrderPath>().await?;
    let detail = visit.ask::<route::OrderDetail>(path, ()).await?;
    let member = |name: &str| detail.order.body.get(name).and_then(Value::as_str);
    let of = member("run").zip(member("call")).filter(|_| is_decision(&detail.order));
    let Some((run, call)) = of else {
        return Ok(Answer::SeeOther(format!("/console/orders/{}", detail.order.seq)));
    };
    let path = HeldCallPath { run: run.to_owned(), call: call.to_owned() };
    let line = found(visit, &path).await;
    Ok(Answer::Page("Your decision".to_owned(), decision(&detail, &path, line.as_ref())))
}

fn is_decision(order: &OrderRow) -> bool {
    matches!(order.kind.as_str(), "approval" | "modify")
}

/// The newest line of this call, if it is found.
pub(super) async fn found(visit: &Visit, path: &HeldCallPath) -> Option<CallLine> {
    let (run, call) = RunId::parse(&path.run).zip(CallId::parse(&path.call))?;
    let q = Some(format!("run:{run} call:{call}"));
    let asked = CallSearch { q, limit: Some(1), ..CallSearch::default() };
    let found = visit.ask::<route::Calls>((), asked).await.ok()?;
    found.calls.into_iter().next()
}

/// What a decision did, and where its call is now.
pub(super) fn decision(
    OrderDetail { order, outcome }: &OrderDetail,
    path: &HeldCallPath,
    line: Option<&CallLine>,
) -> Markup {
    let mut done = outcome.gates.iter().map(|gate| &gate.done);
    let done = done.find(|done| done.as_object().is_some_and(|done| !done.is_empty()));
    let (good, said) = said(order, done, line);
    let held = line.filter(|line| line.state == "held");
    html! {
        p .state .good[good] .bad[!good] role="status" { (if good { "● " } else { "■ " }) (shown(&said)) }
        (facts(&[
            ("Call", id(&path.call)),
            ("Run", html! { a href={ "/console/runs/" (shown(&path.run)) } { (id(&path.run)) } }),
            ("By", html! { (shown(&order.subject)) ", " (time(&order.at)) }),
            ("The call", html! { @match line { Some(line) => (shown(&state(line))), None => "is not found yet" } }),
        ]))
        @if done.is_none() { p { a .button href={ "/console/decisions/" (order.seq) } { "Look again" } } }
        @if held.is_some() {
            p { a href={ "/console/approvals/" (shown(&path.run)) "/" (shown(&path.call)) } { "See the held call" } }
        } @else if let Some(line) = line {
            p { a href={ "/console/calls/" (shown(&line.chain)) "/" (line.seq) } { "See the call" } }
        }
        p { a href="/console/approvals" { "Held calls" } }
    }
}

/// Whether a decision did what its signer wanted, and a sentence about it.
fn said(order: &OrderRow, done: Option<&Value>, line: Option<&CallLine>) -> (bool, String) {
    let Some(done) = done else {
        let none = "sent, but the gate that holds the call has not answered yet";
        return (false, none.to_owned());
    };
    let text = |name: &str| done.get(name).and_then(Value::as_str).unwrap_or_default();
    let (call, detail, message) = (text("call"), text("detail"), text("message"));
    if order.kind == "modify" {
        return match (text("error"), call) {
            ("", "held") => {
                (true, format!("asked again as `{}`: another approver decides", text("asked")))
            }
            ("", "denied") => {
                (false, format!("asked again as `{}`, and denied: {message}", text("asked")))
            }
            ("", _) => (false, format!("asked again as `{}`, and not decided yet", text("asked"))),
            (error, _) => (false, format!("not counted: {error} ({detail})")),
        };
    }
    if done.get("counted").and_then(Value::as_bool) != Some(true) {
        return match line.filter(|_| detail == "approval.not_held") {
            Some(line) => (false, format!("not counted, because the call {}", state(line))),
            None => (false, format!("not counted: {message} ({detail})")),
        };
    }
    let refuses = order.body.get("verdict").and_then(Value::as_str) == Some("refuse");
    match (call, refuses) {
        ("authorized", _) => (true, "approved: the call runs now".to_owned()),
        ("denied", true) => (true, "refused: the call does not run".to_owned()),
        ("denied", false) => {
            let why = line.map_or_else(|| "is denied".to_owned(), state);
            (false, format!("counted, but the call {why}"))
        }
        ("held", _) if detail.is_empty() => {
            (true, "counted, and not enough for the call to run: it stays held".to_owned())
        }
        ("held", _) => (true, format!("counted, and the call still waits: {message} ({detail})")),
        ("awaited", _) => {
            (true, "counted: the request is judged when its agent sends it again".to_owned())
        }
        ("cancelled", _) => (false, "counted, but the call was cancelled".to_owned()),
        (_, _) => (false, "counted, but the gate has not said what the call does".to_owned()),
    }
}

/// What a call does, as the end of a sentence that begins with it.
pub(super) fn state(line: &CallLine) -> String {
    let by = match &*line.decided_by.join(", ") {
        "" => String::new(),
        all => format!(" by {all}"),
    };
    let detail = line.detail.as_deref().unwrap_or_default();
    match line.state.as_str() {
        "held" => format!("is held, with {} so far", many(line.approvals, "approval")),
        "running" => format!("was approved{by} and runs"),
        "expired" => "expired before enough approvers had signed, and does not run".to_owned(),
        "denied" if detail == REFUSED => format!("was refused{by}, and does not run"),
        "denied" => match detail.strip_prefix(VOID) {
            Some(what) => {
                let what = match what {
                    "layers" => "policy",
                    "arguments" => "firewall",
                    other => other,
                };
                format!("does not run: its approvals are void, because the {what} changed")
            }
            None => format!("was denied by policy ({detail}), and does not run"),
        },
        "cancelled" => "was cancelled, and does not run".to_owned(),
        ended => format!("was approved{by} and has ended: {ended}"),
    }
}
