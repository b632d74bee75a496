//! `wicketgate policy backtest`: which recorded decisions a new bundle would flip, and by which rule.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use super::bundles;
use crate::cli::observed::{Since, since};
use crate::cli::reader::{self, Source};
use crate::cli::{Exit, complain, say, write_new};
use crate::clock::{Clock as _, SystemClock};
use crate::crypto::keys::SecretKey;
use crate::domain::canonical;
use crate::domain::id::{RunId, ToolName};
use crate::evidence::backtest::{self, Against, Bench, Candidate, Query, statement};
use crate::ledger::vault::Vault;

mod print;
mod progress;
mod verify;

/// Say which recorded decisions a new bundle would flip, rule by rule, before it is in force
///
/// Every input that the ledger kept is judged again, and held against what was decided then, or against
/// what `--against` says. What the bundle itself tells its policy (which layers observe, which count
/// approvers) is told as the new bundle would tell it. The ledger is only read.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("ledger").multiple(false),
    after_help = "Exit codes: 0 nothing flips and all was judged, 1 something flips, 2 nothing that was judged flips, \
    but not all could be judged; or an error. With --verify: 0 it holds, 1 it does not.\n\
    Other words for the same (`reasons`) are shown and are no flip.\n\n\
    Examples:\n  wicketgate policy backtest --config wicketgate.yaml --bundle new --since 7d\n  \
    wicketgate policy backtest --sqlite state/ledger.sqlite --bundle new --against old --flips flips.jsonl\n  \
    wicketgate policy backtest --config wicketgate.yaml --bundle new --sign office.pem --out backtest.dsse.json\n  \
    wicketgate policy backtest --verify backtest.dsse.json --trust office.pem.pub --bundle new"
)]
pub struct Args {
    /// Read the ledger that this configuration file names
    #[arg(long, value_name = "FILE", group = "ledger")]
    config: Option<PathBuf>,
    /// Read this SQLite ledger
    #[arg(long, value_name = "PATH", group = "ledger")]
    sqlite: Option<PathBuf>,
    /// Read the Postgres ledger whose URL is in this file
    #[arg(long, value_name = "FILE", group = "ledger")]
    postgres_url_file: Option<PathBuf>,
    /// The new bundle: its directory, or its archive
    #[arg(long, value_name = "DIR", required_unless_present = "verify")]
    bundle: Option<PathBuf>,
    /// Hold it against this bundle instead of what was decided then
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,
    /// Only what was decided since this time (`2026-11-20T00:00:00Z`) or for so long (`90m`, `24h`, `7d`)
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Since>,
    /// Only what was decided before this time, or longer ago than this
    #[arg(long, value_name = "TIME", value_parser = since)]
    until: Option<Since>,
    /// Only this tenant's logs
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Only calls of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME", value_parser = tool)]
    tool: Option<ToolName>,
    /// Only this run
    #[arg(long, value_name = "ID", value_parser = crate::cli::evidence::run_id)]
    run: Option<RunId>,
    /// Judge at most so many decisions, from the oldest on
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// The key inputs are encrypted with; several times for older ones; with `--config`, the
    /// configuration's
    #[arg(long, value_name = "FILE")]
    encryption_key: Vec<PathBuf>,
    /// Threads that evaluate; as many as there are cores, unless said
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Write every change to a new file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    flips: Option<PathBuf>,
    /// Sign the result with this secret key (PKCS#8 PEM)
    #[arg(long, value_name = "PEM", requires = "out")]
    sign: Option<PathBuf>,
    /// Where the signed result goes: a new file
    #[arg(long, value_name = "FILE", requires = "sign")]
    out: Option<PathBuf>,
    /// Check a signed result instead; with `--bundle` that it is about that bundle, with `--flips` that the file is
    /// its list, with a ledger that it still has the heads that were read
    #[arg(long, value_name = "FILE", requires = "trust", conflicts_with_all = ["against", "since", "until",
        "tenant", "agent", "tool", "run", "limit", "jobs", "sign", "out"])]
    verify: Option<PathBuf>,
    /// A public key whose signature counts
    #[arg(long, value_name = "PUB", requires = "verify")]
    trust: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

type Failure = (Exit, String);

fn tool(text: &str) -> Result<ToolName, String> {
    ToolName::parse(text).ok_or_else(|| "no name of a tool".to_owned())
}

/// Runs the command.
pub fn run(args: &Args) -> Exit {
    let done = match &args.verify {
        Some(file) => verify::run(args, file),
        None => compare(args),
    };
    done.unwrap_or_else(|(exit, why)| {
        complain(format!("error: {why}"));
        exit
    })
}

impl Args {
    fn source(&self) -> Source {
        Source {
            config: self.config.clone(),
            sqlite: self.sqlite.clone(),
            postgres_url_file: self.postgres_url_file.clone(),
        }
    }

    fn query(&self) -> Query {
        let now = SystemClock::new().now();
        Query {
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
        let Some(path) = &self.config else { return Ok(None) };
        reader::configuration(path).map_err(unjudged)?.vault().map_err(unjudged)
    }

    fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(cores, usize::from)
    }
}

fn unjudged(why: impl std::fmt::Display) -> Failure {
    (Exit::Unverifiable, why.to_string())
}

fn candidate(path: &std::path::Path) -> Result<Candidate, Failure> {
    let bundle = bundles::read(path).map_err(unjudged)?;
    Candidate::new(&bundle).map_err(unjudged)
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let made = tokio::runtime::Builder::new_current_thread().enable_all().build();
    made.map_err(|e| unjudged(format!("no runtime: {e}")))
}

fn compare(args: &Args) -> Result<Exit, Failure> {
    let path = args.bundle.as_deref().ok_or_else(|| (Exit::Usage, "name a bundle".to_owned()))?;
    // All that can be wrong with the order is found before a long work begins.
    let new = candidate(path)?;
    let old = args.against.as_deref().map(candidate).transpose()?;
    let key = args.sign.as_deref().map(SecretKey::load).transpose().map_err(unjudged)?;
    if let Some(out) = args.out.as_deref().filter(|out| out.exists()) {
        return Err((Exit::Usage, format!("`{}` exists", out.display())));
    }
    let mut list: Box<dyn Write + Send> = match &args.flips {
        None => Box::new(std::io::sink()),
        Some(file) => {
            let made = std::fs::File::create_new(file);
            let made = made.map_err(|e| unjudged(format!("`{}`: {e}", file.display())))?;
            Box::new(BufWriter::new(made))
        }
    };
    let runtime = runtime()?;
    let opened = runtime.block_on(reader::open_reader(&args.source()));
    let ledger = opened.map_err(unjudged)?;
    let query = args.query();
    let old = old.as_ref().map_or(Against::Recorded, Against::Bundle);
    let vault = args.vault()?;
    let bench = Bench { new: &new, old, vault: vault.as_deref(), jobs: args.jobs() };
    let progress = progress::Bar::new();
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
