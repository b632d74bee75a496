use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::*;
use crate::clock::SystemEntropy;
use crate::domain::time::Timestamp;
use crate::limits::memory::Memory;
use crate::limits::pool::{Per, SIZE_MAX};

/// A clock that is set by hand.
#[derive(Default)]
struct Watch {
    wall: AtomicI64,
    mono: AtomicU64,
}

impl Watch {
    fn at(text: &str) -> Arc<Self> {
        let watch = Self::default();
        watch.set(text);
        Arc::new(watch)
    }

    fn set(&self, text: &str) {
        self.wall.store(Timestamp::parse(text).unwrap().millis(), Ordering::SeqCst);
        // Long enough for whatever waits.
        self.mono.fetch_add(60_000, Ordering::SeqCst);
    }
}

impl Clock for Watch {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.wall.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.mono.load(Ordering::SeqCst))
    }
}

/// A store that answers like the inner one, or does not answer; or does the work and loses the
/// answer.
#[derive(Debug, Default)]
struct Shaky {
    inner: Memory,
    down: AtomicU64,
    silent: AtomicU64,
}

impl Shaky {
    fn answer<T>(&self, answer: Result<T, Unanswered>) -> Result<T, Unanswered> {
        if self.silent.load(Ordering::SeqCst) > 0 {
            return Err(Unanswered("the answer was lost".into()));
        }
        answer
    }

    fn up(&self) -> Result<(), Unanswered> {
        if self.down.load(Ordering::SeqCst) > 0 { Err(Unanswered("down".into())) } else { Ok(()) }
    }
}

#[async_trait::async_trait]
impl Pools for Shaky {
    async fn lease(&self, ask: &PoolRequest) -> Result<Lease, Unanswered> {
        self.up()?;
        self.answer(self.inner.lease(ask).await)
    }

    async fn give_back(&self, ask: &PoolRequest, units: u64) -> Result<(), Unanswered> {
        self.up()?;
        self.answer(self.inner.give_back(ask, units).await)
    }

    async fn hold(&self, hold: &Hold) -> Result<Lease, Unanswered> {
        self.up()?;
        self.answer(self.inner.hold(hold).await)
    }
}

fn pool(unit: Unit, per: Per, size: u64) -> Pool {
    Pool {
        name: "p".into(),
        unit,
        per,
        size,
        agents: Default::default(),
        labels: BTreeMap::new(),
        tools: Default::default(),
    }
}

fn quota(pool: &Pool, store: &Arc<Shaky>, watch: &Arc<Watch>) -> Arc<Quota> {
    let (store, clock): (Arc<dyn Pools>, Arc<dyn Clock>) =
        (Arc::clone(store) as _, Arc::clone(watch) as _);
    Quota::new(vec![pool.clone()], store, clock, &SystemEntropy)
}

async fn ask(quota: &Arc<Quota>, cost: Option<u64>) -> Result<Reserved, QuotaRefusal> {
    let spend = Spend { tokens: 0, cost_micro_usd: cost };
    let labels = BTreeMap::new();
    let second = Duration::from_secs(1);
    let wanted =
        Wanted { agent: "a", labels: &labels, tool: "t", spend, timeout: second, longest: second };
    quota.reserve(&wanted).await
}

/// Takes units until the pool is empty, and counts them.
async fn drain(quota: &Arc<Quota>) -> u64 {
    let mut spent = 0;
    while let Ok(mut reserved) = ask(quota, None).await {
        reserved.start();
        spent += 1;
    }
    spent
}

#[tokio::test]
async fn two_gates_spend_a_pool_to_its_last_unit_and_not_one_more() {
    let (store, watch) = (Arc::new(Shaky::default()), Watch::at("2026-11-22T10:00:00.000Z"));
    let pool = pool(Unit::Requests, Per::Minute, 101);
    let (one, other) = (quota(&pool, &store, &watch), quota(&pool, &store, &watch));
    let mut spent = 0;
    while let (Ok(mut a), Ok(mut b)) = (ask(&one, None).await, ask(&other, None).await) {
        a.start();
        b.start();
        spent += 2;
    }
    spent += drain(&one).await + drain(&other).await;
    // The last pair may have been one unit and a refusal, which gave the unit back.
    assert_eq!(spent, 101);
    watch.set("2026-11-22T10:00:59.999Z");
    assert_eq!(drain(&one).await, 0, "still the same minute");
    watch.set("2026-11-22T10:01:00.000Z");
    assert_eq!(drain(&one).await, 101);
}

#[tokio::test]
async fn days_and_months_begin_at_midnight_in_utc() {
    for (per, last, next) in [
        (Per::Day, "2026-12-31T23:59:59.999Z", "2027-01-01T00:00:00.000Z"),
        (Per::Month, "2028-02-29T23:59:59.999Z", "2028-03-01T00:00:00.000Z"),
    ] {
        let (store, watch) = (Arc::new(Shaky::default()), Watch::at(last));
        let quota = quota(&pool(Unit::Requests, per, 7), &store, &watch);
        assert_eq!(drain(&quota).await, 7);
        watch.set(last);
        assert_eq!(drain(&quota).await, 0);
        watch.set(next);
        assert_eq!(drain(&quota).await, 7, "{per:?}");
        // A clock that is set back finds the old window as it was.
        watch.set(last);
        assert_eq!(drain(&quota).await, 0, "{per:?}");
    }
}

#[tokio::test]
async fn what_did_not_start_is_given_back_and_what_did_is_not() {
    let (store, watch) = (Arc::new(Shaky::default()), Watch::at("2026-11-22T10:00:00.000Z"));
    let quota = quota(&pool(Unit::CostMicroUsd, Per::None, 100), &store, &watch);
    let held = ask(&quota, Some(60)).await.unwrap();
    assert!(matches!(ask(&quota, Some(60)).await, Err(QuotaRefusal::Over(_))));
    drop(held);
    let mut spent = ask(&quota, Some(60)).await.unwrap();
    spent.start();
    drop(spent);
    watch.set("2026-11-22T10:00:01.000Z");
    assert!(matches!(ask(&quota, Some(60)).await, Err(QuotaRefusal::Over(_))));
    ask(&quota, Some(40)).await.unwrap().start();
    let unpriced = ask(&quota, None).await.unwrap_err();
    assert!(
        matches!(unpriced, QuotaRefusal::Over(reasons) if reasons[0].message.contains("declares none"))
    );
}

#[tokio::test]
async fn the_quota_leased_by_a_crashed_gate_is_lost_until_the_next_period() {
    let (store, watch) = (Arc::new(Shaky::default()), Watch::at("2026-11-22T10:00:00.000Z"));
    let pool = pool(Unit::Requests, Per::Day, 100);
    let dead = quota(&pool, &store, &watch);
    ask(&dead, None).await.unwrap().start();
    drop(dead);
    // A quarter of 100 was leased, and one of it was spent.
    assert_eq!(drain(&quota(&pool, &store, &watch)).await, 75);
    watch.set("2026-11-23T00:00:00.000Z");
    assert_eq!(drain(&quota(&pool, &store, &watch)).await, 100);
}

#[tokio::test]
async fn a_gate_that_ends_in_order_gives_back_what_it_did_not_spend() {
    let (store, watch) = (Arc::new(Shaky::default()), Watch::at("2026-11-22T10:00:00.000Z"));
    let pool = pool(Unit::Requests, Per::Day, 100);
    let ended = quota(&pool, &store, &watch);
    ask(&ended, None).await.unwrap().start();
    ended.close().await;
    assert_eq!(drain(&quota(&pool, &store, &watch)).await, 99);
}

#[tokio::test]
async fn without_the_store_a_gate_spends_what_it_leased_and_then_refuses_without_a_guess() {
    let (store, watch) = (Arc::new(Shaky::default()), Watch::at("2026-11-22T10:00:00.000Z"));
    let quota = quota(&pool(Unit::Requests, Per::Day, 100), &store, &watch);
    ask(&quota, None).await.unwrap().start();
    store.down.store(1, Ordering::SeqCst);
    assert_eq!(drain(&quota).await, 24);
    assert!(matches!(ask(&quota, None).await, Err(QuotaRefusal::Unanswered(_))));
    store.down.store(0, Ordering::SeqCst);
    assert_eq!(drain(&quota).await, 75);
}

#[tokio::test]
async fn a_quota_request_retried_after_a_lost_answer_gets_the_same_lease() {
    let (store, watch) = (Arc::new(Shaky::default()), Watch::at("2026-11-22T10:00:00.000Z"));
    let quota = quota(&pool(Unit::Requests, Per::Day, 100), &store, &watch);
    store.silent.store(1, Ordering::SeqCst);
    for _ in 0..5 {
        assert!(matches!(ask(&quota, None).await, Err(QuotaRefusal::Unanswered(_))));
    }
    store.silent.store(0, Ordering::SeqCst);
    assert_eq!(drain(&quota).await, 100, "five lost answers are one lease");
}

#[tokio::test]
async fn the_remaining_quota_is_reported_in_thousandths_and_falls_to_zero() {
    let (store, watch) = (Arc::new(Shaky::default()), Watch::at("2026-11-22T10:00:00.000Z"));
    let quota = quota(&pool(Unit::Requests, Per::Day, 10), &store, &watch);
    let mut permille = Vec::new();
    while let Ok(mut reserved) = ask(&quota, None).await {
        reserved.start();
        permille.push(reserved.remainders[0].left_permille);
    }
    assert_eq!(permille, [900, 800, 700, 600, 500, 400, 300, 200, 100, 0]);
}

#[tokio::test]
async fn a_pool_of_calls_at_the_same_time_never_has_more_and_passes_units_on() {
    let (store, watch) = (Arc::new(Shaky::default()), Watch::at("2026-11-22T10:00:00.000Z"));
    let pool = pool(Unit::Concurrency, Per::None, 2);
    let (one, other) = (quota(&pool, &store, &watch), quota(&pool, &store, &watch));
    let first = ask(&one, None).await.unwrap();
    let second = ask(&other, None).await.unwrap();
    assert!(matches!(ask(&one, None).await, Err(QuotaRefusal::Over(_))));
    drop(first);
    // A task gives the unit back; closing waits for it.
    one.close().await;
    let third = ask(&other, None).await.unwrap();
    assert!(matches!(ask(&one, None).await, Err(QuotaRefusal::Over(_))));
    drop((second, third));
    other.close().await;
    assert!(ask(&one, None).await.is_ok());
}

#[tokio::test]
async fn units_of_a_crashed_gate_are_free_once_none_of_its_calls_can_be_running() {
    let (store, watch) = (Arc::new(Shaky::default()), Watch::at("2026-11-22T10:00:00.000Z"));
    let pool = pool(Unit::Concurrency, Per::None, 1);
    let dead = quota(&pool, &store, &watch);
    let running = ask(&dead, None).await.unwrap();
    let next = quota(&pool, &store, &watch);
    // 30 s until no gate uses it unasked, 15 s until the call is at its tool, 1 s for the call.
    watch.set("2026-11-22T10:00:45.999Z");
    assert!(matches!(ask(&next, None).await, Err(QuotaRefusal::Over(_))));
    watch.set("2026-11-22T10:00:46.000Z");
    assert!(ask(&next, None).await.is_ok());
    drop(running);
}

#[tokio::test]
async fn only_calls_that_a_pool_covers_take_from_it() {
    let mut pool = pool(Unit::Requests, Per::Day, SIZE_MAX);
    pool.agents = ["a".to_owned()].into();
    pool.tools = ["t".to_owned()].into();
    pool.labels = [("team".to_owned(), "x".to_owned())].into();
    let with = BTreeMap::from([("team".to_owned(), "x".to_owned())]);
    assert!(pool.covers("a", &with, "t"));
    assert!(!pool.covers("b", &with, "t"));
    assert!(!pool.covers("a", &with, "u"));
    assert!(!pool.covers("a", &BTreeMap::new(), "t"));
}
