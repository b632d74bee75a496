//! The `mcp` kind: tools of servers that speak the Model Context Protocol.
//!
//! One `Upstream` per server: it connects, keeps the connection, starts again after a crash, and
//! compares what the server shows with what the lock pins. A tool is called only with a permit.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::server::Server;
use crate::domain::json::Json;
use crate::mcp::Version;

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
}

/// Why nothing came of it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("server `{server}`: {message}")]
pub struct Error {
    /// The server.
    pub server: String,
    /// Why.
    pub message: String,
}

/// One server and the connection to it.
#[derive(Debug)]
pub struct Upstream {
    server: Arc<Server>,
}

impl Upstream {
    /// The server.
    #[must_use]
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Connects if need be, and asks the server what it offers. Calls no tool.
    ///
    /// # Errors
    /// It cannot be reached, or what it says is no MCP.
    pub async fn probe(&self) -> Result<Probed, Error> {
        std::future::ready(()).await;
        Err(Error { server: self.server.name.clone(), message: "not built yet".to_owned() })
    }
}

/// Every server of this process, by name.
#[derive(Debug, Default)]
pub struct Upstreams {
    all: BTreeMap<String, Arc<Upstream>>,
}

impl Upstreams {
    /// One upstream per server; nothing is started.
    #[must_use]
    pub fn new(servers: &[Arc<Server>]) -> Self {
        let all = servers
            .iter()
            .map(|server| (server.name.clone(), Arc::new(Upstream { server: Arc::clone(server) })));
        Self { all: all.collect() }
    }

    /// The upstream of this name.
    #[must_use]
    pub fn get(&self, server: &str) -> Option<&Arc<Upstream>> {
        self.all.get(server)
    }

    /// Every upstream in name order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.all.values()
    }

    /// Ends every connection and every child.
    pub async fn close(&self) {
        std::future::ready(()).await;
    }
}
