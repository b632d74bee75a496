//! Orders: what was ordered, what each gate did, and the form that stops something.

use http::StatusCode;
use maud::{Markup, html};

use super::{Failure, command, facts, id, shown, time, token, word};
use crate::domain::plural::many;
use crate::operator::api::replies::{OrderDetail, OrderRow, Orders, Outcome};
use crate::operator::api::requests::{OrderPath, OrdersAfter, Stop};
use crate::operator::api::route;
use crate::serve::console::visit::{Answer, Visit};

const ORDERS: &str = "/console/orders";
/// Lines of the list.
const LINES: u64 = 200;
/// What an order of the form can do, and to what.
const ACTIONS: [&str; 3] = ["suspend", "revoke", "kill"];
const TARGETS: [&str; 10] =
    ["run", "agent", "tool", "face", "kind", "server", "upstream", "manifest", "key", "all"];

/// The orders above the number in the query; without one, the newest.
pub(in super::super) async fn list(visit: &mut Visit) -> Result<Answer, Failure> {
    let newest = visit.ask::<route::NewestOrder>((), ()).await?.seq;
    let since = visit.query("since").and_then(|text| text.parse().ok());
    let since = since.unwrap_or_else(|| newest.saturating_sub(LINES));
    let mut orders = visit.ask::<route::Orders>((), OrdersAfter { since }).await?;
    // A full list does not say that there is more.
    orders.more = orders.more && orders.next < newest;
    let body = html! {
        @if visit.may::<route::Stop>() { p { a .button href="/console/orders/new" { "Stop something…" } } }
        (table(&orders))
        @if since > 0 {
            p { a href={ (ORDERS) "?since=" (since.saturating_sub(LINES)) } { "Earlier orders" } }
        }
    };
    Ok(Answer::Page("Orders".to_owned(), body))
}

/// Orders, the newest first.
pub(super) fn table(orders: &Orders) -> Markup {
    if orders.orders.is_empty() {
        return html! { p .empty { "No order was given." } };
    }
    html! {
        div .wide { table {
            caption { (many(orders.orders.len(), "order")) ", newest first" }
            thead { tr {
                th scope="col" { "Order" } th scope="col" { "What" } th scope="col" { "By" }
                th scope="col" { "When" } th scope="col" { "Why" }
            } }
            tbody { @for order in orders.orders.iter().rev() { tr data-row {
                th scope="row" { a href={ (ORDERS) "/" (order.seq) } { "#" (order.seq) } }
                td { (what(order)) }
                td { (shown(&order.subject)) }
                td { (time(&order.at)) }
                td { (shown(&order.reason)) }
            } } }
        } }
        @if orders.more { p { a href={ (ORDERS) "?since=" (orders.next) } { "Later orders" } } }
    }
}

/// The verb of an order and what it is about, as far as its body has them.
fn what(order: &OrderRow) -> String {
    let member = |name: &str| order.body.get(name).and_then(serde_json::Value::as_str);
    let parts = ["action", "verdict", "target", "name", "run", "call", "bundle"];
    let named: Vec<&str> = parts.into_iter().filter_map(member).collect();
    let named = named.join(" ");
    shown(if named.is_empty() { &order.kind } else { &named })
}

/// One order, and what each gate did.
pub(in super::super) async fn one(visit: &mut Visit) -> Result<Answer, Failure> {
    let path = visit.path::<OrderPath>().await?;
    let detail = visit.ask::<route::OrderDetail>(path, ()).await?;
    let title = format!("Order #{}", detail.order.seq);
    let url = visit.url().map_or_else(String::new, |url| format!(" --url {url}"));
    let body = html! {
        (order_page(&detail))
        @if let Some(order) = reinstatement(&detail.order, &url) {
            h2 { "Take it back" }
            p {
                "What lets something run again is signed with your own SSH key, which is not in the browser. The key needs \
                 the role operator in the signed list. A newer stop stays in force."
            }
            (command(&order))
        }
    };
    Ok(Answer::Page(title, body))
}

/// The command that takes back a stop. A kill leaves nothing to take back: its runs are sealed, and new ones may open.
pub(super) fn reinstatement(order: &OrderRow, url: &str) -> Option<String> {
    let member = |name: &str| order.body.get(name).and_then(serde_json::Value::as_str);
    let stops = matches!(member("action"), Some("suspend" | "revoke"));
    let target = member("target").filter(|_| stops && order.kind == "switch")?;
    let name =
        member("name").filter(|name| !name.is_empty()).map(|name| format!(" {}", word(name)));
    let (target, name) = (word(target), name.unwrap_or_default());
    Some(format!(
        "wicketgate control reinstate {target}{name} --reason 'WHY' --token-file TOKEN --key KEY{url}"
    ))
}

pub(super) fn order_page(OrderDetail { order, outcome }: &OrderDetail) -> Markup {
    html! {
        (facts(&[
            ("What", html! { (what(order)) }),
            ("By", html! { (shown(&order.subject)) " (" (shown(&order.roles.join(", "))) "), " (shown(&order.auth)) }),
            ("When", time(&order.at)),
            ("Why", html! { (shown(&order.reason)) }),
            ("Until", match (order.expires.as_deref(), order.kind.as_str()) {
                (Some(at), _) => time(at),
                (None, "switch") => html! { "taken back" },
                // No order takes back an approval or a statement.
                (None, _) => html! { "–" },
            }),
        ]))
        h2 { "Outcome" }
        (result(outcome))
    }
}

fn result(outcome: &Outcome) -> Markup {
    html! {
        @if outcome.complete { p .good { "● done" } } @else { p .bad { "■ not done everywhere" } }
        p {
            (many(outcome.runs_sealed, "run")) " sealed, " (many(outcome.stopped_count, "call")) " stopped, "
            (many(outcome.left, "call")) " still running."
        }
        ul {
            @for gate in &outcome.gates { li { (id(&gate.origin)) " at " (time(&gate.at)) ": " code { (shown(&gate.done.to_string())) } } }
            @for gate in &outcome.not_reached {
                li .bad { "■ " (id(&gate.origin)) " did not report; it last did " (time(&gate.last_seen)) }
            }
        }
    }
}

/// The form.
pub(in super::super) async fn new(visit: &mut Visit) -> Result<Answer, Failure> {
    let asked = Stop {
        action: visit.query("action").unwrap_or_default(),
        target: visit.query("target").unwrap_or_default(),
        name: visit.query("name").unwrap_or_default(),
        ..Stop::default()
    };
    Ok(Answer::Page("Stop something".to_owned(), stop_form(visit, &asked)))
}

fn stop_form(visit: &Visit, asked: &Stop) -> Markup {
    let options = |all: &[&'static str], chosen: &str| {
        html! {
            @for one in all { option selected[*one == chosen] { (one) } }
        }
    };
    html! {
        p {
            b { "suspend" } " denies new calls; running ones go on. " b { "revoke" } " also ends run tokens. "
            b { "kill" } " stops running calls and seals the runs. Only a signed order takes a stop back."
        }
        form method="post" action=(ORDERS) {
            (token(visit, ORDERS))
            label for="action" { "Do" }
            select id="action" name="action" { (options(&ACTIONS, &asked.action)) }
            label for="target" { "to" }
            select id="target" name="target" { (options(&TARGETS, &asked.target)) }
            label for="name" { "Name of the target; empty for all" }
            input id="name" name="name" value=(asked.name) autocomplete="off";
            label for="reason" { "Reason, for the ledger" }
            input id="reason" name="reason" required maxlength="1024" autocomplete="off";
            label for="confirm" { "Type the name again to confirm; for all, type " b { "all" } }
            input id="confirm" name="confirm" required autocomplete="off";
            button .grave { "Give the order" }
        }
    }
}

/// Gives the order that a form describes.
pub(in super::super) async fn give(visit: &mut Visit) -> Result<Answer, Failure> {
    let field = |name: &str| visit.form.field(name).to_owned();
    let stop = Stop {
        action: field("action"),
        target: field("target"),
        name: field("name"),
        reason: field("reason"),
        expires: None,
    };
    let confirmed = if stop.target == "all" { "all" } else { &stop.name };
    if visit.form.field("confirm") != confirmed {
        let message = "the name was not confirmed: nothing was ordered";
        return Err(Failure::new(StatusCode::BAD_REQUEST, message));
    }
    let done = visit.ask::<route::Stop>((), stop).await?;
    Ok(Answer::SeeOther(format!("{ORDERS}/{}", done.outcome.seq)))
}
