//! Refuses arguments for which our engine and OPA give different results; a refusal is a denial.
//!
//! `tests/policies/conformance` found them; each check runs before the engine's own builtin.

use std::net::Ipv6Addr;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use regorus::Value;

const OTHERWISE: &str = "OPA says something else about these arguments";
/// Base64 as Go reads it: left-over bits do not matter.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

pub(super) fn text(args: &[Value], index: usize) -> &str {
    if let Some(Value::String(text)) = args.get(index) { text } else { "" }
}

fn number(value: &Value) -> Option<f64> {
    if let Value::Number(n) = value { n.as_f64() } else { None }
}

const fn unless(diverges: bool) -> Result<(), &'static str> {
    if diverges { Err(OTHERWISE) } else { Ok(()) }
}

/// `array.slice`, `substring`: places are whole numbers.
pub(super) fn whole(args: &[Value]) -> Result<(), &'static str> {
    let places = args.iter().skip(1).filter_map(number);
    unless(places.into_iter().any(|n| n.fract() != 0.0))
}

/// `indexof`: the searched text must not be empty.
pub(super) fn sought(args: &[Value]) -> Result<(), &'static str> {
    unless(matches!(args.get(1), Some(Value::String(sought)) if sought.is_empty()))
}

/// `strings.count`: OPA counts overlapping matches once, our engine twice.
pub(super) fn needle(args: &[Value]) -> Result<(), &'static str> {
    sought(args)?;
    let (all, needle) = (text(args, 0), text(args, 1));
    let overlapping = all.char_indices().filter(|(at, _)| {
        all.get(*at..).is_some_and(|rest| !needle.is_empty() && rest.starts_with(needle))
    });
    unless(overlapping.count() != all.matches(needle).count() && !needle.is_empty())
}

/// `object.subset`: of one type, or a set in an array.
pub(super) fn subset(args: &[Value]) -> Result<(), &'static str> {
    let fits = matches!(
        args,
        [Value::Object(_), Value::Object(_)]
            | [Value::Set(_), Value::Set(_)]
            | [Value::Array(_), Value::Array(_) | Value::Set(_)]
    );
    unless(!fits)
}

/// `ceil`, `floor`, `format_int`: between minus one and nought.
pub(super) fn rounded(args: &[Value]) -> Result<(), &'static str> {
    unless(args.first().and_then(number).is_some_and(|n| n > -1.0 && n < 0.0))
}

/// `sum`: a sum that is exact here is exact in OPA.
pub(super) fn sum(args: &[Value]) -> Result<(), &'static str> {
    exact(args, |a, b| {
        let sum = a + b;
        let part = sum - a;
        (sum, (a - (sum - part)) + (b - part))
    })
}

/// `product`: the same.
pub(super) fn product(args: &[Value]) -> Result<(), &'static str> {
    if let Some(Value::Array(_) | Value::Set(_)) = args.first() {
        let count = members(args.first()).len();
        if count > 256 {
            return Err("the arguments are too large for this builtin");
        }
    }
    exact(args, |a, b| {
        let product = a * b;
        (product, a.mul_add(b, -product))
    })
}

fn members(value: Option<&Value>) -> Vec<&Value> {
    match value {
        Some(Value::Array(items)) => items.iter().collect(),
        Some(Value::Set(items)) => items.iter_sorted().collect(),
        Some(
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_)
            | Value::Undefined,
        )
        | None => Vec::new(),
    }
}

/// `step` gives the rounded result and the error of the rounding.
fn exact(args: &[Value], step: fn(f64, f64) -> (f64, f64)) -> Result<(), &'static str> {
    let numbers: Vec<f64> = members(args.first()).into_iter().filter_map(number).collect();
    if numbers.iter().all(|n| n.fract() == 0.0) {
        return Ok(());
    }
    let mut list = numbers.into_iter();
    let Some(mut all) = list.next() else { return Ok(()) };
    for n in list {
        let (next, lost) = step(all, n);
        unless(lost != 0.0)?;
        all = next;
    }
    Ok(())
}

/// `json.filter`, `json.remove`: no path may lead through a value without members.
pub(super) fn paths(args: &[Value]) -> Result<(), &'static str> {
    for path in members(args.get(1)) {
        let parts: Vec<String> = match path {
            // Pointers that begin with a slash, are empty or escape something.
            Value::String(path)
                if path.is_empty() || path.starts_with('/') || path.contains('~') =>
            {
                return Err(OTHERWISE);
            }
            Value::String(path) => path.split('/').map(str::to_owned).collect(),
            Value::Array(parts) => parts
                .iter()
                .map(
                    |part| {
                        if let Value::String(t) = part { t.to_string() } else { part.to_string() }
                    },
                )
                .collect(),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Set(_)
            | Value::Object(_)
            | Value::Undefined => continue,
        };
        let mut at = args.first();
        for part in parts {
            at = match at {
                Some(Value::Object(members)) => members.get(&Value::from(part)),
                Some(Value::Array(items)) => part.parse::<usize>().ok().and_then(|i| items.get(i)),
                Some(_) => return Err(OTHERWISE),
                None => break,
            };
        }
    }
    Ok(())
}

/// `json.is_valid`: lone surrogates and numbers beyond all bounds are valid there.
pub(super) fn json_text(args: &[Value]) -> Result<(), &'static str> {
    let text = text(args, 0).to_ascii_lowercase();
    let exponent = |rest: &str| {
        let digits = rest.trim_start_matches(['+', '-']);
        digits.chars().take_while(char::is_ascii_digit).count() > 2
    };
    unless(text.contains("\\ud") || text.split('e').skip(1).any(exponent))
}

/// `base64.is_valid`: refuses line ends and left-over bits.
pub(super) fn base64_text(args: &[Value]) -> Result<(), &'static str> {
    let text = text(args, 0);
    let bare = text.replace(['\r', '\n'], "");
    unless(STANDARD.decode(text).is_err() && LENIENT.decode(bare).is_ok())
}

/// `net.cidr_contains`: an IPv4 address in the clothes of an IPv6 one.
pub(super) fn addresses(args: &[Value]) -> Result<(), &'static str> {
    let mapped = |index: usize| {
        let address = text(args, index).split('/').next().unwrap_or_default();
        address.parse::<Ipv6Addr>().is_ok_and(|ip| ip.to_ipv4_mapped().is_some())
    };
    unless(mapped(0) || mapped(1))
}

/// `time.parse_rfc3339_ns`: capital letters, and no sixtieth second.
pub(super) fn instant(args: &[Value]) -> Result<(), &'static str> {
    let text = text(args, 0);
    let capital = text.get(10..11).is_none_or(|t| t == "T") && !text.ends_with('z');
    unless(!capital || text.get(17..19) == Some("60"))
}

/// `semver.is_valid`: versions that OPA takes and the specification does not.
pub(super) fn version(args: &[Value]) -> Result<(), &'static str> {
    let text = text(args, 0);
    let bare = text.trim_start_matches(['v', 'V']);
    let digit = bare.starts_with(|c: char| c.is_ascii_digit());
    unless(digit && semver::Version::parse(text).is_err())
}

/// `to_number`: no blanks.
pub(super) fn numeral(args: &[Value]) -> Result<(), &'static str> {
    unless(text(args, 0).trim() != text(args, 0))
}

/// `replace`: the replaced text must not be empty.
pub(super) fn replaced(args: &[Value]) -> Result<(), &'static str> {
    sought(args)
}

/// `glob.match`: one character is one byte in a set or for a `?`.
pub(super) fn glob(args: &[Value]) -> Result<(), &'static str> {
    let has_wildcard = text(args, 0).contains(['?', '[', '{', '\\']);
    unless(has_wildcard && !(text(args, 0).is_ascii() && text(args, 2).is_ascii()))
}

/// `glob.quote_meta`: only the star is quoted here.
pub(super) fn quoted(args: &[Value]) -> Result<(), &'static str> {
    unless(text(args, 0).contains(['?', '[', ']', '{', '}', '\\']))
}

/// `regex.split`: no match is empty.
pub(super) fn splits(pattern: &str, text: &str) -> Result<(), &'static str> {
    let read = regex::RegexBuilder::new(pattern).size_limit(1 << 20).build();
    let read = read.map_err(|_| "the pattern is not a valid regular expression")?;
    unless(read.find_iter(text).any(|found| found.is_empty()))
}

/// What Go writes for `<`, `>`, `&` and two line ends in texts of JSON.
pub(super) fn escaped(json: &str) -> String {
    if !json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return json.to_owned();
    }
    let mut out = String::with_capacity(json.len().saturating_add(16));
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}
