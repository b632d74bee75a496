//! The items of a response that ask for tools.

use std::collections::BTreeSet;

use crate::domain::canonical;
use crate::domain::json::{Json, json};
use crate::llm::answer::acting::{refuse_acting, refuse_hosted, short};
use crate::llm::answer::error::unexpected;
use crate::llm::answer::{
    AnswerError, AnsweredCall, CallForm, DENIED_NAME, LIMITS, broken, free_text, given,
    input_arguments, text_of,
};

/// What an item is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ItemKind {
    /// A call with JSON as arguments.
    Function,
    /// A call with free text.
    Custom,
    /// A command for the agent's own shell.
    Shell,
    /// The provider ran something, and may.
    Hosted,
    /// A message, reasoning, or what cannot act.
    Text,
}

impl ItemKind {
    /// The kind of an item.
    ///
    /// # Errors
    /// The item must not leave.
    pub(super) fn of(item: &Json, allowed: &BTreeSet<String>) -> Result<Self, AnswerError> {
        match text_of(item, "type").ok_or_else(|| unexpected("item"))? {
            "function_call" => Ok(Self::Function),
            "custom_tool_call" => Ok(Self::Custom),
            "local_shell_call" => Ok(Self::Shell),
            // The provider asks for these and the agent runs them, and no tool of the gate is one:
            // that a provider may run tools by itself does not let them leave.
            kind @ ("apply_patch_call" | "computer_call" | "shell_call") => {
                Err(AnswerError::Acting { kind: short(kind), member: "action".to_owned() })
            }
            kind if kind.ends_with("_call")
                || kind.ends_with("_output")
                || kind.starts_with("mcp_") =>
            {
                refuse_hosted(kind, None, allowed)?;
                Ok(Self::Hosted)
            }
            kind => {
                refuse_acting(kind, item)?;
                Ok(Self::Text)
            }
        }
    }

    /// Whether the agent would run it.
    pub(super) const fn is_call(self) -> bool {
        match self {
            Self::Function | Self::Custom | Self::Shell => true,
            Self::Hosted | Self::Text => false,
        }
    }

    /// The stem of the events in which its arguments come, and their member.
    pub(super) const fn argument_events(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Function => Some(("response.function_call_arguments", "arguments")),
            Self::Custom => Some(("response.custom_tool_call_input", "input")),
            Self::Shell | Self::Hosted | Self::Text => None,
        }
    }
}

/// One item of a stream.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub kind: ItemKind,
    /// The item as it came last.
    pub json: Json,
    /// Of a call: the data of the event that added it; empty if none did.
    pub added: String,
    /// The pieces of its arguments.
    pub pieces: String,
    /// The data of the event that repeats the arguments; empty if none did.
    pub arguments_done: String,
    /// The data of the event that ends it.
    pub done: String,
    pub is_done: bool,
    /// The item as it left, if it left changed.
    pub released: Option<Json>,
}

impl Item {
    pub(super) fn new(kind: ItemKind, json: &Json) -> Self {
        Self {
            kind,
            json: json.clone(),
            added: String::new(),
            pieces: String::new(),
            arguments_done: String::new(),
            done: String::new(),
            is_done: false,
            released: None,
        }
    }

    /// Refuses arguments that repeat others than came in pieces.
    pub(super) fn repeat(&mut self, whole: &str) -> Result<(), AnswerError> {
        if self.pieces.is_empty() {
            whole.clone_into(&mut self.pieces);
        }
        if self.pieces == whole { Ok(()) } else { Err(broken("a tool call with two arguments")) }
    }

    /// Takes the item as it is at its end; refuses one that differs from what came before.
    pub(super) fn complete(&mut self, json: &Json) -> Result<(), AnswerError> {
        if let Some((_, member)) = self.kind.argument_events() {
            let whole = json.get(member).and_then(Json::as_str);
            self.repeat(whole.ok_or_else(|| unexpected("response.output_item.done"))?)?;
        }
        for name in ["id", "call_id", "name", "namespace"] {
            let before = text_of(&self.json, name);
            if before.is_some() && before != text_of(json, name) {
                return Err(broken("a tool call with two names or ids"));
            }
        }
        self.json = json.clone();
        Ok(())
    }

    /// Whether an item of the last event asks for the same.
    pub(super) fn repeats(&self, json: &Json) -> bool {
        let names = ["type", "id", "call_id", "name", "namespace", "arguments", "input", "action"];
        names.iter().all(|name| given(&self.json, name) == given(json, name))
    }
}

/// What is to be judged.
pub(super) fn answered(
    kind: ItemKind,
    item: &Json,
    index: usize,
) -> Result<AnsweredCall, AnswerError> {
    let id = text_of(item, "call_id").unwrap_or_default().to_owned();
    if kind == ItemKind::Shell {
        let arguments = given(item, "action").map(canonical::text).unwrap_or_default();
        return Ok(AnsweredCall {
            index,
            id,
            name: "local_shell".into(),
            arguments,
            custom: false,
        });
    }
    let name = text_of(item, "name").ok_or_else(|| broken("a tool call without a name"))?;
    let name = match text_of(item, "namespace") {
        Some(namespace) => format!("{namespace}.{name}"),
        None => name.to_owned(),
    };
    let custom = kind == ItemKind::Custom;
    let text = |member: &str| item.get(member).and_then(Json::as_str).map(str::to_owned);
    let arguments = if custom {
        input_arguments(&text("input").ok_or_else(|| unexpected("custom_tool_call"))?)
    } else {
        text("arguments").ok_or_else(|| unexpected("function_call"))?
    };
    Ok(AnsweredCall { index, id, name, arguments, custom })
}

/// A call as it leaves in this form, and its kind. A shell call has no name that could be denied: a denied one is a
/// function call.
pub(super) fn released(kind: ItemKind, item: &Json, form: &CallForm) -> (ItemKind, Json) {
    let word = |name: &str| item.get(name).cloned().unwrap_or_default().to_serde();
    match form {
        CallForm::AsAnswered => (kind, item.clone()),
        CallForm::Arguments(arguments) => {
            let (member, value) = match kind {
                ItemKind::Custom => ("input", Json::from(free_text(arguments))),
                ItemKind::Shell => {
                    let read = Json::parse(arguments.as_bytes(), &LIMITS);
                    ("action", read.unwrap_or_default())
                }
                ItemKind::Function | ItemKind::Hosted | ItemKind::Text => {
                    ("arguments", Json::from(arguments.as_str()))
                }
            };
            let mut item = item.clone();
            if let Json::Object(members) = &mut item {
                members.insert(member.into(), value);
            }
            (kind, item)
        }
        CallForm::Denied(arguments) if kind == ItemKind::Custom => {
            let item = json!({
                "type": "custom_tool_call", "id": word("id"), "call_id": word("call_id"),
                "name": DENIED_NAME, "input": arguments, "status": "completed",
            });
            (kind, item)
        }
        CallForm::Denied(arguments) => {
            let item = json!({
                "type": "function_call", "id": word("id"), "call_id": word("call_id"),
                "name": DENIED_NAME, "arguments": arguments, "status": "completed",
            });
            (ItemKind::Function, item)
        }
        CallForm::Text(text) => (ItemKind::Text, text_item(item, text)),
    }
}

/// The message that leaves instead of a call.
fn text_item(call: &Json, text: &str) -> Json {
    // An id says by its beginning what it names, and no two items have the same.
    let id = text_of(call, "id").or_else(|| text_of(call, "call_id")).unwrap_or_default();
    json!({
        "type": "message", "id": format!("msg_{id}"), "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    })
}

/// A call before its arguments came, and these.
pub(super) fn begun(kind: ItemKind, item: &Json) -> (Json, String) {
    let mut begun = item.clone();
    let mut arguments = String::new();
    if let (Json::Object(members), Some((_, member))) = (&mut begun, kind.argument_events()) {
        members.insert("status".into(), "in_progress".into());
        if let Some(Json::String(whole)) = members.insert(member.into(), "".into()) {
            arguments = whole;
        }
    }
    (begun, arguments)
}
