//! What the SQLite file promises beyond the port.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};
use wicketgate::clock::Entropy;
use wicketgate::crypto::merkle;
use wicketgate::ledger::sqlite::{SqliteReader, SqliteStore};
use wicketgate::ledger::store::{
    LeaseRequest, Leased, LedgerReader, LedgerStore, PayloadRef, StoreError,
};

use super::batches::{batch, beats, lease, payload, request, run, with};

async fn fresh() -> (tempfile::TempDir, PathBuf, SqliteStore) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state").join("ledger.db");
    let store = SqliteStore::open(&path).await.unwrap();
    (dir, path, store)
}

/// A file with three entries and a payload, closed again.
async fn written() -> (tempfile::TempDir, PathBuf, Leased) {
    let (dir, path, store) = fresh().await;
    let leased = lease(&store, 1).await;
    let first = batch(
        &leased.head,
        &[
            ("run.opened", Some(run(1)), None),
            ("call.denied", Some(run(1)), Some("a")),
            ("heartbeat", None, None),
        ],
    );
    let first = with(first, &payload(b"{}"));
    store.append(&leased.key, &leased.head, &first).await.unwrap();
    store.close().await.unwrap();
    (dir, path, leased)
}

/// Randomness that is none.
struct Fixed(u8);

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

#[tokio::test]
async fn a_file_keeps_the_pool_it_was_begun_with_and_a_new_one_takes_it_from_the_entropy_alone() {
    let (_dir, path, store) = fresh().await;
    for (byte, name) in [(1, "local-0101010101010101"), (2, "local-0202020202020202")] {
        assert_eq!(store.pool("default", &Fixed(byte)).await.unwrap(), name);
    }
    let pool = store.pool("default", &Fixed(3)).await.unwrap();
    let fleet = LeaseRequest { pool: "fleet".into(), ..request(1) };
    store.lease(&fleet).await.unwrap();
    let leased = store.lease(&LeaseRequest { pool: pool.clone(), ..request(2) }).await.unwrap();
    assert_eq!(leased.origin, "wicketgate.dev/default/local-0303030303030303/0/0");
    store.close().await.unwrap();
    let store = SqliteStore::open(&path).await.unwrap();
    assert_eq!(store.pool("default", &Fixed(4)).await.unwrap(), pool, "not the fleet log's");
    // One that was begun before files named their pools.
    let (_dir, _, older) = fresh().await;
    lease(&older, 1).await;
    assert_eq!(older.pool("default", &Fixed(4)).await.unwrap(), "local");
}

/// Another tool at the file, with SQLite's own defaults (recursive_triggers is off).
async fn raw(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).connect().await.unwrap()
}

async fn refused(conn: &mut SqliteConnection, sql: &'static str) -> String {
    let error = sqlx::raw_sql(sql).execute(conn).await.expect_err(sql);
    error.to_string()
}

#[tokio::test]
async fn entries_checkpoints_and_heads_cannot_be_rewritten_by_another_tool() {
    let (_dir, path, _) = written().await;
    let mut conn = raw(&path).await;
    for sql in [
        "UPDATE entry SET kind = 'heartbeat'",
        "DELETE FROM entry WHERE seq = 2",
        "INSERT INTO entry SELECT * FROM entry WHERE seq = 1",
        "UPDATE stored_entry SET kind = 'heartbeat'",
        "UPDATE stored_entry SET note = NULL",
        "DELETE FROM stored_entry WHERE id & 1099511627775 = 2",
        "INSERT OR REPLACE INTO stored_entry SELECT id, call, call_id, 'x', leaf, prev, note, body FROM stored_entry WHERE id & 1099511627775 = 1",
        "REPLACE INTO stored_entry SELECT id, NULL, NULL, 'x', zeroblob(32), prev, note, body FROM stored_entry WHERE id & 1099511627775 = 2",
        "INSERT INTO stored_entry SELECT id + 7, NULL, NULL, 'x', leaf, prev, note, body FROM stored_entry WHERE id & 1099511627775 = 2",
        "INSERT INTO stored_entry SELECT id + 1, NULL, NULL, 'x', leaf, prev, note, body FROM stored_entry WHERE id & 1099511627775 = 2",
        "UPDATE checkpoint SET note = ''",
        "DELETE FROM checkpoint",
        "INSERT INTO checkpoint SELECT * FROM checkpoint",
        "INSERT INTO kept_checkpoint VALUES (0, 3, 1, 'x')",
        "UPDATE payload SET body = x'00'",
        "UPDATE stored_payload SET body = x'00'",
        "REPLACE INTO stored_payload SELECT id, commitment, salt, role, media_type, 0, x'00' FROM stored_payload",
        "UPDATE head SET size = 2",
        "UPDATE head SET epoch = 0",
        "UPDATE head SET hash = zeroblob(32)",
        "DELETE FROM head",
        "REPLACE INTO head SELECT chain_id, epoch, writer, secret_hash, NULL, 0, hash, frontier, '', 0 FROM head",
    ] {
        let why = refused(&mut conn, sql).await;
        assert!(
            why.contains("refused") || why.contains("head may not") || why.contains("CHECK"),
            "{sql}: {why}"
        );
    }
}

#[tokio::test]
async fn an_edit_behind_the_triggers_shows_in_the_hashes() {
    let (_dir, path, leased) = written().await;
    let mut conn = raw(&path).await;
    sqlx::raw_sql(
        "DROP TRIGGER entry_no_update; UPDATE stored_entry SET body = x'7b7d' WHERE id & 1099511627775 = 1",
    )
    .execute(&mut conn)
    .await
    .unwrap();
    let reader = SqliteReader::open(&path).await.unwrap();
    let rows = reader.entries(&leased.key.chain, 0, 9).await.unwrap();
    let sound: Vec<bool> =
        rows.iter().map(|row| merkle::leaf_hash(&row.body) == row.leaf).collect();
    assert_eq!(sound, [true, false, true]);
}

#[tokio::test]
async fn a_payload_can_be_erased_with_its_salt() {
    let (_dir, path, leased) = written().await;
    let mut conn = raw(&path).await;
    sqlx::raw_sql("DELETE FROM payload").execute(&mut conn).await.unwrap();
    let reader = SqliteReader::open(&path).await.unwrap();
    let c = payload(b"{}").commitment;
    assert_eq!(reader.payload(&leased.key.chain, &PayloadRef::of(2, &c)).await.unwrap(), None);
}

#[tokio::test]
async fn a_second_writer_is_kept_out_until_the_first_is_gone() {
    let (_dir, path, store) = fresh().await;
    let one = lease(&store, 1).await;
    let error = SqliteStore::open(&path).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Conflict(why) if why.contains("in use by another process")),
        "{error:?}"
    );
    // The lock is the system's: another program that takes it is kept out just so.
    let lock = format!("{}.lock", path.display());
    let status = Command::new("flock").args(["-n", &lock, "true"]).status().unwrap();
    assert!(!status.success());
    drop(store);
    let store = SqliteStore::open(&path).await.unwrap();
    // Nobody waits for a lease whose holder the lock proves dead.
    let two = lease(&store, 2).await;
    assert_eq!((two.slot, two.key.epoch, two.same_writer), (one.slot, 2, false));
}

#[tokio::test]
async fn a_file_that_is_opened_again_has_everything() {
    let (_dir, path, old) = written().await;
    let store = SqliteStore::open(&path).await.unwrap();
    let mut again = request(2);
    again.previous = Some(old.key);
    let leased = store.lease(&again).await.unwrap();
    assert!(leased.same_writer);
    assert_eq!(leased.head.size, 3);
    assert_eq!(store.open_runs(&leased.key).await.unwrap(), [run(1)]);
    store.append(&leased.key, &leased.head, &beats(&leased.head, 1)).await.unwrap();
}

#[tokio::test]
async fn a_reader_works_beside_a_live_writer_and_writes_nothing() {
    let (_dir, path, store) = fresh().await;
    let leased = lease(&store, 1).await;
    let reader = SqliteReader::open(&path).await.unwrap();
    let mut head = leased.head.clone();
    for size in 1..=5 {
        let next = beats(&head, 1);
        store.append(&leased.key, &head, &next).await.unwrap();
        head = next.head.clone();
        let hashes = reader.leaf_hashes(&leased.key.chain, 99).await.unwrap();
        assert_eq!(hashes.len(), size);
    }
}

#[tokio::test]
async fn a_reader_of_a_file_that_is_not_there_makes_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none.db");
    assert!(SqliteReader::open(&path).await.is_err());
    assert!(!path.exists());
}

#[tokio::test]
async fn commits_are_synced_and_files_are_private() {
    let (_dir, path, store) = fresh().await;
    let leased = lease(&store, 1).await;
    store.append(&leased.key, &leased.head, &beats(&leased.head, 1)).await.unwrap();
    assert!(store.replenish().await.unwrap());
    let mut conn = raw(&path).await;
    let mode: String =
        sqlx::query("PRAGMA journal_mode").fetch_one(&mut conn).await.unwrap().get(0);
    assert_eq!(mode, "wal");
    let bits = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(bits(path.parent().unwrap()), 0o700);
    for suffix in ["", "-wal", "-shm", ".lock", ".reserve"] {
        let file = PathBuf::from(format!("{}{suffix}", path.display()));
        assert_eq!(bits(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn the_reserve_is_taken_and_given_back() {
    let (_dir, path, store) = fresh().await;
    assert!(!store.relieve().await, "there was nothing to free yet");
    assert!(store.replenish().await.unwrap());
    let reserve = PathBuf::from(format!("{}.reserve", path.display()));
    let meta = std::fs::metadata(&reserve).unwrap();
    assert_eq!(meta.len(), 4 * 1024 * 1024);
    let allocated = std::os::unix::fs::MetadataExt::blocks(&meta) * 512;
    assert!(allocated >= meta.len(), "{allocated} bytes are allocated");
    assert!(store.relieve().await);
    assert!(!reserve.exists());
    assert!(store.replenish().await.unwrap());
}

#[tokio::test]
async fn a_file_that_is_no_database_is_broken_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.db");
    let text = "this is no database, but somebody's notes\n".repeat(400);
    std::fs::write(&path, &text).unwrap();
    let error = SqliteStore::open(&path).await.unwrap_err();
    assert!(matches!(error, StoreError::Broken(_)), "{error:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_damaged_page_breaks_the_store_for_good() {
    let (_dir, path, leased) = written().await;
    let mut conn = raw(&path).await;
    let root: i64 = sqlx::query_scalar("SELECT rootpage FROM sqlite_schema WHERE name = 'head'")
        .fetch_one(&mut conn)
        .await
        .unwrap();
    drop(conn);
    let mut bytes = std::fs::read(&path).unwrap();
    // The page of the heads alone: the schema can still be read.
    let page = 4096 * usize::try_from(root - 1).unwrap();
    bytes[page..page + 4096].fill(0xFF);
    std::fs::write(&path, bytes).unwrap();
    let store = SqliteStore::open(&path).await.unwrap();
    let head = store.head(&leased.key).await;
    assert!(matches!(head, Err(StoreError::Broken(_))), "{head:?}");
    let append = store.append(&leased.key, &leased.head, &beats(&leased.head, 1)).await;
    assert!(matches!(append, Err(StoreError::Broken(_))), "{append:?}");
}

#[tokio::test]
async fn a_schema_of_a_newer_or_an_earlier_build_is_refused() {
    let (_dir, path, _) = written().await;
    for (version, why) in [(99, "newer than this build"), (7, "made by an earlier build")] {
        let mut conn = raw(&path).await;
        let set = AssertSqlSafe(format!("PRAGMA user_version = {version}"));
        sqlx::raw_sql(set).execute(&mut conn).await.unwrap();
        drop(conn);
        let said =
            |error: StoreError| matches!(&error, StoreError::Broken(text) if text.contains(why));
        assert!(said(SqliteStore::open(&path).await.unwrap_err()), "{version}");
        assert!(said(SqliteReader::open(&path).await.unwrap_err()), "{version}");
    }
}
