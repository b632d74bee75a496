//! Sessions of clients that begin with `initialize`: their owners and their state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ids::Ids;
use super::level::Level;
use super::view::PathView;
use crate::mcp::Version;

/// How long a session may be idle.
const IDLE: Duration = Duration::from_secs(15 * 60);

/// Sessions of one caller, and of all.
const OF_ONE_MAX: usize = 256;
const SESSIONS_MAX: usize = 4096;

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    /// 128 random bits, as hex.
    pub id: String,
    /// The version that was agreed on.
    pub version: Version,
    owner: String,
    view: PathView,
    level: AtomicU8,
    used_ms: AtomicU64,
    stream: Arc<Semaphore>,
    /// Maps its requests to calls.
    pub ids: Arc<Ids>,
}

impl Session {
    /// The least level of log messages the client wants.
    pub(super) fn level(&self) -> Option<Level> {
        Level::of_rank(self.level.load(Ordering::Acquire))
    }

    /// The client wants this level from now on.
    pub(super) fn set_level(&self, level: Level) {
        self.level.store(level.rank(), Ordering::Release);
    }

    /// The session's one stream, if it is free.
    pub(super) fn stream(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.stream).try_acquire_owned().ok()
    }

    /// The session is in use.
    pub(super) fn touch(&self, now: Duration) {
        self.used_ms.store(millis(now), Ordering::Release);
    }

    fn is_busy(&self) -> bool {
        self.stream.available_permits() == 0 || self.ids.is_busy()
    }

    fn idle_since(&self, now: Duration) -> u64 {
        millis(now).saturating_sub(self.used_ms.load(Ordering::Acquire))
    }

    fn is_over(&self, now: Duration) -> bool {
        !self.is_busy() && self.idle_since(now) > millis(IDLE)
    }
}

/// All sessions of this process.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    all: Mutex<BTreeMap<String, Arc<Session>>>,
}

impl Sessions {
    /// Begins a session. `None` when there are too many and all are in use.
    pub(super) fn open(
        &self,
        id: String,
        owner: &str,
        view: &PathView,
        version: Version,
        now: Duration,
    ) -> Option<Arc<Session>> {
        let mut all = self.all.lock();
        all.retain(|_, session| !session.is_over(now));
        let own = all.values().filter(|session| session.owner == owner).count();
        if own >= OF_ONE_MAX || all.len() >= SESSIONS_MAX {
            // WHY: many clients never end a session; the one idle for the longest is dropped.
            let mine = all.values().filter(|session| session.owner == owner && !session.is_busy());
            let oldest = mine.max_by_key(|session| session.idle_since(now))?.id.clone();
            all.remove(&oldest);
        }
        let session = Arc::new(Session {
            id: id.clone(),
            version,
            owner: owner.to_owned(),
            view: view.clone(),
            level: AtomicU8::new(Level::Debug.rank()),
            used_ms: AtomicU64::new(millis(now)),
            stream: Arc::new(Semaphore::new(1)),
            ids: Arc::new(Ids::of(&id)),
        });
        all.insert(id, Arc::clone(&session));
        Some(session)
    }

    /// The session of this id, if it is this caller's and of this path.
    pub(super) fn find(
        &self,
        id: &str,
        owner: &str,
        view: &PathView,
        now: Duration,
    ) -> Option<Arc<Session>> {
        let mut all = self.all.lock();
        let found =
            all.get(id).filter(|session| session.owner == owner && session.view == *view)?;
        if found.is_over(now) {
            all.remove(id);
            return None;
        }
        let found = Arc::clone(found);
        drop(all);
        found.touch(now);
        Some(found)
    }

    /// Ends one.
    pub(super) fn end(&self, session: &Session) {
        self.all.lock().remove(&session.id);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn open(sessions: &Sessions, id: usize, owner: &str, now: Duration) -> Option<Arc<Session>> {
        let version = Version::NEWEST_WITH_HANDSHAKE;
        sessions.open(id.to_string(), owner, &PathView::default(), version, now)
    }

    #[test]
    fn a_session_is_found_by_its_owner_on_its_path_and_until_it_is_idle_too_long() {
        let sessions = Sessions::default();
        let _ = open(&sessions, 1, "a", SECOND);
        let here = PathView::default();
        let other_path = PathView::of("/mcp/s/git").unwrap();
        assert!(sessions.find("1", "a", &here, SECOND).is_some());
        assert!(sessions.find("1", "b", &here, SECOND).is_none());
        assert!(sessions.find("1", "a", &other_path, SECOND).is_none());
        assert!(sessions.find("1", "a", &here, SECOND + IDLE).is_some());
        assert!(sessions.find("1", "a", &here, SECOND + IDLE * 2 + SECOND).is_none());
        assert!(sessions.find("1", "a", &here, SECOND).is_none(), "it is gone for good");
    }

    #[test]
    fn a_caller_with_too_many_sessions_loses_its_oldest_and_no_other_caller_does() {
        let sessions = Sessions::default();
        let _ = open(&sessions, 9_999, "other", Duration::ZERO);
        for id in 0..=OF_ONE_MAX {
            let now = SECOND * u32::try_from(id).unwrap();
            assert!(open(&sessions, id, "a", now).is_some());
        }
        let now = SECOND * 300;
        assert!(sessions.find("0", "a", &PathView::default(), now).is_none());
        assert!(sessions.find("1", "a", &PathView::default(), now).is_some());
        assert!(sessions.find("9999", "other", &PathView::default(), now).is_some());
    }

    #[test]
    fn a_session_whose_stream_is_open_is_neither_idle_nor_given_up() {
        let sessions = Sessions::default();
        let busy = open(&sessions, 0, "a", SECOND).unwrap();
        let stream = busy.stream().unwrap();
        assert!(busy.stream().is_none(), "one stream a session");
        for id in 1..=OF_ONE_MAX {
            let _ = open(&sessions, id, "a", SECOND * 2);
        }
        assert!(sessions.find("0", "a", &PathView::default(), IDLE * 3).is_some());
        drop(stream);
        assert!(busy.stream().is_some());
    }
}
