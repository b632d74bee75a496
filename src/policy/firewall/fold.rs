//! A text with the letters that look like others written as those, and without what is invisible.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// A byte for a character that looks like no ASCII one.
const OTHER: u8 = 0x7f;

/// A folded text, and where each of its bytes stands in the source.
#[derive(Debug)]
pub(super) struct FoldedText {
    /// The text, in ASCII.
    pub text: Vec<u8>,
    from: Vec<u32>,
}

impl FoldedText {
    /// Where a part of it stands in the source.
    pub fn place(&self, range: &Range<usize>) -> Range<usize> {
        let at = |at: usize| {
            self.from.get(at).and_then(|at| usize::try_from(*at).ok()).unwrap_or_default()
        };
        at(range.start)..at(range.end)
    }
}

/// The text folded; `None` if that shows nothing new.
pub(super) fn folded(source: &str) -> Option<FoldedText> {
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let mut out = FoldedText {
        text: Vec::with_capacity(source.len()),
        from: Vec::with_capacity(source.len() + 1),
    };
    let mut is_new = false;
    for (at, c) in source.char_indices() {
        let byte = if let Ok(byte) = u8::try_from(c)
            && byte.is_ascii()
        {
            Some(byte)
        } else {
            let shown = shown(c);
            // A dash between words is none of a token; prose is full of them.
            let follows = || out.text.last().is_some_and(|before| is_of_token(*before));
            is_new |= shown
                .is_none_or(|byte| byte.is_ascii_alphanumeric() || is_of_token(byte) && follows());
            shown
        };
        // What is dropped belongs to the byte before it.
        if let Some(byte) = byte {
            out.text.push(byte);
            out.from.push(place(at));
        }
    }
    out.from.push(place(source.len()));
    is_new.then_some(out)
}

fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_+/=.".contains(&byte)
}

/// The ASCII character that one looks like; `None` if it is invisible.
pub(super) fn shown(c: char) -> Option<u8> {
    if is_invisible(c) {
        return None;
    }
    if let Some(tag) = u32::from(c).checked_sub(0xe_0000).filter(|tag| (0x20..0x7f).contains(tag)) {
        return u8::try_from(tag).ok();
    }
    if let Some(listed) = listed(c) {
        return Some(listed);
    }
    let mut parts = c.nfkd().filter(|part| !is_combining_mark(*part));
    let (first, second) = (parts.next(), parts.next());
    match (first, second) {
        // Only marks: they stand on the letter before.
        (None, _) => None,
        (Some(first), None) if first != c => Some(
            u8::try_from(first).ok().filter(u8::is_ascii).or_else(|| alike(first)).unwrap_or(OTHER),
        ),
        _ => Some(confusable(c).unwrap_or(OTHER)),
    }
}

/// Whether a character has no width and no meaning of its own.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0001}' | '\u{e007f}' | '\u{e0100}'..='\u{e01ef}'
        | '\u{80}'..='\u{9f}')
}

/// Letters of other scripts, and the letters of ASCII that they look like, in the same order. WHY a list of our own before
/// that of UTS 39: there `I`, `l`, `1` and `|` are one class, as are `O` and `0`; a token needs the very letter.
const ALIKE: [(&str, &str); 5] = [
    (
        "\u{430}\u{435}\u{43e}\u{440}\u{441}\u{445}\u{443}\u{456}\u{458}\u{455}\u{501}\u{51b}\u{51d}\u{4bb}\u{4cf}\u{4af}\u{433}\u{475}\u{44c}",
        "aeopcxyijsdqwhlyrvb",
    ),
    (
        "\u{410}\u{412}\u{415}\u{41a}\u{41c}\u{41d}\u{41e}\u{420}\u{421}\u{422}\u{423}\u{425}\u{406}\u{408}\u{405}\u{4ae}\u{474}\u{50c}\u{51a}\u{51c}\u{4c0}\u{417}",
        "ABEKMHOPCTYXIJSYVGQWl3",
    ),
    (
        "\u{391}\u{392}\u{395}\u{396}\u{397}\u{399}\u{39a}\u{39c}\u{39d}\u{39f}\u{3a1}\u{3a4}\u{3a5}\u{3a7}\u{3b1}\u{3bf}\u{3bd}\u{3c1}\u{3c4}\u{3c5}\u{3b9}\u{3ba}\u{3c7}\u{3b3}\u{3f2}\u{3f3}\u{3c3}",
        "ABEZHIKMNOPTYXaovptuikxycjo",
    ),
    (
        "\u{578}\u{585}\u{57d}\u{570}\u{581}\u{566}\u{584}\u{54d}\u{555}\u{53c}\u{575}",
        "nouhgqfUOLj",
    ),
    (
        "\u{13aa}\u{13f4}\u{13df}\u{13ac}\u{13c0}\u{13bb}\u{13ab}\u{13e6}\u{13de}\u{13b7}\u{13e2}\u{13da}\u{13a2}\u{13d9}\u{13b3}\u{13c3}\u{131}\u{251}\u{261}\u{1d0f}\u{1d04}\u{1d20}\u{1d21}\u{1d22}",
        "ABCEGHJKLMPSTVWZiagocvwz",
    ),
];

/// The letter of ASCII that a letter of another script looks like.
pub(super) fn alike(c: char) -> Option<u8> {
    listed(c).or_else(|| confusable(c))
}

fn listed(c: char) -> Option<u8> {
    let mut pairs = ALIKE.iter().flat_map(|(from, to)| from.chars().zip(to.bytes()));
    // WHY the test first: most text of other scripts has letters that are far from these.
    (u32::from(c) < 0x1e00).then(|| pairs.find(|(from, _)| *from == c))?.map(|(_, to)| to)
}

/// The one character of ASCII that is the prototype of another one (UTS 39, section 4).
fn confusable(c: char) -> Option<u8> {
    // WHY the test first: texts of East Asia are long, and no ideograph and no syllable of Hangul is like ASCII.
    if c.is_ascii() || matches!(c, '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}') {
        return None;
    }
    let mut buffer = [0; 4];
    let text: &str = c.encode_utf8(&mut buffer);
    let mut parts = unicode_security::skeleton(text).filter(|part| !is_combining_mark(*part));
    let (first, second) = (parts.next(), parts.next());
    first
        .filter(|_| second.is_none())
        .and_then(|first| u8::try_from(first).ok())
        .filter(u8::is_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_letter_has_the_one_that_it_looks_like() {
        for (from, to) in ALIKE {
            assert_eq!(from.chars().count(), to.len(), "{from}");
        }
        let shows = |text: &str| {
            folded(text).map(|folded| String::from_utf8(folded.text).unwrap_or_default())
        };
        assert_eq!(shows("g\u{200b}h\u{ff50}\u{ff3f}"), Some("ghp_".to_owned()));
        assert_eq!(shows("\u{e0067}\u{e0068}"), Some("gh".to_owned()));
        assert_eq!(shows("\u{1d420}\u{440}\u{65}\u{301}"), Some("gpe".to_owned()));
        assert_eq!(shows("日本"), None);
        // Lisu, Deseret, Coptic; a hyphen, and one that breaks no line.
        assert_eq!(shows("\u{a4d6}\u{a4f2}x"), Some("Glx".to_owned()));
        assert_eq!(shows("\u{10404}\u{2c9f}x"), Some("Oox".to_owned()));
        assert_eq!(shows("sk\u{2011}ant\u{2010}x"), Some("sk-ant-x".to_owned()));
        assert_eq!(shows("one \u{2013} two"), None, "a dash between words");
        assert_eq!(shows("\u{41e}\u{406}\u{4c0}"), Some("OIl".to_owned()), "the very letter");
    }
}
