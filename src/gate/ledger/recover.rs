//! Taking a slot: checks what the last writer left, heals it where possible, and closes it.
//!
//! The writer refuses to serve if it cannot explain what it finds. It never runs a call again.

use std::sync::Arc;

use super::chain::Chain;
use super::closing::close;
use super::delegated::DelegationTally;
use super::drafts::DraftWithPayloads;
use super::enrolment::Issued;
use super::fleet::observed_heads;
use super::sequencer::{Ending, Sequencer, Writer};
use super::store::{EntryRange, EntryRow, HeadRow, LeaseRequest, Leased, StoreError};
use super::tail::RunTail;
use super::writer_key::{Certificate, WriterKey};
use super::{PastUsage, RecoveredRun, spool, time};
use crate::clock::{random16, random32};
use crate::crypto::merkle::Frontier;
use crate::crypto::note::Checkpoint;
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, Seq};
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::record::chain::{ChainGenesis, ClockStep, LedgerRecovered, Watermark, WriterStarted};
use crate::record::run::{RunOpened, Setting};
use crate::record::{Base64, Boot, Draft, Entry, HexDigest, Kind, Millis};

/// Entries at the end of the chain that are checked before it is extended.
const TAIL_CHECKED: u64 = 1000;
/// Alerts that a start reads again, the newest ones.
const ALERTS_READ: u32 = 1000;

/// Why a writer did not start.
pub(super) enum StartRefusal {
    /// Try again later.
    Later(String),
    /// Do not try again.
    Never(Ending),
}

impl From<StoreError> for StartRefusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Broken(why) => Self::Never(Ending::Broken(why)),
            StoreError::Conflict(why) => Self::Never(Ending::Fenced(why)),
            StoreError::Unavailable(why) | StoreError::Full(why) | StoreError::Unknown(why) => {
                Self::Later(why)
            }
        }
    }
}

impl From<Ending> for StartRefusal {
    fn from(ending: Ending) -> Self {
        // Fenced while starting: the lease is lost for good, and the next process takes another.
        Self::Never(ending)
    }
}

impl From<observed_heads::Doubt> for StartRefusal {
    fn from(doubt: observed_heads::Doubt) -> Self {
        match doubt {
            observed_heads::Doubt::Later(why) => Self::Later(why.to_string()),
            observed_heads::Doubt::Lost(lost) => {
                broken(format!("{lost}; `wicketgate ledger recover` says what can be done"))
            }
        }
    }
}

pub(super) fn broken(why: impl Into<String>) -> StartRefusal {
    StartRefusal::Never(Ending::Broken(why.into()))
}

/// Takes a slot and makes its chain ready for new entries.
pub(super) async fn start(
    writer: &mut Writer,
) -> Result<(Sequencer, Vec<RecoveredRun>), StartRefusal> {
    let shared = Arc::clone(&writer.shared);
    let durability = shared.store.durability().await?;
    let leased = match shared.leased.get() {
        Some(leased) => refresh(&shared, leased).await?,
        None => {
            // WHY: without a certificate this writer could not use the slot; another gate may.
            let reachable = writer.signer.reachable().await;
            reachable.map_err(|e| StartRefusal::Later(e.to_string()))?;
            lease(writer).await?
        }
    };
    withdraw(writer, &leased).await?;
    let mark = writer.journal.watermark(&leased.key.chain).map_err(|e| broken(e.to_string()))?;
    let (head, healed) = heal(writer, &leased, mark.as_ref()).await?;
    let latest = writer.journal.latest().map_err(|e| broken(e.to_string()))?;
    let outside = (shared.settings.anchor_file.as_deref(), shared.settings.sights.as_slice());
    observed_heads::check(&*shared.store, &leased, &head, latest.as_ref(), outside).await?;
    let tail = check_tail(&shared, &leased, &head).await?;
    let behind = time::behind(&shared, &leased, (tail.last(), head.size)).await?;
    let now = shared.clock.now();
    let mut boot = [0_u8; 4];
    shared.entropy.fill(&mut boot);
    let mut chain =
        Chain::resume(leased.key.chain, leased.key.epoch, Boot::from_random(boot), &head)
            .ok_or_else(|| broken("the stored frontier does not fit the size of the chain"))?;
    let checkpoint_root = stored_root(&head)?;
    if checkpoint_root.is_some_and(|root| root != chain.root()) {
        return Err(broken("the stored checkpoint does not cover the stored tree"));
    }
    if let Some(last) = tail.last() {
        chain.continue_from(last.ts);
    }
    let runs = take_up_runs(&shared, &leased, &mut chain).await?;
    let (signing, issued) = introduce(writer, &leased, now).await?;
    let origin: Arc<str> = leased.origin.as_str().into();
    let mut sequencer = Sequencer {
        key: leased.key.clone(),
        origin,
        chain,
        head: head.clone(),
        signing,
        journal: None,
        status: writer.status(),
        backlog: std::collections::VecDeque::new(),
        short: Some(super::LedgerStatus::Full),
        forgetful: false,
        shared: Arc::clone(&shared),
    };
    let found = RecoveredState { mark: mark.as_ref(), healed, durability, issued };
    let opening = opening(writer, &leased, &found, behind);
    sequencer.journal = Some(std::mem::replace(&mut writer.journal, Box::new(spool::NoJournal)));
    let started = sequencer.write(opening).await;
    let closed = match started {
        Ok(()) => close(&mut sequencer, &leased, runs).await,
        Err(ending) => Err(ending),
    };
    match closed {
        Ok(open) => Ok((sequencer, open)),
        Err(ending) => {
            if let Some(journal) = sequencer.journal.take() {
                writer.journal = journal;
            }
            Err(ending.into())
        }
    }
}

/// The key of this epoch and its certificate. If the certificate did not arrive, the request is
/// repeated for the same key: the answer may have been lost, and another key would not be
/// certified.
async fn introduce(
    writer: &mut Writer,
    leased: &Leased,
    now: Timestamp,
) -> Result<(WriterKey, Issued), StartRefusal> {
    let shared = Arc::clone(&writer.shared);
    let epoch = leased.key.epoch;
    let kept = writer.introducing.take().filter(|(of, _)| *of == epoch).map(|(_, key)| key);
    let signing = kept.unwrap_or_else(|| match &writer.log_key {
        Some(keys) => WriterKey::stable(keys.clone(), &leased.origin, now),
        None => WriterKey::generate(&*shared.entropy, &leased.origin, now),
    });
    writer.introducing = Some((epoch, signing.clone()));
    let wanted = Certificate {
        slot: leased.slot.clone(),
        epoch,
        key: signing.public(),
        pod: shared.settings.pod.clone(),
        image_digest: shared.settings.image_digest.clone(),
        not_after: signing.not_after(),
    };
    let issued = writer.signer.certify(wanted, &signing).await;
    let issued = issued.map_err(|e| StartRefusal::Later(e.to_string()))?;
    let signing = signing.until(issued.certificate.not_after);
    Ok((signing, issued))
}

/// Takes a slot and stores the lease before anything is written under it.
///
/// The same request is repeated until it is answered. If the answer to a successful request was
/// lost, the secret finds the slot again, with the runs of this writer's last life in it.
async fn lease(writer: &mut Writer) -> Result<Leased, StartRefusal> {
    let shared = Arc::clone(&writer.shared);
    let request = writer.request.get_or_insert_with(|| LeaseRequest {
        tenant: shared.settings.tenant.clone(),
        pool: shared.settings.pool.clone(),
        writer: shared.settings.writer.clone(),
        previous: writer.lease_file.as_ref().and_then(spool::LeaseFile::load),
        secret: random32(&*shared.entropy),
        chain: ChainId::from_bytes(random16(&*shared.entropy)),
        term: shared.settings.lease_term,
    });
    let leased = match shared.store.lease(request).await {
        Err(StoreError::Conflict(why)) => return Err(StartRefusal::Later(why)),
        answered => answered?,
    };
    if let Some(file) = &writer.lease_file {
        file.store(&leased.key).map_err(|e| broken(format!("the lease cannot be kept: {e}")))?;
    }
    drop(shared.leased.set(leased.clone()));
    Ok(leased)
}

/// A start that failed after the lease goes on with the same lease and the head as it is now.
async fn refresh(shared: &super::Shared, leased: &Leased) -> Result<Leased, StartRefusal> {
    let head = shared.store.head(&leased.key).await?;
    Ok(Leased { head, ..leased.clone() })
}

/// Drops a batch that this machine signed and the store never received because another writer took
/// the slot first: that writer's first entry stands in its place. No caller got an answer from the
/// batch.
async fn withdraw(writer: &mut Writer, leased: &Leased) -> Result<(), StartRefusal> {
    let unread = |e: std::io::Error| broken(e.to_string());
    let chain = leased.key.chain;
    let Some(batch) = writer.journal.unsettled(&chain).map_err(unread)? else { return Ok(()) };
    let Some(first) = batch.entries.first() else { return Ok(()) };
    let rows = writer.shared.store.tail(&leased.key, first.seq, 1).await?;
    let Some(row) = rows.first().filter(|row| row.seq == first.seq) else { return Ok(()) };
    let Ok(entry) = Entry::parse(&row.body) else { return Ok(()) };
    let begins = [Kind::WriterStarted, Kind::ChainGenesis].contains(&entry.draft.kind());
    let later = batch.signed_in().is_some_and(|epoch| entry.epoch > epoch);
    if row.leaf != first.leaf && row.prev == first.prev && begins && later {
        tracing::warn!(
            origin = leased.origin,
            from = first.seq,
            "dropping entries that were never acknowledged: another writer took the slot first"
        );
        writer.journal.withdraw(&chain, batch.head.size).map_err(unread)?;
    }
    Ok(())
}

/// Compares the store with what this machine remembers, and heals a store that is behind.
async fn heal(
    writer: &Writer,
    leased: &Leased,
    mark: Option<&spool::Watermark>,
) -> Result<(HeadRow, Option<(u64, u64)>), StartRefusal> {
    let store = &writer.shared.store;
    let mut head = leased.head.clone();
    let Some(mark) = mark else { return Ok((head, None)) };
    if head.size >= mark.size {
        let at = mark.size.saturating_sub(1);
        let known = store.tail(&leased.key, at, 1).await?;
        let same = mark.size == 0 || known.first().is_some_and(|row| row.leaf == mark.hash);
        return if same {
            Ok((head, None))
        } else {
            Err(broken("the stored chain is not the one this machine wrote (fork)"))
        };
    }
    let behind = head.size;
    let batches =
        writer.journal.since(&leased.key.chain, behind).map_err(|e| broken(e.to_string()))?;
    for batch in batches {
        let follows =
            batch.entries.first().is_some_and(|e| e.seq == head.size && e.prev == head.hash);
        if !follows {
            break;
        }
        let batch = Arc::new(batch);
        store.append(&leased.key, &head, &batch).await?;
        head = batch.head.clone();
    }
    if head.size == mark.size && head.hash == mark.hash {
        return Ok((head, Some((behind, mark.size))));
    }
    Err(broken(format!(
        "the ledger was rolled back: it has {} of `{}`, this machine has signed {}; \
         `wicketgate ledger recover` says what can be done",
        many(behind, "entry"),
        leased.origin,
        mark.size
    )))
}

/// Checks the last entries: strict form, links, hashes, and that they end at the head.
async fn check_tail(
    shared: &super::Shared,
    leased: &Leased,
    head: &HeadRow,
) -> Result<Vec<Entry>, StartRefusal> {
    let from = head.size.saturating_sub(TAIL_CHECKED);
    let rows = shared.store.tail(&leased.key, from, 1000).await?;
    let mut entries = Vec::with_capacity(rows.len());
    let mut prev = (from == 0).then(|| Entry::genesis_prev(&leased.key.chain));
    for (row, seq) in rows.iter().zip(from..) {
        let entry = check_row(row, seq, prev)?;
        prev = Some(row.leaf);
        entries.push(entry);
    }
    let complete = u64::try_from(entries.len()).is_ok_and(|n| from.saturating_add(n) == head.size);
    if !complete || prev.is_some_and(|last| last != head.hash) {
        return Err(broken("the stored entries do not end at the stored head"));
    }
    Ok(entries)
}

fn check_row(row: &EntryRow, seq: u64, prev: Option<Digest>) -> Result<Entry, StartRefusal> {
    let entry = Entry::parse(&row.body).map_err(|e| broken(format!("entry {seq}: {e}")))?;
    let linked = prev.is_none_or(|prev| prev == entry.prev);
    if entry.seq != seq || row.seq != seq || Entry::leaf(&row.body) != row.leaf || !linked {
        return Err(broken(format!("entry {seq} does not stand where it says")));
    }
    Ok(entry)
}

fn stored_root(head: &HeadRow) -> Result<Option<Digest>, StartRefusal> {
    if head.size == 0 {
        return Ok(None);
    }
    let (checkpoint, _) = Checkpoint::parse(&head.checkpoint).map_err(|e| broken(e.to_string()))?;
    if checkpoint.size != head.size || Frontier::from_bytes(head.size, &head.frontier).is_none() {
        return Err(broken("the stored checkpoint is of another size than the head"));
    }
    Ok(Some(checkpoint.root))
}

async fn take_up_runs(
    shared: &super::Shared,
    leased: &Leased,
    chain: &mut Chain,
) -> Result<Vec<RecoveredRun>, StartRefusal> {
    let mut runs = Vec::new();
    let mut watched = alerts_raised(shared, leased, chain.size()).await?;
    for run in shared.store.open_runs(&leased.key).await? {
        let rows = shared.store.run_entries(&leased.key, &run).await?;
        let entries: Vec<(Entry, Digest)> = rows
            .iter()
            .map(|row| Entry::parse(&row.body).map(|entry| (entry, row.leaf)))
            .collect::<Result<_, _>>()
            .map_err(|e| broken(format!("run {run}: {e}")))?;
        let Some(tail) = RunTail::rebuild(&entries) else {
            return Err(broken(format!("the entries of run {run} are no run")));
        };
        let Some((opened, _)) = entries.first().cloned() else { continue };
        let calls = tail.calls.clone();
        let last_seq = tail.next_seq.saturating_sub(1);
        chain.take_up(run, tail);
        let past = PastUsage::of(entries.iter().map(|(entry, _)| entry));
        watched.extend(entries.into_iter().map(|(entry, _)| entry));
        runs.push(RecoveredRun { run, opened, last_seq, calls, past });
    }
    watched.sort_by_key(|entry| entry.seq);
    chain.watch(&watched);
    delegated(shared, leased, &mut runs).await?;
    Ok(runs)
}

/// The newest alerts of the chain: with them and the entries of open runs the counts towards alerts go on where they
/// were.
async fn alerts_raised(
    shared: &super::Shared,
    leased: &Leased,
    size: Seq,
) -> Result<Vec<Entry>, StartRefusal> {
    let kinds = [Kind::AlertRaised.as_str()];
    let range = EntryRange::Lone(&kinds, size, ALERTS_READ);
    let rows = shared.store.select(&leased.key, range).await?;
    let read = |row: &EntryRow| {
        Entry::parse(&row.body).map_err(|e| broken(format!("entry {}: {e}", row.seq)))
    };
    rows.iter().map(read).collect()
}

/// Reads what descendant runs used, from the opening of the first open run that may delegate. Reads
/// nothing if no run may delegate.
async fn delegated(
    shared: &super::Shared,
    leased: &Leased,
    runs: &mut [RecoveredRun],
) -> Result<(), StartRefusal> {
    let may = runs.iter().filter(|run| {
        run.opened.draft.get::<RunOpened>().is_some_and(|run| run.delegates.is_some())
    });
    let Some(mut from) = may.map(|run| run.opened.seq).min() else { return Ok(()) };
    let mut delegations = DelegationTally::default();
    loop {
        let rows = shared.store.tail(&leased.key, from, 1000).await?;
        let Some(last) = rows.last() else { break };
        from = last.seq.saturating_add(1);
        for row in &rows {
            let entry = Entry::parse(&row.body);
            delegations.accept(&entry.map_err(|e| broken(format!("entry {}: {e}", row.seq)))?);
        }
    }
    for run in runs {
        run.past.delegated = delegations.of(&run.run);
        run.past.reading.add(&run.past.delegated.reading);
    }
    Ok(())
}

/// What recovery found before the first entry of an epoch.
struct RecoveredState<'a> {
    /// The last head this machine remembers.
    mark: Option<&'a spool::Watermark>,
    /// Entries that were put back, from and to.
    healed: Option<(u64, u64)>,
    /// The store's own settings.
    durability: Vec<(String, String)>,
    /// The certificate of this epoch's key.
    issued: Issued,
}

/// The first entries of an epoch: the genesis of a new chain, the clock step, the writer.
fn opening(
    writer: &Writer,
    leased: &Leased,
    found: &RecoveredState<'_>,
    behind: Option<i64>,
) -> Vec<DraftWithPayloads> {
    let settings = &writer.shared.settings;
    let (mark, healed) = (found.mark, found.healed);
    let mut opening = Vec::new();
    if leased.head.size == 0 && healed.is_none() {
        opening.push(DraftWithPayloads::bare(Draft::of(ChainGenesis {
            continues: None,
            enrolment_key: Base64(writer.signer.public().to_bytes()),
            origin: leased.origin.as_str().into(),
        })));
    }
    // How long nothing may be written: a verifier holds the pauses between entries to it.
    let cadence = ("heartbeat_ms".to_owned(), settings.heartbeat.as_millis().to_string());
    let reason = match (leased.head.size, leased.same_writer) {
        _ if settings.reaping => "reaped",
        (0, _) => "new",
        (_, true) => "restart",
        (_, false) => "take_over",
    };
    let data = started(&StartedWriter {
        issued: &found.issued,
        version: &settings.version,
        mark: mark.map(|mark| (mark.size, Some(mark.root))),
        reason,
        settings: settings
            .durability
            .iter()
            .chain([&cadence])
            .chain(&found.durability)
            .chain(&settings.configured)
            .cloned()
            .collect(),
    });
    opening.push(DraftWithPayloads::bare(Draft::of(data)));
    if let Some(behind) = behind {
        let delta_ms = Millis(behind.saturating_neg());
        opening.push(DraftWithPayloads::bare(Draft::of(ClockStep { delta_ms })));
    }
    if let Some((from, to)) = healed {
        let (from, to, source) = (from.into(), to.into(), "spool".into());
        opening.push(DraftWithPayloads::bare(Draft::of(LedgerRecovered { from, source, to })));
    }
    opening
}

/// What a `writer.started` says.
pub(super) struct StartedWriter<'a> {
    pub issued: &'a Issued,
    pub version: &'a str,
    /// The last head that is remembered.
    pub mark: Option<(u64, Option<Digest>)>,
    pub reason: &'a str,
    pub settings: Vec<(String, String)>,
}

/// The first entry of an epoch.
pub(super) fn started(of: &StartedWriter<'_>) -> WriterStarted {
    let certificate = &of.issued.certificate;
    WriterStarted {
        certificate: of.issued.issued.clone(),
        image: certificate.image_digest.as_str().into(),
        pod: certificate.pod.as_str().into(),
        prev_epoch: certificate.epoch.saturating_sub(1).into(),
        reason: of.reason.into(),
        settings: of.settings.iter().map(|(k, v)| Setting::of(k, v)).collect(),
        version: of.version.into(),
        watermark_root: Watermark(of.mark.and_then(|(_, root)| root).map(HexDigest)),
        watermark_size: of.mark.map_or(0, |(size, _)| size).into(),
        writer_key: Base64(certificate.key.to_bytes()),
    }
}
