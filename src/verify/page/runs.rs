//! The runs: agents and manifests, every decision with its reasons, every call with inputs and
//! outputs.

use maud::{Markup, html};
use serde::Deserialize;

use super::first::uncovered;
use super::terms::{event, moment, outcome, payload, verdict};
use crate::bundle::statement_files;
use crate::domain::decision::Verdict;
use crate::domain::id::{CallId, RunId};
use crate::domain::json::Json;
use crate::domain::plural::many;
use crate::entries::EntryLine;
use crate::projection;
use crate::projection::{BundleMaterial, ProjectedCall, decides, delegated, policies, unenforced};
use crate::record::alert::AlertRaised;
use crate::record::call::{Auth, Obligation, RedactedPart, Release};
use crate::record::run::{Delegator, Replay, RunOpened, RunSealed};
use crate::record::{Entry, Kind, Role, Text};
use crate::survey::{Noted, Survey};

/// The most calls shown with their content; `tool_trace.json` has the rest.
const CALLS_MAX: usize = 500;
/// Messages that a call to a model adds; the page shows no more of them.
const MESSAGES_MAX: usize = 32;
/// The most decisions shown; `decision.json` has the rest.
const DECISIONS_MAX: usize = 2000;
/// The most alerts shown; the entries have the rest.
const ALERTS_MAX: usize = 500;

/// An introduction for readers who are new to the product: the parts of the page, and what was
/// recorded.
pub(super) fn about(survey: &Survey<'_>) -> Markup {
    let runs = survey.runs();
    html! {
        p {
            "An AI agent acts by calling tools. Wicketgate is a gate between the agent and every tool. It evaluates a "
            "signed policy for each call, and refuses calls that the policy does not allow. It records the decision in a "
            "log " em { "before" } " the call runs, and the outcome before the agent gets the answer."
        }
        @for material in runs.iter().take(50) { (run(material)) }
        @if runs.len() > 50 { p { "And " (runs.len().saturating_sub(50)) " more runs in " code { "agent_run.json" } "." } }
    }
}

/// The opening of a run, if what is selected begins with it.
pub(super) fn opening<'a>(material: &BundleMaterial<'a>) -> Option<&'a RunOpened> {
    material.of_run().next()?.get()
}

/// How the caller authenticated: method, service account, uid, SPIFFE id and certificate, as far as present.
fn through(auth: &Auth) -> String {
    let uid = auth.uid.map(|uid| format!("uid {uid}"));
    let spiffe = auth.spiffe.as_ref().map(ToString::to_string);
    let certificate = auth.certificate.map(|digest| digest.to_string());
    let account = auth.account.as_ref().map(ToString::to_string);
    let all =
        [Some(auth.method.to_string()), account, uid, spiffe, certificate].into_iter().flatten();
    all.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn run(material: &BundleMaterial<'_>) -> Markup {
    let mut rows = vec![("Run", material.run.to_string())];
    let opened = material.of_run().next().filter(|line| line.is(Kind::RunOpened));
    rows.extend(opening(material).map(begun).into_iter().flatten());
    rows.push(("Delegated to runs", delegated(material).join(", ")));
    let replay = opening(material).and_then(|opened| opened.replay.as_ref());
    rows.push(("Goes on from", replay.map(forked).unwrap_or_default()));
    rows.extend(opened.map(|line| ("Opened", line.entry.ts.to_string())));
    if let Some(line) = material.of_run().find(|line| line.is(Kind::RunSealed)) {
        let calls = line.get::<RunSealed>().map(|seal| seal.calls.iter()).into_iter().flatten();
        let ended: Vec<String> =
            calls.map(|decision| format!("{} {}", decision.v, decision.k)).collect();
        rows.push(("Sealed", line.entry.ts.to_string()));
        rows.push(("Ends of its calls", ended.join(", ")));
    }
    rows.push(("Policies", policies(material).into_iter().collect::<Vec<_>>().join(", ")));
    if opening(material).is_some_and(|opened| opened.incognito.is_some()) {
        rows.push(("Incognito", "yes: payloads were not stored".to_owned()));
    }
    html! {
        dl .facts { @for (name, value) in rows.iter().filter(|(_, value)| !value.trim().is_empty()) {
            dt { (name) } dd { (value) }
        } }
    }
}

/// What `run.opened` records.
fn begun(opened: &RunOpened) -> Vec<(&'static str, String)> {
    let labels = opened.labels.iter().map(|label| format!("{} = {}", label.k, label.v));
    let instructions = opened.instructions.iter().map(ToString::to_string);
    let above_it = opened.delegation.iter().flat_map(|above| above.iter()).map(above);
    vec![
        ("Agent", format!("{} {}", opened.agent, opened.version)),
        ("Model", opened.model.to_string()),
        ("Instructions (SHA-256)", instructions.collect::<Vec<_>>().join(", ")),
        ("Known how", binding(opened.binding.as_str()).to_owned()),
        ("Manifest", opened.manifest.to_string()),
        ("Mode", opened.mode.to_string()),
        ("Asked through", through(&opened.auth)),
        ("Labels (claims)", labels.collect::<Vec<_>>().join(", ")),
        ("Delegated by", above_it.collect::<Vec<_>>().join(", then ")),
        (
            "How the manifest is known",
            opened.delegate.map(|how| delegate(how.as_str()).to_owned()).unwrap_or_default(),
        ),
    ]
}

/// One ancestor of a run.
fn above(one: &Delegator) -> String {
    format!("{} {} in run {}", one.id, one.version, one.run)
}

/// The recorded run from which a run continues; empty for any other.
fn forked(replay: &Replay) -> String {
    let run = replay.run.map(|run| run.to_string()).unwrap_or_default();
    let recording = replay.recording.map(|digest| digest.to_string()).unwrap_or_default();
    match replay.at {
        Some(at) => format!(
            "step {at} of run {run}; before that its agent was answered from the recording {recording}, and nothing was executed"
        ),
        None => String::new(),
    }
}

fn delegate(name: &str) -> &str {
    match name {
        "attested" => {
            "attested: the run was opened over the agent's own listener or with its own credential"
        }
        "claimed" => "claimed: the caller of the run above opened it for a sub-agent of its own",
        other => other,
    }
}

fn binding(name: &str) -> &str {
    match name {
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
        p { "In the order in which they were made. The rule is the one that decided; for an allow, it is the first rule that was true. The policy's exact bytes are in " code { "policy/" } "." }
        table {
            thead { tr { th scope="col" { "Entry" } th scope="col" { "Time" } th scope="col" { "Call" } th scope="col" { "Tool" } th scope="col" { "Decision" } th scope="col" { "Rule and reasons" } } }
            tbody { @for decision in survey.decisions().take(DECISIONS_MAX) { (decided(survey, decision)) } }
        }
        @if all > DECISIONS_MAX { p { "And " (all.saturating_sub(DECISIONS_MAX)) " more in " code { "decision.json" } "." } }
    }
}

fn decided(survey: &Survey<'_>, line: &EntryLine) -> Markup {
    let draft = &line.entry.draft;
    let decision = line.decision();
    let reasons = decision.as_ref().map(|decision| decision.reasons).unwrap_or_default();
    let obligations = decision.as_ref().map(|decision| decision.obligations).unwrap_or_default();
    let obligations: Vec<String> = obligations.iter().map(duty).collect();
    let tier =
        decision.as_ref().and_then(|decision| decision.tier).map_or("", |tier| tier.as_str());
    let policy = draft.policy.map(|policy| policy.prefixed()).unwrap_or_default();
    html! {
        tr {
            td .n { (line.entry.seq) }
            td { (moment(&line.entry.ts.to_string())) }
            td { code { @if let Some(call) = &draft.call { (call) } } }
            td { code { @if let Some(tool) = &draft.tool { (tool) } } br; span .small { "risk tier " (tier) } }
            td {
                span .word { (verdict(draft.verdict.map_or("", Verdict::as_str))) }
                @if unenforced(line) { br; span .word { "NOT ENFORCED" } }
            }
            td {
                @if let Some(rule) = &draft.rule { code { (rule) } }
                @for reason in reasons {
                    p {
                        code { (reason.code) @if !reason.detail.is_empty() { "/" (reason.detail) } }
                        ": " (reason.message)
                        @if !reason.rule.is_empty() { " " span .small { "by " (reason.rule) } }
                    }
                }
                @if !obligations.is_empty() { p { (obligations.join("; ")) } }
                @for line in read_before(line) { p .small { (line) } }
                @if let Some((commitment, opened)) = survey.policy_input(line) {
                    p .small { "Input of the policy: " (if opened { "" } else { "not disclosed, commitment " }) code { @if opened { "payloads/" (commitment) ".bin" } @else { (commitment) } } }
                }
                @if let Some(of) = decision.and_then(|decision| decision.gate_of) {
                    p .small { "The gate made this call itself: it checks or takes back call " code { (of) } }
                }
                @if let Some(by) = decision.and_then(|decision| decision.proposed_by) {
                    p .small { "The gate saw a model ask for exactly this, in the answer of call " code { (by) } }
                }
                p .small { "Policy " code { (policy) } ", engine " (decision.map_or("", |decision| decision.engine)) }
            }
        }
    }
}

/// What the run had read, and which passages of the call are copies of it.
fn read_before(line: &EntryLine) -> Vec<String> {
    let Some(taint) = line.decision().and_then(|decision| decision.taint) else {
        return Vec::new();
    };
    let from = |call: &CallId, run: Option<RunId>| match run {
        None => format!("call {call}"),
        Some(run) => format!("call {call} of run {run}"),
    };
    let labels = taint
        .labels
        .iter()
        .map(|one| format!("{} content since {}", one.label, from(&one.call, one.run)));
    let spans = taint.spans.iter().flat_map(|spans| spans.iter()).map(|span| {
        let (path, label) = (span.path.as_str(), span.label);
        format!("{path}: copied from {} ({label})", from(&span.call, span.run))
    });
    let unknown =
        taint.unknown.map(|_| "other copies may be in it: the gate was restarted since".to_owned());
    labels.chain(spans).chain(unknown).collect()
}

/// Every alert in order.
pub(super) fn alerts(survey: &Survey<'_>) -> Markup {
    let all: Vec<(&Entry, &AlertRaised)> = survey
        .entries()
        .filter_map(|noted| Some((noted.entry, noted.entry.draft.get::<AlertRaised>()?)))
        .collect();
    if all.is_empty() {
        return html! { p { "No alert is recorded." } };
    }
    html! {
        p {
            "What operators should look at. An alert decides nothing: it follows from the entries that it counts, "
            "and stands in the log right behind the last of them. On whose word: the gate's."
        }
        table {
            thead { tr { th scope="col" { "Entry" } th scope="col" { "Time" } th scope="col" { "Severity" } th scope="col" { "Alert" } th scope="col" { "Call" } th scope="col" { "Tool" } th scope="col" { "Counted" } } }
            tbody { @for (entry, alert) in all.iter().take(ALERTS_MAX) { (alert_row(entry, alert)) } }
        }
        @if all.len() > ALERTS_MAX { p { "And " (all.len().saturating_sub(ALERTS_MAX)) " more in the entries." } }
    }
}

fn alert_row(entry: &Entry, alert: &AlertRaised) -> Markup {
    html! {
        tr {
            td .n { (entry.seq) }
            td { (moment(&entry.ts.to_string())) }
            td { span .word { (alert.severity) } }
            td { (alert.alert.title()) br; span .small { code { (alert.alert) } ", agent " (alert.agent) } }
            td { code { @if let Some(call) = &alert.call { (call) } } }
            td { code { @if let Some(tool) = &alert.tool { (tool) } } }
            td { (many(alert.count.get(), "entry")) ", from " (alert.first) " to " (alert.last) }
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
            let before = match obligation.r#where {
                Some(RedactedPart::Arguments) => "Redacted in the arguments before the call ran",
                None => "Redacted before release",
            };
            format!("{before}: {}{whole}", kinds.join(", "))
        }
        "cap_bytes" => {
            format!("Answer limited to {} bytes", obligation.bytes.unwrap_or_default())
        }
        "enhanced_audit" => {
            format!("Payloads kept for {} days", obligation.days.unwrap_or_default())
        }
        "rate_limit" => format!(
            "At most {} calls of the tool within {} seconds in the run",
            obligation.calls.unwrap_or_default(),
            obligation.seconds.unwrap_or_default()
        ),
        "notify" => {
            let to = obligation.to.iter().flat_map(|to| to.iter());
            format!("Reported to: {}", to.map(|to| to.as_str()).collect::<Vec<_>>().join(", "))
        }
        "justify" => "The agent had to give a reason".to_owned(),
        other => other.to_owned(),
    }
}

/// Every call with its events and payloads.
pub(super) fn calls(survey: &Survey<'_>) -> Markup {
    let all = survey.calls_count();
    if all == 0 {
        return html! { p { "No call is shown here." } };
    }
    let runs = survey.runs();
    let each = runs.iter().flat_map(|run| run.calls().into_iter().map(move |call| (run, call)));
    html! {
        @for (material, each) in each.take(CALLS_MAX) { (call(material, &each)) }
        @if all > CALLS_MAX { p { "And " (many(all.saturating_sub(CALLS_MAX), "more call")) " in " code { "tool_trace.json" } "." } }
    }
}

fn call(material: &BundleMaterial<'_>, call: &ProjectedCall<'_>) -> Markup {
    let tool = call.lines.first().and_then(|first| first.entry.draft.tool.as_ref());
    let ended = call.lines.last().map_or("", |last| last.kind());
    let shown = |role| projection::payload(material, call, role);
    // A long answer has an entry for every second.
    let newest = call.lines.iter().rposition(|line| line.is(Kind::CallProgress));
    let lines = call.lines.iter().enumerate();
    let lines = lines.filter(|(at, line)| !line.is(Kind::CallProgress) || newest == Some(*at));
    html! {
        section .call {
            h3 { code { (call.id) } " to " code { @if let Some(tool) = tool { (tool) } } ": " (outcome(ended)) }
            ol { @for (_, line) in lines { (one(line)) } }
            @if let Some(bytes) = call.covered_bytes() {
                p { "The gate ended while the call ran: " (uncovered(bytes)) "." }
            }
            (payload("Input", shown(Role::Args)))
            (payload("Output", shown(Role::Result)))
            @for message in projection::payloads(material, call, Role::Message).take(MESSAGES_MAX) {
                (payload("New message", Some(message)))
            }
        }
    }
}

/// What entries record about how a call ended.
#[derive(Default, Deserialize)]
#[serde(default)]
struct CallEnd {
    status: String,
    class: String,
    message: String,
    cause: String,
    reason: String,
    us: Option<u64>,
    attempts: Option<u64>,
    /// Of progress.
    bytes: Option<u64>,
    observed: EndObserved,
}

/// What the gate measured, as far as the page shows it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct EndObserved {
    attempts: Vec<AskedUpstream>,
}

/// One upstream of a model that was asked.
#[derive(Deserialize)]
struct AskedUpstream {
    upstream: String,
    status: String,
}

fn one(line: &EntryLine) -> Markup {
    let data = (!decides(line)).then(|| Json::of(&line.entry.draft.body));
    let data: CallEnd = data.and_then(|data| data.read().ok()).unwrap_or_default();
    let texts = [
        ("status", &data.status),
        ("class", &data.class),
        ("message", &data.message),
        ("cause", &data.cause),
        ("reason", &data.reason),
    ];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let mut parts: Vec<String> = texts.map(|(name, text)| format!("{name}: {text}")).collect();
    parts.extend(data.bytes.map(|bytes| format!("{} had left", many(bytes, "byte"))));
    parts.extend(data.us.map(|us| many(us, "microsecond")));
    parts.extend(data.attempts.filter(|n| *n > 1).map(|n| format!("{n} attempts")));
    let upstreams = data.observed.attempts.into_iter();
    parts.extend(upstreams.map(|AskedUpstream { upstream, status }| {
        format!("upstream {upstream} answered: {status}")
    }));
    html! {
        li {
            (event(line.kind())) " "
            span .small { "entry " (line.entry.seq) ", " (line.entry.ts) @for part in &parts { ", " (part) } }
        }
    }
}

/// Approvals by people, and what each of them signed.
pub(super) fn approvals(survey: &Survey<'_>) -> Markup {
    let kinds = ["approval.granted", "approval.refused"];
    let held = survey.of_kinds(&["call.held"]).count();
    let given: Vec<Noted<'_>> = survey.of_kinds(&kinds).collect();
    html! {
        (amendments(survey))
        @if given.is_empty() {
            p {
                "No approval is recorded in this bundle. "
                @if held > 0 { (many(held, "call")) (if held == 1 { " was" } else { " were" }) " held for a person; the outcome is listed above." }
            }
        } @else {
            ul { @for noted in &given { (statement(survey, noted)) } }
            p .small {
                "Each of these is a person's own SSH signature over the call, the policy and the time it was held "
                "until. " code { "VERIFY.md" } " explains how to check them with OpenSSH."
            }
        }
    }
}

/// The origin of the active policy: its proposal and its approvals.
fn amendments(survey: &Survey<'_>) -> Markup {
    let kinds = ["amendment.proposed", "amendment.approved", "amendment.refused"];
    let entries: Vec<Noted<'_>> = survey.of_kinds(&kinds).collect();
    html! {
        @if !entries.is_empty() {
            p { "Recorded amendments of the policy:" }
            ul { @for noted in &entries {
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
    origin: String,
    reason: String,
    bundle: String,
}

fn signature(noted: &Noted<'_>) -> Signature {
    noted.data().read().unwrap_or_default()
}

fn statement(survey: &Survey<'_>, noted: &Noted<'_>) -> Markup {
    let (entry, data) = (noted.entry, signature(noted));
    let call = entry.draft.call.as_ref().map(ToString::to_string).unwrap_or_default();
    let (statement, signature) = statement_files(noted.folder, entry.seq);
    let shown = survey.has(&statement);
    html! {
        li {
            strong { (data.subject) } " (" (data.roles.join(", ")) ") "
            @if noted.kind() == "approval.granted" { "approved" } @else { strong { "refused" } }
            " call " code { (call) } ", entry " (entry.seq) ", " (entry.ts)
            @if !data.reason.is_empty() { ", saying: " (data.reason) }
            p .small {
                "Key " code { (data.key) } ". "
                @if !data.origin.is_empty() { "A passkey, signed at " (data.origin) ", shown by that console. " }
                @if shown { "What was signed: " code { (statement) } ", " code { (signature) } }
                @else { "What was signed is not disclosed." }
            }
        }
    }
}
