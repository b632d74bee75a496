//! Erasing: recorded first, gone from the file, the chain whole, the call never run again.

use crate::checker::check;
use crate::keeper::{IBAN, Keeper, args, holds, olga, outcome};
use sqlx::Connection as _;

#[tokio::test(flavor = "multi_thread")]
async fn erased_payloads_are_gone_from_the_file_and_the_chain_still_verifies() {
    let keeper = Keeper::sqlite().await;
    let (mut sidecar, agent) = keeper.served(40).await;
    assert!(holds(&keeper.raw(), IBAN) && holds(&keeper.raw(), "note-0017-end"));
    let roles = |keeper: &Keeper| {
        keeper
            .listed(&["--run", &agent.run])
            .iter()
            .map(|p| p["role"].to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(roles(&keeper).len(), 120);
    // Beside the sidecar that is writing in the same file.
    let receipt = ["--receipt", "receipt.json", "--key", "evidence.pem"];
    let out = keeper.erase(&[&["--run", &agent.run, "--request", "T-17"], &receipt[..]].concat());
    assert!(out.contains("120 payloads erased with the salts"), "{out}");
    assert!(roles(&keeper).is_empty());
    let raw = keeper.raw();
    assert!(!holds(&raw, IBAN) && !holds(&raw, "note-0017-end"), "the bytes are still in the file");
    // A retry of a call whose payloads are gone is answered, and never run again.
    let ran = keeper.tool.count();
    let refused = agent.call("work.do", "c3", &args(3)).await.unwrap_err();
    assert_eq!(refused.code, "call.result_unavailable", "{refused:?}");
    assert_eq!(keeper.tool.count(), ran);
    agent.seal().await.unwrap();
    sidecar.stop().await;
    check(&keeper.estate.database, &keeper.tool, &keeper.estate.receipts);
    keeper.trust();
    let verify = ["ledger", "verify", "--config", "wicketgate.yaml", "--trust", "trust.txt"];
    let ended = keeper.ask(&verify);
    assert_eq!(ended.code, 0, "{ended:?}");
    // Once more: there is nothing left, and nothing more is recorded.
    let before = erasures(&keeper).await;
    let out = keeper.erase(&["--run", &agent.run]);
    assert!(out.contains("120 payloads not stored"), "{out}");
    assert_eq!((before, erasures(&keeper).await), (1, 1));
}

async fn erasures(keeper: &Keeper) -> i64 {
    keeper.sql("SELECT count(*) FROM entry WHERE kind = 'payload.erased'").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_is_checked_offline_and_a_changed_one_does_not_hold() {
    let keeper = Keeper::sqlite().await;
    let (_sidecar, agent) = keeper.served(2).await;
    let receipt = ["--receipt", "receipt.json", "--key", "evidence.pem", "--backups", "10d"];
    keeper.erase(&[&["--run", &agent.run, "--role", "args"], &receipt[..]].concat());
    let check = |more: &[&str]| {
        let keys = ["payload", "receipt", "--key", "evidence.pem.pub", "receipt.json"];
        keeper.ask(&[&keys, more].concat())
    };
    let ended = check(&["--fleet-key", "fleet.pem.pub", "--json"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let proven: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let data = &proven["erasures"][0]["data"];
    assert_eq!(data["c"].as_array().unwrap().len(), 2);
    assert_eq!((&data["basis"], &data["by"]), (&"GDPR 17".into(), &"operator:olga".into()));
    assert!(data["backups_expire_by"].as_str().unwrap() > data["at"].as_str().unwrap());
    assert!(check(&[]).out.contains("backups may hold the bytes until"), "it says so to people");
    // A stranger's key, another log's key, and any changed byte of what was signed.
    let stranger = ["payload", "receipt", "--key", "fleet.pem.pub", "receipt.json"];
    assert_eq!(keeper.ask(&stranger).code, 1);
    assert_eq!(check(&["--fleet-key", "evidence.pem.pub"]).code, 1);
    let text = std::fs::read_to_string(keeper.path("receipt.json")).unwrap();
    let at = text.find("\"payload\":\"").unwrap() + 40;
    let other = if &text[at..=at] == "A" { "B" } else { "A" };
    let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
    std::fs::write(keeper.path("receipt.json"), changed).unwrap();
    assert_eq!(check(&[]).code, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_between_record_and_deletion_is_finished_by_running_it_again() {
    let keeper = Keeper::sqlite().await;
    let (_sidecar, agent) = keeper.served(3).await;
    // The power goes when the first row is deleted.
    let cut = "CREATE TRIGGER cut BEFORE DELETE ON stored_payload BEGIN SELECT RAISE(ABORT, 'power'); END";
    keeper.sql(cut).await;
    let ended = keeper.try_erase(olga(), &["--run", &agent.run]);
    assert_ne!(ended.code, 0, "{ended:?}");
    assert_eq!((keeper.listed(&[]).len(), erasures(&keeper).await), (9, 1));
    // What the log calls erased is never shown, though the rows are still there.
    agent.seal().await.unwrap();
    let bundle = keeper.export(&agent.run, "shown", &[]);
    assert!(!holds(&crate::keeper::whole(&bundle), IBAN));
    keeper.sql("DROP TRIGGER cut").await;
    let resume = ["payload", "erase", "--config", "wicketgate.yaml", "--resume"];
    let ended = keeper.ask(&resume);
    assert!(ended.code == 0 && ended.out.contains("9 payloads erased"), "{ended:?}");
    assert_eq!((keeper.listed(&[]).len(), erasures(&keeper).await), (0, 1));
    assert!(!holds(&keeper.raw(), IBAN));
}

#[tokio::test(flavor = "multi_thread")]
async fn erasing_that_is_taken_up_again_says_so_while_somebody_still_reads_the_old_pages() {
    let keeper = Keeper::sqlite().await;
    let (mut sidecar, agent) = keeper.served(3).await;
    let run = agent.run.clone();
    agent.seal().await.unwrap();
    sidecar.stop().await;
    let reader = keeper.reading().await;
    let resume = ["payload", "erase", "--config", "wicketgate.yaml", "--resume"];
    for ended in [keeper.try_erase(olga(), &["--run", &run]), keeper.ask(&resume)] {
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.out.contains("may still hold the bytes"), "{ended:?}");
    }
    reader.close().await.unwrap();
    let ended = keeper.ask(&resume);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(!holds(&keeper.raw(), IBAN));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bundle_of_an_erased_run_says_where_the_erasure_is_recorded() {
    let keeper = Keeper::sqlite().await;
    let (_sidecar, agent) = keeper.served(2).await;
    agent.seal().await.unwrap();
    keeper.erase(&["--run", &agent.run]);
    let bundle = keeper.export(&agent.run, "shown", &[]);
    let index = std::fs::read_to_string(bundle.join("payloads/index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_str(&index).unwrap();
    let all: Vec<_> = index.as_object().unwrap().values().collect();
    assert_eq!(all.len(), 6);
    for told in all {
        assert_eq!(told["erased"], true);
        assert_eq!(told["log"], "wicketgate.dev/default/fleet");
        assert!(told["seq"].is_u64());
    }
    let report = keeper.verify(&bundle);
    assert_eq!(outcome(&report, "P1").0, "VALID", "{report}");
    // Without the entry that says so, nobody has to believe it.
    std::fs::remove_file(bundle.join("fleet/entries.jsonl")).unwrap();
    assert_eq!(outcome(&keeper.verify(&bundle), "P1").0, "INVALID");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_erased_without_confirmation() {
    let keeper = Keeper::sqlite().await;
    let (_sidecar, agent) = keeper.served(1).await;
    let why = ["payload", "erase", "--basis", "b", "--operator-key", olga(), "--run", &agent.run];
    let ended = keeper.record(&why);
    assert!(ended.code == 0 && ended.out.contains("nothing was"), "{ended:?}");
    assert_eq!((keeper.listed(&[]).len(), erasures(&keeper).await), (3, 0));
    let c = keeper.listed(&[])[0]["commitment"].as_str().unwrap().to_owned();
    keeper.erase(&["--commitment", &c]);
    assert_eq!((keeper.listed(&[]).len(), erasures(&keeper).await), (2, 1));
    let ended = keeper.record(&[
        "payload",
        "erase",
        "--commitment",
        "zz",
        "--basis",
        "b",
        "--operator-key",
        olga(),
    ]);
    assert_eq!(ended.code, 64, "{ended:?}");
}
