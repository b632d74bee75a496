//! `wicketgate ledger recover`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::fleet::load;
use super::{Cause, Exit, Failure, FileError, JsonArg, note, print_facts};
use crate::app::fleet::{self, FleetKeys};
use crate::clock::{Entropy, SystemClock, SystemEntropy};
use crate::config::{self, Config};
use crate::crypto::files::beside;
use crate::crypto::signer::{self, Signer};
use crate::ledger::fleet::observed_heads::LostEntry;
use crate::ledger::fleet::restart::{Error, Examined, RestartParts, is_fleet, retired};
use crate::ledger::fleet::{OpenFleetLog, POOL};
use crate::ledger::postgres::{self, PostgresStore};
use crate::ledger::spool::{HeadFile, Journal, LeaseFile, Spool};
use crate::ledger::sqlite::SqliteStore;
use crate::ledger::store::{LedgerStore, StoreError};
use crate::ledger::writer_key::LogKeys;
use crate::record::chain::{ChainGenesis, Continues};
use crate::record::{Draft, Text};

/// Report what a restored ledger has lost, and continue with the loss recorded.
///
/// Without `--accept-loss` nothing changes. With it, the log of the slot is retired and the next one, `<n+1>`,
/// begins: its first entry and the fleet log record the loss. The old log stays readable and gets no further head.
/// Stop the gate first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate ledger recover --config wicketgate.yaml\n  \
    wicketgate ledger recover --config wicketgate.yaml --accept-loss --reason 'disk failed, backup of Monday'\n\n\
    Exits with 0 when the loss is recorded, with 1 when nothing is lost or the loss was not accepted.")]
pub struct Recover {
    /// Configuration file
    #[arg(short, long, value_name = "FILE", env = "WICKETGATE_CONFIG", hide_env_values = true)]
    config: PathBuf,
    /// Retire the log that lost entries, and begin the next one
    #[arg(long, requires = "reason")]
    accept_loss: bool,
    /// Why; it is recorded in the ledger
    #[arg(long, value_name = "TEXT", value_parser = str::parse::<Text>)]
    reason: Option<Text>,
    #[command(flatten)]
    json: JsonArg,
}

/// What belongs to the slot of this machine.
struct Slot {
    store: Arc<dyn LedgerStore>,
    journal: Box<dyn Journal>,
    /// What the journal is kept in.
    memory: PathBuf,
    lease: LeaseFile,
    enrolment: Arc<dyn Signer>,
    tenant: String,
    pool: String,
}

fn system(why: impl Into<Cause>) -> Failure {
    Failure::unverifiable(why)
}

fn failed(error: Error) -> Failure {
    if let Error::Store(StoreError::Conflict(why)) = error {
        return Failure::fenced(why);
    }
    system(error)
}

/// What this machine lacks to go on.
#[derive(Debug, thiserror::Error)]
enum RecoverError {
    /// The fleet log lost entries, and no key is configured to sign its next one.
    #[error("{0}; continuing this chain needs `fleet.key`")]
    NoFleetKey(LostEntry),
    /// Every name for the kept file is in use.
    #[error("`{}`: a thousand copies were already set aside; remove some", .0.display())]
    Kept(PathBuf),
}

/// Runs it.
pub(super) async fn recover(command: &Recover) -> Result<Exit, Failure> {
    let config = load(&command.config)?;
    let (clock, entropy) = (SystemClock::new(), SystemEntropy);
    let slot = slot(&config, &entropy).await?;
    let witnesses = fleet::sights(&config).map_err(Failure::config)?;
    let outside = (config.fleet.anchor_file.as_deref(), witnesses.as_slice());
    let writer = who();
    let parts = RestartParts {
        store: &*slot.store,
        journal: &*slot.journal,
        lease_file: Some(&slot.lease),
        outside,
        enrolment: &slot.enrolment,
        log_keys: None,
        clock: &clock,
        entropy: &entropy,
        slot: (&slot.tenant, &slot.pool),
        writer: &writer,
    };
    let found = parts.examine().await.map_err(failed)?;
    let keys = keys(&config, &found)?;
    let log = match &keys {
        Some(keys) => FleetLogParts::of(&config, keys, &parts, &found).await?,
        None => None,
    };
    let log_parts = log.as_ref().map(|log| RestartParts {
        store: &*log.store,
        journal: &log.journal,
        lease_file: None,
        log_keys: Some(LogKeys { key: Arc::clone(&log.keys.key), also: log.keys.previous.clone() }),
        slot: (&slot.tenant, POOL),
        enrolment: &log.keys.enrolment,
        ..restart_parts(&parts)
    });
    let log_found = match &log_parts {
        Some(parts) => Some(parts.examine().await.map_err(failed)?),
        None => None,
    };
    let log_lost = log_found.as_ref().and_then(|found| found.lost.clone().or(found.fleet.clone()));
    let lost = found.lost.clone().or_else(|| presumed(&found, log_lost.as_ref()));
    for one in lost.iter().chain(&log_lost) {
        print_facts(json!({"lost": [one.to_string()]}), format!("lost: {one}"));
    }
    let any = lost.is_some() || log_lost.is_some();
    let reason = command.reason.as_deref().filter(|_| command.accept_loss && any);
    let Some(reason) = reason else {
        give_back(&parts, &found).await;
        if let (Some(parts), Some(found)) = (&log_parts, &log_found) {
            give_back(parts, found).await;
        }
        let line = match any {
            true => "the ledger was not changed; `--accept-loss --reason TEXT` records the loss",
            false => "no entry is lost; the ledger was not changed",
        };
        print_facts(json!({"changed": false}), line);
        return Ok(Exit::Invalid);
    };
    if let (Some(log), Some(parts), Some(found)) = (&log, &log_parts, &log_found) {
        go_on(parts, found, log_lost.as_ref(), (&writer, &log.memory)).await?;
    }
    drop(log_parts);
    drop(log);
    let drafts = [(log_found.as_ref(), log_lost.as_ref()), (Some(&found), lost.as_ref())];
    let drafts = drafts
        .into_iter()
        .filter_map(|(found, lost)| Some(retired(found?, lost?, (reason, writer.as_str()))));
    write_down(&config, keys.as_ref(), drafts.collect()).await?;
    go_on(&parts, &found, lost.as_ref(), (&writer, &slot.memory)).await?;
    Ok(Exit::Ok)
}

/// Begins the next log of a slot that lost entries; releases a slot that did not.
async fn go_on(
    parts: &RestartParts<'_>,
    found: &Examined,
    lost: Option<&LostEntry>,
    (by, memory): (&str, &Path),
) -> Result<(), Failure> {
    let Some(lost) = lost else {
        give_back(parts, found).await;
        return Ok(());
    };
    let name = parts.restart(found, lost, by).await.map_err(failed)?;
    aside(memory)?;
    let line = format!("retired {}, began {name}: its first entry records the loss", lost.log);
    print_facts(json!({"changed": true, "retired": [lost.log], "begun": [name]}), line);
    Ok(())
}

/// Puts the retirements on the fleet log, if there is a key for that.
async fn write_down(
    config: &Config,
    keys: Option<&FleetKeys>,
    drafts: Vec<Draft>,
) -> Result<(), Failure> {
    let Some(keys) = keys else {
        note("the configuration has no `fleet.key`: only the new log itself records the loss");
        return Ok(());
    };
    let parts = fleet::parts(config, keys).await.map_err(system)?;
    let fleet = OpenFleetLog::open(parts).await.map_err(system)?;
    for draft in drafts {
        fleet.record(draft).await.map_err(system)?;
    }
    fleet.close().await.map_err(system)
}

/// The keys of the fleet log, if the configuration has them; they are needed if it lost entries.
fn keys(config: &Config, found: &Examined) -> Result<Option<FleetKeys>, Failure> {
    match (&config.fleet.key, &found.fleet) {
        (None, None) => Ok(None),
        (None, Some(lost)) => Err(Failure::config(RecoverError::NoFleetKey(lost.clone()))),
        (Some(_), _) => FleetKeys::of(config).map(Some).map_err(Failure::config),
    }
}

/// The same parts, for the fields that two slots share.
fn restart_parts<'a>(parts: &RestartParts<'a>) -> RestartParts<'a> {
    RestartParts { log_keys: None, ..*parts }
}

async fn give_back(parts: &RestartParts<'_>, found: &Examined) {
    // A failure is harmless: the lease runs out by itself.
    parts.store.release(&found.leased.key).await.ok();
}

/// When the fleet log was set back and this machine remembers nothing of its own chain, that chain
/// is as old as the fleet log, and the number of its lost entries is unknown.
fn presumed(found: &Examined, fleet: Option<&LostEntry>) -> Option<LostEntry> {
    let head = &found.leased.head;
    let unsure = fleet.is_some() && !found.remembered() && head.size > 0;
    unsure.then(|| LostEntry {
        log: found.leased.origin.clone(),
        seen: (head.size, Some(found.root)),
        here: head.size,
        forked: false,
        by: "no record".to_owned(),
    })
}

/// What belongs to the fleet log.
struct FleetLogParts {
    store: Arc<dyn LedgerStore>,
    journal: HeadFile,
    memory: PathBuf,
    keys: FleetKeys,
}

impl FleetLogParts {
    /// The parts of the fleet log, if this ledger has one or a witness or this machine has seen
    /// one.
    async fn of(
        config: &Config,
        keys: &FleetKeys,
        slot: &RestartParts<'_>,
        found: &Examined,
    ) -> Result<Option<Self>, Failure> {
        let memory = fleet::head_file(config);
        let journal = HeadFile::open(&memory).map_err(system)?;
        let view = slot.store.fleet_view(&found.leased.key, None).await.map_err(system)?;
        let seen = journal.latest().map_err(system)?.is_some() || found.fleet.is_some();
        if view.fleet.is_none() && !seen {
            return Ok(None);
        }
        let store = fleet::store(config).await.map_err(system)?;
        Ok(Some(Self { store, journal, memory, keys: keys.clone() }))
    }
}

async fn slot(config: &Config, entropy: &dyn Entropy) -> Result<Slot, Failure> {
    let enrolment = signer::open(&fleet::enrolment_key(config), &config::environment);
    let enrolment = enrolment.map_err(Failure::config)?;
    let lease = LeaseFile::at(config.state.join("lease"));
    let taken = |e: StoreError| match e {
        StoreError::Conflict(why) => Failure::fenced(why),
        other @ (StoreError::Unavailable(_)
        | StoreError::Full(_)
        | StoreError::Unknown(_)
        | StoreError::Broken(_)) => system(other),
    };
    let tenant = fleet::tenant(config);
    Ok(match &config.ledger {
        config::Ledger::Sqlite(sqlite) => {
            let store = SqliteStore::open(&sqlite.path).await.map_err(taken)?;
            let pool = store.pool(&tenant, entropy).await.map_err(taken)?;
            let store = Arc::new(store);
            let memory = beside(&sqlite.path, ".head");
            let journal = Box::new(HeadFile::open(&memory).map_err(system)?);
            Slot { store, journal, memory, lease, enrolment, tenant, pool }
        }
        config::Ledger::Postgres(at) => {
            let url = at.connect.expose();
            let store =
                PostgresStore::connect(url, postgres::Options::default()).await.map_err(system)?;
            let journal = Box::new(Spool::open(&at.spool).map_err(system)?);
            let (store, memory, pool) = (Arc::new(store), at.spool.clone(), at.slots.clone());
            Slot { store, journal, memory, lease, enrolment, tenant, pool }
        }
    })
}

/// Keeps a file or directory under a name of its own; its contents no longer count.
fn aside(path: &Path) -> Result<(), Failure> {
    for number in 0..1000_u32 {
        let kept = beside(path, &format!(".lost-{number}"));
        if !kept.exists() {
            let renamed = std::fs::rename(path, &kept);
            return renamed.map_err(FileError::at(path)).map_err(system);
        }
    }
    Err(system(RecoverError::Kept(path.to_owned())))
}

/// The operator who accepts the loss, for the ledger.
fn who() -> String {
    let user = config::environment("USER").or_else(|| config::environment("LOGNAME"));
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let uid = || format!("uid {}", rustix::process::getuid().as_raw());
    format!("{}@{host}", user.unwrap_or_else(uid))
}

/// The loss that the first entry of a log records, if any.
pub(super) fn loss_text(genesis: &crate::record::Entry) -> Option<String> {
    let Continues { by, log, lost_from, lost_to, .. } =
        genesis.draft.get::<ChainGenesis>()?.continues.as_ref()?;
    let (from, to) = (lost_from.get(), lost_to.get());
    let what = if from < to {
        format!("entries {from} to {} of `{log}` are lost", to.saturating_sub(1))
    } else {
        format!("`{log}` lost entries after the first {from}; how many is unknown")
    };
    let kind = if is_fleet(log) { "a fleet log" } else { "a log" };
    Some(format!("loss: it continues {kind} that was restored: {what}, accepted by {by}"))
}
