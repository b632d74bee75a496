//! The one canonical form (RFC 8785) of everything that is hashed, signed or compared.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Range;

use super::json::{self, Json, Limits};
use super::reader::{Read, Spelling};

/// The canonical bytes of a value: members sorted by UTF-16 code units, no space, shortest numbers.
pub fn bytes(value: &Json) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    put(value, &mut out);
    out
}

/// The canonical bytes of an object, and where in them the items of its member `list` stand: none if
/// that is no list.
pub fn bytes_with_items(value: &Json, list: &str) -> (Vec<u8>, Vec<Range<usize>>) {
    let (mut out, mut places) = (Vec::with_capacity(256), Vec::new());
    match (value, value.get(list)) {
        (Json::Object(members), Some(Json::Array(items))) => {
            out.push(b'{');
            members_of(members, &mut out, |member, out| {
                if !member.as_array().is_some_and(|list| std::ptr::eq(list, items.as_slice())) {
                    return put(member, out);
                }
                out.push(b'[');
                for item in items {
                    if !places.is_empty() {
                        out.push(b',');
                    }
                    let start = out.len();
                    put(item, out);
                    places.push(start..out.len());
                }
                out.push(b']');
            });
            out.push(b'}');
        }
        (_, _) => put(value, &mut out),
    }
    (out, places)
}

/// The canonical text of a value.
pub fn text(value: &Json) -> String {
    // INVARIANT: `write` only emits whole `str` pieces, so this never loses a byte.
    String::from_utf8(bytes(value)).unwrap_or_default()
}

/// Reads a strict document in canonical form; `None` if it is in another form.
///
/// The form is checked while the text is read, which costs far less than writing it again.
///
/// # Errors
/// As `Json::parse`.
pub fn read(text: &[u8], limits: &Limits) -> Result<Option<Json>, json::Error> {
    let Read { value, spelling, .. } = Json::parse_telling(text, limits)?;
    let same = match spelling {
        Spelling::Canonical => true,
        Spelling::Other => false,
        Spelling::Unsure => bytes(&value) == text,
    };
    Ok(same.then_some(value))
}

/// Name and value of a member, each in canonical form.
pub type MemberBytes<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// Reads a strict document, and its members sorted by name if it is an object. Members of a
/// canonical text are slices of it, and are not written again.
///
/// # Errors
/// As `Json::parse`.
pub fn members<'a>(
    text: &'a [u8],
    limits: &Limits,
) -> Result<(Json, Vec<MemberBytes<'a>>), json::Error> {
    let Read { value, spelling, members } = Json::parse_telling(text, limits)?;
    let members = match (&value, spelling) {
        (_, Spelling::Canonical) => {
            let part = |span| Cow::from(text.get(span).unwrap_or_default());
            members.into_iter().map(|(name, value)| (part(name), part(value))).collect()
        }
        (Json::Object(members), Spelling::Unsure | Spelling::Other) => {
            let written = |(name, value): (&String, &Json)| {
                let mut quoted = Vec::new();
                string(name, &mut quoted);
                (Cow::from(quoted), Cow::from(bytes(value)))
            };
            members.iter().map(written).collect()
        }
        (_, Spelling::Unsure | Spelling::Other) => Vec::new(),
    };
    Ok((value, members))
}

/// One object written member by member, without building it first.
///
/// Names are ASCII and come in ascending order: that is the canonical order.
#[derive(Debug)]
pub struct Members {
    out: Vec<u8>,
    last: &'static str,
}

impl Members {
    /// An object without members yet; `bytes` is about how long it will be.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut out = Vec::with_capacity(bytes);
        out.push(b'{');
        Self { out, last: "" }
    }

    /// The next member.
    pub fn put(&mut self, name: &'static str, value: &Json) {
        self.name(name);
        put(value, &mut self.out);
    }

    /// The next member, a string.
    pub fn text(&mut self, name: &'static str, text: &str) {
        self.name(name);
        string(text, &mut self.out);
    }

    /// The next member, a value that is in canonical form already.
    pub fn written(&mut self, name: &'static str, canonical: &[u8]) {
        self.name(name);
        self.out.extend_from_slice(canonical);
    }

    /// The next member, an object.
    pub fn object(&mut self, name: &'static str, fill: impl FnOnce(&mut Self)) {
        self.name(name);
        self.inner(fill);
    }

    /// The next member, a list of objects.
    pub fn list<T>(
        &mut self,
        name: &'static str,
        items: impl IntoIterator<Item = T>,
        mut fill: impl FnMut(&mut Self, T),
    ) {
        self.name(name);
        self.out.push(b'[');
        for (number, item) in items.into_iter().enumerate() {
            if number > 0 {
                self.out.push(b',');
            }
            self.inner(|inner| fill(inner, item));
        }
        self.out.push(b']');
    }

    /// The next member, texts by name.
    pub fn texts(&mut self, name: &'static str, texts: &BTreeMap<String, String>) {
        self.name(name);
        self.out.push(b'{');
        members_of(texts, &mut self.out, |text, out| string(text, out));
        self.out.push(b'}');
    }

    fn inner(&mut self, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self { out: std::mem::take(&mut self.out), last: "" };
        inner.out.push(b'{');
        fill(&mut inner);
        self.out = inner.finish();
    }

    fn name(&mut self, name: &'static str) {
        debug_assert!(name.is_ascii() && self.last < name, "`{name}` after `{}`", self.last);
        if !self.last.is_empty() {
            self.out.push(b',');
        }
        self.last = name;
        string(name, &mut self.out);
        self.out.push(b':');
    }

    /// The canonical bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.out.push(b'}');
        self.out
    }
}

fn put(value: &Json, out: &mut Vec<u8>) {
    match value {
        Json::Null => out.extend_from_slice(b"null"),
        Json::Bool(true) => out.extend_from_slice(b"true"),
        Json::Bool(false) => out.extend_from_slice(b"false"),
        // Writing to memory does not fail.
        Json::Int(n) => drop(write!(out, "{n}")),
        // ECMAScript Number::toString, as RFC 8785 §3.2.2.3 asks.
        Json::Float(n) => {
            out.extend_from_slice(ryu_js::Buffer::new().format_finite(*n).as_bytes());
        }
        Json::String(s) => string(s, out),
        Json::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                put(item, out);
            }
            out.push(b']');
        }
        Json::Object(members) => {
            out.push(b'{');
            members_of(members, out, put);
            out.push(b'}');
        }
    }
}

/// The members of an object in canonical order.
fn members_of<T>(
    members: &BTreeMap<String, T>,
    out: &mut Vec<u8>,
    mut write: impl FnMut(&T, &mut Vec<u8>),
) {
    let mut one = |first: bool, (name, value): (&String, &T)| {
        if !first {
            out.push(b',');
        }
        string(name, out);
        out.push(b':');
        write(value, out);
    };
    // `BTreeMap` sorts by code point, which is UTF-16 order unless a name leaves the BMP's lower
    // part: surrogates (D800–DFFF) sort below E000–FFFF.
    let is_late = |name: &String| !name.is_ascii() && name.chars().any(|c| c >= '\u{E000}');
    if members.keys().any(is_late) {
        let mut sorted: Vec<_> = members.iter().collect();
        sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
        sorted.into_iter().enumerate().for_each(|(number, member)| one(number == 0, member));
    } else {
        members.iter().enumerate().for_each(|(number, member)| one(number == 0, member));
    }
}

fn string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len().saturating_add(2));
    out.push(b'"');
    let mut rest = text.as_bytes();
    // Whole runs that need no escape at once: nearly every byte is in one.
    while let Some(at) = rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0x00..=0x1F)) {
        let (run, after) = rest.split_at(at);
        out.extend_from_slice(run);
        if let Some((byte, after)) = after.split_first() {
            escaped(*byte, out);
            rest = after;
        }
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn escaped(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        0x08 => out.extend_from_slice(b"\\b"),
        0x09 => out.extend_from_slice(b"\\t"),
        0x0A => out.extend_from_slice(b"\\n"),
        0x0C => out.extend_from_slice(b"\\f"),
        0x0D => out.extend_from_slice(b"\\r"),
        _ => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Limits;
    use proptest::prelude::*;

    #[test]
    fn the_items_of_a_list_stand_where_it_is_said() {
        let json = |text: &str| Json::parse(text.as_bytes(), &Limits::ARGUMENTS).unwrap();
        let value = json(r#"{"z":[1],"m":[{"b":1,"a":"é"},[],"x"],"a":[9]}"#);
        let (written, places) = bytes_with_items(&value, "m");
        assert_eq!(written, bytes(&value));
        let parts: Vec<_> = places.iter().map(|at| written.get(at.clone()).unwrap()).collect();
        assert_eq!(parts, [r#"{"a":"é","b":1}"#.as_bytes(), b"[]", b"\"x\""]);
        for list in ["n", "b"] {
            assert_eq!(bytes_with_items(&value, list), (bytes(&value), Vec::new()));
        }
        assert_eq!(bytes_with_items(&json(r#"{"m":[]}"#), "m"), (br#"{"m":[]}"#.to_vec(), vec![]));
        assert_eq!(bytes_with_items(&json("5"), "m"), (b"5".to_vec(), vec![]));
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::Bool),
            (-json::INT_MAX..=json::INT_MAX).prop_map(Json::Int),
            (-1.0e9_f64..1.0e9).prop_filter("fraction", |n| n.fract() != 0.0).prop_map(Json::Float),
            any::<String>().prop_map(Json::String),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Json::Array),
                prop::collection::btree_map("[a-z\u{e000}-\u{ffff}😀]{1,6}", inner, 0..8)
                    .prop_map(Json::Object),
            ]
        })
    }

    #[test]
    fn every_way_to_write_a_value_but_one_is_not_canonical() {
        for (text, canonical) in [
            ("{}", true),
            (" {}", false),
            ("{} ", false),
            ("[1, 2]", false),
            ("[1,2]", true),
            (r#"{"a":1,"b":2}"#, true),
            (r#"{"b":1,"a":2}"#, false),
            (r#"{"a" :1}"#, false),
            (r#"{"a":{"d":1,"c":2}}"#, false),
            (r#"{"":1,"a":2}"#, true),
            (r#""\n\u000b\u001f\"\\""#, true),
            (r#""\u000B""#, false),
            (r#""\u000a""#, false),
            (r#""\u0041""#, false),
            (r#""\/""#, false),
            (r#""\u00e9""#, false),
            ("1.5", true),
            ("1.50", false),
            ("1.0", false),
            ("1e2", false),
            ("1e-7", true),
            // In UTF-16 the first of these names sorts before the second, in UTF-8 after it.
            ("{\"\u{10000}\":1,\"\u{e000}\":2}", true),
            ("{\"\u{e000}\":1,\"\u{10000}\":2}", false),
            ("{\"\\u0061\":1}", false),
        ] {
            let read = read(text.as_bytes(), &Limits::FILE).unwrap();
            assert_eq!(read.is_some(), canonical, "{text}");
        }
    }

    #[test]
    fn members_are_the_same_however_the_document_is_spelled() {
        let (one, other) =
            (r#"{"a":[1,{"b":2}],"é":"x\n"}"#, r#" {"\u00e9" : "x\u000a", "a": [1, {"b": 2}]}"#);
        let plain = r#"{"a":[1,{"b":2}],"e":null}"#;
        let of = |text: &'static str| members(text.as_bytes(), &Limits::FILE).unwrap();
        assert_eq!(of(one), of(other));
        let (json, parts) = of(plain);
        assert_eq!(bytes(&json), plain.as_bytes());
        let [(a, first), (e, second)] = parts.as_slice() else { panic!("{parts:?}") };
        assert_eq!((a.as_ref(), first.as_ref()), (&b"\"a\""[..], &br#"[1,{"b":2}]"#[..]));
        assert_eq!((e.as_ref(), second.as_ref()), (&b"\"e\""[..], &b"null"[..]));
        assert!(matches!(first, Cow::Borrowed(_)), "nothing was written again");
        assert!(of("[1]").1.is_empty() && of("{}").1.is_empty() && of(r#"[{"a":1}]"#).1.is_empty());
    }

    proptest! {
        #[test]
        fn members_written_and_members_cut_out_are_the_same(value in any_json()) {
            let canonical = bytes(&value);
            let spaced = [b" ", canonical.as_slice()].concat();
            if let Ok(cut) = members(&canonical, &Limits::FILE) {
                prop_assert_eq!(cut, members(&spaced, &Limits::FILE).unwrap());
            }
        }

        #[test]
        fn the_canonical_form_agrees_with_an_independent_implementation(value in any_json()) {
            let theirs = serde_json_canonicalizer::to_string(&value.to_serde()).unwrap();
            prop_assert_eq!(text(&value), theirs);
        }

        #[test]
        fn one_changed_byte_is_read_as_canonical_only_if_writing_it_again_gives_it_back(
            value in any_json(),
            at in any::<prop::sample::Index>(),
            byte in prop_oneof![any::<u8>(), prop::sample::select(b" \"\\/{}[],:-+0129.eEubfnrtA\n".to_vec())],
            insert in any::<bool>(),
        ) {
            let mut text = bytes(&value);
            if let Ok(whole) = read(&text, &Limits::FILE) {
                prop_assert!(whole.is_some());
            }
            let at = at.index(text.len());
            if insert { text.insert(at, byte) } else { text[at] = byte }
            let slow = Json::parse(&text, &Limits::FILE).map(|value| (bytes(&value) == text).then_some(value));
            prop_assert_eq!(read(&text, &Limits::FILE), slow);
        }

        #[test]
        fn reading_the_canonical_form_gives_the_same_value_and_form(value in any_json()) {
            let once = bytes(&value);
            // The reader refuses names that differ only by case; the generator may make them.
            if let Ok(read) = Json::parse(&once, &Limits::FILE) {
                prop_assert_eq!(&bytes(&read), &once);
            }
        }
    }
}
