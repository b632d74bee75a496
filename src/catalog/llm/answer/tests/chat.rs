//! Chat completions.

use super::*;

/// A chunk with this delta.
pub(super) fn chunk(delta: &str, finish: Option<&str>) -> String {
    let finish = finish.map_or_else(|| "null".into(), |reason| format!("\"{reason}\""));
    format!(
        "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\
         \"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}]}}\n\n"
    )
}

pub(super) const USAGE: &str = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":7,\
    \"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5,\
    \"prompt_tokens_details\":{\"cached_tokens\":4},\"completion_tokens_details\":{\"reasoning_tokens\":3}}}\n\n";
pub(super) const DONE: &str = "data: [DONE]\n\n";

/// Text, then two parallel calls in pieces, then the end.
pub(super) fn parallel() -> String {
    [
        chunk(r#"{"role":"assistant","content":"","refusal":null}"#, None),
        chunk(r#"{"content":"Let me "}"#, None),
        chunk(r#"{"content":"look 😀"}"#, None),
        chunk(r#"{"tool_calls":[{"index":0,"id":"t0","type":"function","function":{"name":"bash","arguments":""}}]}"#, None),
        chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"z\":1,"}}]}"#, None),
        chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"a\":2}"}}]}"#, None),
        chunk(r#"{"tool_calls":[{"index":1,"id":"t1","type":"function","function":{"name":"read","arguments":"{}"}}]}"#, None),
        chunk("{}", Some("tool_calls")),
        USAGE.into(),
        DONE.into(),
    ]
    .concat()
}

const WHOLE: &str = r#"{"id":"c1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Let me look 😀","refusal":null,"tool_calls":[{"id":"t0","type":"function","function":{"name":"bash","arguments":"{\"z\":1,\"a\":2}"}}, {"id":"t1","type":"function","function":{"name":"read","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":3}}}"#;

#[test]
fn a_message_goes_on_behind_an_empty_finish_reason_and_has_the_names_that_are_not_empty() {
    let about = "data: {\"id\":\"\",\"object\":\"\",\"created\":0,\"model\":\"\",\"choices\":[],\
        \"prompt_filter_results\":[{\"prompt_index\":0}]}\n\n";
    let text = [
        about.to_owned(),
        chunk(r#"{"role":"assistant","content":"Let "}"#, Some("")),
        chunk(r#"{"content":"me"}"#, Some("")),
        chunk("{}", Some("stop")),
        DONE.into(),
    ]
    .concat();
    let run = run(Dialect::Chat, &text, &[]);
    assert_eq!((run.text.as_str(), run.assembled.stop.as_str()), ("Let me", "stop"));
    assert_eq!(
        (run.assembled.model.as_deref(), run.assembled.id.as_deref()),
        (Some("m"), Some("c1"))
    );
}

#[test]
fn a_call_leaves_in_one_piece_and_only_once_it_was_allowed() {
    let run = run(Dialect::Chat, &parallel(), &[]);
    assert_eq!(run.calls.len(), 2);
    assert_eq!(
        run.calls[0],
        AnsweredCall {
            index: 0,
            id: "t0".into(),
            name: "bash".into(),
            arguments: r#"{"z":1,"a":2}"#.into(),
            custom: false
        }
    );
    assert_eq!(run.text, "Let me look 😀");
    let values = run.values();
    let delta =
        |n: usize| values[n].get("choices").unwrap().as_array().unwrap()[0].get("delta").unwrap();
    assert_eq!(
        *delta(3),
        json!({"tool_calls": [{"index": 0, "id": "t0", "type": "function",
            "function": {"name": "bash", "arguments": "{\"z\":1,\"a\":2}"}}]})
    );
    // What is no call leaves byte for byte.
    assert!(parallel().starts_with(&run.out[..run.out.find("\"tool_calls\"").unwrap() - 150]));
    assert_eq!(run.end, chunk("{}", Some("tool_calls")) + USAGE + DONE);
    assert_eq!(run.json(), parse(WHOLE).unwrap());
    let usage =
        TokenUsage { input: 10, output: 5, cached_input: 4, reasoning: 3, ..TokenUsage::default() };
    assert_eq!(run.usage(), usage);
    assert_eq!(run.assembled.stop, "tool_calls");
}

#[test]
fn nothing_of_a_call_leaves_before_the_decision() {
    let mut events = Reader::new(1 << 20);
    let mut reader = stream(Dialect::Chat, AnswerRules::default());
    let mut out = String::new();
    for event in events.push(parallel().as_bytes()).unwrap() {
        match reader.event(&event) {
            Ok(steps) => {
                for step in steps {
                    if let Step::Frame { frame, .. } = step {
                        out.push_str(&frame.data);
                    }
                }
            }
            Err(error) => {
                assert_eq!(error, AnswerError::Undecided(0));
                break;
            }
        }
    }
    assert!(!out.contains("bash") && !out.contains("tool_calls"), "{out}");
    assert_eq!(reader.allow(1), Err(AnswerError::UnknownCall(1)));
    assert_eq!(reader.allow(0).unwrap().len(), 1);
    assert_eq!(reader.allow(0), Err(AnswerError::UnknownCall(0)));
    assert_eq!(reader.finish().unwrap_err(), AnswerError::Cut);
}

#[test]
fn the_denied_of_two_parallel_calls_leaves_in_its_form() {
    let first = run(Dialect::Chat, &parallel(), &[Decision::Call]);
    let calls = |json: &Json| {
        let choice = &json.get("choices").unwrap().as_array().unwrap()[0];
        choice.get("message").unwrap().get("tool_calls").unwrap().as_array().unwrap().to_vec()
    };
    let denied = json!({"id": "t0", "type": "function",
        "function": {"name": "wicketgate_denied", "arguments": denial("bash", 0)}});
    assert_eq!(calls(&first.json())[0], denied);
    assert!(!first.out.contains("\\\"z\\\":1"), "{}", first.out);
    assert_eq!(first.assembled.stop, "tool_calls");

    let text = run(Dialect::Chat, &parallel(), &[Decision::Text]);
    let left = calls(&text.json());
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].get("id"), Some(&"t1".into()));
    assert!(text.out.contains("Denied by rule no_shell."));
    // The index of the call that is left has no gap before it.
    assert!(text.out.contains(r#""index":0,"type":"function""#), "{}", text.out);
    assert!(text.end.starts_with(&chunk("{}", Some("tool_calls"))));

    let none = run(Dialect::Chat, &parallel(), &[Decision::Text, Decision::Text]);
    assert!(none.end.starts_with(&chunk("{}", Some("stop"))), "{}", none.end);
    assert_eq!(none.assembled.stop, "stop");
    assert!(!none.out.contains("tool_calls"));
    let message = none.json();
    let choice = &message.get("choices").unwrap().as_array().unwrap()[0];
    let content = choice.get("message").unwrap().get("content").unwrap().as_str().unwrap();
    let words = "Denied by rule no_shell.";
    assert_eq!(content, format!("Let me look 😀\n\n{words}\n\n{words}"));
}

#[test]
fn a_whole_answer_keeps_its_bytes_but_for_the_denials() {
    assert_eq!(json_text(&whole_run(Dialect::Chat, WHOLE, &[])), WHOLE);
    let call = whole_run(Dialect::Chat, WHOLE, &[Decision::Allow, Decision::Call]);
    let json = parse(json_text(&call)).unwrap();
    let expected = run(Dialect::Chat, &parallel(), &[Decision::Allow, Decision::Call]).json();
    assert_eq!(json, expected);
    assert!(json_text(&call).starts_with(&WHOLE[..WHOLE.find(r#"{"id":"t1""#).unwrap()]));
    for decisions in [&[Decision::Text][..], &[Decision::Text, Decision::Text]] {
        let whole = whole_run(Dialect::Chat, WHOLE, decisions);
        let streamed = run(Dialect::Chat, &parallel(), decisions);
        assert_eq!(parse(json_text(&whole)).unwrap(), streamed.json());
        assert_eq!(whole.stop, streamed.assembled.stop);
        assert_eq!(whole.usage, streamed.assembled.usage);
    }
    let masked = whole_run(Dialect::Chat, WHOLE, &[Decision::With(r#"{"z":"***"}"#)]);
    assert_eq!(json_text(&masked), WHOLE.replace(
        r#"{"id":"t0","type":"function","function":{"name":"bash","arguments":"{\"z\":1,\"a\":2}"}}"#,
        r#"{"function":{"arguments":"{\"z\":\"***\"}","name":"bash"},"id":"t0","type":"function"}"#,
    ));
    let parts = WHOLE.replace(r#""Let me look 😀""#, r#"[{"type":"text","text":"a"}]"#);
    let whole = whole_run(Dialect::Chat, &parts, &[Decision::Text]);
    assert!(
        json_text(&whole).contains(r#"[{"type":"text","text":"a"},{"text":"Denied"#),
        "{}",
        json_text(&whole)
    );
}

#[test]
fn arguments_that_were_masked_are_those_that_leave() {
    let run = run(Dialect::Chat, &parallel(), &[Decision::With(r#"{"z":"***"}"#)]);
    assert!(!run.out.contains("\\\"z\\\":1"));
    assert!(run.out.contains(r#"{\"z\":\"***\"}"#));
}

#[test]
fn the_old_function_call_and_free_text_are_calls() {
    let old = [
        chunk(
            r#"{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{"}}"#,
            None,
        ),
        chunk(r#"{"function_call":{"arguments":"}"}}"#, None),
        chunk("{}", Some("function_call")),
        DONE.into(),
    ]
    .concat();
    let allowed = run(Dialect::Chat, &old, &[]);
    assert_eq!((allowed.calls[0].name.as_str(), allowed.calls[0].arguments.as_str()), ("f", "{}"));
    assert!(allowed.out.contains(r#""delta":{"function_call":{"arguments":"{}","name":"f"}}"#));
    let none = run(Dialect::Chat, &old, &[Decision::Text]);
    assert_eq!(none.assembled.stop, "stop");
    assert!(!none.out.contains("function_call"), "{}", none.out);

    let custom = [
        chunk(r#"{"tool_calls":[{"index":0,"id":"t","type":"custom","custom":{"name":"patch","input":"a"}}]}"#, None),
        chunk(r#"{"tool_calls":[{"index":0,"custom":{"input":"b"}}]}"#, Some("tool_calls")),
        DONE.into(),
    ]
    .concat();
    let run = run(Dialect::Chat, &custom, &[]);
    assert_eq!(run.calls[0].arguments, r#"{"input":"ab"}"#);
    assert!(run.calls[0].custom);
    assert!(run.out.contains(r#""custom":{"input":"ab","name":"patch"}"#), "{}", run.out);
}

#[test]
fn an_answer_in_one_chunk_leaves_its_text_before_the_end() {
    let one = chunk(
        r#"{"role":"assistant","content":"hi","tool_calls":[{"id":"t","function":{"name":"f","arguments":"{}"}}]}"#,
        Some("tool_calls"),
    );
    let run = run(Dialect::Chat, &(one + DONE), &[Decision::Text]);
    assert_eq!(run.text, "hi");
    let left = chunk(r#"{"role":"assistant","content":"hi"}"#, None);
    assert!(run.out.contains(&left), "{}", run.out);
    assert_eq!(run.end, chunk("{}", Some("stop")) + DONE);
}

#[test]
fn usage_that_the_client_did_not_ask_for_is_swallowed() {
    let rules = AnswerRules { swallow_usage: true, ..AnswerRules::default() };
    let run = read(Dialect::Chat, &rules, &[parallel().as_bytes()], &[]).unwrap();
    assert_eq!(run.end, chunk("{}", Some("tool_calls")) + DONE);
    assert_eq!(run.usage().input, 10);
}

#[test]
fn chunks_that_two_clients_could_read_differently_end_the_stream() {
    let call = |piece: &str| chunk(&format!("{{\"tool_calls\":[{piece}]}}"), None);
    let begun = call(r#"{"index":0,"id":"a","function":{"name":"f","arguments":""}}"#);
    let cases = [
        begun.clone() + &call(r#"{"index":0,"id":"b","function":{"name":"g","arguments":""}}"#),
        begun.clone()
            + &call(r#"{"index":1,"id":"b","function":{"name":"g"}}"#)
            + &call(r#"{"index":0,"function":{"arguments":"{}"}}"#),
        begun + &chunk(r#"{"function_call":{"name":"f"}}"#, None),
        call(r#"{"index":0,"id":"a","type":"server","function":{"name":"f"}}"#),
        call(r#"{"index":0,"id":"a","type":"custom","function":{"name":"f"}}"#),
        call(r#"{"index":0,"id":"a","function":{"name":"f","arguments":{}}}"#),
        chunk("{}", Some("stop")) + &chunk(r#"{"content":"more"}"#, None),
        chunk("{}", Some("stop")) + DONE + DONE,
        call(r#"{"index":0,"id":"a","function":{"arguments":"{}"}}"#) + &chunk("{}", Some("stop")),
    ];
    for case in cases {
        let error = failure(Dialect::Chat, &case);
        assert_eq!(error.detail(), "protocol", "{case}: {error}");
    }
    let two =
        chunk("{}", None).replace("\"choices\":[", "\"choices\":[{\"index\":0,\"delta\":{}},");
    assert_eq!(failure(Dialect::Chat, &two), AnswerError::Choices);
    let second = chunk("{}", None).replace("\"index\":0", "\"index\":1");
    assert_eq!(failure(Dialect::Chat, &second), AnswerError::Choices);
}
