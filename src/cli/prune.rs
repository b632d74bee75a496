//! `wicketgate ledger prune`: drops old entries that an archive provably holds, with a record.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;

use super::archive::{code, trusted};
use super::bucket::BucketArgs;
use super::error::LookupError;
use super::ledger::{chains, unreadable};
use super::progress::Progress;
use super::reader::{self, LedgerLocation, LedgerSource};
use super::recorder::{FleetArgs, Recording};
use super::{Exit, Failure, JsonArg, argument, note, print_facts};
use crate::clock::{Clock as _, SystemClock};
use crate::config;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::ledger::archive;
use crate::ledger::postgres::PostgresPruner;
use crate::ledger::pruning::{self, PrunePlan, PruneRequest};
use crate::ledger::sqlite::SqliteStore;
use crate::ledger::store::{ChainRow, LedgerReader, Pruner, Pruning};

/// Headers are kept this long at least.
const FLOOR_DAYS: u32 = 183;

/// `ledger prune`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate ledger prune --config wicketgate.yaml --chain wicketgate.dev/default/local-5f0c2a9be1d37486/0/0 \\\n    \
    --before 2026-01-31 --archive archive --by ops@example.com --dry-run")]
pub struct Prune {
    #[command(flatten)]
    source: LedgerSource,
    /// Chain to prune, by its origin
    #[arg(long, value_name = "ORIGIN")]
    chain: String,
    /// Drop entries below this number, rounded down to a full tile of 256
    #[arg(long, value_name = "SEQ", required_unless_present = "before")]
    below: Option<Seq>,
    /// Drop entries written before this day, such as 2026-01-31
    #[arg(long, value_name = "DATE", value_parser = argument::day, conflicts_with = "below")]
    before: Option<Timestamp>,
    /// Archive made by `ledger archive`: a directory, or the URL of an object store (`s3://bucket/prefix`); it is
    /// verified before entries are dropped
    #[arg(long, value_name = "DIR|URL")]
    archive: PathBuf,
    #[command(flatten)]
    bucket: BucketArgs,
    /// Who decided it, as recorded in the fleet log
    #[arg(long, value_name = "WHO")]
    by: String,
    /// Days for which the headers of dropped entries are kept, at least 183
    #[arg(long, value_name = "DAYS", default_value_t = 730)]
    keep_days: u32,
    /// File with the URL of a Postgres login that may read and erase (`ledger migrate --eraser`)
    #[arg(long, value_name = "FILE")]
    eraser_url_file: Option<PathBuf>,
    /// Trust roots: further keys that may certify writers, beside the chain's own
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// Only print what would be dropped
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    json: JsonArg,
}

/// Checks everything, records the pruning, and then drops the rows.
pub(super) async fn run(command: &Prune) -> Result<Exit, Failure> {
    if command.keep_days < FLOOR_DAYS {
        return Err(Failure::usage(TooSoon));
    }
    let reader = reader::open_reader(&command.source).await?;
    let reader = reader.as_ref();
    let rows = chains(reader, Some(&command.chain)).await?;
    let row =
        rows.first().ok_or_else(|| Failure::usage(LookupError::Chain(command.chain.clone())))?;
    let keep = i64::from(command.keep_days).saturating_mul(86_400_000);
    let youngest = Timestamp::from_millis(SystemClock::new().now().millis().saturating_sub(keep));
    let request = PruneRequest { below: command.below, before: command.before, youngest };
    let plan = pruning::plan(reader, row, &request).await.map_err(refused)?;
    let store = command.bucket.of_chain(&command.archive, &row.chain)?;
    let trusted = trusted(command.trust.as_deref())?;
    let range = (plan.from, plan.to);
    let held = archive::holds(reader, row, &trusted, store.as_ref(), range);
    let head = Progress::new("checking the archive")
        .during(held)
        .await
        .map_err(|error| Failure::new(code(&error), ArchiveError(error)))?;
    let facts =
        json!({"origin": row.origin, "from": plan.from, "to": plan.to, "root": head.root.hex()});
    let line = format!(
        "{}: entries {} to {} are in the archive, under root {} of the signed log",
        row.origin,
        plan.from,
        plan.to.saturating_sub(1),
        head.root
    );
    print_facts(facts, line);
    if command.dry_run {
        print_facts(json!({"dropped": 0}), "dry run: no entry was dropped");
        return Ok(Exit::Ok);
    }
    // Find the pruner before anything is recorded.
    let pruner = pruner(command).await?;
    let recorded = record(command, (reader, row), &plan, head.root).await?;
    let dropped =
        Progress::new("pruning").during(pruner.prune(&recorded)).await.map_err(unreadable)?;
    let line = format!(
        "{} dropped, as entry {} of the fleet log records; the first is now {}",
        many(dropped, "entry"),
        recorded.entry,
        plan.to
    );
    print_facts(json!({"dropped": dropped, "entry": recorded.entry}), line);
    Ok(Exit::Ok)
}

fn refused(error: pruning::Error) -> Failure {
    match error {
        pruning::Error::Store(error) => Failure::unverifiable(error),
        pruning::Error::Refused(why) => Failure::invalid(why),
    }
}

/// Headers that would be dropped too soon.
#[derive(Debug, thiserror::Error)]
#[error("headers must be kept for at least {FLOOR_DAYS} days")]
struct TooSoon;

/// The archive lacks entries that would be dropped.
#[derive(Debug, thiserror::Error)]
#[error("the archive: {0}")]
struct ArchiveError(archive::Error);

/// Puts the pruning into the fleet log, unless an earlier try did and was interrupted.
async fn record(
    command: &Prune,
    (reader, row): (&dyn LedgerReader, &ChainRow),
    plan: &PrunePlan,
    root: Digest,
) -> Result<Pruning, Failure> {
    let mut pruning =
        Pruning { chain: row.chain, fleet: row.chain, entry: 0, from: plan.from, to: plan.to };
    if let Some((fleet, entry)) = plan.recorded {
        note("an earlier pruning was recorded but did not finish: it is finished now");
        (pruning.fleet, pruning.entry) = (fleet, entry);
        return Ok(pruning);
    }
    let fleet = FleetArgs {
        tenant: command.fleet.tenant.clone().or_else(|| Some(row.tenant.clone())),
        ..command.fleet.clone()
    };
    let recording = Recording::prepare(&command.source, &fleet).await.map_err(Failure::usage)?;
    let fleet = recording.open().await.map_err(unreadable)?;
    // WHY: reading the archive may have taken minutes, and from here on only this process writes
    // the fleet log.
    let recorded = match pruning::still_free(reader, row, plan).await.map_err(refused) {
        Ok(()) => {
            let draft = pruning::draft(&row.origin, plan, root, &command.by);
            fleet.record(draft).await.map_err(unreadable)
        }
        Err(held) => Err(held),
    };
    fleet.close().await.map_err(unreadable)?;
    let receipt = recorded?;
    (pruning.fleet, pruning.entry) = (receipt.chain, receipt.seq);
    Ok(pruning)
}

/// The store that may drop rows of this ledger.
async fn pruner(command: &Prune) -> Result<Arc<dyn Pruner>, Failure> {
    let sqlite = match command.source.place() {
        Some(LedgerLocation::Sqlite(path)) => Some(path.to_owned()),
        Some(LedgerLocation::Config(path)) => {
            let config = reader::configuration(path).map_err(Failure::usage)?;
            match config.ledger {
                config::Ledger::Sqlite(ledger) => Some(ledger.path),
                config::Ledger::Postgres(_) => None,
            }
        }
        Some(LedgerLocation::PostgresUrlFile(_)) | None => None,
    };
    if let Some(path) = sqlite {
        return Ok(Arc::new(DeferredFile(path)));
    }
    let file = command.eraser_url_file.as_ref();
    let no_login = || Failure::usage("Postgres: name a login that may prune (`--eraser-url-file`)");
    let file = file.ok_or_else(no_login)?;
    let url = reader::url(file).map_err(Failure::usage)?;
    Ok(Arc::new(PostgresPruner::connect(&url).await.map_err(unreadable)?))
}

/// A SQLite file, opened only after the fleet log, whose lock it shares, has been closed.
struct DeferredFile(PathBuf);

#[async_trait::async_trait]
impl Pruner for DeferredFile {
    async fn prune(&self, pruning: &Pruning) -> Result<u64, crate::ledger::store::StoreError> {
        let store = SqliteStore::open_fleet(&self.0).await?;
        let dropped = store.prune(pruning).await;
        store.close().await?;
        dropped
    }
}
