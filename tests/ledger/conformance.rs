//! What every store does alike.

use crate::json_entry::body;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::ChainId;
use wicketgate::domain::json::Json;
use wicketgate::domain::time::Timestamp;
use wicketgate::ledger::chain::{Chain, Moment};
use wicketgate::ledger::store::{
    AnchorRow, Batch, EntryRange, FleetView, HeadRow, LeaseKey, LeaseRequest, Leased, LedgerStore,
    PayloadRef, Restart, StoreError,
};
use wicketgate::record::{Boot, Draft, Entry, Kind};

use super::batches::{LONG, batch, beats, call, lease, payload, request, run, with};
use super::rig::Rig;

macro_rules! on_every_store {
    ($($name:ident)*) => {
        mod memory { $(#[tokio::test] async fn $name() { super::$name(crate::rig::Rig::memory()).await; })* }
        mod sqlite { $(#[tokio::test] async fn $name() { super::$name(crate::rig::Rig::sqlite().await).await; })* }
        mod postgres { $(#[tokio::test] async fn $name() { super::$name(crate::rig::Rig::postgres().await).await; })* }
    };
}

on_every_store! {
    the_first_lease_is_slot_zero_of_an_empty_chain
    what_is_appended_comes_back_byte_for_byte
    the_same_bytes_again_are_accepted_and_kept_once
    a_stale_head_is_refused_and_writes_nothing
    of_two_batches_after_one_head_exactly_one_is_kept
    an_older_epoch_and_a_wrong_secret_are_fenced_everywhere
    a_writer_that_shows_its_secret_gets_its_slot_back_at_once
    a_lease_requested_again_after_a_lost_answer_keeps_slot_and_writer
    a_live_lease_is_left_alone
    an_expired_lease_is_taken_over_lowest_slot_first
    a_stopped_writer_frees_its_slot_in_its_own_epoch_only
    a_released_slot_is_free
    leases_that_race_never_share_an_epoch
    open_runs_are_those_opened_and_not_sealed
    entries_of_a_run_and_of_a_call_are_found
    the_last_entries_outside_of_runs_are_found_by_their_kinds
    payloads_are_kept_once_and_by_chain
    a_payload_is_found_from_every_entry_of_its_call
    a_reader_sees_everything
    a_malformed_batch_is_refused_before_it_is_written
    a_full_batch_fits
    a_caller_that_goes_away_leaves_all_or_nothing
    the_fleet_log_is_one_slot_and_a_second_newcomer_waits
    what_the_fleet_log_says_of_a_log_is_found_and_anchors_are_kept
    a_slot_goes_on_under_the_next_name_or_not_at_all
    a_writer_whose_secret_is_not_known_comes_back_to_its_chain
}

async fn the_first_lease_is_slot_zero_of_an_empty_chain(rig: Rig) {
    let leased = lease(&*rig.store().await, 1).await;
    let chain = ChainId::from_bytes([1; 16]);
    assert_eq!(leased.key, LeaseKey { chain, epoch: 1, secret: [1; 32] });
    assert_eq!(leased.slot, "local/0");
    assert_eq!(leased.origin, "wicketgate.dev/default/local/0/0");
    assert!(!leased.same_writer);
    assert_eq!((leased.head.size, leased.head.hash), (0, Entry::genesis_prev(&chain)));
    assert!(leased.head.frontier.is_empty() && leased.head.checkpoint.is_empty());
}

async fn what_is_appended_comes_back_byte_for_byte(rig: Rig) {
    let store = rig.store().await;
    let leased = lease(&*store, 1).await;
    let lines = [
        ("run.opened", Some(run(1)), None),
        ("call.authorized", Some(run(1)), Some("c-1")),
        ("heartbeat", None, None),
    ];
    let first = batch(&leased.head, &lines);
    store.append(&leased.key, &leased.head, &first).await.unwrap();
    let second = beats(&first.head, 2);
    store.append(&leased.key, &first.head, &second).await.unwrap();

    assert_eq!(store.head(&leased.key).await.unwrap(), second.head);
    let all = [first.entries.clone(), second.entries.clone()].concat();
    assert_eq!(store.tail(&leased.key, 0, 100).await.unwrap(), all);
    assert_eq!(store.tail(&leased.key, 2, 2).await.unwrap(), all[2..4]);
    assert_eq!(store.tail(&leased.key, 5, 2).await.unwrap(), []);
}

async fn the_same_bytes_again_are_accepted_and_kept_once(rig: Rig) {
    let store = rig.store().await;
    let leased = lease(&*store, 1).await;
    let first = with(beats(&leased.head, 3), &payload(b"{}"));
    for _ in 0..3 {
        store.append(&leased.key, &leased.head, &first).await.unwrap();
    }
    assert_eq!(store.tail(&leased.key, 0, 100).await.unwrap(), first.entries);
    assert_eq!(store.head(&leased.key).await.unwrap(), first.head);
    // Once something stands after it, it is no longer the head.
    let second = beats(&first.head, 1);
    store.append(&leased.key, &first.head, &second).await.unwrap();
    let late = store.append(&leased.key, &leased.head, &first).await;
    assert!(matches!(late, Err(StoreError::Conflict(_))), "{late:?}");
}

async fn a_stale_head_is_refused_and_writes_nothing(rig: Rig) {
    let store = rig.store().await;
    let leased = lease(&*store, 1).await;
    let first = beats(&leased.head, 1);
    store.append(&leased.key, &leased.head, &first).await.unwrap();
    let stale = with(beats(&leased.head, 2), &payload(b"stale"));
    let answer = store.append(&leased.key, &leased.head, &stale).await;
    assert!(matches!(answer, Err(StoreError::Conflict(_))), "{answer:?}");
    // Same size, another history.
    let mut forked = first.head.clone();
    forked.hash = stale.head.hash;
    let fork = beats(&forked, 1);
    let answer = store.append(&leased.key, &forked, &fork).await;
    assert!(matches!(answer, Err(StoreError::Conflict(_))), "{answer:?}");
    assert_eq!(store.tail(&leased.key, 0, 100).await.unwrap(), first.entries);
    let c = payload(b"stale").commitment;
    assert_eq!(store.payload(&leased.key, &PayloadRef::of(0, &c)).await.unwrap(), None);
}

async fn of_two_batches_after_one_head_exactly_one_is_kept(rig: Rig) {
    let (a, b) = (rig.store().await, rig.store().await);
    let leased = lease(&*a, 1).await;
    let one = beats(&leased.head, 1);
    let two = batch(&leased.head, &[("clock.step", None, None)]);
    let answers = tokio::join!(
        a.append(&leased.key, &leased.head, &one),
        b.append(&leased.key, &leased.head, &two)
    );
    let kept = match answers {
        (Ok(()), Err(StoreError::Conflict(_))) => one,
        (Err(StoreError::Conflict(_)), Ok(())) => two,
        other => panic!("{other:?}"),
    };
    assert_eq!(a.tail(&leased.key, 0, 100).await.unwrap(), kept.entries);
}

async fn an_older_epoch_and_a_wrong_secret_are_fenced_everywhere(rig: Rig) {
    let store = rig.store().await;
    let old = lease(&*store, 1).await;
    let first = beats(&old.head, 1);
    store.append(&old.key, &old.head, &first).await.unwrap();
    let mut again = request(2);
    again.previous = Some(old.key.clone());
    let new = store.lease(&again).await.unwrap();
    let liar = LeaseKey { secret: [9; 32], ..new.key.clone() };
    let stranger = LeaseKey { chain: ChainId::from_bytes([9; 16]), ..new.key.clone() };
    for key in [old.key, liar, stranger] {
        let next = beats(&first.head, 1);
        let fenced = [
            store.append(&key, &first.head, &next).await.unwrap_err(),
            store.append(&key, &old.head, &first).await.unwrap_err(),
            store.put_payload(&key, &payload(b"x")).await.unwrap_err(),
            store.release(&key).await.unwrap_err(),
            store.head(&key).await.unwrap_err(),
            store.tail(&key, 0, 1).await.unwrap_err(),
            store.open_runs(&key).await.unwrap_err(),
            store.run_entries(&key, &run(1)).await.unwrap_err(),
            store.call_entries(&key, &run(1), &call("c")).await.unwrap_err(),
            store.payload(&key, &PayloadRef::of(0, &payload(b"x").commitment)).await.unwrap_err(),
        ];
        for error in fenced {
            assert!(matches!(error, StoreError::Conflict(_)), "{error:?}");
        }
    }
    assert_eq!(store.tail(&new.key, 0, 9).await.unwrap(), first.entries);
}

async fn a_writer_that_shows_its_secret_gets_its_slot_back_at_once(rig: Rig) {
    let store = rig.store().await;
    let old = lease(&*store, 1).await;
    let first = beats(&old.head, 1);
    store.append(&old.key, &old.head, &first).await.unwrap();
    let mut again = request(2);
    again.previous = Some(old.key.clone());
    let new = store.lease(&again).await.unwrap();
    assert!(new.same_writer);
    assert_eq!((new.key.chain, new.key.epoch), (old.key.chain, 2));
    assert_eq!(new.head, first.head);
}

async fn a_lease_requested_again_after_a_lost_answer_keeps_slot_and_writer(rig: Rig) {
    let store = rig.store().await;
    let old = lease(&*store, 1).await;
    let mut again = request(2);
    again.previous = Some(old.key.clone());
    let lost = store.lease(&again).await.unwrap();
    let new = store.lease(&again).await.unwrap();
    assert!(lost.same_writer && new.same_writer);
    assert_eq!((new.key.chain, new.key.epoch), (old.key.chain, 3));
    // And so for one that never had a lease: no second slot is made.
    let mut fresh = request(7);
    fresh.pool = "ns/agents".into();
    let lost = store.lease(&fresh).await.unwrap();
    let new = store.lease(&fresh).await.unwrap();
    assert_eq!((new.slot, new.key.epoch), (lost.slot, 2));
    assert!(!new.same_writer);
}

async fn a_live_lease_is_left_alone(rig: Rig) {
    let (store, other) = (rig.store().await, rig.store().await);
    let one = lease(&*store, 1).await;
    let two = lease(&*other, 2).await;
    assert!(!two.same_writer);
    if rig.many_writers() {
        assert_eq!((two.slot.as_str(), two.key.epoch), ("local/1", 1));
        assert_eq!(two.origin, "wicketgate.dev/default/local/1/0");
        let first = beats(&one.head, 1);
        store.append(&one.key, &one.head, &first).await.unwrap();
        other.append(&two.key, &two.head, &beats(&two.head, 1)).await.unwrap();
    } else {
        assert_eq!((two.slot.as_str(), two.key.epoch), ("local/0", 2));
    }
}

async fn an_expired_lease_is_taken_over_lowest_slot_first(rig: Rig) {
    let store = rig.store().await;
    let mut brief = request(1);
    brief.term = Duration::ZERO;
    let one = store.lease(&brief).await.unwrap();
    let two = lease(&*store, 2).await;
    assert_eq!((two.slot.as_str(), two.key.epoch), ("local/0", 2));
    assert!(!two.same_writer);
    let late = store.append(&one.key, &one.head, &beats(&one.head, 1)).await;
    assert!(matches!(late, Err(StoreError::Conflict(_))), "{late:?}");
}

async fn a_stopped_writer_frees_its_slot_in_its_own_epoch_only(rig: Rig) {
    let store = rig.store().await;
    let one = lease(&*store, 1).await;
    let last = batch(&one.head, &[("heartbeat", None, None), ("writer.stopped", None, None)]);
    store.append(&one.key, &one.head, &last).await.unwrap();
    let two = lease(&*store, 2).await;
    assert_eq!((two.slot.as_str(), two.key.epoch), ("local/0", 2));
    // The last entry is still `writer.stopped`, but the slot is writer 2's now.
    let three = lease(&*store, 3).await;
    if rig.many_writers() {
        assert_eq!(three.slot, "local/1");
        store.append(&two.key, &two.head, &beats(&two.head, 1)).await.unwrap();
    }
}

async fn a_released_slot_is_free(rig: Rig) {
    let store = rig.store().await;
    let one = lease(&*store, 1).await;
    store.release(&one.key).await.unwrap();
    let two = lease(&*store, 2).await;
    assert_eq!((two.slot.as_str(), two.key.epoch), ("local/0", 2));
}

async fn leases_that_race_never_share_an_epoch(rig: Rig) {
    // Two free slots (one in the case of SQLite), and six writers that start together.
    let store = rig.store().await;
    for n in [1, 2] {
        let one = lease(&*store, n).await;
        if rig.many_writers() {
            assert_eq!(one.slot, format!("local/{}", n - 1));
        }
    }
    let freed = [request(1), request(2)].map(|mut r| {
        r.term = Duration::ZERO;
        r
    });
    for r in &freed {
        let _ = store.lease(r).await.unwrap();
    }
    let mut stores = Vec::new();
    for _ in 0..6 {
        stores.push(rig.store().await);
    }
    let requests: Vec<_> = (11..17).map(request).collect();
    let taken = join_all(stores.iter().zip(&requests).map(|(s, r)| s.lease(r))).await;
    let taken: Vec<_> = taken.into_iter().map(Result::unwrap).collect();
    let mut tokens: Vec<_> = taken.iter().map(|l| (l.slot.clone(), l.key.epoch)).collect();
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 6, "{tokens:?}");
    let mut winners = 0;
    for (one, store) in taken.iter().zip(&stores) {
        if store.append(&one.key, &one.head, &beats(&one.head, 1)).await.is_ok() {
            winners += 1;
        }
    }
    // Every slot has exactly one writer.
    assert_eq!(winners, if rig.many_writers() { 6 } else { 1 });
    let slots = rig.reader().await.chains().await.unwrap().len();
    assert_eq!(slots, winners);
}

async fn open_runs_are_those_opened_and_not_sealed(rig: Rig) {
    let store = rig.store().await;
    let leased = lease(&*store, 1).await;
    let (open, seal) = ("run.opened", "run.sealed");
    let lines = [
        (open, Some(run(1)), None),
        (open, Some(run(2)), None),
        (open, Some(run(3)), None),
        (seal, Some(run(3)), None),
    ];
    let first = batch(&leased.head, &lines);
    store.append(&leased.key, &leased.head, &first).await.unwrap();
    assert_eq!(store.open_runs(&leased.key).await.unwrap(), [run(1), run(2)]);
    let second = batch(&first.head, &[(seal, Some(run(1)), None)]);
    store.append(&leased.key, &first.head, &second).await.unwrap();
    store.append(&leased.key, &first.head, &second).await.unwrap();
    assert_eq!(store.open_runs(&leased.key).await.unwrap(), [run(2)]);
}

async fn entries_of_a_run_and_of_a_call_are_found(rig: Rig) {
    let store = rig.store().await;
    let leased = lease(&*store, 1).await;
    let lines = [
        ("run.opened", Some(run(1)), None),
        ("run.opened", Some(run(2)), None),
        ("call.authorized", Some(run(1)), Some("a")),
        ("call.authorized", Some(run(2)), Some("a")),
        ("heartbeat", None, None),
        ("call.denied", Some(run(1)), Some("b")),
        ("call.completed", Some(run(1)), Some("a")),
    ];
    let first = batch(&leased.head, &lines);
    store.append(&leased.key, &leased.head, &first).await.unwrap();
    let places = |rows: Vec<wicketgate::ledger::store::EntryRow>| -> Vec<u64> {
        rows.iter().map(|row| row.seq).collect()
    };
    let of_run = store.run_entries(&leased.key, &run(1)).await.unwrap();
    assert_eq!(places(of_run), [0, 2, 5, 6]);
    let of_call = store.call_entries(&leased.key, &run(1), &call("a")).await.unwrap();
    assert_eq!(places(of_call), [2, 6]);
    let none = store.call_entries(&leased.key, &run(2), &call("b")).await.unwrap();
    assert_eq!(none, []);
    // A store may index entries later than it writes them: nothing shows when.
    let many = beats(&first.head, 1024);
    store.append(&leased.key, &first.head, &many).await.unwrap();
    let again = batch(&many.head, &[("call.completed", Some(run(1)), Some("b"))]);
    store.append(&leased.key, &many.head, &again).await.unwrap();
    let of_run = store.run_entries(&leased.key, &run(1)).await.unwrap();
    assert_eq!(places(of_run), [0, 2, 5, 6, 1031]);
    let of_call = store.call_entries(&leased.key, &run(1), &call("b")).await.unwrap();
    assert_eq!(places(of_call), [5, 1031]);
}

/// Kinds, the entry before which they stand, how many at most, and those that are found.
type LoneCase<'a> = (&'a [&'a str], u64, u32, &'a [u64]);

async fn the_last_entries_outside_of_runs_are_found_by_their_kinds(rig: Rig) {
    let store = rig.store().await;
    let leased = lease(&*store, 1).await;
    let lines = [
        ("writer.started", None, None),
        ("policy.activated", None, None),
        ("heartbeat", None, None),
        // Only entries outside of runs count, whatever their kind.
        ("policy.activated", Some(run(1)), None),
        ("control.applied", None, None),
        ("policy.activated", None, None),
        ("writer.started", None, None),
    ];
    let first = batch(&leased.head, &lines);
    store.append(&leased.key, &leased.head, &first).await.unwrap();
    let beats = beats(&first.head, 1100);
    store.append(&leased.key, &first.head, &beats).await.unwrap();
    // Another chain of the same store.
    let mut elsewhere = request(2);
    elsewhere.pool = "a/b".into();
    let other = store.lease(&elsewhere).await.unwrap();
    let theirs = batch(&other.head, &[("policy.activated", None, None)]);
    store.append(&other.key, &other.head, &theirs).await.unwrap();

    let two: &[&str] = &["policy.activated", "writer.started"];
    let cases: [LoneCase<'_>; 7] = [
        (two, 2000, 9, &[0, 1, 5, 6]),
        (two, 2000, 2, &[5, 6]),
        (two, 6, 9, &[0, 1, 5]),
        (two, 6, 1, &[5]),
        (two, 0, 9, &[]),
        (&["control.applied"], 1000, 9, &[4]),
        (&[], 1000, 9, &[]),
    ];
    let reader = rig.reader().await;
    for (kinds, before, limit, wanted) in cases {
        let range = EntryRange::Lone(kinds, before, limit);
        let found = store.select(&leased.key, range).await.unwrap();
        assert_eq!(
            found.iter().map(|row| row.seq).collect::<Vec<_>>(),
            wanted,
            "{kinds:?} {before}"
        );
        let range = EntryRange::Lone(kinds, before, limit);
        assert_eq!(reader.select(&leased.key.chain, range).await.unwrap(), found);
    }
}

async fn a_payload_is_found_from_every_entry_of_its_call(rig: Rig) {
    let store = rig.store().await;
    let leased = lease(&*store, 1).await;
    let held = [("run.opened", Some(run(1)), None), ("call.held", Some(run(1)), Some("a"))];
    let small = payload(b"{\"held\":1}");
    let first = with(batch(&leased.head, &held), &small);
    store.append(&leased.key, &leased.head, &first).await.unwrap();
    let many = beats(&first.head, 1024);
    store.append(&leased.key, &first.head, &many).await.unwrap();
    let lines = [
        ("call.authorized", Some(run(1)), Some("a")),
        ("call.authorized", Some(run(1)), Some("b")),
    ];
    let last = batch(&many.head, &lines);
    store.append(&leased.key, &many.head, &last).await.unwrap();
    for entry in [1, 1026] {
        let at = PayloadRef::of(entry, &small.commitment);
        assert_eq!(
            store.payload(&leased.key, &at).await.unwrap().as_ref(),
            Some(&small),
            "{entry}"
        );
    }
}

async fn payloads_are_kept_once_and_by_chain(rig: Rig) {
    let store = rig.store().await;
    let leased = lease(&*store, 1).await;
    let small = payload(b"{\"a\":\"it's \\ \\u0000 \"}");
    let first = with(beats(&leased.head, 1), &small);
    store.append(&leased.key, &leased.head, &first).await.unwrap();
    let large = payload(&vec![0xA5; 1024 * 1024]);
    store.put_payload(&leased.key, &large).await.unwrap();
    store.put_payload(&leased.key, &large).await.unwrap();
    // A batch may carry what was stored before.
    let second = with(beats(&first.head, 1), &small);
    store.append(&leased.key, &first.head, &second).await.unwrap();
    let refs = |c: &Digest| [PayloadRef::of(0, c), PayloadRef::anywhere(c)];
    for wanted in [&small, &large] {
        for at in refs(&wanted.commitment) {
            let found = store.payload(&leased.key, &at).await.unwrap();
            assert_eq!(found.as_ref(), Some(wanted), "{at:?}");
        }
    }
    for at in refs(&leased.head.hash) {
        assert_eq!(store.payload(&leased.key, &at).await.unwrap(), None);
    }

    let mut elsewhere = request(2);
    elsewhere.pool = "ns/other".into();
    let other = store.lease(&elsewhere).await.unwrap();
    for at in refs(&small.commitment) {
        assert_eq!(store.payload(&other.key, &at).await.unwrap(), None);
    }
}

async fn a_reader_sees_everything(rig: Rig) {
    let store = rig.store().await;
    let leased = lease(&*store, 1).await;
    let lines = [
        ("chain.genesis", None, None),
        ("writer.started", None, None),
        ("run.opened", Some(run(1)), None),
        ("call.denied", Some(run(1)), Some("a")),
    ];
    let first = with(batch(&leased.head, &lines), &payload(b"[1]"));
    store.append(&leased.key, &leased.head, &first).await.unwrap();
    let second = beats(&first.head, 2);
    store.append(&leased.key, &first.head, &second).await.unwrap();
    let mut elsewhere = request(2);
    elsewhere.pool = "a/b".into();
    let other = store.lease(&elsewhere).await.unwrap();

    let reader = rig.reader().await;
    let chain = leased.key.chain;
    let chains = reader.chains().await.unwrap();
    let origins: Vec<&str> = chains.iter().map(|c| c.origin.as_str()).collect();
    assert_eq!(origins, [other.origin.as_str(), leased.origin.as_str()]);
    assert_eq!((chains[1].chain, chains[1].epoch), (chain, 1));
    assert_eq!((chains[1].tenant.as_str(), chains[1].slot.as_str()), ("default", "local/0"));
    assert_eq!(chains[1].head, second.head);
    let all = [first.entries.clone(), second.entries.clone()].concat();
    assert_eq!(reader.entries(&chain, 1, 3).await.unwrap(), all[1..4]);
    assert_eq!(reader.find_run(&run(1)).await.unwrap(), Some(chain));
    assert_eq!(reader.find_run(&run(2)).await.unwrap(), None);
    assert_eq!(reader.run_entries(&chain, &run(1)).await.unwrap(), all[2..4]);
    let lone = reader.entries_of(&chain, &["writer.started", "heartbeat", "run.opened"]).await;
    let places: Vec<u64> = lone.unwrap().iter().map(|row| row.seq).collect();
    assert_eq!(places, [1, 4, 5]);
    assert_eq!(reader.entries_of(&chain, &[]).await.unwrap(), []);
    let leaves: Vec<_> = all.iter().take(5).map(|row| row.leaf).collect();
    assert_eq!(reader.leaf_hashes(&chain, 5).await.unwrap(), leaves);
    let (seq, stored) = &first.payloads[0];
    let at = PayloadRef::of(*seq, &stored.commitment);
    assert_eq!(reader.payload(&chain, &at).await.unwrap().as_ref(), Some(stored));
    assert_eq!(reader.payload(&other.key.chain, &at).await.unwrap(), None);
    let note = |b: &Batch| Some((b.head.size, b.head.checkpoint.clone()));
    assert_eq!(reader.checkpoint(&chain, 0).await.unwrap(), note(&first));
    assert_eq!(reader.checkpoint(&chain, 4).await.unwrap(), note(&first));
    assert_eq!(reader.checkpoint(&chain, 5).await.unwrap(), note(&second));
    assert_eq!(reader.checkpoint(&chain, 7).await.unwrap(), None);
}

async fn a_malformed_batch_is_refused_before_it_is_written(rig: Rig) {
    let store = rig.store().await;
    let leased = lease(&*store, 1).await;
    let good = beats(&leased.head, 2);
    let mut flawed: Vec<Arc<Batch>> = (0..5).map(|_| Arc::clone(&good)).collect();
    Arc::make_mut(&mut flawed[0]).entries.clear();
    Arc::make_mut(&mut flawed[1]).entries[1].seq = 7;
    Arc::make_mut(&mut flawed[2]).entries[1].prev = leased.head.hash;
    Arc::make_mut(&mut flawed[3]).entries[0].body.push(b' ');
    Arc::make_mut(&mut flawed[4]).head.size = 9;
    for batch in flawed {
        let answer = store.append(&leased.key, &leased.head, &batch).await;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
    assert_eq!(store.tail(&leased.key, 0, 9).await.unwrap(), []);
    store.append(&leased.key, &leased.head, &good).await.unwrap();
}

async fn a_full_batch_fits(rig: Rig) {
    let store = rig.store().await;
    let mut long = request(1);
    long.term = LONG;
    let leased = store.lease(&long).await.unwrap();
    let full = beats(&leased.head, 1024);
    store.append(&leased.key, &leased.head, &full).await.unwrap();
    assert_eq!(store.tail(&leased.key, 0, 2000).await.unwrap(), full.entries);
}

async fn a_caller_that_goes_away_leaves_all_or_nothing(rig: Rig) {
    let store = rig.store().await;
    let leased = lease(&*store, 1).await;
    let mut head = leased.head.clone();
    for polls in [0, 1, 2, 3, 5, 8, 13, 50, 400] {
        let next = with(beats(&head, 3), &payload(format!("{polls}").as_bytes()));
        let gone = async {
            for _ in 0..polls {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            _ = store.append(&leased.key, &head, &next) => {}
            () = gone => {}
        }
        let found = store.head(&leased.key).await.unwrap();
        assert!(found == head || found == next.head, "{found:?}");
        // The same bytes again settle it, whatever became of the first.
        store.append(&leased.key, &head, &next).await.unwrap();
        head = next.head.clone();
    }
    assert_eq!(store.tail(&leased.key, 0, 99).await.unwrap().len(), 27);
}

async fn fleet(store: &dyn LedgerStore, n: u8) -> Result<Leased, StoreError> {
    store.lease(&LeaseRequest { pool: "fleet".into(), ..request(n) }).await
}

async fn the_fleet_log_is_one_slot_and_a_second_newcomer_waits(rig: Rig) {
    let store = rig.store().await;
    let first = fleet(&*store, 1).await.unwrap();
    assert_eq!(first.origin, "wicketgate.dev/default/fleet");
    // SQLite's own lock file keeps the second one out before it comes here.
    if rig.many_writers() {
        let second = fleet(&*rig.store().await, 2).await;
        assert!(matches!(second, Err(StoreError::Conflict(_))), "{second:?}");
    }
    store.release(&first.key).await.unwrap();
    let again = fleet(&*store, 3).await.unwrap();
    assert_eq!((again.origin, again.key.chain), (first.origin, first.key.chain));
}

/// Real entries, as the fleet log has them.
fn entries(head: &HeadRow, key: &LeaseKey, drafts: Vec<Draft>) -> Arc<Batch> {
    let mut chain = Chain::resume(key.chain, key.epoch, Boot::from_random([0; 4]), head).unwrap();
    let moment = Moment { wall: Timestamp::from_millis(1_700_000_000_000), mono: 1 };
    let rows = drafts.into_iter().map(|draft| chain.extend(draft, moment).unwrap().0);
    let entries = rows.collect();
    let checkpoint = format!("note of {}\n", chain.size());
    Arc::new(Batch { entries, payloads: Vec::new(), head: chain.head(checkpoint) })
}

fn recorded(log: &str, chain: &ChainId, size: u64) -> Draft {
    Draft::of(body(
        Kind::ChainCheckpoint,
        &Json::object([
            ("log", Json::from(log)),
            ("chain", Json::from(chain.to_string())),
            ("size", Json::from(size)),
            ("root", Json::from("ab".repeat(32))),
            ("epoch", Json::from(1_u64)),
        ]),
    ))
}

async fn what_the_fleet_log_says_of_a_log_is_found_and_anchors_are_kept(rig: Rig) {
    let store = rig.store().await;
    let mine = lease(&*store, 1).await;
    let batch = beats(&mine.head, 2);
    store.append(&mine.key, &mine.head, &batch).await.unwrap();
    let nobody = ChainId::from_bytes([9; 16]);
    let view = store.fleet_view(&mine.key, Some(&nobody)).await.unwrap();
    assert_eq!(view, FleetView { fleet: None, forgotten: true, entries: Vec::new() });
    let log = fleet(&*store, 2).await.unwrap();
    let drafts = vec![
        recorded(&mine.origin, &mine.key.chain, 1),
        recorded("wicketgate.dev/default/local/0/00", &nobody, 7),
        recorded(&mine.origin, &mine.key.chain, 2),
        recorded("wicketgate.dev/default/local/1/0", &nobody, 9),
    ];
    let written = entries(&log.head, &log.key, drafts);
    store.append(&log.key, &log.head, &written).await.unwrap();
    let view = store.fleet_view(&mine.key, Some(&log.key.chain)).await.unwrap();
    assert_eq!(view.fleet, Some((log.origin.clone(), 4)));
    assert_eq!((view.forgotten, view.entries), (false, vec![written.entries[2].body.clone()]));
    let leaves: Vec<_> = written.entries.iter().map(|entry| entry.leaf).collect();
    assert_eq!(store.fleet_leaves(&mine.key, 0, 10).await.unwrap(), leaves);
    assert_eq!(store.fleet_leaves(&mine.key, 1, 2).await.unwrap(), leaves[1..3]);
    assert_eq!(store.signed_at(&mine.key, 2).await.unwrap(), Some(batch.head.checkpoint.clone()));
    assert_eq!(store.signed_at(&mine.key, 1).await.unwrap(), None);

    let anchor = |size: u64, note: &str| AnchorRow {
        size,
        note: note.into(),
        tokens: vec![vec![0, 255, 1], Vec::new()],
    };
    store.put_anchor(&log.key, &anchor(2, "first")).await.unwrap();
    store.put_anchor(&log.key, &anchor(4, "second")).await.unwrap();
    store.put_anchor(&log.key, &anchor(4, "cosigned \\ it's")).await.unwrap();
    let reader = rig.reader().await;
    let all = vec![anchor(2, "first"), anchor(4, "cosigned \\ it's")];
    assert_eq!(reader.anchors(&log.origin, 0, 9).await.unwrap(), all);
    assert_eq!(reader.anchors(&log.origin, 3, 9).await.unwrap(), all[1..]);
    assert_eq!(reader.anchors(&log.origin, 0, 1).await.unwrap(), all[..1]);
    assert_eq!(reader.newest_anchor(&log.origin).await.unwrap().as_ref(), all.last());
    assert_eq!(reader.newest_anchor(&mine.origin).await.unwrap(), None);
    let said =
        reader.newest_in_fleet_log("default", &mine.origin, "chain.checkpoint").await.unwrap();
    assert_eq!(said.as_ref(), Some(&written.entries[2]));
    assert_eq!(
        reader.newest_in_fleet_log("other", &mine.origin, "chain.checkpoint").await.unwrap(),
        None
    );
    let retired =
        reader.newest_in_fleet_log("default", &mine.origin, "chain.retired").await.unwrap();
    assert_eq!(retired, None);
}

fn next(mine: &Leased, n: u8, number: u64) -> Restart {
    let key = LeaseKey { chain: ChainId::from_bytes([n; 16]), epoch: 1, secret: [n; 32] };
    let empty = HeadRow {
        size: 0,
        hash: Entry::genesis_prev(&key.chain),
        frontier: Vec::new(),
        checkpoint: String::new(),
    };
    let origin = format!("wicketgate.dev/default/{}/{number}", mine.slot);
    let batch = batch(&empty, &[("chain.genesis", None, None), ("writer.stopped", None, None)]);
    Restart { key, n: number, origin, batch: Arc::unwrap_or_clone(batch) }
}

async fn a_slot_goes_on_under_the_next_name_or_not_at_all(rig: Rig) {
    let store = rig.store().await;
    let mine = lease(&*store, 1).await;
    let first = beats(&mine.head, 3);
    store.append(&mine.key, &mine.head, &first).await.unwrap();
    let mut stolen = mine.key.clone();
    stolen.secret = [7; 32];
    assert!(store.restart(&stolen, &next(&mine, 2, 1)).await.is_err());
    assert!(store.restart(&mine.key, &next(&mine, 2, 0)).await.is_err(), "the name is taken");
    let reader = rig.reader().await;
    assert_eq!(reader.chains().await.unwrap().len(), 1, "nothing was changed");

    let other = next(&mine, 2, 1);
    store.restart(&mine.key, &other).await.unwrap();
    let rows = reader.chains().await.unwrap();
    let names: Vec<_> = rows.iter().map(|row| (row.origin.as_str(), row.head.size)).collect();
    assert_eq!(names, [(mine.origin.as_str(), 3), (other.origin.as_str(), 2)]);
    assert_eq!(reader.entries(&mine.key.chain, 0, 9).await.unwrap(), first.entries);
    let late = store.append(&mine.key, &first.head, &beats(&first.head, 1)).await;
    assert!(matches!(late, Err(StoreError::Conflict(_))), "{late:?}");
    // Whoever takes the slot takes the chain in force.
    let again = lease(&*store, 3).await;
    assert_eq!((again.origin.as_str(), again.key.chain), (other.origin.as_str(), other.key.chain));
    assert_eq!(again.head, other.batch.head);
    store.append(&again.key, &again.head, &beats(&again.head, 1)).await.unwrap();
}

async fn a_writer_whose_secret_is_not_known_comes_back_to_its_chain(rig: Rig) {
    if !rig.many_writers() {
        return;
    }
    let store = rig.store().await;
    let (zero, one) = (lease(&*store, 1).await, lease(&*store, 2).await);
    assert_eq!(one.slot, "local/1");
    store.release(&zero.key).await.unwrap();
    store.release(&one.key).await.unwrap();
    let mut before = one.key.clone();
    before.secret = [99; 32];
    let again = store.lease(&LeaseRequest { previous: Some(before), ..request(3) }).await.unwrap();
    assert_eq!((again.key.chain, again.same_writer), (one.key.chain, false));
}
