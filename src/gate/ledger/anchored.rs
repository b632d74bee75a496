//! Rows that a store keeps for the fleet log: anchors, its latest entries about a log, and the
//! chain that continues a lost one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::domain::canonical;
use crate::domain::id::Seq;
use crate::domain::json::{Json, Limits};
use crate::ledger::store::{Batch, LeaseKey, StoreError};

/// The last part of the name of a tenant's first fleet log.
const FLEET: &str = "fleet";

/// What the tenant's fleet logs record about one log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FleetView {
    /// Name and size of the current fleet log; `None` if the tenant has no fleet log.
    pub fleet: Option<(String, Seq)>,
    /// The storage does not hold the chain in question.
    pub forgotten: bool,
    /// Exact bytes of the newest `chain.enrolled`, `chain.checkpoint` and `chain.retired` entries
    /// about the log, as far as they exist.
    pub entries: Vec<Vec<u8>>,
}

/// Cosignatures and time stamps over one head of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnchorRow {
    /// Entries under that head.
    pub size: Seq,
    /// The checkpoint note with every cosignature received.
    pub note: String,
    /// Time stamp tokens (RFC 3161, DER) over the note's body.
    pub tokens: Vec<Vec<u8>>,
}

impl AnchorRow {
    /// The stored form of the tokens: a JSON array of base64.
    pub fn tokens_text(&self) -> String {
        let tokens: Vec<Json> =
            self.tokens.iter().map(|token| Json::from(STANDARD.encode(token))).collect();
        canonical::text(&Json::from(tokens))
    }

    /// A row as it is stored.
    ///
    /// # Errors
    /// [`StoreError::Broken`]: the tokens cannot be read.
    pub fn read(size: Seq, note: String, tokens: &str) -> Result<Self, StoreError> {
        let broken = || StoreError::Broken(format!("the tokens of anchor {size} cannot be read"));
        let read = Json::parse(tokens.as_bytes(), &Limits::FILE).map_err(|_| broken())?;
        let tokens = read.as_array().ok_or_else(broken)?.iter();
        let tokens = tokens.map(|token| STANDARD.decode(token.as_str()?).ok());
        let tokens = tokens.collect::<Option<_>>().ok_or_else(broken)?;
        Ok(Self { size, note, tokens })
    }
}

/// The chain that continues a log whose entries were lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restart {
    /// Its lease. Chain and secret are those of the old lease if the old chain is empty.
    pub key: LeaseKey,
    /// The last part of its name.
    pub n: u64,
    /// Its name.
    pub origin: String,
    /// Its first entries and head; no payloads.
    pub batch: Batch,
}

/// The name of the next log of the same slot, and its number: `…/<slot>/<n + 1>`, `…/fleet/1`.
#[must_use]
pub fn next_origin(origin: &str) -> Option<(String, u64)> {
    let (before, last) = origin.rsplit_once('/')?;
    if last == FLEET && before.split('/').count() == 2 {
        return Some((format!("{origin}/1"), 1));
    }
    let next = last.parse::<u64>().ok()?.checked_add(1)?;
    Some((format!("{before}/{next}"), next))
}
