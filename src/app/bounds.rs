//! Rates, shared pools and turns, from the configuration.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::checked::Checked;
use super::running::Running;
use super::{Error, System};
use crate::config;
use crate::domain::json::Json;
use crate::enforce::{Bounds, Isolation};
use crate::identity::manifest::Manifest;
use crate::ledger::postgres::{self, PostgresPools};
use crate::ledger::sqlite::SqlitePools;
use crate::limits::bucket::Rate;
use crate::limits::pool::Pools;
use crate::tool::toolbox::{Tool, Toolbox};

/// The bounds of this gate. The ledger is open already, and with it the file pools are kept in.
pub(super) async fn bounds(checked: &Checked) -> Result<Bounds, Error> {
    let config = &checked.config;
    let limits = &config.limits;
    let (burst, per_second) = (limits.burst, limits.requests_per_second);
    let pools: Vec<_> = config.pools.iter().map(config::pools::Pool::value).collect();
    Ok(Bounds {
        store: if pools.is_empty() { None } else { Some(store(&config.ledger).await?) },
        pools,
        rate: per_second.map(|per_second| Rate { per_second, burst }),
        denials_max: limits.denials_max,
        alarm_rest: limits.alarm_rest_seconds.map(Duration::from_secs),
        tool_denials_max: limits.tool_denials_max,
        ordered: checked.ordered.clone(),
        ordered_wait: Duration::from_millis(limits.ordered_wait_ms),
        batch_t0: limits.batch_t0,
    })
}

async fn store(ledger: &config::Ledger) -> Result<Arc<dyn Pools>, Error> {
    let failed = |source| System::Store { part: "pools", source };
    Ok(match ledger {
        config::Ledger::Sqlite(sqlite) => {
            Arc::new(SqlitePools::open(&sqlite.path).await.map_err(failed)?)
        }
        config::Ledger::Postgres(postgres) => {
            let (url, options) = (postgres.connect.expose(), postgres::Options::default());
            Arc::new(PostgresPools::lazy(url, options).map_err(failed)?)
        }
    })
}

/// The isolation that this gate demands where its agents run, and the addresses that no agent may
/// reach there.
pub(super) fn isolation(checked: &Checked, running: &Running) -> Isolation {
    let config = &checked.config;
    Isolation {
        enforced: config.isolation == config::Isolation::Enforced,
        stale_after: Duration::from_secs(config.posture.stale_after_seconds),
        uid: Some(rustix::process::geteuid().as_raw()),
        operators: Some(running.listening.operators),
        addresses: running.listening.agents.clone(),
        paths: config::closed(config),
        backends: backends(config),
    }
}

/// Host and port of every server that the gate itself connects to, as far as its configuration
/// names it.
fn backends(config: &config::Config) -> BTreeSet<(String, u16)> {
    let mut urls: Vec<String> = Vec::new();
    if let config::Ledger::Postgres(postgres) = &config.ledger {
        urls.push(postgres.connect.expose().to_owned());
    }
    urls.extend(config.enrolment.iter().map(|enrolment| enrolment.hub.clone()));
    urls.extend(config.fleet.witnesses.iter().map(|witness| witness.url.clone()));
    urls.extend(config.fleet.timestamp.iter().map(|authority| authority.url.clone()));
    urls.extend(config.approvals.webhook.iter().map(|webhook| webhook.url.clone()));
    urls.extend(config.telemetry.otlp.iter().map(|otlp| otlp.endpoint.clone()));
    urls.iter().filter_map(|url| place(url)).collect()
}

/// Host and port of a URL; a socket has none.
fn place(url: &str) -> Option<(String, u16)> {
    let url = url::Url::parse(url).ok()?;
    let port = match url.scheme() {
        "postgres" | "postgresql" => url.port().unwrap_or(5432),
        _other => url.port_or_known_default()?,
    };
    let host = url.host_str().filter(|host| !host.is_empty() && !host.starts_with('%'))?;
    Some((host.to_owned(), port))
}

/// A cost limit cannot hold for a tool without a declared cost: such a manifest is refused.
pub(super) fn unpriced(manifests: &[Arc<Manifest>], toolbox: &Toolbox) -> Vec<String> {
    let limited = manifests.iter().filter(|manifest| manifest.limits.cost_micro_usd.is_some());
    let one = |manifest: &Arc<Manifest>| {
        let granted = manifest.tools.iter().filter_map(|grant| toolbox.get(&grant.name));
        // A model may have prices for tokens instead.
        let priced = |tool: &Tool| tool.executor.most(&Json::Null, 0)?.cost_micro_usd;
        let silent =
            granted.filter(|tool| tool.facts.cost_micro_usd.is_none() && priced(tool).is_none());
        let names: Vec<String> = silent.map(|tool| format!("`{}`", tool.facts.name)).collect();
        let (agent, names) = (&manifest.name, names.join(", "));
        (!names.is_empty()).then(|| {
            format!(
                "agent `{agent}`: its manifest sets `limits.cost_usd`, which is not enforced for \
                 {names}: declare `cost_micro_usd` there (0 is nothing)"
            )
        })
    };
    limited.filter_map(one).collect()
}
