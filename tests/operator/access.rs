//! Who is let in, and how everybody else is answered.

use serde_json::json;
use wicketgate::domain::code::Code;
use wicketgate::operator::api::ROUTES;
use wicketgate::operator::operators::Right;
use wicketgate::record::Kind;

use crate::api::{ApiServer, ask, run_id, token};

/// A route with a run, a call and a number that look like ones.
fn line(route: &str) -> String {
    let run = run_id(9).to_string();
    route
        .replace("{run}", &run)
        .replace("{call}", "c1")
        .replace("{chain}", &"0".repeat(32))
        .replace("{seq}", "1")
        .replace("{bundle}", "sha256:0")
}

#[tokio::test]
async fn without_a_known_credential_every_route_answers_the_same_and_counts_it() {
    let api = ApiServer::open().await;
    let good = token("anna");
    let wrong = [
        String::new(),
        "Authorization: Bearer\r\n".to_owned(),
        format!("Authorization: Basic {good}\r\n"),
        format!("Authorization: Bearer {good}x\r\n"),
        format!("Authorization: Bearer {}\r\n", &good[..good.len() - 1]),
        format!("Authorization: Bearer {good}\r\nAuthorization: Bearer {good}\r\n"),
        format!("X-Roles: approver\r\nCookie: token={good}\r\n"),
    ];
    let mut bodies = std::collections::BTreeSet::new();
    for headers in &wrong {
        let (status, _, body) = api.raw("GET /v1/approvals", headers, "").await;
        assert_eq!(status, 401, "{headers}");
        bodies.insert(body);
    }
    // None, what is no credential at all, and guesses, which all sound the same.
    assert_eq!(bodies.len(), 3, "uniform: {bodies:?}");
    assert_eq!(*api.refused.lock(), vec![Code::IdentityMissing; wrong.len()]);
    for row in ROUTES {
        let route = row.name();
        let (status, _, _) = api.raw(&line(&route), "", "").await;
        assert!([401, 429].contains(&status), "{route}: {status}");
    }
}

#[tokio::test]
async fn token_guessing_is_rate_limited_and_locks_out_no_operator() {
    let api = ApiServer::open().await;
    let mut statuses = Vec::new();
    for n in 0..30 {
        let headers = format!("Authorization: Bearer guess-{n}-{}\r\n", "x".repeat(43));
        let (status, head, body) = api.raw("GET /v1/fleet", &headers, "").await;
        if status == 429 {
            assert!(head.to_ascii_lowercase().contains("retry-after:"), "{head}");
            assert!(body.contains("limit.exceeded"), "{body}");
        }
        statuses.push(status);
    }
    assert_eq!(statuses[..10], [401; 10]);
    assert_eq!(statuses[10..], [429; 20]);
    let (status, _) = api.get("otto", "/v1/fleet").await;
    assert_eq!(status, 200, "whoever has a token still gets in");
}

#[tokio::test]
async fn a_role_may_do_what_is_its_own_and_a_client_cannot_widen_it() {
    let api = ApiServer::open().await;
    for row in ROUTES {
        let route = row.name();
        for (who, rights) in [
            ("vera", &[Right::Look, Right::Study][..]),
            (
                "otto",
                &[
                    Right::Look,
                    Right::Switch,
                    Right::Review,
                    Right::Study,
                    Right::Erase,
                    Right::Custody,
                ],
            ),
            ("anna", &[Right::Look, Right::Read, Right::Decide, Right::Study]),
            (
                "aude",
                &[
                    Right::Look,
                    Right::Read,
                    Right::Review,
                    Right::Study,
                    Right::Export,
                    Right::Hold,
                    Right::Custody,
                ],
            ),
            ("paul", &[Right::Study, Right::Propose]),
            ("pia", &[Right::Study, Right::Publish]),
        ] {
            let headers = format!(
                "Authorization: Bearer {}\r\nX-Roles: approver, operator\r\nX-Subject: anna\r\n",
                token(who)
            );
            let (status, _, body) = api.raw(&line(&route), &headers, "").await;
            if rights.contains(&row.right) {
                assert!(![401, 403, 405].contains(&status), "{who} {route}: {status} {body}");
            } else {
                assert_eq!(status, 403, "{who} {route}: {body}");
                assert!(body.contains("operator.forbidden"), "{body}");
            }
        }
    }
    assert_eq!(api.orders.since(0, 10).await.unwrap(), []);
    assert!(api.entries(Kind::ControlSet).await.is_empty());
}

#[tokio::test]
async fn runs_and_calls_of_another_tenant_are_not_there() {
    let api = ApiServer::of("other").await;
    let run = run_id(1);
    api.open_run(run).await;
    api.hold(ask(run, "c1", r#"{"amount":1}"#)).await;
    let path = format!("/v1/approvals/{run}/c1");
    let (status, theirs) = api.get("anna", &path).await;
    let (none, nobodys) = api.get("anna", &format!("/v1/approvals/{}/c1", run_id(2))).await;
    assert_eq!((status, &theirs), (404, &nobodys), "the same words as for what does not exist");
    assert_eq!(none, 404);
    let (_, list) = api.get("anna", "/v1/approvals").await;
    assert_eq!(list["held"], json!([]));
    let (_, runs) = api.get("anna", "/v1/runs").await;
    assert_eq!(runs["runs"], json!([]));
    let word = json!({"statement": "{}", "signature": crate::api::ARMOR});
    assert_eq!(api.post("anna", &path, &word).await.0, 404);
    let modify = json!({"arguments": "{}", "statement": "{}", "signature": crate::api::ARMOR});
    assert_eq!(api.post("anna", &format!("{path}/modify"), &modify).await.0, 404);
    assert_eq!(api.orders.since(0, 10).await.unwrap(), []);
}

#[tokio::test]
async fn no_part_of_a_request_reaches_the_database_as_sql() {
    let api = ApiServer::open().await;
    let run = run_id(0xAB);
    api.open_run(run).await;
    api.hold(ask(run, "c1", r#"{"amount":1}"#)).await;
    for path in [
        "/v1/approvals?limit=1;DROP%20TABLE%20entry",
        "/v1/approvals?limit=1%20UNION%20SELECT%201",
        "/v1/approvals?limit=-1",
        "/v1/approvals?sort=seq",
        "/v1/control?since=0%20OR%201=1",
        "/v1/control?since=1&since=2",
        "/v1/control/0",
        "/v1/control/1'--",
    ] {
        let (status, body) = api.get("anna", path).await;
        assert_eq!(status, 400, "{path}: {body}");
        assert_eq!(body["code"], "request.malformed", "{path}");
    }
    for id in ["x'%20OR%20'1'='1", "%27;--", "..%2f..", &run.to_string().to_uppercase()] {
        let (status, _) = api.get("anna", &format!("/v1/approvals/{id}/c1")).await;
        assert_eq!(status, 404, "{id}");
    }
    let body = json!({"action": "kill", "target": "agent", "name": "x'; DROP TABLE control_row; --",
        "reason": "'; DELETE FROM entry; --"});
    assert_eq!(api.post("otto", "/v1/control", &body).await.0, 202);
    let rows = api.orders.since(0, 10).await.unwrap();
    assert_eq!(rows[0].given.reason, "'; DELETE FROM entry; --");
    assert_eq!(api.get("anna", "/v1/approvals").await.1["calls"], 1);
}

#[tokio::test]
async fn a_browser_a_form_and_an_export_get_nothing() {
    let api = ApiServer::open().await;
    let authorized = format!("Authorization: Bearer {}\r\n", token("otto"));
    let body = r#"{"action":"kill","target":"all","reason":"x"}"#;
    let (status, head, _) = api
        .raw("POST /v1/control", &format!("{authorized}Origin: http://localhost:7301\r\n"), body)
        .await;
    assert_eq!(status, 403, "cross-site: {head}");
    for kind in ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data"] {
        let headers = format!("{authorized}Content-Type: {kind}\r\n");
        let (status, _, _) = api.raw("POST /v1/control", &headers, body).await;
        assert_eq!(status, 400, "{kind}");
    }
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
        let (status, _, _) = api.raw(&format!("{method} /v1/control"), &authorized, body).await;
        assert_eq!(status, 405, "{method}");
    }
    // There is no spreadsheet to put a formula into: JSON is all there is.
    for path in ["/v1/approvals.csv", "/v1/export", "/v1/runs?format=csv"] {
        let headers = format!("{authorized}Accept: text/csv\r\n");
        let (status, head, _) = api.raw(&format!("GET {path}"), &headers, "").await;
        assert!([400, 404].contains(&status), "{path}: {status}");
        assert!(!head.contains("text/csv"), "{head}");
    }
    let (_, head, _) = api.raw("GET /v1/fleet", &authorized, "").await;
    let head = head.to_ascii_lowercase();
    for guard in ["default-src 'none'; frame-ancestors 'none'", "nosniff", "no-store"] {
        assert!(head.contains(guard), "{head}");
    }
    assert_eq!(api.orders.since(0, 10).await.unwrap(), []);
}
