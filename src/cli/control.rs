//! `wicketgate control`: stop and reinstate, and learn what was really stopped.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::PathBuf;

use serde_json::Value;

use super::api::{Api, list, text};
use super::approval::sign::{printed, signature};
use super::{Exit, Failure, FileError, block_on, break_glass, fail, health, many, say};
use crate::approval::order;
use crate::clock::{Clock as _, SystemClock};
use crate::control::Target;
use crate::domain::time::Timestamp;
use crate::operator::api::{requests, route};
use crate::operator::visible;

/// Stop and reinstate agents, runs, tools, manifests and keys; check the gates.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the orders and who sent them
    List(List),
    /// List the gates, their load, and the newest order that each has applied
    Fleet(Fleet),
    /// Let no new call begin; running calls may finish
    Suspend(Switch),
    /// Let no call begin, and stop running calls; only `reinstate` undoes it
    Revoke(Switch),
    /// Undo `suspend` or `revoke`, signed with your SSH key
    Reinstate(Reinstate),
    /// Stop running calls and end their runs; new runs may open
    Kill(Switch),
    BreakGlass(break_glass::Args),
    Health(health::Args),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate control list --token-file otto.token\n  \
    wicketgate control list --seq 12 --token-file otto.token")]
struct List {
    #[command(flatten)]
    api: Api,
    /// Only orders above this number
    #[arg(long, alias = "since", value_name = "NUMBER", default_value_t = 0)]
    after: u64,
    /// Show one order, and what each gate did
    #[arg(long, value_name = "NUMBER", conflicts_with = "after")]
    seq: Option<NonZeroU64>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate control fleet --token-file otto.token")]
struct Fleet {
    #[command(flatten)]
    api: Api,
}

/// What an order is about.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate control kill agent refund-agent --reason \"loops\" --token-file otto.token\n  \
        wicketgate control suspend tool payments.refund --reason \"provider is down\" --token-file otto.token\n  \
        wicketgate control revoke all --reason \"incident 12\" --token-file otto.token\n\n\
        Ends with 0 when every gate applied the order and no call is left running. Ends with 1 when calls are left, a gate\n\
        was not reached, or no gate knows the name: the order stays, and each gate applies it as soon as it can. Ends with\n\
        2 when there was no answer.")]
struct Switch {
    /// `all`, `agent`, `run`, `tool`, `manifest` or `key`
    target: String,
    /// Name of the target: of an agent or a tool, the id of a run or a key, the `sha256:…` of a manifest; none for
    /// `all`
    #[arg(default_value = "")]
    name: String,
    /// Why; it is recorded in the ledger
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// When the order ends by itself, such as 2026-11-21T20:05:03.123Z
    #[arg(long, value_name = "INSTANT")]
    expires: Option<String>,
    #[command(flatten)]
    api: Api,
}

/// A stop that is taken back.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate control reinstate agent refund-agent --reason \"fixed\" --token-file otto.token\n  \
        wicketgate control reinstate all --reason \"over\" --statement --token-file otto.token > order\n  \
        ssh-keygen -Y sign -f ~/.ssh/id_ed25519 -n wicketgate-order order\n  \
        wicketgate control reinstate --order order --signature order.sig --token-file otto.token\n\n\
        Your key is in the signed list of approvers (`approvals.signers`) with `namespaces=\"wicketgate-order\"` and the\n\
        role `operator`. An order that was sent after you signed stays. Ends with 0 when every gate applied it.")]
struct Reinstate {
    /// `all`, `agent`, `run`, `tool`, `manifest` or `key`
    #[arg(required_unless_present = "order")]
    target: Option<String>,
    /// Name of the target, as in the order that stopped it; none for `all`
    #[arg(default_value = "")]
    name: String,
    /// Why; it is recorded in the ledger
    #[arg(long, value_name = "TEXT", required_unless_present = "order")]
    reason: Option<String>,
    /// When the order ends by itself and the target is stopped again, such as 2026-11-21T20:05:03.123Z
    #[arg(long, value_name = "INSTANT")]
    expires: Option<String>,
    /// Sign with this SSH key: a private key file, or `ssh-agent:<public key file>`; if omitted, ~/.ssh/id_ed25519
    #[arg(long, value_name = "KEY", conflicts_with = "signature")]
    key: Option<PathBuf>,
    /// Print only the bytes to sign; sign them with `ssh-keygen -Y sign -n wicketgate-order`
    #[arg(long, conflicts_with_all = ["json", "key", "order"])]
    statement: bool,
    /// File with the bytes that `--statement` printed, signed elsewhere
    #[arg(long, value_name = "FILE", requires = "signature", conflicts_with_all = ["target", "reason", "expires"])]
    order: Option<PathBuf>,
    /// Signature over the bytes of `--order`
    #[arg(long, value_name = "FILE", requires = "order")]
    signature: Option<PathBuf>,
    #[command(flatten)]
    api: Api,
}

/// Runs it.
pub fn run(args: &Args) -> Exit {
    let work = async {
        match &args.command {
            Command::BreakGlass(args) => break_glass::run(args).await,
            Command::Health(args) => Ok(health::run(args).await),
            Command::List(args) => orders(args).await,
            Command::Fleet(args) => fleet(args).await,
            Command::Suspend(args) => switch("suspend", args).await,
            Command::Revoke(args) => switch("revoke", args).await,
            Command::Reinstate(args) => reinstate(args).await,
            Command::Kill(args) => switch("kill", args).await,
        }
    };
    block_on(work).and_then(|done| done).unwrap_or_else(|exit| exit)
}

async fn switch(action: &str, args: &Switch) -> Result<Exit, Exit> {
    if Target::parse(&args.target, &args.name).is_none() {
        return Err(fail(Exit::Usage, Error::Target(args.target.clone())));
    }
    let stop = requests::Stop {
        action: action.to_owned(),
        target: args.target.clone(),
        name: args.name.clone(),
        reason: args.reason.clone(),
        expires: args.expires.clone(),
    };
    args.api.order::<route::Stop>(&(), &stop).await
}

/// What is wrong with an order before it is sent.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// What it is about.
    #[error("unknown target `{0}`; use `all`, or agent, run, tool, manifest or key with a name")]
    Target(String),
    /// Its end.
    #[error("`--expires` is an instant such as 2026-11-21T20:05:03.123Z")]
    Expires,
}

async fn reinstate(args: &Reinstate) -> Result<Exit, Exit> {
    let statement = match &args.order {
        Some(file) => std::fs::read(file)
            .map_err(FileError::at(file))
            .map_err(|error| fail(Exit::Invalid, error))?,
        None => to_sign(args).await?.bytes(),
    };
    if args.statement {
        return Ok(printed(&statement));
    }
    let with = (args.key.as_deref(), args.signature.as_deref());
    let signature =
        signature(with, order::NAMESPACE, &statement).map_err(|why| fail(Exit::Invalid, why))?;
    let statement = String::from_utf8_lossy(&statement).into_owned();
    let signed = requests::SignedStatement { statement, signature };
    args.api.order::<route::Reinstatement>(&(), &signed).await
}

/// The statement that takes back what is asked for, after the newest order there is.
async fn to_sign(args: &Reinstate) -> Result<order::Statement, Exit> {
    let wrong = |error: Error| {
        fail(Exit::Usage, format!("{error}: see `wicketgate control reinstate --help`"))
    };
    let target = args.target.as_deref().unwrap_or_default();
    if Target::parse(target, &args.name).is_none() {
        return Err(wrong(Error::Target(target.to_owned())));
    }
    let expires = args
        .expires
        .as_deref()
        .map(|text| Timestamp::parse(text).ok_or_else(|| wrong(Error::Expires)));
    let expires = expires.transpose()?;
    let head = args.api.newest::<route::NewestOrder>().await;
    let (tenant, previous) = head.map_err(Failure::print)?;
    Ok(order::Statement {
        tenant,
        order: order::Word::Reinstate,
        target: target.to_owned(),
        name: args.name.clone(),
        role: None,
        payloads: BTreeSet::new(),
        request: None,
        reason: args.reason.clone().unwrap_or_default(),
        at: SystemClock::new().now(),
        expires,
        previous,
    })
}

/// What became of an order, for a person.
pub(super) fn print_order(body: &Value) {
    let recorded = body.get("recorded").filter(|recorded| !recorded.is_null());
    let place = recorded.map_or_else(
        || "NOT CONFIRMED by the ledger".to_owned(),
        |recorded| {
            format!("recorded as entry {} of {}", text(recorded, "seq"), text(recorded, "origin"))
        },
    );
    say(format!("order {}: {place}", text(body, "seq")));
    for gate in list(body, "gates") {
        print_gate(gate);
    }
    for gate in list(body, "not_reached") {
        say(format!(
            "  {}: NOT REACHED, last seen {}",
            text(gate, "origin"),
            text(gate, "last_seen")
        ));
    }
    let unknown =
        |gate: &&Value| gate.pointer("/done/known").and_then(Value::as_bool) == Some(false);
    let gates = list(body, "gates");
    if !gates.is_empty() && gates.iter().filter(unknown).count() == gates.len() {
        let near = gates.iter().filter_map(|gate| gate.get("done"));
        let near = near.flat_map(|done| list(done, "near")).filter_map(Value::as_str);
        let mut near: Vec<String> = near.map(|name| format!("`{}`", visible(name))).collect();
        near.sort();
        near.dedup();
        let near = match near.is_empty() {
            true => String::new(),
            false => format!("; did you mean {}?", near.join(" or ")),
        };
        say(format!("NO GATE KNOWS THIS NAME{near} The order stays in force."));
    }
    let (gates, silent) = (list(body, "gates").len(), list(body, "not_reached").len());
    if gates == 0 {
        say(
            "NO GATE HAS APPLIED IT YET: the order stays in force, and each gate applies it as soon as it reads it",
        );
    } else if silent > 0 {
        say(format!(
            "{} applied it, {silent} NOT REACHED: their calls are unknown",
            many(gates, "gate")
        ));
    }
    if body.get("left").and_then(Value::as_u64).is_some_and(|left| left > 0) {
        say(format!("STILL RUNNING: {}", many(text(body, "left"), "call")));
    }
}

fn print_gate(gate: &Value) {
    let (origin, done) = (text(gate, "origin"), gate.get("done").unwrap_or(&Value::Null));
    if done.get("error").is_some() {
        say(format!("  {origin}: NOT APPLIED: {}", text(done, "error")));
        return;
    }
    if done.get("asked").is_some() {
        let (id, state) = (text(done, "asked"), text(done, "call"));
        let why = [text(done, "detail"), text(done, "message")].join(" ");
        let state = match state.as_str() {
            "held" => "held: another approver has to decide".to_owned(),
            "denied" => format!("DENIED {}", why.trim()),
            _ => "not decided yet".to_owned(),
        };
        say(format!("  {origin}: proposed as call `{id}`, {state}"));
        return;
    }
    if let Some(counted) = done.get("counted").and_then(Value::as_bool) {
        let why = [text(done, "detail"), text(done, "message")].join(" ");
        let state = text(done, "call");
        let state = if state.is_empty() { state } else { format!("; the call is {state}") };
        let what = match (counted, why.trim()) {
            (true, "") => "counted".to_owned(),
            (true, why) => format!("counted: {why}"),
            (false, why) => format!("NOT COUNTED: {why}"),
        };
        say(format!("  {origin}: {what}{state}"));
        return;
    }
    say(format!(
        "  {origin}: {} stopped, {} ended, {} left running",
        many(text(done, "stopped_count"), "call"),
        many(text(done, "runs_sealed"), "run"),
        text(done, "left"),
    ));
    for call in list(done, "stopped") {
        say(format!(
            "    run {} call {}: {}",
            text(call, "run"),
            text(call, "call"),
            text(call, "how")
        ));
    }
}

async fn orders(args: &List) -> Result<Exit, Exit> {
    let body = match args.seq {
        Some(seq) => {
            args.api.ask::<route::OrderDetail>(&requests::OrderPath { seq }, &()).await?.body
        }
        None => {
            let above = requests::OrdersAfter { since: args.after };
            args.api.ask::<route::Orders>(&(), &above).await?.body
        }
    };
    if args.api.json {
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    if let Some(order) = body.get("order") {
        line(order);
        for gate in list(&body, "gates") {
            print_gate(gate);
        }
        for gate in list(&body, "not_reached") {
            say(format!(
                "  {}: NOT REACHED, last seen {}",
                text(gate, "origin"),
                text(gate, "last_seen")
            ));
        }
        return Ok(Exit::Ok);
    }
    list(&body, "orders").iter().for_each(line);
    if body.get("more").and_then(Value::as_bool) == Some(true) {
        say(format!("more: --after {}", text(&body, "next")));
    }
    Ok(Exit::Ok)
}

fn line(order: &Value) {
    let body = order.get("body").unwrap_or(&Value::Null);
    let what = match order.get("kind").and_then(Value::as_str) {
        Some("switch" | "loosen") => {
            format!("{} {} {}", text(body, "action"), text(body, "target"), text(body, "name"))
        }
        Some("break_glass" | "break_glass_close" | "break_glass_review") => {
            format!("{} {}", text(order, "kind"), text(body, "nonce"))
        }
        Some("word") => {
            let (run, call) = (text(body, "run"), text(body, "call"));
            format!("{} run {run} call {call}", text(body, "verdict"))
        }
        Some("propose" | "publish" | "activate") => {
            format!("{} {}", text(order, "kind"), text(body, "bundle"))
        }
        Some(_) | None => {
            format!("{} run {} call {}", text(order, "kind"), text(body, "run"), text(body, "call"))
        }
    };
    let (seq, at, who) = (text(order, "seq"), text(order, "at"), text(order, "subject"));
    say(format!("{seq}  {at}  {who}  {}  {}", what.trim(), text(order, "reason")).trim_end());
}

async fn fleet(args: &Fleet) -> Result<Exit, Exit> {
    let body = args.api.ask::<route::Fleet>(&(), &()).await?.body;
    if args.api.json {
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    for gate in list(&body, "gates") {
        say(format!(
            "{}  {}  {} ms ago  applied {}  runs {}  in flight {}  held {}  {}",
            text(gate, "origin"),
            text(gate, "standing"),
            text(gate, "age_ms"),
            text(gate, "obeyed"),
            text(gate, "runs"),
            text(gate, "in_flight"),
            text(gate, "held"),
            text(gate, "writer"),
        ));
    }
    for origin in list(&body, "never_seen") {
        let origin = visible(origin.as_str().unwrap_or_default());
        say(format!("{origin}  NEVER CONNECTED, and has open runs"));
    }
    Ok(Exit::Ok)
}
