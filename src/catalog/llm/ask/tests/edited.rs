use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{Edits, Restored, ToolPlace};
use super::*;
use crate::llm::cursor::Cursor;

fn up(dialect: Dialect, body: &str, edits: &Edits) -> String {
    String::from_utf8(upstream_body(body.as_bytes(), dialect, edits).unwrap()).unwrap()
}

#[test]
fn each_member_is_set_where_it_stands_or_added_at_the_end() {
    let model = || Edits { model: Some("b".to_owned()), ..Edits::default() };
    let usage = || Edits { include_usage: true, ..Edits::default() };
    let store = || Edits { store_false: true, ..Edits::default() };
    let bound = || Edits { output_tokens: Some(("max_tokens", 10)), ..Edits::default() };
    for (edits, body, expected) in [
        (
            model(),
            r#" { "mod\u0065l" : "a" , "x": {"model":"a"} } "#,
            r#" { "mod\u0065l" : "b" , "x": {"model":"a"} } "#,
        ),
        (usage(), r#"{"model":"a"}"#, r#"{"model":"a","stream_options":{"include_usage":true}}"#),
        (
            usage(),
            r#"{"stream_options":null,"n":1}"#,
            r#"{"stream_options":{"include_usage":true},"n":1}"#,
        ),
        (usage(), r#"{"stream_options":{}}"#, r#"{"stream_options":{"include_usage":true}}"#),
        (
            usage(),
            r#"{"stream_options":{"include_usage":false, "a":1}}"#,
            r#"{"stream_options":{"include_usage":true, "a":1}}"#,
        ),
        (
            usage(),
            r#"{"stream_options":{"a":1}}"#,
            r#"{"stream_options":{"a":1,"include_usage":true}}"#,
        ),
        (store(), r#"{"store":true,"n":1}"#, r#"{"store":false,"n":1}"#),
        (store(), r#"{"n":[1, 2.50]}"#, r#"{"n":[1, 2.50],"store":false}"#),
        (bound(), r#"{"max_tokens":9}"#, r#"{"max_tokens":9}"#),
        (bound(), r#"{"max_tokens":11}"#, r#"{"max_tokens":10}"#),
        (bound(), r#"{"max_tokens":null}"#, r#"{"max_tokens":10}"#),
        (bound(), "{}", r#"{"max_tokens":10}"#),
    ] {
        assert_eq!(up(Dialect::Chat, body, &edits), expected);
    }
    for unchanged in [usage(), store()] {
        assert_eq!(up(Dialect::Messages, "{}", &unchanged), "{}");
    }
    let all = Edits { include_usage: true, ..bound() };
    let expected = r#"{"stream_options":{"include_usage":true},"max_tokens":10}"#;
    assert_eq!(up(Dialect::Chat, "{}", &all), expected);
}

#[test]
fn an_answer_is_bounded_by_the_rules() {
    let rules = AskRules { output_tokens_max: 10, ..AskRules::default() };
    for (dialect, given, expected) in [
        (Dialect::Chat, r#""max_tokens":11"#, r#""max_tokens":10"#),
        (Dialect::Chat, r#""max_completion_tokens":11"#, r#""max_completion_tokens":10"#),
        (Dialect::Responses, r#""max_output_tokens":11"#, r#""max_output_tokens":10"#),
        (Dialect::Responses, r#""max_output_tokens":10"#, r#""max_output_tokens":10"#),
    ] {
        let body = request(dialect, given);
        let ask = ask_by(&rules, dialect, &body).unwrap();
        assert_eq!(sent_up(&ask, &body), request(dialect, expected));
    }
}

#[test]
fn runs_of_tools_are_taken_out_with_their_commas() {
    let strip = |places: &[ToolPlace], body: &str| {
        let strip_tools: BTreeSet<ToolPlace> = places.iter().copied().collect();
        upstream_body(body.as_bytes(), Dialect::Chat, &Edits { strip_tools, ..Edits::default() })
            .map(|body| String::from_utf8(body).unwrap())
    };
    let tool = |index| ToolPlace::Tools(index, None);
    let body = r#"{"tools" : [ 1 , 2,3 ,4 ], "tool_choice":"auto", "parallel_tool_calls":true}"#;
    let rest = r#"], "tool_choice":"auto", "parallel_tool_calls":true}"#;
    for (places, expected) in [
        (vec![tool(0)], "2,3 ,4 "),
        (vec![tool(1)], "1 , 3 ,4 "),
        (vec![tool(1), tool(2)], "1 , 4 "),
        (vec![tool(3)], "1 , 2,3 "),
        (vec![tool(0), tool(2), tool(3)], "2 "),
        (vec![tool(0), tool(1), tool(3)], "3 "),
    ] {
        assert_eq!(strip(&places, body).unwrap(), format!(r#"{{"tools" : [ {expected}{rest}"#));
    }
    let all = [tool(0), tool(1), tool(2), tool(3)];
    assert_eq!(strip(&all, body).unwrap(), "{}");
    let first = body.replacen('{', r#"{"model":"m","#, 1);
    assert_eq!(strip(&all, &first).unwrap(), r#"{"model":"m"}"#);
    let last = body.replace('}', r#","model":"m"}"#);
    assert_eq!(strip(&all, &last).unwrap(), r#"{"model":"m"}"#);
    for nowhere in
        [tool(4), ToolPlace::Tools(0, Some(0)), ToolPlace::Functions(0), ToolPlace::Conversation]
    {
        assert_eq!(strip(&[nowhere], body), Err(AskError::Sent), "{nowhere:?}");
    }
    let named = r#"{"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}],"tool_choice":{"type":"function","function":{"name":"a"}}}"#;
    assert!(!strip(&[tool(0)], named).unwrap().contains("tool_choice"));
    assert!(strip(&[tool(1)], named).unwrap().contains("tool_choice"));
}

fn restored(name: &str, arguments: &str, custom: bool) -> Edits {
    let (name, arguments) = (name.to_owned(), arguments.to_owned());
    let result = "denied: \"rule\"".to_owned();
    let one = Restored { id: "c".to_owned(), name, arguments, custom, result };
    Edits { restore: vec![one], ..Edits::default() }
}

#[test]
fn a_denied_call_is_restored_with_the_words_of_the_denial() {
    let chat = r#"{"messages":[{"role":"assistant","tool_calls":[{"id":"b","function":{"name":"wicketgate_denied","arguments":"{}"}},{"id":"c","function":{"name":"wicketgate_denied","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"no such tool"}]}]}"#;
    assert_eq!(
        up(Dialect::Chat, chat, &restored("f", r#"{"a": 1}"#, false)),
        r#"{"messages":[{"role":"assistant","tool_calls":[{"id":"b","function":{"name":"wicketgate_denied","arguments":"{}"}},{"id":"c","function":{"name":"f","arguments":"{\"a\": 1}"}}]},{"role":"tool","tool_call_id":"c","content":"denied: \"rule\""}]}"#
    );
    let custom = r#"{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"wicketgate_denied","arguments":"{}"}}]}]}"#;
    assert_eq!(
        up(Dialect::Chat, custom, &restored("f", "ls", true)),
        r#"{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"custom","custom":{"name":"f","input":"ls"}}]}]}"#
    );
    let responses = r#"{"input":[{"type":"reasoning","id":"r"},{"type":"function_call","id":"i","call_id":"c","name":"wicketgate_denied","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"unsupported call"}]}"#;
    assert_eq!(
        up(Dialect::Responses, responses, &restored("ns.f", "{}", false)),
        r#"{"input":[{"type":"reasoning","id":"r"},{"type":"function_call","id":"i","call_id":"c","name":"f","arguments":"{}","namespace":"ns"},{"type":"function_call_output","call_id":"c","output":"denied: \"rule\""}]}"#
    );
    assert_eq!(
        up(Dialect::Responses, responses, &restored("f", "*** Begin", true)),
        r#"{"input":[{"type":"reasoning","id":"r"},{"type":"custom_tool_call","id":"i","call_id":"c","name":"f","input":"*** Begin"},{"type":"custom_tool_call_output","call_id":"c","output":"denied: \"rule\""}]}"#
    );
    let messages = r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"c","name":"wicketgate_denied","input":{"tool":"f"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[],"cache_control":{"type":"ephemeral"}}]}]}"#;
    assert_eq!(
        up(Dialect::Messages, messages, &restored("f", r#"{"b": 1, "a": 2}"#, false)),
        r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"c","name":"f","input":{"b": 1, "a": 2}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"denied: \"rule\"","cache_control":{"type":"ephemeral"},"is_error":true}]}]}"#
    );
    let unreadable = up(Dialect::Messages, messages, &restored("f", "{\"a\":", false));
    assert!(unreadable.contains(r#""input":{"arguments":"{\"a\":"}"#), "{unreadable}");
}

#[test]
fn what_nobody_denied_is_not_restored() {
    let edits = restored("f", "{}", false);
    for (dialect, body) in [
        (
            Dialect::Chat,
            r#"{"messages":[{"role":"assistant","content":"x","tool_calls":[{"id":"d","function":{"name":"wicketgate_denied","arguments":"{}"}}]}]}"#,
        ),
        (
            Dialect::Responses,
            r#"{"input":[{"type":"function_call","call_id":"d","name":"wicketgate_denied","arguments":"{}"},{"type":"message","role":"user","content":"x"}]}"#,
        ),
        (Dialect::Responses, r#"{"input":"x"}"#),
        (
            Dialect::Messages,
            r#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"e","name":"wicketgate_denied","input":{}}]}]}"#,
        ),
        (
            Dialect::Messages,
            r#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"d","name":"wicketgate_denied","input":{}}]}]}"#,
        ),
    ] {
        assert_eq!(up(dialect, body, &edits), body);
    }
}

/// JSON as a client may write it, with spaces.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("2.50".to_owned()),
        any::<i32>().prop_map(|n| n.to_string()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        Just(r#""\u00e9\"[{\\""#.to_owned()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            (vec(inner.clone(), 0..4), space()).prop_map(|(items, space)| {
                format!("[{space}{}{space}]", items.join(&format!("{space},")))
            }),
            (vec(inner, 0..4), space()).prop_map(|(values, space)| object(&values, &space)),
        ]
    })
}

fn space() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just(" ".to_owned()), Just("\n\t".to_owned())]
}

/// An object of these values, with names `m0`, `m1`, ….
fn object(values: &[String], space: &str) -> String {
    let members = values.iter().enumerate();
    let members = members.map(|(i, value)| format!("{space}\"m{i}\"{space}:{space}{value}{space}"));
    format!("{{{}{space}}}", members.collect::<Vec<_>>().join(","))
}

/// The text of each member of an object, as it was sent.
fn members(text: &str) -> Vec<(String, String)> {
    let whole = Cursor::whole(text.as_bytes()).unwrap();
    let members = Cursor::members(text.as_bytes(), &whole).unwrap();
    members.into_iter().map(|one| (one.name, text.get(one.value).unwrap().to_owned())).collect()
}

proptest! {
    #[test]
    fn an_edit_changes_only_what_it_is_about(
        values in vec(value(), 1..6),
        space in space(),
        at in any::<prop::sample::Index>(),
        tools in vec(value(), 1..6),
        stripped in vec(any::<bool>(), 6),
        bound in 0_u64..100,
    ) {
        let at = at.index(values.len());
        let mut all = members(&object(&values, &space));
        all.insert(at, ("model".to_owned(), "\"a\"".to_owned()));
        all.push(("tools".to_owned(), format!("[{}]", tools.join(", "))));
        let text: Vec<_> = all.iter().map(|(name, value)| format!("{space}\"{name}\":{value}")).collect();
        let body = format!("{space}{{{}{space}}}", text.join(","));
        let strip_tools: BTreeSet<_> =
            (0..tools.len()).filter(|i| stripped[*i]).map(|i| ToolPlace::Tools(i, None)).collect();
        let kept: Vec<&str> = tools.iter().enumerate().filter(|(i, _)| !stripped[*i]).map(|(_, tool)| tool.as_str()).collect();
        let edits = Edits {
            model: Some("b\"".to_owned()),
            store_false: true,
            output_tokens: Some(("max_tokens", bound)),
            strip_tools: strip_tools.clone(),
            ..Edits::default()
        };
        let edited = up(Dialect::Chat, &body, &edits);
        json(&edited);
        let mut expected = all.clone();
        expected[at].1 = r#""b\"""#.to_owned();
        if kept.is_empty() {
            expected.pop();
        } else if !strip_tools.is_empty() {
            expected.pop();
            expected.push(("tools".to_owned(), format!("[{}]", kept.join(", "))));
        }
        expected.push(("store".to_owned(), "false".to_owned()));
        expected.push(("max_tokens".to_owned(), bound.to_string()));
        prop_assert_eq!(members(&edited), expected);
        prop_assert_eq!(up(Dialect::Chat, &body, &Edits::default()), body);
    }

    #[test]
    fn bytes_that_nobody_accepted_are_no_request(bytes in vec(any::<u8>(), 0..64)) {
        let edits = Edits { store_false: true, ..restored("f", "{}", false) };
        for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Messages] {
            let _any = upstream_body(&bytes, dialect, &edits);
        }
    }

    #[test]
    fn the_walk_over_the_bytes_finds_what_the_strict_reader_reads(values in vec(value(), 0..6), space in space()) {
        let text = object(&values, &space);
        let Json::Object(read) = json(&text) else { unreachable!() };
        let walked = members(&text);
        prop_assert_eq!(walked.len(), read.len());
        for (name, value) in walked {
            prop_assert_eq!(&json(&value), &read[&name]);
        }
    }
}
