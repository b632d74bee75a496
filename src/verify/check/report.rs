//! The result of a verification: three values per check, a level, and what stays unproven.

use std::fmt::Write as _;

use crate::domain::json::Json;
use crate::entries::Damage;

/// How one check ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It holds; what was checked.
    Valid(String),
    /// It does not hold; the reason.
    Invalid(String),
    /// It cannot be decided; what is missing.
    Unverifiable(String),
}

impl Outcome {
    /// It does not hold, for this reason.
    #[expect(clippy::needless_pass_by_value, reason = "a text or an error, made where it is given")]
    pub(super) fn invalid(why: impl ToString) -> Self {
        Self::Invalid(why.to_string())
    }

    /// `VALID`, `INVALID` or `UNVERIFIABLE`.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Valid(_) => "VALID",
            Self::Invalid(_) => "INVALID",
            Self::Unverifiable(_) => "UNVERIFIABLE",
        }
    }

    /// What was checked, the reason, or what is missing.
    pub fn detail(&self) -> &str {
        match self {
            Self::Valid(text) | Self::Invalid(text) | Self::Unverifiable(text) => text,
        }
    }
}

impl From<Damage> for Outcome {
    fn from(damage: Damage) -> Self {
        Self::Invalid(damage.why)
    }
}

/// One check of ledger.md §2.15.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// `B1` … `C1`.
    pub id: &'static str,
    /// How it ended.
    pub outcome: Outcome,
}

impl Check {
    /// What the check is about.
    pub fn title(&self) -> &'static str {
        TITLES.iter().find(|(id, _)| *id == self.id).map_or("", |(_, title)| title)
    }
}

/// Ids and titles of all checks. No id looks like a level of evidence (`L0` to `L4`) or a risk tier (`T0` to `T3`).
pub const TITLES: [(&str, &str); 28] = [
    ("B1", "the list of files is signed by a trusted evidence key"),
    ("B2", "the files are exactly those of the list, with plain names"),
    ("B3", "every file has the digest that the list gives"),
    ("B4", "counts and ranges match the entries"),
    ("H1", "the checkpoint is signed by a certified writer of the log"),
    ("E1", "every entry is strict and canonical JSON and valid by its schema"),
    ("E2", "every entry is in the tree of the checkpoint"),
    ("H2", "the log extends the heads that were pinned"),
    ("F1", "the fleet log has the chain, and a head of it that covers these entries"),
    ("W1", "witnesses cosigned the head of the fleet log"),
    ("W2", "an authority stamped a head of the fleet log that includes these entries"),
    ("R1", "no entry of the span is missing"),
    ("R2", "the population follows from the entries and the query"),
    ("S1", "one chain, whose writers a trusted key enrolled"),
    ("S2", "order, epochs and links are consistent"),
    ("S3", "one run, numbered and linked without a gap"),
    ("S4", "the run is sealed, and the seal counts every entry"),
    ("S5", "every call has one decision and one end"),
    ("P1", "payloads match the commitments of the entries"),
    ("P2", "call digests match their calls"),
    ("P3", "policies are the ones in force and approved"),
    ("P4", "approvals are by people who may approve"),
    ("P5", "every decision of a policy is reproduced from its input and policy"),
    ("P6", "every decision that was not enforced is of a layer in observe mode"),
    ("A1", "the manifest is the one the run was bound to"),
    ("V1", "the files for people follow from the entries"),
    ("C1", "time does not go backwards nor lie in the future"),
    ("C2", "no pause between entries is longer than the writer declared"),
];

/// The whole of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The run, if the bundle names one.
    pub run: Option<String>,
    /// The log, if the checkpoint could be read.
    pub log: Option<String>,
    /// Checks in order.
    pub checks: Vec<Check>,
    /// What stays unproven even where every check holds.
    pub not_proven: Vec<String>,
    /// Calls that ran against the policy's verdict: observe mode.
    pub unenforced: usize,
    /// Whether an external party vouches for the time of entries.
    pub timed: bool,
}

impl Report {
    pub(super) fn put(&mut self, id: &'static str, outcome: Outcome) {
        self.checks.push(Check { id, outcome });
    }

    /// Replaces the outcome of an earlier check.
    pub(super) fn set(&mut self, id: &'static str, outcome: Outcome) {
        if let Some(check) = self.checks.iter_mut().find(|check| check.id == id) {
            check.outcome = outcome;
        }
    }

    pub(super) fn valid(&mut self, id: &'static str, seen: impl Into<String>) {
        self.put(id, Outcome::Valid(seen.into()));
    }

    pub(super) fn invalid(&mut self, damage: Damage) {
        self.put(damage.check, Outcome::Invalid(damage.why));
    }

    pub(super) fn unverifiable(&mut self, id: &'static str, missing: impl Into<String>) {
        self.put(id, Outcome::Unverifiable(missing.into()));
    }

    /// The outcome of one check, if it was made.
    #[must_use]
    pub fn outcome(&self, id: &str) -> Option<&Outcome> {
        self.checks.iter().find(|check| check.id == id).map(|check| &check.outcome)
    }

    /// Ids of the checks that do not hold.
    pub fn failed(&self) -> Vec<&'static str> {
        let invalid = |c: &&Check| matches!(c.outcome, Outcome::Invalid(_));
        self.checks.iter().filter(invalid).map(|check| check.id).collect()
    }

    pub(super) fn hold(&self, ids: &[&str]) -> bool {
        ids.iter().all(|id| matches!(self.outcome(id), Some(Outcome::Valid(_))))
    }

    /// 0: files and signature; 1: in the log; 2: the log extends a pinned head; 3: enough witnesses
    /// saw the fleet log that has its head; 4: a time stamping authority vouches for that. Each
    /// level above 1 needs 0 and 1, and none of the others. `None`: not even 0, or something is
    /// invalid.
    #[must_use]
    pub fn level(&self) -> Option<u8> {
        if !self.failed().is_empty() || !self.hold(&["B1", "B2", "B3"]) {
            return None;
        }
        if !self.hold(&["H1", "E1", "E2", "S1", "S2", "S3"]) {
            return Some(0);
        }
        const HIGHER: [(u8, &[&str]); 3] = [(4, &["F1", "W2"]), (3, &["F1", "W1"]), (2, &["H2"])];
        let higher = HIGHER.iter().find(|(_, ids)| self.hold(ids));
        Some(higher.map_or(1, |(level, _)| *level))
    }

    /// 0: everything holds, 1: something is invalid, 2: something cannot be decided.
    pub fn exit_code(&self) -> u8 {
        if !self.failed().is_empty() {
            return 1;
        }
        let is_valid = |c: &Check| matches!(c.outcome, Outcome::Valid(_));
        if self.checks.is_empty() || !self.checks.iter().all(is_valid) { 2 } else { 0 }
    }

    /// `VALID`, `INVALID` or `UNVERIFIABLE`.
    pub fn word(&self) -> &'static str {
        match self.exit_code() {
            0 => "VALID",
            1 => "INVALID",
            _ => "UNVERIFIABLE",
        }
    }

    /// For a terminal.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let mut line = |text: std::fmt::Arguments<'_>| {
            // INVARIANT: writing to a String cannot fail.
            writeln!(out, "{text}").unwrap_or_default();
        };
        if let Some(run) = &self.run {
            line(format_args!("run    {run}"));
        }
        if let Some(log) = &self.log {
            line(format_args!("log    {log}"));
        }
        for check in &self.checks {
            let (verdict, detail) = (check.outcome.word(), check.outcome.detail());
            line(format_args!("{verdict:<13} {} {}: {detail}", check.id, check.title()));
        }
        line(format_args!("not proven:"));
        for item in &self.not_proven {
            line(format_args!("  - {item}"));
        }
        let level = self.level().map_or_else(|| "none".to_owned(), |level| format!("L{level}"));
        match self.unenforced {
            0 => line(format_args!("{}, level {level}", self.word())),
            n => {
                let calls = if n == 1 { "call was" } else { "calls were" };
                line(format_args!("{}, level {level}, {n} {calls} not enforced", self.word()));
            }
        }
        printable(&out)
    }

    /// For a program.
    pub fn to_json(&self) -> Json {
        let checks: Vec<Json> = self
            .checks
            .iter()
            .map(|check| {
                Json::object([
                    ("id", Json::from(check.id)),
                    ("title", Json::from(check.title())),
                    ("outcome", Json::from(check.outcome.word())),
                    ("detail", Json::from(check.outcome.detail())),
                ])
            })
            .collect();
        let not_proven: Vec<Json> =
            self.not_proven.iter().map(|item| Json::from(item.as_str())).collect();
        let mut members = vec![
            ("v", Json::from("wicketgate/verification/1")),
            ("outcome", Json::from(self.word())),
            ("checks", checks.into()),
            ("not_proven", not_proven.into()),
        ];
        let unenforced = u64::try_from(self.unenforced).unwrap_or(u64::MAX);
        members.push(("unenforced", Json::from(unenforced)));
        members.extend(self.level().map(|level| ("level", Json::from(u64::from(level)))));
        members.extend(self.run.as_deref().map(|run| ("run", Json::from(run))));
        members.extend(self.log.as_deref().map(|log| ("log", Json::from(log))));
        Json::object(members)
    }
}

/// The same checks of several chains, before they are merged into one outcome each.
#[derive(Debug, Default)]
pub(super) struct ChainChecks {
    chains: Vec<String>,
    outcomes: Vec<(&'static str, usize, Outcome)>,
    /// Whether a chain has no pinned head.
    pub(super) unpinned: bool,
}

impl ChainChecks {
    /// Sets the chain of the following outcomes.
    pub(super) fn chain(&mut self, folder: &str) {
        self.chains.push(folder.to_owned());
    }

    /// The outcome of one check for the current chain.
    pub(super) fn put(&mut self, id: &'static str, outcome: Outcome) {
        self.outcomes.push((id, self.chains.len().saturating_sub(1), outcome));
    }

    /// One outcome per check: invalid ones first, then undecided ones.
    pub(super) fn fold(self, report: &mut Report) {
        let Self { chains, outcomes, .. } = self;
        let mut ids: Vec<&'static str> = Vec::new();
        for (id, _, _) in &outcomes {
            if !ids.contains(id) {
                ids.push(id);
            }
        }
        for id in ids {
            let of_id: Vec<_> = outcomes.iter().filter(|(other, _, _)| *other == id).collect();
            let rank = |outcome: &Outcome| match outcome {
                Outcome::Invalid(_) => 0_u8,
                Outcome::Unverifiable(_) => 1,
                Outcome::Valid(_) => 2,
            };
            let Some((_, chain, worst)) = of_id.iter().min_by_key(|(_, _, o)| rank(o)) else {
                continue;
            };
            let outcome = match (chains.len(), worst) {
                (0 | 1, _) => worst.clone(),
                (_, Outcome::Valid(_)) => Outcome::Valid(format!("{} chains", of_id.len())),
                (_, Outcome::Invalid(why)) => {
                    Outcome::Invalid(format!("{}: {why}", chains.get(*chain).map_or("", |c| c)))
                }
                (_, Outcome::Unverifiable(why)) => Outcome::Unverifiable(format!(
                    "{}: {why}",
                    chains.get(*chain).map_or("", |c| c)
                )),
            };
            report.put(id, outcome);
        }
    }
}

/// Text from a bundle must not control the reader's terminal.
fn printable(text: &str) -> String {
    let hidden = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if hidden(c) { '\u{FFFD}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_a_bundle_does_not_steer_the_terminal() {
        let mut report = Report::default();
        report.invalid(Damage::new("B2", "`\u{1b}[2J\u{202e}`"));
        let text = report.to_text();
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
        assert!(text.contains("INVALID"));
    }
}
