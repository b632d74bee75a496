//! Requests of `POST /v1/chat/completions`.
//!
//! The table was made from the API reference of 2026-11, as openai-python 3.54.0 has it.

use super::form::plain_target;
use super::members::MemberUse::{Choices, Hosted, Pass, Read};
use super::members::{
    AskReader, AskResult, MemberTable, ObjectMembers, RequestPath, custom_arguments, given,
    kind_of, list, maybe_text, number, object, text_of, value_of,
};
use super::offered::choice_of;
use super::{AskError, AskForm, OfferedForm, OfferedTool, ToolPlace};
use crate::domain::json::Json;

/// What a request says besides its members.
pub(super) const FORM: AskForm = AskForm {
    list: "messages",
    // Servers call it `max_tokens` or `max_completion_tokens`.
    bound: None,
    holder: None,
    path_members: &[],
    target: plain_target,
};

/// The members of a request. Not in it, so refused unless the operator passes them: `audio` and
/// `modalities`, because the gate does not read spoken answers.
const MEMBERS: MemberTable = &[
    ("messages", Read),
    ("model", Read),
    ("stream", Read),
    ("stream_options", Read),
    ("max_completion_tokens", Read),
    ("max_tokens", Read),
    ("functions", Read),
    ("function_call", Read),
    ("tools", Read),
    ("tool_choice", Read),
    ("n", Choices),
    ("best_of", Choices),
    ("num_choices", Choices),
    ("web_search_options", Hosted),
    ("frequency_penalty", Pass),
    ("logit_bias", Pass),
    ("logprobs", Pass),
    ("metadata", Pass),
    ("moderation", Pass),
    ("parallel_tool_calls", Pass),
    ("prediction", Pass),
    ("presence_penalty", Pass),
    ("prompt_cache_key", Pass),
    ("prompt_cache_options", Pass),
    ("prompt_cache_retention", Pass),
    ("reasoning_effort", Pass),
    ("response_format", Pass),
    ("safety_identifier", Pass),
    ("seed", Pass),
    ("service_tier", Pass),
    ("stop", Pass),
    ("store", Pass),
    ("temperature", Pass),
    ("top_logprobs", Pass),
    ("top_p", Pass),
    ("user", Pass),
    ("verbosity", Pass),
];

/// Members of an assistant's message. Several are an answer's, which clients send back as it was;
/// the `reasoning` ones are those of servers beside OpenAI.
const ASSISTANT: &[&str] = &[
    "role",
    "content",
    "name",
    "refusal",
    "audio",
    "annotations",
    "function_call",
    "tool_calls",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "cache_control",
];
const TEXT_PART: &[&str] = &["type", "text", "cache_control", "prompt_cache_breakpoint"];

/// Reads a request.
pub(super) fn read(reader: &mut AskReader<'_>, body: &Json) -> AskResult<()> {
    let members = reader.top(body, MEMBERS)?;
    let at = RequestPath::top("messages");
    let messages = list(value_of(members, "messages"), &at)?;
    reader.ask.messages = number(messages.len());
    for (index, message) in messages.iter().enumerate() {
        reader.turn = index;
        reader.message(message, &at.item(index))?;
    }
    let at = RequestPath::top("tools");
    let tools = given(members, "tools").map(|tools| list(tools, &at)).transpose()?;
    for (index, tool) in tools.into_iter().flatten().enumerate() {
        reader.tool(tool, ToolPlace::Tools(index, None), &at.item(index))?;
    }
    let at = RequestPath::top("functions");
    let functions = given(members, "functions").map(|all| list(all, &at)).transpose()?;
    for (index, function) in functions.into_iter().flatten().enumerate() {
        reader.function(function, ToolPlace::Functions(index), &at.item(index))?;
    }
    let choice = given(members, "tool_choice").or_else(|| given(members, "function_call"));
    reader.ask.tool_choice = choice.and_then(choice_of).map(str::to_owned);
    reader.bound(members, &["max_completion_tokens", "max_tokens"])?;
    reader.usage(members)
}

impl AskReader<'_> {
    /// Reads whether a stream is asked for its usage figures.
    fn usage(&mut self, members: &ObjectMembers) -> AskResult<()> {
        let at = RequestPath::top("stream_options");
        let Some(options) = given(members, "stream_options") else {
            self.ask.wants_usage = !self.ask.stream;
            return Ok(());
        };
        let options = self.closed(options, &at, &["include_usage", "include_obfuscation"])?;
        let wants = given(options, "include_usage").and_then(Json::as_bool).unwrap_or_default();
        self.ask.wants_usage = wants || !self.ask.stream;
        Ok(())
    }

    fn message(&mut self, message: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        let members = object(message, at)?;
        let content = given(members, "content");
        let at_content = at.member("content");
        match text_of(members, "role", at)? {
            "system" | "developer" => {
                self.only(members, at, &["role", "content", "name", "cache_control"])?;
                let content = value_of(members, "content");
                for text in self.texts(content, &at_content, (&["text"], TEXT_PART))? {
                    self.instruct(text);
                }
                return Ok(());
            }
            "user" => {
                self.only(members, at, &["role", "content", "name", "cache_control"])?;
                self.parts(value_of(members, "content"), &at_content)?;
            }
            "assistant" => {
                self.only(members, at, ASSISTANT)?;
                if let Some(content) = content {
                    self.parts(content, &at_content)?;
                }
                self.assistant(members, at)?;
            }
            role @ ("tool" | "function") => {
                let known = &["role", "content", "name", "tool_call_id", "cache_control"];
                self.only(members, at, known)?;
                if let Some(content) = content {
                    self.parts(content, &at_content)?;
                }
                let id = if role == "tool" { "tool_call_id" } else { "name" };
                self.resulted(text_of(members, id, at)?, None);
            }
            _ => {
                let expected = "one of system, developer, user, assistant, tool, function";
                return Err(at.member("role").shape(expected));
            }
        }
        self.has_begun = true;
        Ok(())
    }

    /// Text, or a list of parts.
    fn parts(&mut self, content: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        if content.as_str().is_some() {
            return Ok(());
        }
        let parts = content.as_array().ok_or_else(|| at.shape("a string or a list of parts"))?;
        for (index, part) in parts.iter().enumerate() {
            self.part(part, &at.item(index))?;
        }
        Ok(())
    }

    fn part(&mut self, part: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        let members = object(part, at)?;
        let own = match kind_of(members, at)? {
            "text" => {
                self.only(members, at, TEXT_PART)?;
                return text_of(members, "text", at).map(|_text| ());
            }
            "refusal" => {
                self.only(members, at, &["type", "refusal"])?;
                return text_of(members, "refusal", at).map(|_text| ());
            }
            "image_url" => "image_url",
            "input_audio" => "input_audio",
            "file" => "file",
            kind => return Err(at.content(kind)),
        };
        self.only(members, at, &["type", own, "cache_control", "prompt_cache_breakpoint"])?;
        if own == "input_audio" {
            return self.audio(members, at);
        }
        let at = at.member(own);
        let value = value_of(members, own);
        if own == "image_url" {
            let image = self.closed(value, &at, &["url", "detail"])?;
            return self.image(text_of(image, "url", &at)?, &at.member("url"));
        }
        let file = self.closed(value, &at, &["file_data", "file_id", "filename"])?;
        self.no_stored_file(file, &at)?;
        self.file_data(text_of(file, "file_data", &at)?, &at.member("file_data"))
    }

    /// The tool calls of an assistant's message.
    fn assistant(&mut self, members: &ObjectMembers, at: &RequestPath<'_>) -> AskResult<()> {
        if given(members, "audio").is_some() {
            return Err(AskError::RemoteState(at.member("audio").to_string()));
        }
        if let Some(call) = given(members, "function_call") {
            let at = at.member("function_call");
            let call = self.closed(call, &at, &["name", "arguments"])?;
            let name = text_of(call, "name", &at)?.to_owned();
            self.called("", name, text_of(call, "arguments", &at)?.to_owned());
        }
        let at = at.member("tool_calls");
        let calls = given(members, "tool_calls").map(|calls| list(calls, &at)).transpose()?;
        for (index, call) in calls.into_iter().flatten().enumerate() {
            self.call(call, &at.item(index))?;
        }
        Ok(())
    }

    fn call(&mut self, call: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        let known = &["id", "type", "function", "custom", "index", "extra_content"];
        let members = self.closed(call, at, known)?;
        let id = text_of(members, "id", at)?;
        let (own, input) = match kind_of(members, at)? {
            "" | "function" => ("function", "arguments"),
            "custom" => ("custom", "input"),
            kind => return self.provider_ran(kind, at),
        };
        let at = at.member(own);
        let called = value_of(members, own);
        let called = self.closed(called, &at, &["name", input])?;
        let name = text_of(called, "name", &at)?.to_owned();
        let input = text_of(called, input, &at)?;
        let arguments = if own == "custom" { custom_arguments(input) } else { input.to_owned() };
        self.called(id, name, arguments);
        Ok(())
    }

    fn tool(&mut self, tool: &Json, place: ToolPlace, at: &RequestPath<'_>) -> AskResult<()> {
        let members = object(tool, at)?;
        match kind_of(members, at)? {
            "function" => {
                self.only(members, at, &["type", "function", "cache_control"])?;
                let function = value_of(members, "function");
                self.function(function, place, &at.member("function"))
            }
            "custom" => {
                self.only(members, at, &["type", "custom", "cache_control"])?;
                let at = at.member("custom");
                let custom = value_of(members, "custom");
                let custom = self.closed(custom, &at, &["name", "description", "format"])?;
                let tool = OfferedTool {
                    name: text_of(custom, "name", &at)?.to_owned(),
                    description: maybe_text(custom, "description", &at)?.map(str::to_owned),
                    schema: custom.get("format").cloned().unwrap_or_default(),
                    form: OfferedForm::Custom,
                    place,
                };
                self.offer(tool, &at)
            }
            kind => self.hosted(kind, maybe_text(members, "name", at)?, place, at),
        }
    }

    /// A function that is offered: `{"name", "description", "parameters"}`.
    pub fn function(
        &mut self,
        function: &Json,
        place: ToolPlace,
        at: &RequestPath<'_>,
    ) -> AskResult<()> {
        let known = &["name", "description", "parameters", "strict"];
        let members = self.closed(function, at, known)?;
        let name = text_of(members, "name", at)?;
        let tool = OfferedTool {
            name: name.to_owned(),
            description: maybe_text(members, "description", at)?.map(str::to_owned),
            schema: members.get("parameters").cloned().unwrap_or_default(),
            form: OfferedForm::Function,
            place,
        };
        self.offer(tool, at)
    }
}
