//! The keys that operators stopped, for programs that follow the list of orders without being a
//! gate.

use std::collections::{BTreeMap, BTreeSet};

use super::{Action, Order, Orders, Row, Target};
use crate::approval::order::{OrderKind, check};
use crate::approval::{Approvers, SignedApproval};
use crate::domain::time::Timestamp;
use crate::ledger::store::StoreError;

/// Rows per read.
const ROWS: usize = 200;

/// Fingerprints of the keys that operators suspended or revoked, except those that an operator of
/// this list took back for good.
///
/// # Errors
/// The list of orders cannot be read.
pub async fn stopped_keys(
    orders: &dyn Orders,
    (tenant, list): (&str, &Approvers),
    now: Timestamp,
) -> Result<BTreeSet<String>, StoreError> {
    let mut stopped = Stopped::default();
    let mut at = 0;
    loop {
        let rows = orders.since(at, ROWS).await?;
        let Some(last) = rows.last() else { break };
        at = last.seq;
        for row in &rows {
            stopped.read(row, (tenant, list), now);
        }
    }
    Ok(stopped.0.into_keys().collect())
}

/// The newest order that stopped a key, by its fingerprint.
#[derive(Default)]
struct Stopped(BTreeMap<String, u64>);

impl Stopped {
    fn read(&mut self, row: &Row, whose: (&str, &Approvers), now: Timestamp) {
        match &row.order {
            Some(Order::Switch {
                action: Action::Suspend | Action::Revoke,
                target: Target::Key(key),
            }) => {
                if row.given.expires.is_none_or(|end| end > now) {
                    self.0.insert(key.clone(), row.seq);
                }
            }
            Some(Order::Loosen(signed)) => self.take_back(signed, whose, row.at),
            Some(_) | None => {}
        }
    }

    /// A key that was taken back only for a time stays stopped here.
    fn take_back(
        &mut self,
        signed: &SignedApproval,
        (tenant, list): (&str, &Approvers),
        at: Timestamp,
    ) {
        let list = list.clone().without(self.0.keys().cloned());
        let Ok(order) = check(&list, (tenant, &[OrderKind::Reinstate]), signed, at) else { return };
        let statement = order.statement();
        let seen = self.0.get(&statement.name).is_some_and(|seq| *seq <= statement.previous.seq);
        if statement.target == "key" && statement.expires.is_none() && seen {
            self.0.remove(&statement.name);
        }
    }
}
