//! The writer of one chain.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::Row;

use super::lane::{Options, PostgresLane};
use super::values::Values;
use super::{rows, subtrees};
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ChainId, RunId, Seq};
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{
    AnchorRow, Batch, EntryRange, EntryRow, FleetView, HeadRow, LeaseKey, LeaseRequest, Leased,
    LedgerStore, PayloadRef, PayloadRow, Restart, StoreError,
};

/// A database, through two connections at most: one for appends, one for everything else.
#[derive(Debug)]
pub struct PostgresStore {
    appends: PostgresLane,
    others: PostgresLane,
}

/// The server's durability settings as it reports them; for the record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerSettings {
    /// Name and value of each, by name.
    pub values: Vec<(String, String)>,
}

const SETTINGS: [&str; 8] = [
    "fsync",
    "full_page_writes",
    "log_min_error_statement",
    "server_encoding",
    "server_version_num",
    "synchronous_commit",
    "synchronous_standby_names",
    "transaction_read_only",
];

impl PostgresStore {
    /// Parses the address, connects, and checks that this build writes the schema.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server does not answer or has another schema.
    pub async fn connect(url: &str, options: Options) -> Result<Self, StoreError> {
        let store = Self::lazy(url, options)?;
        store.check_version().await?;
        Ok(store)
    }

    /// Parses the address and connects on first use: a sidecar may start before its database.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the address cannot be parsed.
    pub fn lazy(url: &str, options: Options) -> Result<Self, StoreError> {
        Ok(Self {
            appends: PostgresLane::to(url, options.clone())?,
            others: PostgresLane::to(url, options)?,
        })
    }

    /// Checks that this build writes the schema.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the schema is another one or missing.
    pub async fn check_version(&self) -> Result<(), StoreError> {
        self.others.anew().await
    }

    /// Checks the settings that make a commit durable, and returns them.
    ///
    /// Every write checks the first three again, on the server.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], naming the setting.
    pub async fn assert_durable(&self) -> Result<ServerSettings, StoreError> {
        let columns = SETTINGS.map(|name| format!("current_setting('{name}') AS {name}"));
        let sql = format!("SELECT {}, pg_is_in_recovery() AS in_recovery", columns.join(", "));
        let rows = self.others.read(&sql, Values::new()).await?;
        let row = only(&rows)?;
        let mut values = Vec::new();
        for name in SETTINGS {
            values.push((name.to_owned(), row.text(name)?));
        }
        let refused = |name: &str, value: &str| {
            Err(StoreError::Unavailable(format!("`{name}` is `{value}`: a commit is not durable")))
        };
        for (name, value) in &values {
            let sound = match name.as_str() {
                "fsync" | "full_page_writes" => value == "on",
                "synchronous_commit" => value == "on" || value == "remote_apply",
                "server_encoding" => value == "UTF8",
                "transaction_read_only" => value == "off",
                _ => true,
            };
            if !sound {
                return refused(name, value);
            }
        }
        if rows::get::<bool>(row, "in_recovery")? {
            return refused("in recovery", "on");
        }
        Ok(ServerSettings { values })
    }
}

pub(crate) fn only(rows: &[Row]) -> Result<&Row, StoreError> {
    rows.first().ok_or_else(|| StoreError::Unavailable("the server sent no row".into()))
}

/// A slot that was taken under this secret.
pub(super) fn leased(row: &Row, secret: [u8; 32]) -> Result<Leased, StoreError> {
    row.leased(secret, rows::get(row, "same")?)
}

#[async_trait]
impl LedgerStore for PostgresStore {
    async fn durability(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.check_version().await?;
        Ok(self.assert_durable().await?.values)
    }

    async fn lease(&self, request: &LeaseRequest) -> Result<Leased, StoreError> {
        let previous = request.previous.as_ref();
        let values = Values::new()
            .text(&request.tenant)
            .text(&request.pool)
            .text(&request.writer)
            .maybe_bytes(previous.map(|key| key.secret.as_slice()))
            .maybe_bytes(previous.map(|key| key.chain.as_bytes().as_slice()))
            .bytes(&request.secret)
            .bytes(request.chain.as_bytes())
            .millis(request.term);
        let sql = "SELECT * FROM ledger.lease($1, $2, $3, $4, $5, $6, $7, $8)";
        let rows = self.appends.write(sql, values).await?;
        leased(only(&rows)?, request.secret)
    }

    async fn append(
        &self,
        key: &LeaseKey,
        expected: &HeadRow,
        batch: &Arc<Batch>,
    ) -> Result<(), StoreError> {
        batch.check(expected)?;
        let (entries, payloads) = (&batch.entries, batch.payloads.iter().map(|(_, row)| row));
        let completed = batch.completed(expected);
        let mut values = Values::of_lease(key)
            .number(expected.size)
            .bytes(expected.hash.as_bytes())
            .all_bytes(entries.iter().map(|e| e.leaf.as_bytes().as_slice()))
            .all_maybe_uuid(entries.iter().map(|e| e.run.map(|run| run.uuid())))
            .all_maybe_text(entries.iter().map(|e| e.call.as_ref().map(CallId::as_str)))
            .all_text(entries.iter().map(|e| e.kind.as_str()))
            .all_bytes(entries.iter().map(|e| e.body.as_slice()))
            .bytes(&batch.head.frontier)
            .text(&batch.head.checkpoint)
            .all_bytes(payloads.clone().map(|p| p.commitment.as_bytes().as_slice()))
            .all_bytes(payloads.clone().map(|p| p.salt.as_slice()))
            .all_text(payloads.clone().map(|p| p.role.as_str()))
            .all_text(payloads.clone().map(|p| p.media_type.as_str()))
            .all_bytes(payloads.clone().map(|p| p.body.as_slice()))
            .number(batch.signed_in().unwrap_or(key.epoch));
        let mut sql =
            "SELECT ledger.append_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, \
                       $13, $14, $15, $16, $17, $18)"
                .to_owned();
        if !completed.is_empty() {
            // In the same transaction; once every 256 entries.
            sql.push_str(", ledger.put_subtrees($1, $2, $3, $19, $20, $21)");
            values = subtrees::with(values, &completed);
        }
        self.appends.write(&sql, values).await.map(drop)
    }

    async fn put_payload(&self, key: &LeaseKey, payload: &PayloadRow) -> Result<(), StoreError> {
        let values = Values::of_lease(key)
            .bytes(payload.commitment.as_bytes())
            .bytes(&payload.salt)
            .text(&payload.role)
            .text(&payload.media_type)
            .bytes(&payload.body);
        self.others
            .write("SELECT ledger.put_payload($1, $2, $3, $4, $5, $6, $7, $8)", values)
            .await
            .map(drop)
    }

    async fn release(&self, key: &LeaseKey) -> Result<(), StoreError> {
        self.others
            .write("SELECT ledger.release_lease($1, $2, $3)", Values::of_lease(key))
            .await
            .map(drop)
    }

    async fn head(&self, key: &LeaseKey) -> Result<HeadRow, StoreError> {
        let sql = "SELECT * FROM ledger.read_head($1, $2, $3)";
        only(&self.others.read(sql, Values::of_lease(key)).await?)?.head()
    }

    async fn select(
        &self,
        key: &LeaseKey,
        range: EntryRange<'_>,
    ) -> Result<Vec<EntryRow>, StoreError> {
        let values = Values::of_lease(key);
        let (call, values) = match range {
            EntryRange::From(from, limit) => {
                ("tail($1, $2, $3, $4, $5)", values.number(from).number(limit.into()))
            }
            EntryRange::Run(run) => ("run_entries($1, $2, $3, $4)", values.uuid(run.uuid())),
            EntryRange::Call(run, call) => {
                ("call_entries($1, $2, $3, $4, $5)", values.uuid(run.uuid()).text(call.as_str()))
            }
            EntryRange::Lone(kinds, before, limit) => {
                let values = values.all_text(kinds.iter().copied());
                ("lone($1, $2, $3, $4, $5, $6)", values.number(before).number(limit.into()))
            }
        };
        let sql = format!("SELECT {} FROM ledger.{call} ORDER BY seq", rows::ENTRY);
        self.others.read(&sql, values).await?.iter().map(DatabaseRow::entry).collect()
    }

    async fn open_runs(&self, key: &LeaseKey) -> Result<Vec<RunId>, StoreError> {
        let sql = "SELECT r::text AS run_id FROM ledger.open_runs($1, $2, $3) r";
        let found = self.others.read(sql, Values::of_lease(key)).await?;
        found.iter().map(DatabaseRow::run_id).collect()
    }

    async fn payload(
        &self,
        key: &LeaseKey,
        at: &PayloadRef,
    ) -> Result<Option<PayloadRow>, StoreError> {
        let sql = format!("SELECT {} FROM ledger.read_payload($1, $2, $3, $4)", rows::PAYLOAD);
        let values = Values::of_lease(key).bytes(at.commitment.as_bytes());
        let found = self.others.read(&sql, values).await?;
        found.first().map(DatabaseRow::payload).transpose()
    }

    async fn fleet_view(
        &self,
        key: &LeaseKey,
        before: Option<&ChainId>,
    ) -> Result<FleetView, StoreError> {
        let before = before.map(|chain| chain.as_bytes().as_slice());
        let sql = "SELECT * FROM ledger.fleet_view($1, $2, $3, $4)";
        let found = self.others.read(sql, Values::of_lease(key).maybe_bytes(before)).await?;
        let first = only(&found)?;
        let fleet = match first.maybe_text("fleet")? {
            Some(origin) => Some((origin, first.number("fleet_size")?)),
            None => None,
        };
        let mut entries = Vec::new();
        for row in &found {
            entries.extend(row.maybe_bytes("body")?);
        }
        Ok(FleetView { fleet, forgotten: !rows::get::<bool>(first, "known")?, entries })
    }

    async fn signed_at(&self, key: &LeaseKey, size: Seq) -> Result<Option<String>, StoreError> {
        let sql = "SELECT ledger.signed_at($1, $2, $3, $4) AS note";
        let found = self.others.read(sql, Values::of_lease(key).number(size)).await?;
        only(&found)?.maybe_text("note")
    }

    async fn fleet_leaves(
        &self,
        key: &LeaseKey,
        from: Seq,
        limit: u32,
    ) -> Result<Vec<Digest>, StoreError> {
        let values = Values::of_lease(key).number(from).number(limit.into());
        let sql = "SELECT * FROM ledger.fleet_leaves($1, $2, $3, $4, $5)";
        let found = self.others.read(sql, values).await?;
        found.iter().map(|row| row.digest("leaf_hash")).collect()
    }

    async fn put_anchor(&self, key: &LeaseKey, anchor: &AnchorRow) -> Result<(), StoreError> {
        let tokens = anchor.tokens_text();
        let values = Values::of_lease(key).number(anchor.size).text(&anchor.note).text(&tokens);
        self.others
            .write("SELECT ledger.put_anchor($1, $2, $3, $4, $5, $6)", values)
            .await
            .map(drop)
    }

    async fn restart(&self, key: &LeaseKey, next: &Restart) -> Result<(), StoreError> {
        let entries = &next.batch.entries;
        let values = Values::of_lease(key)
            .bytes(next.key.chain.as_bytes())
            .number(next.key.epoch)
            .bytes(&next.key.secret)
            .number(next.n)
            .text(&next.origin)
            .all_bytes(entries.iter().map(|e| e.leaf.as_bytes().as_slice()))
            .all_text(entries.iter().map(|e| e.kind.as_str()))
            .all_bytes(entries.iter().map(|e| e.body.as_slice()))
            .bytes(&next.batch.head.frontier)
            .text(&next.batch.head.checkpoint);
        let sql = "SELECT ledger.restart($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
        self.appends.write(sql, values).await.map(drop)
    }
}
