//! `wicketgate control switch`: parts of the gate that are switched off and on, while all others go on.

use super::api::{Answer, Api};
use super::control::{Reinstate, Switch, reinstate, switch};
use super::{Exit, fail, say};
use crate::control::Target;
use crate::operator::api::route;
use crate::operator::api::status::StopState;
use crate::operator::visible;

/// Switch a face, a kind of tool, an MCP server or a model upstream off and on.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List what is switched off at each gate
    List(ListSwitches),
    /// Let no new call use a part of the gate; running calls may finish
    #[command(after_help = EXAMPLES)]
    Off(Switch),
    /// Switch a part of the gate on again, signed with your SSH key
    On(Reinstate),
}

const EXAMPLES: &str = "Examples:\n  \
    wicketgate control switch off face mcp --reason \"CVE in the client\" --token-file otto.token\n  \
    wicketgate control switch off kind sql --reason \"incident 12\" --token-file otto.token\n  \
    wicketgate control switch off server github --reason \"key leaked\" --token-file otto.token\n  \
    wicketgate control switch off upstream openai --reason \"outage\" --token-file otto.token";

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wicketgate control switch list --token-file otto.token")]
struct ListSwitches {
    #[command(flatten)]
    api: Api,
}

/// What is wrong with a switch before it is sent.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// It is no part of a gate.
    #[error(
        "`{0}` is no part of a gate; use face, kind, server or upstream with a name, or `wicketgate control`"
    )]
    NoPart(String),
}

/// Runs it.
pub(super) async fn run(args: &Args) -> Result<Exit, Exit> {
    match &args.command {
        Command::List(args) => list(args).await,
        Command::Off(args) => {
            is_part(&args.target, &args.name)?;
            switch("suspend", args).await
        }
        Command::On(args) => {
            if let Some(target) = &args.target {
                is_part(target, &args.name)?;
            }
            reinstate(args).await
        }
    }
}

fn is_part(target: &str, name: &str) -> Result<(), Exit> {
    match Target::parse(target, name) {
        Some(target) if target.is_part() => Ok(()),
        Some(_) | None => Err(fail(Exit::Usage, Error::NoPart(target.to_owned()))),
    }
}

async fn list(args: &ListSwitches) -> Result<Exit, Exit> {
    let Answer { reply, .. } = args.api.ask::<route::Limits>(&(), &()).await?;
    let is_part = |stop: &StopState| {
        Target::parse(&stop.target, &stop.name).is_some_and(|target| target.is_part())
    };
    let off: Vec<&StopState> = reply.stops.iter().filter(|stop| is_part(stop)).collect();
    if args.api.json {
        say(serde_json::json!({"off": off, "silent": reply.silent}).to_string());
        return Ok(Exit::Ok);
    }
    if off.is_empty() {
        say("nothing is switched off");
    }
    for StopState { origin, seq, target, name, expires, .. } in off {
        let until = expires.as_ref().map(|at| format!(" until {}", visible(at)));
        let (target, name, origin) = (visible(target), visible(name), visible(origin));
        let until = until.unwrap_or_default();
        say(format!("{target} {name} is off at {origin} by order {seq}{until}"));
    }
    for origin in &reply.silent {
        say(format!("{} has not reported: its switches may have changed", visible(origin)));
    }
    Ok(Exit::Ok)
}
