//! Which bundle may be in force where amendments are required: the one of the last entry that put
//! one in force on this chain, and after it only one that was proposed and approved on the list and
//! recorded.
//!
//! The list carries proposals with their files, so that a gate needs no directory that changes under it. This
//! gate checks every row itself: the author's role, the bundle as any other, the publishers' signatures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::checked::Checked;
use super::lists::KeptList;
use super::policy::{self, examine, linted, put_in_force};
use super::running::Running;
use super::{PAUSE, approvers};
use crate::approval::Approval;
use crate::control::amendments::{Proposal, is_applied};
use crate::control::{Order, OrderReport, Orders, Row};
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::enforce::{Amender, Basis, BasisKind, Road};
use crate::ledger::store::{Leased, StoreError};
use crate::ledger::{self, Ledger};
use crate::policy::activation::InForce;
use crate::policy::bundle::Unread;
use crate::policy::carried::BundleFiles;
use crate::policy::fault::LoadError;
use crate::record::debug_by;

mod effect;
mod rows;
mod written;

/// Rows of one look: each may carry a bundle.
const PAGE: usize = 16;

/// Why the bundle that this chain records as in force is not loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The gate ends.
    #[error("the gate has stopped")]
    Stopped,
    /// The ledger does not name the bundle in force.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    /// The list of orders cannot be read.
    #[error(transparent)]
    Orders(#[from] StoreError),
    /// The chain names no version.
    #[error("the ledger entry of the bundle in force names no version")]
    NoVersion,
    /// The files of the bundle in force are lost.
    #[error("{} is in force on this chain, but its files are lost", .0.prefixed())]
    Missing(Digest),
    /// The directory holds a bundle that no amendment led from or to.
    #[error(
        "the directory holds {}, which no amendment proposed; the amendments led to {}",
        .found.prefixed(), .last.map(|last| last.prefixed()).unwrap_or_default()
    )]
    Unamended { found: Digest, last: Option<Digest> },
    /// The directory was changed while it was read.
    #[error("the directory changed")]
    Changed,
    /// The files of a bundle cannot be kept.
    #[error("`{path}`: {source}")]
    Unkept { path: String, source: std::io::Error },
    /// The directory holds no bundle.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The bundle is not put in force.
    #[error(transparent)]
    Policy(#[from] policy::Error),
}

/// A directory that holds no bundle: the first thing that is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.as_ref().map_or_else(|| "it cannot be read".to_owned(), ToString::to_string))]
pub(super) struct DirectoryError(Option<LoadError>);

/// A valid proposal, with its approvals and refusals.
#[derive(Debug)]
struct OpenProposal {
    proposal: Proposal,
    granted: Vec<Approval>,
    /// Who refused it, if an approver did.
    refused: Option<String>,
}

/// How far this gate is with the list.
#[derive(Debug, Default)]
struct ListProgress {
    /// The last row that was looked at.
    last_row: u64,
    /// Rows up to here led to the bundle this chain began with: they are known, not obeyed again.
    before: u64,
    /// The last proposal of each bundle.
    open: BTreeMap<Digest, OpenProposal>,
    /// What this life did about rows.
    done: BTreeMap<u64, Json>,
}

/// The keeper of the constitution.
pub(super) struct Constitution {
    checked: Arc<Checked>,
    running: Weak<Running>,
    ledger: Ledger,
    orders: Arc<dyn Orders>,
    origin: String,
    /// Whether the bundle of the last life is back, or known not to be: rows wait for it.
    opened: watch::Sender<bool>,
    inner: tokio::sync::Mutex<ListProgress>,
    in_force: Mutex<Option<InForce>>,
    note: Mutex<Option<String>>,
}

debug_by!(Constitution: origin);

impl Constitution {
    /// The keeper of the chain that is leased. Nothing is read yet.
    pub fn new(checked: &Arc<Checked>, running: &Arc<Running>, leased: &Leased) -> Arc<Self> {
        Arc::new(Self {
            checked: Arc::clone(checked),
            running: Arc::downgrade(running),
            ledger: running.ledger.clone(),
            orders: running.list.orders(),
            origin: leased.origin.clone(),
            opened: watch::channel(false).0,
            inner: tokio::sync::Mutex::default(),
            in_force: Mutex::default(),
            note: Mutex::default(),
        })
    }

    /// The bundle that this chain records as in force.
    pub fn digest(&self) -> Option<Digest> {
        self.in_force.lock().as_ref().map(|now| now.digest)
    }

    /// A note for operators about the policy, if there is one.
    pub fn note(&self) -> Option<String> {
        self.note.lock().clone()
    }

    /// Puts the recorded bundle, or the first one of all, in force, and obeys the rows that arrived
    /// meanwhile.
    pub async fn open(&self, road: &Arc<Road>) -> Result<(), Error> {
        let mut inner = self.inner.lock().await;
        let opened = self.begin(&mut inner, road).await;
        *self.note.lock() = opened.as_ref().err().map(|why| format!("policy: {why}"));
        self.catch_up(&mut inner, u64::MAX, road).await;
        for (seq, done) in &inner.done {
            self.report(*seq, done).await;
        }
        if opened.is_ok() {
            self.look_at_directory();
        }
        drop(inner);
        self.opened.send_replace(true);
        opened
    }

    /// Reads the policy again on request; without an amendment this puts no other bundle in force.
    pub async fn look_again(&self, road: &Arc<Road>) {
        if road.engine().is_none() && *self.opened.borrow() {
            if let Err(why) = self.open(road).await {
                tracing::error!(%why, "no policy bundle is in force");
            }
            return;
        }
        self.look_at_directory();
    }

    /// Logs a difference between the directory and the bundle in force.
    fn look_at_directory(&self) {
        let Some(dir) = self.checked.live().config.policy.bundle.clone() else { return };
        let (found, now) = (digest_of(&dir), self.digest());
        let stays = now.map_or_else(|| "nothing".to_owned(), |now| now.prefixed());
        let note = match found {
            Ok(found) if Some(found) == now => None,
            Ok(found) => Some(format!(
                "policy: the directory holds {}, which no amendment put in force; {stays} stays in force",
                found.prefixed()
            )),
            Err(why) => Some(format!(
                "policy: the directory holds no bundle ({why}); {stays} stays in force"
            )),
        };
        if let Some(note) = &note {
            tracing::warn!(%note, "the policy directory differs from the bundle that amendments put in force");
        }
        *self.note.lock() = note;
    }

    async fn begin(&self, inner: &mut ListProgress, road: &Arc<Road>) -> Result<(), Error> {
        let running = self.running.upgrade().ok_or(Error::Stopped)?;
        let last = loop {
            match self.ledger.last_activated().await {
                Ok(last) => break last,
                Err(error) if running.passes(&error) => tokio::time::sleep(PAUSE).await,
                Err(error) => return Err(error.into()),
            }
        };
        let Some(last) = last else { return self.bootstrap(inner, road).await };
        let version = last.version.parse().map_err(|_| Error::NoVersion)?;
        let digest = last.bundle;
        *self.in_force.lock() = Some(InForce { name: last.name, version, digest });
        let dir = self.find(&digest).await.ok_or(Error::Missing(digest))?;
        self.put(road, dir, (BasisKind::Restart, None)).await
    }

    /// The first bundle of this chain, from the directory. If the list has amendments already, one
    /// of them must have it as base or as result.
    async fn bootstrap(&self, inner: &mut ListProgress, road: &Arc<Road>) -> Result<(), Error> {
        let live = self.checked.live();
        let dir = live.config.policy.bundle.clone().ok_or(policy::Error::Unset)?;
        let digest = digest_of(&dir)?;
        let history = self.history().await?;
        if !history.is_empty() {
            let leading_here = history.iter().filter(|(_, proposal)| proposal.bundle == digest);
            inner.before = leading_here.map(|(seq, _)| *seq).max().unwrap_or_default();
            let base = history.iter().any(|(_, proposal)| proposal.base == digest);
            if inner.before == 0 && !base {
                let last = history.last().map(|(_, proposal)| proposal.bundle);
                return Err(Error::Unamended { found: digest, last });
            }
        }
        let kept = self.kept(&digest);
        let files = BundleFiles::read(&dir).map_err(|_| Error::Changed)?;
        files
            .write(&kept)
            .map_err(|source| Error::Unkept { path: kept.display().to_string(), source })?;
        self.put(road, kept, (BasisKind::Bootstrap, None)).await
    }

    /// Amendments that a gate put in force, with the number of the row that had it done.
    async fn history(&self) -> Result<Vec<(u64, Proposal)>, StoreError> {
        let (mut open, mut history, mut seen) = (BTreeMap::new(), Vec::new(), 0);
        loop {
            let rows = self.orders.since(seen, PAGE).await?;
            let Some(last) = rows.last() else { return Ok(history) };
            seen = last.seq;
            for row in &rows {
                if let Some(proposal) = Proposal::of(row) {
                    open.insert(proposal.bundle, proposal);
                } else if let Some(Order::Activate { bundle }) = &row.order {
                    let reports = self.orders.reports(row.seq).await?;
                    let proposal = open.get(bundle).filter(|_| reports.iter().any(is_applied));
                    history.extend(proposal.map(|proposal| (row.seq, proposal.clone())));
                }
            }
        }
    }

    /// Where the files of this bundle are, if they are anywhere: kept here, in the directory, on the list.
    async fn find(&self, digest: &Digest) -> Option<PathBuf> {
        let kept = self.kept(digest);
        let is = |dir: &PathBuf| digest_of(dir).is_ok_and(|found| found == *digest);
        if is(&kept) {
            return Some(kept);
        }
        if let Some(dir) = self.checked.live().config.policy.bundle.clone().filter(is) {
            BundleFiles::read(&dir).ok()?.write(&kept).ok()?;
            return Some(kept);
        }
        let mut seen = 0;
        loop {
            let rows = self.orders.since(seen, PAGE).await.ok()?;
            seen = rows.last()?.seq;
            let proposals = rows.iter().filter_map(Proposal::of);
            for proposal in proposals.filter(|proposal| proposal.bundle == *digest) {
                if rows::files(&proposal).is_ok_and(|files| files.write(&kept).is_ok()) && is(&kept)
                {
                    return Some(kept);
                }
            }
        }
    }

    /// Where this gate keeps a bundle's files.
    fn kept(&self, digest: &Digest) -> PathBuf {
        self.checked.config.state.join("policies").join(digest.hex())
    }

    /// Examines the bundle of a directory and puts it in force.
    async fn put(
        &self,
        road: &Arc<Road>,
        dir: PathBuf,
        (kind, base): (BasisKind, Option<Digest>),
    ) -> Result<(), Error> {
        let running = self.running.upgrade().ok_or(Error::Stopped)?;
        let live = self.checked.live();
        let (candidate, findings) =
            examine(&self.checked, &live, &self.ledger, road.tool_tiers(), dir).await?;
        let notes = linted(&findings, live.config.policy.lint)?;
        let now = InForce {
            name: candidate.bundle.name().to_owned(),
            version: candidate.bundle.version().clone(),
            digest: candidate.bundle.digest(),
        };
        let approvals = self.checked.config.policy.approvals;
        let basis = Basis { kind, base, approvals };
        let again = |error: &ledger::Error| running.passes(error);
        put_in_force(&self.checked, road, candidate, Some(basis), again).await?;
        *self.in_force.lock() = Some(now);
        *running.findings.lock() = notes;
        Ok(())
    }

    /// The signed list of publishers, if one is configured.
    fn publishers(&self) -> Option<KeptList> {
        approvers::signed(&self.checked, &self.checked.live(), &self.ledger)
    }

    /// Looks at every row up to this one; obeys what this gate has not obeyed before.
    async fn catch_up(&self, inner: &mut ListProgress, until: u64, road: &Arc<Road>) {
        while inner.last_row < until {
            let rows = match self.orders.since(inner.last_row, PAGE).await {
                Ok(rows) => rows,
                Err(error) => {
                    tracing::warn!(%error, "amendments cannot be read");
                    let Some(running) = self.running.upgrade() else { return };
                    if running.stop.is_cancelled() {
                        return;
                    }
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            if rows.is_empty() {
                return;
            }
            for row in rows.into_iter().filter(|row| row.seq <= until) {
                if row.order.as_ref().is_some_and(|order| order.amends().is_some()) {
                    self.take(inner, &row, road).await;
                }
                inner.last_row = row.seq;
            }
        }
    }

    async fn take(&self, inner: &mut ListProgress, row: &Row, road: &Arc<Road>) {
        // WHY: an unreadable report makes the gate obey the row once more: repeating a row changes
        // nothing.
        let reports = self.orders.reports(row.seq).await.unwrap_or_default();
        let own = reports.iter().find(|report| report.origin == self.origin);
        let known = own.or_else(|| {
            reports.iter().find(|report| row.seq <= inner.before && is_applied(report))
        });
        if let Some(report) = known {
            rows::recall(inner, row, &report.done);
        } else if row.seq > inner.before {
            let done = self.apply(inner, row, road).await;
            inner.done.insert(row.seq, done);
        }
    }

    async fn report(&self, seq: u64, done: &Json) {
        let at = self.checked.clock.now();
        let report = OrderReport { seq, origin: self.origin.clone(), at, done: done.clone() };
        if let Err(error) = self.orders.report(&report).await {
            tracing::warn!(order = seq, %error, "the outcome of an amendment could not be reported");
        }
    }
}

/// The digest of the bundle in a directory.
fn digest_of(dir: &Path) -> Result<Digest, DirectoryError> {
    let unread = Unread::read(dir).map_err(|errors| DirectoryError(errors.into_iter().next()))?;
    Ok(unread.digest())
}

#[async_trait]
impl Amender for Constitution {
    async fn amend(&self, road: &Arc<Road>, row: &Row) -> Json {
        let mut opened = self.opened.subscribe();
        // The sender lives as long as `self`, so that this cannot fail.
        drop(opened.wait_for(|opened| *opened).await);
        let mut inner = self.inner.lock().await;
        self.catch_up(&mut inner, row.seq, road).await;
        if let Some(done) = inner.done.get(&row.seq) {
            return done.clone();
        }
        drop(inner);
        let reports = self.orders.reports(row.seq).await.unwrap_or_default();
        let own = reports.into_iter().find(|report| report.origin == self.origin);
        let lost = || Json::object([("error", Json::from("this gate did not apply it"))]);
        own.map_or_else(lost, |report| report.done)
    }
}
