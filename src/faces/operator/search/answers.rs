//! The routes that look up calls and runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{Search, SearchError};
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ChainId, RunId, Seq};
use crate::domain::time::Timestamp;
use crate::index::{self, CallTally, Index};
use crate::ledger::drafts::DraftWithPayloads;
use crate::operator::OperatorApi;
use crate::operator::api::lookups::{
    CallDetail, CallPayloads, Calls, ReceiptProof, RunDetail, Runs,
};
use crate::operator::api::requests::{CallPath, ReceiptPath, RunPath, RunSearch};
use crate::operator::api::status::DayCounts;
use crate::operator::api::{OperatorRequest, route};
use crate::operator::operators::Operator;
use crate::record::payload::PayloadViewed;
use crate::record::{Draft, HexDigest, List, Text};
use crate::serve::problem::Problem;

/// Entries that one request reads into the index before it is answered.
const READ_MAX: u64 = 2_000;
/// Entries that are read at a time while no request waits.
const ROUND_MAX: u64 = 20_000;
/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;
/// How often the index is filled while no request waits.
const ROUND: Duration = Duration::from_secs(1);

/// `data` of `payload.viewed`: which of these payloads an operator sees; `None`: none is shown.
fn viewed(
    who: &Operator,
    call: &CallDetail,
    payloads: &CallPayloads,
) -> Result<Option<PayloadViewed>, SearchError> {
    let shown = payloads.payloads.iter().filter(|payload| payload.text.is_some());
    let digest = |text: &str| Digest::parse(text).map(HexDigest).ok_or(SearchError::NoCall);
    let c: Result<Vec<HexDigest>, SearchError> = shown.map(|one| digest(&one.commitment)).collect();
    let Some(c) = List::some(c?) else { return Ok(None) };
    let named = CallId::parse(&call.call.call).zip(RunId::parse(&call.call.run));
    let (call_id, run) = named.ok_or(SearchError::NoCall)?;
    Ok(Some(PayloadViewed {
        auth: who.auth.as_str().into(),
        by: who.subject.as_str().into(),
        c,
        call: call_id,
        log: call.origin.as_str().into(),
        roles: who.role_names().iter().map(Text::from).collect(),
        run,
    }))
}

impl OperatorApi {
    /// Lets operators look up calls and runs in this index. The first call counts; later ones change nothing.
    pub fn allow_index(&self, index: Index) {
        drop(self.index.set(index));
    }

    /// Fills the index until it is stopped, by what `spare` measures: thousandths of a core that idled since it was asked
    /// before, at this time of the monotonic clock. What fails is tried again in the next round.
    pub async fn keep_index(
        self: Arc<Self>,
        mut spare: impl FnMut(Duration) -> u64 + Send,
        stop: CancellationToken,
    ) {
        if self.index.get().is_none() {
            return;
        }
        let mut rounds = tokio::time::interval(ROUND);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = String::new();
        // The first look only begins to measure.
        spare(self.clock.monotonic());
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = rounds.tick() => {}
            }
            let began = self.clock.monotonic();
            if let Some(most) = self.pace.round(began, ROUND_MAX) {
                let why = self.fill_round(most).await;
                if !why.is_empty() && why != before {
                    tracing::warn!(error = %why, "the index of calls is not filled");
                }
                before = why;
                let ended = self.clock.monotonic();
                self.pace.worked((began, ended), spare(ended));
            }
            // What no follower has read by now is not read for the first of them.
            self.follow().await;
        }
    }

    /// Reads at most so many new entries into the index; says why it was not filled to there.
    async fn fill_round(&self, most: u64) -> String {
        let Ok(search) = self.search() else { return String::new() };
        let filled = async {
            match search.index.turn().await? {
                true => search.fill(most).await,
                false => Ok(search.index.reach()),
            }
        };
        match filled.await {
            Ok(reach) => reach.broken.map(|broken| broken.to_string()).unwrap_or_default(),
            Err(error) => error.to_string(),
        }
    }

    fn search(&self) -> Result<Search<'_>, Problem> {
        let index = self.index.get().ok_or_else(|| {
            let message = "this process keeps no index of calls";
            self.refused(Code::RequestMalformed, "search.none", message)
        })?;
        let (reader, tenant) = (&*self.reader, Some(self.tenant.as_str()));
        Ok(Search { index, reader, tenant, now: self.clock.now() })
    }

    /// What operators of this tenant look up calls and runs in, with new entries read: what an operator has just seen happen
    /// is found.
    ///
    /// # Errors
    /// No index is kept, or the ledger cannot be read.
    pub(crate) async fn searched(&self) -> Result<Search<'_>, Problem> {
        let search = self.search()?;
        self.pace.asked(self.clock.monotonic());
        search.fill(READ_MAX).await.map_err(|error| self.unsearched(error.into()))?;
        Ok(search)
    }

    /// The problem that a search which failed is answered with.
    pub(crate) fn unsearched(&self, error: SearchError) -> Problem {
        let message = error.to_string();
        match error {
            SearchError::Query(_) | SearchError::Index(index::Error::Long) => {
                self.refused(Code::RequestMalformed, "search.query", message)
            }
            SearchError::Time(_) | SearchError::Value(..) | SearchError::State => {
                self.refused(Code::RequestMalformed, "search.parameter", message)
            }
            SearchError::Cursor => self.refused(Code::RequestMalformed, "search.cursor", message),
            SearchError::NoCall => self.refused(Code::CallNotFound, "search.call", message),
            SearchError::NoEntry => self.refused(Code::CallNotFound, "search.entry", message),
            SearchError::Unproven(_) => {
                Problem::new(Code::LedgerUnavailable, "search.proof", message)
            }
            SearchError::NoRun => self.refused(Code::RunUnknown, "search.run", message),
            SearchError::Index(index::Error::Ledger(error)) => error.into(),
            SearchError::Index(_) => Problem::new(Code::LedgerUnavailable, "search.index", message),
        }
    }

    /// Calls that match a query.
    ///
    /// # Errors
    /// The query is wrong, or the ledger cannot be read.
    pub(in crate::operator) async fn calls(
        &self,
        request: OperatorRequest<route::Calls>,
    ) -> Result<Calls, Problem> {
        let search = self.searched().await?;
        search.calls(&request.request).await.map_err(|error| self.unsearched(error))
    }

    /// The calls of the last 24 hours.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(in crate::operator) async fn day(
        &self,
        _: OperatorRequest<route::Day>,
    ) -> Result<DayCounts, Problem> {
        let search = self.searched().await?;
        let since = Timestamp::from_millis(search.now.millis().saturating_sub(DAY_MS));
        let found = search.index.tally(since).await;
        let CallTally { calls, denied, held: waiting, approved, refused, expired } =
            found.map_err(|error| self.unsearched(error.into()))?;
        let held = [waiting, approved, refused, expired].into_iter().fold(0, u64::saturating_add);
        let (since, behind) = (since.to_string(), search.index.reach().behind);
        Ok(DayCounts { since, calls, denied, held, waiting, approved, refused, expired, behind })
    }

    /// One call, without its payloads.
    ///
    /// # Errors
    /// There is no such call, or the ledger cannot be read.
    pub(in crate::operator) async fn call(
        &self,
        request: OperatorRequest<route::CallDetail>,
    ) -> Result<CallDetail, Problem> {
        let (chain, seq) = self.call_place(&request.path)?;
        let search = self.searched().await?;
        search.call(&chain, seq).await.map_err(|error| self.unsearched(error))
    }

    fn call_place(&self, path: &CallPath) -> Result<(ChainId, Seq), Problem> {
        let named = ChainId::parse(&path.chain).zip(path.seq.parse().ok());
        named.ok_or_else(|| self.unsearched(SearchError::NoCall))
    }

    /// The payloads of one call. They leave only once the ledger records to whom.
    ///
    /// # Errors
    /// There is no such call, or the ledger cannot be read or written.
    pub(in crate::operator) async fn payloads(
        &self,
        request: OperatorRequest<route::CallPayloads>,
    ) -> Result<CallPayloads, Problem> {
        let (chain, seq) = self.call_place(&request.path)?;
        let search = self.searched().await?;
        let found = async {
            let call = search.call(&chain, seq).await?;
            let payloads = search.payloads(&chain, seq, self.vault.as_deref()).await?;
            Ok((call, payloads))
        };
        let (call, payloads) = found.await.map_err(|error| self.unsearched(error))?;
        self.record_view(&request.who, &call, &payloads).await?;
        Ok(payloads)
    }

    /// Records that an operator sees these payloads, before they are shown.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub(super) async fn record_view(
        &self,
        who: &Operator,
        call: &CallDetail,
        payloads: &CallPayloads,
    ) -> Result<(), Problem> {
        let viewed = viewed(who, call, payloads).map_err(|error| self.unsearched(error))?;
        let Some(viewed) = viewed else { return Ok(()) };
        let entry = DraftWithPayloads::bare(Draft::of(viewed));
        self.ledger.record(entry).await.map(drop).map_err(|error| {
            let message = format!("payloads are shown only once that is recorded: {error}");
            Problem::new(Code::LedgerUnavailable, "", message)
        })
    }

    /// The proof that one entry is in the log.
    ///
    /// # Errors
    /// There is no such entry, or the ledger cannot be read or does not prove it.
    pub(in crate::operator) async fn receipt_proof(
        &self,
        request: OperatorRequest<route::ReceiptProof>,
    ) -> Result<ReceiptProof, Problem> {
        let ReceiptPath { chain, seq } = &request.path;
        let named = ChainId::parse(chain).zip(seq.parse().ok());
        let (chain, seq) = named.ok_or_else(|| self.unsearched(SearchError::NoEntry))?;
        let proof = self.search()?.proof(&chain, seq).await;
        proof.map_err(|error| self.unsearched(error))
    }

    /// Runs that match a query; without one, the open runs, those with held calls first.
    ///
    /// # Errors
    /// The query is wrong, or the ledger cannot be read.
    pub(in crate::operator) async fn runs(
        &self,
        request: OperatorRequest<route::Runs>,
    ) -> Result<Runs, Problem> {
        let RunSearch { limit, state, q, since, until, cursor } = &request.request;
        let searches = [state, q, since, until, cursor].iter().any(|text| text.is_some());
        if !searches {
            return self.open_runs(*limit).await;
        }
        let search = self.searched().await?;
        search.runs(&request.request).await.map_err(|error| self.unsearched(error))
    }

    /// One run with its time line.
    ///
    /// # Errors
    /// There is no such run, or the ledger cannot be read.
    pub(in crate::operator) async fn run(
        &self,
        request: OperatorRequest<route::RunDetail>,
    ) -> Result<RunDetail, Problem> {
        let RunPath { run } = &request.path;
        let run = RunId::parse(run).ok_or_else(|| self.unsearched(SearchError::NoRun))?;
        let search = self.searched().await?;
        search.run(&run, &request.request).await.map_err(|error| self.unsearched(error))
    }
}
