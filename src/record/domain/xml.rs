//! Text inside XML.

/// Escapes text for XML 1.0, in elements and in attributes; characters that XML cannot hold are
/// replaced.
///
/// Line breaks and tabs stay: readers turn them into spaces in attributes.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup_and_what_xml_cannot_hold_is_replaced() {
        assert_eq!(escaped("<a b=\"1\">&c</a>"), "&lt;a b=&quot;1&quot;&gt;&amp;c&lt;/a&gt;");
        assert_eq!(
            escaped("a\nb\tc\r\u{1b}\u{7f}\u{fffe}é"),
            "a\nb\tc\u{fffd}\u{fffd}\u{fffd}\u{fffd}é"
        );
    }
}
