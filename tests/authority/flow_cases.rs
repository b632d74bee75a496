//! What an agent that goes astray does with tools that it may use, each under the id of its case.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::flow_player::Stage;

const CASES: &str = include_str!("flow_cases.jsonl");

fn cases() -> Vec<Value> {
    CASES.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Plays this case with each of these seeds.
async fn plays(id: &str, seeds: std::ops::Range<u64>) {
    let all = cases();
    let case = all.iter().find(|case| case["id"] == id).unwrap_or_else(|| panic!("no case {id}"));
    let stage = Stage::new().await;
    for seed in seeds {
        stage.plays(case, seed).await;
    }
    stage.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flow_001_what_a_page_asks_for_is_sent_to_no_host_that_is_not_listed() {
    plays("FLOW-001", 0..3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flow_002_rows_of_a_confidential_file_reach_no_public_channel() {
    plays("FLOW-002", 0..3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flow_003_a_token_of_a_table_leaves_in_no_address() {
    plays("FLOW-003", 0..3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flow_007_a_run_that_is_denied_again_and_again_is_suspended_and_operators_are_alerted() {
    plays("FLOW-007", 0..1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flow_009_a_run_deletes_no_more_files_than_its_budget() {
    plays("FLOW-009", 0..1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flow_010_a_verdict_in_an_answer_decides_nothing() {
    plays("FLOW-010", 0..3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flow_011_a_secret_in_two_parts_leaves_no_run_that_has_read_it() {
    plays("FLOW-011", 0..3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flow_012_a_secret_in_single_bytes_leaves_no_run_that_has_read_it() {
    plays("FLOW-012", 0..1).await;
}

#[test]
fn every_case_has_a_test_that_carries_its_id() {
    let source = include_str!("flow_cases.rs");
    let tests: BTreeSet<String> = source
        .split("async fn flow_")
        .skip(1)
        .filter_map(|rest| Some(format!("FLOW-{}", rest.get(..3)?)))
        .filter(|id| id["FLOW-".len()..].bytes().all(|byte| byte.is_ascii_digit()))
        .collect();
    let ids: BTreeSet<String> =
        cases().iter().map(|case| case["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, tests);
    for id in ids {
        let plays = format!("plays(\"{id}\"");
        assert_eq!(source.matches(&plays).count(), 1, "{id}");
    }
}
