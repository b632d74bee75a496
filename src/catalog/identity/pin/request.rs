//! What a recorded request to a model shows: the model, the instructions, and the offered tools.
//!
//! The ledger keeps a conversation in normal form. Messages that neither instruct nor offer tools do
//! not matter here, so a short message stands for each of them while the request is read.

use std::collections::BTreeSet;

use serde::Deserialize;
use wicketgate_record::conversation::{list_member, messages, with_messages};

use super::super::instructions::InstructionBlock;
use crate::domain::dialect::{Dialect, Operation};
use crate::domain::json::Json;
use crate::llm::ask::{
    self, AskError, AskRules, HostedTools, Instruction, OfferedForm, OfferedTool,
};

/// Types of blocks and items that offer tools within a conversation.
const OFFERING: [&str; 5] =
    ["additional_tools", "tool_search_output", "tool_addition", "tool_removal", "compaction"];

/// What one request shows.
#[derive(Clone, PartialEq, Debug)]
pub struct ShownRequest {
    /// The protocol.
    pub dialect: Dialect,
    /// The id of the model, as the agent wrote it.
    pub model: String,
    /// Every text that the provider treats as instructions, in order.
    pub instructions: Vec<Instruction>,
    /// The offered tools in order, without those that the provider runs.
    pub tools: Vec<OfferedTool>,
}

/// Why recorded arguments are not read as a request to a model.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ShownRequestError {
    /// No dialect has this form.
    #[error("its arguments are no request of a known dialect: {0}")]
    Unread(AskError),
    /// Two dialects have this form, and read other instructions or tools from it.
    #[error("its arguments can be read in several dialects, and the ledger does not name the one")]
    Ambiguous,
}

impl ShownRequest {
    /// Reads recorded arguments. `dialect` is that of the recorded policy input; without it (a request
    /// that was denied before a policy was asked has none) the form of the arguments decides.
    ///
    /// # Errors
    /// No dialect fits, or several do.
    pub fn read(args: &Json, dialect: Option<Dialect>) -> Result<Self, ShownRequestError> {
        let args = without_turns(args);
        if let Some(dialect) = dialect {
            return read_in(dialect, &args, &rules(&args)).map_err(ShownRequestError::Unread);
        }
        // WHY the strict rules first: with them few requests fit two dialects.
        let strict = fitting(&args, &AskRules::default());
        match strict {
            Err(ShownRequestError::Unread(_)) => fitting(&args, &rules(&args)),
            Ok(_) | Err(ShownRequestError::Ambiguous) => strict,
        }
    }

    /// The instructions, as a manifest is compared with them.
    pub fn blocks(&self) -> Vec<InstructionBlock<'_>> {
        let blocks = self.instructions.iter();
        blocks.map(|block| InstructionBlock { place: block.place, text: &block.text }).collect()
    }
}

/// The request in the dialect that fits.
fn fitting(args: &Json, rules: &AskRules) -> Result<ShownRequest, ShownRequestError> {
    let (mut found, mut failed): (Option<ShownRequest>, Option<AskError>) = (None, None);
    for dialect in Dialect::ALL.iter().copied() {
        match (read_in(dialect, args, rules), &found) {
            (Ok(read), None) => found = Some(read),
            (Ok(read), Some(other)) if read.says_the_same(other) => {}
            (Ok(_), Some(_)) => return Err(ShownRequestError::Ambiguous),
            (Err(why), _) => failed = failed.or(Some(why)),
        }
    }
    found.ok_or(ShownRequestError::Unread(failed.unwrap_or(AskError::Sent)))
}

fn read_in(dialect: Dialect, args: &Json, rules: &AskRules) -> Result<ShownRequest, AskError> {
    let read = ask::read(dialect, Operation::Generate, args, &[], rules)?;
    let is_hosted = |tool: &OfferedTool| matches!(tool.form, OfferedForm::Hosted(_));
    let tools = read.offered.into_iter().filter(|tool| !is_hosted(tool)).collect();
    let (model, instructions) = (read.model, read.instructions);
    Ok(ShownRequest { dialect, model, instructions, tools })
}

impl ShownRequest {
    fn says_the_same(&self, other: &Self) -> bool {
        let definitions = |one: &Self| -> Vec<_> {
            one.tools.iter().map(|tool| (tool.definition(), tool.form.clone())).collect()
        };
        self.model == other.model
            && self.instructions == other.instructions
            && definitions(self) == definitions(other)
    }
}

/// Rules under which a request passes that the gate let pass, whatever its operator allowed.
fn rules(args: &Json) -> AskRules {
    let mut pass_members = BTreeSet::new();
    names(args, &mut pass_members);
    let hosted_tools = HostedTools::Allow;
    AskRules { pass_members, hosted_tools, output_tokens_max: u64::MAX, ..AskRules::default() }
}

/// The names of all members. The depth of recorded arguments is bounded.
fn names(value: &Json, found: &mut BTreeSet<String>) {
    if let Some(members) = value.as_object() {
        for (name, value) in members {
            found.insert(name.clone());
            names(value, found);
        }
    }
    value.as_array().unwrap_or_default().iter().for_each(|item| names(item, found));
}

/// The part of a message that says whether it matters here.
#[derive(Deserialize)]
struct MessageForm {
    role: Option<String>,
    r#type: Option<String>,
    content: Option<Json>,
}

/// The request with a short message in place of each one that neither instructs nor offers tools.
fn without_turns(args: &Json) -> Json {
    let Some(list) = messages(args) else { return args.clone() };
    let text = match list_member(args) {
        "contents" => ("parts", Json::from(vec![Json::object([("text", Json::from("-"))])])),
        _messages => ("content", Json::from("-")),
    };
    let turn = || Json::object([text.clone(), ("role", Json::from("user"))]);
    let list = list.iter().map(|message| instructing(message).unwrap_or_else(turn));
    with_messages(args, list.collect())
}

/// What of this message instructs or offers tools.
fn instructing(message: &Json) -> Option<Json> {
    let form: MessageForm = message.read().ok()?;
    let offers = |kind: Option<&str>| kind.is_some_and(|kind| OFFERING.contains(&kind));
    if matches!(form.role.as_deref(), Some("system" | "developer"))
        || offers(form.r#type.as_deref())
    {
        return Some(message.clone());
    }
    let content = form.content?;
    let is_kept = |block: &&Json| {
        let form = block.read::<MessageForm>();
        form.is_ok_and(|form| offers(form.r#type.as_deref()))
    };
    let kept: Vec<Json> = content.as_array()?.iter().filter(is_kept).cloned().collect();
    let role = Json::from(form.role?);
    (!kept.is_empty()).then(|| Json::object([("content", kept.into()), ("role", role)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::dialect::Place;
    use crate::domain::json::json;

    fn texts(request: &ShownRequest) -> Vec<(Place, &str)> {
        request.instructions.iter().map(|one| (one.place, one.text.as_str())).collect()
    }

    fn names_of(request: &ShownRequest) -> Vec<&str> {
        request.tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    /// A request of each dialect with one instruction, one turn that only the ledger writes so, and
    /// one tool.
    fn requests() -> Vec<(Dialect, Json)> {
        vec![
            (
                Dialect::Chat,
                json!({"model": "m", "messages": [{"role": "system", "content": "be brief"},
                    {"role": "tool", "content": {"odd": 1}}],
                    "tools": [{"type": "function", "function": {"name": "Bash", "description": "runs",
                        "parameters": {"type": "object"}}}]}),
            ),
            (
                Dialect::Responses,
                json!({"model": "m", "instructions": "be brief",
                    "input": [{"type": "local_shell_call_output", "output": "x"}],
                    "tools": [{"type": "function", "name": "Bash", "description": "runs",
                        "parameters": {"type": "object"}}]}),
            ),
            (
                Dialect::Messages,
                json!({"model": "m", "system": "be brief", "max_tokens": 5,
                    "messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url"}}]}],
                    "tools": [{"name": "Bash", "description": "runs", "input_schema": {"type": "object"}}]}),
            ),
            (
                Dialect::Gemini,
                json!({"model": "m", "systemInstruction": {"parts": [{"text": "be brief"}]},
                    "contents": [{"role": "user", "parts": [{"odd": 1}]}],
                    "tools": [{"functionDeclarations": [{"name": "Bash", "description": "runs",
                        "parameters": {"type": "object"}}]}]}),
            ),
        ]
    }

    #[test]
    fn the_dialect_follows_from_the_form_and_each_gives_the_same_definition() {
        let mut definitions = BTreeSet::new();
        for (dialect, args) in requests() {
            let known = ShownRequest::read(&args, Some(dialect)).unwrap();
            let found = ShownRequest::read(&args, None).unwrap();
            assert_eq!(known, found, "{dialect:?}");
            assert_eq!(found.dialect, dialect);
            assert_eq!(texts(&found), [(Place::Leading, "be brief")]);
            assert_eq!(names_of(&found), ["Bash"]);
            definitions.extend(found.tools.iter().map(OfferedTool::definition));
        }
        assert_eq!(definitions.len(), 1);
    }

    #[test]
    fn members_that_an_operator_passes_and_tools_of_the_provider_do_not_matter() {
        let args = json!({"model": "m", "messages": [{"role": "user", "content": "x"},
            {"role": "system", "content": "later"}], "own_member": {"a": 1},
            "tools": [{"type": "web_search", "name": "search"}]});
        let read = ShownRequest::read(&args, Some(Dialect::Messages)).unwrap();
        assert_eq!(texts(&read), [(Place::Mid, "later")]);
        assert!(read.tools.is_empty());
    }

    #[test]
    fn tools_within_the_conversation_are_offered_too() {
        let tool = json!({"name": "Later", "input_schema": {"type": "object"}}).to_serde();
        let args = json!({"model": "m", "messages": [{"role": "user", "content": [
            {"type": "text", "text": "x"},
            {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": tool}}]}]});
        let read = ShownRequest::read(&args, Some(Dialect::Messages)).unwrap();
        assert_eq!(names_of(&read), ["Later"]);
    }

    #[test]
    fn arguments_of_another_form_are_no_request() {
        for args in [json!({"path": "/a"}), json!([]), json!({"model": "m"})] {
            let read = ShownRequest::read(&args, Some(Dialect::Chat));
            assert!(matches!(read, Err(ShownRequestError::Unread(_))), "{read:?}");
        }
        assert!(ShownRequest::read(&json!({"path": "/a"}), None).is_err());
    }
}
