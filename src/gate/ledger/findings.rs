//! Which findings of the firewall an entry names.

use std::collections::BTreeSet;

use crate::domain::guarded::{GuardFinding, SignedException};
use crate::record::call::{GuardedFinding, NAMED_FINDINGS_MAX, UsedException};
use crate::record::{Int, List, Nonce, TaggedDigest, Text};

/// The findings that an entry names, the strictest action first.
pub(super) fn named(all: &[GuardFinding]) -> Option<List<GuardedFinding, NAMED_FINDINGS_MAX, 1>> {
    let mut all: Vec<&GuardFinding> = all.iter().collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.action));
    // WHY one of each class first: alerts read what an entry names, and an answer chooses how much there is.
    let mut named = BTreeSet::new();
    let (first, further): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|one| named.insert((one.class, one.confidence)));
    List::some(first.into_iter().chain(further).map(|one| GuardedFinding {
        action: one.action,
        class: one.class.into(),
        confidence: one.confidence.into(),
        exception: one.exception.map(Into::into),
        kind: one.kind.into(),
        mark: one.mark.map(Nonce),
        path: Text::clip(&one.path, 256),
    }))
}

/// The signed orders by which something passed.
pub(super) fn exceptions(all: &[SignedException]) -> Option<List<UsedException, 16, 1>> {
    List::some(all.iter().map(|one| UsedException {
        key: one.key.as_str().into(),
        order: one.order.into(),
        signature: one.signature.as_str().into(),
        signers: TaggedDigest(one.signers),
        statement: one.statement.as_str().into(),
        subject: one.subject.as_str().into(),
    }))
}

/// How many findings an entry does not name.
pub(super) fn more(all: &[GuardFinding]) -> Option<Int> {
    let left = all.len().saturating_sub(NAMED_FINDINGS_MAX);
    (left > 0).then(|| u64::try_from(left).unwrap_or(u64::MAX).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::guarded::GuardAction;

    fn finding(kind: &'static str, class: &'static str, action: GuardAction) -> GuardFinding {
        GuardFinding {
            kind,
            class,
            confidence: "high",
            path: String::new(),
            action,
            mark: None,
            exception: None,
        }
    }

    #[test]
    fn many_findings_of_one_class_hide_none_of_another() {
        let mut all = vec![finding("bidi", "unicode", GuardAction::Strip); 40];
        all.push(finding("instruction", "injection", GuardAction::Warn));
        let named = named(&all).unwrap();
        assert_eq!(named.iter().count(), NAMED_FINDINGS_MAX);
        assert!(named.iter().any(|one| one.class.as_str() == "injection"));
        assert_eq!(more(&all), Some(25_u64.into()));
    }
}
