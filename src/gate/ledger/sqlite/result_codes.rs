//! What SQLite's result codes prove about a write (<https://www.sqlite.org/rescode.html>), for both
//! drivers.

use crate::ledger::store::StoreError;

/// The meaning of a failure before COMMIT was sent: dropping the connection rolls the transaction
/// back.
pub(super) fn before_commit(error: &rusqlite::Error) -> StoreError {
    let text = error.to_string();
    let code = code_of(error).and_then(|code| known(code, &text));
    code.unwrap_or(StoreError::Unavailable(text))
}

/// The meaning of a failure of COMMIT itself: unknown, unless SQLite reports a rollback.
pub(super) fn at_commit(error: &rusqlite::Error) -> StoreError {
    let text = error.to_string();
    let code = code_of(error).and_then(|code| known(code, &text));
    code.unwrap_or(StoreError::Unknown(text))
}

fn code_of(error: &rusqlite::Error) -> Option<i64> {
    error.sqlite_error().map(|error| error.extended_code.into())
}

/// Codes with the same meaning at any moment.
pub(super) fn known(code: i64, text: &str) -> Option<StoreError> {
    const BUSY: i64 = 5;
    const LOCKED: i64 = 6;
    const CORRUPT: i64 = 11;
    const FULL: i64 = 13;
    const NOTADB: i64 = 26;
    const IOERR_FSYNC: i64 = 1034;
    const IOERR_DIR_FSYNC: i64 = 1290;
    let text = text.to_owned();
    // After a failed fsync the kernel may have dropped the pages: a second one proves nothing.
    if code == IOERR_FSYNC || code == IOERR_DIR_FSYNC {
        return Some(StoreError::Broken(text));
    }
    match code & 0xff {
        CORRUPT | NOTADB => Some(StoreError::Broken(text)),
        FULL => Some(StoreError::Full(text)),
        BUSY | LOCKED => Some(StoreError::Unavailable(text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_code_means_what_it_proves() {
        // Code, before COMMIT, at COMMIT.
        let table = [
            (13, "full", "full"),
            (5, "unavailable", "unavailable"),
            (261, "unavailable", "unavailable"),
            (11, "broken", "broken"),
            (267, "broken", "broken"),
            (26, "broken", "broken"),
            (1034, "broken", "broken"),
            (1290, "broken", "broken"),
            (778, "unavailable", "unknown"),
            (10, "unavailable", "unknown"),
            (8, "unavailable", "unknown"),
        ];
        for (code, before, at) in table {
            let code = rusqlite::ffi::Error::new(code);
            let error = rusqlite::Error::SqliteFailure(code, None);
            assert_eq!(before_commit(&error).as_str(), before, "{error} before");
            assert_eq!(at_commit(&error).as_str(), at, "{error} at");
        }
        let other = rusqlite::Error::InvalidQuery;
        assert_eq!(at_commit(&other).as_str(), "unknown");
    }
}
