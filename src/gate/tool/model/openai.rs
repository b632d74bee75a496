//! Chat completions, in the format of OpenAI and many other servers.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::model_request::{ModelQuestion, Requested};
use super::{AnswerError, ModelAnswer};
use crate::domain::json::Json;
use crate::mcp::raw::ObjectWriter;
use crate::tool::shape::{lenient, list};

/// The body of `POST <base>/chat/completions`. The parts that influence the model are the bytes
/// that the agent sent.
pub(super) fn body(
    ask: &ModelQuestion,
    model: &str,
    (field, output_tokens): (&str, u64),
) -> Vec<u8> {
    let mut body = ObjectWriter::default()
        .text("model", model)
        .member("messages", ask.conversation.get().as_bytes())
        // One of two names: some servers know only the older one, and some models refuse it.
        .member(field, output_tokens.to_string().as_bytes())
        .member("n", b"1")
        .member("stream", b"false");
    let given = [
        ("temperature", ask.temperature.as_deref()),
        ("top_p", ask.top_p.as_deref()),
        ("seed", ask.seed.as_deref()),
        ("stop", ask.stop.as_deref()),
        ("tool_choice", ask.tool_choice.as_ref().map(|choice| &*choice.text)),
        ("response_format", ask.response_format.as_ref().map(|format| &*format.text)),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            body = body.member(name, value.get().as_bytes());
        }
    }
    if !ask.tools.is_empty() {
        body = body.member("tools", &tools(ask));
    }
    body.end()
}

/// The offered functions, each as the agent sent it.
pub(super) fn tools(ask: &ModelQuestion) -> Vec<u8> {
    let tool = |function: &RawValue| {
        let tool = ObjectWriter::default().text("type", "function");
        tool.member("function", function.get().as_bytes()).end()
    };
    let all: Vec<_> = ask.tools.iter().map(|function| tool(&function.text)).collect();
    [b"[".as_slice(), &all.join(b",".as_slice()), b"]"].concat()
}

/// The members of a response that are passed on.
#[derive(Deserialize)]
struct ChatCompletion {
    #[serde(default, deserialize_with = "lenient")]
    model: Option<String>,
    #[serde(default, deserialize_with = "list")]
    choices: Vec<Choice>,
    #[serde(default, deserialize_with = "lenient")]
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    #[serde(default, deserialize_with = "lenient")]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    refusal: Option<String>,
    #[serde(default, deserialize_with = "list")]
    tool_calls: Vec<Json>,
}

#[derive(Deserialize)]
struct Tokens {
    #[serde(default, deserialize_with = "lenient")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    completion_tokens: Option<u64>,
}

/// Parses the server's response.
///
/// # Errors
/// The part of it that is not a chat completion.
pub(super) fn read_answer(answer: &Json) -> Result<ModelAnswer, AnswerError> {
    let ChatCompletion { model, choices, usage } = answer.read()?;
    let found = choices.len();
    let [Choice { message, finish_reason }] =
        <[Choice; 1]>::try_from(choices).map_err(|_other| AnswerError::Choices(found))?;
    let calls = message.tool_calls.iter();
    let calls = calls.map(|call| Requested::answered(call).map(|call| call.to_json()));
    Ok(ModelAnswer {
        model: model.unwrap_or_default(),
        content: message.content.map_or(Json::Null, Json::from),
        refusal: message.refusal,
        tool_calls: calls.collect::<Result<_, _>>()?,
        finish_reason: finish_reason.unwrap_or_default(),
        tokens: usage.and_then(|usage| usage.prompt_tokens.zip(usage.completion_tokens)),
    })
}
