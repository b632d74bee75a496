//! Where members and items stand in bytes that the strict reader has accepted.

use std::ops::Range;

use super::AskError;
use super::members::AskResult;

/// A member of an object in the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SentMember {
    /// Its name, without escapes.
    pub name: String,
    /// The name with its quotes.
    pub name_at: Range<usize>,
    /// The value.
    pub value: Range<usize>,
}

/// A walk over the bytes of a request.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The place of the whole value, without the space around it.
    pub fn whole(text: &'a [u8]) -> AskResult<Range<usize>> {
        let mut cursor = Self { text, at: 0 };
        cursor.space();
        let whole = cursor.value()?;
        cursor.space();
        if cursor.at == text.len() { Ok(whole) } else { Err(AskError::Sent) }
    }

    /// The members of the object at this place.
    pub fn members(text: &'a [u8], at: &Range<usize>) -> AskResult<Vec<SentMember>> {
        let mut cursor = Self { text, at: at.start };
        let mut members = Vec::new();
        cursor.expect(b'{')?;
        cursor.space();
        if cursor.peek() == Some(b'}') {
            return Ok(members);
        }
        loop {
            cursor.space();
            let name_at = cursor.string()?;
            let name = text.get(name_at.clone()).ok_or(AskError::Sent)?;
            let name: String = serde_json::from_slice(name).map_err(|_other| AskError::Sent)?;
            cursor.space();
            cursor.expect(b':')?;
            cursor.space();
            members.push(SentMember { name, name_at, value: cursor.value()? });
            cursor.space();
            match cursor.next()? {
                b',' => {}
                b'}' => return Ok(members),
                _ => return Err(AskError::Sent),
            }
        }
    }

    /// The items of the list at this place.
    pub fn items(text: &'a [u8], at: &Range<usize>) -> AskResult<Vec<Range<usize>>> {
        let mut cursor = Self { text, at: at.start };
        let mut items = Vec::new();
        cursor.expect(b'[')?;
        cursor.space();
        if cursor.peek() == Some(b']') {
            return Ok(items);
        }
        loop {
            cursor.space();
            items.push(cursor.value()?);
            cursor.space();
            match cursor.next()? {
                b',' => {}
                b']' => return Ok(items),
                _ => return Err(AskError::Sent),
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> AskResult<u8> {
        let byte = self.peek().ok_or(AskError::Sent)?;
        self.at = self.at.saturating_add(1);
        Ok(byte)
    }

    fn expect(&mut self, byte: u8) -> AskResult<()> {
        if self.next()? == byte { Ok(()) } else { Err(AskError::Sent) }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at = self.at.saturating_add(1);
        }
    }

    fn string(&mut self) -> AskResult<Range<usize>> {
        let start = self.at;
        self.expect(b'"')?;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let run = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            self.at = self.at.saturating_add(run.ok_or(AskError::Sent)?);
            if self.next()? == b'"' {
                return Ok(start..self.at);
            }
            self.next()?;
        }
    }

    fn value(&mut self) -> AskResult<Range<usize>> {
        let start = self.at;
        match self.peek().ok_or(AskError::Sent)? {
            b'"' => return self.string(),
            b'{' | b'[' => self.nested()?,
            _literal => {
                let ends =
                    |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
                let rest = self.text.get(start..).unwrap_or_default();
                let length = rest.iter().position(ends).unwrap_or(rest.len());
                self.at = start.saturating_add(length);
            }
        }
        if self.at == start { Err(AskError::Sent) } else { Ok(start..self.at) }
    }

    /// Goes behind the object or the list here, without recursion.
    fn nested(&mut self) -> AskResult<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek().ok_or(AskError::Sent)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth = depth.saturating_add(1),
                b'}' | b']' => depth = depth.saturating_sub(1),
                _other => {}
            }
            self.at = self.at.saturating_add(1);
            if depth == 0 {
                return Ok(());
            }
        }
    }
}
