//! The routes about health and limits: what this process knows of itself, and what the gates report.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

use super::OperatorApi;
use super::api::replies::Fleet;
use super::api::status::{
    Expiration, Health, HealthChange, LimitsState, PoolState, StopState, Suspension,
};
use super::api::{OperatorRequest, route};
use crate::domain::time::Timestamp;
use crate::serve::Readiness;
use crate::serve::problem::Problem;

/// Changes that are kept of this process, and that one answer shows of all.
const CHANGES_MAX: usize = 256;

/// Names what ends at a known time.
pub type Expirations = Arc<dyn Fn() -> Vec<(String, Timestamp)> + Send + Sync>;

/// Where the health of this process is known from.
#[derive(Default)]
pub(super) struct HealthSource {
    readiness: OnceLock<watch::Receiver<Readiness>>,
    changes: Mutex<VecDeque<HealthChange>>,
    expirations: OnceLock<Expirations>,
}

impl HealthSource {
    fn note(&self, at: Timestamp, now: &Readiness) {
        let mut changes = self.changes.lock();
        let same = |last: &HealthChange| last.ready == now.ready && last.reasons == now.reasons;
        if changes.back().is_some_and(same) {
            return;
        }
        if changes.len() >= CHANGES_MAX {
            changes.pop_front();
        }
        let (ready, reasons) = (now.ready, now.reasons.clone());
        changes.push_back(HealthChange { at: at.to_string(), origin: None, ready, reasons });
    }
}

/// The readiness of a gate whose process ends.
fn stopped() -> Readiness {
    Readiness { reasons: vec!["the gate has stopped".to_owned()], ..Readiness::default() }
}

/// The list of this name in what a gate reports, each with the gate's name. A gate of another version may report it in
/// another form: what cannot be read is left out.
fn reported<T: DeserializeOwned>(fleet: &Fleet, name: &str) -> Vec<T> {
    let mut read = Vec::new();
    for gate in fleet.gates.iter().filter(|gate| gate.standing != "stopped") {
        let list = gate.state.get(name).and_then(Value::as_array);
        for one in list.into_iter().flatten() {
            let mut one = one.clone();
            if let Some(members) = one.as_object_mut() {
                members.insert("origin".to_owned(), gate.origin.clone().into());
            }
            read.extend(T::deserialize(&one).ok());
        }
    }
    read
}

impl OperatorApi {
    /// Lets operators see what ends at a known time. The first call counts.
    pub fn allow_expirations(&self, expirations: Expirations) {
        drop(self.health.expirations.set(expirations));
    }

    /// Notes every change of the readiness that the listener shows, until its sender is gone.
    pub(crate) async fn watch_readiness(&self, mut readiness: watch::Receiver<Readiness>) {
        drop(self.health.readiness.set(readiness.clone()));
        loop {
            let now = readiness.borrow_and_update().clone();
            self.health.note(self.clock.now(), &now);
            if readiness.changed().await.is_err() {
                self.health.note(self.clock.now(), &stopped());
                return;
            }
        }
    }

    /// Readiness with its reasons, the gates, and every change that is known.
    ///
    /// # Errors
    /// List or ledger cannot be read.
    pub(super) async fn health(
        &self,
        request: OperatorRequest<route::Health>,
    ) -> Result<Health, Problem> {
        let Fleet { gates, never_seen } = self.fleet_of(request.who).await?;
        let mut changes: Vec<HealthChange> = self.health.changes.lock().iter().cloned().collect();
        for chain in self.look().await?.chains() {
            changes.extend(chain.health.iter().map(|(at, changed)| HealthChange {
                at: at.to_string(),
                origin: Some(chain.origin.clone()),
                ready: changed.ready,
                reasons: changed.reasons.iter().map(ToString::to_string).collect(),
            }));
        }
        changes.sort_by(|one, other| other.at.cmp(&one.at));
        changes.truncate(CHANGES_MAX);
        let now = match self.health.readiness.get() {
            // Its last "ready" no longer holds.
            Some(readiness) if readiness.has_changed().is_err() => stopped(),
            Some(readiness) => readiness.borrow().clone(),
            None => Readiness::default(),
        };
        let Readiness { ready, reasons, notes, .. } = now;
        let expiring = self.expiring();
        Ok(Health { ready, reasons, notes, gates, never_seen, changes, expiring })
    }

    fn expiring(&self) -> Vec<Expiration> {
        let mut known = self.health.expirations.get().map(|all| all()).unwrap_or_default();
        known.sort_by_key(|(_, at)| *at);
        known.into_iter().map(|(what, at)| Expiration { what, at: at.to_string() }).collect()
    }

    async fn fleet_of(&self, who: super::operators::Operator) -> Result<Fleet, Problem> {
        let (path, request) = ((), ());
        self.fleet(OperatorRequest { who, path, request }).await
    }

    /// Pools and stops, as the gates last reported them.
    ///
    /// # Errors
    /// List or ledger cannot be read.
    pub(super) async fn limits(
        &self,
        request: OperatorRequest<route::Limits>,
    ) -> Result<LimitsState, Problem> {
        let fleet = self.fleet_of(request.who).await?;
        let silent = fleet.gates.iter().filter(|gate| gate.standing == "silent");
        Ok(LimitsState {
            pools: reported::<PoolState>(&fleet, "pools"),
            suspended: reported::<Suspension>(&fleet, "suspended"),
            stops: reported::<StopState>(&fleet, "stops"),
            silent: silent.map(|gate| gate.origin.clone()).collect(),
        })
    }
}
