//! `wicketgate evidence export | verify`.

use std::path::PathBuf;

use super::reader::{self, Source};
use super::{Exit, block_on, complain, say};
use crate::clock::SystemClock;
use crate::crypto::keys::SecretKey;
use crate::domain::canonical;
use crate::domain::id::{RunId, Seq};
use crate::domain::json::Json;
use crate::evidence::artifacts::Artifacts;
pub(super) use crate::evidence::command::run_id;
use crate::evidence::command::{self, End};
use crate::evidence::export::{self, Exported, Order};

/// Export runs as evidence, and verify such evidence offline.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What to do with evidence.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Write one run as a bundle that can be checked offline
    Export(Export),
    /// Check a bundle offline, against trust roots that are not from the bundle
    Verify(command::Options),
}

/// `evidence export`.
#[derive(Debug, clap::Args)]
struct Export {
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

/// Runs the command. Only an export needs a runtime; verifying touches no network.
pub fn run(args: &Args) -> Exit {
    match &args.command {
        Command::Export(export) => match block_on(write(export)) {
            Ok(Ok(exported)) => {
                print_exported(&exported, export.json);
                Exit::Ok
            }
            Ok(Err((exit, why))) => {
                complain(format!("error: {why}"));
                exit
            }
            Err(exit) => exit,
        },
        Command::Verify(options) => check(options),
    }
}

async fn write(command: &Export) -> Result<Exported, (Exit, String)> {
    let usage = |why: String| (Exit::Usage, why);
    let key = SecretKey::load(&command.key).map_err(|e| usage(e.to_string()))?;
    let reader = reader::open_reader(&command.source)
        .await
        .map_err(|e| (Exit::Unverifiable, e.to_string()))?;
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
            crate::evidence::Error::Store(_) => Exit::Unverifiable,
            crate::evidence::Error::Occupied(_) => Exit::Usage,
            crate::evidence::Error::Io { .. }
            | crate::evidence::Error::NoRun(_)
            | crate::evidence::Error::Ledger { .. }
            | crate::evidence::Error::Artifact { .. }
            | crate::evidence::Error::Trust { .. } => Exit::Invalid,
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
        say(canonical::text(&told));
        return;
    }
    say(format!(
        "wrote {}: {} files, {} entries under the checkpoint of size {}",
        exported.dir.display(),
        exported.files,
        exported.entries,
        exported.checkpoint.size
    ));
    if !exported.sealed {
        say("the run is open: no check of this bundle will call it complete");
    }
    for digest in &exported.missing {
        say(format!("not kept, and so not in the bundle: {}", digest.prefixed()));
    }
}

fn check(options: &command::Options) -> Exit {
    match command::run(options) {
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
        assert!(parse(&["--sqlite", "l.db", "--config", "c.yaml"]).is_err());
        assert!(Line::try_parse_from(["evidence", "verify", "dir"]).is_err());
        assert!(
            Line::try_parse_from(["evidence", "verify", "--trust", "t", "--run", "X", "d"])
                .is_err()
        );
    }
}
