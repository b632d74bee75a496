//! The commands, through the built program.

use std::process::{Command, Stdio};

use wicketgate::control::Order;

use crate::api::{ARMOR, ApiServer, Ask, GATE, ask, run_id};

const COUNTED: &str = r#"{"counted":true,"call":"authorized","detail":"","message":""}"#;
const UNCOUNTED: &str =
    r#"{"counted":false,"call":"held","detail":"approval.signature","message":"not an approver"}"#;
const STOPPED: &str = r#"{"left":0,"runs_sealed":1,"stopped":[],"stopped_count":3}"#;

#[tokio::test]
async fn list_and_show_say_everything_and_nothing_steers_the_terminal() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    let none = api.command("vera", &["approval", "list"]).await.ends(0);
    assert_eq!(none.out, "no call is held\n");
    api.open_run(run).await;
    let digest = api.hold(ask(run, "c1", r#"{"amount":1200}"#)).await;
    let list = api.command("vera", &["approval", "list"]).await.ends(0);
    let words = wicketgate::operator::view::words(&digest);
    for part in ["T3  payments.refund  by refund-agent", "call c1", "second pair of eyes", &words] {
        assert!(list.out.contains(part), "{part}: {}", list.out);
    }
    let run = run.to_string();
    let shown = api.command("anna", &["approval", "show", &run, "c1"]).await.ends(0);
    assert!(shown.out.contains("\"amount\": 1200") && shown.out.contains(&words), "{}", shown.out);
    assert!(shown.out.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", shown.out);
    let refused = api.command("vera", &["approval", "show", &run, "c1"]).await.ends(1);
    assert!(refused.err.contains("operator.forbidden"), "{}", refused.err);
    let gone = api.command("anna", &["approval", "show", &run, "c9"]).await.ends(1);
    assert!(gone.err.contains("call.not_found/approval.not_held"), "{}", gone.err);
    let json = api.command("anna", &["approval", "show", &run, "c1", "--json"]).await.ends(0);
    let body: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let bytes =
        api.command("anna", &["approval", "show", &run, "c1", "--statement", "approve"]).await;
    assert_eq!(bytes.ends(0).out, body["statement"].as_str().unwrap(), "no line feed follows");
}

#[tokio::test]
async fn an_approval_may_be_signed_elsewhere_and_the_answer_decides_the_exit_code() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    api.hold(ask(run, "c1", r#"{"amount":1200}"#)).await;
    std::fs::write(api.path("word.sig"), ARMOR).unwrap();
    let run = run.to_string();
    let give = ["approval", "approve", &run, "c1", "--signature", "word.sig"];
    let asked = api.command("anna", &give).await.ends(64);
    assert!(asked.err.contains("--yes"), "T3 without a terminal: {}", asked.err);
    assert_eq!(api.orders.since(0, 10).await.unwrap(), []);

    let yes = [&give[..], &["--yes"]].concat();
    let gate = api.gate(GATE, UNCOUNTED).await;
    let answered = api.command("anna", &yes).await.ends(1);
    assert!(answered.out.contains("NOT COUNTED"), "{}", answered.out);
    drop(gate);
    let _gate = api.gate(GATE, COUNTED).await;
    let answered = api.command("anna", &yes).await.ends(0);
    assert!(answered.out.contains("counted; the call is authorized"), "{}", answered.out);
    assert!(answered.out.contains("ARGUMENTS, ALL 15 BYTES"), "it was shown: {}", answered.out);
}

/// On every tier, for approving and for proposing: without a terminal and without `--yes` nothing is signed.
#[tokio::test]
async fn nothing_is_signed_without_a_terminal_or_yes_on_any_tier() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    std::fs::write(api.path("word.sig"), ARMOR).unwrap();
    std::fs::write(api.path("new.json"), r#"{"amount": 10}"#).unwrap();
    for tier in ["T0", "T1", "T2", "T3"] {
        api.hold(Ask { tier, ..ask(run, tier, r#"{"amount":1200}"#) }).await;
        let run = run.to_string();
        let give = ["approval", "approve", &run, tier, "--signature", "word.sig"];
        let modify =
            [&["approval", "modify", &run, tier, "--arguments", "new.json"][..], &give[4..]];
        for command in [give.to_vec(), modify.concat()] {
            let asked = api.command("anna", &command).await.ends(64);
            assert!(asked.err.contains("add --yes"), "{tier}: {}", asked.err);
            assert!(asked.out.contains("ARGUMENTS, ALL 15 BYTES"), "shown first: {}", asked.out);
        }
    }
    assert_eq!(api.orders.since(0, 10).await.unwrap(), []);
}

#[tokio::test]
async fn control_says_what_was_stopped_and_ends_with_1_if_a_gate_was_not_reached() {
    let api = ApiServer::open().await;
    let kill = ["control", "kill", "agent", "refund-agent", "--reason", "loops"];
    let alone = api.command("otto", &kill).await.ends(1);
    assert!(alone.out.contains("NO GATE HAS APPLIED IT YET"), "{}", alone.out);
    let _gate = api.gate("a", STOPPED).await;
    let done = api.command("otto", &kill).await.ends(0);
    assert!(done.out.contains("a: 3 calls stopped, 1 run ended, 0 left running"), "{}", done.out);
    crate::api::show(&*api.orders, "deaf", 0).await;
    let missed = api.command("otto", &kill).await.ends(1);
    assert!(missed.out.contains("deaf: NOT REACHED"), "{}", missed.out);
    let list = api.command("vera", &["control", "list"]).await.ends(0);
    assert!(list.out.contains("otto  kill agent refund-agent  loops"), "{}", list.out);
    let fleet = api.command("vera", &["control", "fleet"]).await.ends(0);
    assert!(fleet.out.contains("deaf  there"), "{}", fleet.out);
    let refused = api.command("anna", &kill).await.ends(1);
    assert!(refused.err.contains("operator.forbidden"), "{}", refused.err);
    let odd = api.command("otto", &["control", "kill", "agent", "--reason", "r"]).await.ends(64);
    assert!(odd.err.contains("unknown target"), "{}", odd.err);
}

#[tokio::test]
async fn an_ssh_key_signs_exactly_what_was_shown_and_stock_openssh_verifies_it() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    let digest = api.hold(ask(run, "c1", r#"{"amount":1200}"#)).await;
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "anna", "-f"])
        .arg(api.path("id"))
        .status();
    assert!(made.unwrap().success());
    let _gate = api.gate(GATE, COUNTED).await;
    let run = run.to_string();
    for word in ["approve", "refuse"] {
        let give = ["approval", word, &run, "c1", "--key", "id", "--yes"];
        api.command("anna", &give).await.ends(0);
    }
    let public = std::fs::read_to_string(api.path("id.pub")).unwrap();
    let signers = format!("anna namespaces=\"wicketgate-approval\" {public}");
    std::fs::write(api.path("signers"), signers).unwrap();
    let rows = api.orders.since(0, 10).await.unwrap();
    for (row, word) in rows.iter().zip(["approve", "refuse"]) {
        let Some(Order::ApproverStatement { statement, signature, .. }) = &row.order else {
            panic!()
        };
        assert!(statement.contains(&digest.hex()), "{statement}");
        assert!(statement.contains(&format!("\"verdict\":\"{word}\"")), "{statement}");
        std::fs::write(api.path("word"), statement).unwrap();
        std::fs::write(api.path("word.sig"), signature).unwrap();
        let verified = Command::new("ssh-keygen")
            .args(["-Y", "verify", "-f", "signers", "-I", "anna", "-n", "wicketgate-approval"])
            .args(["-s", "word.sig"])
            .current_dir(api.dir.path())
            .stdin(Stdio::from(std::fs::File::open(api.path("word")).unwrap()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&verified.stdout).into_owned();
        assert!(verified.status.success() && said.contains("Good"), "{said}");
    }
    assert_eq!(rows.len(), 2);
}
