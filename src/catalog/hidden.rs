//! Characters that a reader does not see, or that change how a reader sees others.
//!
//! A model reads them all. So the gate scans text that models see in an operator's name before it
//! is signed, and names each find with its place.

use crate::domain::json::Json;

/// Finds that are named of one text.
const SHOWN_MAX: usize = 8;

/// Control, bidirectional, line-separating and default-ignorable characters (Unicode 16).
#[must_use]
pub const fn is_hidden(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}'
        | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffd}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether this character is forbidden in a text of several lines for a person's review: hidden
/// ones but tab and line feed, and private ones, which have no agreed appearance.
const fn misleads(c: char) -> bool {
    let plain = matches!(c, '\t' | '\n');
    let private = matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{ffffd}' | '\u{100000}'..='\u{10fffd}');
    // Braille without a dot, and other characters that look like nothing.
    let blank = matches!(c, '\u{2800}' | '\u{180e}' | '\u{1d159}');
    (is_hidden(c) && !plain) || private || blank
}

/// Whether this asks for the picture of the symbol before it, as `⚠\u{fe0f}` does: common in plain
/// text, and only one bit.
const fn is_picture(before: Option<char>, c: char) -> bool {
    matches!(c, '\u{fe0f}')
        && matches!(
            before,
            Some(
                '\u{a9}'
                | '\u{ae}'
                | '\u{203c}'..='\u{2bff}'
                | '\u{3030}'
                | '\u{303d}'
                | '\u{3297}'
                | '\u{3299}'
                | '\u{1f000}'..='\u{1faff}',
            )
        )
}

/// Where in this value, names of members included, characters hide or mislead: `/description: U+202E at 12`, a JSON
/// pointer with the code point and its place in characters. The pointer itself is fit to print.
pub fn finds(value: &Json) -> Vec<String> {
    let mut found = Vec::new();
    walk(value, "", &mut found);
    found
}

fn walk(value: &Json, at: &str, found: &mut Vec<String>) {
    match value {
        Json::String(text) => look(text, at, found),
        Json::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| walk(item, &format!("{at}/{i}"), found));
        }
        Json::Object(members) => {
            for (name, member) in members {
                let here = format!("{at}/{}", name.escape_debug());
                look(name, &format!("{here} (the name itself)"), found);
                walk(member, &here, found);
            }
        }
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) => {}
    }
}

fn look(text: &str, at: &str, found: &mut Vec<String>) {
    let mut before = None;
    for (i, c) in text.chars().enumerate() {
        // Of line ends, the return of a typewriter lets the end of a line cover its beginning.
        if misleads(c) && !is_picture(before, c) && found.len() < SHOWN_MAX {
            found.push(format!("{at}: U+{:04X} at {i}", u32::from(c)));
        }
        before = Some(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_people_write_is_no_find() {
        for text in [
            "⚠\u{fe0f} Reads.\n\tThen writes",
            "naïve — “été”",
            "日本語",
            "©\u{fe0f}",
            "שלום",
            "العربية",
            "👍",
        ] {
            assert_eq!(finds(&Json::from(text)), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn a_letter_of_no_alphabet_carries_a_selector() {
        for letter in ['a', 'é', 'ש', 'ع', 'の', 'ノ', 'ㄅ', 'ㄱ', '日', '한', 'я', 'ω', '7']
        {
            let text = format!("{letter}\u{fe0f}");
            assert_eq!(finds(&Json::from(text.as_str())), [": U+FE0F at 1"], "{letter}");
        }
    }

    #[test]
    fn a_find_is_named_with_its_place_and_code_point() {
        let value = Json::parse(
            "{\"a\":[\"x\",\"y\\u202ez\"],\"n\\u200bm\":\"ok\"}".as_bytes(),
            &crate::domain::json::Limits::FILE,
        )
        .unwrap();
        let expected = ["/a/1: U+202E at 1", "/n\\u{200b}m (the name itself): U+200B at 1"];
        assert_eq!(finds(&value), expected);
    }

    /// By class: tags, bidirectional controls, escapes, no width, selectors, others.
    fn hiding() -> impl Strategy<Value = char> {
        prop_oneof![
            prop::char::range('\u{e0000}', '\u{e007f}'),
            prop::char::range('\u{e0100}', '\u{e01ef}'),
            prop::char::range('\u{202a}', '\u{202e}'),
            prop::char::range('\u{2066}', '\u{2069}'),
            prop::char::range('\u{200b}', '\u{200f}'),
            prop::char::range('\u{fe00}', '\u{fe0e}'),
            prop::char::range('\u{e000}', '\u{f8ff}'),
            prop::sample::select(vec![
                '\u{1b}', '\u{9b}', '\u{8}', '\u{7f}', '\r', '\0', '\u{ad}', '\u{34f}', '\u{61c}',
                '\u{2060}', '\u{feff}', '\u{3164}', '\u{ffa0}', '\u{115f}', '\u{2028}', '\u{2029}',
                '\u{180e}', '\u{2800}',
            ]),
        ]
    }

    proptest! {
        #[test]
        fn one_of_them_anywhere_is_found(front in "[a-z ⚠]{0,9}", c in hiding(), back in "\\PC{0,9}") {
            let found = finds(&Json::object([("description", Json::from(format!("{front}{c}{back}")))]));
            let place = front.chars().count();
            let expected = format!("/description: U+{:04X} at {place}", u32::from(c));
            prop_assert_eq!(found.first(), Some(&expected));
        }
    }
}
