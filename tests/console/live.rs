//! The feed in the console: streams of tabs, what ends them, and texts of agents.

use wicketgate::record::Kind;

use crate::api::{ApiServer, Events, ask, run_id};
use crate::browser::Browser;

pub async fn stream(browser: &Browser<'_>) -> Events {
    let headers = format!("Cookie: {}\r\n", browser.cookie);
    browser.api.stream("/console/live/events", &headers).await
}

#[tokio::test]
async fn counters_and_events_arrive_in_every_tab() {
    let api = ApiServer::open().await;
    let anna = Browser::of(&api, "anna").await;
    let (mut one, mut two) = (stream(&anna).await, stream(&anna).await);
    for tab in [&mut one, &mut two] {
        let head = tab.next().await.unwrap();
        assert_eq!((head.name.as_str(), &head.data["waiting"]), ("head", &0.into()));
        assert_eq!(head.data["ready"], false);
    }
    let run = run_id(1);
    api.open_run(run).await;
    api.hold(ask(run, "c1", r#"{"amount":1}"#)).await;
    for tab in [&mut one, &mut two] {
        let (mut kinds, mut waiting) = (Vec::new(), 0);
        while kinds.len() < 2 || waiting == 0 {
            let event = tab.next().await.unwrap();
            match event.name.as_str() {
                "head" => waiting = event.data["waiting"].as_u64().unwrap(),
                _ => kinds.push(event.data["kind"].clone()),
            }
        }
        assert_eq!((kinds, waiting), (vec!["run.opened".into(), "call.held".into()], 1));
    }
    // The page without a script shows the same, newest first.
    let page = anna.get("/console/live").await.body;
    let (held, opened) = (page.find("call.held").unwrap(), page.find("run.opened").unwrap());
    assert!(held < opened && page.contains(r#"aria-live="off""#), "{page}");
    assert!(page.contains(r#"<span data-live="waiting">1</span> waiting"#), "{page}");
}

#[tokio::test]
async fn a_stream_ends_with_its_session_and_does_not_keep_it_open() {
    let clock = crate::sessions::Moved::new();
    let api = ApiServer::timed("default", std::sync::Arc::clone(&clock) as _).await;
    let anna = Browser::of(&api, "anna").await;
    let mut events = stream(&anna).await;
    assert_eq!(events.next().await.unwrap().name, "head");
    clock.minutes(10);
    // A tab that comes back is no use of the session either.
    assert_eq!(stream(&anna).await.status(), 200);
    clock.minutes(6);
    assert_eq!(events.event().await, None);
    assert_eq!(stream(&anna).await.status(), 303);

    let otto = Browser::of(&api, "otto").await;
    let mut events = stream(&otto).await;
    let form = otto.get("/console/logout").await.token("/console/logout");
    otto.send("/console/logout", &[("form", &form)]).await;
    assert_eq!(events.event().await, None);

    let vera = Browser::of(&api, "vera").await;
    let mut events = stream(&vera).await;
    api.handler.set_operators(wicketgate::operator::operators::Operators::default());
    assert_eq!(events.event().await, None);
}

#[tokio::test]
async fn what_cannot_be_seen_in_a_text_is_spelled_out_in_the_stream_too() {
    let api = ApiServer::open().await;
    let anna = Browser::of(&api, "anna").await;
    let mut events = stream(&anna).await;
    let run = run_id(1);
    api.open_run(run).await;
    api.hold(ask(run, "c1", r#"{"amount":1}"#)).await;
    api.end_call_because(run, "c1", "<img src=x onerror=alert(1)>\u{202e}\u{200b}").await;
    let mut last = events.event().await.unwrap();
    while last.data["kind"] != Kind::CallExpired.as_str() {
        last = events.event().await.unwrap();
    }
    assert_eq!(last.data["code"], r"<img src=x onerror=alert(1)>\u{202e}\u{200b}");
    let page = anna.get("/console/live").await.body;
    assert!(page.contains(r"&lt;img src=x onerror=alert(1)&gt;\u{202e}\u{200b}"), "{page}");
}
