//! A witness, as the ledger asks for it.

use async_trait::async_trait;

use super::client::{Consistency, Head, Witness};
use super::tsa::Tsa;
use crate::clock::{SystemClock, SystemEntropy};
use crate::crypto::note::{Checkpoint, VerifierKey};
use crate::domain::id::Seq;
use crate::domain::time::Timestamp;
use crate::ledger::fleet::port::{self, Cosigned, Refused, Shown};

/// The leaves of a head, as a source of proofs.
struct Leaves<'a>(&'a [crate::domain::digest::Digest]);

#[async_trait]
impl Consistency for Leaves<'_> {
    async fn proof(&self, old: Seq) -> Result<Vec<crate::domain::digest::Digest>, String> {
        self.0.proof(old).await
    }
}

#[async_trait]
impl port::Witness for Witness {
    fn key(&self) -> &VerifierKey {
        Self::key(self)
    }

    async fn cosign(&self, shown: &Shown<'_>) -> Result<Cosigned, Refused> {
        let proofs = Leaves(shown.leaves);
        let head = Head { note: shown.note, log: shown.log, old: shown.old, proofs: &proofs };
        let cosigned = self.submit(&head, &SystemClock::new()).await;
        let cosigned = cosigned.map_err(|e| Refused { fatal: e.is_fatal(), why: e.to_string() })?;
        let millis = i64::try_from(cosigned.time).unwrap_or(i64::MAX).saturating_mul(1000);
        Ok(Cosigned { time: Timestamp::from_millis(millis), line: cosigned.line })
    }

    async fn newest(&self, log: &VerifierKey) -> Result<Option<Checkpoint>, String> {
        let newest = Self::newest(self, log).await.map_err(|e| e.to_string())?;
        Ok(newest.map(|(checkpoint, _)| checkpoint))
    }
}

#[async_trait]
impl port::TimeStamp for Tsa {
    async fn stamp(&self, head: &Checkpoint) -> Result<port::Stamp, String> {
        let stamped = Self::stamp(self, head, &SystemClock::new(), &SystemEntropy).await;
        let stamped = stamped.map_err(|e| e.to_string())?;
        let (time, name) = (stamped.stamp.millis, stamped.stamp.authority);
        Ok(port::Stamp { time: Timestamp::from_millis(time), token: stamped.response, name })
    }
}
