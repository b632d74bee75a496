//! The list in the SQLite ledger's file, on a connection separate from the writer's.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::query;
use sqlx::sqlite::SqliteRow;
use tokio::sync::Notify;

use super::wire::{self, Columns};
use super::{Order, OrderOrigin, OrderReport, Orders, Presence, Row};
use crate::domain::canonical;
use crate::domain::time::Timestamp;
use crate::ledger::sqlite::rows::{get, signed, unsigned};
use crate::ledger::sqlite::steps::{begin, finish, run};
use crate::ledger::sqlite::{SqliteLane, before_commit, bounded, options};
use crate::ledger::store::StoreError;

/// How long an order waits for the ledger's writer to release the file.
const BUSY: Duration = Duration::from_secs(4);

/// The list of a single machine.
pub struct SqliteControl {
    lane: SqliteLane,
    /// Notified of every row added.
    put: Arc<Notify>,
}

impl std::fmt::Debug for SqliteControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sqlite")
    }
}

/// Borrows the connection for one call.
macro_rules! call {
    ($self:ident, $conn:ident => $work:expr) => {{
        let mut turn = $self.lane.take().await?;
        let $conn = &mut turn.conn;
        let answer = bounded($work).await;
        turn.settle(&answer);
        answer
    }};
}

impl SqliteControl {
    /// Opens the list in this ledger's file, which [`crate::ledger::sqlite::Sqlite`] has created.
    ///
    /// # Errors
    /// The file does not exist or has another schema.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        let options = options(path).create_if_missing(false).busy_timeout(BUSY);
        let list = Self { lane: SqliteLane::writing(options), put: Arc::default() };
        list.lane.check_version().await?;
        Ok(list)
    }

    /// A second connection to the same list, so that an order that waits for the file does not
    /// block readers. Rows added through either connection notify both.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn beside(&self, path: &Path) -> Result<Self, StoreError> {
        Ok(Self { put: Arc::clone(&self.put), ..Self::open(path).await? })
    }
}

fn columns(row: &SqliteRow) -> Result<Row, StoreError> {
    let columns = Columns {
        seq: unsigned(get(row, "seq")?)?,
        at: get(row, "at")?,
        kind: get(row, "kind")?,
        body: get(row, "body")?,
        subject: get(row, "subject")?,
        roles: get(row, "roles")?,
        auth: get(row, "auth")?,
        reason: get(row, "reason")?,
        expires: get(row, "expires")?,
    };
    columns.read()
}

fn report(row: &SqliteRow) -> Result<OrderReport, StoreError> {
    Ok(OrderReport {
        seq: unsigned(get(row, "seq")?)?,
        origin: get(row, "origin")?,
        at: Timestamp::from_millis(get(row, "at")?),
        done: wire::stored(&get::<String>(row, "done")?, "done")?,
    })
}

fn presence(row: &SqliteRow) -> Result<Presence, StoreError> {
    Ok(Presence {
        origin: get(row, "origin")?,
        writer: get(row, "writer")?,
        at: Timestamp::from_millis(get(row, "at")?),
        seq: unsigned(get(row, "seq")?)?,
        state: wire::stored(&get::<String>(row, "state")?, "state")?,
    })
}

#[async_trait]
impl Orders for SqliteControl {
    async fn put(
        &self,
        at: Timestamp,
        given: &OrderOrigin,
        order: &Order,
    ) -> Result<u64, StoreError> {
        let new = Columns::of(at, given, order);
        let put = call!(self, conn => async {
            begin(conn).await?;
            let put = async {
                let next = query("SELECT coalesce(max(seq), 0) + 1 AS seq FROM control_row");
                let next = next.fetch_one(&mut *conn).await.map_err(|e| before_commit(&e))?;
                let seq: i64 = get(&next, "seq")?;
                let insert = query("INSERT INTO control_row VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
                    .bind(seq)
                    .bind(new.at)
                    .bind(new.kind)
                    .bind(new.body)
                    .bind(new.subject)
                    .bind(new.roles)
                    .bind(new.auth)
                    .bind(new.reason)
                    .bind(new.expires);
                run(insert, conn).await?;
                unsigned(seq)
            };
            let put = put.await;
            finish(conn, put).await
        });
        self.put.notify_one();
        put
    }

    async fn since(&self, seq: u64, most: usize) -> Result<Vec<Row>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let found = call!(self, conn => async {
            query("SELECT * FROM control_row WHERE seq > ? ORDER BY seq LIMIT ?")
                .bind(signed(seq)?)
                .bind(most)
                .fetch_all(conn)
                .await
                .map_err(|e| before_commit(&e))
        })?;
        found.iter().map(columns).collect()
    }

    async fn report(&self, report: &OrderReport) -> Result<(), StoreError> {
        call!(self, conn => async {
            let put = query(
                "INSERT INTO control_report VALUES (?, ?, ?, ?)
                 ON CONFLICT DO UPDATE SET at = excluded.at, done = excluded.done",
            )
            .bind(signed(report.seq)?)
            .bind(report.origin.clone())
            .bind(report.at.millis())
            .bind(canonical::text(&report.done));
            begin(conn).await?;
            let put = run(put, conn).await;
            finish(conn, put).await
        })
    }

    async fn reports(&self, seq: u64) -> Result<Vec<OrderReport>, StoreError> {
        let found = call!(self, conn => async {
            query("SELECT * FROM control_report WHERE seq = ? ORDER BY origin")
                .bind(signed(seq)?)
                .fetch_all(conn)
                .await
                .map_err(|e| before_commit(&e))
        })?;
        found.iter().map(report).collect()
    }

    async fn show(&self, presence: &Presence) -> Result<(), StoreError> {
        call!(self, conn => async {
            let put = query(
                "INSERT INTO control_presence VALUES (?, ?, ?, ?, ?)
                 ON CONFLICT DO UPDATE SET writer = excluded.writer, at = excluded.at,
                   seq = excluded.seq, state = excluded.state",
            )
            .bind(presence.origin.clone())
            .bind(presence.writer.clone())
            .bind(presence.at.millis())
            .bind(signed(presence.seq)?)
            .bind(canonical::text(&presence.state));
            begin(conn).await?;
            let put = run(put, conn).await;
            finish(conn, put).await
        })
    }

    async fn shown(&self) -> Result<Vec<Presence>, StoreError> {
        let found = call!(self, conn => async {
            query("SELECT * FROM control_presence ORDER BY origin")
                .fetch_all(conn)
                .await
                .map_err(|e| before_commit(&e))
        })?;
        found.iter().map(presence).collect()
    }

    async fn put_here(&self) {
        self.put.notified().await;
    }
}
