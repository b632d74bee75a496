//! A witness, as the ledger uses it.

use async_trait::async_trait;

use super::client::{Consistency, Head, ProofError, WitnessClient};
use super::tsa::Tsa;
use crate::clock::{SystemClock, SystemEntropy};
use crate::crypto::note::{Checkpoint, VerifierKey};
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::time::Timestamp;
use crate::ledger::PortError;
use crate::ledger::fleet::port::{self, CosignRefusal, Cosigned, ShownHead};
use crate::ledger::proofs::Prover;

#[async_trait]
impl Consistency for Prover<'_> {
    async fn proof(&self, old: Seq) -> Result<Vec<Digest>, ProofError> {
        self.consistency(old).await.map_err(|error| ProofError::Ledger(error.into()))
    }
}

#[async_trait]
impl port::Witness for WitnessClient {
    fn key(&self) -> &VerifierKey {
        Self::key(self)
    }

    async fn cosign(&self, shown: &ShownHead<'_>) -> Result<Cosigned, CosignRefusal> {
        let ShownHead { note, log, old, proofs } = *shown;
        let head = Head { note, log, old, proofs };
        let cosigned = self.submit(&head, &SystemClock::new()).await;
        let cosigned =
            cosigned.map_err(|e| CosignRefusal { fatal: e.is_fatal(), why: e.to_string() })?;
        let millis = i64::try_from(cosigned.time).unwrap_or(i64::MAX).saturating_mul(1000);
        Ok(Cosigned { time: Timestamp::from_millis(millis), line: cosigned.line })
    }

    async fn newest(&self, log: &VerifierKey) -> Result<Option<Checkpoint>, PortError> {
        let newest = Self::newest(self, log).await?;
        Ok(newest.map(|(checkpoint, _)| checkpoint))
    }
}

#[async_trait]
impl port::TimeStamp for Tsa {
    async fn stamp(&self, head: &Checkpoint) -> Result<port::VerifiedStamp, PortError> {
        let stamped = Self::stamp(self, head, &SystemClock::new(), &SystemEntropy).await?;
        let (time, name) = (stamped.stamp.millis, stamped.stamp.authority);
        Ok(port::VerifiedStamp {
            time: Timestamp::from_millis(time),
            token: stamped.response,
            name,
        })
    }
}
