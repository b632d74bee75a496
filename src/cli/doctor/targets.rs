//! What the doctor tries to reach, and how it is named.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use crate::cli::argument::ArgumentError;

/// Attempts of one kind.
pub struct Group {
    /// What they are called.
    pub probe: &'static str,
    /// Where.
    pub addresses: &'static [&'static str],
}

/// Connections that must not come about.
pub const TCP: [Group; 6] = [
    Group { probe: "tcp.public", addresses: &["93.184.216.34:443", "1.1.1.1:443"] },
    Group {
        probe: "tcp.private",
        addresses: &["10.0.0.1:443", "10.96.0.1:443", "172.16.0.1:443", "192.168.0.1:443"],
    },
    Group {
        probe: "tcp.metadata",
        addresses: &[
            "169.254.169.254:80",
            "169.254.170.2:80",
            "100.100.100.200:80",
            "168.63.129.16:80",
        ],
    },
    Group { probe: "tcp6.public", addresses: &["[2606:4700:4700::1111]:443"] },
    Group { probe: "tcp6.private", addresses: &["[fd00::1]:443"] },
    Group {
        probe: "tcp6.metadata",
        addresses: &["[fd00:ec2::254]:80", "[::ffff:169.254.169.254]:80"],
    },
];

/// Questions that must not be answered.
pub const DNS: [Group; 2] = [
    Group { probe: "udp.dns", addresses: &["8.8.8.8:53", "1.1.1.1:53"] },
    Group { probe: "udp6.dns", addresses: &["[2001:4860:4860::8888]:53"] },
];

/// The host that must not answer an echo request.
pub const ECHO: &str = "1.1.1.1:0";

/// Sockets of runtimes that can start any container on the node.
pub const SOCKETS: [&str; 6] = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/podman/podman.sock",
    "/run/k3s/containerd/containerd.sock",
];

/// Credentials that container platforms mount.
pub const TOKENS: [&str; 4] = [
    "/var/run/secrets/kubernetes.io/serviceaccount/token",
    "/var/run/secrets/eks.amazonaws.com/serviceaccount/token",
    "/var/run/secrets/azure/tokens/azure-identity-token",
    "/var/run/secrets/tokens/gcp-ksa/token",
];

/// One more thing to try.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    Tcp(SocketAddr),
    Udp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for Target {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, ArgumentError> {
        let address = |text: &str| {
            let malformed = |_| ArgumentError::TargetAddress(text.to_owned());
            text.parse::<SocketAddr>().map_err(malformed)
        };
        match text.split_once(':') {
            Some(("tcp", at)) => Ok(Self::Tcp(address(at)?)),
            Some(("udp", at)) => Ok(Self::Udp(address(at)?)),
            Some(("unix", path)) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(_) | None => Err(ArgumentError::Target),
        }
    }
}

/// The resolvers that this machine is configured with, at most three, as glibc has it.
pub fn resolvers() -> Vec<SocketAddr> {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let named = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let addresses = named.filter_map(|rest| rest.trim().parse::<IpAddr>().ok());
    addresses.take(3).map(|ip| SocketAddr::new(ip, 53)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_that_is_tried_can_be_read_and_its_name_says_which_family_it_is() {
        for Group { probe, addresses } in TCP.into_iter().chain(DNS) {
            for text in addresses {
                let address: SocketAddr = text.parse().unwrap();
                assert_eq!(address.is_ipv6(), probe.contains("6."), "{probe} {text}");
            }
        }
        assert!(ECHO.parse::<SocketAddr>().unwrap().is_ipv4());
    }

    #[test]
    fn a_target_is_a_protocol_and_a_place() {
        let parsed = |text: &str| text.parse::<Target>().ok();
        let loopback = Target::Tcp(([0, 0, 0, 0, 0, 0, 0, 1], 1).into());
        assert_eq!(parsed("tcp:[::1]:1"), Some(loopback));
        assert_eq!(parsed("udp:127.0.0.1:53"), Some(Target::Udp(([127, 0, 0, 1], 53).into())));
        assert_eq!(parsed("unix:/a"), Some(Target::Unix("/a".into())));
        for text in ["", "tcp:host:1", "tcp:1.2.3.4", "unix:a", "icmp:1.1.1.1:0", "1.1.1.1:1"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
