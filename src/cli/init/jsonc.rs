//! JSON with comments and trailing commas, made plain without moving a byte.

/// The same text with every comment and every trailing comma replaced by spaces: what is left is plain
/// JSON if the rest is, and every byte stands where it stood.
pub fn plain(text: &str) -> Vec<u8> {
    let mut out = text.as_bytes().to_vec();
    blank_comments(&mut out);
    blank_commas(&mut out);
    out
}

fn blank_comments(text: &mut [u8]) {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let next = text.get(at.saturating_add(1)).copied();
        let end = match (byte, next) {
            (b'"', _) => {
                at = after_string(text, at);
                continue;
            }
            (b'/', Some(b'/')) => find(text, at, |rest| rest.starts_with(b"\n"), 0),
            (b'/', Some(b'*')) => {
                find(text, at.saturating_add(2), |rest| rest.starts_with(b"*/"), 2)
            }
            _ => {
                at = at.saturating_add(1);
                continue;
            }
        };
        for byte in text.get_mut(at..end).into_iter().flatten() {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
}

/// Where `is` first holds from here on, and `more` bytes further; the end if it never does.
fn find(text: &[u8], from: usize, is: impl Fn(&[u8]) -> bool, more: usize) -> usize {
    (from..text.len())
        .find(|at| text.get(*at..).is_some_and(&is))
        .map_or(text.len(), |at| at.saturating_add(more))
}

fn after_string(text: &[u8], open: usize) -> usize {
    let mut at = open.saturating_add(1);
    while let Some(&byte) = text.get(at) {
        at = at.saturating_add(if byte == b'\\' { 2 } else { 1 });
        if byte == b'"' {
            break;
        }
    }
    at.min(text.len())
}

fn blank_commas(text: &mut [u8]) {
    let mut comma = None;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => {
                at = after_string(text, at);
                comma = None;
                continue;
            }
            b',' => comma = Some(at),
            b'}' | b']' => {
                if let Some(byte) = comma.take().and_then(|at| text.get_mut(at)) {
                    *byte = b' ';
                }
            }
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => comma = None,
        }
        at = at.saturating_add(1);
    }
}

/// Line and column of a byte, from 1.
pub fn place(text: &[u8], at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.iter().filter(|b| **b == b'\n').count();
    let start = before.iter().rposition(|b| *b == b'\n').map_or(0, |at| at.saturating_add(1));
    (line.saturating_add(1), before.len().saturating_sub(start).saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_go_and_nothing_moves() {
        let text = "{ // a \"comment\", with }\n \"u\": \"http://x/*y*/ // z\", /* b\n, */ \"l\": [1, 2, ],\n}";
        let plain = plain(text);
        assert_eq!(plain.len(), text.len());
        let value: serde_json::Value = serde_json::from_slice(&plain).unwrap();
        let expected = serde_json::json!({"u": "http://x/*y*/ // z", "l": [1, 2]});
        assert_eq!(value, expected);
        assert_eq!(plain.iter().filter(|b| **b == b'\n').count(), 3);
        for broken in ["{,}x", "[1,,2]", "{\"a\" 1}", "/", "\"\\", "/* open"] {
            let plain = super::plain(broken);
            assert!(serde_json::from_slice::<serde_json::Value>(&plain).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_place_is_line_and_column() {
        assert_eq!(place(b"ab\ncd", 4), (2, 2));
        assert_eq!(place(b"ab", 0), (1, 1));
        assert_eq!(place(b"ab", 99), (1, 3));
    }
}
