use super::super::{BETAS_DENIED, HostedTools, betas};
use super::*;

const ALL: &[Dialect] = Dialect::ALL;

/// Requests, one a line: the dialect, what the line holds (`whole` request, further `members`, a
/// `tool`, `item`s of the conversation, a `part` of a user's message), what the error names, and the
/// text.
fn lines(table: &'static str) -> impl Iterator<Item = (Dialect, String, &'static str)> {
    table.lines().filter(|line| !line.is_empty()).map(|line| {
        let mut words = line.splitn(4, ' ');
        let dialect = Dialect::parse(words.next().unwrap()).expect(line);
        let (form, named, text) =
            (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        let body = match form {
            "whole" => text.to_owned(),
            "members" => request(dialect, text),
            "tool" => request(dialect, &format!(r#""tools":[{text}]"#)),
            "items" => conversation(dialect, text),
            "part" => part(dialect, text),
            other => panic!("{other}: {line}"),
        };
        (dialect, body, named)
    })
}

/// Each request is refused with the detail, and the message names the member.
fn refused(detail: &str, table: &'static str) {
    for (dialect, body, named) in lines(table) {
        let error = ask(dialect, &body).expect_err(&body);
        assert_eq!(error.detail(), detail, "{body}: {error}");
        assert!(error.to_string().contains(named), "{named} is not in: {error}");
    }
}

const WRONG: &str = r#"
chat items messages[0].tools {"role":"user","content":"x","tools":[]}
chat items content[0].url {"role":"user","content":[{"type":"text","text":"x","url":"u"}]}
chat items messages[0].role {"role":"root","content":"x"}
chat items messages[0].role {"content":"x"}
chat items messages[0].content {"role":"user","content":7}
chat items messages[0] "x"
chat items messages[0].tool_call_id {"role":"tool","content":"x"}
chat items tool_calls[0].function.arguments {"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":{}}}]}
chat items tool_calls[0].more {"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":""},"more":1}]}
chat tool tools[0].function.url {"type":"function","function":{"name":"f","url":"u"}}
chat tool tools[0].function.name {"type":"function","function":{"name":""}}
chat whole model {"model":7,"messages":[]}
chat whole model {"model":"","messages":[]}
chat whole model {"messages":[]}
chat whole messages {"model":"m"}
chat whole request []
chat members stream "stream":"true"
chat members stream_options.more "stream":true,"stream_options":{"more":1}
chat members max_tokens "max_tokens":-1
chat members max_completion_tokens "max_tokens":1,"max_completion_tokens":2
chat members modalities "modalities":["text","audio"]
responses items input[0].name {"role":"user","content":"x","name":"y"}
responses items input[0].arguments {"type":"function_call","call_id":"c","name":"f","arguments":{}}
responses items input[0].call_id {"type":"function_call","name":"f","arguments":""}
responses members instructions "instructions":["x"]
responses members access_programs "access_programs":{"cyber":"daybreak_red"}
responses tool tools[0].url {"type":"function","name":"f","url":"u"}
messages items messages[0].name {"role":"user","content":"x","name":"y"}
messages items messages[0].role {"role":"tool","content":"x"}
messages items content[0].url {"role":"user","content":[{"type":"text","text":"x","url":"u"}]}
messages items content[0].input {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":"{}"}]}
messages tool tools[0].url {"name":"f","input_schema":{},"url":"u"}
messages members fallbacks "fallbacks":[{"model":"other"}]
messages members fallbacks "fallbacks":"default"
messages members compaction.instructions "compaction":{"instructions":7}
gemini items contents[0].content {"role":"user","content":"x"}
gemini items contents[0].role {"role":"system","parts":[{"text":"x"}]}
gemini items parts[0].inline_data {"role":"user","parts":[{"inline_data":{"data":"AA","mime_type":"image/png"}}]}
gemini items parts[0].function_call {"role":"model","parts":[{"function_call":{"name":"f","args":{}}}]}
gemini items functionCall.args {"role":"model","parts":[{"functionCall":{"name":"f","args":"{}"}}]}
gemini items functionCall.partialArgs {"role":"model","parts":[{"functionCall":{"name":"f","partialArgs":[]}}]}
gemini items functionResponse.name {"role":"user","parts":[{"functionResponse":{"response":{}}}]}
gemini items functionResponse.will_continue {"role":"user","parts":[{"functionResponse":{"name":"f","response":{},"willContinue":true,"will_continue":false}}]}
gemini items fileData.file_uri {"role":"user","parts":[{"fileData":{"file_uri":"https://img.example/x","fileUri":"https://a.example/x"}}]}
gemini items functionResponse.parts[0].functionCall {"role":"user","parts":[{"functionResponse":{"name":"f","response":{},"parts":[{"functionCall":{"name":"f"}}]}}]}
gemini members system_instruction "system_instruction":{"parts":[{"text":"x"}]}
gemini members systemInstruction.parts[0].inlineData "systemInstruction":{"parts":[{"inlineData":{"data":"AA"}}]}
gemini members systemInstruction "systemInstruction":"x"
gemini members generationConfig.speechConfig "generationConfig":{"speechConfig":{}}
gemini members generationConfig.max_output_tokens "generationConfig":{"max_output_tokens":9}
gemini members maxOutputTokens "generationConfig":{"maxOutputTokens":-1}
gemini members streamFunctionCallArguments "toolConfig":{"functionCallingConfig":{"streamFunctionCallArguments":true}}
gemini tool function_declarations {"function_declarations":[{"name":"f"}]}
gemini tool functionDeclarations[0].url {"functionDeclarations":[{"name":"f","url":"u"}]}
ollama items messages[0].content {"role":"user","content":[{"type":"text","text":"x"}]}
ollama items messages[0].role {"role":"developer","content":"x"}
ollama items function.arguments {"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}
ollama members options.adapter "options":{"adapter":"x"}
ollama members template "template":"x"
ollama members system "system":"x"
ollama members stream "stream":"true"
ollama tool tools[0].function.url {"type":"function","function":{"name":"f","url":"u"}}
"#;

#[test]
fn a_member_that_no_table_has_is_refused_by_name() {
    for dialect in ALL.iter().copied() {
        ask(dialect, &request(dialect, "")).unwrap();
        for name in ["base_url", "api_base", "proxy", "extra_headers", "organization", "Tools2"] {
            let body = request(dialect, &format!(r#""{name}":"x""#));
            let error = ask(dialect, &body).unwrap_err();
            assert_eq!(error.detail(), "model.argument");
            assert!(error.to_string().contains(name), "{error}");
        }
        let rules = AskRules { pass_members: ["proxy".to_owned()].into(), ..AskRules::default() };
        ask_by(&rules, dialect, &request(dialect, r#""proxy":1"#)).unwrap();
    }
    refused("model.argument", WRONG);
}

#[test]
fn a_member_that_is_refused_stays_refused_whatever_passes() {
    let pass_members = ["n", "background", "mcp_servers"].map(str::to_owned).into();
    let rules = AskRules { pass_members, ..AskRules::default() };
    for (dialect, more) in [
        (Dialect::Chat, r#""n":2"#),
        (Dialect::Responses, r#""background":true"#),
        (Dialect::Messages, r#""mcp_servers":[1]"#),
    ] {
        ask_by(&rules, dialect, &request(dialect, more)).unwrap_err();
    }
}

const HOSTED: &str = r#"
chat tool tools[0] {"type":"web_search"}
chat tool mcp {"type":"mcp","server_url":"https://evil.test"}
chat tool tools[0] {"function":{"name":"f"}}
chat members web_search_options "web_search_options":{}
chat items messages[0].tool_calls[0] {"role":"assistant","tool_calls":[{"id":"c","type":"web_search"}]}
responses tool web_search {"type":"web_search"}
responses tool web_search_preview {"type":"web_search_preview"}
responses tool code_interpreter {"type":"code_interpreter","container":{"type":"auto"}}
responses tool file_search {"type":"file_search","vector_store_ids":["v"]}
responses tool computer {"type":"computer"}
responses tool computer_use_preview {"type":"computer_use_preview"}
responses tool image_generation {"type":"image_generation"}
responses tool mcp {"type":"mcp","server_label":"s","server_url":"https://evil.test"}
responses tool shell {"type":"shell","environment":{"type":"container_auto"}}
responses tool apply_patch {"type":"apply_patch"}
responses tool tool_search {"type":"tool_search"}
responses tool programmatic_tool_calling {"type":"programmatic_tool_calling"}
responses tool future_tool {"type":"future_tool"}
responses tool tools[0].tools[1] {"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"f"},{"type":"web_search"}]}
responses tool tools[0].tools[0] {"type":"namespace","name":"n","tools":[{"type":"namespace","name":"m","tools":[]}]}
responses items input[0] {"type":"web_search_call","id":"w"}
responses items input[0] {"type":"mcp_call","id":"w"}
responses items input[0].tools[0] {"type":"additional_tools","role":"developer","tools":[{"type":"mcp","server_url":"https://evil.test"}]}
responses items input[0] {"type":"tool_search_output","tools":[]}
gemini tool googleSearch {"googleSearch":{}}
gemini tool codeExecution {"codeExecution":{}}
gemini tool urlContext {"urlContext":{}}
gemini tool fileSearch {"fileSearch":{"fileSearchStoreNames":["s"]}}
gemini tool mcpServers {"mcpServers":[{"name":"s"}]}
gemini tool googleMaps {"functionDeclarations":[{"name":"f"}],"googleMaps":{}}
gemini items executableCode {"role":"model","parts":[{"executableCode":{"code":"1"}}]}
gemini items toolCall {"role":"model","parts":[{"toolCall":{"toolType":"GOOGLE_SEARCH_WEB"}}]}
gemini members includeServerSideToolInvocations "toolConfig":{"includeServerSideToolInvocations":true}
ollama tool tools[0] {"type":"web_search"}
messages tool web_search_20250305 {"type":"web_search_20250305","name":"web_search"}
messages tool web_fetch_20260318 {"type":"web_fetch_20260318","name":"web_fetch"}
messages tool code_execution_20260521 {"type":"code_execution_20260521","name":"code_execution"}
messages tool tool_search_tool_bm25 {"type":"tool_search_tool_bm25_20251119","name":"t"}
messages tool browser_toolset_20260801 {"type":"browser_toolset_20260801"}
messages tool mcp_toolset {"type":"mcp_toolset","mcp_server_name":"s"}
messages tool advisor {"type":"advisor_20260301","name":"advisor"}
messages tool bash_2025 {"type":"bash_2025","name":"bash"}
messages tool future_tool {"type":"future_tool","name":"t"}
messages members mcp_servers "mcp_servers":[{"type":"url","url":"https://evil.test","name":"s"}]
messages members container "container":"c"
messages members container "container":{"skills":[]}
messages items server_tool_use {"role":"assistant","content":[{"type":"server_tool_use","id":"x"}]}
messages items mcp_tool_use {"role":"assistant","content":[{"type":"mcp_tool_use","id":"x"}]}
messages items web_search_tool_result {"role":"user","content":[{"type":"web_search_tool_result","tool_use_id":"x"}]}
messages items mcp_tool_result {"role":"user","content":[{"type":"mcp_tool_result","tool_use_id":"x"}]}
messages items code_execution_tool_result {"role":"user","content":[{"type":"code_execution_tool_result","tool_use_id":"x"}]}
messages items mcp_toolset_reference {"role":"system","content":[{"type":"tool_addition","tool":{"type":"mcp_toolset_reference","server_name":"s"}}]}
messages items web_search_20260318 {"role":"user","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"web_search_20260318","name":"w"}}}]}
"#;

#[test]
fn a_tool_that_the_provider_runs_is_refused_wherever_it_stands() {
    refused("model.hosted_tool", HOSTED);
}

const REMEMBERED: &str = r#"
responses members background "background":true
responses members background_options "background_options":{}
responses members prompt "prompt":{"id":"p"}
chat items audio {"role":"assistant","audio":{"id":"a"}}
messages members thread "thread":{"type":"other"}
gemini members cachedContent "cachedContent":"cachedContents/1"
gemini members continuationToken "continuationToken":"t"
"#;

#[test]
fn state_that_the_provider_keeps_is_refused_or_named() {
    use Dialect::{Messages, Responses};
    refused("model.remote_state", REMEMBERED);
    let named = |dialect, body: String| {
        let ask = ask(dialect, &body).unwrap();
        let named = ask.remote_state.iter().map(|one| format!("{} {}", one.member, one.id));
        named.collect::<Vec<_>>()
    };
    let members =
        r#""previous_response_id":"r","conversation":{"id":"c"},"background":false,"prompt":null"#;
    assert_eq!(
        named(Responses, request(Responses, members)),
        ["previous_response_id r", "conversation c"]
    );
    assert_eq!(named(Responses, request(Responses, r#""conversation":"c""#)), ["conversation c"]);
    let items = r#"{"type":"item_reference","id":"i"},{"id":"j"}"#;
    let expected = ["item_reference i", "item_reference j"];
    assert_eq!(named(Responses, conversation(Responses, items)), expected);
    let sealed = r#"{"type":"compaction","id":"i","encrypted_content":"s"}"#;
    assert_eq!(named(Responses, conversation(Responses, sealed)), ["compaction s"]);
    let sealed = r#"{"role":"assistant","content":[{"type":"compaction","content":"c","encrypted_content":"s"}]}"#;
    assert_eq!(named(Messages, conversation(Messages, sealed)), ["compaction s"]);
    assert!(named(Messages, conversation(Messages, &sealed.replace(r#""s""#, "null"))).is_empty());
    let thread = r#""thread":{"type":"continue","previous_message_id":"t"}"#;
    assert_eq!(named(Messages, request(Messages, thread)), ["thread t"]);
    assert!(named(Messages, request(Messages, r#""thread":{"type":"create"}"#)).is_empty());
}

const REMOTE: &str = r#"
chat part content[0].image_url.url {"type":"image_url","image_url":{"url":"https://a.example/x.png"}}
chat part image_url.url {"type":"image_url","image_url":{"url":"file:///etc/passwd"}}
chat part file_id {"type":"file","file":{"file_id":"f"}}
chat part file_data {"type":"file","file":{"file_data":"https://a.example/x"}}
responses part image_url {"type":"input_image","image_url":"http://a.example"}
responses part file_id {"type":"input_image","file_id":"f"}
responses part file_url {"type":"input_file","file_url":"https://a.example"}
responses part file_id {"type":"input_file","file_id":"f"}
responses items input[0].output[0].image_url {"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"https://a.example"}]}
gemini part fileUri {"fileData":{"fileUri":"https://a.example/x.png"}}
gemini part fileUri {"fileData":{"file_uri":"https://a.example/x.png","mime_type":"image/png"}}
gemini part fileUri {"fileData":{"fileUri":"gs://bucket/x.png","mimeType":"image/png"}}
ollama items images[0] {"role":"user","content":"x","images":["https://a.example/x.png"]}
messages part source.url {"type":"image","source":{"type":"url","url":"https://a.example"}}
messages part source.url {"type":"document","source":{"type":"url","url":"https://a.example"}}
messages part file_id {"type":"image","source":{"type":"file","file_id":"f"}}
messages part content[0].source {"type":"document","source":{"type":"future"}}
messages part content[0] {"type":"container_upload","file_id":"f"}
messages part content[0].content[0] {"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"url","url":"https://a.example"}}]}
messages part source.content[0] {"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url","url":"https://a.example"}}]}}
"#;

#[test]
fn content_that_the_provider_would_fetch_is_refused_unless_its_host_is_allowed() {
    refused("model.remote_content", REMOTE);
    let image = |url: &str| {
        let image = format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#);
        part(Dialect::Chat, &image)
    };
    let remote_hosts = vec!["img.example".to_owned(), "*.cdn.example".to_owned()];
    let rules = AskRules { remote_hosts, ..AskRules::default() };
    for (url, passes) in [
        ("https://img.example/x.png", true),
        ("https://IMG.example/x.png", true),
        ("https://a.cdn.example/x.png", true),
        ("http://img.example/x.png", false),
        ("https://cdn.example/x.png", false),
        ("https://evilcdn.example/x.png", false),
        ("https://img.example.evil.test/x.png", false),
        ("https://img.example@evil.test/x.png", false),
        ("https://evil.test#img.example", false),
    ] {
        assert_eq!(ask_by(&rules, Dialect::Chat, &image(url)).is_ok(), passes, "{url}");
    }
}

/// Inline content of 4,096 bytes in place of `DATA`; it counts as an `image` or a `file`.
const INLINE: &str = r#"
chat part image {"type":"image_url","image_url":{"url":"data:image/png;base64,DATA","detail":"low"}}
chat part file {"type":"file","file":{"file_data":"data:application/pdf;base64,DATA","filename":"a.pdf"}}
chat part file {"type":"input_audio","input_audio":{"data":"DATA","format":"wav"}}
responses part image {"type":"input_image","image_url":"data:image/png;base64,DATA","file_id":null}
responses part file {"type":"input_file","file_data":"DATA"}
gemini part image {"inlineData":{"mimeType":"image/png","data":"DATA"}}
gemini part image {"inlineData":{"mime_type":"image/png","data":"DATA"}}
gemini part file {"inlineData":{"mimeType":"application/pdf","data":"DATA"}}
ollama items image {"role":"user","content":"x","images":["DATA"]}
messages part image {"type":"image","source":{"type":"base64","media_type":"image/png","data":"DATA"}}
messages part file {"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"DATA"}}
"#;

#[test]
fn inline_images_and_files_are_counted_and_are_no_text() {
    for (dialect, body, counted) in lines(INLINE) {
        let read = ask(dialect, &body.replace("DATA", &"A".repeat(4096))).unwrap();
        let expected = if counted == "image" { (1, 0) } else { (0, 1) };
        assert_eq!((read.images, read.files), expected, "{body}");
        assert!(read.text_bytes < 300, "{}: {body}", read.text_bytes);
    }
    let text =
        r#"{"type":"document","source":{"type":"text","media_type":"text/plain","data":"long"}}"#;
    let text = part(Dialect::Messages, text);
    let read = ask(Dialect::Messages, &text).unwrap();
    assert_eq!((read.files, read.text_bytes), (0, u64::try_from(text.len()).unwrap()));
}

const CHOICES: &str = r#"
chat members n "n":2
chat members n "n":0
chat members best_of "best_of":3
chat members num_choices "num_choices":3
gemini members candidateCount "generationConfig":{"candidateCount":2}
"#;

#[test]
fn more_than_one_answer_is_refused() {
    refused("model.choices", CHOICES);
    for one in [r#""n":1"#, r#""n":null"#] {
        ask(Dialect::Chat, &request(Dialect::Chat, one)).unwrap();
    }
}

const UNREAD: &str = r#"
chat part video_url {"type":"video_url","video_url":{"url":"data:"}}
chat items messages[0].content[0] {"role":"system","content":[{"type":"image_url","image_url":{"url":"data:"}}]}
gemini members responseModalities[1] "generationConfig":{"responseModalities":["TEXT","AUDIO"]}
responses part computer_screenshot {"type":"computer_screenshot"}
responses items future_item {"type":"future_item"}
responses items input[0].content[0] {"role":"developer","content":[{"type":"input_image","image_url":"data:"}]}
messages part browser_state {"type":"browser_state","tabs":[]}
messages items messages[0].content[0] {"role":"system","content":[{"type":"image","source":{"type":"base64","data":"A"}}]}
"#;

#[test]
fn content_that_is_not_read_is_refused() {
    refused("model.content", UNREAD);
    let kind = Json::from(format!("`{}\n", "k".repeat(1000)));
    let long = format!(r#"{{"type":{}}}"#, crate::domain::canonical::text(&kind));
    let error = ask(Dialect::Chat, &part(Dialect::Chat, &long)).unwrap_err().to_string();
    assert!(error.len() < 200 && !error.contains('\n'), "{error}");
}

#[test]
fn hosted_tools_are_stripped_or_sent_where_the_operator_says_so() {
    use Dialect::{Chat, Messages, Responses};
    let strip = AskRules { hosted_tools: HostedTools::Strip, ..AskRules::default() };
    let allow = AskRules { hosted_tools: HostedTools::Allow, ..AskRules::default() };
    let function = r#"{"type":"function","name":"f"}"#;
    let cases = [
        (
            Responses,
            format!(r#"{{"model":"m","input":"x","tools":[{function}, {{"type":"web_search"}}]}}"#),
            format!(r#"{{"model":"m","input":"x","tools":[{function}]}}"#),
        ),
        (
            Responses,
            format!(r#"{{"model":"m","tools":[{{"type":"namespace","name":"n","tools":[{{"type":"web_search"}},{function}]}}],"input":"x"}}"#),
            format!(r#"{{"model":"m","tools":[{{"type":"namespace","name":"n","tools":[{function}]}}],"input":"x"}}"#),
        ),
        (
            Responses,
            r#"{"model":"m","tools":[{"type":"namespace","name":"n","tools":[{"type":"web_search"}]}],"tool_choice":"auto","input":"x"}"#.to_owned(),
            r#"{"model":"m","input":"x"}"#.to_owned(),
        ),
        (
            Responses,
            format!(r#"{{"model":"m","input":"x","tools":[{{"type":"web_search"}},{function}],"tool_choice":{{"type":"web_search"}}}}"#),
            format!(r#"{{"model":"m","input":"x","tools":[{function}]}}"#),
        ),
        (
            Chat,
            request(Chat, r#""web_search_options":{},"seed":1"#),
            request(Chat, r#""seed":1"#),
        ),
        (
            Messages,
            request(Messages, r#""mcp_servers":[{"url":"u"}],"tools":[{"type":"web_search_20250305","name":"web_search"}]"#),
            request(Messages, ""),
        ),
    ];
    for (dialect, body, expected) in cases {
        let stripped = ask_by(&strip, dialect, &body).unwrap();
        assert_eq!(sent_up(&stripped, &body), expected);
        assert!(stripped.offered.iter().all(|tool| tool.name.ends_with('f')));
        let allowed = ask_by(&allow, dialect, &body).unwrap();
        assert_eq!(sent_up(&allowed, &body), body);
    }
    let added = r#"{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"web_search_20260318","name":"w"}}}]}"#;
    let error = ask_by(&strip, Messages, &conversation(Messages, added)).unwrap_err();
    assert_eq!(error.detail(), "model.hosted_tool");
}

#[test]
fn denied_betas_are_removed_and_the_others_stay_in_order() {
    let denied = BETAS_DENIED.as_slice();
    let sent =
        ["claude-code-20250219, mcp-client-2025-11-20", "files-api-2025-04-14,effort-2025-11-24"];
    assert_eq!(betas(&sent, denied), ["claude-code-20250219", "effort-2025-11-24"]);
    for token in [
        "mcp-client-2025-04-04",
        "code-execution-2025-08-25",
        "web-fetch-2025-09-10",
        "files-api-2025-04-14",
        "skills-2025-10-02",
        "Skills-2025-10-02",
        "a b",
        "",
    ] {
        assert_eq!(betas(&[token], denied), Vec::<String>::new(), "{token}");
    }
    assert_eq!(betas(&["mcp-client-2025-04-04"], &[]), ["mcp-client-2025-04-04"]);
}

#[test]
fn only_two_dialects_count_tokens() {
    let count = |dialect, body: &str| {
        read(dialect, Operation::CountTokens, &json(body), body.as_bytes(), &AskRules::default())
    };
    let body = r#"{"model":"m","messages":[{"role":"user","content":"x"}],"system":"s"}"#;
    let counted = count(Dialect::Messages, body).unwrap();
    assert_eq!(counted.instructions.len(), 1);
    assert_eq!(counted.edits, super::super::Edits::default());
    for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Ollama] {
        assert_eq!(count(dialect, &request(dialect, "")), Err(AskError::Operation));
    }
    let error = count(Dialect::Messages, &request(Dialect::Messages, "")).unwrap_err();
    assert!(error.to_string().contains("max_tokens"), "{error}");
    let body = r#"{"model":"m","contents":[{"role":"user","parts":[{"text":"x"}]}]}"#;
    assert_eq!(count(Dialect::Gemini, body).unwrap().messages, 1);
    let error = count(Dialect::Gemini, &request(Dialect::Gemini, "")).unwrap_err();
    assert!(error.to_string().contains("stream"), "{error}");
}

#[test]
fn a_model_named_twice_is_refused_and_an_id_in_other_case_is_another_id() {
    for twice in [
        r#"{"model":"a","model":"b"}"#,
        r#"{"model":"a","mod\u0065l":"b"}"#,
        r#"{"model":"a","Model":"b"}"#,
    ] {
        let error = Json::parse(twice.as_bytes(), &Limits::MODEL).unwrap_err();
        assert_eq!(error.code, "json.duplicate_key", "{twice}");
    }
    let of = |model: &str| {
        let body = format!(r#"{{"model":"{model}","messages":[]}}"#);
        ask(Dialect::Chat, &body).unwrap().model
    };
    assert_ne!(of("gpt-X"), of("GPT-x"));
}
