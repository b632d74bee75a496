//! The lines of the spool, one for each batch.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::domain::canonical;
use crate::domain::digest::{Digest, commitment};
use crate::domain::id::{ChainId, Seq};
use crate::domain::json::{Json, Limits};
use crate::ledger::store::{Batch, EntryRow, HeadRow, PayloadRow, row_of};
use crate::record::{Entry, Hex};

/// A batch as its line has it, in canonical form.
pub(super) fn batch_line(chain: &ChainId, batch: &Batch) -> Vec<u8> {
    let bodies = batch.entries.iter().map(|row| row.body.len());
    let kept = batch.payloads.iter().map(|(_, payload)| payload.body.len().saturating_add(256));
    let bytes: usize = bodies.chain(kept).fold(1024, usize::saturating_add);
    let mut line = canonical::Members::with_capacity(bytes.saturating_mul(4).div_ceil(3));
    line.text("chain", &chain.to_string());
    line.text("checkpoint", &batch.head.checkpoint);
    line.written("entries", &encoded(batch.entries.iter().map(|row| row.body.as_slice())));
    line.text("frontier", &hex::encode(&batch.head.frontier));
    line.list("payloads", &batch.payloads, |line, (_, payload)| {
        line.text("body", &STANDARD.encode(&payload.body));
        line.text("c", &payload.commitment.hex());
        line.text("media_type", &payload.media_type);
        line.text("role", &payload.role);
        line.text("salt", &hex::encode(payload.salt));
    });
    line.finish()
}

/// A list of strings in Base64, which needs no escapes.
fn encoded<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut list = String::from("[");
    for (number, text) in texts.enumerate() {
        list.push_str(if number > 0 { ",\"" } else { "\"" });
        STANDARD.encode_string(text, &mut list);
        list.push('"');
    }
    list.push(']');
    list.into_bytes()
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
