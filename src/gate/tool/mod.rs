//! Access to tools: `prepare` opens and resolves, `run` spends a permit. No other code reaches a
//! tool.
//!
//! Every kind has an executor in a folder or file of its own, all built alike. `prepare` has no
//! external effect and never uses the network; `execute` takes the permit, which carries the
//! prepared call. There are no retries: one permit, one execution.
//!
//! This file is the registry of the kinds: `open` builds an executor for a binding, `look`
//! reports to an operator what a binding needs. A new kind has one arm in each.

mod cancel;
pub mod client;
pub mod command;
mod content;
mod error;
pub mod fetch;
pub mod file;
mod forms;
pub mod grpc;
pub mod guard;
pub mod http;
pub mod limit;
pub mod mcp;
pub mod model;
pub mod net;
mod number;
mod path;
pub mod probe;
mod request;
pub mod sandbox;
pub mod scrub;
mod shape;
pub mod sql;
mod text;
pub mod toolbox;

pub use cancel::{CANCELLED, Cancel, LEFT, STOPPED};
pub use error::Error;
pub use guard::{Guard, Screened, screen};
pub use toolbox::{Tool, Toolbox, executor, prepare};

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;

use self::mcp::Upstreams;
use self::net::Resolve;
use self::probe::Point;
use self::scrub::Scrub;
use crate::catalog::Kind;
use crate::catalog::model::ModelFace;
use crate::clock::Clock;
use crate::domain::call::ToolCall;
use crate::domain::decision::LayerReason;
use crate::domain::effect::{Effect, ToolKind};
use crate::domain::facts::ToolFacts;
use crate::domain::json::Json;
use crate::domain::outcome::{FailureClass, Outcome, Unmasked};
use crate::judge::prepared::PreparedResource;
use crate::ledger::flow::{Flow, FlowSender};
use crate::ledger::outgoing::ClearedOutcome;
use crate::ledger::permit::{Finished, Permit};
use crate::limits::Spend;

/// Port to one bound tool.
#[async_trait]
pub trait ToolExecutor: Send + Sync + 'static {
    /// Opens and resolves the call's target: a descriptor, a parsed URL. No external effect, no
    /// network.
    ///
    /// # Errors
    /// Every reason that the call cannot run.
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>>;

    /// The hosts that the prepared call reaches, as the binding names them: the entry of its decision keeps them, which
    /// nothing erases, so no text of the agent's may be among them.
    fn hosts(&self, effect: &Effect) -> Vec<String> {
        effect.hosts().into_iter().map(str::to_owned).collect()
    }

    /// The maximum that the call may take from its run's budgets, if it depends on the arguments:
    /// tokens of a model and their price. `None`: the cost that the binding declares for every
    /// call. `args_bytes` is the size of the canonical arguments, which need not be valid yet.
    fn most(&self, args: &Json, args_bytes: u64) -> Option<Spend> {
        let _ = (args, args_bytes);
        None
    }

    /// The same for one call.
    fn most_of(&self, call: &ToolCall) -> Option<Spend> {
        let bytes = u64::try_from(call.canonical().len()).unwrap_or(u64::MAX);
        self.most(call.args(), bytes)
    }

    /// How agents may ask it in the dialects of models, if it is a model that they may ask so.
    fn model_face(&self) -> Option<&ModelFace> {
        None
    }

    /// The data to undo the prepared call, as canonical JSON. It is requested for calls of tier T1,
    /// and becomes durable with their authorisation. `None`: the kind keeps none.
    ///
    /// # Errors
    /// The data is required and cannot be kept; the call is refused.
    fn pre_image(&self, hold: &(dyn Any + Send + Sync)) -> Result<Option<Json>, LayerReason> {
        let _ = hold;
        Ok(None)
    }

    /// What the binding put together from arguments for the prepared call and its effect does not show,
    /// such as a body by a template. The firewall searches it as the receiver reads it. `None`: the
    /// effect and the arguments show everything that leaves.
    fn composed<'h>(&self, hold: &'h (dyn Any + Send + Sync)) -> Option<&'h Json> {
        let _ = hold;
        None
    }

    /// Checks once, before the gate serves, that the backend is fit for use. An unreachable backend
    /// is not an error, because it may be reachable later.
    ///
    /// # Errors
    /// Why the backend must not be used, for the operator.
    async fn look(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Runs the permitted call once, with the resource that `prepare` made. Every failure is an
    /// outcome. The future is dropped when the deadline passes or the caller cancels.
    async fn execute(&self, permit: &Permit) -> Unmasked;

    /// The same for a call whose answer may leave while it runs.
    /// `scrub`: what nothing that leaves may hold.
    async fn stream(&self, permit: &Permit, flow: Flow<'_>, scrub: &Scrub) -> Unmasked {
        let _ = scrub;
        drop(flow);
        self.execute(permit).await
    }
}

/// Opens the resources that a checked tool needs: roots, clients, programs. Uses no network.
fn open(
    kind: Kind,
    facts: &ToolFacts,
    upstreams: &Upstreams,
    resolve: &Arc<dyn Resolve>,
) -> Result<Arc<dyn ToolExecutor>, Error> {
    let (read_only, most) = (facts.read_only, facts.result_bytes_max);
    Ok(match kind {
        Kind::Http(http) => Arc::new(http::Http::new(*http, read_only, most, Arc::clone(resolve))?),
        Kind::Fetch(fetch) => Arc::new(fetch::Fetch::new(*fetch, most, Arc::clone(resolve))?),
        Kind::FileRead(root) => Arc::new(file::FileRead::new(&root, most)?),
        Kind::FileList(listing) => Arc::new(file::FileList::new(&listing, most)?),
        Kind::FileWrite(writing) => Arc::new(file::FileWrite::new(&writing)?),
        Kind::Command(command) => {
            let shared = (upstreams.workspaces(), upstreams.places());
            let levels = upstreams.levels();
            Arc::new(command::Command::new(*command, read_only, most, levels, shared)?)
        }
        Kind::Sql(sql) => Arc::new(sql::SqlTool::new(*sql, most, Arc::clone(resolve))?),
        Kind::Model(model) => {
            Arc::new(model::Model::new(model, facts.cost_micro_usd, most, resolve)?)
        }
        Kind::Grpc(grpc) => Arc::new(grpc::Grpc::new(*grpc, facts, Arc::clone(resolve))?),
        Kind::Mcp(mcp) => {
            let server = &mcp.server.name;
            let upstream = upstreams.get(server).ok_or_else(|| Error::NoServer(server.clone()))?;
            if let Some(demand) = mcp.server.demand() {
                upstreams.levels().meet(demand)?;
            }
            Arc::new(mcp::McpTool::new(Arc::clone(upstream), *mcp, read_only, most)?)
        }
    })
}

/// Probes everything that a checked tool needs, without a call.
async fn look(kind: Kind, setup: &probe::ProbeSetup) -> Vec<Point> {
    let resolve = &setup.resolve;
    match kind {
        Kind::Http(http) => http::probe(&http, resolve).await,
        Kind::Fetch(fetch) => fetch::probe(&fetch, resolve).await,
        Kind::FileRead(root) => file::probe(&root, false),
        Kind::FileList(listing) => file::probe(&listing.root, false),
        Kind::FileWrite(writing) => file::probe(&writing.root, true),
        Kind::Command(command) => {
            let levels = Arc::clone(&setup.levels);
            // Hashing programs and testing a sandbox block the thread.
            let looking = tokio::task::spawn_blocking(move || command::probe(&command, &levels));
            looking.await.unwrap_or_else(|lost| {
                let why = format!("the look itself failed: {lost}");
                vec![Point::wrong("look", probe::ProbeState::Unreached, why, "")]
            })
        }
        Kind::Sql(sql) => sql::probe(*sql, Arc::clone(resolve)).await,
        Kind::Model(model) => model::probe(&model, resolve).await,
        Kind::Grpc(grpc) => grpc::probe(&grpc, resolve).await,
        // The tools of a server are compared where the server itself is probed.
        Kind::Mcp(_) => Vec::new(),
    }
}

/// Runs a permitted call until it ends, its deadline passes or `cancel` fires. Whatever happens
/// inside, there is an outcome.
///
/// A caller that disconnects does not stop this: the road runs on its own task.
pub async fn run(
    executor: &Arc<dyn ToolExecutor>,
    clock: &dyn Clock,
    permit: Permit,
    (cancel, to): (&Cancel, Option<FlowSender>),
) -> Finished {
    let started = clock.monotonic();
    if cancel.is_cancelled() {
        let outcome = Outcome::Cancelled { reason: cancel.why().into() };
        return permit.finish(ClearedOutcome::unanswered(outcome));
    }
    cancel.begin();
    let timeout = permit.prepared().tool().map_or(Duration::ZERO, |tool| tool.timeout);
    let none = Scrub::default();
    let running = match to {
        Some(to) => executor.stream(&permit, permit.flow(to), &none),
        None => executor.execute(&permit),
    };
    let execution = AssertUnwindSafe(running).catch_unwind();
    let execution = tokio::time::timeout(timeout, execution);
    let unmasked = tokio::select! {
        // A call that has ended counts as ended, even if it is cancelled at the same moment.
        biased;
        ended = execution => match ended {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_panic)) => Unmasked::Unknown { cause: "panic".into() },
            Err(_elapsed) => deadline(permit.prepared().tool()),
        },
        () = cancel.cancelled() => stopped(permit.prepared().tool(), cancel.why()),
    };
    let took = clock.monotonic().saturating_sub(started);
    let cleared = guard::release(&permit, unmasked, (took, 1));
    permit.finish(cleared)
}

/// The outcome of a call that was stopped half way. It is unknown whether the tool acted, unless it
/// only reads.
fn stopped(tool: Option<&ToolFacts>, why: &str) -> Unmasked {
    // A model writes nothing but its answer.
    let reads = |tool: &ToolFacts| tool.read_only || tool.kind == ToolKind::Model.as_str();
    if tool.is_some_and(reads) {
        Unmasked::Cancelled { reason: why.into() }
    } else {
        Unmasked::Unknown { cause: "cancelled".into() }
    }
}

/// The outcome after the deadline. It is unknown whether the tool acted, unless acting changes
/// nothing.
fn deadline(tool: Option<&ToolFacts>) -> Unmasked {
    if tool.is_some_and(|tool| tool.read_only) {
        Unmasked::Failed {
            class: FailureClass::Timeout,
            started: true,
            message: "the tool did not answer before its deadline".into(),
        }
    } else {
        Unmasked::Unknown { cause: "deadline".into() }
    }
}
