//! Analyses an operator's statement: its kind, and the names in it.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, ObjectName, Query, Statement as Parsed, Value, ValueWithSpan, VisitorMut,
};

use super::read::StatementRefusal;
use super::walk::{Flow, WalkFindings, normal, parts, refuse, shown, spelled};
use super::{Engine, Statement};

/// Looks at a statement of the operator.
pub(super) struct NamedStatement<'a> {
    engine: Engine,
    home: &'a str,
    seen: WalkFindings,
    writes: bool,
}

impl<'a> NamedStatement<'a> {
    /// `home`: the schema of names without one.
    pub fn new(engine: Engine, home: &'a str) -> Self {
        Self { engine, home, seen: WalkFindings::default(), writes: false }
    }

    /// What kind of statement it is, if it writes rows.
    pub fn kind(statement: &Parsed) -> Option<&'static str> {
        let of = |name, is: bool| is.then_some(name);
        of("insert", matches!(statement, Parsed::Insert(_)))
            .or_else(|| of("update", matches!(statement, Parsed::Update(_))))
            .or_else(|| of("delete", matches!(statement, Parsed::Delete(_))))
            .or_else(|| of("merge", matches!(statement, Parsed::Merge(_))))
    }

    /// The statement with the findings.
    pub fn into_statement(mut self, text: String, kind: &'static str) -> Statement {
        let parts = std::mem::take(&mut self.seen.parts);
        let is_part = |relation: &String| {
            let name = relation.rsplit('.').next().unwrap_or_default();
            parts.contains(name) && shown(self.engine, self.home, name) == *relation
        };
        self.seen.relations.retain(|relation| !is_part(relation));
        self.seen.parts = parts;
        self.seen.statement(text, kind, self.writes)
    }
}

impl VisitorMut for NamedStatement<'_> {
    type Break = Box<StatementRefusal>;

    fn pre_visit_statement(&mut self, statement: &mut Parsed) -> Flow {
        if Self::kind(statement).is_some() {
            self.writes = true;
        } else if !matches!(statement, Parsed::Query(_)) {
            return refuse("sql.not_select", "a named query reads or writes rows");
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        let names = query.with.iter().flat_map(|with| &with.cte_tables);
        let names = names.map(|cte| normal(self.engine, &cte.alias.name));
        self.seen.parts.extend(names);
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> Flow {
        let name = match parts(self.engine, relation).as_deref() {
            Some([table]) => shown(self.engine, self.home, table),
            Some([schema, table]) => shown(self.engine, schema, table),
            Some(_) | None => relation.to_string(),
        };
        self.seen.relations.insert(name);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        if let Expr::Function(call) = expr {
            let name = parts(self.engine, &call.name).map(|parts| parts.join("."));
            self.seen.functions.insert(name.unwrap_or_else(|| call.name.to_string()));
        }
        self.seen.functions.extend(spelled(expr).map(str::to_owned));
        ControlFlow::Continue(())
    }

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> Flow {
        if let Value::Placeholder(text) = &value.value {
            return self.seen.parameter(self.engine, text);
        }
        ControlFlow::Continue(())
    }
}
