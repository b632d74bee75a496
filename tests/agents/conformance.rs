//! The official conformance suite against an upstream directly and through the gate.

use std::collections::BTreeSet;

use serde_json::json;

use crate::estate::{Estate, TOKEN};
use crate::forwarder::Forwarder;
use crate::suite::{self, Upstream, VERSIONS};

/// Everything the agent's manifest grants is allowed.
const ALLOW_ALL: &str = "package wicketgate.agent\nimport rego.v1\n\nallow if startswith(input.tool.name, \"everything.\")\n";

/// Scenarios in which the server asks something of the agent's side: to answer as a user, to run its model, to name its
/// folders. The gate refuses all of that for every server, so these cannot pass through it, and nothing else may fail.
const REFUSED: [&str; 14] = [
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "input-required-result-basic-elicitation",
    "input-required-result-basic-list-roots",
    "input-required-result-basic-sampling",
    "input-required-result-capability-check",
    "input-required-result-multi-round",
    "input-required-result-multiple-input-requests",
    "input-required-result-non-tool-request",
    "input-required-result-request-state",
    "input-required-result-result-type",
    "input-required-result-tampered-state",
    "tools-call-elicitation",
    "tools-call-sampling",
];

/// The gate passes no updates of resources on, so it declares no subscriptions and takes none: an answer without a
/// single update to follow would be a lie.
const NOT_OFFERED: [&str; 2] = ["resources-subscribe", "resources-unsubscribe"];

/// A scenario that checks nothing if the answer is no stream: the gate has no stream to cut and resume, as it answers once
/// the outcome is on the books.
const SILENT: [&str; 1] = ["server-sse-polling"];

/// What the gate has to do right by itself, whatever stands behind it.
const OWN: [&str; 8] = [
    "caching",
    "dns-rebinding-protection",
    "http-custom-header-server-validation",
    "http-header-validation",
    "server-initialize",
    "server-session-lifecycle",
    "server-stateless",
    "tools-list",
];

#[test]
fn no_scenario_that_passes_without_the_gate_is_lost_through_it() {
    let upstream = Upstream::start();
    let http = json!({"url": upstream.url, "private_addresses": ["127.0.0.1/32"]});
    let server = json!({"http": http, "tier": "T1"});
    let servers = [("everything", server)];
    let estate = Estate::whole(&servers, ALLOW_ALL);
    let gate = estate.serve();
    let forwarder = Forwarder::to(gate.agents(), TOKEN);
    let url = format!("http://{}/mcp/s/everything", forwarder.address);

    let mut own = BTreeSet::new();
    let mut lost = Vec::new();
    for version in VERSIONS {
        let direct = suite::run(&upstream.url, version);
        let governed = suite::run(&url, version);
        assert_eq!(
            direct.keys().collect::<Vec<_>>(),
            governed.keys().collect::<Vec<_>>(),
            "the same scenarios in {version}"
        );
        for (scenario, outcome) in &governed {
            let refused = REFUSED.iter().chain(&NOT_OFFERED).any(|name| name == scenario);
            let expected = direct[scenario].passes() || OWN.contains(&scenario.as_str());
            let silent = SILENT.contains(&scenario.as_str()) && outcome.failed.is_empty();
            if expected && !refused && !outcome.passes() && !silent {
                lost.push(format!("{version} {scenario}: {:?}", outcome.failed));
            }
            // An exception that is none any more has to leave the list.
            if refused && outcome.passes() {
                lost.push(format!(
                    "{version} {scenario} passes and stands in the list of those that cannot"
                ));
            }
            if outcome.passes() {
                own.insert(scenario.clone());
            }
        }
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
    for scenario in OWN {
        assert!(own.contains(scenario), "{scenario} was not run");
    }
    gate.finish();
}

#[test]
fn the_upstream_of_these_tests_passes_what_the_gate_is_measured_by() {
    let upstream = Upstream::start();
    for version in VERSIONS {
        let direct = suite::run(&upstream.url, version);
        let failed: Vec<_> = direct.iter().filter(|(_, outcome)| !outcome.passes()).collect();
        let only = if version == "2026-07-28" {
            vec!["http-custom-header-server-validation"]
        } else {
            vec![]
        };
        assert_eq!(
            failed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            only,
            "{failed:?}"
        );
        assert!(direct.len() > 25, "{version}: {}", direct.len());
    }
}
