//! What ends at a known time, for operators: bundle, manifests, list of approvers, certificates of listeners.

use std::sync::{Arc, Weak};

use super::approvers;
use super::checked::Checked;
use super::running::Running;
use crate::domain::time::Timestamp;

/// Lets the operators of this gate see it, for as long as the gate runs.
pub(super) fn show(checked: &Arc<Checked>, running: &Arc<Running>) {
    let Some(api) = &running.listening.operator_api else { return };
    let (checked, running) = (Arc::clone(checked), Arc::downgrade(running));
    api.allow_expirations(Arc::new(move || all(&checked, &running)));
}

fn all(checked: &Checked, running: &Weak<Running>) -> Vec<(String, Timestamp)> {
    let Some(running) = running.upgrade() else { return Vec::new() };
    let live = checked.live();
    let bundle = running.road.get().and_then(|road| road.policy_ends());
    let bundle = bundle.map(|(until, _)| ("the policy bundle in force".to_owned(), until));
    let manifests = live.callers.manifests().iter();
    let manifests =
        manifests.map(|one| (format!("manifest of {} {}", one.name, one.version), one.not_after));
    let list = approvers::signed(checked, &live, &running.ledger);
    // A list that cannot be read is a note already.
    let list = list.and_then(|list| list.file.read().ok());
    let list = list.and_then(|(list, _)| list.edition().expires);
    let list = list.map(|until| ("the list of approvers".to_owned(), until));
    let certificates = running.listening.certificates.ends()();
    bundle.into_iter().chain(manifests).chain(list).chain(certificates).collect()
}
