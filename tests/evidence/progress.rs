//! What somebody sees who waits for the verification of a long bundle.

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wicketgate::evidence::progress::LONG_BYTES;
use wicketgate::evidence::query::Query;
use wicketgate::evidence::scope::Span;

use crate::bundle::*;
use crate::forged::{ORIGIN, TAR, TestLedger, key, run_id};
use wicketgate_support::program;

/// Runs a command with a terminal for its standard error, and says code, output and error.
const AT_A_TERMINAL: &str = r#"
import json, os, pty, subprocess, sys, threading
ours, theirs = pty.openpty()
done = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs)
os.close(theirs)
seen = []
def read():
    try:
        while chunk := os.read(ours, 65536): seen.append(chunk)
    except OSError: pass  # the other end is closed
reader = threading.Thread(target=read); reader.start()
out = done.stdout.read(); code = done.wait(); reader.join()
print(json.dumps([code, out.decode(), b"".join(seen).decode()]))
"#;

/// A bundle in this directory, and the trust file beside it.
fn made(dir: &tempfile::TempDir, runs: u8) {
    let mut ledger = TestLedger::new(1, key(ENROLMENT));
    (1..=runs).for_each(|run| ledger.whole_run(run_id(run)));
    let to = ledger.rows.len() as u64;
    let query = Query::Range { log: ORIGIN.into(), span: Span { from: 0, to } };
    ask(&ledger, &query, &[], dir, &FleetDrafts::default()).unwrap();
    let raw = |n: u8| STANDARD.encode(key(n).public().to_bytes());
    let (evidence, enrolment, signer) = (raw(EVIDENCE), raw(ENROLMENT), raw(SIGNER));
    let policy = wicketgate::domain::digest::Digest::of(&[TAR]).prefixed();
    let trust = format!(
        "evidence-key ed25519:{evidence}\nenrolment-key ed25519:{enrolment}\n\
         manifest-key ed25519:{signer}\npolicy {policy}\n"
    );
    std::fs::write(dir.path().join("trust.txt"), trust).unwrap();
}

fn verify(more: &[&str]) -> Vec<String> {
    let program = program::gate();
    let fixed = [program, "evidence", "verify", "--trust", "trust.txt", "bundle"];
    fixed.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

/// Exit code, output and what the terminal got.
fn at_a_terminal(dir: &Path, more: &[&str], env: &[(&str, &str)]) -> (i32, String, String) {
    let done = Command::new("python3")
        .args(["-c", AT_A_TERMINAL])
        .args(verify(more))
        .current_dir(dir)
        .envs(env.iter().copied())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn a_long_verification_shows_its_progress_only_on_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    made(&dir, 200);
    let bytes = std::fs::metadata(dir.path().join("bundle/ledger/entries.jsonl")).unwrap().len();
    assert!(bytes as usize > LONG_BYTES / 2, "{bytes}");
    let words = verify(&[]);
    let piped = Command::new(&words[0]).args(&words[1..]).current_dir(dir.path()).output().unwrap();
    assert_eq!(String::from_utf8(piped.stderr).unwrap(), "", "no terminal is there");
    let piped = String::from_utf8(piped.stdout).unwrap();
    for env in [&[][..], &[("NO_COLOR", "1")], &[("TERM", "dumb")]] {
        let (code, out, seen) = at_a_terminal(dir.path(), &[], env);
        assert_eq!((code, &out), (0, &piped), "the report is the same");
        let steps: Vec<&str> = seen.split('\r').filter(|part| part.contains("checking")).collect();
        assert!(steps.len() >= 6, "{seen:?}");
        assert!(steps[0].starts_with("checking 1 of 8: the list of files ("), "{seen:?}");
        assert!(steps[steps.len() - 1].starts_with("checking 8 of 8: "), "{seen:?}");
        // One line, written over in place: no colour and no other command to the terminal.
        assert!(!seen.contains('\u{1b}') && !seen.contains('\n'), "{seen:?}");
        let last = seen.trim_end_matches('\r').rsplit('\r').next().unwrap();
        assert!(last.trim().is_empty(), "the line is still there: {seen:?}");
    }
    let (code, out, seen) = at_a_terminal(dir.path(), &["--json"], &[]);
    assert_eq!((code, seen.as_str()), (0, ""), "a program reads this");
    assert!(out.starts_with('{'));
}

#[test]
fn a_short_verification_tells_nothing_but_its_report_and_what_to_do_next() {
    let dir = tempfile::tempdir().unwrap();
    made(&dir, 2);
    let (code, out, seen) = at_a_terminal(dir.path(), &[], &[]);
    assert_eq!((code, seen.as_str()), (0, ""), "{out}");
    // What is no bundle is told as before.
    std::fs::write(dir.path().join("bundle/stray"), "x").unwrap();
    let (code, _, seen) = at_a_terminal(dir.path(), &[], &[]);
    // Nothing of a progress line: only what to do next.
    assert!(code == 1 && seen.starts_with("next: ") && !seen.trim_end().contains('\r'), "{seen:?}");
}
