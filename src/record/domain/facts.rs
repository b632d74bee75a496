//! The facts about a call before the decision: its tool, and what the firewall found in it.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use super::closed::{texts, textual, write_hex};
use super::digest::Digest;
use super::id::ToolName;
use super::taint::ToolRoles;
use super::tier::Tier;

/// The facts about a tool from its binding, with the manifest's grant applied.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolFacts {
    /// Its name.
    pub name: ToolName,
    /// `http`, `file.read`, …
    pub kind: String,
    /// max(binding, manifest).
    pub tier: Tier,
    /// The operator states that it changes nothing.
    pub read_only: bool,
    /// The operator states that running it twice equals running it once.
    pub idempotent: bool,
    /// SHA-256 of the definition shown to the agent and the effective binding without secrets.
    pub definition: Digest,
    /// From permit to the end of the call.
    pub timeout: Duration,
    /// Result bytes.
    pub result_bytes_max: u64,
    /// The cost of one call, if the binding states it; millionths of a US dollar.
    pub cost_micro_usd: Option<u64>,
    /// How long the same call under another id counts as this one.
    pub dedupe: Option<Duration>,
    /// What its answers bring into a run, and where its arguments can get to.
    pub roles: ToolRoles,
}

texts! {
    /// Whether the text with a finding is new to its run.
    #[derive(Default)]
    pub enum FindingAge {
        /// It came with this call.
        #[default]
        New = "new",
        /// It is a message that an earlier call of the run sent too.
        Earlier = "earlier",
    }
}

texts! {
    /// How sure a finding is.
    ///
    /// Of kind `unscanned`, `High` means that the work of the scan had an end before the text had, and
    /// `Low` that something encoded decodes to bytes that are no text: an image, a key, a compressed file.
    pub enum Confidence {
        /// The shape, a checksum or what stands beside it says so.
        High = "high",
        /// It may well be something else: an example key, a test key, a value that is assigned to a name.
        Low = "low",
    }
}

texts! {
    /// How what is found was written.
    pub enum How {
        /// As it is.
        Plain = "plain",
        /// Encoded: base64, hexadecimal digits, escapes, compressed. A mask covers the encoded run.
        Decoded = "decoded",
        /// With characters that only look like those of it, or with invisible ones between.
        Folded = "folded",
        /// Over several texts of a document. It has no place in one of them, so nothing can be masked.
        Joined = "joined",
    }
}

/// The kind of a finding that is not the firewall's: a request to a model has the result of a tool of
/// the gate, which a model asked for and the agent never called at the gate.
pub const BYPASSED: &str = "proposal.bypassed";
/// The kind of a finding that stands for what could not be looked through.
pub const UNSCANNED: &str = "unscanned";

/// The keyed mark of a value that was found, written as 32 lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FindingMark(pub [u8; 16]);

impl FindingMark {
    /// Reads its text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let mut bytes = [0; 16];
        (is_lower && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(Self(bytes))
    }
}

impl fmt::Display for FindingMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

textual!(FindingMark, "32 lowercase hex digits", "^[0-9a-f]{32}$");

/// A finding of the firewall in arguments (`input.findings[]`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
pub struct Finding {
    /// `email`, `card`, `iban`, `us_ssn`, …
    pub kind: String,
    /// JSON pointer of the value with the finding.
    pub path: String,
    /// Earlier versions of the input did not tell.
    #[serde(default)]
    pub since: FindingAge,
    /// How sure it is; earlier versions of the input did not tell.
    pub confidence: Option<Confidence>,
    /// How it was written; earlier versions of the input did not tell.
    pub how: Option<How>,
    /// Keyed mark of its value, where the configuration asks for marks.
    pub mark: Option<FindingMark>,
}

impl Finding {
    /// A sure finding in a text that is new to the run, as it is written there.
    pub fn new(kind: &str, path: impl Into<String>) -> Self {
        let (confidence, how) = (Some(Confidence::High), Some(How::Plain));
        let (kind, path) = (kind.to_owned(), path.into());
        Self { kind, path, since: FindingAge::New, confidence, how, mark: None }
    }

    /// Whether it says that a search did not come to its end.
    pub fn is_cut(&self) -> bool {
        self.kind == UNSCANNED && self.confidence != Some(Confidence::Low)
    }
}
