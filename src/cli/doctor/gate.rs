//! The gate, as the doctor sees it: what it says has to be out of reach, and what it is told.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;
use tonic::Status;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use super::net;
use crate::cli::quickstart::agent::endpoint;
use crate::crypto::private;
use crate::enforce::posture::Probe;
use crate::serve::pb::gate_client::GateClient;
use crate::serve::pb::{
    ChallengePostureRequest, PostureBackend, PostureProbe, ReportPostureRequest,
};

/// How long a gate in another pod may take for a connection, and for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What must be out of the agent's reach.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The gate's process, where it can be seen from here.
    pub process: Option<i32>,
    /// Where operators are answered.
    pub operators: Option<SocketAddr>,
    /// Where agents with tokens are answered.
    pub addresses: Vec<SocketAddr>,
    /// What the agent must not change.
    pub paths: Vec<PathBuf>,
    /// What stands behind the gate.
    pub backends: Vec<Behind>,
}

/// A place behind the gate.
#[derive(Clone, Debug)]
pub struct Behind {
    /// What the gate calls it.
    pub target: String,
    /// Where it is from here; none if the gate does not know.
    pub address: Option<SocketAddr>,
    /// Whether the gate gets there.
    pub reached: bool,
}

/// How the gate is asked.
#[derive(clap::Args, Debug)]
pub struct Way {
    /// Agent socket of the gate: ask it what to test, and report the result to it
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// URL of a gate in another pod, over mutual TLS; its name resolves to the address to test
    #[arg(long, value_name = "URL", conflicts_with = "socket", requires_all = ["ca", "cert", "cert_key"])]
    gate: Option<String>,
    /// Trust these certificate authorities (PEM) for that gate
    #[arg(long, value_name = "FILE", requires = "gate")]
    ca: Option<PathBuf>,
    /// Certificate of the agent (PEM)
    #[arg(long, value_name = "FILE", requires = "gate")]
    cert: Option<PathBuf>,
    /// Private key of the certificate (PEM): a file of mode 0600
    #[arg(long, value_name = "FILE", requires = "gate")]
    cert_key: Option<PathBuf>,
}

impl Way {
    /// Asks for a challenge; nothing if no gate was named.
    pub async fn ask(&self) -> Result<Option<Gate>, String> {
        if let Some(socket) = &self.socket {
            return Gate::ask(socket).await.map(Some);
        }
        let (Some(url), Some(ca), Some(cert), Some(key)) =
            (&self.gate, &self.ca, &self.cert, &self.cert_key)
        else {
            return Ok(None);
        };
        let unreachable = |why: &dyn std::fmt::Display| format!("the gate at `{url}`: {why}");
        let identity = Identity::from_pem(read(cert)?, secret(key)?);
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(read(ca)?))
            .identity(identity);
        let place = Endpoint::from_shared(url.clone()).map_err(|e| unreachable(&e))?;
        let place = place.timeout(PATIENCE).connect_timeout(PATIENCE);
        if place.uri().scheme_str() != Some("https") {
            return Err(unreachable(&"not `https://HOST:PORT`"));
        }
        let at = net::resolved(place.uri()).await.map_err(|e| unreachable(&e))?;
        let channel = place.tls_config(tls).map_err(|e| unreachable(&told(&e)))?.connect().await;
        let channel = channel.map_err(|e| unreachable(&told(&e)))?;
        Gate::challenge(channel, None, &unreachable).await.map(|gate| Some(gate.seen_from(at)))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn secret(path: &Path) -> Result<Vec<u8>, String> {
    let read = private::read(path, private::BYTES_MAX);
    read.map(|(_, pem)| pem.to_vec()).map_err(|why| format!("`{}` {why}", path.display()))
}

/// An error with what it comes from: of TLS the outermost one says nothing.
fn told(error: &dyn std::error::Error) -> String {
    let below = std::iter::successors(error.source(), |error| error.source());
    below.fold(error.to_string(), |text, error| format!("{text}: {error}"))
}

/// A gate that gave a challenge.
pub struct Gate {
    client: GateClient<Channel>,
    nonce: String,
    surroundings: Surroundings,
}

impl Gate {
    /// Asks for a challenge.
    pub async fn ask(socket: &Path) -> Result<Self, String> {
        let unreachable =
            |why: &dyn std::fmt::Display| format!("the gate at `{}`: {why}", socket.display());
        let process = process(socket).await.map_err(|e| unreachable(&e))?;
        let channel = endpoint(socket)?.connect().await.map_err(|e| unreachable(&e))?;
        Self::challenge(channel, process, &unreachable).await
    }

    async fn challenge(
        channel: Channel,
        process: Option<i32>,
        unreachable: &impl Fn(&dyn std::fmt::Display) -> String,
    ) -> Result<Self, String> {
        let mut client = GateClient::new(channel);
        let asked = client.challenge_posture(ChallengePostureRequest {}).await;
        let given = asked.map_err(|status| unreachable(&said(&status)))?.into_inner();
        let bad = |text: &String| unreachable(&format!("`{text}` is no address"));
        let address = |text: &String| text.parse::<SocketAddr>().map_err(|_| bad(text));
        let operators = Some(&given.operators).filter(|text| !text.is_empty());
        let surroundings = Surroundings {
            process,
            operators: operators.map(address).transpose()?,
            addresses: given.addresses.iter().map(address).collect::<Result<_, _>>()?,
            paths: given.paths.iter().map(PathBuf::from).collect(),
            backends: given.backends.into_iter().map(behind).collect(),
        };
        Ok(Self { client, nonce: given.nonce, surroundings })
    }

    /// The addresses the gate named as they are from another pod, where it is `at`: its own loopback and "every address"
    /// mean something else here.
    fn seen_from(mut self, at: IpAddr) -> Self {
        let Surroundings { operators, addresses, backends, .. } = &mut self.surroundings;
        let behind = backends.iter_mut().filter_map(|one| one.address.as_mut());
        for named in addresses.iter_mut().chain(operators).chain(behind) {
            if named.ip().is_loopback() || named.ip().is_unspecified() {
                named.set_ip(at);
            }
        }
        self
    }

    pub fn surroundings(&self) -> Surroundings {
        self.surroundings.clone()
    }

    /// Hands in what was found.
    pub async fn tell(&mut self, probes: &[Probe]) -> Result<(Vec<String>, u64), String> {
        let probes = probes.iter().map(|probe| PostureProbe {
            probe: probe.probe.clone(),
            target: probe.target.clone(),
            outcome: probe.outcome.as_str().to_owned(),
            detail: probe.detail.clone(),
        });
        let request = ReportPostureRequest {
            nonce: self.nonce.clone(),
            doctor: concat!("wicketgate ", env!("CARGO_PKG_VERSION")).to_owned(),
            probes: probes.collect(),
        };
        let told = self.client.report_posture(request).await;
        let told =
            told.map_err(|status| format!("the gate did not take the report: {}", said(&status)))?;
        let told = told.into_inner();
        Ok((told.reasons, told.receipt.map(|receipt| receipt.seq).unwrap_or_default()))
    }
}

fn behind(one: PostureBackend) -> Behind {
    let PostureBackend { name, address, reached } = one;
    let known = address.parse().ok();
    let target = if known.is_some() { address } else { name };
    Behind { target, address: known, reached }
}

fn said(status: &Status) -> String {
    format!("{}: {}", status.code(), status.message())
}

/// The process that listens on the socket; `None`: it is in a process namespace that is not seen from here, where the kernel
/// calls it 0. It is the gate all the same.
async fn process(socket: &Path) -> std::io::Result<Option<i32>> {
    let stream = UnixStream::connect(socket).await?;
    Ok(stream.peer_cred()?.pid().filter(|pid| *pid > 0))
}
