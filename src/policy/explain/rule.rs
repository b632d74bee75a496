//! One rule, condition by condition.

use std::collections::{BTreeMap, BTreeSet};

use regorus::Value;
use regorus::unstable::{AssignOp, Expr, Literal, LiteralStmt, Module, Query, Ref, Rule, RuleHead};

use super::{Condition, ProbeOutcome, Prober, RuleTrace, json};
use crate::domain::json::Json;
use crate::{ast, source};

/// How far rules that rules ask are followed.
const DEPTH: usize = 3;
/// References of one condition that the trace contains.
const READS: usize = 8;

/// Traces rules: an engine with an input, and the modules whose rules can be followed.
#[derive(Debug)]
pub(crate) struct RuleTracer<'a> {
    prober: &'a Prober,
    modules: &'a [Ref<Module>],
}

impl<'a> RuleTracer<'a> {
    /// Tells of rules as this prober sees them.
    pub const fn new(prober: &'a Prober, modules: &'a [Ref<Module>]) -> Self {
        Self { prober, modules }
    }

    /// How far this rule comes; functions and defaults have no trace.
    pub fn rule(&self, module: &Module, rule: &Rule, depth: usize) -> Option<RuleTrace> {
        let Rule::Spec { span, head, bodies } = rule else { return None };
        if matches!(head, RuleHead::Func { .. }) {
            return None;
        }
        let head_value = source::value_span(head).map_or("true", |place| source::part(span, place));
        let mut trace = RuleTrace {
            name: ast::whole(module, rule).join("."),
            place: source::place(span),
            fired: false,
            result: Vec::new(),
            conditions: Vec::new(),
        };
        if bodies.is_empty() {
            trace.result = self.result(module, "", head_value);
            trace.fired = !trace.result.is_empty();
        }
        for body in bodies {
            let value = match &body.assign {
                Some(assign) => source::part(&assign.span, source::assigned(assign)),
                None if body.is_else => "true",
                None => head_value,
            };
            let (conditions, holds) = self.conditions(module, &body.query, depth);
            let result = holds.map(|text| self.result(module, &text, value)).unwrap_or_default();
            if !result.is_empty() {
                (trace.fired, trace.result, trace.conditions) = (true, result, conditions);
                break;
            }
            trace.conditions.extend(conditions);
        }
        Some(trace)
    }

    fn result(&self, module: &Module, body: &str, value: &str) -> Vec<Json> {
        match self.prober.ask(module, body, value) {
            ProbeOutcome::Values(values) => values.iter().map(json).collect(),
            ProbeOutcome::Unsafe | ProbeOutcome::Failed(_) => Vec::new(),
        }
    }

    /// The conditions of a body up to the first that does not hold; its text, if all of them do.
    pub fn conditions(
        &self,
        module: &Module,
        query: &Query,
        depth: usize,
    ) -> (Vec<Condition>, Option<String>) {
        let (mut traces, mut body, mut stopped) = (Vec::new(), String::new(), false);
        let mut bound = BTreeSet::new();
        for stmt in &query.stmts {
            let mut condition = Condition {
                place: source::place(&stmt.span),
                text: source::shown(&stmt.span),
                holds: None,
                failed: None,
                reads: Vec::new(),
                because: Vec::new(),
            };
            if !stopped {
                let longer = format!("{body}\n{}", source::text(&stmt.span));
                match self.prober.ask(module, &longer, "true") {
                    ProbeOutcome::Values(values) => condition.holds = Some(!values.is_empty()),
                    ProbeOutcome::Unsafe => {}
                    ProbeOutcome::Failed(why) => condition.failed = Some(why),
                }
                condition.reads = self.reads(module, (&body, &bound), stmt);
                bound.extend(binds(stmt));
                stopped = condition.holds == Some(false) || condition.failed.is_some();
                if stopped && depth < DEPTH {
                    condition.because = self.because(module, &body, stmt, depth);
                }
                body = longer;
            }
            traces.push(condition);
        }
        (traces, (!stopped).then_some(body))
    }

    /// The parts of input, data and rules that a condition reads, as expressions of the text.
    /// `bound`: the variables that conditions before it bind.
    fn reads(
        &self,
        module: &Module,
        (body, bound): (&str, &BTreeSet<String>),
        stmt: &LiteralStmt,
    ) -> Vec<(String, Option<Json>)> {
        let (parts, withs) = (ast::condition(stmt), source::withs(stmt));
        let mut seen = BTreeSet::new();
        let names = names(module);
        let known = |read: &&Expr| {
            let first = ast::path(read).and_then(|path| path.parts.into_iter().next());
            first.is_some_and(|first| names.contains(&first) || bound.contains(&first))
        };
        let mut reads: Vec<&Expr> = parts.reads.into_iter().filter(known).collect();
        reads.sort_by_key(|read| read.span().start);
        let reads = reads.into_iter().map(|read| source::text(read.span()));
        let own = reads.filter(|text| seen.insert((*text).to_owned())).take(READS);
        own.map(|text| {
            let value = self.prober.value(module, body, text, withs);
            (text.to_owned(), value.as_ref().map(json))
        })
        .collect()
    }

    /// The traces of the rules that a condition reads.
    fn because(
        &self,
        module: &Module,
        body: &str,
        stmt: &LiteralStmt,
        depth: usize,
    ) -> Vec<RuleTrace> {
        let replaced;
        let prober = if stmt.with_mods.is_empty() {
            self.prober
        } else {
            let [with] = stmt.with_mods.as_slice() else { return Vec::new() };
            if source::text(with.refr.span()) != "input" {
                return Vec::new();
            }
            let text = source::replacement(with);
            let Some(input) = self.prober.value(module, body, text, "") else { return Vec::new() };
            replaced = self.prober.with_input(&input);
            &replaced
        };
        let tracer = RuleTracer::new(prober, self.modules);
        let wanted = paths_read(module, stmt);
        let mut causes = Vec::new();
        for other in self.modules {
            for rule in &other.policy {
                let name = ast::whole(other, rule);
                if wanted.iter().any(|path| path.starts_with(&name)) {
                    causes.extend(tracer.rule(other, rule, depth.saturating_add(1)));
                }
            }
        }
        causes
    }

    /// What the first `with input as …` of a condition puts in the place of the input.
    pub fn input_of(&self, module: &Module, body: &str, stmt: &LiteralStmt) -> Option<Value> {
        let with = stmt.with_mods.iter().find(|w| source::text(w.refr.span()) == "input")?;
        self.prober.value(module, body, source::replacement(with), "")
    }
}

/// What a module's references can begin with: input, data, its imports and the rules of its package here.
fn names(module: &Module) -> BTreeSet<String> {
    let mut names = BTreeSet::from(["input".to_owned(), "data".to_owned()]);
    names.extend(ast::imports(module).map(|(alias, _)| alias));
    let heads = module.policy.iter().filter_map(|rule| ast::path(ast::head(rule)));
    names.extend(heads.filter_map(|path| path.parts.into_iter().next()));
    names
}

/// The variables that a condition binds for later ones.
fn binds(stmt: &LiteralStmt) -> Vec<String> {
    let variable = |expr: &Expr| {
        if let Expr::Var { span, .. } = expr { Some(span.text().to_owned()) } else { None }
    };
    match &stmt.literal {
        Literal::SomeIn { key, value, .. } => {
            key.iter().chain([value]).filter_map(|expr| variable(expr)).collect()
        }
        Literal::Expr { expr, .. } => {
            if let Expr::AssignExpr { op: AssignOp::ColEq, lhs, .. } = expr.as_ref() {
                variable(lhs).into_iter().collect()
            } else {
                Vec::new()
            }
        }
        Literal::SomeVars { .. } | Literal::NotExpr { .. } | Literal::Every { .. } => Vec::new(),
    }
}

/// The paths below `data` that a condition reads: of its own package, imported, or whole.
fn paths_read(module: &Module, stmt: &LiteralStmt) -> Vec<Vec<String>> {
    let imports: BTreeMap<String, Vec<String>> = ast::imports(module).collect();
    let whole = |path: ast::Path| {
        let (first, rest) = path.parts.split_first()?;
        let mut parts = match imports.get(first) {
            Some(import) => import.clone(),
            None if first == "data" => vec!["data".to_owned()],
            None => {
                let mut own = vec!["data".to_owned()];
                own.extend(ast::package(module));
                own.push(first.clone());
                own
            }
        };
        parts.extend(rest.iter().cloned());
        (parts.first().map(String::as_str) == Some("data")).then(|| parts.split_off(1))
    };
    ast::condition(stmt).refs.into_iter().filter_map(whole).collect()
}
