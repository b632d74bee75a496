//! `wicketgate search`: finds calls and runs, at a gate or a hub or in a ledger.
//!
//! `run` and `call` look up from the same two places, by the same query language.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::api::Api;
use super::progress::Progress;
use super::reader::{self, LedgerSource};
use super::{Exit, Failure, block_on, note, say};
use crate::clock::{Clock as _, SystemClock};
use crate::domain::id::{ChainId, RunId, Seq};
use crate::evidence::scores::{self, ScoreReader, SnapshotReport};
use crate::index::{self, Index};
use crate::ledger::store::LedgerReader;
use crate::ledger::vault::Vault;
use crate::operator::alerts;
use crate::operator::api::alerts::Alerts;
use crate::operator::api::lookups::{
    CallDetail, CallLine, CallPayloads, Calls, RunDetail, RunLine, Runs,
};
use crate::operator::api::requests::{
    AlertSearch, CallPath, CallSearch, RunCalls, RunPath, RunSearch,
};
use crate::operator::api::route;
use crate::operator::api::standing::TrustScores;
use crate::operator::search::{Search, SearchError};
use crate::operator::standing;
use crate::operator::visible;
use crate::record::trust::TrustWindow;

/// Where calls and runs are looked up: at the operator API, or in a ledger that this command reads itself.
#[derive(Debug, clap::Args)]
pub struct Source {
    /// URL of the operator API, at a gate or a hub
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:7301",
        env = "WICKETGATE_OPERATOR_URL",
        hide_env_values = true
    )]
    url: String,
    /// Operator token: a file of mode 0600 [env: WICKETGATE_TOKEN_FILE]
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present_any = ["cert", "config", "sqlite", "postgres_url_file"],
        conflicts_with_all = ["cert", "config", "sqlite", "postgres_url_file"]
    )]
    token_file: Option<PathBuf>,
    /// Operator certificate (PEM), instead of a token, over https
    #[arg(
        long,
        value_name = "FILE",
        requires = "cert_key",
        conflicts_with_all = ["config", "sqlite", "postgres_url_file"]
    )]
    cert: Option<PathBuf>,
    /// Private key of the certificate (PEM): a file of mode 0600
    #[arg(long, value_name = "FILE", requires = "cert")]
    cert_key: Option<PathBuf>,
    /// Trust these certificate authorities (PEM) for https, instead of the public ones
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Configuration file of a gate or a hub: read its ledger instead of asking the operator API. Such reading is not
    /// recorded
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["sqlite", "postgres_url_file"])]
    config: Option<PathBuf>,
    /// Read this SQLite ledger
    #[arg(long, value_name = "PATH", conflicts_with = "postgres_url_file")]
    sqlite: Option<PathBuf>,
    /// Read the Postgres ledger whose URL is in this file
    #[arg(long, value_name = "FILE")]
    postgres_url_file: Option<PathBuf>,
    /// Print one JSON object: the answer of the operator API
    #[arg(long)]
    pub json: bool,
}

/// One of the two places, open.
pub enum Lookup {
    /// The operator API.
    Remote(Box<Api>),
    /// A ledger, with an index of it in memory.
    Local(Box<LocalLedger>),
}

/// A ledger that this command reads.
pub struct LocalLedger {
    index: Index,
    reader: Arc<dyn LedgerReader>,
    vault: Option<Arc<Vault>>,
    clock: SystemClock,
    window: TrustWindow,
}

impl LocalLedger {
    fn search(&self) -> Search<'_> {
        let now = self.clock.now();
        Search { index: &self.index, reader: &*self.reader, tenant: None, now }
    }

    /// Reads the new entries of the ledger into the index.
    async fn fill(&self) -> Result<(), Failure> {
        self.search().fill(u64::MAX).await.map(drop).map_err(|error| failed(error.into()))
    }
}

fn failed(error: SearchError) -> Failure {
    match error {
        SearchError::Query(_)
        | SearchError::Time(_)
        | SearchError::Value(..)
        | SearchError::Cursor
        | SearchError::State
        | SearchError::Index(index::Error::Long) => Failure::usage(error),
        SearchError::NoCall | SearchError::NoRun | SearchError::NoEntry => Failure::invalid(error),
        SearchError::Unproven(_) | SearchError::Index(_) => Failure::unverifiable(error),
    }
}

impl Source {
    /// Opens the place. Of a ledger, it reads every entry first, and shows how far it is.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub async fn open(&self) -> Result<Lookup, Exit> {
        let source = LedgerSource {
            config: self.config.clone(),
            sqlite: self.sqlite.clone(),
            postgres_url_file: self.postgres_url_file.clone(),
        };
        if source.place().is_none() {
            let cert = self.cert.clone().zip(self.cert_key.clone());
            let api = Api::of(self.url.clone(), self.token_file.clone(), cert, self.ca.clone());
            return Ok(Lookup::Remote(Box::new(api)));
        }
        let opened = async {
            let (vault, window) = match &self.config {
                Some(path) => {
                    let config = reader::configuration(path).map_err(Failure::config)?;
                    let window = config.trust.score_window();
                    (config.vault().map_err(Failure::config)?, window)
                }
                None => (None, TrustWindow::default()),
            };
            let index = Index::memory().map_err(|error| failed(error.into()))?;
            let reader = reader::open_reader(&source).await?;
            let clock = SystemClock::new();
            let local = LocalLedger { index, reader, vault, clock, window };
            Progress::new("read the ledger").during(local.fill()).await?;
            Ok(local)
        };
        let opened: Result<LocalLedger, Failure> = opened.await;
        opened.map(|local| Lookup::Local(Box::new(local))).map_err(Failure::print)
    }
}

/// What was answered: as JSON for programs, and as a value.
type Answered<T> = Result<(Value, T), Exit>;

fn local<T: serde::Serialize>(found: Result<T, SearchError>) -> Answered<T> {
    let found = found.map_err(|error| failed(error).print())?;
    Ok((serde_json::to_value(&found).unwrap_or_default(), found))
}

impl Lookup {
    /// The calls that match.
    ///
    /// # Errors
    /// The exit code of the command, if there is no answer.
    pub async fn calls(&self, search: &CallSearch) -> Answered<Calls> {
        match self {
            Self::Remote(api) => {
                let answer = api.ask::<route::Calls>(&(), search).await?;
                Ok((answer.body, answer.reply))
            }
            Self::Local(ledger) => local(ledger.search().calls(search).await),
        }
    }

    /// The alerts that match.
    ///
    /// # Errors
    /// As [`Self::calls`].
    pub async fn alerts(&self, search: &AlertSearch) -> Answered<Alerts> {
        match self {
            Self::Remote(api) => {
                let answer = api.ask::<route::Alerts>(&(), search).await?;
                Ok((answer.body, answer.reply))
            }
            Self::Local(ledger) => {
                let now = (None, ledger.clock.now());
                local(alerts::list(&*ledger.reader, now, search).await)
            }
        }
    }

    /// The runs that match.
    ///
    /// # Errors
    /// As [`Self::calls`].
    pub async fn runs(&self, search: &RunSearch) -> Answered<Runs> {
        match self {
            Self::Remote(api) => {
                let answer = api.ask::<route::Runs>(&(), search).await?;
                Ok((answer.body, answer.reply))
            }
            Self::Local(ledger) => local(ledger.search().runs(search).await),
        }
    }

    /// One run, with calls after this entry; new entries are read first.
    ///
    /// # Errors
    /// As [`Self::calls`].
    pub async fn run(&self, run: &RunId, after: Option<Seq>) -> Answered<RunDetail> {
        let calls = RunCalls { after, limit: Some(200) };
        match self {
            Self::Remote(api) => {
                let path = RunPath { run: run.to_string() };
                let answer = api.ask::<route::RunDetail>(&path, &calls).await?;
                Ok((answer.body, answer.reply))
            }
            Self::Local(ledger) => {
                ledger.fill().await.map_err(Failure::print)?;
                local(ledger.search().run(run, &calls).await)
            }
        }
    }

    /// One call, read from its entries.
    ///
    /// # Errors
    /// As [`Self::calls`].
    pub async fn call(&self, chain: &str, seq: Seq) -> Answered<CallDetail> {
        match self {
            Self::Remote(api) => {
                let path = CallPath { chain: chain.to_owned(), seq: seq.to_string() };
                let answer = api.ask::<route::CallDetail>(&path, &()).await?;
                Ok((answer.body, answer.reply))
            }
            Self::Local(ledger) => match ChainId::parse(chain) {
                Some(chain) => local(ledger.search().call(&chain, seq).await),
                None => local(Err(SearchError::NoCall)),
            },
        }
    }

    /// The trust in every tool.
    ///
    /// # Errors
    /// As [`Self::calls`].
    pub async fn trust(&self) -> Answered<TrustScores> {
        match self {
            Self::Remote(api) => {
                let answer = api.ask::<route::Trust>(&(), &()).await?;
                Ok((answer.body, answer.reply))
            }
            Self::Local(ledger) => {
                let mut scores = ScoreReader::default();
                let read = scores.read_on(&*ledger.reader, None, u64::MAX).await;
                let found = read
                    .map(|()| standing::trust_scores(&scores, ledger.window, ledger.clock.now()));
                local(found.map_err(SearchError::from))
            }
        }
    }

    /// Computes the trust that policies saw once more; `None`: only a ledger has their inputs.
    ///
    /// # Errors
    /// As [`Self::calls`].
    pub async fn snapshots(&self) -> Result<Option<SnapshotReport>, Exit> {
        let Self::Local(ledger) = self else { return Ok(None) };
        let checked = scores::check(&*ledger.reader, ledger.vault.as_deref()).await;
        checked.map(Some).map_err(|error| failed(SearchError::from(error)).print())
    }

    /// The arguments and the result of a call.
    ///
    /// # Errors
    /// As [`Self::calls`].
    pub async fn payloads(&self, chain: &str, seq: Seq) -> Answered<CallPayloads> {
        match self {
            Self::Remote(api) => {
                let path = CallPath { chain: chain.to_owned(), seq: seq.to_string() };
                let answer = api.ask::<route::CallPayloads>(&path, &()).await?;
                Ok((answer.body, answer.reply))
            }
            Self::Local(ledger) => match ChainId::parse(chain) {
                Some(chain) => {
                    let vault = ledger.vault.as_deref();
                    local(ledger.search().payloads(&chain, seq, vault).await)
                }
                None => local(Err(SearchError::NoCall)),
            },
        }
    }
}

/// Find calls and runs by agent, tool, verdict, code, time or the beginning of an id.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate search 'tool:payments.refund -verdict:allow since:2h' --token-file vera.token\n  \
    wicketgate search 4f1c --token-file vera.token\n  \
    wicketgate search 'code:no_allow agent:support-*' --config wicketgate.yaml --json\n\n\
    Terms: agent, by, call, chain, code, enforced, finding, host, outcome, parent, rule, run, state, tier, tool, verdict,\n\
    version, since, until. All must match; `-` in front excludes; `*` at the end of a value stands for any ending. A word without a colon\n\
    is the beginning of the id of a run or a call, or of an agent, a tool, a code or a host. `since` and `until` take a date, a\n\
    time or a duration back from now. A query that begins with `-` stands behind `--`, after all options.")]
pub struct Args {
    /// The query
    #[arg(value_name = "QUERY")]
    query: String,
    /// Most calls and most runs to list; at most 200
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u16,
    #[command(flatten)]
    source: Source,
}

/// Runs the command.
pub fn run(args: &Args) -> Exit {
    block_on(search(args)).and_then(|done| done).unwrap_or_else(|exit| exit)
}

async fn search(args: &Args) -> Result<Exit, Exit> {
    let lookup = args.source.open().await?;
    let (q, limit) = (Some(args.query.clone()), Some(args.limit.into()));
    let runs = RunSearch { state: Some("all".into()), q: q.clone(), limit, ..RunSearch::default() };
    let (run_body, runs) = lookup.runs(&runs).await?;
    let (call_body, calls) =
        lookup.calls(&CallSearch { q, limit, ..CallSearch::default() }).await?;
    if args.source.json {
        say(json!({"runs": run_body, "calls": call_body}).to_string());
        return Ok(Exit::Ok);
    }
    runs.runs.iter().for_each(|run| say(run_line(run)));
    if !runs.runs.is_empty() && !calls.calls.is_empty() {
        say("");
    }
    calls.calls.iter().for_each(|call| say(call_line(call)));
    more((
        runs.next.is_some() || calls.next.is_some(),
        runs.runs.is_empty() && calls.calls.is_empty(),
    ));
    reached(&calls.as_of, calls.behind);
    Ok(Exit::Ok)
}

/// Says that a list goes on, or that it is empty.
pub fn more((more, empty): (bool, bool)) {
    if empty {
        note("no match");
    } else if more {
        note("there are more: narrow the query, or raise `--limit`");
    }
}

/// Says how far an index is that does not have every entry yet.
pub fn reached(as_of: &str, behind: u64) {
    if behind > 0 {
        note(format!(
            "the index is being filled: {behind} entries are not in it yet, complete up to {as_of}"
        ));
    }
}

/// A call as one line.
pub fn call_line(call: &CallLine) -> String {
    let tool = call.tool.as_deref().unwrap_or("-");
    let mut line = format!(
        "{}  {}  {}  {}  {tool}  {}  {}",
        call.at, call.run, call.call, call.agent, call.verdict, call.state
    );
    let took = call.us.map(|us| format!("{} ms", us / 1000));
    let code = call.detail.as_ref().or(call.code.as_ref()).cloned();
    let by = (!call.decided_by.is_empty()).then(|| format!("by {}", call.decided_by.join(", ")));
    let masked = (call.masked > 0).then(|| format!("{} masked", call.masked));
    let ran = (!call.enforced && call.verdict != "allow").then(|| "(not enforced: IT RAN)".into());
    let others = call.findings.iter().filter(|one| *one != "masked").cloned().collect::<Vec<_>>();
    let found = (!others.is_empty()).then(|| format!("found {}", others.join(", ")));
    let to = (!call.hosts.is_empty()).then(|| format!("to {}", call.hosts.join(", ")));
    let parts = [call.tier.clone(), to, call.outcome.clone(), took, code, by, masked, found, ran];
    for part in parts.into_iter().flatten() {
        line.push_str("  ");
        line.push_str(&part);
    }
    visible(&line)
}

/// A run as one line.
pub fn run_line(run: &RunLine) -> String {
    let state = match (&run.sealed, &run.reason) {
        (None, _) => "open".to_owned(),
        (Some(at), None) => format!("sealed {at}"),
        (Some(at), Some(reason)) => format!("sealed {at} ({reason})"),
    };
    let parent = run.parent.as_ref().map(|parent| format!("  for {parent}")).unwrap_or_default();
    let line = format!(
        "{}  {}  {} {}  {state}  calls {}  in flight {}  held {}  denied {}{parent}",
        run.opened, run.run, run.agent, run.version, run.calls, run.in_flight, run.held, run.denied
    );
    visible(&line)
}
