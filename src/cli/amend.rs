//! `wicketgate policy propose | amendments | approve | refuse | activate`: a new policy, in front of two people.
//!
//! This program makes the statement to sign, from the files it fetched itself: the operator API
//! only carries it.

use std::path::PathBuf;

use super::api::{Answer, Api};
use super::argument::{digest, verdict};
use super::error::Occupied;
use super::report::{self, ReportedAction, joined};
use super::{BundleError, Cause, Exit, FileError, block_on, fail, say, sign};
use crate::approval::amendment::AmendmentStatement;
use crate::approval::{ApproverVerdict, Statement as _};
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};
use crate::operator::api::replies::{Amendment, AmendmentDetail, OrderReply};
use crate::operator::api::{Route, requests, route};
use crate::operator::visible;
use crate::policy::carried::BundleFiles;

/// Propose a signed bundle: every gate tests it and reports what it would change; it does not take effect yet
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate policy propose --bundle policy-1.3.0 --reason \"refunds need two people\" --token-file ada.token\n\n\
        Sign the bundle first (`wicketgate policy sign`); it has at most 512 KiB. The proposal replaces the bundle that is\n\
        in force when you send it; if that bundle changes meanwhile, propose again. A proposal expires after seven days.\n\
        Exits with 0 when every gate accepted it, with 1 when one refused it or did not answer.")]
pub struct Propose {
    /// The bundle's directory
    #[arg(long, value_name = "DIR")]
    bundle: PathBuf,
    /// Why; the approvers see it
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Digest of the bundle to replace (`sha256:…`), if gates have different bundles in force
    #[arg(long, value_name = "DIGEST")]
    base: Option<String>,
    #[command(flatten)]
    api: Api,
}

/// List proposals and their outcome
#[derive(Debug, clap::Args)]
pub struct ListAmendments {
    #[command(subcommand)]
    command: ProposalView,
}

#[derive(Debug, clap::Subcommand)]
enum ProposalView {
    /// List every proposal, its approvers, and whether it is in force
    List(AmendmentRows),
    /// Show one proposal with its files
    Show(ShowAmendment),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate policy amendments list --token-file grace.token")]
struct AmendmentRows {
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate policy amendments show sha256:… --token-file grace.token\n  \
    wicketgate policy amendments show sha256:… --out review --token-file grace.token")]
struct ShowAmendment {
    /// The bundle's digest (`sha256:…`)
    #[arg(value_parser = digest)]
    bundle: Digest,
    /// Write the files to this new directory
    #[arg(long, value_name = "PATH", conflicts_with = "statement")]
    out: Option<PathBuf>,
    /// Print only the bytes to sign for `approve` or `refuse`; sign them with `ssh-keygen -Y sign -n
    /// wicketgate-amendment`
    #[arg(long, value_name = "DECISION", value_parser = verdict, conflicts_with = "json")]
    statement: Option<ApproverVerdict>,
    #[command(flatten)]
    api: Api,
}

/// A signed decision about a proposed bundle; look at it first with `policy amendments show`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate policy amendments show sha256:… --out review --token-file grace.token\n  \
        wicketgate policy approve sha256:… --key ~/.ssh/id_ed25519 --token-file grace.token\n\n\
        The command downloads the files, computes their digest and signs that digest. Your key needs a line with\n\
        `namespaces=\"wicketgate-amendment\"` and `roles=policy_publisher` in the signed list. The author of a\n\
        proposal cannot approve it. Exits with 0 when every gate counted the signature, with 1 when one did not or did not answer.")]
pub struct SignAmendment {
    /// The bundle's digest (`sha256:…`)
    #[arg(value_parser = digest)]
    bundle: Digest,
    /// Sign with this SSH key: a private key file, or `ssh-agent:<public key file>`; if omitted, ~/.ssh/id_ed25519
    #[arg(long, value_name = "KEY")]
    key: Option<PathBuf>,
    /// Signature over the statement, made elsewhere (`policy amendments show --statement`)
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    signature: Option<PathBuf>,
    #[command(flatten)]
    api: Api,
}

/// Activate an approved bundle on every gate; a gate where it fails keeps the old bundle
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate policy activate sha256:… --token-file ada.token")]
pub struct Activate {
    /// The bundle's digest (`sha256:…`)
    #[arg(value_parser = digest)]
    bundle: Digest,
    #[command(flatten)]
    api: Api,
}

fn ended(work: impl Future<Output = Result<Exit, Exit>>) -> Exit {
    block_on(work).and_then(|done| done).unwrap_or_else(|exit| exit)
}

fn failed(why: impl std::fmt::Display) -> Exit {
    fail(Exit::Invalid, why)
}

/// An answer about a proposal that cannot be used.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The answer's files are not a bundle.
    #[error("the answer is not this bundle: {0}")]
    Files(Cause),
    /// The answer's files are another bundle.
    #[error("the answer is not this bundle: the files are {}", .0.prefixed())]
    Other(Digest),
    /// The statement to sign contradicts the proposal.
    #[error("the statement to sign does not match the proposal that was shown")]
    Statement,
}

/// Proposes.
pub fn propose(args: &Propose) -> Exit {
    ended(async {
        let read = BundleFiles::read(&args.bundle);
        let read = read.map_err(BundleError::at(&args.bundle)).map_err(failed)?;
        let files = read.bounded().map_err(failed)?.to_json().to_serde();
        let files = files.as_object().cloned().unwrap_or_default();
        let (base, reason) = (args.base.clone(), args.reason.clone());
        let proposal = requests::Proposal { files, base, reason };
        order::<route::AmendmentProposal>(&args.api, &(), &proposal).await
    })
}

/// Shows.
pub fn amendments(args: &ListAmendments) -> Exit {
    ended(async {
        match &args.command {
            ProposalView::List(args) => all(&args.api).await,
            ProposalView::Show(args) => show(args).await,
        }
    })
}

/// Approves or refuses.
pub fn give(verdict: ApproverVerdict, args: &SignAmendment) -> Exit {
    ended(async {
        let (Answer { reply, .. }, _) = fetched(&args.api, &args.bundle).await?;
        let statement = statement(&reply, &args.bundle, verdict)?;
        if !args.api.json {
            summary(&reply.amendment);
        }
        let with = (args.key.as_deref(), args.signature.as_deref());
        let signed =
            requests::SignedStatement::from(sign::signed(with, &statement).map_err(failed)?);
        order::<route::AmendmentDecision>(&args.api, &path(&args.bundle), &signed).await
    })
}

/// Puts in force.
pub fn activate(args: &Activate) -> Exit {
    ended(async {
        let path = path(&args.bundle);
        order::<route::AmendmentActivation>(&args.api, &path, &requests::Empty {}).await
    })
}

fn path(bundle: &Digest) -> requests::BundlePath {
    requests::BundlePath { bundle: bundle.prefixed() }
}

/// One proposal, with its files checked against its digest.
async fn fetched(
    api: &Api,
    bundle: &Digest,
) -> Result<(Answer<AmendmentDetail>, BundleFiles), Exit> {
    let answer = api.ask::<route::AmendmentDetail>(&path(bundle), &()).await?;
    let unreadable = |why: Cause| fail(Exit::Unverifiable, Error::Files(why));
    let files = answer.reply.files.to_string();
    let files = Json::parse(files.as_bytes(), &Limits::FILE).map_err(|e| unreadable(e.into()))?;
    let files = BundleFiles::parse(&files).map_err(|e| unreadable(e.into()))?;
    let (found, _) = files.described().map_err(|e| unreadable(e.into()))?;
    if found == *bundle {
        return Ok((answer, files));
    }
    Err(fail(Exit::Unverifiable, Error::Other(found)))
}

/// The statement to sign, made from the answer and from the request.
fn statement(
    AmendmentDetail { amendment, statement, .. }: &AmendmentDetail,
    bundle: &Digest,
    verdict: ApproverVerdict,
) -> Result<AmendmentStatement, Exit> {
    let made = AmendmentStatement::parse(statement.as_bytes()).map_err(failed)?;
    let Amendment { base, author, expires, .. } = amendment;
    let shown = (Digest::parse(base), author.as_str(), expires.as_str());
    let signed = (Some(made.base), made.author.as_str(), &*made.expires.to_string());
    if made.bundle != *bundle || shown != signed {
        return Err(fail(Exit::Unverifiable, Error::Statement));
    }
    Ok(AmendmentStatement { verdict, ..made })
}

async fn all(api: &Api) -> Result<Exit, Exit> {
    let Answer { body, reply } = api.ask::<route::Amendments>(&(), &()).await?;
    if api.json {
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    if reply.amendments.is_empty() {
        say("there are no proposals");
    }
    reply.amendments.iter().for_each(summary);
    Ok(Exit::Ok)
}

async fn show(args: &ShowAmendment) -> Result<Exit, Exit> {
    let (Answer { body, reply }, files) = fetched(&args.api, &args.bundle).await?;
    if let Some(verdict) = args.statement {
        return Ok(sign::printed(&statement(&reply, &args.bundle, verdict)?));
    }
    if args.api.json {
        say(body.to_string());
    } else {
        summary(&reply.amendment);
        report::print_each(&reply.amendment.gates, gate);
    }
    if let Some(dir) = &args.out {
        if dir.exists() {
            return Err(failed(Occupied::File(dir.clone())));
        }
        files.write(dir).map_err(FileError::at(dir)).map_err(failed)?;
    }
    Ok(Exit::Ok)
}

/// One proposal, for a person.
fn summary(amendment: &Amendment) {
    let Amendment { bundle, base, version, author, reason, proposed, expires, standing, .. } =
        amendment;
    say(visible(&format!("{bundle}  {version}  {standing}")));
    say(visible(&format!("  replaces {base}")));
    say(visible(&format!("  proposed by {author} at {proposed}, ends {expires}")));
    if !reason.is_empty() {
        say(format!("  because: {}", visible(reason)));
    }
    for (subjects, what) in
        [(&amendment.approved_by, "approved"), (&amendment.refused_by, "REFUSED")]
    {
        for subject in subjects {
            say(format!("  {what} by {}", visible(subject)));
        }
    }
}

/// What one gate did, for a person.
fn gate(origin: &str, done: &ReportedAction) {
    if let Some(error) = &done.error {
        say(format!("  {origin}: REFUSED: {} ({})", visible(error), visible(&done.code)));
    } else if done.activated {
        say(format!("  {origin}: {} is in force", visible(&done.bundle)));
    } else if done.counted == Some(true) {
        let ReportedAction { approvals, needed, .. } = done;
        say(format!("  {origin}: counted; {approvals} of {needed} approvals"));
    } else {
        let (changed, agents) = (joined(&done.changed), joined(&done.agents));
        say(format!("  {origin}: changes {changed}; binds {agents}"));
        for finding in &done.findings {
            say(format!("    - {}", visible(finding)));
        }
    }
}

/// Gives an order and prints its outcome.
async fn order<R: Route<Reply = OrderReply>>(
    api: &Api,
    path: &R::Path,
    request: &R::Request,
) -> Result<Exit, Exit> {
    let Answer { body, reply: OrderReply { outcome, .. } } = api.ask::<R>(path, request).await?;
    if api.json {
        say(body.to_string());
    } else {
        say(format!("order {}", outcome.seq));
        report::print_each(&outcome.gates, gate);
        report::print_silent(&outcome.not_reached);
        if outcome.gates.is_empty() {
            say("NO GATE HAS ANSWERED YET: each gate answers as soon as it reads the order");
        }
    }
    Ok(if outcome.complete { Exit::Ok } else { Exit::Invalid })
}
