//! OpenAI's responses.

use serde_json::{Value, json};

use super::{Call, Heard, Words, named, parsed, string};

/// The dialect.
pub struct Responses;

/// The events of an answer in `responses`: items of output.
pub fn response_events(items: &[Value]) -> Vec<Value> {
    let response = |status: &str, output: Value| {
        json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "small-2026",
            "output": output, "usage": {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15}})
    };
    let mut events =
        vec![json!({"type": "response.created", "response": response("in_progress", json!([]))})];
    for (at, item) in items.iter().enumerate() {
        let added = |item: Value| json!({"type": "response.output_item.added", "output_index": at, "item": item});
        match item["type"].as_str().unwrap() {
            "function_call" => {
                let mut begun = item.clone();
                begun["arguments"] = json!("");
                events.push(added(begun));
                let arguments = item["arguments"].as_str().unwrap();
                let (first, second) = arguments.split_at(arguments.len() / 2);
                for part in [first, second] {
                    events.push(json!({"type": "response.function_call_arguments.delta",
                        "item_id": item["id"], "output_index": at, "delta": part}));
                }
                events.push(json!({"type": "response.function_call_arguments.done",
                    "item_id": item["id"], "output_index": at, "arguments": arguments}));
            }
            _ => {
                let mut begun = item.clone();
                begun["content"] = json!([]);
                events.push(added(begun));
                let text = &item["content"][0]["text"];
                events.push(json!({"type": "response.output_text.delta", "item_id": item["id"],
                    "output_index": at, "content_index": 0, "delta": text}));
                events.push(json!({"type": "response.output_text.done", "item_id": item["id"],
                    "output_index": at, "content_index": 0, "text": text}));
            }
        }
        events.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    }
    events.push(
        json!({"type": "response.completed", "response": response("completed", json!(items))}),
    );
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events
}

/// A message of output with this text.
pub fn output_text(text: &str) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

/// A function call of output.
pub fn function_call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": format!("fc_{id}"), "type": "function_call", "status": "completed", "call_id": id,
        "name": name, "arguments": arguments})
}

/// A text and the calls behind it.
fn items(text: &str, calls: &[Call<'_>]) -> Vec<Value> {
    let calls = calls.iter().map(|(id, name, arguments)| function_call(id, name, arguments));
    std::iter::once(output_text(text)).chain(calls).collect()
}

impl Words for Responses {
    fn api(&self) -> &'static str {
        "openai.responses"
    }

    fn list(&self) -> &'static str {
        "input"
    }

    fn beside(&self) -> Option<&'static str> {
        Some("instructions")
    }

    fn request(&self, prompt: &[&str], said: &[Value], stream: bool) -> Value {
        let (first, more) = prompt.split_first().unwrap();
        let developer = |text: &&str| json!({"role": "developer", "content": text});
        let input: Vec<Value> = more.iter().map(developer).chain(said.iter().cloned()).collect();
        json!({"model": "small", "stream": stream, "instructions": first, "input": input})
    }

    fn question(&self, text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    fn echoed(&self, text: &str) -> Value {
        output_text(text)
    }

    fn tool(&self, name: &str, description: &str, parameters: &Value) -> Value {
        json!({"type": "function", "name": name, "description": description,
            "parameters": parameters, "strict": false})
    }

    fn turn(&self, (id, name, arguments): Call<'_>, result: &str) -> [Value; 2] {
        [
            function_call(id, name, arguments),
            json!({"type": "function_call_output", "call_id": id, "output": result}),
        ]
    }

    fn streamed(&self, text: &str, calls: &[Call<'_>]) -> String {
        named(&response_events(&items(text, calls)))
    }

    fn whole(&self, text: &str, calls: &[Call<'_>]) -> Value {
        response_events(&items(text, calls)).pop().unwrap()["response"].clone()
    }

    fn around_a_call(
        &self,
        (first, second): (&str, &str),
        (id, name, arguments): Call<'_>,
    ) -> String {
        let call = function_call(id, name, arguments);
        named(&response_events(&[output_text(first), call, output_text(second)]))
    }

    fn has_blocks(&self) -> bool {
        true
    }

    fn hear(&self, event: &Value, heard: &mut Heard) {
        if event["type"] == "response.output_text.delta" {
            heard.text.push_str(event["delta"].as_str().unwrap());
        }
        let item = &event["item"];
        if event["type"] == "response.output_item.done" && item["type"] == "function_call" {
            heard.calls.push((string(&item["name"]), parsed(&item["arguments"])));
        }
        heard.ended |= event["type"] == "response.completed";
    }
}
