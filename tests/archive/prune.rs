//! Pruning: only what an archive holds, old enough and held by nobody; what is left still proves itself.

use crate::json_entry::body;
use std::path::Path;

use wicketgate::crypto::keys::SecretKey;
use wicketgate::domain::json::{Json, Limits};
use wicketgate::record::{Draft, Kind};

use crate::forged::{self, ORIGIN, TestLedger, json, key, run_id};
use crate::holds::{lifted, placed};
use crate::ledgers::{
    ENROLMENT, FLEET, Ledger, Report as _, State, chain, run, trust, verify, words,
};
use crate::tiles::{archive, check};
use wicketgate_support::ran::Ran;

/// 90 runs of a year ago, one of them open at the end.
fn old() -> State {
    let mut ledger = TestLedger::new(1, key(ENROLMENT));
    // No text of PostgreSQL has U+0000, and an entry may.
    ledger.add(forged::Draft::of(
        Kind::HealthChanged,
        json(r#"{"ready":false,"reasons":["\u0000"]}"#),
    ));
    (1..=90).for_each(|run| ledger.whole_run(run_id(run)));
    ledger.open(run_id(91));
    let mut state = State::of(&ledger);
    state.age(1000);
    state
}

pub fn pem(dir: &Path, name: &str, key: &SecretKey) -> String {
    let path = dir.join(name);
    if !path.exists() {
        key.store(&path).unwrap();
    }
    path.display().to_string()
}

pub fn prune(ledger: &Ledger, more: &[&str]) -> Ran {
    let dir = ledger.dir();
    let (fleet, enrolment) =
        (pem(dir, "fleet.pem", &key(FLEET)), pem(dir, "enrol.pem", &key(ENROLMENT)));
    let out = dir.join("archive").display().to_string();
    let fixed = [
        "prune",
        "--chain",
        ORIGIN,
        "--archive",
        &out,
        "--by",
        "alice",
        "--fleet-key",
        &fleet,
        "--enrolment-key",
        &enrolment,
    ];
    let mut args = [words(&fixed), words(more)].concat();
    match ledger {
        Ledger::Sqlite(_) => args.extend(ledger.named()),
        Ledger::Postgres(db, dir) => {
            // One login that reads and records, and one that may drop.
            let (writer, eraser) = (dir.path().join("writer.url"), dir.path().join("eraser.url"));
            std::fs::write(&writer, db.admin_url.clone()).unwrap();
            std::fs::write(&eraser, db.admin_url.clone()).unwrap();
            args.extend(["--postgres-url-file".into(), writer.display().to_string()]);
            args.extend(["--eraser-url-file".into(), eraser.display().to_string()]);
        }
    }
    run(&args)
}

pub async fn made(ledger: &Ledger) -> State {
    let state = old();
    ledger.append(&state, None).await;
    // A fleet log, as every real ledger has one.
    ledger.record(vec![]).await;
    state
}

async fn a_pruned_ledger_verifies_proves_and_keeps_no_payload(ledger: Ledger) {
    if let Ledger::Postgres(..) = ledger {
        // The administrator of the test plays writer, reader and eraser.
        let sql = "INSERT INTO ledger.writer_tenant VALUES ('postgres', 'default');
                   INSERT INTO ledger.reader_tenant VALUES ('postgres', NULL)";
        ledger.owner("", sql).await;
    }
    let state = made(&ledger).await;
    let out = ledger.dir().join("archive");
    // One of the checkpoints below the end is on the fleet log.
    let anchored = state.checkpoints[3].0;
    let data = format!(
        r#"{{"log":"{ORIGIN}","chain":"{}","size":{anchored},"root":"{}","epoch":1}}"#,
        chain(),
        state.root(anchored as usize).hex()
    );
    let data = Json::parse(data.as_bytes(), &Limits::FILE).unwrap();
    ledger.record(vec![Draft::of(body(Kind::ChainCheckpoint, &data))]).await;
    let early = prune(&ledger, &["--below", "600"]);
    assert_eq!(early.code, 2, "without an archive: {}{}", early.out, early.err);
    assert_eq!(archive(&ledger, &out).code, 0);
    let said = prune(&ledger, &["--below", "600", "--dry-run"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    assert_eq!(verify(&ledger, "").log(ORIGIN).get("pruned_below"), None);

    let said = prune(&ledger, &["--below", "600"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("the first is now 512"), "{}", said.out);
    let said = verify(&ledger, "");
    let log = said.log(ORIGIN);
    assert_eq!(
        (said.code, log.get("pruned_below").and_then(Json::as_u64)),
        (0, Some(512)),
        "{}{}",
        said.out,
        said.err
    );
    assert_eq!(
        log.get("root").and_then(Json::as_str),
        Some(state.root(state.size()).hex().as_str())
    );
    // Of the checkpoints over what is gone, the one that others may hold is left; those after it are all.
    let left: Vec<u64> = state
        .checkpoints
        .iter()
        .map(|(size, _)| *size)
        .filter(|size| *size > 512 || *size == anchored)
        .collect();
    assert!(left.len() + 3 < state.checkpoints.len(), "{left:?}");
    assert_eq!(ledger.checkpoints().await, left);
    // Proofs of what is left, and from before the pruning, against heads noted earlier.
    let pin = |size: usize| format!("head {ORIGIN} {size} {}\n", state.root(size).hex());
    for size in [512, 520, state.size()] {
        let said = verify(&ledger, &pin(size));
        assert_eq!(said.code, 0, "{size}: {}{}", said.out, said.err);
    }
    let forged = format!("head {ORIGIN} 520 {}\n", "0".repeat(64));
    assert_eq!(verify(&ledger, &forged).damage().unwrap().0, "fork");
    // The archive goes on from where it was, and holds everything.
    let again = archive(&ledger, &out);
    assert_eq!(again.code, 0, "{}", again.err);
    assert_eq!(check(ledger.dir(), &out, &pin(state.size())).code, 0);
    // Nothing is left to prune, and saying so again does nothing.
    assert_eq!(prune(&ledger, &["--below", "600"]).code, 1);
}

#[tokio::test]
async fn a_pruned_sqlite_ledger_verifies_and_proves() {
    a_pruned_ledger_verifies_proves_and_keeps_no_payload(Ledger::sqlite()).await;
}

#[tokio::test]
async fn a_pruned_postgres_ledger_verifies_and_proves() {
    a_pruned_ledger_verifies_proves_and_keeps_no_payload(Ledger::postgres().await).await;
}

#[tokio::test]
async fn a_hold_stops_a_pruning_that_was_recorded_and_interrupted() {
    let ledger = Ledger::sqlite();
    let state = made(&ledger).await;
    let out = ledger.dir().join("archive");
    assert_eq!(archive(&ledger, &out).code, 0);
    // The power goes when the first row is deleted.
    let cut =
        "CREATE TRIGGER cut BEFORE DELETE ON stored_entry BEGIN SELECT RAISE(ABORT, 'power'); END";
    ledger.owner(cut, "").await;
    assert_ne!(prune(&ledger, &["--below", "600"]).code, 0);
    let run = run_id(3);
    ledger.record(vec![placed(Some(&run))]).await;
    ledger.owner("DROP TRIGGER cut", "").await;
    let said = prune(&ledger, &["--below", "600"]);
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    assert!(said.err.contains("is under legal hold"), "{}", said.err);
    let entries = |said: Ran| said.log(ORIGIN).get("entries").and_then(Json::as_u64);
    assert_eq!(entries(verify(&ledger, "")), Some(state.size() as u64));
    ledger.record(vec![lifted(Some(&run))]).await;
    let said = prune(&ledger, &["--below", "600"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
}

#[tokio::test]
async fn what_may_not_go_stays() {
    let ledger = Ledger::sqlite();
    let state = made(&ledger).await;
    let out = ledger.dir().join("archive");
    assert_eq!(archive(&ledger, &out).code, 0);
    let refused = |more: &[&str], why: &str, code: i32| {
        let said = prune(&ledger, more);
        assert!(said.err.contains(why), "{more:?}: {}{}", said.out, said.err);
        assert_eq!(said.code, code, "{more:?}");
    };
    refused(
        &["--below", "600", "--keep-days", "30"],
        "headers must be kept for at least 183 days",
        64,
    );
    refused(
        &["--below", "600", "--keep-days", "2000"],
        "no full tile of 256 entries is old enough",
        1,
    );
    refused(&["--below", "255"], "no full tile of 256 entries is old enough", 1);
    refused(&["--before", "2001-01-01"], "no full tile of 256 entries is old enough", 1);
    refused(&["--before", "yesterday"], "is not a date", 64);
    ledger.record(vec![placed(None)]).await;
    refused(&["--below", "600"], "the chain is under legal hold", 1);
    let run = run_id(3);
    ledger.record(vec![lifted(None), placed(Some(&run))]).await;
    refused(&["--below", "600"], "is under legal hold", 1);
    ledger.record(vec![lifted(Some(&run))]).await;
    // The archive has to be whole where it matters.
    let bundle = out.join(chain().to_string()).join("tile/entries/001");
    let bytes = std::fs::read(&bundle).unwrap();
    let mut flipped = bytes.clone();
    flipped[100] ^= 1;
    std::fs::write(&bundle, &flipped).unwrap();
    refused(&["--below", "600"], "the archive: `tile/entries/001` is there with other bytes", 1);
    std::fs::write(&bundle, bytes).unwrap();
    // Rows go only where the fleet log says so, whoever asks.
    let deleted = std::panic::AssertUnwindSafe(
        ledger.owner("DELETE FROM stored_entry WHERE id & 1099511627775 = 300", ""),
    );
    let deleted = futures_util::FutureExt::catch_unwind(deleted).await;
    assert!(deleted.is_err(), "the trigger let a row go");
    assert_eq!(
        verify(&ledger, "").log(ORIGIN).get("entries").and_then(Json::as_u64),
        Some(state.size() as u64)
    );
    let trust = trust(ledger.dir(), "");
    assert!(Path::new(&trust).exists());
    assert_eq!(prune(&ledger, &["--below", "600"]).code, 0);
}
