//! The first day: an empty directory, somebody else's `.mcp.json`, and nothing of the agent changed but its commands.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::{CLIENTS, Facts, Way};
use crate::estate::wicketgate;
use crate::home;

/// What somebody has: two servers of others, in a directory of theirs.
fn theirs() -> tempfile::TempDir {
    let dir = tempfile::Builder::new().prefix("wgd").tempdir().unwrap();
    let project = dir.path().join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("notes.txt"), "what the notes say\n").unwrap();
    std::fs::write(project.join(".env"), "SECRET=1\n").unwrap();
    let servers = json!({"mcpServers": {
        "files": home::filesystem(&project.canonicalize().unwrap()),
        "memory": home::memory(&dir.path().join("memory.jsonl")),
    }});
    std::fs::write(dir.path().join(".mcp.json"), servers.to_string()).unwrap();
    dir
}

/// The command that the client's file has for a server.
fn command(dir: &Path, server: &str) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join(".mcp.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let server = &file["mcpServers"][server];
    let words = std::iter::once(&server["command"]).chain(server["args"].as_array().unwrap());
    words.map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// The run that this call is part of, as the ledger has it.
fn run_of(dir: &Path, facts: &Facts, at: usize) -> String {
    let tail = ["ledger", "tail", "--config", "wicketgate/wicketgate.yaml", "-n", "100", "--json"];
    let entries = wicketgate(dir, &tail);
    let position = facts.call(at)["meta"]["wicketgate.dev/receipt"]["run_seq"].clone();
    let call = facts.call(at)["meta"]["wicketgate.dev/call"].clone();
    let mut all = entries.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let entry = all.find(|entry| entry["call"] == call && entry["run_seq"] == position);
    entry.unwrap_or_else(|| panic!("{call} is not in {entries}"))["run"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn three_commands_govern_a_strangers_servers_the_first_denial_names_its_rule_and_the_evidence_holds()
 {
    let dir = theirs();
    let dir = dir.path();
    let project = dir.join("project").canonicalize().unwrap();
    let path = |name: &str| project.join(name).display().to_string();
    let client = CLIENTS.iter().find(|client| client.script == "sdk_typescript_2").unwrap();
    let before = client.play(&Way::Stdio(command(dir, "files")), "auto", &[]);

    // The first command.
    // As root the gate runs servers as another user, who may look into none of these directories.
    let free: &[&str] = &["--sandbox", "none"];
    let free = if rustix::process::geteuid().is_root() { free } else { &[] };
    let said = wicketgate(dir, &[&["init", "--from", ".mcp.json", "--write"], free].concat());
    for part in ["files: stdio", "memory: stdio", "observes until"] {
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }

    // The agent, unchanged, started by what its client's file says now.
    let calls = [
        ("read_text_file", json!({"path": path("notes.txt")})),
        ("read_text_file", json!({"path": path(".env")})),
        ("write_file", json!({"path": path("new.txt"), "content": "new"})),
    ];
    let governed = client.play(&Way::Stdio(command(dir, "files")), "auto", &calls);
    let (mut was, mut is) = (before.tools(), governed.tools());
    was.sort_unstable();
    is.sort_unstable();
    assert_eq!(was, is, "the agent finds the tools it had");
    assert_eq!(governed.text(0), "what the notes say\n");
    // The first denial says which rule, in which file and line, and that nothing ran.
    let denial = governed.text(1);
    let rule = line_of_the_rule(&dir.join("wicketgate/policy/org/guard.rego"));
    for part in ["policy.denied", &format!("org/guard.rego:{rule}"), "nothing ran"] {
        assert!(denial.contains(part), "`{part}` is not in: {denial}");
    }
    assert_eq!(governed.call(1)["is_error"], true);
    // Nobody has reviewed writing: enforcement would refuse it, observing records that.
    assert_eq!(governed.call(2)["is_error"], false, "{:?}", governed.call(2));
    assert_eq!(std::fs::read_to_string(path("new.txt")).unwrap(), "new");
    let entity = json!({"name": "day", "entityType": "first", "observations": ["done"]});
    let memory = [("create_entities", json!({"entities": [entity]}))];
    let other = client.play(&Way::Stdio(command(dir, "memory")), "auto", &memory);
    assert!(other.text(0).contains("first"), "{}", other.text(0));

    let config = ["--config", "wicketgate/wicketgate.yaml"];
    let observed = wicketgate(dir, &[&["policy", "observed"][..], &config].concat());
    assert!(observed.contains("files.write_file"), "{observed}");
    assert!(observed.contains("agent/review.rego:"), "{observed}");

    // The second and the third: evidence, and its check by somebody who has only the bundle and whom to trust.
    let run = run_of(dir, &governed, 1);
    let key = ["--key", "wicketgate/keys/evidence.pem"];
    let export = ["evidence", "export", "--run", &run, "--out", "evidence"];
    wicketgate(dir, &[&export[..], &config, &key].concat());
    let trust = ["--trust", "wicketgate/auditor/trust.txt", "--run", &run];
    let verdict = wicketgate(dir, &[&["evidence", "verify"][..], &trust, &["evidence"]].concat());
    assert!(verdict.contains("VALID, level L1, 1 call was not enforced"), "{verdict}");
    assert!(!verdict.contains("INVALID"), "{verdict}");
}

/// Where the rule about files with secrets begins, counted by this test.
fn line_of_the_rule(file: &Path) -> usize {
    let text = std::fs::read_to_string(file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let code = lines.iter().position(|line| line.contains("\"protected_file\"")).unwrap();
    let head = lines[..=code].iter().rposition(|line| line.starts_with("deny contains")).unwrap();
    head + 1
}
