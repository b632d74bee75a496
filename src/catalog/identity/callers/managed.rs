//! `agents[].model.managed`: the loop in which the gate itself asks a model and runs the tools that the
//! model asks for.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::id::ToolName;
use crate::identity::manifest::Manifest;

/// The most tools that one request offers: more are refused by providers.
pub const OFFERED_MAX: usize = 128;
/// The most characters of a tool's name in a request.
pub const NAME_CHARS_MAX: usize = 64;

/// The name of the JSON Schema that the gate sends for answers with `text_tools: schema`.
pub const ANSWER_FORM: &str = "wicketgate_tools";

/// `agents[].model`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentModel {
    /// Lets the agent leave its tool loop to the gate, at `/managed/v1/chat/completions`. Without this section the gate
    /// answers 404 there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<ManagedConfig>,
}

/// `agents[].model.managed`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ManagedConfig {
    /// How often the gate asks the model for one request, at most.
    #[schemars(range(min = 1, max = 32))]
    pub iterations_max: u32,
    /// Names of granted tools that the gate offers to the model. Default: every granted tool that is no model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub tools: Option<Vec<String>>,
    /// How the gate offers tools to a model whose upstream has `native_tools: false`.
    pub text_tools: TextTools,
}

impl Default for ManagedConfig {
    fn default() -> Self {
        Self { iterations_max: 5, tools: None, text_tools: TextTools::default() }
    }
}

/// `agents[].model.managed.text_tools`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextTools {
    /// As instructions, and the model answers with one fenced block for each call.
    #[default]
    Auto,
    /// As instructions, and the request has a JSON Schema for the whole answer (`response_format`): for a server that holds
    /// its models to a schema, as Ollama, llama.cpp and vLLM do.
    Schema,
    /// Not at all: the model is asked without tools.
    Never,
}

/// Why an agent's loop cannot offer its tools.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ManagedError {
    /// Two tools would have one name.
    #[error(
        "tools `{0}` and `{1}` would both be offered as `{2}`; name only one of them in `tools`"
    )]
    Collision(String, String, String),
    /// A name is too long.
    #[error(
        "tool `{0}` would be offered under a name of more than {NAME_CHARS_MAX} characters; leave it out of `tools`"
    )]
    TooLong(String),
    /// There are too many.
    #[error(
        "{0} tools would be offered, and a request has at most {OFFERED_MAX}; name fewer in `tools`"
    )]
    TooMany(usize),
    /// A name of the list is not granted.
    #[error(
        "tool `{0}` is not granted by the manifest; grant it there, or leave it out of `tools`"
    )]
    NotGranted(String),
}

/// The name under which a tool is offered to a model: providers take no dots.
#[must_use]
pub fn offered_name(tool: &str) -> String {
    tool.replace('.', "__")
}

/// How the entry of a tool in instructions begins; no other line of them begins so.
const OFFER: &str = "- ";

/// The entry of a tool in the instructions for models without tool calls. The lines of its description are indented, so
/// that none reads as the entry of another tool.
#[must_use]
pub fn offer(offered: &str, description: &str, schema: &str) -> String {
    let description = description.replace('\n', "\n  ");
    format!("{OFFER}{offered}: {description}\n  {schema}\n")
}

/// The names of the tools that instructions offer.
pub fn offers(instructions: &str) -> impl Iterator<Item = &str> {
    let entries = instructions.lines().filter_map(|line| line.strip_prefix(OFFER));
    entries.filter_map(|entry| entry.split_once(": ")).map(|(offered, _)| offered)
}

impl ManagedConfig {
    /// Whether the loop may offer this granted tool.
    #[must_use]
    pub fn takes(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|name| name == tool))
    }

    /// Checks the names under which the tools of this manifest would be offered.
    ///
    /// # Errors
    /// The first name that cannot be offered.
    pub fn check(&self, manifest: &Manifest) -> Result<(), ManagedError> {
        let granted: BTreeSet<&str> =
            manifest.tools.iter().map(|grant| grant.name.as_str()).collect();
        let mut named = self.tools.iter().flatten();
        if let Some(stranger) = named.find(|name| !granted.contains(name.as_str())) {
            return Err(ManagedError::NotGranted(stranger.clone()));
        }
        offered(granted.into_iter().filter(|name| self.takes(name))).map(|_names| ())
    }
}

/// The names under which these tools are offered.
///
/// # Errors
/// The first name that cannot be offered.
fn offered<'a>(
    tools: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<String, ToolName>, ManagedError> {
    let mut names: BTreeMap<String, ToolName> = BTreeMap::new();
    for tool in tools {
        let name = offered_name(tool);
        if name.len() > NAME_CHARS_MAX {
            return Err(ManagedError::TooLong(tool.to_owned()));
        }
        let Some(parsed) = ToolName::parse(tool) else { continue };
        if let Some(other) = names.insert(name.clone(), parsed) {
            return Err(ManagedError::Collision(other.to_string(), tool.to_owned(), name));
        }
    }
    if names.len() > OFFERED_MAX {
        return Err(ManagedError::TooMany(names.len()));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_offered_under_a_name_that_providers_take_and_no_two_under_one() {
        let names = offered(["files.list", "work"].into_iter()).unwrap();
        assert_eq!(names.keys().collect::<Vec<_>>(), ["files__list", "work"]);
        assert_eq!(
            offered(["a.b", "a__b"].into_iter()),
            Err(ManagedError::Collision("a.b".into(), "a__b".into(), "a__b".into()))
        );
        let name = |more: usize| format!("a.{}", "b".repeat(more));
        let (long, fits) = (name(62), name(61));
        assert_eq!(offered([long.as_str()].into_iter()), Err(ManagedError::TooLong(long)));
        assert!(offered([fits.as_str()].into_iter()).is_ok());
        let many: Vec<String> = (0..=OFFERED_MAX).map(|n| format!("t{n}")).collect();
        let all = many.iter().map(String::as_str);
        assert!(offered(all.clone().take(OFFERED_MAX)).is_ok());
        assert_eq!(offered(all), Err(ManagedError::TooMany(129)));
    }
}
