//! A request's body that has to arrive in time: a client that trickles bytes holds memory.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::Sleep;

/// Why a body was not read to its end.
#[derive(thiserror::Error, Debug)]
pub(crate) enum Error {
    /// It did not end in time.
    #[error("the body did not arrive in time")]
    Late,
    /// The connection broke.
    #[error(transparent)]
    Broken(Box<dyn std::error::Error + Send + Sync>),
}

/// A body and until when it has to have ended.
pub(crate) struct Timely<B> {
    inner: B,
    deadline: Pin<Box<Sleep>>,
}

impl<B> Timely<B> {
    pub(crate) fn new(inner: B, within: Duration) -> Self {
        Self { inner, deadline: Box::pin(tokio::time::sleep(within)) }
    }
}

impl<B> Body for Timely<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(|e| Error::Broken(e.into()))));
        }
        self.deadline.as_mut().poll(cx).map(|()| Some(Err(Error::Late)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full, StreamBody};

    use super::*;

    #[tokio::test]
    async fn a_body_that_never_ends_is_given_up() {
        let never = StreamBody::new(tokio_stream::pending::<Result<Frame<Bytes>, Error>>());
        let given_up = Timely::new(never, Duration::from_millis(1)).collect().await;
        assert!(matches!(given_up, Err(Error::Late)));
    }

    #[tokio::test]
    async fn a_body_that_is_there_is_passed_on() {
        let body = Timely::new(Full::new(Bytes::from_static(b"whole")), Duration::from_secs(60));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "whole");
    }
}
