//! What an operator is told of databases before anybody asks them anything.

use serde_json::{Value, json};

use crate::bench::{Bench, number, own, pg_tool};
use crate::keeper::Keeper;
use crate::private::private;
use wicketgate_support::pg::Pg;

/// What is shipped for owners of databases, as they run it.
pub const REVOKE: &str = include_str!("../../examples/sql/revoke.sql");

/// The picture of these tools, and how the command ended.
fn probed(keeper: &Keeper, tools: &[Value]) -> (Value, i32) {
    keeper.estate.configure(|config| config["tools"] = json!(tools));
    let ended = keeper.ask(&["tools", "probe", "--json"]);
    let picture: Value = serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:?}"));
    for secret in ["reader-password-1", "super-password-1"] {
        assert!(!ended.out.contains(secret) && !ended.err.contains(secret), "{ended:?}");
    }
    (picture, ended.code)
}

fn row<'a>(picture: &'a Value, name: &str) -> &'a Value {
    let rows = picture["tools"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {picture}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_fit_is_ready_and_its_read_only_transactions_were_tried() {
    let (keeper, admin_url, _, tools) = Bench::furnished(Pg::cluster(), &[]).await;
    own(&admin_url, REVOKE).await;
    let (picture, code) = probed(&keeper, &tools);
    assert_eq!(code, 0, "{picture}");
    let pg = row(&picture, "sql.pg")["points"].to_string();
    for part in [
        "none that runs a text as SQL",
        "without TLS",
        "may write to no table",
        "tried to leave one and could not",
    ] {
        assert!(pg.contains(part), "`{part}` is not in {pg}");
    }
    let database = row(&picture, "sql.books")["points"].to_string();
    assert!(
        database.contains("it may write") && !database.contains("tried to leave"),
        "{database}"
    );
    let lite = |name| row(&picture, name)["points"].to_string();
    assert!(lite("sql.lite").contains("for reading alone"));
    assert!(lite("sql.lite_books").contains("for reading and writing"));
    for sql in ["SELECT count(*) - 3 FROM orders", "SELECT count(*) FROM canary"] {
        assert_eq!(number(&admin_url, sql).await, 0, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_too_much_is_unfit_and_one_that_is_not_let_in_is_unreached() {
    let roles = [("super", "SUPERUSER", "")];
    let (keeper, admin_url, suffix, mut tools) = Bench::furnished(Pg::cluster(), &roles).await;
    own(&admin_url, REVOKE).await;
    tools.truncate(1);
    let none = admin_url.replace("//postgres@", &format!("//none_{suffix}:reader-password-1@"));
    private(keeper.path("none.url"), none);
    let closed = "postgres://none:reader-password-1@127.0.0.1:1/x?sslmode=disable";
    private(keeper.path("closed.url"), closed);
    for (file, state, ends, says) in [
        ("super.url", "unfit", 1, "is a superuser"),
        ("writer.url", "unfit", 1, "may write to public.orders"),
        ("none.url", "unreached", 2, "does not exist"),
        ("closed.url", "unreached", 2, "does not answer"),
    ] {
        let mut both = tools.clone();
        both.push(pg_tool("sql.x", file, json!({"tables": ["public.t"]})));
        let (picture, code) = probed(&keeper, &both);
        assert_eq!(code, ends, "{file}: {picture}");
        let broken = row(&picture, "sql.x");
        assert_eq!(broken["state"], state, "{file}: {broken}");
        assert!(broken["points"].to_string().contains(says), "`{says}`: {broken}");
        assert!(broken["points"].to_string().contains("\"todo\":\""), "{broken}");
        assert_eq!(row(&picture, "sql.pg")["state"], "ready");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_call_what_runs_texts_locks_or_waits_is_unfit_until_that_is_revoked() {
    let (keeper, admin_url, suffix, mut tools) = Bench::furnished(Pg::cluster(), &[]).await;
    tools.truncate(1);
    let (picture, code) = probed(&keeper, &tools);
    assert_eq!((code, &row(&picture, "sql.pg")["state"]), (1, &json!("unfit")), "{picture}");
    let points = row(&picture, "sql.pg")["points"].to_string();
    for name in ["ts_stat", "query_to_xml", "lo_get", "pg_advisory_lock", "pg_sleep", "revoke.sql"]
    {
        assert!(points.contains(name), "`{name}` is not in {points}");
    }
    own(&admin_url, REVOKE).await;
    assert_eq!(probed(&keeper, &tools).1, 0);
    // What is given back to the role, or added beside, is seen.
    own(&admin_url, &format!("GRANT EXECUTE ON FUNCTION ts_stat(text) TO reader_{suffix}")).await;
    let (picture, code) = probed(&keeper, &tools);
    assert!(code == 1 && picture.to_string().contains("it may call ts_stat\""), "{picture}");
    own(&admin_url, &format!("REVOKE EXECUTE ON FUNCTION ts_stat(text) FROM reader_{suffix}"))
        .await;
    let dblink = "CREATE FUNCTION dblink(text) RETURNS int LANGUAGE sql AS 'SELECT 1'";
    own(&admin_url, dblink).await;
    let (picture, code) = probed(&keeper, &tools);
    assert!(code == 1 && picture.to_string().contains("it may call dblink\""), "{picture}");
}
