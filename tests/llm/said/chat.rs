//! OpenAI's chat completions.

use serde_json::{Value, json};

use super::{Call, Heard, Words, parsed, string};

/// The dialect.
pub struct Chat;

/// Chunks of a chat and their end.
pub fn chunks(deltas: &[Value], finish: &str) -> String {
    let chunk = |delta: &Value, finish: Value| {
        json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "small-2026",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    let usage = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "small-2026",
        "choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}});
    let mut text: String =
        deltas.iter().map(|delta| format!("data: {}\n\n", chunk(delta, Value::Null))).collect();
    text.push_str(&format!("data: {}\n\n", chunk(&json!({}), json!(finish))));
    text.push_str(&format!("data: {usage}\n\ndata: [DONE]\n\n"));
    text
}

/// The deltas of a tool call of a chat.
pub fn chat_call(index: u64, id: &str, name: &str, arguments: &str) -> Vec<Value> {
    let (first, second) = arguments.split_at(arguments.len() / 2);
    let call = |more: Value| {
        let mut call = more;
        call["index"] = json!(index);
        json!({"tool_calls": [call]})
    };
    vec![
        call(json!({"id": id, "type": "function", "function": {"name": name, "arguments": ""}})),
        call(json!({"function": {"arguments": first}})),
        call(json!({"function": {"arguments": second}})),
    ]
}

/// A whole answer of a chat.
pub fn completion(message: Value, finish: &str) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "small-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}})
}

fn finish(calls: &[Call<'_>]) -> &'static str {
    if calls.is_empty() { "stop" } else { "tool_calls" }
}

impl Words for Chat {
    fn api(&self) -> &'static str {
        "openai"
    }

    fn request(&self, prompt: &[&str], said: &[Value], stream: bool) -> Value {
        let system = |text: &&str| json!({"role": "system", "content": text});
        let messages: Vec<Value> = prompt.iter().map(system).chain(said.iter().cloned()).collect();
        json!({"model": "small", "stream": stream, "messages": messages})
    }

    fn question(&self, text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    fn echoed(&self, text: &str) -> Value {
        json!({"role": "assistant", "content": text})
    }

    fn tool(&self, name: &str, description: &str, parameters: &Value) -> Value {
        json!({"type": "function", "function": {"name": name, "description": description,
            "parameters": parameters}})
    }

    fn turn(&self, (id, name, arguments): Call<'_>, result: &str) -> [Value; 2] {
        [
            json!({"role": "assistant", "content": "look", "tool_calls": [{"id": id, "type": "function",
                "function": {"name": name, "arguments": arguments}}]}),
            json!({"role": "tool", "tool_call_id": id, "content": result}),
        ]
    }

    fn streamed(&self, text: &str, calls: &[Call<'_>]) -> String {
        let mut deltas = vec![json!({"role": "assistant", "content": text})];
        for (index, (id, name, arguments)) in (0..).zip(calls) {
            deltas.extend(chat_call(index, id, name, arguments));
        }
        chunks(&deltas, finish(calls))
    }

    fn whole(&self, text: &str, calls: &[Call<'_>]) -> Value {
        let mut message = json!({"role": "assistant", "content": text});
        let call = |(id, name, args): &Call<'_>| json!({"id": id, "type": "function", "function": {"name": name, "arguments": args}});
        if !calls.is_empty() {
            message["tool_calls"] = calls.iter().map(call).collect();
        }
        completion(message, finish(calls))
    }

    fn around_a_call(
        &self,
        (first, second): (&str, &str),
        (id, name, arguments): Call<'_>,
    ) -> String {
        let mut deltas = vec![json!({"role": "assistant", "content": first})];
        deltas.extend(chat_call(0, id, name, arguments));
        deltas.push(json!({"content": second}));
        chunks(&deltas, "tool_calls")
    }

    fn hear(&self, event: &Value, heard: &mut Heard) {
        let delta = &event["choices"][0]["delta"];
        heard.text.push_str(delta["content"].as_str().unwrap_or_default());
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            heard.calls.push((string(&function["name"]), parsed(&function["arguments"])));
        }
    }
}
