//! `wicketgate ledger verify`: every chain, or one log from its tiles alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::bucket::{BucketArgs, remote};
use super::error::LookupError;
use super::ledger::unreadable;
use super::progress::Progress;
use super::reader::{self, LedgerSource};
use super::{Exit, Failure, FileError, note, present, report, say};
use crate::domain::id::Seq;
use crate::domain::plural::many;
use crate::evidence::trust::Trust;
use crate::ledger::archive;
use crate::ledger::archive::check::ArchiveReport;
use crate::ledger::archive::storage::{ArchiveStore, Directory};
use crate::ledger::store::{ChainRow, LedgerReader};
use crate::ledger::verify::announced::Announced;
use crate::ledger::verify::fleet::{ExternalHeads, FleetHeads, Noted, is_fleet};
use crate::ledger::verify::kinds::{self, DamageKind, Finding};
use crate::ledger::verify::{self, ChainReport, Roots};
use crate::record::Entry;

/// `ledger verify`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate ledger verify --config wicketgate.yaml\n  \
    wicketgate ledger verify --sqlite state/ledger.sqlite --trust trust.txt --json\n  \
    wicketgate ledger verify --tiles archive --trust trust.txt")]
pub struct Verify {
    #[command(flatten)]
    source: LedgerSource,
    /// Verify archives from their files alone: in this directory, or below this URL of an object store
    /// (`s3://bucket/prefix`)
    #[arg(long, value_name = "DIR|URL", group = "LedgerSource")]
    tiles: Option<PathBuf>,
    #[command(flatten)]
    bucket: BucketArgs,
    /// Trust roots: enrolment keys, and heads that you pinned
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// Chain to verify, by its origin; if omitted, every chain
    #[arg(long, value_name = "ORIGIN")]
    chain: Option<String>,
    /// Only the chains of this tenant
    #[arg(long, value_name = "NAME", conflicts_with = "chain")]
    tenant: Option<String>,
    /// Print one JSON report per chain
    #[arg(long)]
    json: bool,
}

/// The findings about one log.
struct Verdict {
    report: ArchiveReport,
    chain: Option<String>,
    /// Its first entry: those before it were pruned.
    from: Seq,
    open_calls: usize,
    /// The loss before this chain, as the chain records it, if it continues another.
    loss: Option<String>,
}

impl Verdict {
    fn code(&self) -> Exit {
        let ArchiveReport { finding, enrolled, unknown, .. } = &self.report;
        if finding.is_some() || *enrolled == Some(false) {
            return Exit::Invalid;
        }
        let understood = unknown.is_empty() && enrolled.is_some();
        if understood { Exit::Ok } else { Exit::Unverifiable }
    }

    fn of(report: ChainReport, finding: Option<Finding>) -> Self {
        let ChainReport { chain, entries, root, sealed, open, unknown, enrolled, .. } = report;
        let (origin, name) = (chain.origin, chain.chain.to_string());
        let archived =
            ArchiveReport { origin, entries, root, sealed, open, unknown, enrolled, finding };
        let (from, open_calls) = (report.from, report.open_calls);
        Self { chain: Some(name), from, open_calls, ..Self::archived(archived) }
    }

    const fn archived(report: ArchiveReport) -> Self {
        Self { report, chain: None, from: 0, open_calls: 0, loss: None }
    }

    /// A log that should be there and is not.
    fn missing(origin: &str, by: &str) -> Self {
        let why = format!("{by} names the log, but it is not in this ledger");
        let kind = DamageKind::MissingPartition;
        Self::archived(ArchiveReport {
            origin: origin.to_owned(),
            entries: 0,
            root: crate::crypto::merkle::empty_root(),
            sealed: 0,
            open: 0,
            unknown: BTreeMap::new(),
            enrolled: None,
            finding: Some(Finding { kind, seq: 0, check: "F1", why }),
        })
    }
}

/// Verifies, prints, and returns the exit code of the worst.
pub(super) async fn run(command: &Verify) -> Result<Exit, Failure> {
    let trust = match &command.trust {
        Some(path) => Trust::load(path).map_err(Failure::usage)?,
        None => Trust::default(),
    };
    let verdicts = match &command.tiles {
        Some(dir) => tiles(command, dir, &trust).await?,
        None => ledger(command, &trust).await?,
    };
    let mut worst = Exit::Ok;
    if verdicts.is_empty() {
        note("there is no chain to verify: no gate has written to this ledger yet");
        worst = Exit::Unverifiable;
    }
    for verdict in &verdicts {
        report(facts(verdict), || print(verdict));
        worst = worst.worst(verdict.code());
    }
    if worst == Exit::Invalid {
        note(
            "next: keep the ledger as it is, and stop the gates that write to it; compare it with pinned heads, archives \
             and backups; after a loss, `wicketgate ledger recover` continues the log",
        );
    }
    Ok(worst)
}

/// Every selected chain of a ledger.
async fn ledger(command: &Verify, trust: &Trust) -> Result<Vec<Verdict>, Failure> {
    let reader = reader::open_reader(&command.source).await?;
    let reader = reader.as_ref();
    let rows = reader.chains().await?;
    let roots = announced(reader, &rows, trust).await?;
    let mut fleet = FleetHeads::default();
    let mut done: BTreeMap<String, Verdict> = BTreeMap::new();
    // Fleet logs first: their entries about other chains count only if they are whole.
    for row in rows.iter().filter(|row| is_fleet(row)) {
        let verdict = one(reader, row, &roots, &pins(trust, &row.origin)).await?;
        if verdict.report.finding.is_none() {
            fleet.take(reader, row).await.map_err(unreadable)?;
        } else {
            note(format!("{}: damaged, so its entries about other logs were ignored", row.origin));
        }
        done.insert(row.origin.clone(), verdict);
    }
    let selects = |origin: &str, tenant: &str| {
        command.chain.as_deref().is_none_or(|wanted| wanted == origin)
            && command.tenant.as_deref().is_none_or(|wanted| wanted == tenant)
    };
    let mut verdicts = Vec::new();
    for row in rows.iter().filter(|row| selects(&row.origin, &row.tenant)) {
        if let Some(verdict) = done.remove(&row.origin) {
            verdicts.push(verdict);
            continue;
        }
        let mut known = pins(trust, &row.origin);
        if let Some(recorded) = fleet.0.get(&row.origin) {
            known.pruned = recorded.pruned;
            known.heads.extend(recorded.heads.iter().cloned());
        }
        verdicts.push(one(reader, row, &roots, &known).await?);
    }
    let absent = |origin: &str| rows.iter().all(|row| row.origin != origin);
    let tenant = |origin: &str| origin.split('/').nth(1).unwrap_or_default().to_owned();
    let named = trust.heads.iter().map(|pin| (pin.origin.as_str(), "a pinned head"));
    // A chain that the fleet log records as lost is not missing; one with a head pinned by the
    // auditor still is.
    let there = fleet.0.iter().filter(|(_, known)| !known.lost);
    let enrolled = there.map(|(origin, _)| (origin.as_str(), "the fleet log"));
    let mut expected: BTreeMap<&str, &str> = named.collect();
    expected.extend(enrolled);
    for (origin, by) in expected {
        if absent(origin) && selects(origin, &tenant(origin)) {
            verdicts.push(Verdict::missing(origin, by));
        }
    }
    match &command.chain {
        Some(origin) if verdicts.is_empty() => {
            Err(Failure::usage(LookupError::Chain(origin.clone())))
        }
        Some(_) | None => Ok(verdicts),
    }
}

/// The heads of this log that were pinned.
fn pins(trust: &Trust, origin: &str) -> ExternalHeads {
    let of_log = trust.heads.iter().filter(|pin| pin.origin == origin);
    let note = |pin: &crate::evidence::trust::PinnedHead| Noted {
        by: "a pinned head".to_owned(),
        size: pin.size,
        root: pin.root,
    };
    ExternalHeads { heads: of_log.map(note).collect(), ..ExternalHeads::default() }
}

/// Reads one chain, and finds out how it was changed.
async fn one(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    roots: &Announced,
    known: &ExternalHeads,
) -> Result<Verdict, Failure> {
    let shown = Progress::new(row.origin.as_str());
    let progress = |done: u64| shown.at(done, row.head.size);
    let roots = Roots { trusted: &roots.trusted, revoked: &roots.revoked };
    let read = verify::chain_from(reader, row, roots, known.pruned, &progress);
    let report = read.await.map_err(unreadable)?;
    let finding = kinds::diagnose(reader, &report, known).await.map_err(unreadable)?;
    let loss = loss(reader, row).await?;
    Ok(Verdict { loss, ..Verdict::of(report, finding) })
}

/// The trusted enrolment keys: those of the trust file, updated by the fleet logs.
async fn announced(
    reader: &dyn LedgerReader,
    rows: &[ChainRow],
    trust: &Trust,
) -> Result<Announced, Failure> {
    let mut roots =
        Announced { trusted: trust.enrolment.clone(), revoked: trust.revoked_enrolments() };
    for row in rows.iter().filter(|row| is_fleet(row)) {
        roots.take(reader, row).await.map_err(unreadable)?;
    }
    Ok(roots)
}

async fn loss(reader: &dyn LedgerReader, row: &ChainRow) -> Result<Option<String>, Failure> {
    let genesis = reader.entries(&row.chain, 0, 1).await?;
    let genesis = genesis.first().and_then(|row| Entry::parse(&row.body).ok());
    Ok(genesis.as_ref().and_then(super::recover::loss_text))
}

/// The archives in a directory: the one in the directory itself, or those below it.
async fn tiles(command: &Verify, dir: &Path, trust: &Trust) -> Result<Vec<Verdict>, Failure> {
    let mut verdicts = Vec::new();
    let revoked = trust.revoked_enrolments();
    let roots = Roots { trusted: &trust.enrolment, revoked: &revoked };
    let archived = match remote(dir) {
        Some(location) => command.bucket.archives(location).await?,
        None => archives(dir)?,
    };
    for archive in archived {
        let archive = archive.as_ref();
        let origin = origin(archive).await?;
        let tenant = origin.split('/').nth(1).unwrap_or_default();
        if command.chain.as_ref().is_some_and(|wanted| *wanted != origin)
            || command.tenant.as_deref().is_some_and(|wanted| wanted != tenant)
        {
            continue;
        }
        let known = pins(trust, &origin);
        let report = archive::check::archive(archive, roots, &known.heads);
        verdicts.push(Verdict::archived(report.await.map_err(unreadable)?));
    }
    Ok(verdicts)
}

async fn origin(archive: &dyn ArchiveStore) -> Result<String, Failure> {
    let note = archive.get(archive::CHECKPOINT).await.map_err(unreadable)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&note).lines().next().unwrap_or_default().to_owned())
}

fn archives(dir: &Path) -> Result<Vec<Box<dyn ArchiveStore>>, Failure> {
    let open = |dir: &Path| Box::new(Directory::read(dir)) as Box<dyn ArchiveStore>;
    if dir.join(archive::CHECKPOINT).is_file() {
        return Ok(vec![open(dir)]);
    }
    let listed = std::fs::read_dir(dir).map_err(FileError::at(dir)).map_err(unreadable)?;
    let mut found: Vec<PathBuf> = listed
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.join(archive::CHECKPOINT).is_file())
        .collect();
    found.sort();
    Ok(found.iter().map(|dir| open(dir)).collect())
}

const fn outcome(exit: Exit) -> &'static str {
    match exit {
        Exit::Ok => "VALID",
        Exit::Invalid => "INVALID",
        Exit::Unverifiable | Exit::Usage | Exit::Fenced | Exit::Config | Exit::Program(_) => {
            "UNVERIFIABLE"
        }
    }
}

fn print(verdict: &Verdict) {
    let report = &verdict.report;
    say(format!(
        "{} {}: {}, {} sealed, {} open, root {}",
        outcome(verdict.code()),
        report.origin,
        many(report.entries, "entry"),
        many(report.sealed, "run"),
        report.open,
        report.root
    ));
    if let Some(Finding { kind, seq, check, why }) = &report.finding {
        say(format!("  {} at seq {seq}: {check}: {why}", kind));
    }
    if verdict.from > 0 {
        say(format!(
            "  entries below {} were pruned, as the fleet log records; an archive holds them",
            verdict.from
        ));
    }
    if let Some(loss) = &verdict.loss {
        say(format!("  {loss}"));
    }
    match report.enrolled {
        Some(true) => {}
        Some(false) => say("  its enrolment key is not trusted"),
        None => say(
            "  its enrolment key was not checked: no `--trust`; name a file with the line `enrolment-key FILE`, \
             the gate's `enrolment.key.pub`",
        ),
    }
    for (kind, count) in &report.unknown {
        say(format!(
            "  {} of kind `{kind}`, which this version does not know",
            many(count, "entry")
        ));
    }
}

fn facts(verdict: &Verdict) -> Value {
    let report = &verdict.report;
    let damage = report.finding.as_ref().map(|Finding { kind, seq, check, why }| {
        json!({"kind": kind, "seq": seq, "check": check, "why": why})
    });
    present(json!({
        "outcome": outcome(verdict.code()),
        "origin": report.origin,
        "entries": report.entries,
        "root": report.root.hex(),
        "runs_sealed": report.sealed,
        "runs_open": report.open,
        "calls_open": verdict.open_calls,
        "unknown_kinds": report.unknown,
        "chain": verdict.chain,
        "enrolled": report.enrolled,
        "pruned_below": (verdict.from > 0).then_some(verdict.from),
        "damage": damage,
    }))
}
