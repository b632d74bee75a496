//! What a bundle shows of the tenant's fleet log: the entries that vouch for its chains, and those about
//! what happened to them from outside.

use std::collections::{BTreeMap, BTreeSet};

use super::bundle::FLEET;
use super::payloads::Payloads;
use super::query::Query;
use super::scope::{Span, Strand};
use super::{Error, gather};
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::json::Json;
use crate::ledger::entry::Kind;
use crate::ledger::fleet;
use crate::ledger::store::{ChainRow, EntryRow, LedgerReader};
use crate::ledger::verify::Line;

/// Rows fetched at a time.
const PAGE: u32 = 1000;

/// The fleet log as a bundle has it, and the heads of the bundle's chains that it records.
#[derive(Debug)]
pub struct Shown<'a> {
    /// Its entries.
    pub strand: Strand,
    /// Its row in the ledger.
    pub row: &'a ChainRow,
    /// By log: sizes whose consistency with the bundle's checkpoint has to be shown.
    pub heads: BTreeMap<String, BTreeSet<Seq>>,
}

/// Picks the entries; `None` if the tenant has no fleet log.
///
/// # Errors
/// The ledger cannot be read, or the fleet log is damaged.
pub async fn show<'a>(
    reader: &dyn LedgerReader,
    chains: &'a [ChainRow],
    tenant: &str,
    query: &Query,
    (strands, payloads): (&[Strand], &Payloads),
) -> Result<Option<Shown<'a>>, Error> {
    let origin = fleet::origin(tenant);
    let row = chains.iter().find(|row| row.origin == origin && row.head.size > 0);
    let Some(row) = row else { return Ok(None) };
    let lines = whole(reader, row).await?;
    let mut picked = BTreeSet::new();
    let mut heads = BTreeMap::new();
    for strand in strands {
        let found = vouching(&lines, strand);
        heads.insert(strand.origin().to_owned(), found.sizes);
        picked.extend(found.seqs);
    }
    let strand = match query {
        Query::Population(filter) if filter.chains.is_empty() => {
            let span = Span { from: 0, to: row.head.size };
            gather::span(reader, row, span, false, FLEET.to_owned()).await?
        }
        Query::Population(_) | Query::Range { .. } | Query::Run(_) => {
            let told = lines.iter().filter(|line| concerns(line, query, strands, payloads));
            picked.extend(told.map(|line| line.entry.seq));
            gather::picked(row, FLEET.to_owned(), lines, &picked)?
        }
    };
    Ok(Some(Shown { strand, row, heads }))
}

async fn whole(reader: &dyn LedgerReader, row: &ChainRow) -> Result<Vec<Line>, Error> {
    let mut lines = Vec::new();
    let mut at = 0;
    while at < row.head.size {
        let rows = reader.entries(&row.chain, at, PAGE).await?;
        let rows: Vec<EntryRow> = rows.into_iter().filter(|r| r.seq < row.head.size).collect();
        let Some(last) = rows.last() else { break };
        at = last.seq.saturating_add(1);
        lines.extend(gather::read(&rows)?);
    }
    Ok(lines)
}

#[derive(Default)]
struct Vouching {
    seqs: Vec<Seq>,
    sizes: BTreeSet<Seq>,
}

/// The chain's enrolment, its oldest recorded head beyond what was asked for, its newest, and the first
/// anchors after the former: the earliest time at which somebody else had seen it.
fn vouching(lines: &[Line], strand: &Strand) -> Vouching {
    let origin = strand.origin();
    let size = strand.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.size);
    let needed = strand.asked().last().map_or(0, |line| line.entry.seq.saturating_add(1));
    let of_log = |line: &&Line| line.text("log") == Some(origin);
    let mut found = Vouching::default();
    let enrolled = lines.iter().filter(|line| line.is(Kind::ChainEnrolled)).filter(of_log);
    found.seqs.extend(enrolled.map(|line| line.entry.seq));
    let number = |line: &Line, name| line.entry.draft.data.get(name).and_then(Json::as_u64);
    let heads: Vec<(&Line, Seq)> = lines
        .iter()
        .filter(|line| line.is(Kind::ChainCheckpoint))
        .filter(of_log)
        .filter_map(|line| Some((line, number(line, "size").filter(|n| (1..=size).contains(n))?)))
        .collect();
    let first = heads.iter().find(|(_, size)| *size >= needed);
    for (line, size) in first.into_iter().chain(heads.last()) {
        found.seqs.push(line.entry.seq);
        found.sizes.insert(*size);
    }
    if let Some((head, _)) = first {
        let mut seen = BTreeSet::new();
        for line in lines.iter().filter(|line| line.is(Kind::AnchorObserved)) {
            let after = number(line, "size").is_some_and(|size| size > head.entry.seq);
            if after && seen.insert((line.text("source"), line.text("name"))) {
                found.seqs.push(line.entry.seq);
            }
        }
    }
    found
}

/// Whether an entry tells of keys, of a chain's end, or of something done to what the bundle is about.
fn concerns(line: &Line, query: &Query, strands: &[Strand], payloads: &Payloads) -> bool {
    let of_log = || strands.iter().any(|strand| line.text("log") == Some(strand.origin()));
    match line.entry.draft.kind {
        _ if line.unknown.is_some() => false,
        Kind::KeyRotated | Kind::KeyRevoked | Kind::ChainRetired => true,
        Kind::PayloadErased => {
            let list = line.entry.draft.data.get("c").and_then(Json::as_array).unwrap_or_default();
            let mut erased = list.iter().filter_map(|c| c.as_str().and_then(Digest::parse));
            erased.any(|c| payloads.0.contains_key(&c))
        }
        Kind::HoldPlaced | Kind::HoldLifted => {
            let run = line.text("run");
            let held = |id: &str| {
                let runs = strands.iter().flat_map(|strand| strand.runs());
                runs.into_iter().any(|(run, _)| run.to_string() == id)
            };
            of_log() && run.is_none_or(held)
        }
        Kind::RetentionPruned => of_log(),
        Kind::EvidenceExported => same(line, query),
        _ => false,
    }
}

/// Whether an export was of the same run, log or kind of population.
fn same(line: &Line, query: &Query) -> bool {
    let settings = line.entry.draft.data.get("query").and_then(Json::as_array).unwrap_or_default();
    let has = |k: &str, v: &str| {
        let is =
            |setting: &Json, name, text| setting.get(name).and_then(Json::as_str) == Some(text);
        settings.iter().any(|setting| is(setting, "k", k) && is(setting, "v", v))
    };
    match query {
        Query::Run(run) => has("run", &run.to_string()),
        Query::Range { log, .. } => has("log", log),
        Query::Population(_) => has("scope", "population"),
    }
}
