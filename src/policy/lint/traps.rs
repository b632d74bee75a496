//! Finds conditions that hold more often than they seem to, where one of them lets a call pass.
//!
//! The lint follows every deciding rule to the rules it reads, and tracks whether a rule that holds
//! more often allows more: `not` inverts that. So it finds
//! `deny if not regex.match("example.com", host)`, and not
//! `deny if regex.match("example.com", host)`, which denies more than it seems to. Conditions
//! within an `every` count as they do beside it; those within a comprehension as the condition it
//! is in.

use std::collections::BTreeSet;

use regorus::unstable::{AssignOp, BoolOp, Expr, Literal, LiteralStmt, Module, Ref, Rule, Span};

use super::locals::{Given, Locals};
use super::patterns;
use super::scope::{ModuleScope, Target};
use super::shape::{self, InputTarget, PathStep};
use super::{Finding, Level};
use crate::domain::json::Json;
use crate::{ast, source};

/// What is said of a rule that lets calls pass because earlier calls ended well.
const BY_TRUST: &str = "this lets calls pass by the trust in the tool, which rises by itself: let a low score make a rule stricter instead";

/// One rule of the bundle and the names it sees.
struct KnownRule<'a> {
    name: Vec<String>,
    rule: &'a Rule,
    scope: ModuleScope<'a>,
    locals: Locals,
}

/// All findings in the layers.
pub(super) fn find(
    modules: &[&Ref<Module>],
    names: &BTreeSet<Vec<String>>,
    data: &Json,
    given: &Given,
) -> Vec<Finding> {
    let mut all = Vec::new();
    for module in modules.iter().filter(|module| !ast::file(module).starts_with("lib/")) {
        for rule in &module.policy {
            let name = ast::whole(module, rule);
            let scope = ModuleScope::of(module, names, data);
            let given = given.get(&name).map(Vec::as_slice).unwrap_or_default();
            let locals = Locals::of(&scope, rule, given);
            all.push(KnownRule { name, rule, scope, locals });
        }
    }
    let mut open: Vec<(usize, bool)> =
        all.iter().enumerate().filter_map(|(at, known)| Some((at, grows(&known.name)?))).collect();
    let mut seen: BTreeSet<(usize, bool)> = open.iter().copied().collect();
    let mut findings = Vec::new();
    while let Some((at, more)) = open.pop() {
        let Some(known) = all.get(at) else { continue };
        let scan = ConditionScan { all: &all, known };
        for body in bodies(known.rule) {
            scan.body(body, &[], more, &mut findings);
            for (stmt, more) in conditions(body, more) {
                let rules = scan.rules_read(stmt).into_iter().map(|rule| (rule, more));
                open.extend(rules.filter(|next| seen.insert(*next)));
            }
        }
    }
    findings
}

/// Whether this rule, if it holds more often, allows more; `None`: it decides nothing by itself.
fn grows(name: &[String]) -> Option<bool> {
    match name.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["wicketgate", "agent" | "team", "allow"] => Some(true),
        ["wicketgate", "org" | "agent" | "team", "deny" | "require_approval"] => Some(false),
        _ => None,
    }
}

fn bodies(rule: &Rule) -> Vec<&[LiteralStmt]> {
    match rule {
        Rule::Spec { bodies, .. } => {
            bodies.iter().map(|body| body.query.stmts.as_slice()).collect()
        }
        Rule::Default { .. } => Vec::new(),
    }
}

/// The conditions of a body and of the `every`s in it, and whether more of each means more that is allowed.
fn conditions(body: &[LiteralStmt], more: bool) -> Vec<(&LiteralStmt, bool)> {
    let mut all = Vec::new();
    for stmt in body {
        all.push((stmt, more != matches!(stmt.literal, Literal::NotExpr { .. })));
        if let Literal::Every { query, .. } = &stmt.literal {
            all.extend(conditions(&query.stmts, more));
        }
    }
    all
}

/// The parts of a condition; the conditions within an `every` are conditions of their own.
fn parts(stmt: &LiteralStmt) -> ast::Parts<'_> {
    if let Literal::Every { domain, .. } = &stmt.literal {
        ast::expression(domain)
    } else {
        ast::condition(stmt)
    }
}

/// The conditions of one rule.
struct ConditionScan<'a> {
    all: &'a [KnownRule<'a>],
    known: &'a KnownRule<'a>,
}

impl ConditionScan<'_> {
    /// `context`: the conditions that must hold before these are evaluated.
    fn body(
        &self,
        body: &[LiteralStmt],
        context: &[&LiteralStmt],
        more: bool,
        findings: &mut Vec<Finding>,
    ) {
        let whole: Vec<&LiteralStmt> = context.iter().copied().chain(body).collect();
        for stmt in body {
            if let Literal::Every { query, .. } = &stmt.literal {
                self.body(&query.stmts, &whole, more, findings);
            }
            let negated = matches!(stmt.literal, Literal::NotExpr { .. });
            let mut found = |code, span: &Span, message: String| {
                let (level, place) = (Level::Warning, source::place(span));
                findings.push(Finding { level, code, message, place });
            };
            if more != negated {
                for (callee, span, params) in parts(stmt).calls {
                    let name = callee.map(|path| path.parts.join(".")).unwrap_or_default();
                    if let Some((code, message)) = patterns::trap(&name, params, &self.known.locals)
                    {
                        found(code, span, message);
                    }
                }
            }
            if more && parts(stmt).reads.iter().any(|read| self.reads_trust(read)) {
                found("lint.allow_by_trust", &stmt.span, BY_TRUST.to_owned());
            }
            if !more {
                if let Some(message) = self.silent(stmt, &whole) {
                    found("lint.negation_silent", &stmt.span, message);
                }
                continue;
            }
            match &stmt.literal {
                Literal::NotExpr { .. } => {
                    if let Some(message) = self.unknown(stmt, &whole) {
                        found("lint.negation_unknown", &stmt.span, message);
                    }
                }
                Literal::Every { domain, .. } => {
                    if let Some(message) = self.vacuous(domain, &whole) {
                        found("lint.every_empty", &stmt.span, message);
                    }
                }
                Literal::SomeVars { .. } | Literal::SomeIn { .. } | Literal::Expr { .. } => {}
            }
        }
    }

    /// Whether an expression reads the trust in the tool.
    fn reads_trust(&self, expr: &Expr) -> bool {
        let Target::Input(steps) = self.known.scope.target(expr, &self.known.locals) else {
            return false;
        };
        matches!(steps.as_slice(), [PathStep::Name("tool"), PathStep::Name("trust"), ..])
    }

    /// The rules and functions that a condition reads.
    fn rules_read(&self, stmt: &LiteralStmt) -> Vec<usize> {
        let parts = parts(stmt);
        let mut paths: Vec<Vec<String>> =
            parts.reads.iter().filter_map(|read| self.data_path(read)).collect();
        let called = parts.calls.iter().filter_map(|(callee, ..)| callee.as_ref());
        paths.extend(called.filter_map(|path| self.known.scope.whole(&path.parts)));
        let named = |known: &KnownRule<'_>| paths.iter().any(|path| path.starts_with(&known.name));
        self.all.iter().enumerate().filter(|(_, known)| named(known)).map(|(at, _)| at).collect()
    }

    /// The path below `data` of a reference, as far as it is known.
    fn data_path(&self, expr: &Expr) -> Option<Vec<String>> {
        let Target::Data(steps) = self.known.scope.target(expr, &self.known.locals) else {
            return None;
        };
        let names = steps.iter().map_while(|step| match step {
            PathStep::Name(name) => Some((*name).to_owned()),
            PathStep::Any => None,
        });
        Some(names.collect())
    }

    /// The places of the input that a condition reads and that not every input has.
    fn optional(&self, stmt: &LiteralStmt) -> Vec<String> {
        let reads = parts(stmt).reads;
        let mut places: Vec<String> =
            reads.iter().filter(|read| self.may_miss(read)).map(|read| self.shown(read)).collect();
        places.sort();
        places.dedup();
        places
    }

    /// The optional places without which a `not` holds. Arguments of a call, an operator or a
    /// bracket are not among them: OPA evaluates those first.
    fn left_in(&self, stmt: &LiteralStmt) -> Vec<String> {
        let Literal::NotExpr { expr, .. } = &stmt.literal else { return Vec::new() };
        let sides: Vec<&Expr> = if let Expr::BoolExpr { op: BoolOp::Eq, lhs, rhs, .. }
        | Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } =
            expr.as_ref()
        {
            vec![lhs, rhs]
        } else {
            vec![expr]
        };
        let missing = sides.into_iter().filter(|side| self.may_miss(side));
        missing.map(|side| self.shown(side)).collect()
    }

    fn shown(&self, expr: &Expr) -> String {
        self.known.locals.shown(expr)
    }

    fn may_miss(&self, expr: &Expr) -> bool {
        let Target::Input(steps) = self.known.scope.target(expr, &self.known.locals) else {
            return false;
        };
        // The place of a variable exists; without it, no later condition is evaluated.
        let Some((there, after)) = steps.split_at_checked(self.known.locals.settled(expr)) else {
            return false;
        };
        let found = match shape::find(there) {
            InputTarget::There { shape, .. } => shape::below(shape, after),
            InputTarget::Unknown if after.is_empty() => return false,
            found @ (InputTarget::Unknown | InputTarget::Never { .. }) => found,
        };
        match found {
            InputTarget::There { always, .. } => !always,
            InputTarget::Unknown => true,
            InputTarget::Never { .. } => false,
        }
    }

    /// Why a `not` that should stop a call does not: OPA evaluates the arguments of a call, an
    /// operator or a bracket first, and where one is missing the whole rule is undefined.
    fn silent(&self, stmt: &LiteralStmt, body: &[&LiteralStmt]) -> Option<String> {
        if !matches!(stmt.literal, Literal::NotExpr { .. }) {
            return None;
        }
        let (present, left) = (self.sure(body), self.left_in(stmt));
        let place = |place: &String| !present.contains(place) && !left.contains(place);
        let place = self.optional(stmt).into_iter().find(place)?;
        let condition = source::shown(&stmt.span);
        Some(format!("`{condition}` fails, and the rule with it, where `{place}` is missing"))
    }

    /// The optional places of the input that the other conditions of a body need.
    fn sure(&self, body: &[&LiteralStmt]) -> BTreeSet<String> {
        let positive = || {
            let all = body.iter().copied();
            all.filter(|stmt| !matches!(stmt.literal, Literal::NotExpr { .. }))
        };
        let rules = positive().flat_map(|other| self.rules_read(other));
        let below = rules.flat_map(|rule| self.below(rule));
        positive().flat_map(|other| self.optional(other)).chain(below).collect()
    }

    /// Why a `not` holds for a call with missing members.
    fn unknown(&self, stmt: &LiteralStmt, body: &[&LiteralStmt]) -> Option<String> {
        let present = self.sure(body);
        let missing =
            |places: Vec<String>| places.into_iter().find(|place| !present.contains(place));
        let condition = source::shown(&stmt.span);
        if let Some(place) = missing(self.left_in(stmt)) {
            return Some(format!("`{condition}` holds where `{place}` is missing"));
        }
        self.rules_read(stmt).into_iter().find_map(|rule| {
            let place = missing(self.below(rule))?;
            Some(format!("`{condition}` holds where `{place}`, which it asks about, is missing"))
        })
    }

    /// The optional places that the conditions of another rule need.
    fn below(&self, rule: usize) -> Vec<String> {
        let Some(known) = self.all.get(rule) else { return Vec::new() };
        let scan = ConditionScan { all: self.all, known };
        let positive = bodies(known.rule).into_iter().flatten();
        let positive = positive.filter(|stmt| !matches!(stmt.literal, Literal::NotExpr { .. }));
        positive.flat_map(|stmt| scan.optional(stmt)).collect()
    }

    /// Why an `every` holds for an empty collection.
    fn vacuous(&self, domain: &Expr, body: &[&LiteralStmt]) -> Option<String> {
        let mut names = vec![path(domain)];
        let mut from_input = self.in_input(domain);
        for stmt in body {
            if let Literal::Expr { expr, .. } = &stmt.literal
                && let Expr::AssignExpr { op: AssignOp::ColEq, lhs, rhs, .. } = expr.as_ref()
                && names.contains(&path(lhs))
            {
                names.push(path(rhs));
                from_input |= self.in_input(rhs);
            }
        }
        let guarded = body.iter().any(|stmt| guards(stmt, &names));
        let shown = source::shown(domain.span());
        (from_input && !guarded).then(|| format!("`every` over `{shown}` holds where it is empty"))
    }

    fn in_input(&self, expr: &Expr) -> bool {
        matches!(self.known.scope.target(expr, &self.known.locals), Target::Input(_))
    }
}

/// Whether a condition cannot hold for an empty collection of one of these names.
fn guards(stmt: &LiteralStmt, names: &[String]) -> bool {
    let is = |expr: &Expr| names.contains(&path(expr));
    match &stmt.literal {
        Literal::SomeIn { collection, .. } => is(collection),
        Literal::Expr { expr, .. } => {
            let parts = ast::condition(stmt);
            let counted = parts.calls.iter().any(|(callee, _, params)| {
                callee.as_ref().is_some_and(|path| path.parts == ["count"])
                    && params.first().is_some_and(|param| is(param))
            });
            let within = |read: &&Expr| matches!(read, Expr::RefBrack { refr, .. } if is(refr));
            let other = matches!(expr.as_ref(), Expr::BoolExpr { op: BoolOp::Ne, lhs, rhs, .. }
                if is(lhs) || is(rhs));
            counted || other || parts.reads.iter().any(within)
        }
        Literal::SomeVars { .. } | Literal::NotExpr { .. } | Literal::Every { .. } => false,
    }
}

/// The text of a reference without white space.
fn path(expr: &Expr) -> String {
    source::text(expr.span()).split_whitespace().collect()
}
