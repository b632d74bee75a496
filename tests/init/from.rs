//! `wicketgate init --from FILE`, and a client that uses what came of it.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::folder::{Folder, Talk};
use wicketgate_support::program;

const SECRET: &str = "a-token-nobody-may-see";

fn two_servers(folder: &Folder) -> Value {
    let server = folder.server(&[]);
    json!({"mcpServers": {
        "Notes": {"command": "python3", "args": [server],
            "env": {"NOTES_TOKEN": SECRET, "NOTES_MODE": "fast"}},
        "loud": {"command": "python3", "args": [server, "--loud"]}}})
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

fn tools(talk: &mut Talk) -> Vec<String> {
    talk.request(90, "tools/list", &json!({}));
    let answer = talk.answer(90);
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_clients_servers_are_governed_and_only_its_commands_change() {
    let folder = Folder::new();
    let before = two_servers(&folder).to_string();
    folder.write(".mcp.json", &before);
    let ran = folder.run(&["init", "--from", ".mcp.json", "--write"]).ends(0);
    assert!(ran.out.contains("Notes (here `notes`): stdio, 3 tools; 2 read-only"), "{}", ran.out);
    assert!(ran.out.contains("loud: stdio, 4 tools"), "{}", ran.out);
    let kept = folder.read(".mcp.json.before-wicketgate");
    assert_eq!(kept, before.replace(SECRET, "<taken out by wicketgate init>"));
    let kept = std::fs::metadata(folder.path(".mcp.json.before-wicketgate")).unwrap();
    assert_eq!(kept.permissions().mode() & 0o077, 0, "it was somebody's credentials");

    // The secret is where the gate reads it, for its owner alone, and nowhere else.
    for path in folder.files("wicketgate") {
        let holds = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains(SECRET);
        let shown = path.display().to_string();
        assert_eq!(holds, shown.ends_with("credentials/notes.NOTES_TOKEN"), "{shown}");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let private = holds || shown.ends_with(".pem") || shown.ends_with("wicketgate.yaml");
        assert_eq!(mode, if private { 0o600 } else { 0o644 }, "{shown}");
    }
    assert!(!folder.read(".mcp.json").contains(SECRET));
    folder.run(&["config", "check", "wicketgate/wicketgate.yaml"]).ends(0);

    let client = folder.json(".mcp.json");
    let mut talk = folder.talk_as(&client["mcpServers"]["Notes"]);
    talk.handshake();
    assert_eq!(tools(&mut talk), ["read_note", "whoami", "write_note"], "its own names");
    let who = talk.call(1, "whoami", &json!({}));
    assert_eq!(text(&who), format!("{} characters of a token, mode fast", SECRET.len()));
    // Nobody reviewed it: that is recorded, and it runs.
    let wrote = talk.call(2, "write_note", &json!({"path": "a.txt", "content": "x"}));
    assert_eq!(text(&wrote), "written");
    let denied = talk.call(3, "read_note", &json!({"path": "../project/.env"}));
    assert_eq!(denied["result"]["isError"], true);
    assert!(text(&denied).contains("org/guard.rego:7"), "{denied}");
    let mut other = folder.talk_as(&client["mcpServers"]["loud"]);
    other.handshake();
    assert_eq!(text(&other.call(1, "shout", &json!({"text": "hey"}))), "HEY");
    other.end().ends(0);
    talk.end().ends(0);

    let config = "wicketgate/wicketgate.yaml";
    let observed = folder.run(&["policy", "observed", "--config", config, "--json"]).ends(0);
    let observed: Value = serde_json::from_str(&observed.out).unwrap();
    assert_eq!((&observed["decided"], &observed["denied"]), (&json!(4), &json!(2)), "{observed}");
    let rule = observed["rules"][0]["rule"].as_str().unwrap();
    assert!(rule.contains("agent/review.rego:"), "{rule}");
    proven(&folder, observed["rules"][0]["examples"][0]["run"].as_str().unwrap());
}

/// A run of this folder, as an auditor sees it.
fn proven(folder: &Folder, run: &str) {
    let at = |name: &str| format!("wicketgate/{name}");
    let export = [
        "evidence",
        "export",
        "--config",
        &at("wicketgate.yaml"),
        "--run",
        run,
        "--out",
        "evidence",
        "--key",
        &at("keys/evidence.pem"),
    ];
    folder.run(&export).ends(0);
    let trust = at("auditor/trust.txt");
    folder.run(&["evidence", "verify", "--trust", &trust, "--run", run, "evidence"]).ends(0);
}

#[test]
fn a_gate_whose_bridge_ends_is_started_again_by_the_next_message_of_another() {
    let folder = Folder::new();
    folder.write("mcp.json", &two_servers(&folder).to_string());
    folder.run(&["init", "--from", "mcp.json", "--write"]).ends(0);
    let client = folder.json("mcp.json");
    let mut first = folder.talk_as(&client["mcpServers"]["Notes"]);
    first.handshake();
    assert_eq!(text(&first.call(1, "whoami", &json!({}))).split(' ').next(), Some("22"));
    let mut second = folder.talk_as(&client["mcpServers"]["loud"]);
    second.handshake();
    assert_eq!(text(&second.call(1, "shout", &json!({"text": "a"}))), "A");
    first.end().ends(0);
    assert_eq!(text(&second.call(2, "shout", &json!({"text": "b"}))), "B");
    second.end().ends(0);
}

#[test]
fn a_server_that_cannot_be_governed_is_left_out_or_stops_everything() {
    let folder = Folder::new();
    let server = folder.server(&[]);
    let both = json!({"mcpServers": {
        "good": {"command": "python3", "args": [server]},
        "bad": {"command": "python3", "args": [server, "--broken"], "env": {"API_KEY": SECRET}},
        "off": {"command": "python3", "disabled": true}}});
    folder.write("mcp.json", &both.to_string());
    let strict = folder.run(&["init", "--from", "mcp.json", "--strict"]).ends(1);
    assert!(strict.err.contains("bad: ") && strict.err.contains("cannot open the notebook"));
    assert!(strict.err.contains("nothing was written"), "{}", strict.err);
    assert_eq!(folder.names("."), ["mcp.json", "server.py"], "nothing half done");
    let ran = folder.run(&["init", "--from", "mcp.json", "--json"]).ends(0);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["servers"][0]["name"], "good");
    assert_eq!(report["left_out"].as_array().unwrap().len(), 2);
    assert!(report["client_entries"]["mcpServers"].get("bad").is_none());
    assert!(
        folder.files("wicketgate").iter().all(|path| {
            !String::from_utf8_lossy(&std::fs::read(path).unwrap()).contains(SECRET)
        })
    );

    let again = folder.run(&["init", "--from", "mcp.json"]).ends(1);
    assert!(again.err.contains("is not replaced") && again.err.contains("--dir"), "{}", again.err);
    // Nor is a file governed twice.
    let (exe, entry) = (program::gate(), &report["client_entries"]);
    assert_eq!(entry["mcpServers"]["good"]["command"], exe);
    folder.write("mcp.json", &entry.to_string());
    folder
        .run(&["init", "--from", "mcp.json", "--dir", "b"])
        .ends(1)
        .says("already uses wicketgate");
}

#[test]
fn a_vs_code_file_keeps_its_comments_and_what_it_asks_for_comes_from_a_file() {
    let folder = Folder::new();
    let server = folder.server(&[]);
    let file = String::from(
        "{\n  // what we use\n  \"inputs\": [{\"id\": \"pat\", \"type\": \"promptString\", \"password\": true}],\n  \
         \"servers\": {\n    \"notes\": {\n      \"type\": \"stdio\", \"command\": \"python3\",\n      \
         \"args\": [\"${workspaceFolder}/server.py\"], // ours\n      \
         \"env\": {\"NOTES_TOKEN\": \"${input:pat}\"},\n    },\n  },\n}\n",
    );
    assert!(server.ends_with("/server.py"));
    folder.write(".vscode/mcp.json", &file);
    let asked = folder.run(&["init", "--from", ".vscode/mcp.json"]).ends(1);
    assert!(asked.err.contains("--input pat=FILE"), "{}", asked.err);
    folder.write("pat.txt", &format!("{SECRET}\n"));
    let args = ["init", "--from", ".vscode/mcp.json", "--input", "pat=pat.txt", "--write"];
    folder.run(&args).ends(0);
    let after = folder.read(".vscode/mcp.json");
    assert!(after.contains("// what we use") && after.contains("\"inputs\""), "{after}");
    assert!(!after.contains("server.py"), "{after}");
    assert_eq!(folder.read("wicketgate/credentials/notes.NOTES_TOKEN"), SECRET);
    let plain = after.replace("// what we use", "").replace("},\n  },\n}", "}\n  }\n}");
    let entry: Value = serde_json::from_str(&plain).unwrap_or_else(|e| panic!("{e}: {after}"));
    let entry = &entry["servers"]["notes"];
    assert_eq!(entry["type"], "stdio");
    let mut talk = folder.talk_as(entry);
    talk.handshake();
    let who = talk.call(1, "whoami", &json!({}));
    assert!(text(&who).starts_with(&format!("{} characters", SECRET.len())), "{who}");
    talk.end().ends(0);
}

#[test]
fn a_variable_of_the_environment_stays_a_reference() {
    let folder = Folder::new();
    let server = folder.server(&[]);
    let file = json!({"mcpServers": {"notes": {"command": "python3", "args": [server],
        "env": {"NOTES_TOKEN": "${env:MY_PAT}", "NOTES_MODE": "${env:MODE}"}}}});
    folder.write(".cursor/mcp.json", &file.to_string());
    folder.run(&["init", "--from", ".cursor/mcp.json"]).ends(1).says("`MODE` is not set");
    let env = [("MY_PAT", SECRET), ("MODE", "slow")];
    let args = ["init", "--from", ".cursor/mcp.json", "--sandbox", "none"];
    folder.run_with(&args, &env).ends(0).says("runs without a sandbox (`--sandbox none`)");
    let yaml = folder.read("wicketgate/wicketgate.yaml");
    assert!(yaml.contains("{env: NOTES_TOKEN, from_env: MY_PAT}"), "{yaml}");
    assert!(yaml.contains("sandbox: {level: none}"), "what it runs in is said: {yaml}");
    assert!(yaml.contains("NOTES_MODE: slow") && !yaml.contains(SECRET), "{yaml}");
    assert!(!folder.path("wicketgate/credentials").exists());
}

#[test]
fn over_http_a_client_gets_a_url_and_takes_its_token_from_a_variable() {
    let folder = Folder::new();
    folder.write("mcp.json", &two_servers(&folder).to_string());
    let ran = folder.run(&["init", "--from", "mcp.json", "--http", "127.0.0.1:7399"]).ends(0);
    assert!(ran.out.contains("http://127.0.0.1:7399/mcp/s/notes"), "{}", ran.out);
    assert!(ran.out.contains("Bearer ${WICKETGATE_AGENT_TOKEN}"), "{}", ran.out);
    let token = folder.read("wicketgate/credentials/agent.token");
    let known = wicketgate::domain::token::parse(&token).map(|(family, _)| family.as_str());
    assert!(known == Some("agent") && !ran.out.contains(&token));
    let yaml = folder.read("wicketgate/wicketgate.yaml");
    assert!(yaml.contains("listen: {tcp: \"127.0.0.1:7399\"}"), "{yaml}");
    folder.run(&["init", "--from", "mcp.json", "--http", "0.0.0.0:1"]).ends(64);
}

#[test]
fn an_error_in_the_imported_file_names_file_and_line_and_nothing_is_written() {
    let folder = Folder::new();
    folder.write("mcp.json", "{\"mcpServers\": {\n  \"a\": {\"command\": 7}\n}}");
    let wrong = folder.run(&["init", "--from", "mcp.json"]).ends(1);
    assert!(
        wrong.err.contains("mcp.json:2:20: mcpServers.a.command: expected text"),
        "{}",
        wrong.err
    );
    folder.run(&["init", "--from", "none.json"]).ends(1).says("none.json");
    folder.run(&["init"]).ends(64).says("--from");
    folder.run(&["init", "--from", "mcp.json", "--observe-days", "31"]).ends(64);
    assert_eq!(folder.names("."), ["mcp.json"]);
}

/// Most servers say nothing of their tools: whether they only read, or what they change.
#[test]
fn the_three_commands_of_the_readme_work_for_a_server_without_annotations() {
    let folder = Folder::new();
    let server = folder.server(&[(", read_only=True", "")]);
    let notes = json!({"mcpServers": {"Notes": {"command": "python3", "args": [server]}}});
    folder.write(".mcp.json", &notes.to_string());
    folder.run(&["init", "--from", ".mcp.json", "--write"]).ends(0).says("3 tools");
    let mut talk = folder.talk_as(&folder.json(".mcp.json")["mcpServers"]["Notes"]);
    talk.handshake();
    assert_eq!(text(&talk.call(1, "read_note", &json!({"path": "todo.txt"}))), "buy milk");
    let wrote = talk.call(2, "write_note", &json!({"path": "a.txt", "content": "x"}));
    assert_eq!(text(&wrote), "written");
    let denied = talk.call(3, "read_note", &json!({"path": "../project/.env"}));
    assert_eq!(denied["result"]["isError"], true);
    talk.end().ends(0);

    let config = ["--config", "wicketgate/wicketgate.yaml"];
    let observed = folder.run(&[&["policy", "observed"][..], &config].concat()).ends(0);
    assert!(observed.out.contains("would have denied 2"), "{}", observed.out);
    let suggest = [&["policy", "suggest"][..], &config].concat();
    let rules = folder.run(&suggest).ends(0);
    for tool in ["notes.read_note", "notes.write_note"] {
        assert!(rules.out.contains(&format!("input.tool.name == \"{tool}\"")), "{}", rules.out);
    }
    for part in ["the inputs of 2 calls", "only observed", "left out: ", "org/guard.rego:7"] {
        assert!(rules.err.contains(part), "`{part}` is not in {}", rules.err);
    }
    folder.run(&[&suggest[..], &["--out", "suggested"]].concat()).ends(0);
    folder.run(&["policy", "check", "suggested"]).ends(0);
}
