//! What providers say, in each dialect, and what clients make of it: a module for each. The list of the
//! dialects is the gate's own, so a new one does not compile here before it has its module, and is in every
//! test that goes through [`ALL`] from then on.

use serde_json::{Value, json};
use wicketgate::domain::dialect::Dialect as Form;

use crate::wire::Reply;

mod chat;
mod gemini;
mod messages;
mod ollama;
mod responses;

pub use chat::{chat_call, chunks, completion};
pub use gemini::{call_part, contents};
pub use ollama::{lines, local_call};
pub use responses::{output_text, response_events};

/// A tool call: its id, its name and its arguments.
pub type Call<'a> = (&'a str, &'a str, &'a str);

/// What a client makes of a stream.
#[derive(Default)]
pub struct Heard {
    pub text: String,
    pub calls: Vec<(String, Value)>,
    pub ended: bool,
}

/// How a dialect says things.
pub trait Words: Sync {
    /// Its name in the configuration of an upstream.
    fn api(&self) -> &'static str;

    /// What stands before its path at a provider.
    fn base(&self) -> &'static str {
        "/v1"
    }

    /// The member with the conversation.
    fn list(&self) -> &'static str {
        "messages"
    }

    /// The member with the instructions, unless they are messages.
    fn beside(&self) -> Option<&'static str> {
        None
    }

    /// The path and the body of a request.
    fn placed(&self, path: &str, request: &Value) -> (String, String) {
        (path.to_owned(), request.to_string())
    }

    /// The request as it is judged and recorded.
    fn judged(&self, request: &Value) -> Value {
        request.clone()
    }

    /// A request with these instructions, all of them before the conversation.
    fn request(&self, prompt: &[&str], said: &[Value], stream: bool) -> Value;

    /// What a user says.
    fn question(&self, text: &str) -> Value;

    /// What a client sends back of an answer of this text.
    fn echoed(&self, text: &str) -> Value;

    /// A function that an agent offers.
    fn tool(&self, name: &str, description: &str, parameters: &Value) -> Value;

    /// The list of these.
    fn tools(&self, tools: Vec<Value>) -> Value {
        tools.into()
    }

    /// What a client sends back of an answer with this call, and of its result.
    fn turn(&self, call: Call<'_>, result: &str) -> [Value; 2];

    /// A streamed answer of this text and these calls.
    fn streamed(&self, text: &str, calls: &[Call<'_>]) -> String;

    /// The same in one piece.
    fn whole(&self, text: &str, calls: &[Call<'_>]) -> Value;

    /// A streamed answer of a text in two parts, and a call between them.
    fn around_a_call(&self, text: (&str, &str), call: Call<'_>) -> String;

    /// Whether the texts of an answer stand in blocks, each with its end.
    fn has_blocks(&self) -> bool {
        false
    }

    /// The media type of its streams.
    fn media_type(&self) -> &'static str {
        "text/event-stream"
    }

    /// What ends an event of its streams.
    fn event_end(&self) -> &'static str {
        "\n\n"
    }

    /// What stands before the data of an event.
    fn front(&self) -> &'static str {
        "data: "
    }

    /// Whether an event with a text has a piece of it: some repeat the whole.
    fn is_piece(&self, event: &str) -> bool {
        event.contains("delta")
    }

    /// Whether its streams may have comments.
    fn has_comments(&self) -> bool {
        true
    }

    /// Whether each call has an id.
    fn needs_ids(&self) -> bool {
        true
    }

    /// Reads an event.
    fn hear(&self, event: &Value, heard: &mut Heard);
}

/// A dialect, and the path of its requests.
pub struct Dialect {
    pub name: &'static str,
    pub path: &'static str,
    words: &'static dyn Words,
}

impl std::ops::Deref for Dialect {
    type Target = dyn Words;

    fn deref(&self) -> &Self::Target {
        self.words
    }
}

impl PartialEq for Dialect {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

pub const CHAT: &Dialect = of(Form::Chat);
pub const RESPONSES: &Dialect = of(Form::Responses);
pub const MESSAGES: &Dialect = of(Form::Messages);
pub const GEMINI: &Dialect = of(Form::Gemini);
pub const OLLAMA: &Dialect = of(Form::Ollama);

/// All that the gate has.
pub const ALL: [&Dialect; Form::ALL.len()] = {
    let mut all = [CHAT; Form::ALL.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = of(Form::ALL[at]);
        at += 1;
    }
    all
};

const fn of(form: Form) -> &'static Dialect {
    const fn dialect(form: Form, path: &'static str, words: &'static dyn Words) -> Dialect {
        Dialect { name: form.as_str(), path, words }
    }
    match form {
        Form::Chat => const { &dialect(Form::Chat, "/v1/chat/completions", &chat::Chat) },
        Form::Responses => {
            const { &dialect(Form::Responses, "/v1/responses", &responses::Responses) }
        }
        Form::Messages => const { &dialect(Form::Messages, "/v1/messages", &messages::Messages) },
        Form::Gemini => {
            const { &dialect(Form::Gemini, "/v1beta/models/small:generateContent", &gemini::Gemini) }
        }
        Form::Ollama => const { &dialect(Form::Ollama, "/api/chat", &ollama::Ollama) },
    }
}

impl Dialect {
    /// The path and the body of a request. WHY here: that of Gemini has its model and the form of its
    /// answer in the path.
    pub fn placed(&self, request: &Value) -> (String, String) {
        self.words.placed(self.path, request)
    }

    /// Where an event of this stream ends that has this text.
    pub fn end_of(&self, stream: &str, text: &str) -> usize {
        let at = stream.find(text).unwrap();
        at + stream[at..].find(self.event_end()).unwrap() + self.event_end().len()
    }

    /// A request of this text, with the system's instructions.
    pub fn request(&self, text: &str, stream: bool) -> Value {
        self.words.request(&[super::gate::INSTRUCTIONS], &[self.question(text)], stream)
    }

    /// A request with these instructions and this conversation.
    pub fn prompted(&self, prompt: &[&str], said: &[Value], stream: bool) -> Value {
        self.words.request(prompt, said, stream)
    }

    /// The same, which offers these functions.
    pub fn offering(&self, text: &str, stream: bool, names: &[&str]) -> Value {
        let described = |name: &&str| match *name {
            "work_do" => ((*name).to_owned(), "does work".to_owned()),
            other => (other.to_owned(), format!("the agent's own {other}")),
        };
        let tools: Vec<(String, String)> = names.iter().map(described).collect();
        let tools: Vec<(&str, &str)> =
            tools.iter().map(|(n, d)| (n.as_str(), d.as_str())).collect();
        self.with_tools(self.request(text, stream), &tools)
    }

    /// The request, which offers functions of these names and descriptions.
    pub fn with_tools(&self, mut request: Value, tools: &[(&str, &str)]) -> Value {
        let parameters = json!({"type": "object", "properties": {}});
        let tools = tools.iter().map(|(name, text)| self.tool(name, text, &parameters));
        request["tools"] = self.tools(tools.collect());
        request
    }

    /// The request after an answer with this tool call, with the result that the agent gives it.
    pub fn followed(&self, request: &Value, call: Call<'_>, result: &str) -> Value {
        let mut next = request.clone();
        next[self.list()].as_array_mut().unwrap().extend(self.turn(call, result));
        next
    }

    /// What a client makes of a stream: its text, its tool calls (name and arguments), and whether
    /// the stream has its end.
    pub fn read(&self, body: &str) -> (String, Vec<(String, Value)>, bool) {
        let mut heard = Heard::default();
        let lines = body.lines().map(str::trim_start).filter(|line| !line.is_empty());
        for data in lines.filter_map(|line| line.strip_prefix(self.front())) {
            if data == "[DONE]" {
                heard.ended = true;
            } else {
                self.hear(&serde_json::from_str(data).unwrap(), &mut heard);
            }
        }
        (heard.text, heard.calls, heard.ended)
    }
}

/// Events with names of their types, as `responses` and `messages` have them.
pub fn named(events: &[Value]) -> String {
    let one =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(one).collect()
}

/// Events without names.
pub fn unnamed(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

/// What the gate says is wrong. That of Ollama stands beside the error, which is a text.
pub fn problem(reply: &Reply) -> Value {
    let body = reply.json();
    let problem = body["error"].get("wicketgate").or(body.get("wicketgate"));
    problem.cloned().unwrap_or_default()
}

/// The code of that.
pub fn code(reply: &Reply) -> String {
    problem(reply)["code"].as_str().unwrap_or_default().to_owned()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn parsed(arguments: &Value) -> Value {
    serde_json::from_str(arguments.as_str().unwrap_or_default()).unwrap_or(Value::Null)
}
