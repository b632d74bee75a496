//! The check after a call of tier T1: what a tool that reads has to show once another one has written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::ConfigError;
use crate::check::Checked;
use crate::domain::id::ToolName;
use crate::domain::json::Json;
use crate::domain::pointer::{step, steps};
use crate::domain::tier::Tier;

/// `read_back` of a tool of tier `T1`: after each call that completed, the gate calls another tool and
/// compares. If that fails, it restores the files that the run wrote.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadBackConfig {
    /// Name of a tool of this list that is `read_only`. The manifest grants it too, and the policy allows the call.
    pub tool: String,
    /// Arguments of that call, an object. A text that is `{args/…}` or `{result/…}` as a whole stands for the value at this
    /// JSON pointer of the arguments or the result of the checked call.
    #[serde(default)]
    pub args: BTreeMap<String, serde_json::Value>,
    /// What the result must contain: each member that is named here with an equal value. Texts stand for values as in `args`.
    /// An object `{"$exists": true}`, `{"$contains": TEXT}`, `{"$min": NUMBER}` or `{"$max": NUMBER}` is a condition.
    pub expect: serde_json::Value,
}

/// A checked `read_back`.
#[derive(Clone, PartialEq, Debug)]
pub struct ReadBack {
    /// The tool that reads.
    pub tool: ToolName,
    args: Json,
    expect: Json,
}

/// What the checked call got and gave.
#[derive(Clone, Copy, Debug)]
pub struct CheckedCall<'a> {
    /// Its arguments.
    pub args: &'a Json,
    /// Its result.
    pub result: &'a Json,
}

/// A place of the checked call that a template names, and that is not there.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the call has no `{0}`")]
pub struct NoValue(String);

/// What is wrong with a `read_back` by itself.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("`{0}` is not [A-Za-z0-9_.-]{{1,128}}")]
    Name(String),
    #[error("`{0}` is no place; write `{{args/NAME}}` or `{{result/NAME}}`")]
    Place(String),
    #[error(
        "`{0}` is no condition; use `$exists` with true or false, `$contains` with a text, `$min` or `$max` with a whole number"
    )]
    Condition(String),
}

impl ReadBack {
    /// Reads it as it is written.
    pub(super) fn of(config: &ReadBackConfig) -> Result<Self, Error> {
        let tool = ToolName::parse(&config.tool);
        let tool = tool.ok_or_else(|| Error::Name(config.tool.clone()))?;
        let (args, expect) = (Json::of(&config.args), Json::of(&config.expect));
        is_template(&args)?;
        is_template(&expect)?;
        has_conditions(&expect)?;
        Ok(Self { tool, args, expect })
    }

    /// As the definition digest of the checked tool has it.
    pub(super) fn definition(&self) -> serde_json::Value {
        serde_json::json!({
            "tool": self.tool.as_str(),
            "args": self.args.to_serde(),
            "expect": self.expect.to_serde(),
        })
    }

    /// The arguments of the call that reads.
    ///
    /// # Errors
    /// The checked call has no value for one of them.
    pub fn args(&self, call: CheckedCall<'_>) -> Result<Json, NoValue> {
        filled(&self.args, call)
    }

    /// The first place at which this result is not what was expected; `None`: it is.
    ///
    /// # Errors
    /// The checked call has no value for a part of what is expected.
    pub fn differs(&self, call: CheckedCall<'_>, result: &Json) -> Result<Option<String>, NoValue> {
        differs(&self.expect, call, Some(result), "")
    }
}

/// The root of a place (`args` or `result`), and the pointer below it.
fn place(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let root = ["args", "result"].into_iter().find(|root| inner.starts_with(root))?;
    let pointer = inner.strip_prefix(root)?;
    (pointer.is_empty() || pointer.starts_with('/')).then_some((root, pointer))
}

fn is_template(value: &Json) -> Result<(), Error> {
    match value {
        Json::String(text) if text.starts_with('{') && place(text).is_none() => {
            Err(Error::Place(text.clone()))
        }
        Json::Array(items) => items.iter().try_for_each(is_template),
        Json::Object(members) => members.values().try_for_each(is_template),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => Ok(()),
    }
}

/// The one member of a condition.
fn condition(expected: &Json) -> Option<(&str, &Json)> {
    let members = expected.as_object()?;
    let (name, value) = members.iter().next().filter(|_| members.len() == 1)?;
    name.starts_with('$').then_some((name.as_str(), value))
}

fn has_conditions(expected: &Json) -> Result<(), Error> {
    if let Some((name, value)) = condition(expected) {
        let fits = match name {
            "$exists" => value.as_bool().is_some(),
            "$contains" => value.as_str().is_some(),
            "$min" | "$max" => value.as_int().is_some() || value.as_str().is_some(),
            _ => false,
        };
        return if fits { Ok(()) } else { Err(Error::Condition(name.to_owned())) };
    }
    match expected {
        Json::Array(items) => items.iter().try_for_each(has_conditions),
        Json::Object(members) => members.values().try_for_each(has_conditions),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => Ok(()),
    }
}

fn at<'a>(value: &'a Json, pointer: &str) -> Option<&'a Json> {
    steps(pointer).try_fold(value, |value, name| match value {
        Json::Object(members) => members.get(&name),
        Json::Array(items) => items.get(name.parse::<usize>().ok()?),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => None,
    })
}

/// The template with every place filled.
fn filled(template: &Json, call: CheckedCall<'_>) -> Result<Json, NoValue> {
    Ok(match template {
        Json::String(text) => match place(text) {
            None => template.clone(),
            Some((root, pointer)) => {
                let value = at(if root == "args" { call.args } else { call.result }, pointer);
                value.cloned().ok_or_else(|| NoValue(format!("{root}{pointer}")))?
            }
        },
        Json::Array(items) => {
            let items: Result<Vec<Json>, NoValue> =
                items.iter().map(|item| filled(item, call)).collect();
            Json::Array(items?)
        }
        Json::Object(members) => {
            let member = |(name, value): (&String, &Json)| Ok((name.clone(), filled(value, call)?));
            Json::Object(members.iter().map(member).collect::<Result<_, NoValue>>()?)
        }
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) => template.clone(),
    })
}

fn differs(
    expected: &Json,
    call: CheckedCall<'_>,
    found: Option<&Json>,
    path: &str,
) -> Result<Option<String>, NoValue> {
    let here = |same: bool| Ok((!same).then(|| path.to_owned()));
    if let Some((name, value)) = condition(expected) {
        let value = filled(value, call)?;
        let number = |one: Option<&Json>| one.and_then(Json::as_int);
        let bounds = number(found).zip(value.as_int());
        return here(match name {
            "$exists" => value.as_bool() == Some(found.is_some()),
            "$contains" => found
                .and_then(Json::as_str)
                .zip(value.as_str())
                .is_some_and(|(text, part)| text.contains(part)),
            "$min" => bounds.is_some_and(|(found, least)| found >= least),
            "$max" => bounds.is_some_and(|(found, most)| found <= most),
            _ => false,
        });
    }
    let Json::Object(members) = expected else {
        return here(found == Some(&filled(expected, call)?));
    };
    let Some(there) = found.filter(|found| found.as_object().is_some()) else { return here(false) };
    for (name, expected) in members {
        let path = format!("{path}/{}", step(name));
        if let Some(path) = differs(expected, call, there.get(name), &path)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Adds what is wrong between a tool and the one that reads back for it.
pub(super) fn check_all(all: &mut [Checked]) {
    let faults: Vec<(usize, ConfigError)> = (0..)
        .zip(all.iter())
        .filter_map(|(number, one)| {
            let (path, message) = fault(one, all)?;
            Some((number, ConfigError { path: format!("tools[{number}].{path}"), message }))
        })
        .collect();
    for (number, fault) in faults {
        if let Some(one) = all.get_mut(number) {
            one.checked = Err(vec![fault]);
        }
    }
}

fn fault(one: &Checked, all: &[Checked]) -> Option<(&'static str, String)> {
    let binding = one.checked.as_ref().ok()?;
    let read_back = binding.read_back.as_ref()?;
    let name = read_back.tool.as_str();
    if binding.tier != Tier::T1 || binding.read_only {
        let message = "only a tool of tier `T1` that is not `read_only` is read back";
        return Some(("read_back", message.to_owned()));
    }
    let Some(reader) = all.iter().find(|other| other.name == name) else {
        return Some(("read_back.tool", format!("`{name}` is no tool of this list")));
    };
    // What is wrong with it by itself is said there.
    let reader = reader.checked.as_ref().ok()?;
    if !reader.read_only || reader.tier > Tier::T1 {
        let message = format!(
            "`{name}` does not only read: it needs `read_only: true` and tier `T0` or `T1`"
        );
        return Some(("read_back.tool", message));
    }
    let members = read_back.args.as_object()?;
    if let Some(unknown) = members.keys().find(|member| !reader.schema.knows(member)) {
        return Some(("read_back.args", format!("`{name}` takes no argument `{unknown}`")));
    }
    let properties = reader.schema.json().get("required").and_then(Json::as_array);
    let mut required = properties.into_iter().flatten().filter_map(Json::as_str);
    let missing = required.find(|member| !members.contains_key(*member))?;
    Some(("read_back.args", format!("`{name}` needs the argument `{missing}`")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::json;

    fn read_back(args: serde_json::Value, expect: serde_json::Value) -> Result<ReadBack, Error> {
        let args = serde_json::from_value(args).unwrap();
        ReadBack::of(&ReadBackConfig { tool: "notes.read".into(), args, expect })
    }

    #[test]
    fn places_are_filled_with_the_values_of_the_call() {
        let (args, result) = (json!({"path": "a", "n": [1, 2]}), json!({"id": 7}));
        let call = CheckedCall { args: &args, result: &result };
        let check = read_back(
            serde_json::json!({"path": "{args/path}", "id": "{result/id}", "all": ["{args/n/1}", "x"]}),
            serde_json::json!({"id": "{result/id}", "size": {"$min": 1}, "text": {"$contains": "{args/path}"}, "gone": {"$exists": false}}),
        )
        .unwrap();
        assert_eq!(check.args(call).unwrap(), json!({"path": "a", "id": 7, "all": [2, "x"]}));
        let good = json!({"id": 7, "size": 1, "text": "xax", "more": true});
        assert_eq!(check.differs(call, &good).unwrap(), None);
        for (other, path) in [
            (json!({"id": 8, "size": 1, "text": "a"}), "/id"),
            (json!({"id": 7, "size": 0, "text": "a"}), "/size"),
            (json!({"id": 7, "size": 1, "text": "b"}), "/text"),
            (json!({"id": 7, "size": 1, "text": "a", "gone": null}), "/gone"),
            (json!([]), ""),
        ] {
            assert_eq!(check.differs(call, &other).unwrap().as_deref(), Some(path), "{other:?}");
        }
        let empty = json!({});
        let none = CheckedCall { args: &empty, result: &result };
        assert_eq!(check.args(none).unwrap_err().to_string(), "the call has no `args/n/1`");
    }

    #[test]
    fn a_place_or_a_condition_that_is_none_is_refused() {
        let nothing = || serde_json::json!({});
        assert!(read_back(serde_json::json!({"a": "{arg/b}"}), nothing()).is_err());
        assert!(read_back(nothing(), serde_json::json!({"a": {"$about": 1}})).is_err());
        assert!(read_back(nothing(), serde_json::json!({"a": {"$exists": 1}})).is_err());
        assert!(read_back(nothing(), serde_json::json!({"a": {"$exists": true}})).is_ok());
    }
}
