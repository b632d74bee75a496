//! The operator API: routes, who may use them, their bodies and their gRPC twins.

use std::fmt::Write as _;

use schemars::generate::SchemaSettings;
use serde_json::Value;
use wicketgate::operator::api::{ROUTES, Row};
use wicketgate::operator::http::ENROLMENT;

use super::begin;

const ABOUT: &str = "
Served on `operator.listen` (127.0.0.1:7301 unless set) by a gate on SQLite, and by `wicketgate serve hub` for the gates of a tenant on PostgreSQL.
Log in with `Authorization: Bearer TOKEN` or, over `operator.tls`, with one client certificate. Bodies are strict JSON
(`application/json`, an object of exactly these members); errors are [problems](errors.md). An order answers 200 when every gate applied it, and
202 otherwise, with a list of what is missing; the order stays in force in both cases. `wicketgate approval`, `wicketgate control`, `wicketgate control break-glass` and `wicketgate policy` are clients of this API.

Without a login: `GET /livez`, `GET /startupz`, `GET /readyz`, `GET /metrics`.

";

/// The members of a query or a body: those that may be left out have a `?` behind them.
fn members(row: &Row) -> String {
    let schema = (row.request)(
        &mut SchemaSettings::default().with(|s| s.inline_subschemas = true).into_generator(),
    );
    let schema = schema.as_value();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let all = schema["properties"].as_object();
    let mut names: Vec<&str> = all.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    names.sort_by_key(|name| (!required.contains(name), *name));
    let shown = |name: &&str| match (row.method.as_str(), required.contains(name)) {
        ("GET", _) => format!("`?{name}=`"),
        (_, true) => format!("`{name}`"),
        (_, false) => format!("`{name}`?"),
    };
    names.iter().map(shown).collect::<Vec<_>>().join(", ")
}

pub fn page() -> String {
    let mut page = begin("Operator API", "the table of routes in `src/faces/operator/api/mod.rs`");
    page.push_str(ABOUT);
    page.push_str(
        "| route | what it does | body or query | roles | gRPC |\n|---|---|---|---|---|\n",
    );
    for row in ROUTES {
        let twins: Vec<String> = row.twins.iter().map(|twin| format!("`{twin}`")).collect();
        let (twins, roles, members) = (twins.join(", "), row.right.roles(), members(row));
        writeln!(page, "| `{}` | {} | {members} | {roles} | {twins} |", row.name(), row.about)
            .unwrap();
    }
    writeln!(
        page,
        "\nA hub with `hub.enrolment` has a listener of its own for sidecars, with `POST {ENROLMENT}` alone: members `request` and `proof`."
    )
    .unwrap();
    page
}

#[test]
fn every_route_says_in_a_sentence_what_it_does_and_names_its_parameters_once() {
    for row in ROUTES {
        let name = row.name();
        assert!(row.about.len() > 20 && row.about.ends_with('.'), "{name}: {}", row.about);
        let others = ROUTES.iter().filter(|other| other.name() == name);
        assert_eq!(others.count(), 1, "{name}");
    }
}
