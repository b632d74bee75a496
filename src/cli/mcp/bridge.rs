//! Passes messages between the client and the gate, in any order, until the client is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use serde_json::value::RawValue;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::client::{Client, ClientRequest};
use super::headers;
use super::lines::ClientLine;
use crate::mcp::rpc::{self, Id, Message};

/// Requests in progress. The gate has limits of its own; this one keeps a runaway client at bay.
const IN_PROGRESS_MAX: usize = 512;
/// The time that open requests get after the client's input ends.
const GRACE: Duration = Duration::from_secs(10);
/// Before the stream of the gate's own messages is opened again.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest of them, while the gate refuses.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// For the end of a session.
const FAREWELL: Duration = Duration::from_secs(5);

/// One request in progress.
struct OpenRequest {
    task: AbortHandle,
    alone: bool,
}

/// The bridge.
pub struct Bridge {
    client: Arc<Client>,
    working: JoinSet<Id>,
    open: BTreeMap<Id, OpenRequest>,
    listening: JoinSet<()>,
}

impl Bridge {
    /// A bridge for this client of the gate.
    pub fn new(client: Client) -> Self {
        Self {
            client: Arc::new(client),
            working: JoinSet::new(),
            open: BTreeMap::new(),
            listening: JoinSet::new(),
        }
    }

    /// Passes messages until the input ends or a signal comes; then ends the session.
    pub async fn run(mut self, mut lines: mpsc::Receiver<ClientLine>, mut stop: Stop) {
        let mut asked_to_stop = false;
        loop {
            tokio::select! {
                biased;
                () = stop.asked() => {
                    asked_to_stop = true;
                    break;
                }
                Some(done) = self.working.join_next() => self.over(done),
                line = lines.recv() => {
                    let Some(line) = line else { break };
                    // WHY: a silent gate, or a client that reads nothing, must not delay the end.
                    tokio::select! {
                        biased;
                        () = stop.asked() => {
                            asked_to_stop = true;
                            break;
                        }
                        () = self.receive(line) => {}
                    }
                }
            }
        }
        if !asked_to_stop {
            tokio::select! {
                biased;
                () = stop.asked() => {}
                () = tokio::time::sleep(GRACE) => {}
                () = self.finish() => {}
            }
        }
        self.working.abort_all();
        self.listening.abort_all();
        let _ = tokio::time::timeout(FAREWELL, self.client.end()).await;
    }

    /// Waits for the requests in progress that end by themselves.
    async fn finish(&mut self) {
        while let Some(done) = self.working.join_next().await {
            self.over(done);
        }
    }

    fn over(&mut self, done: Result<Id, tokio::task::JoinError>) {
        match done {
            Ok(id) => _ = self.open.remove(&id),
            Err(error) if error.is_cancelled() => {}
            Err(error) => tracing::error!(%error, "a request failed"),
        }
    }

    async fn receive(&mut self, line: ClientLine) {
        match line {
            ClientLine::Whole(text) => self.take(text).await,
            ClientLine::TooLong => {
                let why = "a message of more than 4 MiB";
                self.client.write_message(rpc::error(None, rpc::INVALID_REQUEST, why, None)).await;
            }
        }
    }

    async fn take(&mut self, text: Vec<u8>) {
        if text.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let text = Bytes::from(text);
        match Message::read(&text) {
            Err(malformed) => {
                let reply =
                    rpc::error(malformed.id.as_ref(), malformed.code, &malformed.message, None);
                self.client.write_message(reply).await;
            }
            Ok(Message::Response { .. }) => self.client.notify(None, text.clone()).await,
            Ok(Message::Notification { method, params }) => {
                self.notification(&method, params, text.clone()).await;
            }
            Ok(Message::Request { id, method, params }) => {
                let alone = headers::own_version(params);
                self.request(ClientRequest { id, method, text: text.clone(), alone }).await;
            }
        }
    }

    async fn request(&mut self, request: ClientRequest) {
        let refusal = if self.open.contains_key(&request.id) {
            Some("a request with this id is in progress")
        } else if self.open.len() >= IN_PROGRESS_MAX {
            Some("too many requests in progress")
        } else {
            None
        };
        if let Some(why) = refusal {
            let reply = rpc::error(Some(&request.id), rpc::INVALID_REQUEST, why, None);
            self.client.write_message(reply).await;
            return;
        }
        // Everything after the handshake depends on it.
        if request.method == "initialize" && request.alone.is_none() {
            self.listening.abort_all();
            return self.client.initialize(&request).await;
        }
        let (id, alone) = (request.id.clone(), request.alone.is_some());
        let client = Arc::clone(&self.client);
        let task = self.working.spawn(async move {
            Box::pin(client.request(&request)).await;
            request.id
        });
        self.open.insert(id, OpenRequest { task, alone });
    }

    async fn notification(&mut self, method: &str, params: Option<&RawValue>, text: Bytes) {
        match method {
            "notifications/cancelled" => {
                let id = params.and_then(rpc::cancelled);
                let Some(open) = id.and_then(|id| self.open.remove(&id)) else { return };
                // A session needs the notification; without one, closing the request cancels it.
                if !open.alone {
                    self.client.notify(Some(method), text).await;
                }
                open.task.abort();
            }
            "notifications/initialized" => {
                self.client.notify(Some(method), text).await;
                if self.client.has_session() {
                    let client = Arc::clone(&self.client);
                    self.listening.spawn(async move {
                        let mut pause = PAUSE;
                        while let Some(soon) = Box::pin(client.listen()).await {
                            pause =
                                if soon { PAUSE } else { pause.saturating_mul(2).min(PAUSE_MAX) };
                            tokio::time::sleep(pause).await;
                        }
                    });
                }
            }
            _ => self.client.notify(Some(method), text).await,
        }
    }
}

/// Signals that end the bridge.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Stop {
    /// Installs the handlers.
    ///
    /// # Errors
    /// The system's error.
    pub fn install() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one.
    pub async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
