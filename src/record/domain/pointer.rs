//! JSON pointers (RFC 6901), and the places at which two values differ.

use std::collections::BTreeSet;

use super::json::Json;

/// A member's name as one step of a pointer: `a/b` is `a~1b` (RFC 6901, section 3).
pub fn step(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The unescaped names of a pointer's steps.
pub fn steps(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"))
}

/// The value at this place, if there is one.
pub fn find<'v>(value: &'v Json, pointer: &str) -> Option<&'v Json> {
    steps(pointer).try_fold(value, |at, step| match at {
        Json::Object(members) => members.get(&step),
        Json::Array(items) => items.get(step.parse::<usize>().ok()?),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => None,
    })
}

/// One value that changed, is gone, or is new.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// Where, `/hosts/0`; empty for the whole value.
    pub at: String,
    /// The old value; `None` if there was none.
    pub old: Option<Json>,
    /// The new value; `None` if there is none.
    pub new: Option<Json>,
}

/// The smallest places at which two values differ, in the order of paths: the first `most` of them.
pub fn differences(old: &Json, new: &Json, most: usize) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut todo = vec![(String::new(), Some(old), Some(new))];
    while found.len() < most
        && let Some((at, old, new)) = todo.pop()
    {
        if old == new {
            continue;
        }
        match (old, new) {
            (Some(Json::Object(old)), Some(Json::Object(new))) => {
                let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
                let below =
                    |name: &String| (format!("{at}/{}", step(name)), old.get(name), new.get(name));
                todo.extend(names.into_iter().rev().map(below));
            }
            (Some(Json::Array(old)), Some(Json::Array(new))) => {
                let all = (0..old.len().max(new.len())).rev();
                todo.extend(all.map(|i| (format!("{at}/{i}"), old.get(i), new.get(i))));
            }
            (old, new) => found.push(Difference { at, old: old.cloned(), new: new.cloned() }),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Limits;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes(), &Limits::FILE).unwrap()
    }

    #[test]
    fn a_value_is_found_at_its_place_and_nowhere_else() {
        let value = json(r#"{"a/b":[{"c":"d"}]}"#);
        assert_eq!(find(&value, "/a~1b/0/c"), Some(&Json::from("d")));
        assert_eq!(find(&value, ""), Some(&value));
        for nowhere in ["/a", "/a~1b/1", "/a~1b/x", "/a~1b/0/c/e"] {
            assert_eq!(find(&value, nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn a_step_reads_back_as_the_name_it_was() {
        for name in ["", "a", "a/b", "~", "~1", "~01", "a~/b"] {
            let pointer = format!("/x/{}", step(name));
            assert_eq!(steps(&pointer).collect::<Vec<_>>(), ["x", name], "{pointer}");
        }
        assert_eq!(steps("").count(), 0);
    }

    #[test]
    fn differences_are_named_by_their_paths() {
        let old = json(r#"{"a":1,"b":{"c/d":[1,2,3],"e":"x"},"g":true}"#);
        let new = json(r#"{"a":1,"b":{"c/d":[1,5],"e":"x"},"h":null,"g":"true"}"#);
        let found = differences(&old, &new, usize::MAX);
        let shown: Vec<_> =
            found.iter().map(|d| (d.at.as_str(), d.old.is_some(), d.new.is_some())).collect();
        assert_eq!(
            shown,
            [
                ("/b/c~1d/1", true, true),
                ("/b/c~1d/2", true, false),
                ("/g", true, true),
                ("/h", false, true)
            ]
        );
        assert!(differences(&old, &old, usize::MAX).is_empty());
        let other = differences(&json("[1]"), &json("{}"), usize::MAX);
        assert_eq!(other.iter().map(|d| d.at.as_str()).collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn the_first_are_named_where_there_are_more_than_may_be() {
        let many = |from: i64| Json::Array((0..1000).map(|n| Json::Int(n + from)).collect());
        let found = differences(&many(0), &many(1), 3);
        assert_eq!(found.iter().map(|d| d.at.as_str()).collect::<Vec<_>>(), ["/0", "/1", "/2"]);
    }
}
