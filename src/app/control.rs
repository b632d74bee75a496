//! The list of operators' orders, beside the ledger: where it is, and following it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::checked::Checked;
use super::running::Running;
use super::{Error, PAUSE, System};
use crate::config::{self, Config};
use crate::control::{Orders, postgres, sqlite};
use crate::domain::json::Json;
use crate::enforce::{Backlog, Follow, Road, StateReporter};
use crate::ledger::postgres::Options;
use crate::ledger::store::LeaseKey;
use crate::ledger::store::Leased;

/// The list, as this gate opened it.
#[derive(Clone, Debug)]
pub(super) enum OrderList {
    /// In the ledger's file.
    Sqlite(Arc<sqlite::SqliteControl>),
    /// Beside the ledger.
    Postgres(Arc<postgres::PostgresControl>),
}

impl OrderList {
    /// Opens the list; the ledger is open already. A database may be away for now.
    pub async fn open(config: &Config) -> Result<Self, Error> {
        let cannot = |source| System::Store { part: "control", source };
        match &config.ledger {
            config::Ledger::Sqlite(at) => {
                let list = sqlite::SqliteControl::open(&at.path).await.map_err(cannot)?;
                Ok(Self::Sqlite(Arc::new(list)))
            }
            config::Ledger::Postgres(at) => {
                // A look that takes longer than this is stale.
                let second = Duration::from_secs(1);
                let options = Options { connect: second, statement: second, call: second * 2 };
                let list = postgres::PostgresControl::lazy(at.connect.expose(), options)
                    .map_err(cannot)?;
                Ok(Self::Postgres(Arc::new(list)))
            }
        }
    }

    /// The list, to read it or to put orders on it.
    pub fn orders(&self) -> Arc<dyn Orders> {
        match self {
            Self::Sqlite(list) => Arc::<sqlite::SqliteControl>::clone(list),
            Self::Postgres(list) => Arc::<postgres::PostgresControl>::clone(list),
        }
    }

    fn speak_for(&self, key: &LeaseKey) {
        match self {
            Self::Sqlite(_) => {}
            Self::Postgres(list) => list.speak_for(key),
        }
    }
}

/// The list that this gate follows, and as whom.
pub(super) fn followed(checked: &Checked, running: &Arc<Running>, leased: &Leased) -> Follow {
    running.list.speak_for(&leased.key);
    Follow {
        orders: running.list.orders(),
        origin: leased.origin.clone(),
        writer: checked.writer(),
        state: state_reporter(Arc::downgrade(running)),
    }
}

/// Reads the whole list, however long it takes: a gate that does not know which stops hold does not
/// open. `None`: the gate stopped first.
pub(super) async fn read(running: &Running, road: &Road) -> Option<Backlog> {
    let mut warned = false;
    loop {
        let error = match road.control().rebuild().await {
            Ok(backlog) => return Some(backlog),
            Err(error) => error,
        };
        if running.stop.is_cancelled() {
            return None;
        }
        if !warned {
            tracing::warn!(%error, "operators' orders cannot be read: the gate accepts no calls");
        }
        warned = true;
        tokio::time::sleep(PAUSE).await;
    }
}

/// The gate's report about itself with every heartbeat.
fn state_reporter(running: Weak<Running>) -> StateReporter {
    Arc::new(move || {
        let Some(running) = running.upgrade() else { return Vec::new() };
        let now = running.readiness.borrow().clone();
        let reasons: Vec<Json> = now.reasons.iter().map(|r| Json::from(r.as_str())).collect();
        let notes: Vec<Json> = now.notes.iter().map(|n| Json::from(n.as_str())).collect();
        let mut members = vec![
            ("ready", Json::from(now.ready)),
            ("reasons", reasons.into()),
            ("notes", notes.into()),
        ];
        if let Some(constitution) = running.constitution.get() {
            let digest = constitution.digest().map(|digest| digest.prefixed());
            members.push(("policy", Json::from(digest.unwrap_or_default())));
        }
        members
    })
}

/// Follows the list from here on, until no call is on the road any more.
pub(super) fn follow(running: &Running, road: &Arc<Road>) {
    let following = Arc::clone(road).follow_orders(running.stop_following.clone());
    running.following.spawn(following);
}

/// Ends following, and notes it on the list if the store answers.
pub(super) async fn ended(running: &Running) {
    running.stop_following.cancel();
    running.following.close();
    let within = Duration::from_secs(1);
    if tokio::time::timeout(within, running.following.wait()).await.is_err() {
        tracing::warn!("the gate ends before its last report to the list of orders is written");
    }
}
