//! `sprintf` as OPA writes it: rewrites or refuses what our engine would write differently.

use regorus::Value;

const ODD: &str = "OPA writes this verb of this value in another way";

/// One `%5.2f`.
struct Verb {
    zero: bool,
    width: usize,
    precision: Option<usize>,
    letter: char,
}

/// The call that makes OPA's text: verbs that our engine writes otherwise have become texts. A call with more
/// or fewer values than verbs is refused.
pub(super) fn meant(format: &str, values: &[Value]) -> Result<(String, Vec<Value>), &'static str> {
    let (mut out, mut list) = (String::with_capacity(format.len()), values.to_vec());
    let (mut chars, mut next) = (format.chars().peekable(), 0_usize);
    while let Some(c) = chars.next() {
        out.push(c);
        if c != '%' {
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let mut digits = String::new();
        while let Some(c) = chars.next_if(|c| c.is_ascii_digit() || *c == '.') {
            digits.push(c);
        }
        let letter = chars.next().ok_or(ODD)?;
        let (width, precision) = digits.split_once('.').unwrap_or((&digits, ""));
        let number = |text: &str| text.parse::<usize>().unwrap_or_default();
        let verb = Verb {
            zero: width.starts_with('0'),
            width: number(width),
            precision: digits.contains('.').then(|| number(precision)),
            letter,
        };
        let slot = list.get_mut(next).ok_or(ODD)?;
        next = next.saturating_add(1);
        match verb.written(slot)? {
            Some(text) => {
                *slot = Value::from(text);
                out.push('s');
            }
            None => {
                out.push_str(&digits);
                out.push(letter);
            }
        }
    }
    if next == list.len() { Ok((out, list)) } else { Err(ODD) }
}

impl Verb {
    /// The replacement for the value; `None`: our engine writes it as OPA does.
    fn written(&self, value: &Value) -> Result<Option<String>, &'static str> {
        let plain = self.width == 0 && self.precision.is_none();
        if let Value::Number(n) = value {
            // WHY: for other numbers, OPA's output depends on the spelling of their text.
            plain_numbers(value)?;
            if n.as_i64().is_some_and(|n| n.unsigned_abs() > 1 << 53) {
                return Err(ODD);
            }
        }
        match (self.letter, value) {
            ('s' | 'v', Value::String(text)) => {
                let most = self.precision.unwrap_or(usize::MAX);
                self.padded("", &text.chars().take(most).collect::<String>(), false)
            }
            ('v', Value::Number(n)) if plain && n.as_i64().is_none() => {
                Ok(n.as_f64().and_then(exponent))
            }
            ('v', Value::Number(_)) if plain => Ok(None),
            ('s' | 't' | 'f', Value::Number(n)) if plain && n.as_i64().is_some() => {
                Ok(n.as_i64().map(|n| self.unfit("int64", &n.to_string())))
            }
            ('s', Value::Number(_)) => Err(ODD),
            ('s' | 'v', other) if plain => plain_numbers(other).map(|()| None),
            ('v', Value::Number(n)) if self.precision.is_none() => {
                n.as_i64().map_or(Err(ODD), |n| self.integer(n, 10, false))
            }
            ('s' | 'v', Value::Bool(truth)) if self.precision.is_none() => {
                self.padded("", &truth.to_string(), false)
            }
            ('x' | 'X', Value::String(text)) if plain => {
                let hex = hex::encode(text.as_bytes());
                let upper = self.letter == 'X';
                Ok(Some(if upper { hex.to_ascii_uppercase() } else { hex }))
            }
            ('d' | 'x' | 'X' | 'o' | 'b', Value::Number(n)) if self.precision.is_none() => {
                let Some(n) = n.as_i64() else {
                    return if n.is_integer() { Ok(None) } else { Err(ODD) };
                };
                let radix = match self.letter {
                    'o' => 8,
                    'b' => 2,
                    'd' => 10,
                    _ => 16,
                };
                self.integer(n, radix, self.letter == 'X')
            }
            ('f', Value::Number(n)) => match (n.as_i64(), n.as_f64()) {
                (None, Some(n)) => {
                    let text = format!("{:.*}", self.precision.unwrap_or(6), n.abs());
                    self.padded(if n < 0.0 { "-" } else { "" }, &text, self.zero)
                }
                _whole => Err(ODD),
            },
            ('c', Value::Number(n)) if plain => {
                let known = n.as_i64().and_then(|n| u32::try_from(n).ok()).and_then(char::from_u32);
                known.map_or(Err(ODD), |c| Ok(Some(c.to_string())))
            }
            ('q', Value::String(_)) if plain => Ok(None),
            // What is neither a number nor a text is a text to OPA's `sprintf`.
            ('d' | 't' | 'f' | 'o' | 'b' | 'c', Value::String(text)) if plain => {
                Ok(Some(self.unfit("string", text)))
            }
            ('d' | 't' | 'f' | 'o' | 'b' | 'c', Value::Bool(_) | Value::Null) if plain => {
                Ok(Some(self.unfit("string", &value.to_string())))
            }
            _other => Err(ODD),
        }
    }

    /// `%!d(string=a)`: OPA's output where the verb does not fit the value.
    fn unfit(&self, kind: &str, text: &str) -> String {
        format!("%!{}({kind}={text})", self.letter)
    }

    fn integer(&self, n: i64, radix: u32, upper: bool) -> Result<Option<String>, &'static str> {
        let n_abs = n.unsigned_abs();
        let digits = match radix {
            2 => format!("{n_abs:b}"),
            8 => format!("{n_abs:o}"),
            16 if upper => format!("{n_abs:X}"),
            16 => format!("{n_abs:x}"),
            _ => n_abs.to_string(),
        };
        self.padded(if n < 0 { "-" } else { "" }, &digits, self.zero)
    }

    /// To the width: with blanks before the sign, or with zeros behind it.
    fn padded(&self, sign: &str, text: &str, zeros: bool) -> Result<Option<String>, &'static str> {
        if self.zero && !zeros {
            return Err(ODD);
        }
        let length = sign.len().saturating_add(text.chars().count());
        let padding = self.width.saturating_sub(length);
        Ok(Some(if zeros {
            format!("{sign}{}{text}", "0".repeat(padding))
        } else {
            format!("{}{sign}{text}", " ".repeat(padding))
        }))
    }
}

/// `1.23456789125e+08`, as Go writes it from a million on and below a ten-thousandth.
fn exponent(n: f64) -> Option<String> {
    if n == 0.0 || (1e-4..1e6).contains(&n.abs()) {
        return None;
    }
    let text = format!("{n:e}");
    let (digits, power) = text.split_once('e')?;
    let (sign, power) = power.strip_prefix('-').map_or(("+", power), |power| ("-", power));
    Some(format!("{digits}e{sign}{power:0>2}"))
}

/// Whether every number in it is written without an exponent by both.
pub(super) fn plain_numbers(value: &Value) -> Result<(), &'static str> {
    let mut todo = vec![value];
    while let Some(value) = todo.pop() {
        match value {
            Value::Number(n) => {
                let size = n.as_f64().unwrap_or_default().abs();
                if n.as_i64().is_none() && !(1e-4..1e15).contains(&size) {
                    return Err("a number that OPA writes in another way");
                }
            }
            Value::Array(items) => todo.extend(items.iter()),
            Value::Set(items) => todo.extend(items.iter()),
            Value::Object(members) => todo.extend(members.iter().flat_map(|(k, v)| [k, v])),
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Undefined => {}
        }
    }
    Ok(())
}
