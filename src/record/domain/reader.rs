//! The strict pass itself: see `json` for what it refuses and why.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::json::{Error, INT_MAX, Json, Limits};

/// Whether a text is the canonical form of its value (RFC 8785).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Spelling {
    /// It is.
    Canonical,
    /// Only writing the value again can decide: it has floats, or names that UTF-16 may sort
    /// differently.
    Unsure,
    /// It is not.
    Other,
}

/// The place of a member in the text: the name with its quotes, and the value.
pub(super) type Span = (Range<usize>, Range<usize>);

/// The result of reading one text.
pub(super) struct Read {
    /// The document.
    pub value: Json,
    /// Its spelling.
    pub spelling: Spelling,
    /// Its members in the order of the text, if it is an object.
    pub members: Vec<Span>,
}

/// One pass over one text.
pub(super) struct JsonReader<'a> {
    source: &'a str,
    text: &'a [u8],
    spelling: Spelling,
    members: Vec<Span>,
    at: usize,
    values: usize,
    limits: &'a Limits,
}

impl<'a> JsonReader<'a> {
    /// Reads the one document of this text, with its spelling.
    pub(super) fn read(text: &'a str, limits: &'a Limits) -> Result<Read, Error> {
        let (source, text) = (text, text.as_bytes());
        let (spelling, members) = (Spelling::Canonical, Vec::new());
        let mut reader = Self { source, text, spelling, members, at: 0, values: 0, limits };
        reader.space();
        let value = reader.value(0)?;
        reader.space();
        if reader.at < reader.text.len() {
            return Err(reader.error("json.trailing_data", "data after the document"));
        }
        let Self { spelling, members, .. } = reader;
        Ok(Read { value, spelling, members })
    }

    fn error(&self, code: &'static str, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), offset: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at = self.at.saturating_add(1);
        Some(byte)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at = self.at.saturating_add(1);
            self.spelling = Spelling::Other;
        }
    }

    fn unsure(&mut self) {
        if self.spelling == Spelling::Canonical {
            self.spelling = Spelling::Unsure;
        }
    }

    fn count(&mut self) -> Result<(), Error> {
        self.values = self.values.saturating_add(1);
        if self.values > self.limits.values_max {
            let most = self.limits.values_max;
            return Err(self.error("json.count", format!("more than {most} values")));
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Json, Error> {
        self.count()?;
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Json::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Json::Bool(true)),
            Some(b'f') => self.literal("false", Json::Bool(false)),
            Some(b'n') => self.literal("null", Json::Null),
            Some(_) => Err(self.error("json.syntax", "expected a value")),
            None => Err(self.error("json.syntax", "the document ends too early")),
        }
    }

    fn literal(&mut self, literal: &str, value: Json) -> Result<Json, Error> {
        let end = self.at.saturating_add(literal.len());
        if self.text.get(self.at..end) != Some(literal.as_bytes()) {
            return Err(self.error("json.syntax", format!("expected `{literal}`")));
        }
        self.at = end;
        Ok(value)
    }

    fn deeper(&self, depth: usize) -> Result<usize, Error> {
        let deeper = depth.saturating_add(1);
        if deeper > self.limits.depth_max {
            let most = self.limits.depth_max;
            return Err(self.error("json.depth", format!("nested deeper than {most} levels")));
        }
        Ok(deeper)
    }

    fn array(&mut self, depth: usize) -> Result<Json, Error> {
        let depth = self.deeper(depth)?;
        self.next();
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.next();
            return Ok(Json::Array(items));
        }
        loop {
            self.space();
            items.push(self.value(depth)?);
            self.space();
            match self.next() {
                Some(b',') => {}
                Some(b']') => return Ok(Json::Array(items)),
                _ => return Err(self.error("json.syntax", "expected `,` or `]`")),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, Error> {
        let depth = self.deeper(depth)?;
        self.next();
        let mut members = BTreeMap::new();
        let mut folded = BTreeSet::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.next();
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            let from = self.at;
            let name = self.name(&members, &mut folded)?;
            let named = from..self.at;
            self.space();
            if self.next() != Some(b':') {
                return Err(self.error("json.syntax", "expected `:`"));
            }
            self.space();
            let from = self.at;
            let value = self.value(depth)?;
            if depth == 1 {
                self.members.push((named, from..self.at));
            }
            members.insert(name, value);
            self.space();
            match self.next() {
                Some(b',') => {}
                Some(b'}') => return Ok(Json::Object(members)),
                _ => return Err(self.error("json.syntax", "expected `,` or `}`")),
            }
        }
    }

    /// Reads a member name; refuses one that another parser would merge with an earlier one.
    fn name(
        &mut self,
        members: &BTreeMap<String, Json>,
        folded: &mut BTreeSet<String>,
    ) -> Result<String, Error> {
        self.count()?;
        let start = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.error("json.syntax", "expected a member name"));
        }
        let name = self.string()?;
        let at_name = |code, message: String| Error { code, message, offset: start };
        if name.len() > self.limits.key_bytes_max {
            let most = self.limits.key_bytes_max;
            return Err(at_name("json.key_size", format!("a member name over {most} bytes")));
        }
        let follows = members.last_key_value().is_none_or(|(last, _)| *last < name);
        if !name.is_ascii() {
            self.unsure();
        } else if !follows {
            self.spelling = Spelling::Other;
        }
        if !follows && members.contains_key(&name) {
            return Err(at_name("json.duplicate_key", format!("`{name}` twice")));
        }
        // Go's decoder and others match names without regard to case. A name that is its own folded form
        // is among the members; the folded forms of all others are kept beside them.
        let own = name.is_ascii() && !name.bytes().any(|byte| byte.is_ascii_uppercase());
        let is_duplicate = if own {
            folded.contains(&name)
        } else {
            let form = fold(&name);
            (form.is_ascii() && members.contains_key(&form)) || !folded.insert(form)
        };
        if is_duplicate {
            let message = format!("`{name}` differs from another name only by case");
            return Err(at_name("json.duplicate_key", message));
        }
        Ok(name)
    }

    fn string(&mut self) -> Result<String, Error> {
        self.next();
        let mut out = String::new();
        loop {
            let start = self.at;
            let rest = self.text.get(start..).unwrap_or_default();
            let run = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1F));
            self.at = start.saturating_add(run.unwrap_or(rest.len()));
            // INVARIANT: the text is UTF-8 and a run begins and ends at ASCII, so the run is UTF-8.
            let plain = self.source.get(start..self.at);
            let plain = plain.ok_or_else(|| self.error("json.utf8", "not UTF-8"))?;
            match self.next() {
                Some(b'"') if out.is_empty() => return Ok(plain.to_owned()),
                Some(b'"') => {
                    out.push_str(plain);
                    return Ok(out);
                }
                Some(b'\\') => {
                    out.push_str(plain);
                    out.push(self.escape()?);
                }
                Some(_) => return Err(self.error("json.syntax", "a control character in a string")),
                None => return Err(self.error("json.syntax", "a string is not closed")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Error> {
        match self.next() {
            Some(b'"') => Ok('"'),
            Some(b'\\') => Ok('\\'),
            Some(b'/') => {
                self.spelling = Spelling::Other;
                Ok('/')
            }
            Some(b'b') => Ok('\u{8}'),
            Some(b'f') => Ok('\u{c}'),
            Some(b'n') => Ok('\n'),
            Some(b'r') => Ok('\r'),
            Some(b't') => Ok('\t'),
            Some(b'u') => self.unicode(),
            _ => Err(self.error("json.syntax", "an unknown escape")),
        }
    }

    fn unicode(&mut self) -> Result<char, Error> {
        let start = self.at;
        let first = self.hex4()?;
        // Canonical form uses this escape only if there is no shorter one, and in lower case.
        let digits = self.text.get(start..self.at).unwrap_or_default();
        let short = matches!(first, 8 | 9 | 10 | 12 | 13);
        if first > 0x1F || short || digits.iter().any(u8::is_ascii_uppercase) {
            self.spelling = Spelling::Other;
        }
        let lone_surrogate =
            |reader: &Self| reader.error("json.lone_surrogate", "half a surrogate pair");
        match first {
            0xD800..=0xDBFF => {
                if self.next() != Some(b'\\') || self.next() != Some(b'u') {
                    return Err(lone_surrogate(self));
                }
                let second = self.hex4()?;
                if !(0xDC00..=0xDFFF).contains(&second) {
                    return Err(lone_surrogate(self));
                }
                let high = (first & 0x3FF) << 10;
                char::from_u32((high | (second & 0x3FF)).saturating_add(0x1_0000))
                    .ok_or_else(|| lone_surrogate(self))
            }
            _ => char::from_u32(first).ok_or_else(|| lone_surrogate(self)),
        }
    }

    fn hex4(&mut self) -> Result<u32, Error> {
        let mut code = 0_u32;
        for _ in 0..4 {
            let digit = self.next().and_then(|b| char::from(b).to_digit(16));
            let digit =
                digit.ok_or_else(|| self.error("json.syntax", "expected four hex digits"))?;
            code = (code << 4) | digit;
        }
        Ok(code)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at = self.at.saturating_add(1);
        }
        self.at.saturating_sub(start)
    }

    fn number(&mut self) -> Result<Json, Error> {
        let start = self.at;
        let malformed = |reader: &Self| reader.error("json.syntax", "not a JSON number");
        if self.peek() == Some(b'-') {
            self.next();
        }
        let leading_zero = self.peek() == Some(b'0');
        let whole = self.digits();
        if whole == 0 || (leading_zero && whole > 1) {
            return Err(malformed(self));
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            integer = false;
            self.next();
            if self.digits() == 0 {
                return Err(malformed(self));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            integer = false;
            self.next();
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.next();
            }
            if self.digits() == 0 {
                return Err(malformed(self));
            }
        }
        let source = self.source;
        let literal = source.get(start..self.at).ok_or_else(|| malformed(self))?;
        self.number_of(literal, integer)
    }

    fn number_of(&mut self, literal: &str, integer: bool) -> Result<Json, Error> {
        if !integer {
            self.unsure();
        }
        let range = || {
            self.error(
                "json.int_out_of_range",
                format!("`{}` is beyond ±(2^53 − 1)", clip(literal)),
            )
        };
        if integer {
            if literal == "-0" {
                return Err(self.error("json.negative_zero", "`-0` reads as two different values"));
            }
            let number: i64 = literal.parse().map_err(|_| range())?;
            return if number.unsigned_abs() > INT_MAX.unsigned_abs() {
                Err(range())
            } else {
                Ok(Json::Int(number))
            };
        }
        let number: f64 = literal.parse().map_err(|_| range())?;
        if !number.is_finite() {
            return Err(self.error(
                "json.number_range",
                format!("`{}` is not a finite double", clip(literal)),
            ));
        }
        if number == 0.0 && number.is_sign_negative() {
            return Err(self.error("json.negative_zero", "`-0` reads as two different values"));
        }
        // An integer beyond 2^53 written as 1e300 is a float to some readers and an integer to others.
        if number.fract() == 0.0 && number.abs() > 9_007_199_254_740_991.0 {
            return Err(range());
        }
        Ok(Json::Float(number))
    }
}

fn clip(literal: &str) -> &str {
    literal.get(..32).unwrap_or(literal)
}

/// Simple case folding, by which case-insensitive readers compare names.
fn fold(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    // Upper then lower also merges letters such as `ſ` with `s` and the Kelvin sign with `k`.
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}
