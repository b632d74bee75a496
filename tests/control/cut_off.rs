//! A gate that is cut off from its operators, and nothing else: the list fails, the ledger works.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use wicketgate::control::{Action, Order, OrderOrigin, OrderReport, Orders, Presence, Row, Target};
use wicketgate::domain::time::Timestamp;
use wicketgate::enforce;
use wicketgate::ledger::store::StoreError;
use wicketgate_support::memory;
use wicketgate_support::memory::orders::MemoryControl;

use crate::control::put;
use crate::road::{Bench, Serving};

/// How the way to the list is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Line {
    Up,
    /// Every question is refused.
    Down,
    /// No question is answered.
    Dead,
}

/// A list at the end of a line that can fail.
#[derive(Debug)]
struct Far {
    list: MemoryControl,
    line: watch::Sender<Line>,
}

impl Far {
    async fn reach(&self) -> Result<(), StoreError> {
        let mut line = self.line.subscribe();
        match *line.wait_for(|line| *line != Line::Dead).await.unwrap() {
            Line::Up => Ok(()),
            Line::Down | Line::Dead => Err(StoreError::Unavailable("cut off".into())),
        }
    }
}

#[async_trait]
impl Orders for Far {
    async fn put(
        &self,
        at: Timestamp,
        given: &OrderOrigin,
        order: &Order,
    ) -> Result<u64, StoreError> {
        self.list.put(at, given, order).await
    }

    async fn since(&self, seq: u64, most: usize) -> Result<Vec<Row>, StoreError> {
        self.reach().await?;
        self.list.since(seq, most).await
    }

    async fn report(&self, report: &OrderReport) -> Result<(), StoreError> {
        self.reach().await?;
        self.list.report(report).await
    }

    async fn reports(&self, seq: u64) -> Result<Vec<OrderReport>, StoreError> {
        self.list.reports(seq).await
    }

    async fn show(&self, presence: &Presence) -> Result<(), StoreError> {
        self.reach().await?;
        self.list.show(presence).await
    }

    async fn shown(&self) -> Result<Vec<Presence>, StoreError> {
        self.list.shown().await
    }
}

async fn serving() -> (Serving, Arc<Far>, Arc<Bench>) {
    let far = Arc::new(Far { list: MemoryControl::default(), line: watch::Sender::new(Line::Up) });
    let (list, bench) = (Arc::clone(&far), Bench::new());
    let store = Arc::new(memory::MemoryStore::new());
    let serving = Serving::start(store, &bench, enforce::Settings::default(), |_| list as _).await;
    (serving, far, bench)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_cut_off_from_its_operators_denies_what_is_risky_and_recovers_by_itself() {
    let (serving, far, bench) = serving().await;
    let run = serving.open().await.unwrap();
    for tool in ["t.zero", "t.one", "t.two", "t.three"] {
        serving.call(&run, tool).await.unwrap();
    }
    for line in [Line::Down, Line::Dead] {
        far.line.send_replace(line);
        serving.clock.forward(Duration::from_secs(6));
        for tool in ["t.two", "t.three"] {
            let refused = serving.call(&run, tool).await.unwrap_err();
            assert_eq!(refused, ("not_ready".to_owned(), "control.stale".to_owned()));
        }
        for tool in ["t.zero", "t.one"] {
            serving.call(&run, tool).await.unwrap();
        }
        let reasons = serving.road.control().reasons();
        assert!(reasons[0].starts_with("control: operators' orders were not read"), "{reasons:?}");
        far.line.send_replace(Line::Up);
        crate::until("a fresh look at the list", || async {
            serving.road.control().reasons().is_empty()
        })
        .await;
        serving.call(&run, "t.two").await.unwrap();
    }
    // What was denied has not run.
    assert_eq!(bench.count(), 4 + 2 * 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_given_while_a_gate_is_cut_off_is_obeyed_once_it_hears_of_it() {
    let (serving, far, _) = serving().await;
    let run = serving.open().await.unwrap();
    far.line.send_replace(Line::Down);
    let seq = put(&*far, Action::Revoke, Target::Agent("test-agent".into())).await;
    serving.call(&run, "t.zero").await.unwrap();
    far.line.send_replace(Line::Up);
    let heard =
        wicketgate::control::answer::wait(&*far, seq, crate::waiting::PATIENCE).await.unwrap();
    assert_eq!((heard.reports.len(), heard.unreachable.len()), (1, 0));
    assert_eq!(serving.call(&run, "t.zero").await.unwrap_err().0, "run.sealed");
    assert_eq!(serving.open().await.unwrap_err().1, "control.revoked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manifest_that_two_must_sign_falls_with_one_of_their_keys() {
    let store = Arc::new(memory::MemoryStore::new());
    let settings = enforce::Settings { manifest_threshold: 2, ..enforce::Settings::default() };
    let list = Arc::new(MemoryControl::default());
    let orders = Arc::clone(&list);
    let serving = Serving::start(store, &Bench::new(), settings, |_| orders as _).await;
    serving.open().await.unwrap();
    crate::control::order(&*list, Action::Revoke, Target::Key("somebody".into())).await;
    serving.open().await.unwrap();
    crate::control::order(&*list, Action::Revoke, Target::Key("two".into())).await;
    assert_eq!(serving.open().await.unwrap_err().1, "control.revoked");
    assert!(
        serving.road.control().is_key_stopped("two")
            && !serving.road.control().is_key_stopped("one")
    );
}
