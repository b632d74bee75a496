//! Chat as Ollama speaks it.

use super::Said;
use super::ask::{Ask, Message, Part, Requested};
use crate::domain::canonical;
use crate::domain::json::{Json, Limits};

/// The body of `POST <base>/api/chat`; none if it has no words for something that is asked.
pub(super) fn body(ask: &Ask, model: &str, output_tokens: u64) -> Option<Json> {
    let choice = ask.tool_choice.as_ref().and_then(Json::as_str);
    if choice == Some("required") {
        return None;
    }
    let messages: Option<Vec<Json>> = ask.messages.iter().map(message).collect();
    let mut options = vec![("num_predict", Json::from(output_tokens))];
    let given = [
        ("temperature", &ask.temperature),
        ("top_p", &ask.top_p),
        ("seed", &ask.seed),
        ("stop", &ask.stop),
    ];
    options.extend(given.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
    let mut members = vec![
        ("model", Json::from(model)),
        ("messages", messages?.into()),
        ("stream", Json::from(false)),
        ("options", Json::object(options)),
    ];
    members.extend(format(ask).map(|format| ("format", format)));
    // It knows no choice; without one to make, none is offered.
    if !ask.tools.is_empty() && choice != Some("none") {
        let tool = |function: &Json| {
            Json::object([("type", Json::from("function")), ("function", function.clone())])
        };
        members.push(("tools", ask.tools.iter().map(tool).collect::<Vec<_>>().into()));
    }
    Some(Json::object(members))
}

/// `json`, or the schema itself.
fn format(ask: &Ask) -> Option<Json> {
    let wanted = ask.response_format.as_ref()?;
    match wanted.get("type").and_then(Json::as_str)? {
        "json_object" => Some(Json::from("json")),
        "json_schema" => wanted.get("json_schema")?.get("schema").cloned(),
        _text => None,
    }
}

fn message(message: &Message) -> Option<Json> {
    // It knows no developers: what they say is the system's word.
    let role = if message.role == "developer" { "system" } else { &message.role };
    let mut members = vec![("role", Json::from(role)), ("content", Json::from(message.text()))];
    let images: Vec<Json> = message
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Image { url, data, .. } => url.get(*data..).map(Json::from),
            Part::Text(_) => None,
        })
        .collect();
    if !images.is_empty() {
        members.push(("images", images.into()));
    }
    members.extend(message.name.as_ref().map(|name| ("tool_name", Json::from(name.as_str()))));
    if !message.tool_calls.is_empty() {
        let calls: Option<Vec<Json>> = message.tool_calls.iter().map(requested).collect();
        members.push(("tool_calls", calls?.into()));
    }
    Some(Json::object(members))
}

/// It takes arguments as JSON, everybody else as a text that a model wrote.
fn requested(call: &Requested) -> Option<Json> {
    let arguments = match call.arguments.trim() {
        "" => Json::object(Vec::<(String, Json)>::new()),
        text => Json::parse(text.as_bytes(), &Limits::ARGUMENTS).ok()?,
    };
    let name = Json::from(call.name.as_str());
    let function = Json::object([("name", name), ("arguments", arguments)]);
    Some(Json::object([("function", function)]))
}

/// What the server answered.
///
/// # Errors
/// What of it is no chat answer.
pub(super) fn said(answer: &Json) -> Result<Said, String> {
    let message = answer.get("message").ok_or("no message")?;
    let content = message.get("content").and_then(Json::as_str).ok_or("no content")?;
    let calls = message.get("tool_calls").and_then(Json::as_array).unwrap_or_default();
    let calls = calls.iter().enumerate().map(|(i, call)| asked_for(call, i));
    let word = |name: &str| answer.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
    let number = |name: &str| answer.get(name).and_then(Json::as_u64);
    Ok(Said {
        model: word("model"),
        content: Json::from(content),
        refusal: None,
        tool_calls: calls.collect::<Result<_, String>>()?,
        finish_reason: word("done_reason"),
        tokens: number("prompt_eval_count").zip(number("eval_count")),
    })
}

/// A function it asks for, as everybody else writes it. It has no ids: the place is one.
fn asked_for(call: &Json, i: usize) -> Result<Json, String> {
    let function = call.get("function").ok_or("a tool call that is no function")?;
    let name = function.get("name").and_then(Json::as_str).ok_or("a function without a name")?;
    let empty = Json::object(Vec::<(String, Json)>::new());
    let arguments = canonical::text(function.get("arguments").unwrap_or(&empty));
    let requested = Requested { id: format!("call_{i}"), name: name.to_owned(), arguments };
    Ok(requested.to_json())
}
