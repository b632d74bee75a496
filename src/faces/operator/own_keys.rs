//! An operator's own keys on the signed list of approvers.
//!
//! They decide nothing here: the gate that holds a call reads the list itself. A console offers a passkey to its owner
//! by them, and passes on no signature by another person's key.

use std::sync::Arc;

use super::operators::Operator;
use super::{Cause, OperatorApi};
use crate::approval::Approvers;
use crate::approval::approvers::Signer;

/// Reads the current list of approvers.
pub type ReadApprovers = Arc<dyn Fn() -> Result<Approvers, Cause> + Send + Sync>;

/// One key of an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnKey {
    /// Its line in the list.
    pub signer: Signer,
    /// Whether an operator revoked it.
    pub revoked: bool,
}

impl OperatorApi {
    /// Lets operators see their own keys on this list. The first call counts; later ones change nothing.
    pub fn allow_approvers(&self, list: ReadApprovers) {
        drop(self.approvers.set(list));
    }

    /// The keys that the list gives this operator.
    ///
    /// # Errors
    /// For a person: why they cannot be told.
    pub(crate) async fn own_keys(&self, who: &Operator) -> Result<Vec<OwnKey>, String> {
        let Some(read) = self.approvers.get() else {
            return Err("this process has no list of approvers: set `approvals.signers` and \
                        `trust.approver_keys` in its configuration"
                .to_owned());
        };
        let list = read().map_err(|why| format!("the list of approvers cannot be used: {why}"))?;
        let revoked = self.stopped_keys(&list).await.map_err(|problem| problem.message)?;
        let own =
            list.signers().iter().filter(|one| one.subject.eq_ignore_ascii_case(&who.subject));
        let own = own.map(|signer| OwnKey {
            revoked: revoked.contains(&signer.key.fingerprint()),
            signer: signer.clone(),
        });
        Ok(own.collect())
    }
}
