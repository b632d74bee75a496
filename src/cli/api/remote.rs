//! Exports, erasures and holds over the operator API: a hub or a gate does the work with its own keys, and
//! records who asked by the credential of the request.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::{Answer, Api, list, text};
use crate::cli::progress::Progress;
use crate::cli::{Exit, Failure, many, say, tell, write_new};
use crate::domain::digest::Digest;
use crate::evidence::{written, zip};

/// How long a hub may take to make a bundle, or to erase.
const BEGINS_WITHIN: Duration = Duration::from_secs(600);
/// A hub that sends nothing for so long is treated as gone.
const STALLED: Duration = Duration::from_secs(60);
/// Bytes of an answer that is no bundle.
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
    #[must_use]
    pub fn api(&self) -> Option<Api> {
        let cert = self.cert.clone().zip(self.cert_key.clone());
        Some(Api::of(self.hub.clone()?, self.token_file.clone(), cert, self.ca.clone()))
    }

    /// Refuses options that only apply to a ledger: a hub or gate has its own settings.
    ///
    /// # Errors
    /// The options that were given.
    pub fn excludes(&self, given: &[(&str, bool)]) -> Result<(), String> {
        let wrong: Vec<&str> = given.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        if self.hub.is_none() || wrong.is_empty() {
            return Ok(());
        }
        Err(format!(
            "with `--hub` leave out {}: the hub or gate uses its own settings",
            wrong.join(", ")
        ))
    }
}

/// Requests a bundle and writes it: a `.zip` as received, else unpacked into a directory.
///
/// # Errors
/// It was refused, there was no answer, or the bytes do not have the digest of the response header.
pub async fn export(api: &Api, asked: &Value, out: &Path, json: bool) -> Result<Exit, Failure> {
    let usage = |e: crate::evidence::Error| Failure::usage(e);
    let gone = |why: String| Failure::unverifiable(why);
    written::free(out).map_err(usage)?;
    let answer = api.open(Method::POST, "/v1/exports", Some(asked), BEGINS_WITHIN).await;
    let answer = answer.map_err(gone)?;
    if answer.status() != http::StatusCode::OK {
        return refused(answer).await;
    }
    let header = |name: &str| {
        let value = answer.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let (digest, summary) = (header("content-digest"), header("wicketgate-export"));
    let part = out.with_extension(format!("{}.part", std::process::id()));
    let kept = Progress::new("download").during(keep(answer.into_body(), &part, &digest)).await;
    let placed = kept.and_then(|()| place(&part, out));
    if placed.is_err() {
        // What is left of a failed export is of no use; its own failure to go away is not news.
        drop(std::fs::remove_file(&part));
    }
    placed.map_err(gone)?;
    print_export(&summary, out, json);
    Ok(Exit::Ok)
}

/// Writes the body to a file, and compares it with the digest of the response header.
async fn keep(mut body: Incoming, part: &Path, digest: &str) -> Result<(), String> {
    let io = |e: std::io::Error| format!("`{}`: {e}", part.display());
    if let Some(parent) = part.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(io)?;
    }
    let mut file = std::fs::File::create_new(part).map_err(io)?;
    let cut = |why: &dyn std::fmt::Display| format!("the bundle did not arrive whole: {why}");
    loop {
        let frame = tokio::time::timeout(STALLED, body.frame()).await;
        let Some(frame) = frame.map_err(|_| cut(&"no data arrived for a minute"))? else { break };
        if let Ok(piece) = frame.map_err(|e| cut(&e))?.into_data() {
            file.write_all(&piece).map_err(io)?;
        }
    }
    file.sync_all().map_err(io)?;
    let came = std::fs::File::open(part).and_then(Digest::of_reader).map_err(io)?;
    let came = format!("sha-256=:{}:", STANDARD.encode(came.as_bytes()));
    if came == digest { Ok(()) } else { Err(cut(&"its digest is another")) }
}

fn place(part: &Path, out: &Path) -> Result<(), String> {
    let io = |e: std::io::Error| format!("`{}`: {e}", out.display());
    if written::zipped(out) {
        return std::fs::rename(part, out).map_err(io);
    }
    let bytes = std::fs::read(part).map_err(io)?;
    let files = zip::read(&bytes).map_err(|damage| damage.to_string())?;
    written::write(&files, out).map_err(|e| e.to_string())?;
    std::fs::remove_file(part).map_err(io)
}

fn print_export(summary: &str, out: &Path, json: bool) {
    let mut summary: Value = serde_json::from_str(summary).unwrap_or_else(|_| json!({}));
    if json {
        if let Some(members) = summary.as_object_mut() {
            members.insert("dir".into(), out.display().to_string().into());
        }
        say(summary.to_string());
        return;
    }
    let logs: Vec<String> = list(&summary, "logs")
        .iter()
        .map(|one| format!("{} of size {}", text(one, "log"), text(one, "size")))
        .collect();
    say(format!(
        "wrote {}: {}, {} of {}: {}",
        out.display(),
        many(text(&summary, "files"), "file"),
        many(text(&summary, "entries"), "entry"),
        many(text(&summary, "logs_count"), "log"),
        logs.join(", ")
    ));
    say(format!(
        "recorded in the fleet log: manifest.json is sha256:{}",
        text(&summary, "manifest")
    ));
    if summary.get("sealed").and_then(Value::as_bool) == Some(false) {
        let (sealed, runs) = (text(&summary, "sealed_runs"), text(&summary, "runs"));
        say(format!("{sealed} of {} sealed: the others are open or cut", many(runs, "run")));
    }
    for digest in list(&summary, "missing") {
        let digest = crate::operator::visible(digest.as_str().unwrap_or_default());
        say(format!("not kept, and so not in the bundle: {digest}"));
    }
}

/// Prints a refusal.
async fn refused(answer: http::Response<Incoming>) -> Result<Exit, Failure> {
    let answered = read(answer).await.map_err(Failure::unverifiable)?;
    Ok(answered.refuse())
}

async fn read(answer: http::Response<Incoming>) -> Result<Answer, String> {
    let status = answer.status().as_u16();
    let read = Limited::new(answer.into_body(), ANSWER_MAX).collect();
    let read = tokio::time::timeout(STALLED, read).await;
    let read = read.map_err(|_| "the answer did not arrive".to_owned())?;
    let bytes = read.map_err(|e| format!("the answer cannot be read: {e}"))?.to_bytes();
    Ok(Answer { status, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) })
}

/// Requests an erasure, and writes its receipt.
///
/// # Errors
/// It was refused, there was no answer, or the receipt cannot be written.
pub async fn erase(api: &Api, asked: &Value, receipt: Option<&Path>) -> Result<Exit, Failure> {
    if let Some(path) = receipt.filter(|path| path.exists()) {
        return Err(Failure::usage(format!("`{}` is there already", path.display())));
    }
    let answer = api.open(Method::POST, "/v1/erasures", Some(asked), BEGINS_WITHIN).await;
    let answer = answer.map_err(Failure::unverifiable)?;
    if answer.status() != http::StatusCode::OK {
        return refused(answer).await;
    }
    let body = read(answer).await.map_err(Failure::unverifiable)?.body;
    let count = |name: &str| body.get(name).and_then(Value::as_u64).unwrap_or_default();
    let absent = count("absent").saturating_add(count("before"));
    if absent > 0 {
        let line = format!("{} not stored: erased before, or never kept", many(absent, "payload"));
        tell(json!({"absent": absent}), line);
    }
    if body.get("deleted").is_none() {
        let payloads = count("payloads");
        let line =
            format!("{} to erase; nothing was erased: add `--yes`", many(payloads, "payload"));
        tell(json!({"payloads": payloads, "erased": 0}), line);
        return Ok(Exit::Ok);
    }
    let line = format!("{} erased with the salts", many(count("deleted"), "payload"));
    tell(json!({"erased": count("deleted"), "residue": body.get("residue")}), line);
    match body.get("residue").and_then(Value::as_str) {
        Some("none") => {}
        residue => tell(
            Value::Null,
            format!(
                "bytes that may remain in the files of the store: {}",
                residue.map(crate::operator::visible).unwrap_or_default()
            ),
        ),
    }
    let envelope = body.get("receipt").filter(|receipt| !receipt.is_null());
    match (receipt, envelope) {
        (Some(path), Some(envelope)) => {
            let bytes = envelope.to_string().into_bytes();
            write_new(path, &bytes).map_err(Failure::usage)?;
            tell(json!({"receipt": path}), format!("receipt {}", path.display()));
        }
        (Some(_), None) => {
            tell(json!({"receipt": null}), "no receipt, because nothing new was recorded");
        }
        (None, _) => {}
    }
    let left = body.get("residue").and_then(Value::as_str) == Some("some");
    Ok(if left { Exit::Unverifiable } else { Exit::Ok })
}

/// Requests a legal hold, or the end of one.
///
/// # Errors
/// It was refused, or there was no answer.
pub async fn hold(api: &Api, asked: &Value) -> Result<Exit, Failure> {
    let answer = api.open(Method::POST, "/v1/holds", Some(asked), BEGINS_WITHIN).await;
    let answer = answer.map_err(Failure::unverifiable)?;
    if answer.status() != http::StatusCode::OK {
        return refused(answer).await;
    }
    let body = read(answer).await.map_err(Failure::unverifiable)?.body;
    let flag = |name: &str| body.get(name).and_then(Value::as_bool) == Some(true);
    let did = match (flag("already"), flag("held")) {
        (true, _) => "already held",
        (false, true) => "held",
        (false, false) => "released",
    };
    let line = format!("{did}: entry {} of {}", text(&body, "entry"), text(&body, "log"));
    tell(json!({"state": did, "entry": body.get("entry"), "log": body.get("log")}), line);
    Ok(Exit::Ok)
}
