//! The answers of the model in the loop, and the answer that the agent gets.

use serde_json::{Map, Value, json};

use super::text_tools;
use crate::enforce::Released;
use crate::identity::callers::TextTools;
use crate::mcp::raw::{Members, ObjectWriter};
use crate::serve::problem::receipt_line;
use crate::serve::trace::{self, ManagedTrace};

/// A tool call that the model asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::serve) struct AskedTool {
    /// The id in the answer; one of the gate's if the model gave none.
    pub id: String,
    /// The name that the model wrote.
    pub name: String,
    /// The arguments that it wrote.
    pub arguments: String,
}

/// One recorded answer of the model.
#[derive(Debug)]
pub(super) struct RoundAnswer {
    /// The answer as it was recorded.
    json: Vec<u8>,
    value: Value,
    /// The text of an answer that is an object as a whole.
    within: Option<String>,
    /// What it asks for.
    pub calls: Vec<AskedTool>,
    /// The receipt of its outcome.
    pub receipt: String,
    /// Whether its text has left already.
    pub has_left: bool,
}

impl RoundAnswer {
    /// Reads an answer; `as_text`: how the tools were offered, if as instructions.
    pub fn read(released: Released, as_text: Option<TextTools>, has_left: bool) -> Self {
        let receipt = receipt_line(released.receipt());
        let json = released.into_result();
        let value: Value = serde_json::from_slice(&json).unwrap_or(Value::Null);
        let calls = match as_text {
            Some(_) => text_tools::read(trace::content(&value)).into_iter().collect(),
            None => trace::tool_calls(&value).iter().enumerate().map(asked).collect(),
        };
        let is_whole = as_text == Some(TextTools::Schema);
        let within = is_whole.then(|| text_tools::answered(trace::content(&value))).flatten();
        Self { json, value, within, calls, receipt, has_left }
    }

    /// Its text.
    pub fn content(&self) -> &str {
        self.within.as_deref().unwrap_or_else(|| trace::content(&self.value))
    }

    /// Its usage figures.
    pub fn usage(&self) -> Option<&Value> {
        self.value.get("usage").filter(|usage| usage.is_object())
    }

    /// The answer as the next request has it.
    pub fn message(&self, as_text: bool) -> Value {
        if as_text {
            return json!({"role": "assistant", "content": trace::content(&self.value)});
        }
        let calls: Vec<Value> = self.calls.iter().map(written).collect();
        let content = Some(self.content()).filter(|text| !text.is_empty());
        json!({"role": "assistant", "content": content, "tool_calls": calls})
    }

    /// The beginning of a chunk of a stream: what all of them have.
    pub fn chunk(&self, delta: &Value, finish: Option<&str>) -> Map<String, Value> {
        let of = |name: &str| self.value.get(name).cloned().unwrap_or_default();
        chunk((of("id"), of("created"), of("model")), delta, finish)
    }

    /// Why the model ended, as the agent reads it.
    pub fn finish(&self) -> &str {
        let reason = self.value.pointer("/choices/0/finish_reason").and_then(Value::as_str);
        match reason {
            _ if self.asks_on() => "length",
            Some(reason) => reason,
            None => "stop",
        }
    }

    /// Whether the model asks for tools that it does not get any more.
    fn asks_on(&self) -> bool {
        !self.calls.is_empty()
    }

    /// The agent's answer: the model's, with the sum of all usage figures and the trace.
    pub fn whole(&self, usage: Option<&Value>, trace: &ManagedTrace) -> Vec<u8> {
        let members = Members::parse(&self.json).unwrap_or_default();
        let mut written = ObjectWriter::default();
        for (name, raw) in members.iter() {
            written = match name {
                "usage" | "trace" => written,
                "choices" if self.asks_on() || self.within.is_some() => {
                    let message = json!({"role": "assistant", "content": self.content()});
                    let choice =
                        json!([{"index": 0, "message": message, "finish_reason": self.finish()}]);
                    written.member(name, choice.to_string().as_bytes())
                }
                _ => written.member(name, raw.get().as_bytes()),
            };
        }
        if let Some(usage) = usage {
            written = written.member("usage", usage.to_string().as_bytes());
        }
        let trace = serde_json::to_value(trace).unwrap_or_default();
        written.member("trace", trace.to_string().as_bytes()).end()
    }
}

/// One chunk of a stream.
pub(super) fn chunk(
    (id, created, model): (Value, Value, Value),
    delta: &Value,
    finish: Option<&str>,
) -> Map<String, Value> {
    let choice = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    let members = [
        ("id", id),
        ("object", "chat.completion.chunk".into()),
        ("created", created),
        ("model", model),
        ("choices", choice),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn asked((place, call): (usize, &Value)) -> AskedTool {
    let text =
        |path: &str| call.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let id = Some(text("/id")).filter(|id| !id.is_empty());
    AskedTool {
        id: id.unwrap_or_else(|| format!("call_{place}")),
        name: text("/function/name"),
        arguments: text("/function/arguments"),
    }
}

fn written(call: &AskedTool) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments});
    json!({"id": call.id, "type": "function", "function": function})
}

/// Adds the figures of one answer to those before it.
pub(super) fn add(sum: &mut Option<Value>, more: &Value) {
    match sum {
        None => *sum = Some(more.clone()),
        Some(sum) => add_to(sum, more),
    }
}

fn add_to(sum: &mut Value, more: &Value) {
    match (sum, more) {
        (Value::Object(sum), Value::Object(more)) => {
            for (name, value) in more {
                match sum.get_mut(name) {
                    Some(own) => add_to(own, value),
                    None => drop(sum.insert(name.clone(), value.clone())),
                }
            }
        }
        (Value::Number(own), Value::Number(more)) => {
            if let (Some(a), Some(b)) = (own.as_u64(), more.as_u64()) {
                *own = a.saturating_add(b).into();
            }
        }
        (own, more) => {
            if own.is_null() {
                *own = more.clone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_figures_are_added_at_every_depth() {
        let mut sum = None;
        add(&mut sum, &json!({"a": 1, "d": {"c": 2}, "n": null}));
        add(&mut sum, &json!({"a": 4, "d": {"c": 5, "e": 1}, "n": 7}));
        assert_eq!(sum.unwrap(), json!({"a": 5, "d": {"c": 7, "e": 1}, "n": 7}));
    }

    #[test]
    fn a_call_without_an_id_gets_one() {
        let call = json!({"function": {"name": "a", "arguments": "{}"}});
        assert_eq!(asked((3, &call)).id, "call_3");
        assert_eq!(written(&asked((0, &call)))["function"]["name"], "a");
    }
}
