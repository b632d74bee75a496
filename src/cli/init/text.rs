//! The texts of a governed configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use serde_saphyr::{Commented, DoubleQuoted, FlowMap, ser};

use super::furnish::Plan;
use super::probe::Governed;
use super::yaml::{Readable, document};
use crate::domain::time::Timestamp;
use crate::mcp::raw::quoted;

const DAY: Duration = Duration::from_secs(86_400);

/// Midnight of that day.
fn day(at: Timestamp) -> String {
    format!("{}T00:00:00Z", at.to_string().split('T').next().unwrap_or_default())
}

/// An address in quotation marks: others would read some of them as numbers.
type Address = FlowMap<BTreeMap<&'static str, DoubleQuoted<String>>>;

fn address(name: &'static str, address: &str) -> Address {
    FlowMap(BTreeMap::from([(name, DoubleQuoted(address.to_owned()))]))
}

/// `wicketgate.yaml`, its sections in the order in which people read them.
#[derive(Serialize)]
struct Configuration<'a> {
    state: &'static str,
    operator: Address,
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<Address>,
    #[serde(skip_serializing_if = "Option::is_none")]
    telemetry: Option<Readable>,
    fleet: Readable,
    trust: Readable,
    policy: Readable,
    taint: Readable,
    lock: &'static str,
    agents: [AgentText; 1],
    servers: Vec<Server<'a>>,
}

#[derive(Serialize)]
struct AgentText {
    manifest: &'static str,
    callers: Vec<Readable>,
}

#[derive(Serialize)]
struct Server<'a> {
    name: &'a str,
    #[serde(flatten)]
    rest: BTreeMap<String, Readable>,
}

const OF_THE_CONFIGURATION: [(&str, &str); 8] = [
    ("state:", "Ledger, socket, run-token and enrolment keys."),
    ("operator:", "Health and metrics; give a port to scrape them."),
    ("fleet:", "Signs the log of logs: `wicketgate ledger anchor`."),
    ("trust:", "Never the same key for two of them."),
    ("policy:", "A busy desktop is no reason to deny, so an evaluation has two seconds."),
    (
        "taint:",
        "Each session is judged by what it read itself: a client starts the gate anew, and a desktop has no approvers.",
    ),
    ("    callers:", "A process with this uid on the socket is this agent."),
    (
        "servers:",
        "Each `read_only` below is only a claim of its server until you have reviewed the tool.\n\
         Tools without an entry have the tier of their server.",
    ),
];

/// `wicketgate.yaml`.
///
/// # Errors
/// A value that YAML does not have.
pub fn configuration(plan: &Plan, governed: &[Governed]) -> Result<String, ser::Error> {
    let uid = Readable(json!({"uid": plan.uid}));
    let token = plan.http.map(|_| Readable(json!({"token_file": "credentials/agent.token"})));
    let telemetry = (plan.log != "info").then(|| Readable(json!({"log": plan.log})));
    let text = document(
        &Configuration {
            state: "state",
            operator: address("listen", "127.0.0.1:0"),
            listen: plan.http.map(|at| address("tcp", &at.to_string())),
            telemetry,
            fleet: Readable(json!({"key": "keys/fleet.pem"})),
            trust: Readable(json!({"manifest_keys": ["keys/manifest.pem.pub"],
                "policy_keys": ["keys/policy.pem.pub"], "lock_keys": ["keys/lock.pem.pub"]})),
            policy: Readable(json!({"bundle": "policy", "deadline_ms": 2000})),
            taint: Readable(json!({"linger_seconds": 0})),
            lock: "tools.lock",
            agents: [AgentText {
                manifest: "agent.yaml",
                callers: std::iter::once(uid).chain(token).collect(),
            }],
            servers: governed.iter().map(server).collect(),
        },
        &OF_THE_CONFIGURATION,
    )?;
    Ok(format!(
        "# Written by `wicketgate` from {}. Relative paths start from this file's directory.\n{text}",
        quoted(&plan.from)
    ))
}

fn server(one: &Governed) -> Server<'_> {
    let config = one.draft.config(&one.said());
    let is_empty = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty);
    let members = config.as_object().into_iter().flatten();
    let members = members.filter(|(name, value)| *name != "name" && !is_empty(value));
    let rest = members.map(|(name, value)| (name.clone(), Readable(value.clone()))).collect();
    Server { name: &one.draft.name, rest }
}

/// `agent.yaml`, its members in the order in which people read them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Readable,
    spec: Spec<'a>,
}

#[derive(Serialize)]
struct Spec<'a> {
    status: &'static str,
    binding: Readable,
    tools: Vec<Grant<'a>>,
    limits: Readable,
    validity: Readable,
}

#[derive(Serialize)]
struct Grant<'a> {
    server: &'a str,
    lock: Readable,
    allow: Vec<Commented<&'a str>>,
}

const OF_THE_MANIFEST: [(&str, &str); 3] = [
    (
        "apiVersion:",
        "What this agent may ever use. Every change needs a new version and a new signature:\n  \
         wicketgate manifest sign agent.yaml --key keys/manifest.pem",
    ),
    (
        "  binding:",
        "An MCP client does not say which model it runs, so the manifest neither lists nor requires one; an\n\
         irreversible tool still waits for a person.",
    ),
    ("  tools:", "The only tools that exist for this agent."),
];

/// `agent.yaml`.
///
/// # Errors
/// A value that YAML does not have.
pub fn manifest(
    plan: &Plan,
    version: &str,
    governed: &[Governed],
    lock_id: &str,
) -> Result<String, ser::Error> {
    let validity = json!({"not_before": day(plan.now), "not_after": day(plan.now.plus(DAY.saturating_mul(180)))});
    document(
        &Manifest {
            api_version: "wicketgate.dev/v1",
            kind: "AgentManifest",
            metadata: Readable(json!({"name": plan.agent, "version": version,
                "owner": format!("uid {}", plan.uid)})),
            spec: Spec {
                status: "active",
                binding: Readable(json!({"minimum": "unclaimed", "tier3": "unclaimed",
                    "faces": ["mcp"]})),
                tools: governed.iter().map(|one| grant(one, lock_id)).collect(),
                limits: Readable(json!({"calls": 10_000, "calls_per_minute": 600})),
                validity: Readable(validity),
            },
        },
        &OF_THE_MANIFEST,
    )
}

fn grant<'a>(one: &'a Governed, lock_id: &str) -> Grant<'a> {
    let claims = |own: &str| one.reads().any(|name| name == own);
    let note = |own| if claims(own) { "only reads, it says" } else { "" };
    let allow = one.allowable().map(|own| Commented(own, note(own).to_owned())).collect();
    Grant { server: &one.draft.name, lock: Readable(json!({"signer": lock_id})), allow }
}

/// `policy/bundle.json`: the agent layer observes.
pub fn bundle(plan: &Plan, version: &str) -> String {
    let observe = json!({"agent": {"mode": "observe", "until": plan.until().to_string()}});
    let value: Value = json!({"name": plan.agent, "version": version,
        "not_before": plan.now.to_string(), "enforcement": observe});
    let mut text = serde_json::to_string_pretty(&value).unwrap_or_default();
    text.push('\n');
    text
}

/// What an auditor of this configuration trusts.
pub fn trust(policy: &str) -> String {
    format!(
        "# Trust roots for an auditor of this configuration. Send this file separately from the evidence.\n\
         evidence-key ../keys/evidence.pem.pub\n\
         manifest-key ../keys/manifest.pem.pub\n\
         enrolment-key ../state/enrolment.key.pub\n\
         policy {policy}\n"
    )
}
