//! Variables under `not` that nothing outside of it binds: OPA calls them unsafe, our engine would
//! look for any value at all.

use std::collections::BTreeSet;

use regorus::unstable::{AssignOp, Expr, Literal, LiteralStmt, Module, Ref, Rule, RuleHead};

use crate::ast;
use crate::fault::LoadError;

/// One finding for each such variable.
pub(super) fn check(modules: &[Ref<Module>]) -> Vec<LoadError> {
    let mut errors = Vec::new();
    for module in modules {
        let names = names(module, modules);
        for rule in &module.policy {
            let bound = bound(rule);
            for stmt in ast::parts(rule).conditions {
                let Literal::NotExpr { expr, .. } = &stmt.literal else { continue };
                let free =
                    |name: &String| name == "_" || !(bound.contains(name) || names.contains(name));
                for name in within(expr).into_iter().filter(free) {
                    let message = format!(
                        "`{name}` is bound by nothing outside of `not`: bind it with `some … in …` before, \
                         or give the condition a rule of its own"
                    );
                    let (file, code) = (ast::file(module).to_owned(), "policy.negation");
                    let (line, column) = (stmt.span.line, stmt.span.col);
                    errors.push(LoadError { file, line, column, code, message });
                }
            }
        }
    }
    errors
}

/// What a name can be without being a variable: the input, data, an import, a rule of the package.
fn names(module: &Module, modules: &[Ref<Module>]) -> BTreeSet<String> {
    let mut names = BTreeSet::from(["input".to_owned(), "data".to_owned()]);
    for import in &module.imports {
        let alias = import.r#as.as_ref().map(|span| span.text().to_owned());
        let last = || ast::path(&import.refr).and_then(|path| path.parts.last().cloned());
        names.extend(alias.or_else(last));
    }
    let package = ast::package(module);
    for other in modules.iter().filter(|other| ast::package(other) == package) {
        for rule in &other.policy {
            let head = ast::path(ast::head(rule));
            names.extend(head.and_then(|path| path.parts.into_iter().next()));
        }
    }
    names
}

/// The variables that arguments and conditions without `not` hold, anywhere in the rule.
fn bound(rule: &Rule) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if let Rule::Spec { head: RuleHead::Func { args, .. }, .. } = rule {
        args.iter().for_each(|arg| names.extend(variables(arg)));
    }
    for LiteralStmt { literal, .. } in ast::parts(rule).conditions {
        match literal {
            Literal::SomeVars { .. } | Literal::NotExpr { .. } => {}
            Literal::SomeIn { key, value, collection, .. } => {
                for expr in key.iter().chain([value, collection]) {
                    names.extend(variables(expr));
                }
            }
            Literal::Expr { expr, .. } => names.extend(variables(expr)),
            Literal::Every { key, value, domain, .. } => {
                names.extend(key.iter().chain([value]).map(|span| span.text().to_owned()));
                names.extend(variables(domain));
            }
        }
    }
    names
}

/// The names in an expression, those in comprehensions too.
fn variables(expr: &Expr) -> impl Iterator<Item = String> {
    let reads = ast::expression(expr).reads;
    let first = |read: &Expr| ast::path(read).and_then(|path| path.parts.into_iter().next());
    reads.into_iter().filter_map(first).collect::<Vec<_>>().into_iter()
}

/// The names that stay under `not`: OPA evaluates calls and operators within it first, and a
/// comprehension binds its own.
fn within(expr: &Expr) -> Vec<String> {
    let mut names = Vec::new();
    let mut todo: Vec<&Expr> = outermost(expr);
    while let Some(expr) = todo.pop() {
        match expr {
            Expr::Var { span, .. } => names.push(span.text().to_owned()),
            Expr::RefDot { refr, .. } => todo.push(refr),
            Expr::RefBrack { refr, index, .. } => todo.extend([refr.as_ref(), index.as_ref()]),
            Expr::Array { items, .. } | Expr::Set { items, .. } => {
                todo.extend(items.iter().map(AsRef::as_ref));
            }
            Expr::Object { fields, .. } => {
                todo.extend(fields.iter().flat_map(|(_, key, value)| [key.as_ref(), value]));
            }
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. }
            | Expr::ArrayCompr { .. }
            | Expr::SetCompr { .. }
            | Expr::ObjectCompr { .. }
            | Expr::Call { .. }
            | Expr::UnaryExpr { .. }
            | Expr::BinExpr { .. }
            | Expr::BoolExpr { .. }
            | Expr::ArithExpr { .. }
            | Expr::AssignExpr { .. }
            | Expr::Membership { .. } => {}
        }
    }
    names
}

/// The arguments of the outermost call or operator.
#[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
fn outermost(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Call { params, .. } => params.iter().map(AsRef::as_ref).collect(),
        Expr::BoolExpr { lhs, rhs, .. }
        | Expr::ArithExpr { lhs, rhs, .. }
        | Expr::BinExpr { lhs, rhs, .. }
        | Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } => vec![lhs, rhs],
        Expr::Membership { key, value, collection, .. } => {
            key.iter().chain([value, collection]).map(AsRef::as_ref).collect()
        }
        other => vec![other],
    }
}
