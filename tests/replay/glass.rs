//! A call that ran under break-glass: replayed as what it was, and nothing is opened for it.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use wicketgate::approval::break_glass;
use wicketgate::clock::SystemEntropy;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::crypto::openssh;
use wicketgate::crypto::ssh::SshKey;

use crate::rig::{Rig, agent, drifts, rounds};
use crate::spoiled::sealed;

/// Money goes out if somebody approves; no rule counts approvers for itself.
const RULES: &str = r#"package wicketgate.agent

import rego.v1

allow if input.tool.name == "wire.out"

require_approval contains "somebody has to look at it" if input.args.amount > 0
"#;

/// A rig where Harry and Iris hold break-glass keys, and Otto brings what they signed.
fn rig() -> Rig {
    let rig = Rig::new(&json!({"mode": "record"}));
    rig.bundle("bundle", RULES);
    let mut list = String::new();
    for name in ["harry", "iris"] {
        let key = SecretKey::generate(&SystemEntropy);
        openssh::store(&key, &rig.path(name), name).unwrap();
        let line = SshKey::Plain(key.public()).line();
        let namespace = break_glass::NAMESPACE;
        list += &format!("{name} namespaces=\"{namespace}\" {line} roles=break_glass\n");
    }
    std::fs::write(rig.path("glass"), list).unwrap();
    rig.run(&["keygen", "--out", "glass.pem"]);
    rig.run(&["break-glass", "sign-signers", "glass", "--key", "glass.pem"]);
    std::fs::write(rig.path("otto.token"), "o".repeat(48)).unwrap();
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(rig.path("otto.token"), mode).unwrap();
    rig.configure(|config| {
        config["trust"]["break_glass"] =
            json!({"signers": "glass", "keys": ["glass.pem.pub"], "max_minutes": 30});
        let otto = json!({"subject": "otto", "roles": ["operator"], "token_file": "otto.token"});
        config["operators"].as_array_mut().unwrap().push(otto);
    });
    rig
}

fn wires(amounts: &[u64]) -> Vec<String> {
    let calls: Vec<_> =
        amounts.iter().map(|amount| ("wire.out", json!({"amount": amount}))).collect();
    agent(&rounds(&calls))
}

/// The rig after one call that nobody approved ran under break-glass, and what its agent printed.
fn recorded() -> (Rig, String, String) {
    let mut rig = rig();
    let gate = rig.serve();
    let ask = ["break-glass", "request", "--agent", "player", "--tool", "wire.out"];
    let why = ["--reason", "nobody answers", "--minutes", "30", "--out", "order.json"];
    rig.run(&[&ask[..], &why].concat());
    for who in ["harry", "iris"] {
        rig.run(&["break-glass", "sign", "order.json", "--key", who, "--out", who_signed(who)]);
    }
    let url = format!("http://{}", gate.operators());
    let signed = ["--signature", "harry.sig", "--signature", "iris.sig"];
    let open = ["break-glass", "open", "order.json", "--url", &url, "--token-file", "otto.token"];
    rig.run(&[&open[..], &signed].concat());
    let printed = rig.work(&gate, &wires(&[7]));
    assert!(printed.contains("wire.out False"), "{printed}");
    gate.finish();
    assert_eq!(rig.tool.came(), 1);
    rig.run(&rig.export());
    rig.tool.stop();
    let order: Value =
        serde_json::from_slice(&std::fs::read(rig.path("order.json")).unwrap()).unwrap();
    (rig, printed, order["nonce"].as_str().unwrap().to_owned())
}

fn who_signed(who: &str) -> &'static str {
    if who == "harry" { "harry.sig" } else { "iris.sig" }
}

#[test]
fn a_call_under_break_glass_is_replayed_as_what_it_was_and_opens_nothing() {
    let (rig, printed, nonce) = recorded();
    let again = rig.replay(&["--json"], &wires(&[7]));
    assert_eq!(again.code, 0, "{again:?}");
    let told = json!([{"step": 1, "tool": "wire.out", "nonce": nonce, "by": ["harry", "iris"]}]);
    assert_eq!(again.json()["break_glass"], told);
    let again = rig.replay(&[], &wires(&[7]));
    assert_eq!((again.code, &again.out), (0, &printed), "{again:?}");
    assert!(again.err.contains(&format!("by order {nonce} of harry, iris")), "{again:?}");
    // Another call to the same tool, while the order would still be in force.
    let more = rig.replay(&["--json", "--report"], &wires(&[7, 8]));
    assert_eq!(drifts(&more.json()), [("extra".to_owned(), None)], "{more:?}");
    assert!(more.err.contains("wire.out True"), "{more:?}");
    assert_eq!(rig.tool.came(), 1);
}

#[test]
fn under_other_rules_such_a_call_is_denied_or_needs_no_order_and_both_are_drift() {
    let (rig, _, nonce) = recorded();
    rig.bundle(
        "stricter",
        &format!("{RULES}\ndeny contains \"no\" if input.tool.name == \"wire.out\"\n"),
    );
    let denied = rig.replay(&["--json", "--bundle", "stricter"], &wires(&[7]));
    let report = denied.json();
    assert_eq!(drifts(&report), [("decision".to_owned(), Some(1))], "{report}");
    assert!(report.get("break_glass").is_none(), "{report}");
    rig.bundle("laxer", &RULES.replace("amount > 0", "amount > 9"));
    let laxer = rig.replay(&["--json", "--bundle", "laxer"], &wires(&[7]));
    let report = laxer.json();
    let change = json!([{"path": "/break_glass", "recorded": nonce, "now": null}]);
    assert_eq!(report["drifts"][0]["changes"], change, "{report}");
}

#[test]
fn an_order_that_was_changed_in_a_recording_is_refused() {
    let (rig, _, nonce) = recorded();
    let text = std::fs::read_to_string(rig.path("run.recording")).unwrap();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = lines.iter().position(|line| line.contains("\"t\":\"step\"")).unwrap();
    let step: Value = serde_json::from_str(&lines[at]).unwrap();
    let with = |change: &dyn Fn(&mut Value)| {
        let (mut lines, mut step) = (lines.clone(), step.clone());
        change(&mut step);
        lines[at] = step.to_string();
        sealed(lines).iter().map(|line| format!("{line}\n")).collect::<String>()
    };
    let other = with(&|step| step["break_glass"]["by"] = json!(["harry", "mallory"]));
    let statement = with(&|step| {
        let signed = &mut step["break_glass"]["signed"]["statement"];
        *signed = signed.as_str().unwrap().replace("nobody answers", "because").into();
    });
    let none = with(&|step| drop(step.as_object_mut().unwrap().remove("break_glass")));
    for (what, text, why) in [
        ("another signer", other, "another break-glass order"),
        ("another statement", statement, "`approval` is not what was recorded"),
        ("no order", none, "another break-glass order"),
    ] {
        assert!(text.contains(&nonce), "{what}");
        std::fs::write(rig.path("run.recording"), text).unwrap();
        let ran = rig.try_run(&["replay", "check", "run.recording"]);
        assert!(ran.code == 2 && ran.err.contains(why), "{what}: {ran:?}");
    }
}
