//! The command line: what each command says and with which exit code it ends.
//!
//! Results go to standard output, everything else to standard error. Nothing here is coloured but
//! clap's own help, which heeds `NO_COLOR`.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

mod amend;
mod approval;
mod archive;
mod break_glass;
mod bucket;
mod check;
mod completions;
mod config;
mod control;
mod doctor;
mod door;
mod evidence;
mod fleet;
mod health;
mod hub;
mod init;
mod key;
mod keygen;
mod ledger;
mod lint;
mod man;
mod manifest;
mod mcp;
mod observed;
mod office;
mod payload;
mod policy;
mod prune;
mod quickstart;
pub mod reader;
pub mod recorder;
mod recover;
mod replay;
mod rollback;
mod serve;
mod size;
mod suggest;
mod tools;
mod witness;

/// How a command ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// 0: done, or valid.
    Ok,
    /// 1: invalid or denied.
    Invalid,
    /// 2: cannot be verified from what is there.
    Unverifiable,
    /// 64: the command line is wrong.
    Usage,
    /// 75: another process is the writer.
    Fenced,
    /// 78: the configuration is wrong.
    Config,
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

// A new command: one variant here, one arm in `run`.
#[derive(Subcommand, Debug)]
enum Command {
    /// Watch one agent's calls being allowed, denied, held, recorded and proven, on this machine alone.
    Quickstart(quickstart::Args),
    /// The tools that the quickstart starts.
    #[command(hide = true)]
    QuickstartTools,
    /// Run the gate: everything on the call path, until a signal.
    Serve(serve::Args),
    /// Answer the operators of a tenant, in front of its Postgres ledger.
    Hub(hub::Args),
    /// Ask a gate or a hub whether it is ready, and why not.
    Health(health::Args),
    /// Make an ed25519 key pair for signing manifests or policy bundles.
    Keygen(keygen::Args),
    /// Show, rotate and revoke the keys of a ledger, on the books.
    Key(key::Args),
    /// Write, sign and verify agent manifests.
    Manifest(manifest::Args),
    /// Check, sign and try policy bundles.
    Policy(policy::PolicyArgs),
    /// Check and show the configuration.
    Config(config::Args),
    /// Look at every tool, and sign what those of MCP servers are.
    Tools(tools::Args),
    /// Export runs as evidence, and verify such evidence offline.
    Evidence(evidence::Args),
    /// Read, verify and set up ledgers.
    Ledger(ledger::Args),
    /// Look back at a run: put back what it wrote to files.
    Run(rollback::Args),
    /// Run an agent again on what was recorded, and say where it does something else.
    Replay(replay::Args),
    /// List, erase and expire what calls carried, and hold it against both.
    Payload(payload::Args),
    /// See held calls, and approve or refuse them with an SSH key.
    Approval(approval::Args),
    /// Stop agents, runs, tools, manifests and keys, and reinstate them.
    Control(control::Args),
    /// Let calls of one agent go without an approver for a short time, on the word of several key holders.
    BreakGlass(break_glass::Args),
    /// Run as the agent: try to get past the gate, and tell the gate what worked.
    Doctor(doctor::Args),
    /// Cosign heads of other people's logs.
    Witness(witness::Args),
    /// Govern the servers of an MCP client: from its configuration to a signed one of our own.
    Init(init::Args),
    /// Be an MCP server on standard input and output, in front of the gate.
    Mcp(mcp::Args),
    /// Print what bash, zsh or fish complete of this command line.
    Completions(completions::Args),
    /// Print the manual page, or write one for each command.
    Man(man::Args),
}

/// Runs the command line `args` (the program's name first).
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    // Before anything else is done: this process becomes a command, and is no command of people.
    if let Some(end) = crate::tool::sandbox::role(&args) {
        return end;
    }
    let parsed = Cli::command().try_get_matches_from(args).and_then(|m| Cli::from_arg_matches(&m));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody is left to tell if the terminal is gone.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Ok.into() };
        }
    };
    match cli.command {
        Command::Quickstart(args) => quickstart::run(&args),
        Command::QuickstartTools => quickstart::tools::serve(),
        Command::Keygen(args) => keygen::run(&args),
        Command::Key(args) => key::run(&args),
        Command::Manifest(args) => manifest::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Hub(args) => hub::run(&args),
        Command::Health(args) => health::run(&args),
        Command::Tools(args) => tools::run(&args),
        Command::Policy(args) => return policy::run(&args),
        Command::Evidence(args) => evidence::run(&args),
        Command::Ledger(args) => ledger::run(&args),
        Command::Run(args) => rollback::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Payload(args) => payload::run(&args),
        Command::Approval(args) => approval::run(&args),
        Command::Control(args) => control::run(&args),
        Command::BreakGlass(args) => break_glass::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Witness(args) => witness::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Mcp(args) => mcp::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
    .into()
}

/// The command trees of the programs of a release, for manual pages, completions and the reference.
pub fn programs() -> [clap::Command; 2] {
    [Cli::command(), crate::evidence::command::Program::command()]
}

/// Runs one asynchronous command to its end.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Exit> {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => Ok(runtime.block_on(work)),
        Err(error) => {
            complain(format!("error: no runtime: {error}"));
            Err(Exit::Unverifiable)
        }
    }
}

/// Prints a line of the result.
fn say(line: impl AsRef<str>) {
    // A closed pipe (`| head`) is no reason to fail.
    let _ = writeln!(std::io::stdout(), "{}", line.as_ref());
}

/// Prints a result that has its own line ends.
fn say_bytes(bytes: &[u8]) {
    // As above.
    let _ = std::io::stdout().write_all(bytes);
}

/// Prints what went wrong.
fn complain(line: impl AsRef<str>) {
    let _ = writeln!(std::io::stderr(), "{}", line.as_ref());
}

/// Writes a file that must not exist yet, for whoever the user's mask lets read it.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), String> {
    create(path, bytes, 0o666).map_err(|e| format!("{}: {e}", path.display()))
}

/// Writes these files into a directory, which is made; files of these names are replaced.
fn write_all(folder: &Path, files: &[(String, Vec<u8>)]) -> Result<(), String> {
    let shown = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    std::fs::create_dir_all(folder).map_err(|e| shown(folder, e))?;
    for (name, bytes) in files {
        let path = folder.join(name);
        std::fs::write(&path, bytes).map_err(|e| shown(&path, e))?;
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
