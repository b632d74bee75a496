//! Rules suggested from a run: they load, they allow what completed, and little else.

use serde_json::Value;

use crate::gate::Gate;
use crate::observing;

const TEAM: &str =
    r#"deny contains {"code": "never", "message": "never this"} if input.args.never"#;
const AGENT: &str = r#"deny contains {"code": "secret", "message": "no secrets"} if input.args.path == "secret.txt""#;

/// An agent that nobody wrote rules for yet, and what it did.
pub async fn played() -> (Gate, String) {
    let gate = Gate::start(&observing(), &[("agent/main.rego", AGENT), ("team/main.rego", TEAM)]);
    let agent = gate.open("").await;
    for (tool, id, args) in [
        ("fs.read", "read-a", r#"{"path":"src/a.rs"}"#),
        ("fs.read", "read-b", r#"{"path":"src/b.rs"}"#),
        ("fs.read", "read-s", r#"{"path":"secret.txt"}"#),
        (
            "work.do",
            "do-1",
            r#"{"n":3,"to":"alice","tags":["x","y"],"why":"a word or two about it"}"#,
        ),
        ("work.do", "do-2", r#"{"n":41,"to":"bob","tags":[],"dry run":true,"why":"more"}"#),
    ] {
        agent.call(tool, id, args).await.unwrap();
    }
    agent.call("work.do", "do-3", r#"{"never":true}"#).await.unwrap_err();
    agent.seal().await.unwrap();
    let run = agent.run.clone();
    (gate, run)
}

/// An input document as it is on the books, by call.
fn input(gate: &Gate, run: &str, call: &str) -> Value {
    let dir = gate.path(&format!("evidence-{run}"));
    if !dir.exists() {
        gate.verified(run).ok();
    }
    let entries = std::fs::read_to_string(dir.join("ledger/entries.jsonl")).unwrap();
    let entry = entries.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let entry = entry.into_iter().find(|e| e["call"] == call).unwrap();
    let commit = entry["commit"].as_array().unwrap();
    let c = commit.iter().find(|c| c["role"] == "policy_input").unwrap()["c"].as_str().unwrap();
    let bytes = std::fs::read(dir.join(format!("payloads/{c}.bin"))).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn suggested_rules_allow_what_the_run_did_and_little_else() {
    let (gate, run) = played().await;
    let args =
        ["policy", "suggest", "--config", "wicketgate.yaml", "--run", &run, "--leave-observed"];
    let printed = gate.run(&args).ok();
    for part in [
        "# 2 calls: read-a, read-b\n",
        "input.tool.name == \"fs.read\"",
        "startswith(input.args.path, \"src/\")",
        "not contains(input.args.path, \"..\")",
        "input.effect.root == \"repo\"",
        "# 2 calls: do-1, do-2\n",
        "# n: from 3 to 41, as seen",
        "input.args.n >= 3",
        "input.args.n <= 41",
        "input.args.to in {\"alice\", \"bob\"}",
        "object.get(input.args, \"dry run\", true)",
        "count(input.args.why) <= 50",
        "regex.match(",
        "# - read-s of fs.read: deny (not enforced) by wicketgate.agent.deny agent/main.rego:3",
        "# - do-3 of work.do: deny by wicketgate.team.deny team/main.rego:3",
    ] {
        assert!(printed.out.contains(part), "`{part}` is not in\n{}", printed.out);
    }
    assert!(printed.err.contains("the inputs of 4 calls of run"), "{}", printed.err);
    assert!(printed.err.contains("of 2 denied calls, 2 stay denied"), "{}", printed.err);

    gate.run(&[&args[..], &["--out", "suggested"]].concat()).ok();
    let checked = gate.run(&["policy", "check", "suggested", "--json"]).ok().json();
    assert_eq!(
        (checked["name"].as_str(), checked["version"].as_str()),
        (Some("main"), Some("1.4.3"))
    );
    gate.run(&[&args[..], &["--out", "suggested"]].concat()).ends(64);

    let allows = |document: &Value| {
        gate.write("input.json", &document.to_string());
        let eval = gate.run(&["policy", "eval", "suggested", "--input", "input.json", "--json"]);
        eval.json()["verdict"] == "allow"
    };
    let (read, work) = (input(&gate, &run, "read-a"), input(&gate, &run, "do-1"));
    assert!(allows(&read) && allows(&work) && allows(&input(&gate, &run, "do-2")));
    let not = |from: &Value, pointer: &str, value: Value| {
        let mut other = from.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        other.pointer_mut(parent).unwrap()[name] = value.clone();
        // A list that observes would hide what the rules say.
        other["observe"] = Value::Array(Vec::new());
        assert!(!allows(&other), "{pointer}: {value}");
    };
    not(&read, "/args/path", "secret.txt".into());
    not(&read, "/args/path", "src/../secret.txt".into());
    not(&read, "/args/path", 5.into());
    not(&read, "/args/more", 1.into());
    not(&read, "/effect/path", "etc/passwd".into());
    not(&read, "/effect/access", "write".into());
    not(&read, "/tool/name", "fs.write".into());
    not(&work, "/args/n", 42.into());
    not(&work, "/args/n", 2.into());
    not(&work, "/args/to", "mallory".into());
    not(&work, "/args/tags", serde_json::json!(["x", "z"]));
    not(&work, "/args/tags", "x".into());
    not(&work, "/args/why", "w".repeat(51).into());
    not(&work, "/args/why", "look at https://evil.example".into());
    not(&work, "/args/why", "a word; $(id)".into());
    not(&work, "/args/dry run", false.into());
    not(&work, "/effect/host", "evil.example".into());
}

#[tokio::test]
async fn the_newest_run_is_an_agents_and_not_the_gates_test_of_itself() {
    let (mut gate, run) = played().await;
    let suggest = ["policy", "suggest", "--config", "wicketgate.yaml"];
    let named = gate.run(&[&suggest[..], &["--run", &run]].concat()).ok();
    gate.restart_and_test_itself();
    let tested = gate.run(&["ledger", "tail", "--config", "wicketgate.yaml", "--json"]).ok();
    assert!(tested.out.contains("enforcement.tested"), "{}", tested.out);
    let newest = gate.run(&suggest).ok();
    assert_eq!((newest.out, newest.err), (named.out, named.err));
}

#[tokio::test]
async fn what_ran_unenforced_counts_and_is_named_and_what_was_refused_is_allowed_only_on_demand() {
    let (gate, run) = played().await;
    let args = ["policy", "suggest", "--sqlite", "state/ledger.sqlite", "--run", &run];
    let printed = gate.run(&args).ok();
    assert!(printed.out.contains("\"secret.txt\""), "{}", printed.out);
    for part in [
        "the inputs of 5 calls of run",
        "note: read-s is allowed; wicketgate.agent.deny agent/main.rego:3 would have denied it",
        "left out: do-3 of work.do: deny by wicketgate.team.deny team/main.rego:3",
        "of 1 denied call, 1 stay denied",
    ] {
        assert!(printed.err.contains(part), "`{part}` is not in {}", printed.err);
    }
    let all = gate.run(&[&args[..], &["--include-denied"]].concat()).ok();
    assert!(all.err.contains("the inputs of 6 calls"), "{}", all.err);
    assert!(!all.out.contains("Not allowed by these rules"), "{}", all.out);
    // Without a run it is the newest one.
    let newest = gate.run(&["policy", "suggest", "--config", "wicketgate.yaml"]).ok();
    assert_eq!((newest.out, newest.err), (printed.out, printed.err));

    let empty = gate.open("").await;
    empty.call("work.do", "x", r#"{"never":true}"#).await.unwrap_err();
    let args = ["policy", "suggest", "--config", "wicketgate.yaml", "--run", &empty.run];
    let refused = gate.run(&args).ends(1);
    assert!(refused.err.contains("every call of this run was denied by a rule"), "{}", refused.err);
    assert!(refused.err.contains("left out: x of work.do: deny by"), "{}", refused.err);
    let unknown = "01234567-89ab-4cde-8f01-23456789abcd";
    gate.run(&["policy", "suggest", "--config", "wicketgate.yaml", "--run", unknown]).ends(64);
}

#[tokio::test]
async fn a_simulated_run_can_be_learned_from() {
    let gate =
        Gate::start(&observing(), &[("agent/main.rego", "deny contains \"x\" if input.args.x")]);
    let agent = gate.open("simulate").await;
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap_err();
    agent.call("work.do", "b", r#"{"x":true}"#).await.unwrap_err();
    agent.seal().await.unwrap();
    let args = ["policy", "suggest", "--config", "wicketgate.yaml", "--run", &agent.run];
    let printed = gate.run(&args).ok();
    assert!(printed.out.contains("# 2 calls: a, b\n"), "{}", printed.out);
    let printed = gate.run(&[&args[..], &["--leave-observed"]].concat()).ok();
    assert!(printed.out.contains("# 1 call: a\n"), "{}", printed.out);
    assert!(printed.out.contains("# - b of work.do: deny (not enforced)"), "{}", printed.out);
    assert_eq!(gate.hits(), 0);
}
