//! `wicketgate check` beside a running gate.

use serde_json::{Value, json};

use crate::estate::{self, Estate};

fn lines<'v>(list: &'v Value, name: &str) -> Vec<(&'v str, &'v str)> {
    let sections = list["sections"].as_array().unwrap();
    let of = sections.iter().find(|section| section["section"] == name).unwrap();
    let checks = of["checks"].as_array().unwrap().iter();
    checks.map(|one| (one["outcome"].as_str().unwrap(), one["text"].as_str().unwrap())).collect()
}

#[test]
fn a_running_gate_is_asked_and_its_tools_are_tried() {
    let tool = estate::tool("text.sort", json!({"program": estate::program("sort")}), json!({}));
    let gone = estate::tool("text.gone", json!({"program": estate::program("sort")}), json!({}));
    let estate = Estate::new(&[tool, gone]);
    let gate = estate.serve();
    let list = estate.try_run(&["check", "--json"]).ends(0).json();
    let asked = lines(&list, "gate");
    assert_eq!(asked[1], ("passed", "it is ready"), "{list}");
    let upstreams = lines(&list, "upstreams");
    assert!(upstreams.iter().any(|(_, text)| text.starts_with("text.sort: ")), "{list}");
    let ledger = lines(&list, "ledger");
    assert!(ledger[0].1.contains("1 log"), "{ledger:?}");
    assert_eq!(lines(&list, "clock")[0].0, "passed", "{list}");
    gate.finish();
    let list = estate.try_run(&["check", "--json", "--offline"]).ends(2).json();
    assert_eq!(lines(&list, "gate")[0].0, "unknown", "{list}");
    assert_eq!(lines(&list, "upstreams")[0].0, "skipped", "{list}");
}
