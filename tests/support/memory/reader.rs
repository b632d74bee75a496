//! Reads the ledger in memory.

use async_trait::async_trait;

use wicketgate_crypto::range::Node;
use wicketgate_gate::ledger::store::{
    AnchorRow, ChainRow, EntryRange, EntryRow, LedgerReader, PayloadRef, PayloadRow, StoreError,
    Subtree, Volume,
};
use wicketgate_record::domain::digest::Digest;
use wicketgate_record::domain::id::{ChainId, RunId, Seq};

use super::{MemoryChain, MemoryStore};

#[async_trait]
impl LedgerReader for MemoryStore {
    async fn chains(&self) -> Result<Vec<ChainRow>, StoreError> {
        let state = self.state.lock();
        let row = |(id, chain): (&ChainId, &MemoryChain)| ChainRow {
            chain: *id,
            tenant: chain.tenant.clone(),
            slot: chain.slot_name(),
            origin: chain.origin(),
            epoch: chain.epoch,
            head: chain.head.clone(),
        };
        let mut rows: Vec<ChainRow> = state.chains.iter().map(row).collect();
        rows.sort_by(|a, b| a.origin.cmp(&b.origin));
        Ok(rows)
    }

    async fn select(
        &self,
        chain: &ChainId,
        range: EntryRange<'_>,
    ) -> Result<Vec<EntryRow>, StoreError> {
        Ok(self.read(chain, |c| c.range(range)))
    }

    async fn find_run(&self, run: &RunId) -> Result<Option<ChainId>, StoreError> {
        let state = self.state.lock();
        let has = |chain: &MemoryChain| chain.entries.iter().any(|e| e.run.as_ref() == Some(run));
        let mut found: Vec<(String, ChainId)> =
            state.chains.iter().filter(|(_, c)| has(c)).map(|(id, c)| (c.origin(), *id)).collect();
        found.sort();
        Ok(found.first().map(|(_, id)| *id))
    }

    async fn open_runs(&self, chain: &ChainId) -> Result<Vec<RunId>, StoreError> {
        let state = self.state.lock();
        let found = state.chains.get(chain);
        Ok(found.map(|chain| chain.open_runs.iter().copied().collect()).unwrap_or_default())
    }

    async fn leaves(
        &self,
        chain: &ChainId,
        from: Seq,
        to: Seq,
    ) -> Result<Vec<(Seq, Digest)>, StoreError> {
        let skip = usize::try_from(from).unwrap_or(usize::MAX);
        let wanted = |e: &&EntryRow| e.seq < to;
        Ok(self.read(chain, |c| {
            c.entries.iter().skip(skip).take_while(wanted).map(|e| (e.seq, e.leaf)).collect()
        }))
    }

    async fn subtrees(
        &self,
        chain: &ChainId,
        height: u32,
        from: u64,
        to: u64,
    ) -> Result<Vec<Subtree>, StoreError> {
        let range = Node { height, index: from }..Node { height, index: to };
        if from >= to {
            return Ok(Vec::new());
        }
        let read = |(node, hash): (&Node, &Digest)| Subtree { node: *node, hash: *hash };
        Ok(self.read(chain, |c| c.subtrees.range(range).map(read).collect()))
    }

    async fn volumes(&self) -> Result<Vec<Volume>, StoreError> {
        let state = self.state.lock();
        let sum = |what, each: &dyn Fn(&MemoryChain) -> (usize, usize)| {
            let add = |(rows, bytes): (usize, usize), (r, b): (usize, usize)| {
                (rows.saturating_add(r), bytes.saturating_add(b))
            };
            let (rows, bytes) = state.chains.values().map(each).fold((0, 0), add);
            let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
            Volume { what, rows: number(rows), bytes: number(bytes), disk: None }
        };
        let row = |fixed: usize, body: usize| body.saturating_add(fixed);
        Ok(vec![
            sum("entries", &|c| {
                (c.entries.len(), c.entries.iter().map(|e| row(80, e.body.len())).sum())
            }),
            sum("payloads", &|c| {
                (c.payloads.len(), c.payloads.values().map(|p| row(80, p.body.len())).sum())
            }),
            sum("checkpoints", &|c| {
                (c.checkpoints.len(), c.checkpoints.values().map(|n| row(32, n.len())).sum())
            }),
            sum("subtrees", &|c| (c.subtrees.len(), c.subtrees.len().saturating_mul(60))),
        ])
    }

    async fn payloads(
        &self,
        chain: &ChainId,
        list: &[PayloadRef],
    ) -> Result<Vec<PayloadRow>, StoreError> {
        let stored = |c: &MemoryChain| {
            list.iter().filter_map(|at| c.payloads.get(&at.commitment).cloned()).collect()
        };
        Ok(self.read(chain, stored))
    }

    async fn checkpoints(
        &self,
        chain: &ChainId,
        at_least: Seq,
        limit: u32,
    ) -> Result<Vec<(Seq, String)>, StoreError> {
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let row = |(size, note): (&Seq, &String)| (*size, note.clone());
        Ok(self.read(chain, |c| c.checkpoints.range(at_least..).take(most).map(row).collect()))
    }

    async fn anchors(
        &self,
        origin: &str,
        from: Seq,
        limit: u32,
    ) -> Result<Vec<AnchorRow>, StoreError> {
        let state = self.state.lock();
        let chain = state.chains.values().find(|c| c.origin() == origin);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let found = chain.into_iter().flat_map(|c| c.anchors.range(from..)).take(limit);
        Ok(found.map(|(_, anchor)| anchor.clone()).collect())
    }

    async fn newest_anchor(&self, origin: &str) -> Result<Option<AnchorRow>, StoreError> {
        let state = self.state.lock();
        let chain = state.chains.values().find(|c| c.origin() == origin);
        Ok(chain.and_then(|c| c.anchors.values().next_back().cloned()))
    }

    async fn newest_in_fleet_log(
        &self,
        tenant: &str,
        log: &str,
        kind: &str,
    ) -> Result<Option<EntryRow>, StoreError> {
        Ok(self.state.lock().said(tenant, log, kind))
    }
}
