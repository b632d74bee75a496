//! `wicketgate serve`.

use super::config::{ArchiveArgs, ConfigFile};
use super::{Exit, fail, fail_all, hub, mcp};
use crate::app::{self, Ended};
use crate::config::Config;

/// Run the gate, a hub, or an MCP server over stdio.
#[derive(clap::Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        wicketgate serve --config wicketgate.yaml\n  \
        wicketgate serve --config-archive gate.archive --archive-key archive.pem.pub\n  \
        wicketgate serve hub --config hub.yaml\n  \
        wicketgate serve mcp --config wicketgate.yaml\n\n\
        Without a command, `serve` runs the gate. SIGTERM drains the gate, which then exits with 0;\n\
        a second SIGTERM ends it at once. The gate reloads the configuration and its files when they change, and on\n\
        SIGHUP; it refuses and logs a change that needs a restart.\n\
        Exits with 75 when another process became the ledger's writer, 78 when the configuration is wrong."
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    at: ConfigFile,
    #[command(flatten)]
    archive: ArchiveArgs,
    /// Start although the clock is more than a day behind the newest entry of the ledger. Use it once, after you
    /// corrected a wrong clock.
    #[arg(long)]
    accept_clock_step: bool,
    /// Log JSON lines.
    #[arg(long)]
    json: bool,
    /// Drain and end when this process, which has to be the parent, ends.
    #[arg(long, value_name = "PID", hide = true)]
    parent: Option<u32>,
}

/// What else is served.
#[derive(clap::Subcommand, Debug)]
enum Command {
    Hub(hub::Args),
    Mcp(mcp::Args),
}

/// Runs it.
pub fn run(args: &Args) -> Exit {
    match &args.command {
        Some(Command::Hub(args)) => return hub::run(args),
        Some(Command::Mcp(args)) => return mcp::run(args),
        None => {}
    }
    if let Some(parent) = args.parent
        && let Err(why) = end_with(parent)
    {
        return fail(Exit::Invalid, why);
    }
    let accept_clock_step = args.accept_clock_step;
    let with = |config| Config { accept_clock_step, ..config };
    let loaded = args.archive.load(&args.at.config);
    process(loaded, |config| app::serve(with(config), args.json))
}

/// Runs a process with this configuration to its end.
pub(super) fn process(
    loaded: Result<Config, Vec<String>>,
    run: impl FnOnce(Config) -> Result<Ended, app::Error>,
) -> Exit {
    let config = match loaded {
        Ok(config) => config,
        Err(problems) => {
            return fail_all(Exit::Config, &problems);
        }
    };
    match run(config) {
        Ok(Ended::Stopped) => Exit::Ok,
        Ok(Ended::Fenced) => Exit::Fenced,
        Ok(Ended::Broken) => Exit::Invalid,
        Err(app::Error::Config(problems)) => fail_all(Exit::Config, &problems),
        Err(error @ app::Error::Taken(_)) => fail(Exit::Fenced, error),
        Err(error @ app::Error::System(_)) => fail(Exit::Invalid, error),
    }
}

/// Why this process would not end with that parent.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParentError {
    /// The kernel refuses.
    #[error(transparent)]
    System(#[from] rustix::io::Errno),
    /// The parent has ended already.
    #[error("the parent process has ended")]
    Ended,
}

/// Asks the kernel for SIGTERM when the parent ends.
pub(super) fn end_with(parent: u32) -> Result<(), ParentError> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // WHY: the parent may have ended before the kernel took the request.
    let now = getppid().map(|pid| pid.as_raw_nonzero().get());
    if now == i32::try_from(parent).ok() { Ok(()) } else { Err(ParentError::Ended) }
}
