//! Queries as SQL. Names of columns come from here alone; every value is bound.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::columns::{self, CALL, IndexStatement, IndexValue, RUN};
use super::query::{Field, Query, Term};
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

impl<T> Found<T> {
    /// Of these rows, of which one more than wanted was asked for.
    pub(super) fn of(mut rows: Vec<T>, limit: usize, place: fn(&T) -> Place) -> Self {
        let limit = limit.clamp(1, PAGE_MAX);
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(place);
        Self { rows, next }
    }
}

/// A text of SQL and the values for its marks, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Clause {
    pub sql: String,
    pub values: Vec<IndexValue>,
}

/// What begins like a value ends before this one.
fn end(value: &str) -> IndexValue {
    IndexValue::Text(format!("{value}{}", char::MAX))
}

impl Clause {
    pub fn of(sql: impl Into<String>, values: impl IntoIterator<Item = IndexValue>) -> Self {
        Self { sql: sql.into(), values: values.into_iter().collect() }
    }

    /// `column` has this value, or begins so.
    pub fn column(column: &str, term: &Term) -> Self {
        let value = IndexValue::from(term.value.as_str());
        if term.prefix {
            // WHY not LIKE: it has wildcards of its own and uses no index.
            let sql = format!("({column} >= ? AND {column} < ?)");
            return Self::of(sql, [value, end(&term.value)]);
        }
        Self::of(format!("{column} = ?"), [value])
    }

    /// `column` is none of the frequent values, which its index leaves out; both databases have to be told.
    fn rare(column: &str, term: &Term, frequent: &str) -> Self {
        let clause = Self::column(column, term);
        if term.negated || term.value == frequent {
            return clause;
        }
        Self { sql: format!("({} AND {column} <> '{frequent}')", clause.sql), ..clause }
    }

    /// It stands in `list`, a subquery's beginning, where this holds.
    fn within(self, list: &str) -> Self {
        Self { sql: format!("{list} WHERE {})", self.sql), values: self.values }
    }

    fn any(clauses: impl IntoIterator<Item = Self>) -> Self {
        let any = Self::joined(clauses, " OR ");
        Self { sql: format!("({})", any.sql), values: any.values }
    }

    fn joined(clauses: impl IntoIterator<Item = Self>, with: &str) -> Self {
        let (mut texts, mut values) = (Vec::new(), Vec::new());
        for clause in clauses {
            texts.push(clause.sql);
            values.extend(clause.values);
        }
        Self { sql: texts.join(with), values }
    }

    fn then(mut self, sql: &str, values: impl IntoIterator<Item = IndexValue>) -> Self {
        self.sql.push_str(sql);
        self.values.extend(values);
        self
    }

    pub fn statement(self) -> IndexStatement {
        IndexStatement::of(&self.sql, self.values)
    }
}

/// The kind of the marks that this field is about; `None`: it is a column of the call.
pub(super) const fn mark(field: Field) -> Option<&'static str> {
    match field {
        Field::By => Some("by"),
        Field::Code => Some("code"),
        Field::Finding => Some("finding"),
        Field::Host => Some("host"),
        Field::Agent
        | Field::Call
        | Field::Chain
        | Field::Enforced
        | Field::Outcome
        | Field::Parent
        | Field::Rule
        | Field::Run
        | Field::State
        | Field::Tier
        | Field::Tool
        | Field::Verdict
        | Field::Version => None,
    }
}

/// The call has a mark with this value.
fn marked(kind: &str, term: &Term) -> Clause {
    let value = Clause::column("k.value", term);
    let place = "k.chain = c.chain AND k.seq = c.seq AND k.at = c.at";
    Clause::of(format!("k.kind = '{kind}' AND {place} AND {}", value.sql), value.values)
        .within("EXISTS (SELECT 1 FROM mark k")
}

/// The beginning of a chain's hex, as a range of its bytes.
fn chain(column: &str, term: &Term) -> Clause {
    if let Some(chain) = ChainId::parse(&term.value) {
        return Clause::of(format!("{column} = ?"), [(&chain).into()]);
    }
    let digits = term.value.as_str();
    let hex = digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let bound = |fill: char| {
        let text: String = digits.chars().chain(std::iter::repeat(fill)).take(32).collect();
        ChainId::parse(&text)
    };
    match bound('0').zip(bound('f')).filter(|_| hex && term.prefix && digits.len() < 32) {
        Some((low, high)) => Clause::of(
            format!("({column} >= ? AND {column} <= ?)"),
            [(&low).into(), (&high).into()],
        ),
        None => Clause::of("1 = 0", []),
    }
}

/// What a term says of a call `c`.
pub(super) fn of_call(term: &Term) -> Clause {
    let Some(field) = term.field else {
        let columns = ["c.run", "c.call", "c.agent", "c.tool"];
        let columns = columns.map(|column| Clause::column(column, term));
        return Clause::any(
            columns.into_iter().chain(["code", "host"].map(|kind| marked(kind, term))),
        );
    };
    let column = format!("c.{field}");
    match field {
        Field::Agent
        | Field::Call
        | Field::Outcome
        | Field::Rule
        | Field::Run
        | Field::Tier
        | Field::Tool
        | Field::Version => Clause::column(&column, term),
        Field::State => Clause::rare(&column, term, "completed"),
        Field::Verdict => Clause::rare(&column, term, "allow"),
        Field::By | Field::Code | Field::Finding | Field::Host => marked(field.as_str(), term),
        Field::Chain => chain(&column, term),
        Field::Enforced => Clause::of("c.enforced = ?", [u64::from(term.value == "yes").into()]),
        Field::Parent => {
            Clause::column("p.parent", term).within("c.run IN (SELECT p.run FROM run p")
        }
    }
}

/// What a term says of a run `r`: of itself, or of one of its calls.
fn of_run(term: &Term) -> Clause {
    let of_its_calls = |clause: Clause| clause.within("r.run IN (SELECT c.run FROM call c");
    let of_its_marks = |kind: &str| {
        let value = Clause::column("k.value", term);
        Clause::of(format!("k.kind = '{kind}' AND {}", value.sql), value.values).within(
            "r.run IN (SELECT c.run FROM mark k JOIN call c ON c.chain = k.chain AND c.seq = k.seq",
        )
    };
    let Some(field) = term.field else {
        let own = ["r.run", "r.agent"].map(|column| Clause::column(column, term));
        let calls = ["c.call", "c.tool"].map(|column| of_its_calls(Clause::column(column, term)));
        return Clause::any(own.into_iter().chain(calls).chain(["code", "host"].map(of_its_marks)));
    };
    let column = format!("r.{field}");
    match field {
        Field::Agent | Field::Parent | Field::Run | Field::Version => Clause::column(&column, term),
        Field::Chain => chain(&column, term),
        Field::By | Field::Code | Field::Finding | Field::Host => of_its_marks(field.as_str()),
        Field::Call
        | Field::Enforced
        | Field::Outcome
        | Field::Rule
        | Field::State
        | Field::Tier
        | Field::Tool
        | Field::Verdict => of_its_calls(of_call(&Term { negated: false, ..term.clone() })),
    }
}

/// A term as a condition. Every column has a value, so `NOT` is the opposite.
pub(super) fn condition(term: &Term, of: fn(&Term) -> Clause) -> Clause {
    let clause = of(term);
    let sql = if term.negated { format!("NOT ({})", clause.sql) } else { clause.sql };
    Clause { sql, ..clause }
}

/// The bounds of time and place, of the rows of this table.
pub(super) fn bounds(wanted: &RowSearch, table: &str) -> Vec<Clause> {
    let Query { since, until, terms: _ } = &wanted.query;
    let time = |sql: &str, at: Timestamp| Clause::of(format!("{table}.at {sql}"), [at.into()]);
    let mut clauses: Vec<Clause> = since.map(|at| time(">= ?", at)).into_iter().collect();
    clauses.extend(until.map(|at| time("< ?", at)));
    clauses.extend(wanted.after.map(|place| {
        let values = [place.at.into(), (&place.chain).into(), place.seq.into()];
        Clause::of(format!("({table}.at, {table}.chain, {table}.seq) < (?, ?, ?)"), values)
    }));
    clauses
}

/// A list: the newest first, one more than wanted.
pub(super) fn list(
    (columns, from): (&str, &str),
    table: &str,
    clauses: Vec<Clause>,
    limit: usize,
) -> Clause {
    let limit = limit.clamp(1, PAGE_MAX).saturating_add(1);
    let all = Clause::joined(clauses, " AND ");
    let filter = if all.sql.is_empty() { String::new() } else { format!(" WHERE {}", all.sql) };
    let order = format!("{table}.at DESC, {table}.chain DESC, {table}.seq DESC");
    let sql = format!("SELECT {columns} FROM {from}{filter} ORDER BY {order} LIMIT {limit}");
    Clause { sql, values: all.values }
}

/// Lists as one: a row of several is listed once.
pub(super) fn union(lists: Vec<Clause>, limit: usize) -> Clause {
    let limit = limit.clamp(1, PAGE_MAX).saturating_add(1);
    let lists = lists.into_iter().enumerate().map(|(i, list)| Clause {
        sql: format!("SELECT * FROM ({}) AS l{i}", list.sql),
        values: list.values,
    });
    let all = Clause::joined(lists, " UNION ");
    let columns = columns::of("c", &CALL);
    let order = format!(" ORDER BY c.at DESC, c.chain DESC, c.seq DESC LIMIT {limit}");
    Clause { sql: format!("SELECT {columns} FROM ({}) AS c", all.sql), values: all.values }
        .then(&order, [])
}

/// The runs that match, the newest first.
pub(super) fn runs(wanted: &RowSearch, sealed: RunFilter) -> IndexStatement {
    let mut clauses: Vec<Clause> =
        wanted.query.terms.iter().map(|term| condition(term, of_run)).collect();
    clauses.extend(bounds(wanted, "r"));
    clauses.extend(match sealed {
        RunFilter::Open => Some(Clause::of("r.sealed IS NULL", [])),
        RunFilter::Sealed => Some(Clause::of("r.sealed IS NOT NULL", [])),
        RunFilter::Any => None,
    });
    list((&columns::of("r", &RUN), "run r"), "r", clauses, wanted.limit).statement()
}

/// The number of open runs.
pub(super) fn open_runs() -> IndexStatement {
    IndexStatement::of("SELECT count(*) FROM run r WHERE r.sealed IS NULL", Vec::new())
}

/// The calls of a run in the order they began, those after this entry, one more than wanted. The index has them in this
/// order: a page costs the same wherever it is in the run.
pub(super) fn calls_of(
    (run, chain): (&str, &ChainId),
    after: Option<Seq>,
    limit: usize,
) -> IndexStatement {
    let limit = limit.clamp(1, PAGE_MAX).saturating_add(1);
    let start = format!("SELECT {} FROM call c WHERE c.run = ?", columns::of("c", &CALL));
    let mut clause = Clause::of(start, [run.into()]);
    if let Some(after) = after {
        // The entry need not be one that began a call of the run.
        let at = "coalesce((SELECT a.at FROM call a WHERE a.chain = ? AND a.seq = ? AND a.run = ?), \
                  (SELECT max(b.at) FROM call b WHERE b.run = ? AND b.seq <= ?), 0)";
        let (chain, run, seq) =
            (IndexValue::from(chain), IndexValue::from(run), IndexValue::from(after));
        let values = [chain.clone(), seq.clone(), run.clone(), run, seq.clone(), chain, seq];
        clause = clause.then(&format!(" AND (c.at, c.chain, c.seq) > ({at}, ?, ?)"), values);
    }
    clause.then(&format!(" ORDER BY c.at, c.chain, c.seq LIMIT {limit}"), []).statement()
}

/// The newest calls of an agent and a tool that approvers released.
pub(super) fn approved(agent: &str, tool: &str, most: usize) -> IndexStatement {
    let clause =
        Clause::of("c.agent = ? AND c.tool = ? AND c.approvals > 0", [agent.into(), tool.into()]);
    let ran = Clause::of("c.verdict = 'allow'", []);
    list((&columns::of("c", &CALL), "call c"), "c", vec![clause, ran], most).statement()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::RunId;
    use crate::index::Index;

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

    /// The value of a query for each word.
    const fn value(field: Field) -> &'static str {
        match field {
            Field::Enforced => "no",
            Field::Finding => "masked",
            Field::State => "held",
            Field::Tier => "T1",
            Field::Verdict => "deny",
            Field::Agent
            | Field::By
            | Field::Call
            | Field::Chain
            | Field::Code
            | Field::Host
            | Field::Outcome
            | Field::Parent
            | Field::Rule
            | Field::Run
            | Field::Tool
            | Field::Version => "a*",
        }
    }

    #[tokio::test]
    async fn every_word_is_a_query_that_the_database_understands_of_calls_and_of_runs() {
        let index = Index::memory().unwrap();
        let mut queries: Vec<String> =
            Field::ALL.iter().map(|field| format!("{field}:{}", value(*field))).collect();
        queries.extend(["bare".to_owned(), "\"exact\" since:1h until:1m".to_owned()]);
        queries.push(format!("chain:{}", "0".repeat(32)));
        queries.push("code:a code:b by:c -code:d -finding:masked".to_owned());
        for query in queries.iter().flat_map(|query| [query.clone(), format!("-{query}")]) {
            let wanted = || wanted(&query);
            assert_eq!(index.calls(wanted()).await.unwrap().rows, [], "{query}");
            for sealed in [RunFilter::Open, RunFilter::Sealed, RunFilter::Any] {
                assert_eq!(index.runs(wanted(), sealed).await.unwrap().rows, [], "{query}");
            }
        }
        let place =
            Place { at: Timestamp::from_millis(5), chain: ChainId::from_bytes([0; 16]), seq: 1 };
        let after = RowSearch { after: Some(place), ..wanted("") };
        assert_eq!(index.calls(after).await.unwrap(), Found { rows: Vec::new(), next: None });
        let run = RunId::from_random([1; 16]);
        for after in [None, Some(7)] {
            let of = index.calls_of((&run, &place.chain), after, 10).await.unwrap();
            assert_eq!(of, (Vec::new(), false));
        }
        assert_eq!(index.open_runs().await.unwrap(), 0);
        assert_eq!(index.approved("a", "t", 3).await.unwrap(), []);
    }

    #[test]
    fn the_beginning_of_a_chain_is_a_range_of_its_bytes() {
        let term = |value: &str, prefix| Term {
            field: Some(Field::Chain),
            value: value.to_owned(),
            prefix,
            negated: false,
        };
        let bytes = |byte: u8| IndexValue::Bytes(vec![byte; 16]);
        for (value, prefix, sql) in [
            (&*"ab".repeat(16), false, "c = ?"),
            (&*"ab".repeat(16), true, "c = ?"),
            ("", true, "(c >= ? AND c <= ?)"),
            ("a", true, "(c >= ? AND c <= ?)"),
            ("a", false, "1 = 0"),
            ("AB", true, "1 = 0"),
            ("xyz", true, "1 = 0"),
            ("ü", true, "1 = 0"),
        ] {
            assert_eq!(chain("c", &term(value, prefix)).sql, sql, "{value}");
        }
        assert_eq!(chain("c", &term(&"ab".repeat(16), false)).values, [bytes(0xab)]);
        let mut low = vec![0_u8; 16];
        let mut high = vec![0xff_u8; 16];
        (low[0], high[0]) = (0xa0, 0xaf);
        let range = [IndexValue::Bytes(low), IndexValue::Bytes(high)];
        assert_eq!(chain("c", &term("a", true)).values, range);
    }
}
