//! `wicketgate run replay`: an agent on a recording, and `replay export`, which makes the
//! recording.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Exit, fail, report, say};
use crate::domain::plural::many;
use crate::replay::children::Child;
use crate::replay::recording::Recording;

mod directory;
mod export;
mod play;

/// Run an agent against a recorded run, and report where it differs.
///
/// Starts a gate that has a ledger of its own, answers from the recording, and reaches no tool and no network.
/// Then it starts the command with these variables in its environment: WICKETGATE_SOCKET (gRPC and MCP on a
/// Unix socket), WICKETGATE_URL and WICKETGATE_MCP_URL (the same on loopback), WICKETGATE_TOKEN (the agent's
/// credential there) and WICKETGATE_REPLAY (the recording's digest). For each agent of recorded child runs
/// there are also WICKETGATE_SOCKET_NAME and WICKETGATE_TOKEN_NAME, with the agent's name as NAME. Each call
/// takes the normal path through the gate: the gate matches it to the recorded call with the same tool and
/// arguments, decides again, records the decision, and returns the recorded answer.
#[derive(clap::Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  \
        wicketgate run replay export RUN --config wicketgate.yaml --out run.recording\n  \
        wicketgate run replay run.recording -- python agent.py\n  \
        wicketgate run replay run.recording --report --junit replay.xml -- python agent.py\n  \
        wicketgate run replay run.recording --bundle policy -- python agent.py\n  \
        wicketgate run replay run.recording --fork-at 3 --config wicketgate.yaml -- python agent.py\n\n\
        With --fork-at, the steps before that one are answered from the recording and not executed. Then a new run of the\n\
        configured gate continues; its first entry names the recording, the run and the step. WICKETGATE_TOKEN does not\n\
        change. Without --report, the first difference ends the replay: that call and all later ones are denied.\n\
        Exits with 0 if there was no difference, 1 if there was one, 2 if that is unknown because the recording is\n\
        incomplete, or because the command failed or opened no run."
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    play: Option<play::Play>,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Write a sealed run to a recording: a file that can be replayed on any machine.
    Export(export::Args),
    /// Check that a recording is complete, and print which run it holds.
    Check(CheckArgs),
}

/// Check that a recording is complete, and print which run it holds.
///
/// Every line is read, every payload is compared with its commitment, and the file with its digest.
#[derive(clap::Args, Debug)]
struct CheckArgs {
    /// The recording.
    file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Exit {
    match (&args.command, &args.play) {
        (Some(Command::Export(args)), _) => export::run(args),
        (Some(Command::Check(args)), _) => check(args),
        (None, Some(args)) => play::run(args),
        (None, None) => fail(Exit::Usage, "name a recording and a command"),
    }
}

fn check(args: &CheckArgs) -> Exit {
    let recording = match Recording::open(&args.file) {
        Ok(recording) => recording,
        Err(error) => {
            return fail(Exit::Unverifiable, error);
        }
    };
    let header = &recording.header;
    let steps = recording.places.len();
    let row = |child: &Child| json!({"run": child.run, "agent": child.agent, "manifest": child.manifest.prefixed()});
    let children: Vec<Value> = recording.children.iter().map(row).collect();
    let below = children.len();
    let facts = json!({
        "recording": recording.digest.prefixed(),
        "run": header.run,
        "agent": header.agent,
        "manifest": header.manifest.prefixed(),
        "opened_at": header.opened_at,
        "steps": steps,
        "children": children,
    });
    report(facts, || {
        let below = match below {
            0 => String::new(),
            n => format!("; {}", many(n, "child run")),
        };
        say(format!(
            "{} of run {} of agent `{}`, opened {}{below}; {}",
            many(steps, "step"),
            header.run,
            header.agent,
            header.opened_at,
            recording.digest.prefixed()
        ));
    });
    Exit::Ok
}
