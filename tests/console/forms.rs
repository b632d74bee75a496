//! What changes something: only forms of the console's own pages, sent by the operator they were made for.

use wicketgate::clock::{Clock as _, SystemClock};
use wicketgate::control::{Action, Order, OrderOrigin, Target};

use crate::api::{ApiServer, GATE, ask, run_id, show};
use crate::browser::{Browser, FORM, SAME, encoded};

/// An order that stops a run.
fn kill<'a>(form: &'a str, run: &'a str) -> [(&'static str, &'a str); 6] {
    [
        ("form", form),
        ("action", "kill"),
        ("target", "run"),
        ("name", run),
        ("reason", "it loops"),
        ("confirm", run),
    ]
}

#[tokio::test]
async fn a_form_of_another_place_or_another_session_changes_nothing() {
    let api = ApiServer::open().await;
    let (otto, anna) = (Browser::of(&api, "otto").await, Browser::of(&api, "anna").await);
    let other = Browser::of(&api, "otto").await;
    let run = run_id(1).to_string();
    let form = otto.get("/console/orders/new").await.token("/console/orders");
    let sent = encoded(&kill(&form, &run));
    let before = api.refused.lock().len();
    let mut refused = 0;
    for headers in [
        FORM.to_owned(),
        format!("{FORM}Origin: https://evil.example\r\n"),
        format!("{FORM}Origin: null\r\n"),
        format!("{FORM}Origin: https://localhost\r\n"),
        format!("{FORM}Origin: http://localhost:1\r\n"),
        format!("{FORM}Origin: http://localhost\r\nOrigin: http://localhost\r\n"),
        format!("{FORM}Origin: http://localhost\r\nSec-Fetch-Site: cross-site\r\n"),
        format!("{FORM}Origin: http://localhost\r\nSec-Fetch-Site: same-site\r\n"),
        format!("{SAME}Content-Type: text/plain\r\n"),
        format!("{SAME}Content-Type: application/json\r\n"),
        format!("{SAME}Content-Type: multipart/form-data\r\n"),
        SAME.to_owned(),
    ] {
        let seen = otto.raw("POST /console/orders", &headers, &sent).await;
        assert_eq!(seen.status, 403, "{headers}: {}", seen.body);
        refused += 1;
    }
    let foreign = other.get("/console/orders/new").await.token("/console/orders");
    let of_logout = otto.get("/console/logout").await.token("/console/logout");
    for form in ["", "x", &foreign, &of_logout] {
        let seen = otto.send("/console/orders", &kill(form, &run)).await;
        assert_eq!(seen.status, 403, "{form}: {}", seen.body);
        refused += 1;
    }
    let twice = format!("{sent}&form={form}");
    assert_eq!(
        otto.raw("POST /console/orders", &format!("{SAME}{FORM}"), &twice).await.status,
        403
    );
    assert_eq!(api.refused.lock().len() - before, refused + 1, "each is counted");
    // Without the right, and without a session.
    assert_eq!(anna.send("/console/orders", &kill(&form, &run)).await.status, 403);
    let nobody = Browser::new(&api).send("/console/orders", &kill(&form, &run)).await;
    assert_eq!((nobody.status, nobody.header("location")), (303, Some("/console/login")));
    assert_eq!(api.orders.since(0, 10).await.unwrap(), []);
}

#[tokio::test]
async fn a_login_from_another_place_opens_no_session() {
    let api = ApiServer::open().await;
    let sent = encoded(&[("token", &crate::api::token("anna"))]);
    for headers in [
        FORM.to_owned(),
        format!("{FORM}Origin: https://evil.example\r\n"),
        format!("{SAME}Content-Type: text/plain\r\n"),
        SAME.to_owned(),
    ] {
        let before = api.refused.lock().len();
        let seen = Browser::new(&api).raw("POST /console/login", &headers, &sent).await;
        assert_eq!((seen.status, seen.header("set-cookie")), (403, None), "{headers}");
        assert_eq!(api.refused.lock().len(), before + 1, "{headers}: counted");
    }
}

#[tokio::test]
async fn forms_are_taken_with_the_origin_that_browsers_send_under_the_policy_of_their_page() {
    let api = ApiServer::open().await;
    let sent = encoded(&[("token", &crate::api::token("anna"))]);
    let page = Browser::new(&api).get("/console/login").await;
    let origin = page.origin_of_forms();
    let headers = format!("{FORM}Origin: {origin}\r\nSec-Fetch-Site: same-origin\r\n");
    let seen = Browser::new(&api).raw("POST /console/login", &headers, &sent).await;
    assert_eq!((seen.status, seen.header("location")), (303, Some("/console")), "{}", seen.body);
    let anna = Browser::of(&api, "anna").await;
    let page = anna.get("/console/logout").await;
    let (origin, form) = (page.origin_of_forms(), page.token("/console/logout"));
    let headers = format!("{FORM}Origin: {origin}\r\nSec-Fetch-Site: same-origin\r\n");
    let seen = anna.raw("POST /console/logout", &headers, &encoded(&[("form", &form)])).await;
    assert_eq!((seen.status, seen.header("location")), (303, Some("/console/login")));
}

#[tokio::test]
async fn pages_elsewhere_and_other_methods_read_nothing() {
    let api = ApiServer::open().await;
    let anna = Browser::of(&api, "anna").await;
    for headers in [
        "Origin: https://evil.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    ] {
        let seen = anna.raw("GET /console", headers, "").await;
        assert_eq!(seen.status, 403, "{headers}");
        assert!(!seen.body.contains("Held calls"), "{}", seen.body);
    }
    // A link in a message: the reader goes on by a link of the console's own page.
    let line = "GET /console/runs?x=1";
    let seen = anna.raw(line, "Sec-Fetch-Site: cross-site\r\n", "").await;
    assert!(seen.attributes("href").contains(&"/console/runs".to_owned()), "{}", seen.body);
    for headers in ["Sec-Fetch-Site: none\r\n", SAME] {
        assert_eq!(anna.raw("GET /console", headers, "").await.status, 200, "{headers}");
    }
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
        assert_eq!(anna.raw(&format!("{method} /console"), SAME, "").await.status, 405, "{method}");
    }
    let (status, _, _) = api.raw("GET /console", "Host: evil.example\r\n", "").await;
    assert_eq!(status, 403, "two hosts");
}

#[tokio::test]
async fn a_run_is_stopped_by_its_confirmed_name_and_the_page_shows_what_the_gates_did() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    api.hold(ask(run, "c1", r#"{"amount":1}"#)).await;
    let gate = api.gate(GATE, r#"{"left":0,"runs_sealed":1,"stopped_count":2}"#).await;
    let otto = Browser::of(&api, "otto").await;
    let run = run.to_string();
    let page = otto.get(&format!("/console/runs/{run}")).await;
    let link = format!("/console/orders/new?action=kill&amp;target=run&amp;name={run}");
    assert!(page.attributes("href").contains(&link), "{}", page.body);
    let page = otto.get(&link.replace("&amp;", "&")).await;
    assert!(page.body.contains("<option selected>kill</option>"), "{}", page.body);
    assert!(page.attributes("value").contains(&run), "{}", page.body);
    let form = page.token("/console/orders");
    let mut unconfirmed = kill(&form, &run);
    unconfirmed[5].1 = "yes";
    assert_eq!(otto.send("/console/orders", &unconfirmed).await.status, 400);
    assert_eq!(api.orders.since(0, 10).await.unwrap(), []);
    let given = otto.send("/console/orders", &kill(&form, &run)).await;
    assert_eq!((given.status, given.header("location")), (303, Some("/console/orders/1")));
    let rows = api.orders.since(0, 10).await.unwrap();
    assert_eq!(
        (rows[0].given.subject.as_str(), rows[0].given.reason.as_str()),
        ("otto", "it loops")
    );
    let page = otto.get("/console/orders/1").await;
    for part in ["● done", "1 run sealed", "2 calls stopped", "it loops", GATE] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    let list = otto.get("/console/orders").await;
    assert!(list.body.contains("kill run"), "{}", list.body);
    drop(gate);
}

#[tokio::test]
async fn an_order_that_a_gate_did_not_report_is_not_shown_as_done() {
    let api = ApiServer::open().await;
    show(&*api.orders, GATE, 0).await;
    let otto = Browser::of(&api, "otto").await;
    let form = otto.get("/console/orders/new").await.token("/console/orders");
    let run = run_id(1).to_string();
    let given = otto.send("/console/orders", &kill(&form, &run)).await;
    assert_eq!(given.header("location"), Some("/console/orders/1"), "{}", given.body);
    let page = otto.get("/console/orders/1").await;
    assert!(page.body.contains("■ not done everywhere"), "{}", page.body);
    assert!(page.body.contains("did not report"), "{}", page.body);
}

#[tokio::test]
async fn the_newest_orders_lead_to_earlier_ones_and_to_no_later_ones() {
    let api = ApiServer::open().await;
    let given = OrderOrigin {
        subject: "otto".to_owned(),
        roles: vec!["operator".to_owned()],
        auth: "token".to_owned(),
        reason: "it loops".to_owned(),
        expires: None,
    };
    for n in 0..201 {
        let target = Target::Agent(format!("agent-{n}"));
        let order = Order::Switch { action: Action::Suspend, target };
        api.orders.put(SystemClock::new().now(), &given, &order).await.unwrap();
    }
    let vera = Browser::of(&api, "vera").await;
    let newest = vera.get("/console/orders").await;
    assert!(newest.body.contains("agent-200") && !newest.body.contains("agent-0<"));
    assert!(newest.body.contains("Earlier orders"), "{}", newest.body);
    assert!(!newest.body.contains("Later orders"), "{}", newest.body);
    let oldest = vera.get("/console/orders?since=0").await;
    assert!(oldest.body.contains("Later orders") && !oldest.body.contains("Earlier orders"));
    assert!(oldest.body.contains("agent-0<"), "{}", oldest.body);
}
