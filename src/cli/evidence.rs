//! `wicketgate evidence export | verify`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "commands talk to people")]

use std::path::PathBuf;
use std::process::ExitCode;

use super::reader::{self, Source};
use crate::clock::{Clock as _, SystemClock};
use crate::crypto::keys::SecretKey;
use crate::domain::canonical;
use crate::domain::id::{RunId, Seq};
use crate::domain::json::Json;
use crate::evidence::artifacts::Artifacts;
use crate::evidence::export::{self, Exported, Order};
use crate::evidence::trust::Trust;
use crate::evidence::verify::verify;

/// Nothing could be told: unreadable ledger, missing proof.
const UNVERIFIABLE: u8 = 2;
/// The command line or a file it names is wrong.
const USAGE: u8 = 64;

/// What to do with evidence.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Write one run as a bundle that can be checked offline
    Export(Export),
    /// Check a bundle offline, against trust roots that are not from the bundle
    Verify(Verify),
}

/// `evidence export`.
#[derive(Debug, clap::Args)]
pub struct Export {
    #[command(flatten)]
    source: Source,
    /// The run
    #[arg(long, value_name = "ID", value_parser = run_id)]
    run: RunId,
    /// Directory to write; it may not exist, or has to be empty
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The evidence key: a PKCS#8 PEM file of mode 0600
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Policy bundles and manifests kept by the sidecar: `artifacts` below its state directory
    #[arg(long, value_name = "DIR")]
    artifacts: PathBuf,
    /// Also prove that the log extends its head of this size, for an auditor who pinned it
    #[arg(long, value_name = "SIZE")]
    since: Vec<Seq>,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

/// `evidence verify`.
#[derive(Debug, clap::Args)]
pub struct Verify {
    /// Your trust roots: keys, approved policies, heads you noted (see `VERIFY.md` in a bundle)
    #[arg(long, value_name = "FILE")]
    trust: PathBuf,
    /// The run the bundle has to be about
    #[arg(long, value_name = "ID", value_parser = run_id)]
    run: Option<RunId>,
    /// Exit with 2 below this level: 0 files, 1 in the log, 2 extends a pinned head
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=4))]
    level: Option<u8>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// The bundle
    #[arg(value_name = "DIR")]
    bundle: PathBuf,
}

fn run_id(text: &str) -> Result<RunId, String> {
    RunId::parse(text).ok_or_else(|| "a run id is a lowercase UUID with hyphens".to_owned())
}

/// Runs the command.
pub async fn run(command: &Command) -> ExitCode {
    match command {
        Command::Export(export) => match write(export).await {
            Ok(exported) => {
                print_exported(&exported, export.json);
                ExitCode::SUCCESS
            }
            Err((code, why)) => {
                eprintln!("error: {why}");
                ExitCode::from(code)
            }
        },
        Command::Verify(command) => check(command),
    }
}

async fn write(command: &Export) -> Result<Exported, (u8, String)> {
    let usage = |why: String| (USAGE, why);
    let key = SecretKey::load(&command.key).map_err(|e| usage(e.to_string()))?;
    let reader =
        reader::open_reader(&command.source).await.map_err(|e| (UNVERIFIABLE, e.to_string()))?;
    let order = Order {
        reader: reader.as_ref(),
        run: &command.run,
        artifacts: &Artifacts::at(&command.artifacts),
        key: &key,
        out: &command.out,
        clock: &SystemClock::new(),
        version: env!("CARGO_PKG_VERSION"),
        since: &command.since,
    };
    export::run(&order).await.map_err(|error| {
        let code = match &error {
            crate::evidence::Error::Store(_) => UNVERIFIABLE,
            crate::evidence::Error::Occupied(_) => USAGE,
            crate::evidence::Error::Io { .. }
            | crate::evidence::Error::NoRun(_)
            | crate::evidence::Error::Ledger { .. }
            | crate::evidence::Error::Artifact { .. }
            | crate::evidence::Error::Trust { .. } => 1,
        };
        (code, error.to_string())
    })
}

fn print_exported(exported: &Exported, json: bool) {
    let missing = || exported.missing.iter().map(|digest| Json::from(digest.prefixed()));
    if json {
        let count = |n: usize| Json::from(u64::try_from(n).unwrap_or(u64::MAX));
        let told = Json::object([
            ("dir", Json::from(exported.dir.display().to_string())),
            ("files", count(exported.files)),
            ("entries", count(exported.entries)),
            ("size", Json::from(exported.checkpoint.size)),
            ("sealed", Json::from(exported.sealed)),
            ("missing", missing().collect::<Vec<_>>().into()),
        ]);
        println!("{}", canonical::text(&told));
        return;
    }
    println!(
        "wrote {}: {} files, {} entries under the checkpoint of size {}",
        exported.dir.display(),
        exported.files,
        exported.entries,
        exported.checkpoint.size
    );
    if !exported.sealed {
        println!("the run is open: no check of this bundle will call it complete");
    }
    for digest in &exported.missing {
        println!("not kept, and so not in the bundle: {}", digest.prefixed());
    }
}

fn check(command: &Verify) -> ExitCode {
    let mut trust = match Trust::load(&command.trust) {
        Ok(trust) => trust,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(USAGE);
        }
    };
    if !command.bundle.is_dir() {
        eprintln!("error: `{}` is no directory", command.bundle.display());
        return ExitCode::from(USAGE);
    }
    trust.run = command.run;
    trust.now = Some(SystemClock::new().now());
    let report = verify(&command.bundle, &trust);
    if command.json {
        println!("{}", canonical::text(&report.to_json()));
    } else {
        print!("{}", report.to_text());
    }
    let short = command.level.is_some_and(|wanted| report.level().is_none_or(|is| is < wanted));
    let code = report.exit_code();
    ExitCode::from(if code == 0 && short { UNVERIFIABLE } else { code })
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
        assert!(parse(&["--sqlite", "l.db", "--config", "c.yaml"]).is_err());
        assert!(Line::try_parse_from(["evidence", "verify", "dir"]).is_err());
        assert!(
            Line::try_parse_from(["evidence", "verify", "--trust", "t", "--run", "X", "d"])
                .is_err()
        );
    }
}
