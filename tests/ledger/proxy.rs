//! A TCP proxy that can lose the server's answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Forwards to one port of this machine.
pub struct Proxy {
    pub port: u16,
    deaf: Arc<AtomicBool>,
}

impl Proxy {
    pub async fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let deaf = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&deaf);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let upstream = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                tokio::spawn(forward(client, upstream, Arc::clone(&shared)));
            }
        });
        Proxy { port, deaf }
    }

    /// From now on no answer of the server is passed on, and its answer to `COMMIT` cuts the
    /// connection: what was sent before that is done. A server that loses its client earlier may give
    /// up what it is at.
    pub fn lose_answers(&self, lose: bool) {
        self.deaf.store(lose, Ordering::SeqCst);
    }
}

async fn forward(client: TcpStream, upstream: TcpStream, deaf: Arc<AtomicBool>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = upstream.into_split();
    let up = async move {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
        to_server
    };
    let down = async move {
        let mut bytes = vec![0; 65_536];
        let mut lost = Vec::new();
        while let Ok(n @ 1..) = from_server.read(&mut bytes).await {
            if deaf.load(Ordering::SeqCst) {
                lost.extend_from_slice(&bytes[..n]);
                if lost.windows(7).any(|tag| tag == b"COMMIT\0") {
                    break;
                }
            } else if to_client.write_all(&bytes[..n]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! { _ = up => {}, () = down => {} }
}
