//! One normal form for all spellings of the same rule: the syntax tree without places, blanks and
//! comments.
//!
//! Written without recursion, because the author chooses a rule's depth.

use std::collections::BTreeMap;

use regorus::unstable::{Expr, Literal, Query, Rule, RuleAssign, RuleHead, WithModifier};

use crate::ast;

enum Next<'a> {
    Expr(&'a Expr),
    Query(&'a Query),
    Word(String),
}

/// What is still to be written, the last first.
#[derive(Default)]
struct Writing<'a> {
    next: Vec<Next<'a>>,
    out: String,
}

/// The form of a rule. `imports`: the local names of its file; those it uses are part of the form.
pub(super) fn of(rule: &Rule, imports: &BTreeMap<String, String>) -> String {
    let mut writing = Writing::default();
    match rule {
        Rule::Default { refr, args, value, .. } => {
            writing.token("default");
            writing.finish(refr);
            args.iter().for_each(|arg| writing.finish(arg));
            writing.token(":=");
            writing.finish(value);
        }
        Rule::Spec { head, bodies, .. } => {
            writing.head(head);
            for body in bodies {
                writing.token(if body.is_else { "else" } else { "if" });
                if body.is_else || body.assign.is_some() {
                    writing.assign(body.assign.as_ref());
                }
                writing.next.push(Next::Query(&body.query));
                writing.drain();
            }
        }
    }
    let parts = ast::parts(rule);
    let called = parts.calls.iter().filter_map(|(callee, ..)| callee.as_ref());
    let named = parts.refs.iter().chain(called);
    let used = named.filter_map(|path| imports.get_key_value(path.parts.first()?));
    for (name, path) in used.collect::<BTreeMap<_, _>>() {
        writing.token(&format!("where {name} is {path}"));
    }
    writing.out
}

impl<'a> Writing<'a> {
    fn token(&mut self, token: &str) {
        self.out.push_str(token);
        self.out.push(' ');
    }

    /// Writes an expression and all that is in it.
    fn finish(&mut self, expr: &'a Expr) {
        self.next.push(Next::Expr(expr));
        self.drain();
    }

    /// The value of a head: `true` unless written. `=` and `:=` are the same here.
    fn assign(&mut self, assign: Option<&'a RuleAssign>) {
        self.token(":=");
        match assign {
            Some(assign) => self.finish(&assign.value),
            None => self.token("true"),
        }
    }

    fn head(&mut self, head: &'a RuleHead) {
        match head {
            RuleHead::Compr { refr, assign, .. } => {
                self.token("is");
                self.finish(refr);
                self.assign(assign.as_ref());
            }
            RuleHead::Set { refr, key, .. } => {
                self.token("contains");
                self.finish(refr);
                key.iter().for_each(|key| self.finish(key));
            }
            RuleHead::Func { refr, args, assign, .. } => {
                self.token("function");
                self.finish(refr);
                self.token("(");
                args.iter().for_each(|arg| self.finish(arg));
                self.token(")");
                self.assign(assign.as_ref());
            }
        }
    }

    fn drain(&mut self) {
        while let Some(next) = self.next.pop() {
            match next {
                Next::Word(token) => self.token(&token),
                Next::Expr(expr) => self.expr(expr),
                Next::Query(query) => self.query(query),
            }
        }
    }

    /// Queues these next, in this order.
    fn then(&mut self, list: impl IntoIterator<Item = Next<'a>, IntoIter: DoubleEndedIterator>) {
        self.next.extend(list.into_iter().rev());
    }

    fn query(&mut self, query: &'a Query) {
        let mut list = vec![token("{")];
        for stmt in &query.stmts {
            literal(&stmt.literal, &mut list);
            for WithModifier { refr, r#as, .. } in &stmt.with_mods {
                list.extend([token("with"), Next::Expr(refr), token("as"), Next::Expr(r#as)]);
            }
            list.push(token(";"));
        }
        list.push(token("}"));
        self.then(list);
    }

    fn expr(&mut self, expr: &'a Expr) {
        let all = |items: &'a [regorus::unstable::Ref<Expr>]| {
            items.iter().map(|item| Next::Expr(item)).collect::<Vec<_>>()
        };
        match expr {
            // A raw string is the same text in another spelling.
            Expr::String { value, .. } | Expr::RawString { value, .. } => {
                self.token(&format!("text {value}"));
            }
            Expr::Number { value, .. } | Expr::Bool { value, .. } | Expr::Null { value, .. } => {
                self.token(&value.to_string());
            }
            Expr::Var { value, .. } => self.token(&format!("name {value}")),
            Expr::Array { items, .. } => self.then(within("[", all(items), "]")),
            Expr::Set { items, .. } => self.then(within("{", all(items), "}")),
            Expr::Object { fields, .. } => {
                let pairs = fields.iter().flat_map(|(_, key, value)| pair(key, value));
                self.then(within("object {", pairs.collect(), "}"));
            }
            Expr::ArrayCompr { term, query, .. } => {
                self.then([token("[|"), Next::Expr(term), Next::Query(query)]);
            }
            Expr::SetCompr { term, query, .. } => {
                self.then([token("{|"), Next::Expr(term), Next::Query(query)]);
            }
            Expr::ObjectCompr { key, value, query, .. } => {
                let mut list = vec![token("{:|")];
                list.extend(pair(key, value));
                list.push(Next::Query(query));
                self.then(list);
            }
            Expr::Call { fcn, params, .. } => {
                let mut list = vec![token("call"), Next::Expr(fcn)];
                list.extend(within("(", all(params), ")"));
                self.then(list);
            }
            Expr::UnaryExpr { expr, .. } => self.then([token("minus"), Next::Expr(expr)]),
            // `a.b` and `a["b"]` are one reference.
            Expr::RefDot { refr, field, .. } => {
                self.then([token("at"), Next::Expr(refr), token(&format!("text {}", field.1))]);
            }
            Expr::RefBrack { refr, index, .. } => {
                self.then([token("at"), Next::Expr(refr), Next::Expr(index)]);
            }
            Expr::BinExpr { op, lhs, rhs, .. } => self.infix(&format!("{op:?}"), lhs, rhs),
            Expr::BoolExpr { op, lhs, rhs, .. } => self.infix(&format!("{op:?}"), lhs, rhs),
            Expr::ArithExpr { op, lhs, rhs, .. } => self.infix(&format!("{op:?}"), lhs, rhs),
            Expr::AssignExpr { op, lhs, rhs, .. } => {
                self.infix(&format!("Assign{op:?}"), lhs, rhs);
            }
            Expr::Membership { key, value, collection, .. } => {
                let mut list = vec![token("in")];
                list.extend(key.iter().map(|key| Next::Expr(key)));
                list.extend([token(","), Next::Expr(value), Next::Expr(collection)]);
                self.then(list);
            }
        }
    }

    fn infix(&mut self, op: &str, lhs: &'a Expr, rhs: &'a Expr) {
        self.then([token(op), Next::Expr(lhs), Next::Expr(rhs)]);
    }
}

fn token<'a>(text: &str) -> Next<'a> {
    Next::Word(text.to_owned())
}

fn pair<'a>(key: &'a Expr, value: &'a Expr) -> [Next<'a>; 3] {
    [Next::Expr(key), token(":"), Next::Expr(value)]
}

fn within<'a>(open: &str, inner: Vec<Next<'a>>, close: &str) -> Vec<Next<'a>> {
    let mut list = vec![token(open)];
    list.extend(inner);
    list.push(token(close));
    list
}

fn literal<'a>(literal: &'a Literal, list: &mut Vec<Next<'a>>) {
    match literal {
        Literal::SomeVars { vars, .. } => {
            list.push(token("some"));
            list.extend(vars.iter().map(|var| token(var.text())));
        }
        Literal::SomeIn { key, value, collection, .. } => {
            list.push(token("some"));
            list.extend(key.iter().map(|key| Next::Expr(key)));
            list.extend([token(","), Next::Expr(value), token("in"), Next::Expr(collection)]);
        }
        Literal::Expr { expr, .. } => list.push(Next::Expr(expr)),
        Literal::NotExpr { expr, .. } => list.extend([token("not"), Next::Expr(expr)]),
        Literal::Every { key, value, domain, query, .. } => {
            list.push(token("every"));
            list.extend(key.iter().map(|key| token(key.text())));
            list.extend([token(","), token(value.text()), token("in"), Next::Expr(domain)]);
            list.push(Next::Query(query));
        }
    }
}
