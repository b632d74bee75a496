//! Writes a run, a span of a log or a whole population as a bundle, and records the export.
//!
//! The bundle is made in memory. Then the fleet log records the export, with the digest of the
//! bundle's list of files. The bundle is written only once that entry is durable. A crash can leave
//! a record without a bundle, but never a bundle without a record.

use super::scope::Scope;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use async_trait::async_trait;

use super::artifacts::Artifacts;
use super::bundle::{self, Files, chain_folder};
use super::disclosed::{DisclosureKeys, Redactions, disclose};
use super::payloads::Payloads;
use super::projection::{self, BundleMaterial};
use super::query::{Filter, Query};
use super::scope::{ChainSlice, Span};
use super::statement::{self, Exporter, Subject};
use super::{
    Error, approvals, contents, controls, fleet, gather, guide, page, population, proofs, pruned,
    written,
};
use crate::clock::Clock;
use crate::crypto::dsse;
use crate::crypto::signer::Signer;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::ledger::fleet::{FleetParts, OpenFleetLog};
use crate::ledger::retention::Records;
use crate::ledger::store::{ChainRow, LedgerReader};
use crate::ledger::vault::Vault;
use crate::record::chain::{EvidenceExported, ExportScope};
use crate::record::debug_by;
use crate::record::{Draft, HexDigest, schema};

/// Where an export is recorded.
#[async_trait]
pub trait Recorder: Send + Sync {
    /// Returns once the entry is durable.
    async fn record(&self, draft: Draft) -> Result<(), crate::ledger::Error>;
}

#[async_trait]
impl Recorder for OpenFleetLog {
    async fn record(&self, draft: Draft) -> Result<(), crate::ledger::Error> {
        Self::record(self, draft).await.map(drop)
    }
}

/// A fleet log that is opened only to record, and closed afterwards, so that other processes can
/// use it until then. It records once.
#[derive(Debug)]
pub struct DeferredFleetLog(parking_lot::Mutex<Option<FleetParts>>);

impl DeferredFleetLog {
    /// Opens nothing yet.
    pub const fn of(parts: FleetParts) -> Self {
        Self(parking_lot::Mutex::new(Some(parts)))
    }
}

#[async_trait]
impl Recorder for DeferredFleetLog {
    async fn record(&self, draft: Draft) -> Result<(), crate::ledger::Error> {
        let parts = self.0.lock().take().ok_or(crate::ledger::Error::Unknown)?;
        let opened = OpenFleetLog::open(parts).await;
        let fleet = opened.map_err(|e| crate::ledger::Error::Unavailable(e.to_string()))?;
        let recorded = fleet.record(draft).await;
        // The entry is durable even if closing fails.
        drop(fleet.close().await);
        recorded.map(drop)
    }
}

/// SHA-256 of this program's own file, in hex; empty where it cannot be read. The first call reads tens of megabytes.
pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let read = std::fs::File::open("/proc/self/exe").and_then(Digest::of_reader);
        read.map(|digest| digest.hex()).unwrap_or_default()
    })
}

/// What to export, from where, to where, and which key signs.
pub struct ExportOrder<'a> {
    /// The ledger.
    pub reader: &'a dyn LedgerReader,
    /// The tenant that owns the chains; `default` on one machine.
    pub tenant: &'a str,
    /// The selection. The end of a range may lie beyond its log; the log's end applies then.
    pub query: &'a Query,
    /// Policy bundles and manifests by digest.
    pub artifacts: &'a Artifacts,
    /// The evidence key.
    pub key: &'a dyn Signer,
    /// The directory to make, which may exist if it is empty, or the `.zip` file.
    pub out: &'a Path,
    /// Says when the export was made.
    pub clock: &'a dyn Clock,
    /// Version of the program.
    pub version: &'a str,
    /// Tells the SHA-256 of the program's file, in hex; empty if it cannot be read.
    pub program: fn() -> &'static str,
    /// The requester.
    pub requester: &'a str,
    /// Sizes of older heads to prove consistency from, for auditors who pinned one.
    pub since: &'a [Seq],
    /// Whether the payloads are to be disclosed.
    pub payloads: bool,
    /// Keys of payloads that are stored encrypted.
    pub vault: Option<&'a Vault>,
    /// Which part of the payloads is disclosed.
    pub redactions: &'a Redactions,
    /// The fleet log.
    pub recorder: &'a dyn Recorder,
}

debug_by!(ExportOrder<'_>: query, out);

/// A bundle that was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportedBundle {
    /// Where.
    pub dir: PathBuf,
    /// Its files.
    pub files: usize,
    /// Entries in it.
    pub entries: usize,
    /// The logs it is about and the sizes of their checkpoints.
    pub logs: Vec<(String, Seq)>,
    /// Runs in it.
    pub runs: usize,
    /// Runs that are complete from opening to seal. A bundle of an open run never verifies as
    /// complete.
    pub sealed: usize,
    /// Digests of policies, manifests and templates of the runs whose bytes were not kept.
    pub missing: Vec<Digest>,
    /// SHA-256 of `manifest.json`, as the fleet log records it.
    pub manifest: Digest,
}

/// Exports what the order selects.
///
/// # Errors
/// The selection does not exist, the ledger is damaged where it is read, the export cannot be
/// recorded, or the bundle cannot be written.
pub async fn export(order: &ExportOrder<'_>) -> Result<ExportedBundle, Error> {
    // Checked before recording: an occupied path must not leave a record.
    written::free(order.out)?;
    let (files, exported, query) = made(order).await?;
    order.recorder.record(recorded(&query, &exported, order)).await.map_err(Error::Unrecorded)?;
    written::write(&files, order.out)?;
    Ok(exported)
}

/// The bundle in memory, and the query with its ends filled in: nothing is recorded, nothing is written.
///
/// # Errors
/// As [`export`], as far as the ledger is read.
pub(super) async fn made(order: &ExportOrder<'_>) -> Result<(Files, ExportedBundle, Query), Error> {
    // Read before the heads, so that the fleet head shown covers every erasure shown.
    let records = &Records::read(order.reader, order.tenant).await?;
    let mut chains = order.reader.chains().await?;
    chains.retain(|row| row.tenant == order.tenant);
    // Everything is proven under these heads, whatever is appended meanwhile.
    let (query, slices) = match slices(order, &chains).await {
        Ok(found) => found,
        Err(why) => return Err(pruned::explained(order.reader, order.tenant, &chains, why).await),
    };
    let (slices, rows): (Vec<ChainSlice>, Vec<&ChainRow>) = slices.into_iter().unzip();
    let mut payloads = Payloads::default();
    let opening = DisclosureKeys { vault: order.vault, redactions: order.redactions, records };
    for (slice, row) in slices.iter().zip(&rows) {
        let lines = slice.selected().filter(|line| line.entry.run.is_some());
        disclose(order.reader, row, lines, (&opening, order.payloads), &mut payloads).await?;
    }
    let (reader, tenant) = (order.reader, order.tenant);
    let shown = fleet::show(reader, &chains, tenant, &query, (&slices, &payloads)).await?;
    let heads = shown.as_ref().map(|shown| &shown.heads);
    let mut files = Files::default();
    for (slice, row) in slices.iter().zip(&rows) {
        let mut since: BTreeSet<Seq> = order.since.iter().copied().collect();
        since.extend(heads.and_then(|heads| heads.get(slice.origin())).into_iter().flatten());
        proofs::put(reader, (slice, row), &since, &mut files).await?;
    }
    if let Some(shown) = &shown {
        let since = order.since.iter().copied().collect();
        fleet::put(reader, shown, &since, &mut files).await?;
    }
    let fleet = shown.as_ref().map(fleet::FleetEvidence::slice);
    let (files, exported) = sealed(order, &query, (&slices, fleet), &payloads, files)?;
    Ok((files, exported, query))
}

/// The chains and lines that the query selects, and the query with its ends filled in.
async fn slices<'a>(
    order: &ExportOrder<'_>,
    chains: &'a [ChainRow],
) -> Result<(Query, Vec<(ChainSlice, &'a ChainRow)>), Error> {
    let folder = || bundle::FOLDER.to_owned();
    match order.query {
        Query::Run(run) => {
            let row = gather::chain_of(order.reader, chains, run).await?;
            let row = row.ok_or_else(|| Error::NoRun(run.to_string()))?;
            let slice = gather::run(order.reader, row, run, folder()).await?;
            Ok((order.query.clone(), vec![(slice, row)]))
        }
        Query::Range { log, span } => {
            let row = chains.iter().find(|row| row.origin == *log);
            let row = row.ok_or_else(|| Error::NoLog(log.clone()))?;
            let span = Span { from: span.from, to: span.to.min(row.head.size) };
            if span.from >= span.to {
                let (from, to, size) = (span.from, span.to, row.head.size);
                return Err(Error::NoSpan { log: log.clone(), from, to, size });
            }
            let slice = gather::span(order.reader, row, span, false, folder()).await?;
            Ok((Query::Range { log: log.clone(), span }, vec![(slice, row)]))
        }
        Query::Population(filter) => {
            let slices = population(order, filter, chains).await?;
            Ok((order.query.clone(), slices))
        }
    }
}

async fn population<'a>(
    order: &ExportOrder<'_>,
    filter: &Filter,
    chains: &'a [ChainRow],
) -> Result<Vec<(ChainSlice, &'a ChainRow)>, Error> {
    if let Some(absent) = filter.chains.iter().find(|log| chains.iter().all(|c| c.origin != **log))
    {
        return Err(Error::NoLog(absent.clone()));
    }
    let wanted = |row: &&ChainRow| {
        let named = filter.chains.contains(&row.origin);
        // The fleet log is in a folder of its own; a chain without entries has no checkpoint.
        row.head.size > 0
            && (named || (filter.chains.is_empty() && fleet::number(row, order.tenant).is_none()))
    };
    let mut rows: Vec<&ChainRow> = chains.iter().filter(wanted).collect();
    rows.sort_by(|a, b| a.origin.cmp(&b.origin));
    let mut slices = Vec::new();
    for (number, row) in (0_u64..).zip(rows) {
        let span = gather::span_of(order.reader, row, filter).await?;
        let slice = gather::span(order.reader, row, span, true, chain_folder(number)).await?;
        slices.push((slice, row));
    }
    Ok(slices)
}

/// Everything made from entries and payloads, and the signed list of all files.
fn sealed(
    order: &ExportOrder<'_>,
    query: &Query,
    (slices, fleet): (&[ChainSlice], Option<&ChainSlice>),
    payloads: &Payloads,
    mut files: Files,
) -> Result<(Files, ExportedBundle), Error> {
    payloads.write(&mut files);
    if let Query::Population(filter) = query {
        files.put(bundle::POPULATION, population::population(filter, slices));
    }
    let mut missing = artefacts(order, slices, &mut files)?;
    missing.extend(approvals::put(order.artifacts, (slices, fleet), payloads, &mut files)?);
    let materials: Vec<BundleMaterial<'_>> =
        slices.iter().flat_map(|slice| slice.materials(payloads)).collect();
    for (name, bytes) in projection::files(query.scope(), &materials, bundle::PlaceForm::Untimed) {
        files.put(name, bytes);
    }
    files.put(bundle::GUIDE, guide::GUIDE);
    files.put(bundle::SCHEMA, schema::ENTRY_1);
    let exporter = Exporter {
        version: order.version.to_owned(),
        at: order.clock.now().to_string(),
        sha256: (order.program)().to_owned(),
        requester: order.requester.to_owned(),
    };
    let subject = Subject { query, slices, materials: &materials, payloads, files: &files };
    let predicate = statement::predicate(&subject, &exporter);
    // Both are made from all files before them: no file is added afterwards.
    files.put(bundle::CONTROLS, controls::controls(&files));
    files.put(bundle::PAGE, page::page(&files, &exporter));
    let manifest = statement::statement(&files, predicate);
    let envelope = dsse::sign_by(statement::PAYLOAD_TYPE, &manifest, order.key);
    files.put(bundle::ENVELOPE, envelope.map_err(|e| Error::Unsigned(e.to_string()))?);
    let digest = Digest::of(&[&manifest]);
    files.put(bundle::MANIFEST, manifest);
    let logs = slices.iter().map(|slice| {
        let size = slice.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.size);
        (slice.origin().to_owned(), size)
    });
    let exported = ExportedBundle {
        dir: order.out.to_owned(),
        files: files.0.len(),
        entries: slices.iter().map(|slice| slice.lines.len()).sum(),
        logs: logs.collect(),
        runs: materials.len(),
        sealed: materials.iter().filter(|material| material.sealed()).count(),
        missing,
        manifest: digest,
    };
    Ok((files, exported))
}

/// `evidence.exported` of this bundle.
fn recorded(query: &Query, exported: &ExportedBundle, order: &ExportOrder<'_>) -> Draft {
    Draft::of(EvidenceExported {
        entries: exported.entries.into(),
        manifest: HexDigest(exported.manifest),
        query: query.settings(),
        requester: order.requester.into(),
        scope: match query.scope() {
            Scope::Run => ExportScope::Run,
            Scope::Range => ExportScope::Range,
            Scope::Population => ExportScope::Population,
        },
    })
}

/// Adds the policy bundles, the manifests and their templates; returns the digests that were not kept.
fn artefacts(
    order: &ExportOrder<'_>,
    slices: &[ChainSlice],
    files: &mut Files,
) -> Result<Vec<Digest>, Error> {
    let mut missing = Vec::new();
    for (name, digest) in contents::policies(slices) {
        match order.artifacts.policy(&digest)? {
            Some(tar) => files.put(name, tar),
            None => missing.push(digest),
        }
    }
    for ((yaml, signature), digest) in contents::manifests(slices) {
        match order.artifacts.manifest(&digest)? {
            Some((text, envelope)) => {
                files.put(yaml, text);
                files.put(signature, envelope);
            }
            None => missing.push(digest),
        }
    }
    // Only the manifests that are in the bundle now say which templates belong to it.
    for (name, digest) in contents::templates(slices, files) {
        match order.artifacts.template(&digest)? {
            Some(text) => files.put(name, text),
            None => missing.push(digest),
        }
    }
    // Our own rules are in every program of that version, and no file.
    for (name, digest) in contents::firewall_rules(slices) {
        if let Some(rules) = order.artifacts.firewall(&digest)? {
            files.put(name, rules);
        }
    }
    Ok(missing)
}
