//! Limits the connections of one listener, and chooses the one to evict when it is full.
//!
//! A connection begins as a stranger. It stops being one when a request on it shows a known
//! credential ([`proved`]): from then on it has one of the places that strangers cannot take.
//! Strangers have a small pool and seconds; the listener never turns a newcomer away for them, but
//! evicts the stranger that is least likely to be a real client: of the peer that has most, silent
//! before speaking, idle before served, the oldest first.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Strangers on one listener at the same time.
pub const STRANGERS: usize = 64;
/// How long a stranger may be silent, at first or after an answer.
const IDLE: Duration = Duration::from_secs(5);
/// How long a stranger has its place for certain.
///
/// WHY: a client that has just been accepted has to be scheduled before it can speak; without this, peers that
/// connect again and again would push it out in that moment.
const GRACE: Duration = Duration::from_millis(250);
/// Between two warnings that there are too many.
const TELL: Duration = Duration::from_secs(10);

tokio::task_local! {
    /// The connection of the current request.
    static HERE: ConnectionSlot;
}

/// The request that is being answered showed a credential that is known.
pub(crate) fn proved() {
    // A request without a connection (from a test, or from the hub itself) has no place to keep.
    let _ = HERE.try_with(ConnectionSlot::prove);
}

/// The peer, as far as the kernel identifies it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Origin {
    /// A user of this machine, on a Unix socket.
    User(u32),
    /// An address; of IPv6 the network of 64 bits.
    Address(IpAddr),
}

impl Origin {
    /// The origin of an address.
    pub(super) fn of(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & !u128::from(u64::MAX)).into()),
            v4 @ IpAddr::V4(_) => v4,
        })
    }

    /// Whether several unrelated clients may share it: every client of this machine has the
    /// loopback address.
    fn is_shared(&self) -> bool {
        matches!(self, Self::Address(address) if address.is_loopback())
    }
}

/// The places of one listener.
#[derive(Debug)]
pub(super) struct Places {
    /// Connections that have proved themselves.
    proven_max: usize,
    unknown_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    unknown: BTreeMap<u64, UnknownPeer>,
    proven: BTreeMap<u64, Origin>,
    /// When the log last said that there are too many.
    last_notice: Option<Instant>,
}

#[derive(Debug)]
struct UnknownPeer {
    origin: Origin,
    since: Instant,
    active: Instant,
    spoke: bool,
    serving: usize,
    close: CancellationToken,
}

/// What a newcomer gets.
#[derive(Debug)]
pub(super) enum Entered {
    /// A place.
    Placed(ConnectionSlot),
    /// No stranger can be evicted yet: one can be at this time.
    Full(Instant),
}

impl Places {
    pub(super) fn new(proven_max: usize, unknown_max: usize) -> Arc<Self> {
        let unknown_max = unknown_max.max(1);
        Arc::new(Self { proven_max, unknown_max, inner: Mutex::default() })
    }

    /// Gives a newcomer a place, and evicts another stranger if all are taken.
    pub(super) fn enter(self: &Arc<Self>, origin: Origin) -> Entered {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        if inner.unknown.len() >= self.unknown_max {
            match inner.least(now) {
                Ok(id) => {
                    inner.evict(id);
                    inner.tell(now);
                }
                Err(at) => return Entered::Full(at),
            }
        }
        let (id, cancel) = (inner.next, CancellationToken::new());
        inner.next = inner.next.saturating_add(1);
        let peer = UnknownPeer {
            origin,
            since: now,
            active: now,
            spoke: false,
            serving: 0,
            close: cancel.clone(),
        };
        inner.unknown.insert(id, peer);
        drop(inner);
        Entered::Placed(ConnectionSlot(Arc::new(Held {
            id,
            places: Arc::clone(self),
            close: cancel,
        })))
    }

    /// The most proven connections of one origin: one origin never has all of them.
    fn share(&self) -> usize {
        self.proven_max.saturating_sub(self.proven_max / 4).max(1)
    }
}

impl Inner {
    /// The next stranger to evict, or the earliest time for that.
    fn least(&self, now: Instant) -> Result<u64, Instant> {
        let mut of_one: BTreeMap<Origin, usize> = BTreeMap::new();
        for peer in self.unknown.values() {
            let count = of_one.entry(peer.origin).or_default();
            *count = count.saturating_add(1);
        }
        let old = self.unknown.iter().filter(|(_, one)| one.since + GRACE <= now);
        let least = old.max_by_key(|(id, one)| {
            let many = of_one.get(&one.origin).copied().unwrap_or_default();
            (one.serving == 0, !one.spoke, many, std::cmp::Reverse(**id))
        });
        let first = || self.unknown.values().map(|one| one.since).min().unwrap_or(now);
        least.map(|(id, _)| *id).ok_or_else(|| first() + GRACE)
    }

    /// Says that strangers go for newcomers, and not for each of them.
    fn tell(&mut self, now: Instant) {
        if self.last_notice.is_none_or(|last| last + TELL <= now) {
            self.last_notice = Some(now);
            tracing::warn!(
                "too many connections without a credential: each new one closes an older one"
            );
        }
    }

    fn evict(&mut self, id: u64) {
        if let Some(evicted) = self.unknown.remove(&id) {
            evicted.close.cancel();
        }
    }
}

/// The place of one connection, kept as long as any part of it lives.
#[derive(Clone, Debug)]
pub(super) struct ConnectionSlot(Arc<Held>);

#[derive(Debug)]
struct Held {
    id: u64,
    places: Arc<Places>,
    close: CancellationToken,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut inner = self.places.inner.lock();
        inner.unknown.remove(&self.id);
        inner.proven.remove(&self.id);
    }
}

/// A request of a connection is being answered.
#[derive(Debug)]
pub(super) struct Serving(ConnectionSlot);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.change(|one| {
            one.serving = one.serving.saturating_sub(1);
            one.active = Instant::now();
        });
    }
}

impl ConnectionSlot {
    fn change(&self, change: impl FnOnce(&mut UnknownPeer)) {
        self.0.places.inner.lock().unknown.get_mut(&self.0.id).map(change);
    }

    /// Records that the client has sent something.
    pub(super) fn spoke(&self) {
        self.change(|one| one.spoke = true);
    }

    /// Answers a request of this connection.
    pub(super) async fn serve<F: Future>(self, answer: F) -> F::Output {
        self.change(|one| one.serving = one.serving.saturating_add(1));
        let _serving = Serving(self.clone());
        HERE.scope(self, answer).await
    }

    /// Takes one of the places that strangers cannot take, if its origin has not too many and one is free.
    fn prove(&self) {
        let Held { id, places, .. } = &*self.0;
        let mut inner = places.inner.lock();
        let Some(peer) = inner.unknown.get(id) else { return };
        let origin = peer.origin;
        let same = inner.proven.values().filter(|of| **of == origin).count();
        let most = if origin.is_shared() { places.proven_max } else { places.share() };
        if inner.proven.len() < places.proven_max && same < most {
            inner.unknown.remove(id);
            inner.proven.insert(*id, origin);
        }
    }

    /// Ends when the connection must close: its place went to a newcomer, or it is a stranger and
    /// idle.
    pub(super) async fn over(&self) {
        loop {
            let until = {
                let inner = self.0.places.inner.lock();
                match inner.unknown.get(&self.0.id) {
                    Some(one) if one.serving == 0 => one.active + IDLE,
                    Some(_) | None => Instant::now() + IDLE,
                }
            };
            if until <= Instant::now() {
                return;
            }
            tokio::select! {
                biased;
                () = self.0.close.cancelled() => return,
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn placed(places: &Arc<Places>, origin: Origin) -> ConnectionSlot {
        match places.enter(origin) {
            Entered::Placed(slot) => slot,
            Entered::Full(at) => panic!("full until {at:?}"),
        }
    }

    fn is_closed(slot: &ConnectionSlot) -> bool {
        slot.0.close.is_cancelled()
    }

    const A: Origin = Origin::User(1);
    const B: Origin = Origin::User(2);

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_waits_for_the_grace_of_the_others_and_no_longer() {
        let places = Places::new(4, 2);
        let _both = [placed(&places, A), placed(&places, A)];
        let Entered::Full(at) = places.enter(B) else { panic!("somebody was pushed out at once") };
        tokio::time::sleep_until(at).await;
        placed(&places, B);
    }

    #[tokio::test(start_paused = true)]
    async fn the_silent_go_first_then_who_is_idle_and_of_these_the_peer_that_has_most() {
        let places = Places::new(4, 4);
        let all = [placed(&places, A), placed(&places, A), placed(&places, B), placed(&places, B)];
        let [served, idle, other, silent] = &all;
        [served, idle, other].into_iter().for_each(ConnectionSlot::spoke);
        let mut serving = Box::pin(served.clone().serve(std::future::pending::<()>()));
        assert!(futures_util::poll!(&mut serving).is_pending());
        tokio::time::advance(GRACE).await;
        for expected in [silent, idle, other, served] {
            let mut inner = places.inner.lock();
            assert_eq!(inner.least(Instant::now()), Ok(expected.0.id));
            inner.evict(expected.0.id);
            assert!(is_closed(expected));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_proved_itself_is_never_pushed_out_and_a_stranger_has_seconds() {
        let places = Places::new(2, 2);
        let known = placed(&places, A);
        known.clone().serve(async { proved() }).await;
        let peer = placed(&places, A);
        let (left, stays) = (peer.clone(), known.clone());
        let over = tokio::spawn(async move { left.over().await });
        let stay = tokio::spawn(async move { stays.over().await });
        over.await.unwrap();
        drop(peer);
        let mut all = Vec::new();
        for _ in 0..50 {
            tokio::time::advance(GRACE).await;
            all.push(placed(&places, B));
        }
        assert!(!is_closed(&known) && !stay.is_finished());
        assert_eq!(all.iter().filter(|one| !is_closed(one)).count(), 2);
        stay.abort();
    }

    #[test]
    fn one_peer_never_has_every_place_of_the_proven_unless_all_share_its_address() {
        let many = |origin: Origin| {
            let places = Places::new(8, 16);
            let all: Vec<_> = (0..12).map(|_| placed(&places, origin)).collect();
            all.iter().for_each(ConnectionSlot::prove);
            let proven = places.inner.lock().proven.len();
            drop(all);
            let inner = places.inner.lock();
            assert!(inner.proven.is_empty() && inner.unknown.is_empty(), "places are given back");
            proven
        };
        assert_eq!(many(A), 6);
        assert_eq!(many(Origin::of("10.0.0.1".parse().unwrap())), 6);
        assert_eq!(many(Origin::of("::ffff:127.0.0.1".parse().unwrap())), 8);
    }

    #[test]
    fn neighbours_of_one_network_are_one_origin() {
        let of = |text: &str| Origin::of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }

    proptest! {
        /// Whatever strangers do: there are never more than their pool, a newcomer gets a place
        /// once the grace is over, and no proven connection is closed.
        #[test]
        fn strangers_never_cost_the_proven_a_place(steps in prop::collection::vec((0..5_u8, 0..3_u32), 1..80)) {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let places = Places::new(3, 3);
                let (mut all, mut proven) = (Vec::new(), Vec::new());
                for (step, user) in steps {
                    tokio::time::advance(GRACE).await;
                    match step {
                        0 | 1 => all.push(placed(&places, Origin::User(user))),
                        2 => { all.pop(); }
                        3 => if let Some(one) = all.last() { one.spoke(); },
                        _ => if let Some(one) = all.last().filter(|one| !is_closed(one)) {
                            one.prove();
                            if places.inner.lock().proven.contains_key(&one.0.id) {
                                proven.push(one.clone());
                            }
                        },
                    }
                    let inner = places.inner.lock();
                    prop_assert!(inner.unknown.len() <= 3 && inner.proven.len() <= 3);
                    prop_assert!(!proven.iter().any(is_closed));
                }
                Ok(())
            })?;
        }
    }
}
