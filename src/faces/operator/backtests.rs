//! Backtests of bundles over the operator API: one at a time, in a child process of this program.
//!
//! The child reads the ledger and decides again; it gets no key. This process signs the result with the evidence key.
//! The newest results stay in memory: a restart forgets them. Who needs one later keeps its signed statement.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::api::policies::{BacktestJob, BacktestJobs};
use super::api::{OperatorRequest, requests, route};
use super::{Cause, OperatorApi};
use crate::clock::random16;
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};
use crate::evidence::backtest::statement;
use crate::index::query::time;
use crate::serve::problem::Problem;

/// Decisions that one backtest evaluates at most.
pub const DECISIONS_MAX: u64 = 1_000_000;
/// Results that are kept.
const KEPT_MAX: usize = 16;

/// What a backtest evaluates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BacktestOrder {
    /// The archive of the bundle.
    pub bundle: PathBuf,
    /// The tenant whose logs are read.
    pub tenant: String,
    /// Only decisions since this time.
    pub since: Option<String>,
    /// Only decisions before this time.
    pub until: Option<String>,
    /// Only calls of this agent.
    pub agent: Option<String>,
    /// Only calls of this tool.
    pub tool: Option<String>,
    /// Decisions at most.
    pub limit: u64,
}

/// Evaluates a bundle in a process of its own.
#[async_trait]
pub trait Backtester: Send + Sync {
    /// What `wicketgate policy backtest --json` prints. Dropped before it ends, the process is ended.
    ///
    /// # Errors
    /// Why there is no result.
    async fn backtest(&self, order: &BacktestOrder) -> Result<Vec<u8>, Cause>;
}

/// The backtests of this process.
pub(super) struct Backtests {
    tester: Arc<dyn Backtester>,
    jobs: parking_lot::Mutex<VecDeque<BacktestJob>>,
}

impl Backtests {
    fn is_running(&self) -> bool {
        self.jobs.lock().iter().any(|job| job.state == "running")
    }

    /// Adds a job, unless one runs.
    fn begin(&self, job: BacktestJob) -> bool {
        let mut jobs = self.jobs.lock();
        if jobs.iter().any(|one| one.state == "running") {
            return false;
        }
        jobs.push_front(job);
        jobs.truncate(KEPT_MAX);
        true
    }

    fn end(&self, ended: &BacktestJob) {
        let mut jobs = self.jobs.lock();
        if let Some(job) = jobs.iter_mut().find(|job| job.id == ended.id) {
            job.clone_from(ended);
        }
    }
}

impl OperatorApi {
    /// Enables backtests. The first call counts; later ones change nothing.
    pub fn allow_backtests(&self, tester: Arc<dyn Backtester>) {
        let backtests = Backtests { tester, jobs: parking_lot::Mutex::default() };
        drop(self.backtests.set(Arc::new(backtests)));
    }

    fn backtester(&self) -> Result<&Arc<Backtests>, Problem> {
        self.backtests.get().ok_or_else(|| {
            let message =
                "no evidence key is configured here (`evidence.key`), so no backtest can be signed";
            self.refused(Code::RequestMalformed, "backtest.none", message)
        })
    }

    /// Begins a backtest.
    ///
    /// # Errors
    /// Another one runs, or the bundle is not known here.
    pub(super) async fn begin_backtest(
        self: &Arc<Self>,
        asked: OperatorRequest<route::Backtest>,
    ) -> Result<BacktestJob, Problem> {
        let backtests = Arc::clone(self.backtester()?);
        let service = self.evidence()?;
        let busy = || {
            let message = "another backtest is running: wait for it";
            Err(self.refused(Code::LimitExceeded, "backtest.busy", message))
        };
        if backtests.is_running() {
            return busy();
        }
        let requests::BacktestRequest { bundle, since, until, agent, tool, limit } = asked.request;
        let digest = self.bundle_digest(&bundle)?;
        let known = self.known_bundle(&digest).await?;
        let id = hex::encode(random16(&*self.entropy));
        let order = BacktestOrder {
            bundle: service.evidence.scratch.join(format!("{BUNDLE}{id}.tar")),
            tenant: self.tenant.clone(),
            since: self.backtest_time("since", since)?,
            until: self.backtest_time("until", until)?,
            agent: self.backtest_name("agent", agent)?,
            tool: self.backtest_name("tool", tool)?,
            limit: limit.unwrap_or(DECISIONS_MAX).clamp(1, DECISIONS_MAX),
        };
        let job = BacktestJob {
            id,
            bundle: digest.prefixed(),
            subject: asked.who.subject,
            began: self.clock.now().to_string(),
            ended: None,
            state: "running".to_owned(),
            error: None,
            result: Value::Null,
            statement: Value::Null,
        };
        if !backtests.begin(job.clone()) {
            return busy();
        }
        let (api, mut running) = (Arc::clone(self), job.clone());
        self.tasks.spawn(async move {
            let tar = known.bundle.tar().to_vec();
            let tested = tokio::select! {
                biased;
                () = api.closing.cancelled() => Err("this process is ending".into()),
                tested = api.backtested(&backtests, &order, (&digest, tar)) => tested,
            };
            drop(tokio::fs::remove_file(&order.bundle).await);
            running.ended = Some(api.clock.now().to_string());
            match tested {
                Ok((result, statement)) => {
                    "done".clone_into(&mut running.state);
                    (running.result, running.statement) = (result, statement);
                }
                Err(why) => {
                    tracing::warn!(%why, "a backtest failed");
                    "failed".clone_into(&mut running.state);
                    running.error = Some(super::visible(&why.to_string()));
                }
            }
            backtests.end(&running);
        });
        Ok(job)
    }

    /// Runs the child, and signs what it prints.
    async fn backtested(
        &self,
        backtests: &Backtests,
        order: &BacktestOrder,
        (digest, tar): (&Digest, Vec<u8>),
    ) -> Result<(Value, Value), Cause> {
        let service = self.evidence.get().ok_or("no evidence key is configured here")?;
        write_private(&order.bundle, tar).await?;
        let printed = backtests.tester.backtest(order).await?;
        let predicate = Json::parse(printed.trim_ascii(), &Limits::FILE);
        let predicate = predicate.map_err(|_| "the backtest printed no result")?;
        let result = predicate.to_serde();
        let envelope = statement::sign_by(predicate, digest, &*service.evidence.key)?;
        Ok((result, serde_json::from_slice(&envelope)?))
    }

    /// A time as the child reads it.
    fn backtest_time(&self, name: &str, text: Option<String>) -> Result<Option<String>, Problem> {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
        let at = time(&text, self.clock.now()).ok_or_else(|| {
            let message = format!("`{name}` must be a date, a time or a duration back from now");
            self.refused(Code::RequestMalformed, "backtest.time", message)
        })?;
        Ok(Some(at.to_string()))
    }

    /// A name that is no option of a command line.
    fn backtest_name(&self, name: &str, text: Option<String>) -> Result<Option<String>, Problem> {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
        if text.len() > NAME_MAX || text.starts_with('-') || text.contains(char::is_control) {
            let message = format!("`{name}` must be a name of at most {NAME_MAX} bytes");
            return Err(self.refused(Code::RequestMalformed, "backtest.name", message));
        }
        Ok(Some(text))
    }

    /// The backtests of this process, the newest first.
    ///
    /// # Errors
    /// None can be made here.
    pub(super) async fn list_backtests(
        &self,
        _: OperatorRequest<route::Backtests>,
    ) -> Result<BacktestJobs, Problem> {
        let jobs = self.backtester()?.jobs.lock().clone();
        let bare =
            |job: BacktestJob| BacktestJob { result: Value::Null, statement: Value::Null, ..job };
        Ok(BacktestJobs { backtests: jobs.into_iter().map(bare).collect() })
    }

    /// One backtest.
    ///
    /// # Errors
    /// This process has none of this id.
    pub(super) async fn show_backtest(
        &self,
        asked: OperatorRequest<route::BacktestDetail>,
    ) -> Result<BacktestJob, Problem> {
        let jobs = self.backtester()?.jobs.lock();
        let found = jobs.iter().find(|job| job.id == asked.path.id).cloned();
        found.ok_or_else(|| {
            let message = "no such backtest: a restart forgets them, and only the newest are kept";
            self.refused(Code::CallNotFound, "backtest.unknown", message)
        })
    }
}

/// The beginning of a bundle's file name in the directory of temporary files.
pub(super) const BUNDLE: &str = "backtest-";
/// Bytes of a name.
const NAME_MAX: usize = 256;

async fn write_private(path: &Path, bytes: Vec<u8>) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = path.to_owned();
    let written = tokio::task::spawn_blocking(move || {
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(&bytes)
    });
    written.await.unwrap_or_else(|_panicked| Err(std::io::Error::other("it ended early")))
}
