//! `deploy/release.py`: what a release is made of, and that it is the same each time.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::top;
use wicketgate_support::program;

/// What the schema of CycloneDX has against a file.
const VALIDATE: &str = "import pathlib, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
print(JsonStrictValidator(SchemaVersion.V1_5).validate_str(pathlib.Path(sys.argv[1]).read_text()))";

fn pack(programs: &Path, out: &Path) -> Output {
    let python = std::env::var("WICKETGATE_TEST_DEPLOY").unwrap_or_else(|_| "python3".to_owned());
    Command::new(python)
        .arg("-B")
        .arg(top("deploy/release.py"))
        .args([programs, out])
        .env("CARGO", env!("CARGO"))
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .output()
        .unwrap()
}

fn text(done: Output) -> String {
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn a_release_is_the_same_bytes_each_time_and_its_sums_and_bill_of_materials_hold() {
    let dir = tempfile::tempdir().unwrap();
    let programs = dir.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    // What is packed, not how it was built, is asked here: small programs that pass the question on.
    for (name, program) in [("wicketgate", program::gate()), ("wicketgate-verify", "/bin/false")] {
        let path = programs.join(name);
        std::fs::write(&path, format!("#!/bin/sh\nexec {program} \"$@\"\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
    let sums = text(pack(&programs, &one));
    assert_eq!(sums, text(pack(&programs, &two)));
    let check = Command::new("sha256sum").args(["-c", "SHA256SUMS"]).current_dir(&one).output();
    assert_eq!(text(check.unwrap()).matches(": OK").count(), 2);

    let names: Vec<_> = sums.lines().map(|line| line.split("  ").nth(1).unwrap()).collect();
    let archive = one.join(names.iter().find(|name| name.ends_with(".tar.gz")).unwrap());
    let listed = text(Command::new("tar").arg("-tvzf").arg(archive).output().unwrap());
    for (folder, least) in [("man/man1/wicketgate", 90), ("completions/", 6), ("docs/", 30)] {
        assert!(listed.matches(&format!("/{folder}")).count() >= least, "{folder}: {listed}");
    }
    let folders = ["/man/man1/", "/completions/", "/docs/"];
    let others = |line: &&str| !folders.iter().any(|folder| line.contains(folder));
    assert_eq!(listed.lines().filter(others).count(), 9, "{listed}");
    assert!(listed.lines().all(|line| line.contains(" 0/0 ")), "{listed}");

    let bom = one.join(names.iter().find(|name| name.ends_with(".cdx.json")).unwrap());
    let valid = Command::new(std::env::var("WICKETGATE_TEST_DEPLOY").unwrap())
        .args(["-c", VALIDATE])
        .arg(&bom)
        .output();
    assert_eq!(text(valid.unwrap()), "None\n");
    let bom: Value = serde_json::from_slice(&std::fs::read(bom).unwrap()).unwrap();
    assert_eq!((&bom["bomFormat"], &bom["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let components = bom["components"].as_array().unwrap();
    let shown: BTreeSet<_> = components
        .iter()
        .map(|one| format!("{} {}", one["name"], one["version"]).replace('"', ""))
        .collect();
    // Cargo says itself what is linked.
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--edges", "normal", "--prefix", "none"])
        .args(["--format", "{p}"])
        .current_dir(top("."))
        .output()
        .unwrap();
    let linked = |line: &str| {
        let mut words = line.split_whitespace();
        Some(format!("{} {}", words.next()?, words.next()?.trim_start_matches('v')))
    };
    let tree = text(tree);
    let linked: BTreeSet<_> =
        tree.lines().filter_map(linked).filter(|line| !line.starts_with("wicketgate ")).collect();
    assert!(linked.len() > 100, "{linked:?}");
    let missing: Vec<_> = linked.difference(&shown).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // The crates of the workspace are in the source, not in a registry.
    let ours = |one: &&Value| one["name"].as_str().is_some_and(|n| n.starts_with("wicketgate-"));
    let unsummed: Vec<_> =
        components.iter().filter(|one| one["hashes"].is_null() && !ours(one)).collect();
    assert!(unsummed.is_empty(), "{unsummed:?}");
}
