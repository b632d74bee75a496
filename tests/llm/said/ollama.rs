//! Ollama's chat: a line for each piece of an answer.

use serde_json::{Value, json};

use super::{Call, Heard, Words, string};

/// The dialect.
pub struct Ollama;

/// The lines of Ollama with these messages; the last one ends the answer.
pub fn lines(messages: &[Value]) -> String {
    let last = messages.len() - 1;
    let one = |(number, message): (usize, &Value)| {
        let mut line = json!({"model": "small-2026", "created_at": "2026-11-01T00:00:00Z",
            "message": message, "done": number == last});
        if number == last {
            line["done_reason"] = json!("stop");
            line["prompt_eval_count"] = json!(12);
            line["eval_count"] = json!(3);
        }
        format!("{line}\n")
    };
    messages.iter().enumerate().map(one).collect()
}

/// A tool call of Ollama.
pub fn local_call((id, name, arguments): &Call<'_>) -> Value {
    let arguments: Value = serde_json::from_str(arguments).unwrap();
    let mut call = json!({"function": {"name": name, "arguments": arguments}});
    if !id.is_empty() {
        call["id"] = json!(id);
    }
    call
}

fn message(content: &str) -> Value {
    json!({"role": "assistant", "content": content})
}

impl Words for Ollama {
    fn api(&self) -> &'static str {
        "ollama"
    }

    fn base(&self) -> &'static str {
        ""
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
        message(text)
    }

    fn tool(&self, name: &str, description: &str, parameters: &Value) -> Value {
        json!({"type": "function", "function": {"name": name, "description": description,
            "parameters": parameters}})
    }

    fn turn(&self, call: Call<'_>, result: &str) -> [Value; 2] {
        [
            json!({"role": "assistant", "content": "look", "tool_calls": [local_call(&call)]}),
            json!({"role": "tool", "tool_name": call.1, "content": result}),
        ]
    }

    fn streamed(&self, text: &str, calls: &[Call<'_>]) -> String {
        let mut messages = vec![message(text)];
        messages.extend(calls.iter().map(
            |call| json!({"role": "assistant", "content": "", "tool_calls": [local_call(call)]}),
        ));
        messages.push(message(""));
        lines(&messages)
    }

    fn whole(&self, text: &str, calls: &[Call<'_>]) -> Value {
        let mut whole = message(text);
        if !calls.is_empty() {
            whole["tool_calls"] = calls.iter().map(local_call).collect();
        }
        serde_json::from_str(&lines(&[whole])).unwrap()
    }

    fn around_a_call(&self, (first, second): (&str, &str), call: Call<'_>) -> String {
        let mut begun = message(first);
        begun["tool_calls"] = json!([local_call(&call)]);
        lines(&[begun, message(second)])
    }

    fn media_type(&self) -> &'static str {
        "application/x-ndjson"
    }

    fn event_end(&self) -> &'static str {
        "\n"
    }

    fn front(&self) -> &'static str {
        ""
    }

    fn is_piece(&self, _event: &str) -> bool {
        true
    }

    fn has_comments(&self) -> bool {
        false
    }

    fn needs_ids(&self) -> bool {
        false
    }

    fn hear(&self, event: &Value, heard: &mut Heard) {
        let message = &event["message"];
        heard.text.push_str(message["content"].as_str().unwrap_or_default());
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            heard.calls.push((string(&function["name"]), function["arguments"].clone()));
        }
        heard.ended |= event["done"] == true;
    }
}
