//! Findings that pass because a person signed that this value may, in this place.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{HitAction, place};
use crate::domain::guarded::{GuardAction, SignedException};
use crate::domain::json::Json;
use crate::firewall::{self, SparedPlaces};
use crate::judge::exceptions::{
    CallExceptions, FindingException, USED_BYTES_MAX, USED_MAX, is_excusable,
};
use crate::judge::guarding::{Direction, FindingMarks};

/// Bytes of a path that an order names.
const PATH_MAX: usize = 1024;

/// The orders about one tool, for what passes in one direction.
#[derive(Clone, Copy)]
pub(super) struct Excuses<'a> {
    pub direction: Direction,
    pub marks: &'a FindingMarks,
    pub exceptions: &'a CallExceptions,
}

impl Excuses<'_> {
    /// Lets the findings in a document pass for which there is an order.
    pub fn apply(&self, all: &mut [HitAction<'_>], document: &Json) {
        let mut used = BTreeMap::new();
        for one in all {
            // An entry could not name another place as it is.
            let is_named = place(&one.hit.path) == one.hit.path;
            let fits = |other: &&Arc<FindingException>| {
                is_named && other.is_about(self.direction, one.hit, Some(&one.hit.path))
            };
            let about: Vec<_> = self.exceptions.iter().filter(fits).collect();
            self.excuse(one, &about, (document, &mut used));
        }
    }

    /// Lets what an effect decodes to pass, where the same values pass in the arguments. WHY without their
    /// places: an effect has places of its own.
    pub fn apply_decoded(&self, all: &mut [HitAction<'_>], document: &Json) {
        let mut used = BTreeMap::new();
        for one in all {
            let fits =
                |other: &&Arc<FindingException>| other.is_about(self.direction, one.hit, None);
            let about: Vec<_> = self.exceptions.iter().filter(fits).collect();
            self.excuse(one, &about, (document, &mut used));
        }
    }

    /// A finding passes if each value of its kind in its text has an order: the finding is one, whatever
    /// number of values there are.
    fn excuse(
        &self,
        one: &mut HitAction<'_>,
        about: &[&Arc<FindingException>],
        (document, used): (&Json, &mut BTreeMap<u64, usize>),
    ) {
        let is_open = one.action > GuardAction::Warn && is_excusable(one.hit.class);
        if about.is_empty() || !is_open {
            return;
        }
        let values = firewall::values(document, one.hit.kind, &one.hit.path);
        let Some(values) = values else { return };
        let order_of = |value: &String| {
            let mark = self.marks.of_value(one.hit.class, value)?;
            about.iter().find(|order| order.finding.mark.0 == mark).copied()
        };
        let Some(orders) = values.iter().map(order_of).collect::<Option<Vec<_>>>() else { return };
        let mut numbers = used.clone();
        numbers.extend(orders.iter().map(|order| (order.signed.order, order.bytes())));
        // WHY bounds: an entry names every order that was used, and an entry has an end.
        if numbers.len() > USED_MAX || numbers.values().sum::<usize>() > USED_BYTES_MAX {
            return;
        }
        *used = numbers;
        one.action = GuardAction::Warn;
        one.excused = orders.into_iter().map(Arc::clone).collect();
    }

    /// How a person lets this finding pass; `None` if no order can. The mark is the first that has no order.
    pub fn way(&self, one: &HitAction<'_>, document: &Json, tool: &str) -> Option<String> {
        if !is_excusable(one.hit.class) || !is_plain(&one.hit.path) {
            return None;
        }
        let about = |other: &&Arc<FindingException>| {
            other.is_about(self.direction, one.hit, Some(&one.hit.path))
        };
        let about: Vec<_> = self.exceptions.iter().filter(about).collect();
        let values = firewall::values(document, one.hit.kind, &one.hit.path)?;
        let mut marks = values.iter().filter_map(|v| self.marks.of_value(one.hit.class, v));
        let mark = marks.find(|mark| about.iter().all(|order| order.finding.mark.0 != *mark))?;
        let (kind, path, mark) = (one.hit.kind, &one.hit.path, hex::encode(mark));
        let direction = match self.direction {
            Direction::Arguments => "",
            Direction::Results => " --direction results",
            Direction::Prompts => " --direction prompts",
        };
        Some(format!(
            "`wicketgate control finding allow {tool} --kind {kind} --path={path} --mark {mark}{direction}`"
        ))
    }
}

/// Whether a person can put the path into a shell as it is. WHY: names of members are the agent's words, or a
/// tool's.
fn is_plain(path: &str) -> bool {
    let is_one = |c: char| c.is_ascii_alphanumeric() || "/_-.~".contains(c);
    place(path) == path && (1..=PATH_MAX).contains(&path.len()) && path.chars().all(is_one)
}

/// The places whose findings pass by order.
pub(super) fn spared(all: &[HitAction<'_>]) -> SparedPlaces {
    let excused = all.iter().filter(|one| !one.excused.is_empty());
    excused.map(|one| (one.hit.kind.to_owned(), one.hit.path.clone())).collect()
}

/// Adds the orders that were used, each once and by number.
pub(super) fn note(used: &mut Vec<Arc<FindingException>>, all: &[HitAction<'_>]) {
    used.extend(all.iter().flat_map(|one| one.excused.iter().cloned()));
    used.sort_by_key(|order| order.signed.order);
    used.dedup_by_key(|order| order.signed.order);
}

/// The orders that were used, each once and by number.
pub(super) fn used(all: &[HitAction<'_>]) -> Vec<Arc<FindingException>> {
    let mut used = Vec::new();
    note(&mut used, all);
    used
}

/// Those orders as entries name them.
pub(super) fn signed(used: &[Arc<FindingException>]) -> Vec<SignedException> {
    used.iter().map(|order| order.signed.clone()).collect()
}
