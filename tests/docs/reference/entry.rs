//! Ledger entries: the members of every kind, read from the schema document alone.

use std::fmt::Write as _;

use serde_json::Value;

use super::begin;
use crate::document::Document;

const SCHEMA: &str = "src/record/entry-1.json";

const ABOUT: &str = "
An entry is one JSON object, stored and hashed in its canonical form (RFC 8785). The tables below are made from the JSON Schema that every evidence
bundle carries as `schema/entry-1.json`; names in italics are parts that several kinds share.
`wicketgate ledger tail --json` prints the stored bytes.
";

pub fn page() -> String {
    let schema: Value = serde_json::from_str(&Document::read(SCHEMA).text).unwrap();
    let mut page = begin("Ledger entries", &format!("`{SCHEMA}`"));
    page.push_str(ABOUT);
    writeln!(page, "\n## Every entry\n").unwrap();
    members(&schema, &mut page);
    let parts = schema["$defs"].as_object().unwrap();
    let kinds = kinds(&schema);
    for kind in &kinds {
        let part = &parts[kind["data"].as_str().unwrap()];
        writeln!(page, "\n## {}\n", kind["kind"].as_str().unwrap()).unwrap();
        about(part, &mut page);
        members(part, &mut page);
    }
    let shared = parts.iter().filter(|(name, _)| !kinds.iter().any(|kind| kind["data"] == **name));
    page.push_str("\n## Shared parts\n");
    for (name, part) in shared {
        writeln!(page, "\n### {name}\n").unwrap();
        about(part, &mut page);
        members(part, &mut page);
    }
    page
}

/// Of each kind its name and that of the part that describes its `data`.
fn kinds(schema: &Value) -> Vec<Value> {
    let rules = schema["allOf"].as_array().unwrap().iter();
    let kinds = rules.filter_map(|rule| {
        let kind = rule.pointer("/if/properties/kind/const")?;
        let data = rule.pointer("/then/properties/data/$ref")?.as_str()?;
        Some(serde_json::json!({"kind": kind, "data": data.trim_start_matches("#/$defs/")}))
    });
    kinds.collect()
}

fn about(part: &Value, page: &mut String) {
    if let Some(text) = part["description"].as_str() {
        writeln!(page, "{text}\n").unwrap();
    }
}

fn members(part: &Value, page: &mut String) {
    let Some(properties) = part["properties"].as_object().filter(|all| !all.is_empty()) else {
        page.push_str("No members.\n");
        return;
    };
    let required: Vec<_> = part["required"].as_array().into_iter().flatten().collect();
    let described = properties.values().any(|member| member["description"].is_string());
    page.push_str(if described {
        "| member | | value | meaning |\n|---|---|---|---|\n"
    } else {
        "| member | | value |\n|---|---|---|\n"
    });
    for (name, member) in properties {
        let must = if required.contains(&&Value::from(name.as_str())) { "required" } else { "" };
        write!(page, "| `{name}` | {must} | {} |", value(member)).unwrap();
        if described {
            write!(page, " {} |", member["description"].as_str().unwrap_or_default()).unwrap();
        }
        page.push('\n');
    }
}

/// What a member holds, in one line.
fn value(schema: &Value) -> String {
    if let Some(part) = schema["$ref"].as_str() {
        return format!("*{}*", part.trim_start_matches("#/$defs/"));
    }
    if !schema["const"].is_null() {
        return format!("`{}`", plain(&schema["const"]));
    }
    if let Some(choices) = schema["enum"].as_array() {
        return choices
            .iter()
            .map(|one| format!("`{}`", plain(one)))
            .collect::<Vec<_>>()
            .join(", ");
    }
    match plain(&schema["type"]).as_str() {
        "string" => text(schema),
        "integer" => match schema["minimum"].as_u64() {
            Some(least) if least > 0 => format!("integer, at least {least}"),
            _ => "integer".to_owned(),
        },
        "array" => format!("list of {}", value(&schema["items"])),
        "object" if schema["properties"].is_object() => {
            let all = schema["properties"].as_object().unwrap();
            let named = all.iter().map(|(name, member)| format!("`{name}`: {}", value(member)));
            format!("{{{}}}", named.collect::<Vec<_>>().join("; "))
        }
        other => other.to_owned(),
    }
}

fn text(schema: &Value) -> String {
    match schema["pattern"].as_str() {
        Some(pattern) if pattern.contains("T[0-9]{2}:") => "instant".to_owned(),
        Some(pattern) if pattern.contains("[0-9a-f]{8}-") => "UUID".to_owned(),
        Some("^sha256:[0-9a-f]{64}$") => "`sha256:` digest".to_owned(),
        Some("^[0-9a-f]{64}$" | "^(sha256:)?[0-9a-f]{64}$") => "SHA-256, hex".to_owned(),
        Some("^[0-9a-f]{32}$") => "128 bits, hex".to_owned(),
        Some(pattern) => format!("text like `{}`", pattern.replace('|', "\\|")),
        None => "text".to_owned(),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(" or "),
        Value::Null => "any".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

#[test]
fn every_kind_of_the_schema_has_its_section() {
    let schema: Value = serde_json::from_str(&Document::read(SCHEMA).text).unwrap();
    let page = page();
    let kinds = kinds(&schema);
    assert!(kinds.len() > 40, "{}", kinds.len());
    for kind in kinds {
        assert!(page.contains(&format!("\n## {}\n", kind["kind"].as_str().unwrap())), "{kind}");
    }
    assert!(page.contains("| `prev` | required | SHA-256, hex |"));
}
