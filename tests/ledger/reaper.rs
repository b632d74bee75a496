//! Which slots the store calls abandoned, and who may take one.

use std::time::Duration;

use wicketgate::ledger::postgres::{Options, PostgresReaper, PostgresStore};
use wicketgate::ledger::reap::Abandoned;
use wicketgate::ledger::store::{LeaseRequest, Leased, LedgerStore, StoreError};

use super::batches::{LONG, batch, beats, request, run};
use wicketgate_support::pg::{Pg, TestDb};

const NOW: Duration = Duration::ZERO;

async fn slot(store: &PostgresStore, n: u8, term: Duration) -> Leased {
    let leased = store.lease(&LeaseRequest { term, ..request(n) }).await.unwrap();
    store.append(&leased.key, &leased.head, &beats(&leased.head, 1)).await.unwrap();
    leased
}

async fn rig() -> (TestDb, PostgresStore, PostgresReaper) {
    let db = Pg::cluster().database().await;
    let store = PostgresStore::connect(&db.writer_url, Options::default()).await.unwrap();
    let reaper = PostgresReaper::lazy(&db.operator_url, Options::default()).unwrap();
    (db, store, reaper)
}

async fn take(reaper: &PostgresReaper, slot: &Abandoned, n: u8) -> Result<Leased, StoreError> {
    reaper.take(slot, NOW, ("hub", [n; 32]), LONG).await
}

fn fenced(taken: &Result<Leased, StoreError>) -> bool {
    matches!(taken, Err(StoreError::Conflict(_)))
}

#[tokio::test]
async fn only_a_slot_whose_lease_ran_out_is_abandoned_and_one_of_many_takes_it() {
    let (_db, store, reaper) = rig().await;
    let live = slot(&store, 1, LONG).await;
    let dead = slot(&store, 2, NOW).await;
    let found = reaper.abandoned().await.unwrap();
    let only: Vec<_> = found.iter().map(|slot| slot.chain).collect();
    assert_eq!(only, [dead.key.chain], "not the one of {}", live.key.chain);
    let taken = futures_util::future::join_all((10..14).map(|n| take(&reaper, &found[0], n))).await;
    assert_eq!(taken.iter().filter(|taken| taken.is_ok()).count(), 1, "{taken:?}");
    assert_eq!(taken.iter().filter(|taken| fenced(taken)).count(), 3, "{taken:?}");
    assert!(reaper.abandoned().await.unwrap().is_empty(), "it has a writer again");
    let head = store.head(&live.key).await.unwrap();
    store.append(&live.key, &head, &beats(&head, 1)).await.unwrap();
    let lost = store.head(&dead.key).await;
    assert!(matches!(lost, Err(StoreError::Conflict(_))), "{lost:?}");
}

#[tokio::test]
async fn a_writer_that_wrote_renewed_or_came_back_since_it_was_seen_keeps_its_slot() {
    let (_db, store, reaper) = rig().await;
    let late = slot(&store, 1, NOW).await;
    let seen = reaper.abandoned().await.unwrap().remove(0);
    let head = store.head(&late.key).await.unwrap();
    store.append(&late.key, &head, &beats(&head, 1)).await.unwrap();
    assert!(fenced(&take(&reaper, &seen, 9).await), "it wrote");
    let seen = reaper.abandoned().await.unwrap().remove(0);
    let early = reaper.take(&seen, LONG, ("hub", [9; 32]), LONG).await;
    assert!(fenced(&early), "the grace is not over: {early:?}");
    let back = LeaseRequest { previous: Some(late.key.clone()), ..request(2) };
    assert!(store.lease(&back).await.unwrap().same_writer);
    assert!(fenced(&take(&reaper, &seen, 9).await), "it came back");
}

#[tokio::test]
async fn a_writer_that_stopped_in_order_is_abandoned_only_with_runs_it_left_open() {
    let (_db, store, reaper) = rig().await;
    let leased = slot(&store, 1, LONG).await;
    let head = store.head(&leased.key).await.unwrap();
    let opened =
        batch(&head, &[("run.opened", Some(run(1)), None), ("writer.stopped", None, None)]);
    store.append(&leased.key, &head, &opened).await.unwrap();
    store.release(&leased.key).await.unwrap();
    assert_eq!(reaper.abandoned().await.unwrap().len(), 1);
    let next = store.lease(&request(2)).await.unwrap();
    let lines = [("run.sealed", Some(run(1)), None), ("writer.stopped", None, None)];
    store.append(&next.key, &next.head, &batch(&next.head, &lines)).await.unwrap();
    store.release(&next.key).await.unwrap();
    assert!(reaper.abandoned().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_writer_role_may_not_reap_and_an_operator_reaps_no_other_tenant() {
    let (db, store, reaper) = rig().await;
    let other = PostgresStore::connect(&db.other_writer_url, Options::default()).await.unwrap();
    let theirs = LeaseRequest { tenant: "other".into(), term: NOW, ..request(7) };
    let theirs = other.lease(&theirs).await.unwrap();
    other.append(&theirs.key, &theirs.head, &beats(&theirs.head, 1)).await.unwrap();
    assert!(reaper.abandoned().await.unwrap().is_empty());
    let guessed = Abandoned {
        chain: theirs.key.chain,
        slot: theirs.slot.clone(),
        origin: theirs.origin.clone(),
        epoch: theirs.key.epoch,
        size: 1,
    };
    assert!(fenced(&take(&reaper, &guessed, 9).await));
    slot(&store, 1, NOW).await;
    let writer = PostgresReaper::lazy(&db.writer_url, Options::default()).unwrap();
    let denied = |error: &StoreError| error.to_string().contains("42501");
    assert!(denied(&writer.abandoned().await.unwrap_err()));
    assert!(denied(&take(&writer, &guessed, 9).await.unwrap_err()));
}
