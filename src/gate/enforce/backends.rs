//! The gate's own backends, which its agents must not reach, and whether the gate reaches them now.
//! Only if the gate does is an agent's failure to reach one evidence of isolation.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::tool::net::knock;

/// Backends that fit in one report.
const BACKENDS_MAX: usize = 40;
/// How long a result is reused, so that agents cannot make the gate probe more often.
const FRESH: Duration = Duration::from_secs(10);

/// A host and port that the gate connects to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Backend {
    /// Host and port, as configured.
    pub name: String,
    /// The resolved address; `None` if the name did not resolve.
    pub address: Option<SocketAddr>,
    /// Whether the gate reached it.
    pub reached: bool,
}

impl Backend {
    /// The name that reports use: the address, or the configured name if it did not resolve.
    pub fn target(&self) -> String {
        self.address.map_or_else(|| self.name.clone(), |address| address.to_string())
    }
}

/// Hosts and ports.
type HostPorts = BTreeSet<(String, u16)>;

/// The last result: when it was taken, and of which backends.
#[derive(Debug, Default)]
pub(super) struct LastProbe(Mutex<Option<LastLook>>);

#[derive(Clone, Debug)]
struct LastLook {
    at: Duration,
    of: HostPorts,
    found: Vec<Backend>,
}

impl LastProbe {
    /// The state of these backends, probed now or within the last `FRESH`.
    pub(super) async fn look(&self, now: Duration, places: HostPorts) -> Vec<Backend> {
        let known = self.0.lock().clone();
        if let Some(LastLook { at, of, found }) = known
            && of == places
            && now.saturating_sub(at) < FRESH
        {
            return found;
        }
        let mut looks = JoinSet::new();
        for (host, port) in places.iter().take(BACKENDS_MAX).cloned() {
            looks.spawn(look(host, port));
        }
        let mut found = looks.join_all().await;
        found.sort();
        *self.0.lock() = Some(LastLook { at: now, of: places, found: found.clone() });
        found
    }
}

async fn look(host: String, port: u16) -> Backend {
    let (address, reached) = knock(&host, port).await;
    Backend { name: format!("{host}:{port}"), address, reached }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(host: &str, port: u16) -> BTreeSet<(String, u16)> {
        [(host.to_owned(), port)].into()
    }

    #[tokio::test]
    async fn a_backend_that_answers_is_reached_and_its_probe_is_cached_for_ten_seconds() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let found = LastProbe::default();
        let reached = found.look(Duration::ZERO, one("127.0.0.1", address.port())).await;
        assert_eq!(reached[0].target(), address.to_string());
        assert!(reached[0].reached);
        drop(listener);
        let remembered = found.look(Duration::from_secs(9), one("127.0.0.1", address.port())).await;
        assert!(remembered[0].reached, "it was asked again within ten seconds");
        let unreachable =
            found.look(Duration::from_secs(11), one("127.0.0.1", address.port())).await;
        assert!(!unreachable[0].reached);
        let unresolved = found.look(Duration::ZERO, one("nobody.invalid", 443)).await;
        assert_eq!(unresolved[0].target(), "nobody.invalid:443");
        assert!(!unresolved[0].reached);
    }
}
