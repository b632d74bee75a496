//! The number of concurrent commands in the sandboxes of this gate, in all and per agent.
//!
//! Each command costs memory, processes and a processor of the host, so all runs share one limit.
//! Every agent has a share that no other agent can take; slots beyond the reserved shares are free
//! for any agent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Concurrent commands, unless the configuration sets another number.
pub const DEFAULT_MAX: u64 = 32;
/// How long a command waits for a slot before it fails as not started.
const WAIT: Duration = Duration::from_secs(5);

/// The slots for all commands of this gate.
#[derive(Debug)]
pub struct SandboxSlots {
    state: Mutex<SlotState>,
    freed: Notify,
}

#[derive(Debug)]
struct SlotState {
    most: usize,
    agents: usize,
    taken: BTreeMap<String, usize>,
}

impl Default for SandboxSlots {
    fn default() -> Self {
        let most = usize::try_from(DEFAULT_MAX).unwrap_or(usize::MAX);
        let state = SlotState { most, agents: 1, taken: BTreeMap::new() };
        Self { state: Mutex::new(state), freed: Notify::new() }
    }
}

impl SlotState {
    /// The share that is reserved for each agent.
    fn share(&self) -> usize {
        self.most.checked_div(self.agents).unwrap_or_default().max(1)
    }

    fn has_one_for(&self, agent: &str) -> bool {
        let (share, own) = (self.share(), self.taken.get(agent).copied().unwrap_or_default());
        let all: usize = self.taken.values().sum();
        if own < share {
            return all < self.most;
        }
        let others = self.taken.iter().filter(|(name, _)| *name != agent);
        let used: usize = others.map(|(_, taken)| (*taken).min(share)).sum();
        let kept = share.saturating_mul(self.agents.saturating_sub(1)).saturating_sub(used);
        all.saturating_add(kept) < self.most
    }
}

impl SandboxSlots {
    /// Sets the number of slots and of agents.
    pub fn resize(&self, most: u64, agents: usize) {
        let mut state = self.state.lock();
        state.most = usize::try_from(most).unwrap_or(usize::MAX).max(1);
        state.agents = agents.max(1);
        drop(state);
        self.freed.notify_waiters();
    }

    /// Takes a slot for this agent; waits a few seconds for one.
    ///
    /// # Errors
    /// The number of slots, if none became free.
    pub async fn take(self: &Arc<Self>, agent: &str) -> Result<SandboxSlot, usize> {
        let waiting = async {
            loop {
                let freed = self.freed.notified();
                tokio::pin!(freed);
                // Enabled before the check, so that a slot freed in between is not missed.
                freed.as_mut().enable();
                if let Some(place) = self.try_take(agent) {
                    return place;
                }
                freed.await;
            }
        };
        tokio::time::timeout(WAIT, waiting).await.map_err(|_late| self.state.lock().most)
    }

    fn try_take(self: &Arc<Self>, agent: &str) -> Option<SandboxSlot> {
        let mut state = self.state.lock();
        if !state.has_one_for(agent) {
            return None;
        }
        let taken = state.taken.entry(agent.to_owned()).or_default();
        *taken = taken.saturating_add(1);
        Some(SandboxSlot { places: Arc::clone(self), agent: agent.to_owned() })
    }
}

/// One slot. Dropping it frees it.
#[derive(Debug)]
pub struct SandboxSlot {
    places: Arc<SandboxSlots>,
    agent: String,
}

impl Drop for SandboxSlot {
    fn drop(&mut self) {
        let mut state = self.places.state.lock();
        if let Some(taken) = state.taken.get_mut(&self.agent) {
            *taken = taken.saturating_sub(1);
            if *taken == 0 {
                state.taken.remove(&self.agent);
            }
        }
        drop(state);
        self.places.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn places(most: u64, callers: usize) -> Arc<SandboxSlots> {
        let places = Arc::new(SandboxSlots::default());
        places.resize(most, callers);
        places
    }

    #[test]
    fn a_caller_alone_leaves_the_shares_of_the_others() {
        let places = places(8, 4);
        let held: Vec<_> = std::iter::from_fn(|| places.try_take("loud")).collect();
        assert_eq!(held.len(), 2, "3 others have 2 each");
        for other in ["a", "b", "c"] {
            let own: Vec<_> = std::iter::from_fn(|| places.try_take(other)).take(2).collect();
            assert_eq!(own.len(), 2, "{other}");
        }
    }

    #[test]
    fn one_place_is_taken_and_given_back() {
        let places = places(1, 1);
        let held = places.try_take("a").unwrap();
        assert!(places.try_take("a").is_none());
        drop(held);
        assert!(places.try_take("a").is_some());
        assert!(places.state.lock().taken.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_comes_free_goes_to_one_that_waits_and_none_waits_for_ever() {
        let places = places(1, 1);
        let held = places.take("a").await.unwrap();
        assert_eq!(places.take("b").await.unwrap_err(), 1);
        let waiting = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.take("b").await.is_ok() }
        });
        tokio::task::yield_now().await;
        drop(held);
        assert!(waiting.await.unwrap());
    }

    proptest! {
        #[test]
        fn the_bound_holds_and_a_share_is_always_there(
            most in 1_u64..40, callers in 1_usize..8, turns in prop::collection::vec((0_usize..8, any::<bool>()), 0..200),
        ) {
            let places = places(most, callers);
            let mut held: Vec<Vec<SandboxSlot>> = (0..callers).map(|_| Vec::new()).collect();
            for (who, takes) in turns {
                let who = who % callers;
                if takes {
                    held[who].extend(places.try_take(&who.to_string()));
                } else {
                    held[who].pop();
                }
                let all: usize = held.iter().map(Vec::len).sum();
                let most = usize::try_from(most).unwrap();
                prop_assert!(all <= most);
                let share = (most / callers).max(1);
                if callers <= most {
                    for (who, own) in held.iter().enumerate() {
                        prop_assert!(own.len() >= share || places.state.lock().has_one_for(&who.to_string()));
                    }
                }
            }
        }
    }
}
