//! Three in the morning: one of three agents of a gate runs wild. One person finds it, sees what it did, stops it, approves
//! the call of another agent that waits, and takes the proof away.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use wicketgate_support::people::{People, RULES, done};
use wicketgate_support::program;
use wicketgate_support::ran::Ran;

use crate::agent::Agent;
use crate::custody::verify;
use crate::sidecar::{Estate, Sidecar, key, run};
use crate::tool::Tool;

/// Commands that the night may take.
const COMMANDS_MAX: usize = 5;
/// Calls of the wild agent before it is found.
const WILD: usize = 60;

/// The gate, its three agents, and the person on call.
struct Night {
    people: People,
    estate: Estate,
    sidecar: Sidecar,
    wild: Agent,
    calm: Agent,
    waiting: Agent,
    /// Commands so far.
    typed: usize,
}

/// Adds an agent of this name that shows a token.
fn add(estate: &Estate, config: &mut Value, name: &str) -> String {
    let mut manifest = estate.read_json("agent.yaml");
    manifest["metadata"]["name"] = name.into();
    let file = format!("{name}.yaml");
    estate.write_json(&file, &manifest);
    estate.run(&["manifest", "sign", &file, "--key", &key("manifest")]);
    let token = format!("{name:x<48}");
    let at = format!("{name}.token");
    estate.write(&at, &token);
    std::fs::set_permissions(estate.path(&at), std::fs::Permissions::from_mode(0o600)).unwrap();
    let agents = config["agents"].as_array_mut().unwrap();
    agents.push(json!({"manifest": file, "callers": [{"token_file": at}]}));
    token
}

impl Night {
    async fn new(tool: &Tool) -> Self {
        let people = People::new();
        let estate = Estate::sqlite(tool);
        for name in ["fleet.pem", "evidence.pem"] {
            run(&estate.path("."), &["keygen", "--out", name]);
        }
        estate.bundle("1.0.1", RULES, "policy");
        let mut tokens = Vec::new();
        estate.configure(|config| {
            people.configure(config, false);
            let token_file = people.path("ada.token");
            let roles = ["approver", "operator", "auditor"];
            config["operators"] =
                json!([{"subject": "ada", "roles": roles, "token_file": token_file}]);
            config["fleet"] = json!({"key": "fleet.pem"});
            config["evidence"] = json!({"key": "evidence.pem"});
            config["listen"]["tcp"] = "127.0.0.1:0".into();
            tokens = ["support-agent", "triage"].map(|name| add(&estate, config, name)).into();
        });
        let sidecar = estate.serve().await;
        let port = sidecar.agents().port();
        let wild = sidecar.open().await;
        let (waiting, calm) =
            (Agent::known_by(port, &tokens[0]).await, Agent::known_by(port, &tokens[1]).await);
        Self { people, estate, sidecar, wild, calm, waiting, typed: 0 }
    }

    /// One command of the person on call, which must succeed.
    #[track_caller]
    fn types(&mut self, args: &[&str]) -> String {
        self.typed += 1;
        let (exit, said) = self.people.types("ada", &self.sidecar.operator_url(), args);
        assert_eq!(exit, Some(0), "{args:?}: {said}");
        said
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_commands_find_the_wild_agent_show_what_it_did_stop_it_approve_another_and_take_the_proof()
 {
    let tool = Tool::start().await;
    let mut night = Night::new(&tool).await;
    night.calm.call("work.do", "t1", r#"{"n":1}"#).await.unwrap();
    let held = night.waiting.call("work.do", "refund", r#"{"hold":true,"s":"refund 12"}"#).await;
    assert_eq!(held.unwrap_err().code, "call.held");
    for n in 0..WILD {
        let args = format!(r#"{{"n":{n},"s":"copy of customer {n}"}}"#);
        night.wild.call("work.do", &format!("w{n}"), &args).await.unwrap();
    }

    // 1: who is it? The runs with their counts.
    let found = night.types(&["run", "list", "--json"]);
    let found: Value = serde_json::from_str(&found).unwrap();
    let runs = found["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3, "{found}");
    let most = runs.iter().max_by_key(|run| run["calls"].as_u64()).unwrap();
    let wild = most["run"].as_str().unwrap().to_owned();
    assert_eq!((&*wild, &most["agent"]), (&*night.wild.run, &json!("test-agent")), "{found}");
    let waits = runs.iter().find(|run| run["held"] == 1).unwrap();
    let waits = waits["run"].as_str().unwrap().to_owned();

    // 2: what did it do, with which arguments?
    let did = night.types(&["run", "show", &wild, "--payloads"]);
    for n in 0..WILD {
        assert!(did.contains(&format!("copy of customer {n}")), "{n}: {did}");
    }

    // 3: stop it.
    night.types(&["control", "kill", "run", &wild, "--reason", "it copies every customer"]);
    let refused = night.wild.call("work.do", "more", r#"{"n":0}"#).await.unwrap_err();
    assert!(refused.code.starts_with("run.") || refused.code.contains("control"), "{refused:?}");

    // 4: the other agent's call is in order.
    let keyfile = night.people.path("ada").display().to_string();
    let word = ["approval", "approve", &waits, "refund", "--key", &keyfile, "--yes", "--json"];
    let approved: Value = serde_json::from_str(&night.types(&word)).unwrap();
    assert_eq!(done(&approved).0, "authorized", "{approved}");
    night.waiting.wait("refund", 20_000).await.unwrap();
    night.calm.call("work.do", "t2", r#"{"n":2}"#).await.unwrap();

    // 5: take the proof away. Who looked, who stopped and who approved is in it.
    let out = night.estate.path("night.zip");
    let take = ["evidence", "export", "--population", "--payloads", "--out", out.to_str().unwrap()];
    night.typed += 1;
    let (exit, said) = night.people.asks("ada", &night.sidecar.operator_url(), &take);
    assert_eq!(exit, Some(0), "{said}");
    assert_eq!(night.typed, COMMANDS_MAX);

    // The auditor verifies it elsewhere, with trust of their own.
    let dir = night.estate.path(".");
    verify(&dir, &out, &[dir.join("state/enrolment.key.pub")]);
    let tail = ["ledger", "tail", "--config", "wicketgate.yaml", "--number", "400", "--json"];
    let tail = Ran::gate(&dir, tail).ok().out;
    let entries: Vec<Value> =
        tail.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let by = |kind: &str, name: &str| {
        let of = entries.iter().filter(|entry| entry["kind"] == kind);
        of.map(|entry| entry["data"][name].as_str().unwrap_or_default()).collect::<Vec<_>>()
    };
    // The approval reaches the gate as an order, as the stop does.
    assert_eq!(by("control.set", "name"), [&*wild, &*waits]);
    assert_eq!(by("approval.granted", "subject"), ["ada"]);
    assert!(by("payload.viewed", "by").iter().all(|who| *who == "ada"));
    assert_eq!(by("payload.viewed", "by").len(), WILD);
    night.sidecar.stop().await;
}

/// It takes a browser, of which the machine's Chromium is started once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_clicks_in_the_console_do_the_same_and_the_feed_shows_the_approval_as_it_happens() {
    let Ok(home) = std::env::var("WICKETGATE_TEST_CONSOLE") else {
        eprintln!("not asked: WICKETGATE_TEST_CONSOLE is not set; tests/run sets it");
        return;
    };
    let tool = Tool::start().await;
    let mut night = Night::new(&tool).await;
    let held = night.waiting.call("work.do", "refund", r#"{"hold":true,"s":"refund 12"}"#).await;
    assert_eq!(held.unwrap_err().code, "call.held");
    for n in 0..5 {
        let args = format!(r#"{{"n":{n},"s":"copy of customer {n}"}}"#);
        night.wild.call("work.do", &format!("w{n}"), &args).await.unwrap();
    }
    let url = night.sidecar.operator_url();
    let script = program::top().join("tests/console/night.py");
    let mut browser = Command::new(format!("{home}/python/bin/python"))
        .arg("-B")
        .arg(script)
        .args([&format!("{url}/console"), &night.people.path("ada.token").display().to_string()])
        .arg("it copies every customer")
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(browser.stdout.take().unwrap()).lines();
    let told: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&told["clicks"], &told["run"]), (&json!(8), &json!(night.wild.run)), "{told}");
    assert!(told["arguments"].as_str().unwrap().contains("copy of customer"), "{told}");
    assert!(told["order"].as_str().unwrap().contains("1 run sealed"), "{told}");
    let refused = night.wild.call("work.do", "more", r#"{"n":0}"#).await;
    assert!(refused.is_err(), "{refused:?}");
    // The command as the page gives it, with the files of this person in their places.
    let command = told["command"].as_str().unwrap();
    let expected = format!(
        "wicketgate approval approve {} refund --token-file TOKEN --key KEY --url {url}",
        night.waiting.run
    );
    assert_eq!(command, expected);
    let keyfile = night.people.path("ada").display().to_string();
    let waits = night.waiting.run.clone();
    night.types(&["approval", "approve", &waits, "refund", "--key", &keyfile, "--yes"]);
    night.waiting.wait("refund", 20_000).await.unwrap();
    let last: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(last["faults"], json!([]), "{last}");
    assert!(last["followed"]["row"].as_str().unwrap().contains("support-agent"), "{last}");
    assert_eq!(last["followed"]["live"], "polite", "{last}");
    assert!(browser.wait().unwrap().success());
    night.sidecar.stop().await;
}
