//! A table of wrong fields, each with its code.

use super::*;

/// A field, its new value, the code and a part of the message.
const WRONG: &[(&str, &str, &str, &str)] = &[
    (
        "kind: AgentManifest",
        "kind: Agent",
        "manifest.schema",
        "agent.yaml:2:1: kind: expected `AgentManifest`",
    ),
    ("dev/v1", "dev/v2", "manifest.schema", "apiVersion: expected `wicketgate.dev/v1`"),
    ("version: 1.4.0", "version: 1.4", "manifest.schema", "metadata.version"),
    ("version: 1.4.0", "version: v1.4.0", "manifest.schema", "`v1.4.0` is not a semantic version"),
    (
        "code-review-agent",
        "Code_Review",
        "manifest.schema",
        "metadata.name: expected an agent name",
    ),
    ("names: [gpt-5-mini]", "names: []", "manifest.schema", "spec.model.names: expected 1 to 64"),
    ("status: active", "status: on", "manifest.schema", "agent.yaml:5:3: spec.status"),
    ("prefix:4096", "prefix:0", "manifest.schema", "spec.instructions[1].scope: expected `whole`"),
    ("tier: T0", "tier: T9", "manifest.schema", "spec.tools[0].tier: expected `T0`"),
    (
        "name: tickets.create",
        "name: repo.read_file",
        "manifest.schema",
        "`repo.read_file` is granted twice",
    ),
    (
        "{name: repo.read_file, tier: T0}",
        "{server: github, lock: {signer: x}, allow: [y]}",
        "manifest.schema",
        "agent.yaml:12:31: spec.tools[0].lock.signer: expected the id of the key",
    ),
    (
        "{name: repo.read_file, tier: T0}",
        "{server: github, allow: [y]}",
        "manifest.schema",
        "agent.yaml:12:7: spec.tools[0]: missing field `lock`",
    ),
    (
        "{name: repo.read_file, tier: T0}",
        "{name: a, server: github, allow: [y]}",
        "manifest.schema",
        "spec.tools[0]: is either `name` or `server`, `lock` and `allow`",
    ),
    (
        "{name: repo.read_file, tier: T0}",
        "{server: git.hub, lock: {signer: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}, allow: [y]}",
        "manifest.schema",
        "spec.tools[0].server: expected the name of an MCP server",
    ),
    (
        "{name: repo.read_file, tier: T0}",
        "{server: a, lock: {signer: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}, allow: [y, tools/call]}",
        "manifest.schema",
        "spec.tools[0].allow[1]: `tools/call` is neither a tool's name nor a method",
    ),
    (
        "{name: repo.read_file, tier: T0}",
        "{server: a, lock: {signer: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}, allow: [resources.read, resources/read]}",
        "manifest.schema",
        "spec.tools[0].allow[1]: tool `a.resources.read` is granted twice",
    ),
    (
        "{name: repo.read_file, tier: T0}",
        "{server: tickets, lock: {signer: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}, allow: [create]}",
        "manifest.schema",
        "`tickets.create` is granted twice",
    ),
    (
        "{name: repo.read_file, tier: T0}",
        "{server: a, lock: {signer: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}, allow: []}",
        "manifest.schema",
        "spec.tools[0].allow: expected 1 to 1024",
    ),
    (
        "status: active",
        "status: active\n  mode: dry",
        "manifest.schema",
        "spec.mode: expected `enforce` or",
    ),
    (
        "{name: repo.read_file, tier: T0}",
        "{name: a, kind: http}",
        "manifest.schema",
        "spec.tools[0].kind: unknown field",
    ),
    ("mode: \"off\"", "mode: record, volatile: {repo.read_file: [/request_id, /a~1b/0]}", "ok", ""),
    ("mode: \"off\"", "mode: deterministic", "ok", ""),
    ("mode: \"off\"", "mode: always", "manifest.schema", "spec.replay.mode: expected `\"off\"`"),
    (
        "mode: \"off\"",
        "mode: record, volatile: {repo.read_file: [request_id]}",
        "manifest.schema",
        "expected a JSON pointer into the arguments",
    ),
    ("mode: \"off\"", "mode: off", "ok", ""),
    (
        "delegates: []",
        "delegates: [{manifest: x}]",
        "manifest.schema",
        "spec.delegates[0].manifest: expected `sha256:`",
    ),
    (
        "delegates: []",
        "delegates: [{agent: x}]",
        "manifest.schema",
        "spec.delegates[0].agent: unknown field",
    ),
    (
        "delegates: []",
        "delegates: [{manifest: \"sha256:eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee\"}, {manifest: \"sha256:eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee\"}]",
        "manifest.schema",
        "spec.delegates[1].manifest: this manifest is named twice",
    ),
    (
        "delegates: []",
        "delegates: [{manifest: \"sha256:eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee\"}]",
        "ok",
        "",
    ),
    ("scope: whole}", "scope: block, name: a.b, place: any, required: true}", "ok", ""),
    ("scope: whole}", "scope: first_block, place: leading, required: false}", "ok", ""),
    (
        "scope: whole}",
        "scope: Block}",
        "manifest.schema",
        "expected `whole`, `first_block`, `block`",
    ),
    (
        "scope: whole}",
        "scope: whole, place: mid}",
        "manifest.schema",
        "spec.instructions[0].place: scope `whole` covers leading instructions only",
    ),
    (
        "scope: whole}",
        "scope: block, place: last}",
        "manifest.schema",
        "spec.instructions[0].place: expected `leading`, `mid` or `any`",
    ),
    (
        "scope: whole}",
        "scope: whole, required: yes}",
        "manifest.schema",
        "expected `true` or `false`",
    ),
    ("scope: whole}", "scope: whole, name: a b}", "manifest.schema", "[0].name: expected a name"),
    ("scope: whole}", "scope: whole, hash: x}", "manifest.schema", "[0].hash: unknown field"),
    (
        "scope: whole}",
        "scope: template, template: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}",
        "ok",
        "",
    ),
    (
        "scope: whole}",
        "scope: block, template: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}",
        "manifest.schema",
        "[0].template: means nothing for scope `block`",
    ),
    (
        "scope: whole}",
        "scope: template, template: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\"}",
        "manifest.schema",
        "[0].template: differs from `sha256`",
    ),
    (
        "names: [gpt-5-mini]",
        "names: [gpt-5-mini], responded: [gpt-5-mini, \"gpt-5-mini-*\"]",
        "ok",
        "",
    ),
    (
        "names: [gpt-5-mini]",
        "names: [gpt-5-mini], responded: [\"*\"]",
        "manifest.schema",
        "spec.model.responded[0]: expected a model id, exact or with a `*` at its end",
    ),
    (
        "names: [gpt-5-mini]",
        "names: [gpt-5-mini], responded: [\"a*b\"]",
        "manifest.schema",
        "spec.model.responded[0]: expected a model id",
    ),
    (
        "  limits:",
        "  client_tools: [{name: Bash, tier: T2}, {name: mcp__x.Read, tier: T0}]\n  limits:",
        "ok",
        "",
    ),
    ("  limits:", "  unknown_tools: strip\n  limits:", "ok", ""),
    (
        "  limits:",
        "  unknown_tools: allow\n  limits:",
        "manifest.schema",
        "spec.unknown_tools: expected `deny` or `strip`",
    ),
    (
        "  limits:",
        "  client_tools: [{name: Bash}]\n  limits:",
        "manifest.schema",
        "spec.client_tools[0]: missing field `tier`",
    ),
    (
        "  limits:",
        "  client_tools: [{name: a/b, tier: T0}]\n  limits:",
        "manifest.schema",
        "spec.client_tools[0].name: expected a tool name",
    ),
    (
        "  limits:",
        "  client_tools: [{name: a, tier: T0, definition: x}]\n  limits:",
        "manifest.schema",
        "spec.client_tools[0].definition: expected `sha256:`",
    ),
    (
        "  limits:",
        "  client_tools: [{name: a, tier: T0}, {name: a, tier: T1}]\n  limits:",
        "manifest.schema",
        "spec.client_tools[1].name: tool `a` is listed twice",
    ),
    (
        "  limits:",
        "    - {name: client.a}\n  client_tools: [{name: a, tier: T0}]\n  limits:",
        "manifest.schema",
        "spec.client_tools[0].name: tool `client.a` is granted in `spec.tools`, too",
    ),
    ("calls: 500", "calls: 0", "manifest.schema", "spec.limits.calls: expected a whole number"),
    (
        "calls: 500",
        "calls: 500, cost_usd: 5.00",
        "manifest.schema",
        "spec.limits.cost_usd: expected US dollars in quotes",
    ),
    ("calls: 500", "tokens: 2000000", "ok", ""),
    ("calls: 500", "tokens: 0", "manifest.schema", "spec.limits.tokens: expected a whole number"),
    ("calls: 500", "calls: 500, calls: 501", "manifest.format", "duplicate key `calls`"),
    ("calls: 500", "calls: &a 500", "manifest.format", "anchors are not allowed"),
    ("calls: 500", "calls: !!python/int 500", "manifest.format", "tags are not allowed"),
    ("calls: 500", "colls: 500", "manifest.schema", "spec.limits.colls: unknown field"),
    (
        "not_after: 2027-05-01T00:00:00Z",
        "not_after: 2026-11-20T00:00:00Z",
        "manifest.expired",
        "spec.validity.not_after: expired",
    ),
    (
        "not_before: 2026-11-01",
        "not_before: 2026-12-01",
        "manifest.not_yet_valid",
        "spec.validity.not_before: not valid before",
    ),
    (
        "not_after: 2027-05-01T00:00:00Z",
        "not_after: 2027-05-01",
        "manifest.schema",
        "is not a time like",
    ),
    (
        "not_after: 2027-05-01T00:00:00Z",
        "not_after: 2026-10-01T00:00:00Z",
        "manifest.schema",
        "not later than",
    ),
];

#[test]
fn each_wrong_field_is_named_with_its_code() {
    for &(from, to, code, message) in WRONG {
        assert!(TEXT.contains(from), "{from}");
        let text = TEXT.replacen(from, to, 1);
        if code == "ok" {
            let key = key();
            verify(&text, &[&key], &[&key], 1).unwrap();
            continue;
        }
        let (found, text_shown) = refused(&text);
        assert_eq!(found, code, "{to}: {text_shown}");
        assert!(text_shown.contains(message), "{to}: {text_shown}");
    }
}

#[test]
fn all_wrong_fields_are_reported_at_once() {
    let text = TEXT.replace("status: active", "status: x").replace("tier: T0", "tier: x, y: 1");
    let text = text.replace("version: 1.4.0", "version: x");
    let (_, message) = refused(&text);
    assert_eq!(message.lines().count(), 4, "{message}");
}
