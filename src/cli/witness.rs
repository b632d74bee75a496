//! `wicketgate ledger witness keygen | serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::Occupied;
use super::{Exit, Failure, argument, listening, say, write_new};
use crate::clock::{SystemClock, SystemEntropy};
use crate::crypto::files::beside;
use crate::crypto::keys::SecretKey;
use crate::crypto::note::VerifierKey;
use crate::telemetry::setup;
use crate::witness::server::{self, WitnessServer};
use crate::witness::state::{Error, Store, read_logs};

/// Cosign the heads of other logs, so that a rewrite of one of them is detected.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make the key of a witness, and print the line for trust files
    Keygen(WitnessKeygen),
    /// Run a witness, until a signal
    Serve(Serve),
}

/// Make the key of a witness, and print the line for trust files.
///
/// Writes the secret key (PKCS#8 PEM, mode 0600) to PATH and the public key (SPKI PEM) to PATH.pub, and
/// prints the verifier key for trust files (`witness-key`). Existing files are never replaced.
#[derive(Debug, clap::Args)]
struct WitnessKeygen {
    /// Name of the witness: a URL of yours without its scheme, such as `witness.example/1`
    #[arg(long, value_name = "NAME", value_parser = argument::witness)]
    name: String,
    /// Write the secret key to this file; the public key goes to PATH.pub
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Run a witness.
///
/// It keeps the newest head of each log that it cosigned, and cosigns a head only if it extends that one. It receives
/// heads and proofs, but no entries.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate ledger witness serve --name witness.example/1 --key witness.pem --logs logs.txt --state /var/lib/witness\n\n\
        SIGTERM and SIGINT end it with 0. Exits with 75 when another witness uses the state directory, and with 78 when the\n\
        list of logs, the key or the state is damaged. If the state is damaged, restore its latest version: a witness with\n\
        an older state could cosign a fork.")]
struct Serve {
    /// Name of the witness, as given to `keygen`
    #[arg(long, value_name = "NAME", value_parser = argument::witness)]
    name: String,
    /// Sign with this key of the witness: a PKCS#8 PEM file of mode 0600
    #[arg(long, value_name = "KEY")]
    key: PathBuf,
    /// Logs to cosign: one verifier key (`name+hash+key`) a line
    #[arg(long, value_name = "FILE")]
    logs: PathBuf,
    /// State directory with the newest head of each log; it is made if it does not exist
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// Address to listen on, without TLS: put a proxy with TLS in front of it, or use a private network
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7302")]
    listen: SocketAddr,
    /// Log JSON lines
    #[arg(long)]
    json: bool,
    /// End when this process, which has to be the parent, ends
    #[arg(long, value_name = "PID", hide = true)]
    parent: Option<u32>,
}

/// Runs the command.
pub(super) async fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.command {
        Command::Keygen(command) => keygen(command),
        Command::Serve(command) => serve(command).await,
    }
    .map(|()| Exit::Ok)
}

fn keygen(command: &WitnessKeygen) -> Result<(), Failure> {
    let public = beside(&command.out, ".pub");
    if public.exists() {
        return Err(Failure::invalid(Occupied::File(public)));
    }
    let key = SecretKey::generate(&SystemEntropy);
    key.store(&command.out).map_err(Failure::invalid)?;
    write_new(&public, key.public().to_pem().as_bytes()).map_err(Failure::invalid)?;
    let vkey = VerifierKey::witness(&command.name, key.public()).to_string();
    let (secret, public) = (command.out.display().to_string(), public.display().to_string());
    if command.json {
        let made = serde_json::json!({"vkey": vkey, "secret": secret, "public": public});
        say(made.to_string());
    } else {
        say(format!("secret key    {secret}"));
        say(format!("public key    {public}"));
        say(format!("verifier key  {vkey}"));
    }
    Ok(())
}

async fn serve(command: &Serve) -> Result<(), Failure> {
    command.parent.map_or(Ok(()), super::serve::end_with).map_err(Failure::invalid)?;
    let logging = setup::init("info", command.json, None);
    let _logging = logging.map_err(Failure::config)?;
    let witness = open(command)?;
    let serving = |listener, shutdown| server::serve(witness, listener, shutdown);
    listening::until_signal("http", command.listen, serving).await
}

fn open(command: &Serve) -> Result<WitnessServer, Failure> {
    let key = SecretKey::load(&command.key).map_err(Failure::config)?;
    let exit = |error: Error| match &error {
        Error::Taken(_) => Failure::fenced(error),
        Error::Io { .. } | Error::Damaged { .. } | Error::Logs { .. } | Error::Broken => {
            Failure::config(error)
        }
    };
    let logs = read_logs(&command.logs).map_err(exit)?;
    let own = VerifierKey::witness(&command.name, key.public());
    let store = Store::open(&command.state, &own, logs).map_err(exit)?;
    Ok(WitnessServer {
        name: command.name.clone(),
        key,
        store,
        clock: Arc::new(SystemClock::new()),
    })
}
