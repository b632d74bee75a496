//! One link of a chain: the entry with its header, as stored, hashed and proven
//! (`wicketgate/entry/1`).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

use super::body::{Body, Content, Kind};
use super::text::{HexDigest, Int, List, Micros, TaggedDigest, Text};
use crate::domain::closed::{closed, members, textual, write_hex};
use crate::domain::decision::Verdict;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ChainId, Epoch, RunId, Seq, ToolName};
use crate::domain::time::Timestamp;

/// The type string of every entry; also its domain separation.
pub const VERSION: &str = "wicketgate/entry/1";
/// The most bytes of one entry.
pub const BYTES_MAX: usize = 65_535;
/// `basis` of a `payload.erased` for payloads that exceeded their retention.
pub const BY_CLOCK: &str = "retention";

closed! {
    /// What a payload is.
    pub enum Role {
        /// Arguments of a call, in canonical form.
        Args = "args",
        /// Result of a call.
        Result = "result",
        /// What the policy was given.
        PolicyInput = "policy_input",
        /// A statement and its signature.
        Approval = "approval",
        /// One message of a conversation with a model, in normal form.
        Message = "message",
        /// The messages of a call to a model, in order, as commitments that continue an earlier list.
        Conversation = "conversation",
        /// The tools offered to a model, as they were sent.
        Offer = "offer",
        /// The instructions for a model that stand beside its conversation, as they were sent.
        Instructions = "instructions",
        /// Arguments of a call as they were sent.
        Raw = "raw",
        /// What a call replaced.
        PreImage = "pre_image",
        /// A list of tools as an agent received it.
        Tools = "tools",
        /// The events of a streamed answer, exactly as they left. Only runs that are recorded for a
        /// replay have it.
        Stream = "stream",
    }
}

members! {
    /// Salted commitment to a payload.
    #[derive(Copy)]
    #[cfg_attr(test, schemars(rename = "commitment"))]
    pub struct Commitment {
        /// The commitment.
        pub c: HexDigest,
        /// Size of the payload in bytes.
        pub len: Int,
        /// Kind of the payload.
        pub role: Role,
    }
}

/// The place of an entry in its run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunLink {
    /// The run.
    pub run: RunId,
    /// 0 for `run.opened`.
    pub seq: u64,
    /// Leaf hash of the run's previous entry; absent for `run.opened`.
    pub prev: Option<Digest>,
}

/// The content of a new entry; the writer adds place, links and time.
#[derive(Clone, PartialEq, Debug)]
pub struct Draft {
    /// The run it belongs to, if any.
    pub run: Option<RunId>,
    /// The call it belongs to, if any.
    pub call: Option<CallId>,
    /// The tool, for calls.
    pub tool: Option<ToolName>,
    /// The verdict, for decisions.
    pub verdict: Option<Verdict>,
    /// The rule that decided, for decisions.
    pub rule: Option<Text>,
    /// Digest of the policy bundle, for decisions.
    pub policy: Option<Digest>,
    /// Commitments to its payloads.
    pub commit: Vec<Commitment>,
    /// The content.
    pub body: Body,
}

impl Draft {
    /// A draft that belongs to no run.
    pub fn of(body: impl Into<Body>) -> Self {
        Self {
            run: None,
            call: None,
            tool: None,
            verdict: None,
            rule: None,
            policy: None,
            commit: Vec::new(),
            body: body.into(),
        }
    }

    /// The kind.
    pub const fn kind(&self) -> Kind {
        self.body.kind()
    }

    /// The content, if it is of this kind.
    pub fn get<T: Content>(&self) -> Option<&T> {
        T::of(&self.body)
    }

    /// The first commitment to a payload of this role.
    pub fn committed(&self, role: Role) -> Option<&Commitment> {
        self.commit.iter().find(|commitment| commitment.role == role)
    }
}

/// One entry: a draft with its place in chain, run and time.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Id of the chain.
    pub chain: ChainId,
    /// The writer's fencing token.
    pub epoch: Epoch,
    /// Index in the chain and leaf index in the tree.
    pub seq: Seq,
    /// Leaf hash of the previous entry; for the first entry, SHA-256 of the chain id's bytes.
    pub prev: Digest,
    /// The writer's wall clock, never before the previous entry's.
    pub ts: Timestamp,
    /// Id of the writer process.
    pub boot: Boot,
    /// Microseconds since the writer process started.
    pub mono: u64,
    /// Place in the run; absent for entries outside a run.
    pub run: Option<RunLink>,
    /// What is recorded.
    pub draft: Draft,
}

/// A writer process: 4 random bytes, written as 8 lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Boot([u8; 4]);

impl Boot {
    /// The process with these random bytes.
    pub const fn from_random(bytes: [u8; 4]) -> Self {
        Self(bytes)
    }

    /// Reads 8 lowercase hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 4];
        let lower = text.len() == 8 && !text.bytes().any(|b| b.is_ascii_uppercase());
        (lower && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(Self(bytes))
    }
}

impl std::fmt::Display for Boot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_hex(&self.0, f)
    }
}

textual!(Boot, "8 lowercase hex digits", "^[0-9a-f]{8}$");

closed! {
    /// The version of the format.
    enum Version {
        /// The first.
        V1 = "wicketgate/entry/1",
    }
}

/// Parses only the header of an entry of any kind, with a stand-in body.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct EntryMembers<'a, K, D> {
    /// Id of the writer process.
    boot: Boot,
    /// The call that the entry is about.
    call: Option<Cow<'a, CallId>>,
    /// Id of the chain.
    chain: ChainId,
    /// Commitments to its payloads.
    commit: Option<List<Commitment, 256, 1>>,
    /// The content; its members depend on `kind`.
    data: D,
    /// The writer's fencing token.
    epoch: Int<1>,
    /// Kind of the event that the entry records.
    kind: K,
    /// Microseconds since the writer process started.
    mono: Micros,
    /// Digest of the policy bundle, for decisions.
    policy: Option<TaggedDigest>,
    /// Leaf hash of the previous entry; for the first entry, SHA-256 of the chain id's bytes.
    prev: HexDigest,
    /// The rule that decided, for decisions.
    rule: Option<Cow<'a, Text>>,
    /// The run that the entry belongs to.
    run: Option<RunId>,
    /// Leaf hash of the run's previous entry; absent for the first.
    run_prev: Option<HexDigest>,
    /// Index in the run.
    run_seq: Option<Int>,
    /// Index in the chain.
    seq: Int,
    /// The tool, for calls.
    tool: Option<Cow<'a, ToolName>>,
    /// Time on the writer's wall clock, never earlier than the previous entry's.
    ts: Timestamp,
    /// The version of the format.
    v: Version,
    /// The verdict, for decisions.
    verdict: Option<Verdict>,
}

impl Entry {
    /// The canonical bytes, which are stored and hashed.
    pub fn bytes(&self) -> Vec<u8> {
        let draft = &self.draft;
        let link = self.run.as_ref();
        let mut out = Vec::with_capacity(1024);
        let members = EntryMembers {
            boot: self.boot,
            call: draft.call.as_ref().map(Cow::Borrowed),
            chain: self.chain,
            commit: List::some(draft.commit.iter().copied()),
            data: &draft.body,
            epoch: self.epoch.into(),
            kind: draft.kind(),
            mono: Micros(self.mono),
            policy: draft.policy.map(TaggedDigest),
            prev: HexDigest(self.prev),
            rule: draft.rule.as_ref().map(Cow::Borrowed),
            run: link.map(|link| link.run),
            run_prev: link.and_then(|link| link.prev).map(HexDigest),
            run_seq: link.map(|link| link.seq.into()),
            seq: self.seq.into(),
            tool: draft.tool.as_ref().map(Cow::Borrowed),
            ts: self.ts,
            v: Version::V1,
            verdict: draft.verdict,
        };
        // INVARIANT: members are declared in canonical order and hold no floats and no maps, so the compact form
        // is the canonical one (a test reads every kind back), and writing to memory does not fail.
        let written = serde_json::to_writer(&mut out, &members);
        debug_assert!(written.is_ok(), "an entry is always written: {written:?}");
        out
    }

    /// Parses stored bytes: known members of the right types, each in its one spelling, in
    /// canonical form, so that [`Self::bytes`] gives the same bytes again.
    ///
    /// # Errors
    /// What is wrong with the bytes, and where.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let entry = Self::glance(bytes)?;
        if entry.bytes() != bytes {
            return Err(Error::Canonical);
        }
        Ok(entry)
    }

    /// As [`Self::parse`], but does not ask whether the bytes are the entry's only form: for what is derived from the rows
    /// of a ledger, can be derived again and proves nothing.
    ///
    /// # Errors
    /// The bytes are no entry, or of a kind that this build does not know.
    pub fn glance(bytes: &[u8]) -> Result<Self, Error> {
        let members = read::<&RawValue>(bytes)?;
        let kind = Kind::parse(&members.kind);
        let kind = kind.ok_or_else(|| Error::Kind(members.kind.clone().into_owned()))?;
        let body = Body::read(kind, members.data)?;
        Self::of(members, body)
    }

    /// Parses only the header of an entry of any kind, with a stand-in body.
    pub(super) fn header(bytes: &[u8], body: Body) -> Result<(Self, String), Error> {
        let members = read::<&RawValue>(bytes)?;
        let kind = members.kind.clone().into_owned();
        Ok((Self::of(members, body)?, kind))
    }

    fn of<D>(members: EntryMembers<'_, Cow<'_, str>, D>, body: Body) -> Result<Self, Error> {
        let run = match (members.run, members.run_seq) {
            (Some(run), Some(seq)) => {
                Some(RunLink { run, seq: seq.get(), prev: members.run_prev.map(|prev| prev.0) })
            }
            (None, None) if members.run_prev.is_none() => None,
            (None, _) => return Err(Error::Field("run")),
            (Some(_), None) => return Err(Error::Field("run_seq")),
        };
        Ok(Self {
            chain: members.chain,
            epoch: members.epoch.get(),
            seq: members.seq.get(),
            prev: members.prev.0,
            ts: members.ts,
            boot: members.boot,
            mono: members.mono.0,
            draft: Draft {
                run: members.run,
                call: members.call.map(Cow::into_owned),
                tool: members.tool.map(Cow::into_owned),
                verdict: members.verdict,
                rule: members.rule.map(Cow::into_owned),
                policy: members.policy.map(|policy| policy.0),
                commit: members.commit.map(|list| list.to_vec()).unwrap_or_default(),
                body,
            },
            run,
        })
    }

    /// Leaf hash of the stored bytes (RFC 6962).
    pub fn leaf(bytes: &[u8]) -> Digest {
        Digest::of(&[&[0], bytes])
    }

    /// The `prev` of the first entry of a chain.
    pub fn genesis_prev(chain: &ChainId) -> Digest {
        Digest::of(&[chain.as_bytes()])
    }
}

fn read<'a, D: Deserialize<'a>>(
    bytes: &'a [u8],
) -> Result<EntryMembers<'a, Cow<'a, str>, D>, Error> {
    if bytes.len() > BYTES_MAX {
        return Err(Error::TooLong(bytes.len()));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Error::Utf8)?;
    let mut from = serde_json::Deserializer::from_str(text);
    let members = EntryMembers::deserialize(&mut from).map_err(|_| departure::<D>(text))?;
    from.end().map_err(|_| Error::Canonical)?;
    Ok(members)
}

/// Where a text departs from the members of an entry. WHY read again: the reader that follows the path of each member takes
/// a tenth longer, and nearly every entry is sound.
fn departure<'a, D: Deserialize<'a>>(text: &'a str) -> Error {
    let mut from = serde_json::Deserializer::from_str(text);
    let read: Result<EntryMembers<'a, Cow<'a, str>, D>, _> =
        serde_path_to_error::deserialize(&mut from);
    read.err().map_or(Error::Canonical, |e| Error::Header {
        path: e.path().to_string(),
        why: e.into_inner().to_string(),
    })
}

/// Why bytes are not an entry.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// Longer than [`BYTES_MAX`].
    #[error("entry: {0} bytes, at most {BYTES_MAX} are allowed")]
    TooLong(usize),
    /// Not UTF-8.
    #[error("entry: not UTF-8")]
    Utf8,
    /// Not in canonical form.
    #[error("entry: not in canonical form (RFC 8785)")]
    Canonical,
    /// A member of the header is missing, unknown or malformed.
    #[error("entry: `{path}`: {why}")]
    Header {
        /// The member; `.` for the whole.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// A member without the member it depends on.
    #[error("entry: `{0}` is missing")]
    Field(&'static str),
    /// A kind this build does not know.
    #[error("entry: unknown kind `{0}`")]
    Kind(String),
    /// `data` departs from the schema of its kind.
    #[error("`{kind}` at `data.{path}`: {why}")]
    Data {
        /// The kind.
        kind: Kind,
        /// The member; `.` for the whole.
        path: String,
        /// What is wrong with it.
        why: String,
    },
}
