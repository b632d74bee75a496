//! Ports to the external parties that see heads of the fleet log: witnesses and time stamping
//! authorities.

use std::sync::Arc;

use async_trait::async_trait;

use crate::crypto::keys::PublicKey;
use crate::crypto::note::{Checkpoint, VerifierKey};
use crate::domain::id::Seq;
use crate::domain::time::Timestamp;
use crate::ledger::PortError;
use crate::ledger::proofs::Prover;

/// A head of the fleet log on its way to a witness.
#[derive(Clone, Copy, Debug)]
pub struct ShownHead<'a> {
    /// The checkpoint note, signed by the log.
    pub note: &'a str,
    /// The log's key.
    pub log: &'a VerifierKey,
    /// Size of the head that was anchored before; 0 for the first.
    pub old: Seq,
    /// Makes consistency proofs up to the head from any size.
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
    /// The witness has seen a longer log, or another history: the ledger itself is in doubt.
    pub fatal: bool,
    /// The reason, naming the witness.
    pub why: String,
}

/// A witness: it cosigns a head only if the head extends the one it cosigned last.
#[async_trait]
pub trait Witness: Send + Sync + std::fmt::Debug + 'static {
    /// Its name and key.
    fn key(&self) -> &VerifierKey;
    /// Asks for a cosignature. Returns within a bound.
    ///
    /// # Errors
    /// [`CosignRefusal`]; only a fatal one is about the ledger itself.
    async fn cosign(&self, shown: &ShownHead<'_>) -> Result<Cosigned, CosignRefusal>;
    /// The newest head of this log that the witness has cosigned, if any. Returns within a bound.
    ///
    /// # Errors
    /// It cannot be reached, or its answer does not verify.
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
    /// The authority does not answer, or its answer does not verify.
    async fn stamp(&self, head: &Checkpoint) -> Result<VerifiedStamp, PortError>;
}

/// A witness to be asked which heads it has seen, and the keys the log may have signed them with.
#[derive(Clone, Debug)]
pub struct WitnessSight {
    /// The witness.
    pub witness: Arc<dyn Witness>,
    /// Keys of the log: during a rotation the new one and the old one.
    pub keys: Vec<PublicKey>,
}

impl WitnessSight {
    /// The newest head of this log that the witness has cosigned. `None` also if the witness does
    /// not answer: the caller starts without it, and a warning records that.
    pub async fn newest(&self, origin: &str) -> Option<Checkpoint> {
        let mut why = None;
        for key in &self.keys {
            match self.witness.newest(&VerifierKey::log(origin, *key)).await {
                Ok(seen) => return seen,
                Err(failed) => why = Some(failed),
            }
        }
        let why = why.map(|why| why.to_string()).unwrap_or_default();
        tracing::warn!(why, "cannot learn which head of the fleet log a witness saw last");
        None
    }

    /// Its name, for people.
    pub fn name(&self) -> String {
        format!("witness `{}`", self.witness.key().name)
    }
}
