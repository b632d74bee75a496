//! The shell blocks of the pages, run as they stand.
//!
//! The `sh` blocks of a page are one script, in a directory that has what a checkout has. A page that links to
//! `quickstart.md#your-own-gate` begins with the blocks of that section. Each line of a `text` block that follows
//! was printed. `console` blocks need what a test has not (a cluster, a client) and are only parsed.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::document::{Document, pages};
use crate::output::not_printed;
use crate::top;
use wicketgate_support::program;

const OWN_GATE: &str = "quickstart.md#your-own-gate";

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
    (script, shown)
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
    dir
}

/// What a script printed, and whether it ended well.
fn run(script: &str) -> (bool, String) {
    let (dir, home) = (checkout(), tempfile::tempdir().unwrap());
    std::fs::write(home.path().join("page.sh"), script).unwrap();
    let mut path = std::ffi::OsString::from(Path::new(program::gate()).parent().unwrap());
    if let Some(python) = std::env::var_os("WICKETGATE_TEST_PYTHON") {
        path.push(":");
        path.push(Path::new(&python).parent().unwrap());
    }
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let begin = "ip link set lo up && exec timeout 120 bash -euo pipefail \"$HOME/page.sh\" 2>&1";
    let done = unshare()
        .args(["sh", "-c", begin])
        .current_dir(dir.path())
        .env("PATH", path)
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
        // The example agent needs gRPC, which `tests/run` installs for this one.
        let python = std::env::var_os("WICKETGATE_TEST_PYTHON").is_some();
        (script.contains("python ") && !python).then_some("WICKETGATE_TEST_PYTHON")
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
    let fine = ended_well && missing.is_empty();
    (!fine).then(|| format!("{path}: not printed: {missing:#?}\n{printed}"))
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
