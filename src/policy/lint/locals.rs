//! The variables of one rule, and the parts of the input they stand for.
//!
//! The lint follows a variable to which the whole rule gives a value once: by `:=` without `with`,
//! as the value of `some … in` or `every … in`, or as the parameter of a function that every call
//! gives the same path. It then stands for a path of the input, or for a literal text. Not
//! followed: a variable that several bodies or branches set, `=`, patterns such as `[a, b] := …`,
//! and results of calls or comprehensions.

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{AssignOp, Expr, Literal, LiteralStmt, Module, Ref, Rule, RuleHead};

use super::scope::{ModuleScope, Target};
use super::shape::{self, InputTarget, PathStep};
use crate::{ast, source};

/// A path of the input: names, and `None` for a bracket with a computed value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct InputPath {
    steps: Vec<Option<String>>,
    /// Its spelling at the place of the variable.
    shown: String,
}

/// What the calls of functions give to each parameter, by the whole path of the function: `None`
/// where they differ or are unknown.
pub(super) type Given = BTreeMap<Vec<String>, Vec<Option<InputPath>>>;

/// What a variable gets its value from.
#[derive(Clone, Copy)]
enum VariableSource<'a> {
    Value(&'a Expr),
    /// A member of this.
    Member(&'a Expr),
    /// The parameter with this number.
    Parameter(usize),
    /// What is not followed.
    Other,
}

/// The variables a rule declares for itself.
#[derive(Debug, Default)]
pub(super) struct Locals {
    /// Those that hide names of the module.
    names: BTreeSet<String>,
    places: BTreeMap<String, InputPath>,
    texts: BTreeMap<String, String>,
}

impl Locals {
    /// The variables of this rule. `given`: the arguments of its calls, if it is a function.
    pub fn of(scope: &ModuleScope<'_>, rule: &Rule, given: &[Option<InputPath>]) -> Self {
        let names = top(rule);
        let mut declared: BTreeMap<String, Vec<VariableSource<'_>>> = BTreeMap::new();
        for (name, from) in declarations(rule) {
            declared.entry(name).or_default().push(from);
        }
        let mut locals = Self { names, ..Self::default() };
        let mut left: Vec<(String, VariableSource<'_>)> = declared
            .into_iter()
            .filter(|(name, _)| locals.names.contains(name) || !scope.defines(name))
            .filter_map(|(name, from)| Some((name, *from.first().filter(|_| from.len() == 1)?)))
            .collect();
        // A variable may stand for a part of another.
        loop {
            let before = left.len();
            left.retain(|(name, from)| !locals.learn(scope, name, *from, given));
            if left.len() == before {
                return locals;
            }
        }
    }

    /// Learns a variable's value; false while it depends on an unknown one.
    fn learn(
        &mut self,
        scope: &ModuleScope<'_>,
        name: &str,
        from: VariableSource<'_>,
        given: &[Option<InputPath>],
    ) -> bool {
        let place = match from {
            VariableSource::Value(expr) => {
                if let Some(text) = self.text(expr) {
                    self.texts.insert(name.to_owned(), text);
                    return true;
                }
                self.place(scope, expr)
            }
            VariableSource::Member(expr) => self.place(scope, expr).and_then(|mut all| {
                all.steps.push(None);
                all.shown = format!("{}[{name}]", all.shown);
                all.leads_somewhere().then_some(all)
            }),
            VariableSource::Parameter(at) => given.get(at).cloned().flatten(),
            VariableSource::Other => None,
        };
        let known = place.is_some();
        self.places.extend(place.map(|place| (name.to_owned(), place)));
        known
    }

    /// The path of the input that an expression is, if some input has it.
    pub fn place(&self, scope: &ModuleScope<'_>, expr: &Expr) -> Option<InputPath> {
        let Target::Input(steps) = scope.target(expr, self) else { return None };
        let owned = |step: &PathStep<'_>| match step {
            PathStep::Name(name) => Some((*name).to_owned()),
            PathStep::Any => None,
        };
        let place = InputPath { steps: steps.iter().map(owned).collect(), shown: self.shown(expr) };
        place.leads_somewhere().then_some(place)
    }

    /// Whether a name is one of the rule's own.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name) || self.places.contains_key(name) || self.texts.contains_key(name)
    }

    /// The steps of a variable's path.
    pub fn steps(&self, name: &str) -> Option<impl Iterator<Item = PathStep<'_>>> {
        let place = self.places.get(name)?;
        Some(place.steps.iter().map(|step| step.as_deref().map_or(PathStep::Any, PathStep::Name)))
    }

    /// How many steps of a reference its variable stands for: the input has these in any case.
    pub fn settled(&self, expr: &Expr) -> usize {
        let base = ast::path(expr).and_then(|path| path.parts.into_iter().next());
        let place = base.and_then(|base| self.places.get(&base));
        place.map_or(0, |place| place.steps.len())
    }

    /// A reference as it would be written without variables, without white space.
    pub fn shown(&self, expr: &Expr) -> String {
        let text: String = source::text(expr.span()).split_whitespace().collect();
        let base = ast::path(expr).and_then(|path| path.parts.into_iter().next());
        let place = base.as_ref().and_then(|base| self.places.get(base));
        let rest = base.as_ref().and_then(|base| text.strip_prefix(base.as_str()));
        match (place, rest) {
            (Some(place), Some(rest)) => format!("{}{rest}", place.shown),
            (None, _) | (_, None) => text,
        }
    }

    /// The literal text of an expression, or of its variable.
    pub fn text(&self, expr: &Expr) -> Option<String> {
        let variable = || self.texts.get(&variable(expr)?).cloned();
        ast::literal(expr).map(str::to_owned).or_else(variable)
    }
}

impl InputPath {
    fn leads_somewhere(&self) -> bool {
        let steps =
            self.steps.iter().map(|step| step.as_deref().map_or(PathStep::Any, PathStep::Name));
        !matches!(shape::find(&steps.collect::<Vec<_>>()), InputTarget::Never { .. })
    }
}

/// The arguments that all calls in these modules give to the functions they call.
pub(super) fn given<'a>(all: impl Iterator<Item = (&'a Module, ModuleScope<'a>)>) -> Given {
    let mut given = Given::new();
    for (module, scope) in all {
        for rule in &module.policy {
            let locals = Locals::of(&scope, rule, &[]);
            for (callee, _, params) in ast::parts(rule).calls {
                let Some(name) = callee.and_then(|path| scope.whole(&path.parts)) else { continue };
                let places = params.iter().map(|param| locals.place(&scope, param)).collect();
                merge(given.entry(name), places);
            }
        }
    }
    given
}

type Entry<'a> = std::collections::btree_map::Entry<'a, Vec<String>, Vec<Option<InputPath>>>;

/// What two calls give alike stays.
fn merge(entry: Entry<'_>, places: Vec<Option<InputPath>>) {
    let known = match entry {
        Entry::Vacant(vacant) => {
            vacant.insert(places);
            return;
        }
        Entry::Occupied(known) => known.into_mut(),
    };
    known.truncate(places.len());
    for (known, place) in known.iter_mut().zip(places) {
        if *known != place {
            *known = None;
        }
    }
}

/// The variables that the bodies and the head of a rule declare, without those of nested bodies.
fn top(rule: &Rule) -> BTreeSet<String> {
    let Rule::Spec { bodies, .. } = rule else { return BTreeSet::new() };
    let statements = bodies.iter().flat_map(|body| &body.query.stmts);
    let inner = statements.filter(|stmt| !matches!(stmt.literal, Literal::Every { .. }));
    let declared = inner.flat_map(declares).map(|(name, _)| name);
    declared.chain(parameters(rule).map(|(name, _)| name)).collect()
}

/// Every variable that is declared anywhere in a rule, as often as it is.
fn declarations(rule: &Rule) -> Vec<(String, VariableSource<'_>)> {
    let mut all: Vec<_> = parameters(rule).collect();
    all.extend(ast::parts(rule).conditions.into_iter().flat_map(declares));
    all
}

fn parameters(rule: &Rule) -> impl Iterator<Item = (String, VariableSource<'_>)> {
    let args: &[Ref<Expr>] = match rule {
        Rule::Spec { head: RuleHead::Func { args, .. }, .. } => args,
        Rule::Spec { .. } | Rule::Default { .. } => &[],
    };
    args.iter().enumerate().flat_map(|(at, arg)| named(arg, VariableSource::Parameter(at)))
}

/// The variables of one condition, those of a pattern too.
fn declares(stmt: &LiteralStmt) -> Vec<(String, VariableSource<'_>)> {
    match &stmt.literal {
        Literal::SomeVars { vars, .. } => {
            vars.iter().map(|span| (span.text().to_owned(), VariableSource::Other)).collect()
        }
        Literal::SomeIn { key, value, collection, .. } => {
            let mut all = named(value, VariableSource::Member(collection));
            all.extend(key.iter().flat_map(|key| named(key, VariableSource::Other)));
            all
        }
        Literal::Every { key, value, domain, .. } => {
            let mut all = vec![(value.text().to_owned(), VariableSource::Member(domain))];
            all.extend(key.iter().map(|key| (key.text().to_owned(), VariableSource::Other)));
            all
        }
        Literal::Expr { expr, .. } => {
            let Expr::AssignExpr { op: AssignOp::ColEq, lhs, rhs, .. } = expr.as_ref() else {
                return Vec::new();
            };
            named(
                lhs,
                if stmt.with_mods.is_empty() {
                    VariableSource::Value(rhs)
                } else {
                    VariableSource::Other
                },
            )
        }
        Literal::NotExpr { .. } => Vec::new(),
    }
}

/// A variable with its source, or the variables of a pattern, which are not followed.
fn named<'a>(expr: &'a Expr, from: VariableSource<'a>) -> Vec<(String, VariableSource<'a>)> {
    if let Some(name) = variable(expr) {
        return vec![(name, from)];
    }
    let parts = ast::expression(expr).reads.into_iter().filter_map(variable);
    parts.map(|name| (name, VariableSource::Other)).collect()
}

fn variable(expr: &Expr) -> Option<String> {
    if let Expr::Var { span, .. } = expr { Some(span.text().to_owned()) } else { None }
}
