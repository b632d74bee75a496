//! Who is logged in, and for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use wicketgate::clock::{Clock, SystemClock};
use wicketgate::domain::code::Code;
use wicketgate::domain::time::Timestamp;
use wicketgate::operator::operators::Operators;

use crate::api::{ApiServer, token};
use crate::browser::Browser;

/// The machine's clock, moved forward by hand.
pub struct Moved(SystemClock, AtomicU64);

impl Moved {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(SystemClock::new(), AtomicU64::new(0)))
    }

    pub fn minutes(&self, minutes: u64) {
        self.1.fetch_add(minutes * 60, Ordering::SeqCst);
    }
}

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic() + Duration::from_secs(self.1.load(Ordering::SeqCst))
    }
}

#[track_caller]
pub fn assert_out(seen: &crate::browser::Seen) {
    assert_eq!(
        (seen.status, seen.header("location")),
        (303, Some("/console/login")),
        "{}",
        seen.body
    );
}

#[tokio::test]
async fn a_login_gives_a_new_id_whatever_id_the_browser_showed() {
    let api = ApiServer::open().await;
    let mut browser = Browser::new(&api);
    assert_out(&browser.get("/console").await);
    let chosen = format!("wicketgate={}", "ab".repeat(32));
    browser.cookie.clone_from(&chosen);
    assert_out(&browser.get("/console").await);
    let seen = browser.log_in(&token("anna")).await;
    let cookie = seen.header("set-cookie").unwrap();
    let (pair, rest) = cookie.split_once("; ").unwrap();
    assert_eq!(rest, "Path=/; HttpOnly; SameSite=Strict");
    let id = pair.strip_prefix("wicketgate=").unwrap();
    assert!(id.len() == 64 && pair != chosen, "{cookie}");
    assert_eq!(browser.get("/console").await.status, 200);
    let first = browser.cookie.clone();
    browser.log_in(&token("anna")).await;
    assert_ne!(browser.cookie, first);
    assert_eq!(browser.get("/console").await.status, 200);
    for old in [first.clone(), chosen, format!("{}; {first}", browser.cookie)] {
        browser.cookie = old;
        assert_out(&browser.get("/console").await);
    }
}

#[tokio::test]
async fn a_logout_ends_the_session_and_takes_the_cookie_back() {
    let api = ApiServer::open().await;
    let browser = Browser::of(&api, "anna").await;
    let page = browser.get("/console/logout").await;
    assert!(page.body.contains("anna") && page.body.contains("approver"), "{}", page.body);
    let form = page.token("/console/logout");
    let out = browser.send("/console/logout", &[("form", &form)]).await;
    assert_out(&out);
    let cookie = out.header("set-cookie").unwrap();
    assert!(cookie.starts_with("wicketgate=; ") && cookie.ends_with("Max-Age=0"), "{cookie}");
    assert_out(&browser.get("/console").await);
}

#[tokio::test]
async fn a_session_ends_when_it_is_not_used_and_after_eight_hours() {
    let clock = Moved::new();
    let api = ApiServer::timed("default", Arc::<Moved>::clone(&clock)).await;
    let idle = Browser::of(&api, "anna").await;
    clock.minutes(14);
    assert_eq!(idle.get("/console").await.status, 200);
    clock.minutes(15);
    assert_out(&idle.get("/console").await);
    let used = Browser::of(&api, "otto").await;
    for _ in 0..47 {
        clock.minutes(10);
        assert_eq!(used.get("/console").await.status, 200);
    }
    clock.minutes(10);
    assert_out(&used.get("/console").await);
}

#[tokio::test]
async fn an_operator_who_is_removed_is_out_at_once() {
    let api = ApiServer::open().await;
    let browser = Browser::of(&api, "anna").await;
    assert_eq!(browser.get("/console").await.status, 200);
    api.handler.set_operators(Operators::default());
    assert_out(&browser.get("/console").await);
}

#[tokio::test]
async fn con_010_a_wrong_token_always_gets_the_same_answer_and_guessing_is_slowed_down() {
    let api = ApiServer::open().await;
    let good = token("anna");
    let mut pages = std::collections::BTreeSet::new();
    let short = good.strip_prefix('a').unwrap();
    for wrong in ["x", short, &format!("{good}x"), &good.to_uppercase()] {
        let seen = Browser::new(&api).log_in(wrong).await;
        assert_eq!((seen.status, seen.header("set-cookie")), (401, None), "{wrong}");
        assert!(!seen.body.contains(short), "{}", seen.body);
        pages.insert(seen.body);
    }
    assert_eq!(pages.len(), 1, "uniform: {pages:?}");
    assert_eq!(*api.refused.lock(), vec![Code::IdentityMissing; 4]);
    let mut last = Browser::new(&api).log_in("").await;
    for n in 0..10 {
        last = Browser::new(&api).log_in(&format!("guess-{n}")).await;
    }
    assert_eq!(last.status, 429);
    assert!(last.header("retry-after").is_some(), "{}", last.head);
    Browser::of(&api, "anna").await;
}

#[tokio::test]
async fn a_session_is_good_for_the_console_only() {
    let api = ApiServer::open().await;
    let browser = Browser::of(&api, "otto").await;
    assert_eq!(browser.get("/v1/runs").await.status, 401);
    let stop = r#"{"action":"kill","target":"all","reason":"x"}"#;
    let seen = browser.raw("POST /v1/control", "Content-Type: application/json\r\n", stop).await;
    assert_eq!(seen.status, 401);
    // And a token that a client sends itself opens no page: a page cannot send it.
    let headers = format!("Authorization: Bearer {}\r\n", token("otto"));
    assert_out(&Browser::new(&api).raw("GET /console", &headers, "").await);
    assert_eq!(api.orders.since(0, 10).await.unwrap(), []);
}

#[tokio::test]
async fn con_004_a_login_leads_to_the_console_and_nowhere_else() {
    let api = ApiServer::open().await;
    let token = token("anna");
    for (query, fields) in [
        ("?next=https://evil.example", vec![("token", token.as_str())]),
        ("?next=//evil.example&redirect_uri=/v1/runs", vec![("token", &token)]),
        ("", vec![("token", &token), ("next", "https://evil.example")]),
    ] {
        let seen = Browser::new(&api).send(&format!("/console/login{query}"), &fields).await;
        assert_eq!((seen.status, seen.header("location")), (303, Some("/console")), "{query}");
        assert!(!seen.head.contains("evil") && !seen.body.contains("evil"), "{}", seen.head);
    }
}
