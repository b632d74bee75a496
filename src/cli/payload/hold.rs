//! Holds: entries of the fleet log that erasing and expiring heed.

use super::books::{configuration, unreadable};
use super::{Failure, Hold};
use crate::cli::reader;
use crate::cli::recorder::Recording;
use crate::cli::{Exit, say};
use crate::ledger::entry::Kind;
use crate::ledger::retention::{Records, hold};

pub async fn run(command: &Hold, place: bool) -> Result<Exit, Failure> {
    let usage = |why: String| (Exit::Usage, why);
    configuration(&command.source).map_err(usage)?;
    let recording = Recording::prepare(&command.source, &command.fleet).await.map_err(usage)?;
    let reader = reader::open_reader(&command.source).await.map_err(unreadable)?;
    let tenant = recording.tenant.clone();
    let chains = reader.chains().await.map_err(unreadable)?;
    let run = command.run.as_ref();
    let log = match (&command.log, run) {
        (Some(log), _) => chains.iter().find(|row| row.origin == *log),
        (None, Some(run)) => {
            let chain = reader.find_run(run).await.map_err(unreadable)?;
            chains.iter().find(|row| Some(row.chain) == chain)
        }
        (None, None) => None,
    };
    let what = || match (&command.log, run) {
        (Some(log), _) => format!("log {log}"),
        (None, Some(run)) => format!("run {run}"),
        (None, None) => "nothing".to_owned(),
    };
    let log = log.filter(|row| row.tenant == tenant);
    let log = log.ok_or_else(|| (Exit::Invalid, format!("there is no {}", what())))?;
    // Open, nobody else records in the fleet log: what is read now still holds when it is written.
    let fleet = recording.open().await.map_err(unreadable)?;
    let done = async {
        let records = Records::read(reader.as_ref(), &tenant).await.map_err(unreadable)?;
        let exact =
            |h: &&crate::ledger::retention::Hold| h.log == log.origin && h.run.as_ref() == run;
        let now = records.holds.iter().find(exact);
        match (place, now) {
            (true, Some(now)) => Ok(format!("already held: {now}")),
            (false, None) => Err((Exit::Invalid, format!("no hold on {}", what()))),
            (true, None) | (false, Some(_)) => {
                let kind = if place { Kind::HoldPlaced } else { Kind::HoldLifted };
                let draft = hold(kind, &log.origin, run, &command.reason, &command.by);
                let receipt = fleet.record(draft).await.map_err(unreadable)?;
                let did = if place { "held" } else { "released" };
                Ok(format!("{did}: {} (entry {} of {})", what(), receipt.seq, fleet.origin()))
            }
        }
    };
    let done = done.await;
    fleet.close().await.map_err(unreadable)?;
    say(done?);
    Ok(Exit::Ok)
}
