//! Bindings that are refused before anything runs, and roles that may do too much.

use serde_json::{Value, json};

use crate::bench::{Bench, lite_tool, number, own, pg_tool};
use crate::private::private;
use wicketgate_support::pg::Pg;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_that_is_wrong_says_where_and_why() {
    let mut bench = Bench::new().await;
    bench.sidecar.stop().await;
    let tables = || json!({"tables": ["public.t"]});
    let with = |mut tool: Value, name: &str, value: Value| {
        tool[name] = value;
        tool
    };
    private(bench.keeper.path("odd.url"), "mysql://u:secret-password@h/d");
    let secret = "postgres://u:secret-password";
    private(bench.keeper.path("mode.url"), format!("{secret}@127.0.0.1/d?sslmode=require"));
    private(bench.keeper.path("clear.url"), format!("{secret}@db.example.com/d?sslmode=disable"));
    std::fs::copy(bench.keeper.path("reader.url"), bench.keeper.path("open.url")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(bench.keeper.path("open.url"), mode).unwrap();
    std::os::unix::fs::symlink(
        bench.keeper.path("state/ledger.sqlite"),
        bench.keeper.path("link.db"),
    )
    .unwrap();
    std::fs::hard_link(bench.keeper.path("books.db"), bench.keeper.path("hard.db")).unwrap();
    for (tool, says) in [
        (
            lite_tool("sql.x", json!({"tables": ["t"], "path": "state/ledger.sqlite"})),
            "no tool may read",
        ),
        (lite_tool("sql.x", json!({"tables": ["t"], "path": "link.db"})), "sql.path"),
        (
            lite_tool("sql.x", json!({"tables": ["t"], "path": "hard.db"})),
            "not a regular file of one name",
        ),
        (lite_tool("sql.x", json!({"tables": ["t"], "path": "none.db"})), "cannot open"),
        (lite_tool("sql.x", json!({"tables": ["main.t"]})), "sql.tables[0]"),
        (lite_tool("sql.x", json!({"tables": ["t"], "url_file": "reader.url"})), "sql.url_file"),
        (pg_tool("sql.x", "reader.url", json!({})), "give one of `queries`"),
        (pg_tool("sql.x", "reader.url", json!({"tables": ["t"]})), "is `schema.table`"),
        (pg_tool("sql.x", "reader.url", json!({"tables": ["pg_catalog.*"]})), "one by one"),
        (
            with(pg_tool("sql.x", "reader.url", tables()), "read_only", json!(false)),
            "read_only: true",
        ),
        (
            with(pg_tool("sql.x", "reader.url", tables()), "input_schema", json!({})),
            "means nothing",
        ),
        (pg_tool("sql.x", "odd.url", tables()), "expected `postgres://"),
        (pg_tool("sql.x", "open.url", tables()), "open.url` has mode 644"),
        (pg_tool("sql.x", "mode.url", tables()), "`sslmode` must be `verify-full`"),
        (
            pg_tool("sql.x", "clear.url", json!({"tables": ["public.t"], "private_addresses": []})),
            "travel in clear",
        ),
        (
            pg_tool("sql.x", "reader.url", json!({"tables": ["public.t"], "engine": "oracle"})),
            "`oracle` is not one of",
        ),
        (
            pg_tool(
                "sql.x",
                "reader.url",
                json!({"tables": ["public.t"], "statement_timeout_ms": 9000}),
            ),
            "is 1 to 8000",
        ),
        (
            pg_tool("sql.x", "reader.url", json!({"queries": {"q": {"text": "DROP TABLE t"}}})),
            "queries.q.text",
        ),
        (
            pg_tool("sql.x", "reader.url", json!({"queries": {"q": {"text": "DELETE FROM t"}}})),
            "writes, and the tool",
        ),
        (
            pg_tool("sql.x", "reader.url", json!({"queries": {"q": {"text": "SELECT $1"}}})),
            "lists 0 parameters",
        ),
    ] {
        bench.keeper.estate.configure(|config| config["tools"] = json!([tool]));
        let checked = bench.keeper.ask(&["config", "check", "wicketgate.yaml"]);
        let started = bench.keeper.ask(&["serve", "--config", "wicketgate.yaml"]);
        assert_ne!(checked.code, 0, "{tool} is taken");
        assert_eq!(started.code, 78, "{tool}: {started:?}");
        assert!(started.err.contains(says), "`{says}` is not in {}", started.err);
        assert!(!started.err.contains("secret-password"), "{}", started.err);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_do_too_much_is_not_used() {
    let roles = [
        ("super", "SUPERUSER", ""),
        ("maker", "CREATEROLE", ""),
        ("files", "", "GRANT pg_read_server_files TO"),
    ];
    let mut bench = Bench::with_roles(Pg::cluster(), &roles, |tools| tools).await;
    // One that may do more while the gate serves: from its next connection on it is not used.
    let ask = || bench.ask("sql.pg", "SELECT a FROM t LIMIT 1");
    assert_eq!(ask().await.unwrap()["rows"], json!([["one"]]));
    own(&bench.admin_url, &format!("GRANT INSERT ON canary TO reader_{}", bench.suffix)).await;
    let end = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'reader_{}'",
        bench.suffix
    );
    assert!(number(&bench.admin_url, &end).await > 0);
    let answer = ask().await.unwrap_err();
    assert_eq!(answer.code, "tool.failed");
    assert!(
        answer.message.contains("too many rights: it may write to public.canary"),
        "{answer:?}"
    );
    bench.sidecar.stop().await;
    for (role, says) in [
        ("super", "is a superuser"),
        ("maker", "may create roles"),
        ("files", "is a member of pg_read_server_files"),
        ("writer", "may write to public.orders"),
    ] {
        let tool = pg_tool("sql.x", &format!("{role}.url"), json!({"tables": ["public.t"]}));
        bench.keeper.estate.configure(|config| config["tools"] = json!([tool]));
        let started = bench.keeper.ask(&["serve", "--config", "wicketgate.yaml"]);
        assert_eq!(started.code, 78, "{started:?}");
        assert!(started.err.contains("tool `sql.x`") && started.err.contains(says), "{started:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_is_a_configuration_and_a_policy() {
    let mut bench = Bench::new().await;
    bench.sidecar.stop().await;
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sql");
    let text = std::fs::read_to_string(example.join("tools.yaml")).unwrap();
    let tools: Value = serde_saphyr::from_str(&text).unwrap();
    std::fs::copy(bench.keeper.path("books.db"), bench.keeper.path("notes.db")).unwrap();
    for role in ["reader", "writer"] {
        let url = format!("postgres://books_{role}:some-password@10.0.0.5:5432/books");
        private(bench.keeper.path(&format!("{role}.url")), url);
    }
    bench.keeper.estate.configure(|config| config["tools"] = tools["tools"].clone());
    let policy = std::fs::read_to_string(example.join("policy.rego")).unwrap();
    bench.keeper.estate.bundle("1.0.2", &policy, "policy");
    for order in [&["config", "check"][..], &["policy", "lint", "--bundle", "bundle"]] {
        let checked = bench.keeper.ask(order);
        assert_eq!(checked.code, 0, "{order:?}: {checked:?}");
    }
}
