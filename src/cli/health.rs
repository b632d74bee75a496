//! `wicketgate control health`: the check for a probe without a shell, whose gate listens on
//! loopback only.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{ACCEPT, HeaderValue};
use http::{Method, Request, StatusCode};
use hyper::body::Bytes;

use serde_json::json;

use super::mcp::exchange::{Fault, GateAddress, messages};
use super::{Cause, Exit, FileError, JsonArg, fail, note, print_facts};
use crate::operator::visible;
use crate::witness::Remote;

/// Bytes of an answer: reasons and notes of a gate with thousands of tools.
const ANSWER_MAX: usize = 1024 * 1024;

/// How long an answer on a socket may take.
const WITHIN: Duration = Duration::from_secs(10);

/// Check whether a gate or a hub is ready, and print why not.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        wicketgate control health --url http://127.0.0.1:7301\n  \
        wicketgate control health --socket /var/lib/wicketgate/operator.sock --started\n\n\
        Exits with 0 if it is ready, with 1 if it is not (the reasons are printed), with 2 if there is no answer.")]
pub struct Args {
    /// Check only that the process is up and listens
    #[arg(long)]
    live: bool,
    /// Check that agents can connect: a bundle is in force, or only an unreachable store prevents it
    #[arg(long, conflicts_with = "live")]
    started: bool,
    /// URL of the operator API, at a gate or a hub
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:7301",
        env = "WICKETGATE_OPERATOR_URL",
        hide_env_values = true
    )]
    url: String,
    /// Unix socket of the operator API instead of `--url`: `operator.sock` in the gate's state directory
    #[arg(long, value_name = "FILE", conflicts_with = "ca")]
    socket: Option<PathBuf>,
    /// Trust these certificate authorities (PEM) for https, instead of the public ones
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

/// What to do where no gate answers.
const NEXT: &str = "; check that `wicketgate serve` or `wicketgate serve hub` runs, and give `--url` as in `operator.listen` of its \
     configuration, or `--socket` with `operator.sock` in its state directory";

/// Why it is not known whether the gate is ready.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The certificate authorities cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The URL cannot be used.
    #[error("`{url}`: {cause}")]
    Url { url: String, cause: Cause },
    /// No gate answers there.
    #[error("`{place}`: {cause}{NEXT}")]
    Silent { place: String, cause: Cause },
    /// It takes too long.
    #[error("`{0}`: no answer in time{NEXT}")]
    Late(String),
    /// Something else answers there.
    #[error(
        "`{place}` answers {status} and is not a gate: give the address of `operator.listen` in its configuration"
    )]
    Foreign { place: String, status: StatusCode },
}

impl Error {
    /// What is wrong, without what to do next.
    pub(super) fn summary(&self) -> String {
        self.to_string().replace(NEXT, "")
    }
}

/// Runs it.
pub(super) async fn run(args: &Args) -> Exit {
    ask(args).await.unwrap_or_else(|error| fail(Exit::Unverifiable, error))
}

async fn ask(args: &Args) -> Result<Exit, Error> {
    let path = match (args.live, args.started) {
        (true, _) => "/livez",
        (_, true) => "/startupz",
        (false, false) => "/readyz",
    };
    if let Some(socket) = &args.socket {
        let (ready, lines) = on_socket(socket, path).await?;
        return Ok(printed(ready, &lines));
    }
    let request = Request::builder().method(Method::GET).header(ACCEPT, "text/plain");
    let read = |path: &PathBuf| std::fs::read(path).map_err(FileError::at(path));
    let ca = args.ca.as_ref().map(read).transpose()?;
    let place = || args.url.clone();
    let remote = Remote::new(&args.url, ca.as_deref());
    let remote = remote.map_err(|cause| Error::Url { url: place(), cause: cause.into() })?;
    let answer = remote.send(request, path, Vec::new(), ANSWER_MAX).await;
    let answer = answer.map_err(|cause| Error::Silent { place: place(), cause: cause.into() })?;
    let (ready, lines) = known(&args.url, answer.status, &answer.body)?;
    Ok(printed(ready, &lines))
}

/// Whether a gate is ready, and its lines: the state, then reasons and notes.
type ReadinessReport = (bool, Vec<String>);

/// A gate's report about itself.
fn known(place: &str, status: StatusCode, body: &[u8]) -> Result<ReadinessReport, Error> {
    if !matches!(status, StatusCode::OK | StatusCode::SERVICE_UNAVAILABLE) {
        return Err(Error::Foreign { place: place.to_owned(), status });
    }
    let lines = String::from_utf8_lossy(body).lines().map(visible).collect();
    Ok((status.is_success(), lines))
}

fn printed(ready: bool, lines: &[String]) -> Exit {
    for line in lines {
        print_facts(json!({"ready": ready, "lines": [line]}), line);
    }
    if ready {
        return Exit::Ok;
    }
    note(
        "each line after the first is a reason: correct it, then check again; the gate's log has the same lines",
    );
    Exit::Invalid
}

/// Asks the gate that serves operators on this Unix socket.
pub(super) async fn on_socket(socket: &Path, path: &str) -> Result<ReadinessReport, Error> {
    let reply = tokio::time::timeout(WITHIN, answered(socket, path)).await;
    reply.unwrap_or_else(|_late| Err(Error::Late(socket.display().to_string())))
}

async fn answered(socket: &Path, path: &str) -> Result<ReadinessReport, Error> {
    let place = socket.display().to_string();
    let no_answer = |cause: Cause| Error::Silent { place: place.clone(), cause };
    let headers = [(ACCEPT, HeaderValue::from_static("text/plain"))].into_iter().collect();
    let gate = GateAddress { socket: socket.to_owned() };
    let answer = gate.send(Method::GET, path, headers, Bytes::new()).await;
    let answer = answer.map_err(|fault| match fault {
        // The place is named already.
        Fault::Unreachable { source, .. } => no_answer(source.into()),
        broken @ Fault::Broken(_) => no_answer(broken.into()),
    })?;
    let status = answer.status();
    let body =
        messages(answer).next().await.map_err(|error| no_answer(Fault::from(error).into()))?;
    known(&place, status, &body.unwrap_or_default())
}
