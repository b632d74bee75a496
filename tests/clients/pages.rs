//! The code of the clients' READMEs and pages, run as it stands.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use wicketgate_support::program::{gate, top};

use crate::document::Document;
use crate::frameworks::Provider;
use crate::gate::{Gate, printed};
use crate::home;
use crate::program::{agent, clean, copy, open, python};
use crate::ran::Ran;
use crate::typescript::Project;

/// What the first program of both READMEs prints.
#[track_caller]
fn shows_calls(printed: &str) {
    for part in [
        "notes.write",
        "water the plants",
        "policy.denied wicketgate.agent.deny agent/main.rego:9 payroll is not for agents",
        "waits for approval",
    ] {
        assert!(printed.contains(part), "`{part}` is not in {printed}");
    }
}

/// A provider whose model reads a note and is done, and where an agent finds it.
#[track_caller]
fn provider(gate: &Gate) -> Provider {
    let read = json!({"tools": [{"name": "notes_read", "arguments": {"path": "todo.md"}}]});
    gate.files.write_json(
        "script.json",
        &json!({"rules": [{"when": {"results": 0}, "answer": read},
            {"when": {"contains": "water the plants"}, "answer": {"text": "They are read."}}]}),
    );
    Provider::start_with(&["--script", &gate.files.path("script.json").display().to_string()])
}

fn with_model<'a>(command: &'a mut Command, provider: &Provider) -> &'a mut Command {
    command
        .env("OPENAI_BASE_URL", format!("{}/v1", provider.url))
        .env("OPENAI_API_KEY", "key")
        .env("OPENAI_AGENTS_DISABLE_TRACING", "1")
}

#[test]
fn the_readme_of_the_python_client_does_what_it_says() {
    let gate = Gate::start();
    let provider = provider(&gate);
    let blocks = Document::read("clients/python/README.md").blocks("python");
    let [calls, framework, function] = blocks.as_slice() else { panic!("{blocks:?}") };
    let run = |text: &str| {
        let mut command = agent(&gate, python());
        command.args(["-c", text]).current_dir(gate.files.path(""));
        printed(with_model(&mut command, &provider))
    };
    shows_calls(&run(calls));
    assert_eq!(run(framework), "They are read.\n");
    for name in ["pydantic_ai", "langchain"] {
        assert!(framework.contains(name), "the README names the other adapters");
        run(&format!("import wicketgate.adapters.{name}"));
    }
    assert!(function.starts_with("# desk.py\n"));
    gate.files.write("desk.py", function);
    let name = run("import desk; print(desk.count_words.wicketgate.qualified)");
    assert_eq!(name, "desk.count_words\n");
    gate.finish();
}

#[test]
fn the_readme_of_the_typescript_client_compiles_and_does_what_it_says() {
    let (gate, project) = (Gate::start(), Project::new());
    let provider = provider(&gate);
    let blocks = Document::read("clients/typescript/README.md").blocks("ts");
    let [calls, framework] = blocks.as_slice() else { panic!("{blocks:?}") };
    let mut first = project.program(&gate, "calls.ts", calls);
    let mut second = project.program(&gate, "framework.ts", framework);
    let strict = ["--noEmit", "--strict", "--skipLibCheck", "--target", "es2023"];
    let modules = ["--module", "nodenext", "--types", "node", "calls.ts", "framework.ts"];
    project.compile(&[&strict[..], &modules].concat());
    shows_calls(&printed(&mut first));
    assert_eq!(printed(with_model(&mut second, &provider)), "They are read.\n");
    gate.finish();
}

/// Runs shell blocks after those that make one's own gate, in a folder that has what a checkout has.
#[track_caller]
fn walk(dir: &Path, blocks: &[String], node: Option<PathBuf>) -> String {
    copy("clients/python", &dir.join("clients/python"));
    symlink(top().join("examples"), dir.join("examples")).unwrap();
    open(dir);
    let own = Document::read("docs/quickstart.md").section("Your own gate").blocks("sh");
    let script = [own.concat(), blocks.concat()].concat();
    // What the page starts ends with it.
    let script = format!("set -euo pipefail\ntrap 'kill $(jobs -p) && wait' EXIT\n{script}");
    let programs = [Path::new(gate()).parent().unwrap(), Path::new("/usr/bin"), Path::new("/bin")];
    let programs = node.into_iter().chain(programs.map(Path::to_owned));
    let mut bash = clean("/bin/bash".into());
    bash.args(["-c", &script]).current_dir(dir).env("HOME", dir);
    Ran::of(bash.env("PATH", std::env::join_paths(programs).unwrap())).ok().out
}

/// A page without what differs from run to run shows only what was printed.
#[track_caller]
fn shows(printed: &str, shown: &[String]) {
    for line in shown.concat().lines() {
        let begin = line.trim_end_matches('…');
        assert!(printed.contains(begin), "`{line}` is not in {printed}");
    }
}

#[test]
fn a_function_becomes_a_tool_by_the_commands_of_its_page() {
    let dir = tempfile::tempdir().unwrap();
    let section = Document::read("docs/agents/python.md").section("Functions as tools");
    let printed = walk(dir.path(), &section.blocks("console"), None);
    shows(&printed, &section.blocks(""));
}

#[test]
fn the_page_of_the_typescript_client_does_what_it_shows() {
    let project = Project::new();
    let page = Document::read("docs/agents/typescript.md");
    let node = home::node().parent().unwrap().to_owned();
    let printed = walk(&project.path(""), &page.blocks("console"), Some(node));
    shows(&printed, &page.blocks("text"));
}
