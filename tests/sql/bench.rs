//! A gate with databases behind it, and the databases as their owner sees them.

use std::path::PathBuf;

use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection, Row as _};

use crate::agent::{Agent, Refused};
use crate::checker::Database;
use crate::keeper::Keeper;
use crate::private::private;
use crate::sidecar::Sidecar;
use wicketgate_support::pg::Pg;
use wicketgate_support::program::python;

/// What every answer of a test's policy allows.
const RULES: &str = r#"package wicketgate.agent
import rego.v1

allow if startswith(input.tool.name, "sql.")
deny contains "only the plain table, and nothing is called" if {
	input.tool.name == "sql.judged"
	not plain
}
plain if {
	input.effect.kind == "sql"
	input.effect.engine == "postgres"
	input.effect.statement == "select"
	input.effect.relations == ["public.t"]
	input.effect.functions == []
	input.effect.params == 1
}
"#;

/// Tables, views and functions of the PostgreSQL database.
const SCHEMA: &str = "
CREATE TABLE t (a text); INSERT INTO t VALUES ('one'), ('two');
CREATE TABLE orders (id int PRIMARY KEY, customer text, total numeric(10,2), placed_at timestamptz, note jsonb);
INSERT INTO orders VALUES (1, 'ann', 10.50, '2026-11-20 10:00:00+00', '{\"city\": \"Bonn\"}'),
  (2, 'bob', 99.00, '2026-11-21 10:00:00+00', '{\"city\": \"Kiel\"}'), (3, 'ann', 1.25, NULL, NULL);
CREATE TABLE secret_table (password text); INSERT INTO secret_table VALUES ('s3cret-row-value');
CREATE TABLE canary (touched int);
CREATE SEQUENCE s;
CREATE VIEW order_names AS SELECT id, customer FROM orders;
CREATE VIEW secrets AS SELECT * FROM secret_table;
CREATE FUNCTION touch() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'INSERT INTO public.canary VALUES (1) RETURNING 1';
CREATE FUNCTION lower(int) RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS
  $$ BEGIN INSERT INTO public.canary VALUES (2); RETURN 'x'; END $$;
CREATE FUNCTION plus(text, text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS
  $$ BEGIN INSERT INTO public.canary VALUES (3); RETURN 'x'; END $$;
CREATE OPERATOR + (LEFTARG = text, RIGHTARG = text, FUNCTION = plus);
";

/// Everything of one test.
pub struct Bench {
    pub keeper: Keeper,
    pub sidecar: Sidecar,
    pub agent: Agent,
    pub admin_url: String,
    /// Names of the roles end so.
    pub suffix: String,
    calls: std::sync::atomic::AtomicU32,
}

/// One statement of the owner.
pub async fn own(url: &str, sql: &str) {
    let mut admin = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut admin).await.expect(sql);
}

/// One number of the owner.
pub async fn number(url: &str, sql: &str) -> i64 {
    let mut admin = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()))
        .fetch_one(&mut admin)
        .await
        .unwrap()
        .get::<i64, _>(0)
}

/// The URL of another role.
pub fn url_of(admin_url: &str, role: &str, password: &str) -> String {
    admin_url.replacen("//postgres@", &format!("//{role}:{password}@"), 1)
}

/// A tool of kind `sql` on PostgreSQL.
pub fn pg_tool(name: &str, url_file: &str, sql: Value) -> Value {
    let mut tool = json!({"name": name, "description": "asks the books", "kind": "sql", "tier": "T0",
        "read_only": true, "timeout_ms": 8000, "result_bytes_max": 65536,
        "sql": {"engine": "postgres", "url_file": url_file, "private_addresses": ["127.0.0.0/8"],
            "statement_timeout_ms": 1500, "rows_max": 50}});
    merge(&mut tool["sql"], sql);
    tool
}

/// A tool of kind `sql` on SQLite.
pub fn lite_tool(name: &str, sql: Value) -> Value {
    let mut tool = json!({"name": name, "description": "asks the books", "kind": "sql", "tier": "T0",
        "read_only": true, "timeout_ms": 8000, "result_bytes_max": 65536,
        "sql": {"engine": "sqlite", "path": "books.db", "statement_timeout_ms": 1500, "rows_max": 50}});
    merge(&mut tool["sql"], sql);
    tool
}

pub fn merge(into: &mut Value, from: Value) {
    for (name, value) in from.as_object().unwrap() {
        into[name] = value.clone();
    }
}

/// A SQLite file with the same tables.
fn lite_file(path: &PathBuf) {
    let file = rusqlite::Connection::open(path).unwrap();
    file.execute_batch(
        "CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('one'), ('two');
         CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, total REAL, blob BLOB);
         INSERT INTO orders VALUES (1, 'ann', 10.5, x'6869'), (2, 'bob', 99.0, NULL),
           (3, 'ann', 1.25, NULL), (9007199254740993, 'big', 0, NULL);
         CREATE TABLE secret_table (password TEXT); INSERT INTO secret_table VALUES ('s3cret');
         CREATE VIEW order_names AS SELECT id, customer FROM orders;
         CREATE VIEW secrets AS SELECT * FROM secret_table;",
    )
    .unwrap();
}

impl Bench {
    /// On the cluster that the tests share.
    pub async fn new() -> Bench {
        Self::on(Pg::cluster(), |tools| tools).await
    }

    /// With other tools, made from the usual ones.
    pub async fn on(pg: &Pg, change: impl FnOnce(Vec<Value>) -> Vec<Value>) -> Bench {
        Self::with_roles(pg, &[], change).await
    }

    /// With more roles: a name, attributes, and what is said before the name to give it more.
    pub async fn with_roles(
        pg: &Pg,
        roles: &[(&str, &str, &str)],
        change: impl FnOnce(Vec<Value>) -> Vec<Value>,
    ) -> Bench {
        let (keeper, admin_url, suffix, tools) = Self::furnished(pg, roles).await;
        Self::serving(keeper, admin_url, suffix, change(tools)).await
    }

    /// Everything but the gate: the keeper, the owner's URL, how names of roles end, and the usual tools.
    pub async fn furnished(
        pg: &Pg,
        roles: &[(&str, &str, &str)],
    ) -> (Keeper, String, String, Vec<Value>) {
        let db = pg.empty_database().await;
        let admin_url = db.admin_url.clone();
        let suffix = format!("{}_{}", std::process::id(), admin_url.len() + rand(&admin_url));
        own(&admin_url, SCHEMA).await;
        own(
            &admin_url,
            &format!(
                "CREATE ROLE reader_{suffix} LOGIN PASSWORD 'reader-password-1';
             GRANT SELECT ON t, orders, secret_table, order_names, secrets TO reader_{suffix};
             CREATE ROLE writer_{suffix} LOGIN PASSWORD 'writer-password-1';
             GRANT SELECT, INSERT, UPDATE, DELETE ON orders, t TO writer_{suffix};"
            ),
        )
        .await;
        let keeper = Keeper::sqlite().await;
        let url = |role: &str| {
            url_of(&admin_url, &format!("{role}_{suffix}"), &format!("{role}-password-1"))
        };
        for (role, with, grant) in roles {
            own(&admin_url, &format!("CREATE ROLE {role}_{suffix} LOGIN {with}")).await;
            if !grant.is_empty() {
                own(&admin_url, &format!("{grant} {role}_{suffix}")).await;
            }
            private(keeper.path(&format!("{role}.url")), url(role));
        }
        private(keeper.path("reader.url"), url("reader"));
        private(keeper.path("writer.url"), url("writer"));
        lite_file(&keeper.path("books.db"));
        let tables = json!({"tables": ["public.t", "public.orders", "public.order_names"]});
        let mut database = pg_tool(
            "sql.books",
            "writer.url",
            json!({"queries": {
            "add": {"text": "INSERT INTO orders (id, customer, total) VALUES ($1, $2, $3) RETURNING id",
                "params": [{"name": "id", "schema": {"type": "integer"}},
                    {"name": "customer", "schema": {"type": "string"}}, {"name": "total", "optional": true}]},
            "rename": {"text": "UPDATE orders SET customer = $2 WHERE customer = $1",
                "params": [{"name": "from"}, {"name": "to"}]},
            "touch": {"text": "SELECT public.touch() FROM generate_series(1, 100)"},
            "fill": {"text": "INSERT INTO orders (id, customer) SELECT 1000 + x, 'many' FROM generate_series(1, 100) AS x RETURNING id"},
            "all": {"text": "SELECT id, customer FROM orders ORDER BY id"}}}),
        );
        database["read_only"] = json!(false);
        database["tier"] = json!("T1");
        let mut lite_books = lite_tool(
            "sql.lite_books",
            json!({"queries": {
            "add": {"text": "INSERT INTO orders (id, customer) VALUES (?1, ?2)",
                "params": [{"name": "id"}, {"name": "customer"}]},
            "fill": {"text": "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 100) INSERT INTO orders (id, customer) SELECT 1000 + x, 'many' FROM c RETURNING id"},
            "all": {"text": "SELECT count(*) AS n FROM orders"}}}),
        );
        lite_books["read_only"] = json!(false);
        lite_books["tier"] = json!("T1");
        let tools = vec![
            pg_tool("sql.pg", "reader.url", tables.clone()),
            pg_tool("sql.judged", "reader.url", tables),
            pg_tool(
                "sql.order",
                "reader.url",
                json!({"queries": {"order": {
                "text": "SELECT id, customer, total FROM orders WHERE id = $1 OR customer = $2 ORDER BY id",
                "params": [{"name": "id", "schema": {"type": "integer"}},
                    {"name": "customer", "schema": {"type": "string"}, "optional": true}]}}}),
            ),
            database,
            lite_tool("sql.lite", json!({"tables": ["t", "orders", "order_names"]})),
            lite_books,
        ];
        (keeper, admin_url, suffix, tools)
    }

    /// A gate with these tools, and an agent's run.
    pub async fn serving(
        keeper: Keeper,
        admin_url: String,
        suffix: String,
        tools: Vec<Value>,
    ) -> Bench {
        let granted: Vec<Value> =
            tools.iter().map(|tool| json!({"name": tool["name"], "tier": "T0"})).collect();
        keeper.estate.manifest("1.0.1", "manifest", |text| {
            let mut manifest: Value = serde_json::from_str(&text).unwrap();
            manifest["spec"]["tools"] = json!(granted);
            serde_json::to_string_pretty(&manifest).unwrap()
        });
        keeper.estate.bundle("1.0.1", RULES, "policy");
        keeper.estate.configure(|config| config["tools"] = json!(tools));
        let sidecar = keeper.estate.serve().await;
        let agent = sidecar.open().await;
        Bench { keeper, sidecar, agent, admin_url, suffix, calls: 0.into() }
    }

    /// One call.
    pub async fn call(&self, tool: &str, args: Value) -> Result<Value, Refused> {
        let number = self.calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let answer = self.agent.call(tool, &format!("c{number}"), &args.to_string()).await;
        answer.map(|text| serde_json::from_str(&text).unwrap())
    }

    /// An agent's own statement.
    pub async fn ask(&self, tool: &str, sql: &str) -> Result<Value, Refused> {
        self.call(tool, json!({"query": sql})).await
    }

    /// Everything an attack could have changed in the PostgreSQL database.
    pub async fn state(&self) -> Vec<i64> {
        let mut all = Vec::new();
        for sql in [
            "SELECT count(*) FROM t",
            "SELECT count(*) FROM orders",
            "SELECT count(*) FROM secret_table",
            "SELECT count(*) FROM canary",
            "SELECT count(*) FROM pg_largeobject_metadata",
            "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace",
            "SELECT count(*) FROM pg_class WHERE relnamespace::regnamespace::text ~ '^pg_temp'",
            "SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
            "SELECT last_value + is_called::int FROM s",
        ] {
            all.push(number(&self.admin_url, sql).await);
        }
        // What belongs to the whole server, and is of this database or of these roles.
        let this = "(SELECT oid FROM pg_database WHERE datname = current_database())";
        let locks = format!(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = {this}"
        );
        let settings = format!(
            "SELECT count(*) FROM pg_db_role_setting WHERE setdatabase = {this} OR setrole = 0
               OR setrole IN (SELECT oid FROM pg_roles WHERE rolname LIKE '%\\_{}')",
            self.suffix
        );
        for sql in [locks, settings] {
            all.push(number(&self.admin_url, &sql).await);
        }
        all
    }

    /// What the role of this name is doing right now.
    pub async fn busy(&self, role: &str) -> i64 {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = '{role}_{}' AND state = 'active'",
            self.suffix
        );
        number(&self.admin_url, &sql).await
    }

    /// Ends the gate in order; the books hold.
    pub async fn close(mut self) -> Value {
        self.sidecar.stop().await;
        let Database::Sqlite(path) = &self.keeper.estate.database else { unreachable!() };
        let given = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(given.path(), self.keeper.estate.receipts.lines().join("\n")).unwrap();
        let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut checker = std::process::Command::new(python());
        checker.arg("-B").arg(top.join("tests/checker/check_ledger.py")).arg("--sqlite").arg(path);
        let done = checker.arg("--acknowledged").arg(given.path()).output().unwrap();
        let out = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{out}{}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_str(&out).unwrap()
    }
}

/// A number that differs between databases.
fn rand(text: &str) -> usize {
    text.bytes().fold(7_usize, |all, byte| (all * 31 + usize::from(byte)) % 1_000_003)
}
