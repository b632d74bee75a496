//! The shell blocks of the pages, run as they stand.
//!
//! The `sh` blocks of a page are one script, in a directory that has what a checkout has. A page that links to
//! `quickstart.md#your-own-gate` begins with the blocks of that section. Each line of a `text` block that follows
//! was printed. `console` blocks need what a test has not (a cluster, a key of a provider) and are only parsed. Where
//! `tests/run` installed them, Claude Code, Codex, Node and the libraries of models are those that it pins.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::document::{Document, pages};
use crate::first_day::too_long;
use crate::output::not_printed;
use crate::top;
use wicketgate_support::program;

const OWN_GATE: &str = "quickstart.md#your-own-gate";

/// The page whose commands print what the README shows of an agent, and where the README shows it.
const IN_README: (&str, &str) = ("docs/agents/claude-code.md", "any-agent-by-its-base-url");

/// Network and processes of the page alone: every page may use the ports that are the defaults, and what it started
/// ends with it.
const ALONE: [&str; 7] =
    ["--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--"];

/// Pages that run at a time.
const AT_ONCE: usize = 4;

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(ALONE);
    command
}

/// The blocks of a page that are run, and what it shows as printed.
fn script(page: &Document) -> (String, String) {
    let (mut script, mut shown) = (String::new(), String::new());
    let uses = page.path != "docs/quickstart.md" && page.prose().contains(OWN_GATE);
    let gate = Document::read("docs/quickstart.md").section("your-own-gate").unwrap();
    let blocks = page.blocks();
    if !blocks.iter().any(|block| block.language == "sh") {
        return (script, shown);
    }
    for block in uses.then(|| gate.blocks()).into_iter().flatten().chain(blocks) {
        match block.language.as_str() {
            "sh" => script.push_str(&block.text),
            // Before the first of them it is another program's.
            "text" if !script.is_empty() => shown.push_str(&block.text),
            _ => {}
        }
    }
    if page.path == IN_README.0 {
        let section = Document::read("README.md").section(IN_README.1).unwrap();
        let printed = section.blocks().into_iter().filter(|block| block.language == "text");
        printed.for_each(|block| shown.push_str(&block.text));
    }
    (script, shown)
}

/// Programs of others that pages start, by name: those that `tests/run` installed.
fn programs() -> Vec<(&'static str, PathBuf)> {
    let mut found = Vec::new();
    if let Some(llm) = installed("WICKETGATE_TEST_LLM") {
        let packages = llm.join("npm/node_modules");
        let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
        let claude = packages.join(format!("@anthropic-ai/claude-code-linux-{machine}/claude"));
        let vendor = packages.join(format!("@openai/codex-linux-{machine}/vendor"));
        let codex = std::fs::read_dir(vendor).into_iter().flatten().next();
        found.push(("claude", claude));
        found.extend(codex.map(|folder| ("codex", folder.unwrap().path().join("bin/codex"))));
    }
    let mcp = installed("WICKETGATE_TEST_MCP");
    found.extend(mcp.map(|mcp| ("node", mcp.join("python-1/bin/node"))));
    found.retain(|(_, path)| path.exists());
    found
}

/// A folder that `tests/run` installs into.
fn installed(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_dir())
}

/// A directory with what a checkout has: links to all of it, but to what is built.
fn checkout() -> tempfile::TempDir {
    let dir = tempfile::Builder::new().prefix("wgd").tempdir().unwrap();
    for entry in std::fs::read_dir(top()).unwrap() {
        let entry = entry.unwrap();
        if ![".git", "target"].contains(&entry.file_name().to_str().unwrap()) {
            symlink(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
    }
    // As `npm install` would leave it for every folder below.
    if let Some(llm) = installed("WICKETGATE_TEST_LLM") {
        symlink(llm.join("npm/node_modules"), dir.path().join("node_modules")).unwrap();
    }
    dir
}

/// Where a script finds programs: ours, those of others in `home`, the Python that it needs, and the machine's.
fn path(script: &str, home: &Path) -> std::ffi::OsString {
    let others = home.join("bin");
    std::fs::create_dir(&others).unwrap();
    for (name, program) in programs() {
        symlink(program, others.join(name)).unwrap();
    }
    let gate = Path::new(program::gate()).parent().unwrap().to_owned();
    let python = python_of(script).map(|python| python.parent().unwrap().to_owned());
    let machine = std::env::var_os("PATH").unwrap();
    let all = [gate, others].into_iter().chain(python);
    std::env::join_paths(all.chain(std::env::split_paths(&machine))).unwrap()
}

/// The Python of a script: with the libraries of models and of MCP, or with gRPC.
fn python_of(script: &str) -> Option<PathBuf> {
    if ["examples/llm/", "examples/mcp/configured.py"].iter().any(|file| script.contains(file)) {
        return installed("WICKETGATE_TEST_LLM").map(|llm| llm.join("python/bin/python"));
    }
    std::env::var_os("WICKETGATE_TEST_PYTHON").map(PathBuf::from)
}

/// What a script printed, and whether it ended well.
fn run(script: &str) -> (bool, String) {
    let (dir, home) = (checkout(), tempfile::tempdir().unwrap());
    std::fs::write(home.path().join("page.sh"), script).unwrap();
    let begin = "ip link set lo up && exec timeout 120 bash -euo pipefail \"$HOME/page.sh\" 2>&1";
    let done = unshare()
        .args(["sh", "-c", begin])
        .current_dir(dir.path())
        .env("PATH", path(script, home.path()))
        .env("HOME", home.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    (done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Whether this machine can run pages at all; says so if not.
fn alone() -> bool {
    let probe = unshare().args(["ip", "link", "set", "lo", "up"]).output();
    let fit = probe.is_ok_and(|done| done.status.success());
    if !fit {
        let why =
            "not tested here: the commands of the pages: this machine gives no network namespace";
        drop(writeln!(std::io::stderr(), "{why}"));
    }
    fit
}

#[test]
fn the_commands_of_every_page_do_what_the_page_shows() {
    if !alone() {
        return;
    }
    let only = wicketgate::config::environment("WICKETGATE_PAGE").unwrap_or_default();
    let scripts: Vec<_> = pages()
        .filter(|page| page.path.contains(&only))
        .map(|page| (script(&page), page.path))
        .filter(|((script, _), path)| !script.is_empty() && is_fit(path, script))
        .collect();
    // They wait for processes more than they compute.
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = scripts
            .chunks(scripts.len().div_ceil(AT_ONCE).max(1))
            .map(|share| scope.spawn(move || share.iter().filter_map(wrong).collect::<Vec<_>>()))
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    if scripts.is_empty() {
        eprintln!("not tested here: no page could be run");
    }
}

/// Whether this machine has what a script needs; says so if not.
fn is_fit(path: &str, script: &str) -> bool {
    let has = |program: &str| {
        let asked = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        asked.is_ok_and(|done| done.status.success())
    };
    let needs = ["curl", "openssl", "python3", "ssh-keygen"];
    let lacks = needs.into_iter().find(|name| script.contains(name) && !has(name));
    let lacks = lacks.or_else(|| {
        // The example agents need libraries, which `tests/run` installs for these.
        (script.contains("python ") && python_of(script).is_none())
            .then_some("Python with the libraries of the example")
    });
    let lacks = lacks.or_else(|| {
        let here = programs();
        let calls = |name: &str| {
            script.lines().any(|line| line.trim_start().starts_with(&format!("{name} ")))
        };
        let mut asked = ["claude", "codex", "node"].into_iter().filter(|name| calls(name));
        asked.find(|name| !here.iter().any(|(known, _)| known == name))
    });
    if let Some(lacks) = lacks {
        eprintln!("not tested here: {path}: this machine has no {lacks}");
    }
    lacks.is_none()
}

/// What a page shows and does not happen.
fn wrong(((script, shown), path): &((String, String), String)) -> Option<String> {
    let (ended_well, printed) = run(script);
    let missing = not_printed(shown, &printed);
    if let Some(why) = too_long(path, &printed) {
        return Some(why);
    }
    let fine = ended_well && missing.is_empty();
    (!fine).then(|| format!("{path}: not printed: {missing:#?}\n{printed}"))
}

/// What the README shows of an agent is what the page's commands print ([`IN_README`]), and its own commands are the page's.
#[test]
fn the_commands_of_the_readme_are_those_of_the_page_that_it_shows() {
    let (page, section) = (Document::read(IN_README.0), Document::read("README.md"));
    let blocks = section.section(IN_README.1).unwrap().blocks();
    let (ran, _) = script(&page);
    let bare = |line: &str| line.split("  #").next().unwrap().trim_end().to_owned();
    let ran: Vec<String> = ran.lines().map(bare).collect();
    let shell = blocks.iter().filter(|block| block.language == "sh");
    let shown: Vec<String> = shell.flat_map(|block| block.text.lines()).map(bare).collect();
    let missing: Vec<&String> = shown.iter().filter(|line| !ran.contains(line)).collect();
    assert!(missing.is_empty() && !shown.is_empty(), "{missing:#?}");
    assert!(blocks.iter().any(|block| block.language == "text"), "the README shows no output");
}

#[test]
fn a_page_that_fails_is_found_and_leaves_no_process() {
    if !alone() {
        return;
    }
    let (ended_well, printed) = run("echo one\nsleep 600 &\nfalse | true\necho two\n");
    assert!(!ended_well && printed == "one\n", "{printed}");
    let page = Document::of(
        "docs/a.md",
        "```text\nw\n```\n```sh\nls\n```\n```text\nx\n```\n```console\ny\n```\n",
    );
    assert_eq!(script(&page), ("ls\n".to_owned(), "x\n".to_owned()));
}
