//! `wicketgate policy backtest`: which recorded decisions a new bundle would flip, and by which rule.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use super::bundles;
use crate::cli::error::Occupied;
use crate::cli::observed::{StartingPoint, since};
use crate::cli::progress::Progress;
use crate::cli::reader::{self, LedgerSource};
use crate::cli::serve::end_with;
use crate::cli::{Cause, Exit, Failure, FileError, argument, ended, runtime, say, write_new};
use crate::clock::{Clock as _, SystemClock};
use crate::crypto::keys::SecretKey;
use crate::domain::canonical;
use crate::domain::id::{RunId, ToolName};
use crate::evidence::backtest::{self, BacktestQuery, Baseline, Candidate, Comparison, statement};
use crate::ledger::vault::Vault;

mod print;
mod progress;
mod verify;

/// Print, rule by rule, which recorded decisions a new bundle would change.
///
/// Every stored input is evaluated again and compared with its recorded decision, or with the decision of
/// `--against`. Members of the input that come from the bundle itself (which layers observe, which count approvers)
/// are taken from the new bundle. The ledger is only read.
#[derive(Debug, clap::Args)]
#[command(
    mut_group("LedgerSource", |group| group.required(false)),
    after_help = "Examples:\n  \
        wicketgate policy backtest --config wicketgate.yaml --bundle new --since 7d\n  \
        wicketgate policy backtest --sqlite state/ledger.sqlite --bundle new --against old --flips flips.jsonl\n  \
        wicketgate policy backtest --config wicketgate.yaml --bundle new --key audit.pem --out backtest.dsse.json\n  \
        wicketgate policy backtest --verify backtest.dsse.json --public-key audit.pem.pub --bundle new\n\n\
        Exit codes: 0 no decision changes and all were evaluated; 1 a decision changes; 2 no evaluated decision changes,\n\
        but some could not be evaluated, or an error. With --verify: 0 the result is valid, 1 it is not.\n\
        If only the reasons of a decision change, that is printed but does not count as a change."
)]
pub struct Args {
    #[command(flatten)]
    ledger: Option<LedgerSource>,
    /// New bundle: its directory, or its archive
    #[arg(long, value_name = "DIR", required_unless_present = "verify")]
    bundle: Option<PathBuf>,
    /// Compare with the decisions of this bundle instead of the recorded ones
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,
    /// Only decisions since this time (`2026-11-20T00:00:00Z`), or of the last `90m`, `24h` or `7d`
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<StartingPoint>,
    /// Only decisions before this time, or older than `90m`, `24h` or `7d`
    #[arg(long, value_name = "TIME", value_parser = since)]
    until: Option<StartingPoint>,
    /// Only the logs of this tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Only calls of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME", value_parser = argument::tool)]
    tool: Option<ToolName>,
    /// Run to report on; if omitted, every run
    #[arg(long, value_name = "ID", value_parser = crate::cli::evidence::run_id)]
    run: Option<RunId>,
    /// Evaluate at most this many decisions, starting with the oldest
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Key that encrypts the stored payloads; repeat it for older keys. If omitted, the keys of the configuration
    #[arg(long, value_name = "FILE")]
    encryption_key: Vec<PathBuf>,
    /// Number of threads that evaluate; if omitted, one per core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Write every change to this new file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    flips: Option<PathBuf>,
    /// Sign with this secret key (PKCS#8 PEM)
    #[arg(long = "key", alias = "sign", value_name = "KEY", requires = "out")]
    sign: Option<PathBuf>,
    /// Write the signed result to this new file
    #[arg(long, value_name = "PATH", requires = "sign")]
    out: Option<PathBuf>,
    /// Verify this signed result instead of evaluating. With `--bundle`, also check that it is about that
    /// bundle; with `--flips`, that the file is its list of changes; with a ledger, that the ledger still
    /// contains its heads
    #[arg(long, value_name = "FILE", requires = "trust", conflicts_with_all = ["against", "since", "until",
        "tenant", "agent", "tool", "run", "limit", "jobs", "sign", "out"])]
    verify: Option<PathBuf>,
    /// Public key file (PEM) with one or more trusted keys
    #[arg(long = "public-key", alias = "trust", value_name = "FILE", requires = "verify")]
    trust: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The process that began this one, and that it ends with
    #[arg(long, value_name = "PID", hide = true)]
    parent: Option<u32>,
}

/// Runs the command.
pub fn run(args: &Args) -> Exit {
    let bound = args.parent.map_or(Ok(()), end_with).map_err(unjudged);
    ended(bound.and_then(|()| match &args.verify {
        Some(file) => verify::run(args, file),
        None => compare(args),
    }))
}

impl Args {
    fn query(&self) -> BacktestQuery {
        let now = SystemClock::new().now();
        BacktestQuery {
            since: self.since.map(|since| since.instant(now)),
            until: self.until.map(|until| until.instant(now)),
            tenant: self.tenant.clone(),
            agent: self.agent.clone(),
            tool: self.tool.clone(),
            run: self.run,
            limit: self.limit,
        }
    }

    /// The keys of inputs, if there are any.
    fn vault(&self) -> Result<Option<Arc<Vault>>, Failure> {
        if let Some((first, others)) = self.encryption_key.split_first() {
            return Vault::load(first, others).map(Arc::new).map(Some).map_err(unjudged);
        }
        let Some(path) = self.ledger.as_ref().and_then(|source| source.config.as_ref()) else {
            return Ok(None);
        };
        reader::configuration(path).map_err(unjudged)?.vault().map_err(unjudged)
    }

    fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(cores, usize::from)
    }
}

fn unjudged(why: impl Into<Cause>) -> Failure {
    Failure::unverifiable(why)
}

fn candidate(path: &std::path::Path) -> Result<Candidate, Failure> {
    let bundle = bundles::read(path).map_err(unjudged)?;
    Candidate::new(&bundle).map_err(unjudged)
}

fn compare(args: &Args) -> Result<Exit, Failure> {
    let path = args.bundle.as_deref().ok_or_else(|| Failure::usage("name a bundle"))?;
    // Find every error of the order before the long work begins.
    let new = candidate(path)?;
    let old = args.against.as_deref().map(candidate).transpose()?;
    let key = args.sign.as_deref().map(SecretKey::load).transpose().map_err(unjudged)?;
    if let Some(out) = args.out.as_deref().filter(|out| out.exists()) {
        return Err(Failure::usage(Occupied::File(out.to_owned())));
    }
    let mut list: Box<dyn Write + Send> = match &args.flips {
        None => Box::new(std::io::sink()),
        Some(file) => {
            let made = std::fs::File::create_new(file);
            let made = made.map_err(FileError::at(file)).map_err(unjudged)?;
            Box::new(BufWriter::new(made))
        }
    };
    let runtime = runtime()?;
    let source = args.ledger.as_ref().ok_or(reader::Error::Nowhere).map_err(unjudged)?;
    let ledger = runtime.block_on(reader::open_reader(source)).map_err(unjudged)?;
    let query = args.query();
    let old = old.as_ref().map_or(Baseline::Recorded, Baseline::Bundle);
    let vault = args.vault()?;
    let bench = Comparison { new: &new, old, vault: vault.as_deref(), jobs: args.jobs() };
    let progress = Progress::new("backtest");
    let found = backtest::run(&runtime, ledger.as_ref(), &query, &bench, (&progress, &mut *list));
    drop(progress);
    let found = found.map_err(unjudged)?;
    let predicate = statement::predicate(&query, &bench, &found, SystemClock::new().now());
    if let Some((key, out)) = key.as_ref().zip(args.out.as_ref()) {
        let envelope = statement::sign(predicate.clone(), &new.digest(), key);
        write_new(out, &envelope).map_err(unjudged)?;
    }
    if args.json {
        say(canonical::text(&predicate));
    } else {
        print::report(&bench, &found);
        args.out.iter().for_each(|out| say(format!("\nsigned: {}", out.display())));
    }
    Ok(match (found.tally.flips(), found.tally.unjudged()) {
        (0, 0) => Exit::Ok,
        (0, _) => Exit::Unverifiable,
        (_, _) => Exit::Invalid,
    })
}
