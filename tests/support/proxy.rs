//! A TCP proxy before the database that can hold what is asked, or hold or cut what is answered.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What happens to bytes on the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// They pass.
    Open,
    /// They wait.
    Held,
    /// The next one ends the connection.
    Cut,
}

/// Forwards to one port of this machine.
pub struct Proxy {
    pub port: u16,
    asked: watch::Sender<Way>,
    answered: watch::Sender<Way>,
    stuck: watch::Sender<usize>,
}

impl Proxy {
    pub async fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = watch::Sender::new(Way::Open);
        let answered = watch::Sender::new(Way::Open);
        let stuck = watch::Sender::new(0);
        let ways = (asked.clone(), answered.clone(), stuck.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(upstream) = TcpStream::connect(("127.0.0.1", server)).await else {
                    continue;
                };
                let (asked, answered, stuck) = ways.clone();
                tokio::spawn(async move {
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = upstream.into_split();
                    tokio::select! {
                        () = pass(from_client, to_server, &asked, &stuck) => {}
                        () = pass(from_server, to_client, &answered, &stuck) => {}
                    }
                });
            }
        });
        Proxy { port, asked, answered, stuck }
    }

    /// What happens to statements.
    pub fn asked(&self, way: Way) {
        self.asked.send_replace(way);
    }

    /// What happens to answers.
    pub fn answered(&self, way: Way) {
        self.answered.send_replace(way);
    }

    /// Waits until bytes were held or cut.
    pub async fn caught(&self) {
        let mut stuck = self.stuck.subscribe();
        crate::within("bytes on their way to or from the database", stuck.wait_for(|n| *n > 0))
            .await
            .unwrap();
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    way: &watch::Sender<Way>,
    stuck: &watch::Sender<usize>,
) {
    let mut bytes = vec![0; 65_536];
    let mut way = way.subscribe();
    while let Ok(n @ 1..) = from.read(&mut bytes).await {
        if *way.borrow_and_update() != Way::Open {
            stuck.send_modify(|n| *n += 1);
            let Ok(next) = way.wait_for(|way| *way != Way::Held).await else { break };
            if *next == Way::Cut {
                break;
            }
        }
        if to.write_all(&bytes[..n]).await.is_err() {
            break;
        }
    }
}
