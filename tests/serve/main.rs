//! The edge over real sockets: what is served, to whom, and in which words it is refused.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests may stop at the first surprise"
)]

mod agent;
mod operator;
mod problems;
mod sockets;
mod surface;
mod traces;

use std::sync::{Arc, OnceLock};
use wicketgate_support::{collector, waiting};

use tokio::sync::watch;
use wicketgate::clock::{SystemClock, SystemEntropy};
use wicketgate::domain::code::Code;
use wicketgate::enforce::Fault;
use wicketgate::identity::Peer;
use wicketgate::serve::{Faces, Readiness};
use wicketgate::telemetry::metrics::Metrics;

/// Who asked, in order.
pub(crate) type Seen = Arc<parking_lot::Mutex<Vec<Peer>>>;

/// Faces of a gate whose books are not open yet; nobody is known, and who asked is written down.
pub(crate) fn faces() -> (Faces, watch::Sender<Readiness>, Seen) {
    let seen = Seen::default();
    let peers = Arc::clone(&seen);
    let (tell, readiness) = watch::channel(Readiness::default());
    let faces = Faces {
        road: Arc::new(OnceLock::new()),
        identify: Arc::new(move |peer, credential| {
            peers.lock().push(peer.clone());
            Err(fault(Code::IdentityMissing, credential.unwrap_or("nothing")))
        }),
        readiness,
        metrics: Arc::new(Metrics::new(["known".to_owned()], "0", "test")),
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
    };
    (faces, tell, seen)
}

pub(crate) fn fault(code: Code, message: &str) -> Fault {
    Fault {
        code,
        detail: String::new(),
        message: message.to_owned(),
        call: None,
        reasons: Vec::new(),
        expires: None,
        retry_after: None,
        receipt: None,
    }
}
