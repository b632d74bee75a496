//! The operator API: routes, who may use them, their bodies and their gRPC twins.

use std::fmt::Write as _;

use wicketgate::operator::grpc::METHODS;
use wicketgate::operator::http::{ENROLMENT, ROUTES};

use super::begin;

const ABOUT: &str = "
Served on `operator.listen` (127.0.0.1:7301 unless set) by a gate on SQLite, and by `wicketgate serve hub` for the gates of a tenant on PostgreSQL.
Log in with `Authorization: Bearer TOKEN` or, over `operator.tls`, with one client certificate. Bodies are strict JSON
(`application/json`, an object of exactly these members); errors are [problems](errors.md). An order answers 200 when every gate obeyed, and 202
with what is missing otherwise: it stands all the same. `wicketgate approval`, `wicketgate control`, `wicketgate control break-glass` and `wicketgate policy` are its client.

Without a login: `GET /livez`, `GET /startupz`, `GET /readyz`, `GET /metrics`.

";

/// A route, what it does, and the members of its body or query; those with `?` may be left out.
const MEANT: [(&str, &str, &str); 27] = [
    ("GET /v1/amendments", "proposed policy bundles, and what came of them", ""),
    ("POST /v1/amendments", "propose a signed bundle", "`files`, `base`?, `reason`?"),
    ("GET /v1/amendments/{bundle}", "one proposal with its files", ""),
    ("POST /v1/amendments/{bundle}", "approve or refuse it", "`statement`, `signature`"),
    ("POST /v1/amendments/{bundle}/activate", "put an approved bundle in force", "none"),
    ("GET /v1/approvals", "held calls, without arguments", "`?limit=`"),
    (
        "GET /v1/approvals/{run}/{call}",
        "one held call with its arguments and the statements to sign",
        "",
    ),
    ("POST /v1/approvals/{run}/{call}", "approve or refuse it", "`statement`, `signature`"),
    (
        "POST /v1/approvals/{run}/{call}/modify",
        "propose other arguments",
        "`arguments`, `statement`, `signature`, `reason`?",
    ),
    ("GET /v1/break-glass", "orders, and which of them are unreviewed", ""),
    ("POST /v1/break-glass", "open one", "`statement`, `signatures`"),
    ("POST /v1/break-glass/{nonce}/close", "end it early", "`reason`?"),
    ("POST /v1/break-glass/{nonce}/review", "record a review", "`note`?"),
    ("GET /v1/control", "orders", "`?since=`"),
    (
        "POST /v1/control",
        "stop: `suspend`, `revoke` or `kill`",
        "`action`, `target`, `reason`, `name`?, `expires`?",
    ),
    ("GET /v1/control/head", "the newest order, to be named in a signed one", ""),
    ("POST /v1/control/reinstate", "take back a stop", "`statement`, `signature`"),
    ("GET /v1/control/{seq}", "one order, and what each gate did about it", ""),
    ("GET /v1/erasures", "erasures", ""),
    (
        "POST /v1/erasures",
        "erase payloads",
        "`statement`, `signature`, `vacuum`?; or `dry_run` with `run`, `role`? or with `commitments`",
    ),
    (
        "GET /v1/erasures/head",
        "the newest entry of the fleet log, to be named in a signed order",
        "",
    ),
    ("GET /v1/erasures/{seq}", "one erasure with its receipt", ""),
    (
        "POST /v1/exports",
        "an evidence bundle",
        "`query`, `since`?, `payloads`?, `redact`?, `disclose`?",
    ),
    ("GET /v1/fleet", "gates: version, bundle in force, newest order obeyed", ""),
    ("GET /v1/holds", "legal holds", ""),
    (
        "POST /v1/holds",
        "place or end a legal hold",
        "to place: `run` or `log`, `reason`; to end: `statement`, `signature`",
    ),
    ("GET /v1/runs", "open and recent runs", "`?limit=`"),
];

pub fn page() -> String {
    let mut page = begin("Operator API", "the table of routes in `src/faces/operator/http.rs`");
    page.push_str(ABOUT);
    page.push_str(
        "| route | what it does | body or query | roles | gRPC |\n|---|---|---|---|---|\n",
    );
    for (route, right) in ROUTES {
        let meant = MEANT.iter().find(|(meant, ..)| *meant == route);
        let (_, does, members) = meant.unwrap_or_else(|| panic!("`{route}` is not described"));
        let twins = METHODS.iter().filter(|(_, twin)| *twin == route);
        let twins =
            twins.map(|(method, _)| format!("`{}`", method.trim_start_matches("wicketgate.v1.")));
        let twins = twins.collect::<Vec<_>>().join(", ");
        writeln!(page, "| `{route}` | {does} | {members} | {} | {twins} |", right.roles()).unwrap();
    }
    writeln!(
        page,
        "\nA hub with `hub.enrolment` has a listener of its own for sidecars, with `{ENROLMENT}` alone: members `request` and `proof`."
    )
    .unwrap();
    page
}

#[test]
fn every_route_is_described_and_no_other() {
    for (meant, does, _) in MEANT {
        assert!(ROUTES.iter().any(|(route, _)| *route == meant), "`{meant}` is no route");
        assert!(does.len() > 5, "{meant}");
    }
    assert_eq!(MEANT.len(), ROUTES.len());
}
