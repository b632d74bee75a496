//! Exports, erasures and holds through an office: a hub, or the sidecar of one machine. It has the keys, and
//! it records who asked by the credential that was shown.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::door::{Answered, Desk, list, text};
use super::{Exit, complain, say, write_new};
use crate::domain::digest::Digest;
use crate::evidence::{written, zip};

/// How long an office may take to make a bundle, or to erase.
const BEGINS_WITHIN: Duration = Duration::from_secs(600);
/// An office that sends nothing for so long has gone.
const STALLED: Duration = Duration::from_secs(60);
/// Bytes of an answer that is no bundle.
const ANSWER_MAX: usize = 4 * 1024 * 1024;

/// Which office is asked instead of a ledger, and as whom.
#[derive(Debug, clap::Args)]
pub struct Away {
    /// Ask this office instead of a ledger: the hub, or the sidecar's own door. It has the keys, and it
    /// records who asked
    #[arg(long, value_name = "URL", requires = "credential")]
    hub: Option<String>,
    /// Your token for the office: a file of mode 0600
    #[arg(long, value_name = "FILE", requires = "hub", group = "credential")]
    token_file: Option<PathBuf>,
    /// Your certificate (PEM) instead of a token, over https
    #[arg(long, value_name = "FILE", requires_all = ["hub", "cert_key"], group = "credential")]
    cert: Option<PathBuf>,
    /// The private key of your certificate (PEM): a file of mode 0600
    #[arg(long, value_name = "FILE", requires = "cert")]
    cert_key: Option<PathBuf>,
    /// Authorities of the office for https (PEM) instead of the public ones
    #[arg(long, value_name = "FILE", requires = "hub")]
    ca: Option<PathBuf>,
}

impl Away {
    /// The office, if one was named.
    #[must_use]
    pub fn desk(&self) -> Option<Desk> {
        let cert = self.cert.clone().zip(self.cert_key.clone());
        Some(Desk::of(self.hub.clone()?, self.token_file.clone(), cert, self.ca.clone()))
    }

    /// Refuses options that only make sense beside a ledger: the office has its own.
    ///
    /// # Errors
    /// The options that were given.
    pub fn alone(&self, given: &[(&str, bool)]) -> Result<(), String> {
        let wrong: Vec<&str> = given.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        if self.hub.is_none() || wrong.is_empty() {
            return Ok(());
        }
        Err(format!("with `--hub` the office has its own: leave out {}", wrong.join(", ")))
    }
}

/// Why a command ended, and how.
pub type Failure = (Exit, String);

/// Asks an office for a bundle, and writes it: a `.zip` as it came, else unpacked into a directory.
///
/// # Errors
/// It was refused, nobody answered, or what came is not what the office said it sends.
pub async fn export(desk: &Desk, asked: &Value, out: &Path, json: bool) -> Result<Exit, Failure> {
    let usage = |e: crate::evidence::Error| (Exit::Usage, e.to_string());
    let gone = |why: String| (Exit::Unverifiable, why);
    written::free(out).map_err(usage)?;
    let answer = desk.open(Method::POST, "/v1/exports", Some(asked), BEGINS_WITHIN).await;
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
    let kept = keep(answer.into_body(), &part, &digest).await;
    let placed = kept.and_then(|()| place(&part, out));
    if placed.is_err() {
        // What is left of a failed export is of no use; its own failure to go away is not news.
        drop(std::fs::remove_file(&part));
    }
    placed.map_err(gone)?;
    told(&summary, out, json);
    Ok(Exit::Ok)
}

/// Writes the body to a file, and compares it with the digest the office named.
async fn keep(mut body: Incoming, part: &Path, digest: &str) -> Result<(), String> {
    let io = |e: std::io::Error| format!("`{}`: {e}", part.display());
    if let Some(parent) = part.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(io)?;
    }
    let mut file = std::fs::File::create_new(part).map_err(io)?;
    let cut = |why: &dyn std::fmt::Display| format!("the bundle did not arrive whole: {why}");
    loop {
        let frame = tokio::time::timeout(STALLED, body.frame()).await;
        let Some(frame) = frame.map_err(|_| cut(&"nothing came for a minute"))? else { break };
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

fn told(summary: &str, out: &Path, json: bool) {
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
        "wrote {}: {} files, {} entries of {} logs: {}",
        out.display(),
        text(&summary, "files"),
        text(&summary, "entries"),
        text(&summary, "logs_count"),
        logs.join(", ")
    ));
    say(format!(
        "recorded in the fleet log: manifest.json is sha256:{}",
        text(&summary, "manifest")
    ));
    if summary.get("sealed").and_then(Value::as_bool) == Some(false) {
        let (sealed, runs) = (text(&summary, "sealed_runs"), text(&summary, "runs"));
        say(format!("{sealed} of {runs} runs are sealed: the others are open or cut"));
    }
    for digest in list(&summary, "missing") {
        let digest = crate::operator::visible(digest.as_str().unwrap_or_default());
        say(format!("not kept, and so not in the bundle: {digest}"));
    }
}

/// Tells what an office said instead of what was asked for.
async fn refused(answer: http::Response<Incoming>) -> Result<Exit, Failure> {
    let answered = read(answer).await.map_err(|why| (Exit::Unverifiable, why))?;
    complain(answered.refusal());
    Ok(Exit::Invalid)
}

async fn read(answer: http::Response<Incoming>) -> Result<Answered, String> {
    let status = answer.status().as_u16();
    let read = Limited::new(answer.into_body(), ANSWER_MAX).collect();
    let read = tokio::time::timeout(STALLED, read).await;
    let read = read.map_err(|_| "the answer did not arrive".to_owned())?;
    let bytes = read.map_err(|e| format!("the answer cannot be read: {e}"))?.to_bytes();
    Ok(Answered { status, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) })
}

/// Has an office erase, and writes its receipt.
///
/// # Errors
/// It was refused, nobody answered, or the receipt cannot be written.
pub async fn erase(desk: &Desk, asked: &Value, receipt: Option<&Path>) -> Result<Exit, Failure> {
    if let Some(path) = receipt.filter(|path| path.exists()) {
        return Err((Exit::Usage, format!("`{}` is there already", path.display())));
    }
    let answer = desk.open(Method::POST, "/v1/erasures", Some(asked), BEGINS_WITHIN).await;
    let answer = answer.map_err(|why| (Exit::Unverifiable, why))?;
    if answer.status() != http::StatusCode::OK {
        return refused(answer).await;
    }
    let body = read(answer).await.map_err(|why| (Exit::Unverifiable, why))?.body;
    let count = |name: &str| body.get(name).and_then(Value::as_u64).unwrap_or_default();
    let absent = count("absent").saturating_add(count("before"));
    if absent > 0 {
        say(format!("{absent} payloads are not stored: erased before, or never kept"));
    }
    if body.get("deleted").is_none() {
        let payloads = count("payloads");
        say(format!("{payloads} payloads would be erased; nothing was: add `--yes`"));
        return Ok(Exit::Ok);
    }
    say(format!("{} payloads erased with their salts", count("deleted")));
    match body.get("residue").and_then(Value::as_str) {
        Some("none") => {}
        residue => say(format!(
            "left of the bytes in the store's own files: {}",
            residue.map(crate::operator::visible).unwrap_or_default()
        )),
    }
    let envelope = body.get("receipt").filter(|receipt| !receipt.is_null());
    match (receipt, envelope) {
        (Some(path), Some(envelope)) => {
            let bytes = envelope.to_string().into_bytes();
            write_new(path, &bytes).map_err(|why| (Exit::Usage, why))?;
            say(format!("receipt {}", path.display()));
        }
        (Some(_), None) => say("no receipt: nothing new was recorded"),
        (None, _) => {}
    }
    let left = body.get("residue").and_then(Value::as_str) == Some("some");
    Ok(if left { Exit::Unverifiable } else { Exit::Ok })
}

/// Has an office hold, or lift that.
///
/// # Errors
/// It was refused, or nobody answered.
pub async fn hold(desk: &Desk, asked: &Value) -> Result<Exit, Failure> {
    let answer = desk.open(Method::POST, "/v1/holds", Some(asked), BEGINS_WITHIN).await;
    let answer = answer.map_err(|why| (Exit::Unverifiable, why))?;
    if answer.status() != http::StatusCode::OK {
        return refused(answer).await;
    }
    let body = read(answer).await.map_err(|why| (Exit::Unverifiable, why))?.body;
    let flag = |name: &str| body.get(name).and_then(Value::as_bool) == Some(true);
    let did = match (flag("already"), flag("held")) {
        (true, _) => "already held",
        (false, true) => "held",
        (false, false) => "released",
    };
    say(format!("{did}: entry {} of {}", text(&body, "entry"), text(&body, "log")));
    Ok(Exit::Ok)
}
