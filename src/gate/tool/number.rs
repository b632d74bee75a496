//! Numbers in released results: every careful reader must get the same value back.

use crate::domain::canonical;
use crate::domain::json::{INT_MAX, Json};

/// An integer as a number if every reader keeps it exact, otherwise as text.
pub(super) fn integer(number: i64) -> Json {
    if (-INT_MAX..=INT_MAX).contains(&number) {
        Json::Int(number)
    } else {
        Json::from(number.to_string())
    }
}

/// A finite number as a JSON number, except whole numbers beyond the exact range, which some
/// readers take for integers. Values that are not numbers become text, in the spelling of databases
/// and protocol buffers.
pub(super) fn float(number: f64) -> Json {
    if number.is_nan() {
        return Json::from("NaN");
    }
    if number.is_infinite() {
        return Json::from(if number > 0.0 { "Infinity" } else { "-Infinity" });
    }
    // The canonical form has no negative zero.
    let json = Json::Float(if number == 0.0 { 0.0 } else { number });
    // A double from 2^53 on has no fraction.
    if number.abs() >= 9_007_199_254_740_992.0 { Json::from(canonical::text(&json)) } else { json }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::json::Limits;

    #[test]
    fn what_is_beyond_exact_numbers_is_text() {
        assert_eq!(integer(9_007_199_254_740_991), Json::Int(9_007_199_254_740_991));
        assert_eq!(integer(9_007_199_254_740_992), Json::from("9007199254740992"));
        assert_eq!(float(f64::NAN), Json::from("NaN"));
        assert_eq!(float(1.5), Json::Float(1.5));
        assert_eq!(float(1e17), Json::from("100000000000000000"));
        assert_eq!(float(-1e300), Json::from("-1e+300"));
    }

    proptest! {
        #[test]
        fn our_own_reader_takes_back_whatever_is_released(bits in any::<u64>(), whole in any::<i64>()) {
            for json in [float(f64::from_bits(bits)), integer(whole)] {
                let text = canonical::bytes(&json);
                let read = Json::parse(&text, &Limits::ARGUMENTS).unwrap();
                prop_assert_eq!(canonical::bytes(&read), text);
            }
        }
    }
}
