//! Checks the constructs of a bundle's rules on the syntax tree, before any evaluation.

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{Expr, Module, Ref, Rule, RuleHead, Span};

use super::ast::{self, Path};
use super::builtins;
use super::depth::{self, Adds};
use super::fault::LoadError;
use super::recursion::{self, Graph};

const LAYERS: [&str; 3] = ["org", "team", "agent"];

/// Checks the evaluated modules of a bundle, and returns the layers that count approvers for
/// themselves: those of which a rule, or a rule or function it needs, reads `input.approvals`. A
/// rule that reads the input in a dynamic way may be one of them.
///
/// # Errors
/// Everything that is wrong.
pub(super) fn check(modules: &[Ref<Module>]) -> Result<Vec<&'static str>, Vec<LoadError>> {
    let (graph, mut errors) = graph(modules);
    errors.extend(recursion::check(&graph));
    if errors.is_empty() {
        errors = depth::check(&graph);
    }
    if errors.is_empty() {
        let counts = |layer: &&str| {
            recursion::counts_below(&graph, &["wicketgate".to_owned(), (*layer).to_owned()])
        };
        return Ok(LAYERS.into_iter().filter(counts).collect());
    }
    errors.sort();
    errors.dedup();
    Err(errors)
}

/// The rules of these modules with their reads, and the errors of each by itself.
fn graph(modules: &[Ref<Module>]) -> (Graph, Vec<LoadError>) {
    let mut errors = Vec::new();
    let known = KnownRules::of(modules);
    let mut graph = Graph::new();
    for module in modules {
        let scope =
            PurityScope { file: ast::file(module), package: ast::package(module), known: &known };
        if !scope.check_package(module, &mut errors) {
            continue;
        }
        let imports = scope.imports(module, &mut errors);
        for rule in &module.policy {
            scope.check_rule(rule, &imports, &mut graph, &mut errors);
        }
    }
    (graph, errors)
}

/// The errors in the calls of these test modules: tests may be in any package and replace input and
/// data, and may call only functions of the bundle and admitted builtins.
pub(super) fn check_tests(modules: &[Ref<Module>]) -> Vec<LoadError> {
    let known = KnownRules::of(modules);
    let mut errors = Vec::new();
    for module in modules.iter().filter(|module| ast::file(module).ends_with("_test.rego")) {
        let scope =
            PurityScope { file: ast::file(module), package: ast::package(module), known: &known };
        let imports = scope.imports(module, &mut errors);
        for rule in &module.policy {
            for (callee, span, params) in &ast::parts(rule).calls {
                let own = callee.as_ref().and_then(|path| scope.resolve(path, &imports));
                if !own.is_some_and(|name| known.functions.contains(&name)) {
                    errors
                        .extend(callee.as_ref().and_then(|p| scope.check_builtin(p, span, params)));
                }
            }
        }
    }
    errors
}

/// The rules of the bundle by their whole path.
#[derive(Default)]
struct KnownRules {
    rules: BTreeSet<Vec<String>>,
    functions: BTreeSet<Vec<String>>,
}

impl KnownRules {
    fn of(modules: &[Ref<Module>]) -> Self {
        let mut known = Self::default();
        for module in modules {
            for rule in &module.policy {
                let name = ast::whole(module, rule);
                if ast::is_function(rule) {
                    known.functions.insert(name.clone());
                }
                known.rules.insert(name);
            }
        }
        known
    }
}

type Imports = BTreeMap<String, Vec<String>>;

struct PurityScope<'a> {
    file: &'a str,
    package: Vec<String>,
    known: &'a KnownRules,
}

impl PurityScope<'_> {
    fn error(&self, code: &'static str, span: &Span, message: impl Into<String>) -> LoadError {
        let (line, column) = (span.line, span.col);
        LoadError { file: self.file.to_owned(), line, column, code, message: message.into() }
    }

    /// The folder determines the package.
    fn check_package(&self, module: &Module, errors: &mut Vec<LoadError>) -> bool {
        let folder = self.file.split('/').next().unwrap_or_default();
        let fits = match folder {
            "lib" => self.package == ["wicketgate"],
            layer => self.package == ["wicketgate", layer],
        };
        if !fits {
            let wanted = if folder == "lib" { String::new() } else { format!(".{folder}") };
            let message = format!(
                "package `{}` in `{folder}/`, expected `wicketgate{wanted}`",
                self.package.join(".")
            );
            errors.push(self.error("policy.package", &module.package.span, message));
        }
        fits
    }

    fn imports(&self, module: &Module, errors: &mut Vec<LoadError>) -> Imports {
        let mut imports = Imports::new();
        for (import, (alias, parts)) in module.imports.iter().zip(ast::imports(module)) {
            match parts.first().map(String::as_str) {
                Some("rego" | "future") => {}
                Some("data" | "input") => _ = imports.insert(alias, parts),
                _ => errors.push(self.error(
                    "policy.import",
                    &import.span,
                    "only `rego.v1`, `data` and `input` can be imported",
                )),
            }
        }
        imports
    }

    fn check_rule(
        &self,
        rule: &Ref<Rule>,
        imports: &Imports,
        graph: &mut Graph,
        errors: &mut Vec<LoadError>,
    ) {
        let head = ast::head(rule);
        let Some(local) = ast::path(head).map(|path| path.parts) else {
            let why = "the head of the rule is no name";
            return errors.push(self.error("policy.rule_shape", head.span(), why));
        };
        self.check_shape(rule, &local, errors);
        let parts = ast::parts(rule);
        for with in &parts.withs {
            let why = "`with` belongs in tests: it replaces what the gate vouches for";
            errors.push(self.error("policy.with", &with.span, why));
        }
        let mut name = self.package.clone();
        name.extend(local);
        let node = graph.entry(name).or_default();
        if node.place.0.is_empty() {
            node.place = (self.file.to_owned(), head.span().line, head.span().col);
        }
        node.reads.extend(parts.refs.iter().filter_map(|path| self.resolve(path, imports)));
        node.counts |= parts.refs.iter().any(|path| {
            let read = written_out(path, imports);
            matches!(
                read.iter().map(String::as_str).collect::<Vec<_>>().as_slice(),
                ["input"] | ["input", "approvals", ..]
            )
        });
        let conditions = parts.conditions.iter().map(|stmt| ast::condition(stmt).collections);
        let own = depth::own(conditions.chain([ast::head_collections(rule)]));
        let mut adds = Adds { own, calls: Vec::new() };
        for (callee, span, params) in &parts.calls {
            match callee {
                Some(path) => {
                    let target = self.resolve(path, imports);
                    match target.filter(|name| self.known.functions.contains(name)) {
                        Some(function) => {
                            adds.calls.push(function.clone());
                            node.reads.insert(function);
                        }
                        None => errors.extend(self.check_builtin(path, span, params)),
                    }
                }
                None => errors.push(self.error(
                    "policy.banned_builtin",
                    span,
                    "a call needs the name of a function",
                )),
            }
        }
        node.adds.push(adds);
        node.valued |= ast::values(rule).any(|value| !ast::is_scalar(value));
    }

    /// The data path a reference reads, unless it is input or a local variable.
    fn resolve(&self, path: &Path, imports: &Imports) -> Option<Vec<String>> {
        let (first, rest) = path.parts.split_first()?;
        let mut target = written_out(path, imports);
        match target.first().map(String::as_str) {
            Some("data") => Some(target.split_off(1)),
            Some("input") | None => None,
            Some(_) => {
                let mut name = self.package.clone();
                name.push(first.clone());
                let is_rule = self.known.rules.iter().any(|rule| rule.starts_with(&name));
                name.extend(rest.iter().cloned());
                is_rule.then_some(name)
            }
        }
    }

    fn check_builtin(&self, path: &Path, span: &Span, params: &[Ref<Expr>]) -> Option<LoadError> {
        let name = path.dotted();
        let Some(builtin) = builtins::admitted(&name) else {
            let message =
                format!("`{name}` is neither an admitted builtin nor a function of this bundle");
            return Some(self.error("policy.banned_builtin", span, message));
        };
        if builtin.arity != params.len() {
            let message = format!("`{name}` takes {}, not {}", builtin.arity, params.len());
            return Some(self.error("policy.arity", span, message));
        }
        if name != "sprintf" {
            return None;
        }
        let Some(format) = params.first().and_then(|param| ast::literal(param)) else {
            let why = "the format of `sprintf` is a literal string";
            return Some(self.error("policy.format", span, why));
        };
        builtins::format_fault(format).map(|why| self.error("policy.format", span, why))
    }

    /// A rule that the composition library reads must have its one shape; others are the author's
    /// own.
    fn check_shape(&self, rule: &Rule, local: &[String], errors: &mut Vec<LoadError>) {
        let span = ast::head(rule).span();
        let mut refuse = |code, message: String| errors.push(self.error(code, span, message));
        let name = local.join(".");
        if ast::is_function(rule) && regorus::unstable::BUILTINS.contains_key(name.as_str()) {
            refuse("policy.shadow", format!("`{name}` is the name of a builtin"));
        }
        let layer = self.package.get(1).map(String::as_str);
        let Some(layer) = layer.filter(|layer| LAYERS.contains(layer)) else { return };
        match local.first().map(String::as_str) {
            Some("allow") if layer == "org" => refuse(
                "policy.org_allow",
                "the org layer can only restrict: an `allow` here has no effect".to_owned(),
            ),
            Some("allow") => {
                if local.len() > 1 || !is_allow(rule) {
                    let message = "`allow` is `allow if …`; its default, if any, is `false`";
                    refuse("policy.allow", message.to_owned());
                }
            }
            Some("deny" | "require_approval" | "obligations") => {
                if local.len() > 1 || !is_partial_set(rule) {
                    let message = format!("`{name}` is written `{name} contains … if …`");
                    refuse("policy.rule_shape", message);
                }
            }
            Some("decision") => refuse(
                "policy.rule_shape",
                "`decision` is made by the composition library".to_owned(),
            ),
            Some(_) | None => {}
        }
    }
}

/// The path with its first name replaced by its import.
fn written_out(path: &Path, imports: &Imports) -> Vec<String> {
    let Some((first, rest)) = path.parts.split_first() else { return Vec::new() };
    let mut whole = imports.get(first).cloned().unwrap_or_else(|| vec![first.clone()]);
    whole.extend(rest.iter().cloned());
    whole
}

fn is_allow(rule: &Rule) -> bool {
    match rule {
        Rule::Default { value, args, .. } => {
            args.is_empty()
                && matches!(value.as_ref(), Expr::Bool { value, .. } if value == &false.into())
        }
        Rule::Spec { head, .. } => {
            matches!(head, RuleHead::Compr { refr, .. } if matches!(refr.as_ref(), Expr::Var { .. }))
        }
    }
}

fn is_partial_set(rule: &Rule) -> bool {
    matches!(rule, Rule::Spec { head: RuleHead::Set { refr, key: Some(_), .. }, .. }
        if matches!(refr.as_ref(), Expr::Var { .. }))
}
