//! Rewrites conditions and sums so that the engine answers as stock OPA does.
//!
//! OPA takes the arguments of a call, an operator or a bracket out of a negated condition and
//! evaluates them first, so that `not startswith(input.args.path, "/etc")` fails where there is no
//! path. Our engine leaves them inside, and there the negation would hold. This module takes them
//! out the same way; a bare reference, and the two sides of `==`, stay inside, as they do in OPA.

use regorus::unstable::{
    ArithOp, AssignOp, BinOp, BoolOp, Expr, Literal, LiteralStmt, Query, Ref, WithModifier,
};

use super::{EXACT, GIVEN};
use crate::ast;

/// Nested calls, operators and brackets of one rewritten condition.
const DEPTH_MAX: usize = 32;

/// Why a condition cannot be rewritten.
pub(super) type CannotRewrite = &'static str;
const TOO_DEEP: CannotRewrite = "more than 32 calls, operators or brackets within each other";
const ASSIGNED: CannotRewrite = "`:=` under `not` binds nothing: bind it before";

/// Numbers the variables of one file.
#[derive(Debug, Default)]
pub(super) struct Writer {
    variables: usize,
    depth: usize,
}

/// Conditions to evaluate first, and the `with …` for them.
struct First {
    conditions: Vec<String>,
    withs: String,
}

impl Writer {
    /// A condition, after the conditions to evaluate before it.
    pub fn statement(&mut self, stmt: &LiteralStmt) -> Result<String, CannotRewrite> {
        let Literal::NotExpr { expr, .. } = &stmt.literal else {
            let withs = stmt.with_mods.iter().map(|with| self.with(with, None));
            let withs = withs.collect::<Result<String, CannotRewrite>>()?;
            return Ok(format!("{}{withs}", self.literal(&stmt.literal)?));
        };
        let mut first = First { conditions: Vec::new(), withs: String::new() };
        let mut withs = String::new();
        for with in &stmt.with_mods {
            withs.push_str(&self.with(with, Some(&mut first))?);
        }
        first.withs.clone_from(&withs);
        let negated = self.negated(expr, &mut first)?;
        first.conditions.push(format!("not {negated}{withs}"));
        Ok(first.conditions.join("; "))
    }

    /// ` with input as x`; OPA evaluates the replacement first, without any `with`.
    fn with(
        &mut self,
        with: &WithModifier,
        first: Option<&mut First>,
    ) -> Result<String, CannotRewrite> {
        let value = match first {
            Some(first) => self.given(&with.r#as, first)?,
            None => self.expr(&with.r#as)?,
        };
        Ok(format!(" with {} as {value}", self.expr(&with.refr)?))
    }

    fn literal(&mut self, literal: &Literal) -> Result<String, CannotRewrite> {
        let pair = |key: Option<String>, value: &str| {
            key.map_or_else(|| value.to_owned(), |key| format!("{key}, {value}"))
        };
        Ok(match literal {
            Literal::SomeVars { vars, .. } => {
                let names: Vec<&str> = vars.iter().map(|var| var.text()).collect();
                format!("some {}", names.join(", "))
            }
            Literal::SomeIn { key, value, collection, .. } => {
                let key = key.as_ref().map(|key| self.expr(key)).transpose()?;
                let (value, collection) = (self.expr(value)?, self.operand(collection)?);
                format!("some {} in {collection}", pair(key, &value))
            }
            Literal::Expr { expr, .. } => self.expr(expr)?,
            Literal::NotExpr { expr, .. } => format!("not {}", self.expr(expr)?),
            Literal::Every { key, value, domain, query, .. } => {
                let key = key.as_ref().map(|key| key.text().to_owned());
                let (domain, body) = (self.operand(domain)?, self.query(query)?);
                format!("every {} in {domain} {{ {body} }}", pair(key, value.text()))
            }
        })
    }

    fn query(&mut self, query: &Query) -> Result<String, CannotRewrite> {
        let each = query.stmts.iter().map(|stmt| self.statement(stmt));
        Ok(each.collect::<Result<Vec<String>, CannotRewrite>>()?.join("; "))
    }

    /// The expression under `not`.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
    fn negated(&mut self, expr: &Expr, first: &mut First) -> Result<String, CannotRewrite> {
        match expr {
            Expr::BoolExpr { op: BoolOp::Eq, lhs, rhs, .. } => {
                Ok(format!("{} == {}", self.side(lhs, first)?, self.side(rhs, first)?))
            }
            Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } => {
                Ok(format!("{} = {}", self.side(lhs, first)?, self.side(rhs, first)?))
            }
            Expr::AssignExpr { op: AssignOp::ColEq, .. } => Err(ASSIGNED),
            _ if is_call(expr) => self.with_given(expr, first),
            _ => self.side(expr, first),
        }
    }

    /// A call or an operator with its arguments taken out.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
    fn with_given(&mut self, expr: &Expr, first: &mut First) -> Result<String, CannotRewrite> {
        match expr {
            Expr::Call { fcn, params, .. } => {
                let given = params.iter().map(|param| self.given(param, first));
                let given = given.collect::<Result<Vec<_>, _>>()?;
                Ok(format!("{}({})", self.expr(fcn)?, given.join(", ")))
            }
            Expr::BoolExpr { op, lhs, rhs, .. } => {
                let (lhs, rhs) = (self.given(lhs, first)?, self.given(rhs, first)?);
                Ok(format!("{lhs} {} {rhs}", ast::sign(op)))
            }
            Expr::ArithExpr { op, lhs, rhs, .. } => {
                let (lhs, rhs) = (self.given(lhs, first)?, self.given(rhs, first)?);
                Ok(format!("{EXACT}(\"{}\", {lhs}, {rhs})", operator(op)))
            }
            Expr::BinExpr { op, lhs, rhs, .. } => {
                let (lhs, rhs) = (self.given(lhs, first)?, self.given(rhs, first)?);
                Ok(format!("{lhs} {} {rhs}", of_sets(op)))
            }
            Expr::Membership { key, value, collection, .. } => {
                let key = key.as_ref().map(|key| self.given(key, first)).transpose()?;
                let value = self.given(value, first)?;
                let collection = self.given(collection, first)?;
                let value = key.map_or_else(|| value.clone(), |key| format!("{key}, {value}"));
                Ok(format!("{value} in {collection}"))
            }
            other => self.expr(other),
        }
    }

    /// One side of `==`, or a reference: it stays, its brackets are taken out.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
    fn side(&mut self, expr: &Expr, first: &mut First) -> Result<String, CannotRewrite> {
        match expr {
            Expr::RefDot { .. } | Expr::RefBrack { .. } => self.reference(expr, first),
            Expr::Var { .. } => self.expr(expr),
            other => self.given(other, first),
        }
    }

    /// A reference; its beginning is taken out unless it is a name.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
    fn reference(&mut self, expr: &Expr, first: &mut First) -> Result<String, CannotRewrite> {
        self.deeper(|own| match expr {
            Expr::RefDot { refr, field, .. } => {
                let base = own.reference(refr, first)?;
                Ok(format!("{base}[{}]", field.1))
            }
            Expr::RefBrack { refr, index, .. } => {
                let base = own.reference(refr, first)?;
                let index = own.given(index, first)?;
                let index = if index.starts_with(GIVEN) { only(&index) } else { index };
                Ok(format!("{base}[{index}]"))
            }
            Expr::Var { .. } => own.expr(expr),
            other => own.bound(other, first),
        })
    }

    /// An argument of a call, an operator, a bracket or a literal: everything that can be missing
    /// is taken out.
    fn given(&mut self, expr: &Expr, first: &mut First) -> Result<String, CannotRewrite> {
        match expr {
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. }
            // A comprehension is never missing.
            | Expr::ArrayCompr { .. }
            | Expr::SetCompr { .. }
            | Expr::ObjectCompr { .. } => self.expr(expr),
            Expr::Var { .. }
            | Expr::RefDot { .. }
            | Expr::RefBrack { .. }
            | Expr::Array { .. }
            | Expr::Set { .. }
            | Expr::Object { .. }
            | Expr::Call { .. }
            | Expr::UnaryExpr { .. }
            | Expr::BinExpr { .. }
            | Expr::BoolExpr { .. }
            | Expr::ArithExpr { .. }
            | Expr::AssignExpr { .. }
            | Expr::Membership { .. } => self.bound(expr, first),
        }
    }

    /// The variable that an expression is bound to before the condition.
    fn bound(&mut self, expr: &Expr, first: &mut First) -> Result<String, CannotRewrite> {
        let value = self.expr(expr)?;
        let name = format!("{GIVEN}{}", self.variables);
        self.variables = self.variables.saturating_add(1);
        first.conditions.push(format!("{name} := {value}{}", first.withs));
        Ok(name)
    }

    fn deeper<T>(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<T, CannotRewrite>,
    ) -> Result<T, CannotRewrite> {
        if self.depth >= DEPTH_MAX {
            return Err(TOO_DEEP);
        }
        self.depth = self.depth.saturating_add(1);
        let written = write(self);
        self.depth = self.depth.saturating_sub(1);
        written
    }

    /// An expression, with its inner parts rewritten where necessary.
    pub fn expr(&mut self, expr: &Expr) -> Result<String, CannotRewrite> {
        self.deeper(|own| own.any(expr))
    }

    fn any(&mut self, expr: &Expr) -> Result<String, CannotRewrite> {
        Ok(match expr {
            Expr::String { value, .. } | Expr::RawString { value, .. } => value.to_string(),
            Expr::Number { span, .. } | Expr::Var { span, .. } => span.text().to_owned(),
            Expr::Bool { value, .. } | Expr::Null { value, .. } => value.to_string(),
            Expr::Array { items, .. } => format!("[{}]", self.list(items)?),
            Expr::Set { items, .. } if items.is_empty() => "set()".to_owned(),
            Expr::Set { items, .. } => format!("{{{}}}", self.list(items)?),
            Expr::Object { fields, .. } => {
                let pairs = fields.iter().map(|(_, key, value)| self.pair(key, value));
                format!("{{{}}}", pairs.collect::<Result<Vec<_>, _>>()?.join(", "))
            }
            Expr::ArrayCompr { term, query, .. } => {
                format!("[{} | {}]", self.operand(term)?, self.query(query)?)
            }
            Expr::SetCompr { term, query, .. } => {
                format!("{{{} | {}}}", self.operand(term)?, self.query(query)?)
            }
            Expr::ObjectCompr { key, value, query, .. } => {
                format!("{{{} | {}}}", self.pair(key, value)?, self.query(query)?)
            }
            Expr::Call { fcn, params, .. } => {
                format!("{}({})", self.expr(fcn)?, self.list(params)?)
            }
            Expr::UnaryExpr { expr, .. } => format!("- {}", self.operand(expr)?),
            Expr::RefDot { refr, field, .. } => format!("{}.{}", self.expr(refr)?, field.0.text()),
            Expr::RefBrack { refr, index, .. } => {
                format!("{}[{}]", self.expr(refr)?, self.operand(index)?)
            }
            Expr::BinExpr { op, lhs, rhs, .. } => self.infix(of_sets(op), lhs, rhs)?,
            Expr::BoolExpr { op, lhs, rhs, .. } => self.infix(ast::sign(op), lhs, rhs)?,
            Expr::ArithExpr { op, lhs, rhs, .. } => {
                let (lhs, rhs) = (self.operand(lhs)?, self.operand(rhs)?);
                format!("{EXACT}(\"{}\", {lhs}, {rhs})", operator(op))
            }
            Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } => self.infix("=", lhs, rhs)?,
            Expr::AssignExpr { op: AssignOp::ColEq, lhs, rhs, .. } => match copied(expr) {
                Some(name) => format!("{} := {}", self.operand(lhs)?, only(name)),
                None => self.infix(":=", lhs, rhs)?,
            },
            Expr::Membership { key, value, collection, .. } => {
                let key = key.as_ref().map(|key| self.operand(key)).transpose()?;
                let key = key.map(|key| format!("{key}, ")).unwrap_or_default();
                format!("{key}{} in {}", self.operand(value)?, self.operand(collection)?)
            }
        })
    }

    fn infix(&mut self, op: &str, lhs: &Expr, rhs: &Expr) -> Result<String, CannotRewrite> {
        Ok(format!("{} {op} {}", self.operand(lhs)?, self.operand(rhs)?))
    }

    fn list(&mut self, items: &[Ref<Expr>]) -> Result<String, CannotRewrite> {
        let each = items.iter().map(|item| self.operand(item));
        Ok(each.collect::<Result<Vec<_>, _>>()?.join(", "))
    }

    fn pair(&mut self, key: &Expr, value: &Expr) -> Result<String, CannotRewrite> {
        Ok(format!("{}: {}", self.operand(key)?, self.operand(value)?))
    }

    /// An expression within another: an operator in brackets.
    fn operand(&mut self, expr: &Expr) -> Result<String, CannotRewrite> {
        let text = self.expr(expr)?;
        let open =
            matches!(expr, Expr::BinExpr { .. } | Expr::BoolExpr { .. } | Expr::Membership { .. });
        Ok(if open { format!("({text})") } else { text })
    }
}

/// The variable that another one is set to.
pub(super) fn copied(expr: &Expr) -> Option<&str> {
    if let Expr::AssignExpr { op: AssignOp::ColEq, rhs, .. } = expr
        && let Expr::Var { span, .. } = rhs.as_ref()
    {
        return Some(span.text());
    }
    None
}

/// A variable as a value. WHY: bare in brackets, or set to another bare one, the engine takes it
/// for one that the brackets bind, and evaluates them too early.
pub(super) fn only(name: &str) -> String {
    format!("[{name}][0]")
}

/// Whether OPA sees a call: of a function, or an operator that is one.
fn is_call(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Call { .. }
            | Expr::BinExpr { .. }
            | Expr::BoolExpr { .. }
            | Expr::ArithExpr { .. }
            | Expr::Membership { .. }
    )
}

const fn of_sets(op: &BinOp) -> &'static str {
    match op {
        BinOp::Intersection => "&",
        BinOp::Union => "|",
    }
}

const fn operator(op: &ArithOp) -> &'static str {
    match op {
        ArithOp::Add => "+",
        ArithOp::Sub => "-",
        ArithOp::Mul => "*",
        ArithOp::Div => "/",
        ArithOp::Mod => "%",
    }
}
