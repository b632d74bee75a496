//! Requests to models, read strictly: every member of a request is read, or passed on because it
//! cannot act, or refused. What a provider would fetch, run or remember on its own is refused unless
//! the operator allows it.
//!
//! Each dialect has a file with the table of its members and the date of the API reference that the
//! table was made from. What is sent to the provider is the agent's own bytes with a few edits
//! ([`Edits`]); nothing is written again, because the order of a schema's members is the order in
//! which a model writes its output.

use std::collections::BTreeSet;

use crate::domain::closed::texts;
use crate::domain::dialect::{Dialect, Operation, Place};
use crate::domain::json::Json;
use crate::domain::sent::SentJson;

mod betas;
mod chat;
mod content;
mod error;
mod form;
mod gemini;
mod governed;
mod members;
mod messages;
mod offered;
mod ollama;
mod placed;
mod responses;
mod restore;
mod splice;
#[cfg(test)]
mod tests;
mod unnamed;

pub use betas::{BETAS_DENIED, betas};
pub use error::AskError;
pub use form::{AskForm, AskTarget, form};
pub use governed::{
    ClassifiedTool, DefinitionMatch, GovernedTool, OfferedKind, PinnedClientTool, classify,
    is_governed_name,
};
pub use offered::{OfferedForm, OfferedTool, ToolPlace};
pub use placed::{AskPlace, PATH_MEMBERS};
pub use restore::Restored;
pub use splice::{Edits, upstream_body};
pub use unnamed::{unnamed_call, unnamed_denial};

use members::AskReader;

/// The name of a tool call that the gate denied, in an answer that leaves the gate. A tool of this
/// name that an agent offers is never shown to a model.
pub const DENIED_TOOL: &str = "wicketgate_denied";

texts! {
    /// What becomes of the tools that the provider would run itself.
    #[derive(Default)]
    pub enum HostedTools {
        /// A request that offers one is refused.
        #[default]
        Deny = "deny",
        /// They are taken out of the request.
        Strip = "strip",
        /// They are sent as they are.
        Allow = "allow",
    }
}

/// What requests may hold, as the operator configured it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskRules {
    /// Names of members that pass although the dialect's table does not know them. A name that the
    /// table refuses stays refused.
    pub pass_members: BTreeSet<String>,
    /// Hosts from which the provider may fetch images and documents: exact names, or `*.` and a
    /// domain for every name below it. Only `https` URLs pass.
    pub remote_hosts: Vec<String>,
    /// What becomes of the tools that the provider would run itself.
    pub hosted_tools: HostedTools,
    /// The most tokens that an answer may have. A request for more is sent with this bound.
    pub output_tokens_max: u64,
}

impl Default for AskRules {
    fn default() -> Self {
        Self {
            pass_members: BTreeSet::new(),
            remote_hosts: Vec::new(),
            hosted_tools: HostedTools::Deny,
            output_tokens_max: 128_000,
        }
    }
}

/// One text that a provider treats as instructions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// Where it stands.
    pub place: Place,
    /// The text of one block.
    pub text: String,
}

/// A tool call of the model that the conversation holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EarlierCall {
    /// The id that its result names; empty for the old `function_call` of chat messages. Of a dialect
    /// whose calls may have none, the id that [`unnamed_call`] gives them.
    pub id: String,
    /// The name of the tool; `<namespace>.<name>` for a tool of a namespace.
    pub name: String,
    /// The arguments as JSON text. For a custom tool, `{"input": …}` with its text; for arguments
    /// that are a value in the dialect, their canonical form.
    pub arguments: String,
}

/// The result of a tool call that the conversation holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EarlierResult {
    /// The id of the call.
    pub id: String,
    /// Whether the agent reported an error, where the dialect has a word for it.
    pub is_error: Option<bool>,
    /// The index of its message, or of its item of the input.
    pub message: usize,
    /// The place of that call in [`Ask::calls`], if the request holds it: the last one before with this
    /// id. Providers give an id twice.
    pub call: Option<usize>,
}

/// A reference to something that the provider remembers, or that only the provider can read. The run
/// must have been given its id, or its sealed text: the caller of [`read`] decides that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteState {
    /// The member: `previous_response_id`, `conversation`, `thread`, `item_reference`, `compaction`.
    pub member: &'static str,
    /// The id, or the sealed text.
    pub id: String,
}

/// A request to a model, as it was read.
#[derive(Clone, PartialEq, Debug)]
pub struct Ask {
    /// The protocol.
    pub dialect: Dialect,
    /// What is asked for.
    pub operation: Operation,
    /// The id of the model, exactly as it was sent.
    pub model: String,
    /// Whether the answer is to be a stream.
    pub stream: bool,
    /// Whether the agent gets usage figures without our edit: of a chat stream it must ask for them.
    pub wants_usage: bool,
    /// Every text that the provider treats as instructions, in order.
    pub instructions: Vec<Instruction>,
    /// The offered tools in order, without those that [`Self::edits`] strips.
    pub offered: Vec<OfferedTool>,
    /// Which tool the model must choose: `auto`, `none`, `required`, `any`, `allowed_tools`, or a name.
    pub tool_choice: Option<String>,
    /// The bound of the answer in tokens as the agent wrote it, and the member that it wrote. A
    /// provider may write more into an answer without a bound than the rules allow, so the caller
    /// reserves or sets one.
    pub output_tokens: Option<(&'static str, u64)>,
    /// Images, inline and remote.
    pub images: u64,
    /// Documents and sounds, inline and remote.
    pub files: u64,
    /// Messages, or items of the input.
    pub messages: u64,
    /// Bytes of the request without inline images and files: not less than the bytes of its texts.
    pub text_bytes: u64,
    /// The tool calls in the conversation, in order.
    pub calls: Vec<EarlierCall>,
    /// The results of tool calls in the conversation, in order.
    pub results: Vec<EarlierResult>,
    /// What the request refers to at the provider.
    pub remote_state: Vec<RemoteState>,
    /// What the rules change of the request. The caller adds its own edits before
    /// [`upstream_body`].
    pub edits: Edits,
}

impl Ask {
    /// The tools that the provider may run, as they were offered.
    pub fn hosted(&self) -> Vec<String> {
        let hosted = self.offered.iter().filter_map(|tool| match &tool.form {
            OfferedForm::Hosted(kind) => Some(kind.clone()),
            OfferedForm::Function | OfferedForm::Custom | OfferedForm::Native(_) => None,
        });
        hosted.collect()
    }
}

/// A request that was read once, with the rules it was read by and the text it was read of: the three
/// go down the road together.
#[derive(Debug)]
pub struct AskReading {
    sent: SentJson,
    rules: AskRules,
    asked: Result<Ask, AskError>,
}

impl AskReading {
    /// Reads this request.
    #[must_use]
    pub fn of(
        (dialect, operation): (Dialect, Operation),
        sent: SentJson,
        rules: &AskRules,
    ) -> Self {
        let asked = read(dialect, operation, sent.value(), sent.text(), rules);
        Self { sent, rules: rules.clone(), asked }
    }

    /// What was read.
    pub const fn asked(&self) -> Result<&Ask, &AskError> {
        self.asked.as_ref()
    }

    /// The text and its value.
    pub const fn sent(&self) -> &SentJson {
        &self.sent
    }

    /// Whether this very value was read, by these rules.
    #[must_use]
    pub fn is_of(&self, value: &Json, rules: &AskRules) -> bool {
        std::ptr::eq(self.sent.value(), value) && self.rules == *rules
    }
}

/// Reads a request. `body` is the value that the strict reader made of `sent`.
///
/// # Errors
/// The first member that is refused, with the stable detail of the refusal.
pub fn read(
    dialect: Dialect,
    operation: Operation,
    body: &Json,
    sent: &[u8],
    rules: &AskRules,
) -> Result<Ask, AskError> {
    let mut reader = AskReader::of(dialect, operation, rules);
    match (dialect, operation) {
        (Dialect::Chat, Operation::Generate) => chat::read(&mut reader, body)?,
        (Dialect::Responses, Operation::Generate) => responses::read(&mut reader, body)?,
        (Dialect::Messages, Operation::Generate | Operation::CountTokens) => {
            messages::read(&mut reader, body)?;
        }
        (Dialect::Gemini, Operation::Generate | Operation::CountTokens) => {
            gemini::read(&mut reader, body)?;
        }
        (Dialect::Ollama, Operation::Generate) => ollama::read(&mut reader, body)?,
        (Dialect::Chat | Dialect::Responses | Dialect::Ollama, Operation::CountTokens) => {
            return Err(AskError::Operation);
        }
    }
    reader.finish(sent)
}
