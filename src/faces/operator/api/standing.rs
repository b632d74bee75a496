//! What routes answer with about trust in tools, and about held calls that people decide alike.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Reply;

replies! {
    /// The trust in one tool: of all agents together, or of one.
    TrustLine {
        /// The tool.
        tool: String,
        /// The digest of its definition, `sha256:…`: another definition begins anew.
        definition: String,
        /// Whether the tool is called by another definition since.
        replaced: bool,
        /// The agent; `null`: the calls of every agent.
        agent: Option<String>,
        /// Calls that ended, within the window.
        calls: u64,
        /// Those of them that ended well.
        well: u64,
        /// The lower bound of the Wilson interval (95 %) in thousandths; `null`: unrated, fewer than 20 calls ended.
        score: Option<u64>,
        /// When the first of them ended.
        first: String,
        /// When the last of them ended.
        last: String,
    }

    /// A score that fell by 200 thousandths or more within 24 hours.
    TrustFall {
        /// The tool.
        tool: String,
        /// The digest of its definition, `sha256:…`.
        definition: String,
        /// The agent; `null`: the calls of every agent.
        agent: Option<String>,
        /// The highest score of the last 24 hours.
        from: u64,
        /// The score now.
        to: u64,
        /// When it last was the highest.
        since: String,
    }

    /// The trust in every tool that was called.
    TrustScores {
        /// By tool, definition and agent.
        scores: Vec<TrustLine>,
        /// The deepest fall first.
        drops: Vec<TrustFall>,
        /// At most so many calls count, the newest.
        window: u64,
        /// Only calls that ended within so many days count.
        days: u64,
        /// The time that the scores are of.
        as_of: String,
        /// Number of entries that were not read yet.
        behind: u64,
    }

    /// One call of a pattern.
    PatternCall {
        /// The chain, in hex.
        chain: String,
        /// The entry that held it.
        seq: u64,
        /// The run.
        run: String,
        /// The call.
        call: String,
        /// When it was decided.
        at: String,
    }

    /// Held calls that people decide alike, and the rule that could decide them.
    PatternLine {
        /// Its id, which `wicketgate policy learn --pattern` takes.
        id: String,
        /// The agent.
        agent: String,
        /// The tool.
        tool: String,
        /// The digest of its definition, `sha256:…`.
        definition: String,
        /// Why its calls are held: rules, each with its code.
        rules: Vec<String>,
        /// `approve` or `refuse`.
        decision: String,
        /// How many decisions there are.
        decisions: u64,
        /// Who decided.
        people: Vec<String>,
        /// When the first was decided.
        first: String,
        /// When the last was decided.
        last: String,
        /// When it is no longer proposed, unless more calls are decided.
        until: String,
        /// The newest of its calls.
        calls: Vec<PatternCall>,
    }

    /// Held calls that make no pattern.
    PatternLack {
        /// The agent.
        agent: String,
        /// The tool.
        tool: String,
        /// How many decisions there are.
        decisions: u64,
        /// What is missing.
        why: String,
    }

    /// What people decide alike. Nothing here is in force: a rule takes signatures.
    Patterns {
        /// Those of the most calls first, at most 50.
        patterns: Vec<PatternLine>,
        /// Patterns beyond that number.
        more: u64,
        /// What makes none, with 20 decisions about its tool or more.
        lacking: Vec<PatternLack>,
        /// Entries of the last 90 days that were not read: there are too many.
        unread: u64,
    }
}
