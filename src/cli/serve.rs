//! `wicketgate serve`.

use std::path::{Path, PathBuf};

use super::{Exit, complain, config};
use crate::app::{self, Ended};
use crate::config::Config;

/// Run the gate.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  wicketgate serve --config wicketgate.yaml\n\n\
    SIGTERM drains and ends with 0, a second one ends at once. The configuration and what it names\n\
    are read again when they change, and on SIGHUP; what needs a restart is refused and said.\n\
    Ends with 75 when another process took its place, 78 when the configuration is wrong.")]
pub struct Args {
    /// The configuration file.
    #[arg(long, default_value = "wicketgate.yaml")]
    config: PathBuf,
    /// Start although the clock is more than a day behind the newest entry of the ledger: once, after the clock was wrong and has been set right.
    #[arg(long)]
    accept_clock_step: bool,
    /// Log JSON lines.
    #[arg(long)]
    json: bool,
    /// Drain and end when this process, which has to be the parent, ends.
    #[arg(long, value_name = "PID", hide = true)]
    parent: Option<u32>,
}

/// Runs it.
pub fn run(args: &Args) -> Exit {
    if let Some(parent) = args.parent
        && let Err(why) = end_with(parent)
    {
        complain(format!("error: {why}"));
        return Exit::Invalid;
    }
    let accept_clock_step = args.accept_clock_step;
    let with = |config| Config { accept_clock_step, ..config };
    process(&args.config, |config| app::serve(with(config), args.json))
}

/// Loads the configuration and runs a process with it to its end.
pub(super) fn process(file: &Path, run: impl FnOnce(Config) -> Result<Ended, app::Error>) -> Exit {
    let config = match config::load(file) {
        Ok(config) => config,
        Err(problems) => {
            problems.iter().for_each(complain);
            return Exit::Config;
        }
    };
    match run(config) {
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

/// Asks the kernel for SIGTERM when the parent ends.
pub(super) fn end_with(parent: u32) -> Result<(), String> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(|e| e.to_string())?;
    // It may have ended before the kernel was asked.
    let now = getppid().map(|pid| pid.as_raw_nonzero().get());
    if now == i32::try_from(parent).ok() { Ok(()) } else { Err("the parent has ended".into()) }
}
