//! Holds: entries of the fleet log that erasing and expiring heed.

use serde_json::json;

use super::books::{configuration, refused, unreadable};
use super::{Failure, Hold};
use crate::cli::reader;
use crate::cli::recorder::{FleetArgs, Recording};
use crate::cli::{Exit, office, say};
use crate::evidence::erasure::{HoldOn, HoldSet, log_of, set_hold};

pub async fn run(command: &Hold, place: bool) -> Result<Exit, Failure> {
    let usage = |why: String| (Exit::Usage, why);
    if let Some(desk) = command.away.desk() {
        let theirs = [("the fleet's options", command.fleet != FleetArgs::default())];
        command.away.alone(&theirs).map_err(usage)?;
        let asked = match (&command.log, &command.run) {
            (Some(log), _) => json!({"log": log, "reason": command.reason, "lift": !place}),
            (None, run) => {
                let run = run.map(|run| run.to_string());
                json!({"run": run, "reason": command.reason, "lift": !place})
            }
        };
        return office::hold(&desk, &asked).await;
    }
    configuration(&command.source).map_err(usage)?;
    let recording = Recording::prepare(&command.source, &command.fleet).await.map_err(usage)?;
    let reader = reader::open_reader(&command.source).await.map_err(unreadable)?;
    let tenant = recording.tenant.clone();
    let on = match (&command.log, &command.run) {
        (Some(log), _) => HoldOn::Log(log.clone()),
        (None, Some(run)) => HoldOn::Run(*run),
        (None, None) => return Err(usage("name a run or a log".to_owned())),
    };
    // What is not there is said before the fleet log is opened.
    log_of(reader.as_ref(), &tenant, &on).await.map_err(|e| refused(&e))?;
    let fleet = recording.open().await.map_err(unreadable)?;
    let why = (command.reason.as_str(), command.by.as_deref().unwrap_or_default());
    let done = set_hold(reader.as_ref(), &fleet, (&tenant, &on, place), why).await;
    let origin = fleet.origin().to_owned();
    fleet.close().await.map_err(unreadable)?;
    match done.map_err(|e| refused(&e))? {
        HoldSet::Already(now) => say(format!("already held: {now}")),
        HoldSet::Recorded(receipt) => {
            let did = if place { "held" } else { "released" };
            say(format!("{did}: {on} (entry {} of {origin})", receipt.seq));
        }
    }
    Ok(Exit::Ok)
}
