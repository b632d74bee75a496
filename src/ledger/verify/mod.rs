//! The auditor's reading of the books: every rule of the format, over the bytes as they are stored.
//!
//! `read`, `epochs`, `runs` and `chain` are sync functions over bytes, shared by the evidence
//! verifier; only [`chain_of`] here knows a store, and only through the reading port.

pub mod chain;
pub mod epochs;
pub mod read;
pub mod runs;

use std::collections::BTreeMap;

use crate::crypto::keys::PublicKey;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::ledger::store::{ChainRow, LedgerReader, StoreError};

pub use chain::Chain;
pub use read::{Damage, Line};

/// Rows fetched at a time.
const PAGE: u32 = 1000;

/// What reading a whole chain showed.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The chain as the store lists it.
    pub chain: ChainRow,
    /// Entries read and found whole.
    pub entries: Seq,
    /// Root over them.
    pub root: Digest,
    /// Runs that are sealed.
    pub sealed: usize,
    /// Runs that are open.
    pub open: usize,
    /// Calls without a last word, in open runs.
    pub open_calls: usize,
    /// Kinds this build does not know: their meaning is not checked.
    pub unknown: BTreeMap<String, u64>,
    /// Whether the genesis names a trusted enrolment key; `None` if no key was given to trust.
    pub enrolled: Option<bool>,
    /// The first damage and the seq it was found at.
    pub damage: Option<(Seq, Damage)>,
}

impl Report {
    /// Whether nothing is wrong with the chain.
    #[must_use]
    pub fn whole(&self) -> bool {
        self.damage.is_none() && self.enrolled != Some(false)
    }
}

/// Reads one chain from its genesis up to the head it has now, and checks everything.
///
/// `progress` is told how many entries have been read, once a page.
///
/// # Errors
/// The store cannot be read. Damage is not an error: it is in the report.
pub async fn chain_of(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    trusted: &[PublicKey],
    progress: &(dyn Fn(Seq) + Send + Sync),
) -> Result<Report, StoreError> {
    let mut chain = Chain::new(row.chain, trusted);
    let mut damage = None;
    while damage.is_none() && chain.size() < row.head.size {
        let rows = reader.entries(&row.chain, chain.size(), PAGE).await?;
        if rows.is_empty() {
            break;
        }
        // The chain may grow while it is read; what is judged is the head that was listed.
        for entry in rows.iter().filter(|entry| entry.seq < row.head.size) {
            if let Err(found) = chain.accept(entry) {
                damage = Some((chain.size(), found));
                break;
            }
        }
        progress(chain.size());
        // Rows beyond the head only: nothing more will come.
        if damage.is_none() && rows.iter().all(|entry| entry.seq >= row.head.size) {
            break;
        }
    }
    if damage.is_none() {
        damage = chain.finish(&row.head).err().map(|found| (chain.size(), found));
    }
    if damage.is_none() && chain.size() > 0 && chain.epochs().origin() != Some(&row.origin) {
        damage = Some((0, Damage::new("S1", "the genesis names another origin than the store")));
    }
    let (sealed, open) = chain.runs();
    let enrolled = (!trusted.is_empty())
        .then(|| chain.epochs().enrolment().is_some_and(|key| trusted.contains(key)));
    Ok(Report {
        chain: row.clone(),
        entries: chain.size(),
        root: chain.root(),
        sealed,
        open,
        open_calls: chain.open_calls(),
        unknown: chain.unknown().clone(),
        enrolled,
        damage,
    })
}
