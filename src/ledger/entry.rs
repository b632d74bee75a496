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
/// `basis` of a `payload.erased` that says what was older than it is kept.
pub const BY_CLOCK: &str = "retention";

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
    SignersBound = "signers.bound";
    ConfigChanged = "config.changed";
    RequestRejected = "request.rejected";
    HealthChanged = "health.changed";
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
    ControlRefused = "control.refused";
    AmendmentProposed = "amendment.proposed";
    AmendmentApproved = "amendment.approved";
    AmendmentRefused = "amendment.refused";
    EnforcementTested = "enforcement.tested";
    WriterEnrolled = "writer.enrolled";
    PostureObserved = "posture.observed";
}

impl Kind {
    /// Whether this is about one call of a run: `call.*` and `approval.*`.
    #[must_use]
    pub fn of_call(self) -> bool {
        self.as_str().starts_with("call.")
            || matches!(self, Self::ApprovalGranted | Self::ApprovalRefused)
    }

    /// Whether this is what was decided about a call.
    #[must_use]
    pub const fn decides(self) -> bool {
        matches!(self, Self::CallAuthorized | Self::CallDenied | Self::CallHeld)
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
    /// `args`, `result`, `policy_input`, `approval`, `message`, `raw`, `pre_image`.
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

    /// The commitment to its payload of this role; the first, were there several.
    #[must_use]
    pub fn committed(&self, role: &str) -> Option<&Commitment> {
        self.commit.iter().find(|commitment| commitment.role == role)
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

    /// Reads stored bytes back: strict JSON, canonical form, known members of the right types, each in
    /// its one spelling, so that [`Self::bytes`] gives the same bytes again.
    ///
    /// `data` is not checked against its kind's schema here; see `ledger::schema`.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        Self::of(canonical::read(bytes, &Limits::ENTRY)?.ok_or(Error::Canonical)?)
    }

    /// Reads an entry that has been parsed, and found to be in canonical form.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn of(json: Json) -> Result<Self, Error> {
        let mut parts = Parts::of(json)?;
        if parts.text("v")? != VERSION {
            return Err(Error::Field("v"));
        }
        let kind = parts.text("kind")?;
        let kind = Kind::parse(&kind).ok_or(Error::Kind(kind))?;
        let run = run_link(&mut parts)?;
        Ok(Self {
            chain: ChainId::parse(&parts.text("chain")?).ok_or(Error::Field("chain"))?,
            epoch: parts.number("epoch")?,
            seq: parts.number("seq")?,
            prev: parts.hash("prev")?,
            ts: Timestamp::parse(&parts.text("ts")?).ok_or(Error::Field("ts"))?,
            boot: parts.text("boot")?,
            mono: mono(&parts.text("mono")?).ok_or(Error::Field("mono"))?,
            draft: draft(kind, run.as_ref().map(|link| link.run), &mut parts)?,
            run,
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
    "boot", "call", "chain", "commit", "data", "epoch", "kind", "mono", "policy", "prev", "rule",
    "run", "run_prev", "run_seq", "seq", "tool", "ts", "v", "verdict",
];

/// The members of an entry, each at the place of its name in [`FIELDS`], until they are taken.
struct Parts([Option<Json>; FIELDS.len()]);

impl Parts {
    fn of(json: Json) -> Result<Self, Error> {
        let Json::Object(members) = json else { return Err(Error::Field("entry")) };
        let mut parts = [const { None }; FIELDS.len()];
        // Both are sorted by name.
        let mut places = FIELDS.iter().zip(&mut parts);
        for (name, value) in members {
            match places.find(|(field, _)| **field == name) {
                Some((_, place)) => *place = Some(value),
                None => return Err(Error::Unknown(name)),
            }
        }
        Ok(Self(parts))
    }

    fn take(&mut self, name: &'static str) -> Option<Json> {
        let at = FIELDS.binary_search(&name).ok()?;
        self.0.get_mut(at)?.take()
    }

    fn text(&mut self, name: &'static str) -> Result<String, Error> {
        match self.take(name) {
            Some(Json::String(text)) => Ok(text),
            _ => Err(Error::Field(name)),
        }
    }

    fn number(&mut self, name: &'static str) -> Result<u64, Error> {
        self.take(name).as_ref().and_then(Json::as_u64).ok_or(Error::Field(name))
    }

    fn hash(&mut self, name: &'static str) -> Result<Digest, Error> {
        hash(&self.text(name)?).ok_or(Error::Field(name))
    }

    fn optional<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => value.as_str().and_then(read).map(Some).ok_or(Error::Field(name)),
        }
    }
}

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

/// 64 hex digits, and nothing before them.
fn hash(text: &str) -> Option<Digest> {
    (text.len() == 64).then(|| Digest::parse(text)).flatten()
}

/// Decimal digits as a number is written.
fn mono(text: &str) -> Option<u64> {
    let plain =
        text == "0" || text.starts_with(|first: char| first.is_ascii_digit() && first != '0');
    plain.then(|| text.parse().ok()).flatten()
}

fn run_link(parts: &mut Parts) -> Result<Option<RunLink>, Error> {
    let run = parts.optional("run", RunId::parse)?;
    let prev = parts.optional("run_prev", hash)?;
    let seq = parts.take("run_seq");
    let Some(run) = run else {
        return if prev.is_some() || seq.is_some() { Err(Error::Field("run")) } else { Ok(None) };
    };
    let seq = seq.as_ref().and_then(Json::as_u64).ok_or(Error::Field("run_seq"))?;
    Ok(Some(RunLink { run, seq, prev }))
}

fn draft(kind: Kind, run: Option<RunId>, parts: &mut Parts) -> Result<Draft, Error> {
    let verdict = |word: &str| {
        [Verdict::Allow, Verdict::Deny, Verdict::RequireApproval]
            .into_iter()
            .find(|v| v.as_str() == word)
    };
    let list = match parts.take("commit") {
        None => Vec::new(),
        Some(list) => list
            .as_array()
            .filter(|list| !list.is_empty())
            .ok_or(Error::Field("commit"))?
            .iter()
            .map(commitment)
            .collect::<Result<Vec<_>, _>>()?,
    };
    Ok(Draft {
        kind,
        run,
        call: parts.optional("call", CallId::parse)?,
        tool: parts.optional("tool", ToolName::parse)?,
        verdict: parts.optional("verdict", verdict)?,
        rule: parts.optional("rule", |r| Some(r.to_owned()))?,
        policy: parts.optional("policy", |p| p.strip_prefix("sha256:").and_then(hash))?,
        commit: list,
        data: parts
            .take("data")
            .filter(|data| data.as_object().is_some())
            .ok_or(Error::Field("data"))?,
    })
}

fn commitment(json: &Json) -> Result<Commitment, Error> {
    let members = json.as_object().ok_or(Error::Field("commit"))?;
    if members.len() != 3 {
        return Err(Error::Field("commit"));
    }
    let text = |name| json.get(name).and_then(Json::as_str).ok_or(Error::Field(name));
    Ok(Commitment {
        c: hash(text("c")?).ok_or(Error::Field("c"))?,
        len: json.get("len").and_then(Json::as_u64).ok_or(Error::Field("len"))?,
        role: text("role")?.to_owned(),
    })
}
