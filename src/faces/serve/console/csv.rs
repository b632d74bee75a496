//! Tables as files for spreadsheets (RFC 4180), in which no cell is a formula.

use serde::Serialize;
use serde_json::Value;

use super::visit::Answer;
use crate::operator::visible;

/// Rows of a file at most.
pub(super) const ROWS_MAX: usize = 10_000;

/// Characters that make a formula of what follows them, also in their wide forms (OWASP, "CSV Injection").
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
/// Where a program that reads a file with other separators than ours begins a cell.
const BEGINS: [char; 6] = [',', ';', '|', '\t', '"', '\''];

/// A table: a header, and rows with the same members.
pub(super) struct Csv {
    columns: &'static [&'static str],
    text: String,
    rows: usize,
    /// Everything that was recorded before this was searched for the first rows.
    as_of: Option<String>,
    /// Whether all rows had a place.
    is_whole: bool,
}

impl Csv {
    /// A table without rows; the columns are the members that a row shows, in this order.
    pub(super) fn of(columns: &'static [&'static str]) -> Self {
        let (text, rows) = (String::new(), 0);
        let mut table = Self { columns, text, rows, as_of: None, is_whole: true };
        table.line(columns.iter().map(|name| (*name).to_owned()));
        table
    }

    /// Adds one page of a list, searched up to this time. The answer is the cursor of the next page, if the list has one
    /// and the table has a place for it.
    pub(super) fn add<T: Serialize>(
        &mut self,
        rows: &[T],
        (as_of, next): (String, Option<String>),
    ) -> Option<String> {
        self.as_of.get_or_insert(as_of);
        let places = ROWS_MAX.saturating_sub(self.rows);
        for row in rows.iter().take(places) {
            let members = serde_json::to_value(row).unwrap_or_default();
            let text = |name: &&str| members.get(*name).map_or_else(String::new, plain);
            self.line(self.columns.iter().map(text));
        }
        self.rows = self.rows.saturating_add(rows.len().min(places));
        self.is_whole = rows.len() <= places;
        next.filter(|_| self.is_whole)
    }

    /// The file. Its name says up to when entries were searched for the rows, and if there are more of them:
    /// `calls-before-20261129T010726Z.csv`, `calls-before-20261129T010726Z-first-10000.csv`.
    pub(super) fn file(self, what: &str) -> Answer {
        let as_of = self.as_of.unwrap_or_default();
        let instant: String = as_of.chars().filter(char::is_ascii_alphanumeric).collect();
        let first = if self.is_whole { String::new() } else { format!("-first-{}", self.rows) };
        let name = format!("{what}-before-{instant}{first}.csv");
        Answer::Download { name, media_type: "text/csv; charset=utf-8", text: self.text }
    }

    fn line(&mut self, cells: impl Iterator<Item = String>) {
        let cells: Vec<String> = cells.map(|text| cell(&text)).collect();
        self.text.push_str(&cells.join(","));
        self.text.push_str("\r\n");
    }
}

/// A member as text: a list with commas, nothing for `null`.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// One cell, in quotation marks: what is invisible is spelled out, and an apostrophe stands before each character that
/// would begin a formula. WHY not only at the beginning of the cell: a program that separates by semicolons does not take
/// our quotation marks for the ends of its cells.
fn cell(text: &str) -> String {
    let mut quoted = String::from("\"");
    let mut begins = true;
    for c in visible(text).chars() {
        if begins && FORMULA.contains(&c) {
            quoted.push('\'');
        }
        begins = BEGINS.contains(&c) || (begins && c == ' ');
        quoted.push(c);
        if c == '"' {
            quoted.push(c);
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn con_013_no_cell_is_a_formula_whatever_separates_cells() {
        for (text, safe) in [
            ("=cmd|'/c calc'!A1", "\"'=cmd|'/c calc'!A1\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("＝1", "\"'＝1\""),
            ("  =1", "\"  '=1\""),
            ("\t=1", "\"\\u{9}=1\""),
            ("\r=1", "\"\\u{d}=1\""),
            ("a;=1", "\"a;'=1\""),
            ("a; \"=1", "\"a; \"\"'=1\""),
            ("a,-b", "\"a,'-b\""),
            ("crm.search", "\"crm.search\""),
            ("a-b=c", "\"a-b=c\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("", "\"\""),
        ] {
            assert_eq!(cell(text), safe, "{text:?}");
        }
    }

    #[test]
    fn a_table_shows_its_columns_in_their_order_and_says_when_it_is_not_all() {
        let file = |table: Csv| match table.file("calls") {
            Answer::Download { name, text, .. } => (name, text),
            Answer::Page(..) | Answer::SeeOther(_) | Answer::File(_) | Answer::Events(_) => {
                panic!("no file")
            }
        };
        let as_of = || "2026-11-29T01:07:26Z".to_owned();
        let mut table = Csv::of(&["tool", "us", "hosts"]);
        let rows = [
            json!({"hosts": ["a", "b"], "tool": "crm", "us": 7, "other": 1}),
            json!({"tool": null, "us": null, "hosts": []}),
        ];
        let next = table.add(&rows, (as_of(), Some("7".to_owned())));
        assert_eq!(next.as_deref(), Some("7"));
        assert_eq!(table.add::<Value>(&[], ("later".to_owned(), None)), None);
        let all = "\"tool\",\"us\",\"hosts\"\r\n\"crm\",\"7\",\"a, b\"\r\n\"\",\"\",\"\"\r\n";
        let (name, text) = file(table);
        assert_eq!((&*name, &*text), ("calls-before-20261129T010726Z.csv", all));
        let mut full = Csv::of(&["us"]);
        let many = vec![json!({"us": 1}); ROWS_MAX];
        assert!(full.add(&many, (as_of(), Some("7".to_owned()))).is_some());
        assert_eq!(full.add(&[json!({"us": 2})], (as_of(), Some("8".to_owned()))), None);
        let (name, text) = file(full);
        assert_eq!(name, "calls-before-20261129T010726Z-first-10000.csv");
        assert_eq!(text.lines().count(), ROWS_MAX + 1);
    }
}
