//! The texts of a governed configuration.

use std::time::Duration;

use serde_json::{Value, json};

use super::furnish::Plan;
use super::probe::Governed;
use super::yaml::{block, text};
use crate::domain::time::Timestamp;
use crate::mcp::raw::quoted;

const DAY: Duration = Duration::from_secs(86_400);

/// Midnight of that day.
fn day(at: Timestamp) -> String {
    format!("{}T00:00:00Z", at.to_string().split('T').next().unwrap_or_default())
}

/// `wicketgate.yaml`.
#[must_use]
pub fn configuration(plan: &Plan, governed: &[Governed]) -> String {
    let mut out = format!(
        "# Written by `wicketgate` from {from}. Relative paths start from this file's directory.\n\
         state: state                                   # ledger, socket, run-token and enrolment keys\n\
         operator: {{listen: \"127.0.0.1:0\"}}              # health and metrics; give a port to scrape them\n",
        from = text(&plan.from)
    );
    if let Some(address) = plan.http {
        out.push_str(&format!("listen: {{tcp: {}}}\n", quoted(&address.to_string())));
    }
    if plan.log != "info" {
        out.push_str(&format!("telemetry: {{log: {}}}\n", plan.log));
    }
    out.push_str(
        "fleet: {key: keys/fleet.pem}                   # signs the log of logs: `wicketgate ledger anchor`\n\
         trust:                                         # never the same key for two of them\n  \
         manifest_keys: [keys/manifest.pem.pub]\n  \
         policy_keys: [keys/policy.pem.pub]\n  \
         lock_keys: [keys/lock.pem.pub]\n\
         policy: {bundle: policy, deadline_ms: 2000}     # a busy desktop is no reason to deny\n\
         lock: tools.lock\n\
         agents:\n  - manifest: agent.yaml\n    \
         callers:                                   # whoever has this uid on the socket is this agent\n",
    );
    out.push_str(&format!("      - {{uid: {}}}\n", plan.uid));
    if plan.http.is_some() {
        out.push_str("      - {token_file: credentials/agent.token}\n");
    }
    out.push_str(
        "# A server's own word that a tool only reads is a claim: each `read_only` below is one until\n\
         # you have looked. Tools without an entry have the tier of their server.\n\
         servers:\n",
    );
    for one in governed {
        let config = one.draft.config(&one.said());
        out.push_str(&format!("  - name: {}\n", text(&one.draft.name)));
        for (name, value) in config.as_object().into_iter().flatten() {
            let empty = value.as_object().is_some_and(serde_json::Map::is_empty);
            if name != "name" && !empty {
                out.push_str(&format!("    {name}:{}", block(value, 6)));
            }
        }
    }
    out
}

/// `agent.yaml`.
#[must_use]
pub fn manifest(plan: &Plan, version: &str, governed: &[Governed], lock_id: &str) -> String {
    let mut out = format!(
        "# What this agent may ever use. Every change needs a new version and a new signature:\n\
         #   wicketgate manifest sign agent.yaml --key keys/manifest.pem\n\
         apiVersion: wicketgate.dev/v1\n\
         kind: AgentManifest\n\
         metadata: {{name: {agent}, version: {version}, owner: \"uid {uid}\"}}\n\
         spec:\n  status: active\n  \
         # An MCP client does not say which model it runs, so none is listed and none is asked for; an\n  \
         # irreversible tool still waits for a person.\n  \
         binding: {{minimum: unclaimed, tier3: unclaimed, faces: [mcp]}}\n  \
         tools:                                         # the only tools that exist for this agent\n",
        agent = text(&plan.agent),
        uid = plan.uid,
    );
    for one in governed {
        out.push_str(&format!(
            "    - server: {}\n      lock: {{signer: \"{lock_id}\"}}\n      allow:\n",
            text(&one.draft.name)
        ));
        for own in one.allowable() {
            let claim =
                if one.reads().any(|name| name == own) { "   # only reads, it says" } else { "" };
            out.push_str(&format!("        - {}{claim}\n", text(own)));
        }
    }
    out.push_str(&format!(
        "  limits: {{calls: 10000, calls_per_minute: 600}}\n  \
         validity: {{not_before: {}, not_after: {}}}\n",
        day(plan.now),
        day(plan.now.plus(DAY.saturating_mul(180))),
    ));
    out
}

/// `policy/bundle.json`: the agent layer observes.
#[must_use]
pub fn bundle(plan: &Plan, version: &str) -> String {
    let observe = json!({"agent": {"mode": "observe", "until": plan.until().to_string()}});
    let value: Value = json!({"name": plan.agent, "version": version,
        "not_before": plan.now.to_string(), "enforcement": observe});
    let mut text = serde_json::to_string_pretty(&value).unwrap_or_default();
    text.push('\n');
    text
}

/// What an auditor of this configuration trusts.
#[must_use]
pub fn trust(policy: &str) -> String {
    format!(
        "# Whom an auditor of this configuration trusts. Give it to them by another way than evidence.\n\
         evidence-key ../keys/evidence.pem.pub\n\
         manifest-key ../keys/manifest.pem.pub\n\
         enrolment-key ../state/enrolment.key.pub\n\
         policy {policy}\n"
    )
}
