//! What commands are for.

use serde_json::{Value, json};

use crate::estate::{Estate, answer, program, tool};

fn both(name: &str, command: &Value) -> Vec<Value> {
    let in_level = |level: &str| {
        let mut command = command.clone();
        command["sandbox"] = json!(level);
        tool(&format!("{name}.{level}"), command, json!({}))
    };
    vec![in_level("S1"), in_level("S2")]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordinary_commands_work_in_both_levels() {
    let read = json!(["data"]);
    let of =
        |name: &str, argv: Value| json!({"program": program(name), "argv": argv, "read": read});
    let mut tools = Vec::new();
    tools.extend(both("grep", &of("grep", json!(["-rn", "--", {"arg": "a"}, "."]))));
    tools.extend(both("ls", &of("ls", json!(["-1", "--", "."]))));
    tools.extend(both("cat", &of("cat", json!(["--", {"arg": "a", "as": "path"}]))));
    tools.extend(both("find", &of("find", json!([".", "-name", {"arg": "a"}]))));
    tools.extend(both("sed", &of("sed", json!(["-n", "2p", "notes.txt"]))));
    tools.extend(both("awk", &of("awk", json!(["NR == 2 { print $2 }", "notes.txt"]))));
    tools.extend(both("tar", &of("tar", json!(["-cf", "-", "notes.txt"]))));
    let mut sort = of("sort", json!(["-r"]));
    sort["stdin"] = json!("in");
    tools.extend(both("sort", &sort));
    let mut env = of("env", json!([]));
    env["env"] = json!({"LANG": "C"});
    tools.extend(both("env", &env));
    let estate = Estate::new(&tools);
    let gate = estate.serve();
    let agent = gate.open().await;
    for level in ["S1", "S2"] {
        for (name, args, code, out) in [
            ("grep", r#"{"a":"needle"}"#, 0, "./notes.txt:2:needle two\n"),
            ("grep", r#"{"a":"-nowhere $(id)"}"#, 1, ""),
            ("ls", "{}", 0, "notes.txt\n"),
            ("cat", r#"{"a":"notes.txt"}"#, 0, "one\nneedle two\nthree\n"),
            ("find", r#"{"a":"*.txt"}"#, 0, "./notes.txt\n"),
            ("sed", "{}", 0, "needle two\n"),
            ("awk", "{}", 0, "two\n"),
            ("sort", r#"{"in":"a\nc\nb\n"}"#, 0, "c\nb\na\n"),
            // Nothing of the gate's own environment.
            ("env", "{}", 0, "LANG=C\n"),
        ] {
            let got = answer(agent.call(&format!("{name}.{level}"), "", args).await);
            assert_eq!(
                (&got["exit_code"], &got["stdout"]),
                (&json!(code), &json!(out)),
                "{name}: {got}"
            );
            assert_eq!(got["sandbox"], level);
        }
        let tar = answer(agent.call(&format!("tar.{level}"), "", "{}").await);
        assert!(tar["stdout"].as_str().unwrap().contains("needle two"), "{tar}");
        let missing = answer(agent.call(&format!("cat.{level}"), "", r#"{"a":"gone"}"#).await);
        assert_eq!(missing["exit_code"], 1);
        assert!(missing["stderr"].as_str().unwrap().contains("No such file"), "{missing}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_records_denied_commands_and_the_sandbox_level_of_those_that_ran() {
    let command = json!({"program": program("cat"), "argv": ["--", {"arg": "a", "as": "path"}], "read": ["data"]});
    let estate = Estate::new(&[tool("cat", command, json!({}))]);
    std::fs::write(estate.path("data/odd.bin"), b"\xff\x00\xfe").unwrap();
    let gate = estate.serve();
    let agent = gate.open().await;
    let odd = answer(agent.call("cat", "c1", r#"{"a":"odd.bin"}"#).await);
    assert_eq!(odd["stdout_base64"], "/wD+", "{odd}");
    for bad in ["../s", "/etc/passwd", "-n/../x/..", "a\\u0000b"] {
        let refused = agent.call("cat", "", &format!(r#"{{"a":"{bad}"}}"#)).await.unwrap_err();
        let known = ["effect.refused", "arguments.invalid", "request.malformed"];
        assert!(known.contains(&refused.code.as_str()), "{bad}: {refused:?}");
    }
    let ended = estate.entries("call.completed");
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert_eq!(ended[0]["observed"]["sandbox"], "S2", "{ended:?}");
    assert_eq!(ended[0]["status"], "exit 0 in S2");
    assert!(!estate.entries("call.denied").is_empty());
    std::fs::write(estate.path("trust.txt"), "enrolment-key state/enrolment.key.pub\n").unwrap();
    estate.run(&["ledger", "verify", "--config", "wicketgate.yaml", "--trust", "trust.txt"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_is_empty_writable_and_gone_afterwards() {
    let tee = json!({"program": program("tee"), "argv": ["--", {"arg": "a", "as": "path"}],
        "stdin": "in", "workspace": "per_call"});
    let ls = json!({"program": program("ls"), "argv": ["-A1"], "workspace": "per_call"});
    let bare = json!({"program": program("tee"), "argv": ["--", {"arg": "a"}], "stdin": "in", "read": ["data"]});
    let estate = Estate::new(&[
        tool("tee", tee, json!({})),
        tool("ls", ls, json!({})),
        tool("bare", bare, json!({})),
    ]);
    let gate = estate.serve();
    let agent = gate.open().await;
    let wrote = answer(agent.call("tee", "", r#"{"a":"f","in":"text"}"#).await);
    assert_eq!((&wrote["exit_code"], &wrote["stdout"]), (&json!(0), &json!("text")), "{wrote}");
    let listed = answer(agent.call("ls", "", "{}").await);
    assert_eq!(listed["stdout"], "", "{listed}");
    for outside in ["f", "/tmp/f", "/usr/f", "/f"] {
        let args = json!({"a": outside, "in": "text"}).to_string();
        let got = answer(agent.call("bare", "", &args).await);
        assert_eq!(got["exit_code"], 1, "{outside}: {got}");
    }
    assert!(!estate.path("data/f").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_does_what_it_says() {
    let tools: Vec<Value> =
        serde_saphyr::from_str(include_str!("../../examples/command/tools.yaml")).unwrap();
    let estate = Estate::new(&tools);
    let gate = estate.serve();
    let agent = gate.open().await;
    let found =
        answer(agent.call("repo.search", "", r#"{"text":"NEEDLE","ignore_case":true}"#).await);
    assert_eq!(found["stdout"], "./notes.txt:2:needle two\n", "{found}");
    let none = answer(agent.call("repo.search", "", r#"{"text":"--version"}"#).await);
    assert_eq!((&none["exit_code"], &none["stdout"]), (&json!(1), &json!("")), "{none}");
    let sorted = answer(agent.call("text.sort", "", r#"{"lines":"a 2\nb 1\n","key":2}"#).await);
    assert_eq!(sorted["stdout"], "b 1\na 2\n", "{sorted}");
}

#[test]
fn the_levels_of_this_machine_are_shown_with_the_tools() {
    let command = json!({"program": program("ls")});
    let estate = Estate::new(&[tool("ls", command, json!({}))]);
    let listed = estate.run(&["tools", "list", "--probe", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(
        (&listed["tools"][0]["sandbox"], &listed["ok"]),
        (&json!("S2"), &json!(true)),
        "{listed}"
    );
    assert_eq!(listed["tools"][0]["missing"], Value::Null);
    assert!(estate.run(&["tools", "list"]).contains("command:S2"));
}
