//! What providers say, in each dialect, and what clients make of it.

use serde_json::{Value, json};

/// Events with names of their types, as `responses` and `messages` have them.
pub fn named(events: &[Value]) -> String {
    let one =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(one).collect()
}

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

/// The dialects with a path, a minimal request and an answer of one text.
pub struct Dialect {
    pub name: &'static str,
    pub path: &'static str,
}

pub const DIALECTS: [Dialect; 3] = [
    Dialect { name: "chat", path: "/v1/chat/completions" },
    Dialect { name: "responses", path: "/v1/responses" },
    Dialect { name: "messages", path: "/v1/messages" },
];
/// The path of a request to Gemini says its model and the form of its answer.
pub const GEMINI: Dialect =
    Dialect { name: "gemini", path: "/v1beta/models/small:generateContent" };
pub const OLLAMA: Dialect = Dialect { name: "ollama", path: "/api/chat" };
/// All of them.
pub const ALL: [&Dialect; 5] = [&DIALECTS[0], &DIALECTS[1], &DIALECTS[2], &GEMINI, &OLLAMA];

/// The events of Gemini with these lists of parts; the last one ends the answer.
pub fn contents(lists: &[Value]) -> Vec<Value> {
    let last = lists.len() - 1;
    let one = |(number, parts): (usize, &Value)| {
        let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
        if number == last {
            candidate["finishReason"] = json!("STOP");
        }
        json!({"candidates": [candidate], "usageMetadata": {"promptTokenCount": 12,
            "candidatesTokenCount": 3, "totalTokenCount": 15}, "modelVersion": "small-2026",
            "responseId": "r1"})
    };
    lists.iter().enumerate().map(one).collect()
}

/// Events without names.
pub fn unnamed(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

/// A part with a tool call and its signature. A call of an empty id has none.
pub fn call_part((id, name, arguments): &(&str, &str, &str)) -> Value {
    let args: Value = serde_json::from_str(arguments).unwrap();
    let mut call = json!({"name": name, "args": args});
    if !id.is_empty() {
        call["id"] = json!(id);
    }
    json!({"functionCall": call, "thoughtSignature": format!("sig+{id}==")})
}

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
pub fn local_call((id, name, arguments): &(&str, &str, &str)) -> Value {
    let arguments: Value = serde_json::from_str(arguments).unwrap();
    let mut call = json!({"function": {"name": name, "arguments": arguments}});
    if !id.is_empty() {
        call["id"] = json!(id);
    }
    call
}

impl Dialect {
    /// The path and the body of a request. WHY here: that of Gemini has its model and the form of its
    /// answer in the path.
    pub fn placed(&self, request: &Value) -> (String, String) {
        if self.name != "gemini" {
            return (self.path.to_owned(), request.to_string());
        }
        let mut body = request.clone();
        let model = body["model"].as_str().unwrap().to_owned();
        let action = match body["stream"] == true {
            true => "streamGenerateContent?alt=sse",
            false => "generateContent",
        };
        body.as_object_mut().unwrap().retain(|name, _| name != "model" && name != "stream");
        (format!("/v1beta/models/{model}:{action}"), body.to_string())
    }

    /// The media type of its streams.
    pub fn media_type(&self) -> &'static str {
        if self.name == "ollama" { "application/x-ndjson" } else { "text/event-stream" }
    }

    /// What ends an event of its streams.
    pub fn event_end(&self) -> &'static str {
        if self.name == "ollama" { "\n" } else { "\n\n" }
    }

    /// Where an event of this stream ends that has this text.
    pub fn end_of(&self, stream: &str, text: &str) -> usize {
        let at = stream.find(text).unwrap();
        at + stream[at..].find(self.event_end()).unwrap() + self.event_end().len()
    }

    /// A request of this text, with the system's instructions.
    pub fn request(&self, text: &str, stream: bool) -> Value {
        match self.name {
            "gemini" => json!({"model": "small", "stream": stream,
                "systemInstruction": {"parts": [{"text": super::gate::INSTRUCTIONS}]},
                "contents": [{"role": "user", "parts": [{"text": text}]}]}),
            "ollama" => json!({"model": "small", "stream": stream, "messages": [
                {"role": "system", "content": super::gate::INSTRUCTIONS}, {"role": "user", "content": text}]}),
            "chat" => json!({"model": "small", "stream": stream, "messages": [
                {"role": "system", "content": super::gate::INSTRUCTIONS}, {"role": "user", "content": text}]}),
            "responses" => json!({"model": "small", "stream": stream,
                "instructions": super::gate::INSTRUCTIONS, "input": [{"role": "user", "content": text}]}),
            _ => json!({"model": "small", "stream": stream, "max_tokens": 100,
                "system": super::gate::INSTRUCTIONS, "messages": [{"role": "user", "content": text}]}),
        }
    }

    /// The same, which offers these functions.
    pub fn offering(&self, text: &str, stream: bool, names: &[&str]) -> Value {
        let mut request = self.request(text, stream);
        let parameters = json!({"type": "object", "properties": {}});
        let description = |name: &str| match name {
            "work_do" => "does work".to_owned(),
            other => format!("the agent's own {other}"),
        };
        let tools = names.iter().map(|name| match self.name {
            "gemini" => json!({"name": name, "description": description(name),
                "parameters": parameters}),
            "chat" | "ollama" => json!({"type": "function", "function": {"name": name, "description": description(name),
                "parameters": parameters}}),
            "responses" => json!({"type": "function", "name": name, "description": description(name),
                "parameters": parameters, "strict": false}),
            _ => json!({"name": name, "description": description(name), "input_schema": parameters}),
        });
        request["tools"] = tools.collect();
        if self.name == "gemini" {
            request["tools"] = json!([{"functionDeclarations": request["tools"]}]);
        }
        request
    }

    /// The request after an answer with this tool call, with the result that the agent gives it.
    pub fn followed(
        &self,
        request: &Value,
        (id, name, arguments): (&str, &str, &str),
        result: &str,
    ) -> Value {
        let mut next = request.clone();
        let items = match self.name {
            "gemini" => {
                let mut response = json!({"name": name, "response": {"result": result}});
                if !id.is_empty() {
                    response["id"] = json!(id);
                }
                [
                    json!({"role": "model", "parts": [{"text": "look"}, call_part(&(id, name, arguments))]}),
                    json!({"role": "user", "parts": [{"functionResponse": response}]}),
                ]
            }
            "ollama" => [
                json!({"role": "assistant", "content": "look",
                    "tool_calls": [local_call(&(id, name, arguments))]}),
                json!({"role": "tool", "tool_name": name, "content": result}),
            ],
            "chat" => [
                json!({"role": "assistant", "content": "look", "tool_calls": [{"id": id, "type": "function",
                    "function": {"name": name, "arguments": arguments}}]}),
                json!({"role": "tool", "tool_call_id": id, "content": result}),
            ],
            "responses" => [
                function_call(id, name, arguments),
                json!({"type": "function_call_output", "call_id": id, "output": result}),
            ],
            _ => {
                let input: Value = serde_json::from_str(arguments).unwrap();
                [
                    json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": input}]}),
                    json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": result}]}),
                ]
            }
        };
        let list = match self.name {
            "responses" => "input",
            "gemini" => "contents",
            _ => "messages",
        };
        next[list].as_array_mut().unwrap().extend(items);
        next
    }

    /// An answer of this text and these tool calls `(id, name, arguments)`.
    pub fn streamed(&self, text: &str, calls: &[(&str, &str, &str)]) -> String {
        match self.name {
            "gemini" => {
                let mut lists = vec![json!([{"text": text}])];
                lists.extend(calls.iter().map(|call| json!([call_part(call)])));
                lists.push(json!([{"text": ""}]));
                unnamed(&contents(&lists))
            }
            "ollama" => {
                let message = |content: &str| json!({"role": "assistant", "content": content});
                let mut messages = vec![message(text)];
                messages.extend(calls.iter().map(|call| {
                    json!({"role": "assistant", "content": "", "tool_calls": [local_call(call)]})
                }));
                messages.push(message(""));
                lines(&messages)
            }
            "chat" => {
                let mut deltas = vec![json!({"role": "assistant", "content": text})];
                for (index, (id, name, arguments)) in (0..).zip(calls) {
                    deltas.extend(chat_call(index, id, name, arguments));
                }
                chunks(&deltas, if calls.is_empty() { "stop" } else { "tool_calls" })
            }
            "responses" => {
                let mut items = vec![output_text(text)];
                items.extend(calls.iter().map(|(id, name, args)| function_call(id, name, args)));
                named(&response_events(&items))
            }
            _ => {
                let mut blocks = vec![json!({"type": "text", "text": text})];
                blocks.extend(calls.iter().map(|(id, name, args)| {
                    let input: Value = serde_json::from_str(args).unwrap();
                    json!({"type": "tool_use", "id": id, "name": name, "input": input})
                }));
                named(&message_events(
                    &blocks,
                    if calls.is_empty() { "end_turn" } else { "tool_use" },
                ))
            }
        }
    }

    /// The same in one piece.
    pub fn whole(&self, text: &str, calls: &[(&str, &str, &str)]) -> Value {
        match self.name {
            "gemini" => {
                let mut parts = vec![json!({"text": text})];
                parts.extend(calls.iter().map(call_part));
                contents(&[json!(parts)]).pop().unwrap()
            }
            "ollama" => {
                let mut message = json!({"role": "assistant", "content": text});
                if !calls.is_empty() {
                    message["tool_calls"] = calls.iter().map(local_call).collect();
                }
                serde_json::from_str(&lines(&[message])).unwrap()
            }
            "chat" => {
                let mut message = json!({"role": "assistant", "content": text});
                let call = |(id, name, args): &(&str, &str, &str)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": args}});
                if !calls.is_empty() {
                    message["tool_calls"] = calls.iter().map(call).collect();
                }
                completion(message, if calls.is_empty() { "stop" } else { "tool_calls" })
            }
            "responses" => {
                let mut items = vec![output_text(text)];
                items.extend(calls.iter().map(|(id, name, args)| function_call(id, name, args)));
                response_events(&items).pop().unwrap()["response"].clone()
            }
            _ => {
                let mut content = vec![json!({"type": "text", "text": text})];
                content.extend(calls.iter().map(|(id, name, args)| {
                    let input: Value = serde_json::from_str(args).unwrap();
                    json!({"type": "tool_use", "id": id, "name": name, "input": input})
                }));
                json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "small-2026",
                    "content": content, "stop_sequence": null,
                    "stop_reason": if calls.is_empty() { "end_turn" } else { "tool_use" },
                    "usage": {"input_tokens": 12, "output_tokens": 3}})
            }
        }
    }

    /// What a client makes of a stream: its text, its tool calls (name and arguments), and whether
    /// the stream has its end.
    pub fn read(&self, body: &str) -> (String, Vec<(String, Value)>, bool) {
        let front = if self.name == "ollama" { "{" } else { "data: " };
        let at = if self.name == "ollama" { 0 } else { front.len() };
        let whole = body.lines().map(str::trim_start).filter(|line| line.starts_with(front));
        let data = whole.map(|line| &line[at..]);
        let (mut text, mut calls, mut ended) = (String::new(), Vec::new(), false);
        for data in data {
            if data == "[DONE]" {
                ended = true;
                continue;
            }
            let event: Value = serde_json::from_str(data).unwrap();
            match self.name {
                "gemini" => {
                    let candidate = &event["candidates"][0];
                    for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
                        let said = part["text"].as_str().filter(|_| part["thought"] != true);
                        text.push_str(said.unwrap_or_default());
                        if let Some(name) = part["functionCall"]["name"].as_str() {
                            calls.push((name.to_owned(), part["functionCall"]["args"].clone()));
                        }
                    }
                    ended |= candidate["finishReason"].is_string();
                }
                "ollama" => {
                    let message = &event["message"];
                    text.push_str(message["content"].as_str().unwrap_or_default());
                    for call in message["tool_calls"].as_array().into_iter().flatten() {
                        let function = &call["function"];
                        calls.push((string(&function["name"]), function["arguments"].clone()));
                    }
                    ended |= event["done"] == true;
                }
                "chat" => {
                    let delta = &event["choices"][0]["delta"];
                    text.push_str(delta["content"].as_str().unwrap_or_default());
                    for call in delta["tool_calls"].as_array().into_iter().flatten() {
                        let function = &call["function"];
                        calls.push((string(&function["name"]), parsed(&function["arguments"])));
                    }
                }
                "responses" => {
                    text.push_str(match event["type"].as_str().unwrap() {
                        "response.output_text.delta" => event["delta"].as_str().unwrap(),
                        _ => "",
                    });
                    let item = &event["item"];
                    if event["type"] == "response.output_item.done"
                        && item["type"] == "function_call"
                    {
                        calls.push((string(&item["name"]), parsed(&item["arguments"])));
                    }
                    ended |= event["type"] == "response.completed";
                }
                _ => {
                    let block = &event["content_block"];
                    if block["type"] == "tool_use" {
                        calls.push((string(&block["name"]), Value::Null));
                    }
                    let delta = &event["delta"];
                    text.push_str(delta["text"].as_str().unwrap_or_default());
                    if let Some(json) = delta["partial_json"].as_str() {
                        calls.last_mut().unwrap().1 = serde_json::from_str(json).unwrap();
                    }
                    ended |= event["type"] == "message_stop";
                }
            }
        }
        (text, calls, ended)
    }
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn parsed(arguments: &Value) -> Value {
    serde_json::from_str(arguments.as_str().unwrap_or_default()).unwrap_or(Value::Null)
}
