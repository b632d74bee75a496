//! What the end of a text says of secrets and tokens, when a piece was added to it.

use super::{BEGINNING_MIN, Finder, TextEnd};
use crate::domain::readings::LAYERS;
use crate::domain::token;

/// Bytes of the longest escape.
const ESCAPE: usize = 10;
/// Bytes before a new piece in which something may begin with it: an escape in each layer, and the
/// shortest beginning.
pub(super) const CHANGED: usize = ESCAPE * LAYERS + BEGINNING_MIN;

/// What the end of a text says, in the readings that were looked through so far.
pub(super) struct TextSaid<'f> {
    pub finder: &'f Finder,
    /// Bytes at the end of a reading in which something begins that did not before; `None`: all.
    pub changed: Option<usize>,
    /// Bytes at the end of a reading in which something is whole that was not before; `None`: all.
    pub last: Option<usize>,
    pub end: TextEnd,
}

impl TextSaid<'_> {
    pub fn reads(&mut self, text: &str, bytes_min: usize) {
        if self.end == TextEnd::Holds {
            return;
        }
        let of = |bytes: Option<usize>| bytes.map_or(text, |bytes| end(text, bytes));
        let begins = |text: &str| {
            let changed = self.changed.map_or(text, |changed| end(text, changed));
            token::may_begin(text) || self.finder.may_begin(changed)
        };
        if self.finder.reads(of(self.last), bytes_min) {
            self.end = TextEnd::Holds;
        } else if self.end == TextEnd::Clear
            && (begins(text)
                || before_escape(text).is_some_and(begins)
                || bytes_min == 0 && token::may_begin_reversed(text))
        {
            self.end = TextEnd::Begins;
        }
    }
}

/// At least this many of a text's last bytes, from the beginning of a character.
pub(super) fn end(text: &str, bytes: usize) -> &str {
    let mut from = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(from) {
        from = from.saturating_sub(1);
    }
    text.get(from..).unwrap_or(text)
}

/// A text without what may be the beginning of an escape at its end.
fn before_escape(text: &str) -> Option<&str> {
    let at = text.rfind(['%', '\\', '&', '='])?;
    text.get(..at).filter(|before| text.len().saturating_sub(before.len()) < ESCAPE)
}
