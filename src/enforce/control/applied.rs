//! `data` of `control.applied`: what became of an order, and of what the gate stops itself.

use crate::domain::json::Json;

/// Of what stops nothing that runs.
pub(in crate::enforce) fn idle(seq: u64, action: &str, (target, name): (&str, &str)) -> Json {
    Json::object([
        ("seq", Json::from(seq)),
        ("action", Json::from(action)),
        ("target", Json::from(target)),
        ("name", Json::from(name)),
        ("stopped", Json::Array(Vec::new())),
        ("stopped_count", Json::from(0_u64)),
        ("runs_sealed", Json::from(0_u64)),
        ("left", Json::from(0_u64)),
    ])
}

/// An object with these members too.
pub(super) fn with(data: Json, more: impl IntoIterator<Item = (&'static str, Json)>) -> Json {
    let Json::Object(mut members) = data else { return data };
    members.extend(more.into_iter().map(|(name, value)| (name.into(), value)));
    Json::Object(members)
}
