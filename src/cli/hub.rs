//! `wicketgate hub`.

use std::path::PathBuf;

use super::{Exit, serve};
use crate::app;

/// Answer the operators of a tenant, in front of its Postgres ledger.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  wicketgate hub --config hub.yaml\n\n\
    The configuration is that of a sidecar of the tenant, with `operators`, `hub.reader_url_file`, and the\n\
    URL of the role that gives orders (`ledger migrate --operator`) in `ledger.postgres`. It serves no agent\n\
    and runs no tool; while it is down, running calls do not notice. Slots of dead sidecars are closed after\n\
    `hub.reap_after_seconds`, with the enrolment key that certified their writers (`fleet.enrolment_key`).\n\
    With `hub.enrolment` it certifies the writers of sidecars that have `enrolment` instead of that key.\n\
    SIGTERM ends it. Ends with 75 when another process took its place, 78 when the configuration is wrong.")]
pub struct Args {
    /// The configuration file
    #[arg(long, default_value = "hub.yaml", value_name = "FILE")]
    config: PathBuf,
    /// Log JSON lines
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Exit {
    serve::process(&args.config, |config| app::hub(config, args.json))
}
