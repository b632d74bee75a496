//! The scripted provider as a process.

use std::process::Command;

use serde_json::Value;
use wicketgate_support::process::Process;
use wicketgate_support::program::top;

use crate::home;

/// A provider on a port of its own, gone with the test. Its scripts come from the clients.
pub struct Provider {
    _process: Process,
    /// Where it answers, without `/v1`.
    pub url: String,
}

impl Provider {
    #[track_caller]
    pub fn start() -> Self {
        let mut command = Command::new(home::llm().join("python/bin/python"));
        command.arg("-B").arg(top().join("tests/agents/llm/provider.py"));
        let process = Process::start(command);
        let url = process.read("its address", |line| {
            let line: Value = serde_json::from_str(line).ok()?;
            Some(line["url"].as_str()?.to_owned())
        });
        Self { _process: process, url }
    }
}
