//! Keys that change, keys that count no more, and a secret that is in no file of ours.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use wicketgate::crypto::note::Checkpoint;
use wicketgate::ledger::sqlite::SqliteReader;
use wicketgate::ledger::store::LedgerReader as _;

use crate::fleet::{
    FLEET, anchor, calls_through, public, run, run_with, some_calls, sqlite, verify,
};
use crate::sidecar::Estate;
use crate::tool::Tool;

fn rotate<'a>(purpose: &'a str, new: &'a str) -> Vec<&'a str> {
    vec!["key", "rotate", "--use", purpose, "--new", new, "--config", "wicketgate.yaml"]
}

async fn head(estate: &Estate, origin: &str) -> (u64, String) {
    let reader = SqliteReader::open(&estate.path("state/ledger.sqlite")).await.unwrap();
    let rows = reader.chains().await.unwrap();
    let row = rows.into_iter().find(|row| row.origin == origin).unwrap();
    (row.head.size, row.head.checkpoint)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_key_is_rotated_with_heads_that_both_keys_signed() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    some_calls(&estate, &["a"]).await;
    anchor(&estate).await.ends(0);
    run(&estate, &rotate("fleet", "fleet-2.pem")).await.ends(0).says("previous_key");
    let mode = std::fs::metadata(estate.path("fleet-2.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (old, new) =
        (public(&estate.path("fleet.pem.pub")), public(&estate.path("fleet-2.pem.pub")));
    let (_, both) = head(&estate, FLEET).await;
    for key in [&old, &new] {
        Checkpoint::open(&both, key).unwrap();
    }
    estate.configure(|config| {
        config["fleet"] = json!({"key": "fleet-2.pem", "previous_key": "fleet.pem"});
    });
    some_calls(&estate, &["b"]).await;
    anchor(&estate).await.ends(0);
    let (_, published) = head(&estate, FLEET).await;
    assert!(
        Checkpoint::open(&published, &old).is_ok() && Checkpoint::open(&published, &new).is_ok()
    );
    estate.configure(|config| config["fleet"] = json!({"key": "fleet-2.pem"}));
    some_calls(&estate, &["c"]).await;
    anchor(&estate).await.ends(0);
    let (_, alone) = head(&estate, FLEET).await;
    assert!(Checkpoint::open(&alone, &old).is_err() && Checkpoint::open(&alone, &new).is_ok());
    verify(&estate, "").await.ends(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_enrolment_key_counts_because_the_old_one_announced_it() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    some_calls(&estate, &["a"]).await;
    // The auditor pinned the old key, and knows no other.
    let pinned = format!(
        "enrolment-key ed25519:{}\n",
        public(&estate.path("state/enrolment.key.pub")).base64()
    );
    std::fs::write(estate.path("pinned.txt"), &pinned).unwrap();
    run_with(&estate, &["keygen", "--out", "other.pem"], &[]).ends(0);
    estate.configure(|config| config["fleet"]["enrolment_key"] = json!("other.pem"));
    some_calls(&estate, &["b"]).await;
    let check = ["ledger", "verify", "--config", "wicketgate.yaml", "--trust", "pinned.txt"];
    run(&estate, &check).await.ends(1).says("not by the enrolment key");

    let estate = sqlite(&tool);
    some_calls(&estate, &["a"]).await;
    let pinned = format!(
        "enrolment-key ed25519:{}\n",
        public(&estate.path("state/enrolment.key.pub")).base64()
    );
    std::fs::write(estate.path("pinned.txt"), &pinned).unwrap();
    run(&estate, &rotate("enrolment", "other.pem")).await.ends(0).says("enrolment_key");
    estate.configure(|config| config["fleet"]["enrolment_key"] = json!("other.pem"));
    some_calls(&estate, &["b"]).await;
    anchor(&estate).await.ends(0);
    run(&estate, &check).await.ends(0).says(&format!("VALID {}", estate.origin().await));

    // What either key certified can be shown to somebody who knows both.
    let whole = format!("{}:0..", estate.origin().await);
    run(&estate, &["keygen", "--out", "evidence.pem"]).await.ends(0);
    let export = ["evidence", "export", "--config", "wicketgate.yaml", "--key", "evidence.pem"];
    let range = [&export[..], &["--range", &whole, "--out", "shown"]].concat();
    run(&estate, &range).await.ends(0);
    let population = [&export[..], &["--population", "--out", "all"]].concat();
    run(&estate, &population).await.ends(0);
    let mut trust = pinned;
    for (word, file) in [("enrolment-key", "other.pem.pub"), ("evidence-key", "evidence.pem.pub")] {
        trust += &format!("{word} ed25519:{}\n", public(&estate.path(file)).base64());
    }
    std::fs::write(estate.path("auditor.txt"), &trust).unwrap();
    let verify = ["evidence", "verify", "shown", "--trust", "auditor.txt", "--json"];
    let said = run(&estate, &verify).await;
    assert_ne!(said.code, 1, "{said:?}");
    assert!(!said.out.contains("INVALID"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_counts_up_to_a_position_of_the_log_and_no_further() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    some_calls(&estate, &["a"]).await;
    let slot = estate.origin().await;
    let (good, _) = head(&estate, &slot).await;
    std::fs::copy(estate.path("state/enrolment.key.pub"), estate.path("old.pub")).unwrap();
    run(&estate, &rotate("enrolment", "other.pem")).await.ends(0);
    estate.configure(|config| config["fleet"]["enrolment_key"] = json!("other.pem"));
    some_calls(&estate, &["b"]).await;
    let good_text = good.to_string();
    let pinned = "enrolment-key old.pub\nenrolment-key other.pem.pub\n".to_owned();
    std::fs::write(estate.path("both.txt"), pinned).unwrap();
    let check = [
        "ledger",
        "verify",
        "--config",
        "wicketgate.yaml",
        "--trust",
        "both.txt",
        "--chain",
        &slot,
    ];
    let revoke = |size: &'static str| {
        vec![
            "key",
            "revoke",
            "--use",
            "enrolment",
            "--key",
            "old.pub",
            "--log",
            &slot,
            "--good-size",
            size,
            "--reason",
            "stolen",
            "--config",
            "wicketgate.yaml",
        ]
    };
    // Everything the old key certified stands before the boundary.
    let at: &'static str = Box::leak(good_text.into_boxed_str());
    run(&estate, &revoke(at)).await.ends(0).says("revoked enrolment");
    run(&estate, &check).await.ends(0);
    // One entry less is good: the last one the old key certified is not.
    let below: &'static str = Box::leak((good - 1).to_string().into_boxed_str());
    run(&estate, &revoke(below)).await.ends(0);
    run(&estate, &check).await.ends(1).says("revoked enrolment key");

    // Nor is it in an archive, for an auditor who was told so.
    let archive = ["ledger", "archive", "--config", "wicketgate.yaml", "--out", "archive"];
    run(&estate, &[&archive[..], &["--trust", "both.txt"]].concat()).await.ends(0);
    let tiles = |trust: &'static str| {
        ["ledger", "verify", "--tiles", "archive", "--chain", &slot, "--trust", trust]
    };
    run(&estate, &tiles("both.txt")).await.ends(0);
    let old = public(&estate.path("old.pub")).id();
    for (file, good, code) in [("good.txt", at, 0), ("less.txt", below, 1)] {
        let told = format!(
            "enrolment-key old.pub\nenrolment-key other.pem.pub\nrevoked enrolment {old} {slot} {good}\n"
        );
        std::fs::write(estate.path(file), told).unwrap();
        run(&estate, &tiles(file)).await.ends(code);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_others_may_read_is_refused_before_anything_is_written() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    some_calls(&estate, &["a"]).await;
    let path = estate.path("fleet.pem");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    anchor(&estate).await.ends(78).says("only its owner may read it");
    run(&estate, &["config", "check", "wicketgate.yaml"]).await.says("chmod 600");
}

/// A stock ssh-agent with one fresh ed25519 key. It ends with the test.
struct Agent {
    child: Child,
    socket: String,
}

impl Agent {
    async fn start(estate: &Estate) -> Agent {
        let socket = estate.path("agent.ssh");
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", "fleet", "-f"])
            .arg(estate.path("held"))
            .status()
            .expect("ssh-keygen (tests/run installs openssh-client)");
        assert!(made.success());
        let child = Command::new("ssh-agent")
            .args(["-D", "-a"])
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .expect("ssh-agent (tests/run installs openssh-client)");
        let agent = Agent { child, socket: socket.display().to_string() };
        crate::until("the agent", || async { socket.exists() }).await;
        let added = Command::new("ssh-add")
            .arg("-q")
            .arg(estate.path("held"))
            .env("SSH_AUTH_SOCK", &agent.socket)
            .status()
            .unwrap();
        assert!(added.success());
        // From here on the secret is in the agent alone.
        std::fs::remove_file(estate.path("held")).unwrap();
        agent
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ssh_agent_signs_for_the_fleet_log_and_for_writers_and_one_that_hangs_is_an_error() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut agent = Agent::start(&estate).await;
    let held = "ssh-agent:held.pub";
    estate.configure(|config| config["fleet"] = json!({"key": held, "enrolment_key": held}));
    let socket = format!("SSH_AUTH_SOCK={}", agent.socket);
    let mut gate = estate.start_under(&["env", &socket]);
    gate.ready().await;
    calls_through(&gate, &["a"]).await;
    let env = [("SSH_AUTH_SOCK", agent.socket.as_str())];
    let round = || {
        let args = ["ledger", "anchor", "--config", "wicketgate.yaml", "--json"];
        tokio::task::block_in_place(|| run_with(&estate, &args, &env))
    };
    round().ends(0).says(FLEET);
    calls_through(&gate, &["b"]).await;
    gate.stop().await;
    verify(&estate, "").await.ends(0);

    agent.signal(rustix::process::Signal::STOP);
    round().ends(2).says("no answer within 5000 ms");
    agent.signal(rustix::process::Signal::CONT);
    round().ends(0);
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    some_calls_fail(&estate, &socket).await;
    anchor(&estate).await.ends(78).says("SSH_AUTH_SOCK is not set");
}

/// A gate whose certificates nobody signs does not get ready, and says why.
async fn some_calls_fail(estate: &Estate, socket: &str) {
    let gate = estate.start_under(&["env", socket]);
    gate.not_ready("ssh-agent at").await;
}
