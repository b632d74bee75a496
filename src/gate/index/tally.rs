//! How many calls there were since a time, and what became of them.

use rusqlite::{Connection, params};

use super::sqlite;
use crate::domain::time::Timestamp;

/// Calls are counted up to here: a number above it says that there are more.
pub const COUNTED_MAX: u64 = 10_000;

/// Calls that began since a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallTally {
    /// All.
    pub calls: u64,
    /// Denied ones, refused ones included.
    pub denied: u64,
    /// Those that wait for an approval.
    pub held: u64,
    /// Those that were held, and were not refused by a person.
    pub approved: u64,
    /// Those that a person refused, or that were denied after a person had approved.
    pub refused: u64,
    /// Those that were not approved in time.
    pub expired: u64,
}

/// Calls in a state; of those that a person decided, one mark each.
const ALL: &str = "SELECT 1 FROM call WHERE at >= ?1";
const OF_STATE: &str = "SELECT 1 FROM call WHERE state = ?2 AND at >= ?1";
const DECIDED: &str = "SELECT 1 FROM (SELECT DISTINCT chain, seq FROM mark WHERE kind = 'by') JOIN call USING (chain, seq) \
    WHERE at >= ?1";

/// Counts them.
pub(super) fn tally(conn: &Connection, since: Timestamp) -> rusqlite::Result<CallTally> {
    let limit = COUNTED_MAX.saturating_add(1);
    let count = |rows: &str, state: Option<&str>| {
        let sql = format!("SELECT count(*) FROM ({rows} LIMIT {limit})");
        let mut query = conn.prepare_cached(&sql)?;
        let read = |row: &rusqlite::Row<'_>| sqlite::unsigned(row, 0);
        match state {
            None => query.query_row(params![since.millis()], read),
            Some(state) => query.query_row(params![since.millis(), state], read),
        }
    };
    Ok(CallTally {
        calls: count(ALL, None)?,
        denied: count(OF_STATE, Some("denied"))?,
        held: count(OF_STATE, Some("held"))?,
        approved: count(
            &format!("{DECIDED} AND state NOT IN ('held', 'denied', 'expired')"),
            None,
        )?,
        refused: count(&format!("{DECIDED} AND state = 'denied'"), None)?,
        expired: count(OF_STATE, Some("expired"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(conn: &Connection, seq: i64, at: i64, state: &str, by: Option<&str>) {
        let put = "INSERT INTO call VALUES (x'00', ?1, ?2, 'r', 'c', 'a', '1', 't', 'T1', 'allow', 1, ?3, '', '', '', '', \
                   NULL, 0, 0, '[]', '[]', ?1)";
        conn.execute(put, params![seq, at, state]).unwrap();
        if let Some(by) = by {
            let put = "INSERT INTO mark VALUES ('by', ?1, x'00', ?2)";
            conn.execute(put, params![by, seq]).unwrap();
        }
    }

    #[test]
    fn each_call_since_then_is_counted_by_what_became_of_it() {
        let conn = sqlite::open(None).unwrap();
        let calls = [
            (5, "completed", Some("before")),
            (10, "completed", None),
            (11, "completed", Some("anna")),
            (12, "denied", Some("anna")),
            (13, "denied", None),
            (14, "held", Some("anna")),
            (15, "expired", Some("anna")),
            (16, "expired", None),
        ];
        for (seq, (at, state, by)) in (0..).zip(calls) {
            insert(&conn, seq, at, state, by);
        }
        // Two who approved are one call.
        let put = "INSERT INTO mark VALUES ('by', 'bo', x'00', 2)";
        conn.execute(put, []).unwrap();
        let expected =
            CallTally { calls: 7, denied: 2, held: 1, approved: 1, refused: 1, expired: 2 };
        assert_eq!(tally(&conn, Timestamp::from_millis(10)).unwrap(), expected);
        assert_eq!(tally(&conn, Timestamp::from_millis(99)).unwrap(), CallTally::default());
    }

    #[test]
    fn counting_ends_above_ten_thousand() {
        let conn = sqlite::open(None).unwrap();
        conn.execute_batch("BEGIN").unwrap();
        (0..10_100).for_each(|seq| insert(&conn, seq, 1, "denied", None));
        conn.execute_batch("COMMIT").unwrap();
        let all = tally(&conn, Timestamp::from_millis(0)).unwrap();
        assert_eq!((all.calls, all.denied), (10_001, 10_001));
    }
}
