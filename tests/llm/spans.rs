//! What a collector of traces learns of a request in a dialect.

use serde_json::json;
use wicketgate_support::collector::{Collector, attribute};

use crate::gate::Gate;
use crate::provider::Answer;
use crate::said::{ALL, CHAT};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_to_a_provider_is_a_span_with_its_tokens_and_without_its_texts() {
    let collector = Collector::default();
    let port = collector.serve(None).await.port();
    let configure = |config: &mut serde_json::Value| {
        config["telemetry"]["otlp"] = json!({"endpoint": format!("http://127.0.0.1:{port}"),
            "private_addresses": ["127.0.0.0/8"]});
    };
    let mut gate = Gate::start_with(configure, |_| {}).await;
    for dialect in ALL {
        gate.provider.answers(Answer::of_dialect(dialect, &dialect.streamed("a secret word", &[])));
        assert_eq!(gate.asks(dialect, &dialect.request("hush", true)).await.status, 200);
        gate.provider.answers(Answer::json(200, &dialect.whole("a secret word", &[])));
        assert_eq!(gate.asks(dialect, &dialect.request("hush", false)).await.status, 200);
    }
    gate.provider.answers(Answer::of(200, "text/html", "<html>"));
    let chat = CHAT;
    assert_eq!(gate.asks(chat, &chat.request("hush hush", true)).await.status, 502);
    gate.sidecar.stop().await;
    let spans = collector.spans();
    let mut chats: Vec<_> = spans.iter().filter(|span| span.name == "chat small-2026").collect();
    chats.sort_by_key(|span| span.start_time_unix_nano);
    let [answered @ .., failed] = chats.as_slice() else { panic!("{spans:?}") };
    assert_eq!(answered.len(), 2 * ALL.len(), "{spans:?}");
    let stops = ["stop", "completed", "end_turn", "STOP", "stop"].into_iter();
    let stops = stops.flat_map(|stop| [stop, stop]);
    for (span, stop) in answered.iter().zip(stops) {
        for (key, value) in [
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.request.model", "small-2026"),
            ("gen_ai.response.model", "small-2026"),
            ("gen_ai.response.finish_reasons", stop),
            ("gen_ai.usage.input_tokens", "12"),
            ("gen_ai.usage.output_tokens", "3"),
        ] {
            assert_eq!(attribute(&span.attributes, key).as_deref(), Some(value), "{key} {span:?}");
        }
        assert_eq!(attribute(&span.attributes, "error.type"), None);
    }
    assert_eq!(attribute(&failed.attributes, "error.type").as_deref(), Some("protocol"));
    assert_eq!(attribute(&failed.attributes, "gen_ai.usage.input_tokens"), None);
    let sent = format!("{:?} {:?}", collector.traces.lock(), collector.logs.lock());
    assert!(!sent.contains("hush") && !sent.contains("secret word"));
}
