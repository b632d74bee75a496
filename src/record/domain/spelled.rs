//! What escapes in a text stand for: each spelling of one character, at the front of some bytes.

/// Replaces every character that is not ASCII: no secret has one.
pub const OTHER: char = '\x7f';

/// The character of the first byte.
pub(super) fn first(bytes: &[u8]) -> Option<char> {
    bytes.first().copied().map(char::from)
}

/// What an equals sign at the front stands for in quoted-printable text, and its length.
pub(super) fn printed(bytes: &[u8]) -> (Option<char>, usize) {
    match bytes {
        [b'=', b'\r', b'\n', ..] => (None, 3),
        [b'=', b'\n', ..] => (None, 2),
        [b'=', high, low, ..] => match byte(&[*high, *low]) {
            Some(c) => (Some(c), 3),
            None => (Some('='), 1),
        },
        _plain => (first(bytes), 1),
    }
}

/// The character that two hexadecimal digits stand for.
fn byte(digits: &[u8]) -> Option<char> {
    number(digits, 16).filter(|_| digits.len() == 2)
}

/// The ASCII character of this number; `OTHER` for any other.
fn number(digits: &[u8], radix: u32) -> Option<char> {
    if !digits.iter().all(|digit| char::from(*digit).is_digit(radix)) {
        return None;
    }
    let value = u32::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()?;
    Some(u8::try_from(value).ok().filter(u8::is_ascii).map_or(OTHER, char::from))
}

/// The character of an escape at the front, and its length: `%41`, `\u0041`, `\x41`, `\/`, `&#65;`,
/// `&#x41;`, `&amp;`.
pub(super) fn escape(bytes: &[u8]) -> Option<(char, usize)> {
    match bytes {
        [b'%', high, low, ..] => Some((byte(&[*high, *low])?, 3)),
        [b'\\', b'u', rest @ ..] => Some((number(rest.get(..4)?, 16)?, 6)),
        [b'\\', b'x', high, low, ..] => Some((byte(&[*high, *low])?, 4)),
        [b'\\', c @ (b'/' | b'"' | b'\'' | b'\\'), ..] => Some((char::from(*c), 2)),
        // Line breaks and spacing between letters: which of them it is does not matter.
        [b'\\', b'b' | b'f' | b'n' | b'r' | b't', ..] => Some((' ', 2)),
        [b'&', rest @ ..] => {
            // Entities are short; a longer text is not one.
            let end = rest.iter().take(10).position(|b| *b == b';')?;
            let c = match rest.get(..end)? {
                [b'#', b'x' | b'X', digits @ ..] => number(digits, 16)?,
                [b'#', digits @ ..] => number(digits, 10)?,
                b"amp" => '&',
                b"lt" => '<',
                b"gt" => '>',
                b"quot" => '"',
                b"apos" => '\'',
                b"sol" => '/',
                b"plus" => '+',
                b"equals" => '=',
                _unknown => return None,
            };
            Some((c, end.saturating_add(2)))
        }
        _plain => None,
    }
}
