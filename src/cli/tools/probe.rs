//! `wicketgate tools probe`: the one picture of every tool.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::picture::{Filter, Picture, PictureRow};
use super::{ToolsArgs, left_out, offer, reached};
use crate::catalog::binding::Binding;
use crate::catalog::lock::printable;
use crate::cli::{Exit, Failure, note, runtime, say};
use crate::config::Config;
use crate::domain::plural::many;
use crate::tool::mcp::ServerOffer;
use crate::tool::net::System;
use crate::tool::probe::{Point, ProbeSetup, ProbeState, probe};

/// Tools that are looked at at the same time.
const AT_ONCE: usize = 16;
/// The time limit for a tool without a server, whatever `--wait` says.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How often a waiting user sees what the command waits for.
const TELL: Duration = Duration::from_secs(5);
/// Names in one such line.
const TOLD_MAX: usize = 4;

/// One server and its finding.
struct ProbedServer {
    point: Point,
    value: Value,
}

pub(super) fn run(at: &ToolsArgs, filter: &Filter<'_>) -> Result<Exit, Failure> {
    let config = at.load()?;
    let mut picture = Picture::read(&config, filter)?;
    let probed = runtime()?.block_on(look(at, &mut picture));
    let (mut rows, offers) = probed;
    let whole = !filter.servers.is_empty() && !at.json;
    let mut servers = Vec::new();
    for offer in offers {
        let (seen, more) = server(&mut picture, offer, (whole, filter.tools.is_empty()));
        servers.push(seen);
        rows.extend(more);
    }
    let exit = verdict(&picture, &rows, &servers);
    if at.json {
        say(value(&picture, &rows, servers, exit).to_string());
    } else {
        text(&picture, &rows, &servers);
    }
    Ok(exit)
}

/// The findings about every tool and server, each with its name.
pub(super) async fn points(
    at: &ToolsArgs,
    config: &Config,
) -> Result<Vec<(String, Point)>, Failure> {
    let mut picture = Picture::read(config, &Filter { tools: &[], kinds: &[], servers: &[] })?;
    let (mut rows, offers) = look(at, &mut picture).await;
    let mut all = Vec::new();
    for offer in offers {
        let name = format!("server {}", offer.0.name);
        let (seen, more) = server(&mut picture, offer, (false, false));
        all.push((name, seen.point));
        rows.extend(more);
    }
    let of_row =
        |row: PictureRow| row.points.into_iter().map(move |point| (row.name.clone(), point));
    all.extend(rows.into_iter().flat_map(of_row));
    Ok(all)
}

/// Probes all tools and servers concurrently, and prints which ones it still waits for.
async fn look(at: &ToolsArgs, picture: &mut Picture) -> (Vec<PictureRow>, Vec<ServerOffer>) {
    let wait = Duration::from_secs(at.wait).min(WAIT_MAX);
    let setup = ProbeSetup { resolve: Arc::new(System), levels: Arc::default() };
    let (slots, pending) = (Semaphore::new(AT_ONCE), Mutex::new(BTreeSet::new()));
    let own = std::mem::take(&mut picture.own).into_iter();
    let own = own.map(async |(row, binding): (PictureRow, Option<Binding>)| {
        let Some(binding) = binding else { return row };
        // The semaphore is never closed.
        let _slot = slots.acquire().await;
        pending.lock().insert(row.name.clone());
        let points = tokio::time::timeout(wait, probe(binding, &setup)).await;
        pending.lock().remove(&row.name);
        PictureRow { points: points.unwrap_or_else(|_elapsed| vec![late(wait)]), ..row }
    });
    let servers = async {
        let names = || picture.servers.iter().map(|server| format!("server {}", server.name));
        pending.lock().extend(names());
        let offers = at.offers(&picture.servers, true).await;
        let mut pending = pending.lock();
        for name in names() {
            pending.remove(&name);
        }
        offers
    };
    let all = join(join_all(own), servers);
    tokio::pin!(all);
    loop {
        tokio::select! {
            biased;
            done = &mut all => return done,
            () = tokio::time::sleep(TELL) => {
                if !at.json {
                    note(waiting(&pending.lock()));
                }
            }
        }
    }
}

fn late(wait: Duration) -> Point {
    let found = format!("no answer within {}", many(wait.as_secs(), "second"));
    Point::wrong(
        "look",
        ProbeState::Unreached,
        found,
        "see what it waits for, or give a longer --wait",
    )
}

fn waiting(pending: &BTreeSet<String>) -> String {
    let some: Vec<&str> = pending.iter().take(TOLD_MAX).map(String::as_str).collect();
    let more = pending.len().saturating_sub(some.len());
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("waiting for {}{more}", some.join(", "))
}

/// The outcome of one server, and the rows of its tools. `whole`: everything it offers is printed;
/// `new`: unpinned tools have rows too.
fn server(
    picture: &mut Picture,
    (server, answer): ServerOffer,
    (whole, new): (bool, bool),
) -> (ProbedServer, Vec<PictureRow>) {
    let (name, how, sandbox) = (server.name.clone(), reached(&server), server.isolation());
    let what = format!("server {name} ({how})");
    match answer {
        Ok(answer) => {
            let (left_out, live) = (left_out(&answer), answer.locked);
            if whole {
                offer::text(&live, (&how, sandbox), &left_out);
            }
            let (itself, tools) = (offer::calls_itself(&live), live.tools.len());
            let found =
                format!("reports {itself}, protocol {}, {}", live.protocol, many(tools, "tool"));
            let value = offer::value(&live, (&how, sandbox), &left_out);
            (ProbedServer { point: Point::ready(what, found), value }, picture.compared(&live, new))
        }
        Err(error) => {
            let why = error.to_string();
            let todo = "start it by hand as the gate does, and read its output";
            let point = Point::wrong(what, ProbeState::Unreached, printable(&why), todo);
            let state = point.state.as_str();
            let value = json!({"name": name, "state": state, "reached": how, "sandbox": sandbox,
                "error": why});
            (ProbedServer { point, value }, picture.unreached(&name))
        }
    }
}

/// How the command ends.
fn verdict(picture: &Picture, rows: &[PictureRow], servers: &[ProbedServer]) -> Exit {
    let points = rows.iter().flat_map(|row| &row.points);
    let points = points.chain(servers.iter().map(|seen| &seen.point));
    let states: Vec<ProbeState> = points.map(|point| point.state).collect();
    if !picture.errors.is_empty() {
        Exit::Config
    } else if states.iter().any(|state| !state.is_fine() && !state.is_unknown()) {
        Exit::Invalid
    } else if states.iter().any(|state| state.is_unknown()) {
        Exit::Unverifiable
    } else {
        Exit::Ok
    }
}

fn text(picture: &Picture, rows: &[PictureRow], servers: &[ProbedServer]) {
    for row in rows {
        let kind = match (&row.server, row.sandbox) {
            (Some(server), _) => format!("{}:{server}", row.kind),
            (None, Some(level)) => format!("{}:{level}", row.kind),
            (None, None) => row.kind.clone(),
        };
        let tier = row.tier.map_or("--", |tier| tier.as_str());
        say(format!("{:<40} {tier}  {kind:<16} {}", row.name, row.state().as_str()));
        row.points.iter().for_each(print_point);
    }
    for seen in servers.iter().filter(|seen| !seen.point.state.is_fine()) {
        print_point(&seen.point);
    }
    // The rows show the errors of single tools already.
    let others = picture.errors.iter().filter(|error| !error.starts_with("tools["));
    others.for_each(|error| note(format!("error: {error}")));
    picture.warnings.iter().for_each(|warning| note(format!("warning: {warning}")));
    let fine = rows.iter().filter(|row| row.state().is_fine()).count();
    match rows.len() {
        0 => say("no tools are configured"),
        all => say(format!("{fine} of {} ready", many(all, "tool"))),
    }
    if !picture.errors.is_empty() {
        say("the gate does not start with this configuration: wicketgate config check");
    }
}

fn print_point(point: &Point) {
    say(format!("    {}: {}", point.what, point.found));
    point.todo.iter().for_each(|todo| say(format!("      do: {todo}")));
}

fn value(picture: &Picture, rows: &[PictureRow], servers: Vec<ProbedServer>, exit: Exit) -> Value {
    let point = |point: &Point| {
        json!({"what": point.what, "state": point.state.as_str(), "found": point.found,
            "todo": point.todo})
    };
    let row = |row: &PictureRow| {
        json!({
            "name": row.name,
            "kind": row.kind,
            "tier": row.tier.map(|tier| tier.as_str()),
            "server": row.server,
            "sandbox": row.sandbox,
            "definition": row.definition,
            "state": row.state().as_str(),
            "points": row.points.iter().map(point).collect::<Vec<_>>(),
        })
    };
    let warnings: Vec<String> = picture.warnings.iter().map(|w| printable(w)).collect();
    json!({
        "ok": exit == Exit::Ok,
        "tools": rows.iter().map(row).collect::<Vec<_>>(),
        "servers": servers.into_iter().map(|seen| seen.value).collect::<Vec<_>>(),
        "errors": picture.errors,
        "warnings": warnings,
    })
}
