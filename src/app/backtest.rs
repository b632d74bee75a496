//! Backtests for operators: this program again, as a child that reads the ledger and gets no key but those of payloads.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;

use crate::config::{self, Config};
use crate::operator::Cause;
use crate::operator::backtests::{BacktestOrder, Backtester};

/// This program.
const PROGRAM: &str = "/proc/self/exe";
/// How long a backtest may take.
const WITHIN: Duration = Duration::from_secs(60 * 60);

/// Why a backtest has no result.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The hub's own login cannot read other chains.
    #[error("`hub.reader_url_file` is not set")]
    NoReader,
    #[error("the backtest does not start: {0}")]
    Start(#[from] std::io::Error),
    #[error("the backtest took longer than an hour: ask for fewer decisions")]
    Late,
    /// What the child says.
    #[error("{0}")]
    Refused(String),
}

/// The ledger of a configuration, and the keys of its payloads.
#[derive(Debug)]
pub(super) struct ChildBacktester {
    /// The option that names the ledger, and its value.
    ledger: Option<(&'static str, PathBuf)>,
    encryption: Vec<PathBuf>,
}

impl ChildBacktester {
    pub(super) fn of(config: &Config) -> Self {
        let ledger = match &config.ledger {
            config::Ledger::Sqlite(sqlite) => Some(("--sqlite", sqlite.path.clone())),
            config::Ledger::Postgres(_) => {
                let file = config.hub.reader_url_file.clone();
                file.map(|file| ("--postgres-url-file", file))
            }
        };
        let keys = config.encryption.iter();
        let keys = keys.flat_map(|one| std::iter::once(&one.key_file).chain(&one.old_key_files));
        Self { ledger, encryption: keys.cloned().collect() }
    }

    fn command(&self, order: &BacktestOrder) -> Result<tokio::process::Command, Error> {
        let mut command = tokio::process::Command::new(PROGRAM);
        // Nothing of this process's environment, and one thread: calls go first.
        command.env_clear().args(["policy", "backtest", "--json", "--jobs", "1"]);
        let (option, ledger) = self.ledger.as_ref().ok_or(Error::NoReader)?;
        let mut with = |name: &str, value: &Path| {
            command.arg(name).arg(value);
        };
        with(option, ledger);
        with("--bundle", &order.bundle);
        self.encryption.iter().for_each(|key| with("--encryption-key", key));
        let texts = [
            ("--tenant", Some(&order.tenant)),
            ("--since", order.since.as_ref()),
            ("--until", order.until.as_ref()),
            ("--agent", order.agent.as_ref()),
            ("--tool", order.tool.as_ref()),
        ];
        for (name, value) in texts {
            command.args(value.map(|value| format!("{name}={value}")));
        }
        command.arg("--limit").arg(order.limit.to_string());
        // What kills this process leaves no time to end the child.
        command.arg("--parent").arg(std::process::id().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        Ok(command)
    }
}

#[async_trait]
impl Backtester for ChildBacktester {
    async fn backtest(&self, order: &BacktestOrder) -> Result<Vec<u8>, Cause> {
        let child = self.command(order)?.spawn().map_err(Error::Start)?;
        let ended = tokio::time::timeout(WITHIN, child.wait_with_output()).await;
        let output = ended.map_err(|_late| Error::Late)?.map_err(Error::Start)?;
        // The exit code says whether decisions change, too: only a result has an output.
        if output.stdout.is_empty() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().last().unwrap_or("it ended without a result");
            return Err(Error::Refused(said.trim_start_matches("error: ").to_owned()).into());
        }
        Ok(output.stdout)
    }
}
