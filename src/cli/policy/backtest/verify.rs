//! `policy backtest --verify`: checks a signed result.

use std::path::Path;

use super::{Args, Failure, unjudged};
use crate::cli::observed::plain;
use crate::cli::policy::bundles;
use crate::cli::reader::{self, LedgerSource};
use crate::cli::{Exit, FileError, runtime, say, say_json};
use crate::crypto::keys::PublicKey;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::plural::many;
use crate::evidence::backtest::statement;
use serde::Deserialize;
use serde_json::json;

/// How the ledger differs from the result's.
#[derive(Debug, thiserror::Error)]
enum Differs {
    /// No such log.
    #[error("this ledger has no log `{log}`")]
    Absent { log: String },
    /// A log with fewer entries.
    #[error("`{log}` has {} in this ledger, but {size} were read before", many(here, "entry"))]
    Shorter { log: String, here: Seq, size: Seq },
    /// Another entry in the place of the head.
    #[error("entry {seq} of `{log}` differs from the head that was read before")]
    Head { log: String, seq: Seq },
    /// The head was pruned.
    #[error("entry {seq} of `{log}` is no longer in this ledger")]
    Gone { log: String, seq: Seq },
}

/// The members of a result that this check reads.
#[derive(Deserialize)]
struct Predicate {
    bundle: BundleName,
    ledger: Vec<Log>,
    result: Counts,
}

/// The bundle that was tried.
#[derive(Deserialize)]
struct BundleName {
    name: String,
    version: String,
    digest: String,
}

/// The head of a log that was read.
#[derive(Deserialize)]
struct Log {
    origin: String,
    size: Seq,
    head: String,
}

/// How many decisions were evaluated, and how many of them changed.
#[derive(Deserialize)]
struct Counts {
    judged: u64,
    flips: u64,
}

/// Checks the envelope, and then the result against the other options.
pub(super) fn run(args: &Args, file: &Path) -> Result<Exit, Failure> {
    let envelope = std::fs::read(file).map_err(FileError::at(file)).map_err(unjudged)?;
    let mut trusted = Vec::new();
    for path in &args.trust {
        trusted.extend(PublicKey::load_all(path).map_err(unjudged)?);
    }
    let bundle = args.bundle.as_deref().map(bundles::read).transpose().map_err(unjudged)?;
    let bundle = bundle.map(|bundle| bundle.digest());
    let list = args.flips.as_deref().map(digest_of).transpose()?;
    let verified = statement::verify(&envelope, &trusted, bundle.as_ref(), list.as_ref())
        .map_err(Failure::invalid)?;
    let predicate: Predicate = verified.predicate.read().map_err(Failure::invalid)?;
    if let Some(source) = &args.ledger {
        heads(source, &predicate)?;
    }
    if args.json {
        let (signers, predicate) = (&verified.signers, &verified.predicate);
        say_json(json!({"ok": true, "signers": signers, "predicate": predicate}));
    } else {
        print_result(&verified.signers, &predicate);
    }
    Ok(Exit::Ok)
}

fn digest_of(path: &Path) -> Result<Digest, Failure> {
    let read = std::fs::File::open(path).and_then(Digest::of_reader);
    read.map_err(FileError::at(path)).map_err(unjudged)
}

/// Whether the ledger still has, at the place of every head that was read, the entry that was the head.
fn heads(source: &LedgerSource, predicate: &Predicate) -> Result<(), Failure> {
    let runtime = runtime()?;
    let reader = runtime.block_on(reader::open_reader(source)).map_err(unjudged)?;
    let chains = runtime.block_on(reader.chains()).map_err(unjudged)?;
    for Log { origin, size, head } in &predicate.ledger {
        let size = *size;
        let Some(seq) = size.checked_sub(1) else { continue };
        let row = chains.iter().find(|row| row.origin == *origin);
        let log = origin.clone();
        let Some(row) = row else { return Err(Failure::invalid(Differs::Absent { log })) };
        if row.head.size < size {
            let here = row.head.size;
            return Err(Failure::invalid(Differs::Shorter { log, here, size }));
        }
        let entries = runtime.block_on(reader.entries(&row.chain, seq, 1)).map_err(unjudged)?;
        let there = entries.first().filter(|entry| entry.seq == seq);
        let there = there.map(|entry| crate::record::Entry::leaf(&entry.body).hex());
        match there {
            Some(leaf) if leaf == *head => {}
            Some(_) => return Err(Failure::invalid(Differs::Head { log, seq })),
            None => return Err(unjudged(Differs::Gone { log, seq })),
        }
    }
    Ok(())
}

fn print_result(signers: &[String], Predicate { bundle, result, .. }: &Predicate) {
    let [name, version, digest] =
        [&bundle.name, &bundle.version, &bundle.digest].map(|text| plain(text));
    say(format!("{name} {version} {digest}"));
    let judged = many(result.judged, "decision");
    say(format!("  {judged} evaluated, {} changed", result.flips));
    signers.iter().for_each(|signer| say(format!("  signed by {signer}")));
}
