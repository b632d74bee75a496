//! Makes foreign text safe to show: invisible characters are spelled out.

use unicode_normalization::char::is_combining_mark;

/// Marks one character may carry; more pile up over the lines around.
const MARKS_MAX: usize = 2;

/// The text with everything visible that moves, hides or imitates: control characters (and so every
/// terminal sequence), directions, zero widths, odd spaces, tags, piled-up marks become `\u{..}`;
/// the backslash is doubled, so that no text can imitate an escape.
pub fn visible(text: &str) -> String {
    shown(text, |_| None)
}

/// A whole page, in which [`visible`] left nothing to do unless a text did not pass it: lines stay lines, and what was
/// spelled out stays as it is.
pub fn spelled_out(page: &str) -> String {
    shown(page, |c| match c {
        '\n' => Some("\n"),
        '\\' => Some("\\"),
        _ => None,
    })
}

/// The text as a JSON string that is safe to show: as [`visible`], in quotes, with `\n` and its like
/// for the usual control characters.
pub(super) fn quoted(text: &str) -> String {
    let short = |c| match c {
        '"' => Some("\\\""),
        '\n' => Some("\\n"),
        '\r' => Some("\\r"),
        '\t' => Some("\\t"),
        _ => None,
    };
    format!("\"{}\"", shown(text, short))
}

fn shown(text: &str, short: impl Fn(char) -> Option<&'static str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut marks = 0_usize;
    for c in text.chars() {
        marks = if is_combining_mark(c) { marks.saturating_add(1) } else { 0 };
        if let Some(short) = short(c) {
            out.push_str(short);
        } else if c == '\\' {
            out.push_str("\\\\");
        } else if hidden(c) || marks > MARKS_MAX {
            spell(&mut out, c);
        } else {
            out.push(c);
        }
    }
    out
}

/// The number of escaped characters in a text.
pub(super) fn hidden_in(text: &str) -> usize {
    text.chars().filter(|c| hidden(*c) && !matches!(c, '\n' | '\t' | '\r')).count()
}

fn spell(out: &mut String, c: char) {
    out.push_str(&format!("\\u{{{:x}}}", u32::from(c)));
}

/// Whether a reader would not see this character, or see it somewhere else.
fn hidden(c: char) -> bool {
    c.is_control() || (c.is_whitespace() && c != ' ') || is_format(c) || is_blank(c)
}

/// Characters of the general category `Cf` and others that only steer: directions, joiners, variation
/// selectors, tags, interlinear marks; and what has no meaning everywhere: private use, noncharacters.
fn is_format(c: char) -> bool {
    let point = u32::from(c);
    matches!(point,
        0xAD | 0x34F | 0x600..=0x605 | 0x61C | 0x6DD | 0x70F | 0x890..=0x891 | 0x8E2
        | 0x180B..=0x180F | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F
        | 0xFE00..=0xFE0F | 0xFEFF | 0xFFF0..=0xFFFB | 0xE000..=0xF8FF | 0xFDD0..=0xFDEF
        | 0x110BD | 0x110CD | 0x13430..=0x1345F | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A
        | 0xE0000..=0xE0FFF | 0xF0000..=0x10_FFFF)
        || (point & 0xFFFE) == 0xFFFE
}

/// Letters without ink.
fn is_blank(c: char) -> bool {
    matches!(u32::from(c), 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x2800 | 0x3164 | 0xFFA0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_hides_or_imitates_is_spelled_out() {
        let cases = [
            ("\u{1b}[2K\u{1b}[1A", "\\u{1b}[2K\\u{1b}[1A"),
            ("safe\u{202e}gpj.exe", "safe\\u{202e}gpj.exe"),
            ("a\u{200b}b\u{feff}c", "a\\u{200b}b\\u{feff}c"),
            ("a\u{a0}b\u{3000}c\u{2800}", "a\\u{a0}b\\u{3000}c\\u{2800}"),
            ("\u{e0041}\u{fe0f}", "\\u{e0041}\\u{fe0f}"),
            ("line\rover\u{8}\u{9b}31m", "line\\u{d}over\\u{8}\\u{9b}31m"),
            (r"\u{202e}", r"\\u{202e}"),
            ("Zürich, Αθήνα, 東京", "Zürich, Αθήνα, 東京"),
            ("e\u{301}", "e\u{301}"),
            ("e\u{301}\u{301}\u{301}", "e\u{301}\u{301}\\u{301}"),
        ];
        for (text, shown) in cases {
            assert_eq!(visible(text), shown, "{text:?}");
        }
    }

    #[test]
    fn a_page_keeps_its_lines_and_what_is_spelled_out_and_loses_what_is_not() {
        let page = format!("<p>{}</p>\n", visible("a\u{202e}b\\"));
        assert_eq!(spelled_out(&page), page);
        assert_eq!(spelled_out("a\u{202e}\t\n"), "a\\u{202e}\\u{9}\n");
    }

    #[test]
    fn a_string_is_one_line_and_cannot_end_itself() {
        assert_eq!(quoted("a\nb\"c\\n"), r#""a\nb\"c\\n""#);
        assert_eq!(quoted(r"\u{a}"), r#""\\u{a}""#, "what was spelled out is no line feed");
        assert_eq!(hidden_in("a\n\u{200b}\u{1b}"), 2);
    }

    #[test]
    fn nothing_that_is_shown_steers_a_terminal() {
        for point in 0..=0x10_FFFF_u32 {
            let Some(c) = char::from_u32(point) else { continue };
            let shown = visible(&c.to_string());
            assert!(!shown.chars().any(hidden), "{point:x}");
        }
    }
}
