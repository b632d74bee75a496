//! The pieces of a text by which two texts are compared.

use super::super::templates::holes::{class, is_path};
use super::super::templates::{date_bytes, is_hole};

/// Characters that end a path in running text.
const PATH_ENDS: [char; 17] =
    ['"', '\'', '`', '<', '>', '(', ')', '[', ']', '{', '}', ',', ';', '|', '=', '*', '&'];

/// The pieces of a text, in order: dates, paths, words, line feeds, runs of blanks, single other
/// characters, and what a template would read as a hole. Together they are the text.
pub fn tokens(text: &str) -> Vec<&str> {
    let (mut all, mut rest) = (Vec::new(), text);
    let mut within = false;
    while let Some(first) = rest.chars().next() {
        let bytes = token(rest, first, within).max(first.len_utf8());
        let (token, behind) = rest.split_at_checked(bytes).unwrap_or((rest, ""));
        within = token.chars().next_back().is_some_and(is_word);
        all.push(token);
        rest = behind;
    }
    all
}

/// The bytes of the first piece. `within`: a word ends right before it.
fn token(rest: &str, first: char, within: bool) -> usize {
    let run = |fits: fn(char) -> bool| rest.find(|c: char| !fits(c)).unwrap_or(rest.len());
    if let Some(bytes) = is_hole(rest) {
        return bytes;
    }
    if !within {
        let ends =
            |bytes: &usize| !rest.get(*bytes..).is_some_and(|rest| rest.starts_with(is_word));
        if let Some(bytes) = date_bytes(rest).filter(ends).max() {
            return bytes;
        }
        if is_path(rest) {
            let plain = |c: char| class::of(c) & class::PATH != 0 && !PATH_ENDS.contains(&c);
            let path =
                rest.get(..rest.find(|c: char| !plain(c)).unwrap_or(rest.len())).unwrap_or(rest);
            let path = path.trim_end_matches(['.', ':', '!', '?']);
            if path.len() > 1 {
                return path.len();
            }
        }
    }
    match first {
        '\n' => 1,
        ' ' | '\t' => run(|c| c == ' ' || c == '\t'),
        c if is_word(c) => run(is_word),
        c => c.len_utf8(),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
