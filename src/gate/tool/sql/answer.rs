//! Rows as they are released: typed as far as JSON allows, and never more than the limits.

use base64::Engine as _;

use crate::domain::canonical;
use crate::domain::json::Json;
use crate::domain::outcome::{AnswerContent, Opaque};
pub(super) use crate::tool::number::{float, integer};

/// Bytes reserved for the parts around the rows.
const FRAME_BYTES: usize = 256;

/// The result of a statement.
#[derive(Debug, Default)]
pub(super) struct SqlResult {
    columns: Vec<Json>,
    rows: Vec<Json>,
    /// The number of rows that a writing statement changed.
    pub affected: Option<u64>,
    /// Whether rows were omitted; a row is never cut.
    truncated: bool,
    /// Whether some value is binary.
    binary: bool,
}

/// One value of a row.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Cell {
    /// A number, a text or another JSON value.
    Value(Json),
    /// Bytes, as base64.
    Bytes(Json),
}

impl Cell {
    /// Bytes; also a text that is not valid UTF-8.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let coded = Json::from(base64::engine::general_purpose::STANDARD.encode(bytes));
        if bytes.is_empty() { Self::Value(coded) } else { Self::Bytes(coded) }
    }
}

/// A result that is being filled, and the remaining space.
#[derive(Debug)]
pub(super) struct ResultSpace {
    answer: SqlResult,
    rows_left: u64,
    bytes_left: usize,
}

impl ResultSpace {
    /// Space for this many rows and bytes; the names of the tables are part of the result.
    pub fn new(rows_max: u64, bytes_max: u64, tables: &[String]) -> Self {
        let names: usize =
            tables.iter().map(|table| table.len().saturating_mul(2).saturating_add(8)).sum();
        let bytes = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let bytes_left = bytes.saturating_sub(names).saturating_sub(FRAME_BYTES);
        Self { answer: SqlResult::default(), rows_left: rows_max, bytes_left }
    }

    /// Sets the names and types of the columns.
    pub fn columns(&mut self, columns: Vec<(String, String)>) {
        let column = |(name, kind): (String, String)| {
            Json::object([("name", Json::from(name)), ("type", Json::from(kind))])
        };
        self.answer.columns = columns.into_iter().map(column).collect();
        let bytes: usize = self.answer.columns.iter().map(|c| canonical::bytes(c).len()).sum();
        let commas = self.answer.columns.len();
        self.bytes_left = self.bytes_left.saturating_sub(bytes.saturating_add(commas));
    }

    /// Adds a row. `false` if it does not fit; the result then reports that rows were omitted.
    #[must_use]
    pub fn push(&mut self, row: Vec<Cell>) -> bool {
        let binary = row.iter().any(|cell| matches!(cell, Cell::Bytes(_)));
        let values = row.into_iter().map(|cell| match cell {
            Cell::Value(value) | Cell::Bytes(value) => value,
        });
        let row = Json::Array(values.collect());
        let bytes = canonical::bytes(&row).len().saturating_add(1);
        let left = self.bytes_left.checked_sub(bytes);
        let (Some(left), Some(rows)) = (left, self.rows_left.checked_sub(1)) else {
            self.truncate();
            return false;
        };
        self.answer.rows.push(row);
        self.answer.binary |= binary;
        (self.bytes_left, self.rows_left) = (left, rows);
        true
    }

    /// Marks that rows were omitted.
    pub fn truncate(&mut self) {
        self.answer.truncated = true;
    }

    /// Sets the number of rows that a writing statement changed.
    pub fn affected(&mut self, rows: Option<u64>) {
        self.answer.affected = rows;
    }

    /// The number of rows that still fit.
    pub const fn rows_left(&self) -> u64 {
        self.rows_left
    }

    /// The number of bytes that still fit.
    pub const fn bytes_left(&self) -> usize {
        self.bytes_left
    }

    pub fn close(self) -> SqlResult {
        self.answer
    }
}

impl SqlResult {
    pub fn content(self, tables: &[String]) -> AnswerContent {
        let opaque = self.binary.then_some(Opaque::Binary);
        AnswerContent::of(canonical::bytes(&self.json(tables)), opaque)
    }

    fn json(self, tables: &[String]) -> Json {
        let count = u64::try_from(self.rows.len()).unwrap_or(u64::MAX);
        let tables: Vec<Json> = tables.iter().map(|table| Json::from(table.as_str())).collect();
        let mut members = vec![
            ("columns", Json::Array(self.columns)),
            ("rows", Json::Array(self.rows)),
            ("row_count", Json::from(count)),
            ("truncated", Json::from(self.truncated)),
            ("tables_queried", tables.into()),
        ];
        members.extend(self.affected.map(|rows| ("rows_affected", Json::from(rows))));
        Json::object(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_with_rows_that_do_not_fit_is_marked_as_truncated() {
        let row = || vec![Cell::Value(Json::from("x".repeat(100)))];
        let mut space = ResultSpace::new(2, 1_000, &[]);
        assert!(space.push(row()) && space.push(row()));
        assert!(!space.push(row()));
        let answer = space.close().json(&["public.t".into()]);
        let text = canonical::text(&answer);
        assert!(
            text.contains(r#""row_count":2,"#) && text.contains(r#""truncated":true"#),
            "{text}"
        );
        let mut small = ResultSpace::new(10, 600, &["public.t".into()]);
        while small.push(row()) {}
        let answer = small.close().json(&["public.t".into()]);
        let text = canonical::text(&answer);
        assert!(text.len() <= 600 && text.contains(r#""truncated":true"#), "{text}");
    }
}
