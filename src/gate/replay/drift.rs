//! Where an agent behaves differently than in the recording.

use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::domain::pointer::{self, Difference};

/// The most paths that one drift names.
const CHANGES_MAX: usize = 64;

/// The kind of difference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DriftKind {
    /// A recorded call was not made.
    Missing,
    /// A call was made that is not recorded, or more often than it was.
    Extra,
    /// A call was made before another whose answer it had in the recording.
    Reordered,
    /// The same tool with other arguments.
    Arguments,
    /// The policy decided differently.
    Decision,
    /// The agent received another result.
    Result,
    /// A recorded child run was not opened; the drift does not name its calls.
    MissingChild,
    /// The agent opened a child run that is not recorded.
    ExtraChild,
    /// The gate cannot answer: part of the recorded call was redacted.
    Redacted,
}

impl DriftKind {
    /// Its name in reports, and in codes: `replay.<name>`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Reordered => "reordered",
            Self::Arguments => "arguments",
            Self::Decision => "decision",
            Self::Result => "result",
            Self::MissingChild => "missing_child",
            Self::ExtraChild => "extra_child",
            Self::Redacted => "redacted",
        }
    }
}

/// One difference.
#[derive(Clone, PartialEq, Debug)]
pub struct Drift {
    /// The kind of difference.
    pub kind: DriftKind,
    /// The recorded step. For a call that is not recorded, the step that was expected; `None` after
    /// the last one.
    pub step: Option<u64>,
    /// The tool that was called, or should have been; empty for a child run.
    pub tool: String,
    /// The recorded child run; `None` for the run without a parent.
    pub run: Option<RunId>,
    /// The id of the call in the replay; `None` without a call.
    pub call: Option<String>,
    /// What happened, for a person.
    pub message: String,
    /// What differs, path by path.
    pub changes: Vec<Difference>,
}

impl Drift {
    /// A drift about a recorded step, by its number and tool, without a call yet.
    #[must_use]
    pub fn at(kind: DriftKind, (step, tool): (u64, String), message: String) -> Self {
        let (run, call, changes) = (None, None, Vec::new());
        Self { kind, step: Some(step), tool, run, call, message, changes }
    }

    /// For machines.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let mut members = vec![
            ("kind", Json::from(self.kind.as_str())),
            ("message", Json::from(self.message.as_str())),
        ];
        let tool = Some(self.tool.as_str()).filter(|tool| !tool.is_empty());
        members.extend(tool.map(|tool| ("tool", Json::from(tool))));
        members.extend(self.run.map(|run| ("run", Json::from(run.to_string()))));
        members.extend(self.step.map(|step| ("step", Json::from(step))));
        members.extend(self.call.as_deref().map(|call| ("call", Json::from(call))));
        let changes: Vec<Json> = self.changes.iter().map(change).collect();
        members.extend((!changes.is_empty()).then(|| ("changes", Json::from(changes))));
        Json::object(members)
    }
}

fn change(change: &Difference) -> Json {
    let mut members = vec![("path", Json::from(change.at.as_str()))];
    members.extend(change.old.clone().map(|value| ("recorded", value)));
    members.extend(change.new.clone().map(|value| ("now", value)));
    Json::object(members)
}

/// The differences between the recorded value and the current one, up to the limit.
#[must_use]
pub fn differences(recorded: &Json, now: &Json) -> Vec<Difference> {
    pointer::differences(recorded, now, CHANGES_MAX)
}

/// The value without the parts that these JSON pointers name.
#[must_use]
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
    fn what_is_volatile_is_left_out_and_what_stands_beside_it_stays() {
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
