//! Resolves `a.b` in an agent's SELECT for PostgreSQL: it must be a column, and never a call.
//!
//! PostgreSQL takes `a.b` for the column `b` of `a` if there is one, and otherwise for the function
//! `b` of the row `a`. So this module resolves every such name. It knows a column from the
//! statement itself (a list of names, a named item of a subquery, the columns of a built-in
//! function), or the database has to confirm before the statement runs that the column exists
//! ([`Field`]). It refuses all other names.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use sqlparser::ast::{
    Cte, Expr, Ident, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, Statement as Parsed, TableAlias, TableFactor, TableWithJoins, Visit as _, Visitor,
};

use super::walk::{Flow, normal, parts, refuse};
use super::{Engine, Field};

const ENGINE: Engine = Engine::Postgres;

/// Column names that the statement itself defines, and tables that contribute all of theirs.
#[derive(Clone, Default)]
struct Columns {
    names: BTreeSet<String>,
    of: BTreeSet<(String, String)>,
}

impl Columns {
    fn of(names: impl IntoIterator<Item = String>) -> Self {
        Self { names: names.into_iter().collect(), of: BTreeSet::new() }
    }

    fn add(&mut self, other: Self) {
        self.names.extend(other.names);
        self.of.extend(other.of);
    }

    /// The columns under an alias. WHY only its own list: which of the others it hides depends on
    /// their order.
    fn under(self, alias: Option<&TableAlias>) -> Self {
        match alias {
            Some(alias) if !alias.columns.is_empty() => {
                Self::of(alias.columns.iter().map(|column| normal(ENGINE, &column.name)))
            }
            _ => self,
        }
    }
}

/// The parts of one statement that have names.
#[derive(Default)]
struct Names {
    ctes: BTreeMap<String, Cte>,
    /// Columns of the parts of `WITH`; a part has none while it is being resolved.
    known: BTreeMap<String, Columns>,
    /// The sources under each name in any `FROM`. One name may have several.
    sources: BTreeMap<String, Vec<Columns>>,
    compound: BTreeSet<Vec<String>>,
}

/// Resolves every `a.b` and `a.b.c` of a statement whose tables have been completed to `schema.table`.
///
/// # Errors
/// The first one that cannot be a column: `sql.column`. Two parts of `WITH` under one name: `sql.syntax`.
pub(super) fn resolve(statement: &Parsed) -> ControlFlow<Box<super::StatementRefusal>, Vec<Field>> {
    let mut parts = Ctes::default();
    statement.visit(&mut parts)?;
    let mut names = Names { ctes: parts.0, ..Names::default() };
    statement.visit(&mut names)?;
    let mut fields = BTreeSet::new();
    for path in &names.compound {
        names.column(path, &mut fields)?;
    }
    ControlFlow::Continue(fields.into_iter().collect())
}

/// Collects the names of `WITH`.
#[derive(Default)]
struct Ctes(BTreeMap<String, Cte>);

impl Visitor for Ctes {
    type Break = Box<super::StatementRefusal>;

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = normal(ENGINE, &cte.alias.name);
            if self.0.insert(name.clone(), cte.clone()).is_some() {
                let message = format!("two parts of the statement are named `{name}`");
                return refuse("sql.syntax", message);
            }
        }
        ControlFlow::Continue(())
    }
}

impl Visitor for Names {
    type Break = Box<super::StatementRefusal>;

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        if let Some(name) = source_name(factor) {
            let columns = self.of_factor(factor);
            self.sources.entry(name).or_default().push(columns);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        if let Expr::CompoundIdentifier(path) = expr {
            self.compound.insert(path.iter().map(|ident| normal(ENGINE, ident)).collect());
        }
        ControlFlow::Continue(())
    }
}

impl Names {
    fn column(&self, path: &[String], fields: &mut BTreeSet<Field>) -> Flow {
        let written = path.join(".");
        let (schema, source, column) = match path {
            [source, column] => (None, source, column),
            [schema, source, column] => (Some(schema), source, column),
            _ => {
                return refuse(
                    "sql.column",
                    format!("`{written}` is no column: write `table.column`"),
                );
            }
        };
        let Some(all) = self.sources.get(source) else {
            return refuse(
                "sql.column",
                format!("`{written}`: nothing in FROM is named `{source}`"),
            );
        };
        // WHY all: which source a name means depends on its place.
        for columns in all {
            let of = match schema {
                None if columns.names.contains(column) => continue,
                None => columns.of.clone(),
                Some(schema) => {
                    let whole = (schema.clone(), source.clone());
                    columns.of.iter().filter(|one| **one == whole).cloned().collect()
                }
            };
            if of.is_empty() {
                let message = format!(
                    "`{written}`: `{source}` has no column `{column}` that the statement names; give it one, as in `AS {source}({column})`"
                );
                return refuse("sql.column", message);
            }
            fields.insert(Field { column: column.clone(), relations: of.into_iter().collect() });
        }
        ControlFlow::Continue(())
    }

    fn of_cte(&mut self, name: &str) -> Columns {
        if let Some(known) = self.known.get(name) {
            return known.clone();
        }
        let Some(cte) = self.ctes.get(name).cloned() else { return Columns::default() };
        self.known.insert(name.to_owned(), Columns::default());
        let columns = self.of_query(&cte.query).under(Some(&cte.alias));
        self.known.insert(name.to_owned(), columns.clone());
        columns
    }

    fn of_query(&mut self, query: &Query) -> Columns {
        self.of_body(&query.body)
    }

    /// The column names of a set operation are those of its first part.
    fn of_body(&mut self, body: &SetExpr) -> Columns {
        match body {
            SetExpr::Select(select) => self.of_select(select),
            SetExpr::Query(query) => self.of_query(query),
            SetExpr::SetOperation { left, .. } => self.of_body(left),
            SetExpr::Values(values) => {
                let count = values.rows.first().map_or(0, |row| row.content.len());
                Columns::of((1..=count).map(|number| format!("column{number}")))
            }
            SetExpr::Insert(_)
            | SetExpr::Update(_)
            | SetExpr::Delete(_)
            | SetExpr::Merge(_)
            | SetExpr::Table(_) => Columns::default(),
        }
    }

    fn of_select(&mut self, select: &Select) -> Columns {
        let mut columns = Columns::default();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) => columns.names.extend(named(expr)),
                SelectItem::ExprWithAlias { alias, .. } => {
                    columns.names.insert(normal(ENGINE, alias));
                }
                SelectItem::Wildcard(_) => {
                    for joined in &select.from {
                        columns.add(self.of_joined(joined));
                    }
                }
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    let name = last(name);
                    let all = select.from.iter().flat_map(factors);
                    let one: Vec<_> = all.filter(|factor| source_name(factor) == name).collect();
                    // A source not found here belongs to an outer query: its columns are unknown.
                    if let [factor] = one.as_slice() {
                        columns.add(self.of_factor(factor));
                    }
                }
                SelectItem::QualifiedWildcard(..) | SelectItem::ExprWithAliases { .. } => {}
            }
        }
        columns
    }

    fn of_joined(&mut self, joined: &TableWithJoins) -> Columns {
        let mut columns = Columns::default();
        for factor in factors(joined) {
            columns.add(self.of_factor(factor));
        }
        columns
    }

    fn of_factor(&mut self, factor: &TableFactor) -> Columns {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let whole = parts(ENGINE, name).unwrap_or_default();
                let columns = match whole.as_slice() {
                    [schema, table] => Columns {
                        names: BTreeSet::new(),
                        of: [(schema.clone(), table.clone())].into(),
                    },
                    [part] => self.of_cte(part),
                    _ => Columns::default(),
                };
                columns.under(alias.as_ref())
            }
            TableFactor::Table { name, alias, with_ordinality, .. }
            | TableFactor::Function { name, alias, with_ordinality, .. } => {
                of_function(name, alias.as_ref(), *with_ordinality)
            }
            TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                let name = ObjectName::from(vec![Ident::new("unnest")]);
                // With several arrays, only a list of names tells the columns apart.
                let alone = array_exprs.len() == 1;
                let columns = of_function(&name, alias.as_ref(), *with_ordinality);
                if alone { columns } else { Columns::default().under(alias.as_ref()) }
            }
            TableFactor::Derived { subquery, alias, .. } => {
                self.of_query(subquery).under(alias.as_ref())
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                self.of_joined(table_with_joins).under(alias.as_ref())
            }
            TableFactor::TableFunction { .. }
            | TableFactor::JsonTable { .. }
            | TableFactor::OpenJsonTable { .. }
            | TableFactor::Pivot { .. }
            | TableFactor::Unpivot { .. }
            | TableFactor::UnpivotExpr { .. }
            | TableFactor::MatchRecognize { .. }
            | TableFactor::XmlTable { .. }
            | TableFactor::SemanticView { .. } => Columns::default(),
        }
    }
}

/// The name an item of a SELECT has without `AS`, where that is certain (FigureColname of PostgreSQL's
/// parse_target.c).
fn named(expr: &Expr) -> Option<String> {
    if let Expr::Nested(inner) | Expr::Cast { expr: inner, .. } = expr {
        return named(inner);
    }
    if let Expr::Function(call) = expr {
        return last(&call.name);
    }
    let ident = if let Expr::CompoundIdentifier(path) = expr {
        path.last()
    } else if let Expr::Identifier(ident) = expr {
        Some(ident)
    } else {
        None
    };
    ident.map(|ident| normal(ENGINE, ident))
}

fn last(name: &ObjectName) -> Option<String> {
    parts(ENGINE, name)?.pop()
}

/// The sources in one item of `FROM`, joins included.
fn factors(joined: &TableWithJoins) -> impl Iterator<Item = &TableFactor> {
    std::iter::once(&joined.relation).chain(joined.joins.iter().map(|join| &join.relation))
}

/// The name of this source for the rest of the statement.
fn source_name(factor: &TableFactor) -> Option<String> {
    let own = match factor {
        TableFactor::Table { name, alias, .. } | TableFactor::Function { name, alias, .. } => {
            (alias, last(name))
        }
        TableFactor::UNNEST { alias, .. } => (alias, Some("unnest".to_owned())),
        TableFactor::Derived { alias, .. } | TableFactor::NestedJoin { alias, .. } => (alias, None),
        TableFactor::TableFunction { .. }
        | TableFactor::JsonTable { .. }
        | TableFactor::OpenJsonTable { .. }
        | TableFactor::Pivot { .. }
        | TableFactor::Unpivot { .. }
        | TableFactor::UnpivotExpr { .. }
        | TableFactor::MatchRecognize { .. }
        | TableFactor::XmlTable { .. }
        | TableFactor::SemanticView { .. } => return None,
    };
    let (alias, name) = own;
    alias.as_ref().map(|alias| normal(ENGINE, &alias.name)).or(name)
}

/// The columns of a built-in function in `FROM`: its own named ones, or one under its alias or
/// name. For a function that the operator added, only the alias's list is known.
fn of_function(name: &ObjectName, alias: Option<&TableAlias>, ordinality: bool) -> Columns {
    let whole = parts(ENGINE, name).unwrap_or_default();
    let own = match whole.as_slice() {
        [name] => Some(name),
        [schema, name] if schema == "pg_catalog" => Some(name),
        _ => None,
    };
    let mut names: BTreeSet<String> = match own.map(String::as_str) {
        None => BTreeSet::new(),
        Some("json_each" | "jsonb_each" | "json_each_text" | "jsonb_each_text") => {
            ["key", "value"].map(str::to_owned).into()
        }
        Some(
            "json_array_elements"
            | "jsonb_array_elements"
            | "json_array_elements_text"
            | "jsonb_array_elements_text",
        ) => [String::from("value")].into(),
        Some(name) => {
            [alias.map_or_else(|| name.to_owned(), |alias| normal(ENGINE, &alias.name))].into()
        }
    };
    if ordinality {
        names.insert("ordinality".to_owned());
    }
    Columns { names, of: BTreeSet::new() }.under(alias)
}
