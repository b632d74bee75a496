//! `wicketgate ledger payload list | erase | expire | hold | release | receipt | keygen`.

use std::path::PathBuf;

use super::api::remote::RemoteArgs;
use super::argument::{commitment, keep, term};
use super::reader::LedgerSource;
use super::recorder::FleetArgs;
use super::{Exit, Failure, JsonArg};
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::record::Text;

mod access;
mod disclosure;
mod erase;
mod hold;
mod list;
mod order;
mod receipt;

pub use disclosure::{DecryptionKeys, Disclosure};

/// List, erase, expire or place on legal hold the stored payloads.
///
/// Entries hold commitments only; arguments, results and policy inputs are stored beside them and can be erased
/// without breaking the chain.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What to do with payloads.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the stored payloads, their age, and which are on legal hold
    List(ListPayloads),
    /// Record an erasure in the fleet log, then erase payloads with their salts
    Erase(Erase),
    /// Erase payloads that are older than their retention term
    Expire(Expire),
    /// Place the payloads of a run or a log on legal hold
    Hold(Hold),
    /// Release a legal hold
    Release(Release),
    /// Check the receipt of an erasure offline
    Receipt(Receipt),
    /// Make a key that encrypts payloads
    Keygen(PayloadKeygen),
}

/// `payload list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate ledger payload list --config wicketgate.yaml\n  \
    wicketgate ledger payload list --sqlite state/ledger.sqlite --run RUN --json")]
struct ListPayloads {
    #[command(flatten)]
    access: Access,
    /// Run to list; if omitted, every run
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
    source: LedgerSource,
    /// File with the URL of a Postgres login that may read and erase (`ledger migrate --eraser`)
    #[arg(long, value_name = "FILE")]
    eraser_url_file: Option<PathBuf>,
}

/// `payload erase`.
#[derive(Debug, clap::Args)]
#[command(
    mut_group("LedgerSource", |group| group.required(false)),
    group = clap::ArgGroup::new("what").required(true).args(["run", "commitment", "resume", "order"]),
    group = clap::ArgGroup::new("from")
        .required(true)
        .args(["config", "sqlite", "postgres_url_file", "hub"]),
    after_help = "Examples:\n  \
        wicketgate ledger payload erase --config wicketgate.yaml --run RUN --basis \"Art. 17\" --yes\n  \
        wicketgate ledger payload erase --hub https://hub:7301 --token-file otto.token --run RUN --basis \"Art. 17\" --statement > order\n  \
        ssh-keygen -Y sign -f ~/.ssh/id_ed25519 -n wicketgate-order order\n  \
        wicketgate ledger payload erase --hub https://hub:7301 --token-file otto.token --order order --signature order.sig --yes\n\n\
        You sign an erasure with your own key, which is in the signed list of approvers (`approvals.signers`) with\n\
        `namespaces=\"wicketgate-order\"` and the role `operator`. The fleet log records the order with its signature; an\n\
        order can be used once, within 24 hours."
)]
struct Erase {
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    fleet: FleetArgs,
    /// Run whose payloads are erased
    #[arg(long, value_name = "ID", value_parser = super::evidence::run_id)]
    run: Option<RunId>,
    /// Only the payloads of the run that have this role: `args`, `result`, `policy_input`, …
    #[arg(long, value_name = "ROLE", requires = "run")]
    role: Option<String>,
    /// Erase these payloads, by their commitments
    #[arg(long, value_name = "HEX", value_parser = commitment, num_args = 1..)]
    commitment: Vec<Digest>,
    /// Only finish an erasure that was interrupted
    #[arg(long, conflicts_with = "hub")]
    resume: bool,
    /// Why: the legal basis or the reason; the fleet log records it permanently
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["resume", "order"])]
    basis: Option<String>,
    /// Request behind the erasure, such as a ticket
    #[arg(long, value_name = "ID", conflicts_with = "order")]
    request: Option<String>,
    /// Erase; if omitted, only print what would be erased
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    signing: Signing,
    #[command(flatten)]
    after: EraseFollowUp,
    #[command(flatten)]
    json: JsonArg,
}

/// What is done after erasing.
#[derive(Clone, Debug, clap::Args)]
struct EraseFollowUp {
    /// Write a signed receipt to this new file
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
    /// Sign the receipt with this evidence key: a PKCS#8 PEM file of mode 0600
    #[arg(long, value_name = "KEY")]
    key: Option<PathBuf>,
    /// How long backups are kept, such as `35d`; if omitted, the term of the configuration
    #[arg(long, value_name = "TERM", value_parser = term)]
    backups: Option<std::time::Duration>,
    /// For SQLite: rewrite the file even if no traces of erased bytes are found; calls wait until it is done
    #[arg(long)]
    vacuum: bool,
}

/// `payload expire`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate ledger payload expire --config wicketgate.yaml --dry-run\n  \
    wicketgate ledger payload expire --config wicketgate.yaml --keep args=7d")]
struct Expire {
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    fleet: FleetArgs,
    /// How long payloads of a role are kept, such as `args=30d`; if omitted, the term of the configuration
    #[arg(long, value_name = "ROLE=TERM", value_parser = keep)]
    keep: Vec<(String, std::time::Duration)>,
    /// Who decided it, as recorded in the fleet log
    #[arg(long, value_name = "WHO", default_value = "payload expire")]
    by: String,
    /// Only print what would be erased
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    after: EraseFollowUp,
    #[command(flatten)]
    json: JsonArg,
}

/// What a hold is on, and who is to record it.
#[derive(Debug, clap::Args)]
struct HoldSubject {
    #[command(flatten)]
    source: LedgerSource,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    fleet: FleetArgs,
    /// Run whose payloads the hold covers
    #[arg(long, value_name = "ID", value_parser = super::evidence::run_id)]
    run: Option<RunId>,
    /// Log whose payloads the hold covers, by its origin
    #[arg(long, value_name = "ORIGIN")]
    log: Option<String>,
}

/// `payload hold`.
#[derive(Debug, clap::Args)]
#[command(
    mut_group("LedgerSource", |group| group.required(false)),
    group = clap::ArgGroup::new("held").required(true).args(["run", "log"]),
    group = clap::ArgGroup::new("from")
        .required(true)
        .args(["config", "sqlite", "postgres_url_file", "hub"]),
)]
#[command(after_help = "Examples:\n  \
    wicketgate ledger payload hold --config wicketgate.yaml --run RUN --reason \"case 7\" --by legal@example.com")]
struct Hold {
    #[command(flatten)]
    about: HoldSubject,
    /// Why; it is recorded in the fleet log
    #[arg(long, value_name = "TEXT", value_parser = str::parse::<Text>)]
    reason: Text,
    /// Who decided it, as recorded in the fleet log; with --hub, always the operator who logged in
    #[arg(long, value_name = "WHO", required_unless_present = "hub", conflicts_with = "hub", value_parser = str::parse::<Text>)]
    by: Option<Text>,
    #[command(flatten)]
    json: JsonArg,
}

/// `payload release`.
#[derive(Debug, clap::Args)]
#[command(
    mut_group("LedgerSource", |group| group.required(false)),
    group = clap::ArgGroup::new("held").required(true).args(["run", "log", "order"]),
    group = clap::ArgGroup::new("from")
        .required(true)
        .args(["config", "sqlite", "postgres_url_file", "hub"]),
    after_help = "Examples:\n  \
        wicketgate ledger payload release --config wicketgate.yaml --run RUN --reason \"case 7 is closed\"\n\n\
        You sign the release with your own key, like an erasure: see `wicketgate ledger payload erase --help`. A hold that\n\
        was placed after you signed stays in force."
)]
struct Release {
    #[command(flatten)]
    about: HoldSubject,
    /// Why; it is recorded in the fleet log
    #[arg(long, value_name = "TEXT", required_unless_present = "order")]
    reason: Option<String>,
    #[command(flatten)]
    signing: Signing,
    #[command(flatten)]
    json: JsonArg,
}

/// With which key an order is signed, and who counts as an operator.
#[derive(Debug, Default, clap::Args)]
struct Signing {
    /// Sign with this SSH key: a private key file, or `ssh-agent:<public key file>`; if omitted, ~/.ssh/id_ed25519
    #[arg(long, value_name = "KEY", conflicts_with = "signature")]
    operator_key: Option<PathBuf>,
    /// Print only the bytes to sign; sign them with `ssh-keygen -Y sign -n wicketgate-order`
    #[arg(long, conflicts_with_all = ["operator_key", "order"])]
    statement: bool,
    /// File with the bytes that `--statement` printed, signed elsewhere
    #[arg(long, value_name = "FILE", requires = "signature")]
    order: Option<PathBuf>,
    /// Signature over the bytes of `--order`
    #[arg(long, value_name = "FILE", requires = "order")]
    signature: Option<PathBuf>,
    /// Signed list of approvers; if omitted, the list of the configuration
    #[arg(long, value_name = "FILE", requires = "approver_key", conflicts_with_all = ["config", "hub"])]
    signers: Option<PathBuf>,
    /// Public key (PEM) that signs the list of approvers
    #[arg(long, value_name = "FILE", requires = "signers")]
    approver_key: Option<PathBuf>,
}

/// `payload receipt`.
#[derive(Debug, clap::Args)]
struct Receipt {
    /// Public key (PEM) of the evidence key that signed the receipt
    #[arg(long = "public-key", alias = "key", value_name = "FILE")]
    key: PathBuf,
    /// Public key (PEM) of the fleet log; if omitted, the log's own signature is not checked
    #[arg(long = "fleet-public-key", alias = "fleet-key", value_name = "FILE")]
    fleet_key: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The receipt
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// `payload keygen`.
#[derive(Debug, clap::Args)]
struct PayloadKeygen {
    /// Write the key to this new file of mode 0600
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    #[command(flatten)]
    json: JsonArg,
}

impl EraseFollowUp {
    /// Refuses a receipt without a key to sign it.
    fn signed(&self) -> Result<(), Failure> {
        if self.receipt.is_some() && self.key.is_none() {
            return Err(Failure::usage(
                "a receipt needs a signature: name the evidence key (`--key`)",
            ));
        }
        Ok(())
    }
}

/// Runs the command.
pub(super) async fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.command {
        Command::Receipt(command) => receipt::run(command),
        Command::Keygen(command) => receipt::keygen(command),
        Command::List(command) => list::run(command).await,
        Command::Erase(command) => erase::erase(command).await,
        Command::Expire(command) => erase::expire(command).await,
        Command::Hold(command) => hold::place(command).await,
        Command::Release(command) => hold::release(command).await,
    }
}
