//! The tools that a request offers to the model.

use super::members::{AskReader, AskResult, RequestPath, shown};
use super::{AskError, DENIED_TOOL, HostedTools};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::Json;

/// Bytes of the longest name of a tool.
const NAME_MAX: usize = 256;

/// Where a tool stands in the request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ToolPlace {
    /// An item of `tools`; in a namespace, the item within it.
    Tools(usize, Option<usize>),
    /// An item of the old `functions` of chat requests.
    Functions(usize),
    /// Within a message: an addition to the tools from there on. It cannot be stripped.
    Conversation,
}

/// How a tool is offered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OfferedForm {
    /// A function with a schema, which the agent runs.
    Function,
    /// A tool whose input is a text, which the agent runs.
    Custom,
    /// A tool of this type that the provider defines and the agent runs: `local_shell`,
    /// `bash_20250124`.
    Native(String),
    /// A tool of this type that the provider runs.
    Hosted(String),
}

/// A tool that a request offers.
#[derive(Clone, PartialEq, Debug)]
pub struct OfferedTool {
    /// The name by which the model calls it; `<namespace>.<name>` for a tool of a namespace. A tool
    /// without a name has its type.
    pub name: String,
    /// What the model reads of it.
    pub description: Option<String>,
    /// The schema of its arguments, or the format of a custom tool's text; `null` if there is none.
    pub schema: Json,
    /// How it is offered.
    pub form: OfferedForm,
    /// Where it stands.
    pub place: ToolPlace,
}

impl OfferedTool {
    /// The digest of its definition: the SHA-256 of `{"description", "name", "schema"}` in canonical
    /// form.
    #[must_use]
    pub fn definition(&self) -> Digest {
        let description = self.description.as_deref().map_or(Json::Null, Json::from);
        let definition = Json::object([
            ("description", description),
            ("name", Json::from(self.name.as_str())),
            ("schema", self.schema.clone()),
        ]);
        Digest::of(&[&canonical::bytes(&definition)])
    }
}

impl AskReader<'_> {
    /// Adds a tool that the agent runs. One with the name of denied calls is stripped.
    pub fn offer(&mut self, tool: OfferedTool, at: &RequestPath<'_>) -> AskResult<()> {
        if !(1..=NAME_MAX).contains(&tool.name.len()) {
            return Err(at.member("name").shape("a name of 1 to 256 bytes"));
        }
        let own = tool.name.rsplit('.').next().unwrap_or_default();
        if own == DENIED_TOOL {
            return match tool.place {
                ToolPlace::Conversation => Err(AskError::Reserved(at.to_string())),
                ToolPlace::Tools(..) | ToolPlace::Functions(_) => {
                    self.ask.edits.strip_tools.insert(tool.place);
                    Ok(())
                }
            };
        }
        if tool.place != ToolPlace::Conversation && !self.names.insert(tool.name.clone()) {
            return Err(AskError::Twice { at: at.to_string(), name: shown(&tool.name) });
        }
        self.ask.offered.push(tool);
        Ok(())
    }

    /// Adds, strips or refuses a tool that the provider runs.
    pub fn hosted(
        &mut self,
        kind: &str,
        name: Option<&str>,
        place: ToolPlace,
        at: &RequestPath<'_>,
    ) -> AskResult<()> {
        match (self.rules.hosted_tools, place) {
            (HostedTools::Allow, _) => {
                self.ask.offered.push(OfferedTool {
                    name: name.unwrap_or(kind).to_owned(),
                    description: None,
                    schema: Json::Null,
                    form: OfferedForm::Hosted(kind.to_owned()),
                    place,
                });
                Ok(())
            }
            (HostedTools::Strip, ToolPlace::Tools(..) | ToolPlace::Functions(_)) => {
                self.ask.edits.strip_tools.insert(place);
                Ok(())
            }
            (HostedTools::Strip, ToolPlace::Conversation) | (HostedTools::Deny, _) => {
                Err(AskError::HostedTool { at: at.to_string(), kind: shown(kind) })
            }
        }
    }

    /// Refuses an item of the conversation that says the provider ran something, unless it may.
    pub fn provider_ran(&self, kind: &str, at: &RequestPath<'_>) -> AskResult<()> {
        match self.rules.hosted_tools {
            HostedTools::Allow => Ok(()),
            HostedTools::Deny | HostedTools::Strip => {
                Err(AskError::HostedTool { at: at.to_string(), kind: shown(kind) })
            }
        }
    }
}

/// The name in a tool as it is offered in any dialect, or its type.
pub(super) fn name_of(tool: &Json) -> Option<&str> {
    let below = |member: &str| tool.get(member)?.get("name")?.as_str();
    let name = below("function").or_else(|| below("custom"));
    name.or_else(|| tool.get("name")?.as_str()).or_else(|| tool.get("type")?.as_str())
}

/// The tool that a `tool_choice` of any dialect demands, or its mode.
pub(super) fn choice_of(choice: &Json) -> Option<&str> {
    choice.as_str().or_else(|| name_of(choice))
}
