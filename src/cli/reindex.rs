//! `wicketgate ledger reindex`: empties the index of calls and runs, and fills it from the ledger.

use std::path::PathBuf;

use serde_json::json;

use super::progress::Progress;
use super::reader::{self, LedgerSource};
use super::{Exit, Failure, JsonArg, print_facts};
use crate::app::{fleet, index};
use crate::clock::{Clock as _, SystemClock};
use crate::config::Ledger;
use crate::domain::plural::many;
use crate::index::FILE;

/// Entries between two lines of progress.
const ROUND: u64 = 10_000;

/// Empty the index that `run`, `call`, `search` and the operator API search, and fill it from the ledger.
///
/// A gate or a hub fills the index by itself, and the rebuilt index has the same rows. The ledger is only read.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate ledger reindex --config wicketgate.yaml\n\n\
    The gate or the hub may go on running. An interrupted reindex is finished by the next one, or by the gate.")]
pub struct Reindex {
    /// Configuration file of the gate or the hub; the index of a gate on SQLite is `console.sqlite` in its state
    /// directory, that of a hub is in its database
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "wicketgate.yaml",
        env = "WICKETGATE_CONFIG",
        hide_env_values = true
    )]
    config: PathBuf,
    #[command(flatten)]
    json: JsonArg,
}

/// Rebuilds it.
pub(super) async fn run(command: &Reindex) -> Result<Exit, Failure> {
    let config = reader::configuration(&command.config).map_err(Failure::config)?;
    let source = LedgerSource {
        config: Some(command.config.clone()),
        sqlite: None,
        postgres_url_file: None,
    };
    let reader = reader::open_reader(&source).await?;
    let (tenant, clock) = (fleet::tenant(&config), SystemClock::new());
    let place = match &config.ledger {
        Ledger::Sqlite(_) => config.state.join(FILE).display().to_string(),
        // WHY: the login of a gate has no part in the index, which the hub of its tenant keeps.
        Ledger::Postgres(_) if config.hub.reader_url_file.is_none() => {
            let why = "hub.reader_url_file: this is no configuration of a hub: on PostgreSQL the hub keeps the index";
            return Err(Failure::usage(why));
        }
        Ledger::Postgres(_) => "schema console".to_owned(),
    };
    let index = index::of_config(&config).map_err(Failure::unverifiable)?;
    index.clear().await.map_err(Failure::unverifiable)?;
    let progress = Progress::new("index");
    let mut before = None;
    let reach = loop {
        let filled = index.fill(&*reader, Some(&tenant), (clock.now(), ROUND)).await;
        let reach = filled.map_err(Failure::unverifiable)?;
        progress.at(reach.entries, reach.entries.saturating_add(reach.behind));
        if let Some(broken) = reach.broken {
            return Err(Failure::invalid(broken));
        }
        // Entries that are not stored yet, or no longer, are not waited for.
        if reach.behind == 0 || before == Some(reach.entries) {
            break reach;
        }
        before = Some(reach.entries);
    };
    let line = format!("{} in `{place}`", many(reach.entries, "entry"));
    let facts = json!({"entries": reach.entries, "behind": reach.behind, "index": place});
    print_facts(facts, line);
    Ok(Exit::Ok)
}
