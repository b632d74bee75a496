//! The counts: which decisions change, by rule, and which could not be evaluated.

use std::collections::BTreeMap;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::change::{DecisionChange, Outcome};
use super::judged::{EntryReference, JudgedDecision, JudgedOutcome, NotJudged};
use crate::domain::canonical;
use crate::domain::json::Json;

/// Entries named for each group.
const EXAMPLES: usize = 3;
/// The most groups; further ones are counted together.
const GROUPS_MAX: usize = 1000;
/// The name of the group for further rules.
const OTHERS: &str = "(other rules)";

/// One decision of a group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Example {
    /// The log.
    pub log: String,
    /// The entry.
    pub seq: u64,
    /// The run, if it is known.
    pub run: String,
    /// The call.
    pub call: String,
    /// The tool.
    pub tool: String,
}

/// Decisions with something in common.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Group {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub examples: Vec<Example>,
}

/// Change, the rule that decided and the rule that would.
pub type TallyKey = (DecisionChange, String, String);

/// The result of a backtest.
#[derive(Debug, Default)]
pub struct BacktestTally {
    /// Evaluated decisions.
    pub judged: u64,
    /// Unchanged decisions.
    pub same: u64,
    /// Changed decisions.
    pub changes: BTreeMap<DecisionChange, u64>,
    /// The same by rule.
    pub groups: BTreeMap<TallyKey, Group>,
    /// Errors in the engine under the new bundle, by message; each counts as a denial.
    pub faults: BTreeMap<String, Group>,
    /// Refused before any policy was evaluated: no policy changes that.
    pub not_asked: u64,
    /// Decisions that could not be evaluated, by reason.
    pub not_judged: BTreeMap<NotJudged, Group>,
    /// Evaluated decisions, by the bundle that was active.
    pub under: BTreeMap<String, u64>,
    /// Entries in the range that are no longer in the ledger.
    pub pruned: u64,
    list: Sha256,
}

fn more(count: &mut u64) {
    *count = count.saturating_add(1);
}

impl Group {
    fn take(&mut self, log: &str, place: &EntryReference) {
        more(&mut self.count);
        if self.examples.len() < EXAMPLES {
            self.examples.push(Example {
                log: log.to_owned(),
                seq: place.seq,
                run: place.run.clone().unwrap_or_default(),
                call: place.call.clone().unwrap_or_default(),
                tool: place.tool.clone(),
            });
        }
    }
}

/// The group of this key; beyond the limit, the group of the others.
fn group<K: Ord>(groups: &mut BTreeMap<K, Group>, key: K, others: impl Fn() -> K) -> &mut Group {
    let full = groups.len() >= GROUPS_MAX && !groups.contains_key(&key);
    groups.entry(if full { others() } else { key }).or_default()
}

impl BacktestTally {
    /// Counts one decision; returns its line of the list of changes if it changed.
    pub(super) fn take(&mut self, judged: JudgedDecision) -> Option<Vec<u8>> {
        let JudgedDecision { log, entry, agent, result, fault } = judged;
        match &result {
            JudgedOutcome::Foreign => return None,
            JudgedOutcome::NotAsked => {
                more(&mut self.not_asked);
                return None;
            }
            JudgedOutcome::NotJudged(why) => {
                // The version is arbitrary text from the ledger, so its groups are bounded too.
                let others = || NotJudged::Version("several others".to_owned());
                group(&mut self.not_judged, why.clone(), others).take(&log, &entry);
                return None;
            }
            JudgedOutcome::Same | JudgedOutcome::Changed(_) => {}
        }
        more(&mut self.judged);
        let policy = entry.policy.map(|policy| policy.prefixed()).unwrap_or_default();
        let full = self.under.len() >= GROUPS_MAX && !self.under.contains_key(&policy);
        more(self.under.entry(if full { OTHERS.to_owned() } else { policy }).or_default());
        if let Some(fault) = fault {
            group(&mut self.faults, fault, || OTHERS.to_owned()).take(&log, &entry);
        }
        let JudgedOutcome::Changed(changed) = result else {
            more(&mut self.same);
            return None;
        };
        let (change, old, new) = *changed;
        more(self.changes.entry(change).or_default());
        let others = || (change, OTHERS.to_owned(), OTHERS.to_owned());
        group(&mut self.groups, (change, old.label(), new.label()), others).take(&log, &entry);
        let mut line =
            canonical::bytes(&listed(&log, &entry, agent.as_deref(), change, (&old, &new)));
        line.push(b'\n');
        self.list.update(&line);
        Some(line)
    }

    /// Counts a decision whose entry cannot be read.
    pub(super) fn unread(&mut self, log: &str, seq: u64) {
        let group = self.not_judged.entry(NotJudged::Unread).or_default();
        more(&mut group.count);
        if group.examples.len() < EXAMPLES {
            let [run, call, tool] = [const { String::new() }; 3];
            group.examples.push(Example { log: log.to_owned(), seq, run, call, tool });
        }
    }

    /// Decisions that flip: all changes except those of reasons alone.
    pub fn flips(&self) -> u64 {
        let flips = self.changes.iter().filter(|(change, _)| change.flips());
        flips.map(|(_, count)| *count).fold(0, u64::saturating_add)
    }

    /// Decisions in the range that could not be evaluated; missing entries may have been decisions.
    pub fn unjudged(&self) -> u64 {
        self.not_judged.values().map(|group| group.count).fold(self.pruned, u64::saturating_add)
    }

    /// SHA-256 of the list of changes, in hex.
    pub fn list_sha256(&self) -> String {
        hex::encode(self.list.clone().finalize())
    }

    /// The form that `--json` prints and a statement carries.
    pub fn to_json(&self) -> Json {
        let count = |change: &DecisionChange| {
            (change.as_str(), Json::from(self.changes.get(change).copied().unwrap_or_default()))
        };
        let group = |((change, old, new), group): (&TallyKey, &Group)| {
            Json::object([
                ("change", Json::from(change.as_str())),
                ("old", Json::from(old.as_str())),
                ("new", Json::from(new.as_str())),
                ("count", Json::from(group.count)),
                ("examples", Json::of(&group.examples)),
            ])
        };
        let counted = |(what, group): (String, &Group)| {
            Json::object([
                ("what", Json::from(what)),
                ("count", Json::from(group.count)),
                ("examples", Json::of(&group.examples)),
            ])
        };
        let under = self.under.iter().map(|(digest, n)| (digest.as_str(), Json::from(*n)));
        let faults = self.faults.iter().map(|(what, group)| counted((what.clone(), group)));
        let left = self.not_judged.iter().map(|(why, group)| counted((why.text(), group)));
        Json::object([
            ("judged", Json::from(self.judged)),
            ("same", Json::from(self.same)),
            ("flips", Json::from(self.flips())),
            ("changes", Json::object(DecisionChange::ALL.iter().map(count))),
            ("groups", self.sorted().into_iter().map(group).collect::<Vec<_>>().into()),
            ("faults", faults.collect::<Vec<_>>().into()),
            ("not_asked", Json::from(self.not_asked)),
            ("unjudged", left.collect::<Vec<_>>().into()),
            ("pruned_entries", Json::from(self.pruned)),
            ("decided_under", Json::object(under)),
            ("list_sha256", Json::from(self.list_sha256())),
        ])
    }

    /// By change, and for each the most frequent first.
    pub fn sorted(&self) -> Vec<(&TallyKey, &Group)> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(key, group)| (key.0, std::cmp::Reverse(group.count), *key));
        groups
    }
}

/// One line of the list of changes.
fn listed(
    log: &str,
    place: &EntryReference,
    agent: Option<&str>,
    change: DecisionChange,
    (old, new): (&Outcome, &Outcome),
) -> Json {
    let mut members = vec![
        ("log", Json::from(log)),
        ("seq", Json::from(place.seq)),
        ("at", Json::from(place.at.to_string())),
        ("tool", Json::from(place.tool.as_str())),
        ("change", Json::from(change.as_str())),
        ("old", old.to_json()),
        ("new", new.to_json()),
    ];
    members.extend(agent.map(|agent| ("agent", Json::from(agent))));
    members.extend(place.run.as_deref().map(|run| ("run", Json::from(run))));
    members.extend(place.call.as_deref().map(|call| ("call", Json::from(call))));
    Json::object(members)
}
