//! The result of a backtest as evidence of a change: signed, and checked without the ledger.
//!
//! A DSSE envelope (`application/vnd.in-toto+json`) over an in-toto statement whose subject is the
//! new bundle. It states the logs and heads, the range, the compared bundles, the counts, and the
//! SHA-256 of the list of changes. An owner of the ledger and the bundles can reproduce it.

use serde::Deserialize;

use super::{BacktestQuery, BacktestResult, Baseline, Comparison, Log};
use crate::crypto::dsse;
use crate::crypto::keys::{PublicKey, SecretKey};
use crate::crypto::signer::{self, Signer};
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};
use crate::domain::members::Mismatch;
use crate::domain::time::Timestamp;
use crate::evidence::statement::{PAYLOAD_TYPE, STATEMENT, StatementForm};
use crate::policy::rego::ENGINE;
use crate::record::{HexDigest, TaggedDigest};

/// `predicateType` of the statement.
pub const PREDICATE: &str = "https://wicketgate.dev/policy-backtest/v1";

/// Why a statement is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The envelope does not hold.
    #[error(transparent)]
    Envelope(#[from] dsse::Error),
    /// The signed bytes lack the members of such a statement.
    #[error("what was signed is no policy backtest: {0}")]
    Member(#[from] Mismatch),
    /// The signed bytes are not such a statement.
    #[error("what was signed is no policy backtest: {0}")]
    Shape(&'static str),
    /// It is about another bundle.
    #[error("it is about bundle {found}, not {expected}")]
    OtherBundle {
        /// What the statement names.
        found: String,
        /// What was given.
        expected: String,
    },
    /// It is about another list of changes.
    #[error("the list of changes has the SHA-256 {found}, the statement says {expected}")]
    OtherList {
        /// Of the file.
        found: String,
        /// Of the statement.
        expected: String,
    },
}

/// The result, as `--json` prints it and the statement carries it.
pub fn predicate(
    query: &BacktestQuery,
    comparison: &Comparison<'_>,
    found: &BacktestResult,
    at: Timestamp,
) -> Json {
    let log = |log: &Log| {
        Json::object([
            ("origin", Json::from(log.origin.as_str())),
            ("tenant", Json::from(log.tenant.as_str())),
            ("size", Json::from(log.size)),
            ("head", Json::from(log.head.hex())),
        ])
    };
    let against = match comparison.old {
        Baseline::Recorded => Json::from("recorded"),
        Baseline::Bundle(old) => old.to_json(),
    };
    Json::object([
        ("at", Json::from(at.to_string())),
        ("program", Json::from(concat!("wicketgate ", env!("CARGO_PKG_VERSION")))),
        ("engine", Json::from(ENGINE)),
        ("bundle", comparison.new.to_json()),
        ("against", against),
        ("query", Json::of(query)),
        ("ledger", found.logs.iter().map(log).collect::<Vec<_>>().into()),
        ("limited", Json::from(found.limited)),
        ("result", found.tally.to_json()),
    ])
}

/// Signs a predicate about the bundle of this digest.
pub fn sign(predicate: Json, bundle: &Digest, key: &SecretKey) -> Vec<u8> {
    dsse::sign(PAYLOAD_TYPE, &form(predicate, bundle).bytes(), &[key])
}

/// As [`sign`], by a key that may be held elsewhere.
///
/// # Errors
/// The key cannot be reached or its holder refuses.
pub fn sign_by(
    predicate: Json,
    bundle: &Digest,
    key: &dyn Signer,
) -> Result<Vec<u8>, signer::Error> {
    dsse::sign_by(PAYLOAD_TYPE, &form(predicate, bundle).bytes(), key)
}

fn form(predicate: Json, bundle: &Digest) -> StatementForm {
    let subject = ("policy-bundle".to_owned(), *bundle);
    StatementForm::of(PREDICATE, predicate, std::iter::once(subject))
}

/// The members of a predicate that are compared with files.
#[derive(Deserialize)]
struct HeldPredicate {
    bundle: NamedBundle,
    result: ListDigest,
}

#[derive(Deserialize)]
struct NamedBundle {
    digest: TaggedDigest,
}

#[derive(Deserialize)]
struct ListDigest {
    list_sha256: HexDigest,
}

/// A statement with a trusted signature.
#[derive(Debug)]
pub struct Verified {
    /// Ids of the trusted keys that signed, sorted.
    pub signers: Vec<String>,
    /// The content.
    pub predicate: Json,
}

/// Opens an envelope: signed by one of these keys, about this bundle and this list if given.
///
/// # Errors
/// See [`Error`].
pub fn verify(
    envelope: &[u8],
    trusted: &[PublicKey],
    bundle: Option<&Digest>,
    list: Option<&Digest>,
) -> Result<Verified, Error> {
    let dsse::Verified { payload, signers } = dsse::open(envelope, PAYLOAD_TYPE, trusted, 1)?;
    let json = Json::parse(&payload, &Limits::FILE).map_err(|_| Error::Shape("not strict JSON"))?;
    let statement: StatementForm = json.read()?;
    if statement.kind != STATEMENT || statement.predicate_type != PREDICATE {
        return Err(Error::Shape("another statement"));
    }
    let [subject] = statement.subject.as_slice() else {
        return Err(Error::Shape("not one subject"));
    };
    let (digest, predicate) = (subject.digest.sha256.0, statement.predicate);
    let held: HeldPredicate = predicate.read()?;
    if held.bundle.digest.0 != digest {
        return Err(Error::Shape("subject and predicate name two bundles"));
    }
    if let Some(bundle) = bundle.filter(|bundle| **bundle != digest) {
        return Err(Error::OtherBundle { found: digest.prefixed(), expected: bundle.prefixed() });
    }
    let expected = held.result.list_sha256.0;
    if let Some(list) = list.filter(|list| **list != expected) {
        return Err(Error::OtherList { found: list.hex(), expected: expected.hex() });
    }
    Ok(Verified { signers, predicate })
}
