//! Tools of the gate that an agent ran itself: the result of a tool call that a model asked for, and
//! that never came to the gate.
//!
//! The gate sees such a result when the agent sends it to a model. It is a finding in that request
//! (`proposal.bypassed`), so a policy may refuse the request.

use std::collections::{BTreeSet, VecDeque};

use super::Road;
use super::run::Run;
use crate::catalog::llm::ask::{Ask, EarlierCall, EarlierResult};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::id::ToolName;
use crate::domain::json::{Json, Limits};

/// Tool calls of answers whose results are watched for, per run.
const ASKED_MAX: usize = 128;
/// Calls of an agent that are remembered until their result is seen, per run.
const CAME_MAX: usize = 128;

/// The tool calls that the models of one run asked for, of tools that the gate runs, and the calls
/// that the agent made.
#[derive(Debug, Default)]
pub(super) struct GovernedAsks {
    asked: VecDeque<GovernedAsk>,
    /// How many there were.
    count: u64,
    /// The newest calls of the agent that account for no result yet, by tool and arguments.
    came: VecDeque<Digest>,
}

#[derive(Debug)]
struct GovernedAsk {
    /// Its number in the run: providers give one id to calls of several conversations.
    number: u64,
    /// The id in the answer, which the result names.
    id: String,
    tool: ToolName,
    /// The arguments with which it left.
    arguments: Digest,
    /// The tool and its arguments. Without them no call of an agent can be this one.
    likeness: Option<Digest>,
    fate: AskFate,
    /// How many runs of the agent were forgotten, with calls that account for no result, when it was
    /// asked for.
    forgotten: u64,
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
    /// There is a result, and the call may have come in a run that is forgotten.
    Unknown,
}

/// A result whose call did not come to the gate in the same run.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Unaccounted {
    number: u64,
    tool: ToolName,
    likeness: Option<Digest>,
    forgotten: u64,
}

/// Identifies arguments by their value; text that is no JSON by itself.
fn written(arguments: &str) -> Digest {
    let value = Json::parse(arguments.as_bytes(), &Limits::FILE);
    let text = value.map_or_else(|_| arguments.to_owned(), |value| canonical::text(&value));
    Digest::of(&[text.as_bytes()])
}

impl GovernedAsks {
    /// Remembers a tool call of an answer. Results do not name one without an id.
    pub fn ask(
        &mut self,
        id: &str,
        tool: &ToolName,
        (arguments, likeness): (&str, Option<Digest>),
        forgotten: u64,
    ) {
        if id.is_empty() {
            return;
        }
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_front();
        }
        self.count = self.count.saturating_add(1);
        let (number, id, tool) = (self.count, id.to_owned(), tool.clone());
        let (arguments, fate) = (written(arguments), AskFate::Open);
        let ask = GovernedAsk { number, id, tool, arguments, likeness, fate, forgotten };
        self.asked.push_back(ask);
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

    /// Whether it has calls of the agent that may account for results in other runs.
    pub fn has_spare(&self) -> bool {
        !self.came.is_empty()
    }

    /// Uses up one call of the agent with this tool and these arguments.
    fn account(&mut self, likeness: &Digest) -> bool {
        let at = self.came.iter().position(|came| came == likeness);
        at.and_then(|at| self.came.remove(at)).is_some()
    }

    /// The tool call of an answer that each result is of, with the result. Where several have its id,
    /// it is one with the arguments that the conversation shows; of those, one that came to the gate.
    fn answered<'a>(
        &self,
        results: &'a [EarlierResult],
        calls: &[EarlierCall],
    ) -> Vec<(&GovernedAsk, &'a EarlierResult)> {
        let (mut taken, mut found) = (BTreeSet::new(), Vec::new());
        for result in results {
            let of_id = |ask: &&GovernedAsk| ask.id == result.id;
            let with_id: Vec<&GovernedAsk> = self
                .asked
                .iter()
                .filter(of_id)
                .filter(|ask| !taken.contains(&ask.number))
                .collect();
            // WHY only then: a call may have a MiB of arguments.
            let shown = result.call.and_then(|at| calls.get(at)).filter(|_| with_id.len() > 1);
            let shown = shown.map(|call| written(&call.arguments));
            let fits = |ask: &&&GovernedAsk| shown.is_none_or(|shown| ask.arguments == shown);
            let fitting: Vec<&GovernedAsk> = with_id.iter().filter(fits).copied().collect();
            let candidates = if fitting.is_empty() { with_id } else { fitting };
            let came = candidates.iter().find(|ask| ask.fate == AskFate::Came);
            if let Some(ask) = came.or(candidates.first()).copied() {
                taken.insert(ask.number);
                found.push((ask, result));
            }
        }
        found
    }

    /// The results that no call of this run accounts for.
    fn unaccounted(
        &mut self,
        results: &[EarlierResult],
        calls: &[EarlierCall],
    ) -> Vec<Unaccounted> {
        // WHY not those that report an error: the agent itself may have refused to make the call.
        let open = self
            .answered(results, calls)
            .into_iter()
            .filter(|(ask, result)| ask.fate == AskFate::Open && result.is_error != Some(true));
        let one = |ask: &GovernedAsk| Unaccounted {
            number: ask.number,
            tool: ask.tool.clone(),
            likeness: ask.likeness,
            forgotten: ask.forgotten,
        };
        let mut left: Vec<Unaccounted> = open.map(|(ask, _)| one(ask)).collect();
        left.retain(|one| {
            let came = one.likeness.is_some_and(|likeness| self.account(&likeness));
            if came {
                self.end(one.number, AskFate::Came);
            }
            !came
        });
        left
    }

    fn end(&mut self, number: u64, fate: AskFate) {
        if let Some(ask) = self.asked.iter_mut().find(|ask| ask.number == number) {
            ask.fate = fate;
        }
    }

    /// The messages with results of calls that never came to the gate.
    fn bypassed(&self, results: &[EarlierResult], calls: &[EarlierCall]) -> BTreeSet<usize> {
        let answered = self.answered(results, calls).into_iter();
        let bypassed = answered.filter(|(ask, _)| ask.fate == AskFate::Bypassed);
        bypassed.map(|(_, result)| result.message).collect()
    }
}

impl Road {
    /// The messages of a request with results of tools that the agent ran past the gate. A call that
    /// came in another run of the same agent is none: without a name its tools have a run of their own.
    pub(super) fn bypassed(&self, run: &Run, ask: &Ask) -> BTreeSet<usize> {
        let (results, calls) = (&*ask.results, &*ask.calls);
        if results.is_empty() {
            return BTreeSet::new();
        }
        let left = run.models.governed.lock().unaccounted(results, calls);
        for one in left {
            // WHY no lock of this run here: another run may be looking for its calls in this one.
            let came = one.likeness.is_some_and(|likeness| self.came_elsewhere(run, &likeness));
            // A call without a likeness cannot have come anywhere.
            let lost = self.runs.forgotten(&run.opener.name) > one.forgotten;
            let fate = match (came, lost && one.likeness.is_some()) {
                (true, _) => AskFate::Came,
                (false, true) => AskFate::Unknown,
                (false, false) => AskFate::Bypassed,
            };
            if fate == AskFate::Bypassed {
                tracing::warn!(run = %run.id(), agent = %run.agent(), tool = %one.tool, "an agent ran a tool of the gate itself");
                self.metrics.proposal_bypassed(one.tool.as_str());
            }
            run.models.governed.lock().end(one.number, fate);
        }
        run.models.governed.lock().bypassed(results, calls)
    }

    fn came_elsewhere(&self, run: &Run, likeness: &Digest) -> bool {
        // Sealed runs are among them while they are known.
        let all = self.runs.all().into_iter();
        let mut others = all.filter(|one| one.id != run.id && one.opener.name == run.opener.name);
        others.any(|other| other.models.governed.lock().account(likeness))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(id: &str, message: usize, is_error: Option<bool>) -> EarlierResult {
        EarlierResult { id: id.to_owned(), is_error, message, call: None }
    }

    fn like(text: &str) -> Digest {
        Digest::of(&[text.as_bytes()])
    }

    #[test]
    fn a_result_is_accounted_for_by_one_call_with_the_same_arguments() {
        let mut asks = GovernedAsks::default();
        let tool = ToolName::parse("work.do").unwrap();
        let like = Digest::of(&[b"a"]);
        asks.ask("c1", &tool, ("{}", Some(like)), 0);
        asks.ask("c2", &tool, ("{}", Some(like)), 0);
        asks.come(like);
        asks.come(Digest::of(&[b"b"]));
        let both = [result("c1", 2, None), result("c2", 3, None), result("x", 4, None)];
        let left = asks.unaccounted(&both, &[]);
        assert_eq!(left.iter().map(|one| one.number).collect::<Vec<_>>(), [2]);
        assert!(asks.bypassed(&both, &[]).is_empty());
        asks.end(2, AskFate::Bypassed);
        assert_eq!(asks.bypassed(&both, &[]), BTreeSet::from([3]));
        // It stays what it is: a call that comes later made no earlier result.
        asks.come(like);
        assert!(asks.unaccounted(&both, &[]).is_empty());
        assert_eq!(asks.bypassed(&both, &[]), BTreeSet::from([3]));
    }

    #[test]
    fn a_call_that_came_is_remembered_however_many_others_come_before_its_result() {
        let mut asks = GovernedAsks::default();
        let tool = ToolName::parse("work.do").unwrap();
        let like = Digest::of(&[b"a"]);
        asks.ask("c1", &tool, ("{}", Some(like)), 0);
        asks.come(like);
        for n in 0..300_usize {
            asks.come(Digest::of(&[&n.to_be_bytes()]));
        }
        assert!(asks.unaccounted(&[result("c1", 2, None)], &[]).is_empty());
        assert!(asks.bypassed(&[result("c1", 2, None)], &[]).is_empty());
    }

    #[test]
    fn an_error_that_the_agent_reports_is_no_result_and_a_call_without_an_id_is_not_watched() {
        let mut asks = GovernedAsks::default();
        let tool = ToolName::parse("work.do").unwrap();
        asks.ask("c1", &tool, ("{}", None), 0);
        asks.ask("", &tool, ("{}", None), 0);
        assert!(
            asks.unaccounted(&[result("c1", 0, Some(true)), result("", 0, None)], &[]).is_empty()
        );
        assert_eq!(asks.unaccounted(&[result("c1", 0, Some(false))], &[]).len(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut asks = GovernedAsks::default();
        let tool = ToolName::parse("work.do").unwrap();
        for n in 0..300_usize {
            asks.ask(&n.to_string(), &tool, ("{}", None), 0);
            asks.come(Digest::of(&[&n.to_be_bytes()]));
        }
        assert_eq!((asks.asked.len(), asks.came.len()), (ASKED_MAX, CAME_MAX));
        assert!(asks.unaccounted(&[result("0", 0, None)], &[]).is_empty());
        assert_eq!(asks.unaccounted(&[result("299", 0, None)], &[]).len(), 1);
    }

    #[test]
    fn an_id_that_two_conversations_share_is_the_call_whose_arguments_the_request_shows() {
        let tool = ToolName::parse("work.do").unwrap();
        let call = |arguments: &str| EarlierCall {
            id: "call_0".to_owned(),
            name: "work_do".to_owned(),
            arguments: arguments.to_owned(),
        };
        let of =
            |message: usize| EarlierResult { call: Some(0), ..result("call_0", message, None) };
        let mut asks = GovernedAsks::default();
        asks.ask("call_0", &tool, (r#"{"n":1}"#, Some(like("1"))), 0);
        asks.ask("call_0", &tool, (r#"{"n":2}"#, Some(like("2"))), 0);
        asks.come(like("1"));
        // The first conversation goes on while the call of the second one is still to come.
        assert_eq!(asks.unaccounted(&[of(2)], &[call(r#"{ "n": 1 }"#)]), []);
        asks.come(like("2"));
        assert_eq!(asks.unaccounted(&[of(2)], &[call(r#"{"n":2}"#)]), []);

        asks.ask("call_0", &tool, (r#"{"n":3}"#, Some(like("3"))), 0);
        let left = asks.unaccounted(&[of(2)], &[call(r#"{"n":3}"#)]);
        assert_eq!(left.iter().map(|one| one.number).collect::<Vec<_>>(), [3]);
        asks.end(3, AskFate::Bypassed);
        assert_eq!(asks.bypassed(&[of(2)], &[call(r#"{"n":3}"#)]), BTreeSet::from([2]));
        assert_eq!(asks.bypassed(&[of(2)], &[call(r#"{"n":1}"#)]), BTreeSet::new());
        // Without the call in the request it may be one that came.
        assert_eq!(asks.unaccounted(&[result("call_0", 2, None)], &[]), []);
    }

    #[test]
    fn two_results_of_one_id_are_of_two_calls() {
        let (tool, id) = (ToolName::parse("work.do").unwrap(), "call_0");
        let mut asks = GovernedAsks::default();
        asks.ask(id, &tool, ("{}", Some(like("a"))), 0);
        asks.come(like("a"));
        asks.ask(id, &tool, ("{}", Some(like("a"))), 0);
        assert_eq!(asks.unaccounted(&[result(id, 2, None)], &[]), []);
        assert_eq!(asks.unaccounted(&[result(id, 2, None), result(id, 4, None)], &[]).len(), 1);
    }
}
