//! Least privilege from recorded calls: rules that allow the calls of one run, and little else.
//!
//! One `allow` for each tool. The common properties of its calls become conditions: texts an
//! enumeration, paths a directory, URLs their hosts, numbers their range; a single path or URL is
//! allowed exactly. A length bounds only prose, which has to stay prose: a program, a statement, a
//! URL or a line for a shell never is (`runs`). A comment names properties that no condition
//! expresses. Nothing else is allowed, so the default is a denial.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::domain::canonical;
use crate::domain::effect::EffectKind;
use crate::domain::json::Json;
use crate::domain::plural::many;
use crate::effect::{Conditions, conditions};
use runs::is_runner;
use shape::{Lines, literal};

mod runs;
pub(crate) mod shape;
mod text;

/// One call the rules have to allow.
#[derive(Clone, PartialEq, Debug)]
pub struct RequiredCall {
    /// Its id.
    pub call: String,
    /// The input document it was judged by.
    pub input: Json,
}

/// One call the rules do not care for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UncoveredCall {
    /// Its id.
    pub call: String,
    /// Its tool.
    pub tool: String,
    /// Why the call is left out.
    pub why: String,
}

/// Ids named in one comment.
const NAMED: usize = 5;

/// The text of `agent/suggested.rego`. `about` names its source, for its first line.
pub fn rego(about: &str, seen: &[RequiredCall], left: &[UncoveredCall]) -> String {
    let mut tools: BTreeMap<&str, Vec<&RequiredCall>> = BTreeMap::new();
    for call in seen {
        let name = at(&call.input, &["tool", "name"]).and_then(Json::as_str).unwrap_or_default();
        tools.entry(name).or_default().push(call);
    }
    let mut out = format!(
        "# Suggested by `wicketgate policy suggest` from {}.\n\
         # Read it before you sign it: it allows what was seen and says nothing about what is right.\n\
         package wicketgate.agent\n\nimport rego.v1\n",
        comment(about)
    );
    for (tool, calls) in &tools {
        let body = rule(tool, calls);
        let number = many(calls.len(), "call");
        push(&mut out, format_args!("\n# {number}: {}\nallow if {{\n{body}}}\n", named(calls)));
    }
    if !left.is_empty() {
        out.push_str("\n# Not allowed by these rules, on purpose:\n");
    }
    for UncoveredCall { call, tool, why } in left {
        push(
            &mut out,
            format_args!("# - {} of {}: {}\n", comment(call), comment(tool), comment(why)),
        );
    }
    out
}

/// The conditions that calls of one tool have in common.
pub(crate) fn rule(tool: &str, calls: &[&RequiredCall]) -> String {
    let effects: Vec<&Json> = calls.iter().filter_map(|call| call.input.get("effect")).collect();
    let kinds = effects.iter().filter_map(|effect| effect.get("kind").and_then(Json::as_str));
    let kinds: BTreeSet<&str> = kinds.collect();
    let runs =
        is_runner(tool) || kinds.iter().any(|kind| ["command", "fetch", "sql"].contains(kind));
    let parsed = kinds.len() == 1 && kinds.contains("sql");
    let mut lines = Lines::of(runs, parsed);
    lines.add(format!("input.tool.name == {}", literal(&Json::from(tool))));
    let args: Vec<&Json> = calls.iter().filter_map(|call| call.input.get("args")).collect();
    lines.members("input.args", &args);
    effect(&mut lines, &effects);
    lines.text()
}

/// What the call would touch, as the gate resolved it.
fn effect(lines: &mut Lines, effects: &[&Json]) {
    let kind = |effect: &&Json| effect.get("kind").and_then(Json::as_str).map(str::to_owned);
    let mut kinds: Vec<String> = effects.iter().filter_map(kind).collect();
    kinds.sort();
    kinds.dedup();
    let [kind] = kinds.as_slice() else {
        lines.note("what it touches is of several kinds: not constrained");
        return;
    };
    lines.note("what it touches, as the gate resolved it");
    lines.add(format!("input.effect.kind == {}", literal(&Json::from(kind.as_str()))));
    let Conditions { words, paths, lists } =
        EffectKind::parse(kind).map(conditions).unwrap_or_default();
    let given = |name: &str| -> Vec<&Json> {
        effects.iter().filter_map(|effect| effect.get(name)).collect()
    };
    let seen = |names: &[&'static str]| -> Vec<(&'static str, Vec<&Json>)> {
        let all = names.iter().map(|name| (*name, given(name)));
        all.filter(|(_, values)| !values.is_empty()).collect()
    };
    for (name, values) in seen(words) {
        let place = lines.place("input.effect", name, &values, effects.len());
        lines.one_of(&place, &values);
    }
    for (name, values) in seen(paths) {
        lines.value(&format!("input.effect.{name}"), name, &values);
    }
    for (name, values) in seen(lists) {
        lines.within(&format!("input.effect.{name}"), &values);
    }
}

fn at<'a>(json: &'a Json, path: &[&str]) -> Option<&'a Json> {
    path.iter().try_fold(json, |json, name| json.get(name))
}

fn named(calls: &[&RequiredCall]) -> String {
    let ids: Vec<String> = calls.iter().take(NAMED).map(|call| comment(&call.call)).collect();
    match calls.len().saturating_sub(ids.len()) {
        0 => ids.join(", "),
        more => format!("{} and {more} more", ids.join(", ")),
    }
}

/// Text that stays inside its comment.
fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // INVARIANT: writing to a String cannot fail.
    out.write_fmt(text).unwrap_or_default();
}

/// `bundle.json` of a bundle with these rules only.
pub fn meta(name: &str, version: &str) -> Vec<u8> {
    canonical::bytes(&Json::object([("name", Json::from(name)), ("version", Json::from(version))]))
}
