//! The small program and `wicketgate evidence verify`: one function, so one word for one bundle.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::{large, output, small, text};

/// What the quickstart leaves: a real bundle, a tampered copy, and an auditor's trust file.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        text(Command::new(large()).arg("quickstart").arg("--dir").arg(dir.path().join("q")));
        Self(dir)
    }

    pub fn top(&self) -> PathBuf {
        self.0.path().join("q")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Exit code, standard output and standard error of both programs with these arguments.
    fn both(&self, args: &[&str]) -> [(Option<i32>, String, String); 2] {
        let mut commands = [Command::new(small()), Command::new(large())];
        commands[1].args(["evidence", "verify"]);
        commands.map(|mut command| {
            let done = output(command.args(args).current_dir(self.top()));
            let text = |bytes| String::from_utf8(bytes).unwrap();
            (done.status.code(), text(done.stdout), text(done.stderr))
        })
    }
}

#[test]
fn it_checks_prints_and_ends_as_the_large_program_does() {
    let folder = Folder::new();
    let trust = ["--trust", "auditor/trust.txt"];
    std::fs::write(folder.top().join("nobody.txt"), "# trusts nobody\n").unwrap();
    std::fs::write(folder.top().join("wrong.txt"), "evidnce-key x\n").unwrap();
    for (args, code, word) in [
        (vec!["evidence"], 0, "VALID, level"),
        (vec!["--json", "evidence"], 0, r#""outcome":"VALID""#),
        (vec!["--replay", "evidence"], 0, " decisions reproduced with the same result"),
        (vec!["--level", "4", "evidence"], 2, "VALID, level"),
        (vec!["evidence-tampered"], 1, "INVALID, level none"),
        (vec!["--json", "evidence-tampered"], 1, r#""outcome":"INVALID""#),
        (vec!["--run", "00000000-0000-4000-8000-000000000000", "evidence"], 1, "INVALID"),
    ] {
        let args: Vec<&str> = trust.iter().chain(&args).copied().collect();
        let [ours, theirs] = folder.both(&args);
        assert_eq!(ours, theirs, "{args:?}");
        assert_eq!(ours.0, Some(code), "{args:?}: {}{}", ours.1, ours.2);
        assert!(ours.1.contains(word), "{args:?}: {}", ours.1);
    }
    for (args, code) in [
        (vec!["--trust", "nobody.txt", "evidence"], 2),
        (vec!["--trust", "wrong.txt", "evidence"], 64),
        (vec!["--trust", "nowhere.txt", "evidence"], 64),
        (vec!["--trust", "auditor/trust.txt", "nowhere"], 64),
    ] {
        let [ours, theirs] = folder.both(&args);
        assert_eq!(ours, theirs, "{args:?}");
        assert_eq!(ours.0, Some(code), "{args:?}: {}{}", ours.1, ours.2);
    }
    // Nothing to verify, and nothing to trust: the words of the two programs name themselves.
    for args in [vec![], vec!["evidence"], vec!["--trust", "auditor/trust.txt", "a", "b"]] {
        let [ours, theirs] = folder.both(&args);
        assert_eq!((ours.0, theirs.0), (Some(64), Some(64)), "{args:?}");
    }
}

#[test]
fn no_two_payloads_of_a_real_run_share_a_salt() {
    let folder = Folder::new();
    let index = std::fs::read(folder.top().join("evidence/payloads/index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
    let index = index.as_object().unwrap();
    let salts: BTreeSet<&str> =
        index.values().filter_map(|payload| payload["salt"].as_str()).collect();
    assert!(index.len() >= 10 && salts.len() == index.len(), "{index:?}");
    assert!(salts.iter().all(|salt| salt.len() == 64), "{salts:?}");
}

#[test]
fn its_help_names_the_same_options() {
    let options = |mut command: Command| {
        let help = text(command.arg("--help"));
        let options = help.split("Options:").nth(1).unwrap();
        let lines = options.lines().take_while(|line| !line.starts_with("Exit codes"));
        lines.filter(|line| line.contains("--")).map(str::trim).map(str::to_owned).collect()
    };
    let mut theirs = Command::new(large());
    theirs.args(["evidence", "verify"]);
    let (ours, theirs): (Vec<String>, Vec<String>) =
        (options(Command::new(small())), options(theirs));
    assert!(ours.iter().any(|line| line.contains("--replay")), "{ours:?}");
    let named = |lines: &[String], wanted: &String| {
        let flag = wanted.split("--").nth(1).unwrap_or_default().split(' ').next().unwrap();
        lines.iter().any(|line| line.contains(&format!("--{flag}")))
    };
    assert!(theirs.iter().all(|line| named(&ours, line)), "{ours:?}\n{theirs:?}");
}

#[test]
fn both_print_the_guide_and_need_no_bundle_for_it() {
    let guide = text(Command::new(small()).arg("guide"));
    assert_eq!(text(Command::new(large()).args(["evidence", "guide"])), guide);
    assert_eq!(guide, wicketgate::evidence::guide::GUIDE);
    // Beside the options of a verification it is a mistake.
    let both = output(Command::new(small()).args(["guide", "--trust", "x"]));
    assert_eq!(both.status.code(), Some(64));
}
