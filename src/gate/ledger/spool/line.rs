//! The lines of the spool, one for each batch.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::domain::digest::{Digest, commitment};
use crate::domain::id::{ChainId, Seq};
use crate::domain::json::{Json, Limits};
use crate::ledger::store::{Batch, EntryRow, HeadRow, PayloadRow, row_of};
use crate::record::{Entry, Hex};

/// A batch as its line has it.
pub(super) fn batch_json(chain: &ChainId, batch: &Batch) -> Json {
    let entries: Vec<Json> =
        batch.entries.iter().map(|row| Json::from(STANDARD.encode(&row.body))).collect();
    let payloads: Vec<Json> = batch
        .payloads
        .iter()
        .map(|(_, p)| {
            Json::object([
                ("c", Json::from(p.commitment.hex())),
                ("salt", Json::from(hex::encode(p.salt))),
                ("role", Json::from(p.role.as_str())),
                ("media_type", Json::from(p.media_type.as_str())),
                ("body", Json::from(STANDARD.encode(&p.body))),
            ])
        })
        .collect();
    Json::object([
        ("chain", Json::from(chain.to_string())),
        ("entries", entries.into()),
        ("payloads", payloads.into()),
        ("frontier", Json::from(hex::encode(&batch.head.frontier))),
        ("checkpoint", Json::from(batch.head.checkpoint.as_str())),
    ])
}

#[derive(Deserialize)]
struct BatchLine<'a> {
    chain: ChainId,
    #[serde(borrow)]
    entries: Vec<&'a str>,
    #[serde(borrow)]
    payloads: Vec<PayloadLine<'a>>,
    frontier: &'a str,
    checkpoint: String,
}

#[derive(Deserialize)]
struct PayloadLine<'a> {
    /// Absent in lines of an earlier version, which committed to the payload as one piece.
    c: Option<Digest>,
    salt: Hex<32>,
    role: String,
    media_type: String,
    body: &'a str,
}

/// Parses the line of a batch; `None` for another line.
pub(super) fn read_batch(line: &[u8]) -> Option<(ChainId, Batch)> {
    let json = Json::parse(line, &Limits::FILE).ok()?;
    let line: BatchLine<'_> = json.read().ok()?;
    let mut committed: BTreeMap<Digest, Seq> = BTreeMap::new();
    let entries = line.entries.into_iter().map(|text| read_row(text, &mut committed));
    let entries: Vec<EntryRow> = entries.collect::<Option<_>>()?;
    let last = entries.last()?;
    let payloads = line.payloads.into_iter().map(|line| {
        let row = read_payload(line)?;
        Some((committed.get(&row.commitment).copied().unwrap_or(last.seq), row))
    });
    let payloads: Vec<(Seq, PayloadRow)> = payloads.collect::<Option<_>>()?;
    let head = HeadRow {
        size: last.seq.checked_add(1)?,
        hash: last.leaf,
        frontier: hex::decode(line.frontier).ok()?,
        checkpoint: line.checkpoint,
    };
    Some((line.chain, Batch { entries, payloads, head }))
}

/// One entry; notes what it commits to.
fn read_row(text: &str, committed: &mut BTreeMap<Digest, Seq>) -> Option<EntryRow> {
    let body = STANDARD.decode(text).ok()?;
    let entry = Entry::parse(&body).ok()?;
    for one in &entry.draft.commit {
        committed.entry(one.c.0).or_insert(entry.seq);
    }
    Some(row_of(&entry, Entry::leaf(&body), body))
}

fn read_payload(line: PayloadLine<'_>) -> Option<PayloadRow> {
    let PayloadLine { c, salt, role, media_type, body } = line;
    let body = STANDARD.decode(body).ok()?;
    let c = c.unwrap_or_else(|| commitment(&salt.0, &body));
    Some(PayloadRow { commitment: c, salt: salt.0, role, media_type, body })
}
