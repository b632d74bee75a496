//! Erases payloads: records the erasure first, then deletes from the store. Also checks both
//! against each other.
//!
//! The command line and the operator API both use this module. Nothing is deleted before the fleet
//! log records it; the next erasure deletes what a crash left behind.

use crate::record::debug_by;
use crate::verify::entries::approval;
use std::collections::{BTreeMap, BTreeSet};

use crate::approval::approvers::Purpose;
use crate::approval::order::{Loosening, OrderStatement, Previous};
use crate::approval::{ApprovalRefusal, RefusalReason};
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, RunId, Seq};
use crate::ledger::fleet::OpenFleetLog;
use crate::ledger::permit::Receipt;
use crate::ledger::retention::{
    ERASED_MAX, Grounds, LegalHold, Lifted, PayloadEraser, Records, StoredPayload, Warrant,
    commitments_of, erased, fleet_logs, kept_by, lifted, placed,
};
use crate::ledger::store::{ChainRow, EntryRow, LedgerReader, StoreError};
use crate::record::{Entry, Kind, Text};

/// Rows that are read at once.
const PAGE: u32 = 1000;

/// Payloads by chain.
pub type Wanted = BTreeMap<ChainId, BTreeSet<Digest>>;

/// Why nothing was erased or held.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The ledger or the store does not answer, or holds bytes that this build cannot read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The fleet log refused the entry.
    #[error("it was not recorded, and so not done: {0}")]
    Unrecorded(crate::ledger::Error),
    /// No chain of the tenant has the run.
    #[error("no run {0}")]
    NoRun(RunId),
    /// No chain of the tenant has this name.
    #[error("there is no log {0}")]
    NoLog(String),
    /// A legal hold protects one of the payloads: none was erased.
    #[error("payload {payload} is held, nothing was erased: {hold}")]
    Held {
        /// The payload.
        payload: Digest,
        /// The hold that protects it.
        hold: Box<LegalHold>,
    },
    /// There is nothing to lift.
    #[error("no hold on {0}")]
    NotHeld(String),
    /// The order does not apply here.
    #[error("{}", .0.why)]
    Order(ApprovalRefusal),
    /// The person who lifted a hold erases what it kept.
    #[error("the person who lifted a hold cannot erase what it kept")]
    Lifted,
    /// A person who decided about a call erases its run.
    #[error("a person who approved or refused a call cannot erase its run")]
    Decided,
}

fn refuse<T>(why: RefusalReason) -> Result<T, Error> {
    Err(Error::Order(Purpose::Order.refusal(why)))
}

/// The run of an order.
fn run_of(statement: &OrderStatement) -> Result<RunId, Error> {
    let none = || refuse(RefusalReason::NoRun(statement.name.clone()));
    RunId::parse(&statement.name).map_or_else(none, Ok)
}

/// The newest entry of the tenant's fleet log, which a new order names as its predecessor.
///
/// # Errors
/// The store cannot be read.
pub async fn newest(reader: &dyn LedgerReader, tenant: &str) -> Result<Previous, StoreError> {
    let Some(row) = fleet_logs(reader, tenant).await?.pop() else { return Ok(Previous::NONE) };
    let last = reader.entries(&row.chain, row.head.size.saturating_sub(1), 1).await?;
    Ok(last.first().map_or(Previous::NONE, successor_of))
}

fn successor_of(row: &EntryRow) -> Previous {
    Previous { seq: row.seq.saturating_add(1), digest: row.leaf }
}

/// Whether an order with a valid signature may be obeyed now: it follows an entry of the newest
/// fleet log, was not obeyed before, and counts by a list that no newer one has replaced.
async fn fresh(
    (reader, tenant): (&dyn LedgerReader, &str),
    records: &Records,
    order: &Loosening,
) -> Result<(), Error> {
    if records.used.contains(&Digest::of(&[order.signed().statement.as_bytes()])) {
        return refuse(RefusalReason::UsedOrder);
    }
    if order.version() < records.version {
        return refuse(RefusalReason::OldList(order.version(), records.version));
    }
    let previous = order.statement().previous;
    let there = match (fleet_logs(reader, tenant).await?.pop(), previous.seq.checked_sub(1)) {
        (Some(row), Some(at)) => {
            let rows = reader.entries(&row.chain, at, 1).await?;
            rows.first().is_some_and(|row| successor_of(row) == previous)
        }
        (_, None) => previous == Previous::NONE,
        (None, Some(_)) => false,
    };
    if there { Ok(()) } else { refuse(RefusalReason::NoEntry) }
}

/// The payloads to erase.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ErasureRequest {
    /// Every payload of this run.
    pub run: Option<RunId>,
    /// Only payloads of this role in the run.
    pub role: Option<String>,
    /// These payloads.
    pub commitments: BTreeSet<Digest>,
}

impl ErasureRequest {
    /// The payloads that a signed order names.
    ///
    /// # Errors
    /// The name of its target is invalid.
    pub fn of(statement: &OrderStatement) -> Result<Self, Error> {
        let commitments = statement.payloads.clone();
        if statement.target == "payloads" {
            return Ok(Self { run: None, role: None, commitments });
        }
        Ok(Self { run: Some(run_of(statement)?), role: statement.role.clone(), commitments })
    }
}

/// Which of the payloads are stored, and which are not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ErasureScope {
    /// Stored, by chain.
    pub wanted: Wanted,
    /// Not stored: erased before, expired, or never kept.
    pub absent: BTreeSet<Digest>,
}

impl ErasureScope {
    /// How many are stored.
    pub fn count(&self) -> usize {
        self.wanted.values().map(BTreeSet::len).sum()
    }
}

/// The record of an erasure.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordedErasure {
    /// The entries of the fleet log that record it.
    pub seqs: Vec<Seq>,
    /// The fleet log.
    pub fleet: String,
}

/// A ledger to erase in, for one tenant.
pub struct ErasureStore<'a> {
    /// Reads it.
    pub reader: &'a dyn LedgerReader,
    /// Deletes in it.
    pub eraser: &'a dyn PayloadEraser,
    /// Its chains by id, including those of other tenants.
    pub chains: &'a BTreeMap<ChainId, ChainRow>,
    /// The tenant that owns the payloads.
    pub tenant: &'a str,
}

debug_by!(ErasureStore<'_>: tenant);

impl ErasureStore<'_> {
    /// Every stored payload of this tenant, with its chain.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn kept(&self) -> Result<Vec<(&ChainRow, StoredPayload)>, Error> {
        let kept = self.eraser.kept().await?;
        let with_chain = |kept: StoredPayload| {
            let row = self.chains.get(&kept.chain).filter(|row| row.tenant == self.tenant);
            row.map(|row| (row, kept))
        };
        Ok(kept.into_iter().filter_map(with_chain).collect())
    }

    /// What the fleet log records about payloads.
    ///
    /// # Errors
    /// It cannot be read. Then nothing may be erased.
    pub async fn records(&self) -> Result<Records, Error> {
        Ok(Records::read(self.reader, self.tenant).await?)
    }

    /// The requested payloads, as far as they are stored.
    ///
    /// # Errors
    /// The run does not exist, or the store cannot be read.
    pub async fn find(&self, asked: &ErasureRequest) -> Result<ErasureScope, Error> {
        let mut named = asked.commitments.clone();
        if let Some(run) = &asked.run {
            let chain = self.chain_of(run).await?;
            let list = commitments_of(self.reader, &chain.chain, run).await?;
            let role = |of: &String| asked.role.as_ref().is_none_or(|role| role == of);
            named.extend(list.into_iter().filter(|(_, of)| role(of)).map(|(c, _)| c));
        }
        let mut wanted = Wanted::new();
        for (chain, kept) in self.kept().await? {
            if named.contains(&kept.commitment) {
                wanted.entry(chain.chain).or_default().insert(kept.commitment);
            }
        }
        let stored: BTreeSet<Digest> = wanted.values().flatten().copied().collect();
        let absent = named.difference(&stored).copied().collect();
        Ok(ErasureScope { wanted, absent })
    }

    /// The chain of a run of this tenant.
    async fn chain_of(&self, run: &RunId) -> Result<&ChainRow, Error> {
        let chain = self.reader.find_run(run).await?;
        let row = chain.and_then(|chain| self.chains.get(&chain));
        row.filter(|row| row.tenant == self.tenant).ok_or(Error::NoRun(*run))
    }

    /// Refuses the whole erasure if a legal hold protects one payload.
    ///
    /// # Errors
    /// [`Error::Held`], or the store cannot be read.
    pub async fn refuse_held(&self, records: &Records, wanted: &Wanted) -> Result<(), Error> {
        for (chain, list) in wanted {
            let Some(row) = self.chains.get(chain) else { continue };
            let held = records.held(self.reader, row, list).await?;
            if let Some((payload, hold)) = held.into_iter().find(|(c, _)| list.contains(c)) {
                return Err(Error::Held { payload, hold: Box::new(hold) });
            }
        }
        Ok(())
    }

    /// Records the erasure with the fleet log open, so that no legal hold can be placed in between.
    ///
    /// # Errors
    /// A payload is held, the order does not apply, or an entry cannot be recorded; entries
    /// recorded before that stay.
    pub async fn record(
        &self,
        fleet: &OpenFleetLog,
        wanted: &Wanted,
        grounds: &Grounds,
    ) -> Result<RecordedErasure, Error> {
        let records = self.records().await?;
        self.refuse_held(&records, wanted).await?;
        if let Warrant::Order(order) = &grounds.warrant {
            fresh((self.reader, self.tenant), &records, order).await?;
        }
        let mut done =
            RecordedErasure { fleet: fleet.origin().to_owned(), ..RecordedErasure::default() };
        for (chain, list) in wanted {
            let Some(row) = self.chains.get(chain) else { continue };
            let new = |c: &&Digest| !records.erased.contains_key(&(row.origin.clone(), **c));
            let list: Vec<Digest> = list.iter().filter(new).copied().collect();
            for part in list.chunks(ERASED_MAX) {
                let Some(draft) = erased(&row.origin, part, grounds) else { continue };
                let receipt = fleet.record(draft).await.map_err(Error::Unrecorded)?;
                done.seqs.push(receipt.seq);
            }
        }
        Ok(done)
    }

    /// Deletes every row that the fleet log calls erased, including the rest of an interrupted
    /// erasure. Returns how many rows there were.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn sweep(&self) -> Result<u64, Error> {
        let records = self.records().await?;
        let mut left: BTreeMap<ChainId, Vec<StoredPayload>> = BTreeMap::new();
        for (row, kept) in self.kept().await? {
            if records.erased.contains_key(&(row.origin.clone(), kept.commitment)) {
                left.entry(row.chain).or_default().push(kept);
            }
        }
        let mut deleted = 0_u64;
        for (chain, list) in &left {
            deleted = deleted.saturating_add(self.eraser.erase(chain, list).await?);
        }
        Ok(deleted)
    }

    /// Refuses an erasure by a person who approved or refused a call of the run, or lifted a hold
    /// on it: a participant must not destroy the traces.
    ///
    /// `run`: the only run of the payloads, if known; otherwise the whole chain is read.
    /// `subjects`: the names of the requester and the signers in the list of approvers and of
    /// operators. `by`: the requester's name in entries.
    ///
    /// # Errors
    /// `erasure.part`: the person took part. Or the ledger cannot be read.
    pub async fn refuse_part(
        &self,
        records: &Records,
        (wanted, run): (&Wanted, Option<&RunId>),
        (subjects, by): (&[&str], &str),
    ) -> Result<(), Error> {
        let theirs = |one: &&Lifted| one.hold.by == by || is_one_of(subjects, &one.signer);
        let theirs = records.lifted.iter().filter(theirs).map(|one| one.hold.clone());
        let theirs: Vec<LegalHold> = theirs.collect();
        for (chain, list) in wanted {
            let Some(row) = self.chains.get(chain) else { continue };
            let lifted = kept_by(&theirs, self.reader, row, list).await?;
            if lifted.keys().any(|c| list.contains(c)) {
                return Err(Error::Lifted);
            }
            for run in self.decided_runs_of(row, run, subjects).await? {
                let of_run = commitments_of(self.reader, chain, &run).await?;
                if of_run.iter().any(|(c, _)| list.contains(c)) {
                    return Err(Error::Decided);
                }
            }
        }
        Ok(())
    }

    /// Runs of this chain, or this run, in which one of these people approved or refused a call.
    async fn decided_runs_of(
        &self,
        chain: &ChainRow,
        run: Option<&RunId>,
        subjects: &[&str],
    ) -> Result<BTreeSet<RunId>, Error> {
        let mut runs = BTreeSet::new();
        if let Some(run) = run {
            let rows = self.reader.run_entries(&chain.chain, run).await?;
            runs.extend(decided_runs(&chain.origin, &rows, subjects)?);
            return Ok(runs);
        }
        let mut at = 0;
        while at < chain.head.size {
            let rows = self.reader.entries(&chain.chain, at, PAGE).await?;
            let Some(last) = rows.last() else { break };
            at = last.seq.saturating_add(1);
            runs.extend(decided_runs(&chain.origin, &rows, subjects)?);
        }
        Ok(runs)
    }
}

fn is_one_of(subjects: &[&str], other: &str) -> bool {
    subjects.iter().any(|subject| subject.eq_ignore_ascii_case(other))
}

/// The runs of approvals and refusals by these people, and of calls whose arguments one of them
/// wrote.
fn decided_runs(
    origin: &str,
    rows: &[EntryRow],
    subjects: &[&str],
) -> Result<BTreeSet<RunId>, StoreError> {
    let kinds = [Kind::ApprovalGranted, Kind::ApprovalRefused];
    let asked = [Kind::CallHeld, Kind::CallDenied];
    let any = |row: &EntryRow| kinds.iter().chain(&asked).any(|kind| kind.as_str() == row.kind);
    let decisions = rows.iter().filter(|row| any(row));
    let mut runs = BTreeSet::new();
    for row in decisions {
        let entry = Entry::parse(&row.body)
            .map_err(|e| StoreError::Broken(format!("entry {} of {origin}: {e}", row.seq)))?;
        let by = || Some(approval::proposer(entry.draft.body.decision()?.asked_by?).approval);
        let approval = approval::granted(&entry).or_else(|| approval::refused(&entry)).or_else(by);
        if approval.is_some_and(|approval| is_one_of(subjects, &approval.subject)) {
            runs.extend(entry.draft.run);
        }
    }
    Ok(runs)
}

/// The target of a legal hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HoldOn {
    /// The payloads of one run.
    Run(RunId),
    /// Everything in one log.
    Log(String),
}

impl std::fmt::Display for HoldOn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run(run) => write!(f, "run {run}"),
            Self::Log(log) => write!(f, "log {log}"),
        }
    }
}

impl HoldOn {
    /// The target of a signed order to lift a hold.
    ///
    /// # Errors
    /// The name of its target is invalid.
    pub fn of(statement: &OrderStatement) -> Result<Self, Error> {
        if statement.target == "log" {
            return Ok(Self::Log(statement.name.clone()));
        }
        run_of(statement).map(Self::Run)
    }
}

/// The change to a hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LegalHoldChange {
    /// Places it, for this reason.
    Place(Text),
    /// Lifts it, by this order.
    Lift(Box<Loosening>),
}

/// The result of a request to place or lift a hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HoldSet {
    /// The hold was already in place.
    Already(LegalHold),
    /// The change is recorded.
    Recorded(Receipt),
}

/// The log of a hold's target, for this tenant.
///
/// # Errors
/// There is no such run or log.
pub async fn log_of(reader: &dyn LedgerReader, tenant: &str, on: &HoldOn) -> Result<String, Error> {
    let chains = reader.chains().await?;
    let mut ours = chains.into_iter().filter(|row| row.tenant == tenant);
    match on {
        HoldOn::Log(log) => {
            let row = ours.find(|row| row.origin == *log);
            row.map(|row| row.origin).ok_or_else(|| Error::NoLog(log.clone()))
        }
        HoldOn::Run(run) => {
            let chain = reader.find_run(run).await?;
            let row = ours.find(|row| Some(row.chain) == chain);
            row.map(|row| row.origin).ok_or(Error::NoRun(*run))
        }
    }
}

/// Places or lifts a hold. The fleet log is open, so no other process records in it between the
/// check and the write.
///
/// # Errors
/// There is nothing to hold or to lift, the order does not apply, or the entry cannot be recorded.
pub async fn set_hold(
    reader: &dyn LedgerReader,
    fleet: &OpenFleetLog,
    (tenant, on): (&str, &HoldOn),
    (change, by): (&LegalHoldChange, &str),
) -> Result<HoldSet, Error> {
    let log = log_of(reader, tenant, on).await?;
    let run = match on {
        HoldOn::Run(run) => Some(run),
        HoldOn::Log(_) => None,
    };
    let records = Records::read(reader, tenant).await?;
    let now = records.holds.iter().find(|h| h.log == log && h.run.as_ref() == run);
    let draft = match (change, now) {
        (LegalHoldChange::Place(_), Some(now)) => return Ok(HoldSet::Already(now.clone())),
        (LegalHoldChange::Lift(_), None) => return Err(Error::NotHeld(on.to_string())),
        (LegalHoldChange::Place(reason), None) => placed((&log, run), reason, by),
        (LegalHoldChange::Lift(order), Some(now)) => {
            fresh((reader, tenant), &records, order).await?;
            if now.fleet == fleet.origin() && now.seq >= order.statement().previous.seq {
                return refuse(RefusalReason::LaterHold);
            }
            lifted((&log, run), by, order)
        }
    };
    fleet.record(draft).await.map(HoldSet::Recorded).map_err(Error::Unrecorded)
}
