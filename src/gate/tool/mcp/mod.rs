//! The `mcp` kind: tools of servers that speak the Model Context Protocol.
//!
//! One `Upstream` per server: it connects, keeps the connection, starts again after a crash, and
//! compares what the server shows with what the lock pins. A tool is called only with a permit.
//! Messages are joined by ids of this gate's own, results stay the bytes they came as, and what a
//! server asks of its client (a model's answer, a person's, a list of roots) is refused.

mod call;
mod capabilities;
mod confined;
mod error;
pub mod files;
mod handshake;
mod keeper;
mod lines;
mod link;
mod list;
mod pin;
mod pipe;
mod process;
mod remote;
mod result;
mod traffic;
mod tunnel;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Deserialize;
use tokio_util::task::TaskTracker;

pub(super) use call::McpTool;
pub use confined::locate;
pub use error::{DiscoverError, Error};

use crate::catalog::drift::Drift;
use crate::catalog::server::Server;
use crate::clock::{Entropy, SystemEntropy};
use crate::domain::json::Json;
use crate::mcp::Version;
use crate::mcp::raw::Members;
use crate::telemetry::metrics::Metrics;
use crate::tool::net::{Resolve, System};
use crate::tool::sandbox::{Levels, SandboxSlots, Workspaces};
use keeper::{ConnectionState, Keeper, ServerHost};
use pin::Pin;

/// How long servers may take to end, all together.
const CLOSE: Duration = Duration::from_secs(10);

/// What a server said of itself.
#[derive(Clone, PartialEq, Debug)]
pub struct Probed {
    /// The version that was agreed on.
    pub protocol: Version,
    /// `serverInfo`.
    pub server_info: Json,
    /// Every tool object, as it came.
    pub tools: Vec<Json>,
    /// The methods of [`crate::catalog::server::METHODS`] it answers to.
    pub methods: Vec<&'static str>,
    /// Tools that cannot be read or told apart, and why; they cannot be signed.
    pub left_out: Vec<String>,
}

/// How the gate and one server stand.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerStatus {
    /// `down`, `starting`, `comparing`, `up` or `closed`.
    pub state: &'static str,
    /// The version that is spoken.
    pub protocol: Option<Version>,
    /// Attempts to connect that failed, in all.
    pub failures: u64,
    /// What went wrong last, for the operator.
    pub error: Option<String>,
    /// Pinned tools that are not as they were signed, in name order.
    pub drifted: Vec<(String, Drift)>,
}

/// Why a server does not say what it offers.
#[derive(Debug, thiserror::Error)]
#[error("server `{server}`: {why}")]
pub struct ProbeError {
    /// The server.
    pub server: String,
    /// Why.
    pub why: Error,
}

/// One server and the connection to it. Dropped, its connection and its child end.
#[derive(Debug)]
pub struct McpUpstream {
    keeper: Arc<Keeper>,
}

impl McpUpstream {
    /// The server.
    #[must_use]
    pub fn server(&self) -> &Arc<Server> {
        &self.keeper.server
    }

    /// Connects if need be, and asks the server what it offers. Calls no tool. Takes as long as the
    /// server may take to start: the caller has a deadline.
    ///
    /// # Errors
    /// It cannot be reached, or what it says is no MCP.
    pub async fn probe(&self) -> Result<Probed, ProbeError> {
        let error = |why: Error| ProbeError { server: self.server().name.clone(), why };
        let link = match self.keeper.ready().await {
            Ok(link) => link,
            Err(public) => return Err(error(self.keeper.state().2.map_or(public, Error::Masked))),
        };
        let capabilities = &link.spoken.capabilities;
        let listed = if capabilities.tools.is_some() {
            list::tools(&link).await.map_err(error)?
        } else {
            list::Listed::default()
        };
        if listed.tools().iter().any(|tool| self.keeper.shows_secret(tool)) {
            return Err(error(Error::Secret));
        }
        Ok(Probed {
            protocol: link.spoken.version,
            server_info: link.spoken.server_info.clone(),
            tools: listed.tools(),
            methods: capabilities.methods(),
            left_out: listed.left_out,
        })
    }

    /// How things stand. Starts nothing.
    #[must_use]
    pub fn standing(&self) -> ServerStatus {
        let (state, failures, error) = self.keeper.state();
        let protocol =
            if let ConnectionState::Up(link) = &state { Some(link.spoken.version) } else { None };
        let drifted = self.keeper.drifted();
        ServerStatus { state: state.word(), protocol, failures, error, drifted }
    }

    /// Watches one pinned tool for as long as the pin is held.
    fn pin(&self, tool: &str, pinned: &[u8]) -> Result<Arc<Pin>, Error> {
        let pin = Pin::new(tool, pinned)?;
        self.keeper.watch(&pin);
        Ok(pin)
    }
}

/// An object of a server as a type: a name that is there twice is refused wherever in the object it stands.
fn strict<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, serde_json::Error> {
    Members::parse(text.as_bytes())?;
    serde_json::from_str(text)
}

impl Drop for McpUpstream {
    fn drop(&mut self) {
        self.keeper.stop.cancel();
    }
}

/// Every server of this process, by name.
#[derive(Debug, Default)]
pub struct Upstreams {
    all: BTreeMap<String, Arc<McpUpstream>>,
    tasks: TaskTracker,
    metrics: Arc<OnceLock<Arc<Metrics>>>,
    levels: Arc<Levels>,
    workspaces: Arc<Workspaces>,
    places: Arc<SandboxSlots>,
}

impl Upstreams {
    /// One upstream per server; nothing is started. A server starts with its first call, with
    /// `probe`, or with `start_all`.
    #[must_use]
    pub fn new(servers: &[Arc<Server>]) -> Self {
        Self::with(servers, &(Arc::new(SystemEntropy) as _), &(Arc::new(System) as _))
    }

    /// As `new`, with randomness and a resolver of one's own.
    #[must_use]
    pub fn with(
        servers: &[Arc<Server>],
        entropy: &Arc<dyn Entropy>,
        resolve: &Arc<dyn Resolve>,
    ) -> Self {
        let (tasks, metrics) = (TaskTracker::new(), Arc::new(OnceLock::new()));
        let around = ServerHost {
            entropy: Arc::clone(entropy),
            resolve: Arc::clone(resolve),
            metrics: Arc::clone(&metrics),
            tasks: tasks.clone(),
            levels: Arc::default(),
        };
        let levels = Arc::clone(&around.levels);
        let all = servers.iter().map(|server| {
            let keeper = Keeper::new(server, around.clone());
            (server.name.clone(), Arc::new(McpUpstream { keeper }))
        });
        let (workspaces, places) = Default::default();
        Self { all: all.collect(), tasks, metrics, levels, workspaces, places }
    }

    /// These servers in place of those before. One that is reached as before, with the same credentials,
    /// keeps its connection; nothing is started.
    #[must_use]
    pub fn following(before: &Self, servers: &[Arc<Server>]) -> Self {
        let around = ServerHost {
            entropy: Arc::new(SystemEntropy),
            resolve: Arc::new(System),
            metrics: Arc::clone(&before.metrics),
            tasks: before.tasks.clone(),
            levels: Arc::clone(&before.levels),
        };
        let all = servers.iter().map(|server| {
            let kept = before.get(&server.name).filter(|old| old.server().is_reached_as(server));
            let upstream = kept.map_or_else(
                || Arc::new(McpUpstream { keeper: Keeper::new(server, around.clone()) }),
                Arc::clone,
            );
            (server.name.clone(), upstream)
        });
        Self {
            all: all.collect(),
            tasks: before.tasks.clone(),
            metrics: Arc::clone(&before.metrics),
            levels: Arc::clone(&before.levels),
            workspaces: Arc::clone(&before.workspaces),
            places: Arc::clone(&before.places),
        }
    }

    /// Which sandbox levels this system has, found out once.
    #[must_use]
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// The workspaces of runs: like connections, they outlive the tools that were opened with them.
    #[must_use]
    pub const fn workspaces(&self) -> &Arc<Workspaces> {
        &self.workspaces
    }

    /// The places of all commands that run at once, whichever tools they were opened with.
    #[must_use]
    pub const fn places(&self) -> &Arc<SandboxSlots> {
        &self.places
    }

    /// From now on drift, restarts and dropped messages are counted here; the first call counts.
    pub fn observe(&self, metrics: &Arc<Metrics>) {
        let _ = self.metrics.set(Arc::clone(metrics));
    }

    /// Starts every server that is not started. Needs a runtime, and waits for none of them.
    pub fn start_all(&self) {
        self.all.values().for_each(|upstream| upstream.keeper.start());
    }

    /// The upstream of this name.
    #[must_use]
    pub fn get(&self, server: &str) -> Option<&Arc<McpUpstream>> {
        self.all.get(server)
    }

    /// Every upstream in name order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<McpUpstream>> {
        self.all.values()
    }

    /// Ends every connection and every child, and waits until they are gone.
    pub async fn close(&self) {
        self.all.values().for_each(|upstream| upstream.keeper.stop.cancel());
        self.tasks.close();
        let _ = tokio::time::timeout(CLOSE, self.tasks.wait()).await;
    }
}

#[cfg(test)]
mod tests;
