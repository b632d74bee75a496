//! The part of the tenant's fleet log in a bundle: the entries that vouch for its chains, and the
//! entries about what operators did to them.

use std::collections::{BTreeMap, BTreeSet};

use super::bundle::{FLEET, Files};
use super::contents;
use super::payloads::{Payload, Payloads};
use super::query::Query;
use super::scope::{ChainSlice, Span};
use super::{Error, gather, proofs};
use crate::domain::id::Seq;
use crate::ledger::fleet;
use crate::ledger::store::{AnchorRow, ChainRow, EntryRow, LedgerReader};
use crate::ledger::verify::EntryLine;
use crate::record::Kind;
use crate::record::chain::{AnchorObserved, EvidenceExported};
use crate::record::fleet::ChainCheckpoint;
use crate::record::payload::{HoldLifted, HoldPlaced, PayloadErased};

/// Rows fetched at a time.
const PAGE: u32 = 1000;
/// Heads among which the best vouched one is chosen.
const LOOKED_AT: u32 = 16;

/// The fleet log in a bundle, and the heads of the bundle's chains that it records.
#[derive(Debug)]
pub struct FleetEvidence {
    slice: ChainSlice,
    /// Its row in the ledger, with the newest head that others have seen, if any.
    row: ChainRow,
    /// Cosignatures and stamps over its heads, ascending.
    anchors: Vec<AnchorRow>,
    /// By log: sizes whose consistency with the bundle's checkpoint must be proven.
    pub heads: BTreeMap<String, BTreeSet<Seq>>,
}

impl FleetEvidence {
    /// Its entries.
    pub const fn slice(&self) -> &ChainSlice {
        &self.slice
    }
}

/// Picks the entries; `None` if the tenant has no fleet log.
///
/// # Errors
/// The ledger cannot be read, or the fleet log is damaged.
pub async fn show(
    reader: &dyn LedgerReader,
    chains: &[ChainRow],
    tenant: &str,
    query: &Query,
    (slices, payloads): (&[ChainSlice], &Payloads),
) -> Result<Option<FleetEvidence>, Error> {
    let Some(row) = current(chains, tenant) else { return Ok(None) };
    let mut row = row.clone();
    let newest = reader.newest_anchor(&row.origin).await?;
    let seen = newest.as_ref().map_or(0, |newest| newest.size);
    let recent = payloads.0.values().any(|payload| {
        matches!(payload, Payload::Erased { log, seq } if *log == row.origin && *seq >= seen)
    });
    let shown = newest.as_ref().filter(|newest| !recent && newest.size <= row.head.size);
    if let Some(newest) = shown {
        // WHY: only a head that others have seen proves more than the log itself does, so entries
        // after it wait until others have seen them too. An erasure is shown even if no other party
        // has seen it.
        row.head.size = newest.size;
        row.head.checkpoint.clone_from(&newest.note);
    }
    let lines = whole(reader, &row).await?;
    let mut picked = BTreeSet::new();
    let mut heads = BTreeMap::new();
    let wanted = |newest: &AnchorRow| recent || !newest.tokens.is_empty();
    let mut anchors: Vec<AnchorRow> = newest.into_iter().filter(wanted).collect();
    for slice in slices {
        let found = vouching(&lines, slice);
        heads.insert(slice.origin().to_owned(), found.sizes);
        picked.extend(found.seqs);
        let observed = observed(slice, &row.origin).into_iter();
        // The first head that others saw after the chain's was recorded, and the heads the chain
        // saw.
        let after = found.first.map(|place| place.saturating_add(1));
        if let Some(from) = after {
            anchors.extend(telling(reader.anchors(&row.origin, from, LOOKED_AT).await?));
        }
        for from in observed {
            anchors.extend(reader.anchors(&row.origin, from, 1).await?);
        }
    }
    anchors.retain(|anchor| anchor.size <= row.head.size);
    anchors.sort_by_key(|anchor| anchor.size);
    anchors.dedup_by_key(|anchor| anchor.size);
    let slice = match query {
        Query::Population(filter) if filter.chains.is_empty() => {
            let span = Span { from: 0, to: row.head.size };
            gather::span(reader, &row, span, false, FLEET.to_owned()).await?
        }
        Query::Population(_) | Query::Range { .. } | Query::Run(_) => {
            let concerned = lines.iter().filter(|line| concerns(line, query, slices, payloads));
            picked.extend(concerned.map(|line| line.entry.seq));
            gather::picked(reader, &row, FLEET.to_owned(), lines, &picked).await?
        }
    };
    Ok(Some(FleetEvidence { slice, row, anchors, heads }))
}

/// Adds the fleet log's files and the anchors'.
///
/// # Errors
/// The ledger cannot be read, or the fleet log is damaged.
pub async fn put(
    reader: &dyn LedgerReader,
    shown: &FleetEvidence,
    since: &BTreeSet<Seq>,
    files: &mut Files,
) -> Result<(), Error> {
    let FleetEvidence { slice, row, anchors, .. } = shown;
    let sizes = anchors.iter().map(|anchor| anchor.size);
    let sizes = since.iter().copied().chain(sizes).collect();
    let older = proofs::put(reader, (slice, row), &sizes, files).await?;
    let mut number = 0_u64;
    for anchor in anchors {
        // A head without a token is included for its cosignatures; with several, once per token.
        let tokens: Vec<Option<&Vec<u8>>> = match anchor.tokens.as_slice() {
            [] => vec![None],
            tokens => tokens.iter().map(Some).collect(),
        };
        for token in tokens {
            let stem = format!("anchors/{number}");
            number = number.saturating_add(1);
            files.put(format!("{stem}.txt"), anchor.note.as_bytes());
            if let Some(token) = token {
                files.put(format!("{stem}.tsr"), token.clone());
            }
            if let Some(path) = older.get(&anchor.size) {
                let name = format!("{stem}.consistency.json");
                files.put(
                    name,
                    contents::consistency(&BTreeMap::from([(anchor.size, path.clone())])),
                );
            }
        }
    }
    Ok(())
}

/// The first of these heads with the most cosignatures, and the first with a token. A round without
/// answers also stores a head, which then has neither.
fn telling(mut heads: Vec<AnchorRow>) -> Vec<AnchorRow> {
    // The first signature is the log's own.
    let signed = |head: &AnchorRow| head.note.lines().filter(|l| l.starts_with('\u{2014}')).count();
    heads.retain(|head| signed(head) > 1 || !head.tokens.is_empty());
    let most = heads.iter().map(signed).max();
    let cosigned = heads.iter().position(|head| Some(signed(head)) == most);
    let stamped = heads.iter().position(|head| !head.tokens.is_empty());
    let wanted = |at: usize| Some(at) == cosigned || Some(at) == stamped;
    heads.into_iter().enumerate().filter(|(at, _)| wanted(*at)).map(|(_, head)| head).collect()
}

/// The tenant's current fleet log: the one with the largest number.
fn current<'a>(chains: &'a [ChainRow], tenant: &str) -> Option<&'a ChainRow> {
    let fleets = chains.iter().filter(|row| row.head.size > 0);
    fleets.filter(|row| number(row, tenant).is_some()).max_by_key(|row| number(row, tenant))
}

/// The number of this fleet log of the tenant: 0, or more after a restart; `None` for another log.
#[must_use]
pub fn number(row: &ChainRow, tenant: &str) -> Option<u64> {
    match row.origin.strip_prefix(&fleet::origin(tenant))? {
        "" => Some(0),
        rest => rest.strip_prefix('/')?.parse().ok(),
    }
}

/// Sizes of the fleet heads that the chain itself saw.
fn observed(slice: &ChainSlice, fleet: &str) -> BTreeSet<Seq> {
    let seen = slice.lines.iter().filter_map(|line| line.get::<AnchorObserved>());
    seen.filter(|seen| seen.log == fleet).map(|seen| seen.size.get()).collect()
}

async fn whole(reader: &dyn LedgerReader, row: &ChainRow) -> Result<Vec<EntryLine>, Error> {
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

fn erases(line: &EntryLine, payloads: &Payloads) -> bool {
    let erased = line.get::<PayloadErased>();
    erased.is_some_and(|erased| erased.c.iter().any(|c| payloads.0.contains_key(&c.0)))
}

#[derive(Default)]
struct Vouching {
    seqs: Vec<Seq>,
    sizes: BTreeSet<Seq>,
    /// The place of the oldest recorded head beyond the selection.
    first: Option<Seq>,
}

/// The chain's enrolment, its oldest recorded head beyond the selection, its newest head, and the
/// first anchors after the oldest: the earliest time at which another party had seen it.
fn vouching(lines: &[EntryLine], slice: &ChainSlice) -> Vouching {
    let origin = slice.origin();
    let size = slice.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.size);
    let needed = slice.lines.last().map_or(0, |line| line.entry.seq.saturating_add(1));
    let of_log = |line: &&EntryLine| line.log() == Some(origin);
    let mut found = Vouching::default();
    let enrolled = lines.iter().filter(|line| line.is(Kind::ChainEnrolled)).filter(of_log);
    found.seqs.extend(enrolled.map(|line| line.entry.seq));
    let size_of = |line: &EntryLine| Some(line.get::<ChainCheckpoint>()?.size.get());
    let heads: Vec<(&EntryLine, Seq)> = lines
        .iter()
        .filter(|line| line.is(Kind::ChainCheckpoint))
        .filter(of_log)
        .filter_map(|line| Some((line, size_of(line).filter(|n| (1..=size).contains(n))?)))
        .collect();
    let first = heads.iter().find(|(_, size)| *size >= needed);
    for (line, size) in first.into_iter().chain(heads.last()) {
        found.seqs.push(line.entry.seq);
        found.sizes.insert(*size);
    }
    found.first = first.map(|(line, _)| line.entry.seq);
    if let Some((head, _)) = first {
        let mut seen = BTreeSet::new();
        for line in lines {
            let Some(anchor) = line.get::<AnchorObserved>() else { continue };
            let after = anchor.size.get() > head.entry.seq;
            if after && seen.insert((anchor.source, &anchor.name)) {
                found.seqs.push(line.entry.seq);
            }
        }
    }
    found
}

/// Whether an entry is about keys, a chain's end, or an operation on the bundle's content.
fn concerns(line: &EntryLine, query: &Query, slices: &[ChainSlice], payloads: &Payloads) -> bool {
    let of_log = || slices.iter().any(|slice| line.log() == Some(slice.origin()));
    let held = |line: &EntryLine| {
        let placed = line.get::<HoldPlaced>().and_then(|hold| hold.run);
        let run = placed.or_else(|| line.get::<HoldLifted>()?.run);
        let runs = || slices.iter().flat_map(|slice| slice.runs());
        run.is_none_or(|run| runs().any(|(one, _)| *one == run))
    };
    let is = |kinds: &[Kind]| kinds.iter().any(|kind| line.is(*kind));
    is(&[Kind::KeyRotated, Kind::KeyRevoked, Kind::ChainRetired])
        || is(&[Kind::PayloadErased]) && erases(line, payloads)
        || is(&[Kind::HoldPlaced, Kind::HoldLifted]) && of_log() && held(line)
        || is(&[Kind::RetentionPruned]) && of_log()
        || is(&[Kind::EvidenceExported]) && same(line, query)
}

/// Whether an export had the same run, log or kind of population.
fn same(line: &EntryLine, query: &Query) -> bool {
    let Some(exported) = line.get::<EvidenceExported>() else { return false };
    let has = |k: &str, v: &str| exported.query.iter().any(|one| one.k == k && one.v == v);
    match query {
        Query::Run(run) => has("run", &run.to_string()),
        Query::Range { log, .. } => has("log", log),
        Query::Population(_) => has("scope", "population"),
    }
}
