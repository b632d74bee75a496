//! Moves what the WAL holds into the file, beside the commits and not in them.
//!
//! SQLite does that in the commit that makes the WAL long: a thousand pages and two waits for the
//! disk, for which its caller waits. Here another thread with a connection of its own does it while
//! commits go on. Only a WAL of which everything was moved begins anew, and that a thread beside the
//! writer never achieves under load. So the writing thread moves the last few pages itself.

use std::cell::Cell;
use std::ffi::c_int;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::steps::first;
use super::thread::{Distrust, connect};
use crate::ledger::rows::DatabaseRow as _;
use crate::ledger::store::StoreError;

/// Pages in the WAL that are worth moving.
const MANY: u64 = 1000;
/// So few are moved by the writing thread.
const FEW: u64 = MANY / 4;
/// At so many the writing thread moves them, however many are left.
const TOO_MANY: u64 = MANY * 8;

thread_local! {
    /// Pages in the WAL after the last commit of this thread.
    static PAGES: Cell<u64> = const { Cell::new(0) };
}

/// What both threads know.
#[derive(Debug, Default)]
struct MovedPages {
    /// Pages of the WAL that are in the file.
    moved: AtomicU64,
    /// The thread is moving pages, or is asked to.
    moving: AtomicBool,
    /// It has done so since the writing thread looked.
    done: AtomicBool,
}

/// The thread that moves pages, as the writing thread sees it.
#[derive(Debug)]
pub(super) struct Checkpointer {
    asked: SyncSender<()>,
    progress: Arc<MovedPages>,
    /// Pages in the WAL when the writing thread last looked.
    seen: u64,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    /// Starts the thread, which connects when it is first needed.
    ///
    /// # Errors
    /// There can be no further thread.
    pub(super) fn start(path: &Path, distrust: &Distrust) -> Result<Self, StoreError> {
        let (asked, requests) = sync_channel(1);
        let progress = Arc::<MovedPages>::default();
        let (path, distrust, known) =
            (path.to_owned(), Arc::clone(distrust), Arc::clone(&progress));
        let thread = std::thread::Builder::new()
            .name("checkpoint".into())
            .spawn(move || serve(&path, &distrust, &requests, &known))
            .map_err(|e| StoreError::Unavailable(e.to_string()))?;
        Ok(Self { asked, progress, seen: 0, thread })
    }

    /// Has the commits of this connection, which the calling thread owns, counted instead of
    /// followed by a checkpoint.
    pub(super) fn watch(conn: &Connection) {
        conn.wal_hook(Some(count));
    }

    /// Looks at the WAL after a commit.
    pub(super) fn look(&mut self, conn: &Connection) {
        let pages = PAGES.get();
        let MovedPages { moved, moving, done } = &*self.progress;
        let anew = pages < self.seen;
        if anew {
            moved.store(0, Ordering::Release);
        }
        self.seen = pages;
        let left = pages.saturating_sub(moved.load(Ordering::Acquire));
        // WHY not after that: the few pages are then new ones, and no commit has to wait for them.
        let just_moved = done.swap(false, Ordering::AcqRel) && !anew;
        let worth = if just_moved { FEW } else { MANY };
        if (just_moved && left < FEW) || pages >= TOO_MANY {
            note(moved, checkpoint(conn));
        } else if left >= worth && !moving.swap(true, Ordering::AcqRel) {
            // There is space for it: the request before has been answered.
            let _ = self.asked.try_send(());
        }
    }

    /// Ends the thread after what it is at.
    pub(super) fn join(self) {
        let Self { asked, thread, .. } = self;
        drop(asked);
        drop(thread.join());
    }
}

fn serve(path: &Path, distrust: &Distrust, requests: &Receiver<()>, progress: &MovedPages) {
    let mut home = None;
    while requests.recv().is_ok() {
        // A file that cannot be trusted is left as it is.
        if distrust.lock().is_none() {
            let conn = home.take().or_else(|| connect(path).ok());
            home = conn.filter(|conn| note(&progress.moved, checkpoint(conn)));
        }
        progress.moving.store(false, Ordering::Release);
        progress.done.store(true, Ordering::Release);
    }
}

/// Moves what the WAL holds into the file: how many of its pages are there now. Waits for no reader and no writer.
///
/// WHY no error: nothing is lost as long as pages are in the WAL, a later look tries again, and what
/// is wrong with the disk is what the next commit fails with.
fn checkpoint(conn: &Connection) -> Option<u64> {
    let sql = "PRAGMA wal_checkpoint(PASSIVE)";
    first(conn, sql, [], |row| row.number("checkpointed")).ok().flatten()
}

/// Whether there is a number, which is kept.
fn note(moved: &AtomicU64, pages: Option<u64>) -> bool {
    pages.is_some_and(|pages| {
        moved.store(pages, Ordering::Release);
        true
    })
}

fn count(_: &Wal, pages: c_int) -> rusqlite::Result<()> {
    PAGES.set(u64::try_from(pages).unwrap_or(0));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writing_thread_moves_the_last_few_pages_and_none_of_a_wal_that_began_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("some.db");
        std::fs::write(&path, b"").unwrap();
        let conn = connect(&path).unwrap();
        Checkpointer::watch(&conn);
        let mut thread = Checkpointer::start(&path, &Distrust::default()).unwrap();
        conn.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
        // The thread moved everything, so this commit was the first in a new WAL.
        thread.seen = MANY;
        for moves in [false, true] {
            thread.progress.done.store(true, Ordering::Release);
            thread.look(&conn);
            assert_eq!(thread.progress.moved.load(Ordering::Acquire) > 0, moves);
        }
        drop(conn);
        thread.join();
    }
}
