//! What fleet logs say about enrolment keys: which took over from which, and which are revoked.
//!
//! A new key counts if the old one announced it: the entry stands in an epoch that the old key itself
//! certified. A revocation counts from whoever may write in the log.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::epochs::Revoked;
use super::read::Line;
use crate::crypto::keys::PublicKey;
use crate::domain::id::{Epoch, Seq};
use crate::domain::json::Json;
use crate::ledger::entry::Kind;
use crate::ledger::store::{ChainRow, LedgerReader, StoreError};

/// Enrolment keys, as trust roots and fleet logs together tell them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Announced {
    /// The trusted ones, and those they announced.
    pub trusted: Vec<PublicKey>,
    /// Those that are revoked.
    pub revoked: Vec<Revoked>,
}

const KINDS: [Kind; 3] = [Kind::WriterStarted, Kind::KeyRotated, Kind::KeyRevoked];

impl Announced {
    /// Takes what one fleet log says. Whether the log itself is whole is the caller's to check.
    ///
    /// # Errors
    /// The store cannot be read. An entry that cannot be read says nothing.
    pub async fn take(
        &mut self,
        reader: &dyn LedgerReader,
        row: &ChainRow,
    ) -> Result<(), StoreError> {
        let kinds: Vec<&str> = KINDS.iter().map(|kind| kind.as_str()).collect();
        let rows = reader.entries_of(&row.chain, &kinds).await?;
        let mut certifier: Option<(Epoch, String)> = None;
        for line in rows.iter().filter_map(|row| Line::read(&row.body).ok()) {
            if line.is(Kind::WriterStarted) {
                let id = line.entry.draft.data.get("certificate").and_then(|c| c.get("keyid"));
                let id = id.and_then(Json::as_str).unwrap_or_default().to_owned();
                certifier = Some((line.entry.epoch, id));
                continue;
            }
            if line.text("use") != Some("enrolment") {
                continue;
            }
            let by = certifier.as_ref().filter(|(epoch, _)| *epoch == line.entry.epoch);
            self.line(&line, by.map(|(_, id)| id.as_str()));
        }
        Ok(())
    }

    fn line(&mut self, line: &Line, certifier: Option<&str>) {
        let key = |name| line.text(name).and_then(key);
        if line.is(Kind::KeyRotated) {
            if let (Some(old), Some(new)) = (key("old"), key("new"))
                && self.trusted.contains(&old)
                && certifier == Some(old.id().as_str())
                && !self.trusted.contains(&new)
            {
                self.trusted.push(new);
            }
            return;
        }
        let Some(revoked) = key("key") else { return };
        let number = |name| line.entry.draft.data.get(name).and_then(Json::as_u64);
        let good: Option<(String, Seq)> =
            line.text("log").map(|log| (log.to_owned(), number("good_size").unwrap_or(0)));
        self.revoked.push(Revoked { key: revoked.id(), good });
    }
}

fn key(text: &str) -> Option<PublicKey> {
    let bytes = <[u8; 32]>::try_from(STANDARD.decode(text).ok()?).ok()?;
    PublicKey::from_bytes(&bytes)
}
