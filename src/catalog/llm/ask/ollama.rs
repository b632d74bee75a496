//! Requests of `POST /api/chat`.
//!
//! The table was made from the API reference of 2026-11, as ollama-python 0.6.3 has it.

use super::form::plain_target;
use super::members::MemberUse::{Pass, Read};
use super::members::{
    AskReader, AskResult, MemberTable, ObjectMembers, RequestPath, given, kind_of, list,
    maybe_text, number, object, text, text_of, value_of,
};
use super::{AskForm, ToolPlace};
use crate::domain::canonical;
use crate::domain::json::Json;
use crate::llm::framing;

/// What a request says besides its members.
pub(super) const FORM: AskForm = AskForm {
    list: "messages",
    bound: Some("num_predict"),
    holder: Some("options"),
    path_members: &[],
    target: plain_target,
};

/// The members of a request.
const MEMBERS: MemberTable = &[
    ("messages", Read),
    ("model", Read),
    ("options", Read),
    ("stream", Read),
    ("tools", Read),
    ("format", Pass),
    ("keep_alive", Pass),
    ("logprobs", Pass),
    ("shift", Pass),
    ("think", Pass),
    ("top_logprobs", Pass),
    ("truncate", Pass),
];

/// What a request may set of the model that runs.
const OPTIONS: &[&str] = &[
    "embedding_only",
    "f16_kv",
    "frequency_penalty",
    "logits_all",
    "low_vram",
    "main_gpu",
    "min_p",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "num_batch",
    "num_ctx",
    "num_gpu",
    "num_keep",
    "num_predict",
    "num_thread",
    "numa",
    "penalize_newline",
    "presence_penalty",
    "repeat_last_n",
    "repeat_penalty",
    "seed",
    "stop",
    "temperature",
    "tfs_z",
    "top_k",
    "top_p",
    "typical_p",
    "use_mlock",
    "use_mmap",
    "vocab_only",
];

const MESSAGE: &[&str] =
    &["content", "images", "name", "role", "thinking", "tool_call_id", "tool_calls", "tool_name"];

/// Reads a request.
pub(super) fn read(reader: &mut AskReader<'_>, body: &Json) -> AskResult<()> {
    let members = reader.top(body, MEMBERS)?;
    reader.ask.stream = framing::streams(reader.ask.dialect, body);
    let at = RequestPath::top("messages");
    let messages = list(value_of(members, "messages"), &at)?;
    reader.ask.messages = number(messages.len());
    for (index, message) in messages.iter().enumerate() {
        reader.turn = index;
        reader.spoken(message, &at.item(index))?;
    }
    let at = RequestPath::top("tools");
    let tools = given(members, "tools").map(|tools| list(tools, &at)).transpose()?;
    for (index, tool) in tools.into_iter().flatten().enumerate() {
        reader.local_tool(tool, ToolPlace::Tools(index, None), &at.item(index))?;
    }
    let Some(options) = given(members, "options") else { return Ok(()) };
    let options = reader.closed(options, &RequestPath::top("options"), OPTIONS)?;
    // A bound below zero is none.
    let is_bound = |bound: &Json| !matches!(bound, Json::Int(bound) if *bound < 0);
    if given(options, "num_predict").is_some_and(is_bound) {
        reader.bound(options, &["num_predict"])?;
    }
    Ok(())
}

impl AskReader<'_> {
    fn spoken(&mut self, message: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        let members = self.closed(message, at, MESSAGE)?;
        let content = maybe_text(members, "content", at)?.unwrap_or_default();
        maybe_text(members, "thinking", at)?;
        match text_of(members, "role", at)? {
            "system" => {
                self.instruct(content);
                return Ok(());
            }
            "user" => {}
            "assistant" => self.local_calls(members, at)?,
            "tool" => {
                let id = maybe_text(members, "tool_call_id", at)?;
                let name = maybe_text(members, "tool_name", at)?;
                let name =
                    name.map_or_else(|| maybe_text(members, "name", at), |name| Ok(Some(name)));
                self.resulted_unnamed(id, name?, None);
            }
            _ => return Err(at.member("role").shape("one of system, user, assistant, tool")),
        }
        self.has_begun = true;
        let at = at.member("images");
        let images = given(members, "images").map(|images| list(images, &at)).transpose()?;
        for (index, image) in images.into_iter().flatten().enumerate() {
            let at = at.item(index);
            self.local_image(text(image, &at)?, &at)?;
        }
        Ok(())
    }

    /// An image in base64: whatever else it may be is remote.
    fn local_image(&mut self, image: &str, at: &RequestPath<'_>) -> AskResult<()> {
        let base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
        if !image.bytes().all(base64) {
            return self.image(image, at);
        }
        self.ask.images = self.ask.images.saturating_add(1);
        self.is_inline(image);
        Ok(())
    }

    fn local_calls(&mut self, members: &ObjectMembers, at: &RequestPath<'_>) -> AskResult<()> {
        let at = at.member("tool_calls");
        let calls = given(members, "tool_calls").map(|calls| list(calls, &at)).transpose()?;
        for (index, call) in calls.into_iter().flatten().enumerate() {
            let at = at.item(index);
            let call = self.closed(call, &at, &["function", "id", "type"])?;
            let id = maybe_text(call, "id", &at)?;
            let at = at.member("function");
            let known = &["arguments", "description", "index", "name"];
            let function = self.closed(value_of(call, "function"), &at, known)?;
            let arguments = match given(function, "arguments") {
                Some(given) => {
                    object(given, &at.member("arguments"))?;
                    canonical::text(given)
                }
                None => "{}".to_owned(),
            };
            self.called_unnamed(id, text_of(function, "name", &at)?, arguments);
        }
        Ok(())
    }

    fn local_tool(&mut self, tool: &Json, place: ToolPlace, at: &RequestPath<'_>) -> AskResult<()> {
        let members = object(tool, at)?;
        match kind_of(members, at)? {
            "" | "function" => {
                self.only(members, at, &["type", "function"])?;
                self.function(value_of(members, "function"), place, &at.member("function"))
            }
            kind => self.hosted(kind, maybe_text(members, "name", at)?, place, at),
        }
    }
}
