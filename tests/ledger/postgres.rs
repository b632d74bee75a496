//! What the PostgreSQL schema promises beyond the port (ledger.md §2.13), and what a failing server
//! or network may do to a writer.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use wicketgate::ledger::postgres::{
    Login, Options, PostgresReader, PostgresStore, SCHEMA_VERSION, migrate,
};
use wicketgate::ledger::store::{LeaseKey, LedgerReader, LedgerStore, PayloadRef, StoreError};

use super::batches::{beats, lease, payload, request, with};
use super::proxy::Proxy;
use wicketgate_support::pg::{Pg, TestDb};

async fn connect(url: &str) -> PostgresStore {
    PostgresStore::connect(url, Options::default()).await.unwrap()
}

async fn raw(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap()
}

async fn run(conn: &mut PgConnection, sql: &str) -> Result<(), String> {
    let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await;
    done.map(drop).map_err(|e| {
        let db = e.into_database_error().expect("an answer of the server");
        format!("{}: {}", db.code().unwrap(), db.message())
    })
}

async fn count(db: &TestDb, what: &str) -> i64 {
    let sql = format!("SELECT count(*) AS n FROM {what}");
    let mut admin = raw(&db.admin_url).await;
    sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(&mut admin).await.unwrap().get("n")
}

/// A database with one chain of three entries and a payload, and the key of its writer.
async fn written() -> (TestDb, PostgresStore, LeaseKey) {
    let db = Pg::cluster().database().await;
    let store = connect(&db.writer_url).await;
    let leased = lease(&store, 1).await;
    let first = with(beats(&leased.head, 3), &payload(b"{}"));
    store.append(&leased.key, &leased.head, &first).await.unwrap();
    (db, store, leased.key)
}

#[tokio::test]
async fn a_writer_role_touches_no_table() {
    let (db, _store, _) = written().await;
    let mut writer = raw(&db.writer_url).await;
    let tables = [
        "entry",
        "entry_p0",
        "entry_p3",
        "entry_p0_0",
        "head",
        "checkpoint",
        "payload",
        "chain",
        "open_run",
        "writer_tenant",
        "reader_tenant",
        "schema_version",
        "pool_window",
        "pool_gate",
        "pool_hold",
    ];
    for table in tables {
        for sql in [
            format!("SELECT * FROM ledger.{table}"),
            format!("INSERT INTO ledger.{table} DEFAULT VALUES"),
            format!("DELETE FROM ledger.{table}"),
            format!("TRUNCATE ledger.{table} CASCADE"),
        ] {
            let why = run(&mut writer, &sql).await.expect_err(&sql);
            assert!(why.starts_with("42501"), "{sql}: {why}");
        }
    }
    for sql in [
        "UPDATE ledger.entry SET kind = 'x'",
        "UPDATE ledger.head SET epoch = 99",
        "ALTER TABLE ledger.entry DISABLE TRIGGER ALL",
        "DROP TABLE ledger.entry",
        "SET ROLE ledger_owner",
        "SELECT ledger.erase_payload('', '')",
        "SELECT ledger.held('', 1, '', false)",
        "SELECT ledger.reader_sees('default')",
    ] {
        let why = run(&mut writer, sql).await.expect_err(sql);
        assert!(why.starts_with("42501"), "{sql}: {why}");
    }
}

#[tokio::test]
async fn a_writer_role_cannot_touch_another_tenant_even_with_the_secret() {
    let (db, store, key) = written().await;
    let other = connect(&db.other_writer_url).await;
    // The stolen key of the tenant `default`, shown by the role of `other`.
    let head = store.head(&key).await.unwrap();
    let next = beats(&head, 1);
    let fenced = [
        other.append(&key, &head, &next).await.unwrap_err(),
        other.put_payload(&key, &payload(b"x")).await.unwrap_err(),
        other.release(&key).await.unwrap_err(),
        other.head(&key).await.unwrap_err(),
        other.tail(&key, 0, 9).await.unwrap_err(),
        other.payload(&key, &PayloadRef::of(2, &payload(b"{}").commitment)).await.unwrap_err(),
    ];
    for error in fenced {
        assert!(matches!(error, StoreError::Conflict(_)), "{error:?}");
    }
    let error = other.lease(&request(2)).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Unavailable(why) if why.starts_with("42501")),
        "{error:?}"
    );
    let mut mine = request(2);
    mine.tenant = "other".into();
    let leased = other.lease(&mine).await.unwrap();
    assert_eq!(leased.origin, "wicketgate.dev/other/local/0/0");
}

#[tokio::test]
async fn a_role_that_writes_for_no_tenant_can_do_nothing() {
    let (db, _, key) = written().await;
    let mut admin = raw(&db.admin_url).await;
    run(&mut admin, "DELETE FROM ledger.writer_tenant WHERE role = 'wg_writer'").await.unwrap();
    let store = connect(&db.writer_url).await;
    for error in [store.lease(&request(2)).await.unwrap_err(), store.head(&key).await.unwrap_err()]
    {
        assert!(
            matches!(&error, StoreError::Unavailable(why) if why.starts_with("42501")),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_reader_sees_its_tenants_and_changes_nothing() {
    let (db, _, key) = written().await;
    let all = PostgresReader::connect(&db.reader_url).await.unwrap();
    assert_eq!(all.entries(&key.chain, 0, 9).await.unwrap().len(), 3);
    let other = PostgresReader::connect(&db.other_reader_url).await.unwrap();
    let c = payload(b"{}").commitment;
    assert_eq!(other.chains().await.unwrap(), []);
    assert_eq!(other.entries(&key.chain, 0, 9).await.unwrap(), []);
    assert_eq!(other.leaf_hashes(&key.chain, 9).await.unwrap(), []);
    assert_eq!(other.payload(&key.chain, &PayloadRef::of(2, &c)).await.unwrap(), None);
    assert_eq!(other.checkpoint(&key.chain, 0).await.unwrap(), None);
    let mut reader = raw(&db.reader_url).await;
    for sql in [
        "SELECT * FROM ledger.entry_p0",
        "SELECT * FROM ledger.entry_p0_0",
        "SELECT secret_hash FROM ledger.head",
        "DELETE FROM ledger.payload",
        "UPDATE ledger.entry SET kind = 'x'",
        "SELECT * FROM ledger.lease('default', 'local', 'x', NULL, NULL, '', '', 1)",
    ] {
        let why = run(&mut reader, sql).await.expect_err(sql);
        assert!(why.starts_with("42501"), "{sql}: {why}");
    }
}

#[tokio::test]
async fn even_the_owner_is_refused_by_the_triggers_of_every_partition() {
    let (db, ..) = written().await;
    let mut admin = raw(&db.admin_url).await;
    for mode in ["origin", "replica"] {
        run(&mut admin, &format!("SET session_replication_role = {mode}")).await.unwrap();
        let tables = "entry entry_p0 entry_p1 entry_p2 entry_p3 entry_p0_0 entry_p1_0 entry_p2_0 \
                      entry_p3_0 checkpoint head";
        for table in tables.split_whitespace() {
            let sql = format!("TRUNCATE ledger.{table}");
            let why = run(&mut admin, &sql).await.expect_err(&sql);
            assert!(why.contains("append-only"), "{mode}: {sql}: {why}");
        }
        for sql in [
            "UPDATE ledger.entry SET kind = 'x'",
            "DELETE FROM ledger.entry",
            "UPDATE ledger.checkpoint SET note = ''",
            "DELETE FROM ledger.checkpoint",
            "UPDATE ledger.payload SET body = ''",
            "DELETE FROM ledger.head",
            "UPDATE ledger.head SET size = 1",
            "UPDATE ledger.head SET epoch = 0",
            "UPDATE ledger.head SET head_hash = sha256('')",
        ] {
            let why = run(&mut admin, sql).await.expect_err(sql);
            assert!(why.starts_with("42501"), "{mode}: {sql}: {why}");
        }
        // The partition that holds the rows, named directly.
        let mut refused = 0;
        for p in 0..4 {
            let sql = format!("DELETE FROM ledger.entry_p{p}");
            refused += u32::from(run(&mut admin, &sql).await.is_err());
        }
        assert_eq!(refused, 1, "one chain lies in one partition");
    }
    assert_eq!(count(&db, "ledger.entry").await, 3);
}

#[tokio::test]
async fn the_database_checks_the_hashes_itself() {
    let (db, ..) = written().await;
    let mut admin = raw(&db.admin_url).await;
    let insert =
        "INSERT INTO ledger.entry SELECT chain_id, 3, leaf_hash, leaf_hash, NULL, NULL, kind, '{}'
                    FROM ledger.entry WHERE seq = 2";
    let why = run(&mut admin, insert).await.unwrap_err();
    assert!(why.starts_with("23514"), "{why}");
}

#[tokio::test]
async fn settings_that_lose_commits_are_refused_at_the_start_and_at_every_write() {
    let (db, store, key) = written().await;
    let good = store.assert_durable().await.unwrap();
    assert!(good.values.contains(&("synchronous_commit".into(), "on".into())));
    assert!(good.values.contains(&("fsync".into(), "on".into())));
    let name = db.admin_url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let mut admin = raw(&db.admin_url).await;
    for value in ["off", "local", "remote_write"] {
        let sql = format!("ALTER DATABASE {name} SET synchronous_commit = {value}");
        run(&mut admin, &sql).await.unwrap();
        let weak = connect(&db.writer_url).await;
        let error = weak.assert_durable().await.unwrap_err();
        assert!(error.to_string().contains("synchronous_commit"), "{error}");
        let head = store.head(&key).await.unwrap();
        let error = weak.append(&key, &head, &beats(&head, 1)).await.unwrap_err();
        assert!(
            matches!(&error, StoreError::Unavailable(why) if why.starts_with("WG002")),
            "{error:?}"
        );
    }
    let remote = format!("ALTER DATABASE {name} SET synchronous_commit = remote_apply");
    run(&mut admin, &remote).await.unwrap();
    connect(&db.writer_url).await.assert_durable().await.unwrap();
    assert_eq!(count(&db, "ledger.entry").await, 3);
}

#[tokio::test]
async fn a_read_only_database_refuses_and_nothing_is_written() {
    let (db, store, key) = written().await;
    let name = db.admin_url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let mut admin = raw(&db.admin_url).await;
    let sql = format!("ALTER DATABASE {name} SET default_transaction_read_only = on");
    run(&mut admin, &sql).await.unwrap();
    let head = store.head(&key).await.unwrap();
    let weak = connect(&db.writer_url).await;
    let error = weak.append(&key, &head, &beats(&head, 1)).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Unavailable(why) if why.starts_with("25006")),
        "{error:?}"
    );
    assert!(weak.assert_durable().await.is_err());
}

#[tokio::test]
async fn migrating_again_and_at_the_same_time_changes_nothing() {
    let db = Pg::cluster().empty_database().await;
    let unmigrated = PostgresStore::connect(&db.admin_url, Options::default()).await.unwrap_err();
    assert!(matches!(unmigrated, StoreError::Unavailable(_)), "{unmigrated:?}");
    let login = |password: Option<&str>| Login::Writer {
        name: "it's \"me\"".into(),
        password: password.map(str::to_owned),
        tenant: "o'hara".into(),
    };
    let logins = [login(Some("p'w\\"))];
    let all = join_all((0..4).map(|_| migrate(&db.admin_url, &logins))).await;
    let first: Vec<u64> = all.into_iter().map(|m| m.unwrap().from).collect();
    assert_eq!(first.iter().filter(|from| **from == 0).count(), 1, "{first:?}");
    let again = migrate(&db.admin_url, &[login(None)]).await.unwrap();
    assert_eq!((again.from, again.to), (SCHEMA_VERSION, SCHEMA_VERSION));
    assert!(again.quiet);
    assert_eq!(count(&db, "ledger.writer_tenant WHERE tenant = 'o''hara'").await, 1);
}

#[tokio::test]
async fn a_statement_that_waits_too_long_is_aborted_and_may_be_tried_again() {
    let (db, store, key) = written().await;
    let head = store.head(&key).await.unwrap();
    let next = beats(&head, 1);
    let mut admin = raw(&db.admin_url).await;
    run(&mut admin, "BEGIN; LOCK ledger.head").await.unwrap();
    let error = store.append(&key, &head, &next).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Unavailable(why) if why.starts_with("57014")),
        "{error:?}"
    );
    run(&mut admin, "ROLLBACK").await.unwrap();
    store.append(&key, &head, &next).await.unwrap();
    assert_eq!(count(&db, "ledger.entry").await, 4);
}

#[tokio::test]
async fn an_answer_lost_after_commit_is_unknown_and_leaves_exactly_one_copy() {
    let db = Pg::cluster().database().await;
    let port = Pg::cluster().port();
    let proxy = Proxy::to(port).await;
    let url = db.writer_url.replace(&format!(":{port}/"), &format!(":{}/", proxy.port));
    let store = connect(&url).await;
    let leased = lease(&store, 1).await;
    let first = beats(&leased.head, 3);
    proxy.lose_answers(true);
    let error = store.append(&leased.key, &leased.head, &first).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    proxy.lose_answers(false);
    assert_eq!(store.head(&leased.key).await.unwrap(), first.head);
    store.append(&leased.key, &leased.head, &first).await.unwrap();
    assert_eq!(store.tail(&leased.key, 0, 9).await.unwrap(), first.entries);
    assert_eq!(count(&db, "ledger.checkpoint").await, 1);
}

#[tokio::test]
async fn a_backend_that_is_terminated_leaves_the_outcome_unknown_never_refused() {
    let (db, store, key) = written().await;
    let store = Arc::new(store);
    let head = store.head(&key).await.unwrap();
    let next = beats(&head, 1);
    let mut admin = raw(&db.admin_url).await;
    run(&mut admin, "BEGIN; LOCK ledger.head").await.unwrap();
    let appending = {
        let (store, key, head, next) =
            (Arc::clone(&store), key.clone(), head.clone(), Arc::clone(&next));
        tokio::spawn(async move { store.append(&key, &head, &next).await })
    };
    let kill =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                  AND datname = current_database() AND application_name = 'wicketgate'";
    while sqlx::raw_sql(kill).fetch_optional(&mut admin).await.unwrap().is_none() {
        // The server's own clock paces this: the backend is not waiting for the lock yet.
        run(&mut admin, "SELECT pg_stat_clear_snapshot()").await.unwrap();
    }
    let error = appending.await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    run(&mut admin, "ROLLBACK").await.unwrap();
    store.append(&key, &head, &next).await.unwrap();
    assert_eq!(count(&db, "ledger.entry").await, 4);
}

#[tokio::test]
async fn a_server_that_stops_at_once_loses_nothing_it_acknowledged() {
    let pg = Pg::own_cluster();
    let db = pg.database().await;
    let store = connect(&db.writer_url).await;
    let leased = lease(&store, 1).await;
    let first = beats(&leased.head, 5);
    store.append(&leased.key, &leased.head, &first).await.unwrap();
    pg.stop_immediate();
    let second = beats(&first.head, 1);
    // The connection that died: nobody can tell. A new one: nothing was sent.
    let error = store.append(&leased.key, &first.head, &second).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    let error = store.append(&leased.key, &first.head, &second).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    let error = store.head(&leased.key).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    pg.start();
    assert_eq!(store.head(&leased.key).await.unwrap(), first.head);
    store.append(&leased.key, &first.head, &second).await.unwrap();
    assert_eq!(store.tail(&leased.key, 0, 9).await.unwrap().len(), 6);
}

#[tokio::test]
async fn a_writer_has_two_connections_at_most() {
    let (db, store, key) = written().await;
    let mut head = store.head(&key).await.unwrap();
    for _ in 0..5 {
        let next = beats(&head, 1);
        let none = PayloadRef::of(0, &next.head.hash);
        let many = (0..6).map(|_| store.payload(&key, &none));
        let (appended, read) = tokio::join!(store.append(&key, &head, &next), join_all(many));
        appended.unwrap();
        assert!(read.iter().all(Result::is_ok));
        head = next.head.clone();
    }
    let open = count(
        &db,
        "pg_stat_activity WHERE datname = current_database() AND application_name = 'wicketgate'",
    );
    assert!((1..=2).contains(&open.await));
}

#[tokio::test]
async fn a_frozen_server_is_answered_for_in_bounded_time() {
    let pg = Pg::own_cluster();
    let db = pg.database().await;
    let store = connect(&db.writer_url).await;
    let leased = lease(&store, 1).await;
    let first = beats(&leased.head, 2);
    pg.freeze();
    // How soon is a matter of this machine; that they come at all while the server is frozen is not.
    let answers = async {
        let error = store.append(&leased.key, &leased.head, &first).await.unwrap_err();
        assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
        // Not yet connected: nothing was sent, and that is known.
        let error = store.append(&leased.key, &leased.head, &first).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        let error = store.head(&leased.key).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    };
    tokio::time::timeout(Duration::from_secs(120), answers)
        .await
        .expect("answers while it is frozen");
    pg.thaw();
    store.append(&leased.key, &leased.head, &first).await.unwrap();
    assert_eq!(store.tail(&leased.key, 0, 9).await.unwrap(), first.entries);
}

#[tokio::test]
async fn nothing_a_writer_sends_is_in_the_log_of_the_database_server() {
    // The log of a server that serves nobody else.
    let pg = Pg::own_cluster();
    let db = pg.database().await;
    let store = connect(&db.writer_url).await;
    let old = lease(&store, 1).await;
    let mut again = request(2);
    again.previous = Some(old.key.clone());
    store.lease(&again).await.unwrap();
    let first = with(beats(&old.head, 1), &payload(b"a secret of somebody"));
    assert!(store.append(&old.key, &old.head, &first).await.is_err());
    let log = pg.log();
    assert!(log.contains("fenced"), "{log}");
    assert!(!log.contains("STATEMENT") && !log.contains("append_batch("), "{log}");
    assert!(!log.contains(&hex::encode("secret of somebody")), "{log}");
}

/// Makes every append fail with this SQLSTATE, the first `times` times.
async fn sabotage(admin: &mut PgConnection, code: &str, times: u32) {
    let sql = format!(
        "DROP SEQUENCE IF EXISTS public.tries; CREATE SEQUENCE public.tries;
         GRANT ALL ON SEQUENCE public.tries TO PUBLIC;
         CREATE OR REPLACE FUNCTION public.sabotage() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           IF nextval('public.tries') <= {times} THEN RAISE 'sabotage' USING ERRCODE = '{code}'; END IF;
           RETURN NEW; END $$;
         CREATE OR REPLACE TRIGGER sabotage BEFORE INSERT ON ledger.checkpoint
           FOR EACH ROW EXECUTE FUNCTION public.sabotage()"
    );
    run(admin, &sql).await.unwrap();
}

#[tokio::test]
async fn every_answer_of_the_server_means_what_it_proves() {
    let (db, store, key) = written().await;
    let head = store.head(&key).await.unwrap();
    let next = beats(&head, 1);
    let mut admin = raw(&db.admin_url).await;
    for (code, word) in [
        ("53100", "not written, no space"),
        ("53200", "not written: 53200"),
        ("25006", "not written: 25006"),
        ("58030", "not written: 58030"),
        ("WG001", "fenced"),
        ("XX001", "storage failed"),
        ("XX002", "storage failed"),
    ] {
        sabotage(&mut admin, code, 1).await;
        let error = store.append(&key, &head, &next).await.unwrap_err().to_string();
        assert!(error.starts_with(word), "{code}: {error}");
        assert_eq!(store.head(&key).await.unwrap(), head, "{code}");
    }
    assert_eq!(count(&db, "ledger.entry").await, 3);
}

#[tokio::test]
async fn a_serialization_failure_is_tried_again_at_once_and_not_for_ever() {
    let (db, store, key) = written().await;
    let head = store.head(&key).await.unwrap();
    let next = beats(&head, 1);
    let mut admin = raw(&db.admin_url).await;
    for code in ["40001", "40P01"] {
        sabotage(&mut admin, code, 1000).await;
        let error = store.append(&key, &head, &next).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        let tries = "SELECT last_value AS n FROM public.tries";
        let row = sqlx::raw_sql(tries).fetch_one(&mut admin).await.unwrap();
        assert_eq!(row.get::<i64, _>("n"), 3);
    }
    sabotage(&mut admin, "40001", 2).await;
    store.append(&key, &head, &next).await.unwrap();
    assert_eq!(count(&db, "ledger.entry").await, 4);
}
