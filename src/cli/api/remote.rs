//! Exports, erasures and holds over the operator API: a hub or a gate does the work with its own
//! keys, and records the requester by the credential of the request.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Bytes, Incoming};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{Api, ApiRefusal};
use crate::cli::error::Occupied;
use crate::cli::progress::Progress;
use crate::cli::{Cause, Exit, Failure, FileError, print_facts, say, write_new};
use crate::domain::digest::Digest;
use crate::domain::plural::many;
use crate::evidence::{written, zip};
use crate::operator::api::replies::{ErasedPayloads, ErasureReply, LegalHoldReply};
use crate::operator::api::{requests, route};
use crate::operator::exports::{LogHead, SUMMARY, Summary};
use crate::operator::visible;

/// How long a hub may take to make a bundle, or to erase.
const BEGINS_WITHIN: Duration = Duration::from_secs(600);
/// The command treats a hub that sends no data for so long as gone.
const STALLED: Duration = Duration::from_secs(60);
/// Bytes of an answer other than a bundle.
const ANSWER_MAX: usize = 4 * 1024 * 1024;

/// The operator API to use instead of a ledger, and the credential to use there.
#[derive(Debug, clap::Args)]
pub struct RemoteArgs {
    /// Ask a running hub or gate instead of reading the ledger. It uses its own keys and records who asked
    #[arg(long, value_name = "URL", requires = "credential")]
    hub: Option<String>,
    /// Operator token: a file of mode 0600 [env: WICKETGATE_TOKEN_FILE]
    #[arg(long, value_name = "FILE", requires = "hub", group = "credential")]
    token_file: Option<PathBuf>,
    /// Operator certificate (PEM), instead of a token, over https
    #[arg(long, value_name = "FILE", requires_all = ["hub", "cert_key"], group = "credential")]
    cert: Option<PathBuf>,
    /// Private key of the certificate (PEM): a file of mode 0600
    #[arg(long, value_name = "FILE", requires = "cert")]
    cert_key: Option<PathBuf>,
    /// Trust these certificate authorities (PEM) for https, instead of the public ones
    #[arg(long, value_name = "FILE", requires = "hub")]
    ca: Option<PathBuf>,
}

impl RemoteArgs {
    /// The operator API, if `--hub` names one.
    pub fn api(&self) -> Option<Api> {
        let cert = self.cert.clone().zip(self.cert_key.clone());
        Some(Api::of(self.hub.clone()?, self.token_file.clone(), cert, self.ca.clone()))
    }

    /// Refuses options that only apply to a ledger: a hub or gate has its own settings.
    ///
    /// # Errors
    /// The options that were given although they do not apply.
    pub fn excludes(&self, given: &[(&str, bool)]) -> Result<(), Unsuited> {
        let excluded: Vec<&str> =
            given.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        if self.hub.is_none() || excluded.is_empty() {
            return Ok(());
        }
        Err(Unsuited(excluded.join(", ")))
    }
}

/// Options that only apply to a ledger.
#[derive(Debug, thiserror::Error)]
#[error("with `--hub` leave out {0}: the hub or gate uses its own settings")]
pub struct Unsuited(String);

/// Why the answer to a long request cannot be used.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The bundle was cut short.
    #[error("the bundle did not arrive whole: {0}")]
    Cut(Cause),
    /// The received bytes differ from the sent ones.
    #[error("the bundle did not arrive whole: its digest differs")]
    Digest,
    /// No data arrived for [`STALLED`].
    #[error("the bundle did not arrive whole: no data arrived for a minute")]
    Stalled,
    /// The archive cannot be unpacked.
    #[error(transparent)]
    Archive(Cause),
    /// The header with the contents of the bundle cannot be read.
    #[error("the answer does not describe the bundle: {0}")]
    Summary(serde_json::Error),
    /// The body did not arrive in time.
    #[error("the answer did not arrive")]
    Late,
    /// The body was cut short.
    #[error("the answer cannot be read: {0}")]
    Unreadable(Cause),
}

/// Requests a bundle and writes it: a `.zip` as received, else unpacked into a directory.
///
/// # Errors
/// It was refused, there was no answer, or the bytes do not have the digest of the response header.
pub async fn export(
    api: &Api,
    export: &requests::Export,
    out: &Path,
    json: bool,
) -> Result<Exit, Failure> {
    written::free(out).map_err(Failure::usage)?;
    let answer = api.open::<route::Export>(&(), export, BEGINS_WITHIN).await?;
    if answer.status() != StatusCode::OK {
        return refused(answer).await;
    }
    let header = |name: &str| {
        let value = answer.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let (digest, summary) = (header("content-digest"), header(SUMMARY.as_str()));
    let part = out.with_extension(format!("{}.part", std::process::id()));
    let kept = Progress::new("download").during(keep(answer.into_body(), &part, &digest)).await;
    let placed = kept.and_then(|()| place(&part, out));
    if placed.is_err() {
        // The rest of a failed export is useless; an error of its removal too.
        drop(std::fs::remove_file(&part));
    }
    placed.and_then(|()| print_export(&summary, out, json)).map_err(Failure::unverifiable)?;
    Ok(Exit::Ok)
}

/// Writes the body to a file, and compares it with the digest of the response header.
async fn keep(mut body: Incoming, part: &Path, digest: &str) -> Result<(), Error> {
    let at = FileError::at(part);
    if let Some(parent) = part.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(&at)?;
    }
    let mut file = std::fs::File::create_new(part).map_err(&at)?;
    loop {
        let frame = tokio::time::timeout(STALLED, body.frame()).await;
        let Some(frame) = frame.map_err(|_elapsed| Error::Stalled)? else { break };
        if let Ok(piece) = frame.map_err(|e| Error::Cut(e.into()))?.into_data() {
            file.write_all(&piece).map_err(&at)?;
        }
    }
    file.sync_all().map_err(&at)?;
    let received = std::fs::File::open(part).and_then(Digest::of_reader).map_err(&at)?;
    let digest_header = format!("sha-256=:{}:", STANDARD.encode(received.as_bytes()));
    if digest_header == digest { Ok(()) } else { Err(Error::Digest) }
}

fn place(part: &Path, out: &Path) -> Result<(), Error> {
    let at = FileError::at(out);
    if written::zipped(out) {
        return Ok(std::fs::rename(part, out).map_err(at)?);
    }
    let bytes = std::fs::read(part).map_err(&at)?;
    let files = zip::read(&bytes).map_err(|damage| Error::Archive(damage.to_string().into()))?;
    written::write(&files, out).map_err(|e| Error::Archive(e.into()))?;
    Ok(std::fs::remove_file(part).map_err(at)?)
}

fn print_export(summary: &str, out: &Path, json: bool) -> Result<(), Error> {
    let mut all: Value = serde_json::from_str(summary).map_err(Error::Summary)?;
    if json {
        if let Some(members) = all.as_object_mut() {
            members.insert("dir".into(), out.display().to_string().into());
        }
        say(all.to_string());
        return Ok(());
    }
    let summary = Summary::deserialize(&all).map_err(Error::Summary)?;
    let log = |one: &LogHead| format!("{} of size {}", visible(&one.log), one.size);
    let logs: Vec<String> = summary.logs.iter().map(log).collect();
    say(format!(
        "wrote {}: {}, {} of {}: {}",
        out.display(),
        many(summary.files, "file"),
        many(summary.entries, "entry"),
        many(summary.logs_count, "log"),
        logs.join(", ")
    ));
    let manifest = visible(&summary.manifest);
    say(format!("recorded in the fleet log; manifest.json has the digest sha256:{manifest}"));
    if !summary.sealed {
        let runs = many(summary.runs, "run");
        let sealed = summary.sealed_runs;
        say(format!("{sealed} of {runs} sealed: the others are open or incomplete"));
    }
    for digest in summary.missing {
        say(format!("not stored, so not in the bundle: {}", visible(&digest)));
    }
    Ok(())
}

/// Prints a refusal.
async fn refused(answer: http::Response<Incoming>) -> Result<Exit, Failure> {
    let status = answer.status();
    let body = body(answer).await.map_err(Failure::unverifiable)?;
    Ok(super::Error::Refused(ApiRefusal::of(status, &body)).print())
}

async fn body(answer: http::Response<Incoming>) -> Result<Bytes, Error> {
    let read = Limited::new(answer.into_body(), ANSWER_MAX).collect();
    let read = tokio::time::timeout(STALLED, read).await.map_err(|_elapsed| Error::Late)?;
    Ok(read.map_err(Error::Unreadable)?.to_bytes())
}

/// Requests an erasure, and writes its receipt.
///
/// # Errors
/// It was refused, there was no answer, or the receipt cannot be written.
pub async fn erase(
    api: &Api,
    request: &requests::Erasure,
    receipt: Option<&Path>,
) -> Result<Exit, Failure> {
    if let Some(path) = receipt.filter(|path| path.exists()) {
        return Err(Failure::usage(Occupied::File(path.to_owned())));
    }
    let answer = api.open::<route::Erasure>(&(), request, BEGINS_WITHIN).await?;
    let status = answer.status();
    if status != StatusCode::OK {
        return refused(answer).await;
    }
    let bytes = body(answer).await.map_err(Failure::unverifiable)?;
    let reply = api.read::<ErasureReply>(status, &bytes)?.reply;
    let absent = reply.absent.saturating_add(reply.before);
    if absent > 0 {
        let line = format!("{} not stored: erased before, or never kept", many(absent, "payload"));
        print_facts(json!({"absent": absent}), line);
    }
    let Some(erased) = reply.erased else {
        let payloads = reply.payloads;
        let line =
            format!("{} to erase; nothing was erased: add `--yes`", many(payloads, "payload"));
        print_facts(json!({"payloads": payloads, "erased": 0}), line);
        return Ok(Exit::Ok);
    };
    let ErasedPayloads { deleted, residue, receipt: envelope, .. } = erased;
    let line = format!("{} erased with the salts", many(deleted, "payload"));
    print_facts(json!({"erased": deleted, "residue": residue}), line);
    if residue != "none" {
        let residue = visible(&residue);
        print_facts(
            Value::Null,
            format!("payload bytes that may remain in the store's files: {residue}"),
        );
    }
    match receipt {
        Some(path) if !envelope.is_null() => {
            let bytes = envelope.to_string().into_bytes();
            write_new(path, &bytes).map_err(Failure::usage)?;
            print_facts(json!({"receipt": path}), format!("receipt {}", path.display()));
        }
        Some(_) => {
            print_facts(json!({"receipt": null}), "no receipt, because nothing new was recorded");
        }
        None => {}
    }
    Ok(if residue == "some" { Exit::Unverifiable } else { Exit::Ok })
}

/// Requests a legal hold, or the end of one.
///
/// # Errors
/// It was refused, or there was no answer.
pub async fn hold(api: &Api, request: &requests::LegalHold) -> Result<Exit, Failure> {
    let answer = api.open::<route::LegalHold>(&(), request, BEGINS_WITHIN).await?;
    let status = answer.status();
    if status != StatusCode::OK {
        return refused(answer).await;
    }
    let bytes = body(answer).await.map_err(Failure::unverifiable)?;
    let LegalHoldReply { held, log, entry, already } = api.read(status, &bytes)?.reply;
    let outcome = match (already, held) {
        (true, _) => "already held",
        (false, true) => "held",
        (false, false) => "released",
    };
    let line = format!("{outcome}: entry {entry} of {}", visible(&log));
    print_facts(json!({"state": outcome, "entry": entry, "log": log}), line);
    Ok(Exit::Ok)
}
