//! The gate, as the doctor sees it: it names what the agent must not reach, and receives the
//! findings.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;
use tonic::Status;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use super::net;
use crate::cli::FileError;
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
pub struct IsolationTargets {
    /// The gate's process, if it is visible from here.
    pub process: Option<i32>,
    /// Where operators are answered.
    pub operators: Option<SocketAddr>,
    /// Where agents with tokens are answered.
    pub addresses: Vec<SocketAddr>,
    /// What the agent must not change.
    pub paths: Vec<PathBuf>,
    /// The servers behind the gate.
    pub backends: Vec<ProtectedAddress>,
}

/// A place behind the gate.
#[derive(Clone, Debug)]
pub struct ProtectedAddress {
    /// What the gate calls it.
    pub target: String,
    /// Its address as the gate resolves it; `None` if the gate cannot.
    pub address: Option<SocketAddr>,
    /// Whether the gate gets there.
    pub reached: bool,
}

/// The gate's answer to a report.
#[derive(Debug)]
pub struct ReportReceipt {
    /// What speaks against the agent's isolation.
    pub reasons: Vec<String>,
    /// The entry that records it.
    pub seq: u64,
}

/// Why the gate gives no challenge, or takes no report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The private key cannot be used.
    #[error(transparent)]
    Key(#[from] private::Error),
    /// The gate that was named does not answer, or not well.
    #[error("the gate at `{place}`: {fault}")]
    Gate {
        /// Its URL or socket.
        place: String,
        /// What is wrong.
        #[source]
        fault: GateFault,
    },
    /// The gate that gave a challenge does not want the report.
    #[error("the gate refused the report: {}", status_text(.0))]
    Report(#[source] Status),
}

/// What is wrong with a gate.
#[derive(Debug, thiserror::Error)]
pub enum GateFault {
    /// Its URL has no or another scheme.
    #[error("not `https://HOST:PORT`")]
    Scheme,
    /// The system does not get there.
    #[error(transparent)]
    System(#[from] std::io::Error),
    /// The connection failed. The outermost error of TLS names no cause.
    #[error("{}", with_sources(.0))]
    Transport(#[from] tonic::transport::Error),
    /// It refuses.
    #[error("{}", status_text(.0))]
    Status(#[from] Status),
    /// The gate names an invalid address.
    #[error("`{0}` is not an address")]
    Address(String),
}

impl GateFault {
    fn at(place: &str) -> impl Fn(Self) -> Error + use<'_> {
        |fault| Error::Gate { place: place.to_owned(), fault }
    }
}

/// How the gate is asked.
#[derive(clap::Args, Debug)]
pub struct GateAccess {
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

impl GateAccess {
    /// Asks for a challenge; `None` if no gate was named.
    pub async fn ask(&self) -> Result<Option<ChallengedGate>, Error> {
        if let Some(socket) = &self.socket {
            return ChallengedGate::ask(socket).await.map(Some);
        }
        let (Some(url), Some(ca), Some(cert), Some(key)) =
            (&self.gate, &self.ca, &self.cert, &self.cert_key)
        else {
            return Ok(None);
        };
        let identity = Identity::from_pem(read(cert)?, secret(key)?);
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(read(ca)?))
            .identity(identity);
        ChallengedGate::over_tls(url, tls).await.map(Some).map_err(GateFault::at(url))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    std::fs::read(path).map_err(FileError::at(path))
}

fn secret(path: &Path) -> Result<Vec<u8>, private::Error> {
    let read = private::read(path, private::BYTES_MAX);
    let unused = |why| private::Error { path: path.to_owned(), why };
    read.map(|(_, pem)| pem.to_vec()).map_err(unused)
}

/// An error with its causes.
fn with_sources(error: &dyn std::error::Error) -> String {
    let below = std::iter::successors(error.source(), |error| error.source());
    below.fold(error.to_string(), |text, error| format!("{text}: {error}"))
}

/// A gate that gave a challenge.
pub struct ChallengedGate {
    client: GateClient<Channel>,
    nonce: String,
    surroundings: IsolationTargets,
}

impl ChallengedGate {
    /// Asks for a challenge.
    pub async fn ask(socket: &Path) -> Result<Self, Error> {
        let place = socket.display().to_string();
        Self::on_socket(socket).await.map_err(GateFault::at(&place))
    }

    async fn on_socket(socket: &Path) -> Result<Self, GateFault> {
        let process = process(socket).await?;
        Self::challenge(endpoint(socket)?.connect().await?, process).await
    }

    async fn over_tls(url: &str, tls: ClientTlsConfig) -> Result<Self, GateFault> {
        let endpoint = Endpoint::from_shared(url.to_owned())?;
        let endpoint = endpoint.timeout(PATIENCE).connect_timeout(PATIENCE);
        if endpoint.uri().scheme_str() != Some("https") {
            return Err(GateFault::Scheme);
        }
        let at = net::resolved(endpoint.uri()).await?;
        let channel = endpoint.tls_config(tls)?.connect().await?;
        Ok(Self::challenge(channel, None).await?.seen_from(at))
    }

    async fn challenge(channel: Channel, process: Option<i32>) -> Result<Self, GateFault> {
        let mut client = GateClient::new(channel);
        let given = client.challenge_posture(ChallengePostureRequest {}).await?.into_inner();
        let fault = |text: &String| GateFault::Address(text.clone());
        let address = |text: &String| text.parse::<SocketAddr>().map_err(|_| fault(text));
        let operators = Some(&given.operators).filter(|text| !text.is_empty());
        let surroundings = IsolationTargets {
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
        let IsolationTargets { operators, addresses, backends, .. } = &mut self.surroundings;
        let known_backends = backends.iter_mut().filter_map(|one| one.address.as_mut());
        for named in addresses.iter_mut().chain(operators).chain(known_backends) {
            if named.ip().is_loopback() || named.ip().is_unspecified() {
                named.set_ip(at);
            }
        }
        self
    }

    pub fn surroundings(&self) -> IsolationTargets {
        self.surroundings.clone()
    }

    /// Sends the findings to the gate.
    pub async fn report(&mut self, probes: &[Probe]) -> Result<ReportReceipt, Error> {
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
        let report = self.client.report_posture(request).await.map_err(Error::Report)?;
        let report = report.into_inner();
        let seq = report.receipt.map(|receipt| receipt.seq).unwrap_or_default();
        Ok(ReportReceipt { reasons: report.reasons, seq })
    }
}

fn behind(one: PostureBackend) -> ProtectedAddress {
    let PostureBackend { name, address, reached } = one;
    let known = address.parse().ok();
    let target = if known.is_some() { address } else { name };
    ProtectedAddress { target, address: known, reached }
}

fn status_text(status: &Status) -> String {
    format!("{}: {}", status.code(), status.message())
}

/// The process that listens on the socket; `None` if it is in a process namespace invisible from
/// here, where the kernel calls it 0. It is the gate all the same.
async fn process(socket: &Path) -> std::io::Result<Option<i32>> {
    let stream = UnixStream::connect(socket).await?;
    Ok(stream.peer_cred()?.pid().filter(|pid| *pid > 0))
}
