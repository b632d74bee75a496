//! `wicketgate control finding`: single values that pass the firewall, for a while.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::PathBuf;

use super::api::{Answer, Api};
use super::argument::tool;
use super::{Exit, Failure, fail, say, sign};
use crate::approval::order::{AllowedFinding, DIRECTIONS, OrderKind, OrderStatement};
use crate::clock::{Clock as _, SystemClock};
use crate::domain::id::ToolName;
use crate::domain::time::Timestamp;
use crate::operator::api::replies::FindingException;
use crate::operator::api::{requests, route};
use crate::operator::visible;
use crate::record::Nonce;

/// Let one value pass the firewall, in one place of the calls of one tool, for a while.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the values that pass, who signed for them, and until when
    List(ListFindings),
    /// Let a value pass, signed with your SSH key
    Allow(AllowFinding),
    /// Let a value pass no more
    Revoke(RevokeFinding),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wicketgate control finding list --token-file otto.token")]
struct ListFindings {
    #[command(flatten)]
    api: Api,
}

/// A value that passes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate control finding allow file.write --kind github --path /content --mark 5f0c3d1e9a7b4c2d8e6f1a0b3c5d7e9f \\\n    \
        --expires 2026-12-24T00:00:00.000Z --reason \"fixture of the tests\" --token-file otto.token\n  \
        wicketgate control finding allow file.write --kind github --path /content --mark 5f0c3d1e9a7b4c2d8e6f1a0b3c5d7e9f \\\n    \
        --expires 2026-12-24T00:00:00.000Z --reason \"fixture\" --statement --token-file otto.token > order\n  \
        ssh-keygen -Y sign -f ~/.ssh/id_ed25519 -n wicketgate-order order\n  \
        wicketgate control finding allow --order order --signature order.sig --token-file otto.token\n\n\
        The refusal of the call names kind, path and mark, and not the value. Your key must be in the signed list of approvers\n\
        (`approvals.signers`) with `namespaces=\"wicketgate-order\"` and the role `operator`. Other values, other tools and\n\
        other places stay blocked. Exits with 0 when every gate applied it.")]
struct AllowFinding {
    /// Tool in whose calls it passes
    #[arg(required_unless_present = "order", value_parser = tool)]
    tool: Option<ToolName>,
    /// Kind of the finding, such as `github`
    #[arg(long, value_name = "KIND", required_unless_present = "order")]
    kind: Option<String>,
    /// JSON pointer of the text with it, such as `/content`
    #[arg(long, value_name = "POINTER", required_unless_present = "order")]
    path: Option<String>,
    /// Mark of the value: 32 hex digits
    #[arg(long, value_name = "MARK", required_unless_present = "order", value_parser = mark)]
    mark: Option<Nonce>,
    /// Where it passes
    #[arg(long, value_name = "WHERE", default_value = "arguments", value_parser = DIRECTIONS)]
    direction: String,
    /// Why; it is recorded in the ledger
    #[arg(long, value_name = "TEXT", required_unless_present = "order")]
    reason: Option<String>,
    /// Time at which the order ends by itself, at most 90 days from now, such as 2026-11-21T20:05:03.123Z
    #[arg(long, value_name = "INSTANT", required_unless_present = "order")]
    expires: Option<String>,
    /// Sign with this SSH key: a private key file, or `ssh-agent:<public key file>`; if omitted, ~/.ssh/id_ed25519
    #[arg(long, value_name = "KEY", conflicts_with = "signature")]
    key: Option<PathBuf>,
    /// Print only the bytes to sign; sign them with `ssh-keygen -Y sign -n wicketgate-order`
    #[arg(long, conflicts_with_all = ["json", "key", "order"])]
    statement: bool,
    /// File with the bytes that `--statement` printed, signed elsewhere
    #[arg(long, value_name = "FILE", requires = "signature",
        conflicts_with_all = ["tool", "kind", "path", "mark", "reason", "expires"])]
    order: Option<PathBuf>,
    /// Signature over the bytes of `--order`
    #[arg(long, value_name = "FILE", requires = "order")]
    signature: Option<PathBuf>,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate control finding revoke 12 --reason \"the key was real\" --token-file otto.token")]
struct RevokeFinding {
    /// Number of the order that let it pass, as `list` shows it
    seq: NonZeroU64,
    /// Why; it is recorded in the ledger
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    api: Api,
}

/// What is wrong with an order before it is sent.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// Its end.
    #[error("`--expires` needs a time such as 2026-11-21T20:05:03.123Z")]
    Expires,
    /// What it is about.
    #[error("a value passes for at most 90 days from now, at a path such as `/content`")]
    Bounds,
}

fn mark(text: &str) -> Result<Nonce, String> {
    Nonce::parse(text).ok_or_else(|| {
        "a mark is 32 hex digits in lower case, as the refusal of the call names it".to_owned()
    })
}

/// Runs it.
pub(super) async fn run(args: &Args) -> Result<Exit, Exit> {
    match &args.command {
        Command::List(args) => list(args).await,
        Command::Allow(args) => allow(args).await,
        Command::Revoke(args) => {
            let path = requests::OrderPath { seq: args.seq };
            let end = requests::ExceptionEnd { reason: args.reason.clone() };
            args.api.order::<route::FindingExceptionEnd>(&path, &end).await
        }
    }
}

async fn allow(args: &AllowFinding) -> Result<Exit, Exit> {
    let signing = sign::OrderSigning {
        with: (args.key.as_deref(), args.signature.as_deref()),
        order: args.order.as_deref(),
        prints: args.statement,
    };
    let signed = sign::order(signing, to_sign(args)).await?;
    args.api.order::<route::FindingAllowance>(&(), &signed).await
}

/// The statement that lets the value pass, after the newest order on the list.
async fn to_sign(args: &AllowFinding) -> Result<OrderStatement, Exit> {
    let usage = |error: Error| fail(Exit::Usage, error);
    let expires = args.expires.as_deref().and_then(Timestamp::parse);
    let expires = expires.ok_or_else(|| usage(Error::Expires))?;
    let head = args.api.newest::<route::NewestOrder>().await;
    let (tenant, previous) = head.map_err(Failure::print)?;
    let statement = OrderStatement {
        tenant,
        order: OrderKind::Allow,
        target: "tool".to_owned(),
        name: args.tool.as_ref().map(ToString::to_string).unwrap_or_default(),
        finding: Some(AllowedFinding {
            direction: args.direction.clone(),
            kind: args.kind.clone().unwrap_or_default(),
            mark: args.mark.unwrap_or(Nonce([0; 16])),
            path: args.path.clone().unwrap_or_default(),
        }),
        role: None,
        payloads: BTreeSet::new(),
        request: None,
        reason: args.reason.clone().unwrap_or_default(),
        at: SystemClock::new().now(),
        expires: Some(expires),
        previous,
    };
    // WHY here: a person must not sign what no gate takes.
    let is_bounded = crate::approval::Statement::bounded(&statement).is_ok();
    if is_bounded { Ok(statement) } else { Err(usage(Error::Bounds)) }
}

async fn list(args: &ListFindings) -> Result<Exit, Exit> {
    let Answer { body, reply } = args.api.ask::<route::FindingAllowances>(&(), &()).await?;
    if args.api.json {
        say(body.to_string());
        return Ok(Exit::Ok);
    }
    if reply.exceptions.is_empty() {
        say("no value passes the firewall by a signed order");
    }
    reply.exceptions.iter().for_each(line);
    if reply.more {
        say("more: `wicketgate control list` has all orders");
    }
    Ok(Exit::Ok)
}

fn line(one: &FindingException) {
    let FindingException { seq, tool, direction, kind, path, mark, subject, reason, .. } = one;
    let FindingException { expires, state, .. } = one;
    let line = format!(
        "{seq}  {state}  {tool} {direction} {kind} {path} {mark}  until {expires}  {subject}  {reason}"
    );
    say(visible(line.trim_end()));
}
