use proptest::prelude::*;

use super::*;
use crate::catalog::llm::answer::{self, AnswerRules, Assembled, Step};
use crate::domain::json::json;

const TEXT: &str = "Write to ann@example.com, or pay with 4111 1111 1111 1111 in 2026: thanks.";
const MASKED: &str = "Write to [REDACTED:email], or pay with [REDACTED:card] in 2026: thanks.";

fn mask(dialect: Dialect) -> EventMask {
    let kinds = vec!["card".to_owned(), "email".to_owned()];
    let obligations = [PolicyObligation::Redact { kinds, opaque: false }];
    EventMask::of(dialect, &obligations).unwrap().unwrap()
}

fn event(name: Option<&str>, data: &Json) -> Event {
    Event { name: name.map(str::to_owned), id: None, data: canonical::text(data) }
}

/// A stream in this dialect whose one text comes in these pieces.
fn events(dialect: Dialect, pieces: &[String]) -> Vec<Event> {
    let text = pieces.concat();
    let all = match dialect {
        Dialect::Chat => {
            let chunk = |delta: Json, finish: Json| {
                let choice = Json::object([
                    ("index", Json::from(0_u64)),
                    ("delta", delta),
                    ("finish_reason", finish),
                ]);
                json!({"id": "c", "choices": [choice.to_serde()]})
            };
            let delta = |piece: &String| json!({"content": piece});
            let mut all: Vec<Json> =
                pieces.iter().map(|piece| chunk(delta(piece), Json::Null)).collect();
            all.push(chunk(json!({}), "stop".into()));
            let mut all: Vec<Event> = all.iter().map(|chunk| event(None, chunk)).collect();
            all.push(Event { name: None, id: None, data: "[DONE]".into() });
            return all;
        }
        Dialect::Gemini => {
            let one = |piece: &str, finish: Json| {
                let parts = json!({"parts": [{"text": piece}], "role": "model"});
                let candidate = Json::object([("content", parts), ("finishReason", finish)]);
                event(None, &json!({"candidates": [candidate.to_serde()]}))
            };
            let mut all: Vec<Event> = pieces.iter().map(|piece| one(piece, Json::Null)).collect();
            all.push(one("", "STOP".into()));
            return all;
        }
        Dialect::Ollama => {
            let one = |piece: &str, done: bool| {
                let message = json!({"role": "assistant", "content": piece}).to_serde();
                event(None, &json!({"message": message, "done": done}))
            };
            let mut all: Vec<Event> = pieces.iter().map(|piece| one(piece, false)).collect();
            all.push(one("", true));
            return all;
        }
        Dialect::Messages => {
            let mut all = vec![
                json!({"type": "message_start", "message": {"id": "m", "content": []}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            ];
            all.extend(pieces.iter().map(|piece| {
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}})
            }));
            all.push(json!({"type": "content_block_stop", "index": 0}));
            all.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}));
            all.push(json!({"type": "message_stop"}));
            all
        }
        Dialect::Responses => {
            let item = json!({"type": "message", "id": "i", "content": [{"type": "output_text", "text": text}]});
            let mut all = vec![
                json!({"type": "response.created", "response": {"id": "r", "output": []}}),
                json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "i"}}),
            ];
            all.extend(pieces.iter().map(|piece| {
                json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": piece})
            }));
            all.push(json!({"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": text}));
            all.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item.to_serde()}));
            all.push(json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [item.to_serde()]}}));
            all
        }
    };
    let named = all.iter().map(|one| event(one.get("type").and_then(Json::as_str), one));
    named.collect()
}

/// What leaves of a stream, and what it is at its end.
fn left(dialect: Dialect, events: Vec<Event>) -> (String, Assembled) {
    let mut mask = mask(dialect);
    let mut reader =
        answer::stream(dialect, AnswerRules { renumber: true, ..AnswerRules::default() });
    let mut said = String::new();
    for event in events {
        for event in mask.event(event).unwrap() {
            for step in reader.event(&event).unwrap() {
                match step {
                    Step::Frame { texts, .. } => {
                        said.extend(texts.into_iter().map(|piece| piece.text));
                    }
                    Step::Call(_) | Step::Hold => {}
                }
            }
        }
    }
    let (_, assembled) = reader.finish().unwrap();
    mask.verify(&assembled.json).unwrap();
    (said, assembled)
}

fn cut(text: &str, sizes: &[usize]) -> Vec<String> {
    let mut chars = text.chars();
    let pieces = sizes.iter().cycle().map(|size| chars.by_ref().take(*size).collect());
    pieces.take_while(|piece: &String| !piece.is_empty()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_stream_in_any_pieces_is_the_answer_masked_as_a_whole(
        sizes in prop::collection::vec(1_usize..20, 1..6),
    ) {
        for dialect in Dialect::ALL {
            let (said, assembled) = left(*dialect, events(*dialect, &cut(TEXT, &sizes)));
            prop_assert_eq!(&said, MASKED);
            let (_, whole) = left(*dialect, events(*dialect, &[TEXT.to_owned()]));
            prop_assert_eq!(&assembled, &whole, "{:?}", dialect);
            let json = String::from_utf8(assembled.json).unwrap();
            prop_assert!(json.contains(MASKED), "{}", json);
        }
    }
}

#[test]
fn the_tokens_of_a_text_do_not_leave_beside_it() {
    let mut mask = mask(Dialect::Chat);
    let tokens = json!({"content": [{"token": "ann@"}, {"token": "example.com"}]});
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "ann@example.com is"},
        "logprobs": tokens.to_serde()}]});
    let left = mask.event(event(None, &chunk)).unwrap();
    let data = &left.first().unwrap().data;
    assert!(data.contains("[REDACTED:email] ") && !data.contains("example"), "{data}");
    assert_eq!(mask.masked(), 1);
}

#[test]
fn the_tokens_of_a_response_leave_in_no_event_and_in_no_whole_answer() {
    let tokens = json!([{"token": "ann@"}, {"token": "example.com"}]);
    let part = json!({"type": "output_text", "text": "hello", "logprobs": tokens.to_serde()});
    let item = json!({"type": "message", "id": "i", "content": [part.to_serde()]});
    let response = json!({"id": "r", "output": [item.to_serde()]});
    let events = [
        json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0,
            "delta": "hello there", "logprobs": tokens.to_serde()}),
        json!({"type": "response.content_part.done", "output_index": 0, "part": part.to_serde()}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item.to_serde()}),
        json!({"type": "response.completed", "response": response.to_serde()}),
    ];
    let of_chat = mask(Dialect::Chat);
    let mut mask = mask(Dialect::Responses);
    let left = events.iter().flat_map(|one| mask.event(event(None, one)).unwrap());
    let left: Vec<Event> = left.collect();
    // The rest of the text leaves in one of its own.
    assert_eq!(left.len(), 5, "{left:?}");
    for event in left {
        assert!(!event.data.contains("ann@"), "{event:?}");
        assert!(event.data.contains("\"logprobs\":[]"), "{event:?}");
    }
    let whole = mask.without_tokens(canonical::bytes(&response));
    assert!(!String::from_utf8(whole).unwrap().contains("ann@"));
    let chat = json!({"choices": [{"index": 0, "logprobs": {"content": tokens.to_serde()}}]});
    let whole = String::from_utf8(of_chat.without_tokens(canonical::bytes(&chat))).unwrap();
    assert_eq!(whole, r#"{"choices":[{"index":0,"logprobs":null}]}"#);
}

#[test]
fn the_rest_of_a_text_leaves_with_a_finish_reason_that_has_no_delta() {
    let ends = [
        r#"{"index":0,"finish_reason":"stop"}"#,
        r#"{"index":0,"delta":null,"finish_reason":"stop"}"#,
    ];
    for end in ends {
        let mut mask = mask(Dialect::Chat);
        let chunk = json!({"choices": [{"index": 0, "delta": {"content": "so long"}}]});
        let left = mask.event(event(None, &chunk)).unwrap();
        assert!(!left.first().unwrap().data.contains("long"), "{left:?}");
        let data = format!("{{\"choices\":[{end}]}}");
        let left = mask.event(Event { name: None, id: None, data }).unwrap();
        assert!(left.first().unwrap().data.contains("\"content\":\"long\""), "{left:?}");
    }
}

#[test]
fn an_event_of_more_values_than_a_request_may_have_is_masked() {
    let pad = "[],".repeat(1_000_001);
    let choice = r#"{"index":0,"delta":{"content":"ann@example.com is"}}"#;
    let data = format!("{{\"pad\":[{pad}[]],\"choices\":[{choice}]}}");
    let left = mask(Dialect::Chat).event(Event { name: None, id: None, data }).unwrap();
    assert!(!left.first().unwrap().data.contains("ann@"));
}

#[test]
fn a_tool_call_does_not_leave_under_a_name_that_must_be_masked_nor_its_denial() {
    let call = |id: &str, name: &str| AnsweredCall {
        index: 0,
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: "{}".to_owned(),
        custom: false,
    };
    let mut mask = mask(Dialect::Chat);
    assert_eq!(mask.refuse_named(&call("call_1", "bash")), Ok(()));
    for named in [call("call_1", "4111-1111-1111-1111"), call("ann@example.com", "bash")] {
        assert_eq!(mask.refuse_named(&named), Err(Unmaskable::Named));
    }
    let words = mask.text("the tool 4111-1111-1111-1111 is not known").unwrap();
    assert_eq!(words, "the tool [REDACTED:card] is not known");
    assert_eq!(mask.masked(), 1);
}

#[test]
fn a_tool_call_passes_as_it_is_and_its_arguments_are_masked_apart() {
    let mut mask = mask(Dialect::Messages);
    let start = json!({"type": "content_block_start", "index": 1,
        "content_block": {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}});
    let delta = json!({"type": "content_block_delta", "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": "{\"to\":\"ann@example.com\"}"}});
    for part in [start, delta] {
        let came = event(part.get("type").and_then(Json::as_str), &part);
        assert_eq!(mask.event(came.clone()).unwrap(), [came]);
    }
    let masked = mask.arguments(r#"{"to": "ann@example.com"}"#).unwrap();
    assert_eq!(masked.as_deref(), Some(r#"{"to":"[REDACTED:email]"}"#));
    assert_eq!(mask.arguments(r#"{"to": "ann"}"#).unwrap(), None);
    assert_eq!(mask.arguments("to ann@example.com").unwrap().unwrap(), "to [REDACTED:email]");
}

#[test]
fn a_text_in_parts_of_a_member_does_not_leave() {
    let parts = json!([{"type": "text", "text": "ann@"}]);
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": parts.to_serde()}}]});
    let left = mask(Dialect::Chat).event(event(None, &chunk));
    assert_eq!(left.unwrap_err(), Unmaskable::Unscanned);
    let bare = json!({"choices": [{"index": 0, "delta": {"annotations": [{"url": "u"}]}}]});
    assert_eq!(mask(Dialect::Chat).event(event(None, &bare)).unwrap().len(), 1);
}

#[test]
fn a_kind_that_cannot_be_found_lets_nothing_leave() {
    let obligations = [PolicyObligation::Redact { kinds: vec!["tarot".to_owned()], opaque: true }];
    assert!(EventMask::of(Dialect::Chat, &obligations).is_err());
    assert!(EventMask::of(Dialect::Chat, &[]).unwrap().is_none());
}

/// What leaves of these events, one after the other.
fn left_of(mask: &mut EventMask, events: &[Json]) -> Result<Vec<String>, Unmaskable> {
    let mut left = Vec::new();
    for one in events {
        let name = one.get("type").and_then(Json::as_str);
        left.extend(mask.event(event(name, one))?.into_iter().map(|event| event.data));
    }
    Ok(left)
}

/// A block of a message with this text, in one piece.
fn block(index: u64, kind: &str, text: &str) -> Vec<Json> {
    let delta = json!({"type": format!("{kind}_delta"), kind: text});
    vec![
        json!({"type": "content_block_start", "index": index, "content_block": {"type": kind, kind: ""}}),
        json!({"type": "content_block_delta", "index": index, "delta": delta.to_serde()}),
        json!({"type": "content_block_stop", "index": index}),
    ]
}

fn tool_use(index: u64) -> Vec<Json> {
    let block = json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {}});
    vec![
        json!({"type": "content_block_start", "index": index, "content_block": block.to_serde()}),
        json!({"type": "content_block_stop", "index": index}),
    ]
}

#[test]
fn a_text_of_a_chat_goes_on_behind_a_tool_call() {
    let mut mask = mask(Dialect::Chat);
    let chunk = |delta: &Json, finish: &Json| json!({"choices": [{"index": 0, "delta": delta.to_serde(), "finish_reason": finish.to_serde()}]});
    let call = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "Bash", "arguments": "{}"}}]});
    let left = left_of(
        &mut mask,
        &[
            chunk(&json!({"content": "ask ann@exam"}), &Json::Null),
            chunk(&call, &Json::Null),
            chunk(&json!({"content": "ple.com now"}), &Json::Null),
            chunk(&json!({}), &"tool_calls".into()),
        ],
    );
    let left = left.unwrap();
    assert!(left[0].contains("\"ask \"") && left[1].contains("Bash"), "{left:?}");
    assert!(left[2].contains("[REDACTED:email] ") && left[3].contains("now"), "{left:?}");
    assert!(!left.concat().contains("ann@"), "{left:?}");
}

#[test]
fn nothing_of_a_finding_leaves_that_goes_on_in_the_next_block() {
    for between in [Vec::new(), tool_use(1), block(1, "thinking", "hm. ")] {
        let mut mask = mask(Dialect::Messages);
        let before = [block(0, "text", "ask ann@exam"), between].concat();
        let left = left_of(&mut mask, &before).unwrap();
        // The start of the block and its first word.
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(left[1].contains("\"ask \""), "{left:?}");
        let left = left_of(&mut mask, &block(2, "text", "ple.com now"));
        assert_eq!(left, Err(Unmaskable::Late));
    }
}

#[test]
fn what_waits_behind_a_text_leaves_in_its_order_once_the_text_goes_on_or_the_answer_ends() {
    let end = [
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ];
    let kinds = |left: &[String]| {
        let of = |data: &String| {
            let event = Json::parse(data.as_bytes(), &Limits::FILE).unwrap();
            let kind = event.get("type").and_then(Json::as_str).unwrap();
            kind.rsplit('_').next().unwrap().to_owned()
        };
        left.iter().map(of).collect::<Vec<_>>().join(" ")
    };
    let mut mask = mask(Dialect::Messages);
    let text = [block(0, "text", "I look"), tool_use(1)].concat();
    assert_eq!(kinds(&left_of(&mut mask, &text).unwrap()), "start delta");
    assert!(mask.waiting() > 0);
    let left = left_of(&mut mask, &block(2, "text", " at it")).unwrap();
    assert_eq!(kinds(&left), "delta stop start stop start delta", "{left:?}");
    assert!(left[0].contains("\"look\"") && left[5].contains("\" at \""), "{left:?}");
    let left = left_of(&mut mask, &end).unwrap();
    assert_eq!(kinds(&left), "delta stop delta stop", "{left:?}");
    assert_eq!(mask.waiting(), 0);
}

#[test]
fn a_text_does_not_wait_behind_a_thought_that_ends_with_a_word() {
    for (thought, waits) in [("I see.", false), ("so it is 4111 1111", true)] {
        let mut mask = mask(Dialect::Messages);
        let events = [block(0, "thinking", thought), block(1, "text", "yes it is")].concat();
        let left = left_of(&mut mask, &events).unwrap().concat();
        assert_eq!(!left.contains("yes it "), waits, "{left}");
    }
}

#[test]
fn an_error_of_the_provider_is_told_at_once_and_what_waits_does_not_leave() {
    let mut mask = mask(Dialect::Messages);
    left_of(&mut mask, &block(0, "text", "ask ann@exam")).unwrap();
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
    let left = left_of(&mut mask, std::slice::from_ref(&error)).unwrap();
    assert_eq!(left, [canonical::text(&error)]);
}

#[test]
fn texts_of_one_kind_that_come_in_turns_end_the_answer() {
    let piece = |item: u64| {
        json!({"type": "response.output_text.delta", "output_index": item, "content_index": 0,
            "delta": "word "})
    };
    let mut mask = mask(Dialect::Responses);
    assert!(left_of(&mut mask, &[piece(0), piece(1)]).is_ok(), "an item may end without an event");
    assert_eq!(left_of(&mut mask, &[piece(0)]), Err(Unmaskable::Mixed));
}

#[test]
fn a_text_beside_the_delta_of_a_chunk_does_not_leave() {
    let beside = [
        json!({"choices": [{"index": 0, "delta": {"content": "a "}, "message": {"content": "ann@"}}]}),
        json!({"choices": [{"index": 0, "delta": {}, "text": "ann@"}]}),
        json!({"choices": [], "message": {"content": "ann@"}}),
    ];
    for chunk in &beside {
        let left = mask(Dialect::Chat).event(event(None, chunk));
        assert_eq!(left, Err(Unmaskable::Unscanned), "{chunk:?}");
    }
    let harmless = json!({"citations": ["https://example.com/a"], "choices": [{"index": 0,
        "delta": {}, "message": null, "native_finish_reason": "stop"}]});
    assert_eq!(mask(Dialect::Chat).event(event(None, &harmless)).unwrap().len(), 1);
}

#[test]
fn a_finding_over_two_texts_of_a_whole_answer_ends_it() {
    let mask = mask(Dialect::Messages);
    let over = [("text", "ask ann@exam"), ("thinking", "hm"), ("text", "ple.com now")];
    assert_eq!(mask.joined(&over), Err(Unmaskable::Late));
    let apart = [("text", "ask ann@example.com"), ("text", ". Then "), ("thinking", "go")];
    assert_eq!(mask.joined(&apart), Ok(()));
}
