//! Anthropic's messages.

use super::*;

pub(super) fn event(data: &str) -> String {
    let kind = parse(data).unwrap().get("type").unwrap().as_str().unwrap().to_owned();
    format!("event: {kind}\ndata: {data}\n\n")
}

pub(super) fn start() -> String {
    event(
        r#"{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":15,"ephemeral_1h_input_tokens":5},"output_tokens":1}}}"#,
    )
}

pub(super) fn end(reason: &str) -> String {
    let delta = format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":9}}}}"#
    );
    event(&delta) + &event(r#"{"type":"message_stop"}"#)
}

fn block(index: u64, block: &str, deltas: &[&str]) -> String {
    let start =
        format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#);
    let deltas = deltas.iter().map(|delta| {
        event(&format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#))
    });
    let stop = format!(r#"{{"type":"content_block_stop","index":{index}}}"#);
    event(&start) + &deltas.collect::<String>() + &event(&stop)
}

pub(super) fn parallel() -> String {
    [
        start(),
        event(r#"{"type":"ping"}"#),
        block(
            0,
            r#"{"type":"thinking","thinking":"","signature":""}"#,
            &[
                r#"{"type":"thinking_delta","thinking":"Hmm"}"#,
                r#"{"type":"signature_delta","signature":"c2ln"}"#,
            ],
        ),
        block(
            1,
            r#"{"type":"text","text":""}"#,
            &[r#"{"type":"text_delta","text":"Look "}"#, r#"{"type":"text_delta","text":"😀"}"#],
        ),
        block(
            2,
            r#"{"type":"tool_use","id":"t0","name":"Bash","input":{}}"#,
            &[
                r#"{"type":"input_json_delta","partial_json":""}"#,
                r#"{"type":"input_json_delta","partial_json":"{\"z\":1,"}"#,
                r#"{"type":"input_json_delta","partial_json":"\"a\":2}"}"#,
            ],
        ),
        block(3, r#"{"type":"tool_use","id":"t1","name":"Read","input":{}}"#, &[]),
        end("tool_use"),
    ]
    .concat()
}

const WHOLE: &str = r#"{"id":"m1","type":"message","role":"assistant","model":"claude","content":[{"type":"thinking","thinking":"Hmm","signature":"c2ln"},{"type":"text","text":"Look 😀"},{"type":"tool_use","id":"t0","name":"Bash","input":{"z":1,"a":2}},{"type":"tool_use","id":"t1","name":"Read","input":{}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":3,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":15,"ephemeral_1h_input_tokens":5},"output_tokens":9}}"#;

#[test]
fn an_allowed_block_leaves_as_start_one_delta_and_stop() {
    let run = run(Dialect::Messages, &parallel(), &[]);
    assert_eq!(run.calls[0].arguments, r#"{"z":1,"a":2}"#);
    assert_eq!((run.calls[1].name.as_str(), run.calls[1].arguments.as_str()), ("Read", "{}"));
    assert_eq!(run.text, "HmmLook 😀");
    let at = parallel()
        .find("event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":2")
        .unwrap();
    assert_eq!(&run.out[..at], &parallel()[..at]);
    assert!(run.out.contains(
        r#""delta":{"partial_json":"{\"z\":1,\"a\":2}","type":"input_json_delta"},"index":2"#
    ));
    assert_eq!(run.out.matches("input_json_delta").count(), 2);
    assert_eq!(run.end, end("tool_use"));
    assert_eq!(run.json(), parse(WHOLE).unwrap());
    let usage = TokenUsage {
        input: 123,
        output: 9,
        cached_input: 100,
        cache_write: 20,
        cache_write_1h: 5,
        reasoning: 0,
    };
    assert_eq!(run.usage(), usage);
    assert_eq!(run.assembled.model.as_deref(), Some("claude"));
    assert_eq!(run.assembled.id.as_deref(), Some("m1"));
}

#[test]
fn each_form_of_a_denial_agrees_with_the_stop_reason() {
    let call = run(Dialect::Messages, &parallel(), &[Decision::Call]);
    assert!(call.out.contains(
        r#""content_block":{"type":"tool_use","id":"t0","name":"wicketgate_denied","input":{}}"#
    ));
    assert!(!call.out.contains("\\\"z\\\":1"));
    let block = call.json().get("content").unwrap().as_array().unwrap()[2].clone();
    assert_eq!(block.get("input"), Some(&parse(&denial("Bash", 0)).unwrap()));
    assert_eq!(call.end, end("tool_use"));

    let text = run(Dialect::Messages, &parallel(), &[Decision::Text]);
    assert_eq!(text.end, end("tool_use"));
    let indexes: Vec<_> = text
        .values()
        .iter()
        .filter(|event| event.get("type") == Some(&"content_block_start".into()))
        .map(|event| event.get("index").unwrap().as_u64().unwrap())
        .collect();
    assert_eq!(indexes, [0, 1, 2, 3]);

    let none = run(Dialect::Messages, &parallel(), &[Decision::Text, Decision::Text]);
    assert_eq!(none.end, end("end_turn"));
    assert!(!none.out.contains("tool_use"));
    assert_eq!(none.assembled.stop, "end_turn");
    for decisions in [
        &[Decision::Call][..],
        &[Decision::Text],
        &[Decision::Text, Decision::Text],
        &[Decision::Allow, Decision::With(r#"{"p":"***"}"#)],
    ] {
        let whole = whole_run(Dialect::Messages, WHOLE, decisions);
        let streamed = run(Dialect::Messages, &parallel(), decisions);
        assert_eq!(parse(json_text(&whole)).unwrap(), streamed.json(), "{decisions:?}");
        assert_eq!(whole.stop, streamed.assembled.stop);
        assert_eq!(whole.usage, streamed.assembled.usage);
    }
    assert_eq!(json_text(&whole_run(Dialect::Messages, WHOLE, &[])), WHOLE);
}

#[test]
fn a_block_that_begins_with_its_input_is_a_call_as_well() {
    let begun = block(0, r#"{"type":"tool_use","id":"t","name":"Bash","input": {"b":1} }"#, &[]);
    let run = run(Dialect::Messages, &(start() + &begun + &end("tool_use")), &[]);
    assert_eq!(run.calls[0].arguments, r#"{"b":1}"#);
    assert!(run.out.contains(r#""name":"Bash","input": {} }"#), "{}", run.out);
    assert!(run.out.contains(r#""partial_json":"{\"b\":1}""#), "{}", run.out);
}

#[test]
fn what_the_provider_ran_passes_only_if_it_was_allowed() {
    let ran = start()
        + &block(
            0,
            r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{}}"#,
            &[r#"{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}"#],
        )
        + &block(1, r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[]}"#, &[])
        + &end("end_turn");
    assert_eq!(failure(Dialect::Messages, &ran), AnswerError::ProviderRan("web_search".into()));
    let rules = hosted(&["web_search_20250305"]);
    let run = read(Dialect::Messages, &rules, &[ran.as_bytes()], &[]).unwrap();
    assert_eq!(run.out + &run.end, ran);
    assert!(run.calls.is_empty());
    let other = read(Dialect::Messages, &hosted(&["web_fetch_20250910"]), &[ran.as_bytes()], &[]);
    assert!(other.is_err());
    let mcp = start()
        + &block(
            0,
            r#"{"type":"mcp_tool_use","id":"s","name":"x","server_name":"y","input":{}}"#,
            &[],
        );
    assert_eq!(failure(Dialect::Messages, &mcp).detail(), "model.hosted_tool");
}

#[test]
fn events_out_of_order_end_the_stream() {
    let tool = r#"{"type":"tool_use","id":"t","name":"Bash","input":{}}"#;
    let open = format!(r#"{{"type":"content_block_start","index":0,"content_block":{tool}}}"#);
    let delta = |index: u64, delta: &str| {
        event(&format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#))
    };
    let cases = [
        start() + &start(),
        event(&open),
        start() + &event(&open) + &event(&open.replace("\"index\":0", "\"index\":1")),
        start() + &event(&open) + &end("tool_use"),
        start() + &event(&open) + &delta(1, r#"{"type":"input_json_delta","partial_json":"{}"}"#),
        start() + &event(&open) + &delta(0, r#"{"type":"text_delta","text":"x"}"#),
        start() + &delta(0, r#"{"type":"text_delta","text":"x"}"#),
        start() + &block(0, tool, &[]) + &block(0, tool, &[]),
        start() + &end("end_turn") + &event(&open),
        start().replace("\"content\":[]", &format!("\"content\":[{tool}]")),
        start().replace("event: message_start", "event: message_delta"),
    ];
    for case in cases {
        assert_eq!(failure(Dialect::Messages, &case).detail(), "protocol", "{case}");
    }
    let hidden = start()
        + &block(
            0,
            r#"{"type":"text","text":""}"#,
            &[r#"{"type":"input_json_delta","partial_json":"{}"}"#],
        );
    assert!(matches!(failure(Dialect::Messages, &hidden), AnswerError::Acting { .. }));
}
