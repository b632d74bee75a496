//! `wicketgate run replay export`.

use std::path::PathBuf;

use serde_json::json;

use crate::cli::payload::Disclosure;
use crate::cli::reader::{self, LedgerLocation, LedgerSource};
use crate::cli::{Exit, Failure, report, say, wait};
use crate::domain::id::RunId;
use crate::domain::plural::many;
use crate::evidence::artifacts::Artifacts;
use crate::replay::Error;
use crate::replay::export::{self, ExportedRecording, RecordingOrder};

/// Write a sealed run to a recording: a file that can be replayed on any machine.
///
/// The run has to have been recorded: `replay.mode` of its manifest, or `replay` of its opening. The file
/// holds its manifest, its policy bundles, what the agent was shown, and every call with its arguments,
/// decision and result as they are stored: what was masked or scrubbed then is not in it. Runs that it
/// delegated to are in it too. Credentials are
/// not in it. What --redact hides stays committed to, and a replay says at the step that it cannot be answered.
/// If a payload is not there any more, or never was stored, the export is refused and says which.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  wicketgate run replay export 0b9f… --config wicketgate.yaml --out run.recording\n\n\
    Exits with 1 if the run cannot be replayed, 2 if the ledger cannot be read."
)]
pub struct Args {
    /// ID of the run.
    #[arg(value_name = "RUN", value_parser = crate::cli::evidence::run_id)]
    run: RunId,
    #[command(flatten)]
    source: LedgerSource,
    /// Write to this new file.
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// Directory with the policy bundles and manifests: `artifacts` in the gate's state directory; if omitted, that
    /// of the configuration.
    #[arg(long, value_name = "DIR")]
    artifacts: Option<PathBuf>,
    /// Tenant of the run; if omitted, the tenant of the configuration.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    #[command(flatten)]
    disclosure: Disclosure,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Writes it.
pub(super) fn run(args: &Args) -> Exit {
    wait(async {
        print_exported(args, &write(args).await?);
        Ok(Exit::Ok)
    })
}

async fn write(args: &Args) -> Result<ExportedRecording, Failure> {
    let config = match args.source.place() {
        Some(LedgerLocation::Config(path)) => {
            Some(reader::configuration(path).map_err(Failure::usage)?)
        }
        Some(LedgerLocation::Sqlite(_) | LedgerLocation::PostgresUrlFile(_)) | None => None,
    };
    let artifacts = match (&args.artifacts, &config) {
        (Some(dir), _) => dir.clone(),
        (None, Some(config)) => config.state.join("artifacts"),
        (None, None) => return Err(Failure::usage("name `--artifacts`")),
    };
    let tenant = match (&args.tenant, &config) {
        (Some(tenant), _) => tenant.clone(),
        (None, Some(config)) => crate::app::fleet::tenant(config),
        (None, None) => "default".to_owned(),
    };
    let vault = args.disclosure.vault(&args.source)?;
    let redactions = args.disclosure.redactions()?;
    let reader = reader::open_reader(&args.source).await?;
    let order = RecordingOrder {
        reader: reader.as_ref(),
        tenant: &tenant,
        run: &args.run,
        artifacts: &Artifacts::at(&artifacts),
        redactions: &redactions,
        vault: vault.as_deref(),
        out: &args.out,
        program: concat!("wicketgate ", env!("CARGO_PKG_VERSION")),
    };
    export::export(&order).await.map_err(|error| {
        let exit = match &error {
            Error::File { .. } => Exit::Usage,
            Error::Recording { .. }
            | Error::Manifest { .. }
            | Error::Changed { .. }
            | Error::Step { .. }
            | Error::Run { .. } => Exit::Invalid,
            Error::Ledger(_) => Exit::Unverifiable,
        };
        Failure::new(exit, error)
    })
}

fn print_exported(args: &Args, exported: &ExportedRecording) {
    let ExportedRecording { steps, bytes, digest } = exported;
    let file = args.out.display().to_string();
    let line =
        format!("wrote {file}: {}, {bytes} bytes, {}", many(*steps, "step"), digest.prefixed());
    let facts =
        json!({"file": file, "recording": digest.prefixed(), "steps": steps, "bytes": bytes});
    report(facts, || say(line));
}
