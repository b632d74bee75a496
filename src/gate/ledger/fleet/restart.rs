//! When entries are lost for good: finds and reports the loss, and continues the slot under the
//! next name. The old log keeps its entries and never gets another head.

use std::sync::Arc;

use super::super::chain::{Chain, Moment};
use super::super::enrolment::Issued;
use super::super::recover;
use super::super::spool::{Journal, LeaseFile, Watermark};
use super::super::store::{
    Batch, HeadRow, LeaseKey, LeaseRequest, Leased, LedgerStore, Restart, StoreError, next_origin,
};
use super::super::tail::TailError;
use super::super::writer_key::{Certificate, LogKeys, Signer, WriterKey};
use super::observed_heads::{self, Doubt, LostEntry, SightError};
use super::port::WitnessSight;
use crate::clock::{Clock, Entropy, random16, random32};
use crate::crypto::note::Checkpoint;
use crate::crypto::{merkle, signer};
use crate::domain::digest::Digest;
use crate::domain::id::ChainId;
use crate::record::chain::{ChainGenesis, Continues, WriterStopped};
use crate::record::debug_by;
use crate::record::fleet::ChainRetired;
use crate::record::{Base64, Boot, Draft, Entry, HexDigest};

/// Limit on the search for an unused name; no deployment needs as many recoveries.
const NAMES_MAX: u64 = 1_000_000;

/// Why the restart failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of this machine: what it remembers, its lease, the anchor file.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// The stored head does not parse.
    #[error("the stored head is no head")]
    Head,
    /// It is not yet known which heads others have seen.
    #[error(transparent)]
    Sight(#[from] SightError),
    /// Another writer has the slot.
    #[error("the slot of `{0}` is in use: stop its writer, or wait until its lease ran out")]
    InUse(String),
    /// A log without a next name.
    #[error("`{0}` is no log")]
    Name(String),
    /// The enrolment key or the key of the log does not sign.
    #[error(transparent)]
    Signer(#[from] signer::Error),
    /// The next chain cannot be begun.
    #[error("an empty chain cannot be begun")]
    Chain,
    /// An entry of the next chain does not follow the one before.
    #[error(transparent)]
    Entry(#[from] TailError),
}

/// The requester and its tools.
pub struct RestartParts<'a> {
    /// Where the chain is.
    pub store: &'a dyn LedgerStore,
    /// What this machine remembers of it.
    pub journal: &'a dyn Journal,
    /// The file with its lease, if there is one.
    pub lease_file: Option<&'a LeaseFile>,
    /// The anchor file, and witnesses.
    pub outside: (Option<&'a std::path::Path>, &'a [WitnessSight]),
    /// Certifies the keys of the next chain.
    pub enrolment: &'a Arc<dyn Signer>,
    /// The keys of the log, if they are stable.
    pub log_keys: Option<LogKeys>,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Randomness.
    pub entropy: &'a dyn Entropy,
    /// Tenant and pool.
    pub slot: (&'a str, &'a str),
    /// Host and process, for people.
    pub writer: &'a str,
}

debug_by!(RestartParts<'_>: slot);

/// A slot that was taken and examined.
#[derive(Clone, Debug)]
pub struct Examined {
    /// The lease.
    pub leased: Leased,
    /// Root over the stored entries.
    pub root: Digest,
    /// What this machine remembers, if it is of this log.
    pub mark: Option<Watermark>,
    /// The loss in this log, if any.
    pub lost: Option<LostEntry>,
    /// The loss in the fleet log, if any.
    pub fleet: Option<LostEntry>,
}

impl Examined {
    /// Whether the storage holds exactly what this machine remembers.
    #[must_use]
    pub fn remembered(&self) -> bool {
        self.mark.as_ref().is_some_and(|mark| mark.size == self.leased.head.size)
    }
}

impl RestartParts<'_> {
    /// Takes the slot and determines the loss.
    ///
    /// # Errors
    /// The slot is in use, or the loss cannot be determined.
    pub async fn examine(&self) -> Result<Examined, Error> {
        let latest = self.journal.latest()?;
        let leased = self.lease().await?;
        let found = self.found(&leased, latest).await;
        if found.is_err() {
            // The slot is released. A failure to release it must not hide the cause.
            self.store.release(&leased.key).await.ok();
        }
        found
    }

    async fn lease(&self) -> Result<Leased, Error> {
        let (tenant, pool) = self.slot;
        let leased = self
            .store
            .lease(&LeaseRequest {
                tenant: tenant.to_owned(),
                pool: pool.to_owned(),
                writer: self.writer.to_owned(),
                previous: self.lease_file.and_then(LeaseFile::load),
                secret: random32(self.entropy),
                chain: ChainId::from_bytes(random16(self.entropy)),
                term: std::time::Duration::from_secs(60),
            })
            .await?;
        if let Some(file) = self.lease_file {
            file.store(&leased.key)?;
        }
        Ok(leased)
    }

    async fn found(&self, leased: &Leased, latest: Option<Watermark>) -> Result<Examined, Error> {
        let head = &leased.head;
        let mark = latest.as_ref().filter(|mark| mark.chain == leased.key.chain).cloned();
        let mut found = Examined {
            leased: leased.clone(),
            root: root(head).ok_or(Error::Head)?,
            mark,
            lost: None,
            fleet: None,
        };
        if let Some(mark) = &found.mark {
            found.lost = self.own(leased, mark).await?;
        }
        let checked =
            observed_heads::check(self.store, leased, head, latest.as_ref(), self.outside).await;
        match checked {
            Ok(()) => {}
            Err(Doubt::Later(why)) => return Err(Error::Sight(why)),
            Err(Doubt::Lost(lost)) if is_fleet(&lost.log) => found.fleet = Some(*lost),
            Err(Doubt::Lost(lost)) => {
                // The party that has seen more entries knows the extent of the loss better.
                let more = found.lost.as_ref().is_none_or(|own| own.seen.0 < lost.seen.0);
                if more {
                    found.lost = Some(*lost);
                }
                // The check of the chain ended first, so the fleet log needs a check of its own.
                found.fleet = self.fleet(leased).await?;
            }
        }
        let busy = latest.filter(|mark| mark.chain != leased.key.chain && found.lost.is_none());
        if let Some(mark) = busy.filter(|mark| mark.origin != leased.origin && mark.size > 0)
            && head.size == 0
        {
            return Err(Error::InUse(mark.origin));
        }
        Ok(found)
    }

    /// Compares what this machine remembers of the chain with the chain.
    async fn own(&self, leased: &Leased, mark: &Watermark) -> Result<Option<LostEntry>, Error> {
        let head = &leased.head;
        let lost = |forked| LostEntry {
            log: leased.origin.clone(),
            seen: (mark.size, Some(mark.root)),
            here: head.size,
            forked,
            by: "this machine".to_owned(),
        };
        if head.size >= mark.size {
            let at = mark.size.saturating_sub(1);
            let known = self.store.tail(&leased.key, at, 1).await?;
            let same = mark.size == 0 || known.first().is_some_and(|row| row.leaf == mark.hash);
            return Ok((!same).then(|| lost(true)));
        }
        let kept = self.journal.since(&leased.key.chain, head.size);
        let (mut size, mut hash) = (head.size, head.hash);
        for batch in kept? {
            let follows = batch.entries.first().is_some_and(|e| e.seq == size && e.prev == hash);
            if !follows {
                break;
            }
            (size, hash) = (batch.head.size, batch.head.hash);
        }
        // The spool has every missing byte: the next start writes them again.
        Ok(((size, hash) != (mark.size, mark.hash)).then(|| lost(false)))
    }

    async fn fleet(&self, leased: &Leased) -> Result<Option<LostEntry>, Error> {
        let view = self.store.fleet_view(&leased.key, None).await?;
        let path = self.outside.0;
        let file = path.map(super::file::AnchorFile::load).transpose()?.flatten();
        let Some(head) = file.and_then(|file| file.head()) else { return Ok(None) };
        match observed_heads::fleet(self.store, leased, &view, &head, "the anchor file").await {
            Ok(()) => Ok(None),
            Err(Doubt::Later(why)) => Err(Error::Sight(why)),
            Err(Doubt::Lost(lost)) => Ok(Some(*lost)),
        }
    }

    /// Retires the chain and begins the next one of its slot; updates the lease file.
    ///
    /// # Errors
    /// Nothing was changed, unless the store's answer is unknown: then examine again.
    pub async fn restart(
        &self,
        found: &Examined,
        lost: &LostEntry,
        by: &str,
    ) -> Result<String, Error> {
        let next = self.next(found, lost, by)?;
        self.store.restart(&found.leased.key, &next).await?;
        if let Some(file) = self.lease_file {
            file.store(&next.key)?;
        }
        Ok(next.origin)
    }

    fn next(&self, found: &Examined, lost: &LostEntry, by: &str) -> Result<Restart, Error> {
        let leased = &found.leased;
        // The name follows the newer of the two logs: the lost one and the stored one.
        let mut next = next_origin(&lost.log).or_else(|| next_origin(&leased.origin));
        let here = next_origin(&leased.origin).map_or(0, |(_, n)| n);
        while let Some((name, _)) = next.clone().filter(|(_, n)| *n < here.min(NAMES_MAX)) {
            next = next_origin(&name);
        }
        let (origin, n) = next.ok_or_else(|| Error::Name(leased.origin.clone()))?;
        let in_place = leased.head.size == 0;
        let key = if in_place {
            leased.key.clone()
        } else {
            let chain = ChainId::from_bytes(random16(self.entropy));
            LeaseKey { chain, epoch: 1, secret: random32(self.entropy) }
        };
        let now = self.clock.now();
        let signing = match &self.log_keys {
            Some(keys) => WriterKey::stable(keys.clone(), &origin, now),
            None => WriterKey::generate(self.entropy, &origin, now),
        };
        let certificate = Certificate {
            slot: leased.slot.clone(),
            epoch: key.epoch,
            key: signing.public(),
            pod: self.writer.to_owned(),
            image_digest: "none".to_owned(),
            not_after: signing.not_after(),
        };
        let issued = certificate.issue(&**self.enrolment)?;
        let started = recover::started(&recover::StartedWriter {
            issued: &Issued { certificate, issued },
            version: env!("CARGO_PKG_VERSION"),
            mark: Some((lost.seen.0, lost.seen.1)),
            reason: "loss_accepted",
            settings: Vec::new(),
        });
        let drafts = [
            Draft::of(self.genesis(&origin, found, lost, by)),
            Draft::of(started),
            Draft::of(WriterStopped { reason: "stopped".into() }),
        ];
        let batch = self.batch(&key, &signing, drafts)?;
        Ok(Restart { key, n, origin, batch })
    }

    fn genesis(&self, origin: &str, found: &Examined, lost: &LostEntry, by: &str) -> ChainGenesis {
        let from = if lost.forked { 0 } else { lost.here };
        let continues = Continues {
            by: by.into(),
            log: lost.log.as_str().into(),
            lost_from: from.into(),
            lost_to: lost.seen.0.max(from).into(),
            root: HexDigest(lost.seen.1.unwrap_or(found.root)),
            size: lost.seen.0.into(),
        };
        ChainGenesis {
            continues: Some(continues),
            enrolment_key: Base64(self.enrolment.public().to_bytes()),
            origin: origin.into(),
        }
    }

    fn batch(
        &self,
        key: &LeaseKey,
        signing: &WriterKey,
        drafts: [Draft; 3],
    ) -> Result<Batch, Error> {
        let empty = HeadRow {
            size: 0,
            hash: Entry::genesis_prev(&key.chain),
            frontier: Vec::new(),
            checkpoint: String::new(),
        };
        let mut boot = [0_u8; 4];
        self.entropy.fill(&mut boot);
        let mut chain = Chain::resume(key.chain, key.epoch, Boot::from_random(boot), &empty)
            .ok_or(Error::Chain)?;
        let mut entries = Vec::new();
        for draft in drafts {
            let mono = u64::try_from(self.clock.monotonic().as_micros()).unwrap_or(u64::MAX);
            let moment = Moment { wall: self.clock.now(), mono };
            entries.push(chain.extend(draft, moment)?.0);
        }
        let checkpoint = signing.checkpoint(chain.size(), chain.root())?;
        Ok(Batch { entries, payloads: Vec::new(), head: chain.head(checkpoint) })
    }
}

/// The `chain.retired` of a log that lost entries.
pub fn retired(found: &Examined, lost: &LostEntry, (reason, by): (&str, &str)) -> Draft {
    let from = if lost.forked { 0 } else { lost.here };
    // A chain that is missing entirely gets the name that this machine remembers.
    let chain = found.mark.as_ref().map_or(found.leased.key.chain, |mark| mark.chain);
    Draft::of(ChainRetired {
        by: Some(by.into()),
        chain,
        log: lost.log.as_str().into(),
        lost_from: Some(from.into()),
        lost_to: Some(lost.seen.0.max(from).into()),
        reason: reason.into(),
        root: HexDigest(found.root),
        size: found.leased.head.size.into(),
    })
}

fn root(head: &HeadRow) -> Option<Digest> {
    if head.size == 0 {
        return Some(merkle::empty_root());
    }
    Checkpoint::parse(&head.checkpoint).ok().map(|(checkpoint, _)| checkpoint.root)
}

/// Whether this is the name of a fleet log.
#[must_use]
pub fn is_fleet(log: &str) -> bool {
    let parts: Vec<&str> = log.split('/').collect();
    match parts.as_slice() {
        [_, _, pool] => *pool == super::POOL,
        [_, _, pool, number] => *pool == super::POOL && number.parse::<u64>().is_ok(),
        _ => false,
    }
}
