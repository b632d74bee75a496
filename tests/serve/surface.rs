use std::collections::BTreeSet;

use prost::Message as _;
use prost_types::FileDescriptorSet;
use wicketgate::catalog::server::METHODS;
use wicketgate::operator::http::ENROLMENT;
use wicketgate::serve::{Access, SURFACE, pb, surface};

fn methods(descriptors: &[u8]) -> Vec<String> {
    let set = FileDescriptorSet::decode(descriptors).unwrap();
    let mut methods = Vec::new();
    for file in &set.file {
        for service in &file.service {
            for method in &service.method {
                methods.push(format!("{}.{}/{}", file.package(), service.name(), method.name()));
            }
        }
    }
    methods
}

#[test]
fn the_surface_lists_every_compiled_method_and_no_other() {
    let compiled: BTreeSet<String> = [
        pb::DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
    ]
    .into_iter()
    .flat_map(methods)
    .collect();
    let listed = surface().into_iter().map(|(name, _)| name).filter(|name| !name.contains(' '));
    let listed: BTreeSet<String> = listed.collect();
    assert_eq!(listed, compiled);
}

/// The routes of models, without and with the name of a run.
const MODELS: [&str; 32] = [
    "POST /v1/chat/completions",
    "POST /r/{run}/v1/chat/completions",
    "POST /managed/v1/chat/completions",
    "POST /r/{run}/managed/v1/chat/completions",
    "POST /v1/responses",
    "POST /r/{run}/v1/responses",
    "POST /v1/messages",
    "POST /r/{run}/v1/messages",
    "POST /v1/messages/count_tokens",
    "POST /r/{run}/v1/messages/count_tokens",
    "GET /v1/models",
    "GET /r/{run}/v1/models",
    "GET /managed/v1/models",
    "GET /r/{run}/managed/v1/models",
    "GET /v1/models/{id}",
    "GET /r/{run}/v1/models/{id}",
    "GET /managed/v1/models/{id}",
    "GET /r/{run}/managed/v1/models/{id}",
    "POST /v1beta/models/{model}:generateContent",
    "POST /r/{run}/v1beta/models/{model}:generateContent",
    "POST /v1beta/models/{model}:streamGenerateContent",
    "POST /r/{run}/v1beta/models/{model}:streamGenerateContent",
    "POST /v1beta/models/{model}:countTokens",
    "POST /r/{run}/v1beta/models/{model}:countTokens",
    "GET /v1beta/models",
    "GET /r/{run}/v1beta/models",
    "GET /v1beta/models/{id}",
    "GET /r/{run}/v1beta/models/{id}",
    "POST /api/chat",
    "POST /r/{run}/api/chat",
    "GET /api/tags",
    "GET /r/{run}/api/tags",
];

#[test]
fn a_model_is_asked_on_the_road_and_listed_to_known_callers() {
    let listed = surface().into_iter().filter(|(name, _)| {
        let own = |root: &str| name.contains(&format!(" {root}"));
        own("/r/") || MODELS.iter().any(|model| name == model)
    });
    let listed: Vec<_> = listed.collect();
    assert_eq!(listed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), MODELS);
    for (name, access) in listed {
        let expected =
            if name.starts_with("POST ") { Access::Enforced } else { Access::Identified };
        assert_eq!(access, expected, "{name}");
    }
}

#[test]
fn every_route_is_an_operators_an_agents_or_open_but_the_one_that_enrols() {
    let agents = |name: &str| name.contains(" /gate/v1/") || MODELS.contains(&name);
    let others = surface().into_iter().filter(|(name, access)| {
        name.contains(" /") && !agents(name) && !matches!(access, Access::Operated | Access::Open)
    });
    let others: Vec<_> = others.collect();
    assert_eq!(others, [(format!("POST {ENROLMENT}"), Access::Identified)]);
}

#[test]
fn no_method_of_the_gate_is_open_and_only_one_runs_a_tool() {
    let gate: Vec<_> = SURFACE.iter().filter(|(name, _)| name.contains(".Gate/")).collect();
    assert!(gate.iter().all(|(_, access)| *access != Access::Open));
    let enforced: Vec<_> =
        gate.iter().filter(|(_, access)| *access == Access::Enforced).map(|(n, _)| *n).collect();
    assert_eq!(enforced, ["wicketgate.v1.Gate/ExecuteTool"]);
}

#[test]
fn no_route_of_agents_is_open_and_only_making_a_call_runs_a_tool() {
    let agents = surface().into_iter().filter(|(name, _)| name.contains(" /gate/v1/"));
    let agents: Vec<_> = agents.collect();
    assert!(agents.iter().all(|(_, access)| *access != Access::Open));
    let enforced = agents.iter().filter(|(_, access)| *access == Access::Enforced);
    let enforced: Vec<&str> = enforced.map(|(name, _)| name.as_str()).collect();
    assert_eq!(enforced, ["POST /gate/v1/calls", "PUT /gate/v1/calls/{call_id}"]);
}

#[test]
fn nothing_over_mcp_is_open_and_what_is_passed_on_is_enforced() {
    let mcp: Vec<_> = SURFACE
        .iter()
        .filter_map(|(name, access)| Some((name.strip_prefix("MCP ")?, access)))
        .collect();
    assert!(mcp.iter().all(|(_, access)| **access != Access::Open));
    let enforced: BTreeSet<_> =
        mcp.iter().filter(|(_, access)| **access == Access::Enforced).map(|(n, _)| *n).collect();
    let passed_on = METHODS.into_iter().chain(["tools/call"]).collect();
    assert_eq!(enforced, passed_on);
}

#[test]
fn every_field_and_method_of_the_protocol_is_documented() {
    let proto = concat!(
        include_str!("../../proto/wicketgate/v1/gate.proto"),
        include_str!("../../proto/wicketgate/v1/approvals.proto"),
        include_str!("../../proto/wicketgate/v1/live.proto")
    );
    let mut before = "";
    for line in proto.lines().map(str::trim) {
        let declares = line.starts_with("rpc ")
            || line.starts_with("message ")
            || line.starts_with("service ")
            || (line.contains(" = ") && line.ends_with(';') && !line.starts_with("syntax"));
        assert!(!declares || before.starts_with("//"), "`{line}` says nothing about itself");
        before = line;
    }
}
