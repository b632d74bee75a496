//! Work of seconds for one request, on a thread of its own.

use tokio_util::sync::CancellationToken;

/// Does work until the client disconnects: this is dropped then, and the work ends with `left`. Work that panics ends with
/// `ended`.
///
/// WHY apart: hashing, packing and deciding again take seconds, and stop orders are served on the threads of requests.
///
/// # Errors
/// Those of the work, `left` and `ended`.
pub(super) async fn apart<T, E, F>(
    work: impl FnOnce() -> F + Send + 'static,
    (left, ended): (E, E),
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
    T: Send + 'static,
    E: Send + 'static,
{
    let disconnected = CancellationToken::new();
    let _guard = disconnected.clone().drop_guard();
    let runtime = tokio::runtime::Handle::current();
    let working = tokio::task::spawn_blocking(move || {
        runtime.block_on(async move {
            tokio::select! {
                biased;
                () = disconnected.cancelled() => Err(left),
                made = Box::pin(work()) => made,
            }
        })
    });
    working.await.unwrap_or(Err(ended))
}
