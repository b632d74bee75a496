//! A gate on either store with its agent and its tool, and the orders of an operator.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use wicketgate_gate::control::answer::{self, OrderProgress};
use wicketgate_gate::control::postgres::PostgresControl;
use wicketgate_gate::control::sqlite::SqliteControl;
use wicketgate_gate::control::{Action, Order, OrderOrigin, Orders, Row, Target};
use wicketgate_gate::ledger::postgres::Options;
use wicketgate_policy::approval::order::{NAMESPACE, OrderKind, OrderStatement, Previous};
use wicketgate_policy::approval::sign::{Key, sign_bytes};
use wicketgate_policy::approval::{SignedApproval, Statement as _};
use wicketgate_record::clock::{Clock as _, SystemClock};
use wicketgate_record::domain::canonical;
use wicketgate_record::domain::time::Timestamp;

use crate::agent::{Agent, Refused};
use crate::checker::{Database, check};
use crate::pg::{Pg, TestDb};
use crate::sidecar::{Estate, Sidecar, key};
use crate::tool::Tool;

/// Everything one test needs.
pub struct Setup {
    pub tool: Tool,
    pub estate: Estate,
    pub sidecar: Sidecar,
    pub operator: Arc<dyn Orders>,
    pub db: Option<TestDb>,
}

pub async fn postgres_list(url: &str) -> Arc<dyn Orders> {
    Arc::new(PostgresControl::connect(url, Options::default()).await.unwrap())
}

impl Setup {
    pub async fn sqlite() -> Setup {
        Self::sqlite_with(|_| {}).await
    }

    pub async fn sqlite_with(change: impl FnOnce(&mut Value)) -> Setup {
        let tool = Tool::start().await;
        let estate = Estate::sqlite(&tool);
        estate.configure(change);
        let sidecar = estate.serve().await;
        let Database::Sqlite(path) = &estate.database else { unreachable!() };
        let operator = Arc::new(SqliteControl::open(path).await.unwrap());
        Setup { tool, estate, sidecar, operator, db: None }
    }

    pub async fn postgres() -> Setup {
        Self::postgres_with(|_| {}).await
    }

    pub async fn postgres_with(change: impl FnOnce(&mut Value)) -> Setup {
        let tool = Tool::start().await;
        let db = Pg::cluster().database().await;
        let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
        estate.configure(change);
        let sidecar = estate.serve().await;
        let operator = postgres_list(&db.operator_url).await;
        Setup { tool, estate, sidecar, operator, db: Some(db) }
    }

    /// Gives an order; its number.
    pub async fn put(&self, action: Action, target: Target) -> u64 {
        put(&*self.operator, action, target).await
    }

    /// Gives an order and waits for what every gate did about it.
    pub async fn order(&self, action: Action, target: Target) -> OrderProgress {
        order(&*self.operator, action, target).await
    }

    /// The owner of the table changes an order so that it has lapsed.
    pub async fn lapse(&self, seq: u64) {
        let lapse = |table: &str| format!("UPDATE {table} SET expires = 1 WHERE seq = {seq}");
        match (&self.estate.database, &self.db) {
            (_, Some(db)) => {
                let mut conn = PgConnection::connect(&db.admin_url).await.unwrap();
                let off = "ALTER TABLE ledger.control_row DISABLE TRIGGER USER";
                let sql = format!("{off}; {}", lapse("ledger.control_row"));
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
            }
            (Database::Sqlite(path), None) => {
                let url = format!("sqlite://{}", path.display());
                let mut conn = SqliteConnection::connect(&url).await.unwrap();
                let sql = format!("DROP TRIGGER control_row_no_update; {}", lapse("control_row"));
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
            }
            (Database::Postgres(_), None) => unreachable!(),
        }
    }

    /// The process is killed, and another one takes its place.
    pub async fn restart(&mut self) {
        self.sidecar.kill();
        self.sidecar = self.estate.serve().await;
    }

    /// Ends the gate in order; the ledger verifies, and has what the tool counted.
    pub async fn close(mut self) -> Value {
        self.tool.release();
        self.sidecar.stop().await;
        check(&self.estate.database, &self.tool, &self.estate.receipts)
    }
}

pub fn given() -> OrderOrigin {
    OrderOrigin {
        subject: "op@example.com".into(),
        roles: vec!["operator".into()],
        auth: "token".into(),
        reason: "it runs away".into(),
        expires: None,
    }
}

pub async fn put(list: &dyn Orders, action: Action, target: Target) -> u64 {
    put_until(list, action, target, None).await
}

pub async fn put_until(
    list: &dyn Orders,
    action: Action,
    target: Target,
    expires: Option<Timestamp>,
) -> u64 {
    let now = SystemClock::new().now();
    let given = OrderOrigin { expires, ..given() };
    let order = match action {
        Action::Reinstate => {
            let previous = list.last().await.unwrap().expect("an order that stops");
            Order::Loosen(signed(&statement(&target, expires, &previous)))
        }
        Action::Suspend | Action::Revoke | Action::Kill => Order::Switch { action, target },
    };
    list.put(now, &given, &order).await.unwrap()
}

/// What an operator signs to take back what stands against a target after this row.
pub fn statement(target: &Target, expires: Option<Timestamp>, previous: &Row) -> OrderStatement {
    OrderStatement {
        tenant: "default".into(),
        order: OrderKind::Reinstate,
        target: target.kind().into(),
        name: target.name(),
        finding: None,
        role: None,
        payloads: BTreeSet::new(),
        request: None,
        reason: "the test".into(),
        at: SystemClock::new().now(),
        expires,
        previous: Previous { seq: previous.seq, digest: previous.digest },
    }
}

/// It, signed by the operator of the test run.
pub fn signed(statement: &OrderStatement) -> SignedApproval {
    let key = Key::open(key("olga").as_ref(), &|_| None, &|_| None).unwrap();
    let signature = sign_bytes(&key, NAMESPACE, &statement.bytes()).unwrap();
    SignedApproval { statement: String::from_utf8(statement.bytes()).unwrap(), signature }
}

pub async fn order(list: &dyn Orders, action: Action, target: Target) -> OrderProgress {
    let seq = put(list, action, target).await;
    // As long as it takes: that it is soon is for the benchmark.
    answer::wait(list, seq, crate::waiting::PATIENCE).await.unwrap()
}

/// What the one gate there is did.
#[track_caller]
pub fn done(answer: &OrderProgress) -> Value {
    assert_eq!(answer.unreachable, [], "{answer:?}");
    assert_eq!(answer.reports.len(), 1, "{answer:?}");
    serde_json::from_str(&canonical::text(&answer.reports[0].done)).unwrap()
}

/// Calls of a report that ended this way, by their ids.
pub fn stopped(done: &Value, how: &str) -> Vec<String> {
    let all = done["stopped"].as_array().unwrap();
    let mut calls: Vec<String> = all
        .iter()
        .filter(|one| one["how"] == how)
        .map(|one| one["call"].as_str().unwrap().to_owned())
        .collect();
    calls.sort();
    calls
}

/// A call on a task of its own.
pub fn spawn(
    agent: &Agent,
    tool: &str,
    id: &str,
) -> tokio::task::JoinHandle<Result<String, Refused>> {
    let (agent, tool, id) = (agent.clone(), tool.to_owned(), id.to_owned());
    tokio::spawn(async move { agent.call(&tool, &id, r#"{"n":1}"#).await })
}

/// Code and detail of what was refused.
#[track_caller]
pub fn refused(answer: &Result<String, Refused>) -> (&str, &str) {
    let refused = answer.as_ref().expect_err("a refusal");
    (&refused.code, &refused.detail)
}

/// Opening is refused like this.
pub async fn no_run(setup: &Setup) -> Refused {
    let opened = Agent::try_open(&setup.estate.socket(), &setup.estate.receipts).await;
    match opened {
        Ok(_) => panic!("a run was opened"),
        Err(status) => Refused::of(&status),
    }
}

pub fn agent() -> Target {
    Target::Agent("test-agent".into())
}

/// The same tests on both stores.
#[macro_export]
macro_rules! on_both_stores {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($crate::control::Setup::sqlite().await).await; })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($crate::control::Setup::postgres().await).await; })+
        }
    };
}
pub use crate::on_both_stores;
