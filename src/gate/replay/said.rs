//! What a recorded step says, in the words of the road.

use super::drift::{Drift, Kind, differences};
use super::step::Step;
use crate::domain::code::Code;
use crate::domain::decision::Reason;
use crate::domain::id::CallId;
use crate::domain::json::{Json, Limits};
use crate::domain::outcome::Outcome;
use crate::enforce::Recorded;
use crate::policy::input::Left;

/// What counts of reasons: what they say in words names lines of files.
pub(super) fn codes(reasons: Option<&Json>) -> Json {
    let of = |reason: &Json, name: &str| reason.get(name).cloned().unwrap_or(Json::Null);
    let code = |reason: &Json| {
        Json::object([("code", of(reason, "code")), ("detail", of(reason, "detail"))])
    };
    let list = reasons.and_then(Json::as_array).unwrap_or_default();
    list.iter().map(code).collect::<Vec<_>>().into()
}

/// What was said against a call that no policy judged.
pub(super) fn reasons(step: &Step) -> Vec<Reason> {
    let text = |reason: &Json, name: &str| {
        reason.get(name).and_then(Json::as_str).map(str::to_owned).unwrap_or_default()
    };
    let list = step.decided("reasons").and_then(Json::as_array).unwrap_or_default();
    if step.ended.get("kind").and_then(Json::as_str) == Some("call.expired") {
        let message = "nobody approved it in time".to_owned();
        let (code, rule) = (Code::CallExpired, "approval".to_owned());
        return vec![Reason { code, detail: String::new(), message, rule }];
    }
    let reason = |reason: &Json| {
        Some(Reason {
            code: Code::parse(&text(reason, "code"))?,
            detail: text(reason, "detail"),
            message: text(reason, "message"),
            rule: text(reason, "rule"),
        })
    };
    list.iter().filter_map(reason).collect()
}

/// What the policy was told of the run.
pub(super) fn told(input: &Json) -> Recorded {
    let number = |part: &str, name: &str| {
        input.get(part).and_then(|part| part.get(name)).and_then(Json::as_u64).unwrap_or(0)
    };
    let text = |pool: &Json, name: &str| {
        pool.get(name).and_then(Json::as_str).map(str::to_owned).unwrap_or_default()
    };
    let amount = |pool: &Json, name: &str| pool.get(name).and_then(Json::as_u64).unwrap_or(0);
    let pools = input.get("pools").and_then(Json::as_array).unwrap_or_default();
    let attested = input.get("context").and_then(|context| context.get("attested"));
    let attested = attested.and_then(Json::as_object).into_iter().flatten();
    Recorded {
        calls: number("run", "calls"),
        errors: number("run", "errors"),
        denied: number("history", "denied"),
        cost: number("run", "cost"),
        pools: pools
            .iter()
            .map(|pool| Left {
                name: text(pool, "name"),
                unit: text(pool, "unit"),
                left_permille: amount(pool, "left_permille"),
                size: amount(pool, "size"),
            })
            .collect(),
        attested: attested
            .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect(),
    }
}

/// What the agent is given, where it is not what it was given.
pub(super) fn otherwise(
    step: &Step,
    call: &CallId,
    recorded: &Outcome,
    now: &Outcome,
) -> Option<Drift> {
    if recorded == now {
        return None;
    }
    let (mut changes, mut what) = (Vec::new(), format!("ended `{}`", now.word()));
    if let (Outcome::Completed { result: was, .. }, Outcome::Completed { result: is, .. }) =
        (recorded, now)
    {
        what = "has another result".to_owned();
        let read = |bytes: &[u8]| Json::parse(bytes, &Limits::FILE).ok();
        changes =
            read(was).zip(read(is)).map(|(was, is)| differences(&was, &is)).unwrap_or_default();
    }
    let message = format!("step {} (`{}`) {what}", step.number, step.tool);
    let drift = Drift::at(Kind::Result, (step.number, step.tool.clone()), message);
    Some(Drift { call: Some(call.to_string()), changes, ..drift })
}
