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
