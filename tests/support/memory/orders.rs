//! The list in memory, for simulation and tests.

use std::collections::BTreeMap;

use async_trait::async_trait;
use parking_lot::Mutex;

use wicketgate_gate::control::{Order, OrderOrigin, OrderReport, Orders, Presence, Row};
use wicketgate_gate::ledger::store::StoreError;
use wicketgate_record::domain::time::Timestamp;

/// A list that is lost when the process ends.
#[derive(Debug, Default)]
pub struct MemoryControl {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    rows: Vec<Row>,
    reports: BTreeMap<(u64, String), OrderReport>,
    shown: BTreeMap<String, Presence>,
}

#[async_trait]
impl Orders for MemoryControl {
    async fn put(
        &self,
        at: Timestamp,
        given: &OrderOrigin,
        order: &Order,
    ) -> Result<u64, StoreError> {
        let mut inner = self.inner.lock();
        let seq = u64::try_from(inner.rows.len()).unwrap_or(u64::MAX).saturating_add(1);
        inner.rows.push(Row::of(seq, at, given, order)?);
        Ok(seq)
    }

    async fn since(&self, seq: u64, most: usize) -> Result<Vec<Row>, StoreError> {
        let inner = self.inner.lock();
        Ok(inner.rows.iter().filter(|row| row.seq > seq).take(most).cloned().collect())
    }

    async fn report(&self, report: &OrderReport) -> Result<(), StoreError> {
        let key = (report.seq, report.origin.clone());
        self.inner.lock().reports.insert(key, report.clone());
        Ok(())
    }

    async fn reports(&self, seq: u64) -> Result<Vec<OrderReport>, StoreError> {
        let inner = self.inner.lock();
        Ok(inner.reports.values().filter(|report| report.seq == seq).cloned().collect())
    }

    async fn show(&self, presence: &Presence) -> Result<(), StoreError> {
        self.inner.lock().shown.insert(presence.origin.clone(), presence.clone());
        Ok(())
    }

    async fn shown(&self) -> Result<Vec<Presence>, StoreError> {
        Ok(self.inner.lock().shown.values().cloned().collect())
    }
}
