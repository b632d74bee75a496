//! `wicketgate control alert list`: what operators should look at, at a gate or a hub or in a ledger.

use serde_json::{Value, json};

use super::search::{self, Source};
use super::{Exit, say};
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::operator::api::alerts::AlertLine;
use crate::operator::api::requests::AlertSearch;
use crate::operator::visible;
use crate::record::alert::AlertSeverity;

/// The version of the Open Cybersecurity Schema Framework whose events are printed.
const OCSF_VERSION: &str = "1.3.0";
/// Its class Detection Finding.
const DETECTION_FINDING: u64 = 2004;
/// Its activity Create, which is every alert: a later one of the same kind is an alert of its own.
const CREATE: u64 = 1;

/// List alerts: attacks, secrets on their way out, agents that are denied again and again.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the alerts that match, newest first
    List(ListAlerts),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate control alert list --token-file vera.token\n  \
    wicketgate control alert list --severity critical --since 1d --token-file vera.token --json\n  \
    wicketgate control alert list --format ocsf --config wicketgate.yaml")]
struct ListAlerts {
    /// Run that the alerts are about
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Only alerts about this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only alerts about this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only this alert, such as `path_traversal`
    #[arg(long, value_name = "ALERT")]
    alert: Option<String>,
    /// Only this severity: low, medium, high or critical
    #[arg(long, value_name = "SEVERITY")]
    severity: Option<String>,
    /// Only alerts since this date, this time or this duration ago
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Most alerts to list; at most 200
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u16,
    /// Form of the lines: `text`, or `ocsf` for one Detection Finding (class 2004) each
    #[arg(long, value_name = "FORM", value_parser = ["text", "ocsf"], default_value = "text", conflicts_with = "json")]
    format: String,
    #[command(flatten)]
    source: Source,
}

/// Runs the command.
pub async fn run(args: &Args) -> Result<Exit, Exit> {
    let Command::List(args) = &args.command;
    list(args).await
}

async fn list(args: &ListAlerts) -> Result<Exit, Exit> {
    let lookup = args.source.open().await?;
    let wanted = AlertSearch {
        run: args.run.clone(),
        agent: args.agent.clone(),
        tool: args.tool.clone(),
        alert: args.alert.clone(),
        severity: args.severity.clone(),
        since: args.since.clone(),
        limit: Some(args.limit.into()),
    };
    let (body, found) = lookup.alerts(&wanted).await?;
    if args.source.json {
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    match args.format.as_str() {
        "ocsf" => found.alerts.iter().for_each(|one| say(ocsf(one).to_string())),
        _ => found.alerts.iter().for_each(|one| say(line(one))),
    }
    search::more((found.more, found.alerts.is_empty()));
    Ok(Exit::Ok)
}

/// An alert as one line.
fn line(one: &AlertLine) -> String {
    let AlertLine { at, severity, alert, agent, tool, run, call, count, .. } = one;
    let text = |of: &Option<String>| of.clone().unwrap_or_else(|| "-".to_owned());
    let (run, call, tool) = (text(run), text(call), text(tool));
    let times = many(*count, "time");
    visible(&format!("{at}  {severity}  {alert}  {agent}  {tool}  {run}  {call}  {times}"))
}

/// An alert as a Detection Finding. What OCSF has no member for stands in `unmapped`.
fn ocsf(one: &AlertLine) -> Value {
    let millis = |text: &str| Timestamp::parse(text).map(Timestamp::millis);
    let grade = match AlertSeverity::parse(&one.severity) {
        Some(AlertSeverity::Low) => 2,
        Some(AlertSeverity::Medium) => 3,
        Some(AlertSeverity::High) => 4,
        Some(AlertSeverity::Critical) => 5,
        // OCSF: the severity is not among its own.
        None => 99,
    };
    json!({
        "activity_id": CREATE,
        "activity_name": "Create",
        "category_name": "Findings",
        "category_uid": 2,
        "class_name": "Detection Finding",
        "class_uid": DETECTION_FINDING,
        "count": one.count,
        "finding_info": {
            "created_time": millis(&one.at),
            "first_seen_time": millis(&one.since),
            "last_seen_time": millis(&one.at),
            "title": one.title,
            "types": [one.alert],
            "uid": format!("{}/{}", one.chain, one.seq),
        },
        "message": one.title,
        "metadata": {
            "log_name": one.origin,
            "product": {"name": "Wicketgate", "vendor_name": "Wicketgate", "version": env!("CARGO_PKG_VERSION")},
            "version": OCSF_VERSION,
        },
        "severity": one.severity,
        "severity_id": grade,
        "status": "New",
        "status_id": 1,
        "time": millis(&one.at),
        "type_uid": DETECTION_FINDING * 100 + CREATE,
        "unmapped": {
            "agent": one.agent, "call": one.call, "cause": one.last, "run": one.run, "tool": one.tool,
        },
    })
}
