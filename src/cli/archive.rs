//! `wicketgate ledger archive`: chains as static files that prove themselves.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::argument::days;
use super::bucket::BucketArgs;
use super::ledger::{chains, unreadable};
use super::progress::Progress;
use super::reader::{self, LedgerSource};
use super::{Exit, Failure, fail, report, say};
use crate::crypto::keys::PublicKey;
use crate::domain::plural::many;
use crate::evidence::bucket::Retain;
use crate::evidence::trust::Trust;
use crate::ledger::archive::storage::{ArchiveStore, Directory};
use crate::ledger::archive::{self, Error, Saved};
use crate::ledger::store::ChainRow;

/// `ledger archive`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate ledger archive --config wicketgate.yaml --out archive\n  \
    wicketgate ledger archive --config wicketgate.yaml --to s3://bucket/ledger --retain 400d")]
pub struct Archive {
    #[command(flatten)]
    source: LedgerSource,
    /// Write to this directory, each chain below its id; only new tiles are written
    #[arg(long, value_name = "PATH", required_unless_present = "to")]
    out: Option<PathBuf>,
    /// Write to this object store in the same way: `s3://bucket/prefix`
    #[arg(long, value_name = "URL", conflicts_with = "out")]
    to: Option<String>,
    /// Days during which the object store must refuse changes, such as `400d`; the bucket needs object lock
    #[arg(long, value_name = "DAYS", value_parser = days, requires = "to")]
    retain: Option<Duration>,
    /// Whether an administrator may shorten that: `compliance` never, `governance` with a permission
    #[arg(long, value_name = "MODE", requires = "retain", default_value = "compliance")]
    retain_mode: Mode,
    #[command(flatten)]
    bucket: BucketArgs,
    /// Chain to archive, by its origin; if omitted, every chain
    #[arg(long, value_name = "ORIGIN")]
    chain: Option<String>,
    /// Trust roots: further keys that may certify writers, beside the chain's own
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// Print one JSON object per chain
    #[arg(long)]
    json: bool,
}

/// `--retain-mode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Mode {
    Compliance,
    Governance,
}

/// Archives every chain that has a head.
pub(super) async fn run(command: &Archive) -> Result<Exit, Failure> {
    let trusted = trusted(command.trust.as_deref())?;
    let reader = reader::open_reader(&command.source).await?;
    let mut worst = Exit::Ok;
    for row in chains(reader.as_ref(), command.chain.as_deref()).await? {
        if row.head.size == 0 {
            continue;
        }
        let store = open_archive(command, &row)?;
        let saved = archive::save(reader.as_ref(), &row, &trusted, store.as_ref());
        match Progress::new(row.origin.as_str()).during(saved).await {
            Ok(saved) => print_saved(&row, &saved),
            Err(error) => {
                let origin = row.origin.clone();
                let exit = code(&error);
                worst = worst.worst(fail(exit, NotArchived { origin, error }));
            }
        }
    }
    Ok(worst)
}

/// A chain that is not archived.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: {error}")]
struct NotArchived {
    origin: String,
    #[source]
    error: Error,
}

/// Enrolment keys of a trust file, if one is named.
pub(super) fn trusted(path: Option<&Path>) -> Result<Vec<PublicKey>, Failure> {
    let loaded = path.map(Trust::load).transpose().map_err(Failure::usage)?;
    Ok(loaded.map(|trust| trust.enrolment).unwrap_or_default())
}

/// The archive of one chain, for writing.
fn open_archive(command: &Archive, row: &ChainRow) -> Result<Box<dyn ArchiveStore>, Failure> {
    if let Some(location) = &command.to {
        let compliance = command.retain_mode == Mode::Compliance;
        let retain = command.retain.map(|term| Retain { term, compliance });
        let bucket = command.bucket.open(location, retain)?;
        let location = bucket.place().of_chain(&row.chain);
        return Ok(Box::new(bucket.at(location)));
    }
    let out = command.out.as_deref().unwrap_or_else(|| Path::new("."));
    if super::bucket::remote(out).is_some() {
        return Err(Failure::usage("`--out` names a directory; name a bucket with `--to`"));
    }
    let directory = Directory::create(&out.join(row.chain.to_string())).map_err(unreadable)?;
    Ok(Box::new(directory))
}

/// Invalid if ledger or archive are not what they should be; unverifiable if they cannot be read.
pub(super) const fn code(error: &Error) -> Exit {
    match error {
        Error::Damaged(..) | Error::Differs(_) | Error::Foreign(_) | Error::Proof(_) => {
            Exit::Invalid
        }
        Error::Store(_) | Error::File { .. } => Exit::Unverifiable,
    }
}

fn print_saved(row: &ChainRow, saved: &Saved) {
    let facts = json!({"origin": row.origin, "chain": row.chain, "before": saved.before, "size": saved.size,
        "root": saved.root.hex(), "files": saved.files, "bytes": saved.bytes});
    let line = format!(
        "{}: {} archived, {} of them new; {}, {} bytes written",
        row.origin,
        many(saved.size, "entry"),
        saved.size.saturating_sub(saved.before),
        many(saved.files, "file"),
        saved.bytes
    );
    report(facts, || say(line));
}
