//! What in an answer acts: names of members by which something could be called, and what the
//! provider ran by itself.

use std::collections::BTreeSet;

use super::AnswerError;
use crate::domain::json::Json;

/// Members by which clients know a tool call. An unknown part leaves only without them.
const MEMBERS: [&str; 19] = [
    "action",
    "args",
    "arguments",
    "command",
    "commands",
    "executableCode",
    "executable_code",
    "function",
    "functionCall",
    "function_call",
    "input",
    "name",
    "partialArgs",
    "partial_args",
    "partial_json",
    "toolCall",
    "tool_call",
    "tool_calls",
    "tool_use",
];

/// Refuses a value that holds a member of that list anywhere.
pub(super) fn refuse_acting(kind: &str, value: &Json) -> Result<(), AnswerError> {
    refused(kind, acting(value))
}

/// Refuses a member that is in that list, or whose value holds one.
pub(super) fn refuse_acting_member(name: &str, value: &Json) -> Result<(), AnswerError> {
    refused(name, acting_member(name, value))
}

fn refused(kind: &str, acting: Option<&str>) -> Result<(), AnswerError> {
    acting.map_or(Ok(()), |member| {
        Err(AnswerError::Acting { kind: short(kind), member: member.to_owned() })
    })
}

fn acting_member(name: &str, value: &Json) -> Option<&'static str> {
    let listed = MEMBERS.iter().find(|listed| **listed == name && *value != Json::Null);
    listed.copied().or_else(|| acting(value))
}

fn acting(value: &Json) -> Option<&'static str> {
    match value {
        Json::Object(members) => {
            members.iter().find_map(|(name, value)| acting_member(name, value))
        }
        Json::Array(items) => items.iter().find_map(acting),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => None,
    }
}

/// Refuses what a provider ran by itself unless its tool was allowed. `name` is the tool that the
/// block or item names, if its type does not.
pub(super) fn refuse_hosted(
    kind: &str,
    name: Option<&str>,
    allowed: &BTreeSet<String>,
) -> Result<(), AnswerError> {
    let family = family(kind, name);
    let dated = |tool: &String| tool.strip_prefix(family).is_some_and(|rest| rest.starts_with('_'));
    let is_allowed = allowed.contains(family) || allowed.iter().any(dated);
    let ran = || AnswerError::ProviderRan(short(name.filter(|_| kind == SERVER).unwrap_or(kind)));
    is_allowed.then_some(()).ok_or_else(ran)
}

const SERVER: &str = "server_tool_use";

/// The tool as it is offered: `web_search` of `web_search_call`, of `web_search_tool_result`, and of
/// `server_tool_use` with this name.
fn family<'a>(kind: &'a str, name: Option<&'a str>) -> &'a str {
    if kind.starts_with("mcp_") {
        return "mcp";
    }
    let tool = if kind == SERVER { name.unwrap_or_default() } else { kind };
    let ends = ["_call_output", "_call", "_tool_result", "_tool_use"];
    let tool = ends.iter().find_map(|end| tool.strip_suffix(end)).unwrap_or(tool);
    let runs_code = tool.ends_with("code_execution") || tool == "container_upload";
    if runs_code { "code_execution" } else { tool }
}

/// A provider's word, short enough for a message.
pub(super) fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

/// The texts of a model in this value, in the order of their members.
pub(super) fn texts<'a>(value: &'a Json, found: &mut Vec<&'a str>) {
    let mut named = Vec::new();
    named_texts(value, &mut named);
    found.extend(named.into_iter().map(|(_, text)| text));
}

/// The same, each with the name of its member.
pub(super) fn named_texts<'a>(value: &'a Json, found: &mut Vec<(&'a str, &'a str)>) {
    match value {
        Json::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value) {
                    (
                        "text" | "refusal" | "thinking" | "delta" | "summary" | "transcript",
                        Json::String(text),
                    ) => found.push((name, text)),
                    (_, value) => named_texts(value, found),
                }
            }
        }
        Json::Array(items) => items.iter().for_each(|item| named_texts(item, found)),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => {}
    }
}
