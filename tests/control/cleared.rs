//! An order that clears the labels of a run, and an answer that comes at the same time: the ledger says which was
//! first, and what the run has read is the same in memory.

use std::sync::{Arc, mpsc};

use parking_lot::Mutex;
use tokio::sync::watch;
use wicketgate::control::{Order, Orders};
use wicketgate::domain::taint::Label;
use wicketgate::domain::time::Timestamp;
use wicketgate::enforce::{self, Run};
use wicketgate::ledger::store::LedgerReader;
use wicketgate::record::{Entry, Kind};
use wicketgate_support::memory::orders::MemoryControl;
use wicketgate_support::memory::{InjectedFault, MemoryStore, StoreStep};

use crate::control::given;
use crate::road::{Bench, READS, Serving};
use crate::{until, within};

/// A gate whose ledger can be stopped at an entry.
struct Gate {
    store: MemoryStore,
    orders: Arc<MemoryControl>,
    bench: Arc<Bench>,
    serving: Serving,
    run: Arc<Run>,
}

/// An append that waits.
struct HeldBack {
    arrived: watch::Receiver<bool>,
    go: mpsc::Sender<()>,
}

impl HeldBack {
    async fn arrived(&mut self) {
        within("the append", self.arrived.wait_for(|arrived| *arrived)).await.unwrap();
    }
}

impl Gate {
    async fn new() -> Gate {
        let (store, orders) = (MemoryStore::new(), Arc::new(MemoryControl::default()));
        let (bench, list) = (Bench::new(), Arc::clone(&orders));
        let settings = enforce::Settings::default();
        let serving =
            Serving::start(Arc::new(store.clone()), &bench, settings, |_| list as _).await;
        let run = serving.open().await.unwrap();
        Gate { store, orders, bench, serving, run }
    }

    /// Stops the ledger before the first entry of this kind.
    fn hold_back(&self, kind: Kind) -> HeldBack {
        let (seen, arrived) = watch::channel(false);
        let (go, wait) = mpsc::channel();
        let wait = Mutex::new(Some(wait));
        self.store.set_faults(move |step: StoreStep<'_>| {
            if let StoreStep::Append(batch) = step
                && batch.entries.iter().any(|entry| entry.kind == kind.as_str())
                && let Some(wait) = wait.lock().take()
            {
                seen.send_replace(true);
                let _gone: Result<(), _> = wait.recv();
            }
            InjectedFault::Proceed
        });
        HeldBack { arrived, go }
    }

    /// Gives the order; its number.
    async fn clear(&self) -> u64 {
        let order = Order::ClearTaint { run: *self.run.id() };
        self.orders.put(Timestamp::from_millis(1), &given(), &order).await.unwrap()
    }

    async fn cleared(&self, order: u64) {
        let orders = &self.orders;
        let reported = || async { !orders.reports(order).await.unwrap().is_empty() };
        until("the order's report", reported).await;
    }

    fn reads(&self) -> tokio::task::JoinHandle<Result<(), (String, String)>> {
        let (road, run) = (Arc::clone(&self.serving.road), Arc::clone(&self.run));
        tokio::spawn(async move { crate::road::call(&road, &run, READS).await })
    }

    /// The labels of the next call, and whether the answer is recorded after the order.
    async fn labels(&self) -> (Vec<Label>, bool) {
        self.serving.call(&self.run, "t.one").await.unwrap();
        let chain = self.store.chains().await.unwrap().remove(0).chain;
        let rows = self.store.entries(&chain, 0, 1000).await.unwrap();
        let entries: Vec<Entry> = rows.iter().map(|row| Entry::parse(&row.body).unwrap()).collect();
        let decision = entries.iter().rev().find_map(|entry| entry.draft.body.decision()).unwrap();
        let labels = decision.taint.map(|taint| taint.labels.iter().map(|one| one.label).collect());
        let at = |kind| entries.iter().find(|entry| entry.draft.kind() == kind).unwrap().seq;
        (labels.unwrap_or_default(), at(Kind::CallCompleted) > at(Kind::TaintCleared))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_that_comes_while_the_order_is_recorded_brings_its_labels() {
    let gate = Gate::new().await;
    gate.bench.open.send_replace(false);
    let reads = gate.reads();
    gate.bench.reaches(1).await;
    let mut order = gate.hold_back(Kind::TaintCleared);
    let number = gate.clear().await;
    order.arrived().await;
    gate.bench.open.send_replace(true);
    // The tool is done, and its answer is on the way to the ledger.
    let metrics = &gate.serving.metrics;
    let done = || metrics.text().unwrap().contains("outcome=\"completed\"");
    until("the end of the tool", || async { done() }).await;
    order.go.send(()).unwrap();
    reads.await.unwrap().unwrap();
    gate.cleared(number).await;
    assert_eq!(gate.labels().await, (vec![Label::Private, Label::Untrusted], true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_that_is_recorded_before_the_order_is_cleared() {
    let gate = Gate::new().await;
    let mut answer = gate.hold_back(Kind::CallCompleted);
    let reads = gate.reads();
    answer.arrived().await;
    let number = gate.clear().await;
    answer.go.send(()).unwrap();
    reads.await.unwrap().unwrap();
    gate.cleared(number).await;
    assert_eq!(gate.labels().await, (vec![], false));
}
