//! A ledger verifies a part of itself, with the checks of the offline verifier.
//!
//! The part is read, each row is compared with its own bytes, and the bundle that an export would hand out is made in
//! memory and verified there, every decision made again. Nothing is recorded and nothing leaves: the answer is which
//! checks hold. The process that answers holds the keys it trusts, so this finds damage to a store, not a lying owner:
//! that takes a bundle, a trust file and another machine.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::artifacts::Artifacts;
use super::bundle::Files;
use super::disclosed::Redactions;
use super::export::{self, ExportOrder, Recorder};
use super::query::Query;
use super::scope::Scope;
use super::trust::Trust;
use super::verify::report::{Check, Outcome, Report};
use super::verify::{Step, Watch, verify_files_watched};
use super::{Error, contents, gather, pruned};
use crate::clock::Clock;
use crate::crypto::keys::PublicKey;
use crate::crypto::signer::Signer;
use crate::domain::id::{CallId, RunId, Seq};
use crate::domain::plural::many;
use crate::ledger::store::{ChainRow, EntryRow, LedgerReader, StoreError};
use crate::ledger::vault::Vault;
use crate::ledger::verify::chain::columns;
use crate::ledger::verify::fleet::{FleetHeads, is_fleet};
use crate::ledger::verify::kinds::{self, Finding};
use crate::ledger::verify::{Damage, EntryLine, Roots, chain_from};
use crate::record::fleet::{KeyRotated, KeyUse};
use crate::record::{Draft, Kind};

/// Entries that one audit verifies at most.
pub const ENTRIES_MAX: u64 = 10_000;
/// Bytes of their payloads at most: all of them are in memory together.
pub const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Rows fetched at a time.
const PAGE: u32 = 1000;

/// Why nothing was verified.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The part does not exist, or the ledger cannot be read.
    #[error(transparent)]
    Evidence(#[from] Error),
    /// No call of the run has the id.
    #[error("run `{run}` has no call `{call}`")]
    NoCall {
        /// The run.
        run: RunId,
        /// The call.
        call: CallId,
    },
    /// The part has too many entries for one request.
    #[error(
        "the part has {0} entries, and one request verifies at most {ENTRIES_MAX}: name a shorter range of its chain"
    )]
    TooMany(u64),
    /// The payloads of the part are too large for one request.
    #[error(
        "the part has {0} bytes of payloads, and one request verifies at most {BYTES_MAX}: name a shorter range of its \
         chain"
    )]
    TooLarge(u64),
}

impl From<StoreError> for AuditError {
    fn from(error: StoreError) -> Self {
        Self::Evidence(error.into())
    }
}

/// What to verify, from where, and against what.
pub struct AuditOrder<'a> {
    /// The ledger.
    pub reader: &'a dyn LedgerReader,
    /// The tenant that owns the chains.
    pub tenant: &'a str,
    /// The part: a run or a range.
    pub query: &'a Query,
    /// The call that is asked about, of a run.
    pub call: Option<&'a CallId>,
    /// Policy bundles and manifests by digest.
    pub artifacts: &'a Artifacts,
    /// The evidence key: an audit makes the bundle that an export would.
    pub key: &'a dyn Signer,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Keys of payloads that are stored encrypted.
    pub vault: Option<&'a Vault>,
    /// The keys that this process trusts.
    pub trust: &'a Trust,
}

crate::record::debug_by!(AuditOrder<'_>: query);

/// What was found.
#[derive(Debug)]
pub struct AuditResult {
    /// The log.
    pub log: String,
    /// Its size when it was read.
    pub size: Seq,
    /// The entries that were verified.
    pub entries: Vec<Seq>,
    /// The checks.
    pub report: Report,
    /// How the store was changed, if it was.
    pub damage: Option<Finding>,
    /// How long each step of the verifier took.
    pub steps: Vec<(Step, Duration)>,
}

/// Verifies a part of the ledger.
///
/// # Errors
/// There is no such part, it is too large, or the ledger cannot be read. Damage is not an error: the result has it.
pub async fn audit(order: &AuditOrder<'_>) -> Result<AuditResult, AuditError> {
    let mut chains = order.reader.chains().await?;
    chains.retain(|row| row.tenant == order.tenant);
    let (row, rows) = selected(order, &chains).await?;
    let lines = match read(&rows) {
        Ok(lines) => lines,
        Err((seq, damage)) => return damaged(order, (&chains, row), (seq, damage), &rows).await,
    };
    let bytes = lines.iter().flat_map(|line| line.entry.draft.commit.iter());
    let bytes = bytes.fold(0_u64, |sum, one| sum.saturating_add(one.len.get()));
    let entries = number(lines.len());
    sized(entries, bytes)?;
    let asked: Vec<Seq> = match (order.call, order.query) {
        (Some(call), Query::Run(run)) => {
            let ours = |line: &&EntryLine| line.entry.draft.call.as_ref() == Some(call);
            let found: Vec<Seq> = lines.iter().filter(ours).map(|line| line.entry.seq).collect();
            if found.is_empty() {
                return Err(AuditError::NoCall { run: *run, call: call.clone() });
            }
            found
        }
        (Some(_) | None, _) => lines.iter().map(|line| line.entry.seq).collect(),
    };
    let trust = trusted(order, &chains).await?;
    let heads = trust.heads.iter().filter(|head| head.origin == row.origin);
    let heads: Vec<Seq> = heads.map(|head| head.size).collect();
    match Box::pin(bundle(order, &heads)).await {
        Ok(files) => {
            let watch = StepTimes::new(order.clock);
            let mut report = verify_files_watched(&files, &trust, &watch);
            for id in ["D2", "D1"] {
                let held = Outcome::Valid(many(rows.len(), "row"));
                report.checks.insert(0, Check { id, outcome: held });
            }
            let steps = watch.ended();
            let (log, size) = (row.origin.clone(), row.head.size);
            Ok(AuditResult { log, size, entries: asked, report, damage: None, steps })
        }
        Err(Error::Ledger { seq, damage }) => {
            damaged(order, (&chains, row), (seq, damage), &rows).await
        }
        Err(error) => {
            let error = pruned::explained(order.reader, order.tenant, &chains, error).await;
            let Error::Pruned { from, to, .. } = &error else { return Err(error.into()) };
            // No record explains it.
            let why = format!("entries {from} to {} are not in the store", to.saturating_sub(1));
            let damage = Damage::new("R1", why);
            damaged(order, (&chains, row), (*from, damage), &rows).await
        }
    }
}

/// The chain of the part, and its rows.
async fn selected<'a>(
    order: &AuditOrder<'_>,
    chains: &'a [ChainRow],
) -> Result<(&'a ChainRow, Vec<EntryRow>), AuditError> {
    match order.query {
        Query::Run(run) => {
            let row = gather::chain_of(order.reader, chains, run).await?;
            let row = row.ok_or_else(|| Error::NoRun(run.to_string()))?;
            let mut rows = order.reader.run_entries(&row.chain, run).await?;
            rows.retain(|entry| entry.seq < row.head.size);
            Ok((row, rows))
        }
        Query::Range { log, span } => {
            let row = chains.iter().find(|row| row.origin == *log);
            let row = row.ok_or_else(|| Error::NoLog(log.clone()))?;
            let (from, to) = (span.from, span.to.min(row.head.size));
            if from >= to {
                let (log, size) = (log.clone(), row.head.size);
                return Err(Error::NoSpan { log, from, to, size }.into());
            }
            sized(to.saturating_sub(from), 0)?;
            let (mut rows, mut at) = (Vec::new(), from);
            while at < to {
                let page = order.reader.entries(&row.chain, at, PAGE).await?;
                let Some(last) = page.last() else { break };
                at = last.seq.saturating_add(1);
                rows.extend(page.into_iter().filter(|entry| entry.seq < to));
            }
            Ok((row, rows))
        }
        Query::Population(_) => Err(Error::NoRun("population".to_owned()).into()),
    }
}

/// Whether one request may verify so much.
const fn sized(entries: u64, bytes: u64) -> Result<(), AuditError> {
    match (entries > ENTRIES_MAX, bytes > BYTES_MAX) {
        (true, _) => Err(AuditError::TooMany(entries)),
        (false, true) => Err(AuditError::TooLarge(bytes)),
        (false, false) => Ok(()),
    }
}

/// Reads each row, and compares its columns with its bytes.
fn read(rows: &[EntryRow]) -> Result<Vec<EntryLine>, (Seq, Damage)> {
    let one = |row: &EntryRow| {
        let line = EntryLine::read(&row.body)?;
        columns(row, &line)?;
        if line.entry.seq != row.seq {
            let why = format!("the row is {}, its bytes say {}", row.seq, line.entry.seq);
            return Err(Damage::new("S2", why));
        }
        Ok(line)
    };
    rows.iter().map(|row| one(row).map_err(|damage| (row.seq, damage))).collect()
}

/// The bundle of the part, with all payloads that are stored.
async fn bundle(order: &AuditOrder<'_>, heads: &[Seq]) -> Result<Files, Error> {
    let export = ExportOrder {
        reader: order.reader,
        tenant: order.tenant,
        query: order.query,
        artifacts: order.artifacts,
        key: order.key,
        out: Path::new(""),
        clock: order.clock,
        version: contents::VERSION,
        program: || "",
        requester: "audit",
        since: heads,
        payloads: true,
        vault: order.vault,
        redactions: &Redactions::default(),
        recorder: &NoRecorder,
    };
    Ok(export::made(&export).await?.0)
}

/// An audit hands out nothing, so it has nothing to record.
struct NoRecorder;

#[async_trait]
impl Recorder for NoRecorder {
    async fn record(&self, _: Draft) -> Result<(), crate::ledger::Error> {
        Err(crate::ledger::Error::Unknown)
    }
}

/// What this process trusts: also the enrolment keys that its fleet logs say were followed by one of them.
async fn trusted(order: &AuditOrder<'_>, chains: &[ChainRow]) -> Result<Trust, StoreError> {
    let mut enrolment = order.trust.enrolment.clone();
    for row in chains.iter().filter(|row| is_fleet(row)) {
        let rows = order.reader.entries_of(&row.chain, &[Kind::KeyRotated.as_str()]).await?;
        let lines = rows.iter().filter_map(|row| EntryLine::read(&row.body).ok());
        let rotated: Vec<KeyRotated> = lines.filter_map(|line| line.get().cloned()).collect();
        for one in rotated.iter().rev().filter(|one| one.r#use == KeyUse::Enrolment) {
            let keys = [&one.old, &one.new].map(|key| PublicKey::from_bytes(&key.0));
            if let [Some(old), Some(new)] = keys
                && enrolment.contains(&new)
                && !enrolment.contains(&old)
            {
                enrolment.push(old);
            }
        }
    }
    let run = match order.query {
        Query::Run(run) => Some(*run),
        Query::Range { .. } | Query::Population(_) => None,
    };
    Ok(Trust {
        evidence: order.trust.evidence.iter().copied().chain([order.key.public()]).collect(),
        enrolment,
        run,
        now: Some(order.clock.now()),
        replay: true,
        ..order.trust.clone()
    })
}

/// The result where the store does not hold what was signed: the check that fails, and what was done to the rows.
async fn damaged(
    order: &AuditOrder<'_>,
    (chains, row): (&[ChainRow], &ChainRow),
    (seq, damage): (Seq, Damage),
    rows: &[EntryRow],
) -> Result<AuditResult, AuditError> {
    // The whole chain shows what was done, and to which entry, if it is short enough to be read now.
    let finding = match row.head.size <= ENTRIES_MAX {
        true => diagnosed(order, chains, row).await?,
        false => None,
    };
    let mut report = Report { log: Some(row.origin.clone()), ..Report::default() };
    let why = match &finding {
        Some(Finding { kind, seq, why, .. }) => format!("{kind} at entry {seq}: {why}"),
        None => format!("entry {seq}: {}", damage.why),
    };
    let check = finding.as_ref().map_or(damage.check, |finding| finding.check);
    report.checks.push(Check { id: check, outcome: Outcome::Invalid(why) });
    Ok(AuditResult {
        log: row.origin.clone(),
        size: row.head.size,
        entries: rows.iter().map(|row| row.seq).collect(),
        report,
        damage: finding,
        steps: Vec::new(),
    })
}

async fn diagnosed(
    order: &AuditOrder<'_>,
    chains: &[ChainRow],
    row: &ChainRow,
) -> Result<Option<Finding>, StoreError> {
    let trust = trusted(order, chains).await?;
    let revoked = trust.revoked_enrolments();
    let roots = Roots { trusted: &trust.enrolment, revoked: &revoked };
    let mut fleet = FleetHeads::default();
    for log in chains.iter().filter(|log| is_fleet(log) && log.chain != row.chain) {
        fleet.take(order.reader, log).await?;
    }
    let known = fleet.0.remove(&row.origin).unwrap_or_default();
    let report = chain_from(order.reader, row, roots, known.pruned, &|_| ()).await?;
    kinds::diagnose(order.reader, &report, &known).await
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Notes when each step began.
struct StepTimes<'a> {
    clock: &'a dyn Clock,
    began: Mutex<Vec<(Step, Duration)>>,
}

impl<'a> StepTimes<'a> {
    fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, began: Mutex::default() }
    }

    /// How long each took: until the next one began, or until now.
    fn ended(self) -> Vec<(Step, Duration)> {
        let began = self.began.into_inner();
        let ends: Vec<Duration> =
            began.iter().skip(1).map(|(_, at)| *at).chain([self.clock.monotonic()]).collect();
        let took = began.into_iter().zip(ends);
        took.map(|((step, from), to)| (step, to.saturating_sub(from))).collect()
    }
}

impl Watch for StepTimes<'_> {
    fn at(&self, step: Step) {
        self.began.lock().push((step, self.clock.monotonic()));
    }
}

/// Why a check of the verifier was not made, by its id and by what was verified.
pub fn not_applicable(id: &str, scope: Scope) -> Option<&'static str> {
    match id {
        "R1" if scope != Scope::Range => Some("it is about a range of a log"),
        "R2" | "C2" => Some("it is about the chains of a whole tenant"),
        "H2" => Some("no head of the log is pinned in the file of `evidence.trust`"),
        "F1" | "W1" | "W2" => {
            Some("the file of `evidence.trust` names no fleet key, witness or authority")
        }
        _ => None,
    }
}

/// The ids that a verification can have, in the verifier's order, after those of the store itself.
pub fn checks() -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = [
        ("D1", "the columns of each row are those of its signed bytes"),
        ("D2", "the stored hashes are those of the signed bytes"),
    ];
    own.into_iter().chain(super::verify::TITLES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_too_large_is_refused_with_what_to_do() {
        assert!(sized(ENTRIES_MAX, BYTES_MAX).is_ok());
        for (entries, bytes) in [(ENTRIES_MAX + 1, 0), (1, BYTES_MAX + 1)] {
            let why = sized(entries, bytes).unwrap_err().to_string();
            assert!(why.contains("name a shorter range of its chain"), "{why}");
        }
    }

    #[test]
    fn every_check_has_a_title_and_is_listed_once() {
        let ids: std::collections::BTreeSet<&str> = checks().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), checks().count());
        for id in ["D1", "D2", "R1", "R2", "C2", "H2", "F1", "W1", "W2"] {
            assert!(ids.contains(id), "{id}");
        }
        assert_eq!(not_applicable("R1", Scope::Range), None);
        assert!(not_applicable("R1", Scope::Run).is_some());
        assert_eq!(not_applicable("E1", Scope::Run), None);
    }
}
