//! Requests of `POST /v1/responses`.
//!
//! The table was made from the API reference of 2026-11, as openai-python 3.54.0 has it, and from
//! what Codex 0.169.0 sends (`client_metadata`).

use super::form::plain_target;
use super::members::MemberUse::{Pass, Read, State};
use super::members::{
    AskReader, AskResult, MemberTable, ObjectMembers, RequestPath, custom_arguments, given,
    kind_of, list, maybe_text, number, object, text, text_of, value_of,
};
use super::offered::choice_of;
use super::{AskForm, OfferedForm, OfferedTool, ToolPlace};
use crate::domain::canonical;
use crate::domain::json::Json;

/// What a request says besides its members.
pub(super) const FORM: AskForm = AskForm {
    list: "input",
    bound: Some("max_output_tokens"),
    holder: None,
    path_members: &[],
    target: plain_target,
};

/// The members of a request. Not in it, so refused unless the operator passes it:
/// `access_programs`, which asks for models with fewer restrictions.
const MEMBERS: MemberTable = &[
    ("conversation", Read),
    ("input", Read),
    ("instructions", Read),
    ("max_output_tokens", Read),
    ("model", Read),
    ("previous_response_id", Read),
    ("stream", Read),
    ("tool_choice", Read),
    ("tools", Read),
    ("background", State),
    ("background_options", State),
    ("prompt", State),
    ("client_metadata", Pass),
    ("context_management", Pass),
    ("image", Pass),
    ("include", Pass),
    ("max_tool_calls", Pass),
    ("metadata", Pass),
    ("moderation", Pass),
    ("parallel_tool_calls", Pass),
    ("prompt_cache_key", Pass),
    ("prompt_cache_options", Pass),
    ("prompt_cache_retention", Pass),
    ("reasoning", Pass),
    ("safety_identifier", Pass),
    ("service_tier", Pass),
    ("store", Pass),
    ("stream_options", Pass),
    ("temperature", Pass),
    ("text", Pass),
    ("top_logprobs", Pass),
    ("top_p", Pass),
    ("truncation", Pass),
    ("user", Pass),
];

const MESSAGE: &[&str] = &["type", "role", "content", "id", "status", "phase"];
const TEXT_PART: &[&str] =
    &["type", "text", "annotations", "logprobs", "prompt_cache_breakpoint", "cache_control"];
const FUNCTION: &[&str] = &[
    "type",
    "name",
    "description",
    "parameters",
    "strict",
    "output_schema",
    "allowed_callers",
    "defer_loading",
];
/// Items that say the provider ran something, or that it offered tools which the gate did not see.
const PROVIDER_RAN: [&str; 17] = [
    "apply_patch_call",
    "apply_patch_call_output",
    "code_interpreter_call",
    "computer_call",
    "computer_call_output",
    "file_search_call",
    "image_generation_call",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "mcp_list_tools",
    "program",
    "program_output",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "web_search_call",
];

/// Reads a request.
pub(super) fn read(reader: &mut AskReader<'_>, body: &Json) -> AskResult<()> {
    let members = reader.top(body, MEMBERS)?;
    if let Some(instructions) = given(members, "instructions") {
        reader.instruct(text(instructions, &RequestPath::top("instructions"))?);
    }
    let at = RequestPath::top("input");
    match given(members, "input") {
        None => {}
        Some(Json::String(_)) => reader.ask.messages = 1,
        Some(input) => {
            let items = input.as_array().ok_or_else(|| at.shape("a string or a list of items"))?;
            reader.ask.messages = number(items.len());
            for (index, item) in items.iter().enumerate() {
                reader.turn = index;
                reader.input_item(item, &at.item(index))?;
            }
        }
    }
    let at = RequestPath::top("tools");
    let tools = given(members, "tools").map(|tools| list(tools, &at)).transpose()?;
    for (index, tool) in tools.into_iter().flatten().enumerate() {
        let place = |within| ToolPlace::Tools(index, within);
        reader.offered_item(tool, &place, &at.item(index))?;
    }
    reader.ask.tool_choice = given(members, "tool_choice").and_then(choice_of).map(str::to_owned);
    reader.remembered(members)?;
    reader.bound(members, &["max_output_tokens"])
}

impl AskReader<'_> {
    /// What the provider remembers of earlier requests.
    fn remembered(&mut self, members: &ObjectMembers) -> AskResult<()> {
        if let Some(id) = given(members, "previous_response_id") {
            let at = RequestPath::top("previous_response_id");
            self.refers("previous_response_id", text(id, &at)?);
        }
        let Some(conversation) = given(members, "conversation") else { return Ok(()) };
        let at = RequestPath::top("conversation");
        if let Some(id) = conversation.as_str() {
            self.refers("conversation", id);
            return Ok(());
        }
        let conversation = self.closed(conversation, &at, &["id"])?;
        self.refers("conversation", text_of(conversation, "id", &at)?);
        Ok(())
    }

    fn input_item(&mut self, item: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        let members = object(item, at)?;
        let kind = kind_of(members, at)?;
        if kind == "message" || kind.is_empty() && members.contains_key("role") {
            return self.message_item(members, at);
        }
        self.has_begun = true;
        match kind {
            "function_call" | "custom_tool_call" | "local_shell_call" => {
                self.call_item(kind, members, at)
            }
            "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
                self.result_item(members, at)
            }
            "reasoning" => {
                let known = &["type", "id", "summary", "content", "encrypted_content", "status"];
                self.only(members, at, known)
            }
            "compaction" | "compaction_summary" => {
                self.only(members, at, &["type", "id", "encrypted_content"])?;
                self.sealed(members, at)
            }
            "compaction_trigger" => self.only(members, at, &["type", "id"]),
            "configuration_update" => self.only(members, at, &["type", "id", "reasoning", "text"]),
            // A reference may leave its type out.
            "item_reference" | "" => {
                self.only(members, at, &["type", "id"])?;
                self.refers("item_reference", text_of(members, "id", at)?);
                Ok(())
            }
            "additional_tools" => {
                self.only(members, at, &["type", "id", "role", "tools"])?;
                self.later_tools(members, at)
            }
            "tool_search_output" => {
                self.provider_ran(kind, at)?;
                let known = &["type", "id", "call_id", "execution", "status", "tools"];
                self.only(members, at, known)?;
                self.later_tools(members, at)
            }
            kind if PROVIDER_RAN.contains(&kind) => self.provider_ran(kind, at),
            kind => Err(at.content(kind)),
        }
    }

    /// Tools that an item of the conversation offers from there on.
    fn later_tools(&mut self, members: &ObjectMembers, at: &RequestPath<'_>) -> AskResult<()> {
        let at = at.member("tools");
        let tools = list(value_of(members, "tools"), &at)?;
        for (index, tool) in tools.iter().enumerate() {
            self.offered_item(tool, &|_within| ToolPlace::Conversation, &at.item(index))?;
        }
        Ok(())
    }

    fn message_item(&mut self, members: &ObjectMembers, at: &RequestPath<'_>) -> AskResult<()> {
        self.only(members, at, MESSAGE)?;
        let content = value_of(members, "content");
        let at_content = at.member("content");
        match text_of(members, "role", at)? {
            "system" | "developer" => {
                let kinds: &[&str] = &["input_text", "output_text", "text"];
                for text in self.texts(content, &at_content, (kinds, TEXT_PART))? {
                    self.instruct(text);
                }
                Ok(())
            }
            "user" | "assistant" => {
                self.has_begun = true;
                self.item_parts(content, &at_content)
            }
            _ => Err(at.member("role").shape("one of system, developer, user, assistant")),
        }
    }

    /// Text, or a list of parts.
    fn item_parts(&mut self, content: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        if content.as_str().is_some() {
            return Ok(());
        }
        let parts = content.as_array().ok_or_else(|| at.shape("a string or a list of parts"))?;
        for (index, part) in parts.iter().enumerate() {
            self.item_part(part, &at.item(index))?;
        }
        Ok(())
    }

    fn item_part(&mut self, part: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        let members = object(part, at)?;
        match kind_of(members, at)? {
            "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
                self.only(members, at, TEXT_PART)?;
                text_of(members, "text", at).map(|_text| ())
            }
            "refusal" => {
                self.only(members, at, &["type", "refusal"])?;
                text_of(members, "refusal", at).map(|_text| ())
            }
            "input_image" => {
                let known = &["type", "image_url", "file_id", "detail", "prompt_cache_breakpoint"];
                self.only(members, at, known)?;
                self.no_stored_file(members, at)?;
                self.image(text_of(members, "image_url", at)?, &at.member("image_url"))
            }
            "input_file" => {
                let known = &[
                    "type",
                    "file_data",
                    "file_id",
                    "file_url",
                    "filename",
                    "detail",
                    "prompt_cache_breakpoint",
                ];
                self.only(members, at, known)?;
                self.no_stored_file(members, at)?;
                if let Some(url) = maybe_text(members, "file_url", at)? {
                    self.file(url, &at.member("file_url"))?;
                }
                match maybe_text(members, "file_data", at)? {
                    Some(data) => self.file_data(data, &at.member("file_data")),
                    None => Ok(()),
                }
            }
            "input_audio" => {
                self.only(members, at, &["type", "input_audio"])?;
                self.audio(members, at)
            }
            kind => Err(at.content(kind)),
        }
    }

    fn call_item(
        &mut self,
        kind: &str,
        members: &ObjectMembers,
        at: &RequestPath<'_>,
    ) -> AskResult<()> {
        let input = match kind {
            "custom_tool_call" => "input",
            "local_shell_call" => "action",
            _function_call => "arguments",
        };
        let known = &["type", "id", "call_id", "name", "namespace", "status", "caller", input];
        self.only(members, at, known)?;
        let id = text_of(members, "call_id", at)?;
        if input == "action" {
            let action = value_of(members, "action");
            object(action, &at.member("action"))?;
            self.called(id, "local_shell".to_owned(), canonical::text(action));
            return Ok(());
        }
        let name = text_of(members, "name", at)?;
        let name = match maybe_text(members, "namespace", at)? {
            Some(namespace) => format!("{namespace}.{name}"),
            None => name.to_owned(),
        };
        let given = text_of(members, input, at)?;
        let arguments = if input == "input" { custom_arguments(given) } else { given.to_owned() };
        self.called(id, name, arguments);
        Ok(())
    }

    fn result_item(&mut self, members: &ObjectMembers, at: &RequestPath<'_>) -> AskResult<()> {
        let known = &["type", "id", "call_id", "output", "status", "caller", "name", "namespace"];
        self.only(members, at, known)?;
        self.item_parts(value_of(members, "output"), &at.member("output"))?;
        // The output of a local shell has the id of its call, and no other.
        let id = maybe_text(members, "call_id", at)?;
        let id = id.map_or_else(|| text_of(members, "id", at), Ok)?;
        self.resulted(id, None);
        Ok(())
    }

    fn offered_item(
        &mut self,
        tool: &Json,
        place: &dyn Fn(Option<usize>) -> ToolPlace,
        at: &RequestPath<'_>,
    ) -> AskResult<()> {
        let members = object(tool, at)?;
        if kind_of(members, at)? != "namespace" {
            return self.offered_tool(members, None, place(None), at);
        }
        self.only(members, at, &["type", "name", "description", "tools"])?;
        let namespace = text_of(members, "name", at)?;
        let at = at.member("tools");
        let tools = list(value_of(members, "tools"), &at)?;
        for (index, tool) in tools.iter().enumerate() {
            let at = at.item(index);
            self.offered_tool(object(tool, &at)?, Some(namespace), place(Some(index)), &at)?;
        }
        Ok(())
    }

    fn offered_tool(
        &mut self,
        members: &ObjectMembers,
        namespace: Option<&str>,
        place: ToolPlace,
        at: &RequestPath<'_>,
    ) -> AskResult<()> {
        let kind = kind_of(members, at)?;
        let (form, schema) = match kind {
            "function" => {
                self.only(members, at, FUNCTION)?;
                (OfferedForm::Function, "parameters")
            }
            "custom" => {
                let known =
                    &["type", "name", "description", "format", "allowed_callers", "defer_loading"];
                self.only(members, at, known)?;
                (OfferedForm::Custom, "format")
            }
            "local_shell" => {
                self.only(members, at, &["type"])?;
                (OfferedForm::Native(kind.to_owned()), "type")
            }
            kind => return self.hosted(kind, maybe_text(members, "name", at)?, place, at),
        };
        let is_native = schema == "type";
        let name = if is_native { kind } else { text_of(members, "name", at)? };
        let name = match namespace {
            Some(namespace) => format!("{namespace}.{name}"),
            None => name.to_owned(),
        };
        let schema = members.get(schema).filter(|_| !is_native);
        let tool = OfferedTool {
            name,
            description: maybe_text(members, "description", at)?.map(str::to_owned),
            schema: schema.cloned().unwrap_or_default(),
            form,
            place,
        };
        self.offer(tool, at)
    }
}
