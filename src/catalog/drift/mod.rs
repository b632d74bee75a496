//! How a pinned tool changed: what the server says of it now, compared with the lock.
//!
//! Descriptions may change without harm: agents see the pinned ones. A new optional argument is
//! harmless where the pinned schema refuses it. Every other change, known or not, makes it another
//! tool.

use std::collections::BTreeSet;

use super::lock::printable;
use super::schema::{self, Keywords};
use crate::domain::canonical;
use crate::domain::closed::texts;
use crate::domain::json::Json;

#[cfg(test)]
mod tests;

/// Changes that are named; more are counted as one.
const CHANGES_MAX: usize = 16;

/// How far a tool has moved from its pin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Drift {
    /// Not at all.
    Same,
    /// Only its description changed: it works on, and the operator should look at it.
    Text,
    /// It takes more than it did: it works on by the old schema.
    Compatible,
    /// It is another tool, or gone: no agent gets it until the lock is signed again. What changed.
    Breaking(Vec<String>),
}

impl Drift {
    /// `same`, `text`, `compatible` or `breaking`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Text => "text",
            Self::Compatible => "compatible",
            Self::Breaking(_) => "breaking",
        }
    }
}

texts! {
    /// What one change means, from the least.
    pub enum Weight {
        /// Words.
        Text = "text",
        /// More is taken than was.
        Compatible = "compatible",
        /// Anything else.
        Breaking = "breaking",
    }
}

/// One difference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Where: `inputSchema/properties/path/type`; fit to print.
    pub at: String,
    /// `changed`, `added`, `removed`, ….
    pub what: &'static str,
    /// What it means.
    pub weight: Weight,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.at, self.what)
    }
}

/// Compares a pinned tool object with the server's current one of that name, `None` if it has none.
pub fn grade(pinned: &Json, live: Option<&Json>) -> Drift {
    let changes = changes(pinned, live);
    match changes.iter().map(|change| change.weight).max() {
        None => Drift::Same,
        Some(Weight::Text) => Drift::Text,
        Some(Weight::Compatible) => Drift::Compatible,
        Some(Weight::Breaking) => {
            let breaking = changes.iter().filter(|change| change.weight == Weight::Breaking);
            let mut reasons: Vec<String> = breaking.map(ToString::to_string).collect();
            if reasons.len() > CHANGES_MAX {
                let more = reasons.len().saturating_sub(CHANGES_MAX);
                reasons.truncate(CHANGES_MAX);
                reasons.push(format!("and {more} more"));
            }
            Drift::Breaking(reasons)
        }
    }
}

/// Every difference between the two, in the order of the text.
pub fn changes(pinned: &Json, live: Option<&Json>) -> Vec<Change> {
    let mut walk = DriftWalk::default();
    match live {
        None => walk.note(Weight::Breaking, "tool", "gone"),
        Some(live) if same(pinned, live) => {}
        Some(live) => {
            walk.tool(pinned, live);
            if walk.0.is_empty() {
                // No rule here explains the difference, so its effect is unknown.
                walk.note(Weight::Breaking, "tool", "changed");
            }
        }
    }
    walk.0
}

/// Numbers that are written alike are alike.
fn same(a: &Json, b: &Json) -> bool {
    a == b || canonical::bytes(a) == canonical::bytes(b)
}

/// The position of a schema, which decides what a new property in it means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// The arguments themselves: this gate closes them unless the schema says otherwise.
    Root,
    /// Reached from the root through `properties` and `items` alone.
    Plain,
    /// Under a keyword that can turn more into less (`not`, `oneOf`, …), or of the result.
    Strict,
}

impl Stand {
    const fn below(self) -> Self {
        match self {
            Self::Root | Self::Plain => Self::Plain,
            Self::Strict => Self::Strict,
        }
    }
}

#[derive(Default)]
struct DriftWalk(Vec<Change>);

impl DriftWalk {
    fn note(&mut self, weight: Weight, at: &str, what: &'static str) {
        self.0.push(Change { at: at.to_owned(), what, weight });
    }

    /// Notes any difference of one member that is not looked into.
    fn whole(&mut self, weight: Weight, at: &str, pinned: Option<&Json>, live: Option<&Json>) {
        match (pinned, live) {
            (Some(pinned), Some(live)) if !same(pinned, live) => self.note(weight, at, "changed"),
            (Some(_), None) => self.note(weight, at, "removed"),
            (None, Some(_)) => self.note(weight, at, "added"),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    fn tool(&mut self, pinned: &Json, live: &Json) {
        for name in names(pinned, live) {
            let (p, l) = (pinned.get(name), live.get(name));
            let at = printable(name);
            match (name, p, l) {
                ("description" | "title" | "icons" | "_meta", ..) => {
                    self.whole(Weight::Text, &at, p, l);
                }
                ("inputSchema", Some(p), Some(l)) => self.schema(&at, p, l, Stand::Root),
                ("outputSchema", Some(p), Some(l)) => self.schema(&at, p, l, Stand::Strict),
                ("annotations", Some(p @ Json::Object(_)), Some(l @ Json::Object(_))) => {
                    for hint in names(p, l) {
                        let weight = if hint == "title" { Weight::Text } else { Weight::Breaking };
                        let at = format!("{at}/{}", printable(hint));
                        self.whole(weight, &at, p.get(hint), l.get(hint));
                    }
                }
                _ => self.whole(Weight::Breaking, &at, p, l),
            }
        }
    }

    fn schema(&mut self, at: &str, pinned: &Json, live: &Json, stand: Stand) {
        if same(pinned, live) {
            return;
        }
        if pinned.as_object().is_none() || live.as_object().is_none() {
            self.note(Weight::Breaking, at, "changed");
            return;
        }
        for keyword in names(pinned, live) {
            let (p, l) = (pinned.get(keyword), live.get(keyword));
            let here = format!("{at}/{}", printable(keyword));
            match (keyword, p, l) {
                ("description" | "title" | "examples" | "$comment", ..) => {
                    self.whole(Weight::Text, &here, p, l);
                }
                ("properties", ..) => self.properties(&here, pinned, live, stand),
                // A new definition has no effect if no pinned schema refers to it.
                ("$defs" | "definitions", Some(p @ Json::Object(_)), Some(l @ Json::Object(_))) => {
                    self.named(&here, p, l, Weight::Compatible);
                }
                (
                    "patternProperties" | "dependentSchemas",
                    Some(p @ Json::Object(_)),
                    Some(l @ Json::Object(_)),
                ) => self.named(&here, p, l, Weight::Breaking),
                ("required" | "enum" | "type", Some(p), Some(l)) if same_set(p, l) => {
                    self.whole(Weight::Text, &here, Some(p), Some(l));
                }
                ("items", Some(p @ Json::Object(_)), Some(l @ Json::Object(_))) => {
                    self.schema(&here, p, l, stand.below());
                }
                // This gate refuses arguments that the root does not describe in any case.
                ("additionalProperties", None, Some(Json::Bool(false)))
                    if stand == Stand::Root && refuses_unknown(pinned, stand) =>
                {
                    self.note(Weight::Compatible, &here, "added");
                }
                (keyword, Some(p), Some(l)) if HOLDS_SCHEMA.contains(&keyword) => {
                    self.schema(&here, p, l, Stand::Strict);
                }
                (keyword, Some(Json::Array(p)), Some(Json::Array(l)))
                    if HOLDS_SCHEMAS.contains(&keyword) && p.len() == l.len() =>
                {
                    for (i, (p, l)) in p.iter().zip(l).enumerate() {
                        self.schema(&format!("{here}/{i}"), p, l, Stand::Strict);
                    }
                }
                _ => self.whole(Weight::Breaking, &here, p, l),
            }
        }
    }

    fn properties(&mut self, at: &str, pinned: &Json, live: &Json, stand: Stand) {
        let keywords = Keywords::of(live);
        let (p, l) = (Keywords::of(pinned).properties, keywords.properties);
        if [p, l].into_iter().flatten().any(|value| value.as_object().is_none()) {
            self.whole(Weight::Breaking, at, p, l);
            return;
        }
        let none = Json::object::<&str>([]);
        let one_sided = p.is_some() != l.is_some();
        let (p, l) = (p.unwrap_or(&none), l.unwrap_or(&none));
        if one_sided && same(p, l) {
            self.note(Weight::Text, at, "written otherwise");
        }
        for name in names(p, l) {
            let here = format!("{at}/{}", printable(name));
            match (p.get(name), l.get(name)) {
                (Some(p), Some(l)) => self.schema(&here, p, l, stand.below()),
                (None, Some(new)) => {
                    let optional = !keywords.requires(name);
                    let unseen = refuses_unknown(pinned, stand) && !has_header(new);
                    let harmless = optional && unseen && !schema::is_composed(live);
                    let weight = if harmless { Weight::Compatible } else { Weight::Breaking };
                    self.note(weight, &here, "added");
                }
                (Some(_), None) => self.note(Weight::Breaking, &here, "removed"),
                (None, None) => {}
            }
        }
    }

    /// Schemas by name; references to them may come from anywhere.
    fn named(&mut self, at: &str, pinned: &Json, live: &Json, added: Weight) {
        for name in names(pinned, live) {
            let here = format!("{at}/{}", printable(name));
            match (pinned.get(name), live.get(name)) {
                (Some(p), Some(l)) => self.schema(&here, p, l, Stand::Strict),
                (None, Some(_)) => self.note(added, &here, "added"),
                (Some(_), None) => self.note(Weight::Breaking, &here, "removed"),
                (None, None) => {}
            }
        }
    }
}

/// Keywords whose value is one schema.
const HOLDS_SCHEMA: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a list of schemas.
const HOLDS_SCHEMAS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// Whether the pinned schema refuses a property that it does not list, so that no agent can send a
/// new one before the operator has looked at it.
fn refuses_unknown(pinned: &Json, stand: Stand) -> bool {
    let closed = match Keywords::of(pinned).additional {
        Some(value) => value == &Json::Bool(false),
        None => stand == Stand::Root && schema::closes_by_itself(pinned),
    };
    closed && stand != Stand::Strict && !schema::is_composed(pinned)
}

fn has_header(schema: &Json) -> bool {
    match schema {
        Json::Object(members) => {
            members.contains_key("x-mcp-header") || members.values().any(has_header)
        }
        Json::Array(items) => items.iter().any(has_header),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => false,
    }
}

/// Whether two lists have the same items in another order; one value alone is a list of one.
fn same_set(pinned: &Json, live: &Json) -> bool {
    let set = |value: &Json| match value {
        Json::Array(items) => items.iter().map(canonical::text).collect::<BTreeSet<_>>(),
        Json::Null
        | Json::Bool(_)
        | Json::Int(_)
        | Json::Float(_)
        | Json::String(_)
        | Json::Object(_) => BTreeSet::from([canonical::text(value)]),
    };
    set(pinned) == set(live)
}

/// Names of both objects, sorted.
fn names<'a>(a: &'a Json, b: &'a Json) -> BTreeSet<&'a str> {
    let keys = [a, b].into_iter().filter_map(Json::as_object).flat_map(|members| members.keys());
    keys.map(String::as_str).collect()
}
