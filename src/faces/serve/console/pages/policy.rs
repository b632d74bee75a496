//! Policies: the bundles in force, the proposals, and what observe mode let run.

use maud::{Markup, html};

use super::{Failure, command, id, shown, time};
use crate::domain::plural::many;
use crate::operator::api::policies::{ObservedDenials, ObservedRule, PolicyInForce};
use crate::operator::api::replies::Amendments;
use crate::operator::api::requests::ObservedSince;
use crate::operator::api::route;
use crate::serve::console::visit::{Answer, Visit};

pub(super) const POLICY: &str = "/console/policy";

/// The bundles in force, and the proposals.
pub(in super::super) async fn list(visit: &mut Visit) -> Result<Answer, Failure> {
    let policy = visit.ask::<route::PolicyInForce>((), ()).await?;
    let amendments = visit.ask::<route::Amendments>((), ()).await?;
    let url = visit.url().map_or_else(String::new, |url| format!(" --url {url}"));
    let body = html! {
        p { a href={ (POLICY) "/observed" } { "What observe mode let run" } }
        h2 { "In force" }
        (in_force(&policy))
        h2 { "Proposals" }
        (proposals(&amendments))
        @if visit.may::<route::AmendmentProposal>() {
            p { "To propose a bundle that is signed with the keys of policies:" }
            (command(&format!("wicketgate policy propose --bundle DIR --reason 'WHY' --token-file TOKEN{url}")))
        } @else { p .hint { "To propose a bundle takes the role policy_author." } }
    };
    Ok(Answer::Page("Policy".to_owned(), body))
}

/// Every log and its bundle.
pub(super) fn in_force(policy: &PolicyInForce) -> Markup {
    if policy.bundles.is_empty() {
        return html! { p .empty { "No log has activated a policy yet: every call is refused." } };
    }
    html! {
        div .wide { table {
            caption { (many(policy.bundles.len(), "log")) ", those with a running writer first" }
            thead { tr {
                th scope="col" { "Bundle" } th scope="col" { "Digest" } th scope="col" { "Layers" }
                th scope="col" { "In force since" } th scope="col" { "By" } th scope="col" { "Log" }
            } }
            tbody { @for one in &policy.bundles { tr data-row {
                th scope="row" { a href={ (POLICY) "/" (shown(&one.bundle)) } { (shown(&one.name)) " " (shown(&one.version)) } }
                td { (id(&one.bundle)) }
                td { @for layer in &one.layers { p { (shown(&layer.layer)) " " span .hint { (shown(short(&layer.digest))) } } } }
                td { (time(&one.activated)) }
                td {
                    (shown(one.basis.as_deref().unwrap_or("configuration")))
                    @if let Some(approvals) = one.approvals { ", " (many(approvals, "approval")) }
                }
                td { (shown(&one.origin)) @if one.stopped { " (stopped)" } }
            } } }
        } }
        @if policy.more { p { "There are more logs than are shown." } }
    }
}

/// The beginning of a digest. The page of the bundle has all of it.
fn short(digest: &str) -> &str {
    let digest = digest.strip_prefix("sha256:").unwrap_or(digest);
    digest.get(..12).unwrap_or(digest)
}

/// Every proposal, the newest first.
pub(super) fn proposals(amendments: &Amendments) -> Markup {
    if amendments.amendments.is_empty() {
        return html! { p .empty { "No bundle was proposed." } };
    }
    html! {
        div .wide { table {
            caption { (many(amendments.amendments.len(), "proposal")) ", newest first" }
            thead { tr {
                th scope="col" { "Version" } th scope="col" { "State" } th scope="col" { "Author" }
                th scope="col" { "Why" } th scope="col" { "Approved by" } th scope="col" { "Expires" }
                th scope="col" { "Bundle" }
            } }
            tbody { @for one in amendments.amendments.iter().rev() { tr data-row {
                th scope="row" { a href={ (POLICY) "/" (shown(&one.bundle)) } { (shown(&one.version)) } }
                td { (shown(&one.standing)) }
                td { (shown(&one.author)) }
                td { (shown(&one.reason)) }
                td { (shown(&one.approved_by.join(", "))) }
                td { (time(&one.expires)) }
                td { (id(&one.bundle)) }
            } } }
        } }
    }
}

/// What enforcement would have refused.
pub(in super::super) async fn observed(visit: &mut Visit) -> Result<Answer, Failure> {
    let since = visit.query("since");
    let asked = ObservedSince { since: since.clone() };
    let path = format!("{POLICY}/observed");
    let body = match visit.ask::<route::ObservedDenials>((), asked).await {
        Ok(found) => html! { (form(&path, since.as_deref(), None)) (denials(&found)) },
        Err(failure) if failure.is_of_query() => form(&path, since.as_deref(), Some(&failure)),
        Err(failure) => return Err(failure),
    };
    Ok(Answer::Page("What observe mode let run".to_owned(), body))
}

fn form(path: &str, since: Option<&str>, failure: Option<&Failure>) -> Markup {
    html! {
        @if let Some(failure) = failure { p .failure role="alert" { (shown(&failure.message)) } }
        form method="get" action=(path) role="search" {
            label for="since" { "Since a date, a time or a duration, such as " code { "24h" } }
            input id="since" name="since" value=(since.unwrap_or("7d")) autocomplete="off";
            button { "Show" }
        }
    }
}

/// Rule by rule.
pub(super) fn denials(found: &ObservedDenials) -> Markup {
    let ran = found.denied.saturating_add(found.held);
    html! {
        p {
            "Of " (many(found.decided, "decision")) " since " (time(&found.since)) ", enforcement would have denied "
            b { (found.denied) } " and held " b { (found.held) } " of the calls that ran."
        }
        @if found.more { p .bad { "■ There are older entries than were read: ask about a shorter time." } }
        @if found.unread > 0 { p .bad { "■ " (many(found.unread, "entry")) " cannot be read: verify the ledger." } }
        @if ran == 0 { p .empty { "Every decision was enforced." } } @else {
            div .wide { table {
                caption { (many(found.rules.len(), "rule")) ", most frequent first" }
                thead { tr {
                    th scope="col" { "Calls" } th scope="col" { "Verdict" } th scope="col" { "Tool" }
                    th scope="col" { "Rule" } th scope="col" { "Last" } th scope="col" { "Some of them" }
                } }
                tbody { @for rule in &found.rules { tr data-row { (observed_rule(rule)) } } }
            } }
        }
    }
}

fn observed_rule(rule: &ObservedRule) -> Markup {
    html! {
        td { (rule.count) }
        td { (shown(&rule.verdict)) }
        th scope="row" { (shown(&rule.tool)) }
        td { p { (shown(&rule.message)) } code { (shown(&rule.rule)) } }
        td { (time(&rule.last)) }
        td { @for one in &rule.examples { p {
            a href={ "/console/runs/" (shown(&one.run)) } { (shown(&one.call)) }
        } } }
    }
}
