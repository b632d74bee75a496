//! Characters that people do not see, and letters that look like others.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use unicode_security::mixed_script::AugmentedScriptSet;

use super::fold;
use super::kinds::{Confidence, How};
use super::views::Span;

/// Variation selectors in a row that no character has.
const VARIATIONS_MAX: usize = 2;

/// A character with its place.
type Placed = (usize, char);

/// The findings of class `unicode` in a text.
pub(super) fn look(text: &str) -> Vec<Span> {
    let strange = |byte: &u8| !(b' '..0x7f).contains(byte) && !b"\t\n\r".contains(byte);
    if text.bytes().filter(|byte| strange(byte)).count() == 0 {
        return Vec::new();
    }
    let mut spans: Vec<Span> = Vec::new();
    let mut note = |kind: &'static str, range: Range<usize>| {
        // Those that follow each other are one.
        match spans
            .iter_mut()
            .rev()
            .take(2)
            .find(|one| one.kind == kind && one.range.end == range.start)
        {
            Some(one) => one.range.end = range.end,
            None => {
                let (confidence, how) = (Confidence::High, How::Plain);
                spans.push(Span { kind, confidence, how, range });
            }
        }
    };
    let mut around = Around::default();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let range = at..at + c.len_utf8();
        let next = chars.peek().map(|(_, next)| *next);
        if let Some(kind) = around.kind(c, next) {
            note(kind, range);
        }
    }
    unbalanced(text).into_iter().for_each(|range| note("bidi", range));
    mixed(text).into_iter().for_each(|range| note("mixed_scripts", range));
    spans
}

/// What stands before a character.
#[derive(Default)]
struct Around {
    last: Option<char>,
    in_flag: bool,
    variations: usize,
}

impl Around {
    /// The kind of finding that a character is by itself.
    fn kind(&mut self, c: char, next: Option<char>) -> Option<&'static str> {
        let last = self.last.replace(c);
        let is_tag = matches!(c, '\u{e0000}'..='\u{e007f}');
        self.in_flag = (self.in_flag || last == Some('\u{1f3f4}')) && is_tag && c != '\u{e007f}'
            || c == '\u{1f3f4}';
        let is_variation = matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}');
        self.variations = if is_variation { self.variations + 1 } else { 0 };
        match c {
            _ if is_tag => {
                let is_flag = self.in_flag || c == '\u{e007f}' && last.is_some_and(is_tag_letter);
                (!is_flag).then_some("hidden_text")
            }
            '\t' | '\n' | '\r' => None,
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => Some("control"),
            _ if is_variation => (self.variations > VARIATIONS_MAX).then_some("variation_run"),
            '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => Some("private_use"),
            _ if is_zero_width(c) => {
                let fits = [last, next].into_iter().flatten().any(joins);
                // A mark of the byte order begins a text.
                let begins = c == '\u{feff}' && last.is_none();
                (!fits && !begins).then_some("zero_width")
            }
            _ => None,
        }
    }
}

fn is_tag_letter(c: char) -> bool {
    matches!(c, '\u{e0020}'..='\u{e007e}')
}

fn is_zero_width(c: char) -> bool {
    matches!(c,
        '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}')
}

/// Whether joiners and spaces without a width belong beside a character: scripts that need them, and
/// pictures.
fn joins(c: char) -> bool {
    matches!(u32::from(c),
        0x0590..=0x08ff | 0x0900..=0x0eff | 0x0f00..=0x109f | 0x1780..=0x18af | 0x1b00..=0x1c7f
        | 0x2600..=0x27bf | 0x2b00..=0x2bff | 0xfb1d..=0xfdff | 0xfe0f | 0xfe70..=0xfefc
        | 0x1_0a00..=0x1_1fff | 0x1_f000..=0x1_faff)
}

fn opens(c: char) -> bool {
    matches!(c, '\u{202a}' | '\u{202b}' | '\u{202d}' | '\u{202e}' | '\u{2066}'..='\u{2068}')
}

fn closes(c: char) -> bool {
    matches!(c, '\u{202c}' | '\u{2069}')
}

/// The marks of direction of a paragraph that do not close each other.
fn unbalanced(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let marks: Vec<Placed> =
            line.char_indices().filter(|(_, c)| opens(*c) || closes(*c)).collect();
        let mut open: Vec<char> = Vec::new();
        let mut is_balanced = true;
        for (_, c) in &marks {
            if opens(*c) {
                open.push(*c);
            } else {
                let isolate = |c: &char| matches!(c, '\u{2066}'..='\u{2068}');
                is_balanced &= open.pop().is_some_and(|open| isolate(&open) == (*c == '\u{2069}'));
            }
        }
        // An override shows a text in an order that it does not have, closed or not.
        let overrides = marks.iter().any(|(_, c)| matches!(c, '\u{202d}' | '\u{202e}'));
        if !is_balanced || !open.is_empty() || overrides {
            let range = |(at, c): Placed| start + at..start + at + c.len_utf8();
            found.extend(marks.into_iter().map(range));
        }
        start += line.len();
    }
    found
}

/// Letters of a word that must look like those of ASCII before it can pass for another word of the text. WHY not fewer:
/// words of three letters that are like some English one are common.
const WHOLE_MIN: usize = 4;

/// Words with letters of ASCII and letters of another script that look like such, and words of another script alone that
/// look like a word of the same text.
fn mixed(text: &str) -> Vec<Range<usize>> {
    let (mut found, mut whole) = (Vec::new(), Vec::new());
    let words = || words(text);
    for (start, word) in words().filter(|(_, word)| !word.is_ascii()) {
        let latin = word.chars().filter(char::is_ascii_alphabetic).count();
        let others = word.chars().filter(|c| !c.is_ascii() && is_of_other_script(*c));
        let alike = others.map(fold::alike).try_fold(0, |count, alike| alike.map(|_| count + 1));
        let Some(count) = alike.filter(|count| *count > 0) else { continue };
        let range = start..start + word.len();
        // One letter beside one of Greek is a formula.
        if latin >= 2 {
            found.push(range);
        } else if latin == 0 && count >= WHOLE_MIN {
            let alike = |c: char| fold::alike(c).map_or(c, char::from);
            whole.push((word.chars().map(alike).collect::<String>(), range));
        }
    }
    if !whole.is_empty() {
        let known: HashSet<&str> =
            words().map(|(_, word)| word).filter(|word| word.is_ascii()).collect();
        found.extend(
            whole.into_iter().filter(|(word, _)| known.contains(&**word)).map(|(_, range)| range),
        );
        found.sort_by_key(|range| range.start);
    }
    found
}

/// The words of a text, each with its place.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut from = 0;
    text.split(|c: char| !c.is_alphanumeric()).map(move |word| {
        let start = from;
        from += word.len();
        from += text.get(from..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        (start, word)
    })
}

/// A letter of a script, and of another one than those of ASCII (UTS 39, section 5.1).
fn is_of_other_script(c: char) -> bool {
    static OF_ASCII: LazyLock<AugmentedScriptSet> =
        LazyLock::new(|| AugmentedScriptSet::for_char('a'));
    let mut scripts = AugmentedScriptSet::for_char(c);
    scripts.intersect_with(*OF_ASCII);
    scripts.is_empty()
}

/// The kinds that [`stripped`] removes: their characters carry nothing that a person reads.
const STRIPPED: [&str; 5] = ["hidden_text", "bidi", "control", "variation_run", "private_use"];

/// A text without characters that no person reads; `None` if it has none, and how many stretches of
/// them there were.
pub(super) fn stripped(text: &str) -> Option<(String, u64)> {
    let mut spans: Vec<Range<usize>> = look(text)
        .into_iter()
        .filter(|one| STRIPPED.contains(&one.kind))
        .map(|one| one.range)
        .collect();
    if spans.is_empty() {
        return None;
    }
    spans.sort_by_key(|range| range.start);
    let (mut out, mut at, mut count) = (String::with_capacity(text.len()), 0, 0_u64);
    for span in spans {
        out.push_str(text.get(at..span.start).unwrap_or_default());
        let sequence = text.get(span.clone()).filter(|part| part.ends_with('\u{1b}'));
        let behind = text.get(span.end..).unwrap_or_default();
        at = at.max(span.end + sequence.map_or(0, |_| steering(behind)));
        count += 1;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    Some((out, count))
}

/// Bytes of a sequence for a terminal behind its first byte: a colour, a place, a title.
fn steering(text: &str) -> usize {
    let bytes = text.as_bytes();
    match bytes.first() {
        Some(b'[') => {
            let middle =
                bytes.iter().skip(1).take(32).take_while(|b| (0x20..0x40).contains(*b)).count();
            let ends = bytes.get(middle + 1).is_some_and(|byte| (0x40..0x7f).contains(byte));
            if ends { middle + 2 } else { 0 }
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<&'static str> {
        look(text).into_iter().map(|one| one.kind).collect()
    }

    #[test]
    fn what_no_person_sees_is_found_and_stripped() {
        for (text, kind, left) in [
            ("a\u{e0069}\u{e0067}b", "hidden_text", "ab"),
            ("a\u{202e}b", "bidi", "ab"),
            ("a\u{2066}b", "bidi", "ab"),
            ("a\u{1b}[31mb\u{1b}[0m", "control", "ab"),
            ("a\u{90}b", "control", "ab"),
            ("a\u{fe0f}\u{fe0f}\u{fe0f}b", "variation_run", "a\u{fe0f}\u{fe0f}b"),
            ("a\u{e123}b", "private_use", "ab"),
        ] {
            assert!(kinds(text).contains(&kind), "{text:?}");
            let (out, _) = stripped(text).unwrap();
            assert_eq!(out, left);
            assert_eq!(stripped(&out), None, "once is enough");
        }
        assert_eq!(kinds("pass\u{200b}word"), ["zero_width"]);
        assert_eq!(stripped("pass\u{200b}word"), None, "what scripts need is never removed");
        assert_eq!(kinds("p\u{430}yp\u{430}l"), ["mixed_scripts"]);
        // Lisu between letters of ASCII; Cyrillic alone, beside the word that it imitates.
        assert_eq!(kinds("pa\u{a4ec}pal"), ["mixed_scripts"]);
        let alone = "\u{440}\u{430}\u{443}\u{440}\u{430}\u{4cf}";
        assert_eq!(kinds(&format!("paypal is not {alone}")), ["mixed_scripts"]);
        assert_eq!(kinds(alone), Vec::<&str>::new(), "a word of its own");
    }

    #[test]
    fn ordinary_text_of_any_script_is_clean() {
        for text in [
            "می\u{200c}خواهم",
            "क्\u{200d}ष",
            "👩\u{200d}👩\u{200d}👧",
            "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
            "a\u{2067}שלום\u{2069}b",
            "日本語です。",
            "Привет, мир",
            "Δx = 5 μm",
            "naïve café",
            "❤\u{fe0f}",
            "\u{feff}begins",
            "tabs\tand\r\nlines",
            "3D-модель",
            "ελληνικά και English",
        ] {
            assert_eq!(kinds(text), Vec::<&str>::new(), "{text:?}");
        }
    }
}
