//! Values as SQL text: the only place where a value becomes part of a statement.
//!
//! Always the `E'…'` form, whose meaning does not depend on `standard_conforming_strings`.

use std::fmt::Write as _;

/// A string.
pub(crate) fn text(value: &str) -> String {
    let mut out = String::with_capacity(value.len().saturating_add(16));
    out.push_str("E'");
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("''"),
            _ => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// Bytes.
pub(crate) fn bytes(value: &[u8]) -> String {
    let mut out = String::with_capacity(value.len().saturating_mul(2).saturating_add(16));
    out.push_str("E'\\\\x");
    hex(value, &mut out);
    out.push_str("'::bytea");
    out
}

/// Lowercase hex digits of these bytes. `hex::encode` goes character by character, and every payload
/// comes through here.
fn hex(value: &[u8], out: &mut String) {
    let mut digits = [0_u8; 512];
    for piece in value.chunks(256) {
        let (used, _) = digits.split_at_mut(piece.len().saturating_mul(2));
        // INVARIANT: twice as many digits as bytes, all of them ASCII: neither step can fail.
        if hex::encode_to_slice(piece, used).is_ok() {
            out.push_str(std::str::from_utf8(used).unwrap_or_default());
        }
    }
}

/// Bytes or NULL.
pub(super) fn maybe_bytes(value: Option<&[u8]>) -> String {
    value.map_or_else(|| "NULL::bytea".to_owned(), bytes)
}

/// An array of bytes.
pub(super) fn bytes_array<'a>(values: impl Iterator<Item = &'a [u8]>) -> String {
    // `"\\x…"` in the array's own syntax, its backslashes doubled once more for E''.
    let mut out = String::from("E'{");
    for (index, value) in values.enumerate() {
        out.push_str(if index == 0 { "\"\\\\\\\\x" } else { ",\"\\\\\\\\x" });
        hex(value, &mut out);
        out.push('"');
    }
    out.push_str("}'::bytea[]");
    out
}

/// An array of strings and NULLs, of this SQL type.
pub(super) fn text_array<'a>(values: impl Iterator<Item = Option<&'a str>>, of: &str) -> String {
    let mut array = String::from("{");
    for (index, value) in values.enumerate() {
        if index > 0 {
            array.push(',');
        }
        match value {
            None => array.push_str("NULL"),
            Some(value) => {
                array.push('"');
                for c in value.chars() {
                    if matches!(c, '"' | '\\') {
                        array.push('\\');
                    }
                    array.push(c);
                }
                array.push('"');
            }
        }
    }
    array.push('}');
    let mut out = text(&array);
    // Writing to a String cannot fail.
    let _ = write!(out, "::{of}[]");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_cannot_end_a_literal() {
        assert_eq!(text("a'; DROP TABLE x; --\\'"), "E'a''; DROP TABLE x; --\\\\'''");
    }

    #[test]
    fn array_elements_are_quoted_for_the_array_and_for_the_statement() {
        let values = [Some("a\"b"), None, Some("c\\'d")];
        assert_eq!(
            text_array(values.into_iter(), "text"),
            r#"E'{"a\\"b",NULL,"c\\\\''d"}'::text[]"#
        );
    }

    #[test]
    fn bytes_are_hex_whatever_they_are() {
        let long: Vec<u8> = (0..=255).cycle().take(1000).collect();
        assert_eq!(bytes(&long), format!(r"E'\\x{}'::bytea", hex::encode(&long)));
        assert_eq!(bytes(b"'\\"), r"E'\\x275c'::bytea");
        let pieces: [&[u8]; 2] = [b"\x00", b"'"];
        assert_eq!(bytes_array(pieces.into_iter()), r#"E'{"\\\\x00","\\\\x27"}'::bytea[]"#);
    }
}
