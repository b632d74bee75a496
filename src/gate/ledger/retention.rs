//! How long payloads stay: clocks, legal holds, and erasing with a record.
//!
//! Nothing is deleted before `payload.erased` is durable in the tenant's fleet log. A crash between
//! the two leaves rows that the log already calls erased; the next erasure deletes them first. The
//! same log records legal holds, which stop both clocks and erasing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;

use super::store::{ChainRow, EntryRow, LedgerReader, StoreError};
use super::verify::fleet::is_fleet;
use crate::approval::order::Loosening;
use crate::domain::closed::texts;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ChainId, RunId, Seq};
use crate::domain::time::Timestamp;
use crate::record::payload::{HoldLifted, HoldPlaced, PayloadErased, SignedOrder, Term, Terms};
use crate::record::{BY_CLOCK, Draft, Entry, HexDigest, Kind, List, Role, Text};

/// Entries that are read at once.
const PAGE: u32 = 1000;
/// The decisions that an obligation comes with.
const KINDS: [&str; 2] = ["call.authorized", "call.held"];
/// The most commitments of one `payload.erased`.
pub const ERASED_MAX: usize = 200;
/// How long payloads stay by default: 30 days.
pub const PAYLOAD_DAYS: u64 = 30;
/// How long backups keep erased payloads by default: 35 days.
pub const BACKUP_DAYS: u64 = 35;

/// A stored payload, without its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredPayload {
    /// Its chain.
    pub chain: ChainId,
    /// The commitment in its entry.
    pub commitment: Digest,
    /// `args`, `result`, …
    pub role: String,
    /// When it was stored, by the clock of the store.
    pub stored_at: Timestamp,
    /// Bytes as stored.
    pub bytes: u64,
    /// Whether they are encrypted.
    pub sealed: bool,
    /// The row in a store that has its own number for it.
    pub row: Option<i64>,
}

texts! {
    /// What the files of the store still hold of erased bytes.
    pub enum Residue {
        /// The files were searched, and hold no erased bytes.
        None = "none",
        /// Some are still there.
        Some = "some",
        /// The store keeps its files where they cannot be searched.
        Unknown = "unknown",
    }
}

/// Deletes payloads outside the call path.
#[async_trait]
pub trait PayloadEraser: Send + Sync + 'static {
    /// Every stored payload, oldest first.
    async fn kept(&self) -> Result<Vec<StoredPayload>, StoreError>;

    /// Deletes these rows of the chain, as [`Self::kept`] lists them, with their salts; returns how
    /// many there were. Idempotent.
    async fn erase(&self, chain: &ChainId, list: &[StoredPayload]) -> Result<u64, StoreError>;

    /// Removes traces of deleted rows from the store's own files, as far as that is possible beside
    /// a running sidecar. Returns what is left of the rows that this keeper deleted.
    ///
    /// `anew`: also rewrite the files if no trace was found.
    async fn scrub(&self, anew: bool) -> Result<Residue, StoreError>;
}

/// How long payloads of each role stay.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Clocks(pub BTreeMap<String, Duration>);

impl Clocks {
    /// Whether a payload of this role and storage time is due now.
    #[must_use]
    pub fn due(&self, kept: &StoredPayload, now: Timestamp) -> bool {
        kept.stored_at.plus(self.term(&kept.role)) <= now
    }

    /// How long payloads of this role stay.
    pub fn term(&self, role: &str) -> Duration {
        let days = Duration::from_secs(PAYLOAD_DAYS * 24 * 60 * 60);
        self.0.get(role).copied().unwrap_or(days)
    }

    /// The terms in the form of `payload.erased`.
    fn recorded(&self) -> Terms {
        let seconds = |role: &str| self.term(role).as_secs().into();
        let term = |role: &String| Term { role: role.into(), seconds: seconds(role) };
        Terms { other: seconds(""), roles: self.0.keys().map(term).collect() }
    }
}

/// A hold that was placed and not lifted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LegalHold {
    /// The log it is about.
    pub log: String,
    /// The run; none: the whole log.
    pub run: Option<RunId>,
    /// Why.
    pub reason: String,
    /// Who placed it.
    pub by: String,
    /// The fleet log it stands in.
    pub fleet: String,
    /// Its place there.
    pub seq: Seq,
}

impl std::fmt::Display for LegalHold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = self.run.map_or_else(|| self.log.clone(), |run| format!("run {run}"));
        write!(f, "hold {} on {what} by {}: {}", self.seq, self.by, self.reason)
    }
}

/// Where an erasure is recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Erasure {
    /// Name of the fleet log.
    pub fleet: String,
    /// Place in it.
    pub seq: Seq,
}

/// What a tenant's fleet log records about payloads: which were erased, and which are under hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Records {
    /// Erasures by log and commitment.
    pub erased: BTreeMap<(String, Digest), Erasure>,
    /// Holds in force, oldest first.
    pub holds: Vec<LegalHold>,
    /// Lifted holds, oldest first; `by` and `reason` are of the lifting.
    pub lifted: Vec<Lifted>,
    /// SHA-256 of every signed statement that was obeyed: each counts once.
    pub used: BTreeSet<Digest>,
    /// The highest version of a list of approvers under which an operator's order counted.
    pub version: u64,
}

/// A hold that was lifted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lifted {
    /// The hold; `by` and `reason` are of the lifting.
    pub hold: LegalHold,
    /// Who signed that.
    pub signer: String,
}

impl Records {
    /// Reads them from the fleet logs of this tenant, the oldest first.
    ///
    /// # Errors
    /// The store cannot be read, or an entry does not parse. Then nothing may be erased.
    pub async fn read(reader: &dyn LedgerReader, tenant: &str) -> Result<Self, StoreError> {
        let chains = fleet_logs(reader, tenant).await?;
        let kinds = [Kind::PayloadErased, Kind::HoldPlaced, Kind::HoldLifted].map(Kind::as_str);
        let mut records = Self::default();
        for chain in chains {
            for row in reader.entries_of(&chain.chain, &kinds).await? {
                records.accept(&chain.origin, &row)?;
            }
        }
        Ok(records)
    }

    fn accept(&mut self, origin: &str, row: &EntryRow) -> Result<(), StoreError> {
        let broken =
            |why: &str| StoreError::Broken(format!("entry {} of {origin}: {why}", row.seq));
        let entry = Entry::parse(&row.body).map_err(|e| broken(&e.to_string()))?;
        let body = &entry.draft.body;
        let fleet = origin.to_owned();
        if let Some(erased) = body.get::<PayloadErased>() {
            self.mark_used(erased.order.as_ref());
            for c in erased.c.iter() {
                let place = Erasure { fleet: fleet.clone(), seq: row.seq };
                self.erased.entry((erased.log.to_string(), c.0)).or_insert(place);
            }
        } else if let Some(HoldPlaced { by, log, reason, run }) = body.get::<HoldPlaced>() {
            let (by, log, reason) = (by.to_string(), log.to_string(), reason.to_string());
            self.holds.push(LegalHold { log, run: *run, reason, by, fleet, seq: row.seq });
        } else if let Some(HoldLifted { by, log, order, reason, run }) = body.get::<HoldLifted>() {
            self.mark_used(Some(order));
            let (by, log, reason) = (by.to_string(), log.to_string(), reason.to_string());
            self.holds.retain(|one| one.log != log || one.run != *run);
            let hold = LegalHold { log, run: *run, reason, by, fleet, seq: row.seq };
            self.lifted.push(Lifted { hold, signer: order.subject.to_string() });
        }
        Ok(())
    }

    /// Notes that the order of an entry was used, and the version of its list.
    fn mark_used(&mut self, order: Option<&SignedOrder>) {
        let Some(order) = order else { return };
        self.used.insert(Digest::of(&[order.statement.as_bytes()]));
        self.version = self.version.max(order.version.get());
    }

    /// Every commitment of this chain under a hold, with the hold.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn held(
        &self,
        reader: &dyn LedgerReader,
        chain: &ChainRow,
        asked: &BTreeSet<Digest>,
    ) -> Result<BTreeMap<Digest, LegalHold>, StoreError> {
        kept_by(&self.holds, reader, chain, asked).await
    }
}

/// The fleet logs of this tenant, the oldest first.
///
/// # Errors
/// The store cannot be read.
pub async fn fleet_logs(
    reader: &dyn LedgerReader,
    tenant: &str,
) -> Result<Vec<ChainRow>, StoreError> {
    let mut chains = reader.chains().await?;
    chains.retain(|row| row.tenant == tenant && is_fleet(row));
    Ok(chains)
}

/// Every commitment of this chain under one of these holds, with the first such hold.
///
/// # Errors
/// The store cannot be read.
pub async fn kept_by(
    holds: &[LegalHold],
    reader: &dyn LedgerReader,
    chain: &ChainRow,
    asked: &BTreeSet<Digest>,
) -> Result<BTreeMap<Digest, LegalHold>, StoreError> {
    let mut held = BTreeMap::new();
    for hold in holds.iter().filter(|hold| hold.log == chain.origin) {
        let Some(run) = &hold.run else {
            held.extend(asked.iter().map(|c| (*c, hold.clone())));
            continue;
        };
        for row in commitments_of(reader, &chain.chain, run).await? {
            held.entry(row.0).or_insert_with(|| hold.clone());
        }
    }
    Ok(held)
}

/// The commitments in the entries of a run, with their roles.
///
/// # Errors
/// The store cannot be read, or an entry does not parse.
pub async fn commitments_of(
    reader: &dyn LedgerReader,
    chain: &ChainId,
    run: &RunId,
) -> Result<Vec<(Digest, String)>, StoreError> {
    let mut list = Vec::new();
    for row in reader.run_entries(chain, run).await? {
        let entry = Entry::parse(&row.body)
            .map_err(|e| StoreError::Broken(format!("entry {}: {e}", row.seq)))?;
        let own = entry.draft.commit.into_iter();
        list.extend(own.map(|one| (one.c.0, one.role.to_string())));
    }
    Ok(list)
}

/// The call of this decision and until when a policy has its payloads kept, if one does.
fn audit(entry: &Entry) -> Option<(RunId, CallId, Timestamp)> {
    let obligations = entry.draft.body.decision()?.obligations;
    let days = obligations.iter().filter_map(|obligation| obligation.days).max()?.get();
    let until = entry.ts.plus(Duration::from_secs(days.saturating_mul(24 * 60 * 60)));
    Some((entry.draft.run?, entry.draft.call.clone()?, until))
}

/// Payloads of this chain that a policy has kept longer than their clock (`enhanced_audit`), with the
/// time until which. Of a call to a model this includes the messages that other calls of its run stored.
///
/// # Errors
/// The store cannot be read, or an entry does not parse.
pub async fn audited(
    reader: &dyn LedgerReader,
    chain: &ChainId,
) -> Result<BTreeMap<Digest, Timestamp>, StoreError> {
    let parse = |row: &EntryRow| {
        Entry::parse(&row.body).map_err(|e| StoreError::Broken(format!("entry {}: {e}", row.seq)))
    };
    let mut runs: BTreeMap<RunId, BTreeMap<CallId, Timestamp>> = BTreeMap::new();
    let mut next = 0;
    loop {
        let rows = reader.entries(chain, next, PAGE).await?;
        let Some(last) = rows.last() else { break };
        next = last.seq.saturating_add(1);
        for row in rows.iter().filter(|row| KINDS.contains(&row.kind.as_str())) {
            let entry = parse(row)?;
            let Some((run, call, until)) = audit(&entry) else { continue };
            let kept = runs.entry(run).or_default().entry(call).or_insert(until);
            *kept = until.max(*kept);
        }
    }
    let mut kept: BTreeMap<Digest, Timestamp> = BTreeMap::new();
    for (run, calls) in &runs {
        let longest = calls.values().max();
        for row in reader.run_entries(chain, run).await? {
            let Entry { draft, .. } = parse(&row)?;
            let own = draft.call.as_ref().and_then(|call| calls.get(call));
            for one in &draft.commit {
                let is_shared =
                    matches!(one.role, Role::Message | Role::Offer | Role::Instructions);
                let Some(until) = own.max(longest.filter(|_| is_shared)) else { continue };
                let known = kept.entry(one.c.0).or_insert(*until);
                *known = (*known).max(*until);
            }
        }
    }
    Ok(kept)
}

/// Why payloads are erased, and by whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grounds {
    /// Who asked for it.
    pub by: String,
    /// The time until which backups may still hold the bytes.
    pub backups_expire_by: Timestamp,
    /// What lets it be done.
    pub warrant: Warrant,
}

/// The authority under which payloads are erased.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Warrant {
    /// An operator's signed order.
    Order(Box<Loosening>),
    /// They exceeded their retention: the terms that applied.
    Clock(Clocks),
}

/// `payload.erased` for at most [`ERASED_MAX`] payloads of one log; `None` for an empty list.
#[must_use]
pub fn erased(log: &str, list: &[Digest], grounds: &Grounds) -> Option<Draft> {
    let (basis, order, request, terms) = match &grounds.warrant {
        Warrant::Order(order) => {
            let statement = order.statement();
            let request = statement.request.as_ref().map(Text::from);
            (statement.reason.as_str().into(), Some(order.recorded()), request, None)
        }
        Warrant::Clock(clocks) => (BY_CLOCK.into(), None, None, Some(clocks.recorded())),
    };
    Some(Draft::of(PayloadErased {
        backups_expire_by: grounds.backups_expire_by,
        basis,
        by: grounds.by.as_str().into(),
        c: List::some(list.iter().copied().map(HexDigest))?,
        log: log.into(),
        order,
        request,
        terms,
    }))
}

/// The target of a hold: a log, and a run of it unless the hold covers the whole log.
pub type HeldOn<'a> = (&'a str, Option<&'a RunId>);

/// `hold.placed`.
pub fn placed((log, run): HeldOn<'_>, reason: &Text, by: &str) -> Draft {
    let (by, log, reason) = (by.into(), log.into(), reason.clone());
    Draft::of(HoldPlaced { by, log, reason, run: run.copied() })
}

/// `hold.lifted`, by an operator's signed order.
pub fn lifted((log, run): HeldOn<'_>, by: &str, order: &Loosening) -> Draft {
    Draft::of(HoldLifted {
        by: by.into(),
        log: log.into(),
        order: order.recorded(),
        reason: order.statement().reason.as_str().into(),
        run: run.copied(),
    })
}
