//! Remembers held calls, so that an agent that repeats such a call asks about the first one.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

use crate::domain::digest::Digest;
use crate::domain::id::RunId;

/// Held calls that are remembered; the oldest are forgotten first.
const HOLDS_MAX: usize = 4096;

/// Identifies a call by its contents: its run, its tool and its arguments.
pub(super) type Key = (RunId, Digest);

/// Call ids of held calls.
#[derive(Debug, Default)]
pub(super) struct Holds {
    kept: Mutex<HeldReply>,
}

#[derive(Debug, Default)]
struct HeldReply {
    calls: BTreeMap<Key, String>,
    order: VecDeque<Key>,
}

impl Holds {
    /// The key of a call.
    pub(super) fn key(run: &RunId, tool: &str, canonical: &[u8]) -> Key {
        (*run, Digest::of(&[tool.as_bytes(), &[0], canonical]))
    }

    /// The id of the held call with this key, if there is one.
    pub(super) fn find(&self, key: &Key) -> Option<String> {
        self.kept.lock().calls.get(key).cloned()
    }

    /// Remembers a held call.
    pub(super) fn remember(&self, key: Key, call: &str) {
        let mut kept = self.kept.lock();
        let HeldReply { calls, order } = &mut *kept;
        if calls.insert(key, call.to_owned()).is_none() {
            order.push_back(key);
        }
        if order.len() > HOLDS_MAX
            && let Some(oldest) = order.pop_front()
        {
            calls.remove(&oldest);
        }
    }

    /// Forgets a call that is no longer held: the next one like it is a new call.
    pub(super) fn forget(&self, key: &Key) {
        let mut kept = self.kept.lock();
        if kept.calls.remove(key).is_some() {
            kept.order.retain(|other| other != key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_call_is_the_held_one_until_it_is_over() {
        let holds = Holds::default();
        let run = RunId::from_random([1; 16]);
        let key = Holds::key(&run, "a", b"{}");
        holds.remember(key, "first");
        holds.remember(key, "first");
        assert_eq!(holds.find(&key).as_deref(), Some("first"));
        assert_eq!(holds.find(&Holds::key(&run, "a", b"{\"x\":1}")), None);
        assert_eq!(holds.find(&Holds::key(&RunId::from_random([2; 16]), "a", b"{}")), None);
        holds.forget(&key);
        assert_eq!(holds.find(&key), None);
    }

    #[test]
    fn only_so_many_are_remembered() {
        let holds = Holds::default();
        let run = RunId::from_random([1; 16]);
        let key = |n: usize| Holds::key(&run, "a", n.to_string().as_bytes());
        for n in 0..=HOLDS_MAX {
            holds.remember(key(n), "c");
        }
        assert!(holds.find(&key(0)).is_none() && holds.find(&key(HOLDS_MAX)).is_some());
    }
}
