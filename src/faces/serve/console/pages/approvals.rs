//! Held calls: the queue, and one call with the exact bytes that would run.

use maud::{Markup, html};

use super::{Failure, command, facts, id, left, shown, time};
use crate::approval::ApproverVerdict;
use crate::domain::plural::many;
use crate::operator::api::replies::{HeldCall, HeldCallDetail, HeldCalls};
use crate::operator::api::requests::{HeldCallPath, Page as Lines};
use crate::operator::api::route;
use crate::operator::view::parts::Part;
use crate::operator::view::{Approved, Facts, Review, ShownArguments, words};
use crate::serve::console::visit::{Answer, Visit};

/// Lines of the queue.
const LINES: u64 = 100;

/// The queue.
pub(in super::super) async fn list(visit: &mut Visit) -> Result<Answer, Failure> {
    let held = visit.ask::<route::HeldCalls>((), Lines { limit: Some(LINES) }).await?;
    let body = html! {
        (table(visit, &held))
        @if held.more { p { "There are more than are shown: " (held.asks) " in all." } }
    };
    Ok(Answer::Page("Held calls".to_owned(), body))
}

/// Held calls, the gravest first.
pub(super) fn table(visit: &Visit, held: &HeldCalls) -> Markup {
    if held.held.is_empty() {
        return html! { p .empty { "No call is held." } };
    }
    let (now, reads) = (visit.console.api.clock().now(), visit.may::<route::HeldCallDetail>());
    html! {
        div .wide { table {
            caption { (many(held.calls, "held call")) ", highest tier first" }
            thead { tr {
                th scope="col" { "Tier" } th scope="col" { "Tool" } th scope="col" { "Agent" }
                th scope="col" { "Ends" } th scope="col" { "Approvals" } th scope="col" { "Why" }
            } }
            tbody { @for call in &held.held { tr data-row { (row(call, reads, |until| left(now, until))) } } }
        } }
        @if !reads { p .hint { "To see the arguments of a call takes the role approver or auditor." } }
    }
}

fn row(call: &HeldCall, reads: bool, left: impl Fn(&str) -> String) -> Markup {
    let tool = call.tool.as_deref().unwrap_or("unknown tool");
    let path =
        call.run.as_ref().map(|run| shown(&format!("/console/approvals/{run}/{}", call.call)));
    html! {
        td { b { (call.tier.as_deref().map(shown).unwrap_or_default()) } }
        th scope="row" {
            @match path.filter(|_| reads) {
                Some(path) => a href=(path) { (shown(tool)) },
                None => (shown(tool)),
            }
            @if call.count > 1 { " " span .hint { (many(call.count, "equal call")) } }
        }
        td { (shown(&call.agent)) " " (shown(&call.version)) }
        td { (call.expires.as_deref().map_or_else(|| "no end".to_owned(), left)) }
        td { (call.approvals) }
        td { @for reason in &call.reasons { p { (shown(reason)) } } }
    }
}

/// One held call.
pub(in super::super) async fn one(visit: &mut Visit) -> Result<Answer, Failure> {
    let path = visit.path::<HeldCallPath>().await?;
    let HeldCallDetail { facts, .. } = visit.ask::<route::HeldCallDetail>(path, ()).await?;
    let review =
        facts.review().map_err(|error| Failure::new(http::StatusCode::CONFLICT, &error.message))?;
    let ends = left(visit.console.api.clock().now(), &facts.expires);
    let decides = visit.may::<route::HeldCallDecision>();
    let url = visit.url().map_or_else(String::new, |url| format!(" --url {url}"));
    let title = format!("Held call: {}", shown(&facts.tool));
    Ok(Answer::Page(title, detail(&facts, &review, (&ends, decides.then_some(&*url)))))
}

/// All arguments of a held call, as a file: the bytes that an approver signs.
pub(in super::super) async fn arguments(visit: &mut Visit) -> Result<Answer, Failure> {
    let path = visit.path::<HeldCallPath>().await?;
    let HeldCallDetail { facts, .. } = visit.ask::<route::HeldCallDetail>(path, ()).await?;
    let checked = facts.check(ApproverVerdict::Approve);
    checked.map_err(|error| Failure::new(http::StatusCode::CONFLICT, &error.message))?;
    Ok(Answer::File(format!("arguments-{}.json", facts.call), facts.arguments))
}

/// All of one call, and for who decides the commands, which end with where to send the decision.
pub(super) fn detail(
    facts: &Facts,
    review: &Review,
    (ends, decides): (&str, Option<&str>),
) -> Markup {
    html! {
        p .tier { b { (review.tier) } " · " (ends) }
        (effect(facts, review))
        @if !review.doubts.is_empty() {
            section .doubts aria-labelledby="doubts" {
                h2 id="doubts" { "Look twice" }
                // The renderer of the terminal has spelled them out.
                ul { @for doubt in &review.doubts { li { (doubt) } } }
            }
        }
        section aria-labelledby="why" {
            h2 id="why" { "Why it is held" }
            ul { @for reason in &facts.reasons { li {
                (shown(if reason.detail.is_empty() { &reason.code } else { &reason.detail })) ": "
                (shown(&reason.message)) " " code { (shown(&reason.rule)) }
            } } }
        }
        @if !facts.headers.is_empty() {
            section aria-labelledby="headers" {
                h2 id="headers" { "Headers of the agent for the provider" }
                ul { @for one in &facts.headers { li { (shown(&one.name)) ": " (shown(&one.value)) } } }
            }
        }
        (read(facts, &review.arguments))
        (origin(facts))
        section aria-labelledby="decide" {
            h2 id="decide" { "Decide" }
            @match decides {
                Some(url) => (commands(facts, url)),
                None => p { "To decide takes the role approver." },
            }
        }
    }
}

/// The arguments, all at once or in parts.
fn read(call: &Facts, arguments: &ShownArguments) -> Markup {
    let bytes = call.arguments.len();
    html! {
        section aria-labelledby="arguments" {
            @match arguments {
                ShownArguments::Whole(text) => {
                    h2 id="arguments" { "Arguments, all " (bytes) " bytes" }
                    // Its lines after the first stand two columns in.
                    pre .arguments tabindex="0" { "  " (text) }
                    p .hint {
                        "End of the arguments. The bytes that run, each " code { "\\" } " written twice and what cannot be seen spelled out:"
                    }
                    details { summary { "bytes" } pre .arguments tabindex="0" { (shown(&call.arguments)) } }
                }
                ShownArguments::Parts(parts) => {
                    h2 id="arguments" { "Arguments, " (bytes) " bytes: not all are shown here" }
                    p {
                        a href={ "/console/approvals/" (shown(&call.run)) "/" (shown(&call.call)) "/arguments" } { "Read all of them as a file" }
                        " before you approve. Its SHA-256 is " (id(&call.arguments_sha256())) "."
                    }
                    @for one in parts { (part(one)) }
                    p .hint { "End of the arguments." }
                }
            }
        }
    }
}

/// One part of long arguments. The renderer of the terminal has spelled out what cannot be seen.
fn part(part: &Part) -> Markup {
    html! {
        p { (part.line()) }
        @if let Some(text) = &part.text { pre .arguments tabindex="0" { "    " (text) } }
    }
}

fn effect(call: &Facts, review: &Review) -> Markup {
    html! {
        (facts(&[
            ("Does", html! { (review.does) }),
            ("To", html! { code { (review.to) } }),
            ("Expires", time(&call.expires)),
            ("Held since", time(&call.held)),
            ("Digest", id(&review.digest.hex())),
            ("In words", id(&words(&review.digest))),
        ]))
        @if let Some(by) = &call.asked_by {
            p .doubts { "The arguments are from " (signer(by)) ", not the agent: that person cannot approve them." }
        }
        h2 { "Approvals" }
        @if call.approvals.is_empty() { p .empty { "None is recorded." } }
        ul { @for one in &call.approvals { li { (signer(one)) } } }
    }
}

/// Who signed, with which key, and where a passkey did: that console chose what the signer saw.
fn signer(one: &Approved) -> Markup {
    html! {
        b { (shown(&one.subject)) } " with " (id(&one.key))
        @if let Some(at) = &one.origin { ", signed at " (shown(at)) ", shown by that console" }
    }
}

fn origin(call: &Facts) -> Markup {
    html! {
        section aria-labelledby="origin" {
            h2 id="origin" { "Who asks" }
            (facts(&[
                ("Agent", html! { (shown(&call.agent)) " " (shown(&call.version)) " (" (shown(&call.binding)) ")" }),
                ("Run", html! { a href={ "/console/runs/" (shown(&call.run)) } { (id(&call.run)) } }),
                ("Call", id(&call.call)),
                ("Manifest", id(&call.manifest)),
                ("Definition", id(call.definition.as_deref().unwrap_or("not known"))),
            ]))
            @for layer in &call.layers { p { "Policy layer " (shown(&layer.layer)) " " (id(&layer.digest)) } }
            @if !call.claims.is_empty() {
                h3 { "Said by the agent about itself, not verified" }
                ul { @for claim in &call.claims { li { (shown(&claim.name)) " = " (shown(&claim.value)) } } }
            }
        }
    }
}

/// An approval is a signature with the approver's own key: the console gives the command that makes it.
fn commands(call: &Facts, url: &str) -> Markup {
    let of = |verb: &str| {
        format!(
            "wicketgate approval {verb} {} {} --token-file TOKEN --key KEY{url}",
            call.run, call.call
        )
    };
    html! {
        p {
            "A decision is a signature with your own SSH key. The command shows the call again, checks it against \
             the digest, and signs: " b { "compare the digest in words" } "."
        }
        @if call.is_long() {
            p { "To approve, name the file with the arguments that you read:" }
            (command(&format!("{} --arguments FILE", of("approve"))))
        } @else {
            p { "To approve:" } (command(&of("approve")))
        }
        p { "To refuse:" } (command(&of("refuse")))
        p { "To ask for other arguments:" }
        (command(&format!("{} --arguments FILE", of("modify"))))
    }
}
