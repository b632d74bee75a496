//! What a failure of the server or of the connection means for the bytes that were sent.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity};

use crate::ledger::store::StoreError;

/// Why a call failed, before its caller sees it.
#[derive(Debug)]
pub(super) enum Failure {
    /// For the caller as it is.
    Final(StoreError),
    /// The transaction was aborted for a reason that may pass at once (40001, 40P01).
    Again(StoreError),
}

impl Failure {
    /// The error for a caller that does not retry.
    pub(super) fn into_inner(self) -> StoreError {
        let (Self::Final(error) | Self::Again(error)) = self;
        error
    }
}

/// The meaning of a failure *after the statement was sent*.
pub(super) fn after_send(error: &Error) -> Failure {
    match aborted(error) {
        // WHY: FATAL may come after the commit record was written, while the server waited for a
        // standby (57P01). Only ERROR proves that the transaction was rolled back.
        Some(server) => meaning(server),
        None => unknown(error),
    }
}

/// The meaning of a failure that does not show whether the statement ran.
pub(super) fn unknown(error: &Error) -> Failure {
    Failure::Final(StoreError::Unknown(text(error)))
}

/// The meaning of a failure of a read, or before the statement was sent.
pub(super) fn nothing_written(error: &Error) -> Failure {
    aborted(error).map_or_else(|| Failure::Final(StoreError::Unavailable(text(error))), meaning)
}

/// The server's error about a transaction that it rolled back.
fn aborted(error: &Error) -> Option<&DbError> {
    let plain = |server: &DbError| server.severity() == "ERROR";
    error.as_db_error().filter(|server| {
        server.parsed_severity().map_or_else(|| plain(server), |found| found == Severity::Error)
    })
}

fn meaning(server: &DbError) -> Failure {
    let code = server.code().code();
    let text = format!("{code}: {}", server.message());
    Failure::Final(match code {
        "WG001" => StoreError::Conflict(server.message().to_owned()),
        "40001" | "40P01" => return Failure::Again(StoreError::Unavailable(text)),
        "53100" => StoreError::Full(text),
        // Data or index corrupted.
        "XX001" | "XX002" => StoreError::Broken(text),
        _ => StoreError::Unavailable(text),
    })
}

/// For people. The driver's texts contain no statement. A server's message contains only names of
/// ours; its details may contain values.
fn text(error: &Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(server), _) => format!("{}: {}", server.severity(), server.message()),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}
