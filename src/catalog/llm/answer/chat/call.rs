//! Tool calls of chat completions.

use std::collections::BTreeMap;

use crate::domain::json::{Json, json};
use crate::llm::answer::acting::refuse_acting_member;
use crate::llm::answer::error::unexpected;
use crate::llm::answer::{
    AnswerError, AnsweredCall, CALL_BYTES_MAX, CallForm, DENIED_NAME, broken, free_text,
    input_arguments,
};

/// A tool call, as far as its pieces came.
#[derive(Clone, Debug)]
pub(super) struct OpenCall {
    /// Its index; `None` is the one call of the old `function_call`.
    pub index: Option<u64>,
    pub id: String,
    /// `None` before it is known.
    is_custom: Option<bool>,
    name: String,
    /// Its arguments, or the free text of a custom tool.
    arguments: String,
    /// Members of the provider's own, such as a signature that the next request has to repeat.
    extra: BTreeMap<String, Json>,
}

impl OpenCall {
    /// A call of which nothing came.
    pub(super) const fn new(index: Option<u64>) -> Self {
        Self {
            index,
            id: String::new(),
            is_custom: None,
            name: String::new(),
            arguments: String::new(),
            extra: BTreeMap::new(),
        }
    }

    /// A call of a whole answer.
    pub(super) fn of(piece: &Json, is_old: bool) -> Result<Self, AnswerError> {
        let mut call = Self::new((!is_old).then_some(0));
        call.grow(piece)?;
        Ok(call)
    }

    pub(super) fn grow(&mut self, piece: &Json) -> Result<(), AnswerError> {
        let Json::Object(members) = piece else { return Err(unexpected("tool_calls")) };
        for (name, value) in members.iter().filter(|(_, value)| **value != Json::Null) {
            match (name.as_str(), value) {
                ("index", _) => {}
                ("id", Json::String(id)) => once(&mut self.id, id)?,
                ("type", Json::String(kind)) if kind == "function" || kind.is_empty() => {}
                ("type", Json::String(kind)) if kind == "custom" => self.is_of_kind(true)?,
                ("function", function @ Json::Object(_)) => {
                    self.is_of_kind(false)?;
                    self.function(function, "arguments")?;
                }
                ("custom", custom @ Json::Object(_)) => {
                    self.is_of_kind(true)?;
                    self.function(custom, "input")?;
                }
                ("id" | "type" | "function" | "custom", _) => return Err(unexpected(name)),
                (name, value) => {
                    refuse_acting_member(name, value)?;
                    self.extra.insert(name.to_owned(), value.clone());
                }
            }
        }
        Ok(())
    }

    /// A call is of one kind: where it could be read as either, clients would differ.
    fn is_of_kind(&mut self, is_custom: bool) -> Result<(), AnswerError> {
        if *self.is_custom.get_or_insert(is_custom) == is_custom {
            Ok(())
        } else {
            Err(broken("a tool call of two kinds"))
        }
    }

    fn function(&mut self, function: &Json, arguments: &str) -> Result<(), AnswerError> {
        for (name, value) in function.as_object().into_iter().flatten() {
            match (name.as_str(), value) {
                (_, Json::Null) => {}
                ("name", Json::String(name)) => once(&mut self.name, name)?,
                (name, Json::String(piece)) if name == arguments => self.arguments.push_str(piece),
                (name, _) => return Err(unexpected(name)),
            }
        }
        let bytes =
            self.arguments.len().saturating_add(self.name.len()).saturating_add(self.id.len());
        if bytes > CALL_BYTES_MAX { Err(AnswerError::CallTooLarge) } else { Ok(()) }
    }

    /// What is to be judged.
    pub(super) fn answered(&self, index: usize) -> Result<AnsweredCall, AnswerError> {
        if self.name.is_empty() {
            return Err(broken("a tool call without a name"));
        }
        let arguments = if self.is_custom == Some(true) {
            input_arguments(&self.arguments)
        } else {
            self.arguments.clone()
        };
        let (id, name) = (self.id.clone(), self.name.clone());
        Ok(AnsweredCall { index, id, name, arguments, custom: self.is_custom == Some(true) })
    }

    /// The call in this form; `None` if text leaves instead.
    pub(super) fn released(&self, form: &CallForm) -> Option<Json> {
        let (name, arguments) = match form {
            CallForm::AsAnswered => (self.name.as_str(), self.arguments.clone()),
            CallForm::Arguments(arguments) if self.is_custom == Some(true) => {
                (self.name.as_str(), free_text(arguments))
            }
            CallForm::Arguments(arguments) => (self.name.as_str(), arguments.clone()),
            CallForm::Denied(arguments) => (DENIED_NAME, arguments.clone()),
            CallForm::Text(_) => return None,
        };
        if self.index.is_none() {
            return Some(json!({"name": name, "arguments": arguments}));
        }
        let mut call = self.extra.clone();
        call.insert("id".into(), self.id.as_str().into());
        let (kind, function) = if self.is_custom == Some(true) {
            ("custom", json!({"name": name, "input": arguments}))
        } else {
            ("function", json!({"name": name, "arguments": arguments}))
        };
        call.insert("type".into(), kind.into());
        call.insert(kind.into(), function);
        Some(Json::Object(call))
    }
}

/// Takes a text that some servers repeat in every piece. Clients disagree about a second one.
fn once(text: &mut String, piece: &str) -> Result<(), AnswerError> {
    if text.is_empty() {
        piece.clone_into(text);
    }
    if piece.is_empty() || piece == text {
        Ok(())
    } else {
        Err(broken("a tool call with two names or ids"))
    }
}
