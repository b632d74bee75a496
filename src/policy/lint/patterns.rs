//! Patterns that match more than they seem to: regular expressions that match anywhere in a text,
//! globs whose `*` crosses separators.

use regorus::Value;
use regorus::unstable::{Expr, Ref};

use super::locals::Locals;
use crate::ast;

/// The code and the message, if a call of this builtin is such a pattern, written out here or where its variable is set.
pub(super) fn trap(
    name: &str,
    params: &[Ref<Expr>],
    locals: &Locals,
) -> Option<(&'static str, String)> {
    let pattern = params.first().and_then(|param| locals.text(param))?;
    let pattern = pattern.as_str();
    match name {
        "regex.match" if !anchored(pattern) => {
            let message = format!("the pattern `{pattern}` is found anywhere in a longer text");
            Some(("lint.regex_unanchored", message))
        }
        "glob.match" => {
            let delimiter = lost_border(pattern, params.get(1)?)?;
            let message = format!("`*` of the pattern `{pattern}` matches across `{delimiter}`");
            Some(("lint.glob_delimiters", message))
        }
        _ => None,
    }
}

/// Whether every alternative of a regular expression begins and ends where the text does.
fn anchored(pattern: &str) -> bool {
    let mut rest = pattern;
    if let Some((flags, after)) = rest.strip_prefix("(?").and_then(|rest| rest.split_once(')'))
        && flags.bytes().all(|flag| flag.is_ascii_alphabetic() || flag == b'-')
    {
        if flags.contains('m') {
            return false;
        }
        rest = after;
    }
    if let Some(inner) = whole_group(rest) {
        return anchored(inner);
    }
    alternatives(rest).into_iter().all(|one| {
        let begins = one.starts_with('^') || one.starts_with(r"\A");
        let ends =
            one.strip_suffix('$').is_some_and(|before| !escaped(before)) || one.ends_with(r"\z");
        begins && ends
    })
}

/// The contents of `(…)` or `(?:…)`, if the pattern is nothing else.
fn whole_group(pattern: &str) -> Option<&str> {
    let inner = pattern.strip_prefix('(')?.strip_suffix(')')?;
    let mut depth = 0_usize;
    for (_, c) in plain(inner) {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    let inner = inner.strip_prefix("?:").unwrap_or(inner);
    (depth == 0 && !inner.starts_with('?')).then_some(inner)
}

/// The alternatives of a pattern outside of its groups.
fn alternatives(pattern: &str) -> Vec<&str> {
    let (mut found, mut from, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, c) in plain(pattern) {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => {
                found.extend(pattern.get(from..at));
                from = at.saturating_add(1);
            }
            _ => {}
        }
    }
    found.extend(pattern.get(from..));
    found
}

/// The characters of a pattern that are neither escaped nor in a class.
fn plain(pattern: &str) -> Vec<(usize, char)> {
    let (mut found, mut class) = (Vec::new(), false);
    let mut chars = pattern.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => _ = chars.next(),
            '[' => class = true,
            ']' => class = false,
            _ if !class => found.push((at, c)),
            _ => {}
        }
    }
    found
}

/// Whether a text ends with an odd number of backslashes.
fn escaped(before: &str) -> bool {
    before.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// The border that a single `*` of this glob does not keep.
fn lost_border(pattern: &str, delimiters: &Expr) -> Option<char> {
    if !pattern.replace("**", "").contains('*') {
        return None;
    }
    let known = delimiters_of(delimiters)?;
    let wanted = if pattern.contains('/') {
        '/'
    } else if pattern.contains(':') && !pattern.contains('.') {
        ':'
    } else {
        '.'
    };
    (!known.contains(&wanted)).then_some(wanted)
}

/// The literal delimiters of a call: none for `null`, the dot for an empty list.
#[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
fn delimiters_of(expr: &Expr) -> Option<Vec<char>> {
    match expr {
        Expr::Null { value: Value::Null, .. } => Some(Vec::new()),
        Expr::Array { items, .. } if items.is_empty() => Some(vec!['.']),
        Expr::Array { items, .. } => items
            .iter()
            .map(|item| ast::literal(item).and_then(|text| text.chars().next()))
            .collect(),
        _other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_counts_only_where_it_holds_for_the_whole_text() {
        for pattern in [
            "^a$",
            r"\Aa\z",
            "^(a|b)$",
            "(?i)^a$",
            "^[|]$",
            r"^\|$",
            "^a$|^b$",
            "(^a$|^b$)",
            r"^a\\$",
        ] {
            assert!(anchored(pattern), "{pattern}");
        }
        for pattern in [
            "a",
            "^a",
            "a$",
            "^a|b$",
            r"^a\$",
            "(?m)^a$",
            "",
            "(a)",
            "^a$|b",
            r"(^a)|(b$)",
            "(?:a|^b$)",
        ] {
            assert!(!anchored(pattern), "{pattern}");
        }
    }
}
