//! One connection whose every use is bounded in time, and which is thrown away after any doubt. Each new one is asked
//! for its schema first.

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};

use super::errors::{Failure, after_send, nothing_written};
use super::version;
use crate::ledger::store::StoreError;

/// How often the same bytes are sent again at once after 40001 or 40P01.
const ATTEMPTS: u32 = 3;

/// How long things may take.
#[derive(Clone, Debug)]
pub struct Options {
    /// Making a connection: default 1 s.
    pub connect: Duration,
    /// One statement: default 2 s.
    pub statement: Duration,
    /// One call, with waiting its turn, connecting and retries: default 2.4 s.
    pub call: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(1),
            statement: Duration::from_secs(2),
            call: Duration::from_millis(2400),
        }
    }
}

/// Whether a lost answer leaves something in doubt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It writes: a lost answer is `Unknown`.
    Write,
    /// It only reads: a lost answer is `Unavailable`, after one more try on a new connection.
    Read,
}

/// One connection.
pub(crate) struct Lane {
    connect: PgConnectOptions,
    options: Options,
    home: Mutex<Option<PgConnection>>,
}

impl Lane {
    pub(crate) fn new(connect: PgConnectOptions, options: Options) -> Self {
        Self { connect, options, home: Mutex::new(None) }
    }

    /// Connects anew, and so asks the server for its schema again.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server does not answer or its schema is not for this build.
    pub(crate) async fn anew(&self) -> Result<(), StoreError> {
        let end = Instant::now() + self.options.call;
        let mut home = self.turn(end).await?;
        *home = None;
        *home = Some(self.connected(end).await.map_err(Failure::told)?);
        Ok(())
    }

    async fn turn(&self, end: Instant) -> Result<MutexGuard<'_, Option<PgConnection>>, StoreError> {
        let turn = timeout_at(end, self.home.lock()).await;
        turn.map_err(|_| StoreError::Unavailable("the connection is busy".into()))
    }

    /// A new connection to a server whose schema is for this build.
    async fn connected(&self, end: Instant) -> Result<PgConnection, Failure> {
        let by = end.min(Instant::now() + self.options.connect);
        let made = async {
            let mut conn = self.connect.connect().await.map_err(|e| nothing_written(&e))?;
            version::check(&mut conn).await?;
            Ok(conn)
        };
        timeout_at(by, made).await.unwrap_or_else(|_| {
            Err(Failure::Final(StoreError::Unavailable("the server does not answer".to_owned())))
        })
    }

    /// Sends the statement and returns all rows, once the server said that it is done.
    pub(crate) async fn run(&self, sql: &str, purpose: Purpose) -> Result<Vec<PgRow>, StoreError> {
        if sql.contains('\0') {
            return Err(StoreError::Unavailable("a text holds a NUL byte".into()));
        }
        let end = Instant::now() + self.options.call;
        // WHY: the server gives up before we do, so that a slow statement is known to be aborted.
        let allowed = self.options.statement.saturating_mul(9) / 10;
        let sql = format!("SET LOCAL statement_timeout = {}; {sql}", allowed.as_millis().max(1));
        let mut home = self.turn(end).await?;
        let mut attempt = 1;
        loop {
            let reused = home.is_some();
            let failure = match self.once(&mut home, &sql, purpose, end).await {
                Ok(rows) => return Ok(rows),
                Err(failure) => failure,
            };
            let error = match failure {
                Failure::Again(error) if attempt < ATTEMPTS => {
                    attempt += 1;
                    drop(error);
                    continue;
                }
                Failure::Again(error) | Failure::Final(error) => error,
            };
            // An idle connection may have died of a restart; a read may simply ask again.
            let stale = purpose == Purpose::Read && reused && home.is_none() && attempt == 1;
            if !(stale && matches!(error, StoreError::Unavailable(_)) && Instant::now() < end) {
                return Err(error);
            }
            attempt += 1;
        }
    }

    async fn once(
        &self,
        home: &mut Option<PgConnection>,
        sql: &str,
        purpose: Purpose,
        end: Instant,
    ) -> Result<Vec<PgRow>, Failure> {
        let unavailable = |why: &str| Failure::Final(StoreError::Unavailable(why.to_owned()));
        // WHY: taken out, so that a caller who stops waiting drops it instead of leaving it half used.
        let mut conn = match home.take() {
            Some(conn) => conn,
            None => self.connected(end).await?,
        };
        let by = end.min(Instant::now() + self.options.statement);
        let sent = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut conn);
        match (timeout_at(by, sent).await, purpose) {
            (Ok(Ok(rows)), _) => {
                *home = Some(conn);
                Ok(rows)
            }
            (Ok(Err(error)), _) => {
                let failure = match purpose {
                    Purpose::Write => after_send(&error),
                    Purpose::Read => nothing_written(&error),
                };
                // The server answered, so the connection is sound; not so after anything else.
                if let Failure::Again(_) | Failure::Final(StoreError::Conflict(_)) = failure {
                    *home = Some(conn);
                }
                Err(failure)
            }
            (Err(_), Purpose::Write) => {
                Err(Failure::Final(StoreError::Unknown("the server does not answer".into())))
            }
            (Err(_), Purpose::Read) => Err(unavailable("the server does not answer")),
        }
    }
}

/// Reads the address; nothing of a statement is ever logged.
pub(crate) fn connect_options(url: &str) -> Result<PgConnectOptions, StoreError> {
    // WHY: the driver's error would repeat the address, and with it the password.
    let options = PgConnectOptions::from_str(url)
        .map_err(|_| StoreError::Unavailable("the database address cannot be read".into()))?;
    // Poolers refuse start-up parameters they do not know.
    Ok(options
        .application_name("wicketgate")
        .extra_float_digits(None)
        .statement_cache_capacity(0)
        .disable_statement_logging())
}
