//! The list in Postgres beside the ledger, on one connection of its own.
//!
//! A gate reads the list and speaks about itself, showing the lease of its chain; only a login made by
//! `ledger migrate --operator` puts orders. The tenant is that of the login.

use std::sync::OnceLock;

use async_trait::async_trait;
use sqlx::postgres::PgRow;

use super::wire::{self, Columns};
use super::{Given, Order, Orders, Presence, Report, Row};
use crate::domain::canonical;
use crate::domain::time::Timestamp;
use crate::ledger::postgres::Options;
use crate::ledger::postgres::lane::{Lane, Purpose, connect_options};
use crate::ledger::postgres::literal::text;
use crate::ledger::postgres::rows::{get, number};
use crate::ledger::postgres::writer;
use crate::ledger::store::{LeaseKey, StoreError};

/// The list of the tenant of one login.
pub struct Postgres {
    lane: Lane,
    key: OnceLock<LeaseKey>,
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Postgres")
    }
}

impl Postgres {
    /// Reads the address; connects when there is something to do.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the address cannot be understood.
    pub fn lazy(url: &str, options: Options) -> Result<Self, StoreError> {
        Ok(Self { lane: Lane::new(connect_options(url)?, options), key: OnceLock::new() })
    }

    /// As [`Self::lazy`], then connects and checks that the schema is the one this build knows.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server does not answer or the schema is another.
    pub async fn connect(url: &str, options: Options) -> Result<Self, StoreError> {
        let list = Self::lazy(url, options)?;
        list.lane.anew().await?;
        Ok(list)
    }

    /// From now on it speaks for the chain of this lease. Said once; later words change nothing.
    pub fn speak_for(&self, key: &LeaseKey) {
        drop(self.key.set(key.clone()));
    }

    fn shown_key(&self) -> Result<String, StoreError> {
        let none = || StoreError::Unavailable("no slot is held: nobody to speak for".into());
        self.key.get().map(writer::shown).ok_or_else(none)
    }
}

fn columns(row: &PgRow) -> Result<Row, StoreError> {
    let columns = Columns {
        seq: number(row, "seq")?,
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

fn report(row: &PgRow) -> Result<Report, StoreError> {
    Ok(Report {
        seq: number(row, "seq")?,
        origin: get(row, "origin")?,
        at: Timestamp::from_millis(get(row, "at")?),
        done: wire::stored(&get::<String>(row, "done")?, "done")?,
    })
}

fn presence(row: &PgRow) -> Result<Presence, StoreError> {
    Ok(Presence {
        origin: get(row, "origin")?,
        writer: get(row, "writer")?,
        at: Timestamp::from_millis(get(row, "at")?),
        seq: number(row, "seq")?,
        state: wire::stored(&get::<String>(row, "state")?, "state")?,
    })
}

#[async_trait]
impl Orders for Postgres {
    async fn put(&self, at: Timestamp, given: &Given, order: &Order) -> Result<u64, StoreError> {
        let new = Columns::of(at, given, order);
        let expires = new.expires.map_or_else(|| "NULL".to_owned(), |at| at.to_string());
        let sql = format!(
            "SELECT ledger.control_put({}, {}, {}, {}, {}, {}, {}, {expires}) AS seq",
            new.at,
            text(&new.kind),
            text(&new.body),
            text(&new.subject),
            text(&new.roles),
            text(&new.auth),
            text(&new.reason),
        );
        let rows = self.lane.run(&sql, Purpose::Write).await?;
        number(writer::only(&rows)?, "seq")
    }

    async fn since(&self, seq: u64, most: usize) -> Result<Vec<Row>, StoreError> {
        let sql = format!("SELECT * FROM ledger.control_since({seq}, {most}) ORDER BY seq");
        self.lane.run(&sql, Purpose::Read).await?.iter().map(columns).collect()
    }

    async fn report(&self, report: &Report) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT ledger.control_report({}, {}, {}, {}, {})",
            self.shown_key()?,
            report.seq,
            text(&report.origin),
            report.at.millis(),
            text(&canonical::text(&report.done)),
        );
        self.lane.run(&sql, Purpose::Write).await.map(drop)
    }

    async fn reports(&self, seq: u64) -> Result<Vec<Report>, StoreError> {
        let sql = format!("SELECT * FROM ledger.control_reports({seq})");
        self.lane.run(&sql, Purpose::Read).await?.iter().map(report).collect()
    }

    async fn show(&self, presence: &Presence) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT ledger.control_show({}, {}, {}, {}, {})",
            self.shown_key()?,
            text(&presence.origin),
            text(&presence.writer),
            presence.seq,
            text(&canonical::text(&presence.state)),
        );
        self.lane.run(&sql, Purpose::Write).await.map(drop)
    }

    async fn shown(&self) -> Result<Vec<Presence>, StoreError> {
        let sql = "SELECT * FROM ledger.control_shown()";
        self.lane.run(sql, Purpose::Read).await?.iter().map(presence).collect()
    }
}
