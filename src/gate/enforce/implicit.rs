//! Implicit runs, for faces without `OpenRun`: one per caller and thread of work.
//!
//! A thread has at most one open run. The first request opens it, and concurrent requests wait for
//! that opening. Once the run is sealed or its wall time is over, the next request opens another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Mutex as Turn;

use super::answer::Fault;
use super::opening::Handle;
use super::run::Run;
use super::runs::Runs;
use super::{Opening, Road};
use crate::clock::Clock;
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::tier::Face;
use crate::identity::Caller;

/// Longest session id in bytes.
const SESSION_BYTES_MAX: usize = 256;

/// How long an open run has been idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rest {
    /// The run is sealed or being sealed.
    Over,
    /// Calls are on the road or held.
    Busy,
    /// The remaining time until it is idle.
    For(Duration),
    /// It was idle long enough, and is closed to new calls now.
    Closed,
}

/// The thread of work that an implicit run belongs to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Thread {
    /// One MCP session; it ends with this process.
    Session(String),
    /// A name that the agent chose: `/mcp/r/<name>`, `X-Wicketgate-Run`; `[A-Za-z0-9_.-]{1,64}`.
    Named(String),
    /// All requests of the caller that name no thread.
    Caller,
}

impl Thread {
    /// The value in `run.opened`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Session(_) => "session",
            Self::Named(_) => "named",
            Self::Caller => "caller",
        }
    }

    /// The name that distinguishes it from other threads of its kind.
    fn name(&self) -> Result<&str, Fault> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        match self {
            Self::Caller => Ok(""),
            Self::Session(id) if id.len() <= SESSION_BYTES_MAX => Ok(id),
            Self::Named(name) if (1..=64).contains(&name.len()) && name.bytes().all(plain) => {
                Ok(name)
            }
            Self::Session(_) => Err(malformed("a session id is too long")),
            Self::Named(_) => Err(malformed("a run is named [A-Za-z0-9_.-]{1,64}")),
        }
    }
}

fn malformed(message: &str) -> Fault {
    Fault::new(Code::RequestMalformed, message).detail("run.name")
}

/// Serialises the opening and the ending of each thread's run.
#[derive(Debug, Default)]
pub(super) struct Threads {
    turns: Mutex<BTreeMap<Digest, Arc<Turn<()>>>>,
}

impl Threads {
    /// Does the work once it is the caller's turn in the thread. The work runs to its end on the
    /// calling task.
    async fn in_turn<T>(&self, thread: Digest, work: impl Future<Output = T>) -> T {
        let turn = Arc::clone(self.turns.lock().entry(thread).or_default());
        let held = turn.lock().await;
        let done = work.await;
        drop(held);
        let mut turns = self.turns.lock();
        // Only the map and this task hold the turn: no task waits for it, and none can join while
        // the map is locked.
        if Arc::strong_count(&turn) <= 2 {
            turns.remove(&thread);
        }
        done
    }
}

impl Runs {
    /// Two callers never share a thread: manifest, way of proof, uid, token and certificate are all
    /// part of the key.
    fn thread_key(&self, caller: &Caller, thread: &Thread) -> Result<Digest, Fault> {
        let auth = &caller.auth;
        let uid = auth.uid.map(|uid| uid.to_string()).unwrap_or_default();
        let mut parts = vec![
            caller.manifest.digest.as_bytes(),
            auth.method.as_bytes(),
            uid.as_bytes(),
            auth.token.as_deref().unwrap_or_default().as_bytes(),
            thread.as_str().as_bytes(),
            thread.name()?.as_bytes(),
        ];
        // WHY: an empty part for callers without a certificate would change their keys, and an
        // upgrade would lose their threads.
        parts.extend(auth.holder().map(str::as_bytes));
        Ok(self.tokens.thread(&parts))
    }

    /// The open run of this thread, if it still takes calls.
    fn taking(&self, key: &Digest, clock: &dyn Clock) -> Option<Arc<Run>> {
        let run = self.of_thread(key)?;
        if run.is_over() || run.expires.is_some_and(|expires| expires <= clock.now()) {
            return None;
        }
        run.touch(clock.monotonic());
        Some(run)
    }
}

impl Road {
    /// The open run of this caller and thread. Opens one if there is none, without a claim about
    /// model, instructions or tools. The run is sealed when its session ends, after 15 minutes
    /// without a call, or at drain.
    ///
    /// # Errors
    /// As `open_run`; `request.malformed` for an invalid name.
    pub async fn implicit_run(
        self: &Arc<Self>,
        face: Face,
        caller: &Caller,
        thread: &Thread,
        opening: Opening,
    ) -> Result<Arc<Run>, Fault> {
        let caller = self.of_thread(caller);
        let key = self.runs.thread_key(&caller, thread)?;
        // WHY only through a face that the manifest accepts: another face may have opened the run.
        // Otherwise the opening is refused, and that is recorded.
        let is_open = caller.manifest.binding.faces.contains(&face);
        if let Some(run) = self.runs.taking(&key, &*self.clock).filter(|_| is_open) {
            return Ok(run);
        }
        // On a task of its own: if the caller disconnects, the run is still watched, and the next
        // request does not open a second one.
        let (road, thread) = (Arc::clone(self), thread.clone());
        let opening = self.tasks.spawn(async move {
            let open = async {
                match road.runs.taking(&key, &*road.clock).filter(|_| is_open) {
                    Some(run) => Ok(run),
                    None => {
                        let handle = Handle::Thread(thread, key);
                        road.open_thread(face, &caller, opening, &handle).await
                    }
                }
            };
            road.runs.threads.in_turn(key, open).await
        });
        let lost = |_| Err(Fault::new(Code::LedgerUnknown, "the opening was lost"));
        let opened = opening.await.unwrap_or_else(lost);
        if let Err(fault) = &opened {
            self.budget.reject(fault.code);
        }
        opened
    }

    /// Seals the implicit run of this caller and thread, if one is open: waits for its calls and
    /// cancels held ones. Returns once it is sealed; sealing continues if the caller disconnects.
    pub async fn end_implicit(self: &Arc<Self>, caller: &Caller, thread: &Thread) {
        let Ok(key) = self.runs.thread_key(&self.of_thread(caller), thread) else { return };
        let road = Arc::clone(self);
        let ending = self.tasks.spawn(async move {
            let found = road.runs.threads.in_turn(key, async { road.runs.of_thread(&key) }).await;
            if let Some(run) = found {
                road.seal_at_last(&run, "session_end").await;
            }
        });
        // Lost only if the process ends; the next process then seals the run.
        drop(ending.await);
    }

    /// The caller with the manifest in force. WHY: a client that learns of a change retries at
    /// once, and may have been identified just before the change. A caller that is no longer
    /// configured is refused when it requests the run.
    fn of_thread(&self, caller: &Caller) -> Caller {
        self.in_force.now().agents.current(caller).unwrap_or_else(|_| caller.clone())
    }

    /// Seals a run without activity. WHY explicit runs too: the opener may have lost the token or
    /// never received it. An opening in doubt that became durable as the gate ended is resumed by
    /// the next process, and no client would ever close it.
    pub(super) fn watch_idle(self: &Arc<Self>, run: &Arc<Run>) {
        let settings = &self.settings;
        let idle = if run.thread.is_some() { settings.idle } else { settings.run_idle };
        // WHY weak: every run is watched, and these tasks must not keep a dropped road alive.
        let (road, run) = (Arc::downgrade(self), Arc::clone(run));
        let (tasks, clock) = (self.tasks.clone(), Arc::clone(&self.clock));
        self.tasks.spawn(async move {
            loop {
                let ended = run.idle.notified();
                let left = match run.rest(idle, clock.monotonic()) {
                    Rest::Over => return,
                    Rest::Closed => break,
                    Rest::Busy => None,
                    Rest::For(left) => Some(left),
                };
                let idle_time = async {
                    match left {
                        Some(left) => tokio::time::sleep(left).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = tasks.stopping() => return,
                    // A call ended; the idle time counts from here.
                    () = ended => run.touch(clock.monotonic()),
                    () = idle_time => {}
                }
            }
            if let Some(road) = road.upgrade() {
                road.seal_at_last(&run, "idle").await;
            }
        });
    }
}
