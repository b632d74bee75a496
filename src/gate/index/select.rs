//! Queries as SQL. Names of columns come from here alone; every value is bound.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rusqlite::Connection;
use rusqlite::types::Value;

use super::query::{Field, Query, Term};
use super::rows::{CallRow, RunRow};
use super::sqlite::{self, CALL, RUN};
use crate::domain::id::{ChainId, Seq};
use crate::domain::time::Timestamp;

/// The most rows of one page.
pub const PAGE_MAX: usize = 200;

/// The place of a row in a list: the newest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The time of the row.
    pub at: Timestamp,
    /// Its chain.
    pub chain: ChainId,
    /// Its entry.
    pub seq: Seq,
}

impl Place {
    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: [u8; 32] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
        let (at, rest) = bytes.split_first_chunk::<8>()?;
        let (seq, chain) = rest.split_first_chunk::<8>()?;
        let chain = ChainId::from_bytes(chain.try_into().ok()?);
        let at = Timestamp::from_millis(i64::from_be_bytes(*at));
        Some(Self { at, chain, seq: u64::from_be_bytes(*seq) })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            &self.at.millis().to_be_bytes()[..],
            &self.seq.to_be_bytes()[..],
            &self.chain.as_bytes()[..],
        ];
        f.write_str(&URL_SAFE_NO_PAD.encode(parts.concat()))
    }
}

/// Which runs of a search are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunFilter {
    /// Open ones.
    Open,
    /// Sealed ones.
    Sealed,
    /// Both.
    Any,
}

/// A part of a list.
#[derive(Clone, Debug)]
pub struct RowSearch {
    /// What must match.
    pub query: Query,
    /// Only rows after this place in the list; `None`: from the beginning.
    pub after: Option<Place>,
    /// The most rows, at most [`PAGE_MAX`].
    pub limit: usize,
}

/// Rows of a list, and whether more follow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found<T> {
    /// The rows, the newest first.
    pub rows: Vec<T>,
    /// The place after which the list goes on; `None`: it ends here.
    pub next: Option<Place>,
}

/// How often the calls of a run are in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallCounts {
    /// All calls.
    pub all: u64,
    /// Running ones.
    pub running: u64,
    /// Held ones.
    pub held: u64,
    /// Denied ones.
    pub denied: u64,
}

/// A text of SQL and the values for its marks, in order.
#[derive(Default)]
struct Clause {
    sql: String,
    values: Vec<Value>,
}

impl Clause {
    fn of(sql: impl Into<String>, values: impl IntoIterator<Item = Value>) -> Self {
        Self { sql: sql.into(), values: values.into_iter().collect() }
    }

    /// `column` has this value, or begins so.
    fn column(column: &str, term: &Term) -> Self {
        let value = Value::Text(term.value.clone());
        if term.prefix {
            // WHY not LIKE: it has wildcards of its own and uses no index.
            let end = Value::Text(format!("{}{}", term.value, char::MAX));
            return Self::of(format!("({column} >= ? AND {column} < ?)"), [value, end]);
        }
        Self::of(format!("{column} = ?"), [value])
    }

    /// It stands in `list`, a subquery's beginning, where this holds.
    fn within(self, list: &str) -> Self {
        Self { sql: format!("{list} WHERE {})", self.sql), values: self.values }
    }

    fn any(clauses: impl IntoIterator<Item = Self>) -> Self {
        Self::joined(clauses, " OR ")
    }

    fn joined(clauses: impl IntoIterator<Item = Self>, with: &str) -> Self {
        let (mut texts, mut values) = (Vec::new(), Vec::new());
        for clause in clauses {
            texts.push(clause.sql);
            values.extend(clause.values);
        }
        Self { sql: format!("({})", texts.join(with)), values }
    }
}

/// A mark of a call with this value.
fn marked(kind: &str, term: &Term) -> Clause {
    let value = Clause::column("value", term);
    let kind = Clause::of(format!("kind = '{kind}'"), []);
    let both = Clause::joined([kind, value], " AND ");
    both.within("(chain, seq) IN (SELECT chain, seq FROM mark")
}

/// A run that delegated to the run.
fn parent(term: &Term) -> Clause {
    Clause::column("parent", term).within("run IN (SELECT run FROM run")
}

fn chain(term: &Term) -> Clause {
    match ChainId::parse(&term.value) {
        Some(chain) => Clause::of("chain = ?", [Value::Blob(chain.as_bytes().to_vec())]),
        None => Clause::column("lower(hex(chain))", term),
    }
}

/// What a term says of a call.
fn of_call(term: &Term) -> Clause {
    let Some(field) = term.field else {
        let columns = ["run", "call", "agent", "tool"];
        let columns = columns.map(|column| Clause::column(column, term));
        return Clause::any(columns.into_iter().chain([marked("code", term)]));
    };
    match field {
        Field::Agent
        | Field::Call
        | Field::Outcome
        | Field::Rule
        | Field::Run
        | Field::State
        | Field::Tier
        | Field::Tool
        | Field::Verdict
        | Field::Version => Clause::column(field.as_str(), term),
        Field::By | Field::Code => marked(field.as_str(), term),
        Field::Chain => chain(term),
        Field::Enforced => {
            Clause::of("enforced = ?", [Value::Integer((term.value == "yes").into())])
        }
        Field::Parent => parent(term),
    }
}

/// What a term says of a run: of itself, or of one of its calls.
fn of_run(term: &Term) -> Clause {
    let of_its_calls = |clause: Clause| clause.within("run IN (SELECT run FROM call");
    let Some(field) = term.field else {
        let own = ["run", "agent"].map(|column| Clause::column(column, term));
        let calls = ["call", "tool"].map(|column| Clause::column(column, term));
        let calls = Clause::any(calls.into_iter().chain([marked("code", term)]));
        return Clause::any(own.into_iter().chain([of_its_calls(calls)]));
    };
    match field {
        Field::Agent | Field::Parent | Field::Run | Field::Version => {
            Clause::column(field.as_str(), term)
        }
        Field::Chain => chain(term),
        Field::By
        | Field::Call
        | Field::Code
        | Field::Enforced
        | Field::Outcome
        | Field::Rule
        | Field::State
        | Field::Tier
        | Field::Tool
        | Field::Verdict => of_its_calls(of_call(term)),
    }
}

/// Everything a list asks for. Every column has a value, so `NOT` is the opposite.
fn all(wanted: &RowSearch, term: fn(&Term) -> Clause) -> Vec<Clause> {
    let query = &wanted.query;
    let mut clauses: Vec<Clause> = query
        .terms
        .iter()
        .map(|one| {
            let clause = term(one);
            let sql = if one.negated { format!("NOT {}", clause.sql) } else { clause.sql };
            Clause { sql, values: clause.values }
        })
        .collect();
    let time = |sql: &str, at: Timestamp| Clause::of(sql, [Value::Integer(at.millis())]);
    clauses.extend(query.since.map(|at| time("at >= ?", at)));
    clauses.extend(query.until.map(|at| time("at < ?", at)));
    clauses.extend(wanted.after.map(|place| {
        let values = [
            Value::Integer(place.at.millis()),
            Value::Blob(place.chain.as_bytes().to_vec()),
            Value::Integer(i64::try_from(place.seq).unwrap_or(i64::MAX)),
        ];
        Clause::of("(at, chain, seq) < (?, ?, ?)", values)
    }));
    clauses
}

fn list<T>(
    conn: &Connection,
    (columns, table): (&str, &str),
    (clauses, limit): (Vec<Clause>, usize),
    read: fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    place: fn(&T) -> Place,
) -> rusqlite::Result<Found<T>> {
    let limit = limit.clamp(1, PAGE_MAX);
    let mut sql = format!("SELECT {columns} FROM {table}");
    let mut values = Vec::new();
    for (i, clause) in clauses.into_iter().enumerate() {
        sql.push_str(if i == 0 { " WHERE " } else { " AND " });
        sql.push_str(&clause.sql);
        values.extend(clause.values);
    }
    sql.push_str(&format!(
        " ORDER BY at DESC, chain DESC, seq DESC LIMIT {}",
        limit.saturating_add(1)
    ));
    let mut query = conn.prepare_cached(&sql)?;
    let rows = query.query_map(rusqlite::params_from_iter(values), read)?;
    let mut rows: Vec<T> = rows.collect::<rusqlite::Result<_>>()?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(place);
    Ok(Found { rows, next })
}

/// The calls that match, the newest first.
pub(super) fn calls(conn: &Connection, wanted: &RowSearch) -> rusqlite::Result<Found<CallRow>> {
    let place = |row: &CallRow| Place { at: row.at, chain: row.chain, seq: row.seq };
    list(conn, (CALL, "call"), (all(wanted, of_call), wanted.limit), sqlite::call, place)
}

/// The runs that match, the newest first.
pub(super) fn runs(
    conn: &Connection,
    wanted: &RowSearch,
    sealed: RunFilter,
) -> rusqlite::Result<Found<RunRow>> {
    let mut clauses = all(wanted, of_run);
    clauses.extend(match sealed {
        RunFilter::Open => Some(Clause::of("sealed IS NULL", [])),
        RunFilter::Sealed => Some(Clause::of("sealed IS NOT NULL", [])),
        RunFilter::Any => None,
    });
    let place = |row: &RunRow| Place { at: row.at, chain: row.chain, seq: row.seq };
    list(conn, (RUN, "run"), (clauses, wanted.limit), sqlite::run, place)
}

/// The calls of a run in the order they began, those after this entry.
pub(super) fn calls_of(
    conn: &Connection,
    run: &str,
    after: Option<Seq>,
    limit: usize,
) -> rusqlite::Result<(Vec<CallRow>, bool)> {
    let limit = limit.clamp(1, PAGE_MAX);
    let most = i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX);
    let after = after.map_or(-1, |seq| i64::try_from(seq).unwrap_or(i64::MAX));
    let select =
        format!("SELECT {CALL} FROM call WHERE run = ? AND seq > ? ORDER BY chain, seq LIMIT ?");
    let mut select = conn.prepare_cached(&select)?;
    let rows = select.query_map(rusqlite::params![run, after, most], sqlite::call)?;
    let mut rows: Vec<CallRow> = rows.collect::<rusqlite::Result<_>>()?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    Ok((rows, more))
}

/// How often the calls of a run are in each state.
pub(super) fn counts(conn: &Connection, run: &str) -> rusqlite::Result<CallCounts> {
    let select = "SELECT count(*), coalesce(sum(state = 'running'), 0), coalesce(sum(state = 'held'), 0), \
                  coalesce(sum(state = 'denied'), 0) FROM call WHERE run = ?";
    let mut select = conn.prepare_cached(select)?;
    select.query_row([run], |row| {
        Ok(CallCounts {
            all: sqlite::unsigned(row, 0)?,
            running: sqlite::unsigned(row, 1)?,
            held: sqlite::unsigned(row, 2)?,
            denied: sqlite::unsigned(row, 3)?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::query::Query;

    fn wanted(query: &str) -> RowSearch {
        let query = Query::parse(query, Timestamp::from_millis(0)).unwrap();
        RowSearch { query, after: None, limit: 10 }
    }

    #[test]
    fn a_place_reads_back_and_nothing_else_is_one() {
        for (at, seq) in [(0, 0), (-1, 7), (i64::MAX, u64::MAX)] {
            let place =
                Place { at: Timestamp::from_millis(at), chain: ChainId::from_bytes([7; 16]), seq };
            assert_eq!(Place::parse(&place.to_string()), Some(place));
        }
        for text in ["", "a", "AAAA", &"A".repeat(42), &"A".repeat(44), "ü"] {
            assert_eq!(Place::parse(text), None, "{text}");
        }
    }

    #[test]
    fn every_word_is_a_query_that_the_database_understands_of_calls_and_of_runs() {
        let conn = sqlite::open(None).unwrap();
        let of = |field: &Field| match field {
            Field::Enforced => "no",
            Field::State => "held",
            Field::Tier => "T1",
            Field::Verdict => "deny",
            Field::Agent
            | Field::By
            | Field::Call
            | Field::Chain
            | Field::Code
            | Field::Outcome
            | Field::Parent
            | Field::Rule
            | Field::Run
            | Field::Tool
            | Field::Version => "a*",
        };
        let mut queries: Vec<String> =
            Field::ALL.iter().map(|field| format!("{field}:{}", of(field))).collect();
        queries.extend(["bare".to_owned(), "\"exact\" since:1h until:1m".to_owned()]);
        queries.push(format!("chain:{}", "0".repeat(32)));
        for query in queries.iter().flat_map(|query| [query.clone(), format!("-{query}")]) {
            let wanted = wanted(&query);
            assert_eq!(calls(&conn, &wanted).unwrap().rows, [], "{query}");
            for sealed in [RunFilter::Open, RunFilter::Sealed, RunFilter::Any] {
                assert_eq!(runs(&conn, &wanted, sealed).unwrap().rows, [], "{query}");
            }
        }
        let place =
            Place { at: Timestamp::from_millis(5), chain: ChainId::from_bytes([0; 16]), seq: 1 };
        let after = RowSearch { after: Some(place), ..wanted("") };
        assert_eq!(calls(&conn, &after).unwrap(), Found { rows: Vec::new(), next: None });
        assert_eq!(counts(&conn, "r").unwrap(), CallCounts::default());
    }
}
