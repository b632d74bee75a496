//! The three lists: what they share, and what Postgres alone promises.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use wicketgate::control::postgres::PostgresControl;
use wicketgate::control::sqlite::SqliteControl;
use wicketgate::control::{Action, Order, OrderOrigin, OrderReport, Orders, Presence, Target};
use wicketgate::domain::id::{CallId, ChainId, RunId};
use wicketgate::domain::json::Json;
use wicketgate::domain::time::Timestamp;
use wicketgate::ledger::postgres::Options;
use wicketgate::ledger::store::{LeaseRequest, Leased, LedgerStore, StoreError};
use wicketgate::ledger::{postgres as pg_ledger, sqlite as file_ledger};
use wicketgate_support::memory::orders::MemoryControl;

use crate::waiting::PATIENCE;
use wicketgate_support::pg::{Pg, TestDb};

/// One empty list: who puts orders on it, the gate of `origin`, and what keeps it there.
struct Rig {
    operator: Arc<dyn Orders>,
    gate: Arc<dyn Orders>,
    origin: String,
    _file: Option<tempfile::TempDir>,
}

impl Rig {
    fn memory() -> Rig {
        let list: Arc<dyn Orders> = Arc::new(MemoryControl::default());
        Rig { operator: Arc::clone(&list), gate: list, origin: "o/0".into(), _file: None }
    }

    async fn sqlite() -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        // The writer keeps it open, as in the gate.
        file_ledger::SqliteStore::open(&path).await.unwrap().close().await.unwrap();
        let open =
            || async { Arc::new(SqliteControl::open(&path).await.unwrap()) as Arc<dyn Orders> };
        let (operator, gate) = (open().await, open().await);
        Rig { operator, gate, origin: "o/0".into(), _file: Some(dir) }
    }

    async fn postgres() -> Rig {
        let db = Pg::cluster().database().await;
        let leased = lease(&db, 1).await;
        let gate = list(&db.writer_url).await;
        gate.speak_for(&leased.key);
        let operator = Arc::new(list(&db.operator_url).await);
        Rig { operator, gate: Arc::new(gate), origin: leased.origin, _file: None }
    }
}

async fn list(url: &str) -> PostgresControl {
    PostgresControl::connect(url, Options::default()).await.unwrap()
}

async fn lease(db: &TestDb, n: u8) -> Leased {
    let store =
        pg_ledger::PostgresStore::connect(&db.writer_url, Options::default()).await.unwrap();
    let request = LeaseRequest {
        tenant: "default".into(),
        pool: "local".into(),
        writer: format!("host-{n}"),
        previous: None,
        secret: [n; 32],
        chain: ChainId::from_bytes([n; 16]),
        term: Duration::from_secs(600),
    };
    store.lease(&request).await.unwrap()
}

/// The same tests for each store.
macro_rules! on_every_store {
    ($($name:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name(super::Rig::memory()).await; })+
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name(super::Rig::sqlite().await).await; })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name(super::Rig::postgres().await).await; })+
        }
    };
}

on_every_store!(
    what_is_put_is_read_back_as_it_was,
    fifty_puts_at_once_are_numbered_without_gaps_and_a_reader_misses_none,
    a_report_replaces_the_one_before_and_leaves_others_alone,
    a_gate_is_shown_as_it_was_last,
);

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn given(reason: &str) -> OrderOrigin {
    OrderOrigin {
        subject: "o'hara@example.com".into(),
        roles: vec!["operator".into(), "viewer".into()],
        auth: "token".into(),
        reason: reason.into(),
        expires: None,
    }
}

fn kill(agent: &str) -> Order {
    Order::Switch { action: Action::Kill, target: Target::Agent(agent.into()) }
}

async fn what_is_put_is_read_back_as_it_was(rig: Rig) {
    assert_eq!(rig.gate.since(0, 9).await.unwrap(), []);
    let (run, call) = (RunId::from_random([3; 16]), CallId::parse("c-1").unwrap());
    let odd = "it's \"x\" \\ \n\u{0} \u{1F600}".to_owned();
    let orders = [
        kill("a"),
        Order::Switch { action: Action::Suspend, target: Target::All },
        Order::ApproverStatement {
            run,
            call: call.clone(),
            statement: odd.clone(),
            signature: odd.clone(),
        },
        Order::Modify {
            run,
            call,
            arguments: "{\"n\":1}".into(),
            statement: "{}".into(),
            signature: "-".into(),
        },
    ];
    let mut put = Vec::new();
    for (n, order) in (1..).zip(&orders) {
        let mut given = given("because it's \\ \"so\"\n");
        given.expires = (n % 2 == 0).then(|| at(9_000_000 + n));
        let seq = rig.operator.put(at(1000 + n), &given, order).await.unwrap();
        assert_eq!(i64::try_from(seq).unwrap(), n);
        put.push((seq, at(1000 + n), given, Some(order.clone())));
    }
    let rows = rig.gate.since(0, 9).await.unwrap();
    let read: Vec<_> = rows.into_iter().map(|r| (r.seq, r.at, r.given, r.order)).collect();
    assert_eq!(read, put);
    let seqs = |rows: Vec<wicketgate::control::Row>| rows.iter().map(|r| r.seq).collect::<Vec<_>>();
    assert_eq!(seqs(rig.gate.since(1, 2).await.unwrap()), [2, 3]);
    assert_eq!(seqs(rig.gate.since(4, 9).await.unwrap()), [0_u64; 0]);
}

async fn fifty_puts_at_once_are_numbered_without_gaps_and_a_reader_misses_none(rig: Rig) {
    let reading = {
        let gate = Arc::clone(&rig.gate);
        tokio::spawn(async move {
            let mut seen: Vec<u64> = Vec::new();
            while seen.len() < 50 {
                let last = seen.last().copied().unwrap_or(0);
                let rows = gate.since(last, 7).await.unwrap();
                seen.extend(rows.iter().map(|row| row.seq));
                tokio::task::yield_now().await;
            }
            seen
        })
    };
    let putting = (0..50).map(|n| {
        let operator = Arc::clone(&rig.operator);
        async move { operator.put(at(n), &given("x"), &kill(&format!("a{n}"))).await.unwrap() }
    });
    let mut seqs = tokio::time::timeout(PATIENCE, futures_util::future::join_all(putting))
        .await
        .expect("fifty puts");
    seqs.sort_unstable();
    let all: Vec<u64> = (1..=50).collect();
    assert_eq!(seqs, all);
    let seen = tokio::time::timeout(PATIENCE, reading).await.expect("a reader sees all").unwrap();
    assert_eq!(seen, all);
}

async fn a_report_replaces_the_one_before_and_leaves_others_alone(rig: Rig) {
    for n in 0..2 {
        rig.operator.put(at(n), &given("x"), &kill("a")).await.unwrap();
    }
    let report = |seq, n: u64| OrderReport {
        seq,
        origin: rig.origin.clone(),
        at: at(5),
        done: Json::object([("n", Json::from(n)), ("it's", Json::from("\\ \n"))]),
    };
    for one in [report(1, 1), report(2, 2), report(1, 3)] {
        rig.gate.report(&one).await.unwrap();
    }
    assert_eq!(rig.operator.reports(1).await.unwrap(), [report(1, 3)]);
    assert_eq!(rig.operator.reports(2).await.unwrap(), [report(2, 2)]);
    assert_eq!(rig.operator.reports(3).await.unwrap(), []);
}

async fn a_gate_is_shown_as_it_was_last(rig: Rig) {
    assert_eq!(rig.operator.shown().await.unwrap(), []);
    for n in 1..=2 {
        let presence = Presence {
            origin: rig.origin.clone(),
            writer: format!("host/{n}"),
            at: at(7),
            seq: n,
            state: Json::object([("open_runs", Json::from(n))]),
        };
        rig.gate.show(&presence).await.unwrap();
        let shown = rig.operator.shown().await.unwrap();
        assert_eq!(shown.len(), 1);
        let with_its_clock = Presence { at: shown[0].at, ..presence };
        assert_eq!(shown[0], with_its_clock);
    }
}

async fn run(url: &str, sql: &str) -> Result<(), String> {
    let mut conn = PgConnection::connect(url).await.unwrap();
    let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await;
    done.map(drop).map_err(|e| {
        let db = e.into_database_error().expect("an answer of the server");
        format!("{}: {}", db.code().unwrap(), db.message())
    })
}

#[tokio::test]
async fn a_gate_gives_no_orders_and_touches_no_table_of_the_list() {
    let db = Pg::cluster().database().await;
    let operator = list(&db.operator_url).await;
    operator.put(at(1), &given("x"), &kill("a")).await.unwrap();
    let gate = list(&db.writer_url).await;
    let refused = gate.put(at(1), &given("x"), &kill("b")).await.unwrap_err();
    assert!(
        matches!(&refused, StoreError::Unavailable(why) if why.starts_with("42501")),
        "{refused}"
    );
    for url in [&db.writer_url, &db.operator_url] {
        for table in ["control_head", "control_row", "control_report", "control_presence"] {
            for sql in [
                format!("SELECT * FROM ledger.{table}"),
                format!("INSERT INTO ledger.{table} DEFAULT VALUES"),
                format!("DELETE FROM ledger.{table}"),
                format!("TRUNCATE ledger.{table}"),
            ] {
                let why = run(url, &sql).await.expect_err(&sql);
                assert!(why.starts_with("42501"), "{sql}: {why}");
            }
        }
    }
}

#[tokio::test]
async fn a_gate_speaks_for_its_own_log_only_and_only_while_it_holds_it() {
    let db = Pg::cluster().database().await;
    let (first, second) = (lease(&db, 1).await, lease(&db, 2).await);
    assert_ne!(first.origin, second.origin);
    let gate = list(&db.writer_url).await;
    let report = |origin: &str| OrderReport {
        seq: 1,
        origin: origin.to_owned(),
        at: at(1),
        done: Json::object([("n", Json::from(1_u64))]),
    };
    // Nobody to speak for yet.
    assert!(gate.report(&report(&first.origin)).await.is_err());
    gate.speak_for(&first.key);
    gate.report(&report(&first.origin)).await.unwrap();
    let forged = gate.report(&report(&second.origin)).await.unwrap_err();
    assert!(
        matches!(&forged, StoreError::Unavailable(why) if why.starts_with("42501")),
        "{forged}"
    );
    // Fenced: somebody else has the log now.
    let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
    sqlx::raw_sql("UPDATE ledger.head SET epoch = epoch + 1").execute(&mut admin).await.unwrap();
    let fenced = gate.report(&report(&first.origin)).await.unwrap_err();
    assert!(matches!(fenced, StoreError::Conflict(_)), "{fenced}");
}

#[tokio::test]
async fn tenants_do_not_see_each_others_orders() {
    let db = Pg::cluster().database().await;
    list(&db.operator_url).await.put(at(1), &given("x"), &kill("a")).await.unwrap();
    let other = list(&db.other_writer_url).await;
    assert_eq!(other.since(0, 9).await.unwrap(), []);
    assert_eq!(other.shown().await.unwrap(), []);
    let count = |url: String| async move {
        let mut conn = PgConnection::connect(&url).await.unwrap();
        let sql = "SELECT count(*) AS n FROM ledger.control_row";
        let row = sqlx::raw_sql(sql).fetch_one(&mut conn).await.unwrap();
        sqlx::Row::get::<i64, _>(&row, "n")
    };
    assert_eq!(count(db.reader_url.clone()).await, 1);
    assert_eq!(count(db.other_reader_url.clone()).await, 0);
}

#[tokio::test]
async fn even_the_owner_cannot_change_or_drop_an_order() {
    let db = Pg::cluster().database().await;
    list(&db.operator_url).await.put(at(1), &given("x"), &kill("a")).await.unwrap();
    for mode in ["origin", "replica"] {
        for sql in [
            "UPDATE ledger.control_row SET body = '{}'",
            "DELETE FROM ledger.control_row",
            "TRUNCATE ledger.control_row",
            "INSERT INTO ledger.control_row SELECT tenant_id, 7, at, kind, body, subject, roles, auth, reason, expires FROM ledger.control_row",
            "UPDATE ledger.control_head SET seq = 9",
            "DELETE FROM ledger.control_head",
            "TRUNCATE ledger.control_head",
        ] {
            let why = run(&db.admin_url, &format!("SET session_replication_role = {mode}; {sql}"))
                .await
                .expect_err(sql);
            assert!(why.starts_with("42501"), "{mode}: {sql}: {why}");
        }
    }
}

#[tokio::test]
async fn an_order_in_the_file_is_neither_changed_nor_dropped() {
    let rig = Rig::sqlite().await;
    rig.operator.put(at(1), &given("x"), &kill("a")).await.unwrap();
    let path = rig._file.as_ref().unwrap().path().join("ledger.db");
    let mut conn =
        sqlx::SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    for sql in [
        "UPDATE control_row SET body = '{}'",
        "DELETE FROM control_row",
        "INSERT INTO control_row SELECT 7, at, kind, body, subject, roles, auth, reason, expires FROM control_row",
        "INSERT OR REPLACE INTO control_row SELECT * FROM control_row",
    ] {
        let why = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap_err();
        assert!(why.to_string().contains("refused"), "{sql}: {why}");
    }
}

#[tokio::test]
async fn an_order_of_a_later_build_is_read_as_one_that_is_not_known() {
    let db = Pg::cluster().database().await;
    let put = "SELECT ledger.control_put(1, 'sing', '{\"loud\":true}', 's', '[]', 'a', 'r', NULL)";
    run(&db.operator_url, put).await.unwrap();
    let rows = list(&db.writer_url).await.since(0, 9).await.unwrap();
    assert_eq!((rows.len(), &rows[0].order), (1, &None));
}

#[tokio::test]
async fn who_follows_the_list_of_a_file_hears_of_what_is_put_beside_it_in_this_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.db");
    file_ledger::SqliteStore::open(&path).await.unwrap().close().await.unwrap();
    let followed = SqliteControl::open(&path).await.unwrap();
    let operators = followed.beside(&path).await.unwrap();
    let nothing = tokio::time::timeout(Duration::from_millis(50), followed.put_here()).await;
    assert!(nothing.is_err(), "nothing was put yet");
    operators.put(at(1), &given("x"), &kill("a")).await.unwrap();
    // Also who asks only afterwards, and once.
    tokio::time::timeout(PATIENCE, followed.put_here()).await.unwrap();
    assert_eq!(followed.since(0, 10).await.unwrap().len(), 1);
}
