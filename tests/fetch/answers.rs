//! What servers may answer, and what becomes of answers that are none.

use serde_json::{Value, json};
use wicketgate_support::agent::Refused;

use crate::world;

#[test]
fn good_answers_arrive_as_they_are() {
    world::run("answers::good_answers_arrive_as_they_are", async |world| {
        let json = world.fetch("http://Allowed.TEST.:80/json?q=a+b#top").await.unwrap();
        assert_eq!(
            json,
            json!({"status": 200, "content_type": "application/json", "headers": {"etag": "\"e\""},
                "body": {"a": 2, "b": 1}})
        );
        let head = &world.servers.heads("/json?q=a+b")[0];
        assert!(head.to_ascii_lowercase().contains("\r\nhost: allowed.test\r\n"), "{head}");
        assert!(!head.contains("traceparent") && !head.contains("x-wicketgate"), "{head}");
        assert_eq!(world.fetch("https://tools.test/latin").await.unwrap()["body"], "café");
        let binary = world.fetch("http://a.cdn.test/binary").await.unwrap();
        assert_eq!(binary["body_base64"], "iVBOR/8=");
        let missing = world.fetch("http://allowed.test/missing").await.unwrap();
        assert_eq!((&missing["status"], &missing["body"]), (&json!(404), &json!("gone")));
        assert_eq!(world.fetch("http://allowed.test/empty").await.unwrap()["status"], 204);
        assert_eq!(world.fetch("http://allowed.test/interim").await.unwrap()["body"], "ok");
        assert_eq!(world.fetch("http://allowed.test/trailers").await.unwrap()["body"], "ok");
        let args = json!({"url": "http://allowed.test/json", "method": "HEAD"});
        assert_eq!(world.call("web.fetch", &args).await.unwrap()["body"], "");
        assert_eq!(world.servers.heads("/json").len(), 1);
        world.untouched();
    });
}

/// A name below a domain is the agent's choice: only the arguments, which can be erased, hold it.
#[test]
fn the_entry_of_a_fetch_holds_its_host_as_the_configuration_writes_it() {
    let name = "answers::the_entry_of_a_fetch_holds_its_host_as_the_configuration_writes_it";
    world::run(name, async |world| {
        world.fetch("http://of-the-agent.cdn.test/binary").await.unwrap();
        world.fetch("http://Allowed.TEST.:80/json?q=a+b#top").await.unwrap();
        let tail = ["ledger", "tail", "--config", "wicketgate.yaml", "--number", "50", "--json"];
        let out = world.gate.run(&tail).out;
        assert!(!out.contains("of-the-agent"), "{out}");
        let entries = out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let hosts: Vec<Value> = entries
            .filter(|entry| entry["kind"] == "call.authorized")
            .map(|entry| entry["data"]["hosts"].clone())
            .collect();
        assert_eq!(hosts, [json!(["*.cdn.test"]), json!(["allowed.test"])]);
    });
}

#[test]
fn an_answer_that_is_none_fails_the_call_in_bounds() {
    world::run("answers::an_answer_that_is_none_fails_the_call_in_bounds", async |world| {
        for (path, detail) in [
            ("short", "tool_error"),
            ("nothing", "tool_error"),
            ("large", "too_large"),
            ("announced", "too_large"),
            ("endless", "too_large"),
            ("wide", "too_large"),
            ("many", "too_large"),
            ("both", "protocol"),
            ("twice", "protocol"),
            ("differs", "protocol"),
            ("coding", "protocol"),
            ("bare", "protocol"),
            ("gzip", "protocol"),
            ("other", "protocol"),
            ("switch", "protocol"),
            ("flood", "protocol"),
            ("chunk", "tool_error"),
        ] {
            let (code, said) = world.refused(&format!("http://allowed.test/{path}")).await;
            assert_eq!((code.as_str(), said.as_str()), ("tool.failed", detail), "{path}");
        }
        // Nothing of it is left in the way of the next call.
        assert_eq!(world.fetch("http://allowed.test/").await.unwrap()["body"], "hello");
        world.untouched();
    });
}

#[test]
fn a_server_that_drips_is_given_up_before_the_tools_own_deadline() {
    world::run(
        "answers::a_server_that_drips_is_given_up_before_the_tools_own_deadline",
        async |world| {
            let Refused { detail, message, .. } =
                world.fetch("http://allowed.test/drip").await.unwrap_err();
            assert_eq!(
                (detail.as_str(), message.as_str()),
                ("timeout", "the answer comes too slowly")
            );
        },
    );
}

#[test]
fn a_server_that_says_nothing_is_given_up_before_the_tools_own_deadline() {
    let name = "answers::a_server_that_says_nothing_is_given_up_before_the_tools_own_deadline";
    world::run(name, async |world| {
        let Refused { detail, message, .. } =
            world.fetch("http://allowed.test/silent").await.unwrap_err();
        assert_eq!((detail.as_str(), message.as_str()), ("timeout", "the server does not answer"));
    });
}

#[test]
fn a_certificate_is_for_the_name_and_from_an_authority_of_the_binding() {
    let name = "answers::a_certificate_is_for_the_name_and_from_an_authority_of_the_binding";
    world::run(name, async |world| {
        assert_eq!(world.fetch("https://tools.test/").await.unwrap()["body"], "hello");
        let wrong = "the certificate of the host is not valid for it";
        let refused = world.fetch("https://allowed.test/").await.unwrap_err();
        assert_eq!((refused.detail.as_str(), refused.message.as_str()), ("connect", wrong));
        let public = world.call("web.public", &json!({"url": "https://tools.test/"})).await;
        assert_eq!(public.unwrap_err().message, wrong);
        // Plain HTTP on the port of TLS is no TLS, and the other way round.
        assert_eq!(world.refused("https://allowed.test:80/").await.1, "connect");
        assert_eq!(world.servers.heads("/").len(), 1);
    });
}

#[test]
fn a_thousand_fetches_at_once_all_arrive() {
    world::run("answers::a_thousand_fetches_at_once_all_arrive", async |world| {
        let one = async || {
            let mut done = 0;
            for _ in 0..20 {
                let answer = world.fetch("http://allowed.test/kept").await.unwrap();
                assert_eq!(answer["body"], "kept");
                done += 1;
            }
            done
        };
        let all = futures_util::future::join_all((0..50).map(|_| one())).await;
        assert_eq!(all.iter().sum::<i32>(), 1000);
        // Connections are kept and used again.
        assert!(world.servers.reached().len() <= 500, "{}", world.servers.reached().len());
    });
}
