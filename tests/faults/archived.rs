//! A gate whose configuration, manifest, policy and keys are one signed archive.

use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use serde_json::json;
use wicketgate::domain::digest::Digest;
use wicketgate::ledger::sqlite::SqliteReader;
use wicketgate::ledger::store::LedgerReader as _;
use wicketgate::record::{Entry, Kind};
use wicketgate_support::program;

use crate::checker::{Database, check, kinds};
use crate::reload::{says, without};
use crate::sidecar::{Estate, Sidecar, key};
use crate::tool::Tool;

/// The files of a gate, and what is made of them.
struct Archive {
    estate: Estate,
}

impl Archive {
    fn new(tool: &Tool) -> Archive {
        let estate = Estate::sqlite(tool);
        let [state, socket] = ["state", "s/agent.sock"].map(|name| estate.path(name));
        estate.configure(|config| {
            config["state"] = json!(state);
            config["listen"]["socket"] = json!(socket);
            config["trust"]["manifest_keys"] = json!(["keys/manifest.pub"]);
        });
        for name in ["archive", "stranger"] {
            estate.run(&["config", "keygen", "--out", name]);
        }
        let archive = Archive { estate };
        archive.pack("archive");
        archive
    }

    fn file(&self) -> PathBuf {
        self.estate.path("gate.archive")
    }

    /// Packs the files as they are now, and puts the archive in the place of the one before.
    fn pack(&self, signer: &str) -> String {
        let estate = &self.estate;
        let _ = std::fs::remove_dir_all(estate.path("pack"));
        let bundle = ["bundle.json", "bundle.sig.json", "agent/main.rego", "data/many.json"];
        let bundle = bundle.map(|name| format!("bundle/{name}"));
        let files = ["wicketgate.yaml", "agent.yaml", "agent.yaml.sig.json"];
        for name in files.into_iter().chain(bundle.iter().map(String::as_str)) {
            estate.write(&format!("pack/{name}"), std::fs::read(estate.path(name)).unwrap());
        }
        estate.write("pack/keys/manifest.pub", std::fs::read(key("manifest.pub")).unwrap());
        estate.run(&["config", "pack", "pack", "--key", signer, "--out", "next"]);
        let digest = Digest::of(&[&std::fs::read(estate.path("next")).unwrap()]);
        std::fs::rename(estate.path("next"), self.file()).unwrap();
        digest.prefixed()
    }

    fn start(&self) -> Sidecar {
        self.start_by("archive.pub")
    }

    /// Starts the process with this key.
    fn start_by(&self, key: &str) -> Sidecar {
        let estate = &self.estate;
        let mut command = Command::new(program::gate());
        command.args(["serve", "--config-archive", "gate.archive", "--archive-key", key]);
        command.current_dir(estate.path("."));
        Sidecar::start(command, estate.log(), estate.socket(), estate.receipts.clone())
    }

    async fn serve(&self) -> Sidecar {
        let mut sidecar = self.start();
        sidecar.ready().await;
        sidecar
    }

    /// The archives that the ledger names, start by start.
    async fn recorded(&self) -> Vec<String> {
        let Database::Sqlite(path) = &self.estate.database else { panic!("it is not on SQLite") };
        let reader = SqliteReader::open(path).await.unwrap();
        let mut found = Vec::new();
        for chain in reader.chains().await.unwrap() {
            let kinds = [Kind::WriterStarted.as_str()];
            for row in reader.entries_of(&chain.chain, &kinds).await.unwrap() {
                let entry = Entry::parse(&row.body).unwrap();
                let data = serde_json::to_value(&entry.draft.body).unwrap();
                let settings = data["settings"].as_array().unwrap().iter();
                let archives = settings.filter(|setting| setting["k"] == "archive");
                found.extend(archives.map(|setting| setting["v"].as_str().unwrap().to_owned()));
            }
        }
        found
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_serves_from_a_signed_archive_records_its_digest_and_takes_over_the_next_one() {
    let tool = Tool::start().await;
    let archive = Archive::new(&tool);
    let first = archive.pack("archive");
    let mut sidecar = archive.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    assert_eq!(archive.recorded().await, [first.as_str()]);

    archive.estate.configure(|config| without(config, "work.do"));
    let second = archive.pack("archive");
    says(&sidecar, "reloaded the configuration").await;
    assert!(!agent.tools().await.contains(&"work.do".to_owned()));
    let gone = agent.call("work.do", "b", r#"{"n":1}"#).await.unwrap_err();
    assert_eq!(gone.code, "tool.not_granted");
    sidecar.stop().await;

    // What a crash left of the files counts for nothing: the archive does.
    let laid = archive.estate.path("state/configuration/current/wicketgate.yaml");
    std::fs::write(laid, "nothing").unwrap();
    let mut sidecar = archive.serve().await;
    assert_eq!(archive.recorded().await, [first.as_str(), second.as_str()]);
    sidecar.stop().await;
    let summary = check(&archive.estate.database, &tool, &archive.estate.receipts);
    assert_eq!(kinds(&summary, "config.changed"), 1, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_of_another_signer_changes_nothing_in_a_running_gate_and_none_starts_with_it() {
    let tool = Tool::start().await;
    let archive = Archive::new(&tool);
    let mut sidecar = archive.serve().await;
    let agent = sidecar.open().await;
    archive.estate.configure(|config| without(config, "work.do"));
    archive.pack("stranger");
    sidecar.signal(Signal::HUP);
    says(&sidecar, "refused; the old state stays in force").await;
    let (ready, told) = sidecar.readiness().await.unwrap();
    assert!(ready && told.contains("0 of the 1 required trusted signatures"), "{told}");
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();

    // A good one again is taken over, with the change.
    archive.pack("archive");
    says(&sidecar, "reloaded the configuration").await;
    assert!(!agent.tools().await.contains(&"work.do".to_owned()));
    sidecar.stop().await;

    archive.pack("stranger");
    let mut refused = archive.start();
    refused.ends(78).await;
    assert!(refused.said().contains("gate.archive"), "{}", refused.said());
    check(&archive.estate.database, &tool, &archive.estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_came_with_an_archive_verifies_none() {
    let tool = Tool::start().await;
    let archive = Archive::new(&tool);
    archive.serve().await.stop().await;
    let laid = archive.estate.path("state/configuration/current/keys/own.pub");
    std::fs::copy(archive.estate.path("archive.pub"), &laid).unwrap();
    let mut refused = archive.start_by(laid.to_str().unwrap());
    refused.ends(78).await;
    let said = refused.said();
    assert!(said.contains("comes from the archive that it would verify"), "{said}");

    // Where the files of an archive lie cannot depend on where they lie.
    archive.estate.configure(|config| config["state"] = json!("state"));
    archive.pack("archive");
    let mut refused = archive.start();
    refused.ends(78).await;
    assert!(refused.said().contains("state: `state` is relative"), "{}", refused.said());
}
