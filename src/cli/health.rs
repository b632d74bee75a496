//! `wicketgate health`: what a probe asks, where there is no shell and the door is on loopback.

use std::path::PathBuf;

use http::header::ACCEPT;
use http::{Method, Request};

use super::{Exit, block_on, complain, say};
use crate::operator::visible;
use crate::witness::Remote;

/// Bytes of an answer: reasons and notes of a gate with thousands of tools.
const ANSWER_MAX: usize = 1024 * 1024;

/// Ask a gate or a hub whether it is ready, and why not.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example, as a probe of Kubernetes:\n  exec: {command: [wicketgate, health, --live]}\n\n\
    Ends with 0 if it is, with 1 if it is not (the reasons are printed), with 2 if nobody answers."
)]
pub struct Args {
    /// Ask only whether it is up and listens: not whether calls can be governed
    #[arg(long)]
    live: bool,
    /// Where operators are answered: the sidecar's own door, or the hub
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7301")]
    url: String,
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
    let read =
        |path: &PathBuf| std::fs::read(path).map_err(|e| format!("`{}`: {e}", path.display()));
    let ca = args.ca.as_ref().map(read).transpose()?;
    let shown = |why: String| format!("`{}`: {why}", args.url);
    let remote = Remote::new(&args.url, ca.as_deref()).map_err(shown)?;
    let path = if args.live { "/livez" } else { "/readyz" };
    let request = Request::builder().method(Method::GET).header(ACCEPT, "text/plain");
    let answer = remote.send(request, path, Vec::new(), ANSWER_MAX).await.map_err(shown)?;
    String::from_utf8_lossy(&answer.body).lines().for_each(|line| say(visible(line)));
    Ok(if answer.status.is_success() { Exit::Ok } else { Exit::Invalid })
}
