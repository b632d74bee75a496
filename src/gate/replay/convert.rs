//! Converts the content of a recorded step to the gate's types.

use super::drift::{Drift, DriftKind, differences};
use super::step::RecordedCall;
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::id::CallId;
use crate::domain::json::{Json, Limits};
use crate::domain::outcome::Outcome;
use crate::enforce::Recorded;
use crate::policy::input::Document;
use crate::record::{self, call};

/// The comparable part of reasons. Their messages name lines of files and may differ.
pub(super) fn codes(reasons: &[call::Reason]) -> Json {
    let code = |reason: &call::Reason| {
        let text = |text: &str| Json::from(text);
        Json::object([("code", text(&reason.code)), ("detail", text(&reason.detail))])
    };
    reasons.iter().map(code).collect()
}

/// The refusals of a call that no policy judged.
pub(super) fn reasons(step: &RecordedCall) -> Vec<LayerReason> {
    if step.ended.kind == record::Kind::CallExpired.as_str() {
        let (code, rule) = (Code::CallExpired, "approval".to_owned());
        let message = code.message();
        return vec![LayerReason { code, detail: String::new(), message, rule }];
    }
    let reason = |reason: &call::Reason| {
        Some(LayerReason {
            code: Code::parse(&reason.code)?,
            detail: reason.detail.to_string(),
            message: reason.message.to_string(),
            rule: reason.rule.to_string(),
        })
    };
    step.decision.reasons.iter().filter_map(reason).collect()
}

/// What the policy saw of the run.
pub(super) fn run_facts(input: &Document) -> Recorded {
    Recorded {
        calls: input.run.calls,
        errors: input.run.errors,
        denied: input.history.denied,
        cost: input.run.cost,
        pools: input.pools.clone(),
        attested: input.context.attested.clone(),
        taint: input.taint.clone(),
        trust: input.tool.trust,
        searched: input.firewall,
    }
}

/// How the agent's result differs from the recorded one.
pub(super) fn otherwise(
    step: &RecordedCall,
    call: &CallId,
    recorded: &Outcome,
    now: &Outcome,
) -> Option<Drift> {
    if recorded == now {
        return None;
    }
    let (mut changes, mut what) = (Vec::new(), format!("ended `{}`", now.as_str()));
    if let (Outcome::Completed { result: was, .. }, Outcome::Completed { result: is, .. }) =
        (recorded, now)
    {
        what = "has another result".to_owned();
        let read = |bytes: &[u8]| Json::parse(bytes, &Limits::FILE).ok();
        changes =
            read(was).zip(read(is)).map(|(was, is)| differences(&was, &is)).unwrap_or_default();
    }
    let message = format!("step {} (`{}`) {what}", step.number, step.tool);
    let drift = Drift::at(DriftKind::Result, (step.number, step.tool.clone()), message);
    Some(Drift { call: Some(call.to_string()), changes, ..drift })
}
