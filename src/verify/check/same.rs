//! Compares a recorded decision with the one that the policy makes again.

use crate::domain::decision::{Course, Verdict};
use crate::entries::EntryLine;
use crate::policy::rego::RegoEngine;
use crate::policy::{Answer, PolicyEngine as _};
use crate::record::Kind;
use crate::record::decided;

/// How the two decisions differ.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("recorded: `{0}`; the policy says `{1}`")]
    Verdict(&'static str, &'static str),
    #[error("recorded as `{0}`, but the decision requires `{1}`")]
    Kind(String, Kind),
    #[error("the recorded rule is not the one that decides")]
    Rule,
    #[error("the entry is not a decision")]
    NoDecision,
    #[error("the recorded `{0}` differ from the policy's")]
    Member(&'static str),
}

/// Whether the recorded decision is this one, and an allow follows from this rule.
pub(super) fn same(
    line: &EntryLine,
    (answer, ground): (&Answer, Option<&str>),
    engine: &RegoEngine,
) -> Result<(), Error> {
    let draft = &line.entry.draft;
    if draft.verdict != Some(answer.verdict) {
        let recorded = draft.verdict.map_or("none", Verdict::as_str);
        return Err(Error::Verdict(recorded, answer.verdict.as_str()));
    }
    let course = match (answer.verdict, answer.enforced) {
        (Verdict::Allow, _) | (_, false) => Course::Run,
        (Verdict::Deny, true) => Course::Refuse,
        (Verdict::RequireApproval, true) => Course::Wait,
    };
    let kind = match course {
        Course::Run => Kind::CallAuthorized,
        Course::Refuse => Kind::CallDenied,
        Course::Wait => Kind::CallHeld,
    };
    if !line.is(kind) {
        return Err(Error::Kind(line.kind().to_owned(), kind));
    }
    // Entries of earlier builds name no rule for an allow, and are correct as far as they go.
    let unnamed = answer.verdict == Verdict::Allow && draft.rule.is_none();
    let rule = match answer.verdict {
        Verdict::Allow => ground.map(decided::ground),
        Verdict::Deny | Verdict::RequireApproval => decided::rule(&answer.reasons),
    };
    if !unnamed && draft.rule != rule {
        return Err(Error::Rule);
    }
    let decision = line.decision().ok_or(Error::NoDecision)?;
    let same = [
        ("reasons", *decided::reasons(&answer.reasons) == *decision.reasons),
        ("obligations", *decided::obligations(&answer.obligations) == *decision.obligations),
        ("layers", *decided::layers(engine.layers()) == *decision.layers),
        ("enforced", answer.enforced == decision.enforced),
    ];
    if let Some((name, _)) = same.into_iter().find(|(_, same)| !same) {
        return Err(Error::Member(name));
    }
    Ok(())
}
