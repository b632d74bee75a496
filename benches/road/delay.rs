//! A farther database: a relay that holds back every answer for a millisecond.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// What it adds to each round trip.
const ADDED: Duration = Duration::from_millis(1);

/// Starts a relay to `127.0.0.1:<port>`; it ends with the process.
pub fn start(port: u16) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let near = near.unwrap();
            let far = TcpStream::connect(("127.0.0.1", port)).unwrap();
            near.set_nodelay(true).unwrap();
            far.set_nodelay(true).unwrap();
            let (from_near, to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || pump(from_near, to_far, Duration::ZERO));
            std::thread::spawn(move || pump(far, near, ADDED));
        }
    });
    addr
}

fn pump(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(n) = from.read(&mut bytes)
        && n > 0
    {
        if !delay.is_zero() {
            // Precise enough: the kernel adds some 60 µs.
            std::thread::sleep(delay);
        }
        if to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}
