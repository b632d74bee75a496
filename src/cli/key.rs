//! `wicketgate key show | rotate | revoke`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fleet::{Failure, load};
use super::{Exit, block_on, complain, say, write_new};
use crate::app::fleet::{self, Keys};
use crate::clock::SystemEntropy;
use crate::config::{self, Config};
use crate::crypto::keys::{PublicKey, SecretKey};
use crate::crypto::note::vkey;
use crate::crypto::signer::{self, Signer, agent_key};
use crate::ledger::fleet::Fleet;
use crate::record::fleet::{KeyRevoked, KeyRotated, KeyUse};
use crate::record::{Base64, Draft, Text};

const INVALID: u8 = 1;
const USAGE: u8 = 64;
const CONFIG: u8 = 78;

/// Show, rotate and revoke the keys of a ledger, on the books.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Show(Show),
    Rotate(Rotate),
    Revoke(Revoke),
}

/// Print the fleet and enrolment keys as lines for a trust file.
#[derive(Debug, clap::Args)]
struct Show {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Let a new key take over, and say so in the fleet log with the old one.
///
/// The new key is made if the file is not there. A fleet key signs along with the new one while the
/// configuration names it as `fleet.previous_key`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wicketgate key rotate --use fleet --new keys/fleet-2.pem --config wicketgate.yaml\n  \
    wicketgate key rotate --use enrolment --new ssh-agent:keys/enrolment.pub --config wicketgate.yaml"
)]
struct Rotate {
    /// What the key signs
    #[arg(long = "use", value_enum, value_name = "USE")]
    purpose: Purpose,
    /// The new key: a PEM file, made if it is not there, or ssh-agent:<public key file>
    #[arg(long, value_name = "FILE")]
    new: PathBuf,
    /// The public half of the old key (PEM); for evidence keys only, the others are in the configuration
    #[arg(long, value_name = "FILE")]
    old: Option<PathBuf>,
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Say in the fleet log that a key counts no more, or only for the first entries of a log.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  wicketgate key revoke --use enrolment --key old.pub --log wicketgate.dev/default/local-5f0c2a9be1d37486/0/0 \\\n    \
    --good-size 1200 --reason 'laptop stolen' --config wicketgate.yaml\n\n\
    The boundary is a position in the log, never a time. It prints the line for trust files."
)]
struct Revoke {
    /// What the key signs
    #[arg(long = "use", value_enum, value_name = "USE")]
    purpose: Purpose,
    /// Its public half (PEM)
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The log whose first entries stay good; without one nothing of it does
    #[arg(long, value_name = "ORIGIN", requires = "good_size")]
    log: Option<Text>,
    /// How many entries of that log stay good
    #[arg(long, value_name = "N", requires = "log")]
    good_size: Option<u64>,
    /// Why, for the books
    #[arg(long, value_name = "TEXT")]
    reason: Text,
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
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
pub fn run(args: &Args) -> Exit {
    let done = block_on(async {
        match &args.command {
            Command::Show(command) => show(command),
            Command::Rotate(command) => rotate(command).await,
            Command::Revoke(command) => revoke(command).await,
        }
    });
    match done {
        Ok(Ok(())) => Exit::Ok,
        Ok(Err((code, why))) => {
            complain(format!("error: {why}"));
            match code {
                INVALID => Exit::Invalid,
                USAGE => Exit::Usage,
                CONFIG => Exit::Config,
                _ => Exit::Unverifiable,
            }
        }
        Err(exit) => exit,
    }
}

fn system(why: impl std::fmt::Display) -> Failure {
    (2, why.to_string())
}

fn show(command: &Show) -> Result<(), Failure> {
    let config = load(&command.config)?;
    let keys = Keys::of(&config).map_err(|e| (CONFIG, e))?;
    let origin = crate::ledger::fleet::origin(&fleet::tenant(&config));
    for key in std::iter::once(&keys.key).chain(&keys.previous) {
        say(format!("fleet-key {}", vkey(&origin, &key.public())));
    }
    say(format!("enrolment-key ed25519:{}", keys.enrolment.public().base64()));
    Ok(())
}

async fn rotate(command: &Rotate) -> Result<(), Failure> {
    let config = load(&command.config)?;
    let keys = Keys::of(&config).map_err(|e| (CONFIG, e))?;
    let old = match (command.purpose, &command.old) {
        (Purpose::Fleet, None) => keys.key.public(),
        (Purpose::Enrolment, None) => keys.enrolment.public(),
        (Purpose::Evidence, Some(old)) => public(old)?,
        (Purpose::Evidence, None) => return Err((USAGE, "name the old key: `--old FILE`".into())),
        (Purpose::Fleet | Purpose::Enrolment, Some(_)) => {
            return Err((
                USAGE,
                "`--old` is for evidence keys: this one is in the configuration".into(),
            ));
        }
    };
    let new = made(&command.new)?;
    if new.public() == old {
        return Err((USAGE, "the new key is the old one".into()));
    }
    let rotated = KeyRotated {
        new: Base64(new.public().to_bytes()),
        old: Base64(old.to_bytes()),
        r#use: command.purpose.recorded(),
    };
    record(&config, &keys, Draft::of(rotated)).await?;
    let file = command.new.display();
    match command.purpose {
        Purpose::Fleet => {
            // A head that both signed is on the books before anybody has to know the new key.
            let both = Keys { key: new, previous: Some(Arc::clone(&keys.key)), ..keys };
            let parts = fleet::parts(&config, &both).await.map_err(system)?;
            let log = Fleet::open(parts).await.map_err(system)?;
            log.close().await.map_err(system)?;
            let before = config.fleet.key.as_deref().unwrap_or(Path::new("")).display();
            say("the old key announced the new one, and both signed the head of the fleet log");
            say(format!("now set fleet.key: {file}"));
            say(format!(
                "and fleet.previous_key: {before}, until witnesses and auditors know the new key"
            ));
        }
        Purpose::Enrolment => {
            say("the old key announced the new one in the fleet log");
            say(format!(
                "now set fleet.enrolment_key: {file} and restart the gates: their next epochs are certified by it"
            ));
        }
        Purpose::Evidence => {
            say(format!("on the books; sign the next evidence with {file}"));
        }
    }
    Ok(())
}

async fn revoke(command: &Revoke) -> Result<(), Failure> {
    let config = load(&command.config)?;
    let keys = Keys::of(&config).map_err(|e| (CONFIG, e))?;
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
    say(format!("revoked {} {}{bound}", command.purpose.recorded(), key.id()));
    Ok(())
}

async fn record(config: &Config, keys: &Keys, draft: Draft) -> Result<(), Failure> {
    let parts = fleet::parts(config, keys).await.map_err(system)?;
    let log = Fleet::open(parts).await.map_err(|e| (INVALID, e.to_string()))?;
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
        let mut public = path.as_os_str().to_owned();
        public.push(".pub");
        write_new(Path::new(&public), key.public().to_pem().as_bytes()).map_err(system)?;
    }
    signer::open(path, &config::environment).map_err(|e| (USAGE, e.to_string()))
}

fn public(path: &Path) -> Result<PublicKey, Failure> {
    match PublicKey::load_all(path).as_deref() {
        Ok([key]) => Ok(*key),
        Ok(_) => Err((USAGE, format!("`{}` holds more than one key", path.display()))),
        Err(error) => Err((USAGE, error.to_string())),
    }
}
