use proptest::prelude::*;

use super::*;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), &Limits::FILE).unwrap()
}

fn ask(args: &str) -> Result<ModelQuestion, ModelQuestionError> {
    ModelQuestion::read(&json(args), args.as_bytes())
}

fn refused(args: &str) -> &'static str {
    ask(args).unwrap_err().detail()
}

fn text(body: Vec<u8>) -> String {
    String::from_utf8(body).unwrap()
}

#[test]
fn a_tool_that_the_provider_would_run_is_refused_whatever_it_is_called() {
    for tool in [
        r#"{"type":"web_search"}"#,
        r#"{"type":"web_search_preview","function":{"name":"f"}}"#,
        r#"{"type":"code_interpreter","container":{"type":"auto"}}"#,
        r#"{"type":"mcp","server_url":"https://evil.test/"}"#,
        r#"{"type":"Function","function":{"name":"f"}}"#,
        r#"{"function":{"name":"f"}}"#,
    ] {
        let args = format!(r#"{{"model":"m","messages":[],"tools":[{tool}]}}"#);
        assert_eq!(refused(&args), "model.hosted_tool", "{tool}");
    }
    for more in [r#""web_search_options":{}"#, r#""plugins":[]"#, r#""extra_body":{}"#] {
        let args = format!(r#"{{"model":"m","messages":[],{more}}}"#);
        assert_eq!(refused(&args), "model.argument", "{more}");
    }
    let more = r#"[{"type":"function","function":{"name":"f"},"server_url":"https://evil.test"}]"#;
    assert_eq!(
        refused(&format!(r#"{{"model":"m","messages":[],"tools":{more}}}"#)),
        "model.argument"
    );
}

#[test]
fn a_conversation_with_unknown_or_malformed_members_is_refused() {
    let call = r#"{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}"#;
    for wrong in [
        "{}".to_owned(),
        "null".to_owned(),
        r#"[{"role":"user","content":"x","cache":true}]"#.to_owned(),
        r#"[{"role":"user","content":{"type":"text","text":"x"}}]"#.to_owned(),
        r#"[["user","x"]]"#.to_owned(),
        r#"[{"role":"robot","content":"x"}]"#.to_owned(),
        r#"[{"role":"assistant","tool_calls":{"id":"c"}}]"#.to_owned(),
        r#"[{"role":"assistant","tool_calls":"c"}]"#.to_owned(),
        r#"[{"role":"user","name":7,"content":"x"}]"#.to_owned(),
        r#"[{"role":"tool","tool_call_id":["c"],"content":"x"}]"#.to_owned(),
        format!(r#"[{{"role":"assistant","tool_calls":[{}]}}]"#, call.replace("\"id\"", "\"x\":1,\"id\"")),
        format!(r#"[{{"role":"assistant","tool_calls":[{}]}}]"#, call.replace("\"name\"", "\"x\":1,\"name\"")),
        r#"[{"role":"user","content":[{"type":"text","text":"x","y":1}]}]"#.to_owned(),
        r#"[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA","detail":null}}]}]"#.to_owned(),
    ] {
        assert_eq!(refused(&format!(r#"{{"model":"m","messages":{wrong}}}"#)), "model.argument", "{wrong}");
    }
    assert_eq!(refused(r#"{"model":"m"}"#), "model.argument");
    assert!(
        ask(&format!(
            r#"{{"model":"m","messages":[{{"role":"assistant","tool_calls":[{call}]}}]}}"#
        ))
        .is_ok()
    );
}

#[test]
fn an_image_that_the_provider_would_fetch_is_refused_and_one_in_the_message_is_not() {
    let with = |url: &str| {
        format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"{url}"}}}}]}}]}}"#
        )
    };
    for url in [
        "https://evil.test/a.png",
        "http://169.254.169.254/",
        "file:///etc/passwd",
        "data:text/html,x",
    ] {
        assert_eq!(refused(&with(url)), "model.remote_content", "{url}");
    }
    let ask = ask(&with("data:image/png;base64,AAAA")).unwrap();
    let sent = text(ollama::body(&ask, "m", 1).unwrap());
    assert!(sent.contains(r#""images":["AAAA"]"#), "{sent}");
    let file = r#"{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}"#;
    assert_eq!(refused(file), "model.content");
}

#[test]
fn a_conversation_with_functions_is_translated_for_openai_and_ollama_servers() {
    let ask = ask(
        r#"{"model":"m","messages":[
            {"role":"developer","content":"be brief"},
            {"role":"user","content":"sum"},
            {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\":1}"}}]},
            {"role":"tool","tool_call_id":"c1","name":"add","content":"3"}],
            "tools":[{"type":"function","function":{"name":"add","parameters":{"type":"object"}}}],
            "temperature":0.5,"stop":["x"],"response_format":{"type":"json_object"}}"#,
    )
    .unwrap();
    assert_eq!(ask.functions(), ["add"]);
    let open = text(openai::body(&ask, "real", ("max_tokens", 7)));
    let newer = text(openai::body(&ask, "real", ("max_completion_tokens", 7)));
    assert!(newer.contains(r#""max_completion_tokens":7"#) && !newer.contains(r#""max_tokens""#));
    for part in [
        r#""model":"real""#,
        r#""max_tokens":7"#,
        r#""stream":false"#,
        r#""tool_call_id":"c1""#,
        r#""arguments":"{\"a\":1}""#,
        r#""role":"developer""#,
        r#""temperature":0.5"#,
        r#""response_format":{"type":"json_object"}"#,
    ] {
        assert!(open.contains(part), "{part}: {open}");
    }
    let own = text(ollama::body(&ask, "real", 7).unwrap());
    for part in [
        r#""num_predict":7"#,
        r#""arguments":{"a":1}"#,
        r#""role":"system""#,
        r#""tool_name":"add""#,
        r#""format":"json""#,
        r#""stop":["x"]"#,
    ] {
        assert!(own.contains(part), "{part}: {own}");
    }
}

#[test]
fn a_request_that_ollama_cannot_express_is_not_sent() {
    for wrong in [
        r#"{"model":"m","messages":[{"role":"user","content":"x"}],"tool_choice":"required"}"#,
        r#"{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1,\"a\":2}"}}]}]}"#,
    ] {
        let ask = ask(wrong).unwrap();
        assert_eq!(ollama::body(&ask, "real", 7), None, "{wrong}");
        let open = text(openai::body(&ask, "real", ("max_tokens", 7)));
        assert!(open.contains("required") || open.contains(r#"\"a\":2"#), "{open}");
    }
}

#[test]
fn an_image_keeps_its_detail_and_counts_for_what_it_may_cost() {
    let of = |detail: &str| {
        format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":[{{"type":"text","text":"what?"}},
                {{"type":"image_url","image_url":{{"url":"data:image/png;base64,AAAA"{detail}}}}}]}}]}}"#
        )
    };
    for (detail, sent) in [
        ("", "}"),
        (r#","detail":"low""#, r#""detail":"low""#),
        (r#","detail":"high""#, r#""detail":"high""#),
    ] {
        let args = of(detail);
        let body = text(openai::body(&ask(&args).unwrap(), "real", ("max_tokens", 7)));
        assert!(body.contains(sent), "{body}");
        assert_eq!(Size::of(&json(&args)).images(), 1);
    }
    assert_eq!(ask(&of(r#","detail":"finest""#)).unwrap_err().detail(), "model.argument");
    assert_eq!(Size::of(&json(r#"{"messages":[{"content":"x"}]}"#)).images(), 0);
}

#[test]
fn an_answer_with_a_tool_of_the_providers_own_is_no_answer() {
    let with = |call: &str| {
        json(&format!(
            r#"{{"model":"m","choices":[{{"finish_reason":"tool_calls","message":{{"content":null,"tool_calls":[{call}]}}}}]}}"#
        ))
    };
    let function_call = r#"{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}"#;
    assert_eq!(openai::read_answer(&with(function_call)).unwrap().tool_calls.len(), 1);
    assert!(openai::read_answer(&with(r#"{"id":"1","type":"web_search_call"}"#)).is_err());
    assert!(openai::read_answer(&json(r#"{"choices":[]}"#)).is_err());
    let ollama = |text: &str| ollama::read_answer(&json(text), text.as_bytes());
    assert!(ollama(r#"{"done":true}"#).is_err());
    assert!(ollama(r#"{"message":["text"]}"#).is_err());
    assert!(openai::read_answer(&json(r#"{"choices":[[{"content":"text"}]]}"#)).is_err());
    let answer = ollama(
        r#"{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"b":2,"a":1}}}]},"done_reason":"stop","prompt_eval_count":5,"eval_count":2}"#,
    )
    .unwrap();
    assert_eq!(answer.tokens, Some((5, 2)));
    let call = canonical::text(&answer.tool_calls[0]);
    assert!(call.contains(r#""arguments":"{\"b\":2,\"a\":1}""#), "{call}");
}

#[test]
fn a_fraction_of_a_millionth_is_a_millionth() {
    let dear = price(250_000, 2_000_000);
    assert_eq!(cost(dear, 1, 0), 1);
    assert_eq!(cost(dear, 1_000_000, 500_000), 1_250_000);
    assert_eq!(cost(dear, u64::MAX, u64::MAX), u64::MAX);
    assert_eq!(cost(price(0, 0), 5, 5), 0);
}

/// JSON with its members in random order.
fn shuffled() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("true".to_owned()),
        (0_u32..99_999).prop_map(|n| n.to_string()),
        Just("1.50".to_owned()),
        "[a-z\u{e9}]{0,5}".prop_map(|text| format!("\"{text}\"")),
        Just("\"\\u0061\\/b\"".to_owned()),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..4);
        let list = list.prop_map(|items| format!("[{}]", items.join(" , ")));
        let object = proptest::collection::btree_map("[a-zA-Z_]{1,6}", inner, 0..6);
        let object = object.prop_map(|members| {
            members
                .into_iter()
                .map(|(name, value)| format!("\"{name}\": {value}"))
                .collect::<Vec<_>>()
        });
        let object =
            object.prop_shuffle().prop_map(|members| format!("{{{}}}", members.join(", ")));
        prop_oneof![list, object.clone(), object]
    })
}

proptest! {
    #[test]
    fn what_a_model_follows_reaches_it_as_the_agent_sent_it(
        schema in shuffled().prop_filter("an object", |text| text.starts_with('{')),
        parameters in shuffled().prop_filter("an object", |text| text.starts_with('{')),
        temperature in prop_oneof![Just("0.70"), Just("1"), Just("1.0e0")],
        content in "[a-z\u{e9}]{0,5}",
    ) {
        let messages = format!(
            r#"[{{"content":"\u0061{content}\/", "role":"user"}} ,{{"tool_calls":[{{"function":{{"name":"f",
                "arguments":"{{\"b\":1,\"a\":2}}"}},"type":"function","id":"c"}}],"role":"assistant","content":null}},
                {{"role":"user","content":[{{"text":"{content}","type":"text"}}]}}]"#
        );
        let function = format!(r#"{{"strict":true, "parameters":{parameters},"name":"f"}}"#);
        let format = format!(r#"{{"json_schema":{{"strict":true,"schema":{schema},"name":"n"}} ,"type":"json_schema"}}"#);
        let args = format!(
            r#"{{"tools":[{{"function":{function},"type":"function"}}],"response_format":{format},"model":"m",
                "temperature":{temperature},"messages":{messages}}}"#
        );
        // The strict parser refuses names that differ only in their spelling before this code runs.
        prop_assume!(Json::parse(args.as_bytes(), &Limits::ARGUMENTS).is_ok());
        let ask = ask(&args).unwrap();
        let open = text(openai::body(&ask, "real", ("max_tokens", 7)));
        let own = text(ollama::body(&ask, "real", 7).unwrap());
        prop_assert!(open.contains(&format!(r#""response_format":{format}"#)), "{}", open);
        prop_assert!(open.contains(&format!(r#""messages":{messages}"#)), "{}", open);
        prop_assert!(own.contains(r#""arguments":{"b":1,"a":2}"#), "{}", own);
        prop_assert!(own.contains(&format!(r#""format":{schema}"#)), "{}", own);
        for sent in [&open, &own] {
            let tools = format!(r#""tools":[{{"type":"function","function":{function}}}]"#);
            let (tools, warm) = (sent.contains(&tools), format!(r#""temperature":{temperature}"#));
            prop_assert!(tools && sent.contains(&warm), "{}", sent);
            prop_assert!(Json::parse(sent.as_bytes(), &Limits::FILE).is_ok());
        }
    }
}

fn price(input: u64, output: u64) -> Price {
    Price { input, output, cached_input: None, cache_write: None, cache_write_1h: None }
}
