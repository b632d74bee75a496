//! Converts rows of the list between the port's types and database columns.

use serde::{Serialize, Serializer};

use super::{Order, OrderOrigin, OrderReport, Presence, Row};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};
use crate::domain::time::Timestamp;
use crate::ledger::rows::{DatabaseRow, malformed};
use crate::ledger::store::StoreError;

/// One row, in database columns.
#[derive(Debug, Serialize)]
pub(super) struct Columns {
    pub seq: u64,
    #[serde(serialize_with = "as_text")]
    pub at: i64,
    pub kind: String,
    pub body: String,
    pub subject: String,
    pub roles: String,
    pub auth: String,
    pub reason: String,
    #[serde(serialize_with = "as_text", skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
}

/// Numbers of any size are text in what is hashed.
fn as_text<S: Serializer>(
    number: &(impl Into<Option<i64>> + Copy),
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_str(&(*number).into().unwrap_or_default())
}

impl Columns {
    /// The columns of a new order; the database assigns the number.
    pub fn of(at: Timestamp, given: &OrderOrigin, order: &Order) -> Self {
        Self {
            seq: 0,
            at: at.millis(),
            kind: order.kind().to_owned(),
            body: canonical::text(&order.to_json()),
            subject: given.subject.clone(),
            roles: canonical::text(&Json::of(&given.roles)),
            auth: given.auth.clone(),
            reason: given.reason.clone(),
            expires: given.expires.map(Timestamp::millis),
        }
    }

    /// SHA-256 of the canonical form of all columns.
    fn digest(&self) -> Digest {
        Digest::of(&[b"wicketgate/control-row/1\n", &canonical::bytes(&Json::of(self))])
    }

    /// Reads the columns. The order is `None` if this build does not know it; malformed columns are
    /// an error.
    pub fn read(self) -> Result<Row, StoreError> {
        let roles = json(&self.roles).and_then(|roles| roles.read().ok());
        let roles = roles.ok_or_else(|| {
            let seq = self.seq;
            StoreError::Broken(format!("order {seq} cannot be read: `roles` is malformed"))
        })?;
        let digest = self.digest();
        let order = json(&self.body).and_then(|body| Order::parse(&self.kind, &body));
        Ok(Row {
            seq: self.seq,
            at: Timestamp::from_millis(self.at),
            given: OrderOrigin {
                subject: self.subject,
                roles,
                auth: self.auth,
                reason: self.reason,
                expires: self.expires.map(Timestamp::from_millis),
            },
            order,
            digest,
        })
    }
}

/// Reads an order.
pub(super) fn order(row: &impl DatabaseRow) -> Result<Row, StoreError> {
    let columns = Columns {
        seq: row.number("seq")?,
        at: row.integer("at")?,
        kind: row.text("kind")?,
        body: row.text("body")?,
        subject: row.text("subject")?,
        roles: row.text("roles")?,
        auth: row.text("auth")?,
        reason: row.text("reason")?,
        expires: row.maybe_integer("expires")?,
    };
    columns.read()
}

/// Reads a report.
pub(super) fn report(row: &impl DatabaseRow) -> Result<OrderReport, StoreError> {
    Ok(OrderReport {
        seq: row.number("seq")?,
        origin: row.text("origin")?,
        at: row.time("at")?,
        done: json(&row.text("done")?).ok_or_else(|| malformed("done"))?,
    })
}

/// Reads a presence.
pub(super) fn presence(row: &impl DatabaseRow) -> Result<Presence, StoreError> {
    Ok(Presence {
        origin: row.text("origin")?,
        writer: row.text("writer")?,
        at: row.time("at")?,
        seq: row.number("seq")?,
        state: json(&row.text("state")?).ok_or_else(|| malformed("state"))?,
    })
}

/// Parses a stored JSON text.
fn json(text: &str) -> Option<Json> {
    Json::parse(text.as_bytes(), &Limits::FILE).ok()
}
