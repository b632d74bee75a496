use proptest::prelude::*;

use super::*;
use crate::ledger::store::EntryRow;
use crate::record::chain::Heartbeat;
use crate::record::{Boot, Draft, Kind};

const CHAIN: ChainId = ChainId::from_bytes([7; 16]);
const KEY: LeaseKey = LeaseKey { chain: CHAIN, epoch: 1, secret: [1; 32] };

/// A batch of one heartbeat that ends at this size.
fn batch(size: u64) -> Batch {
    let entry = Entry {
        chain: CHAIN,
        epoch: 1,
        seq: size - 1,
        prev: Digest::from_bytes([0; 32]),
        ts: crate::domain::time::Timestamp::from_millis(1),
        boot: Boot::from_random([0; 4]),
        mono: 0,
        run: None,
        draft: Draft::of(Heartbeat { open_runs: 0_u64.into(), rejected: None }),
    };
    let body = entry.bytes();
    let leaf = Entry::leaf(&body);
    let row = EntryRow {
        seq: entry.seq,
        prev: entry.prev,
        leaf,
        run: None,
        call: None,
        kind: Kind::Heartbeat.as_str().into(),
        body,
    };
    let head = HeadRow { size, hash: leaf, frontier: Vec::new(), checkpoint: String::new() };
    Batch { entries: vec![row], payloads: Vec::new(), head }
}

fn ends(batch: Option<Batch>) -> Option<u64> {
    batch.map(|batch| batch.head.size)
}

#[test]
fn a_batch_is_unsettled_until_it_is_marked_as_settled() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(dir.path()).unwrap();
    assert_eq!(spool.unsettled(&CHAIN).unwrap(), None);
    spool.keep(&KEY, &batch(1)).unwrap();
    assert_eq!(ends(spool.unsettled(&CHAIN).unwrap()), Some(1));
    spool.settled(&CHAIN, 1).unwrap();
    assert_eq!(spool.unsettled(&CHAIN).unwrap(), None);
    spool.keep(&KEY, &batch(2)).unwrap();
    spool.settled(&CHAIN, 1).unwrap();
    assert_eq!(ends(spool.unsettled(&CHAIN).unwrap()), Some(2), "a word about another batch");
    assert_eq!(Spool::open(dir.path()).unwrap().since(&CHAIN, 0).unwrap().len(), 2);
}

#[test]
fn a_withdrawn_batch_is_forgotten_and_one_the_ledger_has_never_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(dir.path()).unwrap();
    spool.keep(&KEY, &batch(1)).unwrap();
    spool.settled(&CHAIN, 1).unwrap();
    for _each_try in 0..3 {
        spool.keep(&KEY, &batch(2)).unwrap();
    }
    spool.withdraw(&CHAIN, 2).unwrap();
    let again = Spool::open(dir.path()).unwrap();
    let kept = again.since(&CHAIN, 0).unwrap();
    assert_eq!(kept.iter().map(|batch| batch.head.size).collect::<Vec<_>>(), [1]);
    assert_eq!(again.unsettled(&CHAIN).unwrap(), None);
}

#[test]
fn few_of_the_batches_that_are_kept_make_the_file_longer() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(dir.path()).unwrap();
    let mut lengths = std::collections::BTreeSet::new();
    for size in 1..=200 {
        spool.keep(&KEY, &batch(size)).unwrap();
        spool.settled(&CHAIN, size).unwrap();
        lengths.insert(std::fs::metadata(dir.path().join("current.spool")).unwrap().len());
    }
    assert!(lengths.len() <= 6, "{lengths:?}");
    assert_eq!(Spool::open(dir.path()).unwrap().since(&CHAIN, 0).unwrap().len(), 200);
}

#[test]
fn a_gate_that_starts_again_and_again_takes_little_of_the_spool() {
    let dir = tempfile::tempdir().unwrap();
    for size in 1..=20 {
        Spool::open(dir.path()).unwrap().keep(&KEY, &batch(size)).unwrap();
    }
    let length = std::fs::metadata(dir.path().join("current.spool")).unwrap().len();
    assert!(length <= 20 * 16 * 1024, "{length} bytes for twenty batches");
    assert_eq!(Spool::open(dir.path()).unwrap().since(&CHAIN, 0).unwrap().len(), 20);
}

#[test]
fn a_batch_longer_than_the_space_that_waits_is_kept_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(dir.path()).unwrap();
    for size in 1..6 {
        let mut large = batch(size);
        large.payloads.push((
            size - 1,
            crate::ledger::store::PayloadRow {
                commitment: crate::domain::digest::commitment(&[0; 32], b"x"),
                salt: [0; 32],
                role: "result".into(),
                media_type: "text/plain".into(),
                body: vec![b'x'; 900_000],
            },
        ));
        spool.keep(&KEY, &batch(size)).unwrap();
        spool.keep(&KEY, &large).unwrap();
    }
    let kept = Spool::open(dir.path()).unwrap().since(&CHAIN, 0).unwrap();
    let found: Vec<_> = kept.iter().map(|kept| (kept.head.size, kept.payloads.len())).collect();
    assert_eq!(found, [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]);
}

#[test]
fn a_writer_that_was_replaced_writes_over_nothing_of_its_successor() {
    let dir = tempfile::tempdir().unwrap();
    let mut old = Spool::open(dir.path()).unwrap();
    old.keep(&KEY, &batch(1)).unwrap();
    let mut new = Spool::open(dir.path()).unwrap();
    for size in 2..4 {
        new.keep(&KEY, &batch(size)).unwrap();
        old.keep(&KEY, &batch(1)).unwrap();
    }
    assert_eq!(ends(new.unsettled(&CHAIN).unwrap()), Some(3));
    let sizes = |spool: &Spool| -> Vec<u64> {
        spool.since(&CHAIN, 1).unwrap().iter().map(|batch| batch.head.size).collect()
    };
    assert_eq!(sizes(&Spool::open(dir.path()).unwrap()), [2, 3]);
}

#[test]
fn a_file_that_several_replace_at_once_is_replaced_by_each() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("list.sig.json");
    std::thread::scope(|scope| {
        for n in 0..8_u8 {
            let path = &path;
            scope.spawn(move || (0..50).for_each(|_| replace(path, &[n; 64], 0o600).unwrap()));
        }
    });
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!((left.len(), std::fs::read(&path).unwrap().len()), (1, 64));
}

/// What a writer did: kept the batch of this size, or noted something about it.
#[derive(Clone, Copy, Debug)]
enum Step {
    Keep(u8, u64),
    Settle(u8, u64),
    Withdraw(u8, u64),
    Rotate,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..2_u8, 1..6_u64).prop_map(|(chain, size)| Step::Keep(chain, size)),
        2 => (0..2_u8, 1..6_u64).prop_map(|(chain, size)| Step::Settle(chain, size)),
        2 => (0..2_u8, 1..6_u64).prop_map(|(chain, size)| Step::Withdraw(chain, size)),
        1 => Just(Step::Rotate),
    ]
}

proptest! {
    #[test]
    fn the_end_of_a_spool_says_of_its_batches_what_all_of_it_says(
        steps in proptest::collection::vec(any_step(), 0..24),
        window in 1..3000_u64,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path()).unwrap();
        let chain = |n: u8| ChainId::from_bytes([n; 16]);
        for step in &steps {
            match *step {
                Step::Keep(n, size) => {
                    spool.keep(&LeaseKey { chain: chain(n), ..KEY }, &batch(size)).unwrap();
                }
                Step::Settle(n, size) => spool.settled(&chain(n), size).unwrap(),
                Step::Withdraw(n, size) => spool.withdraw(&chain(n), size).unwrap(),
                Step::Rotate => spool.rotate().unwrap(),
            }
        }
        for of in [None, Some(chain(0)), Some(chain(1))] {
            let (all, settled) = spool.read(of.as_ref(), u64::MAX, |_| false).unwrap();
            let some = |batches: &SpooledBatches| !batches.is_empty();
            let (end, said) = spool.read(of.as_ref(), window, some).unwrap();
            prop_assert_eq!(end.back(), all.back());
            prop_assert_eq!(said, settled);
            prop_assert!(all.iter().rev().zip(end.iter().rev()).all(|(a, b)| a == b));
        }
    }
}
