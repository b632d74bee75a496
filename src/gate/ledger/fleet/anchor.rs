//! One round of anchoring: records the enrolled chains and their heads on the fleet log, and shows
//! the log's head to witnesses and time stamping authorities.
//!
//! The round reads and checks everything before it writes: a chain that went back or was replaced
//! stops the round with nothing recorded. A round without news writes nothing.

use std::path::PathBuf;
use std::sync::Arc;

use super::super::PortError;
use super::super::proofs::{self, Prover};
use super::super::store::{AnchorRow, ChainRow, LedgerReader, StoreError};
use super::super::verify::fleet::is_fleet;
use super::file::AnchorFile;
use super::observed_heads::{self, LogRecord, LostEntry};
use super::port::{ShownHead, TimeStamp, Witness};
use super::{FleetParts, OpenError, OpenFleetLog};
use crate::crypto::merkle;
use crate::crypto::note::{Checkpoint, VerifierKey};
use crate::domain::digest::Digest;
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::record::chain::{AnchorObserved, AnchorSource, ChainGenesis};
use crate::record::debug_by;
use crate::record::fleet::{ChainCheckpoint, ChainEnrolled};
use crate::record::{Base64, Draft, Entry, HexDigest, Kind};

/// Kinds after which witnesses need not see a new head.
const QUIET: [&str; 4] = ["writer.started", "writer.stopped", "heartbeat", "anchor.observed"];
/// Entries to scan for one that is not quiet; a longer range counts as not quiet.
const LOOKED_AT: u32 = 1000;

/// The external parties that see heads, and how many of them suffice.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    /// The witnesses.
    pub witnesses: Vec<Arc<dyn Witness>>,
    /// How many witnesses must cosign.
    pub quorum: usize,
    /// The time stamping authority, if any.
    pub stamps: Option<Arc<dyn TimeStamp>>,
    /// Where sidecars find the newest head, if anywhere.
    pub anchor_file: Option<PathBuf>,
}

/// Why a round stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A chain went back, forked or was replaced, or an external party has seen entries that are
    /// missing. Nothing was recorded about any chain.
    #[error("{0}")]
    Invalid(String),
    /// The ledger cannot be read, or the fleet log cannot be written.
    #[error("{0}")]
    Unavailable(String),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<super::super::Error> for Error {
    fn from(error: super::super::Error) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Distrusted(why) => Self::Invalid(why),
            OpenError::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

/// What a round did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AnchorRound {
    /// Logs that were enrolled.
    pub enrolled: Vec<String>,
    /// Logs whose head was recorded, and its size.
    pub recorded: Vec<(String, u64)>,
    /// Name, size and root of the head shown in this round or before.
    pub head: Option<(String, u64, Digest)>,
    /// Whether it was shown in this round.
    pub shown: bool,
    /// Witnesses that have cosigned it.
    pub cosigned: Vec<String>,
    /// When it was stamped, if it was.
    pub stamped: Option<Timestamp>,
    /// Which parties failed to answer as required, and why.
    pub failed: Vec<String>,
    /// Whether the round meets the configured quorum and time stamp.
    pub enough: bool,
}

/// A round, ready to be run.
pub struct Round<'a> {
    /// Sees every chain of the tenant.
    pub reader: &'a dyn LedgerReader,
    /// Opens the fleet log; asked only if there is something to record or to show.
    pub parts: Box<dyn Fn() -> FleetOpening + Send + Sync + 'a>,
    /// The tenant.
    pub tenant: &'a str,
    /// The parties that see the head.
    pub outside: &'a Outside,
}

/// The parts of the fleet log, once they are available.
pub type FleetOpening =
    std::pin::Pin<Box<dyn Future<Output = Result<FleetParts, PortError>> + Send>>;

debug_by!(Round<'_>: tenant);

impl Round<'_> {
    /// Runs the round.
    ///
    /// # Errors
    /// [`Error`]. A witness that does not answer is not an error; the result lists it.
    pub async fn run(&self) -> Result<AnchorRound, Error> {
        let mut done = AnchorRound::default();
        let rows = self.rows().await?;
        let (fleets, chains): (Vec<ChainRow>, Vec<ChainRow>) = rows.into_iter().partition(is_fleet);
        let mut drafts = Vec::new();
        for row in chains.iter().filter(|row| row.head.size > 0) {
            self.look_at(row, &mut drafts, &mut done).await?;
        }
        let fleet = current(&fleets);
        let kept = match fleet {
            Some(fleet) => self.reader.newest_anchor(&fleet.origin).await?,
            None => None,
        };
        if drafts.is_empty() && !self.due(fleet, kept.as_ref()).await? {
            self.unseen(fleet).await?;
            let kept = kept.as_ref();
            if let Some(head) = kept.and_then(|kept| Checkpoint::parse(&kept.note).ok()) {
                done.head = Some((head.0.origin, head.0.size, head.0.root));
            }
            done.cosigned = kept.map(|kept| self.names(&kept.note)).unwrap_or_default();
            done.enough = true;
            return Ok(done);
        }
        let parts = (self.parts)().await.map_err(|e| Error::Unavailable(e.to_string()))?;
        let key = parts.key.public();
        let log = OpenFleetLog::open(parts).await?;
        let shown = self.record(&log, drafts, key, &mut done).await;
        let closed = log.close().await;
        shown?;
        closed?;
        Ok(done)
    }

    /// Checks the log against the witnesses even without news: others may have seen more of it than
    /// is here.
    async fn unseen(&self, fleet: Option<&ChainRow>) -> Result<(), Error> {
        let Some(fleet) = fleet else { return Ok(()) };
        let parts = (self.parts)().await.map_err(|e| Error::Unavailable(e.to_string()))?;
        let (file, witnesses) = (parts.anchor_file.as_deref(), parts.sights.as_slice());
        let seen = observed_heads::others(&fleet.origin, file, witnesses).await;
        let seen = seen.map_err(|e| Error::Unavailable(e.to_string()))?;
        let here = fleet.head.size;
        let more = |head: &Checkpoint| head.origin == fleet.origin && head.size > here;
        let Some((by, head)) = seen.into_iter().find(|(_, head)| more(head)) else { return Ok(()) };
        let seen = (head.size, Some(head.root));
        let lost = LostEntry { log: head.origin, seen, here, forked: false, by };
        Err(OpenError::Distrusted(lost.to_string()).into())
    }

    async fn rows(&self) -> Result<Vec<ChainRow>, Error> {
        let mut rows = self.reader.chains().await?;
        rows.retain(|row| row.tenant == self.tenant);
        Ok(rows)
    }

    /// Compares a chain with what is recorded about it, and returns the news.
    async fn look_at(
        &self,
        row: &ChainRow,
        drafts: &mut Vec<Draft>,
        done: &mut AnchorRound,
    ) -> Result<(), Error> {
        let mut bodies = Vec::new();
        for kind in [Kind::ChainEnrolled, Kind::ChainCheckpoint, Kind::ChainRetired] {
            let found =
                self.reader.newest_in_fleet_log(self.tenant, &row.origin, kind.as_str()).await?;
            bodies.extend(found.map(|row| row.body));
        }
        let record = LogRecord::read(bodies.iter().map(Vec::as_slice));
        if record.retired {
            return Ok(());
        }
        let invalid = |why: String| Err(Error::Invalid(why));
        if record.chain.is_some_and(|chain| chain != row.chain) {
            return invalid(format!(
                "`{}` is another chain than the one that was enrolled: it was replaced",
                row.origin
            ));
        }
        let size = row.head.size;
        if let Some((before, _)) = record.head.filter(|(before, _)| *before > size) {
            return invalid(format!(
                "`{}` went back: it has {}, the fleet log has recorded {before}",
                row.origin,
                many(size, "entry")
            ));
        }
        let head = Checkpoint::parse(&row.head.checkpoint).ok().map(|(head, _)| head);
        let Some(head) = head.filter(|head| head.size == size && head.origin == row.origin) else {
            return invalid(format!("the head of `{}` is no checkpoint of it", row.origin));
        };
        if record.head == Some((size, head.root)) {
            return Ok(());
        }
        self.extends(row, &head, record.head).await?;
        if record.chain.is_none() {
            drafts.push(enrolled(row, self.enrolment(row).await?));
            done.enrolled.push(row.origin.clone());
        }
        drafts.push(Draft::of(ChainCheckpoint {
            chain: row.chain,
            epoch: row.epoch.into(),
            log: row.origin.as_str().into(),
            root: HexDigest(head.root),
            size: size.into(),
        }));
        done.recorded.push((row.origin.clone(), size));
        Ok(())
    }

    /// The stored hashes must yield the head and the head recorded before. New entries are read
    /// leaf by leaf, recorded ones as a handful of subtrees.
    async fn extends(
        &self,
        row: &ChainRow,
        head: &Checkpoint,
        before: Option<(u64, Digest)>,
    ) -> Result<(), Error> {
        let other = |error| not_of_the_head(error, &format!("the entries of `{}`", row.origin));
        let prover = Prover::for_head(self.reader, &row.chain, head).await.map_err(other)?;
        let (size, recorded) = before.unwrap_or_else(|| (0, merkle::empty_root()));
        if prover.grown_from(size).await.map_err(other)? == recorded {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "`{}` forked: the fleet log has recorded another history of its first {}",
            row.origin,
            many(size, "entry")
        )))
    }

    async fn enrolment(&self, row: &ChainRow) -> Result<Base64<32>, Error> {
        let genesis = self.reader.entries(&row.chain, 0, 1).await?;
        let entry = genesis.first().and_then(|row| Entry::parse(&row.body).ok());
        let key = entry.and_then(|entry| Some(entry.draft.get::<ChainGenesis>()?.enrolment_key));
        let none = || Error::Invalid(format!("`{}` does not begin with a genesis", row.origin));
        key.ok_or_else(none)
    }

    /// Whether to show the head of the fleet log although no chain moved.
    async fn due(&self, fleet: Option<&ChainRow>, kept: Option<&AnchorRow>) -> Result<bool, Error> {
        let Some(fleet) = fleet.filter(|fleet| fleet.head.size > 0) else { return Ok(false) };
        let Some(kept) = kept else { return Ok(true) };
        if !self.enough(&kept.note, !kept.tokens.is_empty()) {
            return Ok(true);
        }
        let after = self.reader.entries(&fleet.chain, kept.size, LOOKED_AT).await?;
        let many = u32::try_from(after.len()).unwrap_or(u32::MAX) == LOOKED_AT;
        Ok(many || after.iter().any(|entry| !QUIET.contains(&entry.kind.as_str())))
    }

    /// Names of the configured witnesses with a cosignature on this note.
    fn names(&self, note: &str) -> Vec<String> {
        let Ok((_, lines)) = Checkpoint::parse(note) else { return Vec::new() };
        let keys = self.outside.witnesses.iter().map(|witness| witness.key());
        let on = keys.filter(|key| lines.iter().any(|line| line.is_of(key)));
        on.map(|key| key.name.clone()).collect()
    }

    fn enough(&self, note: &str, stamped: bool) -> bool {
        self.names(note).len() >= self.outside.quorum && (stamped || self.outside.stamps.is_none())
    }

    /// Records everything on the fleet log and shows its head.
    async fn record(
        &self,
        log: &OpenFleetLog,
        drafts: Vec<Draft>,
        key: crate::crypto::keys::PublicKey,
        done: &mut AnchorRound,
    ) -> Result<(), Error> {
        for draft in drafts {
            log.record(draft).await?;
        }
        let rows = self.rows().await?;
        let fleet = rows.iter().find(|row| row.origin == log.origin());
        let fleet = fleet.ok_or_else(|| {
            let why = "the reader does not see the fleet log: it reads another database or tenant";
            Error::Unavailable(why.into())
        })?;
        let note = &fleet.head.checkpoint;
        let opened = Checkpoint::open(note, &key).map_err(|e| Error::Invalid(e.to_string()))?;
        let own = |error| not_of_the_head(error, "the fleet log's entries");
        let prover = Prover::for_head(self.reader, &fleet.chain, &opened).await.map_err(own)?;
        done.head = Some((opened.origin.clone(), opened.size, opened.root));
        done.shown = true;
        let verifier = VerifierKey::log(&opened.origin, key);
        let before = self.reader.newest_anchor(&fleet.origin).await?.map_or(0, |kept| kept.size);
        prover.grown_from(before.min(opened.size)).await.map_err(own)?;
        let shown = ShownHead { note, log: &verifier, old: before, proofs: &prover };
        let file = self.show(&shown, &opened, done).await?;
        log.keep(&AnchorRow {
            size: opened.size,
            note: file.note.clone(),
            tokens: file.tokens.clone(),
        })
        .await?;
        for observed in &file.observed {
            log.record(Draft::of(observed.clone())).await?;
        }
        done.enough = self.enough(&file.note, !file.tokens.is_empty());
        if let Some(path) = self.outside.anchor_file.as_deref().filter(|_| done.enough) {
            let failed = |e: std::io::Error| {
                Error::Unavailable(format!("the anchor file `{}`: {e}", path.display()))
            };
            file.store(path).map_err(failed)?;
        }
        Ok(())
    }

    /// Asks every witness and the time stamping authority. Only a fatal answer stops the round.
    async fn show(
        &self,
        shown: &ShownHead<'_>,
        head: &Checkpoint,
        done: &mut AnchorRound,
    ) -> Result<AnchorFile, Error> {
        let mut file =
            AnchorFile { note: shown.note.to_owned(), tokens: Vec::new(), observed: Vec::new() };
        let mut times = Vec::new();
        let asked = self.outside.witnesses.iter().map(|witness| witness.cosign(shown));
        let answers = futures_util::future::join_all(asked).await;
        for (witness, answer) in self.outside.witnesses.iter().zip(answers) {
            let name = witness.key().name.clone();
            match answer {
                Ok(cosigned) => {
                    file.note.push_str(&cosigned.line);
                    times.push((name.clone(), cosigned.time));
                    done.cosigned.push(name);
                }
                Err(refused) if refused.fatal => return Err(Error::Invalid(refused.why)),
                Err(refused) => done.failed.push(refused.why),
            }
        }
        let digest = Digest::of(&[file.note.as_bytes()]);
        for (name, time) in times {
            file.observed.push(observed(AnchorSource::Witness, &name, head, time, digest));
        }
        if let Some(stamps) = &self.outside.stamps {
            match stamps.stamp(head).await {
                Ok(stamp) => {
                    let digest = Digest::of(&[&stamp.token]);
                    file.observed.push(observed(
                        AnchorSource::Tsa,
                        &stamp.name,
                        head,
                        stamp.time,
                        digest,
                    ));
                    file.tokens.push(stamp.token);
                    done.stamped = Some(stamp.time);
                }
                Err(why) => done.failed.push(why.to_string()),
            }
        }
        Ok(file)
    }
}

/// The stored entries do not make the signed head.
fn not_of_the_head(error: proofs::Error, entries: &str) -> Error {
    match error {
        proofs::Error::Store(error) => Error::from(error),
        proofs::Error::Damaged(_) | proofs::Error::Gone(_) | proofs::Error::Outside { .. } => {
            Error::Invalid(format!("{entries} are not those of its head: {error}"))
        }
    }
}

/// The current fleet log: the one with the highest number, `…/fleet/<n>`.
fn current(fleets: &[ChainRow]) -> Option<&ChainRow> {
    let number =
        |row: &&ChainRow| row.origin.rsplit('/').next().and_then(|n| n.parse::<u64>().ok());
    fleets.iter().max_by_key(|row| number(row).unwrap_or(0))
}

fn enrolled(row: &ChainRow, enrolment_key: Base64<32>) -> Draft {
    let (log, slot) = (row.origin.as_str().into(), row.slot.as_str().into());
    Draft::of(ChainEnrolled { chain: row.chain, enrolment_key, log, slot })
}

fn observed(
    source: AnchorSource,
    name: &str,
    head: &Checkpoint,
    time: Timestamp,
    token: Digest,
) -> AnchorObserved {
    AnchorObserved {
        log: head.origin.as_str().into(),
        name: name.into(),
        root: HexDigest(head.root),
        size: head.size.into(),
        source,
        time,
        token: HexDigest(token),
    }
}
