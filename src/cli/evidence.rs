//! `wicketgate evidence export | verify`.

use std::path::PathBuf;

use serde_json::json;

use super::api::remote::{self, RemoteArgs};
use super::argument::{ArgumentError, time};
use super::payload::Disclosure;
use super::progress::Progress;
use super::reader::{self, ConfigError, LedgerSource};
use super::recorder::{FleetArgs, Recording};
use super::{Exit, Failure, present, say, say_json, wait};
use crate::clock::SystemClock;
use crate::crypto::signer;
use crate::domain::decision::Verdict;
use crate::domain::digest::Digest;
use crate::domain::id::{RunId, Seq};
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::evidence::artifacts::Artifacts;
pub(super) use crate::evidence::command::run_id;
use crate::evidence::command::{self, End};
use crate::evidence::contents;
use crate::evidence::export::{self, DeferredFleetLog, ExportOrder, ExportedBundle};
use crate::evidence::query::{Filter, Query};
use crate::evidence::scope::Span;
use crate::operator::api::requests;

/// Export runs as evidence, and verify such evidence offline.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What to do with evidence.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Write a run, a range of a log, or all chains of a tenant as a bundle that can be verified offline
    Export(Export),
    /// Verify a bundle offline, against trust roots of your own
    #[command(after_help = "Examples:\n  \
        wicketgate evidence verify evidence --trust trust.txt\n  \
        wicketgate evidence verify evidence.zip --trust trust.txt --run RUN --level 3 --json")]
    Verify(command::Options),
    /// Print a guide to verifying a bundle with stock tools: the text of VERIFY.md, taken from this program and
    /// not from a bundle
    Guide,
}

/// `evidence export`.
#[derive(Debug, clap::Args)]
#[command(
    mut_group("LedgerSource", |group| group.required(false)),
    group = clap::ArgGroup::new("from")
        .required(true)
        .args(["config", "sqlite", "postgres_url_file", "hub"]),
    after_help = "Examples:\n  \
        wicketgate evidence export --config wicketgate.yaml --run RUN --out evidence\n  \
        wicketgate evidence export --hub https://hub:7301 --token-file ops.token --run RUN --out evidence.zip\n  \
        wicketgate evidence export --config wicketgate.yaml --population --since 2026-11-01 --tool payments.refund --out november",
)]
struct Export {
    #[command(flatten)]
    source: LedgerSource,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    subject: ExportSubject,
    #[command(flatten)]
    narrowed: Narrowed,
    /// Write to this directory, which must be empty or not exist, or to a file that ends in `.zip`
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// Sign with this evidence key: a PKCS#8 PEM file of mode 0600; if omitted, `evidence.key` of the configuration
    #[arg(long, value_name = "KEY", required_unless_present_any = ["hub", "config"], conflicts_with = "hub")]
    key: Option<PathBuf>,
    /// Directory with the policy bundles and manifests: `artifacts` in the gate's state directory; if omitted, that
    /// of the configuration
    #[arg(long, value_name = "DIR", required_unless_present_any = ["hub", "config"], conflicts_with = "hub")]
    artifacts: Option<PathBuf>,
    /// Prove that the log extends its head of this size, which an auditor pinned; repeat it for more
    #[arg(long, value_name = "SIZE")]
    extends: Vec<Seq>,
    /// Only entries since this time (`2026-11-20T00:00:00Z`), with --population
    // Scripts may give a size here: it means `--extends`.
    #[arg(long, value_name = "TIME")]
    since: Vec<SizeOrTime>,
    /// Also disclose the payloads; an export of one run always does
    #[arg(long)]
    payloads: bool,
    #[command(flatten)]
    disclosure: Disclosure,
    /// Who requests the export, as recorded in the fleet log and the bundle; if omitted, `uid:<number>`
    #[arg(long, value_name = "TEXT", conflicts_with = "hub")]
    requester: Option<String>,
    #[command(flatten)]
    fleet: FleetArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What is asked for: exactly one of these.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct ExportSubject {
    /// Run to export
    #[arg(long, value_name = "ID", value_parser = run_id)]
    run: Option<RunId>,
    /// Every entry with A <= seq < B of a log; without B, to its end
    #[arg(long, value_name = "LOG:A..B", value_parser = range)]
    range: Option<(String, Span)>,
    /// Every chain of the tenant; other options narrow it
    #[arg(long)]
    population: bool,
}

/// What a population is narrowed to.
#[derive(Debug, clap::Args)]
struct Narrowed {
    /// With --population: only entries before this time
    #[arg(long, value_name = "TIME", value_parser = time, requires = "population")]
    until: Option<Timestamp>,
    /// With --population: only decisions in runs of this agent
    #[arg(long, value_name = "NAME", requires = "population")]
    agent: Option<String>,
    /// With --population: only decisions about this tool
    #[arg(long, value_name = "NAME", requires = "population")]
    tool: Option<String>,
    /// With --population: only decisions with this verdict (allow, deny, require_approval)
    #[arg(long, value_name = "V", value_parser = verdict, requires = "population")]
    verdict: Option<Verdict>,
    /// Chain to export, by its origin, with --population; repeat it for more
    #[arg(long, value_name = "ORIGIN", requires = "population")]
    chain: Vec<String>,
}

/// What is missing or contradictory in the command line of an export.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// `--since` with a selection that has its own begin.
    #[error("`--since` applies to a population; leave it out for a run or a range")]
    SinceOfRun,
    /// Two times.
    #[error("give `--since TIME` only once for a population")]
    SinceTwice,
    /// Nothing signs the evidence.
    #[error("name the evidence key: `--key FILE`, or `evidence.key` in the configuration")]
    NoKey,
    /// Bundles and manifests are nowhere.
    #[error("name the artifacts: `--artifacts DIR`")]
    NoArtifacts,
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The last number that JSON carries exactly: no log is as long.
const SEQ_MAX: Seq = (1 << 53) - 1;

/// A size that an auditor pinned, or the time at which a population begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SizeOrTime {
    Size(Seq),
    Time(Timestamp),
}

impl std::str::FromStr for SizeOrTime {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, ArgumentError> {
        text.parse().map(Self::Size).or_else(|_| time(text).map(Self::Time))
    }
}

fn verdict(name: &str) -> Result<Verdict, ArgumentError> {
    Verdict::parse(name).ok_or(ArgumentError::Verdict)
}

/// `LOG:A..B` or `LOG:A..`.
fn range(text: &str) -> Result<(String, Span), ArgumentError> {
    let (log, span) = text.rsplit_once(':').ok_or(ArgumentError::Range)?;
    let (from, to) = span.split_once("..").ok_or(ArgumentError::Range)?;
    let number = |text: &str| text.parse::<Seq>().map_err(|_| ArgumentError::Range);
    let (from, to) = (number(from)?, if to.is_empty() { SEQ_MAX } else { number(to)? });
    if log.is_empty() || from >= to {
        return Err(ArgumentError::Range);
    }
    Ok((log.to_owned(), Span { from, to }))
}

/// Runs the command. Only an export needs a runtime; verifying touches no network.
pub fn run(args: &Args) -> Exit {
    match &args.command {
        Command::Export(export) => wait(written(export)),
        Command::Verify(options) => exit(command::run(options)),
        Command::Guide => exit(command::print_guide()),
    }
}

impl Export {
    /// The query from the command line.
    fn query(&self) -> Result<Query, Error> {
        let times = self.since.iter().filter_map(|since| match since {
            SizeOrTime::Time(time) => Some(*time),
            SizeOrTime::Size(_) => None,
        });
        let times: Vec<Timestamp> = times.collect();
        match (&self.subject.run, &self.subject.range, times.as_slice()) {
            (Some(_), _, [_, ..]) | (_, Some(_), [_, ..]) => Err(Error::SinceOfRun),
            (Some(run), _, []) => Ok(Query::Run(*run)),
            (None, Some((log, span)), []) => Ok(Query::Range { log: log.clone(), span: *span }),
            (None, None, [_, _, ..]) => Err(Error::SinceTwice),
            (None, None, times) => Ok(Query::Population(Filter {
                since: times.first().copied(),
                until: self.narrowed.until,
                agent: self.narrowed.agent.clone(),
                tool: self.narrowed.tool.clone(),
                verdict: self.narrowed.verdict,
                chains: self.narrowed.chain.clone(),
            })),
        }
    }

    /// The evidence key and the artifacts: the command line takes precedence over the
    /// configuration.
    fn means(&self) -> Result<(PathBuf, PathBuf), Error> {
        let config = match &self.source.config {
            Some(path) => Some(reader::configuration(path)?),
            None => None,
        };
        let of_config = config.as_ref().map(|config| (config, &config.evidence));
        let key = self.key.clone().or_else(|| of_config?.1.key.clone());
        let artifacts = of_config.map(|(config, evidence)| evidence.artifacts(config));
        Ok((
            key.ok_or(Error::NoKey)?,
            self.artifacts.clone().or(artifacts).ok_or(Error::NoArtifacts)?,
        ))
    }

    fn pinned(&self) -> Vec<Seq> {
        let sizes = self.since.iter().filter_map(|since| match since {
            SizeOrTime::Size(size) => Some(*size),
            SizeOrTime::Time(_) => None,
        });
        self.extends.iter().copied().chain(sizes).collect()
    }
}

async fn written(command: &Export) -> Result<Exit, Failure> {
    let query = command.query().map_err(Failure::usage)?;
    let Some(api) = command.remote.api() else {
        let exported = write(command, query).await?;
        print_exported(&exported, command.json);
        return Ok(Exit::Ok);
    };
    let theirs = [
        ("the fleet's options", command.fleet != FleetArgs::default()),
        ("`--encryption-key`", command.disclosure.has_keys()),
    ];
    command.remote.excludes(&theirs).map_err(Failure::usage)?;
    let export = requests::Export {
        query: Some(query.to_json().to_serde()),
        since: command.pinned(),
        payloads: command.payloads,
        ..command.disclosure.asked()
    };
    remote::export(&api, &export, &command.out, command.json).await
}

async fn write(command: &Export, query: Query) -> Result<ExportedBundle, Failure> {
    let (key, artifacts) = command.means().map_err(Failure::usage)?;
    // Tens of megabytes are hashed beside the reading of the ledger.
    drop(tokio::task::spawn_blocking(export::program));
    let key = signer::open(&key, &crate::config::environment);
    let key = key.map_err(Failure::usage)?;
    let recording =
        Recording::prepare(&command.source, &command.fleet).await.map_err(Failure::usage)?;
    let reader = reader::open_reader(&command.source).await?;
    let tenant = recording.tenant.clone();
    let recorder = DeferredFleetLog::of(recording.parts());
    let whole_run = matches!(query, Query::Run(_));
    // A name would be personal data in a log that cannot be erased.
    let uid = || format!("uid:{}", rustix::process::getuid().as_raw());
    let requester = command.requester.clone().unwrap_or_else(uid);
    let redactions = command.disclosure.redactions()?;
    let vault = command.disclosure.vault(&command.source)?;
    let order = ExportOrder {
        reader: reader.as_ref(),
        tenant: &tenant,
        query: &query,
        artifacts: &Artifacts::at(&artifacts),
        key: &*key,
        out: &command.out,
        clock: &SystemClock::new(),
        version: contents::VERSION,
        program: export::program,
        requester: &requester,
        since: &command.pinned(),
        payloads: command.payloads || whole_run,
        vault: vault.as_deref(),
        redactions: &redactions,
        recorder: &recorder,
    };
    let exported = Progress::new("export").during(export::export(&order)).await;
    exported.map_err(|error| {
        let code = match &error {
            crate::evidence::Error::Store(_) | crate::evidence::Error::Unrecorded(_) => {
                Exit::Unverifiable
            }
            crate::evidence::Error::Occupied(_) | crate::evidence::Error::NoSpan { .. } => {
                Exit::Usage
            }
            crate::evidence::Error::Io { .. }
            | crate::evidence::Error::Unsigned(_)
            | crate::evidence::Error::NoRun(_)
            | crate::evidence::Error::NoLog(_)
            | crate::evidence::Error::Pruned { .. }
            | crate::evidence::Error::Gone { .. }
            | crate::evidence::Error::Ledger { .. }
            | crate::evidence::Error::Artifact { .. } => Exit::Invalid,
        };
        Failure::new(code, error)
    })
}

fn print_exported(exported: &ExportedBundle, json: bool) {
    let whole = exported.sealed == exported.runs;
    let missing: Vec<String> = exported.missing.iter().map(Digest::prefixed).collect();
    let logs = exported.logs.iter().map(|(log, size)| json!({"log": log, "size": size}));
    let size = match exported.logs.as_slice() {
        [(_, size)] => Some(*size),
        _ => None,
    };
    let facts = present(json!({
        "dir": exported.dir.display().to_string(),
        "files": exported.files,
        "entries": exported.entries,
        "runs": exported.runs,
        "sealed_runs": exported.sealed,
        "sealed": whole,
        "logs": logs.collect::<Vec<_>>(),
        "manifest": exported.manifest.hex(),
        "missing": missing,
        "size": size,
    }));
    if json {
        return say_json(facts);
    }
    let logs: Vec<String> =
        exported.logs.iter().map(|(log, size)| format!("{log} of size {size}")).collect();
    say(format!(
        "wrote {}: {}, {} under the checkpoint{} of {}",
        exported.dir.display(),
        many(exported.files, "file"),
        many(exported.entries, "entry"),
        if logs.len() == 1 { "" } else { "s" },
        logs.join(", ")
    ));
    say(format!(
        "recorded in the fleet log; manifest.json has the digest sha256:{}",
        exported.manifest.hex()
    ));
    if !whole {
        say(format!(
            "{} of {} runs are open or cut: no verifier will call them complete",
            exported.runs.saturating_sub(exported.sealed),
            exported.runs
        ));
    }
    for digest in missing {
        say(format!("not stored, so not in the bundle: {digest}"));
    }
}

const fn exit(end: End) -> Exit {
    match end {
        End::Valid => Exit::Ok,
        End::Invalid => Exit::Invalid,
        End::Unverifiable => Exit::Unverifiable,
        End::Usage => Exit::Usage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(subcommand)]
        command: Command,
    }

    #[test]
    fn an_export_names_one_ledger_and_a_run() {
        let id = RunId::from_random([1; 16]).to_string();
        let rest = ["--run", &id, "--out", "o", "--key", "k", "--artifacts", "a"];
        let parse = |more: &[&str]| {
            Line::try_parse_from(["evidence", "export"].iter().chain(more).chain(&rest))
        };
        assert!(parse(&["--sqlite", "l.db"]).is_ok());
        assert!(parse(&[]).is_err());
        let bare = ["evidence", "export", "--run", &id, "--out", "o"];
        let alone = |more: &[&str]| Line::try_parse_from(bare.iter().chain(more));
        assert!(alone(&["--config", "c.yaml"]).is_ok(), "the configuration says the rest");
        assert!(alone(&["--sqlite", "l.db"]).is_err());
        assert!(parse(&["--sqlite", "l.db", "--config", "c.yaml"]).is_err());
        assert!(Line::try_parse_from(["evidence", "verify", "dir"]).is_err());
        assert!(
            Line::try_parse_from(["evidence", "verify", "--trust", "t", "--run", "X", "d"])
                .is_err()
        );
    }
}
