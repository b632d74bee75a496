//! The guard: what the firewall finds in arguments, prompts and results, and what the gate does about
//! it, whatever the policy says.
//!
//! [`screen`] is the one way to [`super::prepare`], and [`release`] the one way to spend a permit. The
//! configuration is the floor: a policy may only be stricter. Known credentials of the gate are not
//! part of it: they are searched for first, always, and nothing configures that (`scrub`).

mod demand;
mod excuse;
mod release;
mod rendered;
mod screen;
mod shown;
#[cfg(test)]
mod tests;

pub use screen::{Screened, screen};

pub(super) use release::{Floor, release};
pub use screen::as_judged;
pub(super) use screen::{of_effect, of_pre_image, without_secrets_in};

pub(super) use shown::{shown_effect, shown_findings};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::domain::facts::{Finding, FindingAge, FindingMark};
use crate::domain::guarded::{GuardAction, GuardFinding};
use crate::domain::json::Json;
use crate::domain::pointer;
use crate::firewall::{self, Class, Hit, How};
use crate::judge::exceptions::FindingException;
use crate::judge::guarding::{Direction, FindingMarks, ToolGuard, without_secrets};
use crate::record::call::MaskedKinds;

/// What the configuration says about findings, for all tools and for single ones.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    all: ToolGuard,
    tools: BTreeMap<String, ToolGuard>,
    marks: FindingMarks,
}

impl Guard {
    /// `all`: what applies to a tool that is not among `tools`.
    #[must_use]
    pub const fn new(
        all: ToolGuard,
        tools: BTreeMap<String, ToolGuard>,
        marks: FindingMarks,
    ) -> Self {
        Self { all, tools, marks }
    }

    /// The marks of findings.
    #[must_use]
    pub const fn marks(&self) -> &FindingMarks {
        &self.marks
    }

    /// What applies to the tool of this name.
    #[must_use]
    pub fn of(&self, tool: &str) -> ToolGuard {
        self.tools.get(tool).copied().unwrap_or(self.all)
    }

    /// The tools that have rules of their own.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }
}

/// A finding with what happens to it.
struct HitAction<'a> {
    hit: &'a Hit,
    action: GuardAction,
    /// The signed orders by which it passes.
    excused: Vec<Arc<FindingException>>,
    /// Whether the policy wants it masked.
    demanded: bool,
}

/// The findings that are looked for in this direction, each with what happens to it.
fn judged<'a>(guard: &ToolGuard, direction: Direction, hits: &'a [Hit]) -> Vec<HitAction<'a>> {
    let names_every_secret = firewall::names_every_secret(hits);
    let all = hits.iter().map(|hit| {
        let action = guard.action(direction, hit);
        let action = match action {
            // A mask has no place in any of the texts that it is spread over.
            GuardAction::Redact if hit.how == How::Joined => GuardAction::Block,
            // What was dropped is no secret, or no sure one.
            GuardAction::Block if firewall::is_flood(hit) && names_every_secret => {
                GuardAction::Warn
            }
            GuardAction::Off
            | GuardAction::Warn
            | GuardAction::Strip
            | GuardAction::Redact
            | GuardAction::Block => action,
        };
        HitAction { hit, action, excused: Vec::new(), demanded: false }
    });
    all.filter(|one| one.action != GuardAction::Off).collect()
}

/// A finding in this document as entries have it.
fn finding(one: &HitAction<'_>, (marks, document): (&FindingMarks, &Json)) -> GuardFinding {
    // WHY no place of personal data: an entry is never redacted, and a bundle that hides a member hides its name.
    let is_personal = one.hit.class == Class::Personal;
    let order = one.excused.first();
    GuardFinding {
        kind: one.hit.kind,
        class: one.hit.class.as_str(),
        confidence: one.hit.confidence.as_str(),
        // Of several values in one text, an order names the first.
        mark: order.map_or_else(|| marks.of(one.hit, document), |order| Some(order.finding.mark.0)),
        path: if is_personal { String::new() } else { place(&one.hit.path) },
        action: one.action,
        exception: order.map(|order| order.signed.order),
    }
}

/// The findings in this document as a policy sees them.
pub(super) fn marked(hits: &[Hit], marks: &FindingMarks, document: &Json) -> Vec<Finding> {
    let finding = |hit: &Hit| {
        let mark = marks.of(hit, document).map(FindingMark);
        Finding { mark, ..hit.finding(hit.path.clone(), FindingAge::New) }
    };
    hits.iter().map(finding).collect()
}

/// A place without what its members' names may hold.
fn place(path: &str) -> String {
    // Most places are short words; a name that is a secret is long.
    if path.len() < SECRET_BYTES_MIN {
        return path.to_owned();
    }
    // WHY name by name: a pointer writes the strokes of a URL in another way.
    let names = pointer::steps(path).map(|name| pointer::step(&without_secrets(&name)));
    let shown: String = names.flat_map(|name| ["/".to_owned(), name]).collect();
    without_secrets(&shown)
}

/// The kinds of which every finding is masked, and on whose demand. WHY not those of which one passes, by an order or
/// because it may well be none: no policy wanted these masked.
fn masked_kinds(all: &[HitAction<'_>]) -> Option<MaskedKinds> {
    let (masked, passed): (Vec<_>, Vec<_>) =
        all.iter().partition(|one| one.action == GuardAction::Redact);
    let passed: BTreeSet<&str> = passed.into_iter().map(|one| one.hit.kind).collect();
    let of = |demanded: bool| {
        let kinds = masked.iter().filter(|one| one.demanded == demanded).map(|one| one.hit.kind);
        kinds.filter(|kind| !passed.contains(kind)).collect()
    };
    MaskedKinds::some(&of(false), &of(true))
}

/// The kinds that are masked.
fn masks(all: &[HitAction<'_>]) -> Vec<String> {
    let masked = all.iter().filter(|one| one.action == GuardAction::Redact);
    let mut kinds: Vec<String> = masked.map(|one| one.hit.kind.to_owned()).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

/// What is wrong, in words: the class, the kind and the place of the first finding that is blocked.
fn in_words(one: &HitAction<'_>) -> String {
    let (kind, path) = (one.hit.kind, place(&one.hit.path));
    let what = match one.hit.class {
        Class::Secret => "a secret",
        Class::Personal => "personal data",
        Class::Injection => "text that is written to steer a model",
        Class::Unicode => "characters that people do not see as what they are",
        Class::Unscanned => "something that was not searched to its end",
    };
    match path.is_empty() {
        true => format!("{what} (`{kind}`)"),
        false => format!("{what} (`{kind}` at `{path}`)"),
    }
}

/// The finer code of a refusal for findings of this class.
const fn detail(class: Class) -> &'static str {
    match class {
        Class::Secret => "dlp.secret",
        Class::Personal => "dlp.personal",
        Class::Injection => "dlp.injection",
        Class::Unicode => "dlp.unicode",
        Class::Unscanned => UNAVAILABLE,
    }
}

/// The finer code where a search did not come to its end.
const UNAVAILABLE: &str = "dlp.unavailable";
/// Bytes of the shortest text that is a secret by itself.
const SECRET_BYTES_MIN: usize = 12;
