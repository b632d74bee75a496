//! Agents' listeners: binds every endpoint that is configured, and serves what it speaks.

use std::net::SocketAddr;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;

use super::driver::{self, Limits};
use super::edge::{Edge, RequestPlaces};
use super::listener::{self, Listener, Stream};
use super::tls::Tls;
use super::{AgentEndpoint, Error, Faces, grpc};
use crate::identity::Peer;

/// Where agents come in, and how many.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// The Unix sockets and addresses to listen on; each is bound before any is served.
    pub places: Vec<AgentEndpoint>,
    /// Connections of agents at the same time, on each listener. Clients without a known credential
    /// have places of their own; one peer has three quarters of the places at most.
    pub connections_max: usize,
    /// Requests whose answers are not yet made and taken, over all listeners. Further ones get
    /// `overloaded`.
    pub requests_max: usize,
    /// Requests to models whose answers are not yet made and taken, over all listeners, beside
    /// `requests_max`.
    pub model_streams_max: usize,
    /// The time that open requests have to end after a shutdown.
    pub drain: Duration,
    /// Names besides loopback ones that TCP clients may use for this machine.
    pub hosts: Vec<String>,
    /// TLS of every TCP address, with client certificates; in the clear without, which is allowed
    /// on loopback addresses only.
    pub tls: Option<Tls>,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            connections_max: 1024,
            requests_max: 1024,
            model_streams_max: 1024,
            drain: Duration::from_secs(25),
            hosts: Vec::new(),
            tls: None,
        }
    }
}

/// Agents' listeners, bound and not yet served.
#[derive(Debug)]
pub struct Bound {
    listeners: Vec<(AgentEndpoint, Listener)>,
    settings: AgentSettings,
}

/// Binds every address, or none.
///
/// # Errors
/// The address that cannot be bound, and why.
pub async fn bind(settings: AgentSettings) -> Result<Bound, Error> {
    let mut listeners = Vec::new();
    for place in &settings.places {
        let listener = match place.address() {
            Err(path) => listener::socket(path).await?,
            Ok(addr) if addr.ip().is_loopback() || settings.tls.is_some() => {
                listener::tcp(addr).await?
            }
            Ok(addr) => return Err(Error::NotLoopback(addr)),
        };
        listeners.push((place.clone(), listener));
    }
    Ok(Bound { listeners, settings })
}

impl Bound {
    /// The TCP addresses that were bound, in order, with the ports the system chose.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|(_, listener)| listener.address()).collect()
    }

    /// Serves until `shutdown` and then for at most the drain time; every socket is gone after.
    ///
    /// Requests still open after the drain time lose their connection, not their calls.
    ///
    /// # Errors
    /// The protocol cannot be reflected.
    pub async fn serve(self, faces: Faces, shutdown: CancellationToken) -> Result<(), Error> {
        let (health, routes) = grpc::routes(&faces)?;
        // WHY: the reporter begins with "serving", before any readiness is known.
        grpc::say(&health, &grpc::SERVICES, ServingStatus::NotServing).await;
        let AgentSettings {
            connections_max,
            requests_max,
            model_streams_max,
            drain,
            hosts,
            tls,
            ..
        } = self.settings;
        let most = RequestPlaces { requests: requests_max, models: model_streams_max };
        let edge = Edge::new(routes, faces.clone(), hosts, most);
        let limits = Limits::of(connections_max, drain);
        let mut serving = tokio::task::JoinSet::new();
        for (place, listener) in self.listeners {
            let (edge, shutdown) = (edge.clone(), shutdown.clone());
            let tls = tls.clone().filter(|_| listener.address().is_some());
            serving.spawn(driver::run(listener, limits, shutdown, move |io, peer, closing| {
                connection(place.clone(), io, peer, (edge.clone(), tls.clone()), closing)
            }));
        }
        let served = async { while serving.join_next().await.is_some() {} };
        tokio::join!(served, grpc::report(health, &grpc::SERVICES, faces.readiness, shutdown));
        Ok(())
    }
}

/// Drives one connection; with TLS it reads nothing before the client has shown its certificate.
async fn connection(
    endpoint: AgentEndpoint,
    stream: Stream,
    peer: Peer,
    (edge, tls): (Edge, Option<Tls>),
    closing: CancellationToken,
) {
    let (stream, peer) = match tls {
        None => (stream, peer),
        Some(tls) => {
            let secured = tls.secured(stream, &closing).await;
            let Some((stream, certificate @ Some(_))) = secured else { return };
            (stream, Peer { listener: "tls", certificate, ..peer })
        }
    };
    endpoint.serve(stream, peer, edge, closing).await;
}
