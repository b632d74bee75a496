//! The holes of a template: which text may fill each of them.

use std::fmt;

use super::dates;

/// Bytes that a `{{path}}`, a `{{line}}` or a `{{text:n}}` fills at most.
pub const TEXT_BYTES_MAX: usize = 4096;
/// Bytes that a `{{word}}` fills at most.
pub const WORD_BYTES_MAX: usize = 128;
/// Digits of a `{{hex:n}}`, at most.
pub const HEX_DIGITS_MAX: usize = 128;

/// A place of a template whose text differs between requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hole {
    /// `{{date}}`: a date in a common form, such as `2026-11-27`, `Fri Nov 27 2026` or
    /// `Friday, November 27, 2026`; of the ISO form also with a time.
    Date,
    /// `{{path}}`: 1 to 4,096 bytes from a `/`, a `~` or a drive (`C:\`) on: letters and digits of any
    /// script and visible ASCII, so no blank.
    Path,
    /// `{{word}}`: 1 to 128 visible characters of ASCII, so no blank.
    Word,
    /// `{{hex:n}}`: exactly `n` hex digits, 1 to 128.
    Hex(usize),
    /// `{{line}}`: 0 to 4,096 bytes without a line break or another control character than a tab.
    Line,
    /// `{{text:n}}`: 0 to `n` bytes of any text; `n` is 1 to 4,096.
    Text(usize),
}

/// Why the text between two pairs of braces is not the hole that it names.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HoleError {
    /// A count where the hole has none.
    #[error("`{{{{{0}}}}}` takes no number")]
    Count(String),
    /// No count, or one that is too great.
    #[error("`{{{{{0}}}}}` needs a number from 1 to {1} behind a colon")]
    Range(String, usize),
}

impl Hole {
    /// Reads what stands between the braces; `None` if that names no hole, so that it is ordinary text.
    pub(super) fn parse(inner: &str) -> Option<Result<Self, HoleError>> {
        let (name, count) =
            inner.split_once(':').map_or((inner, None), |(name, count)| (name, Some(count)));
        let plain = |hole: Self| match count {
            None => Ok(hole),
            Some(_) => Err(HoleError::Count(inner.to_owned())),
        };
        let counted = |most: usize, hole: fn(usize) -> Self| {
            let plain = |text: &&str| !text.starts_with('0') && text.len() <= 4;
            let given = count.filter(plain).filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
            let given = given.and_then(|text| text.parse().ok());
            let fits = given.filter(|n| (1..=most).contains(n));
            fits.map(hole).ok_or_else(|| HoleError::Range(inner.to_owned(), most))
        };
        match name {
            "date" => Some(plain(Self::Date)),
            "path" => Some(plain(Self::Path)),
            "word" => Some(plain(Self::Word)),
            "line" => Some(plain(Self::Line)),
            "hex" => Some(counted(HEX_DIGITS_MAX, Self::Hex)),
            "text" => Some(counted(TEXT_BYTES_MAX, Self::Text)),
            _ => None,
        }
    }

    /// The least and the most bytes that fill it.
    pub(super) const fn bytes(self) -> (usize, usize) {
        match self {
            Self::Date => (dates::BYTES_MIN, dates::BYTES_MAX),
            Self::Path => (1, TEXT_BYTES_MAX),
            Self::Word => (1, WORD_BYTES_MAX),
            Self::Hex(digits) => (digits, digits),
            Self::Line => (0, TEXT_BYTES_MAX),
            Self::Text(most) => (0, most),
        }
    }

    /// Whether what fills it is free text. A date and a number of hex digits cannot instruct a model.
    pub const fn is_loose(self) -> bool {
        match self {
            Self::Date | Self::Hex(_) => false,
            Self::Path | Self::Word | Self::Line | Self::Text(_) => true,
        }
    }

    /// The class that every character in it has.
    pub(super) const fn class(self) -> u8 {
        match self {
            Self::Date | Self::Text(_) => class::ANY,
            Self::Path => class::PATH,
            Self::Word => class::WORD,
            Self::Hex(_) => class::HEX,
            Self::Line => class::LINE,
        }
    }

    /// Whether it may begin with this text.
    pub(super) fn begins(self, rest: &str) -> bool {
        match self {
            Self::Path => is_path(rest),
            Self::Date | Self::Word | Self::Hex(_) | Self::Line | Self::Text(_) => true,
        }
    }
}

/// Whether a path begins here.
pub(in crate::identity) fn is_path(rest: &str) -> bool {
    let mut bytes = rest.bytes();
    match bytes.next() {
        Some(b'/' | b'~') => true,
        Some(drive) if drive.is_ascii_alphabetic() => {
            bytes.next() == Some(b':') && bytes.next() == Some(b'\\')
        }
        Some(_) | None => false,
    }
}

impl fmt::Display for Hole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Date => f.write_str("{{date}}"),
            Self::Path => f.write_str("{{path}}"),
            Self::Word => f.write_str("{{word}}"),
            Self::Hex(digits) => write!(f, "{{{{hex:{digits}}}}}"),
            Self::Line => f.write_str("{{line}}"),
            Self::Text(most) => write!(f, "{{{{text:{most}}}}}"),
        }
    }
}

/// The classes of characters, a bit each.
pub(in crate::identity) mod class {
    /// Every character.
    pub const ANY: u8 = 1;
    /// A visible character of ASCII.
    pub const WORD: u8 = 2;
    /// The same, and letters and digits of other scripts.
    pub const PATH: u8 = 4;
    /// No line break and no control character but a tab.
    pub const LINE: u8 = 8;
    /// A hex digit.
    pub const HEX: u8 = 16;

    /// The classes of each byte: those of its character.
    pub fn of_bytes(text: &str) -> Vec<u8> {
        let mut all = Vec::with_capacity(text.len());
        for c in text.chars() {
            all.extend(std::iter::repeat_n(of(c), c.len_utf8()));
        }
        all
    }

    /// The classes of one character.
    pub fn of(c: char) -> u8 {
        let when = |class: u8, is: bool| if is { class } else { 0 };
        let breaks = matches!(c, '\u{2028}' | '\u{2029}');
        ANY | when(WORD, c.is_ascii_graphic())
            | when(PATH, c.is_ascii_graphic() || (!c.is_ascii() && c.is_alphanumeric()))
            | when(LINE, c == '\t' || !(c.is_control() || breaks))
            | when(HEX, c.is_ascii_hexdigit())
    }
}
