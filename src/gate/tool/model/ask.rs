//! What an agent asks a model, read strictly: whatever a provider would do on its own is refused.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::domain::json::Json;
use crate::mcp::raw::Members;

/// Characters of a function's name.
const NAME_MAX: usize = 64;

/// One question. Every part of it was looked at; nothing else is sent.
#[derive(Debug)]
pub(super) struct Ask {
    pub model: String,
    /// Role and content of each message, and what belongs to them.
    pub messages: Vec<Message>,
    /// The list of them.
    pub conversation: Given,
    pub temperature: Option<Given>,
    pub top_p: Option<Given>,
    pub seed: Option<Given>,
    pub stop: Option<Given>,
    /// The objects below `function` of each tool.
    pub tools: Vec<Given>,
    pub tool_choice: Option<Given>,
    pub response_format: Option<Given>,
}

/// A value, and the very bytes it was judged from: what is sent on is these. The order of members is the order in
/// which a model writes what follows a schema.
#[derive(Debug)]
pub(super) struct Given {
    pub value: Json,
    pub text: Box<RawValue>,
}

impl Given {
    /// The members of an object, as values and as they were sent. A name is there once: `args` was read strictly.
    fn members<'a>(value: &'a Json, text: &'a [u8]) -> BTreeMap<&'a str, (&'a Json, &'a RawValue)> {
        let sent = Members::parse(text).unwrap_or_default();
        let object = value.as_object().into_iter().flatten();
        let both =
            object.filter_map(|(name, value)| Some((name.as_str(), (value, sent.get(name)?))));
        both.collect()
    }

    fn of((value, text): (&Json, &RawValue)) -> Self {
        Self { value: value.clone(), text: text.to_owned() }
    }
}

/// One message of the conversation.
#[derive(Debug)]
pub(super) struct Message {
    pub role: String,
    /// In order; empty where an assistant only asked for functions.
    pub parts: Vec<Part>,
    pub name: Option<String>,
    /// Of an assistant: what it asked for.
    pub tool_calls: Vec<Requested>,
}

/// A part of a message.
#[derive(Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    /// A `data:` URL and where its base64 begins.
    Image {
        url: String,
        data: usize,
    },
}

/// A function that a model asked for.
#[derive(Debug)]
pub(super) struct Requested {
    pub id: String,
    pub name: String,
    /// JSON text.
    pub arguments: String,
}

/// Why a question is not asked.
#[derive(Debug, PartialEq)]
pub(super) struct Refused {
    pub detail: &'static str,
    pub message: String,
}

type Read<T> = Result<T, Refused>;

fn refused<T>(detail: &'static str, message: String) -> Read<T> {
    Err(Refused { detail, message })
}

impl Ask {
    /// Reads arguments; `sent` are the bytes they were read from.
    pub fn read(args: &Json, sent: &[u8]) -> Read<Self> {
        const MEMBERS: &[&str] = &[
            "model",
            "messages",
            "max_output_tokens",
            "temperature",
            "top_p",
            "seed",
            "stop",
            "tools",
            "tool_choice",
            "response_format",
        ];
        closed(args, MEMBERS, "the arguments")?;
        let list = |name: &str| args.get(name).and_then(Json::as_array).unwrap_or_default();
        let members = Given::members(args, sent);
        let conversation = members.get("messages").filter(|(list, _)| list.as_array().is_some());
        let Some(conversation) = conversation.map(|both| Given::of(*both)) else {
            return refused("model.argument", "`messages` is a list".into());
        };
        let messages = conversation.value.as_array().unwrap_or_default().iter().enumerate();
        let given = |name: &str| members.get(name).map(|both| Given::of(*both));
        let tools = members.get("tools").map(|(_, text)| text.get());
        let tools = tools.and_then(|text| serde_json::from_str::<Vec<&RawValue>>(text).ok());
        // Both are the same list, or neither is one.
        let tools = list("tools").iter().zip(tools.unwrap_or_default()).enumerate();
        let tool_choice = given("tool_choice");
        if tool_choice.as_ref().is_some_and(|choice| choice.value.as_str().is_none()) {
            return refused("model.argument", "`tool_choice` is a word".into());
        }
        let format = args.get("response_format");
        format.map_or(Ok(()), |f| closed(f, &["type", "json_schema"], "`response_format`"))?;
        Ok(Self {
            model: text(args, "model", "the arguments")?,
            messages: messages.map(|(i, m)| Message::read(m, i)).collect::<Read<_>>()?,
            conversation,
            temperature: given("temperature"),
            top_p: given("top_p"),
            seed: given("seed"),
            stop: given("stop"),
            tools: tools.map(|(i, tool)| function(tool, i)).collect::<Read<_>>()?,
            tool_choice,
            response_format: given("response_format"),
        })
    }

    /// Names of the functions that are offered.
    pub fn functions(&self) -> Vec<String> {
        let name = |tool: &Given| tool.value.get("name").and_then(Json::as_str).map(str::to_owned);
        self.tools.iter().filter_map(name).collect()
    }
}

/// How many images are among these arguments.
pub(super) fn images(args: &Json) -> usize {
    let list = |value: Option<&Json>| value.and_then(Json::as_array).unwrap_or_default().to_vec();
    let parts = list(args.get("messages")).into_iter().flat_map(|one| list(one.get("content")));
    parts.filter(|part| part.get("image_url").is_some()).count()
}

/// The `function` of one tool: a tool of any other type would be run by the provider.
fn function((tool, sent): (&Json, &RawValue), i: usize) -> Read<Given> {
    let at = format!("`tools[{i}]`");
    let kind = tool.get("type").and_then(Json::as_str).unwrap_or_default();
    if kind != "function" {
        let message = format!(
            "{at} is of type `{kind}`: the provider would run it past the gate; only `function` is allowed"
        );
        return refused("model.hosted_tool", message);
    }
    closed(tool, &["type", "function"], &at)?;
    let members = Given::members(tool, sent.get().as_bytes());
    let Some(given) = members.get("function") else {
        return refused("model.argument", format!("{at} has no `function`"));
    };
    let (function, _) = *given;
    closed(function, &["name", "description", "parameters", "strict"], &at)?;
    let name = text(function, "name", &at)?;
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(fits) {
        return refused("model.argument", format!("{at}: a name is [A-Za-z0-9_-]{{1,{NAME_MAX}}}"));
    }
    Ok(Given::of(*given))
}

impl Message {
    fn read(message: &Json, i: usize) -> Read<Self> {
        let at = format!("`messages[{i}]`");
        closed(message, &["role", "content", "name", "tool_calls", "tool_call_id"], &at)?;
        let role = text(message, "role", &at)?;
        if !["system", "developer", "user", "assistant", "tool"].contains(&role.as_str()) {
            return refused("model.argument", format!("{at}: `{role}` is no role"));
        }
        let parts = match message.get("content") {
            None | Some(Json::Null) => Vec::new(),
            Some(Json::String(text)) => vec![Part::Text(text.clone())],
            Some(Json::Array(parts)) => {
                parts.iter().map(|part| Part::read(part, &at)).collect::<Read<_>>()?
            }
            Some(Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::Object(_)) => {
                return refused("model.argument", format!("{at}: `content` is text or a list"));
            }
        };
        let calls = match message.get("tool_calls") {
            None | Some(Json::Null) => Vec::new(),
            Some(calls) => Requested::echoed(calls, &at)?,
        };
        if !calls.is_empty() && role != "assistant" {
            return refused(
                "model.argument",
                format!("{at}: only an assistant asks for functions"),
            );
        }
        optional(message, "tool_call_id", &at)?;
        Ok(Self { role, parts, name: optional(message, "name", &at)?, tool_calls: calls })
    }

    /// Everything it says in words.
    pub fn text(&self) -> String {
        let words = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Image { .. } => None,
        });
        words.collect::<Vec<_>>().join("\n")
    }
}

impl Part {
    fn read(part: &Json, at: &str) -> Read<Self> {
        match part.get("type").and_then(Json::as_str) {
            Some("text") => {
                closed(part, &["type", "text"], at)?;
                text(part, "text", at).map(Self::Text)
            }
            Some("image_url") => {
                closed(part, &["type", "image_url"], at)?;
                let Some(image) = part.get("image_url") else {
                    return refused("model.argument", format!("{at}: `image_url` is missing"));
                };
                closed(image, &["url", "detail"], at)?;
                let detail = image.get("detail").map(|detail| detail.as_str().unwrap_or_default());
                if detail.is_some_and(|word| !["auto", "low", "high"].contains(&word)) {
                    let message = format!("{at}: `detail` is none of `auto`, `low`, `high`");
                    return refused("model.argument", message);
                }
                Self::image(text(image, "url", at)?, at)
            }
            other => {
                let other = other.unwrap_or_default();
                let message =
                    format!("{at}: a part of type `{other}` is none of `text`, `image_url`");
                refused("model.content", message)
            }
        }
    }

    /// Only an image that is in the message itself: another one the provider would fetch past the gate.
    fn image(url: String, at: &str) -> Read<Self> {
        let inline = url.strip_prefix("data:image/").and_then(|rest| rest.split_once(";base64,"));
        let Some((_, data)) = inline else {
            let message = format!(
                "{at}: an image is a `data:image/…;base64,` URL; the provider would fetch any other past the gate"
            );
            return refused("model.remote_content", message);
        };
        let data = url.len().saturating_sub(data.len());
        Ok(Self::Image { url, data })
    }
}

impl Requested {
    /// What an assistant asked for before, as the agent tells it: no member that nobody looked at.
    fn echoed(calls: &Json, at: &str) -> Read<Vec<Self>> {
        let Some(calls) = calls.as_array() else {
            return refused("model.argument", format!("{at}: `tool_calls` is a list"));
        };
        let one = |call: &Json| {
            let read = Self::read(call, at)?;
            closed(call, &["id", "type", "function"], at)?;
            call.get("function").map_or(Ok(()), |f| closed(f, &["name", "arguments"], at))?;
            Ok(read)
        };
        calls.iter().map(one).collect()
    }

    pub(super) fn read(call: &Json, at: &str) -> Read<Self> {
        let function = call
            .get("function")
            .filter(|_| call.get("type").is_none_or(|kind| kind.as_str() == Some("function")));
        let Some(function) = function else {
            let message = format!("{at}: a tool call that is no function");
            return refused("model.hosted_tool", message);
        };
        Ok(Self {
            id: optional(call, "id", at)?.unwrap_or_default(),
            name: text(function, "name", at)?,
            arguments: text(function, "arguments", at)?,
        })
    }

    pub(super) fn to_json(&self) -> Json {
        let function = Json::object([
            ("name", Json::from(self.name.as_str())),
            ("arguments", Json::from(self.arguments.as_str())),
        ]);
        Json::object([
            ("id", Json::from(self.id.as_str())),
            ("type", Json::from("function")),
            ("function", function),
        ])
    }
}

/// Refuses members that nobody looked at.
fn closed(value: &Json, members: &[&str], at: &str) -> Read<()> {
    let Some(object) = value.as_object() else {
        return refused("model.argument", format!("{at}: expected an object"));
    };
    match object.keys().find(|name| !members.contains(&name.as_str())) {
        Some(name) => refused("model.argument", format!("{at}: `{name}` is not understood")),
        None => Ok(()),
    }
}

fn text(value: &Json, name: &str, at: &str) -> Read<String> {
    match value.get(name).and_then(Json::as_str) {
        Some(text) => Ok(text.to_owned()),
        None => refused("model.argument", format!("{at}: `{name}` is text")),
    }
}

fn optional(value: &Json, name: &str, at: &str) -> Read<Option<String>> {
    match value.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(_) => text(value, name, at).map(Some),
    }
}
