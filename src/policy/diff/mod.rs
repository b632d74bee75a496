//! The differences between two bundles: rules by their syntax tree, data by its place, and the
//! callable builtins.
//!
//! Blanks, comments, the order of rules and their file do not count as differences; the name of a
//! variable does.

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{Module, Ref, Rule};

use super::bundle::Bundle;
use super::{ast, builtins};
use crate::domain::json::Json;
use crate::domain::pointer::{self, Difference};

mod form;

crate::domain::closed::texts! {
    /// Whether something is there that was not, is not there that was, or is another.
    pub enum DiffEdit {
        /// Only the new bundle has it.
        Added = "added",
        /// Only the old bundle has it.
        Removed = "removed",
        /// Both have it, not the same.
        Changed = "changed",
    }
}

impl DiffEdit {
    fn between<T>(old: Option<&T>, new: Option<&T>) -> Self {
        match (old, new) {
            (None, _) => Self::Added,
            (_, None) => Self::Removed,
            (Some(_), Some(_)) => Self::Changed,
        }
    }
}

/// One rule that differs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RuleEdit {
    /// `wicketgate.agent.deny`.
    pub rule: String,
    /// `default`, `allow` (a grant), `deny`, `require_approval`, `obligations`, `function` or `rule`.
    pub kind: &'static str,
    /// How.
    pub edit: DiffEdit,
    /// `agent/main.rego:5` of the old bundle.
    pub old: Option<String>,
    /// The same of the new one.
    pub new: Option<String>,
    /// Its first line, of the new bundle if it is there.
    pub text: String,
}

/// One thing that has a name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NamedEdit {
    /// Its name.
    pub name: String,
    /// How.
    pub edit: DiffEdit,
}

/// Everything that differs.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Diff {
    /// Layers (`lib`, `org`, `team`, `agent`, `data`) with other bytes: formatting and tests count here.
    pub layers: Vec<NamedEdit>,
    /// Packages that have rules.
    pub packages: Vec<NamedEdit>,
    /// Rules, sorted by name.
    pub rules: Vec<RuleEdit>,
    /// Values of `bundle.json`.
    pub description: Vec<Difference>,
    /// Values of data, as rules see `data`.
    pub data: Vec<Difference>,
    /// Builtins that rules of the layers call.
    pub builtins: Vec<NamedEdit>,
    /// Files of tests, which the bundle carries but never evaluates.
    pub tests: Vec<NamedEdit>,
}

impl Diff {
    /// Whether everything that is evaluated or described is equal; bytes of formatting and of tests
    /// may differ.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty()
            && self.rules.is_empty()
            && self.description.is_empty()
            && self.data.is_empty()
            && self.builtins.is_empty()
    }

    /// What differs from `old` in `new`.
    pub fn between(old: &Bundle, new: &Bundle) -> Self {
        let layers = |bundle: &Bundle| -> BTreeMap<String, String> {
            let list = bundle.layers().iter();
            list.map(|layer| (layer.layer.clone(), layer.digest.hex())).collect()
        };
        let (a, b) = (Sources::of(old), Sources::of(new));
        let none = || Json::Object(BTreeMap::new());
        let json = |of: &Bundle| of.description().unwrap_or_else(none);
        let values = |old: &Json, new: &Json| pointer::differences(old, new, usize::MAX);
        Self {
            layers: named(&layers(old), &layers(new)),
            packages: named(&a.packages, &b.packages),
            rules: rules(&a.rules, &b.rules),
            description: values(&json(old), &json(new)),
            data: values(&old.data_files(), &new.data_files()),
            builtins: named(&a.builtins, &b.builtins),
            tests: named(&old.tests(), &new.tests()),
        }
    }
}

/// The entries that are missing or different in the other map.
fn named<T: PartialEq>(old: &BTreeMap<String, T>, new: &BTreeMap<String, T>) -> Vec<NamedEdit> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differ = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    let edit = |name: &String| NamedEdit {
        name: name.clone(),
        edit: DiffEdit::between(old.get(name), new.get(name)),
    };
    differ.map(edit).collect()
}

/// One rule of a bundle.
#[derive(Clone, Debug)]
struct Source {
    name: String,
    kind: &'static str,
    form: String,
    place: String,
    text: String,
    codes: Vec<String>,
}

#[derive(Default)]
struct Sources {
    rules: BTreeMap<String, Vec<Source>>,
    packages: BTreeMap<String, ()>,
    builtins: BTreeMap<String, ()>,
}

impl Sources {
    fn of(bundle: &Bundle) -> Self {
        let mut all = Self::default();
        for module in bundle.modules() {
            all.module(module);
        }
        all
    }

    fn module(&mut self, module: &Ref<Module>) {
        let (file, package) = (ast::file(module), ast::package(module).join("."));
        let imports = ast::imports(module).map(|(alias, parts)| (alias, parts.join("."))).collect();
        self.packages.insert(package.clone(), ());
        for rule in &module.policy {
            let parts = ast::parts(rule);
            let local = ast::path(ast::head(rule)).map(|path| path.parts.join("."));
            let local = local.unwrap_or_default();
            let span = rule.span();
            let source = Source {
                name: format!("{package}.{local}"),
                kind: kind(rule, &local),
                form: form::of(rule, &imports),
                place: format!("{file}:{}", span.line),
                text: span.text().lines().next().unwrap_or_default().trim_end().to_owned(),
                codes: parts
                    .members
                    .iter()
                    .filter(|(key, _)| *key == "code")
                    .map(|(_, code)| (*code).to_owned())
                    .collect(),
            };
            self.rules.entry(source.name.clone()).or_default().push(source);
            if !file.starts_with("lib/") {
                let admitted = parts.callees().filter(|name| builtins::admitted(name).is_some());
                self.builtins.extend(admitted.map(|name| (name, ())));
            }
        }
    }
}

fn kind(rule: &Rule, local: &str) -> &'static str {
    match rule {
        Rule::Default { .. } => "default",
        Rule::Spec { .. } if ast::is_function(rule) => "function",
        Rule::Spec { .. } => {
            let known = ["allow", "deny", "require_approval", "obligations"];
            known.into_iter().find(|known| *known == local).unwrap_or("rule")
        }
    }
}

fn rules(
    old: &BTreeMap<String, Vec<Source>>,
    new: &BTreeMap<String, Vec<Source>>,
) -> Vec<RuleEdit> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut edits = Vec::new();
    for name in names {
        let list = |all: &BTreeMap<String, Vec<Source>>| all.get(name).cloned().unwrap_or_default();
        let (mut before, mut after) = (list(old), list(new));
        // Remove equal rules in pairs, wherever they are.
        before.retain(|rule| {
            let same_form = after.iter().position(|other| other.form == rule.form);
            same_form.map(|at| after.remove(at)).is_none()
        });
        // What speaks with the same code is one rule that changed.
        let same_codes = |a: &Source, b: &Source| !a.codes.is_empty() && a.codes == b.codes;
        let same_kind = |a: &Source, b: &Source| a.kind == b.kind;
        for fits in [&same_codes as &dyn Fn(&Source, &Source) -> bool, &same_kind] {
            before.retain(|rule| {
                let Some(at) = after.iter().position(|other| fits(rule, other)) else {
                    return true;
                };
                let other = after.remove(at);
                edits.push(edit(Some(rule), Some(&other)));
                false
            });
        }
        edits.extend(before.iter().map(|rule| edit(Some(rule), None)));
        edits.extend(after.iter().map(|rule| edit(None, Some(rule))));
    }
    edits.sort();
    edits
}

fn edit(old: Option<&Source>, new: Option<&Source>) -> RuleEdit {
    let text = |get: fn(&Source) -> &str| new.or(old).map_or("", get).to_owned();
    RuleEdit {
        rule: text(|rule| &rule.name),
        kind: new.or(old).map_or("rule", |rule| rule.kind),
        edit: DiffEdit::between(old, new),
        old: old.map(|rule| rule.place.clone()),
        new: new.map(|rule| rule.place.clone()),
        text: text(|rule| &rule.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(rules: &str, data: &str) -> Bundle {
        let text =
            format!("package wicketgate.agent\nimport rego.v1\nimport data.hosts\n{rules}\n");
        let files = [
            ("bundle.json", r#"{"name":"t","version":"1.0.0"}"#.to_owned()),
            ("agent/main.rego", text),
            ("data/hosts.json", data.to_owned()),
        ];
        let files = files.into_iter().map(|(name, text)| (name.to_owned(), text.into_bytes()));
        Bundle::of_files(files.collect()).unwrap()
    }

    fn edits(old: &str, new: &str) -> Vec<(&'static str, &'static str)> {
        let diff = Diff::between(&bundle(old, "{}"), &bundle(new, "{}"));
        diff.rules.iter().map(|rule| (rule.edit.as_str(), rule.kind)).collect()
    }

    #[test]
    fn formatting_comments_and_order_are_no_difference() {
        let old = "allow if input.tool.name == \"a\"\ndeny contains \"x\" if { input.args.n > 1; input.args.m }";
        let new = "# why\ndeny contains `x` if {\n\tinput.args.n > 1 # one\n\tinput[\"args\"].m\n}\n\nallow := true if {\n  input.tool.name == \"a\"\n}";
        let diff = Diff::between(&bundle(old, "{}"), &bundle(new, "{}"));
        assert!(diff.is_empty(), "{diff:?}");
        assert_eq!(diff.layers.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["agent"]);
    }

    #[test]
    fn every_token_that_means_something_is_a_difference() {
        let base = "allow if { some h in hosts; h == input.effect.host; not input.args.x; every y in input.args.l { y > 1 } }";
        for (from, to) in [
            ("== input", "!= input"),
            ("effect.host", "effect.port"),
            ("not input.args.x", "input.args.x"),
            ("y > 1", "y > 2"),
            ("y > 1", "y >= 1"),
            ("in hosts", "in data.other"),
            ("some h in hosts; h", "some h, i in hosts; h"),
        ] {
            let new = base.replacen(from, to, 1);
            assert_ne!(new, base, "{from}");
            assert_eq!(edits(base, &new), [("changed", "allow")], "{from} -> {to}");
        }
    }

    #[test]
    fn a_rule_is_paired_with_the_one_that_speaks_with_its_code() {
        let rule = |code: &str, n: u32| {
            format!(
                "deny contains {{\"code\": \"{code}\", \"message\": \"m\"}} if input.args.n > {n}\n"
            )
        };
        let old = bundle(
            &format!("allow if input.tool.name == \"a\"\n{}{}", rule("a", 1), rule("b", 2)),
            "{}",
        );
        let new = bundle(&format!("{}{}{}", rule("b", 3), rule("c", 4), rule("a", 1)), "{}");
        let diff = Diff::between(&old, &new);
        let found: Vec<_> =
            diff.rules.iter().map(|r| (r.edit, r.old.as_deref(), r.new.as_deref())).collect();
        assert_eq!(
            found,
            [
                (DiffEdit::Removed, Some("agent/main.rego:4"), None),
                (DiffEdit::Added, None, Some("agent/main.rego:5")),
                (DiffEdit::Changed, Some("agent/main.rego:6"), Some("agent/main.rego:4")),
            ]
        );
    }

    #[test]
    fn data_differs_at_its_place() {
        let rule = "allow if input.tool.name in hosts";
        let old = bundle(rule, r#"{"a":[1,2],"b/c":{"d":1},"same":[{}]}"#);
        let new = bundle(rule, r#"{"a":[1,3,4],"b/c":{},"same":[{}],"e":null}"#);
        let diff = Diff::between(&old, &new);
        let at: Vec<_> = diff.data.iter().map(|edit| edit.at.as_str()).collect();
        assert_eq!(at, ["/hosts/a/1", "/hosts/a/2", "/hosts/b~1c/d", "/hosts/e"]);
        assert!(!diff.is_empty() && diff.rules.is_empty());
    }

    #[test]
    fn a_builtin_that_was_not_called_before_is_named() {
        let new = "allow if startswith(input.tool.name, \"a\")";
        let diff =
            Diff::between(&bundle("allow if input.tool.name == \"a\"", "{}"), &bundle(new, "{}"));
        assert_eq!(diff.builtins, [NamedEdit { name: "startswith".into(), edit: DiffEdit::Added }]);
    }
}
