//! Who sees heads of the fleet log from outside: witnesses and time stamping authorities, as ports.

use std::sync::Arc;

use async_trait::async_trait;

use crate::crypto::keys::PublicKey;
use crate::crypto::note::{Checkpoint, VerifierKey};
use crate::domain::id::Seq;
use crate::domain::time::Timestamp;
use crate::ledger::PortError;
use crate::ledger::proofs::Prover;

/// A head of the fleet log on its way to somebody else.
#[derive(Clone, Copy, Debug)]
pub struct ShownHead<'a> {
    /// The checkpoint note, signed by the log.
    pub note: &'a str,
    /// The log's key.
    pub log: &'a VerifierKey,
    /// Size of the head that was anchored before; 0 if there is none.
    pub old: Seq,
    /// Makes consistency proofs up to the head, from whatever size is asked for.
    pub proofs: &'a Prover<'a>,
}

/// A cosignature, already verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cosigned {
    /// When, by the witness's clock.
    pub time: Timestamp,
    /// The line to append to the note, with its newline.
    pub line: String,
}

/// Why there is no cosignature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CosignRefusal {
    /// It has seen a longer log than ours, or another one: the ledger itself is in doubt.
    pub fatal: bool,
    /// What happened, naming the witness.
    pub why: String,
}

/// Somebody who cosigns a head only if it extends the one they cosigned last.
#[async_trait]
pub trait Witness: Send + Sync + std::fmt::Debug + 'static {
    /// Its name and key.
    fn key(&self) -> &VerifierKey;
    /// Asks for a cosignature. Returns within a bound.
    ///
    /// # Errors
    /// [`Refused`]; only a fatal one says something about the ledger.
    async fn cosign(&self, shown: &ShownHead<'_>) -> Result<Cosigned, CosignRefusal>;
    /// The newest head of this log it has cosigned, if any. Returns within a bound.
    ///
    /// # Errors
    /// It cannot be reached, or shows something that does not verify.
    async fn newest(&self, log: &VerifierKey) -> Result<Option<Checkpoint>, PortError>;
}

/// A time stamp token, already verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifiedStamp {
    /// The authority's time.
    pub time: Timestamp,
    /// The token (RFC 3161), DER.
    pub token: Vec<u8>,
    /// The authority's name, as its certificate has it.
    pub name: String,
}

/// A time stamping authority.
#[async_trait]
pub trait TimeStamp: Send + Sync + std::fmt::Debug + 'static {
    /// Asks for a token over the body of this head. Returns within a bound.
    ///
    /// # Errors
    /// Why there is none.
    async fn stamp(&self, head: &Checkpoint) -> Result<VerifiedStamp, PortError>;
}

/// A witness that is asked what it has seen, and the keys the log may have signed that with.
#[derive(Clone, Debug)]
pub struct WitnessSight {
    /// The witness.
    pub witness: Arc<dyn Witness>,
    /// Keys of the log: during a rotation the new one and the old one.
    pub keys: Vec<PublicKey>,
}

impl WitnessSight {
    /// The newest head of this log it has cosigned. A witness that does not answer has seen nothing:
    /// whoever starts does not wait for it, and it is said in the log.
    pub async fn newest(&self, origin: &str) -> Option<Checkpoint> {
        let mut why = None;
        for key in &self.keys {
            match self.witness.newest(&VerifierKey::log(origin, *key)).await {
                Ok(seen) => return seen,
                Err(failed) => why = Some(failed),
            }
        }
        let why = why.map(|why| why.to_string()).unwrap_or_default();
        tracing::warn!(why, "what a witness has seen of the fleet log is not known");
        None
    }

    /// Its name, for people.
    #[must_use]
    pub fn name(&self) -> String {
        format!("witness `{}`", self.witness.key().name)
    }
}
