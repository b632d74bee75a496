//! Requests in the shapes that clients send, with texts of our own.

use super::super::{DENIED_TOOL, OfferedForm, ToolPlace};
use super::*;
use crate::domain::dialect::Place;

/// Place and text of each instruction.
fn instructions(ask: &Ask) -> Vec<(Place, &str)> {
    ask.instructions.iter().map(|one| (one.place, one.text.as_str())).collect()
}

fn offered(ask: &Ask) -> Vec<&str> {
    ask.offered.iter().map(|tool| tool.name.as_str()).collect()
}

fn calls(ask: &Ask) -> Vec<(&str, &str, &str)> {
    let calls = ask.calls.iter();
    calls.map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect()
}

fn results(ask: &Ask) -> Vec<(&str, Option<bool>)> {
    ask.results.iter().map(|result| (result.id.as_str(), result.is_error)).collect()
}

/// openai-python, as its users write it, with an answer sent back as it was.
const OPENAI: &str = r#"{
  "messages": [
    {"role": "system", "content": "be brief"},
    {"role": "developer", "content": [{"type": "text", "text": "no jokes"}, {"type": "text", "text": "no puns"}]},
    {"role": "user", "content": [{"type": "text", "text": "what is it?"}]},
    {"content": null, "refusal": null, "role": "assistant", "annotations": [], "audio": null, "function_call": null,
     "tool_calls": [{"id": "call_1", "function": {"arguments": "{\"q\": 1}", "name": "search"}, "type": "function"},
                    {"id": "call_2", "type": "custom", "custom": {"name": "run", "input": "ls"}}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "found"},
    {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "none"}]},
    {"role": "system", "content": "answer now"}
  ],
  "model": "gpt-x", "stream": true, "temperature": 0.2, "max_completion_tokens": 100, "tool_choice": "auto",
  "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "properties": {"reasoning": {}, "answer": {}}}}},
  "tools": [{"type": "function", "function": {"name": "search", "description": "finds", "parameters": {"type": "object"}, "strict": true}},
            {"type": "custom", "custom": {"name": "run", "format": {"type": "text"}}}]
}"#;

#[test]
fn a_request_of_openai_python_is_read() {
    let ask = ask(Dialect::Chat, OPENAI).unwrap();
    assert_eq!((ask.model.as_str(), ask.stream, ask.wants_usage), ("gpt-x", true, false));
    assert_eq!(
        instructions(&ask),
        [
            (Place::Leading, "be brief"),
            (Place::Leading, "no jokes"),
            (Place::Leading, "no puns"),
            (Place::Mid, "answer now"),
        ]
    );
    assert_eq!(offered(&ask), ["search", "run"]);
    assert_eq!(ask.offered[0].description.as_deref(), Some("finds"));
    assert_eq!(ask.offered[0].schema, json(r#"{"type":"object"}"#));
    assert_eq!(ask.offered[1].form, OfferedForm::Custom);
    assert_eq!(ask.tool_choice.as_deref(), Some("auto"));
    assert_eq!(ask.output_tokens, Some(("max_completion_tokens", 100)));
    assert_eq!(
        calls(&ask),
        [("call_1", "search", r#"{"q": 1}"#), ("call_2", "run", r#"{"input":"ls"}"#)]
    );
    assert_eq!(results(&ask), [("call_1", None), ("call_2", None)]);
    let places: Vec<usize> = ask.results.iter().map(|result| result.message).collect();
    assert_eq!((ask.messages, places), (7, vec![4, 5]));
    let up = sent_up(&ask, OPENAI);
    assert!(up.contains(r#""properties": {"reasoning": {}, "answer": {}}"#), "{up}");
    // Its usage is asked for where it is sent: a request that was read already is read once more.
    assert_eq!(up, OPENAI);
}

#[test]
fn functions_of_old_requests_are_tools() {
    let body = r#"{"model":"m","messages":[{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},
        {"role":"function","name":"f","content":"1"}],"functions":[{"name":"f","parameters":{}},{"name":"wicketgate_denied"}],"function_call":{"name":"f"}}"#;
    let ask = ask(Dialect::Chat, body).unwrap();
    assert_eq!((offered(&ask), ask.tool_choice.as_deref()), (vec!["f"], Some("f")));
    assert_eq!(ask.offered[0].place, ToolPlace::Functions(0));
    assert_eq!((calls(&ask), results(&ask)), (vec![("", "f", "{}")], vec![("f", None)]));
    assert!(!sent_up(&ask, body).contains(DENIED_TOOL));
}

/// The shape of Claude Code 2.1.330: three blocks of the system, one message of it in the middle.
const CLAUDE_CODE: &str = r##"{"model":"claude-x","messages":[
 {"role":"user","content":[{"type":"text","text":"<system-reminder>\nr\n</system-reminder>"},{"type":"text","text":"say hi"}]},
 {"role":"system","content":"# Environment\nlinux","output_config":{"effort":"medium"}},
 {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"tool_use","id":"t1","name":"ToolSearch","input":{"query":"select:WebFetch","max_results":5}}]},
 {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"tool_reference","tool_name":"WebFetch"}]},{"type":"text","text":"Tool loaded."}]},
 {"role":"assistant","content":[{"type":"tool_use","id":"t2","name":"Bash","input":{"command":"echo hi"}}]},
 {"role":"user","content":[{"tool_use_id":"t2","type":"tool_result","content":"hi","is_error":false,"cache_control":{"type":"ephemeral"}}]}],
 "system":[{"type":"text","text":"x-billing: cc_version=1.2.3.abc"},{"type":"text","text":"You are a program.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"\nYou are an agent.","cache_control":{"type":"ephemeral"}}],
 "tools":[{"name":"Bash","description":"runs","input_schema":{"type":"object"}},{"name":"WebFetch","description":"fetches","input_schema":{},"defer_loading":true},{"name":"mcp__gov__llm_chat","description":"asks","input_schema":{}}],
 "metadata":{"user_id":"{}"},"max_tokens":128000,"thinking":{"type":"adaptive","display":"omitted"},
 "context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"output_config":{"effort":"medium"},"stream":true}"##;

#[test]
fn a_request_of_claude_code_is_read() {
    let ask = ask(Dialect::Messages, CLAUDE_CODE).unwrap();
    assert_eq!(
        instructions(&ask),
        [
            (Place::Leading, "x-billing: cc_version=1.2.3.abc"),
            (Place::Leading, "You are a program."),
            (Place::Leading, "\nYou are an agent."),
            (Place::Mid, "# Environment\nlinux"),
        ]
    );
    assert_eq!(offered(&ask), ["Bash", "WebFetch", "mcp__gov__llm_chat"]);
    assert_eq!(calls(&ask)[1], ("t2", "Bash", r#"{"command":"echo hi"}"#));
    assert_eq!(results(&ask), [("t1", None), ("t2", Some(false))]);
    assert!(ask.stream && ask.wants_usage);
    assert_eq!(ask.output_tokens, Some(("max_tokens", 128_000)));
    assert_eq!(sent_up(&ask, CLAUDE_CODE), CLAUDE_CODE);
}

#[test]
fn what_instructs_a_summary_or_stands_before_the_first_message_is_instruction() {
    let body = r#"{"model":"m","max_tokens":1,"system":"a","messages":[{"role":"system","content":[{"type":"text","text":"b"},{"type":"tool_removal","tool":{"type":"tool_reference","name":"f"}}]},
        {"role":"user","content":"x"},{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"late","description":"d","input_schema":{}}}}]}],
        "compaction":{"type":"summarize","instructions":"c"},"context_management":{"edits":[{"type":"compact_20260112","instructions":"d"}]}}"#;
    let read = ask(Dialect::Messages, body).unwrap();
    assert_eq!(
        instructions(&read),
        [(Place::Leading, "a"), (Place::Leading, "b"), (Place::Mid, "c"), (Place::Mid, "d")]
    );
    assert_eq!((offered(&read), read.offered[0].place), (vec!["late"], ToolPlace::Conversation));
    let denied = body.replace("late", DENIED_TOOL);
    assert_eq!(ask(Dialect::Messages, &denied).unwrap_err().detail(), "model.argument");
}

/// The shape of Codex 0.169.0: instructions as items of a developer, tools in namespaces.
const CODEX: &str = r#"{"model":"gpt-x","stream":true,"input":[
 {"type":"message","id":"m1","role":"developer","content":[{"type":"input_text","text":"You are a coding agent."}]},
 {"type":"message","id":"m2","role":"developer","content":[{"type":"input_text","text":"<skills>"},{"type":"input_text","text":"<permissions>"}]},
 {"type":"message","id":"m3","role":"user","content":[{"type":"input_text","text":"<environment_context>"}]},
 {"type":"message","id":"m4","role":"user","content":[{"type":"input_text","text":"say hi"}]},
 {"type":"reasoning","id":"rs","summary":[],"content":null,"encrypted_content":"c2ln"},
 {"type":"function_call","status":"completed","id":"fc","name":"exec_command","arguments":"{\"cmd\":\"echo hi\"}","call_id":"c1"},
 {"type":"function_call_output","id":"fo","call_id":"c1","output":"hi"},
 {"type":"function_call","id":"fd","name":"llm_chat","namespace":"mcp__gov","arguments":"{}","call_id":"c2"},
 {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"hi"}]},
 {"type":"custom_tool_call","id":"ct","call_id":"c3","name":"apply_patch","input":"*** Begin"},
 {"type":"custom_tool_call_output","call_id":"c3","output":"done"},
 {"type":"local_shell_call","id":"ls","call_id":"c4","status":"completed","action":{"type":"exec","env":{},"command":["ls"]}},
 {"type":"local_shell_call_output","id":"c4","output":"a"},
 {"type":"message","role":"assistant","id":"m5","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[]}]}],
 "tools":[{"type":"function","name":"exec_command","description":"runs","strict":false,"parameters":{"type":"object"}},
  {"type":"namespace","name":"mcp__gov","description":"the gate","tools":[{"type":"function","name":"llm_chat","description":"asks","strict":false,"parameters":{}},{"type":"function","name":"wicketgate_denied","parameters":{}}]},
  {"type":"custom","name":"apply_patch","description":"edits","format":{"type":"grammar","syntax":"lark","definition":"start"}},
  {"type":"local_shell"},{"type":"web_search","external_web_access":false}],
 "tool_choice":"auto","parallel_tool_calls":true,"reasoning":{"summary":"auto"},"store":false,"include":["reasoning.encrypted_content"],
 "prompt_cache_key":"k","client_metadata":{"session_id":"s"}}"#;

#[test]
fn a_request_of_codex_is_read_once_its_web_search_is_stripped() {
    assert_eq!(ask(Dialect::Responses, CODEX).unwrap_err().detail(), "model.hosted_tool");
    let hosted_tools = super::super::HostedTools::Strip;
    let strip = AskRules { hosted_tools, ..AskRules::default() };
    let ask = ask_by(&strip, Dialect::Responses, CODEX).unwrap();
    assert_eq!(
        instructions(&ask),
        [
            (Place::Leading, "You are a coding agent."),
            (Place::Leading, "<skills>"),
            (Place::Leading, "<permissions>"),
        ]
    );
    let names = ["exec_command", "mcp__gov.llm_chat", "apply_patch", "local_shell"];
    assert_eq!(offered(&ask), names);
    assert_eq!(ask.offered[1].place, ToolPlace::Tools(1, Some(0)));
    assert_eq!(ask.offered[3].form, OfferedForm::Native("local_shell".to_owned()));
    assert_eq!(
        calls(&ask),
        [
            ("c1", "exec_command", r#"{"cmd":"echo hi"}"#),
            ("c2", "mcp__gov.llm_chat", "{}"),
            ("c3", "apply_patch", r##"{"input":"*** Begin"}"##),
            ("c4", "local_shell", r#"{"command":["ls"],"env":{},"type":"exec"}"#),
        ]
    );
    let ids = ask.results.iter().map(|result| result.id.as_str());
    assert_eq!(ids.collect::<Vec<_>>(), ["c1", "c2", "c3", "c4"]);
    let stripped = CODEX
        .replace(r#",{"type":"function","name":"wicketgate_denied","parameters":{}}"#, "")
        .replace(r#",{"type":"web_search","external_web_access":false}"#, "");
    assert_eq!(sent_up(&ask, CODEX), stripped);
}

#[test]
fn instructions_of_a_responses_request_come_before_its_items() {
    let body = r#"{"model":"m","instructions":"a","input":[{"role":"system","content":"b"},{"role":"user","content":"x"},{"role":"developer","content":"c"}]}"#;
    let ask = ask(Dialect::Responses, body).unwrap();
    let expected = [(Place::Leading, "a"), (Place::Leading, "b"), (Place::Mid, "c")];
    assert_eq!(instructions(&ask), expected);
}

#[test]
fn requests_of_opencode_and_of_the_vercel_sdk_are_read() {
    for (dialect, body) in [
        (
            Dialect::Messages,
            r#"{"model":"m1","max_tokens":32000,"system":[{"type":"text","text":"You are a program.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"bash","input":{"command":"echo hi"},"cache_control":{"type":"ephemeral"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"hi\n","cache_control":{"type":"ephemeral"}}]}],"tools":[{"name":"bash","description":"runs","input_schema":{"type":"object"}}],"tool_choice":{"type":"auto"},"stream":true}"#,
        ),
        (
            Dialect::Chat,
            r#"{"model":"m1","max_tokens":32000,"messages":[{"role":"system","content":"You are a program."},{"role":"user","content":"hi"},{"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":"{\"command\":\"echo hi\"}"}}]},{"role":"tool","tool_call_id":"c","content":"hi\n"}],"tools":[{"type":"function","function":{"name":"bash","description":"runs","parameters":{"type":"object"}}}],"tool_choice":"auto","stream":true,"stream_options":{"include_usage":true}}"#,
        ),
        (
            Dialect::Responses,
            r#"{"model":"m1","input":[{"role":"developer","content":"You are a program."},{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"role":"assistant","content":[{"type":"output_text","text":"."}],"id":"msg_1"},{"type":"function_call","call_id":"c","name":"bash","arguments":"{\"command\":\"echo hi\"}","id":"fc_1"},{"type":"function_call_output","call_id":"c","output":"hi\n"}],"text":{"format":{"type":"json_schema","strict":true,"name":"a","schema":{}}},"tools":[{"type":"function","name":"bash","description":"runs","parameters":{"type":"object"},"strict":false}],"tool_choice":"auto","stream":true}"#,
        ),
    ] {
        let ask = ask(dialect, body).unwrap();
        assert_eq!(instructions(&ask), [(Place::Leading, "You are a program.")], "{body}");
        assert_eq!(calls(&ask), [("c", "bash", r#"{"command":"echo hi"}"#)]);
        assert_eq!((results(&ask)[0].0, offered(&ask)), ("c", vec!["bash"]));
        assert_eq!((ask.tool_choice.as_deref(), ask.wants_usage), (Some("auto"), true));
        assert_eq!(sent_up(&ask, body), body);
    }
}

#[test]
fn a_request_that_was_edited_needs_no_further_edit() {
    let hosted_tools = super::super::HostedTools::Strip;
    let rules = AskRules { hosted_tools, output_tokens_max: 64, ..AskRules::default() };
    for (dialect, body) in
        [(Dialect::Chat, OPENAI), (Dialect::Messages, CLAUDE_CODE), (Dialect::Responses, CODEX)]
    {
        let once = ask_by(&rules, dialect, body).unwrap();
        let sent = sent_up(&once, body);
        let again = ask_by(&rules, dialect, &sent).unwrap();
        assert_eq!(again.edits, super::super::Edits::default(), "{sent}");
        assert_eq!((&again.calls, &again.instructions), (&once.calls, &once.instructions));
    }
}
