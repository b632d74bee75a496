//! P3, as far as entries alone show: where amendments are required, a bundle replaces another only
//! if it was proposed as its successor and approved by people other than its author, each with a
//! valid signature.
//!
//! The signed list that the approval names identifies the keys; a verifier with that list checks
//! them.

use std::collections::{BTreeMap, BTreeSet};

use super::read::{Damage, EntryLine};
use crate::approval::amendment::{NAMESPACE, Pending};
use crate::approval::{ApproverVerdict, Statement as _};
use crate::crypto::sshsig::SshSig;
use crate::domain::digest::Digest;
use crate::record::approval::{AmendmentApproved, AmendmentProposed, AmendmentRefused};
use crate::record::chain::{Basis, PolicyActivated};

/// One proposal as the entries record it.
#[derive(Clone, Debug)]
struct Proposed {
    pending: Pending,
    approved: BTreeSet<String>,
    refused: bool,
}

/// The active bundle of a chain, and its possible successors.
#[derive(Clone, Debug, Default)]
pub struct Amendments {
    in_force: Option<Digest>,
    proposed: BTreeMap<Digest, Proposed>,
    /// Earlier entries were not read, and may contain a proposal.
    cut: bool,
    /// The last bundle whose proposal or approvals were not read.
    unrecorded: Option<Digest>,
    /// Bundles that replaced another with everything required.
    amended: usize,
}

fn damage(why: impl ToString) -> Damage {
    Damage::new("P3", why)
}

impl Amendments {
    /// From here on, some entries are skipped.
    pub const fn cut(&mut self) {
        self.cut = true;
    }

    /// A bundle activated as an amendment whose proposal or approvals were not read.
    #[must_use]
    pub const fn unrecorded(&self) -> Option<&Digest> {
        self.unrecorded.as_ref()
    }

    /// Activated amendments with a proposal and approvals among the entries read.
    pub const fn amended(&self) -> usize {
        self.amended
    }

    /// Takes the next entry of the chain.
    ///
    /// # Errors
    /// `P3`.
    pub fn accept(&mut self, line: &EntryLine) -> Result<(), Damage> {
        if let Some(proposed) = line.get::<AmendmentProposed>() {
            self.propose(proposed);
            Ok(())
        } else if let Some(approved) = line.get::<AmendmentApproved>() {
            self.approve(approved)
        } else if let Some(refused) = line.get::<AmendmentRefused>() {
            if let Some(found) = self.proposed.get_mut(&refused.bundle.0) {
                found.refused |= refused.signature.is_some();
            }
            Ok(())
        } else if let Some(activated) = line.get::<PolicyActivated>() {
            self.activate(line, activated)
        } else {
            Ok(())
        }
    }

    fn propose(&mut self, amendment: &AmendmentProposed) {
        let (Some(base), Some(expires), Some(nonce)) =
            (amendment.base, amendment.expires, amendment.nonce)
        else {
            return;
        };
        let (bundle, author) = (amendment.bundle.0, amendment.subject.to_string());
        let nonce = nonce.to_string();
        let pending = Pending { bundle, base: base.0, author, expires, nonce, given: Vec::new() };
        // Recorded twice if a gate ended in between; earlier approvals stay valid.
        let same = self.proposed.get(&bundle).is_some_and(|before| before.pending == pending);
        if !same {
            let proposed = Proposed { pending, approved: BTreeSet::new(), refused: false };
            self.proposed.insert(bundle, proposed);
        }
    }

    fn approve(&mut self, approved: &AmendmentApproved) -> Result<(), Damage> {
        let Some(found) = self.proposed.get_mut(&approved.bundle.0) else {
            return if self.cut {
                Ok(())
            } else {
                Err(damage("it approves what was not proposed"))
            };
        };
        let subject = approved.subject.to_ascii_lowercase();
        let pending = &found.pending;
        if approved.nonce.map(|nonce| nonce.to_string()).as_ref() != Some(&pending.nonce) {
            return Err(damage("it approves another proposal"));
        }
        if subject == pending.author.to_ascii_lowercase() {
            return Err(damage(format!("`{subject}` approves what `{subject}` proposed")));
        }
        let signature = SshSig::parse(approved.signature.as_deref().unwrap_or_default());
        let signature = signature.map_err(|e| damage(format!("the publisher's signature: {e}")))?;
        if approved.key.as_str() != signature.key.fingerprint() {
            return Err(damage("it names another key than the one that signed"));
        }
        let signed = pending.statement(ApproverVerdict::Approve).bytes();
        let holds = signature.verify(NAMESPACE, &signed);
        holds.map_err(|e| damage(format!("the publisher's signature: {e}")))?;
        found.approved.insert(subject);
        Ok(())
    }

    fn activate(&mut self, line: &EntryLine, activated: &PolicyActivated) -> Result<(), Damage> {
        let before = self.in_force;
        let Some(policy) = line.entry.draft.policy else { return Ok(()) };
        self.in_force = Some(policy);
        let shown = policy.prefixed();
        match activated.basis {
            Some(Basis::Bootstrap) if before.is_some() => {
                Err(damage(format!("{shown} is not the first bundle: another was in force before")))
            }
            Some(Basis::Restart) if before.is_some_and(|before| before != policy) => {
                Err(damage(format!(
                    "{shown} was put in force at a start, but another bundle was in force before"
                )))
            }
            Some(Basis::Amendment) => self.replaces(activated, policy, before),
            Some(Basis::Bootstrap | Basis::Restart) | None => Ok(()),
        }
    }

    fn replaces(
        &mut self,
        activated: &PolicyActivated,
        policy: Digest,
        before: Option<Digest>,
    ) -> Result<(), Damage> {
        let shown = policy.prefixed();
        let Some(found) = self.proposed.get(&policy) else {
            return self.lacking(policy, format!("{shown} was put in force without a proposal"));
        };
        let base = Some(found.pending.base);
        if activated.base.map(|base| base.0) != base || before.is_some() && before != base {
            return Err(damage(format!("{shown} was approved on top of another bundle")));
        }
        if found.refused {
            return Err(damage(format!("{shown} was put in force after it was refused")));
        }
        let needed = activated.approvals.map_or(1, |count| count.get().max(1));
        let approved = u64::try_from(found.approved.len()).unwrap_or(u64::MAX);
        if approved < needed {
            let why = format!("{shown} was put in force with {approved} of {needed} approvals");
            return self.lacking(policy, why);
        }
        self.amended = self.amended.saturating_add(1);
        Ok(())
    }

    /// A missing proposal or approval is damage, unless it may be among entries not read.
    fn lacking(&mut self, policy: Digest, why: String) -> Result<(), Damage> {
        if !self.cut {
            return Err(damage(why));
        }
        self.unrecorded = Some(policy);
        Ok(())
    }
}
