//! Renders an explanation for people and as JSON.

use serde::Serializer;

use super::{Condition, Explained, RuleTrace};
use crate::domain::canonical;
use crate::domain::json::Json;

/// Characters of a value in a line.
const VALUE_CHARS: usize = 160;

impl Explained {
    /// `wicketgate/explained/1` without the decision itself.
    pub fn to_json(&self) -> Json {
        Json::object([
            ("v", Json::from("wicketgate/explained/1")),
            ("layer", Json::from(self.layer.as_str())),
            ("rules", Json::of(&self.rules)),
        ])
    }

    /// The rules for a terminal, those that fired first.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for rule in &self.rules {
            write_rule(rule, 0, &mut lines);
        }
        lines
    }
}

/// The rules that some conditions ask, for a terminal.
pub(crate) fn condition_lines(conditions: &[Condition]) -> Vec<String> {
    let mut lines = Vec::new();
    conditions.iter().for_each(|condition| write_condition(condition, 0, &mut lines));
    lines
}

/// What a condition reads, as an object each.
pub(super) fn reads<S: Serializer>(
    reads: &[(String, Option<Json>)],
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(reads.iter().map(|(text, value)| {
        let value = value.clone().map_or(("undefined", Json::from(true)), |v| ("value", v));
        Json::object([("reads", Json::from(text.as_str())), value])
    }))
}

fn write_rule(rule: &RuleTrace, depth: usize, lines: &mut Vec<String>) {
    let how = if rule.fired { "fired" } else { "did not fire" };
    let space = "  ".repeat(depth);
    lines.push(format!("{space}{} {}: {how}", rule.place, rule.name));
    for value in rule.result.iter().filter(|value| **value != Json::from(true)) {
        lines.push(format!("{space}  said {}", short(value)));
    }
    for condition in &rule.conditions {
        write_condition(condition, depth.saturating_add(1), lines);
    }
}

fn write_condition(condition: &Condition, depth: usize, lines: &mut Vec<String>) {
    let space = "  ".repeat(depth);
    let how = match (condition.holds, &condition.failed) {
        (_, Some(why)) => format!("failed: {}", plain(why)),
        (Some(true), None) => "holds".to_owned(),
        (Some(false), None) => "does not hold".to_owned(),
        (None, None) => "not asked".to_owned(),
    };
    lines.push(format!("{space}{} {}: {how}", condition.place, plain(&condition.text)));
    for (text, value) in &condition.reads {
        let value = value.as_ref().map_or_else(|| "undefined".to_owned(), short);
        lines.push(format!("{space}    {} = {value}", plain(text)));
    }
    for rule in &condition.because {
        write_rule(rule, depth.saturating_add(2), lines);
    }
}

/// A value in one short line.
pub(crate) fn short(value: &Json) -> String {
    let text = plain(&canonical::text(value));
    if text.chars().count() <= VALUE_CHARS {
        return text;
    }
    let cut: String = text.chars().take(VALUE_CHARS).collect();
    format!("{cut}…")
}

/// What a call carried may not steer the terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
