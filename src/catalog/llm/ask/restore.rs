//! Denied tool calls on their way up. The agent read `wicketgate_denied` and reported that it has no
//! such tool; the model reads what it asked for, and why that was denied. So signed thoughts stay
//! followed by the call that they were made for, and caches of the provider hold.

use std::ops::Range;

use super::form;
use super::members::AskResult;
use super::splice::{ObjectEdit, Splices};
use super::unnamed::PendingCalls;
use crate::domain::canonical;
use crate::domain::dialect::Dialect;
use crate::domain::json::{Json, Limits};
use crate::llm::cursor::Cursor;

/// A denied tool call, as the model asked for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    /// The id of the call.
    pub id: String,
    /// The name of the tool; in the responses dialect, a namespace stands before the last dot.
    pub name: String,
    /// The arguments, as the model wrote them; of a custom tool its input.
    pub arguments: String,
    /// Whether the tool is a custom one, whose input is a text.
    pub custom: bool,
    /// The result of the call: why it was denied.
    pub result: String,
}

impl Restored {
    /// The arguments as a value. Those that are no JSON object stand in a member of one.
    fn value(&self) -> Vec<u8> {
        let text = self.arguments.as_bytes();
        match Json::parse(text, &Limits::MODEL) {
            Ok(Json::Object(_)) => text.to_vec(),
            _other => {
                let arguments = Json::from(self.arguments.as_str());
                canonical::bytes(&Json::object([("arguments", arguments)]))
            }
        }
    }
}

fn quoted(text: &str) -> Vec<u8> {
    canonical::bytes(&Json::from(text))
}

/// The request's bytes, and what is restored in them.
struct Restorer<'a> {
    sent: &'a [u8],
    restored: &'a [Restored],
    splices: &'a mut Splices,
    /// Calls without a result, of a dialect in which calls may have no id.
    pending: PendingCalls,
}

/// Restores the calls of these ids and their results.
pub(super) fn restore(
    sent: &[u8],
    dialect: Dialect,
    request: &ObjectEdit,
    restored: &[Restored],
    splices: &mut Splices,
) -> AskResult<()> {
    let pending = PendingCalls::default();
    let mut restorer = Restorer { sent, restored, splices, pending };
    let Some(list) = request.value(form(dialect).list) else { return Ok(()) };
    for item in restorer.objects(&list)? {
        match dialect {
            Dialect::Chat => restorer.chat(item)?,
            Dialect::Responses => restorer.item(item)?,
            Dialect::Messages => {
                let content = item.value("content");
                for block in restorer.objects_of(content)? {
                    restorer.block(block);
                }
            }
            Dialect::Gemini => {
                let parts = item.value("parts");
                for part in restorer.objects_of(parts)? {
                    restorer.part(&part)?;
                }
            }
            Dialect::Ollama => restorer.spoken(item)?,
        }
    }
    Ok(())
}

impl<'a> Restorer<'a> {
    /// The objects of a list; none of another value.
    fn objects(&self, list: &Range<usize>) -> AskResult<Vec<ObjectEdit>> {
        let begins = |at: &Range<usize>, with: u8| self.sent.get(at.start) == Some(&with);
        if !begins(list, b'[') {
            return Ok(Vec::new());
        }
        let items = Cursor::items(self.sent, list)?.into_iter();
        let objects = items.filter(|item| begins(item, b'{'));
        objects.map(|item| ObjectEdit::of(self.sent, item)).collect()
    }

    fn objects_of(&self, list: Option<Range<usize>>) -> AskResult<Vec<ObjectEdit>> {
        list.map_or_else(|| Ok(Vec::new()), |list| self.objects(&list))
    }

    /// What is restored of the call that this member names.
    fn find(&self, object: &ObjectEdit, id: &str) -> Option<&'a Restored> {
        let id = object.text(self.sent, id)?;
        self.restored.iter().find(|one| one.id == id)
    }

    fn chat(&mut self, mut message: ObjectEdit) -> AskResult<()> {
        for mut call in self.objects_of(message.value("tool_calls"))? {
            let Some(one) = self.find(&call, "id") else { continue };
            let own = if call.value("custom").is_some() { "custom" } else { "function" };
            let Some(at) = call.value(own) else { continue };
            let mut called = ObjectEdit::of(self.sent, at)?;
            let input = if own == "custom" { "input" } else { "arguments" };
            let (to, kind) =
                if one.custom { ("input", "custom") } else { ("arguments", "function") };
            called.set("name", quoted(&one.name));
            called.rename(input, to, quoted(&one.arguments));
            called.finish(self.splices);
            if own != kind {
                call.set("type", quoted(kind));
                call.rename_key(own, kind);
                call.finish(self.splices);
            }
        }
        if let Some(one) = self.find(&message, "tool_call_id") {
            message.set("content", quoted(&one.result));
            message.finish(self.splices);
        }
        Ok(())
    }

    fn item(&mut self, mut item: ObjectEdit) -> AskResult<()> {
        let Some(one) = self.find(&item, "call_id") else { return Ok(()) };
        let kind = item.text(self.sent, "type").unwrap_or_default();
        match kind.as_str() {
            "function_call" | "custom_tool_call" => {
                let input = if kind == "function_call" { "arguments" } else { "input" };
                let (to, kind) = if one.custom {
                    ("input", "custom_tool_call")
                } else {
                    ("arguments", "function_call")
                };
                item.set("type", quoted(kind));
                item.rename(input, to, quoted(&one.arguments));
                let name = match one.name.rsplit_once('.') {
                    Some((namespace, name)) => {
                        item.set("namespace", quoted(namespace));
                        name
                    }
                    None => one.name.as_str(),
                };
                item.set("name", quoted(name));
            }
            "function_call_output" | "custom_tool_call_output" => {
                let kind =
                    if one.custom { "custom_tool_call_output" } else { "function_call_output" };
                item.set("type", quoted(kind));
                item.set("output", quoted(&one.result));
            }
            _other => return Ok(()),
        }
        item.finish(self.splices);
        Ok(())
    }

    /// The object that this member is; none if it is another value.
    fn object_in(&self, object: &ObjectEdit, name: &str) -> AskResult<Option<ObjectEdit>> {
        let at = object.value(name).filter(|at| self.sent.get(at.start) == Some(&b'{'));
        at.map(|at| ObjectEdit::of(self.sent, at)).transpose()
    }

    /// What is restored of a call that may have no id.
    fn called(
        &mut self,
        id: Option<&str>,
        (object, arguments): (&ObjectEdit, &str),
    ) -> AskResult<Option<&'a Restored>> {
        let name = object.text(self.sent, "name").unwrap_or_default();
        let value = object.json(self.sent, arguments)?.filter(|value| *value != Json::Null);
        let value = value.map_or_else(|| "{}".to_owned(), |value| canonical::text(&value));
        let id = self.pending.called(id, &name, &value);
        Ok(self.restored.iter().find(|one| one.id == id))
    }

    fn part(&mut self, part: &ObjectEdit) -> AskResult<()> {
        if let Some(mut call) = self.object_in(part, "functionCall")? {
            let id = call.text(self.sent, "id");
            if let Some(one) = self.called(id.as_deref(), (&call, "args"))? {
                call.set("name", quoted(&one.name));
                call.set("args", one.value());
                call.finish(self.splices);
            }
        }
        let Some(mut result) = self.object_in(part, "functionResponse")? else { return Ok(()) };
        let (id, name) = (result.text(self.sent, "id"), result.text(self.sent, "name"));
        let id = self.pending.answered(id.as_deref(), name.as_deref());
        if let Some(one) = self.restored.iter().find(|one| one.id == id) {
            result.set("name", quoted(&one.name));
            let response = Json::object([("error", Json::from(one.result.as_str()))]);
            result.set("response", canonical::bytes(&response));
            result.finish(self.splices);
        }
        Ok(())
    }

    fn spoken(&mut self, mut message: ObjectEdit) -> AskResult<()> {
        for call in self.objects_of(message.value("tool_calls"))? {
            let Some(mut function) = self.object_in(&call, "function")? else { continue };
            let id = call.text(self.sent, "id");
            if let Some(one) = self.called(id.as_deref(), (&function, "arguments"))? {
                function.set("name", quoted(&one.name));
                function.set("arguments", one.value());
                function.finish(self.splices);
            }
        }
        if message.text(self.sent, "role").as_deref() != Some("tool") {
            return Ok(());
        }
        let named = ["tool_name", "name"].into_iter().find(|name| message.value(name).is_some());
        let name = named.and_then(|name| message.text(self.sent, name));
        let id = message.text(self.sent, "tool_call_id");
        let id = self.pending.answered(id.as_deref(), name.as_deref());
        if let Some(one) = self.restored.iter().find(|one| one.id == id) {
            if let Some(named) = named {
                message.set(named, quoted(&one.name));
            }
            message.set("content", quoted(&one.result));
            message.finish(self.splices);
        }
        Ok(())
    }

    fn block(&mut self, mut block: ObjectEdit) {
        match block.text(self.sent, "type").as_deref() {
            Some("tool_use") => {
                let Some(one) = self.find(&block, "id") else { return };
                block.set("name", quoted(&one.name));
                block.set("input", one.value());
            }
            Some("tool_result") => {
                let Some(one) = self.find(&block, "tool_use_id") else { return };
                block.set("content", quoted(&one.result));
                block.set("is_error", b"true".to_vec());
            }
            _other => return,
        }
        block.finish(self.splices);
    }
}
