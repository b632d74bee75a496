//! One connection with a time limit on every use, dropped after any doubt. Each new connection
//! checks the schema first.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;

use super::address::Address;
use super::errors::{Failure, after_send, nothing_written, unknown};
use super::link::{Answers, PostgresLink};
use super::values::Values;
use super::version;
use crate::catalog::unreached::Unreached;
use crate::ledger::store::StoreError;
use crate::record::debug_by;

/// How many times the same bytes are sent at once after 40001 or 40P01.
const ATTEMPTS: u32 = 3;

/// What the server answers to a statement that took too long.
pub(crate) const TOO_LONG: &str = "57014";

/// How long things may take.
#[derive(Clone, Debug)]
pub struct Options {
    /// Making a connection: default 1 s.
    pub connect: Duration,
    /// One statement: default 2 s.
    pub statement: Duration,
    /// One call, including its turn, connecting and retries: default 2.4 s.
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
enum Purpose {
    /// It writes: a lost answer is `Unknown`.
    Write,
    /// It only reads: a lost answer is `Unavailable`, after one more try on a new connection.
    Read,
}

/// One connection.
pub(crate) struct PostgresLane {
    address: Address,
    options: Options,
    /// What opens each transaction.
    opening: String,
    home: Mutex<Option<PostgresLink>>,
}

debug_by!(PostgresLane);

impl PostgresLane {
    /// A lane to the database of this URL; connects on first use.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the URL cannot be parsed.
    pub(crate) fn to(url: &str, options: Options) -> Result<Self, StoreError> {
        // WHY: the server's timeout comes before ours, so that a slow statement is known to be
        // aborted. Only for this transaction: behind a pooler the session is not ours.
        let allowed = options.statement.saturating_mul(9) / 10;
        let opening =
            format!("BEGIN; SET LOCAL statement_timeout = {}", allowed.as_millis().max(1));
        Ok(Self { address: Address::parse(url)?, options, opening, home: Mutex::new(None) })
    }

    /// The same lane; statements find their tables and functions in this schema.
    pub(crate) fn within(mut self, schema: &str) -> Self {
        self.opening.push_str(&format!("; SET LOCAL search_path = {schema}, pg_catalog"));
        self
    }

    /// As [`Self::to`], with this time limit of a statement; connects, and so checks the schema.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server does not answer or has another schema.
    pub(super) async fn connect(url: &str, statement: Duration) -> Result<Self, StoreError> {
        let options = Options { statement, call: statement, ..Options::default() };
        let lane = Self::to(url, options)?;
        lane.anew().await?;
        Ok(lane)
    }

    /// Reads; after a lost answer nothing is in doubt.
    pub(crate) async fn read(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, StoreError> {
        self.run(sql, &values, Purpose::Read).await
    }

    /// Writes; after a lost answer it may have been done.
    pub(crate) async fn write(
        &self,
        sql: &str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.run(sql, &values, Purpose::Write).await
    }

    /// Reconnects, and so checks the schema again.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server does not answer or its schema is not for this
    /// build.
    pub(crate) async fn anew(&self) -> Result<(), StoreError> {
        let end = Instant::now() + self.options.call;
        let mut home = self.turn(end).await?;
        *home = None;
        *home = Some(self.connected(end).await.map_err(Failure::into_inner)?);
        Ok(())
    }

    async fn turn(&self, end: Instant) -> Result<MutexGuard<'_, Option<PostgresLink>>, StoreError> {
        let turn = timeout_at(end, self.home.lock()).await;
        turn.map_err(|_| StoreError::Unavailable("the connection is busy".into()))
    }

    /// A new connection to a server with a schema for this build.
    async fn connected(&self, end: Instant) -> Result<PostgresLink, Failure> {
        let by = end.min(Instant::now() + self.options.connect);
        let made = async {
            let mut link = PostgresLink::open(&self.address).await?;
            version::check(&mut link).await?;
            Ok(link)
        };
        timeout_at(by, made).await.unwrap_or_else(|_| {
            let unreached = Unreached { address: self.address.place(), end: ErrorKind::TimedOut };
            Err(Failure::Final(StoreError::Unavailable(unreached.to_string())))
        })
    }

    /// Sends the statement and returns all rows, once the server has confirmed its end.
    async fn run(
        &self,
        sql: &str,
        values: &Values<'_>,
        purpose: Purpose,
    ) -> Result<Vec<Row>, StoreError> {
        let end = Instant::now() + self.options.call;
        let mut home = self.turn(end).await?;
        let mut attempt = 1;
        loop {
            let reused = home.is_some();
            let failure = match self.once(&mut home, (sql, values), purpose, end).await {
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
            // A restart may have killed an idle connection; a read may simply retry.
            let stale = purpose == Purpose::Read && reused && home.is_none() && attempt == 1;
            // What took too long would take as long again, and the answer would come too late.
            let lost = matches!(&error, StoreError::Unavailable(why) if !why.starts_with(TOO_LONG));
            if !(stale && lost && Instant::now() < end) {
                return Err(error);
            }
            attempt += 1;
        }
    }

    async fn once(
        &self,
        home: &mut Option<PostgresLink>,
        (sql, values): (&str, &Values<'_>),
        purpose: Purpose,
        end: Instant,
    ) -> Result<Vec<Row>, Failure> {
        // WHY taken out: a caller that stops waiting then drops the connection and does not leave
        // it half used.
        let mut link = match home.take() {
            Some(link) => link,
            None => self.connected(end).await?,
        };
        let by = end.min(Instant::now() + self.options.statement);
        let answers = timeout_at(by, link.transaction(&self.opening, sql, values)).await;
        let Ok(answers) = answers else {
            let silent = "the server does not answer".to_owned();
            return Err(Failure::Final(match purpose {
                Purpose::Write => StoreError::Unknown(silent),
                Purpose::Read => StoreError::Unavailable(silent),
            }));
        };
        let answered = answers.opened.is_ok() && answers.committed.is_ok();
        let outcome = outcome(answers, purpose);
        // The server answered everything, so the connection is sound; after anything else it is
        // not.
        let plain = matches!(
            outcome,
            Ok(_) | Err(Failure::Again(_) | Failure::Final(StoreError::Conflict(_)))
        );
        *home = Some(link).filter(|_| answered && plain);
        outcome
    }
}

/// The combined meaning of the answers to a transaction.
fn outcome(answers: Answers, purpose: Purpose) -> Result<Vec<Row>, Failure> {
    let Answers { opened, rows, committed } = answers;
    match purpose {
        Purpose::Read => opened
            .and(rows)
            .and_then(|rows| committed.map(|()| rows))
            .map_err(|e| nothing_written(&e)),
        Purpose::Write => {
            // WHY: without its BEGIN the statement was its own transaction, whatever the rest did.
            opened.map_err(|e| unknown(&e))?;
            rows.and_then(|rows| committed.map(|()| rows)).map_err(|e| after_send(&e))
        }
    }
}
