//! Chat completions, as OpenAI and many servers speak them.

use super::Said;
use super::ask::{Ask, Given, Requested};
use crate::domain::json::Json;
use crate::mcp::raw::Writer;

/// The body of `POST <base>/chat/completions`: what a model follows in it are the bytes the agent sent.
pub(super) fn body(ask: &Ask, model: &str, (field, output_tokens): (&str, u64)) -> Vec<u8> {
    let mut body = Writer::default()
        .text("model", model)
        .member("messages", ask.conversation.text.get().as_bytes())
        // One name of two: some servers know only the older one, and some models refuse it.
        .member(field, output_tokens.to_string().as_bytes())
        .member("n", b"1")
        .member("stream", b"false");
    let given = [
        ("temperature", &ask.temperature),
        ("top_p", &ask.top_p),
        ("seed", &ask.seed),
        ("stop", &ask.stop),
        ("tool_choice", &ask.tool_choice),
        ("response_format", &ask.response_format),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            body = body.member(name, value.text.get().as_bytes());
        }
    }
    if !ask.tools.is_empty() {
        body = body.member("tools", &tools(ask));
    }
    body.end()
}

/// The functions that are offered, each as it was sent.
pub(super) fn tools(ask: &Ask) -> Vec<u8> {
    let tool = |function: &Given| {
        let tool = Writer::default().text("type", "function");
        tool.member("function", function.text.get().as_bytes()).end()
    };
    let all: Vec<_> = ask.tools.iter().map(tool).collect();
    [b"[".as_slice(), &all.join(b",".as_slice()), b"]"].concat()
}

/// What the server answered.
///
/// # Errors
/// What of it is no chat completion.
pub(super) fn said(answer: &Json) -> Result<Said, String> {
    let choices = answer.get("choices").and_then(Json::as_array).unwrap_or_default();
    let [choice] = choices else { return Err(format!("{} choices", choices.len())) };
    let message = choice.get("message").ok_or("a choice without a message")?;
    let word = |value: &Json, name: &str| value.get(name).and_then(Json::as_str).map(str::to_owned);
    let calls = message.get("tool_calls").and_then(Json::as_array).unwrap_or_default();
    let calls = calls.iter().map(|call| Requested::read(call, "the answer"));
    let calls = calls.collect::<Result<Vec<_>, _>>().map_err(|refused| refused.message)?;
    let content = match message.get("content") {
        None | Some(Json::Null) => Json::Null,
        Some(Json::String(text)) => Json::from(text.as_str()),
        Some(_) => return Err("content that is no text".into()),
    };
    let number = |name: &str| answer.get("usage")?.get(name)?.as_u64();
    Ok(Said {
        model: word(answer, "model").unwrap_or_default(),
        content,
        refusal: word(message, "refusal"),
        tool_calls: calls.iter().map(Requested::to_json).collect(),
        finish_reason: word(choice, "finish_reason").unwrap_or_default(),
        tokens: number("prompt_tokens").zip(number("completion_tokens")),
    })
}
