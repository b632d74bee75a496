//! `wicketgate ledger verify | tail | head | migrate | anchor | recover`.

use std::path::PathBuf;

use super::reader::{self, Source};
use super::{Exit, block_on, complain, say};
use crate::crypto::note::Checkpoint;
use crate::domain::canonical;
use crate::domain::json::Json;
use crate::evidence::trust::{PinnedHead, Trust, Use};
use crate::ledger::entry::Entry;
use crate::ledger::postgres::Login;
use crate::ledger::store::{ChainRow, EntryRow, LedgerReader};
use crate::ledger::verify::announced::Announced;
use crate::ledger::verify::epochs::Revoked;
use crate::ledger::verify::{self, Report, Roots};

const INVALID: u8 = 1;
const UNVERIFIABLE: u8 = 2;
const USAGE: u8 = 64;
const FENCED: u8 = 75;
const CONFIG: u8 = 78;
/// Entries between two lines of progress.
const PROGRESS: u64 = 50_000;

/// Read, verify and set up ledgers.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What to do with the ledger.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Read every chain from its genesis and check every rule of the format
    Verify(Verify),
    /// Print the newest entries of every chain
    Tail(Tail),
    /// Print the signed head of every chain, as a line for a trust file
    Head(Head),
    /// Make or update roles and schema of a Postgres ledger
    Migrate(Migrate),
    Anchor(super::fleet::Anchor),
    Recover(super::recover::Recover),
}

/// `ledger verify`.
#[derive(Debug, clap::Args)]
struct Verify {
    #[command(flatten)]
    source: Source,
    /// Trust roots: enrolment keys, heads you noted
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// Only the chain of this origin
    #[arg(long, value_name = "ORIGIN")]
    chain: Option<String>,
    /// Print one JSON report per chain
    #[arg(long)]
    json: bool,
}

/// `ledger tail`.
#[derive(Debug, clap::Args)]
struct Tail {
    #[command(flatten)]
    source: Source,
    /// Entries of each chain
    #[arg(short, long, value_name = "N", default_value_t = 10)]
    number: u32,
    /// Only the chain of this origin
    #[arg(long, value_name = "ORIGIN")]
    chain: Option<String>,
    /// Print the exact stored bytes, one entry a line
    #[arg(long)]
    json: bool,
}

/// `ledger head`.
#[derive(Debug, clap::Args)]
struct Head {
    #[command(flatten)]
    source: Source,
    /// Print one JSON object per chain, with the signed note
    #[arg(long)]
    json: bool,
}

/// `ledger migrate`.
#[derive(Debug, clap::Args)]
struct Migrate {
    /// URL of a role that may make roles and schemas; a file keeps it out of process lists
    #[arg(long, value_name = "URL", required_unless_present = "admin_url_file")]
    admin_url: Option<String>,
    /// File that holds the URL
    #[arg(long, value_name = "FILE", conflicts_with = "admin_url")]
    admin_url_file: Option<PathBuf>,
    /// A login that may write the chains of one tenant; set its password yourself
    #[arg(long, value_name = "ROLE=TENANT", value_parser = writer_login)]
    writer: Vec<(String, String)>,
    /// A login that may read everything; set its password yourself
    #[arg(long, value_name = "ROLE")]
    reader: Vec<String>,
    /// A login that may read everything and erase payloads; set its password yourself
    #[arg(long, value_name = "ROLE")]
    eraser: Vec<String>,
}

type Failure = (u8, String);

/// Runs the command.
pub fn run(args: &Args) -> Exit {
    match block_on(dispatch(&args.command)) {
        Ok(Ok(code)) => exit(code),
        Ok(Err((code, why))) => {
            complain(format!("error: {why}"));
            exit(code)
        }
        Err(exit) => exit,
    }
}

async fn dispatch(command: &Command) -> Result<u8, Failure> {
    match command {
        Command::Verify(command) => check(command).await,
        Command::Tail(command) => tail(command).await,
        Command::Head(command) => head(command).await,
        Command::Migrate(command) => migrate(command).await,
        Command::Anchor(command) => super::fleet::anchor(command).await,
        Command::Recover(command) => super::recover::recover(command).await,
    }
}

const fn exit(code: u8) -> Exit {
    match code {
        0 => Exit::Ok,
        INVALID => Exit::Invalid,
        USAGE => Exit::Usage,
        FENCED => Exit::Fenced,
        CONFIG => Exit::Config,
        _ => Exit::Unverifiable,
    }
}

fn unreadable(error: impl std::fmt::Display) -> Failure {
    (UNVERIFIABLE, error.to_string())
}

async fn chains(reader: &dyn LedgerReader, origin: Option<&str>) -> Result<Vec<ChainRow>, Failure> {
    let mut rows = reader.chains().await.map_err(unreadable)?;
    rows.retain(|row| origin.is_none_or(|origin| row.origin == origin));
    match origin {
        Some(origin) if rows.is_empty() => Err((USAGE, format!("no chain `{origin}`"))),
        Some(_) | None => Ok(rows),
    }
}

async fn check(command: &Verify) -> Result<u8, Failure> {
    let trust = match &command.trust {
        Some(path) => Trust::load(path).map_err(|e| (USAGE, e.to_string()))?,
        None => Trust::default(),
    };
    let reader = reader::open_reader(&command.source).await.map_err(unreadable)?;
    let mut worst = 0;
    let rows = chains(reader.as_ref(), command.chain.as_deref()).await?;
    if rows.is_empty() {
        complain("the ledger has no chain");
        worst = UNVERIFIABLE;
    }
    let roots = announced(reader.as_ref(), &trust).await?;
    for row in rows {
        let (report, pins) = one(reader.as_ref(), &row, &trust, &roots).await?;
        let code = code(&report, pins.as_ref());
        if command.json {
            say(canonical::text(&told(&report, pins.as_ref(), code)));
        } else {
            print_report(&report, pins.as_ref(), code);
            if let Some(loss) = loss(reader.as_ref(), &row).await? {
                say(format!("  {loss}"));
            }
        }
        // Invalid is worse than unverifiable, which is worse than fine.
        worst = if code == INVALID || worst == INVALID { INVALID } else { worst.max(code) };
    }
    if let Some(missing) = gone(&trust, reader.as_ref(), command.chain.as_deref()).await? {
        complain(format!("error: the log `{missing}` is pinned and is not in this ledger"));
        worst = INVALID;
    }
    Ok(worst)
}

/// What the chain says was lost before it, if it goes on with another.
async fn loss(reader: &dyn LedgerReader, row: &ChainRow) -> Result<Option<String>, Failure> {
    let genesis = reader.entries(&row.chain, 0, 1).await.map_err(unreadable)?;
    let genesis = genesis.first().and_then(|row| Entry::parse(&row.body).ok());
    Ok(genesis.as_ref().and_then(super::recover::told))
}

/// The enrolment keys that count: those of the trust file, with what the fleet logs say of them.
async fn announced(reader: &dyn LedgerReader, trust: &Trust) -> Result<Announced, Failure> {
    let about = trust.revoked.iter().filter(|revoked| revoked.purpose == Use::Enrolment);
    let revoked = about.map(|one| Revoked { key: one.key.clone(), good: one.good.clone() });
    let mut roots = Announced { trusted: trust.enrolment.clone(), revoked: revoked.collect() };
    for row in chains(reader, None).await?.iter().filter(|row| verify::fleet::is_fleet(row)) {
        roots.take(reader, row).await.map_err(unreadable)?;
    }
    Ok(roots)
}

/// What the pinned heads of a chain showed, if there are any.
type Pins = Option<String>;

/// Reads one chain, and holds it to the heads that were pinned.
async fn one(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    trust: &Trust,
    roots: &Announced,
) -> Result<(Report, Pins), Failure> {
    let said = std::sync::atomic::AtomicU64::new(0);
    let total = row.head.size;
    let progress = |done: u64| {
        let last = said.load(std::sync::atomic::Ordering::Relaxed);
        if done.saturating_sub(last) >= PROGRESS {
            said.store(done, std::sync::atomic::Ordering::Relaxed);
            complain(format!("{}: {done} of {total} entries", row.origin));
        }
    };
    let roots = Roots { trusted: &roots.trusted, revoked: &roots.revoked };
    let report = verify::chain_from(reader, row, roots, 0, &progress).await.map_err(unreadable)?;
    let mut pins = None;
    for pin in trust.heads.iter().filter(|pin| pin.origin == row.origin) {
        if report.damage.is_none() && !extends(reader, row, pin).await? {
            pins = Some(format!("the log does not extend the pinned head of size {}", pin.size));
        }
    }
    Ok((report, pins))
}

/// Whether the first `pin.size` stored leaf hashes have the pinned root. The hashes were checked against
/// the bytes just before.
async fn extends(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    pin: &PinnedHead,
) -> Result<bool, Failure> {
    if pin.size > row.head.size {
        return Ok(false);
    }
    let leaves = reader.leaf_hashes(&row.chain, pin.size).await.map_err(unreadable)?;
    let whole = u64::try_from(leaves.len()).ok() == Some(pin.size);
    Ok(whole && crate::crypto::merkle::root(&leaves) == pin.root)
}

/// A pinned log that is no longer there at all.
async fn gone(
    trust: &Trust,
    reader: &dyn LedgerReader,
    only: Option<&str>,
) -> Result<Option<String>, Failure> {
    if only.is_some() {
        return Ok(None);
    }
    let rows = chains(reader, None).await?;
    let lost = trust.heads.iter().find(|pin| rows.iter().all(|row| row.origin != pin.origin));
    Ok(lost.map(|pin| pin.origin.clone()))
}

fn code(report: &Report, pins: Option<&String>) -> u8 {
    if !report.whole() || pins.is_some() {
        return INVALID;
    }
    let understood = report.unknown.is_empty() && report.enrolled.is_some();
    if understood { 0 } else { UNVERIFIABLE }
}

const fn word(code: u8) -> &'static str {
    match code {
        0 => "VALID",
        INVALID => "INVALID",
        _ => "UNVERIFIABLE",
    }
}

fn print_report(report: &Report, pins: Option<&String>, code: u8) {
    say(format!(
        "{} {}: {} entries, {} runs sealed, {} open, root {}",
        word(code),
        report.chain.origin,
        report.entries,
        report.sealed,
        report.open,
        report.root
    ));
    if let Some((seq, damage)) = &report.damage {
        say(format!("  seq {seq}: {damage}"));
    }
    match report.enrolled {
        Some(true) => {}
        Some(false) => say("  its enrolment key is not trusted"),
        None => say("  its enrolment key was not checked: no `--trust`"),
    }
    if let Some(why) = pins {
        say(format!("  {why}"));
    }
    for (kind, count) in &report.unknown {
        say(format!(
            "  {count} entries of kind `{kind}`: their meaning is not known to this version"
        ));
    }
}

fn told(report: &Report, pins: Option<&String>, code: u8) -> Json {
    let number = |n: usize| Json::from(u64::try_from(n).unwrap_or(u64::MAX));
    let mut members = vec![
        ("outcome", Json::from(word(code))),
        ("origin", Json::from(report.chain.origin.as_str())),
        ("chain", Json::from(report.chain.chain.to_string())),
        ("entries", Json::from(report.entries)),
        ("root", Json::from(report.root.hex())),
        ("runs_sealed", number(report.sealed)),
        ("runs_open", number(report.open)),
        ("calls_open", number(report.open_calls)),
        (
            "unknown_kinds",
            Json::object(report.unknown.iter().map(|(k, n)| (k.clone(), Json::from(*n)))),
        ),
    ];
    members.extend(report.enrolled.map(|enrolled| ("enrolled", Json::from(enrolled))));
    members.extend(pins.map(|why| ("pins", Json::from(why.as_str()))));
    members.extend(report.damage.as_ref().map(|(seq, damage)| {
        let damage = Json::object([
            ("seq", Json::from(*seq)),
            ("check", Json::from(damage.check)),
            ("why", Json::from(damage.why.as_str())),
        ]);
        ("damage", damage)
    }));
    Json::object(members)
}

async fn tail(command: &Tail) -> Result<u8, Failure> {
    let reader = reader::open_reader(&command.source).await.map_err(unreadable)?;
    for row in chains(reader.as_ref(), command.chain.as_deref()).await? {
        let from = row.head.size.saturating_sub(u64::from(command.number));
        let rows = reader.entries(&row.chain, from, command.number).await.map_err(unreadable)?;
        if !command.json {
            say(format!("{} ({} entries)", row.origin, row.head.size));
        }
        for entry in &rows {
            if command.json {
                say(String::from_utf8_lossy(&entry.body));
            } else {
                say(line(entry));
            }
        }
    }
    Ok(0)
}

fn line(row: &EntryRow) -> String {
    let Ok(entry) = Entry::parse(&row.body) else {
        return format!("{:>8} unreadable: see `wicketgate ledger verify`", row.seq);
    };
    let draft = &entry.draft;
    let mut line = format!("{:>8} {} {}", entry.seq, entry.ts, draft.kind.as_str());
    let parts = [
        entry.run.as_ref().map(|link| format!("run {} #{}", link.run, link.seq)),
        draft.call.as_ref().map(|call| format!("call {call}")),
        draft.tool.as_ref().map(|tool| tool.to_string()),
        draft.verdict.map(|verdict| verdict.as_str().to_owned()),
    ];
    for part in parts.into_iter().flatten() {
        line.push(' ');
        line.push_str(&part);
    }
    line
}

async fn head(command: &Head) -> Result<u8, Failure> {
    let reader = reader::open_reader(&command.source).await.map_err(unreadable)?;
    for row in chains(reader.as_ref(), None).await? {
        if command.json {
            let told = Json::object([
                ("origin", Json::from(row.origin.as_str())),
                ("chain", Json::from(row.chain.to_string())),
                ("slot", Json::from(row.slot.as_str())),
                ("epoch", Json::from(row.epoch)),
                ("size", Json::from(row.head.size)),
                ("checkpoint", Json::from(row.head.checkpoint.as_str())),
            ]);
            say(canonical::text(&told));
        } else if let Ok((checkpoint, _)) = Checkpoint::parse(&row.head.checkpoint) {
            say(format!("head {} {} {}", checkpoint.origin, checkpoint.size, checkpoint.root));
        } else {
            say(format!("# {}: empty", row.origin));
        }
    }
    Ok(0)
}

async fn migrate(command: &Migrate) -> Result<u8, Failure> {
    let usage = |why: String| (USAGE, why);
    let url = match (&command.admin_url, &command.admin_url_file) {
        (Some(url), _) => url.clone(),
        (None, Some(path)) => reader::url(path).map_err(|e| usage(e.to_string()))?,
        (None, None) => return Err(usage("name the database: `--admin-url`".into())),
    };
    let mut logins = Vec::new();
    for (name, tenant) in &command.writer {
        let (name, tenant) = (name.clone(), tenant.clone());
        logins.push(Login::Writer { name, password: None, tenant });
    }
    for name in &command.reader {
        logins.push(Login::Reader { name: name.clone(), password: None, tenant: None });
    }
    for name in &command.eraser {
        logins.push(Login::Eraser { name: name.clone(), password: None });
    }
    let done = crate::ledger::postgres::migrate(&url, &logins).await.map_err(unreadable)?;
    say(format!("the ledger schema is at version {} (was {})", done.to, done.from));
    if !done.quiet {
        say(
            "the server may log failing statements with their values: only a superuser can stop that",
        );
    }
    Ok(0)
}

fn writer_login(text: &str) -> Result<(String, String), String> {
    let (name, tenant) = text.split_once('=').ok_or("a writer is ROLE=TENANT")?;
    Ok((name.to_owned(), tenant.to_owned()))
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
