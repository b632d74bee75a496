//! The clients of one tool that may reach several origins: one client per origin, created on
//! demand.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Client, Resolve, TrustRoots};
use crate::catalog::address::Cidr;
use crate::catalog::host::Origin;

/// Origins whose connections are kept; beyond that the least recently used origin is dropped.
const ORIGINS_MAX: usize = 64;

/// Clients by origin: a connection is never used for another origin.
#[derive(Debug)]
pub struct Clients {
    open: Vec<Cidr>,
    entrusted: Vec<Origin>,
    trust: TrustRoots,
    resolve: Arc<dyn Resolve>,
    kept: Mutex<PooledClient>,
}

#[derive(Debug, Default)]
struct PooledClient {
    asked: u64,
    by_origin: BTreeMap<String, (u64, Client)>,
}

impl Clients {
    /// Prepares the set without connecting. `open` lists address ranges beyond the public Internet,
    /// `entrusted` the origins that receive credentials.
    pub fn new(
        open: Vec<Cidr>,
        entrusted: Vec<Origin>,
        trust: TrustRoots,
        resolve: Arc<dyn Resolve>,
    ) -> Self {
        Self { open, entrusted, trust, resolve, kept: Mutex::default() }
    }

    /// The client of this origin.
    pub fn of(&self, origin: &Origin) -> Client {
        let key = format!("{}://{}:{}", origin.scheme(), origin.host, origin.port);
        let mut kept = self.kept.lock();
        kept.asked = kept.asked.saturating_add(1);
        let now = kept.asked;
        if let Some((last, client)) = kept.by_origin.get_mut(&key) {
            *last = now;
            return client.clone();
        }
        let resolve = Arc::clone(&self.resolve);
        let client = if self.entrusted.contains(origin) {
            Client::trusting(origin, &self.open, &self.trust, resolve)
        } else {
            Client::asking(origin, &self.open, &self.trust, resolve)
        };
        kept.by_origin.insert(key, (now, client.clone()));
        while kept.by_origin.len() > ORIGINS_MAX {
            let oldest = kept.by_origin.iter().min_by_key(|(_, (last, _))| *last);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            kept.by_origin.remove(&oldest);
        }
        client
    }
}
