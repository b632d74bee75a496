//! On Postgres entries lie in blocks, and a pruning drops a whole one where that is worth it.

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use wicketgate::domain::id::ChainId;
use wicketgate::domain::json::Json;

use crate::ledgers::{Ledger, Report as _, State, chain, verify};
use crate::prune::{made, prune};
use crate::tiles::archive;

/// The administrator of the test plays writer, reader and eraser; blocks have 256 entries.
const SMALL: &str = "
  INSERT INTO ledger.writer_tenant VALUES ('postgres', 'default');
  INSERT INTO ledger.reader_tenant VALUES ('postgres', NULL);
  SET ROLE ledger_owner;
  CREATE OR REPLACE FUNCTION ledger.block_entries() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 256::bigint $$;
  DO $$ BEGIN FOR k IN 0..3 LOOP EXECUTE format('DROP TABLE ledger.entry_p%s_0', k); END LOOP; END $$;";

async fn asked(ledger: &Ledger, sql: &str) -> Vec<(String, i64)> {
    let Ledger::Postgres(db, _) = ledger else { panic!("no Postgres") };
    let mut conn = PgConnection::connect(&db.admin_url).await.unwrap();
    sqlx::query_as(AssertSqlSafe(sql.to_owned())).fetch_all(&mut conn).await.unwrap()
}

/// Every block of the chain's partition with the number of the table that it is.
async fn blocks(ledger: &Ledger) -> Vec<(String, i64)> {
    let id = hex::encode(chain().as_bytes());
    let sql = format!(
        "SELECT c.relname::text, c.oid::bigint FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
          WHERE i.inhparent = format('ledger.entry_p%s', ledger.bucket('\\x{id}'))::regclass
          ORDER BY length(c.relname), c.relname"
    );
    asked(ledger, &sql).await
}

/// What is left of the chain below 512, by kind.
async fn left(ledger: &Ledger) -> Vec<(String, i64)> {
    let id = hex::encode(chain().as_bytes());
    let sql = format!(
        "SELECT kind, count(*) FROM ledger.entry WHERE chain_id = '\\x{id}' AND seq < 512
          GROUP BY kind ORDER BY kind"
    );
    asked(ledger, &sql).await
}

async fn pruned(ledger: &Ledger, state: &State) {
    let said = prune(ledger, &["--below", "600"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("the first is now 512"), "{}", said.out);
    let said = verify(ledger, "");
    let log = said.log(crate::forged::ORIGIN);
    let below = log.get("pruned_below").and_then(Json::as_u64);
    assert_eq!((said.code, below), (0, Some(512)), "{}{}", said.out, said.err);
    let root = state.root(state.size()).hex();
    assert_eq!(log.get("root").and_then(Json::as_str), Some(root.as_str()));
}

#[tokio::test]
async fn blocks_that_are_pruned_whole_are_dropped_and_what_stays_is_put_back() {
    let ledger = Ledger::postgres().await;
    ledger.owner("", SMALL).await;
    let state = made(&ledger).await;
    let before = blocks(&ledger).await;
    let needed = (state.size() + 32) / 256 + 1;
    assert_eq!(before.len(), needed, "one ahead of the last, and no more: {before:?}");
    assert_eq!(archive(&ledger, &ledger.dir().join("archive")).code, 0);
    pruned(&ledger, &state).await;
    let after = blocks(&ledger).await;
    assert_eq!(before.len(), after.len());
    let dropped: Vec<bool> = before.iter().zip(&after).map(|(old, new)| old.1 != new.1).collect();
    assert_eq!(dropped[..3], [true, true, false], "{before:?} {after:?}");
    let kept: Vec<String> = left(&ledger).await.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kept, ["chain.genesis", "manifest.bound", "policy.activated", "writer.started"]);
    // A block that was put back is guarded like any other.
    for sql in [
        format!("TRUNCATE ledger.{}", after[0].0),
        format!("DELETE FROM ledger.{}", after[0].0),
        format!("UPDATE ledger.{} SET kind = 'x'", after[0].0),
    ] {
        let refused = std::panic::AssertUnwindSafe(ledger.owner("", &sql));
        assert!(futures_util::FutureExt::catch_unwind(refused).await.is_err(), "{sql}");
    }
}

#[tokio::test]
async fn a_block_that_others_need_stays_and_its_rows_are_deleted() {
    let ledger = Ledger::postgres().await;
    ledger.owner("", SMALL).await;
    let state = made(&ledger).await;
    // Another chain of the same partition, as long as the first two blocks.
    let id = hex::encode(chain().as_bytes());
    let others = (0..=255_u8).map(|n| ChainId::from_bytes([n; 16])).filter(|c| *c != chain());
    let others = others.map(|other| hex::encode(other.as_bytes()));
    let list = others.map(|hex| format!("('\\x{hex}'::bytea)")).collect::<Vec<_>>().join(",");
    let sql = format!(
        "INSERT INTO ledger.entry (chain_id, seq, leaf_hash, prev_hash, kind, body)
         SELECT o.c, s, sha256('\\x00'::bytea || '{{}}'::bytea), sha256(''), 'heartbeat', '{{}}'::bytea
           FROM (SELECT c FROM (VALUES {list}) t(c)
                  WHERE ledger.bucket(c) = ledger.bucket('\\x{id}') LIMIT 1) o, generate_series(0, 511) s"
    );
    ledger.owner("", &sql).await;
    let before = blocks(&ledger).await;
    assert_eq!(archive(&ledger, &ledger.dir().join("archive")).code, 0);
    pruned(&ledger, &state).await;
    assert_eq!(blocks(&ledger).await, before);
    let rows =
        asked(&ledger, "SELECT kind, count(*) FROM ledger.entry WHERE body = '{}' GROUP BY 1");
    assert_eq!(rows.await, [("heartbeat".to_owned(), 512)]);
    let kept: i64 = left(&ledger).await.into_iter().map(|(_, n)| n).sum();
    assert!(kept < 16, "{kept} rows are left");
}
