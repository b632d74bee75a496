//! Whether a condition is decided without a call: it always holds, it never does, or it depends.

use std::collections::{BTreeMap, BTreeSet};

use regorus::Value;
use regorus::unstable::{AssignOp, BoolOp, Expr, Literal, LiteralStmt, Query};

use super::locals::Locals;
use super::scope::{ModuleScope, Target};
use super::shape::{self, InputTarget, Shape};
use crate::ast;

/// What is known of a condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ConditionValue {
    Always,
    /// Never, and why, for a person.
    Never(String),
    Unknown,
}

/// The known results of rules, by their whole path; grows until no new one is found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Verdicts {
    /// Their value is never there.
    pub undefined: BTreeSet<Vec<String>>,
    /// Their value is `false`, or is never there.
    pub never: BTreeSet<Vec<String>>,
    /// Their value is always `true`.
    pub always: BTreeSet<Vec<String>>,
    /// Sets without a member.
    pub empty: BTreeSet<Vec<String>>,
}

/// The conditions of one rule.
#[derive(Debug)]
pub(super) struct TruthScan<'a> {
    pub scope: &'a ModuleScope<'a>,
    pub locals: &'a Locals,
    pub known: &'a Verdicts,
}

impl TruthScan<'_> {
    /// Whether all conditions of a body hold: always, never, or it depends.
    pub fn query(&self, query: &Query) -> ConditionValue {
        let mut all = ConditionValue::Always;
        let mut equal = BTreeMap::new();
        for stmt in &query.stmts {
            if let Some(why) = self.contradicts(stmt, &mut equal) {
                return ConditionValue::Never(why);
            }
            match self.statement(stmt) {
                ConditionValue::Never(why) => return ConditionValue::Never(why),
                ConditionValue::Unknown => all = ConditionValue::Unknown,
                ConditionValue::Always => {}
            }
        }
        all
    }

    fn statement(&self, stmt: &LiteralStmt) -> ConditionValue {
        if !stmt.with_mods.is_empty() {
            return ConditionValue::Unknown;
        }
        match &stmt.literal {
            Literal::SomeVars { .. } => ConditionValue::Always,
            Literal::Expr { expr, .. } => self.condition(expr),
            Literal::NotExpr { expr, .. } => match self.condition(expr) {
                ConditionValue::Always => {
                    ConditionValue::Never(format!("`{}` always holds", shown(expr)))
                }
                ConditionValue::Never(_) => ConditionValue::Always,
                ConditionValue::Unknown => ConditionValue::Unknown,
            },
            Literal::SomeIn { collection, .. } => self.member_of(collection),
            Literal::Every { domain, .. } => {
                self.undefined(domain).map_or(ConditionValue::Unknown, ConditionValue::Never)
            }
        }
    }

    fn member_of(&self, collection: &Expr) -> ConditionValue {
        if let Some(why) = self.undefined(collection) {
            return ConditionValue::Never(why);
        }
        let nothing = || ConditionValue::Never(format!("`{}` is empty", shown(collection)));
        if literals(collection).is_some_and(|items| items.is_empty()) {
            return nothing();
        }
        let rule = self.rule(collection);
        if rule.is_some_and(|rule| self.known.empty.contains(rule)) {
            nothing()
        } else {
            ConditionValue::Unknown
        }
    }

    /// Two comparisons of one body want different values at one place.
    fn contradicts(
        &self,
        stmt: &LiteralStmt,
        equal: &mut BTreeMap<String, Value>,
    ) -> Option<String> {
        let Literal::Expr { expr, .. } = &stmt.literal else { return None };
        let Expr::BoolExpr { op: BoolOp::Eq, lhs, rhs, .. } = expr.as_ref() else { return None };
        let (place, value) =
            scalar(rhs).map(|v| (lhs, v)).or_else(|| scalar(lhs).map(|v| (rhs, v)))?;
        let Target::Input(steps) = self.scope.target(place, self.locals) else { return None };
        if steps.contains(&shape::PathStep::Any) {
            return None;
        }
        let before = equal
            .insert(self.locals.shown(place), value.clone())
            .filter(|before| before != value)?;
        Some(format!("`{}` cannot be both {before} and {value}", shown(place)))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
    fn condition(&self, expr: &Expr) -> ConditionValue {
        if let Some(why) = self.undefined(expr) {
            return ConditionValue::Never(why);
        }
        match expr {
            Expr::Bool { value, .. } if *value == Value::from(false) => {
                ConditionValue::Never("`false` never holds".to_owned())
            }
            Expr::BoolExpr { op, lhs, rhs, .. } => self.compared(op, lhs, rhs),
            Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } => {
                self.compared(&BoolOp::Eq, lhs, rhs)
            }
            Expr::AssignExpr { op: AssignOp::ColEq, rhs, .. }
                if scalar(rhs).is_some() || self.place(rhs).is_some_and(|(_, always)| always) =>
            {
                ConditionValue::Always
            }
            Expr::Membership { key: None, value, collection, .. } => {
                self.contained(value, collection)
            }
            Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => self.reference(expr),
            _other if scalar(expr).is_some() => ConditionValue::Always,
            _other => ConditionValue::Unknown,
        }
    }

    fn reference(&self, expr: &Expr) -> ConditionValue {
        if let Some(rule) = self.rule(expr) {
            if self.known.never.contains(rule) {
                return ConditionValue::Never(format!("`{}` never holds", shown(expr)));
            }
            let always = self.known.always.contains(rule);
            return if always { ConditionValue::Always } else { ConditionValue::Unknown };
        }
        match self.place(expr) {
            Some((shape, true)) if *shape != Shape::Flag => ConditionValue::Always,
            Some(_) | None => ConditionValue::Unknown,
        }
    }

    fn compared(&self, op: &BoolOp, lhs: &Expr, rhs: &Expr) -> ConditionValue {
        if let (Some(a), Some(b)) = (scalar(lhs), scalar(rhs)) {
            let holds = match op {
                BoolOp::Lt => a < b,
                BoolOp::Le => a <= b,
                BoolOp::Eq => a == b,
                BoolOp::Ge => a >= b,
                BoolOp::Gt => a > b,
                BoolOp::Ne => a != b,
            };
            let why = || format!("{a} {} {b} never holds", ast::sign(op));
            return if holds { ConditionValue::Always } else { ConditionValue::Never(why()) };
        }
        let sides = scalar(rhs).map(|v| (lhs, v)).or_else(|| scalar(lhs).map(|v| (rhs, v)));
        let Some((place, value)) = sides else {
            let same =
                shown(lhs) == shown(rhs) && matches!(op, BoolOp::Eq | BoolOp::Le | BoolOp::Ge);
            let there = self.place(lhs).is_some_and(|(_, always)| always);
            return if same && there { ConditionValue::Always } else { ConditionValue::Unknown };
        };
        let Some((shape, always)) = self.place(place) else { return ConditionValue::Unknown };
        match op {
            BoolOp::Eq if !takes(shape, value) => {
                ConditionValue::Never(never_is(place, shape, value))
            }
            BoolOp::Ne if !takes(shape, value) && always => ConditionValue::Always,
            BoolOp::Lt | BoolOp::Le | BoolOp::Eq | BoolOp::Ge | BoolOp::Gt | BoolOp::Ne => {
                ConditionValue::Unknown
            }
        }
    }

    /// `value in {…}`.
    fn contained(&self, value: &Expr, collection: &Expr) -> ConditionValue {
        let Some(items) = literals(collection) else {
            // A set of the bundle without a member.
            return self.member_of(collection);
        };
        if items.is_empty() {
            return ConditionValue::Never(format!("`{}` is empty", shown(collection)));
        }
        if let Some(value) = scalar(value) {
            let why = || format!("{value} is not in `{}`", shown(collection));
            return if items.contains(&value) {
                ConditionValue::Always
            } else {
                ConditionValue::Never(why())
            };
        }
        let Some((shape, always)) = self.place(value) else { return ConditionValue::Unknown };
        if items.iter().all(|item| !takes(shape, item)) {
            let first = items.first().copied().unwrap_or(&Value::Undefined);
            return ConditionValue::Never(never_is(value, shape, first));
        }
        let Shape::OneOf(all) = shape else { return ConditionValue::Unknown };
        let every = all.iter().all(|one| items.contains(&&Value::from(*one)));
        if always && every { ConditionValue::Always } else { ConditionValue::Unknown }
    }

    /// What of the input a reference reads, and whether every input has it.
    fn place(&self, expr: &Expr) -> Option<(&'static Shape, bool)> {
        let Target::Input(steps) = self.scope.target(expr, self.locals) else { return None };
        match shape::find(&steps) {
            InputTarget::There { shape, always } => Some((shape, always)),
            InputTarget::Never { .. } | InputTarget::Unknown => None,
        }
    }

    fn rule(&self, expr: &Expr) -> Option<&Vec<String>> {
        let Target::Data(steps) = self.scope.target(expr, self.locals) else { return None };
        self.scope.rule(&steps)
    }

    /// Why an expression has no value whatever the call: something it needs is never there.
    pub fn undefined(&self, expr: &Expr) -> Option<String> {
        let mut left = vec![expr];
        while let Some(expr) = left.pop() {
            let why = match expr {
                Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => self.absent(expr),
                Expr::Call { fcn, params, .. } => {
                    left.extend(params.iter().map(AsRef::as_ref));
                    self.absent_rule(fcn)
                }
                Expr::BinExpr { lhs, rhs, .. }
                | Expr::BoolExpr { lhs, rhs, .. }
                | Expr::ArithExpr { lhs, rhs, .. }
                | Expr::AssignExpr { lhs, rhs, .. } => {
                    left.extend([lhs.as_ref(), rhs.as_ref()]);
                    None
                }
                Expr::Membership { value, collection, .. } => {
                    left.extend([value.as_ref(), collection.as_ref()]);
                    None
                }
                Expr::UnaryExpr { expr, .. } => {
                    left.push(expr);
                    None
                }
                Expr::Array { items, .. } | Expr::Set { items, .. } => {
                    left.extend(items.iter().map(AsRef::as_ref));
                    None
                }
                Expr::Object { fields, .. } => {
                    left.extend(fields.iter().map(|(_, _, value)| value.as_ref()));
                    None
                }
                // What is within a comprehension makes it empty, not undefined.
                Expr::ArrayCompr { .. } | Expr::SetCompr { .. } | Expr::ObjectCompr { .. } => None,
                Expr::String { .. }
                | Expr::RawString { .. }
                | Expr::Number { .. }
                | Expr::Bool { .. }
                | Expr::Null { .. } => None,
            };
            if why.is_some() {
                return why;
            }
        }
        None
    }

    fn absent(&self, expr: &Expr) -> Option<String> {
        if let Some((path, _)) = self.scope.never_supplied(expr, self.locals) {
            return Some(format!("`{path}` is never supplied"));
        }
        let Target::Data(steps) = self.scope.target(expr, self.locals) else { return None };
        match steps.first() {
            None | Some(shape::PathStep::Any) => None,
            Some(shape::PathStep::Name("wicketgate")) => self.absent_rule(expr),
            Some(shape::PathStep::Name(_)) => (!self.scope.in_data(&steps))
                .then(|| format!("`{}` is not in the bundle's data", shown(expr))),
        }
    }

    fn absent_rule(&self, expr: &Expr) -> Option<String> {
        let rule = self.rule(expr)?;
        self.known.undefined.contains(rule).then(|| format!("`{}` is never defined", shown(expr)))
    }
}

/// The text of an expression, cut to one short line.
fn shown(expr: &Expr) -> String {
    let text = expr.span().text().split_whitespace().collect::<Vec<_>>().join(" ");
    text.chars().take(80).collect()
}

fn never_is(place: &Expr, shape: &Shape, value: &Value) -> String {
    let what = match shape {
        Shape::OneOf(all) => format!("it is one of {}", all.join(", ")),
        Shape::Text => "it is a text".to_owned(),
        Shape::Number => "it is a number".to_owned(),
        Shape::Flag => "it is `true` or `false`".to_owned(),
        Shape::List(_) => "it is a list".to_owned(),
        Shape::Object(_) | Shape::Effect | Shape::Texts | Shape::Open => {
            "it is an object".to_owned()
        }
    };
    format!("`{}` is never {value}: {what}", shown(place))
}

/// Whether this value is possible at a place of this shape.
fn takes(shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (Shape::Open, _) => true,
        (Shape::Text, value) => matches!(value, Value::String(_)),
        (Shape::OneOf(all), Value::String(text)) => all.contains(&&**text),
        (Shape::Number, value) => matches!(value, Value::Number(_)),
        (Shape::Flag, value) => matches!(value, Value::Bool(_)),
        // Callers ask about scalars only.
        (Shape::OneOf(_) | Shape::Texts | Shape::List(_) | Shape::Object(_) | Shape::Effect, _) => {
            false
        }
    }
}

/// The value of a scalar literal.
#[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
pub(super) fn scalar(expr: &Expr) -> Option<&Value> {
    match expr {
        Expr::String { value, .. }
        | Expr::RawString { value, .. }
        | Expr::Number { value, .. }
        | Expr::Bool { value, .. }
        | Expr::Null { value, .. } => Some(value),
        _other => None,
    }
}

/// The items of a literal list or set of scalars.
#[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
fn literals(expr: &Expr) -> Option<Vec<&Value>> {
    match expr {
        Expr::Array { items, .. } | Expr::Set { items, .. } => {
            items.iter().map(|item| scalar(item)).collect()
        }
        _other => None,
    }
}

/// The rule's name for readers outside of its package.
pub(super) fn name_of(rule: &regorus::unstable::Rule) -> Option<Vec<String>> {
    ast::path(ast::head(rule)).map(|path| path.parts)
}
