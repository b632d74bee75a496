//! `wicketgate trust`: how the calls of each tool ended, and whether policies saw the same.

use serde_json::json;

use super::search::Source;
use super::{Exit, Failure, block_on, note, report, say};
use crate::domain::plural::many;
use crate::evidence::scores::{SnapshotFault, SnapshotReport};
use crate::operator::api::standing::{TrustFall, TrustLine, TrustScores};
use crate::operator::visible;

/// Show how often the calls of each tool, and of each agent with it, ended well.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate tools trust --token-file vera.token\n  \
    wicketgate tools trust --config wicketgate.yaml --json\n  \
    wicketgate tools trust --config wicketgate.yaml --verify\n\n\
    The score is the lower bound of the Wilson interval (95 %) in thousandths, over the newest calls of the window\n\
    (`trust.window`, `trust.days`); fewer than 20 calls are unrated. With --verify: 0 every figure that a policy saw is the\n\
    ledger's, 1 one is not, 2 some inputs cannot be read.")]
pub struct Args {
    /// Compute each figure that a policy saw (`input.tool.trust`) once more, from a ledger
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    source: Source,
}

/// Runs the command.
pub fn run(args: &Args) -> Exit {
    block_on(show(args)).and_then(|done| done).unwrap_or_else(|exit| exit)
}

async fn show(args: &Args) -> Result<Exit, Exit> {
    let lookup = args.source.open().await?;
    if args.verify {
        let checked = lookup.snapshots().await?;
        let none = || {
            Failure::usage(
                "`--verify` reads a ledger: name it with `--config`, `--sqlite` or `--postgres-url-file`",
            )
        };
        return Ok(verified(&checked.ok_or_else(|| none().print())?));
    }
    let (body, found) = lookup.trust().await?;
    if args.source.json {
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    print(&found);
    Ok(Exit::Ok)
}

fn print(found: &TrustScores) {
    found.scores.iter().for_each(|line| say(visible(&score_line(line))));
    if found.scores.is_empty() {
        note("no call has ended");
    }
    for TrustFall { tool, agent, from, to, since, .. } in &found.drops {
        let agent = agent.as_deref().unwrap_or("every agent");
        say(visible(&format!("FALLEN  {tool}  {agent}  {from} -> {to} since {since}")));
    }
    if found.behind > 0 {
        note(format!("{} were not read yet: ask again", many(found.behind, "entry")));
    }
}

/// A score as one line.
fn score_line(line: &TrustLine) -> String {
    let TrustLine { tool, definition, replaced, agent, calls, well, score, last, .. } = line;
    let score = score.map_or_else(|| "unrated".to_owned(), |score| format!("{score:>4}"));
    let agent = agent.as_deref().unwrap_or("every agent");
    let old = if *replaced { "  (replaced)" } else { "" };
    format!(
        "{score}  {tool}  {agent}  {well} of {calls} ended well, last {last}  {definition}{old}"
    )
}

fn verified(checked: &SnapshotReport) -> Exit {
    let SnapshotReport { same, unread, other } = checked;
    report(json!({"same": same, "unread": unread, "other": other}), || {
        for SnapshotFault { origin, seq, recorded, computed } in other {
            say(visible(&format!(
                "entry {seq} of {origin}: the policy saw {} ({} of {}), the ledger gives {} ({} of {})",
                recorded.score,
                recorded.well,
                recorded.calls,
                computed.score,
                computed.well,
                computed.calls
            )));
        }
        say(format!("{} that policies saw, the same from the ledger", many(same, "figure")));
        if *unread > 0 {
            note(format!("{} cannot be read", many(unread, "input")));
        }
    });
    match (other.is_empty(), unread) {
        (false, _) => Exit::Invalid,
        (true, 0) => Exit::Ok,
        (true, _) => Exit::Unverifiable,
    }
}
