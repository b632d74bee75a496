//! Asks servers for their offers, without calling a tool.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::{Error, McpUpstream, Upstreams, files, list};
use crate::catalog::lock::{LockedServer, Shown, UngovernedTool};
use crate::catalog::server::Server;
use crate::domain::json::Json;
use crate::mcp::Version;

/// A server's description of itself.
#[derive(Clone, PartialEq, Debug)]
pub struct Probed {
    /// The negotiated version.
    pub protocol: Version,
    /// `serverInfo`.
    pub server_info: Json,
    /// Every tool object, unchanged.
    pub tools: Vec<Json>,
    /// The methods of [`crate::catalog::server::METHODS`] that it supports.
    pub methods: Vec<&'static str>,
    /// Tools that cannot be read or distinguished, with the reason; they cannot be signed.
    pub left_out: Vec<String>,
}

/// The offer of a server in the form of a lock.
#[derive(Debug)]
pub struct Offer {
    /// The server, with every tool that can be governed.
    pub locked: LockedServer,
    /// Tools that cannot be read or distinguished, with the reason.
    pub unreadable: Vec<String>,
    /// Tools that break a rule of the lock.
    pub ungoverned: Vec<UngovernedTool>,
}

/// Why a server could not be probed.
#[derive(Debug, thiserror::Error)]
#[error("server `{server}`: {why}")]
pub struct ProbeError {
    /// The server.
    pub server: String,
    /// The cause.
    pub why: Error,
}

/// One server and its offer.
pub type ServerOffer = (Arc<Server>, Result<Offer, ProbeError>);

impl McpUpstream {
    /// Connects if necessary, and asks the server for its offer. Calls no tool. Takes as long as
    /// the server may take to start, so the caller sets a deadline.
    ///
    /// # Errors
    /// The server cannot be reached, or its answer is not MCP.
    pub async fn probe(&self) -> Result<Probed, ProbeError> {
        let error = |why: Error| ProbeError { server: self.server().name.clone(), why };
        let link = match self.supervisor.ready().await {
            Ok(link) => link,
            Err(public) => {
                return Err(error(self.supervisor.state().2.map_or(public, Error::Masked)));
            }
        };
        let capabilities = &link.negotiated.capabilities;
        let listed = if capabilities.tools.is_some() {
            list::tools(&link).await.map_err(error)?
        } else {
            list::Listed::default()
        };
        if listed.tools().iter().any(|tool| self.supervisor.shows_secret(tool)) {
            return Err(error(Error::Secret));
        }
        Ok(Probed {
            protocol: link.negotiated.version,
            server_info: link.negotiated.server_info.clone(),
            tools: listed.tools(),
            methods: capabilities.methods(),
            left_out: listed.left_out,
        })
    }

    async fn offer(&self, within: Duration, accept_hidden: bool) -> Result<Offer, ProbeError> {
        let server = self.server();
        let error = |why: Error| ProbeError { server: server.name.clone(), why };
        let probed = tokio::time::timeout(within, self.probe()).await.map_err(|_elapsed| {
            let last = self.status().error.map(|error| format!(" {error}")).unwrap_or_default();
            error(Error::Silent { seconds: within.as_secs(), last })
        })??;
        // The files at its start, which a lock pins.
        let files = files::of_server(server).map_err(error)?;
        let Probed { protocol, server_info, tools, methods, left_out } = probed;
        let shown = Shown { protocol, server_info, methods, tools, files, accept_hidden };
        let (locked, ungoverned) = LockedServer::of(server, &shown);
        Ok(Offer { locked, unreadable: left_out, ungoverned })
    }
}

impl Upstreams {
    /// Starts all of these servers at the same time, asks each for its offer, and ends them. Texts
    /// with invisible characters are left out unless they are accepted.
    pub async fn offers(
        servers: &[Arc<Server>],
        within: Duration,
        accept_hidden: bool,
    ) -> Vec<ServerOffer> {
        let upstreams = Self::new(servers);
        let asked = servers.iter().filter_map(|server| upstreams.get(&server.name));
        let answers = join_all(asked.map(async |upstream| {
            let offer = upstream.offer(within, accept_hidden).await;
            (Arc::clone(upstream.server()), offer)
        }));
        let answers = answers.await;
        upstreams.close().await;
        answers
    }
}
