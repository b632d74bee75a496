//! Stored payloads, and those under a legal hold.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::access::{PayloadLedger, refused, tenant};
use super::{Failure, ListPayloads};
use crate::cli::error::LookupError;
use crate::cli::{Exit, present, say, say_json};
use crate::domain::digest::Digest;
use crate::domain::plural::many;
use crate::ledger::retention::{LegalHold, commitments_of};

pub async fn run(command: &ListPayloads) -> Result<Exit, Failure> {
    let ledger = PayloadLedger::open(&command.access).await?;
    let tenant = tenant(None, ledger.config.as_ref());
    let erasures = ledger.erasure_store(&tenant);
    let records = erasures.records().await.map_err(refused)?;
    let mut kept = erasures.kept().await.map_err(refused)?;
    if let Some(run) = &command.run {
        let chain = ledger.reader.find_run(run).await?;
        let chain = chain.ok_or_else(|| Failure::invalid(LookupError::Run(*run)))?;
        let of_run = commitments_of(ledger.reader.as_ref(), &chain, run)
            .await
            .map_err(Failure::unverifiable)?;
        let of_run: BTreeSet<Digest> = of_run.into_iter().map(|(c, _)| c).collect();
        kept.retain(|(_, kept)| of_run.contains(&kept.commitment));
    }
    let commitments: BTreeSet<Digest> = kept.iter().map(|(_, kept)| kept.commitment).collect();
    let mut held: BTreeMap<Digest, LegalHold> = BTreeMap::new();
    for chain in ledger.chains.values() {
        let mine = kept.iter().filter(|(row, _)| row.chain == chain.chain);
        let mine = mine.map(|(_, kept)| kept.commitment).collect();
        held.extend(
            records
                .held(ledger.reader.as_ref(), chain, &mine)
                .await
                .map_err(Failure::unverifiable)?,
        );
    }
    held.retain(|c, _| commitments.contains(c));
    for (chain, kept) in &kept {
        let hold = held.get(&kept.commitment);
        if command.json {
            say_json(present(json!({
                "log": chain.origin,
                "commitment": kept.commitment.hex(),
                "role": kept.role.as_str(),
                "stored_at": kept.stored_at,
                "bytes": kept.bytes,
                "encrypted": kept.sealed,
                "hold": hold.map(|hold| hold.seq),
            })));
        } else {
            let sealed = if kept.sealed { ", encrypted" } else { "" };
            let hold = hold.map(|hold| format!(", {hold}")).unwrap_or_default();
            say(format!(
                "{} {} {} {} bytes{sealed}{hold}",
                kept.stored_at, kept.role, kept.commitment, kept.bytes
            ));
        }
    }
    if !command.json {
        say(format!("{}, {} of them on legal hold", many(kept.len(), "payload"), held.len()));
    }
    Ok(Exit::Ok)
}
