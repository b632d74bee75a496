//! Reads the decisions that a query selects, in the order of the ledger, with their inputs as far
//! as those are kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use tokio::sync::mpsc::Sender;

use super::judged::DecisionEntry;
use super::{BacktestProgress, Error, Log};
use crate::crypto::merkle::leaf_hash;
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, RunId, ToolName};
use crate::domain::time::Timestamp;
use crate::enforce::CANARY_TOOL;
use crate::ledger::drafts::STORED_MAX;
use crate::ledger::store::{
    ChainRow, EntryRow, LedgerReader, PAYLOADS_MAX, PayloadRef, PayloadRow,
};
use crate::record::run::RunOpened;
use crate::record::{Entry, Kind, Role};

/// Entries read at once.
const PAGE: u32 = 512;
/// Decisions evaluated by one thread at once.
const ITEMS_MAX: usize = 64;
/// Bytes of inputs in one batch, unless a single one is larger.
const BYTES_MAX: u64 = 2 << 20;

/// Which decisions to evaluate, as a statement names them; absent members were not requested.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct BacktestQuery {
    /// Only decisions from this time on.
    pub since: Option<Timestamp>,
    /// Only decisions before this time.
    pub until: Option<Timestamp>,
    /// Only decisions in this tenant's logs.
    pub tenant: Option<String>,
    /// Only decisions about this agent.
    pub agent: Option<String>,
    /// Only decisions about this tool.
    pub tool: Option<ToolName>,
    /// Only decisions of this run.
    pub run: Option<RunId>,
    /// At most this many, the oldest of the first log first.
    pub limit: Option<u64>,
}

/// Decisions for one thread to evaluate.
#[derive(Debug)]
pub(super) struct DecisionBatch {
    /// Its place in the order of the ledger.
    pub number: u64,
    /// The decisions.
    pub items: Vec<DecisionEntry>,
}

/// What is known of a run that is open at the current position.
#[derive(Clone, Debug)]
struct OpenRunFacts {
    agent: Arc<str>,
    incognito: bool,
}

/// The state of the reading thread.
struct DecisionReader<'a> {
    reader: &'a dyn LedgerReader,
    query: &'a BacktestQuery,
    watch: &'a dyn BacktestProgress,
    send: Sender<DecisionBatch>,
    /// The number of entries to read.
    all: u64,
    number: u64,
    taken: u64,
    read: u64,
    inputs: u64,
    items: Vec<DecisionEntry>,
    bytes: u64,
    chain: ChainId,
    log: Arc<str>,
    /// Runs that are open at this point: never more than were open at once.
    runs: BTreeMap<RunId, OpenRunFacts>,
    notes: ReadNotes,
}

/// What the reading thread reports beside the decisions.
#[derive(Debug, Default)]
pub(super) struct ReadNotes {
    /// The logs, up to the heads they had when they were listed.
    pub logs: Vec<Log>,
    /// Whether the query's limit ended the reading.
    pub limited: bool,
    /// Missing entries that may have been decisions of the range.
    pub pruned: u64,
    /// Unreadable decisions: how many, and the first of them.
    pub unread: Vec<(Arc<str>, u64)>,
}

/// Reads every log of the query up to its head and sends the decisions to the threads.
///
/// # Errors
/// A log cannot be read, or does not match its head.
pub(super) async fn every(
    reader: &dyn LedgerReader,
    query: &BacktestQuery,
    watch: &dyn BacktestProgress,
    send: Sender<DecisionBatch>,
) -> Result<ReadNotes, Error> {
    let mut chains = reader.chains().await?;
    if let Some(tenant) = &query.tenant {
        chains.retain(|row| row.tenant == *tenant);
    }
    if let Some(run) = &query.run {
        let found = reader.find_run(run).await?;
        chains.retain(|row| Some(row.chain) == found);
        if chains.is_empty() {
            return Err(Error::NoRun(run.to_string()));
        }
    }
    let mut reading = DecisionReader {
        reader,
        query,
        watch,
        send,
        all: chains.iter().map(|row| row.head.size).fold(0, u64::saturating_add),
        number: 0,
        taken: 0,
        read: 0,
        inputs: 0,
        items: Vec::new(),
        bytes: 0,
        chain: ChainId::from_bytes([0; 16]),
        log: "".into(),
        runs: BTreeMap::new(),
        notes: ReadNotes::default(),
    };
    for row in &chains {
        (reading.chain, reading.log) = (row.chain, row.origin.as_str().into());
        reading.runs.clear();
        match &query.run {
            Some(run) => reading.run(row, run).await?,
            None => reading.log(row).await?,
        }
        reading.notes.logs.push(Log {
            origin: row.origin.clone(),
            tenant: row.tenant.clone(),
            size: row.head.size,
            head: row.head.hash,
        });
        reading.flush().await?;
        if reading.is_full() {
            break;
        }
    }
    reading.notes.limited = reading.is_full();
    Ok(reading.notes)
}

impl DecisionReader<'_> {
    fn is_full(&self) -> bool {
        self.query.limit.is_some_and(|limit| self.taken >= limit)
    }

    fn damaged(&self, seq: u64, what: &'static str) -> Error {
        Error::Damaged { log: self.log.to_string(), seq, what }
    }

    /// Reads one log up to the head it had when it was listed.
    async fn log(&mut self, row: &ChainRow) -> Result<(), Error> {
        let (mut from, mut before): (u64, Option<Digest>) = (0, None);
        while from < row.head.size {
            let page = self.reader.entries(&row.chain, from, PAGE).await?;
            if page.is_empty() {
                return Err(self.damaged(from, "the log ends before its head"));
            }
            for entry in page.into_iter().filter(|entry| entry.seq < row.head.size) {
                if entry.seq != from {
                    self.gone(entry.seq.saturating_sub(from), &entry);
                    before = None;
                }
                if before.is_some_and(|before| before != entry.prev) {
                    return Err(self.damaged(entry.seq, "it does not follow the one before"));
                }
                (from, before) = (entry.seq.saturating_add(1), Some(entry.leaf));
                self.entry(&entry).await?;
                if self.is_full() {
                    return Ok(());
                }
            }
            self.watch.at(self.read, self.all, self.inputs);
        }
        let ended = before.is_none_or(|before| before == row.head.hash);
        if ended { Ok(()) } else { Err(self.damaged(from, "the log does not end in its head")) }
    }

    /// Reads one run of a log.
    async fn run(&mut self, row: &ChainRow, run: &RunId) -> Result<(), Error> {
        let rows = self.reader.run_entries(&row.chain, run).await?;
        self.all = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        for entry in rows.iter().filter(|entry| entry.seq < row.head.size) {
            self.entry(entry).await?;
            if self.is_full() {
                break;
            }
        }
        Ok(())
    }

    /// Entries before this one are missing. They matter unless all of them are older than the
    /// query.
    fn gone(&mut self, entries: u64, next: &EntryRow) {
        let older = |since: Timestamp| Entry::parse(&next.body).is_ok_and(|next| next.ts < since);
        if !self.query.since.is_some_and(older) {
            self.notes.pruned = self.notes.pruned.saturating_add(entries);
        }
    }

    async fn entry(&mut self, row: &EntryRow) -> Result<(), Error> {
        self.read = self.read.saturating_add(1);
        if leaf_hash(&row.body) != row.leaf {
            return Err(self.damaged(row.seq, "its bytes are not those of its hash"));
        }
        // The index beside the bytes is not hashed, so it must not hide a decision, nor that one was exchanged.
        let body = std::str::from_utf8(&row.body).unwrap_or_default();
        if !body.contains(&format!(r#""kind":"{}""#, row.kind)) {
            return Err(self.damaged(row.seq, "the index says another kind than its bytes"));
        }
        if !body.contains(&format!(r#""prev":"{}""#, row.prev.hex())) {
            return Err(
                self.damaged(row.seq, "the index says another entry before it than its bytes")
            );
        }
        let kind = Kind::parse(&row.kind);
        let decides = kind.is_some_and(Kind::decides);
        if !decides && !matches!(kind, Some(Kind::RunOpened | Kind::RunSealed)) {
            return Ok(());
        }
        let Ok(entry) = Entry::parse(&row.body) else {
            self.notes.unread.push((Arc::clone(&self.log), row.seq));
            return Ok(());
        };
        let run = entry.run.as_ref().map(|link| link.run);
        if decides {
            return if self.wants(&entry) { self.take(entry).await } else { Ok(()) };
        }
        if let Some(opened) = entry.draft.get::<RunOpened>() {
            let (agent, incognito) = (opened.agent.as_str().into(), opened.incognito.is_some());
            self.runs.extend(run.map(|run| (run, OpenRunFacts { agent, incognito })));
        } else if let Some(run) = run {
            self.runs.remove(&run);
        }
        Ok(())
    }

    async fn take(&mut self, entry: Entry) -> Result<(), Error> {
        let opened = entry.run.as_ref().and_then(|link| self.runs.get(&link.run)).cloned();
        let commitment = entry.draft.committed(Role::PolicyInput);
        let stored = |len: &u64| usize::try_from(*len).is_ok_and(|len| len <= STORED_MAX);
        let weight = commitment.map(|c| c.len.get()).filter(stored).unwrap_or_default();
        if self.bytes.saturating_add(weight) > BYTES_MAX {
            self.flush().await?;
        }
        self.bytes = self.bytes.saturating_add(weight);
        self.taken = self.taken.saturating_add(1);
        let incognito = opened.as_ref().is_some_and(|opened| opened.incognito);
        let only = self.query.agent.as_deref().filter(|_| opened.is_none()).map(Arc::from);
        let (log, agent) = (Arc::clone(&self.log), opened.map(|opened| opened.agent));
        self.items.push(DecisionEntry { log, entry, agent, only, incognito, input: None });
        if self.items.len() >= ITEMS_MAX.min(PAYLOADS_MAX) {
            self.flush().await?;
        }
        Ok(())
    }

    /// Whether the query selects this decision, as far as its entry shows.
    fn wants(&self, entry: &Entry) -> bool {
        let BacktestQuery { since, until, agent, tool, run, .. } = self.query;
        let of = entry.run.as_ref().map(|link| link.run);
        let opened = of.and_then(|of| self.runs.get(&of)).map(|opened| &*opened.agent);
        let named = entry.draft.tool.as_ref();
        // A call that the gate made as a canary is not a call of an agent.
        named.is_none_or(|tool| tool.as_str() != CANARY_TOOL)
            && since.is_none_or(|since| entry.ts >= since)
            && until.is_none_or(|until| entry.ts < until)
            && tool.as_ref().is_none_or(|tool| named == Some(tool))
            && run.is_none_or(|run| of == Some(run))
            // Without the opening, the input shows whose call it was.
            && agent.as_ref().is_none_or(|agent| opened.is_none_or(|opened| opened == agent))
    }

    /// Fetches the stored inputs and sends the batch.
    async fn flush(&mut self) -> Result<(), Error> {
        if self.items.is_empty() {
            return Ok(());
        }
        let mut items = std::mem::take(&mut self.items);
        let commitment =
            |item: &DecisionEntry| item.entry.draft.committed(Role::PolicyInput).map(|c| c.c.0);
        let list =
            items.iter().map(|item| Some(PayloadRef::of(item.entry.seq, &commitment(item)?)));
        let list: Vec<PayloadRef> = list.flatten().collect();
        let rows = if list.is_empty() {
            Vec::new()
        } else {
            self.reader.payloads(&self.chain, &list).await?
        };
        let mut rows: BTreeMap<Digest, PayloadRow> =
            rows.into_iter().map(|row| (row.commitment, row)).collect();
        for item in &mut items {
            item.input = commitment(item).and_then(|c| rows.remove(&c));
        }
        self.inputs = self.inputs.saturating_add(u64::try_from(items.len()).unwrap_or(u64::MAX));
        let batch = DecisionBatch { number: self.number, items };
        (self.number, self.bytes) = (self.number.saturating_add(1), 0);
        // The send fails only if the threads have ended, and then the scope of this one ends too.
        let _ = self.send.send(batch).await;
        Ok(())
    }
}
