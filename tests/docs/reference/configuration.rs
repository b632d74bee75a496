//! The configuration: every field with its type, default and meaning.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::begin;

const ABOUT: &str = "
`wicketgate config schema` prints the same reference as a JSON Schema for editors. `wicketgate config check` reports everything that
is wrong with a file, and `wicketgate config print` shows the values in force: those of environment variables named
`WICKETGATE__SECTION__FIELD`, else those of the file, else the defaults. Variables exist only for single values outside lists. A relative path is
resolved from the directory of the file. `null` is an error unless the field says what it means.
";

/// The keywords of a schema.
struct Field<'a>(&'a Map<String, Value>);

impl<'a> Field<'a> {
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
    fn below(&self) -> Option<(&'static str, Field<'a>)> {
        if self.fields().is_some() {
            return Some(("", Field(self.0)));
        }
        let inner = |keyword| self.0.get(keyword).and_then(Field::of);
        let list = inner("items").map(|field| ("[]", field));
        list.or_else(|| inner("additionalProperties").map(|field| (".<name>", field)))
    }

    fn kind(&self) -> String {
        let kind = self.0.get("type").and_then(|kind| kind.as_str().or_else(|| kind[0].as_str()));
        let described = self.list("oneOf").map(|word| &word["const"]);
        let words: Vec<_> = self.list("enum").chain(described).filter_map(code).collect();
        let size = |unit: &str, least: Option<u64>, most: Option<u64>| match (least, most) {
            (None | Some(0), None) => String::new(),
            (None | Some(0), Some(most)) => format!(", at most {}{unit}", grouped(most)),
            (Some(least), None) => format!(", at least {}{unit}", grouped(least)),
            (Some(least), Some(most)) => format!(", {} to {}{unit}", grouped(least), grouped(most)),
        };
        let of = |inner: Option<(&str, Field<'_>)>| {
            inner.filter(|(_, field)| field.fields().is_none()).map(|(_, field)| field.kind())
        };
        match kind {
            _ if !words.is_empty() => words.join(", "),
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
                text.trim_start_matches("expected ").replace('<', "&lt;")
            }
            Some("string") => {
                let (least, most) = (self.number("minLength"), self.number("maxLength"));
                format!("text{}", size(" characters", least, most))
            }
            Some("array") => {
                let items = of(self.below()).map(|kind| format!(": each {kind}"));
                let items = items.unwrap_or_default();
                format!("list{}{items}", size("", self.number("minItems"), self.number("maxItems")))
            }
            Some("object") if self.fields().is_none() => {
                let items = of(self.below()).map(|kind| format!(": each {kind}"));
                let most = self.number("maxProperties");
                format!("mapping of names{}{}", size("", None, most), items.unwrap_or_default())
            }
            Some("object") => "mapping".to_owned(),
            _ => "any value".to_owned(),
        }
    }

    fn meaning(&self) -> String {
        let mut text = self.text("description").unwrap_or_default().to_owned();
        let items = self.0.get("items").and_then(Field::of);
        for word in self.list("oneOf").chain(items.iter().flat_map(|items| items.list("oneOf"))) {
            let (name, meaning) = (code(&word["const"]).unwrap(), word["description"].as_str());
            write!(text, "<br>{name}: {}", meaning.unwrap_or_default()).unwrap();
        }
        if let Some(meaning) = self.text("x-null") {
            let itself = self.0.get("type").is_some_and(Value::is_array);
            let place = if itself { "" } else { " in a field below" };
            write!(text, "<br>`null`{place}: {meaning}.").unwrap();
        }
        let examples: Vec<_> = self.list("examples").filter_map(code).collect();
        match examples.as_slice() {
            [] => {}
            [one] => write!(text, "<br>Example: {one}").unwrap(),
            many => write!(text, "<br>Examples: {}", many.join(", ")).unwrap(),
        }
        text
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

/// The sections below this one, each with a table of its fields.
fn section(path: &str, schema: &Field<'_>, out: &mut String) {
    let Some(fields) = schema.fields() else { return };
    out.push_str("\n| Field | Type | Default | Meaning |\n|---|---|---|---|\n");
    let required: Vec<_> = schema.list("required").filter_map(Value::as_str).collect();
    for (name, field) in fields {
        let field = Field::of(field).unwrap();
        let default = match field.0.get("default") {
            _ if required.contains(&name.as_str()) => "required".to_owned(),
            Some(Value::Null) => "`null`".to_owned(),
            Some(value) if field.fields().is_none() => code(value).unwrap_or_default(),
            Some(_) | None => String::new(),
        };
        let row = [format!("`{name}`"), field.kind(), default, field.meaning()];
        let row = row.map(|cell| cell.replace('|', "\\|"));
        writeln!(out, "| {} |", row.join(" | ")).unwrap();
    }
    for (name, field) in fields {
        let field = Field::of(field).unwrap();
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let below = field.below().filter(|(_, inner)| inner.fields().is_some());
        let Some((step, inner)) = below else { continue };
        let path = format!("{path}{step}");
        let level = "#".repeat(if path.contains('.') { 3 } else { 2 });
        let text = field.text("description").unwrap_or_default();
        write!(out, "\n{level} `{path}`\n\n{text}\n").unwrap();
        section(&path, &inner, out);
    }
}

pub fn page() -> String {
    let mut page = begin("Configuration: `wicketgate.yaml`", "the schema of the configuration");
    page.push_str(ABOUT);
    section("", &Field::of(&wicketgate::config::schema()).unwrap(), &mut page);
    page
}
