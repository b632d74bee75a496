//! One decision on the ledger against the one that the policy gives again.

use crate::domain::decision::{Course, Verdict};
use crate::entries::Line;
use crate::policy::rego::RegoEngine;
use crate::policy::{self, Answer, PolicyEngine as _};
use crate::record::Kind;
use crate::record::decided;

/// Whether the decision on the books is this one.
pub(super) fn same(
    line: &Line,
    (input, answer): (&[u8], &Answer),
    engine: &RegoEngine,
) -> Result<(), String> {
    let draft = &line.entry.draft;
    let said = draft.verdict.map_or("none", Verdict::as_str);
    if draft.verdict != Some(answer.verdict) {
        let now = answer.verdict.as_str();
        return Err(format!("recorded is `{said}`, the policy says `{now}`"));
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
        return Err(format!("recorded is `{}`, from it follows `{}`", line.kind(), kind.as_str()));
    }
    // Entries of earlier builds name no rule of an allow: they say less, and nothing that is not so.
    let unnamed = answer.verdict == Verdict::Allow && draft.rule.is_none();
    let rule = match answer.verdict {
        Verdict::Allow => policy::allowed_by(engine, input).as_deref().map(decided::ground),
        Verdict::Deny | Verdict::RequireApproval => decided::rule(&answer.reasons),
    };
    if !unnamed && draft.rule != rule {
        return Err("recorded is another rule than the one that decides".into());
    }
    let decision = line.decision().ok_or("it is no decision")?;
    let same = [
        ("reasons", *decided::reasons(&answer.reasons) == *decision.reasons),
        ("obligations", *decided::obligations(&answer.obligations) == *decision.obligations),
        ("layers", *decided::layers(engine.layers()) == *decision.layers),
        ("enforced", answer.enforced == decision.enforced),
    ];
    if let Some((name, _)) = same.into_iter().find(|(_, same)| !same) {
        return Err(format!("recorded are other `{name}` than the policy gives"));
    }
    Ok(())
}
