//! One request that passed the checks: its caller, its path, and what its answer needs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::SharedFace;
use super::list::ShownTools;
use super::message::McpRequest;
use super::reply::ReplyRefusal;
use super::view::PathView;
use crate::domain::json::Json;
use crate::domain::tier::Face;
use crate::enforce::{Opening, Road, Run, Thread};
use crate::identity::Caller;
use crate::mcp::META_CLIENT;
use crate::serve::guard::Accepts;

/// One request.
pub(super) struct Exchange {
    pub shared: Arc<SharedFace>,
    pub road: Arc<Road>,
    pub caller: Caller,
    pub view: PathView,
    /// The name of the run, from the path or the header.
    pub run_name: Option<String>,
    pub headers: HeaderMap,
    pub accepts: Accepts,
    /// The gate stops.
    pub closing: CancellationToken,
}

/// Characters of a client's name for itself.
const CLIENT_CHARS_MAX: usize = 60;

impl Exchange {
    /// The run of this thread; opens one if needed.
    pub(super) async fn run(
        &self,
        thread: &Thread,
        ask: &McpRequest,
    ) -> Result<Arc<Run>, ReplyRefusal> {
        let mut labels = BTreeMap::from([("face".to_owned(), "mcp".to_owned())]);
        labels.extend(client(ask).map(|client| ("client".to_owned(), client)));
        let traceparent = ask.meta("traceparent").and_then(Json::as_str).map(str::to_owned);
        let opening = Opening { labels, traceparent, ..Opening::default() };
        Ok(Box::pin(self.road.implicit_run(Face::Mcp, &self.caller, thread, opening)).await?)
    }

    /// The tools that the agent sees here.
    pub(super) async fn shown(
        &self,
        thread: &Thread,
        ask: &McpRequest,
    ) -> Result<ShownTools, ReplyRefusal> {
        let run = self.run(thread, ask).await?;
        Ok(ShownTools::new(self.road.list_tools(&run)?, &self.view, run.determined()))
    }

    /// The caller's name, to compare it with an earlier one.
    pub(super) fn owner(&self) -> String {
        format!("{} {:?}", self.caller.manifest.name, self.caller.auth.identity())
    }

    /// Time since the gate began.
    pub(super) fn now(&self) -> Duration {
        self.shared.faces.clock.monotonic()
    }
}

/// What a client calls itself.
#[derive(Deserialize)]
struct ClientName {
    name: String,
    #[serde(default)]
    version: String,
}

/// What the client calls itself: a claim.
fn client(ask: &McpRequest) -> Option<String> {
    let claim = ask.param("clientInfo");
    let claim = claim.or_else(|| ask.meta(META_CLIENT))?;
    let ClientName { name, version } = claim.read().ok()?;
    let plain = |text: &str| -> String {
        text.chars().filter(|c| !c.is_control()).take(CLIENT_CHARS_MAX).collect()
    };
    Some(format!("{} {}", plain(&name), plain(&version)).trim().to_owned())
}
