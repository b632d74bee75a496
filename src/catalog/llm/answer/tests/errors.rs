//! Errors of providers.

use super::{chat, messages, *};

#[test]
fn an_error_within_a_stream_is_the_providers() {
    let long = "é".repeat(600);
    let cases = [
        (Dialect::Chat, format!("data: {{\"error\":{{\"message\":\"{long}\"}}}}\n\n")),
        (Dialect::Chat, format!("event: error\ndata: {{\"message\":\"{long}\"}}\n\n")),
        (
            Dialect::Messages,
            format!(
                "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"overloaded_error\",\"message\":\"{long}\"}}}}\n\n"
            ),
        ),
        (
            Dialect::Responses,
            format!(
                "data: {{\"type\":\"response.failed\",\"response\":{{\"error\":{{\"code\":\"server_error\",\"message\":\"{long}\"}}}}}}\n\n"
            ),
        ),
        (Dialect::Responses, format!("data: {{\"type\":\"error\",\"message\":\"{long}\"}}\n\n")),
        (Dialect::Responses, format!("data: {{\"error\":{{\"message\":\"{long}\"}}}}\n\n")),
        (Dialect::Gemini, format!("data: {{\"error\":{{\"message\":\"{long}\"}}}}\n\n")),
        (Dialect::Ollama, format!("{{\"error\":\"{long}\"}}\n")),
    ];
    let first = [chat::chunk(r#"{"content":"hi"}"#, None), messages::start()];
    for (dialect, event) in cases {
        let start = match dialect {
            Dialect::Chat => &first[0],
            Dialect::Messages => &first[1],
            Dialect::Responses | Dialect::Gemini | Dialect::Ollama => "",
        };
        let error = failure(dialect, &(start.to_owned() + &event));
        assert_eq!(error, AnswerError::Provider { message: "é".repeat(512) }, "{event}");
    }
    for (dialect, body) in [
        (Dialect::Chat, r#"{"error":{"message":"no"}}"#),
        (Dialect::Messages, r#"{"type":"error","error":{"message":"no"}}"#),
        (Dialect::Responses, r#"{"status":"failed","error":{"message":"no"},"output":[]}"#),
        (Dialect::Gemini, r#"{"error":{"code":500,"message":"no","status":"INTERNAL"}}"#),
        (Dialect::Ollama, r#"{"error":"no"}"#),
    ] {
        let error = whole(dialect, body.as_bytes(), AnswerRules::default()).unwrap_err();
        assert_eq!(error, AnswerError::Provider { message: "no".into() });
    }
}

#[test]
fn a_reader_that_failed_goes_on_with_nothing() {
    let mut reader = stream(Dialect::Chat, AnswerRules::default());
    let event = |data: &str| sse::Event { name: None, id: None, data: data.into() };
    assert!(reader.event(&event("<html>")).is_err());
    assert_eq!(reader.event(&event("[DONE]")), Err(AnswerError::Cut));
    assert_eq!(reader.allow(0), Err(AnswerError::Cut));
    assert_eq!(reader.finish().unwrap_err(), AnswerError::Cut);
}

#[test]
fn a_whole_answer_leaves_once_every_call_was_decided() {
    let body = r#"{"content":[{"type":"tool_use","id":"t","name":"f","input":{}}],"stop_reason":"tool_use"}"#;
    let mut answer = whole(Dialect::Messages, body.as_bytes(), AnswerRules::default()).unwrap();
    assert_eq!(answer.allow(1), Err(AnswerError::UnknownCall(1)));
    assert_eq!(answer.usage(), None);
    answer.allow(0).unwrap();
    assert_eq!(answer.allow(0), Err(AnswerError::UnknownCall(0)));
    assert_eq!(answer.finish().unwrap().json, body.as_bytes());
    let answer = whole(Dialect::Messages, body.as_bytes(), AnswerRules::default()).unwrap();
    assert_eq!(answer.finish().unwrap_err(), AnswerError::Undecided(0));
    let two = r#"{"choices":[{"index":0,"message":{}},{"index":1,"message":{}}]}"#;
    let two = whole(Dialect::Chat, two.as_bytes(), AnswerRules::default());
    assert_eq!(two.unwrap_err(), AnswerError::Choices);
}

#[test]
fn a_whole_answer_without_its_call_does_not_say_that_there_is_one() {
    let chat = r#"{"choices":[{"index":0,"message":{"content":"x","tool_calls":[]},"finish_reason":"tool_calls"}]}"#;
    assert_eq!(
        json_text(&whole_run(Dialect::Chat, chat, &[])),
        chat.replace("\"tool_calls\"}", "\"stop\"}")
    );
    let message = r#"{"content":[{"type":"text","text":"x"}],"stop_reason":"tool_use"}"#;
    let left = whole_run(Dialect::Messages, message, &[]);
    assert_eq!(json_text(&left), message.replace("tool_use", "end_turn"));
    assert_eq!(left.stop, "end_turn");
}

#[test]
fn a_frame_has_a_data_line_for_each_line() {
    let frame = Frame { event: Some("a".into()), data: "{\n}".into() };
    assert_eq!(frame.encode(), b"event: a\ndata: {\ndata: }\n\n");
}
