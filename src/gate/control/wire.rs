//! Converts rows of the list between the port's types and database columns.

use super::{Order, OrderOrigin, Row};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};
use crate::domain::time::Timestamp;
use crate::ledger::store::StoreError;

/// One row, in database columns.
#[derive(Debug)]
pub(super) struct Columns {
    pub seq: u64,
    pub at: i64,
    pub kind: String,
    pub body: String,
    pub subject: String,
    pub roles: String,
    pub auth: String,
    pub reason: String,
    pub expires: Option<i64>,
}

impl Columns {
    /// The columns of a new order; the database assigns the number.
    pub fn of(at: Timestamp, given: &OrderOrigin, order: &Order) -> Self {
        let roles: Vec<Json> = given.roles.iter().map(|role| Json::from(role.as_str())).collect();
        Self {
            seq: 0,
            at: at.millis(),
            kind: order.kind().to_owned(),
            body: canonical::text(&order.to_json()),
            subject: given.subject.clone(),
            roles: canonical::text(&roles.into()),
            auth: given.auth.clone(),
            reason: given.reason.clone(),
            expires: given.expires.map(Timestamp::millis),
        }
    }

    /// The same columns with this number.
    pub const fn numbered(mut self, seq: u64) -> Self {
        self.seq = seq;
        self
    }

    /// SHA-256 of the canonical form of all columns.
    fn digest(&self) -> Digest {
        let text = |text: &str| Json::from(text);
        let number = |n: i64| Json::from(n.to_string());
        let expires = self.expires.map(|at| ("expires", number(at)));
        let members = [
            ("seq", Json::from(self.seq)),
            ("at", number(self.at)),
            ("kind", text(&self.kind)),
            ("body", text(&self.body)),
            ("subject", text(&self.subject)),
            ("roles", text(&self.roles)),
            ("auth", text(&self.auth)),
            ("reason", text(&self.reason)),
        ];
        let row = Json::object(members.into_iter().chain(expires));
        Digest::of(&[b"wicketgate/control-row/1\n", &canonical::bytes(&row)])
    }

    /// Reads the columns. The order is `None` if this build does not know it; malformed columns are
    /// an error.
    pub fn read(self) -> Result<Row, StoreError> {
        let odd = |what: &str| {
            StoreError::Broken(format!("order {} cannot be read: `{what}` is malformed", self.seq))
        };
        let roles = json(&self.roles).ok_or_else(|| odd("roles"))?;
        let roles = roles.as_array().ok_or_else(|| odd("roles"))?.iter();
        let roles = roles.map(|role| role.as_str().map(str::to_owned));
        let roles = roles.collect::<Option<Vec<_>>>().ok_or_else(|| odd("roles"))?;
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

/// Parses a stored JSON text.
pub(super) fn json(text: &str) -> Option<Json> {
    Json::parse(text.as_bytes(), &Limits::FILE).ok()
}

/// Parses a stored JSON text, and reports a malformed one as a broken store.
pub(super) fn stored(text: &str, what: &str) -> Result<Json, StoreError> {
    let odd = || StoreError::Broken(format!("a stored row cannot be read: `{what}` is malformed"));
    json(text).ok_or_else(odd)
}
