//! `wicketgate break-glass`: for a short time, calls of one agent need no approver.
//!
//! `request` writes what is asked for, each key holder `sign`s it, an operator `open`s it: three steps, three
//! kinds of people. What is signed is shown before it is signed.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::door::{Desk, list, text};
use super::{Exit, block_on, complain, say};
use crate::approval::approvers::Purpose;
use crate::approval::break_glass::{MINUTES_MAX, NAMESPACE, Statement};
use crate::clock::{Clock as _, SystemClock, SystemEntropy, random16};
use crate::domain::id::ToolName;
use crate::domain::time::Timestamp;
use crate::operator::visible;

/// Let calls of one agent go without an approver for a short time, on the word of several key holders.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Write a statement: which agent, which tools, why, until when
    Request(Request),
    /// Show a statement and sign it with your break-glass key
    Sign(Sign),
    /// Bring a statement and its signatures: everybody is told, then it opens
    Open(Open),
    /// End what is open before its time
    Close(Close),
    /// Show what was opened, by whom, and what nobody has reviewed
    List(List),
    /// Record that you looked at what was done
    Review(Review),
    /// Check and sign the list of those who may sign statements
    SignSigners(SignSigners),
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  wicketgate break-glass request --agent refund-agent --tool payments.refund \\\n    \
    --reason \"approvers unreachable, incident 12\" --minutes 30 --out glass.json\n\n\
    It never lets run what a policy denies or what no rule allows."
)]
struct Request {
    /// The agent, by the name in its manifest
    #[arg(long, value_name = "NAME")]
    agent: String,
    /// A tool that needs no approver then; repeat for several
    #[arg(long = "tool", value_name = "NAME", required = true, value_parser = tool)]
    tools: Vec<ToolName>,
    /// Why, for whoever signs and reviews it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// How long, from now on
    #[arg(long, value_name = "MINUTES", default_value_t = MINUTES_MAX,
        value_parser = clap::value_parser!(u64).range(1..=MINUTES_MAX))]
    minutes: u64,
    /// Whose gates it is for
    #[arg(long, value_name = "NAME", default_value = "default")]
    tenant: String,
    /// The file to write: exactly the bytes to sign
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wicketgate break-glass sign glass.json --key ~/.ssh/glass_ed25519\n  \
    wicketgate break-glass sign glass.json --key ssh-agent:glass_sk.pub --out glass.anna.sig\n  \
    ssh-keygen -Y sign -f ~/.ssh/glass_ed25519 -n wicketgate-break-glass glass.json"
)]
struct Sign {
    /// The statement
    file: PathBuf,
    /// Your break-glass key: a private key file, or `ssh-agent:<public key file>`
    #[arg(long, value_name = "KEY")]
    key: PathBuf,
    /// Where the signature goes; default FILE.sig
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Ends with 0 when every gate has opened it, with 1 when one did not or was not reached, with 2 when nobody\n\
    answered. A statement opens once."
)]
struct Open {
    /// The statement
    file: PathBuf,
    /// A signature over it; repeat for each
    #[arg(long = "signature", value_name = "FILE", required = true)]
    signatures: Vec<PathBuf>,
    #[command(flatten)]
    desk: Desk,
}

#[derive(Debug, clap::Args)]
struct Close {
    /// The nonce of its statement, as `list` shows it
    nonce: String,
    /// Why, for whoever reads it later
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    desk: Desk,
}

#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    desk: Desk,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Whoever signed or brought a statement does not review it.")]
struct Review {
    /// The nonce of its statement, as `list` shows it
    nonce: String,
    /// What was found
    #[arg(long, value_name = "TEXT")]
    note: String,
    #[command(flatten)]
    desk: Desk,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each line of the list is one key, as OpenSSH's allowed_signers has it, with the role where OpenSSH has a comment:\n  \
    anna@example.com namespaces=\"wicketgate-break-glass\" ssh-ed25519 AAAA... roles=break_glass\n\n\
    Example:\n  wicketgate break-glass sign-signers glass_signers --key keys/glass.pem"
)]
struct SignSigners {
    /// The list; its envelope is written as FILE.sig.json
    file: PathBuf,
    /// A private key file (PKCS#8 PEM); repeat for several signatures
    #[arg(long = "key", value_name = "KEY", required = true)]
    keys: Vec<PathBuf>,
}

fn tool(text: &str) -> Result<ToolName, String> {
    ToolName::parse(text).ok_or_else(|| "expected the name of a tool".to_owned())
}

/// Runs it.
pub fn run(args: &Args) -> Exit {
    let asking = match &args.command {
        Command::Request(args) => return done(request(args)),
        Command::Sign(args) => return done(sign(args)),
        Command::SignSigners(args) => {
            let signed = super::approval::sign_list(Purpose::BreakGlass, &args.file, &args.keys);
            return done(signed);
        }
        Command::Open(_) | Command::Close(_) | Command::List(_) | Command::Review(_) => {
            &args.command
        }
    };
    let work = async {
        match asking {
            Command::Open(args) => open(args).await,
            Command::Close(args) => {
                let path = format!("/v1/break-glass/{}/close", word(&args.nonce)?);
                args.desk.order(&path, &json!({"reason": args.reason})).await
            }
            Command::Review(args) => {
                let path = format!("/v1/break-glass/{}/review", word(&args.nonce)?);
                args.desk.order(&path, &json!({"note": args.note})).await
            }
            Command::List(args) => past(args).await,
            Command::Request(_) | Command::Sign(_) | Command::SignSigners(_) => Ok(Exit::Ok),
        }
    };
    block_on(work).and_then(|done| done).unwrap_or_else(|exit| exit)
}

fn done(result: Result<(), String>) -> Exit {
    match result {
        Ok(()) => Exit::Ok,
        Err(why) => {
            complain(format!("error: {why}"));
            Exit::Invalid
        }
    }
}

/// A nonce is part of a path: nothing else may stand there.
fn word(nonce: &str) -> Result<&str, Exit> {
    if nonce.len() == 32 && nonce.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(nonce);
    }
    complain("error: a nonce is 32 hex digits: see `wicketgate break-glass list`");
    Err(Exit::Usage)
}

fn request(args: &Request) -> Result<(), String> {
    let mut tools = args.tools.clone();
    tools.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    tools.dedup();
    let now = SystemClock::new().now();
    let statement = Statement {
        tenant: args.tenant.clone(),
        agent: args.agent.clone(),
        tools,
        reason: args.reason.clone(),
        not_before: now,
        expires: now.plus(Duration::from_secs(args.minutes.saturating_mul(60))),
        nonce: hex::encode(random16(&SystemEntropy)),
    };
    statement.bounded()?;
    // A statement that is there may be signed already.
    let mut file = std::fs::File::create_new(&args.out).map_err(|e| at(&args.out, &e))?;
    file.write_all(&statement.bytes()).map_err(|e| at(&args.out, &e))?;
    show(&statement);
    say(format!("wrote {}: have it signed by those who may", args.out.display()));
    Ok(())
}

/// Everything a statement says.
fn show(statement: &Statement) {
    let Statement { tenant, agent, tools, reason, not_before, expires, nonce } = statement;
    say(format!("BREAK-GLASS for agent {} of tenant {}", visible(agent), visible(tenant)));
    for tool in tools {
        say(format!("  {tool} needs no approver"));
    }
    say(format!("  from {not_before} until {expires}"));
    say(format!("  because: {}", visible(reason)));
    say(format!("  nonce {nonce}"));
}

fn statement(path: &Path) -> Result<Statement, String> {
    let bytes = std::fs::read(path).map_err(|e| at(path, &e))?;
    Statement::parse(&bytes).map_err(|why| at(path, &why))
}

fn sign(args: &Sign) -> Result<(), String> {
    let statement = statement(&args.file)?;
    show(&statement);
    let now: Timestamp = SystemClock::new().now();
    if now >= statement.expires {
        return Err(format!("it ended at {}: nothing is signed", statement.expires));
    }
    let signature = super::approval::armored(&args.key, NAMESPACE, &statement.bytes())?;
    let out = args.out.clone().unwrap_or_else(|| {
        let mut name = args.file.clone().into_os_string();
        name.push(".sig");
        name.into()
    });
    // Somebody else's signature is never written over.
    let mut file = std::fs::File::create_new(&out).map_err(|e| at(&out, &e))?;
    file.write_all(signature.as_bytes()).map_err(|e| at(&out, &e))?;
    say(format!("wrote {}", out.display()));
    Ok(())
}

fn at(path: &Path, why: &dyn std::fmt::Display) -> String {
    format!("`{}`: {why}", path.display())
}

async fn open(args: &Open) -> Result<Exit, Exit> {
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).map_err(|e| {
            complain(format!("error: {}", at(path, &e)));
            Exit::Invalid
        })
    };
    let signatures: Vec<String> = args.signatures.iter().map(read).collect::<Result<_, _>>()?;
    let body = json!({"statement": read(&args.file)?, "signatures": signatures});
    args.desk.order("/v1/break-glass", &body).await
}

async fn past(args: &List) -> Result<Exit, Exit> {
    let body = args.desk.ask(http::Method::GET, "/v1/break-glass", None).await?.body;
    if args.desk.json {
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    if body.get("configured").and_then(Value::as_bool) != Some(true) {
        say("no break-glass signers are configured: nothing can be opened");
    }
    for order in list(&body, "orders") {
        let open = order.get("open").and_then(Value::as_bool) == Some(true);
        let state = match (open, order.get("review").is_some_and(|review| !review.is_null())) {
            (true, _) => "OPEN",
            (false, true) => "reviewed",
            (false, false) => "NOT REVIEWED",
        };
        let (nonce, agent) = (text(order, "nonce"), text(order, "agent"));
        say(format!("{nonce}  {state}  agent {agent}  until {}", text(order, "expires")));
        let tools: Vec<String> =
            list(order, "tools").iter().filter_map(Value::as_str).map(visible).collect();
        say(format!("    {}: {}", tools.join(", "), text(order, "reason")));
        let (by, seq) = (text(order, "brought_by"), text(order, "seq"));
        say(format!("    order {seq}, {} signatures, brought by {by}", text(order, "signatures")));
        if let Some(review) = order.get("review").filter(|review| !review.is_null()) {
            say(format!("    reviewed by {}: {}", text(review, "by"), text(review, "note")));
        }
    }
    Ok(Exit::Ok)
}
