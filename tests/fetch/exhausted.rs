//! A network that has no port left to connect from: corpus 16, FLT-043.

use std::net::{SocketAddr, TcpStream};
use wicketgate_support::agent::Refused;

use crate::servers::PUBLIC;
use crate::world;

/// Closed without a word, a connection leaves its port to the next at once.
fn cut(connection: &TcpStream) {
    let linger = Some(std::time::Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(connection, linger).unwrap();
}

#[test]
fn without_a_port_left_a_fetch_fails_and_says_so_and_the_next_with_one_arrives() {
    let name =
        "exhausted::without_a_port_left_a_fetch_fails_and_says_so_and_the_next_with_one_arrives";
    world::run(name, async |world| {
        std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "50000 50001").unwrap();
        let taken: Vec<TcpStream> =
            (0..2).map(|_| TcpStream::connect(SocketAddr::from((PUBLIC, 80))).unwrap()).collect();
        taken.iter().for_each(cut);
        TcpStream::connect(SocketAddr::from((PUBLIC, 80))).expect_err("a port is left");

        let Refused { code, detail, message, .. } =
            world.fetch("http://allowed.test/").await.unwrap_err();
        assert_eq!((&*code, &*detail), ("tool.failed", "connect"), "{message}");
        assert!(world.servers.heads("/").is_empty());

        drop(taken);
        assert_eq!(world.fetch("http://allowed.test/").await.unwrap()["body"], "hello");
        world.untouched();
    });
}
