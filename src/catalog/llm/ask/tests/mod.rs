//! Requests of real clients, refusals and edits.

mod clients;
mod edited;
mod newer;
mod offers;
mod refused;

use super::{Ask, AskError, AskRules, read, upstream_body};
use crate::domain::dialect::{Dialect, Operation};
use crate::domain::json::{Json, Limits};

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), &Limits::MODEL).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn ask_by(rules: &AskRules, dialect: Dialect, body: &str) -> Result<Ask, AskError> {
    read(dialect, Operation::Generate, &json(body), body.as_bytes(), rules)
}

fn ask(dialect: Dialect, body: &str) -> Result<Ask, AskError> {
    ask_by(&AskRules::default(), dialect, body)
}

/// The request as the provider gets it.
fn sent_up(ask: &Ask, body: &str) -> String {
    String::from_utf8(upstream_body(body.as_bytes(), ask.dialect, &ask.edits).unwrap()).unwrap()
}

/// A request with these further members.
fn request(dialect: Dialect, more: &str) -> String {
    let body = match dialect {
        Dialect::Chat => r#"{"model":"m","messages":[{"role":"user","content":"x"}]"#,
        Dialect::Responses => r#"{"model":"m","input":"x""#,
        Dialect::Messages => {
            r#"{"model":"m","max_tokens":8,"messages":[{"role":"user","content":"x"}]"#
        }
        Dialect::Gemini => {
            r#"{"model":"m","stream":false,"contents":[{"role":"user","parts":[{"text":"x"}]}]"#
        }
        Dialect::Ollama => r#"{"model":"m","messages":[{"role":"user","content":"x"}]"#,
    };
    let comma = if more.is_empty() { "" } else { "," };
    format!("{body}{comma}{more}}}")
}

/// A request with these messages or items.
fn conversation(dialect: Dialect, list: &str) -> String {
    match dialect {
        Dialect::Chat | Dialect::Ollama => format!(r#"{{"model":"m","messages":[{list}]}}"#),
        Dialect::Gemini => format!(r#"{{"model":"m","contents":[{list}]}}"#),
        Dialect::Responses => format!(r#"{{"model":"m","input":[{list}]}}"#),
        Dialect::Messages => format!(r#"{{"model":"m","max_tokens":8,"messages":[{list}]}}"#),
    }
}

/// A request of one user message with this part, block or item part.
fn part(dialect: Dialect, part: &str) -> String {
    let member = if dialect == Dialect::Gemini { "parts" } else { "content" };
    conversation(dialect, &format!(r#"{{"role":"user","{member}":[{part}]}}"#))
}
