//! The approval queue: open runs and held calls, read from the ledger and kept up to date.
//!
//! A projection that can be thrown away at any time: the first look reads the open runs of each chain,
//! later ones only what was added since.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::alerts;
use super::live::{self, FreshEvents, LiveEvent, RunFeed};
use super::view::Approved;
use crate::domain::decision::NotifyTarget;
use crate::domain::digest::{Digest, call_digest};
use crate::domain::id::{CallId, ChainId, RunId, Seq};
use crate::domain::time::Timestamp;
use crate::ledger::store::{ChainRow, EntryRow, LedgerReader, PayloadRef, PayloadRow, StoreError};
use crate::ledger::vault::{self, Vault};
use crate::record::alert::AlertRaised;
use crate::record::approval::ApprovalGranted;
use crate::record::call::CallHeld;
use crate::record::calls::{Calls, Phase};
use crate::record::chain::HealthChanged;
use crate::record::run::RunOpened;
use crate::record::{Entry, Kind, Role};

/// Entries that are read at once.
const BATCH: u32 = 512;
/// Entries of a chain that is read for the first time which are told as what happened before.
const HISTORY: u32 = 64;
/// Changes of health that are kept of one chain.
const CHANGES_MAX: usize = 100;
/// Decisions that a policy reports, of one chain at most.
const REPORTED_MAX: usize = 256;

/// Alerts that are kept of one chain.
const ALERTS_MAX: u32 = 256;

/// Open runs by chain.
#[derive(Debug, Default)]
pub struct OpenRuns {
    chains: BTreeMap<ChainId, Chain>,
    /// What was read and is not in the live feed yet.
    pub(super) fresh: FreshEvents,
}

/// One chain, as far as it has been read.
#[derive(Debug)]
pub struct Chain {
    /// The log's name.
    pub origin: String,
    /// Whether its writer ended in order, so that none of its calls runs.
    pub stopped: bool,
    /// Its open runs.
    pub runs: BTreeMap<RunId, Run>,
    /// Changes of its gate's health that were read, the oldest first.
    pub health: VecDeque<(Timestamp, HealthChanged)>,
    alerts: VecDeque<RaisedAlert>,
    /// Decisions that a policy reports, the oldest first.
    pub reported: VecDeque<ReportedDecision>,
    next: Seq,
}

/// One alert, and its entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RaisedAlert {
    /// When it was raised.
    pub at: Timestamp,
    /// Its chain.
    pub chain: ChainId,
    /// The number of its entry.
    pub seq: Seq,
    /// What it says.
    pub alert: AlertRaised,
}

/// A decision that a policy reports (`notify`).
#[derive(Debug)]
pub struct ReportedDecision {
    /// Its entry.
    pub entry: Entry,
    /// The agent of its run, and the version of the manifest.
    pub agent: (String, String),
    /// The receivers.
    pub to: Vec<NotifyTarget>,
}

/// One open run.
#[derive(Debug)]
pub struct Run {
    /// Its `run.opened`.
    pub opened: RunOpened,
    /// When it was opened.
    pub at: Timestamp,
    /// Its calls, denied ones included, and how far they are.
    pub calls: Calls,
    /// Calls that wait for an approval.
    pub held: BTreeMap<CallId, Hold>,
    feed: RunFeed,
    last: u64,
}

/// One held call.
#[derive(Debug)]
pub struct Hold {
    /// The body of its `call.held`.
    pub held: CallHeld,
    /// The whole entry.
    pub entry: Entry,
    /// Recorded approvals: subject and key.
    pub granted: Vec<Approved>,
    /// SHA-256 of its arguments, never shown: an approver sees a repeated call once.
    pub args_digest: Option<Digest>,
}

impl Hold {
    /// When it ends; one without an end has ended.
    pub fn expires(&self) -> Timestamp {
        self.held.expires.unwrap_or(Timestamp::from_millis(0))
    }

    /// The commitment to its payload of this role, and how long that is.
    #[must_use]
    pub fn payload(&self, role: Role) -> Option<(Digest, u64)> {
        let found = self.entry.draft.committed(role);
        found.map(|commitment| (commitment.c.0, commitment.len.get()))
    }

    /// The digest of the call, recomputed from the entry; `None` if the entry contradicts it.
    #[must_use]
    pub fn call_digest(&self) -> Option<Digest> {
        let draft = &self.entry.draft;
        let (run, call, tool) = (draft.run?, draft.call.as_ref()?, draft.tool.as_ref()?);
        let digest = call_digest(&run, call, tool, &self.payload(Role::Args)?.0);
        let recorded = self.held.call_digest?.0;
        (recorded == digest).then_some(digest)
    }
}

impl OpenRuns {
    /// Number of requests that wait for an approval: a repeated call of one run counts once.
    pub fn requests(&self) -> usize {
        let runs = self.chains().flat_map(|chain| &chain.runs);
        let holds = runs.flat_map(|(id, run)| run.held.values().map(move |hold| (id, hold)));
        let asks = holds.map(|(id, hold)| (id, &hold.entry.draft.tool, hold.args_digest));
        asks.collect::<BTreeSet<_>>().len()
    }

    /// Every chain that is known.
    pub fn chains(&self) -> impl Iterator<Item = &Chain> {
        self.chains.values()
    }

    /// The chain of this id.
    #[must_use]
    pub fn chain(&self, id: &ChainId) -> Option<&Chain> {
        self.chains.get(id)
    }

    /// The chain of this name.
    #[must_use]
    pub fn origin(&self, origin: &str) -> Option<&Chain> {
        self.chains.values().find(|chain| chain.origin == origin)
    }

    /// An open run, and where it is.
    #[must_use]
    pub fn run(&self, run: &RunId) -> Option<(ChainId, &Chain, &Run)> {
        self.chains.iter().find_map(|(id, chain)| Some((*id, chain, chain.runs.get(run)?)))
    }

    /// Reads new entries: only chains of this tenant, whatever else the reader sees.
    ///
    /// # Errors
    /// The store's error; what was read before it stays.
    pub async fn look(
        &mut self,
        reader: &dyn LedgerReader,
        tenant: &str,
        vault: Option<&Vault>,
    ) -> Result<(), StoreError> {
        let rows = reader.chains().await?;
        let ours = || rows.iter().filter(|row| row.tenant == tenant);
        let known: BTreeSet<ChainId> = ours().map(|row| row.chain).collect();
        self.chains.retain(|id, _| known.contains(id));
        for row in ours() {
            match self.chains.get_mut(&row.chain) {
                Some(chain) => chain.read_on(reader, row, &mut self.fresh).await?,
                None => {
                    let (chain, events) = Chain::first(reader, row).await?;
                    self.chains.insert(row.chain, chain);
                    self.fresh.extend(events);
                }
            }
        }
        self.read_arguments(reader, vault).await
    }

    /// Reads the arguments of new calls, to recognise a repeated call with the same arguments.
    async fn read_arguments(
        &mut self,
        reader: &dyn LedgerReader,
        vault: Option<&Vault>,
    ) -> Result<(), StoreError> {
        for (id, chain) in &mut self.chains {
            for hold in chain.runs.values_mut().flat_map(|run| run.held.values_mut()) {
                if hold.args_digest.is_some() {
                    continue;
                }
                let Some((c, _)) = hold.payload(Role::Args) else { continue };
                let at = PayloadRef::of(hold.entry.seq, &c);
                let read = payload(reader, vault, id, &at).await?;
                // An unreadable value equals no other.
                let known = read.map_or(c, |row| Digest::of(&[&row.body]));
                hold.args_digest = Some(known);
            }
        }
        Ok(())
    }
}

/// A payload in the clear, if it is there and can be opened.
pub(super) async fn payload(
    reader: &dyn LedgerReader,
    vault: Option<&Vault>,
    chain: &ChainId,
    at: &PayloadRef,
) -> Result<Option<PayloadRow>, StoreError> {
    let row = reader.payload(chain, at).await?;
    Ok(row.and_then(|row| vault::open(vault, chain, row).ok()))
}

impl Chain {
    /// Entries that were read.
    pub const fn size(&self) -> Seq {
        self.next
    }

    /// Its newest alerts, ascending.
    pub fn alerts(&self) -> impl Iterator<Item = &RaisedAlert> {
        self.alerts.iter()
    }

    /// When the last of its held calls expires; `None` if none is held.
    #[must_use]
    pub fn held_until(&self) -> Option<Timestamp> {
        let holds = self.runs.values().flat_map(|run| run.held.values());
        holds.map(Hold::expires).max()
    }

    /// The chain as it is now, and what happened in it last.
    async fn first(
        reader: &dyn LedgerReader,
        row: &ChainRow,
    ) -> Result<(Self, Vec<LiveEvent>), StoreError> {
        let mut chain = Self {
            origin: row.origin.clone(),
            stopped: false,
            runs: BTreeMap::new(),
            health: VecDeque::new(),
            alerts: alerts::newest(reader, row, ALERTS_MAX).await?.into(),
            reported: VecDeque::new(),
            next: row.head.size,
        };
        let from = row.head.size.saturating_sub(HISTORY.into());
        let mut events = Vec::new();
        for run in reader.open_runs(&row.chain).await? {
            let entries = reader.run_entries(&row.chain, &run).await?;
            let told = entries.iter().filter_map(|entry| chain.apply(entry));
            // A long run has more events than are told.
            events.extend(told.filter(|event| event.place.seq >= from));
        }
        let tail = reader.entries(&row.chain, from, HISTORY).await?;
        chain.stopped = tail.last().is_some_and(|entry| entry.kind == Kind::WriterStopped.as_str());
        // Of a run that is over by now, only what stands here is known.
        let mut over: BTreeMap<RunId, RunFeed> = BTreeMap::new();
        for row in tail.iter().filter(|entry| entry.seq < row.head.size) {
            let Some(id) = row.run.filter(|id| !chain.runs.contains_key(id)) else {
                events.extend(chain.apply(row).filter(|_| row.run.is_none()));
                continue;
            };
            let entry = Entry::glance(&row.body).ok();
            events.extend(entry.and_then(|entry| over.entry(id).or_default().event(&entry)));
        }
        events.sort_by_key(|event| event.place.seq);
        Ok((chain, events))
    }

    async fn read_on(
        &mut self,
        reader: &dyn LedgerReader,
        row: &ChainRow,
        fresh: &mut FreshEvents,
    ) -> Result<(), StoreError> {
        while self.next < row.head.size {
            let entries = reader.entries(&row.chain, self.next, BATCH).await?;
            let Some(last) = entries.last() else { break };
            let next = last.seq.saturating_add(1);
            self.stopped = last.kind == Kind::WriterStopped.as_str();
            fresh.extend(entries.iter().filter_map(|entry| self.apply(entry)));
            self.next = next;
        }
        Ok(())
    }

    /// Applies one entry; what it is to those who follow, if it is anything. An entry that this build cannot read is
    /// skipped.
    fn apply(&mut self, row: &EntryRow) -> Option<LiveEvent> {
        if row.run.is_none() {
            return self.apply_health(row).or_else(|| self.apply_alert(row));
        }
        let entry = Entry::glance(&row.body).ok()?;
        let link = entry.run.as_ref()?;
        let (id, seq) = (link.run, link.seq);
        if entry.draft.kind() == Kind::RunSealed {
            return self.runs.remove(&id)?.feed.event(&entry);
        }
        if let Some(opened) = entry.draft.get::<RunOpened>() {
            if self.runs.contains_key(&id) {
                return None;
            }
            let mut run = Run::of(opened.clone(), entry.ts);
            let event = run.feed.event(&entry);
            self.runs.insert(id, run);
            return event;
        }
        let run = self.runs.get_mut(&id).filter(|run| seq > run.last)?;
        run.last = seq;
        let event = run.feed.event(&entry);
        let reported = run.reported(&entry);
        run.apply(entry);
        if let Some(reported) = reported {
            if self.reported.len() >= REPORTED_MAX {
                self.reported.pop_front();
            }
            self.reported.push_back(reported);
        }
        event
    }

    /// Notes an alert.
    fn apply_alert(&mut self, row: &EntryRow) -> Option<LiveEvent> {
        if row.kind != Kind::AlertRaised.as_str() {
            return None;
        }
        let one = alerts::raised(row)?;
        let event = live::of_alert(&one);
        // Of a chain that is read for the first time, the newest are there already.
        if self.alerts.back().is_none_or(|last| last.seq < one.seq) {
            if self.alerts.len() >= usize::try_from(ALERTS_MAX).unwrap_or(usize::MAX) {
                // WHY the oldest of the mildest: an agent can raise many, and must not push a grave one out.
                let mildest = self.alerts.iter().map(|one| one.alert.severity).min();
                let at = self.alerts.iter().position(|one| Some(one.alert.severity) == mildest);
                drop(self.alerts.remove(at.unwrap_or_default()));
            }
            self.alerts.push_back(one);
        }
        Some(event)
    }

    /// Notes a change of the gate's health.
    fn apply_health(&mut self, row: &EntryRow) -> Option<LiveEvent> {
        if row.kind != Kind::HealthChanged.as_str() {
            return None;
        }
        let (event, changed) = live::of_health(&Entry::parse(&row.body).ok()?)?;
        if self.health.len() >= CHANGES_MAX {
            self.health.pop_front();
        }
        self.health.push_back((event.place.at, changed));
        Some(event)
    }
}

impl Run {
    fn of(opened: RunOpened, at: Timestamp) -> Self {
        let (calls, held, feed) = (Calls::default(), BTreeMap::new(), RunFeed::default());
        Self { opened, at, calls, held, feed, last: 0 }
    }

    /// The decision, if a policy reports it.
    fn reported(&self, entry: &Entry) -> Option<ReportedDecision> {
        let decision = entry.draft.body.decision()?;
        let lists = decision.obligations.iter().filter_map(|obligation| obligation.to.as_ref());
        let to: Vec<NotifyTarget> = lists.flat_map(|list| list.iter().copied()).collect();
        let agent = (self.opened.agent.to_string(), self.opened.version.to_string());
        (!to.is_empty()).then(|| ReportedDecision { entry: entry.clone(), agent, to })
    }

    fn apply(&mut self, entry: Entry) {
        self.calls.advance(&entry.draft);
        let Some(call) = entry.draft.call.clone() else { return };
        if let Some(held) = entry.draft.get::<CallHeld>().cloned() {
            self.held.insert(call, Hold { held, entry, granted: Vec::new(), args_digest: None });
        } else if let Some(grant) = entry.draft.get::<ApprovalGranted>() {
            let approved = Approved::by(&grant.subject, &grant.key, grant.origin.as_deref());
            // A second approval of one person is recorded only if it replaces the first.
            self.held.entry(call).and_modify(|hold| {
                hold.granted.retain(|one| !one.subject.eq_ignore_ascii_case(&approved.subject));
                hold.granted.push(approved);
            });
        } else if self.calls.get(&call).and_then(Phase::held_until).is_none() {
            self.held.remove(&call);
        }
    }
}
