//! Tools of the gate that an agent ran itself: the result of a tool call that a model asked for, and
//! that never came to the gate.
//!
//! The gate sees such a result when the agent sends it to a model. It is a finding in that request
//! (`proposal.bypassed`), so a policy may refuse the request.

use std::collections::{BTreeSet, VecDeque};

use super::Road;
use super::run::Run;
use crate::catalog::llm::ask::EarlierResult;
use crate::domain::digest::Digest;
use crate::domain::id::ToolName;

/// Tool calls of answers whose results are watched for, per run.
const ASKED_MAX: usize = 128;
/// Calls of an agent that are remembered until their result is seen, per run.
const CAME_MAX: usize = 128;

/// The tool calls that the models of one run asked for, of tools that the gate runs, and the calls
/// that the agent made.
#[derive(Debug, Default)]
pub(super) struct GovernedAsks {
    asked: VecDeque<GovernedAsk>,
    /// The newest calls of the agent that account for no result yet, by tool and arguments.
    came: VecDeque<Digest>,
}

#[derive(Debug)]
struct GovernedAsk {
    /// The id in the answer, which the result names.
    id: String,
    tool: ToolName,
    /// The tool and its arguments. Without them no call of an agent can be this one.
    likeness: Option<Digest>,
    fate: AskFate,
}

/// What became of a tool call that a model asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AskFate {
    /// No result was seen.
    Open,
    /// The agent called the gate.
    Came,
    /// There is a result, and the agent did not call the gate.
    Bypassed,
}

/// A result whose call did not come to the gate in the same run.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Unaccounted {
    id: String,
    tool: ToolName,
    likeness: Option<Digest>,
}

impl GovernedAsks {
    /// Remembers a tool call of an answer. Results do not name one without an id.
    pub fn ask(&mut self, id: &str, tool: &ToolName, likeness: Option<Digest>) {
        if id.is_empty() {
            return;
        }
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_front();
        }
        let (id, tool) = (id.to_owned(), tool.clone());
        self.asked.push_back(GovernedAsk { id, tool, likeness, fate: AskFate::Open });
    }

    /// Remembers a call of the agent. WHY what asked for it first: the result may come hours later,
    /// after an approver, and after more calls than are remembered.
    pub fn come(&mut self, likeness: Digest) {
        let asks = &mut self.asked;
        let mut open = asks.iter_mut().filter(|ask| ask.fate == AskFate::Open);
        if let Some(ask) = open.find(|ask| ask.likeness == Some(likeness)) {
            ask.fate = AskFate::Came;
            return;
        }
        if self.came.len() >= CAME_MAX {
            self.came.pop_front();
        }
        self.came.push_back(likeness);
    }

    /// Uses up one call of the agent with this tool and these arguments.
    fn account(&mut self, likeness: &Digest) -> bool {
        let at = self.came.iter().position(|came| came == likeness);
        at.and_then(|at| self.came.remove(at)).is_some()
    }

    fn of_id(&mut self, id: &str) -> Option<&mut GovernedAsk> {
        self.asked.iter_mut().rev().find(|ask| ask.id == id)
    }

    /// The results that no call of this run accounts for.
    fn unaccounted(&mut self, results: &[EarlierResult]) -> Vec<Unaccounted> {
        let mut left = Vec::new();
        // WHY not those that report an error: the agent itself may have refused to make the call.
        for result in results.iter().filter(|result| result.is_error != Some(true)) {
            let open = self.of_id(&result.id).filter(|ask| ask.fate == AskFate::Open);
            let Some(open) = open else { continue };
            let (id, tool, likeness) = (open.id.clone(), open.tool.clone(), open.likeness);
            if likeness.is_some_and(|likeness| self.account(&likeness)) {
                self.end(&id, AskFate::Came);
            } else {
                left.push(Unaccounted { id, tool, likeness });
            }
        }
        left
    }

    fn end(&mut self, id: &str, fate: AskFate) {
        if let Some(ask) = self.of_id(id) {
            ask.fate = fate;
        }
    }

    /// The messages with results of calls that never came to the gate.
    fn bypassed(&self, results: &[EarlierResult]) -> BTreeSet<usize> {
        let is_bypassed = |result: &&EarlierResult| {
            let ask = self.asked.iter().rev().find(|ask| ask.id == result.id);
            ask.is_some_and(|ask| ask.fate == AskFate::Bypassed)
        };
        results.iter().filter(is_bypassed).map(|result| result.message).collect()
    }
}

impl Road {
    /// The messages of a request with results of tools that the agent ran past the gate. A call that
    /// came in another run of the same agent is none: without a name its tools have a run of their own.
    pub(super) fn bypassed(&self, run: &Run, results: &[EarlierResult]) -> BTreeSet<usize> {
        if results.is_empty() {
            return BTreeSet::new();
        }
        let left = run.models.governed.lock().unaccounted(results);
        for one in left {
            // WHY no lock of this run here: another run may be looking for its calls in this one.
            let fate =
                match one.likeness.is_some_and(|likeness| self.came_elsewhere(run, &likeness)) {
                    true => AskFate::Came,
                    false => AskFate::Bypassed,
                };
            if fate == AskFate::Bypassed {
                tracing::warn!(run = %run.id(), agent = %run.agent(), tool = %one.tool, "an agent ran a tool of the gate itself");
                self.metrics.proposal_bypassed(one.tool.as_str());
            }
            run.models.governed.lock().end(&one.id, fate);
        }
        run.models.governed.lock().bypassed(results)
    }

    fn came_elsewhere(&self, run: &Run, likeness: &Digest) -> bool {
        let all = self.runs.all().into_iter();
        let mut others = all.filter(|one| one.id != run.id && one.opener.name == run.opener.name);
        others.any(|other| other.models.governed.lock().account(likeness))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(id: &str, message: usize, is_error: Option<bool>) -> EarlierResult {
        EarlierResult { id: id.to_owned(), is_error, message }
    }

    #[test]
    fn a_result_is_accounted_for_by_one_call_with_the_same_arguments() {
        let mut asks = GovernedAsks::default();
        let tool = ToolName::parse("work.do").unwrap();
        let like = Digest::of(&[b"a"]);
        asks.ask("c1", &tool, Some(like));
        asks.ask("c2", &tool, Some(like));
        asks.come(like);
        asks.come(Digest::of(&[b"b"]));
        let both = [result("c1", 2, None), result("c2", 3, None), result("x", 4, None)];
        let left = asks.unaccounted(&both);
        assert_eq!(left.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["c2"]);
        assert!(asks.bypassed(&both).is_empty());
        asks.end("c2", AskFate::Bypassed);
        assert_eq!(asks.bypassed(&both), BTreeSet::from([3]));
        // It stays what it is: a call that comes later made no earlier result.
        asks.come(like);
        assert!(asks.unaccounted(&both).is_empty());
        assert_eq!(asks.bypassed(&both), BTreeSet::from([3]));
    }

    #[test]
    fn a_call_that_came_is_remembered_however_many_others_come_before_its_result() {
        let mut asks = GovernedAsks::default();
        let tool = ToolName::parse("work.do").unwrap();
        let like = Digest::of(&[b"a"]);
        asks.ask("c1", &tool, Some(like));
        asks.come(like);
        for n in 0..300_usize {
            asks.come(Digest::of(&[&n.to_be_bytes()]));
        }
        assert!(asks.unaccounted(&[result("c1", 2, None)]).is_empty());
        assert!(asks.bypassed(&[result("c1", 2, None)]).is_empty());
    }

    #[test]
    fn an_error_that_the_agent_reports_is_no_result_and_a_call_without_an_id_is_not_watched() {
        let mut asks = GovernedAsks::default();
        let tool = ToolName::parse("work.do").unwrap();
        asks.ask("c1", &tool, None);
        asks.ask("", &tool, None);
        assert!(asks.unaccounted(&[result("c1", 0, Some(true)), result("", 0, None)]).is_empty());
        assert_eq!(asks.unaccounted(&[result("c1", 0, Some(false))]).len(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut asks = GovernedAsks::default();
        let tool = ToolName::parse("work.do").unwrap();
        for n in 0..300_usize {
            asks.ask(&n.to_string(), &tool, None);
            asks.come(Digest::of(&[&n.to_be_bytes()]));
        }
        assert_eq!((asks.asked.len(), asks.came.len()), (ASKED_MAX, CAME_MAX));
        assert!(asks.unaccounted(&[result("0", 0, None)]).is_empty());
        assert_eq!(asks.unaccounted(&[result("299", 0, None)]).len(), 1);
    }
}
