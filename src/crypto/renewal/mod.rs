//! When a server's certificate and its authority are renewed, so that at every moment every certificate that a replica may
//! still show verifies against every bundle of authorities that a client may still have.
//!
//! A new authority stands in the bundles for one life of a certificate before it signs; an old one stays for as long after.
//! `plan` is a pure function: it is asked once a day, and may be asked again after a crash between any two writes.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;

#[cfg(test)]
mod tests;

const DAY: u64 = 86_400;
/// How long an authority lives.
pub const AUTHORITY_LIFE: Duration = Duration::from_secs(365 * DAY);
/// How long a certificate lives.
pub const LEAF_LIFE: Duration = Duration::from_secs(30 * DAY);
/// Before the end of an authority, its successor signs even if it has not stood in the bundles for long enough.
const LAST_DAYS: Duration = Duration::from_secs(10 * DAY);

/// A certificate that signs others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Authority {
    /// Which one.
    pub id: Digest,
    /// When it begins.
    pub begins: Timestamp,
    /// When it ends.
    pub ends: Timestamp,
}

/// The certificate of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// The authority that signed it.
    pub signer: Digest,
    /// When it begins.
    pub begins: Timestamp,
    /// When it ends.
    pub ends: Timestamp,
}

/// What the Secret holds. A part that cannot be used is absent.
#[derive(Clone, Debug, Default)]
pub struct HeldCertificates {
    /// The authority that signs, and since when it does.
    pub signing: Option<(Authority, Timestamp)>,
    /// The authority that will sign.
    pub next: Option<Authority>,
    /// All that stood in the bundles.
    pub bundle: Vec<Authority>,
    /// The certificate of the server, if it has the names that clients ask for.
    pub leaf: Option<Leaf>,
}

/// What becomes of the authority that signs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SigningStep {
    /// It goes on.
    Kept,
    /// The one that was announced takes its place.
    Promoted,
    /// A new one takes its place.
    Made,
}

/// What becomes of the authority that will sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextStep {
    /// There is none.
    Absent,
    /// It goes on waiting.
    Kept,
    /// A new one is announced.
    Announced,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RenewalPlan {
    /// The authority that signs.
    pub signing: SigningStep,
    /// The one after it.
    pub next: NextStep,
    /// Whether the server gets a new certificate.
    pub sign: bool,
    /// Authorities that stay in every bundle, beside these two.
    pub others: BTreeSet<Digest>,
}

/// What to do now, where clients have these bundles.
#[must_use]
pub fn plan(now: Timestamp, held: &HeldCertificates, bundles: &[Vec<Authority>]) -> RenewalPlan {
    let lives = |one: &Authority| one.begins <= now && now < one.ends;
    let signing = held.signing.filter(|(one, _)| lives(one));
    let next = held.next.filter(lives);
    let everywhere = |id: Digest| bundles.iter().all(|all| all.iter().any(|one| one.id == id));
    let step = match (signing, next) {
        (None, None) => SigningStep::Made,
        (None, Some(_)) => SigningStep::Promoted,
        (Some((one, _)), Some(next)) if everywhere(next.id) && ripe(now, &one, &next) => {
            SigningStep::Promoted
        }
        (Some(_), _) => SigningStep::Kept,
    };
    let (signs, since) = match step {
        SigningStep::Kept => (signing.map(|(one, _)| one), signing.map_or(now, |(_, since)| since)),
        SigningStep::Promoted => (next, now),
        SigningStep::Made => (None, now),
    };
    let waits = next.filter(|_| step == SigningStep::Kept);
    let due = signs.is_some_and(|one| is_two_thirds_over(now, one.begins, one.ends));
    let next = match (waits, due) {
        (Some(_), _) => NextStep::Kept,
        (None, true) => NextStep::Announced,
        (None, false) => NextStep::Absent,
    };
    let good = held.leaf.is_some_and(|leaf| {
        signs.is_some_and(|one| one.id == leaf.signer)
            && leaf.begins <= now
            && !is_two_thirds_over(now, leaf.begins, leaf.ends)
    });
    // An authority that no longer signs, and one whose key is lost: what they signed last ends one life after that.
    let open = now < since.plus(LEAF_LIFE);
    let others = bundles.iter().flatten().chain(&held.bundle).filter(|one| open && now < one.ends);
    let own = [signs, waits].map(|one| one.map(|one| one.id));
    let others = others.map(|one| one.id).filter(|id| !own.contains(&Some(*id))).collect();
    RenewalPlan { signing: step, next, sign: !good, others }
}

/// Whether the successor may sign: it has stood in the bundles for a life of a certificate, or there is no more time.
fn ripe(now: Timestamp, signing: &Authority, next: &Authority) -> bool {
    now >= next.begins.plus(LEAF_LIFE) || now.plus(LAST_DAYS) >= signing.ends
}

fn is_two_thirds_over(now: Timestamp, begins: Timestamp, ends: Timestamp) -> bool {
    let life = ends.millis().saturating_sub(begins.millis());
    now.millis().saturating_sub(begins.millis()) >= life / 3 * 2
}
