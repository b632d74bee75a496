//! A gate with a fleet log, commands run to their end, and a witness in a process of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use wicketgate_crypto::keys::PublicKey;
use wicketgate_crypto::note;

use crate::program;
use crate::ran::Ran;
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;

pub const FLEET: &str = "wicketgate.dev/default/fleet";

/// Runs a command in the gate's directory.
pub fn run_with(estate: &Estate, args: &[&str], env: &[(&str, &str)]) -> Ran {
    Ran::of(estate.command(args).envs(env.iter().copied()))
}

/// As [`run_with`], off the runtime's threads.
pub async fn run(estate: &Estate, args: &[&str]) -> Ran {
    tokio::task::block_in_place(|| run_with(estate, args, &[]))
}

/// `ledger anchor --json`.
pub async fn anchor(estate: &Estate) -> Ran {
    run(estate, &["ledger", "anchor", "--config", "wicketgate.yaml", "--json"]).await
}

/// `ledger verify`, trusting the enrolment key, with more lines in the trust file.
pub async fn verify(estate: &Estate, more: &str) -> Ran {
    let trust = format!("enrolment-key state/enrolment.key.pub\n{more}");
    std::fs::write(estate.path("trust.txt"), trust).unwrap();
    run(estate, &["ledger", "verify", "--config", "wicketgate.yaml", "--trust", "trust.txt"]).await
}

/// Makes a fleet key and says so in the configuration.
pub fn fleet(estate: &Estate) {
    run_with(estate, &["keygen", "--out", "fleet.pem"], &[]).ends(0);
    estate.configure(|config| config["fleet"] = json!({"key": "fleet.pem"}));
}

/// On SQLite, with a fleet key.
pub fn sqlite(tool: &Tool) -> Estate {
    let estate = Estate::sqlite(tool);
    fleet(&estate);
    estate
}

/// The public half of a key file.
pub fn public(path: &Path) -> PublicKey {
    PublicKey::load_all(path).unwrap().remove(0)
}

/// The verifier key of the fleet log.
pub fn vkey(estate: &Estate) -> String {
    note::vkey(FLEET, &public(&estate.path("fleet.pem.pub")))
}

/// Serves, makes one run with these calls, and stops.
pub async fn some_calls(estate: &Estate, calls: &[&str]) {
    let mut gate = estate.serve().await;
    calls_through(&gate, calls).await;
    gate.stop().await;
}

pub async fn calls_through(gate: &Sidecar, calls: &[&str]) {
    let agent = gate.open().await;
    for call in calls {
        agent.call("work.do", call, "{}").await.unwrap();
    }
    agent.seal().await.unwrap();
}

/// Copies the files of the database, as a backup of a stopped gate does.
pub fn back_up(estate: &Estate) -> PathBuf {
    let to = estate.path("backup");
    std::fs::create_dir(&to).unwrap();
    for suffix in ["", "-wal"] {
        // A process that ended may have left its last commits in the WAL.
        let from = estate.path(&format!("state/ledger.sqlite{suffix}"));
        if from.exists() {
            std::fs::copy(from, to.join(format!("ledger.sqlite{suffix}"))).unwrap();
        }
    }
    to
}

/// Puts them back.
pub fn restore(estate: &Estate) {
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(estate.path(&format!("state/ledger.sqlite{suffix}")));
    }
    for suffix in ["", "-wal"] {
        let from = estate.path(&format!("backup/ledger.sqlite{suffix}"));
        if from.exists() {
            std::fs::copy(from, estate.path(&format!("state/ledger.sqlite{suffix}"))).unwrap();
        }
    }
}

/// A witness in a process of its own. It ends with the test.
pub struct Witness {
    child: Child,
    pub key: String,
    pub url: String,
}

impl Witness {
    pub async fn start(estate: &Estate, name: &str) -> Witness {
        let made = run_with(
            estate,
            &["witness", "keygen", "--name", name, "--out", &format!("{name}.pem"), "--json"],
            &[],
        );
        let key = made.ends(0).json()["vkey"].as_str().unwrap().to_owned();
        std::fs::write(estate.path("logs.txt"), format!("{}\n", vkey(estate))).unwrap();
        let out = estate.path(&format!("{name}.out"));
        let child = Command::new(program::gate())
            .args(["witness", "serve", "--name", name, "--key", &format!("{name}.pem")])
            .args(["--logs", "logs.txt", "--state", &format!("{name}.state")])
            .args(["--listen", "127.0.0.1:0"])
            .current_dir(estate.path("."))
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&out).unwrap())
            .stderr(std::fs::File::create(estate.path(&format!("{name}.err"))).unwrap())
            .spawn()
            .unwrap();
        let mut witness = Witness { child, key, url: String::new() };
        crate::until("the witness", || {
            let said = std::fs::read_to_string(&out).unwrap();
            async move { said.contains("listening on ") && said.ends_with('\n') }
        })
        .await;
        let said = std::fs::read_to_string(&out).unwrap();
        witness.url = said.trim().trim_start_matches("listening on ").to_owned();
        witness
    }

    /// Makes it one of the gate's witnesses.
    pub fn known_to(&self, estate: &Estate) {
        let one = json!({"url": self.url, "key": self.key});
        estate.configure(|config| match config["fleet"]["witnesses"].as_array_mut() {
            Some(all) => all.push(one),
            None => config["fleet"]["witnesses"] = json!([one]),
        });
    }

    pub fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
