//! Reading: a whole chain verified, proofs and one run's export from a large ledger.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use wicketgate::clock::SystemEntropy;
use wicketgate::crypto::dsse;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::crypto::merkle;
use wicketgate::crypto::note::Checkpoint;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::json::{Json, Limits};
use wicketgate::evidence::artifacts::Artifacts;
use wicketgate::ledger::proofs::Prover;
use wicketgate::ledger::sqlite::{SqliteReader, SqliteStore};
use wicketgate::ledger::store::LedgerReader as _;
use wicketgate::ledger::verify::chain_of;

use crate::Plan;
use crate::write;
use wicketgate_support::bench::load::{number, short};
use wicketgate_support::bench::table::{Row, Table, Target};
use wicketgate_support::forged::{TAR, TestLedger, YAML, key, run_id};
use wicketgate_support::program;

/// Entries per second and core that are aimed at.
const VERIFIED: f64 = 150_000.0;

/// How often something is done in the time of one measurement, on this thread alone.
fn repeat(each: Duration, mut once: impl FnMut()) -> f64 {
    let (started, mut times) = (Instant::now(), 0_u32);
    while started.elapsed() < each || times == 0 {
        once();
        times += 1;
    }
    started.elapsed().as_secs_f64() / f64::from(times)
}

/// Entries per second and core, beside hashing and reading the same bytes.
pub fn verify(plan: &Plan, table: &mut Table) {
    let mut ledger = TestLedger::new(1, key(31));
    for n in 1..=200 {
        ledger.whole_run(run_id(n));
    }
    let row = ledger.row();
    let trusted = [key(31).public()];
    let count = ledger.rows.len() as f64;
    let whole = repeat(plan.each, || {
        let report = chain_of(&ledger, &row, &trusted, &|_| ()).now_or_never().unwrap().unwrap();
        assert!(report.whole(), "{:?}", report.damage);
    });
    let bare = repeat(plan.each, || {
        for row in &ledger.rows {
            std::hint::black_box(merkle::leaf_hash(&row.body));
            std::hint::black_box(Json::parse(&row.body, &Limits::ENTRY).unwrap());
        }
    });
    let bytes: usize = ledger.rows.iter().map(|row| row.body.len()).sum();
    let ours = format!(
        "{} entries/s on one core, {} B each",
        number(count / whole),
        bytes / ledger.rows.len()
    );
    table.add(Row {
        what: "verify a chain, every rule, over 150,000 entries/s".to_owned(),
        ours: ours.clone(),
        floor: "150,000 entries/s".to_owned(),
        ratio: Some(count / whole / VERIFIED),
        target: Some(Target::AtLeast(1.0)),
    });
    table.add(Row {
        what: "verify a chain, time over hashing and parsing alone".to_owned(),
        ours,
        floor: format!("{} entries/s", number(count / bare)),
        ratio: Some(whole / bare),
        target: None,
    });
}

/// Proofs, and the export of a run of 200 entries, from a ledger of many entries.
pub async fn large(plan: &Plan, dir: &Path, table: &mut Table) {
    for entries in [1_000, plan.entries] {
        let file = dir.join(format!("large-{entries}.sqlite"));
        let store = SqliteStore::open(&file).await.unwrap();
        let (run, row) = write::filled(&store, entries).await;
        store.close().await.unwrap();
        let reader = SqliteReader::open(&file).await.unwrap();
        let (head, _) = Checkpoint::parse(&row.head.checkpoint).unwrap();
        if plan.asked.wants("proofs") {
            let started = Instant::now();
            let mut proofs = 0_u32;
            while started.elapsed() < plan.each {
                let prover = Prover::for_head(&reader, &row.chain, &head).await.unwrap();
                prover.inclusion(u64::from(proofs) * 7919 % head.size).await.unwrap();
                proofs += 1;
            }
            let stored = started.elapsed() / proofs;
            let started = Instant::now();
            let leaves = reader.leaf_hashes(&row.chain, head.size).await.unwrap();
            let prover = merkle::Prover::new(leaves);
            assert!(prover.root() == head.root);
            let every = started.elapsed();
            table.add(Row {
                what: format!("one proof from {entries} entries, over reading every leaf hash"),
                ours: short(stored),
                floor: short(every),
                ratio: Some(stored.as_secs_f64() / every.as_secs_f64()),
                target: None,
            });
        }
        if plan.asked.wants("export") {
            export(plan, dir, &file, &run.to_string(), entries, table);
        }
    }
}

/// The program's own `evidence export`, its start beside it.
fn export(plan: &Plan, dir: &Path, file: &Path, run: &str, entries: u64, table: &mut Table) {
    let artifacts = Artifacts::open(&dir.join("artifacts")).unwrap();
    drop(artifacts.put_policy(&Digest::of(&[TAR]), TAR));
    let kind = "application/vnd.wicketgate.manifest.v1+yaml";
    let signature = dsse::sign(kind, YAML, &[&key(32)]);
    drop(artifacts.put_manifest(&Digest::of(&[YAML]), YAML, &signature));
    for (name, secret) in [
        ("evidence.pem", SecretKey::generate(&SystemEntropy)),
        ("fleet.pem", key(40)),
        ("enrolment.pem", key(31)),
    ] {
        drop(secret.store(&dir.join(name)));
    }
    let text = |path: &Path| path.display().to_string();
    let mut all = Vec::new();
    let started = Instant::now();
    let mut out = dir.join("none");
    while started.elapsed() < plan.each || all.is_empty() {
        out = dir.join(format!("bundle-{entries}-{}", all.len()));
        let one = Instant::now();
        let done = Command::new(program::gate())
            .args(["evidence", "export", "--sqlite", &text(file), "--run", run])
            .args(["--out", &text(&out), "--key", &text(&dir.join("evidence.pem"))])
            .args(["--artifacts", &text(&dir.join("artifacts"))])
            .args(["--fleet-key", &text(&dir.join("fleet.pem"))])
            .args(["--enrolment-key", &text(&dir.join("enrolment.pem"))])
            .output()
            .unwrap();
        if !done.status.success() {
            table.say(&format!("export failed: {}", String::from_utf8_lossy(&done.stderr)));
            return;
        }
        all.push(one.elapsed());
    }
    all.sort_unstable();
    let ours = all[all.len() / 2];
    let started = repeat(plan.each, || {
        Command::new(program::gate()).arg("--version").output().unwrap();
    });
    let made = ours.as_secs_f64() - started;
    let size: u64 = files(&out);
    let lines = std::fs::read_to_string(out.join("ledger/entries.jsonl")).unwrap().lines().count();
    table.add(Row {
        what: format!(
            "export of a 200-entry run from {entries} entries, without the program's start"
        ),
        ours: format!("{:.1} ms; {} B of bundle per entry", made * 1e3, size / lines as u64),
        floor: format!("start: {:.1} ms", started * 1e3),
        ratio: None,
        target: Some(Target::Figure(made * 1e3, 50.0, "ms")),
    });
}

fn files(dir: &Path) -> u64 {
    let sum =
        |path: &Path| if path.is_dir() { files(path) } else { path.metadata().unwrap().len() };
    std::fs::read_dir(dir).unwrap().map(|entry| sum(&entry.unwrap().path())).sum()
}
