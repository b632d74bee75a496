//! The rest of the tamper families of ledger.md §4, and the table that says which test holds which.

use std::collections::BTreeSet;
use std::path::Path;

use crate::forged::Draft;
use wicketgate::domain::decision::Verdict;
use wicketgate::domain::id::CallId;
use wicketgate::evidence::trust::{PinnedHead, Trust};
use wicketgate::evidence::verify::{Outcome, verify_files};
use wicketgate::record::Kind;

use crate::bundle::*;
use crate::forged::{TestLedger, json, key, run_id};

#[test]
fn a_log_restored_from_a_backup_is_smaller_than_the_head_that_was_noted() {
    // C-03: the night's entries are lost, and the log went on in another way.
    let mut lost = two_runs();
    (0..5).for_each(|_| lost.beat());
    let mut restored = two_runs();
    restored.whole_run(run_id(3));
    let noted = pin(&lost);
    let pinned = Trust { heads: vec![noted.clone()], ..trust() };
    let smaller = export_of(&two_runs(), run_id(1), &[]);
    caught(&verify_files(&smaller, &pinned), "H2");
    // Grown beyond the noted size: no proof leads from a head that is no beginning.
    assert!(restored.rows.len() as u64 > noted.size);
    let files = export_of(&restored, run_id(3), &[noted.size]);
    caught(&verify_files(&files, &pinned), "H2");
}

#[test]
fn a_noted_head_of_a_forked_history_is_not_extended() {
    // C-04: of the same size as the head in the bundle, and smaller.
    let (mut ours, mut theirs) = (two_runs(), two_runs());
    theirs.whole_run(run_id(4));
    ours.whole_run(run_id(5));
    assert_eq!(ours.rows.len(), theirs.rows.len());
    let pinned = Trust { heads: vec![pin(&theirs)], ..trust() };
    caught(&verify_files(&export_of(&ours, run_id(1), &[]), &pinned), "H2");
    let noted = pin(&theirs);
    ours.beat();
    caught(&verify_files(&export_of(&ours, run_id(1), &[noted.size]), &pinned), "H2");
    // The same bundle under a head of its own history holds.
    let own = PinnedHead { root: pin(&two_runs()).root, ..pin(&two_runs()) };
    let honest = Trust { heads: vec![own.clone()], ..trust() };
    let report = verify_files(&export_of(&ours, run_id(1), &[own.size]), &honest);
    assert_eq!((report.exit_code(), report.level()), (0, Some(2)), "{}", report.to_text());
}

/// A held call that runs after something this build cannot read.
fn approved(kind: Option<&str>) -> TestLedger {
    let mut ledger = TestLedger::new(1, key(ENROLMENT));
    ledger.open(run_id(1));
    ledger.decide(run_id(1), "c1", Kind::CallHeld, Verdict::RequireApproval);
    if let Some(kind) = kind {
        let mut approval = Draft::of(Kind::Heartbeat, json(r#"{"by":"alice"}"#));
        approval.run = Some(run_id(1));
        approval.call = CallId::parse("c1");
        ledger.add_unknown(approval, kind);
    }
    ledger.allow(run_id(1), "c1");
    ledger.complete(run_id(1), "c1");
    ledger.seal(run_id(1));
    ledger
}

#[test]
fn an_approval_this_build_cannot_read_is_unverifiable_and_none_at_all_is_invalid() {
    // What this build does with approvals of a later one: it says that it does not know.
    for kind in ["approval.delegated", "approval.something"] {
        let report = verify_files(&export_of(&approved(Some(kind)), run_id(1), &[]), &trust());
        assert_eq!(
            (report.exit_code(), report.word()),
            (2, "UNVERIFIABLE"),
            "{}",
            report.to_text()
        );
        let Some(Outcome::Unverifiable(why)) = report.outcome("E1") else {
            panic!("{}", report.to_text())
        };
        assert!(why.contains(kind), "{why}");
    }
    caught(&verify_files(&export_of(&approved(None), run_id(1), &[]), &trust()), "S5");
}

#[test]
fn limit_2_what_happened_outside_the_gate_is_not_detected_and_the_report_says_so() {
    // Somebody used a tool without the gate: nothing about it is anywhere in these ledger.
    let report = verify_files(&export_of(&two_runs(), run_id(1), &[]), &trust());
    assert_eq!(report.exit_code(), 0, "not detected, as documented: {}", report.to_text());
    let said = |item: &String| item.starts_with("that nothing happened outside the gate");
    assert!(report.not_proven.iter().any(said), "{}", report.to_text());
}

/// The rows that the design names.
fn wanted() -> BTreeSet<String> {
    let families = [
        ("B", 13),
        ("E", 14),
        ("M", 4),
        ("C", 9),
        ("X", 2),
        ("K", 12),
        ("P", 4),
        ("D", 12),
        ("R", 8),
        ("G", 6),
        ("W", 5),
        ("F", 7),
    ];
    let rows = families.iter().flat_map(|(f, n)| (1..=*n).map(move |i| format!("{f}-{i:02}")));
    rows.chain(["LIMIT-1".to_owned(), "LIMIT-2".to_owned()]).collect()
}

/// Rows for which there is no test of the thing itself; the table says why.
const NOT_HELD: [&str; 2] = ["R-07", "F-07"];

#[test]
fn every_row_of_the_table_names_tests_that_exist() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = std::fs::read_to_string(top.join("tests/evidence/README.md")).unwrap();
    let mut seen = BTreeSet::new();
    for line in table.lines().filter(|line| line.starts_with("| ") && line.contains('-')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [id, what, held] = cells[..] else { panic!("three cells: {line}") };
        if !wanted().contains(id) {
            assert!(id.starts_with("--") || id == "row", "no such row: {line}");
            continue;
        }
        assert!(seen.insert(id.to_owned()), "twice: {id}");
        assert!(!what.is_empty(), "{line}");
        let open = held.starts_with("not held");
        assert_eq!(open, NOT_HELD.contains(&id), "{line}");
        let names: Vec<&str> =
            held.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect();
        assert!(open || !names.is_empty(), "{id} names no test");
        for name in names {
            let (path, function) = name.split_once("::").unwrap();
            let source = std::fs::read_to_string(top.join(path))
                .unwrap_or_else(|e| panic!("{id}: `{path}`: {e}"));
            let forms = [format!("fn {function}("), format!("    {function}: ")];
            let listed = source.lines().any(|l| l.trim().trim_end_matches(',') == function);
            let there = forms.iter().any(|form| source.contains(form)) || listed;
            assert!(there, "{id}: `{path}` has no `{function}`");
        }
    }
    let missing: Vec<_> = wanted().difference(&seen).cloned().collect();
    assert!(missing.is_empty(), "{missing:?}");
}
