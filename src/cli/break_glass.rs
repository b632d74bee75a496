//! `wicketgate control break-glass`: for a short time, calls of one agent need no approver.
//!
//! `request` writes the statement, each key holder `sign`s it, an operator `open`s it: three steps,
//! three kinds of people. Each signer sees the statement before signing it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::api::{Answer, Api};
use super::argument::tool;
use super::report::joined;
use super::{Exit, Failure, FileError, JsonArg, fail, print_facts, say, sign};
use crate::approval::approvers::Purpose;
use crate::approval::break_glass::{BreakGlassStatement, MINUTES_MAX};
use crate::approval::{Statement as _, is_nonce};
use crate::clock::{Clock as _, SystemClock, SystemEntropy, random16};
use crate::domain::id::ToolName;
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::operator::api::replies::GlassReview;
use crate::operator::api::requests::{self, NoncePath};
use crate::operator::api::route;
use crate::operator::visible;

/// Bypass approvals for one agent briefly; several key holders must sign.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Write a statement that names the agent, the tools, the reason and the end
    Request(BreakGlassRequest),
    /// Show a statement and sign it with your break-glass key
    Sign(SignBreakGlass),
    /// Send a statement and its signatures: operators are notified, then it takes effect
    Open(OpenBreakGlass),
    /// End an open statement early
    Close(Close),
    /// List opened statements, who sent them, and which still need a review
    List(ListBreakGlass),
    /// Record your review of an opened statement
    Review(Review),
    /// Check and sign the list of break-glass key holders
    SignSigners(SignSigners),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate control break-glass request --agent refund-agent --tool payments.refund \\\n    \
        --reason \"approvers unreachable, incident 12\" --minutes 30 --out glass.json\n\n\
        A statement replaces approvals only. The policy still decides: a call that it denies does not run.")]
struct BreakGlassRequest {
    /// Agent, by the name in its manifest
    #[arg(long, value_name = "NAME")]
    agent: String,
    /// Tool that then needs no approver; repeat it for more
    #[arg(long = "tool", value_name = "NAME", required = true, value_parser = tool)]
    tools: Vec<ToolName>,
    /// Why; key holders and reviewers see it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Minutes that it stays open, from now
    #[arg(long, value_name = "MINUTES", default_value_t = MINUTES_MAX,
        value_parser = clap::value_parser!(u64).range(1..=MINUTES_MAX))]
    minutes: u64,
    /// Tenant whose gates it applies to
    #[arg(long, value_name = "NAME", default_value = "default")]
    tenant: String,
    /// Write the bytes to sign to this file
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wicketgate control break-glass sign glass.json --key ~/.ssh/glass_ed25519\n  \
    wicketgate control break-glass sign glass.json --key ssh-agent:glass_sk.pub --out glass.anna.sig\n  \
    ssh-keygen -Y sign -f ~/.ssh/glass_ed25519 -n wicketgate-break-glass glass.json"
)]
struct SignBreakGlass {
    /// The statement
    file: PathBuf,
    /// Sign with this break-glass key: a private key file, or `ssh-agent:<public key file>`
    #[arg(long, value_name = "KEY")]
    key: PathBuf,
    /// Write the signature to this file; if omitted, FILE.sig
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate control break-glass open glass.json --signature bo.sig --signature cy.sig --token-file ada.token\n\n\
        Exits with 0 when every gate opened it, with 1 when one did not or was not reached, with 2 when there was no\n\
        answer. A statement can be opened only once.")]
struct OpenBreakGlass {
    /// The statement
    file: PathBuf,
    /// Signature over the statement; repeat it for each signer
    #[arg(long = "signature", value_name = "FILE", required = true)]
    signatures: Vec<PathBuf>,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate control break-glass close NONCE --reason \"approvers are back\" --token-file ada.token")]
struct Close {
    /// Nonce of the statement, as `list` shows it
    nonce: String,
    /// Why; it is recorded in the ledger
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate control break-glass list --token-file ada.token")]
struct ListBreakGlass {
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate control break-glass review NONCE --note \"one note, as agreed\" --token-file eve.token\n\n\
    Signers and sender of a statement cannot review it.")]
struct Review {
    /// Nonce of the statement, as `list` shows it
    nonce: String,
    /// Result of the review
    #[arg(long, value_name = "TEXT")]
    note: String,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate control break-glass sign-signers glass_signers --key keys/glass.pem\n\n\
        Each line of the list is one key in the form of OpenSSH's allowed_signers, with roles in place of the comment:\n  \
        anna@example.com namespaces=\"wicketgate-break-glass\" ssh-ed25519 AAAA... roles=break_glass")]
struct SignSigners {
    /// The list; the signature is written to FILE.sig.json
    file: PathBuf,
    /// Sign with this secret key (PKCS#8 PEM); repeat it for more signatures
    #[arg(long = "key", value_name = "KEY", required = true)]
    keys: Vec<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

/// A statement that has ended already.
#[derive(Debug, thiserror::Error)]
#[error("it expired at {0}: nothing was signed")]
struct ExpiredStatement(Timestamp);

/// Runs it.
pub(super) async fn run(args: &Args) -> Result<Exit, Exit> {
    match &args.command {
        Command::Request(args) => Ok(request(args).map_or_else(Failure::print, |()| Exit::Ok)),
        Command::Sign(args) => Ok(sign(args).map_or_else(Failure::print, |()| Exit::Ok)),
        Command::SignSigners(args) => {
            let signed = super::approval::sign_list(Purpose::BreakGlass, &args.file, &args.keys);
            Ok(signed.map_or_else(Failure::print, |()| Exit::Ok))
        }
        Command::Open(args) => open(args).await,
        Command::Close(args) => {
            let end = requests::BreakGlassEnd { reason: args.reason.clone() };
            args.api.order::<route::BreakGlassEnd>(&nonce(&args.nonce)?, &end).await
        }
        Command::Review(args) => {
            let review = requests::BreakGlassReview { note: args.note.clone() };
            args.api.order::<route::BreakGlassReview>(&nonce(&args.nonce)?, &review).await
        }
        Command::List(args) => past(args).await,
    }
}

/// A nonce is part of a path, so it must not contain other characters.
fn nonce(nonce: &str) -> Result<NoncePath, Exit> {
    if is_nonce(nonce) {
        return Ok(NoncePath { nonce: nonce.to_owned() });
    }
    Err(fail(
        Exit::Usage,
        "expected a nonce of 32 hex digits: see `wicketgate control break-glass list`",
    ))
}

fn request(args: &BreakGlassRequest) -> Result<(), Failure> {
    let mut tools = args.tools.clone();
    tools.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    tools.dedup();
    let now = SystemClock::new().now();
    let statement = BreakGlassStatement {
        tenant: args.tenant.clone(),
        agent: args.agent.clone(),
        tools,
        reason: args.reason.clone(),
        not_before: now,
        expires: now.plus(Duration::from_secs(args.minutes.saturating_mul(60))),
        nonce: hex::encode(random16(&SystemEntropy)),
    };
    statement.bounded().map_err(Failure::invalid)?;
    // A statement that is there may be signed already.
    write(&args.out, &statement.bytes())?;
    show(&statement);
    let line = format!("wrote {}: the break-glass key holders sign it next", args.out.display());
    print_facts(json!({"wrote": args.out}), line);
    Ok(())
}

/// Prints every member of a statement.
fn show(statement: &BreakGlassStatement) {
    let BreakGlassStatement { tenant, agent, tools, reason, not_before, expires, nonce } =
        statement;
    let facts = json!({"tenant": tenant, "agent": agent, "reason": reason, "nonce": nonce,
        "tools": tools.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "not_before": not_before.to_string(), "expires": expires.to_string()});
    let open: String = tools.iter().map(|tool| format!("\n  {tool} needs no approver")).collect();
    let (agent, tenant, reason) = (visible(agent), visible(tenant), visible(reason));
    let line = format!(
        "BREAK-GLASS for agent {agent} of tenant {tenant}{open}\n  from {not_before} until {expires}\n  \
         because: {reason}\n  nonce {nonce}"
    );
    print_facts(facts, line);
}

fn sign(args: &SignBreakGlass) -> Result<(), Failure> {
    let statement: BreakGlassStatement = sign::statement(&args.file).map_err(Failure::invalid)?;
    show(&statement);
    let now: Timestamp = SystemClock::new().now();
    if now >= statement.expires {
        return Err(Failure::invalid(ExpiredStatement(statement.expires)));
    }
    let signed = sign::signed((Some(&args.key), None), &statement).map_err(Failure::invalid)?;
    let out = args.out.clone().unwrap_or_else(|| {
        let mut name = args.file.clone().into_os_string();
        name.push(".sig");
        name.into()
    });
    // WHY: `write` refuses an existing file, which may be another approver's signature.
    write(&out, signed.signature.as_bytes())?;
    print_facts(json!({"wrote": out}), format!("wrote {}", out.display()));
    Ok(())
}

/// Writes a file that must not exist yet.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let made = std::fs::File::create_new(path).and_then(|mut file| file.write_all(bytes));
    made.map_err(FileError::at(path)).map_err(Failure::invalid)
}

async fn open(args: &OpenBreakGlass) -> Result<Exit, Exit> {
    let read = |path: &PathBuf| sign::file(path).map_err(|error| fail(Exit::Invalid, error));
    let signatures: Vec<String> = args.signatures.iter().map(read).collect::<Result<_, _>>()?;
    let signed = requests::BreakGlassStatement { statement: read(&args.file)?, signatures };
    args.api.order::<route::BreakGlassOpening>(&(), &signed).await
}

async fn past(args: &ListBreakGlass) -> Result<Exit, Exit> {
    let Answer { body, reply } = args.api.ask::<route::BreakGlass>(&(), &()).await?;
    if args.api.json {
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    if !reply.configured {
        say("no break-glass signers are configured, so break-glass cannot be opened");
    }
    for order in &reply.orders {
        let state = match (order.open, &order.review) {
            (true, _) => "OPEN",
            (false, Some(_)) => "reviewed",
            (false, None) => "NOT REVIEWED",
        };
        let [nonce, agent, expires, reason, by] =
            [&order.nonce, &order.agent, &order.expires, &order.reason, &order.brought_by]
                .map(|text| visible(text));
        say(format!("{nonce}  {state}  agent {agent}  until {expires}"));
        say(format!("    {}: {reason}", joined(&order.tools)));
        let signatures = many(order.signatures, "signature");
        say(format!("    order {}, {signatures}, sent by {by}", order.seq));
        if let Some(GlassReview { by, note }) = &order.review {
            say(format!("    reviewed by {}: {}", visible(by), visible(note)));
        }
    }
    Ok(Exit::Ok)
}
