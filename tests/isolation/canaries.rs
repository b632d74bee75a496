//! Listeners at the addresses of the world outside: whatever reaches them is counted.

use std::io::Read as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Addresses that are this machine's in a test's network, so that what is sent to them arrives.
pub const V4: [&str; 5] = ["93.184.216.34", "1.1.1.1", "8.8.8.8", "169.254.169.254", "10.0.0.1"];
pub const V6: [&str; 4] =
    ["2606:4700:4700::1111", "2001:4860:4860::8888", "fd00:ec2::254", "fd00::1"];

/// What arrived.
#[derive(Clone, Default)]
pub struct Canaries {
    reached: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

impl Canaries {
    /// Listens at every address, on the ports of the web and of name servers.
    pub fn listen() -> Canaries {
        let canaries = Canaries::default();
        let every: [std::net::IpAddr; 2] =
            [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        // The IPv6 wildcard takes both: one listener for each port.
        for port in [80, 443] {
            let listener = TcpListener::bind(SocketAddr::new(every[1], port)).unwrap();
            let counted = canaries.clone();
            std::thread::spawn(move || {
                for mut stream in listener.incoming().map_while(Result::ok) {
                    counted.reached.fetch_add(1, Ordering::SeqCst);
                    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
                    let mut sent = Vec::new();
                    let _ = stream.read_to_end(&mut sent);
                    counted.bytes.fetch_add(sent.len() as u64, Ordering::SeqCst);
                }
            });
        }
        let names = UdpSocket::bind(SocketAddr::new(every[1], 53)).unwrap();
        let counted = canaries.clone();
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, from)) = names.recv_from(&mut question) {
                counted.reached.fetch_add(1, Ordering::SeqCst);
                counted.bytes.fetch_add(length as u64, Ordering::SeqCst);
                let _ = names.send_to(&question[..length], from);
            }
        });
        canaries
    }

    /// Connections and packets, and their bytes.
    pub fn seen(&self) -> (u64, u64) {
        (self.reached.load(Ordering::SeqCst), self.bytes.load(Ordering::SeqCst))
    }
}
