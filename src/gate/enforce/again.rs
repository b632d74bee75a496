//! Recognises a retry that a client sends under a new call id. If the tool's binding sets
//! `dedupe_ms`, an identical call within that window is answered as the first call and does not run
//! again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Road;
use super::run::{Run, RunState};
use crate::domain::call::ToolCall;
use crate::domain::digest::Digest;
use crate::domain::id::CallId;
use crate::domain::outcome::Outcome;

/// Alias ids remembered per run. Beyond this bound an unknown id starts a call of its own.
const IDS_MAX: usize = 4096;

/// The recent calls of one run, and the alias ids that were answered as one of them.
#[derive(Debug, Default)]
pub(super) struct RepeatWindow {
    /// The latest call with this tool and these arguments, and when it began (monotonic).
    recent: BTreeMap<Digest, (CallId, Duration)>,
    /// Alias id to the call it was answered as.
    ids: BTreeMap<CallId, CallId>,
}

impl RepeatWindow {
    /// Records a call that begins, so that a retry under another id can be matched to it.
    pub fn note(&mut self, fingerprint: Digest, call: &CallId, now: Duration) {
        self.recent.insert(fingerprint, (call.clone(), now));
    }

    /// The earlier call that an unseen id repeats, if there is one within the window.
    fn first(
        &mut self,
        call: &CallId,
        (fingerprint, window): (Digest, Option<Duration>),
        now: Duration,
    ) -> Option<CallId> {
        if let Some(first) = self.ids.get(call) {
            return Some(first.clone());
        }
        let (first, since) = self.recent.get(&fingerprint)?;
        if now.saturating_sub(*since) >= window? || self.ids.len() >= IDS_MAX {
            return None;
        }
        self.ids.insert(call.clone(), first.clone());
        Some(first.clone())
    }

    /// Stops matching retries to this call, because it never ran. Aliases already handed out stay.
    pub fn forget(&mut self, call: &CallId) {
        self.recent.retain(|_, (first, _)| first != call);
    }
}

impl RunState {
    /// The id to use for this request: that of the earlier call if the request repeats one.
    pub fn first(
        &mut self,
        call: &CallId,
        asked: (Digest, Option<Duration>),
        now: Duration,
    ) -> CallId {
        let Self { calls, again, .. } = self;
        let first = if calls.contains_key(call) { None } else { again.first(call, asked, now) };
        // WHY: an earlier call that left no trace gives no answer, so its aliases become free
        // again.
        first.filter(|first| calls.contains_key(first)).unwrap_or_else(|| call.clone())
    }

    /// The call that this id was answered as.
    pub fn known(&self, call: CallId) -> CallId {
        let first = if self.calls.contains_key(&call) { None } else { self.again.ids.get(&call) };
        first.cloned().unwrap_or(call)
    }
}

impl Run {
    /// Forgets a call that reached no tool, so that a retry under another id runs by itself.
    pub(super) fn not_again(&self, call: &CallId, outcome: &Outcome) {
        let ran = match outcome {
            Outcome::Completed { .. } | Outcome::Unknown { .. } => true,
            Outcome::Failed { started, .. } => *started,
            Outcome::Cancelled { .. } => false,
        };
        if !ran {
            self.state.lock().again.forget(call);
        }
    }
}

impl Road {
    /// How long retries of this call may arrive under other ids. WHY never in an incognito run: its
    /// results are not kept, so there would be no answer to give again.
    pub(super) fn dedupe(&self, run: &Run, call: &ToolCall) -> Option<Duration> {
        let window = self.in_force.toolbox().get(call.tool()).and_then(|tool| tool.facts.dedupe);
        window.filter(|_| !run.incognito)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(5);

    fn id(text: &str) -> CallId {
        CallId::parse(text).unwrap()
    }

    #[test]
    fn another_id_is_the_first_call_within_the_window_and_stays_it() {
        let (mut again, like) = (RepeatWindow::default(), Digest::of(&[b"work.do {}"]));
        let at = Duration::from_secs;
        again.note(like, &id("a"), at(10));
        assert_eq!(again.first(&id("b"), (like, Some(WINDOW)), at(14)), Some(id("a")));
        assert_eq!(again.first(&id("c"), (like, Some(WINDOW)), at(15)), None);
        assert_eq!(again.first(&id("b"), (like, Some(WINDOW)), at(99)), Some(id("a")));
        let other = Digest::of(&[b"work.do {\"n\":1}"]);
        assert_eq!(again.first(&id("d"), (other, Some(WINDOW)), at(11)), None);
        assert_eq!(again.first(&id("d"), (like, None), at(11)), None);
        again.forget(&id("a"));
        assert_eq!(again.first(&id("d"), (like, Some(WINDOW)), at(11)), None);
        assert_eq!(again.first(&id("b"), (like, Some(WINDOW)), at(11)), Some(id("a")));
    }

    #[test]
    fn no_run_remembers_more_than_its_share_of_ids() {
        let (mut again, like) = (RepeatWindow::default(), Digest::of(&[b"work.do {}"]));
        again.note(like, &id("a"), Duration::ZERO);
        for n in 0..IDS_MAX {
            let asked = (like, Some(WINDOW));
            assert_eq!(again.first(&id(&format!("i{n}")), asked, Duration::ZERO), Some(id("a")));
        }
        assert_eq!(again.first(&id("more"), (like, Some(WINDOW)), Duration::ZERO), None);
    }
}
