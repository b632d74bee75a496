//! Requests of `POST /v1/messages` and `/v1/messages/count_tokens`.
//!
//! The tables were made from the API reference of 2026-11, as anthropic-python 2.12.0 has it, with
//! its beta members.

use super::form::plain_target;
use super::members::MemberUse::{Hosted, OtherModel, Pass, Read};
use super::members::{
    AskReader, AskResult, MemberTable, ObjectMembers, RequestPath, given, kind_of, list,
    maybe_text, number, object, text_of, value_of,
};
use super::{AskError, AskForm, OfferedForm, OfferedTool, ToolPlace};
use crate::domain::canonical;
use crate::domain::dialect::Operation;
use crate::domain::json::Json;

/// What a request says besides its members.
pub(super) const FORM: AskForm = AskForm {
    list: "messages",
    bound: Some("max_tokens"),
    holder: None,
    path_members: &[],
    target: plain_target,
};

/// The members of a request for an answer.
const MEMBERS: MemberTable = &[
    ("compaction", Read),
    ("context_management", Read),
    ("max_tokens", Read),
    ("messages", Read),
    ("model", Read),
    ("stream", Read),
    ("system", Read),
    ("thread", Read),
    ("tool_choice", Read),
    ("tools", Read),
    ("container", Hosted),
    ("mcp_servers", Hosted),
    ("fallbacks", OtherModel),
    ("cache_control", Pass),
    ("diagnostics", Pass),
    ("fallback_credit_token", Pass),
    ("inference_geo", Pass),
    ("metadata", Pass),
    ("output_config", Pass),
    ("output_format", Pass),
    ("service_tier", Pass),
    ("speed", Pass),
    ("stop_sequences", Pass),
    ("temperature", Pass),
    ("thinking", Pass),
    ("top_k", Pass),
    ("top_p", Pass),
];

/// The members of a request for the number of its tokens.
const COUNT_MEMBERS: MemberTable = &[
    ("compaction", Read),
    ("context_management", Read),
    ("messages", Read),
    ("model", Read),
    ("system", Read),
    ("tool_choice", Read),
    ("tools", Read),
    ("mcp_servers", Hosted),
    ("cache_control", Pass),
    ("output_config", Pass),
    ("output_format", Pass),
    ("speed", Pass),
    ("thinking", Pass),
];

const TEXT_BLOCK: &[&str] = &["type", "text", "cache_control", "citations"];
/// Members of a tool that the agent defines.
const TOOL: &[&str] = &[
    "type",
    "name",
    "description",
    "input_schema",
    "cache_control",
    "strict",
    "eager_input_streaming",
    "defer_loading",
    "allowed_callers",
    "input_examples",
];
/// Members of a tool that the provider defines and the agent runs.
const NATIVE_TOOL: &[&str] = &[
    "type",
    "name",
    "cache_control",
    "strict",
    "defer_loading",
    "allowed_callers",
    "input_examples",
    "display_width_px",
    "display_height_px",
    "display_number",
    "enable_zoom",
    "max_characters",
];
/// The tools that the provider defines and the agent runs; a date follows.
const NATIVE: [&str; 4] = ["bash_", "computer_", "memory_", "text_editor_"];

/// Reads a request.
pub(super) fn read(reader: &mut AskReader<'_>, body: &Json) -> AskResult<()> {
    let table = match reader.ask.operation {
        Operation::Generate => MEMBERS,
        Operation::CountTokens => COUNT_MEMBERS,
    };
    let members = reader.top(body, table)?;
    if let Some(system) = given(members, "system") {
        let at = RequestPath::top("system");
        for text in reader.texts(system, &at, (&["text"], TEXT_BLOCK))? {
            reader.instruct(text);
        }
    }
    let at = RequestPath::top("messages");
    let messages = list(value_of(members, "messages"), &at)?;
    reader.ask.messages = number(messages.len());
    for (index, message) in messages.iter().enumerate() {
        reader.turn = index;
        reader.message_turn(message, &at.item(index))?;
    }
    let at = RequestPath::top("tools");
    let tools = given(members, "tools").map(|tools| list(tools, &at)).transpose()?;
    for (index, tool) in tools.into_iter().flatten().enumerate() {
        reader.definition(tool, ToolPlace::Tools(index, None), &at.item(index))?;
    }
    if let Some(choice) = given(members, "tool_choice") {
        let at = RequestPath::top("tool_choice");
        let choice = object(choice, &at)?;
        let kind = kind_of(choice, &at)?;
        let name = if kind == "tool" { text_of(choice, "name", &at)? } else { kind };
        reader.ask.tool_choice = Some(name.to_owned());
    }
    reader.thread(members)?;
    reader.compactions(members)?;
    reader.bound(members, &["max_tokens"])
}

impl AskReader<'_> {
    /// A conversation that the provider keeps.
    fn thread(&mut self, members: &ObjectMembers) -> AskResult<()> {
        let Some(thread) = given(members, "thread") else { return Ok(()) };
        let at = RequestPath::top("thread");
        let thread = self.closed(thread, &at, &["type", "previous_message_id"])?;
        match kind_of(thread, &at)? {
            "create" => Ok(()),
            "continue" => {
                self.refers("thread", text_of(thread, "previous_message_id", &at)?);
                Ok(())
            }
            _ => Err(AskError::RemoteState(at.to_string())),
        }
    }

    /// Instructions for the summary of a conversation.
    fn compactions(&mut self, members: &ObjectMembers) -> AskResult<()> {
        self.has_begun = true;
        if let Some(compaction) = given(members, "compaction") {
            self.summary(compaction, &RequestPath::top("compaction"))?;
        }
        let Some(management) = given(members, "context_management") else { return Ok(()) };
        let at = RequestPath::top("context_management");
        let management = object(management, &at)?;
        let at = at.member("edits");
        let edits = given(management, "edits").map(|edits| list(edits, &at)).transpose()?;
        for (index, edit) in edits.into_iter().flatten().enumerate() {
            self.summary(edit, &at.item(index))?;
        }
        Ok(())
    }

    fn summary(&mut self, edit: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        if let Some(text) = maybe_text(object(edit, at)?, "instructions", at)? {
            self.instruct(text);
        }
        Ok(())
    }

    fn message_turn(&mut self, message: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        let members = object(message, at)?;
        let content = value_of(members, "content");
        let at_content = at.member("content");
        match text_of(members, "role", at)? {
            "system" => {
                let known = &["role", "content", "output_config", "clear_at", "cache_control"];
                self.only(members, at, known)?;
                self.blocks(content, &at_content, true)
            }
            "user" | "assistant" => {
                self.only(members, at, &["role", "content"])?;
                self.has_begun = true;
                self.blocks(content, &at_content, false)
            }
            _ => Err(at.member("role").shape("one of user, assistant, system")),
        }
    }

    /// Text, or a list of blocks; each text is an instruction in a message of the system.
    fn blocks(&mut self, content: &Json, at: &RequestPath<'_>, instructs: bool) -> AskResult<()> {
        if let Some(text) = content.as_str() {
            if instructs {
                self.instruct(text);
            }
            return Ok(());
        }
        let blocks = content.as_array().ok_or_else(|| at.shape("a string or a list of blocks"))?;
        for (index, block) in blocks.iter().enumerate() {
            let at = at.item(index);
            let members = object(block, &at)?;
            match (kind_of(members, &at)?, instructs) {
                ("text", _) => {
                    self.only(members, &at, TEXT_BLOCK)?;
                    let text = text_of(members, "text", &at)?;
                    if instructs {
                        self.instruct(text);
                    }
                }
                (kind @ ("tool_addition" | "tool_removal"), _) => {
                    self.tool_change(kind, members, &at)?;
                }
                (kind, true) => return Err(at.content(kind)),
                (kind, false) => self.block(kind, members, &at)?,
            }
        }
        Ok(())
    }

    fn block(
        &mut self,
        kind: &str,
        members: &ObjectMembers,
        at: &RequestPath<'_>,
    ) -> AskResult<()> {
        match kind {
            "image" | "document" => self.source(kind, members, at),
            "thinking" => self.only(members, at, &["type", "thinking", "signature"]),
            "redacted_thinking" => self.only(members, at, &["type", "data"]),
            "tool_reference" => self.only(members, at, &["type", "tool_name", "cache_control"]),
            "search_result" => {
                let known = &["type", "source", "title", "content", "citations", "cache_control"];
                self.only(members, at, known)?;
                self.blocks(value_of(members, "content"), &at.member("content"), false)
            }
            "tool_use" => self.tool_use(members, at),
            "tool_result" => self.tool_result(members, at),
            "compaction" => self.compaction(members, at),
            // Marks where another model went on; asking for one is refused.
            "fallback" => Err(AskError::OtherModel(at.to_string())),
            "container_upload" => Err(AskError::RemoteContent(at.to_string())),
            "server_tool_use" | "mcp_tool_use" | "mcp_tool_listing" => self.provider_ran(kind, at),
            // `web_search_tool_result`, `mcp_tool_result`, and those to come.
            result if result.ends_with("_tool_result") => self.provider_ran(kind, at),
            _ => Err(at.content(kind)),
        }
    }

    fn tool_use(&mut self, members: &ObjectMembers, at: &RequestPath<'_>) -> AskResult<()> {
        let known = &["type", "id", "name", "input", "cache_control", "caller", "toolset_name"];
        self.only(members, at, known)?;
        let input = value_of(members, "input");
        object(input, &at.member("input"))?;
        let name = text_of(members, "name", at)?.to_owned();
        self.called(text_of(members, "id", at)?, name, canonical::text(input));
        Ok(())
    }

    fn tool_result(&mut self, members: &ObjectMembers, at: &RequestPath<'_>) -> AskResult<()> {
        let known =
            &["type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"];
        self.only(members, at, known)?;
        if let Some(content) = given(members, "content") {
            self.blocks(content, &at.member("content"), false)?;
        }
        let is_error = given(members, "is_error");
        let is_error = is_error.map(|value| {
            value.as_bool().ok_or_else(|| at.member("is_error").shape("`true` or `false`"))
        });
        self.resulted(text_of(members, "tool_use_id", at)?, is_error.transpose()?);
        Ok(())
    }

    /// The source of an image or a document.
    fn source(
        &mut self,
        kind: &str,
        members: &ObjectMembers,
        at: &RequestPath<'_>,
    ) -> AskResult<()> {
        let known = &[
            "type",
            "source",
            "cache_control",
            "title",
            "context",
            "citations",
            "transformations",
        ];
        self.only(members, at, known)?;
        let at = at.member("source");
        let source = value_of(members, "source");
        let known = &["type", "media_type", "data", "url", "content", "file_id"];
        let source = self.closed(source, &at, known)?;
        self.no_stored_file(source, &at)?;
        match kind_of(source, &at)? {
            "base64" => {
                self.is_inline(text_of(source, "data", &at)?);
                self.count(kind);
                Ok(())
            }
            // A document that is text is read as text.
            "text" => text_of(source, "data", &at).map(|_text| ()),
            "content" => {
                let content = value_of(source, "content");
                self.blocks(content, &at.member("content"), false)
            }
            "url" if kind == "image" => self.image(text_of(source, "url", &at)?, &at.member("url")),
            "url" => self.file(text_of(source, "url", &at)?, &at.member("url")),
            _ => Err(AskError::RemoteContent(at.to_string())),
        }
    }

    fn count(&mut self, kind: &str) {
        let counter = if kind == "image" { &mut self.ask.images } else { &mut self.ask.files };
        *counter = counter.saturating_add(1);
    }

    /// A summary that stands for earlier messages, with the tools that were added in these.
    fn compaction(&mut self, members: &ObjectMembers, at: &RequestPath<'_>) -> AskResult<()> {
        let known =
            &["type", "content", "encrypted_content", "signature", "tool_changes", "cache_control"];
        self.only(members, at, known)?;
        self.sealed(members, at)?;
        let at = at.member("tool_changes");
        let changes = given(members, "tool_changes").map(|all| list(all, &at)).transpose()?;
        for (index, change) in changes.into_iter().flatten().enumerate() {
            let at = at.item(index);
            let members = object(change, &at)?;
            match kind_of(members, &at)? {
                kind @ ("tool_addition" | "tool_removal") => {
                    self.tool_change(kind, members, &at)?;
                }
                kind => return Err(at.content(kind)),
            }
        }
        Ok(())
    }

    /// A tool that is offered, or no longer offered, from here on.
    fn tool_change(
        &mut self,
        kind: &str,
        members: &ObjectMembers,
        at: &RequestPath<'_>,
    ) -> AskResult<()> {
        self.only(members, at, &["type", "tool", "cache_control"])?;
        let at = at.member("tool");
        let tool = object(value_of(members, "tool"), &at)?;
        match kind_of(tool, &at)? {
            "tool_reference" => self.only(tool, &at, &["type", "name"]),
            "tool_definition" if kind == "tool_addition" => {
                self.only(tool, &at, &["type", "definition"])?;
                let definition = value_of(tool, "definition");
                self.definition(definition, ToolPlace::Conversation, &at.member("definition"))
            }
            kind => self.provider_ran(kind, &at),
        }
    }

    fn definition(&mut self, tool: &Json, place: ToolPlace, at: &RequestPath<'_>) -> AskResult<()> {
        let members = object(tool, at)?;
        let kind = kind_of(members, at)?;
        let is_native = NATIVE.iter().any(|native| {
            let date = kind.strip_prefix(native);
            date.is_some_and(|date| date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()))
        });
        let form = match kind {
            "" | "custom" => OfferedForm::Function,
            native if is_native => OfferedForm::Native(native.to_owned()),
            kind => return self.hosted(kind, maybe_text(members, "name", at)?, place, at),
        };
        self.only(members, at, if is_native { NATIVE_TOOL } else { TOOL })?;
        let tool = OfferedTool {
            name: text_of(members, "name", at)?.to_owned(),
            description: maybe_text(members, "description", at)?.map(str::to_owned),
            schema: members.get("input_schema").cloned().unwrap_or_default(),
            form,
            place,
        };
        self.offer(tool, at)
    }
}
