//! Changes at places of a JSON text. Everything else stays byte for byte.
//!
//! The text was read by the strict reader before: it is JSON, and no name is in one object twice.

use std::ops::Range;

use super::{AnswerError, broken};
use crate::llm::cursor::{Cursor, SentMember};

/// One step into a text.
#[derive(Clone, Copy, Debug)]
pub(super) enum At<'a> {
    /// The member of this name.
    Member(&'a str),
    /// The item of this number.
    Item(usize),
}

/// A JSON text that is changed at places.
#[derive(Clone, Debug)]
pub(super) struct SplicedJson(pub String);

/// A value within an object or an array.
struct Child {
    /// Its name, if it is a member.
    name: Option<String>,
    /// All of it: the name as well.
    all: Range<usize>,
    value: Range<usize>,
}

impl SplicedJson {
    /// Puts this JSON in the place of a value that is there.
    ///
    /// # Errors
    /// There is none.
    pub fn set(&mut self, path: &[At<'_>], json: &str) -> Result<(), AnswerError> {
        let place = self.place(path).ok_or_else(|| missing(path))?;
        self.0.replace_range(place, json);
        Ok(())
    }

    /// Gives the object at a place this member, in the place of that of the same name if there is one.
    ///
    /// # Errors
    /// There is no object.
    pub fn put(&mut self, path: &[At<'_>], name: &str, json: &str) -> Result<(), AnswerError> {
        let object = self.place(path).ok_or_else(|| missing(path))?;
        let children = children(&self.0, &object).ok_or_else(|| missing(path))?;
        if let Some(child) = children.iter().find(|child| child.name.as_deref() == Some(name)) {
            self.0.replace_range(child.value.clone(), json);
            return Ok(());
        }
        let comma = if children.is_empty() { "" } else { "," };
        let end = object.end.saturating_sub(1);
        self.0.insert_str(end, &format!("{comma}\"{name}\":{json}"));
        Ok(())
    }

    /// Takes a member from the object at a place, if it is there.
    ///
    /// # Errors
    /// There is no object.
    pub fn remove(&mut self, path: &[At<'_>], name: &str) -> Result<(), AnswerError> {
        self.keep(path, |child, _| child.name.as_deref() != Some(name))
    }

    /// Keeps these items of the array at a place.
    ///
    /// # Errors
    /// There is no array.
    pub fn keep_items(
        &mut self,
        path: &[At<'_>],
        kept: impl Fn(usize) -> bool,
    ) -> Result<(), AnswerError> {
        self.keep(path, |_, number| kept(number))
    }

    fn keep(
        &mut self,
        path: &[At<'_>],
        kept: impl Fn(&Child, usize) -> bool,
    ) -> Result<(), AnswerError> {
        let place = self.place(path).ok_or_else(|| missing(path))?;
        let children = children(&self.0, &place).ok_or_else(|| missing(path))?;
        let number = children.len();
        let left = children.into_iter().enumerate().filter(|(at, child)| kept(child, *at));
        let left: Vec<&str> = left.filter_map(|(_, child)| self.0.get(child.all)).collect();
        if left.len() < number {
            let inner = place.start.saturating_add(1)..place.end.saturating_sub(1);
            let text = left.join(",");
            self.0.replace_range(inner, &text);
        }
        Ok(())
    }

    /// The text of the value at a place.
    pub fn at(&self, path: &[At<'_>]) -> Option<&str> {
        self.0.get(self.place(path)?)
    }

    fn place(&self, path: &[At<'_>]) -> Option<Range<usize>> {
        let whole = Cursor::whole(self.0.as_bytes()).ok()?;
        path.iter().try_fold(whole, |place, step| {
            let mut children = children(&self.0, &place)?.into_iter();
            let child = match step {
                At::Member(name) => children.find(|child| child.name.as_deref() == Some(name)),
                At::Item(number) => children.filter(|child| child.name.is_none()).nth(*number),
            };
            child.map(|child| child.value)
        })
    }
}

fn missing(path: &[At<'_>]) -> AnswerError {
    broken(format!("an event lacks {path:?}"))
}

/// The values in the object or array that stands here.
fn children(text: &str, place: &Range<usize>) -> Option<Vec<Child>> {
    let bytes = text.as_bytes();
    if bytes.get(place.start) == Some(&b'{') {
        let members = Cursor::members(bytes, place).ok()?.into_iter();
        let child = |SentMember { name, name_at, value }| Child {
            name: Some(name),
            all: name_at.start..value.end,
            value,
        };
        return Some(members.map(child).collect());
    }
    let items = Cursor::items(bytes, place).ok()?.into_iter();
    Some(items.map(|value| Child { name: None, all: value.clone(), value }).collect())
}

#[cfg(test)]
mod tests {
    use super::At::{Item, Member};
    use super::*;

    const TEXT: &str = r#" { "a" : [1, {"b\u0062": "x\"}]"} ,null], "c":true , "d" : {} } "#;

    fn spliced(change: impl FnOnce(&mut SplicedJson)) -> String {
        let mut text = SplicedJson(TEXT.into());
        change(&mut text);
        text.0
    }

    #[test]
    fn only_the_place_is_changed() {
        let at = [Member("a"), Item(1), Member("bb")];
        assert_eq!(SplicedJson(TEXT.into()).at(&at), Some(r#""x\"}]""#));
        assert_eq!(spliced(|t| t.set(&at, "[0]").unwrap()), TEXT.replace(r#""x\"}]""#, "[0]"));
        let last = [Member("a"), Item(2)];
        assert_eq!(spliced(|t| t.set(&last, "7").unwrap()), TEXT.replace("null", "7"));
        assert_eq!(spliced(|t| t.put(&[], "c", "0").unwrap()), TEXT.replace("true", "0"));
        assert_eq!(
            spliced(|t| t.put(&[Member("d")], "e", "0").unwrap()),
            TEXT.replace("{} ", r#"{"e":0} "#)
        );
        assert_eq!(
            spliced(|t| t.put(&[], "e", "0").unwrap()),
            TEXT.replace("} } ", r#"} ,"e":0} "#)
        );
        assert_eq!(
            spliced(|t| t.keep_items(&[Member("a")], |n| n != 0).unwrap()),
            TEXT.replace(r#"[1, {"b\u0062": "x\"}]"} ,null]"#, r#"[{"b\u0062": "x\"}]"},null]"#)
        );
        assert_eq!(spliced(|t| t.remove(&[], "z").unwrap()), TEXT);
        assert_eq!(
            spliced(|t| {
                t.remove(&[], "a").unwrap();
                t.remove(&[], "d").unwrap();
            }),
            r#" {"c":true} "#
        );
    }

    #[test]
    fn a_place_that_is_not_there_is_an_error() {
        for path in
            [&[Member("b")][..], &[Item(0)], &[Member("a"), Item(3)], &[Member("c"), Item(0)]]
        {
            assert!(SplicedJson(TEXT.into()).set(path, "0").is_err(), "{path:?}");
        }
        assert!(SplicedJson(TEXT.into()).put(&[Member("c")], "x", "0").is_err());
    }
}
