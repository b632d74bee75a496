//! `wicketgate hub`.

use std::path::PathBuf;

use super::{Exit, complain, config};
use crate::app::{self, Ended};

/// Answer the operators of a tenant, in front of its Postgres ledger.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  wicketgate hub --config hub.yaml\n\n\
    The configuration is that of a sidecar of the tenant, with `operators`, `hub.reader_url_file`, and the\n\
    URL of the role that gives orders (`ledger migrate --operator`) in `ledger.postgres`. It serves no agent\n\
    and runs no tool; while it is down, running calls do not notice.\n\
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
    let config = match config::load(&args.config) {
        Ok(config) => config,
        Err(problems) => {
            problems.iter().for_each(complain);
            return Exit::Config;
        }
    };
    match app::hub(config, args.json) {
        Ok(Ended::Stopped) => Exit::Ok,
        Ok(Ended::Fenced) => Exit::Fenced,
        Ok(Ended::Broken) => Exit::Invalid,
        Err(app::Error::Config(problems)) => {
            problems.iter().for_each(complain);
            Exit::Config
        }
        Err(error @ app::Error::Taken(_)) => {
            complain(format!("error: {error}"));
            Exit::Fenced
        }
        Err(error @ app::Error::System(_)) => {
            complain(format!("error: {error}"));
            Exit::Invalid
        }
    }
}
