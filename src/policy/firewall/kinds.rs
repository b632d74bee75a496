//! The words for what is found: kinds, classes, how sure and how it was written.

use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::Json;

/// What a finding is about. An action is configured per class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// A credential: a key, a token, a password.
    Secret,
    /// Data about a person.
    Personal,
    /// Text that is written to steer a model.
    Injection,
    /// Characters that people do not see as what they are.
    Unicode,
    /// What could not be looked through.
    Unscanned,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 5] =
        [Self::Secret, Self::Personal, Self::Injection, Self::Unicode, Self::Unscanned];

    /// Its name on the wire and in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Personal => "personal",
            Self::Injection => "injection",
            Self::Unicode => "unicode",
            Self::Unscanned => "unscanned",
        }
    }
}

/// How sure a finding is.
///
/// Of kind `unscanned`, `High` means that the work of the scan had an end before the text had, and
/// `Low` that something encoded decodes to bytes that are no text: an image, a key, a compressed file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Confidence {
    /// The shape, a checksum or what stands beside it says so.
    High,
    /// It may well be something else: an example key, a test key, a value that is assigned to a name.
    Low,
}

impl Confidence {
    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Low => "low",
        }
    }
}

/// How what is found was written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum How {
    /// As it is.
    Plain,
    /// Encoded: base64, hexadecimal digits, escapes, compressed. A mask covers the encoded run.
    Decoded,
    /// With characters that only look like those of it, or with invisible ones between.
    Folded,
    /// Over several texts of a document. It has no place in one of them, so nothing can be masked.
    Joined,
}

impl How {
    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Decoded => "decoded",
            Self::Folded => "folded",
            Self::Joined => "joined",
        }
    }
}

/// One kind of finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KindRow {
    /// Its name in a finding, an obligation and a mask.
    pub name: &'static str,
    /// What it is about.
    pub class: Class,
    /// What it is, in a few words.
    pub about: &'static str,
}

/// What could not be looked through, among the kinds of findings.
pub(super) const UNSCANNED: &str = "unscanned";

/// What no vendor issues.
const GENERAL: [KindRow; 5] = [
    row("card", Class::Personal, "number of a payment card, by issuer and checksum"),
    row("email", Class::Personal, "address of a mailbox"),
    row("iban", Class::Personal, "number of a bank account (ISO 13616), by checksum"),
    row("us_ssn", Class::Personal, "social security number of the United States"),
    row(UNSCANNED, Class::Unscanned, "something that could not be looked through"),
];

const fn row(name: &'static str, class: Class, about: &'static str) -> KindRow {
    KindRow { name, class, about }
}

/// Every kind of finding.
pub fn kinds() -> impl Iterator<Item = KindRow> {
    GENERAL.iter().copied()
}

/// What a kind is about; `None` for a name that is no kind.
#[must_use]
pub fn class_of(kind: &str) -> Option<Class> {
    kinds().find(|row| row.name == kind).map(|row| row.class)
}

/// Changes whenever the same text may give other findings and the tables say the same.
const REVISION: i64 = 1;

/// The digest of the rules: of every table and of the engine's revision. Equal digests find the same.
#[must_use]
pub fn rules_digest() -> Digest {
    let rows = kinds().map(|row| Json::from(format!("{} {}", row.name, row.class.as_str())));
    let all: Json = [Json::Int(REVISION)].into_iter().chain(rows).collect::<Vec<_>>().into();
    Digest::of(&[b"wicketgate/firewall-rules/1\n", &canonical::bytes(&all)])
}
