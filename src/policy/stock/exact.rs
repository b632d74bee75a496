//! `+`, `-`, `*`, `/` and `%` with OPA's result, or a fault.
//!
//! Whole numbers are exact in both. With fractions OPA counts in binary numbers of 64 bits, our
//! engine in those of 53. So the result is the exact decimal one, where it has few digits and OPA's
//! own result equals it; any other would be a number of which we have only a part, and is a fault,
//! which is a denial.

use regorus::unstable::{ArithOp, Expr, Ref, Span, numbers, sets};
use regorus::{Engine, Source, Value};

use super::EXACT;
use crate::fault::{Error, read_engine_message};

/// Digits of a fraction, or of the result of a sum with one.
const DIGITS_MAX: usize = 15;
/// Places after the point; zeros at the end.
const PLACES_MAX: i32 = 20;
const NOT_EXACT: &str = "arithmetic: OPA has more digits of this result: count in whole units";

/// Puts the function into an engine.
pub(super) fn install(engine: &mut Engine) -> Result<(), Error> {
    let refused = |e: anyhow::Error| Error::Engine(e.to_string());
    let source = Source::from_contents("arithmetic".to_owned(), "-".to_owned()).map_err(refused)?;
    let span = Span { source, line: 1, col: 1, start: 0, end: 1 };
    let operand = Ref::new(Expr::Null { span: span.clone(), value: Value::Null, eidx: 0 });
    let call = move |args: Vec<Value>| {
        let [Value::String(op), lhs, rhs] = args.as_slice() else {
            return Err(anyhow::anyhow!(NOT_EXACT));
        };
        let (lhs, rhs) = (lhs.clone(), rhs.clone());
        let op = match &**op {
            "+" => ArithOp::Add,
            "-" => ArithOp::Sub,
            "*" => ArithOp::Mul,
            "/" => ArithOp::Div,
            _ => ArithOp::Mod,
        };
        if let (ArithOp::Sub, Value::Set(_), Value::Set(_)) = (&op, &lhs, &rhs) {
            return sets::difference(&operand, &operand, lhs, rhs);
        }
        let whole = is_whole(&lhs) && is_whole(&rhs);
        let (left, right) = (Decimal::of(&lhs), Decimal::of(&rhs));
        // A whole number that is kept as a fraction would be counted with as one.
        let (lhs, rhs) = if whole { (again(&lhs)?, again(&rhs)?) } else { (lhs, rhs) };
        let made = numbers::arithmetic_operation(&span, &op, &operand, &operand, lhs, rhs, true);
        let made = made.map_err(|e| anyhow::anyhow!(read_engine_message(&e.to_string()).3))?;
        if whole && is_whole(&made) {
            return Ok(made);
        }
        let exact = left.zip(right).and_then(|(left, right)| left.with(&op, &right));
        let exact = exact.ok_or_else(|| anyhow::anyhow!(NOT_EXACT))?;
        Value::from_json_str(&exact.text())
    };
    engine.add_extension(EXACT.to_owned(), 3, Box::new(call)).map_err(refused)
}

/// Whether a number is written without a point and an exponent.
fn is_whole(value: &Value) -> bool {
    value.to_json_str().is_ok_and(|text| text.bytes().all(|b| b == b'-' || b.is_ascii_digit()))
}

fn again(value: &Value) -> anyhow::Result<Value> {
    Value::from_json_str(&value.to_json_str()?)
}

/// A decimal number: its digits, without a trailing zero, and its power of ten.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Decimal {
    digits: i128,
    power: i32,
}

impl Decimal {
    fn of(value: &Value) -> Option<Self> {
        let text = value.to_json_str().ok()?.to_ascii_lowercase();
        let (number, power) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, places) = number.split_once('.').unwrap_or((number, ""));
        let power: i32 = power.strip_prefix('+').unwrap_or(power).parse().ok()?;
        let power = power.checked_sub(i32::try_from(places.len()).ok()?)?;
        Self { digits: format!("{whole}{places}").parse().ok()?, power }.small()
    }

    fn text(self) -> String {
        match usize::try_from(self.power) {
            Ok(zeros) => format!("{}{}", self.digits, "0".repeat(zeros)),
            Err(_) => format!("{}e{}", self.digits, self.power),
        }
    }

    /// Without zeros at its end; `None`: too many digits or places.
    fn small(self) -> Option<Self> {
        let Self { mut digits, mut power } = self;
        if digits == 0 {
            return Some(Self { digits, power: 0 });
        }
        while digits.checked_rem(10)? == 0 {
            (digits, power) = (digits.checked_div(10)?, power.checked_add(1)?);
        }
        let length = digits.unsigned_abs().to_string().len();
        let fits = length <= DIGITS_MAX && (-PLACES_MAX..=PLACES_MAX).contains(&power);
        fits.then_some(Self { digits, power })
    }

    /// The exact result, if OPA's is the same.
    fn with(self, op: &ArithOp, other: &Self) -> Option<Self> {
        let (a, b) = (Binary::of(self)?, Binary::of(*other)?);
        let (exact, opa) = match op {
            ArithOp::Add => (self.plus(*other)?, a.plus(b)?),
            ArithOp::Sub => (self.plus(other.negative())?, a.plus(b.negative())?),
            ArithOp::Mul => (self.times(*other)?, a.times(b)?),
            ArithOp::Div => (self.over(*other)?, a.over(b)?),
            ArithOp::Mod => return None,
        };
        let exact = exact.small()?;
        (Binary::of(exact)? == opa).then_some(exact)
    }

    const fn negative(self) -> Self {
        Self { digits: self.digits.saturating_neg(), power: self.power }
    }

    fn plus(self, other: Self) -> Option<Self> {
        let power = self.power.min(other.power);
        let at = |one: Self| {
            let places = u32::try_from(one.power.checked_sub(power)?).ok()?;
            one.digits.checked_mul(10_i128.checked_pow(places)?)
        };
        Some(Self { digits: at(self)?.checked_add(at(other)?)?, power })
    }

    fn times(self, other: Self) -> Option<Self> {
        let digits = self.digits.checked_mul(other.digits)?;
        Some(Self { digits, power: self.power.checked_add(other.power)? })
    }

    /// `None` for a quotient that never ends.
    fn over(self, other: Self) -> Option<Self> {
        let scale = 10_i128.checked_pow(18)?;
        let digits = self.digits.checked_mul(scale)?;
        let ends = digits.checked_rem(other.digits)? == 0;
        let power = self.power.checked_sub(other.power)?.checked_sub(18)?;
        ends.then_some(Self { digits: digits.checked_div(other.digits)?, power })
    }
}

/// A binary number of 64 bits as OPA counts with it: `bits` has its highest bit, or is zero.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Binary {
    negative: bool,
    bits: u64,
    power: i32,
}

impl Binary {
    /// The nearest to a decimal number, the even one of two.
    fn of(decimal: Decimal) -> Option<Self> {
        let (negative, digits) = (decimal.digits < 0, decimal.digits.unsigned_abs());
        let fives = 5_u128.checked_pow(decimal.power.unsigned_abs())?;
        if digits == 0 || decimal.power >= 0 {
            return Self::nearest(negative, digits.checked_mul(fives)?, false, decimal.power);
        }
        let shift = digits.leading_zeros();
        let wide = digits.checked_shl(shift)?;
        let (bits, rest) = (wide.checked_div(fives)?, wide.checked_rem(fives)?);
        let power = decimal.power.checked_sub(i32::try_from(shift).ok()?)?;
        Self::nearest(negative, bits, rest != 0, power)
    }

    /// `more`: the number is a little larger than `bits`, which then has more than 65.
    fn nearest(negative: bool, bits: u128, more: bool, power: i32) -> Option<Self> {
        if bits == 0 {
            return Some(Self { negative: false, bits: 0, power: 0 });
        }
        let extra = 64_i32.checked_sub(i32::try_from(bits.leading_zeros()).ok()?)?;
        let power = power.checked_add(extra)?;
        let Ok(extra) = u32::try_from(extra) else {
            let bits = u64::try_from(bits.checked_shl(extra.unsigned_abs())?).ok()?;
            return Some(Self { negative, bits, power });
        };
        let kept = bits.checked_shr(extra)?;
        let cut = bits.checked_sub(kept.checked_shl(extra)?)?;
        let half = 1_u128.checked_shl(extra)?.checked_div(2)?;
        let up = half != 0 && (cut > half || (cut == half && (more || kept % 2 == 1)));
        let rounded = kept.checked_add(u128::from(up))?;
        Some(match u64::try_from(rounded) {
            Ok(bits) => Self { negative, bits, power },
            Err(_) => Self { negative, bits: 1 << 63, power: power.checked_add(1)? },
        })
    }

    const fn negative(self) -> Self {
        Self { negative: !self.negative && self.bits != 0, ..self }
    }

    /// `None`: so far apart that the sum has more than 128 bits.
    fn plus(self, other: Self) -> Option<Self> {
        if self.bits == 0 || other.bits == 0 {
            return Some(if self.bits == 0 { other } else { self });
        }
        let power = self.power.min(other.power);
        let at = |one: Self| {
            let shift = u32::try_from(one.power.checked_sub(power)?).ok()?;
            let bits = i128::from(one.bits).checked_mul(1_i128.checked_shl(shift.min(127))?)?;
            Some(if one.negative { bits.checked_neg()? } else { bits })
        };
        let sum: i128 = at(self)?.checked_add(at(other)?)?;
        Self::nearest(sum < 0, sum.unsigned_abs(), false, power)
    }

    fn times(self, other: Self) -> Option<Self> {
        let bits = u128::from(self.bits).checked_mul(u128::from(other.bits))?;
        let power = self.power.checked_add(other.power)?;
        Self::nearest(self.negative != other.negative, bits, false, power)
    }

    fn over(self, other: Self) -> Option<Self> {
        let (wide, by) = (u128::from(self.bits).checked_shl(64)?, u128::from(other.bits));
        let rest = wide.checked_rem(by)?.checked_mul(4)?;
        let bits = wide.checked_div(by)?.checked_mul(4)?.checked_add(rest.checked_div(by)?)?;
        let power = self.power.checked_sub(other.power)?.checked_sub(66)?;
        Self::nearest(self.negative != other.negative, bits, rest.checked_rem(by)? != 0, power)
    }
}
