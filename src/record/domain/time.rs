//! Wall-clock instants in the form of the ledger: UTC, milliseconds.

use std::fmt;

use super::closed::textual;

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The instant this many milliseconds after the epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The instant this much later.
    #[must_use]
    pub fn plus(self, duration: std::time::Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Reads exactly `2026-11-21T20:05:03.123Z`.
    pub fn parse(text: &str) -> Option<Self> {
        plain(text).or_else(|| Self::parse_any(text))
    }

    /// Reads the same, also without its milliseconds (`2026-11-21T20:05:03Z`): as people write it in files.
    pub fn parse_short(text: &str) -> Option<Self> {
        Self::parse(text).or_else(|| Self::parse(&format!("{}.000Z", text.strip_suffix('Z')?)))
    }

    /// Reads an instant of RFC 3339, with any offset and any fraction of a second, as people write it in queries; what is
    /// finer than a millisecond is cut.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let instant: jiff::Timestamp = text.parse().ok()?;
        Some(Self(instant.as_millisecond()))
    }

    /// Parses with the calendar library, which also decides what is invalid.
    fn parse_any(text: &str) -> Option<Self> {
        let instant: jiff::Timestamp = text.parse().ok()?;
        let read = Self(instant.as_millisecond());
        (read.to_string() == text).then_some(read)
    }

    /// The instant for the calendar library.
    pub fn to_jiff(self) -> jiff::Timestamp {
        jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }
}

textual!(
    Timestamp,
    "an instant like `2026-11-21T20:05:03.123Z`",
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"
);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.to_jiff())
    }
}

const DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Fast path for nearly every entry: an instant of the years 1970 to 9998. `None` decides nothing.
fn plain(text: &str) -> Option<Timestamp> {
    let bytes: &[u8; 24] = text.as_bytes().try_into().ok()?;
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')];
    if marks.iter().any(|(at, mark)| bytes.get(*at) != Some(mark)) {
        return None;
    }
    let number = |from: usize, to: usize| {
        bytes.get(from..to)?.iter().try_fold(0_i64, |number, byte| {
            let digit = i64::from(byte.checked_sub(b'0').filter(|digit| *digit < 10)?);
            number.checked_mul(10)?.checked_add(digit)
        })
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let index = usize::try_from(month.checked_sub(1)?).ok()?;
    let long = DAYS.get(index)?.saturating_add(i64::from(leap && month == 2));
    let fits = (1970..9999).contains(&year)
        && (1..=long).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !fits {
        return None;
    }
    let past = year.checked_sub(1)?;
    // Days since the first day of the year 1, and from there to 1970 (719,162).
    let leaps = (past / 4).checked_sub(past / 100)?.checked_add(past / 400)?;
    let before: i64 = DAYS.iter().take(index).sum();
    let days = past.checked_mul(365)?.checked_add(leaps)?.checked_sub(719_162)?;
    let days = days.checked_add(before)?.checked_add(i64::from(leap && month > 2))?;
    let days = days.checked_add(day)?.checked_sub(1)?;
    let seconds = days.checked_mul(24)?.checked_add(hour)?.checked_mul(60)?.checked_add(minute)?;
    let seconds = seconds.checked_mul(60)?.checked_add(second)?;
    Some(Timestamp(seconds.checked_mul(1000)?.checked_add(number(20, 23)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn the_short_way_agrees_with_the_calendar_library(
            instant in prop_oneof![-70_000_000_000_000_i64..260_000_000_000_000, 0_i64..10_000_000_000_000],
            at in 0_usize..24,
            byte in prop::sample::select(b"0123456789-:.TZ +".to_vec()),
        ) {
            let text = Timestamp(instant).to_string();
            prop_assert_eq!(Timestamp::parse(&text), Timestamp::parse_any(&text));
            let mut other = text.into_bytes();
            if let Some(place) = other.get_mut(at) {
                *place = byte;
            }
            let other = String::from_utf8(other).unwrap();
            prop_assert_eq!(Timestamp::parse(&other), Timestamp::parse_any(&other), "{}", other);
        }
    }

    #[test]
    fn the_ends_of_months_and_years_are_read_as_the_calendar_library_reads_them() {
        for year in [1969, 1970, 1972, 1999, 2000, 2001, 2024, 2026, 2100, 2400, 9998, 9999] {
            for month in 0..=13 {
                for day in 0..=32 {
                    let text = format!("{year:04}-{month:02}-{day:02}T23:59:59.999Z");
                    assert_eq!(Timestamp::parse(&text), Timestamp::parse_any(&text), "{text}");
                }
            }
        }
        for text in
            ["2026-11-21T24:00:00.000Z", "2026-11-21T20:60:00.000Z", "2026-11-21T20:05:60.000Z"]
        {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }
}
