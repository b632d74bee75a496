//! Bundles of a range and of a population: that nothing is left out of them, and that it shows if it is.

use crate::forged::Draft;
use async_trait::async_trait;
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use wicketgate::domain::decision::Verdict;
use wicketgate::domain::json::Json;
use wicketgate::domain::time::Timestamp;
use wicketgate::evidence::bundle::*;
use wicketgate::evidence::export::Recorder;
use wicketgate::evidence::population::population;
use wicketgate::evidence::query::{Filter, Query};
use wicketgate::evidence::scope::Span;
use wicketgate::evidence::trust::Trust;
use wicketgate::evidence::verify::{Outcome, Report, verify_files};
use wicketgate::ledger::store::LedgerReader;
use wicketgate::record::Kind;

use crate::bundle::*;
use crate::forged::{ORIGIN, TestLedger, TestLedgers, json, key, run_id};

const OTHER: &str = "wicketgate.dev/default/local/1/0";
const FLEET: &str = "wicketgate.dev/default/fleet";

pub(crate) fn bundle(reader: &dyn LedgerReader, query: &Query) -> Files {
    let dir = tempfile::tempdir().unwrap();
    let exported = ask(reader, query, &[], &dir, &FleetDrafts::default()).unwrap();
    Files::read(&exported.dir).unwrap()
}

fn range(from: u64, to: u64) -> Query {
    Query::Range { log: ORIGIN.into(), span: Span { from, to } }
}

fn all() -> Query {
    Query::Population(Filter::default())
}

/// Two chains with two runs each, and a fleet log that enrolled them.
pub(crate) fn library() -> TestLedgers {
    let mut second = TestLedger::named(OTHER, 2, key(ENROLMENT));
    second.whole_run(run_id(3));
    second.whole_run(run_id(4));
    let mut fleet = TestLedger::bare(FLEET, 3, key(ENROLMENT));
    for (ledger, log) in [(&two_runs(), ORIGIN), (&second, OTHER)] {
        enrol(&mut fleet, ledger, log);
    }
    TestLedgers(vec![two_runs(), second, fleet])
}

fn enrol(fleet: &mut TestLedger, ledger: &TestLedger, log: &str) {
    let chain = ledger.chain;
    let data = format!(
        r#"{{"log":"{log}","chain":"{chain}","slot":"local/0","enrolment_key":"{}="}}"#,
        "A".repeat(43)
    );
    fleet.add(Draft::of(Kind::ChainEnrolled, json(&data)));
}

fn fine(report: &Report) {
    assert_eq!(report.exit_code(), 0, "{}", report.to_text());
    assert_eq!(report.level(), Some(1), "{}", report.to_text());
}

fn seen(report: &Report, id: &str) -> String {
    match report.outcome(id) {
        Some(Outcome::Valid(seen)) => seen.clone(),
        other => panic!("{id}: {other:?}\n{}", report.to_text()),
    }
}

/// The bundle after this change, signed again by the real evidence key.
fn resigned(mut files: Files, change: impl FnOnce(&mut Files)) -> Report {
    change(&mut files);
    resign(&mut files, &key(EVIDENCE));
    verify_files(&files, &trust())
}

fn drop_line(files: &mut Files, name: &str, seq: u64) {
    let text = String::from_utf8(files.get(name).unwrap().to_vec()).unwrap();
    let mark = format!(r#""seq":{seq},"#);
    let kept: String =
        text.lines().filter(|l| !l.contains(&mark)).map(|l| format!("{l}\n")).collect();
    assert_ne!(kept, text);
    files.put(name, kept);
}

#[test]
fn a_range_of_whole_runs_holds_in_every_check_and_is_proven_whole() {
    let ledger = two_runs();
    let size = ledger.rows.len() as u64;
    let report = verify_files(&bundle(&ledger, &range(0, size)), &trust());
    fine(&report);
    assert!(seen(&report, "R1").contains(&format!("0..{size} of {ORIGIN}: {size} entries")));
    assert!(seen(&report, "S4").starts_with("2 complete"), "{}", report.to_text());
    assert!(seen(&report, "C2").contains("7 ms"), "{}", report.to_text());
}

#[test]
fn runs_cut_by_the_ends_of_a_range_are_reported_as_cut_and_not_as_complete() {
    let ledger = two_runs();
    // The first run is entries 5..12, the second 12..19.
    let files = bundle(&ledger, &range(8, 15));
    let report = verify_files(&files, &trust());
    fine(&report);
    let said = seen(&report, "S4");
    assert_eq!(said, "0 complete; not complete: 0 open, 2 cut by the ends");
    assert!(report.not_proven.iter().any(|item| item.contains("2 runs cut by its ends")));
    let runs: serde_json::Value = serde_json::from_slice(files.get(AGENT_RUN).unwrap()).unwrap();
    assert_eq!(runs["runs"][0]["status"], "cut");
    assert_eq!(runs["runs"][0]["cut"], serde_json::json!(["begin"]));
    assert_eq!(runs["runs"][1]["cut"], serde_json::json!(["end"]));
    assert_eq!(runs["runs"][1]["opening"]["agent"], "reviewer");
    for name in [DECISION, TOOL_TRACE] {
        let json: serde_json::Value = serde_json::from_slice(files.get(name).unwrap()).unwrap();
        assert_eq!(json["runs"].as_array().unwrap().len(), 2, "{name}");
    }
}

#[test]
fn a_range_says_which_payloads_it_withholds() {
    let report = verify_files(&bundle(&two_runs(), &range(5, 12)), &trust());
    assert_eq!(seen(&report, "P1"), "0 of 7 opened");
    assert!(report.not_proven.iter().any(|item| item.contains("7 payloads: they are withheld")));
}

#[test]
fn an_entry_left_out_of_a_range_added_or_moved_is_noticed() {
    let good = bundle(&two_runs(), &range(5, 19));
    for seq in [5, 9, 18] {
        caught(&resigned(good.clone(), |f| drop_line(f, ENTRIES, seq)), "R1");
    }
    // An entry beside the range is no part of it.
    caught(&resigned(good.clone(), |f| replace(f, RANGE, r#""from":5"#, r#""from":6"#)), "R1");
    caught(&resigned(good.clone(), |f| replace(f, RANGE, r#""to":19"#, r#""to":18"#)), "R1");
    caught(&resigned(good.clone(), |f| drop(f.0.remove(RANGE))), "E2");
    caught(&resigned(good, |f| replace(f, ENTRIES, r#""us":1200"#, r#""us":1201"#)), "R1");
}

#[test]
fn a_range_that_is_not_the_one_the_statement_names_is_refused() {
    let report = resigned(bundle(&two_runs(), &range(5, 12)), |f| {
        replace(f, MANIFEST, r#""to":12"#, r#""to":19"#);
    });
    caught(&report, "B4");
    let shorter = bundle(&two_runs(), &range(5, 12));
    let report = resigned(bundle(&two_runs(), &range(5, 19)), |f| {
        for name in [ENTRIES, RANGE, INCLUSION] {
            f.put(name, shorter.get(name).unwrap());
        }
    });
    caught(&report, "B4");
}

#[test]
fn a_range_beyond_its_log_or_of_no_log_is_refused_with_a_reason() {
    let refused = |query: &Query| {
        let dir = tempfile::tempdir().unwrap();
        ask(&two_runs(), query, &[], &dir, &FleetDrafts::default()).unwrap_err().to_string()
    };
    assert!(refused(&range(90, 99)).contains("is no span of it"));
    let nowhere = Query::Range { log: "nowhere".into(), span: Span { from: 0, to: 1 } };
    assert!(refused(&nowhere).contains("no log `nowhere`"));
    let mut pruned = two_runs();
    pruned.rows.drain(5..9);
    let dir = tempfile::tempdir().unwrap();
    let error = ask(&pruned, &range(3, 12), &[], &dir, &FleetDrafts::default()).unwrap_err();
    assert!(error.to_string().contains("entries 5..9 of"), "{error}");
    let error =
        ask(&pruned, &Query::Run(run_id(1)), &[], &dir, &FleetDrafts::default()).unwrap_err();
    assert!(error.to_string().contains("pruned"), "{error}");
}

#[test]
fn a_population_is_every_entry_of_every_chain_that_the_fleet_log_enrolled() {
    let files = bundle(&library(), &all());
    let report = verify_files(&files, &trust());
    fine(&report);
    assert!(seen(&report, "R2").starts_with("2 chains"), "{}", report.to_text());
    let told: serde_json::Value = serde_json::from_slice(files.get(POPULATION).unwrap()).unwrap();
    assert_eq!(told["totals"]["runs"], 4);
    assert_eq!(told["totals"]["matched"], 12);
    assert_eq!(told["chains"][0]["origin"], ORIGIN);
    assert_eq!(told["chains"][1]["heartbeats"]["declared_ms"], 10_000);
    // Nobody told these auditors a fleet key: any fleet log could have been put here.
    assert!(report.not_proven.iter().any(|item| item.contains("all chains of the tenant")));
}

#[test]
fn a_population_tells_how_often_the_gate_tested_itself_and_how_often_that_failed() {
    let mut library = library();
    for (found, passed) in
        [("tool.not_granted", true), ("allow", false), ("tool.not_granted", true)]
    {
        library.0[1].add(Draft::of(
            Kind::EnforcementTested,
            json(&format!(
                r#"{{"probe":"canary","expected":"tool.not_granted","found":"{found}","passed":{passed}}}"#
            )),
        ));
    }
    for passed in [true, false] {
        let found = u64::from(!passed);
        library.0[1].add(Draft::of(
            Kind::PostureObserved,
            json(&format!(
                r#"{{"observer":"agent","agent":"a","auth":{{"method":"uds","uid":1500}},"nonce":"{}","doctor":"d","isolation":"enforced","passed":{passed},"blocked":1,"open":{found},"unknown":0,"missing":[],"probes":[]}}"#,
                "0a".repeat(16)
            )),
        ));
    }
    let files = bundle(&library, &all());
    let report = verify_files(&files, &trust());
    fine(&report);
    assert!(report.not_proven.iter().any(|item| item.contains("no way past the gate")));
    let told: serde_json::Value = serde_json::from_slice(files.get(POPULATION).unwrap()).unwrap();
    assert_eq!(told["totals"]["postures"], 2);
    assert_eq!(told["chains"][1]["postures"]["failed"], 1);
    assert_eq!(told["totals"]["enforcement_tests"], 3);
    assert_eq!(told["totals"]["enforcement_tests_failed"], 1);
    assert_eq!(told["chains"][0]["enforcement_tests"], serde_json::Value::Null);
    assert_eq!(told["chains"][1]["enforcement_tests"]["count"], 3);
    assert_eq!(told["chains"][1]["enforcement_tests"]["failed"], 1);
    assert!(told["chains"][1]["enforcement_tests"]["last"].as_str().unwrap().ends_with('Z'));
    let page = String::from_utf8(files.get("report.html").unwrap().to_vec()).unwrap();
    assert!(page.contains("tests of its own enforcement: 3, failed 1, last "));
    let lied = |f: &mut Files| replace(f, POPULATION, r#""failed":1"#, r#""failed":0"#);
    caught(&resigned(files, lied), "R2");
}

#[test]
fn without_a_fleet_log_it_is_not_proven_that_all_chains_are_included() {
    let mut library = library();
    library.0.pop();
    let report = verify_files(&bundle(&library, &all()), &trust());
    fine(&report);
    assert!(report.not_proven.iter().any(|item| item.contains("all chains of the tenant")));
}

#[test]
fn a_chain_left_out_of_a_population_is_missed() {
    // By an outsider: its folder is gone.
    let gone = |f: &mut Files| f.0.retain(|name, _| !name.starts_with("chains/1/"));
    caught(&resigned(bundle(&library(), &all()), gone), "R2");
    // By an insider who exports without it and makes everything else fit.
    let mut library = library();
    library.0.remove(1);
    caught(&verify_files(&bundle(&library, &all()), &trust()), "R2");
}

#[test]
fn a_count_that_an_insider_changed_and_signed_is_refused() {
    let good = bundle(&library(), &all());
    for (from, to) in [
        (r#""matched":12"#, r#""matched":11"#),
        (r#""runs":4"#, r#""runs":3"#),
        (r#""longest_gap_ms":7"#, r#""longest_gap_ms":6"#),
    ] {
        caught(&resigned(good.clone(), |f| replace(f, POPULATION, from, to)), "R2");
    }
    caught(&resigned(good, |f| replace(f, MANIFEST, r#""runs":4"#, r#""runs":3"#)), "B4");
}

#[test]
fn what_a_query_picks_is_recomputed_and_a_decision_left_out_is_noticed() {
    let query = Query::Population(Filter { verdict: Some(Verdict::Deny), ..Filter::default() });
    let files = bundle(&library(), &query);
    fine(&verify_files(&files, &trust()));
    let told: serde_json::Value = serde_json::from_slice(files.get(POPULATION).unwrap()).unwrap();
    assert_eq!(told["chains"][0]["matched"], serde_json::json!([8, 15]));
    caught(
        &resigned(files, |f| replace(f, POPULATION, r#""matched":[8,15]"#, r#""matched":[8]"#)),
        "R2",
    );
    let nobody = Query::Population(Filter { agent: Some("nobody".into()), ..Filter::default() });
    let files = bundle(&library(), &nobody);
    fine(&verify_files(&files, &trust()));
    let told: serde_json::Value = serde_json::from_slice(files.get(POPULATION).unwrap()).unwrap();
    assert_eq!(told["totals"]["matched"], 0);
}

#[test]
fn a_population_of_a_time_begins_and_ends_where_that_time_does() {
    let mut first = two_runs();
    first.pause(60_000);
    let since = Timestamp::from_millis(first.now().millis());
    first.whole_run(run_id(5));
    let until = Timestamp::from_millis(first.now().millis() + 1);
    first.whole_run(run_id(6));
    let library = TestLedgers(vec![first]);
    let query =
        Query::Population(Filter { since: Some(since), until: Some(until), ..Filter::default() });
    let files = bundle(&library, &query);
    let report = verify_files(&files, &trust());
    assert_eq!(report.failed(), Vec::<&str>::new(), "{}", report.to_text());
    let told: serde_json::Value = serde_json::from_slice(files.get(POPULATION).unwrap()).unwrap();
    assert_eq!((&told["totals"]["runs"], &told["totals"]["entries"]), (&1.into(), &7.into()));
    // An insider moves the begin by one entry and makes everything else fit.
    let (from, to) =
        (told["chains"][0]["from"].as_u64().unwrap(), told["chains"][0]["to"].as_u64().unwrap());
    for span in [Span { from: from + 1, to }, Span { from, to: to - 1 }] {
        let narrow = bundle(&library, &Query::Range { log: ORIGIN.into(), span });
        let report = resigned(files.clone(), |f| {
            for name in [LINES, RANGE_PROOF, PATHS] {
                f.put(format!("chains/0/{name}"), narrow.get(&format!("ledger/{name}")).unwrap());
            }
        });
        caught(&report, "R2");
    }
}

#[test]
fn an_unexplained_pause_is_unverifiable_and_an_explained_one_is_accepted() {
    let mut silent = two_runs();
    silent.pause(3_600_000);
    silent.beat();
    let report = verify_files(&bundle(&TestLedgers(vec![silent]), &all()), &trust());
    assert_eq!(report.exit_code(), 2, "{}", report.to_text());
    let Some(Outcome::Unverifiable(why)) = report.outcome("C2") else { panic!() };
    assert!(why.contains("1 pause that nothing explains") && why.contains("3600007 ms"), "{why}");
    let mut stopped = two_runs();
    stopped.add(Draft::of(Kind::WriterStopped, json(r#"{"reason":"stopped"}"#)));
    stopped.pause(3_600_000);
    stopped.start(2, key(21));
    stopped.beat();
    let files = bundle(&TestLedgers(vec![stopped]), &all());
    let report = verify_files(&files, &trust());
    fine(&report);
    assert!(report.not_proven.iter().any(|item| item.contains("1 pause in which no writer ran")));
    let told: serde_json::Value = serde_json::from_slice(files.get(POPULATION).unwrap()).unwrap();
    assert_eq!(told["chains"][0]["gaps"][0]["cause"], "stopped");
}

#[test]
fn population_json_is_a_function_of_entries_and_query_alone() {
    let filter = Filter::default();
    assert_eq!(population(&filter, &[]), population(&filter, &[]));
    let (one, two) = (bundle(&library(), &all()), bundle(&library(), &all()));
    assert_eq!(one.get(POPULATION), two.get(POPULATION));
}

#[test]
fn no_byte_of_a_population_can_be_changed() {
    let good = bundle(&library(), &all());
    for (name, bytes) in &good.0 {
        for at in (0..bytes.len()).step_by(bytes.len() / 4 + 1) {
            let mut files = good.clone();
            files.0.get_mut(name).unwrap()[at] ^= 1;
            let report = verify_files(&files, &trust());
            assert_eq!(report.exit_code(), 1, "byte {at} of {name}");
        }
    }
}

#[test]
fn an_export_is_recorded_with_its_scope_its_requester_and_its_manifest_digest() {
    let noted = FleetDrafts::default();
    let dir = tempfile::tempdir().unwrap();
    let exported = ask(&two_runs(), &range(5, 12), &[], &dir, &noted).unwrap();
    let drafts = noted.0.lock();
    let [draft] = drafts.as_slice() else { panic!("{drafts:?}") };
    assert_eq!(draft.kind, Kind::EvidenceExported);
    let text = |name| draft.data.get(name).and_then(Json::as_str).unwrap();
    assert_eq!((text("scope"), text("requester")), ("range", "uid:7"));
    assert_eq!(text("manifest"), exported.manifest.hex());
    let manifest = std::fs::read(exported.dir.join(MANIFEST)).unwrap();
    assert_eq!(wicketgate::domain::digest::Digest::of(&[&manifest]), exported.manifest);
}

/// A recorder after which the world ends: the caller never hears of it again.
struct Last(Mutex<Vec<wicketgate::record::Draft>>);

#[async_trait]
impl Recorder for Last {
    async fn record(
        &self,
        draft: wicketgate::record::Draft,
    ) -> Result<(), wicketgate::ledger::Error> {
        self.0.lock().push(draft);
        std::future::pending().await
    }
}

#[test]
fn a_kill_between_record_and_write_leaves_the_record_and_no_bundle() {
    let last = Last(Mutex::default());
    let dir = tempfile::tempdir().unwrap();
    {
        let artifacts = artifacts(&dir);
        let order = order(&two_runs(), &all(), &[], (&dir, &artifacts), &last, |order| {
            wicketgate::evidence::export::export(order).now_or_never().is_none()
        });
        assert!(order, "the export went on");
    }
    assert_eq!(last.0.lock().len(), 1);
    assert!(!dir.path().join("bundle").exists());
}

#[test]
fn an_export_that_cannot_be_recorded_is_not_written() {
    struct Refusing;
    #[async_trait]
    impl Recorder for Refusing {
        async fn record(
            &self,
            _: wicketgate::record::Draft,
        ) -> Result<(), wicketgate::ledger::Error> {
            Err(wicketgate::ledger::Error::Unavailable("the disk is full".into()))
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let error = ask(&two_runs(), &all(), &[], &dir, &Refusing).unwrap_err().to_string();
    assert!(error.contains("nothing was written") && error.contains("the disk is full"), "{error}");
    assert!(!dir.path().join("bundle").exists());
}

#[test]
fn a_bundle_about_a_range_is_no_bundle_about_a_run() {
    let wanted = Trust { run: Some(run_id(1)), ..trust() };
    let report = verify_files(&bundle(&two_runs(), &range(5, 12)), &wanted);
    assert_ne!(report.exit_code(), 0, "{}", report.to_text());
}
