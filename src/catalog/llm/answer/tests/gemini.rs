//! Google's answers.

use super::*;

fn event(parts: &str, more: &str) -> String {
    let usage = r#""usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":4,"thoughtsTokenCount":5,"cachedContentTokenCount":3}"#;
    format!(
        "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{parts}],\"role\":\"model\"}},\"index\":0{more}}}],{usage},\"modelVersion\":\"g-1\",\"responseId\":\"r1\"}}\n\n"
    )
}

const STOP: &str = r#","finishReason":"STOP""#;
const BASH: &str =
    r#"{"functionCall":{"name":"Bash","args":{"z": 1,"a":2}},"thoughtSignature":"c2ln/+=="}"#;
const READ: &str = r#"{"functionCall":{"id":"t1","name":"Read","args":{}}}"#;

pub(super) fn parallel() -> String {
    [
        event(r#"{"text":"Hmm","thought":true}"#, ""),
        event(r#"{"text":"Look "},{"text":"😀"}"#, ""),
        event(BASH, ""),
        event(READ, STOP),
    ]
    .concat()
}

#[test]
fn calls_leave_alone_with_their_signatures_and_the_end_waits() {
    let text = event(&format!(r#"{{"text":"a"}},{BASH},{{"text":"b"}},{READ}"#), STOP);
    let left = run(Dialect::Gemini, &text, &[]);
    let names: Vec<_> =
        left.calls.iter().map(|call| (call.name.as_str(), call.id.as_str())).collect();
    assert_eq!(names, [("Bash", ""), ("Read", "t1")]);
    assert_eq!(left.calls[0].arguments, r#"{"z": 1,"a":2}"#, "as the model wrote them");
    let expected = [
        event(r#"{"text":"a"}"#, ""),
        event(BASH, ""),
        event(r#"{"text":"b"}"#, ""),
        event(READ, ""),
    ];
    assert_eq!(left.out, expected.concat());
    assert_eq!(left.end, event(r#"{"text":""}"#, STOP));
    assert_eq!((left.text.as_str(), left.assembled.stop.as_str()), ("ab", "STOP"));
    let whole = whole_run(Dialect::Gemini, text.trim().strip_prefix("data: ").unwrap(), &[]);
    assert_eq!(left.json(), Json::parse(&whole.json, &LIMITS).unwrap());
    assert_eq!((whole.model.as_deref(), whole.id.as_deref()), (Some("g-1"), Some("r1")));
    let usage = left.usage();
    assert_eq!((usage.input, usage.output, usage.cached_input, usage.reasoning), (7, 9, 3, 5));
    assert_eq!(whole.usage, Some(usage));
}

#[test]
fn denied_calls_leave_under_another_name_or_as_text_and_keep_their_signature() {
    for (decision, part) in [
        (
            Decision::Call,
            BASH.replace("Bash", DENIED_NAME).replace(r#"{"z": 1,"a":2}"#, &denial("Bash", 0)),
        ),
        (Decision::Text, r#"{"text":"Denied by rule no_shell."}"#.to_owned()),
        (Decision::With(r#"{"a":3}"#), BASH.replace(r#"{"z": 1,"a":2}"#, r#"{"a":3}"#)),
    ] {
        let text = event(BASH, "") + &event("", STOP);
        let left = run(Dialect::Gemini, &text, &[decision]);
        assert_eq!(
            (left.out.as_str(), left.end.as_str()),
            (event(&part, "").as_str(), event("", STOP).as_str())
        );
        let body = event(BASH, STOP);
        let whole =
            whole_run(Dialect::Gemini, body.trim().strip_prefix("data: ").unwrap(), &[decision]);
        assert_eq!(json_text(&whole), event(&part, STOP).trim().strip_prefix("data: ").unwrap());
    }
}

#[test]
fn what_the_gate_cannot_judge_does_not_leave() {
    let call = |members: &str| event(&format!(r#"{{"functionCall":{{{members}}}}}"#), STOP);
    for (text, what) in [
        (
            call(
                r#""name":"f","partialArgs":[{"jsonPath":"$.a","stringValue":"x"}],"willContinue":true"#,
            ),
            "partialArgs",
        ),
        (call(r#""name":"f","args":"{}""#), "args"),
        (call(r#""args":{}"#), "without a name"),
        (event(r#"{"text":"x","functionCall":{"name":"f"}}"#, STOP), "text"),
        (event(r#"{"function_call":{"name":"f"}}"#, STOP), "function_call"),
        (event(r#"{"future":{"deeper":[{"functionCall":{"name":"f"}}]}}"#, STOP), "functionCall"),
        (event(r#"{"executableCode":{"code":"1"}}"#, STOP), "executableCode"),
        (event(r#"{"toolCall":{"id":"1"}}"#, STOP), "toolCall"),
        (
            event(r#"{"text":"x"}"#, r#","groundingMetadata":{"webSearchQueries":["q"]}"#),
            "groundingMetadata",
        ),
        (event(r#"{"text":"x"}"#, STOP) + &event(r#"{"text":"y"}"#, STOP), "after its finish"),
        (event(r#"{"text":7}"#, STOP), "text"),
    ] {
        let error = failure(Dialect::Gemini, &text).to_string();
        assert!(error.contains(what), "{what}: {error}");
    }
    let two = r#"{"candidates":[{"content":{"parts":[]}},{"content":{"parts":[]},"index":1}]}"#;
    let second = r#"{"candidates":[{"content":{"parts":[]},"index":1}]}"#;
    for body in [two, second] {
        assert_eq!(failure(Dialect::Gemini, &format!("data: {body}\n\n")), AnswerError::Choices);
        let error = whole(Dialect::Gemini, body.as_bytes(), AnswerRules::default()).unwrap_err();
        assert_eq!(error, AnswerError::Choices);
    }
    let searched = event(
        r#"{"text":"x"}"#,
        r#","finishReason":"STOP","groundingMetadata":{"webSearchQueries":["q"]}"#,
    );
    assert!(read(Dialect::Gemini, &hosted(&["googleSearch"]), &[searched.as_bytes()], &[]).is_ok());
    assert!(read(Dialect::Gemini, &hosted(&["urlContext"]), &[searched.as_bytes()], &[]).is_err());
}

#[test]
fn a_request_that_was_blocked_has_an_answer_without_a_candidate() {
    let body =
        r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":7}}"#;
    let left = run(Dialect::Gemini, &format!("data: {body}\n\n"), &[]);
    assert_eq!((left.out.as_str(), left.assembled.stop.as_str()), ("", "SAFETY"));
    assert_eq!(whole_run(Dialect::Gemini, body, &[]).stop, "SAFETY");
    assert_eq!(failure(Dialect::Gemini, "data: {\"usageMetadata\":{}}\n\n"), AnswerError::Cut);
}
