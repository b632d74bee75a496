//! Looks up calls and runs: the operator API and the commands that read a ledger themselves ask here.
//!
//! The index only finds. One call is shown from its entries in the ledger, so a wrong row of the index can hide a call
//! and cannot change one.

use super::api::lookups::{
    CallDetail, CallEntry, CallLine, CallPayloads, Calls, PayloadBody, ReasonLine, RunDetail,
    RunLine, Runs, reached,
};
use super::api::requests::{CallSearch, RunCalls, RunSearch};
use super::approval_queue;
use super::view::copies::ReadBefore;
use crate::crypto::merkle;
use crate::domain::commitment::opens;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ChainId, RunId, Seq};
use crate::domain::time::Timestamp;
use crate::index::query::{self, Query, QueryError};
use crate::index::rows::{CallRow, RunRow};
use crate::index::{self, Index, IndexReach, PAGE_MAX, Place, RowSearch, RunFilter};
use crate::ledger::store::{ChainRow, EntryRange, EntryRow, LedgerReader, PayloadRef, StoreError};
use crate::ledger::vault::Vault;
use crate::record::{Entry, Kind, Role};

mod answers;
mod proof;
mod similar;

/// The payloads of a call that are shown.
const SHOWN: [Role; 2] = [Role::Args, Role::Result];
/// Bytes of a payload that is shown.
const TEXT_MAX: usize = 64 * 1024;

/// Why nothing was looked up.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The query is wrong.
    #[error("the query: {0}")]
    Query(#[from] QueryError),
    /// A bound of time is none, or stands in the query as well.
    #[error(
        "`{0}` must be a date, a time or a duration back from now, and stand once: here or in the query"
    )]
    Time(&'static str),
    /// The cursor does not come from an answer.
    #[error("`cursor` must be the `next` of the answer before")]
    Cursor,
    /// A parameter has another value than these.
    #[error("`{0}` must be one of {list}", list = .1.join(", "))]
    Value(&'static str, &'static [&'static str]),
    /// Another state of runs.
    #[error("`state` must be open, sealed or all")]
    State,
    /// No such call is recorded.
    #[error("no such call: chain and entry must be those of its first decision")]
    NoCall,
    /// No such run is recorded.
    #[error("no such run")]
    NoRun,
    /// No such entry is recorded, or it was pruned.
    #[error("no such entry")]
    NoEntry,
    /// An entry of the ledger is not proven by the signed checkpoint.
    #[error("the signed checkpoint does not prove it: {0}; run `wicketgate ledger verify`")]
    Unproven(String),
    /// The index does not answer.
    #[error(transparent)]
    Index(#[from] index::Error),
}

impl From<StoreError> for SearchError {
    fn from(error: StoreError) -> Self {
        Self::Index(error.into())
    }
}

/// A ledger and the index of it.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// The index.
    pub index: &'a Index,
    /// The ledger.
    pub reader: &'a dyn LedgerReader,
    /// The tenant whose runs are shown; `None`: every tenant's.
    pub tenant: Option<&'a str>,
    /// The time, for durations in queries.
    pub now: Timestamp,
}

crate::record::debug_by!(Search<'_>: tenant);

/// How many rows are wanted.
fn rows(limit: Option<u64>) -> usize {
    limit.map_or(100, |limit| usize::try_from(limit).unwrap_or(usize::MAX)).clamp(1, PAGE_MAX)
}

/// The texts of a search.
struct SearchTexts<'a> {
    q: Option<&'a String>,
    since: Option<&'a String>,
    until: Option<&'a String>,
    cursor: Option<&'a String>,
    limit: Option<u64>,
}

impl SearchTexts<'_> {
    fn wanted(&self, now: Timestamp) -> Result<RowSearch, SearchError> {
        let mut query = Query::parse(self.q.map_or("", String::as_str), now)?;
        let bound = |name, text: Option<&String>, there: Option<Timestamp>| match (text, there) {
            (None, there) => Ok(there),
            (Some(_), Some(_)) => Err(SearchError::Time(name)),
            (Some(text), None) => query::time(text, now).map(Some).ok_or(SearchError::Time(name)),
        };
        query.since = bound("since", self.since, query.since)?;
        query.until = bound("until", self.until, query.until)?;
        let place = |text: &String| Place::parse(text).ok_or(SearchError::Cursor);
        let after = self.cursor.map(place).transpose()?;
        Ok(RowSearch { query, after, limit: rows(self.limit) })
    }
}

impl Search<'_> {
    /// Reads at most so many new entries into the index.
    ///
    /// # Errors
    /// The ledger or the index does not answer.
    pub async fn fill(&self, most: u64) -> Result<IndexReach, index::Error> {
        self.index.fill(self.reader, self.tenant, (self.now, most)).await
    }

    /// The chains that may be shown.
    async fn chains(&self) -> Result<Vec<ChainRow>, SearchError> {
        let mut chains = self.reader.chains().await?;
        chains.retain(|row| self.tenant.is_none_or(|tenant| row.tenant == tenant));
        Ok(chains)
    }

    /// The calls that match.
    ///
    /// # Errors
    /// The search is wrong, or the index does not answer.
    pub async fn calls(&self, search: &CallSearch) -> Result<Calls, SearchError> {
        let CallSearch { q, since, until, cursor, limit } = search;
        let asked = SearchTexts {
            q: q.as_ref(),
            since: since.as_ref(),
            until: until.as_ref(),
            cursor: cursor.as_ref(),
            limit: *limit,
        };
        let found = self.index.calls(asked.wanted(self.now)?).await?;
        let (as_of, behind) = reached(self.index.reach());
        let next = found.next.map(|place| place.to_string());
        Ok(Calls {
            calls: found.rows.into_iter().map(CallLine::from).collect(),
            next,
            as_of,
            behind,
        })
    }

    /// The runs that match, the newest first.
    ///
    /// # Errors
    /// The search is wrong, or ledger or index do not answer.
    pub async fn runs(&self, search: &RunSearch) -> Result<Runs, SearchError> {
        let RunSearch { state, q, since, until, cursor, limit } = search;
        let sealed = match state.as_deref() {
            None | Some("open") => RunFilter::Open,
            Some("sealed") => RunFilter::Sealed,
            Some("all") => RunFilter::Any,
            Some(_) => return Err(SearchError::State),
        };
        let asked = SearchTexts {
            q: q.as_ref(),
            since: since.as_ref(),
            until: until.as_ref(),
            cursor: cursor.as_ref(),
            limit: *limit,
        };
        let found = self.index.runs(asked.wanted(self.now)?, sealed).await?;
        let chains = self.chains().await?;
        let lines = found.rows.into_iter().map(|row| {
            let origin = origin(&chains, &row.chain);
            RunLine::of(row, origin)
        });
        let (as_of, behind) = reached(self.index.reach());
        let (more, next) = (found.next.is_some(), found.next.map(|place| place.to_string()));
        let open = self.index.open_runs().await?;
        Ok(Runs { runs: lines.collect(), open, more, next, as_of, behind })
    }

    /// One run with its calls and the runs that it delegated to.
    ///
    /// # Errors
    /// There is no such run, or ledger or index do not answer.
    pub async fn run(&self, run: &RunId, calls: &RunCalls) -> Result<RunDetail, SearchError> {
        let found = self.index.run(run).await?.ok_or(SearchError::NoRun)?;
        let chains = self.chains().await?;
        let of_run = self.index.calls_of((run, &found.chain), calls.after, rows(calls.limit));
        let (timeline, more) = of_run.await?;
        let next = timeline.last().filter(|_| more).map(|row| row.seq);
        let children = self.index.children(run).await?;
        let line = |row: RunRow| {
            let origin = origin(&chains, &row.chain);
            RunLine::of(row, origin)
        };
        let (as_of, behind) = reached(self.index.reach());
        Ok(RunDetail {
            run: line(found),
            timeline: timeline.into_iter().map(CallLine::from).collect(),
            next,
            children: children.into_iter().map(line).collect(),
            as_of,
            behind,
        })
    }

    /// The entries of the call whose first decision is this entry.
    ///
    /// # Errors
    /// There is no such call, or the ledger cannot be read.
    pub async fn entries(
        &self,
        chain: &ChainId,
        seq: Seq,
    ) -> Result<Vec<(Entry, Digest)>, SearchError> {
        let first = self.reader.entries(chain, seq, 1).await?;
        let first = first.first().and_then(|row| Entry::parse(&row.body).ok());
        let first = first.filter(|entry| entry.seq == seq && entry.draft.kind().decides());
        let first = first.ok_or(SearchError::NoCall)?;
        let named: Option<(RunId, CallId)> = first.draft.run.zip(first.draft.call);
        let (run, call) = named.ok_or(SearchError::NoCall)?;
        let rows = self.reader.select(chain, EntryRange::Call(&run, &call)).await?;
        // WHY computed: what the database keeps beside an entry proves nothing about it.
        let leaf = |row: &EntryRow| merkle::leaf_hash(&row.body);
        let parsed = rows.iter().filter_map(|row| Some((Entry::parse(&row.body).ok()?, leaf(row))));
        let entries: Vec<(Entry, Digest)> =
            parsed.filter(|(entry, _)| entry.draft.kind().of_call()).collect();
        let begins = entries.first().is_some_and(|(entry, _)| entry.seq == seq);
        if begins { Ok(entries) } else { Err(SearchError::NoCall) }
    }

    /// One call, read from its entries.
    ///
    /// # Errors
    /// There is no such call, or ledger or index do not answer.
    pub async fn call(&self, chain: &ChainId, seq: Seq) -> Result<CallDetail, SearchError> {
        let chains = self.chains().await?;
        let ours = chains.iter().find(|row| row.chain == *chain && seq < row.head.size);
        let ours = ours.ok_or(SearchError::NoCall)?;
        let entries = self.entries(chain, seq).await?;
        let run = entries.first().and_then(|(entry, _)| entry.draft.run);
        let opened = match run {
            Some(run) => self.opened(chain, &run).await?,
            None => None,
        };
        let row = CallRow::of(entries.iter().map(|(entry, _)| entry), opened.as_ref());
        let row = row.ok_or(SearchError::NoCall)?;
        let proven = self.proven(chain, &entries).await;
        let newest = entries.iter().rev().find_map(|(entry, _)| {
            let decision = entry.draft.body.decision()?;
            (!decision.reasons.is_empty()).then_some(decision)
        });
        let first = entries.first().and_then(|(entry, _)| entry.draft.body.decision());
        let policy = entries.iter().rev().find_map(|(entry, _)| entry.draft.policy);
        let listed = entries
            .iter()
            .filter(|(entry, _)| entry.draft.kind() != Kind::CallProgress)
            .map(|(entry, leaf)| CallEntry::of(entry, leaf.hex()));
        Ok(CallDetail {
            call: row.into(),
            origin: ours.origin.clone(),
            reasons: newest
                .map(|decision| decision.reasons.iter().map(ReasonLine::from).collect())
                .unwrap_or_default(),
            policy: policy.map(|digest| digest.prefixed()),
            asked_by: first.and_then(|d| Some(d.asked_by?.subject.to_string())),
            gate_of: first.and_then(|d| d.gate_of.map(ToString::to_string)),
            justification: first.and_then(|d| d.justification.map(str::to_owned)),
            traceparent: first.and_then(|d| d.traceparent.map(str::to_owned)),
            read_before: first.and_then(|decision| decision.taint.map(ReadBefore::from)),
            entries: listed.collect(),
            checkpoint: proven.as_ref().ok().copied(),
            unproven: proven.err().map(|error| error.to_string()),
        })
    }

    /// The arguments and the result of a call, as far as they are stored and open their commitments.
    ///
    /// # Errors
    /// There is no such call, or the ledger cannot be read.
    pub async fn payloads(
        &self,
        chain: &ChainId,
        seq: Seq,
        vault: Option<&Vault>,
    ) -> Result<CallPayloads, SearchError> {
        let entries = self.entries(chain, seq).await?;
        let mut payloads = Vec::new();
        for role in SHOWN {
            let newest = entries.iter().rev().find_map(|(entry, _)| {
                entry.draft.committed(role).map(|commitment| (entry.seq, *commitment))
            });
            let Some((entry, commitment)) = newest else { continue };
            let at = PayloadRef::of(entry, &commitment.c.0);
            let row = approval_queue::payload(self.reader, vault, chain, &at).await?;
            let row = row.filter(|row| opens(&commitment.c.0, &row.salt, &row.body).is_some());
            let (text, withheld) = match row.map(|row| String::from_utf8(row.body)) {
                None => {
                    (None, Some("it is not stored, was erased, or needs another key".to_owned()))
                }
                Some(Err(_)) => (None, Some("it is not text".to_owned())),
                Some(Ok(text)) if text.len() > TEXT_MAX => (
                    None,
                    Some(format!("it is longer than {} KiB: export the run", TEXT_MAX / 1024)),
                ),
                Some(Ok(text)) => (Some(text), None),
            };
            payloads.push(PayloadBody {
                role: role.to_string(),
                entry,
                commitment: commitment.c.0.hex(),
                bytes: commitment.len.get(),
                text,
                withheld,
            });
        }
        Ok(CallPayloads { payloads })
    }

    /// The run as its `run.opened` says: the index only knows where that is.
    async fn opened(&self, chain: &ChainId, run: &RunId) -> Result<Option<RunRow>, SearchError> {
        let Some(row) = self.index.run(run).await? else { return Ok(None) };
        let rows = self.reader.entries(chain, row.seq, 1).await?;
        let entry = rows.first().and_then(|row| Entry::parse(&row.body).ok());
        let entry = entry.filter(|entry| entry.draft.run.as_ref() == Some(run));
        Ok(entry.as_ref().and_then(RunRow::opened))
    }
}

/// The name of the log of this chain.
fn origin(chains: &[ChainRow], chain: &ChainId) -> String {
    let row = chains.iter().find(|row| row.chain == *chain);
    row.map(|row| row.origin.clone()).unwrap_or_default()
}
