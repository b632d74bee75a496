//! `wicketgate approval`: see what is held, all of it, and give a signed word about it.
//!
//! What is signed is made here, from what was shown here: the office only carries it.

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::door::{Desk, list, text};
use super::{Exit, block_on, complain, say};
use crate::approval::{NAMESPACE, Word};
use crate::domain::canonical;
use crate::domain::id::{CallId, RunId};
use crate::domain::json::{Json, Limits};
use crate::operator::view::{Facts, Unviewable};

pub(super) mod sign;
mod signers;

pub(super) use sign::armored;
pub(super) use signers::sign as sign_list;

/// Bytes of a file with arguments.
const ARGUMENTS_MAX: u64 = 64 * 1024;

/// See held calls, and approve or refuse them with your SSH key.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show which calls are held, the gravest first; no arguments
    List(List),
    /// Show everything about one held call
    Show(Show),
    /// Show one held call, sign that it may run, and send that
    Approve(Give),
    /// Show one held call, sign that it may not run, and send that
    Refuse(Give),
    /// Check and sign the list of those who may approve
    SignApprovers(signers::Sign),
    /// Propose other arguments for a held call, signed; what is asked then waits for somebody else
    Modify(Modify),
}

#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    desk: Desk,
    /// How many
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    limit: u16,
}

/// One held call.
#[derive(Debug, clap::Args)]
struct Call {
    /// The run
    #[arg(value_parser = run_id)]
    run: RunId,
    /// The call
    #[arg(value_parser = call_id)]
    call: CallId,
}

#[derive(Debug, clap::Args)]
struct Show {
    #[command(flatten)]
    call: Call,
    #[command(flatten)]
    desk: Desk,
    /// Print only the bytes to sign, to `approve` or to `refuse`: for `ssh-keygen -Y sign -n wicketgate-approval`
    #[arg(long, value_name = "WORD", value_parser = word, conflicts_with = "json")]
    statement: Option<Word>,
}

/// A word about one held call.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wicketgate approval approve RUN CALL --token-file anna.token\n  \
    wicketgate approval approve RUN CALL --key ssh-agent:id_ed25519_sk.pub --token-file anna.token\n  \
    wicketgate approval show RUN CALL --statement approve --token-file anna.token > word\n  \
    ssh-keygen -Y sign -f ~/.ssh/id_ed25519 -n wicketgate-approval word\n  \
    wicketgate approval approve RUN CALL --signature word.sig --token-file anna.token\n\n\
    The arguments are checked here against the digest that is signed. Before anything is signed you are asked\n\
    to type the tool's name; without a terminal it needs --yes.\n\
    Ends with 0 when the gate has taken the word, with 1 when it does not count or no gate answered in time."
)]
struct Give {
    #[command(flatten)]
    call: Call,
    #[command(flatten)]
    desk: Desk,
    /// Your SSH key: a private key file, or `ssh-agent:<public key file>`; default ~/.ssh/id_ed25519
    #[arg(long, value_name = "KEY")]
    key: Option<PathBuf>,
    /// A signature over the statement that was made elsewhere (`approval show --statement`)
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    signature: Option<PathBuf>,
    /// Ask nothing
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, clap::Args)]
struct Modify {
    #[command(flatten)]
    call: Call,
    #[command(flatten)]
    desk: Desk,
    /// A file with the new arguments, one JSON object; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    arguments: PathBuf,
    /// Your SSH key: a private key file, or `ssh-agent:<public key file>`; default ~/.ssh/id_ed25519
    #[arg(long, value_name = "KEY")]
    key: Option<PathBuf>,
    /// A signature over the proposal that was made elsewhere (`approval modify --statement`)
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    signature: Option<PathBuf>,
    /// Print only the bytes to sign: for `ssh-keygen -Y sign -n wicketgate-approval`
    #[arg(long, conflicts_with_all = ["json", "key", "signature"])]
    statement: bool,
    /// Ask nothing
    #[arg(long)]
    yes: bool,
    /// Why, for whoever reads it later
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

fn run_id(text: &str) -> Result<RunId, String> {
    RunId::parse(text).ok_or_else(|| "expected the id of a run".to_owned())
}

fn call_id(text: &str) -> Result<CallId, String> {
    CallId::parse(text).ok_or_else(|| "expected the id of a call".to_owned())
}

fn word(text: &str) -> Result<Word, String> {
    Word::parse(text).ok_or_else(|| "expected `approve` or `refuse`".to_owned())
}

/// Runs it.
pub fn run(args: &Args) -> Exit {
    let work = async {
        match &args.command {
            Command::List(args) => held(args).await,
            Command::Show(args) => show(args).await,
            Command::Approve(args) => give(Word::Approve, args).await,
            Command::Refuse(args) => give(Word::Refuse, args).await,
            Command::Modify(args) => modify(args).await,
            Command::SignApprovers(args) => Ok(signers::run(args)),
        }
    };
    block_on(work).and_then(|done| done).unwrap_or_else(|exit| exit)
}

async fn held(args: &List) -> Result<Exit, Exit> {
    let path = format!("/v1/approvals?limit={}", args.limit);
    let body = args.desk.ask(http::Method::GET, &path, None).await?.body;
    if args.desk.json {
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    let asks = list(&body, "held");
    if asks.is_empty() {
        say("nothing is held");
    }
    for ask in asks {
        let count = ask.get("count").and_then(Value::as_u64).unwrap_or(1);
        let times = if count > 1 { format!(", asked {count} times") } else { String::new() };
        say(format!(
            "{}  {}  by {}{times}",
            text(ask, "tier"),
            text(ask, "tool"),
            text(ask, "agent")
        ));
        say(format!("    run {} call {}", text(ask, "run"), text(ask, "call")));
        let granted = text(ask, "approvals");
        say(format!("    expires {}, {granted} approvals so far", text(ask, "expires")));
        let by = text(ask, "asked_by");
        if !by.is_empty() {
            say(format!("    arguments by {by}, who cannot approve them"));
        }
        say(format!("    {}", text(ask, "words")));
        for reason in list(ask, "reasons").iter().filter_map(Value::as_str) {
            say(format!("    - {}", crate::operator::visible(reason)));
        }
    }
    if body.get("more").and_then(Value::as_bool) == Some(true) {
        say(format!("and more: {} calls are held", text(&body, "calls")));
    }
    Ok(Exit::Ok)
}

/// The facts of one held call. They are checked before anything is done with them.
async fn facts(desk: &Desk, call: &Call) -> Result<(Facts, Value), Exit> {
    let path = format!("/v1/approvals/{}/{}", call.run, call.call);
    let body = desk.ask(http::Method::GET, &path, None).await?.body;
    let facts = body.get("facts").cloned().unwrap_or(Value::Null);
    let facts = Facts::deserialize(facts).map_err(|error| {
        complain(format!("error: the answer is not about a held call: {error}"));
        Exit::Unverifiable
    })?;
    if facts.run != call.run.to_string() || facts.call != call.call.as_str() {
        complain("error: the answer is about another call");
        return Err(Exit::Unverifiable);
    }
    Ok((facts, body))
}

fn unviewable(error: &Unviewable) -> Exit {
    complain(format!("error: {error} ({})", error.detail));
    Exit::Unverifiable
}

async fn show(args: &Show) -> Result<Exit, Exit> {
    let (facts, body) = facts(&args.desk, &args.call).await?;
    let shown = facts.render().map_err(|e| unviewable(&e))?;
    if let Some(word) = args.statement {
        let (_, statement) = facts.check(word).map_err(|e| unviewable(&e))?;
        // Exactly these bytes are signed: no line feed follows.
        let mut out = std::io::stdout();
        let written = out.write_all(&statement.bytes()).and_then(|()| out.flush());
        return Ok(if written.is_ok() { Exit::Ok } else { Exit::Unverifiable });
    }
    say(if args.desk.json { body.to_string() } else { shown });
    Ok(Exit::Ok)
}

async fn give(word: Word, args: &Give) -> Result<Exit, Exit> {
    let (facts, _) = facts(&args.desk, &args.call).await?;
    let shown = facts.render().map_err(|e| unviewable(&e))?;
    let (_, statement) = facts.check(word).map_err(|e| unviewable(&e))?;
    if !args.desk.json {
        say(shown);
    }
    if word == Word::Approve && !args.yes {
        confirmed(&facts, "approve")?;
    }
    let with = (args.key.as_deref(), args.signature.as_deref());
    let signature = sign::signature(with, NAMESPACE, &statement.bytes()).map_err(|why| {
        complain(format!("error: {why}"));
        Exit::Invalid
    })?;
    let statement = String::from_utf8_lossy(&statement.bytes()).into_owned();
    let body = json!({"statement": statement, "signature": signature});
    let path = format!("/v1/approvals/{}/{}", args.call.run, args.call.call);
    args.desk.order(&path, &body).await
}

/// Has the tool's name typed: what runs because of a signature is not signed by habit, whatever its tier.
fn confirmed(facts: &Facts, to: &str) -> Result<(), Exit> {
    let mut input = std::io::stdin().lock();
    if !std::io::stdin().is_terminal() {
        complain(format!("error: there is no terminal to ask whether to {to}: give --yes"));
        return Err(Exit::Usage);
    }
    let undone = if facts.tier == "T3" { "this cannot be undone. " } else { "" };
    let _ = write!(std::io::stderr(), "{undone}type the tool's name to {to}: ");
    let mut line = String::new();
    // A line that cannot be read is not the tool's name.
    let _ = input.read_line(&mut line);
    if line.trim_end_matches(['\r', '\n']) == facts.tool {
        return Ok(());
    }
    complain("nothing was signed: that is not the tool's name");
    Err(Exit::Invalid)
}

async fn modify(args: &Modify) -> Result<Exit, Exit> {
    let read = || -> std::io::Result<String> {
        let mut text = String::new();
        let most = ARGUMENTS_MAX.saturating_add(1);
        if args.arguments.as_os_str() == "-" {
            std::io::stdin().take(most).read_to_string(&mut text)?;
        } else {
            std::fs::File::open(&args.arguments)?.take(most).read_to_string(&mut text)?;
        }
        Ok(text)
    };
    let arguments = read().map_err(|error| {
        complain(format!("error: `{}`: {error}", args.arguments.display()));
        Exit::Invalid
    })?;
    let read = Json::parse(arguments.as_bytes(), &Limits::ARGUMENTS).map_err(|error| {
        complain(format!("error: `{}`: {error}", args.arguments.display()));
        Exit::Invalid
    })?;
    let (facts, _) = facts(&args.desk, &args.call).await?;
    let shown = facts.render().map_err(|e| unviewable(&e))?;
    let proposal = facts.proposal(&canonical::bytes(&read)).map_err(|e| unviewable(&e))?.bytes();
    if args.statement {
        let mut out = std::io::stdout();
        let written = out.write_all(&proposal).and_then(|()| out.flush());
        return Ok(if written.is_ok() { Exit::Ok } else { Exit::Unverifiable });
    }
    if !args.desk.json {
        let other = serde_json::to_string_pretty(&read.to_serde()).unwrap_or_default();
        let other: Vec<String> = other.lines().map(crate::operator::visible).collect();
        say(format!("{shown}\nTO BE ASKED INSTEAD, BY YOU\n{}", other.join("\n")));
    }
    if !args.yes {
        confirmed(&facts, "propose this")?;
    }
    let with = (args.key.as_deref(), args.signature.as_deref());
    let signature = sign::signature(with, NAMESPACE, &proposal).map_err(|why| {
        complain(format!("error: {why}"));
        Exit::Invalid
    })?;
    let statement = String::from_utf8_lossy(&proposal).into_owned();
    let body = json!({"arguments": arguments, "reason": args.reason, "statement": statement,
        "signature": signature});
    let path = format!("/v1/approvals/{}/{}/modify", args.call.run, args.call.call);
    args.desk.order(&path, &body).await
}
