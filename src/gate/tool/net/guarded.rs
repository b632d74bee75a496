//! A request body that checks its permit at the moment when hyper writes it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};

use crate::ledger::fuse::{Fuse, Late};

/// hyper asks whether a body has an end before it writes a head, takes the body's first frame, and
/// flushes both after that. A permit that has ended by then therefore keeps head and body from the
/// wire: the connection is dropped with the unflushed bytes. Over HTTP/2 the head may have been
/// sent; then the stream is reset without a message.
#[derive(Debug)]
pub(super) struct Guarded {
    body: Full<Bytes>,
    fuse: Fuse,
    cut: Arc<AtomicBool>,
}

impl Guarded {
    /// `cut` is set if the permit had ended.
    pub fn new(body: Full<Bytes>, fuse: Fuse, cut: Arc<AtomicBool>) -> Self {
        Self { body, fuse, cut }
    }

    fn redeem(&self) -> Result<(), Late> {
        self.fuse.redeem().inspect_err(|_| self.cut.store(true, Ordering::Release))
    }
}

impl Body for Guarded {
    type Data = Bytes;
    type Error = Late;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Late>>> {
        if self.cut.load(Ordering::Acquire) {
            return Poll::Ready(Some(Err(Late)));
        }
        if !self.body.is_end_stream() {
            self.redeem()?;
        }
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map_err(|never| match never {})
    }

    fn is_end_stream(&self) -> bool {
        // hyper never asks an empty body for a frame, unless the body claims to have one.
        self.body.is_end_stream() && self.redeem().is_ok()
    }

    fn size_hint(&self) -> SizeHint {
        // Nor does it ask a body that is known to be empty, or one of unknown size in a GET.
        if self.cut.load(Ordering::Acquire) {
            SizeHint::with_exact(1)
        } else {
            self.body.size_hint()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use async_trait::async_trait;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::super::{Client, Resolve, SendError};
    use super::*;
    use crate::catalog::address::Cidr;
    use crate::catalog::host::Origin;
    use crate::clock::Clock;
    use crate::ledger::fuse::Tenure;
    use crate::ledger::fuse::tests::Hand;

    /// A resolver whose lookup lets time pass.
    #[derive(Debug)]
    struct Slow(Arc<Hand>, u64);

    #[async_trait]
    impl Resolve for Slow {
        async fn lookup(&self, _name: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
            self.0.0.fetch_add(self.1, Ordering::SeqCst);
            Ok(vec![SocketAddr::new([127, 0, 0, 1].into(), port)])
        }
    }

    /// The bytes that a server receives of one request whose connection takes this long, and
    /// whether its sender gets `Late`.
    async fn received(method: &str, body: &'static [u8], takes: u64) -> (Vec<u8>, bool) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://api.test:{}/", listener.local_addr().unwrap().port());
        let (origin, _) = Origin::parse(&url).unwrap();
        let hand = Arc::new(Hand::default());
        let clock: Arc<dyn Clock> = Arc::<Hand>::clone(&hand);
        let tenure = Arc::new(Tenure::new(clock, Duration::from_secs(1)));
        tenure.renewed(Duration::ZERO);
        let fuse = tenure.fuse(Duration::from_secs(60));
        let open = [Cidr::parse("127.0.0.0/8").unwrap()];
        let client = Client::new(&origin, &open, None, Arc::new(Slow(hand, takes))).unwrap();
        let request = http::Request::builder().method(method).uri(&url);
        let request = request.body(Full::new(Bytes::from_static(body))).unwrap();
        let serving = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = vec![0; 4096];
            let read = stream.read(&mut bytes).await.unwrap_or(0);
            bytes.truncate(read);
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
            bytes
        };
        let (bytes, sent) = tokio::join!(serving, client.send(request, &fuse));
        (bytes, matches!(sent, Err(SendError::Late(Late))))
    }

    #[tokio::test]
    async fn a_request_whose_permit_ended_while_it_connected_leaves_no_byte() {
        for (method, body) in [("GET", "".as_bytes()), ("DELETE", b""), ("POST", b"{\"a\":1}")] {
            let (bytes, late) = received(method, body, 799).await;
            assert!(bytes.starts_with(method.as_bytes()) && !late, "{method}: the way is open");
            assert!(bytes.ends_with(body));
            let (bytes, late) = received(method, body, 800).await;
            assert_eq!((bytes.as_slice(), late), (b"".as_slice(), true), "{method}");
        }
    }
}
