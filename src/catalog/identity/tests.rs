//! Manifests, as a table of refusals with their codes.

use super::client_tools::UnknownTools;
use super::lineage::Grants;
use super::manifest::{Manifest, Mode};
use super::models::{model, responded};
use super::{Error, PAYLOAD_TYPE, accept, bind, bind_unclaimed, envelope_path, succeeds};
use crate::clock::SystemEntropy;
use crate::crypto::dsse;
use crate::crypto::keys::SecretKey;
use crate::domain::digest::Digest;
use crate::domain::id::ToolName;
use crate::domain::tier::{Binding, Face, Tier};
use crate::domain::time::Timestamp;

pub(super) const TEXT: &str = r#"apiVersion: wicketgate.dev/v1
kind: AgentManifest
metadata: {name: code-review-agent, version: 1.4.0, owner: platform@example.com, labels: {team: payments}}
spec:
  status: active
  model: {provider: openai, names: [gpt-5-mini]}
  instructions:
    - {sha256: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", scope: whole}
    - {sha256: "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", scope: "prefix:4096"}
  policy: {agent: "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"}
  tools:
    - {name: repo.read_file, tier: T0}
    - {name: tickets.create, tier: T2, definition: "sha256:dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"}
  limits: {calls: 500, calls_per_minute: 60, concurrency: 4, wall_seconds: 3600, consecutive_errors: 3, repeated_calls: 2}
  replay: {mode: "off"}
  delegates: []
  validity: {not_before: 2026-11-01T00:00:00Z, not_after: 2027-05-01T00:00:00Z}
"#;

pub(super) fn now() -> Timestamp {
    Timestamp::parse("2026-11-21T12:00:00.000Z").unwrap()
}

pub(super) fn key() -> SecretKey {
    SecretKey::generate(&SystemEntropy)
}

fn verify(
    text: &str,
    keys: &[&SecretKey],
    trusted: &[&SecretKey],
    threshold: usize,
) -> Result<Manifest, Error> {
    let trusted: Vec<_> = trusted.iter().map(|k| k.public()).collect();
    let envelope = dsse::sign(PAYLOAD_TYPE, text.as_bytes(), keys);
    Manifest::verify("agent.yaml", text.as_bytes(), envelope, &trusted, threshold, now())
}

fn refused(text: &str) -> (&'static str, String) {
    let key = key();
    let error = verify(text, &[&key], &[&key], 1).unwrap_err();
    (error.code(), error.to_string())
}

#[test]
fn a_signed_manifest_is_read_whole() {
    let key = key();
    let manifest = verify(TEXT, &[&key], &[&key], 1).unwrap();
    assert_eq!(manifest.name, "code-review-agent");
    assert_eq!(manifest.version, semver::Version::new(1, 4, 0));
    assert_eq!(manifest.labels["team"], "payments");
    assert_eq!(manifest.instructions[1].scope.to_string(), "prefix:4096");
    assert_eq!(manifest.tools[0].tier, Some(Tier::T0));
    assert!(
        manifest.grant(&ToolName::parse("tickets.create").unwrap()).unwrap().definition.is_some()
    );
    assert_eq!(manifest.limits.repeated_calls, Some(2));
    assert_eq!(manifest.signers, [key.public().id()]);
    assert_eq!(manifest.yaml, TEXT.as_bytes());
    assert!(manifest.policy_agent.is_some());
}

#[test]
fn a_servers_tools_are_one_grant_each_with_the_locks_signer() {
    let key = key();
    let id = "a".repeat(64);
    let from = "{name: repo.read_file, tier: T0}";
    let to = format!(
        "{{server: github, lock: {{signer: \"{id}\"}}, allow: [create_issue, \"resources/templates/list\"], tier: T2}}"
    );
    let manifest = verify(&TEXT.replacen(from, &to, 1), &[&key], &[&key], 1).unwrap();
    let names: Vec<_> = manifest.tools.iter().map(|grant| grant.name.as_str()).collect();
    let expected = ["github.create_issue", "github.resources.templates.list", "tickets.create"];
    assert_eq!(names, expected);
    for grant in &manifest.tools[..2] {
        assert_eq!((grant.tier, grant.definition), (Some(Tier::T2), None));
        assert_eq!(grant.server.as_deref(), Some("github"));
        assert_eq!(grant.signers, [id.as_str()]);
    }
    assert_eq!((&manifest.tools[2].server, manifest.tools[2].signers.as_slice()), (&None, &[][..]));
    assert!(manifest.grant(&ToolName::parse("github.create_issue").unwrap()).is_some());
}

#[test]
fn a_manifest_enforces_unless_it_says_simulate() {
    let key = key();
    let mode = |text: &str| verify(text, &[&key], &[&key], 1).unwrap().mode;
    assert_eq!(mode(TEXT), Mode::Enforce);
    for (name, expected) in [("enforce", Mode::Enforce), ("simulate", Mode::Simulate)] {
        let text = TEXT.replacen("status: active", &format!("status: active\n  mode: {name}"), 1);
        assert_eq!((mode(&text), expected.as_str()), (expected, name));
    }
}

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

#[test]
fn only_enough_trusted_keys_over_the_same_bytes_make_a_manifest() {
    let (a, b, untrusted) = (key(), key(), key());
    let code = |keys: &[&SecretKey], trusted: &[&SecretKey], threshold| {
        verify(TEXT, keys, trusted, threshold).map_or_else(|e| e.code(), |_| "ok")
    };
    assert_eq!(code(&[&a], &[&a], 1), "ok");
    assert_eq!(code(&[&a, &b], &[&a, &b], 2), "ok");
    assert_eq!(code(&[&untrusted, &a], &[&a], 1), "ok");
    assert_eq!(code(&[&untrusted], &[&a], 1), "manifest.signature");
    assert_eq!(code(&[], &[&a], 1), "manifest.signature");
    assert_eq!(code(&[&a], &[], 1), "manifest.signature");
    assert_eq!(code(&[&a], &[&a, &b], 2), "manifest.threshold");
    assert_eq!(code(&[&a, &a], &[&a, &b], 2), "manifest.threshold");
}

#[test]
fn changed_bytes_a_bad_second_signature_and_another_type_are_refused() {
    let (a, b) = (key(), key());
    let trusted = [a.public(), b.public()];
    let check = |text: &str, envelope: &str, threshold| {
        Manifest::verify("agent.yaml", text.as_bytes(), envelope.into(), &trusted, threshold, now())
            .map_or_else(|e| e.code(), |_| "ok")
    };
    let envelope = String::from_utf8(dsse::sign(PAYLOAD_TYPE, TEXT.as_bytes(), &[&a, &b])).unwrap();
    assert_eq!(check(TEXT, &envelope, 2), "ok");
    assert_eq!(check(&TEXT.replace("500", "501"), &envelope, 2), "manifest.signature");
    assert_eq!(check(&format!("{TEXT}\n"), &envelope, 2), "manifest.signature");
    let other = String::from_utf8(dsse::sign(PAYLOAD_TYPE, b"x", &[&b])).unwrap();
    let sig = |text: &str| {
        text.rsplit("\"sig\":\"").next().unwrap().split('"').next().unwrap().to_owned()
    };
    let half = envelope.replace(&sig(&envelope), &sig(&other));
    assert_eq!(check(TEXT, &half, 2), "manifest.threshold");
    assert_eq!(check(TEXT, &half, 1), "manifest.signature");
    let policy = dsse::sign("application/vnd.wicketgate.policy", TEXT.as_bytes(), &[&a]);
    assert_eq!(check(TEXT, &String::from_utf8(policy).unwrap(), 1), "manifest.signature");
    let none = envelope.replacen("\"keyid\"", "\"alg\":\"none\",\"keyid\"", 1);
    assert_eq!(check(TEXT, &none, 1), "manifest.alg");
    let hs256 = envelope
        .replace(&sig(&envelope), &"A".repeat(43))
        .replace(&"A".repeat(43), &format!("{}=", "A".repeat(43)));
    assert_eq!(check(TEXT, &hs256, 1), "manifest.alg");
}

#[test]
fn versions_only_grow_and_one_version_is_one_content() {
    let key = key();
    let read =
        |from: &str, to: &str| verify(&TEXT.replacen(from, to, 1), &[&key], &[&key], 1).unwrap();
    let old = read("1.4.0", "1.4.0");
    let before = Some((&old.version, &old.digest));
    let code = |m: &Manifest| succeeds(before, m).map_or_else(|e| e.code(), |()| "ok");
    assert!(succeeds(None, &old).is_ok());
    assert_eq!(code(&old), "ok");
    assert_eq!(code(&read("1.4.0", "1.4.1")), "ok");
    assert_eq!(code(&read("1.4.0", "1.10.0")), "ok");
    assert_eq!(code(&read("1.4.0", "1.3.9")), "manifest.downgrade");
    assert_eq!(code(&read("1.4.0", "1.4.0-rc.1")), "manifest.downgrade");
    assert_eq!(code(&read("calls: 500", "calls: 501")), "manifest.equivocation");
    assert_eq!(code(&read("1.4.0", "1.4.0+other")), "manifest.equivocation");
}

#[test]
fn a_run_is_bound_only_when_every_claim_fits() {
    let key = key();
    let manifest = verify(TEXT, &[&key], &[&key], 1).unwrap();
    let (a, b, c) = ("a".repeat(64), format!("sha256:{}", "b".repeat(64)), "c".repeat(64));
    let tool = ["repo.read_file".to_owned()];
    let details = |manifest: &Manifest, model: &str, instructions: &[String], tools: &[String]| {
        bind(manifest, model, instructions, tools).map_or_else(
            |m| m.reasons.into_iter().map(|r| r.detail).collect::<Vec<_>>().join(" "),
            |binding| binding.as_str().to_owned(),
        )
    };
    assert_eq!(bind(&manifest, "gpt-5-mini", &[a.clone(), b], &tool), Ok(Binding::Claimed));
    assert_eq!(details(&manifest, "GPT-5-mini", std::slice::from_ref(&a), &[]), "manifest.model");
    assert_eq!(details(&manifest, "gpt-5-mini", &[], &[]), "manifest.instructions");
    assert_eq!(
        details(&manifest, "gpt-5-mini", &[a.clone(), c.clone()], &[]),
        "manifest.instructions"
    );
    assert_eq!(
        details(&manifest, "gpt-5-mini", std::slice::from_ref(&a), &["rm".into()]),
        "manifest.tools"
    );
    let text = TEXT.replace("status: active", "status: suspended");
    let suspended = verify(&text, &[&key], &[&key], 1).unwrap();
    assert_eq!(
        details(&suspended, "x", &[c], &["rm".into(), "y".into()]),
        "manifest.status manifest.model manifest.instructions manifest.tools manifest.tools"
    );
}

/// Every `spec.binding` against every face and binding, with the defaults of what is left out.
#[test]
fn what_a_manifest_accepts_is_its_faces_and_its_minimum_and_no_more() {
    let key = key();
    let names = ["unclaimed", "claimed", "observed"];
    let bare = TEXT
        .replace("  model: {provider: openai, names: [gpt-5-mini]}\n", "")
        .lines()
        .filter(|line| !line.contains("scope:") && !line.contains("instructions:"))
        .fold(String::new(), |text, line| text + line + "\n");
    for (text, default) in [(TEXT, Binding::Claimed), (bare.as_str(), Binding::Unclaimed)] {
        for minimum in [None, Some("unclaimed"), Some("claimed"), Some("observed")] {
            for bits in 0_u8..16 {
                let open = |face: &&Face| bits >> (**face as u8) & 1 == 1;
                let faces: Vec<&str> = Face::ALL.iter().filter(open).map(|f| f.as_str()).collect();
                let mut fields =
                    minimum.map(|m| format!("minimum: {m}")).into_iter().collect::<Vec<_>>();
                // An empty list is left out, which means all of them.
                fields.extend((bits > 0).then(|| format!("faces: [{}]", faces.join(", "))));
                let binding = format!("  binding: {{{}}}\n  tools:", fields.join(", "));
                let manifest =
                    verify(&text.replace("  tools:", &binding), &[&key], &[&key], 1).unwrap();
                assert_eq!(manifest.binding.tier3, Binding::Observed);
                let least = minimum.map_or(default, |text| Binding::parse(text).unwrap());
                for face in Face::ALL {
                    for binding in names.map(|name| Binding::parse(name).unwrap()) {
                        let wanted = if bits > 0 && !open(&face) {
                            "binding.face"
                        } else if binding < least {
                            "binding.minimum"
                        } else {
                            ""
                        };
                        let detail = accept(&manifest, *face, binding).map_or_else(
                            |m| m.reasons.into_iter().map(|r| r.detail).collect::<String>(),
                            |()| String::new(),
                        );
                        assert_eq!(detail, wanted, "{fields:?} {face:?} {binding:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_unknown_binding_or_face_is_no_manifest() {
    for accept_text in [
        "{minimum: seen}",
        "{minimum: Claimed}",
        "{tier3: true}",
        "{faces: []}",
        "{faces: [grpc, grpc]}",
        "{faces: [smtp]}",
        "{faces: mcp}",
        "{tier4: claimed}",
        "claimed",
    ] {
        let text = TEXT.replace("  tools:", &format!("  binding: {accept_text}\n  tools:"));
        assert_eq!(refused(&text).0, "manifest.schema", "{accept_text}");
    }
}

#[test]
fn who_claims_nothing_is_unclaimed_and_who_claims_something_claims_it_whole() {
    let key = key();
    let manifest = verify(TEXT, &[&key], &[&key], 1).unwrap();
    assert_eq!(bind(&manifest, "", &[], &[]), Ok(Binding::Unclaimed));
    assert_eq!(bind_unclaimed(&manifest), Ok(Binding::Unclaimed));
    let tool = ["repo.read_file".to_owned()];
    assert!(bind(&manifest, "", &[], &tool).is_err(), "tools alone claim half");
    assert!(bind(&manifest, "", &["a".repeat(64)], &[]).is_err());
}

#[test]
fn two_instructions_have_different_names() {
    let twice = TEXT
        .replace("scope: whole}", "scope: whole, name: a}")
        .replace("scope: \"prefix:4096\"}", "scope: \"prefix:4096\", name: a}");
    let (code, why) = refused(&twice);
    assert_eq!(code, "manifest.schema");
    assert!(why.contains("spec.instructions[1].name: `a` is listed twice"), "{why}");
}

#[test]
fn a_manifest_without_the_newer_members_has_their_defaults() {
    let key = key();
    let manifest = verify(TEXT, &[&key], &[&key], 1).unwrap();
    assert_eq!(manifest.unknown_tools, UnknownTools::Deny);
    assert!(manifest.client_tools.is_empty() && manifest.model_responded.is_empty());
    assert!(manifest.templates.is_empty());
    assert!(manifest.instructions.iter().all(|one| !one.required && one.name.is_none()));
    assert_eq!(manifest.digest, Digest::of(&[TEXT.as_bytes()]));
}

#[test]
fn a_model_is_the_manifests_by_its_id_and_its_provider() {
    let key = key();
    let manifest = verify(TEXT, &[&key], &[&key], 1).unwrap();
    assert_eq!(model(&manifest, "gpt-5-mini", Some("openai")), Ok(()));
    for (requested, provider, differences) in [
        ("GPT-5-mini", Some("openai"), 1),
        ("gpt-5", Some("openai"), 1),
        ("gpt-5-mini", Some("OpenAI"), 1),
        ("gpt-5-mini", None, 1),
        ("gpt-5", Some("azure"), 2),
    ] {
        let why = model(&manifest, requested, provider).unwrap_err();
        assert_eq!(why.reasons.len(), differences, "{requested} {provider:?}");
        assert!(why.reasons.iter().all(|reason| reason.detail == "manifest.model"));
    }
    let any = TEXT.replace("  model: {provider: openai, names: [gpt-5-mini]}\n", "");
    let any = verify(&any, &[&key], &[&key], 1).unwrap();
    assert_eq!(model(&any, "x", None), Ok(()));
}

#[test]
fn an_answer_names_a_listed_model() {
    let key = key();
    let manifest = verify(TEXT, &[&key], &[&key], 1).unwrap();
    assert!(responded(&manifest, "anything"));
    let text = TEXT.replace("[gpt-5-mini]", "[gpt-5-mini], responded: [a-1, \"b-*\"]");
    let manifest = verify(&text, &[&key], &[&key], 1).unwrap();
    for (name, fits) in
        [("a-1", true), ("b-", true), ("b-2026", true), ("a-12", false), ("b", false), ("", false)]
    {
        assert_eq!(responded(&manifest, name), fits, "{name}");
    }
}

#[test]
fn a_tool_that_the_agent_runs_is_granted_under_a_name_of_its_own() {
    let key = key();
    let list = "  client_tools: [{name: Bash, tier: T2}, {name: Read, tier: T0}]\n  limits:";
    let manifest = verify(&TEXT.replace("  limits:", list), &[&key], &[&key], 1).unwrap();
    let grant = manifest.client_grant("Bash").unwrap();
    assert_eq!((grant.name.as_str(), grant.tier), ("client.Bash", Some(Tier::T2)));
    assert_eq!(manifest.client_tool("Read").unwrap().tier, Tier::T0);
    assert!(manifest.client_grant("bash").is_none());
    assert!(manifest.client_grant("repo.read_file").is_none());
    assert!(manifest.grant(&grant.name).is_none());
}

#[test]
fn a_run_below_another_has_only_the_client_tools_that_both_list() {
    let key = key();
    let read = |list: &str| {
        let list = format!("  client_tools: [{list}]\n  limits:");
        std::sync::Arc::new(verify(&TEXT.replace("  limits:", &list), &[&key], &[&key], 1).unwrap())
    };
    let above = Grants::of(read("{name: Bash, tier: T2}, {name: Read, tier: T0}"));
    let below = above.below(read("{name: Bash, tier: T1}, {name: Write, tier: T1}"));
    assert_eq!(below.client("Bash").unwrap().tier, Some(Tier::T2));
    assert!(below.client("Read").is_none() && below.client("Write").is_none());
    assert_eq!(above.client("Read").unwrap().tier, Some(Tier::T0));
    let lowest = below.below(read("{name: Bash, tier: T0}, {name: Read, tier: T0}"));
    assert_eq!(lowest.client("Bash").unwrap().tier, Some(Tier::T2));
    assert!(lowest.client("Read").is_none());
}

#[test]
fn a_manifest_is_loaded_with_the_templates_beside_it() {
    let (key, dir) = (key(), tempfile::tempdir().unwrap());
    let form = "You are in {{path}}.";
    let digest = Digest::of(&[form.as_bytes()]);
    let text =
        TEXT.replace(&"a".repeat(64), &digest.hex()).replace("scope: whole", "scope: template");
    let path = dir.path().join("agent.yaml");
    std::fs::write(&path, &text).unwrap();
    std::fs::write(envelope_path(&path), super::sign(text.as_bytes(), "x", &[&key]).unwrap())
        .unwrap();
    let load =
        || Manifest::load(&path, &[key.public()], 1, now()).map_err(|e| (e.code(), e.to_string()));
    let file = dir.path().join("templates").join(format!("{}.txt", digest.hex()));
    let refused = |why: &str| {
        let (code, text) = load().unwrap_err();
        assert_eq!(code, "manifest.template");
        assert!(text.starts_with(&file.display().to_string()) && text.contains(why), "{text}");
    };
    refused("cannot be read");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, format!("{form}\n")).unwrap();
    refused("its bytes have the SHA-256");
    std::fs::write(&file, vec![b'a'; 300 << 10]).unwrap();
    refused("its bytes have the SHA-256");
    std::fs::write(&file, form).unwrap();
    assert!(load().unwrap().templates[&digest].loose_bytes("You are in /a.").is_some());
    // The digest is right, the text is no template.
    let bad = "{{line}}";
    let other = Digest::of(&[bad.as_bytes()]);
    let text = text.replace(&digest.hex(), &other.hex());
    std::fs::write(&path, &text).unwrap();
    std::fs::write(envelope_path(&path), super::sign(text.as_bytes(), "x", &[&key]).unwrap())
        .unwrap();
    std::fs::write(file.with_file_name(format!("{}.txt", other.hex())), bad).unwrap();
    let (code, why) = load().unwrap_err();
    assert_eq!(code, "manifest.template");
    assert!(why.contains("a template without fixed text pins nothing"), "{why}");
}
