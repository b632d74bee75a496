//! `wicketgate run rollback`: what a run wrote to files is undone, each file by one governed call.
//!
//! There is no second way to a file: the ledger says what was there before, and the command asks
//! the same tool to put it back, in a run of the operator's own. Policy judges the call, the ledger
//! records it, and the tool itself refuses if the file is not what the run left. So it can be
//! repeated, and undone as any other run.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::error::LookupError;
use super::reader::{self, LedgerSource};
use super::{Exit, Failure, block_on, launch, replay, run as lookup, say, wait};
use crate::catalog::binding::{Kind, Root};
use crate::config::{self, Config};
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::ledger::undo::{self, Decision, Undo};
use crate::operator::visible;
use gate::{GateAnswer, OperatorRun};

pub(super) mod gate;

/// The label of the run: the id of the run it undoes.
const LABEL: &str = "rollback_of";

/// Run an agent; list, show and watch runs; roll back or replay a recorded one.
#[derive(Debug, clap::Args)]
#[command(
    subcommand_negates_reqs = true,
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        wicketgate run -- python agent.py\n  \
        wicketgate run --config gate/wicketgate.yaml --model gpt-5 -- ./agent --once\n\n\
        With a program after `--`: starts a gate if none runs, opens a run, and gives the program the agent socket\n\
        (WICKETGATE_URL, WICKETGATE_SOCKET) and the run (WICKETGATE_RUN, WICKETGATE_RUN_TOKEN). At the end it seals the run and\n\
        prints, on standard error, what was allowed, denied and held. It exits as the program did."
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    launch: launch::Launch,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the open runs that match a query, newest first
    #[command(after_help = "Examples:\n  \
            wicketgate run list --token-file vera.token\n  \
            wicketgate run list 'agent:support-agent since:1d' --all --token-file vera.token --json\n\n\
            The terms of a query are in `wicketgate search --help`; those about calls find runs with such a call.")]
    List(lookup::ListRuns),
    /// Show one run: its calls in the order they began, and the runs that it delegated to
    #[command(after_help = "Examples:\n  \
            wicketgate run show RUN --token-file vera.token\n  \
            wicketgate run show RUN --payloads --token-file anna.token\n  \
            wicketgate run show RUN --config wicketgate.yaml --json\n\n\
            Payloads need the role `approver` or `auditor`. A gate or a hub records that they were shown, and to whom; reading\n\
            a ledger directly is not recorded.")]
    Show(lookup::ShowRun),
    /// Follow one run until it is sealed: print each call when it begins and when its state changes
    #[command(after_help = "Examples:\n  \
            wicketgate run watch RUN --token-file vera.token")]
    Watch(lookup::WatchRun),
    /// Restore the files that a run changed with `file.write` tools of tier T1
    #[command(after_help = "Examples:\n  \
            wicketgate run rollback RUN --dry-run\n  \
            wicketgate run rollback RUN --model operator --json\n\n\
            Run it on the gate's machine. Each file is restored by a call of this caller, so its manifest must grant the tools\n\
            that wrote the files, and the policy must allow the calls. Exits with 1 if a file could not be restored.")]
    Rollback(Rollback),
    Replay(replay::Args),
}

/// `run rollback`.
#[derive(Debug, clap::Args)]
struct Rollback {
    /// ID of the run
    #[arg(value_name = "RUN", value_parser = super::evidence::run_id)]
    run: RunId,
    /// Configuration file of the gate: it names the ledger, the tools and the agent socket
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "wicketgate.yaml",
        env = "WICKETGATE_CONFIG",
        hide_env_values = true
    )]
    config: PathBuf,
    /// Only print what would be restored; send no call to the gate
    #[arg(long)]
    dry_run: bool,
    /// Agent socket of the gate; if omitted, that of the configuration
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// Token of the caller, if it has one: a file of mode 0600
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Model to claim: one that the caller's manifest names
    #[arg(long, value_name = "NAME", default_value = "operator")]
    model: String,
    /// SHA-256 of the instructions to claim, if the caller's manifest names any
    #[arg(long, value_name = "HEX")]
    instructions: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The outcome for one file.
struct FileOutcome {
    root: String,
    path: String,
    tool: String,
    outcome: &'static str,
    detail: String,
    entry: Option<u64>,
}

/// Runs the command.
pub fn run(args: &Args) -> Exit {
    let looked = match &args.command {
        None => return wait(launch::run(&args.launch)),
        Some(Command::Rollback(command)) => return wait(rollback(command)),
        Some(Command::Replay(args)) => return replay::run(args),
        Some(Command::List(args)) => block_on(lookup::list(args)),
        Some(Command::Show(args)) => block_on(lookup::show(args)),
        Some(Command::Watch(args)) => block_on(lookup::watch(args)),
    };
    looked.and_then(|done| done).unwrap_or_else(|exit| exit)
}

async fn rollback(command: &Rollback) -> Result<Exit, Failure> {
    let config = reader::configuration(&command.config).map_err(Failure::config)?;
    let roots = roots(&config)?;
    let source = LedgerSource {
        config: Some(command.config.clone()),
        sqlite: None,
        postgres_url_file: None,
    };
    let reader = reader::open_reader(&source).await?;
    let vault = config.vault().map_err(Failure::config)?;
    let undo = undo::of_run(reader.as_ref(), vault.as_deref(), &command.run).await;
    let undo = undo.map_err(unknown)?;
    let mut outcomes = Vec::new();
    let mut wanted = Vec::new();
    // The last written first.
    for file in undo.iter().rev() {
        match decide(file, &roots) {
            Ok(now) => wanted.push((file, now)),
            Err((outcome, detail)) => outcomes.push(FileOutcome::of(file, outcome, detail)),
        }
    }
    let mut ours = None;
    if command.dry_run {
        let would = |(file, _): &(&Undo, _)| FileOutcome::of(file, "would_restore", String::new());
        outcomes.extend(wanted.iter().map(would));
    } else if !wanted.is_empty() {
        let mut gate = open(command, &config).await?;
        ours = Some(gate.run.clone());
        for (file, now) in &wanted {
            outcomes.push(restore(&mut gate, file, now.as_ref()).await);
        }
        // WHY: the seal would cancel a held call.
        if !outcomes.iter().any(|one| one.outcome == "held") {
            gate.seal().await.map_err(Failure::unverifiable)?;
        }
    }
    report(command, ours.as_deref(), &outcomes);
    let fine =
        |one: &FileOutcome| matches!(one.outcome, "restored" | "unchanged" | "would_restore");
    Ok(if outcomes.iter().all(fine) { Exit::Ok } else { Exit::Invalid })
}

fn unknown(error: undo::Error) -> Failure {
    match error {
        undo::Error::NoRun(run) => Failure::usage(LookupError::Run(run)),
        undo::Error::Store(error) => error.into(),
        undo::Error::Entry(error) => Failure::unverifiable(error),
        error @ undo::Error::Unfinished(_) => Failure::invalid(error),
    }
}

/// The root of each tool that writes, by the tool's name.
fn roots(config: &Config) -> Result<Vec<(String, Root)>, Failure> {
    let bound = config.bindings(&config::environment);
    let bound = bound.map_err(|all| Failure::config(all.join("\n")))?;
    let root = |binding: crate::catalog::Binding| {
        let Kind::FileWrite(writing) = binding.kind else { return None };
        Some((binding.name.to_string(), writing.root))
    };
    Ok(bound.bindings.into_iter().filter_map(root).collect())
}

/// The current digest, if the file is to be restored; else its other state.
fn decide(file: &Undo, roots: &[(String, Root)]) -> Result<Option<Digest>, (&'static str, String)> {
    if let Some(why) = &file.lost {
        return Err(("lost", why.to_string()));
    }
    let root = roots.iter().find(|(tool, root)| *tool == file.tool && root.name == file.root);
    let Some((_, root)) = root else {
        let why = format!("no tool `{}` with root `{}` is bound", file.tool, file.root);
        return Err(("conflict", why));
    };
    let now = crate::tool::file::digest(root, &file.path);
    let now = now.map_err(|why| ("conflict", why.to_string()))?;
    match file.decide(now.as_ref()) {
        Decision::Restore => Ok(now),
        Decision::Unchanged => Err(("unchanged", "it is as it was before the run".into())),
        Decision::Conflict(why) => Err(("conflict", why.into())),
    }
}

async fn open(command: &Rollback, config: &Config) -> Result<OperatorRun, Failure> {
    let socket = command.socket.clone().or_else(|| config.listen.socket.clone());
    let no_socket = || Failure::usage("the configuration has no agent socket: `--socket`");
    let socket = socket.ok_or_else(no_socket)?;
    let token = command.token_file.as_deref().map(crate::identity::callers::read_token);
    let token = token.transpose().map_err(Failure::usage)?;
    let claims = (command.model.as_str(), command.instructions.as_slice());
    let undone = command.run.to_string();
    let token = token.as_deref().map(String::as_str);
    OperatorRun::open(&socket, token, claims, (LABEL, &undone)).await.map_err(Failure::invalid)
}

async fn restore(gate: &mut OperatorRun, file: &Undo, now: Option<&Digest>) -> FileOutcome {
    match gate.call(&format!("rollback-{}", file.first), &file.tool, &file.arguments(now)).await {
        GateAnswer::Ran(entry) => {
            FileOutcome { entry: Some(entry), ..FileOutcome::of(file, "restored", String::new()) }
        }
        GateAnswer::Held(held) => FileOutcome::of(file, "held", held.to_string()),
        // What it was when it was looked at a moment ago is over.
        GateAnswer::Refused(refusal) => {
            let changed = matches!(refusal.detail.as_str(), "file.changed" | "changed");
            FileOutcome::of(file, if changed { "conflict" } else { "refused" }, refusal.to_string())
        }
    }
}

impl FileOutcome {
    fn of(file: &Undo, outcome: &'static str, detail: String) -> Self {
        let (root, path, tool) = (file.root.clone(), file.path.clone(), file.tool.clone());
        Self { root, path, tool, outcome, detail, entry: None }
    }
}

fn report(command: &Rollback, ours: Option<&str>, outcomes: &[FileOutcome]) {
    if command.json {
        let one = |one: &FileOutcome| {
            json!({"root": one.root, "path": one.path, "tool": one.tool, "outcome": one.outcome,
                "detail": one.detail, "entry": one.entry})
        };
        let files: Vec<Value> = outcomes.iter().map(one).collect();
        let all = json!({"run": command.run.to_string(), "rollback_run": ours,
            "dry_run": command.dry_run, "files": files});
        return say(all.to_string());
    }
    for one in outcomes {
        let entry = one.entry.map(|entry| format!(" (entry {entry})")).unwrap_or_default();
        let detail =
            if one.detail.is_empty() { String::new() } else { format!(": {}", one.detail) };
        let (path, detail) = (visible(&one.path), visible(&detail));
        say(format!("{:<13} {}:{path}{entry}{detail}", one.outcome, one.root));
    }
    if outcomes.is_empty() {
        say("the run changed no file that can be restored");
    }
    if let Some(ours) = ours {
        say(format!("recorded as run {ours}"));
    }
    if outcomes.iter().any(|one| one.outcome == "held") {
        say("held calls run once they are approved; then run this again");
    }
}
