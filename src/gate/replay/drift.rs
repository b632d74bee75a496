//! Where an agent behaves differently than in the recording.

use crate::domain::closed::texts;
use serde::{Serialize, Serializer};
use serde_with_macros::skip_serializing_none;

use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::domain::pointer::{self, Difference};

/// The most paths that one drift names.
const CHANGES_MAX: usize = 64;

texts! {
    /// The kind of difference.
    pub enum DriftKind {
        /// A recorded call was not made.
        Missing = "missing",
        /// A call was made that is not recorded, or more often than it was.
        Extra = "extra",
        /// A call was made only after calls that had waited for its answer in the recording.
        Reordered = "reordered",
        /// The same tool with other arguments.
        Arguments = "arguments",
        /// The policy decided differently.
        Decision = "decision",
        /// The agent received another result.
        Result = "result",
        /// A recorded child run was not opened; the drift does not name its calls.
        MissingChild = "missing_child",
        /// The agent opened a child run that is not recorded.
        ExtraChild = "extra_child",
        /// The gate cannot answer: part of the recorded call was redacted.
        Redacted = "redacted",
    }
}

/// One difference.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Drift {
    /// The kind of difference.
    pub kind: DriftKind,
    /// The recorded step. For a call that is not recorded, the step that was expected; `None` after
    /// the last one.
    pub step: Option<u64>,
    /// The tool that was called, or should have been; empty for a child run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// The recorded child run; `None` for the run without a parent.
    pub run: Option<RunId>,
    /// The id of the call in the replay; `None` without a call.
    pub call: Option<String>,
    /// What happened, for a person.
    pub message: String,
    /// What differs, path by path.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "by_path")]
    pub changes: Vec<Difference>,
}

impl Drift {
    /// A drift about a recorded step, by its number and tool, without a call yet.
    pub fn at(kind: DriftKind, (step, tool): (u64, String), message: String) -> Self {
        Self { step: Some(step), tool, ..Self::new(kind, message) }
    }

    /// A drift about no recorded step.
    pub fn new(kind: DriftKind, message: String) -> Self {
        let (tool, changes) = (String::new(), Vec::new());
        Self { kind, step: None, tool, run: None, call: None, message, changes }
    }

    /// For machines.
    pub fn to_json(&self) -> Json {
        Json::of(self)
    }
}

fn by_path<S: Serializer>(changes: &[Difference], to: S) -> Result<S::Ok, S::Error> {
    #[skip_serializing_none]
    #[derive(Serialize)]
    struct Change<'a> {
        path: &'a str,
        recorded: Option<&'a Json>,
        now: Option<&'a Json>,
    }
    to.collect_seq(changes.iter().map(|Difference { at, old, new }| Change {
        path: at,
        recorded: old.as_ref(),
        now: new.as_ref(),
    }))
}

/// The differences between the recorded value and the current one, up to the limit.
pub fn differences(recorded: &Json, now: &Json) -> Vec<Difference> {
    pointer::differences(recorded, now, CHANGES_MAX)
}

/// The value without the parts that these JSON pointers name.
pub fn without(value: &Json, pointers: &[String]) -> Json {
    let mut value = value.clone();
    for pointer in pointers {
        let parts: Vec<String> = pointer::steps(pointer).collect();
        forget(&mut value, &parts);
    }
    value
}

fn forget(value: &mut Json, parts: &[String]) {
    let Some((first, rest)) = parts.split_first() else { return };
    match value {
        Json::Object(members) if rest.is_empty() => drop(members.remove(first)),
        Json::Object(members) => {
            if let Some(inner) = members.get_mut(first) {
                forget(inner, rest);
            }
        }
        Json::Array(items) => {
            let at = first.parse::<usize>().ok();
            if let Some(item) = at.and_then(|at| items.get_mut(at)) {
                // The other items keep their indices.
                if rest.is_empty() { *item = Json::Null } else { forget(item, rest) }
            }
        }
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Limits;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes(), &Limits::FILE).unwrap()
    }

    #[test]
    fn volatile_values_are_left_out_and_their_neighbours_stay() {
        let value =
            json(r#"{"id":"a","list":[{"at":1,"v":2},{"at":3,"v":4}],"a/b":{"~":1,"c":2}}"#);
        let pointers = ["/id", "/list/0/at", "/a~1b/~0", "/list/1", "/none/x"];
        let left = without(&value, &pointers.map(str::to_owned));
        assert_eq!(left, json(r#"{"list":[{"v":2},null],"a/b":{"c":2}}"#));
    }

    #[test]
    fn no_more_paths_are_named_than_can_be_read() {
        let many = |from: i64| Json::Array((0..1000).map(|n| Json::Int(n + from)).collect());
        assert_eq!(differences(&many(0), &many(1)).len(), CHANGES_MAX);
    }
}
