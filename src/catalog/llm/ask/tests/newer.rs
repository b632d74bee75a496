//! Requests to Gemini and to Ollama: what is read of them, and what is changed.

use super::super::{HostedTools, PATH_MEMBERS, Restored, unnamed_denial};
use super::*;
use crate::domain::dialect::Place;
use crate::llm::ask::{Edits, OfferedForm, ToolPlace};

const GEMINI: &str = r#"{"model":"m","stream":true,"systemInstruction":{"parts":[{"text":"a"},{"text":"b"}]},
 "contents":[{"role":"user","parts":[{"text":"hi"}]},
 {"role":"model","parts":[{"text":"hm","thought":true},{"functionCall":{"name":"f","args":{"b":1,"a":2}},"thoughtSignature":"s=="},
  {"functionCall":{"name":"f","args":{"a":3}}},{"functionCall":{"id":"c9","name":"g"}}]},
 {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"result":1}}},
  {"functionResponse":{"id":"c9","name":"g","response":{"error":"no"}}},
  {"functionResponse":{"name":"f","response":{"result":2}}}]}],
 "tools":[{"functionDeclarations":[{"name":"f","description":"d","parameters":{"type":"OBJECT"}},{"name":"g","parameters_json_schema":{"type":"object"},"response_json_schema":{}}]}],
 "toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}},
 "generationConfig":{"temperature":1.50,"maxOutputTokens":200000,"responseModalities":["TEXT"]},"safetySettings":[]}"#;

const OLLAMA: &str = r#"{"model":"m","messages":[{"role":"system","content":"a"},{"role":"user","content":"hi"},
 {"role":"assistant","content":"","thinking":"t","tool_calls":[{"function":{"name":"f","arguments":{"b":1,"a":2}}},{"function":{"name":"g","arguments":{}}}]},
 {"role":"tool","tool_name":"g","content":"1"},{"role":"tool","content":"2"},{"role":"system","content":"later"}],
 "tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}],"options":{"num_predict":-1,"seed":1}}"#;

fn calls(ask: &Ask) -> Vec<(&str, &str)> {
    ask.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect()
}

/// The call of each result.
fn answered(ask: &Ask) -> Vec<Option<usize>> {
    ask.results.iter().map(|result| result.call).collect()
}

#[test]
fn a_request_to_gemini_is_read_with_calls_that_have_no_id() {
    let ask = ask(Dialect::Gemini, GEMINI).unwrap();
    assert_eq!((ask.model.as_str(), ask.stream, ask.messages), ("m", true, 3));
    let texts: Vec<_> = ask.instructions.iter().map(|one| (one.place, one.text.as_str())).collect();
    assert_eq!(texts, [(Place::Leading, "a"), (Place::Leading, "b")]);
    let own = [("f", r#"{"a":2,"b":1}"#), ("f", r#"{"a":3}"#), ("g", "{}")];
    assert_eq!(calls(&ask), own);
    assert_eq!(answered(&ask), [Some(0), Some(2), Some(1)]);
    let errors: Vec<_> = ask.results.iter().map(|result| result.is_error).collect();
    assert_eq!(errors, [None, Some(true), None]);
    let places: Vec<_> = ask.offered.iter().map(|tool| (tool.name.as_str(), tool.place)).collect();
    let place = |inner| ToolPlace::Tools(0, Some(inner));
    assert_eq!(places, [("f", place(0)), ("g", place(1))]);
    assert!(ask.offered.iter().all(|tool| tool.schema.get("type").is_some()), "{:?}", ask.offered);
    assert_eq!(ask.tool_choice.as_deref(), Some("f"));
    assert_eq!(ask.output_tokens, Some(("maxOutputTokens", 200_000)));
    let up = sent_up(&ask, GEMINI);
    assert_eq!(up, GEMINI.replace("200000", "128000"), "one number is another");
}

#[test]
fn a_request_to_ollama_is_read_and_streams_unless_it_says_no() {
    let ask = ask(Dialect::Ollama, OLLAMA).unwrap();
    assert!(ask.stream);
    let texts: Vec<_> = ask.instructions.iter().map(|one| (one.place, one.text.as_str())).collect();
    assert_eq!(texts, [(Place::Leading, "a"), (Place::Mid, "later")]);
    assert_eq!(calls(&ask), [("f", r#"{"a":2,"b":1}"#), ("g", "{}")]);
    assert_eq!(answered(&ask), [Some(1), Some(0)], "one result names no tool");
    assert_eq!((ask.offered[0].form.clone(), ask.output_tokens), (OfferedForm::Function, None));
    let whole = r#"{"model":"m","messages":[],"stream":false}"#;
    assert!(!super::ask(Dialect::Ollama, whole).unwrap().stream);
}

/// The bytes with the bound of the answer.
fn bounded(dialect: Dialect, member: &'static str, body: &str) -> String {
    let edits = Edits { output_tokens: Some((member, 9)), ..Edits::default() };
    String::from_utf8(upstream_body(body.as_bytes(), dialect, &edits).unwrap()).unwrap()
}

#[test]
fn the_bound_of_an_answer_stands_where_the_dialect_has_it() {
    let gemini = |body| bounded(Dialect::Gemini, "maxOutputTokens", body);
    for (body, expected) in [
        (r#"{"contents":[]}"#, r#"{"contents":[],"generationConfig":{"maxOutputTokens":9}}"#),
        (r#"{"generationConfig":null}"#, r#"{"generationConfig":{"maxOutputTokens":9}}"#),
        (r#"{"generationConfig":{ }}"#, r#"{"generationConfig":{ "maxOutputTokens":9}}"#),
        (
            r#"{"generationConfig":{"topK":1, "maxOutputTokens" : 10}}"#,
            r#"{"generationConfig":{"topK":1, "maxOutputTokens" : 9}}"#,
        ),
        (
            r#"{"generationConfig":{"maxOutputTokens":8}}"#,
            r#"{"generationConfig":{"maxOutputTokens":8}}"#,
        ),
    ] {
        assert_eq!(gemini(body), expected);
    }
    let ollama = |body| bounded(Dialect::Ollama, "num_predict", body);
    assert_eq!(ollama("{}"), r#"{"options":{"num_predict":9}}"#);
    let endless = r#"{"options":{"num_predict":-1}}"#;
    assert_eq!(ollama(endless), r#"{"options":{"num_predict":9}}"#);
}

#[test]
fn tools_are_taken_out_of_their_group_and_the_choice_goes_with_the_last() {
    let strip = AskRules { hosted_tools: HostedTools::Strip, ..AskRules::default() };
    let f = r#"{"name":"f"}"#;
    let denied = r#"{"name":"wicketgate_denied"}"#;
    let up = |tools: &str| {
        let more = format!(r#""tools":[{tools}],"toolConfig":{{}}"#);
        let body = request(Dialect::Gemini, &more);
        sent_up(&ask_by(&strip, Dialect::Gemini, &body).unwrap(), &body)
    };
    let with = |rest: &str| {
        let comma = if rest.is_empty() { "" } else { "," };
        request(Dialect::Gemini, "").strip_suffix('}').unwrap().to_owned() + comma + rest + "}"
    };
    for (tools, rest) in [
        (r#"{"googleSearch":{}}"#.to_owned(), String::new()),
        (format!(r#"{{"functionDeclarations":[{denied}]}}"#), String::new()),
        (
            format!(r#"{{"functionDeclarations":[{f},{denied}]}},{{"codeExecution":{{}}}}"#),
            format!(r#""tools":[{{"functionDeclarations":[{f}]}}],"toolConfig":{{}}"#),
        ),
    ] {
        assert_eq!(up(&tools), with(&rest), "{tools}");
    }
    let both = format!(r#""tools":[{{"functionDeclarations":[{f}],"googleSearch":{{}}}}]"#);
    let error = ask_by(&strip, Dialect::Gemini, &request(Dialect::Gemini, &both)).unwrap_err();
    assert_eq!(error.detail(), "model.hosted_tool");
}

/// The bytes with the denied call of this proposal restored.
fn restored(dialect: Dialect, body: &str) -> String {
    let one = Restored {
        id: unnamed_denial("p-1"),
        name: "f".to_owned(),
        arguments: r#"{"b": 1}"#.to_owned(),
        custom: false,
        result: "denied".to_owned(),
    };
    let edits = Edits { restore: vec![one], ..Edits::default() };
    String::from_utf8(upstream_body(body.as_bytes(), dialect, &edits).unwrap()).unwrap()
}

#[test]
fn a_denied_call_without_an_id_is_restored_with_its_result() {
    let told = r#"{"call":"p-1","message":"no","tool":"f"}"#;
    let gemini = |name: &str, args: &str, answer: &str| {
        format!(
            r#"{{"contents":[{{"role":"model","parts":[{{"functionCall":{{"name":"g","args":{{}}}}}},{{"functionCall":{{"name":"{name}","args":{args}}},"thoughtSignature":"s=="}}]}},{{"role":"user","parts":[{{"functionResponse":{{"name":"g","response":{{}}}}}},{{"functionResponse":{{"name":"{name}","response":{answer}}}}}]}}]}}"#
        )
    };
    assert_eq!(
        restored(Dialect::Gemini, &gemini("wicketgate_denied", told, r#"{"result":"no such"}"#)),
        gemini("f", r#"{"b": 1}"#, r#"{"error":"denied"}"#)
    );
    let ollama = |name: &str, args: &str, answer: &str| {
        format!(
            r#"{{"messages":[{{"role":"assistant","tool_calls":[{{"function":{{"name":"{name}","arguments":{args}}}}}]}},{{"role":"tool","tool_name":"{name}","content":"{answer}"}}]}}"#
        )
    };
    assert_eq!(
        restored(Dialect::Ollama, &ollama("wicketgate_denied", told, "no such")),
        ollama("f", r#"{"b": 1}"#, "denied")
    );
    let other = gemini("wicketgate_denied", r#"{"call":"p-2"}"#, "{}");
    assert_eq!(restored(Dialect::Gemini, &other), other);
}

#[test]
fn what_the_path_says_is_no_member_of_what_is_sent() {
    let edits = Edits { strip_members: PATH_MEMBERS.into(), ..Edits::default() };
    let sent = upstream_body(GEMINI.as_bytes(), Dialect::Gemini, &edits).unwrap();
    let sent = String::from_utf8(sent).unwrap();
    assert_eq!(sent, GEMINI.replace(r#""model":"m","stream":true,"#, ""));
}
