//! `wicketgate ledger anchor`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::reader::{self, Source};
use super::{complain, say};
use crate::app::fleet::{self, Keys};
use crate::config::Config;
use crate::domain::canonical;
use crate::domain::json::Json;
use crate::ledger::fleet::anchor::{Done, Error, Outside, Round};
use crate::ledger::store::LedgerReader;

const INVALID: u8 = 1;
const UNVERIFIABLE: u8 = 2;
const CONFIG: u8 = 78;

/// An exit code, and why.
pub(super) type Failure = (u8, String);

/// Record the heads of all chains in the fleet log, and have its own head witnessed.
///
/// New chains are enrolled, heads that moved are recorded after a check that they extend the one
/// recorded before, then the witnesses and the time stamping authority of the configuration see the
/// head of the fleet log. Run again with nothing new, it writes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wicketgate ledger anchor --config wicketgate.yaml\n  \
    wicketgate ledger anchor --config wicketgate.yaml --every 60\n\n\
    Ends with 1 when a chain went back, forked or was replaced (nothing is recorded then), with 2 when\n\
    too few witnesses answered (what was recorded stays, the next round asks again). On Postgres the\n\
    login has to be writer and reader: `ledger migrate --writer ROLE=TENANT --reader ROLE`.")]
pub struct Anchor {
    /// The configuration file, with its `fleet` section
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Go on, one round each so many seconds, until a signal
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    every: Option<u64>,
    /// Print one JSON object per round
    #[arg(long)]
    json: bool,
}

/// Reads the configuration.
pub(super) fn load(path: &Path) -> Result<Config, Failure> {
    reader::configuration(path).map_err(|why| (CONFIG, why))
}

/// Runs it.
pub(super) async fn anchor(command: &Anchor) -> Result<u8, Failure> {
    let config = load(&command.config)?;
    let keys = Keys::of(&config).map_err(|e| (CONFIG, e))?;
    let outside = fleet::outside(&config).map_err(|e| (CONFIG, e))?;
    let source =
        Source { config: Some(command.config.clone()), sqlite: None, postgres_url_file: None };
    let reader = reader::open_reader(&source).await;
    let reader = reader.map_err(|e| (UNVERIFIABLE, e.to_string()))?;
    let Some(seconds) = command.every else {
        return once(&config, &keys, &outside, reader.as_ref(), command.json).await;
    };
    let failed = |e: std::io::Error| (UNVERIFIABLE, e.to_string());
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut rounds = tokio::time::interval(Duration::from_secs(seconds));
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = terminate.recv() => return Ok(0),
            _ = interrupt.recv() => return Ok(0),
            _ = rounds.tick() => {}
        }
        match once(&config, &keys, &outside, reader.as_ref(), command.json).await {
            Ok(_) => {}
            // A ledger in doubt is not looked at again as if nothing had happened.
            Err((INVALID, why)) => return Err((INVALID, why)),
            Err((_, why)) => complain(format!("error: {why}")),
        }
    }
}

/// One round, and what it says.
async fn once(
    config: &Config,
    keys: &Keys,
    outside: &Outside,
    reader: &dyn LedgerReader,
    json: bool,
) -> Result<u8, Failure> {
    let done = round(config, keys, outside, reader).await?;
    for why in &done.failed {
        complain(format!("warning: {why}"));
    }
    if json {
        say(canonical::text(&told(&done)));
    } else {
        print(&done);
    }
    if done.enough {
        return Ok(0);
    }
    let (there, needed) = (done.cosigned.len(), outside.quorum);
    complain(format!(
        "error: the head is not anchored: {there} of {needed} witnesses cosigned it{}; what was \
         recorded stays, and the next round asks again",
        if outside.stamps.is_some() && done.stamped.is_none() {
            ", and it is not stamped"
        } else {
            ""
        }
    ));
    Ok(UNVERIFIABLE)
}

/// One round.
pub(super) async fn round(
    config: &Config,
    keys: &Keys,
    outside: &Outside,
    reader: &dyn LedgerReader,
) -> Result<Done, Failure> {
    let tenant = fleet::tenant(config);
    let (config, keys) = (config.clone(), keys.clone());
    let round = Round {
        reader,
        parts: Box::new(move || {
            let (config, keys) = (config.clone(), keys.clone());
            Box::pin(async move { fleet::parts(&config, &keys).await })
        }),
        tenant: &tenant,
        outside,
    };
    round.run().await.map_err(|error| match error {
        Error::Invalid(why) => (INVALID, why),
        Error::Unavailable(why) => (UNVERIFIABLE, why),
    })
}

fn print(done: &Done) {
    for origin in &done.enrolled {
        say(format!("enrolled {origin}"));
    }
    for (origin, size) in &done.recorded {
        say(format!("recorded {origin} {size}"));
    }
    let Some((origin, size, root)) = &done.head else {
        say("nothing to anchor: there is no chain with entries");
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

fn told(done: &Done) -> Json {
    let texts = |all: &[String]| {
        Json::from(all.iter().map(|text| Json::from(text.as_str())).collect::<Vec<_>>())
    };
    let recorded: Vec<Json> = done
        .recorded
        .iter()
        .map(|(log, size)| {
            Json::object([("log", Json::from(log.as_str())), ("size", Json::from(*size))])
        })
        .collect();
    let mut members = vec![
        ("enrolled", texts(&done.enrolled)),
        ("recorded", recorded.into()),
        ("shown", Json::from(done.shown)),
        ("cosigned", texts(&done.cosigned)),
        ("failed", texts(&done.failed)),
        ("enough", Json::from(done.enough)),
    ];
    members.extend(done.stamped.map(|time| ("stamped", Json::from(time.to_string()))));
    if let Some((log, size, root)) = &done.head {
        members.push(("log", Json::from(log.as_str())));
        members.push(("size", Json::from(*size)));
        members.push(("root", Json::from(root.hex())));
    }
    Json::object(members)
}
