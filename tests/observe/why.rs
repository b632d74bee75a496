//! `policy eval` and `policy mutate` of what a gate recorded, and of a call that is only rehearsed.

use serde_json::{Value, json};

use crate::suggest::played;

#[tokio::test]
async fn a_recorded_decision_is_explained_and_its_input_mutated_and_a_call_is_rehearsed_and_not_run()
 {
    let (gate, run) = played().await;
    gate.verified(&run).ok();
    let entries = gate.path(&format!("evidence-{run}")).join("ledger/entries.jsonl");
    let entries = std::fs::read_to_string(entries).unwrap();
    let entries: Vec<Value> =
        entries.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seq = |call: &str| {
        let decided = entries.iter().find(|e| e["call"] == call).unwrap();
        decided["seq"].as_u64().unwrap().to_string()
    };
    let ledger = ["--sqlite", "state/ledger.sqlite", "--json"];
    let args = ["policy", "eval", "bundle", "--entry", "0"];
    let several = gate.run(&[&args[..], &ledger].concat()).ends(2).err;
    let several: Value = serde_json::from_str(&several).unwrap();
    let several = several["message"].as_str().unwrap();
    assert!(several.contains("name one (`--chain`): "), "{several}");
    let eval_of = |chain: &str, seq: &str| {
        let args = ["policy", "eval", "bundle", "--chain", chain, "--entry", seq, "--explain"];
        gate.run(&[&args[..], &ledger].concat())
    };
    // One of the chains is the fleet log's, and decides about nothing.
    let chains: Vec<&str> = several.trim_end().rsplit_once(": ").unwrap().1.split(", ").collect();
    let decides = |chain: &&&str| eval_of(chain, &seq("do-3")).code == 1;
    let chain = chains.iter().find(decides).unwrap();
    let eval = |seq: &str| eval_of(chain, seq);
    let refused = eval(&seq("do-3")).ends(1).json();
    assert_eq!(
        (&refused["verdict"], &refused["explained"]["layer"]),
        (&json!("deny"), &json!("team"))
    );
    let rules = refused["explained"]["rules"].as_array().unwrap();
    let fired: Vec<&Value> = rules.iter().filter(|rule| rule["fired"] == true).collect();
    assert_eq!(fired.len(), 1);
    assert_eq!(fired[0]["place"], "team/main.rego:3");
    assert_eq!(
        fired[0]["conditions"][0]["values"],
        json!([{"reads": "input.args.never", "value": true}])
    );
    assert!(eval("0").ends(2).err.contains("not a decision about a call"));
    assert!(eval("99999").ends(2).err.contains("no entry 99999"));

    let args = ["policy", "mutate", "bundle", "--below", "input.args"];
    let mutants = gate.run(&[&args[..], &ledger].concat()).json();
    assert_eq!(mutants["inputs"], 6, "{mutants}");
    assert!(mutants["mutants"].as_u64().unwrap() > 20, "{mutants}");

    let hits = gate.hits();
    let call = |tool: &str, given: &str| {
        let args = ["policy", "eval", "bundle", "--config", "wicketgate.yaml", "--call", tool];
        gate.run(&[&args[..], &["--args", given, "--json", "--explain"]].concat())
    };
    let told = call("work.do", r#"{"never":true}"#).ends(1).json();
    assert_eq!(told["reasons"][0]["rule"], "wicketgate.team.deny team/main.rego:3");
    let told = call("fs.read", r#"{"path":"secret.txt"}"#).ends(1).json();
    assert_eq!(told["reasons"][0]["code"], "secret");
    assert!(
        call("fs.read", r#"{"path":"../x"}"#).ends(1).err.contains("refused before the policy")
    );
    assert!(call("work.other", "{}").ends(1).err.contains("is not granted"));
    assert!(call("fs.read", "[").ends(64).err.contains("--args"));
    assert_eq!(gate.hits(), hits, "nothing ran");
}
