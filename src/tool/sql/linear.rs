//! Functions of SQLite that take the square of what they are given, made anew to take a pass.
//!
//! A call of a function is one step of SQLite's machine, and nothing stops it half-way: with two long texts of
//! an agent's own making, `instr` would run for minutes. These answer as the originals do
//! (<https://sqlite.org/lang_corefunc.html>).

use std::borrow::Cow;
use std::collections::BTreeSet;

use memchr::memmem;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, Result, ffi};

/// Puts them in the place of SQLite's own, on this connection.
pub(super) fn replace_functions(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("instr", 2, flags, |call| Ok(instr(call)))?;
    let most = connection.limit(rusqlite::limits::Limit::SQLITE_LIMIT_LENGTH)?;
    let most = usize::try_from(most).unwrap_or(0);
    connection.create_scalar_function("replace", 3, flags, move |call| replace(call, most))?;
    for (name, ends) in [("trim", (true, true)), ("ltrim", (true, false)), ("rtrim", (false, true))]
    {
        connection.create_scalar_function(name, 2, flags, move |call| trim(call, ends))?;
    }
    connection.create_scalar_function("unhex", 2, flags, |call| Ok(unhex(call)))
}

/// The value as SQLite makes a text of it; `None` is NULL.
fn text(value: ValueRef<'_>) -> Option<Cow<'_, [u8]>> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(Cow::Owned(number.to_string().into_bytes())),
        ValueRef::Real(number) => Some(Cow::Owned(real(number).into_bytes())),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(Cow::Borrowed(bytes)),
    }
}

/// A number as `%!.15g` writes it.
fn real(number: f64) -> String {
    const DIGITS: usize = 15;
    if number.is_infinite() {
        return if number > 0.0 { "Inf".into() } else { "-Inf".into() };
    }
    let scientific = format!("{number:.*e}", DIGITS.saturating_sub(1));
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let short = |text: &str| {
        let text = text.trim_end_matches('0');
        if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
    };
    if (-4..15).contains(&exponent) {
        let decimals = usize::try_from(14_i32.saturating_sub(exponent)).unwrap_or(0);
        let fixed = format!("{number:.decimals$}");
        return if fixed.contains('.') { short(&fixed) } else { format!("{fixed}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", short(digits), exponent.unsigned_abs())
}

/// `instr(X, Y)`: from 1, in characters, or in bytes if both are blobs.
fn instr(call: &Context<'_>) -> Option<i64> {
    let (whole, part) = (call.get_raw(0), call.get_raw(1));
    let blobs = matches!((whole, part), (ValueRef::Blob(_), ValueRef::Blob(_)));
    let (whole, part) = (text(whole)?, text(part)?);
    let Some(at) = memmem::find(&whole, &part) else { return Some(0) };
    let before = whole.get(..at).unwrap_or_default();
    let begins = |byte: &&u8| blobs || **byte & 0xc0 != 0x80;
    i64::try_from(before.iter().filter(begins).count().saturating_add(1)).ok()
}

/// `replace(X, Y, Z)`.
fn replace(call: &Context<'_>, most: usize) -> Result<Value> {
    let [whole, part, by] = [0, 1, 2].map(|at| text(call.get_raw(at)));
    let (Some(whole), Some(part)) = (whole, part) else { return Ok(Value::Null) };
    if part.first().is_none_or(|byte| *byte == 0) {
        return call.get(0);
    }
    let Some(by) = by else { return Ok(Value::Null) };
    let found: Vec<usize> = memmem::find_iter(&whole, &*part).collect();
    let grown = found.len().saturating_mul(by.len());
    let shrunk = found.len().saturating_mul(part.len());
    if whole.len().saturating_add(grown).saturating_sub(shrunk) > most {
        return Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_TOOBIG), None));
    }
    let (mut out, mut from) = (Vec::new(), 0_usize);
    for at in found {
        out.extend_from_slice(whole.get(from..at).unwrap_or_default());
        out.extend_from_slice(&by);
        from = at.saturating_add(part.len());
    }
    out.extend_from_slice(whole.get(from..).unwrap_or_default());
    told(out)
}

/// `trim(X, Y)` and its halves: without the characters of `Y` at these ends.
fn trim(call: &Context<'_>, (left, right): (bool, bool)) -> Result<Value> {
    let [whole, set] = [0, 1].map(|at| text(call.get_raw(at)));
    let (Some(whole), Some(set)) = (whole, set) else { return Ok(Value::Null) };
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

/// `unhex(X, Y)`: characters of `Y` may stand between the pairs of digits.
fn unhex(call: &Context<'_>) -> Option<Vec<u8>> {
    let (digits, set) = (text(call.get_raw(0))?, text(call.get_raw(1))?);
    let (digits, set) = (String::from_utf8_lossy(&digits), String::from_utf8_lossy(&set));
    let set: BTreeSet<char> = set.chars().filter(|c| !c.is_ascii_hexdigit()).collect();
    let mut out = Vec::new();
    let mut chars = digits.chars();
    while let Some(first) = chars.next() {
        let Some(high) = first.to_digit(16) else {
            if set.contains(&first) {
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
    let refused = |_| Error::UserFunctionError("a text that is no UTF-8".into());
    String::from_utf8(bytes).map_err(refused)
}

fn told(bytes: Vec<u8>) -> Result<Value> {
    utf8(bytes).map(Value::Text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What SQLite's own and these answer.
    fn both(sql: &str, values: &[Value]) -> (Result<Value>, Result<Value>) {
        let own = Connection::open_in_memory().unwrap();
        let made = Connection::open_in_memory().unwrap();
        replace_functions(&made).unwrap();
        let ask = |connection: &Connection| {
            let values = rusqlite::params_from_iter(values.iter().cloned());
            connection.query_row(sql, values, |row| row.get::<_, Value>(0))
        };
        (ask(&own), ask(&made))
    }

    fn same(sql: &str, values: &[Value]) {
        let (own, made) = both(sql, values);
        assert_eq!(made, own, "{sql} {values:?}");
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
                    same(&format!("SELECT {name}(?1, ?2)"), &[one.clone(), other.clone()]);
                }
                for third in &values {
                    let three = [one.clone(), other.clone(), third.clone()];
                    same("SELECT replace(?1, ?2, ?3)", &three);
                }
            }
        }
        for (digits, set) in
            [("4142", ""), ("41 42", " "), ("4 1", " "), ("4g", "g"), ("é41", "é"), ("4", "")]
        {
            same("SELECT unhex(?1, ?2)", &[t(digits), t(set)]);
        }
    }

    #[test]
    fn what_would_be_too_large_is_not_made() {
        let sql = "SELECT replace(hex(zeroblob(100000)), '0', hex(zeroblob(100000)))";
        let (own, made) = both(sql, &[]);
        assert!(own.is_err());
        assert_eq!(made.unwrap_err().sqlite_error_code(), Some(rusqlite::ErrorCode::TooBig));
    }

    proptest! {
        #[test]
        fn numbers_are_the_texts_they_are_elsewhere(bits in any::<u64>(), n in -1_000_000_i64..1_000_000, e in 0..9) {
            for number in [f64::from_bits(bits), n as f64 / 10_f64.powi(e), n as f64 * 10_f64.powi(e * 4)] {
                if !number.is_nan() {
                    same("SELECT instr(?1, ?2) || replace(?1, 'x', 'y')", &[Value::Real(number), Value::Real(number)]);
                }
            }
        }
    }
}
