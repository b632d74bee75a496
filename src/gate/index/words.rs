//! Which list of calls answers a query: a beginning is first resolved into the few values that begin so, and each value
//! has a list in the order of time. So no search sorts all calls that match.

use super::Error;
use super::columns::{self, CALL, IndexStatement, IndexValue};
use super::query::{Field, Term};
use super::select::{Clause, RowSearch, bounds, condition, list, mark, of_call, union};
use super::store::IndexStore;

/// Values of a column that a beginning is resolved into.
const VALUES_MAX: usize = 64;
/// The fields that a word without a name can be.
const BARE: [Field; 6] =
    [Field::Run, Field::Call, Field::Agent, Field::Tool, Field::Code, Field::Host];

/// What a term was resolved into.
enum ValueSet {
    /// The only values.
    Values(Vec<String>),
    /// More than are listed one by one.
    Many,
}

/// The fields whose values a term is resolved into, if it can be.
fn fields(term: &Term) -> Option<&'static [Field]> {
    if term.negated {
        return None;
    }
    match term.field {
        None => Some(&BARE),
        Some(Field::Agent) if term.prefix => Some(&[Field::Agent]),
        Some(Field::By) => Some(&[Field::By]),
        Some(Field::Call) if term.prefix => Some(&[Field::Call]),
        Some(Field::Code) => Some(&[Field::Code]),
        Some(Field::Finding) => Some(&[Field::Finding]),
        Some(Field::Host) => Some(&[Field::Host]),
        Some(Field::Run) if term.prefix => Some(&[Field::Run]),
        Some(Field::Tool) if term.prefix => Some(&[Field::Tool]),
        Some(
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
            | Field::Version,
        ) => None,
    }
}

/// The values of a field that begin like this term: one look into the index for each.
async fn resolved(store: &IndexStore, field: Field, term: &Term) -> Result<ValueSet, Error> {
    if !term.prefix {
        return Ok(ValueSet::Values(vec![term.value.clone()]));
    }
    let (table, column, kind) = match mark(field) {
        Some(kind) => ("mark", "value".to_owned(), format!(" AND t.kind = '{kind}'")),
        None => ("call", field.to_string(), String::new()),
    };
    let next = |from: &str| {
        format!(
            "SELECT min(t.{column}) FROM {table} t WHERE t.{column} {from} AND t.{column} < ?{kind}"
        )
    };
    let sql = format!(
        "WITH RECURSIVE w(v) AS ({} UNION ALL SELECT ({}) FROM w WHERE w.v IS NOT NULL) \
         SELECT w.v FROM w WHERE w.v IS NOT NULL LIMIT {}",
        next(">= ?"),
        next("> w.v"),
        VALUES_MAX.saturating_add(1)
    );
    let end = IndexValue::Text(format!("{}{}", term.value, char::MAX));
    let statement = IndexStatement::of(&sql, vec![term.value.as_str().into(), end.clone(), end]);
    let values = store.find(statement, |row| row.text(0)).await?;
    Ok(if values.len() > VALUES_MAX { ValueSet::Many } else { ValueSet::Values(values) })
}

/// The statement that lists the calls which match; `None`: no call does.
pub(super) async fn calls(
    store: &IndexStore,
    wanted: &RowSearch,
) -> Result<Option<IndexStatement>, Error> {
    let terms = &wanted.query.terms;
    let driving = terms.iter().enumerate().find_map(|(i, term)| Some((i, term, fields(term)?)));
    let Some((driver, term, fields)) = driving else {
        return Ok(Some(by_time(wanted, None, None).statement()));
    };
    let mut lists = Vec::new();
    for field in fields {
        match resolved(store, *field, term).await? {
            ValueSet::Values(values) => {
                lists.extend(values.iter().map(|value| by_value(wanted, driver, (*field, value))));
            }
            ValueSet::Many => {
                lists.push(by_time(wanted, Some(driver), Some(unsorted(*field, term))));
            }
        }
    }
    if lists.len() > VALUES_MAX {
        return Ok(Some(by_time(wanted, None, None).statement()));
    }
    Ok(match lists.len() {
        0 => None,
        1 => lists.pop().map(Clause::statement),
        _ => Some(union(lists, wanted.limit).statement()),
    })
}

/// The conditions of all terms but this one.
fn others(wanted: &RowSearch, but: Option<usize>) -> Vec<Clause> {
    let terms = wanted.query.terms.iter().enumerate().filter(|(i, _)| Some(*i) != but);
    terms.map(|(_, term)| condition(term, of_call)).collect()
}

/// The list of the calls that have this value.
fn by_value(wanted: &RowSearch, driver: usize, (field, value): (Field, &str)) -> Clause {
    let columns = columns::of("c", &CALL);
    let Some(kind) = mark(field) else {
        let mut clauses = vec![Clause::of(format!("c.{field} = ?"), [value.into()])];
        clauses.extend(others(wanted, Some(driver)));
        clauses.extend(bounds(wanted, "c"));
        return list((&columns, "call c"), "c", clauses, wanted.limit);
    };
    // WHY a cross join: SQLite then reads the marks first, which are in the order of time.
    let place =
        format!("m.kind = '{kind}' AND m.value = ? AND c.chain = m.chain AND c.seq = m.seq");
    let mut clauses = vec![Clause::of(place, [value.into()])];
    clauses.extend(bounds(wanted, "m"));
    clauses.extend(others(wanted, Some(driver)));
    list((&columns, "mark m CROSS JOIN call c"), "m", clauses, wanted.limit)
}

/// A beginning that too many values have: calls are looked at by time until enough match.
fn unsorted(field: Field, term: &Term) -> Clause {
    match mark(field) {
        Some(_) => of_call(&Term { field: Some(field), ..term.clone() }),
        // WHY an expression: no index of the column is used, which would sort every match.
        None => Clause::column(&format!("(c.{field} || '')"), term),
    }
}

fn by_time(wanted: &RowSearch, but: Option<usize>, one: Option<Clause>) -> Clause {
    let mut clauses: Vec<Clause> = one.into_iter().collect();
    clauses.extend(others(wanted, but));
    clauses.extend(bounds(wanted, "c"));
    list((&columns::of("c", &CALL), "call c"), "c", clauses, wanted.limit)
}
