//! Whole chains: what `ledger verify` reads, and the damage it names.

use crate::forged::Entry;
use futures_util::FutureExt as _;
use wicketgate::domain::decision::Verdict;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::CallId;
use wicketgate::domain::json::{Json, Limits};
use wicketgate::ledger::verify::{ChainReport, chain_of};
use wicketgate::record::Kind;

use crate::bundle::{ENROLMENT, two_runs};
use crate::forged::{TestLedger, key, run_id};

fn read(ledger: &TestLedger) -> ChainReport {
    let row = ledger.row();
    let trusted = [key(ENROLMENT).public()];
    chain_of(ledger, &row, &trusted, &|_| {}).now_or_never().unwrap().unwrap()
}

fn damaged(ledger: &TestLedger, seq: u64, check: &str) {
    let report = read(ledger);
    let (at, damage) = report.damage.unwrap();
    assert_eq!((at, damage.check), (seq, check), "{damage}");
}

#[test]
fn a_chain_written_by_the_rules_is_whole() {
    let report = read(&two_runs());
    assert!(report.whole(), "{:?}", report.damage);
    assert_eq!((report.sealed, report.open, report.enrolled), (2, 0, Some(true)));
    assert_eq!(report.entries, two_runs().rows.len() as u64);
}

#[test]
fn more_than_a_page_of_entries_is_read_to_the_end() {
    let mut ledger = two_runs();
    for _ in 0..2100 {
        ledger.beat();
    }
    assert!(read(&ledger).whole());
    ledger.rows[2000].body.push(b' ');
    damaged(&ledger, 2000, "E1");
}

#[test]
fn the_first_bad_entry_and_the_kind_of_damage_are_named() {
    let change = |seq: u64, check: &str, change: &dyn Fn(&mut TestLedger)| {
        let mut ledger = two_runs();
        change(&mut ledger);
        damaged(&ledger, seq, check);
    };
    change(7, "S2", &|b| drop(b.rows.remove(7)));
    change(7, "D1", &|b| b.rows[7].kind = "call.denied".into());
    change(7, "D1", &|b| b.rows[7].run = Some(run_id(2)));
    change(7, "D1", &|b| b.rows[7].call = CallId::parse("c9"));
    change(7, "D2", &|b| b.rows[7].leaf = Digest::of(&[b"x"]));
    change(7, "D1", &|b| b.rows[7].prev = Digest::of(&[b"x"]));
    // An edit whose hash was repaired breaks the link of the next entry.
    change(8, "S2", &|b| {
        let text = String::from_utf8(b.rows[7].body.clone()).unwrap();
        b.rows[7].body = text.replace(r#""us":1200"#, r#""us":1201"#).into_bytes();
        b.rows[7].leaf = Entry::leaf(&b.rows[7].body);
    });
}

#[test]
fn a_head_that_is_not_of_the_entries_is_named() {
    let good = two_runs();
    let trusted = [key(ENROLMENT).public()];
    let with = |change: &dyn Fn(&mut wicketgate::ledger::store::HeadRow)| {
        let mut row = good.row();
        change(&mut row.head);
        let report = chain_of(&good, &row, &trusted, &|_| {}).now_or_never().unwrap().unwrap();
        report.damage.unwrap().1.check
    };
    assert_eq!(with(&|h| h.size += 1), "S2");
    assert_eq!(with(&|h| h.hash = Digest::of(&[b"x"])), "D2");
    assert_eq!(with(&|h| h.frontier[3] ^= 1), "D2");
    assert_eq!(with(&|h| h.checkpoint = good.checkpoint(5, &good.writer)), "H1");
    assert_eq!(with(&|h| h.checkpoint = good.checkpoint(good.rows.len(), &key(78))), "H1");
}

#[test]
fn enrolment_is_refused_under_an_untrusted_key_and_undecided_without_one() {
    let ledger = two_runs();
    let row = ledger.row();
    let with =
        |trusted: &[_]| chain_of(&ledger, &row, trusted, &|_| {}).now_or_never().unwrap().unwrap();
    assert!(!with(&[key(90).public()]).whole());
    assert_eq!(with(&[]).enrolled, None);
}

#[test]
fn runs_and_calls_are_held_to_their_rules_across_the_whole_chain() {
    let mut ledger = two_runs();
    ledger.allow(run_id(1), "late");
    let last = ledger.rows.len() as u64 - 1;
    damaged(&ledger, last, "S4");
    let mut ledger = two_runs();
    ledger.open(run_id(3));
    ledger.decide(run_id(3), "c1", Kind::CallDenied, Verdict::Deny);
    ledger.complete(run_id(3), "c1");
    let last = ledger.rows.len() as u64 - 1;
    damaged(&ledger, last, "S5");
    let mut ledger = two_runs();
    ledger.open(run_id(3));
    ledger.allow(run_id(3), "c1");
    let report = read(&ledger);
    assert!(report.whole());
    assert_eq!((report.open, report.open_calls), (1, 1));
}

#[test]
fn an_epoch_begins_with_a_writer_the_enrolment_key_certified() {
    let mut ledger = two_runs();
    ledger.epoch = 2;
    ledger.beat();
    let last = ledger.rows.len() as u64 - 1;
    damaged(&ledger, last, "S1");
    let mut ledger = two_runs();
    ledger.enrolment = key(91);
    ledger.start(2, key(22));
    let last = ledger.rows.len() as u64 - 1;
    damaged(&ledger, last, "S1");
}

#[test]
fn a_kind_of_a_later_version_is_linked_and_counted_but_not_understood() {
    let mut good = two_runs();
    let at = good.rows.len() - 1;
    let text = String::from_utf8(good.rows[at].body.clone()).unwrap();
    let body = text.replace(r#""kind":"heartbeat""#, r#""kind":"weather.changed""#).into_bytes();
    assert!(Json::parse(&body, &Limits::ENTRY).is_ok());
    good.rows[at].leaf = Entry::leaf(&body);
    good.rows[at].kind = "weather.changed".into();
    good.rows[at].body = body;
    let mut frontier = wicketgate::crypto::merkle::Frontier::default();
    good.rows.iter().for_each(|row| frontier.push(row.leaf));
    good.frontier = frontier;
    let report = read(&good);
    assert!(report.whole(), "{:?}", report.damage);
    assert_eq!(report.unknown.get("weather.changed"), Some(&1));
}
