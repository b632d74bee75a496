//! Entries about runs.

use super::call::{Auth, TaintLabel};
use super::text::{Int, List, TaggedDigest, Text, True};
use crate::domain::closed::{closed, members, name};
use crate::domain::id::RunId;
use crate::domain::taint::Label;
use crate::domain::tier::Binding;
use crate::domain::time::Timestamp;

members! {
    /// A name with its value.
    #[cfg_attr(test, schemars(rename = "setting"))]
    pub struct Setting {
        /// The name.
        pub k: Text,
        /// The value.
        pub v: Text,
    }
}

impl Setting {
    /// This name with this value.
    pub fn of(name: impl Into<Text>, value: impl Into<Text>) -> Self {
        Self { k: name.into(), v: value.into() }
    }
}

members! {
    /// A name with its count.
    #[cfg_attr(test, schemars(rename = "count"))]
    pub struct Count {
        /// The name.
        pub k: Text,
        /// The count.
        pub v: Int,
    }

    /// An ancestor of a delegated run.
    #[cfg_attr(test, schemars(rename = "delegator"))]
    pub struct Delegator {
        /// Its agent, by the name in its manifest.
        pub id: Text,
        /// Digest of that manifest.
        pub manifest: TaggedDigest,
        /// The run.
        pub run: RunId,
        /// Version of that manifest.
        pub version: Text,
    }
}

closed! {
    /// How the contents of a run are kept, and where its external inputs come from.
    pub enum ReplayMode {
        /// Every external input is recorded.
        Record = "record",
        /// As `record`, and random values come from the seed.
        Deterministic = "deterministic",
        /// Every external input comes from a recording.
        Replay = "replay",
        /// As `replay` up to an entry, then live.
        Fork = "fork",
    }
}

members! {
    /// How a run is recorded or replayed.
    #[cfg_attr(test, schemars(rename = "replay"))]
    pub struct Replay {
        /// `fork`: the first `run_seq` that is not from the recording.
        pub at: Option<Int<1>>,
        /// The opening time that the gate gave to the agent.
        pub clock: Timestamp,
        /// Whether the run is recorded, replayed or forked.
        pub mode: ReplayMode,
        /// Digest of the recording.
        pub recording: Option<TaggedDigest>,
        /// `fork`: the run that was recorded.
        pub run: Option<RunId>,
    }
}

closed! {
    /// How a delegated run proved that its parent asked its agent.
    pub enum Delegate {
        /// Its credential says so.
        Attested = "attested",
        /// The agent says so.
        Claimed = "claimed",
    }
}

closed! {
    /// What a run that no agent opened represents.
    pub enum Implicit {
        /// One MCP session.
        Session = "session",
        /// All requests with one name.
        Named = "named",
        /// All requests of one caller.
        Caller = "caller",
    }
}

name! {
    /// The name of a run, given by its requests: `[A-Za-z0-9_.-]{1,64}`.
    pub struct RunName("1 to 64 of [A-Za-z0-9_.-]", 64, "^[A-Za-z0-9_.-]{1,64}$")
}

members! {
    /// `run.opened`: the gate bound an agent to its manifest; the agent may call tools.
    pub struct RunOpened {
        /// The agent, by the name in its manifest.
        pub agent: Text,
        /// How the caller proved who it is.
        pub auth: Auth,
        /// How the gate knows the agent's model and instructions.
        pub binding: Binding,
        /// How a delegated run proved that its parent delegated to it.
        pub delegate: Option<Delegate>,
        /// Number of agents that its manifest may delegate to.
        pub delegates: Option<Int<1>>,
        /// Its ancestors, the outermost first.
        pub delegation: Option<List<Delegator, 16, 1>>,
        /// When the run ends by itself.
        pub expires: Option<Timestamp>,
        /// What the gate opened the run for, if no agent opened it.
        pub implicit: Option<Implicit>,
        /// The ledger keeps commitments only; payloads are not stored.
        pub incognito: Option<True>,
        /// Digests of the instructions that the agent claims.
        pub instructions: List<Text>,
        /// Labels that the agent chose.
        pub labels: List<Setting>,
        /// Digest of the manifest.
        pub manifest: TaggedDigest,
        /// `enforce` or `observe`.
        pub mode: Text,
        /// The model that the agent claims; may be empty.
        pub model: Text,
        /// The run that delegated to it.
        pub parent: Option<RunId>,
        /// How the run is recorded or replayed.
        pub replay: Option<Replay>,
        /// Seed of the run's random values.
        pub seed: Option<Text>,
        /// Labels that the run begins with: those of the run that delegated to it, and those of earlier runs of
        /// its caller.
        pub taint: Option<List<TaintLabel, 4, 1>>,
        /// Name of the run in its requests.
        pub thread: Option<RunName>,
        /// Hash of the run token.
        pub token_hash: Option<Text>,
        /// W3C trace context of the caller.
        pub traceparent: Option<Text>,
        /// Version of the manifest.
        pub version: Text,
    }

    /// `run.sealed`: the run ended; no entry of it follows.
    pub struct RunSealed {
        /// Number of its calls by outcome.
        pub calls: List<Count>,
        /// Number of its entries, this one included.
        pub entries: Int<2>,
        /// Why it was sealed, if the agent did not seal it.
        pub reason: Option<Text>,
    }

    /// `taint.cleared`: an operator took the labels of a run away.
    pub struct TaintCleared {
        /// How the operator proved who it is.
        pub auth: Text,
        /// The labels.
        pub labels: List<Label, 4>,
        /// The order's number.
        pub order: Int,
        /// The operator's reason.
        pub reason: Text,
        /// The operator's roles.
        pub roles: List<Text>,
        /// The operator.
        pub subject: Text,
    }
}
