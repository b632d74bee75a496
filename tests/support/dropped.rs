//! An address on loopback that drops what is sent to it, as a NetworkPolicy does.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};

/// More connections than the queue of a listener with the smallest one holds.
const QUEUE_MAX: usize = 16;

/// A listener that accepts nothing and whose queue is full: the kernel drops each further connection.
pub struct Dropped {
    /// Where nothing comes back from.
    pub address: SocketAddr,
    _listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl Dropped {
    pub fn start() -> Self {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        rustix::net::listen(&socket, 0).unwrap();
        let listener = TcpListener::from(socket);
        let address = listener.local_addr().unwrap();
        let mut queue = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
            queue.push(stream);
            assert!(queue.len() < QUEUE_MAX, "the queue has no end");
        }
        Self { address, _listener: listener, _queue: queue }
    }
}
