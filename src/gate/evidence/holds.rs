//! Reads a ledger for held calls that people decide alike, with the inputs that they were decided by.

use crate::domain::commitment::opens;
use crate::domain::json::{Json, Limits};
use crate::domain::time::Timestamp;
use crate::evidence::gather;
use crate::evidence::query::Filter;
use crate::ledger::store::{ChainRow, LedgerReader, PayloadRef, StoreError};
use crate::ledger::vault::{self, Vault};
use crate::policy::learn::{self, DecidedHold, HoldFold, LOOK_BACK, PatternReport};
use crate::record::Entry;

/// Entries read at once.
const PAGE: u32 = 1000;

/// What a ledger says about patterns.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HoldReport {
    /// The patterns.
    pub found: PatternReport,
    /// Entries of the last 90 days that were not read: there are too many.
    pub unread: u64,
}

/// The patterns in the chains of this tenant (`None`: in every chain), at this time. At most so many entries are read, the
/// newest of each chain.
///
/// # Errors
/// The ledger cannot be read.
pub async fn patterns(
    (reader, vault): (&dyn LedgerReader, Option<&Vault>),
    tenant: Option<&str>,
    (now, most): (Timestamp, u64),
) -> Result<HoldReport, super::Error> {
    let mut chains = reader.chains().await?;
    chains.retain(|row| tenant.is_none_or(|tenant| row.tenant == tenant));
    let back = i64::try_from(LOOK_BACK.as_millis()).unwrap_or(i64::MAX);
    let since = Timestamp::from_millis(now.millis().saturating_sub(back));
    let (mut fold, mut left, mut unread) = (HoldFold::default(), most, 0_u64);
    for row in &chains {
        let filter = Filter { since: Some(since), ..Filter::default() };
        let span = gather::span_of(reader, row, &filter).await?;
        let from = span.from.max(span.to.saturating_sub(left));
        unread = unread.saturating_add(from.saturating_sub(span.from));
        left = left.saturating_sub(span.to.saturating_sub(from));
        read(reader, row, (from, span.to), &mut fold).await?;
    }
    let mut candidates = fold.candidates(now);
    for hold in &mut candidates {
        if let Some(input) = input(reader, vault, hold).await? {
            hold.read(input);
        }
    }
    Ok(HoldReport { found: learn::patterns(candidates, now), unread })
}

async fn read(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    (from, to): (u64, u64),
    fold: &mut HoldFold,
) -> Result<(), StoreError> {
    let mut at = from;
    while at < to {
        let rows = reader.entries(&row.chain, at, PAGE).await?;
        let Some(last) = rows.last() else { break };
        at = last.seq.saturating_add(1);
        let ours = rows.iter().filter(|entry| entry.seq < to && entry.run.is_some());
        ours.filter_map(|row| Entry::parse(&row.body).ok()).for_each(|entry| fold.take(&entry));
        // WHY: entries are parsed on the thread that serves stop orders.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// The input that a call was held by, if it is stored and opens its commitment.
async fn input(
    reader: &dyn LedgerReader,
    vault: Option<&Vault>,
    hold: &DecidedHold,
) -> Result<Option<Json>, StoreError> {
    let Some(commitment) = &hold.commit else { return Ok(None) };
    let at = PayloadRef::of(hold.seq, &commitment.c);
    let row = reader.payload(&hold.chain, &at).await?;
    let row = row.and_then(|row| vault::open(vault, &hold.chain, row).ok());
    let row = row.filter(|row| opens(&commitment.c, &row.salt, &row.body).is_some());
    Ok(row.and_then(|row| Json::parse(&row.body, &Limits::FILE).ok()))
}
