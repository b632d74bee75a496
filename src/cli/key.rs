//! `wicketgate ledger key show | rotate | revoke`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::fleet::load;
use super::{Cause, Exit, Failure, JsonArg, print_facts, write_new};
use crate::app::fleet::{self, FleetKeys};
use crate::clock::SystemEntropy;
use crate::config::{self, Config};
use crate::crypto::files::beside;
use crate::crypto::keys::{PublicKey, SecretKey};
use crate::crypto::note::vkey;
use crate::crypto::signer::{self, Signer, agent_key};
use crate::ledger::fleet::OpenFleetLog;
use crate::record::fleet::{KeyRevoked, KeyRotated, KeyUse};
use crate::record::{Base64, Draft, Text};

/// Show, rotate and revoke the keys of a ledger.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Show(ShowKeys),
    Rotate(Rotate),
    Revoke(Revoke),
}

/// Print the fleet and enrolment keys as lines for a trust file.
#[derive(Debug, clap::Args)]
struct ShowKeys {
    /// Configuration file
    #[arg(short, long, value_name = "FILE", env = "WICKETGATE_CONFIG", hide_env_values = true)]
    config: PathBuf,
    #[command(flatten)]
    json: JsonArg,
}

/// Replace a key: the old key signs the new one in the fleet log.
///
/// If the file of the new key does not exist, it is made. As long as the configuration names the old fleet key
/// as `fleet.previous_key`, both keys sign.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wicketgate ledger key rotate --use fleet --new keys/fleet-2.pem --config wicketgate.yaml\n  \
    wicketgate ledger key rotate --use enrolment --new ssh-agent:keys/enrolment.pub --config wicketgate.yaml"
)]
struct Rotate {
    /// What the key signs
    #[arg(long = "use", value_enum, value_name = "USE")]
    purpose: Purpose,
    /// New key: a PEM file, which is made if it does not exist, or `ssh-agent:<public key file>`
    #[arg(long, value_name = "FILE")]
    new: PathBuf,
    /// Public half of the old key (PEM); for evidence keys only, because the configuration names the others
    #[arg(long, value_name = "FILE")]
    old: Option<PathBuf>,
    /// Configuration file
    #[arg(short, long, value_name = "FILE", env = "WICKETGATE_CONFIG", hide_env_values = true)]
    config: PathBuf,
    #[command(flatten)]
    json: JsonArg,
}

/// Revoke a key in the fleet log, for all logs or for later entries of one log.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate ledger key revoke --use enrolment --public-key old.pub --log wicketgate.dev/default/local-5f0c2a9be1d37486/0/0 \\\n    \
        --good-size 1200 --reason 'laptop stolen' --config wicketgate.yaml\n\n\
        The boundary is a position in the log, never a time. The command prints the line for trust files.")]
struct Revoke {
    /// What the key signs
    #[arg(long = "use", value_enum, value_name = "USE")]
    purpose: Purpose,
    /// Public key (PEM) to revoke
    #[arg(long = "public-key", alias = "key", value_name = "FILE")]
    key: PathBuf,
    /// Log whose first entries stay valid; if omitted, the key is revoked for all logs
    #[arg(long, value_name = "ORIGIN", requires = "good_size", value_parser = str::parse::<Text>)]
    log: Option<Text>,
    /// How many entries of that log stay valid
    #[arg(long, value_name = "N", requires = "log")]
    good_size: Option<u64>,
    /// Why; it is recorded in the ledger
    #[arg(long, value_name = "TEXT", value_parser = str::parse::<Text>)]
    reason: Text,
    /// Configuration file
    #[arg(short, long, value_name = "FILE", env = "WICKETGATE_CONFIG", hide_env_values = true)]
    config: PathBuf,
    #[command(flatten)]
    json: JsonArg,
}

/// What a key signs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Purpose {
    /// Heads of the fleet log.
    Fleet,
    /// Certificates of writers.
    Enrolment,
    /// Evidence.
    Evidence,
}

impl Purpose {
    const fn recorded(self) -> KeyUse {
        match self {
            Self::Fleet => KeyUse::Fleet,
            Self::Enrolment => KeyUse::Enrolment,
            Self::Evidence => KeyUse::Evidence,
        }
    }
}

/// Runs the command.
pub(super) async fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.command {
        Command::Show(command) => show(command)?,
        Command::Rotate(command) => rotate(command).await?,
        Command::Revoke(command) => revoke(command).await?,
    }
    Ok(Exit::Ok)
}

fn system(why: impl Into<Cause>) -> Failure {
    Failure::unverifiable(why)
}

fn show(command: &ShowKeys) -> Result<(), Failure> {
    let config = load(&command.config)?;
    let keys = FleetKeys::of(&config).map_err(Failure::config)?;
    let origin = crate::ledger::fleet::origin(&fleet::tenant(&config));
    for key in std::iter::once(&keys.key).chain(&keys.previous) {
        let line = format!("fleet-key {}", vkey(&origin, &key.public()));
        print_facts(json!({"trust": [line]}), line);
    }
    let line = format!("enrolment-key ed25519:{}", keys.enrolment.public().base64());
    print_facts(json!({"trust": [line]}), line);
    Ok(())
}

async fn rotate(command: &Rotate) -> Result<(), Failure> {
    let config = load(&command.config)?;
    let keys = FleetKeys::of(&config).map_err(Failure::config)?;
    let old = match (command.purpose, &command.old) {
        (Purpose::Fleet, None) => keys.key.public(),
        (Purpose::Enrolment, None) => keys.enrolment.public(),
        (Purpose::Evidence, Some(old)) => public(old)?,
        (Purpose::Evidence, None) => {
            return Err(Failure::usage("name the old key: `--old FILE`"));
        }
        (Purpose::Fleet | Purpose::Enrolment, Some(_)) => {
            let why = "`--old` is for evidence keys: this one is in the configuration";
            return Err(Failure::usage(why));
        }
    };
    let new = made(&command.new)?;
    if new.public() == old {
        return Err(Failure::usage("the new key is the same as the old one"));
    }
    let rotated = KeyRotated {
        new: Base64(new.public().to_bytes()),
        old: Base64(old.to_bytes()),
        r#use: command.purpose.recorded(),
    };
    record(&config, &keys, Draft::of(rotated)).await?;
    let file = command.new.display();
    let facts = json!({"use": command.purpose.recorded().as_str(), "old": old.base64(), "new": new.public().base64()});
    match command.purpose {
        Purpose::Fleet => {
            // WHY: record a head that both keys signed before any verifier has to know the new key.
            let both = FleetKeys { key: new, previous: Some(Arc::clone(&keys.key)), ..keys };
            let parts = fleet::parts(&config, &both).await.map_err(system)?;
            let log = OpenFleetLog::open(parts).await.map_err(system)?;
            log.close().await.map_err(system)?;
            let before = config.fleet.key.as_deref().unwrap_or(Path::new("")).display();
            let signed =
                "the old key announced the new one, and both signed the head of the fleet log";
            print_facts(
                facts,
                format!(
                    "{signed}\nnow set fleet.key: {file}\nand fleet.previous_key: {before}, until witnesses and auditors \
                     know the new key"
                ),
            );
        }
        Purpose::Enrolment => {
            print_facts(
                facts,
                format!(
                    "the old key announced the new one in the fleet log\nnow set fleet.enrolment_key: {file} and restart \
                     the gates: it certifies their next epochs"
                ),
            );
        }
        Purpose::Evidence => {
            print_facts(facts, format!("recorded; sign the next evidence with {file}"));
        }
    }
    Ok(())
}

async fn revoke(command: &Revoke) -> Result<(), Failure> {
    let config = load(&command.config)?;
    let keys = FleetKeys::of(&config).map_err(Failure::config)?;
    let key = public(&command.key)?;
    let revoked = KeyRevoked {
        good_size: command.good_size.map(Into::into),
        key: Base64(key.to_bytes()),
        log: command.log.clone(),
        reason: command.reason.clone(),
        r#use: command.purpose.recorded(),
    };
    record(&config, &keys, Draft::of(revoked)).await?;
    let bound = match (&command.log, command.good_size) {
        (Some(log), Some(size)) => format!(" {log} {size}"),
        _ => String::new(),
    };
    let facts = json!({"use": command.purpose.recorded().as_str(), "key_id": key.id(), "log": command.log.as_deref(),
        "good_size": command.good_size});
    print_facts(facts, format!("revoked {} {}{bound}", command.purpose.recorded(), key.id()));
    Ok(())
}

async fn record(config: &Config, keys: &FleetKeys, draft: Draft) -> Result<(), Failure> {
    let parts = fleet::parts(config, keys).await.map_err(system)?;
    let log = OpenFleetLog::open(parts).await.map_err(Failure::invalid)?;
    let recorded = log.record(draft).await;
    let closed = log.close().await;
    recorded.map_err(system)?;
    closed.map_err(system)
}

/// A key that is there, or a new one of mode 0600 with its public half beside it.
fn made(path: &Path) -> Result<Arc<dyn Signer>, Failure> {
    if agent_key(path).is_none() && !path.exists() {
        let key = SecretKey::generate(&SystemEntropy);
        key.store(path).map_err(system)?;
        write_new(&beside(path, ".pub"), key.public().to_pem().as_bytes()).map_err(system)?;
    }
    signer::open(path, &config::environment).map_err(Failure::usage)
}

fn public(path: &Path) -> Result<PublicKey, Failure> {
    match PublicKey::load_all(path).map_err(Failure::usage)?.as_slice() {
        [key] => Ok(*key),
        _ => Err(Failure::usage(SeveralKeys(path.to_owned()))),
    }
}

/// A file with several keys where one is expected.
#[derive(Debug, thiserror::Error)]
#[error("`{}` holds more than one key", .0.display())]
struct SeveralKeys(PathBuf);
