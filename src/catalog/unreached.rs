//! An address that accepts no connection: what the operator reads about it.

use std::fmt;
use std::io::ErrorKind;

/// A connection that was not made. Its text names the address, so no agent is shown it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreached {
    /// `address:port`, or `host:port` where a library resolves the name.
    pub address: String,
    /// How the attempt ended; [`ErrorKind::TimedOut`] if nothing came back.
    pub end: ErrorKind,
}

impl Unreached {
    /// What the operator should do.
    #[must_use]
    pub fn todo(&self) -> &'static str {
        if self.end == ErrorKind::ConnectionRefused {
            "start it, correct the port, or allow it in the NetworkPolicy that rejects it"
        } else {
            "start it, or allow this address and port in the firewall or the NetworkPolicy; for a Service of Kubernetes, those of its endpoints"
        }
    }
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, end } = self;
        if *end == ErrorKind::TimedOut {
            let likely = "as if a firewall or a NetworkPolicy drops the connection";
            write!(f, "{address} sends nothing back, {likely}")
        } else if *end == ErrorKind::ConnectionRefused {
            write!(f, "{address} refuses the connection")
        } else {
            write!(f, "no connection to {address}: {end}")
        }
    }
}
