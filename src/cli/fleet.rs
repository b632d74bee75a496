//! `wicketgate ledger anchor`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::reader::{self, LedgerSource};
use super::{Exit, Failure, fail, note, present, report, say};
use crate::app::fleet::{self, FleetKeys};
use crate::config::Config;
use crate::ledger::fleet::anchor::{AnchorRound, Error, Outside, Round};
use crate::ledger::store::LedgerReader;

/// Record the heads of all chains in the fleet log, and have its head witnessed.
///
/// New chains are enrolled. A head that moved is recorded if it extends the one recorded before. Then the witnesses
/// cosign, and the time stamping authority stamps, the head of the fleet log. If nothing is new, nothing is written.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate ledger anchor --config wicketgate.yaml\n  \
    wicketgate ledger anchor --config wicketgate.yaml --every 60\n\n\
    Exits with 1 when a chain lost entries, forked or was replaced; then nothing is recorded. Exits with 2 when too few\n\
    witnesses answered; the record stays, and the next round asks them again. On Postgres the login must be both a\n\
    writer and a reader: `ledger migrate --writer ROLE=TENANT --reader ROLE`.")]
pub struct Anchor {
    /// Configuration file with a `fleet` section
    #[arg(short, long, value_name = "FILE", env = "WICKETGATE_CONFIG", hide_env_values = true)]
    config: PathBuf,
    /// Repeat after this many seconds, until a signal
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    every: Option<u64>,
    /// Print one JSON object per round
    #[arg(long)]
    json: bool,
}

/// Reads the configuration.
pub(super) fn load(path: &Path) -> Result<Config, Failure> {
    reader::configuration(path).map_err(Failure::config)
}

/// Runs it.
pub(super) async fn anchor(command: &Anchor) -> Result<Exit, Failure> {
    let config = load(&command.config)?;
    let keys = FleetKeys::of(&config).map_err(Failure::config)?;
    let outside = fleet::outside(&config).map_err(Failure::config)?;
    let source = LedgerSource {
        config: Some(command.config.clone()),
        sqlite: None,
        postgres_url_file: None,
    };
    let reader = reader::open_reader(&source).await?;
    let Some(seconds) = command.every else {
        return once(&config, &keys, &outside, reader.as_ref()).await;
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::unverifiable)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::unverifiable)?;
    let mut rounds = tokio::time::interval(Duration::from_secs(seconds));
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = terminate.recv() => return Ok(Exit::Ok),
            _ = interrupt.recv() => return Ok(Exit::Ok),
            _ = rounds.tick() => {}
        }
        match once(&config, &keys, &outside, reader.as_ref()).await {
            Ok(_) => {}
            // A ledger in doubt must not be read again as if nothing had happened.
            Err(failure) if failure.exit == Exit::Invalid => return Err(failure),
            Err(failure) => _ = failure.print(),
        }
    }
}

/// One round, and its report.
async fn once(
    config: &Config,
    keys: &FleetKeys,
    outside: &Outside,
    reader: &dyn LedgerReader,
) -> Result<Exit, Failure> {
    let done = round(config, keys, outside, reader).await?;
    for why in &done.failed {
        note(format!("warning: {why}"));
    }
    report(facts(&done), || print(&done));
    if done.enough {
        return Ok(Exit::Ok);
    }
    let (there, needed) = (done.cosigned.len(), outside.quorum);
    let stamped = outside.stamps.is_none() || done.stamped.is_some();
    Ok(fail(Exit::Unverifiable, NotAnchored { there, needed, stamped }))
}

/// A head of the fleet log that too few witnesses cosigned, or that has no time stamp.
#[derive(Debug, thiserror::Error)]
#[error(
    "the head is not anchored: {there} of {needed} witnesses cosigned it{}; what was recorded stays, and the next \
     round asks the others again", if *stamped { "" } else { ", and it is not stamped" }
)]
struct NotAnchored {
    there: usize,
    needed: usize,
    stamped: bool,
}

/// One round.
pub(super) async fn round(
    config: &Config,
    keys: &FleetKeys,
    outside: &Outside,
    reader: &dyn LedgerReader,
) -> Result<AnchorRound, Failure> {
    let tenant = fleet::tenant(config);
    let (config, keys) = (config.clone(), keys.clone());
    let round = Round {
        reader,
        parts: Box::new(move || {
            let (config, keys) = (config.clone(), keys.clone());
            Box::pin(async move { Ok(fleet::parts(&config, &keys).await?) })
        }),
        tenant: &tenant,
        outside,
    };
    round.run().await.map_err(|error| match error {
        Error::Invalid(why) => Failure::invalid(why),
        Error::Unavailable(why) => Failure::unverifiable(why),
    })
}

fn print(done: &AnchorRound) {
    for origin in &done.enrolled {
        say(format!("enrolled {origin}"));
    }
    for (origin, size) in &done.recorded {
        say(format!("recorded {origin} {size}"));
    }
    let Some((origin, size, root)) = &done.head else {
        say("no chain has entries to anchor");
        return;
    };
    let mut seen = Vec::new();
    if !done.cosigned.is_empty() {
        seen.push(format!("cosigned by {}", done.cosigned.join(", ")));
    }
    seen.extend(done.stamped.map(|time| format!("stamped {time}")));
    let seen = if seen.is_empty() { String::new() } else { format!(", {}", seen.join(", ")) };
    let new = if done.shown { "" } else { "nothing new: " };
    say(format!("{new}{origin} {size} {root}{seen}"));
}

fn facts(done: &AnchorRound) -> Value {
    let recorded = done.recorded.iter().map(|(log, size)| json!({"log": log, "size": size}));
    present(json!({
        "enrolled": done.enrolled,
        "recorded": recorded.collect::<Vec<_>>(),
        "shown": done.shown,
        "cosigned": done.cosigned,
        "failed": done.failed,
        "enough": done.enough,
        "stamped": done.stamped,
        "log": done.head.as_ref().map(|(log, ..)| log),
        "size": done.head.as_ref().map(|(_, size, _)| size),
        "root": done.head.as_ref().map(|(.., root)| root.hex()),
    }))
}
