//! Checks receipts offline, and makes their keys.

use serde_json::json;

use super::{Failure, PayloadKeygen, Receipt};
use crate::cli::{Cause, Exit, FileError, print_facts, say, say_json};
use crate::clock::SystemEntropy;
use crate::crypto::keys::PublicKey;
use crate::domain::plural::many;
use crate::evidence::receipt;
use crate::ledger::vault;
use serde::Deserialize;

pub fn run(command: &Receipt) -> Result<Exit, Failure> {
    let keys = PublicKey::load_all(&command.key).map_err(Failure::usage)?;
    let fleet = command.fleet_key.as_ref().map(|path| PublicKey::load_all(path));
    let fleet = fleet.transpose().map_err(Failure::usage)?.unwrap_or_default();
    let envelope = std::fs::read(&command.file).map_err(FileError::at(&command.file));
    let envelope = envelope.map_err(Failure::usage)?;
    let proven = receipt::check(&envelope, &keys, fleet.first());
    let proven = proven.map_err(|why| Failure::invalid(Refuted(why.into())))?;
    if command.json {
        let erasures = proven.erasures.iter().map(|(seq, data)| json!({"seq": seq, "data": data}));
        say_json(json!({"log": proven.fleet, "erasures": erasures.collect::<Vec<_>>()}));
        return Ok(Exit::Ok);
    }
    for (seq, data) in &proven.erasures {
        let erasure = data.read::<Erasure>().map_err(Failure::invalid)?;
        let Erasure { at, backups_expire_by, basis, by, c, log } = erasure;
        let (fleet, payloads) = (&proven.fleet, many(c.len(), "payload"));
        say(format!("entry {seq} of {fleet}: {payloads} of {log} erased at {at} by {by}: {basis}"));
        say(format!("backups may hold the bytes until {backups_expire_by}"));
    }
    if fleet.is_empty() {
        say("the fleet log's own signature was not checked: name its key (`--fleet-public-key`)");
    }
    say("this does not prove that no copy exists elsewhere, nor that backups expire on time");
    Ok(Exit::Ok)
}

/// An entry's facts about an erasure, and its time.
#[derive(Deserialize)]
struct Erasure {
    #[serde(default = "unknown")]
    at: String,
    backups_expire_by: String,
    basis: String,
    by: String,
    c: Vec<String>,
    log: String,
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// A receipt that does not hold.
#[derive(Debug, thiserror::Error)]
#[error("the receipt is not valid: {0}")]
struct Refuted(Cause);

pub fn keygen(command: &PayloadKeygen) -> Result<Exit, Failure> {
    let id = vault::keygen(&SystemEntropy, &command.out).map_err(Failure::invalid)?;
    let file = command.out.display();
    let line = format!("encryption key  {file}\nkey id          {id}");
    print_facts(json!({"key": file.to_string(), "key_id": id}), line);
    Ok(Exit::Ok)
}
