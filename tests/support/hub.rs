//! A hub as a process.

use std::process::Command;

use serde_json::json;

use crate::agent::Receipts;
use crate::people::People;
use crate::program;
use crate::sidecar::{Estate, Sidecar};

/// What is changed in a configuration.
pub type Change<'a> = &'a dyn Fn(&mut serde_json::Value);

pub struct Hub {
    process: Sidecar,
}

impl Hub {
    /// A hub with the configuration of this gate; it reads by `reader` and orders by `operator`.
    pub async fn start(estate: &Estate, people: &People, urls: (&str, &str)) -> Hub {
        Self::configured(estate, people, urls, ("hub", &|_| ())).await
    }

    /// As [`Self::start`], under this name, its configuration changed.
    pub async fn configured(
        estate: &Estate,
        people: &People,
        urls: (&str, &str),
        (name, change): (&str, Change<'_>),
    ) -> Hub {
        let last = |config: &mut serde_json::Value| change(config);
        Self::start_with(estate, urls, (name, |config| people.configure(config, true)), last).await
    }

    /// As [`Self::start`], under this name, with these people.
    pub async fn start_with(
        estate: &Estate,
        (operator, reader): (&str, &str),
        (name, people): (&str, impl FnOnce(&mut serde_json::Value)),
        change: impl FnOnce(&mut serde_json::Value),
    ) -> Hub {
        let text = std::fs::read_to_string(estate.path("wicketgate.yaml")).unwrap();
        let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
        people(&mut config);
        config["state"] = json!(format!("{name}-state"));
        config["ledger"] = json!({"postgres": {"url": operator}});
        estate.secret("reader.url", reader);
        config["hub"] = json!({"reader_url_file": "reader.url"});
        config["listen"] = json!({"socket": format!("s/{name}.sock")});
        change(&mut config);
        std::fs::write(estate.path(&format!("{name}.yaml")), config.to_string()).unwrap();
        Self::run(estate, name, Command::new(program::gate())).await
    }

    /// Runs this program with the configuration of this name, which is there.
    pub async fn run(estate: &Estate, name: &str, mut program: Command) -> Hub {
        program.args(["hub", "--config", &format!("{name}.yaml")]).current_dir(estate.path("."));
        let log = estate.path(&format!("{name}.err"));
        let process = Sidecar::start(program, log, estate.socket(), Receipts::default());
        Hub { process: process.served().await }
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Sends it this signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        self.process.signal(signal);
    }

    /// `/readyz`: whether it is ready, and the answer; none while nobody listens, or by TLS alone.
    pub async fn readiness(&self) -> Option<(bool, String)> {
        self.process.readiness().await
    }

    pub fn said(&self) -> String {
        self.process.said()
    }

    pub fn url(&self) -> String {
        let scheme = if self.said().contains("tls=true") { "https" } else { "http" };
        format!("{scheme}://{}", self.process.operators())
    }
}
