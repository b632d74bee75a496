//! `wicketgate call`: lists recorded calls, and shows one from its entries.

use super::argument::call_id;
use super::search::{self, Lookup, Source};
use super::{Exit, Failure, block_on, say};
use crate::domain::id::{CallId, RunId};
use crate::domain::plural::many;
use crate::operator::api::lookups::{CallDetail, CallLine, CallPayloads, PayloadBody};
use crate::operator::api::requests::CallSearch;
use crate::operator::visible;

/// List recorded calls, and show one with its reasons and entries.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the calls that match a query, newest first
    List(ListCalls),
    /// Show one call: its decision, its entries, and its payloads on request
    Show(ShowCall),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate call list --token-file vera.token\n  \
    wicketgate call list 'agent:support-agent verdict:deny since:1d' --token-file vera.token --json\n\n\
    The terms of a query are in `wicketgate search --help`.")]
struct ListCalls {
    /// The query; if omitted, every call
    #[arg(value_name = "QUERY")]
    query: Option<String>,
    /// Most calls to list; at most 200
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u16,
    /// The `next` of the answer before
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    source: Source,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate call show RUN CALL --token-file vera.token\n  \
    wicketgate call show RUN CALL --payloads --token-file anna.token\n\n\
    Payloads need the role `approver` or `auditor`. A gate or a hub records that they were shown, and to whom; reading a\n\
    ledger directly is not recorded.")]
struct ShowCall {
    /// ID of the run
    #[arg(value_parser = super::evidence::run_id)]
    run: RunId,
    /// ID of the call
    #[arg(value_parser = call_id)]
    call: CallId,
    /// Show the arguments and the result
    #[arg(long)]
    payloads: bool,
    #[command(flatten)]
    source: Source,
}

/// Runs the command.
pub fn run(args: &Args) -> Exit {
    let work = async {
        match &args.command {
            Command::List(args) => list(args).await,
            Command::Show(args) => show(args).await,
        }
    };
    block_on(work).and_then(|done| done).unwrap_or_else(|exit| exit)
}

async fn list(args: &ListCalls) -> Result<Exit, Exit> {
    let lookup = args.source.open().await?;
    let (q, cursor, limit) = (args.query.clone(), args.cursor.clone(), Some(args.limit.into()));
    let (body, calls) =
        lookup.calls(&CallSearch { q, cursor, limit, ..CallSearch::default() }).await?;
    if args.source.json {
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    calls.calls.iter().for_each(|call| say(search::call_line(call)));
    search::more((calls.next.is_some(), calls.calls.is_empty()));
    search::reached(&calls.as_of, calls.behind);
    Ok(Exit::Ok)
}

async fn show(args: &ShowCall) -> Result<Exit, Exit> {
    let lookup = args.source.open().await?;
    let found = find(&lookup, &args.run, &args.call).await?;
    let (mut body, call) = lookup.call(&found.chain, found.seq).await?;
    let payloads = match args.payloads {
        true => Some(lookup.payloads(&found.chain, found.seq).await?),
        false => None,
    };
    if args.source.json {
        if let (Some((payloads, _)), Some(members)) = (payloads, body.as_object_mut()) {
            let payloads = payloads.get("payloads").cloned().unwrap_or_default();
            members.insert("payloads".into(), payloads);
        }
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    print_call(&call);
    if let Some((_, payloads)) = &payloads {
        print_payloads(payloads, "");
    }
    Ok(Exit::Ok)
}

/// The one call of this id in this run.
async fn find(lookup: &Lookup, run: &RunId, call: &CallId) -> Result<CallLine, Exit> {
    let q = Some(format!("run:\"{run}\" call:\"{call}\""));
    let (_, mut calls) = lookup.calls(&CallSearch { q, ..CallSearch::default() }).await?;
    search::reached(&calls.as_of, calls.behind);
    let none = || Failure::invalid(format!("no call `{call}` of run `{run}` is recorded")).print();
    calls.calls.pop().ok_or_else(none)
}

fn print_call(call: &CallDetail) {
    say(search::call_line(&call.call));
    let line = |name: &str, value: Option<&String>| {
        if let Some(value) = value {
            say(format!("  {name:<10} {}", visible(value)));
        }
    };
    let agent = format!("{} {}", call.call.agent, call.call.version);
    line("agent", Some(&agent));
    line("rule", call.call.rule.as_ref());
    for reason in &call.reasons {
        let text = format!("{} {} {} {}", reason.code, reason.detail, reason.message, reason.rule);
        line("reason", Some(&text));
    }
    line("policy", call.policy.as_ref());
    line("asked by", call.asked_by.as_ref());
    line("gate of", call.gate_of.as_ref());
    line("reason", call.justification.as_ref());
    line("trace", call.traceparent.as_ref());
    line("log", Some(&call.origin));
    for entry in &call.entries {
        let payload = entry.payloads.iter().map(|one| format!("{} {} bytes", one.role, one.bytes));
        let payloads: Vec<String> = payload.collect();
        let text = format!(
            "{} {} {} leaf {} {}",
            entry.seq,
            entry.at,
            entry.kind,
            entry.leaf,
            payloads.join(", ")
        );
        line("entry", Some(&text));
    }
    let proven = match (call.checkpoint, &call.unproven) {
        (Some(size), _) => {
            format!("all entries are in the signed checkpoint of {}", many(size, "entry"))
        }
        (None, why) => format!("NOT PROVEN: {}", why.as_deref().unwrap_or_default()),
    };
    line("proof", Some(&proven));
}

/// Prints the arguments and the result of a call, each line after this.
pub fn print_payloads(payloads: &CallPayloads, before: &str) {
    for payload in &payloads.payloads {
        let PayloadBody { role, bytes, text, withheld, .. } = payload;
        match (text, withheld) {
            (Some(text), _) => say(format!("{before}  {role:<10} {}", visible(text))),
            (None, why) => {
                let why = why.as_deref().unwrap_or_default();
                say(format!("{before}  {role:<10} {bytes} bytes, not shown: {}", visible(why)));
            }
        }
    }
}
