//! What the program writes about its own command line, in the shells and the formatter it is for.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use wicketgate_support::program;

fn ran(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).stdin(std::process::Stdio::null()).output().unwrap()
}

fn said(done: Output) -> String {
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// The commands that `wicketgate --help` lists.
fn commands() -> BTreeSet<String> {
    let help = said(ran(program::gate(), &["--help"]));
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let lines = list.lines().take_while(|line| !line.is_empty());
    let found: BTreeSet<_> =
        lines.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect();
    assert!(found.len() > 12 && found.contains("serve"), "{found:?}");
    found
}

/// What bash offers after these words, the last of which is not finished.
fn completed(scripts: &Path, words: &[&str]) -> BTreeSet<String> {
    let ask = r#"source "$1"; shift
        registered=$(complete -p "$1"); [[ $registered =~ \ -F\ ([^\ ]+) ]]
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        "${BASH_REMATCH[1]}" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let script = scripts.join(format!("{}.bash", words[0]));
    let done = Command::new("bash")
        .args(["--norc", "-euc", ask, "bash", script.to_str().unwrap()])
        .args(words)
        .output()
        .unwrap();
    said(done).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_every_command_and_its_options_and_offers_nothing_that_is_hidden() {
    let dir = tempfile::tempdir().unwrap();
    said(ran(program::gate(), &["completions", "bash", "--out", dir.path().to_str().unwrap()]));
    let offered = completed(dir.path(), &["wicketgate", ""]);
    let named: BTreeSet<_> = offered.into_iter().filter(|word| !word.starts_with('-')).collect();
    assert_eq!(named, commands());
    let verify = completed(dir.path(), &["wicketgate", "ledger", "ver"]);
    assert_eq!(verify, BTreeSet::from(["verify".to_owned()]));
    let level = completed(dir.path(), &["wicketgate-verify", "--le"]);
    assert_eq!(level, BTreeSet::from(["--level".to_owned()]));
}

#[test]
fn each_shell_gets_a_script_of_each_program_under_the_name_it_looks_for() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("new/completions");
    for (shell, names) in [
        ("bash", ["wicketgate.bash", "wicketgate-verify.bash"]),
        ("zsh", ["_wicketgate", "_wicketgate-verify"]),
        ("fish", ["wicketgate.fish", "wicketgate-verify.fish"]),
    ] {
        said(ran(program::gate(), &["completions", shell, "--out", out.to_str().unwrap()]));
        let written = names.map(|name| std::fs::read_to_string(out.join(name)).unwrap());
        assert_eq!(said(ran(program::gate(), &["completions", shell])), written[0]);
        assert!(written[0].contains("break-glass") && written[1].contains("level"), "{shell}");
    }
    assert_eq!(ran(program::gate(), &["completions", "cmd.exe"]).status.code(), Some(64));
    // A file where the directory should be.
    let taken = out.join("_wicketgate/below");
    let done = ran(program::gate(), &["completions", "bash", "--out", taken.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&done.stderr).contains("below"), "{done:?}");
}

/// A page as a terminal shows it, one word after the other; whatever the formatter has against it is an error.
fn formatted(page: &Path) -> String {
    let done =
        ran("groff", &["-man", "-Tutf8", "-ww", "-rLL=200n", "-P-cbou", page.to_str().unwrap()]);
    assert!(done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    said(done).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn there_is_a_page_for_each_command_that_groff_takes_without_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man1");
    said(ran(program::gate(), &["man", "--out", pages.to_str().unwrap()]));
    let names: BTreeSet<_> = std::fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.len() > 90, "{names:?}");
    let shown = formatted(&pages.join("wicketgate.1"));
    for command in commands() {
        assert!(shown.contains(&format!("wicketgate-{command}(1)")), "{command}: {shown}");
        assert!(names.contains(&format!("wicketgate-{command}.1")), "{command}: {names:?}");
    }
    for name in &names {
        let shown = formatted(&pages.join(name));
        assert!(shown.contains("SYNOPSIS") && shown.contains("wicketgate 0."), "{name}: {shown}");
    }
    let verify = formatted(&pages.join("wicketgate-verify.1"));
    assert!(verify.contains("--level") && verify.contains("2 unverifiable"), "{verify}");
    let first = std::fs::read_to_string(pages.join("wicketgate.1")).unwrap();
    assert_eq!(said(ran(program::gate(), &["man"])), first);
}
