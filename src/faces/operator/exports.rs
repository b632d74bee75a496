//! Exports through the operator API: made on a thread of their own, recorded, and only then sent.
//!
//! One export runs at a time, because a bundle is made in memory. Its file is unlinked before the
//! first byte leaves, so that no crash leaves a bundle behind.

use std::fmt;
use std::io::Seek as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;

use super::apart::apart;
use super::api::{OperatorRequest, requests, route};
use super::evidence::{EvidenceService, by};
use super::http::HttpReply;
use super::{Cause, OperatorApi};
use crate::clock::{Clock, random16};
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::id::{RunId, Seq};
use crate::domain::json::Json;
use crate::evidence::disclosed::Redactions;
use crate::evidence::export::{self, DeferredFleetLog, ExportOrder, ExportedBundle};
use crate::evidence::query::Query;
use crate::evidence::{Error, contents, scope};
use crate::ledger::vault::Vault;
use crate::serve::problem::Problem;

/// SHA-256 of the archive (RFC 9530).
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
/// What is in the archive, as one line of JSON.
pub const SUMMARY: HeaderName = HeaderName::from_static("wicketgate-export");
/// Logs and missing files that the summary names.
const NAMED_MAX: usize = 16;
/// Bytes that are sent at once.
const PIECE: usize = 64 * 1024;
/// The export treats a client that reads nothing for so long as disconnected.
const STALLED: Duration = Duration::from_secs(30);
/// Heads that one export proves consistency from, and members it hides or opens.
const LIST_MAX: usize = 64;

/// The selection to export.
#[derive(Debug)]
struct Selection {
    query: Query,
    since: Vec<Seq>,
    payloads: bool,
    redactions: Redactions,
}

/// A recorded bundle, in an unlinked file.
#[derive(Debug)]
pub struct ExportedFile {
    file: std::fs::File,
    bytes: u64,
    digest: Digest,
    exported: ExportedBundle,
    permit: OwnedSemaphorePermit,
}

/// Why the export failed.
#[derive(Debug)]
pub(super) enum Failed {
    /// The client disconnected.
    Left,
    /// The fleet log or the evidence key cannot be used.
    Unusable(Cause),
    /// The file of the bundle.
    Scratch(std::io::Error),
    Export(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Export(error)
    }
}

/// Everything one export needs to run independently of its request.
pub(super) struct Job {
    service: Arc<EvidenceService>,
    permit: OwnedSemaphorePermit,
    selection: Selection,
    tenant: String,
    requester: String,
    vault: Option<Arc<Vault>>,
    clock: Arc<dyn Clock>,
}

impl OperatorApi {
    fn selection(&self, request: requests::Export) -> Result<Selection, Problem> {
        let requests::Export { query, since, payloads, redact, disclose } = request;
        let malformed =
            |detail: &str, why: String| self.refused(Code::RequestMalformed, detail, why);
        let query = query.and_then(|query| Query::from_json(&Json::of(&query))).ok_or_else(|| {
            let message = "`query` is {scope: run, run}, {scope: range, log, from, to} or {scope: \
                population} with since, until, agent, tool, verdict and chains, times as \
                2026-11-21T20:05:03.123Z";
            malformed("export.query", message.to_owned())
        })?;
        let lists =
            [("since", since.len()), ("redact", redact.len()), ("disclose", disclose.len())];
        if let Some((name, _)) = lists.into_iter().find(|(_, items)| *items > LIST_MAX) {
            return Err(malformed(
                "export.options",
                format!("`{name}` must have at most {LIST_MAX} items"),
            ));
        }
        let redactions = Redactions::parse(&redact, &disclose);
        let redactions = redactions.map_err(|why| malformed("export.options", why.to_string()))?;
        // An export of one run always includes its payloads.
        let payloads = payloads || query.scope() == scope::Scope::Run;
        Ok(Selection { query, since, payloads, redactions })
    }

    /// Makes a bundle and records it. Dropped before that, it records nothing.
    ///
    /// # Errors
    /// Another export is running, the selection matches nothing, or the export cannot be recorded.
    pub(super) async fn export(
        &self,
        request: OperatorRequest<route::Export>,
    ) -> Result<ExportedFile, Problem> {
        let selection = self.selection(request.request)?;
        let service = self.evidence()?;
        let permit = self.export_place(&service)?;
        let job = self.job((service, permit), selection, by(&request.who));
        let name = format!("{}.zip", hex::encode(random16(&*self.entropy)));
        let made = apart(|| job.prepared(name), (Failed::Left, Failed::early())).await;
        made.map_err(|failed| self.refuse(problem(&failed)))
    }

    fn job(
        &self,
        (service, permit): (Arc<EvidenceService>, OwnedSemaphorePermit),
        selection: Selection,
        requester: String,
    ) -> Job {
        let (vault, clock) = (self.vault.clone(), Arc::clone(&self.clock));
        Job { service, permit, selection, tenant: self.tenant.clone(), requester, vault, clock }
    }

    /// The export of one run with its payloads, on behalf of this requester, once no other one is being made.
    pub(super) async fn job_of_run(
        &self,
        service: &Arc<EvidenceService>,
        run: RunId,
        requester: String,
    ) -> Result<Job, Failed> {
        let permit = Arc::clone(&service.exporting).acquire_owned().await;
        let permit = permit.map_err(|_closed| Failed::early())?;
        let redactions = Redactions::default();
        let selection =
            Selection { query: Query::Run(run), since: Vec::new(), payloads: true, redactions };
        Ok(self.job((Arc::clone(service), permit), selection, requester))
    }
}

impl Failed {
    /// The work panicked, or this process ends.
    pub(super) fn early() -> Self {
        Self::Unusable("it ended early".into())
    }

    /// Whether it would fail again: there is no bundle of what was selected.
    pub(super) const fn is_final(&self) -> bool {
        match self {
            Self::Export(error) => match error {
                Error::Ledger { .. }
                | Error::NoRun(_)
                | Error::NoLog(_)
                | Error::NoSpan { .. }
                | Error::Pruned { .. }
                | Error::Gone { .. }
                | Error::Artifact { .. } => true,
                Error::Store(_)
                | Error::Unrecorded(_)
                | Error::Io { .. }
                | Error::Unsigned(_)
                | Error::Occupied(_) => false,
            },
            Self::Left | Self::Unusable(_) | Self::Scratch(_) => false,
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("it was given up"),
            Self::Unusable(why) => write!(f, "{why}"),
            Self::Scratch(why) => write!(f, "{why}"),
            Self::Export(why) => write!(f, "{why}"),
        }
    }
}

impl Job {
    /// Makes the bundle in a file that has no name any more, to be sent.
    async fn prepared(self, name: String) -> Result<ExportedFile, Failed> {
        let scratch = &self.service.evidence.scratch;
        let archive = |path: &Path| path.extension().is_some_and(|end| end == "zip");
        sweep(scratch, archive).map_err(Failed::Scratch)?;
        let out = scratch.join(name);
        let exported = self.written(&out).await?;
        let mut file = std::fs::File::open(&out).map_err(Failed::Scratch)?;
        std::fs::remove_file(&out).map_err(Failed::Scratch)?;
        let bytes = file.metadata().map_err(Failed::Scratch)?.len();
        let digest = Digest::of_reader(&mut file).map_err(Failed::Scratch)?;
        file.rewind().map_err(Failed::Scratch)?;
        Ok(ExportedFile { file, bytes, digest, exported, permit: self.permit })
    }

    /// Makes the bundle, records that, and writes it to this file.
    pub(super) async fn written(&self, out: &Path) -> Result<ExportedBundle, Failed> {
        let Self { service, selection, tenant, requester, vault, clock, permit: _ } = self;
        let evidence = &service.evidence;
        let reader = evidence.archive.reader().await.map_err(Error::Store)?;
        let recorder =
            DeferredFleetLog::of(evidence.archive.fleet().await.map_err(Failed::Unusable)?);
        let order = ExportOrder {
            reader: reader.as_ref(),
            tenant,
            query: &selection.query,
            artifacts: &evidence.artifacts,
            key: &*evidence.key,
            out,
            clock: &**clock,
            version: contents::VERSION,
            program: export::program,
            requester,
            since: &selection.since,
            payloads: selection.payloads,
            vault: vault.as_deref(),
            redactions: &selection.redactions,
            recorder: &recorder,
        };
        Ok(export::export(&order).await?)
    }
}

/// Removes the files that a crash left, as far as they are wanted: this process runs one export at a time.
pub(super) fn sweep(scratch: &Path, swept: impl Fn(&Path) -> bool) -> std::io::Result<()> {
    for left in std::fs::read_dir(scratch)? {
        let path = left?.path();
        if swept(&path) {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn unwritten(why: &dyn fmt::Display) -> Problem {
    tracing::error!(%why, "an export failed");
    let message = "the bundle cannot be made: the log of this process says why";
    Problem::new(Code::NotReady, "export.failed", message)
}

fn problem(failed: &Failed) -> Problem {
    match failed {
        Failed::Left => Problem::new(Code::CallCancelled, "export.left", "the client disconnected"),
        Failed::Unusable(why) => unwritten(why),
        Failed::Scratch(why) => unwritten(why),
        Failed::Export(error) => unavailable(error),
    }
}

/// Why no bundle can be made of what the ledger has.
pub(super) fn unavailable(error: &Error) -> Problem {
    let (code, detail) = match error {
        Error::Store(_) | Error::Unrecorded(_) => (Code::LedgerUnavailable, ""),
        Error::Ledger { .. } => (Code::LedgerUnavailable, "export.damaged"),
        Error::NoRun(_) => (Code::RunUnknown, ""),
        Error::NoLog(_) => (Code::RequestMalformed, "export.log"),
        Error::NoSpan { .. } => (Code::RequestMalformed, "export.span"),
        Error::Pruned { .. } | Error::Gone { .. } => (Code::CallResultUnavailable, "export.pruned"),
        Error::Io { .. } | Error::Unsigned(_) | Error::Occupied(_) | Error::Artifact { .. } => {
            return unwritten(error);
        }
    };
    Problem::new(code, detail, error.to_string())
}

/// What is in a bundle: one line of JSON, in the header [`SUMMARY`].
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Summary {
    /// Bytes of the archive.
    pub bytes: u64,
    /// Entries in it.
    pub entries: usize,
    /// Files in it.
    pub files: usize,
    /// The first of its logs.
    pub logs: Vec<LogHead>,
    /// How many logs it has.
    pub logs_count: usize,
    /// SHA-256 of `manifest.json`, in hex.
    pub manifest: String,
    /// The first of the files that are not kept.
    pub missing: Vec<String>,
    /// How many files are not kept.
    pub missing_count: usize,
    /// Runs in it.
    pub runs: usize,
    /// Whether all of its runs are sealed.
    pub sealed: bool,
    /// How many of its runs are sealed.
    pub sealed_runs: usize,
}

/// A log, and how much of it a bundle has.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LogHead {
    /// The log.
    pub log: String,
    /// Its size.
    pub size: u64,
}

impl HttpReply for ExportedFile {
    fn answer(self, api: &OperatorApi) -> http::Response<Body> {
        self.response(&api.tasks)
    }

    fn schema(_schemas: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "binary"})
    }
}

impl ExportedFile {
    /// The response: the archive, its digest, and its contents.
    fn response(self, tasks: &TaskTracker) -> http::Response<Body> {
        let digest = format!("sha-256=:{}:", STANDARD.encode(self.digest.as_bytes()));
        let summary = serde_json::to_string(&self.summary()).ok();
        let summary = summary.and_then(|line| HeaderValue::try_from(line).ok());
        let headers = [
            (CONTENT_TYPE, Some(HeaderValue::from_static("application/zip"))),
            (
                CONTENT_DISPOSITION,
                Some(HeaderValue::from_static("attachment; filename=\"evidence.zip\"")),
            ),
            (CONTENT_LENGTH, Some(HeaderValue::from(self.bytes))),
            (CONTENT_DIGEST, HeaderValue::try_from(digest).ok()),
            (SUMMARY, summary),
        ];
        let (out, pieces) = mpsc::channel(2);
        tasks.spawn(self.send(out));
        let mut response = http::Response::new(Body::from_stream(ReceiverStream::new(pieces)));
        for (name, value) in headers {
            if let Some(value) = value {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }

    fn summary(&self) -> Summary {
        let ExportedBundle { files, entries, logs, runs, sealed, missing, manifest, .. } =
            &self.exported;
        let head = |(log, size): &(String, Seq)| LogHead { log: log.clone(), size: *size };
        Summary {
            bytes: self.bytes,
            entries: *entries,
            files: *files,
            logs: logs.iter().take(NAMED_MAX).map(head).collect(),
            logs_count: logs.len(),
            manifest: manifest.hex(),
            missing: missing.iter().take(NAMED_MAX).map(Digest::prefixed).collect(),
            missing_count: missing.len(),
            runs: *runs,
            sealed: sealed == runs,
            sealed_runs: *sealed,
        }
    }

    /// Sends the file. The next export waits for it, but not for a client that stops reading.
    async fn send(self, out: mpsc::Sender<std::io::Result<Bytes>>) {
        let mut file = tokio::fs::File::from_std(self.file);
        let (mut permit, mut left) = (Some(self.permit), self.bytes);
        loop {
            let mut piece = vec![0; PIECE];
            let read = file.read(&mut piece).await;
            let over = read.is_err();
            let piece = match read {
                Ok(0) => break,
                Ok(count) => {
                    piece.truncate(count);
                    left = left.saturating_sub(count as u64);
                    // WHY: a client that has read the last byte may ask for the next export at
                    // once.
                    permit = permit.filter(|_| left > 0);
                    Ok(Bytes::from(piece))
                }
                Err(error) => Err(error),
            };
            // A response cut short is shorter than its declared length, so that the client notices.
            let taken = tokio::time::timeout(STALLED, out.send(piece)).await;
            if over || !matches!(taken, Ok(Ok(()))) {
                tracing::warn!("the client did not read an export to its end");
                break;
            }
        }
        drop(permit);
    }
}
