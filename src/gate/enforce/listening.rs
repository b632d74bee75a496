//! The requests that wait for the answer of one call: the one that makes it, and those that repeat it
//! while it is on the road.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::run::{CallOnRoad, CallStage, PendingAnswer, Run};
use crate::domain::id::CallId;

/// One request that waits for the answer of a call. It is counted until it is dropped.
pub(super) struct Listening {
    answer: PendingAnswer,
    /// All that wait for this call.
    listeners: Arc<AtomicUsize>,
    /// What to do if it leaves without an answer, as the last one.
    left: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl CallOnRoad {
    /// One more request waits for the answer.
    pub fn listen(&self) -> Listening {
        let listeners = Arc::clone(&self.listeners);
        listeners.fetch_add(1, Ordering::SeqCst);
        Listening { answer: self.answer.clone(), listeners, left: None }
    }
}

impl Listening {
    /// What becomes of the call if this request leaves and no other waits for the answer. Without it
    /// the call goes on.
    pub fn on_leaving(&mut self, left: impl FnOnce() + Send + Sync + 'static) {
        self.left = Some(Box::new(left));
    }

    /// The answer to wait for.
    pub fn answer(&self) -> PendingAnswer {
        self.answer.clone()
    }

    /// The answer is there.
    pub fn end(mut self) {
        self.left = None;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let was_last = self.listeners.fetch_sub(1, Ordering::SeqCst) == 1;
        if let Some(left) = self.left.take().filter(|_| was_last) {
            left();
        }
    }
}

/// The place of a client that waited for an approver among all that wait for the answer. Clones are the
/// same place.
#[derive(Clone, Default)]
pub(super) struct ClientPlace(Arc<Mutex<Option<Listening>>>);

crate::record::debug_by!(ClientPlace);

impl ClientPlace {
    /// The call is on the road again: the client counts from here on.
    pub fn keep(&self, listening: Option<Listening>) {
        *self.0.lock() = listening;
    }

    /// The client counts no more.
    pub fn leave(&self) {
        drop(self.0.lock().take());
    }
}

impl Run {
    /// One request waits for the answer of this call, if the call is on the road.
    pub(super) fn listen(&self, call: &CallId) -> Option<Listening> {
        match self.state.lock().calls.get(call) {
            Some(CallStage::OnRoad(at)) => Some(at.listen()),
            Some(CallStage::Held | CallStage::Booked | CallStage::Doubted) | None => None,
        }
    }

    /// Whether a request waits for the answer of this call.
    pub(super) fn is_awaited(&self, call: &CallId) -> bool {
        match self.state.lock().calls.get(call) {
            Some(CallStage::OnRoad(at)) => at.listeners.load(Ordering::SeqCst) > 0,
            Some(CallStage::Held | CallStage::Booked | CallStage::Doubted) | None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use tokio::sync::watch;

    use super::*;
    use crate::domain::digest::Digest;
    use crate::domain::id::ToolName;
    use crate::tool::Cancel;

    fn on_road() -> CallOnRoad {
        let (_, answer) = watch::channel(None);
        let (alike, tool) = (Digest::of(&[b"a"]), ToolName::parse("llm.main").unwrap());
        match CallStage::on_road((alike, alike), tool, answer, &Cancel::default()) {
            CallStage::OnRoad(at) => *at,
            CallStage::Held | CallStage::Booked | CallStage::Doubted => panic!("it is on the road"),
        }
    }

    fn ending(at: &CallOnRoad, left: &Arc<AtomicBool>) -> Listening {
        let (mut listening, left) = (at.listen(), Arc::clone(left));
        listening.on_leaving(move || left.store(true, Ordering::SeqCst));
        listening
    }

    #[test]
    fn only_the_last_request_that_leaves_ends_the_call() {
        let (at, left) = (on_road(), Arc::new(AtomicBool::new(false)));
        let is_left = || left.load(Ordering::SeqCst);
        let (first, joined) = (ending(&at, &left), ending(&at, &left));
        drop(joined);
        assert!(!is_left());
        let joined = ending(&at, &left);
        drop(first);
        assert!(!is_left());
        drop(joined);
        assert!(is_left());
    }

    #[test]
    fn a_client_that_waited_for_an_approver_counts_until_it_leaves() {
        let (at, left) = (on_road(), Arc::new(AtomicBool::new(false)));
        let place = ClientPlace::default();
        place.keep(Some(at.listen()));
        drop(ending(&at, &left));
        assert!(!left.load(Ordering::SeqCst));
        place.leave();
        drop(ending(&at, &left));
        assert!(left.load(Ordering::SeqCst));
    }

    #[test]
    fn a_request_that_has_its_answer_ends_nothing_and_one_that_only_waits_keeps_the_call() {
        let (at, left) = (on_road(), Arc::new(AtomicBool::new(false)));
        ending(&at, &left).end();
        let waits = at.listen();
        drop(ending(&at, &left));
        drop(waits);
        assert!(!left.load(Ordering::SeqCst));
    }
}
