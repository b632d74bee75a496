//! `spec.instructions` of a manifest, and whether the instructions that a model was given are the
//! listed ones.
//!
//! Instructions are every text that a provider treats as such. A manifest pins them by hashes and
//! templates. Messages of users are not covered, whatever they call themselves.

mod matching;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::domain::closed::{self, texts};
use crate::domain::dialect::Place;
use crate::domain::digest::Digest;
use crate::yaml::{self, Document};

pub use self::matching::{
    BLOCKS_MAX, InstructionBlock, MatchedInstruction, MatchedInstructions, check, unlisted,
};

/// `spec.instructions[].scope`: what the hash of an entry covers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum InstructionScope {
    /// `whole`: the leading blocks, joined by one line feed.
    Whole,
    /// `first_block`: the first leading block.
    FirstBlock,
    /// `block`: any one block.
    Block,
    /// `prefix:<bytes>`: so many first bytes of what `whole` covers. What follows is free text.
    Prefix(usize),
    /// `template`: the hash is that of a template, which one block must fit.
    Template,
}

impl InstructionScope {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "whole" => Some(Self::Whole),
            "first_block" => Some(Self::FirstBlock),
            "block" => Some(Self::Block),
            "template" => Some(Self::Template),
            prefix => prefix.strip_prefix("prefix:")?.parse().ok().map(Self::Prefix),
        }
    }

    /// Whether it covers one block, which may also stand in the middle of the conversation.
    const fn is_anywhere(self) -> bool {
        match self {
            Self::Block | Self::Template => true,
            Self::Whole | Self::FirstBlock | Self::Prefix(_) => false,
        }
    }
}

impl fmt::Display for InstructionScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("whole"),
            Self::FirstBlock => f.write_str("first_block"),
            Self::Block => f.write_str("block"),
            Self::Prefix(bytes) => write!(f, "prefix:{bytes}"),
            Self::Template => f.write_str("template"),
        }
    }
}

impl<'de> Deserialize<'de> for InstructionScope {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        closed::read(from, "a scope", Self::parse)
    }
}

texts! {
    /// `spec.instructions[].place`: where the instructions of an entry may stand.
    #[derive(Default)]
    pub enum InstructionPlace {
        /// Before the conversation.
        #[default]
        Leading = "leading",
        /// In the middle of the conversation.
        Mid = "mid",
        /// Both.
        Any = "any",
    }
}

impl InstructionPlace {
    const fn allows(self, place: Place) -> bool {
        match (self, place) {
            (Self::Any, Place::Leading | Place::Mid)
            | (Self::Leading, Place::Leading)
            | (Self::Mid, Place::Mid) => true,
            (Self::Leading, Place::Mid) | (Self::Mid, Place::Leading) => false,
        }
    }
}

/// One entry of `spec.instructions`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Instructions {
    /// The name of the entry, for records and messages.
    pub name: Option<String>,
    /// SHA-256 of the text in scope, or of the template.
    pub sha256: Digest,
    /// What the hash covers.
    pub scope: InstructionScope,
    /// Where the text may stand.
    #[serde(default)]
    pub place: InstructionPlace,
    /// Whether a request without this text is refused.
    #[serde(default)]
    pub required: bool,
}

/// The JSON Schema of `spec.instructions`.
pub(super) fn schema() -> Value {
    let hex = json!({"type": "string", "pattern": "^[0-9a-f]{64}$",
        "x-error": "expected 64 lowercase hex digits, quoted"});
    json!({"type": "array", "maxItems": 256, "items": {
    "type": "object", "additionalProperties": false, "required": ["sha256", "scope"],
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$",
            "x-error": "expected a name: [A-Za-z0-9_.-]{1,64}"},
        "sha256": hex,
        "scope": {"type": "string",
            "pattern": "^(whole|first_block|block|prefix:[1-9][0-9]{0,8}|template)$",
            "x-error": "expected `whole`, `first_block`, `block`, `prefix:<bytes>` or `template`"},
        "place": {"enum": InstructionPlace::TEXTS, "x-error": "expected `leading`, `mid` or `any`"},
        "required": {"type": "boolean", "x-error": "expected `true` or `false`"},
        "template": hex,
    }}})
}

/// What the schema cannot express: members that do not go together, and names given twice.
pub(super) fn beyond_schema(document: &Document) -> Vec<yaml::Error> {
    let mut problems = Vec::new();
    let mut names = BTreeSet::new();
    let entries = document.value.pointer("/spec/instructions").and_then(Value::as_array);
    for (i, entry) in entries.into_iter().flatten().enumerate() {
        let text = |member: &str| entry.get(member).and_then(Value::as_str);
        let mut add = |member: &str, why: String| {
            let at = format!("/spec/instructions/{i}/{member}");
            problems.push(document.error(&at, why));
        };
        if let Some(name) = text("name")
            && !names.insert(name)
        {
            add("name", format!("`{name}` is listed twice"));
        }
        let Some(scope) = text("scope").and_then(InstructionScope::parse) else { continue };
        if !scope.is_anywhere() && text("place").is_some_and(|place| place != "leading") {
            add("place", format!("scope `{scope}` covers leading instructions only"));
        }
        if let Some(template) = text("template") {
            if scope != InstructionScope::Template {
                add("template", format!("means nothing for scope `{scope}`"));
            } else if text("sha256").is_some_and(|sha256| sha256 != template) {
                add("template", "differs from `sha256`, which names the template".to_owned());
            }
        }
    }
    problems
}
