//! The agent's part: a run, seven calls, one of them approved by two people, the seal. Each act
//! checks its outcome.

use serde_json::{Value, json};

use super::agent::{DemoAgent, DemoAnswer, DemoRefusal};
use super::approvers;
use super::directory::{DemoDirectory, INSTRUCTIONS};
use super::error::{CallFault, Error};
use super::steps::StepPrinter;
use super::tools::ToolServer;
use crate::catalog::schema::clip;
use crate::domain::digest::Digest;
use crate::domain::plural::many;

const MODEL: &str = "gpt-5-mini";
/// The held call.
const HELD: &str = "pay-2500";

/// The tools behind the HTTP server.
const HTTP: [&str; 3] = ["crm.search", "payments.transfer", "tickets.create"];
/// The call that needs a sandbox.
const COUNT: &str = "count-1";

/// What has to become of a call.
enum Fate {
    /// It runs, and its result holds the first text and not the second.
    Allowed { holds: &'static str, hides: &'static str, because: &'static str },
    /// The gate refuses it with this code, by the rule with this prefix.
    Refused { label: &'static str, code: &'static str, rule: &'static str, file: &'static str },
}

/// One call of the play.
struct DemoCall {
    id: &'static str,
    tool: &'static str,
    arguments: Value,
    fate: Fate,
}

fn demo_calls() -> [DemoCall; 7] {
    let allowed = |holds, hides, because| Fate::Allowed { holds, hides, because };
    [
        DemoCall {
            id: "read-1",
            tool: "handbook.read",
            arguments: json!({"path": "refunds.md"}),
            fate: allowed("More than that needs two people", "", ""),
        },
        DemoCall {
            id: "find-1",
            tool: "crm.search",
            arguments: json!({"name": "Berg"}),
            fate: allowed(
                "[REDACTED:email]",
                "anna.berg@",
                "the policy masked the address; the tool got a credential the agent never saw",
            ),
        },
        DemoCall {
            id: "paid-1",
            tool: "invoices.of",
            arguments: json!({"customer": "C-1042"}),
            fate: allowed(
                "R-7",
                "R-9",
                "the operator wrote the SQL statement, which reads one SQLite file; the agent gave one value",
            ),
        },
        DemoCall {
            id: COUNT,
            tool: "text.count",
            arguments: json!({"text": "invoice R-7 was paid twice"}),
            fate: allowed(
                "\"stdout\":\"5\\n\"",
                "",
                "/usr/bin/wc, pinned by its digest, ran in a sandbox: no shell, no network, no files",
            ),
        },
        DemoCall {
            id: "pay-250",
            tool: "payments.transfer",
            arguments: json!({"customer": "C-1042", "amount": 250}),
            fate: allowed("booked", "", ""),
        },
        DemoCall {
            id: "note-1",
            tool: "tickets.create",
            arguments: json!({"title": "paid twice", "text": "tell anna.berg@customer.example"}),
            fate: Fate::Refused {
                label: "denied",
                code: "policy.denied",
                rule: "wicketgate.agent.deny",
                file: "agent/personal_data.rego:",
            },
        },
        DemoCall {
            id: HELD,
            tool: "payments.transfer",
            arguments: json!({"customer": "C-1042", "amount": 2500}),
            fate: Fate::Refused {
                label: "held",
                code: "call.held",
                rule: "wicketgate.agent.require_approval",
                file: "agent/amount.rego:",
            },
        },
    ]
}

/// Opens the run; another model is refused first. The run's id.
pub async fn open(
    agent: &mut DemoAgent,
    demo: &DemoDirectory,
    printer: &mut StepPrinter,
) -> Result<String, Error> {
    let hash = Digest::of(&[INSTRUCTIONS.as_bytes()]).hex();
    let other = match agent.open("some-other-model", &hash).await {
        Err(refused) if refused.code == "manifest.mismatch" => refused,
        Err(refused) => return Err(Error::Refused { request: "a run of another model", refused }),
        Ok(_) => return Err(Error::NotRefused("a run of another model")),
    };
    let refusal = |request| move |refused| Error::Refused { request, refused };
    let opened = agent.open(MODEL, &hash).await.map_err(refusal("the run"))?;
    let tools = agent.tools().await.map_err(refusal("the tools"))?;
    let names: Vec<_> = tools.iter().map(|tool| format!("{} {}", tool.name, tool.tier)).collect();
    let all = if demo.has_command() { 6 } else { 5 };
    if tools.len() != all {
        return Err(Error::Tools { seen: tools.len(), granted: all });
    }
    let line = format!("`support-agent` opened run {}", opened.run_id);
    let facts = json!({"run": opened.run_id, "binding": opened.binding, "other_model": other.code,
        "tools": tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>()});
    printer.step("run", "run", &line, &facts);
    printer
        .more("model and instructions are those of its signed manifest; another model was refused");
    printer.more(&format!("it sees {}, and nothing else", names.join(", ")));
    printer.gap();
    Ok(opened.run_id)
}

/// Plays every call.
pub async fn calls(
    agent: &mut DemoAgent,
    demo: &DemoDirectory,
    printer: &mut StepPrinter,
) -> Result<(), Error> {
    for act in demo_calls().into_iter().filter(|act| act.id != COUNT || demo.has_command()) {
        let answer = agent.call(act.id, act.tool, &act.arguments).await;
        report(&act, answer, demo, printer).map_err(|fault| Error::Call { call: act.id, fault })?;
    }
    printer.gap();
    Ok(())
}

fn report(
    act: &DemoCall,
    answer: DemoAnswer,
    demo: &DemoDirectory,
    printer: &mut StepPrinter,
) -> Result<(), CallFault> {
    let line = format!("{} {}", act.tool, act.arguments);
    match (&act.fate, answer) {
        (Fate::Allowed { holds, hides, because }, DemoAnswer::Ran { status, result, entry }) => {
            if !result.contains(holds) || (!hides.is_empty() && result.contains(hides)) {
                return Err(CallFault::Result(result));
            }
            if result.contains(demo.tool_token()) {
                return Err(CallFault::Credential);
            }
            let facts = json!({"call": act.id, "tool": act.tool, "verdict": "allowed",
                "status": status, "result": result, "entry": entry});
            printer.step("call", "allowed", &line, &facts);
            printer.more(&format!("{} (entry {entry})", shortened(&result)));
            printer.more(because);
            Ok(())
        }
        (Fate::Refused { label, code, rule, file }, DemoAnswer::Refused(refused)) => {
            let is_match =
                |rule_text: &&String| rule_text.starts_with(*rule) && rule_text.contains(file);
            let by = refused.rules.iter().find(is_match).filter(|_| refused.code == *code);
            let Some(by) = by.cloned() else { return Err(CallFault::Rules { refused }) };
            let facts = json!({"call": act.id, "tool": act.tool, "verdict": label,
                "code": refused.code, "grpc": refused.grpc, "message": refused.message,
                "rule": by, "expires": refused.expires});
            printer.step("call", label, &line, &facts);
            printer.more(&refused.to_string());
            printer.more(&format!("rule {by}"));
            Ok(())
        }
        (Fate::Allowed { .. }, DemoAnswer::Refused(refused)) => Err(CallFault::Refused(refused)),
        (Fate::Refused { label, .. }, DemoAnswer::Ran { .. }) => Err(CallFault::Ran(label)),
    }
}

/// At most one line that fits.
fn shortened(result: &str) -> String {
    const CHARS_MAX: usize = 96;
    clip(&result.replace('\n', " "), CHARS_MAX)
}

/// Two people approve the held call, and it runs.
pub async fn approve(
    demo: &DemoDirectory,
    at: (&str, &str),
    agent: &mut DemoAgent,
    printer: &mut StepPrinter,
) -> Result<(), Error> {
    waits(agent.recorded(HELD).await)?;
    let acts = demo_calls();
    let held = acts.iter().find(|act| act.id == HELD).ok_or(Error::NotRefused(HELD))?;
    let call = (held.id, held.tool, &held.arguments);
    approvers::approve(demo, at, (agent, call), printer).await
}

/// Leaves one more call held, in a run of its own, for the reader at the console. The run's id.
pub async fn leave_one(agent: &mut DemoAgent) -> Result<String, Error> {
    let hash = Digest::of(&[INSTRUCTIONS.as_bytes()]).hex();
    let opened = agent.open(MODEL, &hash).await;
    let opened = opened.map_err(|refused| Error::Refused { request: "the run", refused })?;
    let acts = demo_calls();
    let held = acts.iter().find(|act| act.id == HELD).ok_or(Error::NotRefused(HELD))?;
    match agent.call(held.id, held.tool, &held.arguments).await {
        DemoAnswer::Refused(refused) => waits(Err(refused))?,
        DemoAnswer::Ran { .. } => return Err(Error::NotRefused("the held call")),
    }
    Ok(opened.run_id)
}

/// Compares the tool server's counters with the allowed and approved calls.
pub async fn count(tools: &mut ToolServer, printer: &mut StepPrinter) -> Result<(), Error> {
    let ran = |act: &DemoCall| matches!(act.fate, Fate::Allowed { .. }) || act.id == HELD;
    let is = |act: &&DemoCall| HTTP.contains(&act.tool) && ran(act);
    let allowed = u64::try_from(demo_calls().iter().filter(is).count()).unwrap_or(0);
    let hits = tools.hits().await?;
    if hits.all != allowed {
        return Err(Error::Count { allowed, hits });
    }
    let line = format!(
        "the tool server got {}, from the {} that were allowed or approved",
        many(allowed, "request"),
        many(allowed, "HTTP call")
    );
    printer.step("count", "counted", &line, &json!({"allowed": allowed, "hits": hits}));
    Ok(())
}

/// Seals the run.
pub async fn seal(agent: &mut DemoAgent, printer: &mut StepPrinter) -> Result<(), Error> {
    let sealed = agent.seal().await;
    let sealed = sealed.map_err(|refused| Error::Refused { request: "the seal", refused })?;
    let dead = match agent.tools().await {
        Err(refused) if refused.code == "run.sealed" || refused.code == "run.unknown" => refused,
        Err(refused) => {
            return Err(Error::Refused { request: "the tools after the seal", refused });
        }
        Ok(_) => return Err(Error::NotRefused("the run token after the seal")),
    };
    let line = format!("{}; the run token no longer works", many(sealed.entries, "entry"));
    let facts = json!({"entries": sealed.entries, "run": sealed.run_id, "token": dead.code});
    printer.step("seal", "sealed", &line, &facts);
    Ok(())
}

fn waits(recorded: Result<(), DemoRefusal>) -> Result<(), Error> {
    match recorded {
        Err(refused) if refused.code == "call.held" => Ok(()),
        Err(refused) => Err(Error::Refused { request: "the held call", refused }),
        Ok(()) => Err(Error::NotRefused("the held call")),
    }
}
