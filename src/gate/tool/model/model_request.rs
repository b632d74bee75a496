//! An agent's request to a model, parsed strictly: everything that a provider would do on its own
//! is refused.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::domain::json::Json;
use crate::domain::members::{Mismatch, present};
use crate::tool::shape::{lenient, list};

/// Characters of a function's name.
const NAME_MAX: usize = 64;

/// One request. Every part of it was checked, and no other part is sent.
#[derive(Debug)]
pub(super) struct ModelQuestion {
    pub model: String,
    /// The role and content of each message, with its other members.
    pub messages: Vec<ChatMessage>,
    /// The list of messages, as the agent sent it.
    pub conversation: Box<RawValue>,
    pub temperature: Option<Box<RawValue>>,
    pub top_p: Option<Box<RawValue>>,
    pub seed: Option<Box<RawValue>>,
    pub stop: Option<Box<RawValue>>,
    /// The name of each function, and the object below `function` of its tool.
    pub tools: Vec<Excerpt<String>>,
    pub tool_choice: Option<Excerpt<String>>,
    /// With the format's `type`.
    pub response_format: Option<Excerpt<Option<String>>>,
}

/// The checked part of a value, and the bytes it was read from. Those bytes are sent, because the
/// order of a schema's members is the order in which the model writes its output.
#[derive(Debug)]
pub(super) struct Excerpt<T> {
    pub value: T,
    pub text: Box<RawValue>,
}

impl<T> Excerpt<T> {
    fn of(value: T, text: &RawValue) -> Self {
        Self { value, text: text.to_owned() }
    }
}

/// One message of the conversation.
#[derive(Debug)]
pub(super) struct ChatMessage {
    pub role: Role,
    /// In order; empty if an assistant only called functions.
    pub parts: Vec<MessagePart>,
    pub name: Option<String>,
    /// For an assistant, the functions that it called.
    pub tool_calls: Vec<Requested>,
}

/// The author of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    System,
    Developer,
    User,
    Assistant,
    Tool,
}

/// A part of a message.
#[derive(Debug, PartialEq)]
pub(super) enum MessagePart {
    Text(String),
    /// A `data:` URL and the offset of its base64.
    Image {
        url: String,
        data: usize,
    },
}

/// A function call of a model.
#[derive(Debug)]
pub(super) struct Requested {
    pub id: String,
    pub name: String,
    /// The arguments, as JSON text.
    pub arguments: String,
}

/// Why a request is not sent, or a response not passed on. `at` is the location: `messages[0]` in
/// backticks.
#[derive(Debug, thiserror::Error)]
pub(super) enum ModelQuestionError {
    #[error("{at}: {why}")]
    Shape { at: String, why: Mismatch },
    #[error("{at}: `{name}` is not understood")]
    Member { at: String, name: String },
    #[error("the arguments cannot be read as they were sent")]
    Sent,
    #[error("{0}: a name is [A-Za-z0-9_-]{{1,{NAME_MAX}}}")]
    Name(String),
    #[error("{0}: only an assistant asks for functions")]
    Asker(String),
    #[error(
        "{at} is of type `{kind}`: the provider would run it past the gate; only `function` is allowed"
    )]
    HostedTool { at: String, kind: String },
    #[error("{0}: a tool call that is no function")]
    HostedCall(String),
    #[error("{at}: a part of type `{kind}` is not one of `text`, `image_url`")]
    Part { at: String, kind: String },
    #[error(
        "{0}: an image is a `data:image/…;base64,` URL; the provider would fetch any other past the gate"
    )]
    RemoteImage(String),
}

impl ModelQuestionError {
    /// The stable detail of the refusal.
    pub const fn detail(&self) -> &'static str {
        match self {
            Self::Shape { .. }
            | Self::Member { .. }
            | Self::Sent
            | Self::Name(_)
            | Self::Asker(_) => "model.argument",
            Self::HostedTool { .. } | Self::HostedCall(_) => "model.hosted_tool",
            Self::Part { .. } => "model.content",
            Self::RemoteImage(_) => "model.remote_content",
        }
    }
}

type Read<T> = Result<T, ModelQuestionError>;

fn read<'a, T: Deserialize<'a>>(value: &'a Json, at: &str) -> Read<T> {
    value.read().map_err(|why| ModelQuestionError::Shape { at: at.to_owned(), why })
}

/// The arguments. Members that are ignored here are sent unchanged.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "members that may be there, whatever their value is")]
struct Args {
    model: String,
    messages: Vec<Json>,
    tools: Option<Vec<Json>>,
    #[serde(default, deserialize_with = "present")]
    tool_choice: Option<String>,
    #[serde(default, deserialize_with = "present")]
    response_format: Option<Format>,
    max_output_tokens: Option<IgnoredAny>,
    temperature: Option<IgnoredAny>,
    top_p: Option<IgnoredAny>,
    seed: Option<IgnoredAny>,
    stop: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "members that may be there, whatever their value is")]
struct Format {
    #[serde(default, rename = "type", deserialize_with = "lenient")]
    kind: Option<String>,
    json_schema: Option<IgnoredAny>,
}

/// The same arguments as the agent sent them.
#[derive(Deserialize)]
struct SentArgs<'a> {
    #[serde(borrow)]
    messages: &'a RawValue,
    #[serde(borrow)]
    tools: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default, deserialize_with = "present")]
    tool_choice: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    response_format: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    temperature: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    top_p: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    seed: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    stop: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct SentTool<'a> {
    #[serde(borrow)]
    function: &'a RawValue,
}

impl ModelQuestion {
    /// Parses arguments; `sent` are the bytes they were parsed from.
    pub fn read(args: &Json, sent: &[u8]) -> Read<Self> {
        let Args { model, messages, tools, tool_choice, response_format, .. } =
            read(args, "the arguments")?;
        let sent: SentArgs<'_> =
            serde_json::from_slice(sent).map_err(|_other| ModelQuestionError::Sent)?;
        let own = |text: Option<&RawValue>| text.map(ToOwned::to_owned);
        let messages = messages.iter().enumerate();
        let tools = tools.unwrap_or_default();
        let tools = tools.iter().zip(sent.tools.unwrap_or_default()).enumerate();
        let format = response_format.zip(sent.response_format);
        Ok(Self {
            model,
            messages: messages.map(|(i, m)| ChatMessage::read(m, i)).collect::<Read<_>>()?,
            conversation: sent.messages.to_owned(),
            temperature: own(sent.temperature),
            top_p: own(sent.top_p),
            seed: own(sent.seed),
            stop: own(sent.stop),
            tools: tools.map(|(i, (tool, sent))| function(tool, sent, i)).collect::<Read<_>>()?,
            tool_choice: tool_choice
                .zip(sent.tool_choice)
                .map(|(choice, t)| Excerpt::of(choice, t)),
            response_format: format.map(|(format, text)| Excerpt::of(format.kind, text)),
        })
    }

    /// The names of the offered functions.
    pub fn functions(&self) -> Vec<String> {
        self.tools.iter().map(|tool| tool.value.clone()).collect()
    }
}

/// The arguments that determine how much is read and written; they need not be valid yet.
#[derive(Default, Deserialize)]
pub(super) struct Size {
    #[serde(default, deserialize_with = "lenient")]
    pub max_output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "list")]
    messages: Vec<SizedMessage>,
}

#[derive(Deserialize)]
struct SizedMessage {
    #[serde(default, deserialize_with = "list")]
    content: Vec<SizedPart>,
}

#[derive(Deserialize)]
struct SizedPart {
    #[serde(default, deserialize_with = "present")]
    image_url: Option<IgnoredAny>,
}

impl Size {
    pub fn of(args: &Json) -> Self {
        // A value of another form is refused when the request is parsed.
        args.read().unwrap_or_default()
    }

    /// The number of images in the arguments.
    pub fn images(&self) -> usize {
        let parts = self.messages.iter().flat_map(|message| &message.content);
        parts.filter(|part| part.image_url.is_some()).count()
    }
}

/// The `type` of a tool or a part, if it has one.
#[derive(Default, Deserialize)]
struct Kind {
    #[serde(default, rename = "type", deserialize_with = "lenient")]
    kind: Option<String>,
}

impl Kind {
    fn of(value: &Json) -> String {
        value.read::<Self>().unwrap_or_default().kind.unwrap_or_default()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FunctionTool {
    #[serde(rename = "type")]
    _kind: IgnoredAny,
    function: Function,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "members that may be there, whatever their value is")]
struct Function {
    name: String,
    description: Option<IgnoredAny>,
    parameters: Option<IgnoredAny>,
    strict: Option<IgnoredAny>,
}

/// The `function` of one tool. The provider would run a tool of any other type itself.
fn function(tool: &Json, sent: &RawValue, i: usize) -> Read<Excerpt<String>> {
    let at = format!("`tools[{i}]`");
    let kind = Kind::of(tool);
    if kind != "function" {
        return Err(ModelQuestionError::HostedTool { at, kind });
    }
    let FunctionTool { function: Function { name, .. }, .. } = read(tool, &at)?;
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(fits) {
        return Err(ModelQuestionError::Name(at));
    }
    let sent: SentTool<'_> =
        serde_json::from_str(sent.get()).map_err(|_other| ModelQuestionError::Sent)?;
    Ok(Excerpt::of(name, sent.function))
}

/// A message in its JSON form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenMessage {
    role: Role,
    content: Option<WrittenContent>,
    name: Option<String>,
    tool_calls: Option<Vec<Json>>,
    #[serde(default, rename = "tool_call_id")]
    _tool_call_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected text or a list")]
enum WrittenContent {
    Text(String),
    Parts(Vec<Json>),
}

impl ChatMessage {
    fn read(message: &Json, i: usize) -> Read<Self> {
        let at = format!("`messages[{i}]`");
        let WrittenMessage { role, content, name, tool_calls, .. } = read(message, &at)?;
        let parts = match content {
            None => Vec::new(),
            Some(WrittenContent::Text(text)) => vec![MessagePart::Text(text)],
            Some(WrittenContent::Parts(parts)) => {
                parts.iter().map(|part| MessagePart::read(part, &at)).collect::<Read<_>>()?
            }
        };
        let calls = tool_calls.unwrap_or_default();
        let calls = calls.iter().map(|call| Requested::echoed(call, &at));
        let tool_calls = calls.collect::<Read<Vec<_>>>()?;
        if !tool_calls.is_empty() && role != Role::Assistant {
            return Err(ModelQuestionError::Asker(at));
        }
        Ok(Self { role, parts, name, tool_calls })
    }

    /// All text of the message.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            MessagePart::Text(text) => Some(text.as_str()),
            MessagePart::Image { .. } => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextPart {
    #[serde(rename = "type")]
    _kind: IgnoredAny,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImagePart {
    #[serde(rename = "type")]
    _kind: IgnoredAny,
    image_url: ImageUrl,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImageUrl {
    url: String,
    #[serde(default, rename = "detail", deserialize_with = "present")]
    _detail: Option<Detail>,
}

/// The resolution at which a model reads an image.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Detail {
    Auto,
    Low,
    High,
}

impl MessagePart {
    fn read(part: &Json, at: &str) -> Read<Self> {
        let kind = Kind::of(part);
        match kind.as_str() {
            "text" => Ok(Self::Text(read::<TextPart>(part, at)?.text)),
            "image_url" => Self::image(read::<ImagePart>(part, at)?.image_url.url, at),
            _other => Err(ModelQuestionError::Part { at: at.to_owned(), kind }),
        }
    }

    /// An image that is contained in the message. The provider would fetch any other image past the
    /// gate.
    fn image(url: String, at: &str) -> Read<Self> {
        let inline = url.strip_prefix("data:image/").and_then(|rest| rest.split_once(";base64,"));
        let Some((_, data)) = inline else {
            return Err(ModelQuestionError::RemoteImage(at.to_owned()));
        };
        let data = url.len().saturating_sub(data.len());
        Ok(Self::Image { url, data })
    }
}

/// The `type` of a tool call.
#[derive(Default, Deserialize)]
struct CallKind {
    #[serde(default, rename = "type", deserialize_with = "present")]
    kind: Option<Json>,
    #[serde(default, deserialize_with = "present")]
    function: Option<IgnoredAny>,
}

/// A tool call in its JSON form, and the names of its further members.
#[derive(Deserialize)]
struct WrittenCall {
    id: Option<String>,
    function: CalledFunction,
    #[serde(flatten)]
    more: BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
struct CalledFunction {
    name: String,
    arguments: String,
    #[serde(flatten)]
    more: BTreeMap<String, IgnoredAny>,
}

impl WrittenCall {
    fn read(call: &Json, at: &str) -> Read<Self> {
        let CallKind { kind, function } = call.read().unwrap_or_default();
        let named = kind.is_none_or(|kind| kind.as_str() == Some("function"));
        if function.is_none() || !named {
            return Err(ModelQuestionError::HostedCall(at.to_owned()));
        }
        read(call, at)
    }

    fn requested(self) -> Requested {
        let CalledFunction { name, arguments, .. } = self.function;
        Requested { id: self.id.unwrap_or_default(), name, arguments }
    }
}

impl Requested {
    /// An earlier tool call of an assistant, as the agent reports it. Unknown members are refused,
    /// because they were not checked.
    fn echoed(call: &Json, at: &str) -> Read<Self> {
        let call = WrittenCall::read(call, at)?;
        let mut more =
            call.more.keys().filter(|name| *name != "type").chain(call.function.more.keys());
        match more.next() {
            Some(name) => Err(ModelQuestionError::Member { at: at.to_owned(), name: name.clone() }),
            None => Ok(call.requested()),
        }
    }

    /// A tool call in the model's response; further members that the provider writes are not passed
    /// on.
    pub(super) fn answered(call: &Json) -> Read<Self> {
        WrittenCall::read(call, "the answer").map(WrittenCall::requested)
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
