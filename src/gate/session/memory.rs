//! Sessions of one process: a restart ends them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::{
    IDLE, LOGIN_WITHIN, LOGINS_MAX, LONGEST, OWN_MAX, SessionCredential, SessionStore, StoreError,
};
use crate::clock::Clock;
use crate::domain::digest::Digest;

/// One session; times are those of the clock that never steps.
#[derive(Clone, Copy)]
struct OpenSession {
    credential: SessionCredential,
    began: Duration,
    seen: Duration,
}

impl OpenSession {
    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.seen) >= IDLE || now.saturating_sub(self.began) >= LONGEST
    }
}

/// The sessions of this process.
pub struct MemorySessions {
    clock: Arc<dyn Clock>,
    open: Mutex<BTreeMap<Digest, OpenSession>>,
    logins: Mutex<BTreeMap<Digest, Duration>>,
}

crate::record::debug_by!(MemorySessions);

impl MemorySessions {
    /// No session yet, by this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, open: Mutex::default(), logins: Mutex::default() }
    }
}

/// Whether a map of so many is full.
fn full(count: usize, most: u32) -> bool {
    u32::try_from(count).map_or(true, |count| count >= most)
}

#[async_trait]
impl SessionStore for MemorySessions {
    async fn begin(&self, id: &Digest, credential: SessionCredential) -> Result<(), StoreError> {
        let now = self.clock.monotonic();
        let mut open = self.open.lock();
        open.retain(|_, session| !session.is_over(now));
        let own = open.iter().filter(|(_, session)| session.credential == credential);
        let own: Vec<(Duration, Digest)> = own.map(|(of, session)| (session.seen, *of)).collect();
        if let Some((_, oldest)) = own.iter().min().filter(|_| full(own.len(), OWN_MAX)) {
            open.remove(oldest);
        }
        open.insert(*id, OpenSession { credential, began: now, seen: now });
        Ok(())
    }

    async fn find(&self, id: &Digest) -> Result<Option<SessionCredential>, StoreError> {
        let now = self.clock.monotonic();
        let mut open = self.open.lock();
        let session = open.get_mut(id).filter(|session| !session.is_over(now));
        Ok(session.map(|session| {
            session.seen = now;
            session.credential
        }))
    }

    async fn peek(&self, id: &Digest) -> Result<Option<SessionCredential>, StoreError> {
        let now = self.clock.monotonic();
        let open = self.open.lock();
        Ok(open.get(id).filter(|session| !session.is_over(now)).map(|session| session.credential))
    }

    async fn end(&self, id: &Digest) -> Result<(), StoreError> {
        self.open.lock().remove(id);
        Ok(())
    }

    async fn begin_login(&self, id: &Digest) -> Result<(), StoreError> {
        let now = self.clock.monotonic();
        let mut logins = self.logins.lock();
        logins.retain(|_, began| now.saturating_sub(*began) < LOGIN_WITHIN);
        if full(logins.len(), LOGINS_MAX) {
            let oldest = logins.iter().min_by_key(|(_, began)| **began).map(|(id, _)| *id);
            oldest.and_then(|oldest| logins.remove(&oldest));
        }
        logins.insert(*id, now);
        Ok(())
    }

    async fn take_login(&self, id: &Digest) -> Result<bool, StoreError> {
        let began = self.logins.lock().remove(id);
        let now = self.clock.monotonic();
        Ok(began.is_some_and(|began| now.saturating_sub(began) < LOGIN_WITHIN))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::CredentialKind;
    use super::*;
    use crate::domain::time::Timestamp;

    /// Milliseconds, set by hand.
    struct ByHand(AtomicU64);

    impl Clock for ByHand {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(0)
        }

        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::SeqCst))
        }
    }

    fn sessions() -> (MemorySessions, impl Fn(u64)) {
        let clock = Arc::new(ByHand(AtomicU64::new(0)));
        let set = Arc::clone(&clock);
        (MemorySessions::new(clock), move |millis| set.0.store(millis, Ordering::SeqCst))
    }

    fn of(text: &str) -> Digest {
        Digest::of(&[text.as_bytes()])
    }

    fn token(text: &str) -> SessionCredential {
        SessionCredential { kind: CredentialKind::Token, digest: of(text) }
    }

    #[tokio::test]
    async fn a_session_ends_unused_after_fifteen_minutes_and_used_after_eight_hours() {
        let (sessions, at) = sessions();
        let seconds = |seconds: u64| at(seconds * 1000);
        let found = async |id: &str| sessions.find(&of(id)).await.unwrap().is_some();
        sessions.begin(&of("idle"), token("a")).await.unwrap();
        seconds(899);
        assert!(found("idle").await);
        seconds(899 + 900);
        assert!(!found("idle").await);
        seconds(0);
        sessions.begin(&of("used"), token("a")).await.unwrap();
        for minute in (0..8 * 60).step_by(10) {
            seconds(minute * 60);
            assert!(found("used").await, "{minute}");
        }
        seconds(8 * 3600 - 1);
        assert!(found("used").await);
        seconds(8 * 3600);
        assert!(!found("used").await);
    }

    #[tokio::test]
    async fn an_ended_session_is_unknown_and_there_is_a_limit_to_those_of_one_operator() {
        let (sessions, at) = sessions();
        let found = async |id: &str| sessions.find(&of(id)).await.unwrap().is_some();
        sessions.begin(&of("another"), token("another")).await.unwrap();
        for n in 0..17 {
            at(n);
            sessions.begin(&of(&n.to_string()), token("own")).await.unwrap();
        }
        at(2000);
        assert!(!found("0").await, "used the longest ago");
        assert!(found("1").await);
        sessions.end(&of("1")).await.unwrap();
        assert!(!found("1").await);
        assert_eq!(sessions.open.lock().len(), 16);
        assert!(found("another").await, "used before all of them");
    }

    #[tokio::test]
    async fn a_login_comes_back_once_and_in_time_and_one_too_many_drops_the_oldest() {
        let (sessions, at) = sessions();
        let taken = async |id: &str| sessions.take_login(&of(id)).await.unwrap();
        sessions.begin_login(&of("one")).await.unwrap();
        sessions.begin_login(&of("late")).await.unwrap();
        assert!(!taken("other").await);
        assert!(taken("one").await && !taken("one").await);
        at(10 * 60 * 1000);
        assert!(!taken("late").await);
        for n in 0..=LOGINS_MAX {
            at(10 * 60 * 1000 + u64::from(n));
            sessions.begin_login(&of(&n.to_string())).await.unwrap();
        }
        assert!(!taken("0").await && taken("1").await);
    }
}
