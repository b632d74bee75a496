//! Which approvals by passkey count. A passkey signs what a console shows: a console that
//! lies can show one call and have another one signed, which no other key allows.

use super::Approval;
use super::approvers::Purpose;
use super::{ApprovalRefusal, RefusalReason};
use crate::crypto::passkey::{Assertion, WebOrigin};
use crate::domain::closed::texts;
use crate::domain::tier::Tier;
use crate::record::approval::KeyKind;

texts! {
    /// The calls that passkeys may approve.
    pub enum PasskeyScope {
        /// None.
        Off = "off",
        /// Calls up to T2. A call of T3 needs another key, too.
        T2 = "t2",
        /// Every call.
        All = "all",
    }
}

impl PasskeyScope {
    /// Whether a call of this tier may run by these approvals, as far as their keys matter.
    #[must_use]
    pub fn allows(self, tier: Tier, approvals: &[Approval]) -> bool {
        let mut passkeys = approvals.iter().map(Approval::is_by_passkey);
        match self {
            Self::Off => !passkeys.any(|passkey| passkey),
            Self::T2 => tier != Tier::T3 || approvals.is_empty() || !passkeys.all(|one| one),
            Self::All => true,
        }
    }
}

/// Which passkeys a list of approvers admits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum PasskeyTerms {
    /// None.
    #[default]
    Off,
    /// Those that sign at a trusted console.
    At {
        /// The consoles.
        origins: Vec<WebOrigin>,
        /// Whether a passkey counts that its owner's devices share.
        synced: bool,
    },
    /// Every one: an audit does not know the gate's configuration. It reports the origins instead.
    Audit,
}

impl PasskeyTerms {
    /// Refuses an assertion that does not count for this purpose.
    pub(super) fn check(
        &self,
        assertion: &Assertion,
        purpose: Purpose,
    ) -> Result<(), ApprovalRefusal> {
        // A console shows held calls. For the rest its owner signs in a terminal.
        if purpose != Purpose::Approval {
            return purpose.refuse(RefusalReason::PasskeyPurpose(purpose.namespace()));
        }
        let (origins, synced) = match self {
            Self::Off => return purpose.refuse(RefusalReason::NoPasskeys),
            Self::Audit => return Ok(()),
            Self::At { origins, synced } => (origins, synced),
        };
        let at = assertion.origin();
        if !origins.contains(at) {
            return purpose.refuse(RefusalReason::Origin(at.as_str().to_owned()));
        }
        if assertion.is_synced() && !synced {
            return purpose.refuse(RefusalReason::SyncedPasskey);
        }
        Ok(())
    }
}

impl Approval {
    /// Whether it was signed in a browser.
    #[must_use]
    pub fn is_by_passkey(&self) -> bool {
        self.key_kind == Some(KeyKind::Passkey)
    }

    /// Whether it takes the place of an approval that is counted: the same person signed again, with a
    /// key that shows its owner what it signs. A person is one approval all the same.
    #[must_use]
    pub fn replaces(&self, counted: &Self) -> bool {
        self.is(&counted.subject) && counted.is_by_passkey() && !self.is_by_passkey()
    }

    /// Counts it among these, in the place of the one that it replaces.
    pub fn count(self, counted: &mut Vec<Self>) {
        counted.retain(|before| !self.replaces(before));
        counted.push(self);
    }

    /// The approvals that are counted of those that were given, in their order.
    pub fn counted(given: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut counted = Vec::new();
        given.into_iter().for_each(|approval| approval.count(&mut counted));
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(kinds: &[Option<KeyKind>]) -> Vec<Approval> {
        let one = |kind: &Option<KeyKind>| Approval {
            subject: "anna".into(),
            roles: Vec::new(),
            key: "SHA256:x".into(),
            key_kind: *kind,
            origin: None,
        };
        kinds.iter().map(one).collect()
    }

    #[test]
    fn a_grave_call_needs_one_key_that_is_no_passkey() {
        use PasskeyScope::{All, Off, T2};
        let passkey = Some(KeyKind::Passkey);
        let others = [None, Some(KeyKind::File), Some(KeyKind::Hardware)];
        for tier in [Tier::T0, Tier::T1, Tier::T2, Tier::T3] {
            let grave = tier == Tier::T3;
            for alone in [by(&[passkey]), by(&[passkey, passkey])] {
                let allowed = [Off, T2, All].map(|scope| scope.allows(tier, &alone));
                assert_eq!(allowed, [false, !grave, true], "{tier}");
            }
            for other in others {
                let both = [Off, T2, All].map(|scope| scope.allows(tier, &by(&[passkey, other])));
                assert_eq!(both, [false, true, true], "{tier}");
                let without = [Off, T2, All].map(|scope| scope.allows(tier, &by(&[other])));
                assert_eq!(without, [true, true, true], "{tier}");
            }
            // What needs no approval needs no key.
            assert!([Off, T2, All].into_iter().all(|scope| scope.allows(tier, &[])));
        }
    }
}
