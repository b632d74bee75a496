//! The strict JSON reader: one pass of our own, before anything else sees the bytes.
//!
//! Parsers disagree about duplicate keys, big integers, byte-order marks and trailing bytes, and a
//! gate that reads one value while the tool reads another is no gate. So everything two parsers
//! could read differently is refused here (RFC 8259, RFC 7493), with a stable detail code.

use std::collections::{BTreeMap, BTreeSet};

/// A JSON value that every conforming parser reads the same way.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer within ±(2^53 − 1) (RFC 7493 §2.2).
    Int(i64),
    /// A finite number written with a fraction or an exponent. Never `-0`.
    Float(f64),
    /// A string of Unicode scalar values.
    String(String),
    /// An ordered list.
    Array(Vec<Json>),
    /// Members by name; no two names equal, nor equal under case folding.
    Object(BTreeMap<String, Json>),
}

/// Largest integer magnitude that every IEEE 754 reader keeps exact: 2^53 − 1.
pub const INT_MAX: i64 = 9_007_199_254_740_991;

/// What one document may weigh.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the whole text.
    pub bytes_max: usize,
    /// Nested arrays and objects.
    pub depth_max: usize,
    /// Values and member names together.
    pub values_max: usize,
    /// Bytes of one member name, after unescaping.
    pub key_bytes_max: usize,
}

impl Limits {
    /// The limits of tool arguments: 1 MiB, 32 levels, 65,536 values, names of 256 bytes.
    pub const ARGUMENTS: Self =
        Self { bytes_max: 1 << 20, depth_max: 32, values_max: 65_536, key_bytes_max: 256 };
    /// The limits of a ledger entry: 65,535 bytes and 16 levels (the profile itself allows 6).
    pub const ENTRY: Self =
        Self { bytes_max: 65_535, depth_max: 16, values_max: 16_384, key_bytes_max: 128 };
    /// The limits of a file we wrote ourselves (bundle members, envelopes): 256 MiB.
    pub const FILE: Self =
        Self { bytes_max: 1 << 28, depth_max: 64, values_max: 1 << 24, key_bytes_max: 1024 };
}

/// Why a text was refused. `code` is part of the contract (`detail` of `request.malformed`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message} at byte {offset}")]
pub struct Error {
    /// Stable dotted code: `json.duplicate_key`, `json.depth`, …
    pub code: &'static str,
    /// What is wrong, for a person.
    pub message: String,
    /// Where in the text, counted in bytes from 0.
    pub offset: usize,
}

impl Json {
    /// Reads one strict document.
    ///
    /// # Errors
    /// The first thing wrong with the text, with its stable code and place.
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Self, Error> {
        if text.len() > limits.bytes_max {
            let message =
                format!("{} bytes, at most {} are accepted", text.len(), limits.bytes_max);
            return Err(Error { code: "json.size", message, offset: limits.bytes_max });
        }
        if text.starts_with(&[0xEF, 0xBB, 0xBF]) {
            return Err(Error { code: "json.bom", message: "byte order mark".into(), offset: 0 });
        }
        let text = std::str::from_utf8(text).map_err(|e| Error {
            code: "json.utf8",
            message: "not UTF-8".into(),
            offset: e.valid_up_to(),
        })?;
        let mut reader = Reader { text: text.as_bytes(), at: 0, values: 0, limits };
        reader.space();
        let value = reader.value(0)?;
        reader.space();
        if reader.at < reader.text.len() {
            return Err(reader.error("json.trailing_data", "data after the document"));
        }
        Ok(value)
    }

    /// The member of this name, if this is an object that has it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.get(name),
            Self::Null
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Float(_)
            | Self::String(_)
            | Self::Array(_) => None,
        }
    }

    /// The text, if this is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The number, if this is an integer.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        if let Self::Int(number) = self { Some(*number) } else { None }
    }

    /// The number, if this is an integer that is not negative.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        self.as_int().and_then(|n| u64::try_from(n).ok())
    }

    /// The truth value, if this is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(truth) = self { Some(*truth) } else { None }
    }

    /// The items, if this is an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// The members, if this is an object.
    #[must_use]
    pub fn as_object(&self) -> Option<&BTreeMap<String, Self>> {
        if let Self::Object(members) = self { Some(members) } else { None }
    }

    /// An object of these members.
    pub fn object<K: Into<String>>(members: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Object(members.into_iter().map(|(k, v)| (k.into(), v)).collect())
    }

    /// The same value for libraries that speak `serde_json`.
    #[must_use]
    pub fn to_serde(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(b) => (*b).into(),
            Self::Int(n) => (*n).into(),
            Self::Float(n) => {
                serde_json::Number::from_f64(*n).map_or(serde_json::Value::Null, Into::into)
            }
            Self::String(s) => s.as_str().into(),
            Self::Array(items) => items.iter().map(Self::to_serde).collect(),
            Self::Object(members) => serde_json::Value::Object(
                members.iter().map(|(k, v)| (k.clone(), v.to_serde())).collect(),
            ),
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Json {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<u64> for Json {
    /// Saturates at 2^53 − 1: no counter of ours gets there.
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).map_or(INT_MAX, |n| n.min(INT_MAX)))
    }
}

impl From<Vec<Self>> for Json {
    fn from(items: Vec<Self>) -> Self {
        Self::Array(items)
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    values: usize,
    limits: &'a Limits,
}

impl Reader<'_> {
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

    fn literal(&mut self, word: &str, value: Json) -> Result<Json, Error> {
        let end = self.at.saturating_add(word.len());
        if self.text.get(self.at..end) != Some(word.as_bytes()) {
            return Err(self.error("json.syntax", format!("expected `{word}`")));
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
            let name = self.name(&members, &mut folded)?;
            self.space();
            if self.next() != Some(b':') {
                return Err(self.error("json.syntax", "expected `:`"));
            }
            self.space();
            let value = self.value(depth)?;
            members.insert(name, value);
            self.space();
            match self.next() {
                Some(b',') => {}
                Some(b'}') => return Ok(Json::Object(members)),
                _ => return Err(self.error("json.syntax", "expected `,` or `}`")),
            }
        }
    }

    /// Reads a member name and refuses one that some parser would merge with an earlier one.
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
        if members.contains_key(&name) {
            return Err(at_name("json.duplicate_key", format!("`{name}` twice")));
        }
        // Go's decoder and others match names without regard to case.
        if !folded.insert(fold(&name)) {
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
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..=0x1F)) {
                self.at = self.at.saturating_add(1);
            }
            let plain = self.text.get(start..self.at).unwrap_or_default();
            // INVARIANT: the text is UTF-8 and a run ends at ASCII, so the run is UTF-8.
            out.push_str(
                std::str::from_utf8(plain).map_err(|_| self.error("json.utf8", "not UTF-8"))?,
            );
            match self.next() {
                Some(b'"') => return Ok(out),
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return Err(self.error("json.syntax", "a control character in a string")),
                None => return Err(self.error("json.syntax", "a string is not closed")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Error> {
        match self.next() {
            Some(b'"') => Ok('"'),
            Some(b'\\') => Ok('\\'),
            Some(b'/') => Ok('/'),
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
        let first = self.hex4()?;
        let lone = |reader: &Self| reader.error("json.lone_surrogate", "half a surrogate pair");
        match first {
            0xD800..=0xDBFF => {
                if self.next() != Some(b'\\') || self.next() != Some(b'u') {
                    return Err(lone(self));
                }
                let second = self.hex4()?;
                if !(0xDC00..=0xDFFF).contains(&second) {
                    return Err(lone(self));
                }
                let high = (first & 0x3FF) << 10;
                char::from_u32((high | (second & 0x3FF)).saturating_add(0x1_0000))
                    .ok_or_else(|| lone(self))
            }
            _ => char::from_u32(first).ok_or_else(|| lone(self)),
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
        let bad = |reader: &Self| reader.error("json.syntax", "not a JSON number");
        if self.peek() == Some(b'-') {
            self.next();
        }
        let leading_zero = self.peek() == Some(b'0');
        let whole = self.digits();
        if whole == 0 || (leading_zero && whole > 1) {
            return Err(bad(self));
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            integer = false;
            self.next();
            if self.digits() == 0 {
                return Err(bad(self));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            integer = false;
            self.next();
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.next();
            }
            if self.digits() == 0 {
                return Err(bad(self));
            }
        }
        let literal = self.text.get(start..self.at).unwrap_or_default();
        let literal = std::str::from_utf8(literal).map_err(|_| bad(self))?;
        self.number_of(literal, integer)
    }

    fn number_of(&self, literal: &str, integer: bool) -> Result<Json, Error> {
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

/// Simple case folding: what readers that ignore case compare names by.
fn fold(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    // Upper then lower also merges letters such as `ſ` with `s` and the Kelvin sign with `k`.
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> &'static str {
        Json::parse(text.as_bytes(), &Limits::ARGUMENTS).map_or_else(|e| e.code, |_| "ok")
    }

    #[test]
    fn what_two_parsers_could_read_differently_is_refused() {
        let cases = [
            (r#"{"a":1,"a":2}"#, "json.duplicate_key"),
            (r#"{"path":1,"p\u0061th":2}"#, "json.duplicate_key"),
            (r#"{"path":1,"Path":2}"#, "json.duplicate_key"),
            ("{\"s\":1,\"ſ\":2}", "json.duplicate_key"),
            (r#"{"a":NaN}"#, "json.syntax"),
            (r#"{"a":18446744073709551616}"#, "json.int_out_of_range"),
            (r#"{"a":9007199254740992}"#, "json.int_out_of_range"),
            (r#"{"a":9007199254740991}"#, "ok"),
            (r#"{"a":1e300}"#, "json.int_out_of_range"),
            (r#"{"a":1e400}"#, "json.number_range"),
            (r#"{"a":-0}"#, "json.negative_zero"),
            (r#"{"a":-0.0}"#, "json.negative_zero"),
            (r#"{"a":01}"#, "json.syntax"),
            (r#"{"a":"\ud800x"}"#, "json.lone_surrogate"),
            (r#"{"a":"\ud83d\ude00"}"#, "ok"),
            ("\u{feff}{}", "json.bom"),
            ("{} {}", "json.trailing_data"),
            ("{}/* */", "json.trailing_data"),
            ("", "json.syntax"),
            ("[1,]", "json.syntax"),
            ("{\"a\":\"\t\"}", "json.syntax"),
        ];
        for (text, expected) in cases {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    #[test]
    fn two_hundred_nested_arrays_and_a_hundred_thousand_are_refused_without_recursion() {
        for depth in [33, 200, 100_000] {
            let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(code(&text), "json.depth");
        }
        let text = format!("{}{}", "[".repeat(32), "]".repeat(32));
        assert_eq!(code(&text), "ok");
    }

    #[test]
    fn one_byte_over_the_size_is_refused_before_parsing() {
        let text = format!("\"{}\"", "x".repeat((1 << 20) - 1));
        assert_eq!(code(&text), "json.size");
        assert_eq!(Json::parse(b"\xff", &Limits::ARGUMENTS).unwrap_err().code, "json.utf8");
    }

    #[test]
    fn too_many_values_are_refused() {
        let text = format!("[{}1]", "1,".repeat(70_000));
        assert_eq!(code(&text), "json.count");
    }
}
