//! Which of the offered tools the gate runs itself, and which the agent runs.

use std::collections::BTreeMap;

use super::{Ask, OfferedForm, OfferedTool, ToolPlace};
use crate::domain::digest::Digest;
use crate::domain::json::Json;

/// A tool that the run is granted, as the gate offers it.
#[derive(Clone, PartialEq, Debug)]
pub struct GovernedTool {
    /// Its name in the gate.
    pub name: String,
    /// Its pinned description.
    pub description: String,
    /// Its pinned schema.
    pub schema: Json,
}

/// A tool that the manifest allows the agent to run itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PinnedClientTool {
    /// Its name, exactly as the agent offers it.
    pub name: String,
    /// The digest of its definition ([`OfferedTool::definition`]), if the manifest pins it.
    pub definition: Option<Digest>,
}

/// Who runs an offered tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OfferedKind {
    /// The gate, under this granted name.
    Governed(String),
    /// The agent, under this name of the manifest.
    Client(String),
    /// The provider, because the operator allows it.
    Hosted,
    /// Neither is known.
    Unknown,
}

/// Whether a tool is offered as it is pinned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DefinitionMatch {
    /// Description and schema are the pinned ones.
    Same,
    /// They are others.
    Differs,
    /// Nothing is pinned.
    Unpinned,
}

impl DefinitionMatch {
    /// Its text in entries and policies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Differs => "differs",
            Self::Unpinned => "unpinned",
        }
    }
}

/// An offered tool with its kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassifiedTool {
    /// The name by which the model calls it.
    pub name: String,
    /// Where it stands in the request.
    pub place: ToolPlace,
    /// Who runs it.
    pub kind: OfferedKind,
    /// Whether it is offered as it is pinned.
    pub definition: DefinitionMatch,
}

/// A name as clients change it: all but letters and digits becomes `_`.
fn mapped(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Whether a client may have given this name to the granted tool: with all but letters and digits
/// mapped to `_`, the granted name is the whole offered name or its end behind a `_`.
#[must_use]
pub fn is_governed_name(offered: &str, granted: &str) -> bool {
    let (offered, granted) = (mapped(offered), mapped(granted));
    let before = offered.strip_suffix(&granted).filter(|_| !granted.is_empty());
    before.is_some_and(|before| before.is_empty() || before.ends_with('_'))
}

/// The granted tool that is offered, if exactly one fits best: its description is the pinned one, and
/// its name is the longest that fits. `Err`: several fit equally.
fn governed<'g>(
    tool: &OfferedTool,
    granted: &'g [GovernedTool],
) -> Result<Option<&'g GovernedTool>, ()> {
    if tool.form != OfferedForm::Function {
        return Ok(None);
    }
    let fits = |one: &&GovernedTool| {
        tool.description.as_deref() == Some(one.description.as_str())
            && is_governed_name(&tool.name, &one.name)
    };
    let fitting: Vec<_> = granted.iter().filter(fits).collect();
    let longest = fitting.iter().map(|one| one.name.len()).max();
    let mut best = fitting.into_iter().filter(|one| Some(one.name.len()) == longest);
    match (best.next(), best.next()) {
        (found, None) => Ok(found),
        (_, Some(_)) => Err(()),
    }
}

fn kind_of(
    tool: &OfferedTool,
    granted: &[GovernedTool],
    client: &[PinnedClientTool],
) -> (OfferedKind, DefinitionMatch) {
    let unknown = (OfferedKind::Unknown, DefinitionMatch::Unpinned);
    if matches!(tool.form, OfferedForm::Hosted(_)) {
        return (OfferedKind::Hosted, DefinitionMatch::Unpinned);
    }
    let listed = client.iter().find(|one| one.name == tool.name);
    match (governed(tool, granted), listed) {
        (Ok(Some(one)), None) => {
            let same = tool.schema == one.schema;
            let definition = if same { DefinitionMatch::Same } else { DefinitionMatch::Differs };
            (OfferedKind::Governed(one.name.clone()), definition)
        }
        (Ok(None), Some(one)) => match one.definition {
            None => (OfferedKind::Client(one.name.clone()), DefinitionMatch::Unpinned),
            Some(pinned) if pinned == tool.definition() => {
                (OfferedKind::Client(one.name.clone()), DefinitionMatch::Same)
            }
            Some(_) => (OfferedKind::Unknown, DefinitionMatch::Differs),
        },
        // A tool that both run, or that several fit, is not known.
        (Ok(None), None) | (Ok(Some(_)), Some(_)) | (Err(()), _) => unknown,
    }
}

/// Who runs each of the offered tools, in their order. Tools that share a name but no kind are
/// unknown: a call by that name could mean either.
#[must_use]
pub fn classify(
    ask: &Ask,
    granted: &[GovernedTool],
    client: &[PinnedClientTool],
) -> Vec<ClassifiedTool> {
    let one = |tool: &OfferedTool| {
        let (kind, definition) = kind_of(tool, granted, client);
        ClassifiedTool { name: tool.name.clone(), place: tool.place, kind, definition }
    };
    let mut all: Vec<ClassifiedTool> = ask.offered.iter().map(one).collect();
    let mut kinds: BTreeMap<String, Option<OfferedKind>> = BTreeMap::new();
    for tool in &all {
        let kind = kinds.entry(tool.name.clone()).or_insert_with(|| Some(tool.kind.clone()));
        if kind.as_ref() != Some(&tool.kind) {
            *kind = None;
        }
    }
    for tool in &mut all {
        if kinds.get(&tool.name).is_none_or(Option::is_none) {
            tool.kind = OfferedKind::Unknown;
        }
    }
    all
}
