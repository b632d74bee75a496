//! Two replicas of a hub, with their sessions in one database.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use wicketgate::clock::SystemClock;
use wicketgate::domain::code::Code;
use wicketgate::session::{PostgresSessions, SessionStore};
use wicketgate_support::pg::{Pg, TestDb};
use wicketgate_support::tokens::TokenSigner;

use crate::api::{ApiServer, Extras, token};
use crate::browser::Browser;
use crate::issuer::FakeIssuer;
use crate::live::stream;
use crate::oidc::ines;
use crate::sessions::assert_out;

async fn replica(url: &str, issuer: Option<&FakeIssuer>) -> ApiServer {
    let store: Arc<dyn SessionStore> = Arc::new(PostgresSessions::lazy(url).unwrap());
    let oidc = issuer.map(|issuer| issuer.settings("http://localhost"));
    let members = issuer.map(ines).into_iter().collect();
    let extras = Extras { members, oidc, sessions: Some(store), ..Extras::default() };
    ApiServer::with("default", Arc::new(SystemClock::new()), extras).await
}

/// The same browser at another replica.
fn at<'a>(api: &'a ApiServer, browser: &Browser<'_>) -> Browser<'a> {
    Browser { api, cookie: browser.cookie.clone() }
}

async fn admin(db: &TestDb, sql: &str) -> u64 {
    let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
    let done = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut admin).await;
    done.unwrap().rows_affected()
}

async fn sessions(db: &TestDb) -> i64 {
    let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
    let count = sqlx::query_scalar("SELECT count(*) FROM console.session");
    count.fetch_one(&mut admin).await.unwrap()
}

#[tokio::test]
async fn a_replica_serves_the_session_of_another_one_until_either_of_them_ends_it() {
    let db = Pg::cluster().database().await;
    let (one, two) = (replica(&db.operator_url, None).await, replica(&db.operator_url, None).await);
    let first = Browser::of(&one, "otto").await;
    let second = at(&two, &first);
    assert_eq!(second.get("/console").await.status, 200);
    // A form of one replica is good at the other: its token is of the session.
    let form = first.get("/console/logout").await.token("/console/logout");
    assert_out(&second.send("/console/logout", &[("form", &form)]).await);
    assert_out(&first.get("/console").await);
    assert_out(&second.get("/console").await);
    assert_eq!(sessions(&db).await, 0);
}

#[tokio::test]
async fn a_login_goes_on_at_another_replica_once() {
    let db = Pg::cluster().database().await;
    let issuer = FakeIssuer::start(TokenSigner::ec("one")).await;
    let one = replica(&db.operator_url, Some(&issuer)).await;
    let two = replica(&db.operator_url, Some(&issuer)).await;
    let mut browser = Browser::new(&one);
    let begun = browser.get("/console/login/oidc").await;
    browser.cookie = begun.cookies()[0].split(';').next().unwrap().to_owned();
    let answer = issuer.visit(begun.header("location").unwrap());
    let line = format!("GET /console/login/oidc/callback?{}", answer.query().unwrap());
    let came = at(&two, &browser).raw(&line, "Sec-Fetch-Site: cross-site\r\n", "").await;
    assert_eq!(came.status, 200, "{}", came.body);
    let again = browser.raw(&line, "Sec-Fetch-Site: cross-site\r\n", "").await;
    assert_eq!(again.status, 401, "{}", again.body);
    let begun = browser.get("/console/login/oidc").await;
    browser.cookie = begun.cookies()[0].split(';').next().unwrap().to_owned();
    admin(&db, "UPDATE console.login SET began = began - interval '10 minutes'").await;
    let answer = issuer.visit(begun.header("location").unwrap());
    let line = format!("GET /console/login/oidc/callback?{}", answer.query().unwrap());
    assert_eq!(browser.raw(&line, "", "").await.status, 401, "too late");
}

#[tokio::test]
async fn a_session_in_the_database_ends_when_it_is_not_used_and_after_eight_hours_and_is_removed() {
    let db = Pg::cluster().database().await;
    let api = replica(&db.operator_url, None).await;
    let browser = Browser::of(&api, "otto").await;
    let back = |what: &str, by: &str| {
        format!("UPDATE console.session SET {what} = {what} - interval '{by}'")
    };
    admin(&db, &back("seen", "14 minutes 50 seconds")).await;
    assert_eq!(browser.get("/console").await.status, 200, "and used by this");
    admin(&db, &back("seen", "15 minutes")).await;
    assert_out(&browser.get("/console").await);
    let used = Browser::of(&api, "otto").await;
    assert_eq!(sessions(&db).await, 1, "what is over is removed");
    admin(&db, &back("began", "7 hours 59 minutes")).await;
    assert_eq!(used.get("/console").await.status, 200);
    admin(&db, &back("began", "1 minute")).await;
    assert_out(&used.get("/console").await);
    // One more than an operator may have ends the one used the longest ago; another operator's stays.
    let anna = Browser::of(&api, "anna").await;
    admin(&db, &back("seen", "1 minute")).await;
    let first = Browser::of(&api, "otto").await;
    for _ in 0..16 {
        Browser::of(&api, "otto").await;
    }
    assert_out(&first.get("/console").await);
    assert_eq!(anna.get("/console").await.status, 200);
    assert_eq!(sessions(&db).await, 17);
}

#[tokio::test]
async fn a_stream_does_not_outlive_its_session_in_the_database_nor_keep_it_open() {
    let db = Pg::cluster().database().await;
    let (one, two) = (replica(&db.operator_url, None).await, replica(&db.operator_url, None).await);
    let first = Browser::of(&one, "otto").await;
    let mut events = stream(&first).await;
    assert_eq!(events.next().await.unwrap().name, "head");
    let second = at(&two, &first);
    let form = second.get("/console/logout").await.token("/console/logout");
    assert_out(&second.send("/console/logout", &[("form", &form)]).await);
    assert_eq!(events.event().await, None, "ended at the other replica");
    let idle = Browser::of(&one, "otto").await;
    let mut events = stream(&idle).await;
    assert_eq!(events.next().await.unwrap().name, "head");
    admin(&db, "UPDATE console.session SET seen = seen - interval '15 minutes'").await;
    assert_eq!(events.event().await, None, "a stream is no use of a session");
    let browser = Browser::of(&one, "otto").await;
    let mut events = stream(&browser).await;
    assert_eq!(events.next().await.unwrap().name, "head");
    admin(&db, "ALTER FUNCTION console.session_peek RENAME TO hidden").await;
    assert_eq!(events.event().await, None, "a session that cannot be looked up opens nothing");
    assert_eq!(stream(&browser).await.status(), 503);
}

#[tokio::test]
async fn the_database_has_digests_and_only_those_who_order_reach_the_sessions_of_their_tenant() {
    let db = Pg::cluster().database().await;
    let api = replica(&db.operator_url, None).await;
    let browser = Browser::of(&api, "otto").await;
    let mut owner = PgConnection::connect(&db.admin_url).await.unwrap();
    let row: String = sqlx::query_scalar("SELECT s::text FROM console.session s")
        .fetch_one(&mut owner)
        .await
        .unwrap();
    let id = browser.cookie.split_once('=').unwrap().1;
    let digest = wicketgate::domain::digest::Digest::of(&[&hex::decode(id).unwrap()]).hex();
    assert!(row.contains(&digest) && !row.contains(id) && !row.contains(&token("otto")), "{row}");
    for url in [&db.writer_url, &db.reader_url, &db.operator_url] {
        let mut login = PgConnection::connect(url).await.unwrap();
        for table in ["session", "login"] {
            for sql in [
                format!("SELECT * FROM console.{table}"),
                format!("DELETE FROM console.{table}"),
                format!("INSERT INTO console.{table} DEFAULT VALUES"),
            ] {
                let refused = sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&mut login).await;
                let why = refused.unwrap_err().to_string();
                assert!(why.contains("permission denied"), "{url}: {sql}: {why}");
            }
        }
    }
    // A gate's login is none for sessions.
    let gate = PostgresSessions::lazy(&db.writer_url).unwrap();
    let id = wicketgate::domain::digest::Digest::of(&[&hex::decode(id).unwrap()]);
    assert!(gate.find(&id).await.is_err());
    assert!(gate.end(&id).await.is_err());
    // The operator of another tenant has another table as far as it can tell.
    let moved = "UPDATE ledger.writer_tenant SET tenant = 'other' WHERE role = 'wg_operator'";
    admin(&db, moved).await;
    assert_out(&browser.get("/console").await);
    assert_out(&Browser::new(&api).get("/console").await);
    admin(&db, &moved.replace("'other'", "'default'")).await;
    assert_eq!(browser.get("/console").await.status, 200);
}

#[tokio::test]
async fn con_011_a_database_that_does_not_answer_is_a_503_and_never_a_person() {
    let db = Pg::cluster().database().await;
    let issuer = FakeIssuer::start(TokenSigner::ed("one")).await;
    let api = replica(&db.operator_url, Some(&issuer)).await;
    let browser = Browser::of(&api, "otto").await;
    let form = browser.get("/console/logout").await.token("/console/logout");
    admin(&db, "ALTER FUNCTION console.session_find RENAME TO hidden").await;
    for path in ["/console", "/console/logout", "/console/orders/new"] {
        let seen = browser.get(path).await;
        assert_eq!((seen.status, seen.cookies().len()), (503, 0), "{path}: {}", seen.body);
        assert!(!seen.body.contains("otto"), "{}", seen.body);
    }
    let out = browser.send("/console/logout", &[("form", &form)]).await;
    assert_eq!((out.status, out.cookies().len()), (503, 0), "{}", out.body);
    let login = Browser::new(&api).log_in(&token("anna")).await;
    assert_eq!((login.status, login.cookies().len()), (303, 1), "only finding fails");
    admin(&db, "ALTER FUNCTION console.hidden RENAME TO session_find").await;
    admin(&db, "ALTER FUNCTION console.session_end RENAME TO hidden").await;
    let out = browser.send("/console/logout", &[("form", &form)]).await;
    assert_eq!((out.status, out.cookies().len()), (503, 0), "not said to be over: {}", out.body);
    assert_eq!(browser.get("/console").await.status, 200);
    admin(&db, "DROP FUNCTION console.session_begin, console.login_begin").await;
    let login = Browser::new(&api).log_in(&token("anna")).await;
    assert_eq!((login.status, login.cookies().len()), (503, 0), "{}", login.body);
    let login = Browser::new(&api).get("/console/login/oidc").await;
    assert_eq!((login.status, login.cookies().len()), (503, 0), "{}", login.body);
    assert!(api.refused.lock().iter().all(|code| *code == Code::LedgerUnavailable));
}
