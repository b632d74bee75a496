//! Faults of the simulated disk.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use wicketgate::ledger::store::{LedgerStore, StoreError};
use wicketgate_support::memory::{InjectedFault, MemoryStore, StoreStep};

use super::batches::{beats, lease};

#[tokio::test]
async fn an_answer_that_is_lost_leaves_the_batch_applied_once() {
    let store = MemoryStore::new();
    let leased = lease(&store, 1).await;
    let first = beats(&leased.head, 2);
    store.set_faults(|step: StoreStep<'_>| match step {
        StoreStep::Append(_) => InjectedFault::ApplyThenFail(StoreError::Unknown("lost".into())),
        StoreStep::Lease(_) | StoreStep::PutPayload(_) => InjectedFault::Proceed,
    });
    let answer = store.append(&leased.key, &leased.head, &first).await;
    assert!(matches!(answer, Err(StoreError::Unknown(_))), "{answer:?}");
    store.clear_faults();
    // A writer that restarts finds the same store.
    let again = store.clone();
    assert_eq!(again.head(&leased.key).await.unwrap(), first.head);
    again.append(&leased.key, &leased.head, &first).await.unwrap();
    assert_eq!(again.tail(&leased.key, 0, 9).await.unwrap(), first.entries);
}

#[tokio::test]
async fn a_refused_batch_is_not_applied() {
    let store = MemoryStore::new();
    let leased = lease(&store, 1).await;
    let first = beats(&leased.head, 1);
    store
        .set_faults(|_: StoreStep<'_>| InjectedFault::Refuse(StoreError::Full("simulated".into())));
    let answer = store.append(&leased.key, &leased.head, &first).await;
    assert!(matches!(answer, Err(StoreError::Full(_))), "{answer:?}");
    assert_eq!(store.head(&leased.key).await.unwrap(), leased.head);
}

#[tokio::test]
async fn an_injected_delay_is_applied_and_its_hook_is_called_once() {
    let store = MemoryStore::new();
    let leased = lease(&store, 1).await;
    let asked = std::sync::Arc::new(AtomicU32::new(0));
    let counter = std::sync::Arc::clone(&asked);
    store.set_faults(move |_: StoreStep<'_>| {
        counter.fetch_add(1, Ordering::SeqCst);
        InjectedFault::Delay(Duration::from_millis(30))
    });
    let before = tokio::time::Instant::now();
    store.append(&leased.key, &leased.head, &beats(&leased.head, 1)).await.unwrap();
    assert!(before.elapsed() >= Duration::from_millis(30));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}
