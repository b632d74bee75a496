//! `wicketgate ledger archive`: chains as static files that prove themselves.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::bucket::{BucketArgs, days};
use super::ledger::{Failure, INVALID, UNVERIFIABLE, USAGE, chains, unreadable};
use super::reader::{self, Source};
use super::{complain, say};
use crate::crypto::keys::PublicKey;
use crate::domain::canonical;
use crate::domain::json::Json;
use crate::evidence::bucket::Retain;
use crate::evidence::trust::Trust;
use crate::ledger::archive::shelf::{Directory, Shelf};
use crate::ledger::archive::{self, Error, Saved};
use crate::ledger::store::ChainRow;

/// `ledger archive`.
#[derive(Debug, clap::Args)]
pub struct Archive {
    #[command(flatten)]
    source: Source,
    /// Directory to write to: each chain below its id, only what is new since the last time
    #[arg(long, value_name = "DIR", required_unless_present = "to")]
    out: Option<PathBuf>,
    /// Place in an object store to write to, in the same way: `s3://bucket/prefix`
    #[arg(long, value_name = "URL", conflicts_with = "out")]
    to: Option<String>,
    /// Days for which the object store has to refuse any change of what is written, as `400d`; the
    /// bucket has to have object lock
    #[arg(long, value_name = "DAYS", value_parser = days, requires = "to")]
    retain: Option<Duration>,
    /// Whether somebody may shorten that: nobody at all, or whoever has the right to
    #[arg(long, value_name = "MODE", requires = "retain", default_value = "compliance")]
    retain_mode: Mode,
    #[command(flatten)]
    bucket: BucketArgs,
    /// Only the chain of this origin
    #[arg(long, value_name = "ORIGIN")]
    chain: Option<String>,
    /// Trust roots: keys that may have certified writers beside the chain's own
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
pub(super) async fn run(command: &Archive) -> Result<u8, Failure> {
    let trusted = trusted(command.trust.as_deref())?;
    let reader = reader::open_reader(&command.source).await.map_err(unreadable)?;
    let mut worst = 0;
    for row in chains(reader.as_ref(), command.chain.as_deref()).await? {
        if row.head.size == 0 {
            continue;
        }
        let shelf = shelf(command, &row)?;
        match archive::save(reader.as_ref(), &row, &trusted, shelf.as_ref()).await {
            Ok(saved) => told(&row, &saved, command.json),
            Err(error) => {
                complain(format!("error: {}: {error}", row.origin));
                let code = code(&error);
                worst = if code == INVALID || worst == INVALID { INVALID } else { code };
            }
        }
    }
    Ok(worst)
}

/// Enrolment keys of a trust file, if one is named.
pub(super) fn trusted(path: Option<&Path>) -> Result<Vec<PublicKey>, Failure> {
    let loaded = path.map(Trust::load).transpose().map_err(|e| (USAGE, e.to_string()))?;
    Ok(loaded.map(|trust| trust.enrolment).unwrap_or_default())
}

/// The archive of one chain, for writing.
fn shelf(command: &Archive, row: &ChainRow) -> Result<Box<dyn Shelf>, Failure> {
    if let Some(place) = &command.to {
        let compliance = command.retain_mode == Mode::Compliance;
        let retain = command.retain.map(|term| Retain { term, compliance });
        let bucket = command.bucket.open(place, retain)?;
        let place = bucket.place().of_chain(&row.chain);
        return Ok(Box::new(bucket.at(place)));
    }
    let out = command.out.as_deref().unwrap_or_else(|| Path::new("."));
    if super::bucket::remote(out).is_some() {
        return Err((USAGE, "`--out` names a directory: name a bucket with `--to`".to_owned()));
    }
    let directory = Directory::create(&out.join(row.chain.to_string())).map_err(unreadable)?;
    Ok(Box::new(directory))
}

/// Invalid if ledger or archive are not what they should be; unverifiable if it cannot be told.
pub(super) const fn code(error: &Error) -> u8 {
    match error {
        Error::Damaged(..) | Error::Differs(_) | Error::Foreign(_) | Error::Proof(_) => INVALID,
        Error::Store(_) | Error::File { .. } => UNVERIFIABLE,
    }
}

fn told(row: &ChainRow, saved: &Saved, json: bool) {
    if json {
        say(canonical::text(&Json::object([
            ("origin", Json::from(row.origin.as_str())),
            ("chain", Json::from(row.chain.to_string())),
            ("before", Json::from(saved.before)),
            ("size", Json::from(saved.size)),
            ("root", Json::from(saved.root.hex())),
            ("files", Json::from(saved.files)),
            ("bytes", Json::from(saved.bytes)),
        ])));
        return;
    }
    say(format!(
        "{}: {} entries archived, {} of them new; {} files, {} bytes written",
        row.origin,
        saved.size,
        saved.size.saturating_sub(saved.before),
        saved.files,
        saved.bytes
    ));
}
