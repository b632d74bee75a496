//! Compares the process's limit of open files and connections with what the configuration needs.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Config;
use crate::serve::agents::AgentSettings;
use crate::serve::{STRANGERS, operator};

/// The ledger, its own files, the runtime, and the files of a tool besides its connection.
const OWN: u64 = 256;

/// Descriptors of a gate that is as busy as it may be: every connection of every listener, and a connection to a
/// tool or a model for each call in progress.
fn needed(config: &Config) -> u64 {
    let listeners = config.sockets().len().saturating_add(config.listen.endpoints().count());
    let of_one = |connections: usize| connections.saturating_add(STRANGERS);
    let agents = listeners.saturating_mul(of_one(AgentSettings::default().connections_max));
    let all = agents.saturating_add(of_one(operator::OperatorSettings::default().connections_max));
    let all = u64::try_from(all).unwrap_or(u64::MAX);
    let limits = &config.limits;
    let calls = limits.in_flight_max.saturating_add(limits.model_streams_max);
    all.saturating_add(calls).saturating_add(OWN)
}

/// Raises this process's limit to what it needs, as far as allowed, and warns if that is too
/// little. The gate serves all the same: it closes a connection too many, and tries `accept` again.
pub(super) fn raise(config: &Config) {
    let needed = needed(config);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|now| now >= needed) {
        return;
    }
    let wanted = maximum.map_or(needed, |most| most.min(needed));
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }) {
        tracing::warn!(%error, "the limit on open files cannot be raised");
    }
    let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if now < needed {
        tracing::warn!(
            now,
            needed,
            "the limit on open files is too low for the configured connections and calls: raise `ulimit -n`, or lower `limits.in_flight_max`"
        );
    }
}
