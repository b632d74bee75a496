//! The stdio transport: one message per line and one channel for all of them, matched by the gate's
//! own ids.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::unix::OwnedReadHalf;
use tokio::process::ChildStdout;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::error::OutputError;
use super::process::{Exit, Process, Streams, Tail};
use super::traffic::{McpReply, McpRequest, Notes, Obstacle, Traffic, TrafficError};
use crate::ledger::fuse::{Fuse, Late};
use crate::mcp::lines::{Line, LineSplitter};
use crate::mcp::rpc::{self, Id, Message};

/// Messages that wait to be written.
const QUEUE: usize = 256;
/// Lines of one connection that are not messages: some servers write logs to standard output.
const GARBAGE_MAX: u64 = 1_000;
/// Unsolicited messages of one connection between two responses.
const UNASKED_MAX: u64 = 100_000;
/// Bytes that a line may have beyond the largest result: the frame around it.
const FRAME_BYTES: usize = 64 * 1024;
/// How many times the limit a line may have before the gate stops waiting for its end.
const PATIENCE: usize = 16;

/// How long the gate still reads the output of a server that has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

type Waited = Result<McpReply, TrafficError>;

#[derive(Debug)]
struct PendingReply {
    answer: oneshot::Sender<Waited>,
    notes: Notes,
    call: bool,
}

/// A line that is queued for writing.
#[derive(Debug)]
struct OutgoingLine {
    line: Vec<u8>,
    /// For a call: its permit, and the receiver to notify if the permit ends before the line is
    /// written.
    call: Option<(Fuse, oneshot::Sender<Late>)>,
}

impl OutgoingLine {
    /// The line, unless its permit has ended.
    fn line(self) -> Option<Vec<u8>> {
        let Some((fuse, cut)) = self.call else { return Some(self.line) };
        match fuse.redeem() {
            Ok(()) => Some(self.line),
            Err(late) => {
                let _ = cut.send(late);
                None
            }
        }
    }
}

/// A connection to a child process.
#[derive(Debug)]
pub(super) struct Pipe {
    traffic: Arc<Traffic>,
    waiting: Mutex<BTreeMap<u64, PendingReply>>,
    lines: Mutex<Option<mpsc::Sender<OutgoingLine>>>,
    garbage: AtomicU64,
    unasked: AtomicU64,
    process: Mutex<Option<Process>>,
    tail: Tail,
}

impl Pipe {
    /// Starts reading from a running program. Sends nothing yet.
    pub fn over(
        (process, streams): (Process, Streams),
        traffic: Arc<Traffic>,
        bytes_max: usize,
        tasks: &TaskTracker,
    ) -> Arc<Self> {
        let Streams { input, output, errors, report } = streams;
        let (lines, queue) = mpsc::channel(QUEUE);
        tasks.spawn(follow(process.exit(), Arc::clone(&traffic)));
        let pipe = Arc::new(Self {
            traffic,
            waiting: Mutex::default(),
            lines: Mutex::new(Some(lines)),
            garbage: AtomicU64::new(0),
            unasked: AtomicU64::new(0),
            process: Mutex::new(Some(process)),
            tail: Tail::default(),
        });
        tasks.spawn(pipe.tail.clone().drain(errors));
        tasks.spawn(write(queue, input, Arc::clone(&pipe.traffic)));
        tasks.spawn(Arc::clone(&pipe).read(output, bytes_max, report));
        pipe
    }

    /// The server's last output on standard error.
    pub fn tail(&self) -> String {
        self.tail.text()
    }

    /// Ends the connection and the process.
    pub async fn close(&self) {
        self.traffic.end("the gate closed the connection");
        self.lines.lock().take();
        let process = self.process.lock().take();
        if let Some(process) = process {
            process.end().await;
        }
    }

    /// Sends a request and waits without a limit: the caller sets a deadline. Dropping the future
    /// cancels the request.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn request(self: &Arc<Self>, ask: &McpRequest<'_>) -> Waited {
        let number = self.traffic.number();
        let line = self.traffic.frame(number, ask);
        let (answer, waited) = oneshot::channel();
        let gone = || TrafficError::NotSent(Obstacle::Process);
        {
            let mut waiting = self.waiting.lock();
            if self.traffic.over.is_cancelled() {
                return Err(gone());
            }
            waiting
                .insert(number, PendingReply { answer, notes: Notes::default(), call: ask.call });
        }
        let mut flight = PipeRequest { pipe: Arc::clone(self), number, cancel: false };
        let lines = self.lines.lock().clone().ok_or_else(gone)?;
        let (cut, was_cut) = oneshot::channel();
        let out = OutgoingLine { line, call: ask.call.then(|| (ask.fuse.clone(), cut)) };
        lines.send(out).await.map_err(|_closed| gone())?;
        flight.cancel = ask.call;
        tokio::select! {
            biased;
            Ok(late) = was_cut => {
                flight.cancel = false;
                Err(late.into())
            }
            answer = waited => answer.unwrap_or(Err(TrafficError::Lost)),
        }
    }

    /// Sends a notification.
    pub fn say(&self, message: Vec<u8>) -> bool {
        let lines = self.lines.lock().clone();
        lines
            .is_some_and(|lines| lines.try_send(OutgoingLine { line: message, call: None }).is_ok())
    }

    /// Subscribes to a stateless server's announcements of tool changes; one with a handshake
    /// announces them unasked.
    pub fn listen(&self) {
        if self.traffic.is_stateless() {
            self.say(self.traffic.frame(self.traffic.number(), &McpRequest::subscription()));
        }
    }

    async fn read(
        self: Arc<Self>,
        output: ChildStdout,
        bytes_max: usize,
        report: Option<OwnedReadHalf>,
    ) {
        let mut reader = BufReader::with_capacity(64 * 1024, output);
        let line_bytes_max = bytes_max.saturating_add(FRAME_BYTES);
        let mut lines = LineSplitter::new(line_bytes_max, line_bytes_max.saturating_mul(PATIENCE));
        let why = loop {
            let chunk = tokio::select! {
                biased;
                chunk = reader.fill_buf() => chunk,
                () = self.traffic.over.cancelled() => break OutputError::Ended,
            };
            let taken = match chunk {
                Ok([]) => break OutputError::Closed,
                Ok(chunk) => {
                    lines.push(chunk, |line| self.line(line, bytes_max)).map(|()| chunk.len())
                }
                Err(error) => break OutputError::Read(error),
            };
            match taken {
                Ok(bytes) => reader.consume(bytes),
                Err(why) => break why,
            }
        };
        // The reason a sandbox was not set up arrives after the end of the output.
        if let Some(report) = report.filter(|_| !self.traffic.over.is_cancelled()) {
            let _ = tokio::time::timeout(LAST_WORDS, self.tail.clone().hear(report)).await;
        }
        self.traffic.end(&why.to_string());
        for (_, waiting) in std::mem::take(&mut *self.waiting.lock()) {
            let _ = waiting.answer.send(Err(TrafficError::Lost));
        }
        self.lines.lock().take();
    }

    fn line(&self, line: Line<'_>, bytes_max: usize) -> Result<(), OutputError> {
        match line {
            Line::Whole(text) => self.whole(text),
            Line::Ends(ends) => {
                self.answer(self.traffic.blamed(ends), Err(TrafficError::TooLarge(bytes_max)))
            }
        }
    }

    fn whole(&self, text: &[u8]) -> Result<(), OutputError> {
        let text = text.trim_ascii();
        if text.is_empty() {
            return Ok(());
        }
        match Message::read(text) {
            Ok(Message::Response { id, outcome }) => {
                let number = id.as_ref().and_then(|id| match id {
                    Id::Text(text) => self.traffic.number_of(text),
                    Id::Int(_) => None,
                });
                let outcome = outcome.map(ToOwned::to_owned);
                self.answer(number, Ok(McpReply { outcome, notes: Notes::default() }))
            }
            Ok(Message::Notification { method, params }) => self.notified(&method, params),
            Ok(Message::Request { id, method, .. }) => {
                if let Some(refusal) = self.traffic.response_to(&id, &method) {
                    self.say(refusal);
                }
                self.unasked()
            }
            Err(_malformed) => {
                let broken = TrafficError::Protocol("the server's answer is no JSON-RPC");
                let number = self.traffic.blamed(text);
                if number.is_none() && self.garbage.fetch_add(1, Ordering::Relaxed) >= GARBAGE_MAX {
                    return Err(OutputError::NoMessage);
                }
                self.answer_or(number, Err(broken), "malformed")
            }
        }
    }

    fn answer(&self, number: Option<u64>, answer: Waited) -> Result<(), OutputError> {
        self.answer_or(number, answer, "unknown_id")
    }

    /// Delivers the response to its request, once; otherwise drops and counts it.
    fn answer_or(
        &self,
        number: Option<u64>,
        answer: Waited,
        why: &'static str,
    ) -> Result<(), OutputError> {
        let Some(number) = number else {
            self.traffic.dropped(why);
            return self.unasked();
        };
        let Some(waiting) = self.waiting.lock().remove(&number) else {
            self.traffic.dropped("repeated_id");
            return self.unasked();
        };
        self.unasked.store(0, Ordering::Relaxed);
        if waiting.call && answer.is_ok() {
            self.traffic.mark_answered();
        }
        let answer = answer.map(|answer| McpReply { notes: waiting.notes, ..answer });
        let _ = waiting.answer.send(answer);
        Ok(())
    }

    fn notified(
        &self,
        method: &str,
        params: Option<&serde_json::value::RawValue>,
    ) -> Result<(), OutputError> {
        let mut waiting = self.waiting.lock();
        self.traffic.notified(method, params, |number| match number {
            Some(number) => waiting.get_mut(&number).map(|waiting| &mut waiting.notes),
            // The message names no call, so it is attributed only if a single call is in progress.
            None => {
                let mut calls = waiting.values_mut().filter(|waiting| waiting.call);
                calls.next().filter(|_| calls.next().is_none()).map(|only| &mut only.notes)
            }
        });
        drop(waiting);
        self.unasked()
    }

    /// Counts one more unsolicited message.
    fn unasked(&self) -> Result<(), OutputError> {
        if self.unasked.fetch_add(1, Ordering::Relaxed) < UNASKED_MAX {
            return Ok(());
        }
        Err(OutputError::Unasked)
    }
}

/// Ends the connection when the server has ended, even if one of its children keeps the output
/// open.
async fn follow(exit: Exit, traffic: Arc<Traffic>) {
    tokio::select! {
        biased;
        () = traffic.over.cancelled() => {}
        () = exit.wait() => {
            // The server's last output is still in the pipe.
            tokio::time::sleep(LAST_WORDS).await;
            traffic.end("the server ended");
        }
    }
}

/// Writes queued lines, as many at once as there are.
async fn write(
    mut queue: mpsc::Receiver<OutgoingLine>,
    mut input: Box<dyn AsyncWrite + Send + Unpin>,
    traffic: Arc<Traffic>,
) {
    while let Some(first) = queue.recv().await {
        let mut bytes = Vec::new();
        let rest = std::iter::from_fn(|| queue.try_recv().ok());
        for line in std::iter::once(first).chain(rest).filter_map(OutgoingLine::line) {
            bytes.extend_from_slice(&line);
            bytes.push(b'\n');
        }
        let written = tokio::select! {
            biased;
            () = traffic.over.cancelled() => return,
            written = input.write_all(&bytes) => written,
        };
        if written.is_err() {
            // The reader sees the end of the output and reports the cause.
            return;
        }
    }
}

/// A request in progress. Dropping it before the response cancels it.
struct PipeRequest {
    pipe: Arc<Pipe>,
    number: u64,
    cancel: bool,
}

impl Drop for PipeRequest {
    fn drop(&mut self) {
        let waited = self.pipe.waiting.lock().remove(&self.number).is_some();
        if waited && self.cancel {
            let id = self.pipe.traffic.id(self.number);
            self.pipe.say(rpc::cancellation(&id));
        }
    }
}
