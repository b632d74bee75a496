//! Rules of the operator beside ours: shapes of keys of their own, and rules in the form of gitleaks.
//!
//! A process searches with one set of rules from its first search to its end. So a decision, the digest in
//! its entry and the search of a verifier all speak of the same one.

mod leaks;
mod shapes;
#[cfg(test)]
mod tests;
mod toml;

use std::ops::RangeInclusive;
use std::sync::OnceLock;

use super::kinds::{self, Class, KindRow};
use super::shape::Vendor;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};

pub(super) use leaks::{LeakRule, find};

/// Bytes of the longest file of rules.
pub const RULE_FILE_BYTES: usize = 1 << 20;
/// Files of rules of one configuration: 16 of each form.
const RULE_FILES: usize = 32;
/// Rules of one file.
const RULES_MAX: usize = 256;

/// How a file of rules is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleForm {
    /// Shapes, as ours are.
    Shapes,
    /// Rules of gitleaks.
    Gitleaks,
}

/// A file of rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleFile {
    /// Its name, for errors.
    pub name: String,
    /// How it is written.
    pub form: RuleForm,
    /// What it says.
    pub text: String,
}

/// Why rules are not used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    /// A file of shapes has an error.
    #[error(transparent)]
    Shapes(#[from] crate::yaml::Error),
    /// A file of gitleaks has an error.
    #[error("{file}:{line}: {what}")]
    Gitleaks {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong, with the rule.
        what: String,
    },
    /// Two rules find the same kind.
    #[error("{file}: the kind `{kind}` is that of another rule: give this one another name")]
    Twice {
        /// The file.
        file: String,
        /// The kind.
        kind: String,
    },
    /// A file is too long.
    #[error("{0}: more than {RULE_FILE_BYTES} bytes")]
    Long(String),
    /// The document of a bundle is not readable.
    #[error("the rules of the operator cannot be read: {0}")]
    Document(String),
    /// The work is out of range.
    #[error("`mib_ms` is {0}: state a number from 25 to 2500")]
    Work(u64),
    /// The process searches with other rules.
    #[error("the rules of the firewall changed: restart the gate")]
    InUse,
}

/// Work for each MiB of text, unless an operator asks for other work.
pub const MIB_MS: u64 = 250;
/// The least and the most work.
const MIB_MS_RANGE: RangeInclusive<u64> = 25..=2500;

/// Rules of an operator that were read and checked.
#[derive(Debug)]
pub struct OwnRules {
    shapes: Vec<shapes::OwnShape>,
    leaks: Vec<LeakRule>,
    mib_ms: u64,
    document: Option<Vec<u8>>,
}

impl OwnRules {
    /// Reads files of rules. Without a file, there are no rules but ours.
    ///
    /// # Errors
    /// A file has an error; it is named with its line.
    pub fn read(files: &[RuleFile]) -> Result<Self, RuleError> {
        Self::with_work(files, MIB_MS)
    }

    /// The same, with other work for each MiB of text: milliseconds of a core that looks at 100 MB in a
    /// second. Bytes are counted, and no time.
    ///
    /// # Errors
    /// As [`OwnRules::read`]; or the work is out of range.
    pub fn with_work(files: &[RuleFile], mib_ms: u64) -> Result<Self, RuleError> {
        if !MIB_MS_RANGE.contains(&mib_ms) {
            return Err(RuleError::Work(mib_ms));
        }
        if files.len() > RULE_FILES {
            return Err(RuleError::Document(format!("more than {RULE_FILES} files")));
        }
        let (mut shapes, mut leaks) = (Vec::new(), Vec::new());
        let mut names: Vec<String> = Vec::new();
        for file in files {
            if file.text.len() > RULE_FILE_BYTES {
                return Err(RuleError::Long(file.name.clone()));
            }
            let mut kinds: Vec<String> = match file.form {
                RuleForm::Shapes => {
                    let read = shapes::read(&file.text, &file.name)?;
                    let kinds = read.iter().map(|one| one.kind.clone()).collect();
                    shapes.extend(read);
                    kinds
                }
                RuleForm::Gitleaks => {
                    let read = leaks::read(&file.text, &file.name)?;
                    let kinds = read.iter().map(|one| one.kind.clone()).collect();
                    leaks.extend(read);
                    kinds
                }
            };
            if file.form == RuleForm::Shapes {
                kinds.sort();
                kinds.dedup();
            }
            for kind in kinds {
                if names.contains(&kind) || kinds::is_ours(&kind) {
                    return Err(RuleError::Twice { file: file.name.clone(), kind });
                }
                names.push(kind);
            }
        }
        // WHY with the rules: with other work, the same text may give other findings.
        let is_ours = files.is_empty() && mib_ms == MIB_MS;
        let document = (!is_ours).then(|| document(files, mib_ms));
        Ok(Self { shapes, leaks, mib_ms, document })
    }

    /// Reads what [`OwnRules::document`] wrote; `None` if other rules of ours belong to it.
    ///
    /// # Errors
    /// It is no such document.
    pub fn of_document(document: &[u8]) -> Result<Option<Self>, RuleError> {
        let bad = |why: &str| RuleError::Document(why.to_owned());
        let json = Json::parse(document, &Limits::FILE).map_err(|error| bad(&error.to_string()))?;
        let base = json.get("base").and_then(Json::as_str).ok_or_else(|| bad("no `base`"))?;
        if base != kinds::our_digest().prefixed() {
            return Ok(None);
        }
        let files = json.get("files").and_then(Json::as_array).ok_or_else(|| bad("no `files`"))?;
        let file = |one: &Json| {
            let text = |name: &str| one.get(name).and_then(Json::as_str).map(str::to_owned);
            let form = match one.get("form").and_then(Json::as_str)? {
                "shapes" => RuleForm::Shapes,
                "gitleaks" => RuleForm::Gitleaks,
                _ => return None,
            };
            Some(RuleFile { name: text("name")?, form, text: text("text")? })
        };
        let files: Option<Vec<RuleFile>> = files.iter().map(file).collect();
        let files = files.ok_or_else(|| bad("a file has another form"))?;
        let mib_ms = match json.get("mib_ms") {
            Some(work) => work.as_u64().ok_or_else(|| bad("`mib_ms` is no number"))?,
            None => MIB_MS,
        };
        Self::with_work(&files, mib_ms).map(Some)
    }

    /// The files and the digest of our rules, canonical; the digest of these bytes is that of all rules
    /// together. `None` without rules of an operator.
    #[must_use]
    pub fn document(&self) -> Option<&[u8]> {
        self.document.as_deref()
    }

    /// The digest of these rules and ours.
    #[must_use]
    pub fn digest(&self) -> Digest {
        match &self.document {
            Some(document) => Digest::of(&[document]),
            None => kinds::our_digest(),
        }
    }
}

fn document(files: &[RuleFile], mib_ms: u64) -> Vec<u8> {
    let file = |one: &RuleFile| {
        let form = match one.form {
            RuleForm::Shapes => "shapes",
            RuleForm::Gitleaks => "gitleaks",
        };
        let text = |text: &str| Json::from(text);
        Json::object([("form", text(form)), ("name", text(&one.name)), ("text", text(&one.text))])
    };
    let files: Vec<Json> = files.iter().map(file).collect();
    let base = Json::from(kinds::our_digest().prefixed());
    let work = (mib_ms != MIB_MS).then(|| ("mib_ms", Json::from(mib_ms)));
    let all = [("base", base), ("files", files.into())].into_iter().chain(work);
    canonical::bytes(&Json::object(all))
}

/// What a process searches with beside our rules.
#[derive(Debug)]
pub(super) struct OwnInForce {
    /// Shapes, by kind.
    pub vendors: Vec<Vendor>,
    /// Rules of gitleaks.
    pub leaks: Vec<LeakRule>,
    /// The work for each MiB of text.
    pub mib_ms: u64,
    /// The document of the files and of the work.
    pub document: Option<Vec<u8>>,
}

static IN_FORCE: OnceLock<OwnInForce> = OnceLock::new();

/// The rules of the operator that this process searches with.
pub(super) fn in_force() -> &'static OwnInForce {
    let nothing = || {
        let (vendors, leaks) = (Vec::new(), Vec::new());
        OwnInForce { vendors, leaks, mib_ms: MIB_MS, document: None }
    };
    IN_FORCE.get_or_init(nothing)
}

/// The work that the operator allows, where ours is `bytes` to look at.
pub(super) fn work(bytes: usize) -> usize {
    scaled(bytes, in_force().mib_ms)
}

fn scaled(bytes: usize, mib_ms: u64) -> usize {
    if mib_ms == MIB_MS {
        return bytes;
    }
    let of = |bytes: usize| u128::try_from(bytes).unwrap_or(u128::MAX);
    let work = of(bytes).saturating_mul(mib_ms.into()) / u128::from(MIB_MS);
    usize::try_from(work).unwrap_or(usize::MAX)
}

/// Makes these the rules of this process, besides ours. It does so once, before the first search.
///
/// # Errors
/// The process searches with other rules already.
pub fn install(rules: OwnRules) -> Result<(), RuleError> {
    let digest = rules.digest();
    let OwnRules { shapes, leaks, mib_ms, document } = rules;
    let own = || OwnInForce { vendors: shapes::vendors(shapes), leaks, mib_ms, document };
    IN_FORCE.get_or_init(own);
    if kinds::rules_digest() == digest { Ok(()) } else { Err(RuleError::InUse) }
}

/// The files of the operator's rules, as [`OwnRules::document`].
#[must_use]
pub fn document_in_force() -> Option<&'static [u8]> {
    in_force().document.as_deref()
}

/// The kinds of the operator.
pub(super) fn kind_rows() -> impl Iterator<Item = KindRow> {
    let own = in_force();
    let row = |name, about| KindRow { name, class: Class::Secret, about };
    let shapes = own.vendors.iter().map(move |one| row(one.kind, one.about));
    shapes.chain(own.leaks.iter().map(move |one| row(&one.kind, &one.about)))
}

/// Whether a kind is one of the operator's.
#[must_use]
pub fn is_own(kind: &str) -> bool {
    kind_rows().any(|row| row.name == kind)
}

/// Why a text is no kind of finding; `None` if it is one.
fn no_kind(kind: &str) -> Option<&'static str> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_one = kind.starts_with(|first: char| first.is_ascii_lowercase())
        && (2..=48).contains(&kind.len())
        && kind.bytes().all(is_letter);
    (!is_one).then_some("2 to 48 lower-case letters, digits and `_`, the first a letter")
}
