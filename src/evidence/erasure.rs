//! Erasing payloads: first on the books, then from the store; and holding them against that.
//!
//! The one home of it: the command that works on a ledger and the office that is asked over its door do
//! the same. Nothing is deleted before the fleet log says so; what a crash left is deleted by whoever
//! erases next.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, RunId, Seq};
use crate::ledger::entry::{Entry, Kind};
use crate::ledger::fleet::Fleet;
use crate::ledger::permit::Receipt;
use crate::ledger::retention::{
    ERASED_MAX, Grounds, Hold, Kept, PayloadKeeper, Records, commitments_of, erased, hold, kept_by,
};
use crate::ledger::store::{ChainRow, EntryRow, LedgerReader, StoreError};

/// Rows that are read at once.
const PAGE: u32 = 1000;

/// Payloads by chain.
pub type Wanted = BTreeMap<ChainId, BTreeSet<Digest>>;

/// Why nothing was erased or held.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Ledger or store do not answer, or hold what is not understood.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The fleet log did not take the entry.
    #[error("it was not recorded, and so not done: {0}")]
    Unrecorded(crate::ledger::Error),
    /// No chain of the tenant has the run.
    #[error("no run {0}")]
    NoRun(RunId),
    /// No chain of the tenant has this name.
    #[error("there is no log {0}")]
    NoLog(String),
    /// A hold keeps one of the payloads: none was erased.
    #[error("payload {payload} is held, nothing was erased: {hold}")]
    Held {
        /// The payload.
        payload: Digest,
        /// What keeps it.
        hold: Box<Hold>,
    },
    /// There is nothing to lift.
    #[error("no hold on {0}")]
    NotHeld(String),
}

/// The payloads that are meant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// Every payload of this run.
    pub run: Option<RunId>,
    /// Of the run only payloads of this role.
    pub role: Option<String>,
    /// These.
    pub commitments: BTreeSet<Digest>,
}

/// What of it is still stored, and what is not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Stored, by chain.
    pub wanted: Wanted,
    /// Not stored: erased before, expired, or never kept.
    pub absent: BTreeSet<Digest>,
}

impl Found {
    /// How many are stored.
    #[must_use]
    pub fn count(&self) -> usize {
        self.wanted.values().map(BTreeSet::len).sum()
    }
}

/// What was recorded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recorded {
    /// Entries of the fleet log that say so.
    pub seqs: Vec<Seq>,
    /// The fleet log.
    pub fleet: String,
}

/// A ledger to erase in, for one tenant.
pub struct Shelf<'a> {
    /// Reads it.
    pub reader: &'a dyn LedgerReader,
    /// Deletes in it.
    pub keeper: &'a dyn PayloadKeeper,
    /// Its chains by id, those of other tenants too.
    pub chains: &'a BTreeMap<ChainId, ChainRow>,
    /// Whose payloads.
    pub tenant: &'a str,
}

impl std::fmt::Debug for Shelf<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shelf").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl Shelf<'_> {
    /// Every stored payload of this tenant, with its chain.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn kept(&self) -> Result<Vec<(&ChainRow, Kept)>, Error> {
        let kept = self.keeper.kept().await?;
        let with_chain = |kept: Kept| {
            let row = self.chains.get(&kept.chain).filter(|row| row.tenant == self.tenant);
            row.map(|row| (row, kept))
        };
        Ok(kept.into_iter().filter_map(with_chain).collect())
    }

    /// What the fleet log says.
    ///
    /// # Errors
    /// It cannot be read: then nothing may be erased.
    pub async fn records(&self) -> Result<Records, Error> {
        Ok(Records::read(self.reader, self.tenant).await?)
    }

    /// The payloads that are asked for, as far as they are stored.
    ///
    /// # Errors
    /// There is no such run, or the store cannot be read.
    pub async fn find(&self, asked: &Asked) -> Result<Found, Error> {
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
        Ok(Found { wanted, absent })
    }

    /// The chain of a run of this tenant.
    async fn chain_of(&self, run: &RunId) -> Result<&ChainRow, Error> {
        let chain = self.reader.find_run(run).await?;
        let row = chain.and_then(|chain| self.chains.get(&chain));
        row.filter(|row| row.tenant == self.tenant).ok_or(Error::NoRun(*run))
    }

    /// Refuses all if one is held.
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

    /// Puts it on the books, holding the fleet log so that no hold can come in between.
    ///
    /// # Errors
    /// One is held, or it cannot be recorded; what was recorded before that stands.
    pub async fn record(
        &self,
        fleet: &Fleet,
        wanted: &Wanted,
        grounds: &Grounds,
    ) -> Result<Recorded, Error> {
        let records = self.records().await?;
        self.refuse_held(&records, wanted).await?;
        let mut done = Recorded { fleet: fleet.origin().to_owned(), ..Recorded::default() };
        for (chain, list) in wanted {
            let Some(row) = self.chains.get(chain) else { continue };
            let new = |c: &&Digest| !records.erased.contains_key(&(row.origin.clone(), **c));
            let list: Vec<Digest> = list.iter().filter(new).copied().collect();
            for part in list.chunks(ERASED_MAX) {
                let draft = erased(&row.origin, part, grounds);
                let receipt = fleet.record(draft).await.map_err(Error::Unrecorded)?;
                done.seqs.push(receipt.seq);
            }
        }
        Ok(done)
    }

    /// Deletes every row that the fleet log calls erased, also what an erasure before left undone; how
    /// many there were.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn sweep(&self) -> Result<u64, Error> {
        let records = self.records().await?;
        let mut left: BTreeMap<ChainId, Vec<Digest>> = BTreeMap::new();
        for (row, kept) in self.kept().await? {
            if records.erased.contains_key(&(row.origin.clone(), kept.commitment)) {
                left.entry(row.chain).or_default().push(kept.commitment);
            }
        }
        let mut deleted = 0_u64;
        for (chain, list) in &left {
            deleted = deleted.saturating_add(self.keeper.erase(chain, list).await?);
        }
        Ok(deleted)
    }

    /// What keeps this person from erasing these payloads: a word they gave about a call of the run, or
    /// a hold on it that they lifted. Whoever had a part in it does not destroy the traces of it.
    ///
    /// `run`: the only run they are of, if that is known; else the whole chain is read. `by`: as lifted
    /// holds name the person.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub async fn part_in(
        &self,
        (wanted, run): (&Wanted, Option<&RunId>),
        (subject, by): (&str, &str),
    ) -> Result<Option<&'static str>, Error> {
        let records = self.records().await?;
        let theirs: Vec<Hold> = records.lifted.into_iter().filter(|hold| hold.by == by).collect();
        for (chain, list) in wanted {
            let Some(row) = self.chains.get(chain) else { continue };
            let lifted = kept_by(&theirs, self.reader, row, list).await?;
            if lifted.keys().any(|c| list.contains(c)) {
                return Ok(Some("whoever lifted a hold does not erase what it kept"));
            }
            for run in self.spoken_of(row, run, subject).await? {
                let of_run = commitments_of(self.reader, chain, &run).await?;
                if of_run.iter().any(|(c, _)| list.contains(c)) {
                    return Ok(Some("whoever approved or refused a call does not erase its run"));
                }
            }
        }
        Ok(None)
    }

    /// Runs of this chain, or this one, about whose calls this person gave a word.
    async fn spoken_of(
        &self,
        chain: &ChainRow,
        run: Option<&RunId>,
        subject: &str,
    ) -> Result<BTreeSet<RunId>, Error> {
        let mut runs = BTreeSet::new();
        if let Some(run) = run {
            let rows = self.reader.run_entries(&chain.chain, run).await?;
            runs.extend(spoken(&chain.origin, &rows, subject)?);
            return Ok(runs);
        }
        let mut at = 0;
        while at < chain.head.size {
            let rows = self.reader.entries(&chain.chain, at, PAGE).await?;
            let Some(last) = rows.last() else { break };
            at = last.seq.saturating_add(1);
            runs.extend(spoken(&chain.origin, &rows, subject)?);
        }
        Ok(runs)
    }
}

/// The runs of those entries that are this person's words, or a call whose arguments this person wrote.
fn spoken(origin: &str, rows: &[EntryRow], subject: &str) -> Result<BTreeSet<RunId>, StoreError> {
    let kinds = [Kind::ApprovalGranted, Kind::ApprovalRefused];
    let asked = [Kind::CallHeld, Kind::CallDenied];
    let any = |row: &EntryRow| kinds.iter().chain(&asked).any(|kind| kind.as_str() == row.kind);
    let words = rows.iter().filter(|row| any(row));
    let mut runs = BTreeSet::new();
    for row in words {
        let entry = Entry::parse(&row.body)
            .map_err(|e| StoreError::Broken(format!("entry {} of {origin}: {e}", row.seq)))?;
        let by = || crate::ledger::hold::asked_by(&entry.draft.data).map(|by| by.approval);
        let said = kinds.iter().find_map(|kind| crate::ledger::hold::said(&entry, *kind));
        let said = said.or_else(by);
        if said.is_some_and(|said| said.subject.eq_ignore_ascii_case(subject)) {
            runs.extend(entry.draft.run);
        }
    }
    Ok(runs)
}

/// What a hold is placed on.
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

/// What became of a request to hold or to release.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HoldSet {
    /// It was held already.
    Already(Hold),
    /// It stands on the books now.
    Recorded(Receipt),
}

/// The log a hold is about, of this tenant.
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

/// Places (`place`) or lifts a hold. The fleet log is open, so nobody else records in it: what is read
/// here still holds when it is written.
///
/// # Errors
/// There is nothing to hold or to lift, or it cannot be recorded.
pub async fn set_hold(
    reader: &dyn LedgerReader,
    fleet: &Fleet,
    (tenant, on, place): (&str, &HoldOn, bool),
    (reason, by): (&str, &str),
) -> Result<HoldSet, Error> {
    let log = log_of(reader, tenant, on).await?;
    let run = match on {
        HoldOn::Run(run) => Some(run),
        HoldOn::Log(_) => None,
    };
    let records = Records::read(reader, tenant).await?;
    let now = records.holds.into_iter().find(|h| h.log == log && h.run.as_ref() == run);
    let kind = match (place, now) {
        (true, Some(now)) => return Ok(HoldSet::Already(now)),
        (false, None) => return Err(Error::NotHeld(on.to_string())),
        (true, None) => Kind::HoldPlaced,
        (false, Some(_)) => Kind::HoldLifted,
    };
    let draft = hold(kind, &log, run, reason, by);
    fleet.record(draft).await.map(HoldSet::Recorded).map_err(Error::Unrecorded)
}
