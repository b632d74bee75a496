//! `wicketgate config init`: a gate from a template.

use std::io::Write as _;
use std::process::{Command, Stdio};

use wicketgate_support::program;

use crate::folder::Folder;

/// The templates, with values that a folder of a test can have.
const TEMPLATES: [(&str, &[&str]); 3] = [
    ("files", &["--set", "folder=work"]),
    (
        "http",
        &[
            "--set",
            "read_url=https://api.example.com/items/{id}",
            "--set",
            "write_url=https://api.example.com/items",
        ],
    ),
    ("sql", &["--set", "database=shop.db", "--set", "table=orders"]),
];

/// A free port for operators: gates of other tests may have the one that is the default.
const FREE_PORT: [(&str, &str); 1] = [("WICKETGATE__OPERATOR__LISTEN", "127.0.0.1:0")];

fn folder() -> Folder {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("work")).unwrap();
    folder.write("work/todo.md", "water the plants\n");
    let shop = rusqlite::Connection::open(folder.path("shop.db")).unwrap();
    shop.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();
    folder
}

#[test]
fn every_template_is_a_configuration_with_a_policy_whose_tests_pass() {
    let folder = folder();
    for (name, values) in TEMPLATES {
        let args = [&["config", "init", name, "--dir", name], values].concat();
        let said = folder.run(&args).ends(0);
        assert!(
            said.out.contains(&format!("wicketgate run --config {}", folder.path(name).display())),
            "{}",
            said.out
        );
        let config = format!("{name}/wicketgate.yaml");
        folder.run(&["config", "check", &config]).ends(0);
        let policy = format!("{name}/policy");
        folder.run(&["policy", "test", &policy, "--coverage-min", "100"]).ends(0);
        let check = ["check", "--pre", "--offline", "--config", &config];
        let said = folder.run_with(&check, &FREE_PORT).ends(0);
        assert!(said.out.contains("signed by 1 trusted key"), "{}", said.out);
    }
}

#[test]
fn an_agent_runs_behind_a_gate_that_was_made_a_moment_ago() {
    let folder = folder();
    folder.run(&["config", "init", "files", "--set", "folder=work"]).ends(0);
    let run = ["run", "--config", "wicketgate/wicketgate.yaml", "--", "/bin/true"];
    let said = folder.run_with(&run, &FREE_PORT).ends(0);
    assert!(said.err.contains("0 calls allowed, 0 denied"), "{}", said.err);
}

#[test]
fn a_value_is_a_text_whatever_is_in_it() {
    let folder = folder();
    let strange = "a: [{\"b\" # c";
    std::fs::create_dir(folder.path(strange)).unwrap();
    folder.run(&["config", "init", "files", "--set", &format!("folder={strange}")]).ends(0);
    let text = folder.read("wicketgate/wicketgate.yaml");
    assert!(text.contains(r#"/a: [{\"b\" # c", name: files}"#), "{text}");
}

#[test]
fn what_is_wrong_is_said_and_nothing_is_written() {
    let folder = folder();
    for (args, said) in [
        (vec!["fils"], "there is no template `fils`, did you mean `files`?"),
        (vec![], "name a template: `files`, `http`, `sql`"),
        (vec!["sql"], "template `sql` needs `--set database=…`: SQLite file"),
        (vec!["files", "--set", "dir=x"], "template `files` has no value `dir`; it has `folder`"),
        (vec!["files", "--set", "folder"], "expected NAME=VALUE"),
        (
            vec!["files", "--set", "folder=none"],
            "wicketgate/wicketgate.yaml:9:104: tools[0].file.root: cannot open `",
        ),
        (
            vec!["files", "--set", "folder=none"],
            "nothing was written: give other values with --set",
        ),
        (
            vec!["files", "--set", "folder=work", "--dir", "work"],
            "`work` exists and is not replaced",
        ),
    ] {
        let code = if said.starts_with("expected") { 64 } else { 1 };
        let ran = folder.run(&[vec!["config", "init"], args].concat()).ends(code);
        assert!(ran.err.contains(said), "`{said}` is not in {}", ran.err);
        assert!(!folder.path("wicketgate").exists());
    }
    let kept = std::fs::read_to_string(folder.path("work/todo.md")).unwrap();
    assert_eq!(kept, "water the plants\n");
}

#[test]
fn with_json_it_asks_nothing_and_prints_one_object() {
    let folder = folder();
    let said = folder.run(&["config", "init", "files", "--set", "folder=work", "--json"]).ends(0);
    let told: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(told["template"], "files");
}

#[test]
fn on_a_terminal_it_asks_for_what_the_command_line_leaves_open() {
    let folder = folder();
    let mut script = Command::new("script")
        .args(["-qec", &format!("{} config init", program::gate()), "/dev/null"])
        .current_dir(folder.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    script.stdin.take().unwrap().write_all(b"sql\nshop.db\n\norders\n").unwrap();
    let said = script.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success(), "{text}");
    for question in
        ["template [files]: ", "database: SQLite file: ", "table: table that the agent may read: "]
    {
        assert!(text.contains(question), "`{question}` is not in {text}");
    }
    let made = std::fs::read_to_string(folder.path("wicketgate/wicketgate.yaml")).unwrap();
    assert!(made.contains("tables: [\"orders\"]"), "{made}");
}
