//! Erasing: first on the ledger, then from the store.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::access::{PayloadLedger, refused, tenant};
use super::order::{OrderDraft, given_or, signed_by};
use super::{Erase, EraseFollowUp, Expire, Failure};
use crate::approval::SignedApproval;
use crate::approval::order::{OrderKind, OrderStatement};
use crate::cli::api::Api;
use crate::cli::api::remote;
use crate::cli::recorder::{FleetArgs, Recording};
use crate::cli::{Exit, present, print_facts, sign, write_new};
use crate::clock::{Clock as _, SystemClock};
use crate::config::Config;
use crate::crypto::keys::SecretKey;
use crate::domain::digest::Digest;
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::evidence::erasure::{ErasureRequest, ErasureStore, RecordedErasure, Wanted};
use crate::evidence::receipt::{self, ReceiptNotes};
use crate::ledger::retention::{self, BACKUP_DAYS, Clocks, Grounds, Residue, Warrant};
use crate::ledger::store::LedgerReader;
use crate::operator::api::requests::Erasure;

/// What was done.
#[derive(Default)]
struct ErasureReport {
    /// The fleet log's entry about it.
    recorded: RecordedErasure,
    /// Rows that were deleted.
    deleted: u64,
}

pub async fn erase(command: &Erase) -> Result<Exit, Failure> {
    if let Some(api) = command.remote.api() {
        return erase_remote(command, &api).await;
    }
    command.after.signed()?;
    let ledger = PayloadLedger::open(&command.access).await?;
    let tenant = tenant(command.fleet.tenant.as_ref(), ledger.config.as_ref());
    let erasures = ledger.erasure_store(&tenant);
    if command.resume {
        let deleted = erasures.sweep().await.map_err(refused)?;
        // WHY: no search can find traces of rows that are already gone, so rewrite the file.
        let after = EraseFollowUp { vacuum: true, ..command.after.clone() };
        return finish(&ledger, &after, &ErasureReport { deleted, ..ErasureReport::default() })
            .await;
    }
    let given = command.signing.given_statement()?;
    if command.signing.statement {
        let statement = order_draft(command).beside(erasures.reader, &tenant).await?;
        return Ok(sign::printed(&statement));
    }
    let request = request(command, given.as_ref())?;
    let found = erasures.find(&request).await.map_err(refused)?;
    if !found.absent.is_empty() {
        let absent = found.absent.len();
        let line = format!("{} not stored: erased before, or never kept", many(absent, "payload"));
        print_facts(json!({"absent": absent}), line);
    }
    let records = erasures.records().await.map_err(refused)?;
    erasures.refuse_held(&records, &found.wanted).await.map_err(refused)?;
    if !command.yes {
        let count = found.count();
        let line = format!("{} to erase; nothing was erased: add `--yes`", many(count, "payload"));
        print_facts(json!({"payloads": count, "erased": 0}), line);
        return Ok(Exit::Ok);
    }
    let statement = given_or(given, order_draft(command).beside(erasures.reader, &tenant)).await?;
    let sqlite = command.access.source.sqlite.as_deref();
    let order = command
        .signing
        .give((&tenant, &statement, OrderKind::Erase), ledger.config.as_ref(), sqlite)
        .await?;
    let by = signed_by(&order);
    let (wanted, signer) = ((&found.wanted, request.run.as_ref()), order.by().subject.as_str());
    erasures.refuse_part(&records, wanted, (&[signer], &by)).await.map_err(refused)?;
    let grounds = Grounds {
        by,
        backups_expire_by: backups(&command.after, ledger.config.as_ref()),
        warrant: Warrant::Order(order),
    };
    let recording = prepare(&command.access.source, &command.fleet).await?;
    let done = recorded(&erasures, recording, &found.wanted, &grounds).await?;
    finish(&ledger, &command.after, &done).await
}

/// What the options ask for.
fn order_draft(command: &Erase) -> OrderDraft {
    let (target, name) = match command.run {
        Some(run) => ("run", run.to_string()),
        None => ("payloads", String::new()),
    };
    OrderDraft {
        order: OrderKind::Erase,
        target,
        name,
        role: command.role.clone(),
        payloads: command.commitment.clone(),
        request: command.request.clone(),
        reason: command.basis.clone().unwrap_or_default(),
    }
}

/// Erases over the operator API: the hub or gate has the keys and authenticates the operator.
async fn erase_remote(command: &Erase, api: &Api) -> Result<Exit, Failure> {
    let Erase { after, access, fleet, signing, .. } = command;
    let theirs = [
        ("`--eraser-url-file`", access.eraser_url_file.is_some()),
        ("the fleet's options", *fleet != FleetArgs::default()),
        ("`--key`", after.key.is_some()),
        ("`--backups`", after.backups.is_some()),
    ];
    command.remote.excludes(&theirs).map_err(Failure::usage)?;
    let given = signing.given_statement()?;
    let request = if signing.statement {
        return Ok(sign::printed(&order_draft(command).over_api(api).await?));
    } else if command.yes {
        let statement = given_or(given, order_draft(command).over_api(api)).await?;
        let SignedApproval { statement, signature } = signing.sign(&statement)?;
        let (statement, signature) = (Some(statement), Some(signature));
        Erasure { statement, signature, ..Erasure::default() }
    } else {
        dry(&request(command, given.as_ref())?)
    };
    let request = Erasure { vacuum: after.vacuum, ..request };
    remote::erase(api, &request, after.receipt.as_deref()).await
}

/// The payloads that the options select, or those of a given order.
fn request(command: &Erase, given: Option<&OrderStatement>) -> Result<ErasureRequest, Failure> {
    match given {
        Some(statement) => ErasureRequest::of(statement).map_err(refused),
        None => Ok(ErasureRequest {
            run: command.run,
            role: command.role.clone(),
            commitments: command.commitment.iter().copied().collect(),
        }),
    }
}

/// The request that only lists the selected payloads.
fn dry(request: &ErasureRequest) -> Erasure {
    let commitments: Vec<String> = request.commitments.iter().map(Digest::hex).collect();
    Erasure {
        dry_run: true,
        run: request.run.map(|run| run.to_string()),
        role: request.role.clone(),
        commitments: Some(commitments).filter(|all| !all.is_empty()),
        ..Erasure::default()
    }
}

pub async fn expire(command: &Expire) -> Result<Exit, Failure> {
    command.after.signed()?;
    let ledger = PayloadLedger::open(&command.access).await?;
    let tenant = tenant(command.fleet.tenant.as_ref(), ledger.config.as_ref());
    let erasures = ledger.erasure_store(&tenant);
    let mut clocks: Clocks =
        ledger.config.as_ref().map(|config| config.retention.clocks()).unwrap_or_default();
    clocks.0.extend(command.keep.iter().cloned());
    let now = SystemClock::new().now();
    let mut wanted = Wanted::new();
    for (chain, kept) in erasures.kept().await.map_err(refused)? {
        if clocks.due(&kept, now) {
            wanted.entry(chain.chain).or_default().insert(kept.commitment);
        }
    }
    let audited = keep_audited(ledger.reader.as_ref(), &mut wanted, now).await?;
    let records = erasures.records().await.map_err(refused)?;
    let mut held = 0_usize;
    for (chain, list) in &mut wanted {
        let Some(row) = ledger.chains.get(chain) else { continue };
        let holds =
            records.held(ledger.reader.as_ref(), row, list).await.map_err(Failure::unverifiable)?;
        let before = list.len();
        list.retain(|c| !holds.contains_key(c));
        held = held.saturating_add(before.saturating_sub(list.len()));
    }
    wanted.retain(|_, list| !list.is_empty());
    let due: usize = wanted.values().map(BTreeSet::len).sum();
    let kept = match audited {
        0 => String::new(),
        kept => format!(", {kept} more kept by `enhanced_audit`"),
    };
    let line = format!("{} due, {held} more on legal hold{kept}", many(due, "payload"));
    let kept = (audited > 0).then_some(audited);
    print_facts(present(json!({"due": due, "held": held, "audited": kept})), line);
    if command.dry_run {
        return Ok(Exit::Ok);
    }
    if wanted.is_empty() {
        let deleted = erasures.sweep().await.map_err(refused)?;
        return finish(
            &ledger,
            &command.after,
            &ErasureReport { deleted, ..ErasureReport::default() },
        )
        .await;
    }
    let grounds = Grounds {
        by: command.by.clone(),
        backups_expire_by: backups(&command.after, ledger.config.as_ref()),
        warrant: Warrant::Clock(clocks),
    };
    let recording = prepare(&command.access.source, &command.fleet).await?;
    let done = recorded(&erasures, recording, &wanted, &grounds).await?;
    finish(&ledger, &command.after, &done).await
}

/// Takes out what a policy has kept longer, and counts it.
async fn keep_audited(
    reader: &dyn LedgerReader,
    wanted: &mut Wanted,
    now: Timestamp,
) -> Result<usize, Failure> {
    let mut count = 0_usize;
    for (chain, list) in wanted {
        let kept = retention::audited(reader, chain).await.map_err(Failure::unverifiable)?;
        let before = list.len();
        list.retain(|c| kept.get(c).is_none_or(|until| *until <= now));
        count = count.saturating_add(before.saturating_sub(list.len()));
    }
    Ok(count)
}

async fn prepare(
    source: &crate::cli::reader::LedgerSource,
    args: &FleetArgs,
) -> Result<Recording, Failure> {
    Recording::prepare(source, args).await.map_err(Failure::usage)
}

/// Records and deletes, holding the fleet log so that no hold can come in between.
async fn recorded(
    erasures: &ErasureStore<'_>,
    recording: Recording,
    wanted: &Wanted,
    grounds: &Grounds,
) -> Result<ErasureReport, Failure> {
    let fleet = recording.open().await.map_err(Failure::unverifiable)?;
    let recorded = erasures.record(&fleet, wanted, grounds).await.map_err(refused);
    let closed = fleet.close().await.map_err(Failure::unverifiable);
    let recorded = recorded?;
    closed?;
    // WHY: delete rows only now, when the log has recorded every one of them.
    let deleted = erasures.sweep().await.map_err(refused)?;
    Ok(ErasureReport { recorded, deleted })
}

fn backups(after: &EraseFollowUp, config: Option<&Config>) -> Timestamp {
    let days = std::time::Duration::from_secs(BACKUP_DAYS * 24 * 60 * 60);
    let configured = config.map(|config| config.retention.backups());
    SystemClock::new().now().plus(after.backups.or(configured).unwrap_or(days))
}

/// Cleans the store's files, prints the result, and writes the receipt.
async fn finish(
    ledger: &PayloadLedger,
    after: &EraseFollowUp,
    done: &ErasureReport,
) -> Result<Exit, Failure> {
    let residue = ledger.eraser.scrub(after.vacuum).await.map_err(Failure::unverifiable)?;
    let residue_name = residue.as_str();
    let line = format!("{} erased with the salts", many(done.deleted, "payload"));
    print_facts(json!({"erased": done.deleted, "residue": residue_name}), line);
    match residue {
        Residue::None => {}
        Residue::Some => print_facts(
            Value::Null,
            "the log beside the database file may still hold the bytes, because a reader keeps it open: run `wicketgate ledger payload erase --resume` later",
        ),
        Residue::Unknown => print_facts(
            Value::Null,
            "the database keeps deleted rows until VACUUM, and its write-ahead log and replicas until they are recycled",
        ),
    }
    if let (Some(path), Some(key)) = (&after.receipt, &after.key) {
        if done.recorded.seqs.is_empty() {
            print_facts(json!({"receipt": null}), "no receipt, because nothing new was recorded");
        } else {
            let key = SecretKey::load(key).map_err(Failure::usage)?;
            let notes =
                ReceiptNotes { deleted: done.deleted, residue: residue_name, store: ledger.store };
            let RecordedErasure { fleet, seqs } = &done.recorded;
            let made = receipt::make(ledger.reader.as_ref(), fleet, seqs, &notes, &key);
            let made = made.await.map_err(Failure::unverifiable)?;
            write_new(path, &made).map_err(Failure::usage)?;
            print_facts(json!({"receipt": path}), format!("receipt {}", path.display()));
        }
    }
    Ok(if residue == Residue::Some { Exit::Unverifiable } else { Exit::Ok })
}
