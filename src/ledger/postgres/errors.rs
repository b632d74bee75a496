//! What a failure of the server or of the connection means for the bytes that were sent.

use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::ledger::store::StoreError;

/// Why a call failed, before it is told to the caller.
#[derive(Debug)]
pub(super) enum Failure {
    /// Told to the caller as it is.
    Final(StoreError),
    /// The transaction was aborted for a reason that may be gone at once (40001, 40P01).
    Again(StoreError),
}

impl Failure {
    /// As the caller is told, who does not try again.
    pub(super) fn told(self) -> StoreError {
        let (Self::Final(error) | Self::Again(error)) = self;
        error
    }
}

/// What a failure *after the statement was sent* means.
pub(super) fn after_send(error: &sqlx::Error) -> Failure {
    let unknown = || Failure::Final(StoreError::Unknown(text(error)));
    match server_error(error) {
        // WHY: FATAL may come after the commit record was written, while the server waited for a
        // standby (57P01). Only ERROR says that the transaction was rolled back.
        Some(server) if server.severity() == PgSeverity::Error => aborted(server),
        Some(_) | None => unknown(),
    }
}

/// What a failure of a read, or of anything before the statement was sent, means.
pub(super) fn nothing_written(error: &sqlx::Error) -> Failure {
    match server_error(error) {
        Some(server) if server.severity() == PgSeverity::Error => aborted(server),
        Some(_) | None => Failure::Final(StoreError::Unavailable(text(error))),
    }
}

fn aborted(server: &PgDatabaseError) -> Failure {
    let text = format!("{}: {}", server.code(), server.message());
    Failure::Final(match server.code() {
        "WG001" => StoreError::Conflict(server.message().to_owned()),
        "40001" | "40P01" => return Failure::Again(StoreError::Unavailable(text)),
        "53100" => StoreError::Full(text),
        // Data or index corrupted.
        "XX001" | "XX002" => StoreError::Broken(text),
        _ => StoreError::Unavailable(text),
    })
}

fn server_error(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()
}

fn text(error: &sqlx::Error) -> String {
    // The driver's texts carry no statement; a server's message carries none of our values but names.
    error.to_string()
}
