//! Trust: how the calls of each tool ended; and the held calls that people decide alike.

use maud::{Markup, html};

use super::{Failure, command, id, shown, time};
use crate::domain::plural::many;
use crate::operator::api::route;
use crate::operator::api::standing::{
    PatternCall, PatternLack, PatternLine, Patterns, TrustFall, TrustLine, TrustScores,
};
use crate::serve::console::visit::{Answer, Visit};

/// The trust in every tool.
pub(in super::super) async fn trust(visit: &mut Visit) -> Result<Answer, Failure> {
    let found = visit.ask::<route::Trust>((), ()).await?;
    Ok(Answer::Page("Trust".to_owned(), scores(&found)))
}

/// What people decide alike.
pub(in super::super) async fn patterns(visit: &mut Visit) -> Result<Answer, Failure> {
    let found = visit.ask::<route::Patterns>((), ()).await?;
    Ok(Answer::Page("Patterns".to_owned(), proposals(&found)))
}

pub(super) fn scores(found: &TrustScores) -> Markup {
    let (tools, agents): (Vec<_>, Vec<_>) =
        found.scores.iter().partition(|one| one.agent.is_none());
    html! {
        p { a href="/console/patterns" { "Held calls that people decide alike" } }
        p .hint {
            "How often calls ended well, of the last " (found.window) " that ended within " (many(found.days, "day"))
            ": the lower bound of the Wilson interval (95 %) in thousandths. A score changes no decision by itself."
        }
        @if found.behind > 0 { p .bad { "■ " (many(found.behind, "entry")) " were not read yet: load the page again." } }
        h2 { "Fallen within 24 hours" }
        (falls(&found.drops))
        h2 { "Tools" }
        (table(&tools, "tool"))
        h2 { "Agents" }
        (table(&agents, "agent with a tool"))
    }
}

fn falls(drops: &[TrustFall]) -> Markup {
    if drops.is_empty() {
        return html! { p .empty { "No score fell by 200 or more." } };
    }
    html! {
        div .wide { table {
            caption { (many(drops.len(), "fall")) ", the deepest first" }
            thead { tr {
                th scope="col" { "Tool" } th scope="col" { "Agent" } th scope="col" { "From" }
                th scope="col" { "To" } th scope="col" { "Since" }
            } }
            tbody { @for one in drops { tr data-row {
                th scope="row" { (shown(&one.tool)) }
                td { @match &one.agent { None => "every agent", Some(agent) => (shown(agent)) } }
                td { (one.from) }
                td { b .bad { "■ " (one.to) } }
                td { (time(&one.since)) }
            } } }
        } }
    }
}

fn table(lines: &[&TrustLine], what: &str) -> Markup {
    if lines.is_empty() {
        return html! { p .empty { "No call has ended." } };
    }
    html! {
        div .wide { table {
            caption { (many(lines.len(), "score")) ", by " (what) }
            thead { tr {
                th scope="col" { "Tool" } th scope="col" { "Agent" } th scope="col" { "Score" }
                th scope="col" { "Ended well" } th scope="col" { "Last" } th scope="col" { "Definition" }
            } }
            tbody { @for one in lines { tr data-row {
                th scope="row" { a href={ "/console/calls?q=tool:" (shown(&one.tool)) } { (shown(&one.tool)) } }
                td { @match &one.agent { None => "every agent", Some(agent) => (shown(agent)) } }
                td { @match one.score { None => "unrated", Some(score) => b { (score) } } }
                td { (one.well) " of " (one.calls) }
                td { (time(&one.last)) }
                td { (id(&one.definition)) @if one.replaced { " (replaced)" } }
            } } }
        } }
    }
}

pub(super) fn proposals(found: &Patterns) -> Markup {
    html! {
        p .hint {
            "Twenty equal decisions by two people make a pattern. It changes nothing until people sign its rule, as any "
            "change of the policy; the rule ends after 90 days at the latest."
        }
        @if found.unread > 0 { p .bad { "■ " (many(found.unread, "entry")) " of the last 90 days were not read: there are too many." } }
        @if found.patterns.is_empty() { p .empty { "People have decided no kind of call alike often enough." } }
        @for one in &found.patterns { (pattern(one)) }
        @if found.more > 0 { p { "There are " (many(found.more, "pattern")) " more than are shown." } }
        h2 { "Not enough" }
        (lacking(&found.lacking))
    }
}

fn pattern(one: &PatternLine) -> Markup {
    let done = if one.decision == "approve" { "approved" } else { "refused" };
    let to_write = format!(
        "wicketgate policy learn --config wicketgate.yaml --pattern {} --bundle policy --out policy-learned",
        one.id
    );
    html! {
        h2 { (shown(&one.tool)) " by " (shown(&one.agent)) ": " (done) " " (many(one.decisions, "time")) }
        dl {
            div { dt { "Pattern" } dd { (id(&one.id)) } }
            div { dt { "Held by" } dd { @for rule in &one.rules { p { code { (shown(rule)) } } } } }
            div { dt { "Decided by" } dd { (shown(&one.people.join(", "))) } }
            div { dt { "From" } dd { (time(&one.first)) " to " (time(&one.last)) } }
            div { dt { "Proposed until" } dd { (time(&one.until)) } }
            div { dt { "Definition" } dd { (id(&one.definition)) } }
            div { dt { "Newest calls" } dd { @for call in &one.calls { (link(call)) } } }
        }
        p { "To write its rule and tests, then sign and propose the bundle:" }
        (command(&to_write))
        (command("wicketgate policy sign policy-learned --key keys/policy.pem"))
        (command("wicketgate policy propose --bundle policy-learned --reason 'WHY' --token-file TOKEN"))
    }
}

fn link(call: &PatternCall) -> Markup {
    html! { p {
        a href={ "/console/calls/" (shown(&call.chain)) "/" (call.seq) } { (shown(&call.call)) } " " (time(&call.at))
    } }
}

fn lacking(all: &[PatternLack]) -> Markup {
    if all.is_empty() {
        return html! { p .empty { "No tool has twenty decisions in the last 90 days that make no pattern." } };
    }
    html! {
        div .wide { table {
            caption { (many(all.len(), "kind")) " of calls that make no pattern" }
            thead { tr {
                th scope="col" { "Tool" } th scope="col" { "Agent" } th scope="col" { "Decisions" }
                th scope="col" { "What is missing" }
            } }
            tbody { @for one in all { tr data-row {
                th scope="row" { (shown(&one.tool)) }
                td { (shown(&one.agent)) }
                td { (one.decisions) }
                td { (shown(&one.why)) }
            } } }
        } }
    }
}
