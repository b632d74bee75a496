//! Every page: who may see it, its headers, its markup and its weight.

use std::collections::BTreeSet;

use wicketgate::operator::operators::{Operator, Role};
use wicketgate::record::Kind;
use wicketgate::serve::console::PAGES;

use crate::api::{ApiServer, GATE, ask, canonical_args, run_id, show};
use crate::browser::{Browser, Seen};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// A gate, a run and a held call with arguments that would like to be markup.
async fn stage() -> ApiServer {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    let args = canonical_args(
        r#"{"note":"<script>alert(1)</script>' \" --> \u202e\u200bx","<img src=x onerror=alert(2)>":"javascript:alert(3)"}"#,
    );
    api.hold(ask(run, "c1", &args)).await;
    show(&*api.orders, GATE, 0).await;
    api
}

/// A path with its parameters.
fn filled(path: &str) -> String {
    let run = run_id(1).to_string();
    let path = path.replace("{run}", &run).replace("{call}", "c1");
    let path = path.replace("{bundle}", &format!("sha256:{}", "0".repeat(64)));
    path.replace("{id}", "1").replace("{chain}", &"0".repeat(32)).replace("{seq}", "1")
}

#[tokio::test]
async fn a_page_has_the_right_of_its_route_and_shows_nothing_without_it() {
    let api = stage().await;
    for (who, role) in [
        ("vera", Role::Viewer),
        ("otto", Role::Operator),
        ("anna", Role::Approver),
        ("aude", Role::Auditor),
        ("paul", Role::PolicyAuthor),
        ("pia", Role::PolicyPublisher),
    ] {
        let browser = Browser::of(&api, who).await;
        let (subject, roles) = (who.to_owned(), BTreeSet::from([role]));
        let operator = Operator { subject, roles, auth: "token".to_owned() };
        for page in PAGES.iter().filter(|page| page.method == http::Method::GET) {
            let (path, may) = (filled(page.path), operator.may(page.row.right));
            let seen = browser.get(&path).await;
            assert_eq!(seen.status == 403, !may, "{who} {path}: {}", seen.body);
            // The API says the same of the route.
            if page.row.method == http::Method::GET {
                let (status, _) = api.get(who, &filled(page.row.path)).await;
                assert_eq!(status == 403, !may, "{who} {}", page.row.path);
            }
            assert!(may || !seen.body.contains("payments.refund"), "{who} {path}");
        }
    }
}

/// What an approver sees of all pages that need no order, and every other kind of answer.
async fn all(api: &ApiServer) -> Vec<(String, Seen)> {
    let (anna, otto) = (Browser::of(api, "anna").await, Browser::of(api, "otto").await);
    let mut seen = Vec::new();
    let pages = PAGES.iter().filter(|page| page.method == http::Method::GET);
    let paths = pages.map(|page| filled(page.path)).chain(
        [
            "/console/login",
            "/console/logout",
            "/console/me",
            "/console/none",
            "/console/",
            "/console/orders/x",
        ]
        .map(str::to_owned),
    );
    for path in paths {
        seen.push((path.clone(), anna.get(&path).await));
        seen.push((path.clone(), otto.get(&path).await));
    }
    seen.push((
        "a foreign page".to_owned(),
        anna.raw("GET /console", "Origin: null\r\n", "").await,
    ));
    seen.push(("no session".to_owned(), Browser::new(api).get("/console").await));
    seen
}

#[tokio::test]
async fn every_answer_has_exactly_these_headers() {
    let api = stage().await;
    for (path, seen) in all(&api).await {
        for (name, value) in [
            ("content-security-policy", POLICY),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("referrer-policy", "same-origin"),
            (
                "permissions-policy",
                "publickey-credentials-get=(self), publickey-credentials-create=(self)",
            ),
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(seen.header(name), Some(value), "{path}: {}", seen.head);
        }
        assert_eq!(seen.header("strict-transport-security"), None, "not in the clear");
        assert_eq!(seen.header("access-control-allow-origin"), None);
        let kind = match path.as_str() {
            _ if seen.status != 200 => "text/html; charset=utf-8",
            path if path.ends_with("/arguments") => "application/json",
            path if path.ends_with(".csv") => "text/csv; charset=utf-8",
            "/console/live/events" => "text/event-stream",
            _ => "text/html; charset=utf-8",
        };
        if seen.status != 303 {
            assert_eq!(seen.header("content-type"), Some(kind), "{path}");
        }
    }
}

#[tokio::test]
async fn con_001_pages_have_no_script_of_their_own_and_agents_texts_are_texts() {
    let api = stage().await;
    // A file is stored, and a stream is read by a script: they are no pages.
    let is_page = |(_, seen): &(String, Seen)| {
        let kind = seen.header("content-type").unwrap_or_default();
        seen.header("content-disposition").is_none() && kind != "text/event-stream"
    };
    for (path, seen) in all(&api).await.into_iter().filter(is_page) {
        let body = &seen.body;
        for tag in body.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
            let known = !["img", "iframe", "style", "script"].contains(&tag);
            assert!(known && !tag.contains(" on") && !tag.contains("style="), "{path}: <{tag}>");
        }
        for address in seen.attributes("src").iter().chain(&seen.attributes("href")) {
            assert!(address.starts_with("/console") || address == "#main", "{path}: {address}");
        }
        let hidden = |c: char| (c.is_control() && c != '\n') || "\u{202e}\u{200b}".contains(c);
        assert!(!body.chars().any(hidden), "{path}: {body}");
    }
    let anna = Browser::of(&api, "anna").await;
    let seen = anna.get(&format!("/console/approvals/{}/c1", run_id(1))).await;
    for part in [
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        r"\u{202e}\u{200b}x",
        "2 invisible characters",
        "&lt;img src=x onerror=alert(2)&gt;",
        "trust me\\u{1b}[2J",
    ] {
        assert!(seen.body.contains(part), "{part}: {}", seen.body);
    }
}

#[tokio::test]
async fn an_approver_sees_the_exact_bytes_the_reasons_and_the_commands() {
    let api = stage().await;
    let run = run_id(2);
    api.open_run(run).await;
    let digest = api.hold(ask(run, "c7", r#"{"amount":4200,"to":{"iban":"DE89"}}"#)).await;
    let anna = Browser::of(&api, "anna").await;
    let list = anna.get("/console/approvals").await;
    let link = format!("/console/approvals/{run}/c7");
    assert!(list.attributes("href").contains(&link), "{}", list.body);
    let seen = anna.get(&link).await;
    for part in [
        "T3 CANNOT BE UNDONE",
        "https://pay.example.com:443/refunds",
        "POST",
        "refunds need a second pair of eyes",
        "org/main.rego:12",
        "{&quot;amount&quot;:4200,&quot;to&quot;:{&quot;iban&quot;:&quot;DE89&quot;}}",
        &digest.hex(),
        &wicketgate::operator::view::words(&digest),
        // The port or the host may be another than what a command asks by itself.
        &format!(
            "wicketgate approval approve {run} c7 --token-file TOKEN --key KEY --url http://localhost<"
        ),
        &format!("approval refuse {run} c7 --token-file TOKEN --key KEY --url http://localhost<"),
    ] {
        assert!(seen.body.contains(part), "{part}: {}", seen.body);
    }
    // A viewer sees that it is held, and neither arguments nor a link to them.
    let vera = Browser::of(&api, "vera").await;
    let list = vera.get("/console/approvals").await;
    assert!(list.body.contains("payments.refund"), "{}", list.body);
    assert!(!list.attributes("href").contains(&link), "{}", list.body);
    api.end_call(run, "c7").await;
    assert_eq!(anna.get(&link).await.status, 404);
}

#[tokio::test]
async fn a_call_is_found_by_a_query_and_its_arguments_are_shown_once_that_is_recorded() {
    let api = stage().await;
    let run = run_id(2);
    api.open_run(run).await;
    api.hold(ask(run, "c7", r#"{"amount":420042004200}"#)).await;
    let anna = Browser::of(&api, "anna").await;
    let list = anna.get("/console/calls?q=call%3Ac7").await;
    let mut links = list.attributes("href").into_iter();
    let path = links.find(|link| link.starts_with("/console/calls/")).unwrap();
    assert_eq!(list.body.matches("<tr data-row>").count(), 1, "{}", list.body);
    let call = anna.get(&path).await;
    for part in ["require_approval", "held", "refunds need a second pair of eyes", "call.held"] {
        assert!(call.body.contains(part), "{part}: {}", call.body);
    }
    assert!(!call.body.contains("420042004200"), "{}", call.body);
    assert!(call.body.contains("✔ All entries are in the signed checkpoint of "), "{}", call.body);
    let proof = call.attributes("href").into_iter().find(|link| link.ends_with("/proof")).unwrap();
    let proof = anna.get(&proof).await;
    for part in ["✔ Entry ", "c2sp.org/tlog-proof@v1", "computed from the entry"] {
        assert!(proof.body.contains(part), "{part}: {}", proof.body);
    }
    assert_eq!(api.entries(Kind::PayloadViewed).await.len(), 0);
    let shown = anna.get(&format!("{path}/payloads")).await;
    assert!(shown.body.contains("{&quot;amount&quot;:420042004200}"), "{}", shown.body);
    assert_eq!(api.entries(Kind::PayloadViewed).await.len(), 1);
    let vera = Browser::of(&api, "vera").await;
    assert_eq!(vera.get(&format!("{path}/payloads")).await.status, 403);
    assert_eq!(api.entries(Kind::PayloadViewed).await.len(), 1);
    let run = anna.get(&format!("/console/runs/{run}")).await;
    assert!(run.attributes("href").contains(&path), "{}", run.body);
    let wrong = anna.get("/console/calls?q=colour%3Ared").await;
    assert!(wrong.status == 200 && wrong.body.contains("colour"), "{}", wrong.body);
    assert_eq!(wrong.attributes("value"), ["colour:red"]);
}

#[tokio::test]
async fn a_number_that_no_store_can_hold_is_of_nothing() {
    let api = stage().await;
    let anna = Browser::of(&api, "anna").await;
    let list = anna.get("/console/calls").await;
    let mut links = list.attributes("href").into_iter();
    let call = links.find(|link| link.starts_with("/console/calls/")).unwrap();
    let (chain, _) = call.rsplit_once('/').unwrap();
    for number in [1_u64 << 41, u64::MAX] {
        for path in [
            format!("{chain}/{number}"),
            format!("{chain}/{number}/payloads"),
            format!("{}/{number}/proof", chain.replace("/calls/", "/receipts/")),
            format!("/console/orders/{number}"),
        ] {
            assert_eq!(anna.get(&path).await.status, 404, "{path}");
        }
        let orders = anna.get(&format!("/console/orders?since={number}")).await;
        assert_eq!(orders.status, 200, "{number}: {}", orders.body);
    }
}

#[tokio::test]
async fn con_009_what_is_of_another_tenant_is_not_there() {
    let api = ApiServer::of("other").await;
    let run = run_id(1);
    api.open_run(run).await;
    api.hold(ask(run, "c1", r#"{"amount":1}"#)).await;
    let anna = Browser::of(&api, "anna").await;
    for path in [format!("/console/approvals/{run}/c1"), format!("/console/runs/{run}")] {
        let (seen, none) = (anna.get(&path).await, anna.get(&path.replace("01", "02")).await);
        assert_eq!((seen.status, none.status), (404, 404), "{path}");
    }
    assert!(!anna.get("/console").await.body.contains("payments.refund"));
}

#[tokio::test]
async fn a_full_page_with_its_files_weighs_at_most_60_kb_and_the_files_are_kept() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    for n in 0..100 {
        api.hold(ask(run, &format!("c{n}"), &format!(r#"{{"amount":{n}}}"#))).await;
    }
    let anna = Browser::of(&api, "anna").await;
    let page = anna.get("/console/approvals").await;
    assert_eq!(page.body.matches("<tr data-row>").count(), 100, "{}", page.body);
    let mut weight = page.body.len();
    let files: BTreeSet<String> =
        page.attributes("href").into_iter().chain(page.attributes("src")).collect();
    let files: Vec<_> = files.iter().filter(|path| path.contains("/static/")).collect();
    assert_eq!(files.len(), 6, "{files:?}");
    for path in files {
        // They need no session: the page of the login has them too.
        let file = Browser::new(&api).get(path).await;
        assert_eq!(file.status, 200, "{path}");
        assert_eq!(file.header("cache-control"), Some("public, max-age=31536000, immutable"));
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
        weight += file.body.len();
        let other = path.replace("/static/", "/static/0");
        assert_eq!(Browser::new(&api).get(&other).await.status, 404);
    }
    assert!(weight <= 60 * 1024, "{weight} bytes");
}

#[tokio::test]
async fn a_page_can_be_read_by_its_parts() {
    let api = stage().await;
    for (path, seen) in all(&api).await.into_iter().filter(|(_, seen)| seen.body.contains("<nav "))
    {
        let count = |part: &str| seen.body.matches(part).count();
        assert_eq!((count("<main "), count("<h1>"), count("<nav ")), (1, 1, 1), "{path}");
        assert!(seen.body.contains(r##"<a class="skip" href="#main">"##), "{path}");
        assert!(seen.body.starts_with("<!DOCTYPE html><html lang=\"en\">"), "{path}");
        assert_eq!(count("<table>"), count("<caption>"), "{path}");
        assert_eq!(count("<th>"), 0, "each has a scope: {path}");
        let fields = count("<input id") + count("<select ") + count("<textarea ");
        assert_eq!(count("<label "), fields, "{path}");
    }
}
