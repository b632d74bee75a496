//! What a policy sees of a request to a model beyond its bytes: how the request compares with the
//! manifest and the granted tools of its run. The gate found it out; the agent claims none of it.

use crate::catalog::llm::ask::{ClassifiedTool, OfferedKind};
use crate::domain::digest::Digest;
use crate::domain::effect::{AskFacts, ModelInstruction, ModelTool};
use crate::identity::instructions::{InstructionBlock, MatchedInstructions};

/// The offered tools. Those that are taken out of the request are not among them.
pub(super) fn tools(offered: &[ClassifiedTool], strips_unknown: bool) -> Vec<ModelTool> {
    let stays = |tool: &&ClassifiedTool| !strips_unknown || tool.kind != OfferedKind::Unknown;
    offered.iter().filter(stays).map(tool).collect()
}

fn tool(offered: &ClassifiedTool) -> ModelTool {
    let (kind, stands_for) = match &offered.kind {
        OfferedKind::Governed(name) => ("governed", Some(name)),
        OfferedKind::Client(name) => ("client", Some(name)),
        OfferedKind::Hosted => ("hosted", None),
        OfferedKind::Unknown => ("unknown", None),
    };
    ModelTool {
        definition: offered.definition.as_str().to_owned(),
        kind: kind.to_owned(),
        name: offered.name.clone(),
        tool: stands_for.cloned(),
    }
}

/// The instructions, with the entry of the manifest that each matches. `matched` is none if the
/// request is refused for them.
pub(super) fn instructions(
    blocks: &[InstructionBlock<'_>],
    matched: Option<&MatchedInstructions>,
) -> AskFacts {
    let entries = matched.map(|matched| matched.blocks.as_slice()).unwrap_or_default();
    let entries = entries.iter().map(Some).chain(std::iter::repeat(None));
    let named = blocks.iter().zip(entries).map(|(block, entry)| ModelInstruction {
        name: entry.and_then(|entry| entry.name.clone()),
        place: block.place.as_str().to_owned(),
        scope: entry.map(|entry| entry.scope.to_string()),
        sha256: Digest::of(&[block.text.as_bytes()]).hex(),
    });
    AskFacts {
        instructions: named.collect(),
        loose_bytes: matched.map(|matched| matched.loose_bytes),
        ..AskFacts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::llm::ask::{DefinitionMatch, ToolPlace};

    #[test]
    fn a_tool_that_is_taken_out_is_not_shown_and_the_others_say_what_they_stand_for() {
        let of = |name: &str, kind: OfferedKind| ClassifiedTool {
            name: name.to_owned(),
            place: ToolPlace::Tools(0, None),
            kind,
            definition: DefinitionMatch::Differs,
        };
        let all = [
            of("gov_work_do", OfferedKind::Governed("work.do".to_owned())),
            of("Hack", OfferedKind::Unknown),
            of("web_search", OfferedKind::Hosted),
        ];
        let shown = |strips: bool| {
            let tools = tools(&all, strips).into_iter();
            tools.map(|tool| (tool.name, tool.kind, tool.tool)).collect::<Vec<_>>()
        };
        let text = str::to_owned;
        let governed = (text("gov_work_do"), text("governed"), Some(text("work.do")));
        let hosted = (text("web_search"), text("hosted"), None);
        assert_eq!(shown(true), [governed.clone(), hosted.clone()]);
        assert_eq!(shown(false), [governed, (text("Hack"), text("unknown"), None), hosted]);
    }
}
