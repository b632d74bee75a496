//! Every byte of every file of a bundle, changed: none of them makes a bundle that still holds.

use std::sync::atomic::{AtomicUsize, Ordering};

use wicketgate::domain::decision::Verdict;
use wicketgate::evidence::bundle::{CONTROLS, Files, GUIDE, PAGE, SCHEMA};
use wicketgate::evidence::verify::{verify, verify_files};
use wicketgate::record::Kind;

use crate::bundle::*;
use crate::forged::{TestLedger, key, run_id};

/// A whole and valid bundle that is small enough to change every byte of: one refused call.
fn small() -> Files {
    let mut ledger = TestLedger::new(1, key(ENROLMENT));
    ledger.open(run_id(1));
    ledger.decide(run_id(1), "c1", Kind::CallDenied, Verdict::Deny);
    ledger.seal(run_id(1));
    export_of(&ledger, run_id(1), &[])
}

/// How a byte at this place is changed: another way from place to place, never none.
fn flip(at: usize) -> u8 {
    match at % 11 {
        bit @ 0..=7 => 1 << bit,
        8 => 0x20,
        9 => 0xff,
        _ => 0x7f,
    }
}

/// Every byte of what carries evidence; of the two files that are only made from the others, and are long,
/// every seventeenth, and of the two that are the same in every bundle, and longer still, every 401st: all bits of all
/// kinds of places, in minutes less.
fn step(name: &str) -> usize {
    match name {
        PAGE | CONTROLS => 17,
        GUIDE | SCHEMA => 401,
        _ => 1,
    }
}

#[test]
fn no_byte_of_any_file_at_any_place_can_be_changed() {
    let good = small();
    let whole = verify_files(&good, &trust());
    assert_eq!(whole.exit_code(), 0, "{}", whole.to_text());
    let places: Vec<(&String, usize)> = good
        .0
        .iter()
        .flat_map(|(name, bytes)| (0..bytes.len()).step_by(step(name)).map(move |at| (name, at)))
        .collect();
    assert!(places.len() > 8_000, "{}", places.len());
    let next = AtomicUsize::new(0);
    let trust = trust();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((name, at)) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut files = good.clone();
                    files.0.get_mut(*name).unwrap()[*at] ^= flip(*at);
                    let report = verify_files(&files, &trust);
                    let word = report.word();
                    assert_eq!(word, "INVALID", "`{name}` at {at}:\n{}", report.to_text());
                }
            });
        }
    });
}

#[test]
fn no_byte_of_any_name_can_be_changed_and_a_directory_is_held_to_the_same() {
    let good = small();
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().join("bundle");
    wicketgate::evidence::written::write(&good, &top).unwrap();
    assert_eq!(verify(&top, &trust()).word(), "VALID");
    for (name, bytes) in &good.0 {
        let path = top.join(name);
        // First, middle and last byte on the disk; every byte in memory is the other test's.
        for at in [0, bytes.len() / 2, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] ^= flip(at);
            std::fs::write(&path, changed).unwrap();
            assert_eq!(verify(&top, &trust()).word(), "INVALID", "`{name}` at {at}");
        }
        std::fs::write(&path, bytes).unwrap();
        for at in 0..name.len() {
            let mut other = name.clone().into_bytes();
            other[at] = if other[at] == b'x' { b'y' } else { b'x' };
            let mut files = good.clone();
            let bytes = files.0.remove(name).unwrap();
            files.put(String::from_utf8(other).unwrap(), bytes);
            let report = verify_files(&files, &trust());
            assert_eq!(
                report.word(),
                "INVALID",
                "`{name}`, its name at {at}:\n{}",
                report.to_text()
            );
        }
    }
    assert_eq!(verify(&top, &trust()).word(), "VALID");
}
