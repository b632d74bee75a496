//! Invariants of a bundle that loads: rules that can never fire or never stop a call, members the
//! input never has, approvals that no approver can give.
//!
//! Found on the syntax tree where a rule gives itself away, and by asking the engine about calls that no
//! rule names where it does not. A finding of level [`Level::Error`] keeps a bundle out of force.
//!
//! | code | level | what |
//! |---|---|---|
//! | `lint.default_allow` | error | a call is allowed although no rule names it |
//! | `lint.irreversible_unapproved` | error | a T3 tool runs without an approval |
//! | `lint.input_never_supplied` | error | a rule reads a member the input never has |
//! | `lint.dead_rule` | error for `deny`, `require_approval` and `obligations` | the rule can never fire |
//! | `lint.malformed` | error | an `allow`, or an item of `deny`, `require_approval` or `obligations`, is not what the library takes |
//! | `lint.no_channel` | warning | a rule asks for an approval and no approver can give one |
//! | `lint.never_runs` | warning | a granted tool can never run, whatever the policy says (with `--config`) |
//! | `lint.negation_unknown` | warning | a `not` that lets a call pass holds where what it reads is missing |
//! | `lint.negation_silent` | warning | a `not` that stops a call fails where what it reads is missing |
//! | `lint.regex_unanchored` | warning | a regular expression that lets a call pass is found anywhere in a text |
//! | `lint.glob_delimiters` | warning | the `*` of a glob that lets a call pass crosses `/` or `.` |
//! | `lint.allow_by_trust` | warning | a rule lets a call pass by the trust in its tool |
//! | `lint.every_empty` | warning | an `every` that lets a call pass holds where there is nothing to look at |
//!
//! Variables are followed where a rule sets them once (`locals`). Not followed: what comprehensions
//! and functions make, and variables with several values. The lints report only what they can
//! prove.

mod items;
mod locals;
mod patterns;
mod probe;
mod rules;
pub mod schema;
mod scope;
pub(crate) mod shape;
mod traps;
mod truth;

pub use items::malformed;

use super::bundle::Bundle;
use crate::domain::tier::Tier;

crate::domain::closed::texts! {
    /// How much a finding matters.
    pub enum Level {
        /// The bundle breaks its promise; it does not come into force.
        Error = "error",
        /// It does what it promises, and its author should look at it.
        Warning = "warning",
    }
}

/// One finding of a lint.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    /// How much it matters.
    pub level: Level,
    /// Stable dotted code: `lint.dead_rule`, …
    pub code: &'static str,
    /// The message for a person.
    pub message: String,
    /// `file:line` within the bundle; empty when no single line is to blame.
    pub place: String,
}

impl Finding {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self.code {
            "lint.default_allow" => "name what is allowed: a tool, a kind of effect, an agent",
            "lint.irreversible_unapproved" => "add a `require_approval` for the tool",
            "lint.input_never_supplied" => {
                "`wicketgate policy schema` has every member of the input"
            }
            "lint.dead_rule" => "correct the condition, or take the rule away",
            "lint.no_channel" => "name who may approve (`approvals.signers`)",
            "lint.never_runs" => "see the message: it says what to write, and where",
            "lint.negation_unknown" => {
                "ask first that it is there: `is_string(input.args.path)`, then `not …`"
            }
            "lint.negation_silent" => {
                "give it a rule of its own: `not known`, and `known if …` without the `not`"
            }
            "lint.regex_unanchored" => "begin the pattern with `^` and end it with `$`",
            "lint.glob_delimiters" => {
                "give the delimiters, `[\"/\"]` for paths and `[\".\"]` for hosts; `**` crosses them"
            }
            "lint.allow_by_trust" => {
                "write `require_approval … if input.tool.trust.score < …`, and allow by what the call does"
            }
            "lint.every_empty" => "also ask that there is something: `count(…) > 0`",
            _ => "see the message",
        }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { level, code, message, place } = self;
        let at = if place.is_empty() { String::new() } else { format!("{place}: ") };
        write!(f, "{at}{}: {code}: {message}", level.as_str())
    }
}

/// What the bundle would work with.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Every bound tool and its tier. Empty: the tools are unknown.
    pub tools: &'a [(String, Tier)],
    /// Subjects that may approve; 0: none can.
    pub approvers: usize,
    /// Whether a webhook sends notices of held calls. It brings a question to people and cannot
    /// answer it, so no lint takes it for a channel.
    pub webhook: bool,
}

/// All findings in a bundle, errors first, then by place.
pub fn lint(bundle: &Bundle, surroundings: &Surroundings<'_>) -> Vec<Finding> {
    let read = rules::read(bundle);
    let mut findings = read.findings;
    findings.extend(malformed(bundle).into_iter().map(|error| Finding {
        level: Level::Error,
        code: "lint.malformed",
        message: error.message,
        place: format!("{}:{}", error.file, error.line),
    }));
    findings.extend(probe::ask(bundle, surroundings, &read.open, read.holds.as_deref()));
    findings.sort();
    findings.dedup();
    findings
}
