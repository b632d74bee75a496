//! The listeners: the agents' and the operators'.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::certificates::ListenerTls;
use super::checked::Checked;
use super::control::OrderList;
use super::operators::{self, operator_api, webhook};
use super::{Error, System};
use crate::enforce::{Fault, Road};
use crate::ledger::Ledger;
use crate::operator::OperatorApi;
use crate::serve::agents::{self, AgentSettings};
use crate::serve::operator::Hindered;
use crate::serve::tls::Section;
use crate::serve::{AgentEndpoint, Faces, Identify, Readiness, operator};
use crate::tool::net::identity::Wrong;

/// The operators' socket, in the state directory.
pub const OPERATORS: &str = "operator.sock";

/// What listeners answer from.
pub(super) struct Sources<'a> {
    pub ledger: &'a Ledger,
    pub list: &'a OrderList,
    /// The road, once it is open.
    pub road: &'a Arc<OnceLock<Arc<Road>>>,
}

/// Agents' and operators' listeners, for status reports.
pub(super) struct Listeners {
    /// TCP addresses of agents, with the ports the system chose.
    pub agents: Vec<SocketAddr>,
    /// Where operators look.
    pub operators: SocketAddr,
    /// Their certificates.
    pub certificates: ListenerTls,
    /// Whether operators are answered at their address.
    pub hindered: Hindered,
    /// What answers operators here, if any are configured.
    pub operator_api: Option<Arc<OperatorApi>>,
}

/// The same listeners, for their shutdown.
pub(super) struct Served {
    agents: tokio::task::JoinHandle<()>,
    operators: operator::Running,
    /// What works for the operator API: notices, and its index of calls.
    tasks: Vec<tokio::task::JoinHandle<()>>,
    stop: CancellationToken,
}

impl Served {
    /// Closes both and waits for open requests; with `force`, clients that still wait lose their
    /// connections at once.
    pub async fn close(mut self, force: &CancellationToken) {
        self.stop.cancel();
        tokio::select! {
            biased;
            () = force.cancelled() => self.agents.abort(),
            _ended = &mut self.agents => {}
        }
        for task in self.tasks {
            drop(task.await);
        }
        drop(tokio::task::spawn_blocking(move || self.operators.join()).await);
    }
}

/// Binds every listener and serves.
pub(super) async fn listen(
    checked: &Arc<Checked>,
    sources: &Sources<'_>,
    ready: watch::Receiver<Readiness>,
) -> Result<(Listeners, Served), Error> {
    let config = &checked.config;
    let sockets = config.sockets().into_iter().map(AgentEndpoint::Socket);
    let places = sockets.chain(config.listen.endpoints()).collect();
    let drain = Duration::from_secs(config.limits.drain_seconds);
    let refuse = |error: Wrong| Error::wrong(format!("listen.tls.{}: {error}", error.field));
    let tls = config.listen.tls.as_ref().map(Section::demand).transpose().map_err(refuse)?;
    let model_streams_max = usize::try_from(config.limits.model_streams_max).unwrap_or(usize::MAX);
    let tls_of_agents = tls.clone();
    let settings = AgentSettings {
        places,
        drain,
        tls: tls_of_agents,
        model_streams_max,
        ..AgentSettings::default()
    };
    let bound = agents::bind(settings).await.map_err(System::from)?;
    let stop = CancellationToken::new();
    let view =
        operator::OperatorView { readiness: ready.clone(), metrics: Arc::clone(&checked.metrics) };
    let settings = config.operator.listener(&config.console).map_err(Error::wrong)?;
    let listeners = [("listen.tls", tls), ("operator.tls", settings.tls.clone())];
    let certificates = ListenerTls::new(listeners, &checked.clock, &checked.metrics);
    let tls = settings.tls.is_some();
    // WHY: an agent that takes the address while its gate starts again must not keep the gate out for good.
    let socket = Some(config.state.join(OPERATORS));
    let settings = operator::OperatorSettings { socket, patient: true, ..settings };
    let api = operator_api(checked, sources).await?;
    let hook = webhook(&checked.config)?;
    let works = (hook, config.evidence.sealed.clone());
    let tasks = api.as_ref().map(|api| operators::tasks(api, works, &stop)).unwrap_or_default();
    let operators = operator::serve_with(settings, view, api.clone(), stop.clone());
    let operators = operators.map_err(System::from)?;
    let listening = Listeners {
        agents: bound.addresses(),
        operators: operators.address(),
        certificates,
        hindered: operators.hindered(),
        operator_api: api,
    };
    for place in &listening.agents {
        tracing::info!(addr = %place, "agent API listening");
    }
    tracing::info!(addr = %listening.operators, tls, "operator API listening");
    let faces = Faces {
        road: Arc::clone(sources.road),
        identify: identify(checked),
        readiness: ready,
        metrics: Arc::clone(&checked.metrics),
        clock: Arc::clone(&checked.clock),
        entropy: Arc::clone(&checked.entropy),
    };
    let until = stop.clone();
    let agents = tokio::spawn(async move {
        if let Err(error) = bound.serve(faces, until).await {
            tracing::error!(%error, "the agent listeners ended");
        }
    });
    Ok((listening, Served { agents, operators, tasks, stop }))
}

fn identify(checked: &Arc<Checked>) -> Identify {
    let checked = Arc::clone(checked);
    Arc::new(move |peer, bearer| {
        let (live, now) = (checked.live.load(), checked.clock.now());
        live.callers.identify(peer, bearer, now).map_err(Fault::from)
    })
}
