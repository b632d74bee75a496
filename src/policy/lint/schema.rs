//! The JSON Schema (2020-12) of the input document, made from the lints' table.

use serde_json::{Map, Value, json};

use super::shape::{INPUT, Shape};
use crate::domain::json::Json;
use crate::input::VERSION;

/// The schema of [`VERSION`] of the input document.
pub fn schema() -> Value {
    let mut whole = of(&INPUT);
    if let Value::Object(members) = &mut whole {
        members.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
        members.insert("$id".into(), format!("https://wicketgate.dev/schema/{VERSION}").into());
        members.insert("title".into(), format!("What a policy is asked about ({VERSION})").into());
    }
    whole
}

/// Where a document violates the schema: `place: what`, in the order of the document.
pub fn violations(document: &Json) -> Vec<String> {
    let validator = match jsonschema::draft202012::new(&schema()) {
        Ok(validator) => validator,
        Err(error) => return vec![error.to_string()],
    };
    let document = document.to_serde();
    let line = |error: jsonschema::ValidationError<'_>| {
        let place = error.instance_path().to_string().replace('/', ".");
        format!("input{place}: {error}")
    };
    validator.iter_errors(&document).map(line).collect()
}

fn of(shape: &'static Shape) -> Value {
    match shape {
        Shape::Open => json!({"type": "object"}),
        Shape::Text => json!({"type": "string"}),
        Shape::OneOf(texts) => json!({"type": "string", "enum": texts}),
        Shape::Number => json!({"type": "number"}),
        Shape::Flag => json!({"type": "boolean"}),
        Shape::Texts => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        Shape::List(item) => json!({"type": "array", "items": of(item)}),
        Shape::Object(_) | Shape::Effect => {
            let properties: Map<String, Value> =
                shape.members().map(|member| (member.name.to_owned(), of(&member.shape))).collect();
            let always = shape.members().filter(|member| member.always);
            let required: Vec<&str> = always.map(|member| member.name).collect();
            json!({
                "type": "object", "properties": properties, "required": required,
                "additionalProperties": false,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::{InputTarget, PathStep, find};
    use super::*;

    /// Every place the schema describes, by its names.
    fn places(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            path.push(name.clone());
            found.push(path.clone());
            places(member, path, found);
            path.pop();
        }
    }

    #[test]
    fn the_schema_describes_the_places_of_the_table_and_no_others() {
        let mut found = Vec::new();
        places(&schema(), &mut Vec::new(), &mut found);
        assert!(found.len() > 60, "{}", found.len());
        for path in &found {
            let steps: Vec<PathStep<'_>> = path.iter().map(|name| PathStep::Name(name)).collect();
            assert!(
                matches!(find(&steps), InputTarget::There { .. } | InputTarget::Unknown),
                "{path:?}"
            );
        }
        let Shape::Object(members) = &INPUT else { panic!("the document is an object") };
        for member in members.iter() {
            assert!(found.contains(&vec![member.name.to_owned()]), "{}", member.name);
        }
    }

    #[test]
    fn schema_violations_name_the_path_in_the_document() {
        let mut document = crate::testing::sample::document(&[]);
        let overlay = br#"{"tool": {"tier": "T9", "teir": "T0"}}"#;
        let overlay = Json::parse(overlay, &crate::domain::json::Limits::ARGUMENTS).unwrap();
        crate::testing::sample::merge(&mut document, &overlay);
        let lines = violations(&document).join("\n");
        assert!(
            lines.contains("input.tool.tier: ") && lines.contains("`teir`")
                || lines.contains("'teir'"),
            "{lines}"
        );
    }
}
