//! Reads the entries of a bundle, and the entries that introduce them, through the ledger's reading
//! port.

use std::collections::{BTreeMap, BTreeSet};

use super::Error;
use super::approvals::{break_glass_list, exception_lists, list_of};
use super::projection::decides;
use super::query::Filter;
use super::scope::{CONTEXT, ChainSlice, Span, runs_of};
use crate::crypto::keys::PublicKey;
use crate::domain::digest::Digest;
use crate::domain::id::{RunId, Seq};
use crate::domain::time::Timestamp;
use crate::ledger::store::{ChainRow, EntryRow, LedgerReader, StoreError};
use crate::ledger::verify::announced::Announced;
use crate::ledger::verify::epochs::Epochs;
use crate::ledger::verify::fleet::is_fleet;
use crate::ledger::verify::{Damage, EntryLine};
use crate::record::Kind;
use crate::record::alert::AlertRaised;
use crate::record::approval::{AmendmentApproved, AmendmentProposed, AmendmentRefused};
use crate::record::chain::{Basis, ManifestBound, PolicyActivated, SignerList, SignersBound};
use crate::record::run::RunOpened;

/// Rows fetched at a time.
const PAGE: u32 = 1000;

/// One run of this chain with everything that introduces it.
///
/// # Errors
/// The run does not exist, is incomplete, or is damaged.
pub async fn run(
    reader: &dyn LedgerReader,
    chain: &ChainRow,
    run: &RunId,
    folder: String,
) -> Result<ChainSlice, Error> {
    let mut rows = reader.run_entries(&chain.chain, run).await?;
    rows.retain(|row| row.seq < chain.head.size);
    let mut lines = read(&rows)?;
    let first = lines.first().ok_or_else(|| Error::NoRun(run.to_string()))?;
    if first.entry.run.as_ref().is_none_or(|link| link.seq != 0) {
        return Err(Error::Pruned { log: chain.origin.clone(), from: 0, to: first.entry.seq });
    }
    let asked: BTreeSet<Seq> = lines.iter().map(|line| line.entry.seq).collect();
    lines.extend(context(reader, chain).await?);
    let trusted = announced(reader, chain).await?;
    finish((chain, &trusted), folder, lines, (&asked, BTreeSet::new()), None)
}

/// Every entry of a span of this chain with everything that introduces them.
///
/// `neighbours`: also the entries before and after the span, which show where its ends lie in time.
///
/// # Errors
/// As [`run`].
pub async fn span(
    reader: &dyn LedgerReader,
    chain: &ChainRow,
    span: Span,
    neighbours: bool,
    folder: String,
) -> Result<ChainSlice, Error> {
    let mut lines = Vec::new();
    let mut at = span.from;
    while at < span.to {
        let rows = reader.entries(&chain.chain, at, PAGE).await?;
        let rows: Vec<EntryRow> = rows.into_iter().filter(|row| row.seq < span.to).collect();
        let gap = rows.iter().zip(at..).find(|(row, seq)| row.seq != *seq);
        let gap = gap.map(|(row, seq)| (seq, row.seq)).or(rows.is_empty().then_some((at, span.to)));
        if let Some((from, to)) = gap {
            return Err(Error::Pruned { log: chain.origin.clone(), from, to });
        }
        at = at.saturating_add(u64::try_from(rows.len()).unwrap_or(u64::MAX));
        lines.extend(read(&rows)?);
    }
    let asked: BTreeSet<Seq> = (span.from..span.to).collect();
    let mut extra = BTreeSet::new();
    let mut more = context(reader, chain).await?;
    // Runs that began before the span are introduced by their openings.
    let opened: Vec<RunId> = runs_of(lines.iter())
        .into_iter()
        .filter(|(_, own)| own.first().is_some_and(|line| !line.is(Kind::RunOpened)))
        .map(|(run, _)| *run)
        .collect();
    for run in opened {
        let rows = reader.run_entries(&chain.chain, &run).await?;
        let first = rows.first().filter(|row| row.kind == Kind::RunOpened.as_str());
        more.extend(read(first.map(std::slice::from_ref).unwrap_or_default())?);
        extra.extend(first.map(|row| row.seq));
    }
    if neighbours {
        for seq in span.from.checked_sub(1).into_iter().chain([span.to]) {
            let rows = reader.entries(&chain.chain, seq, 1).await?;
            let rows: Vec<EntryRow> =
                rows.into_iter().filter(|row| row.seq == seq && seq < chain.head.size).collect();
            extra.extend(rows.iter().map(|row| row.seq));
            more.extend(read(&rows)?);
        }
    }
    lines.extend(more.into_iter().filter(|line| !asked.contains(&line.entry.seq)));
    let trusted = announced(reader, chain).await?;
    finish((chain, &trusted), folder, lines, (&asked, extra), Some(span))
}

/// The span of a chain within the filter's time, by binary search: time never goes back in a chain.
///
/// # Errors
/// The ledger cannot be read.
pub async fn span_of(
    reader: &dyn LedgerReader,
    chain: &ChainRow,
    filter: &Filter,
) -> Result<Span, Error> {
    let size = chain.head.size;
    let from = match filter.since {
        Some(since) => first_at(reader, chain, since).await?,
        None => 0,
    };
    let to = match filter.until {
        Some(until) => first_at(reader, chain, until).await?.max(from),
        None => size,
    };
    Ok(Span { from, to })
}

/// The first entry at this time or later; the chain's size if there is none.
async fn first_at(
    reader: &dyn LedgerReader,
    chain: &ChainRow,
    time: Timestamp,
) -> Result<Seq, Error> {
    let (mut low, mut high) = (0, chain.head.size);
    while low < high {
        let middle = low.midpoint(high);
        // If entries were pruned, the next stored one decides.
        let rows = reader.entries(&chain.chain, middle, 1).await?;
        let line = read(&rows)?.pop();
        let line =
            line.ok_or(Error::Pruned { log: chain.origin.clone(), from: middle, to: middle })?;
        if line.entry.ts < time {
            low = line.entry.seq.saturating_add(1);
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// These lines of a chain that was read, with what introduces them.
///
/// # Errors
/// The chain is damaged, or the ledger cannot be read.
pub async fn picked(
    reader: &dyn LedgerReader,
    chain: &ChainRow,
    folder: String,
    lines: Vec<EntryLine>,
    picked: &BTreeSet<Seq>,
) -> Result<ChainSlice, Error> {
    let trusted = announced(reader, chain).await?;
    finish((chain, &trusted), folder, lines, (picked, BTreeSet::new()), None)
}

/// The enrolment keys that may have certified writers of this chain: the key of its genesis, and
/// its successors that the tenant's fleet logs announced. The verifier of the bundle decides
/// whether to trust them.
async fn announced(reader: &dyn LedgerReader, chain: &ChainRow) -> Result<Vec<PublicKey>, Error> {
    let genesis = reader.entries_of(&chain.chain, &[Kind::ChainGenesis.as_str()]).await?;
    let mut epochs = Epochs::default();
    for line in read(&genesis)? {
        let damaged = |damage| Error::Ledger { seq: line.entry.seq, damage };
        epochs.genesis(&line).map_err(damaged)?;
    }
    let trusted = epochs.enrolment().cloned().into_iter().collect();
    let mut keys = Announced { trusted, revoked: Vec::new() };
    let rows = reader.chains().await?;
    for fleet in rows.iter().filter(|row| is_fleet(row) && row.tenant == chain.tenant) {
        keys.take(reader, fleet).await?;
    }
    Ok(keys.trusted)
}

/// Reads stored bytes.
///
/// # Errors
/// The first that is no entry.
pub fn read(rows: &[EntryRow]) -> Result<Vec<EntryLine>, Error> {
    let read = |row: &EntryRow| {
        let line =
            EntryLine::read(&row.body).map_err(|damage| Error::Ledger { seq: row.seq, damage })?;
        if line.leaf == row.leaf {
            Ok(line)
        } else {
            let why = "the stored leaf hash is not that of the bytes";
            Err(Error::Ledger { seq: row.seq, damage: Damage::new("D2", why) })
        }
    };
    rows.iter().map(read).collect()
}

async fn context(reader: &dyn LedgerReader, chain: &ChainRow) -> Result<Vec<EntryLine>, Error> {
    let kinds: Vec<&str> = CONTEXT.iter().map(|kind| kind.as_str()).collect();
    let mut rows: Vec<EntryRow> = reader.entries_of(&chain.chain, &kinds).await?;
    rows.retain(|row| row.seq < chain.head.size);
    read(&rows)
}

/// Opens the head's checkpoint, and keeps the selection and the extra lines with what introduces
/// them.
fn finish(
    (chain, trusted): (&ChainRow, &[PublicKey]),
    folder: String,
    mut lines: Vec<EntryLine>,
    (asked, extra): (&BTreeSet<Seq>, BTreeSet<Seq>),
    span: Option<Span>,
) -> Result<ChainSlice, Error> {
    lines.sort_by_key(|line| line.entry.seq);
    lines.dedup_by_key(|line| line.entry.seq);
    let damaged = |line: &EntryLine, damage| Error::Ledger { seq: line.entry.seq, damage };
    let mut epochs = Epochs::new(trusted);
    for line in &lines {
        if line.is(Kind::ChainGenesis) {
            epochs.genesis(line).map_err(|damage| damaged(line, damage))?;
        } else if line.is(Kind::WriterStarted) {
            epochs.started(line).map_err(|damage| damaged(line, damage))?;
        }
    }
    let (checkpoint, signer) = epochs
        .checkpoint(&chain.head.checkpoint)
        .map_err(|damage| Error::Ledger { seq: chain.head.size, damage })?;
    let mut kept = relevant(&lines, asked);
    kept.extend(extra);
    let mut wanted: BTreeSet<_> =
        lines.iter().filter(|l| kept.contains(&l.entry.seq)).map(|l| l.entry.epoch).collect();
    wanted.insert(signer);
    lines.retain(|line| {
        kept.contains(&line.entry.seq)
            || line.is(Kind::ChainGenesis)
            || (line.is(Kind::WriterStarted) && wanted.contains(&line.entry.epoch))
    });
    Ok(ChainSlice { folder, lines, epochs, checkpoint: Some(checkpoint), span })
}

/// The selection, the policies that were active or that its decisions name, the manifests of its
/// runs, and the anchors seen before and during it.
fn relevant(lines: &[EntryLine], asked: &BTreeSet<Seq>) -> BTreeSet<Seq> {
    let mut kept = asked.clone();
    let (Some(first), Some(last)) = (asked.first().copied(), asked.last().copied()) else {
        return kept;
    };
    // The newest activation so far, of any policy and of each, and the newest binding of each
    // manifest.
    let mut in_force: Option<Seq> = None;
    let mut anchored: Option<Seq> = None;
    let mut activated: BTreeMap<Option<Digest>, Seq> = BTreeMap::new();
    let mut bound: BTreeMap<Digest, Seq> = BTreeMap::new();
    let mut lists: BTreeMap<SignerList, Vec<Seq>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.entry.seq <= last) {
        let seq = line.entry.seq;
        if seq >= first && asked.contains(&seq) {
            kept.extend(in_force.take());
            kept.extend(anchored.take());
        }
        if asked.contains(&seq) {
            // All of them, so that a verifier sees that none came back. There are few: one per
            // change of a list.
            let excused = exception_lists(line).next();
            let approving = list_of(line).or(excused).and(lists.get(&SignerList::Approvers));
            let breaking = break_glass_list(line).and(lists.get(&SignerList::BreakGlass));
            kept.extend(approving.into_iter().chain(breaking).flatten());
        }
        if line.is(Kind::PolicyActivated) {
            in_force = (seq < first).then_some(seq);
            kept.extend((seq >= first).then_some(seq));
            activated.insert(line.entry.draft.policy, seq);
        } else if line.is(Kind::AnchorObserved) {
            anchored = Some(seq);
        } else if let Some(one) = line.get::<ManifestBound>() {
            bound.insert(one.digest.0, seq);
        } else if let Some(one) = line.get::<SignersBound>() {
            lists.entry(one.list).or_default().push(seq);
        } else if asked.contains(&seq) && decides(line) {
            kept.extend(activated.get(&line.entry.draft.policy));
        } else if let Some(opened) = line.get::<RunOpened>().filter(|_| asked.contains(&seq)) {
            kept.extend(bound.get(&opened.manifest.0));
        }
    }
    kept.extend(amendments(lines, &kept));
    kept.extend(alerts(lines, &kept));
    kept
}

/// The alerts about runs of the selection whose causes are in it.
fn alerts(lines: &[EntryLine], kept: &BTreeSet<Seq>) -> Vec<Seq> {
    let raised = lines.iter().filter_map(|line| Some((line.entry.seq, line.get::<AlertRaised>()?)));
    let ours = raised.filter(|(_, alert)| alert.run.is_some() && kept.contains(&alert.last.get()));
    ours.map(|(seq, _)| seq).collect()
}

/// The bundle that a step of an amendment is about.
fn bundle_of(line: &EntryLine) -> Option<Digest> {
    let proposed = line.get::<AmendmentProposed>().map(|step| step.bundle);
    let approved = || line.get::<AmendmentApproved>().map(|step| step.bundle);
    let refused = || line.get::<AmendmentRefused>().map(|step| step.bundle);
    proposed.or_else(approved).or_else(refused).map(|bundle| bundle.0)
}

/// How the policies of these activations became active: proposals, approvals, and the activation
/// that was an amendment.
fn amendments(lines: &[EntryLine], kept: &BTreeSet<Seq>) -> Vec<Seq> {
    let activations = lines.iter().filter(|line| line.is(Kind::PolicyActivated));
    let mut last: BTreeMap<Digest, Seq> = BTreeMap::new();
    for line in activations.filter(|line| kept.contains(&line.entry.seq)) {
        last.extend(line.entry.draft.policy.map(|policy| (policy, line.entry.seq)));
    }
    let about = |line: &&EntryLine| {
        let amended = |one: &&PolicyActivated| one.basis == Some(Basis::Amendment);
        let activated = line.get::<PolicyActivated>().filter(amended);
        let bundle = activated.and(line.entry.draft.policy).or_else(|| bundle_of(line));
        bundle.and_then(|bundle| last.get(&bundle)).is_some_and(|last| line.entry.seq <= *last)
    };
    lines.iter().filter(about).map(|line| line.entry.seq).collect()
}

/// The chain of a run, if one of these has it.
///
/// # Errors
/// The ledger cannot be read.
pub async fn chain_of<'a>(
    reader: &dyn LedgerReader,
    chains: &'a [ChainRow],
    run: &RunId,
) -> Result<Option<&'a ChainRow>, StoreError> {
    let id = reader.find_run(run).await?;
    Ok(chains.iter().find(|row| Some(row.chain) == id))
}
