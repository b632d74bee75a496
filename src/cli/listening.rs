//! A server of its own beside a gate: it listens until a signal.

use std::net::SocketAddr;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{Failure, say};
use crate::serve::listener::{self, Listener};

/// Listens on the address, prints its URL, and serves until SIGTERM or SIGINT; then the server ends by
/// the token.
pub(super) async fn until_signal<F: Future<Output = ()>>(
    scheme: &str,
    addr: SocketAddr,
    serve: impl FnOnce(Listener, CancellationToken) -> F,
) -> Result<(), Failure> {
    // WHY: the handlers come before the announcement of the listener, so that no signal is missed.
    let mut term = signal(SignalKind::terminate()).map_err(Failure::invalid)?;
    let mut int = signal(SignalKind::interrupt()).map_err(Failure::invalid)?;
    let listener = listener::tcp(addr).await.map_err(Failure::invalid)?;
    let shutdown = CancellationToken::new();
    say(format!("listening on {scheme}://{}", listener.place()));
    let mut serving = std::pin::pin!(serve(listener, shutdown.clone()));
    tokio::select! {
        biased;
        () = &mut serving => return Ok(()),
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    shutdown.cancel();
    serving.await;
    Ok(())
}
