//! Reads a ledger into the trust in its tools: a projection that goes on where it ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::commitment::opens;
use crate::domain::id::{ChainId, Seq};
use crate::domain::json::{Json, Limits};
use crate::ledger::store::{ChainRow, LedgerReader, PayloadRef, StoreError};
use crate::ledger::vault::{self, Vault};
use crate::policy::input::{Document, ToolTrust};
use crate::record::trust::{self, TrustFold};
use crate::record::{Entry, Role};

/// Entries read at once.
const PAGE: u32 = 1000;

/// The ended calls of a ledger, as far as it was read.
#[derive(Clone, Debug, Default)]
pub struct ScoreReader {
    fold: TrustFold,
    next: BTreeMap<ChainId, Seq>,
    behind: u64,
}

impl ScoreReader {
    /// What was read.
    #[must_use]
    pub const fn fold(&self) -> &TrustFold {
        &self.fold
    }

    /// Entries that were not read yet.
    #[must_use]
    pub const fn behind(&self) -> u64 {
        self.behind
    }

    /// Reads at most so many new entries of the chains of this tenant (`None`: of every chain).
    ///
    /// # Errors
    /// The ledger cannot be read; what was read before it stays.
    pub async fn read_on(
        &mut self,
        reader: &dyn LedgerReader,
        tenant: Option<&str>,
        most: u64,
    ) -> Result<(), StoreError> {
        let mut chains = reader.chains().await?;
        chains.retain(|row| tenant.is_none_or(|tenant| row.tenant == tenant));
        // A ledger that was restored from a backup is another history.
        let shorter = |row: &ChainRow| self.place(row) > row.head.size;
        if chains.iter().any(shorter) {
            *self = Self::default();
        }
        let (mut left, mut behind) = (most, 0_u64);
        for row in &chains {
            self.read_chain(reader, row, &mut left).await?;
            behind = behind.saturating_add(row.head.size.saturating_sub(self.place(row)));
        }
        self.behind = behind;
        Ok(())
    }

    fn place(&self, row: &ChainRow) -> Seq {
        self.next.get(&row.chain).copied().unwrap_or_default()
    }

    async fn read_chain(
        &mut self,
        reader: &dyn LedgerReader,
        row: &ChainRow,
        left: &mut u64,
    ) -> Result<(), StoreError> {
        while self.place(row) < row.head.size && *left > 0 {
            let rows = reader.entries(&row.chain, self.place(row), PAGE).await?;
            let Some(last) = rows.last() else { break };
            self.next.insert(row.chain, last.seq.saturating_add(1));
            *left = left.saturating_sub(u64::try_from(rows.len()).unwrap_or(u64::MAX));
            let counted = rows.iter().filter(|row| trust::counts(&row.kind));
            let entries = counted.filter_map(|row| Entry::parse(&row.body).ok());
            entries.for_each(|entry| drop(self.fold.take(&entry)));
            // WHY: entries are parsed on the thread that serves stop orders.
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

/// A decision whose policy saw another figure than the ledger gives.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SnapshotFault {
    /// The log.
    pub origin: String,
    /// The decision.
    pub seq: Seq,
    /// What the policy saw.
    pub recorded: ToolTrust,
    /// What the ledger gives.
    pub computed: ToolTrust,
}

/// The figures that policies saw, computed once more.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SnapshotReport {
    /// Figures that the ledger gives as well.
    pub same: u64,
    /// Decisions whose input is not stored or cannot be opened.
    pub unread: u64,
    /// Figures that the ledger does not give.
    pub other: Vec<SnapshotFault>,
}

/// Computes every figure that a policy saw from the entries that were before it.
///
/// # Errors
/// The ledger cannot be read.
pub async fn check(
    reader: &dyn LedgerReader,
    vault: Option<&Vault>,
) -> Result<SnapshotReport, StoreError> {
    let mut report = SnapshotReport::default();
    for row in reader.chains().await? {
        let (mut fold, mut at) = (TrustFold::default(), 0);
        while at < row.head.size {
            let rows = reader.entries(&row.chain, at, PAGE).await?;
            let Some(last) = rows.last() else { break };
            at = last.seq.saturating_add(1);
            for entry in rows.iter().filter_map(|row| Entry::parse(&row.body).ok()) {
                snapshot((reader, vault), &row, (&fold, &entry), &mut report).await?;
                fold.take(&entry);
            }
        }
    }
    Ok(report)
}

async fn snapshot(
    (reader, vault): (&dyn LedgerReader, Option<&Vault>),
    row: &ChainRow,
    (fold, entry): (&TrustFold, &Entry),
    report: &mut SnapshotReport,
) -> Result<(), StoreError> {
    let draft = &entry.draft;
    let committed = draft.committed(Role::PolicyInput).filter(|_| draft.kind().decides());
    let Some(commitment) = committed else { return Ok(()) };
    let at = PayloadRef::of(entry.seq, &commitment.c);
    let stored = reader.payload(&row.chain, &at).await?;
    let stored = stored.and_then(|stored| vault::open(vault, &row.chain, stored).ok());
    let stored = stored.filter(|one| opens(&commitment.c, &one.salt, &one.body).is_some());
    let read = stored.and_then(|one| Json::parse(&one.body, &Limits::FILE).ok());
    let document = read.and_then(|json| json.read::<Document>().ok());
    let definition = draft.body.decision().and_then(|decision| decision.definition);
    let Some((document, definition)) = document.zip(definition) else {
        report.unread = report.unread.saturating_add(1);
        return Ok(());
    };
    let (Some(recorded), Some(now)) = (document.tool.trust, document.time.rfc3339) else {
        return Ok(());
    };
    let before = (&row.chain, recorded.through.saturating_add(1).min(entry.seq));
    let tool = (document.tool.name.as_str(), &definition);
    let count = fold.standing(tool, (recorded.window(), now), before);
    let computed = ToolTrust::of(count, recorded.window(), recorded.through);
    if computed == recorded {
        report.same = report.same.saturating_add(1);
    } else {
        let origin = row.origin.clone();
        report.other.push(SnapshotFault { origin, seq: entry.seq, recorded, computed });
    }
    Ok(())
}
