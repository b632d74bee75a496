//! `wicketgate control`: stop and reinstate, with each gate's answer.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::PathBuf;

use serde::Deserialize;

use super::api::{Answer, Api};
use super::report::{self, ReportedAction};
use super::{
    Exit, Failure, alert, block_on, break_glass, fail, finding, health, injector, say, sign, switch,
};
use crate::approval::order::{OrderKind, OrderStatement};
use crate::clock::{Clock as _, SystemClock};
use crate::control::Target;
use crate::domain::id::RunId;
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::operator::api::replies::{GateReport, OrderReply, OrderRow, Outcome};
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
    List(ListOrders),
    /// List the gates, their load, and the newest order that each has applied
    Fleet(FleetRows),
    /// Let no new call begin; running calls may finish
    Suspend(Switch),
    /// Let no new call begin, and stop running calls; only `reinstate` undoes it
    Revoke(Switch),
    /// Undo `suspend` or `revoke`, signed with your SSH key
    Reinstate(Reinstate),
    /// Stop running calls and end their runs; new runs may be opened
    Kill(Switch),
    /// Take the labels of a run away: what it has read does not count any more
    ClearTaint(ClearTaint),
    Switch(switch::Args),
    Finding(finding::Args),
    BreakGlass(break_glass::Args),
    Alert(alert::Args),
    Health(health::Args),
    Injector(injector::Args),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate control list --token-file otto.token\n  \
    wicketgate control list --seq 12 --token-file otto.token")]
struct ListOrders {
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
struct FleetRows {
    #[command(flatten)]
    api: Api,
}

/// What an order is about.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate control kill agent refund-agent --reason \"loops\" --token-file otto.token\n  \
        wicketgate control suspend tool payments.refund --reason \"provider is down\" --token-file otto.token\n  \
        wicketgate control revoke all --reason \"incident 12\" --token-file otto.token\n\n\
        Exits with 0 when every gate applied the order and no affected call is still running. Exits with 1 when such a call\n\
        is still running, a gate was not reached, or no gate knows the name: the order stays in force, and each gate\n\
        applies it as soon as it can. Exits with 2 when there was no answer.")]
pub(super) struct Switch {
    /// `all`, `agent`, `run`, `tool`, `manifest`, `key`, `face`, `kind`, `server` or `upstream`
    pub(super) target: String,
    /// Which target: the name of an agent, a tool, a face, a kind, a server or an upstream, the ID of a run or a key, or the `sha256:…` digest of a
    /// manifest; omit it for `all`
    #[arg(default_value = "")]
    pub(super) name: String,
    /// Why; it is recorded in the ledger
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Time at which the order ends by itself, such as 2026-11-21T20:05:03.123Z
    #[arg(long, value_name = "INSTANT")]
    expires: Option<String>,
    #[command(flatten)]
    api: Api,
}

/// A run whose labels are taken away.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate control clear-taint 0192a000-0000-7000-8000-000000000001 --reason \"read by Otto\" --token-file otto.token\n\n\
        The run may then send what it has read as if it had not read it. Exits with 0 when the gate with the run applied it.")]
struct ClearTaint {
    /// ID of the run
    #[arg(value_parser = super::evidence::run_id)]
    run: RunId,
    /// Why; it is recorded in the ledger
    #[arg(long, value_name = "TEXT")]
    reason: String,
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
        Your key must be in the signed list of approvers (`approvals.signers`) with `namespaces=\"wicketgate-order\"` and the\n\
        role `operator`. A stop that was sent after you signed stays in force. Exits with 0 when every gate applied it.")]
pub(super) struct Reinstate {
    /// `all`, `agent`, `run`, `tool`, `manifest`, `key`, `face`, `kind`, `server` or `upstream`
    #[arg(required_unless_present = "order")]
    pub(super) target: Option<String>,
    /// Which target, as in the order that stopped it; omit it for `all`
    #[arg(default_value = "")]
    pub(super) name: String,
    /// Why; it is recorded in the ledger
    #[arg(long, value_name = "TEXT", required_unless_present = "order")]
    reason: Option<String>,
    /// Time at which the order ends by itself and the target is stopped again, such as 2026-11-21T20:05:03.123Z
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
            Command::Alert(args) => alert::run(args).await,
            Command::Health(args) => Ok(health::run(args).await),
            Command::Injector(args) => injector::run(args).await.map_err(Failure::print),
            Command::List(args) => orders(args).await,
            Command::Fleet(args) => fleet(args).await,
            Command::Suspend(args) => switch("suspend", args).await,
            Command::Revoke(args) => switch("revoke", args).await,
            Command::Reinstate(args) => reinstate(args).await,
            Command::Kill(args) => switch("kill", args).await,
            Command::ClearTaint(args) => {
                let path = requests::RunPath { run: args.run.to_string() };
                let clearing = requests::TaintClearing { reason: args.reason.clone() };
                args.api.order::<route::TaintClearing>(&path, &clearing).await
            }
            Command::Switch(args) => switch::run(args).await,
            Command::Finding(args) => finding::run(args).await,
        }
    };
    block_on(work).and_then(|done| done).unwrap_or_else(|exit| exit)
}

pub(super) async fn switch(action: &str, args: &Switch) -> Result<Exit, Exit> {
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
    #[error(
        "unknown target `{0}`; use `all`, or agent, run, tool, manifest, key, face, kind, server or upstream with a name"
    )]
    Target(String),
    /// Its end.
    #[error("`--expires` needs a time such as 2026-11-21T20:05:03.123Z")]
    Expires,
}

pub(super) async fn reinstate(args: &Reinstate) -> Result<Exit, Exit> {
    let signing = sign::OrderSigning {
        with: (args.key.as_deref(), args.signature.as_deref()),
        order: args.order.as_deref(),
        prints: args.statement,
    };
    let signed = sign::order(signing, to_sign(args)).await?;
    args.api.order::<route::Reinstatement>(&(), &signed).await
}

/// The statement that reinstates the target, after the newest order on the list.
async fn to_sign(args: &Reinstate) -> Result<OrderStatement, Exit> {
    let fail_with = |error: Error| fail(Exit::Usage, error);
    let target = args.target.as_deref().unwrap_or_default();
    if Target::parse(target, &args.name).is_none() {
        return Err(fail_with(Error::Target(target.to_owned())));
    }
    let expires = args
        .expires
        .as_deref()
        .map(|text| Timestamp::parse(text).ok_or_else(|| fail_with(Error::Expires)));
    let expires = expires.transpose()?;
    let head = args.api.newest::<route::NewestOrder>().await;
    let (tenant, previous) = head.map_err(Failure::print)?;
    Ok(OrderStatement {
        tenant,
        order: OrderKind::Reinstate,
        target: target.to_owned(),
        name: args.name.clone(),
        finding: None,
        role: None,
        payloads: BTreeSet::new(),
        request: None,
        reason: args.reason.clone().unwrap_or_default(),
        at: SystemClock::new().now(),
        expires,
        previous,
    })
}

/// The outcome of an order, for a person.
pub(super) fn print_order(OrderReply { recorded, outcome }: &OrderReply) {
    let recorded_at = recorded.as_ref().map_or_else(
        || "NOT CONFIRMED by the ledger".to_owned(),
        |recorded_at| {
            format!("recorded as entry {} of {}", recorded_at.seq, visible(&recorded_at.origin))
        },
    );
    say(format!("order {}: {recorded_at}", outcome.seq));
    let Outcome { gates, not_reached, left, .. } = outcome;
    report::print_each(gates, print_gate);
    report::print_silent(not_reached);
    print_unknown(gates);
    let silent = not_reached.len();
    if gates.is_empty() {
        say(
            "NO GATE HAS APPLIED IT YET: the order stays in force, and each gate applies it as soon as it reads it",
        );
    } else if silent > 0 {
        let applied = many(gates.len(), "gate");
        say(format!(
            "{applied} applied it, {silent} NOT REACHED: the state of their calls is unknown"
        ));
    }
    if *left > 0 {
        say(format!("STILL RUNNING: {}", many(left, "call")));
    }
}

/// Says so if no gate knows the name that an order is about.
fn print_unknown(gates: &[GateReport]) {
    let reports: Vec<ReportedAction> = gates.iter().filter_map(ReportedAction::of).collect();
    let unknown = reports.iter().filter(|done| done.known == Some(false)).count();
    if gates.is_empty() || unknown < gates.len() {
        return;
    }
    let near = reports.iter().flat_map(|done| &done.near);
    let near: BTreeSet<String> = near.map(|name| format!("`{}`", visible(name))).collect();
    let near: Vec<String> = near.into_iter().collect();
    let near = match near.is_empty() {
        true => String::new(),
        false => format!("; did you mean {}?", near.join(" or ")),
    };
    say(format!("NO GATE KNOWS THIS NAME{near} The order stays in force."));
}

fn print_gate(origin: &str, done: &ReportedAction) {
    let why = done.why();
    if let Some(error) = &done.error {
        say(format!("  {origin}: NOT APPLIED: {}", visible(error)));
        return;
    }
    if let Some(id) = &done.asked {
        let state = match done.call.as_str() {
            "held" => "held: another approver has to decide".to_owned(),
            "denied" => format!("DENIED {why}"),
            _ => "not decided yet".to_owned(),
        };
        say(format!("  {origin}: proposed as call `{}`, {state}", visible(id)));
        return;
    }
    if let Some(counted) = done.counted {
        let state = match done.call.as_str() {
            "" => String::new(),
            "awaited" => "; the request is judged when its agent sends it again".to_owned(),
            state => format!("; the call is {}", visible(state)),
        };
        let what = match (counted, why.as_str()) {
            (true, "") => "counted".to_owned(),
            (true, why) => format!("counted: {why}"),
            (false, why) => format!("NOT COUNTED: {why}"),
        };
        say(format!("  {origin}: {what}{state}"));
        return;
    }
    let ReportedAction { stopped_count, stopped, runs_sealed, left, .. } = done;
    let (calls, runs) = (many(stopped_count, "call"), many(runs_sealed, "run"));
    say(format!("  {origin}: {calls} stopped, {runs} ended, {left} left running"));
    for report::Stopped { run, call, how } in stopped {
        let (run, call, how) = (visible(run), visible(call), visible(how));
        say(format!("    run {run} call {call}: {how}"));
    }
}

async fn orders(args: &ListOrders) -> Result<Exit, Exit> {
    if let Some(seq) = args.seq {
        let path = requests::OrderPath { seq };
        let Answer { body, reply } = args.api.ask::<route::OrderDetail>(&path, &()).await?;
        if args.api.json {
            say(body.to_string());
        } else {
            line(&reply.order);
            report::print_each(&reply.outcome.gates, print_gate);
            report::print_silent(&reply.outcome.not_reached);
        }
        return Ok(Exit::Ok);
    }
    let above = requests::OrdersAfter { since: args.after };
    let Answer { body, reply } = args.api.ask::<route::Orders>(&(), &above).await?;
    if args.api.json {
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    reply.orders.iter().for_each(line);
    if reply.more {
        say(format!("more: --after {}", reply.next));
    }
    Ok(Exit::Ok)
}

/// What an order is about. Members that orders of its kind do not have are empty.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OrderBody {
    action: String,
    target: String,
    name: String,
    nonce: String,
    run: String,
    call: String,
    verdict: String,
    bundle: String,
    order: u64,
}

fn line(order: &OrderRow) {
    let body = OrderBody::deserialize(&order.body).unwrap_or_default();
    let OrderBody { action, target, name, nonce, run, call, verdict, bundle, order: ended } = body;
    let kind = order.kind.as_str();
    let what = match kind {
        "switch" | "loosen" => format!("{action} {target} {name}"),
        "break_glass" | "break_glass_close" | "break_glass_review" => format!("{kind} {nonce}"),
        "exception_end" => format!("disallow order {ended}"),
        "approval" => format!("{verdict} run {run} call {call}"),
        "propose" | "publish" | "activate" => format!("{kind} {bundle}"),
        _ => format!("{kind} run {run} call {call}"),
    };
    let OrderRow { seq, at, subject, reason, .. } = order;
    let line = format!("{seq}  {at}  {subject}  {}  {reason}", what.trim());
    say(visible(line.trim_end()));
}

async fn fleet(args: &FleetRows) -> Result<Exit, Exit> {
    let Answer { body, reply } = args.api.ask::<route::Fleet>(&(), &()).await?;
    if args.api.json {
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    let count = |count: Option<usize>| count.map(|n| n.to_string()).unwrap_or_default();
    for gate in &reply.gates {
        let (runs, held, in_flight) = (count(gate.runs), count(gate.held), count(gate.in_flight));
        let line = format!(
            "{}  {}  {} ms ago  applied {}  runs {runs}  in flight {in_flight}  held {held}  {}",
            gate.origin, gate.standing, gate.age_ms, gate.obeyed, gate.writer
        );
        say(visible(&line));
    }
    for origin in &reply.never_seen {
        say(format!("{}  NEVER CONNECTED, but has open runs", visible(origin)));
    }
    Ok(Exit::Ok)
}
