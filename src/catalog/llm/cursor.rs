//! Where members and items stand in bytes that the strict reader has accepted: requests and answers are
//! changed at such places, and nowhere else.

use std::ops::Range;

/// The bytes are not those that were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PlaceError;

type PlaceResult<T> = Result<T, PlaceError>;

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

/// A walk over the bytes.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The place of the whole value, without the space around it.
    pub fn whole(text: &'a [u8]) -> PlaceResult<Range<usize>> {
        let mut cursor = Self { text, at: 0 };
        cursor.space();
        let whole = cursor.value()?;
        cursor.space();
        if cursor.at == text.len() { Ok(whole) } else { Err(PlaceError) }
    }

    /// The members of the object at this place.
    pub fn members(text: &'a [u8], at: &Range<usize>) -> PlaceResult<Vec<SentMember>> {
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
            let name = text.get(name_at.clone()).ok_or(PlaceError)?;
            let name: String = serde_json::from_slice(name).map_err(|_other| PlaceError)?;
            cursor.space();
            cursor.expect(b':')?;
            cursor.space();
            members.push(SentMember { name, name_at, value: cursor.value()? });
            cursor.space();
            match cursor.next()? {
                b',' => {}
                b'}' => return Ok(members),
                _ => return Err(PlaceError),
            }
        }
    }

    /// The items of the list at this place.
    pub fn items(text: &'a [u8], at: &Range<usize>) -> PlaceResult<Vec<Range<usize>>> {
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
                _ => return Err(PlaceError),
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> PlaceResult<u8> {
        let byte = self.peek().ok_or(PlaceError)?;
        self.at = self.at.saturating_add(1);
        Ok(byte)
    }

    fn expect(&mut self, byte: u8) -> PlaceResult<()> {
        if self.next()? == byte { Ok(()) } else { Err(PlaceError) }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at = self.at.saturating_add(1);
        }
    }

    fn string(&mut self) -> PlaceResult<Range<usize>> {
        let start = self.at;
        self.expect(b'"')?;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let run = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            self.at = self.at.saturating_add(run.ok_or(PlaceError)?);
            if self.next()? == b'"' {
                return Ok(start..self.at);
            }
            self.next()?;
        }
    }

    fn value(&mut self) -> PlaceResult<Range<usize>> {
        let start = self.at;
        match self.peek().ok_or(PlaceError)? {
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
        if self.at == start { Err(PlaceError) } else { Ok(start..self.at) }
    }

    /// Goes behind the object or the list here, without recursion.
    fn nested(&mut self) -> PlaceResult<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek().ok_or(PlaceError)? {
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
