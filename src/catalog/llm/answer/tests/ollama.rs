//! Ollama's answers.

use super::*;

fn line(message: &str, more: &str) -> String {
    format!(
        "{{\"model\":\"o\",\"created_at\":\"t\",\"message\":{{\"role\":\"assistant\",{message}}},{more}}}\n"
    )
}

const ON: &str = r#""done":false"#;
const DONE: &str = r#""done":true,"done_reason":"stop","prompt_eval_count":7,"eval_count":4"#;
const BASH: &str = r#"{"function":{"name":"Bash","arguments":{"z": 1,"a":2}}}"#;
const READ: &str = r#"{"id":"t1","function":{"index":1,"name":"Read","arguments":{}}}"#;

pub(super) fn parallel() -> String {
    [
        line(r#""content":"","thinking":"Hmm""#, ON),
        line(r#""content":"Look ""#, ON),
        line(r#""content":"😀""#, ON),
        line(&format!(r#""content":"","tool_calls":[{BASH},{READ}]"#), ON),
        line(r#""content":"""#, DONE),
    ]
    .concat()
}

#[test]
fn calls_leave_in_lines_of_their_own_and_the_last_line_waits() {
    let text = line(&format!(r#""content":"a","tool_calls":[{BASH},{READ}]"#), DONE);
    let left = run(Dialect::Ollama, &text, &[]);
    let going = r#""done":false,"prompt_eval_count":7,"eval_count":4"#;
    let expected = [
        line(r#""content":"a""#, going),
        line(&format!(r#""content":"","tool_calls":[{BASH}]"#), going),
        line(&format!(r#""content":"","tool_calls":[{READ}]"#), going),
    ];
    assert_eq!(left.out, expected.concat());
    assert_eq!(left.end, line(r#""content":"""#, DONE));
    assert_eq!(left.calls[0].arguments, r#"{"z": 1,"a":2}"#, "as the model wrote them");
    assert_eq!((left.calls[0].id.as_str(), left.calls[1].id.as_str()), ("", "t1"));
    let whole = whole_run(Dialect::Ollama, text.trim(), &[]);
    assert_eq!(left.json(), Json::parse(&whole.json, &LIMITS).unwrap());
    assert_eq!((left.usage().input, left.usage().output), (7, 4));
    assert_eq!((whole.usage, whole.model.as_deref()), (Some(left.usage()), Some("o")));
    assert_eq!((whole.stop.as_str(), left.assembled.stop.as_str()), ("stop", "stop"));
}

#[test]
fn denied_calls_leave_under_another_name_or_as_text() {
    for (decision, message) in [
        (
            Decision::Call,
            format!(
                r#""content":"","tool_calls":[{{"function":{{"name":"{DENIED_NAME}","arguments":{}}}}}]"#,
                denial("Bash", 0)
            ),
        ),
        (Decision::Text, r#""content":"Denied by rule no_shell.""#.to_owned()),
    ] {
        let call = format!(r#""content":"","tool_calls":[{BASH}]"#);
        let text = line(&call, ON) + &line(r#""content":"""#, DONE);
        let left = run(Dialect::Ollama, &text, &[decision]);
        assert_eq!(left.out, line(&message, ON));
        let whole = whole_run(Dialect::Ollama, line(&call, DONE).trim(), &[decision]);
        assert_eq!(json_text(&whole), line(&message, DONE).trim());
    }
}

#[test]
fn what_the_gate_cannot_judge_does_not_leave() {
    for (text, what) in [
        (line(r#""tool_calls":[{"function":{"name":"f","arguments":"{}"}}]"#, DONE), "arguments"),
        (line(r#""tool_calls":[{"function":{"arguments":{}}}]"#, DONE), "without a name"),
        (line(r#""tool_calls":[{"function":{"name":"f"},"command":"x"}]"#, DONE), "command"),
        (line(r#""content":["x"]"#, DONE), "content"),
        (line(r#""function_call":{"name":"f"}"#, DONE), "function_call"),
        (line(r#""content":"x""#, r#""done":true,"tool_calls":[1]"#), "tool_calls"),
        ("{\"done\":true}\n".to_owned(), "message"),
    ] {
        let error = failure(Dialect::Ollama, &text).to_string();
        assert!(error.contains(what), "{what}: {error}");
    }
}
