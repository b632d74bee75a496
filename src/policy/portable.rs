//! Where our engine would differ from OPA, it fails: an error, which is a denial.
//!
//! Both read regular expressions and change the case of letters, each by the rules of its own
//! language. These checks accept only what both treat alike, and refuse in doubt.

const PATTERN: &str = "the pattern is one that OPA reads in another way";
const EDGES: &str = "`\\B` means ASCII to OPA, and the text is not ASCII";
const LETTERS: &str = "the text has a letter whose other case is no single letter";

/// Go's parser repeats at most so often.
const REPEATS_MAX: u32 = 1000;

/// The arguments of a builtin that are a pattern and its text.
pub(super) fn pattern_of(builtin: &str) -> Option<(usize, usize)> {
    match builtin {
        "regex.replace" => Some((1, 0)),
        name if name.starts_with("regex.") => Some((0, 1)),
        _ => None,
    }
}

/// The pattern that means here what this one means to OPA: `\w`, `\d`, `\s` and `\b` are ASCII
/// there.
pub(super) fn pattern(pattern: &str, text: &str) -> Result<String, &'static str> {
    let chars = pattern.chars().peekable();
    let mut reading = PortableCheck { chars, repeated: false, edges: false, out: String::new() };
    while let Some(c) = reading.chars.next() {
        reading.one(c).ok_or(PATTERN)?;
    }
    if reading.edges && !text.is_ascii() { Err(EDGES) } else { Ok(reading.out) }
}

struct PortableCheck<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    /// Whether the previous item is a repetition: Go does not repeat those.
    repeated: bool,
    /// Whether there is a `\B`.
    edges: bool,
    out: String,
}

impl PortableCheck<'_> {
    /// Keeps the next character unchanged.
    fn keep(&mut self) -> Option<char> {
        let c = self.chars.next()?;
        self.out.push(c);
        Some(c)
    }

    fn keep_if(&mut self, wanted: char) -> bool {
        let there = self.chars.next_if_eq(&wanted).is_some();
        if there {
            self.out.push(wanted);
        }
        there
    }

    /// Reads one part; `None` if it is read in another way there.
    fn one(&mut self, c: char) -> Option<()> {
        let repeated = std::mem::take(&mut self.repeated);
        if c == '\\' {
            return self.escape(false);
        }
        self.out.push(c);
        match c {
            '[' => self.class(),
            '(' => self.group(),
            '*' | '+' | '?' | '{' if repeated => None,
            '*' | '+' | '?' => {
                // The `?` of a lazy one belongs to it.
                self.keep_if('?');
                self.repeated = true;
                Some(())
            }
            '{' => self.counted(),
            _ => Some(()),
        }
    }

    /// What follows a backslash, in a class or not.
    fn escape(&mut self, inside: bool) -> Option<()> {
        let c = self.chars.next()?;
        let ascii = match c.to_ascii_lowercase() {
            'w' => "0-9A-Za-z_",
            'd' => "0-9",
            's' => "\\t\\n\\f\\r ",
            _ => "",
        };
        if !ascii.is_empty() {
            let not = if c.is_ascii_uppercase() { "^" } else { "" };
            self.out.push_str(&format!("[{not}{ascii}]"));
            return Some(());
        }
        if matches!(c, 'b' | 'B') {
            self.edges |= c == 'B';
            self.out.push_str(if c == 'b' { "(?-u:\\b)" } else { "\\B" });
            // `\b{start}` is Rust's alone, and no edge is in a class.
            return (!inside && self.chars.peek() != Some(&'{')).then_some(());
        }
        self.out.extend(['\\', c]);
        match c {
            'p' | 'P' => self.category(),
            'A' | 'z' => (!inside).then_some(()),
            't' | 'n' | 'r' | 'f' | 'v' | 'a' | 'x' => Some(()),
            // `\<` is the begin of a word in Rust, and a character in Go.
            '<' | '>' => None,
            c => c.is_ascii_punctuation().then_some(()),
        }
    }

    /// `\pL`, `\p{Lu}`: general categories are in both, of the rest not all.
    fn category(&mut self) -> Option<()> {
        let known = |c: char| "LMNPSZC".contains(c);
        let first = self.keep()?;
        if first != '{' {
            return known(first).then_some(());
        }
        let mut name = String::new();
        loop {
            match self.keep()? {
                '}' => break,
                c => name.push(c),
            }
        }
        let mut letters = name.chars();
        let fits = letters.next().is_some_and(known)
            && letters.next().is_none_or(|c| c.is_ascii_lowercase())
            && letters.next().is_none();
        fits.then_some(())
    }

    /// `(?i)`, `(?P<name>`: only the flags that both have.
    fn group(&mut self) -> Option<()> {
        if !self.keep_if('?') {
            return Some(());
        }
        if self.keep_if('P') {
            return (self.keep()? == '<').then_some(());
        }
        loop {
            match self.keep()? {
                'i' | 'm' | 's' | 'U' | '-' => {}
                ':' | ')' => return Some(()),
                _ => return None,
            }
        }
    }

    /// `{2}`, `{2,}`, `{2,5}`; any other brace is a character in Go and an error in Rust.
    fn counted(&mut self) -> Option<()> {
        let mut inner = String::new();
        loop {
            match self.keep()? {
                '}' => break,
                c => inner.push(c),
            }
        }
        let (least, most) = inner.split_once(',').unwrap_or((&inner, &inner));
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let number = |text: &str| {
            let number = text.parse::<u32>().ok().filter(|_| digits(text));
            number.filter(|n| *n <= REPEATS_MAX)
        };
        number(least)?;
        if !most.is_empty() {
            number(most)?;
        }
        self.keep_if('?');
        self.repeated = true;
        Some(())
    }

    /// `[^a-z]`: without Rust's own extensions, nested classes and their differences.
    fn class(&mut self) -> Option<()> {
        self.keep_if('^');
        self.keep_if(']');
        loop {
            if self.chars.next_if_eq(&'\\').is_some() {
                self.escape(true)?;
                continue;
            }
            match self.keep()? {
                ']' => return Some(()),
                '[' => {
                    if !self.keep_if(':') {
                        return None;
                    }
                    while self.keep()? != ']' {}
                }
                c @ ('&' | '-' | '~') if self.chars.peek() == Some(&c) => return None,
                _ => {}
            }
        }
    }
}

/// Whether every letter has one letter for its upper case, as Go changes them.
pub(super) fn upper(text: &str) -> Result<(), &'static str> {
    let single = |c: char| c.to_uppercase().count() == 1;
    if text.is_ascii() || text.chars().all(single) { Ok(()) } else { Err(LETTERS) }
}

/// Whether every letter has a single lower-case letter, independent of its place.
pub(super) fn lower(text: &str) -> Result<(), &'static str> {
    let single = |c: char| c != 'Σ' && c.to_lowercase().count() == 1;
    if text.is_ascii() || text.chars().all(single) { Ok(()) } else { Err(LETTERS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_read_alike_is_let_through() {
        for fine in [
            "",
            "^a+b*?$",
            "(?i)abc",
            "(?P<x>a)",
            "[^a-z\\]]",
            "[[:alpha:]_-]",
            "a{2}b{2,}c{2,5}?",
            "\\.x",
            "\\pL\\p{Lu}",
            "[]a]",
            "(?:a|b)",
            "\\x41",
            "a\\-b",
            "é|ü",
        ] {
            assert_eq!(pattern(fine, "ä").as_deref(), Ok(fine));
        }
    }

    #[test]
    fn classes_become_the_ascii_ones_that_opa_means() {
        for (given, made) in [
            ("^\\w+$", "^[0-9A-Za-z_]+$"),
            ("\\D\\s", "[^0-9][\\t\\n\\f\\r ]"),
            ("[\\w.-]", "[[0-9A-Za-z_].-]"),
            ("\\ba", "(?-u:\\b)a"),
        ] {
            assert_eq!(pattern(given, "ä").as_deref(), Ok(made));
            assert!(regex::Regex::new(made).is_ok(), "{made}");
        }
        assert!(pattern("\\B", "a").is_ok());
        assert_eq!(pattern("\\B", "ä"), Err(EDGES));
    }

    #[test]
    fn what_only_one_of_them_has_or_reads_in_its_own_way_is_refused() {
        for text in [
            "a**",
            "a*+",
            "a{2}{3}",
            "a{1001}",
            "x{",
            "x{,2}",
            "x{+2}",
            "(?x)a b",
            "(?u)a",
            "(?R)a",
            "[a&&b]",
            "[a--b]",
            "[a~~b]",
            "[a[bc]]",
            "\\<a",
            "\\b{start}",
            "\\p{Greek}",
            "\\p{White_Space}",
            "\\Qa\\E",
            "\\1",
            "(?=a)",
            "[a",
            "\\",
        ] {
            assert_eq!(pattern(text, "abc"), Err(PATTERN), "{text}");
        }
    }

    #[test]
    fn letters_without_a_single_other_case_are_refused() {
        assert!(upper("straße").is_err() && upper("ﬃ").is_err() && upper("äé").is_ok());
        assert!(lower("İ").is_err() && lower("ΟΔΟΣ").is_err() && lower("ÄÉ").is_ok());
    }
}
