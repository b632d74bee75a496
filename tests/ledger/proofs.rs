//! Proofs from what is stored: the same on every store, and never wrong because of what is not.

use std::path::Path;
use std::sync::Arc;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use wicketgate::crypto::consistency::{consistency_proof, verifies_consistency};
use wicketgate::crypto::merkle::{self, Frontier, inclusion_proof};
use wicketgate::crypto::note::Checkpoint;
use wicketgate::crypto::range::verifies_range;
use wicketgate::domain::digest::Digest;
use wicketgate::ledger::proofs::{Error, Prover};
use wicketgate::ledger::store::{HeadRow, LeaseKey, LedgerReader, LedgerStore};

use super::batches::{beats, lease};
use super::rig::Rig;

on_every_store! {
    proofs_hold_under_the_head_and_read_stored_subtrees
    proofs_hold_when_no_subtree_is_stored_or_all_are_wrong
    what_was_never_stored_has_no_proof
}

/// A chain of this many entries, in batches of 90, with real frontiers.
async fn grown(store: &dyn LedgerStore, size: usize) -> (LeaseKey, Vec<Digest>) {
    let leased = lease(store, 1).await;
    let (mut head, mut leaves): (HeadRow, Vec<Digest>) = (leased.head, Vec::new());
    let mut frontier = Frontier::default();
    while leaves.len() < size {
        let mut next = beats(&head, 90.min(size - leaves.len()));
        for entry in &next.entries {
            frontier.push(entry.leaf);
            leaves.push(entry.leaf);
        }
        Arc::make_mut(&mut next).head.frontier = frontier.to_bytes();
        store.append(&leased.key, &head, &next).await.unwrap();
        head = next.head.clone();
    }
    (leased.key, leaves)
}

fn checkpoint(leaves: &[Digest]) -> Checkpoint {
    let root = merkle::root(leaves);
    Checkpoint { origin: "test".into(), size: leaves.len() as u64, root }
}

/// Every kind of proof, at the places where trees change shape.
async fn prove_all(reader: &dyn LedgerReader, key: &LeaseKey, leaves: &[Digest]) {
    let head = checkpoint(leaves);
    let prover = Prover::for_head(reader, &key.chain, &head).await.unwrap();
    for seq in [0, 1, 255, 256, 511, 512, leaves.len() - 1] {
        let path = prover.inclusion(seq as u64).await.unwrap();
        assert_eq!(Some(path), inclusion_proof(leaves, seq), "entry {seq}");
        let old = seq + 1;
        let path = prover.consistency(old as u64).await.unwrap();
        assert_eq!(Some(&path), consistency_proof(leaves, old).as_ref(), "older tree {old}");
        let before = merkle::root(&leaves[..old]);
        assert!(verifies_consistency(old as u64, head.size, &before, &head.root, &path));
        for to in [seq, seq + 1, leaves.len()] {
            let proof = prover.range(seq as u64, to as u64).await.unwrap();
            let place = (seq as u64, to as u64, head.size);
            let part = &leaves[seq..to];
            assert!(
                verifies_range(place, part, &proof.left, &proof.right, &head.root),
                "{place:?}"
            );
        }
    }
}

async fn proofs_hold_under_the_head_and_read_stored_subtrees(rig: Rig) {
    let store = rig.store().await;
    let (key, leaves) = grown(&*store, 700).await;
    let reader = rig.reader().await;
    let stored = reader.subtrees(&key.chain, 8, 0, 9).await.unwrap();
    let roots: Vec<Digest> = leaves.chunks_exact(256).map(merkle::root).collect();
    assert_eq!(stored.iter().map(|s| s.hash).collect::<Vec<_>>(), roots);
    assert_eq!(stored.iter().map(|s| s.node.index).collect::<Vec<_>>(), [0, 1]);
    let part = reader.leaves(&key.chain, 254, 258).await.unwrap();
    let expected: Vec<(u64, Digest)> = (254..258).map(|at| (at, leaves[at as usize])).collect();
    assert_eq!(part, expected);
    let sizes: Vec<u64> =
        reader.checkpoints(&key.chain, 100, 2).await.unwrap().iter().map(|(s, _)| *s).collect();
    assert_eq!(sizes, [180, 270]);
    prove_all(&*reader, &key, &leaves).await;
    let volumes = reader.volumes().await.unwrap();
    let rows = |what| volumes.iter().find(|v| v.what == what).unwrap().rows;
    assert_eq!((rows("entries"), rows("checkpoints"), rows("subtrees")), (700, 8, 2));
}

/// Changes what is stored, as whoever owns the database can.
async fn edit(rig: &Rig, sql: &'static str) -> bool {
    match rig {
        Rig::Memory(_) => return false,
        Rig::Sqlite(_, dir) => raw(&dir.path().join("ledger.db"), sql).await,
        Rig::Postgres(db) => {
            let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
            let sql = sql.replace("subtree", "ledger.subtree").replace("x'", "'\\x");
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut admin).await.unwrap();
        }
    }
    true
}

async fn raw(path: &Path, sql: &'static str) {
    let mut conn = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
}

async fn proofs_hold_when_no_subtree_is_stored_or_all_are_wrong(rig: Rig) {
    let store = rig.store().await;
    let (key, leaves) = grown(&*store, 700).await;
    let reader = rig.reader().await;
    let wrong = "UPDATE subtree SET hash = x'abababababababababababababababababababababababababababababababab'";
    for sql in [wrong, "DELETE FROM subtree"] {
        if edit(&rig, sql).await {
            prove_all(&*reader, &key, &leaves).await;
        }
    }
}

async fn what_was_never_stored_has_no_proof(rig: Rig) {
    let store = rig.store().await;
    let (key, leaves) = grown(&*store, 300).await;
    let reader = rig.reader().await;
    let mut forged = checkpoint(&leaves);
    forged.root = merkle::leaf_hash(b"another history");
    let refused = Prover::for_head(&*reader, &key.chain, &forged).await.unwrap_err();
    assert!(matches!(refused, Error::Damaged(300)), "{refused}");
    let mut longer = checkpoint(&leaves);
    longer.size = 301;
    let refused = Prover::for_head(&*reader, &key.chain, &longer).await.unwrap_err();
    assert!(matches!(refused, Error::Gone(300)), "{refused}");
    let head = checkpoint(&leaves);
    let prover = Prover::for_head(&*reader, &key.chain, &head).await.unwrap();
    assert!(matches!(prover.inclusion(300).await, Err(Error::Outside { .. })));
    assert!(matches!(prover.consistency(301).await, Err(Error::Outside { .. })));
    assert!(matches!(prover.range(5, 301).await, Err(Error::Outside { .. })));
}
