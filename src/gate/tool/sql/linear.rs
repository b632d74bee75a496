//! Replacements for SQLite functions with quadratic run time, which run in linear time.
//!
//! A function call is one step of SQLite's machine and cannot be interrupted: with two long texts
//! of an agent's choice, `instr` would run for minutes. The replacements return the same results as
//! the originals (<https://sqlite.org/lang_corefunc.html>).

use std::borrow::Cow;
use std::collections::BTreeSet;

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, Result, ffi};

/// Replaces SQLite's own functions on this connection.
pub(super) fn replace_functions(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("instr", 2, flags, instr)?;
    let most = connection.limit(rusqlite::limits::Limit::SQLITE_LIMIT_LENGTH)?;
    let most = usize::try_from(most).unwrap_or(0);
    connection.create_scalar_function("replace", 3, flags, move |call| replace(call, most))?;
    for (name, ends) in [("trim", (true, true)), ("ltrim", (true, false)), ("rtrim", (false, true))]
    {
        connection.create_scalar_function(name, 2, flags, move |call| trim(call, ends))?;
    }
    connection.create_scalar_function("unhex", 2, flags, unhex)
}

/// The bytes of SQLite's text form of the value; `None` is NULL.
fn text(value: ValueRef<'_>) -> Result<Option<Cow<'_, [u8]>>> {
    Ok(Some(match value {
        ValueRef::Null => return Ok(None),
        ValueRef::Integer(number) => Cow::Owned(number.to_string().into_bytes()),
        ValueRef::Real(number) => Cow::Owned(real(number)?.into_bytes()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Cow::Borrowed(bytes),
    }))
}

/// A number in SQLite's `%!.15g` format.
///
/// # Errors
/// The number needs more digits, which SQLite rounds in its own way.
fn real(number: f64) -> Result<String> {
    if number.is_infinite() {
        return Ok(if number > 0.0 { "Inf".into() } else { "-Inf".into() });
    }
    let scientific = format!("{:e}", number.abs());
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let (digits, exponent) = (digits.replace('.', ""), exponent.parse::<i32>().unwrap_or(0));
    if digits.len() > 15 {
        return Err(refused("a number of more than 15 digits: CAST it to TEXT"));
    }
    let sign = if number < 0.0 { "-" } else { "" };
    let written = match usize::try_from(exponent) {
        Ok(whole @ 0..15) => {
            let digits = format!("{digits:0<width$}", width = whole.saturating_add(2));
            let (whole, fraction) = digits.split_at(whole.saturating_add(1));
            format!("{sign}{whole}.{fraction}")
        }
        Err(_) if exponent >= -4 => {
            let zeros = usize::try_from(exponent.unsigned_abs().saturating_sub(1)).unwrap_or(0);
            format!("{sign}0.{}{digits}", "0".repeat(zeros))
        }
        Ok(_) | Err(_) => {
            let digits = format!("{digits:0<2}");
            let (first, rest) = digits.split_at(1);
            let to = if exponent < 0 { '-' } else { '+' };
            format!("{sign}{first}.{rest}e{to}{:02}", exponent.unsigned_abs())
        }
    };
    Ok(written)
}

/// Maps each byte to a character, because the library searches only text in linear time.
fn wide(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn narrow(text: &str) -> Vec<u8> {
    text.chars().filter_map(|c| u8::try_from(u32::from(c)).ok()).collect()
}

/// `instr(X, Y)`: 1-based, in characters, or in bytes if both are blobs.
fn instr(call: &Context<'_>) -> Result<Option<i64>> {
    let (whole, part) = (call.get_raw(0), call.get_raw(1));
    let blobs = matches!((whole, part), (ValueRef::Blob(_), ValueRef::Blob(_)));
    let (Some(whole), Some(part)) = (text(whole)?, text(part)?) else { return Ok(None) };
    let whole = wide(&whole);
    let Some(at) = whole.find(&wide(&part)) else { return Ok(Some(0)) };
    let begins = |c: &char| blobs || u32::from(*c) & 0xc0 != 0x80;
    let before = whole.get(..at).unwrap_or_default().chars().filter(begins).count();
    Ok(i64::try_from(before.saturating_add(1)).ok())
}

/// `replace(X, Y, Z)`.
fn replace(call: &Context<'_>, most: usize) -> Result<Value> {
    let [whole, part, by] = [0, 1, 2].map(|at| text(call.get_raw(at)));
    let (Some(whole), Some(part)) = (whole?, part?) else { return Ok(Value::Null) };
    if part.first().is_none_or(|byte| *byte == 0) {
        return utf8(whole.into_owned()).map(Value::Text);
    }
    let Some(by) = by? else { return Ok(Value::Null) };
    let bytes = (whole.len(), part.len(), by.len());
    let (whole, part) = (wide(&whole), wide(&part));
    let found = whole.matches(&part).count();
    let (grown, shrunk) = (found.saturating_mul(bytes.2), found.saturating_mul(bytes.1));
    if bytes.0.saturating_add(grown).saturating_sub(shrunk) > most {
        return Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_TOOBIG), None));
    }
    utf8(narrow(&whole.replace(&part, &wide(&by)))).map(Value::Text)
}

/// `trim(X, Y)`, `ltrim` and `rtrim`: removes the characters of `Y` at these ends.
fn trim(call: &Context<'_>, (left, right): (bool, bool)) -> Result<Value> {
    let [whole, set] = [0, 1].map(|at| text(call.get_raw(at)));
    let (Some(whole), Some(set)) = (whole?, set?) else { return Ok(Value::Null) };
    let (whole, set) = (utf8(whole.into_owned())?, utf8(set.into_owned())?);
    let set: BTreeSet<char> = set.chars().collect();
    let is_in = |c: char| set.contains(&c);
    let mut rest = whole.as_str();
    if left {
        rest = rest.trim_start_matches(is_in);
    }
    if right {
        rest = rest.trim_end_matches(is_in);
    }
    Ok(Value::Text(rest.to_owned()))
}

/// `unhex(X, Y)`: characters of `Y` may separate the pairs of digits.
fn unhex(call: &Context<'_>) -> Result<Option<Vec<u8>>> {
    let [digits, set] = [0, 1].map(|at| text(call.get_raw(at)));
    let (Some(digits), Some(set)) = (digits?, set?) else { return Ok(None) };
    let (digits, set) = (String::from_utf8_lossy(&digits), String::from_utf8_lossy(&set));
    let set: BTreeSet<char> = set.chars().filter(|c| !c.is_ascii_hexdigit()).collect();
    Ok(pairs(&digits, |c| set.contains(&c)))
}

fn pairs(digits: &str, between: impl Fn(char) -> bool) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut chars = digits.chars();
    while let Some(first) = chars.next() {
        let Some(high) = first.to_digit(16) else {
            if between(first) {
                continue;
            }
            return None;
        };
        let low = chars.next()?.to_digit(16)?;
        out.push(u8::try_from(high.saturating_mul(16).saturating_add(low)).ok()?);
    }
    Some(out)
}

fn utf8(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| refused("a text that is no UTF-8"))
}

fn refused(why: &str) -> Error {
    Error::UserFunctionError(why.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The results of SQLite's function and of the replacement.
    fn both(sql: &str, values: &[Value]) -> (Result<Value>, Result<Value>) {
        let original = Connection::open_in_memory().unwrap();
        let replacement = Connection::open_in_memory().unwrap();
        replace_functions(&replacement).unwrap();
        let ask = |connection: &Connection| {
            let values = rusqlite::params_from_iter(values.iter().cloned());
            connection.query_row(sql, values, |row| row.get::<_, Value>(0))
        };
        (ask(&original), ask(&replacement))
    }

    fn assert_same(sql: &str, values: &[Value]) {
        let (original, replacement) = both(sql, values);
        assert_eq!(replacement, original, "{sql} {values:?}");
    }

    #[test]
    fn they_answer_as_the_originals_do() {
        let t = |text: &str| Value::Text(text.to_owned());
        let b = |bytes: &[u8]| Value::Blob(bytes.to_vec());
        let values = [
            Value::Null,
            t(""),
            t("a"),
            t("äbä"),
            t("aab\u{1F600}baa"),
            t("ab"),
            Value::Integer(-120),
            Value::Integer(2),
            Value::Real(1.5),
            Value::Real(-2.0),
            Value::Real(1e100),
            b(b""),
            b(b"ab"),
            b("äb".as_bytes()),
        ];
        for one in &values {
            for other in &values {
                for name in ["instr", "trim", "ltrim", "rtrim"] {
                    assert_same(&format!("SELECT {name}(?1, ?2)"), &[one.clone(), other.clone()]);
                }
                for third in &values {
                    let three = [one.clone(), other.clone(), third.clone()];
                    assert_same("SELECT replace(?1, ?2, ?3)", &three);
                }
            }
        }
        for (digits, set) in
            [("4142", ""), ("41 42", " "), ("4 1", " "), ("4g", "g"), ("é41", "é"), ("4", "")]
        {
            assert_same("SELECT unhex(?1, ?2)", &[t(digits), t(set)]);
        }
    }

    #[test]
    fn what_would_be_too_large_is_not_made() {
        let sql = "SELECT replace(hex(zeroblob(100000)), '0', hex(zeroblob(100000)))";
        let (original, replacement) = both(sql, &[]);
        assert!(original.is_err());
        assert_eq!(replacement.unwrap_err().sqlite_error_code(), Some(rusqlite::ErrorCode::TooBig));
    }

    proptest! {
        #[test]
        fn numbers_are_the_texts_they_are_elsewhere(n in -999_999_999_999_999_i64..=999_999_999_999_999, e in -30..30, few in -9999_i64..9999) {
            for digits in [n, few] {
                let number = format!("{digits}e{e}").parse().unwrap();
                let values = [Value::Real(number), Value::Real(number)];
                assert_same("SELECT instr(?1, ?2) || replace(?1, 'x', 'y')", &values);
            }
        }
    }

    #[test]
    fn a_number_that_would_be_rounded_must_be_cast_to_text() {
        let (_, replacement) = both("SELECT instr(0.1 + 0.2, '3')", &[]);
        assert!(replacement.unwrap_err().to_string().contains("CAST it to TEXT"));
        assert_same("SELECT instr(CAST(0.1 + 0.2 AS TEXT), '3')", &[]);
    }
}
