//! What an agent may set, and where a credential goes.

use serde_json::{Value, json};

use crate::encodings;
use crate::world::{self, SECRET};

#[test]
fn a_credential_goes_to_its_origin_and_to_no_other() {
    world::run("bounds::a_credential_goes_to_its_origin_and_to_no_other", async |world| {
        let call = async |url: &str| world.call("web.pinned", &json!({"url": url})).await.unwrap();
        let echoed = call("https://tools.test/echo").await;
        let sent = world.servers.heads("/echo").remove(0);
        assert!(sent.contains(&format!("authorization: Bearer {SECRET}\r\n")), "{sent}");
        let echoed = echoed["body"].as_str().unwrap();
        assert!(echoed.contains("authorization: Bearer [REDACTED:credential]"), "{echoed}");
        assert!(!echoed.contains("sec-Of"), "{echoed}");
        // Another scheme, another host: another origin.
        for other in ["http://tools.test/echo?1", "http://allowed.test/echo?2"] {
            call(other).await;
        }
        for path in ["/echo?1", "/echo?2"] {
            let head = world.servers.heads(path).remove(0);
            assert!(!head.contains("authorization"), "{head}");
        }
        // An http tool's redirect takes nothing along either.
        let orders = world.call("api.orders", &json!({"id": "to"})).await.unwrap();
        assert_eq!(orders["body"], "hello");
        assert!(world.servers.heads("/to")[0].contains(SECRET));
        world.untouched();
    });
}

#[test]
fn an_agent_sets_the_headers_it_may_and_no_others() {
    world::run("bounds::an_agent_sets_the_headers_it_may_and_no_others", async |world| {
        let call = async |headers: Value| {
            let args = json!({"url": "https://tools.test/echo", "headers": headers});
            world.call("web.pinned", &args).await
        };
        call(json!({"Accept": "text/html", "if-none-match": "\"e\""})).await.unwrap();
        let head = world.servers.heads("/echo").remove(0);
        assert!(head.contains("accept: text/html\r\n") && head.contains("if-none-match: \"e\""));
        for name in [
            "Host",
            "Authorization",
            "Connection",
            "Proxy-Authorization",
            ":authority",
            "Cookie",
            "Transfer-Encoding",
            "Content-Length",
            "X-Forwarded-For",
            "Accept-Language",
            "a b",
            "",
        ] {
            let refused = call(json!({name: "evil.test"})).await.unwrap_err();
            assert_eq!(refused.detail, "fetch.header", "{name}");
        }
        let broken = call(json!({"accept": "a\r\nx: y"})).await.unwrap_err();
        assert_eq!(broken.detail, "fetch.header");
        for method in ["POST", "CONNECT", "get", "OPTIONS"] {
            let args = json!({"url": "https://tools.test/echo", "method": method});
            let refused = world.call("web.pinned", &args).await.unwrap_err();
            assert_eq!(refused.detail, "schema.enum", "{method}");
        }
        assert_eq!(world.servers.heads("/echo").len(), 1);
    });
}

#[test]
fn a_credential_in_a_url_never_leaves() {
    world::run("bounds::a_credential_in_a_url_never_leaves", async |world| {
        for (name, form) in encodings::forms(SECRET) {
            let form = encodings::percent(&form);
            for url in [
                format!("http://allowed.test/?d={form}"),
                format!("http://allowed.test/?{form}=d"),
                format!("http://allowed.test/a/{form}/b"),
            ] {
                assert_eq!(world.refused(&url).await.1, "no_allow", "{name}: {url}");
            }
        }
        assert!(world.servers.reached().is_empty());
        assert!(world.names.asked().is_empty());
        // A part of it, or what only looks like a credential, is none of ours.
        let clean = [("zeroes".to_owned(), "0".repeat(64))];
        for (_, text) in encodings::near(SECRET).into_iter().chain(clean) {
            let text = encodings::percent(&text);
            world.fetch(&format!("http://allowed.test/?d={text}")).await.unwrap();
        }
    });
}

#[test]
fn a_policy_sees_the_url_as_it_is_sent_and_as_it_decodes() {
    world::run("bounds::a_policy_sees_the_url_as_it_is_sent_and_as_it_decodes", async |world| {
        for url in [
            "http://allowed.test/?to=ann@example.com",
            "http://allowed.test/?to=ann%40example.com",
            "http://allowed.test/?%61nn%40example%2Ecom",
            "http://allowed.test/people/ann%40example.com",
        ] {
            assert_eq!(world.refused(url).await.1, "mail", "{url}");
        }
        for url in ["http://allowed.test/x/../drafts/1", "http://allowed.test/%2e/drafts/1"] {
            assert_eq!(world.refused(url).await.1, "drafts", "{url}");
        }
        assert!(world.servers.reached().is_empty() && world.names.asked().is_empty());
        world.fetch("http://allowed.test/?to=ann%20at%20example.com").await.unwrap();
    });
}

#[test]
fn a_credential_whose_file_changes_is_the_new_one_from_the_next_call_on() {
    let name = "bounds::a_credential_whose_file_changes_is_the_new_one_from_the_next_call_on";
    world::run(name, async |world| {
        const NEXT: &str = "sec-that-came-later-4567";
        let call = async |tool: &str, args: Value| world.call(tool, &args).await.unwrap();
        let echo = json!({"url": "https://tools.test/echo"});
        call("web.pinned", echo.clone()).await;
        // In its place at once, as a mounted secret is replaced.
        world.gate.write("next", NEXT);
        std::fs::rename(world.gate.path("next"), world.gate.path("secret")).unwrap();
        let fetched = call("web.pinned", echo.clone()).await;
        let ordered = call("api.orders", json!({"id": "echo"})).await;
        let heads = world.servers.heads("/echo");
        let sent: Vec<bool> = heads.iter().map(|head| head.contains(NEXT)).collect();
        assert_eq!(sent, [false, true, true]);
        for echoed in [fetched, ordered] {
            let text = echoed["body"].as_str().unwrap();
            assert!(
                text.contains("Bearer [REDACTED:credential]") && !text.contains(NEXT),
                "{text}"
            );
        }
        // The value it had is still nobody's to send.
        let old = world.refused(&format!("http://allowed.test/?d={SECRET}")).await;
        assert_eq!(old.1, "no_allow");
        // A file that is of no use changes nothing.
        world.gate.write("secret", "short");
        call("web.pinned", echo).await;
        assert!(world.servers.heads("/echo")[3].contains(NEXT));
    });
}

#[test]
fn a_run_with_fetches_and_refused_fetches_has_valid_evidence() {
    world::run(
        "bounds::a_run_with_fetches_and_refused_fetches_has_valid_evidence",
        async |world| {
            world.fetch("http://allowed.test/").await.unwrap();
            world.fetch("http://evil.test/").await.unwrap_err();
            world.fetch("http://mixed.test/").await.unwrap_err();
            world.agent.seal().await.unwrap();
            let run = world.agent.run.clone();
            world.gate.verified(&run).ok();
        },
    );
}
