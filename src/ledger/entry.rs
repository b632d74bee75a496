//! One link of a chain: the header that is stored, hashed and proven (`wicketgate/entry/1`).

use crate::crypto::merkle;
use crate::domain::canonical::{self, Members};
use crate::domain::decision::Verdict;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ChainId, Epoch, RunId, Seq, ToolName};
use crate::domain::json::{self, Json, Limits};
use crate::domain::time::Timestamp;

/// The type string of every entry; also its domain separation.
pub const VERSION: &str = "wicketgate/entry/1";
/// Bytes of one entry at most.
pub const BYTES_MAX: usize = 65_535;

macro_rules! kinds {
    ($($name:ident = $text:literal;)*) => {
        /// What an entry records.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Kind { $(#[doc = concat!("`", $text, "`")] $name,)* }
        impl Kind {
            /// The word in entries.
            #[must_use]
            pub const fn as_str(self) -> &'static str { match self { $(Self::$name => $text,)* } }
            /// Reads the word.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> { match text { $($text => Some(Self::$name),)* _ => None } }
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

kinds! {
    ChainGenesis = "chain.genesis";
    WriterStarted = "writer.started";
    WriterStopped = "writer.stopped";
    Heartbeat = "heartbeat";
    ClockStep = "clock.step";
    PolicyActivated = "policy.activated";
    ManifestBound = "manifest.bound";
    ManifestRefused = "manifest.refused";
    ConfigChanged = "config.changed";
    RequestRejected = "request.rejected";
    RunOpened = "run.opened";
    CallAuthorized = "call.authorized";
    CallDenied = "call.denied";
    CallHeld = "call.held";
    CallCompleted = "call.completed";
    CallFailed = "call.failed";
    CallUnknown = "call.unknown";
    CallCancelled = "call.cancelled";
    CallExpired = "call.expired";
    RunSealed = "run.sealed";
    LedgerRecovered = "ledger.recovered";
    ChainEnrolled = "chain.enrolled";
    ChainCheckpoint = "chain.checkpoint";
    ChainRetired = "chain.retired";
    KeyRotated = "key.rotated";
    KeyRevoked = "key.revoked";
    AnchorObserved = "anchor.observed";
    EvidenceExported = "evidence.exported";
    PayloadErased = "payload.erased";
    HoldPlaced = "hold.placed";
    HoldLifted = "hold.lifted";
    RetentionPruned = "retention.pruned";
    ApprovalGranted = "approval.granted";
    ApprovalRefused = "approval.refused";
    ControlSet = "control.set";
    ControlApplied = "control.applied";
    AmendmentProposed = "amendment.proposed";
    AmendmentApproved = "amendment.approved";
    EnforcementTested = "enforcement.tested";
}

impl Kind {
    /// Whether this is about one call of a run: `call.*` and `approval.*`.
    #[must_use]
    pub fn of_call(self) -> bool {
        self.as_str().starts_with("call.")
            || matches!(self, Self::ApprovalGranted | Self::ApprovalRefused)
    }

    /// Whether this ends a call for good.
    #[must_use]
    pub const fn ends_call(self) -> bool {
        matches!(
            self,
            Self::CallDenied
                | Self::CallCompleted
                | Self::CallFailed
                | Self::CallUnknown
                | Self::CallCancelled
                | Self::CallExpired
        )
    }
}

/// A payload's salted commitment as it stands in an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commitment {
    /// What opens it: `domain::commitment`.
    pub c: Digest,
    /// Payload bytes.
    pub len: u64,
    /// `args`, `result`, `policy_input`, `approval`, `message`, `raw`.
    pub role: String,
}

/// Where an entry stands in its run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunLink {
    /// The run.
    pub run: RunId,
    /// 0 for `run.opened`.
    pub seq: u64,
    /// Leaf hash of the run's previous entry; absent for `run.opened`.
    pub prev: Option<Digest>,
}

/// What somebody wants recorded; the writer adds place, links and time.
#[derive(Clone, PartialEq, Debug)]
pub struct Draft {
    /// What it records.
    pub kind: Kind,
    /// The run it belongs to, if any.
    pub run: Option<RunId>,
    /// The call it belongs to, if any.
    pub call: Option<CallId>,
    /// The tool, for calls.
    pub tool: Option<ToolName>,
    /// The verdict, for decisions.
    pub verdict: Option<Verdict>,
    /// The rule that decided, for decisions.
    pub rule: Option<String>,
    /// Digest of the policy bundle, for decisions.
    pub policy: Option<Digest>,
    /// Commitments to its payloads.
    pub commit: Vec<Commitment>,
    /// Kind-specific, schema-closed.
    pub data: Json,
}

impl Draft {
    /// A draft that belongs to no run.
    #[must_use]
    pub fn of(kind: Kind, data: Json) -> Self {
        Self {
            kind,
            run: None,
            call: None,
            tool: None,
            verdict: None,
            rule: None,
            policy: None,
            commit: Vec::new(),
            data,
        }
    }
}

/// One entry: a draft with its place in chain, run and time.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The chain.
    pub chain: ChainId,
    /// The writer's fencing token.
    pub epoch: Epoch,
    /// Index in the chain and leaf index in the tree.
    pub seq: Seq,
    /// Leaf hash of the entry before; for the first, SHA-256 of the chain id's bytes.
    pub prev: Digest,
    /// The writer's wall clock, never before the previous entry's.
    pub ts: Timestamp,
    /// The writer process: 8 hex digits.
    pub boot: String,
    /// Microseconds since the writer process started.
    pub mono: u64,
    /// Place in the run, for entries of a run.
    pub run: Option<RunLink>,
    /// What is recorded.
    pub draft: Draft,
}

impl Entry {
    /// The canonical bytes: what is stored and hashed.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let draft = &self.draft;
        let mut out = Members::with_capacity(1024);
        out.text("boot", &self.boot);
        if let Some(call) = &draft.call {
            out.text("call", call.as_str());
        }
        out.text("chain", &self.chain.to_string());
        if !draft.commit.is_empty() {
            out.put("commit", &draft.commit.iter().map(commitment_json).collect::<Vec<_>>().into());
        }
        out.put("data", &draft.data);
        out.put("epoch", &Json::from(self.epoch));
        out.text("kind", draft.kind.as_str());
        out.text("mono", &self.mono.to_string());
        if let Some(policy) = draft.policy {
            out.text("policy", &policy.prefixed());
        }
        out.text("prev", &self.prev.hex());
        if let Some(rule) = &draft.rule {
            out.text("rule", rule);
        }
        if let Some(link) = &self.run {
            out.text("run", &link.run.to_string());
            if let Some(prev) = link.prev {
                out.text("run_prev", &prev.hex());
            }
            out.put("run_seq", &Json::from(link.seq));
        }
        out.put("seq", &Json::from(self.seq));
        if let Some(tool) = &draft.tool {
            out.text("tool", tool.as_str());
        }
        out.text("ts", &self.ts.to_string());
        out.text("v", VERSION);
        if let Some(verdict) = draft.verdict {
            out.text("verdict", verdict.as_str());
        }
        out.finish()
    }

    /// Reads stored bytes back: strict JSON, canonical form, known members of the right types.
    ///
    /// `data` is not checked against its kind's schema here; see `ledger::schema`.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let json = Json::parse(bytes, &Limits::ENTRY)?;
        if canonical::bytes(&json) != bytes {
            return Err(Error::Canonical);
        }
        Self::of(&json)
    }

    /// Reads an entry that has been parsed, and found to be in canonical form.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn of(json: &Json) -> Result<Self, Error> {
        let members = json.as_object().ok_or(Error::Field("entry"))?;
        if let Some(unknown) = members.keys().find(|name| !FIELDS.contains(&name.as_str())) {
            return Err(Error::Unknown(unknown.clone()));
        }
        if text(json, "v")? != VERSION {
            return Err(Error::Field("v"));
        }
        let kind_text = text(json, "kind")?;
        let kind = Kind::parse(kind_text).ok_or_else(|| Error::Kind(kind_text.to_owned()))?;
        Ok(Self {
            chain: ChainId::parse(text(json, "chain")?).ok_or(Error::Field("chain"))?,
            epoch: number(json, "epoch")?,
            seq: number(json, "seq")?,
            prev: hash(json, "prev")?,
            ts: Timestamp::parse(text(json, "ts")?).ok_or(Error::Field("ts"))?,
            boot: text(json, "boot")?.to_owned(),
            mono: text(json, "mono")?.parse().map_err(|_| Error::Field("mono"))?,
            run: run_link(json)?,
            draft: Draft { kind, ..draft(json)? },
        })
    }

    /// Leaf hash of the stored bytes.
    #[must_use]
    pub fn leaf(bytes: &[u8]) -> Digest {
        merkle::leaf_hash(bytes)
    }

    /// What the first entry of a chain has for `prev`.
    #[must_use]
    pub fn genesis_prev(chain: &ChainId) -> Digest {
        Digest::of(&[chain.as_bytes()])
    }
}

const FIELDS: [&str; 19] = [
    "v", "chain", "epoch", "seq", "prev", "ts", "boot", "mono", "kind", "data", "run", "run_seq",
    "run_prev", "call", "tool", "verdict", "rule", "policy", "commit",
];

/// Why bytes are no entry.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// Not strict JSON.
    #[error("entry: {0}")]
    Json(#[from] json::Error),
    /// Strict JSON, not in canonical form.
    #[error("entry: not in canonical form (RFC 8785)")]
    Canonical,
    /// A member is missing or of the wrong form.
    #[error("entry: `{0}` is missing or malformed")]
    Field(&'static str),
    /// A member nobody knows.
    #[error("entry: unknown member `{0}`")]
    Unknown(String),
    /// A kind this build does not know.
    #[error("entry: unknown kind `{0}`")]
    Kind(String),
}

fn commitment_json(commitment: &Commitment) -> Json {
    Json::object([
        ("c", Json::from(commitment.c.hex())),
        ("len", Json::from(commitment.len)),
        ("role", Json::from(commitment.role.as_str())),
    ])
}

fn text<'a>(json: &'a Json, name: &'static str) -> Result<&'a str, Error> {
    json.get(name).and_then(Json::as_str).ok_or(Error::Field(name))
}

fn number(json: &Json, name: &'static str) -> Result<u64, Error> {
    json.get(name).and_then(Json::as_u64).ok_or(Error::Field(name))
}

fn hash(json: &Json, name: &'static str) -> Result<Digest, Error> {
    let hex_text = text(json, name)?;
    Digest::parse(hex_text).filter(|d| d.hex() == hex_text).ok_or(Error::Field(name))
}

fn optional<T>(
    json: &Json,
    name: &'static str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Error> {
    match json.get(name) {
        None => Ok(None),
        Some(value) => value.as_str().and_then(read).map(Some).ok_or(Error::Field(name)),
    }
}

fn run_link(json: &Json) -> Result<Option<RunLink>, Error> {
    let Some(run) = optional(json, "run", RunId::parse)? else {
        let stray = json.get("run_seq").or_else(|| json.get("run_prev"));
        return if stray.is_some() { Err(Error::Field("run")) } else { Ok(None) };
    };
    let prev = json.get("run_prev").map(|_| hash(json, "run_prev")).transpose()?;
    Ok(Some(RunLink { run, seq: number(json, "run_seq")?, prev }))
}

fn draft(json: &Json) -> Result<Draft, Error> {
    let verdict = |word: &str| {
        [Verdict::Allow, Verdict::Deny, Verdict::RequireApproval]
            .into_iter()
            .find(|v| v.as_str() == word)
    };
    let list = match json.get("commit") {
        None => Vec::new(),
        Some(list) => list
            .as_array()
            .ok_or(Error::Field("commit"))?
            .iter()
            .map(commitment)
            .collect::<Result<Vec<_>, _>>()?,
    };
    Ok(Draft {
        kind: Kind::Heartbeat,
        run: optional(json, "run", RunId::parse)?,
        call: optional(json, "call", CallId::parse)?,
        tool: optional(json, "tool", ToolName::parse)?,
        verdict: optional(json, "verdict", verdict)?,
        rule: optional(json, "rule", |r| Some(r.to_owned()))?,
        policy: optional(json, "policy", |p| p.strip_prefix("sha256:").and_then(Digest::parse))?,
        commit: list,
        data: json
            .get("data")
            .filter(|d| d.as_object().is_some())
            .ok_or(Error::Field("data"))?
            .clone(),
    })
}

fn commitment(json: &Json) -> Result<Commitment, Error> {
    let members = json.as_object().ok_or(Error::Field("commit"))?;
    if members.len() != 3 {
        return Err(Error::Field("commit"));
    }
    Ok(Commitment {
        c: hash(json, "c")?,
        len: number(json, "len")?,
        role: text(json, "role")?.to_owned(),
    })
}
