//! How many calls there were since a time, and what became of them.

use super::Error;
use super::columns::{IndexStatement, IndexValue};
use super::store::IndexStore;
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

/// Calls in a state; of those that a person decided, one each.
const ALL: &str = "SELECT 1 FROM call WHERE at >= ?";
const OF_STATE: &str = "SELECT 1 FROM call WHERE state = ? AND at >= ?";
const DECIDED: &str = "SELECT 1 FROM (SELECT DISTINCT chain, seq FROM mark WHERE kind = 'by' AND at >= ?) AS decided \
    JOIN call ON call.chain = decided.chain AND call.seq = decided.seq";

/// Counts them.
pub(super) async fn tally(store: &IndexStore, since: Timestamp) -> Result<CallTally, Error> {
    let count = async |rows: &str, values: Vec<IndexValue>| -> Result<u64, Error> {
        let limit = COUNTED_MAX.saturating_add(1);
        let sql = format!("SELECT count(*) FROM ({rows} LIMIT {limit}) AS counted");
        let counted = store.find(IndexStatement::of(&sql, values), |row| row.number(0)).await?;
        Ok(counted.first().copied().unwrap_or_default())
    };
    let of_state = |state: &str| vec![state.into(), since.into()];
    let decided = |states: &str| format!("{DECIDED} WHERE state {states}");
    Ok(CallTally {
        calls: count(ALL, vec![since.into()]).await?,
        denied: count(OF_STATE, of_state("denied")).await?,
        held: count(OF_STATE, of_state("held")).await?,
        approved: count(&decided("NOT IN ('held', 'denied', 'expired')"), vec![since.into()])
            .await?,
        refused: count(&decided("= 'denied'"), vec![since.into()]).await?,
        expired: count(OF_STATE, of_state("expired")).await?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::sqlite::SqliteIndex;
    use super::*;

    const CALLS: &str = "INSERT INTO call SELECT x'00', value ->> 0, value ->> 1, 'r', 'c', 'a', '1', 't', 'T1', 'allow', 1, \
        value ->> 2, '', '', '', '', NULL, 0, 0, '', '[]', '[]', '[]', 0 FROM json_each(?1)";
    const MARKS: &str = "INSERT INTO mark SELECT 'by', value ->> 0, value ->> 1, x'00', value ->> 2 FROM json_each(?1)";

    async fn store(calls: String, marks: String) -> IndexStore {
        let store = SqliteIndex::memory().unwrap();
        store.fill_by_hand([(CALLS, calls), (MARKS, marks)]).await.unwrap();
        IndexStore::Sqlite(store)
    }

    #[tokio::test]
    async fn each_call_since_then_is_counted_by_what_became_of_it() {
        let calls = r#"[[0,5,"completed"],[1,10,"completed"],[2,11,"completed"],[3,12,"denied"],[4,13,"denied"],
            [5,14,"held"],[6,15,"expired"],[7,16,"expired"]]"#;
        // Two who approved are one call.
        let marks = r#"[["before",5,0],["anna",11,2],["bo",11,2],["anna",12,3],["anna",14,5],["anna",15,6]]"#;
        let store = store(calls.to_owned(), marks.to_owned()).await;
        let expected =
            CallTally { calls: 7, denied: 2, held: 1, approved: 1, refused: 1, expired: 2 };
        assert_eq!(tally(&store, Timestamp::from_millis(10)).await.unwrap(), expected);
        let none = tally(&store, Timestamp::from_millis(99)).await.unwrap();
        assert_eq!(none, CallTally::default());
    }

    #[tokio::test]
    async fn counting_ends_above_ten_thousand() {
        let calls: Vec<_> = (0..10_100).map(|seq| serde_json::json!([seq, 1, "denied"])).collect();
        let store = store(serde_json::to_string(&calls).unwrap(), "[]".to_owned()).await;
        let all = tally(&store, Timestamp::from_millis(0)).await.unwrap();
        assert_eq!((all.calls, all.denied), (10_001, 10_001));
    }
}
