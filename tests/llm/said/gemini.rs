//! Google's Gemini. The path of a request says its model and the form of its answer.

use serde_json::{Value, json};

use super::{Call, Heard, Words, unnamed};

/// The dialect.
pub struct Gemini;

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

/// A part with a tool call and its signature. A call of an empty id has none.
pub fn call_part((id, name, arguments): &Call<'_>) -> Value {
    let args: Value = serde_json::from_str(arguments).unwrap();
    let mut call = json!({"name": name, "args": args});
    if !id.is_empty() {
        call["id"] = json!(id);
    }
    json!({"functionCall": call, "thoughtSignature": format!("sig+{id}==")})
}

impl Words for Gemini {
    fn api(&self) -> &'static str {
        "gemini"
    }

    fn base(&self) -> &'static str {
        "/v1beta"
    }

    fn list(&self) -> &'static str {
        "contents"
    }

    fn beside(&self) -> Option<&'static str> {
        Some("systemInstruction")
    }

    fn placed(&self, _path: &str, request: &Value) -> (String, String) {
        let mut body = request.clone();
        let model = body["model"].as_str().unwrap().to_owned();
        let action = match body["stream"] == true {
            true => "streamGenerateContent?alt=sse",
            false => "generateContent",
        };
        body.as_object_mut().unwrap().retain(|name, _| name != "model" && name != "stream");
        (format!("/v1beta/models/{model}:{action}"), body.to_string())
    }

    fn judged(&self, request: &Value) -> Value {
        let mut judged = request.clone();
        judged["alt"] = json!(if judged["stream"] == true { "sse" } else { "json" });
        judged
    }

    fn request(&self, prompt: &[&str], said: &[Value], stream: bool) -> Value {
        let parts: Vec<Value> = prompt.iter().map(|text| json!({"text": text})).collect();
        json!({"model": "small", "stream": stream, "systemInstruction": {"parts": parts},
            "contents": said})
    }

    fn question(&self, text: &str) -> Value {
        json!({"role": "user", "parts": [{"text": text}]})
    }

    fn echoed(&self, text: &str) -> Value {
        json!({"role": "model", "parts": [{"text": text}]})
    }

    fn tool(&self, name: &str, description: &str, parameters: &Value) -> Value {
        json!({"name": name, "description": description, "parameters": parameters})
    }

    fn tools(&self, tools: Vec<Value>) -> Value {
        json!([{"functionDeclarations": tools}])
    }

    fn turn(&self, call: Call<'_>, result: &str) -> [Value; 2] {
        let (id, name, _) = call;
        let mut response = json!({"name": name, "response": {"result": result}});
        if !id.is_empty() {
            response["id"] = json!(id);
        }
        [
            json!({"role": "model", "parts": [{"text": "look"}, call_part(&call)]}),
            json!({"role": "user", "parts": [{"functionResponse": response}]}),
        ]
    }

    fn streamed(&self, text: &str, calls: &[Call<'_>]) -> String {
        let mut lists = vec![json!([{"text": text}])];
        lists.extend(calls.iter().map(|call| json!([call_part(call)])));
        lists.push(json!([{"text": ""}]));
        unnamed(&contents(&lists))
    }

    fn whole(&self, text: &str, calls: &[Call<'_>]) -> Value {
        let mut parts = vec![json!({"text": text})];
        parts.extend(calls.iter().map(call_part));
        contents(&[json!(parts)]).pop().unwrap()
    }

    fn around_a_call(&self, (first, second): (&str, &str), call: Call<'_>) -> String {
        let parts = json!([{"text": first}, call_part(&call), {"text": second}]);
        unnamed(&contents(&[parts, json!([{"text": ""}])]))
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
        let candidate = &event["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            let said = part["text"].as_str().filter(|_| part["thought"] != true);
            heard.text.push_str(said.unwrap_or_default());
            if let Some(name) = part["functionCall"]["name"].as_str() {
                heard.calls.push((name.to_owned(), part["functionCall"]["args"].clone()));
            }
        }
        heard.ended |= candidate["finishReason"].is_string();
    }
}
