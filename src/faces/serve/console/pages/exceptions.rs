//! Exceptions of the firewall: which single values pass, where, by whose order and until when.
//!
//! To let a value pass takes a signature: the page gives the command. To let it pass no more takes a role.

use std::num::NonZeroU64;

use http::StatusCode;
use maud::{Markup, html};

use super::{Failure, command, id, left, shown, time, token};
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::operator::api::replies::{FindingException, FindingExceptions};
use crate::operator::api::requests::{ExceptionEnd, OrderPath};
use crate::operator::api::route;
use crate::serve::console::visit::{Answer, Visit};

const EXCEPTIONS: &str = "/console/exceptions";
/// The state of an exception that lets something pass.
const IN_FORCE: &str = "in force";

/// The exceptions, the newest first.
pub(in super::super) async fn list(visit: &mut Visit) -> Result<Answer, Failure> {
    let exceptions = visit.ask::<route::FindingAllowances>((), ()).await?;
    let url = visit.url().map_or_else(String::new, |url| format!(" --url {url}"));
    let body = html! {
        (table(&exceptions, visit.console.api.clock().now()))
        h2 { "Let a value pass" }
        p {
            "The refusal of a call names tool, kind, place and mark of what it blocked, and not the value. To let that value \
             pass is signed with your own SSH key, which is not in the browser. The key needs the role operator in the \
             signed list."
        }
        (command(&allowing(&url)))
        @if visit.may::<route::FindingExceptionEnd>() { (revoke_form(visit, &exceptions)) } @else {
            p .hint { "To let a value pass no more takes the role operator, and no signature." }
        }
    };
    Ok(Answer::Page("Exceptions of the firewall".to_owned(), body))
}

/// The command that lets a value pass.
fn allowing(url: &str) -> String {
    format!(
        "wicketgate control finding allow TOOL --kind KIND --path=PLACE --mark MARK --expires END --reason 'WHY' \
         --token-file TOKEN --key KEY{url}"
    )
}

/// Exceptions, the newest first.
pub(super) fn table(exceptions: &FindingExceptions, now: Timestamp) -> Markup {
    let all = &exceptions.exceptions;
    if all.is_empty() {
        return html! { p .empty { "No value passes the firewall by a signed order." } };
    }
    html! {
        div .wide { table {
            caption { (many(all.len(), "exception")) ", newest first" }
            thead { tr {
                th scope="col" { "Order" } th scope="col" { "State" } th scope="col" { "Where" }
                th scope="col" { "What" } th scope="col" { "By" } th scope="col" { "Ends" }
                th scope="col" { "Why" }
            } }
            tbody { @for one in all { tr data-row { (row(one, now)) } } }
        } }
        @if exceptions.more { p .hint { "There are more: the orders list all of them." } }
    }
}

/// A state is a word and a sign: color says nothing alone.
fn state(one: &FindingException) -> Markup {
    match one.state.as_str() {
        IN_FORCE => html! { "● in force at " (many(one.gates, "gate")) },
        "not applied" | "refused" => html! { span .bad { "■ " (shown(&one.state)) } },
        _ => html! { "○ " (shown(&one.state)) },
    }
}

fn row(one: &FindingException, now: Timestamp) -> Markup {
    html! {
        th scope="row" { a href={ "/console/orders/" (one.seq) } { "#" (one.seq) } }
        td { (state(one)) }
        td { (shown(&one.tool)) " " (shown(&one.direction)) " " code { (shown(&one.path)) } }
        td { (shown(&one.kind)) p .hint { (id(&one.mark)) } }
        td { (shown(&one.subject)) p .hint { (time(&one.at)) } }
        td { (time(&one.expires)) @if one.state == IN_FORCE { p .hint { (left(now, &one.expires)) } } }
        td { (shown(&one.reason)) }
    }
}

fn revoke_form(visit: &Visit, exceptions: &FindingExceptions) -> Markup {
    let ends = |one: &&FindingException| !matches!(one.state.as_str(), "over" | "revoked");
    let open: Vec<&FindingException> = exceptions.exceptions.iter().filter(ends).collect();
    if open.is_empty() {
        return html! {};
    }
    html! {
        h2 { "Let a value pass no more" }
        form method="post" action=(EXCEPTIONS) {
            (token(visit, EXCEPTIONS))
            label for="order" { "The order that let it pass" }
            select id="order" name="order" required {
                option value="" { "choose one" }
                @for one in open {
                    option value=(one.seq) { "#" (one.seq) " " (shown(&one.tool)) " " (shown(&one.kind)) " " (shown(&one.path)) }
                }
            }
            label for="reason" { "Reason, for the ledger" }
            input id="reason" name="reason" required maxlength="1024" autocomplete="off";
            button { "Revoke" }
        }
    }
}

/// Lets a value pass no more.
pub(in super::super) async fn revoke(visit: &mut Visit) -> Result<Answer, Failure> {
    let number = visit.form.field("order").parse::<NonZeroU64>();
    let reason = visit.form.field("reason").to_owned();
    let Ok(seq) = number else {
        let message = "choose the order that let the value pass: nothing was revoked";
        return Err(Failure::new(StatusCode::BAD_REQUEST, message).leading_to(EXCEPTIONS));
    };
    let done = visit.ask::<route::FindingExceptionEnd>(OrderPath { seq }, ExceptionEnd { reason });
    let done = done.await.map_err(|failure| failure.leading_to(EXCEPTIONS))?;
    Ok(Answer::SeeOther(format!("/console/orders/{}", done.outcome.seq)))
}
