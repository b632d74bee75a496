//! Patterns: held calls that people decide alike again and again, and the rule that would decide them.
//!
//! Nothing here changes a decision. A pattern is a proposal: its rule has an end, comes with tests from the recorded
//! inputs, and takes the road of every amendment, with people who sign it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ChainId, RunId, Seq};
use crate::domain::json::Json;
use crate::domain::plural::many;
use crate::domain::tier::Tier;
use crate::domain::time::Timestamp;
use crate::record::approval::{ApprovalGranted, ApprovalRefused};
use crate::record::call::{CallAuthorized, CallDenied, CallHeld};
use crate::record::run::RunOpened;
use crate::record::{Commitment, Entry, Role};
use crate::suggest::shape::outline;

mod rule;

pub use rule::{LearnedFiles, RuleFault, learned};

/// Decisions that make a pattern.
pub const DECISIONS: usize = 20;
/// People who gave them.
pub const PEOPLE: usize = 2;
/// Patterns that are open at once.
pub const OPEN_MAX: usize = 50;
/// Decisions of one group that are looked at, the newest first.
pub const LOOKED_AT: usize = 500;
/// How far back a differing decision counts.
pub const LOOK_BACK: Duration = Duration::from_secs(90 * 86_400);
/// How long a pattern is open after its last decision.
pub const OPEN_FOR: Duration = Duration::from_secs(30 * 86_400);

/// A held call, and how people decided it.
#[derive(Clone, PartialEq, Debug)]
pub struct DecidedHold {
    /// The chain.
    pub chain: ChainId,
    /// The entry that held it.
    pub seq: Seq,
    /// The run.
    pub run: RunId,
    /// The call.
    pub call: CallId,
    /// When it was decided.
    pub at: Timestamp,
    /// The agent, if the entries that were read name it.
    pub agent: Option<String>,
    /// The tool.
    pub tool: String,
    /// The definition of the tool.
    pub definition: Digest,
    /// The tier of the tool; `None`: unknown.
    pub tier: Option<Tier>,
    /// Why it was held: rules without their places, each with its code.
    pub rules: BTreeSet<String>,
    /// Whether it was approved.
    pub approved: bool,
    /// Who decided it.
    pub people: BTreeSet<String>,
    /// What keeps it from being an example: a finding, a label, break-glass, other arguments.
    pub unfit: Option<&'static str>,
    /// The commitment to its policy input.
    pub commit: Option<Commitment>,
    /// Its policy input; `None`: it is not stored or was not read.
    pub input: Option<Json>,
}

impl DecidedHold {
    fn of(entry: &Entry, agent: Option<String>) -> Option<Self> {
        let draft = &entry.draft;
        let held = draft.get::<CallHeld>()?;
        let rules = held.reasons.iter().map(|reason| {
            let rule = reason.rule.split(' ').next().unwrap_or_default();
            format!("{rule} {}", &*reason.detail)
        });
        let found = held.findings.is_some() || held.findings_more.is_some();
        Some(Self {
            chain: entry.chain,
            seq: entry.seq,
            run: entry.run.as_ref()?.run,
            call: draft.call.clone()?,
            at: entry.ts,
            agent,
            tool: draft.tool.as_ref()?.to_string(),
            definition: held.definition?.0,
            tier: held.tier,
            rules: rules.collect(),
            approved: false,
            people: BTreeSet::new(),
            unfit: match (held.asked_by.is_some(), found) {
                (true, _) => Some(OTHER_ARGUMENTS),
                (false, true) => Some(FINDING),
                (false, false) => None,
            },
            commit: draft.committed(Role::PolicyInput).copied(),
            input: None,
        })
    }

    /// Takes the input that was read for it.
    pub fn read(&mut self, input: Json) {
        let some = |value: Option<&Json>| {
            value.and_then(Json::as_array).is_some_and(|items| !items.is_empty())
        };
        if some(input.get("findings")) {
            self.unfit = self.unfit.or(Some(FINDING));
        }
        if some(input.get("taint").and_then(|taint| taint.get("labels"))) {
            self.unfit = self.unfit.or(Some("a label of the run"));
        }
        let agent = input.get("agent").and_then(|agent| agent.get("id")).and_then(Json::as_str);
        self.agent = agent.map(str::to_owned).or(self.agent.take());
        self.input = Some(input);
    }

    /// What groups of the same question have in common before their arguments are read.
    fn question(&self) -> (&str, &Digest, &BTreeSet<String>) {
        (&self.tool, &self.definition, &self.rules)
    }
}

const FINDING: &str = "a finding of the firewall";
const OTHER_ARGUMENTS: &str = "arguments that an approver proposed";

/// The tool, its definition, and why its calls are held.
type OwnedQuestion = (String, Digest, BTreeSet<String>);

/// The decided holds of a ledger, from headers of entries alone. The entries of a chain come in their order.
#[derive(Clone, Debug, Default)]
pub struct HoldFold {
    agents: BTreeMap<RunId, String>,
    open: BTreeMap<(RunId, CallId), DecidedHold>,
    decided: Vec<DecidedHold>,
}

impl HoldFold {
    /// Moves past one entry.
    pub fn take(&mut self, entry: &Entry) {
        let draft = &entry.draft;
        let Some(link) = &entry.run else { return };
        if let Some(opened) = draft.get::<RunOpened>() {
            self.agents.insert(link.run, opened.agent.to_string());
        }
        let Some(call) = &draft.call else { return };
        let key = (link.run, call.clone());
        if draft.get::<CallHeld>().is_some() {
            let hold = DecidedHold::of(entry, self.agents.get(&link.run).cloned());
            self.open.extend(hold.map(|hold| (key, hold)));
            return;
        }
        let Some(hold) = self.open.get_mut(&key) else { return };
        if let Some(granted) = draft.get::<ApprovalGranted>() {
            hold.people.insert(granted.subject.to_lowercase());
        } else if let Some(refused) = draft.get::<ApprovalRefused>() {
            // One refusal decides, however many approved before.
            hold.people = BTreeSet::from([refused.subject.to_lowercase()]);
            self.end(&key, entry, false);
        } else if let Some(allowed) = draft.get::<CallAuthorized>() {
            if allowed.break_glass.is_some() {
                hold.unfit = Some("break-glass");
            }
            self.end(&key, entry, true);
        } else if draft.get::<CallDenied>().is_some() || draft.kind().ends_call() {
            self.open.remove(&key);
        }
    }

    fn end(&mut self, key: &(RunId, CallId), entry: &Entry, approved: bool) {
        let hold = self.open.remove(key);
        self.decided.extend(hold.map(|hold| DecidedHold { at: entry.ts, approved, ..hold }));
    }

    /// The holds whose inputs decide whether there is a pattern: of each question with enough decisions within
    /// [`LOOK_BACK`], the newest.
    #[must_use]
    pub fn candidates(self, now: Timestamp) -> Vec<DecidedHold> {
        let mut groups: BTreeMap<OwnedQuestion, Vec<DecidedHold>> = BTreeMap::new();
        for hold in self.decided.into_iter().filter(|hold| is_within(hold.at, LOOK_BACK, now)) {
            let (tool, definition, rules) = hold.question();
            let key = (tool.to_owned(), *definition, rules.clone());
            groups.entry(key).or_default().push(hold);
        }
        let enough = groups.into_values().filter(|holds| holds.len() >= DECISIONS);
        let newest = enough.flat_map(|mut holds| {
            holds.sort_by_key(|hold| (hold.at, hold.chain, hold.seq));
            let newest = holds.split_off(holds.len().saturating_sub(LOOKED_AT));
            // WHY: one decision of these 90 days that differs prevents a pattern, however many came since.
            holds.retain(|old| newest.iter().any(|new| new.approved != old.approved));
            holds.extend(newest);
            holds
        });
        newest.collect()
    }
}

fn is_within(at: Timestamp, span: Duration, now: Timestamp) -> bool {
    at.plus(span) > now
}

/// Calls that people decide alike.
#[derive(Clone, PartialEq, Debug)]
pub struct HoldPattern {
    /// Its id: the same for the same question, whatever is decided later.
    pub id: String,
    /// The agent.
    pub agent: String,
    /// The tool.
    pub tool: String,
    /// The definition of the tool.
    pub definition: Digest,
    /// Why its calls are held.
    pub rules: BTreeSet<String>,
    /// Whether they were approved; else they were refused.
    pub approved: bool,
    /// Who decided them.
    pub people: BTreeSet<String>,
    /// The calls, the oldest first.
    pub holds: Vec<DecidedHold>,
    /// When it is no longer open.
    pub until: Timestamp,
}

impl HoldPattern {
    /// When the first of its calls was decided, and the last.
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        Some((self.holds.first()?.at, self.holds.last()?.at))
    }
}

/// A group of calls that make no pattern, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PatternGap {
    /// The agent; empty if no entry names it.
    pub agent: String,
    /// The tool.
    pub tool: String,
    /// How many decisions there are.
    pub decisions: usize,
    /// What is missing.
    pub why: String,
}

/// What people decide alike, and what they nearly do.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PatternReport {
    /// The patterns, those of the most calls first; at most [`OPEN_MAX`].
    pub patterns: Vec<HoldPattern>,
    /// Patterns beyond that number.
    pub more: usize,
    /// Groups that make none.
    pub gaps: Vec<PatternGap>,
}

/// Finds the patterns among these calls.
#[must_use]
pub fn patterns(candidates: Vec<DecidedHold>, now: Timestamp) -> PatternReport {
    let recent = candidates.into_iter().filter(|hold| is_within(hold.at, LOOK_BACK, now));
    let (read, unread): (Vec<_>, Vec<_>) = recent.partition(|hold| hold.input.is_some());
    let mut groups: BTreeMap<(String, String), Vec<DecidedHold>> = BTreeMap::new();
    for hold in read {
        groups.entry((hold.agent.clone().unwrap_or_default(), key(&hold))).or_default().push(hold);
    }
    let mut report = PatternReport::default();
    for ((agent, key), mut holds) in groups {
        holds.sort_by_key(|hold| (hold.at, hold.chain, hold.seq));
        match missing(&agent, &holds, &unread, now) {
            None => report.patterns.extend(pattern(agent, &key, holds)),
            Some(why) => {
                let tool = holds.first().map(|hold| hold.tool.clone()).unwrap_or_default();
                report.gaps.push(PatternGap { agent, tool, decisions: holds.len(), why });
            }
        }
    }
    report.patterns.sort_by_key(|one| (std::cmp::Reverse(one.holds.len()), one.id.clone()));
    report.more = report.patterns.len().saturating_sub(OPEN_MAX);
    report.patterns.truncate(OPEN_MAX);
    report
}

/// The question and the shape of the arguments, as one text.
fn key(hold: &DecidedHold) -> String {
    let (tool, definition, rules) = hold.question();
    let part = |name: &str| hold.input.as_ref().and_then(|input| input.get(name));
    let effect = part("effect").and_then(|effect| effect.get("kind")).cloned();
    canonical::text(&Json::object([
        ("tool", Json::from(tool)),
        ("definition", Json::from(definition.prefixed())),
        ("rules", Json::of(rules)),
        ("args", part("args").map_or(Json::Null, outline)),
        ("effect", effect.unwrap_or(Json::Null)),
    ]))
}

fn pattern(agent: String, key: &str, holds: Vec<DecidedHold>) -> Option<HoldPattern> {
    let last = holds.last()?;
    let digest = Digest::of(&[agent.as_bytes(), b"\0", key.as_bytes()]).hex();
    Some(HoldPattern {
        id: digest.get(..12)?.to_owned(),
        agent,
        tool: last.tool.clone(),
        definition: last.definition,
        rules: last.rules.clone(),
        approved: last.approved,
        people: holds.iter().flat_map(|hold| hold.people.iter().cloned()).collect(),
        until: last.at.plus(OPEN_FOR),
        holds,
    })
}

/// What keeps these calls from being a pattern.
fn missing(
    agent: &str,
    holds: &[DecidedHold],
    unread: &[DecidedHold],
    now: Timestamp,
) -> Option<String> {
    let last = holds.last()?;
    if holds.len() < DECISIONS {
        return Some(format!("{} of {DECISIONS} decisions", holds.len()));
    }
    if !matches!(last.tier, Some(Tier::T0 | Tier::T1 | Tier::T2)) {
        return Some("a tool of tier T3 always waits for a person".to_owned());
    }
    if let Some(other) = holds.iter().find(|hold| hold.approved != last.approved) {
        return Some(format!("call {} was decided otherwise", other.call));
    }
    // WHY: what cannot be read may be of this shape.
    let hidden = unread.iter().find(|hold| {
        hold.question() == last.question()
            && hold.approved != last.approved
            && hold.agent.as_deref().is_none_or(|other| other == agent)
    });
    if let Some(hidden) = hidden {
        return Some(format!(
            "call {} was decided otherwise, and its arguments cannot be read",
            hidden.call
        ));
    }
    if let Some((hold, why)) = holds.iter().find_map(|hold| Some((hold, hold.unfit?))) {
        return Some(format!("call {} has {why}", hold.call));
    }
    let people: BTreeSet<&String> = holds.iter().flat_map(|hold| &hold.people).collect();
    if people.len() < PEOPLE {
        return Some(format!("decided by {} of {PEOPLE}", many(people.len(), "person")));
    }
    (!is_within(last.at, OPEN_FOR, now)).then(|| "nothing was decided for 30 days".to_owned())
}

#[cfg(test)]
mod tests;
