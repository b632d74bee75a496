//! The same answer however the bytes come, and whatever stands between the events.

use proptest::prelude::*;

use super::{chat, gemini, messages, ollama, responses, *};

const DECISIONS: [&[Decision]; 4] =
    [&[], &[Decision::Call], &[Decision::Text, Decision::Call], &[Decision::Text; 4]];

fn answers() -> [(Dialect, String); 5] {
    [
        (Dialect::Chat, chat::parallel()),
        (Dialect::Messages, messages::parallel()),
        (Dialect::Responses, responses::parallel()),
        (Dialect::Gemini, gemini::parallel()),
        (Dialect::Ollama, ollama::parallel()),
    ]
}

/// What ends an event.
fn end_of(dialect: Dialect) -> &'static str {
    if dialect == Dialect::Ollama { "\n" } else { "\n\n" }
}

/// The answers that come as events.
fn events() -> impl Iterator<Item = (Dialect, String)> {
    answers().into_iter().filter(|(dialect, _)| *dialect != Dialect::Ollama)
}

#[test]
fn a_stream_that_is_cut_at_any_byte_is_the_same() {
    let rules = AnswerRules::default();
    for (dialect, text) in answers() {
        for decisions in DECISIONS {
            let whole = run(dialect, &text, decisions);
            for size in [1, 7, 64] {
                let bytes: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
                assert_eq!(read(dialect, &rules, &bytes, decisions).unwrap(), whole);
            }
        }
    }
}

#[test]
fn a_stream_that_breaks_off_anywhere_has_no_end() {
    for (dialect, text) in answers() {
        // An event is none before its blank line: what comes of it before that changes nothing.
        let mut cut = String::new();
        for event in text.split_inclusive(end_of(dialect)) {
            cut.push_str(event.strip_suffix('\n').unwrap());
            assert_eq!(failure(dialect, &cut), AnswerError::Cut, "{dialect:?} after {cut}");
            cut.push('\n');
        }
    }
}

#[test]
fn what_leaves_is_read_like_what_came_without_the_denied_calls() {
    for (dialect, text) in answers() {
        for decisions in DECISIONS {
            let first = run(dialect, &text, decisions);
            let again = run(dialect, &(first.out.clone() + &first.end), &[]);
            assert_eq!((&again.out, &again.end), (&first.out, &first.end));
            assert_eq!(again.json(), first.json());
            assert_eq!(again.assembled.text, first.assembled.text);
            let names: Vec<_> = again.calls.iter().map(|call| call.name.clone()).collect();
            let expected = first.calls.iter().filter_map(|call| {
                match decisions.get(call.index).unwrap_or(&Decision::Allow) {
                    Decision::Allow | Decision::With(_) => Some(call.name.clone()),
                    Decision::Call => Some(DENIED_NAME.to_owned()),
                    Decision::Text => None,
                }
            });
            assert_eq!(names, expected.collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_stream_that_lacks_an_event_never_gives_another_call() {
    // Whatever is missing, a call that leaves is one that the provider wrote.
    for (dialect, text) in answers() {
        let known: Vec<AnsweredCall> = run(dialect, &text, &[]).calls;
        let events: Vec<&str> = text.split_inclusive(end_of(dialect)).collect();
        for missing in 0..events.len() {
            let rest = [&events[..missing], &events[missing + 1..]].concat().concat();
            let Ok(run) = read(dialect, &AnswerRules::default(), &[rest.as_bytes()], &[]) else {
                continue;
            };
            for call in &run.calls {
                let same = |known: &AnsweredCall| known.id == call.id && known.name == call.name;
                // Chat and messages do not repeat arguments: nobody can know that a piece is missing, but it is judged
                // what leaves.
                assert!(known.iter().any(same) || call.id.is_empty(), "{call:?}");
            }
        }
    }
}

#[test]
fn line_ends_comments_and_a_mark_change_nothing() {
    for (dialect, text) in events() {
        let plain = run(dialect, &text, &[]);
        for end in ["\r\n", "\r"] {
            assert_eq!(run(dialect, &text.replace('\n', end), &[]), plain);
        }
        let commented =
            format!("\u{feff}{}", text.replace("\n\n", "\n: keep-alive\nretry: 9\nid: 7\n\n:\n\n"));
        assert_eq!(run(dialect, &commented, &[]), plain);
    }
}

#[test]
fn data_over_several_lines_is_one_document() {
    for (dialect, text) in events() {
        // After each first comma; the line break is a space of JSON.
        let broken: String = text
            .split_inclusive('\n')
            .map(|line| match line.split_once(",\"") {
                Some((before, behind)) if line.starts_with("data: {") => {
                    format!("{before},\ndata: \"{behind}")
                }
                _ => line.to_owned(),
            })
            .collect();
        let (plain, run) = (run(dialect, &text, &[]), run(dialect, &broken, &[]));
        assert_eq!(run.values(), plain.values());
        assert_eq!(run.json(), plain.json());
        assert_eq!(run.calls, plain.calls);
    }
}

#[test]
fn what_nobody_knows_passes_unless_it_could_act() {
    let fine = "data: {\"type\":\"x.y\",\"note\":{\"text\":\"psst\"}}\n\n";
    let acts = [
        "data: {\"type\":\"x.y\",\"note\":[{\"partial_json\":\"{}\"}]}\n\n",
        "data: {\"type\":\"x.y\",\"tool_calls\":[{\"id\":1}]}\n\n",
        "data: {\"type\":\"x.y\",\"note\":{\"name\":\"bash\"}}\n\n",
    ];
    for (dialect, text) in events() {
        let (first, rest) = text.split_once("\n\n").unwrap();
        let with = |event: &str| format!("{first}\n\n{event}{rest}");
        let run = run(dialect, &with(fine), &[]);
        assert!(run.out.contains("psst"), "{dialect:?}");
        for event in acts {
            let error = failure(dialect, &with(event));
            assert!(matches!(error, AnswerError::Acting { .. }), "{dialect:?}: {error}");
        }
    }
}

#[test]
fn what_is_no_strict_json_ends_the_stream() {
    for (dialect, text) in events() {
        let (first, rest) = text.split_once("\n\n").unwrap();
        for (data, code) in [
            ("<html>", "json.syntax"),
            ("{\"type\":\"ping\",\"type\":\"ping\"}", "json.duplicate_key"),
            ("{\"type\":\"ping\",\"text\":\"\\ud83d\"}", "json.lone_surrogate"),
            ("{} {}", "json.trailing_data"),
        ] {
            let error = failure(dialect, &format!("{first}\n\ndata: {data}\n\n{rest}"));
            assert_eq!(error, AnswerError::NotJson(code), "{dialect:?}");
        }
        assert_eq!(
            whole(dialect, b"<html>", AnswerRules::default()).unwrap_err().detail(),
            "protocol"
        );
        let wrong = whole(dialect, &[0xFF], AnswerRules::default()).unwrap_err();
        assert_eq!(wrong, AnswerError::NotJson("json.utf8"));
    }
}

#[test]
fn a_call_has_a_bound() {
    let long = "x".repeat(CALL_BYTES_MAX / 2 + 9);
    let piece = |index: &str| {
        chat::chunk(
            &format!(
                r#"{{"tool_calls":[{{"index":0,{index}"function":{{"arguments":"{long}"}}}}]}}"#
            ),
            None,
        )
    };
    let text = piece("\"id\":\"a\",") + &piece("");
    assert_eq!(failure(Dialect::Chat, &text), AnswerError::CallTooLarge);
}

/// A text in pieces.
fn pieces() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[a-zé😀\"\\\\ {}:,\n]{0,6}", 0..6)
}

proptest! {
    #[test]
    fn however_a_model_cuts_its_texts_and_arguments_they_are_the_same(
        text in pieces(), arguments in pieces(), cut in 1_usize..64,
    ) {
        let (whole_text, whole_arguments) = (text.concat(), arguments.concat());
        let mut stream = vec![chat::chunk(r#"{"role":"assistant"}"#, None)];
        stream.extend(text.iter().map(|t| chat::chunk(&format!("{{\"content\":{}}}", quoted(t)), None)));
        let mut head = r#""id":"t","function":{"name":"f","arguments":"#.to_owned();
        for piece in arguments.iter().map(String::as_str).chain([""]) {
            let piece = format!("{{\"tool_calls\":[{{\"index\":0,{head}{}}}}}]}}", quoted(piece));
            stream.push(chat::chunk(&piece, None));
            head = r#""function":{"arguments":"#.to_owned();
        }
        stream.push(chat::chunk("{}", Some("tool_calls")));
        stream.push(chat::DONE.into());
        let stream = stream.concat();
        let bytes: Vec<&[u8]> = stream.as_bytes().chunks(cut).collect();
        let run = read(Dialect::Chat, &AnswerRules::default(), &bytes, &[]).unwrap();
        prop_assert_eq!(&run.text, &whole_text);
        prop_assert_eq!(&run.calls[0].arguments, &whole_arguments);
        let body = format!(
            r#"{{"id":"c1","object":"chat.completion","created":7,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":{},"tool_calls":[{{"id":"t","type":"function","function":{{"name":"f","arguments":{}}}}}]}},"finish_reason":"tool_calls"}}]}}"#,
            if text.is_empty() { "null".into() } else { quoted(&whole_text) }, quoted(&whole_arguments),
        );
        let whole = whole_run(Dialect::Chat, &body, &[]);
        prop_assert_eq!(run.json(), parse(&body).unwrap());
        prop_assert_eq!(whole.text, run.assembled.text);
    }

    #[test]
    fn bytes_that_are_anything_break_no_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Messages] {
            let _ = whole(dialect, &bytes, AnswerRules::default());
            let _ = read(dialect, &AnswerRules::default(), &[&bytes], &[]);
        }
    }
}
