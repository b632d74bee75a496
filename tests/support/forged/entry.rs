//! Entries as JSON: what the holder of the keys of a gate can write, also where no struct of the program can hold it.

use wicketgate_record::domain::canonical::Members;
use wicketgate_record::domain::decision::Verdict;
use wicketgate_record::domain::digest::Digest;
use wicketgate_record::domain::id::{CallId, ChainId, Epoch, RunId, Seq, ToolName};
use wicketgate_record::domain::json::Json;
use wicketgate_record::domain::time::Timestamp;
use wicketgate_record::{self as record, Kind, VERSION};

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

/// What is to be recorded; the writer adds place, links and time.
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

    /// Leaf hash of the stored bytes.
    pub fn leaf(bytes: &[u8]) -> Digest {
        record::Entry::leaf(bytes)
    }

    /// What the first entry of a chain has for `prev`.
    pub fn genesis_prev(chain: &ChainId) -> Digest {
        Digest::of(&[chain.as_bytes()])
    }
}

/// An entry that the program made, as JSON.
impl From<record::Draft> for Draft {
    fn from(draft: record::Draft) -> Self {
        let data = Json::of(&draft.body);
        let commit = draft.commit.iter().map(|c| Commitment {
            c: c.c.0,
            len: c.len.get(),
            role: c.role.to_string(),
        });
        Self {
            kind: draft.kind(),
            run: draft.run,
            call: draft.call,
            tool: draft.tool,
            verdict: draft.verdict,
            rule: draft.rule.map(|rule| rule.to_string()),
            policy: draft.policy,
            commit: commit.collect(),
            data,
        }
    }
}

fn commitment_json(commitment: &Commitment) -> Json {
    Json::object([
        ("c", Json::from(commitment.c.hex())),
        ("len", Json::from(commitment.len)),
        ("role", Json::from(commitment.role.as_str())),
    ])
}
