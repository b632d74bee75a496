//! One bundle: its windows, its proposal, what it would change, its files.

use maud::{Markup, html};

use super::policy::POLICY;
use super::{Failure, command, facts, id, shown, time, word};
use crate::domain::plural::many;
use crate::operator::api::policies::{BundleChange, BundleDetail, BundleFile};
use crate::operator::api::replies::{Amendment, GateReport};
use crate::operator::api::requests::BundlePath;
use crate::operator::api::route;
use crate::serve::console::visit::{Answer, Visit};

/// The page.
pub(in super::super) async fn one(visit: &mut Visit) -> Result<Answer, Failure> {
    let path = visit.path::<BundlePath>().await?;
    let bundle = visit.ask::<route::BundleDetail>(path, ()).await?;
    let url = visit.url().map_or_else(String::new, |url| format!(" --url {url}"));
    let decides = visit.may::<route::AmendmentDecision>();
    let title = format!("Bundle {} {}", shown(&bundle.name), shown(&bundle.version));
    Ok(Answer::Page(title, detail(&bundle, decides.then_some(&*url))))
}

/// All of a bundle, and for a publisher the commands, which end with where to send the decision.
pub(super) fn detail(bundle: &BundleDetail, decides: Option<&str>) -> Markup {
    let instant = |at: &Option<String>| match at {
        Some(at) => time(at),
        None => html! { "–" },
    };
    let agents = match bundle.manifests.as_slice() {
        [] => "any".to_owned(),
        some => some.join(", "),
    };
    html! {
        (facts(&[
            ("Digest", id(&bundle.bundle)),
            ("In force", html! {
                @if bundle.in_force.is_empty() { "nowhere" } @else { (shown(&bundle.in_force.join(", "))) }
            }),
            ("Not before", instant(&bundle.not_before)),
            ("Not after", instant(&bundle.not_after)),
            ("Agents", html! { (shown(&agents)) }),
            ("Observe", html! {
                @if bundle.observing.is_empty() { "no layer: every decision is enforced" }
                @for one in &bundle.observing { p { "layer " (shown(&one.layer)) " until " (time(&one.until)) } }
            }),
            ("Signed by", html! { @match &bundle.signers {
                None => "its signature is not kept here",
                Some(keys) if keys.is_empty() => "no key",
                Some(keys) => { @for key in keys { p { (id(key)) } } },
            } }),
        ]))
        @for layer in &bundle.layers { p { "Layer " (shown(&layer.layer)) " " (id(&layer.digest)) } }
        p { a href={ (POLICY) "/" (shown(&bundle.bundle)) "/backtest" } { "Test it on recorded decisions" } }
        @if let Some(proposal) = &bundle.proposal { (proposed(proposal, decides)) }
        h2 { "What it would change" }
        (differences(bundle))
        h2 { "Files" }
        @for file in &bundle.files { (one_file(file)) }
    }
}

fn proposed(proposal: &Amendment, decides: Option<&str>) -> Markup {
    let people = |all: &[String]| match all {
        [] => html! { "–" },
        some => html! { (shown(&some.join(", "))) },
    };
    html! {
        h2 { "Proposal" }
        (facts(&[
            ("State", html! { b { (shown(&proposal.standing)) } }),
            ("Author", html! { (shown(&proposal.author)) }),
            ("Why", html! { (shown(&proposal.reason)) }),
            ("Replaces", html! { a href={ (POLICY) "/" (shown(&proposal.base)) } { (id(&proposal.base)) } }),
            ("Proposed", time(&proposal.proposed)),
            ("Expires", time(&proposal.expires)),
            ("Approved by", people(&proposal.approved_by)),
            ("Refused by", people(&proposal.refused_by)),
        ]))
        (reports("What each gate found", &proposal.gates))
        @if let Some(activation) = &proposal.activation {
            p { "Activated by " (shown(&activation.subject)) " " (time(&activation.at)) "." }
            (reports("What each gate did", &activation.gates))
        }
        h3 { "Decide" }
        @match decides {
            None => p { "To decide takes the role policy_publisher; the author of a proposal cannot approve it." },
            Some(url) => (commands(&proposal.bundle, url)),
        }
    }
}

fn reports(title: &str, gates: &[GateReport]) -> Markup {
    html! {
        h3 { (title) }
        @if gates.is_empty() { p .empty { "No gate has reported." } }
        ul { @for gate in gates { li { (id(&gate.origin)) " " (time(&gate.at)) ": " code { (shown(&gate.done.to_string())) } } } }
    }
}

/// A decision is a signature with the publisher's own key: the console gives the commands that make it.
fn commands(bundle: &str, url: &str) -> Markup {
    let bundle = word(bundle);
    let signed =
        |verb: &str| format!("wicketgate policy {verb} {bundle} --key KEY --token-file TOKEN{url}");
    html! {
        p { "The command downloads the files, computes their digest and signs that digest." }
        p { "To read the files in your own editor:" }
        (command(&format!("wicketgate policy amendments show {bundle} --out DIR --token-file TOKEN{url}")))
        p { "To approve:" } (command(&signed("approve")))
        p { "To refuse:" } (command(&signed("refuse")))
        p { "To put it in force once enough people approved it:" }
        (command(&format!("wicketgate policy activate {bundle} --token-file TOKEN{url}")))
    }
}

fn differences(bundle: &BundleDetail) -> Markup {
    html! {
        @if let Some(why) = &bundle.uncompared { p .empty { "Compared with none: " (shown(why)) "." } }
        @if let Some(against) = &bundle.against {
            p { "Compared with the bundle in force, " a href={ (POLICY) "/" (shown(against)) } { (id(against)) } "." }
            @if bundle.changes.is_empty() { p .empty { "Rules and data are the same." } } @else {
                div .wide tabindex="0" { table {
                    caption { (many(bundle.changes.len(), "difference")) "; layout and comments do not count" }
                    thead { tr {
                        th scope="col" { "Edit" } th scope="col" { "What" } th scope="col" { "Name" }
                        th scope="col" { "Before" } th scope="col" { "After" }
                    } }
                    tbody { @for one in &bundle.changes { tr data-row { (difference(one)) } } }
                } }
            }
        }
    }
}

fn difference(one: &BundleChange) -> Markup {
    let side = |side: &Option<String>| shown(side.as_deref().unwrap_or("–"));
    html! {
        td { (shown(&one.edit)) }
        td { (shown(&one.what)) }
        th scope="row" { (shown(&one.name)) @if let Some(text) = &one.text { p { code { (shown(text)) } } } }
        td { (side(&one.old)) }
        td { (side(&one.new)) }
    }
}

fn one_file(file: &BundleFile) -> Markup {
    html! {
        details {
            summary { (shown(&file.name)) ", " (many(file.bytes, "byte")) }
            @match &file.text {
                Some(text) => pre .arguments tabindex="0" { (shown_lines(text)) },
                None => p .hint { "It is large or no text: read it in your own editor." },
            }
        }
    }
}

/// A text of several lines: each line by itself, so that its ends stay what they are. A tab is the four columns that
/// rules are laid out with.
pub(super) fn shown_lines(text: &str) -> String {
    let line = |line: &str| shown(&line.replace('\t', "    "));
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}
