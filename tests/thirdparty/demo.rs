//! One play of the quickstart for all tests, and copies of its bundle to do things to.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;
use wicketgate::crypto::dsse;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::domain::json::{Json, Limits};
use wicketgate::evidence::bundle::{ENVELOPE, Files, MANIFEST};
use wicketgate::evidence::statement::{PAYLOAD_TYPE, statement};
use wicketgate::evidence::written;
use wicketgate_support::program;

/// The directory `demo` of one play: keys, state, the auditor's trust file, the evidence.
pub fn demo() -> &'static Path {
    static PLAYED: OnceLock<TempDir> = OnceLock::new();
    let dir = PLAYED.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let mut play = Command::new(program::gate());
        play.args(["quickstart", "--dir", "demo"]).current_dir(dir.path()).env_clear();
        play.env("HOME", dir.path()).env("TMPDIR", dir.path()).stdin(Stdio::null());
        let done = play.output().unwrap();
        assert!(done.status.success(), "{}", said(&done));
        dir
    });
    // A path without links: what is compared by name below it is named once.
    static DEMO: OnceLock<PathBuf> = OnceLock::new();
    DEMO.get_or_init(|| dir.path().join("demo").canonicalize().unwrap())
}

/// Calls of the play: one less where no sandbox keeps its command.
pub fn calls() -> usize {
    let config = std::fs::read_to_string(demo().join("wicketgate.yaml")).unwrap();
    if config.contains("kind: command") { 7 } else { 6 }
}

/// What the guide says of the run: a call has a decision and an end.
pub fn sealed() -> String {
    format!("is sealed, {} entries, {} calls", 4 + 2 * calls(), calls())
}

pub fn said(done: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&done.stdout), text(&done.stderr))
}

/// The files of the quickstart's bundle.
pub fn bundle() -> Files {
    Files::read(&demo().join("evidence")).unwrap()
}

/// The evidence key: what an insider has.
pub fn evidence_key() -> SecretKey {
    SecretKey::load(&demo().join("keys/evidence.pem")).unwrap()
}

/// Signs the list of files again.
pub fn resign(files: &mut Files) {
    resign_with(files, &evidence_key());
}

pub fn resign_with(files: &mut Files, key: &SecretKey) {
    let old = Json::parse(files.get(MANIFEST).unwrap(), &Limits::FILE).unwrap();
    let manifest = statement(files, old.get("predicate").unwrap().clone());
    files.put(ENVELOPE, dsse::sign(PAYLOAD_TYPE, &manifest, &[key]));
    files.put(MANIFEST, manifest);
}

/// A directory with these files, and room beside it.
pub fn written(files: &Files) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bundle");
    written::write(files, &path).unwrap();
    (dir, path)
}

/// Replaces text in a file; the text has to be there.
pub fn replace(files: &mut Files, name: &str, from: &str, to: &str) {
    let text = String::from_utf8(files.get(name).unwrap().to_vec()).unwrap();
    assert!(text.contains(from), "`{name}` has no `{from}`");
    files.put(name, text.replacen(from, to, 1));
}

/// The head the quickstart's auditor noted before the run: the log, its size, its root.
fn noted() -> [String; 3] {
    let trust = std::fs::read_to_string(demo().join("auditor/trust.txt")).unwrap();
    let line = trust.lines().find(|line| line.starts_with("head ") && line.contains("/local-"));
    let words: Vec<&str> = line.unwrap().split(' ').collect();
    [words[1], words[2], words[3]].map(str::to_owned)
}

/// That head as VERIFY.md wants it.
pub fn noted_head() -> String {
    let [_, size, root] = noted();
    format!("ledger {size} {root}")
}

/// The name of the quickstart's log.
pub fn origin() -> String {
    let [log, ..] = noted();
    log
}

/// The keys of the witnesses the auditor knows, as VERIFY.md wants them.
pub fn witnesses() -> String {
    let text = |name: &str| std::fs::read_to_string(demo().join("auditor").join(name));
    let told = ["trust.txt", "keys.txt"].map(|name| text(name).unwrap_or_default()).concat();
    let keys: std::collections::BTreeSet<&str> =
        told.lines().filter_map(|line| line.strip_prefix("witness-key ")).collect();
    assert!(!keys.is_empty(), "{told}");
    keys.into_iter().collect::<Vec<_>>().join(" ")
}

/// Python with the pinned packages, if it is there (`tests/run` sees to that).
pub fn python() -> Option<PathBuf> {
    let python = std::env::var_os("WICKETGATE_TEST_EVIDENCE");
    if python.is_none() {
        eprintln!("not asked: WICKETGATE_TEST_EVIDENCE is not set; tests/run sets it");
    }
    python.map(PathBuf::from)
}
