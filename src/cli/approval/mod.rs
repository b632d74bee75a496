//! `wicketgate approval`: see a held call in full, and sign an approval or refusal of it.
//!
//! This program makes the statement to sign, from what it showed: the operator API only carries it.

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::api::{Answer, Api};
use super::argument::{call_id, verdict};
use super::report::shown;
use super::{Exit, FileError, block_on, create, fail, say, sign};
use crate::approval::{ApproverVerdict, SignedApproval};
use crate::domain::canonical;
use crate::domain::id::{CallId, RunId};
use crate::domain::json::{self, Json, Limits};
use crate::domain::plural::many;
use crate::operator::api::lookups::Similar;
use crate::operator::api::replies::HeldCall;
use crate::operator::api::{requests, route};
use crate::operator::view::{Facts, Unviewable};
use crate::operator::visible;

mod signers;

pub(super) use signers::sign as sign_list;

/// Bytes of a file with the arguments of a proposal.
const ARGUMENTS_MAX: u64 = 64 * 1024;
/// Bytes of a file with the arguments of a held call.
const HELD_MAX_BYTES: u64 = 1024 * 1024;

/// List held calls, and approve or refuse them with your SSH key.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the held calls, highest tier first, without their arguments
    List(ListApprovals),
    /// Show one held call with its arguments
    Show(ShowApproval),
    /// Show one held call, then sign and send an approval
    Approve(SignApproval),
    /// Show one held call, then sign and send a refusal
    Refuse(SignApproval),
    /// Check and sign the list of approvers
    SignApprovers(signers::SignerOptions),
    /// Propose other arguments for a held call, signed with your SSH key; another approver then decides
    Modify(Modify),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate approval list --token-file anna.token\n  \
    wicketgate approval list --url https://hub:7301 --token-file anna.token --json")]
struct ListApprovals {
    #[command(flatten)]
    api: Api,
    /// Most calls to list
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u16,
}

/// One held call.
#[derive(Debug, clap::Args)]
struct CallName {
    /// ID of the run
    #[arg(value_parser = super::evidence::run_id)]
    run: RunId,
    /// ID of the call
    #[arg(value_parser = call_id)]
    call: CallId,
}

impl CallName {
    fn path(&self) -> requests::HeldCallPath {
        requests::HeldCallPath { run: self.run.to_string(), call: self.call.to_string() }
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate approval show RUN CALL --token-file anna.token\n  \
    wicketgate approval show RUN CALL --arguments args.json --token-file anna.token\n  \
    wicketgate approval show RUN CALL --statement approve --token-file anna.token > statement")]
struct ShowApproval {
    #[command(flatten)]
    call: CallName,
    #[command(flatten)]
    api: Api,
    /// Print only the bytes to sign for `approve` or `refuse`; sign them with `ssh-keygen -Y sign -n
    /// wicketgate-approval`
    #[arg(long, value_name = "DECISION", value_parser = verdict, conflicts_with = "json")]
    statement: Option<ApproverVerdict>,
    /// Also write all arguments to this new file: the bytes that the signature covers
    #[arg(long, value_name = "FILE", conflicts_with = "statement")]
    arguments: Option<PathBuf>,
}

/// An approval or a refusal of one held call.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate approval approve RUN CALL --token-file anna.token\n  \
        wicketgate approval approve RUN CALL --key ssh-agent:id_ed25519_sk.pub --token-file anna.token\n  \
        wicketgate approval show RUN CALL --statement approve --token-file anna.token > statement\n  \
        ssh-keygen -Y sign -f ~/.ssh/id_ed25519 -n wicketgate-approval statement\n  \
        wicketgate approval approve RUN CALL --signature statement.sig --token-file anna.token\n\n\
        The command checks the arguments against the digest that you sign, then asks you to type the tool's name; without\n\
        a terminal it needs --yes. Exits with 0 when the gate counted the signature, with 1 when it did not or no gate\n\
        answered in time.")]
struct SignApproval {
    #[command(flatten)]
    call: CallName,
    #[command(flatten)]
    api: Api,
    /// Sign with this SSH key: a private key file, or `ssh-agent:<public key file>`; if omitted, ~/.ssh/id_ed25519
    #[arg(long, value_name = "KEY")]
    key: Option<PathBuf>,
    /// Signature over the statement, made elsewhere (`approval show --statement`)
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    signature: Option<PathBuf>,
    /// The file with all arguments that you read (`approval show --arguments`); needed to approve a call with more than
    /// 64 KiB of them
    #[arg(long, value_name = "FILE")]
    arguments: Option<PathBuf>,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate approval modify RUN CALL --arguments smaller.json --reason \"half the amount\" --token-file anna.token")]
struct Modify {
    #[command(flatten)]
    call: CallName,
    #[command(flatten)]
    api: Api,
    /// File with the new arguments, one JSON object; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    arguments: PathBuf,
    /// Sign with this SSH key: a private key file, or `ssh-agent:<public key file>`; if omitted, ~/.ssh/id_ed25519
    #[arg(long, value_name = "KEY")]
    key: Option<PathBuf>,
    /// Signature over the proposal, made elsewhere (`approval modify --statement`)
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    signature: Option<PathBuf>,
    /// Print only the bytes to sign; sign them with `ssh-keygen -Y sign -n wicketgate-approval`
    #[arg(long, conflicts_with_all = ["json", "key", "signature"])]
    statement: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Why; it is recorded in the ledger
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

/// Why an answer or an input is not used.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The operator API answered with another call.
    #[error("the answer is about a different call")]
    OtherCall,
    /// The operator did not confirm.
    #[error("that is not the tool's name: nothing was signed")]
    OtherName,
    /// The arguments are too long to be shown, and were not read as a file.
    #[error(
        "the arguments have {bytes} bytes, of which only a part is shown: write all to a file with `approval show \
         --arguments FILE`, read it, and approve with `--arguments FILE`"
    )]
    Unread {
        /// Their length.
        bytes: usize,
    },
    /// The file that was read is not that of this call.
    #[error(
        "`{}` does not hold the arguments of this call: write it again with `approval show --arguments FILE`, and read it",
        .0.display()
    )]
    OtherArguments(PathBuf),
    /// There is no terminal on which to confirm.
    #[error("there is no terminal to ask whether to {0}: add --yes")]
    NoTerminal(&'static str),
    /// The call cannot be shown, so the approver cannot sign it.
    #[error("{error} ({})", error.detail)]
    Unviewable {
        #[from]
        error: Unviewable,
    },
    /// The arguments of a proposal are not strict JSON.
    #[error("`{}`: {error}", file.display())]
    Arguments {
        file: PathBuf,
        #[source]
        error: json::Error,
    },
}

/// Runs it.
pub fn run(args: &Args) -> Exit {
    let work = async {
        match &args.command {
            Command::List(args) => held(args).await,
            Command::Show(args) => show(args).await,
            Command::Approve(args) => give(ApproverVerdict::Approve, args).await,
            Command::Refuse(args) => give(ApproverVerdict::Refuse, args).await,
            Command::Modify(args) => modify(args).await,
            Command::SignApprovers(args) => Ok(signers::run(args)),
        }
    };
    block_on(work).and_then(|done| done).unwrap_or_else(|exit| exit)
}

async fn held(args: &ListApprovals) -> Result<Exit, Exit> {
    let page = requests::Page { limit: Some(args.limit.into()) };
    let Answer { body, reply } = args.api.ask::<route::HeldCalls>(&(), &page).await?;
    if args.api.json {
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    if reply.held.is_empty() {
        say("no call is held");
    }
    reply.held.iter().for_each(print_held);
    if reply.more {
        say(format!("{} held in total", many(reply.calls, "call")));
    }
    Ok(Exit::Ok)
}

fn print_held(held: &HeldCall) {
    let count = held.count;
    let times = if count > 1 { format!(", requested {count} times") } else { String::new() };
    let (tier, tool) = (shown(held.tier.as_ref()), shown(held.tool.as_ref()));
    say(format!("{tier}  {tool}  by {}{times}", visible(&held.agent)));
    say(format!("    run {} call {}", shown(held.run.as_ref()), visible(&held.call)));
    let (expires, granted) = (shown(held.expires.as_ref()), many(held.approvals, "approval"));
    say(format!("    expires {expires}, {granted} so far"));
    if let Some(by) = &held.asked_by {
        say(format!("    arguments by {}, who cannot approve them", visible(by)));
    }
    say(format!("    {}", shown(held.words.as_ref())));
    for reason in &held.reasons {
        say(format!("    - {}", visible(reason)));
    }
}

/// The facts of one held call, checked before any use.
async fn facts(api: &Api, call: &CallName) -> Result<(Facts, Value), Exit> {
    let Answer { body, reply } = api.ask::<route::HeldCallDetail>(&call.path(), &()).await?;
    let facts = reply.facts;
    if facts.run != call.run.to_string() || facts.call != call.call.as_str() {
        return Err(fail(Exit::Unverifiable, Error::OtherCall));
    }
    Ok((facts, body))
}

fn unviewable(error: Unviewable) -> Exit {
    fail(Exit::Unverifiable, Error::from(error))
}

async fn show(args: &ShowApproval) -> Result<Exit, Exit> {
    let (facts, body) = facts(&args.api, &args.call).await?;
    let shown = facts.render().map_err(unviewable)?;
    if let Some(verdict) = args.statement {
        let (_, statement) = facts.check(verdict).map_err(unviewable)?;
        return Ok(sign::printed(&statement));
    }
    if args.api.json {
        say(body.to_string());
    } else {
        say(shown);
        // The call was shown: a gate that cannot compare it has said why.
        if let Ok(similar) = args.api.ask::<route::Similar>(&args.call.path(), &()).await {
            say(compared(&similar.reply));
        }
    }
    if let Some(file) = &args.arguments {
        // Other users of the machine may not read what an agent says.
        let written = create(file, facts.arguments.as_bytes(), 0o600);
        written.map_err(FileError::at(file)).map_err(|error| fail(Exit::Invalid, error))?;
    }
    Ok(Exit::Ok)
}

/// The held call beside the last approved one of its kind.
fn compared(similar: &Similar) -> String {
    let Some(call) = &similar.against else {
        return "NO APPROVED CALL TO COMPARE WITH: none of this agent, tool, definition and kind of effect is among the newest \
                ones with stored arguments of at most 64 KiB"
            .to_owned();
    };
    let by = visible(&call.decided_by.join(", "));
    let mut text =
        format!("AGAINST {}, APPROVED BY {by}, {}", visible(&call.call), visible(&call.at));
    let value =
        |json: &Option<String>| json.as_deref().map_or_else(|| "nothing".to_owned(), visible);
    for one in &similar.changes {
        let at = if one.at.is_empty() { "everything" } else { &one.at };
        text.push_str(&format!("\n  ~ {}  {} → {}", visible(at), value(&one.old), value(&one.new)));
    }
    if similar.changes.is_empty() {
        text.push_str("\n  = the arguments are the same");
    }
    if similar.more {
        text.push_str("\n  … and more differences");
    }
    text
}

async fn give(verdict: ApproverVerdict, args: &SignApproval) -> Result<Exit, Exit> {
    let (facts, _) = facts(&args.api, &args.call).await?;
    let shown = facts.render().map_err(unviewable)?;
    let (_, statement) = facts.check(verdict).map_err(unviewable)?;
    if !args.api.json {
        say(shown);
    }
    if verdict == ApproverVerdict::Approve {
        was_read(&facts, args.arguments.as_deref())?;
        if !args.yes {
            confirmed(&facts, "approve")?;
        }
    }
    let with = (args.key.as_deref(), args.signature.as_deref());
    let signed = sign::signed(with, &statement).map_err(|why| fail(Exit::Invalid, why))?;
    let signed = requests::SignedStatement::from(signed);
    args.api.order::<route::HeldCallDecision>(&args.call.path(), &signed).await
}

/// Refuses an approval of arguments of which the approver saw only a part.
fn was_read(facts: &Facts, file: Option<&Path>) -> Result<(), Exit> {
    let Some(file) = file else {
        let bytes = facts.arguments.len();
        return match facts.is_long() {
            true => Err(fail(Exit::Invalid, Error::Unread { bytes })),
            false => Ok(()),
        };
    };
    let read = text_of(file, HELD_MAX_BYTES).map_err(|error| fail(Exit::Invalid, error))?;
    if read == facts.arguments {
        return Ok(());
    }
    Err(fail(Exit::Invalid, Error::OtherArguments(file.to_owned())))
}

/// The text of a file, or of standard input, up to a byte more than this.
fn text_of(file: &Path, most: u64) -> Result<String, FileError> {
    let read = || -> std::io::Result<String> {
        let mut text = String::new();
        let most = most.saturating_add(1);
        if file.as_os_str() == "-" {
            std::io::stdin().take(most).read_to_string(&mut text)?;
        } else {
            std::fs::File::open(file)?.take(most).read_to_string(&mut text)?;
        }
        Ok(text)
    };
    read().map_err(FileError::at(file))
}

/// Makes the approver type the tool's name, so that no signature is given by habit, whatever the
/// tier.
fn confirmed(facts: &Facts, to: &'static str) -> Result<(), Exit> {
    let mut input = std::io::stdin().lock();
    if !std::io::stdin().is_terminal() {
        return Err(fail(Exit::Usage, Error::NoTerminal(to)));
    }
    let undone = if facts.tier == "T3" { "this cannot be undone. " } else { "" };
    let _ = write!(std::io::stderr(), "{undone}type the tool's name to {to}: ");
    let mut line = String::new();
    // A line that cannot be read is not the tool's name.
    let _ = input.read_line(&mut line);
    if line.trim_end_matches(['\r', '\n']) == facts.tool {
        return Ok(());
    }
    Err(fail(Exit::Invalid, Error::OtherName))
}

async fn modify(args: &Modify) -> Result<Exit, Exit> {
    let file = &args.arguments;
    let arguments = text_of(file, ARGUMENTS_MAX).map_err(|error| fail(Exit::Invalid, error))?;
    let read = Json::parse(arguments.as_bytes(), &Limits::ARGUMENTS);
    let invalid = |error| fail(Exit::Invalid, Error::Arguments { file: file.clone(), error });
    let read = read.map_err(invalid)?;
    let (facts, _) = facts(&args.api, &args.call).await?;
    let shown = facts.render().map_err(unviewable)?;
    let proposal = facts.proposal(&canonical::bytes(&read)).map_err(unviewable)?;
    if args.statement {
        return Ok(sign::printed(&proposal));
    }
    if !args.api.json {
        let other = serde_json::to_string_pretty(&read.to_serde()).unwrap_or_default();
        let other: Vec<String> = other.lines().map(visible).collect();
        say(format!("{shown}\nYOUR PROPOSAL\n{}", other.join("\n")));
    }
    if !args.yes {
        confirmed(&facts, "propose this")?;
    }
    let with = (args.key.as_deref(), args.signature.as_deref());
    let signed = sign::signed(with, &proposal).map_err(|why| fail(Exit::Invalid, why))?;
    let SignedApproval { statement, signature } = signed;
    let reason = args.reason.clone();
    let proposal = requests::Modification { arguments, reason, statement, signature };
    args.api.order::<route::HeldCallProposal>(&args.call.path(), &proposal).await
}
