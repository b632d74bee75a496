//! The same on PostgreSQL, where the roles decide who may erase.

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use wicketgate::ledger::postgres::{Login, migrate};

use crate::checker::check;
use crate::keeper::{IBAN, Keeper, holds, olga};
use wicketgate_support::pg::{Pg, TestDb};

async fn database() -> (TestDb, String) {
    let pg = tokio::task::spawn_blocking(Pg::cluster).await.unwrap();
    let db = pg.database().await;
    let eraser = Login::Eraser { name: "wg_eraser".to_owned(), password: None };
    migrate(&db.admin_url, &[eraser]).await.unwrap();
    let url = db.reader_url.replace("wg_reader@", "wg_eraser@");
    assert_ne!(url, db.reader_url);
    (db, url)
}

/// All bytes of the payload table, and of the spool beside the sidecar.
async fn stored(keeper: &Keeper, db: &TestDb) -> Vec<u8> {
    let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
    let sql =
        "SELECT salt || convert_to(role || media_type, 'UTF8') || body AS all FROM ledger.payload";
    let rows = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(&mut admin).await.unwrap();
    let mut bytes: Vec<u8> = rows.iter().flat_map(|row| row.get::<Vec<u8>, _>(0)).collect();
    for entry in std::fs::read_dir(keeper.path("state/spool")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for word in text.split('"') {
            use base64::Engine as _;
            let decoded = base64::engine::general_purpose::STANDARD.decode(word);
            bytes.extend(decoded.unwrap_or_default());
        }
        bytes.extend(text.into_bytes());
    }
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eraser_erases_and_a_writer_or_a_reader_cannot() {
    let (db, eraser) = database().await;
    let keeper = Keeper::postgres(&db).await;
    std::fs::write(keeper.path("eraser.url"), &eraser).unwrap();
    let (mut sidecar, agent) = keeper.served(3).await;
    agent.seal().await.unwrap();
    assert!(holds(&stored(&keeper, &db).await, IBAN));
    let erase =
        |url: &str| keeper.try_erase(olga(), &["--run", &agent.run, "--eraser-url-file", url]);
    let refused = erase("reader.url");
    assert_ne!(refused.code, 0, "{refused:?}");
    // The record stands and the rows too: the next one finishes it.
    let done = erase("eraser.url");
    assert!(done.code == 0 && done.out.contains("9 payloads erased"), "{done:?}");
    assert!(done.out.contains("VACUUM"), "it says what it cannot do: {done:?}");
    let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
    let count = "SELECT count(*) FROM ledger.payload";
    let row = sqlx::raw_sql(AssertSqlSafe(count.to_owned())).fetch_one(&mut admin).await.unwrap();
    assert_eq!(row.get::<i64, _>(0), 0);
    sidecar.stop().await;
    check(&keeper.estate.database, &keeper.tool, &keeper.estate.receipts);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_key_neither_the_database_nor_the_spool_holds_plain_text() {
    let (db, _) = database().await;
    let keeper = Keeper::postgres(&db).await;
    keeper.encrypt("payload.key", &[]);
    let (_sidecar, agent) = keeper.served(5).await;
    let bytes = stored(&keeper, &db).await;
    assert!(bytes.len() > 5000 && !holds(&bytes, IBAN) && !holds(&bytes, "note-0003-end"));
    let ran = keeper.tool.count();
    let again = agent.call("work.do", "c3", &crate::keeper::args(3)).await.unwrap();
    assert!(again.contains(IBAN) && keeper.tool.count() == ran);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_an_incognito_run_is_in_the_database_or_the_spool() {
    let (db, _) = database().await;
    let keeper = Keeper::postgres(&db).await;
    keeper.grant_incognito("allowed");
    let _sidecar = keeper.estate.serve().await;
    let agent = keeper.open_incognito().await;
    assert!(agent.call("work.do", "c", &crate::keeper::args(1)).await.unwrap().contains(IBAN));
    assert!(!holds(&stored(&keeper, &db).await, IBAN));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_with_other_bytes_is_a_conflict_whether_or_not_arguments_are_stored() {
    let (db, eraser) = database().await;
    let keeper = Keeper::postgres(&db).await;
    std::fs::write(keeper.path("eraser.url"), &eraser).unwrap();
    let from = ["--eraser-url-file", "eraser.url"];
    crate::incognito::nothing_is_taken_for_another_call(&keeper, &from).await;
}
