//! The signing keys: the enrolment key of the genesis, and the writer key it certified for each
//! epoch.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use serde::Deserialize;

use super::read::{Damage, EntryLine};
use crate::crypto::dsse;
use crate::crypto::keys::PublicKey;
use crate::crypto::note::{self, Checkpoint};
use crate::domain::canonical;
use crate::domain::id::{Epoch, Seq};
use crate::domain::json::{self, Json, Limits};
use crate::domain::members;
use crate::domain::time::Timestamp;
use crate::record::chain::{Certificate, ChainGenesis, WriterStarted};
use crate::record::{Base64, Entry, Kind};

/// DSSE payload type of a writer's certificate.
pub const CERTIFICATE: &str = "application/vnd.wicketgate.writer-certificate.v1+json";

/// The keys of one chain, as its own entries introduce them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Epochs {
    trusted: Vec<PublicKey>,
    genesis: Option<(String, PublicKey)>,
    writers: BTreeMap<Epoch, (PublicKey, Seq)>,
    /// Id of the enrolment key that certified each epoch.
    certified: BTreeMap<Epoch, String>,
    revoked: Vec<RevokedEnrolment>,
}

/// An enrolment key that was revoked, completely or from a position of a log on. The boundary is a
/// position, never a time, because an owner of the key can write any time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RevokedEnrolment {
    /// Its id: SHA-256 of the raw key, in hex.
    pub key: String,
    /// The log, and its entries that stay valid; `None`: no entry does.
    pub good: Option<(String, Seq)>,
}

impl Epochs {
    /// Starts without keys. The genesis key or one of `trusted` may sign certificates.
    pub fn new(trusted: &[PublicKey]) -> Self {
        Self { trusted: trusted.to_vec(), ..Self::default() }
    }

    /// Keys that are revoked.
    #[must_use]
    pub fn revoking(mut self, revoked: &[RevokedEnrolment]) -> Self {
        self.revoked = revoked.to_vec();
        self
    }

    /// Checks that an entry precedes the revocation, if any, of the key that certified its epoch.
    ///
    /// # Errors
    /// `S1`.
    pub fn check_revocation(&self, epoch: Epoch, seq: Seq) -> Result<(), Damage> {
        match self.size_before_revocation(epoch) {
            Some(size) if seq >= size => Err(Damage::new(
                "S1",
                format!(
                    "epoch {epoch} is certified by a revoked enrolment key: only the first {size} \
                     entries are good"
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Entries of this log for which an epoch's certificate stays valid; `None` without a limit.
    fn size_before_revocation(&self, epoch: Epoch) -> Option<Seq> {
        let id = self.certified.get(&epoch)?;
        let about = self.revoked.iter().filter(|revoked| revoked.key == *id);
        about
            .filter_map(|revoked| match &revoked.good {
                None => Some(0),
                Some((log, size)) => (Some(log.as_str()) == self.origin()).then_some(*size),
            })
            .min()
    }

    /// Name of the log, once the genesis has been read.
    #[must_use]
    pub fn origin(&self) -> Option<&str> {
        self.genesis.as_ref().map(|(origin, _)| origin.as_str())
    }

    /// The chain's enrolment key, once the genesis has been read.
    #[must_use]
    pub fn enrolment(&self) -> Option<&PublicKey> {
        self.genesis.as_ref().map(|(_, key)| key)
    }

    /// Whether this epoch's writer was introduced with a valid certificate.
    #[must_use]
    pub fn knows(&self, epoch: Epoch) -> bool {
        self.writers.contains_key(&epoch)
    }

    /// Takes the first entry of the chain.
    ///
    /// # Errors
    /// `S1`.
    pub fn genesis(&mut self, line: &EntryLine) -> Result<(), Damage> {
        let damage = |why: &str| Damage::new("S1", why);
        let entry = &line.entry;
        // WHY: epochs begin at 1, but a writer that dies between lease and genesis has spent its own.
        if !line.is(Kind::ChainGenesis) || entry.seq != 0 || entry.epoch == 0 {
            return Err(damage("the first entry is not `chain.genesis` with seq 0"));
        }
        if entry.prev != Entry::genesis_prev(&entry.chain) {
            return Err(damage("`prev` of the genesis is not SHA-256 of the chain id"));
        }
        let genesis = line.get::<ChainGenesis>();
        let key = genesis
            .and_then(|genesis| PublicKey::from_bytes(&genesis.enrolment_key.0))
            .ok_or_else(|| damage("`enrolment_key` of the genesis is no usable ed25519 key"))?;
        self.genesis = genesis.map(|genesis| (genesis.origin.to_string(), key));
        Ok(())
    }

    /// Takes a `writer.started`: its certificate must be valid for this epoch and key.
    ///
    /// # Errors
    /// `S1`.
    pub fn started(&mut self, line: &EntryLine) -> Result<(), Damage> {
        let epoch = line.entry.epoch;
        let damage = |why: String| Damage::new("S1", format!("writer of epoch {epoch}: {why}"));
        let fail = |why: &str| damage(why.to_owned());
        let started = line.get::<WriterStarted>().ok_or_else(|| fail("it was not introduced"))?;
        let writer = PublicKey::from_bytes(&started.writer_key.0)
            .ok_or_else(|| fail("`writer_key` is no usable ed25519 key"))?;
        let Certificate { body, keyid, sig } = &started.certificate;
        let (body, signature) = (STANDARD.decode(body.as_str()), sig.0);
        let body = body.map_err(|_| fail("the certificate body is not base64"))?;
        let keyid = keyid.to_string();
        let signer = self
            .genesis
            .iter()
            .map(|(_, key)| key)
            .chain(&self.trusted)
            .find(|key| key.id() == keyid)
            .ok_or_else(|| fail("the certificate is not by the enrolment key"))?;
        if !signer.verifies(&dsse::pae(CERTIFICATE, &body), &signature) {
            return Err(fail("the certificate's signature does not verify"));
        }
        certified(&body, line, &writer).map_err(|why| damage(why.to_string()))?;
        let by = signer.id();
        self.certified.insert(epoch, by);
        self.check_revocation(epoch, line.entry.seq)?;
        if self.writers.insert(epoch, (writer, line.entry.seq)).is_some() {
            return Err(fail("two `writer.started` of one epoch"));
        }
        Ok(())
    }

    /// Opens a checkpoint note: the chain's origin, signed by a certified writer key.
    ///
    /// # Errors
    /// `H1`.
    pub fn checkpoint(&self, text: &str) -> Result<(Checkpoint, Epoch), Damage> {
        let invalid = |why: String| Damage::new("H1", why);
        let (claimed, lines) = Checkpoint::parse(text).map_err(|e| invalid(e.to_string()))?;
        let origin = self.origin().ok_or_else(|| invalid("no genesis names the origin".into()))?;
        if claimed.origin != origin {
            return Err(invalid(format!("the origin is `{}`, not `{origin}`", claimed.origin)));
        }
        let mut signer = None;
        for (epoch, (key, started)) in &self.writers {
            let hash = note::key_hash(origin, key);
            // A key may serve several epochs: the newest one that had started counts.
            if signer.is_some() && claimed.size <= *started {
                continue;
            }
            if lines.iter().any(|line| line.name == origin && line.hash == hash) {
                Checkpoint::open(text, key).map_err(|e| invalid(e.to_string()))?;
                signer = Some((*epoch, *started));
            }
        }
        let (epoch, started) =
            signer.ok_or_else(|| invalid("no signature by a certified writer key".into()))?;
        if claimed.size <= started {
            return Err(invalid(format!(
                "signed by the writer of epoch {epoch} before it started"
            )));
        }
        if let Some(last) = claimed.size.checked_sub(1) {
            self.check_revocation(epoch, last).map_err(|damage| invalid(damage.why))?;
        }
        Ok((claimed, epoch))
    }
}

/// How a certificate does not match its writer.
#[derive(Debug, thiserror::Error)]
enum Mismatch {
    #[error("certificate: {0}")]
    Json(#[from] json::Error),
    #[error("the certificate is not in canonical form")]
    Canonical,
    #[error("certificate: {0}")]
    Members(#[from] members::Mismatch),
    #[error("the certificate is for a different epoch")]
    Epoch,
    #[error("the certificate is for a different key")]
    Key,
    #[error("the certificate was already expired at {0}")]
    Expired(Timestamp),
}

/// The content of a certificate; image, pod and slot are not checked here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CertificateForm {
    epoch: Epoch,
    key: Base64<32>,
    not_after: Timestamp,
    #[serde(rename = "image_digest")]
    _image_digest: String,
    #[serde(rename = "pod")]
    _pod: String,
    #[serde(rename = "slot")]
    _slot: String,
}

/// Checks that the certificate's body is about this writer.
fn certified(body: &[u8], line: &EntryLine, writer: &PublicKey) -> Result<(), Mismatch> {
    let json = Json::parse(body, &Limits::ENTRY)?;
    if canonical::bytes(&json) != body {
        return Err(Mismatch::Canonical);
    }
    let certificate: CertificateForm = json.read()?;
    if certificate.epoch != line.entry.epoch {
        return Err(Mismatch::Epoch);
    }
    if PublicKey::from_bytes(&certificate.key.0).as_ref() != Some(writer) {
        return Err(Mismatch::Key);
    }
    if line.entry.ts > certificate.not_after {
        return Err(Mismatch::Expired(certificate.not_after));
    }
    Ok(())
}
