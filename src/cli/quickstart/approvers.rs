//! The approvers' part: two people with SSH keys of their own, and the commands they would type.

use serde_json::{Value, json};

use super::agent::{DemoAgent, DemoAnswer};
use super::directory::DemoDirectory;
use super::error::{CallFault, Error};
use super::own::CommandOutput;
use super::steps::StepPrinter;
use crate::approval::Approvers;
use crate::approval::approvers::Purpose;
use crate::clock::SystemEntropy;
use crate::crypto::keys::SecretKey;
use crate::crypto::{openssh, ssh::SshKey};
use crate::domain::token::Family;
use crate::identity::token::mint;
use serde::Deserialize;

/// Who may approve: the name of their files, and their subject.
const PEOPLE: [(&str, &str); 2] = [("ada", "ada@example.com"), ("grace", "grace@example.com")];
/// The operator who may reinstate and erase.
const OPERATOR: (&str, &str) = ("otto", "otto@example.com");
/// The token that logs the reader in to the console. No key belongs to it: the reader can look and cannot approve.
pub const YOURS: &str = "people/you.token";
/// The signed list of the approvers and the operator.
pub const LIST: &str = "approvers/allowed_signers";

/// Makes keys and tokens, and the list that `key` signs.
pub fn furnish(demo: &DemoDirectory, key: &SecretKey) -> Result<(), Error> {
    let mut list = String::from("# wicketgate: version=1\n");
    let token = |path: &str| demo.write(path, &mint(Family::Operator, &SystemEntropy).0, 0o600);
    token(YOURS)?;
    for (name, subject) in PEOPLE {
        token(&format!("people/{name}.token"))?;
        list.push_str(&line(demo, (name, subject), Purpose::Approval)?);
    }
    list.push_str(&line(demo, OPERATOR, Purpose::Order)?);
    demo.write(LIST, &list, 0o644)?;
    let envelope = Approvers::sign(Purpose::Approval, list.as_bytes(), &[key])?;
    demo.write_bytes(&format!("{LIST}.sig.json"), &envelope, 0o644)
}

/// Makes an approver's key: the line of it for this purpose.
fn line(
    demo: &DemoDirectory,
    (name, subject): (&str, &str),
    purpose: Purpose,
) -> Result<String, Error> {
    let own = SecretKey::generate(&SystemEntropy);
    let path = demo.path(&format!("people/{name}"));
    openssh::store(&own, &path, subject)?;
    let (line, role) = (SshKey::Plain(own.public()).line(), purpose.role());
    Ok(format!("{subject} namespaces=\"{}\" {line} roles={role}\n", purpose.namespace()))
}

/// Both approve the held call, one after the other; then the agent repeats it and gets its result.
pub async fn approve(
    demo: &DemoDirectory,
    (run, url): (&str, &str),
    (agent, call): (&mut DemoAgent, (&'static str, &str, &Value)),
    printer: &mut StepPrinter,
) -> Result<(), Error> {
    let (id, tool, arguments) = call;
    for (at, (name, subject)) in PEOPLE.into_iter().enumerate() {
        let last = at.saturating_add(1) == PEOPLE.len();
        let state = if last { "authorized" } else { "held" };
        let (token, key) = (format!("people/{name}.token"), format!("people/{name}"));
        let args =
            ["approval", "approve", run, id, "--token-file", &token, "--key", &key, "--url", url];
        let with: Vec<&str> = args.iter().copied().chain(["--yes", "--json"]).collect();
        let ran = demo.run(&with).await?;
        let now = call_state(&ran);
        if ran.code != Some(0) || now.as_deref() != Some(state) {
            return Err(Error::Approval { subject, state: now, ran });
        }
        let then = if last { "that is enough: the call runs" } else { "one more is needed" };
        let line = format!("{subject} saw all of {id} and signed with an SSH key; {then}");
        printer.step(
            "approve",
            "approved",
            &line,
            &json!({"call": id, "subject": subject, "state": state}),
        );
        printer.command(&["approval", "approve", "RUN", id, "--key", &key, "…"]);
    }
    match agent.call(id, tool, arguments).await {
        DemoAnswer::Ran { result, entry, .. } if result.contains("booked") => {
            let line = format!(
                "the agent makes the call again with the same id: {result} (entry {entry})"
            );
            printer.more(&line);
        }
        DemoAnswer::Ran { result, .. } => {
            return Err(Error::Call { call: id, fault: CallFault::Result(result) });
        }
        DemoAnswer::Refused(refused) => {
            return Err(Error::Refused { request: "the approved call", refused });
        }
    }
    printer.gap();
    Ok(())
}

/// The state of the call, from the gate's answer.
fn call_state(ran: &CommandOutput) -> Option<String> {
    let Outcome { gates } = serde_json::from_str(&ran.out).ok()?;
    gates.into_iter().map(|gate| gate.done.call).find(|call| !call.is_empty())
}

/// The outcome of an approval.
#[derive(Deserialize)]
struct Outcome {
    gates: Vec<GateReport>,
}

/// What one gate did.
#[derive(Deserialize)]
struct GateReport {
    done: ApproverOutcome,
}

/// The state of the call, where the gate has it.
#[derive(Deserialize)]
struct ApproverOutcome {
    #[serde(default)]
    call: String,
}
