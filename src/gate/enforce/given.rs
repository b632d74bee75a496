//! What the providers of models remember of a run. A request may refer to what an answer gave to the
//! same run; everything else would be instructions or history that the gate cannot see.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::Deserialize;

use crate::catalog::llm::ask::RemoteState;
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::id::ToolName;

/// Ids that a run remembers: clients refer to each item of a conversation.
const GIVEN_MAX: usize = 4096;

/// The ids in the answers that one run was given.
#[derive(Debug, Default)]
pub(super) struct GivenIds {
    by: BTreeMap<Digest, Arc<GivenBy>>,
    /// The oldest first.
    order: VecDeque<Digest>,
}

/// Where an answer came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct GivenBy {
    pub tool: ToolName,
    pub upstream: String,
}

/// The ids in an answer: of a response and the items of its output, or of a message. And the earlier
/// messages that the provider sealed in it.
#[derive(Deserialize)]
struct IdsOfAnswer {
    id: Option<String>,
    #[serde(default)]
    output: Vec<PartOfAnswer>,
    #[serde(default)]
    content: Vec<PartOfAnswer>,
}

/// An item of a response, or a block of a message.
#[derive(Deserialize)]
struct PartOfAnswer {
    id: Option<String>,
    r#type: Option<String>,
    encrypted_content: Option<String>,
}

impl PartOfAnswer {
    fn sealed(&self) -> Option<String> {
        let kind = self.r#type.as_deref()?;
        let seals = matches!(kind, "compaction" | "compaction_summary");
        self.encrypted_content.clone().filter(|_| seals)
    }
}

impl GivenIds {
    /// Remembers the ids in a complete answer.
    pub fn give(&mut self, answer: &[u8], by: GivenBy) {
        // An answer of another form has no ids.
        let Ok(IdsOfAnswer { id, output, content }) = serde_json::from_slice(answer) else {
            return;
        };
        let by = Arc::new(by);
        let sealed: Vec<String> =
            output.iter().chain(&content).filter_map(PartOfAnswer::sealed).collect();
        let items = output.into_iter().filter_map(|item| item.id);
        for id in id.into_iter().chain(items).chain(sealed) {
            let id = Digest::of(&[id.as_bytes()]);
            if self.by.insert(id, Arc::clone(&by)).is_none() {
                self.order.push_back(id);
            }
        }
        while self.order.len() > GIVEN_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.by.remove(&oldest);
            }
        }
    }

    /// The upstream that remembers what a request to this tool refers to; none if it refers to
    /// nothing.
    ///
    /// # Errors
    /// The first reference to what the run was not given there.
    pub fn upstream<'a>(
        &self,
        tool: &ToolName,
        refers: &'a [RemoteState],
    ) -> Result<Option<String>, &'a RemoteState> {
        let mut upstream: Option<&str> = None;
        for one in refers {
            let by = self.by.get(&Digest::of(&[one.id.as_bytes()])).ok_or(one)?;
            if by.tool != *tool || upstream.is_some_and(|first| first != by.upstream) {
                return Err(one);
            }
            upstream = Some(&by.upstream);
        }
        Ok(upstream.map(str::to_owned))
    }
}

/// The reason against a request with such a reference.
pub(super) fn unknown(refers: &RemoteState) -> LayerReason {
    let message = format!(
        "`{}` refers to what no answer gave to this run, so the gate cannot see it; send the conversation itself",
        refers.member
    );
    LayerReason::effect_refused("tool.model", "model.remote_state", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(upstream: &str) -> GivenBy {
        GivenBy { tool: ToolName::parse("llm.main").unwrap(), upstream: upstream.to_owned() }
    }

    fn refers(ids: &[&str]) -> Vec<RemoteState> {
        let of = |id: &&str| RemoteState { member: "item_reference", id: (*id).to_owned() };
        ids.iter().map(of).collect()
    }

    #[test]
    fn a_request_refers_to_what_one_upstream_gave_to_its_run() {
        let mut given = GivenIds::default();
        let answer = br#"{"id":"resp_1","output":[{"id":"msg_1","type":"message"},{"type":"x"}]}"#;
        given.give(answer, by("a"));
        given.give(br#"{"id":"resp_2","type":"message"}"#, by("b"));
        given.give(b"[]", by("c"));
        let tool = ToolName::parse("llm.main").unwrap();
        let upstream =
            |ids: &[&str]| given.upstream(&tool, &refers(ids)).map_err(|one| one.id.clone());
        assert_eq!(upstream(&[]), Ok(None));
        assert_eq!(upstream(&["resp_1", "msg_1"]), Ok(Some("a".to_owned())));
        assert_eq!(upstream(&["resp_2"]), Ok(Some("b".to_owned())));
        assert_eq!(upstream(&["resp_1", "resp_2"]), Err("resp_2".to_owned()));
        assert_eq!(upstream(&["resp_1", "resp_3"]), Err("resp_3".to_owned()));
        let other = ToolName::parse("llm.other").unwrap();
        assert!(given.upstream(&other, &refers(&["resp_1"])).is_err());
    }

    #[test]
    fn what_only_the_provider_can_read_is_of_the_same_run() {
        let mut given = GivenIds::default();
        let response = br#"{"id":"resp_1","output":[
            {"id":"cmp_1","type":"compaction","encrypted_content":"sealed 1"},
            {"id":"rs_1","type":"reasoning","encrypted_content":"thought"}]}"#;
        given.give(response, by("a"));
        let message = br#"{"id":"msg_1","type":"message","content":[{"type":"text","text":"x"},
            {"type":"compaction","content":"c","encrypted_content":"sealed 2"}]}"#;
        given.give(message, by("a"));
        let tool = ToolName::parse("llm.main").unwrap();
        let knows = |id: &str| given.upstream(&tool, &refers(&[id])).is_ok();
        for id in ["resp_1", "cmp_1", "rs_1", "msg_1", "sealed 1", "sealed 2"] {
            assert!(knows(id), "{id}");
        }
        assert!(!knows("thought"));
        assert!(!knows("sealed 3"));
    }

    #[test]
    fn no_run_remembers_more_than_its_share() {
        let mut given = GivenIds::default();
        for n in 0..=GIVEN_MAX {
            given.give(format!(r#"{{"id":"r{n}"}}"#).as_bytes(), by("a"));
        }
        let tool = ToolName::parse("llm.main").unwrap();
        assert_eq!((given.by.len(), given.order.len()), (GIVEN_MAX, GIVEN_MAX));
        assert!(given.upstream(&tool, &refers(&["r0"])).is_err());
        assert!(given.upstream(&tool, &refers(&["r1", "r4096"])).is_ok());
    }
}
