//! Proposes `spec.client_tools` from recorded requests: the offered tools that the gate does not run.

use std::collections::{BTreeMap, BTreeSet};

use super::super::client_tools::is_listable;
use super::request::ShownRequest;
use crate::domain::digest::Digest;
use crate::llm::ask::{OfferedForm, OfferedTool, is_governed_name};

/// One proposed entry of `spec.client_tools`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProposedTool {
    /// Its name as the model sees it.
    pub name: String,
    /// The digest of its definition; none if requests offered it with different ones.
    pub definition: Option<Digest>,
    /// The number of its definitions.
    pub definitions: usize,
    /// The number of requests that offered it.
    pub requests: usize,
}

/// What becomes of the offered tools.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProposedTools {
    /// Those that the agent runs, by name.
    pub client: Vec<ProposedTool>,
    /// Those whose name is that of a granted tool, which the gate runs: the offered name and the granted
    /// one.
    pub governed: BTreeMap<String, String>,
    /// Those whose name no entry can have.
    pub unlisted: BTreeSet<String>,
}

/// Sorts the tools that these requests offer. `granted` are the names of the tools that the agent is
/// granted. The gate also compares descriptions; here the name alone decides.
#[must_use]
pub fn propose_tools<'a>(
    requests: impl IntoIterator<Item = &'a ShownRequest>,
    granted: &[&str],
) -> ProposedTools {
    let mut found = ProposedTools::default();
    let mut client: BTreeMap<String, (BTreeSet<Digest>, usize)> = BTreeMap::new();
    for request in requests {
        let mut names = BTreeSet::new();
        for tool in &request.tools {
            if let Some(granted) = governing(tool, granted) {
                found.governed.insert(tool.name.clone(), granted.to_owned());
            } else if is_listable(&tool.name) {
                let (definitions, count) = client.entry(tool.name.clone()).or_default();
                definitions.insert(tool.definition());
                // A tool that is added within the conversation may be offered above it, too.
                *count = count.saturating_add(usize::from(names.insert(tool.name.as_str())));
            } else {
                found.unlisted.insert(tool.name.clone());
            }
        }
    }
    found.client = client.into_iter().map(proposed).collect();
    found
}

fn proposed((name, (definitions, requests)): (String, (BTreeSet<Digest>, usize))) -> ProposedTool {
    let mut all = definitions.iter().copied();
    let definition = all.next().filter(|_| all.next().is_none());
    ProposedTool { name, definition, definitions: definitions.len(), requests }
}

/// The granted tool of this name: the longest name that fits.
fn governing<'g>(tool: &OfferedTool, granted: &[&'g str]) -> Option<&'g str> {
    let fits =
        |name: &&&str| tool.form == OfferedForm::Function && is_governed_name(&tool.name, name);
    granted.iter().filter(fits).max_by_key(|name| name.len()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::dialect::Dialect;
    use crate::domain::json::json;

    fn offering(tools: &[(&str, &str)]) -> ShownRequest {
        let tools: Vec<_> = tools
            .iter()
            .map(|(name, description)| {
                serde_json::json!({"name": name, "description": description, "input_schema": {}})
            })
            .collect();
        let args = json!({"model": "m", "messages": [], "tools": tools});
        ShownRequest::read(&args, Some(Dialect::Messages)).unwrap()
    }

    #[test]
    fn a_tool_has_its_definition_unless_requests_offer_several() {
        let requests = [
            offering(&[("Bash", "runs"), ("Read", "reads")]),
            offering(&[("Bash", "runs"), ("Read", "reads it")]),
        ];
        let found = propose_tools(&requests, &[]);
        let [bash, read] = found.client.as_slice() else { panic!("{found:?}") };
        assert_eq!(bash.definition, Some(requests[0].tools[0].definition()));
        assert_eq!((bash.name.as_str(), bash.definitions, bash.requests), ("Bash", 1, 2));
        assert_eq!((read.definition, read.definitions, read.requests), (None, 2, 2));
    }

    #[test]
    fn tools_of_the_gate_and_names_that_no_entry_can_have_are_left_out() {
        let long = "x".repeat(200);
        let request =
            offering(&[("mcp__gov__fs_read", "reads"), ("read", "reads"), (long.as_str(), "")]);
        let found = propose_tools([&request], &["fs.read", "read"]);
        let governed = found.governed.iter().map(|(a, b)| (a.as_str(), b.as_str()));
        let expected = [("mcp__gov__fs_read", "fs.read"), ("read", "read")];
        assert_eq!(governed.collect::<Vec<_>>(), expected);
        assert_eq!(found.unlisted.into_iter().collect::<Vec<_>>(), [long]);
        assert_eq!(found.client, []);
    }
}
