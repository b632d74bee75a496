//! Fair shares: half of what a gate has is set aside in equal parts for its agents, the rest goes
//! to the first agents that ask. However much one agent takes, every other one still gets its part.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// How many places each agent has.
pub type TakenShares = BTreeMap<String, usize>;

/// Whether this agent may have one more place of so many, where so many agents are configured.
///
/// An agent with less than its part always may, even if others have more than theirs: a gate that
/// restarts with fewer places takes up the open runs.
#[must_use]
pub fn may(places: usize, agents: usize, taken: &TakenShares, who: &str) -> bool {
    let mine = taken.get(who).copied().unwrap_or_default();
    let others = || taken.iter().filter(|(name, _)| name.as_str() != who).map(|(_, has)| *has);
    let seen = others().count().saturating_add(1);
    let agents = agents.max(seen);
    let part = places.checked_div(agents.saturating_mul(2)).unwrap_or_default();
    if mine < part {
        return true;
    }
    let kept = others().map(|has| has.max(part)).fold(0, usize::saturating_add);
    let unseen = agents.saturating_sub(seen).saturating_mul(part);
    kept.saturating_add(unseen).saturating_add(mine) < places
}

/// Places, taken and given back.
#[derive(Debug)]
pub struct Shares {
    places: usize,
    taken: Mutex<TakenShares>,
    freed: Notify,
}

/// One place: dropping it gives it back.
#[derive(Debug)]
pub struct ShareSlot {
    shares: Arc<Shares>,
    who: String,
}

impl Shares {
    /// So many places.
    pub fn new(places: usize) -> Arc<Self> {
        Arc::new(Self { places, taken: Mutex::default(), freed: Notify::new() })
    }

    /// Places that are taken.
    pub fn taken(&self) -> usize {
        self.taken.lock().values().copied().fold(0, usize::saturating_add)
    }

    /// A place for this agent, one of so many; `None`: all of its places are taken.
    #[must_use]
    pub fn take(self: &Arc<Self>, agents: usize, who: &str) -> Option<ShareSlot> {
        let mut taken = self.taken.lock();
        may(self.places, agents, &taken, who).then(|| self.given(&mut taken, who))
    }

    /// A place for a call that runs already, whether one is free or not.
    #[must_use]
    pub fn keep(self: &Arc<Self>, who: &str) -> ShareSlot {
        self.given(&mut self.taken.lock(), who)
    }

    fn given(self: &Arc<Self>, taken: &mut TakenShares, who: &str) -> ShareSlot {
        let mine = taken.entry(who.to_owned()).or_default();
        *mine = mine.saturating_add(1);
        ShareSlot { shares: Arc::clone(self), who: who.to_owned() }
    }

    /// The same, as soon as there is one.
    pub async fn wait(self: &Arc<Self>, agents: usize, who: &str) -> ShareSlot {
        loop {
            let freed = self.freed.notified();
            if let Some(slot) = self.take(agents, who) {
                return slot;
            }
            freed.await;
        }
    }
}

impl Drop for ShareSlot {
    fn drop(&mut self) {
        let mut taken = self.shares.taken.lock();
        if let Some(mine) = taken.get_mut(&self.who) {
            *mine = mine.saturating_sub(1);
            if *mine == 0 {
                taken.remove(&self.who);
            }
        }
        drop(taken);
        self.shares.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_agent_that_is_alone_has_everything() {
        let shares = Shares::new(5);
        let places: Vec<_> = (0..9).filter_map(|_| shares.take(1, "a")).collect();
        assert_eq!((places.len(), shares.taken()), (5, 5));
        drop(places);
        assert_eq!(shares.taken(), 0);
    }

    #[test]
    fn what_is_given_back_goes_to_who_waits() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let shares = Shares::new(1);
            let slot = shares.take(1, "a").unwrap();
            let waiting = shares.wait(1, "a");
            let mut waiting = std::pin::pin!(waiting);
            assert!(futures_util::poll!(waiting.as_mut()).is_pending());
            drop(slot);
            waiting.await;
        });
    }

    proptest! {
        /// Whatever some agents take and in whichever order, each of the others gets its part
        /// afterwards, and there are never more places than configured.
        #[test]
        fn every_agent_gets_its_part_whatever_the_others_take(
            places in 1_usize..200,
            agents in 1_usize..8,
            asks in proptest::collection::vec(0_usize..8, 0..400),
        ) {
            let shares = Shares::new(places);
            let name = |agent: usize| format!("agent-{}", agent % agents);
            let mut held: Vec<_> =
                asks.iter().filter_map(|ask| shares.take(agents, &name(*ask))).collect();
            prop_assert!(shares.taken() <= places);
            let part = places / (2 * agents);
            for agent in 0..agents {
                held.extend((0..part).filter_map(|_| shares.take(agents, &name(agent))));
                let has = shares.taken.lock().get(&name(agent)).copied().unwrap_or(0);
                prop_assert!(has >= part, "{has} of {part}");
            }
            prop_assert!(shares.taken() <= places);
        }
    }
}
