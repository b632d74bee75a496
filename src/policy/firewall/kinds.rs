//! The words for what is found: kinds, classes, how sure and how it was written.

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use crate::domain::facts::{Confidence, How};

use super::{own, shapes, steering};
use crate::domain::canonical;
use crate::domain::digest::Digest;
pub(super) use crate::domain::facts::UNSCANNED;
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

/// What no vendor issues.
const GENERAL: [KindRow; 33] = [
    row("private_key", Class::Secret, "private key between two lines (PEM), or of PuTTY"),
    row("jwt", Class::Secret, "signed token of three parts (JWT)"),
    row("url_password", Class::Secret, "password in a URL"),
    row("authorization", Class::Secret, "value of an `Authorization` header"),
    row("discord", Class::Secret, "token of a bot of Discord"),
    row("assigned", Class::Secret, "value of something that is named like a secret"),
    row("card", Class::Personal, "number of a payment card, by issuer and checksum"),
    row("email", Class::Personal, "address of a mailbox"),
    row("iban", Class::Personal, "number of a bank account (ISO 13616), by checksum"),
    row("us_ssn", Class::Personal, "social security number of the United States"),
    row("phone", Class::Personal, "number of a telephone, by country code or the word beside it"),
    row("nhs", Class::Personal, "number of the health service of England"),
    row("aadhaar", Class::Personal, "number of a person in India"),
    row("cpf", Class::Personal, "number of a person in Brazil"),
    row("cnpj", Class::Personal, "number of a company in Brazil"),
    row("bsn", Class::Personal, "number of a person in the Netherlands"),
    row("nir", Class::Personal, "number of the social security of France"),
    row("pesel", Class::Personal, "number of a person in Poland"),
    row("codice_fiscale", Class::Personal, "tax code of a person in Italy"),
    row("btc_address", Class::Personal, "address of Bitcoin, by checksum"),
    row("eth_address", Class::Personal, "address of Ethereum, by checksum"),
    row("chat_markup", Class::Injection, "mark of a conversation in the format of a model"),
    row("forged_turn", Class::Injection, "pretended call, answer or decision"),
    row("instruction", Class::Injection, "phrase that gives a model other orders"),
    row("hidden_order", Class::Injection, "order to a model in what no page shows"),
    row("hidden_text", Class::Unicode, "tag characters, which only models read"),
    row("bidi", Class::Unicode, "marks of direction that do not close or that override"),
    row("control", Class::Unicode, "control characters"),
    row("variation_run", Class::Unicode, "more variation selectors than a character has"),
    row("private_use", Class::Unicode, "characters of private use"),
    row("zero_width", Class::Unicode, "characters without a width"),
    row("mixed_scripts", Class::Unicode, "word with look-alike letters of another script"),
    row(UNSCANNED, Class::Unscanned, "something that could not be looked through"),
];

const fn row(name: &'static str, class: Class, about: &'static str) -> KindRow {
    KindRow { name, class, about }
}

/// Every kind of finding.
pub fn kinds() -> impl Iterator<Item = KindRow> {
    ours().chain(own::kind_rows())
}

/// The kinds of our own rules.
fn ours() -> impl Iterator<Item = KindRow> {
    let vendors = shapes::vendors().map(|one| row(one.kind, Class::Secret, one.about));
    let keyed = shapes::keyed().iter().map(|one| row(one.kind, Class::Secret, one.about));
    GENERAL.iter().copied().chain(vendors).chain(keyed)
}

/// What a kind is about; `None` for a name that is no kind.
#[must_use]
pub fn class_of(kind: &str) -> Option<Class> {
    CLASSES.get(kind).copied()
}

static CLASSES: LazyLock<BTreeMap<&'static str, Class>> =
    LazyLock::new(|| kinds().map(|row| (row.name, row.class)).collect());

/// Whether our own rules have this kind.
pub(super) fn is_ours(kind: &str) -> bool {
    ours().any(|row| row.name == kind)
}

/// Changes whenever the same text may give other findings and the tables say the same.
const REVISION: i64 = 4;

/// The digest of the rules: of every table and of the engine's revision. Equal digests find the same.
#[must_use]
pub fn rules_digest() -> Digest {
    match own::document_in_force() {
        Some(document) => Digest::of(&[document]),
        None => our_digest(),
    }
}

/// The digest of our own rules.
pub(super) fn our_digest() -> Digest {
    *DIGEST
}

static DIGEST: LazyLock<Digest> = LazyLock::new(|| {
    let kinds = ours().map(|row| format!("{} {}", row.name, row.class.as_str()));
    let vendors = shapes::vendors()
        .flat_map(|vendor| vendor.shapes.iter().map(|shape| format!("{} {shape:?}", vendor.kind)));
    let keyed =
        shapes::keyed().iter().map(|one| format!("{} {:?} {:?}", one.kind, one.names, one.bodies));
    let lists = [&steering::MARKUP[..], &steering::FORGED, &steering::PHRASES, &steering::HIDDEN];
    let steering = lists.into_iter().flatten().map(|text| (*text).to_owned());
    let rows = kinds.chain(vendors).chain(keyed).chain(steering).map(Json::from);
    let all: Json = [Json::Int(REVISION)].into_iter().chain(rows).collect::<Vec<_>>().into();
    Digest::of(&[b"wicketgate/firewall-rules/1\n", &canonical::bytes(&all)])
});
