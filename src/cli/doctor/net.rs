//! Attempts over the network: each is one handshake or packet and takes at most a second.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, ipproto};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinSet;

use super::gate::{IsolationTargets, ProtectedAddress};
use super::local::{no_gate, probe, shut};
use super::targets::{DNS, ECHO, SOCKETS, TCP, Target, resolvers};
use crate::enforce::posture::{BACKEND, Probe};
use crate::record::chain::Attempt;

/// How long one attempt may take.
const WITHIN: Duration = Duration::from_secs(1);
/// Errors of a network that does not carry the packet.
const BLOCKED: [i32; 9] = [
    libc::EPERM,
    libc::EACCES,
    libc::ENETUNREACH,
    libc::EHOSTUNREACH,
    libc::ENETDOWN,
    libc::EADDRNOTAVAIL,
    libc::EAFNOSUPPORT,
    libc::EPROTONOSUPPORT,
    libc::ETIMEDOUT,
];
/// A query for the name servers of the root: it reveals nothing about the sender.
const QUESTION: [u8; 17] = [0x57, 0x47, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
/// An ICMP echo request without data, with a fixed checksum.
const PING: [u8; 8] = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];

/// Errors by which this machine itself refuses to send there.
const NO_WAY: [i32; 5] =
    [libc::EPERM, libc::EACCES, libc::ENETUNREACH, libc::ENETDOWN, libc::EAFNOSUPPORT];

type AttemptOutcome = (Attempt, String);

/// Tries everything at once.
pub async fn all(isolation: Option<&IsolationTargets>, targets: &[Target]) -> Vec<Probe> {
    let mut tries = JoinSet::new();
    for group in TCP {
        for address in group.addresses.iter().filter_map(|text| text.parse().ok()) {
            tries.spawn(async move { found(group.probe, address, tcp(address).await) });
        }
    }
    let named = DNS.iter().flat_map(|group| group.addresses).filter_map(|text| text.parse().ok());
    for address in named.chain(resolvers()) {
        let name = if address.is_ipv6() { "udp6.dns" } else { "udp.dns" };
        tries.spawn(async move { found(name, address, udp(address).await) });
    }
    tries.spawn(async { probe("icmp.echo", ECHO.trim_end_matches(":0"), apart(echo).await) });
    for path in SOCKETS {
        tries.spawn(async move { probe("socket.unix", path, unix(Path::new(path)).await) });
    }
    for target in targets.iter().cloned() {
        tries.spawn(async move {
            match target {
                Target::Tcp(at) => found("tcp.asked", at, tcp(at).await),
                Target::Udp(at) => found("udp.asked", at, udp(at).await),
                Target::Unix(path) => {
                    probe("socket.unix", &path.display().to_string(), unix(&path).await)
                }
            }
        });
    }
    match isolation {
        None => {
            for name in ["gate.operators", "gate.address"] {
                tries.spawn(async move { no_gate(name) });
            }
        }
        Some(isolation) => gate(isolation, &mut tries),
    }
    tries.join_all().await
}

fn gate(isolation: &IsolationTargets, tries: &mut JoinSet<Probe>) {
    let IsolationTargets { operators, addresses, backends, .. } = isolation.clone();
    tries.spawn(async move {
        match operators {
            Some(at) => found("gate.operators", at, tcp(at).await),
            None => probe("gate.operators", "none", (Attempt::Blocked, "not served".to_owned())),
        }
    });
    for at in addresses.into_iter().chain(operators) {
        tries.spawn(async move { found("gate.address", at, take(at).await) });
    }
    for one in backends {
        tries.spawn(async move { probe(BACKEND, &one.target, behind(&one).await) });
    }
}

/// Whether a connection to a host behind the gate succeeds. Where no answer comes, only the gate
/// can tell whether the host is up: the agent is isolated from it if the gate reaches it.
async fn behind(one: &ProtectedAddress) -> AttemptOutcome {
    let Some(address) = one.address else {
        return (Attempt::Unknown, "the gate finds no address for it".to_owned());
    };
    let why = match tokio::time::timeout(WITHIN, TcpStream::connect(address)).await {
        Ok(Ok(_)) => return (Attempt::Open, "connected".to_owned()),
        Ok(Err(error)) if error.raw_os_error().is_some_and(|code| NO_WAY.contains(&code)) => {
            return (Attempt::Blocked, error.to_string());
        }
        Ok(Err(error)) => match refused(address, &error) {
            (Attempt::Open, why) => return (Attempt::Open, why),
            (Attempt::Blocked | Attempt::Unknown, why) => why,
        },
        Err(_late) => "no answer".to_owned(),
    };
    if one.reached {
        (Attempt::Blocked, format!("{why}; the gate can reach it"))
    } else {
        (Attempt::Unknown, format!("{why}; the gate cannot reach it either"))
    }
}

/// The address behind the host of a gate's URL.
pub async fn resolved(uri: &http::Uri) -> io::Result<IpAddr> {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let mut all = tokio::net::lookup_host((host, uri.port_u16().unwrap_or(443))).await?;
    all.next().map(|at| at.ip()).ok_or_else(|| io::Error::other("no address"))
}

fn found(name: &str, address: SocketAddr, found: AttemptOutcome) -> Probe {
    probe(name, &address.to_string(), found)
}

/// Whether a connection succeeds.
async fn tcp(address: SocketAddr) -> AttemptOutcome {
    match tokio::time::timeout(WITHIN, TcpStream::connect(address)).await {
        Ok(Ok(_)) => (Attempt::Open, "connected".to_owned()),
        Ok(Err(error)) => refused(address, &error),
        Err(_late) => silence(),
    }
}

fn silence() -> AttemptOutcome {
    (Attempt::Blocked, format!("no answer within {} s", WITHIN.as_secs()))
}

/// What an error says about the network path: a host that refuses was reached, unless it is this
/// machine.
fn refused(address: SocketAddr, error: &io::Error) -> AttemptOutcome {
    let refused = error.kind() == io::ErrorKind::ConnectionRefused;
    let reset = error.kind() == io::ErrorKind::ConnectionReset;
    if refused && address.ip().is_loopback() {
        return (Attempt::Blocked, "nothing answers here".to_owned());
    }
    if refused || reset {
        return (Attempt::Open, "reached: it refused".to_owned());
    }
    by_error(error)
}

fn by_error(error: &io::Error) -> AttemptOutcome {
    let known = error.raw_os_error().is_some_and(|code| BLOCKED.contains(&code));
    (if known { Attempt::Blocked } else { Attempt::Unknown }, error.to_string())
}

/// Whether a question is answered.
async fn udp(address: SocketAddr) -> AttemptOutcome {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let asking = async {
        let socket = tokio::net::UdpSocket::bind(any).await?;
        socket.connect(address).await?;
        socket.send(&QUESTION).await?;
        socket.recv(&mut [0; 512]).await
    };
    match tokio::time::timeout(WITHIN, asking).await {
        Ok(Ok(_)) => (Attempt::Open, "answered".to_owned()),
        Ok(Err(error)) => refused(address, &error),
        Err(_late) => silence(),
    }
}

/// Whether an echo comes back.
fn echo() -> AttemptOutcome {
    let echoed = || -> io::Result<usize> {
        let address: SocketAddr = ECHO.parse().map_err(io::Error::other)?;
        let icmp = Some(ipproto::ICMP);
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, icmp)?;
        rustix::net::connect(&socket, &address)?;
        let socket = UdpSocket::from(socket);
        socket.set_read_timeout(Some(WITHIN))?;
        socket.send(&PING)?;
        socket.recv(&mut [0; 64])
    };
    match echoed() {
        Ok(_) => (Attempt::Open, "answered".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => silence(),
        Err(error) => by_error(&error),
    }
}

/// Runs blocking work on a thread of its own.
async fn apart(work: fn() -> AttemptOutcome) -> AttemptOutcome {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|lost| (Attempt::Unknown, lost.to_string()))
}

/// Whether a process answers on a socket.
async fn unix(path: &Path) -> AttemptOutcome {
    match tokio::time::timeout(WITHIN, UnixStream::connect(path)).await {
        Ok(Ok(_)) => (Attempt::Open, "connected".to_owned()),
        Ok(Err(error)) => shut(&error),
        Err(_late) => silence(),
    }
}

/// Whether this uid could answer in the gate's place, while the gate starts again.
async fn take(address: SocketAddr) -> AttemptOutcome {
    match TcpListener::bind(address).await {
        // The gate listens, so this is not its network.
        Ok(_) => return (Attempt::Blocked, "the gate is in another network".to_owned()),
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => return by_error(&error),
        Err(_taken) => {}
    }
    let served = async {
        let listener = TcpListener::bind(SocketAddr::new(address.ip(), 0)).await?;
        let (connected, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr()?), listener.accept());
        connected.and(accepted)
    };
    match tokio::time::timeout(WITHIN, served).await {
        Ok(Ok(_)) => (Attempt::Open, "this uid can answer here while the gate does not".to_owned()),
        Ok(Err(error)) => by_error(&error),
        Err(_late) => (Attempt::Blocked, "this uid cannot answer here".to_owned()),
    }
}
