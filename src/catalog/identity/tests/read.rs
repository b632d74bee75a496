//! What a manifest says, and what it says by default.

use super::*;

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
fn a_manifest_is_loaded_with_the_templates_beside_it() {
    let (key, dir) = (key(), tempfile::tempdir().unwrap());
    let form = "You are in {{path}}.";
    let digest = Digest::of(&[form.as_bytes()]);
    let text =
        TEXT.replace(&"a".repeat(64), &digest.hex()).replace("scope: whole", "scope: template");
    let path = dir.path().join("agent.yaml");
    std::fs::write(&path, &text).unwrap();
    std::fs::write(
        envelope_path(&path),
        super::super::sign(text.as_bytes(), "x", &[&key]).unwrap(),
    )
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
    std::fs::write(
        envelope_path(&path),
        super::super::sign(text.as_bytes(), "x", &[&key]).unwrap(),
    )
    .unwrap();
    std::fs::write(file.with_file_name(format!("{}.txt", other.hex())), bad).unwrap();
    let (code, why) = load().unwrap_err();
    assert_eq!(code, "manifest.template");
    assert!(why.contains("a template without fixed text pins nothing"), "{why}");
}
