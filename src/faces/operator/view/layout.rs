//! How the values of a held call are laid out for a person.

use std::fmt::Write as _;

use serde::Deserialize;

use crate::domain::canonical;
use crate::domain::json::Json;
use crate::operator::escape::quoted;

/// The tier, and what it means.
pub(super) fn tier(tier: &str) -> &'static str {
    match tier {
        "T0" => "T0 reads only",
        "T1" => "T1 can be undone",
        "T2" => "T2 acts outside",
        _ => "T3 CANNOT BE UNDONE",
    }
}

/// The members of an effect for its one-line summary.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Deed {
    Http {
        method: String,
        scheme: String,
        host: String,
        port: u16,
        path: String,
        query: Vec<Parameter>,
    },
    File {
        access: String,
        root: String,
        path: String,
    },
    Mcp {
        method: String,
        server: String,
        name: String,
    },
}

/// One part of a query.
#[derive(Deserialize)]
struct Parameter {
    name: String,
    value: String,
}

/// The verb and the target of an effect, for a person.
pub(super) fn doing(effect: &Json, tool: &str) -> (String, String) {
    match effect.read() {
        Ok(Deed::Http { method, scheme, host, port, path, query }) => {
            let mut target = format!("{scheme}://{host}:{port}{path}");
            for (i, Parameter { name, value }) in query.iter().enumerate() {
                let mark = if i == 0 { '?' } else { '&' };
                target.push_str(&format!("{mark}{name}={value}"));
            }
            (method, target)
        }
        Ok(Deed::File { access, root, path }) => (access, format!("{root}:{path}")),
        Ok(Deed::Mcp { method, server, name }) => (method, format!("{name} of server {server}")),
        Err(_other_kind) => ("call".to_owned(), tool.to_owned()),
    }
}

/// The value on lines of its own; every string is one line.
pub(super) fn pretty(value: &Json, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Json::Array(items) if !items.is_empty() => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                let comma = if i == 0 { "" } else { "," };
                let _ = write!(out, "{comma}\n  {indent}");
                pretty(item, depth.saturating_add(1), out);
            }
            let _ = write!(out, "\n{indent}]");
        }
        Json::Object(members) if !members.is_empty() => {
            out.push('{');
            for (i, (name, item)) in members.iter().enumerate() {
                let comma = if i == 0 { "" } else { "," };
                let _ = write!(out, "{comma}\n  {indent}{}: ", quoted(name));
                pretty(item, depth.saturating_add(1), out);
            }
            let _ = write!(out, "\n{indent}}}");
        }
        Json::String(text) => out.push_str(&quoted(text)),
        Json::Null
        | Json::Bool(_)
        | Json::Int(_)
        | Json::Float(_)
        | Json::Array(_)
        | Json::Object(_) => out.push_str(&String::from_utf8_lossy(&canonical::bytes(value))),
    }
}
