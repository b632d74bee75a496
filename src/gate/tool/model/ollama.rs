//! Chat in Ollama's format.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::model_request::{ChatMessage, MessagePart, ModelQuestion, Requested, Role};
use super::{AnswerError, ModelAnswer, openai};
use crate::domain::json::{Json, Limits};
use crate::mcp::raw::{ObjectWriter, quoted};
use crate::tool::shape::lenient;

/// The body of `POST <base>/api/chat`; `None` if the format cannot express part of the request.
///
/// The parts that influence the model are the bytes that the agent sent.
pub(super) fn body(ask: &ModelQuestion, model: &str, output_tokens: u64) -> Option<Vec<u8>> {
    let choice = ask.tool_choice.as_ref().map(|choice| choice.value.as_str());
    if choice == Some("required") {
        return None;
    }
    let messages: Vec<Vec<u8>> = ask.messages.iter().map(message).collect::<Option<_>>()?;
    let mut options =
        ObjectWriter::default().member("num_predict", output_tokens.to_string().as_bytes());
    let given = [
        ("temperature", &ask.temperature),
        ("top_p", &ask.top_p),
        ("seed", &ask.seed),
        ("stop", &ask.stop),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            options = options.member(name, value.get().as_bytes());
        }
    }
    let mut body = ObjectWriter::default()
        .text("model", model)
        .member("messages", &list(&messages))
        .member("stream", b"false")
        .member("options", &options.end());
    if let Some(format) = format(ask) {
        body = body.member("format", &format);
    }
    // Ollama has no `tool_choice`; for `none`, no tools are offered.
    if !ask.tools.is_empty() && choice != Some("none") {
        body = body.member("tools", &openai::tools(ask));
    }
    Some(body.end())
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    [b"[".as_slice(), &items.join(b",".as_slice()), b"]"].concat()
}

/// The schema in a `response_format`.
#[derive(Deserialize)]
struct SentFormat<'a> {
    #[serde(borrow)]
    json_schema: &'a RawValue,
}

#[derive(Deserialize)]
struct SentSchema<'a> {
    #[serde(borrow)]
    schema: &'a RawValue,
}

/// `json`, or the schema itself as the agent sent it.
fn format(ask: &ModelQuestion) -> Option<Vec<u8>> {
    let wanted = ask.response_format.as_ref()?;
    match wanted.value.as_deref()? {
        "json_object" => Some(b"\"json\"".to_vec()),
        "json_schema" => {
            let sent: SentFormat<'_> = serde_json::from_str(wanted.text.get()).ok()?;
            let named = sent.json_schema.get();
            let named: SentSchema<'_> =
                serde_json::from_str(named).ok().filter(|_| named.starts_with('{'))?;
            Some(named.schema.get().as_bytes().to_vec())
        }
        _text => None,
    }
}

fn message(message: &ChatMessage) -> Option<Vec<u8>> {
    // Ollama has no developer role; such messages become system messages.
    let role = match message.role {
        Role::System | Role::Developer => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let mut out = ObjectWriter::default().text("role", role).text("content", &message.text());
    let images = message.parts.iter().filter_map(|part| match part {
        MessagePart::Image { url, data } => url.get(*data..).map(|data| quoted(data).into_bytes()),
        MessagePart::Text(_) => None,
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

/// Ollama expects arguments as JSON, while other providers use the model's text: the text is passed
/// on if it is strict JSON.
fn requested(call: &Requested) -> Option<Vec<u8>> {
    let arguments = match call.arguments.trim() {
        "" => "{}",
        text => Json::parse(text.as_bytes(), &Limits::ARGUMENTS).ok().map(|_| text)?,
    };
    let function = ObjectWriter::default().text("name", &call.name);
    let function = function.member("arguments", arguments.as_bytes()).end();
    Some(ObjectWriter::default().member("function", &function).end())
}

/// The members of a response that are passed on.
#[derive(Deserialize)]
struct ChatAnswer {
    #[serde(default, deserialize_with = "lenient")]
    model: Option<String>,
    message: OllamaMessage,
    #[serde(default, deserialize_with = "lenient")]
    done_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    prompt_eval_count: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    eval_count: Option<u64>,
}

#[derive(Deserialize)]
struct OllamaMessage {
    content: String,
    tool_calls: Option<Vec<OllamaCall>>,
}

#[derive(Deserialize)]
struct OllamaCall {
    function: OllamaFunction,
}

#[derive(Deserialize)]
struct OllamaFunction {
    name: String,
}

/// The arguments in the same response as they were written, because the order of members is the
/// model's.
#[derive(Deserialize)]
struct WrittenAnswer<'a> {
    #[serde(borrow)]
    message: WrittenCalls<'a>,
}

#[derive(Deserialize)]
struct WrittenCalls<'a> {
    #[serde(borrow)]
    tool_calls: Option<Vec<WrittenFunction<'a>>>,
}

#[derive(Deserialize)]
struct WrittenFunction<'a> {
    #[serde(borrow)]
    function: WrittenArguments<'a>,
}

#[derive(Deserialize)]
struct WrittenArguments<'a> {
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// Parses the server's response; `bytes` are those that `answer` was parsed from.
///
/// # Errors
/// The part of it that is not a chat response.
pub(super) fn read_answer(answer: &Json, bytes: &[u8]) -> Result<ModelAnswer, AnswerError> {
    let ChatAnswer { model, message, done_reason, prompt_eval_count, eval_count } =
        answer.read()?;
    let written: WrittenAnswer<'_> = serde_json::from_slice(bytes)?;
    let written = written.message.tool_calls.unwrap_or_default();
    let calls = message.tool_calls.unwrap_or_default().into_iter().zip(written).enumerate();
    let calls = calls.map(|(i, (call, written))| {
        let arguments = written.function.arguments.map_or("{}", RawValue::get).to_owned();
        // Ollama sends no ids; the index serves as one.
        Requested { id: format!("call_{i}"), name: call.function.name, arguments }.to_json()
    });
    Ok(ModelAnswer {
        model: model.unwrap_or_default(),
        content: Json::from(message.content),
        refusal: None,
        tool_calls: calls.collect(),
        finish_reason: done_reason.unwrap_or_default(),
        tokens: prompt_eval_count.zip(eval_count),
    })
}
