//! Tests whether a configured host responds, without sending or reading data.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};

/// How long the resolution of a name, and a connection, may take.
const WITHIN: Duration = Duration::from_secs(1);

/// The address of a host, and whether it responds. A refused connection counts as a response,
/// except from this machine. The address rules of tools do not apply, because no request is sent.
pub async fn knock(host: &str, port: u16) -> (Option<SocketAddr>, bool) {
    let named = lookup_host((host.trim_matches(['[', ']']), port));
    let address = match tokio::time::timeout(WITHIN, named).await {
        Ok(Ok(mut all)) => all.next(),
        Ok(Err(_)) | Err(_) => None,
    };
    let Some(place) = address else { return (None, false) };
    let reached = match tokio::time::timeout(WITHIN, TcpStream::connect(place)).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => error.kind() == ErrorKind::ConnectionRefused && !place.ip().is_loopback(),
        Err(_late) => false,
    };
    (address, reached)
}
