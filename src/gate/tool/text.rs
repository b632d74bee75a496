//! JSON text that is released unchanged: whether it is JSON at all, and the strings in it.
//!
//! Results of tools keep the bytes that the tool sent, and those may contain what the strict parser
//! refuses (a duplicate name, a number beyond 2^53). This module builds no values.

use serde_json::value::RawValue;

/// Nested arrays and objects in a result: the depth that common readers accept.
const DEPTH_MAX: usize = 120;

/// Whether this is one JSON value in UTF-8, within the depth limit.
pub(super) fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(text).is_ok() && depth(text) <= DEPTH_MAX
}

fn depth(text: &[u8]) -> usize {
    let (mut depth, mut most) = (0_usize, 0_usize);
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip(&mut bytes),
            b'[' | b'{' => {
                depth = depth.saturating_add(1);
                most = most.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// Skips to the end of a string whose opening quote was read.
fn skip(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => _ = bytes.next(),
            b'"' => return,
            _ => {}
        }
    }
}

/// What a string stands for; `None` if it is not a text (half a surrogate pair).
pub(super) fn read(string: &[u8]) -> Option<String> {
    serde_json::from_slice(string).ok()
}

/// Every string in this JSON as it is written, including member names.
pub(super) fn strings(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let from = rest.iter().position(|byte| *byte == b'"')?;
        let (_, string) = rest.split_at(from);
        let mut bytes = string.get(1..)?.iter();
        skip(&mut bytes);
        let (string, after) = string.split_at(string.len().saturating_sub(bytes.len()));
        rest = after;
        Some(string)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_json_whatever_the_strict_reader_thinks_of_it() {
        for text in [
            r#"{"a":1,"a":2,"A":3}"#,
            "123456789012345678901234567890",
            " [ -0, 1e400 ] ",
            r#""\ud800""#,
            &format!("{}1{}", "[".repeat(120), "]".repeat(120)),
            r#"["[[[[", "\"]"]"#,
        ] {
            assert!(is_json(text.as_bytes()), "{text}");
        }
        let deep = format!("{}1{}", "[".repeat(121), "]".repeat(121));
        for text in ["", "{", "{}{}", "nan", "'a'", "[1,]", "\"\u{1}\"", deep.as_str()] {
            assert!(!is_json(text.as_bytes()), "{text}");
        }
        assert!(!is_json(b"\"\xff\""));
    }

    #[test]
    fn every_string_is_seen_as_it_reads() {
        let text = br#"{"\u0061":["b\"c",1,"",{"d\\":"\ud800"}],"a":"e"}"#;
        let seen: Vec<_> = strings(text).map(read).collect();
        let expected = [Some("a"), Some("b\"c"), Some(""), Some("d\\"), None, Some("a"), Some("e")];
        assert_eq!(seen, expected.map(|s| s.map(str::to_owned)));
    }
}
