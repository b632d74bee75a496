//! Lists: what a query may hold, and the files for spreadsheets.

use crate::api::{ApiServer, GATE, ask, run_id, show};
use crate::browser::{Browser, Seen, encoded};

/// A run with held calls of these ids.
async fn held(calls: &[&str]) -> ApiServer {
    let api = ApiServer::open().await;
    api.open_run(run_id(1)).await;
    for call in calls {
        api.hold(ask(run_id(1), call, r#"{"amount":420042004200}"#)).await;
    }
    show(&*api.orders, GATE, 0).await;
    api
}

/// The rows of a file, without its header; each is one line, because no cell has an end of line. A page has none.
fn rows(file: &Seen) -> Vec<&str> {
    let rows = file.body.split_once("\r\n").map_or("", |(_, rows)| rows);
    rows.split_terminator("\r\n").collect()
}

#[tokio::test]
async fn con_013_a_list_is_saved_with_its_query_and_no_cell_is_a_formula() {
    let api = held(&["c1", "c2"]).await;
    let vera = Browser::of(&api, "vera").await;
    let list = vera.get("/console/calls?q=call%3Ac2").await;
    let links = list.attributes("href");
    assert!(links.contains(&"/console/calls.csv?q=call%3Ac2".to_owned()), "{links:?}");
    let file = vera.get("/console/calls.csv?q=call%3Ac2").await;
    assert_eq!(file.status, 200, "{}", file.body);
    let stored = file.header("content-disposition").unwrap();
    assert!(stored.starts_with("attachment; filename=\"calls-before-2"), "{stored}");
    assert!(stored.ends_with(".csv\""), "{stored}");
    assert!(file.body.starts_with("\"at\",\"agent\",\"version\",\"tool\","), "{}", file.body);
    let found = rows(&file);
    assert_eq!(found.len(), 1, "{}", file.body);
    for part in ["\"payments.refund\"", "\"four_eyes\"", "\"held\"", "\"c2\""] {
        assert!(found[0].contains(part), "{part}: {}", found[0]);
    }
    assert!(!file.body.contains("420042004200"), "no arguments: {}", file.body);
    assert_eq!(rows(&vera.get("/console/calls.csv").await).len(), 2);
    let runs = vera.get("/console/runs").await.attributes("href");
    assert!(runs.contains(&"/console/runs.csv?state=open".to_owned()), "{runs:?}");
    for (query, open) in [("", 1), ("?state=all", 1), ("?state=sealed", 0)] {
        let file = vera.get(&format!("/console/runs.csv{query}")).await;
        assert_eq!(rows(&file).len(), open, "{query}: {}", file.body);
    }
}

#[tokio::test]
async fn a_file_has_the_rows_of_every_page_of_its_list() {
    let calls: Vec<String> = (0..230).map(|n| format!("c{n}")).collect();
    let api = held(&calls.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let vera = Browser::of(&api, "vera").await;
    let file = vera.get("/console/calls.csv").await;
    let mut found: Vec<&str> = rows(&file);
    assert_eq!(found.len(), 230);
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 230, "each once");
}

#[tokio::test]
async fn con_012_what_is_typed_into_a_search_is_a_value_and_never_a_statement() {
    let api = held(&["c1"]).await;
    let vera = Browser::of(&api, "vera").await;
    for typed in [
        "' OR 1=1 --",
        "agent:x' OR '1'='1",
        "tool:%' UNION SELECT * FROM call --",
        "call:c1'; DROP TABLE call; --",
        "agent:\"a\\\" OR 1=1 --\"",
        "1; ATTACH DATABASE 'x' AS x",
        "tool:*') OR (1=1",
        "agent:$1",
    ] {
        for list in ["calls", "runs", "calls.csv", "runs.csv"] {
            let path = format!("/console/{list}?{}", encoded(&[("q", typed)]));
            let seen = vera.get(&path).await;
            assert!([200, 400].contains(&seen.status), "{path}: {}", seen.body);
            let lines = seen.body.matches("<tr data-row>").count();
            let found = if list.ends_with(".csv") { rows(&seen).len() } else { lines };
            assert_eq!(found, 0, "{path}: {}", seen.body);
            assert!(!seen.body.to_lowercase().contains("syntax error"), "{path}: {}", seen.body);
        }
    }
    // A state is a word of a list and a cursor is a place: anything else is refused.
    for (list, field) in
        [("calls", "cursor"), ("runs", "cursor"), ("runs", "state"), ("runs.csv", "state")]
    {
        for typed in ["' OR 1=1 --", "seq DESC; DROP TABLE call", "1) UNION SELECT 1 --"] {
            let path = format!("/console/{list}?{}", encoded(&[(field, typed)]));
            let seen = vera.get(&path).await;
            let refused = seen.status == 400 || seen.body.contains("class=\"failure\"");
            assert!(refused, "{path}: {} {}", seen.status, seen.body);
        }
    }
    assert_eq!(rows(&vera.get("/console/calls.csv").await).len(), 1, "and nothing is lost");
}
