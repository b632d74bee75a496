//! What an approver sees of a held call: all that the ledger records of it, or nothing.
//!
//! Both sides use one renderer: the operator API sends the facts, and the approver's client checks
//! that the arguments match the digest (so that no party in between can show one call and have
//! another signed) before the same code lays them out. An agent's text reaches a terminal only
//! escaped.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::copies::ReadBefore;
use self::doubts::doubts;
use self::layout::{doing, pretty, tier};
use self::parts::{EarlierCall, Part};
use super::escape::{quoted, visible};
use crate::approval::proposal::Proposal;
use crate::approval::{ApprovalStatement, ApproverVerdict};
pub use crate::approval::{HELD_MAX, REVIEW_MAX};
use crate::domain::commitment::{commit, derived};
use crate::domain::digest::{Digest, Salt, call_digest};
use crate::domain::id::{CallId, RunId, ToolName};
use crate::domain::json::{Json, Limits};
use crate::domain::plural::many;
use crate::domain::time::Timestamp;

pub mod copies;
mod doubts;
mod layout;
pub mod parts;

/// What an approver sees of one held call.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// The id of the run.
    pub run: String,
    /// The id of the call.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// `T0` to `T3`.
    pub tier: String,
    /// What the call would touch, as canonical JSON: `input.effect` of the policy.
    pub effect: String,
    /// Digest of `effect`, keyed with `salt`.
    pub effect_digest: String,
    /// The arguments in canonical JSON: the bytes that will run.
    pub arguments: String,
    /// Salt of the commitment to the arguments, in hex.
    pub salt: String,
    /// Digest of run, call, tool and the commitment to the arguments, in hex.
    pub call_digest: String,
    /// Digest of the tool's definition when the call was held.
    pub definition: Option<String>,
    /// Layers of the policy bundle that decided.
    pub layers: Vec<Layer>,
    /// Why it is held.
    pub reasons: Vec<Reason>,
    /// Digest of the run's manifest.
    pub manifest: String,
    /// The agent, by its manifest.
    pub agent: String,
    /// The manifest's version.
    pub version: String,
    /// `claimed` or `observed`.
    pub binding: String,
    /// When the call was held.
    pub held: String,
    /// When the hold expires.
    pub expires: String,
    /// Nonce of the hold, which each statement names; empty if the hold has none.
    pub nonce: String,
    /// Approvals that are recorded.
    pub approvals: Vec<Approved>,
    /// The approver who proposed the arguments, if the agent did not choose them.
    #[serde(default)]
    pub asked_by: Option<Approved>,
    /// What the agent claims about itself.
    pub claims: Vec<Claim>,
    /// The agent's headers for the provider, of a request to a model in a dialect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Claim>,
    /// What long arguments repeat of a call that was allowed before: the gate says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<EarlierCall>,
    /// What the run had read, and which passages of the call are copies of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_before: Option<ReadBefore>,
}

/// One layer of the policy bundle.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// `lib`, `org`, `team`, `agent` or `data`.
    pub layer: String,
    /// Its digest.
    pub digest: String,
}

/// One reason of a decision.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// The stable code of the denial.
    pub code: String,
    /// A finer code below it; may be empty.
    pub detail: String,
    /// The reason as text.
    pub message: String,
    /// The rule, with file and line.
    pub rule: String,
}

/// One recorded approval.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Approved {
    /// The approver's name in the signed list.
    pub subject: String,
    /// Id of the approver's key.
    pub key: String,
    /// Where a passkey signed what that console showed; absent for other keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

impl Approved {
    /// The approval of this subject by this key, as an entry records it.
    pub(super) fn by(subject: &str, key: &str, origin: Option<&str>) -> Self {
        let (subject, key) = (subject.to_owned(), key.to_owned());
        Self { subject, key, origin: origin.map(str::to_owned) }
    }

    /// The key, and where a passkey signed.
    fn with(&self) -> String {
        let key = visible(&self.key);
        match &self.origin {
            None => key,
            Some(at) => format!("{key}, signed at {}, shown by that console", visible(at)),
        }
    }
}

/// One claim of the agent about itself.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Name of the claim.
    pub name: String,
    /// Value of the claim.
    pub value: String,
}

/// What a person has to read of a held call. Every text is spelled out: it can be shown as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Review {
    /// The tier, and what it means.
    pub tier: &'static str,
    /// What the call does.
    pub does: String,
    /// What it does that to.
    pub to: String,
    /// Values that look like something else.
    pub doubts: Vec<String>,
    /// The arguments.
    pub arguments: ShownArguments,
    /// What the run had read, and which passages are copies of it: lines.
    pub read_before: Vec<String>,
    /// The digest of the call.
    pub digest: Digest,
}

/// The arguments of a call as a person reads them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShownArguments {
    /// All of them, a value a line.
    Whole(String),
    /// In parts, because they are longer than [`REVIEW_MAX`].
    Parts(Vec<Part>),
}

/// Why a call cannot be shown.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Unviewable {
    /// The finer code.
    pub detail: &'static str,
    /// For a person.
    pub message: String,
}

impl Unviewable {
    pub(super) fn new(detail: &'static str, message: impl Into<String>) -> Self {
        Self { detail, message: message.into() }
    }

    /// The arguments are longer than any that can be approved.
    pub(super) fn too_large(bytes: u64) -> Self {
        let message = format!(
            "the arguments are {bytes} bytes, and more than {HELD_MAX} are not shown for approval: \
             refuse the call, or have it asked in smaller pieces"
        );
        Self::new("approval.too_large", message)
    }
}

fn changed(what: &str) -> Unviewable {
    Unviewable::new("approval.changed", format!("{what}: do not sign"))
}

/// The limits of the arguments: those of a tool, or of a request to a model.
const ARGUMENTS: Limits = Limits { bytes_max: HELD_MAX, ..Limits::MODEL };
/// Places to look twice at that are listed.
const DOUBTS_MAX: usize = 100;

impl Facts {
    /// Whether the arguments are too long to be shown at once: who approves them reads them as a file.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.arguments.len() > REVIEW_MAX
    }

    /// Checks that arguments and effect match the digest, and gives the arguments and the statement
    /// to sign.
    ///
    /// # Errors
    /// Arguments or effect do not match, or are too long to be read.
    pub fn check(&self, verdict: ApproverVerdict) -> Result<(Json, ApprovalStatement), Unviewable> {
        if self.arguments.len() > HELD_MAX {
            return Err(Unviewable::too_large(
                u64::try_from(self.arguments.len()).unwrap_or(u64::MAX),
            ));
        }
        let malformed = |name: &str| changed(&format!("`{name}` is malformed"));
        let run = RunId::parse(&self.run).ok_or_else(|| malformed("run"))?;
        let call = CallId::parse(&self.call).ok_or_else(|| malformed("call"))?;
        let tool = ToolName::parse(&self.tool).ok_or_else(|| malformed("tool"))?;
        let mut salt: Salt = [0; 32];
        hex::decode_to_slice(&self.salt, &mut salt).map_err(|_| malformed("salt"))?;
        let arguments = Json::parse(self.arguments.as_bytes(), &ARGUMENTS)
            .map_err(|_| malformed("arguments"))?;
        let args = commit(&salt, self.arguments.as_bytes());
        let digest = call_digest(&run, &call, &tool, &args);
        if Digest::parse(&self.call_digest) != Some(digest) {
            return Err(changed("the arguments are not those of the call digest"));
        }
        let effect = derived(&salt, &[b"effect:", self.effect.as_bytes()]);
        if hex::encode(effect) != self.effect_digest {
            return Err(changed("the effect is not that of the call"));
        }
        let definition = self
            .definition
            .as_deref()
            .map(|text| Digest::parse(text).ok_or_else(|| malformed("definition")));
        let layer = |layer: &Layer| {
            let digest = Digest::parse(&layer.digest).ok_or_else(|| malformed("layers"))?;
            Ok((layer.layer.clone(), digest))
        };
        let nonce = self.nonce.as_bytes();
        if nonce.len() != 32 || !nonce.iter().all(u8::is_ascii_hexdigit) {
            return Err(Unviewable::new("approval.no_nonce", "the hold has no nonce to sign"));
        }
        let statement = ApprovalStatement {
            call_digest: digest,
            definition: definition.transpose()?,
            layers: self.layers.iter().map(layer).collect::<Result<_, Unviewable>>()?,
            manifest: Digest::parse(&self.manifest).ok_or_else(|| malformed("manifest"))?,
            run,
            expires: Timestamp::parse(&self.expires).ok_or_else(|| malformed("expires"))?,
            nonce: self.nonce.clone(),
            verdict,
        };
        Ok((arguments, statement))
    }

    /// The statement that an approver signs to submit the call again with these arguments
    /// (canonical).
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn proposal(&self, arguments: &[u8]) -> Result<Proposal, Unviewable> {
        let (_, about) = self.check(ApproverVerdict::Refuse)?;
        let mut salt: Salt = [0; 32];
        hex::decode_to_slice(&self.salt, &mut salt).map_err(|_| changed("`salt` is malformed"))?;
        Ok(Proposal::new(about, &salt, arguments))
    }

    /// What a person has to read of the call, once everything fits.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn review(&self) -> Result<Review, Unviewable> {
        let (arguments, statement) = self.check(ApproverVerdict::Approve)?;
        let effect = Json::parse(self.effect.as_bytes(), &ARGUMENTS)
            .map_err(|_| changed("`effect` is malformed"))?;
        let mut found = Vec::new();
        doubts("", &arguments, &mut found);
        doubts("effect", &effect, &mut found);
        let more = found.len().saturating_sub(DOUBTS_MAX);
        found.truncate(DOUBTS_MAX);
        found.extend(
            (more > 0).then(|| format!("{} more: read all as a file", many(more, "place"))),
        );
        let shown = if self.is_long() {
            ShownArguments::Parts(parts::parts(&arguments, self.earlier.as_ref()))
        } else {
            let mut text = String::new();
            pretty(&arguments, 1, &mut text);
            ShownArguments::Whole(text)
        };
        let (verb, target) = doing(&effect, &self.tool);
        Ok(Review {
            tier: tier(&self.tier),
            does: visible(&verb),
            to: visible(&target),
            doubts: found,
            arguments: shown,
            read_before: self
                .read_before
                .iter()
                .flat_map(|read| read.lines(Some(&arguments)))
                .collect(),
            digest: statement.call_digest,
        })
    }

    /// The call as a person reads it, once everything fits.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn render(&self) -> Result<String, Unviewable> {
        let review = self.review()?;
        let mut page = Page::default();
        self.head(&mut page, &review);
        page.title("WHY IT IS HELD");
        for Reason { code, detail, message, rule } in &self.reasons {
            page.line(&format!(
                "- {}: {}",
                visible(if detail.is_empty() { code } else { detail }),
                visible(message)
            ));
            page.line(&format!("  rule {}", visible(rule)));
        }
        if !review.doubts.is_empty() {
            page.title("LOOK TWICE");
            review.doubts.iter().for_each(|doubt| page.line(&format!("- {doubt}")));
        }
        if !review.read_before.is_empty() {
            page.title("WHAT THE RUN HAD READ BEFORE");
            review.read_before.iter().for_each(|line| page.line(&format!("- {line}")));
        }
        if !self.headers.is_empty() {
            page.title("HEADERS OF THE AGENT FOR THE PROVIDER");
            for Claim { name, value } in &self.headers {
                page.line(&format!("{}: {}", visible(name), visible(value)));
            }
        }
        let bytes = self.arguments.len();
        match &review.arguments {
            ShownArguments::Whole(text) => {
                page.title(&format!("ARGUMENTS, ALL {bytes} BYTES"));
                page.line(text);
            }
            ShownArguments::Parts(parts) => {
                page.title(&format!("ARGUMENTS, {bytes} BYTES: NOT ALL ARE SHOWN HERE"));
                page.line(&format!("sha256 {}", self.arguments_sha256()));
                page.line(&format!("as a file: {}", self.file_command()));
                parts.iter().for_each(|part| page.part(part));
            }
        }
        page.title(&format!("END OF ARGUMENTS ({bytes} BYTES)"));
        if !self.claims.is_empty() {
            page.title("SAID BY THE AGENT ABOUT ITSELF, NOT VERIFIED");
            for Claim { name, value } in &self.claims {
                page.line(&format!("| {} = {}", visible(name), quoted(value)));
            }
        }
        Ok(page.0)
    }

    /// SHA-256 of all arguments.
    pub fn arguments_sha256(&self) -> String {
        Digest::of(&[self.arguments.as_bytes()]).hex()
    }

    /// The command that writes all arguments to a file.
    pub fn file_command(&self) -> String {
        let (run, call) = (visible(&self.run), visible(&self.call));
        format!("wicketgate approval show {run} {call} --arguments FILE")
    }

    fn head(&self, page: &mut Page, review: &Review) {
        page.0.push_str(&format!("HELD CALL  {}  {}\n", visible(&self.tool), review.tier));
        page.fact("does", &review.does);
        page.fact("to", &review.to);
        page.fact("expires", &visible(&self.expires));
        page.fact("held since", &visible(&self.held));
        page.fact("run", &visible(&self.run));
        page.fact("call", &visible(&self.call));
        page.fact(
            "agent",
            &format!(
                "{} {} ({})",
                visible(&self.agent),
                visible(&self.version),
                visible(&self.binding)
            ),
        );
        page.fact("manifest", &visible(&self.manifest));
        page.fact("tool is", &visible(self.definition.as_deref().unwrap_or("not known")));
        for Layer { layer, digest } in &self.layers {
            page.fact("policy", &format!("{} {}", visible(layer), visible(digest)));
        }
        if let Some(by) = &self.asked_by {
            let who = format!("{} {}", visible(&by.subject), by.with());
            page.fact(
                "ARGUMENTS BY",
                &format!("{who}: not the agent's, and that person cannot approve them"),
            );
        }
        for one in &self.approvals {
            page.fact("approved", &format!("by {} with {}", visible(&one.subject), one.with()));
        }
        page.fact("digest", &review.digest.hex());
        page.fact("in words", &words(&review.digest));
    }
}

/// Lines, as they are laid out.
#[derive(Default)]
struct Page(String);

impl Page {
    fn title(&mut self, text: &str) {
        let _ = writeln!(self.0, "\n{text}");
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.0, "  {text}");
    }

    fn fact(&mut self, name: &str, text: &str) {
        let _ = writeln!(self.0, "  {name:<10} {text}");
    }

    fn part(&mut self, part: &Part) {
        self.line(&part.line());
        if let Some(text) = &part.text {
            self.line(&format!("  {text}"));
        }
    }
}

/// The first 96 bits of a digest as six words that can be read aloud (proquints), so that two devices
/// can be compared.
pub fn words(digest: &Digest) -> String {
    const CONSONANTS: [char; 16] =
        ['b', 'd', 'f', 'g', 'h', 'j', 'k', 'l', 'm', 'n', 'p', 'r', 's', 't', 'v', 'z'];
    const VOWELS: [char; 4] = ['a', 'i', 'o', 'u'];
    let pair_name = |pair: &[u8]| {
        let bits = pair.iter().fold(0_u16, |bits, byte| (bits << 8) | u16::from(*byte));
        let consonant = |shift: u16| CONSONANTS.get(usize::from((bits >> shift) & 15));
        let vowel = |shift: u16| VOWELS.get(usize::from((bits >> shift) & 3));
        [consonant(12), vowel(10), consonant(6), vowel(4), consonant(0)]
            .into_iter()
            .flatten()
            .collect::<String>()
    };
    let bytes = digest.as_bytes().chunks(2).take(6);
    bytes.map(pair_name).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests;
