//! The network of a program that may reach named hosts: loopback, with one listener from which the
//! gate accepts.
//!
//! A socket stays in the network namespace in which it was created, in whatever process. The
//! supervisor creates the listener in the program's namespace and passes it to the gate: no process
//! of the gate runs inside, and no other path leads out.

use std::io::{self, Read as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType};

use super::{Error, SandboxReport, wire};

/// The port of the proxy, on 127.0.0.1 in the namespace.
pub(in crate::tool) const PROXY: u16 = 3128;
/// The byte that accompanies the listener. A report begins with a brace instead.
const OFFER: u8 = b'L';
/// How long the supervisor may take to create it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of the longest error message.
const COMPLAINT_MAX: u64 = 4096;

/// Enables loopback, listens there and passes the listener on. For a process that has just created
/// the namespace.
///
/// # Errors
/// The error of the operating system.
pub(super) fn offer(control: &UnixStream) -> Result<(), Error> {
    let failed = Error::step("no network of its own");
    up().map_err(&failed)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY)).map_err(&failed)?;
    wire::give(control, &[OFFER], &[listener.as_fd()]).map_err(&failed)
}

/// Receives the listener from [`offer`]. Blocks.
///
/// # Errors
/// Why there is no listener.
pub(in crate::tool) fn take(control: &UnixStream) -> Result<TcpListener, Error> {
    let failed = Error::step("no network of its own");
    control.set_read_timeout(Some(PATIENCE)).map_err(&failed)?;
    let mut byte = [0_u8; 1];
    let (got, files) = wire::take(control, &mut byte).map_err(&failed)?;
    if let Some(file) = files.into_iter().next() {
        return Ok(TcpListener::from(file));
    }
    let mut complaint = byte.get(..got).unwrap_or_default().to_vec();
    control.take(COMPLAINT_MAX).read_to_end(&mut complaint).map_err(&failed)?;
    let refused = SandboxReport::read(&complaint).and_then(|report| report.refused);
    Err(refused.map_or(Error::NoListener, Error::Helper))
}

/// Enables `lo`, with the one message of rtnetlink(7) for that.
fn up() -> io::Result<()> {
    const NEWLINK: u16 = 16;
    const REQUEST_AND_ACK: u16 = 1 | 4;
    const IFF_UP: u32 = 1;
    /// `lo` is the first interface of every namespace.
    const LOOPBACK: i32 = 1;
    let mut message = Vec::with_capacity(32);
    message.extend(32_u32.to_ne_bytes());
    message.extend(NEWLINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACK.to_ne_bytes());
    // Sequence and sender.
    message.extend([1_u32.to_ne_bytes(), 0_u32.to_ne_bytes()].concat());
    // Family and type of the interface: any.
    message.extend(0_u32.to_ne_bytes());
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend([IFF_UP.to_ne_bytes(), IFF_UP.to_ne_bytes()].concat());
    // NETLINK_ROUTE is protocol 0.
    let socket = rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    rustix::net::send(&socket, &message, SendFlags::empty())?;
    let mut answer = [0_u8; 512];
    let (_, length) = rustix::net::recv(&socket, &mut answer, RecvFlags::empty())?;
    // The header, and then a negative error number, or 0.
    let code = answer.get(16..20).filter(|_| length >= 20).and_then(|code| code.try_into().ok());
    match code.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(error.saturating_neg())),
        None => Err(io::Error::other("an answer of netlink is too short")),
    }
}
