//! The exact bytes of results.

use serde_json::json;

use crate::gate::{Gate, call, is, problem};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_result_is_read_by_itself_whole_or_in_ranges() {
    let gate = Gate::start().await;
    let run = gate.open().await;
    let answer = gate.put(&run, "l", &json!({"tool": "work.large", "arguments": {}})).await.json();
    let reference = &answer["result_ref"];
    assert!(answer.get("result").is_none(), "{reference}");
    assert_eq!(reference["href"], "/gate/v1/calls/l/result");
    let size = reference["size"].as_u64().unwrap();
    assert!(size > 3 << 20, "{reference}");
    let path = "/gate/v1/calls/l/result";
    let whole = gate.of(&run, "GET", path, "").await;
    assert_eq!((whole.status, whole.body.len() as u64), (200, size));
    assert_eq!(whole.header("content-type"), Some("application/json"));
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    let etag = whole.header("etag").unwrap();
    assert_eq!(etag, format!("\"{}\"", reference["sha256"].as_str().unwrap()));
    let grpc = gate.sidecar.open().await;
    drop(grpc);

    let ask = async |name: &str, value: &str| {
        gate.ask("GET", path, &[("Authorization", &run.bearer), (name, value)], "").await
    };
    let part = ask("Range", "bytes=10-19").await;
    assert_eq!((part.status, part.body.as_str()), (206, &whole.body[10..20]));
    assert_eq!(part.header("content-range"), Some(format!("bytes 10-19/{size}").as_str()));
    assert_eq!(part.header("etag"), Some(etag));
    let tail = ask("Range", "bytes=-5").await;
    assert_eq!((tail.status, tail.body.as_str()), (206, &whole.body[whole.body.len() - 5..]));
    let outside = ask("Range", &format!("bytes={size}-")).await;
    assert_eq!(problem(&outside), is(416, "request.malformed", "http.range"));
    assert_eq!(outside.header("content-range"), Some(format!("bytes */{size}").as_str()));
    assert_eq!(ask("If-None-Match", etag).await.status, 304);
    assert_eq!(ask("Range", "bytes=0-1,3-4").await.status, 200, "one range or none");

    let lines = [("Authorization", run.bearer.as_str())];
    let mut wire = gate.begin("HEAD", path, &lines, "").await;
    let head = wire.head().await.unwrap();
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some(size.to_string().as_str()))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_without_a_result_has_none_to_read() {
    let gate = Gate::start().await;
    let run = gate.open().await;
    gate.put(&run, "h", &call(json!({"hold": true}))).await;
    let read =
        async |id: &str| gate.of(&run, "GET", &format!("/gate/v1/calls/{id}/result"), "").await;
    assert_eq!(problem(&read("h").await).1, "call.held");
    assert_eq!(problem(&read("no-such").await), is(404, "call.not_found", ""));
    gate.put(&run, "s", &call(json!({}))).await;
    let small = read("s").await;
    let inline = gate.get(&run, "s").await.body;
    assert!(inline.contains(&format!("\"result\":{}", small.body)), "{inline}");
}
