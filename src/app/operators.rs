//! The operator API of this machine: on SQLite the sidecar answers operators itself.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::checked::Checked;
use super::control::OrderList;
use super::listen::Sources;
use super::{Error, System};
use crate::config::{self, Config};
use crate::crypto::signer;
use crate::domain::code::Code;
use crate::ledger::sqlite::SqliteReader;
use crate::operator::webhook::Webhook;
use crate::operator::{OperatorApi, OperatorParts};
use crate::serve::console::ROOT;

/// The operator API, if any operator is configured. On Postgres operators ask the hub.
pub(super) async fn operator_api(
    checked: &Checked,
    sources: &Sources<'_>,
) -> Result<Option<Arc<OperatorApi>>, Error> {
    if let Some(problem) = config::operators::unheard(&checked.config) {
        tracing::warn!("{problem}");
    }
    let live = checked.live();
    let sealed = &checked.config.evidence.sealed;
    let config::Ledger::Sqlite(sqlite) = &checked.config.ledger else {
        let why = "evidence.sealed: on Postgres the hub stores the bundles of sealed runs; set it in the hub's configuration";
        return if sealed.is_some() { Err(Error::wrong(why)) } else { Ok(None) };
    };
    let OrderList::Sqlite(followed) = sources.list else { return Ok(None) };
    let hook = &checked.config.approvals.webhook;
    if live.operators.is_empty() && hook.is_none() && sealed.is_none() {
        return Ok(None);
    }
    let reader = SqliteReader::open(&sqlite.path).await.map_err(System::ledger)?;
    let orders = followed.beside(&sqlite.path).await.map_err(System::ledger)?;
    let (road, metrics) = (Arc::clone(sources.road), Arc::clone(&checked.metrics));
    let reject = move |code: Code| match road.get() {
        Some(road) => road.reject(code),
        None => metrics.rejected(code.as_str()),
    };
    let break_glass = super::break_glass::operator_part(&checked.config, &checked.metrics)?;
    let api = OperatorApi::new(OperatorParts {
        operators: live.operators.clone(),
        reader: Arc::new(reader),
        orders: Arc::new(orders),
        ledger: sources.ledger.clone(),
        vault: checked.config.vault().map_err(Error::wrong)?,
        clock: Arc::clone(&checked.clock),
        entropy: Arc::clone(&checked.entropy),
        reject: Arc::new(reject),
        tenant: super::fleet::tenant(&checked.config),
    });
    api.score_within(checked.config.trust.score_window());
    if let Some(break_glass) = break_glass {
        api.allow_break_glass(break_glass);
    }
    if let Some(evidence) = super::evidence::operator_part(&checked.config)? {
        api.allow_evidence(evidence);
        api.allow_backtests(Arc::new(super::backtest::ChildBacktester::of(&checked.config)));
    }
    if let Some(index) = super::index::operator_part(&checked.config) {
        api.allow_index(index);
    }
    if let Some(list) = super::approvers::operator_part(&checked.config)? {
        api.allow_approvers(list);
    }
    Ok(Some(Arc::new(api)))
}

/// What works for the operator API until it is stopped: its index of calls, notices about held calls, and bundles of
/// sealed runs in this directory.
pub(super) fn tasks(
    api: &Arc<OperatorApi>,
    (hook, sealed): (Option<Webhook>, Option<PathBuf>),
    stop: &CancellationToken,
) -> Vec<JoinHandle<()>> {
    let mut spare = super::spare::SpareCores::new();
    let index = Arc::clone(api).keep_index(move |now| spare.look(now), stop.clone());
    let mut tasks = vec![tokio::spawn(index)];
    tasks.extend(hook.map(|hook| tokio::spawn(hook.run(Arc::clone(api), stop.clone()))));
    let keep = |sealed| tokio::spawn(Arc::clone(api).keep_bundles(sealed, stop.clone()));
    tasks.extend(sealed.map(keep));
    tasks
}

/// The receiver of notices about held calls, if one is configured.
pub(super) fn webhook(config: &Config) -> Result<Option<Webhook>, Error> {
    let Some(hook) = &config.approvals.webhook else { return Ok(None) };
    let invalid = |why: String| Error::wrong(format!("approvals.webhook: {why}"));
    let key = signer::open(&hook.key, &config::environment).map_err(|e| invalid(e.to_string()))?;
    let ca = hook
        .ca
        .as_ref()
        .map(|path| std::fs::read(path).map_err(|e| invalid(format!("`{}`: {e}", path.display()))));
    let link = hook.link.clone().or_else(|| console_link(config));
    let made = Webhook::new(&hook.url, ca.transpose()?.as_deref(), key, link);
    let made = made.map_err(|error| invalid(error.to_string()))?;
    Ok(Some(made.in_format(hook.format).with_alerts(config.alerts.webhook)))
}

/// The console's page of held calls, where browsers are served under a configured name.
fn console_link(config: &Config) -> Option<String> {
    let console = config.console.settings(&config.operator)?;
    let origin = console.origins.first()?;
    Some(format!("{origin}{ROOT}/approvals"))
}
