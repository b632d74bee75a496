//! `wicketgate run list | show | watch`: finds runs, and shows what one did, also while it goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::call::print_payloads;
use super::live::LiveFeed;
use super::search::{self, Lookup, Source};
use super::{Exit, say};
use crate::domain::id::{RunId, Seq};
use crate::operator::api::lookups::{CallLine, RunDetail};
use crate::operator::api::requests::RunSearch;

/// How often `run watch` asks where there is no live feed.
const PAUSE: Duration = Duration::from_secs(1);

/// `run list`.
#[derive(Debug, clap::Args)]
pub struct ListRuns {
    /// The query; if omitted, every open run
    #[arg(value_name = "QUERY")]
    query: Option<String>,
    /// List sealed runs instead of open ones
    #[arg(long)]
    sealed: bool,
    /// List open and sealed runs
    #[arg(long, conflicts_with = "sealed")]
    all: bool,
    /// Most runs to list; at most 200
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u16,
    /// The `next` of the answer before
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    source: Source,
}

/// `run show`.
#[derive(Debug, clap::Args)]
pub struct ShowRun {
    /// ID of the run
    #[arg(value_parser = super::evidence::run_id)]
    run: RunId,
    /// Show the arguments and the result of each call
    #[arg(long)]
    payloads: bool,
    #[command(flatten)]
    source: Source,
}

/// `run watch`.
#[derive(Debug, clap::Args)]
pub struct WatchRun {
    /// ID of the run
    #[arg(value_parser = super::evidence::run_id)]
    run: RunId,
    #[command(flatten)]
    source: Source,
}

/// Lists runs.
pub async fn list(args: &ListRuns) -> Result<Exit, Exit> {
    let lookup = args.source.open().await?;
    let state = match (args.sealed, args.all) {
        (_, true) => "all",
        (true, false) => "sealed",
        (false, false) => "open",
    };
    let wanted = RunSearch {
        state: Some(state.to_owned()),
        q: args.query.clone(),
        cursor: args.cursor.clone(),
        limit: Some(args.limit.into()),
        ..RunSearch::default()
    };
    let (body, runs) = lookup.runs(&wanted).await?;
    if args.source.json {
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    runs.runs.iter().for_each(|run| say(search::run_line(run)));
    search::more((runs.next.is_some(), runs.runs.is_empty()));
    search::reached(&runs.as_of, runs.behind);
    Ok(Exit::Ok)
}

/// The whole run: every page of its calls.
async fn whole(lookup: &Lookup, run: &RunId) -> Result<(Value, RunDetail), Exit> {
    let (mut body, mut whole) = lookup.run(run, None).await?;
    while let Some(after) = whole.next {
        let (page_body, page) = lookup.run(run, Some(after)).await?;
        let more = page_body.get("timeline").and_then(Value::as_array).cloned().unwrap_or_default();
        if let Some(Value::Array(calls)) = body.get_mut("timeline") {
            calls.extend(more);
        }
        whole.timeline.extend(page.timeline);
        whole.next = page.next;
    }
    if let Some(members) = body.as_object_mut() {
        members.insert("next".into(), Value::Null);
    }
    Ok((body, whole))
}

/// Shows what a run did.
pub async fn show(args: &ShowRun) -> Result<Exit, Exit> {
    let lookup = args.source.open().await?;
    let (mut body, run) = whole(&lookup, &args.run).await?;
    if args.source.json {
        if args.payloads {
            with_payloads(&lookup, &run, &mut body).await?;
        }
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    say(search::run_line(&run.run));
    for call in &run.timeline {
        say(format!("  {}", moment(call)));
        if args.payloads {
            let (_, payloads) = lookup.payloads(&call.chain, call.seq).await?;
            print_payloads(&payloads, "    ");
        }
    }
    run.children.iter().for_each(|child| say(format!("  child {}", search::run_line(child))));
    search::reached(&run.as_of, run.behind);
    Ok(Exit::Ok)
}

/// Puts `payloads` into each call of the time line.
async fn with_payloads(lookup: &Lookup, run: &RunDetail, body: &mut Value) -> Result<(), Exit> {
    let Some(Value::Array(calls)) = body.get_mut("timeline") else { return Ok(()) };
    for (line, call) in calls.iter_mut().zip(&run.timeline) {
        let (payloads, _) = lookup.payloads(&call.chain, call.seq).await?;
        if let Some(members) = line.as_object_mut() {
            let payloads = payloads.get("payloads").cloned().unwrap_or_default();
            members.insert("payloads".into(), payloads);
        }
    }
    Ok(())
}

/// A call as a line of its run.
fn moment(call: &CallLine) -> String {
    let line = search::call_line(call);
    line.replace(&format!("{}  ", call.run), "")
}

/// Follows a run: prints each call when it begins and whenever its state changes, until the run is sealed. The live feed
/// says when to look; without one, it looks each second.
pub async fn watch(args: &WatchRun) -> Result<Exit, Exit> {
    let lookup = args.source.open().await?;
    // WHY first: what happens after the first look is in the feed.
    let mut feed = match &lookup {
        Lookup::Remote(api) => LiveFeed::open(api).await,
        Lookup::Local(_) => None,
    };
    let mut seen: BTreeMap<Seq, String> = BTreeMap::new();
    loop {
        let (_, run) = whole(&lookup, &args.run).await?;
        for call in &run.timeline {
            let line = if args.source.json {
                serde_json::to_value(call).unwrap_or_default().to_string()
            } else {
                moment(call)
            };
            if seen.get(&call.seq) != Some(&line) {
                say(&line);
                seen.insert(call.seq, line);
            }
        }
        if run.run.sealed.is_some() {
            if !args.source.json {
                say(search::run_line(&run.run));
            }
            return Ok(Exit::Ok);
        }
        if let Some(open) = &mut feed {
            if open.changed(&args.run).await.is_none() {
                feed = None;
            }
            continue;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
