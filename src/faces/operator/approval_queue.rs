//! The approval queue: open runs and held calls, read from the ledger and kept up to date.
//!
//! A projection that can be thrown away at any time: the first look reads the open runs of each chain,
//! later ones only what was added since.

use std::collections::{BTreeMap, BTreeSet};

use super::view::Approved;
use crate::domain::digest::{Digest, call_digest};
use crate::domain::id::{CallId, ChainId, RunId, Seq};
use crate::domain::time::Timestamp;
use crate::ledger::store::{ChainRow, EntryRow, LedgerReader, PayloadRef, PayloadRow, StoreError};
use crate::ledger::vault::{self, Vault};
use crate::record::approval::ApprovalGranted;
use crate::record::call::CallHeld;
use crate::record::calls::{Calls, Phase};
use crate::record::run::RunOpened;
use crate::record::{Entry, Kind, Role};

/// Entries that are read at once.
const BATCH: u32 = 512;

/// Open runs by chain.
#[derive(Debug, Default)]
pub struct OpenRuns {
    chains: BTreeMap<ChainId, Chain>,
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
    next: Seq,
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
                Some(chain) => chain.read_on(reader, row).await?,
                None => {
                    let chain = Chain::first(reader, row).await?;
                    self.chains.insert(row.chain, chain);
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

    /// When the last of its held calls expires; `None` if none is held.
    #[must_use]
    pub fn held_until(&self) -> Option<Timestamp> {
        let holds = self.runs.values().flat_map(|run| run.held.values());
        holds.map(Hold::expires).max()
    }

    async fn first(reader: &dyn LedgerReader, row: &ChainRow) -> Result<Self, StoreError> {
        let mut chain = Self {
            origin: row.origin.clone(),
            stopped: false,
            runs: BTreeMap::new(),
            next: row.head.size,
        };
        for run in reader.open_runs(&row.chain).await? {
            let entries = reader.run_entries(&row.chain, &run).await?;
            entries.iter().for_each(|entry| chain.apply(entry));
        }
        let last = row.head.size.saturating_sub(1);
        let last = reader.entries(&row.chain, last, 1).await?;
        chain.stopped = last.last().is_some_and(|entry| entry.kind == Kind::WriterStopped.as_str());
        Ok(chain)
    }

    async fn read_on(
        &mut self,
        reader: &dyn LedgerReader,
        row: &ChainRow,
    ) -> Result<(), StoreError> {
        while self.next < row.head.size {
            let entries = reader.entries(&row.chain, self.next, BATCH).await?;
            let Some(last) = entries.last() else { break };
            let next = last.seq.saturating_add(1);
            self.stopped = last.kind == Kind::WriterStopped.as_str();
            entries.iter().for_each(|entry| self.apply(entry));
            self.next = next;
        }
        Ok(())
    }

    /// Applies one entry. An entry that this build cannot read is skipped.
    fn apply(&mut self, row: &EntryRow) {
        if row.run.is_none() {
            return;
        }
        let Ok(entry) = Entry::parse(&row.body) else { return };
        let Some(link) = &entry.run else { return };
        let (id, seq) = (link.run, link.seq);
        if entry.draft.kind() == Kind::RunSealed {
            self.runs.remove(&id);
        } else if let Some(opened) = entry.draft.get::<RunOpened>() {
            self.runs.entry(id).or_insert_with(|| Run::of(opened.clone(), entry.ts));
        } else if let Some(run) = self.runs.get_mut(&id)
            && seq > run.last
        {
            run.last = seq;
            run.apply(entry);
        }
    }
}

impl Run {
    fn of(opened: RunOpened, at: Timestamp) -> Self {
        Self { opened, at, calls: Calls::default(), held: BTreeMap::new(), last: 0 }
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
