//! The lines of a recording as types. Other members of a line are for people and for the ledger.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::flaw::Flaw;
use crate::domain::commitment::opens;
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::domain::seed::Seed;
use crate::domain::time::Timestamp;
use crate::evidence::payloads::{self, Payload};
use crate::record::Hex;

/// The kind of a line, which determines its other members.
#[derive(Deserialize)]
pub(super) struct LineKind {
    /// The kind.
    pub t: String,
    /// In the first line: the version of the recording.
    pub v: Option<String>,
}

/// The content of the first line.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Header {
    /// Version of its form.
    #[serde(rename = "v")]
    pub version: String,
    /// The recorded run.
    pub run: RunId,
    /// `metadata.name` of its manifest.
    pub agent: String,
    /// SHA-256 of its manifest.
    pub manifest: Digest,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// Its seed, if it was deterministic.
    pub seed: Option<Seed>,
}

/// A manifest or a policy bundle.
#[derive(Deserialize)]
pub(super) struct FileLine {
    pub name: String,
    pub sha256: Digest,
    pub base64: String,
}

/// What the agent was shown.
#[derive(Deserialize)]
pub(super) struct ToolsLine {
    pub c: Digest,
    pub salt: Hex<32>,
    pub tools: Json,
}

/// A run below the recorded one.
#[derive(Deserialize)]
pub(super) struct ChildLine {
    pub run: RunId,
    pub parent: RunId,
    pub agent: String,
    pub manifest: Digest,
    pub seed: Option<Seed>,
    #[serde(default)]
    pub labels: Json,
    #[serde(default)]
    pub model: Json,
    #[serde(default)]
    pub instructions: Json,
    pub before: u64,
}

/// The number of steps, and their digest.
#[derive(Deserialize)]
pub(super) struct EndLine {
    pub steps: u64,
    pub sha256: Digest,
}

/// One tool of the list that the agent was shown, as far as steps are compared with it.
#[derive(Deserialize)]
pub(super) struct ToolDefinition {
    pub name: String,
    pub definition: Digest,
    /// How it may be asked in dialects, if it may.
    pub face: Option<Json>,
}

/// Every tool that the agent was shown.
#[derive(Deserialize)]
pub(super) struct ToolList {
    pub tools: Vec<ToolDefinition>,
}

impl ToolList {
    /// The tools that may be asked in dialects.
    pub fn models(&self) -> BTreeSet<String> {
        let models = self.tools.iter().filter(|tool| tool.face.is_some());
        models.map(|tool| tool.name.clone()).collect()
    }

    /// The digest of each tool's definition.
    pub fn definitions(self) -> BTreeMap<String, Digest> {
        self.tools.into_iter().map(|tool| (tool.name, tool.definition)).collect()
    }
}

/// What binds one payload of a step to its entry.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(super) struct PayloadCommitment {
    /// What the payload is.
    pub role: String,
    /// The commitment of the entry.
    pub c: Digest,
    /// What opens it, if the payload is complete.
    salt: Option<Hex<32>>,
    /// The disclosed members and the digests of the others, if the payload is redacted.
    parts: Option<Json>,
}

impl PayloadCommitment {
    /// Whether these bytes are the committed ones.
    pub fn holds(&self, body: &[u8]) -> Result<(), Flaw> {
        let salt = self.salt.ok_or_else(|| Flaw::Payload(self.role.clone()))?;
        opened(&self.role, (&self.c, &salt), body)
    }

    /// Whether the disclosed members and the digests match the commitment.
    pub fn holds_parts(&self) -> Result<(), Flaw> {
        let wrong = || Flaw::Payload(self.role.clone());
        let read = self.parts.as_ref().and_then(payloads::read_redacted);
        let Some(Payload::Redacted { role, parts }) = read else { return Err(wrong()) };
        let opened = parts.open(&self.c).ok().filter(|_| role == self.role);
        opened.map(drop).ok_or_else(wrong)
    }
}

/// Whether these bytes are the committed ones under this role.
pub(super) fn opened(role: &str, (c, salt): (&Digest, &Hex<32>), body: &[u8]) -> Result<(), Flaw> {
    opens(c, &salt.0, body).map(drop).ok_or_else(|| Flaw::Payload(role.to_owned()))
}
