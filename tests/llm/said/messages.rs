//! Anthropic's messages.

use serde_json::{Value, json};

use super::{Call, Heard, Words, named, string};

/// The dialect.
pub struct Messages;

/// The events of an answer in `messages`: blocks of text or of tool calls.
pub fn message_events(blocks: &[Value], stop: &str) -> Vec<Value> {
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message",
        "role": "assistant", "model": "small-2026", "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 12, "output_tokens": 1}}}),
    ];
    for (index, block) in blocks.iter().enumerate() {
        let delta =
            |delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        if let Some(text) = block["text"].as_str() {
            events.push(json!({"type": "content_block_start", "index": index,
                "content_block": {"type": "text", "text": ""}}));
            events.push(delta(json!({"type": "text_delta", "text": text})));
        } else {
            let mut empty = block.clone();
            empty["input"] = json!({});
            events.push(
                json!({"type": "content_block_start", "index": index, "content_block": empty}),
            );
            let input = block["input"].to_string();
            let (first, second) = input.split_at(input.len() / 2);
            for part in [first, second] {
                events.push(delta(json!({"type": "input_json_delta", "partial_json": part})));
            }
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
        "usage": {"output_tokens": 3}}),
    );
    events.push(json!({"type": "message_stop"}));
    events
}

fn stop(calls: &[Call<'_>]) -> &'static str {
    if calls.is_empty() { "end_turn" } else { "tool_use" }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn tool_use((id, name, arguments): &Call<'_>) -> Value {
    let input: Value = serde_json::from_str(arguments).unwrap();
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

/// A text and the calls behind it.
fn blocks(text: &str, calls: &[Call<'_>]) -> Vec<Value> {
    std::iter::once(text_block(text)).chain(calls.iter().map(tool_use)).collect()
}

impl Words for Messages {
    fn api(&self) -> &'static str {
        "anthropic"
    }

    fn beside(&self) -> Option<&'static str> {
        Some("system")
    }

    fn request(&self, prompt: &[&str], said: &[Value], stream: bool) -> Value {
        let system = match prompt {
            [only] => json!(only),
            several => several.iter().map(|text| text_block(text)).collect(),
        };
        json!({"model": "small", "stream": stream, "max_tokens": 100, "system": system,
            "messages": said})
    }

    fn question(&self, text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    fn echoed(&self, text: &str) -> Value {
        json!({"role": "assistant", "content": [text_block(text)]})
    }

    fn tool(&self, name: &str, description: &str, parameters: &Value) -> Value {
        json!({"name": name, "description": description, "input_schema": parameters})
    }

    fn turn(&self, call: Call<'_>, result: &str) -> [Value; 2] {
        [
            json!({"role": "assistant", "content": [tool_use(&call)]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.0,
                "content": result}]}),
        ]
    }

    fn streamed(&self, text: &str, calls: &[Call<'_>]) -> String {
        named(&message_events(&blocks(text, calls), stop(calls)))
    }

    fn whole(&self, text: &str, calls: &[Call<'_>]) -> Value {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "small-2026",
            "content": blocks(text, calls), "stop_sequence": null, "stop_reason": stop(calls),
            "usage": {"input_tokens": 12, "output_tokens": 3}})
    }

    fn around_a_call(&self, (first, second): (&str, &str), call: Call<'_>) -> String {
        let blocks = [text_block(first), tool_use(&call), text_block(second)];
        named(&message_events(&blocks, "tool_use"))
    }

    fn has_blocks(&self) -> bool {
        true
    }

    fn hear(&self, event: &Value, heard: &mut Heard) {
        let block = &event["content_block"];
        if block["type"] == "tool_use" {
            heard.calls.push((string(&block["name"]), Value::Null));
        }
        let delta = &event["delta"];
        heard.text.push_str(delta["text"].as_str().unwrap_or_default());
        if let Some(json) = delta["partial_json"].as_str() {
            heard.calls.last_mut().unwrap().1 = serde_json::from_str(json).unwrap();
        }
        heard.ended |= event["type"] == "message_stop";
    }
}
