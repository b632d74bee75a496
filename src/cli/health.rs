//! `wicketgate health`: what a probe asks, where there is no shell and the door is on loopback.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{ACCEPT, HeaderValue};
use http::{Method, Request, StatusCode};
use hyper::body::Bytes;

use super::mcp::exchange::{Ask, Gate};
use super::{Exit, block_on, complain, say};
use crate::operator::visible;
use crate::witness::Remote;

/// Bytes of an answer: reasons and notes of a gate with thousands of tools.
const ANSWER_MAX: usize = 1024 * 1024;

/// How long an answer on a socket may take.
const WITHIN: Duration = Duration::from_secs(10);

/// Ask a gate or a hub whether it is ready, and why not.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example, as a probe of Kubernetes:\n  exec: {command: [wicketgate, health, --socket, /var/lib/wicketgate/operator.sock, --started]}\n\n\
    Ends with 0 if it is, with 1 if it is not (the reasons are printed), with 2 if nobody answers."
)]
pub struct Args {
    /// Ask only whether it is up and listens: not whether calls can be governed
    #[arg(long)]
    live: bool,
    /// Ask whether agents can be let at it: a bundle is in force, or only a store that is away keeps it from that
    #[arg(long, conflicts_with = "live")]
    started: bool,
    /// Where operators are answered: the sidecar's own door, or the hub
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7301")]
    url: String,
    /// The operators' socket of a gate instead, in its state directory: `operator.sock`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "ca"])]
    socket: Option<PathBuf>,
    /// Authorities for https (PEM) instead of the public ones
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// Runs it.
pub fn run(args: &Args) -> Exit {
    match block_on(ask(args)) {
        Ok(Ok(exit)) => exit,
        Ok(Err(why)) => {
            complain(format!("error: {why}"));
            Exit::Unverifiable
        }
        Err(exit) => exit,
    }
}

async fn ask(args: &Args) -> Result<Exit, String> {
    let path = match (args.live, args.started) {
        (true, _) => "/livez",
        (_, true) => "/startupz",
        (false, false) => "/readyz",
    };
    if let Some(socket) = &args.socket {
        let asked = tokio::time::timeout(WITHIN, on_socket(socket, path)).await;
        let late = |_late| Err(format!("`{}`: no answer in time", socket.display()));
        return asked.unwrap_or_else(late);
    }
    let request = Request::builder().method(Method::GET).header(ACCEPT, "text/plain");
    let read =
        |path: &PathBuf| std::fs::read(path).map_err(|e| format!("`{}`: {e}", path.display()));
    let ca = args.ca.as_ref().map(read).transpose()?;
    let shown = |why: String| format!("`{}`: {why}", args.url);
    let remote = Remote::new(&args.url, ca.as_deref()).map_err(shown)?;
    let answer = remote.send(request, path, Vec::new(), ANSWER_MAX).await.map_err(shown)?;
    Ok(printed(answer.status, &answer.body))
}

fn printed(status: StatusCode, body: &[u8]) -> Exit {
    String::from_utf8_lossy(body).lines().for_each(|line| say(visible(line)));
    if status.is_success() { Exit::Ok } else { Exit::Invalid }
}

/// The same on a Unix socket.
async fn on_socket(socket: &Path, path: &str) -> Result<Exit, String> {
    let (method, body) = (Method::GET, Bytes::new());
    let headers = vec![(ACCEPT, HeaderValue::from_static("text/plain"))];
    let ask = Ask { method, path: path.to_owned(), headers, body };
    let answer = Gate { socket: socket.to_owned() }.send(ask).await.map_err(|e| e.to_string())?;
    let status = answer.status;
    let body = answer.whole().await.map_err(|e| e.to_string())?;
    Ok(printed(status, &body))
}
