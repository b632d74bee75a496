//! Entries as JSON, for tests that write and change them by hand.

use wicketgate_record::domain::json::Json;
use wicketgate_record::{Body, Draft, Kind};

/// What an entry of this kind says.
pub fn body(kind: Kind, data: &Json) -> Body {
    Body::from_json(kind, data).unwrap_or_else(|error| panic!("{error}: {data:?}"))
}

/// The same as JSON.
#[allow(dead_code, reason = "not every program reads entries")]
pub fn data(draft: &Draft) -> Json {
    Json::of(&draft.body)
}
