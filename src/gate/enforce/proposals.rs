//! What models ask agents to do: the tool calls of their answers, before the agent sees them.
//!
//! A call of a tool that the gate runs is remembered: the agent's own call of that tool is then
//! *observed*, because the gate saw the model ask for exactly it. A call of a tool that the agent
//! runs itself is judged here, as a call of the tool `client.<name>`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::Road;
use super::answer::{Answer, Fault};
use super::follow::AnswerProgress;
use super::run::Run;
use crate::catalog::llm::ask::{self, EarlierCall};
use crate::domain::call::ToolCall;
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ToolName};
use crate::domain::json::{Json, Limits};
use crate::domain::outcome::StreamSeen;
use crate::domain::tier::Face;
use crate::ledger::drafts::DraftWithPayloads;
use crate::ledger::flow::{Clearance, Cleared, DeniedProposal, FlowKeeper, ProposedCall};
use crate::record::Draft;
use crate::record::call::CallProgress;
use crate::tool::client;

/// Proposals of one run that no call has used yet.
const UNSPENT_MAX: usize = 128;
/// Denied proposals of one run whose next request is made whole again.
const DENIED_MAX: usize = 128;
/// Bytes of their texts: the arguments of one may have a MiB.
const DENIED_BYTES_MAX: usize = 4 << 20;
/// How long a proposal stands.
const STANDS: Duration = Duration::from_secs(15 * 60);

/// What an offered tool is to the gate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Offered {
    /// A granted tool, which the gate runs.
    Governed(ToolName),
    /// A tool of the manifest that the agent runs itself.
    Client,
    /// Neither.
    Unknown,
}

/// What the models of one run asked for.
#[derive(Debug, Default)]
pub(super) struct RunProposals {
    unspent: VecDeque<Unspent>,
    denied: VecDeque<DeniedAsk>,
    /// Bytes of the texts of these.
    denied_bytes: usize,
    /// Tool calls that waited for an approver when their answer ended, by tool and arguments. A run
    /// has few held calls.
    held: BTreeMap<Digest, CallId>,
}

#[derive(Debug)]
struct Unspent {
    /// The tool and its arguments.
    likeness: Digest,
    by: CallId,
    until: Duration,
}

/// A tool call that was denied: what the model asked for, and what it is to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DeniedAsk {
    pub id: String,
    pub name: String,
    pub arguments: String,
    pub custom: bool,
    pub words: String,
}

impl DeniedAsk {
    fn bytes(&self) -> usize {
        let texts = [&self.id, &self.name, &self.arguments, &self.words];
        texts.iter().fold(0, |sum, text| text.len().saturating_add(sum))
    }

    /// Whether the conversation has another call under this id. Some providers give an id twice, to
    /// calls of several conversations or answers. WHY by the name: the agent was shown a name of the
    /// gate's in place of that of the denied call.
    pub fn is_another(&self, calls: &[EarlierCall]) -> bool {
        calls.iter().any(|call| call.id == self.id && call.name == self.name)
    }
}

impl RunProposals {
    fn remember(&mut self, likeness: Digest, by: &CallId, now: Duration) {
        if self.unspent.len() >= UNSPENT_MAX {
            self.unspent.pop_front();
        }
        let until = now.saturating_add(STANDS);
        self.unspent.push_back(Unspent { likeness, by: by.clone(), until });
    }

    /// Spends the proposal of this tool with these arguments.
    pub fn spend(&mut self, likeness: &Digest, now: Duration) -> Option<CallId> {
        self.unspent.retain(|one| one.until > now);
        let at = self.unspent.iter().position(|one| one.likeness == *likeness)?;
        self.unspent.remove(at).map(|one| one.by)
    }

    /// Forgets what this call of a model asked for: its answer has no end.
    pub fn forget(&mut self, by: &CallId) {
        self.unspent.retain(|one| one.by != *by);
    }

    /// Forgets what models asked for: the gate no longer knows who asks.
    pub fn lose_sight(&mut self) {
        self.unspent.clear();
    }

    /// The call of this tool with these arguments that waited for an approver; it is asked for once.
    pub fn waited(&mut self, like: &Digest) -> Option<CallId> {
        self.held.remove(like)
    }

    /// Remembers a call that waits for an approver.
    pub fn waits(&mut self, like: Digest, call: &CallId) {
        self.held.insert(like, call.clone());
    }

    pub fn deny(&mut self, ask: DeniedAsk) {
        // WHY not without an id: every other call without one would count as this one.
        if ask.id.is_empty() {
            return;
        }
        self.denied_bytes = self.denied_bytes.saturating_add(ask.bytes());
        self.denied.push_back(ask);
        while self.denied.len() > DENIED_MAX
            || self.denied.len() > 1 && self.denied_bytes > DENIED_BYTES_MAX
        {
            let Some(oldest) = self.denied.pop_front() else { break };
            self.denied_bytes = self.denied_bytes.saturating_sub(oldest.bytes());
        }
    }

    /// What the model asked for under this id, if that was denied.
    pub fn denied(&self, id: &str) -> Option<&DeniedAsk> {
        self.denied.iter().rev().find(|ask| ask.id == id)
    }
}

/// The road, for the answer of one call of a model.
pub(super) struct AnswerKeeper {
    pub road: Arc<Road>,
    pub run: Arc<Run>,
    /// The call of the model.
    pub call: CallId,
    pub tool: ToolName,
    pub traceparent: Option<String>,
    /// What was offered, by name.
    pub offered: BTreeMap<String, Offered>,
    /// Whether the model and the instructions of the request are those of the manifest.
    pub is_seen: bool,
    /// How long a tool call waits for an approver.
    pub hold_wait: Duration,
    /// Whether the gate itself makes the tool calls. Then none of them leaves.
    pub is_managed: bool,
}

#[async_trait]
impl FlowKeeper for AnswerKeeper {
    async fn propose(&self, calls: Vec<ProposedCall>) -> Vec<Clearance> {
        join_all(calls.into_iter().map(|call| self.one(call))).await
    }

    fn progress(&self, seen: StreamSeen) -> oneshot::Receiver<()> {
        let draft = Draft {
            run: Some(*self.run.id()),
            call: Some(self.call.clone()),
            tool: Some(self.tool.clone()),
            ..Draft::of(CallProgress::of(&seen))
        };
        let (recorded, recording) = oneshot::channel();
        if let Ok(pending) = self.road.ledger.submit_event(DraftWithPayloads::bare(draft)) {
            let (run, call) = (Arc::clone(&self.run), self.call.clone());
            self.road.tasks.spawn(async move {
                let Ok(receipt) = pending.wait().await else { return };
                let StreamSeen { bytes, pieces, .. } = seen;
                run.progressed(&call, AnswerProgress { bytes, pieces, receipt });
                let _ = recorded.send(());
            });
        }
        recording
    }

    fn keeps(&self) -> bool {
        self.run.keeping.keeps_streams()
    }

    fn now(&self) -> Duration {
        self.road.clock.monotonic()
    }

    fn is_awaited(&self) -> bool {
        self.run.is_awaited(&self.call)
    }
}

impl AnswerKeeper {
    async fn one(&self, asked: ProposedCall) -> Clearance {
        let offered = self.offered.get(&asked.name).unwrap_or(&Offered::Unknown);
        if let Offered::Governed(tool) = offered {
            self.remember(tool, &asked);
            return Clearance::Allowed(Cleared::of(None));
        }
        // WHY: the loop makes this call too, and the road denies it there.
        if self.is_managed {
            return Clearance::Allowed(Cleared::of(None));
        }
        let answer = self.judged(&asked).await;
        match answer {
            Ok(released) => {
                let text = String::from_utf8_lossy(released.result()).into_owned();
                let other = (text != asked.arguments).then_some(text);
                Clearance::Allowed(Cleared::of(other))
            }
            Err(fault) if fault.receipt.is_some() => {
                let denied = denied(&fault);
                self.road.metrics.proposal_denied(&client::road_name(&asked.name));
                let ProposedCall { id, name, arguments, custom, .. } = asked;
                let words = denied.message.clone();
                // The agent shows the denial again, which names the proposal.
                let proposal = denied.call.as_ref().filter(|_| id.is_empty());
                let id = proposal.map_or(id, |call| ask::unnamed_denial(call.as_str()));
                let ask = DeniedAsk { id, name, arguments, custom, words };
                self.run.models.proposals.lock().deny(ask);
                Clearance::Denied(denied)
            }
            Err(_undecided) => Clearance::Undecided,
        }
    }

    /// Remembers a call that the agent is to make at the gate.
    fn remember(&self, tool: &ToolName, asked: &ProposedCall) {
        // The agent's call is compared by value. One that is no strict JSON cannot come.
        let likeness = self
            .parsed(tool.as_str(), asked, &self.call, asked.arguments.as_bytes())
            .map(|call| self.road.runs.fingerprint(&call));
        let said = (asked.arguments.as_str(), likeness);
        let forgotten = self.road.runs.forgotten(&self.run.opener.name);
        let id = match asked.id.as_str() {
            "" => ask::unnamed_call(&asked.name, &asked.arguments),
            given => given.to_owned(),
        };
        self.run.models.governed.lock().ask(&id, tool, said, forgotten);
        if let Some(likeness) = likeness.filter(|_| self.is_seen) {
            self.run.models.proposals.lock().remember(likeness, &self.call, self.now());
        }
    }

    fn parsed(
        &self,
        tool: &str,
        asked: &ProposedCall,
        id: &CallId,
        arguments: &[u8],
    ) -> Option<ToolCall> {
        let asking = self.run.origin(id.clone(), self.traceparent.clone());
        let call = ToolCall::parse(asking, tool, arguments).ok()?;
        Some(call.proposed(self.call.clone(), asked.index).at(Some(Face::Llm)))
    }

    /// Takes a tool call down the road, and waits for an approver for a while. The same that was held
    /// before is asked for, not made again: its answer is given once.
    async fn judged(&self, asked: &ProposedCall) -> Answer {
        let (road, run) = (&self.road, &self.run);
        let tool = client::road_name(&asked.name);
        let (arguments, refusals) = arguments(&asked.arguments);
        let like = Digest::of(&[tool.as_bytes(), b"\0", &arguments]);
        let waits = run.models.proposals.lock().waited(&like);
        let waits = match waits {
            Some(waits) => Some(waits),
            None => road.held_like(run, &tool, &arguments).await?,
        };
        let (id, answer) = match waits {
            Some(waits) => (waits, None),
            None => {
                let id = self.id_of(asked, &tool, &arguments)?;
                let call = self.parsed(&tool, asked, &id, &arguments);
                let call = call.ok_or_else(|| Fault::of(Code::RequestMalformed))?;
                let seen = self.is_seen.then(|| self.call.clone());
                (id, Some(Box::pin(road.walk_proposal(run, call, (refusals, seen))).await))
            }
        };
        let answer = match answer {
            Some(answer) if !answer.as_ref().is_err_and(is_held) => answer,
            Some(_) | None => Box::pin(road.call_within(run, id.as_str(), self.hold_wait)).await,
        };
        if answer.as_ref().is_err_and(is_held) {
            run.models.proposals.lock().waits(like, &id);
        }
        answer
    }

    /// An id that follows from the call of the model, if it has room for that.
    fn id_of(&self, asked: &ProposedCall, tool: &str, arguments: &[u8]) -> Result<CallId, Fault> {
        let derived = client::proposal_id(&self.call, asked.index);
        let minted = || CallId::parse(&self.road.minted_id(&self.run, tool, arguments));
        derived.or_else(minted).ok_or_else(|| Fault::of(Code::RequestMalformed))
    }
}

pub(super) fn is_held(fault: &Fault) -> bool {
    fault.code == Code::CallHeld
}

/// The arguments as the road takes them. Those that no tool could take are named by their hash, and
/// refused.
pub(super) fn arguments(text: &str) -> (Vec<u8>, Vec<LayerReason>) {
    let bytes = text.as_bytes();
    let wrong = match Json::parse(bytes, &Limits::ARGUMENTS) {
        Ok(args) if args.as_object().is_some() => return (bytes.to_vec(), Vec::new()),
        Ok(_) => "the arguments are no JSON object".to_owned(),
        Err(error) => format!("the arguments are no strict JSON: {error}"),
    };
    let reason = LayerReason {
        code: Code::ArgumentsInvalid,
        detail: "arguments.json".to_owned(),
        message: wrong,
        rule: "proposal".to_owned(),
    };
    let named = [("unreadable_sha256", Json::from(Digest::of(&[bytes]).hex()))];
    (crate::domain::canonical::bytes(&Json::object(named)), vec![reason])
}

/// The denial, as the agent and its model read it.
fn denied(fault: &Fault) -> DeniedProposal {
    let code = fault.code;
    let message = if code == Code::CallHeld {
        format!("{}; ask for exactly the same again later", fault.message)
    } else {
        fault.tool_text()
    };
    let rule = fault.reasons.first().map(|reason| reason.rule.clone()).unwrap_or_default();
    DeniedProposal { code, rule, message, call: fault.call.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposal_is_spent_once_and_ends_with_its_time() {
        let mut asked = RunProposals::default();
        let (like, by) = (Digest::of(&[b"a"]), CallId::parse("m").unwrap());
        asked.remember(like, &by, Duration::ZERO);
        assert_eq!(asked.spend(&Digest::of(&[b"b"]), Duration::ZERO), None);
        assert_eq!(asked.spend(&like, Duration::ZERO), Some(by.clone()));
        assert_eq!(asked.spend(&like, Duration::ZERO), None);
        asked.remember(like, &by, Duration::ZERO);
        assert_eq!(asked.spend(&like, STANDS), None);
        let other = CallId::parse("n").unwrap();
        asked.remember(like, &by, Duration::ZERO);
        asked.remember(like, &other, Duration::ZERO);
        asked.forget(&by);
        assert_eq!(asked.spend(&like, Duration::ZERO), Some(other));
        assert_eq!(asked.spend(&like, Duration::ZERO), None);
        asked.remember(like, &by, Duration::ZERO);
        asked.lose_sight();
        assert_eq!(asked.spend(&like, Duration::ZERO), None);
    }

    fn denied_ask(id: &str, arguments: String) -> DeniedAsk {
        let (name, words) = ("Bash".to_owned(), "no".to_owned());
        DeniedAsk { id: id.to_owned(), name, arguments, custom: false, words }
    }

    #[test]
    fn what_is_remembered_of_denied_calls_is_bounded_in_number_and_in_bytes() {
        let mut asked = RunProposals::default();
        for n in 0..=DENIED_MAX {
            asked.deny(denied_ask(&n.to_string(), "{}".to_owned()));
        }
        assert!(asked.denied("0").is_none());
        assert!(asked.denied("1").is_some());
        for n in 0..8 {
            asked.deny(denied_ask(&format!("long {n}"), "x".repeat(1 << 20)));
        }
        assert!(asked.denied_bytes <= DENIED_BYTES_MAX);
        let bytes = asked.denied.iter().map(DeniedAsk::bytes).sum::<usize>();
        assert_eq!((asked.denied.len(), asked.denied_bytes), (3, bytes));
        asked.deny(denied_ask("huge", "x".repeat(8 << 20)));
        assert!(asked.denied("huge").is_some());
        assert_eq!(asked.denied.len(), 1);
        asked.deny(denied_ask("", "{}".to_owned()));
        assert!(asked.denied("").is_none());
    }

    #[test]
    fn a_call_of_the_same_id_and_name_is_another_one() {
        let call = |id: &str, name: &str| EarlierCall {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: "{}".to_owned(),
        };
        let denied = denied_ask("c1", "{}".to_owned());
        assert!(!denied.is_another(&[]));
        assert!(!denied.is_another(&[call("c1", "wicketgate_denied"), call("c2", "Bash")]));
        assert!(!denied.is_another(&[call("c1", "invalid")]));
        assert!(denied.is_another(&[call("c1", "wicketgate_denied"), call("c1", "Bash")]));
    }

    #[test]
    fn arguments_that_are_no_object_of_strict_json_are_refused_and_named_by_their_hash() {
        let of = arguments;
        assert_eq!(of("{}"), (b"{}".to_vec(), Vec::new()));
        for text in ["", "[]", "{\"a\":1,\"a\":2}", "{\"a\":"] {
            let (args, reasons) = of(text);
            assert!(Json::parse(&args, &Limits::ARGUMENTS).unwrap().as_object().is_some());
            assert_eq!(reasons.first().map(|reason| reason.code), Some(Code::ArgumentsInvalid));
        }
    }
}
