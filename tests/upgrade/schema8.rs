//! A SQLite ledger of the schema before this one is upgraded in place when a gate opens it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::types::Value;
use wicketgate::crypto::merkle;
use wicketgate::domain::id::ChainId;
use wicketgate::ledger::sqlite::{SqliteReader, SqliteStore};
use wicketgate::ledger::store::{
    Batch, EntryRow, LeaseRequest, LedgerReader as _, LedgerStore as _, PayloadRef,
};
use wicketgate::record::Entry;
use wicketgate_support::ran::Ran;

/// A ledger of schema 8: a run with allowed, denied, held and approved calls, and a fleet log.
const LEFT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/schema8");

/// What tools read of a ledger, in any schema.
const TABLES: [&str; 3] = [
    "SELECT chain_id, seq, leaf, prev, run_id, call_id, kind, body FROM entry ORDER BY 1, 2",
    "SELECT chain_id, commitment, salt, role, media_type, body, stored_at FROM payload ORDER BY 1, 2",
    "SELECT chain_id, size, epoch, note FROM checkpoint ORDER BY 1, 2",
];

/// The copied files, and the ledger among them.
fn left() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(LEFT).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
    }
    let ledger = dir.path().join("ledger.sqlite");
    (dir, ledger)
}

fn rows(path: &Path, query: &str) -> Vec<Vec<Value>> {
    let file = rusqlite::Connection::open(path).unwrap();
    let mut query = file.prepare(query).unwrap();
    let columns = query.column_count();
    let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get(at)).collect();
    query.query_map([], row).unwrap().map(Result::unwrap).collect()
}

/// Opens the ledger as a gate does, which upgrades it, and closes it.
async fn upgraded(path: &Path) {
    SqliteStore::open(path).await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn an_upgraded_ledger_has_the_same_entries_payloads_and_checkpoints() {
    let (dir, ledger) = left();
    let open = "INSERT INTO open_run SELECT chain_id, run_id FROM entry WHERE kind = 'run.opened'";
    rusqlite::Connection::open(&ledger).unwrap().execute(open, []).unwrap();
    let before = TABLES.map(|query| rows(&ledger, query));
    assert!(before.iter().all(|rows| rows.len() > 20), "the fixture holds something to lose");
    let refused = SqliteReader::open(&ledger).await.unwrap_err().to_string();
    assert!(refused.contains("its schema is 8, this build needs 9"), "{refused}");
    // A gate of the build before may be writing: only a gate upgrades.
    let refused = SqliteStore::open_fleet(&ledger).await.unwrap_err().to_string();
    assert!(refused.contains("its schema is 8, this build needs 9"), "{refused}");
    upgraded(&ledger).await;
    for (query, before) in TABLES.iter().zip(before) {
        assert_eq!(rows(&ledger, query), before, "{query}");
    }
    let reader = SqliteReader::open(&ledger).await.unwrap();
    let mut opened = BTreeSet::new();
    for chain in reader.chains().await.unwrap() {
        opened.extend(reader.open_runs(&chain.chain).await.unwrap());
        every_entry_is_found(&reader, &chain.chain).await;
    }
    assert!(!opened.is_empty());
    let args = ["ledger", "verify", "--sqlite", "ledger.sqlite", "--trust", "trust.txt"];
    let verified = Ran::gate(dir.path(), args).ends(0);
    assert!(verified.out.contains("VALID"), "{verified:?}");
}

/// Finds every entry by its run and call, and every stored payload by its entry.
async fn every_entry_is_found(reader: &SqliteReader, chain: &ChainId) {
    let all = reader.entries(chain, 0, 1000).await.unwrap();
    for row in &all {
        if let Some(run) = &row.run {
            let of_run: Vec<&EntryRow> = all.iter().filter(|e| e.run == row.run).collect();
            let found = reader.run_entries(chain, run).await.unwrap();
            assert_eq!(found.iter().collect::<Vec<_>>(), of_run);
            assert_eq!(reader.find_run(run).await.unwrap(), Some(*chain));
        }
        for one in &Entry::parse(&row.body).unwrap().draft.commit {
            let by_entry = reader.payload(chain, &PayloadRef::of(row.seq, &one.c)).await.unwrap();
            assert_eq!(
                by_entry,
                reader.payload(chain, &PayloadRef::anywhere(&one.c)).await.unwrap()
            );
        }
    }
}

#[tokio::test]
async fn a_gate_goes_on_writing_after_the_entries_of_an_upgraded_ledger() {
    let (_dir, path) = left();
    let store = SqliteStore::open(&path).await.unwrap();
    let chains = SqliteReader::open(&path).await.unwrap().chains().await.unwrap();
    let own = chains.iter().find(|chain| !chain.origin.ends_with("/fleet")).unwrap();
    let request = LeaseRequest {
        tenant: "default".into(),
        pool: own.slot.split('/').next().unwrap().into(),
        writer: "host".into(),
        previous: None,
        secret: [1; 32],
        chain: ChainId::from_bytes([1; 16]),
        term: std::time::Duration::from_secs(15),
    };
    let leased = store.lease(&request).await.unwrap();
    assert_eq!((leased.key.chain, &leased.head), (own.chain, &own.head));
    let body = br#"{"kind":"heartbeat"}"#.to_vec();
    let (seq, prev, leaf) = (leased.head.size, leased.head.hash, merkle::leaf_hash(&body));
    let (run, call, kind) = (None, None, "heartbeat".into());
    let entry = EntryRow { seq, prev, leaf, run, call, kind, body };
    let mut head = leased.head.clone();
    (head.size, head.hash) = (seq + 1, leaf);
    let batch = Arc::new(Batch { entries: vec![entry], payloads: Vec::new(), head });
    store.append(&leased.key, &leased.head, &batch).await.unwrap();
    assert_eq!(store.tail(&leased.key, seq, 9).await.unwrap(), batch.entries);
}
