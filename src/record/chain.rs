//! Entries about a chain, its writer, and what is active on it.

use super::call::{Auth, Layer};
use super::run::Setting;
use super::text::{Base64, HexDigest, Int, List, Millis, Nonce, TaggedDigest, Text};
use crate::domain::closed::{closed, members, textual};
use crate::domain::time::Timestamp;

members! {
    /// The chain that a new one continues after entries were lost.
    #[cfg_attr(test, schemars(rename = "continues"))]
    pub struct Continues {
        /// The person who ordered it.
        pub by: Text,
        /// Name of the old log.
        pub log: Text,
        /// Index of the first lost entry.
        pub lost_from: Int,
        /// The index after the last lost entry.
        pub lost_to: Int,
        /// Root of the last head that was seen.
        pub root: HexDigest,
        /// Size of the last head that was seen.
        pub size: Int,
    }

    /// `chain.genesis`: the first entry of a chain.
    pub struct ChainGenesis {
        /// The chain that this one continues.
        pub continues: Option<Continues>,
        /// The key that certifies its writers (Ed25519).
        pub enrolment_key: Base64<32>,
        /// Name of its log.
        pub origin: Text,
    }

    /// A writer's certificate: what the enrolment key signed.
    #[cfg_attr(test, schemars(rename = "certificate"))]
    pub struct Certificate {
        /// The signed bytes, base64.
        pub body: Text<8192>,
        /// Id of the enrolment key.
        pub keyid: HexDigest,
        /// The signature (Ed25519).
        pub sig: Base64<64>,
    }
}

/// The root of the tree that the previous writer wrote; empty at the first start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermark(pub Option<HexDigest>);

impl Watermark {
    /// Reads 64 hex digits or nothing.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            Some(Self(None))
        } else {
            HexDigest::parse(text).map(|at| Self(Some(at)))
        }
    }
}

impl std::fmt::Display for Watermark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |root| root.fmt(f))
    }
}

textual!(Watermark, "64 lowercase hex digits or nothing", "^([0-9a-f]{64})?$");

members! {
    /// `writer.started`: a writer took over the chain.
    pub struct WriterStarted {
        /// Certificate of its key.
        pub certificate: Certificate,
        /// Digest of its container image; may be empty.
        pub image: Text,
        /// Its pod; may be empty.
        pub pod: Text,
        /// Epoch of the writer before it.
        pub prev_epoch: Int,
        /// Why it started.
        pub reason: Text,
        /// Settings of the configuration that matter to an auditor.
        pub settings: List<Setting>,
        /// Version of the program.
        pub version: Text,
        /// Root of the tree at `watermark_size`.
        pub watermark_root: Watermark,
        /// Number of entries that the gate's spool knew to be stored.
        pub watermark_size: Int,
        /// The key that signs its checkpoints (Ed25519).
        pub writer_key: Base64<32>,
    }

    /// `writer.stopped`: a writer gave up the chain.
    pub struct WriterStopped {
        /// Why the writer stopped.
        pub reason: Text,
    }

    /// `heartbeat`: the writer is alive.
    pub struct Heartbeat {
        /// Number of open runs.
        pub open_runs: Int,
        /// Number of requests that were rejected since the last heartbeat.
        pub rejected: Option<Int>,
    }

    /// `clock.step`: the wall clock jumped.
    pub struct ClockStep {
        /// Size of the jump in milliseconds; negative if the clock went back.
        pub delta_ms: Millis,
    }
}

closed! {
    /// Why a policy bundle was activated.
    pub enum Basis {
        /// It is the first.
        Bootstrap = "bootstrap",
        /// Publishers signed it.
        Amendment = "amendment",
        /// It was active before the restart.
        Restart = "restart",
    }
}

members! {
    /// `policy.activated`: a policy bundle came into force.
    pub struct PolicyActivated {
        /// Number of publishers' signatures.
        pub approvals: Option<Int>,
        /// Digest of the bundle that it replaced.
        pub base: Option<TaggedDigest>,
        /// Why it came into force.
        pub basis: Option<Basis>,
        /// Its layers.
        pub layers: List<Layer>,
        /// Its name.
        pub name: Text,
        /// Its version.
        pub version: Text,
    }

    /// `manifest.bound`: a manifest came into force.
    pub struct ManifestBound {
        /// Its agent.
        pub agent: Text,
        /// The weakest binding that runs of the manifest may have.
        pub binding: Text,
        /// Its digest.
        pub digest: TaggedDigest,
        /// Its version.
        pub version: Text,
    }

    /// `manifest.refused`: a manifest did not come into force.
    pub struct ManifestRefused {
        /// The agent.
        pub agent: Text,
        /// The stable code of the refusal.
        pub code: Text,
    }
}

closed! {
    /// Which list of signers.
    pub enum SignerList {
        /// Who may approve calls and sign orders.
        Approvers = "approvers",
        /// Who may sign break-glass orders.
        BreakGlass = "break-glass signers",
    }
}

members! {
    /// `signers.bound`: a list of signers came into force.
    pub struct SignersBound {
        /// Its digest.
        pub digest: TaggedDigest,
        /// When it expires.
        pub expires: Option<Text>,
        /// Which list.
        pub list: SignerList,
        /// Its version.
        pub version: Int,
    }
}

closed! {
    /// What changed in the configuration.
    pub enum Changed {
        /// The tools.
        Tools = "tools",
    }
}

members! {
    /// `config.changed`: a part of the configuration changed while the gate ran.
    pub struct ConfigChanged {
        /// Digest of the new part.
        pub digest: TaggedDigest,
        /// Number of tools after the change.
        pub tools: Int,
        /// Which part.
        pub what: Changed,
    }

    /// `request.rejected`: requests that were refused before they became calls, counted by code.
    pub struct RequestRejected {
        /// The stable code of the refusal.
        pub code: Text,
        /// Number of requests.
        pub count: Int,
        /// When the first request arrived.
        pub first: Text,
        /// When the last request arrived.
        pub last: Text,
    }

    /// `health.changed`: the gate became ready, or stopped being ready.
    pub struct HealthChanged {
        /// Whether the gate takes calls.
        pub ready: bool,
        /// Why the gate takes no calls.
        pub reasons: List<Text>,
    }

    /// `ledger.recovered`: the writer restored entries that the store had lost.
    pub struct LedgerRecovered {
        /// Index of the first restored entry.
        pub from: Int,
        /// Where the writer had kept the entries.
        pub source: Text,
        /// The index after the last restored entry.
        pub to: Int,
    }
}

closed! {
    /// What was tested.
    pub enum TestProbe {
        /// A call that must be denied.
        Canary = "canary",
    }
}

members! {
    /// `enforcement.tested`: the gate tested whether it still denies.
    pub struct EnforcementTested {
        /// Code that the test call should get.
        pub expected: Text,
        /// Code that the test call got.
        pub found: Text,
        /// Whether both codes are the same.
        pub passed: bool,
        /// What was tested.
        pub probe: TestProbe,
    }
}

closed! {
    /// The vantage point of an attempt to bypass the gate.
    pub enum Observer {
        /// Where the agent runs.
        Agent = "agent",
    }
}

closed! {
    /// Whether calls hang on isolation.
    pub enum Isolation {
        /// It is reported.
        Advisory = "advisory",
        /// Without it no call runs.
        Enforced = "enforced",
    }
}

closed! {
    /// The result of an attempt to bypass the gate.
    pub enum Attempt {
        /// It did not get through.
        Blocked = "blocked",
        /// It got through.
        Open = "open",
        /// The result is unknown.
        Unknown = "unknown",
    }
}

members! {
    /// One attempt to bypass the gate.
    #[cfg_attr(test, schemars(rename = "probe"))]
    pub struct Probe {
        /// What happened, as text.
        pub detail: Text,
        /// How it ended.
        pub outcome: Attempt,
        /// Name of the attempt.
        pub probe: Text,
        /// Target of the attempt.
        pub target: Text,
    }

    /// `posture.observed`: attempts to bypass the gate, made where an agent runs.
    pub struct PostureObserved {
        /// The agent.
        pub agent: Text,
        /// How the caller proved who it is.
        pub auth: Auth,
        /// Number of attempts that failed.
        pub blocked: Int,
        /// Version of the program that made them.
        pub doctor: Text,
        /// Whether the gate denies calls of the agent without a passed test (`enforced`).
        pub isolation: Isolation,
        /// Attempts that the gate requested and the program did not make.
        pub missing: List<Text, 64>,
        /// Challenge of the gate that the attempts answer.
        pub nonce: Nonce,
        /// Where the attempts were made.
        pub observer: Observer,
        /// Number of attempts that succeeded.
        pub open: Int,
        /// Whether every requested attempt was made and none succeeded.
        pub passed: bool,
        /// The attempts.
        pub probes: List<Probe, 128>,
        /// Number of attempts whose result is unknown.
        pub unknown: Int,
    }

    /// `evidence.exported`: a bundle of evidence was made.
    pub struct EvidenceExported {
        /// Number of entries in the bundle.
        pub entries: Int,
        /// Digest of the bundle's list of files.
        pub manifest: HexDigest,
        /// The query that selected the entries.
        pub query: List<Setting>,
        /// Who requested the bundle.
        pub requester: Text,
        /// How much of the ledger the bundle covers.
        pub scope: ExportScope,
    }
}

closed! {
    /// How much of the ledger a bundle covers.
    pub enum ExportScope {
        /// One run, and its descendants.
        Run = "run",
        /// Entries of one chain.
        Range = "range",
        /// Runs of all chains in a span of time.
        Population = "population",
    }
}

members! {
    /// A witness or a time-stamping authority saw a head of a log.
    pub struct AnchorObserved {
        /// Name of the log.
        pub log: Text,
        /// Name of the witness or authority.
        pub name: Text,
        /// Root of the head.
        pub root: HexDigest,
        /// Size of the head.
        pub size: Int,
        /// Kind of the observer: a witness or a time-stamping authority (`tsa`).
        pub source: AnchorSource,
        /// When it saw the head.
        pub time: Timestamp,
        /// Digest of the witness's signature or the authority's token.
        pub token: HexDigest,
    }
}

closed! {
    /// Who saw the head of a log.
    pub enum AnchorSource {
        /// A witness of the C2SP.
        Witness = "witness",
        /// A time stamping authority (RFC 3161).
        Tsa = "tsa",
    }
}
