//! When entries were recorded stands in one place of each file: its member `times`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use wicketgate::evidence::bundle::{AGENT_RUN, DECISION, Files, TOOL_TRACE};
use wicketgate::evidence::query::{Filter, Query};
use wicketgate::evidence::verify::{Outcome, verify_files};

use crate::bundle::{EVIDENCE, resign, trust};
use crate::forged::{key, run_id};
use crate::scopes::{bundle, library};

/// An entry by its chain and position.
type Place = (String, u64);

fn document(files: &Files, name: &str) -> Value {
    serde_json::from_slice(files.get(name).unwrap()).unwrap()
}

/// The positions that a value names: objects with the leaf of an entry. None of them has a time.
fn named(value: &Value, found: &mut BTreeSet<u64>) {
    match value {
        Value::Object(members) => {
            if members.contains_key("leaf") {
                assert!(!members.contains_key("ts"), "{value}");
                found.insert(members["seq"].as_u64().unwrap());
            }
            members.values().for_each(|member| named(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| named(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn times(document: &Value) -> BTreeMap<Place, String> {
    let text = |item: &Value, name: &str| item[name].as_str().unwrap().to_owned();
    let all = document["times"].as_array().unwrap();
    let all = all
        .iter()
        .map(|item| ((text(item, "chain"), item["seq"].as_u64().unwrap()), text(item, "ts")));
    all.collect()
}

#[test]
fn each_file_for_people_has_the_times_of_exactly_the_entries_it_names_and_in_one_place() {
    let ledgers = library();
    let recorded: BTreeMap<Place, String> = ledgers
        .0
        .iter()
        .flat_map(|ledger| ledger.rows.iter().map(|row| (ledger.chain, row)))
        .map(|(chain, row)| {
            let entry: Value = serde_json::from_slice(&row.body).unwrap();
            ((chain.to_string(), row.seq), entry["ts"].as_str().unwrap().to_owned())
        })
        .collect();
    for query in [Query::Run(run_id(1)), Query::Population(Filter::default())] {
        let files = bundle(&ledgers, &query);
        for name in [AGENT_RUN, DECISION, TOOL_TRACE] {
            let document = document(&files, name);
            let mut seqs = BTreeSet::new();
            named(&document, &mut seqs);
            let times = times(&document);
            assert_eq!(times.keys().map(|(_, seq)| *seq).collect::<BTreeSet<_>>(), seqs, "{name}");
            assert!(!times.is_empty(), "{name}");
            for (place, ts) in &times {
                assert_eq!(recorded.get(place), Some(ts), "{name}: {place:?}");
            }
            let inner = document["runs"].as_array().into_iter().flatten();
            assert!(inner.clone().all(|run| run.get("times").is_none()), "{name}");
        }
    }
}

#[test]
fn a_time_that_the_ledger_does_not_have_is_refused_even_if_the_bundle_is_signed_again() {
    let mut files = bundle(&library(), &Query::Run(run_id(1)));
    assert_eq!(verify_files(&files, &trust()).exit_code(), 0);
    let mut changed = document(&files, DECISION);
    changed["times"][0]["ts"] = "2026-01-01T00:00:00.000Z".into();
    // Members are written in the order of their names, as in the file itself.
    files.put(DECISION, changed.to_string());
    resign(&mut files, &key(EVIDENCE));
    let report = verify_files(&files, &trust());
    let Some(Outcome::Invalid(why)) = report.outcome("V1") else {
        panic!("{}", report.to_text());
    };
    assert!(why.contains("`decision.json` does not follow from the entries"), "{why}");
}
