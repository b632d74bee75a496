//! Bundles that open some members of a payload and hide the others.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::keeper::{IBAN, Keeper, holds, outcome, whole};

fn index(bundle: &std::path::Path) -> serde_json::Map<String, Value> {
    let text = std::fs::read_to_string(bundle.join("payloads/index.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_hidden_is_in_no_file_of_the_bundle_and_what_is_opened_verifies() {
    let keeper = Keeper::sqlite().await;
    let (_sidecar, agent) = keeper.served(3).await;
    agent.seal().await.unwrap();
    let open = ["--redact", "args:iban,pin", "--disclose", "result:status"];
    let bundle = keeper.export(&agent.run, "shown", &open);
    let report = keeper.verify(&bundle);
    assert_eq!(outcome(&report, "P1").0, "VALID", "{report}");
    assert_eq!((outcome(&report, "V1").0, outcome(&report, "B4").0), ("VALID", "VALID"));
    let all = whole(&bundle);
    assert!(!holds(&all, IBAN), "not the value");
    // The kind of a finding is named alike.
    let named = ["/iban", "\"iban\":"].map(|name| holds(&all, name));
    assert_eq!(named, [false; 2], "not even the member's name");
    let encoded = URL_SAFE_NO_PAD.encode(IBAN);
    assert!(!holds(&all, &encoded[2..encoded.len() - 2]));
    let run = std::fs::read_to_string(bundle.join("agent_run.json")).unwrap();
    let run: Value = serde_json::from_str(&run).unwrap();
    let step = &run["steps"][1];
    assert_eq!(step["request"]["state"], "redacted");
    assert_eq!(step["request"]["disclosed"], json!({"amount": 1, "note": "note-0001-end"}));
    assert_eq!((&step["request"]["hidden"], &step["result"]["hidden"]), (&json!(2), &json!(2)));
    assert_eq!(step["result"]["disclosed"], json!({"status": 200}));
    let manifest = std::fs::read_to_string(bundle.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    // Arguments, results, and what the policy saw the arguments.
    assert_eq!(manifest["predicate"]["redactions"].as_array().unwrap().len(), 9);
    assert!(report["not_proven"].to_string().contains("members are hidden"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_member_of_few_possible_values_cannot_be_guessed_from_what_the_bundle_says() {
    let keeper = Keeper::sqlite().await;
    let (_sidecar, agent) = keeper.served(1).await;
    agent.seal().await.unwrap();
    let bundle = keeper.export(
        &agent.run,
        "shown",
        &["--redact", "args:pin", "--disclose", "result:status"],
    );
    let full = keeper.export(&agent.run, "full", &[]);
    // Whoever guesses knows everything but the pin: also what the policy saw, to the letter.
    let known: Vec<String> = index(&full)
        .iter()
        .map(|(c, _)| std::fs::read_to_string(full.join(format!("payloads/{c}.bin"))).unwrap())
        .collect();
    let effect: Value =
        serde_json::from_str(known.iter().find(|t| t.contains("\"effect\"")).unwrap()).unwrap();
    let effect = serde_json_canonicalizer::to_string(&effect["effect"]).unwrap();
    let mut targets: BTreeSet<String> = BTreeSet::new();
    let text = String::from_utf8_lossy(&whole(&bundle)).into_owned();
    for word in text.split(|c: char| !c.is_ascii_hexdigit()).filter(|word| word.len() == 64) {
        targets.insert(word.to_owned());
    }
    let mut salts: Vec<Vec<u8>> = vec![vec![], vec![0; 32]];
    salts.extend(targets.iter().map(|hex| hex::decode(hex).unwrap()));
    for told in index(&bundle).values() {
        for disclosure in told["disclosures"].as_array().into_iter().flatten() {
            let bytes = URL_SAFE_NO_PAD.decode(disclosure.as_str().unwrap()).unwrap();
            let triple: Value = serde_json::from_slice(&bytes).unwrap();
            salts.push(URL_SAFE_NO_PAD.decode(triple[0].as_str().unwrap()).unwrap());
        }
    }
    let sha = |pieces: &[&[u8]]| hex::encode(Sha256::digest(pieces.concat()));
    let pin = "\"pin\":\"7000\"";
    assert!(
        known.iter().any(|text| text.contains(pin)),
        "the attack would find it if it were there"
    );
    for guess in (6900..7100).map(|n| format!("{n:04}")) {
        let bodies: Vec<String> = known
            .iter()
            .chain([&effect])
            .map(|text| text.replace(pin, &format!("\"pin\":\"{guess}\"")))
            .collect();
        for salt in &salts {
            let disclosure = json!([URL_SAFE_NO_PAD.encode(salt), "pin", guess]);
            let disclosure =
                URL_SAFE_NO_PAD.encode(serde_json_canonicalizer::to_vec(&disclosure).unwrap());
            let mut made = vec![sha(&[disclosure.as_bytes()]), sha(&[salt, guess.as_bytes()])];
            for body in &bodies {
                let body = body.as_bytes();
                let len = (body.len() as u64).to_be_bytes();
                made.push(sha(&[salt, body]));
                made.push(sha(&[b"wicketgate/commit/1\0", salt, &len, body]));
                made.push(sha(&[b"wicketgate/whole/2\0", salt, &len, body]));
            }
            for digest in made {
                assert!(!targets.contains(&digest), "guess {guess} is confirmed by {digest}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_changed_added_removed_or_swapped_is_refused() {
    let keeper = Keeper::sqlite().await;
    let (_sidecar, agent) = keeper.served(2).await;
    agent.seal().await.unwrap();
    let bundle = keeper.export(&agent.run, "shown", &["--redact", "args:iban"]);
    let good = index(&bundle);
    let of_args: Vec<&String> =
        good.iter().filter(|(_, told)| told["role"] == "args").map(|(c, _)| c).collect();
    let disclosures = |n: usize| good[of_args[n]]["disclosures"].as_array().unwrap().clone();
    let mut lists = vec![disclosures(1), disclosures(0)];
    lists[1].pop();
    let mut more = disclosures(0);
    more.push(json!(URL_SAFE_NO_PAD.encode(format!(r#"["{}","x",1]"#, "A".repeat(43)))));
    lists.push(more);
    let mut changed = disclosures(0);
    let bytes = URL_SAFE_NO_PAD.decode(changed[0].as_str().unwrap()).unwrap();
    let text = String::from_utf8(bytes).unwrap().replace("\",\"", "\",\"x");
    changed[0] = json!(URL_SAFE_NO_PAD.encode(text));
    lists.push(changed);
    for mut list in lists {
        list.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
        let mut index = good.clone();
        index[of_args[0]]["disclosures"] = list.into();
        let text = serde_json_canonicalizer::to_vec(&Value::Object(index)).unwrap();
        std::fs::write(bundle.join("payloads/index.json"), text).unwrap();
        let report = keeper.verify(&bundle);
        assert_eq!(outcome(&report, "P1").0, "INVALID", "{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_understood_redacts_nothing_and_exports_nothing() {
    let keeper = Keeper::sqlite().await;
    let (_sidecar, agent) = keeper.served(1).await;
    for wrong in [["--redact", "args"], ["--redact", "arg:x"], ["--redact", "args:"]] {
        let order =
            ["evidence", "export", "--run", &agent.run, "--out", "b", "--key", "evidence.pem"];
        let ended =
            keeper.record(&[&order[..], &["--artifacts", "state/artifacts"], &wrong].concat());
        assert_eq!(ended.code, 64, "{wrong:?}: {ended:?}");
        assert!(!keeper.path("b").exists());
    }
}
