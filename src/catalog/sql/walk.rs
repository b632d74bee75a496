//! Walks over an agent's SELECT: judges every part of it, and completes the names of its tables.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Function, Ident, ObjectName, ObjectNamePart, Query, Select,
    SetExpr, Statement as Parsed, TableFactor, Value, ValueWithSpan, VisitMut as _, VisitorMut,
    With,
};

use super::functions::{POSTGRES, SQLITE};
use super::read::StatementRefusal;
use super::{Allowed, Engine, Statement};

pub(super) type Flow = ControlFlow<Box<StatementRefusal>>;

pub(super) fn refuse(detail: &'static str, message: impl Into<String>) -> Flow {
    ControlFlow::Break(Box::new(StatementRefusal::new(detail, message)))
}

/// A name as the database compares it: unquoted names are lowercase, and for SQLite all are.
pub(super) fn normal(engine: Engine, ident: &Ident) -> String {
    if ident.quote_style.is_none() || engine == Engine::Sqlite {
        ident.value.to_ascii_lowercase()
    } else {
        ident.value.clone()
    }
}

pub(super) fn parts(engine: Engine, name: &ObjectName) -> Option<Vec<String>> {
    let part = |part: &ObjectNamePart| part.as_ident().map(|ident| normal(engine, ident));
    name.0.iter().map(part).collect()
}

pub(super) fn shown(engine: Engine, schema: &str, table: &str) -> String {
    match engine {
        Engine::Postgres => format!("{schema}.{table}"),
        Engine::Sqlite => table.to_owned(),
    }
}

/// The number of a parameter; `None` if it is not written as one. A bare `?` is 0.
fn parameter(engine: Engine, text: &str) -> Option<usize> {
    let number = match (engine, text) {
        (Engine::Sqlite, "?") => return Some(0),
        (Engine::Sqlite, text) => text.strip_prefix(['?', '$']),
        (Engine::Postgres, text) => text.strip_prefix('$'),
    };
    number?.parse().ok().filter(|number| (1..=super::read::PARAMS_MAX).contains(number))
}

/// Names that one level of a query gives to its parts, and its `WITH` while the rest is walked.
#[derive(Default)]
struct Scope {
    names: BTreeSet<String>,
    with: Option<With>,
}

/// Words that PostgreSQL reads as calls even without parentheses.
const BARE_CALLS: [&str; 7] = [
    "current_catalog",
    "current_role",
    "current_schema",
    "current_user",
    "session_user",
    "system_user",
    "user",
];

/// The findings so far.
#[derive(Default)]
pub(super) struct WalkFindings {
    pub relations: BTreeSet<String>,
    pub functions: BTreeSet<String>,
    pub parts: BTreeSet<String>,
    highest: usize,
    bare: usize,
}

impl WalkFindings {
    pub fn parameter(&mut self, engine: Engine, text: &str) -> Flow {
        match parameter(engine, text) {
            Some(0) => self.bare = self.bare.saturating_add(1),
            Some(number) => self.highest = self.highest.max(number),
            None => {
                return refuse(
                    "sql.params",
                    format!("`{text}` is no parameter: they are `$1`, `$2`, …"),
                );
            }
        }
        if self.bare > 0 && self.highest > 0 {
            return refuse("sql.params", "parameters are either all `?` or all numbered");
        }
        ControlFlow::Continue(())
    }

    pub fn statement(self, text: String, kind: &'static str, writes: bool) -> Statement {
        Statement {
            text,
            kind,
            writes,
            relations: self.relations.into_iter().collect(),
            functions: self.functions.into_iter().collect(),
            parts: self.parts.into_iter().collect(),
            params: self.highest.max(self.bare),
            fields: Vec::new(),
        }
    }
}

/// Judges a SELECT of an agent, and completes the names of its tables.
pub(super) struct Walk<'a> {
    engine: Engine,
    allowed: &'a Allowed,
    scopes: Vec<Scope>,
    seen: WalkFindings,
}

impl<'a> Walk<'a> {
    pub fn new(engine: Engine, allowed: &'a Allowed) -> Self {
        Self { engine, allowed, scopes: Vec::new(), seen: WalkFindings::default() }
    }

    /// The statement with the findings, in this rendering.
    pub fn into_statement(self, text: String) -> Statement {
        self.seen.statement(text, "select", false)
    }

    fn relation(&mut self, name: &mut ObjectName) -> Flow {
        let written = name.to_string();
        let unknown = || refuse("sql.relation", format!("`{written}` is not among the tables"));
        let Some(parts) = parts(self.engine, name) else { return unknown() };
        let (schema, table) = match parts.as_slice() {
            [table] if self.scopes.iter().any(|scope| scope.names.contains(table)) => {
                return ControlFlow::Continue(());
            }
            [table] => match self.allowed.schema_of(table) {
                Some(schema) => (schema.to_owned(), table.clone()),
                None => return unknown(),
            },
            [schema, table] => (schema.clone(), table.clone()),
            _ => return unknown(),
        };
        if !self.allowed.table(&schema, &table) {
            return unknown();
        }
        self.seen.relations.insert(shown(self.engine, &schema, &table));
        let quoted = |text: String| Ident::with_quote('"', text);
        *name = ObjectName::from(vec![quoted(schema), quoted(table)]);
        ControlFlow::Continue(())
    }

    fn function(&mut self, name: &ObjectName) -> Flow {
        let unknown = || refuse("sql.function", format!("function `{name}` is not allowed"));
        let Some(parts) = parts(self.engine, name) else { return unknown() };
        let whole = parts.join(".");
        let own = match (self.engine, parts.as_slice()) {
            (Engine::Postgres, [name]) => POSTGRES.contains(&name.as_str()),
            (Engine::Postgres, [schema, name]) => {
                schema == "pg_catalog" && POSTGRES.contains(&name.as_str())
            }
            (Engine::Sqlite, [name]) => SQLITE.contains(&name.as_str()),
            _ => false,
        };
        if !own && !self.allowed.functions.contains(&whole) {
            return unknown();
        }
        self.seen.functions.insert(whole);
        ControlFlow::Continue(())
    }

    fn call(&mut self, call: &Function) -> Flow {
        if call.uses_odbc_syntax {
            return refuse("sql.syntax", "functions are called plainly");
        }
        self.function(&call.name)
    }

    /// A type name: it must not make the database look names up in the catalog.
    fn kind(&self, name: &str) -> Flow {
        let name = name.replace('"', "").to_ascii_lowercase();
        let bare = name.strip_prefix("pg_catalog.").unwrap_or(&name);
        // WHY no other schema: a cast to a user-defined type may call a user-defined function.
        let foreign = self.engine == Engine::Postgres && bare.contains('.');
        if bare.starts_with("reg") || bare.starts_with("pg_") || foreign {
            return refuse("sql.syntax", format!("nothing is cast to `{name}`"));
        }
        ControlFlow::Continue(())
    }

    fn select(select: &Select) -> Flow {
        if select.into.is_some() {
            return refuse("sql.not_select", "SELECT INTO writes");
        }
        let plain = select.optimizer_hints.is_empty()
            && select.select_modifiers.is_none()
            && select.top.is_none()
            && select.exclude.is_none()
            && select.lateral_views.is_empty()
            && select.prewhere.is_none()
            && select.connect_by.is_empty()
            && select.cluster_by.is_empty()
            && select.distribute_by.is_empty()
            && select.sort_by.is_empty()
            && select.qualify.is_none()
            && select.value_table_mode.is_none();
        if plain { ControlFlow::Continue(()) } else { other() }
    }

    fn body(body: &SetExpr) -> Flow {
        match body {
            SetExpr::Select(select) => Self::select(select),
            SetExpr::SetOperation { left, right, .. } => {
                Self::body(left)?;
                Self::body(right)
            }
            // Walked as a query of its own.
            SetExpr::Query(_) | SetExpr::Values(_) => ControlFlow::Continue(()),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                refuse("sql.not_select", "only SELECT is allowed, within WITH too")
            }
            SetExpr::Table(_) => refuse("sql.syntax", "write SELECT * FROM instead of TABLE"),
        }
    }

    /// The parts of a `WITH`, each of which sees those before it; all of them, if they may be
    /// recursive.
    fn with(&mut self, mut with: With) -> Flow {
        let engine = self.engine;
        let name = |alias: &Ident| normal(engine, alias);
        self.scopes.push(Scope::default());
        let every: Vec<String> = with.cte_tables.iter().map(|cte| name(&cte.alias.name)).collect();
        if let Some(reserved) =
            every.iter().find(|n| n.starts_with("pg_") || n.starts_with("sqlite_"))
        {
            return refuse("sql.syntax", format!("`{reserved}` is a name of the database itself"));
        }
        self.seen.parts.extend(every.iter().cloned());
        if with.recursive
            && let Some(scope) = self.scopes.last_mut()
        {
            scope.names.extend(every.iter().cloned());
        }
        for (cte, name) in with.cte_tables.iter_mut().zip(every) {
            if cte.from.is_some() {
                return other();
            }
            cte.query.visit(self)?;
            if let Some(scope) = self.scopes.last_mut() {
                scope.names.insert(name);
            }
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.with = Some(with);
        }
        ControlFlow::Continue(())
    }
}

/// Refuses syntax of other databases, and syntax that this check does not know to be safe.
fn other() -> Flow {
    refuse("sql.syntax", "the statement uses a form that is not allowed")
}

impl VisitorMut for Walk<'_> {
    type Break = Box<StatementRefusal>;

    fn pre_visit_statement(&mut self, statement: &mut Parsed) -> Flow {
        if matches!(statement, Parsed::Query(_)) {
            return ControlFlow::Continue(());
        }
        refuse("sql.not_select", "only SELECT is allowed")
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        if !query.locks.is_empty() {
            return refuse("sql.not_select", "FOR UPDATE and its kin lock rows");
        }
        let plain = query.for_clause.is_none()
            && query.settings.is_none()
            && query.format_clause.is_none()
            && query.pipe_operators.is_empty();
        if !plain {
            return other();
        }
        Self::body(&query.body)?;
        match query.with.take() {
            Some(with) => self.with(with),
            None => {
                self.scopes.push(Scope::default());
                ControlFlow::Continue(())
            }
        }
    }

    fn post_visit_query(&mut self, query: &mut Query) -> Flow {
        query.with = self.scopes.pop().and_then(|scope| scope.with);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        if let TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. } = factor
        {
            for kind in alias.columns.iter().filter_map(|column| column.data_type.as_ref()) {
                self.kind(&kind.to_string())?;
            }
        }
        match factor {
            TableFactor::Table {
                name,
                args,
                with_hints,
                version,
                partitions,
                json_path,
                sample,
                index_hints,
                ..
            } => {
                let plain = with_hints.is_empty()
                    && version.is_none()
                    && partitions.is_empty()
                    && json_path.is_none()
                    && sample.is_none()
                    && index_hints.is_empty();
                match (plain, args) {
                    (false, _) => other(),
                    (true, None) => self.relation(name),
                    (true, Some(_)) => self.function(name),
                }
            }
            TableFactor::Function { name, .. } => self.function(name),
            TableFactor::Derived { sample: None, .. } | TableFactor::NestedJoin { .. } => {
                ControlFlow::Continue(())
            }
            TableFactor::UNNEST { .. } => {
                self.seen.functions.insert("unnest".into());
                ControlFlow::Continue(())
            }
            TableFactor::Derived { .. }
            | TableFactor::TableFunction { .. }
            | TableFactor::JsonTable { .. }
            | TableFactor::OpenJsonTable { .. }
            | TableFactor::Pivot { .. }
            | TableFactor::Unpivot { .. }
            | TableFactor::UnpivotExpr { .. }
            | TableFactor::MatchRecognize { .. }
            | TableFactor::XmlTable { .. }
            | TableFactor::SemanticView { .. } => other(),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        if let Some(name) = spelled(expr) {
            self.seen.functions.insert(name.to_owned());
        }
        if let Expr::Function(call) = expr {
            return self.call(call);
        }
        if let Expr::Identifier(name) = expr
            && self.engine == Engine::Postgres
            && name.quote_style.is_none()
            && BARE_CALLS.contains(&normal(self.engine, name).as_str())
        {
            return self.function(&ObjectName::from(vec![name.clone()]));
        }
        if let Expr::Cast { data_type, .. } = expr {
            return self.kind(&data_type.to_string());
        }
        if let Expr::TypedString(typed) = expr {
            return self.kind(&typed.data_type.to_string());
        }
        if let Expr::BinaryOp { op, .. }
        | Expr::AnyOp { compare_op: op, .. }
        | Expr::AllOp { compare_op: op, .. } = expr
            && matches!(
                op,
                BinaryOperator::Custom(_)
                    | BinaryOperator::PGCustomBinaryOperator(_)
                    | BinaryOperator::Assignment
            )
        {
            return refuse("sql.syntax", format!("operator `{op}` is not allowed"));
        }
        if let Expr::CompoundFieldAccess { access_chain, .. } = expr {
            // WHY: to PostgreSQL `(x).f` is `f(x)`, whatever `x` is.
            let field = access_chain.iter().find(|one| !matches!(one, AccessExpr::Subscript(_)));
            return field.map_or(ControlFlow::Continue(()), |field| {
                refuse("sql.function", format!("`(…){field}` may be a call of a function"))
            });
        }
        if is_known(expr) { ControlFlow::Continue(()) } else { other() }
    }

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> Flow {
        if let Value::Placeholder(text) = &value.value {
            return self.seen.parameter(self.engine, text);
        }
        // Every way to write a text becomes the plain one.
        if let Value::EscapedStringLiteral(text) | Value::UnicodeStringLiteral(text) = &value.value
        {
            value.value = Value::SingleQuotedString(text.clone());
        } else if let Value::DollarQuotedString(quoted) = &value.value {
            value.value = Value::SingleQuotedString(quoted.value.clone());
        }
        if is_plain(&value.value) { ControlFlow::Continue(()) } else { other() }
    }
}

fn is_plain(value: &Value) -> bool {
    matches!(
        value,
        Value::Number(..)
            | Value::SingleQuotedString(_)
            | Value::HexStringLiteral(_)
            | Value::Boolean(_)
            | Value::Null
    )
}

/// The function behind an expression with a syntax of its own.
pub(super) fn spelled(expr: &Expr) -> Option<&'static str> {
    let of = |name, is: bool| is.then_some(name);
    of("extract", matches!(expr, Expr::Extract { .. }))
        .or_else(|| of("ceil", matches!(expr, Expr::Ceil { .. })))
        .or_else(|| of("floor", matches!(expr, Expr::Floor { .. })))
        .or_else(|| of("position", matches!(expr, Expr::Position { .. })))
        .or_else(|| of("substring", matches!(expr, Expr::Substring { .. })))
        .or_else(|| of("trim", matches!(expr, Expr::Trim { .. })))
        .or_else(|| of("overlay", matches!(expr, Expr::Overlay { .. })))
        .or_else(|| of("timezone", matches!(expr, Expr::AtTimeZone { .. })))
}

/// Expressions of SQL itself. This check does not know other databases' extensions, and so refuses
/// them.
fn is_known(expr: &Expr) -> bool {
    is_test(expr)
        || spelled(expr).is_some()
        || matches!(
            expr,
            Expr::Identifier(_)
                | Expr::CompoundIdentifier(_)
                | Expr::BinaryOp { .. }
                | Expr::UnaryOp { .. }
                | Expr::Collate { .. }
                | Expr::Nested(_)
                | Expr::Value(_)
                | Expr::Case { .. }
                | Expr::Subquery(_)
                | Expr::GroupingSets(_)
                | Expr::Cube(_)
                | Expr::Rollup(_)
                | Expr::Tuple(_)
                | Expr::Array(_)
                | Expr::Interval(_)
                | Expr::Wildcard(_)
                | Expr::QualifiedWildcard(..)
        )
}

fn is_test(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotUnknown(_)
            | Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..)
            | Expr::InList { .. }
            | Expr::InSubquery { .. }
            | Expr::Between { .. }
            | Expr::Like { .. }
            | Expr::ILike { .. }
            | Expr::SimilarTo { .. }
            | Expr::RLike { .. }
            | Expr::AnyOp { .. }
            | Expr::AllOp { .. }
            | Expr::Exists { .. }
    )
}
