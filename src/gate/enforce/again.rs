//! The same call under another id, soon after: clients that send a request again under a new id. Where the tool's
//! binding says for how long, it is the first call, asked for again; see `dedupe_ms`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Road;
use super::run::{Run, RunState};
use crate::domain::call::ToolCall;
use crate::domain::digest::Digest;
use crate::domain::id::CallId;
use crate::domain::outcome::Outcome;

/// Other ids of one run that are remembered; what has one more is a call of its own.
const IDS_MAX: usize = 4096;

/// The calls of one run that another id may be, and the ids that are.
#[derive(Debug, Default)]
pub(super) struct RepeatWindow {
    /// By tool and arguments, and when they were asked for; monotonic.
    recent: BTreeMap<Digest, (CallId, Duration)>,
    /// What an id that was answered as another is from then on.
    ids: BTreeMap<CallId, CallId>,
}

impl RepeatWindow {
    /// A call that begins, and may be asked for under other ids.
    pub fn note(&mut self, fingerprint: Digest, call: &CallId, now: Duration) {
        self.recent.insert(fingerprint, (call.clone(), now));
    }

    /// The call that an id that nobody asked for yet is.
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

    /// No other id is this call from now on: it did not run. Those that are stay so.
    pub fn forget(&mut self, call: &CallId) {
        self.recent.retain(|_, (first, _)| first != call);
    }
}

impl RunState {
    /// The call that is asked for under this id: another one, if this is that one again.
    pub fn first(
        &mut self,
        call: &CallId,
        asked: (Digest, Option<Duration>),
        now: Duration,
    ) -> CallId {
        let Self { calls, again, .. } = self;
        let first = if calls.contains_key(call) { None } else { again.first(call, asked, now) };
        // WHY: one that left no trace is none, and its other ids are free again too.
        first.filter(|first| calls.contains_key(first)).unwrap_or_else(|| call.clone())
    }

    /// The call that this id was answered as.
    pub fn known(&self, call: CallId) -> CallId {
        let first = if self.calls.contains_key(&call) { None } else { self.again.ids.get(&call) };
        first.cloned().unwrap_or(call)
    }
}

impl Run {
    /// A call that reached no tool is nobody's answer but its own.
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
    /// How long this call may be asked for under other ids. WHY never in an incognito run: its results are not
    /// kept, so that there would be no answer to give again.
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
