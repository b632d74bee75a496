//! What a hub takes over of its configuration while it runs: who may enrol, and its operators.
//!
//! Looked at every second and on request, as a gate does. A change of anything else needs a restart and refuses the
//! whole change, so that what runs is always one state of the file.

use std::sync::Arc;

use super::reload::{Watched, differing, refused_note};
use crate::config::{self, Config};
use crate::crypto::files::FileMarks;
use crate::operator::OperatorApi;
use crate::operator::enrolment::{EnrolledPools, Registrar};
use crate::operator::operators::Operators;
use crate::telemetry::metrics::Metrics;

/// What a hub takes over while it runs.
const TAKEN: [&str; 3] = ["hub.enrolment.kubernetes.pools", "hub.enrolment.tokens", "operators"];

/// A state that was read and checked, or everything that is wrong with it.
type HubRead = Result<(Config, Operators), Vec<String>>;

/// The configuration of a running hub.
pub(super) struct HubReload {
    started: Arc<Config>,
    /// What is in force.
    current: Arc<Config>,
    files: Watched<HubRead>,
    /// Why the current file is not in force.
    refused: Vec<String>,
}

impl HubReload {
    /// Of a hub that has just read this.
    pub fn new(started: Config) -> Self {
        let files = Watched::new(marks(&started));
        let started = Arc::new(started);
        let current = Arc::clone(&started);
        Self { started, current, files, refused: Vec::new() }
    }

    /// Reads the file if it has changed.
    pub fn look(&mut self) {
        if self.files.due() {
            self.begin();
        }
    }

    /// Reads the file.
    pub fn begin(&mut self) {
        self.files.start(|| {
            let (started, current) = (Arc::clone(&self.started), Arc::clone(&self.current));
            tokio::task::spawn_blocking(move || read(&started, &current))
        });
    }

    /// Waits for the current read. Cancel-safe: may be dropped and called again.
    pub async fn outcome(&mut self) -> (FileMarks, HubRead) {
        self.files.ended(|why| (marks(&self.current), Err(vec![why]))).await
    }

    /// Puts what was read in force: everything, or nothing.
    pub fn finish(
        &mut self,
        (seen, read): (FileMarks, HubRead),
        (api, registrar): (&OperatorApi, Option<&Registrar>),
        metrics: &Metrics,
    ) {
        let is_torn = read.is_err() && seen.changed();
        self.files.was_read(seen);
        if is_torn {
            self.files.read_again();
            return;
        }
        metrics.config_read(read.is_ok());
        match read {
            Ok((next, operators)) => {
                let pools = next.hub.enrolment.as_ref().map(config::enrolment::Registry::pools);
                let EnrolledPools { shared, accounts } = pools.clone().unwrap_or_default();
                tracing::info!(shared = shared.len(), ?accounts, "reloaded the configuration");
                if let (Some(registrar), Some(pools)) = (registrar, pools) {
                    registrar.set_pools(pools);
                }
                api.set_operators(operators);
                self.current = Arc::new(next);
                self.refused.clear();
            }
            Err(problems) => {
                for why in &problems {
                    tracing::error!(%why, "the configuration was refused; the old state stays in force");
                }
                self.refused = problems.iter().map(refused_note).collect();
            }
        }
    }

    /// Why the current file is not in force.
    pub fn notes(&self) -> &[String] {
        &self.refused
    }
}

/// The files that are followed, as they are now.
fn marks(config: &Config) -> FileMarks {
    let archived = config.archived.iter().flat_map(config::archive::Archived::files);
    let tokens = config.operators.iter().filter_map(|one| one.token_file.clone());
    FileMarks::of(config.file.iter().cloned().chain(archived).chain(tokens))
}

/// The marks from before the read, and the new state. Blocks.
fn read(started: &Config, current: &Config) -> (FileMarks, HubRead) {
    // WHY: an archive lays its files out when it is read, so they are marked after that.
    let seen = match &current.archived {
        Some(archived) => FileMarks::of(archived.files()),
        None => marks(current),
    };
    let texts = |problems: Vec<config::Problem>| problems.iter().map(ToString::to_string).collect();
    let next = match current.again(&config::environment) {
        Ok(next) => next,
        Err(problems) => return (seen.and(marks(current)), Err(texts(problems))),
    };
    let seen = seen.and(marks(&next));
    let restart = differing(started, &next, &TAKEN);
    if !restart.is_empty() {
        return (seen, Err(vec![format!("needs a restart: {}", restart.join(", "))]));
    }
    let operators = Operators::load(&next.operators)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>());
    let operators = operators.and_then(|operators| match operators.is_empty() {
        true => Err(vec!["operators: none is configured".to_owned()]),
        false => Ok(operators),
    });
    (seen, operators.map(|operators| (next, operators)))
}
