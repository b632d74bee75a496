//! The gate, as the doctor sees it: what it says has to be out of reach, and what it is told.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tonic::Status;
use tonic::transport::Channel;

use crate::cli::quickstart::agent::endpoint;
use crate::enforce::posture::Probe;
use crate::serve::pb::gate_client::GateClient;
use crate::serve::pb::{ChallengePostureRequest, PostureProbe, ReportPostureRequest};

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
        let process = process(socket).map_err(|e| unreachable(&e))?;
        let channel = endpoint(socket)?.connect().await.map_err(|e| unreachable(&e))?;
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
        };
        Ok(Self { client, nonce: given.nonce, surroundings })
    }

    pub fn surroundings(&self) -> Surroundings {
        self.surroundings.clone()
    }

    /// Hands in what was found.
    pub async fn tell(&mut self, probes: &[Probe]) -> Result<(Vec<String>, u64), String> {
        let probes = probes.iter().map(|probe| PostureProbe {
            probe: probe.probe.clone(),
            target: probe.target.clone(),
            outcome: probe.outcome.word().to_owned(),
            detail: probe.detail.clone(),
        });
        let request = ReportPostureRequest {
            nonce: self.nonce.clone(),
            doctor: concat!("wicketgate ", env!("CARGO_PKG_VERSION")).to_owned(),
            probes: probes.collect(),
        };
        let told = self.client.report_posture(request).await;
        let told = told.map_err(|status| format!("the gate was not told: {}", said(&status)))?;
        let told = told.into_inner();
        Ok((told.reasons, told.receipt.map(|receipt| receipt.seq).unwrap_or_default()))
    }
}

fn said(status: &Status) -> String {
    format!("{}: {}", status.code(), status.message())
}

/// The process that listens on the socket; `None`: it is in a process namespace that is not seen from here.
fn process(socket: &Path) -> std::io::Result<Option<i32>> {
    let stream = UnixStream::connect(socket)?;
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    Ok(Some(peer.pid.as_raw_nonzero().get()).filter(|pid| *pid > 0))
}
