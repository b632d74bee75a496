//! The runs: who, under what, every decision with its reasons, every call with inputs and outputs.

use maud::{Markup, html};

use super::words::{count, event, moment, outcome, payload, verdict};
use crate::bundle::word_files;
use crate::domain::json::Json;
use crate::survey::{Noted, Story, Survey, list, number, text};

/// Calls that are shown with their content; the rest are in `tool_trace.json`.
const CALLS_MAX: usize = 500;
/// Decisions that are shown; the rest are in `decision.json`.
const DECISIONS_MAX: usize = 2000;

/// For somebody who has never heard of any of this: what stands where, and what was recorded.
pub(super) fn about(survey: &Survey<'_>) -> Markup {
    html! {
        p {
            "An AI agent does things by calling tools. Wicketgate is a gate between the agent and every tool: it asks a "
            "signed policy about each call, writes the decision into a log " em { "before" } " the call runs and its end "
            "before the answer is passed on, and refuses what the policy does not allow."
        }
        @for story in survey.runs.iter().take(50) { (run(story)) }
        @if survey.runs.len() > 50 { p { "And " (survey.runs.len().saturating_sub(50)) " more runs in " code { "agent_run.json" } "." } }
    }
}

/// How the caller proved who it is: method, uid, SPIFFE id and certificate, as far as there are any.
fn through(auth: &Json) -> String {
    let uid = auth.get("uid").and_then(Json::as_u64).map(|uid| format!("uid {uid}"));
    let texts = ["method", "spiffe", "certificate"].map(|name| text(auth, name).to_owned());
    let [method, spiffe, certificate] = texts;
    let all = [Some(method), uid, Some(spiffe), Some(certificate)].into_iter().flatten();
    all.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn run(story: &Story) -> Markup {
    let (run, none) = (&story.run, Json::Null);
    let opening = run.get("opening").unwrap_or(&none);
    let auth = opening.get("auth").unwrap_or(&none);
    let at =
        |name: &str| run.get(name).map(|place| text(place, "ts").to_owned()).unwrap_or_default();
    let labels: Vec<String> = list(opening, "labels")
        .iter()
        .map(|label| format!("{} = {}", text(label, "k"), text(label, "v")))
        .collect();
    let listed =
        |name: &str| -> Vec<&str> { list(opening, name).iter().filter_map(Json::as_str).collect() };
    let ended: Vec<String> = run
        .get("seal")
        .map(|seal| list(seal, "calls"))
        .unwrap_or_default()
        .iter()
        .map(|told| format!("{} {}", number(told, "v"), text(told, "k")))
        .collect();
    let runs_below: Vec<&str> = list(run, "delegated").iter().filter_map(Json::as_str).collect();
    let instructions = listed("instructions").join(", ");
    let rows: Vec<(&str, String)> = vec![
        ("Run", text(run, "run").to_owned()),
        ("Agent", format!("{} {}", text(opening, "agent"), text(opening, "version"))),
        ("Model", text(opening, "model").to_owned()),
        ("Instructions (SHA-256)", instructions),
        ("Known how", binding(text(opening, "binding")).to_owned()),
        ("Manifest", text(opening, "manifest").to_owned()),
        ("Mode", text(opening, "mode").to_owned()),
        ("Asked through", through(auth)),
        ("Labels (claims)", labels.join(", ")),
        (
            "Delegated by",
            list(opening, "delegation").iter().map(above).collect::<Vec<_>>().join(", then "),
        ),
        ("Its manifest is known how", delegate(text(opening, "delegate")).to_owned()),
        ("Delegated to runs", runs_below.join(", ")),
        ("Goes on from", opening.get("replay").map(forked).unwrap_or_default()),
        ("Opened", at("opened")),
        ("Sealed", at("sealed")),
        ("Ends of its calls", ended.join(", ")),
        (
            "Policies",
            list(run, "policies").iter().filter_map(Json::as_str).collect::<Vec<_>>().join(", "),
        ),
        (
            "Incognito",
            opening
                .get("incognito")
                .map(|_| "yes: payloads were not stored".to_owned())
                .unwrap_or_default(),
        ),
    ];
    html! {
        dl .facts { @for (name, value) in rows.iter().filter(|(_, value)| !value.trim().is_empty()) {
            dt { (name) } dd { (value) }
        } }
    }
}

/// One of the runs above, the first one first.
fn above(one: &Json) -> String {
    format!("{} {} in run {}", text(one, "id"), text(one, "version"), text(one, "run"))
}

/// The recorded run that a run goes on from; empty for any other.
fn forked(replay: &Json) -> String {
    match replay.get("at").and_then(Json::as_u64) {
        Some(at) => format!(
            "step {at} of run {}; before that its agent was answered from the recording {}, and nothing was executed",
            text(replay, "run"),
            text(replay, "recording")
        ),
        None => String::new(),
    }
}

fn delegate(word: &str) -> &str {
    match word {
        "attested" => "attested: the run was opened with the agent's own listener or credential",
        "claimed" => "claimed: the caller of the run above opened it for a sub-agent of its own",
        other => other,
    }
}

fn binding(word: &str) -> &str {
    match word {
        "unclaimed" => "unclaimed: the agent claimed neither model nor instructions",
        "claimed" => {
            "claimed: the agent says which model and instructions it runs, nobody observed it"
        }
        "observed" => "observed: the gate saw the model traffic",
        other => other,
    }
}

/// Every decision in order.
pub(super) fn decisions(survey: &Survey<'_>) -> Markup {
    let all = survey.decisions().count();
    if all == 0 {
        return html! { p { "No decision is shown here." } };
    }
    html! {
        p { "In the order they were made. The rule is the one that decided, of an allow the first that was true; the policy's exact bytes are in " code { "policy/" } "." }
        table {
            thead { tr { th scope="col" { "Entry" } th scope="col" { "Time" } th scope="col" { "Call" } th scope="col" { "Tool" } th scope="col" { "Decision" } th scope="col" { "Rule and reasons" } } }
            tbody { @for decision in survey.decisions().take(DECISIONS_MAX) { (decided(survey, decision)) } }
        }
        @if all > DECISIONS_MAX { p { "And " (all.saturating_sub(DECISIONS_MAX)) " more in " code { "decision.json" } "." } }
    }
}

fn decided(survey: &Survey<'_>, decision: &Json) -> Markup {
    let none = Json::Null;
    let (at, told) =
        (decision.get("at").unwrap_or(&none), decision.get("decision").unwrap_or(&none));
    let seq = number(at, "seq");
    let duties: Vec<String> = list(told, "obligations").iter().map(duty).collect();
    let enforced = decision.get("enforced").and_then(Json::as_bool) != Some(false);
    html! {
        tr {
            td .n { (seq) }
            td { (moment(text(at, "ts"))) }
            td { code { (text(decision, "call")) } }
            td { code { (text(decision, "tool")) } br; span .small { "risk tier " (text(told, "tier")) } }
            td {
                span .word { (verdict(text(decision, "verdict"))) }
                @if !enforced { br; span .word { "NOT ENFORCED" } }
            }
            td {
                @if let Some(rule) = decision.get("rule").and_then(Json::as_str) { code { (rule) } }
                @for reason in list(told, "reasons") {
                    p {
                        code { (text(reason, "code")) @if !text(reason, "detail").is_empty() { "/" (text(reason, "detail")) } }
                        ": " (text(reason, "message"))
                        @if !text(reason, "rule").is_empty() { " " span .small { "by " (text(reason, "rule")) } }
                    }
                }
                @if !duties.is_empty() { p { (duties.join("; ")) } }
                @if let Some((commitment, opened)) = survey.policy_input(seq) {
                    p .small { "Input of the policy: " (if opened { "" } else { "not disclosed, commitment " }) code { @if opened { "payloads/" (commitment) ".bin" } @else { (commitment) } } }
                }
                p .small { "Policy " code { (text(decision, "policy")) } ", engine " (text(told, "engine")) }
            }
        }
    }
}

fn duty(obligation: &Json) -> String {
    match text(obligation, "type") {
        "redact" => {
            let kinds: Vec<&str> =
                list(obligation, "kinds").iter().filter_map(Json::as_str).collect();
            let whole = match text(obligation, "opaque") {
                "allow" => " (where the content can be read)",
                _strict => "",
            };
            format!("Redacted before release: {}{whole}", kinds.join(", "))
        }
        "cap_bytes" => format!("Answer limited to {} bytes", number(obligation, "bytes")),
        other => other.to_owned(),
    }
}

/// Every call with its events and payloads.
pub(super) fn calls(survey: &Survey<'_>) -> Markup {
    let all = survey.runs.iter().map(|story| story.calls.len()).sum::<usize>();
    if all == 0 {
        return html! { p { "No call is shown here." } };
    }
    let each = survey.runs.iter().flat_map(|story| {
        let steps = list(&story.run, "steps");
        story.calls.iter().enumerate().map(move |(at, call)| (call, steps.get(at)))
    });
    html! {
        @for (traced, step) in each.take(CALLS_MAX) { (call(traced, step)) }
        @if all > CALLS_MAX { p { "And " (count(all.saturating_sub(CALLS_MAX), "more call", "more calls")) " in " code { "tool_trace.json" } "." } }
    }
}

fn call(call: &Json, step: Option<&Json>) -> Markup {
    let ended = list(call, "events").last().map(|event| text(event, "kind")).unwrap_or_default();
    html! {
        section .call {
            h3 { code { (text(call, "call")) } " to " code { (text(call, "tool")) } ": " (outcome(ended)) }
            ol { @for happened in list(call, "events") { (one(happened)) } }
            (payload("Input", call.get("input")))
            (payload("Output", call.get("output")))
            (payload("Message", step.and_then(|step| step.get("message"))))
        }
    }
}

fn one(happened: &Json) -> Markup {
    let none = Json::Null;
    let (at, data) = (happened.get("at").unwrap_or(&none), happened.get("data").unwrap_or(&none));
    let mut said: Vec<String> = ["status", "class", "message", "cause", "reason"]
        .iter()
        .filter(|name| !text(data, name).is_empty())
        .map(|name| format!("{name}: {}", text(data, name)))
        .collect();
    said.extend(data.get("us").and_then(Json::as_u64).map(|us| format!("{us} microseconds")));
    said.extend(
        data.get("attempts")
            .and_then(Json::as_u64)
            .filter(|n| *n > 1)
            .map(|n| format!("{n} attempts")),
    );
    html! {
        li {
            (event(text(happened, "kind"))) " "
            span .small { "entry " (number(at, "seq")) ", " (text(at, "ts")) @for part in &said { ", " (part) } }
        }
    }
}

/// Approvals by people, and what each of them signed.
pub(super) fn approvals(survey: &Survey<'_>) -> Markup {
    let kinds = ["approval.granted", "approval.refused"];
    let held = survey.of_kinds(&["call.held"]).count();
    let given: Vec<&Noted> = survey.of_kinds(&kinds).collect();
    html! {
        (amendments(survey))
        @if given.is_empty() {
            p {
                "No approval is recorded in this bundle. "
                @if held > 0 { (count(held, "call was", "calls were")) " put on hold for a person; what became of them is above." }
            }
        } @else {
            ul { @for noted in given { (word(survey, noted)) } }
            p .small {
                "Each of these is a person's own SSH signature over the call, the policy and the time it was held "
                "until. " code { "VERIFY.md" } " tells how to check them with OpenSSH."
            }
        }
    }
}

/// How the policy in force came to be: who proposed it, who approved it.
fn amendments(survey: &Survey<'_>) -> Markup {
    let kinds = ["amendment.proposed", "amendment.approved", "amendment.refused"];
    let told: Vec<&Noted> = survey.of_kinds(&kinds).collect();
    let none = Json::Null;
    html! {
        @if !told.is_empty() {
            p { "The policy was amended on the books:" }
            ul { @for noted in told {
                @let entry = &noted.entry;
                @let data = entry.get("data").unwrap_or(&none);
                li {
                    strong { (text(data, "subject")) } " "
                    @match text(entry, "kind") {
                        "amendment.proposed" => { "proposed" }
                        "amendment.approved" => { "approved" }
                        _ => { strong { "was refused or refused" } }
                    }
                    " bundle " code { (text(data, "bundle")) } ", entry " (number(entry, "seq")) ", " (text(entry, "ts"))
                    @if !text(data, "reason").is_empty() { ", saying: " (text(data, "reason")) }
                    @if !text(data, "key").is_empty() { p .small { "Key " code { (text(data, "key")) } "." } }
                }
            } }
        }
    }
}

fn word(survey: &Survey<'_>, noted: &Noted) -> Markup {
    let (entry, none) = (&noted.entry, Json::Null);
    let data = entry.get("data").unwrap_or(&none);
    let roles: Vec<&str> = list(data, "roles").iter().filter_map(Json::as_str).collect();
    let folder = noted.file.strip_suffix("/entries.jsonl").unwrap_or_default();
    let (statement, signature) = word_files(folder, number(entry, "seq"));
    let shown = survey.has(&statement);
    html! {
        li {
            strong { (text(data, "subject")) } " (" (roles.join(", ")) ") "
            @if text(entry, "kind") == "approval.granted" { "approved" } @else { strong { "refused" } }
            " call " code { (text(entry, "call")) } ", entry " (number(entry, "seq")) ", " (text(entry, "ts"))
            @if !text(data, "reason").is_empty() { ", saying: " (text(data, "reason")) }
            p .small {
                "Key " code { (text(data, "key")) } ". "
                @if shown { "What was signed: " code { (statement) } ", " code { (signature) } }
                @else { "What was signed is not disclosed." }
            }
        }
    }
}
