//! `wicketgate ledger verify | tail | head | migrate | anchor | recover | archive | prune | size | reindex`.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::argument::login;
use super::error::LookupError;
use super::progress::Progress;
use super::reader::{self, LedgerSource};
use super::{
    Cause, Exit, Failure, JsonArg, archive, key, ledger_verify, payload, print_facts, prune, say,
    say_json, size, wait, witness,
};
use crate::crypto::note::Checkpoint;
use crate::domain::plural::many;
use crate::ledger::postgres::Login;
use crate::ledger::store::{ChainRow, EntryRow, LedgerReader};
use crate::operator::visible;
use crate::record::approval::{ApprovalGranted, ApprovalRefused};
use crate::record::call::CallAuthorized;
use crate::record::chain::HealthChanged;
use crate::record::control::{Action, ControlApplied, ControlRefused, ControlSet};
use crate::record::payload::PayloadViewed;
use crate::record::{Draft, Entry};

/// Read, verify, archive and maintain ledgers, their keys and their payloads.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What to do with the ledger.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Verify every chain from its first entry against every rule of the format
    Verify(ledger_verify::Verify),
    /// Print the newest entries of every chain
    Tail(Tail),
    /// Print the signed head of every chain, as a line for a trust file
    Head(Head),
    /// Create or update the roles and the schema of a Postgres ledger
    Migrate(Migrate),
    /// Archive chains as tiles: static files that can be verified alone
    Archive(archive::Archive),
    /// Drop old entries that an archive holds, and record it
    Prune(prune::Prune),
    /// Show the size of the ledger, and how fast it grows
    Size(size::Size),
    Anchor(super::fleet::Anchor),
    Recover(super::recover::Recover),
    Reindex(super::reindex::Reindex),
    Key(key::Args),
    Payload(payload::Args),
    Witness(witness::Args),
}

/// `ledger tail`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate ledger tail --config wicketgate.yaml\n  \
    wicketgate ledger tail --sqlite state/ledger.sqlite --number 100 --json")]
struct Tail {
    #[command(flatten)]
    source: LedgerSource,
    /// Number of entries to print of each chain
    #[arg(short, long, value_name = "N", default_value_t = 10)]
    number: u32,
    /// Chain to print, by its origin; if omitted, every chain
    #[arg(long, value_name = "ORIGIN")]
    chain: Option<String>,
    /// Print the stored bytes of each entry, one JSON object a line
    #[arg(long)]
    json: bool,
}

/// `ledger head`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate ledger head --config wicketgate.yaml >> trust.txt")]
struct Head {
    #[command(flatten)]
    source: LedgerSource,
    /// Print one JSON object per chain, with the signed note
    #[arg(long)]
    json: bool,
}

/// `ledger migrate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate ledger migrate --admin-url-file admin.url --writer gate=default --reader auditor")]
struct Migrate {
    /// URL of a role that may create roles and schemas; prefer a file, which no process list shows
    #[arg(long, value_name = "URL", required_unless_present = "admin_url_file")]
    admin_url: Option<String>,
    /// File with that URL
    #[arg(long, value_name = "FILE", conflicts_with = "admin_url")]
    admin_url_file: Option<PathBuf>,
    /// A login that may write the chains of one tenant; set its password yourself
    #[arg(long, value_name = "ROLE=TENANT", value_parser = login)]
    writer: Vec<(String, String)>,
    /// A login for a hub: it may send orders to the gates of one tenant; set its password yourself
    #[arg(long, value_name = "ROLE=TENANT", value_parser = login)]
    operator: Vec<(String, String)>,
    /// A login that may read everything; set its password yourself
    #[arg(long, value_name = "ROLE")]
    reader: Vec<String>,
    /// A login that may read everything and erase payloads; set its password yourself
    #[arg(long, value_name = "ROLE")]
    eraser: Vec<String>,
    #[command(flatten)]
    json: JsonArg,
}

/// Runs the command.
pub fn run(args: &Args) -> Exit {
    wait(dispatch(&args.command))
}

async fn dispatch(command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Verify(command) => ledger_verify::run(command).await,
        Command::Tail(command) => tail(command).await,
        Command::Head(command) => head(command).await,
        Command::Migrate(command) => migrate(command).await,
        Command::Archive(command) => archive::run(command).await,
        Command::Prune(command) => prune::run(command).await,
        Command::Size(command) => size::run(command).await,
        Command::Anchor(command) => super::fleet::anchor(command).await,
        Command::Recover(command) => super::recover::recover(command).await,
        Command::Reindex(command) => super::reindex::run(command).await,
        Command::Key(command) => key::run(command).await,
        Command::Payload(command) => payload::run(command).await,
        Command::Witness(command) => witness::run(command).await,
    }
}

pub(super) fn unreadable(error: impl Into<Cause>) -> Failure {
    Failure::unverifiable(error)
}

pub(super) async fn chains(
    reader: &dyn LedgerReader,
    origin: Option<&str>,
) -> Result<Vec<ChainRow>, Failure> {
    let mut rows = reader.chains().await?;
    rows.retain(|row| origin.is_none_or(|origin| row.origin == origin));
    match origin {
        Some(origin) if rows.is_empty() => {
            Err(Failure::usage(LookupError::Chain(origin.to_owned())))
        }
        Some(_) | None => Ok(rows),
    }
}

async fn tail(command: &Tail) -> Result<Exit, Failure> {
    let reader = reader::open_reader(&command.source).await?;
    for row in chains(reader.as_ref(), command.chain.as_deref()).await? {
        let from = row.head.size.saturating_sub(u64::from(command.number));
        let rows = reader.entries(&row.chain, from, command.number).await?;
        if !command.json {
            say(format!("{} ({})", row.origin, many(row.head.size, "entry")));
        }
        for entry in &rows {
            if command.json {
                say(String::from_utf8_lossy(&entry.body));
            } else {
                say(line(entry));
            }
        }
    }
    Ok(Exit::Ok)
}

fn line(row: &EntryRow) -> String {
    let Ok(entry) = Entry::parse(&row.body) else {
        return format!("{:>8} unreadable: see `wicketgate ledger verify`", row.seq);
    };
    let draft = &entry.draft;
    let mut line = format!("{:>8} {} {}", entry.seq, entry.ts, draft.kind().as_str());
    let parts = [
        entry.run.as_ref().map(|link| format!("run {} #{}", link.run, link.seq)),
        draft.call.as_ref().map(|call| format!("call {call}")),
        draft.tool.as_ref().map(|tool| tool.to_string()),
        draft.verdict.map(|verdict| verdict.as_str().to_owned()),
        draft.rule.as_ref().map(|rule| format!("by {}", visible(rule))),
        remark(draft),
    ];
    for part in parts.into_iter().flatten() {
        line.push(' ');
        line.push_str(&part);
    }
    line
}

/// What a verdict or a kind alone would not say: that a denial did not stop the call, who approved
/// it.
fn remark(draft: &Draft) -> Option<String> {
    if draft.get::<CallAuthorized>().is_some_and(|call| !call.enforced) {
        return Some("(not enforced: IT RAN)".to_owned());
    }
    if let Some(grant) = draft.get::<ApprovalGranted>() {
        return Some(said("approve", &grant.subject, grant.origin.as_deref()));
    }
    if let Some(refusal) = draft.get::<ApprovalRefused>() {
        return Some(said("refuse", &refusal.subject, refusal.origin.as_deref()));
    }
    if let Some(health) = draft.get::<HealthChanged>() {
        let reasons: Vec<String> = health.reasons.iter().map(|reason| visible(reason)).collect();
        let why = || format!("NOT READY: {}", reasons.join("; "));
        return Some(if health.ready { "ready".into() } else { why() });
    }
    if let Some(refused) = draft.get::<ControlRefused>() {
        return Some(format!("REFUSED: {}", visible(&refused.message)));
    }
    if let Some(set) = draft.get::<ControlSet>() {
        // The reason of a note is its text.
        let note = set.action == Action::Note;
        let order = [set.action.as_str(), set.target.as_str(), &set.name];
        let what = if note { vec![&*set.reason] } else { order.to_vec() };
        return Some(order_text(&what, Some(&set.subject)));
    }
    if let Some(viewed) = draft.get::<PayloadViewed>() {
        let (run, call) = (&viewed.run, &viewed.call);
        return Some(format!("run {run} call {call} shown to {}", visible(&viewed.by)));
    }
    if let Some(applied) = draft.get::<ControlApplied>() {
        if let Some(standing) = &applied.standing {
            return Some(format!("{} in force", many(standing.len(), "stop")));
        }
        let order = [applied.action.as_str(), applied.target.as_str(), &applied.name];
        return Some(order_text(&order, applied.subject.as_deref()));
    }
    let decision = draft.body.decision()?;
    if let Some(of) = decision.gate_of {
        return Some(format!("(by the gate, about call {of})"));
    }
    Some(format!("(arguments by {})", visible(&decision.asked_by?.subject)))
}

/// An approver's verdict, and where a passkey signed it.
fn said(verdict: &str, subject: &str, origin: Option<&str>) -> String {
    let at = origin.map(|at| format!(" (passkey, signed at {})", visible(at)));
    format!("{verdict} by {}{}, counted", visible(subject), at.unwrap_or_default())
}

/// An order and the operator who gave it, as text.
fn order_text(what: &[&str], by: Option<&str>) -> String {
    let by = by.map(|by| format!("by {}", visible(by)));
    let parts = what.iter().map(|part| visible(part)).chain(by).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" ")
}

async fn head(command: &Head) -> Result<Exit, Failure> {
    let reader = reader::open_reader(&command.source).await?;
    for row in chains(reader.as_ref(), None).await? {
        if command.json {
            say_json(
                json!({"origin": row.origin, "chain": row.chain, "slot": row.slot, "epoch": row.epoch,
                "size": row.head.size, "checkpoint": row.head.checkpoint}),
            );
        } else if let Ok((checkpoint, _)) = Checkpoint::parse(&row.head.checkpoint) {
            say(format!("head {} {} {}", checkpoint.origin, checkpoint.size, checkpoint.root));
        } else {
            say(format!("# {}: empty", row.origin));
        }
    }
    Ok(Exit::Ok)
}

async fn migrate(command: &Migrate) -> Result<Exit, Failure> {
    let url = match (&command.admin_url, &command.admin_url_file) {
        (Some(url), _) => url.clone(),
        (None, Some(path)) => reader::url(path).map_err(Failure::usage)?,
        (None, None) => return Err(Failure::usage("name the database: `--admin-url`")),
    };
    let mut logins = Vec::new();
    for (name, tenant) in &command.writer {
        let (name, tenant) = (name.clone(), tenant.clone());
        logins.push(Login::Writer { name, password: None, tenant });
    }
    for (name, tenant) in &command.operator {
        let (name, tenant) = (name.clone(), tenant.clone());
        logins.push(Login::Operator { name, password: None, tenant });
    }
    for name in &command.reader {
        logins.push(Login::Reader { name: name.clone(), password: None, tenant: None });
    }
    for name in &command.eraser {
        logins.push(Login::Eraser { name: name.clone(), password: None });
    }
    let migrated = crate::ledger::postgres::migrate(&url, &logins);
    let done = Progress::new("migrate").during(migrated).await.map_err(unreadable)?;
    let line = format!("the ledger schema is at version {} (was {})", done.to, done.from);
    print_facts(json!({"version": done.to, "was": done.from, "quiet": done.quiet}), line);
    if !done.quiet {
        print_facts(
            Value::Null,
            "the server may log failing statements with their values: only a superuser can stop that",
        );
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(subcommand)]
        command: Command,
    }

    #[test]
    fn every_command_says_which_ledger_it_reads() {
        for command in ["verify", "tail", "head"] {
            assert!(Line::try_parse_from(["ledger", command, "--sqlite", "l.db"]).is_ok());
            assert!(Line::try_parse_from(["ledger", command]).is_err());
        }
        assert!(Line::try_parse_from(["ledger", "migrate"]).is_err());
        assert!(
            Line::try_parse_from(["ledger", "migrate", "--admin-url", "postgres://h/d"]).is_ok()
        );
    }
}
