//! Writes one run as a bundle, from the ledger through its reading port.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::artifacts::Artifacts;
use super::bundle::{self, Files};
use super::payloads::{Payload, Payloads, Why};
use super::projection::{self, Material, decides};
use super::statement::{self, Exporter};
use super::{Error, guide, page};
use crate::clock::Clock;
use crate::crypto::consistency::consistency_proof;
use crate::crypto::dsse;
use crate::crypto::keys::SecretKey;
use crate::crypto::merkle::Prover;
use crate::crypto::note::Checkpoint;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, RunId, Seq};
use crate::domain::json::Json;
use crate::ledger::entry::Kind;
use crate::ledger::schema;
use crate::ledger::store::{ChainRow, EntryRow, LedgerReader, StoreError};
use crate::ledger::verify::epochs::Epochs;
use crate::ledger::verify::{Damage, Line};

/// What to export, from where, to where, signed by whom.
pub struct Order<'a> {
    /// The ledger.
    pub reader: &'a dyn LedgerReader,
    /// The run.
    pub run: &'a RunId,
    /// Policy bundles and manifests by digest.
    pub artifacts: &'a Artifacts,
    /// The evidence key.
    pub key: &'a SecretKey,
    /// The directory to make. It may exist if it is empty.
    pub out: &'a Path,
    /// Says when the export was made.
    pub clock: &'a dyn Clock,
    /// Version of the program.
    pub version: &'a str,
    /// Sizes of older heads to prove consistency from, for auditors who pinned one.
    pub since: &'a [Seq],
}

impl std::fmt::Debug for Order<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Order")
            .field("run", self.run)
            .field("out", &self.out)
            .finish_non_exhaustive()
    }
}

/// A bundle that was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exported {
    /// Where.
    pub dir: PathBuf,
    /// Its files.
    pub files: usize,
    /// Entries in it.
    pub entries: usize,
    /// The checkpoint it is proven under.
    pub checkpoint: Checkpoint,
    /// Whether the run is sealed. A bundle of an open run never verifies as complete.
    pub sealed: bool,
    /// Digests of policies and manifests the run used whose bytes were not kept.
    pub missing: Vec<Digest>,
}

/// Exports a run.
///
/// # Errors
/// No such run, the ledger is damaged where it is read, or the directory cannot be written.
pub async fn run(order: &Order<'_>) -> Result<Exported, Error> {
    let no_run = || Error::NoRun(order.run.to_string());
    let id = order.reader.find_run(order.run).await?.ok_or_else(no_run)?;
    let chains = order.reader.chains().await?;
    // Everything is proven under this head, whatever is appended meanwhile.
    let chain = chains.into_iter().find(|row| row.chain == id).ok_or_else(no_run)?;
    let lines = lines_of(order, &chain).await?;
    let (checkpoint, lines) = signed(&chain, order.run, lines)?;
    let leaves = order.reader.leaf_hashes(&id, checkpoint.size).await?;
    let payloads = payloads_of(order.reader, &id, order.run, &lines).await?;
    let material =
        Material { run: order.run, origin: &chain.origin, lines: &lines, payloads: &payloads };
    let exporter =
        Exporter { version: order.version.to_owned(), at: order.clock.now().to_string() };

    let mut files = Files::default();
    files.put(bundle::CONSISTENCY, consistency(&leaves, order.since));
    if order.since.is_empty() {
        files.0.remove(bundle::CONSISTENCY);
    }
    let mut jsonl = Vec::new();
    for line in &lines {
        jsonl.extend_from_slice(&line.bytes);
        jsonl.push(b'\n');
    }
    files.put(bundle::ENTRIES, jsonl);
    files.put(bundle::CHECKPOINT, chain.head.checkpoint.as_bytes());
    files.put(bundle::INCLUSION, inclusion(&lines, leaves, &checkpoint)?);
    payloads.write(&mut files);
    let missing = artefacts(order, &lines, &mut files)?;
    files.put(bundle::AGENT_RUN, projection::agent_run(&material));
    files.put(bundle::DECISION, projection::decisions(&material));
    files.put(bundle::TOOL_TRACE, projection::tool_trace(&material));
    files.put(bundle::PAGE, page::page(&material, &checkpoint, &exporter));
    files.put(bundle::GUIDE, guide::GUIDE);
    files.put(bundle::SCHEMA, schema::ENTRY_1);
    let predicate = statement::predicate(&material, &checkpoint, &exporter);
    let manifest = statement::statement(&files, predicate);
    files.put(bundle::ENVELOPE, dsse::sign(statement::PAYLOAD_TYPE, &manifest, &[order.key]));
    files.put(bundle::MANIFEST, manifest);
    files.write(order.out)?;
    Ok(Exported {
        dir: order.out.to_owned(),
        files: files.0.len(),
        entries: lines.len(),
        sealed: material.sealed(),
        checkpoint,
        missing,
    })
}

const CONTEXT: [Kind; 4] =
    [Kind::ChainGenesis, Kind::WriterStarted, Kind::PolicyActivated, Kind::ManifestBound];

/// The run's lines and everything that may introduce them, ascending, below the head.
async fn lines_of(order: &Order<'_>, chain: &ChainRow) -> Result<Vec<Line>, Error> {
    let kinds: Vec<&str> = CONTEXT.iter().map(|kind| kind.as_str()).collect();
    let mut rows: Vec<EntryRow> = order.reader.entries_of(&chain.chain, &kinds).await?;
    rows.extend(order.reader.run_entries(&chain.chain, order.run).await?);
    rows.retain(|row| row.seq < chain.head.size);
    rows.sort_by_key(|row| row.seq);
    let read = |row: &EntryRow| {
        Line::read(&row.body).map_err(|damage| Error::Ledger { seq: row.seq, damage })
    };
    rows.iter().map(read).collect()
}

/// Opens the head's checkpoint and keeps the lines that matter for this run under it.
fn signed(
    chain: &ChainRow,
    run: &RunId,
    lines: Vec<Line>,
) -> Result<(Checkpoint, Vec<Line>), Error> {
    let damaged = |line: &Line, damage| Error::Ledger { seq: line.entry.seq, damage };
    let mut epochs = Epochs::default();
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
    let kept = relevant(run, &lines);
    let mut wanted: BTreeSet<_> =
        lines.iter().filter(|l| kept.contains(&l.entry.seq)).map(|l| l.entry.epoch).collect();
    wanted.insert(signer);
    let lines = lines
        .into_iter()
        .filter(|line| {
            kept.contains(&line.entry.seq)
                || line.is(Kind::ChainGenesis)
                || (line.is(Kind::WriterStarted) && wanted.contains(&line.entry.epoch))
        })
        .collect();
    Ok((checkpoint, lines))
}

/// The run, the policies in force while it ran or named by its decisions, and its manifest.
fn relevant(run: &RunId, lines: &[Line]) -> BTreeSet<Seq> {
    let of_run = |line: &&Line| line.entry.run.as_ref().is_some_and(|link| link.run == *run);
    let mut kept: BTreeSet<Seq> = lines.iter().filter(of_run).map(|l| l.entry.seq).collect();
    let (Some(first), Some(last)) = (kept.first().copied(), kept.last().copied()) else {
        return kept;
    };
    let manifest = lines.iter().find(of_run).and_then(|line| line.text("manifest"));
    let manifest = manifest.and_then(Digest::parse);
    let before = |seq: Seq, wanted: &dyn Fn(&Line) -> bool| {
        let mut found = lines.iter().rev().filter(|l| l.entry.seq < seq && wanted(l));
        found.next().map(|line| line.entry.seq)
    };
    let policy = |line: &Line| line.is(Kind::PolicyActivated);
    let mut more: Vec<Seq> = Vec::new();
    more.extend(before(first, &policy));
    more.extend(before(first, &|line| {
        line.is(Kind::ManifestBound) && line.text("digest").and_then(Digest::parse) == manifest
    }));
    more.extend(
        lines
            .iter()
            .filter(|l| policy(l) && (first..=last).contains(&l.entry.seq))
            .map(|l| l.entry.seq),
    );
    let mut used = BTreeMap::new();
    for line in lines.iter().filter(of_run).filter(|line| decides(line)) {
        used.entry(line.entry.draft.policy).or_insert(line.entry.seq);
    }
    for (digest, seq) in used {
        more.extend(before(seq, &|line| policy(line) && line.entry.draft.policy == digest));
    }
    kept.extend(more);
    kept
}

async fn payloads_of(
    reader: &dyn LedgerReader,
    chain: &ChainId,
    run: &RunId,
    lines: &[Line],
) -> Result<Payloads, StoreError> {
    let mut payloads = Payloads::default();
    let of_run = lines.iter().filter(|l| l.entry.run.as_ref().is_some_and(|r| r.run == *run));
    for commitment in of_run.flat_map(|line| &line.entry.draft.commit) {
        // WHY: without an entry that says it was erased, absence proves nothing more than absence.
        let payload =
            reader.payload(chain, &commitment.c).await?.map_or(Payload::Withheld(Why::Unsaid), |row| {
                Payload::Opened {
                    salt: row.salt,
                    role: row.role,
                    media_type: row.media_type,
                    body: row.body,
                }
            });
        payloads.0.insert(commitment.c, payload);
    }
    Ok(payloads)
}

fn inclusion(
    lines: &[Line],
    leaves: Vec<Digest>,
    checkpoint: &Checkpoint,
) -> Result<Vec<u8>, Error> {
    let damaged = |seq, why: &str| Error::Ledger { seq, damage: Damage::new("D2", why) };
    let differs: Option<Seq> =
        lines.iter().map(|l| (l.entry.seq, l.leaf)).find_map(|(seq, leaf)| {
            let stored = usize::try_from(seq).ok().and_then(|at| leaves.get(at));
            (stored != Some(&leaf)).then_some(seq)
        });
    if let Some(seq) = differs {
        return Err(damaged(seq, "the stored leaf hash is not that of the bytes"));
    }
    let prover = Prover::new(leaves);
    if prover.root() != checkpoint.root {
        return Err(damaged(checkpoint.size, "the checkpoint is not of the stored leaf hashes"));
    }
    let mut proofs = Vec::new();
    for line in lines {
        let path = usize::try_from(line.entry.seq)
            .ok()
            .and_then(|at| prover.inclusion_proof(at))
            .ok_or_else(|| damaged(line.entry.seq, "no such leaf"))?;
        proofs.push(Json::object([
            ("seq", Json::from(line.entry.seq)),
            ("leaf", Json::from(line.leaf.hex())),
            ("path", hexes(&path)),
        ]));
    }
    Ok(canonical::bytes(&Json::object([
        ("v", Json::from("wicketgate/inclusion/1")),
        ("size", Json::from(checkpoint.size)),
        ("root", Json::from(checkpoint.root.hex())),
        ("proofs", proofs.into()),
    ])))
}

fn consistency(leaves: &[Digest], since: &[Seq]) -> Vec<u8> {
    let proofs: Vec<Json> = since
        .iter()
        .filter_map(|old| {
            let path = consistency_proof(leaves, usize::try_from(*old).ok()?)?;
            Some(Json::object([("old", Json::from(*old)), ("path", hexes(&path))]))
        })
        .collect();
    canonical::bytes(&Json::object([
        ("v", Json::from("wicketgate/consistency/1")),
        ("proofs", proofs.into()),
    ]))
}

fn hexes(path: &[Digest]) -> Json {
    path.iter().map(|digest| Json::from(digest.hex())).collect::<Vec<_>>().into()
}

/// Adds the policy bundles and the manifest; what was not kept is named.
fn artefacts(order: &Order<'_>, lines: &[Line], files: &mut Files) -> Result<Vec<Digest>, Error> {
    let mut missing = Vec::new();
    let none = Digest::of(&[]);
    let wanted = |line: &&Line| decides(line) || line.is(Kind::PolicyActivated);
    let mut policies: Vec<Digest> = Vec::new();
    for policy in lines.iter().filter(wanted).filter_map(|line| line.entry.draft.policy) {
        if policy != none {
            policies.retain(|seen| *seen != policy);
            policies.push(policy);
        }
    }
    for (place, digest) in policies.iter().rev().enumerate() {
        let name = match place {
            0 => bundle::POLICY.to_owned(),
            _ => format!("policy/{}.tar", digest.hex()),
        };
        match order.artifacts.policy(digest)? {
            Some(tar) => files.put(name, tar),
            None => missing.push(*digest),
        }
    }
    let opened = lines.iter().find(|line| line.is(Kind::RunOpened));
    if let Some(digest) = opened.and_then(|l| l.text("manifest")).and_then(Digest::parse) {
        match order.artifacts.manifest(&digest)? {
            Some(manifest) => {
                files.put(bundle::AGENT, manifest.yaml);
                files.put(bundle::AGENT_SIG, manifest.signature);
            }
            None => missing.push(digest),
        }
    }
    Ok(missing)
}
