//! The rows of the index as both stores keep them: the same columns in the same order, and the same statements over them.

use super::Error;
use super::query::CallState;
use super::rows::{CallCounts, CallRow, RunRow};
use crate::domain::digest::Digest;
use crate::domain::id::ChainId;
use crate::domain::time::Timestamp;

/// The columns of a call, in the order of [`call`] and [`call_values`].
pub(super) const CALL: [&str; 24] = [
    "chain",
    "seq",
    "at",
    "run",
    "call",
    "agent",
    "version",
    "tool",
    "tier",
    "verdict",
    "enforced",
    "state",
    "code",
    "detail",
    "rule",
    "outcome",
    "us",
    "masked",
    "approvals",
    "decided_by",
    "codes",
    "findings",
    "hosts",
    "last",
];

/// The columns of a run, in the order of [`run`] and [`run_values`].
pub(super) const RUN: [&str; 14] = [
    "run", "chain", "seq", "at", "agent", "version", "manifest", "parent", "sealed", "reason",
    "calls", "running", "held", "denied",
];

/// Columns of the table of this name, as a statement lists them.
pub(super) fn of(table: &str, columns: &[&str]) -> String {
    let named: Vec<String> = columns.iter().map(|column| format!("{table}.{column}")).collect();
    named.join(", ")
}

/// One value of a row or of a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum IndexValue {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&str> for IndexValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for IndexValue {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<Timestamp> for IndexValue {
    fn from(at: Timestamp) -> Self {
        Self::Integer(at.millis())
    }
}

impl From<&ChainId> for IndexValue {
    fn from(chain: &ChainId) -> Self {
        Self::Bytes(chain.as_bytes().to_vec())
    }
}

impl<T: Into<Self>> From<Option<T>> for IndexValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A statement with `$1`, `$2`, … in the order in which they stand in it, so that both databases number them alike.
#[derive(Clone, Debug)]
pub(super) struct IndexStatement {
    pub sql: String,
    pub values: Vec<IndexValue>,
}

impl IndexStatement {
    /// A statement with a `?` for each value, in order.
    pub fn of(marked: &str, values: Vec<IndexValue>) -> Self {
        let mut sql = String::with_capacity(marked.len());
        for (i, part) in marked.split('?').enumerate() {
            if i > 0 {
                sql.push_str(&format!("${i}"));
            }
            sql.push_str(part);
        }
        Self { sql, values }
    }
}

/// A row of either database, read by the places of its columns.
pub(super) trait IndexColumns {
    fn maybe_text(&self, at: usize) -> Result<Option<String>, Error>;
    fn maybe_integer(&self, at: usize) -> Result<Option<i64>, Error>;
    fn maybe_bytes(&self, at: usize) -> Result<Option<Vec<u8>>, Error>;

    fn text(&self, at: usize) -> Result<String, Error> {
        self.maybe_text(at)?.ok_or(Error::Malformed)
    }

    fn integer(&self, at: usize) -> Result<i64, Error> {
        self.maybe_integer(at)?.ok_or(Error::Malformed)
    }

    fn number(&self, at: usize) -> Result<u64, Error> {
        u64::try_from(self.integer(at)?).map_err(|_| Error::Malformed)
    }

    fn instant(&self, at: usize) -> Result<Timestamp, Error> {
        self.integer(at).map(Timestamp::from_millis)
    }

    fn chain(&self, at: usize) -> Result<ChainId, Error> {
        let bytes = self.maybe_bytes(at)?.and_then(|bytes| bytes.try_into().ok());
        bytes.map(ChainId::from_bytes).ok_or(Error::Malformed)
    }

    fn digest(&self, at: usize) -> Result<Digest, Error> {
        let bytes = self.maybe_bytes(at)?.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Digest::from_bytes).ok_or(Error::Malformed)
    }

    fn list(&self, at: usize) -> Result<Vec<String>, Error> {
        serde_json::from_str(&self.text(at)?).map_err(|_| Error::Malformed)
    }
}

/// Reads one row.
pub(super) type ReadRow<T> = fn(&dyn IndexColumns) -> Result<T, Error>;

/// Reads the columns [`CALL`].
pub(super) fn call(row: &dyn IndexColumns) -> Result<CallRow, Error> {
    Ok(CallRow {
        chain: row.chain(0)?,
        seq: row.number(1)?,
        at: row.instant(2)?,
        run: row.text(3)?,
        call: row.text(4)?,
        agent: row.text(5)?,
        version: row.text(6)?,
        tool: row.text(7)?,
        tier: row.text(8)?,
        verdict: row.text(9)?,
        enforced: row.integer(10)? != 0,
        state: CallState::parse(&row.text(11)?).unwrap_or(CallState::Unknown),
        code: row.text(12)?,
        detail: row.text(13)?,
        rule: row.text(14)?,
        outcome: row.text(15)?,
        us: row.maybe_integer(16)?.and_then(|us| u64::try_from(us).ok()),
        masked: row.number(17)?,
        approvals: row.number(18)?,
        decided_by: row.list(19)?,
        codes: row.list(20)?,
        findings: row.list(21)?,
        hosts: row.list(22)?,
        last: row.number(23)?,
    })
}

/// Reads the columns [`RUN`].
pub(super) fn run(row: &dyn IndexColumns) -> Result<RunRow, Error> {
    Ok(RunRow {
        run: row.text(0)?,
        chain: row.chain(1)?,
        seq: row.number(2)?,
        at: row.instant(3)?,
        agent: row.text(4)?,
        version: row.text(5)?,
        manifest: row.text(6)?,
        parent: row.text(7)?,
        sealed: row.maybe_integer(8)?.map(Timestamp::from_millis),
        reason: row.text(9)?,
        counts: CallCounts {
            all: row.number(10)?,
            running: row.number(11)?,
            held: row.number(12)?,
            denied: row.number(13)?,
        },
    })
}

fn listed(list: &[String]) -> IndexValue {
    IndexValue::Text(serde_json::to_string(list).unwrap_or_default())
}

/// The values of the columns [`CALL`].
pub(super) fn call_values(row: &CallRow) -> [IndexValue; 24] {
    [
        (&row.chain).into(),
        row.seq.into(),
        row.at.into(),
        row.run.as_str().into(),
        row.call.as_str().into(),
        row.agent.as_str().into(),
        row.version.as_str().into(),
        row.tool.as_str().into(),
        row.tier.as_str().into(),
        row.verdict.as_str().into(),
        u64::from(row.enforced).into(),
        row.state.as_str().into(),
        row.code.as_str().into(),
        row.detail.as_str().into(),
        row.rule.as_str().into(),
        row.outcome.as_str().into(),
        row.us.into(),
        row.masked.into(),
        row.approvals.into(),
        listed(&row.decided_by),
        listed(&row.codes),
        listed(&row.findings),
        listed(&row.hosts),
        row.last.into(),
    ]
}

/// The values of the columns [`RUN`].
pub(super) fn run_values(row: &RunRow) -> [IndexValue; 14] {
    [
        row.run.as_str().into(),
        (&row.chain).into(),
        row.seq.into(),
        row.at.into(),
        row.agent.as_str().into(),
        row.version.as_str().into(),
        row.manifest.as_str().into(),
        row.parent.as_str().into(),
        row.sealed.into(),
        row.reason.as_str().into(),
        row.counts.all.into(),
        row.counts.running.into(),
        row.counts.held.into(),
        row.counts.denied.into(),
    ]
}
