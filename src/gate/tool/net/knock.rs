//! Whether somebody answers at a place that is configured: nothing is sent, and nothing is read.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};

/// How long a name, and a connection, may take.
const WITHIN: Duration = Duration::from_secs(1);

/// Where a host is, and whether somebody answers there. Whoever refuses does, unless it is this machine. Which addresses
/// a tool may use is not asked: no request goes there.
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
