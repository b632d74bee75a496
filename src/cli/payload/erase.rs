//! Erasing: first on the books, then from the store.

use std::collections::{BTreeMap, BTreeSet};

use super::books::{Books, tenant, unreadable};
use super::{After, Erase, Expire, Failure};
use crate::cli::recorder::Recording;
use crate::cli::{Exit, say, write_new};
use crate::clock::{Clock as _, SystemClock};
use crate::config::Config;
use crate::crypto::keys::SecretKey;
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, Seq};
use crate::evidence::receipt::{self, Told};
use crate::ledger::fleet::Fleet;
use crate::ledger::retention::{
    BACKUP_DAYS, BY_CLOCK, Clocks, ERASED_MAX, Grounds, Records, Residue, commitments_of, erased,
};
use crate::ledger::store::ChainRow;

/// Payloads by chain.
type Wanted = BTreeMap<ChainId, BTreeSet<Digest>>;

/// What was done.
#[derive(Default)]
struct Done {
    /// Entries of the fleet log that say so.
    seqs: Vec<Seq>,
    /// Rows that were deleted.
    deleted: u64,
    /// The fleet log.
    fleet: String,
}

pub async fn erase(command: &Erase) -> Result<Exit, Failure> {
    let books = Books::open(&command.access).await?;
    let tenant = tenant(command.fleet.tenant.as_ref(), books.config.as_ref());
    if command.resume {
        let done = resume(&books, &tenant).await?;
        return finish(&books, &command.after, &done).await;
    }
    let wanted = asked(&books, command, &tenant).await?;
    let count: usize = wanted.values().map(BTreeSet::len).sum();
    let records = Records::read(books.reader.as_ref(), &tenant).await.map_err(unreadable)?;
    refuse_held(&books, &records, &wanted).await?;
    if !command.yes {
        say(format!("{count} payloads would be erased; nothing was: add `--yes`"));
        return Ok(Exit::Ok);
    }
    let word = |text: &Option<String>| text.clone().unwrap_or_default();
    let grounds = Grounds {
        basis: word(&command.basis),
        by: word(&command.by),
        request: command.request.clone(),
        backups_expire_by: backups(&command.after, books.config.as_ref()),
    };
    let recording = prepare(&command.access.source, &command.fleet).await?;
    let done = recorded(&books, recording, &tenant, &wanted, &grounds).await?;
    finish(&books, &command.after, &done).await
}

pub async fn expire(command: &Expire) -> Result<Exit, Failure> {
    let books = Books::open(&command.access).await?;
    let tenant = tenant(command.fleet.tenant.as_ref(), books.config.as_ref());
    let mut clocks: Clocks =
        books.config.as_ref().map(|config| config.retention.clocks()).unwrap_or_default();
    clocks.0.extend(command.keep.iter().cloned());
    let now = SystemClock::new().now();
    let mut wanted = Wanted::new();
    for (chain, kept) in books.kept(&tenant).await? {
        if clocks.due(&kept, now) {
            wanted.entry(chain.chain).or_default().insert(kept.commitment);
        }
    }
    let records = Records::read(books.reader.as_ref(), &tenant).await.map_err(unreadable)?;
    let mut held = 0_usize;
    for (chain, list) in &mut wanted {
        let Some(row) = books.chains.get(chain) else { continue };
        let holds = records.held(books.reader.as_ref(), row, list).await.map_err(unreadable)?;
        let before = list.len();
        list.retain(|c| !holds.contains_key(c));
        held = held.saturating_add(before.saturating_sub(list.len()));
    }
    wanted.retain(|_, list| !list.is_empty());
    let due: usize = wanted.values().map(BTreeSet::len).sum();
    say(format!("{due} payloads are due, {held} more are due and held"));
    if command.dry_run {
        return Ok(Exit::Ok);
    }
    if wanted.is_empty() {
        let done = resume(&books, &tenant).await?;
        return finish(&books, &command.after, &done).await;
    }
    let grounds = Grounds {
        basis: BY_CLOCK.to_owned(),
        by: command.by.clone(),
        request: None,
        backups_expire_by: backups(&command.after, books.config.as_ref()),
    };
    let recording = prepare(&command.access.source, &command.fleet).await?;
    let done = recorded(&books, recording, &tenant, &wanted, &grounds).await?;
    finish(&books, &command.after, &done).await
}

async fn prepare(
    source: &crate::cli::reader::Source,
    args: &crate::cli::recorder::FleetArgs,
) -> Result<Recording, Failure> {
    Recording::prepare(source, args).await.map_err(|why| (Exit::Usage, why))
}

/// The payloads that are asked for and still stored.
async fn asked(books: &Books, command: &Erase, tenant: &str) -> Result<Wanted, Failure> {
    let mut named: BTreeSet<Digest> = command.commitment.iter().copied().collect();
    if let Some(run) = &command.run {
        let chain = books.reader.find_run(run).await.map_err(unreadable)?;
        let chain = chain.ok_or_else(|| (Exit::Invalid, format!("no run {run}")))?;
        let list = commitments_of(books.reader.as_ref(), &chain, run).await.map_err(unreadable)?;
        let role = |of: &String| command.role.as_ref().is_none_or(|role| role == of);
        named.extend(list.into_iter().filter(|(_, of)| role(of)).map(|(c, _)| c));
    }
    let mut wanted = Wanted::new();
    for (chain, kept) in books.kept(tenant).await? {
        if named.contains(&kept.commitment) {
            wanted.entry(chain.chain).or_default().insert(kept.commitment);
        }
    }
    let found: usize = wanted.values().map(BTreeSet::len).sum();
    let absent = named.len().saturating_sub(found);
    if absent > 0 {
        say(format!("{absent} payloads are not stored: erased before, or never kept"));
    }
    Ok(wanted)
}

async fn refuse_held(books: &Books, records: &Records, wanted: &Wanted) -> Result<(), Failure> {
    for (chain, list) in wanted {
        let Some(row) = books.chains.get(chain) else { continue };
        let held = records.held(books.reader.as_ref(), row, list).await.map_err(unreadable)?;
        if let Some((c, hold)) = held.iter().find(|(c, _)| list.contains(c)) {
            return Err((
                Exit::Invalid,
                format!("payload {c} is held, nothing was erased: {hold}"),
            ));
        }
    }
    Ok(())
}

/// Records and deletes, holding the fleet log so that no hold can come in between.
async fn recorded(
    books: &Books,
    recording: Recording,
    tenant: &str,
    wanted: &Wanted,
    grounds: &Grounds,
) -> Result<Done, Failure> {
    let fleet = recording.open().await.map_err(unreadable)?;
    let done = put(books, &fleet, tenant, wanted, grounds).await;
    let closed = fleet.close().await.map_err(unreadable);
    let mut done = done?;
    closed?;
    // Rows are deleted only now: every one of them stands in the log.
    let swept = resume(books, tenant).await?;
    done.deleted = swept.deleted;
    Ok(done)
}

async fn put(
    books: &Books,
    fleet: &Fleet,
    tenant: &str,
    wanted: &Wanted,
    grounds: &Grounds,
) -> Result<Done, Failure> {
    let records = Records::read(books.reader.as_ref(), tenant).await.map_err(unreadable)?;
    refuse_held(books, &records, wanted).await?;
    let mut done = Done { fleet: fleet.origin().to_owned(), ..Done::default() };
    for (chain, list) in wanted {
        let Some(row) = books.chains.get(chain) else { continue };
        let new = |c: &&Digest| !records.erased.contains_key(&(row.origin.clone(), **c));
        let list: Vec<Digest> = list.iter().filter(new).copied().collect();
        for part in list.chunks(ERASED_MAX) {
            let draft = erased(&row.origin, part, grounds);
            done.seqs.push(fleet.record(draft).await.map_err(unreadable)?.seq);
        }
    }
    Ok(done)
}

/// Deletes every row that the fleet log calls erased: also what an erasure before left undone.
async fn resume(books: &Books, tenant: &str) -> Result<Done, Failure> {
    let records = Records::read(books.reader.as_ref(), tenant).await.map_err(unreadable)?;
    let mut left: BTreeMap<ChainId, (&ChainRow, Vec<Digest>)> = BTreeMap::new();
    for (row, kept) in books.kept(tenant).await? {
        if records.erased.contains_key(&(row.origin.clone(), kept.commitment)) {
            left.entry(row.chain).or_insert_with(|| (row, Vec::new())).1.push(kept.commitment);
        }
    }
    let mut done = Done::default();
    for (chain, (_, list)) in &left {
        let gone = books.keeper.erase(chain, list).await.map_err(unreadable)?;
        done.deleted = done.deleted.saturating_add(gone);
    }
    Ok(done)
}

fn backups(after: &After, config: Option<&Config>) -> crate::domain::time::Timestamp {
    let days = std::time::Duration::from_secs(BACKUP_DAYS * 24 * 60 * 60);
    let configured = config.map(|config| config.retention.backups());
    SystemClock::new().now().plus(after.backups.or(configured).unwrap_or(days))
}

/// Cleans the store's files, says what was done, and writes the receipt.
async fn finish(books: &Books, after: &After, done: &Done) -> Result<Exit, Failure> {
    let residue = books.keeper.scrub(after.vacuum).await.map_err(unreadable)?;
    say(format!("{} payloads erased with their salts", done.deleted));
    let word = match residue {
        Residue::None => "none",
        Residue::Some => "some",
        Residue::Unknown => "unknown",
    };
    match residue {
        Residue::None => {}
        Residue::Some => say(
            "the log beside the database file may still hold the bytes, because somebody is reading: run `payload erase --resume` later",
        ),
        Residue::Unknown => say(
            "the database keeps deleted rows until VACUUM, and its write-ahead log and replicas until they are recycled",
        ),
    }
    if let (Some(path), Some(key)) = (&after.receipt, &after.key) {
        if done.seqs.is_empty() {
            say("no receipt: nothing new was recorded");
        } else {
            let key = SecretKey::load(key).map_err(|e| (Exit::Usage, e.to_string()))?;
            let told = Told { deleted: done.deleted, residue: word, store: books.store };
            let made = receipt::make(books.reader.as_ref(), &done.fleet, &done.seqs, &told, &key);
            let made = made.await.map_err(unreadable)?;
            write_new(path, &made).map_err(|why| (Exit::Usage, why))?;
            say(format!("receipt {}", path.display()));
        }
    }
    Ok(if residue == Residue::Some { Exit::Unverifiable } else { Exit::Ok })
}
