//! The replay itself: a gate on the recording, the agent's command beside it, and what came of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use super::stage::{Desk, Policies};
use super::{Exit, block_on, complain, say};
use crate::app::{Gate, Stage};
use crate::identity;
use crate::replay::player::{Manner, Player};
use crate::replay::props::RecordedClock;
use crate::replay::recording::Recording;
use crate::replay::report::Report;

/// How long the gate may take to be ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// What to replay, and who does it again.
#[derive(clap::Args, Debug)]
pub struct Play {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Go on after a drift, and report all of them
    #[arg(long)]
    report: bool,
    /// Decide by this bundle and not by the recorded ones
    #[arg(long, value_name = "DIR")]
    bundle: Option<PathBuf>,
    /// Arguments that do not count when calls are matched, beside those the manifest names
    #[arg(long, value_name = "TOOL:/POINTER", value_parser = volatile)]
    volatile: Vec<(String, String)>,
    /// Listen on this loopback address; default: a port the system chooses. `off`: on the socket only
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: String,
    /// Write the result as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print the result as JSON; what the command prints goes to standard error then
    #[arg(long)]
    json: bool,
    /// The agent's command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn volatile(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((tool, pointer)) if !tool.is_empty() && pointer.starts_with('/') => {
            Ok((tool.to_owned(), pointer.to_owned()))
        }
        Some(_) | None => Err("expected a tool and a JSON pointer, such as `mail.send:/id`".into()),
    }
}

/// Replays.
pub(super) fn run(args: &Play) -> Exit {
    let failed = |why: String| {
        complain(format!("error: {why}"));
        Exit::Unverifiable
    };
    let recording = match Recording::open(&args.file) {
        Ok(recording) => recording,
        Err(error) => return failed(error.to_string()),
    };
    match block_on(play(args, recording)) {
        Ok(Ok(exit)) => exit,
        Ok(Err(why)) => failed(why),
        Err(exit) => exit,
    }
}

async fn play(args: &Play, recording: Recording) -> Result<Exit, String> {
    let policies = Policies::of(&recording, args.bundle.as_deref())?;
    let desk = Desk::make()?;
    let tcp = (args.listen != "off").then_some(args.listen.as_str());
    let config = desk.furnish(&recording, &policies, tcp)?;
    let clock = Arc::new(RecordedClock::at(recording.header.opened_at));
    let manner = Manner {
        collect: args.report,
        engines: policies.engines,
        now: policies.now,
        volatile: pointers(args, &recording)?,
    };
    let player = Player::new(recording, manner, Arc::clone(&clock)).map_err(|e| e.to_string())?;
    let player = Arc::new(player);
    let stage = Stage { player: Arc::clone(&player), clock };
    let gate = Gate::replay(config, stage).await;
    let mut gate = gate.map_err(|e| format!("the gate: {e}"))?;
    let ready = tokio::time::timeout(PATIENCE, gate.ready()).await;
    if ready != Ok(true) {
        let reasons = gate.readiness().borrow().reasons.join("; ");
        return Err(format!("the gate is not ready: {reasons}"));
    }
    let ran = command(args, &desk, &player, gate.agents().first()).await;
    gate.stop();
    let ended = gate.wait().await.map_err(|e| format!("the gate: {e}"));
    ended?;
    let ran = ran?;
    let played = player.finish();
    let unsure = match (played.opened, ran) {
        (0, None) => Some("the command opened no run".to_owned()),
        (_, Some(how)) => Some(format!("the command ended with {how}")),
        (_, None) => None,
    };
    let recording = player.recording();
    let report = Report {
        header: &recording.header,
        recording: recording.digest,
        tools: recording.places.iter().map(|place| place.tool.as_str()).collect(),
        // Nothing was asked because nobody came.
        played: if played.opened == 0 {
            crate::replay::player::Played { drifts: Vec::new(), ..played }
        } else {
            played
        },
        unsure,
    };
    tell(args, &report)
}

/// The JSON pointers that do not count: the manifest's and those of the command line.
fn pointers(args: &Play, recording: &Recording) -> Result<BTreeMap<String, Vec<String>>, String> {
    let manifest = recording.files.get("agent.yaml").map(Vec::as_slice).unwrap_or_default();
    let manifest = identity::read(manifest, "agent.yaml").map_err(|e| e.to_string())?;
    let mut volatile = manifest.replay.volatile;
    for (tool, pointer) in &args.volatile {
        volatile.entry(tool.clone()).or_default().push(pointer.clone());
    }
    Ok(volatile)
}

/// Runs the command to its end; how it failed, if it did.
async fn command(
    args: &Play,
    desk: &Desk,
    player: &Player,
    tcp: Option<&SocketAddr>,
) -> Result<Option<String>, String> {
    let (program, rest) = args.command.split_first().ok_or("there is no command")?;
    let mut command = tokio::process::Command::new(program);
    command.args(rest).kill_on_drop(true);
    command.env("WICKETGATE_SOCKET", desk.socket());
    command.env("WICKETGATE_TOKEN", &desk.token);
    command.env("WICKETGATE_REPLAY", player.recording().digest.prefixed());
    if let Some(tcp) = tcp {
        command.env("WICKETGATE_URL", format!("http://{tcp}"));
        command.env("WICKETGATE_MCP_URL", format!("http://{tcp}/mcp"));
    }
    if args.json {
        let error = std::io::stderr();
        let error = rustix::io::dup(&error).map_err(|e| format!("standard error: {e}"))?;
        command.stdout(Stdio::from(error));
    }
    let mut child = command.spawn().map_err(|e| format!("`{program}`: {e}"))?;
    let status = child.wait().await.map_err(|e| format!("`{program}`: {e}"))?;
    Ok((!status.success()).then(|| status.to_string()))
}

fn tell(args: &Play, report: &Report<'_>) -> Result<Exit, String> {
    if let Some(path) = &args.junit {
        let written = std::fs::write(path, report.to_junit());
        written.map_err(|e| format!("`{}`: {e}", path.display()))?;
    }
    if args.json {
        say(report.to_json());
    } else {
        complain(report.to_text());
    }
    Ok(match (report.played.drifts.is_empty(), &report.unsure) {
        (false, _) => Exit::Invalid,
        (true, Some(_)) => Exit::Unverifiable,
        (true, None) => Exit::Ok,
    })
}
