//! Gates that ask whether there is an order: what it costs the database, and how soon all of them obey.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use wicketgate::clock::{Clock as _, SystemClock};
use wicketgate::control::postgres::PostgresControl;
use wicketgate::control::{
    Action, Order, OrderOrigin, OrderReport, Orders, Presence, Target, answer,
};
use wicketgate::domain::id::ChainId;
use wicketgate::domain::json::Json;
use wicketgate::ledger::postgres::{Options, PostgresStore as Store};
use wicketgate::ledger::store::{LeaseRequest, LedgerStore as _};

use crate::{PATIENCE, Plan};
use wicketgate_support::bench::load::{Seen, number, short};
use wicketgate_support::bench::table::{Row, Table};
use wicketgate_support::bench::{cpu, floor};
use wicketgate_support::pg::TestDb;

/// How often a gate asks.
const LOOK: Duration = Duration::from_millis(200);
/// Rows of one look.
const PAGE: usize = 256;
/// Connections that the polling gates share: each real one has its own, and a test cluster has few.
const LANES: usize = 40;
/// Gates that obey a kill.
const OBEYING: usize = 50;

async fn list(url: &str) -> Arc<dyn Orders> {
    Arc::new(PostgresControl::connect(url, Options::default()).await.unwrap())
}

/// Appends alone, then the same beside gates that poll.
pub async fn beside_appends(plan: &Plan, db: &TestDb, table: &mut Table) {
    let alone = floor::commit(&db.admin_url, plan.each).await;
    let mut lanes = Vec::new();
    for _ in 0..LANES {
        lanes.push(list(&db.writer_url).await);
    }
    let (asked, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let began = Instant::now();
    let mut gates = tokio::task::JoinSet::new();
    for n in 0..plan.gates {
        let lane = Arc::clone(&lanes[n % LANES]);
        let (asked, over) = (Arc::clone(&asked), Arc::clone(&over));
        gates.spawn(async move {
            // Not all in the same moment.
            tokio::time::sleep(LOOK * (n as u32 % 100) / 100).await;
            let mut all = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let one = Instant::now();
                lane.since(0, PAGE).await.unwrap();
                all.push(one.elapsed());
                asked.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(LOOK.saturating_sub(one.elapsed())).await;
            }
            all
        });
    }
    tokio::time::sleep(LOOK * 2).await;
    let (asked_before, busy_before, from) = (asked.load(Ordering::Relaxed), busy(), Instant::now());
    let beside = floor::commit(&db.admin_url, plan.each).await;
    let took = from.elapsed();
    let queries = (asked.load(Ordering::Relaxed) - asked_before) as f64 / took.as_secs_f64();
    let share = (busy() - busy_before) / took.as_secs_f64();
    over.store(true, Ordering::Relaxed);
    let mut looks = Vec::new();
    while let Some(done) = gates.join_next().await {
        looks.extend(done.unwrap());
    }
    let looks = Seen::of(looks, began.elapsed());
    table.add(Row {
        what: format!("{} gates poll for orders every {}", plan.gates, short(LOOK)),
        ours: format!(
            "{} queries/s, p50 {}, p99 {}; the database uses {share:.2} cores",
            number(queries),
            short(looks.p50),
            short(looks.p99)
        ),
        floor: format!("wanted {} queries/s", number(plan.gates as f64 / LOOK.as_secs_f64())),
        ratio: None,
        target: None,
    });
    table.add(Row {
        what: "one durable INSERT beside them".to_owned(),
        ours: beside.words("rows"),
        floor: alone.words("rows"),
        ratio: Some(beside.p50.as_secs_f64() / alone.p50.as_secs_f64()),
        target: None,
    });
}

/// Seconds of processor time that every process of a PostgreSQL server on this machine has used, those that
/// ended since included in their parents.
fn busy() -> f64 {
    let mut used = Duration::ZERO;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let pid = entry.file_name().to_str().and_then(|pid| pid.parse().ok());
        used += pid.filter(|_| name.trim() == "postgres").map(cpu::with_ended).unwrap_or_default();
    }
    used.as_secs_f64()
}

/// One order, until every one of many gates has said that it obeyed.
pub async fn kill(plan: &Plan, db: &TestDb, table: &mut Table) {
    let operator = list(&db.operator_url).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut gates = tokio::task::JoinSet::new();
    for n in 0..OBEYING {
        let (list, origin) = gate(&db.writer_url, n).await;
        show(&*list, &origin, 0).await;
        gates.spawn(obeys(list, origin, Arc::clone(&over)));
    }
    let (mut all, began) = (Vec::new(), Instant::now());
    for _ in 0..plan.times.min(50) {
        let given = OrderOrigin {
            subject: "bench".to_owned(),
            roles: vec!["operator".to_owned()],
            auth: "token".to_owned(),
            reason: "measured".to_owned(),
            expires: None,
        };
        let target = Target::Agent("bench".to_owned());
        let order = Order::Switch { action: Action::Kill, target };
        let one = Instant::now();
        let seq = operator.put(SystemClock::new().now(), &given, &order).await.unwrap();
        let told = answer::wait(&*operator, seq, PATIENCE).await.unwrap();
        all.push(one.elapsed());
        assert_eq!((told.reports.len(), told.unreachable.len()), (OBEYING, 0));
    }
    over.store(true, Ordering::Relaxed);
    while gates.join_next().await.is_some() {}
    let seen = Seen::of(all, began.elapsed());
    table.add(Row {
        what: format!("kill, until {OBEYING} gates with nothing to stop have said so"),
        ours: format!("p50 {}, p99 {}", short(seen.p50), short(seen.p99)),
        floor: format!("a gate looks every {}", short(LOOK)),
        ratio: Some(seen.p50.as_secs_f64() / LOOK.as_secs_f64()),
        target: None,
    });
}

/// A gate that holds a slot: nobody else may say what it did.
async fn gate(url: &str, n: usize) -> (Arc<dyn Orders>, String) {
    let store = Store::connect(url, Options::default()).await.unwrap();
    let leased = store
        .lease(&LeaseRequest {
            tenant: "default".into(),
            pool: format!("bench{n}"),
            writer: "bench".into(),
            previous: None,
            secret: [1; 32],
            chain: ChainId::from_bytes([n as u8 + 1; 16]),
            term: Duration::from_secs(3600),
        })
        .await
        .unwrap();
    let list = PostgresControl::connect(url, Options::default()).await.unwrap();
    list.speak_for(&leased.key);
    (Arc::new(list), leased.origin)
}

/// Polls like a gate, and says at once that it obeyed.
async fn obeys(list: Arc<dyn Orders>, origin: String, over: Arc<AtomicBool>) {
    let mut seen = 0;
    while !over.load(Ordering::Relaxed) {
        for row in list.since(seen, PAGE).await.unwrap() {
            seen = row.seq;
            let done = Json::object([("stopped_count", Json::from(0_u64))]);
            let at = SystemClock::new().now();
            let report = OrderReport { seq: row.seq, origin: origin.clone(), at, done };
            list.report(&report).await.unwrap();
        }
        show(&*list, &origin, seen).await;
        tokio::time::sleep(LOOK).await;
    }
}

async fn show(list: &dyn Orders, origin: &str, seq: u64) {
    let presence = Presence {
        origin: origin.to_owned(),
        writer: "bench".to_owned(),
        at: SystemClock::new().now(),
        seq,
        state: Json::object([("ready", Json::from(true))]),
    };
    list.show(&presence).await.unwrap();
}
