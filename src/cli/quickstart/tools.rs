//! The tools of the quickstart: a small HTTP server in a process of its own that counts what reaches it.
//!
//! It reads the credential it asks for from standard input, prints its address on standard output,
//! answers each further line with its counters, and ends when that input ends, even if the process
//! that started it is killed.

use std::io::BufRead as _;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::super::{Exit, fail, say};
use super::PATIENCE;
use super::error::{DemoPart, Error};
use super::own::OwnProgram;
use serde::{Deserialize, Serialize};

/// What reached the server.
#[derive(Debug, Default)]
struct Counters {
    customers: AtomicU64,
    tickets: AtomicU64,
    transfers: AtomicU64,
}

impl Counters {
    fn hits(&self) -> Hits {
        let of = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        let (customers, tickets) = (of(&self.customers), of(&self.tickets));
        let transfers = of(&self.transfers);
        let all = customers.saturating_add(tickets).saturating_add(transfers);
        Hits { all, customers, tickets, transfers }
    }
}

/// The requests for each path of the server.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hits {
    /// All of them.
    pub all: u64,
    customers: u64,
    tickets: u64,
    transfers: u64,
}

/// An order to move money.
#[derive(Default, Deserialize)]
struct Transfer {
    amount: Value,
}

#[derive(Clone)]
struct Shop {
    counters: Arc<Counters>,
    credential: Arc<str>,
}

/// Serves until standard input ends.
pub fn serve() -> Exit {
    match serving() {
        Ok(()) => Exit::Ok,
        Err(why) => fail(Exit::Invalid, why),
    }
}

fn serving() -> std::io::Result<()> {
    let mut lines = std::io::stdin().lock().lines();
    let Some(token) = lines.next().transpose()? else { return Ok(()) };
    let counters = Arc::new(Counters::default());
    let shop =
        Shop { counters: Arc::clone(&counters), credential: format!("Bearer {token}").into() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0)))?;
    say(listener.local_addr()?.to_string());
    // No thread joins this one: it ends with the process, which ends with its input.
    let served = std::thread::Builder::new()
        .name("tools".into())
        .spawn(move || runtime.block_on(async { axum::serve(listener, router(shop)).await }))?;
    for line in lines {
        line?;
        if served.is_finished() {
            return Err(std::io::Error::other("the tools ended"));
        }
        say(json!(counters.hits()).to_string());
    }
    Ok(())
}

fn router(shop: Shop) -> Router {
    Router::new()
        .route("/customers", get(customers))
        .route("/tickets", post(tickets))
        .route("/transfers", post(transfers))
        .with_state(shop)
}

async fn customers(
    State(shop): State<Shop>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    shop.counters.customers.fetch_add(1, Ordering::SeqCst);
    let shown = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    if shown != Some(shop.credential.as_bytes()) {
        return answer(StatusCode::UNAUTHORIZED, &json!({"error": "no credential"}));
    }
    let query = query.unwrap_or_default();
    let selects = url::form_urlencoded::parse(query.as_bytes())
        .any(|(key, value)| key == "name" && value == "Berg");
    let berg = json!({"id": "C-1042", "name": "Anna Berg", "email": "anna.berg@customer.example",
        "paid_twice": 250});
    let found = if selects { vec![berg] } else { Vec::new() };
    answer(StatusCode::OK, &json!({"customers": found}))
}

async fn tickets(State(shop): State<Shop>) -> Response {
    let number = shop.counters.tickets.fetch_add(1, Ordering::SeqCst);
    answer(StatusCode::CREATED, &json!({"ticket": format!("T-{number}")}))
}

async fn transfers(State(shop): State<Shop>, body: Bytes) -> Response {
    let number = shop.counters.transfers.fetch_add(1, Ordering::SeqCst);
    let Transfer { amount } = serde_json::from_slice(&body).unwrap_or_default();
    let booked = json!({"transfer": format!("P-{number}"), "amount": amount, "state": "booked"});
    answer(StatusCode::OK, &booked)
}

fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// The server as the quickstart sees it.
pub struct ToolServer {
    child: Child,
    process: u32,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    address: String,
}

impl ToolServer {
    /// Starts it and learns its address.
    pub async fn start(own: &OwnProgram, token: &str) -> Result<Self, Error> {
        let mut command = own.command(&["quickstart-tools"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let process = child.id().unwrap_or_default();
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = BufReader::new(output.ok_or(Error::NoPipe(DemoPart::Tools))?).lines();
        let mut server = Self { child, process, input, output, address: String::new() };
        server.address = server.ask(token).await?;
        Ok(server)
    }

    async fn ask(&mut self, line: &str) -> Result<String, Error> {
        let input = self.input.as_mut().ok_or(Error::NoPipe(DemoPart::Tools))?;
        let sent = input.write_all(format!("{line}\n").as_bytes()).await;
        sent.map_err(failed)?;
        let answer = tokio::time::timeout(PATIENCE, self.output.next_line()).await;
        let answer = answer.map_err(|_late| Error::Silent(DemoPart::Tools))?;
        answer.map_err(failed)?.ok_or(Error::Ended(DemoPart::Tools))
    }

    /// The requests for each of its paths.
    pub async fn hits(&mut self) -> Result<Hits, Error> {
        Ok(serde_json::from_str(&self.ask("hits").await?)?)
    }

    /// `127.0.0.1:40123`.
    pub fn address(&self) -> String {
        self.address.clone()
    }

    /// Its process id.
    pub const fn process(&self) -> u32 {
        self.process
    }

    /// Ends its input, and waits for its end.
    pub async fn stop(&mut self) -> Result<(), Error> {
        drop(self.input.take());
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.map_err(|_late| Error::Running(DemoPart::Tools))?.map(drop).map_err(failed)
    }
}

fn failed(source: std::io::Error) -> Error {
    Error::Process { part: DemoPart::Tools, source }
}
