//! The configuration in words: the reference page of all fields, and the explanation of one. Both are
//! made of the schema alone.

use serde_json::{Map, Value};

use super::schema;
use crate::domain::near;

const ABOUT: &str = "# Configuration: `wicketgate.yaml`

Generated from the schema of the configuration; a test in `tests/docs/reference` compares the two.

`wicketgate config schema` prints the same reference as a JSON Schema for editors, `wicketgate config doc` prints this page, and
`wicketgate config explain FIELD` prints one field of it. `wicketgate check` reports everything that is wrong with a file, and
`wicketgate config print` shows the values in force: those of environment variables named `WICKETGATE__SECTION__FIELD`, else those
of the file, else the defaults. Variables exist only for single values outside lists. A relative path is resolved from the directory
of the file. `null` is an error unless the field says what it means.
";

/// The keywords of a schema.
#[derive(Clone, Copy)]
struct SchemaField<'a>(&'a Map<String, Value>);

impl<'a> SchemaField<'a> {
    fn of(value: &'a Value) -> Option<Self> {
        value.as_object().map(Self)
    }

    fn text(&self, keyword: &str) -> Option<&'a str> {
        self.0.get(keyword)?.as_str()
    }

    fn number(&self, keyword: &str) -> Option<u64> {
        self.0.get(keyword)?.as_u64()
    }

    fn list(&self, keyword: &str) -> impl Iterator<Item = &'a Value> {
        self.0.get(keyword).and_then(Value::as_array).into_iter().flatten()
    }

    fn fields(&self) -> Option<&'a Map<String, Value>> {
        self.0.get("properties")?.as_object()
    }

    /// What is below it: the step of the path, and the schema.
    fn below(&self) -> Option<(&'static str, Self)> {
        if self.fields().is_some() {
            return Some(("", *self));
        }
        let inner = |keyword| self.0.get(keyword).and_then(SchemaField::of);
        let list = inner("items").map(|field| ("[]", field));
        list.or_else(|| inner("additionalProperties").map(|field| (".<name>", field)))
    }

    /// Its type with the bounds.
    fn kind(&self) -> String {
        let first = |kind: &'a Value| kind.as_str().or_else(|| kind.get(0)?.as_str());
        let described = self.list("oneOf").filter_map(|word| word.get("const"));
        let words: Vec<_> = self.list("enum").chain(described).filter_map(code).collect();
        if !words.is_empty() {
            return words.join(", ");
        }
        let of = |inner: Option<(&str, Self)>| {
            let inner = inner.filter(|(_, field)| field.fields().is_none());
            inner.map(|(_, field)| format!(": each {}", field.kind())).unwrap_or_default()
        };
        match self.0.get("type").and_then(first) {
            Some("boolean") => "`true` or `false`".to_owned(),
            Some("integer") => {
                let least = grouped(self.number("minimum").unwrap_or(0));
                match self.number("maximum") {
                    Some(most) => format!("whole number, {least} to {}", grouped(most)),
                    None => format!("whole number from {least}"),
                }
            }
            Some("string") if self.text("format") == Some("path") => "path".to_owned(),
            Some("string") if self.text("pattern").is_some() => {
                let text = self.text("x-error").unwrap_or_default();
                text.trim_start_matches("expected ").to_owned()
            }
            Some("string") => {
                let (least, most) = (self.number("minLength"), self.number("maxLength"));
                format!("text{}", size(" characters", least, most))
            }
            Some("array") => {
                let (least, most) = (self.number("minItems"), self.number("maxItems"));
                format!("list{}{}", size("", least, most), of(self.below()))
            }
            Some("object") if self.fields().is_none() => {
                let most = self.number("maxProperties");
                format!("mapping of names{}{}", size("", None, most), of(self.below()))
            }
            Some("object") => "mapping".to_owned(),
            _ => "any value".to_owned(),
        }
    }

    /// What it means: a line for the field, and one for each of its words, for `null` and for examples.
    fn meaning(&self) -> Vec<String> {
        let mut lines = vec![self.text("description").unwrap_or_default().to_owned()];
        let items = self.0.get("items").and_then(SchemaField::of);
        for word in self.list("oneOf").chain(items.iter().flat_map(|items| items.list("oneOf"))) {
            let name = word.get("const").and_then(code).unwrap_or_default();
            let meaning = word.get("description").and_then(Value::as_str).unwrap_or_default();
            lines.push(format!("{name}: {meaning}"));
        }
        if let Some(meaning) = self.text("x-null") {
            let itself = self.0.get("type").is_some_and(Value::is_array);
            let place = if itself { "" } else { " in a field below" };
            lines.push(format!("`null`{place}: {meaning}."));
        }
        let examples: Vec<_> = self.list("examples").filter_map(code).collect();
        match examples.as_slice() {
            [] => {}
            [one] => lines.push(format!("Example: {one}")),
            many => lines.push(format!("Examples: {}", many.join(", "))),
        }
        lines
    }

    /// The default of one of its fields, or that it is required.
    fn default_of(&self, name: &str, field: &Self) -> String {
        match field.0.get("default") {
            _ if self.list("required").any(|one| one == name) => "required".to_owned(),
            Some(Value::Null) => "`null`".to_owned(),
            Some(value) if field.fields().is_none() => code(value).unwrap_or_default(),
            Some(_) | None => String::new(),
        }
    }
}

fn size(unit: &str, least: Option<u64>, most: Option<u64>) -> String {
    match (least, most) {
        (None | Some(0), None) => String::new(),
        (None | Some(0), Some(most)) => format!(", at most {}{unit}", grouped(most)),
        (Some(least), None) => format!(", at least {}{unit}", grouped(least)),
        (Some(least), Some(most)) => format!(", {} to {}{unit}", grouped(least), grouped(most)),
    }
}

/// A value as it is written in the file.
fn code(value: &Value) -> Option<String> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    (!value.is_null()).then(|| format!("`{text}`"))
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// A cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The sections below this one, each with a table of its fields.
fn section(path: &str, schema: &SchemaField<'_>, out: &mut String) {
    let Some(fields) = schema.fields() else { return };
    out.push_str("\n| Field | Type | Default | Meaning |\n|---|---|---|---|\n");
    let each = || fields.iter().filter_map(|(name, field)| Some((name, SchemaField::of(field)?)));
    for (name, field) in each() {
        let default = schema.default_of(name, &field);
        let kind = field.kind().replace('<', "&lt;");
        let row = [format!("`{name}`"), kind, default, field.meaning().join("<br>")];
        let row: Vec<String> = row.iter().map(|text| cell(text)).collect();
        out.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    for (name, field) in each() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let below = field.below().filter(|(_, inner)| inner.fields().is_some());
        let Some((step, inner)) = below else { continue };
        let path = format!("{path}{step}");
        let level = "#".repeat(if path.contains('.') { 3 } else { 2 });
        let text = field.text("description").unwrap_or_default();
        out.push_str(&format!("\n{level} `{path}`\n\n{text}\n"));
        section(&path, &inner, out);
    }
}

/// The reference page, as Markdown.
#[must_use]
pub fn page() -> String {
    let mut page = ABOUT.to_owned();
    if let Some(root) = SchemaField::of(&schema()) {
        section("", &root, &mut page);
    }
    page
}

/// One field, explained.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldExplanation {
    /// Its place: `agents[].callers[].uid`.
    pub path: String,
    /// Its type with the bounds.
    pub kind: String,
    /// Its default, `required`, or nothing.
    pub default: String,
    /// What it means, in lines.
    pub meaning: Vec<String>,
    /// The variable that sets it, if one can.
    pub variable: Option<String>,
    /// The fields below, each with the first sentence of its meaning.
    pub below: Vec<(String, String)>,
}

/// Why a field cannot be explained.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoSuchField {
    /// No field has this name.
    #[error("`{place}` has no field `{name}`{}", suggestion(.near))]
    Unknown {
        /// Where it was looked for.
        place: String,
        /// The name.
        name: String,
        /// Names that are like it.
        near: Vec<String>,
    },
    /// The field before has no fields.
    #[error("`{place}` is one value: nothing is below it")]
    Single {
        /// The field.
        place: String,
    },
}

fn suggestion(near: &[String]) -> String {
    match near {
        [] => "; `wicketgate config explain` lists all".to_owned(),
        near => format!("; did you mean `{}`?", near.join("` or `")),
    }
}

/// Explains the field at this path: names with dots between them; the place in a list may be left out.
///
/// # Errors
/// No field is there.
pub fn explain(path: &str) -> Result<FieldExplanation, NoSuchField> {
    let schema = schema();
    let single = || NoSuchField::Single { place: path.to_owned() };
    let mut found = FieldPath {
        at: SchemaField::of(&schema).ok_or_else(single)?,
        place: String::new(),
        default: String::new(),
        is_in_list: false,
    };
    for name in path.split(['.', '[', ']']).filter(|name| !name.is_empty()) {
        found.step(name)?;
    }
    let FieldPath { at, place, default, is_in_list } = found;
    let is_value = at.below().is_none() && !place.is_empty() && !is_in_list;
    let variable =
        is_value.then(|| format!("WICKETGATE__{}", place.to_uppercase().replace('.', "__")));
    let (kind, meaning) = (at.kind(), at.meaning());
    Ok(FieldExplanation { path: place, kind, default, meaning, variable, below: below(&at) })
}

/// The way to one field.
struct FieldPath<'a> {
    at: SchemaField<'a>,
    place: String,
    default: String,
    /// A list or a mapping of names stands on the way: no variable reaches the field.
    is_in_list: bool,
}

impl<'a> FieldPath<'a> {
    /// One name further. The place in a list may be left out.
    fn step(&mut self, name: &str) -> Result<(), NoSuchField> {
        let is_index = name.bytes().all(|byte| byte.is_ascii_digit());
        loop {
            if let Some(fields) = self.at.fields() {
                return self.field(name, fields);
            }
            let Some((step, inner)) = self.at.below() else {
                return Err(NoSuchField::Single { place: self.place.clone() });
            };
            self.place.push_str(step);
            (self.at, self.is_in_list) = (inner, true);
            if is_index || step != "[]" {
                return Ok(());
            }
        }
    }

    fn field(&mut self, name: &str, fields: &'a Map<String, Value>) -> Result<(), NoSuchField> {
        let Some(field) = fields.get(name).and_then(SchemaField::of) else {
            let near = near::names(name, fields.keys().cloned());
            let place = match self.place.as_str() {
                "" => "the configuration".to_owned(),
                place => place.to_owned(),
            };
            return Err(NoSuchField::Unknown { place, name: name.to_owned(), near });
        };
        self.default = self.at.default_of(name, &field);
        if !self.place.is_empty() {
            self.place.push('.');
        }
        self.place.push_str(name);
        self.at = field;
        Ok(())
    }
}

/// The fields below, each with the first sentence of its meaning.
fn below(field: &SchemaField<'_>) -> Vec<(String, String)> {
    let mut inner = Some(*field);
    while let Some(at) = inner {
        if let Some(fields) = at.fields() {
            let first = |value: &Value| {
                let text = value.get("description").and_then(Value::as_str).unwrap_or_default();
                text.split_inclusive(". ").next().unwrap_or_default().trim_end().to_owned()
            };
            return fields.iter().map(|(name, field)| (name.clone(), first(field))).collect();
        }
        inner = at.below().map(|(_, inner)| inner);
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_with_and_without_places_in_lists() {
        let field = explain("limits.in_flight_max").unwrap();
        assert_eq!(
            (field.path.as_str(), field.default.as_str()),
            ("limits.in_flight_max", "`512`")
        );
        assert_eq!(field.variable.as_deref(), Some("WICKETGATE__LIMITS__IN_FLIGHT_MAX"));
        assert!(field.kind.starts_with("whole number"), "{}", field.kind);
        for path in [
            "agents.callers.uid",
            "agents[0].callers[1].uid",
            "agents.0.callers.uid",
            "agents[].callers[].uid",
        ] {
            let field = explain(path).unwrap();
            assert_eq!((field.path.as_str(), field.variable), ("agents[].callers[].uid", None));
        }
        let tool = explain("firewall.tools.file.results.secret").unwrap();
        assert_eq!(tool.path, "firewall.tools.<name>.results.secret");
        let section = explain("listen").unwrap();
        assert!(section.below.iter().any(|(name, _)| name == "socket"), "{section:?}");
        assert!(explain("").unwrap().below.iter().any(|(name, _)| name == "trust"));
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_ones_like_it() {
        let why = explain("limit.in_flight_max").unwrap_err().to_string();
        assert_eq!(why, "`the configuration` has no field `limit`; did you mean `limits`?");
        let why = explain("limits.in_flight").unwrap_err().to_string();
        assert!(why.starts_with("`limits` has no field `in_flight`"), "{why}");
        let why = explain("limits.in_flight_max.more").unwrap_err().to_string();
        assert_eq!(why, "`limits.in_flight_max` is one value: nothing is below it");
    }

    #[test]
    fn every_field_of_the_page_can_be_explained() {
        let (page, mut place, mut count) = (page(), String::new(), 0);
        for line in page.lines() {
            if let Some(title) = line.strip_prefix("## ").or_else(|| line.strip_prefix("### ")) {
                title.trim_matches('`').clone_into(&mut place);
            }
            let Some(name) = line.strip_prefix("| `").and_then(|rest| rest.split('`').next())
            else {
                continue;
            };
            let dot = if place.is_empty() { "" } else { "." };
            let path = format!("{place}{dot}{name}").replace("<name>", "x");
            let field = explain(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
            assert_eq!(field.path.replace("<name>", "x"), path);
            count += 1;
        }
        assert!(count > 300, "{count}");
    }
}
