//! From values to a condition that all of them satisfy.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::canonical;
use crate::domain::json::Json;

/// The nesting of objects and arrays that the rules describe.
const DEPTH_MAX: usize = 3;
/// Bytes of a value in a line, with some left for the text around it.
const LINE: usize = 600;
/// Characters of a piece of a long text: each may be written as six.
const PIECE: usize = 90;
/// Names that cannot follow a dot, or be a variable.
const KEYWORDS: [&str; 17] = [
    "as", "contains", "data", "default", "else", "every", "false", "if", "import", "in", "input",
    "not", "null", "package", "some", "true", "with",
];

/// The lines of a rule's body.
#[derive(Default, Debug)]
pub(super) struct Lines {
    text: String,
    indent: usize,
    depth: usize,
    variables: usize,
    /// Whether the tool runs its arguments, so that none of its texts is prose.
    pub runs: bool,
    /// Whether the gate parsed its statements, so that the effect describes them.
    pub parsed: bool,
}

/// A value as Rego writes it. Lines have at most 1,024 columns: a long text is put together of pieces.
pub(crate) fn literal(value: &Json) -> String {
    let text = canonical::text(value);
    let Json::String(whole) = value else { return text };
    if text.len() <= LINE {
        return text;
    }
    let chars: Vec<char> = whole.chars().collect();
    let pieces = chars.chunks(PIECE).map(|piece| piece.iter().collect::<String>());
    let pieces: Vec<String> =
        pieces.map(|piece| canonical::text(&Json::from(piece.as_str()))).collect();
    format!("concat(\"\", [\n\t\t{}\n\t])", pieces.join(",\n\t\t"))
}

/// Items of one collection, in a line if they fit.
pub(super) fn items(all: &[String]) -> String {
    let line = all.join(", ");
    if line.len() <= LINE { line } else { format!("\n\t\t{}\n\t", all.join(",\n\t\t")) }
}

impl Lines {
    /// An empty rule, for a tool that runs its arguments, or whose statements the gate parsed.
    pub fn of(runs: bool, parsed: bool) -> Self {
        Self { runs, parsed, ..Self::default() }
    }

    /// The body, every line indented.
    pub fn text(self) -> String {
        self.text
    }

    /// One condition.
    pub fn add(&mut self, line: impl AsRef<str>) {
        for _ in 0..=self.indent {
            self.text.push('\t');
        }
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    /// One comment, which begins a group of conditions.
    pub fn note(&mut self, what: &str) {
        let what: String = what.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        self.add(format!("# {what}"));
    }

    /// The conditions on the members of objects: no other names, and only recorded values.
    pub fn members(&mut self, at: &str, objects: &[&Json]) {
        let objects: Vec<_> = objects.iter().filter_map(|value| value.as_object()).collect();
        let mut values: BTreeMap<&String, Vec<&Json>> = BTreeMap::new();
        for (name, value) in objects.iter().copied().flatten() {
            values.entry(name).or_default().push(value);
        }
        let names: Vec<Json> = values.keys().map(|name| Json::from(name.as_str())).collect();
        if names.is_empty() {
            return self.add(format!("count({at}) == 0"));
        }
        let names: Vec<String> = names.iter().map(literal).collect();
        self.add(format!("count(object.remove({at}, {{{}}})) == 0", items(&names)));
        for (name, values) in values {
            let place = self.place(at, name, &values, objects.len());
            self.value(&place, name, &values);
        }
    }

    /// The rule's name for a member that these values of `all` objects have.
    pub fn place(&mut self, at: &str, name: &str, values: &[&Json], all: usize) -> String {
        if values.len() == all { member(at, name) } else { self.optional(at, name, values) }
    }

    /// A member that some objects lack: a fitting default value replaces a missing one.
    fn optional(&mut self, at: &str, name: &str, values: &[&Json]) -> String {
        self.variables = self.variables.saturating_add(1);
        let variable = format!("value{}", self.variables);
        let fits = values.first().map_or_else(|| "null".to_owned(), |value| literal(value));
        let key = literal(&Json::from(name));
        self.note("not always given");
        self.add(format!("{variable} := object.get({at}, {key}, {fits})"));
        variable
    }

    /// The conditions on one value, called `name` by its tool.
    pub fn value(&mut self, at: &str, name: &str, values: &[&Json]) {
        let kinds: BTreeSet<&str> = values.iter().map(|value| kind(value)).collect();
        let kinds: Vec<&str> = kinds.into_iter().collect();
        match kinds.as_slice() {
            ["text"] => self.texts(at, name, values),
            ["number"] => self.numbers(at, name, values),
            ["boolean"] => self.one_of(at, values),
            ["null"] => self.add(format!("is_null({at})")),
            ["array"] => self.arrays(at, name, values),
            ["object"] if self.depth < DEPTH_MAX => {
                self.add(format!("is_object({at})"));
                self.depth = self.depth.saturating_add(1);
                self.members(at, values);
                self.depth = self.depth.saturating_sub(1);
            }
            ["object"] => {
                self.note(&format!("{name}: members are not constrained"));
                self.add(format!("is_object({at})"));
            }
            _ => self.note(&format!("{name}: values of several types, not constrained")),
        }
    }

    /// One of exactly these values.
    pub fn one_of(&mut self, at: &str, values: &[&Json]) {
        let distinct: BTreeSet<String> = values.iter().map(|value| literal(value)).collect();
        let distinct: Vec<String> = distinct.into_iter().collect();
        match distinct.as_slice() {
            [] => {}
            [one] => self.add(format!("{at} == {one}")),
            several => self.add(format!("{at} in {{{}}}", items(several))),
        }
    }

    /// Between the least and the greatest recorded number.
    fn numbers(&mut self, at: &str, name: &str, values: &[&Json]) {
        let mut sorted: Vec<&Json> = values.to_vec();
        sorted.sort_by(|one, other| size(one).total_cmp(&size(other)));
        let (Some(low), Some(high)) = (sorted.first(), sorted.last()) else { return };
        let (low, high) = (literal(low), literal(high));
        if low == high {
            return self.add(format!("{at} == {low}"));
        }
        self.note(&format!("{name}: from {low} to {high}, as seen"));
        self.add(format!("is_number({at})"));
        self.add(format!("{at} >= {low}"));
        self.add(format!("{at} <= {high}"));
    }

    fn arrays(&mut self, at: &str, name: &str, values: &[&Json]) {
        let arrays: Vec<&[Json]> = values.iter().filter_map(|value| value.as_array()).collect();
        let longest = arrays.iter().map(|array| array.len()).max().unwrap_or(0);
        self.add(format!("is_array({at})"));
        self.add(format!("count({at}) <= {longest}"));
        let items: Vec<&Json> = arrays.into_iter().flatten().collect();
        let kinds: BTreeSet<&str> = items.iter().map(|item| kind(item)).collect();
        if kinds.len() > 1 || self.depth >= DEPTH_MAX {
            return self.note(&format!("{name}: items are not constrained"));
        }
        if items.is_empty() {
            return;
        }
        self.depth = self.depth.saturating_add(1);
        self.each(at, |lines, item| lines.value(item, name, &items));
        self.depth = self.depth.saturating_sub(1);
    }

    /// A list of these items only, in any number.
    pub fn within(&mut self, at: &str, values: &[&Json]) {
        let items: Vec<&Json> = values.iter().filter_map(|v| v.as_array()).flatten().collect();
        if items.is_empty() {
            return self.add(format!("count({at}) == 0"));
        }
        self.add(format!("is_array({at})"));
        self.each(at, |lines, item| lines.one_of(item, &items));
    }

    fn each(&mut self, at: &str, conditions: impl FnOnce(&mut Self, &str)) {
        self.variables = self.variables.saturating_add(1);
        let item = format!("item{}", self.variables);
        self.add(format!("every {item} in {at} {{"));
        self.indent = self.indent.saturating_add(1);
        conditions(self, &item);
        self.indent = self.indent.saturating_sub(1);
        self.add("}");
    }
}

/// The shape of a value: its kinds and the names of its members, without its values.
pub(crate) fn outline(value: &Json) -> Json {
    outline_to(value, DEPTH_MAX)
}

fn outline_to(value: &Json, depth: usize) -> Json {
    match (value, depth.checked_sub(1)) {
        (Json::Object(members), Some(below)) => Json::object(
            members.iter().map(|(name, value)| (name.clone(), outline_to(value, below))),
        ),
        (Json::Array(items), Some(below)) => {
            let shapes: BTreeSet<String> =
                items.iter().map(|item| canonical::text(&outline_to(item, below))).collect();
            Json::Array(shapes.into_iter().map(Json::from).collect())
        }
        (
            Json::Null
            | Json::Bool(_)
            | Json::Int(_)
            | Json::Float(_)
            | Json::String(_)
            | Json::Array(_)
            | Json::Object(_),
            _,
        ) => Json::from(kind(value)),
    }
}

const fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Int(_) | Json::Float(_) => "number",
        Json::String(_) => "text",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

/// `at.name`, or `at["na-me"]`.
fn member(at: &str, name: &str) -> String {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && !KEYWORDS.contains(&name);
    if plain { format!("{at}.{name}") } else { format!("{at}[{}]", literal(&Json::from(name))) }
}

/// The next 1, 2 or 5 times a power of ten, rounded up. 0 stays 0.
pub(super) fn round_up(number: u64) -> u64 {
    if number == 0 {
        return 0;
    }
    let mut power = 1_u64;
    loop {
        let steps = [1, 2, 5].map(|step| power.saturating_mul(step));
        if let Some(bound) = steps.into_iter().find(|bound| *bound >= number) {
            return bound;
        }
        power = power.saturating_mul(10);
    }
}

/// How large a number is; other values have size 0.
#[expect(clippy::cast_precision_loss, reason = "only to put numbers in order, within 2^53")]
const fn size(value: &Json) -> f64 {
    match value {
        Json::Int(number) => *number as f64,
        Json::Float(number) => *number,
        Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_rounded_up_to_one_two_or_five() {
        for (number, bound) in [(0, 0), (1, 1), (3, 5), (6, 10), (10, 10), (51, 100), (1200, 2000)]
        {
            assert_eq!(round_up(number), bound);
        }
        assert_eq!(round_up(u64::MAX), u64::MAX);
    }
}
