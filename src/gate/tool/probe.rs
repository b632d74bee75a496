//! The operator's report about a tool before any agent calls it: whether everything that it needs
//! exists and is fit for use.
//!
//! Each kind probes in its own folder, with the same parts that a call uses. A probe is not a call:
//! it sends no argument, no credential except what a database demands from its client, and no
//! request, and it writes nothing.

use std::sync::Arc;

use super::look;
use super::net::{Client, ConnectError, Reached, Resolve};
use super::sandbox::Levels;
use super::scrub::Scrub;
use crate::catalog::Binding;
use crate::catalog::host::Origin;

crate::domain::closed::texts! {
    /// The result for one thing that a tool needs; a worse result is greater.
    pub enum ProbeState {
        /// It cannot be probed without a call: a pattern of hosts.
        Skipped = "skipped",
        /// It exists and is fit for use.
        Ready = "ready",
        /// A server offers it and no lock pins it, so no agent has it.
        New = "new",
        /// It works as pinned, but its description changed or it accepts more than before.
        Changed = "changed",
        /// It does not respond, or refuses the gate.
        Unreached = "unreached",
        /// This machine cannot isolate it as demanded.
        Unavailable = "unavailable",
        /// It resolves to an address that the binding does not allow.
        Blocked = "blocked",
        /// It cannot prove its identity.
        Untrusted = "untrusted",
        /// It exists and must not be used in its present state.
        Unfit = "unfit",
        /// It differs from what was pinned.
        Drifted = "drifted",
        /// It does not exist.
        Missing = "missing",
        /// The gate does not start with it.
        Refused = "refused",
    }
}

impl ProbeState {
    /// Whether nothing is wrong with it.
    #[must_use]
    pub const fn is_fine(self) -> bool {
        matches!(self, Self::Skipped | Self::Ready | Self::New | Self::Changed)
    }

    /// Whether its state could not be determined: another probe may succeed.
    #[must_use]
    pub const fn is_unknown(self) -> bool {
        matches!(self, Self::Unreached | Self::Unavailable)
    }
}

/// The result for one thing that was probed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    /// The subject: `https://api.example.com:443`, `/usr/bin/sort`, `sandbox S2`.
    pub what: String,
    /// The state.
    pub state: ProbeState,
    /// The state in words, for the operator; never a secret.
    pub found: String,
    /// What the operator should do; `None` if it is fine.
    pub todo: Option<String>,
}

impl Point {
    /// A result without a finding.
    pub fn ready(what: impl Into<String>, found: impl Into<String>) -> Self {
        Self { what: what.into(), state: ProbeState::Ready, found: found.into(), todo: None }
    }

    /// A result with a finding and the action that it needs.
    pub fn wrong(
        what: impl Into<String>,
        state: ProbeState,
        found: impl Into<String>,
        todo: &str,
    ) -> Self {
        let todo = (!todo.is_empty()).then(|| todo.to_owned());
        Self { what: what.into(), state, found: found.into(), todo }
    }
}

/// The worst result; a tool without results is ready.
pub fn worst(points: &[Point]) -> ProbeState {
    points.iter().map(|point| point.state).max().unwrap_or(ProbeState::Ready)
}

/// The inputs of every probe.
#[derive(Clone, Debug)]
pub struct ProbeSetup {
    /// Resolves names.
    pub resolve: Arc<dyn Resolve>,
    /// The sandbox levels of this machine, determined once.
    pub levels: Arc<Levels>,
}

/// Probes everything that one binding needs. Takes as long as its backends, so the caller sets a
/// deadline. The tools of an MCP server are compared where the server itself is probed.
pub async fn probe(binding: Binding, setup: &ProbeSetup) -> Vec<Point> {
    let scrub = Scrub::new(&binding.kind.secrets());
    let points = look(binding.kind, setup).await;
    let clean = |point: Point| Point { found: scrub.text(&point.found), ..point };
    points.into_iter().map(clean).collect()
}

/// Connects to an origin with the client that a call would use, and sends nothing.
pub(super) async fn connect(
    origin: &Origin,
    client: Result<Client, impl std::fmt::Display>,
    name: Option<&str>,
) -> Point {
    let place = format!("{}://{}:{}", origin.scheme(), origin.host, origin.port);
    let what = name.map_or_else(|| place.clone(), |name| format!("{name} {place}"));
    match client {
        Ok(client) => connection(what, client.reach(origin).await),
        Err(why) => Point::wrong(what, ProbeState::Refused, why.to_string(), "correct `ca_file`"),
    }
}

/// The result of a connection, or of the failure to connect.
pub(super) fn connection(what: String, connected: Result<Reached, ConnectError>) -> Point {
    let refused = match connected {
        Ok(Reached { peer, tls: Some(version) }) => {
            let found = format!("connected to {peer}, {version}, its certificate is valid");
            return Point::ready(what, found);
        }
        Ok(Reached { peer, tls: None }) => {
            return Point::ready(what, format!("connected to {peer}, without TLS"));
        }
        Err(refused) => refused,
    };
    let (state, todo) = match &refused {
        ConnectError::Name => (
            ProbeState::Unreached,
            "correct the name, or look at this machine's resolver and at the NetworkPolicy that lets it ask",
        ),
        ConnectError::Unreachable(unreached) => (ProbeState::Unreached, unreached.todo()),
        ConnectError::Silent => {
            (ProbeState::Unreached, "look at its log: it ends connections, or does not speak TLS")
        }
        ConnectError::Answers => (ProbeState::Blocked, "use a name with fewer addresses"),
        ConnectError::Address(_) => {
            (ProbeState::Blocked, "if it is meant, open its range in `private_addresses`")
        }
        ConnectError::Elsewhere => {
            (ProbeState::Blocked, "find out what redirects this machine's connections")
        }
        ConnectError::Certificate => {
            (ProbeState::Untrusted, "correct the name, or name its authority in `ca_file`")
        }
        ConnectError::Tls => (ProbeState::Untrusted, "let it speak TLS 1.2 or 1.3 on this port"),
    };
    Point::wrong(what, state, refused.detail(), todo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_tool_is_the_worst_state_that_was_found() {
        let point = |state| Point::wrong("x", state, "y", "z");
        assert_eq!(worst(&[]), ProbeState::Ready);
        assert_eq!(worst(&[point(ProbeState::Skipped)]), ProbeState::Skipped);
        assert_eq!(
            worst(&[point(ProbeState::Ready), point(ProbeState::Skipped)]),
            ProbeState::Ready
        );
        let both =
            [point(ProbeState::Unreached), point(ProbeState::Blocked), point(ProbeState::Ready)];
        assert_eq!(worst(&both), ProbeState::Blocked);
        assert!(!ProbeState::Blocked.is_unknown() && !ProbeState::Blocked.is_fine());
    }

    #[test]
    fn an_address_that_is_refused_is_named_with_what_to_do() {
        let refused = ConnectError::Address([10, 0, 0, 1].into());
        let point = connection("http://a.test:80".into(), Err(refused));
        assert_eq!(point.state, ProbeState::Blocked);
        assert!(point.found.ends_with(": 10.0.0.1"), "{point:?}");
        assert!(point.todo.is_some_and(|todo| todo.contains("`private_addresses`")));
    }
}
