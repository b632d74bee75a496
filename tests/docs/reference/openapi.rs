//! The operator API as OpenAPI 3.0, made of the table of routes and the types of requests and answers.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use wicketgate::operator::api::{ROUTES, Row};

/// Names in braces.
fn parameters(row: &Row) -> impl Iterator<Item = &str> {
    row.path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

fn parameter(name: &str, place: &str, schema: &Value) -> Value {
    json!({"name": name, "in": place, "required": place == "path", "schema": schema})
}

/// One route.
fn operation(row: &Row, request: &Value, reply: &Value) -> Value {
    let text = json!({"type": "string"});
    let mut taken: Vec<Value> =
        parameters(row).map(|name| parameter(name, "path", &text)).collect();
    let kind = match row.path {
        "/v1/exports" => "application/zip",
        "/v1/live" => "text/event-stream",
        _ => "application/json",
    };
    let answer = json!({"description": "The answer.", "content": {kind: {"schema": reply}}});
    let problem = json!({"description": "A problem (RFC 9457): see `errors.md`.",
        "content": {"application/problem+json": {"schema": {"type": "object"}}}});
    let mut operation = json!({
        "summary": row.about,
        "description": format!("Roles: {}.", row.right.roles()),
        "responses": {"200": answer, "default": problem},
    });
    if row.method == "GET" {
        let query = request["properties"].as_object().into_iter().flatten();
        taken.extend(query.map(|(name, schema)| parameter(name, "query", schema)));
    } else {
        operation["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": request}}});
        if reply["$ref"].as_str().is_some_and(|name| name.ends_with("/OrderReply")) {
            let mut waiting = answer;
            waiting["description"] =
                "The order stays in force; the answer says what is missing.".into();
            operation["responses"]["202"] = waiting;
        }
    }
    if !taken.is_empty() {
        operation["parameters"] = taken.into();
    }
    operation
}

pub fn page() -> String {
    let mut schemas = SchemaSettings::openapi3().into_generator();
    let mut whole = SchemaSettings::openapi3().with(|s| s.inline_subschemas = true);
    whole.meta_schema = None;
    let mut whole = whole.into_generator();
    let mut paths = Map::new();
    for row in ROUTES {
        // The members of a query are parameters, so its schema has to be at hand.
        let taken = if row.method == "GET" { &mut whole } else { &mut schemas };
        let request = Value::from((row.request)(taken));
        let reply = Value::from((row.reply)(&mut schemas));
        let path = paths.entry(row.path).or_insert_with(|| json!({}));
        path[row.method.as_str().to_lowercase()] = operation(row, &request, &reply);
    }
    let api = json!({
        "openapi": "3.0.3",
        "info": {
            "title": "Wicketgate operator API",
            "description": "Generated from the table of routes in `src/faces/operator/api/mod.rs`; a test in `tests/docs/reference` compares the two.",
            "version": "1",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas.take_definitions(true),
        },
    });
    serde_json::to_string_pretty(&api).unwrap() + "\n"
}

#[test]
fn every_route_is_an_operation_and_every_reference_leads_somewhere() {
    let api: Value = serde_json::from_str(&page()).unwrap();
    let methods = |path: &Value| path.as_object().unwrap().len();
    let count: usize = api["paths"].as_object().unwrap().values().map(methods).sum();
    assert_eq!(count, ROUTES.len());
    let text = api.to_string();
    for named in text.split("\"#/components/schemas/").skip(1) {
        let name = named.split('"').next().unwrap();
        assert!(api["components"]["schemas"].get(name).is_some(), "{name}");
    }
}
