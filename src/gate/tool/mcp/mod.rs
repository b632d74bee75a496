//! The `mcp` kind: tools of servers that speak the Model Context Protocol.
//!
//! One `McpUpstream` per server connects, keeps the connection, restarts after a crash, and
//! compares the server's tools with those that the lock pins. A tool is called only with a permit.
//! Messages are matched by the gate's own ids, results keep their original bytes, and requests of a
//! server to its client (for a model's answer, a person's, a list of roots) are refused.

mod call;
mod capabilities;
mod confined;
mod error;
mod files;
mod handshake;
mod link;
mod list;
mod pin;
mod pipe;
mod probe;
mod process;
mod remote;
mod result;
mod supervisor;
mod traffic;
mod tunnel;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::task::TaskTracker;

pub(super) use call::McpTool;
pub use confined::locate;
pub use error::{DiscoverError, Error};
pub use probe::{Offer, ProbeError, Probed, ServerOffer};

use crate::catalog::drift::Drift;
use crate::catalog::server::Server;
use crate::clock::SystemEntropy;
use crate::mcp::Version;
use crate::telemetry::metrics::Metrics;
use crate::tool::net::System;
use crate::tool::sandbox::{Levels, SandboxSlots, Workspaces};
use pin::Pin;
use supervisor::{ConnectionState, ConnectionSupervisor, ServerHost};

/// How long all servers together may take to end.
const CLOSE: Duration = Duration::from_secs(10);

/// The state of the connection to one server.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerStatus {
    /// `down`, `starting`, `comparing`, `up` or `closed`.
    pub state: &'static str,
    /// The version in use.
    pub protocol: Option<Version>,
    /// The number of failed attempts to connect.
    pub failures: u64,
    /// The last error, for the operator.
    pub error: Option<String>,
    /// Pinned tools that differ from what was signed, in name order.
    pub drifted: Vec<(String, Drift)>,
}

/// One server and the connection to it. Dropping it ends the connection and the child process.
#[derive(Debug)]
pub struct McpUpstream {
    supervisor: Arc<ConnectionSupervisor>,
}

impl McpUpstream {
    /// The server.
    #[must_use]
    pub fn server(&self) -> &Arc<Server> {
        &self.supervisor.server
    }

    /// The current state. Does not start the server.
    #[must_use]
    pub fn status(&self) -> ServerStatus {
        let (state, failures, error) = self.supervisor.state();
        let protocol = if let ConnectionState::Up(link) = &state {
            Some(link.negotiated.version)
        } else {
            None
        };
        let drifted = self.supervisor.drifted();
        ServerStatus { state: state.as_str(), protocol, failures, error, drifted }
    }

    /// Compares one pinned tool for as long as the pin is held.
    fn pin(&self, tool: &str, pinned: &[u8]) -> Result<Arc<Pin>, Error> {
        let pin = Pin::new(tool, pinned)?;
        self.supervisor.watch(&pin);
        Ok(pin)
    }
}

impl Drop for McpUpstream {
    fn drop(&mut self) {
        self.supervisor.stop.cancel();
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
    /// One upstream per server; none is started. A server starts with its first call, with `probe`,
    /// or with `start_all`.
    #[must_use]
    pub fn new(servers: &[Arc<Server>]) -> Self {
        Self::following(&Self::default(), servers)
    }

    /// Replaces the servers. A server with the same address and credentials keeps its connection;
    /// none is started.
    #[must_use]
    pub fn following(before: &Self, servers: &[Arc<Server>]) -> Self {
        let host = ServerHost {
            entropy: Arc::new(SystemEntropy),
            resolve: Arc::new(System),
            metrics: Arc::clone(&before.metrics),
            tasks: before.tasks.clone(),
            levels: Arc::clone(&before.levels),
        };
        let all = servers.iter().map(|server| {
            let kept = before.get(&server.name).filter(|old| old.server().is_reached_as(server));
            let upstream = kept.map_or_else(
                || {
                    Arc::new(McpUpstream {
                        supervisor: ConnectionSupervisor::new(server, host.clone()),
                    })
                },
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

    /// The sandbox levels of this system, determined once.
    #[must_use]
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// The workspaces of runs. Like connections, they outlive the tools that were opened with them.
    #[must_use]
    pub const fn workspaces(&self) -> &Arc<Workspaces> {
        &self.workspaces
    }

    /// The slots for all concurrent commands, whichever tools they were opened with.
    #[must_use]
    pub const fn places(&self) -> &Arc<SandboxSlots> {
        &self.places
    }

    /// Sets the metrics for drift, restarts and dropped messages; only the first call has an
    /// effect.
    pub fn observe(&self, metrics: &Arc<Metrics>) {
        let _ = self.metrics.set(Arc::clone(metrics));
    }

    /// Starts every server that is not started. Needs a runtime, and does not wait for any server.
    pub fn start_all(&self) {
        self.all.values().for_each(|upstream| upstream.supervisor.start());
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

    /// Ends every connection and every child process, and waits for them.
    pub async fn close(&self) {
        self.all.values().for_each(|upstream| upstream.supervisor.stop.cancel());
        self.tasks.close();
        let _ = tokio::time::timeout(CLOSE, self.tasks.wait()).await;
    }
}

#[cfg(test)]
mod tests;
