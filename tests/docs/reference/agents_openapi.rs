//! HTTP/JSON for agents as OpenAPI 3.1: the document that the gate serves, and what must be in it.

use std::collections::BTreeSet;

use serde_json::Value;
use wicketgate::domain::code::Code;
use wicketgate::serve::http::openapi::{document, problems};
use wicketgate::serve::http::routes::{HttpRoute, ROUTES};
use wicketgate::serve::surface;

pub fn page() -> String {
    serde_json::to_string_pretty(&document()).unwrap() + "\n"
}

/// Every operation of the document, as method and path.
fn operations(document: &Value) -> BTreeSet<String> {
    let paths = document["paths"].as_object().unwrap();
    let of = |(path, item): (&String, &Value)| {
        let methods: Vec<String> = item.as_object().unwrap().keys().cloned().collect();
        methods
            .into_iter()
            .map(|method| format!("{} {path}", method.to_uppercase()))
            .collect::<Vec<_>>()
    };
    paths.iter().flat_map(of).collect()
}

fn operation<'a>(document: &'a Value, route: &HttpRoute) -> &'a Value {
    &document["paths"][route.path][route.method.as_str().to_lowercase()]
}

#[test]
fn the_document_has_the_routes_of_the_table_and_of_the_surface_and_no_other() {
    let table: BTreeSet<String> = ROUTES.iter().map(HttpRoute::name).collect();
    assert_eq!(table.len(), ROUTES.len());
    assert_eq!(operations(&document()), table);
    let listed = surface().into_iter().map(|(name, _)| name);
    let listed =
        listed.filter(|name| name.contains(" /gate/v1/") || name.contains(" /openapi.json"));
    assert_eq!(listed.collect::<BTreeSet<_>>(), table);
}

#[test]
fn every_operation_says_who_may_ask_and_names_each_status_with_its_codes() {
    let document = document();
    for route in ROUTES {
        let operation = operation(&document, route);
        assert_eq!(operation["x-wicketgate-access"], route.access.as_str(), "{}", route.name());
        assert!(operation["summary"].as_str().unwrap().ends_with('.'), "{}", route.name());
        for (status, codes) in problems(route) {
            let response = &operation["responses"][status.as_str()];
            let schema = &response["content"]["application/problem+json"]["schema"];
            let named: Vec<&str> = schema["allOf"][1]["properties"]["code"]["enum"]
                .as_array()
                .unwrap_or_else(|| panic!("{} {status}: {response}", route.name()))
                .iter()
                .map(|code| code.as_str().unwrap())
                .collect();
            let codes: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
            assert_eq!(named, codes, "{} {status}", route.name());
        }
    }
    let all: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let code = &document["components"]["schemas"]["Problem"]["properties"]["code"];
    assert_eq!(code["enum"], Value::from(all), "{}", document["components"]["schemas"]["Problem"]);
}

#[test]
fn the_document_names_its_licence_its_servers_and_both_credentials_and_every_reference_leads_somewhere()
 {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["license"]["identifier"], "Apache-2.0");
    assert!(!document["servers"].as_array().unwrap().is_empty());
    for name in ["agent", "run"] {
        assert_eq!(document["components"]["securitySchemes"][name]["scheme"], "bearer");
    }
    for named in document.to_string().split("\"#/components/schemas/").skip(1) {
        let name = named.split('"').next().unwrap();
        assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
    }
}
