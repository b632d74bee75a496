//! The values of one statement: bound, in binary, never part of its text.

use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::ledger::store::LeaseKey;

/// Values in the order of `$1`, `$2`, …, each with its type, so that no statement needs preparing.
pub(crate) struct Values<'a>(Vec<(Box<dyn ToSql + Sync + Send + 'a>, Type)>);

impl<'a> Values<'a> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// `$1`, `$2` and `$3`: the first arguments of each function of a writer.
    pub(crate) fn of_lease(key: &'a LeaseKey) -> Self {
        Self::new().bytes(key.chain.as_bytes()).number(key.epoch).bytes(&key.secret)
    }

    fn with(mut self, value: impl ToSql + Sync + Send + 'a, of: Type) -> Self {
        self.0.push((Box::new(value), of));
        self
    }

    pub(crate) fn bytes(self, value: &'a [u8]) -> Self {
        self.with(value, Type::BYTEA)
    }

    pub(crate) fn maybe_bytes(self, value: Option<&'a [u8]>) -> Self {
        self.with(value, Type::BYTEA)
    }

    pub(crate) fn all_bytes(self, values: impl Iterator<Item = &'a [u8]>) -> Self {
        self.with(values.collect::<Vec<_>>(), Type::BYTEA_ARRAY)
    }

    pub(crate) fn text(self, value: &'a str) -> Self {
        self.with(value, Type::TEXT)
    }

    pub(crate) fn maybe_text(self, value: Option<&'a str>) -> Self {
        self.with(value, Type::TEXT)
    }

    pub(crate) fn all_text(self, values: impl Iterator<Item = &'a str>) -> Self {
        self.with(values.collect::<Vec<_>>(), Type::TEXT_ARRAY)
    }

    pub(crate) fn all_maybe_text(self, values: impl Iterator<Item = Option<&'a str>>) -> Self {
        self.with(values.collect::<Vec<_>>(), Type::TEXT_ARRAY)
    }

    pub(crate) fn uuid(self, value: Uuid) -> Self {
        self.with(value, Type::UUID)
    }

    pub(crate) fn all_maybe_uuid(self, values: impl Iterator<Item = Option<Uuid>>) -> Self {
        self.with(values.collect::<Vec<_>>(), Type::UUID_ARRAY)
    }

    /// A `bigint`; saturates at the largest one.
    pub(crate) fn number(self, value: u64) -> Self {
        self.integer(bigint(value))
    }

    /// A `bigint` of milliseconds.
    pub(crate) fn millis(self, value: Duration) -> Self {
        self.number(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn integer(self, value: i64) -> Self {
        self.with(value, Type::INT8)
    }

    pub(crate) fn maybe_integer(self, value: Option<i64>) -> Self {
        self.with(value, Type::INT8)
    }

    pub(crate) fn all_numbers(self, values: impl Iterator<Item = u64>) -> Self {
        self.with(values.map(bigint).collect::<Vec<_>>(), Type::INT8_ARRAY)
    }

    /// An array of `int`.
    pub(crate) fn all_heights(self, values: impl Iterator<Item = u32>) -> Self {
        let heights = values.map(|height| i32::try_from(height).unwrap_or(i32::MAX));
        self.with(heights.collect::<Vec<_>>(), Type::INT4_ARRAY)
    }

    /// As the driver takes them.
    pub(super) fn typed(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.0.iter().map(|(value, of)| (&**value as &(dyn ToSql + Sync), of.clone())).collect()
    }
}

fn bigint(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
