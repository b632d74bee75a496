//! The runs: agents and manifests, every decision with its reasons, every call with inputs and
//! outputs.

use maud::{Markup, html};
use serde::Deserialize;

use super::words::{event, moment, outcome, payload, verdict};
use crate::bundle::word_files;
use crate::domain::plural::many;
use crate::record::Text;
use crate::record::call::{Obligation, Release};
use crate::survey::{Noted, RunSummary, Survey};
use crate::views::{
    AboveView, AuthView, CallView, DecisionView, EventView, PlaceView, ReplayView, StepView,
};

/// The most calls shown with their content; `tool_trace.json` has the rest.
const CALLS_MAX: usize = 500;
/// The most decisions shown; `decision.json` has the rest.
const DECISIONS_MAX: usize = 2000;

/// An introduction for readers who are new to the product: the parts of the page, and what was
/// recorded.
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

/// How the caller authenticated: method, uid, SPIFFE id and certificate, as far as present.
fn through(auth: &AuthView) -> String {
    let AuthView { method, uid, spiffe, certificate } = auth.clone();
    let uid = uid.map(|uid| format!("uid {uid}"));
    let all = [Some(method), uid, Some(spiffe), Some(certificate)].into_iter().flatten();
    all.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn run(story: &RunSummary) -> Markup {
    let (run, opening) = (&story.run, &story.run.opening);
    let at = |place: &Option<PlaceView>| {
        place.as_ref().map(|place| place.ts.clone()).unwrap_or_default()
    };
    let labels: Vec<String> =
        opening.labels.iter().map(|label| format!("{} = {}", label.k, label.v)).collect();
    let ended: Vec<String> =
        run.seal.calls.iter().map(|told| format!("{} {}", told.v, told.k)).collect();
    let rows: Vec<(&str, String)> = vec![
        ("Run", run.run.clone()),
        ("Agent", format!("{} {}", opening.agent, opening.version)),
        ("Model", opening.model.clone()),
        ("Instructions (SHA-256)", opening.instructions.join(", ")),
        ("Known how", binding(&opening.binding).to_owned()),
        ("Manifest", opening.manifest.clone()),
        ("Mode", opening.mode.clone()),
        ("Asked through", through(&opening.auth)),
        ("Labels (claims)", labels.join(", ")),
        ("Delegated by", opening.delegation.iter().map(above).collect::<Vec<_>>().join(", then ")),
        ("Its manifest is known how", delegate(&opening.delegate).to_owned()),
        ("Delegated to runs", run.delegated.join(", ")),
        ("Goes on from", forked(&opening.replay)),
        ("Opened", at(&run.opened)),
        ("Sealed", at(&run.sealed)),
        ("Ends of its calls", ended.join(", ")),
        ("Policies", run.policies.join(", ")),
        (
            "Incognito",
            if opening.incognito { "yes: payloads were not stored" } else { "" }.to_owned(),
        ),
    ];
    html! {
        dl .facts { @for (name, value) in rows.iter().filter(|(_, value)| !value.trim().is_empty()) {
            dt { (name) } dd { (value) }
        } }
    }
}

/// One ancestor of a run.
fn above(one: &AboveView) -> String {
    format!("{} {} in run {}", one.id, one.version, one.run)
}

/// The recorded run from which a run continues; empty for any other.
fn forked(replay: &ReplayView) -> String {
    match replay.at {
        Some(at) => format!(
            "step {at} of run {}; before that its agent was answered from the recording {}, and nothing was executed",
            replay.run, replay.recording
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
            "claimed: the agent says which model and instructions it runs; this was not observed"
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

fn decided(survey: &Survey<'_>, decision: &DecisionView) -> Markup {
    let (seq, told) = (decision.at.seq, &decision.decision);
    let duties: Vec<String> = told.obligations.iter().map(duty).collect();
    let enforced = decision.enforced != Some(false);
    html! {
        tr {
            td .n { (seq) }
            td { (moment(&decision.at.ts)) }
            td { code { (decision.call) } }
            td { code { (decision.tool) } br; span .small { "risk tier " (told.tier) } }
            td {
                span .word { (verdict(&decision.verdict)) }
                @if !enforced { br; span .word { "NOT ENFORCED" } }
            }
            td {
                @if let Some(rule) = &decision.rule { code { (rule) } }
                @for reason in &told.reasons {
                    p {
                        code { (reason.code) @if !reason.detail.is_empty() { "/" (reason.detail) } }
                        ": " (reason.message)
                        @if !reason.rule.is_empty() { " " span .small { "by " (reason.rule) } }
                    }
                }
                @if !duties.is_empty() { p { (duties.join("; ")) } }
                @if let Some((commitment, opened)) = survey.policy_input(seq) {
                    p .small { "Input of the policy: " (if opened { "" } else { "not disclosed, commitment " }) code { @if opened { "payloads/" (commitment) ".bin" } @else { (commitment) } } }
                }
                p .small { "Policy " code { (decision.policy) } ", engine " (told.engine) }
            }
        }
    }
}

fn duty(obligation: &Obligation) -> String {
    match obligation.r#type.as_str() {
        "redact" => {
            let kinds = obligation.kinds.iter().flat_map(|kinds| kinds.iter());
            let kinds: Vec<&str> = kinds.map(Text::as_str).collect();
            let whole = match obligation.opaque {
                Some(Release::Allow) => " (where the content can be read)",
                None => "",
            };
            format!("Redacted before release: {}{whole}", kinds.join(", "))
        }
        "cap_bytes" => {
            format!("Answer limited to {} bytes", obligation.bytes.unwrap_or_default())
        }
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
        let steps = &story.run.steps;
        story.calls.iter().enumerate().map(move |(at, call)| (call, steps.get(at)))
    });
    html! {
        @for (traced, step) in each.take(CALLS_MAX) { (call(traced, step)) }
        @if all > CALLS_MAX { p { "And " (many(all.saturating_sub(CALLS_MAX), "more call")) " in " code { "tool_trace.json" } "." } }
    }
}

fn call(call: &CallView, step: Option<&StepView>) -> Markup {
    let ended = call.events.last().map(|event| event.kind.as_str()).unwrap_or_default();
    html! {
        section .call {
            h3 { code { (call.call) } " to " code { (call.tool) } ": " (outcome(ended)) }
            ol { @for happened in &call.events { (one(happened)) } }
            (payload("Input", call.input.as_ref()))
            (payload("Output", call.output.as_ref()))
            (payload("Message", step.and_then(|step| step.message.as_ref())))
        }
    }
}

fn one(happened: &EventView) -> Markup {
    let (at, data) = (&happened.at, &happened.data);
    let texts = [
        ("status", &data.status),
        ("class", &data.class),
        ("message", &data.message),
        ("cause", &data.cause),
        ("reason", &data.reason),
    ];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let mut said: Vec<String> = texts.map(|(name, text)| format!("{name}: {text}")).collect();
    said.extend(data.us.map(|us| many(us, "microsecond")));
    said.extend(data.attempts.filter(|n| *n > 1).map(|n| format!("{n} attempts")));
    html! {
        li {
            (event(&happened.kind)) " "
            span .small { "entry " (at.seq) ", " (at.ts) @for part in &said { ", " (part) } }
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
                @if held > 0 { (many(held, "call")) (if held == 1 { " was" } else { " were" }) " put on hold for a person; what became of them is above." }
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

/// The origin of the active policy: its proposal and its approvals.
fn amendments(survey: &Survey<'_>) -> Markup {
    let kinds = ["amendment.proposed", "amendment.approved", "amendment.refused"];
    let told: Vec<&Noted> = survey.of_kinds(&kinds).collect();
    html! {
        @if !told.is_empty() {
            p { "Recorded amendments of the policy:" }
            ul { @for noted in told {
                @let data = signature(noted);
                li {
                    strong { (data.subject) } " "
                    @match noted.kind() {
                        "amendment.proposed" => { "proposed" }
                        "amendment.approved" => { "approved" }
                        _ => { strong { "was refused or refused" } }
                    }
                    " bundle " code { (data.bundle) } ", entry " (noted.entry.seq) ", " (noted.entry.ts)
                    @if !data.reason.is_empty() { ", saying: " (data.reason) }
                    @if !data.key.is_empty() { p .small { "Key " code { (data.key) } "." } }
                }
            } }
        }
    }
}

/// What entries of signed kinds record about the signer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Signature {
    subject: String,
    roles: Vec<String>,
    key: String,
    reason: String,
    bundle: String,
}

fn signature(noted: &Noted) -> Signature {
    noted.data().read().unwrap_or_default()
}

fn word(survey: &Survey<'_>, noted: &Noted) -> Markup {
    let (entry, data) = (&noted.entry, signature(noted));
    let call = entry.draft.call.as_ref().map(ToString::to_string).unwrap_or_default();
    let folder = noted.file.strip_suffix("/entries.jsonl").unwrap_or_default();
    let (statement, signature) = word_files(folder, entry.seq);
    let shown = survey.has(&statement);
    html! {
        li {
            strong { (data.subject) } " (" (data.roles.join(", ")) ") "
            @if noted.kind() == "approval.granted" { "approved" } @else { strong { "refused" } }
            " call " code { (call) } ", entry " (entry.seq) ", " (entry.ts)
            @if !data.reason.is_empty() { ", saying: " (data.reason) }
            p .small {
                "Key " code { (data.key) } ". "
                @if shown { "What was signed: " code { (statement) } ", " code { (signature) } }
                @else { "What was signed is not disclosed." }
            }
        }
    }
}
