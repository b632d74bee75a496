//! The database's own view of an agent's statement, queried before it runs: its columns exist, and
//! its plan reads only judged relations and calls only judged functions.
//!
//! The parser judged names. This is the second check: if the server interprets a name differently,
//! nothing runs.

use std::collections::BTreeSet;

use serde_json::Value;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer};

use crate::catalog::sql::Statement;

/// Bytes of one plan. A longer one is not read, so the statement does not run.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// `$1`: fields as `[[column, [relation, …]], …]`; `$2`: the judged relations; `$3`: the judged
/// functions. Returns the fields that no relation has, every relation that the judged ones lead to
/// (partitions, tables of views and of row security), and the texts that the server substitutes for
/// them (views, row-security policies, SQL functions).
const FACTS: &str = "WITH RECURSIVE reach(oid) AS ( \
    SELECT to_regclass(r)::oid FROM jsonb_array_elements_text($2::jsonb) AS r \
    UNION SELECT x.oid FROM reach, LATERAL ( \
      SELECT i.inhrelid FROM pg_inherits AS i WHERE i.inhparent = reach.oid \
      UNION ALL SELECT d.refobjid FROM pg_rewrite AS w JOIN pg_depend AS d ON d.objid = w.oid \
        AND d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass WHERE w.ev_class = reach.oid \
      UNION ALL SELECT d.refobjid FROM pg_policy AS p JOIN pg_depend AS d ON d.objid = p.oid \
        AND d.classid = 'pg_policy'::regclass AND d.refclassid = 'pg_class'::regclass WHERE p.polrelid = reach.oid \
    ) AS x(oid)) \
  SELECT (SELECT string_agg(f->>0, ', ') FROM jsonb_array_elements($1::jsonb) AS f \
           WHERE NOT EXISTS (SELECT FROM pg_attribute AS a JOIN jsonb_array_elements_text(f->1) AS r \
             ON a.attrelid = to_regclass(r) WHERE a.attname = f->>0 AND a.attnum <> 0 AND NOT a.attisdropped)), \
         (SELECT string_agg(n.nspname || '.' || c.relname, E'\\n') FROM reach JOIN pg_class AS c ON c.oid = reach.oid \
            JOIN pg_namespace AS n ON n.oid = c.relnamespace), \
         (SELECT string_agg(t, E'\\n') FROM ( \
            SELECT pg_get_viewdef(c.oid) FROM reach JOIN pg_class AS c ON c.oid = reach.oid WHERE c.relkind = 'v' \
            UNION ALL SELECT pg_get_expr(p.polqual, p.polrelid) FROM reach JOIN pg_policy AS p ON p.polrelid = reach.oid \
            UNION ALL SELECT coalesce(nullif(p.prosrc, ''), pg_get_functiondef(p.oid)) FROM pg_proc AS p \
              JOIN pg_namespace AS n ON n.oid = p.pronamespace JOIN pg_language AS l ON l.oid = p.prolang \
              WHERE l.lanname = 'sql' AND n.nspname || '.' || p.proname IN \
                (SELECT jsonb_array_elements_text($3::jsonb)) \
          ) AS s(t))";

/// Functions that the server inserts for special syntax of a statement.
const SYNTAX: [&str; 6] =
    ["like_escape", "similar_to_escape", "timezone", "row", "array", "grouping"];
/// Types with a length or precision, which look like calls.
const SIZED: [&str; 12] = [
    "varying",
    "character",
    "char",
    "bpchar",
    "varchar",
    "numeric",
    "bit",
    "varbit",
    "timestamp",
    "timestamptz",
    "time",
    "interval",
];
/// Members of a plan that hold names and no expressions.
const PLAIN: [&str; 12] = [
    "Node Type",
    "Alias",
    "Schema",
    "Relation Name",
    "Function Name",
    "Index Name",
    "Join Type",
    "Parent Relationship",
    "Strategy",
    "Partial Mode",
    "CTE Name",
    "Subplan Name",
];

/// How the database interprets a statement differently from its judgement. Nothing was run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Mismatch {
    /// A field that no relation has; the server would resolve it in the session.
    #[error("no table in FROM has the column `{0}`; nothing was run")]
    Column(String),
    /// A relation that the statement does not name.
    #[error("the database would read `{0}`, which was not judged; nothing was run")]
    Relation(String),
    /// A function that the statement does not name.
    #[error("the database would call `{0}`, which was not judged; nothing was run")]
    Function(String),
    /// The response cannot be understood.
    #[error("the database's plan of the statement cannot be read; nothing was run")]
    Unread,
}

/// The queries about a statement before it runs, and the responses so far.
#[derive(Debug)]
pub(super) struct PlanLookup<'a> {
    statement: &'a Statement,
}

impl<'a> PlanLookup<'a> {
    pub const fn of(statement: &'a Statement) -> Self {
        Self { statement }
    }

    /// The query about its columns and relations, and its values.
    pub fn facts(&self) -> (&'static str, [Option<String>; 3]) {
        let fields = self.statement.fields.iter().map(|field| {
            let of = field.relations.iter().map(|(schema, table)| quoted(schema, table));
            Value::from(vec![Value::from(field.column.as_str()), of.collect()])
        });
        let relations = self.statement.relations.iter().filter_map(|name| {
            name.split_once('.').map(|(schema, table)| Value::from(quoted(schema, table)))
        });
        let (fields, relations): (Value, Value) = (fields.collect(), relations.collect());
        let functions: Value = self.statement.functions.iter().map(String::as_str).collect();
        (
            FACTS,
            [Some(fields.to_string()), Some(relations.to_string()), Some(functions.to_string())],
        )
    }

    /// The query for its plan; the values are the statement's own.
    pub fn explain(&self) -> String {
        format!("EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) {}", self.statement.text)
    }

    /// Checks that the server's interpretation is the judged one.
    ///
    /// # Errors
    /// The unjudged relation or function that it would use, or a response that cannot be
    /// understood.
    pub fn judge(&self, facts: &[Option<String>], plan: &str) -> Result<(), Mismatch> {
        let [missing, reached, texts] = facts else { return Err(Mismatch::Unread) };
        if let Some(missing) = missing {
            return Err(Mismatch::Column(missing.clone()));
        }
        let relations: BTreeSet<&str> = reached.iter().flat_map(|text| text.lines()).collect();
        let mut functions: BTreeSet<String> = self.statement.functions.iter().cloned().collect();
        if let Some(text) = texts {
            functions.extend(calls(text).ok_or(Mismatch::Unread)?);
        }
        let plan: Value = serde_json::from_str(plan).map_err(|_| Mismatch::Unread)?;
        Judge { relations, functions }.value(&plan)
    }
}

fn quoted(schema: &str, table: &str) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    format!("{}.{}", quoted(schema), quoted(table))
}

/// The names that a plan may contain.
struct Judge<'a> {
    relations: BTreeSet<&'a str>,
    functions: BTreeSet<String>,
}

impl Judge<'_> {
    fn value(&self, value: &Value) -> Result<(), Mismatch> {
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.value(item)),
            Value::Object(members) => {
                let text = |name: &str| members.get(name).and_then(Value::as_str);
                if let (Some(schema), Some(table)) = (text("Schema"), text("Relation Name")) {
                    self.relation(&format!("{schema}.{table}"))?;
                }
                let others = members.iter().filter(|(name, _)| !PLAIN.contains(&name.as_str()));
                others.map(|(_, value)| value).try_for_each(|value| self.value(value))
            }
            Value::String(text) => {
                calls(text).ok_or(Mismatch::Unread)?.iter().try_for_each(|name| self.function(name))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    fn relation(&self, name: &str) -> Result<(), Mismatch> {
        if self.relations.contains(name) {
            return Ok(());
        }
        Err(Mismatch::Relation(name.to_owned()))
    }

    fn function(&self, name: &str) -> Result<(), Mismatch> {
        let judged = |name: &str| {
            self.functions.contains(name) || self.functions.contains(&format!("pg_catalog.{name}"))
        };
        // `TRIM(BOTH …)` appears unchanged, or as the function that implements it.
        let trims = matches!(name, "btrim" | "ltrim" | "rtrim") && judged("trim");
        if trims || SYNTAX.contains(&name) || judged(name) {
            return Ok(());
        }
        Err(Mismatch::Function(name.to_owned()))
    }
}

/// The functions that an expression calls, in the server's spelling: a name directly before a
/// parenthesis.
fn calls(text: &str) -> Option<BTreeSet<String>> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize().ok()?;
    let mut found = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate() {
        let (Token::Word(word), Some(Token::LParen)) = (token, tokens.get(at.saturating_add(1)))
        else {
            continue;
        };
        let before = |back: usize| at.checked_sub(back).and_then(|at| tokens.get(at));
        let name = word.value.to_lowercase();
        let name = match (before(2), before(1)) {
            (Some(Token::Word(schema)), Some(Token::Period)) if schema.value != "pg_catalog" => {
                format!("{}.{name}", schema.value)
            }
            _ => name,
        };
        if !(word.quote_style.is_none() && SIZED.contains(&name.as_str())) {
            found.insert(name);
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_names_with_a_parenthesis_behind_them_and_nothing_else_is() {
        for (text, wanted) in [
            ("lower((a)::text)", vec!["lower"]),
            ("(a = ANY ('{1,2}'::integer[]))", vec![]),
            ("((total)::numeric(10,2) > '5'::numeric)", vec![]),
            ("'ts_stat(1)'::text", vec![]),
            ("ts_stat(x.x)", vec!["ts_stat"]),
            ("public.touch()", vec!["public.touch"]),
            ("\"overlay\"(a, b, 1)", vec!["overlay"]),
            ("count(*) FILTER (WHERE (id > 1))", vec!["count"]),
            ("\"numeric\"(a)", vec!["numeric"]),
        ] {
            let found: Vec<String> = calls(text).unwrap().into_iter().collect();
            assert_eq!(found, wanted, "{text}");
        }
    }

    #[test]
    fn a_plan_that_calls_or_reads_more_than_was_judged_stops_the_statement() {
        let allowed = crate::catalog::sql::Allowed {
            tables: [("public".to_owned(), "t".to_owned())].into(),
            ..Default::default()
        };
        let read = |sql: &str| {
            crate::catalog::sql::free_form(crate::catalog::sql::Engine::Postgres, &allowed, sql)
        };
        let statement = read("SELECT lower(t.a) FROM t").unwrap();
        let facts = [None, Some("public.t".to_owned()), None];
        let plan = |node: &str| format!("[{{\"Plan\": {{\"Plans\": [{node}]}}}}]");
        let judge = |node: &str| PlanLookup::of(&statement).judge(&facts, &plan(node));
        let scan = |table: &str, call: &str| {
            format!(
                r#"{{"Node Type": "Seq Scan", "Schema": "public", "Relation Name": "{table}", "Output": ["{call}"]}}"#
            )
        };
        assert_eq!(judge(&scan("t", "lower(a)")), Ok(()));
        let called = |name: &str| Err(Mismatch::Function(name.into()));
        let read = Err(Mismatch::Relation("public.secret_table".into()));
        assert_eq!(judge(&scan("secret_table", "lower(a)")), read);
        assert_eq!(judge(&scan("t", "ts_stat(a)")), called("ts_stat"));
        assert_eq!(judge(r#"{"Function Call": "public.touch()"}"#), called("public.touch"));
        // A function that the operator listed gets the same check.
        let listed = Statement { functions: vec!["public.f".into()], ..statement.clone() };
        let both = plan(&scan("t", "(ts_stat(a), public.f(1))"));
        assert_eq!(PlanLookup::of(&listed).judge(&facts, &both), called("ts_stat"));
        assert!(PlanLookup::of(&statement).judge(&facts, "no plan").is_err());
        assert!(PlanLookup::of(&statement).judge(&[], &plan("{}")).is_err());
    }
}
