//! Chat as Ollama speaks it.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Said;
use super::ask::{Ask, Message, Part, Requested};
use super::openai;
use crate::domain::json::{Json, Limits};
use crate::mcp::raw::{Members, Writer, quoted};

/// The body of `POST <base>/api/chat`; none if it has no words for something that is asked.
///
/// What a model follows in it are the bytes the agent sent.
pub(super) fn body(ask: &Ask, model: &str, output_tokens: u64) -> Option<Vec<u8>> {
    let choice = ask.tool_choice.as_ref().and_then(|choice| choice.value.as_str());
    if choice == Some("required") {
        return None;
    }
    let messages: Vec<Vec<u8>> = ask.messages.iter().map(message).collect::<Option<_>>()?;
    let mut options = Writer::default().member("num_predict", output_tokens.to_string().as_bytes());
    let given = [
        ("temperature", &ask.temperature),
        ("top_p", &ask.top_p),
        ("seed", &ask.seed),
        ("stop", &ask.stop),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            options = options.member(name, value.text.get().as_bytes());
        }
    }
    let mut body = Writer::default()
        .text("model", model)
        .member("messages", &list(&messages))
        .member("stream", b"false")
        .member("options", &options.end());
    if let Some(format) = format(ask) {
        body = body.member("format", &format);
    }
    // It knows no choice; without one to make, none is offered.
    if !ask.tools.is_empty() && choice != Some("none") {
        body = body.member("tools", &openai::tools(ask));
    }
    Some(body.end())
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    [b"[".as_slice(), &items.join(b",".as_slice()), b"]"].concat()
}

/// `json`, or the schema itself as it was sent.
fn format(ask: &Ask) -> Option<Vec<u8>> {
    let wanted = ask.response_format.as_ref()?;
    match wanted.value.get("type").and_then(Json::as_str)? {
        "json_object" => Some(b"\"json\"".to_vec()),
        "json_schema" => {
            let format = Members::parse(wanted.text.get().as_bytes()).ok()?;
            let named = Members::parse(format.get("json_schema")?.get().as_bytes()).ok()?;
            Some(named.get("schema")?.get().as_bytes().to_vec())
        }
        _text => None,
    }
}

fn message(message: &Message) -> Option<Vec<u8>> {
    // It knows no developers: what they say is the system's word.
    let role = if message.role == "developer" { "system" } else { &message.role };
    let mut out = Writer::default().text("role", role).text("content", &message.text());
    let images = message.parts.iter().filter_map(|part| match part {
        Part::Image { url, data } => url.get(*data..).map(|data| quoted(data).into_bytes()),
        Part::Text(_) => None,
    });
    let images: Vec<Vec<u8>> = images.collect();
    if !images.is_empty() {
        out = out.member("images", &list(&images));
    }
    if let Some(name) = &message.name {
        out = out.text("tool_name", name);
    }
    if !message.tool_calls.is_empty() {
        let calls: Vec<_> = message.tool_calls.iter().map(requested).collect::<Option<_>>()?;
        out = out.member("tool_calls", &list(&calls));
    }
    Some(out.end())
}

/// It takes arguments as JSON, everybody else as a text that a model wrote: that text, if it is strict JSON.
fn requested(call: &Requested) -> Option<Vec<u8>> {
    let arguments = match call.arguments.trim() {
        "" => "{}",
        text => Json::parse(text.as_bytes(), &Limits::ARGUMENTS).ok().map(|_| text)?,
    };
    let function = Writer::default().text("name", &call.name);
    let function = function.member("arguments", arguments.as_bytes()).end();
    Some(Writer::default().member("function", &function).end())
}

/// What of an answer is passed on as it was written.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    message: WrittenMessage<'a>,
}

#[derive(Deserialize)]
struct WrittenMessage<'a> {
    #[serde(borrow)]
    tool_calls: Option<Vec<WrittenCall<'a>>>,
}

#[derive(Deserialize)]
struct WrittenCall<'a> {
    #[serde(borrow)]
    function: WrittenFunction<'a>,
}

#[derive(Deserialize)]
struct WrittenFunction<'a> {
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// What the server answered.
///
/// # Errors
/// What of it is no chat answer.
pub(super) fn said(answer: &Json, bytes: &[u8]) -> Result<Said, String> {
    let written = serde_json::from_slice::<Written<'_>>(bytes).map_err(|e| e.to_string())?;
    let written = written.message.tool_calls.unwrap_or_default();
    let mut arguments = written.into_iter().map(|call| call.function.arguments);
    let message = answer.get("message").ok_or("no message")?;
    let content = message.get("content").and_then(Json::as_str).ok_or("no content")?;
    let calls = message.get("tool_calls").and_then(Json::as_array).unwrap_or_default();
    let calls = calls.iter().enumerate();
    let calls = calls.map(|(i, call)| asked_for(call, i, arguments.next().flatten()));
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
fn asked_for(call: &Json, i: usize, arguments: Option<&RawValue>) -> Result<Json, String> {
    let function = call.get("function").ok_or("a tool call that is no function")?;
    let name = function.get("name").and_then(Json::as_str).ok_or("a function without a name")?;
    let arguments = arguments.map_or("{}", RawValue::get).to_owned();
    let requested = Requested { id: format!("call_{i}"), name: name.to_owned(), arguments };
    Ok(requested.to_json())
}
