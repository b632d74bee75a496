//! `wicketgate witness keygen | serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{Exit, block_on, complain, say, write_new};
use crate::clock::{SystemClock, SystemEntropy};
use crate::crypto::keys::SecretKey;
use crate::crypto::note::{VerifierKey, is_name};
use crate::serve::listener;
use crate::telemetry::trace;
use crate::witness::server::{self, Witness};
use crate::witness::state::{Error, Store, read_logs};

/// Cosign heads of other people's logs, so that none of them can be rewritten unseen.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make the key of a witness, and print what its users have to know of it
    Keygen(Keygen),
    /// Run a witness, until a signal
    Serve(Serve),
}

/// Make the key of a witness.
///
/// Writes the secret key (PKCS#8 PEM, mode 0600) to PATH and the public key (SPKI PEM) to PATH.pub, and
/// prints the verifier key for trust files (`witness-key`). Existing files are never replaced.
#[derive(Debug, clap::Args)]
struct Keygen {
    /// Name of the witness: a URL without a scheme that is yours, as `witness.example/1`
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: String,
    /// Where the secret key goes; the public key goes to PATH.pub
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Run a witness.
///
/// It remembers the newest head of each log it cosigned, and cosigns a head only if it extends that.
/// It sees heads and proofs, nothing of what a log is about.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  wicketgate witness serve --name witness.example/1 --key witness.pem \
    --logs logs.txt --state /var/lib/witness\n\n\
    SIGTERM and SIGINT end it with 0. It ends with 75 when another witness uses the state directory, and\n\
    with 78 when the list of logs, the key or what it remembered is not in order: restore the state from\n\
    where it was, a witness that forgets would cosign a fork."
)]
struct Serve {
    /// Name of the witness, as given to keygen
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: String,
    /// Its secret key: a PKCS#8 PEM file of mode 0600
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The logs it cosigns: one verifier key (`name+hash+key`) a line
    #[arg(long, value_name = "FILE")]
    logs: PathBuf,
    /// Where it remembers; made if it is not there
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// Where it listens, without TLS: give it a proxy that ends TLS, or a network of its own
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7302")]
    listen: SocketAddr,
    /// Log JSON lines
    #[arg(long)]
    json: bool,
    /// End when this process, which has to be the parent, ends
    #[arg(long, value_name = "PID", hide = true)]
    parent: Option<u32>,
}

fn name(text: &str) -> Result<String, String> {
    if is_name(text) {
        Ok(text.to_owned())
    } else {
        Err("a name has no spaces, no plus, and is not empty".to_owned())
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Exit {
    match &args.command {
        Command::Keygen(command) => keygen(command),
        Command::Serve(command) => serve(command),
    }
}

fn keygen(command: &Keygen) -> Exit {
    let mut public = command.out.clone().into_os_string();
    public.push(".pub");
    let public = PathBuf::from(public);
    if public.exists() {
        complain(format!("error: {}: exists and is not replaced", public.display()));
        return Exit::Invalid;
    }
    let key = SecretKey::generate(&SystemEntropy);
    let written = key.store(&command.out).map_err(|e| e.to_string());
    if let Err(error) = written.and_then(|()| write_new(&public, key.public().to_pem().as_bytes()))
    {
        complain(format!("error: {error}"));
        return Exit::Invalid;
    }
    let vkey = VerifierKey::witness(&command.name, key.public()).to_string();
    let (secret, public) = (command.out.display().to_string(), public.display().to_string());
    if command.json {
        let told = serde_json::json!({"vkey": vkey, "secret": secret, "public": public});
        say(told.to_string());
    } else {
        say(format!("secret key    {secret}"));
        say(format!("public key    {public}"));
        say(format!("verifier key  {vkey}"));
    }
    Exit::Ok
}

fn serve(command: &Serve) -> Exit {
    if let Some(Err(why)) = command.parent.map(super::serve::end_with) {
        complain(format!("error: {why}"));
        return Exit::Invalid;
    }
    let _logging = match trace::init("info", command.json, None) {
        Ok(guard) => guard,
        Err(error) => {
            complain(format!("error: {error}"));
            return Exit::Config;
        }
    };
    let witness = match open(command) {
        Ok(witness) => witness,
        Err((exit, why)) => {
            complain(format!("error: {why}"));
            return exit;
        }
    };
    match block_on(listen(witness, command.listen)) {
        Ok(Ok(())) => Exit::Ok,
        Ok(Err(why)) => {
            complain(format!("error: {why}"));
            Exit::Invalid
        }
        Err(exit) => exit,
    }
}

fn open(command: &Serve) -> Result<Witness, (Exit, String)> {
    let key = SecretKey::load(&command.key).map_err(|e| (Exit::Config, e.to_string()))?;
    let exit = |error: Error| match &error {
        Error::Taken(_) => (Exit::Fenced, error.to_string()),
        Error::Io { .. } | Error::Damaged { .. } | Error::Logs { .. } | Error::Broken => {
            (Exit::Config, error.to_string())
        }
    };
    let logs = read_logs(&command.logs).map_err(exit)?;
    let own = VerifierKey::witness(&command.name, key.public());
    let store = Store::open(&command.state, &own, logs).map_err(exit)?;
    Ok(Witness { name: command.name.clone(), key, store, clock: Arc::new(SystemClock::new()) })
}

async fn listen(witness: Witness, addr: SocketAddr) -> Result<(), String> {
    // Before anybody is told that it listens, so that no signal is missed.
    let mut term = signal(SignalKind::terminate()).map_err(|e| e.to_string())?;
    let mut int = signal(SignalKind::interrupt()).map_err(|e| e.to_string())?;
    let listener = listener::tcp(addr).await.map_err(|e| e.to_string())?;
    let shutdown = CancellationToken::new();
    say(format!("listening on http://{}", listener.place()));
    let mut serving = std::pin::pin!(server::serve(witness, listener, shutdown.clone()));
    tokio::select! {
        biased;
        () = &mut serving => return Ok(()),
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    shutdown.cancel();
    serving.await;
    Ok(())
}
