//! Several gates on one Postgres: all are enrolled, and a database from a backup is noticed.

use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::fleet::{FLEET, anchor, calls_through, fleet, run, some_calls};
use crate::sidecar::Estate;
use crate::tool::Tool;
use wicketgate_support::pg::{Pg, TestDb};

/// A database whose writer may read, too: that of the anchoring job.
async fn database() -> TestDb {
    let pg = tokio::task::spawn_blocking(Pg::cluster).await.unwrap();
    pg.database_of_a_reading_writer().await
}

fn gate(tool: &Tool, db: &TestDb) -> Estate {
    Estate::postgres(tool, &db.writer_url, &db.admin_url, "shop/agents")
}

async fn admin(db: &TestDb, sql: &str) {
    let (server, _) = db.admin_url.split_once("/wg").unwrap();
    let mut admin =
        PgConnection::connect(&format!("{server}/postgres?sslmode=disable")).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut admin).await.unwrap();
}

fn name(db: &TestDb) -> String {
    let path = db.admin_url.rsplit('/').next().unwrap();
    path.split('?').next().unwrap().to_owned()
}

/// What a dump taken at night and restored in the morning leaves: the database as it was.
async fn back_up(db: &TestDb) {
    let name = name(db);
    admin(db, &format!("CREATE DATABASE {name}_night TEMPLATE {name}")).await;
}

async fn restore(db: &TestDb) {
    let name = name(db);
    admin(db, &format!("DROP DATABASE {name} WITH (FORCE)")).await;
    admin(db, &format!("CREATE DATABASE {name} TEMPLATE {name}_night")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gates_are_enrolled_and_enumerated() {
    let tool = Tool::start().await;
    let db = database().await;
    let (one, two) = (gate(&tool, &db), gate(&tool, &db));
    let (mut a, mut b) = (one.serve().await, two.serve().await);
    calls_through(&a, &["a"]).await;
    calls_through(&b, &["b"]).await;
    fleet(&one);
    let done = anchor(&one).await.ends(0).json();
    let slots =
        ["wicketgate.dev/default/shop/agents/0/0", "wicketgate.dev/default/shop/agents/1/0"];
    assert_eq!(done["enrolled"], json!(slots), "{done}");
    a.stop().await;
    b.stop().await;
    let heads = run(&one, &["ledger", "head", "--config", "wicketgate.yaml"]).await.ends(0);
    for origin in slots.iter().chain([&FLEET]) {
        assert!(heads.out.contains(origin), "{heads:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_in_a_namespace_called_fleet_is_enrolled_as_any_other() {
    let (tool, db) = (Tool::start().await, database().await);
    let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "fleet/agents");
    some_calls(&estate, &["a"]).await;
    fleet(&estate);
    let done = anchor(&estate).await.ends(0).json();
    assert_eq!(done["enrolled"], json!(["wicketgate.dev/default/fleet/agents/0/0"]), "{done}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_database_is_healed_with_the_spool() {
    let tool = Tool::start().await;
    let db = database().await;
    let estate = gate(&tool, &db);
    some_calls(&estate, &["a"]).await;
    back_up(&db).await;
    some_calls(&estate, &["b"]).await;
    restore(&db).await;
    // Nothing is lost as long as this machine has every byte.
    run(&estate, &["ledger", "recover", "--config", "wicketgate.yaml"])
        .await
        .ends(1)
        .says("no entry is lost");
    some_calls(&estate, &["c"]).await;
    let tail = ["ledger", "tail", "--config", "wicketgate.yaml", "-n", "1000", "--json"];
    let out = run(&estate, &tail).await.ends(0).out;
    assert!(out.contains("ledger.recovered"), "{out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_database_without_the_spool_is_refused_and_the_loss_is_recorded() {
    let tool = Tool::start().await;
    let db = database().await;
    let estate = gate(&tool, &db);
    fleet(&estate);
    estate.configure(|config| config["fleet"]["anchor_file"] = json!("anchor"));
    some_calls(&estate, &["a"]).await;
    back_up(&db).await;
    some_calls(&estate, &["b"]).await;
    anchor(&estate).await.ends(0);
    restore(&db).await;
    std::fs::remove_dir_all(estate.path("state/spool")).unwrap();
    let mut refused = estate.start();
    refused.ends(1).await;
    assert!(refused.said().contains("the anchor file"), "{}", refused.said());
    let recover =
        ["ledger", "recover", "--config", "wicketgate.yaml", "--accept-loss", "--reason", "dump"];
    run(&estate, &recover).await.ends(0).says("agents/0/1").says("fleet/1");
    some_calls(&estate, &["c"]).await;
    anchor(&estate).await.ends(0);
    let trust = "enrolment-key state/enrolment.key.pub\n";
    std::fs::write(estate.path("trust.txt"), trust).unwrap();
    let verify = ["ledger", "verify", "--config", "wicketgate.yaml", "--trust", "trust.txt"];
    run(&estate, &verify).await.says("loss:");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_that_is_behind_its_own_fleet_log_is_refused() {
    let tool = Tool::start().await;
    let db = database().await;
    let estate = gate(&tool, &db);
    fleet(&estate);
    some_calls(&estate, &["a"]).await;
    anchor(&estate).await.ends(0);
    // An administrator takes the last entries away, and all that this machine remembers.
    let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
    let sql = "SET session_replication_role = replica;
        ALTER TABLE ledger.entry DISABLE TRIGGER ALL; ALTER TABLE ledger.head DISABLE TRIGGER ALL;
        DO $$ DECLARE t text; BEGIN
          FOR t IN SELECT relid::text FROM pg_partition_tree('ledger.entry') LOOP
            EXECUTE format('ALTER TABLE %s DISABLE TRIGGER ALL', t);
          END LOOP;
        END $$;
        DELETE FROM ledger.entry e USING ledger.chain c WHERE c.chain_id = e.chain_id AND c.pool <> 'fleet';
        DELETE FROM ledger.open_run;
        UPDATE ledger.head h SET size = 0, head_hash = sha256(h.chain_id), frontier = '', checkpoint = ''
          FROM ledger.chain c WHERE c.chain_id = h.chain_id AND c.pool <> 'fleet';";
    sqlx::raw_sql(sql).execute(&mut admin).await.unwrap();
    std::fs::remove_dir_all(estate.path("state/spool")).unwrap();
    let mut refused = estate.start();
    refused.ends(1).await;
    assert!(refused.said().contains("it has 0 entries"), "{}", refused.said());
    assert!(refused.said().contains("the fleet log has seen"), "{}", refused.said());
    anchor(&estate).await.ends(0);
}
