//! `wicketgate payload list | erase | expire | hold | release | receipt | keygen`.

use std::path::PathBuf;

use super::office::Away;
use super::reader::Source;
use super::recorder::FleetArgs;
use super::{Exit, block_on, complain};
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::record::Text;

mod books;
mod disclosure;
mod erase;
mod hold;
mod list;
mod order;
mod receipt;

pub use disclosure::Disclosure;

/// List, erase and expire what calls carried, and hold it against both.
///
/// The entries of a ledger hold commitments only; arguments, results and policy inputs lie beside them
/// and can be erased without breaking the chain.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What to do with payloads.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show which payloads are stored, since when, and which are held
    List(List),
    /// Erase payloads with their salts, after the fleet log says so
    Erase(Erase),
    /// Erase payloads that are older than the configuration keeps them
    Expire(Expire),
    /// Keep the payloads of a run or a log from being erased or expired
    Hold(Hold),
    /// Lift a hold
    Release(Release),
    /// Check the receipt of an erasure, offline
    Receipt(Receipt),
    /// Make a key to encrypt payloads with
    Keygen(Keygen),
}

/// `payload list`.
#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    access: Access,
    /// Only of this run
    #[arg(long, value_name = "ID", value_parser = super::evidence::run_id)]
    run: Option<RunId>,
    /// Print one JSON object per payload
    #[arg(long)]
    json: bool,
}

/// Where the ledger is, and as whom to delete in it.
#[derive(Debug, clap::Args)]
struct Access {
    #[command(flatten)]
    source: Source,
    /// Postgres: the URL of the role that reads and erases (`ledger migrate --eraser`) is in this file
    #[arg(long, value_name = "FILE")]
    eraser_url_file: Option<PathBuf>,
}

/// `payload erase`.
#[derive(Debug, clap::Args)]
#[command(
    mut_group("Source", |group| group.required(false)),
    group = clap::ArgGroup::new("what").required(true).args(["run", "commitment", "resume", "order"]),
    group = clap::ArgGroup::new("from")
        .required(true)
        .args(["config", "sqlite", "postgres_url_file", "hub"]),
    after_help = "Examples:\n  \
    wicketgate payload erase --config wicketgate.yaml --run RUN --basis \"Art. 17\" --yes\n  \
    wicketgate payload erase --hub https://hub:7301 --token-file otto.token --run RUN --basis \"Art. 17\" --statement > order\n  \
    ssh-keygen -Y sign -f ~/.ssh/id_ed25519 -n wicketgate-order order\n  \
    wicketgate payload erase --hub https://hub:7301 --token-file otto.token --order order --signature order.sig --yes\n\n\
    An erasure is signed with your own key, which is in the signed list of approvers (`approvals.signers`) with\n\
    `namespaces=\"wicketgate-order\"` and the role `operator`. The order stands in the fleet log with its signature; it\n\
    is good once, for a day."
)]
struct Erase {
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    away: Away,
    #[command(flatten)]
    fleet: FleetArgs,
    /// Every payload of this run
    #[arg(long, value_name = "ID", value_parser = super::evidence::run_id)]
    run: Option<RunId>,
    /// Of the run only payloads of this role: `args`, `result`, `policy_input`, …
    #[arg(long, value_name = "ROLE", requires = "run")]
    role: Option<String>,
    /// These payloads, by their commitments
    #[arg(long, value_name = "HEX", value_parser = digest, num_args = 1..)]
    commitment: Vec<Digest>,
    /// Only finish what an erasure before left undone
    #[arg(long, conflicts_with = "hub")]
    resume: bool,
    /// Why: the legal basis or the reason, as it will stand in the fleet log for good
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["resume", "order"])]
    basis: Option<String>,
    /// The request it follows, such as a ticket
    #[arg(long, value_name = "ID", conflicts_with = "order")]
    request: Option<String>,
    /// Erase; without, only say what would be erased
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    signing: Signing,
    #[command(flatten)]
    after: After,
}

/// What is done after erasing.
#[derive(Clone, Debug, clap::Args)]
struct After {
    /// Write a signed receipt to this file; it may not exist
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
    /// The evidence key, which signs the receipt: a PKCS#8 PEM file of mode 0600
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// How long backups are kept, such as `35d`; with `--config`, the configuration's
    #[arg(long, value_name = "TERM", value_parser = term)]
    backups: Option<std::time::Duration>,
    /// SQLite: make the file anew in any case, not only if traces are found; calls wait meanwhile
    #[arg(long)]
    vacuum: bool,
}

/// `payload expire`.
#[derive(Debug, clap::Args)]
struct Expire {
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    fleet: FleetArgs,
    /// How long payloads of a role stay, such as `args=30d`; with `--config`, the configuration's
    #[arg(long, value_name = "ROLE=TERM", value_parser = keep)]
    keep: Vec<(String, std::time::Duration)>,
    /// Who it is done by, as it will stand in the fleet log
    #[arg(long, value_name = "WHO", default_value = "payload expire")]
    by: String,
    /// Only say what would be erased
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    after: After,
}

/// What a hold is on, and who is to record it.
#[derive(Debug, clap::Args)]
struct About {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    away: Away,
    #[command(flatten)]
    fleet: FleetArgs,
    /// This run
    #[arg(long, value_name = "ID", value_parser = super::evidence::run_id)]
    run: Option<RunId>,
    /// Everything in this log
    #[arg(long, value_name = "ORIGIN")]
    log: Option<String>,
}

/// `payload hold`.
#[derive(Debug, clap::Args)]
#[command(
    mut_group("Source", |group| group.required(false)),
    group = clap::ArgGroup::new("held").required(true).args(["run", "log"]),
    group = clap::ArgGroup::new("from")
        .required(true)
        .args(["config", "sqlite", "postgres_url_file", "hub"]),
)]
struct Hold {
    #[command(flatten)]
    about: About,
    /// Why, as it will stand in the fleet log
    #[arg(long, value_name = "TEXT")]
    reason: Text,
    /// Who says so, as it will stand in the fleet log; an office knows who asks
    #[arg(long, value_name = "WHO", required_unless_present = "hub", conflicts_with = "hub")]
    by: Option<Text>,
}

/// `payload release`.
#[derive(Debug, clap::Args)]
#[command(
    mut_group("Source", |group| group.required(false)),
    group = clap::ArgGroup::new("held").required(true).args(["run", "log", "order"]),
    group = clap::ArgGroup::new("from")
        .required(true)
        .args(["config", "sqlite", "postgres_url_file", "hub"]),
    after_help = "Examples:\n  \
    wicketgate payload release --config wicketgate.yaml --run RUN --reason \"case 7 is closed\"\n\n\
    The end of a hold is signed with your own key, as an erasure is: see `wicketgate payload erase --help`. A hold that\n\
    was placed after you signed stays."
)]
struct Release {
    #[command(flatten)]
    about: About,
    /// Why, as it will stand in the fleet log
    #[arg(long, value_name = "TEXT", required_unless_present = "order")]
    reason: Option<String>,
    #[command(flatten)]
    signing: Signing,
}

/// With which key an order is signed, and who counts as an operator.
#[derive(Debug, Default, clap::Args)]
struct Signing {
    /// Your SSH key: a private key file, or `ssh-agent:<public key file>`; default ~/.ssh/id_ed25519
    #[arg(long, value_name = "KEY", conflicts_with = "signature")]
    operator_key: Option<PathBuf>,
    /// Print only the bytes to sign: for `ssh-keygen -Y sign -n wicketgate-order`
    #[arg(long, conflicts_with_all = ["operator_key", "order"])]
    statement: bool,
    /// A file with bytes that were printed by `--statement` and signed elsewhere
    #[arg(long, value_name = "FILE", requires = "signature")]
    order: Option<PathBuf>,
    /// The signature over them
    #[arg(long, value_name = "FILE", requires = "order")]
    signature: Option<PathBuf>,
    /// The signed list of approvers; with `--config`, the configuration's
    #[arg(long, value_name = "FILE", requires = "approver_key", conflicts_with_all = ["config", "hub"])]
    signers: Option<PathBuf>,
    /// A public key (PEM) of those who sign that list
    #[arg(long, value_name = "FILE", requires = "signers")]
    approver_key: Option<PathBuf>,
}

/// `payload receipt`.
#[derive(Debug, clap::Args)]
struct Receipt {
    /// Public evidence key of whoever signed it
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Public key of the fleet log; without, only the signer vouches for the log
    #[arg(long, value_name = "FILE")]
    fleet_key: Option<PathBuf>,
    /// Print what it proves as JSON
    #[arg(long)]
    json: bool,
    /// The receipt
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// `payload keygen`.
#[derive(Debug, clap::Args)]
struct Keygen {
    /// Where the key goes: a new file of mode 0600
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

type Failure = (Exit, String);

impl After {
    /// Refuses a receipt that nobody signs.
    fn signed(&self) -> Result<(), Failure> {
        if self.receipt.is_some() && self.key.is_none() {
            return Err((
                Exit::Usage,
                "a receipt is signed: name the evidence key (`--key`)".into(),
            ));
        }
        Ok(())
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Exit {
    let done = match &args.command {
        Command::Receipt(command) => Ok(receipt::run(command)),
        Command::Keygen(command) => Ok(receipt::keygen(command)),
        Command::List(command) => block_on(list::run(command)),
        Command::Erase(command) => block_on(erase::erase(command)),
        Command::Expire(command) => block_on(erase::expire(command)),
        Command::Hold(command) => block_on(hold::place(command)),
        Command::Release(command) => block_on(hold::release(command)),
    };
    match done {
        Ok(Ok(exit)) | Err(exit) => exit,
        Ok(Err((exit, why))) => {
            complain(format!("error: {why}"));
            exit
        }
    }
}

fn digest(text: &str) -> Result<Digest, String> {
    Digest::parse(text).ok_or_else(|| "a commitment is 64 lowercase hex digits".to_owned())
}

fn term(text: &str) -> Result<std::time::Duration, String> {
    crate::config::duration(text).ok_or_else(|| "expected a term such as `30d` or `12h`".to_owned())
}

fn keep(text: &str) -> Result<(String, std::time::Duration), String> {
    let (role, after) = text.split_once('=').ok_or("expected ROLE=TERM, such as `args=30d`")?;
    Ok((role.to_owned(), term(after)?))
}
