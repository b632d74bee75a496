//! Ports for servers that must be told theirs before they take it.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below what the kernel gives to those who ask for any port (Linux: 32768 and above), so that nobody gets one of
/// these by chance between the moment a test chooses it and the moment its server listens.
const FIRST: u16 = 10_240;
const COUNT: u16 = 22_000;
static NEXT: AtomicU16 = AtomicU16::new(0);

/// A TCP port of 127.0.0.1 that no other test uses, in this program or another, for as long as this lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// The UDP port of the same number: what tells the other test programs that it is taken.
    _lock: UdpSocket,
}

impl Port {
    pub fn claim() -> Port {
        for _ in 0..COUNT {
            let number = FIRST + next() % COUNT;
            let Ok(lock) = UdpSocket::bind(("127.0.0.1", number)) else { continue };
            // Somebody who is no test may have it.
            if TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Port { number, _lock: lock };
            }
        }
        panic!("no port from {FIRST} on is free");
    }

    pub fn number(&self) -> u16 {
        self.number
    }
}

/// Programs begin far from one another, and none takes a port twice soon.
fn next() -> u16 {
    let own = u16::try_from(std::process::id() % 1_000).unwrap() * 22;
    own.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))
}
