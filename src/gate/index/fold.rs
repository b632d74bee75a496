//! Folds a batch of entries into the rows that it changes. Both stores call it: what is stored comes in, what is to be
//! stored goes out.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{CallRow, RunRow};
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::time::Timestamp;
use crate::ledger::store::EntryRow;
use crate::record::{Entry, Kind};

/// How far a chain is in the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cursor {
    /// The first entry that is not in it.
    pub next: Seq,
    /// The leaf of the entry before; `None` at the beginning.
    pub leaf: Option<Digest>,
    /// The time of that entry.
    pub at: Timestamp,
}

impl Cursor {
    /// Nothing of the chain is in the index.
    pub const START: Self = Self { next: 0, leaf: None, at: Timestamp::from_millis(0) };
}

/// The run and the id of a call.
pub(super) type IndexedCall = (String, String);

/// Rows by their keys.
#[derive(Debug, Default)]
pub(super) struct StoredRows {
    pub runs: BTreeMap<String, RunRow>,
    pub calls: BTreeMap<IndexedCall, CallRow>,
}

/// Entries that follow each other, as far as they are about runs. An entry that this build cannot read is skipped, as
/// everywhere.
#[derive(Debug)]
pub(super) struct EntryBatch {
    entries: Vec<Entry>,
    /// Where the chain is after them.
    pub to: Cursor,
}

/// The call of an entry, if a row says something about it.
fn call_of(entry: &Entry) -> Option<IndexedCall> {
    let call = entry.draft.call.as_ref().filter(|_| entry.draft.kind().of_call())?;
    Some((entry.run.as_ref()?.run.to_string(), call.to_string()))
}

impl EntryBatch {
    /// Reads what follows this place; `None` if nothing does.
    pub fn read(from: Cursor, rows: &[EntryRow]) -> Option<Self> {
        let last = rows.last()?;
        let (mut at, mut entries) = (from.at, Vec::new());
        for row in rows.iter().filter(|row| row.run.is_some() || row.seq == last.seq) {
            if let Ok(entry) = Entry::glance(&row.body) {
                at = entry.ts;
                entries.push(entry);
            }
        }
        entries.retain(|entry| entry.run.is_some());
        let to = Cursor { next: last.seq.saturating_add(1), leaf: Some(last.leaf), at };
        Some(Self { entries, to })
    }

    /// The runs and the calls that it is about: what is stored of them is what [`Self::fold`] needs.
    pub fn keys(&self) -> (BTreeSet<String>, BTreeSet<IndexedCall>) {
        let runs = self.entries.iter().filter_map(|entry| entry.run.as_ref());
        let runs = runs.map(|link| link.run.to_string()).collect();
        (runs, self.entries.iter().filter_map(call_of).collect())
    }

    /// The rows that it changes, as they are after it.
    pub fn fold(self, stored: StoredRows) -> (Vec<CallRow>, Vec<RunRow>) {
        let mut folding = RowFold { stored, calls: BTreeSet::new(), runs: BTreeSet::new() };
        self.entries.iter().for_each(|entry| folding.take(entry));
        let RowFold { mut stored, calls, runs } = folding;
        let calls = calls.iter().filter_map(|key| stored.calls.remove(key));
        let runs = runs.iter().filter_map(|key| stored.runs.remove(key));
        (calls.map(CallRow::storable).collect(), runs.map(RunRow::storable).collect())
    }
}

struct RowFold {
    stored: StoredRows,
    /// What was changed.
    calls: BTreeSet<IndexedCall>,
    runs: BTreeSet<String>,
}

impl RowFold {
    fn take(&mut self, entry: &Entry) {
        let Some(link) = &entry.run else { return };
        let run = link.run.to_string();
        if let Some(opened) = RunRow::opened(entry) {
            self.runs.insert(run.clone());
            self.stored.runs.insert(run, opened);
        } else if entry.draft.kind() == Kind::RunSealed {
            if let Some(row) = self.stored.runs.get_mut(&run) {
                row.advance(entry);
                self.runs.insert(run);
            }
        } else if let Some(key) = call_of(entry) {
            self.of_call(key, entry);
        }
    }

    fn of_call(&mut self, key: IndexedCall, entry: &Entry) {
        let run = self.stored.runs.get_mut(&key.0);
        let (before, after) = match self.stored.calls.get_mut(&key) {
            Some(row) => {
                let before = row.state;
                row.advance(entry);
                (Some(before), row.state)
            }
            None => {
                let Some(row) = CallRow::begun(entry, run.as_deref()) else { return };
                let state = row.state;
                self.stored.calls.insert(key.clone(), row);
                (None, state)
            }
        };
        if before != Some(after)
            && let Some(run) = run
        {
            run.counts.moved(before, after);
            self.runs.insert(key.0.clone());
        }
        self.calls.insert(key);
    }
}
