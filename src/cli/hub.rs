//! `wicketgate serve hub`.

use std::path::PathBuf;

use super::config::ArchiveArgs;
use super::{Exit, serve};
use crate::app;

/// Serve the operator API of a tenant from its Postgres ledger.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    wicketgate serve hub --config hub.yaml\n\n\
    Use the configuration of a gate of the tenant, with `operators` and `hub.reader_url_file`; `ledger.postgres` must\n\
    name the role that sends orders (`ledger migrate --operator`). A hub serves no agents and runs no tools, and\n\
    running calls do not depend on it. It closes the slots of dead gates after `hub.reap_after_seconds`. For that it\n\
    needs the enrolment key that certified their writers (`fleet.enrolment_key`). With `hub.enrolment` it certifies the\n\
    writers of gates whose configuration has `enrolment` instead of that key.\n\
    The hub takes over `hub.enrolment.tokens`, `hub.enrolment.kubernetes.pools` and `operators` when its configuration\n\
    changes, and on SIGHUP; it refuses and logs any other change.\n\
    SIGTERM ends it. Exits with 75 when another process took over its work, 78 when the configuration is wrong.")]
pub struct Args {
    /// Configuration file
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "hub.yaml",
        env = "WICKETGATE_CONFIG",
        hide_env_values = true
    )]
    config: PathBuf,
    #[command(flatten)]
    archive: ArchiveArgs,
    /// Log JSON lines
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Exit {
    serve::process(args.archive.load(&args.config), |config| app::hub(config, args.json))
}
