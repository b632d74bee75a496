//! Reading regorus's syntax tree: every reference, call, literal and `with` of a rule, without recursion.

use regorus::Value;
use regorus::unstable::{
    BoolOp, Expr, Literal, LiteralStmt, Module, Query, Ref, Rule, RuleBody, RuleHead, Span,
    WithModifier,
};

/// A dotted path, as far as it is known without evaluating.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// Its components, up to the first bracket that holds no literal.
    pub parts: Vec<String>,
}

impl Path {
    /// It as written with dots.
    pub fn dotted(&self) -> String {
        self.parts.join(".")
    }
}

/// A call: the function's static path if it has one, its place, its parameters.
pub(super) type Call<'a> = (Option<Path>, &'a Span, &'a [Ref<Expr>]);

/// The parts of one rule.
#[derive(Default, Debug)]
pub(super) struct Parts<'a> {
    /// References, outermost first: `data.a.b`, `input.x`, `local`.
    pub refs: Vec<Path>,
    /// The same as expressions, those without a name too.
    pub reads: Vec<&'a Expr>,
    /// Calls: the function's path and its parameters; `None` for a function without a static path.
    pub calls: Vec<Call<'a>>,
    /// String literals.
    pub strings: Vec<(&'a str, &'a Span)>,
    /// Object members whose key and value are literal strings.
    pub members: Vec<(&'a str, &'a str)>,
    /// `with` modifiers.
    pub withs: Vec<&'a WithModifier>,
    /// Conditions, those of nested bodies too.
    pub conditions: Vec<&'a LiteralStmt>,
    /// How many arrays, sets, objects and comprehensions there are.
    pub collections: usize,
    /// Sums, differences, products and quotients.
    pub arithmetic: Vec<&'a Expr>,
    exprs: Vec<&'a Expr>,
    queries: Vec<&'a Query>,
}

/// Everything in the head and the bodies of a rule.
pub(super) fn parts(rule: &Rule) -> Parts<'_> {
    let mut out = Parts::default();
    match rule {
        Rule::Default { args, value, .. } => {
            out.exprs.extend(args.iter().map(AsRef::as_ref));
            out.exprs.push(value);
        }
        Rule::Spec { head, bodies, .. } => {
            out.head(head);
            for body in bodies {
                out.exprs.extend(body.assign.iter().map(|a| a.value.as_ref()));
                out.queries.push(&body.query);
            }
        }
    }
    out.drain();
    out
}

/// Everything in one condition of a body.
pub(super) fn condition(stmt: &LiteralStmt) -> Parts<'_> {
    let mut out = Parts::default();
    out.statement(stmt);
    out.drain();
    out
}

/// Everything in one expression.
pub(super) fn expression(expr: &Expr) -> Parts<'_> {
    let mut out = Parts::default();
    out.exprs.push(expr);
    out.drain();
    out
}

/// The static components of a reference: `a.b["c"][x]` gives `a`, `b`, `c`. `None` without a
/// leading name.
#[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
pub(super) fn path(expr: &Expr) -> Option<Path> {
    let mut reversed: Vec<Option<String>> = Vec::new();
    let mut at = expr;
    loop {
        match at {
            Expr::Var { value, .. } => {
                reversed.push(Some(text(value)?.to_owned()));
                break;
            }
            Expr::RefDot { refr, field, .. } => {
                reversed.push(text(&field.1).map(str::to_owned));
                at = refr;
            }
            Expr::RefBrack { refr, index, .. } => {
                reversed.push(literal(index).map(str::to_owned));
                at = refr;
            }
            _other => return None,
        }
    }
    let parts = reversed.into_iter().rev().map_while(|part| part).collect();
    Some(Path { parts })
}

/// The text of a string literal.
pub(super) fn literal(expr: &Expr) -> Option<&str> {
    if let Expr::String { value, .. } | Expr::RawString { value, .. } = expr {
        text(value)
    } else {
        None
    }
}

/// The reference a rule's head defines.
pub(super) fn head(rule: &Rule) -> &Expr {
    match rule {
        Rule::Default { refr, .. } => refr,
        Rule::Spec { head, .. } => match head {
            RuleHead::Compr { refr, .. }
            | RuleHead::Set { refr, .. }
            | RuleHead::Func { refr, .. } => refr,
        },
    }
}

/// Whether the rule defines a function.
pub(super) fn is_function(rule: &Rule) -> bool {
    match rule {
        Rule::Default { args, .. } => !args.is_empty(),
        Rule::Spec { head, .. } => matches!(head, RuleHead::Func { .. }),
    }
}

/// The package of a module: `wicketgate`, `agent`.
pub(super) fn package(module: &Module) -> Vec<String> {
    path(&module.package.refr).map(|path| path.parts).unwrap_or_default()
}

/// The whole path of a rule: `wicketgate`, `agent`, `deny`.
pub(super) fn whole(module: &Module, rule: &Rule) -> Vec<String> {
    let mut name = package(module);
    name.extend(path(head(rule)).map(|path| path.parts).unwrap_or_default());
    name
}

/// The sign of a comparison.
pub(super) const fn sign(op: &BoolOp) -> &'static str {
    match op {
        BoolOp::Lt => "<",
        BoolOp::Le => "<=",
        BoolOp::Eq => "==",
        BoolOp::Ge => ">=",
        BoolOp::Gt => ">",
        BoolOp::Ne => "!=",
    }
}

/// The imports of a file: each local name, with its path.
pub(super) fn imports(module: &Module) -> impl Iterator<Item = (String, Vec<String>)> {
    module.imports.iter().map(|import| {
        let parts = path(&import.refr).map(|path| path.parts).unwrap_or_default();
        let alias = import.r#as.as_ref().map(|span| span.text().to_owned());
        (alias.or_else(|| parts.last().cloned()).unwrap_or_default(), parts)
    })
}

/// The name of the file a module was read from.
pub(super) fn file(module: &Module) -> &str {
    module.package.span.source.get_path()
}

/// The written values of a rule, in its head and behind each `else`; empty where that is `true`.
pub(super) fn values(rule: &Rule) -> impl Iterator<Item = &Expr> {
    let (head, bodies): (Option<&Expr>, &[RuleBody]) = match rule {
        Rule::Default { value, .. } => (Some(value), &[]),
        Rule::Spec { head, bodies, .. } => {
            let own = match head {
                RuleHead::Compr { assign, .. } | RuleHead::Func { assign, .. } => {
                    assign.as_ref().map(|assign| assign.value.as_ref())
                }
                RuleHead::Set { key, .. } => key.as_ref().map(AsRef::as_ref),
            };
            (own, bodies)
        }
    };
    let others = bodies.iter().filter_map(|body| body.assign.as_ref());
    head.into_iter().chain(others.map(|assign| assign.value.as_ref()))
}

/// Arrays, sets, objects and comprehensions in a rule's written value.
pub(super) fn head_collections(rule: &Rule) -> usize {
    values(rule).map(|value| expression(value).collections).fold(0, usize::saturating_add)
}

/// Whether it is a text, a number, a boolean or null, written out.
pub(super) const fn is_scalar(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. }
    )
}

const fn is_collection(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Array { .. }
            | Expr::Set { .. }
            | Expr::Object { .. }
            | Expr::ArrayCompr { .. }
            | Expr::SetCompr { .. }
            | Expr::ObjectCompr { .. }
    )
}

fn text(value: &Value) -> Option<&str> {
    if let Value::String(text) = value { Some(text) } else { None }
}

impl<'a> Parts<'a> {
    /// The names of the functions that are called, as far as they are static.
    pub fn callees(&self) -> impl Iterator<Item = String> {
        self.calls.iter().filter_map(|(callee, ..)| callee.as_ref()).map(Path::dotted)
    }

    fn head(&mut self, head: &'a RuleHead) {
        match head {
            RuleHead::Compr { refr, assign, .. } => {
                self.indices(refr);
                self.exprs.extend(assign.iter().map(|a| a.value.as_ref()));
            }
            RuleHead::Set { refr, key, .. } => {
                self.indices(refr);
                self.exprs.extend(key.iter().map(AsRef::as_ref));
            }
            RuleHead::Func { refr, args, assign, .. } => {
                self.indices(refr);
                self.exprs.extend(args.iter().map(AsRef::as_ref));
                self.exprs.extend(assign.iter().map(|a| a.value.as_ref()));
            }
        }
    }

    /// The brackets of a reference are expressions of their own; its base may be one.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
    fn indices(&mut self, expr: &'a Expr) {
        let mut at = expr;
        loop {
            match at {
                Expr::RefDot { refr, .. } => at = refr,
                Expr::RefBrack { refr, index, .. } => {
                    self.exprs.push(index);
                    at = refr;
                }
                Expr::Var { .. } => return,
                _other => return self.exprs.push(at),
            }
        }
    }

    fn drain(&mut self) {
        loop {
            if let Some(expr) = self.exprs.pop() {
                self.expr(expr);
            } else if let Some(query) = self.queries.pop() {
                self.query(query);
            } else {
                return;
            }
        }
    }

    fn query(&mut self, query: &'a Query) {
        query.stmts.iter().for_each(|stmt| self.statement(stmt));
    }

    fn statement(&mut self, stmt: &'a LiteralStmt) {
        self.conditions.push(stmt);
        for with in &stmt.with_mods {
            self.withs.push(with);
            self.exprs.push(&with.r#as);
        }
        match &stmt.literal {
            Literal::SomeVars { .. } => {}
            Literal::SomeIn { key, value, collection, .. } => {
                self.exprs.extend(key.iter().map(AsRef::as_ref));
                self.exprs.extend([value.as_ref(), collection.as_ref()]);
            }
            Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => self.exprs.push(expr),
            Literal::Every { domain, query, .. } => {
                self.exprs.push(domain);
                self.queries.push(query);
            }
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        self.collections = self.collections.saturating_add(usize::from(is_collection(expr)));
        match expr {
            Expr::String { span, .. } | Expr::RawString { span, .. } => {
                self.strings.extend(literal(expr).map(|text| (text, span)));
            }
            Expr::Number { .. } | Expr::Bool { .. } | Expr::Null { .. } => {}
            Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => {
                self.refs.extend(path(expr));
                self.reads.push(expr);
                self.indices(expr);
            }
            Expr::Array { items, .. } | Expr::Set { items, .. } => {
                self.exprs.extend(items.iter().map(AsRef::as_ref));
            }
            Expr::Object { fields, .. } => {
                for (_, key, value) in fields {
                    self.members.extend(literal(key).zip(literal(value)));
                    self.exprs.extend([key.as_ref(), value.as_ref()]);
                }
            }
            Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
                self.exprs.push(term);
                self.queries.push(query);
            }
            Expr::ObjectCompr { key, value, query, .. } => {
                self.exprs.extend([key.as_ref(), value.as_ref()]);
                self.queries.push(query);
            }
            Expr::Call { span, fcn, params, .. } => {
                self.calls.push((path(fcn), span, params));
                self.indices(fcn);
                self.exprs.extend(params.iter().map(AsRef::as_ref));
            }
            Expr::UnaryExpr { expr, .. } => self.exprs.push(expr),
            Expr::ArithExpr { lhs, rhs, .. } => {
                self.arithmetic.push(expr);
                self.exprs.extend([lhs.as_ref(), rhs.as_ref()]);
            }
            Expr::BinExpr { lhs, rhs, .. }
            | Expr::BoolExpr { lhs, rhs, .. }
            | Expr::AssignExpr { lhs, rhs, .. } => self.exprs.extend([lhs.as_ref(), rhs.as_ref()]),
            Expr::Membership { key, value, collection, .. } => {
                self.exprs.extend(key.iter().map(AsRef::as_ref));
                self.exprs.extend([value.as_ref(), collection.as_ref()]);
            }
        }
    }
}
