//! `wicketgate serve mcp wrap -- CMD`: one command, no configuration.

use serde_json::{Value, json};

use crate::folder::{Folder, Talk};
use wicketgate_support::ran::Ran;

fn wrap<'a>(options: &[&'a str], server: &'a str) -> Vec<&'a str> {
    let mut args = vec!["mcp", "wrap", "--state", "s"];
    args.extend(options);
    args.extend(["--", "python3", server]);
    args
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

fn said(ran: &Ran) -> Vec<&str> {
    ran.err.lines().filter(|line| line.starts_with("wicketgate: ")).collect()
}

fn began(folder: &Folder, options: &[&str], server: &str) -> Talk {
    let mut talk = folder.talk(&wrap(options, server));
    talk.handshake();
    talk
}

#[test]
fn one_command_governs_one_server_and_says_at_its_end_what_would_have_been_denied() {
    let folder = Folder::new();
    let server = folder.server(&[]);
    let mut talk = began(&folder, &[], &server);
    assert_eq!(text(&talk.call(1, "read_note", &json!({"path": "todo.txt"}))), "buy milk");
    for id in 2..4 {
        let wrote = talk.call(id, "write_note", &json!({"path": "a", "content": "b"}));
        assert_eq!(text(&wrote), "written");
    }
    let denied = talk.call(4, "read_note", &json!({"path": "/home/a/.ssh/id_rsa"}));
    assert_eq!(denied["result"]["isError"], true, "{denied}");
    let ran = talk.end().ends(0);
    assert!(ran.out.is_empty(), "{}", ran.out);
    let said = said(&ran);
    assert_eq!(said.len(), 3, "{}", ran.err);
    assert!(said[0].contains("`server` runs "), "{}", said[0]);
    assert!(said[1].contains("`server` is governed from now on: 3 tools signed in"), "{}", said[1]);
    let line = said[2];
    assert!(
        line.contains("4 calls, 1 denied, 2 would have been denied (agent/review.rego:"),
        "{line}"
    );
    assert!(
        line.contains(" ×2)") && line.contains("ledger.sqlite; wicketgate policy observed"),
        "{line}"
    );

    // The next start uses what is there.
    let dirs = folder.names("s/wrap");
    assert_eq!(dirs.len(), 1);
    let keys = folder.read(&format!("s/wrap/{}/keys/lock.pem", dirs[0]));
    let mut talk = began(&folder, &[], &server);
    assert_eq!(text(&talk.call(1, "read_note", &json!({"path": "todo.txt"}))), "buy milk");
    let ran = talk.end().ends(0);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(ran.err.starts_with("wicketgate: 1 call; ledger "), "{}", ran.err);
    assert_eq!(folder.names("s/wrap"), dirs);
    assert_eq!(folder.read(&format!("s/wrap/{}/keys/lock.pem", dirs[0])), keys);
}

#[test]
fn a_tool_that_changed_is_denied_until_it_is_signed_again() {
    let folder = Folder::new();
    // Its own files stay as they are, which the lock pins too: it shows what another file says.
    folder.write("flag.txt", "");
    let flag = folder.path("flag.txt").display().to_string();
    let shows = format!(
        "{{\"path\": text, **({{\"reason\": text}} if open({flag:?}).read() else {{}})}}, read_only=True"
    );
    let server = folder.server(&[(r#"{"path": text}, read_only=True"#, &shows)]);
    let allow = format!("read={flag}");
    began(&folder, &["--allow", &allow], &server).end().ends(0);
    folder.write("flag.txt", "on");
    let mut talk = began(&folder, &[], &server);
    let denied = talk.call(1, "read_note", &json!({"path": "todo.txt"}));
    // It is noticed before the call is judged, or when the call reaches its tool.
    let detail = denied["result"]["_meta"]["wicketgate.dev/detail"].as_str().unwrap();
    assert!(matches!(detail, "tool.drift" | "changed"), "{denied}");
    assert_eq!(denied["result"]["isError"], true);
    let again = talk.call(2, "read_note", &json!({"path": "todo.txt"}));
    assert_eq!(again["result"]["_meta"]["wicketgate.dev/detail"], "tool.drift", "{again}");
    let ran = talk.end().ends(0);
    assert!(said(&ran).iter().any(|line| line.contains("--relock")), "{}", ran.err);
    let mut talk = began(&folder, &["--relock", "--allow", &allow], &server);
    let read = talk.call(1, "read_note", &json!({"path": "todo.txt", "reason": "thirst"}));
    assert_eq!(text(&read), "buy milk");
    let ran = talk.end().ends(0);
    assert!(!ran.err.contains("--relock"), "{}", ran.err);
}

#[test]
fn a_credential_is_passed_on_and_written_nowhere() {
    let folder = Folder::new();
    let server = folder.server(&[]);
    let secret = "a-token-nobody-may-see";
    let options = ["--env", "NOTES_TOKEN", "--name", "notes"];
    folder.run(&wrap(&options, &server)).ends(1).says("NOTES_TOKEN: the variable is not set");
    let mut command = folder.command(&wrap(&options, &server));
    command.env("NOTES_TOKEN", secret).env("NOTES_MODE", "unseen");
    let mut talk = Talk::start(command);
    talk.handshake();
    let who = talk.call(1, "whoami", &json!({}));
    assert_eq!(text(&who), "22 characters of a token, mode none");
    talk.end().ends(0);
    for path in folder.files("s") {
        let bytes = std::fs::read(&path).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(secret), "{}", path.display());
    }
    assert!(folder.names("s/wrap")[0].starts_with("notes-"));
}

#[test]
fn wrap_signs_a_new_end_of_observe_mode_only_with_observe_days() {
    let folder = Folder::new();
    let server = folder.server(&[]);
    let ran = began(&folder, &["--observe-days", "2"], &server).end().ends(0);
    assert!(
        said(&ran).iter().any(|line| line.contains("--observe-days signs a new end")),
        "{}",
        ran.err
    );
    let bundle = format!("s/wrap/{}/policy/bundle.json", folder.names("s/wrap")[0]);
    let first = folder.json(&bundle);
    began(&folder, &[], &server).end().ends(0);
    assert_eq!(folder.json(&bundle), first);
    let ran = began(&folder, &["--observe-days", "30"], &server).end().ends(0);
    assert!(!ran.err.contains("--observe-days"), "{}", ran.err);
    let next = folder.json(&bundle);
    assert_eq!((&first["version"], &next["version"]), (&json!("1.0.0"), &json!("1.0.1")));
}

#[test]
fn wrap_reports_a_server_that_does_not_start_and_leaves_no_files() {
    let folder = Folder::new();
    let server = folder.server(&[]);
    let mut args = wrap(&[], &server);
    args.push("--broken");
    let ran = folder.run(&args).ends(1).says("cannot open the notebook");
    assert!(ran.out.is_empty());
    assert!(folder.files("s").is_empty() && folder.names("s/wrap").is_empty());
    folder.run(&["mcp", "wrap"]).ends(64);
}
