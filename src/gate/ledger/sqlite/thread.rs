//! The thread that writes: one connection, and one message for each request, whatever the number of
//! its statements.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;

use super::checkpoint::Checkpointer;
use super::result_codes::before_commit;
use super::{BUSY, CALL_MAX, PAGE_SIZE, TEMP_STORE, WRITING, taken};
use crate::ledger::item::Claim;
use crate::ledger::store::StoreError;

/// Prepared statements that the connection keeps.
const STATEMENTS: usize = 64;

type StoreReply<T> = oneshot::Receiver<Result<T, StoreError>>;
type Job = Box<dyn FnOnce(&mut Slot) + Send>;

/// Why the storage can no longer be trusted in this process, once something proved it.
pub(super) type Distrust = Arc<Mutex<Option<String>>>;

/// A writing connection on a thread of its own. Dropping the value ends the thread after the
/// request it is at.
#[derive(Debug)]
pub(super) struct SqliteThread {
    jobs: mpsc::Sender<Job>,
    thread: JoinHandle<()>,
}

/// A request that the thread may not have begun. Its caller takes it back by going away.
struct QueuedRequest(Claim);

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        self.0.withdraw();
    }
}

fn ended() -> StoreError {
    StoreError::Unknown("the storage's thread ended".into())
}

/// The connection, made on demand and dropped after any doubt.
struct Slot {
    path: PathBuf,
    conn: Option<Connection>,
    distrust: Distrust,
}

impl SqliteThread {
    /// Starts the thread; the first request connects.
    pub fn start(path: &Path, distrust: &Distrust) -> Result<Self, StoreError> {
        let mut slot = Slot { path: path.to_owned(), conn: None, distrust: Arc::clone(distrust) };
        let (jobs, work) = mpsc::channel::<Job>();
        let mut checkpointer = Checkpointer::start(path, distrust)?;
        let thread = std::thread::Builder::new().name("sqlite".into()).spawn(move || {
            while let Ok(job) = work.recv() {
                job(&mut slot);
                if let Some(conn) = &slot.conn {
                    checkpointer.look(conn);
                }
            }
            // WHY first: the last connection that closes moves the rest and removes the WAL.
            checkpointer.join();
        });
        let thread = thread.map_err(|e| StoreError::Unavailable(e.to_string()))?;
        Ok(Self { jobs, thread })
    }

    /// Has the thread do this with the connection. A request that the thread has not begun in time
    /// is taken back; one that it has begun is in doubt.
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, request) = self.send(work)?;
        match tokio::time::timeout(CALL_MAX, answer).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(ended())),
            Err(_late) if request.0.withdraw() => {
                Err(StoreError::Unavailable("the storage is busy".into()))
            }
            Err(_late) => Err(StoreError::Unknown("the disk does not answer".into())),
        }
    }

    /// As [`Self::call`], for what takes as long as the file is large.
    pub async fn call_at_length<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, _request) = self.send(work)?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    fn send<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<(StoreReply<T>, QueuedRequest), StoreError> {
        let (reply, answer) = oneshot::channel();
        let request = QueuedRequest(Claim::default());
        let begun = request.0.clone();
        let job: Job = Box::new(move |slot| {
            if begun.take() {
                drop(reply.send(slot.run(work)));
            }
        });
        let closed = |_| StoreError::Unavailable("the storage is closed".into());
        self.jobs.send(job).map_err(closed)?;
        Ok((answer, request))
    }

    /// Waits until every request is done and the connection is closed.
    pub fn join(self) {
        let Self { jobs, thread } = self;
        drop(jobs);
        drop(thread.join());
    }
}

impl Slot {
    fn run<T>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Some(why) = &*self.distrust.lock() {
            return Err(StoreError::Broken(why.clone()));
        }
        let answer = self.with_connection(work);
        if let Err(StoreError::Broken(why)) = &answer {
            *self.distrust.lock() = Some(why.clone());
        }
        answer
    }

    fn with_connection<T>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => {
                let conn = connect(&self.path)?;
                Checkpointer::watch(&conn);
                conn
            }
        };
        let answer = catch_unwind(AssertUnwindSafe(|| work(&mut conn)));
        let answer = answer
            .unwrap_or_else(|_| Err(StoreError::Unknown("the storage's code panicked".into())));
        // A dropped connection rolls its transaction back.
        if matches!(answer, Ok(_) | Err(StoreError::Conflict(_))) {
            self.conn = Some(conn);
        }
        answer
    }
}

/// Opens the file, and reads back the settings that make a commit durable.
pub(super) fn connect(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = |e: rusqlite::Error| before_commit(&e);
    let conn = Connection::open_with_flags(path, flags).map_err(failed)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    conn.busy_timeout(BUSY).map_err(failed)?;
    conn.pragma_update(None, "page_size", PAGE_SIZE).map_err(failed)?;
    for pragma in std::iter::once(&TEMP_STORE).chain(&WRITING) {
        let (name, value, _) = pragma;
        // Some of them answer with a row, and some do not.
        conn.execute_batch(&format!("PRAGMA {name} = {value}")).map_err(failed)?;
        let found = conn.pragma_query_value(None, name, |row| row.get::<_, Value>(0));
        let found = match found.map_err(failed)? {
            Value::Integer(number) => number.to_string(),
            Value::Text(text) => text,
            other @ (Value::Null | Value::Real(_) | Value::Blob(_)) => format!("{other:?}"),
        };
        taken(pragma, &found)?;
    }
    Ok(conn)
}
