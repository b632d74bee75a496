//! Databases over TLS: who is believed, and that nothing is said to whoever is not.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::bench::{Bench, number, pg_tool};
use crate::ca::Ca;
use crate::private::private;
use crate::until;
use wicketgate_support::pg::{Pg, PrivatePg};

/// A cluster of its own that speaks TLS and is certified as 127.0.0.1, by this authority.
async fn secured(ca: &Ca) -> PrivatePg {
    let pg = Pg::own_cluster();
    ca.called("pg", "IP:127.0.0.1");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(ca.path(""), mode).unwrap();
    pg.speak_tls(&ca.path("pg.pem"), &ca.path("pg.key")).await;
    pg
}

/// A server that is asked for TLS, answers this, and tells what else it was sent.
fn pretender(answer: &'static [u8]) -> (u16, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut please = [0; 8];
            if stream.read_exact(&mut please).is_err() {
                continue;
            }
            assert_eq!(please, [0, 0, 0, 8, 4, 210, 22, 47], "not a request for TLS");
            let mut rest = Vec::new();
            // Whoever hangs up early has said nothing more.
            let _ = stream.write_all(answer);
            let _ = stream.read_to_end(&mut rest);
            let _ = tell.send(rest);
        }
    });
    (port, told)
}

fn holds(bytes: &[u8], what: &str) -> bool {
    bytes.windows(what.len()).any(|window| window == what.as_bytes())
}

/// The same tool under another name, reached by this file, believing these authorities.
fn sibling(name: &str, url_file: &str, ca_file: Option<&str>) -> Value {
    let open = json!(["127.0.0.0/8", "::1/128"]);
    let mut tool =
        pg_tool(name, url_file, json!({"tables": ["public.t"], "private_addresses": open}));
    if let Some(ca_file) = ca_file {
        tool["sql"]["ca_file"] = json!(ca_file);
    }
    tool
}

/// A gate with `sql.pg` in clear, and these over TLS; `urls` are files, each with a port and a host.
async fn gate(pg: &Pg, ca: &Ca, more: Vec<Value>, urls: &[(&str, u16, &str)]) -> Bench {
    let stranger = Ca::new();
    let (keeper, admin_url, suffix, mut tools) = Bench::furnished(pg, &[]).await;
    tools.truncate(1);
    tools.extend(more);
    std::fs::copy(ca.path("ca.pem"), keeper.path("ca.pem")).unwrap();
    std::fs::copy(stranger.path("ca.pem"), keeper.path("stranger.pem")).unwrap();
    let clear = std::fs::read_to_string(keeper.path("reader.url")).unwrap();
    for (file, port, host) in urls {
        let url = clear.replace("?sslmode=disable", "");
        let url = url.replace(&format!("127.0.0.1:{}", pg.port()), &format!("{host}:{port}"));
        private(keeper.path(file), url);
    }
    Bench::serving(keeper, admin_url, suffix, tools).await
}

/// What an operator is told of this tool: its state, and everything that was found.
fn probed(bench: &Bench, tool: &str) -> (String, String) {
    let ended = bench.keeper.ask(&["tools", "probe", "--json", "--tool", tool]);
    let picture: Value = serde_json::from_str(&ended.out).unwrap();
    let row = &picture["tools"][0];
    let state = row["state"].as_str().unwrap_or_else(|| panic!("{ended:?}")).to_owned();
    assert_eq!(ended.code, if state == "ready" { 0 } else { 1 }, "{ended:?}");
    (state, row["points"].to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_over_tls_is_believed_by_its_authority_and_its_name_alone() {
    let ca = Ca::new();
    let pg = secured(&ca).await;
    let port = pg.port();
    let tools = vec![
        sibling("sql.tls", "tls.url", Some("ca.pem")),
        sibling("sql.stranger", "tls.url", Some("stranger.pem")),
        sibling("sql.public", "tls.url", None),
        sibling("sql.named", "named.url", Some("ca.pem")),
    ];
    let urls = [("tls.url", port, "127.0.0.1"), ("named.url", port, "localhost")];
    let bench = gate(&pg, &ca, tools, &urls).await;
    let answer = bench.ask("sql.tls", "SELECT a FROM t LIMIT 1").await.unwrap();
    assert_eq!(answer["rows"], json!([["one"]]));
    // The server's own word for it, of the session that is kept.
    let over = |ssl: bool| {
        format!(
            "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
             WHERE usename = 'reader_{}' AND ssl = {ssl}",
            bench.suffix
        )
    };
    assert!(number(&bench.admin_url, &over(true)).await > 0);
    let plain = number(&bench.admin_url, &over(false)).await;
    for tool in ["sql.stranger", "sql.public", "sql.named"] {
        let answer = bench.ask(tool, "SELECT a FROM t").await.expect_err(tool);
        assert_eq!(answer.code, "tool.failed", "{tool}: {answer:?}");
        assert!(answer.message.contains("no certificate that is trusted"), "{tool}: {answer:?}");
        assert!(answer.message.contains("not valid for it"), "{tool}: {answer:?}");
        assert!(!answer.message.contains("reader-password-1"), "{answer:?}");
        let (state, points) = probed(&bench, tool);
        assert_eq!(state, "untrusted", "{points}");
    }
    crate::bench::own(&bench.admin_url, crate::probe::REVOKE).await;
    let (state, points) = probed(&bench, "sql.tls");
    assert!(state == "ready" && points.contains("TLS 1.3, its certificate is valid"), "{points}");
    // None of them found another way in.
    assert_eq!(number(&bench.admin_url, &over(false)).await, plain);
    until("only the kept session to be left", || async {
        number(&bench.admin_url, &over(true)).await == 1
    })
    .await;
    // What is stopped is stopped over TLS too.
    let endless = "SELECT count(*) FROM generate_series(1, 1000000000000) AS x";
    assert_eq!(bench.ask("sql.tls", endless).await.unwrap_err().code, "tool.failed");
    until("the server to stop", || async { bench.busy("reader").await == 0 }).await;
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_server_without_real_tls_gets_neither_user_name_nor_password() {
    let ca = Ca::new();
    // "No", and "yes" with something of a greeting sent along in clear.
    let (refuses, told_no) = pretender(b"N");
    let (stuffs, told_yes) = pretender(b"SR\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
    let tools = vec![
        sibling("sql.clear", "clear.url", Some("ca.pem")),
        sibling("sql.none", "none.url", Some("ca.pem")),
        sibling("sql.stuffed", "stuffed.url", Some("ca.pem")),
    ];
    let pg = Pg::cluster();
    let urls = [
        // A real server without TLS, and with the role that would be let in.
        ("clear.url", pg.port(), "127.0.0.1"),
        ("none.url", refuses, "127.0.0.1"),
        ("stuffed.url", stuffs, "127.0.0.1"),
    ];
    let bench = gate(pg, &ca, tools, &urls).await;
    for (tool, says) in [
        ("sql.clear", "has no TLS"),
        ("sql.none", "has no TLS"),
        ("sql.stuffed", "no certificate that is trusted"),
    ] {
        let answer = bench.ask(tool, "SELECT a FROM t").await.expect_err(tool);
        assert_eq!(answer.code, "tool.failed", "{tool}: {answer:?}");
        assert!(answer.message.contains(says), "{tool}: {answer:?}");
        assert_eq!(probed(&bench, tool).0, "untrusted", "{tool}");
    }
    // The way in clear is open, and was not taken: the same role is let in there.
    assert_eq!(bench.ask("sql.pg", "SELECT 1").await.unwrap()["row_count"], 1);
    let suffix = bench.suffix.clone();
    bench.close().await;
    // The look at the start, the call, and the operator's look.
    for _ in 0..3 {
        let no = told_no.recv_timeout(crate::waiting::PATIENCE).unwrap();
        assert!(no.is_empty(), "said after a no: {no:?}");
        let yes = told_yes.recv_timeout(crate::waiting::PATIENCE).unwrap();
        assert!(!holds(&yes, "reader") && !holds(&yes, &suffix), "said in clear: {yes:?}");
    }
}
