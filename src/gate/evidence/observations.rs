//! What enforcement would have refused: denials and holds that observe mode let run, rule by rule.

use std::collections::BTreeMap;

use crate::domain::decision::Verdict;
use crate::domain::id::RunId;
use crate::domain::time::Timestamp;
use crate::enforce::CANARY_TOOL;
use crate::ledger::store::EntryRow;
use crate::record::call::Reason;
use crate::record::{Draft, Entry, Kind};

/// Calls named for each rule.
const EXAMPLES: usize = 3;

/// What one rule has against the calls of one tool.
#[derive(Debug)]
pub struct RuleFindings {
    /// The rule's own words, of the first call.
    pub message: String,
    /// Number of calls.
    pub count: u64,
    /// When the first of them was decided.
    pub first: Timestamp,
    /// When the last of them was decided.
    pub last: Timestamp,
    /// Some of the calls.
    pub examples: Vec<(RunId, String)>,
}

/// Rule, tool and verdict.
pub type FindingKey = (String, String, &'static str);

/// The findings in the ledger.
#[derive(Default, Debug)]
pub struct ObservationReport {
    /// Decisions about calls of agents.
    pub decided: u64,
    /// Calls that ran although the policy denied them.
    pub denied: u64,
    /// Calls that ran although the policy held them.
    pub held: u64,
    /// Denials that were enforced.
    pub refused: u64,
    /// What each rule has against which tool.
    pub rules: BTreeMap<FindingKey, RuleFindings>,
    /// Entries that cannot be read.
    pub unread: u64,
}

impl ObservationReport {
    /// Counts one entry, if it is wanted.
    pub fn take(&mut self, row: &EntryRow, wanted: &dyn Fn(&Entry) -> bool) {
        let Ok(entry) = Entry::parse(&row.body) else {
            self.unread = self.unread.saturating_add(1);
            return;
        };
        // The gate's own test calls are not an agent's calls.
        let is_canary = tool(&entry.draft) == CANARY_TOOL;
        if !entry.draft.kind().decides() || is_canary || !wanted(&entry) {
            return;
        }
        self.decided = self.decided.saturating_add(1);
        let Some(decision) = entry.draft.body.decision() else { return };
        if decision.enforced {
            let refused = u64::from(entry.draft.kind() == Kind::CallDenied);
            self.refused = self.refused.saturating_add(refused);
            return;
        }
        match entry.draft.verdict {
            Some(Verdict::RequireApproval) => self.held = self.held.saturating_add(1),
            Some(Verdict::Deny | Verdict::Allow) | None => {
                self.denied = self.denied.saturating_add(1);
            }
        }
        for reason in decision.reasons {
            self.count(&entry, reason);
        }
    }

    fn count(&mut self, entry: &Entry, reason: &Reason) {
        let key = (reason.rule.to_string(), tool(&entry.draft), verdict(&entry.draft));
        let found = self.rules.entry(key).or_insert_with(|| RuleFindings {
            message: reason.message.to_string(),
            count: 0,
            first: entry.ts,
            last: entry.ts,
            examples: Vec::new(),
        });
        found.count = found.count.saturating_add(1);
        found.last = entry.ts;
        if let (Some(link), Some(call)) = (&entry.run, &entry.draft.call)
            && found.examples.len() < EXAMPLES
        {
            found.examples.push((link.run, call.to_string()));
        }
    }

    /// Most frequent first.
    pub fn sorted(&self) -> Vec<(&FindingKey, &RuleFindings)> {
        let mut rules: Vec<_> = self.rules.iter().collect();
        rules.sort_by_key(|(key, found)| (std::cmp::Reverse(found.count), *key));
        rules
    }
}

fn tool(draft: &Draft) -> String {
    draft.tool.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn verdict(draft: &Draft) -> &'static str {
    draft.verdict.map_or("deny", Verdict::as_str)
}
