//! The writer of one chain.

use async_trait::async_trait;
use sqlx::postgres::PgRow;

use super::lane::{Lane, Options, Purpose, connect_options};
use super::literal::{bytes, bytes_array, maybe_bytes, text, text_array};
use super::{rows, subtrees};
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ChainId, RunId, Seq};
use crate::ledger::store::{
    AnchorRow, Batch, EntryRow, FleetView, Head, LeaseKey, LeaseRequest, Leased, LedgerStore,
    PayloadRow, Restart, StoreError,
};

/// A database, through two connections at most: one for appends, one for everything else.
pub struct Postgres {
    appends: Lane,
    others: Lane,
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Postgres")
    }
}

/// Settings of the server on which durability rests, as it reports them; for the record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
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

impl Postgres {
    /// Reads the address, connects, and checks that the schema is the one this build writes.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server does not answer or the schema is another.
    pub async fn connect(url: &str, options: Options) -> Result<Self, StoreError> {
        let store = Self::lazy(url, options)?;
        store.check_version().await?;
        Ok(store)
    }

    /// Reads the address and connects when there is something to do: a sidecar may start before its
    /// database.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the address cannot be understood.
    pub fn lazy(url: &str, options: Options) -> Result<Self, StoreError> {
        let connect = connect_options(url)?;
        let appends = Lane::new(connect.clone(), options.clone());
        Ok(Self { appends, others: Lane::new(connect, options) })
    }

    /// Checks that the schema is the one this build writes.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if it is another or there is none.
    pub async fn check_version(&self) -> Result<(), StoreError> {
        self.others.anew().await
    }

    /// Checks the settings without which a commit would not be durable, and returns them.
    ///
    /// Every write checks the first three again, on the server.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], naming the setting.
    pub async fn assert_durable(&self) -> Result<Settings, StoreError> {
        let columns = SETTINGS.map(|name| format!("current_setting('{name}') AS {name}"));
        let sql = format!("SELECT {}, pg_is_in_recovery() AS in_recovery", columns.join(", "));
        let rows = self.others.run(&sql, Purpose::Read).await?;
        let row = only(&rows)?;
        let mut values = Vec::new();
        for name in SETTINGS {
            values.push((name.to_owned(), rows::get::<String>(row, name)?));
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
        Ok(Settings { values })
    }

    async fn entries(&self, call: &str) -> Result<Vec<EntryRow>, StoreError> {
        let sql = format!("SELECT {} FROM ledger.{call} ORDER BY seq", rows::ENTRY);
        self.others.run(&sql, Purpose::Read).await?.iter().map(rows::entry).collect()
    }
}

pub(crate) fn only(rows: &[PgRow]) -> Result<&PgRow, StoreError> {
    rows.first().ok_or_else(|| StoreError::Unavailable("the server sent no row".into()))
}

/// The first arguments of every function.
pub(crate) fn shown(key: &LeaseKey) -> String {
    format!("{}, {}, {}", bytes(key.chain.as_bytes()), key.epoch, bytes(&key.secret))
}

/// A slot that was taken under this secret.
pub(super) fn leased(row: &PgRow, secret: [u8; 32]) -> Result<Leased, StoreError> {
    Ok(Leased {
        key: LeaseKey { chain: rows::chain_id(row)?, epoch: rows::number(row, "epoch")?, secret },
        slot: rows::get(row, "slot")?,
        origin: rows::get(row, "origin")?,
        same_writer: rows::get(row, "same")?,
        head: rows::head(row)?,
    })
}

#[async_trait]
impl LedgerStore for Postgres {
    async fn durability(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.check_version().await?;
        Ok(self.assert_durable().await?.values)
    }

    async fn lease(&self, request: &LeaseRequest) -> Result<Leased, StoreError> {
        let previous = request.previous.as_ref().map(|key| key.secret.as_slice());
        let sql = format!(
            "SELECT * FROM ledger.lease({}, {}, {}, {}, {}, {}, {}, {})",
            text(&request.tenant),
            text(&request.pool),
            text(&request.writer),
            maybe_bytes(previous),
            maybe_bytes(request.previous.as_ref().map(|key| key.chain.as_bytes().as_slice())),
            bytes(&request.secret),
            bytes(request.chain.as_bytes()),
            i64::try_from(request.term.as_millis()).unwrap_or(i64::MAX),
        );
        let rows = self.appends.run(&sql, Purpose::Write).await?;
        leased(only(&rows)?, request.secret)
    }

    async fn append(
        &self,
        key: &LeaseKey,
        expected: &Head,
        batch: &Batch,
    ) -> Result<(), StoreError> {
        batch.check(expected)?;
        let entries = &batch.entries;
        let runs: Vec<Option<String>> =
            entries.iter().map(|e| e.run.map(|run| run.to_string())).collect();
        let payloads = &batch.payloads;
        let mut sql = format!(
            "SELECT ledger.append_batch({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})",
            shown(key),
            expected.size,
            bytes(expected.hash.as_bytes()),
            bytes_array(entries.iter().map(|e| e.leaf.as_bytes().as_slice())),
            text_array(runs.iter().map(Option::as_deref), "uuid"),
            text_array(entries.iter().map(|e| e.call.as_ref().map(CallId::as_str)), "text"),
            text_array(entries.iter().map(|e| Some(e.kind.as_str())), "text"),
            bytes_array(entries.iter().map(|e| e.body.as_slice())),
            bytes(&batch.head.frontier),
            text(&batch.head.checkpoint),
            bytes_array(payloads.iter().map(|p| p.commitment.as_bytes().as_slice())),
            bytes_array(payloads.iter().map(|p| p.salt.as_slice())),
            text_array(payloads.iter().map(|p| Some(p.role.as_str())), "text"),
            format_args!(
                "{}, {}",
                text_array(payloads.iter().map(|p| Some(p.media_type.as_str())), "text"),
                bytes_array(payloads.iter().map(|p| p.body.as_slice())),
            ),
            batch.signed_in().unwrap_or(key.epoch),
        );
        let completed = batch.completed(expected);
        if !completed.is_empty() {
            // In the same round trip and transaction; once every 256 entries.
            sql.push_str(&subtrees::put(&shown(key), &completed));
        }
        self.appends.run(&sql, Purpose::Write).await.map(drop)
    }

    async fn put_payload(&self, key: &LeaseKey, payload: &PayloadRow) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT ledger.put_payload({}, {}, {}, {}, {}, {})",
            shown(key),
            bytes(payload.commitment.as_bytes()),
            bytes(&payload.salt),
            text(&payload.role),
            text(&payload.media_type),
            bytes(&payload.body),
        );
        self.others.run(&sql, Purpose::Write).await.map(drop)
    }

    async fn release(&self, key: &LeaseKey) -> Result<(), StoreError> {
        let sql = format!("SELECT ledger.release_lease({})", shown(key));
        self.others.run(&sql, Purpose::Write).await.map(drop)
    }

    async fn head(&self, key: &LeaseKey) -> Result<Head, StoreError> {
        let sql = format!("SELECT * FROM ledger.read_head({})", shown(key));
        let rows = self.others.run(&sql, Purpose::Read).await?;
        rows::head(only(&rows)?)
    }

    async fn tail(
        &self,
        key: &LeaseKey,
        from: Seq,
        limit: u32,
    ) -> Result<Vec<EntryRow>, StoreError> {
        self.entries(&format!("tail({}, {from}, {limit})", shown(key))).await
    }

    async fn open_runs(&self, key: &LeaseKey) -> Result<Vec<RunId>, StoreError> {
        let sql = format!("SELECT r::text AS run_id FROM ledger.open_runs({}) r", shown(key));
        let found = self.others.run(&sql, Purpose::Read).await?;
        found.iter().map(|row| rows::run_id(&rows::get::<String>(row, "run_id")?)).collect()
    }

    async fn run_entries(&self, key: &LeaseKey, run: &RunId) -> Result<Vec<EntryRow>, StoreError> {
        self.entries(&format!("run_entries({}, '{run}')", shown(key))).await
    }

    async fn call_entries(
        &self,
        key: &LeaseKey,
        run: &RunId,
        call: &CallId,
    ) -> Result<Vec<EntryRow>, StoreError> {
        let call = text(call.as_str());
        self.entries(&format!("call_entries({}, '{run}', {call})", shown(key))).await
    }

    async fn payload(&self, key: &LeaseKey, c: &Digest) -> Result<Option<PayloadRow>, StoreError> {
        let call = format!("ledger.read_payload({}, {})", shown(key), bytes(c.as_bytes()));
        let sql = format!("SELECT {} FROM {call}", rows::PAYLOAD);
        let found = self.others.run(&sql, Purpose::Read).await?;
        found.first().map(rows::payload).transpose()
    }

    async fn fleet_view(
        &self,
        key: &LeaseKey,
        before: Option<&ChainId>,
    ) -> Result<FleetView, StoreError> {
        let before = maybe_bytes(before.map(|chain| chain.as_bytes().as_slice()));
        let sql = format!("SELECT * FROM ledger.fleet_view({}, {before})", shown(key));
        let found = self.others.run(&sql, Purpose::Read).await?;
        let first = only(&found)?;
        let fleet = match rows::get::<Option<String>>(first, "fleet")? {
            Some(origin) => Some((origin, rows::number(first, "fleet_size")?)),
            None => None,
        };
        let mut said = Vec::new();
        for row in &found {
            said.extend(rows::get::<Option<Vec<u8>>>(row, "body")?);
        }
        Ok(FleetView { fleet, forgotten: !rows::get::<bool>(first, "known")?, said })
    }

    async fn signed_at(&self, key: &LeaseKey, size: Seq) -> Result<Option<String>, StoreError> {
        let sql = format!("SELECT ledger.signed_at({}, {size}) AS note", shown(key));
        rows::get(only(&self.others.run(&sql, Purpose::Read).await?)?, "note")
    }

    async fn fleet_leaves(
        &self,
        key: &LeaseKey,
        from: Seq,
        limit: u32,
    ) -> Result<Vec<Digest>, StoreError> {
        let call = format!("ledger.fleet_leaves({}, {from}, {limit})", shown(key));
        let found = self.others.run(&format!("SELECT * FROM {call}"), Purpose::Read).await?;
        found.iter().map(|row| rows::digest(row, "leaf_hash")).collect()
    }

    async fn put_anchor(&self, key: &LeaseKey, anchor: &AnchorRow) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT ledger.put_anchor({}, {}, {}, {})",
            shown(key),
            anchor.size,
            text(&anchor.note),
            text(&anchor.tokens_text()),
        );
        self.others.run(&sql, Purpose::Write).await.map(drop)
    }

    async fn restart(&self, key: &LeaseKey, next: &Restart) -> Result<(), StoreError> {
        let entries = &next.batch.entries;
        let sql = format!(
            "SELECT ledger.restart({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})",
            shown(key),
            bytes(next.key.chain.as_bytes()),
            next.key.epoch,
            bytes(&next.key.secret),
            next.n,
            text(&next.origin),
            bytes_array(entries.iter().map(|e| e.leaf.as_bytes().as_slice())),
            text_array(entries.iter().map(|e| Some(e.kind.as_str())), "text"),
            bytes_array(entries.iter().map(|e| e.body.as_slice())),
            bytes(&next.batch.head.frontier),
            text(&next.batch.head.checkpoint),
        );
        self.appends.run(&sql, Purpose::Write).await.map(drop)
    }
}
