//! Programs that must not compile: every cheat in `tests/forbidden/` is refused, and for its own reason.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests may stop at the first surprise, and this one runs a compiler from its environment"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Where the compiled library and its dependencies are.
struct Library {
    rlib: PathBuf,
    deps: PathBuf,
}

impl Library {
    /// Asks cargo, so that a stale artefact of an earlier build is never taken for the library.
    ///
    /// WHY not trybuild: it builds every dependency again in a directory of its own, minutes on a small
    /// machine; one `rustc --emit=metadata` per program against what is already there takes a second.
    fn built() -> Self {
        let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
        cargo.args(["test", "--no-run", "--offline", "--locked", "--quiet"]);
        cargo.args(["--lib", "--test", "forbidden", "--message-format=json"]);
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        // What cargo told this test about itself would look like a change to build scripts.
        let told = [
            "OUT_DIR",
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_BIN_",
            "CARGO_CRATE_",
            "CARGO_PRIMARY",
        ];
        for (name, _) in std::env::vars_os() {
            if told.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                cargo.env_remove(&name);
            }
        }
        let output = cargo.output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rlib = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|message| message["target"]["name"] == "wicketgate")
            .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
            .filter_map(|name| name.as_str().map(PathBuf::from))
            .find(|path| path.extension().is_some_and(|extension| extension == "rlib"))
            .expect("cargo names the library's rlib");
        let beside = rlib.parent().unwrap();
        let deps = if beside.ends_with("deps") { beside.to_owned() } else { beside.join("deps") };
        Self { rlib, deps }
    }

    /// The errors of one program, as `error[CODE]: message` and its place; empty if it compiles.
    fn errors(&self, program: &Path) -> String {
        let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let output = Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into()))
            .args(["--edition", "2024", "--crate-type", "bin", "--emit", "metadata"])
            .args(["--cap-lints", "allow", "--error-format", "json", "--out-dir"])
            .arg(scratch.path())
            .arg("--extern")
            .arg(format!("wicketgate={}", self.rlib.display()))
            .arg("-L")
            .arg(format!("dependency={}", self.deps.display()))
            .arg(program)
            .output()
            .expect("rustc runs");
        let said = String::from_utf8(output.stderr).unwrap();
        let errors = summary(&said);
        assert_eq!(output.status.success(), errors.is_empty(), "{}: {said}", program.display());
        errors
    }
}

/// Code, message and place of each error; not the places inside the library, which move.
fn summary(json_lines: &str) -> String {
    let paths = regex::Regex::new(r"wicketgate(?:_\w+)?::(?:\w+::)*").unwrap();
    let mut out = String::new();
    for line in json_lines.lines() {
        let Ok(diagnostic) = serde_json::from_str::<Value>(line) else { continue };
        if diagnostic["level"] != "error" {
            continue;
        }
        let Some(code) = diagnostic["code"]["code"].as_str() else {
            // "aborting due to" and the like say nothing new; an error without a code and with a place does.
            if diagnostic["spans"].as_array().is_none_or(Vec::is_empty) {
                continue;
            }
            writeln!(out, "error: {}", diagnostic["message"].as_str().unwrap()).unwrap();
            continue;
        };
        // The compiler shortens a path when the last word is unique among all crates it has loaded; so do we.
        let message = diagnostic["message"].as_str().unwrap();
        writeln!(out, "error[{code}]: {}", paths.replace_all(message, "")).unwrap();
        for span in
            diagnostic["spans"].as_array().unwrap().iter().filter(|s| s["is_primary"] == true)
        {
            let name = Path::new(span["file_name"].as_str().unwrap()).file_name().unwrap();
            let (line, column) = (&span["line_start"], &span["column_start"]);
            let label = paths.replace_all(span["label"].as_str().unwrap_or_default(), "");
            writeln!(out, " --> {}:{line}:{column}: {label}", name.display()).unwrap();
        }
    }
    out
}

fn programs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forbidden");
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    found.sort();
    found
}

fn is_control(program: &Path) -> bool {
    program.file_name().unwrap().to_string_lossy().starts_with("control_")
}

/// What is wrong with the answer a program got, if anything.
fn verdict(program: &Path, expected: Option<&str>, errors: &str) -> Option<String> {
    let name = program.file_name().unwrap().display().to_string();
    match (is_control(program), expected) {
        (true, _) if errors.is_empty() => None,
        (true, _) => Some(format!("{name} must compile and does not:\n{errors}")),
        (false, _) if errors.is_empty() => Some(format!("{name} compiles: the cheat works")),
        (false, None) => Some(format!("{name} has no .stderr; the compiler says:\n{errors}")),
        (false, Some(expected)) if expected == errors => None,
        (false, Some(expected)) => Some(format!(
            "{name} is refused for another reason.\nexpected:\n{expected}got:\n{errors}"
        )),
    }
}

/// Two compilers at a time: each takes a second, most of it reading metadata.
fn compile_all(library: &Library, programs: &[PathBuf]) -> Vec<(PathBuf, String)> {
    let half = programs.len().div_ceil(2).max(1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = programs
            .chunks(half)
            .map(|share| {
                scope.spawn(move || {
                    share.iter().map(|p| (p.clone(), library.errors(p))).collect::<Vec<_>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

#[test]
fn every_cheat_is_refused_for_its_own_reason_and_the_honest_road_compiles() {
    let library = Library::built();
    let bless = std::env::var_os("WICKETGATE_BLESS").is_some();
    let programs = programs();
    assert!(programs.iter().filter(|p| !is_control(p)).count() >= 8, "too few cheats are tried");
    assert!(programs.iter().any(|p| is_control(p)), "nothing shows that honest programs compile");
    let mut wrong = Vec::new();
    for (program, errors) in compile_all(&library, &programs) {
        let golden = program.with_extension("stderr");
        if bless && !errors.is_empty() && !is_control(&program) {
            std::fs::write(&golden, &errors).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).ok();
        wrong.extend(verdict(&program, expected.as_deref(), &errors));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_expected_answer_belongs_to_a_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forbidden");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "stderr") {
            assert!(path.with_extension("rs").exists(), "{} has no program", path.display());
        }
    }
}

#[test]
fn the_comparison_can_fail() {
    let cheat = Path::new("cheat.rs");
    let control = Path::new("control_x.rs");
    let refused = "error[E0451]: fields are private\n --> cheat.rs:1:1\n";
    let missing = "error[E0433]: no such name\n --> cheat.rs:1:1\n";
    assert_eq!(verdict(cheat, Some(refused), refused), None);
    assert_eq!(verdict(control, None, ""), None);
    assert!(verdict(cheat, Some(refused), "").unwrap().contains("the cheat works"));
    assert!(verdict(cheat, Some(refused), missing).unwrap().contains("another reason"));
    assert!(verdict(cheat, None, refused).unwrap().contains("no .stderr"));
    assert!(verdict(control, None, missing).unwrap().contains("must compile"));
}
