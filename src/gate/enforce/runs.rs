//! All runs that this process may continue, by token, by thread of work and by id.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::Parts;
use super::answer::Fault;
use super::conversations::RunConversations;
use super::implicit::Threads;
use super::large::Large;
use super::run::Run;
use super::taint::TaintOfCallers;
use crate::clock::random32;
use crate::domain::call::{CallerAuth, ToolCall};
use crate::domain::code::Code;
use crate::domain::digest::{Digest, Salt};
use crate::domain::id::{RunId, ToolName};
use crate::identity::token::RunTokens;
use crate::limits::shares::{Shares, TakenShares};
use crate::taint::Marker;

/// Sealed runs that stay known, so that a late call receives `run.sealed`, and a late question the
/// answer of its call.
const SEALED_KEPT: usize = 512;
/// The calls of these runs, all together, unless the last run alone has more.
const SEALED_CALLS_KEPT: usize = 16_384;

/// All runs that this process may continue.
#[derive(Debug)]
pub(super) struct Runs {
    pub tokens: Arc<RunTokens>,
    by_token: RwLock<BTreeMap<Digest, Arc<Run>>>,
    /// The last run of each thread of work, unless it is sealed.
    by_thread: RwLock<BTreeMap<Digest, Arc<Run>>>,
    sealed: Mutex<SealedRuns>,
    /// How many runs of each agent were forgotten that had calls which account for no result: whether a
    /// tool call of an answer came to the gate in one of them is unknown.
    forgotten: Mutex<BTreeMap<String, u64>>,
    pub threads: Threads,
    /// The limit of open runs, shared between agents.
    pub places: Arc<Shares>,
    /// The limit of calls on the road, shared between agents, and that of requests in a dialect, which
    /// last for minutes and must not keep the calls of tools waiting.
    slots: Arc<Shares>,
    model_slots: Arc<Shares>,
    pub large: Large,
    /// Marks what runs read, under a key of this process.
    pub marker: Marker,
    pub taint: TaintOfCallers,
    /// Salts the fingerprints of arguments, so that they cannot be guessed outside this process.
    salt: Salt,
}

/// Sealed runs, the oldest first.
#[derive(Debug, Default)]
struct SealedRuns {
    /// The token of each, and how many calls it has.
    tokens: VecDeque<(Digest, usize)>,
    calls: usize,
}

impl SealedRuns {
    /// Keeps one more, and returns those that are forgotten for it.
    fn keep(&mut self, token: Digest, calls: usize) -> Vec<Digest> {
        self.tokens.push_back((token, calls));
        self.calls = self.calls.saturating_add(calls);
        let mut forgotten = Vec::new();
        while self.tokens.len() > SEALED_KEPT
            || self.tokens.len() > 1 && self.calls > SEALED_CALLS_KEPT
        {
            let Some((oldest, calls)) = self.tokens.pop_front() else { break };
            self.calls = self.calls.saturating_sub(calls);
            forgotten.push(oldest);
        }
        forgotten
    }
}

impl Runs {
    /// Starts without any run.
    pub fn new(parts: &Parts) -> Self {
        let settings = &parts.settings;
        let salt: Salt = random32(&*parts.entropy);
        Self {
            tokens: Arc::clone(&parts.tokens),
            by_token: RwLock::default(),
            by_thread: RwLock::default(),
            sealed: Mutex::default(),
            forgotten: Mutex::default(),
            threads: Threads::default(),
            places: Shares::new(settings.open_runs_max),
            slots: Shares::new(settings.in_flight_max),
            model_slots: Shares::new(settings.model_streams_max),
            large: Large::default(),
            marker: Marker::new(&salt),
            taint: TaintOfCallers::default(),
            salt,
        }
    }

    /// The places on the road for calls like this one.
    pub fn slots(&self, call: &ToolCall) -> &Arc<Shares> {
        if call.dialect().is_some() { &self.model_slots } else { &self.slots }
    }

    /// Calls on the road.
    pub fn on_road(&self) -> usize {
        self.slots.taken().saturating_add(self.model_slots.taken())
    }

    /// Identifies tool and arguments, within this process only.
    pub fn fingerprint(&self, call: &ToolCall) -> Digest {
        self.fingerprint_of(call.tool(), call.canonical())
    }

    /// The same for a tool and canonical arguments.
    pub fn fingerprint_of(&self, tool: &ToolName, args: &[u8]) -> Digest {
        Digest::of(&[&self.salt, tool.as_str().as_bytes(), &[0], args])
    }

    pub fn insert(&self, run: &Arc<Run>) {
        self.by_token.write().insert(run.token, Arc::clone(run));
        if let Some(thread) = run.thread {
            self.by_thread.write().insert(thread, Arc::clone(run));
        }
    }

    pub fn len(&self) -> usize {
        // WHY: one lock after the other, never both: `sealed` takes them in the opposite order.
        let known = self.by_token.read().len();
        known.saturating_sub(self.sealed.lock().tokens.len())
    }

    /// The run of this token, if it [admits](Auth::admits) this peer.
    pub fn find(&self, token: &Digest, peer: &CallerAuth) -> Result<Arc<Run>, Fault> {
        let unknown = || Fault::of(Code::RunUnknown);
        let run = self.by_token.read().get(token).cloned().ok_or_else(unknown)?;
        if !run.auth.admits(peer) {
            return Err(unknown());
        }
        Ok(run)
    }

    /// The last run of this thread, if it is not sealed yet.
    pub fn of_thread(&self, thread: &Digest) -> Option<Arc<Run>> {
        self.by_thread.read().get(thread).cloned()
    }

    /// Every known run, including those being sealed and those sealed recently.
    pub fn all(&self) -> Vec<Arc<Run>> {
        self.by_token.read().values().cloned().collect()
    }

    pub fn open(&self) -> Vec<Arc<Run>> {
        self.by_token.read().values().filter(|run| !run.is_over()).cloned().collect()
    }

    /// The open run with this id, if this process has it.
    pub fn of_id(&self, id: &RunId) -> Option<Arc<Run>> {
        self.by_token.read().values().find(|run| run.id == *id && !run.is_over()).cloned()
    }

    /// The number of held calls per agent.
    pub fn held_by(&self) -> TakenShares {
        let mut taken = TakenShares::new();
        for run in self.open() {
            let held = run.state.lock().held;
            if held > 0 {
                let all = taken.entry(run.opener.name.clone()).or_default();
                *all = all.saturating_add(held);
            }
        }
        taken
    }

    /// The number of held calls in all open runs.
    pub fn held(&self) -> usize {
        self.open().iter().map(|run| run.state.lock().held).sum()
    }

    /// Keeps a sealed run known, and drops the oldest sealed run beyond the limit.
    pub fn sealed(&self, run: &Run) {
        run.state.lock().place = None;
        // It says nothing to a model any more.
        *run.models.conversations.lock() = RunConversations::default();
        if let Some(thread) = run.thread {
            let mut threads = self.by_thread.write();
            // A newer run may have taken its place in the thread already.
            if threads.get(&thread).is_some_and(|last| last.id == run.id) {
                threads.remove(&thread);
            }
        }
        let calls = run.state.lock().calls.len();
        let forgotten = self.sealed.lock().keep(run.token, calls);
        let mut by_token = self.by_token.write();
        let forgotten: Vec<Arc<Run>> =
            forgotten.iter().filter_map(|oldest| by_token.remove(oldest)).collect();
        drop(by_token);
        for run in forgotten.iter().filter(|run| run.models.governed.lock().has_spare()) {
            let mut all = self.forgotten.lock();
            let of_agent = all.entry(run.opener.name.clone()).or_default();
            *of_agent = of_agent.saturating_add(1);
        }
    }

    /// How many runs of this agent were forgotten with calls that account for no result.
    pub fn forgotten(&self, agent: &str) -> u64 {
        self.forgotten.lock().get(agent).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_runs_are_kept_by_their_number_and_by_the_number_of_their_calls() {
        let token = |n: usize| Digest::of(&[&n.to_be_bytes()]);
        let mut sealed = SealedRuns::default();
        for n in 0..SEALED_KEPT {
            assert_eq!(sealed.keep(token(n), 1), []);
        }
        assert_eq!(sealed.keep(token(SEALED_KEPT), 1), [token(0)]);
        let rest = sealed.keep(token(1000), SEALED_CALLS_KEPT - 1);
        assert_eq!(rest.len(), SEALED_KEPT - 1, "one other run of one call may stay");
        assert_eq!(sealed.keep(token(1001), SEALED_CALLS_KEPT * 2).len(), 2);
        assert_eq!(sealed.tokens, [(token(1001), SEALED_CALLS_KEPT * 2)], "the last one stays");
        assert_eq!(sealed.keep(token(1002), 0), [token(1001)]);
        assert_eq!(sealed.calls, 0);
    }
}
