//! What fleet logs record about enrolment keys: which key succeeded which, and which are revoked.
//!
//! A new key counts if the old one announced it: the entry stands in an epoch that the old key
//! itself certified. A revocation counts from any key that may write in the log.

use super::epochs::RevokedEnrolment;
use super::read::EntryLine;
use crate::crypto::keys::PublicKey;
use crate::domain::id::{Epoch, Seq};
use crate::ledger::store::{ChainRow, LedgerReader, StoreError};
use crate::record::chain::WriterStarted;
use crate::record::fleet::{KeyRevoked, KeyRotated, KeyUse};
use crate::record::{Base64, Int, Kind};

/// Enrolment keys, from the trust roots and the fleet logs together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Announced {
    /// The trusted keys, and the keys they announced.
    pub trusted: Vec<PublicKey>,
    /// Those that are revoked.
    pub revoked: Vec<RevokedEnrolment>,
}

const KINDS: [Kind; 3] = [Kind::WriterStarted, Kind::KeyRotated, Kind::KeyRevoked];

impl Announced {
    /// Reads what one fleet log records. The caller checks that the log itself is valid.
    ///
    /// # Errors
    /// The store cannot be read. Unreadable entries are ignored.
    pub async fn take(
        &mut self,
        reader: &dyn LedgerReader,
        row: &ChainRow,
    ) -> Result<(), StoreError> {
        let kinds: Vec<&str> = KINDS.iter().map(|kind| kind.as_str()).collect();
        let rows = reader.entries_of(&row.chain, &kinds).await?;
        let mut certifier: Option<(Epoch, String)> = None;
        for line in rows.iter().filter_map(|row| EntryLine::read(&row.body).ok()) {
            if let Some(started) = line.get::<WriterStarted>() {
                certifier = Some((line.entry.epoch, started.certificate.keyid.to_string()));
                continue;
            }
            let by = certifier.as_ref().filter(|(epoch, _)| *epoch == line.entry.epoch);
            self.line(&line, by.map(|(_, id)| id.as_str()));
        }
        Ok(())
    }

    fn line(&mut self, line: &EntryLine, certifier: Option<&str>) {
        let key = |bytes: &Base64<32>| PublicKey::from_bytes(&bytes.0);
        if let Some(rotated) =
            line.get::<KeyRotated>().filter(|rotated| rotated.r#use == KeyUse::Enrolment)
        {
            if let (Some(old), Some(new)) = (key(&rotated.old), key(&rotated.new))
                && self.trusted.contains(&old)
                && certifier == Some(old.id().as_str())
                && !self.trusted.contains(&new)
            {
                self.trusted.push(new);
            }
            return;
        }
        let revoked = line.get::<KeyRevoked>().filter(|notice| notice.r#use == KeyUse::Enrolment);
        let Some((notice, revoked)) = revoked.and_then(|notice| Some((notice, key(&notice.key)?)))
        else {
            return;
        };
        let size = notice.good_size.map_or(0, Int::get);
        let good: Option<(String, Seq)> = notice.log.as_ref().map(|log| (log.to_string(), size));
        self.revoked.push(RevokedEnrolment { key: revoked.id(), good });
    }
}
