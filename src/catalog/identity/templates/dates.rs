//! Dates in the forms in which clients write them into instructions.

/// Bytes of the shortest form: `1/1/2026`.
pub(super) const BYTES_MIN: usize = 8;
/// Bytes of the longest form: `2026-11-27T09:16:00.123456789+00:00`.
pub(super) const BYTES_MAX: usize = 40;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// One part of a form.
#[derive(Clone, Copy)]
enum DatePart {
    /// Four digits.
    Year,
    /// Two digits, 01 to 12.
    Month,
    /// Two digits, 01 to 31.
    Day,
    /// One or two digits, 1 to 31.
    ShortDay,
    /// The English name of a month.
    MonthName,
    /// Its first three letters.
    MonthLetters,
    /// The English name of a day of the week.
    Weekday,
    /// Its first three letters.
    WeekdayLetters,
    /// `09:16`, `09:16:00`, `09:16:00.123`; with `Z`, `+01:00` or `+0100` if that follows.
    Time,
    /// This very text.
    Is(&'static str),
}

use DatePart::{
    Day, Is, Month, MonthLetters, MonthName, ShortDay, Time, Weekday, WeekdayLetters, Year,
};

/// How many forms there are.
pub(super) const FORMS_COUNT: u64 = 14;

/// Every form. The numbers of days and months are checked alone, so `2026-02-31` is a date.
const FORMS: [&[DatePart]; 14] = [
    &[Year, Is("-"), Month, Is("-"), Day],
    &[Year, Is("-"), Month, Is("-"), Day, Is("T"), Time],
    &[Year, Is("-"), Month, Is("-"), Day, Is(" "), Time],
    &[Year, Is("/"), Month, Is("/"), Day],
    &[ShortDay, Is("/"), ShortDay, Is("/"), Year],
    &[ShortDay, Is("."), ShortDay, Is("."), Year],
    &[WeekdayLetters, Is(" "), MonthLetters, Is(" "), Day, Is(" "), Year],
    &[WeekdayLetters, Is(", "), ShortDay, Is(" "), MonthLetters, Is(" "), Year],
    &[Weekday, Is(", "), MonthName, Is(" "), ShortDay, Is(", "), Year],
    &[Weekday, Is(", "), ShortDay, Is(" "), MonthName, Is(" "), Year],
    &[MonthName, Is(" "), ShortDay, Is(", "), Year],
    &[MonthLetters, Is(" "), ShortDay, Is(", "), Year],
    &[ShortDay, Is(" "), MonthName, Is(" "), Year],
    &[ShortDay, Is(" "), MonthLetters, Is(" "), Year],
];

/// The bytes of each form that this text begins with.
pub(super) fn lengths(rest: &str) -> impl Iterator<Item = usize> {
    let starts = rest.bytes().next().is_some_and(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
    let forms = FORMS.iter().filter(move |_| starts);
    forms.filter_map(move |form| {
        let end = form.iter().try_fold(rest, |rest, part| part.behind(rest))?;
        Some(rest.len().saturating_sub(end.len()))
    })
}

impl DatePart {
    /// What follows it in this text.
    fn behind(self, rest: &str) -> Option<&str> {
        match self {
            Self::Year => number(rest, 4, 1..=9999),
            Self::Month => number(rest, 2, 1..=12),
            Self::Day => number(rest, 2, 1..=31),
            Self::ShortDay => number(rest, 2, 1..=31).or_else(|| number(rest, 1, 1..=9)),
            Self::MonthName => one_of(rest, &MONTHS, None),
            Self::MonthLetters => one_of(rest, &MONTHS, Some(3)),
            Self::Weekday => one_of(rest, &WEEKDAYS, None),
            Self::WeekdayLetters => one_of(rest, &WEEKDAYS, Some(3)),
            Self::Time => time(rest),
            Self::Is(text) => rest.strip_prefix(text),
        }
    }
}

/// Behind so many digits with a value in this range.
fn number(rest: &str, digits: usize, range: std::ops::RangeInclusive<u32>) -> Option<&str> {
    let (written, behind) = rest.split_at_checked(digits)?;
    let plain = written.bytes().all(|b| b.is_ascii_digit());
    let value = plain.then(|| written.parse().ok()).flatten()?;
    range.contains(&value).then_some(behind)
}

/// Behind one of these names, or behind so many first letters of one.
fn one_of<'a>(rest: &'a str, names: &[&str], letters: Option<usize>) -> Option<&'a str> {
    let mut written =
        names.iter().filter_map(|name| letters.map_or(Some(*name), |n| name.get(..n)));
    written.find_map(|name| rest.strip_prefix(name))
}

/// Behind a time of day.
fn time(rest: &str) -> Option<&str> {
    let rest = number(rest, 2, 0..=23)?.strip_prefix(':')?;
    let mut rest = number(rest, 2, 0..=59)?;
    if let Some(seconds) = rest.strip_prefix(':').and_then(|rest| number(rest, 2, 0..=60)) {
        rest = seconds;
        if let Some(fraction) = rest.strip_prefix('.') {
            let digits = fraction.bytes().take(9).take_while(u8::is_ascii_digit).count();
            rest = fraction.get(digits..).filter(|_| digits > 0).unwrap_or(rest);
        }
    }
    Some(rest.strip_prefix('Z').or_else(|| zone(rest)).unwrap_or(rest))
}

/// Behind the distance of a time zone from UTC.
fn zone(rest: &str) -> Option<&str> {
    let rest = number(rest.strip_prefix(['+', '-'])?, 2, 0..=23)?;
    number(rest.strip_prefix(':').unwrap_or(rest), 2, 0..=59)
}
