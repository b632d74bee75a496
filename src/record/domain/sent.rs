//! What was sent, read once: the text of a request and what was made of it go down the road together.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::json::{self, Json, Limits};

/// A JSON text, and the value that the strict reader made of it: no other value comes with this text.
#[derive(Clone, PartialEq, Debug)]
pub struct SentJson {
    text: Arc<[u8]>,
    value: Arc<Json>,
}

impl SentJson {
    /// Reads the text.
    ///
    /// # Errors
    /// As [`Json::parse`].
    pub fn read(text: &[u8], limits: &Limits) -> Result<Self, json::Error> {
        let value = Arc::new(Json::parse(text, limits)?);
        Ok(Self { text: text.into(), value })
    }

    /// The text as it was sent.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The value.
    pub fn value(&self) -> &Json {
        &self.value
    }

    /// Both, as [`Self::into_parts`] gave them.
    pub(super) const fn of_parts(text: Arc<[u8]>, value: Arc<Json>) -> Self {
        Self { text, value }
    }

    /// Both.
    pub(super) fn into_parts(self) -> (Arc<[u8]>, Arc<Json>) {
        (self.text, self.value)
    }
}

/// What the reader of a dialect made of a request, for the executor that knows its type. Equal only to
/// itself.
#[derive(Clone)]
pub struct DialectReading(Arc<dyn Any + Send + Sync>);

impl DialectReading {
    /// Holds this reading.
    pub fn of<T: Any + Send + Sync>(reading: Arc<T>) -> Self {
        Self(reading)
    }

    /// The reading, if it has this type.
    #[must_use]
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.0).downcast().ok()
    }
}

impl PartialEq for DialectReading {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for DialectReading {}

impl fmt::Debug for DialectReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DialectReading")
    }
}

/// What identifies a message in its run: a keyed hash, so that an agent cannot construct two
/// messages with the same one.
pub type MessageKey = [u8; 16];

/// The credentials that texts are searched for: a text that is clean of one set may hold one of
/// another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SearchedFor {
    /// The set. Each set of a process has another number.
    pub set: u64,
    /// Its state: it grows when one of them changes.
    pub generation: u64,
}

/// A message of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentMessage {
    /// Its bytes in the canonical form of the request.
    pub at: Range<usize>,
    /// Its key, if the run remembers messages.
    pub key: Option<MessageKey>,
    /// The run sent it before, and it was searched then.
    pub is_searched: bool,
}

/// How a request is searched for tokens and credentials: what the run remembers, and the search itself.
pub trait RequestSearch {
    /// The key of a message, and whether it was searched for the same credentials before and is clean.
    fn remembers(&self, message: &[u8]) -> Option<(MessageKey, bool)>;

    /// Searches a JSON text for tokens and credentials. Returns what it is clean of; `None` if it holds
    /// one, or may.
    fn search(&self, json: &[u8]) -> Option<SearchedFor>;
}

/// What of these canonical bytes must be searched: everything but the messages that were searched
/// before. WHY with the neighbours of a new message: what stands on both sides of a boundary is in one
/// piece only together with both.
pub(super) fn unsearched(canonical: &[u8], messages: &[SentMessage]) -> Option<Vec<u8>> {
    let is_old = |place: Option<usize>| {
        place.and_then(|place| messages.get(place)).is_none_or(|message| message.is_searched)
    };
    let is_left_out = |place: usize| {
        is_old(place.checked_sub(1)) && is_old(Some(place)) && is_old(place.checked_add(1))
    };
    let mut out = Vec::new();
    let (mut from, mut leaves_out) = (0, false);
    for (place, message) in messages.iter().enumerate() {
        if is_left_out(place) {
            leaves_out = true;
            out.extend_from_slice(canonical.get(from..message.at.start).unwrap_or_default());
            // A value for a value: the rest is JSON as before.
            out.extend_from_slice(b"{}");
            from = message.at.end;
        }
    }
    out.extend_from_slice(canonical.get(from..).unwrap_or_default());
    leaves_out.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_were_searched_are_left_out_but_for_the_neighbours_of_new_ones() {
        let text = r#"{"a":[1,2,3,4,5],"b":6}"#;
        let of = |searched: [bool; 5]| {
            let messages: Vec<SentMessage> = (6_usize..)
                .step_by(2)
                .zip(searched)
                .map(|(at, is_searched)| SentMessage { at: at..at + 1, key: None, is_searched })
                .collect();
            unsearched(text.as_bytes(), &messages).map(|text| String::from_utf8(text).unwrap())
        };
        assert_eq!(of([false; 5]), None);
        assert_eq!(of([true, true, true, true, false]).unwrap(), r#"{"a":[{},{},{},4,5],"b":6}"#);
        assert_eq!(of([true; 5]).unwrap(), r#"{"a":[{},{},{},{},{}],"b":6}"#);
        assert_eq!(of([true, true, false, true, true]).unwrap(), r#"{"a":[{},2,3,4,{}],"b":6}"#);
        assert_eq!(of([true, false, true, true, false]).unwrap_or_default(), "");
    }
}
