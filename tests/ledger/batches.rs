//! Well-formed batches, keys and requests to try the stores with.

use std::sync::Arc;
use std::time::Duration;

use wicketgate::crypto::merkle;
use wicketgate::domain::digest::{Digest, commitment};
use wicketgate::domain::id::{CallId, ChainId, RunId};
use wicketgate::ledger::store::{
    Batch, EntryRow, HeadRow, LeaseRequest, Leased, LedgerStore, PayloadRow,
};

/// A lease that does not run out during a test.
pub const LONG: Duration = Duration::from_secs(600);

/// A request of writer `n` of the pool `local`.
pub fn request(n: u8) -> LeaseRequest {
    LeaseRequest {
        tenant: "default".into(),
        pool: "local".into(),
        writer: format!("host-{n}"),
        previous: None,
        secret: [n; 32],
        chain: ChainId::from_bytes([n; 16]),
        term: LONG,
    }
}

/// Takes a slot as writer `n`.
pub async fn lease(store: &dyn LedgerStore, n: u8) -> Leased {
    store.lease(&request(n)).await.expect("lease")
}

pub fn run(n: u8) -> RunId {
    RunId::from_random([n; 16])
}

pub fn call(text: &str) -> CallId {
    CallId::parse(text).unwrap()
}

/// An entry still without its place.
pub type Line<'a> = (&'a str, Option<RunId>, Option<&'a str>);

/// A batch of these entries after `head`.
pub fn batch(head: &HeadRow, lines: &[Line<'_>]) -> Arc<Batch> {
    let (mut seq, mut prev) = (head.size, head.hash);
    let mut entries = Vec::new();
    for (kind, run, call_id) in lines {
        let body = format!("{{\"kind\":\"{kind}\",\"seq\":{seq},\"it's\":\"\\\\\"}}").into_bytes();
        let leaf = merkle::leaf_hash(&body);
        entries.push(EntryRow {
            seq,
            prev,
            leaf,
            run: *run,
            call: call_id.map(call),
            kind: (*kind).to_owned(),
            body,
        });
        (seq, prev) = (seq + 1, leaf);
    }
    let head = HeadRow {
        size: seq,
        hash: prev,
        frontier: prev.as_bytes().repeat(2),
        checkpoint: format!("origin's \"name\" \\ \n{seq}\n\n— key {}\n", prev.hex()),
    };
    Arc::new(Batch { entries, payloads: Vec::new(), head })
}

/// A batch of `count` heartbeats after `head`.
pub fn beats(head: &HeadRow, count: usize) -> Arc<Batch> {
    batch(head, &vec![("heartbeat", None, None); count])
}

/// The batch with this payload, which its last entry commits to.
pub fn with(mut batch: Arc<Batch>, payload: &PayloadRow) -> Arc<Batch> {
    let last = batch.head.size - 1;
    Arc::make_mut(&mut batch).payloads.push((last, payload.clone()));
    batch
}

/// A payload of these bytes.
pub fn payload(body: &[u8]) -> PayloadRow {
    let salt = *Digest::of(&[b"salt", body]).as_bytes();
    PayloadRow {
        commitment: commitment(&salt, body),
        salt,
        role: "args".into(),
        media_type: "application/json".into(),
        body: body.to_vec(),
    }
}
