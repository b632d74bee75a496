//! Holds: entries of the fleet log that erasing and expiring heed.

use serde_json::json;

use super::access::{configuration, refused};
use super::order::{OrderDraft, given_or, signed_by};
use super::{Failure, Hold, HoldSubject, Release};
use crate::approval::SignedApproval;
use crate::approval::order::OrderKind;
use crate::cli::api::remote::{self, RemoteArgs};
use crate::cli::reader::{self, LedgerSource};
use crate::cli::recorder::{FleetArgs, Recording};
use crate::cli::sign;
use crate::cli::{Exit, print_facts};
use crate::domain::id::RunId;
use crate::evidence::erasure::{HoldOn, HoldSet, LegalHoldChange, log_of, set_hold};
use crate::ledger::store::LedgerReader;
use crate::operator::api::requests::LegalHold;

pub async fn place(command: &Hold) -> Result<Exit, Failure> {
    let Hold { about: HoldSubject { source, remote: over, fleet, run, log }, reason, by, .. } =
        command;
    let on = on(run.as_ref(), log.as_ref())?;
    if let Some(api) = over.api() {
        beside_nothing(over, fleet)?;
        return remote::hold(&api, &request(&on, reason)).await;
    }
    let change = LegalHoldChange::Place(reason.clone());
    let by = by.as_deref().unwrap_or_default();
    let recording = prepare(source, fleet).await?;
    let reader = reader::open_reader(source).await?;
    // WHY: report a missing log before opening the fleet log.
    log_of(reader.as_ref(), &recording.tenant, &on).await.map_err(refused)?;
    record(reader.as_ref(), recording, &on, (&change, by)).await
}

pub async fn release(command: &Release) -> Result<Exit, Failure> {
    let Release {
        about: HoldSubject { source, remote: over, fleet, run, log },
        reason,
        signing,
        ..
    } = command;
    let given = signing.given_statement()?;
    let on = match &given {
        Some(statement) => HoldOn::of(statement).map_err(refused)?,
        None => on(run.as_ref(), log.as_ref())?,
    };
    let draft = order_draft(&on, reason.clone().unwrap_or_default());
    if let Some(api) = over.api() {
        beside_nothing(over, fleet)?;
        let statement = given_or(given, draft.over_api(&api)).await?;
        if signing.statement {
            return Ok(sign::printed(&statement));
        }
        return remote::hold(&api, &lift(signing.sign(&statement)?)).await;
    }
    let config = configuration(source)?;
    let reader = reader::open_reader(source).await?;
    let tenant = super::access::tenant(fleet.tenant.as_ref(), config.as_ref());
    // Report missing payloads before the operator signs.
    log_of(reader.as_ref(), &tenant, &on).await.map_err(refused)?;
    let statement = given_or(given, draft.beside(reader.as_ref(), &tenant)).await?;
    if signing.statement {
        return Ok(sign::printed(&statement));
    }
    let sqlite = source.sqlite.as_deref();
    let order =
        signing.give((&tenant, &statement, OrderKind::Release), config.as_ref(), sqlite).await?;
    let by = signed_by(&order);
    let recording = prepare(source, fleet).await?;
    record(reader.as_ref(), recording, &on, (&LegalHoldChange::Lift(order), &by)).await
}

/// The target of a hold.
fn on(run: Option<&RunId>, log: Option<&String>) -> Result<HoldOn, Failure> {
    match (log, run) {
        (Some(log), _) => Ok(HoldOn::Log(log.clone())),
        (None, Some(run)) => Ok(HoldOn::Run(*run)),
        (None, None) => Err(Failure::usage("name a run or a log")),
    }
}

/// The request for a hold.
fn request(on: &HoldOn, reason: &str) -> LegalHold {
    let (log, run) = match on {
        HoldOn::Log(log) => (Some(log.clone()), None),
        HoldOn::Run(run) => (None, Some(run.to_string())),
    };
    LegalHold { log, run, reason: Some(reason.to_owned()), ..LegalHold::default() }
}

/// The request for the end of a hold.
fn lift(order: SignedApproval) -> LegalHold {
    let (statement, signature) = (Some(order.statement), Some(order.signature));
    LegalHold { statement, signature, ..LegalHold::default() }
}

fn order_draft(on: &HoldOn, reason: String) -> OrderDraft {
    let (target, name) = match on {
        HoldOn::Log(log) => ("log", log.clone()),
        HoldOn::Run(run) => ("run", run.to_string()),
    };
    let (role, payloads, request) = (None, Vec::new(), None);
    OrderDraft { order: OrderKind::Release, target, name, role, payloads, request, reason }
}

/// Over the operator API the hub or gate uses its own keys.
fn beside_nothing(over: &RemoteArgs, fleet: &FleetArgs) -> Result<(), Failure> {
    let theirs = [("the fleet's options", *fleet != FleetArgs::default())];
    over.excludes(&theirs).map_err(Failure::usage)
}

async fn prepare(source: &LedgerSource, fleet: &FleetArgs) -> Result<Recording, Failure> {
    Recording::prepare(source, fleet).await.map_err(Failure::usage)
}

/// Puts it on the fleet log.
async fn record(
    reader: &dyn LedgerReader,
    recording: Recording,
    on: &HoldOn,
    change: (&LegalHoldChange, &str),
) -> Result<Exit, Failure> {
    let tenant = recording.tenant.clone();
    let fleet = recording.open().await.map_err(Failure::unverifiable)?;
    let done = set_hold(reader, &fleet, (&tenant, on), change).await;
    let origin = fleet.origin().to_owned();
    fleet.close().await.map_err(Failure::unverifiable)?;
    match done.map_err(refused)? {
        HoldSet::Already(now) => {
            print_facts(
                json!({"state": "already held", "hold": now.to_string()}),
                format!("already held: {now}"),
            );
        }
        HoldSet::Recorded(receipt) => {
            let outcome =
                if matches!(change.0, LegalHoldChange::Place(_)) { "held" } else { "released" };
            let line = format!("{outcome}: {on} (entry {} of {origin})", receipt.seq);
            print_facts(json!({"state": outcome, "entry": receipt.seq, "log": origin}), line);
        }
    }
    Ok(Exit::Ok)
}
