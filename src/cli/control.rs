//! `wicketgate control`: stop and reinstate, and learn what was really stopped.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::approval::sign::{printed, signature};
use super::door::{Desk, list, text};
use super::{Exit, block_on, complain, say};
use crate::approval::order;
use crate::clock::{Clock as _, SystemClock};
use crate::control::Target;
use crate::domain::time::Timestamp;
use crate::operator::visible;

/// Stop agents, runs, tools, manifests and keys, and reinstate them.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the orders and who gave them
    List(List),
    /// Show the gates: which are there, what they run, which order they obeyed last
    Fleet(Fleet),
    /// Let no new call begin; what is at its tool may end
    Suspend(Switch),
    /// Let nothing begin and stop what is in flight; only `reinstate` undoes it
    Revoke(Switch),
    /// Take back `suspend` and `revoke`, signed with your SSH key
    Reinstate(Reinstate),
    /// Stop what is in flight and end its runs; new runs may be opened
    Kill(Switch),
}

#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    desk: Desk,
    /// Only orders above this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    since: u64,
    /// One order, and what every gate did about it
    #[arg(long, value_name = "NUMBER", conflicts_with = "since")]
    seq: Option<u64>,
}

#[derive(Debug, clap::Args)]
struct Fleet {
    #[command(flatten)]
    desk: Desk,
}

/// What an order is about.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wicketgate control kill agent refund-agent --reason \"loops\" --token-file otto.token\n  \
    wicketgate control suspend tool payments.refund --reason \"provider is down\" --token-file otto.token\n  \
    wicketgate control revoke all --reason \"incident 12\" --token-file otto.token\n\n\
    Ends with 0 when every gate has obeyed and nothing is left running, with 1 when something is left, a gate\n\
    was not reached or no gate knows the name (the order stands: a gate obeys as soon as it can), with 2 when nobody answered."
)]
struct Switch {
    /// `all`, `agent`, `run`, `tool`, `manifest` or `key`
    target: String,
    /// Its name: an agent's name, a run's or key's id, a tool's name, a manifest's `sha256:…`; nothing for `all`
    #[arg(default_value = "")]
    name: String,
    /// Why, for whoever reads it later
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// When it ends by itself, such as 2026-11-21T20:05:03.123Z
    #[arg(long, value_name = "INSTANT")]
    expires: Option<String>,
    #[command(flatten)]
    desk: Desk,
}

/// A stop that is taken back.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wicketgate control reinstate agent refund-agent --reason \"fixed\" --token-file otto.token\n  \
    wicketgate control reinstate all --reason \"over\" --statement --token-file otto.token > order\n  \
    ssh-keygen -Y sign -f ~/.ssh/id_ed25519 -n wicketgate-order order\n  \
    wicketgate control reinstate --order order --signature order.sig --token-file otto.token\n\n\
    Your key is in the signed list of approvers (`approvals.signers`) with `namespaces=\"wicketgate-order\"` and the\n\
    role `operator`. What is stopped after you signed stays stopped. Ends with 0 when every gate has obeyed."
)]
struct Reinstate {
    /// `all`, `agent`, `run`, `tool`, `manifest` or `key`
    #[arg(required_unless_present = "order")]
    target: Option<String>,
    /// Its name, as the order that stopped it has it; nothing for `all`
    #[arg(default_value = "")]
    name: String,
    /// Why, for whoever reads it later
    #[arg(long, value_name = "TEXT", required_unless_present = "order")]
    reason: Option<String>,
    /// Until when; then it is stopped again, such as 2026-11-21T20:05:03.123Z
    #[arg(long, value_name = "INSTANT")]
    expires: Option<String>,
    /// Your SSH key: a private key file, or `ssh-agent:<public key file>`; default ~/.ssh/id_ed25519
    #[arg(long, value_name = "KEY", conflicts_with = "signature")]
    key: Option<PathBuf>,
    /// Print only the bytes to sign: for `ssh-keygen -Y sign -n wicketgate-order`
    #[arg(long, conflicts_with_all = ["json", "key", "order"])]
    statement: bool,
    /// A file with bytes that were printed by `--statement` and signed elsewhere
    #[arg(long, value_name = "FILE", requires = "signature", conflicts_with_all = ["target", "reason", "expires"])]
    order: Option<PathBuf>,
    /// The signature over them
    #[arg(long, value_name = "FILE", requires = "order")]
    signature: Option<PathBuf>,
    #[command(flatten)]
    desk: Desk,
}

/// Runs it.
pub fn run(args: &Args) -> Exit {
    let work = async {
        match &args.command {
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
        complain(format!(
            "error: `{} {}` is nothing that can be stopped: see `wicketgate control {action} --help`",
            args.target, args.name
        ));
        return Err(Exit::Usage);
    }
    let mut body = json!({"action": action, "target": args.target, "name": args.name,
        "reason": args.reason});
    if let (Some(expires), Some(members)) = (&args.expires, body.as_object_mut()) {
        members.insert("expires".into(), expires.as_str().into());
    }
    args.desk.order("/v1/control", &body).await
}

async fn reinstate(args: &Reinstate) -> Result<Exit, Exit> {
    let statement = match &args.order {
        Some(file) => std::fs::read(file).map_err(|e| {
            complain(format!("error: `{}`: {e}", file.display()));
            Exit::Invalid
        })?,
        None => to_sign(args).await?.bytes(),
    };
    if args.statement {
        return Ok(printed(&statement));
    }
    let with = (args.key.as_deref(), args.signature.as_deref());
    let signature = signature(with, order::NAMESPACE, &statement).map_err(|why| {
        complain(format!("error: {why}"));
        Exit::Invalid
    })?;
    let statement = String::from_utf8_lossy(&statement).into_owned();
    let body = json!({"statement": statement, "signature": signature});
    args.desk.order("/v1/control/reinstate", &body).await
}

/// The statement that takes back what is asked for, after the newest order there is.
async fn to_sign(args: &Reinstate) -> Result<order::Statement, Exit> {
    let wrong = |why: &str| {
        complain(format!("error: {why}: see `wicketgate control reinstate --help`"));
        Exit::Usage
    };
    let target = args.target.as_deref().unwrap_or_default();
    if Target::parse(target, &args.name).is_none() {
        return Err(wrong(&format!("`{target} {}` is nothing that can be stopped", args.name)));
    }
    let expires = args.expires.as_deref().map(|text| {
        let later = "`--expires` is an instant such as 2026-11-21T20:05:03.123Z";
        Timestamp::parse(text).ok_or_else(|| wrong(later))
    });
    let expires = expires.transpose()?;
    let head = args.desk.speaks_after("/v1/control/head").await;
    let (tenant, previous) = head.map_err(|(exit, why)| {
        complain(format!("error: {why}"));
        exit
    })?;
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
pub(super) fn told(body: &Value) {
    let recorded = body.get("recorded").filter(|recorded| !recorded.is_null());
    let place = recorded.map_or_else(
        || "NOT CONFIRMED by the ledger".to_owned(),
        |recorded| {
            format!("recorded as entry {} of {}", text(recorded, "seq"), text(recorded, "origin"))
        },
    );
    say(format!("order {}: {place}", text(body, "seq")));
    for gate in list(body, "gates") {
        gate_told(gate);
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
        say(format!("NOTHING OF THIS NAME IS AT ANY GATE{near} The order stands."));
    }
    let (gates, silent) = (list(body, "gates").len(), list(body, "not_reached").len());
    if gates == 0 {
        say("NO GATE HAS OBEYED YET: the order stands, each gate obeys as soon as it reads it");
    } else if silent > 0 {
        say(format!("{gates} gates obeyed, {silent} NOT REACHED: what they run is not known"));
    }
    if body.get("left").and_then(Value::as_u64).is_some_and(|left| left > 0) {
        say(format!("STILL RUNNING: {} calls", text(body, "left")));
    }
}

fn gate_told(gate: &Value) {
    let (origin, done) = (text(gate, "origin"), gate.get("done").unwrap_or(&Value::Null));
    if done.get("error").is_some() {
        say(format!("  {origin}: DID NOT OBEY: {}", text(done, "error")));
        return;
    }
    if done.get("asked").is_some() {
        let (id, state) = (text(done, "asked"), text(done, "call"));
        let why = [text(done, "detail"), text(done, "message")].join(" ");
        let state = match state.as_str() {
            "held" => "held: somebody else has to approve it".to_owned(),
            "denied" => format!("DENIED {}", why.trim()),
            _ => "not decided yet".to_owned(),
        };
        say(format!("  {origin}: asked again as `{id}`, {state}"));
        return;
    }
    if let Some(counted) = done.get("counted").and_then(Value::as_bool) {
        let why = [text(done, "detail"), text(done, "message")].join(" ");
        let what = if counted { "the word counts" } else { "THE WORD DOES NOT COUNT" };
        let state = text(done, "call");
        let state = if state.is_empty() { state } else { format!("; the call is {state}") };
        say(format!("  {origin}: {what}{state} {}", why.trim()).trim_end());
        return;
    }
    say(format!(
        "  {origin}: {} calls stopped, {} runs ended, {} left running",
        text(done, "stopped_count"),
        text(done, "runs_sealed"),
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
    let path = match args.seq {
        Some(seq) => format!("/v1/control/{seq}"),
        None => format!("/v1/control?since={}", args.since),
    };
    let body = args.desk.ask(http::Method::GET, &path, None).await?.body;
    if args.desk.json {
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    if let Some(order) = body.get("order") {
        line(order);
        for gate in list(&body, "gates") {
            gate_told(gate);
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
        say(format!("more: --since {}", text(&body, "next")));
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
    let body = args.desk.ask(http::Method::GET, "/v1/fleet", None).await?.body;
    if args.desk.json {
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    for gate in list(&body, "gates") {
        say(format!(
            "{}  {}  {} ms ago  obeyed {}  runs {}  in flight {}  held {}  {}",
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
        say(format!("{origin}  NEVER SHOWED ITSELF, and has open runs"));
    }
    Ok(Exit::Ok)
}
