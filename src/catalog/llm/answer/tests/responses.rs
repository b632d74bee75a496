//! OpenAI's responses.

use super::*;

pub(super) fn event(number: usize, data: &str) -> String {
    let kind = parse(data).unwrap().get("type").unwrap().as_str().unwrap().to_owned();
    let data = format!("{},\"sequence_number\":{number}}}", data.strip_suffix('}').unwrap());
    format!("event: {kind}\ndata: {data}\n\n")
}

fn numbered(events: &[String]) -> String {
    events.iter().enumerate().map(|(number, data)| event(number, data)).collect()
}

const MESSAGE: &str = r#"{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"Look 😀"}]}"#;
const BASH: &str = r#"{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_1","namespace":"mcp__gov","name":"bash","arguments":"{\"z\":1,\"a\":2}"}"#;
const PATCH: &str = r#"{"id":"ctc_1","type":"custom_tool_call","status":"completed","call_id":"call_2","name":"apply_patch","input":"*** Begin"}"#;
const SHELL: &str = r#"{"id":"lsh_1","type":"local_shell_call","status":"completed","call_id":"call_3","action":{"type":"exec","command":["ls"],"env":{}}}"#;

fn response(status: &str, output: &[&str]) -> String {
    format!(
        r#"{{"id":"resp_1","object":"response","status":"{status}","model":"gpt","tools":[{{"type":"function","name":"bash"}}],"output":[{}],"usage":{{"input_tokens":10,"output_tokens":5,"input_tokens_details":{{"cached_tokens":4}},"output_tokens_details":{{"reasoning_tokens":3}}}}}}"#,
        output.join(",")
    )
}

fn completed(output: &[&str]) -> String {
    format!(r#"{{"type":"response.completed","response":{}}}"#, response("completed", output))
}

fn created() -> String {
    let response = response("in_progress", &[]).replace(r#","usage":{"input"#, r#","x":{"input"#);
    format!(r#"{{"type":"response.created","response":{response}}}"#)
}

fn item(kind: &str, place: usize, item: &str) -> String {
    format!(r#"{{"type":"response.output_item.{kind}","output_index":{place},"item":{item}}}"#)
}

fn of_item(kind: &str, place: usize, id: &str, rest: &str) -> String {
    format!(r#"{{"type":"response.{kind}","item_id":"{id}","output_index":{place},{rest}}}"#)
}

fn message_events() -> Vec<String> {
    let text = r#""content_index":0,"#.to_owned();
    let with = |kind: &str, rest: &str| of_item(kind, 0, "msg_1", &(text.clone() + rest));
    vec![
        item(
            "added",
            0,
            &MESSAGE
                .replace("completed", "in_progress")
                .replace(r#"{"type":"output_text","annotations":[],"text":"Look 😀"}"#, ""),
        ),
        with("content_part.added", r#""part":{"type":"output_text","annotations":[],"text":""}"#),
        with("output_text.delta", r#""delta":"Look ""#),
        with("output_text.delta", r#""delta":"😀""#),
        with("output_text.done", r#""text":"Look 😀""#),
        with(
            "content_part.done",
            r#""part":{"type":"output_text","annotations":[],"text":"Look 😀"}"#,
        ),
        item("done", 0, MESSAGE),
    ]
}

fn bash_events() -> Vec<String> {
    let added = BASH
        .replace("completed", "in_progress")
        .replace(r#""arguments":"{\"z\":1,\"a\":2}""#, r#""arguments":"""#);
    vec![
        item("added", 1, &added),
        of_item("function_call_arguments.delta", 1, "fc_1", r#""delta":"{\"z\":1,""#),
        of_item("function_call_arguments.delta", 1, "fc_1", r#""delta":"\"a\":2}""#),
        of_item("function_call_arguments.done", 1, "fc_1", r#""arguments":"{\"z\":1,\"a\":2}""#),
        item("done", 1, BASH),
    ]
}

fn all() -> Vec<String> {
    let mut events = vec![created()];
    events.extend(message_events());
    events.extend(bash_events());
    let added = PATCH.replace("*** Begin", "").replace("completed", "in_progress");
    events.extend([
        item("added", 2, &added),
        of_item("custom_tool_call_input.delta", 2, "ctc_1", r#""delta":"*** Begin""#),
        of_item("custom_tool_call_input.done", 2, "ctc_1", r#""input":"*** Begin""#),
        item("done", 2, PATCH),
        item("added", 3, SHELL),
        item("done", 3, SHELL),
        completed(&[MESSAGE, BASH, PATCH, SHELL]),
    ]);
    events
}

pub(super) fn parallel() -> String {
    numbered(&all())
}

fn numbers(run: &Run) -> Vec<u64> {
    let number = |event: &Json| event.get("sequence_number").unwrap().as_u64().unwrap();
    run.values().iter().map(number).collect()
}

#[test]
fn an_allowed_item_leaves_with_one_delta_and_the_numbers_have_no_gap() {
    let run = run(Dialect::Responses, &parallel(), &[]);
    let calls: Vec<_> = run
        .calls
        .iter()
        .map(|c| (c.name.as_str(), c.id.as_str(), c.arguments.as_str(), c.custom))
        .collect();
    assert_eq!(
        calls,
        [
            ("mcp__gov.bash", "call_1", r#"{"z":1,"a":2}"#, false),
            ("apply_patch", "call_2", r#"{"input":"*** Begin"}"#, true),
            ("local_shell", "call_3", r#"{"command":["ls"],"env":{},"type":"exec"}"#, false),
        ]
    );
    assert_eq!(run.text, "Look 😀");
    let before = numbered(&[vec![created()], message_events()].concat());
    assert!(run.out.starts_with(&before));
    let all = u64::try_from(all().len() - 1).unwrap();
    assert_eq!(numbers(&run), (0..all).collect::<Vec<_>>());
    assert_eq!(run.out.matches("function_call_arguments.delta\n").count(), 1);
    assert!(run.out.contains(&format!("\"item\":{BASH}")));
    assert_eq!(run.json(), parse(&response("completed", &[MESSAGE, BASH, PATCH, SHELL])).unwrap());
    assert!(run.end.contains(&response("completed", &[MESSAGE, BASH, PATCH, SHELL])));
    let usage =
        TokenUsage { input: 10, output: 5, cached_input: 4, reasoning: 3, ..TokenUsage::default() };
    assert_eq!(run.usage(), usage);
    assert_eq!(run.assembled.stop, "completed");
    assert_eq!(run.assembled.model.as_deref(), Some("gpt"));
}

#[test]
fn each_form_of_a_denial_stands_in_the_last_event_too() {
    for decisions in [
        &[Decision::Call, Decision::Call, Decision::Call][..],
        &[Decision::Text, Decision::Text, Decision::Text],
        &[Decision::Allow, Decision::Text],
        &[
            Decision::With(r#"{"z":"***"}"#),
            Decision::With(r#"{"input":"***"}"#),
            Decision::With("{}"),
        ],
    ] {
        let streamed = run(Dialect::Responses, &parallel(), decisions);
        let count = u64::try_from(streamed.values().len()).unwrap();
        assert_eq!(numbers(&streamed), (0..count).collect::<Vec<_>>());
        // What the items were at their end is what the last event repeats.
        let done: Vec<Json> = streamed
            .values()
            .iter()
            .filter(|event| event.get("type") == Some(&"response.output_item.done".into()))
            .map(|event| event.get("item").unwrap().clone())
            .collect();
        assert_eq!(streamed.json().get("output").unwrap().as_array().unwrap(), done);
        let body = response("completed", &[MESSAGE, BASH, PATCH, SHELL]);
        let whole = whole_run(Dialect::Responses, &body, decisions);
        assert_eq!(parse(json_text(&whole)).unwrap(), streamed.json(), "{decisions:?}");
        assert_eq!(whole.usage, streamed.assembled.usage);
        assert_eq!(whole.stop, "completed");
    }
    let body = response("completed", &[MESSAGE, BASH]);
    assert_eq!(json_text(&whole_run(Dialect::Responses, &body, &[])), body);
}

#[test]
fn a_denied_item_keeps_its_ids_and_says_why() {
    let calls = [Decision::Call, Decision::Call, Decision::Call];
    let run = run(Dialect::Responses, &parallel(), &calls);
    let json = run.json();
    let output = json.get("output").unwrap().as_array().unwrap();
    assert_eq!(
        output[1],
        json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed",
            "name": "wicketgate_denied", "arguments": denial("mcp__gov.bash", 0)})
    );
    assert_eq!(
        output[2],
        json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "status": "completed",
            "name": "wicketgate_denied", "input": denial("apply_patch", 1)})
    );
    assert_eq!(output[3].get("name"), Some(&"wicketgate_denied".into()));
    assert!(!run.out.contains("*** Begin") && !run.end.contains("*** Begin"));
    assert!(!run.out.contains("\\\"z\\\":1") && !run.end.contains("\\\"z\\\":1"));
    assert!(!(run.out + &run.end).contains("\"ls\""));
}

#[test]
fn an_item_that_was_never_added_is_a_call_as_well() {
    let events = [created(), item("done", 0, BASH), completed(&[])];
    let run = run(Dialect::Responses, &numbered(&events), &[]);
    assert_eq!(run.calls.len(), 1);
    assert_eq!(numbers(&run), [0, 1, 2, 3, 4, 5]);
    let output = run.json();
    assert_eq!(output.get("output").unwrap().as_array().unwrap(), [parse(BASH).unwrap()]);
}

#[test]
fn a_last_event_that_repeats_something_else_ends_the_stream() {
    let begun = [vec![created()], message_events(), bash_events()].concat();
    let with = |last: String| numbered(&[begun.clone(), vec![last]].concat());
    let cases = [
        with(completed(&[MESSAGE, &BASH.replace("\\\"a\\\":2", "\\\"a\\\":3")])),
        with(completed(&[MESSAGE, &BASH.replace("bash", "Bash")])),
        with(completed(&[MESSAGE, BASH, PATCH])),
        with(completed(&[&MESSAGE.replace("Look", "Leave"), BASH])),
        numbered(&[vec![created()], bash_events()[..4].to_vec()].concat())
            + &event(9, &item("done", 1, &BASH.replace("\\\"a\\\":2", "\\\"a\\\":3"))),
        numbered(&[vec![created()], bash_events()[..4].to_vec()].concat())
            + &event(9, &item("done", 1, &BASH.replace("bash", "sh"))),
        numbered(&[
            created(),
            of_item("function_call_arguments.delta", 1, "fc_1", r#""delta":"x""#),
        ]),
        numbered(&[created().replace("\"output\":[]", &format!("\"output\":[{BASH}]"))]),
        numbered(&[
            created(),
            bash_events()[0].clone(),
            of_item("output_text.delta", 1, "fc_1", r#""delta":"x""#),
        ]),
    ];
    for case in cases {
        assert_eq!(failure(Dialect::Responses, &case).detail(), "protocol", "{case}");
    }
    let open = numbered(&[created(), bash_events()[0].clone(), completed(&[])]);
    assert_eq!(failure(Dialect::Responses, &open), AnswerError::Cut);
    let text = "event: response.created\ndata: {\"type\":\"response.in_progress\"}\n\n";
    assert_eq!(failure(Dialect::Responses, text).detail(), "protocol");
}

#[test]
fn what_the_provider_ran_passes_only_if_it_was_allowed() {
    let search = r#"{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"x"}}"#;
    let mcp = r#"{"id":"mcp_1","type":"mcp_call","name":"x","server_label":"y","arguments":"{}"}"#;
    let events = |item_: &str| {
        numbered(&[
            created(),
            item("added", 0, item_),
            of_item("web_search_call.searching", 0, "ws_1", r#""action":{"query":"x"}"#),
            item("done", 0, item_),
            completed(&[item_]),
        ])
    };
    let ran = AnswerError::ProviderRan("web_search_call".into());
    assert_eq!(failure(Dialect::Responses, &events(search)), ran);
    assert_eq!(failure(Dialect::Responses, &events(mcp)).detail(), "model.hosted_tool");
    for (item, allowed) in [(search, "web_search"), (mcp, "mcp")] {
        let text = events(item);
        let run = read(Dialect::Responses, &hosted(&[allowed]), &[text.as_bytes()], &[]).unwrap();
        assert_eq!(run.out + &run.end, text);
    }
    let unknown = r#"{"id":"x_1","type":"shell_call","action":{"commands":["ls"]}}"#;
    assert!(
        read(Dialect::Responses, &hosted(&["web_search"]), &[events(unknown).as_bytes()], &[])
            .is_err()
    );
    let whole = whole(
        Dialect::Responses,
        response("completed", &[search]).as_bytes(),
        AnswerRules::default(),
    );
    assert_eq!(whole.unwrap_err(), ran);
    let hidden = numbered(&[created(), completed(&[search])]);
    assert_eq!(failure(Dialect::Responses, &hidden), ran);
}

#[test]
fn what_the_agent_would_run_does_not_pass_as_a_tool_of_the_provider() {
    let rules = hosted(&["apply_patch", "computer", "computer_use_preview", "shell"]);
    for kind in ["apply_patch_call", "computer_call", "shell_call"] {
        let call = format!(r#"{{"id":"x_1","type":"{kind}","call_id":"c","action":{{}}}}"#);
        let text = numbered(&[created(), item("done", 0, &call), completed(&[&call])]);
        let read = read(Dialect::Responses, &rules, &[text.as_bytes()], &[]);
        assert_eq!(read.unwrap_err().detail(), "protocol", "{kind}");
        let whole =
            whole(Dialect::Responses, response("completed", &[&call]).as_bytes(), rules.clone());
        assert_eq!(whole.unwrap_err().detail(), "protocol", "{kind}");
    }
}

#[test]
fn an_answer_at_its_bound_is_incomplete_and_ends() {
    let last = completed(&[MESSAGE]).replace("response.completed", "response.incomplete").replace(
        r#""status":"completed","model""#,
        r#""status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"model""#,
    );
    let run = run(
        Dialect::Responses,
        &numbered(&[vec![created()], message_events(), vec![last]].concat()),
        &[],
    );
    assert_eq!(run.assembled.stop, "max_output_tokens");
}

#[test]
fn texts_that_never_came_in_pieces_are_shown_once() {
    let events = [vec![created(), item("done", 0, MESSAGE)], vec![completed(&[MESSAGE])]].concat();
    let run = run(Dialect::Responses, &numbered(&events), &[]);
    assert_eq!(run.text, "Look 😀");
}

#[test]
fn a_shell_call_begins_with_the_action_that_was_judged() {
    let begun = SHELL.replace(r#"["ls"]"#, r#"["rm","-r","/"]"#);
    let events = [created(), item("added", 0, &begun), item("done", 0, SHELL), completed(&[SHELL])];
    let run = run(Dialect::Responses, &numbered(&events), &[]);
    assert_eq!(run.calls.len(), 1);
    assert!(run.out.contains(r#"["ls"]"#) && !run.out.contains(r#""rm""#), "{}", run.out);
}

#[test]
fn of_two_equal_calls_only_the_denied_one_does_not_leave() {
    let events =
        [created(), item("done", 0, BASH), item("done", 1, BASH), completed(&[BASH, BASH])];
    let run = run(Dialect::Responses, &numbered(&events), &[Decision::Allow, Decision::Call]);
    let json = run.json();
    let output = json.get("output").unwrap().as_array().unwrap();
    let names: Vec<_> = output.iter().map(|item| text_of(item, "name").unwrap()).collect();
    assert_eq!(names, ["bash", "wicketgate_denied"]);
    let once = [created(), item("done", 0, BASH), completed(&[BASH, BASH])];
    assert_eq!(failure(Dialect::Responses, &numbered(&once)).detail(), "protocol");
}
