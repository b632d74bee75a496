//! Responses that stay open: a call that takes its time, and changes as they happen.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;

use crate::mcp::sse;

/// After so long without an answer a call's response begins as a stream. Only writing to a stream
/// shows whether the client is still there: over HTTP/1.1 a client that has sent its whole request
/// looks like one that left.
pub(super) const STREAM_AFTER: Duration = Duration::from_secs(1);

/// Between two signs of life while a call runs.
const CALL_BEAT: Duration = Duration::from_secs(1);

/// Between two signs of life on a stream of changes.
const CHANGES_BEAT: Duration = Duration::from_secs(15);

/// A comment: carries nothing, and shows that the gate is alive.
const COMMENT: &[u8] = b":\n\n";

type Piece = Result<Frame<Bytes>, Infallible>;

fn piece(bytes: impl Into<Bytes>) -> Piece {
    Ok(Frame::data(bytes.into()))
}

/// Work whose messages end the stream.
pub(super) type Work = Pin<Box<dyn Future<Output = Vec<Vec<u8>>> + Send>>;

/// A stream of exactly these messages.
pub(super) fn of(messages: &[Vec<u8>]) -> Body {
    Body::new(http_body_util::Full::new(Bytes::from(sse::messages(messages))))
}

/// A stream that sends comments until the work is done, and then its result. Dropped before that,
/// it drops the work.
pub(super) fn until_done(work: Work) -> Body {
    let state = (Some(work), true);
    let stream = stream::unfold(state, |(work, first)| async move {
        let mut work = work?;
        if first {
            return Some((piece(COMMENT), (Some(work), false)));
        }
        tokio::select! {
            biased;
            messages = &mut work => {
                Some((piece(sse::messages(&messages)), (None, false)))
            }
            () = tokio::time::sleep(CALL_BEAT) => Some((piece(COMMENT), (Some(work), false))),
        }
    });
    Body::new(StreamBody::new(stream))
}

/// The contents of a stream of changes.
pub(super) struct Changes {
    /// Said at once.
    pub first: Option<Vec<u8>>,
    /// Said at each change.
    pub each: Option<Vec<u8>>,
    /// Said when the gate ends the stream.
    pub last: Option<Vec<u8>>,
    /// Changes of the toolbox.
    pub version: watch::Receiver<u64>,
    /// Ends the stream.
    pub closing: CancellationToken,
    /// Places that are free again when the stream ends.
    pub places: Vec<OwnedSemaphorePermit>,
    /// Called at each sign of life.
    pub alive: Box<dyn Fn() + Send + Sync>,
}

/// A stream that says what changes, until the client or the gate ends it.
pub(super) fn of_changes(changes: Changes) -> Body {
    let Changes { first, each, last, version, closing, places, alive } = changes;
    let first = first.map_or_else(|| Bytes::from_static(COMMENT), |m| sse::message(&m).into());
    let queue = VecDeque::from([first]);
    let state = Open { queue, each, last: Some(last), version, closing, _places: places, alive };
    Body::new(StreamBody::new(stream::unfold(state, |mut open| async move {
        let next = open.next().await?;
        Some((piece(next), open))
    })))
}

struct Open {
    queue: VecDeque<Bytes>,
    each: Option<Vec<u8>>,
    // The outer option is taken when the stream ends.
    last: Option<Option<Vec<u8>>>,
    version: watch::Receiver<u64>,
    closing: CancellationToken,
    _places: Vec<OwnedSemaphorePermit>,
    alive: Box<dyn Fn() + Send + Sync>,
}

impl Open {
    async fn next(&mut self) -> Option<Bytes> {
        (self.alive)();
        if let Some(bytes) = self.queue.pop_front() {
            return Some(bytes);
        }
        self.last.as_ref()?;
        let version = &mut self.version;
        let each = self.each.as_deref();
        let changed = async {
            match each {
                Some(message) => match version.changed().await {
                    Ok(()) => sse::message(message),
                    Err(_) => std::future::pending().await,
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.closing.cancelled() => {
                self.last.take().flatten().map(|message| sse::message(&message).into())
            }
            event = changed => Some(event.into()),
            () = tokio::time::sleep(CHANGES_BEAT) => Some(Bytes::from_static(COMMENT)),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn next(body: &mut Body) -> Option<String> {
        let frame = body.frame().await?.unwrap().into_data().unwrap();
        Some(String::from_utf8(frame.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_call_shows_signs_of_life_and_then_its_messages() {
        let work = async {
            tokio::time::sleep(CALL_BEAT * 2).await;
            vec![b"1".to_vec(), b"2".to_vec()]
        };
        let mut body = until_done(Box::pin(work));
        for _ in 0..3 {
            let event = next(&mut body).await.unwrap();
            if event != ":\n\n" {
                assert_eq!(event, "event: message\ndata: 1\n\nevent: message\ndata: 2\n\n");
                break;
            }
        }
        assert_eq!(next(&mut body).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_changes_says_each_of_them_and_ends_in_order() {
        let (sender, version) = watch::channel(0);
        let closing = CancellationToken::new();
        let changes = Changes {
            first: Some(b"begun".to_vec()),
            each: Some(b"changed".to_vec()),
            last: Some(b"over".to_vec()),
            version,
            closing: closing.clone(),
            places: Vec::new(),
            alive: Box::new(|| {}),
        };
        let mut body = of_changes(changes);
        assert_eq!(next(&mut body).await.unwrap(), "event: message\ndata: begun\n\n");
        sender.send_modify(|n| *n += 1);
        assert_eq!(next(&mut body).await.unwrap(), "event: message\ndata: changed\n\n");
        assert_eq!(next(&mut body).await.unwrap(), ":\n\n");
        closing.cancel();
        assert_eq!(next(&mut body).await.unwrap(), "event: message\ndata: over\n\n");
        assert_eq!(next(&mut body).await, None);
    }
}
