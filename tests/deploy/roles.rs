//! `deploy/postgres`: the roles of `cluster.yaml`, made in a database as CloudNativePG makes them, and then the migration as the chart
//! starts it.

use std::collections::BTreeSet;

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};

use crate::top;
use wicketgate_support::pg::Pg;
use wicketgate_support::ran::Ran;

fn yaml(path: &str) -> Value {
    let text = std::fs::read_to_string(top(path)).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

fn words(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .map_or_else(Vec::new, |all| all.iter().map(|one| one.as_str().unwrap()).collect())
}

async fn run(conn: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
}

/// (member, group) of every role that is not the server's own.
async fn members(conn: &mut PgConnection) -> BTreeSet<(String, String)> {
    let sql = "SELECT m.rolname AS member, g.rolname AS held FROM pg_auth_members a
               JOIN pg_roles m ON m.oid = a.member JOIN pg_roles g ON g.oid = a.roleid
               WHERE m.oid >= 16384";
    let rows = sqlx::raw_sql(sql).fetch_all(conn).await.unwrap();
    rows.iter().map(|row| (row.get("member"), row.get("held"))).collect()
}

/// The options that the chart's migration gets from these values.
fn logins(values: &Value) -> Vec<String> {
    let mut given = Vec::new();
    for (list, option) in [("writers", "writer"), ("operators", "operator")] {
        for one in values[list].as_array().unwrap() {
            let text = |key: &str| one[key].as_str().unwrap();
            given.push(format!("--{option}={}={}", text("role"), text("tenant")));
        }
    }
    given.extend(words(&values["readers"]).iter().map(|name| format!("--reader={name}")));
    given
}

/// What `plain.yaml` runs in an empty database, without its passwords.
fn plain() -> String {
    let text = std::fs::read_to_string(top("deploy/postgres/plain.yaml")).unwrap();
    let (_, script) = text.split_once("<<'EOF'\n").unwrap();
    let (sql, _) = script.split_once("    EOF\n").unwrap();
    let sql = sql.split("PASSWORD :").collect::<Vec<_>>().join("PASSWORD ");
    sql.lines().filter(|line| !line.contains("CREATE DATABASE")).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn the_plain_database_has_the_roles_of_the_cluster() {
    let pg = Pg::own_cluster();
    let db = pg.empty_database().await;
    let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
    run(&mut admin, &plain()).await;
    let roles = yaml("deploy/postgres/cluster.yaml")["spec"]["managed"]["roles"].clone();
    let roles = roles.as_array().unwrap();
    let held = roles.iter().flat_map(|role| {
        let name = role["name"].as_str().unwrap().to_owned();
        words(&role["inRoles"]).into_iter().map(move |held| (name.clone(), held.to_owned()))
    });
    assert_eq!(members(&mut admin).await, held.collect());
    let flags =
        "SELECT rolname, rolsuper, rolcreaterole, rolcanlogin FROM pg_roles WHERE oid >= 16384";
    let found = sqlx::raw_sql(flags).fetch_all(&mut admin).await.unwrap();
    assert_eq!(found.len(), roles.len());
    for row in found {
        let name: String = row.get("rolname");
        let role = roles.iter().find(|role| role["name"] == *name).unwrap();
        let flag = |key: &str| role[key].as_bool().unwrap_or(false);
        assert!(!row.get::<bool, _>("rolsuper"), "{name}");
        assert_eq!(row.get::<bool, _>("rolcanlogin"), flag("login"), "{name}");
        assert_eq!(row.get::<bool, _>("rolcreaterole"), flag("createrole"), "{name}");
    }
}

#[tokio::test]
async fn the_migration_finds_the_roles_of_the_cluster_as_it_needs_them_and_adds_none() {
    // All roles of the server are counted.
    let pg = Pg::own_cluster();
    let db = pg.empty_database().await;
    let spec = yaml("deploy/postgres/cluster.yaml")["spec"].clone();
    let roles = spec["managed"]["roles"].as_array().unwrap().clone();
    let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
    let flag = |role: &Value, key: &str| role[key].as_bool().unwrap_or(false);
    let mut wanted = BTreeSet::new();
    for role in &roles {
        let name = role["name"].as_str().unwrap();
        let login = if flag(role, "login") { "LOGIN" } else { "NOLOGIN" };
        let more = if flag(role, "createrole") { "CREATEROLE" } else { "NOCREATEROLE" };
        run(&mut admin, &format!("CREATE ROLE {name} NOSUPERUSER {login} {more}")).await;
        wanted.extend(
            words(&role["inRoles"]).iter().map(|held| (name.to_owned(), (*held).to_owned())),
        );
    }
    for (name, held) in &wanted {
        run(&mut admin, &format!("GRANT {held} TO {name}")).await;
    }
    let owner = spec["bootstrap"]["initdb"]["owner"].as_str().unwrap();
    let (_, database) = db.admin_url.rsplit_once('/').unwrap();
    let (name, _) = database.split_once('?').unwrap();
    run(&mut admin, &format!("ALTER DATABASE {name} OWNER TO {owner}")).await;

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("admin.url");
    let as_role = |name: &str| format!("postgres://{name}@127.0.0.1:{}/{database}", pg.port());
    std::fs::write(&file, as_role(owner)).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let values = yaml("deploy/helm/wicketgate/ci/hub.yaml")["migration"].clone();
    for _ in 0..2 {
        let migrate = ["ledger", "migrate", "--admin-url-file", file.to_str().unwrap()];
        let migrate = migrate.map(str::to_owned).into_iter();
        Ran::gate(".", migrate.chain(logins(&values))).ok();
    }
    // CloudNativePG takes away what `inRoles` does not name: it must find nothing to take.
    assert_eq!(members(&mut admin).await, wanted);

    let named: BTreeSet<_> = roles.iter().map(|role| role["name"].as_str().unwrap()).collect();
    let rows = sqlx::raw_sql(
        "SELECT rolname, rolsuper, rolcreatedb, rolcanlogin FROM pg_roles WHERE oid >= 16384",
    );
    for row in rows.fetch_all(&mut admin).await.unwrap() {
        let name: String = row.get("rolname");
        assert!(named.contains(name.as_str()), "{name} is made by the migration alone");
        assert!(!row.get::<bool, _>("rolsuper") && !row.get::<bool, _>("rolcreatedb"), "{name}");
        let let_in = words(&spec["postgresql"]["pg_hba"]).iter().any(|line| {
            let who = line.split_whitespace().nth(2).unwrap();
            line.starts_with("hostssl ledger ") && who.split(',').any(|one| one == name)
        });
        assert_eq!(row.get::<bool, _>("rolcanlogin"), let_in, "{name}");
    }
    // What each login may not do.
    for (name, sql) in [
        ("gate", "SELECT * FROM ledger.entry"),
        ("gate", "DELETE FROM ledger.entry"),
        ("hub", "UPDATE ledger.entry SET seq = seq"),
        ("eyes", "DELETE FROM ledger.entry"),
        ("eyes", "CREATE TABLE ledger.mine ()"),
    ] {
        let mut conn = PgConnection::connect(&as_role(name)).await.unwrap();
        let refused = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap_err();
        let code = refused.as_database_error().and_then(|e| e.code().map(|c| c.into_owned()));
        assert_eq!(code.as_deref(), Some("42501"), "{name}: {sql}: {refused}");
    }
    let mut conn = PgConnection::connect(&as_role("eyes")).await.unwrap();
    run(&mut conn, "SELECT count(*) FROM ledger.entry").await;
}
