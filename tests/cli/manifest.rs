//! Manifests that must not be accepted, through the built program.

use crate::folder::Folder;
use wicketgate_support::ran::Ran;

const VERIFY: [&str; 5] = ["manifest", "verify", "agent.yaml", "--trust", "k.pub"];

fn resigned(folder: &Folder, from: &str, to: &str) -> Ran {
    folder.edit("agent.yaml", from, to);
    folder.run(&["manifest", "sign", "agent.yaml", "--key", "k"])
}

#[test]
fn a_fresh_example_is_signed_and_verified_and_never_overwritten() {
    let folder = Folder::with_manifest();
    let shown = folder.run(&VERIFY).ends(0);
    assert!(shown.out.starts_with("example-agent 1.0.0 (active)"), "{}", shown.out);
    let json = folder.run(&[&VERIFY[..], &["--json"]].concat()).ends(0);
    let value: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&value["ok"], &value["tools"][0]), (&true.into(), &"repo.read_file".into()));
    folder
        .run(&["manifest", "init", "agent.yaml"])
        .ends(1)
        .complains("`agent.yaml` exists and is not replaced");
    folder
        .run(&["manifest", "init", "b.yaml", "--name", "No Name"])
        .ends(1)
        .complains("metadata.name");
}

#[test]
fn a_changed_byte_is_refused() {
    let folder = Folder::with_manifest();
    folder.edit("agent.yaml", "calls: 500", "calls: 501");
    folder
        .run(&VERIFY)
        .ends(1)
        .complains("agent.yaml.sig.json: signatures: they are over other bytes");
    let folder = Folder::with_manifest();
    folder.edit("agent.yaml", "# What", "#  What");
    folder.run(&VERIFY).ends(1).complains("(manifest.signature)");
}

#[test]
fn an_unsigned_manifest_and_one_by_a_stranger_are_refused() {
    let folder = Folder::with_manifest();
    folder.run(&["manifest", "verify", "agent.yaml", "--trust", "k2.pub"]).ends(1).complains(
        "agent.yaml.sig.json: signatures: none is by a trusted key (manifest.signature)",
    );
    folder
        .write("agent.yaml.sig.json", "{\"payload\":\"\",\"payloadType\":\"x\",\"signatures\":[]}");
    folder.run(&VERIFY).ends(1).complains("(manifest.signature)");
    std::fs::remove_file(folder.path("agent.yaml.sig.json")).unwrap();
    folder.run(&VERIFY).ends(1).complains("`agent.yaml` is not signed");
}

#[test]
fn two_of_two_need_two_distinct_keys() {
    let folder = Folder::with_manifest();
    let two = [
        "manifest",
        "verify",
        "agent.yaml",
        "--trust",
        "k.pub",
        "--trust",
        "k2.pub",
        "--threshold",
        "2",
    ];
    folder
        .run(&two)
        .ends(1)
        .complains("1 of the 2 required trusted signatures are valid (manifest.threshold)");
    folder.run(&["manifest", "sign", "agent.yaml", "--key", "k", "--key", "k"]).ends(0);
    folder.run(&two).ends(1).complains("(manifest.threshold)");
    folder.run(&["manifest", "sign", "agent.yaml", "--key", "k", "--key", "k2"]).ends(0);
    folder.run(&two).ends(0);
}

#[test]
fn an_expired_and_a_future_manifest_are_refused_by_field() {
    let folder = Folder::with_manifest();
    let text = folder.read("agent.yaml");
    let line = |name: &str| text.lines().find(|l| l.contains(name)).unwrap().to_owned();
    let (from, to) = (line("not_before:"), line("not_after:"));
    resigned(&folder, &to, "    not_after: 2020-01-02T00:00:00Z")
        .ends(1)
        .complains("not later than");
    folder.edit("agent.yaml", &from, "    not_before: 2020-01-01T00:00:00Z");
    folder.run(&["manifest", "sign", "agent.yaml", "--key", "k"]).ends(0);
    folder.run(&VERIFY).ends(1).complains("agent.yaml: spec.validity.not_after: expired at");
    resigned(&folder, "2020-01-02", "2999-01-02").ends(0);
    folder.run(&VERIFY).ends(0);
    resigned(&folder, "2020-01-01", "2998-01-01").ends(0);
    folder.run(&VERIFY).ends(1).complains("spec.validity.not_before: not valid before");
}

#[test]
fn an_older_version_and_other_bytes_of_the_same_version_are_refused() {
    let folder = Folder::with_manifest();
    let again = [&VERIFY[..], &["--previous", "old.yaml"]].concat();
    folder.write("old.yaml", folder.read("agent.yaml"));
    folder.run(&again).ends(0);
    resigned(&folder, "calls: 500", "calls: 501").ends(0);
    folder
        .run(&again)
        .ends(1)
        .complains("metadata.version: `1.0.0` was used before with other content");
    resigned(&folder, "version: 1.0.0", "version: 0.9.0").ends(0);
    folder
        .run(&again)
        .ends(1)
        .complains("`0.9.0` is older than `1.0.0`, used before (manifest.downgrade)");
    resigned(&folder, "version: 0.9.0", "version: 1.0.1").ends(0);
    folder.run(&again).ends(0);
}

#[test]
fn a_small_order_key_and_a_readable_secret_key_cannot_be_used() {
    let folder = Folder::with_manifest();
    // The identity point, in SubjectPublicKeyInfo: every message has a signature under it.
    folder.write("weak.pub", "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n-----END PUBLIC KEY-----\n");
    folder
        .run(&["manifest", "verify", "agent.yaml", "--trust", "weak.pub"])
        .ends(2)
        .complains("`weak.pub` holds no usable ed25519 key: a small-order point");
    folder
        .run(&["manifest", "verify", "agent.yaml", "--trust", "none.pub"])
        .ends(2)
        .complains("none.pub");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(folder.path("k"), open).unwrap();
    folder.run(&["manifest", "sign", "agent.yaml", "--key", "k"]).ends(2).complains("mode 644");
}

#[test]
fn what_is_no_strict_yaml_is_refused_with_its_place_before_it_is_signed() {
    let cases = [
        (
            "calls: 500",
            "calls: &a 500",
            "agent.yaml:33:15: spec.limits.calls: anchors are not allowed (manifest.format)",
        ),
        ("calls: 500", "calls: !!python/object:x 500", "tags are not allowed"),
        (
            "calls: 500",
            "calls: 500\n    calls: 1",
            "agent.yaml:34:5: spec.limits.calls: duplicate key",
        ),
        ("calls: 500", "call: 500", "spec.limits.call: unknown field (manifest.schema)"),
        ("calls: 500", "tokens: 0", "spec.limits.tokens: expected a whole number"),
        (
            "name: repo.read_file, tier: T0",
            "server: github",
            "agent.yaml:26:7: spec.tools[0]: missing field `lock` (manifest.schema)",
        ),
        ("status: active", "status: yes", "spec.status: expected `active`"),
    ];
    for (from, to, says) in cases {
        let folder = Folder::with_manifest();
        resigned(&folder, from, to).ends(1).complains(says);
    }
    let folder = Folder::with_manifest();
    let both = resigned(&folder, "status: active", "status: x\n  more: 1").ends(1);
    assert_eq!(both.err.lines().count(), 2, "{}", both.err);
}
