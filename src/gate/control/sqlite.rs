//! The list in the SQLite ledger's file, on a connection separate from the writer's.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::wire::{self, Columns};
use super::{Order, OrderOrigin, OrderReport, Orders, Presence, Row};
use crate::domain::canonical;
use crate::domain::time::Timestamp;
use crate::ledger::rows::DatabaseRow;
use crate::ledger::sqlite::rows::sql;
use crate::ledger::sqlite::{SqliteLane, on_lane, options, transaction};
use crate::ledger::store::StoreError;

/// How long an order waits for the ledger's writer to release the file.
const BUSY: Duration = Duration::from_secs(4);

/// The list of a single machine.
#[derive(Debug)]
pub struct SqliteControl {
    lane: SqliteLane,
    /// Notified of every row added.
    put: Arc<Notify>,
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
    /// As `open`.
    pub async fn beside(&self, path: &Path) -> Result<Self, StoreError> {
        Ok(Self { put: Arc::clone(&self.put), ..Self::open(path).await? })
    }
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
        let added = on_lane!(self.lane, conn => transaction!(conn => async {
            let next = sql("SELECT coalesce(max(seq), 0) + 1 AS seq FROM control_row");
            let seq = next.one(conn).await?.number("seq")?;
            let insert = sql("INSERT INTO control_row VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
            let insert = insert.number(seq).integer(new.at).text(&new.kind).text(&new.body);
            let insert = insert.text(&new.subject).text(&new.roles).text(&new.auth);
            insert.text(&new.reason).maybe_integer(new.expires).run(conn).await?;
            Ok(seq)
        }));
        self.put.notify_one();
        added
    }

    async fn since(&self, seq: u64, most: usize) -> Result<Vec<Row>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let query = sql("SELECT * FROM control_row WHERE seq > ? ORDER BY seq LIMIT ?");
        // An operator chooses it, and no row has a number above SQLite's largest.
        let query = query.integer(i64::try_from(seq).unwrap_or(i64::MAX)).integer(most);
        on_lane!(self.lane, conn => query.all(conn))?.iter().map(wire::order).collect()
    }

    async fn report(&self, report: &OrderReport) -> Result<(), StoreError> {
        let insert = sql("INSERT INTO control_report VALUES (?, ?, ?, ?)
             ON CONFLICT DO UPDATE SET at = excluded.at, done = excluded.done");
        let insert = insert.number(report.seq).text(&report.origin).integer(report.at.millis());
        let insert = insert.text(&canonical::text(&report.done));
        on_lane!(self.lane, conn => transaction!(conn => insert.run(conn)))
    }

    async fn reports(&self, seq: u64) -> Result<Vec<OrderReport>, StoreError> {
        let query = sql("SELECT * FROM control_report WHERE seq = ? ORDER BY origin").number(seq);
        on_lane!(self.lane, conn => query.all(conn))?.iter().map(wire::report).collect()
    }

    async fn show(&self, presence: &Presence) -> Result<(), StoreError> {
        let insert = sql("INSERT INTO control_presence VALUES (?, ?, ?, ?, ?)
             ON CONFLICT DO UPDATE SET writer = excluded.writer, at = excluded.at,
               seq = excluded.seq, state = excluded.state");
        let insert = insert.text(&presence.origin).text(&presence.writer);
        let insert = insert.integer(presence.at.millis()).number(presence.seq);
        let insert = insert.text(&canonical::text(&presence.state));
        on_lane!(self.lane, conn => transaction!(conn => insert.run(conn)))
    }

    async fn shown(&self) -> Result<Vec<Presence>, StoreError> {
        let query = sql("SELECT * FROM control_presence ORDER BY origin");
        on_lane!(self.lane, conn => query.all(conn))?.iter().map(wire::presence).collect()
    }

    async fn put_here(&self) {
        self.put.notified().await;
    }
}
