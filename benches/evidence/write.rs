//! Writing: batches, a ledger that is large already, and small entries beside large results.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use wicketgate::crypto::note::Checkpoint;
use wicketgate::domain::commitment::commit;
use wicketgate::domain::decision::Verdict;
use wicketgate::domain::digest::{Digest, commitment};
use wicketgate::domain::id::RunId;
use wicketgate::ledger::Ledger;
use wicketgate::ledger::postgres::{self, PostgresStore};
use wicketgate::ledger::spool::{HeadFile, Spool};
use wicketgate::ledger::sqlite::SqliteStore;
use wicketgate::ledger::store::{Batch, ChainRow, HeadRow, LeaseRequest, LedgerStore, PayloadRow};
use wicketgate::record::Kind;
use wicketgate_support::bench::chain::{self, Open};
use wicketgate_support::bench::floor;
use wicketgate_support::bench::load::{Seen, short};
use wicketgate_support::bench::table::{Row, Table, Target};
use wicketgate_support::forged::{ORIGIN, TestLedger, key, run_id};
use wicketgate_support::pg;

use crate::Plan;

/// Most bytes of one payload that a store keeps.
const STORED: usize = 1024 * 1024;

async fn on_postgres(url: &str, dir: &Path, slot: &str) -> Open {
    let spool = Spool::open(&dir.join(format!("spool-{slot}"))).unwrap();
    let store = PostgresStore::connect(url, postgres::Options::default()).await.unwrap();
    chain::open(Arc::new(store), Box::new(spool), slot).await
}

async fn on_sqlite(store: Arc<SqliteStore>, dir: &Path, name: &str) -> Open {
    let journal = HeadFile::open(&dir.join(format!("{name}.head"))).unwrap();
    chain::open(store, Box::new(journal), "local").await
}

/// Entries per second at so many callers, whose entries share commits, as ratios to the naive chain.
pub async fn batches(plan: &Plan, dir: &Path, table: &mut Table) {
    let database = pg::Pg::cluster().database().await;
    let naive = floor::naive_chain(&database.admin_url, 32, plan.each).await;
    let sync = floor::fdatasync(dir);
    let words = format!(
        "naive chain, 32 clients: {}; fdatasync p50 {}",
        naive.words("entries"),
        short(sync.p50)
    );
    let row = |name: &str, callers: usize, seen: &Seen| Row {
        what: format!("writer, {name}, up to {callers} entries a batch"),
        ours: format!(
            "{}; {:.1} entries in the time of one fdatasync",
            seen.words("entries"),
            seen.per_second * sync.p50.as_secs_f64()
        ),
        floor: words.clone(),
        ratio: Some(seen.per_second / naive.per_second),
        // The target is over a bare grouped INSERT: `cargo bench --bench road -- writer`.
        target: None,
    };
    let file = Arc::new(SqliteStore::open(&dir.join("batches.sqlite")).await.unwrap());
    let sqlite = on_sqlite(file, dir, "batches").await;
    let first = on_postgres(&database.writer_url, dir, "b0").await;
    for (name, open) in [("SQLite", &sqlite), ("Postgres, 1 chain", &first)] {
        for callers in [1, 32, 100, 1000] {
            let seen =
                chain::drive(plan.warm, plan.each, std::slice::from_ref(&open.ledger), callers)
                    .await;
            table.add(row(name, callers, &seen));
        }
    }
    sqlite.close().await;
    let mut four = vec![first];
    for slot in ["b1", "b2", "b3"] {
        four.push(on_postgres(&database.writer_url, dir, slot).await);
    }
    let ledgers: Vec<Ledger> = four.iter().map(|open| open.ledger.clone()).collect();
    for each in [1, 32, 100, 1000] {
        let seen = chain::drive(plan.warm, plan.each, &ledgers, each * ledgers.len()).await;
        table.add(row("Postgres, 4 chains", each, &seen));
    }
    for open in four {
        open.close().await;
    }
}

/// Fills an empty store with this many entries and a run of 200 at the end; the run and the chain.
pub async fn filled(store: &dyn LedgerStore, entries: u64) -> (RunId, ChainRow) {
    let mut ledger = TestLedger::new(1, key(31));
    let leased = store
        .lease(&LeaseRequest {
            tenant: "default".into(),
            pool: "local".into(),
            writer: "bench".into(),
            previous: None,
            secret: [1; 32],
            chain: ledger.chain,
            term: Duration::from_secs(3600),
        })
        .await
        .unwrap();
    let mut head = leased.head;
    let mut done = 0;
    while ledger.frontier.size() < entries {
        for _ in 0..1000.min(entries - ledger.frontier.size()) {
            ledger.beat();
        }
        head = put(store, &leased.key, &head, &mut ledger, &mut done).await;
    }
    let run = run_id(7);
    ledger.open(run);
    for call in 0..99 {
        let id = format!("c{call}");
        ledger.decide(run, &id, Kind::CallAuthorized, Verdict::Allow);
        ledger.complete(run, &id);
    }
    ledger.seal(run);
    head = put(store, &leased.key, &head, &mut ledger, &mut done).await;
    let row = ChainRow {
        chain: ledger.chain,
        tenant: "default".into(),
        slot: "local/0".into(),
        origin: ORIGIN.into(),
        epoch: 1,
        head,
    };
    store.release(&leased.key).await.unwrap();
    (run, row)
}

/// Commits what the ledger have and the store does not.
async fn put(
    store: &dyn LedgerStore,
    key: &wicketgate::ledger::store::LeaseKey,
    head: &HeadRow,
    ledger: &mut TestLedger,
    done: &mut usize,
) -> HeadRow {
    let size = ledger.frontier.size();
    let note = Checkpoint { origin: ORIGIN.into(), size, root: ledger.frontier.root() };
    let next = HeadRow {
        size,
        hash: ledger.rows[ledger.rows.len() - 1].leaf,
        frontier: ledger.frontier.to_bytes(),
        checkpoint: note.sign(&ledger.writer),
    };
    let entries = ledger.rows.split_off(*done);
    // The ledger keep nothing but their end: ten million entries would not fit.
    ledger.rows.clear();
    *done = 0;
    let mut kept: Vec<PayloadRow> = std::mem::take(&mut ledger.payloads).into_values().collect();
    let payloads = entries.iter().flat_map(|row| {
        let body = String::from_utf8_lossy(&row.body);
        let own = kept.extract_if(.., |one| body.contains(&one.commitment.hex()));
        own.map(|one| (row.seq, one)).collect::<Vec<_>>()
    });
    let payloads = payloads.collect();
    let batch = Arc::new(Batch { entries, payloads, head: next.clone() });
    store.append(key, head, &batch).await.unwrap();
    next
}

/// Entries per second with many entries in the ledger, over the same with none.
pub async fn growth(plan: &Plan, dir: &Path, table: &mut Table) {
    const CALLERS: usize = 32;
    let what =
        |name: &str| format!("{name}, {CALLERS} callers, {} entries over none", plan.entries);
    let small = Arc::new(SqliteStore::open(&dir.join("empty.sqlite")).await.unwrap());
    let large = SqliteStore::open(&dir.join("grown.sqlite")).await.unwrap();
    filled(&large, plan.entries).await;
    let empty = on_sqlite(small, dir, "empty").await;
    let grown = on_fleet_free(Arc::new(large), dir, "grown").await;
    let (a, b) = in_turn(plan, &empty.ledger, &grown.ledger, CALLERS).await;
    table.add(Row {
        what: what("SQLite"),
        ours: b.words("entries"),
        floor: a.words("entries"),
        ratio: Some(b.per_second / a.per_second),
        target: Some(Target::AtLeast(0.95)),
    });
    empty.close().await;
    grown.close().await;

    let (one, two) = (pg::Pg::cluster().database().await, pg::Pg::cluster().database().await);
    let store =
        PostgresStore::connect(&two.writer_url, postgres::Options::default()).await.unwrap();
    filled(&store, plan.entries).await;
    let empty = on_postgres(&one.writer_url, dir, "g0").await;
    let grown = on_postgres(&two.writer_url, dir, "g1").await;
    let (a, b) = in_turn(plan, &empty.ledger, &grown.ledger, CALLERS).await;
    table.add(Row {
        what: what("Postgres"),
        ours: b.words("entries"),
        floor: a.words("entries"),
        ratio: Some(b.per_second / a.per_second),
        target: Some(Target::AtLeast(0.95)),
    });
    empty.close().await;
    grown.close().await;
}

/// A chain of its own in a file that holds a large one: the index is what grew.
async fn on_fleet_free(store: Arc<SqliteStore>, dir: &Path, name: &str) -> Open {
    let journal = HeadFile::open(&dir.join(format!("{name}.head"))).unwrap();
    chain::open(store, Box::new(journal), "beside").await
}

/// Both measured twice in turn, so that a machine that changes meets both; the better of each.
async fn in_turn(plan: &Plan, a: &Ledger, b: &Ledger, callers: usize) -> (Seen, Seen) {
    let mut best: [Option<Seen>; 2] = [None, None];
    for _ in 0..2 {
        for (at, ledger) in [a, b].into_iter().enumerate() {
            let seen =
                chain::drive(plan.warm, plan.each, std::slice::from_ref(ledger), callers).await;
            let better = best[at].as_ref().is_none_or(|old| old.per_second < seen.per_second);
            if better {
                best[at] = Some(seen);
            }
        }
    }
    let [a, b] = best;
    (a.unwrap(), b.unwrap())
}

/// The store's name, a writer on it, and the store.
type Kept = (&'static str, Open, Arc<dyn LedgerStore>);

/// p99 of 128 small callers while one result of 8 MiB is put on the ledger as a call's outcome is (committed
/// to; results of more than 1 MiB are not stored), and while such results are stored in pieces without end,
/// both over p99 without.
pub async fn beside_large_results(plan: &Plan, dir: &Path, table: &mut Table) {
    const CALLERS: usize = 128;
    let database = pg::Pg::cluster().database().await;
    let sqlite = Arc::new(SqliteStore::open(&dir.join("results.sqlite")).await.unwrap());
    let first: Arc<dyn LedgerStore> = Arc::<SqliteStore>::clone(&sqlite);
    let second =
        PostgresStore::connect(&database.writer_url, postgres::Options::default()).await.unwrap();
    let second = Arc::new(second);
    let spool = Spool::open(&dir.join("spool-results")).unwrap();
    let on_pg = chain::open(Arc::<PostgresStore>::clone(&second), Box::new(spool), "results").await;
    let on_lite = on_sqlite(sqlite, dir, "results").await;
    let stores: [Kept; 2] = [("SQLite", on_lite, first), ("Postgres", on_pg, second)];
    for (name, open, store) in stores {
        let quiet =
            chain::drive(plan.warm, plan.each, std::slice::from_ref(&open.ledger), CALLERS).await;
        let one = tokio::spawn(one_result(open.ledger.clone(), plan.warm + plan.each / 2));
        let beside =
            chain::drive(plan.warm, plan.each, std::slice::from_ref(&open.ledger), CALLERS).await;
        let took = one.await.unwrap();
        table.add(Row {
            what: format!("{name}: p99 of {CALLERS} callers beside one result of 8 MiB"),
            ours: format!("{}; the result took {}", beside.words("entries"), short(took)),
            floor: format!("without: {}", quiet.words("entries")),
            ratio: Some(beside.p99.as_secs_f64() / quiet.p99.as_secs_f64()),
            target: Some(Target::AtMost(1.2)),
        });
        let stop = CancellationToken::new();
        let storing = tokio::spawn(results(store, open.ledger.clone(), stop.clone()));
        let loud =
            chain::drive(plan.warm, plan.each, std::slice::from_ref(&open.ledger), CALLERS).await;
        stop.cancel();
        let stored = storing.await.unwrap();
        table.add(Row {
            what: format!(
                "{name}: the same beside results of 8 MiB without end, stored in pieces of 1 MiB"
            ),
            ours: format!("{}; {stored} results stored meanwhile", loud.words("entries")),
            floor: format!("without: {}", quiet.words("entries")),
            ratio: Some(loud.p99.as_secs_f64() / quiet.p99.as_secs_f64()),
            target: None,
        });
        open.close().await;
    }
}

/// After a while, one outcome with a result of 8 MiB as the `http` kind gives it; how long it took.
async fn one_result(ledger: Ledger, after: Duration) -> Duration {
    let text = "a".repeat(8 << 20);
    let body = format!(r#"{{"body":"{text}","content_type":"text/plain","status":200}}"#);
    tokio::time::sleep(after).await;
    let started = Instant::now();
    std::hint::black_box(commit(&[7; 32], body.as_bytes()));
    while ledger.record(chain::entry()).await.is_err() {}
    started.elapsed()
}

/// Stores 8 MiB again and again, each in the largest payloads that a store keeps.
async fn results(store: Arc<dyn LedgerStore>, ledger: Ledger, stop: CancellationToken) -> u32 {
    let lease = ledger.leased().unwrap().key.clone();
    let mut body = vec![0x61; STORED];
    let mut stored = 0_u32;
    while !stop.is_cancelled() {
        for piece in 0..8_u32 {
            body[..8].copy_from_slice(&(u64::from(stored) << 8 | u64::from(piece)).to_be_bytes());
            let salt = *Digest::of(&[&body[..8]]).as_bytes();
            let payload = PayloadRow {
                commitment: commitment(&salt, &body),
                salt,
                role: "result".into(),
                media_type: "text/plain".into(),
                body: body.clone(),
            };
            // Refused pieces are not counted, and the bench says how many went in.
            if store.put_payload(&lease, &payload).await.is_err() {
                return stored;
            }
        }
        stored += 1;
    }
    stored
}
