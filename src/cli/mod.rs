//! The command line: the commands, their output and their exit codes.
//!
//! Results go to standard output, everything else to standard error. Only clap's own help is
//! coloured, and it respects `NO_COLOR`.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::pin::Pin;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

mod alert;
mod amend;
mod api;
mod approval;
mod archive;
mod argument;
mod break_glass;
mod bucket;
mod call;
mod check;
mod completions;
mod config;
mod control;
mod doctor;
mod error;
mod evidence;
mod finding;
mod fleet;
mod health;
mod hub;
mod init;
mod injector;
mod key;
mod keygen;
mod launch;
mod ledger;
mod ledger_verify;
mod lint;
mod listening;
mod live;
mod man;
mod manifest;
mod mcp;
mod new_config;
mod observed;
mod output;
mod pack;
mod payload;
mod policy;
mod progress;
mod prune;
mod quickstart;
pub mod reader;
pub mod recorder;
mod recover;
mod reindex;
mod replay;
mod report;
mod rollback;
mod run;
mod search;
mod serve;
mod sign;
mod size;
mod suggest;
mod switch;
mod tools;
mod trust;
mod version;
mod witness;

use error::{BundleError, Cause, Failure, FileError};
use output::{
    JsonArg, fail, fail_all, fail_as, note, present, print_facts, report, say, say_bytes, say_json,
};

/// How a command ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// 0: done, or valid.
    Ok,
    /// 1: invalid or denied.
    Invalid,
    /// 2: the evidence at hand does not suffice to verify.
    Unverifiable,
    /// 64: the command line is wrong.
    Usage,
    /// 75: another process is the writer.
    Fenced,
    /// 78: the configuration is wrong.
    Config,
    /// The code of a program that the command ran.
    Program(u8),
}

impl Exit {
    /// Its name in an error of `--json`.
    const fn code(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Invalid => "invalid",
            Self::Unverifiable => "unverifiable",
            Self::Usage => "usage",
            Self::Fenced => "fenced",
            Self::Config => "config",
            Self::Program(_) => "program",
        }
    }

    /// What to do next, where that follows from the code alone.
    const fn hint(self) -> Option<&'static str> {
        match self {
            Self::Usage => Some("run the same command with `--help`"),
            Self::Config => Some("correct the file, then run `wicketgate config check`"),
            Self::Fenced => Some("stop the other process, or use another state directory"),
            Self::Ok | Self::Invalid | Self::Unverifiable | Self::Program(_) => None,
        }
    }

    /// The worse of two results: invalid is worse than unverifiable, which is worse than fine.
    const fn worst(self, other: Self) -> Self {
        match (self, other) {
            (Self::Invalid, _) | (_, Self::Invalid) => Self::Invalid,
            (Self::Ok, other) => other,
            (worst, _) => worst,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Ok => 0,
            Exit::Invalid => 1,
            Exit::Unverifiable => 2,
            Exit::Usage => 64,
            Exit::Fenced => 75,
            Exit::Config => 78,
            Exit::Program(code) => code,
        })
    }
}

/// A policy-enforcing sidecar between an AI agent and every tool it can reach.
#[derive(Parser, Debug)]
#[command(
    name = "wicketgate",
    version,
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 ok, 1 invalid or denied, 2 unverifiable, 64 usage, 75 fenced, 78 bad configuration.\n\
    Fields of the configuration can be set as WICKETGATE__SECTION__FIELD."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

// A new command: one variant here, one arm in `run`. At most fifteen groups are shown, those of daily use first.
#[derive(Subcommand, Debug)]
enum Command {
    /// Watch a gate allow, deny, hold, record and prove the calls of one agent, on this machine only.
    Quickstart(quickstart::Args),
    Init(init::Args),
    Serve(serve::Args),
    Check(check::Args),
    Run(rollback::Args),
    Call(call::Args),
    Search(search::Args),
    Approval(approval::Args),
    Control(control::Args),
    Manifest(manifest::Args),
    /// Check, test, sign, propose and activate policy bundles.
    Policy(policy::PolicyArgs),
    Tools(tools::Args),
    Evidence(evidence::Args),
    Ledger(ledger::Args),
    Config(config::Args),
    Version(version::Args),
    /// Print the help of a command.
    Help {
        /// The command: one name per level; without one, all commands
        command: Vec<OsString>,
    },
    /// Serve the tools of the quickstart.
    #[command(hide = true)]
    QuickstartTools,
}

/// Commands that may be named without their group. Most were once at the top level, and clients, charts
/// and scripts still use the old names.
pub const MOVED: [(&str, &str); 17] = [
    ("hub", "serve"),
    ("mcp", "serve"),
    ("health", "control"),
    ("break-glass", "control"),
    ("switch", "control"),
    ("replay", "run"),
    ("keygen", "config"),
    ("doctor", "config"),
    ("completions", "config"),
    ("man", "config"),
    ("key", "ledger"),
    ("payload", "ledger"),
    ("witness", "ledger"),
    ("firewall", "policy"),
    ("alert", "control"),
    ("trust", "tools"),
    ("injector", "control"),
];

/// Puts the group before a command that was moved into it, so that clap knows each command by one name only.
fn regrouped(mut args: Vec<OsString>) -> Vec<OsString> {
    let first = args.get(1);
    let group = MOVED.iter().find(|(name, _)| first.is_some_and(|first| first == name));
    if let Some((_, group)) = group {
        args.insert(1, group.into());
    }
    args
}

/// Variables for a required option that the command line lacks. Clap handles options with a
/// default; these are in a group or exclude another option, where clap takes a variable for a
/// second choice.
const VARIABLES: [(&str, &str); 2] =
    [("--config", "WICKETGATE_CONFIG"), ("--token-file", "WICKETGATE_TOKEN_FILE")];

/// The command line with missing options from variables, if there are any.
fn completed(mut args: Vec<OsString>, error: &clap::Error) -> Option<Vec<OsString>> {
    let missing = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing))
            if error.kind() == ErrorKind::MissingRequiredArgument =>
        {
            missing
        }
        Some(_) | None => return None,
    };
    let lacks = |option: &str| missing.iter().any(|arg| arg.contains(&format!("{option} <")));
    let given =
        VARIABLES.into_iter().filter(|(option, _)| lacks(option)).filter_map(|(option, name)| {
            let value = crate::config::environment(name).filter(|value| !value.is_empty())?;
            Some(OsString::from(format!("{option}={value}")))
        });
    let given: Vec<OsString> = given.collect();
    // Directly behind the command's own name: later arguments may belong to another program's
    // command line.
    let (mut command, mut at) = (&Cli::command(), 1);
    while let Some(below) = args.get(at).and_then(|name| command.find_subcommand(name)) {
        (command, at) = (below, at.saturating_add(1));
    }
    let any = !given.is_empty();
    args.splice(at..at, given);
    any.then_some(args)
}

fn parse(args: &[OsString]) -> Result<Cli, clap::Error> {
    Cli::command().try_get_matches_from(args).and_then(|m| Cli::from_arg_matches(&m))
}

/// Runs the command line `args` (the program's name first).
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    // WHY first: this process may become a sandboxed command, which must not parse a user's command
    // line.
    if let Some(end) = crate::tool::sandbox::role(&args) {
        return end;
    }
    execute(args).into()
}

fn execute(args: Vec<OsString>) -> Exit {
    let args = regrouped(args);
    if args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json") {
        output::be_json();
    }
    let parsed = parse(&args).or_else(|error| match completed(args, &error) {
        Some(args) => parse(&args),
        None => Err(error),
    });
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return output::refuse(&error),
    };
    let end = dispatch(cli.command);
    output::finish();
    end
}

fn dispatch(command: Command) -> Exit {
    match command {
        Command::Quickstart(args) => quickstart::run(&args),
        Command::QuickstartTools => quickstart::tools::serve(),
        Command::Init(args) => init::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Run(args) => rollback::run(&args),
        Command::Call(args) => call::run(&args),
        Command::Search(args) => search::run(&args),
        Command::Approval(args) => approval::run(&args),
        Command::Control(args) => control::run(&args),
        Command::Manifest(args) => manifest::run(&args),
        Command::Policy(args) => policy::run(&args),
        Command::Tools(args) => tools::run(&args),
        Command::Evidence(args) => evidence::run(&args),
        Command::Ledger(args) => ledger::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Version(args) => version::run(&args),
        Command::Help { command } => {
            let help = ["wicketgate".into()].into_iter().chain(command).chain(["--help".into()]);
            execute(help.collect())
        }
    }
}

/// The command trees of the programs of a release, for manual pages, completions and the reference.
pub fn programs() -> [clap::Command; 2] {
    [Cli::command(), crate::evidence::command::Program::command()]
}

/// Runs an asynchronous command to its end, and prints why if it fails.
fn wait(work: impl Future<Output = Result<Exit, Failure>>) -> Exit {
    block_on(work).map_or_else(|exit| exit, ended)
}

/// Prints why a command fails, if it does.
fn ended(done: Result<Exit, Failure>) -> Exit {
    done.unwrap_or_else(Failure::print)
}

/// Runs an asynchronous part of a command to its end.
///
/// WHY boxed: the runtime's own code is compiled for each future, and has each three times.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Exit> {
    let work: Pin<Box<dyn Future<Output = T> + '_>> = Box::pin(work);
    runtime().map(|runtime| runtime.block_on(work)).map_err(Failure::print)
}

/// The runtime for a command without concurrency.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let made = tokio::runtime::Builder::new_current_thread().enable_all().build();
    made.map_err(|error| Failure::unverifiable(error::NoRuntime(error)))
}

/// Writes a new file, with the permissions that the umask allows.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    create(path, bytes, 0o666).map_err(FileError::at(path))
}

/// Writes these files into a directory, which it makes; it replaces files of these names.
fn write_all(folder: &Path, files: &[(String, Vec<u8>)]) -> Result<(), FileError> {
    std::fs::create_dir_all(folder).map_err(FileError::at(folder))?;
    for (name, bytes) in files {
        let path = folder.join(name);
        std::fs::write(&path, bytes).map_err(FileError::at(&path))?;
    }
    Ok(())
}

/// Writes a file that must not exist yet, of this mode, so that it outlives a crash.
fn create(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_every_part_of_it_explained() {
        Cli::command().debug_assert();
        let mut open = vec![Cli::command()];
        while let Some(command) = open.pop() {
            let name = command.get_name().to_owned();
            assert!(command.get_about().is_some(), "`{name}` has no help");
            for arg in command.get_arguments() {
                assert!(arg.get_help().is_some(), "`{}` of `{name}` has no help", arg.get_id());
            }
            open.extend(command.get_subcommands().cloned());
        }
    }
}
