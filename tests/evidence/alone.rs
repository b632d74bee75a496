//! Proofs that stand on their own (M-04), and older heads that a bundle's own entries prove.

use std::collections::BTreeSet;

use wicketgate::crypto::merkle::root;
use wicketgate::crypto::tlog_proof::TlogProof;
use wicketgate::domain::digest::Digest;
use wicketgate::evidence::bundle::*;
use wicketgate::evidence::query::{Filter, Query};
use wicketgate::evidence::scope::Span;
use wicketgate::evidence::trust::{PinnedHead, Trust};
use wicketgate::evidence::verify::{Outcome, verify_files};

use crate::bundle::*;
use crate::forged::{ORIGIN, TestLedger, TestLedgers, key, run_id};

/// Numbers of the proofs in a folder.
fn alone(files: &Files, folder: &str) -> BTreeSet<u64> {
    let names = files.0.keys().filter_map(|name| name.strip_prefix(&format!("{folder}/")));
    names.filter_map(|name| name.strip_suffix(ALONE)).map(|seq| seq.parse().unwrap()).collect()
}

fn exported(reader: &dyn wicketgate::ledger::store::LedgerReader, query: &Query) -> Files {
    let dir = tempfile::tempdir().unwrap();
    let exported = ask(reader, query, &[], &dir, &FleetDrafts::default()).unwrap();
    Files::read(&exported.dir).unwrap()
}

fn range(from: u64, to: u64) -> Query {
    Query::Range { log: ORIGIN.into(), span: Span { from, to } }
}

#[test]
fn both_ends_and_every_decision_of_a_run_have_a_proof_that_needs_nothing_else() {
    let ledger = two_runs();
    let files = export_of(&ledger, run_id(1), &[]);
    let mut wanted = BTreeSet::from([5, 11]);
    for line in lines(&files) {
        let entry = wicketgate::record::Entry::parse(&line).unwrap();
        let kind = entry.draft.kind().as_str();
        if ["call.authorized", "call.denied", "call.held"].contains(&kind) {
            wanted.insert(entry.seq);
        }
    }
    assert!(wanted.len() > 3);
    assert_eq!(alone(&files, "ledger"), wanted);
    for seq in wanted {
        let text = files.get(&alone_file("ledger", seq)).unwrap();
        let proof = TlogProof::parse(std::str::from_utf8(text).unwrap()).unwrap();
        assert_eq!((proof.index, &proof.extra), (seq, &None));
        let row = &ledger.rows[seq as usize];
        assert!(proof.includes(&row.leaf) && !proof.includes(&Digest::of(&[b"other"])));
        assert_eq!(proof.note, ledger.row().head.checkpoint);
    }
    let report = verify_files(&files, &trust());
    let Some(Outcome::Valid(said)) = report.outcome("E2") else { panic!("{}", report.to_text()) };
    assert!(said.contains("with a proof that stands on its own"), "{said}");
}

#[test]
fn of_a_span_and_of_each_chain_of_a_population_the_ends_have_one() {
    assert_eq!(alone(&exported(&two_runs(), &range(7, 15)), "ledger"), BTreeSet::from([7, 14]));
    assert_eq!(alone(&exported(&two_runs(), &range(7, 8)), "ledger"), BTreeSet::from([7]));
    let mut fleet = TestLedger::bare("wicketgate.dev/default/fleet", 3, key(ENROLMENT));
    fleet.beat();
    let files =
        exported(&TestLedgers(vec![two_runs(), fleet]), &Query::Population(Filter::default()));
    let last = two_runs().rows.len() as u64 - 1;
    assert_eq!(alone(&files, "chains/0"), BTreeSet::from([0, last]));
    assert_eq!(alone(&files, "fleet"), BTreeSet::new());
    // A time in which nothing was written has no ends.
    let since = wicketgate::domain::time::Timestamp::from_millis(two_runs().now().millis() + 1000);
    let filter = Filter { since: Some(since), ..Filter::default() };
    let files = exported(&two_runs(), &Query::Population(filter));
    assert_eq!(alone(&files, "chains/0"), BTreeSet::new());
    assert_eq!(verify_files(&files, &trust()).failed(), Vec::<&str>::new());
}

/// M-04: an insider who signs the list of files again.
#[test]
fn a_standalone_proof_that_was_edited_exchanged_dropped_or_added_is_refused() {
    let name = alone_file("ledger", 5);
    let text = |f: &Files| String::from_utf8(f.get(&name).unwrap().to_vec()).unwrap();
    let edit = |from: &str, to: &str| caught(&insider(|f| replace(f, &name, from, to)), "E2");
    edit("\nindex 5\n", "\nindex 6\n");
    edit("\nindex 5\n", "\nindex 05\n");
    edit("@v1\n", "@v2\n");
    edit("@v1\n", "@v1\nextra AAAA\n");
    caught(&insider(|f| f.put(&*name, format!("{}\u{2014} x AAAAAAAA\n", text(f)))), "E2");
    caught(&insider(|f| f.put(&*name, &b"\xff"[..])), "E2");
    // A hash of the path less, and one exchanged.
    let path = |change: fn(&mut Vec<Digest>)| {
        let report = insider(|f| {
            let mut proof = TlogProof::parse(&text(f)).unwrap();
            change(&mut proof.path);
            f.put(&*name, proof.to_text());
        });
        caught(&report, "E2");
    };
    path(|path| path.truncate(path.len() - 1));
    path(|path| path[0] = Digest::of(&[b"other"]));
    path(|path| path.push(Digest::of(&[b"other"])));
    // Of another entry, under an older head of the same log, under another log's.
    let good = export_of(&two_runs(), run_id(1), &[]);
    let other = good.get(&alone_file("ledger", 11)).unwrap().to_vec();
    caught(&insider(|f| f.put(&*name, other.clone())), "E2");
    let mut grown = two_runs();
    grown.beat();
    let later = export_of(&grown, run_id(1), &[]);
    caught(&insider(|f| f.put(&*name, later.get(&name).unwrap())), "E2");
    // Missing, and one more than there should be, however true.
    caught(&insider(|f| drop(f.0.remove(&name))), "E2");
    let prover = wicketgate::crypto::merkle::Prover::new(
        two_runs().rows.iter().map(|row| row.leaf).collect(),
    );
    let more = TlogProof {
        extra: None,
        index: 0,
        path: prover.inclusion_proof(0).unwrap(),
        note: two_runs().row().head.checkpoint,
    };
    assert!(more.includes(&two_runs().rows[0].leaf));
    caught(&insider(|f| f.put(alone_file("ledger", 0), more.to_text())), "E2");
    caught(&insider(|f| f.put(format!("ledger/x{ALONE}"), more.to_text())), "E2");
}

fn head(ledger: &TestLedger, size: usize) -> PinnedHead {
    let leaves: Vec<Digest> = ledger.rows[..size].iter().map(|row| row.leaf).collect();
    PinnedHead { origin: ORIGIN.into(), size: size as u64, root: root(&leaves) }
}

#[test]
fn entries_that_are_all_here_from_the_first_on_prove_every_head_there_was() {
    let ledger = two_runs();
    let size = ledger.rows.len();
    let files = exported(&ledger, &range(0, size as u64 - 2));
    for old in 1..=size - 2 {
        let pinned = Trust { heads: vec![head(&ledger, old)], ..trust() };
        let report = verify_files(&files, &pinned);
        assert_eq!(
            (report.exit_code(), report.level()),
            (0, Some(2)),
            "{old}: {}",
            report.to_text()
        );
        let forged = PinnedHead { root: Digest::of(&[b"forged"]), ..head(&ledger, old) };
        caught(&verify_files(&files, &Trust { heads: vec![forged], ..trust() }), "H2");
    }
    // A head beyond the span needs a proof as before, and one of a span that begins later, too.
    let pinned = |old| Trust { heads: vec![head(&ledger, old)], ..trust() };
    for (files, old) in [(files, size - 1), (exported(&ledger, &range(8, 15)), 9)] {
        let report = verify_files(&files, &pinned(old));
        let told = report.outcome("H2");
        assert!(matches!(told, Some(Outcome::Unverifiable(_))), "{}", report.to_text());
    }
    // Of a run the entries before it are those that introduce it: here the first two are among them.
    let report = verify_files(&export_of(&ledger, run_id(1), &[]), &pinned(2));
    assert_eq!((report.exit_code(), report.level()), (0, Some(2)), "{}", report.to_text());
}

#[test]
fn entries_that_are_not_proven_to_be_in_the_log_prove_no_older_head() {
    let ledger = two_runs();
    let size = ledger.rows.len();
    let mut files = exported(&ledger, &range(0, size as u64));
    // Another root is signed for nothing: the proof of the span does not lead to it.
    replace(&mut files, RANGE, r#""left":[]"#, &format!(r#""left":["{}"]"#, "0".repeat(64)));
    resign(&mut files, &key(EVIDENCE));
    let report = verify_files(&files, &Trust { heads: vec![head(&ledger, 9)], ..trust() });
    caught(&report, "R1");
    assert!(matches!(report.outcome("H2"), Some(Outcome::Unverifiable(_))), "{}", report.to_text());
}
