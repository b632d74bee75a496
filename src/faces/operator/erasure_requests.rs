//! Requests to erase and to hold, as they arrive at the operator API.

use std::collections::BTreeSet;

use super::OperatorApi;
use super::api::requests;
use super::erasures::problem;
use crate::approval::order::{OrderStatement, PAYLOADS_MAX};
use crate::approval::{SignedApproval, Statement as _};
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::evidence::erasure::{self, ErasureRequest, HoldOn};
use crate::serve::problem::Problem;

/// Bytes of a reason and a log's name, of a role or a run, and of a statement or a signature.
const REASON_MAX: usize = 1024;
const NAME_MAX: usize = 256;
const SIGNED_MAX: usize = 20 * 1024;

/// A request to erase.
#[derive(Clone, Debug)]
pub(super) struct EraseRequest {
    pub selection: ErasureRequest,
    /// The signed order; without one, the reply only says what would be erased.
    pub order: Option<SignedApproval>,
    /// Rewrite the file of a SQLite ledger in any case.
    pub anew: bool,
}

/// A request to hold, or to lift that.
#[derive(Clone, Debug)]
pub(super) enum HoldRequest {
    /// To place one, and why.
    Place(HoldOn, String),
    /// To end one.
    Lift(HoldOn, SignedApproval),
}

/// What is wrong with a request.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("`{0}` is text of 1 to {1} bytes")]
    Text(&'static str, usize),
    #[error("`run` is the id of a run")]
    Run,
    #[error("`commitments` is a list of 1 to {PAYLOADS_MAX} times 64 hex digits")]
    Commitments,
    #[error("`statement` and `signature` belong together")]
    Half,
    #[error("`statement`: {0}")]
    Statement(String),
    #[error("the statement says it: leave out `{0}`")]
    Beside(&'static str),
    #[error(
        "an erasure needs a signed order: send `statement` and `signature`, or `dry_run` to see what would be erased"
    )]
    Unsigned,
    #[error("name a `run` or `commitments`")]
    Nothing,
    #[error("a `run` or `commitments`, not both")]
    Both,
    #[error("`role` narrows a `run`")]
    Role,
    #[error("name a `run` or a `log`")]
    HoldOn,
    #[error("`reason` says why the payloads are held: write one")]
    Reason,
    #[error(transparent)]
    Order(#[from] erasure::Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (code, detail) = match &error {
            Error::Order(error) => return problem(error),
            Error::Unsigned => (Code::OperatorForbidden, "order.unsigned"),
            Error::Text(..)
            | Error::Run
            | Error::Commitments
            | Error::Half
            | Error::Statement(_)
            | Error::Beside(_)
            | Error::Nothing
            | Error::Both
            | Error::Role
            | Error::HoldOn
            | Error::Reason => (Code::RequestMalformed, ""),
        };
        Self::new(code, detail, error.to_string())
    }
}

/// A text that is not blank, of bounded length.
fn bounded(name: &'static str, text: Option<String>, most: usize) -> Result<Option<String>, Error> {
    let fits = |text: &String| !text.trim().is_empty() && text.len() <= most;
    match text {
        Some(text) if !fits(&text) => Err(Error::Text(name, most)),
        text => Ok(text),
    }
}

fn run(text: Option<String>) -> Result<Option<RunId>, Error> {
    let text = bounded("run", text, NAME_MAX)?;
    text.map(|text| RunId::parse(&text).ok_or(Error::Run)).transpose()
}

fn commitments(list: Option<Vec<String>>) -> Result<BTreeSet<Digest>, Error> {
    let Some(list) = list else { return Ok(BTreeSet::new()) };
    if !(1..=PAYLOADS_MAX).contains(&list.len()) {
        return Err(Error::Commitments);
    }
    list.iter().map(|one| Digest::parse(one).ok_or(Error::Commitments)).collect()
}

/// A signed order, and its statement.
fn order(
    statement: Option<String>,
    signature: Option<String>,
) -> Result<Option<(OrderStatement, SignedApproval)>, Error> {
    let statement = bounded("statement", statement, SIGNED_MAX)?;
    let (statement, signature) = match (statement, bounded("signature", signature, SIGNED_MAX)?) {
        (None, None) => return Ok(None),
        (Some(statement), Some(signature)) => (statement, signature),
        (Some(_), None) | (None, Some(_)) => return Err(Error::Half),
    };
    let read = OrderStatement::parse(statement.as_bytes());
    let read = read.map_err(|why| Error::Statement(why.to_string()))?;
    Ok(Some((read, SignedApproval { statement, signature })))
}

/// Refuses members that repeat or contradict the statement.
fn nothing_beside(members: &[(&'static str, bool)]) -> Result<(), Error> {
    match members.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Error::Beside(name)),
        None => Ok(()),
    }
}

impl OperatorApi {
    /// Reads a request to erase.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn erasure_request(&self, sent: requests::Erasure) -> Result<EraseRequest, Problem> {
        erasure(sent).map_err(|error| self.refuse(error.into()))
    }

    /// Reads a request to hold.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn hold_request(&self, sent: requests::LegalHold) -> Result<HoldRequest, Problem> {
        hold(sent).map_err(|error| self.refuse(error.into()))
    }
}

fn erasure(sent: requests::Erasure) -> Result<EraseRequest, Error> {
    let anew = sent.vacuum;
    if let Some((statement, order)) = order(sent.statement, sent.signature)? {
        nothing_beside(&[
            ("run", sent.run.is_some()),
            ("role", sent.role.is_some()),
            ("commitments", sent.commitments.is_some()),
            ("dry_run", sent.dry_run),
        ])?;
        return Ok(EraseRequest {
            selection: ErasureRequest::of(&statement)?,
            order: Some(order),
            anew,
        });
    }
    if !sent.dry_run {
        return Err(Error::Unsigned);
    }
    let (run, role) = (run(sent.run)?, bounded("role", sent.role, NAME_MAX)?);
    let commitments = commitments(sent.commitments)?;
    match (&run, commitments.is_empty(), &role) {
        (None, true, _) => Err(Error::Nothing),
        (Some(_), false, _) => Err(Error::Both),
        (None, false, Some(_)) => Err(Error::Role),
        (Some(_), true, _) | (None, false, None) => Ok(EraseRequest {
            selection: ErasureRequest { run, role, commitments },
            order: None,
            anew,
        }),
    }
}

fn hold(sent: requests::LegalHold) -> Result<HoldRequest, Error> {
    if let Some((statement, order)) = order(sent.statement, sent.signature)? {
        nothing_beside(&[
            ("run", sent.run.is_some()),
            ("log", sent.log.is_some()),
            ("reason", sent.reason.is_some()),
        ])?;
        return Ok(HoldRequest::Lift(HoldOn::of(&statement)?, order));
    }
    let on = match (run(sent.run)?, bounded("log", sent.log, REASON_MAX)?) {
        (Some(run), None) => HoldOn::Run(run),
        (None, Some(log)) => HoldOn::Log(log),
        (None, None) | (Some(_), Some(_)) => return Err(Error::HoldOn),
    };
    let reason = bounded("reason", sent.reason, REASON_MAX)?.ok_or(Error::Reason)?;
    Ok(HoldRequest::Place(on, reason))
}
