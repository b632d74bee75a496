//! Sessions in the database of a hub: every replica knows those of the others, and each time is the database's.

use async_trait::async_trait;

use super::{
    CredentialKind, IDLE, LOGIN_WITHIN, LOGINS_MAX, LONGEST, OWN_MAX, SessionCredential,
    SessionStore, StoreError,
};
use crate::domain::digest::Digest;
use crate::ledger::postgres::Options;
use crate::ledger::postgres::lane::PostgresLane;
use crate::ledger::postgres::values::Values;
use crate::ledger::rows::{DatabaseRow as _, malformed};

/// The sessions of the tenant of one login.
#[derive(Debug)]
pub struct PostgresSessions {
    lane: PostgresLane,
}

impl PostgresSessions {
    /// Parses the address, that of a login made by `ledger migrate --operator`; connects on first use.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the address cannot be understood.
    pub fn lazy(url: &str) -> Result<Self, StoreError> {
        Ok(Self { lane: PostgresLane::to(url, Options::default())? })
    }

    /// Runs a function of the schema `console`.
    // WHY a read: each of these may be sent twice, so that nothing is in doubt after a lost answer. A login that was
    // taken by a lost answer is taken, and the browser begins another one.
    async fn call(
        &self,
        sql: &str,
        values: Values<'_>,
    ) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        self.lane.read(sql, values).await
    }

    /// The credential of an open session, by one of the functions that look for it.
    async fn open(&self, id: &Digest, sql: &str) -> Result<Option<SessionCredential>, StoreError> {
        let values = Values::new().bytes(id.as_bytes()).millis(IDLE).millis(LONGEST);
        let rows = self.call(sql, values).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let kind = CredentialKind::parse(&row.text("kind")?).ok_or_else(|| malformed("kind"))?;
        Ok(Some(SessionCredential { kind, digest: row.digest("credential")? }))
    }
}

#[async_trait]
impl SessionStore for PostgresSessions {
    async fn begin(&self, id: &Digest, credential: SessionCredential) -> Result<(), StoreError> {
        let values = Values::new()
            .bytes(id.as_bytes())
            .text(credential.kind.as_str())
            .bytes(credential.digest.as_bytes())
            .millis(IDLE)
            .millis(LONGEST)
            .number(OWN_MAX.into());
        let sql = "SELECT console.session_begin($1, $2, $3, $4, $5, $6)";
        self.call(sql, values).await.map(drop)
    }

    async fn find(&self, id: &Digest) -> Result<Option<SessionCredential>, StoreError> {
        self.open(id, "SELECT kind, credential FROM console.session_find($1, $2, $3)").await
    }

    async fn peek(&self, id: &Digest) -> Result<Option<SessionCredential>, StoreError> {
        self.open(id, "SELECT kind, credential FROM console.session_peek($1, $2, $3)").await
    }

    async fn end(&self, id: &Digest) -> Result<(), StoreError> {
        let sql = "SELECT console.session_end($1)";
        self.call(sql, Values::new().bytes(id.as_bytes())).await.map(drop)
    }

    async fn begin_login(&self, id: &Digest) -> Result<(), StoreError> {
        let values =
            Values::new().bytes(id.as_bytes()).millis(LOGIN_WITHIN).number(LOGINS_MAX.into());
        let sql = "SELECT console.login_begin($1, $2, $3)";
        self.call(sql, values).await.map(drop)
    }

    async fn take_login(&self, id: &Digest) -> Result<bool, StoreError> {
        let values = Values::new().bytes(id.as_bytes()).millis(LOGIN_WITHIN);
        let sql = "SELECT 1::bigint AS taken FROM console.login_take($1, $2) t WHERE t";
        Ok(!self.call(sql, values).await?.is_empty())
    }
}
